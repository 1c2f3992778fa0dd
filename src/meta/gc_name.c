// SPDX-License-Identifier: Apache-2.0
/*
 * Collectors of the Name layer: they delete tombstones and directories that no name leads to, write missing records of
 * names, and end transfers that a crashed server did not finish.
 */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/log.h"
#include "meta/file.h"
#include "meta/gc_impl.h"
#include "meta_api/id.h"
#include "rt/rt.h"

/* --- tombstones ------------------------------------------------------------------------------- */

int gc_names_row(struct gc *g, const struct kv_row *row)
{
	uint32_t tenant;
	uint64_t dir;
	uint32_t slice;
	uint64_t id;
	rec_tombstone *gone;
	if (!key_read_slice_id(row->key, &tenant, &dir, &slice, &id))
		return -EBADMSG;
	int rc = rec_read_tombstone(g->a, row->value, &gone);
	if (rc != 0)
		return rc;
	if (gone->mark == 0 && gone->kind == META_FILE && !gone->alive)
		rc = gc_file_leaves(g, tenant, id);
	if (rc != 0 || gc_in_grace(g, row, &gone->mark, &gone->base, &rc))
		return rc;
	if (gone->kind == META_FILE && !gone->alive)
		rc = file_remove(g->m, tenant, id, g->a);
	return rc == 0 ? gc_delete(g, row) : rc;
}

/* --- directories ------------------------------------------------------------------------------ */

/* Called for a slice that no name leads to. If there is no suspicion (Suspect row) for the slice's present record,
 * stores one with a mark; else sets *over to whether the grace period of the suspicion is over. */
static int dir_suspect(struct gc *g, uint32_t tenant, uint64_t dir, uint32_t slice,
		       const struct kv_row *row, bool *over)
{
	*over = false;
	struct schema_key key = key_slice(KEY_SUSPECT, tenant, dir, slice);
	uint64_t hash = hash64(row->value.data, row->value.len, 0);
	struct reads r;
	rec_suspect *y = NULL;
	int rc = meta_read(g->m, g->partition, &key, 1, g->a, &r);
	if (rc == 0 && r.value[0].data != NULL)
		rc = rec_read_suspect(g->a, r.value[0], &y);
	if (rc != 0)
		return rc;
	if (y != NULL && y->hash == hash) {
		g->counts->left++;
		*over = gc_grace_over(g, y->mark);
		return 0;
	}
	rec_suspect fresh = TERRANE__REC__SUSPECT__INIT;
	fresh.mark = g->now;
	fresh.hash = hash;
	struct txn t;
	txn_init(&t, g->a);
	txn_equals(&t, gc_key(row->key), row->value);
	txn_same(&t, key, r.value[0]);
	txn_put(&t, key, &fresh.base);
	g->counts->marked++;
	rc = txn_run(g->m, &t, g->partition, NULL);
	return rc == -ESTALE ? 0 : rc;
}

/* Deletes a slice if it has no names. Closes the slice first, so that no name is added while its names are read:
 * see row_guard_new. */
static int remove_empty(struct gc *g, uint32_t tenant, uint64_t dir, uint32_t slice,
			const struct kv_row *row)
{
	struct schema_key state_key = key_slice(KEY_SLICE_STATE, tenant, dir, slice);
	struct txn t;
	txn_init(&t, g->a);
	rec_slice_state closing = TERRANE__REC__SLICE_STATE__INIT;
	closing.closing = meta_id();
	struct kv_bytes closed = {0};
	int rc = rec_pack(g->a, &closing.base, &closed);
	if (rc != 0)
		return rc;
	txn_equals(&t, gc_key(row->key), row->value);
	txn_absent(&t, state_key);
	txn_put_bytes(&t, state_key, closed);
	rc = txn_run(g->m, &t, g->partition, NULL);
	bool any = true;
	if (rc == 0)
		rc = meta_prefix_exists(g->m, g->partition,
					key_slice(KEY_ENTRY, tenant, dir, slice), &any);
	if (rc != 0)
		return rc == -ESTALE ? 0 : rc;
	txn_init(&t, g->a);
	txn_equals(&t, state_key, closed);
	txn_delete(&t, state_key);
	if (!any) {
		txn_equals(&t, gc_key(row->key), row->value);
		txn_delete(&t, gc_key(row->key));
		txn_delete(&t, key_slice(KEY_SUSPECT, tenant, dir, slice));
		txn_delete(&t, key_id(KEY_USAGE, tenant, dir));
		g->counts->collected++;
	}
	rc = txn_run(g->m, &t, g->partition, NULL);
	return rc == -ESTALE ? 0 : rc;
}

