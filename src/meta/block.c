// SPDX-License-Identifier: Apache-2.0
/*
 * The Block layer: the chunks, owners and states of blocks.
 *
 * A block is pending from its allocation to its commit, then open for appends or sealed. Its record,
 * its owners and the rows of the reverse index for its disks are in one partition, so one transaction keeps them
 * consistent. A pending block has a KEY_PENDING row, and a block that loses an owner gets a KEY_SUSPECT row: with these
 * rows the collector finds blocks of crashed writers and blocks without owners, and need not read all records.
 *
 * Every change of a record is one transaction, which checks that the record is still as it was read.
 */
#include "meta/block.h"

#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "meta_api/id.h"
#include "rt/rt.h"

/* Records of blocks up to this capacity are synced only at commit: after a crash, writing such a block again costs
 * little. */
#define SMALL_BYTES (1 * MIB)

static uint64_t part_block(const struct meta *m, uint32_t tenant, uint64_t block)
{
	return part_of(m, META_LAYER_BLOCK, tenant, block);
}

/* --- records ---------------------------------------------------------------------------------- */

int block_read(struct meta *m, uint32_t tenant, uint64_t block, struct arena *a,
	       struct kv_bytes *raw, rec_block **out)
{
	struct schema_key key = key_id(KEY_BLOCK, tenant, block);
	struct reads r;
	*out = NULL;
	int rc = meta_read(m, part_block(m, tenant, block), &key, 1, a, &r);
	*raw = r.value[0];
	return rc == 0 && raw->data != NULL ? rec_read_block(a, *raw, out) : rc;
}

int block_from_record(uint64_t id, const rec_block *rec, struct arena *a, struct meta_block *out)
{
	assert(rec->n_chunks <= META_CHUNKS_MAX && strlen(rec->encoding) < sizeof(out->encoding));
	*out = (struct meta_block){.id = id,
				   .state = (enum meta_block_state)rec->state,
				   .epoch = rec->epoch,
				   .chunk_block = rec->chunk_block,
				   .layout = rec->layout,
				   .release_count = rec->release_count,
				   .length = rec->length,
				   .capacity = rec->capacity,
				   .chunk_length = rec->chunk_length,
				   .crc = rec->crc,
				   .media = (enum cluster_media)rec->media,
				   .placement = rec->placement,
				   .born_s = rec->born_s,
				   .writer = rec->writer,
				   .chunk_count = rec->n_chunks};
	memcpy(out->encoding, rec->encoding, strlen(rec->encoding) + 1);
	out->chunks = arena_alloc(a, (rec->n_chunks + 1) * sizeof(out->chunks[0]));
	if (out->chunks == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < rec->n_chunks; i++)
		out->chunks[i] = (struct meta_chunk){.disk = rec->chunks[i]->disk,
						     .crc = rec->chunks[i]->crc,
						     .damaged = rec->chunks[i]->damaged != 0};
	return 0;
}

int block_chunks_set(rec_block *rec, const struct meta_chunk *chunks, size_t n, struct arena *a)
{
	assert(n <= META_CHUNKS_MAX);
	rec->chunks = arena_alloc(a, (n + 1) * sizeof(rec->chunks[0]));
	rec_chunk *items = arena_alloc(a, (n + 1) * sizeof(items[0]));
	if (rec->chunks == NULL || items == NULL)
		return -ENOMEM;
	rec->n_chunks = n;
	for (size_t i = 0; i < n; i++) {
		terrane__rec__chunk__init(&items[i]);
		items[i].disk = chunks[i].disk;
		items[i].crc = chunks[i].crc;
		items[i].damaged = chunks[i].damaged;
		rec->chunks[i] = &items[i];
	}
	return 0;
}

/* Adds to t writes that put the rows of the reverse index for a block, or delete them. */
static void index_rows(struct txn *t, uint32_t tenant, uint64_t block, const rec_block *rec,
		       bool put)
{
	for (uint32_t i = 0; i < rec->n_chunks; i++) {
		if (rec->chunks[i]->disk == 0)
			continue;
		struct schema_key key = key_disk(rec->chunks[i]->disk, tenant, block);
		rec_on_disk row = TERRANE__REC__ON_DISK__INIT;
		row.index = i;
		if (put)
			txn_put(t, key, &row.base);
		else
			txn_delete(t, key);
	}
}

