// SPDX-License-Identifier: Apache-2.0
/* Failure classes against brute force over every chunk. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/rng.h"
#include "code/failure.h"
#include "layout_systems.h"

/* Returns the number of failed chunks of column c, by looking at each chunk. */
static int brute_chunks(const struct layout *l, const uint8_t *failed, uint64_t s, uint32_t c)
{
	int n = 0;
	for (uint32_t r = 0; r < l->rows; r++) {
		struct layout_location at;
		CHECK_EQ(layout_locate(l, s, c, r, &at), 0);
		n += failed[at.disk];
	}
	return n;
}

static void brute_totals(const struct layout *l, const uint8_t *failed, struct failure_totals *c)
{
	AUTO_FREE uint8_t *pool = calloc(l->pools, 1);
	CHECK(pool != NULL);
	*c = (struct failure_totals){0};
	for (uint64_t s = 0; s < l->stripes; s++) {
		int lost = 0;
		for (uint32_t col = 0; col < l->columns; col++) {
			struct layout_column at;
			layout_column_at(l, s, col, &at);
			int n = brute_chunks(l, failed, s, col);
			c->failed_chunks += (uint64_t)n;
			c->recoverable_local += n > 0 && n <= l->spec.local.p;
			c->lost_local += n > l->spec.local.p;
			lost += n > l->spec.local.p;
			if (n > l->spec.local.p)
				pool[at.pool] = 1;
		}
		c->recoverable_net += lost > 0 && lost <= l->spec.net.p;
		c->lost_net += lost > l->spec.net.p;
	}
	for (uint32_t p = 0; p < l->pools; p++) {
		bool hurt = false;
		for (uint32_t d = 0; d < l->pool_disks; d++)
			hurt |= failed[layout_pool_disk(l, p, d)] != 0;
		c->catastrophic_pools += pool[p];
		c->recoverable_pools += hurt && !pool[p];
	}
}

static void check_classes(const struct failure *f, const uint8_t *failed)
{
	const struct layout *l = f->layout;
	for (uint32_t d = 0; d < l->disks; d++)
		assert_int_equal(failure_has_disk(f, d), failed[d]);
	for (uint64_t s = 0; s < l->stripes; s++) {
		int lost = 0;
		for (uint32_t c = 0; c < l->columns; c++) {
			struct layout_column at;
			uint64_t rows[4];
			layout_column_at(l, s, c, &at);
			int n = brute_chunks(l, failed, s, c);
			assert_int_equal(failure_local_chunks(f, at.pool, at.local_stripe, rows),
					 n);
			for (uint32_t r = 0; r < l->rows; r++) {
				struct layout_location location;
				CHECK_EQ(layout_locate(l, s, c, r, &location), 0);
				assert_int_equal(rows[r / 64] >> r % 64 & 1, failed[location.disk]);
			}
			enum failure_class want = n == 0                 ? FAILURE_NONE
						  : n <= l->spec.local.p ? FAILURE_RECOVERABLE
									 : FAILURE_LOST;
			assert_int_equal(failure_local_class(f, at.pool, at.local_stripe), want);
			if (want == FAILURE_LOST)
				assert_true(failure_pool_at(f, at.pool)->catastrophic);
			lost += want == FAILURE_LOST;
		}
		assert_int_equal(failure_lost_columns(f, s), lost);
	}
}

static void check_counts(const struct failure *f, const struct failure_totals *totals)
{
	const struct layout *l = f->layout;
	uint64_t count[ENCODING_STRIPE_MAX + 1], chunks = 0, all = 0;
	for (uint32_t p = 0; p < l->pools; p++) {
		assert_int_equal(failure_pool_counts(f, p, count), 0);
		for (uint32_t j = 0; j <= l->rows; j++) {
			chunks += j * count[j];
			all += count[j];
		}
	}
	assert_int_equal(chunks, totals->failed_chunks);
	assert_int_equal(all, l->stripes * l->columns);
}

