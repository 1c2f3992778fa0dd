// SPDX-License-Identifier: Apache-2.0
/*
 * The Name layer: lookup, directories, creation.
 *
 * A file record and its name are in two partitions, so a create has two steps: the record step writes the file record,
 * the name step writes the name. The name step follows the record step: a crash between them leaves a file without a
 * name, which the collector deletes. Only for an empty sealed file both steps run at once, which saves one sync of the
 * log: the entry of such a file has everything that its file record will ever have, so when a crash leaves only the
 * name, the first open writes the record (file_restore). That is not possible for a file that is open for writing: its
 * name does not show whether data was added, and a record made from the name would lose that data.
 *
 * The record step is not undone when the name step fails. A copy of the request may be running on another server: this
 * copy finds the record, stores the name of the file and reports success; deleting the record then would leave a name
 * without an object. The collector deletes records without a name, after it has searched for the name. Only a refused
 * create deletes its record itself, once a tombstone keeps every copy of the request from storing a name of the file.
 */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "meta/attr.h"
#include "meta/quota.h"
#include "meta_api/attr.h"
#include "rt/rt.h"

static void entry_from_record(const rec_entry *e, struct meta_name name, struct meta_entry *out)
{
	*out = (struct meta_entry){.name = name,
				   .kind = (enum meta_kind)e->kind,
				   .id = e->id,
				   .size = e->size,
				   .mtime_ns = e->mtime_ns,
				   .sealed = e->sealed != 0};
	attr_brief(e, &out->attrs);
}

/* --- lookup ----------------------------------------------------------------------------------- */

/* Looks an entry up in the cache, which has entries of sealed directories only. Such entries do not change; the
 * removal of one may become visible late (promise 6 of meta.h). */
static bool lookup_cached(struct meta *m, uint64_t partition, const struct schema_key *key,
			  struct arena *a, rec_entry **out)
{
	struct kv_bytes v;
	if (m->cache == NULL)
		return false;
	bool hit = cache_get(m->cache, partition, key_bytes(key), a, &v) &&
		   rec_read_entry(a, v, out) == 0;
	if (hit)
		m->stats.cache_hits++;
	else
		m->stats.cache_misses++;
	return hit;
}

/* Looks a name up with one read of the home slice, which is enough for a directory that is not spread and a row that no
 * transfer holds. META_RETRY: use row_find. */
static int lookup_quick(struct meta *m, uint32_t tenant, uint64_t dir, struct meta_name name,
			struct arena *a, rec_entry **out)
{
	if (dir_known_spread(m, tenant, dir))
		return META_RETRY;
	uint64_t partition = part_name(m, tenant, dir, SLICE_HOME);
	struct schema_key keys[2] = {key_entry(tenant, dir, SLICE_HOME, name),
				     key_slice(KEY_SLICE_STATE, tenant, dir, SLICE_HOME)};
	if (lookup_cached(m, partition, &keys[0], a, out))
		return 0;
	bool shut_too = m->options.spread_entries > 0 || m->cache != NULL;
	struct reads r;
	int rc = meta_read(m, partition, keys, shut_too ? 2 : 1, a, &r);
	if (rc != 0)
		return rc;
	if (r.value[0].data == NULL)
		return r.value[1].data != NULL ? META_RETRY : -ENOENT;
	rc = rec_read_entry(a, r.value[0], out);
	if (rc != 0 || (*out)->transfer != 0)
		return rc != 0 ? rc : META_RETRY;
	rec_slice_state *s = NULL;
	if (m->cache != NULL && r.value[1].data != NULL &&
	    rec_read_slice_state(a, r.value[1], &s) == 0 && s->sealed)
		cache_put(m->cache, partition, key_bytes(&keys[0]), r.value[0]);
	return 0;
}

int meta_lookup(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
		struct meta_entry *out)
{
	assert(ctx->tenant != 0);
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	rec_entry *e = NULL;
	int rc = schema_name_check(name);
	if (rc == 0)
		rc = lookup_quick(m, ctx->tenant, dir, name, &a, &e);
	if (rc == META_RETRY) {
		struct row r;
		rc = row_find(m, ctx->tenant, dir, name, 0, &a, &r);
		e = r.entry;
		if (rc == 0 && e == NULL)
			rc = -ENOENT;
	}
	if (rc == 0)
		entry_from_record(e, name, out);
	return rc;
}

