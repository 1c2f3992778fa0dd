// SPDX-License-Identifier: Apache-2.0
/* Client stubs of the requests for attributes. */
#include <errno.h>

#include "meta_api/attr.h"
#include "meta_client/impl.h"

#define SCRATCH_ATTRS (64 * KIB)

int mc_attrs(struct meta_call *c, struct arena *a, const struct meta_attrs *from,
	     meta_msg_attrs **out)
{
	int rc = meta_attrs_check(from);
	if (rc == 0)
		rc = meta_wire_attrs_set(a, from, out);
	return rc < 0 ? mc_fail(c, rc) : 0;
}

/* Copies user attributes to the arena, because the reply is freed. The reply comes from outside: -EINVAL if it is not valid. */
static int attrs_copy(struct arena *a, const Terrane__Meta__Entry *m, struct meta_entry *out)
{
	struct meta_attrs all;
	if (m->attrs == NULL)
		return 0;
	int rc = meta_wire_attrs_get(a, m->attrs, &all);
	if (rc == 0)
		rc = meta_attrs_check(&all) == 0 ? 0 : -EINVAL;
	struct meta_attr *user = (struct meta_attr *)all.user;
	for (size_t i = 0; rc == 0 && i < all.user_count; i++) {
		char *text = meta_wire_name(a, user[i].name);
		uint8_t *value = arena_alloc(a, user[i].len + 1);
		if (text == NULL || value == NULL)
			return -ENOMEM;
		if (user[i].len > 0)
			memcpy(value, user[i].value, user[i].len);
		user[i].name.text = text;
		user[i].value = value;
	}
	out->attrs = all;
	return rc;
}

int meta_client_attr_get(struct meta_call *c, uint64_t dir, struct meta_name path,
			 struct meta_name name, struct arena *arena, uint64_t *in,
			 struct meta_entry *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_BYTES);
	Terrane__Meta__AttrGetRequest q = TERRANE__META__ATTR_GET_REQUEST__INIT;
	q.dir = dir;
	int rc = mc_name(c, &a, name, META_NAME_MAX, &q.name);
	if (rc == 0)
		rc = mc_name(c, &a, path, META_PATH_MAX, &q.path);
	if (rc < 0)
		return rc;
	AUTO_REPLY struct rpc_reply reply;
	rc = mc_call(c, &meta_type_attr_get, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__AttrGetResponse *p = reply.message;
	*in = p->dir;
	rc = p->dir == 0 ? -EINVAL : meta_wire_entry_get(p->entry, out);
	if (rc == 0)
		rc = attrs_copy(arena, p->entry, out);
	out->name = name;
	return mc_response_error(c, rc);
}

int meta_client_attr_set(struct meta_call *c, uint64_t dir, const struct meta_attr_change *change)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_ATTRS);
	Terrane__Meta__AttrSetRequest q = TERRANE__META__ATTR_SET_REQUEST__INIT;
	q.dir = dir;
	q.id = change->id;
	q.request = change->request;
	if (change->remove_count > META_ATTRS_MAX)
		return mc_fail(c, -EFBIG);
	int rc = mc_name(c, &a, change->name, META_NAME_MAX, &q.name);
	if (rc == 0)
		rc = mc_attrs(c, &a, &change->set, &q.set);
	q.remove = arena_alloc(&a, (change->remove_count + 1) * sizeof(char *));
	if (rc == 0 && q.remove == NULL)
		rc = mc_fail(c, -ENOMEM);
	for (size_t i = 0; rc == 0 && i < change->remove_count; i++)
		rc = mc_name(c, &a, change->remove[i], META_ATTR_NAME_MAX, &q.remove[q.n_remove++]);
	return rc < 0 ? rc : mc_call_status(c, &meta_type_attr_set, &q.base);
}
