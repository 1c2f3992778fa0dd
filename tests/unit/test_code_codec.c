// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "code/codec.h"
#include "code_rig.h"

/*
 * Encodes the same data with ISA-L and with plain C, flat and in segments: all four results are
 * equal.
 */
static void compare_encodings(const struct encoding *e, size_t len, struct rng *rng)
{
	struct rig r;
	struct codec *plain;
	rig_init(&r, e, &kernel_fast, len, rng);
	rig_encode(&r);
	assert_int_equal(codec_open_with(e, &kernel_plain, &plain), 0);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < r.total; i++)
			if (encoding_data_index(e, i) < 0)
				memset(r.chunk[i], round, len);
		if (round > 0)
			rig_cut(&r, rng);
		assert_int_equal(codec_encode(round < 2 ? plain : r.codec, len, r.sg), 0);
		for (int i = 0; i < r.total; i++)
			rig_assert_chunk(&r, i);
	}
	assert_int_equal(codec_verify(plain, len, r.sg), 0);
	codec_close(plain);
	rig_fini(&r);
}

static void fast_encoding_equals_plain_for_all_small_geometries(void **state)
{
	struct rng rng;
	rng_init(&rng, 6);
	for (int copies = 1; copies <= 16; copies++) {
		struct encoding e = {.kind = ENCODING_REPLICATED, .copies = copies};
		compare_encodings(&e, 1 + rng_below(&rng, 300), &rng);
	}
	for (int k = 1; k <= 9; k++) {
		for (int p = 1; p <= 9; p++) {
			struct encoding e = {.kind = ENCODING_RS, .rs = {k, p}};
			compare_encodings(&e, 1 + rng_below(&rng, 300), &rng);
		}
	}
	for (int size = 1; size <= 4; size++) {
		for (int groups = 1; groups <= 4; groups++) {
			for (int globals = 1; globals <= 4; globals++) {
				struct encoding e = {.kind = ENCODING_LRC,
						     .lrc = {size * groups, groups, globals}};
				compare_encodings(&e, 1 + rng_below(&rng, 300), &rng);
			}
		}
	}
	for (int i = 0; i < 81; i++) {
		struct encoding e = {
			.kind = ENCODING_MLEC,
			.mlec = {{1 + i % 3, 1 + i / 3 % 3}, {1 + i / 9 % 3, 1 + i / 27}}};
		compare_encodings(&e, 1 + rng_below(&rng, 200), &rng);
	}
}

static void fast_encoding_equals_plain_for_random_large_geometries(void **state)
{
	struct rng rng;
	rng_init(&rng, 7);
	for (int round = 0; round < 60; round++) {
		int k = 1 + (int)rng_below(&rng, 200), p = 1 + (int)rng_below(&rng, 55);
		struct encoding rs = {.kind = ENCODING_RS, .rs = {k, p}};
		compare_encodings(&rs, 1 + rng_below(&rng, 400), &rng);
		int groups = 1 + (int)rng_below(&rng, 20), size = 1 + (int)rng_below(&rng, 10);
		struct encoding lrc = {
			.kind = ENCODING_LRC,
			.lrc = {groups * size, groups, 1 + (int)rng_below(&rng, 20)}};
		compare_encodings(&lrc, 1 + rng_below(&rng, 400), &rng);
		struct encoding mlec = {
			.kind = ENCODING_MLEC,
			.mlec = {{1 + (int)rng_below(&rng, 12), 1 + (int)rng_below(&rng, 4)},
				 {1 + (int)rng_below(&rng, 20), 1 + (int)rng_below(&rng, 5)}}};
		compare_encodings(&mlec, 1 + rng_below(&rng, 100), &rng);
	}
	static const char *const widest[] = {"rs:254+1", "rs:1+254", "rs:235+20", "mlec:10+2/17+3",
					     "lrc:200+50+5"};
	for (size_t i = 0; i < ARRAY_LEN(widest); i++) {
		struct encoding e = rig_parse(widest[i]);
		compare_encodings(&e, 70, &rng);
	}
}

