// SPDX-License-Identifier: Apache-2.0
#include "rpc/context.h"

#include <errno.h>

#include "rpc/body.h"
#include "rpc/rpc.pb-c.h"

void rpc_context_init(struct rpc_context *c)
{
	*c = (struct rpc_context){.tenant = "", .traffic_group = "", .path = ""};
}

/* Borrows everything from c. */
static void context_to_wire(const struct rpc_context *c, Terrane__Rpc__Context *w,
			    Terrane__Rpc__Tags *tags)
{
	terrane__rpc__context__init(w);
	w->tenant = (char *)c->tenant;
	w->traffic_group = (char *)c->traffic_group;
	w->traffic_class = c->traffic_class;
	w->token.data = (uint8_t *)c->token;
	w->token.len = c->token_len;
	if (c->directory_id == 0 && c->path[0] == 0 && c->job_id == 0 && c->placement_category == 0)
		return;
	terrane__rpc__tags__init(tags);
	tags->directory_id = c->directory_id;
	tags->path = (char *)c->path;
	tags->job_id = c->job_id;
	tags->placement_category = c->placement_category;
	w->tags = tags;
}

size_t rpc_context_size(const struct rpc_context *c)
{
	Terrane__Rpc__Context w;
	Terrane__Rpc__Tags tags;
	context_to_wire(c, &w, &tags);
	return terrane__rpc__context__get_packed_size(&w);
}

size_t rpc_context_write(const struct rpc_context *c, uint8_t *out)
{
	Terrane__Rpc__Context w;
	Terrane__Rpc__Tags tags;
	context_to_wire(c, &w, &tags);
	return terrane__rpc__context__pack(&w, out);
}

int rpc_context_read(struct rpc_context *c, struct arena *a, const uint8_t *data, size_t len)
{
	rpc_context_init(c);
	if (len == 0)
		return 0;
	ProtobufCMessage *message = NULL;
	int rc = body_unpack(&terrane__rpc__context__descriptor, a, data, len, &message);
	if (rc < 0)
		return rc;
	const Terrane__Rpc__Context *w = (const Terrane__Rpc__Context *)message;
	if (w->traffic_class > RPC_BRONZE)
		return -EBADMSG;
	c->tenant = w->tenant;
	c->traffic_group = w->traffic_group;
	c->traffic_class = w->traffic_class;
	c->token = w->token.data;
	c->token_len = w->token.len;
	if (w->tags == NULL)
		return 0;
	c->directory_id = w->tags->directory_id;
	c->path = w->tags->path;
	c->job_id = w->tags->job_id;
	c->placement_category = w->tags->placement_category;
	return 0;
}
