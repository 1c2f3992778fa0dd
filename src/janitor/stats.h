// SPDX-License-Identifier: Apache-2.0
/*
 * Counts of what is stored, and where: taken from the records of all blocks by the janitor that has the
 * lease of a share of the partitions (survey.c), and kept as notes in the metadata, which every process can
 * add up. A sum is as old as its oldest part.
 *
 *   "stats/SHARE"       the numbers of a share
 *   "held/SHARE/PART"   bytes and chunks that the share's blocks have on each disk
 *
 * Copysets are counted by a sketch (HyperLogLog with 1024 registers, error about 3%): sketches of shares can
 * be merged, plain counts of distinct sets cannot.
 *
 * The fill of a disk is the bytes that records place on it, per byte of its capacity times its weight: the
 * proportion in which cluster_choose assigns chunks. Other files on the filesystem are not counted.
 */
#ifndef JANITOR_STATS_H
#define JANITOR_STATS_H

#include "base/map.h"
#include "meta_client/meta_client.h"

#define STATS_SKETCH 1024

struct stats_disk {
	uint64_t bytes, chunks;
};

struct stats {
	uint64_t taken_ns; /* wall clock at which the oldest share was counted; 0: no survey yet */
	uint64_t parts;    /* number of shares whose counts are included */
	uint64_t blocks;   /* number of sealed blocks */
	uint64_t open_blocks, pending_blocks;
	uint64_t bytes;  /* length of all sealed blocks in bytes, without redundancy */
	uint64_t owned;  /* bytes of sealed blocks that files own; compaction frees the others */
	uint64_t stored; /* bytes of all chunks: data and redundancy */
	uint64_t missing_chunks, damaged_chunks;
	/* blocks by their state (health.c); a block is counted in at most one */
	uint64_t degraded_blocks, unreachable_blocks, lost_blocks;
	uint64_t crowded; /* blocks with more chunks in one rack than an even spread has */
	uint8_t sketch[STATS_SKETCH];
	struct map held; /* disk -> struct stats_disk */
};

void stats_init(struct stats *s);
void stats_fini(struct stats *s);

/* Adds a block to the counts. racks: number of racks that take chunks of its media. -ENOMEM. */
int stats_block(struct stats *s, const struct cluster *c, uint32_t racks,
		const struct meta_block_at *b);
/* Returns the number of racks with an online disk of the media. */
uint32_t stats_racks(const struct cluster *c, enum cluster_media media);

/* Writes the notes of a share. The errors of notes; -EBUSY: another janitor writes the same
 * notes. */
int stats_save(struct meta_call *m, unsigned share, const struct stats *s);
/* Adds the notes of all shares to s, which must be empty. */
int stats_load(struct meta_call *m, struct stats *out);

/* Adds a note of either kind, whose text may be anything. A note that cannot be parsed is skipped
 * until a janitor writes it again; sums stop at INT64_MAX. -ENOMEM, also for more disks than a map
 * may have. */
void stats_add_numbers(struct stats *s, const char *text);
int stats_add_disks(struct stats *s, const char *text);

/* Returns the estimated number of distinct sets of disks that hold a block. */
double stats_copysets(const struct stats *s);

/* Returns the share of a disk: its capacity times its weight. */
double stats_share(const struct cluster_disk *d);
/* Returns the fill of a disk: bytes held per byte of its share; < 0: the disk takes no chunks. */
double stats_fill(const struct stats *s, const struct cluster_disk *d);

/* How evenly the disks of one media are filled; each media has its own, because flash and
 * disks are filled independently. */
struct stats_balance {
	double mean;      /* fill of all online disks together */
	double deviation; /* standard deviation of their fill, as a part of the mean */
	double most, least;
	uint64_t fullest, emptiest; /* disk ids; 0: none */
};
void stats_balance(const struct stats *s, const struct cluster *c, enum cluster_media media,
		   struct stats_balance *out);
/* Returns the entry of `all`, which has one for each media, whose disks differ most in fill. */
const struct stats_balance *stats_worst(const struct stats_balance all[CLUSTER_MEDIA_COUNT]);

#endif
