// SPDX-License-Identifier: Apache-2.0
/* Collectors of files: delete removed files, and turn files without a name into removed files. */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "base/hash.h"
#include "meta/file.h"
#include "meta/gc_impl.h"
#include "meta/placed.h"
#include "rt/rt.h"

/* --- removed files ---------------------------------------------------------------------------- */

/* Deletes an owner row of a block, and marks the block for the collector of blocks without owners. */
static int owner_delete(struct gc *g, uint32_t tenant, uint64_t block, uint64_t file)
{
	uint64_t partition = part_of(g->m, META_LAYER_BLOCK, tenant, block);
	rec_suspect y = TERRANE__REC__SUSPECT__INIT;
	struct txn t;
	txn_init(&t, g->a);
	txn_present(&t, key_id(KEY_BLOCK, tenant, block));
	txn_delete(&t, key_ids(KEY_OWNER, tenant, block, file));
	txn_put(&t, key_id(KEY_SUSPECT, tenant, block), &y.base);
	int rc = txn_run(g->m, &t, partition, NULL);
	if (rc != -ESTALE)
		return rc;
	txn_init(&t, g->a);
	txn_delete(&t, key_ids(KEY_OWNER, tenant, block, file));
	return txn_run(g->m, &t, partition, NULL);
}

static int drop_page(struct gc *g, uint32_t tenant, uint64_t file, bool *more)
{
	struct schema_key prefix = key_id(KEY_EXTENT, tenant, file);
	struct kv_range range = {.prefix = key_bytes(&prefix)};
	AUTO_KV_ROWS struct kv_rows rows = {0};
	uint64_t last = 0;
	int rc = kv_scan(g->m->kv, g->partition, &range, &rows);
	struct txn t;
	txn_init(&t, g->a);
	for (size_t i = 0; i < rows.count && rc == 0; i++) {
		rec_extent *x;
		rc = rec_read_extent(g->a, rows.row[i].value, &x);
		if (rc == 0 && x->block != last)
			rc = owner_delete(g, tenant, x->block, file);
		last = rc == 0 ? x->block : 0;
		txn_delete(&t, gc_key(rows.row[i].key));
	}
	*more = rows.more;
	return rc == 0 && rows.count > 0 ? txn_run(g->m, &t, g->partition, NULL) : rc;
}

/* Deletes all stored extent rows of a file, page by page, even if the record has another number of extents. */
static int drop_extents(struct gc *g, uint32_t tenant, uint64_t file)
{
	bool more = true;
	int rc = 0;
	struct arena *outer = g->a;
	assert(outer == &g->scratch);
	while (rc == 0 && more) {
		AUTO_ARENA struct arena page;
		arena_init(&page, META_OP_BYTES);
		g->a = &page;
		rc = drop_page(g, tenant, file, &more);
	}
	g->a = outer;
	return rc;
}

int gc_files_row(struct gc *g, const struct kv_row *row)
{
	uint32_t tenant;
	uint64_t file;
	rec_dead_file *x;
	if (!key_read_id(row->key, &tenant, &file))
		return -EBADMSG;
	int rc = rec_read_dead_file(g->a, row->value, &x);
	if (rc != 0)
		return rc;
	if (gc_in_grace(g, row, &x->mark, &x->base, &rc))
		return rc;
	if (x->file != NULL)
		rc = placed_collect(g->m, tenant, file, x->file, g->a);
	for (size_t i = 0; x->file != NULL && i < x->file->n_extents && rc == 0; i++)
		rc = owner_delete(g, tenant, x->file->extents[i]->block, file);
	if (rc == 0 && x->file != NULL && x->file->last != NULL)
		rc = owner_delete(g, tenant, x->file->last->block, file);
	if (rc == 0)
		rc = drop_extents(g, tenant, file);
	return rc == 0 ? gc_delete(g, row) : rc;
}

/* --- files without a name --------------------------------------------------------------------- */

static int file_named(struct gc *g, uint32_t tenant, uint64_t file, const struct kv_row *row,
		      rec_file *f, bool *named)
{
	*named = false;
	if (f->name.len > 0) {
		struct row at;
		struct meta_name hint = {(const char *)f->name.data, f->name.len};
		int rc = row_find(g->m, tenant, f->dir, hint, file, g->a, &at);
		if (rc != 0)
			return rc;
		/* A tombstone means that the file may be between two names: treat it as named. The alternative, a
		 * search, would read all names of the directory. */
		*named = (f->linked && at.tombstone) || (at.entry != NULL && at.entry->id == file);
	}
	if (*named || !f->linked)
		return 0;
	/* The file was renamed, or no name leads to it any more. */
	struct gc_search s = {.id = file};
	int rc = gc_search_part(g, tenant, f->dir, &s);
	*named = s.found || s.pending;
	if (rc != 0 || !s.found || !f->sealed)
		return rc;
	f->name = (ProtobufCBinaryData){s.name_len, (uint8_t *)s.name};
	f->changes++;
	return gc_mark(g, row, &f->base);
}

