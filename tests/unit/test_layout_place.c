// SPDX-License-Identifier: Apache-2.0
/* Permutations, base sets, and placements on one level. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/rng.h"
#include "check.h"
#include "code/baseset.h"
#include "code/place.h"

static void perm_is_a_bijection_with_its_inverse(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= 200; n++) {
		struct perm p;
		perm_init(&p, n);
		assert_true((uint64_t)p.a * p.b >= n);
		for (uint64_t key = 0; key < 5; key++) {
			uint8_t seen[200] = {0};
			for (uint32_t x = 0; x < n; x++) {
				uint32_t y = perm_at(&p, mix_u64(key), x);
				assert_true(y < n);
				assert_int_equal(seen[y]++, 0);
				assert_int_equal(perm_inverse(&p, mix_u64(key), y), x);
			}
		}
	}
}

/* Images of pairs are uniform: chi-square test with five standard deviations. */
static void perm_images_of_pairs_are_uniform(void **state)
{
	(void)state;
	const uint32_t sizes[] = {2, 3, 6, 12, 32, 33, 60, 120};
	const uint32_t samples = 200000;
	static uint32_t count[120][120];
	for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
		uint32_t n = sizes[s];
		struct perm p;
		perm_init(&p, n);
		memset(count, 0, sizeof(count));
		for (uint32_t i = 0; i < samples; i++) {
			uint64_t key = mix_u64(i + 77);
			count[perm_at(&p, key, 0)][perm_at(&p, key, n - 1)]++;
		}
		double cells = (double)n * (n - 1);
		double expected = samples / cells;
		double chi = 0;
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t j = 0; j < n; j++)
				if (i != j)
					chi += (count[i][j] - expected) * (count[i][j] - expected) /
					       expected;
		double over = chi - (cells - 1);
		if (over * over > 25 * 2 * cells)
			fail_msg("n %u: chi-square %.0f for %.0f cells", n, chi, cells);
	}
}

static uint32_t shared_by_translates(const struct baseset *b, uint32_t d, uint32_t u)
{
	uint32_t shared = 0;
	for (uint32_t i = 0; i < b->width; i++)
		for (uint32_t j = 0; j < b->width; j++)
			shared += (b->domain[i] + d) % b->domains == b->domain[j] &&
				  (b->unit[i] + u) % b->units == b->unit[j];
	return shared;
}

/* Checks the overlap by building all translates and intersecting them. */
static void check_base(uint32_t domains, uint32_t units, uint32_t width, uint32_t overlap)
{
	struct baseset b;
	assert_int_equal(baseset_find(&b, domains, units, width), 0);
	uint32_t most = 0;
	for (uint32_t d = 0; d < domains; d++) {
		for (uint32_t u = d == 0; u < units; u++) {
			uint32_t shared = shared_by_translates(&b, d, u);
			assert_int_equal(shared, baseset_shared(&b, d, u));
			most = (uint32_t)max_u64(most, shared);
		}
	}
	for (uint32_t i = 0; i < width; i++)
		for (uint32_t j = 0; j < i; j++)
			assert_int_not_equal(b.domain[i], b.domain[j]);
	assert_int_equal(b.overlap, most);
	if (most > overlap)
		fail_msg("%u x %u, width %u: overlap %u, wanted %u", domains, units, width, most,
			 overlap);
}

