// SPDX-License-Identifier: Apache-2.0
/*
 * The File layer: reads file records and extents.
 *
 * A file that was created sealed has its extents in its record. Other files have a row for each extent; its key
 * is the end of the extent in the file, so the extent that holds a byte is the first row after that byte. The
 * open extent of a file under append is in the record. A removed file has a DeadFile record until it is no owner of a
 * block any more, and can be read until then.
 *
 * A change replaces the complete record, on condition that the record is still as it was read. The record counts its
 * changes, so no two states of a file have the same bytes.
 */
#include "meta/file.h"

#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "rt/rt.h"

int file_read(struct meta *m, uint32_t tenant, uint64_t file, struct arena *a, struct kv_bytes *raw,
	      rec_file **out, bool *dead)
{
	struct schema_key keys[2] = {key_id(KEY_FILE, tenant, file),
				     key_id(KEY_DEAD_FILE, tenant, file)};
	struct reads r;
	*out = NULL;
	*dead = false;
	int rc = meta_read(m, part_of(m, META_LAYER_FILE, tenant, file), keys, 2, a, &r);
	if (rc != 0)
		return rc;
	*dead = r.value[1].data != NULL;
	*raw = r.value[0];
	return raw->data != NULL ? rec_read_file(a, *raw, out) : 0;
}

int file_write(struct meta *m, uint32_t tenant, uint64_t file, struct kv_bytes raw, rec_file *f,
	       struct txn *t)
{
	assert(raw.data != NULL); /* the record was read, not created */
	struct schema_key key = key_id(KEY_FILE, tenant, file);
	f->changes++;
	txn_equals(t, key, raw);
	txn_put(t, key, &f->base);
	int rc = txn_run(m, t, part_of(m, META_LAYER_FILE, tenant, file), NULL);
	return rc == -ESTALE ? META_RETRY : rc;
}

