// SPDX-License-Identifier: Apache-2.0
#include "analysis/cache/quiver.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/rng.h"
#include "jobs/together.h"

#define NONE UINT32_MAX
#define SHARED (1u << 31)
#define READ_AHEAD 4u
#define CANDIDATES 10u

/* A data set. */
struct set {
	const struct quiver_set *is;
	uint8_t *present; /* [sample] */
	uint8_t *
		lost; /* [sample]: was lost with a cache node, and is to be fetched again; NULL: none was */
	uint32_t refill_at, refill_left;
	uint64_t *
		waiting; /* [sample]: a bit for each job that waits for it while the store sends it or will */
	uint32_t base; /* number of its first sample in the LRU list */
	/* windows: `old` is still used, `now` is the last whole one, `next` is being filled; NONE */
	uint32_t old, now, next, fill_at;
	uint32_t *have;  /* [window]: samples that are there */
	uint32_t *users; /* [window]: jobs that read it now */
	double left_s;   /* when the first job was done with `old`; 0: none was */
	uint32_t load_of_now, load_of_old, load_of_next; /* numbers in the result */
};

struct job {
	const struct quiver_job *is;
	struct set *set;
	uint32_t *order; /* what it has not read of its window (its epoch), from `at` on */
	uint32_t count, at;
	uint32_t looked;       /* of the order free: end of what it has looked at */
	uint32_t window, turn; /* turn: windows of this epoch before it */
	double entered_s;      /* when it began to read the window */
	bool begun, held; /* held: waits for jobs two windows behind, until then at the latest */
	double held_until_s;
	/* the mini-batch that is being read */
	bool loading;
	uint32_t missing;
	/* what the store is to send for it; with SHARED: others may wait for it, too */
	uint32_t queue[QUIVER_BATCH_MAX];
	uint32_t queue_n, queue_at;
	uint32_t ready; /* mini-batches that were read and transformed */
	/* those that are transformed now: when each ends, in a ring; and how many were begun to be read, were read */
	double transform_s[QUIVER_AHEAD_MAX];
	uint32_t transforms, transform_first;
	uint64_t asked, read;
	bool computing, ended;
	double end_s;   /* of the mini-batch that is computed */
	double idle_s;  /* since when it waits */
	double begin_s; /* of the measurement */
	uint64_t begin_batches;
	struct rng rng;
};

struct lru {
	uint32_t *prev, *next; /* [sample of all sets]; a ring around `count` */
	uint32_t count;
	double bytes, max;
};

struct run {
	const struct quiver_study *s;
	struct quiver_result *out;
	struct set sets[QUIVER_SETS_MAX];
	struct job *jobs;
	struct lru lru;
	double now_s;
	/* what the store sends: for `turn`, or to fill a window (NONE) */
	bool sending, alone; /* alone: sent_for is not among those that wait for the sample */
	uint32_t sent_set, sent_sample, sent_for, turn, fill_turn;
	double sent_s;
	bool left;   /* a job has left a window: others may enter theirs */
	bool failed; /* the cache node has */
	struct quiver_stages untraced;
};

/* --- LRU ------------------------------------------------------------------------------------------ */

static int lru_init(struct lru *l, uint32_t count, double max)
{
	*l = (struct lru){.count = count, .max = max};
	l->prev = calloc(count + 1ULL, sizeof(*l->prev));
	l->next = calloc(count + 1ULL, sizeof(*l->next));
	if (l->prev == NULL || l->next == NULL)
		return -ENOMEM;
	l->prev[count] = l->next[count] = count;
	return 0;
}

static void lru_unlink(struct lru *l, uint32_t i)
{
	l->next[l->prev[i]] = l->next[i];
	l->prev[l->next[i]] = l->prev[i];
}

static void lru_push(struct lru *l, uint32_t i)
{
	l->next[i] = l->next[l->count];
	l->prev[i] = l->count;
	l->prev[l->next[i]] = i;
	l->next[l->count] = i;
}

static void lru_insert(struct run *r, struct set *set, uint32_t sample)
{
	struct lru *l = &r->lru;
	if (set->is->sample_bytes > l->max)
		return;
	set->present[sample] = 1;
	lru_push(l, set->base + sample);
	l->bytes += set->is->sample_bytes;
	while (l->bytes > l->max) {
		uint32_t last = l->prev[l->count];
		struct set *of = &r->sets[r->s->sets_n - 1];
		while (last < of->base)
			of--;
		assert(last != l->count && of >= r->sets);
		lru_unlink(l, last);
		of->present[last - of->base] = 0;
		l->bytes -= of->is->sample_bytes;
	}
}

