// SPDX-License-Identifier: Apache-2.0
/*
 * The degraded blocks that a round of repair has found: repair.c has the order of work.
 *
 * A round reads the metadata of a share once. With `look` it walks all Block records. In any case it
 * walks the rows of the reverse index (disk -> blocks) of the disks that are lost or to be emptied; it
 * reads the records of the blocks that they name and the first walk did not see, up to 64 in a request.
 * After a walk of all records these are only blocks whose record is unreadable, which that walk skips.
 * Blocks with an unreadable record are logged, counted and left out.
 *
 * The record that decided an item's place stays with the item and is handed to block_repair. It may be
 * out of date by then: the change of a record is refused if a chunk was released since (its release
 * count), and block_repair then reads the record again.
 *
 * Memory: at most list_max items (struct janitor_options) and RECORDS_BYTES_MAX of records. When
 * the list is full, the most degraded half stays; the next round finds the rest. Items beyond the
 * bytes for records have none and are read when their turn comes.
 */
#ifndef JANITOR_REPAIR_QUEUE_H
#define JANITOR_REPAIR_QUEUE_H

#include "janitor/impl.h"

#define RECORDS_BYTES_MAX ((size_t)(32 * MIB))
#define REPAIR_DISKS_MAX 64 /* disks whose progress is followed: the bits of repair_item.disks */

struct repair_item {
	uint64_t block;
	/* Bit d: the block has a chunk on disk d of the queue, which is lost or to be emptied. */
	uint64_t disks;
	/*
	 * Block record that was read in this round; NULL: the record is read when the block is
	 * repaired
	 */
	struct meta_block *record;
	uint32_t tenant;
	/* number of further chunk losses, whichever they are, that the block tolerates; -1:
	 * the block may be lost already */
	int more;
	uint8_t share; /* share of the partitions whose lease covers the block */
	bool taken;    /* a worker has taken the item */
	/* only for items in `found`: the walk of all records has already read the block's
	 * record */
	bool was_read;
};

struct repair_queue {
	struct janitor *j;
	struct repair_item *list;
	size_t count, cap;
	/* blocks of the share being walked that the reverse index lists */
	struct repair_item *found;
	size_t found_count, found_cap;
	size_t unreadable;   /* number of records that could not be read */
	size_t record_bytes; /* bytes of memory that the items' records take */
	uint64_t begin_ns;   /* time before the first record was read */
	uint64_t *disks;     /* ids of the disks that are lost or to be emptied */
	size_t disk_count;
	/* Number of blocks with a chunk on disk d in the shares that were walked, and number
	 * of these that were repaired in this round. */
	uint64_t blocks_on[REPAIR_DISKS_MAX];
	uint64_t repaired[REPAIR_DISKS_MAX];
};

/* Initializes the queue with the list of disks that are lost or to be emptied in the current
 * map. -ENOMEM. */
int repair_queue_init(struct repair_queue *q, struct janitor *j);
void repair_queue_fini(struct repair_queue *q);

/* Adds the degraded blocks of a share; look: by all records. An error of the metadata, or
 * -ENOMEM: some may have been added. */
int repair_queue_walk(struct repair_queue *q, unsigned share, bool look);
size_t repair_queue_count_share(const struct repair_queue *q, unsigned share);
/*
 * Merges items of the same block and sorts the items: blocks that tolerate the fewest further
 * losses come first.
 */
void repair_queue_sort(struct repair_queue *q);

/* Frees the item's record. */
void repair_queue_drop_record(struct repair_queue *q, struct repair_item *it);

#endif
