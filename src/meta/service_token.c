// SPDX-License-Identifier: Apache-2.0
/*
 * Tokens in the service. The Block layer issues them with the records of blocks: one for each chunk, which names the
 * tenant, the block, the chunk and the disk, and gives the rights that the identity has at that moment. Nodes check
 * them in memory, with keys of their disks that they ask for here.
 *
 * Name, File and Block are layers of this service, and it decides on each request from the policy (service_access.c). So
 * between them the token would only repeat a decision that this process just took; the first verifier that has no policy
 * is the node.
 *
 * A token for a chunk gives what the chunk's label says: the node compares tenant and block of the token with those of
 * the label (node/access.h). So a record that names chunks of another tenant, by mistake or malice, opens none.
 *
 * The keys of a disk follow from the root of their generation and the disk's id. A node gets the keys of those disks that
 * the cluster map has at this node.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/credentials.h"
#include "auth/issuer.h"
#include "auth/secret.h"
#include "base/err.h"
#include "base/log.h"
#include "cluster/cluster.h"
#include "meta/map.h"
#include "meta/service_impl.h"
#include "meta/token_ring.h"
#include "meta_api/identity.h"
#include "rt/rt.h"

static_assert(META_TOKEN_BYTES == TOKEN_BYTES, "tokens fit in records");

/* --- keys ------------------------------------------------------------------------------------------ */

static uint64_t wall_ms(void)
{
	return rt_wall_ns() / NS_PER_MS;
}

/* Takes over the generations of the store. The issuer follows the ring by its version. */
static int follow(struct meta_service *s)
{
	struct token_ring now;
	int rc = token_ring_read(s->meta, &now);
	if (rc < 0 || (s->issuer != NULL && now.turn == s->ring_turn))
		return rc;
	uint64_t version = s->ring->version;
	struct key_ring *fresh = secret_alloc(sizeof(*fresh));
	if (fresh == NULL)
		return -ENOMEM;
	rc = token_ring_keys(&now, s->root->secret, fresh);
	if (rc == 0) {
		*s->ring = *fresh;
		s->ring->version = version + 1;
		s->ring_turn = now.turn;
	}
	secret_free(fresh, sizeof(*fresh));
	return rc;
}

int ms_tokens_open(struct meta_service *s)
{
	if (s->root == NULL)
		return 0;
	s->ring = secret_alloc(sizeof(*s->ring));
	int rc = s->ring == NULL ? -ENOMEM : follow(s);
	return rc < 0 ? rc
		      : issuer_open(&s->issuer, s->ring,
				    &(struct issuer_options){.skew_ms = TOKEN_CLOCK_SKEW_MS,
							     .life_ms = TOKEN_LIFE_MS});
}

void ms_tokens_close(struct meta_service *s)
{
	issuer_close(s->issuer);
	s->issuer = NULL;
	secret_free(s->ring, sizeof(*s->ring));
	s->ring = NULL;
}

void ms_caches_follow(struct meta_service *first)
{
	assert(first->map != NULL);
	first->all->has_caches = meta_map_cluster(first->map)->cache_nodes > 0;
}

void ms_tokens_follow(struct meta_service *s)
{
	int rc = 0;
	/* One part of each server carries rotations on; the note decides between servers. */
	if (s == s->all->parts) {
		ms_caches_follow(s);
		rc = token_ring_step(s->meta, wall_ms(), false);
	}
	if (rc > 0)
		log_info("token_keys_stepped", "text=%s",
			 LOG_QUOTE("a rotation of token keys went on"));
	if (rc >= 0 || rc == -ESTALE)
		rc = follow(s);
	if (rc < 0 && rc != -ECANCELED)
		log_warn("token_keys_not_read", "err=%s", err_name(rc));
}

/* --- tokens of records ------------------------------------------------------------------------------ */

/* Returns the rights of the client to blocks of a tenant; 0: it needs no tokens, or has none. */
static unsigned rights_of(struct rpc_request *r, const struct meta_ctx *ctx)
{
	const struct meta_service *s = r->service;
	uint32_t acting_for;
	if (s->issuer == NULL || ms_session(r) == NULL ||
	    ms_is_system(rt_context()->tenant, &acting_for))
		return 0;
	unsigned rights = ms_any_grant(r, ctx->tenant, OP_READ) ? TOKEN_READ : 0;
	return ms_any_grant(r, ctx->tenant, OP_WRITE) ? rights | TOKEN_WRITE | TOKEN_CREATE
						      : rights;
}