static void base_sets_have_single_overlap_where_the_construction_reaches_it(void **state)
{
	(void)state;
	check_base(7, 1, 3, 1); /* Singer, q = 2, 3, 5, 7, 11, 19 */
	check_base(13, 1, 4, 1);
	check_base(31, 1, 6, 1);
	check_base(57, 1, 8, 1);
	check_base(133, 1, 12, 1);
	check_base(381, 1, 20, 1);
	check_base(381, 1, 13, 1); /* 13 of the 20 members of the set above */
	check_base(8, 1, 3, 1);    /* Bose, q = 3, 5, 7, 11 */
	check_base(24, 1, 5, 1);
	check_base(48, 1, 7, 1);
	check_base(120, 1, 11, 1);
	check_base(120, 1, 9, 1);
	check_base(840, 1, 20, 1); /* 29 * 29 - 1 */
	check_base(21, 1, 5, 1);   /* Singer, q = 4, 8, 9, 16, 25, 27 */
	check_base(73, 1, 9, 1);
	check_base(91, 1, 10, 1);
	check_base(273, 1, 17, 1);
	check_base(651, 1, 26, 1);
	check_base(757, 1, 28, 1);
	check_base(15, 1, 4, 1); /* Bose, q = 4, 8, 9, 16, 25, 32 */
	check_base(63, 1, 8, 1);
	check_base(80, 1, 9, 1);
	check_base(255, 1, 16, 1);
	check_base(624, 1, 25, 1);
	check_base(1023, 1, 32, 1);
	check_base(110, 1, 10, 1); /* Ruzsa, q = 11, 13, 17 */
	check_base(156, 1, 12, 1);
	check_base(272, 1, 16, 1);
	check_base(64, 1, 8, 1); /* found by trying all sets */
	check_base(85, 1, 9, 1);
	check_base(86, 1, 9, 1);
	check_base(90, 1, 9, 1);
	check_base(40, 1, 5, 1); /* found by taking the first number that fits */
	check_base(1, 1, 1, 0);
	check_base(5, 1, 1, 0);
	/* places of disks: the arguments count racks and disks of a rack */
	check_base(20, 24, 15, 1);
	check_base(15, 60, 15, 1);
}

/* Tries all sets of ascending members; the first two are the closest neighbours. */
static bool brute_ruler(uint32_t n, uint32_t width, uint32_t *member, uint32_t i, uint8_t *used)
{
	if (i == width)
		return true;
	uint32_t first = i == 0 ? 0 : member[i - 1] + (i == 1 ? 1 : member[1]);
	for (uint32_t at = first; at < n; at++) {
		uint32_t fits = 0;
		if ((i == 0 && at > 0) || (i == 1 && at * width > n))
			return false;
		member[i] = at;
		for (; fits < i; fits++) {
			uint32_t d = at - member[fits];
			if (used[d] || used[n - d] || 2 * d == n)
				break;
			used[d] = used[n - d] = 1;
		}
		if (fits == i && brute_ruler(n, width, member, i + 1, used))
			return true;
		while (fits-- > 0)
			used[at - member[fits]] = used[n - at + member[fits]] = 0;
	}
	return false;
}

static void small_base_sets_have_single_overlap_wherever_one_exists(void **state)
{
	(void)state;
	uint32_t found = 0, none = 0;
	for (uint32_t width = 2; width <= 8; width++) {
		for (uint32_t n = width * (width - 1) + 1; n <= width * (width - 1) + 40; n++) {
			uint32_t member[8];
			uint8_t used[128] = {0};
			if (brute_ruler(n, width, member, 0, used)) {
				check_base(n, 1, width, 1);
				found++;
			} else {
				struct baseset b;
				assert_int_equal(baseset_find(&b, n, 1, width), 0);
				assert_true(b.overlap > 1);
				none++;
			}
		}
	}
	assert_true(found > 250 && none > 5);
}

static void base_sets_elsewhere_report_the_least_overlap_found(void **state)
{
	(void)state;
	/*
	 * a set of 20 members has 380 distances, which have 119 values: one of them occurs 4 times
	 * or more
	 */
	check_base(120, 1, 20, 4);
	check_base(8, 1, 4, 2);
	check_base(120, 1, 12, 2);
	check_base(60, 1, 60, 60);
	check_base(16, 2, 8, 3);
}

/*
 * Lookups by stripe and by slot agree, no slot is used twice, and member counts differ by at
 * most one.
 */
