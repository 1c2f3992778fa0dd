// SPDX-License-Identifier: Apache-2.0
/*
 * Rows of names: finds them, decides what readers see in them, and stores new ones.
 *
 * The meaning of a row that a transfer (transfer.c) holds depends on the transfer's record. A reader reads that record
 * too; a writer first completes or aborts the transfer, and so only changes rows that no transfer holds.
 */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "base/bug.h"
#include "meta/impl.h"
#include "rt/rt.h"

/* Result of find_in_slice: the slice is spread, and a slice below it may have the name. */
#define FIND_BELOW 16

static struct schema_key row_key(const struct row *r)
{
	return key_entry(r->tenant, r->dir, r->slice, r->name);
}

/* --- meaning of a row ------------------------------------------------------------------------- */

/* Sets *out to a copy of the row without the fields of its transfer. */
static int row_plain(const rec_entry *row, struct arena *a, rec_entry **out)
{
	*out = arena_alloc(a, sizeof(**out));
	if (*out == NULL)
		return -ENOMEM;
	**out = *row;
	(*out)->transfer = 0;
	(*out)->arriving = false;
	(*out)->replaced = NULL;
	return 0;
}

/* Sets *out to the entry that the row had before its transfer; NULL: the name did not exist. */
static int row_before(const rec_entry *row, struct arena *a, rec_entry **out)
{
	if (!row->arriving)
		return row_plain(row, a, out);
	*out = row->replaced;
	return 0;
}

/* Sets *out to the entry that the row has once its transfer is committed; NULL: the name does not exist then. */
static int row_after(const rec_entry *row, struct arena *a, rec_entry **out)
{
	if (row->arriving)
		return row_plain(row, a, out);
	*out = NULL;
	return 0;
}

/*
 * The caller read the row first; this function then reads the record of its transfer. If the record is committed,
 * the new state held at the later of two moments: the read of the row and the commit. If it is pending or aborted,
 * the old state held when the row was read. If there is no record, there are two cases. Either the transfer has
 * just ended: then the row has changed and is read again. Or the transfer was aborted before a delayed transaction
 * marked this row: then the row means what it meant before.
 */
int row_view(struct meta *m, const struct row *r, struct arena *a, rec_entry **out)
{
	assert(r->row != NULL && r->row->transfer != 0);
	struct transfer t;
	int rc = transfer_read(m, r->tenant, r->row->transfer, a, &t);
	if (rc != 0)
		return rc;
	if (t.rec != NULL)
		return t.rec->state == REC_COMMITTED ? row_after(r->row, a, out)
						     : row_before(r->row, a, out);
	struct schema_key key = row_key(r);
	struct reads again;
	rc = meta_read(m, r->partition, &key, 1, a, &again);
	if (rc != 0)
		return rc;
	if (again.value[0].data == NULL || !kv_equal(again.value[0], r->raw))
		return META_RETRY;
	return row_before(r->row, a, out);
}

/* --- finding ---------------------------------------------------------------------------------- */

/* Reads the name's rows in one slice. Returns FIND_BELOW if the name may be in a slice below. */
static int find_in_slice(struct meta *m, struct row *r, uint64_t tombstone_id, struct arena *a)
{
	assert(slice_valid(r->slice));
	r->partition = part_name(m, r->tenant, r->dir, r->slice);
	struct schema_key keys[5] = {
		row_key(r),
		key_slice(KEY_SLICE_STATE, r->tenant, r->dir, r->slice),
		key_slice(KEY_DIR, r->tenant, r->dir, r->slice),
		key_slice_id(KEY_TOMBSTONE, r->tenant, r->dir, r->slice, tombstone_id),
		key_slice_id(KEY_REQUEST_DONE, r->tenant, r->dir, r->slice, r->request),
	};
	struct reads got;
	size_t n = r->request != 0 ? 5 : tombstone_id != 0 ? 4 : 3;
	int rc = meta_read(m, r->partition, keys, n, a, &got);
	if (rc != 0)
		return rc;
	r->raw = got.value[0];
	r->state_raw = got.value[1];
	r->dir_raw = got.value[2];
	rec_tombstone *stone = NULL;
	if (got.value[3].data != NULL)
		rc = rec_read_tombstone(a, got.value[3], &stone);
	if (rc != 0)
		return rc;
	r->request_done =
		r->request_done || (got.value[4].data != NULL && !bug_planted(BUG_REPLAY_TWICE));
	r->tombstone = r->tombstone || stone != NULL;
	r->removed = r->removed || (stone != NULL && stone->removed);
	r->refused = r->refused || (stone != NULL && stone->refused);
	r->state = NULL;
	r->row = NULL;
	if (r->state_raw.data != NULL)
		rc = rec_read_slice_state(a, r->state_raw, &r->state);
	if (rc == 0 && r->raw.data != NULL)
		rc = rec_read_entry(a, r->raw, &r->row);
	if (rc == 0 && r->row == NULL && r->state != NULL && r->state->spread &&
	    slice_level(r->slice) < SLICE_LEVELS)
		return FIND_BELOW;
	return rc;
}

