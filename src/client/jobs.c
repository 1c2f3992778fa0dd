// SPDX-License-Identifier: Apache-2.0
/* Implements the public calls on training jobs with requests to the metadata service. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "client/engine_impl.h"
#include "jobs/worth.h"
#include "meta_client/jobs.h"

#define AUTO_ARENA __attribute__((cleanup(arena_fini)))
#define SPEC_BYTES MIB
#define LIST_BYTES (64 * MIB)

_Static_assert((int)TERRANE_ORDER_FREE == (int)JOB_FREE,
	       "the public numbers are those of the store");
_Static_assert((int)TERRANE_SHUFFLE_SECRET == (int)JOB_SECRET, "the same");
_Static_assert((int)TERRANE_JOB_DATASET == (int)JOB_DATASET, "the same");
_Static_assert((int)TERRANE_KEEP_ALL == (int)JOB_KEEP_ALL, "the same");
_Static_assert(sizeof(struct terrane_job_range) == sizeof(struct job_range), "the same layout");

static const char *what(char out[32], uint64_t id)
{
	snprintf(out, 32, "job %" PRIu64, id);
	return out;
}

/* --- to the service ----------------------------------------------------------------------------- */

static int spec_of(struct arena *a, const struct terrane_job *job, struct job_spec *out)
{
	if (job->part_count > JOB_PARTS_MAX || job->range_count > JOB_RANGES_MAX ||
	    job->column_count > JOB_COLUMNS_MAX || (job->part_count > 0 && job->parts == NULL) ||
	    (job->range_count > 0 && job->ranges == NULL) ||
	    (job->column_count > 0 && job->columns == NULL))
		return -EINVAL;
	struct job_part *parts = arena_alloc(a, (job->part_count + 1) * sizeof(*parts));
	struct job_range *ranges = arena_alloc(a, (job->range_count + 1) * sizeof(*ranges));
	if (parts == NULL || ranges == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < job->part_count; i++)
		parts[i] = (struct job_part){.kind = (enum job_part_kind)job->parts[i].kind,
					     .path = job->parts[i].path};
	for (size_t i = 0; i < job->range_count; i++)
		ranges[i] = (struct job_range){job->ranges[i].from, job->ranges[i].to};
	for (size_t i = 0; i < job->column_count; i++)
		if (job->columns[i] == NULL)
			return -EINVAL;
	*out = (struct job_spec){
		.id = job->id,
		.name = job->name != NULL ? job->name : "",
		.parts = parts,
		.part_count = job->part_count,
		.ranges = ranges,
		.range_count = job->range_count,
		.columns = job->columns,
		.column_count = job->column_count,
		.readers = job->readers != 0 ? job->readers : 1,
		.epochs = job->epochs,
		.accelerators = job->accelerators,
		.order = job->order != 0 ? (enum job_order)job->order : JOB_STRICT,
		.shuffle = job->shuffle != 0 ? (enum job_shuffle)job->shuffle : JOB_SECRET,
		.seed = job->seed,
		.lease_ms = job->lease_ms != 0 ? job->lease_ms : JOB_LEASE_DEFAULT_MS,
		.bytes_s = job->bytes_s};
	return 0;
}

int engine_job_add(struct call *c, const struct terrane_job *job)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SPEC_BYTES);
	char name[32];
	struct job_spec spec;
	uint64_t stamp;
	int rc = spec_of(&a, job, &spec);
	const char *wrong =
		rc == 0 ? job_spec_check(&spec) : "a list of the job is too long, or missing";
	if (rc == -ENOMEM || wrong != NULL)
		return rc == -ENOMEM ? rc : call_fail(c, -EINVAL, "%s", wrong);
	struct meta_call m = call_meta(c);
	rc = meta_client_job_add(&m, &spec, &stamp);
	return call_meta_fail(c, &m, rc, what(name, job->id));
}

