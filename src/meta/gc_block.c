// SPDX-License-Identifier: Apache-2.0
/* Collectors of blocks, owners and accounts; the lists of dead chunks and of the reverse index. */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "base/bug.h"
#include "meta/block.h"
#include "meta/file.h"
#include "meta/gc_impl.h"

#define OWNER_EXTENTS_MAX 65536 /* largest number of extents that a search for one owner reads */

static uint64_t part_block(const struct meta *m, uint32_t tenant, uint64_t block)
{
	return part_of(m, META_LAYER_BLOCK, tenant, block);
}

/* --- blocks without commit, blocks without owner ---------------------------------------------- */

/* Turns a block into dead chunks, unless the block or the row through which the collector found it has changed. */
static int delete_block(struct gc *g, uint32_t tenant, uint64_t block, const struct kv_row *row,
			struct kv_bytes raw, const rec_block *rec)
{
	struct txn t;
	txn_init(&t, g->a);
	txn_equals(&t, gc_key(row->key), row->value);
	block_delete(&t, tenant, block, raw, rec);
	int rc = txn_run(g->m, &t, g->partition, NULL);
	if (rc == 0)
		g->counts->collected++;
	return rc == -ESTALE ? 0 : rc;
}

/* Handles a row that marks a block as pending, or as a block that may have no owner. */
static int suspect_row(struct gc *g, uint32_t tenant, uint64_t block, const struct kv_row *row,
		       bool pending)
{
	rec_suspect *y;
	int rc = rec_read_suspect(g->a, row->value, &y);
	if (rc == 0 && !pending && y->mark == 0)
		rc = gc_block_leaves(g, tenant, block);
	if (rc != 0 || gc_in_grace(g, row, &y->mark, &y->base, &rc))
		return rc;
	struct kv_bytes raw;
	rec_block *rec;
	bool owned = false;
	rc = block_read(g->m, tenant, block, g->a, &raw, &rec);
	if (rc == 0)
		rc = meta_prefix_exists(g->m, g->partition, key_id(KEY_OWNER, tenant, block),
					&owned);
	if (rc != 0)
		return rc;
	if (bug_planted(BUG_COLLECT_SHARED))
		owned = false;
	if (rec == NULL || (!pending && owned) || (rec->state == META_BLOCK_PENDING) != pending)
		return gc_delete(g, row);
	return delete_block(g, tenant, block, row, raw, rec);
}

static int refund_row(struct gc *g, const struct kv_row *row)
{
	uint32_t tenant;
	uint64_t block;
	uint64_t charge;
	rec_refund *v;
	if (!key_read_ids(row->key, &tenant, &block, &charge))
		return -EBADMSG;
	int rc = rec_read_refund(g->a, row->value, &v);
	if (rc == 0)
		rc = block_refund(g->m, tenant, block, charge, v->bytes);
	if (rc == 0)
		g->counts->collected++;
	return rc;
}

int gc_blocks_row(struct gc *g, const struct kv_row *row)
{
	uint32_t tenant;
	uint64_t block;
	enum key_kind kind = key_kind(row->key);
	if (kind == KEY_REFUND)
		return refund_row(g, row);
	if (!key_read_id(row->key, &tenant, &block))
		return -EBADMSG;
	return suspect_row(g, tenant, block, row, kind == KEY_PENDING);
}

/* --- owners that have no extent --------------------------------------------------------------- */

struct extent_search {
	uint64_t block;
	size_t left; /* number of extents that the search may still read */
};

static int has_block(void *ctx, uint64_t offset, const struct meta_extent *e)
{
	(void)offset;
	struct extent_search *l = ctx;
	return e->block == l->block || l->left-- == 0 ? META_STOP : 0;
}

/*
 * Sets *empty to whether a block is open and has no bytes. The last extent of a log can have such a block before
 * the first append to it. Other empty open blocks remain from writers that crashed or were fenced before they
 * added an extent.
 */
static int is_empty_open(struct gc *g, uint32_t tenant, uint64_t block, bool *empty)
{
	struct kv_bytes raw;
	rec_block *b;
	int rc = block_read(g->m, tenant, block, g->a, &raw, &b);
	*empty = rc == 0 && b != NULL && b->state == META_BLOCK_OPEN && b->length == 0;
	return rc;
}

/*
 * Sets *holds to whether the file has an extent in the block, or may get one. *held is the field `held` of the
 * Owner: for a sealed file with extent rows, the function stores in it the state of the file that was searched, so
 * that the same state is not searched again. A file with more than OWNER_EXTENTS_MAX extents keeps all its owner
 * rows until the file is deleted.
 */
