// SPDX-License-Identifier: Apache-2.0
#include "cache/jobs.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SILENCE_MS 60000u /* a job that is this late does not count */
#define SPEED_PERIOD_MS 2000u
#define SPEED_SMOOTHING 0.5
#define SPEED_UNKNOWN 1.0 /* units per ms, when no job shows any other */
#define TRUST_SMOOTHING (1.0 / 256)
#define TRUST_ENOUGH 0.5
#define ORDER_TOLERANCE 0.02 /* of the part: a jump that is no loss of order */
#define PART_FINISHED 0.9    /* of the part: a job may now go on to the next one */
#define SEEN_UNITS_MAX (1ULL << 30)

struct cache_reader {
	uint32_t job, part;
};

struct cache_readers {
	struct cache_reader *of;
	uint32_t n;
};

void cache_jobs_init(struct cache_jobs *js, uint64_t segment_bytes, double share)
{
	assert(segment_bytes > 0 && share > 0 && share <= 1);
	*js = (struct cache_jobs){.segment_bytes = segment_bytes, .share = share};
}

void cache_jobs_fini(struct cache_jobs *js)
{
	for (uint32_t i = 0; i < js->jobs_n; i++) {
		free(js->jobs[i].before);
		free(js->jobs[i].seen);
	}
	for (uint32_t b = 0; b < js->readers_n; b++)
		free(js->readers[b].of);
	free(js->jobs);
	free(js->readers);
	*js = (struct cache_jobs){0};
}

static int add_reader(struct cache_jobs *js, uint16_t bucket, struct cache_reader reader)
{
	if (bucket >= js->readers_n) {
		uint32_t n = bucket + 1u + js->readers_n / 2;
		struct cache_readers *more = realloc(js->readers, n * sizeof(*more));
		if (more == NULL)
			return -ENOMEM;
		memset(more + js->readers_n, 0, (n - js->readers_n) * sizeof(*more));
		js->readers = more;
		js->readers_n = n;
	}
	struct cache_readers *to = &js->readers[bucket];
	struct cache_reader *more = realloc(to->of, (to->n + 1ULL) * sizeof(*more));
	if (more == NULL)
		return -ENOMEM;
	to->of = more;
	more[to->n++] = reader;
	return 0;
}

int cache_jobs_add(struct cache_jobs *js, const struct cache_job_spec *spec, uint32_t *out)
{
	if (js->jobs_n == CACHE_JOBS_MAX || spec->parts_n == 0 || spec->parts_n > CACHE_PARTS_MAX)
		return -E2BIG;
	if (js->jobs_n == js->jobs_cap) {
		uint32_t cap = js->jobs_cap * 2 + 16;
		struct cache_job *more = realloc(js->jobs, cap * sizeof(*more));
		if (more == NULL)
			return -ENOMEM;
		js->jobs = more;
		js->jobs_cap = cap;
	}
	struct cache_job *j = &js->jobs[js->jobs_n];
	*j = (struct cache_job){.spec = *spec,
				.state = CACHE_JOB_QUEUED,
				.start_ms = spec->start_ms,
				.trust = 1,
				.order_trust = 1};
	j->before = calloc(spec->parts_n, sizeof(*j->before));
	if (j->before == NULL)
		return -ENOMEM;
	double units = 0;
	for (uint32_t i = 0; i < spec->parts_n; i++) {
		j->before[i] = units;
		units += (double)spec->parts[i].order.units;
	}
	*out = js->jobs_n++; /* from here on cache_jobs_fini() frees it */
	for (uint32_t i = 0; i < spec->after_n; i++)
		assert(spec->after[i] < *out);
	for (uint32_t i = 0; i < spec->parts_n; i++) {
		int rc = add_reader(js, spec->parts[i].bucket, (struct cache_reader){*out, i});
		if (rc != 0) {
			j->state = CACHE_JOB_ENDED;
			return rc;
		}
	}
	return 0;
}

void cache_jobs_end(struct cache_jobs *js, uint32_t job)
{
	assert(job < js->jobs_n);
	js->jobs[job].state = CACHE_JOB_ENDED;
	free(js->jobs[job].seen);
	js->jobs[job].seen = NULL;
}

static const struct cache_order *order_of(const struct cache_job *j, uint32_t part)
{
	return &j->spec.parts[part].order;
}

static bool order_known(const struct cache_job *j, uint32_t part)
{
	enum cache_order_kind kind = order_of(j, part)->kind;
	return kind != CACHE_RANDOM && kind != CACHE_FREE && j->order_trust >= TRUST_ENOUGH;
}

static double job_speed(const struct cache_jobs *js, const struct cache_job *j)
{
	if (j->speed > 0)
		return j->speed;
	if (j->spec.units_per_ms > 0)
		return j->spec.units_per_ms;
	return js->speed > 0 ? js->speed : SPEED_UNKNOWN;
}

static double job_units(const struct cache_job *j)
{
	return j->before[j->spec.parts_n - 1] + (double)order_of(j, j->spec.parts_n - 1)->units;
}