static void check_place(enum place_kind kind, uint32_t domains, uint32_t units, uint32_t width,
			uint64_t slots, uint64_t key)
{
	struct place p;
	assert_int_equal(place_init(&p, kind,
				    &(struct place_size){domains, units, width, slots, "disks"},
				    NULL, 0),
			 0);
	size_t locations = (size_t)domains * units * slots;
	AUTO_FREE uint8_t *used = calloc(locations, 1);
	AUTO_FREE uint64_t *load = calloc((size_t)domains * units, sizeof(*load));
	CHECK(used != NULL);
	CHECK(load != NULL);
	for (uint64_t s = 0; s < p.stripes; s++) {
		uint64_t seen = 0;
		for (uint32_t i = 0; i < width; i++) {
			struct place_location at;
			p.ops->locate(&p, key, s, i, &at);
			assert_true(at.domain < domains && at.unit < units && at.slot < slots);
			assert_int_equal(seen >> at.domain & 1, 0);
			seen |= UINT64_C(1) << at.domain;
			size_t unit = (size_t)at.domain * units + at.unit;
			assert_int_equal(used[unit * slots + at.slot]++, 0);
			load[unit]++;
			uint64_t stripe;
			uint32_t index;
			assert_true(p.ops->find(&p, key, &at, &stripe, &index));
			assert_int_equal(stripe, s);
			assert_int_equal(index, i);
		}
		for (uint32_t d = 0; d < domains; d++) {
			int members = 0;
			for (uint32_t u = 0; u < units; u++) {
				int index = p.ops->index_of(&p, key, s, d, u);
				if (index < 0)
					continue;
				struct place_location at;
				p.ops->locate(&p, key, s, (uint32_t)index, &at);
				assert_true(at.domain == d && at.unit == u);
				members++;
			}
			assert_int_equal(members, seen >> d & 1);
		}
	}
	uint64_t least = UINT64_MAX, most = 0, total = 0;
	for (uint32_t u = 0; u < domains * units; u++) {
		least = min_u64(least, load[u]);
		most = max_u64(most, load[u]);
		total += load[u];
	}
	assert_true(most - least <= 1);
	uint64_t empty = kind == PLACE_OVERLAP ? slots % width * domains * units : width - 1;
	assert_true(locations - total <= empty);
	for (uint32_t u = 0; u < domains * units; u++) {
		for (uint64_t slot = 0; slot < slots; slot++) {
			struct place_location at = {u / units, u % units, slot};
			uint64_t stripe;
			uint32_t index;
			assert_int_equal(p.ops->find(&p, key, &at, &stripe, &index),
					 used[u * slots + slot]);
		}
	}
}

static void places_and_their_inverse_agree_and_balance(void **state)
{
	(void)state;
	for (uint32_t domains = 1; domains <= 14; domains++) {
		for (uint32_t width = 1; width <= domains; width++) {
			for (uint32_t units = 1; units <= 3; units++) {
				uint64_t slots = 1 + (domains * 7 + width * 3 + units) % 17;
				if (domains % width == 0)
					check_place(PLACE_CLUSTERED, domains, units, width, slots,
						    0);
				check_place(PLACE_DECLUSTERED, domains, units, width, slots,
					    mix_u64(domains * 100 + width));
				check_place(PLACE_OVERLAP, domains, units, width, slots, 0);
			}
		}
	}
	check_place(PLACE_DECLUSTERED, 60, 8, 12, 20, 1);
	check_place(PLACE_DECLUSTERED, 61, 3, 12, 40, 2);
	check_place(PLACE_OVERLAP, 57, 1, 8, 24, 0);
}

static uint32_t hits_of(const struct place *p, uint64_t key, uint64_t stripe, const uint32_t *hit,
			uint32_t n)
{
	uint32_t hits = 0;
	for (uint32_t i = 0; i < n; i++)
		hits += p->ops->index_of(p, key, stripe, hit[i], 0) >= 0;
	return hits;
}

