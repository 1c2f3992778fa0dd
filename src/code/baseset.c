// SPDX-License-Identifier: Apache-2.0
#include "code/baseset.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/rng.h"
#include "code/baseset_algebra.h"

#define SEARCH_SEED 20250801ULL /* stored layouts depend on this number: it must not change */
#define BACKTRACK_WIDTH_MAX 9
#define BACKTRACK_STEPS 1000000
/* most work of the search for each overlap: moved members times counted distances */
#define SEARCH_WORK 1200000

/*
 * A candidate set, and how often each distance occurs in the set, at index domain * units + unit.
 */
struct search {
	struct baseset *b;
	uint16_t *count;
	uint32_t limit; /* the overlap that the search tries to reach */
	/* sum over all distances of the occurrences above `limit`; 0: the limit is reached */
	uint32_t cost;
	struct rng rng;
};

static uint32_t distance(const struct baseset *b, uint32_t i, uint32_t j)
{
	uint32_t d = b->domain[i] + b->domains - b->domain[j];
	uint32_t u = b->unit[i] + b->units - b->unit[j];
	if (d >= b->domains)
		d -= b->domains;
	if (u >= b->units)
		u -= b->units;
	return d * b->units + u;
}

static void count_add(struct search *s, uint32_t at)
{
	if (++s->count[at] > s->limit)
		s->cost++;
}

static void count_remove(struct search *s, uint32_t at)
{
	assert(s->count[at] > 0);
	if (s->count[at]-- > s->limit)
		s->cost--;
}

/* Counts the distances between member i and the first n members. */
static void member_add(struct search *s, uint32_t i, uint32_t n)
{
	for (uint32_t j = 0; j < n; j++) {
		if (j == i)
			continue;
		count_add(s, distance(s->b, i, j));
		count_add(s, distance(s->b, j, i));
	}
}

static void member_remove(struct search *s, uint32_t i, uint32_t n)
{
	for (uint32_t j = 0; j < n; j++) {
		if (j == i)
			continue;
		count_remove(s, distance(s->b, i, j));
		count_remove(s, distance(s->b, j, i));
	}
}

static void search_count(struct search *s, uint32_t limit)
{
	size_t group = (size_t)s->b->domains * s->b->units;
	for (size_t i = 0; i < group; i++)
		s->count[i] = 0;
	s->limit = limit;
	s->cost = 0;
	for (uint32_t i = 1; i < s->b->width; i++)
		member_add(s, i, i);
}

static bool domain_taken(const struct baseset *b, uint32_t domain, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (b->domain[i] == domain)
			return true;
	return false;
}

/*
 * Chooses the smallest next member that repeats no distance. Returns true when all members were
 * placed.
 */
static bool first_fit(struct search *s)
{
	struct baseset *b = s->b;
	uint32_t width = b->width;
	uint32_t group = b->domains * b->units;
	uint32_t at = 0;
	b->width = 0;
	search_count(s, 1);
	b->width = width;
	for (uint32_t i = 0; i < width; i++) {
		for (;; at++) {
			if (at == group)
				return false;
			b->domain[i] = at / b->units;
			b->unit[i] = at % b->units;
			if (domain_taken(b, b->domain[i], i))
				continue;
			member_add(s, i, i);
			if (s->cost == 0)
				break;
			member_remove(s, i, i);
		}
	}
	return true;
}

/*
 * Places member i and all later members so that every distance is new. The gaps between neighbours
 * on the ring are distances, so they differ. The search requires the first gap to be the smallest
 * one, because every set has a rotation for which that holds.
 */
static bool backtrack_from(struct search *s, uint32_t i, uint32_t *steps)
{
	struct baseset *b = s->b;
	assert(i >= 1 && i <= b->width);
	if (i == b->width)
		return true;
	uint32_t gaps_left = b->width - i; /* number of gaps that follow member i */
	uint32_t at = b->domain[i - 1] + (i > 1 ? b->domain[1] + 1 : 1);
	for (; *steps > 0; at++) {
		uint32_t gap_min = (i > 1 ? b->domain[1] : at) + 1;
		if (at + gaps_left * gap_min > b->domains)
			return false;
		--*steps;
		b->domain[i] = at;
		member_add(s, i, i);
		if (s->cost == 0 && backtrack_from(s, i + 1, steps))
			return true;
		member_remove(s, i, i);
	}
	return false;
}

static bool backtrack(struct search *s)
{
	struct baseset *b = s->b;
	uint32_t width = b->width, steps = BACKTRACK_STEPS;
	if (width < 2 || width > BACKTRACK_WIDTH_MAX || width * (width - 1) >= b->domains)
		return false;
	b->width = 0;
	search_count(s, 1);
	b->width = width;
	for (uint32_t i = 0; i < width; i++)
		b->domain[i] = b->unit[i] = 0;
	return backtrack_from(s, 1, &steps);
}