/* --- windows -------------------------------------------------------------------------------------- */

static uint32_t window_begin(const struct quiver_set *s, uint32_t window)
{
	assert(s->windows > 0);
	return (uint32_t)((uint64_t)window * s->samples / s->windows);
}

static uint32_t window_of(const struct quiver_set *s, uint32_t sample)
{
	uint32_t w = (uint32_t)(((uint64_t)sample * s->windows + s->windows - 1) / s->samples);
	while (w > 0 && window_begin(s, w) > sample)
		w--;
	while (w + 1 < s->windows && window_begin(s, w + 1) <= sample)
		w++;
	return w;
}

static uint32_t window_len(const struct quiver_set *s, uint32_t window)
{
	return window_begin(s, window + 1) - window_begin(s, window);
}

static uint32_t note_load(struct run *r, uint32_t set, uint32_t window)
{
	struct quiver_result *out = r->out;
	if (out->loads_n == QUIVER_LOADS_MAX)
		return NONE;
	out->loads[out->loads_n] =
		(struct quiver_load){.set = set, .window = window, .from_s = r->now_s};
	return out->loads_n++;
}

static void drop_window(struct run *r, struct set *s, uint32_t window, uint32_t load)
{
	uint32_t begin = window_begin(s->is, window), len = window_len(s->is, window);
	memset(s->present + begin, 0, len);
	s->have[window] = 0;
	if (load != NONE)
		r->out->loads[load].to_s = r->now_s;
}

/* Drops the old window when no job reads it any more, and begins to fill the next one. */
static void move_on(struct run *r, struct set *s)
{
	uint32_t number = (uint32_t)(s - r->sets);
	if (s->is->keep != QUIVER_WINDOWS)
		return;
	bool forced = r->s->force_s > 0 && s->left_s > 0 && r->now_s >= s->left_s + r->s->force_s;
	if (s->old != NONE && (s->users[s->old] == 0 || forced)) {
		drop_window(r, s, s->old, s->load_of_old);
		s->old = NONE;
	}
	if (s->next == NONE && s->old == NONE && s->is->windows > 1) {
		s->next = s->now == NONE ? 0 : (s->now + 1) % s->is->windows;
		s->load_of_next = note_load(r, number, s->next);
		s->fill_at = 0;
	} else if (s->next == NONE && s->now == NONE) {
		s->next = 0; /* a data set of one window */
		s->load_of_next = note_load(r, number, 0);
		s->fill_at = 0;
	}
	uint32_t resident = (s->old != NONE) + (s->now != NONE) + (s->next != NONE);
	r->out->resident_max = (uint32_t)max_u64(r->out->resident_max, resident);
}

static void window_is_whole(struct run *r, struct set *s)
{
	assert(s->next != NONE && s->old == NONE);
	if (s->load_of_next != NONE)
		r->out->loads[s->load_of_next].whole_s = r->now_s;
	s->old = s->now;
	s->load_of_old = s->load_of_now;
	s->left_s = 0;
	s->now = s->next;
	s->load_of_now = s->load_of_next;
	s->next = NONE;
	move_on(r, s);
}

/* Returns whether the cache keeps this sample, so that jobs that ask for it share it. */
static bool kept(const struct set *s, uint32_t sample)
{
	switch (s->is->keep) {
	case QUIVER_NOTHING:
		return false;
	case QUIVER_PINNED:
		return sample < s->is->pinned * s->is->samples;
	case QUIVER_WINDOWS: {
		uint32_t w = window_of(s->is, sample);
		return w == s->old || w == s->now || w == s->next;
	}
	default:
		return true;
	}
}

/* --- what a job reads ----------------------------------------------------------------------------- */

static bool has_windows(const struct job *j)
{
	return j->is->contract != QUIVER_STRICT && j->set->is->windows > 1;
}

