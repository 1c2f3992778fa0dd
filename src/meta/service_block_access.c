// SPDX-License-Identifier: Apache-2.0
/*
 * What a client whose grants cover a part of its tenant gets of a block.
 *
 * Small files share blocks, and a block may have files of several directories: they were written by one call, or a file
 * was moved away and left its neighbours behind. So the service looks at the owners of the block, at the moment of the
 * request:
 *
 *     the client may read            tokens of the record
 *     every owner, and they have     all chunks
 *       every byte of the block
 *     some owners                    the data chunks, limited to one run of their bytes
 *     none                           the record is not given: an id alone opens nothing
 *
 *     block of 60 KB, rs:2+1     /a/1: 0-20 KB    /a/2: 20-30 KB    /b/3: 30-45 KB    removed: 45-60 KB
 *     grant below /a             chunk 0 (0-32 KB): bytes 0-30 KB;  chunk 1 and the parity: no token
 *
 * Decoding needs other chunks at the same offsets, that is bytes of other files. So such a client cannot reconstruct:
 * while the disk of its bytes is away it waits for the repair, which its report begins. Clients with a grant for all
 * owners are not affected, so this concerns blocks across the edge of a grant alone. Bytes of removed files count as
 * those of others; a file that was removed, or moved to another directory (which gives it another id), counts until the
 * collector has marked its record: those who read it could read it before.
 *
 * Writing. An extent gives its file the bytes that it names, so a client with such grants makes extents only in blocks
 * that it has allocated itself (`writer` of the record): it has written these bytes.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "auth/token.h"
#include "base/arena.h"
#include "base/bug.h"
#include "base/rng.h"
#include "code/shape.h"
#include "meta/impl.h"
#include "meta/service_impl.h"
#include "rt/rt.h"
#include "secure/secure.h"

#define MEMO_SLOTS 4096
#define MEMO_NS META_CACHE_TTL_MAX
#define OWNERS_PAGE 500
/* Owners beyond these count as files of others. */
#define OWNERS_SEEN_MAX 65536
#define FILE_BYTES (4 * MIB)

struct run {
	uint64_t first, end;
};

/* A sealed block that an identity may read completely: a slot of a table in which the newest verdict replaces another.
 * Without it, every request for a block of 1000 small files would read their 1000 records. */
struct block_memo {
	uint64_t identity, block;
	uint32_t tenant;      /* two tenants may have a block of one id */
	uint64_t policy_turn; /* of the policy that decided */
	uint64_t until_ns;
};

/* A look at the owners of a block. */
struct look {
	struct rpc_request *r;
	const struct meta_ctx *ctx;
	const struct meta_block *b;
	enum auth_op op;
	/* the verdict on the last directory: the owners of a block are in few */
	uint64_t dir;
	int dir_rc;
	uint64_t owners;         /* number of owners */
	uint64_t allowed;        /* number of those that the client may use */
	uint64_t allowed_bytes;  /* their bytes in the block */
	struct meta_owner *list; /* those owners; NULL: not wanted */
	size_t list_max;
};

/* Returns 0 if the client may use the file. -EACCES; errors of the store. */
static int file_allows(struct look *k, uint64_t file)
{
	struct meta_file f;
	AUTO_ARENA struct arena a;
	arena_init(&a, FILE_BYTES);
	int rc = meta_file_get(ms_meta(k->r), k->ctx, file, NULL, &a, &f);
	if (rc == 0 && f.removed)
		rc = -ENOENT;
	if (rc < 0)
		return rc == -ENOENT ? -EACCES : rc;
	if (k->dir == 0 || k->dir != f.dir) {
		k->dir = f.dir;
		k->dir_rc = ms_dir_allows(k->r, k->ctx->tenant, k->op, f.dir);
	}
	return k->dir_rc;
}

static int owner_take(struct look *k, const struct meta_owner *o)
{
	int rc = file_allows(k, o->file);
	if (bug_planted(BUG_BLOCK_SHARED))
		rc = 0;
	k->owners++;
	if (rc < 0)
		return rc == -EACCES ? 0 : rc;
	if (k->list != NULL && k->allowed < k->list_max)
		k->list[k->allowed] = *o;
	k->allowed++;
	k->allowed_bytes += min_u64(o->bytes, META_BLOCK_MAX);
	return 0;
}

static int owners_look(struct look *k)
{
	AUTO_FREE struct meta_owner *page = malloc(OWNERS_PAGE * sizeof(*page));
	if (page == NULL)
		return -ENOMEM;
	uint64_t after = 0;
	for (int64_t n = OWNERS_PAGE; n == OWNERS_PAGE && k->owners < OWNERS_SEEN_MAX;) {
		n = meta_block_owners(ms_meta(k->r), k->ctx, k->b->id, after, page, OWNERS_PAGE);
		for (int64_t i = 0; i < n; i++) {
			int rc = owner_take(k, &page[i]);
			if (rc < 0)
				return rc;
		}
		if (n < 0)
			return (int)n;
		if (n > 0)
			after = page[n - 1].file;
	}
	return 0;
}

