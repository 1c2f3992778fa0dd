// SPDX-License-Identifier: Apache-2.0
#include "jobs/worth.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "jobs/benefit.h"

#define WAITS 0.05 /* share of the time of a step from which on a job waits for data */
#define REFRESH_MS 60000u
#define PARTS 9u /* options of a pinned part: 10% to 90% */
#define NO_SET UINT32_MAX

enum { ALL, WINDOWS, PART };

/* --- times of a step ------------------------------------------------------------------------------ */

static uint64_t busy_us(const struct job_progress *p)
{
	return p->compute_us + p->wait_us;
}

/* Returns whether the last two reports tell the time of a step. */
static bool step_times(const struct worth_job *j, uint64_t now_ms, double *hit_us, double *step_us)
{
	const struct job_state *st = j->state;
	const struct job_progress *p = &st->progress, *b = &st->before;
	if (st->before_ms == 0 || st->reported_ms <= st->before_ms || p->steps <= b->steps ||
	    p->compute_us < b->compute_us || p->wait_us < b->wait_us ||
	    (now_ms > st->reported_ms && now_ms - st->reported_ms > WORTH_SILENT_MS))
		return false;
	double steps = (double)(p->steps - b->steps);
	*hit_us = (double)(p->compute_us - b->compute_us) / steps;
	*step_us = *hit_us + (double)(p->wait_us - b->wait_us) / steps;
	return *step_us > 0;
}

/* Returns whether the last two reports were made while the verdict was in force at the caches. */
static bool settled(const struct worth_job *j)
{
	return j->state->before_ms >= j->verdict.since_ms + WORTH_FOLLOW_MS;
}

static void miss_is(struct job_verdict *v, double us, uint64_t now_ms)
{
	v->miss_us = (uint64_t)fmin(us, (double)JOB_COUNTER_MAX);
	v->miss_at_ms = now_ms;
}

static bool miss_known(const struct job_verdict *v, uint64_t now_ms)
{
	return v->miss_at_ms != 0 && now_ms < v->miss_at_ms + WORTH_MISS_AGE_MS;
}

/* Takes the reports of a job that is probed. */
static void probe(struct worth_job *j, uint64_t now_ms)
{
	const struct job_progress *p = &j->state->progress;
	struct job_verdict *v = &j->verdict;
	if (!settled(j))
		return;
	if (v->probe_us == 0 || p->steps < v->probe_steps || busy_us(p) < v->probe_us) {
		v->probe_steps = j->state->before.steps;
		v->probe_us = max_u64(busy_us(&j->state->before), 1);
	}
	if (p->steps < v->probe_steps + WORTH_PROBE_STEPS || busy_us(p) < v->probe_us)
		return;
	miss_is(v, (double)(busy_us(p) - v->probe_us) / (double)(p->steps - v->probe_steps),
		now_ms);
	v->cache = JOB_CACHE_ON;
}

/* Learns what a step takes with and without a cache. Returns whether reports do not tell. */
static bool learn(struct worth_job *j, uint64_t now_ms)
{
	struct job_verdict *v = &j->verdict;
	double hit_us, step_us;
	if (v->cache == JOB_CACHE_PROBE && now_ms > v->since_ms + WORTH_MISS_AGE_MS)
		v->cache = JOB_CACHE_ON; /* it does not report enough steps */
	if (!step_times(j, now_ms, &hit_us, &step_us))
		return false;
	v->hit_us = (uint64_t)fmin(hit_us, (double)JOB_COUNTER_MAX);
	bool without = v->cache == JOB_CACHE_OFF || v->keep == JOB_KEEP_NOTHING;
	if (v->cache == JOB_CACHE_PROBE)
		probe(j, now_ms);
	else if (v->at_ms != 0 && without && settled(j))
		miss_is(v, step_us, now_ms);
	else if (step_us - hit_us > WAITS * step_us && step_us >= (double)v->miss_us)
		miss_is(v, step_us, now_ms);
	return v->cache != JOB_CACHE_PROBE && !miss_known(v, now_ms);
}

/* --- data sets -------------------------------------------------------------------------------------- */

struct of_set {
	uint32_t tenant;
	uint64_t id, bytes;
	uint32_t windows, sharers; /* sharers: jobs of the order window or free */
	bool probed;
};

struct deciding {
	struct worth_job *jobs;
	size_t n;
	uint64_t now_ms;
	struct of_set *sets;
	struct benefit_set *options;
	uint32_t *set_of; /* [job] */
	uint32_t *before, *choice;
	uint32_t sets_n;
};

static uint32_t find_set(struct deciding *d, const struct worth_job *j)
{
	for (uint32_t i = 0; i < d->sets_n; i++)
		if (d->sets[i].tenant == j->tenant && d->sets[i].id == j->set)
			return i;
	if (d->sets_n == BENEFIT_SETS_MAX)
		return NO_SET;
	d->sets[d->sets_n] = (struct of_set){.tenant = j->tenant, .id = j->set};
	return d->sets_n++;
}

