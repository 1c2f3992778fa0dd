// SPDX-License-Identifier: Apache-2.0
/*
 * Internals of the pool, shared by its files:
 *
 *   pool.c          format, open, close, space, state
 *   pool_record.c   the pool record: reading, writing, quorum
 *   pool_member.c   members that fail, return or are replaced; which members missed changes
 *   pool_layout.c   where bytes are: pure functions
 *   pool_lookup.c   parallel calls to members; which rows and copies of a chunk exist
 *   pool_rows.c     reading rows, decoding those that cannot be read
 *   pool_put.c      put, delete
 *   pool_get.c      get, stat, list
 *   pool_append.c   open chunks: copies, append, seal
 *   pool_repair.c   damage, rebuilding rows of a chunk, scan, patch
 *   pool_rebuild.c  the rebuild: passes over all chunks of the pool
 *   pool_losses.c   lists of lost and failed rows, for repair by other nodes
 */
#ifndef STORE_POOL_IMPL_H
#define STORE_POOL_IMPL_H

#include <assert.h>

#include "base/list.h"
#include "base/map.h"
#include "code/codec.h"
#include "code/place.h"
#include "rt/sync.h"
#include "store/pool_layout.h"

#define POOL_WINDOW_BYTES (4 * MIB) /* bytes of a chunk that a read handles in one step */
#define POOL_HEADS 1024
#define POOL_DELETE_COUNTS 256
#define POOL_DAMAGED_MAX 65536
#define POOL_COPY_SKIP \
	4096 /* bytes before the data of a copy; they start with the caller's label */

/* Cached length, label and epoch of a coded chunk, which never changes while it exists. */
struct pool_head {
	bool valid;
	bool complete; /* true if all rows were present when the head was read */
	/*
	 * The value of pool.return_count when the head was read; an incomplete head is valid as
	 * long as pool.return_count keeps this value.
	 */
	uint64_t return_count;
	struct chunk_id id;
	uint64_t epoch;
	struct pool_label label;
	uint8_t bad[POOL_ROWS_MAX / 8]; /* one bit per row: set if reads must not use the row */
};

struct pool {
	struct store base;
	struct pool_record record;
	struct place place;
	struct codec *codec;
	/* stores of the members; NULL: the member is down */
	struct store *members[POOL_MEMBERS_MAX];
	uint32_t users[POOL_MEMBERS_MAX]; /* number of running calls to each member */
	/* true: the last call to the member returned an error that means that it is down */
	bool failing[POOL_MEMBERS_MAX];
	uint64_t return_count; /* number of times that a failing member answered again */
	/*
	 * For each member, the number of changes and list calls that it missed since the pool was
	 * opened.
	 */
	uint32_t missed_count[POOL_MEMBERS_MAX];
	struct rt_cond member_idle;
	struct rt_mutex record_lock; /* held while the record changes */
	bool record_may_differ;      /* members may have stored another pool record than `record` */
	/* highest generation of a record ever used, accepted by a quorum or not */
	uint64_t generation;
	uint8_t record_slot[POOL_MEMBERS_MAX]; /* slot (0 or 1) of each member's newest record */
	bool unlisted[POOL_MEMBERS_MAX]; /* true: the last attempt to list the member failed */
	enum store_state admin_state;    /* online, draining or failed, as set by control */
	uint64_t reserved_bytes;
	uint64_t checksum_errors;
	uint64_t io_errors;

	bool external_repair; /* rebuilds of lost chunks are left to the caller */
	/*
	 * Hashes of chunks that a rebuild could not restore although the code tolerates that many
	 * missing rows: other rows are damaged too. When the map is full, all_may_be_damaged is
	 * set.
	 */
	struct map damaged_chunks;
	bool all_may_be_damaged;
	/* Runs the work on each chunk of a rebuild (store_pool_set_pace); NULL: without pacing. */
	int (*pace)(void *ctx, void (*work)(void *arg), void *arg);
	void *pace_ctx;

