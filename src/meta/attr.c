// SPDX-License-Identifier: Apache-2.0
/*
 * Attributes. They are in the entry of the object, in the row of its name: a listing reads them with the names, a create
 * stores them with the name, and a rename or move takes them along with the rest of the entry. The root of a tenant has no
 * entry, so it has no attributes.
 *
 * A change is one transaction on the row as it was read. It leaves the number of its request beside the row
 * (KEY_REQUEST_DONE), as a rename does: a copy of the request that arrives late, when another request may have set other
 * values, finds that number and changes nothing.
 */
#include "meta/attr.h"

#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "meta/impl.h"
#include "meta_api/attr.h"
#include "rt/rt.h"

/* --- records ---------------------------------------------------------------------------------- */

static struct meta_name attr_name(const Terrane__Rec__Attr *r)
{
	return (struct meta_name){(const char *)r->name.data, r->name.len};
}

static struct meta_attr attr_of(const Terrane__Rec__Attr *r)
{
	return (struct meta_attr){
		.name = attr_name(r), .value = r->value.data, .len = r->value.len};
}

bool attr_record_ok(const rec_attrs *r)
{
	struct meta_attr user[META_ATTRS_MAX];
	if (r->n_user > META_ATTRS_MAX || (r->set & META_HAS_MTIME) != 0)
		return false;
	for (size_t i = 0; i < r->n_user; i++)
		user[i] = attr_of(r->user[i]);
	const struct meta_attrs all = {.set = r->set,
				       .mode = r->mode,
				       .uid = r->uid,
				       .gid = r->gid,
				       .user = user,
				       .user_count = r->n_user};
	return meta_attrs_check(&all) == 0;
}

void attr_brief(const rec_entry *e, struct meta_attrs *out)
{
	*out = (struct meta_attrs){0};
	if (e->attrs != NULL)
		*out = (struct meta_attrs){.set = e->attrs->set,
					   .mode = e->attrs->mode,
					   .uid = e->attrs->uid,
					   .gid = e->attrs->gid,
					   .user_count = e->attrs->n_user};
}

