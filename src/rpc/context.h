// SPDX-License-Identifier: Apache-2.0
/*
 * The context of a request on the wire: the Context message of rpc.proto from and to struct
 * context. The deadline is not part of it: the frame header carries it as a duration.
 */
#ifndef RPC_CONTEXT_H
#define RPC_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/context.h"

struct arena;

/* Returns the length of a context on the wire in bytes, at most FRAME_CONTEXT_MAX; 0 for the empty
 * context. rpc_context_write writes exactly this many bytes and returns their number. */
size_t rpc_context_size(const struct context *c);
size_t rpc_context_write(const struct context *c, uint8_t *out);

/* Makes a context with one reference from bytes that may be hostile; the arena is used for
 * unpacking only. -EBADMSG: malformed; -EMSGSIZE: a part is beyond its limit or the arena's;
 * -ENOMEM. After an error *out is NULL. */
int rpc_context_read(const struct context **out, struct arena *a, const uint8_t *data, size_t len,
		     uint64_t deadline_ns);

#endif
