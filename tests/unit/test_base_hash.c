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
#include "base/hash.h"

/* Stored data is found by these values: if this test fails, this version of the library must not
 * be used. */
static void golden_values_never_change(void **state)
{
	char pattern[1000];
	for (int i = 0; i < 1000; i++)
		pattern[i] = (char)(i * 7);
	assert_true(hash64("", 0, 0) == 0x2d06800538d394c2);
	assert_true(hash64("terrane", 7, 0) == 0x0e28c02ff37e9cf2);
	assert_true(hash64("terrane", 7, 1) == 0xe92c12f6983d7c3b);
	assert_true(hash64(pattern, sizeof(pattern), 0) == 0x10ad30264426c830);
	assert_true(hash64_u64s(1, 2) == 0x07ee86c281446bef);
}

static void a_pair_hashes_as_its_little_endian_bytes(void **state)
{
	const uint8_t bytes[16] = {0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, 2};
	assert_true(hash64_u64s(0x0123456789abcdef, 2) == hash64(bytes, sizeof(bytes), 0));
	assert_true(hash64_u64s(1, 2) != hash64_u64s(2, 1));
}

/* Consecutive ids, the common case, over 64 partitions: each count within 6 standard deviations. */
static void consecutive_ids_spread_evenly(void **state)
{
	int counts[64] = {0};
	for (uint64_t id = 0; id < 64000; id++)
		counts[hash64_u64s(3, id) % ARRAY_LEN(counts)]++;
	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		assert_in_range(counts[i], 1000 - 190, 1000 + 190);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_values_never_change),
		cmocka_unit_test(a_pair_hashes_as_its_little_endian_bytes),
		cmocka_unit_test(consecutive_ids_spread_evenly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
