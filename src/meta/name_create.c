// SPDX-License-Identifier: Apache-2.0
/* Creates files with their names, many in one request. name.c explains the order of the two steps: the record step
 * writes the file records, the name step the names. */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "base/hash.h"
#include "meta/attr.h"
#include "meta/name_create.h"
#include "meta/quota.h"
#include "meta_api/attr.h"
#include "rt/rt.h"

/* --- checks of the request -------------------------------------------------------------------- */

static int file_check(const struct meta_create *f, uint64_t *size)
{
	int rc = schema_name_check(f->name);
	if (rc == 0 && f->attrs != NULL)
		rc = meta_attrs_check(f->attrs);
	if (rc != 0)
		return rc;
	if (f->id <= META_ROOT || f->extent_count > META_INLINE_EXTENTS ||
	    (f->token != 0 && f->extent_count > 0))
		return -EINVAL;
	*size = 0;
	for (size_t i = 0; i < f->extent_count; i++) {
		rc = meta_extent_check(&f->extents[i]);
		if (rc == 0 && f->extents[i].open)
			rc = -EINVAL;
		if (rc != 0)
			return rc;
		*size += f->extents[i].length;
	}
	return *size > META_FILE_MAX ? -EOVERFLOW : 0;
}

/* Adds the file's name and id to the set `seen`. -EEXIST: another file of the request has the same name or id, or a
 * name or id with the same hash: refusing such a collision is rare and safe. */
static int note_name_and_id(struct map *seen, struct create_op *k, size_t i)
{
	int rc = map_put(seen, hash64(k->files[i].name.text, k->files[i].name.len, 1), k);
	if (rc == 0)
		rc = map_put(seen, hash64_u64s(k->files[i].id, 2), k);
	return rc;
}

static int entry_make(struct create_op *k, size_t i, uint64_t size)
{
	assert(k->results[i] == 0 && k->files[i].extent_count <= META_INLINE_EXTENTS);
	const struct meta_create *f = &k->files[i];
	rec_entry *e = &k->entries[i];
	terrane__rec__entry__init(e);
	e->kind = META_FILE;
	e->id = f->id;
	e->size = size;
	e->mtime_ns = f->mtime_ns;
	e->sealed = f->token == 0;
	e->token = f->token;
	e->stamp = rt_random_u64();
	rec_attrs *room = f->attrs != NULL ? arena_alloc(k->a, sizeof(*room)) : NULL;
	int rc = f->attrs == NULL ? 0
		 : room == NULL   ? -ENOMEM
				  : attr_to_record(k->a, f->attrs, room, e);
	if (rc != 0)
		return rc;
	rec_file r = TERRANE__REC__FILE__INIT;
	r.dir = k->dir;
	r.size = size;
	r.mtime_ns = f->mtime_ns;
	r.token = f->token;
	r.sealed = e->sealed;
	r.linked = true;
	r.name = (ProtobufCBinaryData){f->name.len, (uint8_t *)f->name.text};
	r.extent_count = r.n_extents = f->extent_count;
	rec_extent parts[META_INLINE_EXTENTS];
	rec_extent *list[META_INLINE_EXTENTS];
	for (size_t j = 0; j < f->extent_count; j++) {
		rec_extent_set(&parts[j], &f->extents[j]);
		list[j] = &parts[j];
	}
	r.extents = list;
	return rec_pack(k->a, &r.base, &k->records[i]);
}

