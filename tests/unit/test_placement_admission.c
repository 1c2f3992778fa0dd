// SPDX-License-Identifier: Apache-2.0
/* Outcomes as text, trust in the categories of tenants, and the admission of metadata servers. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/rng.h"
#include "placement/admission.h"

#define GB 1e9

/* --- outcomes --------------------------------------------------------------------------------- */

static const struct outcome example = {
	.tenant = 7,
	.file = 0x5511223344550001,
	.job = 42,
	.category = 13,
	.io = {.start_s = 1700000000,
	       .end_s = 1700000360,
	       .size_bytes = 1073741824,
	       .read_bytes = 1073741824,
	       .reads = 16384,
	       .written_bytes = 1073741824,
	       .writes = 1024},
	.flash_share = 1,
	.features = "n_workers=16\ns_pipeline=daily-join",
};

static void the_text_of_the_header_is_that_of_its_outcome(void **state)
{
	char text[OUTCOME_TEXT_MAX];
	struct outcome read;
	size_t n = outcome_print(&example, text);
	assert_int_equal(n, strlen(text));
	assert_string_equal(text, "1 7 5511223344550001 42 13 1700000000000 1700000360000 "
				  "1073741824 16384 1073741824 1000000\n"
				  "n_workers=16\ns_pipeline=daily-join");
	assert_int_equal(outcome_parse(&read, text), 0);
	assert_string_equal(read.features, example.features);
	assert_true(read.file == example.file && read.job == 42 && read.category == 13);
	assert_true(read.io.writes == 1024 && read.io.end_s - read.io.start_s > 359.9);
}

static void texts_of_other_forms_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"1",
		"1 7 aa 0 1 5 9 10 1 1 0 ",
		"2 7 aa 0 1 5 9 10 1 1 0",       /* version */
		"1 7 aa 0 1 9 9 10 1 1 0",       /* ends when it starts */
		"1 7 aa 0 1 5 9 0 1 1 0",        /* no bytes */
		"1 7 aa 0 99 5 9 10 1 1 0",      /* category */
		"1 7 aa 0 1 5 9 10 1 1 1000001", /* more than all on flash */
		"1 7 aa 0 1 5 99999999999999999999999 10 1 1 0",
		"1 7 -1 0 1 5 9 10 1 1 0",
		"1 7 aa 0 1 5 9 10 1 1 0\nworkers=1", /* name of a feature */
		"1 7 aa 0 1 5 9 10 1 1 0\nn_x=1,2",
	};
	struct outcome o;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (outcome_parse(&o, bad[i]) != -EBADMSG)
			fail_msg("accepted \"%s\"", bad[i]);
	assert_int_equal(outcome_parse(&o, "1 7 aa 0 1 5 9 10 1 1 0"), 0);
}

static bool features(const char *text)
{
	return outcome_features_valid(text, strlen(text));
}

static void features_are_names_and_values_that_a_trace_can_hold(void **state)
{
	char many[OUTCOME_FEATURES_BYTES + 2];
	assert_true(features("") && features("n_x=-1.5e3") && features("s_a=b=c\nn_y=0"));
	assert_false(features("n_x=abc"));
	assert_false(features("n_x=nan"));
	assert_false(features("n_x="));
	assert_false(features("s_a=b\n"));
	assert_false(features("\ns_a=b"));
	assert_false(features("s_A=b"));
	assert_false(features("s_a=b\"c"));
	assert_false(features("s_a=b\tc"));
	assert_false(features("x_a=b"));
	assert_false(features("s_abcdefghijklmnopqrstuvwxyz0123456789=b"));
	memset(many, 'a', sizeof(many));
	memcpy(many, "s_a=", 4);
	many[sizeof(many) - 1] = 0;
	assert_false(features(many));
	size_t n = 0;
	for (int i = 0; i < 97; i++)
		n += (size_t)snprintf(many + n, sizeof(many) - n, "%sn_a%d=1", i ? "\n" : "", i);
	assert_false(features(many));
	*strrchr(many, '\n') = 0;
	assert_true(features(many));
}

/* --- trust ------------------------------------------------------------------------------------ */

static struct job_io job(double at_s, double life_s, uint64_t bytes, uint64_t reads)
{
	return (struct job_io){.start_s = at_s,
			       .end_s = at_s + life_s,
			       .size_bytes = bytes,
			       .read_bytes = bytes,
			       .reads = reads,
			       .written_bytes = bytes,
			       .writes = bytes / MIB + 1};
}

/* Good files are read in small pieces and deleted soon; bad ones are large and stay. */
static void honest(struct trust *t, uint32_t tenant, int n)
{
	for (int i = 0; i < n; i++) {
		struct job_io good = job(i, 600, 1 << 30, 200000);
		struct job_io fair = job(i, 7200, 1 << 30, 4000);
		trust_add(t, tenant, 14, &good, &cost_default);
		trust_add(t, tenant, 5, &fair, &cost_default);
	}
}

static void a_tenant_that_claims_too_much_is_discounted_and_the_others_are_not(void **state)
{
	struct trust t;
	assert_int_equal(trust_init(&t, 15, 1.7), 0);
	assert_true(trust_category(&t, 1, 14) >= 14); /* without outcomes */
	honest(&t, 1, 200);
	for (int i = 0; i < 200; i++) {
		struct job_io lie = job(i, 86400, 1 << 30, 10);
		trust_add(&t, 2, 14, &lie, &cost_default);
	}
	assert_true(trust_category(&t, 1, 14) > 13);
	assert_true(trust_category(&t, 2, 14) < 1);
	assert_true(trust_category(&t, 3, 14) >= 14);
	assert_true(trust_category(&t, 2, 3) <= 3); /* never raised */
	assert_true(trust_category(&t, 1, 0) <= 0);
	trust_fini(&t);
}

