// SPDX-License-Identifier: Apache-2.0
/*
 * Bodies: protobuf messages from bytes that may be hostile.
 *
 * protobuf-c alone is not enough for hostile bytes: for a message type that contains itself it
 * recurses to the depth that the bytes request, it allocates several times the length of the bytes,
 * and it silently truncates a string at an embedded NUL. body_unpack first checks the bytes against
 * the descriptor, then unpacks into an arena with a limit.
 */
#ifndef RPC_BODY_H
#define RPC_BODY_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"

#define BODY_DEPTH_MAX 16

/*
 * Returns the memory limit for unpacking a message of len bytes. Lists of small messages take about
 * eight times their bytes, unknown fields fifty times.
 */
static inline size_t body_limit(size_t len)
{
	return 4096 + 16 * len;
}

/*
 * Checks that the bytes are well formed for the type: wire format, nesting, strings in UTF-8
 * without NUL. -EBADMSG if not. Allocates nothing.
 */
int body_check(const ProtobufCMessageDescriptor *desc, const uint8_t *data, size_t len);

/* Unpacks a message into the arena. -EBADMSG: malformed; -EMSGSIZE: beyond the arena's limit;
 * -ENOMEM. */
int body_unpack(const ProtobufCMessageDescriptor *desc, struct arena *a, const uint8_t *data,
		size_t len, ProtobufCMessage **out);

/* Makes a message with all fields at their defaults. -EMSGSIZE, -ENOMEM. */
int body_new(const ProtobufCMessageDescriptor *desc, struct arena *a, ProtobufCMessage **out);

#endif
