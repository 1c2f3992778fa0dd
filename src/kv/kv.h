// SPDX-License-Identifier: Apache-2.0
/*
 * The partitioned key-value store below all metadata. It offers what Tectonic needs of ZippyDB, and no more.
 *
 * Model. A store is a set of partitions, each named by a 64-bit number. Every partition exists, and is
 * empty until its first write. A partition is an ordered map from keys to values. Keys and values are
 * bytes; keys are ordered as memcmp orders them, and a key comes before its extensions. A call names
 * one partition; no call spans two.
 *
 * Promises, kept by every engine and tested by one suite (tests/unit/kv_suite.c):
 *
 *  1. Each call takes effect at one instant between its start and its return: kv_get reads all its
 *     keys, kv_scan all rows of its page, and kv_txn checks and writes, at that instant. The calls on
 *     one partition, from any number of servers, are linearizable.
 *  2. kv_txn is all or nothing: if every check holds, all writes are applied, in order; if one check
 *     fails, none is.
 *  3. A transaction for which kv_txn returned 0 is durable: it survives a crash of the process and of the
 *     machine (rocksdb: while its disk survives), and the loss of as many replicas as the RADOS pool
 *     tolerates (rados).
 *  4. A read returns durable data: no call returns a write that a crash could undo. Early writes are the
 *     exception. An early write becomes durable on its own after some time, or at the latest when a
 *     non-early transaction that came after it, in any partition, returns 0. All steps of an operation but
 *     its last one may therefore be early: a crash keeps a prefix of the steps, exactly as it does without
 *     early writes, and every later write that depends on an undone step is undone with it. An early write
 *     must not be acknowledged to a client.
 *  5. A version names a state of a partition: if two reads of one partition return the same version,
 *     nothing was written to the partition between them. The converse does not hold: a version may change
 *     although the partition did not, and a check on the version then fails without need.
 *  6. The pages of a scan are not one instant. A key that exists from the first page to the last is
 *     returned exactly once, with a value that it had during the scan. A key that is added or deleted
 *     during the scan may be returned or not.
 *
 * Results of a transaction. This table is complete; a caller that retries relies on it:
 *
 *   0             applied
 *   -ESTALE       not applied: a check failed, and `failed` is its index (other checks may have failed too)
 *   -ETIMEDOUT    in doubt: the service got the request and did not answer in time. The transaction was
 *                 applied, will be applied later, or never will be; only a read can tell
 *   -EIO, -ENOSPC in doubt: the disk failed while the engine wrote its log
 *   others        not applied, and never will be: -EINVAL and -EFBIG invalid input; -ECANCELED and -ETIME
 *                 the fiber was cancelled or late before the request was sent; -EHOSTUNREACH the
 *                 service cannot be reached; -EROFS the engine stopped after an earlier -EIO;
 *                 -EAGAIN too many requests are queued; -EBADMSG a stored record that the transaction
 *                 needs is damaged; -ENOMEM
 *
 * Reads return 0 or one of the errors above. A damaged record makes a read fail with -EBADMSG; no read leaves it
 * out silently.
 *
 * Every call waits. A call whose request was sent runs to its end, and each engine bounds that time: if a
 * cancelled fiber could leave earlier, a known result would become unknown.
 *
 * A store belongs to the loop that opened it; kv_share opens it on further loops of the process. Close it only when no
 * call is under way.
 */
#ifndef KV_KV_H
#define KV_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"

#define KV_KEY_MAX 1024            /* bytes; the shortest key is 1 */
#define KV_VALUE_MAX (64 * KIB)    /* bytes; 0 is allowed */
#define KV_TXN_ITEMS_MAX 4096      /* checks and writes of one transaction together */
#define KV_TXN_BYTES_MAX (1 * MIB) /* bytes of the keys and values of one transaction together */
#define KV_GET_KEYS_MAX 1024
#define KV_SCAN_ROWS_MAX 1024
#define KV_SCAN_BYTES_MAX (4 * MIB)

struct kv_bytes {
	const void *data;
	size_t len;
};

static inline struct kv_bytes kv_bytes(const void *data, size_t len)
{
	return (struct kv_bytes){.data = data, .len = len};
}

static inline struct kv_bytes kv_text(const char *text)
{
	return (struct kv_bytes){.data = text, .len = strlen(text)};
}

