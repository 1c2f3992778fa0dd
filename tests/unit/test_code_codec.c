// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "code/codec.h"
#include "code_fixture.h"

/*
 * Encodes the same data with ISA-L and with plain C, flat and in segments: all four results are
 * equal.
 */
static void compare_encodings(const struct encoding *e, size_t len, struct rng *rng)
{
	struct code_fixture fx;
	struct codec *plain;
	fixture_init(&fx, e, &kernel_fast, len, rng);
	fixture_encode(&fx);
	assert_int_equal(codec_open_with(e, &kernel_plain, &plain), 0);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < fx.total; i++)
			if (encoding_data_index(e, i) < 0)
				memset(fx.chunk[i], round, len);
		if (round > 0)
			fixture_cut(&fx, rng);
		assert_int_equal(codec_encode(round < 2 ? plain : fx.codec, len, fx.sg), 0);
		for (int i = 0; i < fx.total; i++)
			fixture_assert_chunk(&fx, i);
	}
	assert_int_equal(codec_verify(plain, len, fx.sg), 0);
	codec_close(plain);
	fixture_fini(&fx);
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
		struct encoding e = fixture_parse(widest[i]);
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
		struct code_fixture fx;
		fixture_open(&fx, all[i], 3 * SG_BLOCK + 77, &rng);
		fixture_encode(&fx);
		fixture_cut(&fx, &rng);
		assert_int_equal(codec_encode(fx.codec, fx.len, fx.sg), 0);
		for (int c = 0; c < fx.total; c++)
			fixture_assert_chunk(&fx, c);
		fixture_fini(&fx);
	}
}

static void short_data_chunks_count_as_padded_with_zeros(void **state)
{
	static const char *const all[] = {"rs:4+2", "lrc:4+2+1", "mlec:2+1/2+1"};
	const size_t len = 9000; /* more than the constant zeros of sg.c */
	struct rng rng;
	rng_init(&rng, 9);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct code_fixture fx;
		fixture_open(&fx, all[i], len, &rng);
		int last = encoding_data_chunk(fx.e, fx.data - 1),
		    before = encoding_data_chunk(fx.e, fx.data - 2);
		memset(fx.chunk[before] + 100, 0, len - 100);
		memset(fx.chunk[last], 0, len);
		fixture_encode(&fx);
		fixture_iov(&fx, before)->iov_len = 100;
		fx.sg[last] = (struct sg){NULL, 0};
		assert_int_equal(codec_encode(fx.codec, len, fx.sg), 0);
		for (int c = 0; c < fx.total; c++)
			fixture_assert_chunk(&fx, c);
		assert_int_equal(codec_verify(fx.codec, len, fx.sg), 0);
		fixture_fini(&fx);
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
		struct code_fixture fx;
		struct codec *across;
		struct sg row[16];
		int height = s.local.k + s.local.p;
		fixture_init(&fx, &e, &kernel_fast, 1 + rng_below(&rng, 500), &rng);
		fixture_encode(&fx);
		assert_int_equal(codec_open(&net, &across), 0);
		for (int i = s.local.k; i < height; i++) {
			for (int column = 0; column < s.net.k + s.net.p; column++)
				row[column] = fx.sg[column * height + i];
			for (int column = s.net.k; column < s.net.k + s.net.p; column++)
				memset(fx.chunk[column * height + i], 0, fx.len);
			assert_int_equal(codec_encode(across, fx.len, row), 0);
			for (int column = s.net.k; column < s.net.k + s.net.p; column++)
				fixture_assert_chunk(&fx, column * height + i);
		}
		codec_close(across);
		fixture_fini(&fx);
	}
}

