// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the engine on RocksDB. Layout of the one key space:
 *
 *   key                                             value
 *   0x00                                            the format record (format.h)
 *   partition, 8 bytes big-endian; then the key     the value as it is
 *
 * Big-endian, so that a partition is one range, [P, P+1). The format's key of one byte comes before
 * all partitions and lies in none of their ranges.
 *
 * Threads. RocksDB blocks, so commits that are synced, scans and reads that miss its cache run on offload threads;
 * everything in struct rocks is read and written on the loop only, with the exceptions noted.
 *
 * Versions. A partition's version is the sequence number that RocksDB had after the last commit that
 * wrote to it. They are kept in memory, in a table of slots that partitions share by hash, and all
 * start with the sequence number at open, which is larger than any before: sharing and restarts make
 * versions change without need (allowed by rule 5 of kv.h), never stay when they should change. The
 * order is: a read takes the version before it reads; a commit changes it after the write and before
 * the next commit of its lane looks at it. Both err towards a version older than the data.
 *
 * Rows in memory (row_cache.h), in front of RocksDB's own memory. What is there is what RocksDB has, and no
 * commit under way changes it:
 *
 *  1. Before a commit is handed to its thread the rows that it writes are dropped, and their slots are
 *     marked as being written until it is done. If it fails they stay marked.
 *  2. A row that was read is put there only while its slot is not being written, and only when the slot's
 *     version is that from before the read: no commit to it has begun since that has not been seen.
 *
 * So a reader never gets the old row here after another got the new one from RocksDB. And as nothing
 * that is there changes while a read on the loop goes on, rows from here and rows that RocksDB gives at one
 * instant are together of that instant.
 */
#ifndef KV_ROCKS_H
#define KV_ROCKS_H

#include <rocksdb/c.h>

#include "kv/queue.h"
#include "kv/rocksdb.h"
#include "kv/row_cache.h"

/*
 * With two, one could evaluate checks while the sync of the other is under way; but what is sent at once to
 * two partitions, as the creation of a file is, would wait for two syncs one after the other.
 */
#define ROCKS_LANES 1
#define ROCKS_VERSION_SLOTS 65536
#define ROCKS_KEY_MAX (8 + KV_KEY_MAX)
#define ROCKS_TIER_MEMORY 1 /* RocksDB's kBlockCacheTier: fail instead of reading a file */

struct rocks;

/* Commits of one lane follow each other; a partition belongs to one lane. */
struct rocks_lane {
	struct rocks *rocks;
	struct kv_queue queue;
};

struct rocks {
	struct kv base;
	/* Fixed from open to close, and used from any thread: */
	rocksdb_t *db;
	rocksdb_options_t *options;
	rocksdb_cache_t *cache;
	rocksdb_readoptions_t *read;        /* may block */
	rocksdb_readoptions_t *read_cached; /* answers from memory or not at all */
	rocksdb_writeoptions_t *write_synced;
	rocksdb_writeoptions_t *write_early; /* in the log, and synced with what comes after it */
	rocksdb_writeoptions_t *write_now;   /* the same, or nothing when it would have to wait */
	char *dir;
	/* The loop's: */
	struct rocks_lane lanes[ROCKS_LANES];
	struct row_cache *rows;
	uint8_t writing[ROCKS_VERSION_SLOTS]; /* a commit under way writes to the slot */
	int write_error; /* the first that a write to the log met; none are tried after it */
	/* Written on the loop while no commit of the slot's lane is under way; such a commit reads it. */
	uint64_t versions[ROCKS_VERSION_SLOTS];
};

static inline struct rocks *rocks_of(struct kv *kv)
{
	return container_of(kv, struct rocks, base);
}

/* Slots are dealt to lanes: slot % ROCKS_LANES is the lane. */
static inline size_t rocks_slot(uint64_t partition)
{
	return (size_t)(partition * 0x9e3779b97f4a7c15ULL >> 48) % ROCKS_VERSION_SLOTS;
}

struct rocks_key {
	char bytes[ROCKS_KEY_MAX];
	size_t len;
};

void rocks_key(struct rocks_key *out, uint64_t partition, struct kv_bytes key);

/* Takes RocksDB's message, logs it under the event, and says what it means here. */
int rocks_error(const struct rocks *r, const char *event, char *message);

/* rocks_read.c */
int rocks_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
	      struct kv_rows *rows);
int rocks_scan(struct kv *kv, uint64_t partition, const struct kv_range *range,
	       struct kv_rows *rows);
int rocks_next_partition(struct kv *kv, uint64_t from, uint64_t end, uint64_t *next);

/* rocks_commit.c */
int rocks_txn(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed);
void rocks_lanes_init(struct rocks *r, size_t txns_max);

#endif
