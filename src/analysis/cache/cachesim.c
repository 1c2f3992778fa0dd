// SPDX-License-Identifier: Apache-2.0
#include "analysis/cache/cachesim.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/cache/cachesim_impl.h"
#include "base/base.h"
#include "cache/region.h"

#define REGION_BYTES (16 * MIB)
#define REGIONS_WANTED 1024u /* smaller regions rather than fewer ones */
#define GROUPS_WANTED 64u
#define REGIONS_PER_GROUP 32u /* open regions are at most this part of all */
#define HISTORY_BYTES (8 * MIB)
#define INDEX_BYTES 32u /* for each segment on flash */
#define TICK_MS 1000u
#define IDLE_MS 60000u /* without gets for this time, ticks are this far apart */
#define REPORT_GETS (1u << 18)

bool cachesim_has(const char *policy)
{
	return strcmp(policy, CACHESIM_BOUND) == 0 || cache_policy_find(policy) != NULL;
}

int cachesim_node(const struct workload *w, struct cachesim_node *out, char *why, size_t why_size)
{
	uint64_t flash = w->flash_bytes / w->nodes, segment = w->segment_bytes;
	uint64_t all = flash / segment, region = w->region_bytes / segment;
	if (w->region_bytes == 0)
		region = max_u64(min_u64(REGION_BYTES / segment, all / REGIONS_WANTED), 1);
	region = max_u64(min_u64(region, UINT16_MAX), 1);
	uint64_t footer = cache_footer_bytes((uint32_t)region);
	uint64_t region_bytes = region * segment + footer, regions = flash / region_bytes;
	uint64_t groups = max_u64(min_u64(GROUPS_WANTED, regions / REGIONS_PER_GROUP), 1);
	if (regions < groups + 3) {
		snprintf(why, why_size,
			 "flash_bytes: each node needs at least 4 regions of %llu "
			 "bytes; use more flash, fewer nodes or smaller region_bytes",
			 (unsigned long long)region_bytes);
		return -EINVAL;
	}
	uint64_t history = w->history_bytes != 0 ? w->history_bytes : HISTORY_BYTES;
	uint64_t taken = regions * region * INDEX_BYTES + history;
	*out = (struct cachesim_node){
		.footer_bytes = footer,
		.params = {.segment_bytes = segment,
			   .region_segments = (uint32_t)region,
			   .regions = (uint32_t)min_u64(regions, 1u << 28),
			   .groups_max = (uint32_t)groups,
			   .write_limit_bytes_s = w->write_limit_bytes_s,
			   .history_bytes = history,
			   .history_ms = (uint64_t)(w->history_s * 1000),
			   .refresh_ms = (uint64_t)fmax(w->refresh_s * 1000, 1),
			   .min_threshold = w->min_threshold,
			   .reinsert_offset = w->reinsert_offset,
			   .share = 1.0 / w->nodes,
			   .seed = w->seed,
			   .bucket_table = w->bucket_table,
			   .bucket_tables = w->buckets_n}};
	if (w->dram_bytes < taken + segment) {
		snprintf(why, why_size,
			 "dram_bytes: index and history window of a node take %llu bytes of it; at "
			 "least one segment must fit beside them",
			 (unsigned long long)taken);
		return -EINVAL;
	}
	out->dram_segments = (uint32_t)min_u64((w->dram_bytes - taken) / segment, 1u << 30);
	out->params.dram_bytes = out->dram_segments * segment;
	const char *wrong = cache_params_check(&out->params);
	if (wrong != NULL)
		snprintf(why, why_size, "%s", wrong);
	return wrong == NULL ? 0 : -EINVAL;
}

/* ---- the time line ---- */

static void step_add(struct cachesim_result *out, double at_s, struct cachesim_step add)
{
	if (out->step_s <= 0)
		out->step_s = 1;
	while (at_s >= out->step_s * CACHESIM_STEPS) {
		for (size_t i = 0; i < CACHESIM_STEPS / 2; i++) {
			struct cachesim_step a = out->steps[2 * i], b = out->steps[2 * i + 1];
			out->steps[i] = (struct cachesim_step){a.requested + b.requested,
							       a.absorbed + b.absorbed,
							       a.written + b.written};
		}
		memset(out->steps + CACHESIM_STEPS / 2, 0, sizeof(out->steps) / 2);
		out->step_s *= 2;
	}
	struct cachesim_step *s = &out->steps[(uint32_t)(at_s / out->step_s)];
	s->requested += add.requested;
	s->absorbed += add.absorbed;
	s->written += add.written;
}

