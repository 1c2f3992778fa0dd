// SPDX-License-Identifier: Apache-2.0
/*
 * CRC-32C (Castagnoli), the checksum of every frame, payload and chunk. Start with 0 and pass the
 * result of one call to the next: crc32c(0, "123456789", 9) == 0xe3069283.
 */
#ifndef BASE_CRC_H
#define BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Returns the CRC of the bytes, continued from crc. Uses ISA-L. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* Returns the same as crc32c, computed bit by bit after the definition: the reference for tests. */
uint32_t crc32c_ref(uint32_t crc, const void *data, size_t len);

/* Returns the CRC of A followed by B, from crc1 of A, crc2 of B and the length of B. Takes time
 * O(log len2). */
uint32_t crc32c_combine(uint32_t crc1, uint32_t crc2, uint64_t len2);

#endif
