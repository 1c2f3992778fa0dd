// SPDX-License-Identifier: Apache-2.0
/*
 * Sealing directories, and taking the seal back.
 *
 * A directory is sealed, and unsealed, slice by slice, the deepest first. So while the home slice is sealed after a seal
 * has returned, all slices are; and once the home slice is not sealed any more, none is, unless a seal is under way. A
 * create that finds a slice below sealed asks the home slice (row_guard_new): if that is sealed, too, the create is
 * refused; else a seal is under way, or crashed, and the create completes it. So an unseal under way is not undone.
 *
 * While a spread directory is being unsealed, some of its names can be changed and others cannot yet.
 */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "meta/impl.h"

/*
 * Completes or aborts all transfers that hold rows of a sealed slice, because their outcome changes which names the
 * directory shows. New transfers cannot take a row of a sealed slice.
 */
static int slice_settle(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice)
{
	struct schema_key prefix = key_slice(KEY_ENTRY, tenant, dir, slice);
	struct schema_key after = {0};
	struct row held = {.partition = part_name(m, tenant, dir, slice)};
	AUTO_KV_ROWS struct kv_rows rows = {0};
	do {
		struct kv_range range = {.prefix = key_bytes(&prefix), .after = key_bytes(&after)};
		int rc = kv_scan(m->kv, held.partition, &range, &rows);
		assert(rc != 0 || rows.count > 0 || !rows.more);
		for (size_t i = 0; i < rows.count && rc == 0; i++) {
			AUTO_ARENA struct arena a;
			arena_init(&a, MIB);
			held.raw = rows.row[i].value;
			rc = rec_read_entry(&a, held.raw, &held.row);
			if (rc == 0 && !key_read_entry(rows.row[i].key, &held.tenant, &held.dir,
						       &held.slice, &held.name))
				rc = -EBADMSG;
			if (rc == 0)
				rc = row_settle(m, &held, &a);
			after.len = min_u64(rows.row[i].key.len, sizeof(after.bytes));
			memcpy(after.bytes, rows.row[i].key.data, after.len);
			rc = rc == META_RETRY ? 0 : rc;
		}
		if (rc != 0)
			return rc;
	} while (rows.more);
	return 0;
}

/* Seals one slice. below: the walk found the slice spread. META_RETRY: the slice has changed, begin the walk again. */
static int slice_seal(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice, bool below,
		      void *ctx)
{
	(void)ctx;
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	uint64_t partition = part_name(m, tenant, dir, slice);
	struct schema_key keys[2] = {key_slice(KEY_SLICE_STATE, tenant, dir, slice),
				     key_slice(KEY_DIR, tenant, dir, slice)};
	struct reads r;
	rec_slice_state *s = NULL;
	int rc = meta_read(m, partition, keys, 2, &a, &r);
	if (rc == 0 && r.value[1].data == NULL)
		rc = -ENOENT;
	if (rc == 0 && r.value[0].data != NULL)
		rc = rec_read_slice_state(&a, r.value[0], &s);
	if (rc != 0)
		return rc;
	/* An earlier copy of this request sealed the slice, but may have crashed before it ended the transfers that
	 * hold its rows. */
	if (s != NULL && s->sealed)
		return slice_settle(m, tenant, dir, slice);
	/* The slice was spread after the walk read it, so the walk missed the slices below. */
	if ((s != NULL && s->spread) != below)
		return META_RETRY;
	if (s != NULL && s->closing != 0) {
		rc = transfer_settle(m, tenant, s->closing, &a);
		if (rc == 0)
			return META_RETRY;
		if (rc != META_NO_TRANSFER)
			return rc;
	}
	rec_slice_state shut = TERRANE__REC__SLICE_STATE__INIT;
	if (s != NULL)
		shut = *s;
	shut.closing = 0;
	shut.sealed = true;
	struct txn t;
	txn_init(&t, &a);
	txn_same(&t, keys[0], r.value[0]);
	txn_present(&t, keys[1]);
	txn_put(&t, keys[0], &shut.base);
	rc = txn_run(m, &t, partition, NULL);
	if (rc != 0)
		return rc == -ESTALE ? META_RETRY : rc;
	return slice_settle(m, tenant, dir, slice);
}

/* Seals a directory, the deepest slices first: once the home slice is sealed, all slices are. */
int meta_dir_seal(struct meta *m, const struct meta_ctx *ctx, uint64_t dir)
{
	for (unsigned try = 0;; try++) {
		int rc = slices_walk(m, ctx->tenant, dir, true, slice_seal, NULL);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

/* --- unsealing -------------------------------------------------------------------------------- */

/* Takes the seal of one slice back. META_RETRY: the slice has changed, begin the walk again. */
static int slice_unseal(struct meta *m, uint32_t tenant, uint64_t dir, uint32_t slice, bool below,
			void *ctx)
{
	(void)below;
	(void)ctx;
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	uint64_t partition = part_name(m, tenant, dir, slice);
	struct schema_key keys[2] = {key_slice(KEY_SLICE_STATE, tenant, dir, slice),
				     key_slice(KEY_DIR, tenant, dir, slice)};
	struct reads r;
	rec_slice_state *s = NULL;
	int rc = meta_read(m, partition, keys, 2, &a, &r);
	if (rc == 0 && r.value[1].data == NULL)
		rc = -ENOENT;
	if (rc == 0 && r.value[0].data != NULL)
		rc = rec_read_slice_state(&a, r.value[0], &s);
	if (rc != 0 || s == NULL || !s->sealed)
		return rc;
	s->sealed = false;
	struct txn t;
	txn_init(&t, &a);
	txn_same(&t, keys[0], r.value[0]);
	txn_present(&t, keys[1]);
	if (s->spread || s->closing != 0)
		txn_put(&t, keys[0], &s->base);
	else
		txn_delete(&t, keys[0]);
	rc = txn_run(m, &t, partition, NULL);
	return rc == -ESTALE ? META_RETRY : rc;
}

int meta_dir_unseal(struct meta *m, const struct meta_ctx *ctx, uint64_t dir)
{
	assert(ctx->tenant != 0);
	for (unsigned try = 0;; try++) {
		int rc = slices_walk(m, ctx->tenant, dir, true, slice_unseal, NULL);
		if (rc == 0 && m->cache != NULL)
			cache_clear(m->cache);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}
