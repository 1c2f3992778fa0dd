// SPDX-License-Identifier: Apache-2.0
/* Attributes of files and directories: reading and changing them, and checking those of new ones. */
#include "client/attrs.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "client/engine_impl.h"
#include "meta_api/attr.h"

#define REPLY_BYTES (64 * KIB) /* limit of the attributes of one object in memory */

static_assert((int)TERRANE_HAS_MODE == META_HAS_MODE && (int)TERRANE_HAS_UID == META_HAS_UID &&
		      (int)TERRANE_HAS_GID == META_HAS_GID &&
		      (int)TERRANE_HAS_MTIME == META_HAS_MTIME &&
		      TERRANE_ATTRIBUTES_MAX == META_ATTRS_MAX &&
		      TERRANE_ATTRIBUTE_NAME_MAX == META_ATTR_NAME_MAX &&
		      TERRANE_ATTRIBUTE_BYTES_MAX == META_ATTR_BYTES_MAX,
	      "public limits are those of the metadata service");

/* --- checking --------------------------------------------------------------------------------- */

static int bad_attrs(struct call *c, int rc)
{
	switch (rc) {
	case -EFBIG:
		return call_fail(c, rc,
				 "too many user attributes: at most %d, with at most %d bytes of "
				 "names and values",
				 META_ATTRS_MAX, META_ATTR_BYTES_MAX);
	case -ENAMETOOLONG:
		return call_fail(c, rc, "the name of a user attribute is longer than %d bytes",
				 META_ATTR_NAME_MAX);
	case -EILSEQ:
		return call_fail(c, rc, "the name of a user attribute is not UTF-8");
	default:
		return call_fail(c, rc,
				 "an attribute is invalid: a mode is at most 07777, an id is not "
				 "-1, a name has no control character and is given once");
	}
}

static struct meta_attr attr_of(const struct terrane_attribute *u)
{
	return (struct meta_attr){.name = meta_name(u->name != NULL ? u->name : ""),
				  .value = u->value,
				  .len = u->len};
}

/* Returns the bytes of names and values of the user attributes, or SIZE_MAX if they are too many or too large. */
static size_t user_bytes(const struct terrane_attributes *from)
{
	size_t bytes = 0;
	if (from->user_count > META_ATTRS_MAX)
		return SIZE_MAX;
	for (size_t i = 0; i < from->user_count; i++) {
		struct meta_attr u = attr_of(&from->user[i]);
		if (u.len > META_ATTR_BYTES_MAX || u.name.len > META_PATH_MAX)
			return SIZE_MAX;
		bytes += u.len + u.name.len;
	}
	return bytes;
}

int attrs_copy_new(struct call *c, const struct terrane_attributes *from, struct meta_attrs **out)
{
	*out = NULL;
	if (from == NULL)
		return 0;
	if (from->user == NULL && from->user_count > 0)
		return bad_attrs(c, -EINVAL);
	size_t bytes = user_bytes(from), n = from->user_count;
	if (bytes == SIZE_MAX)
		return bad_attrs(c, -EFBIG);
	struct meta_attrs *all = malloc(sizeof(*all) + n * sizeof(struct meta_attr) + bytes);
	if (all == NULL)
		return -ENOMEM;
	struct meta_attr *user = (struct meta_attr *)(all + 1);
	uint8_t *at = (uint8_t *)(user + n);
	for (size_t i = 0; i < n; i++) {
		user[i] = attr_of(&from->user[i]);
		if (user[i].name.len > 0)
			memcpy(at, user[i].name.text, user[i].name.len);
		user[i].name.text = (const char *)at;
		at += user[i].name.len;
		if (user[i].len > 0 && user[i].value != NULL)
			memcpy(at, user[i].value, user[i].len);
		if (user[i].value != NULL)
			user[i].value = at;
		at += user[i].len;
	}
	meta_attrs_sort(user, n);
	*all = (struct meta_attrs){.set = from->set,
				   .mode = from->mode,
				   .uid = from->uid,
				   .gid = from->gid,
				   .mtime_ns = from->mtime_ns,
				   .user = user,
				   .user_count = n};
	int rc = meta_attrs_check(all);
	if (rc < 0) {
		free(all);
		return bad_attrs(c, rc);
	}
	*out = all;
	return 0;
}

uint64_t attrs_time_ns(const struct meta_attrs *a)
{
	return a != NULL && (a->set & META_HAS_MTIME) != 0 ? a->mtime_ns : rt_wall_ns();
}

