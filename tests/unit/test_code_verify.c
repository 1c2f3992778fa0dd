// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>

#include "code/codec.h"
#include "code_fixture.h"

static const char *const encodings[] = {
	"r3",        "rs:1+1",       "rs:4+2",       "rs:10+4", "lrc:4+2+2",     "lrc:12+2+2",
	"lrc:8+4+3", "mlec:2+1/2+1", "mlec:4+2/5+3", "rs:2+40", "mlec:1+40/1+1", "mlec:1+1/1+40"};

static const size_t lengths[] = {1, 63, 64, 256, 257, 1000, 5000};

static void correct_chunks_pass(void **state)
{
	struct rng rng;
	rng_init(&rng, 20);
	for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
		for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
			struct code_fixture fx;
			fixture_open(&fx, encodings[i], lengths[l], &rng);
			fixture_encode(&fx);
			assert_int_equal(codec_verify(fx.codec, fx.len, fx.sg), 0);
			fixture_cut(&fx, &rng);
			assert_int_equal(codec_verify(fx.codec, fx.len, fx.sg), 0);
			fixture_fini(&fx);
		}
	}
}

static void every_flipped_bit_is_found_in_data_and_in_parities(void **state)
{
	struct rng rng;
	rng_init(&rng, 21);
	for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
		struct code_fixture fx;
		fixture_open(&fx, encodings[i], 300, &rng);
		fixture_encode(&fx);
		for (int chunk = 0; chunk < fx.total; chunk++) {
			for (size_t byte = rng_below(&rng, 8); byte < fx.len;
			     byte += 1 + rng_below(&rng, 16)) {
				uint8_t bit = (uint8_t)(1 << rng_below(&rng, 8));
				fx.chunk[chunk][byte] ^= bit;
				assert_int_equal(codec_verify(fx.codec, fx.len, fx.sg), -EBADMSG);
				fx.chunk[chunk][byte] ^= bit;
			}
		}
		assert_int_equal(codec_verify(fx.codec, fx.len, fx.sg), 0);
		fixture_fini(&fx);
	}
}

static void bursts_of_up_to_64_bytes_are_always_found(void **state)
{
	struct rng rng;
	struct code_fixture fx;
	rng_init(&rng, 22);
	fixture_open(&fx, "rs:4+2", 20000, &rng);
	fixture_encode(&fx);
	for (int round = 0; round < 300; round++) {
		int chunk = (int)rng_below(&rng, (uint64_t)fx.total);
		size_t n = 1 + rng_below(&rng, 64), at = rng_below(&rng, fx.len - n);
		uint8_t noise[64];
		rng_fill(&rng, noise, n);
		noise[rng_below(&rng, n)] |= 1;
		for (size_t b = 0; b < n; b++)
			fx.chunk[chunk][at + b] ^= noise[b];
		assert_int_equal(codec_verify(fx.codec, fx.len, fx.sg), -EBADMSG);
		memcpy(fx.chunk[chunk], fx.truth[chunk], fx.len);
	}
	fixture_fini(&fx);
}

/* The same error twice, at distances that are powers of two, as a faulty address line causes. */
static void equal_errors_a_power_of_two_apart_do_not_cancel(void **state)
{
	struct rng rng;
	struct code_fixture fx;
	rng_init(&rng, 23);
	fixture_open(&fx, "rs:2+1", 300000, &rng);
	fixture_encode(&fx);
	for (size_t distance = 1; distance < fx.len / 2; distance *= 2) {
		for (int round = 0; round < 10; round++) {
			int chunk = (int)rng_below(&rng, (uint64_t)fx.total);
			size_t at = rng_below(&rng, fx.len - distance);
			uint8_t error = (uint8_t)(1 + rng_below(&rng, 255));
			fx.chunk[chunk][at] ^= error;
			fx.chunk[chunk][at + distance] ^= error;
			assert_int_equal(codec_verify(fx.codec, fx.len, fx.sg), -EBADMSG);
			fx.chunk[chunk][at] ^= error;
			fx.chunk[chunk][at + distance] ^= error;
		}
	}
	fixture_fini(&fx);
}