static int owner_holds(struct gc *g, uint32_t tenant, uint64_t block, uint64_t file, uint64_t *held,
		       bool *holds)
{
	*holds = true;
	struct kv_bytes raw;
	rec_file *f;
	bool dead;
	int rc = file_read(g->m, tenant, file, g->a, &raw, &f, &dead);
	if (rc != 0)
		return rc;
	if (f == NULL) {
		*holds = dead;
		return 0;
	}
	if (!f->sealed) {
		bool empty = false;
		if (f->last != NULL && f->last->block == block)
			return 0;
		rc = is_empty_open(g, tenant, block, &empty);
		*holds = !empty;
		return rc;
	}
	if (*held == f->changes + 1)
		return 0;
	struct extent_search l = {.block = block, .left = OWNER_EXTENTS_MAX};
	rc = file_extents(g->m, tenant, file, f, g->a, has_block, &l);
	*holds = rc == META_STOP;
	*held = *holds && f->n_extents == 0 ? f->changes + 1 : 0;
	return rc == META_STOP ? 0 : rc;
}

int gc_owners_row(struct gc *g, const struct kv_row *row)
{
	uint32_t tenant;
	uint64_t block;
	uint64_t file;
	rec_owner *o;
	if (!key_read_ids(row->key, &tenant, &block, &file))
		return -EBADMSG;
	int rc = rec_read_owner(g->a, row->value, &o);
	uint64_t held = rc == 0 ? o->held : 0;
	bool holds = false;
	if (rc == 0)
		rc = owner_holds(g, tenant, block, file, &held, &holds);
	if (rc != 0)
		return rc;
	if (holds) {
		if (o->mark == 0 && o->held == held)
			return 0;
		o->mark = 0;
		o->held = held;
		return gc_mark(g, row, &o->base);
	}
	if (gc_in_grace(g, row, &o->mark, &o->base, &rc))
		return rc;
	rec_suspect y = TERRANE__REC__SUSPECT__INIT;
	struct txn t;
	txn_init(&t, g->a);
	txn_equals(&t, gc_key(row->key), row->value);
	txn_present(&t, key_id(KEY_BLOCK, tenant, block));
	txn_delete(&t, gc_key(row->key));
	txn_put(&t, key_id(KEY_SUSPECT, tenant, block), &y.base);
	rc = txn_run(g->m, &t, g->partition, NULL);
	if (rc == 0)
		g->counts->collected++;
	return rc == -ESTALE ? 0 : rc;
}

/* --- accounts --------------------------------------------------------------------------------- */

/* Sets *found to whether a DeadChunks row of the block has this charge. */
static int dead_chunks_have_charge(struct gc *g, uint32_t tenant, uint64_t block, uint64_t charge,
				   bool *found)
{
	struct schema_key prefix = key_id(KEY_DEAD_CHUNKS, tenant, block);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_range range = {.prefix = key_bytes(&prefix)};
	int rc = kv_scan(g->m->kv, part_block(g->m, tenant, block), &range, &rows);
	*found = false;
	for (size_t i = 0; i < rows.count && rc == 0; i++) {
		rec_dead_chunks *z;
		rc = rec_read_dead_chunks(g->a, rows.row[i].value, &z);
		*found = *found || (rc == 0 && z->charge == charge);
	}
	return rc;
}

static int charge_row(struct gc *g, uint32_t tenant, uint64_t block, uint64_t charge)
{
	struct kv_bytes raw;
	rec_block *rec;
	bool dead = false;
	int rc = block_read(g->m, tenant, block, g->a, &raw, &rec);
	if (rc != 0 || (rec != NULL && rec->state == META_BLOCK_PENDING))
		return rc;
	if (rec == NULL)
		rc = dead_chunks_have_charge(g, tenant, block, charge, &dead);
	if (rc != 0)
		return rc;
	g->counts->collected++;
	if (dead || (rec != NULL && rec->charge == charge))
		return account_charged(g->m, tenant, block, charge);
	return account_uncharge(g->m, tenant, block, charge);
}

static int refunded_row(struct gc *g, const struct kv_row *row, uint32_t tenant, uint64_t block,
			uint64_t charge)
{
	struct schema_key key = key_ids(KEY_REFUND, tenant, block, charge);
	struct reads r;
	rec_counted *note;
	bool dead = false;
	int rc = meta_read(g->m, part_block(g->m, tenant, block), &key, 1, g->a, &r);
	if (rc == 0)
		rc = dead_chunks_have_charge(g, tenant, block, charge, &dead);
	if (rc == 0)
		rc = rec_read_counted(g->a, row->value, &note);
	struct kv_bytes raw;
	rec_block *rec = NULL;
	if (rc == 0)
		rc = block_read(g->m, tenant, block, g->a, &raw, &rec);
	if (rc != 0 || r.value[0].data != NULL || dead || (rec != NULL && rec->charge == charge))
		return rc;
	if (note->mark == 0) {
		note->mark = g->now;
		return gc_mark(g, row, &note->base);
	}
	return gc_grace_over(g, note->mark) ? gc_delete(g, row) : 0;
}