/* Lists the windows that the other jobs of the data set read. Returns their number. */
static size_t windows_of_others(const struct run *r, const struct job *j,
				uint32_t out[QUIVER_JOBS_MAX])
{
	size_t n = 0;
	for (uint32_t i = 0; i < r->s->jobs_n; i++) {
		const struct job *o = &r->jobs[i];
		if (o != j && o->set == j->set && o->begun && !o->ended && has_windows(o))
			out[n++] = o->window;
	}
	return n;
}

/* Returns the window that the job reads next. */
static uint32_t next_window(const struct run *r, const struct job *j)
{
	uint32_t windows = j->set->is->windows, others[QUIVER_JOBS_MAX];
	uint32_t own = j->begun ? (j->window + 1) % windows : 0;
	if (j->begun && j->turn + 1 < windows)
		return own;
	return together_join(others, windows_of_others(r, j, others), windows, own);
}

/* Returns whether the job may read a mini-batch now, or waits until others have come nearer. */
static bool may_read(const struct run *r, struct job *j)
{
	uint32_t others[QUIVER_JOBS_MAX];
	bool ends = j->count - j->at < j->is->batch;
	if (!has_windows(j) || !j->begun || !ends ||
	    !together_waits(others, windows_of_others(r, j, others), j->set->is->windows,
			    next_window(r, j))) {
		j->held = false;
		return true;
	}
	if (!j->held) {
		/* what was read ahead is computed first: only after that it waits */
		double idle_s = (j->computing ? j->end_s : r->now_s) +
				(j->ready + j->transforms) * j->is->compute_s;
		j->held_until_s = idle_s + together_patience(idle_s - j->entered_s);
	}
	j->held = r->now_s < j->held_until_s;
	return !j->held;
}

static void leave_window(struct run *r, struct job *j)
{
	assert(j->set->users[j->window] > 0);
	j->set->users[j->window]--;
	if (j->window == j->set->old && j->set->left_s == 0)
		j->set->left_s = r->now_s;
	r->left = true;
}

/* Begins the next window, or the next epoch. */
static void next_part(struct run *r, struct job *j)
{
	const struct quiver_set *s = j->set->is;
	bool whole = !has_windows(j);
	if (!whole) {
		uint32_t next = next_window(r, j);
		if (j->begun)
			leave_window(r, j);
		j->turn = j->begun ? (j->turn + 1) % s->windows : 0;
		j->window = next;
		j->entered_s = r->now_s;
	}
	j->begun = true;
	uint32_t begin = whole ? 0 : window_begin(s, j->window);
	j->count = whole ? s->samples : window_len(s, j->window);
	j->at = j->looked = 0;
	for (uint32_t i = 0; i < j->count; i++) {
		uint32_t k = (uint32_t)rng_below(&j->rng, i + 1);
		j->order[i] = j->order[k];
		j->order[k] = begin + i;
	}
	if (!whole) {
		j->set->users[j->window]++;
		move_on(r, j->set);
	}
}

static void swap(uint32_t *a, uint32_t *b)
{
	uint32_t t = *a;
	*a = *b;
	*b = t;
}

/* Moves what is best to read next to the front: what is there, then what is on its way. */
static void substitute(const struct run *r, struct job *j)
{
	/* others take the place of what was looked at in vain (dataset/free.c does the same) */
	for (uint32_t i = j->at; i < j->looked && i < j->count; i++)
		swap(&j->order[i], &j->order[i + rng_below(&j->rng, j->count - i)]);
	uint32_t wide = r->s->candidates != 0 ? r->s->candidates : CANDIDATES;
	uint32_t end = (uint32_t)min_u64(j->count, j->at + (uint64_t)wide * j->is->batch);
	uint32_t front = j->at;
	for (uint32_t i = j->at; i < end && front < j->at + j->is->batch; i++)
		if (j->set->present[j->order[i]])
			swap(&j->order[i], &j->order[front++]);
	for (uint32_t i = front; i < end && front < j->at + j->is->batch; i++)
		if (j->set->waiting[j->order[i]] != 0)
			swap(&j->order[i], &j->order[front++]);
	j->looked = end;
}

