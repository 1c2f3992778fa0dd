// SPDX-License-Identifier: Apache-2.0
/*
 * The flash manager: decides how much of the cache nodes' flash the data set of each training job gets (jobs/worth.h).
 *
 *   cache nodes --- sizes ---\
 *                             manager --- verdicts ---> registry of jobs ---> cache nodes, terrane job top
 *   registry ---- reports ---/
 *
 * One janitor at a time is the manager, by a lease. It remembers nothing: what it needs is in the registry, so that another
 * janitor goes on when it dies. Two managers at once write the same verdicts. Nobody waits for a manager: a cache node follows
 * the verdicts that it has, and after WORTH_VERDICT_AGE_MS its policy alone.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "janitor/impl.h"
#include "jobs/worth.h"
#include "meta_client/jobs.h"
#include "rt/rt.h"
#include "shift/shift_client.h"

#define LEASE "flash"
#define ASK_NS (2 * NS_PER_S)

/* Returns the bytes of flash of a cache node; 0 if it does not answer. */
static uint64_t flash_of(struct call *c, uint64_t node)
{
	struct node_use u;
	AUTO_REPLY struct rpc_reply reply = {0};
	uint64_t bytes = 0;
	if (node_begin(c, node, &u) < 0)
		return 0;
	int rc = shift_status(u.channel, 0, ASK_NS, &reply);
	if (rc == 0) {
		const Terrane__Shift__StatusResponse *s = reply.message;
		if (!s->suspended && s->segment_bytes > 0 &&
		    s->segments_max < JOB_COUNTER_MAX / s->segment_bytes)
			bytes = s->segments_max * s->segment_bytes;
	}
	node_end(&u);
	return bytes;
}

/* Returns the flash of all cache nodes that answer. */
static uint64_t flash_of_all(struct janitor *j)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	AUTO_FREE uint64_t *ids = calloc(j->fabric.map->cache_nodes + 1, sizeof(*ids));
	uint64_t bytes = 0;
	size_t n = 0;
	map_for_each(&j->fabric.map->nodes, it) {
		const struct cluster_node *node = it.value;
		if (ids != NULL && node->cache_weight > 0 && node->health == CLUSTER_ONLINE &&
		    node->wanted == CLUSTER_ONLINE && n < j->fabric.map->cache_nodes)
			ids[n++] = node->id;
	}
	for (size_t i = 0; i < n; i++) /* the map may change meanwhile */
		bytes += flash_of(&e.call, ids[i]);
	return bytes;
}

/* Returns the part of its spec that a job reads now. */
static uint64_t part_of(const struct job_active *a)
{
	uint32_t part = a->state.progress.part;
	return a->spec->parts[part < a->spec->part_count ? part : 0].id;
}

/* Lists the jobs that count. */
static size_t list_jobs(const struct job_view *v, struct worth_job *jobs, struct job_judged *judged)
{
	size_t n = 0;
	for (size_t i = 0; i < job_view_count(v); i++) {
		const struct job_active *a = job_view_at(v, i);
		if (a == NULL)
			continue;
		jobs[n] = (struct worth_job){.tenant = a->tenant,
					     .set = part_of(a),
					     .order = a->spec->order,
					     .accelerators = a->spec->accelerators,
					     .state = &a->state,
					     .verdict = a->state.verdict};
		judged[n++] = (struct job_judged){
			.tenant = a->tenant, .id = a->id, .stamp = a->state.stamp};
	}
	return n;
}

/* Writes the verdicts that are new. */
static int tell(struct janitor *j, const struct worth_job *jobs, struct job_judged *judged,
		size_t n)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	size_t changed = 0;
	int rc = 0;
	for (size_t i = 0; i < n; i++) {
		if (!worth_is_new(&jobs[i].verdict, &jobs[i].state->verdict))
			continue;
		judged[changed] = judged[i];
		judged[changed++].verdict = jobs[i].verdict;
	}
	for (size_t at = 0; rc == 0 && at < changed; at += JOB_VERDICTS_MAX)
		rc = meta_client_job_judge(&m, judged + at,
					   min_u64(changed - at, JOB_VERDICTS_MAX));
	j->stats.flash_verdicts += rc == 0 ? changed : 0;
	return rc;
}

static int decide(struct janitor *j, uint64_t capacity)
{
	const struct job_view *v = j->jobs;
	size_t most = job_view_count(v) + 1;
	AUTO_FREE struct worth_job *jobs = calloc(most, sizeof(*jobs));
	AUTO_FREE struct job_judged *judged = calloc(most, sizeof(*judged));
	if (jobs == NULL || judged == NULL)
		return -ENOMEM;
	size_t n = list_jobs(v, jobs, judged);
	assert(n < most);
	int rc = worth_decide(jobs, n, capacity, job_view_wall_ms(v));
	return rc == 0 ? tell(j, jobs, judged, n) : rc;
}

static int read_jobs(struct janitor *j)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	int rc = j->jobs == NULL ? job_view_open(&j->jobs) : 0;
	return rc == 0 ? job_view_refresh(j->jobs, &m, NULL) : rc;
}

int janitor_flash(struct janitor *j)
{
	int rc = janitor_map(j);
	if (rc < 0 || j->fabric.map->cache_nodes == 0)
		return rc;
	rc = lease_keep(j, LEASE);
	if (rc == -EBUSY)
		return 0; /* another janitor is the manager */
	if (rc == 0)
		rc = read_jobs(j);
	return rc == 0 ? decide(j, flash_of_all(j)) : rc;
}

void flash_close(struct janitor *j)
{
	job_view_close(j->jobs);
	j->jobs = NULL;
}