/* Chunks of several runs of SG_BLOCK, so that all lines are encoded run by run. */
static void long_chunks_are_encoded_block_by_block(void **state)
{
	static const char *const all[] = {"rs:4+2", "rs:5+8", "lrc:6+2+2", "mlec:2+1/3+2"};
	struct rng rng;
	rng_init(&rng, 8);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct rig r;
		rig_open(&r, all[i], 3 * SG_BLOCK + 77, &rng);
		rig_encode(&r);
		rig_cut(&r, &rng);
		assert_int_equal(codec_encode(r.codec, r.len, r.sg), 0);
		for (int c = 0; c < r.total; c++)
			rig_assert_chunk(&r, c);
		rig_fini(&r);
	}
}

static void short_data_chunks_count_as_padded_with_zeros(void **state)
{
	static const char *const all[] = {"rs:4+2", "lrc:4+2+1", "mlec:2+1/2+1"};
	const size_t len = 9000; /* more than the constant zeros of sg.c */
	struct rng rng;
	rng_init(&rng, 9);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct rig r;
		rig_open(&r, all[i], len, &rng);
		int last = encoding_data_chunk(r.e, r.data - 1),
		    before = encoding_data_chunk(r.e, r.data - 2);
		memset(r.chunk[before] + 100, 0, len - 100);
		memset(r.chunk[last], 0, len);
		rig_encode(&r);
		rig_iov(&r, before)->iov_len = 100;
		r.sg[last] = (struct sg){NULL, 0};
		assert_int_equal(codec_encode(r.codec, len, r.sg), 0);
		for (int c = 0; c < r.total; c++)
			rig_assert_chunk(&r, c);
		assert_int_equal(codec_verify(r.codec, len, r.sg), 0);
		rig_fini(&r);
	}
}

/* The network code across a parity row gives the double parities that the local code wrote. */
static void parities_of_parities_commute(void **state)
{
	struct rng rng;
	rng_init(&rng, 10);
	for (int round = 0; round < 40; round++) {
		struct mlec_shape s = {{1 + (int)rng_below(&rng, 6), 1 + (int)rng_below(&rng, 4)},
				       {1 + (int)rng_below(&rng, 6), 1 + (int)rng_below(&rng, 4)}};
		struct encoding e = {.kind = ENCODING_MLEC, .mlec = s};
		struct encoding net = {.kind = ENCODING_RS, .rs = s.net};
		struct rig r;
		struct codec *across;
		struct sg row[16];
		int height = s.local.k + s.local.p;
		rig_init(&r, &e, &kernel_fast, 1 + rng_below(&rng, 500), &rng);
		rig_encode(&r);
		assert_int_equal(codec_open(&net, &across), 0);
		for (int i = s.local.k; i < height; i++) {
			for (int column = 0; column < s.net.k + s.net.p; column++)
				row[column] = r.sg[column * height + i];
			for (int column = s.net.k; column < s.net.k + s.net.p; column++)
				memset(r.chunk[column * height + i], 0, r.len);
			assert_int_equal(codec_encode(across, r.len, row), 0);
			for (int column = s.net.k; column < s.net.k + s.net.p; column++)
				rig_assert_chunk(&r, column * height + i);
		}
		codec_close(across);
		rig_fini(&r);
	}
}

static void the_first_parity_is_the_xor_of_the_data(void **state)
{
	struct rng rng;
	struct rig r;
	rng_init(&rng, 11);
	rig_open(&r, "rs:5+3", 333, &rng);
	rig_encode(&r);
	for (size_t b = 0; b < r.len; b++) {
		uint8_t sum = 0;
		for (int i = 0; i < 5; i++)
			sum ^= r.chunk[i][b];
		assert_int_equal(sum, r.chunk[5][b]);
	}
	rig_fini(&r);
}

static void impossible_encodings_do_not_open(void **state)
{
	struct codec *c = NULL;
	struct encoding none = {.kind = ENCODING_RS, .rs = {0, 1}};
	struct encoding wide = {.kind = ENCODING_LRC, .lrc = {300, 3, 2}};
	assert_int_equal(codec_open(&none, &c), -EINVAL);
	assert_int_equal(codec_open(&wide, &c), -EINVAL);
	assert_null(c);
	codec_close(NULL);
}