struct find_job {
	struct meta *m;
	struct row row;
	uint64_t tombstone_id;
	struct arena *a;
	int rc;
};

static void find_fiber(void *arg)
{
	struct find_job *j = arg;
	j->rc = find_in_slice(j->m, &j->row, j->tombstone_id, j->a);
}

/*
 * Reads the home slice and the slice below it at the same time: nearly all names of a spread directory are below.
 * The result is as correct as after reading one slice after the other. A row that was found existed when it was
 * read. If no row was found, there was a moment without the name: a name is in one slice at a time, and gets into
 * another slice only after its removal, so a name that existed during both reads was in one slice during both
 * reads and was found. Writers check that the row is still as it was read.
 */
static int find_two(struct meta *m, struct row *r, uint64_t hash, uint64_t tombstone_id,
		    struct arena *a)
{
	assert(r->slice == SLICE_HOME);
	struct find_job below = {.m = m, .row = *r, .tombstone_id = tombstone_id, .a = a};
	below.row.slice = slice_below(SLICE_HOME, hash);
	struct rt_group g;
	rt_group_init(&g);
	bool both = rt_group_spawn(&g, "slice below", find_fiber, &below) == 0;
	int rc = find_in_slice(m, r, tombstone_id, a);
	rt_group_join(&g);
	if (rc != FIND_BELOW || !both)
		return rc;
	below.row.tombstone = below.row.tombstone || r->tombstone;
	below.row.removed = below.row.removed || r->removed;
	below.row.refused = below.row.refused || r->refused;
	below.row.request_done = below.row.request_done || r->request_done;
	*r = below.row;
	return below.rc;
}

static int find_once(struct meta *m, struct row *r, uint64_t tombstone_id, struct arena *a)
{
	uint64_t hash = slice_name_hash(r->name);
	r->slice = SLICE_HOME;
	r->tombstone = r->removed = r->refused = r->request_done = false;
	int rc = dir_known_spread(m, r->tenant, r->dir) ? find_two(m, r, hash, tombstone_id, a)
							: find_in_slice(m, r, tombstone_id, a);
	while (rc == FIND_BELOW) {
		dir_note_spread(m, r->tenant, r->dir);
		r->slice = slice_below(r->slice, hash);
		rc = find_in_slice(m, r, tombstone_id, a);
	}
	if (rc != 0)
		return rc;
	r->entry = r->row;
	return r->row != NULL && r->row->transfer != 0 ? row_view(m, r, a, &r->entry) : 0;
}