/* Asks for one sample of the mini-batch. */
static void ask(struct run *r, struct job *j, uint32_t sample)
{
	struct set *s = j->set;
	uint64_t bit = 1ULL << (j - r->jobs);
	struct quiver_job_result *out = &r->out->jobs[j - r->jobs];
	out->samples++;
	if (s->present[sample]) {
		out->hits++;
		if (s->is->keep == QUIVER_LRU) {
			lru_unlink(&r->lru, s->base + sample);
			lru_push(&r->lru, s->base + sample);
		}
		return;
	}
	j->missing++;
	bool shared = kept(s, sample), asked = shared && s->waiting[sample] != 0;
	if (shared)
		s->waiting[sample] |= bit;
	if (!asked)
		j->queue[j->queue_n++] = sample | (shared ? SHARED : 0);
}

/* Returns where the stages of a mini-batch are kept; of most in a place that nobody reads. */
static struct quiver_stages *stages_of(struct run *r, const struct job *j, uint64_t batch)
{
	uint64_t at = batch - r->s->trace_first;
	bool traced = j == r->jobs && batch >= r->s->trace_first && at < QUIVER_TRACED;
	return traced ? &r->out->traced[at] : &r->untraced;
}

static void start_computing(struct run *r, struct job *j)
{
	assert(j->ready > 0 && !j->computing);
	j->ready--;
	stages_of(r, j, r->out->jobs[j - r->jobs].batches)->begun_s = r->now_s;
	j->computing = true;
	j->end_s = r->now_s + j->is->compute_s;
	r->out->jobs[j - r->jobs].waited_s += r->now_s - j->idle_s;
}

static void transformed(struct run *r, struct job *j)
{
	j->ready++;
	if (!j->computing)
		start_computing(r, j);
}

/* A mini-batch was read: transforms it. */
static void was_read(struct run *r, struct job *j)
{
	struct quiver_stages *s = stages_of(r, j, j->read++);
	j->loading = false;
	s->read_s = r->now_s;
	s->transformed_s = r->now_s + j->is->transform_s;
	if (j->is->transform_s == 0) {
		transformed(r, j);
		return;
	}
	assert(j->transforms < QUIVER_AHEAD_MAX);
	j->transform_s[(j->transform_first + j->transforms++) % QUIVER_AHEAD_MAX] =
		s->transformed_s;
}

/* Reads on until a sample is missing or enough mini-batches are ready. */
static void read_on(struct run *r, struct job *j)
{
	uint32_t ahead = r->s->read_ahead != 0 ? r->s->read_ahead : READ_AHEAD;
	while (!j->loading && j->ready + j->transforms < ahead && may_read(r, j)) {
		uint32_t left = j->is->batch;
		stages_of(r, j, j->asked++)->asked_s = r->now_s;
		j->queue_n = j->queue_at = j->missing = 0;
		j->loading = true;
		while (left > 0) {
			if (j->at == j->count)
				next_part(r, j);
			if (j->is->contract == QUIVER_FREE)
				substitute(r, j);
			uint32_t n = (uint32_t)min_u64(left, j->count - j->at);
			for (uint32_t i = 0; i < n; i++)
				ask(r, j, j->order[j->at + i]);
			j->at += n;
			left -= n;
		}
		if (j->missing > 0)
			return;
		was_read(r, j);
	}
}

static void got(struct run *r, struct job *j)
{
	if (j->ended)
		return;
	assert(j->loading && j->missing > 0);
	if (--j->missing > 0)
		return;
	was_read(r, j);
	read_on(r, j);
}

/* --- the store ------------------------------------------------------------------------------------ */

/* Finds the next sample that was lost with a cache node, is still to be kept, and that no job has asked for. */
static bool next_refill(struct set *s, uint32_t *sample)
{
	while (s->refill_left > 0) {
		*sample = s->refill_at;
		s->refill_at = (s->refill_at + 1) % s->is->samples;
		s->refill_left--;
		if (s->lost[*sample] && kept(s, *sample) && !s->present[*sample] &&
		    s->waiting[*sample] == 0)
			return true;
	}
	return false;
}

/* Finds the next sample of a window that is being filled and that no job has asked for. */
static bool next_fill(struct set *s, uint32_t *sample)
{
	if (s->is->keep != QUIVER_WINDOWS || s->next == NONE)
		return false;
	uint32_t begin = window_begin(s->is, s->next), len = window_len(s->is, s->next);
	while (s->fill_at < len) {
		*sample = begin + s->fill_at++;
		if (!s->present[*sample] && s->waiting[*sample] == 0)
			return true;
	}
	return false;
}