static void wrong_sizes_are_refused_and_nothing_is_written(void **state)
{
	struct rng rng;
	struct rig r;
	rng_init(&rng, 12);
	rig_open(&r, "rs:3+2", 100, &rng);
	rig_remember(&r);
	assert_int_equal(codec_encode(r.codec, 0, r.sg), -EINVAL);
	assert_int_equal(codec_encode(r.codec, 99, r.sg), -EINVAL);
	assert_int_equal(codec_encode(r.codec, 101, r.sg), -EINVAL); /* parities must fit exactly */
	assert_int_equal(codec_verify(r.codec, 101, r.sg), -EINVAL);
	r.sg[4].count = -3;
	assert_int_equal(codec_encode(r.codec, 100, r.sg), -EINVAL);
	struct iovec huge[] = {{r.chunk[0], SIZE_MAX - 1}, {r.chunk[0], 100}};
	rig_flat(&r);
	r.sg[0] = (struct sg){huge, 2};
	assert_int_equal(codec_encode(r.codec, 100, r.sg), -EOVERFLOW);
	for (int i = 0; i < r.total; i++)
		rig_assert_chunk(&r, i);
	rig_fini(&r);
}

/* Makes the second segment of chunk `out` point into the memory of chunk `in`. */
static void assert_overlap_is_refused(struct rig *r, int in, int out)
{
	rig_flat(r);
	struct iovec iov[] = {{r->chunk[out], 99}, {r->chunk[in] + 10, 1}};
	r->sg[out] = (struct sg){iov, 2};
	assert_int_equal(codec_encode(r->codec, 100, r->sg), -EINVAL);
	rig_flat(r);
	r->sg[out] = r->sg[in];
	assert_int_equal(codec_encode(r->codec, 100, r->sg), -EINVAL);
	for (int i = 0; i < r->total; i++)
		rig_assert_chunk(r, i);
}

static void outputs_over_their_inputs_are_refused(void **state)
{
	struct rng rng;
	struct rig r;
	rng_init(&rng, 13);
	rig_open(&r, "rs:3+2", 100, &rng);
	rig_remember(&r);
	assert_overlap_is_refused(&r, 0, 4);
	assert_overlap_is_refused(&r, 2, 3);
	assert_overlap_is_refused(&r, 3, 4); /* two outputs with the same buffer */
	rig_fini(&r);
	rig_open(&r, "mlec:2+1/2+1", 100, &rng);
	rig_remember(&r);
	assert_overlap_is_refused(&r, 0, 6);
	assert_overlap_is_refused(&r, 7, 8);
	rig_fini(&r);
}

/* Chunks whose segments alternate in one buffer: their extents overlap, their bytes do not. */
static void interleaved_chunks_are_encoded(void **state)
{
	struct rng rng;
	struct rig r;
	uint8_t buffer[600] = {0};
	struct iovec iov[6][10];
	rng_init(&rng, 14);
	rig_open(&r, "rs:4+2", 100, &rng);
	rig_encode(&r);
	for (size_t i = 0; i < 6; i++) {
		if (r.chunk[i] == NULL)
			abort(); /* rig_open has failed */
		for (size_t s = 0; s < 10; s++) {
			uint8_t *piece = buffer + s * 60 + i * 10;
			for (size_t b = 0; b < 10; b++)
				piece[b] = r.chunk[i][s * 10 + b];
			iov[i][s] = (struct iovec){piece, 10};
		}
		r.sg[i] = (struct sg){iov[i], 10};
	}
	assert_int_equal(codec_encode(r.codec, 100, r.sg), 0);
	for (int i = 0; i < 6; i++)
		for (int s = 0; s < 10; s++)
			assert_memory_equal(iov[i][s].iov_base, r.truth[i] + (ptrdiff_t)s * 10, 10);
	rig_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fast_encoding_equals_plain_for_all_small_geometries),
		cmocka_unit_test(fast_encoding_equals_plain_for_random_large_geometries),
		cmocka_unit_test(long_chunks_are_encoded_block_by_block),
		cmocka_unit_test(short_data_chunks_count_as_padded_with_zeros),
		cmocka_unit_test(parities_of_parities_commute),
		cmocka_unit_test(the_first_parity_is_the_xor_of_the_data),
		cmocka_unit_test(impossible_encodings_do_not_open),
		cmocka_unit_test(outputs_over_their_inputs_are_refused),
		cmocka_unit_test(interleaved_chunks_are_encoded),
		cmocka_unit_test(wrong_sizes_are_refused_and_nothing_is_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
