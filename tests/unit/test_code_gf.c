// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include <isa-l/erasure_code.h>

#include "code/gf.h"
#include "code_fixture.h"

static void plain_products_are_those_of_isa_l(void **state)
{
	for (int a = 0; a < 256; a++)
		for (int b = 0; b < 256; b++)
			assert_int_equal(gf_mul_plain((uint8_t)a, (uint8_t)b),
					 gf_mul((uint8_t)a, (uint8_t)b));
}

static void powers_of_two_visit_every_nonzero_element(void **state)
{
	bool seen[256] = {false};
	for (int n = 0; n < 255; n++) {
		assert_false(seen[gf_pow2(n)]);
		seen[gf_pow2(n)] = true;
		assert_int_equal(gf_pow2(n), gf_pow2(n + 255));
	}
	assert_false(seen[0]);
}

/* Stored parities depend on these bytes: a change here loses data that was written before it. */
static void matrices_never_change(void **state)
{
	static const uint8_t rs_4_3[] = {
		0x01, 0x01, 0x01, 0x01, /* the first parity is the XOR of the data */
		0xa6, 0x46, 0xbb, 0x7b, 0xf5, 0x68, 0x8f, 0x52,
	};
	static const uint8_t lrc_6_2_2[] = {
		0x01, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x01, 0x01,
		0x01, 0x98, 0x4e, 0x02, 0x2d, 0x9c, 0x01, 0x4e, 0x99, 0x04, 0x25, 0x5e,
	};
	static const uint8_t lrc_4_2_3[] = {
		0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x01, 0x01, 0xa6, 0x46,
		0xbb, 0x7b, 0xf5, 0x68, 0x8f, 0x52, 0xd2, 0x8f, 0xf5, 0xc8,
	};
	uint8_t rows[64];
	gf_rs_rows(4, 3, rows);
	assert_memory_equal(rows, rs_4_3, sizeof(rs_4_3));
	gf_lrc_rows(&(struct lrc_shape){6, 2, 2}, rows);
	assert_memory_equal(rows, lrc_6_2_2, sizeof(lrc_6_2_2));
	gf_lrc_rows(&(struct lrc_shape){4, 2, 3}, rows);
	assert_memory_equal(rows, lrc_4_2_3, sizeof(lrc_4_2_3));
}

static int rank_of(const struct stripe_code *s, const bool *lost)
{
	int left[ENCODING_STRIPE_MAX], picked[ENCODING_STRIPE_MAX], n = 0;
	for (int i = 0; i < s->n; i++)
		if (!lost[i])
			left[n++] = i;
	return gf_pick_independent(s, left, n, picked);
}

/* Whether the code survives every set of n losses. */
static bool survives_every_loss_of(const struct stripe_code *s, int n)
{
	int set[ENCODING_STRIPE_MAX];
	first_combination(set, n);
	do {
		bool lost[ENCODING_STRIPE_MAX] = {false};
		for (int i = 0; i < n; i++)
			lost[set[i]] = true;
		if (rank_of(s, lost) < s->k)
			return false;
	} while (next_combination(set, n, s->n));
	return true;
}

static void small_reed_solomon_codes_survive_every_loss_of_p(void **state)
{
	uint8_t rows[64];
	for (int k = 1; k <= 8; k++) {
		for (int p = 1; k + p <= 11; p++) {
			gf_rs_rows(k, p, rows);
			struct stripe_code s = {k, k + p, rows};
			assert_true(survives_every_loss_of(&s, p));
			assert_false(survives_every_loss_of(&s, p + 1));
		}
	}
}

/* Random square submatrices of the largest matrices are nonsingular. */
static void large_reed_solomon_matrices_have_no_singular_submatrix(void **state)
{
	static const struct rs_shape shapes[] = {{254, 1},   {253, 2},   {1, 254},  {2, 253},
						 {127, 128}, {128, 127}, {200, 55}, {28, 12}};
	struct rng rng;
	static uint8_t rows[128 * 128], coef[128 * 128];
	rng_init(&rng, 1);
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		struct stripe_code s = {shapes[i].k, shapes[i].k + shapes[i].p, rows};
		gf_rs_rows(shapes[i].k, shapes[i].p, rows);
		for (int round = 0; round < 20; round++) {
			int small = shapes[i].k < shapes[i].p ? shapes[i].k : shapes[i].p;
			int e = 1 + (int)rng_below(&rng, (uint64_t)(small < 12 ? small : 12));
			int lost[12], parity[12], reads[ENCODING_STRIPE_MAX], n = 0;
			random_set(&rng, lost, e, s.k);
			random_set(&rng, parity, e, s.n - s.k);
			for (int j = 0; j < s.k; j++) {
				int l = 0;
				while (l < e && lost[l] != j)
					l++;
				if (l == e)
					reads[n++] = j;
			}
			for (int l = 0; l < e; l++)
				reads[n++] = s.k + parity[l];
			assert_int_equal(n, s.k);
			assert_int_equal(gf_solve(&s, reads, n, lost, e, coef), 0);
		}
	}
}