/* Sets *named to whether a name leads to the directory. Looks under the name in the directory's record first; if
 * the directory has another name, updates the record. */
static int dir_named(struct gc *g, uint32_t tenant, const struct kv_row *row, rec_dir *d,
		     bool *named)
{
	struct row at;
	struct meta_name hint = {(const char *)d->name.data, d->name.len};
	*named = false;
	if (hint.len > 0) {
		int rc = row_find(g->m, tenant, d->parent, hint, d->id, g->a, &at);
		if (rc != 0)
			return rc;
		/* A tombstone means that the directory may be between two names: treat it as named. The
		 * alternative, a search, would read all names of the parent. */
		*named = at.tombstone || (at.entry != NULL && at.entry->id == d->id);
		if (*named)
			return 0;
	}
	struct gc_search s = {.id = d->id};
	int rc = gc_search_part(g, tenant, d->parent, &s);
	*named = s.found || s.pending;
	if (rc != 0 || !s.found)
		return rc;
	d->name = (ProtobufCBinaryData){s.name_len, (uint8_t *)s.name};
	return gc_mark(g, row, &d->base);
}

/* Sets *named to whether a slice is in use. A slice below the home slice is in use as long as the directory exists. */
static int slice_named(struct gc *g, uint32_t tenant, uint64_t dir, uint32_t slice,
		       const struct kv_row *row, rec_dir *d, bool *named)
{
	if (slice == SLICE_HOME)
		return dir_named(g, tenant, row, d, named);
	struct kv_bytes raw;
	rec_dir *home;
	int rc = dir_read(g->m, tenant, dir, g->a, &raw, &home);
	*named = home != NULL;
	return rc;
}

static int dir_row(struct gc *g, const struct kv_row *row)
{
	uint32_t tenant;
	uint64_t dir;
	uint32_t slice;
	rec_dir *d;
	if (!key_read_slice(row->key, &tenant, &dir, &slice))
		return -EBADMSG;
	int rc = rec_read_dir(g->a, row->value, &d);
	if (rc != 0 || (dir == META_ROOT && slice == SLICE_HOME))
		return rc;
	if (slice == SLICE_HOME && d->transfer != 0) {
		struct transfer t;
		rc = transfer_read(g->m, tenant, d->transfer, g->a, &t);
		if (rc != 0 || t.rec != NULL)
			return rc; /* gc_transfers_row completes the transfer */
		d->transfer = 0;
		return gc_mark(g, row, &d->base);
	}
	bool named = false, over = false;
	rc = slice_named(g, tenant, dir, slice, row, d, &named);
	if (rc == 0 && !named)
		rc = dir_suspect(g, tenant, dir, slice, row, &over);
	assert(!over || !named);
	return rc == 0 && over ? remove_empty(g, tenant, dir, slice, row) : rc;
}

/* Restores an entry that has the id of a transfer without a record: a transfer that was aborted can leave such an
 * entry. */
static int release_entry(struct gc *g, const struct row *r)
{
	assert(r->row != NULL && r->row->transfer != 0);
	struct transfer t;
	int rc = transfer_read(g->m, r->tenant, r->row->transfer, g->a, &t);
	if (rc != 0 || t.rec != NULL)
		return rc;
	g->counts->collected++;
	rc = row_settle(g->m, r, g->a);
	return rc == META_RETRY ? 0 : rc;
}

