// SPDX-License-Identifier: Apache-2.0
/*
 * The embedded engine: RocksDB in one folder, owned by one process.
 *
 * A transaction is acknowledged once RocksDB's log with it is synced. Transactions that arrive during a sync
 * share the next one. When a write to the log fails, its transactions are in doubt until the store is opened
 * again, by a new process. Until then every transaction returns -EROFS, because a log whose sync failed once
 * may lose data silently at the next sync. Reads still succeed.
 */
#ifndef KV_ROCKSDB_H
#define KV_ROCKSDB_H

#include "kv/kv.h"

struct kv_rocksdb_options {
	/* folder of the database, created if it does not exist; its parent must exist */
	const char *dir;
	/*
	 * Bytes of memory: half for the row cache, half for RocksDB's blocks, indexes and filters. 0: an eighth of
	 * the machine's memory, and at least 256 MiB. Other rows are read from tables, which is slower. A cached row takes
	 * about 40 bytes more than its key and value.
	 */
	uint64_t cache_bytes;
	/* Bytes of changes that are in no table yet; also bounds the log and the time to open; 0: 32 MiB. */
	uint64_t memtable_bytes;
	/* for measurements: transactions per commit; 0: KV_BATCH_TXNS_MAX */
	unsigned batch_txns_max;
	/*
	 * false: opening fails with -EBADMSG if the log is damaged in its middle, because acknowledged
	 * transactions follow the damage. true: opening cuts the log off at the damage and loses them.
	 */
	bool salvage;
	bool only_existing; /* return -ENOENT if there is no store, instead of creating one */
};

/*
 * Opens the database in a folder, and waits for it. -EBUSY: this process or another one has the store open;
 * -EBADMSG: damaged, or a database of another program (the process's log says which); -EOPNOTSUPP: written by
 * a later version; -ENOENT, -EACCES, -ENOSPC, -EIO, -ENOMEM.
 */
int kv_rocksdb_open(struct kv **out, const struct kv_rocksdb_options *options);

/*
 * Reads every table and verifies all checksums; sets *keys to the number of keys. Waits. -EBADMSG: bytes
 * are damaged. Opening verifies only the manifest, the log, the presence and size of tables, and their
 * indexes; blocks of data are verified when they are read.
 */
int kv_rocksdb_verify(struct kv *kv, uint64_t *keys);

/* --- backups ----------------------------------------------------------------------------------- */

/*
 * Lists the last max backups of a folder, the oldest first, and sets owner, of KV_BACKUP_OWNER_MAX + 1 bytes. Returns their
 * number. -ENOENT: the folder does not exist, or has no backups of this program; -EBADMSG, -EIO, -EACCES.
 */
int64_t kv_rocksdb_backups(const char *dir, char *owner, struct kv_backup *out, size_t max);

/*
 * Copies a backup to the folder `to`, which must not exist, and compares each file with the checksum of the time of the
 * backup. number 0: the last backup. -ENOENT: there is no such backup; -EEXIST: `to` exists; -EBADMSG: the backup is
 * damaged; -ENOSPC, -EIO. After an error `to` may have a part of the files.
 */
int kv_rocksdb_restore(const char *dir, uint64_t number, const char *to);

#endif
