// SPDX-License-Identifier: Apache-2.0
/*
 * Requests of a cache node with arbitrary bytes, as far as gets by content look at them. A claim that is accepted must be
 * in bounds, and a table of claims must tell it from others.
 */
#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "cachenode/claims.h"
#include "fuzz.h"
#include "rpc/body.h"

static void check_claim(const struct content_claim *c)
{
	static const uint8_t key[MAC_KEY_BYTES] = {1};
	struct content_claim other = *c;
	struct claims t;
	assert(c->tenant != 0 && c->len > 0 && c->len <= CONTENT_BYTES_MAX);
	assert(c->off + c->len > c->off);
	assert(claims_init(&t, 8, key) == 0);
	other.digest[c->len % CONTENT_DIGEST_BYTES] ^= 1;
	claims_note(&t, c, true);
	claims_note(&t, &other, false);
	assert(claims_find(&t, c) == CLAIM_TRUE);
	assert(claims_find(&t, &other) == CLAIM_FALSE);
	claims_fini(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a;
	ProtobufCMessage *m = NULL;
	struct content_claim c;
	int bad;
	arena_init(&a, body_limit(size));
	if (body_unpack(&terrane__shift__get_request__descriptor, &a, data, size, &m) == 0 &&
	    content_claim_of((const Terrane__Shift__GetRequest *)m, &c, &bad) && bad == 0)
		check_claim(&c);
	arena_fini(&a);
	return 0;
}
