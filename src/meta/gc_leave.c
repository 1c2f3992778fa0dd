// SPDX-License-Identifier: Apache-2.0
/*
 * Refunds for blocks that nobody can name any more.
 *
 * A removed file can be read by its id for a grace period, and its blocks exist for several. The tenant is not charged for
 * that time: as soon as the collector sees that a file lost its name (the first look at the tombstone), it marks the owner
 * rows of the file, and a block all of whose owners are marked is refunded. The bytes are counted as waiting until the
 * chunks are deleted.
 *
 *   tombstone seen   owner rows of the file: leaving; the block gets a KEY_SUSPECT row
 *   KEY_SUSPECT row  all owners leave: KEY_LEAVING row, look again at the owners, then used_bytes -= n, waiting_bytes += n
 *   chunks deleted   waiting_bytes -= n (meta_gc_chunks_done)
 *
 * From the KEY_LEAVING row on the block takes no new owner (meta_block_own), so that nobody gets it for nothing. The note of
 * the refund makes it happen once; it is kept as long as the block or its dead chunks exist (gc_block.c).
 */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "meta/block.h"
#include "meta/file.h"
#include "meta/gc_impl.h"
#include "rt/rt.h"

/* --- a file that lost its name ------------------------------------------------------------------ */

struct leaving {
	struct gc *g;
	uint32_t tenant;
	uint64_t file;
	uint64_t block; /* the last one that was marked */
	uint64_t until_ns;
};

/* Marks the owner row of the file in a block, and the block for a look at its owners. */
static int owner_leaves(void *ctx, uint64_t offset, const struct meta_extent *e)
{
	(void)offset;
	struct leaving *l = ctx;
	struct meta *m = l->g->m;
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	if (e->block == l->block)
		return 0;
	if (rt_now_ns() >= l->until_ns)
		return META_STOP; /* a very large file: its other blocks are refunded when they are deleted */
	l->block = e->block;
	uint64_t partition = part_of(m, META_LAYER_BLOCK, l->tenant, e->block);
	struct schema_key key = key_ids(KEY_OWNER, l->tenant, e->block, l->file);
	struct reads r;
	rec_owner *o = NULL;
	int rc = meta_read(m, partition, &key, 1, &a, &r);
	if (rc == 0 && r.value[0].data != NULL)
		rc = rec_read_owner(&a, r.value[0], &o);
	if (rc != 0 || o == NULL || o->leaving)
		return rc;
	o->leaving = true;
	rec_suspect y = TERRANE__REC__SUSPECT__INIT;
	struct txn t;
	txn_init(&t, &a);
	txn_equals(&t, key, r.value[0]);
	txn_present(&t, key_id(KEY_BLOCK, l->tenant, e->block));
	txn_put(&t, key, &o->base);
	txn_put(&t, key_id(KEY_SUSPECT, l->tenant, e->block), &y.base);
	rc = txn_run(m, &t, partition, NULL);
	return rc == -ESTALE ? 0 : rc;
}

int gc_file_leaves(struct gc *g, uint32_t tenant, uint64_t file)
{
	struct kv_bytes raw;
	rec_file *f;
	bool dead;
	int rc = file_read(g->m, tenant, file, g->a, &raw, &f, &dead);
	if (rc != 0 || f == NULL || dead || !f->sealed)
		return rc;
	struct leaving l = {
		.g = g, .tenant = tenant, .file = file, .until_ns = rt_now_ns() + GC_SEARCH_NS};
	rc = file_extents(g->m, tenant, file, f, g->a, owner_leaves, &l);
	/* Damaged extents are reported where the file is removed. */
	return rc == META_STOP || rc == -EBADMSG ? 0 : rc;
}

/* --- a block whose owners leave ------------------------------------------------------------------ */

/* Sets *leaving to whether the block has owners, and all of them leave. */
static int all_leave(struct gc *g, uint32_t tenant, uint64_t block, bool *leaving)
{
	struct schema_key prefix = key_id(KEY_OWNER, tenant, block);
	struct schema_key after = {0};
	AUTO_KV_ROWS struct kv_rows rows = {0};
	bool any = false;
	*leaving = false;
	do {
		AUTO_ARENA struct arena a;
		arena_init(&a, META_OP_BYTES);
		struct kv_range range = {.prefix = key_bytes(&prefix), .after = key_bytes(&after)};
		int rc = kv_scan(g->m->kv, g->partition, &range, &rows);
		for (size_t i = 0; i < rows.count && rc == 0; i++) {
			rec_owner *o;
			rc = rec_read_owner(&a, rows.row[i].value, &o);
			if (rc == 0 && !o->leaving)
				return 0;
			after = gc_key(rows.row[i].key);
			any = true;
		}
		if (rc != 0)
			return rc;
	} while (rows.more);
	*leaving = any;
	return 0;
}

/* Puts or deletes the row that keeps new owners off, if the block is still as it was read. */
static int leaving_row(struct gc *g, uint32_t tenant, uint64_t block, struct kv_bytes raw, bool put)
{
	rec_suspect l = TERRANE__REC__SUSPECT__INIT;
	struct txn t;
	txn_init(&t, g->a);
	txn_equals(&t, key_id(KEY_BLOCK, tenant, block), raw);
	if (put)
		txn_put(&t, key_id(KEY_LEAVING, tenant, block), &l.base);
	else
		txn_delete(&t, key_id(KEY_LEAVING, tenant, block));
	return txn_run(g->m, &t, g->partition, NULL);
}

int gc_block_leaves(struct gc *g, uint32_t tenant, uint64_t block)
{
	struct kv_bytes raw;
	rec_block *rec;
	bool leaving = false;
	int rc = block_read(g->m, tenant, block, g->a, &raw, &rec);
	if (rc != 0 || rec == NULL || rec->state != META_BLOCK_SEALED || rec->charge == 0)
		return rc;
	rc = all_leave(g, tenant, block, &leaving);
	if (rc != 0 || !leaving)
		return rc;
	rc = leaving_row(g, tenant, block, raw, true);
	if (rc == 0)
		rc = all_leave(g, tenant, block, &leaving);
	if (rc == 0 && !leaving)
		rc = leaving_row(g, tenant, block, raw, false);
	else if (rc == 0)
		rc = account_release(g->m, tenant, block, rec->charge, rec->charged);
	/* The block has changed: another round looks at it, or its bytes are refunded when it is deleted. */
	return rc == -ESTALE ? 0 : rc;
}
