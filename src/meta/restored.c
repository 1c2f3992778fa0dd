// SPDX-License-Identifier: Apache-2.0
#include "meta/restored.h"

#include <assert.h>
#include <errno.h>

#include "meta/block.h"
#include "meta/gc.h"
#include "meta/impl.h"
#include "meta/map.h"
#include "meta/token_ring.h"
#include "rt/rt.h"

/* Fences the writer of an open block. Sets *open to whether the block was open. */
static int block_fence(struct meta *m, uint64_t partition, const struct kv_row *row, bool *open)
{
	AUTO_ARENA struct arena a;
	rec_block *b;
	arena_init(&a, META_OP_BYTES);
	int rc = rec_read_block(&a, row->value, &b);
	*open = rc == 0 && b->state == META_BLOCK_OPEN;
	if (rc < 0 || !*open)
		return rc;
	if (b->epoch > UINT64_MAX - META_BLOCK_EPOCH_JUMP)
		return -EOVERFLOW;
	b->epoch += META_BLOCK_EPOCH_JUMP;
	struct schema_key key = {.len = row->key.len};
	assert(row->key.len <= sizeof(key.bytes));
	memcpy(key.bytes, row->key.data, row->key.len);
	struct txn t;
	txn_init(&t, &a);
	txn_equals(&t, key, row->value);
	txn_put(&t, key, &b->base);
	t.early = true; /* the last change of the restore is durable, and so are all before it */
	return txn_run(m, &t, partition, NULL);
}

static int partition_fence(struct meta *m, uint64_t partition, uint64_t *open_blocks)
{
	static const char kind = KEY_BLOCK;
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct schema_key after = {0};
	do {
		struct kv_range range = {.prefix = kv_bytes(&kind, 1),
					 .after = kv_bytes(after.bytes, after.len)};
		int rc = kv_scan(m->kv, partition, &range, &rows);
		for (size_t i = 0; rc == 0 && i < rows.count; i++) {
			bool open = false;
			rc = rows.row[i].key.len > SCHEMA_KEY_MAX
				     ? -EBADMSG
				     : block_fence(m, partition, &rows.row[i], &open);
			*open_blocks += open;
		}
		if (rc < 0)
			return rc;
		if (rows.count > 0) {
			struct kv_bytes last = rows.row[rows.count - 1].key;
			after.len = last.len;
			memcpy(after.bytes, last.data, last.len);
		}
	} while (rows.more);
	return 0;
}

static int writers_fence(struct meta *m, uint64_t *open_blocks)
{
	uint64_t end = meta_gc_partitions(m);
	int rc = 0;
	for (uint64_t i = 0; rc == 0 && i < end; i++) {
		rc = meta_gc_skip(m, META_GC_BLOCKS, &i, end);
		if (rc == 0 && i < end)
			rc = partition_fence(m, schema_partition_at(META_LAYER_BLOCK, i),
					     open_blocks);
	}
	return rc;
}

int meta_restored(struct kv *kv, const struct meta_options *o, const char *why,
		  struct meta_restored_report *out)
{
	struct meta *m = NULL;
	struct meta_options options = *o;
	options.only_existing = true;
	options.cache_bytes = 0;
	*out = (struct meta_restored_report){0};
	int rc = meta_open(&m, kv, &options);
	if (rc == 0)
		rc = writers_fence(m, &out->open_blocks);
	if (rc == 0)
		rc = meta_map_restored(kv, &out->map_version);
	if (rc == 0)
		rc = token_ring_restored(m, rt_wall_ns() / NS_PER_MS);
	/* The last change: it is durable only after all others. */
	if (rc == 0)
		rc = meta_gc_restored(m, why);
	if (rc == 0)
		rc = meta_gc_epoch(m, &out->epoch);
	meta_close(m);
	return rc;
}