static int by_first(const void *a, const void *b)
{
	const struct run *x = a, *y = b;
	return x->first < y->first ? -1 : x->first > y->first;
}

/* Adds the bytes that a file has in the block to the runs. */
static int file_runs(const struct look *k, const struct meta_owner *o, struct run *runs, size_t max,
		     size_t *count)
{
	uint64_t at = 0, found = 0;
	for (bool more = true; more && *count < max;) {
		AUTO_ARENA struct arena a;
		struct meta_file f;
		struct meta_part part = {.offset = at, .max = META_PAGE_MAX};
		arena_init(&a, FILE_BYTES);
		int rc = meta_file_get(ms_meta(k->r), k->ctx, o->file, &part, &a, &f);
		if (rc < 0)
			return rc == -ENOENT ? 0 : rc;
		at = part.first_offset;
		for (size_t i = 0; i < part.count && *count < max; i++) {
			const struct meta_extent *e = &part.extents[i];
			uint64_t len = e->open ? k->b->length : e->length;
			at += e->length;
			if (e->block != k->b->id || e->offset >= k->b->length)
				continue;
			len = min_u64(len, k->b->length - e->offset);
			runs[(*count)++] = (struct run){e->offset, e->offset + len};
			found += len;
		}
		more = part.count == META_PAGE_MAX && found < o->bytes && at < f.size;
	}
	return 0;
}

/* Finds the run of readable bytes with the wanted one; the first run if that byte is not readable. */
static int run_find(const struct look *k, uint64_t wanted, struct run *out)
{
	size_t max = (size_t)k->allowed + META_PAGE_MAX, n = 0;
	AUTO_FREE struct run *runs = malloc(max * sizeof(*runs));
	if (runs == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < k->allowed && i < k->list_max; i++) {
		int rc = file_runs(k, &k->list[i], runs, max, &n);
		if (rc < 0)
			return rc;
	}
	qsort(runs, n, sizeof(*runs), by_first);
	size_t count = 0;
	for (size_t i = 0; i < n; i++) {
		if (count > 0 && runs[i].first <= runs[count - 1].end)
			runs[count - 1].end = max_u64(runs[count - 1].end, runs[i].end);
		else
			runs[count++] = runs[i];
	}
	assert(count <= n);
	*out = count > 0 ? runs[0] : (struct run){0};
	for (size_t i = 0; i < count; i++)
		if (wanted >= runs[i].first && wanted < runs[i].end)
			*out = runs[i];
	return 0;
}

/* Returns the slot for a verdict on the block; NULL: no memory. */
static struct block_memo *memo_of(const struct look *k)
{
	struct meta_service *s = k->r->service;
	if (s->memos == NULL)
		s->memos = calloc(MEMO_SLOTS, sizeof(*s->memos));
	uint64_t hash = mix_u64(ms_session(k->r)->identity ^ mix_u64(k->b->id ^ k->ctx->tenant));
	return s->memos != NULL ? &s->memos[hash % MEMO_SLOTS] : NULL;
}

static struct block_memo memo_now(const struct look *k)
{
	const struct meta_service *s = k->r->service;
	return (struct block_memo){.identity = ms_session(k->r)->identity,
				   .block = k->b->id,
				   .tenant = k->ctx->tenant,
				   .policy_turn = s->policy_turn,
				   .until_ns = rt_now_ns() + MEMO_NS};
}

static bool memo_holds(const struct look *k)
{
	const struct block_memo *m = memo_of(k), now = memo_now(k);
	return m != NULL && k->b->state == META_BLOCK_SEALED && m->identity == now.identity &&
	       m->block == now.block && m->tenant == now.tenant &&
	       m->policy_turn == now.policy_turn && m->until_ns > now.until_ns - MEMO_NS;
}

/* Decides what the client may read of a block. */
static int readable(struct look *k, uint64_t wanted, struct block_opening *out)
{
	if (memo_holds(k)) {
		out->rights |= TOKEN_READ;
		return 0;
	}
	struct block_memo verdict = memo_now(k); /* of the policy before the look, which waits */
	AUTO_FREE struct meta_owner *list = malloc(OWNERS_SEEN_MAX * sizeof(*list));
	if (list == NULL)
		return -ENOMEM;
	k->list = list;
	k->list_max = OWNERS_SEEN_MAX;
	int rc = owners_look(k);
	k->list = NULL;
	if (rc < 0 || k->allowed == 0)
		return rc < 0 ? rc : -EACCES;
	bool all = k->allowed == k->owners && k->owners < OWNERS_SEEN_MAX;
	out->rights |= TOKEN_READ;
	if (all && (k->b->state == META_BLOCK_OPEN || k->allowed_bytes >= k->b->length)) {
		struct block_memo *m = memo_of(k);
		if (m != NULL)
			*m = verdict;
		return 0;
	}
	struct run run;
	k->list = list;
	rc = run_find(k, wanted, &run);
	k->list = NULL;
	if (rc == 0 && run.end == 0)
		rc = -EACCES;
	if (rc == 0 && (run.first > 0 || run.end < k->b->length)) {
		out->first = run.first;
		out->count = run.end - run.first;
	}
	return rc;
}

