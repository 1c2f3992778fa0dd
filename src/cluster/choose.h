// SPDX-License-Identifier: Apache-2.0
/*
 * The choice of the disks that a block goes to.
 *
 * Copysets. A copyset is a set of disks that together hold a block. Few copysets make it unlikely that
 * several failed disks hold all chunks of some block; many copysets spread the load of a repair. There are
 * CLUSTER_SHUFFLES consistent shuffles of all disks: shuffle s orders them by hash(s, disk). The block's id
 * determines the shuffle, and the position in it at which the block's disks start. The block goes to the
 * next disks in this order; a disk is skipped if it shares a rack with a disk already taken, or accepts no
 * chunks at present:
 *
 *     shuffle 17:  ... d9 d4 [d71 d3 d12] d8 d20 ...        block -> 17, start d71; width 3
 *
 * So there is one copyset for each shuffle and start, at most CLUSTER_SHUFFLES x disks, for any number of
 * blocks. A disk has one position in each shuffle, so adding or removing it changes only the copysets around
 * this position. The start is the disk with the highest hash(block, disk) (rendezvous hashing), so it
 * changes only for blocks that start at the added or removed disk.
 *
 * Weight. A disk takes part in round(CLUSTER_SHUFFLES x weight / largest weight) of the shuffles, so
 * that it gets chunks in proportion to its weight; the disk's id determines in which shuffles. A disk that takes no
 * part in the block's shuffle is used only if the disks that take part are in too few distinct fault domains.
 *
 * Small clusters. With fewer racks than chunks, racks are used again, evenly; then nodes, evenly; a
 * disk never holds two chunks of a block. The choice reports how many racks and nodes it uses.
 *
 * Media. A block goes to disks of one media, and the choice ignores disks of other media: flash and disk have
 * separate weights, shuffles and copysets. Without disks of the wanted media the choice is empty, and the
 * caller decides what to do: README.md, "Media".
 *
 * MLEC. A column of a network stripe goes to a pool of the right local shape; each column is in another rack.
 * With a declustered network level, any racks can be used. With a clustered network level, racks in the order
 * of their ids form groups of kn+pn, the pools at the same position of a group form a network pool, and a
 * stripe lies in one network pool. (With fewer racks than columns there are no groups, and the choice is as
 * for a declustered level.)
 *
 * The result of cluster_choose depends on the map's records and the arguments only. It must never change:
 * another result for the same map would move data.
 */
#ifndef CLUSTER_CHOOSE_H
#define CLUSTER_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "code/encoding.h"

/* largest number of disks in a choice: the widest stripe and spare disks */
#define CLUSTER_CHOICE_MAX 320

struct cluster_want {
	struct encoding encoding;
	uint64_t block;
	enum cluster_media media; /* only disks of this media are candidates */
	/* number of spare disks to choose in addition to those of the chunks */
	uint32_t extra;
	/* Disks that must not be chosen, because they refused a chunk or are slow. */
	const uint64_t *excluded;
	size_t excluded_count;
	/*
	 * Disks that already hold a chunk of the block. The racks and nodes of these disks count as used, and the
	 * choice is shorter by the number of these disks. Set by repair, and by a writer that replaces a failed disk.
	 */
	const uint64_t *kept;
	size_t kept_count;
};

struct cluster_choice {
	uint64_t disk[CLUSTER_CHOICE_MAX];
	uint32_t count;
	uint32_t wanted; /* number of disks to choose: width - kept + extra */
	uint32_t width;  /* number of chunks of the block, or of columns of mlec */
	/* number of racks, and of nodes, that hold chunks of the block, without spare disks */
	uint32_t racks, nodes;
	uint32_t rack_most; /* largest number of the block's chunks in one rack */
	/* largest number of the block's chunks on one node; compare both with the encoding's tolerance */
	uint32_t node_most;
	uint32_t rack_eligible; /* number of racks with at least one eligible disk */
	uint32_t node_eligible; /* number of nodes with at least one eligible disk */
	/* number of disks that are online, of the wanted media and not excluded */
	uint32_t disk_eligible;
	bool network_pool; /* the disks are in one network pool of a clustered scheme */
};

/* Returns the number of disks that hold a block: its chunks, or the columns of mlec. */
uint32_t cluster_width(const struct encoding *e);
/* Returns how many of the cluster_width disks can fail, in any combination, without loss of data. */
uint32_t cluster_tolerance(const struct encoding *e);

/*
 * Chooses the disks of a block. Fills choice unless it returns -EINVAL (an argument is out of range) or
 * -ENOMEM. -ENOSPC: there are fewer disks than the block needs. Missing spare disks are no error.
 */
int cluster_choose(struct cluster *c, const struct cluster_want *want,
		   struct cluster_choice *choice);

/*
 * The spread of a block over racks. A block survives the loss of a rack if no rack holds more of its chunks
 * than the code tolerates to lose. The spread is computed from all disks of the map that are not gone, whatever
 * their present state: while a rack is offline, blocks are written to the other racks, and repair spreads them
 * later.
 *
 *     rs:4+2 in 2 racks of 3 disks: 3 + 3, but only 2 can be lost: refused      in 3 racks: 2 + 2 + 2
 *
 * A block on flash must be as safe as on disk: flash in a single rack is refused if disks are in several racks.
 * Two spreads are accepted without this check: a cluster of one rack cannot spread chunks, and a code that
 * tolerates no loss gains nothing from spreading. Too few disks are no error here.
 */
struct cluster_spread {
	uint32_t width, tolerance;
	uint32_t racks; /* number of racks with disks for a block of this encoding and media */
	/* for a block on flash: the number of racks with suitable disks if the block were on disk */
	uint32_t racks_on_disk;
	/* Number of chunks in the rack with the most chunks, if they are spread evenly; 0: there are too few disks */
	uint32_t rack_most;
};

/* Computes the spread of blocks with the encoding and media of `want`. -EINVAL, -ENOMEM. */
int cluster_spread(struct cluster *c, const struct cluster_want *want, struct cluster_spread *out);
/* Returns whether blocks may be written with this spread. */
bool cluster_spread_accepted(const struct cluster_spread *s);
/*
 * Names encodings that a cluster can bear, for texts that refuse another one: up to CLUSTER_FITTING of those that are tried,
 * the ones with least overhead first; "" if none fits. accepts(ctx, e): whether blocks of the encoding may be written.
 */
#define CLUSTER_FITTING 2
#define CLUSTER_FITTING_TEXT 40
void cluster_fitting(char out[CLUSTER_FITTING_TEXT],
		     bool (*accepts)(void *ctx, const struct encoding *e), void *ctx);
/* The same for the disks of a map that accept blocks of this media now. */
void cluster_fitting_now(char out[CLUSTER_FITTING_TEXT], struct cluster *c,
			 enum cluster_media media);
/* Returns the value of rack_most for racks with the numbers of disks disks[0..racks). */
uint32_t cluster_rack_most(const uint32_t *disks, size_t racks, uint32_t width);

#endif