int gc_accounts_row(struct gc *g, const struct kv_row *row)
{
	uint32_t tenant;
	uint64_t block;
	uint64_t charge;
	if (!key_read_ids(row->key, &tenant, &block, &charge))
		return -EBADMSG;
	if (key_kind(row->key) == KEY_CHARGED)
		return charge_row(g, tenant, block, charge);
	return refunded_row(g, row, tenant, block, charge);
}

/* --- dead chunks ------------------------------------------------------------------------------ */

static int chunks_from_record(rec_chunk *const *from, size_t n, struct arena *arena,
			      struct meta_chunk **out)
{
	*out = arena_alloc(arena, (n + 1) * sizeof(**out));
	if (*out == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		(*out)[i] = (struct meta_chunk){.disk = from[i]->disk, .crc = from[i]->crc};
	return 0;
}

struct dead_walk {
	struct gc
		g; /* must be the first field: the row function gets a pointer to it and converts it */
	struct arena *arena;
	struct meta_dead_chunks *out;
	size_t count;
	size_t max;
};

static int dead_row(struct gc *g, const struct kv_row *row)
{
	struct dead_walk *w = container_of(g, struct dead_walk, g);
	struct meta_dead_chunks d;
	rec_dead_chunks *z;
	if (!key_read_ids(row->key, &d.tenant, &d.block, &d.chunk_block))
		return -EBADMSG;
	int rc = rec_read_dead_chunks(g->a, row->value, &z);
	if (rc == 0 && z->mark == 0 && z->charge != 0 && z->refund > 0)
		rc = account_release(g->m, d.tenant, d.block, z->charge, z->refund);
	if (rc != 0 || gc_in_grace(g, row, &z->mark, &z->base, &rc))
		return rc;
	assert(w->count <= w->max);
	if (w->count == w->max)
		return META_STOP;
	d.chunk_count = z->n_chunks;
	rc = chunks_from_record(z->chunks, z->n_chunks, w->arena, &d.chunks);
	if (rc == 0)
		w->out[w->count++] = d;
	return rc;
}

int64_t meta_gc_chunks(struct meta *m, uint64_t index, uint64_t epoch, struct meta_gc_cursor *at,
		       struct arena *arena, struct meta_dead_chunks *out, size_t max)
{
	struct meta_gc_counts counts = {0};
	if (max == 0 || index >= meta_gc_partitions(m))
		return -EINVAL;
	struct dead_walk w = {.g = {.m = m,
				    .partition = schema_partition_at(META_LAYER_BLOCK, index),
				    .epoch = epoch,
				    .counts = &counts},
			      .arena = arena,
			      .out = out,
			      .max = max};
	int rc = 0;
	while (rc == 0 && !at->end)
		rc = gc_page(&w.g, GC_KINDS(KEY_DEAD_CHUNKS), at, dead_row);
	return rc < 0 ? rc : (int64_t)w.count;
}

int meta_gc_chunks_done(struct meta *m, uint32_t tenant, uint64_t block, uint64_t chunk_block)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct schema_key key = key_ids(KEY_DEAD_CHUNKS, tenant, block, chunk_block);
	uint64_t partition = part_block(m, tenant, block);
	struct reads r;
	rec_dead_chunks *z;
	int rc = meta_read(m, partition, &key, 1, &a, &r);
	if (rc != 0 || r.value[0].data == NULL)
		return rc;
	rc = rec_read_dead_chunks(&a, r.value[0], &z);
	/* Delete the note of the charge before the DeadChunks row: if block and dead chunks did not exist any
	 * more, the collector would find only the note and subtract the charge a second time. This also holds if a
	 * seal has refunded all bytes already. */
	if (rc == 0 && z->charge != 0)
		rc = account_charged(m, tenant, block, z->charge);
	if (rc == 0 && z->refund > 0)
		rc = account_refund(m, tenant, block, z->charge, z->refund);
	if (rc != 0)
		return rc;
	struct txn t;
	txn_init(&t, &a);
	txn_equals(&t, key, r.value[0]);
	txn_delete(&t, key);
	rc = txn_run(m, &t, partition, NULL);
	return rc == -ESTALE ? 0 : rc;
}

bool block_names_chunk(const rec_block *rec, uint64_t chunk_block, uint32_t index, uint64_t disk)
{
	if (chunk_block != rec->chunk_block)
		return false;
	/* Until the commit, the writer may put chunks on any disk. */
	return rec->state == META_BLOCK_PENDING ||
	       (index < rec->n_chunks && rec->chunks[index]->disk == disk);
}