/* ---- progress ---- */

static void enter_part(struct cache_job *j, uint32_t part)
{
	assert(part < j->spec.parts_n);
	j->part = part;
	j->done = 0;
	free(j->seen);
	j->seen = NULL;
}

/* Marks a unit of a part in unknown order as read. Without memory for the bits every read counts as a new one. */
static void mark_seen(struct cache_job *j, uint64_t unit, double share)
{
	uint64_t units = order_of(j, j->part)->units;
	if (j->seen == NULL && units <= SEEN_UNITS_MAX)
		j->seen = calloc(units / 8 + 1, 1);
	if (j->seen != NULL && (j->seen[unit / 8] >> unit % 8 & 1) != 0)
		return;
	if (j->seen != NULL)
		j->seen[unit / 8] |= (uint8_t)(1u << unit % 8);
	j->done = fmin(j->done + 1 / share, (double)units);
}

static void learn(double *trust, bool agrees)
{
	*trust += TRUST_SMOOTHING * ((agrees ? 1 : 0) - *trust);
}

/* Finds the part that a read of the bucket belongs to: the current one, a later one, else an earlier one. */
static bool find_part(const struct cache_job *j, uint16_t bucket, uint32_t *part)
{
	for (uint32_t i = 0; i < j->spec.parts_n; i++) {
		uint32_t at = (j->part + i) % j->spec.parts_n;
		if (j->spec.parts[at].bucket == bucket) {
			*part = at;
			return true;
		}
	}
	return false;
}

/* A read of a unit in known order shows how far the job is. */
static void read_known(struct cache_job *j, uint64_t unit, bool first)
{
	const struct cache_order *o = order_of(j, j->part);
	double rank = (double)cache_order_rank(o, unit), units = (double)o->units;
	double jump = fabs(rank - j->done);
	bool again = j->part + 1 < j->spec.parts_n &&
		     j->spec.parts[j->part + 1].bucket == j->spec.parts[j->part].bucket;
	if (again && j->done > PART_FINISHED * units && rank < units - PART_FINISHED * units) {
		enter_part(j, j->part + 1); /* the next epoch over the same bucket */
		jump = 0;
		rank = (double)cache_order_rank(order_of(j, j->part), unit);
	}
	bool agrees = first || jump <= fmax(ORDER_TOLERANCE * units, 256.0 * o->readers);
	learn(&j->order_trust, agrees);
	j->done = rank + 1;
	assert(j->done <= (double)order_of(j, j->part)->units);
}

void cache_jobs_read(struct cache_jobs *js, const struct cache_request *r)
{
	uint32_t part;
	uint64_t unit;
	if (r->job >= js->jobs_n)
		return;
	struct cache_job *j = &js->jobs[r->job];
	if (j->state == CACHE_JOB_ENDED)
		return;
	j->last_ms = r->now_ms;
	j->overdue = false;
	bool found = find_part(j, r->bucket, &part);
	learn(&j->trust, found);
	if (!found || r->position == CACHE_NONE)
		return;
	bool first = j->state == CACHE_JOB_QUEUED || part != j->part;
	if (j->state == CACHE_JOB_QUEUED) {
		j->state = CACHE_JOB_READING;
		enter_part(j, part);
		j->mark_ms = 0;
	} else if (part != j->part) {
		enter_part(j, part);
	}
	uint64_t from = r->position * js->segment_bytes + r->skip;
	if (!cache_order_find(order_of(j, part), from, from + r->bytes, &unit)) {
		learn(&j->trust, false);
		return;
	}
	if (order_known(j, part))
		read_known(j, unit, first);
	else
		mark_seen(j, unit, js->share);
}

static void measure_speed(struct cache_job *j, uint64_t now_ms)
{
	double units = j->before[j->part] + j->done;
	if (j->mark_ms == 0 || units < j->mark_units) {
		j->mark_ms = now_ms;
		j->mark_units = units;
		return;
	}
	if (now_ms < j->mark_ms + SPEED_PERIOD_MS || units <= j->mark_units)
		return;
	double speed = (units - j->mark_units) / (double)(now_ms - j->mark_ms);
	j->speed = j->speed > 0 ? j->speed + SPEED_SMOOTHING * (speed - j->speed) : speed;
	j->mark_ms = now_ms;
	j->mark_units = units;
}

/* Returns when the job is expected to end. */
static double job_end(const struct cache_jobs *js, const struct cache_job *j)
{
	double now = (double)js->now_ms, all = job_units(j) / job_speed(js, j);
	if (j->state == CACHE_JOB_ENDED || j->overdue)
		return now;
	if (j->state == CACHE_JOB_QUEUED)
		return fmax((double)j->start_ms, now) + all;
	return now + fmax(all - (j->before[j->part] + j->done) / job_speed(js, j), 0);
}

