// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/crc.h"
#include "rpc/context.h"
#include "rpc/stream.h"
#include "rpc/type.h"
#include "rt/net.h"
#include "rt/pool.h"
#include "rt/rt.h"
#include "secure/secure.h"

static void batch_clear(struct out_batch *b)
{
	for (int i = 0; i < b->held_count; i++)
		buf_unref(b->held[i]);
	b->used = 0;
	b->bulk_bytes = 0;
	b->segment_count = 0;
	b->held_count = 0;
}

static int out_send_batch(struct rpc_out *o)
{
	struct out_batch *b = o->fill;
	assert(b->segment_count > 0 && o->sending_bytes == 0);
	o->fill = &o->batch[b == &o->batch[0]];
	o->sends++;
	o->since_ns = rt_now_ns();
	o->sending_bytes = b->bulk_bytes;
	rt_cond_broadcast(&o->room);
	if (o->stall_ns != 0)
		rt_deadline_set(o->since_ns + o->stall_ns);
	int rc = secure_sendv(o->link, b->segments, b->segment_count);
	rt_deadline_set(RT_NEVER);
	assert(b != o->fill);
	o->sending_bytes = 0;
	batch_clear(b);
	return rc == -ETIME ? -ETIMEDOUT : rc;
}

static void out_writer(void *arg)
{
	struct rpc_out *o = arg;
	rt_background();
	while (o->error == 0) {
		int rc = 0;
		if (o->fill->segment_count > 0) {
			rc = out_send_batch(o);
		} else {
			if (o->closing)
				return;
			o->idle = true;
			rc = rt_cond_wait(&o->work);
			o->idle = false;
		}
		if (rc < 0)
			out_break(o, rc);
	}
}

int out_init(struct rpc_out *o, struct secure_link *link, struct rt_pool *pool, uint64_t stall_ns)
{
	*o = (struct rpc_out){.link = link, .pool = pool, .stall_ns = stall_ns};
	rt_cond_init(&o->room);
	rt_cond_init(&o->work);
	o->fill = &o->batch[0];
	o->batch[0].bytes = malloc(OUT_BATCH_BYTES);
	o->batch[1].bytes = malloc(OUT_BATCH_BYTES);
	int rc = -ENOMEM;
	if (o->batch[0].bytes != NULL && o->batch[1].bytes != NULL)
		rc = rt_spawn(&o->writer, "rpc-writer", out_writer, o);
	if (rc < 0) {
		free(o->batch[0].bytes);
		free(o->batch[1].bytes);
	}
	return rc;
}

void out_break(struct rpc_out *o, int error)
{
	assert(error < 0);
	if (o->error != 0)
		return;
	o->error = error;
	rt_sock_shutdown(o->link->sock);
	rt_cond_broadcast(&o->room);
	rt_cond_broadcast(&o->work);
}

void out_fini(struct rpc_out *o)
{
	assert(!o->closing);
	o->closing = true;
	rt_cond_broadcast(&o->work);
	rt_join(o->writer);
	for (int i = 0; i < 2; i++) {
		batch_clear(&o->batch[i]);
		free(o->batch[i].bytes);
	}
}

/* --- putting a frame into the batch ---------------------------------------------------------- */

static bool out_has_room(const struct rpc_out *o, size_t inline_bytes, size_t bulk_bytes)
{
	const struct out_batch *b = o->fill;
	if (b->segment_count == 0)
		return true;
	return OUT_BATCH_BYTES - b->used >= inline_bytes && b->segment_count + 3 <= OUT_SEGMENTS &&
	       (bulk_bytes == 0 || b->bulk_bytes == 0 ||
		b->bulk_bytes + bulk_bytes <= OUT_BULK_BYTES);
}

static int out_wait_room(struct rpc_out *o, size_t inline_bytes, size_t bulk_bytes, bool no_wait)
{
	while (o->error == 0 && !out_has_room(o, inline_bytes, bulk_bytes)) {
		int rc = no_wait ? -EAGAIN : rt_cond_wait(&o->room);
		if (rc < 0)
			return rc;
	}
	return o->error != 0 ? -ECONNRESET : 0;
}

