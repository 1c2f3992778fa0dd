// SPDX-License-Identifier: Apache-2.0
/*
 * Changes of names inside one directory: remove and rename.
 *
 * A race that section 3.3 of the Tectonic paper describes: a rename first reads the row of the old name, and then
 * replaces this row by the row of the new name; between these two steps a create stores another file under the old
 * name. The second step of the rename compares the row, byte by byte, with the row that the first step read: so the
 * second step is refused, and the rename starts again with the first step.
 */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "meta/quota.h"

/* --- remove ----------------------------------------------------------------------------------- */

/* Removes the name if its row is still as it was read. META_RETRY: the row has changed, find it again. META_DONE: an earlier
 * copy of this request removed the name. */
static int remove_at(struct meta *m, const struct row *r, uint64_t id, unsigned flags,
		     struct arena *a)
{
	int rc = row_settle(m, r, a);
	if (rc != 0)
		return rc;
	if (r->entry == NULL || (id != 0 && r->entry->id != id)) {
		if (r->removed)
			return META_DONE;
		return r->entry == NULL ? -ENOENT : -ESTALE;
	}
	if (r->entry->kind == META_DIR)
		return -EISDIR;
	struct txn t;
	txn_init(&t, a);
	rc = row_guard(&t, r, (flags & META_SEALED_TOO) != 0);
	if (rc != 0)
		return rc;
	struct schema_key key = key_entry(r->tenant, r->dir, r->slice, r->name);
	txn_delete(&t, key);
	row_put_tombstone(&t, r, r->entry->id, META_FILE, TOMBSTONE_REMOVED);
	rc = txn_run(m, &t, r->partition, NULL);
	if (rc == 0 && m->cache != NULL)
		cache_drop(m->cache, r->partition, key_bytes(&key));
	return rc == -ESTALE ? META_RETRY : rc;
}

int meta_remove(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
		uint64_t id, unsigned flags)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct quota_op q = {.from = dir, .files = 1};
	int rc = schema_name_check(name);
	if (rc == 0)
		rc = quota_begin(m, ctx, &q, &a);
	for (unsigned try = 0; rc == 0; try++) {
		struct row r;
		rc = row_find(m, ctx->tenant, dir, name, id, &a, &r);
		if (rc == 0)
			rc = remove_at(m, &r, id, flags, &a);
		if (rc == 0)
			q.bytes = r.entry->size;
		if (rc != META_RETRY)
			break;
		rc = meta_back_off(m, try);
	}
	quota_end(m, ctx, &q, rc);
	return rc == META_DONE ? 0 : rc;
}

/* --- rename ----------------------------------------------------------------------------------- */

/* Checks that the entry `from` may replace `to` (NULL: no entry). -EEXIST, -EISDIR. */
static int check_replace(const rec_entry *from, const rec_entry *to, unsigned flags)
{
	if (to == NULL)
		return 0;
	if ((flags & META_OVERWRITE) == 0 || from->kind == META_DIR)
		return -EEXIST;
	return to->kind == META_DIR ? -EISDIR : 0;
}

/* Renames within one slice, in one transaction. META_RETRY: a row has changed, find the rows again. */
static int rename_here(struct meta *m, const struct row *from, const struct row *to,
		       uint64_t request, struct arena *a)
{
	assert(from->dir == to->dir && from->slice == to->slice &&
	       from->partition == to->partition);
	struct txn t;
	txn_init(&t, a);
	int rc = row_guard(&t, from, false);
	if (rc == 0)
		rc = to->entry != NULL ? row_guard(&t, to, false) : row_guard_new(m, &t, to, 0, a);
	if (rc != 0)
		return rc;
	rec_entry e = *from->entry;
	e.stamp = request;
	txn_delete(&t, key_entry(from->tenant, from->dir, from->slice, from->name));
	txn_put(&t, key_entry(to->tenant, to->dir, to->slice, to->name), &e.base);
	row_put_tombstone(&t, from, e.id, e.kind, TOMBSTONE_RENAMED);
	row_put_request_done(&t, from, request, e.id, e.kind);
	if (to->entry != NULL)
		row_put_tombstone(&t, to, to->entry->id, META_FILE, TOMBSTONE_REPLACED);
	rc = txn_run(m, &t, from->partition, NULL);
	return rc == -ESTALE ? META_RETRY : rc;
}

/* Renames between two slices, by a transfer. */
static int rename_across(struct meta *m, const struct row *from, const struct row *to,
			 uint64_t request, struct arena *a)
{
	assert(from->dir == to->dir && from->slice != to->slice);
	rec_entry e = *from->entry;
	e.stamp = request;
	return transfer_rows(m, REC_RENAME, from, to, &e, NULL, a);
}

/* Renames the entry once both rows were found. META_RETRY: a row has changed, find the rows again. */
static int rename_at(struct meta *m, const struct meta_ctx *ctx, const struct row *from,
		     const struct row *to, const struct meta_move *move, struct arena *a)
{
	uint64_t id = move->id, request = move->request;
	unsigned flags = move->flags;
	int rc = row_settle(m, from, a);
	if (rc == 0)
		rc = row_settle(m, to, a);
	if (rc != 0)
		return rc;
	if (from->request_done || (to->entry != NULL && to->entry->stamp == request))
		/* an earlier copy of this request renamed the object; later changes do not matter */
		return 0;
	if (from->entry == NULL)
		return -ENOENT;
	if (id != 0 && from->entry->id != id)
		return -ESTALE;
	rc = check_replace(from->entry, to->entry, flags);
	if (rc != 0)
		return rc;
	struct quota_op q = {.from = from->dir, .to = from->dir, .files = 1};
	rc = quota_moving(m, ctx, from->entry, &q, a);
	if (rc != 0)
		return rc;
	rc = from->slice == to->slice ? rename_here(m, from, to, request, a)
				      : rename_across(m, from, to, request, a);
	quota_end(m, ctx, &q, rc);
	return rc;
}

int meta_rename(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name from,
		struct meta_name to, uint64_t request, unsigned flags)
{
	return meta_rename_id(m, ctx,
			      &(struct meta_move){.from_dir = dir,
						  .from = from,
						  .to_dir = dir,
						  .to = to,
						  .request = request,
						  .flags = flags});
}

int meta_rename_id(struct meta *m, const struct meta_ctx *ctx, const struct meta_move *move)
{
	struct meta_name from = move->from, to = move->to;
	uint64_t dir = move->from_dir;
	assert(move->to_dir == dir);
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	int rc = schema_name_check(from);
	if (rc == 0)
		rc = schema_name_check(to);
	if (rc == 0 && move->request == 0)
		rc = -EINVAL;
	if (rc != 0)
		return rc;
	if (from.len == to.len && memcmp(from.text, to.text, to.len) == 0) {
		struct meta_entry e;
		return meta_lookup(m, ctx, dir, from, &e);
	}
	for (unsigned try = 0;; try++) {
		struct row f;
		struct row t;
		rc = row_find_from(m, ctx->tenant, dir, from, move->request, &a, &f);
		if (rc == 0)
			rc = row_find(m, ctx->tenant, dir, to, 0, &a, &t);
		if (rc == 0)
			rc = rename_at(m, ctx, &f, &t, move, &a);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}
