// SPDX-License-Identifier: Apache-2.0
/*
 * Inside pool: what its files know of each other.
 *
 *   pool.c          format, open, close, members that come and go
 *   pool_layout.c   where bytes are: pure functions
 *   pool_lookup.c     calls to members side by side; what there is of a chunk
 *   pool_rows.c     reading rows, decoding those that cannot be read
 *   pool_put.c      put, delete
 *   pool_get.c      get, stat, list
 *   pool_append.c   open chunks: copies, append, seal
 *   pool_repair.c   damage, rebuilding rows of a chunk, scan, patch
 *   pool_rebuild.c  passes over all chunks: rebuild, losses
 */
#ifndef STORE_POOL_IMPL_H
#define STORE_POOL_IMPL_H

#include "base/list.h"
#include "base/map.h"
#include "code/codec.h"
#include "rt/sync.h"
#include "store/pool_layout.h"

#define POOL_WINDOW_BYTES (4 * MIB) /* of a chunk that a read works on at once */
#define POOL_HEADS 1024
#define POOL_DELETE_COUNTS 256
#define POOL_DAMAGED_MAX 65536
#define POOL_COPY_SKIP 4096 /* in front of the bytes of a copy: the label of the layer above */

/* What is remembered of a coded chunk, which never changes while it exists. */
struct pool_head {
	bool valid;
	bool complete; /* all rows were there */
	uint64_t
		return_count; /* pool.return_count then: when it is not complete, it is looked at again after */
	struct chunk_id id;
	uint64_t epoch;
	struct pool_label label;
	uint8_t bad[POOL_ROWS_MAX / 8]; /* a bit for each row that is not to be read */
};

struct pool {
	struct store base;
	struct pool_record record;
	struct place place;
	struct codec *codec;
	struct store *members[POOL_MEMBERS_MAX]; /* NULL: down */
	uint32_t users[POOL_MEMBERS_MAX];        /* calls under way */
	bool failing[POOL_MEMBERS_MAX];          /* the last call says it is down */
	uint64_t return_count;                   /* how often one stopped to be so */
	uint32_t missed[POOL_MEMBERS_MAX];       /* changes, or being listed, since it was opened */
	struct rt_cond member_idle;
	struct rt_mutex record_lock; /* held while the record is changed */
	bool record_may_differ; /* a member may have one that does not count, or few have this */
	uint64_t generation;    /* the last that was used, whether it came to count or not */
	uint8_t record_slot[POOL_MEMBERS_MAX]; /* where a member has its newest record */
	bool unlisted[POOL_MEMBERS_MAX];       /* it could not be listed when that was last tried */
	enum store_state admin_state;          /* online, draining or failed, as control says */
	uint64_t reserved_bytes;
	uint64_t checksum_errors;
	uint64_t io_errors;

	bool outside; /* see store_pool_set_external_repair */
	/* Chunks that a rebuild could not make whole though few enough rows are missing: others are rotten. By hash;
	 * when they become too many, all are in doubt. */
	struct map damaged_chunks;
	bool all_may_be_damaged;
	/* Around each chunk of a rebuild; may be NULL. */
	int (*pace)(void *ctx, void (*work)(void *arg), void *arg);
	void *pace_ctx;

	/* Chunks that somebody changes: one at a time. */
	struct list locked_chunks; /* struct pool_chunk_lock, oldest first */
	uint64_t locks_taken;      /* since the pool was opened */
	struct rt_cond chunk_unlocked;
	uint32_t delete_counts
		[POOL_DELETE_COUNTS]; /* of chunks, by hash: who reads sees that one came between */

	struct pool_head heads[POOL_HEADS];
};

static inline struct pool *pool_of(struct store *s)
{
	return container_of(s, struct pool, base);
}

static inline uint32_t pool_width(const struct pool *p)
{
	return p->record.shape.k + p->record.shape.p;
}

/* --- pool.c ----------------------------------------------------------------------------------- */

/* Fills in defaults and lays out the members. -EINVAL, with the reason in the log. */
int pool_shape_check(struct store_pool_shape *s, struct place *place);

/* --- pool_record.c ---------------------------------------------------------------------------- */

bool pool_record_gave_up(const struct pool_record *r, uint32_t member);
/* Of how many members, and how many of them must have a record for it to count. */
uint32_t pool_record_quorum(const struct pool_record *r, uint32_t *of);
/* The newer of the two records of a member, and where it is. -ENOENT when it has none. */
int pool_record_get(struct store *m, struct pool_record *out, uint8_t *slot);
/* Writes the record as it should be from now on. Enough members must take it, and a store that takes the
 * place of a member with it (NULL: none does). */