static void batch_add(struct out_batch *b, const void *data, size_t len)
{
	struct iovec *last = b->segment_count > 0 ? &b->segments[b->segment_count - 1] : NULL;
	if (last != NULL && (const uint8_t *)last->iov_base + last->iov_len == data) {
		last->iov_len += len;
		return;
	}
	assert(b->segment_count < OUT_SEGMENTS);
	b->segments[b->segment_count++] = (struct iovec){.iov_base = (void *)data, .iov_len = len};
}

static uint64_t timeout_us_until(uint64_t deadline_ns)
{
	if (deadline_ns == 0 || deadline_ns == RT_NEVER)
		return 0;
	uint64_t now = rt_now_ns();
	return deadline_ns <= now ? 1 : (deadline_ns - now) / NS_PER_US + 1;
}

/* Writes context and body to meta, and the header to head. */
static void frame_write(const struct out_frame *f, struct frame_header *h, uint8_t *head,
			uint8_t *meta)
{
	size_t n = 0;
	assert(h->kind >= FRAME_REQUEST && h->kind <= FRAME_GOODBYE);
	assert(h->kind == FRAME_REQUEST || h->context_len == 0);
	assert((h->flags & ~(uint32_t)FRAME_FLAGS_ALL) == 0);
	if (h->context_len > 0)
		n += rpc_context_write(f->context, meta);
	if (h->body_len > 0)
		n += protobuf_c_message_pack(f->body, meta + n);
	assert(n == (size_t)h->context_len + h->body_len);
	h->meta_crc = crc32c(0, meta, n);
	h->payload_len = (uint32_t)f->payload.len;
	h->payload_crc = f->payload.len > 0 ? f->payload.crc : 0;
	h->timeout_us = timeout_us_until(f->deadline_ns);
	frame_encode(head, h);
}

static int frame_sizes(const struct out_frame *f, struct frame_header *h)
{
	size_t context_len = f->context != NULL ? rpc_context_size(f->context) : 0;
	size_t body_len = f->body != NULL ? protobuf_c_message_get_packed_size(f->body) : 0;
	if (context_len > FRAME_CONTEXT_MAX || body_len > RPC_BODY_MAX ||
	    f->payload.len > RPC_PAYLOAD_MAX)
		return -EMSGSIZE;
	*h = f->head;
	h->context_len = (uint32_t)context_len;
	h->body_len = (uint32_t)body_len;
	return 0;
}

int out_frame(struct rpc_out *o, const struct out_frame *f)
{
	struct frame_header h;
	int rc = frame_sizes(f, &h);
	if (rc < 0)
		return rc;
	size_t meta_len = (size_t)h.context_len + h.body_len;
	bool fits = FRAME_HEADER_BYTES + meta_len <= OUT_BATCH_BYTES;
	AUTO_BUF struct buf *apart = NULL;
	if (!fits)
		rc = rt_pool_get(o->pool, meta_len, &apart);
	size_t inline_len = FRAME_HEADER_BYTES + (fits ? meta_len : 0);
	if (rc == 0)
		rc = out_wait_room(o, inline_len, f->payload.len + (fits ? 0 : meta_len),
				   f->no_wait);
	if (rc < 0)
		return rc;

	struct out_batch *b = o->fill;
	assert(!o->closing && b->used + inline_len <= OUT_BATCH_BYTES);
	assert(b->segment_count + 3 <= OUT_SEGMENTS && b->held_count + 2 <= OUT_SEGMENTS);
	uint8_t *head = b->bytes + b->used;
	frame_write(f, &h, head, fits ? head + FRAME_HEADER_BYTES : apart->data);
	batch_add(b, head, inline_len);
	b->used += inline_len;
	if (!fits) {
		batch_add(b, apart->data, meta_len);
		b->held[b->held_count++] = apart;
		b->bulk_bytes += meta_len;
		apart = NULL;
	}
	if (f->payload.len > 0) {
		batch_add(b, f->payload.buf->data + f->payload.offset, f->payload.len);
		b->held[b->held_count++] = buf_ref(f->payload.buf);
		b->bulk_bytes += f->payload.len;
	}
	size_t queued = o->batch[0].used + o->batch[0].bulk_bytes + o->batch[1].used +
			o->batch[1].bulk_bytes;
	o->peak_bytes = max_u64(o->peak_bytes, queued);
	if (o->idle)
		rt_cond_signal(&o->work);
	return 0;
}