size_t attrs_bytes(const struct meta_attrs *a)
{
	size_t bytes = 0;
	for (size_t i = 0; a != NULL && i < a->user_count; i++)
		bytes += a->user[i].name.len + a->user[i].len + sizeof(uint64_t);
	return bytes;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Finds the object of a path and its attributes. -EINVAL: the path is the root. */
static int attrs_find(struct call *c, const char *path, struct arena *a, uint64_t *dir,
		      struct meta_entry *out)
{
	struct meta_name above, name;
	path_split(path, &above, &name);
	if (name.len == 0)
		return call_fail(c, -EINVAL, "the root has no attributes");
	struct meta_call m = call_meta(c);
	int rc = meta_client_attr_get(&m, META_ROOT, above, name, a, dir, out);
	return call_meta_fail(c, &m, rc, path);
}

/* Takes `bytes` of the buffer. NULL: it has no room for them. */
static void *room_take(uint8_t **at, size_t *left, size_t bytes)
{
	uint8_t *taken = *at;
	if (bytes > *left)
		return NULL;
	*at += bytes;
	*left -= bytes;
	return taken;
}

static int attrs_give(struct call *c, const struct meta_attrs *from, struct terrane_attributes *out,
		      void *buf, size_t size)
{
	size_t skip = (size_t)(-(uintptr_t)buf % _Alignof(struct terrane_attribute));
	size_t n = from->user_count, left = size > skip ? size - skip : 0;
	uint8_t *at = (uint8_t *)buf + skip;
	struct terrane_attribute *user = n == 0 ? NULL : room_take(&at, &left, n * sizeof(*user));
	for (size_t i = 0; i < n; i++) {
		const struct meta_attr *u = &from->user[i];
		char *name = user != NULL ? room_take(&at, &left, u->name.len + 1) : NULL;
		uint8_t *value = name != NULL ? room_take(&at, &left, u->len) : NULL;
		if (value == NULL)
			return call_fail(c, -ERANGE, "the buffer is too small: give %d bytes",
					 TERRANE_ATTRIBUTES_BYTES);
		memcpy(name, u->name.text, u->name.len);
		name[u->name.len] = '\0';
		if (u->len > 0)
			memcpy(value, u->value, u->len);
		user[i] = (struct terrane_attribute){.name = name, .value = value, .len = u->len};
	}
	out->user = user;
	out->user_count = n;
	return 0;
}

int engine_attributes_get(struct call *c, const char *path, struct terrane_attributes *out,
			  void *buf, size_t size)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, REPLY_BYTES);
	struct meta_entry e = {0};
	uint64_t dir = 0;
	int rc = attrs_find(c, path, &a, &dir, &e);
	if (rc < 0)
		return rc;
	*out = (struct terrane_attributes){.set = e.attrs.set | TERRANE_HAS_MTIME,
					   .mode = e.attrs.mode,
					   .uid = e.attrs.uid,
					   .gid = e.attrs.gid,
					   .mtime_ns = e.mtime_ns};
	return attrs_give(c, &e.attrs, out, buf, size);
}

/* --- changing --------------------------------------------------------------------------------- */

/* Splits the user attributes of a change into those to set, sorted, and the names of those to remove. */
static int change_split(struct call *c, struct meta_attrs *all, struct meta_name *remove,
			struct meta_attr_change *out)
{
	assert(all != NULL);
	struct meta_attr *user = (struct meta_attr *)all->user;
	size_t set = 0;
	for (size_t i = 0; i < all->user_count; i++) {
		if (user[i].value == NULL)
			remove[out->remove_count++] = user[i].name;
		else
			user[set++] = user[i];
	}
	all->user_count = set;
	out->set = *all;
	out->remove = remove;
	assert(out->remove_count + set <= META_ATTRS_MAX);
	return out->remove_count + set == 0 && all->set == 0
		       ? call_fail(c, -EINVAL, "no attribute is to be changed")
		       : 0;
}

int engine_attributes_set(struct call *c, const char *path, const struct terrane_attributes *change)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, REPLY_BYTES);
	struct meta_attrs *all = NULL;
	struct meta_name remove[META_ATTRS_MAX], above;
	struct meta_entry e = {0};
	struct meta_attr_change to = {.request = meta_id()};
	uint64_t dir = 0;
	if (change == NULL)
		return call_fail(c, -EINVAL, "no attribute is to be changed");
	path_split(path, &above, &to.name);
	int rc = attrs_copy_new(c, change, &all);
	if (rc == 0)
		rc = change_split(c, all, remove, &to);
	if (rc == 0)
		rc = attrs_find(c, path, &a, &dir, &e);
	if (rc == 0) {
		struct meta_call m = call_meta(c);
		to.id = e.id;
		rc = meta_client_attr_set(&m, dir, &to);
		rc = rc == -EFBIG ? bad_attrs(c, rc) : call_meta_fail(c, &m, rc, path);
	}
	free(all);
	return rc;
}
