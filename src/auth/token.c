// SPDX-License-Identifier: Apache-2.0
#include "auth/token.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "auth/secret.h"
#include "base/base.h"
#include "base/bug.h"
#include "base/le.h"

#define VERSION 1
#define SIGNED_BYTES 64
#define TAG_BYTES (TOKEN_BYTES - SIGNED_BYTES)

static const char *const fault_names[TOKEN_FAULT_COUNT] = {
	[TOKEN_OK] = "ok",
	[TOKEN_MALFORMED] = "malformed",
	[TOKEN_UNKNOWN_KEY] = "unknown-key",
	[TOKEN_FORGED] = "forged",
	[TOKEN_EXPIRED] = "expired",
	[TOKEN_TOO_LONG] = "too-long",
	[TOKEN_WRONG_VERIFIER] = "wrong-verifier",
	[TOKEN_WRONG_TENANT] = "wrong-tenant",
	[TOKEN_WRONG_OBJECT] = "wrong-object",
	[TOKEN_WRONG_RIGHT] = "wrong-right",
	[TOKEN_WRONG_CLASS] = "wrong-class",
};

const char *token_fault_name(enum token_fault f)
{
	assert(f < TOKEN_FAULT_COUNT);
	return fault_names[f];
}

/* --- keys ------------------------------------------------------------------------------------- */

static void slots_close(struct token_keys *k)
{
	for (size_t i = 0; i < ARRAY_LEN(k->slot); i++)
		mac_close(k->slot[i].mac);
	memset(k->slot, 0, sizeof(k->slot));
}

int token_keys_update(struct token_keys *k, const struct key_pair *pair)
{
	assert(pair->layer == k->layer && pair->verifier == k->verifier);
	struct token_keys fresh = {0};
	size_t used = 0;
	for (size_t i = 0; i < ARRAY_LEN(pair->generation); i++) {
		if (pair->generation[i].number == 0)
			continue;
		int rc = mac_open(&fresh.slot[used].mac, pair->generation[i].key);
		if (rc < 0) {
			slots_close(&fresh);
			return rc;
		}
		fresh.slot[used++].generation = pair->generation[i].number;
	}
	if (used == 0)
		return -EINVAL;
	slots_close(k);
	memcpy(k->slot, fresh.slot, sizeof(k->slot));
	return 0;
}

int token_keys_init(struct token_keys *k, const struct key_pair *pair, uint64_t skew_ms)
{
	assert(skew_ms <= TOKEN_SKEW_MAX_MS);
	memset(k, 0, sizeof(*k));
	k->layer = pair->layer;
	k->verifier = pair->verifier;
	k->skew_ms = skew_ms;
	return token_keys_update(k, pair);
}

void token_keys_fini(struct token_keys *k)
{
	slots_close(k);
}

static struct mac *key_of(const struct token_keys *k, uint32_t generation)
{
	if (generation == 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(k->slot); i++)
		if (k->slot[i].generation == generation)
			return k->slot[i].mac;
	return NULL;
}

/* --- format ----------------------------------------------------------------------------------- */

static bool token_valid(const struct token *t)
{
	return t->layer >= TOKEN_NAME && t->layer <= TOKEN_CHUNK && t->rights != 0 &&
	       (t->rights & ~(unsigned)TOKEN_RIGHTS) == 0 && t->traffic_class >= TRAFFIC_GOLD &&
	       t->traffic_class <= TRAFFIC_BRONZE && t->tenant != 0 && t->generation != 0 &&
	       t->count != 0 && (t->count == TOKEN_ALL_BYTES || t->first <= UINT64_MAX - t->count);
}

static void token_write(const struct token *t, uint8_t *out)
{
	out[0] = VERSION;
	out[1] = (uint8_t)t->layer;
	out[2] = (uint8_t)t->rights;
	out[3] = (uint8_t)t->traffic_class;
	put_u32(out + 4, t->generation);
	put_u32(out + 8, t->tenant);
	put_u32(out + 12, t->chunk);
	put_u64(out + 16, t->subject);
	put_u64(out + 24, t->verifier);
	put_u64(out + 32, t->object);
	put_u64(out + 40, t->first);
	put_u64(out + 48, t->count);
	put_u64(out + 56, t->expires_ms);
}

static void token_read(const uint8_t *in, struct token *t)
{
	*t = (struct token){
		.layer = (enum token_layer)in[1],
		.rights = in[2],
		.traffic_class = (enum traffic_class)in[3],
		.generation = get_u32(in + 4),
		.tenant = get_u32(in + 8),
		.chunk = get_u32(in + 12),
		.subject = get_u64(in + 16),
		.verifier = get_u64(in + 24),
		.object = get_u64(in + 32),
		.first = get_u64(in + 40),
		.count = get_u64(in + 48),
		.expires_ms = get_u64(in + 56),
	};
}

int token_sign(struct token_keys *k, const struct token *t, uint8_t out[TOKEN_BYTES])
{
	uint8_t tag[MAC_BYTES];
	if (!token_valid(t) || t->layer != k->layer || t->verifier != k->verifier)
		return -EINVAL;
	struct mac *m = key_of(k, t->generation);
	if (m == NULL)
		return -ESTALE;
	token_write(t, out);
	int rc = mac_compute(m, out, SIGNED_BYTES, tag);
	if (rc == 0)
		memcpy(out + SIGNED_BYTES, tag, TAG_BYTES);
	return rc;
}

/* --- check ------------------------------------------------------------------------------------ */

