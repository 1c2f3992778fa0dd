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
#define AGAIN_READS 16u /* in a row: the next epoch has begun */

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

/* Returns a free slot, the vacant one of a removed job if it may come before others. */
static struct cache_job *job_slot(struct cache_jobs *js, bool reuse)
{
	for (uint32_t i = 0; reuse && js->vacant_n > 0 && i < js->jobs_n; i++)
		if (js->jobs[i].vacant) {
			js->vacant_n--;
			return &js->jobs[i];
		}
	if (js->jobs_n == CACHE_JOBS_MAX)
		return NULL;
	if (js->jobs_n == js->jobs_cap) {
		uint32_t cap = js->jobs_cap * 2 + 16;
		struct cache_job *more = realloc(js->jobs, cap * sizeof(*more));
		if (more == NULL)
			return NULL;
		js->jobs = more;
		js->jobs_cap = cap;
	}
	return &js->jobs[js->jobs_n++]; /* from here on cache_jobs_fini() frees it */
}

int cache_jobs_add(struct cache_jobs *js, const struct cache_job_spec *spec, uint32_t *out)
{
	bool full = js->jobs_n == CACHE_JOBS_MAX && js->vacant_n == 0;
	if (full || spec->parts_n == 0 || spec->parts_n > CACHE_PARTS_MAX)
		return -E2BIG;
	double units = 0, *before = calloc(spec->parts_n, sizeof(*before));
	/* a job waits only for jobs before it */
	struct cache_job *j = before != NULL ? job_slot(js, spec->after_n == 0) : NULL;
	if (j == NULL) {
		free(before);
		return -ENOMEM;
	}
	*j = (struct cache_job){.spec = *spec,
				.state = CACHE_JOB_QUEUED,
				.start_ms = spec->start_ms,
				.epochs_left = spec->epochs > 1 ? spec->epochs - 1 : 0,
				.before = before,
				.trust = 1,
				.order_trust = 1};
	if (j->epochs_left > CACHE_EPOCHS_MAX)
		j->epochs_left = CACHE_EPOCHS_MAX;
	for (uint32_t i = 0; i < spec->parts_n; i++) {
		j->before[i] = units;
		units += (double)spec->parts[i].order.units;
	}
	*out = (uint32_t)(j - js->jobs);
	for (uint32_t i = 0; i < spec->after_n; i++)
		assert(spec->after[i] < *out);
	for (uint32_t i = 0; i < spec->parts_n; i++) {
		int rc = add_reader(js, spec->parts[i].bucket, (struct cache_reader){*out, i});
		if (rc != 0) {
			cache_jobs_remove(js, *out);
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

/* Takes the job out of the readers of a bucket. */
static void drop_readers(struct cache_jobs *js, uint16_t bucket, uint32_t job)
{
	if (bucket >= js->readers_n)
		return;
	struct cache_readers *of = &js->readers[bucket];
	uint32_t n = 0;
	for (uint32_t i = 0; i < of->n; i++)
		if (of->of[i].job != job)
			of->of[n++] = of->of[i];
	of->n = n;
}

void cache_jobs_remove(struct cache_jobs *js, uint32_t job)
{
	cache_jobs_end(js, job);
	struct cache_job *j = &js->jobs[job];
	assert(!j->vacant);
	for (uint32_t i = 0; i < j->spec.parts_n; i++)
		drop_readers(js, j->spec.parts[i].bucket, job);
	free(j->before);
	*j = (struct cache_job){.state = CACHE_JOB_ENDED, .vacant = true};
	js->vacant_n++;
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
	j->again = 0;
	free(j->seen);
	j->seen = NULL;
}

/* The job begins this part anew, or another one that it finds behind the last one: the next epoch has begun. */
static void enter_epoch(struct cache_job *j, uint32_t part)
{
	if (j->epochs_left > 0 && j->spec.epochs > 0)
		j->epochs_left--;
	else if (j->spec.epochs == 0)
		j->epochs_left = 1; /* so it will do that again */
	enter_part(j, part);
}

static bool same_bucket(const struct cache_job *j, uint32_t a, uint32_t b)
{
	return j->spec.parts[a].bucket == j->spec.parts[b].bucket;
}

static bool is_seen(const struct cache_job *j, uint64_t unit)
{
	return j->seen != NULL && (j->seen[unit / 8] >> unit % 8 & 1) != 0;
}

/* Returns whether the job, which reads its part again, has begun the next epoch, and then enters it. finished: share of the
 * part that it must have read. */
static bool begins_again(struct cache_job *j, double finished)
{
	uint32_t n = j->spec.parts_n;
	bool next = j->part + 1 < n && same_bucket(j, j->part, j->part + 1);
	if (j->done <= finished * (double)order_of(j, j->part)->units || (!next && n > 1))
		return false;
	if (next)
		enter_part(j, j->part + 1);
	else
		enter_epoch(j, 0);
	return true;
}

/* Marks a unit of a part in unknown order as read. Without memory for the bits every read counts as a new one. */
static void mark_seen(struct cache_job *j, uint64_t unit, double share)
{
	uint64_t units = order_of(j, j->part)->units;
	if (is_seen(j, unit) && (++j->again < AGAIN_READS || !begins_again(j, PART_FINISHED)))
		return;
	if (j->seen == NULL && units <= SEEN_UNITS_MAX)
		j->seen = calloc(units / 8 + 1, 1);
	if (j->seen != NULL)
		j->seen[unit / 8] |= (uint8_t)(1u << unit % 8);
	j->again = 0;
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

/* A read of units in known order shows how far the job is. */
static void read_known(struct cache_job *j, uint64_t unit, uint64_t last, bool first)
{
	const struct cache_order *o = order_of(j, j->part);
	double rank = (double)cache_order_rank(o, unit), units = (double)o->units;
	double jump = fabs(rank - j->done);
	/* The next epoch over the same bucket. If the spec does not name it again, nothing but the jump says so. */
	double finished = j->spec.parts_n > 1 ? PART_FINISHED : 1 - ORDER_TOLERANCE;
	if (rank < units - finished * units && begins_again(j, finished)) {
		jump = 0;
		o = order_of(j, j->part);
		rank = (double)cache_order_rank(o, unit);
	}
	bool agrees = first || jump <= fmax(ORDER_TOLERANCE * units, 256.0 * o->readers);
	learn(&j->order_trust, agrees);
	double end = 1 + (last != unit && o->kind == CACHE_SCAN ? (double)cache_order_rank(o, last)
								: rank);
	/* Requests that are in progress at the same time arrive in any order. */
	j->done = agrees && !first ? fmax(j->done, end) : end;
	assert(j->done <= (double)order_of(j, j->part)->units);
}

/* The job reads this part. Returns whether it did not do so before. */
static bool read_part(struct cache_job *j, uint32_t part)
{
	if (j->state == CACHE_JOB_QUEUED) {
		j->state = CACHE_JOB_READING;
		enter_part(j, part);
		j->mark_ms = 0;
		return true;
	}
	if (part == j->part)
		return false;
	double units = (double)order_of(j, j->part)->units;
	if (part == 0 && j->part == j->spec.parts_n - 1 && j->done > units / 2)
		enter_epoch(j, part);
	else
		enter_part(j, part);
	return true;
}

/* Takes a read of the current part, whose place in it is known. */
static void read_units(struct cache_jobs *js, struct cache_job *j, const struct cache_request *r,
		       bool first)
{
	uint64_t unit, last, from = r->position * js->segment_bytes + r->skip, to = from + r->bytes;
	const struct cache_order *o = order_of(j, j->part);
	if (!cache_order_find(o, from, to, &unit)) {
		learn(&j->trust, false);
		return;
	}
	if (r->bytes <= o->unit_bytes || !cache_order_find(o, to - 1, to, &last) || last < unit)
		last = unit;
	if (order_known(j, j->part)) {
		read_known(j, unit, last, first);
		return;
	}
	for (uint64_t i = unit; i <= last; i++)
		mark_seen(j, i, js->share);
}

void cache_jobs_read(struct cache_jobs *js, const struct cache_request *r)
{
	uint32_t part;
	if (r->job >= js->jobs_n)
		return;
	struct cache_job *j = &js->jobs[r->job];
	if (j->state == CACHE_JOB_ENDED)
		return;
	j->last_ms = r->now_ms;
	j->overdue = false;
	bool found = find_part(j, r->bucket, &part);
	learn(&j->trust, found);
	if (!found)
		return;
	if (j->spec.side_by_side) {
		j->state = CACHE_JOB_READING;
		return;
	}
	bool first = read_part(j, part);
	if (r->position != CACHE_NONE) {
		read_units(js, j, r, first);
		return;
	}
	const struct cache_order *o = order_of(j, part);
	double units = (double)r->bytes / (double)o->unit_bytes / js->share;
	j->done = fmin(j->done + units, (double)o->units);
}

void cache_jobs_report(struct cache_jobs *js, uint32_t job, const struct cache_job_report *r,
		       uint64_t now_ms)
{
	assert(job < js->jobs_n && r->done >= 0 && r->done <= 1);
	struct cache_job *j = &js->jobs[job];
	if (j->state == CACHE_JOB_ENDED || r->part >= j->spec.parts_n || j->spec.side_by_side)
		return;
	bool first = j->state == CACHE_JOB_QUEUED;
	bool ahead = first || r->epochs_left < j->epochs_left ||
		     (r->epochs_left == j->epochs_left && r->part > j->part);
	if (first)
		j->mark_ms = 0;
	j->state = CACHE_JOB_READING;
	j->last_ms = now_ms;
	j->overdue = false;
	if (ahead) {
		enter_part(j, r->part);
		j->epochs_left = r->epochs_left;
	}
	if (r->part == j->part && r->epochs_left == j->epochs_left)
		j->done = fmax(j->done, r->done * (double)order_of(j, j->part)->units);
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

/* Returns whether the job has read all units of the segment in the current part, whose order is unknown. */
static bool all_seen(const struct cache_jobs *js, const struct cache_job *j, uint64_t unit)
{
	const struct cache_order *o = order_of(j, j->part);
	uint64_t n = o->unit_bytes < js->segment_bytes ? js->segment_bytes / o->unit_bytes : 1;
	bool all = j->seen != NULL;
	for (uint64_t i = unit; all && i < unit + n && i < o->units; i++)
		all = is_seen(j, i);
	return all;
}

static void add_reader_outlook(const struct cache_jobs *js, struct cache_reader reader,
			       uint64_t unit, struct outlook_sum *sum)
{
	const struct cache_job *j = &js->jobs[reader.job];
	const struct cache_order *o = order_of(j, reader.part);
	double speed = job_speed(js, j), wait = 0, at = j->before[reader.part];
	bool known = order_known(j, reader.part), reading = j->state == CACHE_JOB_READING;
	bool current = reading && reader.part == j->part;
	double progress = reading ? j->before[j->part] + j->done : 0;
	if (reading && reader.part < j->part && j->epochs_left == 0)
		return;
	if (!reading)
		wait = fmax((double)j->start_ms - (double)js->now_ms, 0);
	at += known ? (double)cache_order_rank(o, unit) : (double)o->units / 2;
	bool was_read = reading && (reader.part < j->part ||
				    (current && !known ? all_seen(js, j, unit) : at < progress));
	if (was_read) {
		if (j->epochs_left == 0)
			return;
		at += job_units(j); /* in the next epoch */
	} else {
		sum->need++;
	}
	sum->need += j->epochs_left;
	if (current && !known && !was_read) {
		double left = fmax(((double)o->units - j->done) / speed, 1);
		sum->rate += 1 / left;
		sum->rate_least = sum->rate_least > 0 ? fmin(sum->rate_least, 1 / left) : 1 / left;
		return;
	}
	sum->next_ms = fmin(sum->next_ms, wait + (at - progress) / speed);
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
		     (reader.part >= j->part || j->epochs_left > 0);
	}
	return n;
}

bool cache_jobs_trusted(const struct cache_jobs *js, uint32_t job)
{
	return job < js->jobs_n && js->jobs[job].trust >= TRUST_ENOUGH &&
	       js->jobs[job].state != CACHE_JOB_ENDED;
}

double cache_jobs_done(const struct cache_jobs *js, uint32_t job)
{
	assert(job < js->jobs_n);
	const struct cache_job *j = &js->jobs[job];
	if (j->state != CACHE_JOB_READING)
		return 0;
	return fmin((j->before[j->part] + j->done) / job_units(j), 1);
}
