// SPDX-License-Identifier: Apache-2.0
/* What the attacker tries: cluster_secure.h. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/credentials.h"
#include "auth/token.h"
#include "base/err.h"
#include "base/le.h"
#include "cluster_secure.h"
#include "meta/token_ring.h"
#include "meta_api/id.h"
#include "meta_api/identity.h"
#include "meta_client/identity.h"
#include "node/label.h"
#include "node/node_client.h"
#include "rt/rt.h"

#define KNOWN_MAX 64
#define PAUSE_NS (300 * NS_PER_MS)
#define ASK_NS (2 * NS_PER_S)
#define OWN_BYTES 3000

/* A chunk of another tenant. */
struct known {
	uint64_t block;
	struct chunk_id id;
	uint64_t disk;
	struct meta_block record; /* without chunks */
};

struct attack {
	struct world *world;
	struct rng rng;
	struct rt_pool pool;
	struct meta_client *spy;  /* knows what a leak could tell */
	struct meta_client *meta; /* of the attacker, in its tenant */
	struct meta_client
		*foreign;      /* of the attacker, that calls itself one of the other tenant */
	struct engine *engine; /* of the attacker */
	struct rpc_channel *nodes[NODES_MAX];
	struct known known[KNOWN_MAX];
	size_t count;
	uint8_t own_token[META_TOKEN_BYTES]; /* of a chunk of its own; zeros: it has none */
	struct known own;                    /* that chunk; its id is 0 without one */
	unsigned written;
	uint64_t tries;
};

static void violation(struct attack *a, const char *what, const struct known *k)
{
	model_violation(&a->world->model, "I12",
			"a client of tenant " ATTACKER_TENANT
			" can %s: block %016lx, chunk %u on disk %lu of another tenant",
			what, k->block, k->id.index, k->disk);
}

/* --- what it knows ---------------------------------------------------------------------------------- */

static void learn(struct attack *a)
{
	struct arena arena;
	struct meta_block_at at[32];
	struct meta_call c = {.client = a->spy, .timeout_ns = ASK_NS};
	int64_t n = 0;
	a->count = 0;
	arena_init(&arena, 16 * MIB);
	for (struct meta_walk w = {.end = 1 << PARTITION_BITS}; n >= 0 && w.index < w.end;) {
		n = meta_client_blocks(&c, &w, &arena, at, ARRAY_LEN(at));
		for (int64_t i = 0; i < n; i++) {
			const struct meta_block *b = &at[i].block;
			if (at[i].tenant == ATTACKER_TENANT_ID || b->chunk_count == 0)
				continue;
			uint32_t index = (uint32_t)rng_below(&a->rng, b->chunk_count);
			size_t to = a->count < KNOWN_MAX ? a->count++
							 : (size_t)rng_below(&a->rng, KNOWN_MAX);
			a->known[to] = (struct known){.block = b->id,
						      .id = {b->chunk_block, index},
						      .disk = b->chunks[index].disk,
						      .record = *b};
		}
	}
	arena_fini(&arena);
}

/* Returns a call to the node of a disk; channel NULL: it cannot be opened now. */
static struct node_call node_of(struct attack *a, uint64_t disk)
{
	unsigned at = (unsigned)((disk - 1) / 10);
	struct node_call c = {.timeout_ns = ASK_NS};
	char addr[32];
	if (disk == 0 || at >= a->world->node_count)
		return c;
	snprintf(addr, sizeof(addr), "n%u:%u", at, NODE_PORT);
	const struct rpc_channel_options o = {.pool = &a->pool,
					      .connect_timeout_ns = ASK_NS,
					      .self = secrets_self(a->world, ATTACKER),
					      .server = at + 1};
	if (a->nodes[at] == NULL && rpc_channel_open(&a->nodes[at], addr, &o) < 0)
		return c;
	c.channel = a->nodes[at];
	return c;
}

/* --- at nodes ----------------------------------------------------------------------------------------- */

