// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the store. tally.c opens, closes and reads; state.c holds what the log's records mean;
 * recover.c reads a log; commit.c queues changes and writes them in batches; compact.c writes a new log
 * that holds the present state alone.
 *
 * The state in memory is that of the synced records, no more and no less: a change is applied after
 * its batch was synced, by the committer, which is also the only one who writes to files.
 */
#ifndef TALLY_STORE_H
#define TALLY_STORE_H

#include "base/list.h"
#include "base/map.h"
#include "rt/file.h"
#include "rt/rt.h"
#include "rt/sync.h"
#include "tally/log.h"
#include "tally/tally.h"

#define TALLY_PATH_MAX 512
#define BATCH_BYTES_MAX (4 * MIB)

/* A log file, kept open while anyone reads from it. */
struct tally_file {
	struct rt_file *file;
	unsigned refs;
};

struct entry {
	struct entry *next; /* with the same hash */
	struct list link;   /* in tally.entries, in the order of creation */
	bool is_counter;
	bool is_blob;
	unsigned pending; /* changes in the queue */
	int64_t value;
	uint32_t blob_len;
	uint32_t blob_crc;
	uint64_t blob_offset; /* of the data in the log */
	uint64_t new_offset;  /* in the log that compaction writes */
	uint8_t name_len;
	char name[];
};

struct session {
	uint64_t client_id;
	uint64_t seq; /* the last that was applied; 0: none */
	int rc;       /* and its result */
	int64_t value;
	uint64_t used_ns;
	unsigned pending; /* changes in the queue */
	bool ending;      /* one of them is its end, the last that it takes */
	struct list link; /* in tally.sessions_lru, least recently used first */
};

/* A change on its way, shared by the committer and those who wait for it. */
struct change {
	struct list link; /* in tally.queue or the committer's batch */
	unsigned refs;
	struct rt_cond wake;
	bool done;
	int rc;
	int64_t value; /* the result */
	enum log_kind kind;
	struct session *session;
	struct entry *entry;
	uint64_t seq;
	int64_t delta;
	struct buf *data;
	uint32_t data_len;
	uint32_t data_crc;
	uint64_t data_offset;
};

struct tally {
	struct tally_options opts; /* without zeroes; dir is not used after open */
	char dir[TALLY_PATH_MAX];
	struct rt_file *lock;

	struct tally_file *log;
	uint64_t salt;
	uint64_t end;    /* of the log: where the next batch goes */
	uint64_t number; /* of the last change; all up to here are synced and applied */
	uint32_t chain;
	uint64_t compact_at; /* when the log is this long */
	bool unmarked;       /* no record says that the last batch was synced */

	struct map names; /* hash -> struct entry */
	uint64_t name_seed;
	struct list entries;
	uint64_t live_bytes;
	uint64_t reserved_bytes; /* of blobs in the queue */
	struct map sessions;     /* client id -> struct session */
	struct list sessions_lru;
	size_t sessions_ending;

	struct list queue;
	size_t queue_count;
	struct rt_cond work;
	struct rt_cond room;
	struct rt_cond failure;
	struct rt_fiber *committer;
	bool closing;
	int failed; /* 0, or why no change is taken any more */
	struct tally_stat stat;
};

/* state.c */
void state_init(struct tally *t);
void state_fini(struct tally *t);
/* Back to nothing, before a log is read. */
void state_reset(struct tally *t);
struct entry *state_entry(const struct tally *t, const char *name, size_t len);
/* The entry, made when there is none: it is invisible until something is applied to it. */
int state_entry_add(struct tally *t, const char *name, size_t len, struct entry **out);
/* Drops it if nothing was applied to it and nothing is queued. */
void state_entry_settle(struct tally *t, struct entry *e);
struct session *state_session(const struct tally *t, uint64_t client_id);
/* The session, made when there is none, however many there are. */
int state_session_add(struct tally *t, uint64_t client_id, struct session **out);
void state_session_drop(struct tally *t, struct session *s);
/* What a change does; the result is left in the session. */
void state_apply_add(struct tally *t, struct session *s, uint64_t seq, struct entry *e,
		     int64_t delta);
void state_apply_put(struct tally *t, struct session *s, uint64_t seq, struct entry *e,
		     uint64_t offset, uint32_t len, uint32_t crc);
void state_set_counter(struct tally *t, struct entry *e, int64_t value);
void state_set_blob(struct tally *t, struct entry *e, uint64_t offset, uint32_t len, uint32_t crc);

/* recover.c: fill the state from t->log. */
int tally_recover(struct tally *t);

/* commit.c */
int commit_start(struct tally *t);
void commit_stop(struct tally *t);

/* compact.c: write the state as a new log and take it into use. On an error the old log stays, unless
 * t->failed is set: then it is not known which of the two has the name. */
int tally_compact(struct tally *t);
/* The same for an empty store, which has no log yet. */
int tally_create(struct tally *t);

void tally_fail(struct tally *t, int rc);
int tally_path(const struct tally *t, const char *name, char out[TALLY_PATH_MAX]);
void tally_file_unref(struct tally_file *f);
int tally_read_data(struct rt_file *f, uint64_t offset, uint8_t *dst, uint32_t len, uint32_t crc);

#endif
