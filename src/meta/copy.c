// SPDX-License-Identifier: Apache-2.0
/*
 * Copies the extents of a file that is moved to another directory: the new file is an owner of the same blocks and has
 * the same extents.
 *
 * The copy writes batches of extents: first an owner row for each block of the batch, several at once, then the
 * extents. So an extent that exists has its owner row, and an interrupted copy can be continued: extents that exist are
 * only read. For a file with its extents in its record, only owner rows are written.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "meta/file.h"
#include "rt/rt.h"

#define COPY_BATCH 256
#define COPY_FIBERS 16
#define COPY_BLOCKS_MAX (1U << 24)

struct copy {
	struct meta *m;
	uint32_t tenant;
	uint64_t to;
	bool by_key;
	struct map bytes; /* block id -> bytes of the block that the new file has so far */
	size_t count;
	struct meta_extent extents[COPY_BATCH];
	uint64_t ends[COPY_BATCH]; /* end of each extent in the file, which is the key of its row */
	/* blocks of the batch whose owner rows are written */
	uint64_t blocks[COPY_BATCH];
	size_t block_count, next;
	uint64_t deadline_ns;
	int rc; /* first error of writing an owner row */
};

/* Fiber: writes owner rows until the batch has no blocks left or a write has failed. */
static void own_blocks_fiber(void *arg)
{
	struct copy *c = arg;
	uint64_t before = rt_deadline();
	rt_deadline_set(c->deadline_ns);
	while (c->rc == 0 && c->next < c->block_count) {
		assert(c->block_count <= COPY_BATCH);
		uint64_t block = c->blocks[c->next++];
		struct meta_owner owner = {.file = c->to,
					   .bytes = (uint64_t)(uintptr_t)map_get(&c->bytes, block)};
		int rc = meta_block_own(c->m, &(struct meta_ctx){.tenant = c->tenant}, block,
					&owner, 1);
		if (rc != 0 && c->rc == 0)
			c->rc = rc;
	}
	rt_deadline_set(before);
}

static int own_blocks(struct copy *c)
{
	struct rt_group g;
	rt_group_init(&g);
	c->next = 0;
	c->rc = 0;
	c->deadline_ns = rt_deadline();
	/* If fibers cannot be started, the loop below does all the work. */
	for (size_t i = 1; i < COPY_FIBERS && i < c->block_count; i++)
		if (rt_group_spawn(&g, "meta-copy", own_blocks_fiber, c) != 0)
			break;
	own_blocks_fiber(c);
	rt_group_join(&g);
	return c->rc;
}

static void add_block(struct copy *c, uint64_t block)
{
	for (size_t i = 0; i < c->block_count; i++)
		if (c->blocks[i] == block)
			return;
	assert(c->block_count < c->count);
	c->blocks[c->block_count++] = block;
}

/* Adds to t the extents of the batch that the new file does not have yet, and adds their bytes to c->bytes. */
static int missing_extents(struct copy *c, struct txn *t)
{
	/* The array is too large for the stack of a fiber. */
	AUTO_FREE struct schema_key *keys = calloc(c->count, sizeof(*keys));
	AUTO_FREE struct kv_bytes *list = calloc(c->count, sizeof(*list));
	AUTO_KV_ROWS struct kv_rows rows = {0};
	if (keys == NULL || list == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < c->count; i++) {
		keys[i] = key_ids(KEY_EXTENT, c->tenant, c->to, c->ends[i]);
		list[i] = key_bytes(&keys[i]);
	}
	int rc = kv_get(c->m->kv, part_of(c->m, META_LAYER_FILE, c->tenant, c->to), list, c->count,
			&rows);
	for (size_t i = 0; i < c->count && rc == 0; i++) {
		rec_extent x;
		struct kv_bytes value;
		rec_extent_set(&x, &c->extents[i]);
		rc = rec_pack(t->arena, &x.base, &value);
		if (rc != 0 || (rows.row[i].found && kv_equal(rows.row[i].value, value)))
			continue;
		add_block(c, c->extents[i].block);
		txn_put_bytes(t, keys[i], value);
	}
	return rc;
}

static int copy_batch(struct copy *c)
{
	if (c->count == 0)
		return 0;
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct txn t;
	txn_init(&t, &a);
	c->block_count = 0;
	int rc = 0;
	if (c->by_key)
		rc = missing_extents(c, &t);
	else
		for (size_t i = 0; i < c->count; i++)
			add_block(c, c->extents[i].block);
	if (rc == 0)
		rc = own_blocks(c);
	if (rc == 0 && t.write_count > 0)
		rc = txn_run(c->m, &t, part_of(c->m, META_LAYER_FILE, c->tenant, c->to), NULL);
	c->count = 0;
	return rc;
}

static int copy_one(void *ctx, uint64_t offset, const struct meta_extent *e)
{
	struct copy *c = ctx;
	assert(c->count < COPY_BATCH);
	assert(!e->open); /* the source file is sealed, so it has no open extent */
	uint64_t bytes = (uint64_t)(uintptr_t)map_remove(&c->bytes, e->block) + e->length;
	int rc = map_put(&c->bytes, e->block, (void *)(uintptr_t)bytes);
	if (rc != 0)
		return rc;
	c->extents[c->count] = *e;
	c->ends[c->count++] = offset + e->length;
	return c->count < COPY_BATCH ? 0 : copy_batch(c);
}

int file_copy_extents(struct meta *m, uint32_t tenant, const rec_file *f, uint64_t from,
		      uint64_t to, struct arena *a)
{
	assert(f->sealed && from != to);
	AUTO_FREE struct copy *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	c->m = m;
	c->tenant = tenant;
	c->to = to;
	c->by_key = f->n_extents == 0;
	map_init(&c->bytes, COPY_BLOCKS_MAX);
	int rc = file_extents(m, tenant, from, f, a, copy_one, c);
	if (rc == 0)
		rc = copy_batch(c);
	assert(rc != 0 || c->count == 0);
	map_fini(&c->bytes);
	return rc;
}