/* Tries a chunk with one token. */
static void try_chunk(struct attack *a, const struct known *k, const uint8_t *token)
{
	struct node_call c = node_of(a, k->disk);
	struct chunk_stat st;
	struct store_range bad;
	struct store_cursor at = {0};
	struct chunk_id ids[2];
	struct slice got = {0};
	if (c.channel == NULL)
		return;
	c.token = token;
	a->tries++;
	if (node_get_one(&c, k->disk, k->id, 0, 1, NULL, &got) == 0)
		violation(a, "read a chunk", k);
	buf_unref(got.buf);
	if (node_stat_one(&c, k->disk, k->id, &st) == 0)
		violation(a, "describe a chunk", k);
	if (node_scan(&c, k->disk, k->id, &bad, 1) >= 0)
		violation(a, "scan a chunk", k);
	if (node_seal(&c, k->disk, k->id, UINT64_MAX, 0, NULL) == 0)
		violation(a, "seal a chunk", k);
	if (node_fence(&c, k->disk, k->id, UINT64_MAX, NULL) == 0)
		violation(a, "fence a chunk", k);
	if (node_delete_one(&c, k->disk, k->id) == 0)
		violation(a, "delete a chunk", k);
	if (node_list(&c, k->disk, &at, ids, ARRAY_LEN(ids)) >= 0)
		violation(a, "list the chunks of a disk", k);
	struct node_put p = {.replace = true};
	label_make(p.label, ATTACKER_TENANT_ID, k->block, 1);
	if (node_put(&c, k->disk, k->id, &p) == 0)
		violation(a, "replace a chunk", k);
	p.replace = false;
	label_make(p.label, 1, k->block, 1);
	if (node_put(&c, k->disk, (struct chunk_id){meta_id(), 0}, &p) == 0)
		violation(a, "put a chunk with the label of the other tenant", k);
}

/* Changes what a valid token names to the chunk of another tenant. The signature does not fit any more. */
static void forge(const struct attack *a, const struct known *k, uint8_t out[META_TOKEN_BYTES])
{
	memcpy(out, a->own_token, META_TOKEN_BYTES);
	out[2] = TOKEN_RIGHTS;
	put_u32(out + 8, 1);
	put_u32(out + 12, k->id.index);
	put_u64(out + 24, k->disk);
	put_u64(out + 32, k->block);
}

/* Gets the attacker's token for new chunks on a disk. */
static bool token_of_disk(struct attack *a, uint64_t disk, uint8_t out[META_TOKEN_BYTES])
{
	uint8_t got[1][META_TOKEN_BYTES];
	bool needed = false;
	struct meta_call c = {.client = a->meta, .timeout_ns = ASK_NS};
	if (disk == 0 || meta_client_disk_tokens(&c, &disk, 1, got, &needed) < 0 || !needed)
		return false;
	memcpy(out, got[0], META_TOKEN_BYTES);
	return true;
}

/* --- with the keys of one disk ----------------------------------------------------------------------- */

/* Returns whether a token reads one byte of a chunk. */
static bool reads(struct attack *a, const struct known *k, const uint8_t *token, uint32_t off)
{
	struct node_call c = node_of(a, k->disk);
	struct slice got = {0};
	if (c.channel == NULL)
		return false;
	c.token = token;
	a->tries++;
	int rc = node_get_one(&c, k->disk, k->id, off, 1, NULL, &got);
	buf_unref(got.buf);
	return rc == 0;
}

/* Signs a token with the keys of a disk, as they leak with the memory of its node. */
static bool sign_with(struct attack *a, uint64_t disk, struct token *t, uint8_t out[TOKEN_BYTES])
{
	struct meta_token_keys live;
	struct meta_call c = {.client = a->spy, .timeout_ns = ASK_NS};
	struct key_ring ring;
	struct key_pair pair;
	struct token_keys keys;
	if (meta_client_token_rotate(&c, TOKEN_ROTATION_SHOW, &live) < 0)
		return false;
	const struct token_ring now = {.issuing = live.issuing, .other = live.other};
	if (token_ring_keys(&now, a->world->secrets->root->secret, &ring) < 0 ||
	    key_ring_pair(&ring, TOKEN_CHUNK, disk, &pair) < 0 ||
	    token_keys_init(&keys, &pair, TOKEN_CLOCK_SKEW_MS) < 0)
		abort();
	t->generation = live.issuing;
	keys.verifier = t->verifier; /* the name of a disk; the key is that of `disk` */
	int rc = token_sign(&keys, t, out);
	token_keys_fini(&keys);
	key_pair_wipe(&pair);
	key_ring_fini(&ring);
	return rc == 0;
}

