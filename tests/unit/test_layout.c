// SPDX-License-Identifier: Apache-2.0
/* Layouts of all schemes: chunks in different fault domains, inverse lookups, balance, spread. */
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
#include "code/layout.h"
#include "layout_systems.h"

static void make_good(struct layout *l, const struct system *s, uint64_t seed)
{
	system_need(l, s, seed);
	char scheme[4];
	layout_scheme_print(&l->spec, scheme);
	assert_string_equal(scheme, s->scheme);
}

static void check_spot(const struct layout *l, const struct layout_location *at)
{
	const struct layout_spec *s = &l->spec;
	assert_true(at->rack < s->racks && at->enclosure < s->enclosures && at->bay < s->disks);
	assert_int_equal(at->disk, (at->rack * s->enclosures + at->enclosure) * s->disks + at->bay);
	assert_int_equal(layout_disk_rack(l, at->disk), at->rack);
	assert_true(at->slot < s->slots);
}

/* Columns in different racks, rows on different disks of one pool. */
static void check_domains(const struct layout *l, const struct layout_location *locations)
{
	for (uint32_t i = 0; i < l->columns * l->rows; i++) {
		for (uint32_t j = 0; j < i; j++) {
			bool same_column = i / l->rows == j / l->rows;
			assert_int_equal(locations[i].rack == locations[j].rack, same_column);
			assert_int_not_equal(locations[i].disk, locations[j].disk);
			if (same_column)
				assert_int_equal(layout_disk_pool(l, locations[i].disk),
						 layout_disk_pool(l, locations[j].disk));
		}
	}
}

static void lookups_by_slot_invert_lookups_by_stripe(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(small); i++) {
		struct layout l;
		make_good(&l, &small[i], 42);
		size_t slots = (size_t)l.disks * l.spec.slots;
		AUTO_FREE uint8_t *used = calloc(slots, 1);
		AUTO_FREE struct layout_location *locations =
			calloc((size_t)l.columns * l.rows, sizeof(*locations));
		CHECK(used != NULL && locations != NULL);
		for (uint64_t s = 0; s < l.stripes; s++) {
			assert_int_equal(layout_locate_all(&l, s, locations), 0);
			check_domains(&l, locations);
			for (uint32_t c = 0; c < l.columns * l.rows; c++) {
				struct layout_location at;
				struct layout_ref ref;
				CHECK_EQ(layout_locate(&l, s, c / l.rows, c % l.rows, &at), 0);
				assert_memory_equal(&at, &locations[c], sizeof(at));
				check_spot(&l, &at);
				assert_int_equal(used[at.disk * l.spec.slots + at.slot]++, 0);
				CHECK_EQ(layout_find(&l, at.disk, at.slot, &ref), 0);
				assert_int_equal(ref.stripe, s);
				assert_int_equal(ref.column, c / l.rows);
				assert_int_equal(ref.row, c % l.rows);
				assert_int_equal(ref.pool, layout_disk_pool(&l, at.disk));
			}
		}
		for (size_t at = 0; at < slots; at++) {
			struct layout_ref ref;
			int rc = layout_find(&l, (uint32_t)(at / l.spec.slots), at % l.spec.slots,
					     &ref);
			assert_int_equal(rc, used[at] ? 0 : -ENOENT);
		}
	}
}

/*
 * The disks of a layout hold the same number of chunks: the numbers differ by at most one per
 * level.
 */
static void chunks_are_balanced_over_disks(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(small); i++) {
		struct layout l;
		make_good(&l, &small[i], 7);
		uint64_t least = UINT64_MAX, most = 0;
		for (uint32_t d = 0; d < l.disks; d++) {
			struct layout_ref ref;
			uint64_t n = 0;
			for (uint64_t slot = 0; slot < l.spec.slots; slot++)
				n += layout_find(&l, d, slot, &ref) == 0;
			least = min_u64(least, n);
			most = max_u64(most, n);
		}
		if (most - least > 2)
			fail_msg("%s %s: %llu to %llu chunks on a disk", small[i].code,
				 small[i].scheme, (unsigned long long)least,
				 (unsigned long long)most);
	}
}

