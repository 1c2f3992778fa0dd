// SPDX-License-Identifier: Apache-2.0
/*
 * The context of a request on the wire: the Context message of rpc.proto from and to struct context. The deadline is
 * not in it: a frame carries it as a duration.
 */
#ifndef RPC_CONTEXT_H
#define RPC_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/context.h"

struct arena;

/* The bytes that it takes on the wire, at most FRAME_CONTEXT_MAX; 0 for the empty one. Write puts exactly so many. */
size_t rpc_context_size(const struct context *c);
size_t rpc_context_write(const struct context *c, uint8_t *out);

/* A context with one reference from bytes of any origin; the arena is for unpacking only. -EBADMSG: malformed;
 * -EMSGSIZE: a part beyond its limit, or beyond the arena's; -ENOMEM. *out is NULL then. */
int rpc_context_read(const struct context **out, struct arena *a, const uint8_t *data, size_t len,
		     uint64_t deadline_ns);

#endif