static void classes_agree_with_brute_force(void **state)
{
	(void)state;
	struct rng rng;
	rng_init(&rng, 8);
	for (size_t i = 0; i < SMALL_PLANNED; i++) {
		for (uint32_t round = 0; round < 40; round++) {
			struct layout l;
			struct failure f;
			struct failure_totals got, want;
			uint32_t disks[200], n = 0;
			system_need(&l, &small[i], round);
			AUTO_FREE uint8_t *failed = calloc(l.disks, 1);
			CHECK(failed != NULL);
			double share = 0.02 * (round % 10);
			for (uint32_t d = l.disks; d-- > 0;) {
				failed[d] = rng_chance(&rng, share);
				if (failed[d])
					disks[n++] = d;
			}
			CHECK_EQ(failure_init(&f, &l, disks, n), 0);
			check_classes(&f, failed);
			failure_count(&f, &got);
			brute_totals(&l, failed, &want);
			assert_memory_equal(&got, &want, sizeof(got));
			check_counts(&f, &want);
			failure_fini(&f);
		}
	}
}

static void a_whole_rack_is_recoverable_across_racks_only(void **state)
{
	(void)state;
	for (size_t i = 0; i < SMALL_PLANNED; i++) {
		struct layout l;
		struct failure f;
		struct failure_totals totals;
		uint32_t disks[64], n = 0;
		system_need(&l, &small[i], 4);
		for (uint32_t d = 0; d < l.disks; d++)
			if (layout_disk_rack(&l, d) == 1)
				disks[n++] = d;
		CHECK_EQ(failure_init(&f, &l, disks, n), 0);
		failure_count(&f, &totals);
		assert_int_equal(totals.catastrophic_pools, l.rack_pools);
		if (l.columns > 1)
			assert_int_equal(totals.lost_net, 0);
		else
			assert_true(totals.lost_net > 0);
		failure_fini(&f);
	}
}

static void invalid_sets_of_disks_are_refused(void **state)
{
	(void)state;
	struct layout l;
	struct failure f;
	system_need(&l, &small[0], 0);
	assert_int_equal(failure_init(&f, &l, (uint32_t[]){3, 1, 3}, 3), -EINVAL);
	assert_int_equal(failure_init(&f, &l, (uint32_t[]){3, l.disks}, 2), -ERANGE);
	CHECK_EQ(failure_init(&f, &l, (uint32_t[]){7, 1}, 2), 0);
	uint64_t count[8];
	assert_int_equal(failure_local_chunks(&f, l.pools, 0, NULL), -ERANGE);
	assert_int_equal(failure_local_chunks(&f, 0, l.local.stripes, NULL), -ERANGE);
	assert_int_equal(failure_lost_columns(&f, l.stripes), -ERANGE);
	assert_int_equal(failure_pool_counts(&f, l.pools, count), -ERANGE);
	assert_int_equal(failure_local_class(&f, l.pools, 0), FAILURE_NONE);
	failure_fini(&f);
}

/* Four lost chunks of lrc:4+2+2 can be one group with its parity and one more, or spread evenly. */
static void an_lrc_is_refused_since_counts_do_not_decide(void **state)
{
	(void)state;
	const struct system inside = {"lrc:4+2+2", "-/d", 2, 1, 12, 0, 6};
	const struct system *systems[] = {&small[SMALL_PLANNED], &inside};
	for (int i = 0; i < 2; i++) {
		struct layout l;
		struct failure f;
		system_need(&l, systems[i], 0);
		assert_true(l.spec.lrc);
		assert_int_equal(failure_init(&f, &l, (uint32_t[]){1}, 1), -EOPNOTSUPP);
		assert_int_equal(failure_init(&f, &l, NULL, 0), -EOPNOTSUPP);
	}
	for (size_t i = 0; i < SMALL_PLANNED; i++) {
		struct layout l;
		system_need(&l, &small[i], 0);
		assert_false(l.spec.lrc);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes_agree_with_brute_force),
		cmocka_unit_test(a_whole_rack_is_recoverable_across_racks_only),
		cmocka_unit_test(an_lrc_is_refused_since_counts_do_not_decide),
		cmocka_unit_test(invalid_sets_of_disks_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
