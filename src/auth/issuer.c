// SPDX-License-Identifier: Apache-2.0
#include "auth/issuer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "auth/secret.h"
#include "base/base.h"
#include "base/hash.h"
#include "base/le.h"

/* Prepared keys of one verifier. The table is direct-mapped: a verifier replaces the one in its slot. */
struct slot {
	bool used;
	struct token_keys keys;
};

struct issuer {
	const struct key_ring *ring;
	struct issuer_options opts;
	uint64_t ring_version; /* version of the ring that the prepared keys are of */
	struct slot slots[ISSUER_CACHE_SLOTS];
};

int issuer_open(struct issuer **out, const struct key_ring *ring, const struct issuer_options *o)
{
	assert(o->skew_ms <= TOKEN_SKEW_MAX_MS);
	assert(o->life_ms > 0 && o->life_ms <= TOKEN_LIFE_MAX_MS);
	struct issuer *i = calloc(1, sizeof(*i));
	*out = i;
	if (i == NULL)
		return -ENOMEM;
	i->ring = ring;
	i->opts = *o;
	i->ring_version = ring->version;
	return 0;
}

static void slots_drop(struct issuer *i)
{
	for (size_t n = 0; n < ISSUER_CACHE_SLOTS; n++) {
		if (i->slots[n].used)
			token_keys_fini(&i->slots[n].keys);
		i->slots[n].used = false;
	}
}

void issuer_close(struct issuer *i)
{
	if (i == NULL)
		return;
	slots_drop(i);
	free(i);
}

static int keys_for(struct issuer *i, enum token_layer layer, uint64_t verifier,
		    struct token_keys **out)
{
	if (i->ring_version != i->ring->version) {
		slots_drop(i);
		i->ring_version = i->ring->version;
	}
	struct slot *s = &i->slots[hash64_u64s((uint64_t)layer, verifier) % ISSUER_CACHE_SLOTS];
	if (s->used && s->keys.layer == layer && s->keys.verifier == verifier) {
		*out = &s->keys;
		return 0;
	}
	struct key_pair pair;
	struct token_keys fresh;
	int rc = key_ring_pair(i->ring, layer, verifier, &pair);
	if (rc < 0)
		return rc;
	rc = token_keys_init(&fresh, &pair, i->opts.skew_ms);
	key_pair_wipe(&pair);
	if (rc < 0)
		return rc;
	if (s->used)
		token_keys_fini(&s->keys);
	s->used = true;
	s->keys = fresh;
	*out = &s->keys;
	return 0;
}

int issuer_sign(struct issuer *i, struct token *t, uint64_t now_ms, uint8_t out[TOKEN_BYTES])
{
	struct token_keys *k;
	if (t->layer < TOKEN_NAME || t->layer > TOKEN_CHUNK)
		return -EINVAL;
	int rc = keys_for(i, t->layer, t->verifier, &k);
	if (rc < 0)
		return rc;
	uint64_t latest = now_ms + i->opts.life_ms;
	if (t->expires_ms == 0 || t->expires_ms > latest)
		t->expires_ms = latest;
	t->generation = i->ring->issuing.number;
	return token_sign(k, t, out);
}

int issuer_open_token(struct issuer *i, const uint8_t *bytes, size_t len, uint64_t now_ms,
		      struct token *t)
{
	struct token_keys *k;
	/* The unchecked layer and verifier only choose the key, which then has to match. */
	if (len != TOKEN_BYTES || bytes[1] < TOKEN_NAME || bytes[1] > TOKEN_CHUNK)
		return -EACCES;
	int rc = keys_for(i, (enum token_layer)bytes[1], get_u64(bytes + 24), &k);
	return rc < 0 ? rc : token_open(k, bytes, len, now_ms, t);
}

static int renew_one(struct issuer *i, const uint8_t *bytes, uint64_t now_ms, struct renewal *r,
		     uint8_t *entry)
{
	struct token t;
	memset(entry, 0, RENEW_ENTRY_BYTES);
	int rc = issuer_open_token(i, bytes, TOKEN_BYTES, now_ms, &t);
	if (rc == -ESTALE) {
		entry[0] = RENEW_EXPIRED;
		r->expired++;
		return 0;
	}
	if (rc == -EACCES || (rc == 0 && !r->allowed(r->ctx, &t))) {
		entry[0] = RENEW_REFUSED;
		r->refused++;
		return 0;
	}
	if (rc < 0)
		return rc;
	t.expires_ms = 0;
	rc = issuer_sign(i, &t, now_ms, entry + 4);
	if (rc == 0)
		r->renewed++;
	return rc;
}

int64_t issuer_renew(struct issuer *i, const uint8_t *batch, size_t len, uint64_t now_ms,
		     struct renewal *r, uint8_t *out)
{
	size_t count = len / TOKEN_BYTES;
	if (len % TOKEN_BYTES != 0 || count == 0 || count > RENEW_BATCH_MAX)
		return -EINVAL;
	for (size_t n = 0; n < count; n++) {
		int rc = renew_one(i, batch + n * TOKEN_BYTES, now_ms, r,
				   out + n * RENEW_ENTRY_BYTES);
		if (rc < 0)
			return rc;
	}
	return (int64_t)count;
}

int renew_entry(const uint8_t *answer, size_t len, size_t n, enum renew_result *result,
		const uint8_t **token)
{
	if (len % RENEW_ENTRY_BYTES != 0 || n >= len / RENEW_ENTRY_BYTES)
		return -EBADMSG;
	const uint8_t *entry = answer + n * RENEW_ENTRY_BYTES;
	if (entry[0] > RENEW_REFUSED || entry[1] != 0 || entry[2] != 0 || entry[3] != 0)
		return -EBADMSG;
	*result = (enum renew_result)entry[0];
	*token = entry + 4;
	return 0;
}