static bool shares_windows(const struct worth_job *j)
{
	return j->order == JOB_WINDOW || j->order == JOB_FREE;
}

static void gather(struct deciding *d)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct worth_job *j = &d->jobs[i];
		const struct job_progress *p = &j->state->progress;
		uint32_t at = find_set(d, j);
		d->set_of[i] = at;
		if (at == NO_SET)
			continue;
		struct of_set *s = &d->sets[at];
		s->bytes = max_u64(s->bytes, p->part_bytes);
		s->windows = (uint32_t)max_u64(s->windows, p->windows);
		s->sharers += shares_windows(j);
		s->probed = s->probed || j->verdict.cache == JOB_CACHE_PROBE;
	}
}

/* Returns what an option saves for a job, in accelerators. */
static double saved(const struct of_set *s, const struct worth_job *j, int option, double part,
		    uint64_t now_ms)
{
	const struct job_verdict *v = &j->verdict;
	double hit = (double)v->hit_us, miss = (double)v->miss_us, t = hit, spared = 1;
	double n = (double)min_u64(max_u64(j->accelerators, 1), WORTH_CLAIM_MAX);
	if (!miss_known(v, now_ms) || hit >= (1 - WORTH_GAIN_LEAST) * miss)
		return 0;
	if (option == PART)
		spared = part;
	if (option == WINDOWS)
		spared = shares_windows(j) ? 1 - 1.0 / s->sharers : 0;
	if (option != ALL)
		t = fmax(hit, (1 - spared) * miss);
	return benefit_saved(n, t, miss) + WORTH_DISKS * n * spared;
}

static double saved_by_all(const struct deciding *d, uint32_t set, int option, double part)
{
	double sum = 0;
	for (size_t i = 0; i < d->n; i++)
		if (d->set_of[i] == set)
			sum += saved(&d->sets[set], &d->jobs[i], option, part, d->now_ms);
	return sum;
}

static double part_of(uint32_t option)
{
	return (double)(option - PART + 1) / (PARTS + 1);
}

static void set_options(struct deciding *d, uint32_t set)
{
	const struct of_set *s = &d->sets[set];
	struct benefit_set *b = &d->options[set];
	double most = saved_by_all(d, set, ALL, 0);
	static_assert(PART + PARTS <= BENEFIT_OPTIONS_MAX, "all options fit");
	*b = (struct benefit_set){0};
	if (s->bytes == 0 || most <= 0)
		return;
	b->options[ALL] = (struct benefit_option){.bytes = s->bytes, .saved = most};
	uint64_t window = s->windows > 0 ? s->bytes / s->windows + 1 : s->bytes;
	b->options[WINDOWS] = (struct benefit_option){.bytes = min_u64(2 * window, s->bytes),
						      .saved = saved_by_all(d, set, WINDOWS, 0)};
	for (uint32_t i = PART; i < PART + PARTS; i++)
		b->options[i] =
			(struct benefit_option){.bytes = (uint64_t)(part_of(i) * (double)s->bytes),
						.saved = saved_by_all(d, set, PART, part_of(i))};
	b->count = PART + PARTS;
}

/* Returns the option that a verdict has chosen before. */
static uint32_t option_before(const struct job_verdict *v)
{
	if (v->keep == JOB_KEEP_ALL)
		return ALL;
	if (v->keep == JOB_KEEP_WINDOWS)
		return WINDOWS;
	uint32_t step = JOB_RANGE_WHOLE / (PARTS + 1);
	if (v->keep == JOB_KEEP_PART && v->share >= step && v->share / step <= PARTS)
		return PART + v->share / step - 1;
	return BENEFIT_NOTHING;
}

/* --- verdicts ----------------------------------------------------------------------------------------- */

static void set_keep(const struct deciding *d, uint32_t set, struct job_verdict *v)
{
	const struct benefit_set *b = &d->options[set];
	uint32_t choice = d->choice[set];
	v->keep = JOB_KEEP_NOTHING;
	v->share = 0;
	v->bytes = v->saved_milli = 0;
	if (choice == BENEFIT_NOTHING)
		return;
	v->keep = choice == ALL       ? JOB_KEEP_ALL
		  : choice == WINDOWS ? JOB_KEEP_WINDOWS
				      : JOB_KEEP_PART;
	if (v->keep == JOB_KEEP_PART)
		v->share = (choice - PART + 1) * (JOB_RANGE_WHOLE / (PARTS + 1));
	v->bytes = b->options[choice].bytes;
	v->saved_milli = (uint64_t)(b->options[choice].saved * 1000);
}

/* Returns whether nothing can be said of a data set: no size, or no job of it has told the time of a step. */
static bool unknown(const struct deciding *d, uint32_t set)
{
	bool known = false;
	for (size_t i = 0; i < d->n; i++)
		known = known ||
			(d->set_of[i] == set && miss_known(&d->jobs[i].verdict, d->now_ms));
	return d->sets[set].bytes == 0 || !known;
}