/* Orders keys as memcmp does; a key comes before its extensions. */
int kv_compare(struct kv_bytes a, struct kv_bytes b);
bool kv_equal(struct kv_bytes a, struct kv_bytes b);
bool kv_has_prefix(struct kv_bytes key, struct kv_bytes prefix);

/* --- results of reads ------------------------------------------------------------------------ */

struct kv_row {
	struct kv_bytes key;
	struct kv_bytes value;
	bool found; /* kv_get: true if the key exists; kv_scan: always true */
};

/*
 * The result of a read. The caller zeroes it before the first read; each read discards the rows of the
 * previous one. The bytes of the rows stay valid until the next read into it, or kv_rows_fini.
 */
struct kv_rows {
	struct kv_row *row;
	size_t count;
	uint64_t version; /* version of the partition at the instant of the read */
	bool more;        /* kv_scan: the page is full, and further rows may follow */
	/* Counted by the engine for struct kv_stats, whose fields tell what they mean. */
	uint32_t rows_kept;
	uint32_t offloaded;
	/* Fields that only rows.c uses. */
	size_t capacity;
	size_t bytes;
	struct kv_chunk *chunks;
};

void kv_rows_fini(struct kv_rows *rows);

#define AUTO_KV_ROWS __attribute__((cleanup(kv_rows_fini)))

/* --- requests ---------------------------------------------------------------------------- */

/* Selects one page of a scan: the keys that begin with prefix and are greater than after, in order. */
struct kv_range {
	struct kv_bytes prefix; /* keys to list begin with these bytes; empty: all keys */
	/* keys to list are greater than this key; empty: start at the first key */
	struct kv_bytes after;
	/* largest number of rows of the page, 1 to KV_SCAN_ROWS_MAX; 0: KV_SCAN_ROWS_MAX */
	size_t rows_max;
	/*
	 * bytes of keys and values: the row that reaches this sum is the last of the page; 0:
	 * KV_SCAN_BYTES_MAX
	 */
	size_t bytes_max;
};

enum kv_check_kind {
	KV_ABSENT,  /* the key does not exist */
	KV_PRESENT, /* the key exists, with any value */
	KV_EQUALS,  /* the key exists and has this value */
	KV_VERSION, /* the partition has this version; key is empty */
};

struct kv_check {
	enum kv_check_kind kind;
	struct kv_bytes key;
	struct kv_bytes value; /* value to compare with, for KV_EQUALS */
	uint64_t version;      /* version to compare with, for KV_VERSION */
};

enum kv_write_kind { KV_PUT, KV_DELETE };

struct kv_write {
	enum kv_write_kind kind;
	struct kv_bytes key;   /* deleting a key that does not exist is not an error */
	struct kv_bytes value; /* value to store, for KV_PUT */
};

/*
 * A conditional change of one partition: at least one check or write. All checks see the partition as it was
 * before the writes. Of two writes to the same key the later one wins.
 */
struct kv_txn {
	const struct kv_check *checks;
	size_t check_count;
	const struct kv_write *writes;
	size_t write_count;
	bool early; /* true: kv_txn may return 0 before the writes are durable (promise 4) */
};

/* --- the store -------------------------------------------------------------------------------- */

struct kv_stats {
	uint64_t gets;
	uint64_t scans;
	uint64_t txns;    /* number of transactions submitted */
	uint64_t refused; /* number of transactions that failed a check */
	uint64_t unknown; /* number of transactions whose result is in doubt */
	uint64_t batches; /* number of commits, each of one or more transactions */
	/*
	 * Number of commits that were sent again because an assumed check was wrong, or whose lost
	 * reply the engine had to look up.
	 */
	uint64_t retries;
	uint64_t reads_offloaded; /* number of gets that needed an offload thread */
	uint64_t rows_kept;       /* number of keys that the engine's row cache answered */
};

/* A copy of all partitions, of one instant, in a folder with other such copies. */
struct kv_backup {
	uint64_t number; /* in its folder; later backups have higher numbers */
	uint64_t made_s; /* wall clock */
	uint64_t bytes;  /* of its files, which it may share with other backups */
	uint64_t files;
};

