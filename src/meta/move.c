// SPDX-License-Identifier: Apache-2.0
/*
 * Moves between directories, removal of a directory. Moves and removals are transfers; transfer.c explains the
 * steps of a transfer by number.
 */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "meta/file.h"
#include "meta/quota.h"
#include "rt/rt.h"

#define WALK_MAX 4096 /* largest number of levels between a directory and the root */

/* --- directories ------------------------------------------------------------------------------ */

/* Checks that the destination of a move is neither the moved directory nor below it (step 5 of a transfer). -EINVAL:
 * it is; -ELOOP: too many levels. */
static int no_cycle(struct meta *m, struct transfer_plan *p, struct arena *a)
{
	assert(p->rec->kind == REC_MOVE_DIR);
	uint64_t moved = p->rec->was->id;
	uint64_t at = p->rec->to->dir;
	for (unsigned level = 0; level < WALK_MAX; level++) {
		if (at == moved)
			return -EINVAL;
		if (at == META_ROOT)
			return 0;
		struct kv_bytes raw;
		rec_dir *d;
		int rc = dir_read(m, p->tenant, at, a, &raw, &d);
		if (rc != 0)
			return rc;
		if (d == NULL)
			return META_RETRY;
		if (d->transfer == 0) {
			at = d->parent;
			continue;
		}
		/* The outcome of that transfer decides which directory is the parent. */
		rc = transfer_settle(m, p->tenant, d->transfer, a);
		if (rc == META_NO_TRANSFER) {
			d->transfer = 0;
			at = d->parent;
		} else if (rc != 0) {
			return rc;
		}
	}
	return -ELOOP;
}

static int move_dir(struct meta *m, const struct row *from, const struct row *to, uint64_t request,
		    struct arena *a)
{
	assert(from->entry->kind == META_DIR && to->entry == NULL);
	rec_entry e = *from->entry;
	e.stamp = request;
	return transfer_rows(m, REC_MOVE_DIR, from, to, &e, no_cycle, a);
}

/* Closes a slice for the transfer that removes its directory, so that the slice takes no new names. -ENOTEMPTY: the
 * slice has a name; META_RETRY. */
static int slice_close(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice, bool below,
		       void *ctx)
{
	(void)below;
	const struct transfer_plan *p = ctx;
	assert(p->id != 0 && p->rec->kind == REC_RMDIR);
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	uint64_t partition = part_name(m, tenant, dir, slice);
	struct schema_key key = key_slice(KEY_SLICE_STATE, tenant, dir, slice);
	struct reads r;
	rec_slice_state *s = NULL;
	int rc = meta_read(m, partition, &key, 1, &a, &r);
	if (rc == 0 && r.value[0].data != NULL)
		rc = rec_read_slice_state(&a, r.value[0], &s);
	if (rc != 0)
		return rc;
	rec_slice_state shut = TERRANE__REC__SLICE_STATE__INIT;
	if (s != NULL)
		shut = *s;
	shut.closing = p->id;
	struct txn t;
	txn_init(&t, &a);
	txn_present(&t, key_slice(KEY_DIR, tenant, dir, slice));
	txn_same(&t, key, r.value[0]);
	txn_put(&t, key, &shut.base);
	rc = txn_run(m, &t, partition, NULL);
	if (rc != 0)
		return rc == -ESTALE ? META_RETRY : rc;
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct schema_key prefix = key_slice(KEY_ENTRY, tenant, dir, slice);
	struct kv_range range = {.prefix = key_bytes(&prefix), .rows_max = 1};
	rc = kv_scan(m->kv, partition, &range, &rows);
	if (rc != 0 || rows.count == 0)
		return rc;
	rec_entry *e;
	rc = rec_read_entry(&a, rows.row[0].value, &e);
	if (rc != 0 || e->transfer == 0)
		return rc != 0 ? rc : -ENOTEMPTY;
	struct row held = {.tenant = tenant, .dir = dir, .slice = slice, .partition = partition};
	held.raw = rows.row[0].value;
	held.row = e;
	uint64_t d;
	uint32_t sl;
	uint32_t tn;
	if (!key_read_entry(rows.row[0].key, &tn, &d, &sl, &held.name))
		return -EBADMSG;
	return row_settle(m, &held, &a);
}