/* Each other disk of the pool shares the same part of a failed disk's stripes, within 6%. */
static void declustered_rebuild_reads_spread_over_the_whole_pool(void **state)
{
	(void)state;
	struct layout l;
	make_good(&l, &(struct system){"mlec:10+2/17+3", "c/d", 12, 1, 120, 0, 60000}, 5);
	static uint64_t load[120];
	struct layout_ref ref;
	for (uint64_t slot = 0; slot < l.spec.slots; slot++) {
		if (layout_find(&l, 77, slot, &ref) != 0)
			continue;
		for (uint32_t r = 0; r < l.rows; r++) {
			struct layout_location at;
			layout_row_at(&l, ref.pool, ref.local_stripe, r, &at);
			load[at.bay]++;
		}
	}
	assert_int_equal(load[77], 60000);
	double even = 60000.0 * 19 / 119;
	for (uint32_t d = 0; d < 120; d++)
		if (d != 77 && (load[d] < even * 0.94 || load[d] > even * 1.06))
			fail_msg("disk %u has %llu, even is %.0f", d, (unsigned long long)load[d],
				 even);
}

/* The other columns of a pool's local stripes spread evenly over racks and over their pools. */
static void network_declustering_spreads_over_all_racks_and_pools(void **state)
{
	(void)state;
	struct layout l;
	make_good(&l, &(struct system){"mlec:10+2/17+3", "d/d", 60, 8, 120, 0, 4000}, 5);
	static uint64_t rack[60], pool[480];
	uint32_t lost = 100;
	for (uint64_t t = 0; t < l.local.stripes; t++) {
		uint64_t stripe;
		uint32_t column;
		assert_true(layout_column_find(&l, lost, t, &stripe, &column));
		for (uint32_t c = 0; c < l.columns; c++) {
			struct layout_column at;
			layout_column_at(&l, stripe, c, &at);
			rack[at.rack]++;
			pool[at.pool]++;
		}
	}
	double n = (double)l.local.stripes * 11;
	for (uint32_t r = 0; r < 60; r++)
		if (r != 100 / 8 &&
		    ((double)rack[r] < n / 59 * 0.94 || (double)rack[r] > n / 59 * 1.06))
			fail_msg("rack %u: %llu of %.0f", r, (unsigned long long)rack[r], n);
	for (uint32_t p = 0; p < 480; p++)
		if (p / 8 != 100 / 8 &&
		    ((double)pool[p] < n / 472 * 0.8 || (double)pool[p] > n / 472 * 1.2))
			fail_msg("pool %u: %llu of %.0f", p, (unsigned long long)pool[p], n);
}

static void single_overlap_pools_share_at_most_one_disk(void **state)
{
	(void)state;
	struct layout l;
	make_good(&l, &(struct system){"rs:8+3", "-/s", 1, 1, 120, 0, 11}, 0);
	assert_int_equal(l.local.base.overlap, 1);
	assert_int_equal(l.stripes, 120);
	static uint8_t in[120][120];
	for (uint64_t s = 0; s < 120; s++) {
		for (uint32_t r = 0; r < 11; r++) {
			struct layout_location at;
			CHECK_EQ(layout_locate(&l, s, 0, r, &at), 0);
			in[s][at.bay] = 1;
		}
	}
	for (uint32_t s = 0; s < 120; s++) {
		for (uint32_t t = 0; t < s; t++) {
			int both = 0;
			for (uint32_t d = 0; d < 120; d++)
				both += in[s][d] && in[t][d];
			assert_true(both <= 1);
		}
	}
}

static void same_seed_same_layout_other_seed_other_layout(void **state)
{
	(void)state;
	struct system s = {"mlec:2+1/2+1", "d/d", 8, 2, 12, 0, 20};
	struct layout a, b, c;
	make_good(&a, &s, 1);
	make_good(&b, &s, 1);
	make_good(&c, &s, 2);
	uint32_t differ = 0;
	for (uint64_t n = 0; n < a.stripes; n++) {
		struct layout_location x, y, z;
		CHECK_EQ(layout_locate(&a, n, 1, 1, &x), 0);
		CHECK_EQ(layout_locate(&b, n, 1, 1, &y), 0);
		CHECK_EQ(layout_locate(&c, n, 1, 1, &z), 0);
		assert_memory_equal(&x, &y, sizeof(x));
		differ += x.disk != z.disk;
	}
	assert_true(differ > a.stripes / 2);
}