struct kv_backup_request {
	const char
		*dir; /* folder of the backups, made if it does not exist; its parent must exist */
	/* what the store holds, one line; all backups of a folder are of the same owner */
	const char *owner;
	unsigned keep; /* number of backups to keep in the folder; older ones are deleted; 0: all */
};

#define KV_BACKUP_OWNER_MAX 120

struct rt_port;

struct kv {
	const struct kv_ops *ops;
	struct kv_stats stats;
};

/* The functions of an engine. kv.c calls them with arguments that it has checked against the limits. */
struct kv_ops {
	const char *name;
	/*
	 * Reads n keys and adds one row for each, in order, to rows, which is empty and has room
	 * for n rows.
	 */
	int (*get)(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
		   struct kv_rows *rows);
	/*
	 * Reads one page of a scan into rows, which is empty. range->rows_max and bytes_max are not
	 * 0.
	 */
	int (*scan)(struct kv *kv, uint64_t partition, const struct kv_range *range,
		    struct kv_rows *rows);
	/*
	 * Runs the transaction. failed is never NULL; with -ESTALE *failed is the index of a failed
	 * check.
	 */
	int (*txn)(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed);
	/*
	 * Finds the next partition as kv_next_partition describes; from < end. NULL: the engine
	 * cannot list partitions.
	 */
	int (*next_partition)(struct kv *kv, uint64_t from, uint64_t end, uint64_t *next);
	/*
	 * Returns the engine's health as kv_health describes, without waiting. NULL: no error stops
	 * this engine.
	 */
	int (*health)(const struct kv *kv);
	/* Waits until the engine's own background work has ended, then frees the store. Never fails. */
	void (*close)(struct kv *kv);
	/* Makes a backup as kv_backup describes. NULL: the engine cannot. */
	int (*backup)(struct kv *kv, const struct kv_backup_request *q, struct kv_backup *out);
	/* get, scan and next_partition may run on any loop of the process. health always may. */
	bool reads_anywhere;
};

/* Reads the values of n keys at one instant. -EINVAL: n is 0, or a key is empty; -EFBIG: over a limit. */
int kv_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
	   struct kv_rows *rows);

/* Reads one page. -EFBIG: prefix, after, rows_max or bytes_max is over its limit. */
int kv_scan(struct kv *kv, uint64_t partition, const struct kv_range *range, struct kv_rows *rows);

/*
 * Runs a transaction; the table "Results of a transaction" in this file lists the results. failed
 * may be NULL; only -ESTALE sets it.
 */
int kv_txn(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed);

/*
 * Returns whether this result of kv_txn leaves the transaction in doubt: it was applied, will be
 * applied later, or never will be.
 */
bool kv_unknown(int rc);

/*
 * Finds the next partition for a walk over many: sets *next to the first partition >= from that may hold a
 * key, or to end. Every partition between from and *next was empty at some instant during the call. An
 * engine that cannot list partitions sets *next to from.
 */
int kv_next_partition(struct kv *kv, uint64_t from, uint64_t end, uint64_t *next);

/*
 * Returns 0, or the error that stopped the engine for good: every further transaction returns -EROFS, and the
 * process must be restarted to open the store again. A service that cannot be reached at the moment is not such
 * an error. Does not wait.
 */
int kv_health(const struct kv *kv);

/*
 * Makes a backup of all acknowledged transactions, while the store is in use, and waits for it. Files that the folder
 * has already are not copied again. The result is durable, and its files have their lengths. -EOPNOTSUPP: the engine
 * makes none; -EINVAL: a wrong owner; -EEXIST: the folder has something else than backups; -EXDEV: its backups are of
 * another owner; -ENOSPC, -EACCES, -ENOENT, -EIO, -EBADMSG: the backup is not usable, and the older ones are kept. On the
 * loop of the store.
 */
int kv_backup(struct kv *kv, const struct kv_backup_request *q, struct kv_backup *out);

/*
 * Opens the store `of` on the calling loop, too. Promises and results are the same; a transaction that finds the port
 * closed ends with -EHOSTUNREACH. port: on the loop of `of`, which opened it with its engine; it outlives the new store.
 * The new store has statistics of its own, and is closed before `of`. -ENOMEM.
 */
int kv_share(struct kv **out, struct kv *of, struct rt_port *port);

/* Waits until background work has ended, closes the store and frees it. NULL is allowed. */
void kv_close(struct kv *kv);

#endif
