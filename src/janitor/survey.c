// SPDX-License-Identifier: Apache-2.0
/* One walk of all Block records for all services that need it. It counts the blocks (stats.h)
 * and collects jobs: chunks to move (balance.c), blocks to compact (compact.c), to re-encode
 * (policy.c) or to move from flash to disk (demote.c). A share of the partitions is walked at a time; then its jobs are done, for at
 * most the time between two surveys. The next survey finds the jobs that are left. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "janitor/impl.h"
#include "rt/rt.h"

#define PAGE 64
#define REWRITE_TIMEOUT_NS (60 * NS_PER_S)
#define TENANTS_MAX 256 /* largest number of tenants whose use is reported */

static int jobs_add(struct jobs *w, const struct meta_block_at *b)
{
	assert(w->count <= w->cap && w->next == 0);
	if (w->count == JOBS_MAX)
		return 0;
	if (w->count == w->cap) {
		size_t cap = w->cap == 0 ? 64 : w->cap * 2;
		struct job *list = realloc(w->list, cap * sizeof(*list));
		if (list == NULL)
			return -ENOMEM;
		w->list = list;
		w->cap = cap;
	}
	w->list[w->count++] = (struct job){
		.tenant = b->tenant,
		.block = b->block.id,
		.live_bytes = b->owned_bytes,
		.kind = hash64(b->block.encoding, strlen(b->block.encoding), b->block.media)};
	return 0;
}

struct share_work {
	struct janitor *j;
	char lease[32];
	struct stats stats;
	struct jobs jobs[SURVEY_SERVICES];
	int rc;
};

static const struct {
	const char *name;
	bool (*wants)(struct janitor *j, const struct meta_block_at *b);
	int (*run)(struct janitor *j, struct jobs *w);
} services[SURVEY_SERVICES] = {
	{"balance", balance_wants, balance_run},
	{"compact", compact_wants, compact_run},
	{"policy", policy_wants, policy_run},
	{"demote", demote_wants, demote_run},
};

static int walk(struct share_work *w, unsigned share)
{
	struct janitor *j = w->j;
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	uint32_t racks[CLUSTER_MEDIA_COUNT];
	for (unsigned i = 0; i < CLUSTER_MEDIA_COUNT; i++)
		racks[i] = stats_racks(j->fabric.map, (enum cluster_media)i);
	int rc = 0;
	for (struct meta_walk at = share_walk(j, share); rc == 0 && at.index < at.end;) {
		struct meta_block_at found[PAGE];
		struct arena a;
		arena_init(&a, 4 * MIB);
		int64_t n = meta_client_blocks(&m, &at, &a, found, PAGE);
		rc = n < 0 ? (int)n : 0;
		for (int64_t i = 0; rc == 0 && i < n; i++) {
			rc = stats_block(&w->stats, j->fabric.map, racks[found[i].block.media],
					 &found[i]);
			health_count(j, &found[i].block, &w->stats);
			for (size_t k = 0; rc == 0 && k < SURVEY_SERVICES; k++)
				if (services[k].wants(j, &found[i]))
					rc = jobs_add(&w->jobs[k], &found[i]);
		}
		arena_fini(&a);
		if (rc == 0)
			rc = lease_keep(j, w->lease);
	}
	return rc;
}

/* Argument of the fiber of one service. Each service runs in its own fiber, so that its waits
 * for disks do not delay the other services. */
struct service_run {
	struct share_work *w;
	size_t service;
};

static void service_fiber(void *arg)
{
	struct service_run *r = arg;
	assert(r->service < SURVEY_SERVICES);
	struct share_work *w = r->w;
	int rc = services[r->service].run(w->j, &w->jobs[r->service]);
	if (rc < 0 && rc != -ECANCELED && rc != -EBUSY && rc != -ETIME)
		log_warn("survey", "what=%s rc=%d", services[r->service].name, rc);
	if (w->rc == 0 && (rc == -ECANCELED || rc == -EBUSY))
		w->rc = rc;
}

static int work(struct share_work *w)
{
	struct service_run runs[SURVEY_SERVICES];
	struct rt_group g;
	rt_group_init(&g);
	for (size_t k = 0; k < SURVEY_SERVICES; k++) {
		runs[k] = (struct service_run){w, k};
		w->jobs[k].lease = w->lease;
		w->jobs[k].stats = &w->stats;
		w->jobs[k].end_ns = rt_now_ns() + w->j->opts.survey_ns;
		if (w->jobs[k].count > 0 &&
		    rt_group_spawn(&g, services[k].name, service_fiber, &runs[k]) < 0)
			break;
	}
	rt_group_join(&g);
	return w->rc;
}

bool jobs_next(struct janitor *j, struct jobs *w, struct job *out, int *rc)
{
	assert(w->next <= w->count && w->lease != NULL && w->end_ns != 0);
	*rc = w->next > 0 ? lease_keep(j, w->lease) : 0;
	/* Repair has priority over this work. */
	while (*rc == 0 && j->stats.blocks_waiting > 0 && rt_now_ns() < w->end_ns)
		*rc = rt_sleep_ns(NS_PER_S);
	if (*rc < 0 || w->next == w->count || rt_now_ns() >= w->end_ns)
		return false;
	*out = w->list[w->next++];
	return true;
}

