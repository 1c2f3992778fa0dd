// SPDX-License-Identifier: Apache-2.0
/*
 * Tokens for new chunks, one for each disk that this client writes to, and the keys of nodes.
 *
 * The tokens for existing chunks come with the records of their blocks, and live longer than a record stays in the cache:
 * so they are never renewed by themselves. The tokens for new chunks are kept here. When one of them has half of its life
 * behind it, all are renewed with requests for many disks each.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/secret.h"
#include "meta_api/identity.h"
#include "meta_client/identity.h"
#include "meta_client/impl.h"
#include "rt/rt.h"

#define DISKS_MAX (1 << 20)
/* Age at which tokens are renewed; the servers give them TOKEN_LIFE_MS of meta/token_ring.h. */
#define RENEW_NS (300 * NS_PER_S)

struct disk_token {
	uint64_t disk;
	uint64_t got_ns;
	uint8_t bytes[META_TOKEN_BYTES];
};

void mc_tokens_init(struct meta_client *c)
{
	map_init(&c->disk_tokens, DISKS_MAX);
}

void mc_tokens_fini(struct meta_client *c)
{
	map_for_each(&c->disk_tokens, it)
		free(it.value);
	map_fini(&c->disk_tokens);
}

void meta_client_disk_tokens_drop(struct meta_client *c)
{
	mc_tokens_fini(c);
	mc_tokens_init(c);
}

static int token_keep(struct meta_client *c, uint64_t disk, const uint8_t *bytes)
{
	struct disk_token *t = map_get(&c->disk_tokens, disk);
	if (t == NULL) {
		t = calloc(1, sizeof(*t));
		int rc = t != NULL ? map_put(&c->disk_tokens, disk, t) : -ENOMEM;
		if (rc < 0) {
			free(t);
			return rc;
		}
	}
	t->disk = disk;
	t->got_ns = rt_now_ns();
	memcpy(t->bytes, bytes, META_TOKEN_BYTES);
	return 0;
}

