// SPDX-License-Identifier: Apache-2.0
#include "auth/keys.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "auth/secret.h"
#include "base/bug.h"
#include "base/le.h"

static bool key_usable(const uint8_t key[MAC_KEY_BYTES])
{
	uint8_t differs = 0;
	for (size_t i = 1; i < MAC_KEY_BYTES; i++)
		differs |= key[i] ^ key[0];
	return differs != 0;
}

int key_ring_init(struct key_ring *r, uint32_t number, const uint8_t root[MAC_KEY_BYTES])
{
	memset(r, 0, sizeof(*r));
	if (number == 0 || !key_usable(root))
		return -EINVAL;
	r->issuing.number = number;
	memcpy(r->issuing.key, root, MAC_KEY_BYTES);
	r->version = 1;
	return 0;
}

void key_ring_fini(struct key_ring *r)
{
	secret_wipe(r, sizeof(*r));
}

bool key_ring_staged(const struct key_ring *r)
{
	return r->other.number > r->issuing.number;
}

int key_ring_stage(struct key_ring *r, const uint8_t root[MAC_KEY_BYTES])
{
	assert(r->issuing.number != 0);
	if (r->other.number != 0)
		return -EBUSY;
	if (r->issuing.number == UINT32_MAX)
		return -EOVERFLOW;
	if (!key_usable(root) || secret_equal(root, r->issuing.key, MAC_KEY_BYTES))
		return -EINVAL;
	r->other.number = r->issuing.number + 1;
	memcpy(r->other.key, root, MAC_KEY_BYTES);
	r->version++;
	assert(key_ring_staged(r));
	return 0;
}

int key_ring_promote(struct key_ring *r, uint64_t now_ms)
{
	if (!key_ring_staged(r))
		return -ENOENT;
	struct key_generation old = r->issuing;
	r->issuing = r->other;
	r->other = old;
	secret_wipe(&old, sizeof(old));
	r->promoted_ms = now_ms;
	r->version++;
	assert(r->issuing.number > r->other.number);
	return 0;
}

int key_ring_retire(struct key_ring *r, uint64_t now_ms, uint64_t skew_ms, bool force)
{
	if (r->other.number == 0 || key_ring_staged(r))
		return -ENOENT;
	/* Issuers take the new generation within the skew of each other's clocks, and a verifier
	 * may be behind by the skew. */
	if (!force && now_ms < r->promoted_ms + TOKEN_LIFE_MAX_MS + 2 * skew_ms)
		return -EBUSY;
	secret_wipe(&r->other, sizeof(r->other));
	r->version++;
	assert(r->other.number == 0);
	return 0;
}

int key_ring_derive(const struct key_ring *r, uint32_t number, enum token_layer layer,
		    uint64_t verifier, uint8_t out[MAC_KEY_BYTES])
{
	assert(layer >= TOKEN_NAME && layer <= TOKEN_CHUNK);
	const struct key_generation *g;
	if (number == 0)
		return -ESTALE;
	if (number == r->issuing.number)
		g = &r->issuing;
	else if (number == r->other.number)
		g = &r->other;
	else
		return -ESTALE;
	uint8_t context[16] = {0};
	put_u32(context, (uint32_t)layer);
	put_u32(context + 4, number);
	put_u64(context + 8, bug_planted(BUG_KEY_SHARED) ? 0 : verifier);
	return mac_derive(g->key, "terrane token key", context, sizeof(context), out);
}

int key_ring_pair(const struct key_ring *r, enum token_layer layer, uint64_t verifier,
		  struct key_pair *out)
{
	const uint32_t numbers[2] = {r->issuing.number, r->other.number};
	memset(out, 0, sizeof(*out));
	out->layer = layer;
	out->verifier = verifier;
	for (size_t i = 0; i < 2; i++) {
		if (numbers[i] == 0)
			continue;
		int rc = key_ring_derive(r, numbers[i], layer, verifier, out->generation[i].key);
		if (rc < 0) {
			key_pair_wipe(out);
			return rc;
		}
		out->generation[i].number = numbers[i];
	}
	assert(out->generation[0].number != 0);
	return 0;
}

void key_pair_wipe(struct key_pair *p)
{
	secret_wipe(p, sizeof(*p));
}