/* --- what services use ------------------------------------------------------------------------- */

int rewrite_records(struct janitor *j, uint32_t tenant, const uint64_t *blocks, size_t n,
		    struct arena *a, struct meta_block *out)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, tenant);
	struct meta_call m = tenant_call_meta(j, &e);
	return meta_client_block_get(&m, blocks, n, a, out);
}

int rewrite_wait(struct janitor *j, const struct meta_block *b, size_t n, uint64_t bytes)
{
	assert(n > 0);
	double part = (double)j->opts.percent / 100 / (1 + j->others);
	int rc = pacer_wait(&j->rewrites, bytes,
			    (uint64_t)((double)j->opts.rack_bytes_per_s * part) + 1);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		double of_length = (double)bytes / (double)n / (double)b[i].length;
		for (size_t k = 0; rc == 0 && b[i].length > 0 && k < b[i].chunk_count; k++)
			rc = pace_local(j, b[i].chunks[k].disk,
					(uint64_t)((double)b[i].chunk_length * of_length));
	}
	return rc;
}

uint64_t rewrite_call(struct tenant_call *e)
{
	/* The old chunks are deleted as soon as the record names the new chunks, so all new
	 * chunks must be stored before. */
	e->call.quorum = ENCODING_STRIPE_MAX;
	return rt_deadline_narrow(rt_now_ns() + REWRITE_TIMEOUT_NS);
}

/* --- shares ------------------------------------------------------------------------------------ */

static int share_survey(struct janitor *j, unsigned share)
{
	struct share_work w = {.j = j};
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	snprintf(w.lease, sizeof(w.lease), "survey/%u", share);
	int rc = lease_take(j, w.lease);
	if (rc < 0)
		return rc == -EBUSY ? 0 : rc;
	stats_init(&w.stats);
	w.stats.taken_ns = rt_wall_ns();
	rc = walk(&w, share);
	if (rc == 0)
		rc = stats_save(&m, share, &w.stats);
	if (rc == 0)
		rc = work(&w);
	/*
	 * The moves changed the counts: store the new counts, because the next survey decides by
	 * them.
	 */
	if (rc == 0 && w.jobs[SURVEY_BALANCE].changed)
		rc = stats_save(&m, share, &w.stats);
	stats_fini(&w.stats);
	for (size_t k = 0; k < SURVEY_SERVICES; k++)
		free(w.jobs[k].list);
	if (rc == 0)
		lease_drop(j, w.lease);
	return rc == -EBUSY ? 0 : rc;
}

/* Loads the sum of the counts of all shares. */
static int sums_load(struct janitor *j)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	struct stats now;
	stats_init(&now);
	int rc = stats_load(&m, &now);
	if (rc < 0) {
		stats_fini(&now);
		return rc;
	}
	stats_fini(&j->sums);
	j->sums = now;
	for (unsigned i = 0; i < CLUSTER_MEDIA_COUNT; i++)
		stats_balance(&j->sums, j->fabric.map, (enum cluster_media)i, &j->balance[i]);
	return 0;
}

/* Loads the use of tenants: their accounts, and the last count of their trees. */
static int tenants_load(struct janitor *j)
{
	struct tenant_call root;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &root, 0);
	struct meta_call m = tenant_call_meta(j, &root);
	AUTO_FREE struct meta_tenant *page = calloc(TENANTS_MAX, sizeof(*page));
	struct tenant_use *all = calloc(TENANTS_MAX, sizeof(*all));
	int64_t n = page == NULL || all == NULL ? -ENOMEM
						: meta_client_tenant_list(&m, 0, page, TENANTS_MAX);
	size_t count = 0;
	for (int64_t i = 0; i < n; i++) {
		if (page[i].removed ||
		    meta_client_tenant_get(&m, page[i].id, NULL, &all[count].tenant) < 0)
			continue;
		struct tenant_call e;
		AUTO_RT_CONTEXT const struct context *own = tenant_call_init(j, &e, page[i].id);
		struct meta_call of = tenant_call_meta(j, &e);
		count += meta_client_du(&of, META_ROOT, false, &all[count].usage) == 0;
	}
	if (n < 0) {
		free(all);
		return (int)n;
	}
	free(j->tenants);
	j->tenants = all;
	j->tenant_count = count;
	return 0;
}

int janitor_survey(struct janitor *j)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	int first = 0, rc = janitor_map(j);
	if (rc == 0)
		rc = meta_client_gc_epoch(&m, &j->survey_epoch, &j->partitions);
	if (rc == 0)
		rc = sums_load(j);
	if (rc == 0)
		rc = policies_load(j);
	if (rc == 0)
		rc = demote_load(j);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < JANITOR_SHARES; i++)
		if (!share_next(share_survey(j, share_turn(j, i)), &first) ||
		    !share_next(janitor_map(j), &first))
			return first;
	if (share_next(sums_load(j), &first))
		(void)share_next(tenants_load(j), &first);
	j->stats.surveys += first == 0;
	return first;
}
