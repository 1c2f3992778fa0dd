// SPDX-License-Identifier: Apache-2.0
/*
 * Sharing: the client's limiters (limits/limiter.h), one for each resource, and their counters.
 *
 * The reporting fiber sends the counters of each window and gets the sums over all clients, and the groups if they have
 * changed. All clients have to report to the same server, because each server adds up what it gets: that is the first
 * of the servers in order of their addresses. While it does not answer, its clients report to the next one, and try
 * it again every RETRY_NS. For this time a client may have sums that miss others, and use more than its share.
 *
 * A client that has sent no request for IDLE_WINDOWS windows reports every IDLE_NS; the next request wakes the fiber. A
 * client that reports to no server for ten windows keeps to the quotas of its groups and borrows nothing.
 *
 * The waking fiber moves requests on when their bucket has room. It runs while requests wait.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "limits/limiter.h"
#include "meta_client/impl.h"
#include "rt/rt.h"

#define IDLE_WINDOWS 20
#define IDLE_NS (1 * NS_PER_S)
#define RETRY_NS (5 * NS_PER_S)
#define REPORT_TIMEOUT_NS (500 * NS_PER_MS)

/* A request that waits for its limiter; on the stack of its fiber. */
struct waiter {
	struct limits_request request;
	struct rt_cond decided;
};

struct mc_share {
	struct meta_client *client;
	uint64_t id;      /* number of this client in its reports */
	uint64_t version; /* of the groups; 0: there are none */
	struct limiter *limiters[META_RESOURCES];
	struct limits_group groups[META_RESOURCES][LIMITS_GROUPS_MAX];
	size_t counts[META_RESOURCES]; /* 0: the resource is not limited */
	unsigned idle;                 /* windows without a request */
	struct rt_cond report_now;     /* a request came while the client was idle */
	struct rt_cond wake_now;       /* a request waits */
	struct rt_group fibers;
	/* order in which servers are asked: indices into client->channels, by address */
	size_t servers[META_CLIENT_SERVERS_MAX];
	uint64_t failed_ns[META_CLIENT_SERVERS_MAX]; /* of servers[i]; 0: it answered */
	struct limits_counter counters[LIMITS_GROUPS_MAX];
};

/* --- groups and counters from the server ------------------------------------------------------ */

/* Sets the groups of one resource. A resource that no listed group has a quota of is not limited. */
static int groups_set(struct mc_share *s, enum meta_resource r,
		      const Terrane__Meta__ShareResponse *p)
{
	size_t n = 0;
	bool limited = false;
	if (p->n_groups > LIMITS_GROUPS_MAX)
		return -EPROTO;
	for (size_t i = 0; i < p->n_groups; i++) {
		const Terrane__Meta__ShareGroup *g = p->groups[i];
		uint64_t quota = r == META_DISK ? g->iops : g->queries;
		if (quota > META_QUOTA_MAX * META_GROUPS_MAX)
			return -EPROTO;
		if (r == META_DISK ? g->free_disk : g->free_queries)
			continue;
		limited = limited || (quota > 0 && g->id != META_GROUP_OTHER);
		s->groups[r][n++] =
			(struct limits_group){.id = g->id,
					      .tenant = g->tenant,
					      .traffic_class = (enum traffic_class)g->traffic_class,
					      .quota = meta_quota_units(r, quota)};
	}
	s->counts[r] = limited ? n : 0;
	int rc = limiter_groups(s->limiters[r], s->groups[r], s->counts[r]);
	return rc < 0 ? -EPROTO : 0;
}

static int groups_take(struct mc_share *s, const Terrane__Meta__ShareResponse *p)
{
	int rc = 0;
	for (int r = 0; rc == 0 && r < META_RESOURCES; r++)
		rc = groups_set(s, (enum meta_resource)r, p);
	s->version = rc == 0 ? p->version : 0;
	rt_cond_signal(&s->wake_now); /* requests of groups that are gone */
	return rc;
}