/* ---- a run ---- */

struct node {
	struct cache_core core;
	struct cache_jobs jobs;
	uint64_t appended; /* segments, at the last step */
};

struct run {
	const struct workload *w;
	const struct cachesim_options *o;
	struct cachesim_result *out;
	struct cachesim_node size;
	struct node *nodes;
	uint32_t nodes_n;
	uint32_t *number; /* [job of the workload]: its number in the registry's view */
	uint32_t *
		after; /* numbers of the jobs that each registered job waits for, one list after another */
	uint64_t now_ms, ticked_ms, last_get_ms;
	uint64_t requested, served, fetched, hit, disk_read, segments, hits, gets;
	uint64_t reported, stepped[3]; /* bytes at the last report; requested, absorbed, written */
	uint32_t at[CACHE_GET_SEGMENTS_MAX];
};

/* Numbers of jobs are the same on all nodes, so that the views share r->after. */
static int add_jobs(struct run *r, struct cache_jobs *js)
{
	uint32_t *after = r->after;
	for (uint32_t i = 0; i < r->w->jobs_n; i++) {
		const struct workload_job *j = &r->w->jobs[i];
		uint32_t after_n = 0;
		r->number[i] = CACHE_NONE;
		for (uint32_t k = 0; k < j->after_n; k++)
			if (r->number[j->after[k]] != CACHE_NONE)
				after[after_n++] = r->number[j->after[k]];
		if (!j->registered)
			continue;
		struct cache_job_spec spec = {.parts = j->told.n > 0 ? j->told_parts : j->parts,
					      .parts_n = j->told.n > 0 ? j->told.n : j->reads.n,
					      .after = after,
					      .after_n = after_n,
					      .epochs = 1,
					      .start_ms = (uint64_t)(j->start_s * 1000),
					      .units_per_ms = j->readers * j->reader_bytes_s /
							      (double)j->request_bytes / 1000};
		int rc = cache_jobs_add(js, &spec, &r->number[i]);
		if (rc != 0)
			return rc;
		after += after_n;
	}
	return 0;
}