int pool_record_change(struct pool *p, const struct pool_record *to, uint32_t member,
		       struct store *fresh);

/* --- pool_member.c ---------------------------------------------------------------------------- */

bool pool_is_given_up(const struct pool *p, uint32_t member);
/* The number of events up to the last that put another store in the place of the member; 0: none did. */
uint32_t pool_replaced_until(const struct pool_record *r, uint32_t member);
/* Everything that the first `events` events sent elsewhere is there, and what members had missed when
 * they had missed[] changes: records it. */
int pool_record_rebuilt(struct pool *p, uint32_t events, const uint32_t missed[POOL_MEMBERS_MAX]);
/*
 * Members have missed a change, which is recorded before the change is acknowledged. Of copies: they are
 * behind, and what they have is not believed until a rebuild has brought them level. Of rows: these prove
 * themselves, so that only a rebuild is due.
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
	uint16_t member; /* POOL_NOWHERE: -ENODEV */
	struct chunk_id id;
	bool to_end; /* whatever the caller's deadline says */
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

/* Runs them side by side and waits for all. */
void pool_jobs_run(struct pool_job *jobs, uint32_t n);
struct pool_job *pool_jobs_new(struct pool *p, uint32_t n, enum pool_call call);

struct pool_chunk_lock {
	struct list link;
	uint64_t number;
	struct chunk_id id;
};

/* One at a time changes a chunk. Waits. */
int pool_lock_chunk(struct pool *p, struct pool_chunk_lock *h, struct chunk_id id);
void pool_unlock_chunk(struct pool *p, struct pool_chunk_lock *h);
/* Waits until those that are held now are released. */
int pool_wait_for_locked(struct pool *p);

enum pool_form { POOL_NONE, POOL_CODED, POOL_COPIES };

/* What there is of a chunk. */
struct pool_view {
	struct chunk_id id;
	struct pool_map map;
	enum pool_form form;
	/* coded */
	int row_rc
		[POOL_ROWS_MAX]; /* 0 present, -ENOENT or -ESTALE (of another) absent, else unknown */
	uint32_t present, unknown;
	struct pool_label label; /* of a present row, when there is one */
	struct pool_geo geo;
	uint64_t epoch; /* the highest of rows or copies */
	/* copies: number 0 to p; -ESTALE when there is one that is not authoritative */
	int copy_rc[POOL_PARITY_MAX + 1];
	struct chunk_stat copy_st[POOL_PARITY_MAX + 1];
	/* Members that are level, or where none is those that were the last to fall behind. */
	bool authoritative[POOL_PARITY_MAX + 1];
	bool all_behind;
	bool awaited[POOL_PARITY_MAX + 1]; /* an event sent it there, and it has not arrived */
	uint32_t copies_present, copies_unknown, copies_behind;
	uint32_t best_copy; /* the longest */
};

/*
 * Asks the members. 0 when the chunk is there; -ENODATA when it is lost, and then label and geo say what
 * it was, or it was open (form POOL_COPIES); -ENOENT, also for rubbish; -EIO when too many members are
 * down to tell.
 */
int pool_lookup(struct pool *p, struct chunk_id id, struct pool_view *v);
/* Whose copies are believed; whether all members of them are behind. */
void pool_authoritative(const struct pool *p, const struct pool_map *map, bool *authoritative,
			bool *all_behind);
/* Are rows or copies missing whose members would have to have them? */
bool pool_is_incomplete(const struct pool *p, const struct pool_view *v);
/* Is a copy that is there as the best one? */
bool pool_copy_is_current(const struct pool_view *v, uint32_t copy);

/* 1 when the chunk is open, or sealed and still copies; -EIO when nobody can tell who would know. */
int pool_has_copies(struct pool *p, struct chunk_id id);

/* Names that can be of a pool's chunk: -EINVAL. */
int pool_check_id(struct chunk_id id);

/* NULL when nothing is remembered that still holds. */
const struct pool_head *pool_head_find(struct pool *p, struct chunk_id id);
void pool_head_from_view(const struct pool *p, const struct pool_view *v, struct pool_head *out);
void pool_head_store(struct pool *p, const struct pool_view *v);
uint32_t *pool_delete_count(struct pool *p, struct chunk_id id);
void pool_head_forget(struct pool *p, struct chunk_id id);

