// SPDX-License-Identifier: Apache-2.0
/*
 * Internals of the engine on RocksDB. Layout of the database, which has one key space:
 *
 *   key                                             value
 *   0x00                                            the format record (format.h)
 *   partition, 8 bytes big-endian; then the key     the value, unchanged
 *
 * Big-endian numbers make partition P one range of keys, [P, P+1). The format's key has one byte, so it comes
 * before all partitions and lies in no partition's range.
 *
 * Threads. RocksDB blocks, so synced commits, scans, and reads that miss its caches run on offload threads. Reads run
 * on any loop of the process (kv_share), commits on the loop of the store. Slots, versions and row caches are divided
 * into shards, each with a lock that is held for a few instructions, never over a call of RocksDB. The fields of struct
 * rocks note what guards them.
 *
 * Versions. A partition's version is RocksDB's sequence number after the last commit that wrote to the
 * partition. Versions live in memory, in a table of slots that partitions share by hash. At open every slot gets
 * the present sequence number, which is larger than all earlier ones. Sharing and restarts therefore change a
 * version without need (promise 5 of kv.h allows that), but never keep one that must change. A read takes the
 * version before it reads; a commit changes it after its write and before the next commit of its lane checks
 * it. Both may return a version older than the data, never a newer one.
 *
 * The row cache (row_cache.h) is searched before RocksDB. Each of its rows equals RocksDB's, and no commit under
 * way changes it:
 *
 *  1. Before a commit goes to its thread it drops the rows that it writes and marks their slots as being
 *     written, until it has ended. Each mark counts as a begin of the slot. If the commit fails, the slots stay marked.
 *  2. A row that was read enters the cache only if its slot is not being written and no commit to the slot began
 *     since the read did.
 *
 * So no reader gets an old row from the cache after another reader got the new one from RocksDB. If no commit to the
 * slot began during a read, no row of the cache changed during it, so rows of the cache and rows that RocksDB returns
 * for one instant together show that instant.
 */
#ifndef KV_ROCKS_H
#define KV_ROCKS_H

#include <rocksdb/c.h>

#include <pthread.h>
#include <stdatomic.h>

#include "kv/queue.h"

/*
 * Number of lanes. With two, one lane could evaluate checks during the sync of the other. But an operation that
 * sends transactions to two partitions at once, such as the creation of a file, would wait for two syncs in
 * sequence.
 */
#define ROCKS_LANES 1
#define ROCKS_VERSION_SLOTS 65536
#define ROCKS_SHARDS_MAX 64
#define ROCKS_SHARD_ROWS \
	(4 * MIB) /* least memory of a shard's row cache, if there are several shards */
#define ROCKS_KEY_MAX (8 + KV_KEY_MAX)
#define ROCKS_TIER_MEMORY 1 /* RocksDB's kBlockCacheTier: fail instead of reading a file */

struct rocks;

/* A queue of commits that run one at a time. Each partition belongs to one lane. */
struct rocks_lane {
	struct rocks *rocks;
	struct kv_queue queue;
};

/* The slots with slot % shard_count = the index of the shard. */
struct rocks_shard {
	/* guards `rows`, and versions, writing and begins of the slots; no other lock is taken inside */
	pthread_mutex_t lock;
	struct row_cache *rows;
} __attribute__((aligned(64)));

struct rocks {
	struct kv base;
	/* Handles and options of RocksDB, constant from open to close, which any thread may use: */
	rocksdb_t *db;
	rocksdb_options_t *options;
	rocksdb_cache_t *cache;
	rocksdb_readoptions_t *read; /* options of reads that may read files, and so may block */
	/* options of reads that fail instead of reading a file */
	rocksdb_readoptions_t *read_cached;
	rocksdb_writeoptions_t *write_synced;
	/* options of commits that write the log without a sync */
	rocksdb_writeoptions_t *write_early;
	/* options as write_early, but the write fails instead of waiting */
	rocksdb_writeoptions_t *write_now;
	char *dir;
	/* Fields that only the loop uses: */
	struct rt_loop *loop;
	struct rocks_lane lanes[ROCKS_LANES];
	/* error of the first failed write to the log, after which no write is tried; 0: none. Only the loop sets it. */
	atomic_int write_error;
	/* Fields of all loops; the locks of the shards guard the slots. */
	struct rocks_shard shards[ROCKS_SHARDS_MAX];
	size_t shard_count;
	/* 1: a commit that is under way, or that failed, writes to the slot */
	uint8_t writing[ROCKS_VERSION_SLOTS];
	uint32_t begins[ROCKS_VERSION_SLOTS]; /* number of commits to the slot that have begun */
	/*
	 * Versions of the partitions. The loop writes a slot only while no commit of its lane is
	 * under way, because the thread of a commit reads the slots of its lane without the lock.
	 */
	uint64_t versions[ROCKS_VERSION_SLOTS];
};

static inline struct rocks *rocks_of(struct kv *kv)
{
	return container_of(kv, struct rocks, base);
}

/* Returns the version slot of a partition; its lane is slot % ROCKS_LANES. */
static inline size_t rocks_slot(uint64_t partition)
{
	return (size_t)(partition * 0x9e3779b97f4a7c15ULL >> 48) % ROCKS_VERSION_SLOTS;
}

static inline struct rocks_shard *rocks_shard(struct rocks *r, size_t slot)
{
	return &r->shards[slot % r->shard_count];
}

struct rocks_key {
	char bytes[ROCKS_KEY_MAX];
	size_t len;
};

/* Sets *out to the key in RocksDB of a partition's key; key may be empty. */
void rocks_key(struct rocks_key *out, uint64_t partition, struct kv_bytes key);

/*
 * Logs an error message of RocksDB as `event`, frees the message, and returns the error code for
 * it.
 */
int rocks_error(const struct rocks *r, const char *event, char *message);

/* As rocks_error, for a folder that need not be that of a store. */
int rocks_error_in(const char *dir, const char *event, char *message);

/* The backup function of struct kv_ops, in rocks_backup.c. */
int rocks_backup(struct kv *kv, const struct kv_backup_request *q, struct kv_backup *out);

/* Functions of struct kv_ops that are in rocks_read.c. */
int rocks_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
	      struct kv_rows *rows);
int rocks_scan(struct kv *kv, uint64_t partition, const struct kv_range *range,
	       struct kv_rows *rows);
int rocks_next_partition(struct kv *kv, uint64_t from, uint64_t end, uint64_t *next);

/*
 * Commits, in rocks_commit.c: the txn function of struct kv_ops, and set-up and end of its queues.
 */
int rocks_txn(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed);
void rocks_lanes_init(struct rocks *r, size_t txns_max);

#endif