/* Errors in any p chunks at the same offset never form a codeword. */
static void errors_in_up_to_p_chunks_do_not_hide_each_other(void **state)
{
	struct rng rng;
	rng_init(&rng, 24);
	for (int round = 0; round < 300; round++) {
		struct encoding e = {
			.kind = ENCODING_RS,
			.rs = {1 + (int)rng_below(&rng, 8), 1 + (int)rng_below(&rng, 5)}};
		struct code_fixture fx;
		fixture_init(&fx, &e, &kernel_fast, 500, &rng);
		fixture_encode(&fx);
		int set[8], n = 1 + (int)rng_below(&rng, (uint64_t)e.rs.p);
		size_t at = rng_below(&rng, fx.len);
		random_set(&rng, set, n, fx.total);
		for (int i = 0; i < n; i++)
			fx.chunk[set[i]][at] ^= (uint8_t)(1 + rng_below(&rng, 255));
		assert_int_equal(codec_verify(fx.codec, fx.len, fx.sg), -EBADMSG);
		fixture_fini(&fx);
	}
}

/* Swapped chunks, a chunk left from another block, a parity never written. */
static void misplaced_chunks_are_found(void **state)
{
	struct rng rng;
	rng_init(&rng, 25);
	for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
		struct code_fixture fx;
		fixture_open(&fx, encodings[i], 1000, &rng);
		fixture_encode(&fx);
		struct sg first = fx.sg[0];
		bool copies = memcmp(fx.chunk[0], fx.chunk[1], fx.len) == 0;
		fx.sg[0] = fx.sg[1];
		fx.sg[1] = first;
		assert_int_equal(codec_verify(fx.codec, fx.len, fx.sg), copies ? 0 : -EBADMSG);
		fixture_flat(&fx);
		for (int chunk = 0; chunk < fx.total; chunk++) {
			rng_fill(&rng, fx.chunk[chunk], fx.len);
			assert_int_equal(codec_verify(fx.codec, fx.len, fx.sg), -EBADMSG);
			memcpy(fx.chunk[chunk], fx.truth[chunk], fx.len);
		}
		fixture_fini(&fx);
	}
}

/* Every column is a codeword of the local code, but the rows are not codewords. */
static void mlec_rows_are_checked_too(void **state)
{
	struct encoding local = {.kind = ENCODING_RS, .rs = {4, 2}};
	struct codec *down;
	struct rng rng;
	struct code_fixture fx;
	rng_init(&rng, 27);
	assert_int_equal(codec_open(&local, &down), 0);
	fixture_open(&fx, "mlec:3+2/4+2", 400, &rng);
	fixture_encode(&fx);
	for (int chunk = 0; chunk < fx.total; chunk++) {
		struct sg *column = &fx.sg[chunk - chunk % 6];
		if (chunk % 6 >= 4)
			continue;
		fx.chunk[chunk][rng_below(&rng, fx.len)] ^= 0x10;
		assert_int_equal(codec_encode(down, fx.len, column), 0);
		assert_int_equal(codec_verify(fx.codec, fx.len, fx.sg), -EBADMSG);
		memcpy(fx.chunk[chunk], fx.truth[chunk], fx.len);
		assert_int_equal(codec_encode(down, fx.len, column), 0);
		assert_int_equal(codec_verify(fx.codec, fx.len, fx.sg), 0);
	}
	codec_close(down);
	fixture_fini(&fx);
}

/*
 * An error that is itself a codeword cannot be found; this shows that the check tests the code's
 * equations.
 */
static void a_change_to_another_codeword_passes(void **state)
{
	struct rng rng;
	struct code_fixture fx;
	rng_init(&rng, 26);
	fixture_open(&fx, "rs:3+2", 100, &rng);
	fixture_encode(&fx);
	assert(fx.total == 5);
	fx.chunk[1][50] ^= 0x40;
	assert_int_equal(codec_verify(fx.codec, fx.len, fx.sg), -EBADMSG);
	assert_int_equal(codec_encode(fx.codec, fx.len, fx.sg), 0);
	assert_int_equal(codec_verify(fx.codec, fx.len, fx.sg), 0);
	fixture_fini(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(correct_chunks_pass),
		cmocka_unit_test(every_flipped_bit_is_found_in_data_and_in_parities),
		cmocka_unit_test(bursts_of_up_to_64_bytes_are_always_found),
		cmocka_unit_test(equal_errors_a_power_of_two_apart_do_not_cancel),
		cmocka_unit_test(errors_in_up_to_p_chunks_do_not_hide_each_other),
		cmocka_unit_test(misplaced_chunks_are_found),
		cmocka_unit_test(mlec_rows_are_checked_too),
		cmocka_unit_test(a_change_to_another_codeword_passes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
