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
 *   pool_rebuild.c  passes over all chunks: rebuild, losses
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

#define POOL_WINDOW_BYTES (4 * MIB) /* bytes of a chunk that one step of a read handles */
#define POOL_HEADS 1024
#define POOL_DELETE_COUNTS 256
#define POOL_DAMAGED_MAX 65536
#define POOL_COPY_SKIP \
	4096 /* bytes in front of a copy's data; they start with the caller's label */

/* Cached facts about a coded chunk, which never changes while it exists. */
struct pool_head {
	bool valid;
	bool complete; /* all rows were present */
	/*
	 * The value of pool.return_count then; an incomplete head is valid while it is unchanged.
	 */
	uint64_t return_count;
	struct chunk_id id;
	uint64_t epoch;
	struct pool_label label;
	uint8_t bad[POOL_ROWS_MAX / 8]; /* one bit per row: set if the row must not be read */
};

struct pool {
	struct store base;
	struct pool_record record;
	struct place place;
	struct codec *codec;
	struct store *members[POOL_MEMBERS_MAX]; /* NULL: the member is down */
	uint32_t users[POOL_MEMBERS_MAX];        /* number of running calls to each member */
	bool failing[POOL_MEMBERS_MAX];          /* the last call reported the member as down */
	uint64_t return_count;                   /* how often a failing member answered again */
	/* Changes and list calls that the member missed since the pool was opened. */
	uint32_t missed_count[POOL_MEMBERS_MAX];
	struct rt_cond member_idle;
	struct rt_mutex record_lock; /* held while the record changes */
	bool record_may_differ;      /* members may hold another record than this one */
	uint64_t generation;         /* highest generation ever used, accepted by a quorum or not */
	uint8_t record_slot[POOL_MEMBERS_MAX]; /* slot (0 or 1) of each member's newest record */
	bool unlisted[POOL_MEMBERS_MAX];       /* the last attempt to list the member failed */
	enum store_state admin_state;          /* online, draining or failed, as set by control */
	uint64_t reserved_bytes;
	uint64_t checksum_errors;
	uint64_t io_errors;

	bool external_repair; /* see store_pool_set_external_repair */
	/*
	 * Hashes of chunks that a rebuild could not restore although few enough rows are missing:
	 * other rows are damaged. When the map is full, all_may_be_damaged is set.
	 */
	struct map damaged_chunks;
	bool all_may_be_damaged;
	/* Runs the work on each chunk of a rebuild; may be NULL. */
	int (*pace)(void *ctx, void (*work)(void *arg), void *arg);
	void *pace_ctx;

	/* Chunks that a caller is changing; at most one caller changes a chunk. */
	struct list locked_chunks; /* struct pool_chunk_lock, oldest first */
	uint64_t locks_taken;      /* since the pool was opened */
	struct rt_cond chunk_unlocked;
	/* Number of deletes by chunk hash; readers use it to detect a delete during the read. */
	uint32_t delete_counts[POOL_DELETE_COUNTS];

	struct pool_head heads[POOL_HEADS];
};

static inline struct pool *pool_of(struct store *s)
{
	return container_of(s, struct pool, base);
}

/* Marks the start of a call to a member's store, which stays open until pool_call_end. */
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

/* Fills in defaults and computes the placement. -EINVAL, with the reason in the log. */
int pool_shape_check(struct store_pool_shape *s, struct place *place);

/* --- pool_record.c ---------------------------------------------------------------------------- */

bool pool_record_gave_up(const struct pool_record *r, uint32_t member);
/*
 * Returns how many members must have a record for it to be accepted; sets *of to the number of
 * members that are not given up.
 */
uint32_t pool_record_quorum(const struct pool_record *r, uint32_t *of);
/*
 * Reads the newer of the two records of a member; *slot tells which one it is. -ENOENT when the
 * member has none.
 */
int pool_record_get(struct store *m, struct pool_record *out, uint8_t *slot);
/*
 * Writes `to` to all members and makes it the current record if a quorum stored it. If fresh is
 * not NULL, it takes the place of the member and must store the record, too.
 */
int pool_record_change(struct pool *p, const struct pool_record *to, uint32_t member,
		       struct store *fresh);

/* --- pool_member.c ---------------------------------------------------------------------------- */

bool pool_is_given_up(const struct pool *p, uint32_t member);
/*
 * Returns the number of events up to the last one that replaced or returned the member; 0 if there
 * is none.
 */
uint32_t pool_replaced_until(const struct pool_record *r, uint32_t member);
/*
 * Records that the first `events` events are rebuilt, and that members lack nothing unless their
 * missed_count has changed from missed[]. Does nothing when a new event was added during the
 * rebuild.
 */