static int chunks_check(const struct meta_chunk *chunks, size_t n)
{
	if (n == 0 || n > META_CHUNKS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			if (chunks[i].disk != 0 && chunks[i].disk == chunks[j].disk)
				return -EINVAL;
	return 0;
}

static int block_check(const struct meta_block *b)
{
	if (b->id <= META_ROOT || b->epoch == 0 || b->encoding[0] == '\0' ||
	    memchr(b->encoding, 0, sizeof(b->encoding)) == NULL || !cluster_media_valid(b->media) ||
	    b->placement > META_PLACEMENT_MAX)
		return -EINVAL;
	if (b->capacity > META_BLOCK_MAX || b->capacity == 0)
		return b->capacity == 0 ? -EINVAL : -EOVERFLOW;
	return chunks_check(b->chunks, b->chunk_count);
}

/* --- allocation and commit -------------------------------------------------------------------- */

int meta_block_allocate(struct meta *m, const struct meta_ctx *ctx, struct meta_block *b)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	rec_block rec = TERRANE__REC__BLOCK__INIT;
	int rc = block_check(b);
	if (rc == 0)
		rc = block_chunks_set(&rec, b->chunks, b->chunk_count, &a);
	if (rc != 0)
		return rc;
	rec.state = META_BLOCK_PENDING;
	rec.epoch = b->epoch;
	rec.chunk_block = b->id;
	rec.capacity = b->capacity;
	rec.media = b->media;
	rec.placement = b->placement;
	rec.born_s = b->placement != META_PLACEMENT_NONE ? (uint32_t)(rt_wall_ns() / NS_PER_S) : 0;
	rec.writer = b->writer;
	rec.encoding = (char *)b->encoding;
	rec.alloc_id = b->alloc_id = meta_id();
	assert(rec.alloc_id != 0 && rec.n_chunks == b->chunk_count);
	rec_suspect pending = TERRANE__REC__SUSPECT__INIT;
	struct txn t;
	txn_init(&t, &a);
	t.early = b->capacity <= SMALL_BYTES;
	txn_absent(&t, key_id(KEY_BLOCK, ctx->tenant, b->id));
	txn_absent(&t, key_ids(KEY_DEAD_CHUNKS, ctx->tenant, b->id, b->id));
	txn_put(&t, key_id(KEY_BLOCK, ctx->tenant, b->id), &rec.base);
	txn_put(&t, key_id(KEY_PENDING, ctx->tenant, b->id), &pending.base);
	index_rows(&t, ctx->tenant, b->id, &rec, true);
	rc = txn_run(m, &t, part_block(m, ctx->tenant, b->id), NULL);
	if (rc != -ESTALE)
		return rc;
	struct kv_bytes raw;
	rec_block *stored;
	rc = block_read(m, ctx->tenant, b->id, &a, &raw, &stored);
	if (rc != 0)
		return rc;
	if (stored == NULL || stored->epoch != b->epoch || stored->capacity != b->capacity ||
	    stored->media != b->media)
		return -EEXIST;
	b->alloc_id = stored->alloc_id;
	return 0;
}

static void owner_rows(struct txn *t, uint32_t tenant, uint64_t block,
		       const struct meta_owner *owners, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rec_owner o = TERRANE__REC__OWNER__INIT;
		o.bytes = owners[i].bytes;
		txn_put(t, key_ids(KEY_OWNER, tenant, block, owners[i].file), &o.base);
	}
}

static int owners_check(const struct meta_owner *owners, size_t n)
{
	if (n > META_OWNERS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (owners[i].file <= META_ROOT)
			return -EINVAL;
		if (owners[i].bytes > META_BLOCK_MAX)
			return -EOVERFLOW;
	}
	return 0;
}

int meta_block_own(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		   const struct meta_owner *owners, size_t n)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	int rc = n == 0 ? -EINVAL : owners_check(owners, n);
	if (rc != 0)
		return rc;
	struct txn t;
	txn_init(&t, &a);
	txn_present(&t, key_id(KEY_BLOCK, ctx->tenant, block));
	txn_absent(&t, key_id(KEY_PENDING, ctx->tenant, block));
	txn_absent(&t, key_id(KEY_LEAVING, ctx->tenant, block)); /* it was refunded */
	owner_rows(&t, ctx->tenant, block, owners, n);
	txn_delete(&t, key_id(KEY_SUSPECT, ctx->tenant, block));
	rc = txn_run(m, &t, part_block(m, ctx->tenant, block), NULL);
	return rc == -ESTALE ? -ENOENT : rc;
}