int ms_block_opens(struct rpc_request *r, const struct meta_ctx *ctx, const struct meta_block *b,
		   uint64_t wanted, struct block_opening *out)
{
	bool reads = ms_whole_grant(r, ctx->tenant, OP_READ);
	bool writes = ms_whole_grant(r, ctx->tenant, OP_WRITE);
	*out = (struct block_opening){.rights =
					      (reads ? TOKEN_READ : 0) | (writes ? TOKEN_WRITE : 0),
				      .count = TOKEN_ALL_BYTES};
	struct look k = {.r = r, .ctx = ctx, .b = b, .op = OP_READ};
	int rc = reads ? 0 : readable(&k, wanted, out);
	if (rc < 0 || writes || b->state != META_BLOCK_OPEN ||
	    !ms_any_grant(r, ctx->tenant, OP_WRITE))
		return rc;
	rc = ms_block_allows(r, ctx, b->id, OP_WRITE);
	if (rc == 0)
		out->rights |= TOKEN_WRITE;
	return rc == -EACCES ? 0 : rc;
}

int ms_block_allows(struct rpc_request *r, const struct meta_ctx *ctx, uint64_t block,
		    enum auth_op op)
{
	const struct meta_block b = {.id = block};
	struct look k = {.r = r, .ctx = ctx, .b = &b, .op = op};
	int rc = owners_look(&k);
	if (rc < 0)
		return rc;
	/* A report does no harm to other files of the block; a change does. */
	return k.allowed > 0 && (op == OP_READ || k.allowed == k.owners) ? 0 : -EACCES;
}

/* Checks that the client has allocated a block. *last is the block that was checked before. */
static int wrote(struct rpc_request *r, const struct meta_ctx *ctx, uint64_t block, uint64_t *last)
{
	struct meta_block b;
	AUTO_ARENA struct arena a;
	if (block == *last)
		return 0;
	arena_init(&a, MIB);
	int rc = meta_block_get(ms_meta(r), ctx, &block, 1, &a, &b);
	if (rc < 0)
		return rc;
	*last = block;
	return b.state != 0 && b.writer == ms_session(r)->identity ? 0 : -EACCES;
}

static int wrote_extents(struct rpc_request *r, const struct meta_ctx *ctx,
			 meta_msg_extent *const *extents, size_t n)
{
	uint64_t last = 0;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = wrote(r, ctx, extents[i]->block, &last);
	return rc;
}

static int create_uses(struct rpc_request *r, const struct meta_ctx *ctx)
{
	const Terrane__Meta__CreateRequest *q = rpc_body(r);
	uint64_t last = 0;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < q->n_files; i++) {
		const Terrane__Meta__NewFile *f = q->files[i];
		if (f->block != NULL)
			rc = wrote(r, ctx, f->block->id, &last);
		for (size_t j = 0; rc == 0 && j < f->n_extents; j++)
			rc = wrote(r, ctx, f->extents[j]->block, &last);
	}
	return rc;
}

int ms_block_uses(struct rpc_request *r, const struct meta_ctx *ctx, unsigned method)
{
	const void *body = rpc_body(r);
	uint64_t last = 0;
	if (method == METHOD_create)
		return create_uses(r, ctx);
	if (method == METHOD_file_add) {
		const Terrane__Meta__FileAddRequest *q = body;
		return wrote_extents(r, ctx, q->extents, q->n_extents);
	}
	if (method == METHOD_block_own)
		return wrote(r, ctx, ((const Terrane__Meta__BlockOwnRequest *)body)->block, &last);
	if (method == METHOD_block_commit) {
		const Terrane__Meta__BlockCommitRequest *q = body;
		return q->block != NULL ? wrote(r, ctx, q->block->id, &last) : -EACCES;
	}
	return 0;
}

uint64_t ms_block_writer(struct rpc_request *r, uint32_t tenant)
{
	const struct session *who = ms_session(r);
	return who == NULL || ms_whole_grant(r, tenant, OP_WRITE) ? 0 : who->identity;
}

int ms_chunk_opens(const struct meta_block *b, const struct block_opening *o, size_t chunk,
		   uint64_t *first, uint64_t *count)
{
	struct encoding e;
	struct shape s;
	*first = 0;
	*count = TOKEN_ALL_BYTES;
	if (o->count == TOKEN_ALL_BYTES)
		return 0;
	if (encoding_parse(b->encoding, &e, NULL, 0) < 0 || shape_init(&s, &e) < 0 ||
	    b->chunk_count != (size_t)s.n || o->count == 0)
		return -EACCES;
	uint64_t len = shape_chunk_len(&s, b->length), from = o->first, to = o->first + o->count;
	int data = 0;
	while (!s.copies && data < s.k && (size_t)encoding_data_chunk(&s.net, data) != chunk)
		data++;
	if (data == s.k)
		return -EACCES; /* a parity: it has all offsets of all data chunks */
	uint64_t base = (uint64_t)data * len;
	from = max_u64(from, base);
	to = min_u64(to, base + len);
	if (from >= to)
		return -EACCES;
	*first = from - base;
	*count = to - from;
	return 0;
}
