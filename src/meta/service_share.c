// SPDX-License-Identifier: Apache-2.0
/*
 * Traffic groups of the cluster: each server reads them from the store, gives them to its scheduler, and tells them to
 * clients together with the sums of the clients' counters. The counters are in memory only, because they describe the
 * last tenths of a second. All clients of a cluster report to the same server while it answers (meta_client/share.c); the
 * other servers have the groups and no counters. On a server with several loops they belong to the first.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "limits/board.h"
#include "meta/note.h"
#include "meta/service_impl.h"
#include "meta_api/group.h"
#include "rt/rt.h"
#include "sched/usage.h"

#define WATCH_NS (500 * NS_PER_MS)
#define NOTES_PAGE 32

static_assert((int)META_RESOURCES == BOARD_RESOURCES, "one sum for each resource");
static_assert(META_GROUPS_MAX < LIMITS_GROUPS_MAX, "the limiter has room for all groups");
static_assert(META_GROUPS_MAX <= SCHED_LISTED_MAX, "the scheduler has room for all groups");

struct service_share {
	struct board *board;
	struct meta_groups groups;
	struct meta_groups next; /* the groups while they are read */
	bool scheduled;          /* the scheduler has the groups */
	char names[META_GROUPS_MAX][SCHED_NAME_MAX + 1];
	struct sched_listed listed[META_GROUPS_MAX];
};

int ms_share_open(struct meta_service *s)
{
	s->share = calloc(1, sizeof(*s->share));
	return s->share == NULL ? -ENOMEM : board_open(&s->share->board, 0);
}

void ms_share_close(struct meta_service *s)
{
	if (s->share == NULL)
		return;
	board_close(s->share->board);
	free(s->share);
	s->share = NULL;
}

/* --- the groups ------------------------------------------------------------------------------- */

static void add_note(struct meta_groups *g, const struct meta_note *note)
{
	int rc = meta_groups_add(g, note);
	if (rc < 0)
		log_warn("group_ignored", "note=%s err=%s", note->name, err_name(rc));
}

/* Reads the groups into share->next. A note that is not valid is left out. */
static int read_groups(struct meta_service *s)
{
	struct meta_groups *g = &s->share->next;
	char after[META_NOTE_NAME_MAX + 1] = "";
	bool end = false;
	memset(g, 0, sizeof(*g));
	AUTO_FREE struct meta_note *page = calloc(NOTES_PAGE, sizeof(*page));
	if (page == NULL)
		return -ENOMEM;
	while (!end) {
		struct arena a;
		arena_init(&a, 2 * MIB);
		int64_t n = meta_note_list(s->meta, META_GROUPS_PREFIX, after, &a, page, NOTES_PAGE,
					   &end);
		for (int64_t i = 0; i < n; i++)
			add_note(g, &page[i]);
		if (n > 0)
			memcpy(after, page[n - 1].name, sizeof(after));
		arena_fini(&a);
		if (n < 0)
			return (int)n;
	}
	return 0;
}

static enum sched_class class_of(enum traffic_class c)
{
	assert(c >= TRAFFIC_GOLD && c <= TRAFFIC_BRONZE);
	return (enum sched_class)(SCHED_GOLD + (c - TRAFFIC_GOLD));
}

static int schedule(struct meta_service *s)
{
	struct service_share *h = s->share;
	const struct meta_groups *g = &h->groups;
	for (size_t i = 0; i < g->count; i++) {
		snprintf(h->names[i], sizeof(h->names[i]), "%s/%s", g->list[i].tenant_name,
			 g->list[i].name);
		h->listed[i] =
			(struct sched_listed){.group = h->names[i],
					      .weight = meta_groups_weight(g, i, META_QUERIES),
					      .best = class_of(g->list[i].traffic_class)};
	}
	return s->all->sched != NULL ? sched_list_groups(s->all->sched, h->listed, g->count) : 0;
}

int ms_share_load(struct meta_service *s)
{
	struct service_share *h = s->share;
	int rc = read_groups(s);
	if (rc < 0 || (h->scheduled && h->next.version == h->groups.version))
		return rc;
	h->groups = h->next;
	rc = schedule(s);
	h->scheduled = rc == 0;
	if (rc == 0 && h->groups.version != 0)
		log_info("groups_read", "groups=%zu version=%016lx", h->groups.count,
			 h->groups.version);
	return rc;
}

void ms_share_watch(void *arg)
{
	struct meta_service *s = arg;
	rt_background();
	do {
		int rc = ms_share_load(s);
		if (rc < 0 && rc != -ECANCELED)
			log_warn("groups_not_read", "err=%s", err_name(rc));
		board_expire(s->share->board, rt_now_ns());
		ms_place_tick(s);
	} while (rt_sleep_ns(WATCH_NS) == 0);
}

