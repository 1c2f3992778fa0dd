// SPDX-License-Identifier: Apache-2.0
/*
 * The name step of a create (name.c): stores the names of many files of one directory, in as few transactions as
 * possible.
 *
 * First, one transaction tries to store all names, which is enough for a directory that is not spread and names that
 * are new. If it fails, the names are stored slice by slice, with one transaction for each slice. The names that are
 * still not stored, because a row or a transfer prevents it, are stored one by one.
 */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "meta/name_create.h"

/* Stores all names in one transaction, which fails when any of them exists or the directory is spread or sealed.
 * META_RETRY: store them one by one. -ENOENT no such directory. */
static int names_quick(struct create_op *k)
{
	if (dir_known_spread(k->m, k->tenant, k->dir))
		return META_RETRY;
	struct txn t;
	txn_init(&t, k->a);
	txn_present(&t, key_slice(KEY_DIR, k->tenant, k->dir, SLICE_HOME));
	txn_absent(&t, key_slice(KEY_SLICE_STATE, k->tenant, k->dir, SLICE_HOME));
	size_t n = 0;
	for (size_t i = 0; i < k->n; i++) {
		if (k->results[i] != 0)
			continue;
		struct schema_key key = key_entry(k->tenant, k->dir, SLICE_HOME, k->files[i].name);
		txn_absent(&t, key);
		txn_absent(&t, key_slice_id(KEY_TOMBSTONE, k->tenant, k->dir, SLICE_HOME,
					    k->files[i].id));
		txn_put(&t, key, &k->entries[i].base);
		n++;
	}
	if (n == 0)
		return 0;
	size_t failed = 0;
	int rc = txn_run(k->m, &t, part_name(k->m, k->tenant, k->dir, SLICE_HOME), &failed);
	if (rc == 0)
		slice_maybe_spread(k->m, k->tenant, k->dir, SLICE_HOME, n);
	if (rc != -ESTALE)
		return rc;
	return failed == 0 ? -ENOENT : META_RETRY;
}

/* Stores the names of the files with the indexes which[0..n) in one slice, in one transaction, and sets k->named for
 * them. If a check of the transaction fails, stores none of the names and returns 0: the caller stores them one by
 * one. */
static int names_leaf(struct create_op *k, uint32_t slice, const size_t *which, size_t n)
{
	struct txn t;
	txn_init(&t, k->a);
	txn_present(&t, key_slice(KEY_DIR, k->tenant, k->dir, slice));
	txn_absent(&t, key_slice(KEY_SLICE_STATE, k->tenant, k->dir, slice));
	for (size_t i = 0; i < n; i++) {
		const struct meta_create *f = &k->files[which[i]];
		struct schema_key key = key_entry(k->tenant, k->dir, slice, f->name);
		txn_absent(&t, key);
		txn_absent(&t, key_slice_id(KEY_TOMBSTONE, k->tenant, k->dir, slice, f->id));
		txn_put(&t, key, &k->entries[which[i]].base);
	}
	int rc = n > 0 ? txn_run(k->m, &t, part_name(k->m, k->tenant, k->dir, slice), NULL) : 0;
	if (rc != 0)
		return rc == -ESTALE ? 0 : rc;
	for (size_t i = 0; i < n; i++)
		k->named[which[i]] = true;
	if (n > 0)
		slice_maybe_spread(k->m, k->tenant, k->dir, slice, n);
	return 0;
}

/* Keeps in which[0..*n) the files without a row of this kind in the slice. Reads the value of the key `more` into
 * *value in the same request. */
