// SPDX-License-Identifier: Apache-2.0
/*
 * The partitioned key-value store under all metadata: what Tectonic asks of ZippyDB, and no more.
 *
 * Model. A store is a set of partitions, each named by a 64-bit number; all of them exist, and are
 * empty until something is put there. A partition is an ordered map from keys to values, both plain
 * bytes; keys are ordered as memcmp orders them, a shorter key before its extensions. A call names
 * one partition. Nothing spans two.
 *
 * Promises, kept by every engine and tested by one suite (tests/unit/kv_suite.c):
 *
 *  1. Each call takes effect at one instant between its start and its return: kv_get reads all its
 *     keys, kv_scan all rows of its page, and kv_txn checks and writes, at that instant. The calls on
 *     one partition, from any number of servers, are linearizable.
 *  2. kv_txn is all or nothing: when every check holds all writes are applied, in order; when one
 *     does not, nothing is.
 *  3. What kv_txn acknowledged with 0 is durable: it survives the death of the process, of the
 *     machine (rocksdb: when its disk does), and of as many replicas as the pool is made for (rados).
 *  4. What was read is durable too: no call ever shows a write that a crash could take back. Except for
 *     writes that were marked early: these are durable at the latest when a transaction that came after
 *     them returns 0, in whatever partition, or by themselves. So the steps of an operation that lead up to
 *     its last one may be early: a crash leaves the first few of them, as it does of steps that are not, and
 *     what was concluded from reading them is lost with them. An early write is no promise to anybody.
 *  5. A version names a state of a partition: when two reads of one partition return the same
 *     version, nothing was written to it between them. The converse does not hold; a version may
 *     change although the partition did not, and then a check on it fails for nothing.
 *  6. Pages of a scan are not one instant. A key that is there from the first page to the last is
 *     returned exactly once, with a value it had meanwhile; keys that come or go may or may not be.
 *
 * What a transaction's result says. This is the whole of it, for callers that retry:
 *
 *   0             applied
 *   -ESTALE       a check did not hold, `failed` names it (others may have failed too): not applied
 *   -ETIMEDOUT    the service took the request and did not answer in time: it was applied, or will
 *   -EIO, -ENOSPC be, or never will: read to find out. Same for a disk that failed under the log
 *   others        not applied, and will not be: -EINVAL and -EFBIG bad input; -ECANCELED and -ETIME
 *                 the fiber was cancelled or late before the request was sent; -EHOSTUNREACH the
 *                 service cannot be reached; -EROFS the engine stopped after an earlier -EIO;
 *                 -EAGAIN too many requests wait; -EBADMSG damage on the way; -ENOMEM
 *
 * Reads return 0 or one of the errors above; a damaged record is -EBADMSG and never silently left out.
 *
 * Every call waits. One that was sent runs to its end, which each engine bounds in time: leaving
 * half-way would turn a known result into an unknown one.
 *
 * A store belongs to the loop it was opened on; close it when no call is under way.
 */
#ifndef KV_KV_H
#define KV_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"

#define KV_KEY_MAX 1024            /* bytes; the shortest key is 1 */
#define KV_VALUE_MAX (64 * KIB)    /* bytes; a value may be empty */
#define KV_TXN_ITEMS_MAX 4096      /* checks and writes of one transaction together */
#define KV_TXN_BYTES_MAX (1 * MIB) /* their keys and values */
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

/* As memcmp, the shorter first when one begins the other. */
int kv_compare(struct kv_bytes a, struct kv_bytes b);
bool kv_equal(struct kv_bytes a, struct kv_bytes b);
bool kv_has_prefix(struct kv_bytes key, struct kv_bytes prefix);

/* --- what reads return ------------------------------------------------------------------------ */

struct kv_row {
	struct kv_bytes key;
	struct kv_bytes value;
	bool found; /* of kv_get: whether the key is there; of kv_scan: always */
};

/* Starts zeroed; each read empties it first. The bytes live until the next read into it, or fini. */
struct kv_rows {
	struct kv_row *row;
	size_t count;
	uint64_t version; /* of the partition at the instant of the read */
	bool more;        /* of kv_scan: the page is full and there may be more */
	/* The rest is rows.c's. */
	size_t capacity;
	size_t bytes;
	struct kv_chunk *chunks;
};