static int sign(struct rpc_request *r, struct token *t, ProtobufCBinaryData *out)
{
	struct meta_service *s = r->service;
	out->data = rpc_alloc(r, TOKEN_BYTES);
	if (out->data == NULL)
		return -ENOMEM;
	out->len = TOKEN_BYTES;
	return issuer_sign(s->issuer, t, wall_ms(), out->data);
}

static struct token token_of(const struct rpc_request *r, const struct meta_ctx *ctx, uint64_t disk,
			     unsigned rights)
{
	return (struct token){.layer = TOKEN_CHUNK,
			      .rights = rights,
			      .traffic_class = TRAFFIC_GOLD,
			      .tenant = ctx->tenant,
			      .chunk = TOKEN_ALL_CHUNKS,
			      .subject = ms_session(r)->identity,
			      .verifier = disk,
			      .count = TOKEN_ALL_BYTES};
}

int ms_block_set(struct rpc_request *r, const struct meta_ctx *ctx, meta_msg_block *m,
		 const struct meta_block *b, uint64_t wanted)
{
	struct block_opening o = {0};
	int rc = meta_wire_block_set(&r->arena, m, b);
	unsigned rights = rights_of(r, ctx) & (TOKEN_READ | TOKEN_WRITE);
	if (rc == 0 && rights != 0)
		rc = ms_block_opens(r, ctx, b, wanted, &o);
	rights &= o.rights;
	/* A sealed block has nothing left to write. */
	if (b->state == META_BLOCK_SEALED)
		rights &= TOKEN_READ;
	for (size_t i = 0; rc == 0 && rights != 0 && i < m->n_chunks; i++) {
		if (b->chunks[i].disk == 0)
			continue;
		struct token t = token_of(r, ctx, b->chunks[i].disk, rights);
		t.object = b->id;
		t.chunk = (uint32_t)i;
		if (ms_chunk_opens(b, &o, i, &t.first, &t.count) < 0)
			continue;
		rc = sign(r, &t, &m->chunks[i]->token);
	}
	if (rights != 0 && o.count != TOKEN_ALL_BYTES) {
		m->open_first = o.first;
		m->open_count = o.count;
		/* Checksums would tell something about the other bytes. */
		m->crc = 0;
		for (size_t i = 0; i < m->n_chunks; i++)
			m->chunks[i]->crc = 0;
		return rc; /* and no token for cache nodes: it opens the whole block */
	}
	if (rc != 0 || (rights & TOKEN_READ) == 0 || b->state != META_BLOCK_SEALED ||
	    !((struct meta_service *)r->service)->all->has_caches)
		return rc;
	struct token t = token_of(r, ctx, TOKEN_CACHE_NODES, TOKEN_READ);
	t.object = b->id;
	return sign(r, &t, &m->cache_token);
}

int ms_handle_token_disks(struct rpc_request *r)
{
	const Terrane__Meta__TokenDisksRequest *q = rpc_body(r);
	Terrane__Meta__TokenDisksResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx;
	if (q->n_disks == 0 || q->n_disks > META_TOKEN_DISKS_MAX)
		return rpc_fail(r, -EINVAL, "%zu disks in one request, 1 to %d are allowed",
				q->n_disks, META_TOKEN_DISKS_MAX);
	int rc = ms_enter(r, &ctx);
	if (rc < 0 || (rights_of(r, &ctx) & TOKEN_CREATE) == 0)
		return ms_end(r, rc);
	p->tokens = rpc_alloc(r, q->n_disks * sizeof(p->tokens[0]));
	if (p->tokens == NULL)
		return -ENOMEM;
	for (size_t i = 0; rc == 0 && i < q->n_disks; i++) {
		struct token t = token_of(r, &ctx, q->disks[i], TOKEN_CREATE);
		rc = sign(r, &t, &p->tokens[p->n_tokens++]);
	}
	return ms_end(r, rc);
}

/* --- keys of nodes ------------------------------------------------------------------------------------ */

/* Appends the key of one generation for a disk, wrapped with the secret of the node. */
static int put_key(struct rpc_request *r, const uint8_t own[MAC_KEY_BYTES], uint64_t disk,
		   const struct key_generation *g)
{
	Terrane__Meta__TokenKeysResponse *p = rpc_reply_body(r);
	Terrane__Meta__TokenKey *m = rpc_alloc(r, sizeof(*m));
	uint8_t *wrapped = rpc_alloc(r, SECURE_WRAP_BYTES);
	char purpose[TOKEN_WRAP_MAX];
	if (m == NULL || wrapped == NULL)
		return -ENOMEM;
	terrane__meta__token_key__init(m);
	snprintf(purpose, sizeof(purpose), TOKEN_WRAP_KEY "%" PRIu64 " %" PRIu32, disk, g->number);
	int rc = secure_wrap(own, purpose, g->key, wrapped);
	m->disk = disk;
	m->generation = g->number;
	m->key = (ProtobufCBinaryData){.data = wrapped, .len = SECURE_WRAP_BYTES};
	p->keys[p->n_keys++] = m;
	return rc;
}