int engine_job_report(struct call *c, uint64_t id, const struct terrane_job_progress *p)
{
	char name[32];
	struct job_progress progress = {0};
	if (p != NULL)
		progress = (struct job_progress){.sequence = p->sequence,
						 .epoch = p->epoch,
						 .part = p->part,
						 .position = p->position,
						 .total = p->total,
						 .steps = p->steps,
						 .compute_us = p->compute_us,
						 .wait_us = p->wait_us,
						 .bytes = p->bytes,
						 .hit_bytes = p->hit_bytes,
						 .window = p->window,
						 .windows = p->windows,
						 .part_bytes = p->part_bytes};
	struct meta_call m = call_meta(c);
	int rc = meta_client_job_report(&m, id, p != NULL ? &progress : NULL);
	return call_meta_fail(c, &m, rc, what(name, id));
}

int engine_job_enter(struct call *c, uint64_t id, struct terrane_job_window *w)
{
	char name[32];
	struct job_enter e = {.place = {w->set, w->windows, w->window},
			      .epoch = w->epoch,
			      .begins = w->begins,
			      .force = w->force};
	struct meta_call m = call_meta(c);
	if (w->windows == 0 || w->window >= w->windows)
		return call_fail(c, -EINVAL, "there is no window %u of %u", w->window, w->windows);
	int rc = meta_client_job_enter(&m, id, &e, &w->window, &w->wait);
	return call_meta_fail(c, &m, rc, what(name, id));
}

int engine_job_end(struct call *c, uint64_t id)
{
	char name[32];
	struct meta_call m = call_meta(c);
	return call_meta_fail(c, &m, meta_client_job_end(&m, id), what(name, id));
}

int engine_job_remove(struct call *c, uint64_t id)
{
	char name[32];
	struct meta_call m = call_meta(c);
	return call_meta_fail(c, &m, meta_client_job_remove(&m, id), what(name, id));
}

/* --- from the service --------------------------------------------------------------------------- */

/* What a job that was handed out points to: one piece of memory, freed with it. */
struct handed_out {
	struct terrane_job_info info; /* first: terrane_job_free gets a pointer to it */
	struct terrane_job_flash flash;
	struct arena arena;
	struct job_seen seen;
};

static struct terrane_job_progress progress_out(const struct job_progress *p)
{
	return (struct terrane_job_progress){.sequence = p->sequence,
					     .epoch = p->epoch,
					     .part = p->part,
					     .position = p->position,
					     .total = p->total,
					     .steps = p->steps,
					     .compute_us = p->compute_us,
					     .wait_us = p->wait_us,
					     .bytes = p->bytes,
					     .hit_bytes = p->hit_bytes,
					     .window = p->window,
					     .windows = p->windows,
					     .part_bytes = p->part_bytes};
}

static int job_out(struct handed_out *h, struct terrane_job *out)
{
	const struct job_spec *s = &h->seen.spec;
	struct terrane_job_part *parts =
		arena_alloc(&h->arena, (s->part_count + 1) * sizeof(*parts));
	if (parts == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < s->part_count; i++)
		parts[i] =
			(struct terrane_job_part){.path = s->parts[i].path,
						  .kind = (enum terrane_job_kind)s->parts[i].kind,
						  .id = s->parts[i].id};
	*out = (struct terrane_job){.id = s->id,
				    .name = s->name,
				    .parts = parts,
				    .part_count = s->part_count,
				    .ranges = (const struct terrane_job_range *)s->ranges,
				    .range_count = s->range_count,
				    .columns = s->columns,
				    .column_count = s->column_count,
				    .readers = s->readers,
				    .epochs = s->epochs,
				    .accelerators = s->accelerators,
				    .order = (enum terrane_job_order)s->order,
				    .shuffle = (enum terrane_job_shuffle)s->shuffle,
				    .seed = s->seed,
				    .lease_ms = s->lease_ms,
				    .bytes_s = s->bytes_s};
	return 0;
}