/* Sends a sample for a job (NONE: to fill a window), which asked for it alone or together with others. */
static void send(struct run *r, uint32_t set, uint32_t sample, uint32_t job, bool alone)
{
	struct set *s = &r->sets[set];
	r->sending = true;
	r->alone = alone;
	r->sent_set = set;
	r->sent_sample = sample;
	r->sent_for = job;
	double takes = s->is->sample_bytes / r->s->store_bytes_s;
	r->sent_s = r->now_s + takes;
	r->out->store_busy_s += takes;
	r->out->store_samples[set]++;
}

/* Takes the next sample of the job's queue that has not come on behalf of others meanwhile. */
static bool next_asked(const struct run *r, struct job *j, uint32_t *asked)
{
	uint64_t bit = 1ULL << (j - r->jobs);
	while (j->queue_at < j->queue_n) {
		*asked = j->queue[j->queue_at++];
		if ((*asked & SHARED) == 0 || (j->set->waiting[*asked & ~SHARED] & bit) != 0)
			return true;
	}
	return false;
}

static void store_next(struct run *r)
{
	uint32_t n = r->s->jobs_n, sample;
	assert(!r->sending);
	for (uint32_t i = 1; i <= n; i++) {
		struct job *j = &r->jobs[(r->turn + i) % n];
		uint32_t asked;
		if (!next_asked(r, j, &asked))
			continue;
		r->turn = (r->turn + i) % n;
		send(r, (uint32_t)(j->set - r->sets), asked & ~SHARED, r->turn,
		     (asked & SHARED) == 0);
		return;
	}
	for (uint32_t i = 1; i <= r->s->sets_n; i++) {
		uint32_t set = (r->fill_turn + i) % r->s->sets_n;
		if (next_refill(&r->sets[set], &sample) || next_fill(&r->sets[set], &sample)) {
			r->fill_turn = set;
			send(r, set, sample, NONE, false);
			return;
		}
	}
}

static void keep_sample(struct run *r, struct set *s, uint32_t sample)
{
	if (!kept(s, sample) || s->present[sample])
		return;
	if (s->is->keep == QUIVER_LRU) {
		lru_insert(r, s, sample);
		return;
	}
	s->present[sample] = 1;
	if (s->is->keep != QUIVER_WINDOWS)
		return;
	uint32_t w = window_of(s->is, sample);
	s->have[w]++;
	if (w == s->next && s->have[w] == window_len(s->is, w))
		window_is_whole(r, s);
}

static void arrived(struct run *r)
{
	struct set *s = &r->sets[r->sent_set];
	uint32_t sample = r->sent_sample;
	r->sending = false;
	uint64_t waiting = s->waiting[sample] | (r->alone ? 1ULL << r->sent_for : 0);
	s->waiting[sample] = 0;
	keep_sample(r, s, sample);
	for (uint32_t j = 0; waiting != 0; j++, waiting >>= 1)
		if ((waiting & 1) != 0)
			got(r, &r->jobs[j]);
}

/* --- a cache node fails -------------------------------------------------------------------------- */

static void fail_node(struct run *r)
{
	r->failed = true;
	for (uint32_t i = 0; i < r->s->sets_n; i++) {
		struct set *s = &r->sets[i];
		assert(s->lost != NULL);
		for (uint32_t k = 0; k < s->is->samples; k++) {
			double place = (double)(mix_u64(s->base + k + 1ULL) >> 11) * 0x1p-53;
			if (!s->present[k] || place >= r->s->fail_share)
				continue;
			s->lost[k] = 1;
			s->present[k] = 0;
			if (s->is->keep == QUIVER_WINDOWS)
				s->have[window_of(s->is, k)]--;
			if (s->is->keep == QUIVER_LRU) {
				lru_unlink(&r->lru, s->base + k);
				r->lru.bytes -= s->is->sample_bytes;
			}
		}
		s->fill_at = 0; /* of the window that is being filled */
		s->refill_left = s->is->keep != QUIVER_LRU ? s->is->samples : 0;
	}
	/* what jobs read soon comes first */
	for (uint32_t i = 0; i < r->s->jobs_n; i++) {
		const struct job *j = &r->jobs[i];
		if (j->begun && !j->ended && has_windows(j))
			j->set->refill_at = window_begin(j->set->is, j->window);
	}
}

/* --- the run -------------------------------------------------------------------------------------- */