	/* Chunks that a caller is changing; at most one caller changes a chunk. */
	struct list locked_chunks; /* struct pool_chunk_lock, oldest first */
	uint64_t locks_taken;      /* number of locks taken since the pool was opened */
	struct rt_cond chunk_unlocked;
	/*
	 * Number of deletes, counted by chunk hash; a reader that sees it change knows that the
	 * chunk may have been deleted during the read.
	 */
	uint32_t delete_counts[POOL_DELETE_COUNTS];

	struct pool_head heads[POOL_HEADS];
};

static inline struct pool *pool_of(struct store *s)
{
	return container_of(s, struct pool, base);
}

/* Marks the start of a call to a member's store and keeps the store open until pool_call_end. */
static inline void pool_call_begin(struct pool *p, uint32_t member)
{
	assert(member < p->record.shape.members);
	p->users[member]++;
}

static inline void pool_call_end(struct pool *p, uint32_t member)
{
	assert(p->users[member] > 0);
	if (--p->users[member] == 0)
		rt_cond_broadcast(&p->member_idle);
}

static inline uint32_t pool_width(const struct pool *p)
{
	return p->record.shape.k + p->record.shape.p;
}

/* --- pool.c ----------------------------------------------------------------------------------- */

/*
 * Checks the shape of a pool, fills in its defaults and computes its placement. -EINVAL, with the
 * reason in the log.
 */
int pool_shape_check(struct store_pool_shape *s, struct place *place);

/* --- pool_record.c ---------------------------------------------------------------------------- */

bool pool_record_gave_up(const struct pool_record *r, uint32_t member);
/*
 * Returns how many members must have a record for it to be accepted; sets *of to the number of
 * members that are not given up.
 */
uint32_t pool_record_quorum(const struct pool_record *r, uint32_t *of);
/*
 * Reads the newer of the two pool records of a member; sets *slot to its slot (0 or 1). -ENOENT
 * when the member has no record.
 */
int pool_record_get(struct store *m, struct pool_record *out, uint8_t *slot);
/*
 * Writes `to` to all members and makes it the current record if a quorum stored it. If fresh is not
 * NULL, this store takes the place of the member and must store the record, too.
 */
int pool_record_change(struct pool *p, const struct pool_record *to, uint32_t member,
		       struct store *fresh);

/* --- pool_member.c ---------------------------------------------------------------------------- */

bool pool_is_given_up(const struct pool *p, uint32_t member);
/*
 * Returns the number of events up to the last one that replaced or returned the member; 0 if there
 * is no such event.
 */
uint32_t pool_replaced_until(const struct pool_record *r, uint32_t member);
/*
 * Stores in the pool record that the rows moved by the first `events` events are rebuilt, and that
 * a member lacks no row or copy if its missed_count still equals missed[m]. Changes nothing when a
 * new event was added during the rebuild.
 */
int pool_record_rebuilt(struct pool *p, uint32_t events, const uint32_t missed[POOL_MEMBERS_MAX]);
/*
 * Stores in the pool record that members missed a change; called before the change is acknowledged.
 * POOL_MISSED_COPY: the members are behind, and their copies are not used until a rebuild has
 * brought them up to date. POOL_MISSED_ROW: the members may lack rows and a rebuild is due; the
 * labels of their other rows show which chunk these belong to, so they stay in use.
 */
enum pool_missed { POOL_MISSED_ROW, POOL_MISSED_COPY };
int pool_record_missed(struct pool *p, enum pool_missed what, const uint16_t *members, uint32_t n);
bool pool_any_due(const struct pool_record *r);

/* --- pool_lookup.c ------------------------------------------------------------------------------ */

enum pool_call { POOL_STAT, POOL_PUT, POOL_GET, POOL_DELETE, POOL_APPEND, POOL_SEAL, POOL_SCAN };

#define POOL_SCAN_RANGES 16

