// SPDX-License-Identifier: Apache-2.0
/*
 * Declustered placement: stripes are pseudo-random, and every slot is used exactly once.
 *
 * Stripes come in rounds. In round r a permutation, chosen by the key and r, orders the domains as
 * places of a ring. The stripes of the round are laid around the ring one after the other until a
 * stripe ends where the ring begins. With g = gcd(domains, width) that takes domains/g stripes and
 * width/g laps, so each domain is used width/g times and gives its next width/g slots. 5 domains,
 * width 2 (g = 1: 5 stripes, 2 laps):
 *
 *   place on the ring   0  1  2  3  4      round r uses the slots 2r (first lap)
 *   first lap           A  A  B  B  C      and 2r+1 (second lap) of every domain
 *   second lap          C  D  D  E  E
 *
 * A stripe uses no domain twice because it is not longer than the ring. Where width divides
 * domains, a round is one lap and uses every domain once.
 *
 * Lookup by slot: the inverse permutation gives a domain's place x in round r; lap c of that place
 * is position x + c * domains along the stripes, and dividing by width gives stripe and member. Two
 * domains share a stripe when their places lie within one window of the ring.
 *
 * Several units per domain: the n-th use of a domain goes to slot n / units, and a second
 * permutation, chosen by the key, the domain and that slot, orders the units within the slot. So
 * stripes combine units of different domains pseudo-randomly.
 *
 * The last round may be cut: stripes = domains * units * slots / width, rounded down, and then some
 * slots on the last lap stay empty.
 */
#include <assert.h>

#include "base/rng.h"
#include "code/place.h"

/* most hit domains for which comparing all pairs is faster than scanning windows */
#define PRUNE_MAX 16

static uint32_t gcd(uint32_t a, uint32_t b)
{
	while (b != 0) {
		uint32_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

static int declustered_init(struct place *p, const char *domain_name, char *why, size_t why_size)
{
	(void)domain_name;
	(void)why;
	(void)why_size;
	uint32_t g = gcd(p->domains, p->width);
	perm_init(&p->domain_perm, p->domains);
	perm_init(&p->unit_perm, p->units);
	p->round_stripes = p->domains / g;
	p->round_slots = p->width / g;
	p->stripes = (uint64_t)p->domains * p->units * p->slots / p->width;
	return 0;
}

static uint64_t round_key(uint64_t key, uint64_t round)
{
	return mix_u64(key ^ (2 * round + 1) * 0x9e3779b97f4a7c15ULL);
}

static uint64_t unit_key(uint64_t key, uint32_t domain, uint64_t slot)
{
	return mix_u64(mix_u64(key + 2 * slot) + domain);
}

static uint32_t unit_at(const struct place *p, uint64_t key, uint32_t domain, uint64_t use)
{
	assert(use / p->units < p->slots);
	uint64_t slot = use / p->units;
	return perm_at(&p->unit_perm, unit_key(key, domain, slot), (uint32_t)(use % p->units));
}

static void declustered_locate(const struct place *p, uint64_t key, uint64_t stripe, uint32_t index,
			       struct place_location *location)
{
	uint64_t round = stripe / p->round_stripes;
	uint32_t along = (uint32_t)(stripe % p->round_stripes) * p->width + index;
	uint64_t use = round * p->round_slots + along / p->domains;
	location->domain = perm_at(&p->domain_perm, round_key(key, round), along % p->domains);
	location->slot = use / p->units;
	location->unit = unit_at(p, key, location->domain, use);
}

static bool declustered_find(const struct place *p, uint64_t key,
			     const struct place_location *location, uint64_t *stripe,
			     uint32_t *index)
{
	uint64_t order = unit_key(key, location->domain, location->slot);
	uint64_t use =
		location->slot * p->units + perm_inverse(&p->unit_perm, order, location->unit);
	uint64_t round = use / p->round_slots;
	uint32_t x = perm_inverse(&p->domain_perm, round_key(key, round), location->domain);
	uint32_t along = x + (uint32_t)(use % p->round_slots) * p->domains;
	*stripe = round * p->round_stripes + along / p->width;
	*index = along % p->width;
	return *stripe < p->stripes;
}

/* Returns how many places x lies behind the beginning of the stripe's window. */
static uint32_t window_offset(const struct place *p, uint32_t in_round, uint32_t x)
{
	assert(x < p->domains && in_round < p->round_stripes);
	uint32_t start = in_round * p->width % p->domains;
	return x >= start ? x - start : x + p->domains - start;
}

static int declustered_index_of(const struct place *p, uint64_t key, uint64_t stripe,
				uint32_t domain, uint32_t unit)
{
	uint64_t round = stripe / p->round_stripes;
	uint32_t in_round = (uint32_t)(stripe % p->round_stripes);
	uint32_t x = perm_inverse(&p->domain_perm, round_key(key, round), domain);
	uint32_t offset = window_offset(p, in_round, x);
	if (offset >= p->width)
		return -1;
	uint64_t lap = (in_round * p->width + offset) / p->domains;
	if (unit_at(p, key, domain, round * p->round_slots + lap) != unit)
		return -1;
	return (int)offset;
}

/*
 * Computes the places of the hit domains in one round. Returns false as soon as no stripe can have
 * min_hits of the domains: with one lap a place belongs to one stripe only, so places in different
 * windows are in different stripes. With four failed disks of 120, the function looks up only two
 * of them in five of six rounds.
 */
static bool round_places(const struct place *p, uint64_t key, const uint32_t *hit, uint32_t n,
			 uint32_t min_hits, uint32_t *x)
{
	bool prune = p->round_slots == 1 && n <= PRUNE_MAX;
	uint32_t window[PRUNE_MAX];
	uint32_t best = 0;
	for (uint32_t i = 0; i < n; i++) {
		x[i] = perm_inverse(&p->domain_perm, key, hit[i]);
		if (!prune)
			continue;
		uint32_t together = 1;
		window[i] = x[i] / p->width;
		for (uint32_t j = 0; j < i; j++)
			together += window[j] == window[i];
		best = together > best ? together : best;
		if (best + (n - 1 - i) < min_hits)
			return false;
	}
	return true;
}

static bool declustered_scan(const struct place *p, uint64_t key, const uint32_t *hit, uint32_t n,
			     uint32_t min_hits, uint64_t from, uint64_t *stripe)
{
	assert(n <= PLACE_SCAN_MAX);
	uint32_t x[PLACE_SCAN_MAX];
	for (uint64_t s = from; s < p->stripes;) {
		uint64_t round = s / p->round_stripes;
		uint64_t end = (round + 1) * p->round_stripes;
		if (!round_places(p, round_key(key, round), hit, n, min_hits, x)) {
			s = end;
			continue;
		}
		for (; s < end && s < p->stripes; s++) {
			uint32_t hits = 0;
			for (uint32_t i = 0; i < n; i++)
				hits += window_offset(p, (uint32_t)(s % p->round_stripes), x[i]) <
					p->width;
			if (hits >= min_hits) {
				*stripe = s;
				return true;
			}
		}
	}
	return false;
}

const struct place_ops place_declustered = {
	.letter = 'd',
	.name = "declustered",
	.init = declustered_init,
	.locate = declustered_locate,
	.find = declustered_find,
	.index_of = declustered_index_of,
	.scan = declustered_scan,
};
