// SPDX-License-Identifier: Apache-2.0
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
#include "base/crc.h"
#include "base/rng.h"

#define SEED 31
#define BYTES 20000

static uint8_t *random_bytes(struct rng *rng, uint64_t seed, size_t len)
{
	uint8_t *data = malloc(len);
	assert_non_null(data);
	rng_init(rng, seed);
	print_message("seed %d\n", (int)seed);
	rng_fill(rng, data, len);
	return data;
}

/* The check value of the catalogues, and the test vectors of RFC 3720 B.4. */
static void known_vectors_give_their_published_values(void **state)
{
	uint8_t zeros[32] = {0}, ones[32], rising[32], falling[32];
	memset(ones, 0xff, sizeof(ones));
	for (uint8_t i = 0; i < 32; i++) {
		rising[i] = i;
		falling[i] = (uint8_t)(31 - i);
	}
	uint32_t (*const kernels[])(uint32_t, const void *, size_t) = {crc32c, crc32c_ref};
	for (size_t i = 0; i < ARRAY_LEN(kernels); i++) {
		assert_int_equal(kernels[i](0, "", 0), 0);
		assert_int_equal(kernels[i](0, NULL, 0), 0);
		assert_int_equal(kernels[i](0, "123456789", 9), 0xe3069283);
		assert_int_equal(kernels[i](0, zeros, 32), 0x8a9136aa);
		assert_int_equal(kernels[i](0, ones, 32), 0x62a8ab43);
		assert_int_equal(kernels[i](0, rising, 32), 0x46dd794e);
		assert_int_equal(kernels[i](0, falling, 32), 0x113fdb5c);
	}
}

static void the_fast_kernel_equals_the_plain_one_at_any_length_and_alignment(void **state)
{
	struct rng rng;
	AUTO_FREE uint8_t *data = random_bytes(&rng, SEED, BYTES);
	for (size_t len = 0; len < 300; len++)
		for (size_t offset = 0; offset < 17; offset++)
			assert_int_equal(crc32c(7, data + offset, len),
					 crc32c_ref(7, data + offset, len));
	for (int i = 0; i < 500; i++) {
		size_t offset = (size_t)rng_below(&rng, 64);
		size_t len = (size_t)rng_below(&rng, BYTES - offset);
		uint32_t start = (uint32_t)rng_u64(&rng);
		assert_int_equal(crc32c(start, data + offset, len),
				 crc32c_ref(start, data + offset, len));
	}
}

static void a_crc_can_be_continued_and_combined_at_any_cut(void **state)
{
	struct rng rng;
	AUTO_FREE uint8_t *data = random_bytes(&rng, SEED + 1, BYTES);
	for (int i = 0; i < 500; i++) {
		size_t len = (size_t)rng_below(&rng, BYTES);
		size_t cut = (size_t)rng_below(&rng, len + 1);
		uint32_t whole = crc32c(0, data, len);
		uint32_t first = crc32c(0, data, cut);
		assert_int_equal(crc32c(first, data + cut, len - cut), whole);
		uint32_t second = crc32c(0, data + cut, len - cut);
		assert_int_equal(crc32c_combine(first, second, len - cut), whole);
	}
	assert_int_equal(crc32c_combine(0x12345678, 0, 0), 0x12345678);
}

static void crcs_of_pieces_are_the_same_however_the_bytes_come(void **state)
{
	struct rng rng;
	enum { LEN = 5 * (int)CRC_PIECE_BYTES + 1000 };
	AUTO_FREE uint8_t *data = random_bytes(&rng, SEED + 4, LEN);
	assert_int_equal(crc_pieces(0), 0);
	assert_int_equal(crc_pieces(CRC_PIECE_BYTES), 1);
	assert_int_equal(crc_pieces(CRC_PIECE_BYTES + 1), 2);
	for (int i = 0; i < 200; i++) {
		uint32_t crcs[6] = {0};
		size_t len = i == 0 ? LEN : (size_t)rng_below(&rng, LEN);
		for (size_t at = 0; at < len;) {
			size_t n = min_u64(len - at, 1 + rng_below(&rng, 40000));
			crc_pieces_add(crcs, at, data + at, n);
			at += n;
		}
		for (size_t k = 0; k < crc_pieces(len); k++)
			assert_int_equal(crcs[k], crc32c(0, data + k * CRC_PIECE_BYTES,
							 min_u64(CRC_PIECE_BYTES,
								 len - k * CRC_PIECE_BYTES)));
		assert_int_equal(crc_pieces_sum(crcs, len), crc32c(0, data, len));
	}
}

/* Three combinations of pieces far longer than memory must agree however they are grouped. */
static void combining_is_associative_for_huge_lengths(void **state)
{
	struct rng rng;
	rng_init(&rng, SEED + 2);
	print_message("seed %d\n", SEED + 2);
	for (int i = 0; i < 200; i++) {
		uint32_t a = (uint32_t)rng_u64(&rng);
		uint32_t b = (uint32_t)rng_u64(&rng);
		uint32_t c = (uint32_t)rng_u64(&rng);
		uint64_t len_b = rng_u64(&rng) >> 2;
		uint64_t len_c = rng_u64(&rng) >> 2;
		uint32_t left = crc32c_combine(crc32c_combine(a, b, len_b), c, len_c);
		uint32_t right = crc32c_combine(a, crc32c_combine(b, c, len_c), len_b + len_c);
		assert_int_equal(left, right);
	}
}

static void any_flipped_bit_changes_the_crc(void **state)
{
	struct rng rng;
	AUTO_FREE uint8_t *data = random_bytes(&rng, SEED + 3, 512);
	uint32_t good = crc32c(0, data, 512);
	for (size_t bit = 0; bit < (size_t)512 * 8; bit++) {
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_not_equal(crc32c(0, data, 512), good);
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_vectors_give_their_published_values),
		cmocka_unit_test(the_fast_kernel_equals_the_plain_one_at_any_length_and_alignment),
		cmocka_unit_test(a_crc_can_be_continued_and_combined_at_any_cut),
		cmocka_unit_test(crcs_of_pieces_are_the_same_however_the_bytes_come),
		cmocka_unit_test(combining_is_associative_for_huge_lengths),
		cmocka_unit_test(any_flipped_bit_changes_the_crc),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
