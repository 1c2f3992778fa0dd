// SPDX-License-Identifier: Apache-2.0
#include "rpc/body.h"

#include <assert.h>
#include <errno.h>

#include "base/utf8.h"

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

#define VARINT_BYTES_MAX 10

struct wire {
	const uint8_t *at;
	const uint8_t *end;
};

static int wire_varint(struct wire *w, uint64_t *out)
{
	uint64_t v = 0;
	for (unsigned i = 0; i < VARINT_BYTES_MAX && w->at < w->end; i++) {
		uint8_t b = *w->at++;
		v |= (uint64_t)(b & 0x7f) << (7 * i);
		if ((b & 0x80) == 0) {
			*out = v;
			return 0;
		}
	}
	return -EBADMSG;
}

static int wire_skip(struct wire *w, uint64_t len)
{
	assert(w->at <= w->end);
	if (len > (uint64_t)(w->end - w->at))
		return -EBADMSG;
	w->at += len;
	return 0;
}

static int check_level(const ProtobufCMessageDescriptor *desc, struct wire w, unsigned depth);

/* Checks that a text field is UTF-8 without NUL, because a C string would end at the NUL. */
static int check_text(const uint8_t *s, size_t len)
{
	for (size_t i = 0; i < len;) {
		size_t n = s[i] < 0x80 ? 1 : utf8_char_len((const char *)s + i, len - i);
		if (n == 0 || s[i] == 0)
			return -EBADMSG;
		i += n;
	}
	return 0;
}

static int check_bytes(const ProtobufCMessageDescriptor *desc, uint32_t number, struct wire part,
		       unsigned depth)
{
	const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(desc, number);
	size_t len = (size_t)(part.end - part.at);
	if (f == NULL)
		return 0;
	if (f->type == PROTOBUF_C_TYPE_STRING)
		return check_text(part.at, len);
	if (f->type == PROTOBUF_C_TYPE_MESSAGE)
		return check_level(f->descriptor, part, depth + 1);
	return 0;
}

static int check_level(const ProtobufCMessageDescriptor *desc, struct wire w, unsigned depth)
{
	if (depth >= BODY_DEPTH_MAX)
		return -EBADMSG;
	while (w.at < w.end) {
		uint64_t tag = 0;
		uint64_t n = 0;
		int rc = wire_varint(&w, &tag);
		if (rc == 0 && (tag >> 3 == 0 || tag > UINT32_MAX))
			rc = -EBADMSG;
		if (rc < 0)
			return rc;
		switch (tag & 7) {
		case WIRE_VARINT:
			rc = wire_varint(&w, &n);
			break;
		case WIRE_FIXED64:
			rc = wire_skip(&w, 8);
			break;
		case WIRE_FIXED32:
			rc = wire_skip(&w, 4);
			break;
		case WIRE_BYTES: {
			rc = wire_varint(&w, &n);
			struct wire part = {.at = w.at, .end = w.at};
			if (rc == 0)
				rc = wire_skip(&w, n);
			part.end = w.at;
			if (rc == 0)
				rc = check_bytes(desc, (uint32_t)(tag >> 3), part, depth);
			break;
		}
		default:
			rc = -EBADMSG;
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

int body_check(const ProtobufCMessageDescriptor *desc, const uint8_t *data, size_t len)
{
	if (len == 0)
		return 0;
	return check_level(desc, (struct wire){.at = data, .end = data + len}, 0);
}

static void *pb_alloc(void *a, size_t len)
{
	return arena_alloc(a, len);
}

static void pb_free(void *a, void *ptr)
{
	(void)a;
	(void)ptr;
}

int body_unpack(const ProtobufCMessageDescriptor *desc, struct arena *a, const uint8_t *data,
		size_t len, ProtobufCMessage **out)
{
	*out = NULL;
	assert(desc != NULL && (data != NULL || len == 0));
	int rc = body_check(desc, data, len);
	if (rc < 0)
		return rc;
	ProtobufCAllocator allocator = {.alloc = pb_alloc, .free = pb_free, .allocator_data = a};
	*out = protobuf_c_message_unpack(desc, &allocator, len, data);
	if (*out != NULL)
		return 0;
	return a->refused ? -EMSGSIZE : -EBADMSG;
}

int body_new(const ProtobufCMessageDescriptor *desc, struct arena *a, ProtobufCMessage **out)
{
	*out = arena_alloc(a, desc->sizeof_message);
	if (*out == NULL)
		return a->refused ? -EMSGSIZE : -ENOMEM;
	protobuf_c_message_init(desc, *out);
	return 0;
}
