// SPDX-License-Identifier: Apache-2.0
#include "analysis/cache/reads.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "cache/core.h"

static bool before(const struct reads_event *a, const struct reads_event *b)
{
	return a->at_s < b->at_s || (a->at_s == b->at_s && a->job < b->job);
}

static void sink(struct reads *r, uint32_t at)
{
	struct reads_event e = r->heap[at];
	for (;;) {
		uint32_t child = 2 * at + 1;
		if (child >= r->heap_n)
			break;
		child += child + 1 < r->heap_n && before(&r->heap[child + 1], &r->heap[child]);
		if (!before(&r->heap[child], &e))
			break;
		r->heap[at] = r->heap[child];
		at = child;
	}
	r->heap[at] = e;
}

static void push(struct reads *r, struct reads_event e)
{
	uint32_t at = r->heap_n++;
	assert(r->heap_n <= r->w->jobs_n);
	for (; at > 0 && before(&e, &r->heap[(at - 1) / 2]); at = (at - 1) / 2)
		r->heap[at] = r->heap[(at - 1) / 2];
	r->heap[at] = e;
}

/* Starts the jobs whose last predecessor is `job`, which ended at that time. */
static void start_waiting(struct reads *r, uint32_t job, double at_s)
{
	for (uint32_t i = job + 1; i < r->w->jobs_n; i++) {
		const struct workload_job *j = &r->w->jobs[i];
		bool waits = false, named = false;
		for (uint32_t k = 0; k < j->after_n; k++) {
			named = named || j->after[k] == job;
			waits = waits || !r->jobs[j->after[k]].ended;
		}
		if (!named || waits || !j->runs)
			continue;
		r->jobs[i].start_s = fmax(j->start_s, at_s);
		push(r, (struct reads_event){r->jobs[i].start_s, i});
	}
}

int reads_init(struct reads *r, const struct workload *w)
{
	*r = (struct reads){.w = w, .nodes_to = w->nodes};
	r->jobs = calloc(w->jobs_n, sizeof(*r->jobs));
	r->heap = calloc(w->jobs_n, sizeof(*r->heap));
	r->ended = calloc(w->jobs_n, sizeof(*r->ended));
	if (r->jobs == NULL || r->heap == NULL || r->ended == NULL) {
		reads_fini(r);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < w->jobs_n; i++) {
		r->jobs[i].ended = !w->jobs[i].runs;
		rng_init(&r->jobs[i].rng, mix_u64(w->seed + i));
	}
	for (uint32_t i = 0; i < w->jobs_n; i++) {
		const struct workload_job *j = &w->jobs[i];
		bool waits = !j->runs;
		for (uint32_t k = 0; k < j->after_n; k++)
			waits = waits || !r->jobs[j->after[k]].ended;
		r->jobs[i].start_s = j->start_s;
		if (!waits)
			push(r, (struct reads_event){j->start_s, i});
	}
	return 0;
}

void reads_fini(struct reads *r)
{
	for (uint32_t i = 0; r->jobs != NULL && i < r->w->jobs_n; i++)
		free(r->jobs[i].left);
	free(r->jobs);
	free(r->heap);
	free(r->ended);
	*r = (struct reads){0};
}

bool reads_ended(struct reads *r, uint32_t *job)
{
	if (r->ended_n == 0)
		return false;
	*job = r->ended[--r->ended_n];
	return true;
}