/* Gives the sums to the limiter; a group without a sum has no demand. */
static int sums_take(struct mc_share *s, enum meta_resource r,
		     Terrane__Meta__ShareCounter *const *sums, size_t n)
{
	if (n > LIMITS_GROUPS_MAX)
		return -EPROTO;
	for (size_t i = 0; i < s->counts[r]; i++) {
		struct limits_counter *c = &s->counters[i];
		*c = (struct limits_counter){.group = s->groups[r][i].id};
		for (size_t k = 0; k < n; k++)
			if (sums[k]->group == c->group) {
				c->demand = sums[k]->demand;
				c->weight = sums[k]->weight;
			}
	}
	limiter_counters(s->limiters[r], s->counters, s->counts[r]);
	return 0;
}

/* --- reports ---------------------------------------------------------------------------------- */

/* Writes the counters of a resource that are not 0 into the arena. */
static int counters_make(struct mc_share *s, enum meta_resource r, struct arena *a,
			 Terrane__Meta__ShareCounter ***out, size_t *count)
{
	size_t n = limiter_report(s->limiters[r], rt_now_ns(), s->counters, LIMITS_GROUPS_MAX);
	Terrane__Meta__ShareCounter *all = arena_alloc(a, (n + 1) * sizeof(*all));
	*out = arena_alloc(a, (n + 1) * sizeof(Terrane__Meta__ShareCounter *));
	*count = 0;
	if (all == NULL || *out == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct limits_counter *c = &s->counters[i];
		Terrane__Meta__ShareCounter *m = &all[*count];
		if (c->demand == 0 && c->weight == 0)
			continue;
		terrane__meta__share_counter__init(m);
		m->group = c->group;
		m->demand = c->demand;
		m->weight = c->weight;
		m->waiting = c->waiting;
		m->throttled = c->throttled;
		(*out)[(*count)++] = m;
	}
	return 0;
}

static int ask(struct mc_share *s, size_t server, const Terrane__Meta__ShareRequest *q)
{
	AUTO_REPLY struct rpc_reply reply;
	struct rpc_call call = {
		.type = &meta_type_share, .request = &q->base, .timeout_ns = REPORT_TIMEOUT_NS};
	int rc = rpc_call(s->client->channels[server], &call, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__ShareResponse *p = reply.message;
	if (p->changed)
		rc = groups_take(s, p);
	if (rc == 0 && s->counts[META_DISK] > 0)
		rc = sums_take(s, META_DISK, p->disk, p->n_disk);
	if (rc == 0 && s->counts[META_QUERIES] > 0)
		rc = sums_take(s, META_QUERIES, p->queries, p->n_queries);
	return rc;
}

/* Sends the report to the first server that answers. */
static void report(struct mc_share *s, const Terrane__Meta__ShareRequest *q)
{
	for (size_t i = 0; i < s->client->count; i++) {
		if (s->failed_ns[i] != 0 && rt_elapsed_ns(s->failed_ns[i]) < RETRY_NS &&
		    i + 1 < s->client->count)
			continue;
		int rc = ask(s, s->servers[i], q);
		s->failed_ns[i] = rc == 0 ? 0 : rt_now_ns();
		if (rc == 0 || rt_cancelled())
			return;
		log_debug("share_not_reported", "err=%s", err_name(rc));
	}
}

static void report_window(struct mc_share *s)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, 64 * KIB);
	Terrane__Meta__ShareRequest q = TERRANE__META__SHARE_REQUEST__INIT;
	q.client = s->id;
	q.version = s->version;
	int rc = counters_make(s, META_DISK, &a, &q.disk, &q.n_disk);
	if (rc == 0)
		rc = counters_make(s, META_QUERIES, &a, &q.queries, &q.n_queries);
	if (rc < 0)
		return;
	s->idle = q.n_disk + q.n_queries == 0 ? s->idle + 1 : 0;
	report(s, &q);
}

