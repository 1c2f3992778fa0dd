// SPDX-License-Identifier: Apache-2.0
/*
 * A block made ready to be sent: its chunks with their checksums, all checked.
 *
 * The order is what makes it safe. (1) The checksums of the data chunks are computed over the
 * block, and joined: they must give the checksum that came in with the user's bytes. (2) Parities
 * are computed and get checksums of their own. (3) codec_verify compares data and parities. From
 * (1) and (2) on each chunk is covered by the checksum that travels with it and that the node
 * compares; so a bit that flips at any time before is found in (1) or (3), and one that flips later
 * by the node.
 */
#ifndef CLIENT_ENCODE_H
#define CLIENT_ENCODE_H

#include "base/slice.h"
#include "client/fabric.h"
#include "client/shape.h"

struct coded {
	int n;
	struct slice *chunk; /* n of them; buf NULL: an empty chunk */
};

/*
 * The first len bytes of data, whose CRC is crc. Waits (the computing of large blocks is done on
 * another thread). -EBADMSG: bits flipped on the way; -ENOMEM, -EINVAL.
 */
int coded_make(struct call *c, const struct shape *s, struct buf *data, uint64_t len, uint32_t crc,
	       struct coded *out);
void coded_free(struct coded *c);

/* The most memory that the parities of a block of len bytes take. */
uint64_t coded_parity_bytes(const struct shape *s, uint64_t len);

#endif