int attr_to_record(struct arena *a, const struct meta_attrs *from, rec_attrs *room, rec_entry *e)
{
	if (from == NULL || ((from->set & ~(unsigned)META_HAS_MTIME) == 0 && from->user_count == 0))
		return 0;
	assert(from->user_count <= META_ATTRS_MAX);
	terrane__rec__attrs__init(room);
	room->set = from->set & ~(unsigned)META_HAS_MTIME;
	room->mode = from->mode;
	room->uid = from->uid;
	room->gid = from->gid;
	e->attrs = room;
	if (from->user_count == 0)
		return 0;
	Terrane__Rec__Attr *all = arena_alloc(a, from->user_count * sizeof(*all));
	room->user = arena_alloc(a, from->user_count * sizeof(Terrane__Rec__Attr *));
	if (all == NULL || room->user == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < from->user_count; i++) {
		const struct meta_attr *u = &from->user[i];
		terrane__rec__attr__init(&all[i]);
		all[i].name = (ProtobufCBinaryData){u->name.len, (uint8_t *)u->name.text};
		all[i].value = (ProtobufCBinaryData){u->len, (uint8_t *)u->value};
		room->user[room->n_user++] = &all[i];
	}
	return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

int meta_attr_get(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
		  struct arena *arena, struct meta_entry *out)
{
	struct row r;
	int rc = schema_name_check(name);
	if (rc == 0)
		rc = row_find(m, ctx->tenant, dir, name, 0, arena, &r);
	if (rc == 0 && r.entry == NULL)
		rc = -ENOENT;
	if (rc != 0)
		return rc;
	*out = (struct meta_entry){.name = name,
				   .kind = (enum meta_kind)r.entry->kind,
				   .id = r.entry->id,
				   .size = r.entry->size,
				   .mtime_ns = r.entry->mtime_ns,
				   .sealed = r.entry->sealed != 0};
	attr_brief(r.entry, &out->attrs);
	if (out->attrs.user_count == 0)
		return 0;
	struct meta_attr *user = arena_alloc(arena, out->attrs.user_count * sizeof(*user));
	if (user == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < out->attrs.user_count; i++)
		user[i] = attr_of(r.entry->attrs->user[i]);
	out->attrs.user = user;
	return 0;
}

/* --- changing --------------------------------------------------------------------------------- */

/* Returns whether a change sets or removes the user attribute of that name. */
static bool changes(const struct meta_attr_change *c, struct meta_name name)
{
	for (size_t i = 0; i < c->set.user_count; i++)
		if (meta_attr_compare(c->set.user[i].name, name) == 0)
			return true;
	for (size_t i = 0; i < c->remove_count; i++)
		if (meta_attr_compare(c->remove[i], name) == 0)
			return true;
	return false;
}

/* Computes the attributes of an entry after a change: user has room for META_ATTRS_MAX more than the entry has. -EFBIG,
 * -EINVAL. */
static int changed(const rec_entry *e, const struct meta_attr_change *c, struct meta_attr *user,
		   struct meta_attrs *out)
{
	size_t n = 0;
	attr_brief(e, out);
	for (size_t i = 0; e->attrs != NULL && i < e->attrs->n_user; i++)
		if (!changes(c, attr_name(e->attrs->user[i])))
			user[n++] = attr_of(e->attrs->user[i]);
	for (size_t i = 0; i < c->set.user_count; i++)
		user[n++] = c->set.user[i];
	meta_attrs_sort(user, n);
	out->user = user;
	out->user_count = n;
	out->set |= c->set.set & ~(unsigned)META_HAS_MTIME;
	if ((c->set.set & META_HAS_MODE) != 0)
		out->mode = c->set.mode;
	if ((c->set.set & META_HAS_UID) != 0)
		out->uid = c->set.uid;
	if ((c->set.set & META_HAS_GID) != 0)
		out->gid = c->set.gid;
	return meta_attrs_check(out);
}

/* Stores the changed entry if its row is still as it was read. META_RETRY: the row has changed, find it again. */
static int set_at(struct meta *m, const struct row *r, const struct meta_attr_change *c,
		  struct arena *a)
{
	struct meta_attr user[2 * META_ATTRS_MAX];
	struct meta_attrs all;
	rec_attrs room;
	int rc = row_settle(m, r, a);
	if (rc != 0 || r->request_done)
		return rc; /* 0: an earlier copy of this request changed the object */
	if (r->entry == NULL || r->entry->id != c->id)
		return r->entry == NULL ? -ENOENT : -ESTALE;
	struct txn t;
	txn_init(&t, a);
	rc = row_guard(&t, r, false);
	if (rc == 0)
		rc = changed(r->entry, c, user, &all);
	if (rc != 0)
		return rc;
	rec_entry e = *r->entry;
	e.attrs = NULL;
	e.stamp = rt_random_u64();
	if ((c->set.set & META_HAS_MTIME) != 0)
		e.mtime_ns = c->set.mtime_ns;
	rc = attr_to_record(a, &all, &room, &e);
	if (rc != 0)
		return rc;
	txn_put(&t, key_entry(r->tenant, r->dir, r->slice, r->name), &e.base);
	row_put_request_done(&t, r, c->request, e.id, e.kind);
	rc = txn_run(m, &t, r->partition, NULL);
	return rc == -ESTALE ? META_RETRY : rc;
}

static int change_check(const struct meta_attr_change *c)
{
	if (c->request == 0 || c->id == 0 || c->remove_count > META_ATTRS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < c->remove_count; i++) {
		int rc = meta_attr_check(&(struct meta_attr){.name = c->remove[i]});
		if (rc != 0)
			return rc;
	}
	int rc = meta_attrs_check(&c->set);
	return rc == 0 ? schema_name_check(c->name) : rc;
}

int meta_attr_set(struct meta *m, const struct meta_ctx *ctx, uint64_t dir,
		  const struct meta_attr_change *c)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	int rc = change_check(c);
	if (rc != 0)
		return rc;
	for (unsigned try = 0;; try++) {
		struct row r;
		rc = row_find_from(m, ctx->tenant, dir, c->name, c->request, &a, &r);
		if (rc == 0)
			rc = set_at(m, &r, c, &a);
		if (rc != META_RETRY)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}