static int put_keys(struct rpc_request *r, const uint8_t own[MAC_KEY_BYTES], uint64_t disk)
{
	const struct meta_service *s = r->service;
	struct key_pair pair;
	int rc = key_ring_pair(s->ring, TOKEN_CHUNK, disk, &pair);
	for (size_t i = 0; rc == 0 && i < 2; i++)
		if (pair.generation[i].number != 0)
			rc = put_key(r, own, disk, &pair.generation[i]);
	key_pair_wipe(&pair);
	return rc;
}

int ms_handle_token_keys(struct rpc_request *r)
{
	const Terrane__Meta__TokenKeysRequest *q = rpc_body(r);
	Terrane__Meta__TokenKeysResponse *p = rpc_reply_body(r);
	struct meta_service *s = r->service;
	const struct session *to = ms_session(r);
	if (s->issuer == NULL || to == NULL)
		return rpc_fail(
			r, -EOPNOTSUPP,
			"the metadata servers of this cluster have no credentials, so there "
			"are no tokens");
	if (q->n_disks == 0 || q->n_disks > META_TOKEN_DISKS_MAX)
		return rpc_fail(r, -EINVAL, "%zu disks in one request, 1 to %d are allowed",
				q->n_disks, META_TOKEN_DISKS_MAX);
	p->keys = rpc_alloc(r, 2 * q->n_disks * sizeof(p->keys[0]));
	if (p->keys == NULL)
		return -ENOMEM;
	uint8_t own[MAC_KEY_BYTES];
	const struct cluster *map = meta_map_cluster(ms_map(r));
	int rc = secure_identity_secret(s->root->secret, to->name, to->key_version, own);
	for (size_t i = 0; rc == 0 && i < q->n_disks; i++) {
		const struct cluster_node *at = cluster_node_of(map, q->disks[i]);
		bool cache = q->disks[i] == TOKEN_CACHE_NODES && session_may(to, OP_CHUNK_READ);
		if (cache || (at != NULL && ms_is_node(to, at->id)))
			rc = put_keys(r, own, q->disks[i]);
	}
	secret_wipe(own, sizeof(own));
	return rc;
}

/* --- rotation ---------------------------------------------------------------------------------------- */

static void follow_part(struct meta_service *part, void *arg)
{
	int *rc = arg;
	if (*rc == 0)
		*rc = follow(part);
}

static int rotate(struct rpc_request *r, uint32_t what)
{
	struct meta *m = ms_meta(r);
	int rc = 0;
	if (what == TOKEN_ROTATION_BEGIN)
		rc = token_ring_stage(m, wall_ms());
	else if (what == TOKEN_ROTATION_LEAKED)
		rc = token_ring_replace(m, wall_ms());
	else if (what != TOKEN_ROTATION_SHOW)
		return rpc_fail(r, -EINVAL, "unknown change %u of the keys", what);
	if (rc == -EBUSY)
		return rpc_fail(r, rc,
				"the last rotation has not ended: its old keys are accepted while "
				"tokens of them live; if keys have leaked, use --leaked");
	if (rc == -ESTALE)
		return rpc_fail(r, rc, "the keys were changed by another request; try again");
	return rc;
}

int ms_handle_token_rotate(struct rpc_request *r)
{
	const Terrane__Meta__TokenRotateRequest *q = rpc_body(r);
	Terrane__Meta__TokenRotateResponse *p = rpc_reply_body(r);
	struct meta_service *s = r->service;
	struct token_ring now = {0};
	if (s->issuer == NULL)
		return rpc_fail(
			r, -EOPNOTSUPP,
			"the metadata servers of this cluster have no credentials, so there "
			"are no tokens");
	int rc = rotate(r, q->what);
	if (rc == 0)
		rc = token_ring_read(s->meta, &now);
	if (rc < 0)
		return ms_end(r, rc);
	p->issuing = now.issuing;
	p->other = now.other;
	p->changed_ms = now.changed_ms;
	if (q->what == TOKEN_ROTATION_SHOW)
		return 0;
	log_info("token_keys_rotated", "issuing=%u other=%u leaked=%d by=%s", now.issuing,
		 now.other, q->what == TOKEN_ROTATION_LEAKED,
		 ms_session(r) != NULL ? ms_session(r)->name : "");
	int each = ms_each_part(s->all, follow_part, &rc);
	return each != 0 ? each : rc;
}