/* --- requests --------------------------------------------------------------------------------- */

static const struct meta_group *find(const struct meta_groups *g, uint32_t id)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->list[i].id == id)
			return &g->list[i];
	return NULL;
}

/* Takes the counters of the tenant's own groups, and of the shared group. A report on groups of other tenants would
 * change what these may use. */
static size_t own_counters(const struct meta_groups *g, uint32_t tenant,
			   Terrane__Meta__ShareCounter *const *in, size_t n,
			   struct limits_counter *out)
{
	size_t taken = 0;
	for (size_t i = 0; i < n; i++) {
		const struct meta_group *own = find(g, in[i]->group);
		if (in[i]->group != META_GROUP_OTHER && (own == NULL || own->tenant != tenant))
			continue;
		out[taken++] = (struct limits_counter){.group = in[i]->group,
						       .demand = in[i]->demand,
						       .weight = in[i]->weight,
						       .waiting = in[i]->waiting,
						       .throttled = in[i]->throttled};
	}
	return taken;
}

static int set_sums(struct rpc_request *r, const struct limits_counter *sums, size_t n,
		    Terrane__Meta__ShareCounter ***out)
{
	Terrane__Meta__ShareCounter *all = rpc_alloc(r, (n + 1) * sizeof(*all));
	*out = rpc_alloc(r, (n + 1) * sizeof(Terrane__Meta__ShareCounter *));
	if (all == NULL || *out == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		terrane__meta__share_counter__init(&all[i]);
		all[i].group = sums[i].group;
		all[i].demand = sums[i].demand;
		all[i].weight = sums[i].weight;
		(*out)[i] = &all[i];
	}
	return 0;
}

static int set_groups(struct rpc_request *r, const struct meta_groups *g,
		      Terrane__Meta__ShareResponse *p)
{
	Terrane__Meta__ShareGroup *all = rpc_alloc(r, (META_GROUPS_MAX + 1) * sizeof(*all));
	p->groups = rpc_alloc(r, (META_GROUPS_MAX + 1) * sizeof(Terrane__Meta__ShareGroup *));
	if (all == NULL || p->groups == NULL)
		return -ENOMEM;
	for (size_t i = 0; i <= g->count; i++) {
		struct meta_group other = {
			.id = META_GROUP_OTHER,
			.traffic_class = TRAFFIC_BRONZE,
			.quota = {meta_groups_other(g, META_DISK),
				  meta_groups_other(g, META_QUERIES)},
		};
		struct meta_group m = i < g->count ? g->list[i] : other;
		terrane__meta__share_group__init(&all[i]);
		all[i].id = m.id;
		all[i].tenant = m.tenant;
		all[i].traffic_class = m.traffic_class;
		all[i].iops = m.quota[META_DISK];
		all[i].queries = m.quota[META_QUERIES];
		all[i].free_disk = i == g->count && g->capacity[META_DISK] == 0;
		all[i].free_queries = i == g->count && g->capacity[META_QUERIES] == 0;
		p->groups[i] = &all[i];
	}
	p->n_groups = g->count + 1;
	p->changed = true;
	return 0;
}

/* Returns the number of a client on the board. A client of another tenant has another one, whatever it sends. */
static uint64_t client_on_board(uint64_t client, uint32_t tenant)
{
	return max_u64(hash64(&client, sizeof(client), tenant), 1);
}

/* Takes a client's report for one resource, and adds the sums to the response. */
static int count_one(struct rpc_request *r, uint32_t tenant, enum meta_resource resource,
		     struct limits_counter *counters)
{
	const Terrane__Meta__ShareRequest *q = rpc_body(r);
	Terrane__Meta__ShareResponse *p = rpc_reply_body(r);
	struct service_share *h = ((struct meta_service *)r->service)->share;
	bool disk = resource == META_DISK;
	size_t n = disk ? q->n_disk : q->n_queries;
	if (n > LIMITS_GROUPS_MAX)
		return rpc_fail(r, -EINVAL, "a report has at most %d counters", LIMITS_GROUPS_MAX);
	n = own_counters(&h->groups, tenant, disk ? q->disk : q->queries, n, counters);
	int rc = board_report(h->board, client_on_board(q->client, tenant), resource, counters, n,
			      rt_now_ns());
	if (rc < 0)
		return rc == -ENOSPC ? rpc_fail(r, rc, "too many clients report their demand") : rc;
	size_t sums = board_sums(h->board, resource, counters, LIMITS_GROUPS_MAX);
	*(disk ? &p->n_disk : &p->n_queries) = sums;
	return set_sums(r, counters, sums, disk ? &p->disk : &p->queries);
}

