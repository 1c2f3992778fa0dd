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
 * Everything is computed from the numbers in struct layout_spec: nothing is stored per stripe, and
 * a lookup costs O(1) for a chunk and O(width) for a stripe. The same spec gives the same layout on
 * every machine and in every version. Slots above the disk's `slots` are spare space for repair.
 */
#ifndef CODE_LAYOUT_H
#define CODE_LAYOUT_H

#include "code/encoding.h"
#include "code/place.h"

#define LAYOUT_WHY_MAX 192 /* bytes, enough for any refusal message */
#define LAYOUT_POOL_DISKS_MAX PLACE_SCAN_MAX

struct layout_spec {
	struct rs_shape net, local; /* 1+0 means no code on this level */
	enum place_kind net_place, local_place;
	uint32_t racks;
	uint32_t enclosures; /* number of enclosures of a rack */
	uint32_t disks;      /* number of disks of an enclosure */
	/*
	 * disks of a local pool; 0: the stripe width when clustered, else all disks of the
	 * enclosure
	 */
	uint32_t pool_disks;
	uint64_t slots; /* number of chunk slots of a disk */
	uint64_t seed;
	bool lrc; /* the code is an LRC, for which failure classes and repair plans are refused */
};

struct layout {
	struct layout_spec spec;
	struct place net, local;
	/* number of columns of a network stripe, and of rows of a local stripe */
	uint32_t columns, rows;
	uint32_t pool_disks;
	uint32_t enclosure_pools, rack_pools, pools;
	uint32_t disks;
	uint64_t stripes; /* number of network stripes */
};

/*
 * Where a chunk is stored. `disk` is the number of the disk in the system, `bay` its number in the
 * enclosure.
 */
struct layout_location {
	uint32_t rack, enclosure, bay;
	uint32_t disk;
	uint64_t slot;
};

/*
 * The identity of a chunk (network stripe, column, row), and the number of the local stripe that is
 * the column.
 */
struct layout_ref {
	uint64_t stripe;
	uint32_t column, row;
	uint32_t pool;
	uint64_t local_stripe;
};

/*
 * Sets the shapes and placements for an encoding and a scheme: "c/d" for mlec; "d/-" or "-/d" (with
 * c, d or s) for codes of one level. Returns 0, -EILSEQ for a scheme that is not of these forms, or
 * -EINVAL for a scheme that does not fit the encoding, with the reason in `why`. An LRC gets the
 * shape k + (groups + globals), since layouts need only its width, and spec->lrc: functions that
 * depend on the code refuse it (failure.h).
 */
int layout_spec_code(struct layout_spec *spec, const struct encoding *e, const char *scheme,
		     char *why, size_t why_size);

/* Writes the scheme of a spec ("c/d", "d/-", ...) into text. */
void layout_scheme_print(const struct layout_spec *spec, char text[4]);

/*
 * Computes the layout of a spec. Returns 0, -ENOMEM, or -EINVAL or -EOVERFLOW for impossible
 * numbers, with the reason in `why`. A layout owns no memory.
 */
int layout_init(struct layout *l, const struct layout_spec *spec, char *why, size_t why_size);

/*
 * Finds the location of a chunk. Returns 0, or -ERANGE when the stripe, column or row does not
 * exist.
 */
int layout_locate(const struct layout *l, uint64_t stripe, uint32_t column, uint32_t row,
		  struct layout_location *location);

/*
 * Finds the locations of all columns * rows chunks of a stripe, rows of column 0 first. Returns 0,
 * or -ERANGE when the stripe does not exist.
 */
int layout_locate_all(const struct layout *l, uint64_t stripe, struct layout_location *locations);

/*
 * Finds the chunk in a slot. Returns 0, -ERANGE outside the system, or -ENOENT when the slot is not
 * used.
 */
int layout_find(const struct layout *l, uint32_t disk, uint64_t slot, struct layout_ref *ref);

/*
 * The column that a local stripe is. This and the functions below are for failure classes and
 * repair planners, which guarantee that arguments are in range.
 */

struct layout_column {
	uint32_t rack, pool;
	uint64_t local_stripe;
};

void layout_column_at(const struct layout *l, uint64_t stripe, uint32_t column,
		      struct layout_column *at);
/*
 * Finds the network stripe and column of a local stripe. Returns false when the local stripe
 * belongs to no network stripe.
 */
bool layout_column_find(const struct layout *l, uint32_t pool, uint64_t local_stripe,
			uint64_t *stripe, uint32_t *column);
uint64_t layout_pool_key(const struct layout *l, uint32_t pool);
void layout_row_at(const struct layout *l, uint32_t pool, uint64_t local_stripe, uint32_t row,
		   struct layout_location *location);
/* Returns the row of the local stripe that disk `in_pool` of its pool holds, or -1. */
int layout_row_of(const struct layout *l, uint32_t pool, uint64_t local_stripe, uint32_t in_pool);

uint32_t layout_disk_pool(const struct layout *l, uint32_t disk);
uint32_t layout_disk_in_pool(const struct layout *l, uint32_t disk);
uint32_t layout_pool_disk(const struct layout *l, uint32_t pool, uint32_t in_pool);
uint32_t layout_disk_rack(const struct layout *l, uint32_t disk);

#endif
