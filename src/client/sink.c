// SPDX-License-Identifier: Apache-2.0
#include "client/sink.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/base.h"
#include "base/crc.h"

/* Iterates over the pieces of a range; walk_next returns false at its end. */
struct walk {
	const struct sink *s;
	int i;
	uint64_t at;   /* offset in piece i */
	uint64_t left; /* bytes of the range that were not visited yet */
	uint8_t *bytes;
	size_t len;
};

static struct walk walk_begin(const struct sink *s, uint64_t at, uint64_t len)
{
	struct walk w = {.s = s, .at = s->skip + at, .left = len};
	while (w.i < s->n && w.at >= s->iov[w.i].iov_len)
		w.at -= s->iov[w.i++].iov_len;
	return w;
}

static bool walk_next(struct walk *w)
{
	while (w->left > 0 && w->i < w->s->n) {
		const struct iovec *piece = &w->s->iov[w->i];
		w->len = (size_t)min_u64(piece->iov_len - w->at, w->left);
		w->bytes = (uint8_t *)piece->iov_base + w->at;
		w->left -= w->len;
		w->at = 0;
		w->i++;
		if (w->len > 0)
			return true;
	}
	return false;
}

void sink_write(const struct sink *s, uint64_t at, const void *bytes, size_t len)
{
	const uint8_t *from = bytes;
	for (struct walk w = walk_begin(s, at, len); walk_next(&w); from += w.len)
		memcpy(w.bytes, from, w.len);
	assert(from == (const uint8_t *)bytes + len);
}

uint32_t sink_crc(const struct sink *s, uint64_t at, size_t len)
{
	uint32_t crc = 0;
	struct walk w = walk_begin(s, at, len);
	while (walk_next(&w))
		crc = crc32c(crc, w.bytes, w.len);
	assert(w.left == 0); /* the range is inside the pieces */
	return crc;
}

int sink_iov(const struct sink *s, uint64_t at, size_t len, struct iovec *out)
{
	int n = 0;
	for (struct walk w = walk_begin(s, at, len); walk_next(&w); n++)
		if (out != NULL)
			out[n] = (struct iovec){w.bytes, w.len};
	return n;
}

void *sink_peek(const struct sink *s, uint64_t at, size_t *len)
{
	struct walk w = walk_begin(s, at, UINT64_MAX);
	*len = 0;
	if (!walk_next(&w))
		return NULL;
	*len = w.len;
	return w.bytes;
}

uint64_t iov_bytes(const struct iovec *iov, int n)
{
	uint64_t sum = 0;
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len > INT64_MAX - sum)
			return UINT64_MAX;
		sum += iov[i].iov_len;
	}
	return sum;
}