static void judge(struct deciding *d, struct worth_job *j, uint32_t set, bool ask, uint32_t *probes)
{
	struct job_verdict old = j->verdict, *v = &j->verdict;
	v->at_ms = d->now_ms;
	if (set == NO_SET || unknown(d, set)) {
		v->keep = JOB_KEEP_ANY;
		v->share = 0;
		v->bytes = v->saved_milli = 0;
	} else {
		set_keep(d, set, v);
	}
	if (v->cache != JOB_CACHE_PROBE) {
		bool gains = (double)v->hit_us < (1 - WORTH_GAIN_LEAST) * (double)v->miss_us;
		v->cache = miss_known(v, d->now_ms) && !gains ? JOB_CACHE_OFF : JOB_CACHE_ON;
	}
	if (ask && set != NO_SET && !d->sets[set].probed && *probes < WORTH_PROBES_MAX) {
		v->cache = JOB_CACHE_PROBE;
		v->probe_steps = v->probe_us = 0;
		d->sets[set].probed = true;
		(*probes)++;
	}
	if (old.at_ms == 0 || old.keep != v->keep || old.cache != v->cache || old.share != v->share)
		v->since_ms = d->now_ms;
}

static int decide(struct deciding *d, uint64_t capacity, bool *asks)
{
	bool changed;
	uint32_t probes = 0;
	gather(d);
	for (uint32_t i = 0; i < d->sets_n; i++) {
		set_options(d, i);
		d->before[i] = BENEFIT_NOTHING;
	}
	for (size_t i = 0; i < d->n; i++) {
		uint32_t set = d->set_of[i];
		if (set != NO_SET && option_before(&d->jobs[i].verdict) < d->options[set].count)
			d->before[set] = option_before(&d->jobs[i].verdict);
		probes += d->jobs[i].verdict.cache == JOB_CACHE_PROBE;
	}
	int rc = benefit_decide(d->options, d->sets_n, capacity, WORTH_MARGIN, d->before, d->choice,
				&changed);
	for (size_t i = 0; rc == 0 && i < d->n; i++)
		judge(d, &d->jobs[i], d->set_of[i], asks[i], &probes);
	return rc;
}

int worth_decide(struct worth_job *jobs, size_t n, uint64_t capacity, uint64_t now_ms)
{
	AUTO_FREE bool *asks = calloc(n + 1, sizeof(*asks));
	AUTO_FREE struct of_set *sets = calloc(BENEFIT_SETS_MAX, sizeof(*sets));
	AUTO_FREE struct benefit_set *options = calloc(BENEFIT_SETS_MAX, sizeof(*options));
	AUTO_FREE uint32_t *numbers = calloc(n + (size_t)2 * BENEFIT_SETS_MAX, sizeof(*numbers));
	if (asks == NULL || sets == NULL || options == NULL || numbers == NULL)
		return -ENOMEM;
	struct deciding d = {.jobs = jobs,
			     .n = n,
			     .now_ms = now_ms,
			     .sets = sets,
			     .options = options,
			     .before = numbers,
			     .choice = numbers + BENEFIT_SETS_MAX,
			     .set_of = numbers + (size_t)(2 * BENEFIT_SETS_MAX)};
	for (size_t i = 0; i < n; i++)
		asks[i] = learn(&jobs[i], now_ms);
	return decide(&d, capacity, asks);
}

bool worth_is_new(const struct job_verdict *now, const struct job_verdict *stored)
{
	return stored->at_ms == 0 || now->keep != stored->keep || now->cache != stored->cache ||
	       now->share != stored->share || now->bytes != stored->bytes ||
	       now->probe_us != stored->probe_us || now->at_ms >= stored->at_ms + REFRESH_MS;
}

const char *worth_why(const struct job_verdict *v)
{
	bool gains = (double)v->hit_us < (1 - WORTH_GAIN_LEAST) * (double)v->miss_us;
	if (v->at_ms == 0)
		return "no manager has decided yet";
	if (v->cache == JOB_CACHE_PROBE)
		return "its steps are timed without a cache";
	if (v->miss_at_ms == 0)
		return v->hit_us == 0 ? "it has reported no steps"
				      : "not timed without a cache yet";
	if (!gains)
		return "it does not wait for data";
	switch (v->keep) {
	case JOB_KEEP_ANY:
		return "it has not reported the size of its data";
	case JOB_KEEP_NOTHING:
		return "others save more for each byte of flash";
	default:
		return "saves most for this size";
	}
}

enum worth_rule worth_rule_of(const struct job_verdict *v, double place, uint64_t now_ms)
{
	assert(place >= 0 && place < 1);
	if (v->at_ms == 0 || now_ms > v->at_ms + WORTH_VERDICT_AGE_MS)
		return WORTH_KEEP;
	if (v->cache == JOB_CACHE_PROBE)
		return WORTH_PASS;
	if (v->cache == JOB_CACHE_OFF || v->keep == JOB_KEEP_NOTHING)
		return WORTH_SERVE;
	if (v->keep == JOB_KEEP_PART && place * JOB_RANGE_WHOLE >= v->share)
		return WORTH_SERVE;
	return WORTH_KEEP;
}
