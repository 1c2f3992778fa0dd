// SPDX-License-Identifier: Apache-2.0
/*
 * Bodies: protobuf messages from and to bytes that a stranger may have made.
 *
 * protobuf-c alone is not enough for hostile bytes: it recurses as deep as the bytes say where a
 * message type contains itself, allocates several times what the bytes hold, and cuts a string at an
 * embedded NUL without saying so. body_unpack first walks the bytes by the descriptor and refuses
 * what would go wrong, then unpacks into an arena with a limit.
 */
#ifndef RPC_BODY_H
#define RPC_BODY_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"

#define BODY_DEPTH_MAX 16

/*
 * How much memory a message of len bytes may take when unpacked. Lists of small messages take some
 * eight times their bytes, unknown fields fifty times.
 */
static inline size_t body_limit(size_t len)
{
	return 4096 + 16 * len;
}

/*
 * Whether the bytes are well formed for the type: wire format, nesting, strings in UTF-8 without
 * NUL. -EBADMSG otherwise. Allocates nothing.
 */
int body_check(const ProtobufCMessageDescriptor *desc, const uint8_t *data, size_t len);

/* The message is the arena's. -EBADMSG: malformed; -EMSGSIZE: beyond the arena's limit; -ENOMEM. */
int body_unpack(const ProtobufCMessageDescriptor *desc, struct arena *a, const uint8_t *data,
		size_t len, ProtobufCMessage **out);

/* A message with all fields at their defaults. -EMSGSIZE, -ENOMEM. */
int body_new(const ProtobufCMessageDescriptor *desc, struct arena *a, ProtobufCMessage **out);

#endif
