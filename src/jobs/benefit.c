// SPDX-License-Identifier: Apache-2.0
#include "jobs/benefit.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define NO_PARENT UINT32_MAX

/* --- savings -------------------------------------------------------------------------------------- */

static bool is_time(double t)
{
	return isfinite(t) && t > 0;
}

double benefit_saved(double accelerators, double t_option, double t_miss)
{
	if (!is_time(t_option) || !is_time(t_miss) || !isfinite(accelerators) || accelerators < 0)
		return 0;
	return t_option < t_miss ? accelerators * (1 - t_option / t_miss) : 0;
}

double benefit_claimed(double accelerators, double t_option, double t_miss)
{
	if (!is_time(t_option) || !is_time(t_miss) || !isfinite(accelerators) || accelerators < 0)
		return 0;
	return accelerators * t_miss / t_option;
}

static int check(const struct benefit_set *sets, size_t n)
{
	if (n > BENEFIT_SETS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (sets[i].count > BENEFIT_OPTIONS_MAX)
			return -EINVAL;
		for (uint32_t k = 0; k < sets[i].count; k++) {
			const struct benefit_option *o = &sets[i].options[k];
			if (!isfinite(o->saved) || o->saved < 0 || !isfinite(o->claimed) ||
			    o->claimed < 0)
				return -EINVAL;
		}
	}
	return 0;
}

double benefit_of(const struct benefit_set *sets, size_t n, const uint32_t *choice, uint64_t *bytes)
{
	double saved = 0;
	uint64_t sum = 0;
	for (size_t i = 0; i < n; i++) {
		if (choice[i] >= sets[i].count)
			continue;
		const struct benefit_option *o = &sets[i].options[choice[i]];
		saved += o->saved;
		if (__builtin_add_overflow(sum, o->bytes, &sum))
			sum = UINT64_MAX;
	}
	if (bytes != NULL)
		*bytes = sum;
	return saved;
}

/* --- the exact choice ----------------------------------------------------------------------------- */

struct state {
	double saved;
	uint64_t bytes;
	uint32_t parent; /* index of the state of the sets before */
	uint32_t option;
};

struct layers {
	struct state *all; /* states of set 0, then of set 1, ... */
	size_t count, cap;
	size_t *first; /* [set]: where its states begin; one more: the end */
};

static int add_state(struct layers *l, struct state s)
{
	if (l->count == l->cap) {
		size_t cap = min_u64(l->cap * 2 + 64, BENEFIT_STATES_MAX);
		if (cap == l->cap)
			return -E2BIG;
		struct state *more = realloc(l->all, cap * sizeof(*more));
		if (more == NULL)
			return -ENOMEM;
		l->all = more;
		l->cap = cap;
	}
	l->all[l->count++] = s;
	return 0;
}

static uint64_t rounded(uint64_t bytes, uint64_t granule)
{
	return granule <= 1 || bytes > UINT64_MAX - granule
		       ? bytes
		       : (bytes + granule - 1) / granule * granule;
}

/* Where the merge of the states of one set stands: for each option the next state of the set before. */
struct merge {
	const struct benefit_set *set;
	size_t at[BENEFIT_OPTIONS_MAX + 1]; /* the last one: no option */
	uint64_t bytes[BENEFIT_OPTIONS_MAX + 1];
	double saved[BENEFIT_OPTIONS_MAX + 1];
};

/* Returns the stream with the smallest next state, most saved first; UINT32_MAX: all have ended. */
static uint32_t next_stream(const struct merge *m, const struct state *prev, size_t prev_n,
			    uint64_t capacity)
{
	uint32_t best = UINT32_MAX;
	uint64_t bytes = 0;
	double saved = 0;
	for (uint32_t k = 0; k <= m->set->count; k++) {
		if (m->at[k] == prev_n || m->bytes[k] > capacity ||
		    prev[m->at[k]].bytes > capacity - m->bytes[k])
			continue;
		uint64_t b = prev[m->at[k]].bytes + m->bytes[k];
		double s = prev[m->at[k]].saved + m->saved[k];
		if (best == UINT32_MAX || b < bytes || (b == bytes && s > saved)) {
			best = k;
			bytes = b;
			saved = s;
		}
	}
	return best;
}

/* Adds the states of set i: each state of the set before with each option, merged in the order of bytes, without those that
 * another one dominates. */