/* Whether some code of this shape survives the losses: see theory 2 in gf.c. */
static bool any_code_could(const struct lrc_shape *s, const int *lost, int n)
{
	int in_group[ENCODING_STRIPE_MAX] = {0}, excess = 0;
	for (int i = 0; i < n; i++) {
		if (lost[i] < s->k)
			in_group[lost[i] / (s->k / s->groups)]++;
		else if (lost[i] < s->k + s->groups)
			in_group[lost[i] - s->k]++;
		else
			excess++;
	}
	for (int g = 0; g < s->groups; g++)
		excess += in_group[g] > 1 ? in_group[g] - 1 : 0;
	return excess <= s->globals;
}

/* Tries all sets of losses. Returns how many could be decoded by some code, but not by this one. */
static int missed_patterns(const struct lrc_shape *shape)
{
	uint8_t rows[1024];
	int missed = 0;
	gf_lrc_rows(shape, rows);
	struct stripe_code s = {shape->k, shape->k + shape->groups + shape->globals, rows};
	for (int n = 1; n <= shape->groups + shape->globals; n++) {
		int set[ENCODING_STRIPE_MAX];
		first_combination(set, n);
		do {
			bool lost[ENCODING_STRIPE_MAX] = {false};
			for (int i = 0; i < n; i++)
				lost[set[i]] = true;
			bool could = any_code_could(shape, set, n), does = rank_of(&s, lost) == s.k;
			assert_false(does && !could);
			if (n <= shape->globals + 1)
				assert_true(does);
			missed += could && !does;
		} while (next_combination(set, n, s.n));
	}
	return missed;
}

static void small_lrc_survive_all_losses_that_the_theory_states(void **state)
{
	for (int k = 1; k <= 8; k++) {
		for (int groups = 1; groups <= k; groups++) {
			for (int globals = 1; k + groups + globals <= 12; globals++) {
				struct lrc_shape s = {k, groups, globals};
				if (k % groups != 0)
					continue;
				int missed = missed_patterns(&s);
				if (gf_lrc_is_maximally_recoverable(&s))
					assert_int_equal(missed, 0);
			}
		}
	}
}

static void the_lrc_of_azure_is_maximally_recoverable(void **state)
{
	static const struct lrc_shape shapes[] = {{12, 2, 2}, {6, 2, 2}, {12, 3, 2}, {10, 5, 1}};
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		assert_true(gf_lrc_is_maximally_recoverable(&shapes[i]));
		assert_int_equal(missed_patterns(&shapes[i]), 0);
	}
}

/* Whether the code survives random sets of n losses that some code of its shape survives. */
static bool survives_random_losses(const struct lrc_shape *shape, struct rng *rng, int n)
{
	int total = shape->k + shape->groups + shape->globals;
	AUTO_FREE uint8_t *rows = malloc((size_t)(total - shape->k) * (size_t)shape->k);
	assert_non_null(rows);
	gf_lrc_rows(shape, rows);
	struct stripe_code s = {shape->k, total, rows};
	for (int round = 0; round < 20; round++) {
		int set[ENCODING_STRIPE_MAX];
		bool lost[ENCODING_STRIPE_MAX] = {false};
		do
			random_set(rng, set, n, total);
		while (!any_code_could(shape, set, n));
		for (int i = 0; i < n; i++)
			lost[set[i]] = true;
		if (rank_of(&s, lost) < s.k)
			return false;
	}
	return true;
}