/* One call to the store of one member. */
struct pool_job {
	struct pool *pool;
	enum pool_call call;
	uint16_t member; /* member to call; for POOL_NOWHERE the result is -ENODEV */
	struct chunk_id id;
	bool no_deadline; /* run the call to its end regardless of the caller's deadline */
	struct store_put put;
	struct store_data data;
	uint64_t epoch;
	uint64_t off;
	uint64_t len;
	void *buf;
	/* Results of the call. */
	uint32_t crc;
	struct chunk_stat st;
	struct store_range bad[POOL_SCAN_RANGES];
	int64_t rc;
};

/* Runs n calls to members side by side and waits for all of them. */
void pool_jobs_run(struct pool_job *jobs, uint32_t n);
struct pool_job *pool_jobs_new(struct pool *p, uint32_t n, enum pool_call call);

struct pool_chunk_lock {
	struct list link;
	uint64_t number;
	struct chunk_id id;
};

/* Locks a chunk for a change. Waits while another caller has it locked. */
int pool_lock_chunk(struct pool *p, struct pool_chunk_lock *h, struct chunk_id id);
void pool_unlock_chunk(struct pool *p, struct pool_chunk_lock *h);
/* Returns whether a caller has the chunk locked. For assertions. */
bool pool_chunk_is_locked(const struct pool *p, struct chunk_id id);
/* Waits until the chunks that are locked now have been unlocked. */
int pool_wait_for_locked(struct pool *p);

enum pool_form { POOL_NONE, POOL_CODED, POOL_COPIES };

/* What the members reported about a chunk. */
struct pool_view {
	struct chunk_id id;
	struct pool_map map;
	enum pool_form form;
	/* State of a coded chunk. */
	/*
	 * For each row: 0 if it is present; -ENOENT, or -ESTALE if it is a row of an older chunk:
	 * absent; any other error: unknown.
	 */
	int row_rc[POOL_ROWS_MAX];
	uint32_t present, unknown;
	struct pool_label label; /* label of a present row, if a row is present */
	struct pool_geo geo;
	uint64_t epoch; /* highest epoch of the rows or copies */
	/*
	 * State of an open chunk: results of its copies 0 to p; -ESTALE for a copy that is not
	 * authoritative.
	 */
	int copy_rc[POOL_PARITY_MAX + 1];
	struct chunk_stat copy_st[POOL_PARITY_MAX + 1];
	/*
	 * True for copies on members that are up to date, or, if no member is, on the members that
	 * fell behind last.
	 */
	bool authoritative[POOL_PARITY_MAX + 1];
	bool all_behind;
	/*
	 * True if an event assigned the copy to its member and no rebuild has written the copy yet.
	 */
	bool not_rebuilt[POOL_PARITY_MAX + 1];
	uint32_t copies_present, copies_unknown, copies_behind;
	uint32_t best_copy; /* number of the copy to read from: a sealed copy, else the longest */
};

/*
 * Asks the members for the rows and copies of a chunk and fills in v. Returns 0 when the chunk
 * exists; -ENODATA when it is lost: then label and geo describe the chunk, or form is POOL_COPIES
 * because the chunk was open; -ENOENT when it does not exist, even if garbage rows or copies are
 * left; -EIO when too many members are down to decide.
 */
int pool_lookup(struct pool *p, struct chunk_id id, struct pool_view *v);
/* Determines which copies are authoritative, and whether the members of all copies are behind. */
void pool_authoritative(const struct pool *p, const struct pool_map *map, bool *authoritative,
			bool *all_behind);
/* Returns whether rows or copies are absent on members that are up and should have them. */
bool pool_is_incomplete(const struct pool *p, const struct pool_view *v);
/* Returns whether a copy has the same length, bytes, seal and epoch as the best copy. */
bool pool_copy_is_current(const struct pool_view *v, uint32_t copy);

/*
 * Sets *out to whether the chunk has authoritative copies: it is open, or sealed and not yet coded.
 * -EIO when the members whose answers decide are down.
 */