static int add_layer(struct layers *l, const struct benefit_set *set, size_t i, uint64_t capacity,
		     uint64_t granule)
{
	const struct state nothing = {.parent = NO_PARENT, .option = BENEFIT_NOTHING};
	size_t prev_n = i > 0 ? l->first[i] - l->first[i - 1] : 1;
	struct merge m = {.set = set};
	for (uint32_t k = 0; k < set->count; k++) {
		m.bytes[k] = rounded(set->options[k].bytes, granule);
		m.saved[k] = set->options[k].saved;
	}
	for (double most = -1;;) {
		/* add_state may move the states */
		const struct state *prev = i > 0 ? &l->all[l->first[i - 1]] : &nothing;
		uint32_t k = next_stream(&m, prev, prev_n, capacity);
		if (k == UINT32_MAX)
			return 0;
		size_t from = m.at[k]++;
		struct state s = {.saved = prev[from].saved + m.saved[k],
				  .bytes = prev[from].bytes + m.bytes[k],
				  .parent = (uint32_t)from,
				  .option = k < set->count ? k : BENEFIT_NOTHING};
		if (s.saved <= most)
			continue;
		most = s.saved;
		int rc = add_state(l, s);
		if (rc != 0)
			return rc;
	}
}

static int solve(const struct benefit_set *sets, size_t n, uint64_t capacity, uint64_t granule,
		 uint32_t *choice)
{
	struct layers l = {.first = calloc(n + 1, sizeof(*l.first))};
	int rc = l.first != NULL ? 0 : -ENOMEM;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		l.first[i] = l.count;
		rc = add_layer(&l, &sets[i], i, capacity, granule);
		l.first[i + 1] = l.count;
	}
	/* the last state of the last set saves most */
	size_t at = rc == 0 && n > 0 ? l.first[n] - l.first[n - 1] - 1 : 0;
	for (size_t i = n; rc == 0 && i > 0; i--) {
		assert(l.all != NULL); /* a set has at least the state without an option */
		const struct state *s = &l.all[l.first[i - 1] + at];
		choice[i - 1] = s->option;
		at = s->parent;
	}
	free(l.all);
	free(l.first);
	return rc;
}

int benefit_exact(const struct benefit_set *sets, size_t n, uint64_t capacity, uint32_t *choice)
{
	int rc = check(sets, n);
	if (rc != 0)
		return rc;
	rc = solve(sets, n, capacity, 1, choice);
	if (rc != -E2BIG)
		return rc;
	/* So that all sets together have fewer states than the limit. */
	uint64_t parts = BENEFIT_STATES_MAX / (n + 1) - 2;
	return solve(sets, n, capacity, capacity / parts + 1, choice);
}

/* --- the paper's rule ----------------------------------------------------------------------------- */

struct ranked {
	double ratio;
	uint32_t set, option;
};

static int by_ratio(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	if (x->ratio != y->ratio)
		return x->ratio > y->ratio ? -1 : 1;
	if (x->set != y->set)
		return x->set < y->set ? -1 : 1;
	return x->option < y->option ? -1 : x->option > y->option;
}

int benefit_greedy(const struct benefit_set *sets, size_t n, uint64_t capacity, uint32_t *choice)
{
	int rc = check(sets, n);
	struct ranked *all = calloc(n * BENEFIT_OPTIONS_MAX + 1, sizeof(*all));
	size_t count = 0;
	uint64_t used = 0;
	if (all == NULL && rc == 0)
		rc = -ENOMEM;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		choice[i] = BENEFIT_NOTHING;
		for (uint32_t k = 0; k < sets[i].count; k++) {
			const struct benefit_option *o = &sets[i].options[k];
			all[count++] = (struct ranked){o->claimed / (double)max_u64(o->bytes, 1),
						       (uint32_t)i, k};
		}
	}
	if (rc == 0)
		qsort(all, count, sizeof(*all), by_ratio);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		const struct benefit_set *s = &sets[all[i].set];
		uint32_t *now = &choice[all[i].set];
		uint64_t has = *now != BENEFIT_NOTHING ? s->options[*now].bytes : 0;
		uint64_t wants = s->options[all[i].option].bytes;
		assert(used >= has && used <= capacity);
		if (wants < has || wants > capacity - (used - has))
			continue;
		used = used - has + wants;
		*now = all[i].option;
	}
	free(all);
	return rc;
}

/* --- again ---------------------------------------------------------------------------------------- */

int benefit_decide(const struct benefit_set *sets, size_t n, uint64_t capacity, double margin,
		   const uint32_t *before, uint32_t *choice, bool *changed)
{
	uint64_t bytes;
	int rc = benefit_exact(sets, n, capacity, choice);
	if (rc != 0)
		return rc;
	double old = benefit_of(sets, n, before, &bytes);
	bool stays = bytes <= capacity && benefit_of(sets, n, choice, NULL) <= old * (1 + margin);
	*changed = false;
	for (size_t i = 0; i < n; i++) {
		uint32_t had = before[i] < sets[i].count ? before[i] : BENEFIT_NOTHING;
		if (stays)
			choice[i] = had;
		*changed = *changed || choice[i] != had;
	}
	return 0;
}
