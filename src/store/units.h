// SPDX-License-Identifier: Apache-2.0
/*
 * Checksums of a chunk's units: computed from a payload that comes with one CRC, and combined into
 * one CRC for the bytes of a read.
 */
#ifndef STORE_UNITS_H
#define STORE_UNITS_H

#include "store/format.h"

/*
 * A table that combines CRCs where the second part has a fixed length. It is much faster than
 * crc32c_combine, which would compute the same power for each of a chunk's hundreds of units.
 */
struct crc_shift {
	uint32_t bit[32]; /* result for each bit of the first CRC, lowest first */
};

uint32_t crc_shift_combine(const struct crc_shift *s, uint32_t crc1, uint32_t crc2);

/* Tables that combine CRCs, one for each unit size. */
struct unit_shifts {
	struct crc_shift of[CHUNK_UNIT_LOG2_MAX - CHUNK_UNIT_LOG2_MIN + 1];
};

void unit_shifts_init(struct unit_shifts *s);

/*
 * Updates length, checksums and tail of h for appended data. The caller sets the other fields.
 * -EBADMSG when the data does not have the CRC that came with it; then h is unusable.
 */
int units_append(struct chunk_head *h, const struct unit_shifts *shifts,
		 const struct store_data *data);

/*
 * Updates h for a chunk that is cut to len < h->len. last_crc is the CRC of its last, possibly
 * shortened unit; tail is its new tail page.
 */
void units_cut(struct chunk_head *h, const struct unit_shifts *shifts, uint64_t len,
	       uint32_t last_crc, const uint8_t *tail);

/* A buffer in memory with bytes [off, off + len) of a chunk. */
struct unit_piece {
	uint64_t off;
	uint64_t len;
	const uint8_t *bytes;
};

/* A range of a chunk to verify: bytes [off, off + len). */
struct units_range {
	const struct chunk_head *h;
	const struct unit_shifts *shifts;
	const struct unit_piece *pieces; /* cover completely, in order, the units of the range */
	int piece_count;
	uint64_t off;
	uint64_t len;
};

/*
 * Verifies the units that overlap the range. Sets *crc to the CRC of the range, derived from the
 * verified units. -EBADMSG: *bad_unit is the first damaged unit.
 */
int units_verify(const struct units_range *r, uint32_t *crc, uint64_t *bad_unit);

/* Returns whether the CRCs of the units, combined, equal the CRC of the chunk. */
bool units_agree(const struct chunk_head *h, const struct unit_shifts *shifts);

#endif
