// SPDX-License-Identifier: Apache-2.0
/* Implements the public calls on paths with requests to the metadata service. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "client/attrs.h"
#include "client/engine_impl.h"

#define MKDIR_TRIES 4

/* --- paths ------------------------------------------------------------------------------------ */

void path_split(const char *path, struct meta_name *dir, struct meta_name *name)
{
	size_t end = strlen(path);
	while (end > 0 && path[end - 1] == '/')
		end--;
	size_t start = end;
	while (start > 0 && path[start - 1] != '/')
		start--;
	*name = (struct meta_name){.text = path + start, .len = end - start};
	*dir = (struct meta_name){.text = path, .len = start};
}

static int resolve(struct call *c, const char *what, struct meta_name path, struct meta_entry *out)
{
	struct meta_call m = call_meta(c);
	int rc = meta_client_resolve(&m, META_ROOT, path, out);
	return call_meta_fail(c, &m, rc, what);
}

static int not_in_directory(struct call *c, const char *path)
{
	return call_fail(c, -ENOTDIR, "%.100s: its parent is not a directory", path);
}

/* Returns the hints that a call may use, or NULL if it is for another tenant than the engine's. */
static struct dir_hints *call_hints(struct call *c)
{
	struct engine *e = call_engine(c);
	bool own = rt_context() == e->own || strcmp(rt_context()->tenant, e->own->tenant) == 0;
	return own ? &e->hints : NULL;
}

/* Remembers the directory of a slot that was found. */
static void slot_remember(struct call *c, struct meta_name dir, const struct dir_slot *slot)
{
	struct dir_hints *hints = call_hints(c);
	if (hints != NULL && strspn(dir.text, "/") < dir.len)
		dir_hint_put(hints, dir, slot->dir);
}

int dir_slot_guess(struct call *c, const char *path, bool must_be_free, struct dir_slot *out)
{
	struct meta_name dir;
	path_split(path, &dir, &out->name);
	const struct dir_hints *hints = call_hints(c);
	out->guessed = out->name.len > 0;
	out->dir = strspn(path, "/") >= dir.len ? META_ROOT
		   : hints != NULL              ? dir_hint_get(hints, dir)
						: 0;
	if (out->guessed && out->dir != 0)
		return 0;
	return must_be_free ? dir_slot_find_free(c, path, out) : dir_slot_find(c, path, out);
}

int dir_slot_find(struct call *c, const char *path, struct dir_slot *out)
{
	struct meta_name dir;
	out->guessed = false;
	path_split(path, &dir, &out->name);
	if (out->name.len == 0)
		return call_fail(c, -EINVAL, "\"%.60s\" has no file name", path);
	if (strspn(dir.text, "/") >= dir.len) {
		out->dir = META_ROOT;
		return 0;
	}
	struct meta_entry e;
	int rc = resolve(c, path, dir, &e);
	if (rc < 0)
		return rc;
	if (e.kind != META_DIR)
		return not_in_directory(c, path);
	out->dir = e.id;
	slot_remember(c, dir, out);
	return 0;
}

int dir_slot_find_free(struct call *c, const char *path, struct dir_slot *out)
{
	struct meta_name dir;
	struct meta_entry e;
	out->guessed = false;
	path_split(path, &dir, &out->name);
	if (out->name.len == 0)
		return call_fail(c, -EINVAL, "\"%.60s\" has no file name", path);
	if (out->name.len > META_NAME_MAX)
		return call_fail(c, -ENAMETOOLONG,
				 "the name is too long: names have at most %d bytes",
				 META_NAME_MAX);
	struct meta_call m = call_meta(c);
	int rc = meta_client_find(&m, META_ROOT, dir, out->name, &out->dir, &e);
	if (rc == -ENOTDIR)
		return not_in_directory(c, path);
	if (rc < 0)
		return call_meta_fail(c, &m, rc, path);
	slot_remember(c, dir, out);
	if (e.id == 0)
		return 0;
	if (e.kind == META_DIR)
		return call_fail(c, -EISDIR, "%.100s: is a directory", path);
	return call_fail(c, -EEXIST, "%.100s: exists already", path);
}