static int find(struct meta *m, uint64_t tombstone_id, struct arena *a, struct row *out)
{
	for (unsigned try = 0;; try++) {
		int rc = find_once(m, out, tombstone_id, a);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

int row_find(struct meta *m, uint32_t tenant, uint64_t dir, struct meta_name name,
	     uint64_t tombstone_id, struct arena *a, struct row *out)
{
	*out = (struct row){.tenant = tenant, .dir = dir, .name = name};
	return find(m, tombstone_id, a, out);
}

int row_find_from(struct meta *m, uint32_t tenant, uint64_t dir, struct meta_name name,
		  uint64_t request, struct arena *a, struct row *out)
{
	assert(request != 0);
	*out = (struct row){.tenant = tenant, .dir = dir, .name = name, .request = request};
	return find(m, 0, a, out);
}

/* --- changing --------------------------------------------------------------------------------- */

/* Restores a row with the id of a transfer without a record to the state before that transfer. */
static int row_restore(struct meta *m, const struct row *r, struct arena *a)
{
	assert(r->row != NULL && r->row->transfer != 0);
	rec_entry *before;
	int rc = row_before(r->row, a, &before);
	if (rc != 0)
		return rc;
	struct txn t;
	txn_init(&t, a);
	txn_equals(&t, row_key(r), r->raw);
	if (before == NULL)
		txn_delete(&t, row_key(r));
	else
		txn_put(&t, row_key(r), &before->base);
	rc = txn_run(m, &t, r->partition, NULL);
	return rc == -ESTALE ? 0 : rc;
}

int row_settle(struct meta *m, const struct row *r, struct arena *a)
{
	if (r->row == NULL || r->row->transfer == 0)
		return 0;
	int rc = transfer_settle(m, r->tenant, r->row->transfer, a);
	if (rc == META_NO_TRANSFER)
		rc = row_restore(m, r, a);
	return rc == 0 ? META_RETRY : rc;
}

int row_guard(struct txn *t, const struct row *r, bool sealed_too)
{
	/* the caller called row_settle, and no transfer holds the row */
	assert(r->row != NULL && r->row->transfer == 0);
	assert(r->entry == r->row);
	if (!sealed_too && r->state != NULL && r->state->sealed)
		return -EROFS;
	txn_equals(t, row_key(r), r->raw);
	if (!sealed_too)
		txn_same(t, key_slice(KEY_SLICE_STATE, r->tenant, r->dir, r->slice), r->state_raw);
	return 0;
}

/* Clears the field `closing` of a slice, which has the id of a transfer that was to remove the directory and has
 * no record any more. */
static int closing_clear(struct meta *m, const struct row *r, struct arena *a)
{
	assert(r->state != NULL && r->state->closing != 0);
	struct schema_key key = key_slice(KEY_SLICE_STATE, r->tenant, r->dir, r->slice);
	rec_slice_state s = *r->state;
	s.closing = 0;
	struct txn t;
	txn_init(&t, a);
	txn_equals(&t, key, r->state_raw);
	if (s.sealed || s.spread)
		txn_put(&t, key, &s.base);
	else
		txn_delete(&t, key);
	int rc = txn_run(m, &t, r->partition, NULL);
	return rc == -ESTALE ? 0 : rc;
}

int row_guard_new(struct meta *m, struct txn *t, const struct row *r, uint64_t id, struct arena *a)
{
	assert(r->row == NULL && r->entry == NULL);
	if (r->dir_raw.data == NULL)
		return -ENOENT;
	if (r->state != NULL && r->state->closing != 0) {
		int rc = transfer_settle(m, r->tenant, r->state->closing, a);
		if (rc == META_NO_TRANSFER)
			rc = closing_clear(m, r, a);
		return rc == 0 ? META_RETRY : rc;
	}
	if (r->state != NULL && r->state->sealed) {
		/* The slices below are sealed before the home slice. Seal the home slice too before -EROFS is
		 * returned, so that every operation finds the directory sealed from now on. If the home slice is
		 * sealed, the directory is; then it may be under an unseal, which sealing it again would undo. */
		struct meta_dir d = {.sealed = true};
		const struct meta_ctx ctx = {.tenant = r->tenant};
		int rc = r->slice == SLICE_HOME ? 0 : meta_dir_get(m, &ctx, r->dir, &d);
		if (rc == 0 && !d.sealed)
			rc = meta_dir_seal(m, &ctx, r->dir);
		return rc == 0 ? -EROFS : rc;
	}
	if (r->state != NULL)
		return META_RETRY;
	txn_present(t, key_slice(KEY_DIR, r->tenant, r->dir, r->slice));
	txn_absent(t, key_slice(KEY_SLICE_STATE, r->tenant, r->dir, r->slice));
	txn_absent(t, row_key(r));
	if (id != 0)
		txn_absent(t, key_slice_id(KEY_TOMBSTONE, r->tenant, r->dir, r->slice, id));
	return 0;
}

void row_put_tombstone(struct txn *t, const struct row *r, uint64_t id, uint32_t kind,
		       enum tombstone_reason why)
{
	rec_tombstone g = TERRANE__REC__TOMBSTONE__INIT;
	g.id = id;
	g.kind = kind;
	g.alive = why == TOMBSTONE_RENAMED;
	g.removed = why == TOMBSTONE_REMOVED;
	g.refused = why == TOMBSTONE_REFUSED;
	txn_put(t, key_slice_id(KEY_TOMBSTONE, r->tenant, r->dir, r->slice, id), &g.base);
}

void row_put_request_done(struct txn *t, const struct row *r, uint64_t request, uint64_t id,
			  uint32_t kind)
{
	rec_tombstone g = TERRANE__REC__TOMBSTONE__INIT;
	g.id = id;
	g.kind = kind;
	g.alive = true;
	txn_put(t, key_slice_id(KEY_REQUEST_DONE, r->tenant, r->dir, r->slice, request), &g.base);
}

/* --- storing a name --------------------------------------------------------------------------- */

/* Adds to t the checks and the tombstone for the replacement of the file that has the name. */
static int replace(struct txn *t, const struct row *r, const rec_entry *entry, unsigned flags)
{
	assert(r->entry != NULL && r->entry->id != entry->id);
	if ((flags & META_OVERWRITE) == 0)
		return -EEXIST;
	if (r->entry->kind == META_DIR)
		return -EISDIR;
	if (entry->kind == META_DIR)
		return -EEXIST;
	int rc = row_guard(t, r, false);
	if (rc != 0)
		return rc;
	txn_absent(t, key_slice_id(KEY_TOMBSTONE, r->tenant, r->dir, r->slice, entry->id));
	row_put_tombstone(t, r, r->entry->id, META_FILE, TOMBSTONE_REPLACED);
	return 0;
}

/* Stores the entry if the row is still as it was read. META_RETRY: the row has changed, find it again. */
static int create_at(struct meta *m, const struct row *r, rec_entry *entry, unsigned flags,
		     struct arena *a)
{
	struct txn t;
	txn_init(&t, a);
	int rc = row_settle(m, r, a);
	if (rc != 0)
		return rc;
	/* The name leads to the id, or led to it: an earlier copy of this request stored the name. */
	if (r->tombstone || (r->entry != NULL && r->entry->id == entry->id))
		return r->refused ? -EEXIST : 0;
	if (r->request_done)
		return -EEXIST; /* row_forbid has fenced this request */
	rc = r->entry != NULL ? replace(&t, r, entry, flags)
			      : row_guard_new(m, &t, r, entry->id, a);
	if (rc != 0)
		return rc;
	if (r->request != 0)
		txn_absent(&t,
			   key_slice_id(KEY_REQUEST_DONE, r->tenant, r->dir, r->slice, r->request));
	entry->stamp = rt_random_u64();
	txn_put(&t, row_key(r), &entry->base);
	rc = txn_run(m, &t, r->partition, NULL);
	if (rc == 0 && r->entry == NULL)
		slice_maybe_spread(m, r->tenant, r->dir, r->slice, 1);
	return rc == -ESTALE ? META_RETRY : rc;
}

int row_create(struct meta *m, const struct row *at, rec_entry *entry, unsigned flags,
	       struct arena *a)
{
	assert(entry->id > META_ROOT);
	assert(entry->transfer == 0 && !entry->arriving);
	for (unsigned try = 0;; try++) {
		struct row r = {.tenant = at->tenant,
				.dir = at->dir,
				.name = at->name,
				.request = at->request};
		int rc = find(m, entry->id, a, &r);
		if (rc == 0)
			rc = create_at(m, &r, entry, flags, a);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

/* Stores the fence of a request if the row is still as it was read. META_RETRY: the row has changed, find it again. */
static int forbid_at(struct meta *m, const struct row *r, uint64_t id, struct arena *a)
{
	struct txn t;
	int rc = row_settle(m, r, a);
	if (rc != 0 || r->request_done || r->dir_raw.data == NULL)
		/* nothing to fence: no name can be stored in a directory that does not exist */
		return rc;
	if (r->entry != NULL && r->entry->id == id)
		return -EEXIST;
	txn_init(&t, a);
	txn_same(&t, row_key(r), r->raw);
	txn_same(&t, key_slice(KEY_SLICE_STATE, r->tenant, r->dir, r->slice), r->state_raw);
	row_put_request_done(&t, r, r->request, id, META_FILE);
	rc = txn_run(m, &t, r->partition, NULL);
	return rc == -ESTALE ? META_RETRY : rc;
}

int row_forbid(struct meta *m, uint32_t tenant, uint64_t dir, struct meta_name name, uint64_t id,
	       uint64_t request, struct arena *a)
{
	for (unsigned try = 0;; try++) {
		struct row r;
		int rc = row_find_from(m, tenant, dir, name, request, a, &r);
		if (rc == 0)
			rc = forbid_at(m, &r, id, a);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}