/* Closes all slices of a directory that is to be removed (step 5 of a transfer). -ENOTEMPTY: a slice has a name. */
static int all_empty(struct meta *m, struct transfer_plan *p, struct arena *a)
{
	(void)a;
	return slices_walk(m, p->tenant, p->rec->was->id, false, slice_close, p);
}

/* Removes the directory if its row is still as it was read. META_RETRY: the row has changed, find it again. */
static int rmdir_at(struct meta *m, const struct row *r, struct arena *a)
{
	int rc = row_settle(m, r, a);
	if (rc != 0)
		return rc;
	if (r->entry == NULL)
		return -ENOENT;
	if (r->entry->kind != META_DIR)
		return -ENOTDIR;
	rec_place from = place_of(r);
	rec_transfer rec = TERRANE__REC__TRANSFER__INIT;
	rec.kind = REC_RMDIR;
	rec.from = &from;
	rec.was = r->entry;
	struct transfer_plan p = {
		.tenant = r->tenant, .rec = &rec, .from = r, .prepare = all_empty};
	return transfer_do(m, &p, a);
}

int meta_rmdir(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
	       uint64_t id)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	int rc = schema_name_check(name);
	if (rc != 0)
		return rc;
	struct quota_op q = {.from = dir, .files = 1};
	rc = quota_begin(m, ctx, &q, &a);
	for (unsigned try = 0; rc == 0; try++) {
		struct row r;
		rc = row_find(m, ctx->tenant, dir, name, id, &a, &r);
		if (rc == 0 && id != 0 && r.row == r.entry &&
		    (r.entry == NULL || r.entry->id != id))
			rc = r.removed ? META_DONE : r.entry == NULL ? -ENOENT : -ESTALE;
		if (rc == 0)
			rc = rmdir_at(m, &r, &a);
		if (rc != META_RETRY)
			break;
		rc = meta_back_off(m, try);
		rc = rc == -EAGAIN ? -EBUSY : rc;
	}
	quota_end(m, ctx, &q, rc);
	return rc == META_DONE ? 0 : rc;
}

/* --- files ------------------------------------------------------------------------------------ */

/* A copy of a sealed file in another directory, with the same extents. */
struct copying {
	uint64_t from, to; /* ids of the source file and of the copy */
	uint64_t dir;      /* directory that gets the copy */
	uint64_t request;  /* request number of the move */
};

/* Reads the record of the copy: *raw is the record that an unfinished attempt of this request wrote, or has no data.
 * META_DONE: the copy is complete. -EEXIST: another file has the id; -ESTALE: the copy was made from another file
 * than c->from. */
static int copy_there(struct meta *m, uint32_t tenant, const struct copying *c,
		      struct kv_bytes *raw, struct arena *a)
{
	rec_file *old;
	bool dead;
	int rc = file_read(m, tenant, c->to, a, raw, &old, &dead);
	if (rc != 0)
		return rc;
	if (dead)
		return -EEXIST;
	if (old == NULL)
		return 0;
	if (old->dir != c->dir || old->source == 0)
		return -EEXIST;
	if (old->source != c->from)
		return -ESTALE; /* an earlier copy of the request found another file under the name */
	if (!old->linked && old->token == c->request)
		return 0; /* this request began the copy and did not finish it */
	return old->sealed && old->linked ? META_DONE : -EEXIST;
}

/* Writes the record of the copy as a file under write, whose source is the file `from`. */
static int copy_begin(struct meta *m, uint32_t tenant, const struct copying *c, struct arena *a)
{
	assert(c->request != 0 && c->to > META_ROOT);
	rec_file f = TERRANE__REC__FILE__INIT;
	f.dir = c->dir;
	f.token = c->request;
	f.source = c->from;
	f.mtime_ns = rt_wall_ns();
	struct txn t;
	txn_init(&t, a);
	txn_absent(&t, key_id(KEY_FILE, tenant, c->to));
	txn_absent(&t, key_id(KEY_DEAD_FILE, tenant, c->to));
	txn_put(&t, key_id(KEY_FILE, tenant, c->to), &f.base);
	int rc = txn_run(m, &t, part_of(m, META_LAYER_FILE, tenant, c->to), NULL);
	return rc == -ESTALE ? 0 : rc;
}