/* Asks for the tokens of disks. *needed false: this identity needs none. */
static int tokens_ask(struct meta_call *c, const uint64_t *disks, size_t n, bool *needed)
{
	Terrane__Meta__TokenDisksRequest q = TERRANE__META__TOKEN_DISKS_REQUEST__INIT;
	AUTO_REPLY struct rpc_reply reply;
	assert(n > 0 && n <= META_TOKEN_DISKS_MAX);
	q.n_disks = n;
	q.disks = (uint64_t *)(uintptr_t)disks;
	int rc = mc_call(c, &meta_type_token_disks, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__TokenDisksResponse *p = reply.message;
	c->client->stats.token_requests++;
	*needed = p->n_tokens != 0;
	if (p->n_tokens != 0 && p->n_tokens != n)
		return mc_response_error(c, -EINVAL);
	for (size_t i = 0; i < p->n_tokens; i++) {
		rc = p->tokens[i].len == META_TOKEN_BYTES
			     ? token_keep(c->client, disks[i], p->tokens[i].data)
			     : -EINVAL;
		if (rc < 0)
			return mc_response_error(c, rc);
		c->client->stats.tokens_received++;
	}
	return 0;
}

/* Renews the tokens of all known disks. */
static int tokens_renew(struct meta_call *c)
{
	struct map *all = &c->client->disk_tokens;
	AUTO_FREE uint64_t *disks = malloc((map_count(all) + 1) * sizeof(*disks));
	size_t n = 0;
	bool needed = true;
	int rc = 0;
	if (disks == NULL)
		return mc_fail(c, -ENOMEM);
	map_for_each(all, it)
		disks[n++] = ((const struct disk_token *)it.value)->disk;
	for (size_t at = 0; rc == 0 && needed && at < n; at += META_TOKEN_DISKS_MAX)
		rc = tokens_ask(c, disks + at, (size_t)min_u64(n - at, META_TOKEN_DISKS_MAX),
				&needed);
	return rc;
}

int meta_client_disk_tokens(struct meta_call *c, const uint64_t *disks, size_t n,
			    uint8_t (*out)[META_TOKEN_BYTES], bool *needed)
{
	uint64_t missing[META_TOKEN_DISKS_MAX];
	size_t count = 0;
	bool old = false;
	*needed = true;
	if (n > META_TOKEN_DISKS_MAX)
		return mc_fail(c, -EINVAL);
	for (size_t i = 0; i < n; i++) {
		const struct disk_token *t = map_get(&c->client->disk_tokens, disks[i]);
		if (t == NULL)
			missing[count++] = disks[i];
		else
			old = old || rt_elapsed_ns(t->got_ns) > RENEW_NS;
	}
	int rc = count > 0 ? tokens_ask(c, missing, count, needed) : 0;
	if (rc == 0 && old)
		rc = tokens_renew(c);
	for (size_t i = 0; rc == 0 && *needed && i < n; i++) {
		const struct disk_token *t = map_get(&c->client->disk_tokens, disks[i]);
		if (t == NULL)
			return mc_fail(c, -EAGAIN);
		memcpy(out[i], t->bytes, META_TOKEN_BYTES);
	}
	return rc;
}

/* --- keys of nodes --------------------------------------------------------------------------------- */

/* Adds a key to the pair of its disk. Keys of other disks are ignored. */
static int key_take(const Terrane__Meta__TokenKey *m, const uint8_t secret[MAC_KEY_BYTES],
		    struct key_pair *pairs, size_t n)
{
	char purpose[TOKEN_WRAP_MAX];
	if (m->key.len != SECURE_WRAP_BYTES || m->generation == 0)
		return -EINVAL;
	snprintf(purpose, sizeof(purpose), TOKEN_WRAP_KEY "%" PRIu64 " %" PRIu32, m->disk,
		 m->generation);
	for (size_t i = 0; i < n; i++) {
		if (pairs[i].verifier != m->disk)
			continue;
		struct key_generation *g = &pairs[i].generation[pairs[i].generation[0].number != 0];
		if (g->number != 0)
			return -EINVAL;
		int rc = secure_unwrap(secret, purpose, m->key.data, g->key);
		if (rc < 0)
			return rc;
		g->number = m->generation;
	}
	return 0;
}

int meta_client_token_keys(struct meta_call *c, const uint8_t secret[MAC_KEY_BYTES],
			   struct key_pair *pairs, size_t n)
{
	uint64_t disks[META_TOKEN_DISKS_MAX];
	if (n == 0 || n > META_TOKEN_DISKS_MAX)
		return mc_fail(c, -EINVAL);
	for (size_t i = 0; i < n; i++)
		disks[i] = pairs[i].verifier;
	Terrane__Meta__TokenKeysRequest q = TERRANE__META__TOKEN_KEYS_REQUEST__INIT;
	AUTO_REPLY struct rpc_reply reply;
	q.n_disks = n;
	q.disks = disks;
	int rc = mc_call(c, &meta_type_token_keys, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__TokenKeysResponse *p = reply.message;
	for (size_t i = 0; rc == 0 && i < p->n_keys; i++)
		rc = key_take(p->keys[i], secret, pairs, n);
	return rc < 0 ? mc_response_error(c, rc) : 0;
}

int meta_client_token_rotate(struct meta_call *c, uint32_t what, struct meta_token_keys *out)
{
	Terrane__Meta__TokenRotateRequest q = TERRANE__META__TOKEN_ROTATE_REQUEST__INIT;
	AUTO_REPLY struct rpc_reply reply;
	q.what = what;
	int rc = mc_call(c, &meta_type_token_rotate, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__TokenRotateResponse *p = reply.message;
	*out = (struct meta_token_keys){
		.issuing = p->issuing, .other = p->other, .changed_ms = p->changed_ms};
	return p->issuing == 0 ? mc_response_error(c, -EINVAL) : 0;
}