/* --- stat and list ---------------------------------------------------------------------------- */

static void stat_attrs(const struct meta_entry *e, struct terrane_stat *out)
{
	out->mtime_ns = e->mtime_ns;
	out->has = e->attrs.set;
	out->mode = e->attrs.mode;
	out->uid = e->attrs.uid;
	out->gid = e->attrs.gid;
	out->user_attributes = (uint32_t)e->attrs.user_count;
}

static void stat_of_entry(const struct meta_entry *e, struct terrane_stat *out)
{
	*out = (struct terrane_stat){
		.id = e->id,
		.kind = e->kind == META_DIR ? TERRANE_DIRECTORY : TERRANE_FILE,
		.sealed = e->sealed,
		.size = e->size,
		.mtime_ns = e->mtime_ns,
	};
	stat_attrs(e, out);
}

int engine_stat(struct call *c, const char *path, struct terrane_stat *out)
{
	struct meta_entry e;
	int rc = resolve(c, path, meta_name(path), &e);
	if (rc < 0)
		return rc;
	stat_of_entry(&e, out);
	/* The directory entry of an open file has a stale size, and that of a directory does not say whether it is sealed. */
	if (e.kind == META_FILE && !e.sealed) {
		rc = engine_stat_id(c, e.id, out);
		if (rc == 0)
			stat_attrs(&e, out);
		return rc;
	}
	if (e.kind != META_DIR)
		return 0;
	struct meta_call m = call_meta(c);
	struct meta_dir d;
	rc = meta_client_dir_get(&m, e.id, &d);
	out->sealed = rc == 0 && d.sealed;
	return call_meta_fail(c, &m, rc, path);
}

int engine_stat_id(struct call *c, uint64_t id, struct terrane_stat *out)
{
	struct meta_file f;
	uint64_t size;
	int rc = efile_size(c, id, &f, &size);
	if (rc == 0) {
		*out = (struct terrane_stat){
			.id = id,
			.kind = TERRANE_FILE,
			.sealed = f.sealed,
			.size = size,
			.mtime_ns = f.mtime_ns,
		};
		return 0;
	}
	if (rc != -ENOENT)
		return rc;
	struct meta_call m = call_meta(c);
	struct meta_dir d;
	rc = meta_client_dir_get(&m, id, &d);
	if (rc < 0)
		return call_meta_fail(c, &m, rc, "cannot look up the id");
	*out = (struct terrane_stat){
		.id = id, .kind = TERRANE_DIRECTORY, .sealed = d.sealed, .mtime_ns = d.created_ns};
	return 0;
}

static_assert(sizeof(struct meta_cursor) <= sizeof(struct terrane_cursor),
	      "a meta_cursor fits into a terrane_cursor");

static void entry_out(const struct meta_entry *from, struct terrane_entry *to)
{
	*to = (struct terrane_entry){
		.id = from->id,
		.kind = from->kind == META_DIR ? TERRANE_DIRECTORY : TERRANE_FILE,
		.sealed = from->sealed,
		.size = from->size,
		.mtime_ns = from->mtime_ns,
		.has = (uint16_t)from->attrs.set,
		.mode = from->attrs.mode,
		.uid = from->attrs.uid,
		.gid = from->attrs.gid,
		.user_attributes = (uint32_t)from->attrs.user_count,
	};
	memcpy(to->name, from->name.text, from->name.len);
	to->name[from->name.len] = '\0';
}

static int64_t list_page(struct call *c, uint64_t dir, struct meta_cursor *at,
			 struct terrane_entry *out, size_t max, const char *what)
{
	assert(max > 0);
	struct arena arena;
	struct meta_page page = {0};
	struct meta_call m = call_meta(c);
	arena_init(&arena, 4 * MIB);
	int rc = meta_client_list(&m, dir, at, max < META_PAGE_MAX ? max : META_PAGE_MAX, &arena,
				  &page);
	int64_t count = call_meta_fail(c, &m, rc, what);
	if (rc == 0) {
		for (size_t i = 0; i < page.count && i < max; i++) {
			if (page.entries[i].name.len > TERRANE_NAME_MAX) {
				rc = -EPROTO;
				break;
			}
			entry_out(&page.entries[i], &out[i]);
		}
		count = rc < 0 ? rc : (int64_t)page.count;
		*at = page.next;
	}
	arena_fini(&arena);
	return count;
}