/*
 * Creates a file with the same extents as the sealed file f: first its record as a file under write, which the
 * collector deletes if a crash leaves it; then owners and extents; last the final record.
 */
static int copy_file(struct meta *m, uint32_t tenant, const rec_file *f, const struct copying *c,
		     struct meta_name name, struct arena *a)
{
	assert(f->sealed && f->last == NULL);
	struct kv_bytes raw;
	int rc = copy_there(m, tenant, c, &raw, a);
	if (rc == 0 && raw.data == NULL) {
		rc = copy_begin(m, tenant, c, a);
		/* A copy of this request on another server may have written the record, and even finished the file. */
		if (rc == 0)
			rc = copy_there(m, tenant, c, &raw, a);
		if (rc == 0 && raw.data == NULL)
			rc = -EAGAIN;
	}
	if (rc != 0)
		return rc == META_DONE ? 0 : rc;
	rc = file_copy_extents(m, tenant, f, c->from, c->to, a);
	if (rc != 0)
		return rc;
	struct txn t;
	txn_init(&t, a);
	rec_file n = *f;
	n.dir = c->dir;
	n.source = c->from;
	n.linked = true;
	n.name = (ProtobufCBinaryData){name.len, (uint8_t *)name.text};
	n.token = 0;
	return file_write(m, tenant, c->to, raw, &n, &t);
}

/* Copies the file at `from` to the id new_id; then a transfer removes the name at `from` and stores the name at
 * `to`. META_RETRY: find the rows again. */
static int move_file(struct meta *m, const struct row *from, const struct row *to, uint64_t new_id,
		     uint64_t request, struct arena *a)
{
	struct kv_bytes raw;
	rec_file *f;
	bool dead;
	int rc = file_read(m, from->tenant, from->entry->id, a, &raw, &f, &dead);
	if (rc == 0 && f == NULL) {
		rc = dead ? 0 : file_restore(m, from, a);
		return rc == 0 ? META_RETRY : rc;
	}
	if (rc == 0 && !f->sealed)
		rc = -EBUSY;
	if (rc == 0)
		rc = copy_file(m, from->tenant, f,
			       &(struct copying){.from = from->entry->id,
						 .to = new_id,
						 .dir = to->dir,
						 .request = request},
			       to->name, a);
	if (rc != 0)
		return rc;
	rec_entry e = *from->entry;
	e.id = new_id;
	e.size = f->size;
	e.sealed = true;
	e.token = 0;
	e.stamp = request;
	return transfer_rows(m, REC_MOVE_FILE, from, to, &e, NULL, a);
}

/* --- move ------------------------------------------------------------------------------------- */

/* Moves a name once its rows were found. META_RETRY: a row has changed, find the rows again. */
static int move_at(struct meta *m, const struct meta_ctx *ctx, const struct row *from,
		   const struct row *to, struct meta_move *v, struct arena *a)
{
	int rc = row_settle(m, from, a);
	if (rc == 0)
		rc = row_settle(m, to, a);
	if (rc != 0)
		return rc;
	if (from->request_done || (to->entry != NULL && to->entry->stamp == v->request))
		/* an earlier copy of this request moved the object; later changes do not matter */
		return 0;
	if (from->entry == NULL)
		return -ENOENT;
	if (v->id != 0 && from->entry->id != v->id)
		return -ESTALE;
	bool dir = from->entry->kind == META_DIR;
	if (to->entry != NULL) {
		if ((v->flags & META_OVERWRITE) == 0 || dir)
			return -EEXIST;
		if (to->entry->kind == META_DIR)
			return -EISDIR;
	}
	if (to->entry == NULL && to->dir_raw.data == NULL)
		return -ENOENT;
	if (!dir && v->new_id <= META_ROOT)
		return -EINVAL;
	struct quota_op q = {.from = from->dir, .to = to->dir, .files = 1};
	rc = quota_moving(m, ctx, from->entry, &q, a);
	if (rc != 0)
		return rc;
	if (dir) {
		rc = move_dir(m, from, to, v->request, a);
	} else {
		/* The new file is a copy of this file: if another file takes the name, the next attempt fails with
		 * -ESTALE. */
		v->id = from->entry->id;
		rc = move_file(m, from, to, v->new_id, v->request, a);
	}
	quota_end(m, ctx, &q, rc);
	return rc;
}

