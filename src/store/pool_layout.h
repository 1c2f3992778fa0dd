// SPDX-License-Identifier: Apache-2.0
/*
 * Where the bytes of a pool's chunks are: rows and pieces, members, and the records that say what
 * became of members. Pure functions; README.md has the layout of label and record byte by byte.
 */
#ifndef STORE_POOL_LAYOUT_H
#define STORE_POOL_LAYOUT_H

#include "store/pool.h"

/* --- rows and pieces of a coded chunk --------------------------------------------------------- */

struct pool_geo {
	uint32_t k;
	uint32_t p;
	uint64_t piece;
	uint64_t len;        /* of the chunk */
	uint64_t stripes;    /* the last may be short */
	uint64_t last_piece; /* bytes of a row in the last stripe, with what fills it up */
	uint64_t row_len;
};

/* A place of the chunk: a row, an offset in it, and how far the bytes run on there. */
struct pool_position {
	uint32_t row;
	uint64_t row_off;
	uint64_t run;
};

void pool_geo_init(struct pool_geo *g, uint32_t k, uint32_t p, uint64_t piece, uint64_t len);
/* off < len. */
struct pool_position pool_geo_position(const struct pool_geo *g, uint64_t off);
/* Bytes of a row in a stripe. */
uint64_t pool_geo_piece(const struct pool_geo *g, uint64_t stripe);
/* The bytes of the chunk that a data row has of a stripe. */
struct store_range pool_geo_bytes(const struct pool_geo *g, uint64_t stripe, uint32_t row);
/* The piece size for a chunk: the pool's, or larger so that a row has at most a thousand pieces. */
uint64_t pool_piece_for(uint64_t pool_piece, uint32_t k, uint64_t len);

/* --- the label of rows and copies ------------------------------------------------------------- */

struct pool_label {
	bool copy;     /* of an open chunk, else a row of a coded one */
	bool was_open; /* a row: there were copies before */
	uint32_t row;
	uint32_t k;
	uint32_t p;
	uint64_t piece;
	uint32_t crc; /* of the chunk; 0 for copies */
	uint64_t len; /* of the chunk; 0 for copies */
	uint64_t pool;
};

void pool_label_encode(const struct pool_label *l, uint8_t out[STORE_LABEL_BYTES]);
/* -EBADMSG when it is no label of a pool. */
int pool_label_decode(const uint8_t in[STORE_LABEL_BYTES], struct pool_label *l);

/* What a member calls a row, or a copy (row = POOL_ROWS_MAX + copy). */
static inline struct chunk_id pool_row_id(struct chunk_id id, uint32_t row)
{
	return (struct chunk_id){.block = id.block, .index = id.index << 8 | row};
}

/* --- the record of a pool --------------------------------------------------------------------- */

#define POOL_EVENTS_MAX 1000
#define POOL_RECORD_BYTES 4096
#define POOL_RECORD_BLOCK UINT64_MAX

/* In the order in which they happened. */
struct pool_event {
	uint16_t member;
	bool replaced; /* by an empty store; else given up */
};

struct pool_record {
	struct store_pool_shape shape;
	uint64_t generation; /* the highest is the one that counts */
	uint32_t member;     /* who keeps this copy */
	uint32_t event_count;
	uint32_t settled; /* events up to here have been rebuilt: rows are where they sent them */
	struct pool_event events[POOL_EVENTS_MAX];
	/* 0, or the order in which members missed a change of copies: the higher, the later. */
	uint16_t behind[POOL_MEMBERS_MAX];
	uint8_t due[POOL_MEMBERS_MAX / 8]; /* a bit for each member that may lack rows */
};

static inline bool pool_is_behind(const struct pool_record *r, uint32_t member)
{
	return member < POOL_MEMBERS_MAX && r->behind[member] != 0;
}

static inline bool pool_is_due(const struct pool_record *r, uint32_t member)
{
	return (r->due[member / 8] >> (member % 8) & 1) != 0;
}

/*
 * How much a member knows of chunks in copies: POOL_RANK_UP_TO_DATE when it is level, else the order in which
 * it fell behind; 0 for POOL_NOWHERE.
 */
#define POOL_RANK_UP_TO_DATE UINT32_MAX
static inline uint32_t pool_member_rank(const struct pool_record *r, uint32_t member)
{
	if (member >= POOL_MEMBERS_MAX)
		return 0;
	return r->behind[member] != 0 ? r->behind[member] : POOL_RANK_UP_TO_DATE;
}

/* Marks members that are level as behind, later than all others; those that are behind stay so. */
void pool_record_fall_behind(struct pool_record *r, const uint16_t *members, uint32_t n);
/* Marks a member as behind, before all others: it was out of the pool. */
void pool_record_fall_first(struct pool_record *r, uint32_t member);
/* Do two members say the same of the pool? */
bool pool_record_equal(const struct pool_record *a, const struct pool_record *b);

void pool_record_encode(const struct pool_record *r, uint8_t out[POOL_RECORD_BYTES]);
int pool_record_decode(const uint8_t *in, size_t len, struct pool_record *r);
bool pool_shape_equal(const struct store_pool_shape *a, const struct store_pool_shape *b);

/* --- members of a chunk ----------------------------------------------------------------------- */

#define POOL_NOWHERE UINT16_MAX

struct pool_map {
	uint16_t member[POOL_ROWS_MAX]; /* POOL_NOWHERE: the row has no place now */
	bool moved[POOL_ROWS_MAX]; /* an event not settled sent it there: it may be missing yet */
};

/* Fails as place_init does. The shape is the record's own, and checked. */
int pool_place_init(struct place *place, const struct store_pool_shape *shape, char *why,
		    size_t why_size);
void pool_map_chunk(const struct place *place, const struct pool_record *r, struct chunk_id id,
		    struct pool_map *out);

#endif