static int keys_missing(struct create_op *k, uint32_t slice, enum key_kind kind, size_t *which,
			size_t *n, struct schema_key more, struct kv_bytes *value)
{
	struct schema_key *keys = arena_alloc(k->a, (*n + 1) * sizeof(*keys));
	struct kv_bytes *list = arena_alloc(k->a, (*n + 1) * sizeof(*list));
	if (keys == NULL || list == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < *n; i++) {
		const struct meta_create *f = &k->files[which[i]];
		keys[i] = kind == KEY_ENTRY ? key_entry(k->tenant, k->dir, slice, f->name)
					    : key_slice_id(kind, k->tenant, k->dir, slice, f->id);
	}
	keys[*n] = more;
	for (size_t i = 0; i <= *n; i++)
		list[i] = key_bytes(&keys[i]);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	int rc = kv_get(k->m->kv, part_name(k->m, k->tenant, k->dir, slice), list, *n + 1, &rows);
	assert(rc != 0 || rows.count == *n + 1);
	*value = (struct kv_bytes){0};
	if (rc == 0 && rows.row[*n].found)
		rc = arena_copy(k->a, rows.row[*n].value, value);
	if (rc != 0)
		return rc;
	size_t missing = 0;
	for (size_t i = 0; i < *n; i++)
		if (!rows.row[i].found)
			which[missing++] = which[i];
	*n = missing;
	return 0;
}

/*
 * Keeps in which[0..*n) the files whose names the slice neither has nor had. Sets *shut to the slice's state (NULL:
 * the slice takes new names). A tombstone of a file's id means that an earlier copy of this request stored its name.
 * Tombstones are read after the names, because the transaction that removes a name stores its tombstone.
 */
static int names_missing(struct create_op *k, uint32_t slice, size_t *which, size_t *n,
			 rec_slice_state **shut)
{
	struct schema_key key = key_slice(KEY_SLICE_STATE, k->tenant, k->dir, slice);
	struct kv_bytes shut_raw;
	struct kv_bytes again;
	*shut = NULL;
	int rc = keys_missing(k, slice, KEY_ENTRY, which, n, key, &shut_raw);
	if (rc == 0 && *n > 0)
		rc = keys_missing(k, slice, KEY_TOMBSTONE, which, n, key, &again);
	return rc == 0 && shut_raw.data != NULL ? rec_read_slice_state(k->a, shut_raw, shut) : rc;
}

/* Stores the names that do not exist yet, slice by slice, down to the slices that take new names. Existing names are
 * left to row_create. */
static int names_slices(struct create_op *k, uint32_t slice, size_t *which, size_t n)
{
	assert(slice_valid(slice));
	rec_slice_state *shut;
	int rc = names_missing(k, slice, which, &n, &shut);
	if (rc != 0)
		return rc;
	if (shut == NULL)
		return names_leaf(k, slice, which, n);
	if (!shut->spread || slice_level(slice) >= SLICE_LEVELS)
		return 0;
	dir_note_spread(k->m, k->tenant, k->dir);
	/* Each round moves the names of one slice below to the front of `which`, and stores them there. */
	while (n > 0 && rc == 0) {
		uint32_t below = slice_below(slice, slice_name_hash(k->files[which[0]].name));
		size_t here = 0;
		for (size_t i = 0; i < n; i++) {
			size_t f = which[i];
			if (slice_below(slice, slice_name_hash(k->files[f].name)) != below)
				continue;
			which[i] = which[here];
			which[here++] = f;
		}
		assert(here > 0 && here <= n);
		rc = names_slices(k, below, which, here);
		which += here;
		n -= here;
	}
	return rc;
}

static int names_batch(struct create_op *k)
{
	size_t *which = arena_alloc(k->a, k->n * sizeof(*which));
	if (which == NULL)
		return -ENOMEM;
	size_t n = 0;
	for (size_t i = 0; i < k->n; i++)
		if (k->results[i] == 0)
			which[n++] = i;
	return n > 1 ? names_slices(k, SLICE_HOME, which, n) : 0;
}

int create_names(struct create_op *k)
{
	int rc = names_quick(k);
	if (rc != META_RETRY)
		return rc;
	rc = names_batch(k);
	for (size_t i = 0; i < k->n && rc == 0; i++) {
		if (k->results[i] != 0 || k->named[i])
			continue;
		rc = row_create(
			k->m,
			&(struct row){.tenant = k->tenant, .dir = k->dir, .name = k->files[i].name},
			&k->entries[i], k->flags, k->a);
		if (rc == -EEXIST || rc == -EISDIR) {
			k->results[i] = rc;
			rc = 0;
		}
	}
	return rc;
}