int pool_has_copies(struct pool *p, struct chunk_id id, bool *out);

/* Checks the id of a chunk. -EINVAL for an id that no chunk of a pool can have. */
int pool_check_id(struct chunk_id id);

/*
 * Returns the cached head of a chunk; NULL if no head is cached or the cached head is no longer
 * valid.
 */
const struct pool_head *pool_head_find(struct pool *p, struct chunk_id id);
void pool_head_from_view(const struct pool *p, const struct pool_view *v, struct pool_head *out);
void pool_head_store(struct pool *p, const struct pool_view *v);
uint32_t *pool_delete_count(struct pool *p, struct chunk_id id);
void pool_head_forget(struct pool *p, struct chunk_id id);

/* --- pool_rows.c ------------------------------------------------------------------------------ */

/* A buffer with bytes [from, to) of a row, and their CRC as it was read or decoded. */
struct pool_row {
	uint64_t from, to;
	uint8_t *bytes; /* bytes of the row; NULL: not requested */
	uint32_t crc;
	bool owned; /* true: pool_rows_free frees bytes */
};

/*
 * Rows of a chunk to read. If label is not NULL, a read that goes to the end of full-length rows
 * (row_len) also reads the caller's label, which is stored after the row, and sets label_got. Rows with
 * given[r] are in memory already; rows with bad[r] are not read from their members.
 */
struct pool_rows {
	struct pool *pool;
	struct chunk_id id;
	const struct pool_map *map;
	struct pool_row row[POOL_ROWS_MAX];
	bool given[POOL_ROWS_MAX];
	bool bad[POOL_ROWS_MAX];
	uint64_t row_len;
	uint8_t *label; /* buffer of STORE_LABEL_BYTES for the caller's label, or NULL */
	bool label_got;
};

/*
 * Reads bytes [from, to) of the wanted rows. Decodes a row that cannot be read from other rows.
 * -ENODATA when too few rows can be read, -EBADMSG, -ENOMEM.
 */
int pool_rows_read(struct pool_rows *r, const bool *wanted, uint64_t from, uint64_t to);
/*
 * Reads rows as pool_rows_read does, but without decoding, and of each row its own range:
 * row[].from to row[].to if from < to.
 */
int pool_rows_fetch(struct pool_rows *r);
void pool_rows_free(struct pool_rows *r);

/*
 * Copies bytes [off, off + len) of the chunk out of data rows that hold them, and sets *crc to their CRC,
 * which is checked against the CRCs of the rows. -EBADMSG.
 */
int pool_rows_gather(const struct pool_rows *r, const struct pool_geo *g, uint64_t off, void *buf,
		     uint64_t len, uint32_t *crc);

/* --- pool_put.c ------------------------------------------------------------------------------- */

int pool_put(struct store *s, struct chunk_id id, const struct store_put *p);
int pool_delete(struct store *s, struct chunk_id id);
/*
 * Encodes the contiguous bytes of a chunk and puts its rows on the members. Rows of an older chunk
 * of this id are replaced, unless they may still form a chunk: -EEXIST. The caller holds the
 * chunk's lock.
 */
int pool_put_rows(struct pool *p, struct chunk_id id, const struct store_put *put,
		  const uint8_t *bytes);
/* Puts one row of a chunk, whose bytes are in memory, followed by the caller's label. */
int pool_row_put(struct pool *p, const struct pool_view *v, uint32_t row, const uint8_t *bytes,
		 uint32_t crc, const uint8_t label[STORE_LABEL_BYTES]);
/*
 * Deletes the rows of a chunk. Sets *left to the number of rows that may remain, *removed to the
 * number of rows that were deleted.
 */
int pool_remove_rows(struct pool *p, const struct pool_map *map, struct chunk_id id, uint32_t *left,
		     uint32_t *removed);
/*
 * Deletes the copies of a chunk; sets *removed to their number. Members that may still have a copy
 * are recorded as behind. -EIO when an authoritative copy may remain.
 */
