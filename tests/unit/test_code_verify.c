// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>

#include "code/codec.h"
#include "code_rig.h"

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
			struct rig r;
			rig_open(&r, encodings[i], lengths[l], &rng);
			rig_encode(&r);
			assert_int_equal(codec_verify(r.codec, r.len, r.sg), 0);
			rig_cut(&r, &rng);
			assert_int_equal(codec_verify(r.codec, r.len, r.sg), 0);
			rig_fini(&r);
		}
	}
}

static void every_flipped_bit_is_found_in_data_and_in_parities(void **state)
{
	struct rng rng;
	rng_init(&rng, 21);
	for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
		struct rig r;
		rig_open(&r, encodings[i], 300, &rng);
		rig_encode(&r);
		for (int chunk = 0; chunk < r.total; chunk++) {
			for (size_t byte = rng_below(&rng, 8); byte < r.len;
			     byte += 1 + rng_below(&rng, 16)) {
				uint8_t bit = (uint8_t)(1 << rng_below(&rng, 8));
				r.chunk[chunk][byte] ^= bit;
				assert_int_equal(codec_verify(r.codec, r.len, r.sg), -EBADMSG);
				r.chunk[chunk][byte] ^= bit;
			}
		}
		assert_int_equal(codec_verify(r.codec, r.len, r.sg), 0);
		rig_fini(&r);
	}
}

static void bursts_of_up_to_64_bytes_are_always_found(void **state)
{
	struct rng rng;
	struct rig r;
	rng_init(&rng, 22);
	rig_open(&r, "rs:4+2", 20000, &rng);
	rig_encode(&r);
	for (int round = 0; round < 300; round++) {
		int chunk = (int)rng_below(&rng, (uint64_t)r.total);
		size_t n = 1 + rng_below(&rng, 64), at = rng_below(&rng, r.len - n);
		uint8_t noise[64];
		rng_fill(&rng, noise, n);
		noise[rng_below(&rng, n)] |= 1;
		for (size_t b = 0; b < n; b++)
			r.chunk[chunk][at + b] ^= noise[b];
		assert_int_equal(codec_verify(r.codec, r.len, r.sg), -EBADMSG);
		memcpy(r.chunk[chunk], r.truth[chunk], r.len);
	}
	rig_fini(&r);
}

/* The same error twice, at distances that are powers of two, as a faulty address line causes. */
static void equal_errors_a_power_of_two_apart_do_not_cancel(void **state)
{
	struct rng rng;
	struct rig r;
	rng_init(&rng, 23);
	rig_open(&r, "rs:2+1", 300000, &rng);
	rig_encode(&r);
	for (size_t distance = 1; distance < r.len / 2; distance *= 2) {
		for (int round = 0; round < 10; round++) {
			int chunk = (int)rng_below(&rng, (uint64_t)r.total);
			size_t at = rng_below(&rng, r.len - distance);
			uint8_t error = (uint8_t)(1 + rng_below(&rng, 255));
			r.chunk[chunk][at] ^= error;
			r.chunk[chunk][at + distance] ^= error;
			assert_int_equal(codec_verify(r.codec, r.len, r.sg), -EBADMSG);
			r.chunk[chunk][at] ^= error;
			r.chunk[chunk][at + distance] ^= error;
		}
	}
	rig_fini(&r);
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
		struct rig r;
		rig_init(&r, &e, &kernel_fast, 500, &rng);
		rig_encode(&r);
		int set[8], n = 1 + (int)rng_below(&rng, (uint64_t)e.rs.p);
		size_t at = rng_below(&rng, r.len);
		random_set(&rng, set, n, r.total);
		for (int i = 0; i < n; i++)
			r.chunk[set[i]][at] ^= (uint8_t)(1 + rng_below(&rng, 255));
		assert_int_equal(codec_verify(r.codec, r.len, r.sg), -EBADMSG);
		rig_fini(&r);
	}
}

/* Swapped chunks, a chunk left from another block, a parity never written. */
static void misplaced_chunks_are_found(void **state)
{
	struct rng rng;
	rng_init(&rng, 25);
	for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
		struct rig r;
		rig_open(&r, encodings[i], 1000, &rng);
		rig_encode(&r);
		struct sg first = r.sg[0];
		bool copies = memcmp(r.chunk[0], r.chunk[1], r.len) == 0;
		r.sg[0] = r.sg[1];
		r.sg[1] = first;
		assert_int_equal(codec_verify(r.codec, r.len, r.sg), copies ? 0 : -EBADMSG);
		rig_flat(&r);
		for (int chunk = 0; chunk < r.total; chunk++) {
			rng_fill(&rng, r.chunk[chunk], r.len);
			assert_int_equal(codec_verify(r.codec, r.len, r.sg), -EBADMSG);
			memcpy(r.chunk[chunk], r.truth[chunk], r.len);
		}
		rig_fini(&r);
	}
}

/* Every column is a codeword of the local code, but the rows are not codewords. */
static void mlec_rows_are_checked_too(void **state)
{
	struct encoding local = {.kind = ENCODING_RS, .rs = {4, 2}};
	struct codec *down;
	struct rng rng;
	struct rig r;
	rng_init(&rng, 27);
	assert_int_equal(codec_open(&local, &down), 0);
	rig_open(&r, "mlec:3+2/4+2", 400, &rng);
	rig_encode(&r);
	for (int chunk = 0; chunk < r.total; chunk++) {
		struct sg *column = &r.sg[chunk - chunk % 6];
		if (chunk % 6 >= 4)
			continue;
		r.chunk[chunk][rng_below(&rng, r.len)] ^= 0x10;
		assert_int_equal(codec_encode(down, r.len, column), 0);
		assert_int_equal(codec_verify(r.codec, r.len, r.sg), -EBADMSG);
		memcpy(r.chunk[chunk], r.truth[chunk], r.len);
		assert_int_equal(codec_encode(down, r.len, column), 0);
		assert_int_equal(codec_verify(r.codec, r.len, r.sg), 0);
	}
	codec_close(down);
	rig_fini(&r);
}

/*
 * An error that is itself a codeword cannot be found; this shows that the check tests the code's
 * equations.
 */
static void a_change_to_another_codeword_passes(void **state)
{
	struct rng rng;
	struct rig r;
	rng_init(&rng, 26);
	rig_open(&r, "rs:3+2", 100, &rng);
	rig_encode(&r);
	assert(r.total == 5);
	r.chunk[1][50] ^= 0x40;
	assert_int_equal(codec_verify(r.codec, r.len, r.sg), -EBADMSG);
	assert_int_equal(codec_encode(r.codec, r.len, r.sg), 0);
	assert_int_equal(codec_verify(r.codec, r.len, r.sg), 0);
	rig_fini(&r);
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
