// SPDX-License-Identifier: Apache-2.0
/* Handlers of requests that read and change attributes. */
#include <errno.h>

#include "meta/service_impl.h"
#include "meta_api/attr.h"

int ms_handle_attr_get(struct rpc_request *r)
{
	const Terrane__Meta__AttrGetRequest *q = rpc_body(r);
	Terrane__Meta__AttrGetResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx;
	struct meta_entry e = {.id = q->dir, .kind = META_DIR};
	int rc = ms_enter(r, &ctx);
	if (rc == 0 && q->path[0] != '\0')
		rc = ms_resolve(r, &ctx, q->dir, meta_name(q->path), &e);
	if (rc == 0 && e.kind != META_DIR)
		rc = -ENOTDIR;
	p->dir = e.id;
	if (rc == 0)
		rc = ms_admit(r, &ctx, SERVICE_DIR, e.id, 1);
	if (rc == 0)
		rc = meta_attr_get(ms_meta(r), &ctx, e.id, meta_name(q->name), &r->arena, &e);
	if (rc < 0)
		return ms_end(r, rc);
	e.name = meta_name("");
	p->entry = rpc_alloc(r, sizeof(*p->entry));
	return p->entry == NULL ? -ENOMEM : meta_wire_entry_set(&r->arena, p->entry, &e);
}

int ms_handle_attr_set(struct rpc_request *r)
{
	const Terrane__Meta__AttrSetRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	struct meta_attr_change c = {
		.name = meta_name(q->name), .id = q->id, .request = q->request};
	if (q->n_remove > META_ATTRS_MAX)
		return -EINVAL;
	struct meta_name *remove = rpc_alloc(r, (q->n_remove + 1) * sizeof(*remove));
	int rc = remove == NULL ? -ENOMEM : meta_wire_attrs_get(&r->arena, q->set, &c.set);
	for (size_t i = 0; rc == 0 && i < q->n_remove; i++)
		remove[i] = meta_name(q->remove[i]);
	c.remove = remove;
	c.remove_count = q->n_remove;
	if (rc == 0)
		rc = ms_begin(r, &ctx, SERVICE_DIR, q->dir, 1);
	if (rc == 0)
		rc = meta_attr_set(ms_meta(r), &ctx, q->dir, &c);
	return ms_end(r, rc);
}
