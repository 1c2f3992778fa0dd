// SPDX-License-Identifier: Apache-2.0
/*
 * Layouts: which disk holds which chunk, for the six MLEC schemes c/c c/d c/s d/c d/d d/s and for
 * codes on one level only.
 *
 * The system is racks of enclosures of disks; a disk has `slots` slots of one chunk. An enclosure
 * is cut into local pools. A network stripe has net.k + net.p columns in different racks; a column
 * is a local stripe of one pool and has local.k + local.p rows, chunks on different disks of the
 * pool. A scheme names the placement of columns on pools, then of rows on disks: c clustered, d
 * declustered, s single-overlap declustered (see place.h). A code on one level is the same thing
 * with a local or network shape of 1+0, written with a dash: "d/-" has columns of one chunk, each
 * pool being one disk; "-/c" has network stripes of one column.
 *
 *   column -> (rack, pool, local stripe)     by the network placement
 *   row    -> (disk of the pool, slot)       by the local placement, keyed by the pool
 *
 * Everything is computed from the numbers in struct layout_spec: nothing is stored per stripe, a
 * lookup costs O(1) for a chunk and O(width) for a stripe, and the same spec gives the same layout
 * on every machine for ever. Slots above a disk's own count are spare space, which belongs to
 * repair.
 */
#ifndef CODE_LAYOUT_H
#define CODE_LAYOUT_H

#include "code/encoding.h"
#include "code/place.h"

#define LAYOUT_WHY_MAX 192 /* enough for any refusal message */
#define LAYOUT_POOL_DISKS_MAX PLACE_SCAN_MAX

struct layout_spec {
	struct rs_shape net, local; /* 1+0: no code on this level */
	enum place_kind net_place, local_place;
	uint32_t racks;
	uint32_t enclosures; /* of a rack */
	uint32_t disks;      /* of an enclosure */
	uint32_t pool_disks; /* 0: one stripe wide when clustered, else the whole enclosure */
	uint64_t slots;      /* chunks of a disk */
	uint64_t seed;
	bool lrc; /* some losses of p chunks are not survived: no failure classes or repair plans */
};

struct layout {
	struct layout_spec spec;
	struct place net, local;
	uint32_t columns, rows; /* chunks of a network stripe, of a local stripe */
	uint32_t pool_disks;
	uint32_t enclosure_pools, rack_pools, pools;
	uint32_t disks;
	uint64_t stripes; /* network stripes */
};

/* A place for a chunk. `disk` is the number in the whole system, `bay` that in the enclosure. */
struct layout_spot {
	uint32_t rack, enclosure, bay;
	uint32_t disk;
	uint64_t slot;
};

/* A chunk by its name: row of column of network stripe; and the local stripe it belongs to. */
struct layout_ref {
	uint64_t stripe;
	uint32_t column, row;
	uint32_t pool;
	uint64_t local_stripe;
};

/*
 * Sets the shapes and placements for an encoding and a scheme: "c/d" for mlec; "d/-" or "-/d" (with
 * c, d or s) for the others. -EILSEQ for a scheme that is not of these forms, -EINVAL for one that
 * does not fit the encoding; `why` says it. An LRC counts as k + (groups + globals) here, since
 * layouts need only its width, and is marked: what depends on the code refuses it (failure.h).
 */
int layout_spec_code(struct layout_spec *spec, const struct encoding *e, const char *scheme,
		     char *why, size_t why_size);

/* Writes "c/d", "d/-" ... into text. */
void layout_scheme_print(const struct layout_spec *spec, char text[4]);

/* 0; -EINVAL or -EOVERFLOW for impossible numbers, and `why` names them; -ENOMEM. */
int layout_init(struct layout *l, const struct layout_spec *spec, char *why, size_t why_size);

/* Where a chunk is. -ERANGE when there is no such stripe, column or row. */
int layout_locate(const struct layout *l, uint64_t stripe, uint32_t column, uint32_t row,
		  struct layout_spot *spot);

/* Where all chunks of a stripe are, rows of column 0 first: columns * rows spots. -ERANGE. */
int layout_locate_all(const struct layout *l, uint64_t stripe, struct layout_spot *spots);

/* Which chunk is in a slot. -ERANGE outside the system, -ENOENT when the slot is not used. */
int layout_find(const struct layout *l, uint32_t disk, uint64_t slot, struct layout_ref *ref);

/* All stripes of one disk, or all that two disks share, in the order of the first disk's slots. */
struct layout_iter {
	const struct layout *layout;
	uint32_t disk, other;
	uint64_t slot;
};

int layout_disk_stripes(const struct layout *l, uint32_t disk,
			struct layout_iter *it); /* -ERANGE */

/*
 * Disks of one pool share local stripes, disks of different racks network stripes. -ERANGE, -EINVAL
 * for the same disk twice. Costs O(1) per slot of the first disk.
 */
int layout_shared_stripes(const struct layout *l, uint32_t disk, uint32_t other,
			  struct layout_iter *it);

/* The next chunk on the first disk, and (unless NULL) that on the other; false at the end. */
bool layout_next(struct layout_iter *it, struct layout_ref *ref, struct layout_ref *other);

/* Parts that the failure classes and the repair planners are built from; arguments in range. */

struct layout_column {
	uint32_t rack, pool;
	uint64_t local_stripe;
};

void layout_column_at(const struct layout *l, uint64_t stripe, uint32_t column,
		      struct layout_column *at);
/* false: the local stripe belongs to no network stripe. */
bool layout_column_find(const struct layout *l, uint32_t pool, uint64_t local_stripe,
			uint64_t *stripe, uint32_t *column);
uint64_t layout_pool_key(const struct layout *l, uint32_t pool);
void layout_row_at(const struct layout *l, uint32_t pool, uint64_t local_stripe, uint32_t row,
		   struct layout_spot *spot);
/* The row of a local stripe that is on this disk of its pool, or -1. */
int layout_row_of(const struct layout *l, uint32_t pool, uint64_t local_stripe, uint32_t in_pool);

uint32_t layout_disk_pool(const struct layout *l, uint32_t disk);
uint32_t layout_disk_in_pool(const struct layout *l, uint32_t disk);
uint32_t layout_pool_disk(const struct layout *l, uint32_t pool, uint32_t in_pool);
uint32_t layout_disk_rack(const struct layout *l, uint32_t disk);

#endif
