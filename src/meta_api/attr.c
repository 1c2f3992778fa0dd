// SPDX-License-Identifier: Apache-2.0
#include "meta_api/attr.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/utf8.h"
#include "meta_api/wire.h"

/* --- checks ----------------------------------------------------------------------------------- */

int meta_attr_compare(struct meta_name a, struct meta_name b)
{
	size_t both = a.len < b.len ? a.len : b.len;
	int order = both > 0 ? memcmp(a.text, b.text, both) : 0;
	return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int by_name(const void *a, const void *b)
{
	return meta_attr_compare(((const struct meta_attr *)a)->name,
				 ((const struct meta_attr *)b)->name);
}

void meta_attrs_sort(struct meta_attr *user, size_t n)
{
	if (n > 1)
		qsort(user, n, sizeof(*user), by_name);
}

int meta_attr_check(const struct meta_attr *a)
{
	if (a->name.len == 0 || a->name.text == NULL || (a->value == NULL && a->len > 0))
		return -EINVAL;
	if (a->name.len > META_ATTR_NAME_MAX)
		return -ENAMETOOLONG;
	if (a->len > META_ATTR_BYTES_MAX)
		return -EFBIG;
	for (size_t i = 0; i < a->name.len;) {
		size_t n = utf8_char_len(a->name.text + i, a->name.len - i);
		if (n == 0)
			return -EILSEQ;
		if ((unsigned char)a->name.text[i] < ' ' || a->name.text[i] == 0x7f)
			return -EINVAL;
		i += n;
	}
	return 0;
}

int meta_attrs_check(const struct meta_attrs *a)
{
	size_t bytes = 0;
	if ((a->set & ~(unsigned)META_HAS_ALL) != 0 || a->mode > META_MODE_MAX ||
	    ((a->set & META_HAS_UID) != 0 && a->uid == UINT32_MAX) ||
	    ((a->set & META_HAS_GID) != 0 && a->gid == UINT32_MAX) || a->mtime_ns > INT64_MAX)
		return -EINVAL;
	if (a->user_count > META_ATTRS_MAX)
		return -EFBIG;
	if (a->user == NULL && a->user_count > 0)
		return -EINVAL;
	for (size_t i = 0; i < a->user_count; i++) {
		int rc = meta_attr_check(&a->user[i]);
		if (rc == 0 && i > 0 &&
		    meta_attr_compare(a->user[i - 1].name, a->user[i].name) >= 0)
			rc = -EINVAL;
		if (rc < 0)
			return rc;
		bytes += a->user[i].name.len + a->user[i].len;
	}
	assert(bytes <= (size_t)META_ATTRS_MAX * (META_ATTR_NAME_MAX + META_ATTR_BYTES_MAX));
	return bytes > META_ATTR_BYTES_MAX ? -EFBIG : 0;
}

/* --- messages --------------------------------------------------------------------------------- */

int meta_wire_attrs_set(struct arena *a, const struct meta_attrs *from, meta_msg_attrs **out)
{
	assert(from->user_count <= META_ATTRS_MAX);
	*out = NULL;
	if (from->set == 0 && from->user_count == 0)
		return 0;
	meta_msg_attrs *m = arena_alloc(a, sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	terrane__meta__attrs__init(m);
	m->set = from->set;
	m->mode = from->mode;
	m->uid = from->uid;
	m->gid = from->gid;
	m->mtime_ns = from->mtime_ns;
	m->user_count = (uint32_t)from->user_count;
	*out = m;
	if (from->user == NULL || from->user_count == 0)
		return 0;
	Terrane__Meta__Attr *all = arena_alloc(a, from->user_count * sizeof(*all));
	m->user = arena_alloc(a, from->user_count * sizeof(Terrane__Meta__Attr *));
	if (all == NULL || m->user == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < from->user_count; i++) {
		terrane__meta__attr__init(&all[i]);
		all[i].name = meta_wire_name(a, from->user[i].name);
		if (all[i].name == NULL)
			return -ENOMEM;
		all[i].value =
			(ProtobufCBinaryData){from->user[i].len, (uint8_t *)from->user[i].value};
		m->user[m->n_user++] = &all[i];
	}
	return 0;
}

int meta_wire_attrs_get(struct arena *a, const meta_msg_attrs *m, struct meta_attrs *out)
{
	*out = (struct meta_attrs){0};
	if (m == NULL)
		return 0;
	*out = (struct meta_attrs){.set = m->set,
				   .mode = m->mode,
				   .uid = m->uid,
				   .gid = m->gid,
				   .mtime_ns = m->mtime_ns,
				   .user_count = m->n_user > 0 ? m->n_user : m->user_count};
	if (m->n_user == 0)
		return 0;
	struct meta_attr *user = arena_alloc(a, m->n_user * sizeof(*user));
	if (user == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_user; i++)
		user[i] = (struct meta_attr){.name = meta_name(m->user[i]->name),
					     .value = m->user[i]->value.data,
					     .len = m->user[i]->value.len};
	out->user = user;
	return 0;
}
