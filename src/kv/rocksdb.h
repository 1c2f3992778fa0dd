// SPDX-License-Identifier: Apache-2.0
/*
 * The embedded engine: one folder, owned by one process, on RocksDB.
 *
 * A transaction is acknowledged when RocksDB's log with it has been synced; those that wait meanwhile
 * share the next sync. When a write to the log fails, its outcome is unknown until the store is
 * opened again, which takes a new process, and until then there are no further transactions (-EROFS):
 * a log whose sync failed once must not be trusted to sync later. Reads go on.
 */
#ifndef KV_ROCKSDB_H
#define KV_ROCKSDB_H

#include "kv/kv.h"

struct kv_rocksdb_options {
	const char *dir; /* made when missing, its parent is not */
	/*
	 * Half for rows, half for blocks, indexes and filters; 0: an eighth of the machine's memory, 256 MiB or
	 * more. What does not fit is read from tables, slower. A row takes about 40 bytes more than its key
	 * and value.
	 */
	uint64_t cache_bytes;
	uint64_t
		memtable_bytes; /* not yet in a table; bounds the log and a restart too; 0: 32 MiB */
	unsigned batch_txns_max; /* transactions per commit; 0: many. For measurements */
	/*
	 * A log that is damaged in its middle is refused with -EBADMSG, for what follows was
	 * acknowledged. With this it is cut off at the damage instead, and the rest is lost.
	 */
	bool salvage;
};

/*
 * Waits. -EBUSY: another process, or this one, has it open; -EBADMSG: damaged, or not ours (the log
 * says what); -EOPNOTSUPP: written by a later version; -ENOENT, -EACCES, -ENOSPC, -EIO, -ENOMEM.
 */
int kv_rocksdb_open(struct kv **out, const struct kv_rocksdb_options *options);

/*
 * Reads every byte of every table and checks it: 0 and the number of keys, or -EBADMSG. Opening
 * checks what RocksDB needs to find the rest (manifest, log, presence and size of tables, their
 * indexes); a block of data is checked when it is read, and all of them are by this.
 */
int kv_rocksdb_verify(struct kv *kv, uint64_t *keys);

#endif
