// SPDX-License-Identifier: Apache-2.0
/* The user's memory, in pieces: where bytes that were read go, and where their checksum is
 * taken. */
#ifndef CLIENT_SINK_H
#define CLIENT_SINK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct sink {
	const struct iovec *iov;
	int n;
	uint64_t skip; /* bytes of the pieces before byte 0 of the sink */
};

/* Copies to [at, at + len), which must lie within the pieces. */
void sink_write(const struct sink *s, uint64_t at, const void *bytes, size_t len);
/* The pieces of memory of [at, at + len), in order, in out (NULL: nowhere); returns how many they are. */
int sink_iov(const struct sink *s, uint64_t at, size_t len, struct iovec *out);
/* The CRC of what is there now. */
uint32_t sink_crc(const struct sink *s, uint64_t at, size_t len);
/* Some contiguous byte of the range, for tests; *len is how many follow it. */
void *sink_peek(const struct sink *s, uint64_t at, size_t *len);

static inline struct sink sink_from(const struct sink *s, uint64_t at)
{
	return (struct sink){.iov = s->iov, .n = s->n, .skip = s->skip + at};
}

/* All bytes of the pieces, or UINT64_MAX when they overflow. */
uint64_t iov_bytes(const struct iovec *iov, int n);

#endif