int pool_record_rebuilt(struct pool *p, uint32_t events, const uint32_t missed[POOL_MEMBERS_MAX]);
/*
 * Records that members missed a change; called before the change is acknowledged.
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

/* One call to one member. */
struct pool_job {
	struct pool *pool;
	enum pool_call call;
	uint16_t member; /* POOL_NOWHERE: the result is -ENODEV */
	struct chunk_id id;
	bool no_deadline; /* ignore the caller's deadline */
	struct store_put put;
	struct store_data data;
	uint64_t epoch;
	uint64_t off;
	uint64_t len;
	void *buf;
	/* results */
	uint32_t crc;
	struct chunk_stat st;
	struct store_range bad[POOL_SCAN_RANGES];
	int64_t rc;
};

/* Runs the calls side by side and waits for all of them. */
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
/* Whether a caller has the chunk locked. For assertions. */
bool pool_chunk_is_locked(const struct pool *p, struct chunk_id id);
/* Waits until the chunks that are locked now have been unlocked. */
int pool_wait_for_locked(struct pool *p);

enum pool_form { POOL_NONE, POOL_CODED, POOL_COPIES };

/* What the members reported about a chunk. */
struct pool_view {
	struct chunk_id id;
	struct pool_map map;
	enum pool_form form;
	/* A coded chunk. */
	/* 0 present; -ENOENT, or -ESTALE (of an older chunk): absent; else unknown. */
	int row_rc[POOL_ROWS_MAX];
	uint32_t present, unknown;
	struct pool_label label; /* of a present row, if there is one */
	struct pool_geo geo;
	uint64_t epoch; /* the highest epoch of the rows or copies */
	/*
	 * An open chunk: its copies 0 to p. copy_rc is -ESTALE for a copy that is not
	 * authoritative.
	 */
	int copy_rc[POOL_PARITY_MAX + 1];
	struct chunk_stat copy_st[POOL_PARITY_MAX + 1];
	/*
	 * Copies on members that are up to date, or, if there are none, on those that fell behind
	 * last.
	 */
	bool authoritative[POOL_PARITY_MAX + 1];
	bool all_behind;
	/* An event assigned it to this member and no rebuild has written it yet. */
	bool not_rebuilt[POOL_PARITY_MAX + 1];
	uint32_t copies_present, copies_unknown, copies_behind;
	uint32_t best_copy; /* a sealed one, else the longest */
};

/*
 * Asks the members. 0 when the chunk exists. -ENODATA when it is lost: then label and geo describe
 * it, or form is POOL_COPIES because it was open. -ENOENT when it does not exist, also if garbage
 * rows or copies do. -EIO when too many members are down to decide.
 */
int pool_lookup(struct pool *p, struct chunk_id id, struct pool_view *v);
/* Determines which copies are authoritative, and whether the members of all copies are behind. */
void pool_authoritative(const struct pool *p, const struct pool_map *map, bool *authoritative,
			bool *all_behind);
/* Whether rows or copies are absent on members that are up and should have them. */
bool pool_is_incomplete(const struct pool *p, const struct pool_view *v);
/* Whether a copy has the same length, bytes, seal and epoch as the best one. */
bool pool_copy_is_current(const struct pool_view *v, uint32_t copy);

/*
 * Sets *out to whether the chunk has authoritative copies: it is open, or sealed and not yet
 * coded. -EIO when the members that could tell are down.
 */
int pool_has_copies(struct pool *p, struct chunk_id id, bool *out);

/* -EINVAL for an id that no chunk of a pool can have. */
int pool_check_id(struct chunk_id id);

/* Returns the cached head of a chunk; NULL if there is none or it is no longer valid. */
const struct pool_head *pool_head_find(struct pool *p, struct chunk_id id);
void pool_head_from_view(const struct pool *p, const struct pool_view *v, struct pool_head *out);
void pool_head_store(struct pool *p, const struct pool_view *v);
uint32_t *pool_delete_count(struct pool *p, struct chunk_id id);
void pool_head_forget(struct pool *p, struct chunk_id id);

/* --- pool_rows.c ------------------------------------------------------------------------------ */

/* Bytes [from, to) of a row in memory, with the CRC they were read or decoded with. */
struct pool_row {
	uint64_t from, to;
	uint8_t *bytes; /* NULL: not requested */
	uint32_t crc;
	bool owned; /* pool_rows_free frees bytes */
};

/*
 * Rows of a chunk. With a label, a read to the end of rows that are row_len long brings the label of the
 * layer above along, which follows them; label_got then. Those with given[r] are in memory already;
 * those with bad[r] are not asked for.
 */
struct pool_rows {
	struct pool *pool;
	struct chunk_id id;
	const struct pool_map *map;
	struct pool_row row[POOL_ROWS_MAX];
	bool given[POOL_ROWS_MAX];
	bool bad[POOL_ROWS_MAX];
	uint64_t row_len;
	uint8_t *label; /* STORE_LABEL_BYTES, or NULL */
	bool label_got;
};

/*
 * Reads [from, to) of the wanted rows, and decodes those that cannot be read from others. -ENODATA when
 * there are too few, -EBADMSG, -ENOMEM.
 */