/* Opens a slice that a transfer closed, if the transfer has no record any more. */
static int slice_state_row(struct gc *g, const struct kv_row *row)
{
	uint32_t tenant;
	uint64_t dir;
	uint32_t slice;
	rec_slice_state *s;
	struct transfer t;
	if (!key_read_slice(row->key, &tenant, &dir, &slice))
		return -EBADMSG;
	int rc = rec_read_slice_state(g->a, row->value, &s);
	if (rc != 0 || s->closing == 0)
		return rc;
	rc = transfer_read(g->m, tenant, s->closing, g->a, &t);
	if (rc != 0 || t.rec != NULL)
		return rc;
	s->closing = 0;
	return s->sealed || s->spread ? gc_mark(g, row, &s->base) : gc_delete(g, row);
}

/* Creates the missing record of a sealed empty file: the record is stored after the name, so a crash can prevent
 * it. Restores an entry that has the id of an ended transfer. */
static int entry_row(struct gc *g, const struct kv_row *row)
{
	struct row r = {.partition = g->partition};
	if (!key_read_entry(row->key, &r.tenant, &r.dir, &r.slice, &r.name))
		return -EBADMSG;
	int rc = rec_read_entry(g->a, row->value, &r.entry);
	if (rc != 0)
		return rc;
	r.raw = row->value;
	r.row = r.entry;
	if (r.entry->transfer != 0)
		return release_entry(g, &r);
	if (r.entry->kind != META_FILE || !r.entry->sealed || r.entry->size > 0)
		return 0;
	struct kv_bytes raw;
	rec_file *f;
	bool dead;
	rc = file_read(g->m, r.tenant, r.entry->id, g->a, &raw, &f, &dead);
	if (rc == 0 && f == NULL && !dead) {
		g->counts->collected++;
		rc = file_restore(g->m, &r, g->a);
	}
	return rc;
}

/* Deletes a suspicion (Suspect row) if its directory was deleted, has changed, or has a name. A later suspicion
 * starts a new grace period. */
static int dir_suspect_row(struct gc *g, const struct kv_row *row)
{
	uint32_t tenant;
	uint64_t dir;
	uint32_t slice;
	rec_suspect *y;
	if (!key_read_slice(row->key, &tenant, &dir, &slice))
		return -EBADMSG;
	struct schema_key key = key_slice(KEY_DIR, tenant, dir, slice);
	struct reads r;
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
		rec_dir *d;
		rc = rec_read_dir(g->a, of.value, &d);
		if (rc == 0)
			rc = slice_named(g, tenant, dir, slice, &of, d, &named);
	}
	return rc == 0 && (!same || named) ? gc_delete(g, row) : rc;
}

int gc_dirs_row(struct gc *g, const struct kv_row *row)
{
	switch (key_kind(row->key)) {
	case KEY_DIR:
		return dir_row(g, row);
	case KEY_ENTRY:
		return entry_row(g, row);
	case KEY_SLICE_STATE:
		return slice_state_row(g, row);
	default:
		return dir_suspect_row(g, row);
	}
}

/* --- transfers -------------------------------------------------------------------------------- */

int gc_transfers_row(struct gc *g, const struct kv_row *row)
{
	uint32_t tenant;
	uint64_t id;
	rec_transfer *t;
	if (!key_read_id(row->key, &tenant, &id))
		return -EBADMSG;
	int rc = rec_read_transfer(g->a, row->value, &t);
	if (rc != 0)
		return rc;
	if (gc_in_grace(g, row, &t->mark, &t->base, &rc))
		return rc;
	rc = transfer_settle(g->m, tenant, id, g->a);
	if (rc >= 0)
		g->counts->collected++;
	return rc == META_NO_TRANSFER ? 0 : rc;
}