/* Cuts the first get of [from, to) of a bucket: up to the end of a block, and of as many segments as fit one. */
static uint64_t cut(const struct reads *r, uint64_t from, uint64_t to, struct reads_get *out)
{
	const struct workload *w = r->w;
	uint64_t in_bucket = from / w->block_bytes, start = in_bucket * w->block_bytes;
	uint64_t block = mix_u64(mix_u64(r->bucket + 1ULL) + in_bucket);
	uint64_t first = (from - start) / w->segment_bytes;
	uint64_t most = start + (first + CACHE_GET_SEGMENTS_MAX) * w->segment_bytes;
	uint64_t end = min_u64(min_u64(to, start + w->block_bytes), most);
	uint64_t last = (end - 1 - start) / w->segment_bytes;
	out->node = (uint32_t)((unsigned __int128)block * w->nodes >> 64);
	out->block_bytes = min_u64(w->block_bytes, w->partition_bytes - start);
	out->request = (struct cache_request){
		.now_ms = (uint64_t)(r->now_s * 1000),
		.block = block,
		.first = (uint32_t)first,
		.segments = (uint32_t)(last - first + 1),
		.position = (uint32_t)(from / w->segment_bytes),
		.job = r->job,
		.skip = (uint32_t)((from - start) % w->segment_bytes),
		.bucket = r->bucket,
		.bytes = end - from,
	};
	return end;
}

/* --- the order free --- */

static bool has(const struct reads *r, struct cache_unit unit)
{
	struct reads_get get;
	for (uint64_t at = unit.from; at < unit.to;) {
		at = cut(r, at, unit.to, &get);
		if (!r->present(r->arg, &get))
			return false;
	}
	return true;
}

/* Takes a unit that the job has not read of its part, one that the cache has if a candidate is. */
static bool take_free(struct reads *r, struct reads_job *at, const struct cache_order *o,
		      uint64_t *unit)
{
	if (at->left == NULL) {
		at->left = malloc(o->units * sizeof(*at->left));
		at->left_n = o->units;
		for (uint64_t i = 0; at->left != NULL && i < o->units; i++)
			at->left[i] = (uint32_t)i;
	}
	if (at->left == NULL) {
		r->rc = -ENOMEM;
		return false;
	}
	assert(at->left_n > 0);
	uint64_t best = rng_below(&at->rng, at->left_n), place = best;
	for (uint32_t i = 0; r->present != NULL && i < READS_CANDIDATES; i++) {
		if (has(r, cache_order_bytes(o, at->left[place]))) {
			best = place;
			break;
		}
		place = rng_below(&at->rng, at->left_n);
	}
	*unit = at->left[best];
	at->left[best] = at->left[--at->left_n];
	if (at->left_n == 0) {
		free(at->left);
		at->left = NULL;
	}
	return true;
}

/* Takes the next unit of the job whose turn it is, and computes when its following one is due. */
static bool next_unit(struct reads *r)
{
	if (r->heap_n == 0)
		return false;
	struct reads_event *e = &r->heap[0];
	struct reads_job *at = &r->jobs[e->job];
	const struct workload_job *j = &r->w->jobs[e->job];
	if (at->part == j->reads.n) {
		uint32_t job = e->job;
		double end_s = e->at_s;
		r->heap[0] = r->heap[--r->heap_n];
		if (r->heap_n > 0)
			sink(r, 0);
		at->ended = true;
		r->ended[r->ended_n++] = job;
		start_waiting(r, job, end_s);
		r->from = r->to = 0;
		return true;
	}
	const struct cache_order *o = &j->parts[at->part].order;
	r->job = e->job;
	r->bucket = j->parts[at->part].bucket;
	r->now_s = e->at_s;
	uint64_t number;
	if (o->kind != CACHE_FREE)
		number = cache_order_unit(o, at->rank);
	else if (!take_free(r, at, o, &number))
		return false;
	struct cache_unit unit = cache_order_bytes(o, number);
	r->from = unit.from;
	r->to = unit.to;
	at->bytes += unit.to - unit.from;
	if (++at->rank == o->units) {
		at->rank = 0;
		at->part++;
	}
	e->at_s = at->start_s + (double)at->bytes / j->bytes_per_s;
	sink(r, 0);
	return true;
}

bool reads_next(struct reads *r, struct reads_get *out)
{
	for (;;) {
		while (r->from == r->to)
			if (!next_unit(r))
				return false;
		r->from = cut(r, r->from, r->to, out);
		if (out->node >= r->nodes_from && out->node < r->nodes_to)
			return true;
	}
}
