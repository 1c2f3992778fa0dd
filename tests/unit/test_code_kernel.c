// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "code/gf.h"
#include "code/kernel.h"
#include "code/sg.h"
#include "code_fixture.h"

#define COLS_MAX 12
#define ROWS_MAX 14

struct buffers {
	uint8_t *in[COLS_MAX], *fast[ROWS_MAX], *plain[ROWS_MAX];
};

/* Buffers of exactly len bytes at unaligned addresses: each ends where its allocation ends. */
static void buffers_init(struct buffers *b, int len, struct rng *rng)
{
	uint8_t **all[] = {b->in, b->fast, b->plain};
	const int counts[] = {COLS_MAX, ROWS_MAX, ROWS_MAX};
	for (int a = 0; a < 3; a++) {
		for (int i = 0; i < counts[a]; i++) {
			all[a][i] = malloc((size_t)len);
			assert_non_null(all[a][i]);
			rng_fill(rng, all[a][i], (size_t)len);
		}
	}
	for (int i = 0; i < ROWS_MAX; i++)
		memcpy(b->plain[i], b->fast[i], (size_t)len);
}

static void buffers_fini(struct buffers *b)
{
	for (int i = 0; i < COLS_MAX; i++)
		free(b->in[i]);
	for (int i = 0; i < ROWS_MAX; i++) {
		free(b->fast[i]);
		free(b->plain[i]);
	}
}

static void random_matrix(struct matrix *m, int rows, int cols, struct rng *rng)
{
	assert_int_equal(matrix_init(m, rows, cols), 0);
	rng_fill(rng, m->coef, (size_t)rows * (size_t)cols);
	matrix_ready(m);
}

static void compare_kernels(int rows, int cols, int len, struct rng *rng)
{
	struct buffers b;
	struct matrix m;
	buffers_init(&b, len, rng);
	random_matrix(&m, rows, cols, rng);
	const uint8_t *const *in = (const uint8_t *const *)b.in;
	kernel_fast.dot(&m, len, in, b.fast);
	kernel_plain.dot(&m, len, in, b.plain);
	for (int i = 0; i < rows; i++)
		assert_memory_equal(b.fast[i], b.plain[i], (size_t)len);
	int col = (int)rng_below(rng, (uint64_t)cols);
	kernel_fast.mad(&m, col, len, b.in[0], b.fast);
	kernel_plain.mad(&m, col, len, b.in[0], b.plain);
	for (int i = 0; i < ROWS_MAX; i++)
		assert_memory_equal(b.fast[i], b.plain[i], (size_t)len);
	matrix_fini(&m);
	buffers_fini(&b);
}

/*
 * Every number of rows for which ISA-L has a special kernel, and more; every length around its
 * vector sizes.
 */
static void fast_products_equal_plain_ones_at_every_length(void **state)
{
	struct rng rng;
	rng_init(&rng, 3);
	for (int len = 1; len <= 200; len++)
		compare_kernels(1 + len % ROWS_MAX, 1 + len % COLS_MAX, len, &rng);
	for (int rows = 1; rows <= ROWS_MAX; rows++)
		compare_kernels(rows, COLS_MAX, 1000 + rows, &rng);
}

static void fast_folds_equal_plain_ones(void **state)
{
	struct rng rng;
	uint8_t in[8 * KERNEL_LINE_BYTES + 1], fast[KERNEL_LINE_BYTES], plain[KERNEL_LINE_BYTES];
	uint8_t narrow[KERNEL_LINE_BYTES];
	rng_init(&rng, 4);
	for (size_t lines = 0; lines <= 8; lines++) {
		rng_fill(&rng, in, sizeof(in));
		rng_fill(&rng, fast, sizeof(fast));
		memcpy(plain, fast, sizeof(fast));
		memcpy(narrow, fast, sizeof(fast));
		kernel_fast.fold(fast, in + 1, lines);
		kernel_plain.fold(plain, in + 1, lines);
		kernel_narrow.fold(narrow, in + 1, lines);
		assert_memory_equal(fast, plain, sizeof(fast));
		assert_memory_equal(narrow, plain, sizeof(fast));
	}
}

static void segments_are_checked_before_use(void **state)
{
	uint8_t bytes[64];
	struct iovec two[] = {{bytes, 10}, {bytes + 10, 20}};
	struct iovec null[] = {{NULL, 1}};
	struct iovec empty[] = {{NULL, 0}, {bytes, 30}};
	struct iovec huge[] = {{bytes, SIZE_MAX}, {bytes, 2}};
	assert_int_equal(sg_check(&(struct sg){two, 2}, 30, false), 0);
	assert_int_equal(sg_check(&(struct sg){two, 2}, 29, true), -EINVAL);
	assert_int_equal(sg_check(&(struct sg){two, 2}, 31, false), -EINVAL);
	assert_int_equal(sg_check(&(struct sg){two, 2}, 31, true), 0);
	assert_int_equal(sg_check(&(struct sg){two, -1}, 30, true), -EINVAL);
	assert_int_equal(sg_check(&(struct sg){NULL, 1}, 30, true), -EINVAL);
	assert_int_equal(sg_check(&(struct sg){NULL, 0}, 30, true), 0);
	assert_int_equal(sg_check(&(struct sg){NULL, 0}, 0, true), -EINVAL);
	assert_int_equal(sg_check(&(struct sg){null, 1}, 1, false), -EINVAL);
	assert_int_equal(sg_check(&(struct sg){empty, 2}, 30, false), 0);
	assert_int_equal(sg_check(&(struct sg){huge, 2}, 1, false), -EOVERFLOW);
	assert_true(sg_is_flat(&(struct sg){two, 1}, 10));
	assert_false(sg_is_flat(&(struct sg){two, 2}, 30));
	assert_false(sg_is_flat(&(struct sg){two, 1}, 11));
}

/*
 * A chunk in segments, or without its trailing zeros, has the same fingerprint as the flat
 * chunk.
 */
static void fingerprints_do_not_depend_on_the_cuts(void **state)
{
	struct rng rng;
	uint8_t bytes[5000], whole[KERNEL_LINE_BYTES], cut[KERNEL_LINE_BYTES];
	rng_init(&rng, 5);
	for (int round = 0; round < 300; round++) {
		size_t len = 1 + rng_below(&rng, sizeof(bytes)), stored = rng_below(&rng, len + 1);
		memset(bytes, 0, sizeof(bytes));
		rng_fill(&rng, bytes, stored);
		struct iovec one = {bytes, len}, pieces[40];
		size_t off = 0;
		int n = 0;
		for (; n < 39 && off < stored; n++) {
			size_t take = min_u64(rng_below(&rng, 600), stored - off);
			pieces[n] = (struct iovec){bytes + off, take};
			off += take;
		}
		pieces[n++] = (struct iovec){bytes + off, stored - off};
		sg_fold(&kernel_fast, &(struct sg){&one, 1}, 0, len, whole);
		sg_fold(&kernel_plain, &(struct sg){pieces, n}, 0, len, cut);
		assert_memory_equal(whole, cut, sizeof(whole));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fast_products_equal_plain_ones_at_every_length),
		cmocka_unit_test(fast_folds_equal_plain_ones),
		cmocka_unit_test(segments_are_checked_before_use),
		cmocka_unit_test(fingerprints_do_not_depend_on_the_cuts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