static int64_t list_dir(struct call *c, uint64_t dir, struct terrane_cursor *at,
			struct terrane_entry *out, size_t max, const char *what)
{
	struct meta_cursor from;
	memcpy(&from, at->private_, sizeof(from));
	if (max == 0)
		return call_fail(c, -EINVAL, "the array has no room for an entry");
	int64_t total = 0;
	while (!from.end && (size_t)total < max) {
		int64_t n = list_page(c, dir, &from, out + total, max - (size_t)total, what);
		if (n < 0)
			return n;
		total += n;
	}
	memcpy(at->private_, &from, sizeof(from));
	return total;
}

int64_t engine_list(struct call *c, const char *path, struct terrane_cursor *at,
		    struct terrane_entry *out, size_t max)
{
	struct meta_entry e;
	int rc = resolve(c, path, meta_name(path), &e);
	if (rc < 0)
		return rc;
	if (e.kind != META_DIR)
		return call_fail(c, -ENOTDIR, "%.100s: not a directory", path);
	return list_dir(c, e.id, at, out, max, path);
}

int64_t engine_list_id(struct call *c, uint64_t dir, struct terrane_cursor *at,
		       struct terrane_entry *out, size_t max)
{
	return list_dir(c, dir, at, out, max, "cannot list the directory");
}

/* --- changes ---------------------------------------------------------------------------------- */

static int mkdir_one(struct call *c, uint64_t dir, struct meta_name name, const char *path,
		     const struct meta_attrs *attrs)
{
	assert(name.len > 0);
	struct meta_call m = call_meta(c);
	int rc = meta_client_mkdir(&m, dir, name, meta_id(), attrs);
	return call_meta_fail(c, &m, rc, path);
}

/* Makes the missing directories of a path, from the root down. The attributes are for the last one. */
static int mkdir_all(struct call *c, const char *path, const struct meta_attrs *attrs)
{
	uint64_t dir = META_ROOT;
	const char *p = path;
	int tries = 0;
	for (;;) {
		p += strspn(p, "/");
		size_t len = strcspn(p, "/");
		if (len == 0)
			return 0;
		struct meta_name name = {.text = p, .len = len};
		struct meta_entry e;
		struct meta_call m = call_meta(c);
		int rc = meta_client_lookup(&m, dir, name, &e);
		if (rc == -ENOENT && tries++ < META_DEPTH_MAX + MKDIR_TRIES) {
			bool last = p[len + strspn(p + len, "/")] == 0;
			rc = mkdir_one(c, dir, name, path, last ? attrs : NULL);
			if (rc == 0 || rc == -EEXIST)
				/* look the directory up: another client may have made it */
				continue;
			return rc;
		}
		if (rc < 0)
			return call_meta_fail(c, &m, rc, path);
		if (e.kind != META_DIR)
			return call_fail(c, -ENOTDIR, "%.100s: %.*s is a file", path,
					 (int)(len < 60 ? len : 60), p);
		dir = e.id;
		p += len;
	}
}

int engine_mkdir(struct call *c, const char *path, unsigned flags)
{
	if ((flags & ~(unsigned)TERRANE_PARENTS) != 0)
		return call_fail(c, -EINVAL, "unknown flags");
	struct dir_slot at = {0};
	AUTO_FREE struct meta_attrs *attrs = NULL;
	int rc = attrs_copy_new(c, c->attributes, &attrs);
	if (rc == 0 && (flags & TERRANE_PARENTS) != 0)
		return mkdir_all(c, path, attrs);
	if (rc == 0)
		rc = dir_slot_find(c, path, &at);
	return rc < 0 ? rc : mkdir_one(c, at.dir, at.name, path, attrs);
}