static int open_nodes(struct run *r, cache_open_fn *open)
{
	size_t after_n = 1;
	r->nodes = calloc(r->nodes_n, sizeof(*r->nodes));
	r->number = calloc(r->w->jobs_n + 1ULL, sizeof(*r->number));
	for (uint32_t i = 0; i < r->w->jobs_n; i++)
		after_n += r->w->jobs[i].after_n;
	r->after = calloc(after_n, sizeof(*r->after));
	if (r->nodes == NULL || r->number == NULL || r->after == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->nodes_n; i++) {
		struct node *n = &r->nodes[i];
		struct cache_params params = r->size.params;
		cache_jobs_init(&n->jobs, params.segment_bytes, params.share);
		int rc = add_jobs(r, &n->jobs);
		params.jobs = &n->jobs;
		params.seed += i;
		if (rc == 0)
			rc = cache_core_init(&n->core, &params, open, r->size.dram_segments);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static void close_nodes(struct run *r)
{
	for (uint32_t i = 0; r->nodes != NULL && i < r->nodes_n; i++) {
		cache_core_fini(&r->nodes[i].core);
		cache_jobs_fini(&r->nodes[i].jobs);
	}
	free(r->nodes);
	free(r->number);
	free(r->after);
}

static uint64_t written_bytes(const struct run *r, const struct cache_core *c)
{
	return c->counts.appended * r->w->segment_bytes + c->counts.sealed * r->size.footer_bytes;
}

static void take_step(struct run *r)
{
	uint64_t written = 0;
	for (uint32_t i = 0; i < r->nodes_n; i++)
		written += written_bytes(r, &r->nodes[i].core);
	double absorbed = (double)r->served - (double)r->fetched;
	step_add(r->out, (double)r->ticked_ms / 1000,
		 (struct cachesim_step){(double)(r->requested - r->stepped[0]),
					absorbed - (double)(int64_t)r->stepped[1],
					(double)(written - r->stepped[2])});
	r->stepped[0] = r->requested;
	r->stepped[1] = r->served - r->fetched;
	r->stepped[2] = written;
}

static void tick_until(struct run *r, uint64_t now_ms)
{
	while (r->ticked_ms + TICK_MS <= now_ms) {
		bool idle = r->ticked_ms >= r->last_get_ms + IDLE_MS &&
			    r->ticked_ms + IDLE_MS <= now_ms;
		if (r->gets == 0 && idle)
			r->ticked_ms = now_ms - now_ms % TICK_MS; /* nothing was read so far */
		else
			r->ticked_ms += idle ? IDLE_MS : TICK_MS;
		for (uint32_t i = 0; i < r->nodes_n; i++) {
			struct node *n = &r->nodes[i];
			cache_jobs_tick(&n->jobs, r->ticked_ms);
			n->core.policy->ops->tick(n->core.policy, r->ticked_ms);
		}
		take_step(r);
	}
}

/* Returns how many bytes of the request are in segment i. */
static uint64_t part_bytes(const struct run *r, const struct cache_request *q, uint32_t i)
{
	uint64_t segment = r->w->segment_bytes, end = q->skip + q->bytes;
	uint64_t from = i == 0 ? q->skip : i * segment;
	return min_u64((i + 1) * segment, end) - from;
}

static void get(struct run *r, const struct reads_get *g, struct node *n)
{
	const struct cache_request *q = &g->request;
	cache_jobs_read(&n->jobs, q);
	uint32_t missing = cache_core_find(&n->core, q, r->at);
	r->requested += q->bytes;
	r->segments += q->segments;
	if (missing == 0) {
		cache_core_hit(&n->core, q, r->at);
		r->served += q->bytes;
		r->hit += q->bytes;
		r->hits += q->segments;
		return;
	}
	if (!cache_core_admit(&n->core, q, r->at)) {
		r->disk_read += q->bytes;
		return;
	}
	r->served += q->bytes;
	r->hits += q->segments - missing;
	if (missing < q->segments)
		cache_core_hit(&n->core, q, r->at);
	for (uint32_t i = 0; i < q->segments; i++) {
		if (r->at[i] != CACHE_NONE) {
			r->hit += part_bytes(r, q, i);
			continue;
		}
		uint64_t from = (q->first + (uint64_t)i) * r->w->segment_bytes;
		r->fetched += min_u64(r->w->segment_bytes, g->block_bytes - from);
		cache_core_insert(&n->core, q, i);
	}
}

static void report(struct run *r)
{
	if (r->o->progress != NULL)
		r->o->progress(r->o->arg, r->requested - r->reported);
	r->reported = r->requested;
}

/* Reports whether all segments of a get are in the cache. Nodes that are not simulated have nothing. */
static bool present(void *arg, const struct reads_get *g)
{
	struct run *r = arg;
	uint32_t at[CACHE_GET_SEGMENTS_MAX];
	return g->node < r->nodes_n &&
	       cache_core_look(&r->nodes[g->node].core, &g->request, at) == 0;
}

static void run_gets(struct run *r, const struct cachesim_source *source)
{
	struct reads_get g;
	uint32_t job;
	if (source->watch != NULL)
		source->watch(source->arg, present, r);
	while (source->next(source->arg, &g)) {
		assert(g.node < r->nodes_n && g.request.bytes > 0);
		struct cache_request *q = &g.request;
		q->now_ms = max_u64(q->now_ms, r->now_ms);
		r->now_ms = q->now_ms;
		tick_until(r, q->now_ms);
		while (source->ended != NULL && source->ended(source->arg, &job))
			for (uint32_t i = 0; r->number[job] != CACHE_NONE && i < r->nodes_n; i++)
				cache_jobs_end(&r->nodes[i].jobs, r->number[job]);
		q->job = q->job < r->w->jobs_n ? r->number[q->job] : CACHE_NONE;
		get(r, &g, &r->nodes[g.node]);
		r->last_get_ms = q->now_ms;
		if (++r->gets % REPORT_GETS == 0)
			report(r);
	}
	r->ticked_ms = r->now_ms;
	take_step(r);
	report(r);
}

static void sum_up(struct run *r)
{
	struct cachesim_result *out = r->out;
	struct cache_core_counts c = {0};
	uint64_t written = 0;
	for (uint32_t i = 0; i < r->nodes_n; i++) {
		const struct cache_core *core = &r->nodes[i].core;
		c.reinserted += core->counts.reinserted;
		written += written_bytes(r, core);
	}
	assert(r->hit <= r->served && r->served <= r->requested);
	out->requested_bytes = (double)r->requested;
	out->served_bytes = (double)r->served;
	out->fetched_bytes = (double)r->fetched;
	out->hit_bytes = (double)r->hit;
	out->absorbed_bytes = (double)r->served - (double)r->fetched;
	out->flash_written_bytes = (double)written;
	out->reinserted_bytes = (double)c.reinserted * (double)r->w->segment_bytes;
	out->disk_read_bytes = (double)r->disk_read + (double)r->fetched;
	out->requests = (double)r->gets;
	out->segment_requests = (double)r->segments;
	out->segment_hits = (double)r->hits;
	out->seconds = (double)r->now_ms / 1000;
	out->flash_share = (double)r->size.params.regions * r->size.params.region_segments *
			   (double)r->w->segment_bytes / ((double)r->w->flash_bytes / r->w->nodes);
	out->index_bytes = (double)r->size.params.regions * r->size.params.region_segments *
			   INDEX_BYTES * r->w->nodes;
}

int cachesim_run_source(const struct workload *w, const struct cachesim_source *source,
			const char *policy, const struct cachesim_options *o,
			struct cachesim_result *out)
{
	char why[WORKLOAD_WHY_MAX];
	uint32_t nodes = o->nodes != 0 && o->nodes < w->nodes ? o->nodes : w->nodes;
	double start = o->now_s != NULL ? o->now_s() : 0;
	*out = (struct cachesim_result){.policy = policy, .nodes = nodes};
	int rc;
	if (strcmp(policy, CACHESIM_BOUND) == 0) {
		rc = cachesim_bound(w, source, o, out);
	} else {
		AUTO_FREE struct run *r = calloc(1, sizeof(*r));
		if (r == NULL)
			return -ENOMEM;
		r->w = w;
		r->o = o;
		r->out = out;
		r->nodes_n = nodes;
		rc = cachesim_node(w, &r->size, why, sizeof(why));
		if (rc == 0)
			rc = open_nodes(r, cache_policy_find(policy)->open);
		if (rc == 0) {
			run_gets(r, source);
			sum_up(r);
		}
		close_nodes(r);
	}
	if (rc == 0 && o->now_s != NULL)
		out->wall_s = o->now_s() - start;
	return rc;
}

/* Scales sums of some of the nodes up to all of them, by the bytes that were requested. */
static void scale_up(const struct workload *w, struct cachesim_result *out)
{
	double factor = out->requested_bytes > 0 ? (double)w->bytes / out->requested_bytes : 1;
	double *const sums[] = {&out->served_bytes,        &out->fetched_bytes,
				&out->hit_bytes,           &out->absorbed_bytes,
				&out->flash_written_bytes, &out->reinserted_bytes,
				&out->disk_read_bytes,     &out->requests,
				&out->segment_requests,    &out->segment_hits};
	for (size_t i = 0; i < ARRAY_LEN(sums); i++)
		*sums[i] *= factor;
	for (uint32_t i = 0; i < CACHESIM_STEPS; i++) {
		out->steps[i].requested *= factor;
		out->steps[i].absorbed *= factor;
		out->steps[i].written *= factor;
	}
	out->requested_bytes = (double)w->bytes;
}

static bool workload_next(void *arg, struct reads_get *out)
{
	return reads_next(arg, out);
}

static bool workload_ended(void *arg, uint32_t *job)
{
	return reads_ended(arg, job);
}

static void workload_watch(void *arg, bool (*has)(void *cache, const struct reads_get *get),
			   void *cache)
{
	struct reads *reads = arg;
	reads->present = has;
	reads->arg = cache;
}

int cachesim_run(const struct workload *w, const char *policy, const struct cachesim_options *o,
		 struct cachesim_result *out)
{
	struct reads reads;
	int rc = reads_init(&reads, w);
	if (rc != 0)
		return rc;
	if (o->nodes != 0 && o->nodes < w->nodes)
		reads.nodes_to = o->nodes;
	const struct cachesim_source source = {.next = workload_next,
					       .ended = workload_ended,
					       .watch = workload_watch,
					       .arg = &reads};
	rc = cachesim_run_source(w, &source, policy, o, out);
	if (rc == 0)
		rc = reads.rc;
	reads_fini(&reads);
	if (rc == 0 && out->nodes < w->nodes)
		scale_up(w, out);
	double width = out->step_s > 0 ? out->step_s : 1;
	out->steps_n = (uint32_t)fmin(out->seconds / width + 1, CACHESIM_STEPS);
	return rc;
}