/* Waits until the next report: a window, or longer while no request comes. */
static int report_wait(struct mc_share *s, uint64_t began_ns)
{
	bool limited = s->counts[META_DISK] + s->counts[META_QUERIES] > 0;
	if (limited && s->idle < IDLE_WINDOWS) {
		uint64_t spent_ns = rt_elapsed_ns(began_ns);
		return rt_sleep_ns(LIMITS_WINDOW_NS - min_u64(spent_ns, LIMITS_WINDOW_NS - 1));
	}
	rt_deadline_set(rt_now_ns() + IDLE_NS);
	int rc = rt_cond_wait(&s->report_now);
	rt_deadline_set(RT_NEVER);
	return rc == -ETIME ? 0 : rc;
}

static void report_fiber(void *arg)
{
	struct mc_share *s = arg;
	uint64_t began_ns;
	rt_background();
	rt_context_set(s->client->own);
	do {
		began_ns = rt_now_ns();
		report_window(s);
	} while (report_wait(s, began_ns) == 0);
}

/* --- requests that wait ----------------------------------------------------------------------- */

static uint64_t move_on(struct mc_share *s)
{
	uint64_t next_ns = RT_NEVER;
	for (int r = 0; r < META_RESOURCES; r++) {
		struct list done;
		list_init(&done);
		next_ns = min_u64(next_ns, limiter_poll(s->limiters[r], rt_now_ns(), &done));
		while (!list_empty(&done)) {
			struct waiter *w = container_of(done.next, struct waiter, request.link);
			list_remove(&w->request.link);
			assert(w->request.state != LIMITS_WAITING);
			rt_cond_signal(&w->decided);
		}
	}
	return next_ns;
}

static void wake_fiber(void *arg)
{
	struct mc_share *s = arg;
	rt_background();
	for (;;) {
		uint64_t next_ns = move_on(s);
		rt_deadline_set(next_ns);
		int rc = rt_cond_wait(&s->wake_now);
		rt_deadline_set(RT_NEVER);
		if (rc < 0 && rc != -ETIME)
			return;
	}
}

/* Waits until the limiter has decided. */
static int await(struct mc_share *s, struct limiter *l, struct waiter *w)
{
	int rc = 0;
	if (w->request.state == LIMITS_WAITING)
		rt_cond_signal(&s->wake_now);
	while (rc == 0 && w->request.state == LIMITS_WAITING)
		rc = rt_cond_wait(&w->decided);
	/* a fiber that was cancelled after its request was sent does not send it */
	if (w->request.state == LIMITS_WAITING)
		limiter_cancel(l, &w->request);
	if (rc == 0 && w->request.state == LIMITS_REFUSED)
		rc = -ETIME;
	return rc;
}

/* Returns the id of the group that limits the context's requests; 0: none does. */
static uint32_t group_of(const struct mc_share *s, enum meta_resource r, const struct context *c)
{
	const char *tenant = c->tenant[0] != 0 ? c->tenant : s->client->own->tenant;
	bool other = false;
	if (s->counts[r] == 0 || strncmp(tenant, META_SYSTEM, strlen(META_SYSTEM)) == 0)
		return 0;
	uint32_t id = meta_group_id(tenant, c->traffic_group);
	for (size_t i = 0; i < s->counts[r]; i++) {
		if (s->groups[r][i].id == id)
			return id;
		other = other || s->groups[r][i].id == META_GROUP_OTHER;
	}
	return other ? META_GROUP_OTHER : 0;
}

/* Submits the request to the limiter of its group, and waits for the decision. */
static int submit(struct mc_share *s, enum meta_resource r, uint32_t group, uint64_t cost,
		  struct waiter *w)
{
	assert(group != 0);
	*w = (struct waiter){.request = {.group = group,
					 .cost = min_u64(cost, LIMITS_COST_MAX),
					 .deadline_ns = rt_deadline()}};
	rt_cond_init(&w->decided);
	if (s->idle >= IDLE_WINDOWS)
		rt_cond_signal(&s->report_now);
	s->idle = 0;
	int rc = limiter_submit(s->limiters[r], &w->request, rt_now_ns());
	assert(rc != -ENOENT);
	return rc == 0 ? await(s, s->limiters[r], w) : rc;
}