int pool_rows_read(struct pool_rows *r, const bool *wanted, uint64_t from, uint64_t to);
/* The same without decoding, each row its own range (row[].from, to, when from < to). */
int pool_rows_fetch(struct pool_rows *r);
void pool_rows_free(struct pool_rows *r);

/*
 * Copies bytes [off, off + len) of the chunk out of data rows that hold them, and sets *crc to their CRC,
 * proved with the CRCs of the rows. -EBADMSG.
 */
int pool_rows_gather(const struct pool_rows *r, const struct pool_geo *g, uint64_t off, void *buf,
		     uint64_t len, uint32_t *crc);

/* --- pool_put.c ------------------------------------------------------------------------------- */

int pool_put(struct store *s, struct chunk_id id, const struct store_put *p);
int pool_delete(struct store *s, struct chunk_id id);
/*
 * Encodes contiguous bytes and puts the rows. Rows of an older chunk of this id are replaced,
 * unless they may still form a chunk: -EEXIST. The caller holds the chunk's lock.
 */
int pool_put_rows(struct pool *p, struct chunk_id id, const struct store_put *put,
		  const uint8_t *bytes);
/* Puts a row that is in memory, followed by the caller's label. */
int pool_row_put(struct pool *p, const struct pool_view *v, uint32_t row, const uint8_t *bytes,
		 uint32_t crc, const uint8_t label[STORE_LABEL_BYTES]);
/*
 * Deletes the rows of a chunk. *left is the number of rows that may remain, *removed of those that
 * were deleted.
 */
int pool_remove_rows(struct pool *p, const struct pool_map *map, struct chunk_id id, uint32_t *left,
		     uint32_t *removed);
/*
 * Deletes the copies of a chunk; *removed is their number. Members that may still have a copy are
 * recorded as behind. -EIO when an authoritative copy may remain.
 */
int pool_remove_copies(struct pool *p, const struct pool_map *map, struct chunk_id id,
		       uint32_t *removed);

/* --- pool_get.c ------------------------------------------------------------------------------- */

int pool_get(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
	     uint32_t *crc);
int pool_stat(struct store *s, struct chunk_id id, struct chunk_stat *out);
int64_t pool_list(struct store *s, struct store_cursor *at, struct chunk_id *out, size_t max);
/*
 * Lists the rows and copies of a member. 0 entries for a member that was given up, -ENODEV for one
 * that is down.
 */
int64_t pool_member_list(struct pool *p, uint32_t member, struct store_cursor *at,
			 struct chunk_id *out, size_t max);
/*
 * Lists chunks that members have rows or copies of, garbage included, each once; 0 at the end.
 * Members that cannot be listed are skipped and counted in *failed. If failed is NULL and more
 * than p members were skipped, the end is -EIO, since chunks may be missing from the list.
 */
int64_t pool_page(struct pool *p, struct store_cursor *at, struct chunk_id *out, size_t max,
		  uint64_t *failed);
/* Marks the list as incomplete: its end will be -EIO. */
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
 * Brings all copies up to date with the best one. Members on which that fails are recorded as
 * behind. The caller holds the chunk's lock.
 */
int pool_copies_sync(struct pool *p, struct pool_view *v);
/* Encodes a sealed chunk that is still in copies. The caller holds the chunk's lock. */
int pool_encode_sealed(struct pool *p, const struct pool_view *v);

/* --- pool_repair.c ---------------------------------------------------------------------------- */

/*
 * Writes rows that are absent or unknown, on members that accept them; *written is their number.
 * For an open chunk, brings its copies up to date. The caller holds the chunk's lock.
 */
int pool_rebuild_missing(struct pool *p, struct pool_view *v, uint32_t *written);
int64_t pool_scan(struct store *s, struct chunk_id id, struct store_range *bad, size_t max);

/* Damage of a chunk: one byte per stripe and row. */
struct pool_damage {
	uint64_t stripes;
	uint32_t width;
	uint8_t *bad;            /* [stripe * width + row] */
	bool end[POOL_ROWS_MAX]; /* the caller's label behind the row is damaged */
	bool any;
	bool lost; /* a stripe has more than p damaged rows */
};

/*
 * Whether a rebuild found more damage in the chunk than its missing rows; pool_note_damaged sets
 * or clears this.
 */
bool pool_may_be_damaged(const struct pool *p, struct chunk_id id);
void pool_note_damaged(struct pool *p, struct chunk_id id, bool damaged);

/* Treats rows that are not present as damaged and all others as intact. Reads nothing. */
int pool_damage_from_view(struct pool *p, const struct pool_view *v, struct pool_damage *d);
/* Scans all rows of a chunk for damage. */
int pool_damage_scan(struct pool *p, const struct pool_view *v, struct pool_damage *d);
void pool_damage_free(struct pool_damage *d);

#endif