/*
 * Draws random members to start from, each in a domain of its own, so that no distance is
 * favoured.
 */
static void search_start(struct search *s)
{
	struct baseset *b = s->b;
	for (uint32_t i = 0; i < b->width; i++) {
		uint32_t domain = (uint32_t)rng_below(&s->rng, b->domains);
		while (domain_taken(b, domain, i))
			domain = (domain + 1) % b->domains;
		b->domain[i] = domain;
		b->unit[i] = (uint32_t)rng_below(&s->rng, b->units);
	}
}

/*
 * Returns by how much to shift a random number to accept a move that raises the cost by `worse`
 * with probability 1 / 4^worse. Only integers are used, so that every machine takes the same
 * decisions.
 */
static uint32_t worse_shift(uint32_t worse)
{
	assert(worse > 0); /* for worse = 0 the shift would be by 64, which C does not define */
	return 64 - 2 * (uint32_t)min_u64(worse, 31);
}

/*
 * Tries to move one member. A move that raises the cost is seldom kept; such moves leave local
 * minima.
 */
static void search_move(struct search *s)
{
	struct baseset *b = s->b;
	uint32_t i = (uint32_t)rng_below(&s->rng, b->width);
	uint32_t old_domain = b->domain[i];
	uint32_t old_unit = b->unit[i];
	uint32_t old_cost = s->cost;
	uint32_t domain = (uint32_t)rng_below(&s->rng, b->domains);
	if (domain != old_domain && domain_taken(b, domain, b->width))
		return;
	member_remove(s, i, b->width);
	b->domain[i] = domain;
	b->unit[i] = (uint32_t)rng_below(&s->rng, b->units);
	member_add(s, i, b->width);
	if (s->cost <= old_cost || rng_u64(&s->rng) >> worse_shift(s->cost - old_cost) == 0)
		return;
	member_remove(s, i, b->width);
	b->domain[i] = old_domain;
	b->unit[i] = old_unit;
	member_add(s, i, b->width);
}

/*
 * Anneals towards the least overlap that counting allows, then towards one more, and so on. The
 * search terminates because every set has an overlap of at most `width`.
 */
static void search_run(struct search *s)
{
	struct baseset *b = s->b;
	uint32_t pairs = b->width * (b->width - 1);
	uint32_t values = (b->domains - 1) * b->units;
	uint32_t limit = (pairs + values - 1) / values;
	search_start(s);
	for (;; limit++) {
		assert(limit <= b->width);
		search_count(s, limit);
		for (uint32_t tries = 0; tries < SEARCH_WORK / b->width && s->cost > 0; tries++)
			search_move(s);
		if (s->cost == 0)
			return;
	}
}

/* Translates the set so that its first member is (0, 0), and counts its overlap. */
static void finish(struct search *s)
{
	struct baseset *b = s->b;
	uint32_t domain = b->domains - b->domain[0];
	uint32_t unit = b->units - b->unit[0];
	for (uint32_t i = 0; i < b->width; i++) {
		b->domain[i] = (b->domain[i] + domain) % b->domains;
		b->unit[i] = (b->unit[i] + unit) % b->units;
	}
	assert(b->domain[0] == 0 && b->unit[0] == 0);
	search_count(s, 0);
	b->overlap = 0;
	for (size_t i = 0; i < (size_t)b->domains * b->units; i++)
		b->overlap = (uint32_t)max_u64(b->overlap, s->count[i]);
	assert(b->overlap <= b->width);
}

int baseset_find(struct baseset *b, uint32_t domains, uint32_t units, uint32_t width)
{
	assert(units >= 1 && (uint64_t)domains * units <= BASESET_GROUP_MAX);
	assert(width >= 1 && width <= domains && width <= BASESET_WIDTH_MAX);
	*b = (struct baseset){.domains = domains, .units = units, .width = width};
	AUTO_FREE uint16_t *count = calloc((size_t)domains * units, sizeof(*count));
	if (count == NULL)
		return -ENOMEM;
	struct search s = {.b = b, .count = count};
	rng_init(&s.rng, SEARCH_SEED);
	bool found = units == 1 &&
		     (baseset_algebra(domains, width, b->domain) || first_fit(&s) || backtrack(&s));
	if (!found && width > 1)
		search_run(&s);
	finish(&s);
	return 0;
}

uint32_t baseset_shared(const struct baseset *b, uint32_t domain, uint32_t unit)
{
	assert(domain < b->domains && unit < b->units);
	uint32_t at = domain * b->units + unit;
	uint32_t shared = 0;
	for (uint32_t i = 0; i < b->width; i++)
		for (uint32_t j = 0; j < b->width; j++)
			shared += distance(b, i, j) == at;
	return shared;
}