int meta_resolve(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name path,
		 int (*enter)(void *arg, uint64_t dir), void *arg, struct meta_entry *out)
{
	if (path.len > META_PATH_MAX)
		return -ENAMETOOLONG;
	if (path.len > 0 && path.text[0] == '/')
		dir = META_ROOT;
	*out = (struct meta_entry){.name = {path.text, 0}, .kind = META_DIR, .id = dir};
	unsigned levels = 0;
	for (size_t at = 0; at < path.len;) {
		if (path.text[at] == '/') {
			at++;
			continue;
		}
		size_t end = at;
		while (end < path.len && path.text[end] != '/')
			end++;
		if (out->kind != META_DIR)
			return -ENOTDIR;
		if (++levels > META_DEPTH_MAX)
			return -ELOOP;
		struct meta_name step = {path.text + at, end - at};
		int rc = enter != NULL ? enter(arg, out->id) : 0;
		if (rc == 0)
			rc = meta_lookup(m, ctx, out->id, step, out);
		if (rc != 0)
			return rc;
		at = end;
	}
	return 0;
}

int meta_dir_get(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_dir *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct schema_key keys[2] = {key_slice(KEY_DIR, ctx->tenant, dir, SLICE_HOME),
				     key_slice(KEY_SLICE_STATE, ctx->tenant, dir, SLICE_HOME)};
	struct reads r;
	rec_dir *d;
	rec_slice_state *s = NULL;
	int rc = meta_read(m, part_name(m, ctx->tenant, dir, SLICE_HOME), keys, 2, &a, &r);
	if (rc == 0 && r.value[0].data == NULL)
		rc = -ENOENT;
	if (rc == 0)
		rc = rec_read_dir(&a, r.value[0], &d);
	if (rc == 0 && r.value[1].data != NULL)
		rc = rec_read_slice_state(&a, r.value[1], &s);
	if (rc == 0)
		*out = (struct meta_dir){.id = dir,
					 .parent = d->parent,
					 .created_ns = d->created_ns,
					 .sealed = s != NULL && s->sealed,
					 .spread = s != NULL && s->spread};
	return rc;
}

/* --- mkdir ------------------------------------------------------------------------------------ */

/* Writes the directory record (Dir) of a new directory, before its name. -EEXIST: another directory has the id. */
static int dir_make(struct meta *m, uint32_t tenant, uint64_t id, uint64_t parent,
		    struct meta_name name, struct arena *a)
{
	assert(id > META_ROOT);
	rec_dir d = TERRANE__REC__DIR__INIT;
	d.id = id;
	d.parent = parent;
	d.name = (ProtobufCBinaryData){name.len, (uint8_t *)name.text};
	d.created_ns = rt_wall_ns();
	struct schema_key key = key_slice(KEY_DIR, tenant, id, SLICE_HOME);
	struct txn t;
	txn_init(&t, a);
	t.early = true;
	txn_absent(&t, key);
	txn_put(&t, key, &d.base);
	int rc = txn_run(m, &t, part_name(m, tenant, id, SLICE_HOME), NULL);
	if (rc != -ESTALE)
		return rc;
	/* The record exists: an earlier copy of this request wrote it, or another directory has the id. */
	struct kv_bytes raw;
	rec_dir *there;
	rc = dir_read(m, tenant, id, a, &raw, &there);
	if (rc != 0)
		return rc;
	if (there == NULL)
		return -EAGAIN;
	return there->parent == parent ? 0 : -EEXIST;
}

int meta_mkdir(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
	       uint64_t id, const struct meta_attrs *attrs)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	int rc = schema_name_check(name);
	if (rc == 0 && attrs != NULL)
		rc = meta_attrs_check(attrs);
	if (rc != 0 || id <= META_ROOT)
		return rc != 0 ? rc : -EINVAL;
	struct meta_entry there;
	rc = meta_lookup(m, ctx, dir, name, &there);
	if (rc == 0)
		return there.id == id ? 0 : -EEXIST;
	if (rc != -ENOENT)
		return rc;
	struct quota_op q = {.to = dir, .files = 1};
	rc = quota_begin(m, ctx, &q, &a);
	if (rc != 0)
		return rc;
	rc = dir_make(m, ctx->tenant, id, dir, name, &a);
	rec_entry e = TERRANE__REC__ENTRY__INIT;
	e.kind = META_DIR;
	e.id = id;
	bool dated = attrs != NULL && (attrs->set & META_HAS_MTIME) != 0;
	e.mtime_ns = dated ? attrs->mtime_ns : rt_wall_ns();
	rec_attrs room;
	if (rc == 0)
		rc = attr_to_record(&a, attrs, &room, &e);
	/* If storing the name fails, the Dir stays for the collector: a copy of this request may still store the
	 * name of this directory. */
	if (rc == 0)
		rc = row_create(m, &(struct row){.tenant = ctx->tenant, .dir = dir, .name = name},
				&e, 0, &a);
	quota_end(m, ctx, &q, rc);
	return rc;
}