static void check_scan(enum place_kind kind, uint32_t domains, uint32_t width, uint32_t n)
{
	struct place p;
	uint64_t key = 99;
	assert_int_equal(
		place_init(&p, kind,
			   &(struct place_size){domains, 1, width, UINT64_C(3) * width, "disks"},
			   NULL, 0),
		0);
	uint32_t hit[64];
	for (uint32_t i = 0; i < n; i++)
		hit[i] = (i * 5 + 2) % domains; /* 5 shares no factor with the sizes used here */
	for (uint32_t min_hits = 0; min_hits <= n + 1; min_hits++) {
		uint64_t from = 0, found;
		while (place_scan(&p, key, hit, n, min_hits, from, &found)) {
			for (; from < found; from++)
				assert_true(hits_of(&p, key, from, hit, n) < min_hits);
			assert_true(hits_of(&p, key, found, hit, n) >= min_hits);
			from = found + 1;
		}
		for (; from < p.stripes; from++)
			assert_true(hits_of(&p, key, from, hit, n) < min_hits);
	}
}

static void scan_finds_every_stripe_with_enough_hits_and_no_other(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= 5; n++) {
		check_scan(PLACE_CLUSTERED, 12, 3, n);
		check_scan(PLACE_CLUSTERED, 4, 4, n < 4 ? n : 4);
		check_scan(PLACE_DECLUSTERED, 12, 4, n);
		check_scan(PLACE_DECLUSTERED, 13, 4, n);
		check_scan(PLACE_DECLUSTERED, 14, 4, n);
		check_scan(PLACE_OVERLAP, 13, 4, n);
		check_scan(PLACE_OVERLAP, 12, 6, n);
	}
	check_scan(PLACE_DECLUSTERED, 48, 6, 20);
}

static void impossible_places_are_refused_with_a_reason(void **state)
{
	(void)state;
	struct place p;
	char why[200];
	struct {
		int kind;
		uint32_t domains, units, width;
		uint64_t slots;
		int err;
		const char *word;
	} bad[] = {
		{PLACE_CLUSTERED, 0, 1, 1, 1, -EINVAL, "at least 1"},
		{PLACE_CLUSTERED, 1, 0, 1, 1, -EINVAL, "at least 1"},
		{PLACE_CLUSTERED, 1, 1, 0, 1, -EINVAL, "at least 1"},
		{PLACE_CLUSTERED, 1, 1, 1, 0, -EINVAL, "at least 1"},
		{PLACE_CLUSTERED, 10, 1, 3, 1, -EINVAL, "multiple of 3"},
		{PLACE_DECLUSTERED, 4, 1, 5, 1, -EINVAL, "needs at least 5 disks"},
		{PLACE_DECLUSTERED, 300, 1, 256, 1, -EINVAL, "at most 255"},
		{PLACE_DECLUSTERED, UINT32_MAX, UINT32_MAX, 5, 1, -EOVERFLOW, "at most"},
		{PLACE_OVERLAP, 10, 10, 5, UINT64_MAX, -EOVERFLOW, "slots in all"},
		{7, 10, 10, 5, 1, -EINVAL, "unknown placement 7"},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct place_size size = {bad[i].domains, bad[i].units, bad[i].width, bad[i].slots,
					  "disks"};
		int rc = place_init(&p, (enum place_kind)bad[i].kind, &size, why, sizeof(why));
		assert_int_equal(rc, bad[i].err);
		if (strstr(why, bad[i].word) == NULL)
			fail_msg("'%s' does not say '%s'", why, bad[i].word);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(perm_is_a_bijection_with_its_inverse),
		cmocka_unit_test(perm_images_of_pairs_are_uniform),
		cmocka_unit_test(base_sets_have_single_overlap_where_the_construction_reaches_it),
		cmocka_unit_test(small_base_sets_have_single_overlap_wherever_one_exists),
		cmocka_unit_test(base_sets_elsewhere_report_the_least_overlap_found),
		cmocka_unit_test(places_and_their_inverse_agree_and_balance),
		cmocka_unit_test(scan_finds_every_stripe_with_enough_hits_and_no_other),
		cmocka_unit_test(impossible_places_are_refused_with_a_reason),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
