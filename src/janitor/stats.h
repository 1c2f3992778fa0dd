// SPDX-License-Identifier: Apache-2.0
/*
 * What is stored, and where: counted from the records of all blocks, a share of the partitions at a time by
 * whoever holds its lease (survey.c), and kept as notes in the metadata. So anybody can add them up, and what
 * they show is as old as the oldest part.
 *
 *   "stats/SHARE"       the numbers of a share
 *   "held/SHARE/PART"   bytes and chunks of each disk that the share's blocks have there
 *
 * Copysets are counted by a sketch (HyperLogLog with 1024 registers, right within some 3%), because sketches of
 * shares can be joined and sets of sets cannot.
 *
 * How full a disk is, is what the records put there, for each byte of its capacity times its weight: the
 * proportion in which cluster_choose gives out chunks. What else lies on the filesystem does not count.
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
	uint64_t taken_ns; /* wall clock of the oldest part; 0: nothing was counted yet */
	uint64_t parts;    /* shares that were counted */
	uint64_t blocks;   /* sealed ones */
	uint64_t open_blocks, pending_blocks;
	uint64_t bytes;  /* of sealed blocks */
	uint64_t owned;  /* of them in files; the rest waits for compaction */
	uint64_t stored; /* with redundancy */
	uint64_t missing_chunks, damaged_chunks;
	uint64_t degraded_blocks, unreachable_blocks, lost_blocks; /* health.c; each in one */
	uint64_t crowded; /* blocks with more chunks in one rack than evenness asks for */
	uint8_t sketch[STATS_SKETCH];
	struct map held; /* disk -> struct stats_disk */
};

void stats_init(struct stats *s);
void stats_fini(struct stats *s);

/* Adds a block. racks: that take chunks. -ENOMEM. */
int stats_block(struct stats *s, const struct cluster *c, uint32_t racks,
		const struct meta_block_at *b);
/* Racks with a disk that is online. */
uint32_t stats_racks(const struct cluster *c);

/* Writes a share's. The errors of notes; -EBUSY: another writes the same. */
int stats_save(struct meta_call *m, unsigned share, const struct stats *s);
/* The sum of all shares, to an empty one. */
int stats_load(struct meta_call *m, struct stats *out);

/* A note of either kind added: its text may be anything. What does not read counts for nothing, until it is written
 * anew; sums end at INT64_MAX. -ENOMEM, also for more disks than a map may have. */
void stats_add_numbers(struct stats *s, const char *text);
int stats_add_disks(struct stats *s, const char *text);

/* Distinct sets of disks that hold a block, about. */
double stats_copysets(const struct stats *s);

/* Bytes that a disk should hold, measured against other disks. */
double stats_share(const struct cluster_disk *d);
/* Bytes of each byte that the disk should hold; < 0: it takes nothing. */
double stats_fill(const struct stats *s, const struct cluster_disk *d);

struct stats_balance {
	double mean;      /* fill of all disks that are online, together */
	double deviation; /* standard, of theirs, as a part of the mean */
	double most, least;
	uint64_t fullest, emptiest; /* disks; 0: none */
};
void stats_balance(const struct stats *s, const struct cluster *c, struct stats_balance *out);

#endif