int block_hold(struct meta *m, uint32_t tenant, uint64_t block, const struct meta_owner *owners,
	       size_t n, struct arena *a)
{
	struct schema_key *keys = arena_alloc(a, (n + 2) * sizeof(*keys));
	struct kv_bytes *list = arena_alloc(a, (n + 2) * sizeof(*list));
	struct meta_owner *again = arena_alloc(a, (n + 1) * sizeof(*again));
	if (keys == NULL || list == NULL || again == NULL)
		return -ENOMEM;
	keys[0] = key_id(KEY_BLOCK, tenant, block);
	keys[1] = key_id(KEY_PENDING, tenant, block);
	for (size_t i = 0; i < n; i++)
		keys[i + 2] = key_ids(KEY_OWNER, tenant, block, owners[i].file);
	for (size_t i = 0; i < n + 2; i++)
		list[i] = key_bytes(&keys[i]);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	int rc = kv_get(m->kv, part_block(m, tenant, block), list, n + 2, &rows);
	if (rc == 0 && (!rows.row[0].found || rows.row[1].found))
		rc = -ENOENT;
	size_t count = 0;
	for (size_t i = 0; i < n && rc == 0; i++) {
		rec_owner *o = NULL;
		if (rows.row[i + 2].found)
			rc = rec_read_owner(a, rows.row[i + 2].value, &o);
		if (rc != 0 || (o != NULL && o->mark == 0))
			continue;
		again[count] = owners[i];
		if (o != NULL)
			again[count].bytes = o->bytes;
		count++;
	}
	if (rc != 0 || count == 0)
		return rc;
	return meta_block_own(m, &(struct meta_ctx){.tenant = tenant}, block, again, count);
}

/* Input of commit_write in addition to the block that the caller passed. */
struct commit {
	struct kv_bytes raw; /* pending record as stored */
	rec_block *rec;      /* pending record, decoded */
	const struct meta_owner *owners;
	size_t owner_count;
	uint64_t charge; /* random number of the charge for the block */
};

/* Writes the committed record together with its owners and index rows. META_RETRY: the record has changed since it
 * was read. */
static int commit_write(struct meta *m, uint32_t tenant, const struct meta_block *b,
			struct commit *k, struct arena *a)
{
	rec_block *rec = k->rec;
	assert(rec->state == META_BLOCK_PENDING && rec->epoch == b->epoch);
	assert(k->charge != 0 && b->length <= rec->capacity);
	struct txn t;
	txn_init(&t, a);
	t.early = b->early;
	txn_equals(&t, key_id(KEY_BLOCK, tenant, b->id), k->raw);
	index_rows(&t, tenant, b->id, rec, false);
	int rc = block_chunks_set(rec, b->chunks, b->chunk_count, a);
	if (rc != 0)
		return rc;
	rec->state = b->state;
	rec->length = b->length;
	rec->chunk_length = b->chunk_length;
	rec->crc = b->crc;
	rec->charge = k->charge;
	rec->charged = b->state == META_BLOCK_SEALED ? b->length : rec->capacity;
	rec->layout = 1;
	rec->alloc_id = 0;
	txn_put(&t, key_id(KEY_BLOCK, tenant, b->id), &rec->base);
	txn_delete(&t, key_id(KEY_PENDING, tenant, b->id));
	index_rows(&t, tenant, b->id, rec, true);
	owner_rows(&t, tenant, b->id, k->owners, k->owner_count);
	rec_suspect alone = TERRANE__REC__SUSPECT__INIT;
	if (k->owner_count == 0)
		txn_put(&t, key_id(KEY_SUSPECT, tenant, b->id), &alone.base);
	rc = txn_run(m, &t, part_block(m, tenant, b->id), NULL);
	return rc == -ESTALE ? META_RETRY : rc;
}

