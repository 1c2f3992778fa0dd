// SPDX-License-Identifier: Apache-2.0
#include "rpc/context.h"

#include <errno.h>

#include "rpc/body.h"
#include "rpc/frame.h"
#include "rpc/rpc.pb-c.h"

/* The field numbers and lengths of the message take less than 64 bytes. */
_Static_assert(CONTEXT_TENANT_MAX + CONTEXT_GROUP_MAX + CONTEXT_AUTHORIZATION_MAX +
			       CONTEXT_PATH_MAX + 64 <=
		       FRAME_CONTEXT_MAX,
	       "every context fits into a frame");

/* Fills in the messages for the wire with pointers into c. */
static void context_to_wire(const struct context *c, Terrane__Rpc__Context *w,
			    Terrane__Rpc__Tags *tags)
{
	const struct context_tags *t = &c->tags;
	terrane__rpc__context__init(w);
	w->tenant = (char *)c->tenant;
	w->traffic_group = (char *)c->traffic_group;
	w->traffic_class = c->traffic_class;
	w->token.data = (uint8_t *)c->authorization;
	w->token.len = c->authorization_len;
	if (t->directory_id == 0 && t->path[0] == 0 && t->job_id == 0 && t->placement_category == 0)
		return;
	terrane__rpc__tags__init(tags);
	tags->directory_id = t->directory_id;
	tags->path = (char *)t->path;
	tags->job_id = t->job_id;
	tags->placement_category = t->placement_category;
	w->tags = tags;
}

size_t rpc_context_size(const struct context *c)
{
	Terrane__Rpc__Context w;
	Terrane__Rpc__Tags tags;
	context_to_wire(c, &w, &tags);
	return terrane__rpc__context__get_packed_size(&w);
}

size_t rpc_context_write(const struct context *c, uint8_t *out)
{
	Terrane__Rpc__Context w;
	Terrane__Rpc__Tags tags;
	context_to_wire(c, &w, &tags);
	return terrane__rpc__context__pack(&w, out);
}

int rpc_context_read(const struct context **out, struct arena *a, const uint8_t *data, size_t len,
		     uint64_t deadline_ns)
{
	struct context from = {.deadline_ns = deadline_ns};
	*out = NULL;
	if (len == 0 && deadline_ns == CONTEXT_NO_DEADLINE) {
		*out = context_empty();
		return 0;
	}
	if (len == 0)
		return context_new(out, &from);
	ProtobufCMessage *message = NULL;
	int rc = body_unpack(&terrane__rpc__context__descriptor, a, data, len, &message);
	if (rc < 0)
		return rc;
	const Terrane__Rpc__Context *w = (const Terrane__Rpc__Context *)message;
	if (w->traffic_class > TRAFFIC_BRONZE)
		return -EBADMSG;
	from.tenant = w->tenant;
	from.traffic_group = w->traffic_group;
	from.traffic_class = w->traffic_class;
	from.authorization = w->token.data;
	from.authorization_len = w->token.len;
	if (w->tags != NULL)
		from.tags = (struct context_tags){
			.directory_id = w->tags->directory_id,
			.path = w->tags->path,
			.job_id = w->tags->job_id,
			.placement_category = w->tags->placement_category,
		};
	return context_new(out, &from);
}