static struct terrane_job_flash flash_out(const struct job_verdict *v)
{
	return (struct terrane_job_flash){
		.at_ms = v->at_ms,
		.keep = (enum terrane_job_keep)v->keep,
		.off = v->cache == JOB_CACHE_OFF,
		.probed = v->cache == JOB_CACHE_PROBE,
		.share = v->keep == JOB_KEEP_PART ? (double)v->share / JOB_RANGE_WHOLE : 1,
		.bytes = v->bytes,
		.hit_s = (double)v->hit_us / 1e6,
		.miss_s = (double)v->miss_us / 1e6,
		.saved = (double)v->saved_milli / 1000,
		.why = worth_why(v)};
}

/* Reads a job that was found in a listing, or asked for. -ENOENT: it is gone. */
static int hand_out(struct meta_call *m, uint64_t id, struct terrane_job_info **out)
{
	struct handed_out *h = calloc(1, sizeof(*h));
	if (h == NULL)
		return -ENOMEM;
	arena_init(&h->arena, SPEC_BYTES);
	int rc = meta_client_job_get(m, 0, id, &h->arena, &h->seen);
	if (rc == 0)
		rc = job_out(h, &h->info.job);
	if (rc < 0) {
		terrane_job_free(&h->info);
		return rc;
	}
	const struct job_state *st = &h->seen.state;
	struct job_rates rates = job_rates(st);
	h->info.owner = st->owner;
	h->info.active = h->seen.left_ms > 0;
	h->info.ended = st->ended;
	h->info.left_ms = h->seen.left_ms;
	h->info.added_ms = st->added_ms;
	h->info.reported_ms = st->reported_ms;
	h->info.progress = progress_out(&st->progress);
	h->info.steps_s = rates.steps_s;
	h->info.bytes_s = rates.bytes_s;
	h->info.wait_share = rates.wait_share;
	h->info.hit_share = rates.hit_share;
	h->info.done_share = job_done_share(&h->seen.spec, &st->progress);
	if (st->verdict.at_ms != 0) {
		h->flash = flash_out(&st->verdict);
		h->info.flash = &h->flash;
	}
	*out = &h->info;
	return 0;
}

void terrane_job_free(struct terrane_job_info *info)
{
	if (info == NULL)
		return;
	struct handed_out *h = container_of(info, struct handed_out, info);
	arena_fini(&h->arena);
	free(h);
}

int engine_job_get(struct call *c, uint64_t id, struct terrane_job_info **out)
{
	char name[32];
	struct meta_call m = call_meta(c);
	int rc = hand_out(&m, id, out);
	return call_meta_fail(c, &m, rc, what(name, id));
}

/* Hands out at most max of the n jobs of a page. Returns how many. */
static int64_t hand_out_page(struct meta_call *m, const struct job_seen *page, size_t n,
			     struct terrane_job_info **out, size_t max)
{
	size_t done = 0;
	for (size_t i = 0; i < n && done < max; i++) {
		int rc = hand_out(m, page[i].id, &out[done]);
		if (rc == -ENOENT)
			continue;
		if (rc < 0) {
			while (done > 0)
				terrane_job_free(out[--done]);
			return rc;
		}
		done++;
	}
	return (int64_t)done;
}

int64_t engine_job_list(struct call *c, uint64_t after, struct terrane_job_info **out, size_t max)
{
	struct job_seen *page = calloc(META_CLIENT_JOBS_MAX, sizeof(*page));
	struct job_listing at = {.brief = true, .after = after};
	struct meta_call m = call_meta(c);
	int64_t n = page != NULL ? 0 : -ENOMEM;
	if (max == 0)
		n = -EINVAL;
	while (n == 0 && !at.end) {
		AUTO_ARENA struct arena a;
		arena_init(&a, LIST_BYTES);
		n = meta_client_job_list(&m, &at, &a, page);
		if (n > 0)
			n = hand_out_page(&m, page, (size_t)n, out, max);
	}
	free(page);
	return n < 0 ? call_meta_fail(c, &m, (int)n, "jobs") : n;
}