int engine_rename(struct call *c, const char *from, const char *to)
{
	struct dir_slot a = {0}, b = {0};
	int rc = dir_slot_find(c, from, &a);
	if (rc == 0)
		rc = dir_slot_find(c, to, &b);
	if (rc < 0)
		return rc;
	struct meta_call m = call_meta(c);
	if (a.dir == b.dir)
		rc = meta_client_rename(&m, a.dir, a.name, b.name, meta_id(), META_OVERWRITE);
	else
		rc = meta_client_move(&m, &(struct meta_move){.from_dir = a.dir,
							      .from = a.name,
							      .to_dir = b.dir,
							      .to = b.name,
							      .new_id = meta_id(),
							      .request = meta_id(),
							      .flags = META_OVERWRITE});
	return call_meta_fail(c, &m, rc, rc == -ENOENT ? from : to);
}

int engine_copy(struct call *c, const char *from, const char *to, unsigned flags)
{
	struct dir_slot a = {0}, b = {0};
	if ((flags & ~(unsigned)TERRANE_REPLACE) != 0)
		return call_fail(c, -EINVAL, "unknown flags");
	int rc = dir_slot_find(c, from, &a);
	if (rc == 0)
		rc = dir_slot_find(c, to, &b);
	if (rc < 0)
		return rc;
	struct meta_call m = call_meta(c);
	bool replace = (flags & TERRANE_REPLACE) != 0;
	rc = meta_client_copy(&m, &(struct meta_move){.from_dir = a.dir,
						      .from = a.name,
						      .to_dir = b.dir,
						      .to = b.name,
						      .new_id = meta_id(),
						      .request = meta_id(),
						      .flags = replace ? META_OVERWRITE : 0});
	return call_meta_fail(c, &m, rc, rc == -ENOENT ? from : to);
}

int engine_remove(struct call *c, const char *path)
{
	struct dir_slot at;
	int rc = dir_slot_find(c, path, &at);
	if (rc < 0)
		return rc;
	struct meta_call m = call_meta(c);
	struct meta_entry e;
	rc = meta_client_lookup(&m, at.dir, at.name, &e);
	if (rc == 0 && e.kind == META_DIR)
		rc = meta_client_rmdir(&m, at.dir, at.name, e.id);
	else if (rc == 0)
		rc = meta_client_remove(&m, at.dir, at.name, e.id, 0);
	return call_meta_fail(c, &m, rc, path);
}

static int seal_file(struct call *c, const struct dir_slot *at, const struct meta_entry *e,
		     const char *path)
{
	if (e->sealed)
		return 0;
	uint64_t token = meta_id();
	uint64_t size;
	int rc = elog_take_over(c, e->id, token, &size);
	if (rc < 0)
		return rc;
	struct meta_call m = call_meta(c);
	rc = meta_client_file_seal(&m, e->id, token, at->name, rt_wall_ns());
	return call_meta_fail(c, &m, rc, path);
}

int engine_seal(struct call *c, const char *path, const struct terrane_options *o)
{
	struct meta_entry e;
	int rc = resolve(c, path, meta_name(path), &e);
	if (rc < 0)
		return rc;
	if (e.kind == META_DIR) {
		struct meta_call m = call_meta(c);
		rc = meta_client_dir_seal(&m, e.id);
		return call_meta_fail(c, &m, rc, path);
	}
	struct dir_slot at;
	rc = dir_slot_find(c, path, &at);
	if (rc == 0)
		rc = seal_file(c, &at, &e, path);
	struct shape shape;
	if (rc < 0 || o == NULL || (o->encoding == NULL && o->media == TERRANE_MEDIA_DEFAULT))
		return rc;
	rc = engine_shape(c, o, &shape);
	return rc < 0 ? rc : efile_reencode(c, e.id, o->encoding != NULL ? &shape : NULL);
}

int engine_unseal(struct call *c, const char *path)
{
	struct meta_entry e;
	int rc = resolve(c, path, meta_name(path), &e);
	if (rc < 0)
		return rc;
	if (e.kind != META_DIR)
		return call_fail(c, -ENOTDIR, "a sealed file stays sealed; copy it to change it");
	struct meta_call m = call_meta(c);
	rc = meta_client_dir_unseal(&m, e.id);
	return call_meta_fail(c, &m, rc, path);
}
