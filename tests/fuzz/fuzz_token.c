// SPDX-License-Identifier: Apache-2.0
/*
 * Tokens and batches of renewals from arbitrary bytes. No input may be accepted as a token, because none has the key;
 * signed with the right key, what the fields say is either refused or read back as it was.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "auth/issuer.h"
#include "auth/token.h"
#include "base/base.h"
#include "base/le.h"
#include "fuzz.h"

#define NOW 1700000000000ULL

static bool never(void *ctx, const struct token *t)
{
	return false;
}

static struct key_ring ring_make(uint8_t first)
{
	struct key_ring ring;
	uint8_t root[MAC_KEY_BYTES] = {first, 1, 2};
	int rc = key_ring_init(&ring, 1, root);
	assert(rc == 0);
	(void)rc;
	return ring;
}

static void check_forged(struct token_keys *k, const uint8_t *data, size_t size)
{
	struct token t;
	const struct token_need need = {.rights = TOKEN_READ, .tenant = 1, .object = 1, .count = 1};
	int rc = token_check(k, data, size, &need, NOW, &t);
	assert(rc == -EACCES || rc == -ESTALE);
	rc = token_open(k, data, size, NOW, &t);
	assert(rc == -EACCES || rc == -ESTALE);
	(void)rc;
}

/* Fields from the input, signed with the right key. */
static void check_signed(struct token_keys *k, const uint8_t *data)
{
	uint8_t bytes[TOKEN_BYTES];
	struct token got, t = {
				  .layer = TOKEN_CHUNK,
				  .rights = data[2],
				  .traffic_class = (enum traffic_class)data[3],
				  .generation = 1,
				  .tenant = get_u32(data + 8),
				  .chunk = get_u32(data + 12),
				  .subject = get_u64(data + 16),
				  .verifier = k->verifier,
				  .object = get_u64(data + 32),
				  .first = get_u64(data + 40),
				  .count = get_u64(data + 48),
				  .expires_ms = NOW + data[56],
			  };
	if (token_sign(k, &t, bytes) < 0)
		return;
	int rc = token_open(k, bytes, TOKEN_BYTES, NOW, &got);
	assert(rc == 0 && memcmp(&got, &t, sizeof(t)) == 0);
	const struct token_need need = {.rights = t.rights,
					.traffic_class = t.traffic_class,
					.tenant = t.tenant,
					.chunk = t.chunk,
					.object = t.object,
					.first = t.first,
					.count = t.count == TOKEN_ALL_BYTES ? 1 : t.count};
	rc = token_check(k, bytes, TOKEN_BYTES, &need, NOW, NULL);
	assert(rc == 0);
	(void)rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct key_ring ring = ring_make(1);
	struct key_pair pair;
	struct token_keys keys;
	struct issuer *issuer;
	static uint8_t answer[64 * RENEW_ENTRY_BYTES];
	struct renewal r = {.allowed = never};
	int rc = key_ring_pair(&ring, TOKEN_CHUNK, 7, &pair);
	assert(rc == 0);
	rc = token_keys_init(&keys, &pair, 1000);
	assert(rc == 0);
	rc = issuer_open(&issuer, &ring,
			 &(struct issuer_options){.skew_ms = 1000, .life_ms = 1000});
	assert(rc == 0);
	(void)rc;
	check_forged(&keys, data, size);
	if (size >= TOKEN_BYTES)
		check_signed(&keys, data);
	if (size <= (size_t)64 * TOKEN_BYTES) {
		int64_t n = issuer_renew(issuer, data, size, NOW, &r, answer);
		assert(n < 0 || (r.renewed == 0 && r.refused + r.expired == (uint64_t)n));
		for (size_t i = 0; i < size / RENEW_ENTRY_BYTES; i++) {
			enum renew_result result;
			const uint8_t *token;
			(void)renew_entry(data, size, i, &result, &token);
		}
	}
	issuer_close(issuer);
	token_keys_fini(&keys);
	return 0;
}