static void computed(struct run *r, struct job *j)
{
	struct quiver_job_result *out = &r->out->jobs[j - r->jobs];
	j->computing = false;
	j->idle_s = r->now_s;
	stages_of(r, j, out->batches)->done_s = r->now_s;
	out->batches++;
	out->done_s = r->now_s;
	if (r->s->end_s > 0)
		r->out->steps[(size_t)fmin(r->now_s / r->out->step_s, QUIVER_STEPS - 1)]++;
	if (r->now_s < r->s->warm_s || out->batches == 1) {
		j->begin_s = r->now_s;
		j->begin_batches = out->batches;
	}
	if (j->is->batches != 0 && out->batches >= j->is->batches) {
		/* it has ended: it neither reads nor uses a window any more */
		j->ended = true;
		j->queue_at = j->queue_n;
		j->held = false;
		if (has_windows(j)) {
			leave_window(r, j);
			move_on(r, j->set);
		}
		return;
	}
	if (j->ready > 0)
		start_computing(r, j);
	read_on(r, j);
}

/* Returns the job whose next event is soonest. */
static uint32_t soonest(const struct run *r, double *at_s)
{
	uint32_t best = NONE;
	*at_s = INFINITY;
	for (uint32_t i = 0; i < r->s->jobs_n; i++) {
		const struct job *j = &r->jobs[i];
		double t = !j->begun ? j->is->start_s : j->computing ? j->end_s : INFINITY;
		if (j->held)
			t = fmin(t, j->held_until_s);
		if (j->transforms > 0 && !j->ended)
			t = fmin(t, j->transform_s[j->transform_first]);
		if (t < *at_s) {
			*at_s = t;
			best = i;
		}
	}
	return best;
}

/* The next event of a job: it begins, has computed or transformed, or has waited for others long enough. */
static void job_event(struct run *r, struct job *j)
{
	if (!j->begun) {
		j->idle_s = r->now_s;
		next_part(r, j);
		read_on(r, j);
	} else if (j->computing && j->end_s <= r->now_s) {
		computed(r, j);
	} else if (j->transforms > 0 && j->transform_s[j->transform_first] <= r->now_s) {
		j->transform_first = (j->transform_first + 1) % QUIVER_AHEAD_MAX;
		j->transforms--;
		transformed(r, j);
		read_on(r, j);
	} else {
		assert(j->held);
		read_on(r, j);
	}
}

/* Lets jobs go on that waited for others to leave a window. */
static void release_held(struct run *r)
{
	while (r->left) {
		r->left = false;
		for (uint32_t i = 0; i < r->s->jobs_n; i++)
			if (r->jobs[i].held)
				read_on(r, &r->jobs[i]);
	}
}

static void run(struct run *r)
{
	for (uint32_t i = 0; i < r->s->sets_n; i++)
		move_on(r, &r->sets[i]);
	for (;;) {
		double at_s;
		uint32_t i = soonest(r, &at_s);
		if (!r->sending)
			store_next(r);
		bool store = r->sending && r->sent_s <= at_s;
		double next_s = store ? r->sent_s : at_s;
		bool fails = !r->failed && r->s->fail_share > 0 && r->s->fail_s <= next_s;
		next_s = fails ? fmax(r->s->fail_s, r->now_s) : next_s;
		if (!isfinite(at_s) && !r->sending)
			return;
		if (r->s->end_s > 0 && next_s > r->s->end_s) {
			r->now_s = r->s->end_s;
			return;
		}
		bool all_done = true;
		for (uint32_t k = 0; k < r->s->jobs_n; k++)
			all_done = all_done && r->jobs[k].ended;
		if (all_done)
			return;
		assert(next_s >= r->now_s);
		r->now_s = next_s;
		if (fails)
			fail_node(r);
		else if (store)
			arrived(r);
		else
			job_event(r, &r->jobs[i]);
		release_held(r);
	}
}