/* Each of these tokens lacks one thing, and opens the chunk without the check of that one thing. */
static void try_signed(struct attack *a, const struct known *k)
{
	const struct known *own = &a->own;
	uint8_t bytes[TOKEN_BYTES];
	uint64_t now_ms = rt_wall_ns() / NS_PER_MS, long_ago_ms = 4 * TOKEN_CLOCK_SKEW_MS;
	const struct token good = {.layer = TOKEN_CHUNK,
				   .rights = TOKEN_READ,
				   .traffic_class = TRAFFIC_GOLD,
				   .tenant = ATTACKER_TENANT_ID,
				   .chunk = TOKEN_ALL_CHUNKS,
				   .verifier = own->disk,
				   .object = own->block,
				   .count = TOKEN_ALL_BYTES,
				   .expires_ms = now_ms + 60000};
	struct token t = good;
	if (own->disk == 0 || now_ms < long_ago_ms)
		return;
	t.expires_ms = now_ms - long_ago_ms;
	if (sign_with(a, own->disk, &t, bytes) && reads(a, own, bytes, 0))
		violation(a, "use an expired token", own);
	t = good;
	t.count = 1;
	if (sign_with(a, own->disk, &t, bytes) && reads(a, own, bytes, 1))
		violation(a, "read beyond the bytes of a token", own);
	t = good;
	t.object = meta_id();
	if (sign_with(a, own->disk, &t, bytes) && reads(a, own, bytes, 0))
		violation(a, "use the token of another block", own);
	t = good;
	if (sign_with(a, own->disk, &t, bytes)) {
		bytes[TOKEN_BYTES - 1] ^= 1;
		if (reads(a, own, bytes, 0))
			violation(a, "change a signature", own);
	}
	t = good;
	t.tenant = 1;
	t.object = k->block;
	t.verifier = k->disk;
	if (k->disk != 0 && k->disk != own->disk && sign_with(a, own->disk, &t, bytes) &&
	    reads(a, k, bytes, 0))
		violation(a, "sign for a disk with the keys of another one", k);
}

/* --- at the metadata -------------------------------------------------------------------------------- */

/* Gives a block of its own the id and the chunks of another one, so that the metadata issues tokens for these. */
static void try_record(struct attack *a, const struct known *k)
{
	struct meta_chunk chunks[META_CHUNKS_MAX] = {0};
	struct meta_block b = k->record, back;
	struct meta_call c = {.client = a->meta, .timeout_ns = ASK_NS};
	struct arena arena;
	uint64_t epoch;
	if (b.chunk_count > META_CHUNKS_MAX || b.chunk_count <= k->id.index)
		return;
	for (size_t i = 0; i < b.chunk_count; i++)
		chunks[i].disk = k->disk != 0 ? k->disk : 1;
	b.chunks = chunks;
	b.tokens = NULL;
	b.epoch = 1;
	if (meta_client_block_allocate(&c, &b, &epoch) < 0)
		return;
	struct meta_owner owner = {.file = meta_id(), .bytes = 1};
	(void)meta_client_block_commit(&c, &b, &owner, 1);
	arena_init(&arena, MIB);
	if (meta_client_block_get(&c, &b.id, 1, &arena, &back) == 0 && back.tokens != NULL &&
	    back.chunk_count > k->id.index)
		try_chunk(a, k, back.tokens[k->id.index]);
	arena_fini(&arena);
}

static void try_metadata(struct attack *a, const struct known *k)
{
	struct arena arena;
	struct meta_block b;
	struct meta_entry e;
	struct meta_owner owner;
	arena_init(&arena, MIB);
	struct meta_call own = {.client = a->meta, .timeout_ns = ASK_NS};
	struct meta_call foreign = {.client = a->foreign, .timeout_ns = ASK_NS};
	if (meta_client_block_get(&foreign, &k->block, 1, &arena, &b) == 0)
		violation(a, "get a record as another tenant", k);
	if (meta_client_resolve(&foreign, META_ROOT, meta_name("/"), &e) == 0)
		violation(a, "see the names of another tenant", k);
	if (meta_client_block_owners(&own, k->block, 0, &owner, 1) > 0)
		violation(a, "see the owners of a block", k);
	arena_fini(&arena);
}

/* --- its own files ------------------------------------------------------------------------------------- */

/* Writes a file, reads it back, and keeps a token of one of its chunks. */
static void use_own(struct attack *a)
{
	struct call c;
	struct efile *f;
	uint8_t bytes[OWN_BYTES];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct terrane_options o = {.block_bytes = BLOCK_BYTES, .timeout_ms = OP_TIMEOUT_MS};
	char path[32];
	snprintf(path, sizeof(path), "/own%u", ++a->written);
	text_fill(a->written, 0, bytes, sizeof(bytes));
	engine_call(a->engine, &c, &o);
	int rc = engine_create(&c, path, 0, &o, &f);
	if (rc == 0)
		rc = engine_append(&c, f, &iov, 1, NULL);
	if (rc == 0)
		rc = engine_file_close(&c, f);
	rt_background();
	if (rc < 0)
		return;
	uint8_t *read = NULL;
	int64_t n = world_read(a->engine, path, &read, OWN_BYTES + 1);
	if (n >= 0 && (n != OWN_BYTES || !text_same(a->written, 0, read, OWN_BYTES)))
		model_violation(
			&a->world->model, "I1",
			"%s of tenant " ATTACKER_TENANT " has other bytes than were written", path);
	free(read);
}