int meta_client_admit(struct meta_client *c, enum meta_resource r, uint64_t cost,
		      enum traffic_class *as)
{
	assert(rt_on_loop(c->loop) && r < META_RESOURCES && cost > 0);
	struct mc_share *s = c->share;
	struct waiter w;
	uint32_t group = 0;
	int rc = 0;
	*as = rt_context()->traffic_class;
	c->calls_active++;
	while (s != NULL && (group = group_of(s, r, rt_context())) != 0) {
		rc = submit(s, r, group, cost, &w);
		/* the limiter also refuses requests of a group that was removed while they waited */
		if (rc != -ETIME || group_of(s, r, rt_context()) == group)
			break;
		rc = 0;
	}
	assert(c->calls_active > 0);
	c->calls_active--;
	if (rc == 0 && group != 0 && w.request.traffic_class > *as)
		*as = w.request.traffic_class;
	return rc;
}

int mc_share_class(enum traffic_class as)
{
	const struct context *now = rt_context();
	if (now->traffic_class == as)
		return 0;
	struct context like = *now;
	like.traffic_class = as;
	AUTO_CONTEXT const struct context *made = NULL;
	int rc = context_new(&made, &like);
	if (rc == 0)
		rt_context_set(made);
	return rc;
}

int meta_client_enter(struct meta_client *c, enum meta_resource r, uint64_t cost,
		      const struct context **before)
{
	enum traffic_class as;
	*before = rt_context_enter(rt_context());
	int rc = meta_client_admit(c, r, cost, &as);
	return rc == 0 ? mc_share_class(as) : rc;
}

int meta_client_share_stats(const struct meta_client *c, enum meta_resource r, uint32_t group,
			    struct meta_share_stats *out)
{
	struct limiter_stats stats;
	const struct mc_share *s = c->share;
	if (s == NULL || limiter_stats(s->limiters[r], group, &stats) < 0)
		return -ENOENT;
	*out = (struct meta_share_stats){
		.limited = true,
		.sent = stats.sent,
		.cost = stats.sent_cost,
		.borrowed = stats.borrowed_cost,
		.delayed = stats.delayed,
		.refused = stats.refused,
		.waiting = stats.waiting,
	};
	for (size_t i = 0; i < s->counts[r]; i++)
		if (s->groups[r][i].id == group)
			out->quota = s->groups[r][i].quota;
	return 0;
}

/* --- open, close ------------------------------------------------------------------------------ */

/* Sorts the servers by address, so that all clients have the same order. */
static void order_servers(struct mc_share *s, const char *const *addrs, size_t n)
{
	assert(n <= META_CLIENT_SERVERS_MAX);
	for (size_t i = 0, at; i < n; i++) {
		for (at = i; at > 0 && strcmp(addrs[s->servers[at - 1]], addrs[i]) > 0; at--)
			s->servers[at] = s->servers[at - 1];
		s->servers[at] = i;
	}
}

int mc_share_open(struct meta_client *c, const char *const *addrs)
{
	struct mc_share *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	c->share = s;
	s->client = c;
	s->id = rt_random_u64() | 1;
	rt_cond_init(&s->report_now);
	rt_cond_init(&s->wake_now);
	rt_group_init(&s->fibers);
	order_servers(s, addrs, c->count);
	int rc = 0;
	for (int r = 0; rc == 0 && r < META_RESOURCES; r++)
		rc = limiter_open(&s->limiters[r], NULL, rt_now_ns());
	if (rc == 0)
		rc = rt_group_spawn(&s->fibers, "share-report", report_fiber, s);
	if (rc == 0)
		rc = rt_group_spawn(&s->fibers, "share-wake", wake_fiber, s);
	return rc;
}

void mc_share_close(struct meta_client *c)
{
	struct mc_share *s = c->share;
	if (s == NULL)
		return;
	rt_group_cancel(&s->fibers);
	rt_group_join(&s->fibers);
	for (int r = 0; r < META_RESOURCES; r++)
		limiter_close(s->limiters[r]);
	free(s);
	c->share = NULL;
}