int ms_handle_share(struct rpc_request *r)
{
	const Terrane__Meta__ShareRequest *q = rpc_body(r);
	Terrane__Meta__ShareResponse *p = rpc_reply_body(r);
	struct service_share *h = ((struct meta_service *)r->service)->share;
	struct limits_counter *counters = rpc_alloc(r, LIMITS_GROUPS_MAX * sizeof(*counters));
	struct meta_ctx ctx = {0};
	int rc = ms_enter(r, &ctx);
	if (rc < 0)
		return rc;
	if (counters == NULL)
		return -ENOMEM;
	if (!h->scheduled)
		return rpc_fail(r, -EAGAIN, "the server has not read the traffic groups yet");
	p->version = h->groups.version;
	if (q->version != p->version)
		rc = set_groups(r, &h->groups, p);
	for (int i = 0; rc == 0 && q->client != 0 && i < META_RESOURCES; i++)
		rc = count_one(r, ctx.tenant, (enum meta_resource)i, counters);
	return rc;
}

/* --- use, for operators ------------------------------------------------------------------------- */

static char *text_of(struct rpc_request *r, const char *text)
{
	char *copy = rpc_alloc(r, strlen(text) + 1);
	if (copy != NULL)
		memcpy(copy, text, strlen(text) + 1);
	return copy;
}

static int add_use(struct rpc_request *r, const struct sched_usages *sum)
{
	Terrane__Meta__TrafficResponse *p = rpc_reply_body(r);
	Terrane__Meta__GroupTraffic *all = rpc_alloc(r, (sum->count + 1) * sizeof(*all));
	p->groups = rpc_alloc(r, (sum->count + 1) * sizeof(p->groups[0]));
	if (all == NULL || p->groups == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < sum->count; i++) {
		const struct sched_usage *u = &sum->list[i];
		terrane__meta__group_traffic__init(&all[i]);
		all[i].group = text_of(r, u->group);
		if (all[i].group == NULL)
			return -ENOMEM;
		all[i].requests = u->requests;
		all[i].refused = u->refused;
		all[i].time_ns = u->disk_ns;
		all[i].waiting = u->waiting;
		p->groups[p->n_groups++] = &all[i];
	}
	return 0;
}

/* Adds what clients report of one resource to the entries of their groups. */
static void add_reports(const struct service_share *h, enum meta_resource resource,
			struct limits_counter *sums, Terrane__Meta__ClientTraffic *all)
{
	const struct meta_groups *g = &h->groups;
	size_t n = board_sums(h->board, resource, sums, LIMITS_GROUPS_MAX);
	for (size_t i = 0; i < n; i++) {
		const struct meta_group *of = find(g, sums[i].group);
		size_t at = of != NULL ? (size_t)(of - g->list) : g->count;
		if (of == NULL && sums[i].group != META_GROUP_OTHER)
			continue; /* the group was removed a moment ago */
		all[at].waiting += sums[i].waiting;
		all[at].throttled += sums[i].throttled;
	}
}

static int add_clients(struct rpc_request *r, const struct service_share *h)
{
	Terrane__Meta__TrafficResponse *p = rpc_reply_body(r);
	size_t room = h->groups.count + 1;
	struct limits_counter *sums = rpc_alloc(r, LIMITS_GROUPS_MAX * sizeof(*sums));
	Terrane__Meta__ClientTraffic *all = rpc_alloc(r, room * sizeof(*all));
	p->clients = rpc_alloc(r, room * sizeof(p->clients[0]));
	if (sums == NULL || all == NULL || p->clients == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < room; i++) {
		char name[SCHED_NAME_MAX + 1] = META_TRAFFIC_OTHERS;
		const struct meta_group *g = &h->groups.list[i];
		if (i < h->groups.count)
			snprintf(name, sizeof(name), "%s/%s", g->tenant_name, g->name);
		terrane__meta__client_traffic__init(&all[i]);
		all[i].group = text_of(r, name);
		if (all[i].group == NULL)
			return -ENOMEM;
		p->clients[p->n_clients++] = &all[i];
	}
	for (int resource = 0; resource < META_RESOURCES; resource++)
		add_reports(h, (enum meta_resource)resource, sums, all);
	return 0;
}

int ms_handle_traffic(struct rpc_request *r)
{
	struct meta_service *s = r->service;
	int rc = ms_system(r);
	if (rc < 0)
		return rc;
	AUTO_FREE struct sched_usages *sum = calloc(1, sizeof(*sum));
	if (sum == NULL)
		return -ENOMEM;
	if (s->all->sched != NULL)
		sched_usage_add(s->all->sched, sum);
	rc = add_use(r, sum);
	return rc == 0 ? add_clients(r, s->share) : rc;
}