/* Stored data is found by these values, so they may never change. */
static void layouts_never_change(void **state)
{
	(void)state;
	struct layout l;
	uint64_t sum = 0;
	for (size_t i = 0; i < ARRAY_LEN(small); i++) {
		make_good(&l, &small[i], 2024);
		for (uint64_t s = 0; s < l.stripes; s++) {
			struct layout_location at;
			CHECK_EQ(layout_locate(&l, s, l.columns - 1, l.rows - 1, &at), 0);
			sum = mix_u64(sum + at.disk) + at.slot;
		}
	}
	make_good(&l, &(struct system){"mlec:10+2/17+3", "d/s", 60, 8, 120, 0, 152587890}, 9);
	for (uint64_t s = 0; s < l.stripes; s += l.stripes / 1000) {
		struct layout_location at;
		CHECK_EQ(layout_locate(&l, s, 11, 19, &at), 0);
		sum = mix_u64(sum + at.disk) + at.slot;
	}
	assert_int_equal(sum, UINT64_C(0xe1bf6a64c6fec3ad));
}

static void full_size_systems_need_no_memory(void **state)
{
	(void)state;
	const char *schemes[] = {"c/c", "c/d", "c/s", "d/c", "d/d", "d/s"};
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		struct layout l;
		make_good(&l,
			  &(struct system){"mlec:10+2/17+3", schemes[i], 60, 8, 120, 0, 152587890},
			  1);
		assert_int_equal(l.disks, 57600);
		struct layout_ref ref;
		struct layout_location at;
		CHECK_EQ(layout_find(&l, 57599, 152587000, &ref), 0);
		CHECK_EQ(layout_locate(&l, ref.stripe, ref.column, ref.row, &at), 0);
		assert_int_equal(at.disk, 57599);
		assert_int_equal(at.slot, 152587000);
	}
}

