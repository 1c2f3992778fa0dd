// SPDX-License-Identifier: Apache-2.0
/*
 * The tally store: named counters and blobs in one file of a directory. It knows no sockets; it is
 * what a service on this ground looks like, and what the simulator tries to break.
 *
 * Promises
 *   1. A change that returned 0 survives any crash. Reads show only what would survive one. When the
 *      disk damages what it had synced, the store is not opened (-EBADMSG); one case cannot be told
 *      from a torn write and is cut off: damage to the last batch before a crash, when the crash
 *      came within a second of it.
 *   2. A change is named by (client id, seq) and applied once, however often it is asked for, also
 *      across restarts. A client numbers upwards and has one change under way; asked again for its
 *      last one it gets the same result, for an older one -ESTALE.
 *   3. Wrong bytes are never returned: blobs keep the checksum they came with, down to the disk and
 *      back.
 *
 * Many changes that wait at the same time share one sync. When a sync fails, the store takes no more
 * changes until it is opened again (-EIO): what was written is in doubt, and asking the disk again
 * proves nothing. Reads go on.
 *
 * Clients are remembered in a bounded number of sessions. A client that has all its answers ends its
 * session. When all are taken, one that was idle for session_idle_ns makes room; if none was, -EBUSY. A
 * client must not ask again for a change after it was idle for so long. Ends are changes in the log like
 * others, so that a store that is opened again remembers whom it remembered before.
 */
#ifndef TALLY_TALLY_H
#define TALLY_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define TALLY_NAME_MAX 255
#define TALLY_BLOB_MAX ((uint32_t)(1 * MIB))

struct tally;

struct tally_options {
	const char *dir;            /* exists; one store at a time locks it */
	uint64_t size_max_bytes;    /* live data; 0: 64 MiB */
	uint64_t compact_min_bytes; /* no compaction of a shorter log; 0: 4 MiB */
	size_t session_max;         /* 0: 4096 */
	uint64_t session_idle_ns;   /* 0: 1 h */
};

/*
 * Waits. Makes an empty store where there is none. -EBUSY: another process has it; -EBADMSG: the file
 * is damaged, see log.h; -EIO and what else files say.
 */
int tally_open(struct tally **out, const struct tally_options *o);
/* Commits what is queued. No fiber may be in a call. */
void tally_close(struct tally *t);

struct tally_change {
	uint64_t client_id; /* not 0 */
	uint64_t seq;       /* not 0 */
	const char *name;
};

/*
 * All wait. Common errors: -EINVAL (empty name, id or seq of 0), -ENAMETOOLONG, -EBUSY, -ESTALE,
 * -ENOSPC (the store's or the disk's limit), -EIO. A change that ended with an error, a cancellation or
 * the deadline may still be applied, unless it is one of the first four.
 */

/* *value becomes the counter's new value. -ERANGE on overflow, which changes nothing. */
int tally_add(struct tally *t, const struct tally_change *c, int64_t delta, int64_t *value);

/* The first len bytes of b, with their CRC-32C, become the blob; holds a reference while it needs it.
 * -EMSGSIZE. */
int tally_put(struct tally *t, const struct tally_change *c, struct buf *b, size_t len,
	      uint32_t crc);

/* The client will not ask again for any change, and no copy of a request is on its way: it is forgotten.
 * -EBUSY: it has a change under way. */
int tally_end(struct tally *t, uint64_t client_id);

/* 0 for a counter that nobody added to. Does not wait. */
int tally_get(struct tally *t, const char *name, int64_t *value);

/* A blob as it was when it was found; a later change does not disturb it. */
struct tally_blob {
	struct tally_file *file;
	uint64_t offset;
	uint32_t len;
	uint32_t crc;
};

/* -ENOENT. Does not wait. To be released after success. */
int tally_blob_find(struct tally *t, const char *name, struct tally_blob *out);
/* All of it to dst. Waits. -EBADMSG: the disk did not give back what was written. */
int tally_blob_read(const struct tally_blob *b, uint8_t *dst);
void tally_blob_release(struct tally_blob *b);

struct tally_stat {
	uint64_t counters;
	uint64_t blobs;
	uint64_t live_bytes;
	uint64_t log_bytes;
	uint64_t sessions;
	uint64_t changes;
	uint64_t commits;
	uint64_t compactions;
	bool failed;
};
void tally_stat(const struct tally *t, struct tally_stat *out);

/* Waits until the store has failed. */
int tally_wait_failed(struct tally *t);

#endif