static int commit_once(struct meta *m, uint32_t tenant, const struct meta_block *b,
		       const struct meta_owner *owners, size_t n, struct arena *a)
{
	struct commit k = {.owners = owners, .owner_count = n};
	int rc = block_read(m, tenant, b->id, a, &k.raw, &k.rec);
	const rec_block *rec = k.rec;
	if (rc == 0 &&
	    (rec == NULL || (rec->state == META_BLOCK_PENDING && rec->alloc_id != b->alloc_id)))
		rc = -ENOENT;
	if (rc == 0 && rec->epoch != b->epoch)
		rc = -ESTALE;
	if (rc == 0 && b->length > rec->capacity)
		rc = -EFBIG;
	if (rc != 0)
		return rc;
	if (rec->state != META_BLOCK_PENDING)
		return n > 0 ? meta_block_own(m, &(struct meta_ctx){.tenant = tenant}, b->id,
					      owners, n)
			     : 0;
	uint64_t charge = k.charge = meta_id();
	uint64_t bytes = b->state == META_BLOCK_SEALED ? b->length : rec->capacity;
	rc = account_charge(m, tenant, b->id, charge, bytes, b->over_quota);
	if (rc != 0)
		return rc;
	rc = commit_write(m, tenant, b, &k, a);
	/* If the result is in doubt, the note of the charge stays, and the collector finds out whether the block
	 * has the charge. */
	if (rc == 0) {
		account_settled(m, tenant, b->id, charge);
	} else if (!kv_unknown(rc)) {
		rt_shield_enter(); /* undo the charge even if the request's deadline has passed */
		account_uncharge(m, tenant, b->id, charge);
		rt_shield_leave();
	}
	return rc;
}

int meta_block_commit(struct meta *m, const struct meta_ctx *ctx, const struct meta_block *b,
		      const struct meta_owner *owners, size_t n)
{
	int rc = chunks_check(b->chunks, b->chunk_count);
	if (rc == 0 && b->state != META_BLOCK_OPEN && b->state != META_BLOCK_SEALED)
		rc = -EINVAL;
	if (rc == 0 && b->length > META_BLOCK_MAX)
		rc = -EOVERFLOW;
	if (rc == 0)
		rc = owners_check(owners, n);
	for (unsigned try = 0; rc == 0; try++) {
		AUTO_ARENA struct arena a;
		arena_init(&a, META_OP_BYTES);
		rc = commit_once(m, ctx->tenant, b, owners, n, &a);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
	}
	return rc;
}

/* --- reading ---------------------------------------------------------------------------------- */

#define GET_FIBERS 8 /* number of partitions that are read concurrently */

/* State of one meta_block_get, used by all of its fibers. */
struct getting {
	struct meta *m;
	uint32_t tenant;
	const uint64_t *blocks;
	size_t n;
	struct arena *arena;
	struct meta_block *out;
	/* partition of each block; 0: a fiber reads the block, or has read it */
	uint64_t *partitions;
	/* Arrays of n slots; each group of blocks in one partition uses a range of the slots. */
	struct schema_key *keys;
	struct kv_bytes *list;
	size_t *which; /* index in `out` of the block of each slot */
	size_t taken;  /* slots in use */
	size_t next;   /* index of the next block to consider */
	int rc;
};

/* Reads all blocks that are in the partition of the i-th block. */
static int get_group(struct getting *g, size_t i)
{
	uint64_t partition = g->partitions[i];
	size_t first = g->taken;
	for (size_t j = i; j < g->n; j++) {
		if (g->partitions[j] != partition)
			continue;
		size_t slot = g->taken++;
		assert(slot < g->n);
		g->partitions[j] = 0;
		g->which[slot] = j;
		g->keys[slot] = key_id(KEY_BLOCK, g->tenant, g->blocks[j]);
		g->list[slot] = key_bytes(&g->keys[slot]);
	}
	size_t count = g->taken - first;
	AUTO_KV_ROWS struct kv_rows rows = {0};
	int rc = kv_get(g->m->kv, partition, g->list + first, count, &rows);
	for (size_t j = 0; j < count && rc == 0; j++) {
		rec_block *rec;
		size_t at = g->which[first + j];
		if (!rows.row[j].found)
			continue;
		rc = rec_read_block(g->arena, rows.row[j].value, &rec);
		if (rc == 0)
			rc = block_from_record(g->blocks[at], rec, g->arena, &g->out[at]);
	}
	return rc;
}

