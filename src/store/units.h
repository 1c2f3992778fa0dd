// SPDX-License-Identifier: Apache-2.0
/*
 * The checksums of a chunk's units: from bytes that come in with one CRC for all of them, and back to
 * one CRC for the bytes of a read.
 */
#ifndef STORE_UNITS_H
#define STORE_UNITS_H

#include "store/format.h"

/*
 * Combines CRCs for second parts of one fixed length in a few steps, where crc32c_combine would work
 * out the same power for each of a chunk's hundreds of units.
 */
struct crc_shift {
	uint32_t bit[32]; /* what becomes of each bit of the first CRC */
};

uint32_t crc_shift_combine(const struct crc_shift *s, uint32_t crc1, uint32_t crc2);

/* A shift for each size of a unit. */
struct unit_shifts {
	struct crc_shift of[CHUNK_UNIT_LOG2_MAX - CHUNK_UNIT_LOG2_MIN + 1];
};

void unit_shifts_init(struct unit_shifts *s);

/*
 * Makes of h the head of the state after appending the data: length, checksums, tail. The bytes must
 * have the CRC they came with: -EBADMSG, and h is worth nothing. The rest of h is the caller's.
 */
int units_append(struct chunk_head *h, const struct unit_shifts *shifts,
		 const struct store_data *data);

/* Makes of h the head of a chunk cut to len < h->len, whose last unit has this CRC and whose tail
 * page starts with these bytes. */
void units_cut(struct chunk_head *h, const struct unit_shifts *shifts, uint64_t len,
	       uint32_t last_crc, const uint8_t *tail);

/* Bytes of a chunk in memory: [off, off + len). */
struct unit_piece {
	uint64_t off;
	uint64_t len;
	const uint8_t *bytes;
};

/*
 * Verifies the units that touch [off, off + len) from pieces that cover them whole, in order, and sets
 * *crc to that of the range, which is proved with the units. -EBADMSG, and the first bad unit.
 */
int units_verify(const struct chunk_head *h, const struct unit_shifts *shifts,
		 const struct unit_piece *pieces, int n, uint64_t off, uint64_t len, uint32_t *crc,
		 uint64_t *bad_unit);

/* Whether the checksums of all units say what the CRC of the chunk says. */
bool units_agree(const struct chunk_head *h, const struct unit_shifts *shifts);

#endif