int meta_chunk_wanted(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		      uint64_t chunk_block, uint32_t index, uint64_t disk, bool *wanted)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct kv_bytes raw;
	rec_block *rec;
	int rc = block_read(m, ctx->tenant, block, &a, &raw, &rec);
	*wanted = false;
	if (rc == 0 && rec != NULL)
		*wanted = block_names_chunk(rec, chunk_block, index, disk);
	return rc;
}

/* --- the reverse index ------------------------------------------------------------------------ */

static void cursor_to(struct meta_gc_cursor *at, struct kv_bytes key)
{
	assert(key.len > 0);
	at->len = (uint16_t)min_u64(key.len, sizeof(at->key));
	memcpy(at->key, key.data, at->len);
}

static struct kv_bytes cursor_key(const struct meta_gc_cursor *at)
{
	return kv_bytes(at->key, min_u64(at->len, sizeof(at->key)));
}

/* Lists a block even if the value of its row is unreadable: otherwise an operator could remove the disk, because
 * no block would be listed for it. */
static int on_disk_row(uint64_t partition, const struct kv_row *row, struct meta_on_disk *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	uint64_t disk;
	rec_on_disk *o;
	if (!key_read_disk(row->key, &disk, &out->tenant, &out->block))
		return -EBADMSG;
	int rc = rec_read_on_disk(&a, row->value, &o);
	out->index = rc == 0 ? o->index : META_CHUNKS_MAX;
	return gc_unreadable(partition, row, rc) ? 0 : rc;
}

int64_t meta_disk_blocks(struct meta *m, uint64_t index, uint64_t disk, struct meta_gc_cursor *at,
			 struct meta_on_disk *out, size_t max)
{
	if (max == 0 || index >= meta_gc_partitions(m))
		return -EINVAL;
	if (at->end)
		return 0;
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct schema_key prefix = key_disk_prefix(disk);
	struct kv_range range = {.prefix = key_bytes(&prefix),
				 .after = cursor_key(at),
				 .rows_max = min_u64(max, KV_SCAN_ROWS_MAX)};
	uint64_t partition = schema_partition_at(META_LAYER_BLOCK, index);
	int rc = kv_scan(m->kv, partition, &range, &rows);
	int64_t count = 0;
	for (size_t i = 0; i < rows.count && rc == 0; i++) {
		rc = on_disk_row(partition, &rows.row[i], &out[count]);
		count += rc == 0;
		rc = gc_unreadable(partition, &rows.row[i], rc) ? 0 : rc;
		cursor_to(at, rows.row[i].key);
	}
	at->end = !rows.more;
	return rc != 0 ? rc : count;
}

static int owned_bytes(struct meta *m, uint32_t tenant, uint64_t block, uint64_t *sum)
{
	struct meta_ctx ctx = {.tenant = tenant};
	struct meta_owner owners[64];
	uint64_t after = 0;
	int64_t n;
	*sum = 0;
	do {
		n = meta_block_owners(m, &ctx, block, after, owners, ARRAY_LEN(owners));
		if (n < 0)
			return (int)n;
		for (int64_t i = 0; i < n; i++)
			*sum += owners[i].bytes;
		after = n > 0 ? owners[n - 1].file : 0;
	} while (n == (int64_t)ARRAY_LEN(owners));
	return 0;
}

static int block_row(struct meta *m, uint64_t partition, const struct kv_row *row,
		     struct arena *arena, struct meta_block_at *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	uint64_t block;
	rec_block *rec;
	if (!key_read_id(row->key, &out->tenant, &block))
		return -EBADMSG;
	int rc = rec_read_block(&a, row->value, &rec);
	if (rc == 0)
		rc = block_from_record(block, rec, arena, &out->block);
	if (rc != 0)
		return rc;
	rc = owned_bytes(m, out->tenant, block, &out->owned_bytes);
	if (!gc_unreadable(partition, row, rc))
		return rc;
	out->owned_bytes = out->block.length;
	return 0;
}

int64_t meta_blocks(struct meta *m, uint64_t index, struct meta_gc_cursor *at, struct arena *arena,
		    struct meta_block_at *out, size_t max)
{
	if (max == 0 || index >= meta_gc_partitions(m))
		return -EINVAL;
	if (at->end)
		return 0;
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_range range = {.prefix = kv_text("b"),
				 .after = cursor_key(at),
				 .rows_max = min_u64(max, KV_SCAN_ROWS_MAX)};
	uint64_t partition = schema_partition_at(META_LAYER_BLOCK, index);
	int rc = kv_scan(m->kv, partition, &range, &rows);
	int64_t count = 0;
	for (size_t i = 0; i < rows.count && rc == 0; i++) {
		rc = block_row(m, partition, &rows.row[i], arena, &out[count]);
		count += rc == 0;
		rc = gc_unreadable(partition, &rows.row[i], rc) ? 0 : rc;
		cursor_to(at, rows.row[i].key);
	}
	at->end = !rows.more;
	return rc != 0 ? rc : count;
}