void kv_rows_fini(struct kv_rows *rows);

#define AUTO_KV_ROWS __attribute__((cleanup(kv_rows_fini)))

/* --- what is asked ---------------------------------------------------------------------------- */

/* A page: the keys that begin with prefix and are greater than after, in order. */
struct kv_range {
	struct kv_bytes prefix; /* empty: all keys */
	struct kv_bytes after;  /* empty: from the first */
	size_t rows_max;        /* 1 to KV_SCAN_ROWS_MAX; 0 means that */
	size_t bytes_max; /* the page ends with the row that reaches it; 0: KV_SCAN_BYTES_MAX */
};

enum kv_check_kind {
	KV_ABSENT,  /* key is not there */
	KV_PRESENT, /* key is there, with any value */
	KV_EQUALS,  /* key is there, with this value */
	KV_VERSION, /* the partition has this version; no key */
};

struct kv_check {
	enum kv_check_kind kind;
	struct kv_bytes key;
	struct kv_bytes value; /* of KV_EQUALS */
	uint64_t version;      /* of KV_VERSION */
};

enum kv_write_kind { KV_PUT, KV_DELETE };

struct kv_write {
	enum kv_write_kind kind;
	struct kv_bytes
		key; /* deleting what is not there is fine; of two writes to a key the later wins */
	struct kv_bytes value; /* of KV_PUT */
};

/* At least one check or write. All checks see the partition as it was before the writes. */
struct kv_txn {
	const struct kv_check *checks;
	size_t check_count;
	const struct kv_write *writes;
	size_t write_count;
	bool early; /* promise 4: it need not be durable yet when it returns 0 */
};

/* --- the store -------------------------------------------------------------------------------- */

struct kv_stats {
	uint64_t gets;
	uint64_t scans;
	uint64_t txns;    /* asked for */
	uint64_t refused; /* of them: a check did not hold */
	uint64_t unknown; /* of them: ended without a known result */
	uint64_t batches; /* commits that carried one transaction or several */
	uint64_t
		retries; /* commits done again: refused on a guess, or settled after a lost reply */
	uint64_t reads_offloaded; /* gets that were not answered from memory */
	uint64_t rows_kept;       /* keys answered from rows that the engine keeps in memory */
};

struct kv {
	const struct kv_ops *ops;
	struct kv_stats stats;
};

/* What an engine brings. Called through the functions below, which have checked the arguments. */
struct kv_ops {
	const char *name;
	/* rows is empty and has room for n rows; adds one for each key, in order. */
	int (*get)(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
		   struct kv_rows *rows);
	/* rows is empty; the limits are set. */
	int (*scan)(struct kv *kv, uint64_t partition, const struct kv_range *range,
		    struct kv_rows *rows);
	/* failed is never NULL. */
	int (*txn)(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed);
	/* from < end. NULL: an engine that cannot tell. */
	int (*next_partition)(struct kv *kv, uint64_t from, uint64_t end, uint64_t *next);
	/* Does not wait. NULL: an engine that never ends by itself. */
	int (*health)(const struct kv *kv);
	/* Whatever still goes on inside ends first. Never fails. */
	void (*close)(struct kv *kv);
};

/* The values of n keys, all of one instant. -EINVAL no key or an empty one, -EFBIG. */
int kv_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
	   struct kv_rows *rows);

/* One page. -EINVAL, -EFBIG: prefix, after or the limits. */
int kv_scan(struct kv *kv, uint64_t partition, const struct kv_range *range, struct kv_rows *rows);

/* See the table above. failed may be NULL; it is set with -ESTALE only. */
int kv_txn(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed);

/* Whether a result of kv_txn leaves open if it was applied, or still will be. */
bool kv_unknown(int rc);

/*
 * For walks of many partitions: the first from `from` on that may hold something, or end. Those passed over
 * held nothing at an instant of the call. Engines that cannot tell say `from`.
 */
int kv_next_partition(struct kv *kv, uint64_t from, uint64_t end, uint64_t *next);

/*
 * 0, or the error that has ended the engine: transactions are -EROFS from then on, and the store must be
 * opened anew, by another process. Does not wait. A service that cannot be reached for now is no such error.
 */
int kv_health(const struct kv *kv);

void kv_close(struct kv *kv);

#endif
