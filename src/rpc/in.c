// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "rpc/client.h"
#include "rpc/stream.h"
#include "rt/net.h"
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

/* Adds n bytes at dst + at to the CRCs of the pieces if there are any, else to sum. */
static uint32_t read_sum(uint32_t *pieces, uint32_t sum, const uint8_t *dst, size_t at, size_t n)
{
	if (pieces == NULL)
		return crc32c(sum, dst + at, n);
	crc_pieces_add(pieces, at, dst + at, n);
	return 0;
}

int in_read(struct rpc_in *in, uint8_t *dst, size_t len, uint32_t *pieces, uint32_t *crc)
{
	uint64_t end_ns = in_bulk_end(in, len);
	size_t done = in_take_ahead(in, dst, len);
	uint32_t sum = read_sum(pieces, 0, dst, 0, done);
	in->read_bytes = done;
	while (done < len) {
		size_t piece = min_u64(len - done, IN_PIECE_BYTES);
		int rc = in_piece(in, dst + done, piece, end_ns);
		if (rc < 0)
			return rc;
		sum = read_sum(pieces, sum, dst, done, piece);
		done += piece;
		in->read_bytes = done;
	}
	*crc = pieces != NULL ? crc_pieces_sum(pieces, len) : sum;
	return 0;
}

/* --- into the memory of a caller --------------------------------------------------------------- */

#define PLACES_AT_ONCE 64

/* The position in a list of places; their bytes before it have arrived and are in their CRCs. */
struct places {
	struct rpc_place *place;
	size_t n;
	size_t at;    /* bytes of the first place that have arrived */
	uint32_t crc; /* CRC of the places that are complete */
};

/* Steps over places that are complete. Returns false if all are. */
static bool places_next(struct places *p)
{
	while (p->n > 0 && p->at == p->place->len) {
		p->crc = crc32c_combine(p->crc, p->place->crc, p->place->len);
		p->place++;
		p->n--;
		p->at = 0;
	}
	return p->n > 0;
}

/* Adds `len` bytes that have arrived in the places to their CRCs. */
static void places_arrived(struct places *p, size_t len)
{
	while (len > 0 && places_next(p)) {
		struct rpc_place *to = p->place;
		size_t n = min_u64(len, to->len - p->at);
		to->crc = crc32c(to->crc, to->at + p->at, n);
		p->at += n;
		len -= n;
	}
	assert(len == 0);
}

/* Lists up to `max` bytes of memory of the places. Returns their number. */
static size_t places_list(const struct places *p, struct iovec *iov, int *iovs, size_t max)
{
	size_t bytes = 0, at = p->at;
	*iovs = 0;
	for (size_t i = 0; i < p->n && *iovs < PLACES_AT_ONCE && bytes < max; i++, at = 0) {
		size_t n = min_u64(max - bytes, p->place[i].len - at);
		if (n == 0)
			continue;
		iov[(*iovs)++] = (struct iovec){p->place[i].at + at, n};
		bytes += n;
	}
	return bytes;
}

/* Receives `bytes` bytes to a list of memory before the time end_ns. */
static int in_pieces(struct rpc_in *in, const struct iovec *iov, int iovs, size_t bytes,
		     uint64_t end_ns)
{
	uint64_t now = rt_now_ns();
	if (now >= end_ns)
		return -ETIMEDOUT;
	if (end_ns != RT_NEVER)
		rt_deadline_set(now + min_u64(in->stall_ns, end_ns - now));
	int64_t n = iovs == 1 ? secure_recv(in->link, iov->iov_base, bytes, bytes)
			      : secure_recvv(in->link, iov, iovs);
	rt_deadline_set(RT_NEVER);
	if (n < 0)
		return in_stalled((int)n);
	if (n > 0)
		in->heard_ns = rt_now_ns();
	in->read_bytes += (size_t)n;
	if (in->left)
		return -EINTR;
	in->cut = (size_t)n < bytes;
	return in->cut ? -ECONNRESET : 0;
}

int in_places(struct rpc_in *in, const struct rpc_places *places, uint32_t *crc)
{
	struct places p = {.place = places->list, .n = places->count};
	size_t len = 0;
	in->left = false;
	in->read_bytes = 0;
	for (size_t i = 0; i < places->count; i++) {
		places->list[i].crc = 0;
		len += places->list[i].len;
	}
	uint64_t end_ns = in_bulk_end(in, len);
	while (places_next(&p)) {
		size_t ahead = in_take_ahead(in, p.place->at + p.at, p.place->len - p.at);
		in->read_bytes += ahead;
		places_arrived(&p, ahead);
		if (ahead > 0)
			continue;
		struct iovec iov[PLACES_AT_ONCE];
		int iovs;
		size_t bytes = places_list(&p, iov, &iovs, IN_PIECE_BYTES);
		int rc = in_pieces(in, iov, iovs, bytes, end_ns);
		if (rc < 0)
			return rc;
		places_arrived(&p, bytes);
	}
	assert(in->read_bytes == len);
	*crc = p.crc;
	return 0;
}

void in_leave(struct rpc_in *in, struct rt_fiber *reader)
{
	in->left = true;
	rt_recv_interrupt(reader);
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
