// SPDX-License-Identifier: Apache-2.0
/* Chunks fetched over rpc, as the source of a stripe: their memory is buffers of the fabric's
 * pool. */
#ifndef CLIENT_CHUNKS_H
#define CLIENT_CHUNKS_H

#include "client/fabric.h"
#include "stripe/stripe.h"

/* Takes over the slice's reference to its buffer. */
static inline struct stripe_bytes chunk_bytes_take(const struct slice *s)
{
	return (struct stripe_bytes){
		.data = s->buf->data + s->offset, .len = s->len, .crc = s->crc, .hold = s->buf};
}

/* Converts the bytes of a stripe to a slice, which takes over the reference; its buf is NULL
 * for an empty chunk. */
static inline struct slice chunk_slice_take(const struct stripe_bytes *b)
{
	struct buf *buf = b->hold;
	return (struct slice){.buf = buf,
			      .offset = buf == NULL ? 0 : (size_t)(b->data - buf->data),
			      .len = b->len,
			      .crc = b->crc};
}

/* Implement the memory and release slots of struct stripe_ops with buffers of the fabric's
 * pool. chunk_memory waits until the pool has memory. */
static inline int chunk_memory(struct fabric *f, uint64_t len, struct stripe_bytes *out)
{
	struct buf *buf;
	int rc = rt_pool_get(&f->shared->pool, len, &buf);
	if (rc == 0)
		*out = (struct stripe_bytes){.data = buf->data, .len = len, .hold = buf};
	return rc;
}

static inline void chunk_release(void *hold)
{
	buf_unref(hold);
}

#endif
