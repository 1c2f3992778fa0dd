// SPDX-License-Identifier: Apache-2.0
/* The user's memory as a list of pieces: the destination of a read, where its checksum is taken. */
#ifndef CLIENT_SINK_H
#define CLIENT_SINK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct sink {
	const struct iovec *iov;
	int n;
	uint64_t skip; /* bytes of the pieces in front of byte 0 of the sink */
};

/* Copies `bytes` to [at, at + len) of the sink, which must be inside the pieces. */
void sink_write(const struct sink *s, uint64_t at, const void *bytes, size_t len);
/* Lists the pieces of [at, at + len) in order in out (NULL: only counts). Returns their number. */
int sink_iov(const struct sink *s, uint64_t at, size_t len, struct iovec *out);
/* Returns the CRC-32C of the bytes in memory at [at, at + len). */
uint32_t sink_crc(const struct sink *s, uint64_t at, size_t len);
/* For tests: returns the address of byte `at`; *len: how many bytes follow in the same piece.
 * NULL: there is no such byte. */
void *sink_peek(const struct sink *s, uint64_t at, size_t *len);

/* Returns the sink that begins at byte `at` of s. */
static inline struct sink sink_from(const struct sink *s, uint64_t at)
{
	return (struct sink){.iov = s->iov, .n = s->n, .skip = s->skip + at};
}

/* Returns the sum of the lengths, or UINT64_MAX if it exceeds INT64_MAX. */
uint64_t iov_bytes(const struct iovec *iov, int n);

#endif