/* Takes a token of a chunk of its own, if it can find one. */
static void take_token(struct attack *a)
{
	struct arena arena;
	struct meta_block_at at[8];
	struct meta_block b;
	struct meta_call c = {.client = a->spy, .timeout_ns = ASK_NS};
	uint64_t block = 0;
	int64_t n = 0;
	arena_init(&arena, 16 * MIB);
	for (struct meta_walk w = {.end = 1 << PARTITION_BITS};
	     n >= 0 && block == 0 && w.index < w.end;) {
		n = meta_client_blocks(&c, &w, &arena, at, ARRAY_LEN(at));
		for (int64_t i = 0; i < n; i++)
			if (at[i].tenant == ATTACKER_TENANT_ID)
				block = at[i].block.id;
	}
	c.client = a->meta;
	if (block != 0 && meta_client_block_get(&c, &block, 1, &arena, &b) == 0 &&
	    b.tokens != NULL && b.chunk_count > 0) {
		memcpy(a->own_token, b.tokens[0], META_TOKEN_BYTES);
		a->own = (struct known){
			.block = b.id, .id = {b.chunk_block, 0}, .disk = b.chunks[0].disk};
	}
	arena_fini(&arena);
}

/* --- the process ---------------------------------------------------------------------------------------- */

static void attack_one(struct attack *a, const struct known *k)
{
	uint8_t token[META_TOKEN_BYTES];
	try_chunk(a, k, NULL);
	try_chunk(a, k, a->own_token);
	forge(a, k, token);
	try_chunk(a, k, token);
	if (token_of_disk(a, k->disk, token))
		try_chunk(a, k, token);
	try_signed(a, k);
	try_metadata(a, k);
	try_record(a, k);
}

/* Replaces the keys of all tokens while clients write, read, repair and append. */
static void rotate(struct attack *a, uint32_t what)
{
	struct meta_token_keys k;
	struct meta_call c = {.client = a->spy, .timeout_ns = ASK_NS};
	(void)meta_client_token_rotate(&c, what, &k);
}

static void attack_run(void *arg)
{
	struct attack *a = arg;
	while (!rt_cancelled() && rt_sleep_ns(rng_below(&a->rng, PAUSE_NS)) == 0) {
		if (!a->world->working || model_violated(&a->world->model))
			continue;
		if (rng_chance(&a->rng, 0.2))
			use_own(a);
		if (rng_chance(&a->rng, 0.3))
			take_token(a);
		if (a->count == 0 || rng_chance(&a->rng, 0.1))
			learn(a);
		if (rng_chance(&a->rng, 0.03))
			rotate(a, rng_chance(&a->rng, 0.3) ? TOKEN_ROTATION_LEAKED
							   : TOKEN_ROTATION_BEGIN);
		if (a->count > 0)
			attack_one(a, &a->known[rng_below(&a->rng, a->count)]);
		rt_background();
	}
}

static int attack_open(struct attack *a, struct world *w)
{
	rt_pool_init(&a->pool, 16 * MIB);
	rng_init(&a->rng, rt_random_u64());
	a->world = w;
	int rc = world_meta_as(w, META_SYSTEM, CHECKER, &a->pool, &a->spy);
	if (rc == 0)
		rc = world_meta_as(w, ATTACKER_TENANT, ATTACKER, &a->pool, &a->meta);
	if (rc == 0)
		rc = world_meta_as(w, TENANT, ATTACKER, &a->pool, &a->foreign);
	if (rc == 0)
		rc = world_engine_as(w, 1, ATTACKER_TENANT, ATTACKER, &a->engine);
	return rc;
}

void attacker_main(void *arg)
{
	const struct role *r = arg;
	struct attack *a = calloc(1, sizeof(*a));
	struct rt_group g;
	if (a == NULL)
		return;
	rt_group_init(&g);
	int rc = attack_open(a, r->world);
	if (rc == 0)
		rc = rt_group_spawn(&g, "attack", attack_run, a);
	if (rc == 0)
		(void)rt_shutdown_wait();
	rt_group_cancel(&g);
	rt_group_join(&g);
	for (unsigned i = 0; i < NODES_MAX; i++)
		rpc_channel_close(a->nodes[i]);
	engine_close(a->engine);
	meta_client_close(a->foreign);
	meta_client_close(a->meta);
	meta_client_close(a->spy);
	rt_pool_fini(&a->pool);
	free(a);
}