static void impossible_systems_are_refused_with_a_reason(void **state)
{
	(void)state;
	struct {
		struct system s;
		int err;
		const char *word;
	} bad[] = {
		{{"mlec:2+1/2+1", "c/c", 5, 1, 6, 0, 4}, -EINVAL, "multiple of 3 racks"},
		{{"mlec:2+1/2+1", "c/c", 6, 1, 7, 0, 4}, -EINVAL, "do not divide"},
		{{"mlec:2+1/2+1", "c/c", 6, 1, 6, 6, 4}, -EINVAL, "as many disks"},
		{{"mlec:2+1/2+1", "d/d", 6, 1, 6, 4, 4}, -EINVAL, "do not divide"},
		{{"mlec:2+1/2+1", "d/d", 6, 1, 2, 0, 4}, -EINVAL, "needs at least 3"},
		{{"mlec:2+1/2+1", "d/d", 2, 1, 6, 0, 4}, -EINVAL, "needs at least 3"},
		{{"mlec:2+1/2+1", "d/d", 6, 1, 2048, 0, 4}, -EINVAL, "at most 1024"},
		{{"mlec:2+1/2+1", "d/s", 6, 1, 8, 0, 2}, -EINVAL, "no room for a stripe"},
		{{"rs:4+2", "s/-", 8, 1, 4, 0, 5}, -EINVAL, "no room for a network stripe"},
		{{"mlec:2+1/2+1", "d/d", 0, 1, 6, 0, 4}, -EINVAL, "at least 1"},
		{{"mlec:2+1/2+1", "d/d", 6, 0, 6, 0, 4}, -EINVAL, "at least 1"},
		{{"mlec:2+1/2+1", "d/d", 6, 1, 0, 0, 4}, -EINVAL, "at least 1"},
		{{"mlec:2+1/2+1", "d/d", 6, 1, 6, 0, 0}, -EINVAL, "at least 1"},
		{{"mlec:2+1/2+1", "d/d", UINT32_MAX, 1, 6, 0, 4}, -EOVERFLOW, "at most"},
		{{"mlec:2+1/2+1", "d/d", 6, UINT32_MAX, 6, 0, 4}, -EOVERFLOW, "at most"},
		{{"mlec:2+1/2+1", "d/d", 6, 6, UINT32_MAX, 0, 4}, -EOVERFLOW, "at most"},
		{{"mlec:2+1/2+1", "d/d", 6, 1, 6, 0, UINT64_MAX}, -EOVERFLOW, "slots in all"},
		{{"mlec:2+1/2+1", "d/-", 6, 1, 6, 0, 4}, -EINVAL, "does not fit mlec"},
		{{"mlec:2+1/2+1", "-/d", 6, 1, 6, 0, 4}, -EINVAL, "does not fit mlec"},
		{{"mlec:2+1/2+1", "s/d", 6, 1, 6, 0, 4}, -EINVAL, "does not fit mlec"},
		{{"rs:2+1", "d/d", 6, 1, 6, 0, 4}, -EINVAL, "one level"},
		{{"rs:2+1", "-/-", 6, 1, 6, 0, 4}, -EINVAL, "one level"},
		{{"rs:2+1", "", 6, 1, 6, 0, 4}, -EILSEQ, "two of c"},
		{{"rs:2+1", "c", 6, 1, 6, 0, 4}, -EILSEQ, "two of c"},
		{{"rs:2+1", "c/", 6, 1, 6, 0, 4}, -EILSEQ, "two of c"},
		{{"rs:2+1", "x/-", 6, 1, 6, 0, 4}, -EILSEQ, "two of c"},
		{{"rs:2+1", "-/x", 6, 1, 6, 0, 4}, -EILSEQ, "two of c"},
		{{"rs:2+1", "c-d", 6, 1, 6, 0, 4}, -EILSEQ, "two of c"},
		{{"rs:2+1", "c/d/s", 6, 1, 6, 0, 4}, -EILSEQ, "two of c"},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct layout l;
		char why[LAYOUT_WHY_MAX] = "";
		int rc = system_make(&l, &bad[i].s, 0, why, sizeof(why));
		if (rc != bad[i].err || strstr(why, bad[i].word) == NULL)
			fail_msg("case %zu: %d '%s', wanted '%s'", i, rc, why, bad[i].word);
	}
	struct layout l;
	struct layout_spec spec = {.net = {0, 0}, .local = {1, 0}, .racks = 1};
	assert_int_equal(layout_init(&l, &spec, NULL, 0), -EINVAL);
	spec.net = (struct rs_shape){1, -1};
	assert_int_equal(layout_init(&l, &spec, NULL, 0), -EINVAL);
	spec.net = (struct rs_shape){200, 100};
	assert_int_equal(layout_init(&l, &spec, NULL, 0), -EINVAL);
	spec.net = (struct rs_shape){2, 1};
	spec.local = (struct rs_shape){0, 1};
	assert_int_equal(layout_init(&l, &spec, NULL, 0), -EINVAL);
}

static void lookups_outside_the_system_are_refused(void **state)
{
	(void)state;
	struct layout l;
	make_good(&l, &small[0], 0);
	struct layout_location at, all[9];
	struct layout_ref ref;
	assert_int_equal(layout_locate(&l, l.stripes, 0, 0, &at), -ERANGE);
	assert_int_equal(layout_locate(&l, 0, l.columns, 0, &at), -ERANGE);
	assert_int_equal(layout_locate(&l, 0, 0, l.rows, &at), -ERANGE);
	assert_int_equal(layout_locate_all(&l, l.stripes, all), -ERANGE);
	assert_int_equal(layout_find(&l, l.disks, 0, &ref), -ERANGE);
	assert_int_equal(layout_find(&l, 0, l.spec.slots, &ref), -ERANGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lookups_by_slot_invert_lookups_by_stripe),
		cmocka_unit_test(chunks_are_balanced_over_disks),
		cmocka_unit_test(declustered_rebuild_reads_spread_over_the_whole_pool),
		cmocka_unit_test(network_declustering_spreads_over_all_racks_and_pools),
		cmocka_unit_test(single_overlap_pools_share_at_most_one_disk),
		cmocka_unit_test(same_seed_same_layout_other_seed_other_layout),
		cmocka_unit_test(layouts_never_change),
		cmocka_unit_test(full_size_systems_need_no_memory),
		cmocka_unit_test(impossible_systems_are_refused_with_a_reason),
		cmocka_unit_test(lookups_outside_the_system_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