static void get_groups(void *arg)
{
	struct getting *g = arg;
	while (g->rc == 0 && g->next < g->n) {
		size_t i = g->next++;
		int rc = g->partitions[i] != 0 ? get_group(g, i) : 0;
		if (rc != 0)
			g->rc = rc;
	}
}

int meta_block_get(struct meta *m, const struct meta_ctx *ctx, const uint64_t *blocks, size_t n,
		   struct arena *arena, struct meta_block *out)
{
	if (n == 0 || n > META_BATCH_MAX)
		return -EINVAL;
	struct getting g = {.m = m,
			    .tenant = ctx->tenant,
			    .blocks = blocks,
			    .n = n,
			    .arena = arena,
			    .out = out,
			    .partitions = arena_alloc(arena, n * sizeof(g.partitions[0])),
			    .keys = arena_alloc(arena, n * sizeof(g.keys[0])),
			    .list = arena_alloc(arena, n * sizeof(g.list[0])),
			    .which = arena_alloc(arena, n * sizeof(g.which[0]))};
	if (g.partitions == NULL || g.keys == NULL || g.list == NULL || g.which == NULL)
		return -ENOMEM;
	memset(out, 0, n * sizeof(out[0]));
	for (size_t i = 0; i < n; i++)
		g.partitions[i] = part_block(m, ctx->tenant, blocks[i]);
	struct rt_fiber *fibers[GET_FIBERS];
	size_t others = 0;
	while (others + 1 < min_u64(n, GET_FIBERS) &&
	       rt_spawn(&fibers[others], "meta-blocks", get_groups, &g) == 0)
		others++;
	get_groups(&g);
	while (others > 0)
		rt_join(fibers[--others]);
	assert(g.rc != 0 || g.taken == n); /* every block was read exactly once */
	return g.rc;
}

int64_t meta_block_owners(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
			  uint64_t after, struct meta_owner *out, size_t max)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct schema_key prefix = key_id(KEY_OWNER, ctx->tenant, block);
	struct schema_key from = key_ids(KEY_OWNER, ctx->tenant, block, after);
	struct kv_range range = {.prefix = key_bytes(&prefix),
				 .after = key_bytes(&from),
				 .rows_max = min_u64(max, KV_SCAN_ROWS_MAX)};
	if (max == 0)
		return -EINVAL;
	int rc = kv_scan(m->kv, part_block(m, ctx->tenant, block), &range, &rows);
	for (size_t i = 0; i < rows.count && rc == 0; i++) {
		uint32_t tenant;
		uint64_t b;
		rec_owner *o;
		if (!key_read_ids(rows.row[i].key, &tenant, &b, &out[i].file))
			return -EBADMSG;
		rc = rec_read_owner(&a, rows.row[i].value, &o);
		if (rc == 0)
			out[i].bytes = o->bytes;
	}
	return rc != 0 ? rc : (int64_t)rows.count;
}

/* --- deletion --------------------------------------------------------------------------------- */

void block_delete(struct txn *t, uint32_t tenant, uint64_t block, struct kv_bytes raw,
		  const rec_block *rec)
{
	assert(raw.data != NULL && rec->chunk_block != 0);
	rec_dead_chunks z = TERRANE__REC__DEAD_CHUNKS__INIT;
	z.encoding = rec->encoding;
	z.chunks = rec->chunks;
	z.n_chunks = rec->n_chunks;
	z.refund = rec->charged;
	z.charge = rec->charge;
	txn_equals(t, key_id(KEY_BLOCK, tenant, block), raw);
	txn_delete(t, key_id(KEY_BLOCK, tenant, block));
	txn_delete(t, key_id(KEY_PENDING, tenant, block));
	txn_delete(t, key_id(KEY_SUSPECT, tenant, block));
	txn_delete(t, key_id(KEY_LEAVING, tenant, block));
	index_rows(t, tenant, block, rec, false);
	txn_put(t, key_ids(KEY_DEAD_CHUNKS, tenant, block, rec->chunk_block), &z.base);
}

int block_refund(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge, uint64_t bytes)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	int rc = account_refund(m, tenant, block, charge, bytes);
	if (rc != 0)
		return rc;
	struct txn t;
	txn_init(&t, &a);
	txn_delete(&t, key_ids(KEY_REFUND, tenant, block, charge));
	return txn_run(m, &t, part_block(m, tenant, block), NULL);
}
