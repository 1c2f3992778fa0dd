// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "rpc/stream.h"
#include "rt/rt.h"
#include "secure/secure.h"

int in_init(struct rpc_in *in, struct secure_link *link, uint64_t stall_ns)
{
	*in = (struct rpc_in){.link = link, .stall_ns = stall_ns, .heard_ns = rt_now_ns()};
	in->bytes = malloc(IN_BYTES);
	return in->bytes != NULL ? 0 : -ENOMEM;
}

void in_fini(struct rpc_in *in)
{
	free(in->bytes);
	in->bytes = NULL;
}

/* Receives at least min and at most len bytes within timeout_ns (0: no limit). Returns their
 * number; fewer than min if the peer ended the stream. */
static int64_t in_recv(struct rpc_in *in, void *dst, size_t len, size_t min, uint64_t timeout_ns)
{
	if (timeout_ns != 0)
		rt_deadline_set(rt_now_ns() + timeout_ns);
	assert(min > 0 && min <= len);
	int64_t n = secure_recv(in->link, dst, len, min);
	rt_deadline_set(RT_NEVER);
	if (n > 0)
		in->heard_ns = rt_now_ns();
	return n;
}

/* Reads ahead until the read-ahead buffer holds at least `need` bytes, in [head, tail). */
static int in_fill(struct rpc_in *in, size_t need, uint64_t timeout_ns)
{
	size_t have = in->tail - in->head;
	assert(need <= IN_BYTES);
	if (have >= need)
		return 0;
	if (have == 0 || IN_BYTES - in->head < need) {
		memmove(in->bytes, in->bytes + in->head, have);
		in->head = 0;
		in->tail = have;
	}
	size_t missing = need - have;
	int64_t n = in_recv(in, in->bytes + in->tail, IN_BYTES - in->tail, missing, timeout_ns);
	if (n < 0)
		return (int)n;
	in->tail += (size_t)n;
	assert(in->head <= in->tail && in->tail <= IN_BYTES);
	in->cut = (size_t)n < missing;
	return in->cut ? -ECONNRESET : 0;
}

static int in_stalled(int rc)
{
	return rc == -ETIME ? -ETIMEDOUT : rc;
}

int in_header(struct rpc_in *in, uint64_t idle_ns, const uint8_t **at)
{
	if (in->head == in->tail) {
		int rc = in_fill(in, 1, idle_ns);
		bool ended = in->cut;
		in->cut = false;
		if (rc < 0)
			return ended ? -EPIPE : rc;
	}
	return in_view(in, FRAME_HEADER_BYTES, at);
}

int in_view(struct rpc_in *in, size_t len, const uint8_t **at)
{
	int rc = in_fill(in, len, in->stall_ns);
	if (rc < 0)
		return in_stalled(rc);
	*at = in->bytes + in->head;
	in->head += len;
	assert(in->head <= in->tail);
	return 0;
}

/* Takes up to len bytes from the read-ahead buffer; dst NULL: drops them. */
static size_t in_take_ahead(struct rpc_in *in, uint8_t *dst, size_t len)
{
	assert(in->head <= in->tail);
	size_t n = min_u64(len, in->tail - in->head);
	if (dst != NULL)
		memcpy(dst, in->bytes + in->head, n);
	in->head += n;
	return n;
}

/* Returns the time by which len bytes of bulk data must have arrived. */
static uint64_t in_bulk_end(const struct rpc_in *in, size_t len)
{
	if (in->stall_ns == 0)
		return RT_NEVER;
	return rt_now_ns() + in->stall_ns + len * NS_PER_S / IN_RATE_MIN;
}

/* Receives exactly `piece` bytes of bulk data before the time end_ns. */
static int in_piece(struct rpc_in *in, uint8_t *dst, size_t piece, uint64_t end_ns)
{
	uint64_t now = rt_now_ns();
	if (now >= end_ns)
		return -ETIMEDOUT;
	uint64_t timeout_ns = end_ns == RT_NEVER ? 0 : min_u64(in->stall_ns, end_ns - now);
	int64_t n = in_recv(in, dst, piece, piece, timeout_ns);
	if (n < 0)
		return in_stalled((int)n);
	in->cut = (size_t)n < piece;
	return in->cut ? -ECONNRESET : 0;
}

int in_await(struct rpc_in *in, size_t len)
{
	return in_stalled(in_fill(in, len, in->stall_ns));
}

int in_read(struct rpc_in *in, uint8_t *dst, size_t len, uint32_t *crc)
{
	uint64_t end_ns = in_bulk_end(in, len);
	size_t done = in_take_ahead(in, dst, len);
	uint32_t sum = crc32c(0, dst, done);
	in->read_bytes = done;
	while (done < len) {
		size_t piece = min_u64(len - done, IN_PIECE_BYTES);
		int rc = in_piece(in, dst + done, piece, end_ns);
		if (rc < 0)
			return rc;
		sum = crc32c(sum, dst + done, piece);
		done += piece;
		in->read_bytes = done;
	}
	*crc = sum;
	return 0;
}

int in_skip(struct rpc_in *in, size_t len)
{
	uint64_t end_ns = in_bulk_end(in, len);
	size_t done = in_take_ahead(in, NULL, len);
	while (done < len) {
		size_t piece = min_u64(len - done, IN_BYTES);
		int rc = in_piece(in, in->bytes, piece, end_ns);
		if (rc < 0)
			return rc;
		done += piece;
	}
	return 0;
}
