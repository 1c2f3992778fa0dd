// SPDX-License-Identifier: Apache-2.0
/*
 * Computes where the bytes of a pool's chunks are stored: rows and pieces, the members that hold them, and
 * the pool record, which lists the changes of membership. Pure functions; README.md specifies
 * labels and records byte by byte.
 */
#ifndef STORE_POOL_LAYOUT_H
#define STORE_POOL_LAYOUT_H

#include <assert.h>

#include "code/place.h"
#include "store/pool.h"

/* --- rows and pieces of a coded chunk --------------------------------------------------------- */

struct pool_geo {
	uint32_t k;
	uint32_t p;
	uint64_t piece;
	uint64_t len;        /* length of the chunk in bytes */
	uint64_t stripes;    /* number of stripes; the last may be short */
	uint64_t last_piece; /* bytes of a row in the last stripe, padding included */
	uint64_t row_len;
};

/* A position in a chunk: row, offset in the row, and the number of bytes that follow there. */
struct pool_position {
	uint32_t row;
	uint64_t row_off;
	uint64_t run;
};

void pool_geo_init(struct pool_geo *g, uint32_t k, uint32_t p, uint64_t piece, uint64_t len);
/* Returns where byte off of the chunk is. off < len. */
struct pool_position pool_geo_position(const struct pool_geo *g, uint64_t off);
/* Returns how many bytes each row has in a stripe, padding included. */
uint64_t pool_geo_piece(const struct pool_geo *g, uint64_t stripe);
/* Returns the range of the chunk that a data row has in a stripe. */
struct store_range pool_geo_bytes(const struct pool_geo *g, uint64_t stripe, uint32_t row);
/*
 * Returns the piece size for a chunk of len bytes: the pool's, or larger so that a row has at most
 * 1000 pieces.
 */
uint64_t pool_piece_for(uint64_t pool_piece, uint32_t k, uint64_t len);

/* --- the label of rows and copies ------------------------------------------------------------- */

struct pool_label {
	bool copy;     /* true: a copy of an open chunk; false: a row of a coded chunk */
	bool was_open; /* only of a row: the chunk was open before it was coded */
	uint32_t row;
	uint32_t k;
	uint32_t p;
	uint64_t piece;
	uint32_t crc; /* CRC of the chunk; 0 for copies */
	uint64_t len; /* length of the chunk in bytes; 0 for copies */
	uint64_t pool;
};

void pool_label_encode(const struct pool_label *l, uint8_t out[STORE_LABEL_BYTES]);
/* Decodes the label of a row or copy. -EBADMSG for bytes that are not a valid pool label. */
int pool_label_decode(const uint8_t in[STORE_LABEL_BYTES], struct pool_label *l);

/* Returns the id under which a member keeps a row, or a copy (row = POOL_ROWS_MAX + copy). */
static inline struct chunk_id pool_row_id(struct chunk_id id, uint32_t row)
{
	assert(row < 256 && id.index <= POOL_INDEX_MAX);
	return (struct chunk_id){.block = id.block, .index = id.index << 8 | row};
}

/* --- the record of a pool --------------------------------------------------------------------- */

#define POOL_EVENTS_MAX 1000
#define POOL_RECORD_BYTES 4096
#define POOL_RECORD_BLOCK UINT64_MAX

/* A change of membership. The record keeps events in the order in which they happened. */
struct pool_event {
	uint16_t member;
	bool replaced; /* true: the member was replaced or returned; false: it was given up */
};

struct pool_record {
	struct store_pool_shape shape;
	/* number of this record: the record with the highest generation is current */
	uint64_t generation;
	uint32_t member; /* the member that keeps this copy of the record */
	uint32_t event_count;
	uint32_t settled; /* number of leading events whose moved rows have been rebuilt */
	struct pool_event events[POOL_EVENTS_MAX];
	/*
	 * 0: the member is up to date; else its rank among the members that are behind: a higher
	 * rank fell behind later.
	 */
	uint16_t behind[POOL_MEMBERS_MAX];
	uint8_t due[POOL_MEMBERS_MAX / 8]; /* one bit per member that may lack rows */
};

static inline bool pool_is_behind(const struct pool_record *r, uint32_t member)
{
	return member < POOL_MEMBERS_MAX && r->behind[member] != 0;
}

static inline bool pool_is_due(const struct pool_record *r, uint32_t member)
{
	assert(member < POOL_MEMBERS_MAX);
	return (r->due[member / 8] >> (member % 8) & 1) != 0;
}

/*
 * Returns how recent the copies on a member are: POOL_RANK_UP_TO_DATE, or, if the member is behind,
 * its rank (higher: it fell behind later); 0 for POOL_NOWHERE. Copies on the members with the
 * highest rank are authoritative.
 */
#define POOL_RANK_UP_TO_DATE UINT32_MAX
static inline uint32_t pool_member_rank(const struct pool_record *r, uint32_t member)
{
	if (member >= POOL_MEMBERS_MAX)
		return 0;
	return r->behind[member] != 0 ? r->behind[member] : POOL_RANK_UP_TO_DATE;
}

/*
 * Records up-to-date members as behind, with a higher rank than all members that are behind
 * already. Members that are behind already keep their rank.
 */
void pool_record_set_behind(struct pool_record *r, const uint16_t *members, uint32_t n);
/*
 * Records a member as behind with the lowest rank, because it was not part of the pool for some
 * time.
 */
void pool_record_set_behind_first(struct pool_record *r, uint32_t member);
/* Returns whether two pool records describe the same state. Ignores which member keeps them. */
bool pool_record_equal(const struct pool_record *a, const struct pool_record *b);

void pool_record_encode(const struct pool_record *r, uint8_t out[POOL_RECORD_BYTES]);
int pool_record_decode(const uint8_t *in, size_t len, struct pool_record *r);
bool pool_shape_equal(const struct store_pool_shape *a, const struct store_pool_shape *b);

/* --- members of a chunk ----------------------------------------------------------------------- */

#define POOL_NOWHERE UINT16_MAX

struct pool_map {
	/* the member that should have the row now; POOL_NOWHERE: no member should */
	uint16_t member[POOL_ROWS_MAX];
	/*
	 * True if an event assigned the row to this member and its rows are not all rebuilt yet:
	 * the row may be missing.
	 */
	bool moved[POOL_ROWS_MAX];
};

/*
 * Computes the placement of a pool whose shape the caller has checked. Returns the errors of
 * place_init.
 */
int pool_place_init(struct place *place, const struct store_pool_shape *shape, char *why,
		    size_t why_size);
void pool_map_chunk(const struct place *place, const struct pool_record *r, struct chunk_id id,
		    struct pool_map *out);

#endif
