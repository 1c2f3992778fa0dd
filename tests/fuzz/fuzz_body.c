// SPDX-License-Identifier: Apache-2.0
/*
 * Bodies of messages with every kind of field. The first byte chooses the type, the rest is the body. A body that
 * unpacks must stay within the arena's limit, and pack to bytes that unpack to the same body.
 */
#include "fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/base.h"
#include "jobs/jobs.pb-c.h"
#include "meta_api/meta.pb-c.h"
#include "node/node.pb-c.h"
#include "rpc/body.h"
#include "rpc/rpc.pb-c.h"
#include "shift/shift.pb-c.h"

/* Add new types at the end, because seeds choose a type by its index. */
static const ProtobufCMessageDescriptor *const types[] = {
	&terrane__rpc__context__descriptor,
	&terrane__rpc__error_body__descriptor,
	&terrane__rpc__tags__descriptor,
	&terrane__meta__tenant_list_response__descriptor,
	&terrane__meta__lookup_request__descriptor,
	&terrane__meta__entry__descriptor,
	&terrane__meta__list_response__descriptor,
	&terrane__meta__create_request__descriptor,
	&terrane__meta__create_response__descriptor,
	&terrane__node__put_request__descriptor,
	&terrane__node__get_request__descriptor,
	&terrane__shift__get_request__descriptor,
	&terrane__shift__status_response__descriptor,
	&terrane__shift__tune_request__descriptor,
	&terrane__job__spec__descriptor,
};

static ProtobufCMessage *unpack(const ProtobufCMessageDescriptor *type, struct arena *a,
				const uint8_t *data, size_t len)
{
	ProtobufCMessage *m = NULL;
	int rc = body_unpack(type, a, data, len, &m);
	assert((rc == 0) == (m != NULL));
	assert(a->used_bytes <= a->limit_bytes);
	return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	const ProtobufCMessageDescriptor *type = types[data[0] % ARRAY_LEN(types)];
	struct arena a;
	arena_init(&a, body_limit(size));
	ProtobufCMessage *m = unpack(type, &a, data + 1, size - 1);
	if (m != NULL) {
		size_t len = protobuf_c_message_get_packed_size(m);
		uint8_t *packed = malloc(len + 1);
		uint8_t *again = malloc(len + 1);
		assert(packed != NULL && again != NULL);
		assert(protobuf_c_message_pack(m, packed) == len);
		struct arena b;
		arena_init(&b, body_limit(len) + a.limit_bytes);
		ProtobufCMessage *second = unpack(type, &b, packed, len);
		assert(second != NULL && protobuf_c_message_get_packed_size(second) == len);
		assert(protobuf_c_message_pack(second, again) == len);
		assert(memcmp(packed, again, len) == 0);
		arena_fini(&b);
		free(packed);
		free(again);
	}
	arena_fini(&a);
	return 0;
}
