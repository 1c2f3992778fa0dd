// SPDX-License-Identifier: Apache-2.0
/* Reads all chunks of a block and compares them with a new encoding of the data. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/crc.h"
#include "base/err.h"
#include "client/encode.h"
#include "client/engine_impl.h"
#include "cluster_check.h"
#include "code/codec.h"
#include "code/sg.h"
#include "rt/rt.h"

#define CACHES_NS (2500 * NS_PER_MS)
#define RECODE_MOVED 1 /* a chunk was moved since the record was read */

static int block_get(struct checker *k, const struct meta_block_at *at, struct arena *a,
		     struct meta_block *out)
{
	char tenant[32];
	snprintf(tenant, sizeof(tenant), META_SYSTEM ":%u", at->tenant);
	AUTO_CONTEXT const struct context *system = NULL;
	int rc = context_new(&system, &(struct context){.tenant = tenant});
	if (rc < 0)
		return rc;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(system);
	struct meta_call m = {.client = k->meta};
	return meta_client_block_get(&m, &at->block.id, 1, a, out);
}

static int chunk_fetch(struct checker *k, const struct meta_block *b, uint32_t i, uint64_t len,
		       struct slice *out)
{
	struct call c;
	struct disk_use u;
	call_init(&c, engine_fabric(k->engine));
	int rc = disk_use(&c, b->chunks[i].disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = 10 * NS_PER_S;
	rc = node_get_one(&u.node, u.disk, (struct chunk_id){b->chunk_block, i}, 0, len, NULL, out);
	disk_end(&c, &u, rc, 0);
	return rc;
}

/* Computes the parities with the codec alone, because the client's encoder is under test. */
static int parities_compute(const struct shape *s, uint64_t each, const struct slice *got,
			    uint8_t *parities)
{
	AUTO_FREE struct iovec *iov = calloc((size_t)s->n, sizeof(*iov));
	AUTO_FREE struct sg *chunks = calloc((size_t)s->n, sizeof(*chunks));
	struct codec *codec;
	if (iov == NULL || chunks == NULL)
		return -ENOMEM;
	for (int i = 0; i < s->n; i++) {
		if (i >= s->k)
			iov[i] = (struct iovec){parities + (uint64_t)(i - s->k) * each, each};
		else if (got[i].len > 0)
			iov[i] = (struct iovec){got[i].buf->data + got[i].offset, got[i].len};
		chunks[i] = (struct sg){&iov[i], 1};
	}
	int rc = codec_open(&s->net, &codec);
	if (rc < 0)
		return rc;
	rc = codec_encode(codec, each, chunks);
	codec_close(codec);
	return rc;
}

static void compare_chunks(struct checker *k, const struct meta_block *b, const struct shape *s,
			   const struct slice *got)
{
	struct model *m = &k->world->model;
	uint64_t each = shape_chunk_len(s, b->length);
	assert(s->k <= s->n);
	AUTO_FREE uint8_t *parities = calloc((size_t)(s->n - s->k) + 1, each);
	uint32_t crc = 0;
	for (int i = 0; i < s->k; i++)
		if (got[i].len > 0)
			crc = crc32c(crc, got[i].buf->data + got[i].offset, got[i].len);
	if (crc != b->crc) {
		model_violation(m, "I9",
				"block %016lx (%s): checksum of the data differs from the record's",
				b->id, b->encoding);
		return;
	}
	int rc = parities == NULL ? -ENOMEM : parities_compute(s, each, got, parities);
	if (rc < 0)
		model_violation(m, "I9", "block %016lx (%s) cannot be encoded: %s", b->id,
				b->encoding, err_name(rc));
	for (int i = s->k; rc == 0 && i < s->n; i++) {
		uint64_t len = shape_stored_len(s, i, b->length);
		if (got[i].len != len || got[i].buf == NULL ||
		    memcmp(got[i].buf->data + got[i].offset, parities + (uint64_t)(i - s->k) * each,
			   len) != 0)
			model_violation(m, "I9", "block %016lx (%s): parity %d differs", b->id,
					b->encoding, i);
	}
}

/*
 * Compares all chunks of a block with a new encoding. Returns RECODE_MOVED if a chunk is not where the record says.
 */
static int block_recode(struct checker *k, const struct meta_block *b)
{
	struct encoding e;
	struct shape s = {0};
	struct slice got[META_CHUNKS_MAX] = {0};
	char why[128];
	int rc = encoding_parse(b->encoding, &e, why, sizeof(why));
	if (rc == 0)
		rc = shape_init(&s, &e);
	if (rc < 0 || b->length == 0)
		return 0;
	for (int i = 0; rc == 0 && i < s.n; i++) {
		uint64_t len = shape_stored_len(&s, i, b->length);
		if (len > 0)
			rc = chunk_fetch(k, b, (uint32_t)i, len, &got[i]);
	}
	if (rc == 0)
		compare_chunks(k, b, &s, got);
	else if (rc != -ENOENT)
		model_violation(&k->world->model, "I9",
				"block %016lx is complete but cannot be read: %s", b->id,
				err_name(rc));
	for (int i = 0; i < s.n; i++)
		buf_unref(got[i].buf);
	return rc == -ENOENT ? RECODE_MOVED : 0;
}

void block_compare(struct checker *k, const struct meta_block_at *at)
{
	struct meta_block now = at->block;
	struct arena a;
	int rc = block_recode(k, &now);
	arena_init(&a, MIB);
	for (int i = 0; rc == RECODE_MOVED && i < TRIES && rt_sleep_ns(CACHES_NS) == 0; i++) {
		rc = block_get(k, at, &a, &now);
		if (rc == 0)
			rc = block_recode(k, &now);
		else if (rc == -ENOENT) /* the block was compacted or re-encoded */
			rc = 0;
	}
	if (rc != 0)
		model_violation(&k->world->model, "I9",
				"block %016lx is complete but cannot be read: %s", at->block.id,
				rc < 0 ? err_name(rc) : "a chunk is missing");
	arena_fini(&a);
}