int pool_remove_copies(struct pool *p, const struct pool_map *map, struct chunk_id id,
		       uint32_t *removed);

/* --- pool_get.c ------------------------------------------------------------------------------- */

int pool_get(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
	     uint32_t *crc);
int pool_stat(struct store *s, struct chunk_id id, struct chunk_stat *out);
int64_t pool_list(struct store *s, struct store_cursor *at, struct chunk_id *out, size_t max);
/*
 * Lists the rows and copies of a member. Returns no entry for a member that was given up, -ENODEV
 * for a member that is down.
 */
int64_t pool_member_list(struct pool *p, uint32_t member, struct store_cursor *at,
			 struct chunk_id *out, size_t max);
/*
 * Lists chunks that members have rows or copies of, garbage included, each once; 0 at the end.
 * Members that cannot be listed are skipped and counted in *failed. If failed is NULL and more than
 * p members were skipped, the call at the end of the list returns -EIO, since chunks may be missing
 * from the list.
 */
int64_t pool_page(struct pool *p, struct store_cursor *at, struct chunk_id *out, size_t max,
		  uint64_t *failed);
/* Marks the list as incomplete: the call at its end will return -EIO. */
void pool_page_set_incomplete(const struct pool *p, struct store_cursor *at);
/* Reads the label that the caller stored with the chunk, from any row or copy. */
int pool_upper_label(struct pool *p, const struct pool_view *v, uint8_t out[STORE_LABEL_BYTES]);

/* --- pool_append.c ---------------------------------------------------------------------------- */

int pool_put_copies(struct pool *p, struct chunk_id id, const struct store_put *put);
int pool_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
		const struct store_data *data);
int pool_seal(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len);
int pool_copies_stat(struct pool *p, const struct pool_view *v, struct chunk_stat *out);
int pool_copies_get(struct pool *p, const struct pool_view *v, uint64_t off, void *buf,
		    uint64_t len, uint32_t *crc);
/*
 * Brings all copies of an open chunk up to date with the best copy. Members on which that fails are
 * recorded as behind. The caller holds the chunk's lock.
 */
int pool_copies_sync(struct pool *p, struct pool_view *v);
/*
 * Encodes a sealed chunk that is still stored as copies into rows. The caller holds the chunk's
 * lock.
 */
int pool_encode_sealed(struct pool *p, const struct pool_view *v);

/* --- pool_repair.c ---------------------------------------------------------------------------- */

/*
 * Writes rows that are absent or unknown, on members that accept them; sets *written to their
 * number. For an open chunk, brings its copies up to date. The caller holds the chunk's lock.
 */
int pool_rebuild_missing(struct pool *p, struct pool_view *v, uint32_t *written);
int64_t pool_scan(struct store *s, struct chunk_id id, struct store_range *bad, size_t max);

/* Damage of a chunk, recorded per stripe and row. */
struct pool_damage {
	uint64_t stripes;
	uint32_t width;
	uint8_t *bad; /* nonzero if the row is damaged in the stripe; index stripe * width + row */
	bool end[POOL_ROWS_MAX]; /* the caller's label after the row is damaged */
	bool any;
	bool lost; /* true if a stripe has more than p damaged rows */
};

/*
 * Returns whether a rebuild found more damage in the chunk than its missing rows; pool_note_damaged
 * sets or clears this mark.
 */
bool pool_may_be_damaged(const struct pool *p, struct chunk_id id);
void pool_note_damaged(struct pool *p, struct chunk_id id, bool damaged);

/*
 * Fills in the damage of a chunk from a lookup alone: rows that are not present are damaged, all
 * others intact. Reads no row.
 */
int pool_damage_from_view(struct pool *p, const struct pool_view *v, struct pool_damage *d);
/* Scans all rows of a chunk and fills in its damage. */
int pool_damage_scan(struct pool *p, const struct pool_view *v, struct pool_damage *d);
void pool_damage_free(struct pool_damage *d);

#endif