/* Called for a file that no name leads to. If there is no suspicion (Suspect row) for the present record of the
 * file, stores one with a mark; if there is one and its grace period is over, turns the file into a removed file. */
static int orphan_step(struct gc *g, uint32_t tenant, uint64_t file, const struct kv_row *row,
		       rec_file *f)
{
	struct schema_key key = key_id(KEY_SUSPECT, tenant, file);
	uint64_t hash = hash64(row->value.data, row->value.len, 0);
	struct reads r;
	rec_suspect *y = NULL;
	int rc = meta_read(g->m, g->partition, &key, 1, g->a, &r);
	if (rc == 0 && r.value[0].data != NULL)
		rc = rec_read_suspect(g->a, r.value[0], &y);
	if (rc != 0)
		return rc;
	struct txn t;
	txn_init(&t, g->a);
	txn_equals(&t, gc_key(row->key), row->value);
	txn_same(&t, key, r.value[0]);
	rec_suspect fresh = TERRANE__REC__SUSPECT__INIT;
	fresh.mark = g->now;
	fresh.hash = hash;
	rec_dead_file x = TERRANE__REC__DEAD_FILE__INIT;
	x.file = f;
	if (y == NULL || y->hash != hash) {
		txn_put(&t, key, &fresh.base);
		g->counts->marked++;
	} else if (gc_grace_over(g, y->mark)) {
		txn_delete(&t, key);
		txn_delete(&t, gc_key(row->key));
		txn_put(&t, key_id(KEY_DEAD_FILE, tenant, file), &x.base);
		g->counts->collected++;
	} else {
		g->counts->left++;
		return 0;
	}
	rc = txn_run(g->m, &t, g->partition, NULL);
	return rc == -ESTALE ? 0 : rc;
}

/* Deletes a suspicion (Suspect row) if its file was deleted, has changed, or has a name. A later suspicion starts
 * a new grace period. */
static int file_suspect_row(struct gc *g, uint32_t tenant, uint64_t file, const struct kv_row *row)
{
	struct schema_key key = key_id(KEY_FILE, tenant, file);
	struct reads r;
	rec_suspect *y;
	int rc = meta_read(g->m, g->partition, &key, 1, g->a, &r);
	if (rc == 0)
		rc = rec_read_suspect(g->a, row->value, &y);
	if (rc != 0)
		return rc;
	bool same =
		r.value[0].data != NULL && hash64(r.value[0].data, r.value[0].len, 0) == y->hash;
	bool named = false;
	if (same) {
		struct kv_row of = {.key = key_bytes(&key), .value = r.value[0], .found = true};
		rec_file *f;
		rc = rec_read_file(g->a, of.value, &f);
		if (rc == 0)
			rc = file_named(g, tenant, file, &of, f, &named);
	}
	return rc == 0 && (!same || named) ? gc_delete(g, row) : rc;
}

/* Deletes what is kept of a file that has no record: its creation failed. */
static int placed_row(struct gc *g, uint32_t tenant, uint64_t file, const struct kv_row *row)
{
	struct schema_key keys[2] = {key_id(KEY_FILE, tenant, file),
				     key_id(KEY_DEAD_FILE, tenant, file)};
	struct reads r;
	rec_placed *p;
	int rc = meta_read(g->m, g->partition, keys, 2, g->a, &r);
	if (rc == 0)
		rc = rec_read_placed(g->a, row->value, &p);
	if (rc != 0 || r.value[0].data != NULL || r.value[1].data != NULL)
		return rc;
	return gc_in_grace(g, row, &p->mark, &p->base, &rc) ? rc : gc_delete(g, row);
}

int gc_orphans_row(struct gc *g, const struct kv_row *row)
{
	uint32_t tenant;
	uint64_t file;
	rec_file *f;
	if (!key_read_id(row->key, &tenant, &file))
		return -EBADMSG;
	if (key_kind(row->key) == KEY_PLACED)
		return placed_row(g, tenant, file, row);
	if (key_kind(row->key) == KEY_SUSPECT)
		return file_suspect_row(g, tenant, file, row);
	int rc = rec_read_file(g->a, row->value, &f);
	bool named = false;
	if (rc == 0)
		rc = file_named(g, tenant, file, row, f, &named);
	return rc == 0 && !named ? orphan_step(g, tenant, file, row, f) : rc;
}