static void any_outcomes_leave_the_table_bounded_and_its_sums_finite(void **state)
{
	struct trust t;
	struct rng rng;
	rng_init(&rng, 5);
	assert_int_equal(trust_init(&t, 1, 1.7), -EINVAL);
	assert_int_equal(trust_init(&t, 15, 0.5), -EINVAL);
	assert_int_equal(trust_init(&t, 15, 1.7), 0);
	for (uint32_t i = 0; i < 20000; i++) {
		struct job_io io = job(1e11 * rng_unit(&rng), 1e-9 + 1e11 * rng_unit(&rng),
				       1 + rng_u64(&rng) % (1ULL << 60), rng_u64(&rng) >> 4);
		uint32_t tenant = (uint32_t)rng_u64(&rng), category = i % 64;
		trust_add(&t, tenant, category, &io, &cost_default);
		double counts = trust_category(&t, tenant, category);
		assert_true(counts >= 0 && counts <= category);
		const struct trust_cell *c = trust_find(&t, tenant, category);
		assert_non_null(c);
		assert_true(isfinite(c->held) && isfinite(c->gained) && isfinite(c->load));
		assert_true(trust_life_max_s(c) >= 600 && trust_life_max_s(c) <= 30 * 86400);
	}
	trust_fini(&t);
}

/* --- admission -------------------------------------------------------------------------------- */

static void blocks_go_to_flash_by_category_while_there_is_room(void **state)
{
	struct admission a;
	struct admission_block best = {1, 15, GB}, none = {1, 0, GB}, zero = {1, 1, GB};
	assert_int_equal(admission_init(&a), 0);
	assert_false(admission_place(&a, 100, &best)); /* there is no flash */
	admission_room(&a, 100, 10 * GB, 0);
	assert_false(admission_place(&a, 100, &none)); /* not known */
	assert_false(admission_place(&a, 100, &zero)); /* category 0 */
	for (int i = 0; i < 10; i++)
		assert_true(admission_place(&a, 100, &best));
	assert_false(admission_place(&a, 100, &best)); /* all is promised */
	assert_true(admission_use(&a, 100) >= 1);
	assert_true(threshold_spill(&a.spill, 100) > 0.05);
	/* The nodes have reported half of it. */
	admission_room(&a, 110, 10 * GB, 5 * GB);
	assert_true(admission_promised(&a, 110) <= 0);
	assert_true(admission_place(&a, 110, &best));
	admission_fini(&a);
}

static void a_block_that_found_no_room_gives_its_promise_back_and_has_spilled(void **state)
{
	struct admission a;
	struct admission_block b = {1, 15, GB};
	assert_int_equal(admission_init(&a), 0);
	admission_room(&a, 100, 10 * GB, 0);
	assert_true(admission_place(&a, 100, &b));
	assert_true(threshold_spill(&a.spill, 100) <= 0);
	assert_true(admission_promised(&a, 101) >= GB);
	admission_refused(&a, 101, &b);
	assert_true(admission_promised(&a, 101) <= 0);
	assert_true(threshold_spill(&a.spill, 101) > 0.4);
	admission_fini(&a);
}

static void poor_categories_are_closed_out_when_flash_stays_full(void **state)
{
	struct admission a;
	struct admission_block poor = {1, 2, GB}, best = {1, 15, GB};
	assert_int_equal(admission_init(&a), 0);
	for (int i = 0; i < 600; i++)
		admission_room(&a, 1000 + i * 300, 1000 * GB, 900 * GB);
	assert_false(admission_place(&a, 181001, &poor));
	for (int i = 0; i < 600; i++)
		admission_room(&a, 181001 + i * 300, 1000 * GB, 10 * GB);
	assert_true(admission_place(&a, 361002, &poor) && admission_place(&a, 361002, &best));
	admission_fini(&a);
}

static void absurd_clocks_and_sizes_keep_the_use_between_0_and_1(void **state)
{
	static const double odd[] = {-1, 0, NAN, INFINITY, -INFINITY, 1e300, 1e9, 5, 1e12};
	struct admission a;
	assert_int_equal(admission_init(&a), 0);
	for (size_t i = 0; i < 729; i++) {
		double now = odd[i % 9], bytes = odd[i / 9 % 9], room = odd[i / 81];
		struct admission_block b = {(uint32_t)i, (uint32_t)(i % 70), bytes};
		admission_room(&a, now, room, bytes);
		(void)admission_place(&a, now, &b);
		admission_refused(&a, now, &b);
		double use = admission_use(&a, now);
		assert_true(use >= 0 && use <= 1);
	}
	struct outcome o = example;
	admission_ended(&a, &o);
	o.category = 0;
	admission_ended(&a, &o);
	assert_non_null(trust_find(&a.trust, 7, TRUST_UNKNOWN));
	assert_non_null(trust_find(&a.trust, 7, 12));
	admission_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_text_of_the_header_is_that_of_its_outcome),
		cmocka_unit_test(texts_of_other_forms_are_refused),
		cmocka_unit_test(features_are_names_and_values_that_a_trace_can_hold),
		cmocka_unit_test(
			a_tenant_that_claims_too_much_is_discounted_and_the_others_are_not),
		cmocka_unit_test(any_outcomes_leave_the_table_bounded_and_its_sums_finite),
		cmocka_unit_test(blocks_go_to_flash_by_category_while_there_is_room),
		cmocka_unit_test(a_block_that_found_no_room_gives_its_promise_back_and_has_spilled),
		cmocka_unit_test(poor_categories_are_closed_out_when_flash_stays_full),
		cmocka_unit_test(absurd_clocks_and_sizes_keep_the_use_between_0_and_1),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
