// SPDX-License-Identifier: Apache-2.0
/*
 * The reader of workload files with arbitrary bytes. An accepted workload must keep the rules of workload.h, and the
 * simulator must get through the first reads of it without a get that leaves its block; a refusal must leave nothing
 * behind and say why.
 */
#include <assert.h>
#include <string.h>

#include "analysis/cache/cachesim.h"
#include "cache/core.h"
#include "fuzz.h"

#define GETS 2000u
#define SMALL_BYTES (1ULL << 30) /* of DRAM of workloads that are simulated */
#define SHORT_S 3600.0           /* virtual time of such workloads */

struct first_gets {
	struct reads reads;
	uint32_t left;
};

static void check_get(const struct workload *w, const struct reads_get *g)
{
	const struct cache_request *q = &g->request;
	assert(g->node < w->nodes && q->bucket < w->buckets_n && q->job < w->jobs_n);
	assert(q->segments > 0 && q->segments <= CACHE_GET_SEGMENTS_MAX && q->bytes > 0);
	assert(q->skip < w->segment_bytes && g->block_bytes <= w->block_bytes);
	uint64_t from = q->first * w->segment_bytes + q->skip;
	assert(from + q->bytes <= g->block_bytes);
	assert((q->skip + q->bytes + w->segment_bytes - 1) / w->segment_bytes == q->segments);
}

static bool next_get(void *arg, struct reads_get *out)
{
	struct first_gets *f = arg;
	if (f->left == 0 || !reads_next(&f->reads, out))
		return false;
	check_get(f->reads.w, out);
	f->left--;
	return true;
}

static bool next_end(void *arg, uint32_t *job)
{
	struct first_gets *f = arg;
	return reads_ended(&f->reads, job);
}

static void check_jobs(const struct workload *w)
{
	assert(w->jobs_n > 0 && w->jobs_n <= WORKLOAD_JOBS_MAX && w->buckets_n > 0);
	for (uint32_t i = 0; i < w->jobs_n; i++) {
		const struct workload_job *j = &w->jobs[i];
		assert(j->bytes_per_s > 0 && j->reads.n > 0 && j->id[0] != '\0');
		for (uint32_t k = 0; k < j->after_n; k++)
			assert(j->after[k] < i);
	}
}

static void simulate(const struct workload *w, const char *policy)
{
	struct first_gets f = {.left = GETS};
	struct cachesim_options o = {0};
	struct cachesim_result r;
	if (reads_init(&f.reads, w) != 0)
		return;
	const struct cachesim_source source = {.next = next_get, .ended = next_end, .arg = &f};
	if (cachesim_run_source(w, &source, policy, &o, &r) == 0) {
		/* the bound rounds the part of a segment that is read to 1/255 */
		double slack = r.segment_requests * (double)w->segment_bytes / 255;
		assert(r.hit_bytes <= r.served_bytes + slack);
		assert(r.served_bytes <= r.requested_bytes + slack);
	}
	reads_fini(&f.reads);
}

/* Reports whether the workload is simulated in milliseconds. */
static bool is_small(const struct workload *w)
{
	double seconds = 0;
	uint64_t segments = (w->flash_bytes + w->dram_bytes) / w->segment_bytes;
	bool small = segments <= 8192 && w->nodes <= 8 && w->dram_bytes <= SMALL_BYTES;
	for (uint32_t i = 0; i < w->jobs_n; i++) {
		const struct workload_job *j = &w->jobs[i];
		seconds += j->start_s + (double)j->bytes / j->bytes_per_s;
		for (uint32_t k = 0; k < j->reads.n; k++)
			small = small && j->parts[k].order.units <= 1u << 20;
	}
	return small && seconds <= SHORT_S;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_WORKLOAD struct workload w;
	struct cachesim_node node;
	char why[WORKLOAD_WHY_MAX] = "", small[WORKLOAD_WHY_MAX] = "";
	if (workload_parse(&w, (const char *)data, size, why, sizeof(why)) != 0) {
		assert(w.jobs == NULL && w.buckets == NULL && why[0] != '\0');
		return 0;
	}
	check_jobs(&w);
	if (cachesim_node(&w, &node, small, sizeof(small)) != 0) {
		assert(small[0] != '\0');
		return 0;
	}
	if (!is_small(&w))
		return 0;
	simulate(&w, "lru");
	simulate(&w, "terrane");
	simulate(&w, CACHESIM_BOUND);
	return 0;
}