/* --- pool_rows.c ------------------------------------------------------------------------------ */

/* Bytes [from, to) of a row in memory, with the CRC they were read or decoded with. */
struct pool_row {
	uint64_t from, to;
	uint8_t *bytes; /* NULL: not wanted */
	uint32_t crc;
	bool owned; /* bytes is freed by pool_rows_free */
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
/* Codes bytes in one piece and puts the rows; what is there of them already is rubbish. Held. */
int pool_put_rows(struct pool *p, struct chunk_id id, const struct store_put *put,
		  const uint8_t *bytes);
/* Puts rows that are in memory, with what follows them: the label of the layer above. */
int pool_row_put(struct pool *p, const struct pool_view *v, uint32_t row, const uint8_t *bytes,
		 uint32_t crc, const uint8_t label[STORE_LABEL_BYTES]);
/* Removes rows; how many may be left, and were there. */
int pool_remove_rows(struct pool *p, const struct pool_map *map, struct chunk_id id, uint32_t *left,
		     uint32_t *were);
/* Removes copies; how many were there. Members that may have one left are behind then. -EIO when
 * those that are believed may have one. */
int pool_remove_copies(struct pool *p, const struct pool_map *map, struct chunk_id id,
		       uint32_t *were);

/* --- pool_get.c ------------------------------------------------------------------------------- */

int pool_get(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
	     uint32_t *crc);
int pool_stat(struct store *s, struct chunk_id id, struct chunk_stat *out);
int64_t pool_list(struct store *s, struct store_cursor *at, struct chunk_id *out, size_t max);
/* What a member has, rows and copies; nothing when it was given up, -ENODEV when it is down. */
int64_t pool_member_list(struct pool *p, uint32_t member, struct store_cursor *at,
			 struct chunk_id *out, size_t max);
/*
 * Some chunks that members know of, rubbish or not, each once; 0 at the end. Members that cannot be
 * listed are passed over and counted in *failed; without it, the end is -EIO when they are more than p,
 * since there may be chunks that nobody else knows of.
 */
int64_t pool_page(struct pool *p, struct store_cursor *at, struct chunk_id *out, size_t max,
		  uint64_t *failed);
/* This list is not all: its end is -EIO. */
void pool_page_set_incomplete(const struct pool *p, struct store_cursor *at);
/* The label of the layer above, from any row or copy. */
int pool_upper_label(struct pool *p, const struct pool_view *v, uint8_t out[STORE_LABEL_BYTES]);

/* --- pool_append.c ---------------------------------------------------------------------------- */

int pool_put_copies(struct pool *p, struct chunk_id id, const struct store_put *put);
int pool_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
		const struct store_data *data);
int pool_seal(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len);
int pool_copies_stat(struct pool *p, const struct pool_view *v, struct chunk_stat *out);
int pool_copies_get(struct pool *p, const struct pool_view *v, uint64_t off, void *buf,
		    uint64_t len, uint32_t *crc);
/* Makes all copies like the best one; members on which that is not possible are behind then. Held. */
int pool_copies_sync(struct pool *p, struct pool_view *v);
/* Codes a sealed chunk that is still in copies. Held. */
int pool_encode_sealed(struct pool *p, const struct pool_view *v);

/* --- pool_repair.c ---------------------------------------------------------------------------- */

/* Rebuilds rows that are absent or unknown, where their members take them. Held. *written counts rows. */
int pool_rebuild_missing(struct pool *p, struct pool_view *v, uint32_t *written);
int64_t pool_scan(struct store *s, struct chunk_id id, struct store_range *bad, size_t max);

/* What of a chunk is damaged: a byte for each stripe and row. */
struct pool_damage {
	uint64_t stripes;
	uint32_t width;
	uint8_t *bad;            /* [stripe * width + row] */
	bool end[POOL_ROWS_MAX]; /* what follows the row: the label of the layer above */
	bool any;
	bool lost; /* a stripe has more than p */
};

/* Whether rows of the chunk may be rotten that are taken for good; notes it, or that it is not so. */
bool pool_may_be_damaged(const struct pool *p, struct chunk_id id);
void pool_note_damaged(struct pool *p, struct chunk_id id, bool doubt);

/* Rows that are not there, as if the others were good: reads nothing. */
int pool_missing(struct pool *p, const struct pool_view *v, struct pool_damage *d);
/* Reads all rows of a chunk. */
int pool_inspect(struct pool *p, const struct pool_view *v, struct pool_damage *d);
void pool_damage_free(struct pool_damage *d);

#endif