int file_remove(struct meta *m, uint32_t tenant, uint64_t file, struct arena *a)
{
	for (unsigned try = 0;; try++) {
		struct kv_bytes raw;
		rec_file *f;
		bool dead;
		int rc = file_read(m, tenant, file, a, &raw, &f, &dead);
		if (rc != 0 || f == NULL)
			return rc;
		rec_dead_file x = TERRANE__REC__DEAD_FILE__INIT;
		x.file = f;
		struct txn t;
		txn_init(&t, a);
		txn_equals(&t, key_id(KEY_FILE, tenant, file), raw);
		txn_delete(&t, key_id(KEY_FILE, tenant, file));
		txn_delete(&t, key_id(KEY_SUSPECT, tenant, file));
		txn_put(&t, key_id(KEY_DEAD_FILE, tenant, file), &x.base);
		uint64_t partition = part_of(m, META_LAYER_FILE, tenant, file);
		rc = txn_run(m, &t, partition, NULL);
		if (rc == 0 && m->cache != NULL)
			cache_drop(m->cache, partition, t.checks[0].key);
		if (rc != -ESTALE)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

/* --- extents ---------------------------------------------------------------------------------- */

/* Calls fn for the extents in the record, beginning with the extent that holds byte `offset`. */
static int inline_extents(const rec_file *rec, uint64_t offset, extent_fn fn, void *ctx)
{
	uint64_t at = 0;
	int rc = 0;
	for (size_t i = 0; i < rec->n_extents && rc == 0; i++) {
		struct meta_extent e;
		rec_extent_get(rec->extents[i], &e);
		if (at + e.length > offset)
			rc = fn(ctx, at, &e);
		at += e.length;
	}
	return rc;
}

/* Decodes a stored extent, and sets *at to its offset in the file. */
static int row_extent(const struct kv_row *row, struct arena *a, uint64_t *at,
		      struct meta_extent *e)
{
	uint32_t tenant;
	uint64_t file;
	uint64_t end;
	rec_extent *x;
	if (!key_read_ids(row->key, &tenant, &file, &end))
		return -EBADMSG;
	int rc = rec_read_extent(a, row->value, &x);
	if (rc != 0)
		return rc;
	rec_extent_get(x, e);
	if (e->open || e->length > end)
		return -EBADMSG;
	*at = end - e->length;
	return 0;
}

int file_extents_from(struct meta *m, uint32_t tenant, uint64_t file, const rec_file *rec,
		      const struct extent_walk *w)
{
	assert(w->fn != NULL && w->page > 0);
	uint64_t offset = w->offset;
	if (rec->n_extents > 0)
		return inline_extents(rec, offset, w->fn, w->ctx);
	struct schema_key prefix = key_id(KEY_EXTENT, tenant, file);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	while (offset < rec->size) {
		/* arena of one page, because the extents of all pages may not fit into one arena */
		AUTO_ARENA struct arena of_page;
		arena_init(&of_page, META_OP_BYTES);
		struct schema_key after = key_ids(KEY_EXTENT, tenant, file, offset);
		struct kv_range range = {.prefix = key_bytes(&prefix),
					 .after = key_bytes(&after),
					 .rows_max = w->page};
		int rc = kv_scan(m->kv, part_of(m, META_LAYER_FILE, tenant, file), &range, &rows);
		for (size_t i = 0; i < rows.count && rc == 0; i++) {
			uint64_t at = 0;
			struct meta_extent e = {0};
			rc = row_extent(&rows.row[i], &of_page, &at, &e);
			/* This extent was added after the record was read. Leave it out, because the result is the
			 * state at one instant. */
			if (rc == 0 && at >= rec->size)
				return 0;
			if (rc == 0)
				rc = w->fn(w->ctx, at, &e);
			offset = at + e.length;
		}
		if (rc != 0)
			return rc;
		if (rows.count == 0)
			return -EBADMSG; /* the record has a larger size than the stored extents: some extents are
			missing */
	}
	return 0;
}

int file_extents(struct meta *m, uint32_t tenant, uint64_t file, const rec_file *rec,
		 struct arena *a, extent_fn fn, void *ctx)
{
	int rc = file_extents_from(
		m, tenant, file, rec,
		&(struct extent_walk){.page = META_PAGE_MAX, .fn = fn, .ctx = ctx});
	if (rc == 0 && rec->last != NULL) {
		struct meta_extent e;
		rec_extent_get(rec->last, &e);
		rc = fn(ctx, rec->size, &e);
	}
	return rc;
}

/* --- opening by id ---------------------------------------------------------------------------- */

struct gather {
	struct meta_extent *list;
	size_t count;
	size_t max;
	uint64_t first;
};

static int gather_one(void *ctx, uint64_t offset, const struct meta_extent *e)
{
	struct gather *g = ctx;
	assert(g->count <= g->max);
	if (g->count == g->max)
		return META_STOP;
	if (g->count == 0)
		g->first = offset;
	g->list[g->count++] = *e;
	return 0;
}

void file_from_record(uint64_t id, const rec_file *f, bool dead, struct meta_file *out)
{
	*out = (struct meta_file){.id = id,
				  .dir = f->dir,
				  .size = f->size,
				  .mtime_ns = f->mtime_ns,
				  .extent_count = f->extent_count,
				  .sealed = f->sealed != 0,
				  .linked = f->linked != 0,
				  .removed = dead};
}

/* Reads a file record, from the cache if the cache has it. Adds sealed files with their extents in the record to
 * the cache. -ENOENT. */
static int read_cached(struct meta *m, uint32_t tenant, uint64_t file, struct arena *a,
		       rec_file **out, bool *dead)
{
	uint64_t partition = part_of(m, META_LAYER_FILE, tenant, file);
	struct schema_key keys[2] = {key_id(KEY_FILE, tenant, file),
				     key_id(KEY_DEAD_FILE, tenant, file)};
	struct kv_bytes hit;
	*dead = false;
	*out = NULL;
	if (m->cache != NULL && cache_get(m->cache, partition, key_bytes(&keys[0]), a, &hit)) {
		m->stats.cache_hits++;
		return rec_read_file(a, hit, out);
	}
	struct reads r;
	int rc = meta_read(m, partition, keys, 2, a, &r);
	if (rc != 0)
		return rc;
	if (r.value[0].data != NULL) {
		rc = rec_read_file(a, r.value[0], out);
		if (rc == 0 && m->cache != NULL && (*out)->sealed &&
		    (*out)->n_extents == (*out)->extent_count) {
			m->stats.cache_misses++;
			cache_put(m->cache, partition, key_bytes(&keys[0]), r.value[0]);
		}
		return rc;
	}
	rec_dead_file *x = NULL;
	if (r.value[1].data != NULL)
		rc = rec_read_dead_file(a, r.value[1], &x);
	if (rc == 0 && x != NULL)
		*out = x->file;
	*dead = x != NULL;
	return rc == 0 && *out == NULL ? -ENOENT : rc;
}

int meta_file_get(struct meta *m, const struct meta_ctx *ctx, uint64_t file, struct meta_part *part,
		  struct arena *arena, struct meta_file *out)
{
	rec_file *f;
	bool dead;
	if (part != NULL && part->max > META_PAGE_MAX)
		return -EINVAL;
	int rc = read_cached(m, ctx->tenant, file, arena, &f, &dead);
	if (rc != 0)
		return rc;
	file_from_record(file, f, dead, out);
	if (part == NULL)
		return 0;
	size_t max = part->max == 0 ? META_PAGE_MAX : part->max;
	struct gather g = {.max = max};
	size_t room = f->n_extents > 0 ? f->n_extents : (size_t)min_u64(max, f->extent_count + 1);
	g.list = arena_alloc(arena, (room + 1) * sizeof(g.list[0]));
	if (g.list == NULL)
		return -ENOMEM;
	g.max = min_u64(max, room + 1);
	g.first = min_u64(part->offset, f->size);
	struct extent_walk w = {.offset = part->offset, .page = max, .fn = gather_one, .ctx = &g};
	rc = file_extents_from(m, ctx->tenant, file, f, &w);
	if (rc == 0 && f->last != NULL) {
		struct meta_extent e;
		rec_extent_get(f->last, &e);
		gather_one(&g, f->size, &e);
	}
	part->extents = g.list;
	part->count = g.count;
	part->first_offset = g.first;
	if (rc == -EBADMSG && dead)
		return -ENOENT; /* the collector has begun to delete its extents */
	return rc == META_STOP ? 0 : rc;
}

/* --- open by name ----------------------------------------------------------------------------- */

/* Writes the missing record of an empty sealed file; all fields follow from the entry of its name. */
static int record_restore(struct meta *m, const struct row *r, struct arena *a)
{
	assert(r->entry->sealed && r->entry->size == 0);
	rec_file f = TERRANE__REC__FILE__INIT;
	f.dir = r->dir;
	f.mtime_ns = r->entry->mtime_ns;
	f.token = r->entry->token;
	f.sealed = r->entry->sealed;
	f.linked = true;
	f.name = (ProtobufCBinaryData){r->name.len, (uint8_t *)r->name.text};
	struct txn t;
	txn_init(&t, a);
	txn_absent(&t, key_id(KEY_FILE, r->tenant, r->entry->id));
	txn_absent(&t, key_id(KEY_DEAD_FILE, r->tenant, r->entry->id));
	txn_put(&t, key_id(KEY_FILE, r->tenant, r->entry->id), &f.base);
	int rc = txn_run(m, &t, part_of(m, META_LAYER_FILE, r->tenant, r->entry->id), NULL);
	return rc == -ESTALE ? 0 : rc;
}

int file_restore(struct meta *m, const struct row *r, struct arena *a)
{
	if (r->entry == NULL || r->entry->kind != META_FILE)
		return 0;
	return r->entry->sealed && r->entry->size == 0 ? record_restore(m, r, a) : -EBADMSG;
}

int meta_file_open(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
		   struct meta_part *part, struct arena *arena, struct meta_file *out)
{
	for (unsigned try = 0;; try++) {
		struct meta_entry e;
		int rc = meta_lookup(m, ctx, dir, name, &e);
		if (rc != 0)
			return rc;
		if (e.kind == META_DIR)
			return -EISDIR;
		rc = meta_file_get(m, ctx, e.id, part, arena, out);
		if (rc != -ENOENT)
			return rc;
		/* The file was removed since its name was read, or a crash kept its record from being written. */
		AUTO_ARENA struct arena a;
		arena_init(&a, META_OP_BYTES);
		struct row r;
		rc = row_find(m, ctx->tenant, dir, name, 0, &a, &r);
		if (rc == 0 && r.entry != NULL && r.entry->id == e.id)
			rc = file_restore(m, &r, &a);
		if (rc == 0)
			rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}
