// SPDX-License-Identifier: Apache-2.0
/* Content addresses: requests from outside, and the table of claims. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/base.h"
#include "base/rng.h"
#include "cachenode/claims.h"

static const uint8_t key[MAC_KEY_BYTES] = "a key of a test, of 32 bytes...";

static struct content_claim claim_of(uint64_t i)
{
	struct content_claim c = {.tenant = 1, .block = 7 + i, .off = 4096, .len = 1000};
	for (size_t k = 0; k < sizeof(c.digest); k += 8)
		put_u64(c.digest + k, mix_u64(i * 4 + k));
	return c;
}

static void a_verdict_is_of_its_claim_alone(void **state)
{
	struct claims t;
	struct content_claim c = claim_of(1);
	(void)state;
	assert_int_equal(claims_init(&t, 1000, key), 0);
	assert_int_equal(claims_find(&t, &c), CLAIM_UNKNOWN);
	claims_note(&t, &c, true);
	assert_int_equal(claims_find(&t, &c), CLAIM_TRUE);
	/* Each other field makes another claim: of another tenant, block, range, digest. */
	for (int i = 0; i < 4 + (int)CONTENT_DIGEST_BYTES; i++) {
		struct content_claim other = c;
		other.tenant += i == 0;
		other.block += i == 1;
		other.off += i == 2;
		other.len += i == 3;
		if (i >= 4)
			other.digest[i - 4] ^= 1;
		assert_int_equal(claims_find(&t, &other), CLAIM_UNKNOWN);
	}
	claims_fini(&t);
}

static void the_last_verdict_counts(void **state)
{
	struct claims t;
	struct content_claim c = claim_of(1);
	(void)state;
	assert_int_equal(claims_init(&t, 4, key), 0);
	for (int i = 0; i < 8; i++) {
		claims_note(&t, &c, i % 2 == 0);
		assert_int_equal(claims_find(&t, &c), i % 2 == 0 ? CLAIM_TRUE : CLAIM_FALSE);
	}
	assert_int_equal(t.forgotten, 0);
	claims_fini(&t);
}

static void a_full_table_forgets_but_never_invents(void **state)
{
	struct claims t;
	uint64_t known = 0;
	const uint64_t n = 20000;
	(void)state;
	assert_int_equal(claims_init(&t, 4096, key), 0);
	for (uint64_t i = 0; i < n; i++) {
		struct content_claim c = claim_of(i);
		claims_note(&t, &c, i % 3 == 0);
		assert_int_equal(claims_find(&t, &c), i % 3 == 0 ? CLAIM_TRUE : CLAIM_FALSE);
	}
	for (uint64_t i = 0; i < n; i++) {
		struct content_claim c = claim_of(i);
		enum verdict v = claims_find(&t, &c);
		known += v != CLAIM_UNKNOWN;
		assert_true(v == CLAIM_UNKNOWN || v == (i % 3 == 0 ? CLAIM_TRUE : CLAIM_FALSE));
	}
	/* All ways of all sets are used. */
	assert_true(known > 4000 && known <= 4100);
	assert_int_equal(t.noted, n);
	assert_int_equal(t.noted - t.forgotten, known);
	claims_fini(&t);
}

static void claims_that_are_used_stay(void **state)
{
	struct claims t;
	struct content_claim used = claim_of(0);
	(void)state;
	assert_int_equal(claims_init(&t, 64, key), 0);
	claims_note(&t, &used, true);
	for (uint64_t i = 1; i < 5000; i++) {
		struct content_claim c = claim_of(i);
		claims_note(&t, &c, true);
		assert_int_equal(claims_find(&t, &used), CLAIM_TRUE);
	}
	claims_fini(&t);
}

static void requests_that_cannot_be_are_refused(void **state)
{
	uint8_t digest[64] = {1};
	struct content_claim c;
	int rc;
	static const struct {
		size_t digest;
		uint64_t off, len;
		uint32_t tenant;
		bool claims;
		int rc;
	} rows[] = {
		{0, 0, 1, 1, false, 0},
		{32, 0, 1, 1, true, 0},
		{32, UINT64_MAX - 1, 1, 1, true, 0},
		{32, 5, CONTENT_BYTES_MAX, UINT32_MAX, true, 0},
		{32, 5, CONTENT_BYTES_MAX + 1, 1, true, -EINVAL},
		{32, UINT64_MAX, 1, 1, true, -EINVAL},
		{32, 0, 0, 1, true, -EINVAL},
		{32, 0, UINT64_MAX, 1, true, -EINVAL},
		{32, 0, 1, 0, true, -EINVAL},
		{31, 0, 1, 1, true, -EINVAL},
		{33, 0, 1, 1, true, -EINVAL},
		{64, 0, 1, 1, true, -EINVAL},
		{1, 0, 1, 1, true, -EINVAL},
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		Terrane__Shift__GetRequest q = TERRANE__SHIFT__GET_REQUEST__INIT;
		q.digest = (ProtobufCBinaryData){.data = digest, .len = rows[i].digest};
		q.offset = rows[i].off;
		q.length = rows[i].len;
		q.tenant = rows[i].tenant;
		q.block = 9;
		assert_int_equal(content_claim_of(&q, &c, &rc), rows[i].claims);
		assert_int_equal(rc, rows[i].rc);
		if (rows[i].claims && rc == 0) {
			assert_memory_equal(c.digest, digest, 32);
			assert_true(c.block == 9 && c.off == q.offset && c.len == q.length);
			assert_int_equal(c.tenant, q.tenant);
		}
	}
}

static void the_place_of_a_digest_never_changes(void **state)
{
	static const uint8_t digest[CONTENT_DIGEST_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
	(void)state;
	assert_int_equal(content_place(digest), 0x0807060504030201ULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_verdict_is_of_its_claim_alone),
		cmocka_unit_test(the_last_verdict_counts),
		cmocka_unit_test(a_full_table_forgets_but_never_invents),
		cmocka_unit_test(claims_that_are_used_stay),
		cmocka_unit_test(requests_that_cannot_be_are_refused),
		cmocka_unit_test(the_place_of_a_digest_never_changes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