void cache_jobs_tick(struct cache_jobs *js, uint64_t now_ms)
{
	double speeds = 0, reading = 0;
	js->now_ms = now_ms;
	for (uint32_t i = 0; i < js->jobs_n; i++) {
		struct cache_job *j = &js->jobs[i];
		if (j->state != CACHE_JOB_READING)
			continue;
		measure_speed(j, now_ms);
		j->overdue = now_ms > j->last_ms + SILENCE_MS;
		if (j->speed > 0) {
			speeds += j->speed;
			reading++;
		}
	}
	if (reading > 0)
		js->speed = speeds / reading;
	for (uint32_t i = 0; i < js->jobs_n; i++) { /* a job waits only for jobs before it */
		struct cache_job *j = &js->jobs[i];
		if (j->state != CACHE_JOB_QUEUED)
			continue;
		bool waits = false;
		for (uint32_t k = 0; k < j->spec.after_n; k++) {
			const struct cache_job *first = &js->jobs[j->spec.after[k]];
			double end = job_end(js, first);
			waits = waits || (first->state != CACHE_JOB_ENDED && !first->overdue);
			j->start_ms = (uint64_t)fmax(end, (double)(k > 0 ? j->start_ms : 0));
		}
		if (waits)
			j->last_ms = now_ms; /* it can be late only when nothing holds it */
		else if (j->spec.after_n == 0)
			j->last_ms = j->start_ms;
		j->overdue = now_ms > j->last_ms + SILENCE_MS;
	}
}

/* ---- what is to come ---- */

static bool job_counts(const struct cache_job *j)
{
	return j->state != CACHE_JOB_ENDED && !j->overdue && j->trust >= TRUST_ENOUGH;
}

struct outlook_sum {
	double next_ms; /* of the reads whose time is known */
	double rate,
		rate_least; /* of reads at a random time: 1 / time left, summed, and the smallest */
	uint32_t need;
};

static void add_reader_outlook(const struct cache_jobs *js, struct cache_reader reader,
			       uint64_t unit, struct outlook_sum *sum)
{
	const struct cache_job *j = &js->jobs[reader.job];
	const struct cache_order *o = order_of(j, reader.part);
	double speed = job_speed(js, j), wait = 0, at = j->before[reader.part];
	bool known = order_known(j, reader.part);
	bool current = j->state == CACHE_JOB_READING && reader.part == j->part;
	if (j->state == CACHE_JOB_READING && reader.part < j->part)
		return;
	if (j->state == CACHE_JOB_QUEUED)
		wait = fmax((double)j->start_ms - (double)js->now_ms, 0);
	if (current && !known) {
		if (j->seen != NULL && (j->seen[unit / 8] >> unit % 8 & 1) != 0)
			return;
		double left = fmax(((double)o->units - j->done) / speed, 1);
		sum->rate += 1 / left;
		sum->rate_least = sum->rate_least > 0 ? fmin(sum->rate_least, 1 / left) : 1 / left;
		sum->need++;
		return;
	}
	at += known ? (double)cache_order_rank(o, unit) : (double)o->units / 2;
	double progress = j->state == CACHE_JOB_READING ? j->before[j->part] + j->done : 0;
	if (at < progress)
		return;
	sum->next_ms = fmin(sum->next_ms, wait + (at - progress) / speed);
	sum->need++;
}

struct cache_outlook cache_jobs_outlook(const struct cache_jobs *js, uint16_t bucket,
					uint32_t position)
{
	struct outlook_sum sum = {.next_ms = CACHE_NEVER};
	if (bucket >= js->readers_n || position == CACHE_NONE)
		return (struct cache_outlook){.next_ms = CACHE_NEVER};
	const struct cache_readers *readers = &js->readers[bucket];
	uint64_t from = position * js->segment_bytes, unit;
	for (uint32_t i = 0; i < readers->n; i++) {
		struct cache_reader reader = readers->of[i];
		const struct cache_job *j = &js->jobs[reader.job];
		if (job_counts(j) && cache_order_find(order_of(j, reader.part), from,
						      from + js->segment_bytes, &unit))
			add_reader_outlook(js, reader, unit, &sum);
	}
	/* The first of n reads, each uniform over the time left, comes after time / (n + 1). */
	if (sum.rate > 0)
		sum.next_ms = fmin(sum.next_ms, 1 / (sum.rate + sum.rate_least));
	return (struct cache_outlook){.next_ms = sum.next_ms, .need = sum.need};
}

uint32_t cache_jobs_readers(const struct cache_jobs *js, uint16_t bucket)
{
	uint32_t n = 0;
	if (bucket >= js->readers_n)
		return 0;
	for (uint32_t i = 0; i < js->readers[bucket].n; i++) {
		struct cache_reader reader = js->readers[bucket].of[i];
		const struct cache_job *j = &js->jobs[reader.job];
		bool again = i > 0 && js->readers[bucket].of[i - 1].job == reader.job;
		n += !again && j->state == CACHE_JOB_READING && !j->overdue &&
		     reader.part >= j->part;
	}
	return n;
}

bool cache_jobs_trusted(const struct cache_jobs *js, uint32_t job)
{
	return job < js->jobs_n && js->jobs[job].trust >= TRUST_ENOUGH &&
	       js->jobs[job].state != CACHE_JOB_ENDED;
}
