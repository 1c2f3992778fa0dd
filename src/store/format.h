// SPDX-License-Identifier: Apache-2.0
/*
 * The bytes on a disk: superblock and chunk files. Pure functions. README.md specifies the layout
 * byte by byte; format.c has the invariants.
 */
#ifndef STORE_FORMAT_H
#define STORE_FORMAT_H

#include "store/store.h"

#define FORMAT_VERSION 1

/* --- superblock ------------------------------------------------------------------------------- */

#define SUPER_COPY_BYTES 4096
#define SUPER_BYTES 8192 /* bytes of the superblock: two copies */
#define SUPER_FAN_BITS_MAX 12

/* Identity of a disk. */
struct super {
	uint64_t cluster[2];
	uint64_t node;
	uint64_t disk;
	uint64_t created_wall_ns;
	uint32_t fan_bits; /* chunks are spread over 2^fan_bits directories */
};

/* Writes both copies of the superblock to out. */
void super_encode(const struct super *sb, uint8_t out[SUPER_BYTES]);

/*
 * Decodes the first intact copy of the superblock; sets *good to the number of intact copies.
 * -EBADMSG when no copy is intact, -EOPNOTSUPP when the version is unknown.
 */
int super_decode(const uint8_t *bytes, size_t len, struct super *sb, int *good);

/* --- chunk files ------------------------------------------------------------------------------ */

#define CHUNK_PAGE_BYTES 4096
#define CHUNK_SLOT_BYTES 8192   /* bytes of a slot: a head and a tail */
#define CHUNK_SLOTS_BYTES 16384 /* bytes of both slots; the data follows */
#define CHUNK_UNITS_MAX 991
#define CHUNK_UNIT_LOG2_MIN 14
#define CHUNK_UNIT_LOG2_MAX 19

/* The contents of a slot: one state of the chunk (format.c defines slot and state). */
struct chunk_head {
	struct chunk_id id;
	uint64_t disk;
	uint64_t seq; /* number of the state: 1 for a put, then one more with each change */
	uint64_t epoch;
	uint64_t len;
	uint64_t prev_len; /* length in the previous state */
	uint64_t capacity;
	uint32_t crc; /* CRC of bytes [0, len) of the chunk */
	uint32_t unit_log2;
	bool sealed;
	uint8_t label[STORE_LABEL_BYTES];
	uint32_t unit_crc[CHUNK_UNITS_MAX];
	/* the last len % 4096 bytes of the chunk, which do not fill a page */
	uint8_t tail[CHUNK_PAGE_BYTES];
};

static inline uint64_t chunk_unit_bytes(const struct chunk_head *h)
{
	return UINT64_C(1) << h->unit_log2;
}

static inline uint64_t chunk_units(const struct chunk_head *h)
{
	return (h->len + chunk_unit_bytes(h) - 1) >> h->unit_log2;
}

/* Returns how many bytes of a chunk are in the data part of its file; the rest is in the tail. */
static inline uint64_t chunk_paged(uint64_t len)
{
	return len / CHUNK_PAGE_BYTES * CHUNK_PAGE_BYTES;
}

void chunk_head_stat(const struct chunk_head *h, struct chunk_stat *out);

/* Returns the smallest unit size, as log2, for a chunk of this capacity (<= STORE_CHUNK_MAX). */
uint32_t chunk_unit_log2_for(uint64_t capacity);

/* Writes the head and tail of *h to out, with checksums and padding: all bytes of a slot. */
void chunk_slot_encode(const struct chunk_head *h, uint8_t out[CHUNK_SLOT_BYTES]);

/*
 * Decodes a slot to *h. -EBADMSG for bytes that are no valid slot, -EOPNOTSUPP when the version is
 * unknown.
 */
int chunk_slot_decode(const uint8_t in[CHUNK_SLOT_BYTES], struct chunk_head *h);

/* Returns the slot (0 or 1) that holds the state with this number. */
static inline unsigned chunk_slot_of(uint64_t seq)
{
	return (unsigned)(seq % 2);
}

/* The states that the two slots of a chunk file hold, decoded and compared. */
struct chunk_slots {
	bool settled;   /* both slots hold the same state */
	bool has_older; /* `older` is the previous state, to which the chunk can be rolled back */
	struct chunk_head *newest; /* one of the two heads given to chunk_slots_decode */
	struct chunk_head *older;
};

/*
 * Decodes the first CHUNK_SLOTS_BYTES of a chunk file into the caller's two heads. -EBADMSG when
 * both slots are damaged or the file is not this chunk on this disk, -EOPNOTSUPP when the version
 * is unknown.
 */
int chunk_slots_decode(const uint8_t *bytes, size_t len, struct chunk_id id, uint64_t disk,
		       struct chunk_head heads[2], struct chunk_slots *out);

/* --- names ------------------------------------------------------------------------------------ */

#define CHUNK_NAME_BYTES 26 /* bytes of a name, with the terminating NUL */

void chunk_name_print(struct chunk_id id, char out[CHUNK_NAME_BYTES]);
/* Parses the file name of a chunk. -EINVAL for a name that chunk_name_print does not produce. */
int chunk_name_parse(const char *name, struct chunk_id *id);
/* Returns the number of the chunk's directory, below 2^fan_bits. */
uint32_t chunk_fan(struct chunk_id id, uint32_t fan_bits);

#endif