int meta_move(struct meta *m, const struct meta_ctx *ctx, const struct meta_move *move)
{
	if (move->from_dir == move->to_dir)
		return meta_rename_id(m, ctx, move);
	struct meta_move v = *move;
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	int rc = schema_name_check(v.from);
	if (rc == 0)
		rc = schema_name_check(v.to);
	if (rc == 0 && v.request == 0)
		rc = -EINVAL;
	if (rc != 0)
		return rc;
	for (unsigned try = 0;; try++) {
		struct row f;
		struct row t;
		rc = row_find_from(m, ctx->tenant, v.from_dir, v.from, v.request, &a, &f);
		if (rc == 0)
			rc = row_find(m, ctx->tenant, v.to_dir, v.to, 0, &a, &t);
		if (rc == 0)
			rc = move_at(m, ctx, &f, &t, &v, &a);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc == -EAGAIN ? -EBUSY : rc;
	}
}

/* --- copy ------------------------------------------------------------------------------------- */

/* Reads the sealed file of a name, which must stay as it is until it is copied. META_RETRY: its record was missing. */
static int copy_source(struct meta *m, const struct meta_ctx *ctx, const struct meta_move *v,
		       struct arena *a, struct row *from, rec_file **f)
{
	struct kv_bytes raw;
	bool dead;
	int rc = row_find(m, ctx->tenant, v->from_dir, v->from, 0, a, from);
	if (rc == 0 && from->entry == NULL)
		rc = -ENOENT;
	if (rc == 0 && v->id != 0 && from->entry->id != v->id)
		rc = -ESTALE;
	if (rc == 0 && from->entry->kind == META_DIR)
		rc = -EISDIR;
	if (rc == 0)
		rc = file_read(m, ctx->tenant, from->entry->id, a, &raw, f, &dead);
	if (rc != 0)
		return rc;
	if (*f == NULL) {
		rc = dead ? -ENOENT : file_restore(m, from, a);
		return rc == 0 ? META_RETRY : rc;
	}
	return (*f)->sealed ? 0 : -EBUSY;
}

/* Makes the copy, and stores its name. */
static int copy_charged(struct meta *m, const struct meta_ctx *ctx, const struct meta_move *copy,
			const struct row *from, const rec_file *f, uint64_t began_ns)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	int rc = copy_file(m, ctx->tenant, f,
			   &(struct copying){.from = from->entry->id,
					     .to = copy->new_id,
					     .dir = copy->to_dir,
					     .request = copy->request},
			   copy->to, &a);
	/* Later the collector may have seen the copy without a name. */
	if (rc == 0 && rt_now_ns() - began_ns > META_NAMING_NS)
		rc = -ETIMEDOUT;
	if (rc != 0)
		return rc;
	rec_entry e = TERRANE__REC__ENTRY__INIT;
	e.kind = META_FILE;
	e.id = copy->new_id;
	e.size = f->size;
	e.mtime_ns = from->entry->mtime_ns;
	e.sealed = true;
	e.attrs = from->entry->attrs;
	return row_create(
		m, &(struct row){.tenant = ctx->tenant, .dir = copy->to_dir, .name = copy->to}, &e,
		copy->flags, &a);
}

int meta_copy(struct meta *m, const struct meta_ctx *ctx, const struct meta_move *copy)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	uint64_t began_ns = rt_now_ns();
	struct row from;
	rec_file *f = NULL;
	int rc = schema_name_check(copy->from);
	if (rc == 0)
		rc = schema_name_check(copy->to);
	if (rc == 0 && (copy->request == 0 || copy->new_id <= META_ROOT))
		rc = -EINVAL;
	for (unsigned try = 0; rc == 0; try++) {
		rc = copy_source(m, ctx, copy, &a, &from, &f);
		if (rc != META_RETRY)
			break;
		rc = meta_back_off(m, try);
	}
	if (rc != 0)
		return rc;
	struct quota_op q = {.to = copy->to_dir, .bytes = f->size, .files = 1};
	rc = quota_begin(m, ctx, &q, &a);
	if (rc == 0)
		rc = copy_charged(m, ctx, copy, &from, f, began_ns);
	quota_end(m, ctx, &q, rc);
	return rc;
}