static int prepare_files(struct create_op *k, struct map *seen)
{
	for (size_t i = 0; i < k->n; i++) {
		uint64_t size = 0;
		k->results[i] = file_check(&k->files[i], &size);
		int rc = k->n > 1 && k->results[i] == 0 ? note_name_and_id(seen, k, i) : 0;
		if (rc == -EEXIST)
			k->results[i] = -EINVAL;
		else if (rc != 0)
			return rc;
		rc = k->results[i] == 0 ? entry_make(k, i, size) : 0;
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int prepare(struct create_op *k)
{
	k->entries = arena_alloc(k->a, k->n * sizeof(k->entries[0]));
	k->records = arena_alloc(k->a, k->n * sizeof(k->records[0]));
	k->removed = arena_alloc(k->a, 3 * k->n * sizeof(k->removed[0]));
	if (k->entries == NULL || k->records == NULL || k->removed == NULL)
		return -ENOMEM;
	memset(k->removed, 0, 3 * k->n * sizeof(k->removed[0]));
	k->taken = k->removed + k->n;
	k->named = k->taken + k->n;
	struct map seen;
	map_init(&seen, 2 * k->n);
	int rc = prepare_files(k, &seen);
	map_fini(&seen);
	return rc;
}

/* --- record step: file records ---------------------------------------------------------------- */

/* Handles a file id that has a record already: sets taken unless an earlier copy of this request wrote the record;
 * sets removed if the file was removed since. */
static int record_recheck(struct create_op *k, size_t i)
{
	struct kv_bytes raw;
	rec_file *f;
	bool dead;
	int rc = file_read(k->m, k->tenant, k->files[i].id, k->a, &raw, &f, &dead);
	if (rc != 0)
		return rc;
	k->removed[i] = f == NULL && dead;
	if (f == NULL)
		return dead ? 0 : -EAGAIN; /* the name step finds the tombstone of a removed file */
	const struct meta_create *want = &k->files[i];
	bool same = f->dir == k->dir && f->linked && f->extent_count == want->extent_count &&
		    f->name.len == want->name.len &&
		    memcmp(f->name.data, want->name.text, want->name.len) == 0;
	k->taken[i] = !same;
	return 0;
}

static int records_put(struct create_op *k, const size_t *which, size_t n, uint64_t partition)
{
	struct txn t;
	assert(n > 0 && n <= k->n);
	txn_init(&t, k->a);
	t.early = k->in_order;
	for (size_t j = 0; j < n; j++) {
		uint64_t id = k->files[which[j]].id;
		txn_absent(&t, key_id(KEY_FILE, k->tenant, id));
		txn_absent(&t, key_id(KEY_DEAD_FILE, k->tenant, id));
		txn_put_bytes(&t, key_id(KEY_FILE, k->tenant, id), k->records[which[j]]);
	}
	return txn_run(k->m, &t, partition, NULL);
}

/* Writes the records of files of one partition in one transaction; if one of the records exists already, writes them
 * one by one. */
static int records_group(struct create_op *k, const size_t *which, size_t n, uint64_t partition)
{
	int rc = records_put(k, which, n, partition);
	if (rc != -ESTALE)
		return rc;
	rc = 0;
	for (size_t j = 0; j < n && rc == 0; j++) {
		rc = n == 1 ? -ESTALE : records_put(k, &which[j], 1, partition);
		if (rc == -ESTALE)
			rc = record_recheck(k, which[j]);
	}
	return rc;
}

/* Runs the record step: writes the file records of all files of the request. */
static int records_make(struct create_op *k)
{
	size_t *which = arena_alloc(k->a, k->n * sizeof(*which));
	bool *done = arena_alloc(k->a, k->n * sizeof(*done));
	uint64_t *partitions = arena_alloc(k->a, k->n * sizeof(*partitions));
	if (which == NULL || done == NULL || partitions == NULL)
		return -ENOMEM;
	memset(done, 0, k->n * sizeof(*done));
	for (size_t i = 0; i < k->n; i++)
		partitions[i] = part_of(k->m, META_LAYER_FILE, k->tenant, k->files[i].id);
	for (size_t i = 0; i < k->n; i++) {
		if (done[i] || k->results[i] != 0)
			continue;
		size_t n = 0;
		for (size_t j = i; j < k->n; j++) {
			if (done[j] || k->results[j] != 0 || partitions[j] != partitions[i])
				continue;
			done[j] = true;
			which[n++] = j;
		}
		int rc = records_group(k, which, n, partitions[i]);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static void records_fiber(void *arg)
{
	struct create_op *k = arg;
	k->records_rc = records_make(k);
}

/* --- between the two steps: blocks ------------------------------------------------------------ */

/* Returns whether the file has extents in the block; sets *bytes to their total length. */
static bool has_block(const struct meta_create *f, uint64_t block, uint64_t *bytes)
{
	bool has = false;
	*bytes = 0;
	for (size_t i = 0; i < f->extent_count; i++) {
		if (f->extents[i].block != block)
			continue;
		has = true;
		*bytes += f->extents[i].length;
	}
	return has;
}

/* Deletes a file record if it is still as the record step wrote it. Called only when no copy of the request can
 * store a name for the file any more. */
static int record_unmake(struct create_op *k, size_t i)
{
	struct schema_key key = key_id(KEY_FILE, k->tenant, k->files[i].id);
	struct txn t;
	txn_init(&t, k->a);
	txn_equals(&t, key, k->records[i]);
	txn_delete(&t, key);
	int rc = txn_run(k->m, &t, part_of(k->m, META_LAYER_FILE, k->tenant, k->files[i].id), NULL);
	return rc == -ESTALE ? 0 : rc;
}

/* Checks that the block exists and that its record has as owners all files of the request with extents in it. Files
 * with extents in a missing block are refused with -ENOENT. */
static int block_of_files(struct create_op *k, uint64_t block, struct meta_owner *owners)
{
	size_t n = 0;
	uint64_t bytes;
	for (size_t i = 0; i < k->n; i++)
		if (k->results[i] == 0 && !k->removed[i] && has_block(&k->files[i], block, &bytes))
			owners[n++] = (struct meta_owner){.file = k->files[i].id, .bytes = bytes};
	int rc = block_hold(k->m, k->tenant, block, owners, n, k->a);
	if (rc != -ENOENT)
		return rc;
	/* No copy of the request has stored the name of one of these files: that copy would have held the block
	 * while the file record existed, and the collector would not have deleted the block. */
	rc = 0;
	for (size_t i = 0; i < k->n && rc == 0; i++) {
		if (k->results[i] != 0 || k->removed[i] || !has_block(&k->files[i], block, &bytes))
			continue;
		k->results[i] = -ENOENT;
		rc = record_unmake(k, i);
	}
	return rc;
}

/*
 * Checks the blocks of all files, after the file records were written. From then on the collector deletes no block
 * with an extent of these records, so a block that exists now stays. A block that was collected before is found
 * missing here.
 */
static int blocks_hold(struct create_op *k)
{
	struct meta_owner *owners = arena_alloc(k->a, k->n * sizeof(*owners));
	struct map seen;
	int rc = owners == NULL ? -ENOMEM : 0;
	map_init(&seen, k->n * META_INLINE_EXTENTS);
	for (size_t i = 0; i < k->n && rc == 0; i++) {
		const struct meta_create *f = &k->files[i];
		for (size_t j = 0; j < f->extent_count && rc == 0; j++) {
			if (k->results[i] != 0 || k->removed[i])
				break;
			rc = map_put(&seen, f->extents[j].block, k);
			rc = rc == -EEXIST ? 0
			     : rc == 0     ? block_of_files(k, f->extents[j].block, owners)
					   : rc;
		}
	}
	map_fini(&seen);
	return rc;
}

/* --- both steps together ---------------------------------------------------------------------- */

/* Removes the name of a file that the name step stored while the record step found that another file has the id. */
static void name_undo(struct create_op *k, size_t i)
{
	assert(k->taken[i] && !k->in_order);
	struct row r;
	if (row_find(k->m, k->tenant, k->dir, k->files[i].name, 0, k->a, &r) != 0 ||
	    r.row == NULL || r.row->stamp != k->entries[i].stamp)
		return;
	struct txn t;
	txn_init(&t, k->a);
	txn_equals(&t, key_entry(k->tenant, k->dir, r.slice, r.name), r.raw);
	txn_delete(&t, key_entry(k->tenant, k->dir, r.slice, r.name));
	txn_run(k->m, &t, r.partition, NULL);
}

/* Refuses the files whose id belongs to another file. named: the name step has run, so their names are removed. */
static void refuse_taken(struct create_op *k, bool named)
{
	for (size_t i = 0; i < k->n; i++) {
		if (!k->taken[i] || k->results[i] != 0)
			continue;
		if (named)
			name_undo(k, i);
		k->results[i] = -EEXIST;
	}
}

/* Stores a tombstone of a refused file in the row's slice. META_RETRY: the row has changed, find it again. */
static int refuse_at(struct create_op *k, size_t i, const struct row *r)
{
	uint64_t id = k->files[i].id;
	int rc = row_settle(k->m, r, k->a);
	if (rc != 0 || r->refused)
		return rc;
	if (r->tombstone || (r->entry != NULL && r->entry->id == id)) {
		k->results[i] = 0; /* a copy of the request stored the name */
		return 0;
	}
	if (r->dir_raw.data == NULL || (r->state != NULL && r->state->sealed))
		return 0; /* the slice takes no new names any more */
	struct txn t;
	txn_init(&t, k->a);
	txn_same(&t, key_entry(k->tenant, k->dir, r->slice, r->name), r->raw);
	txn_same(&t, key_slice(KEY_SLICE_STATE, k->tenant, k->dir, r->slice), r->state_raw);
	txn_absent(&t, key_slice_id(KEY_TOMBSTONE, k->tenant, k->dir, r->slice, id));
	row_put_tombstone(&t, r, id, META_FILE, TOMBSTONE_REFUSED);
	rc = txn_run(k->m, &t, r->partition, NULL);
	return rc == -ESTALE ? META_RETRY : rc;
}

/*
 * Refuses a file whose name another object has. A delayed copy of the request must not store this name when it
 * becomes free: so a tombstone is stored before the client gets its answer. The file record is deleted, because
 * nothing leads to it.
 */
static int name_refuse(struct create_op *k, size_t i)
{
	assert(k->results[i] == -EEXIST || k->results[i] == -EISDIR);
	/* otherwise the id would be that of another file, whose names must not be fenced */
	assert(!k->taken[i]);
	for (unsigned try = 0;; try++) {
		struct row r;
		int rc = row_find(k->m, k->tenant, k->dir, k->files[i].name, k->files[i].id, k->a,
				  &r);
		if (rc == 0)
			rc = refuse_at(k, i, &r);
		if (rc == 0 && k->results[i] < 0)
			(void)record_unmake(k, i); /* on error the collector deletes it */
		if (rc == 0)
			return 0;
		if (rc == META_RETRY)
			rc = meta_back_off(k->m, try);
		if (rc != 0)
			return rc == -EAGAIN
				       ? -ETIMEDOUT
				       /* in doubt: some files of the request have their names already */
				       : rc;
	}
}

/*
 * Commits the pending blocks of the files. The commits become durable with the names. A crash before that may leave a
 * committed block whose owner does not exist; the collector deletes it.
 */
static int blocks_commit(struct create_op *k)
{
	int rc = 0;
	for (size_t i = 0; i < k->n && rc == 0; i++) {
		const struct meta_create *f = &k->files[i];
		if (f->block == NULL || k->results[i] != 0)
			continue;
		struct meta_owner owner = {.file = f->id};
		struct meta_block b = *f->block;
		b.early = true;
		if (!has_block(f, b.id, &owner.bytes))
			return -EINVAL;
		rc = meta_block_commit(k->m, &(struct meta_ctx){.tenant = k->tenant}, &b, &owner,
				       1);
		if (rc == -ENOENT) {
			k->results[i] = rc;
			rc = 0;
		}
	}
	return rc;
}

/* Runs the record step, then the name step. */
static int make_in_order(struct create_op *k)
{
	assert(k->in_order);
	int rc = records_make(k);
	if (rc != 0)
		return rc;
	refuse_taken(k, false);
	rc = blocks_hold(k);
	if (rc == 0 && rt_now_ns() - k->began_ns > META_NAMING_NS)
		rc = -ETIMEDOUT;
	return rc == 0 ? create_names(k) : rc;
}

/* Runs the record step and the name step at the same time, for empty sealed files. */
static int make_at_once(struct create_op *k)
{
	assert(!k->in_order);
	struct rt_fiber *fiber;
	if (rt_spawn(&fiber, "meta-create", records_fiber, k) != 0) {
		k->in_order = true;
		return make_in_order(k);
	}
	int rc = create_names(k);
	rt_join(fiber);
	refuse_taken(k, true);
	/* The names are stored, but records may be missing: the first open of a file writes its record. */
	if (rc == 0 && k->records_rc != 0)
		rc = -ETIMEDOUT;
	return rc;
}

/* Creates all files of a request that was checked and charged. */
static int create_all(struct create_op *k)
{
	int rc = blocks_commit(k);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < k->n; i++)
		k->in_order = k->in_order || k->files[i].extent_count > 0 || k->files[i].token != 0;
	rc = k->in_order ? make_in_order(k) : make_at_once(k);
	for (size_t i = 0; i < k->n && rc == 0; i++)
		if ((k->results[i] == -EEXIST || k->results[i] == -EISDIR) && !k->taken[i])
			rc = name_refuse(k, i);
	/* The directory was sealed without the name: no copy of the request can store the name any more. */
	if (rc == -EROFS && k->n == 1)
		record_unmake(k, 0);
	return rc;
}

/* Adds up the files without an error (stored), or those with one. */
static void sizes_of(const struct create_op *k, bool stored, uint64_t *bytes, uint64_t *files)
{
	*bytes = *files = 0;
	for (size_t i = 0; i < k->n; i++) {
		if ((k->results[i] == 0) != stored)
			continue;
		*files += 1;
		for (size_t j = 0; j < k->files[i].extent_count; j++)
			*bytes = min_u64(*bytes + k->files[i].extents[j].length, META_FILE_MAX);
	}
}

/* Charges the quotas above the directory, creates the files, and gives back the charge of those that were refused. */
static int create_charged(struct create_op *k, const struct meta_ctx *ctx)
{
	struct quota_op q = {.to = k->dir};
	uint64_t bytes, files, wrong_bytes, wrong_files;
	sizes_of(k, true, &q.bytes, &q.files);
	sizes_of(k, false, &wrong_bytes, &wrong_files);
	int rc = quota_begin(k->m, ctx, &q, k->a);
	if (rc != 0)
		return rc;
	rc = create_all(k);
	sizes_of(k, false, &bytes, &files);
	if (rc == 0 && files > wrong_files)
		quota_undo(k->m, ctx, &q, bytes - min_u64(bytes, wrong_bytes), files - wrong_files);
	quota_end(k->m, ctx, &q, rc);
	return rc;
}

int meta_create(struct meta *m, const struct meta_ctx *ctx, uint64_t dir,
		const struct meta_create *files, size_t n, unsigned flags, int *results)
{
	if (n == 0 || n > META_BATCH_MAX)
		return -EINVAL;
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct create_op k = {.m = m,
			      .tenant = ctx->tenant,
			      .dir = dir,
			      .files = files,
			      .n = n,
			      .flags = flags,
			      .results = results,
			      .began_ns = rt_now_ns(),
			      .a = &a};
	int rc = prepare(&k);
	return rc == 0 ? create_charged(&k, ctx) : rc;
}