static bool study_ok(const struct quiver_study *s)
{
	bool ok = s->sets_n > 0 && s->sets_n <= QUIVER_SETS_MAX && s->jobs_n > 0 &&
		  s->jobs_n <= QUIVER_JOBS_MAX && s->store_bytes_s > 0 &&
		  isfinite(s->store_bytes_s) && s->lru_bytes >= 0 &&
		  s->read_ahead <= QUIVER_AHEAD_MAX && s->fail_s >= 0 && s->fail_share >= 0 &&
		  s->fail_share <= 1;
	bool ends = s->end_s > 0;
	uint64_t samples = 0;
	for (uint32_t i = 0; ok && i < s->sets_n; i++) {
		const struct quiver_set *e = &s->sets[i];
		samples += e->samples;
		ok = e->samples > 0 && samples <= QUIVER_SAMPLES_MAX && e->sample_bytes > 0 &&
		     e->windows > 0 && e->windows <= e->samples && e->pinned >= 0 && e->pinned <= 1;
	}
	for (uint32_t i = 0; ok && i < s->jobs_n; i++) {
		const struct quiver_job *j = &s->jobs[i];
		ok = j->set < s->sets_n && j->start_s >= 0 && j->compute_s > 0 && j->batch > 0 &&
		     j->batch <= QUIVER_BATCH_MAX && j->transform_s >= 0 &&
		     isfinite(j->transform_s) && (ends || j->batches > 0);
	}
	return ok;
}

static int open_set(struct run *r, uint32_t i, uint32_t base)
{
	struct set *s = &r->sets[i];
	const struct quiver_set *is = &r->s->sets[i];
	*s = (struct set){.is = is, .base = base, .old = NONE, .now = NONE, .next = NONE};
	s->present = calloc(is->samples, 1);
	s->waiting = calloc(is->samples, sizeof(*s->waiting));
	s->have = calloc(is->windows, sizeof(*s->have));
	s->users = calloc(is->windows, sizeof(*s->users));
	if (r->s->fail_share > 0)
		s->lost = calloc(is->samples, 1);
	if (s->present == NULL || s->waiting == NULL || s->have == NULL || s->users == NULL ||
	    (r->s->fail_share > 0 && s->lost == NULL))
		return -ENOMEM;
	for (uint32_t k = 0; is->warm && k < is->samples; k++)
		s->present[k] = (is->keep == QUIVER_ALL || is->keep == QUIVER_PINNED) && kept(s, k);
	return 0;
}

static int open_all(struct run *r)
{
	uint32_t base = 0;
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < r->s->sets_n; i++) {
		rc = open_set(r, i, base);
		base += r->s->sets[i].samples;
	}
	r->jobs = calloc(r->s->jobs_n, sizeof(*r->jobs));
	if (rc == 0)
		rc = r->jobs != NULL ? lru_init(&r->lru, base, r->s->lru_bytes) : -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < r->s->jobs_n; i++) {
		struct job *j = &r->jobs[i];
		j->is = &r->s->jobs[i];
		j->set = &r->sets[j->is->set];
		j->order = calloc(j->set->is->samples, sizeof(*j->order));
		rng_init(&j->rng, mix_u64(r->s->seed * QUIVER_JOBS_MAX + i + 1));
		rc = j->order != NULL ? 0 : -ENOMEM;
	}
	return rc;
}

static void close_all(struct run *r)
{
	for (uint32_t i = 0; i < r->s->sets_n; i++) {
		free(r->sets[i].present);
		free(r->sets[i].lost);
		free(r->sets[i].waiting);
		free(r->sets[i].have);
		free(r->sets[i].users);
	}
	for (uint32_t i = 0; r->jobs != NULL && i < r->s->jobs_n; i++)
		free(r->jobs[i].order);
	free(r->jobs);
	free(r->lru.prev);
	free(r->lru.next);
}

int quiver_run(const struct quiver_study *s, struct quiver_result *out)
{
	if (!study_ok(s))
		return -EINVAL;
	AUTO_FREE struct run *r = calloc(1, sizeof(*r));
	if (r == NULL)
		return -ENOMEM;
	memset(out, 0, sizeof(*out));
	out->step_s = s->end_s / QUIVER_STEPS;
	r->s = s;
	r->out = out;
	int rc = open_all(r);
	if (rc == 0)
		run(r);
	for (uint32_t i = 0; rc == 0 && i < s->jobs_n; i++) {
		struct quiver_job_result *j = &out->jobs[i];
		uint64_t n = j->batches - r->jobs[i].begin_batches;
		j->batch_s = n > 0 ? (j->done_s - r->jobs[i].begin_s) / (double)n : INFINITY;
	}
	out->end_s = r->now_s;
	close_all(r);
	return rc;
}