static enum token_fault check_signature(struct token_keys *k, const uint8_t *bytes, size_t len,
					struct token *t)
{
	uint8_t tag[MAC_BYTES];
	if (len != TOKEN_BYTES || bytes[0] != VERSION)
		return TOKEN_MALFORMED;
	struct mac *m = key_of(k, get_u32(bytes + 4));
	if (m == NULL)
		return TOKEN_UNKNOWN_KEY;
	size_t compared = bug_planted(BUG_MAC_PREFIX) ? 4 : TAG_BYTES;
	if (mac_compute(m, bytes, SIGNED_BYTES, tag) < 0 ||
	    !secret_equal(tag, bytes + SIGNED_BYTES, compared))
		return TOKEN_FORGED;
	token_read(bytes, t);
	if (!token_valid(t))
		return TOKEN_MALFORMED;
	if (t->layer != k->layer || t->verifier != k->verifier)
		return TOKEN_WRONG_VERIFIER;
	return TOKEN_OK;
}

static enum token_fault check_time(const struct token_keys *k, const struct token *t,
				   uint64_t now_ms)
{
	if (t->expires_ms < now_ms && now_ms - t->expires_ms > k->skew_ms &&
	    !bug_planted(BUG_EXPIRY_IGNORED))
		return TOKEN_EXPIRED;
	if (t->expires_ms > now_ms && t->expires_ms - now_ms > TOKEN_LIFE_MAX_MS + k->skew_ms)
		return TOKEN_TOO_LONG;
	return TOKEN_OK;
}

/* Returns whether the range [first, first + count) of a request lies in that of a token. */
static bool range_within(uint64_t first, uint64_t count, const struct token *t)
{
	if (bug_planted(BUG_RANGE_UNBOUND))
		return true;
	if (first < t->first)
		return false;
	if (t->count == TOKEN_ALL_BYTES)
		return true;
	uint64_t skipped = first - t->first;
	return skipped <= t->count && count <= t->count - skipped;
}

static enum token_fault check_need(const struct token *t, const struct token_need *n)
{
	if (t->tenant != n->tenant && !bug_planted(BUG_TENANT_UNBOUND))
		return TOKEN_WRONG_TENANT;
	if (t->object != n->object || (t->chunk != TOKEN_ALL_CHUNKS && t->chunk != n->chunk) ||
	    !range_within(n->first, n->count, t))
		return TOKEN_WRONG_OBJECT;
	if ((n->rights & ~t->rights) != 0)
		return TOKEN_WRONG_RIGHT;
	/* a smaller number is a better class; a request without a class is served as silver */
	enum traffic_class wanted =
		n->traffic_class == TRAFFIC_NONE ? TRAFFIC_SILVER : n->traffic_class;
	return wanted < t->traffic_class ? TOKEN_WRONG_CLASS : TOKEN_OK;
}

static int verdict(struct token_keys *k, enum token_fault f)
{
	k->refused[f] += f != TOKEN_OK;
	k->accepted += f == TOKEN_OK;
	if (f == TOKEN_OK)
		return 0;
	return f == TOKEN_EXPIRED || f == TOKEN_UNKNOWN_KEY ? -ESTALE : -EACCES;
}

static enum token_fault check_all(struct token_keys *k, const uint8_t *bytes, size_t len,
				  const struct token_need *need, uint64_t now_ms, struct token *t)
{
	assert(need->rights != 0 && (need->rights & ~(unsigned)TOKEN_RIGHTS) == 0);
	enum token_fault f = check_signature(k, bytes, len, t);
	if (f == TOKEN_OK)
		f = check_time(k, t, now_ms);
	return f == TOKEN_OK ? check_need(t, need) : f;
}

int token_check(struct token_keys *k, const uint8_t *bytes, size_t len,
		const struct token_need *need, uint64_t now_ms, struct token *t)
{
	struct token read;
	enum token_fault f = check_all(k, bytes, len, need, now_ms, &read);
	if (f == TOKEN_OK && t != NULL)
		*t = read;
	return verdict(k, f);
}

int token_explain(struct token_keys *k, const uint8_t *bytes, size_t len,
		  const struct token_need *need, uint64_t now_ms, enum token_fault *fault)
{
	struct token read;
	*fault = check_all(k, bytes, len, need, now_ms, &read);
	return verdict(k, *fault);
}

int token_open(struct token_keys *k, const uint8_t *bytes, size_t len, uint64_t now_ms,
	       struct token *t)
{
	struct token read;
	enum token_fault f = check_signature(k, bytes, len, &read);
	if (f == TOKEN_OK)
		f = check_time(k, &read, now_ms);
	if (f == TOKEN_OK)
		*t = read;
	return verdict(k, f);
}

int token_covers(struct token_keys *k, const struct token *t, const struct token_need *need)
{
	assert(need->rights != 0 && (need->rights & ~(unsigned)TOKEN_RIGHTS) == 0);
	enum token_fault f = check_need(t, need);
	return f == TOKEN_OK ? 0 : verdict(k, f);
}

int token_narrow(const struct token *parent, struct token *child)
{
	assert(child->layer == parent->layer || child->layer == parent->layer + 1);
	child->tenant = parent->tenant;
	child->subject = parent->subject;
	child->expires_ms = min_u64(child->expires_ms, parent->expires_ms);
	if ((child->rights & ~parent->rights) != 0 && !bug_planted(BUG_RENEW_WIDER))
		return -EACCES;
	if (child->traffic_class < parent->traffic_class)
		return -EACCES;
	if (child->layer != parent->layer)
		return 0;
	bool chunk = parent->chunk == TOKEN_ALL_CHUNKS || parent->chunk == child->chunk;
	bool range = range_within(child->first, child->count, parent);
	return child->object == parent->object && chunk && range ? 0 : -EACCES;
}