static void the_first_parity_is_the_xor_of_the_data(void **state)
{
	struct rng rng;
	struct code_fixture fx;
	rng_init(&rng, 11);
	fixture_open(&fx, "rs:5+3", 333, &rng);
	fixture_encode(&fx);
	for (size_t b = 0; b < fx.len; b++) {
		uint8_t sum = 0;
		for (int i = 0; i < 5; i++)
			sum ^= fx.chunk[i][b];
		assert_int_equal(sum, fx.chunk[5][b]);
	}
	fixture_fini(&fx);
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

/* Maps one page so often in a row that `bytes` bytes of address space take one page of memory. */
static uint8_t *page_repeated(uint8_t value, size_t bytes)
{
	size_t page = 2 * MIB;
	int fd = memfd_create("page", MFD_CLOEXEC);
	assert_true(fd >= 0 && ftruncate(fd, (off_t)page) == 0);
	uint8_t *all =
		mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(all != MAP_FAILED);
	for (size_t at = 0; at < bytes; at += page) {
		void *p =
			mmap(all + at, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
		assert_ptr_equal(p, all + at);
	}
	close(fd);
	memset(all, value, page);
	return all;
}

static void a_chunk_longer_than_one_run_of_the_kernel_is_encoded(void **state)
{
	(void)state;
	size_t len = (size_t)KERNEL_RUN_MAX + 2 * MIB;
	struct encoding e = {.kind = ENCODING_RS, .rs = {2, 1}};
	struct codec *codec;
	struct iovec iov[3];
	struct sg chunks[3];
	for (int i = 0; i < 3; i++) {
		iov[i] = (struct iovec){page_repeated((uint8_t)(0x11 << i), len), len};
		chunks[i] = (struct sg){&iov[i], 1};
	}
	assert_int_equal(codec_open(&e, &codec), 0);
	assert_int_equal(codec_encode(codec, len, chunks), 0);
	const uint8_t *parity = iov[2].iov_base;
	for (size_t i = 0; i < 2 * MIB; i++)
		assert_int_equal(parity[i], 0x11 ^ 0x22);
	codec_close(codec);
	for (int i = 0; i < 3; i++)
		munmap(iov[i].iov_base, len);
}

static void wrong_sizes_are_refused_and_nothing_is_written(void **state)
{
	struct rng rng;
	struct code_fixture fx;
	rng_init(&rng, 12);
	fixture_open(&fx, "rs:3+2", 100, &rng);
	fixture_remember(&fx);
	assert_int_equal(codec_encode(fx.codec, 0, fx.sg), -EINVAL);
	assert_int_equal(codec_encode(fx.codec, 99, fx.sg), -EINVAL);
	assert_int_equal(codec_encode(fx.codec, 101, fx.sg),
			 -EINVAL); /* a parity must have exactly the length of a chunk */
	assert_int_equal(codec_verify(fx.codec, 101, fx.sg), -EINVAL);
	fx.sg[4].count = -3;
	assert_int_equal(codec_encode(fx.codec, 100, fx.sg), -EINVAL);
	struct iovec huge[] = {{fx.chunk[0], SIZE_MAX - 1}, {fx.chunk[0], 100}};
	fixture_flat(&fx);
	fx.sg[0] = (struct sg){huge, 2};
	assert_int_equal(codec_encode(fx.codec, 100, fx.sg), -EOVERFLOW);
	for (int i = 0; i < fx.total; i++)
		fixture_assert_chunk(&fx, i);
	fixture_fini(&fx);
}

/* Makes the second segment of chunk `out` point into the memory of chunk `in`. */
static void assert_overlap_is_refused(struct code_fixture *fx, int in, int out)
{
	fixture_flat(fx);
	struct iovec iov[] = {{fx->chunk[out], 99}, {fx->chunk[in] + 10, 1}};
	fx->sg[out] = (struct sg){iov, 2};
	assert_int_equal(codec_encode(fx->codec, 100, fx->sg), -EINVAL);
	fixture_flat(fx);
	fx->sg[out] = fx->sg[in];
	assert_int_equal(codec_encode(fx->codec, 100, fx->sg), -EINVAL);
	for (int i = 0; i < fx->total; i++)
		fixture_assert_chunk(fx, i);
}

static void outputs_over_their_inputs_are_refused(void **state)
{
	struct rng rng;
	struct code_fixture fx;
	rng_init(&rng, 13);
	fixture_open(&fx, "rs:3+2", 100, &rng);
	fixture_remember(&fx);
	assert_overlap_is_refused(&fx, 0, 4);
	assert_overlap_is_refused(&fx, 2, 3);
	assert_overlap_is_refused(&fx, 3, 4); /* two outputs with the same buffer */
	fixture_fini(&fx);
	fixture_open(&fx, "mlec:2+1/2+1", 100, &rng);
	fixture_remember(&fx);
	assert_overlap_is_refused(&fx, 0, 6);
	assert_overlap_is_refused(&fx, 7, 8);
	fixture_fini(&fx);
}

/* Chunks whose segments alternate in one buffer: their extents overlap, their bytes do not. */
static void interleaved_chunks_are_encoded(void **state)
{
	struct rng rng;
	struct code_fixture fx;
	uint8_t buffer[600] = {0};
	struct iovec iov[6][10];
	rng_init(&rng, 14);
	fixture_open(&fx, "rs:4+2", 100, &rng);
	fixture_encode(&fx);
	for (size_t i = 0; i < 6; i++) {
		if (fx.chunk[i] == NULL)
			abort(); /* not reached, because fixture_open fails the test */
		for (size_t s = 0; s < 10; s++) {
			uint8_t *piece = buffer + s * 60 + i * 10;
			for (size_t b = 0; b < 10; b++)
				piece[b] = fx.chunk[i][s * 10 + b];
			iov[i][s] = (struct iovec){piece, 10};
		}
		fx.sg[i] = (struct sg){iov[i], 10};
	}
	assert_int_equal(codec_encode(fx.codec, 100, fx.sg), 0);
	for (int i = 0; i < 6; i++)
		for (int s = 0; s < 10; s++)
			assert_memory_equal(iov[i][s].iov_base, fx.truth[i] + (ptrdiff_t)s * 10,
					    10);
	fixture_fini(&fx);
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
		cmocka_unit_test(a_chunk_longer_than_one_run_of_the_kernel_is_encoded),
		cmocka_unit_test(wrong_sizes_are_refused_and_nothing_is_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