/* Whether the code survives two losses in each of two groups, the patterns of theory 3 in gf.c. */
static bool survives_pairs_in_two_groups(const struct lrc_shape *shape, struct rng *rng)
{
	int total = shape->k + shape->groups + shape->globals, size = shape->k / shape->groups;
	AUTO_FREE uint8_t *rows = malloc((size_t)(total - shape->k) * (size_t)shape->k);
	assert_non_null(rows);
	gf_lrc_rows(shape, rows);
	struct stripe_code s = {shape->k, total, rows};
	for (int round = 0; round < 100; round++) {
		bool lost[ENCODING_STRIPE_MAX] = {false};
		int group[2], member[2];
		random_set(rng, group, 2, shape->groups);
		for (int g = 0; g < 2; g++) {
			random_set(rng, member, 2, size + 1);
			for (int i = 0; i < 2; i++)
				lost[member[i] < size ? group[g] * size + member[i]
						      : s.k + group[g]] = true;
		}
		if (rank_of(&s, lost) < s.k)
			return false;
	}
	return true;
}

/*
 * The three constructions of theory 3 at their largest sizes, and pyramids beyond them with R+1
 * losses.
 */
static void large_lrc_survive_losses_as_the_theory_states(void **state)
{
	static const struct lrc_shape spreads[] = {
		{30, 2, 2}, {150, 10, 2}, {60, 20, 2}, {100, 100, 2}};
	static const struct lrc_shape pyramids[] = {
		{32, 2, 2}, {120, 30, 2}, {14, 2, 4}, {48, 4, 5}};
	struct rng rng;
	rng_init(&rng, 2);
	for (size_t i = 0; i < ARRAY_LEN(spreads); i++) {
		assert_true(gf_lrc_is_maximally_recoverable(&spreads[i]));
		assert_true(survives_random_losses(&spreads[i], &rng, 3));
		assert_true(survives_pairs_in_two_groups(&spreads[i], &rng));
	}
	for (size_t i = 0; i < ARRAY_LEN(pyramids); i++)
		assert_false(gf_lrc_is_maximally_recoverable(&pyramids[i]));
	for (size_t i = 0; i < ARRAY_LEN(pyramids); i++)
		assert_true(survives_random_losses(&pyramids[i], &rng, pyramids[i].globals + 1));
}

static void solving_fails_with_enodata_when_reads_are_not_enough(void **state)
{
	uint8_t rows[16], coef[16];
	gf_rs_rows(4, 2, rows);
	struct stripe_code s = {4, 6, rows};
	assert_int_equal(gf_solve(&s, (int[]){0, 1, 2}, 3, (int[]){3}, 1, coef), -ENODATA);
	assert_int_equal(gf_solve(&s, (int[]){0, 1, 4}, 3, (int[]){5}, 1, coef), -ENODATA);
	assert_int_equal(gf_solve(&s, (int[]){0}, 1, (int[]){0}, 1, coef), 0);
	assert_int_equal(coef[0], 1);
	/*
	 * More reads than needed: the surplus read gets weight 0, and the result is the XOR of
	 * theory 1.
	 */
	assert_int_equal(gf_solve(&s, (int[]){4, 5, 0, 1, 2}, 5, (int[]){3}, 1, coef), 0);
	assert_memory_equal(coef, ((uint8_t[]){1, 0, 1, 1, 1}), 5);
}

static void greedy_choice_takes_the_first_independent_chunks(void **state)
{
	uint8_t rows[64];
	int picked[ENCODING_STRIPE_MAX];
	struct lrc_shape shape = {4, 2, 1};
	gf_lrc_rows(&shape, rows);
	struct stripe_code s = {4, 7, rows};
	/* 4 is the parity of 0 and 1, so the third chunk of this group is dependent. */
	int n = gf_pick_independent(&s, (int[]){4, 1, 0, 6, 5, 3, 2}, 7, picked);
	assert_int_equal(n, 4);
	assert_memory_equal(picked, ((int[]){4, 1, 6, 5}), 4 * sizeof(int));
	assert_int_equal(gf_pick_independent(&s, (int[]){0, 1, 4}, 3, picked), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_products_are_those_of_isa_l),
		cmocka_unit_test(powers_of_two_visit_every_nonzero_element),
		cmocka_unit_test(matrices_never_change),
		cmocka_unit_test(small_reed_solomon_codes_survive_every_loss_of_p),
		cmocka_unit_test(large_reed_solomon_matrices_have_no_singular_submatrix),
		cmocka_unit_test(small_lrc_survive_all_losses_that_the_theory_states),
		cmocka_unit_test(the_lrc_of_azure_is_maximally_recoverable),
		cmocka_unit_test(large_lrc_survive_losses_as_the_theory_states),
		cmocka_unit_test(solving_fails_with_enodata_when_reads_are_not_enough),
		cmocka_unit_test(greedy_choice_takes_the_first_independent_chunks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
