// SPDX-License-Identifier: Apache-2.0
/*
 * Which disks a block goes to.
 *
 * Copysets. A copyset is a set of disks that together hold a block. Few of them make it unlikely that
 * a handful of failed disks is all of one; many of them spread the load of a repair. There are
 * CLUSTER_SHUFFLES consistent shuffles of all disks: shuffle s orders them by hash(s, disk). A block's
 * id names its shuffle, and the place in it where its disks begin; they are the next ones along, with
 * those left out that share a rack with one already taken, or get no chunks now:
 *
 *     shuffle 17:  ... d9 d4 [d71 d3 d12] d8 d20 ...        block -> 17, start d71; width 3
 *
 * So there is one copyset for each shuffle and start, CLUSTER_SHUFFLES x disks at most, whatever the
 * number of blocks. A disk that comes or goes stands in one place of each shuffle, and changes the
 * sets around it only. The start is the disk with the highest hash(block, disk) (rendezvous), so it
 * too moves only for the blocks of the disk that came or went.
 *
 * Weight. A disk takes part in round(CLUSTER_SHUFFLES x weight / largest weight) of the shuffles, so
 * that it gets chunks in proportion; which of them is fixed by its id. Disks that do not take part
 * are used when the distinct domains would not suffice otherwise.
 *
 * Small clusters. With fewer racks than chunks, racks are used again, evenly; then nodes, evenly; a
 * disk never holds two chunks of a block. The choice says how many domains it came to.
 *
 * Media. A block goes to disks of one media, and the choice looks at no others: weights, shuffles and
 * copysets of flash and of disk are apart. Without disks of that media the choice is empty. What becomes
 * of a block then is for the caller: README.md, "Media".
 *
 * MLEC. A column of a network stripe goes to a pool of the right local shape; racks differ. Where the
 * network level is declustered, any racks do. Where it is clustered, racks in the order of their
 * numbers form groups of kn+pn, and the pools at the same position of a group are a network pool: a
 * stripe lies in one of those. (With fewer racks than columns there are no groups: as declustered.)
 *
 * cluster_choose is a function of the map's records and its arguments alone, and its results are
 * stable: a change of them would move data.
 */
#ifndef CLUSTER_CHOOSE_H
#define CLUSTER_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "code/encoding.h"

#define CLUSTER_CHOICE_MAX 320 /* the widest stripe, and disks to spare */

struct cluster_want {
	struct encoding encoding;
	uint64_t block;
	enum cluster_media media; /* only disks of this media are candidates */
	uint32_t extra;           /* disks to spare, after those of the chunks */
	/* Get nothing: disks that refused, or are slow. */
	const uint64_t *excluded;
	size_t excluded_count;
	/*
	 * Hold chunks of the block already: their domains count as used, and so many fewer are
	 * chosen. For repairs, and for a writer whose disk failed.
	 */
	const uint64_t *kept;
	size_t kept_count;
};

struct cluster_choice {
	uint64_t disk[CLUSTER_CHOICE_MAX];
	uint32_t count;
	uint32_t wanted;        /* width - kept + extra */
	uint32_t width;         /* chunks of the block, or columns of mlec */
	uint32_t racks, nodes;  /* distinct, of the block's chunks (without those to spare) */
	uint32_t rack_most;     /* the most chunks of the block in one rack, and */
	uint32_t node_most;     /* on one node: compare with the encoding's tolerance */
	uint32_t rack_eligible; /* racks, nodes and disks that could have been chosen */
	uint32_t node_eligible;
	uint32_t disk_eligible;
	bool network_pool; /* a network pool of a clustered scheme */
};

/* How many disks hold a block: its chunks, or the columns of mlec. Any `tolerance` of them may be lost. */
uint32_t cluster_width(const struct encoding *e);
uint32_t cluster_tolerance(const struct encoding *e);

/*
 * Fills choice in any case but -EINVAL (impossible arguments) and -ENOMEM. -ENOSPC: fewer disks than
 * the block needs; disks to spare may be missing without an error.
 */
int cluster_choose(struct cluster *c, const struct cluster_want *want,
		   struct cluster_choice *choice);

/*
 * What the racks bear. A block is safe from the loss of a rack when none has more of its chunks than the code
 * bears the loss of. Whether that can be is judged by the disks in the map that are not gone, however they
 * fare now: while racks are away blocks are written to the others, and repair spreads them later.
 *
 *     rs:4+2 in 2 racks of 3 disks: 3 + 3, and 2 may be lost: refuse      in 3 racks: 2 + 2 + 2
 *
 * A block on flash must be as safe as on disk: flash in one rack alone is refused when disks are in several.
 * With one rack there is nothing to spread over, and a code that bears no loss gains nothing by it: both
 * are borne. Too few disks are not told here.
 */
struct cluster_spread {
	uint32_t width, tolerance;
	uint32_t racks;         /* with disks for such a block */
	uint32_t racks_on_disk; /* of a block on flash: racks with disks for it, were it on disk */
	uint32_t
		rack_most; /* chunks in the fullest of them, as evenly as can be; 0: too few disks */
};

/* Of the encoding and media of want. -EINVAL, -ENOMEM. */
int cluster_spread(struct cluster *c, const struct cluster_want *want, struct cluster_spread *out);
bool cluster_spread_bears(const struct cluster_spread *s);
/* rack_most of racks with so many disks each. */
uint32_t cluster_rack_most(const uint32_t *disks, size_t racks, uint32_t width);

#endif
