// SPDX-License-Identifier: Apache-2.0
/*
 * CRC-32C (Castagnoli), the checksum of every frame, payload and chunk. Start with 0 and pass the
 * result of one call to the next: crc32c(0, "123456789", 9) == 0xe3069283.
 */
#ifndef BASE_CRC_H
#define BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* Returns the CRC of the bytes, continued from crc. Uses ISA-L. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* Returns the same as crc32c, computed bit by bit after the definition: the reference for tests. */
uint32_t crc32c_ref(uint32_t crc, const void *data, size_t len);

/* Returns the CRC of A followed by B, from crc1 of A, crc2 of B and the length of B. Takes time
 * O(log len2). */
uint32_t crc32c_combine(uint32_t crc1, uint32_t crc2, uint64_t len2);

/*
 * CRCs of the pieces of a payload: one for each CRC_PIECE_BYTES, the last for what remains. The loop that receives a
 * payload takes them while the bytes are in the processor's cache; the CRCs of longer parts are combined from them, so
 * that no other pass over the bytes is needed.
 */
#define CRC_PIECE_BYTES ((size_t)(16 * KIB))

static inline size_t crc_pieces(size_t len)
{
	return (len + CRC_PIECE_BYTES - 1) / CRC_PIECE_BYTES;
}

/* Adds bytes [at, at + len) of the payload to the CRCs. The bytes before must have been added; the CRCs begin as 0. */
void crc_pieces_add(uint32_t *crcs, size_t at, const void *data, size_t len);

/* Returns the CRC of a payload of len bytes, or of its first len bytes if a piece ends there, from those of its pieces. */
uint32_t crc_pieces_sum(const uint32_t *crcs, size_t len);

#endif
