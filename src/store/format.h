// SPDX-License-Identifier: Apache-2.0
/*
 * The bytes on a disk: superblock and chunk files. Pure functions; README.md has the layout byte by
 * byte, format.c what must hold.
 */
#ifndef STORE_FORMAT_H
#define STORE_FORMAT_H

#include "store/store.h"

#define FORMAT_VERSION 1

/* --- superblock ------------------------------------------------------------------------------- */

#define SUPER_COPY_BYTES 4096
#define SUPER_BYTES 8192 /* two copies */
#define SUPER_FAN_BITS_MAX 12

/* Who a disk belongs to. */
struct super {
	uint64_t cluster[2];
	uint64_t node;
	uint64_t disk;
	uint64_t created_wall_ns;
	uint32_t fan_bits; /* chunks are spread over 2^fan_bits directories */
};

/* Both copies. */
void super_encode(const struct super *sb, uint8_t out[SUPER_BYTES]);

/* From the first good copy; *good says how many are. -EBADMSG when none is, -EOPNOTSUPP when it is
 * of a version we do not know. */
int super_decode(const uint8_t *bytes, size_t len, struct super *sb, int *good);

/* --- chunk files ------------------------------------------------------------------------------ */

#define CHUNK_PAGE_BYTES 4096
#define CHUNK_SLOT_BYTES 8192   /* head and tail */
#define CHUNK_SLOTS_BYTES 16384 /* both; the data follows */
#define CHUNK_UNITS_MAX 991
#define CHUNK_UNIT_LOG2_MIN 14
#define CHUNK_UNIT_LOG2_MAX 19

/* What a slot says: a state of the chunk. */
struct chunk_head {
	struct chunk_id id;
	uint64_t disk;
	uint64_t seq; /* of the state: 1 when put, one more with each append or seal */
	uint64_t epoch;
	uint64_t len;
	uint64_t prev_len; /* of the state before */
	uint64_t capacity;
	uint32_t crc; /* of [0, len) */
	uint32_t unit_log2;
	bool sealed;
	uint8_t label[STORE_LABEL_BYTES];
	uint32_t unit_crc[CHUNK_UNITS_MAX];
	uint8_t tail[CHUNK_PAGE_BYTES]; /* the last len % 4096 bytes */
};

static inline uint64_t chunk_unit_bytes(const struct chunk_head *h)
{
	return UINT64_C(1) << h->unit_log2;
}

static inline uint64_t chunk_units(const struct chunk_head *h)
{
	return (h->len + chunk_unit_bytes(h) - 1) >> h->unit_log2;
}

/* The bytes of a chunk that are in the data part of the file; the rest is the tail. */
static inline uint64_t chunk_paged(uint64_t len)
{
	return len / CHUNK_PAGE_BYTES * CHUNK_PAGE_BYTES;
}

void chunk_head_stat(const struct chunk_head *h, struct chunk_stat *out);

/* The smallest unit with which a chunk may grow to capacity <= STORE_CHUNK_MAX. */
uint32_t chunk_unit_log2_for(uint64_t capacity);

/* One slot, all of its bytes. */
void chunk_slot_encode(const struct chunk_head *h, uint8_t out[CHUNK_SLOT_BYTES]);

/* -EBADMSG when it is not a whole slot, -EOPNOTSUPP when of a version we do not know. */
int chunk_slot_decode(const uint8_t in[CHUNK_SLOT_BYTES], struct chunk_head *h);

/* Which slot the state with this number is written to. */
static inline unsigned chunk_slot_of(uint64_t seq)
{
	return (unsigned)(seq % 2);
}

/* What the two slots of a chunk file say together. */
struct chunk_slots {
	bool settled;              /* both say the same: nothing is open */
	bool has_older;            /* what to return to when the last change is torn */
	struct chunk_head *newest; /* one of the two given to chunk_slots_decode */
	struct chunk_head *older;
};

/*
 * Reads the first CHUNK_SLOTS_BYTES of a chunk file into two heads of the caller's. -EBADMSG when it
 * is no file of this chunk on this disk, or damaged in both slots; -EOPNOTSUPP.
 */
int chunk_slots_decode(const uint8_t *bytes, size_t len, struct chunk_id id, uint64_t disk,
		       struct chunk_head heads[2], struct chunk_slots *out);

/* --- names ------------------------------------------------------------------------------------ */

#define CHUNK_NAME_BYTES 26 /* with the NUL */

void chunk_name_print(struct chunk_id id, char out[CHUNK_NAME_BYTES]);
/* -EINVAL for anything that chunk_name_print does not write. */
int chunk_name_parse(const char *name, struct chunk_id *id);
/* The directory of a chunk, below 2^fan_bits. */
uint32_t chunk_fan(struct chunk_id id, uint32_t fan_bits);

#endif
