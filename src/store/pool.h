// SPDX-License-Identifier: Apache-2.0
/*
 * A local erasure-coded pool: many stores that are one to the layers above, and survive the loss of
 * some. It is the lower level of multi-level erasure coding.
 *
 * Rows. A sealed chunk is cut into local stripes of k pieces, and p parity pieces are computed from
 * each; all pieces of one row, one of each stripe, are a chunk of one member store:
 *
 *      rs 2+1, pieces of 128 KiB, a chunk of 600 KiB      row 0      row 1      row 2
 *      stripe 0    bytes    0 -  256 KiB                  0-128      128-256    parity
 *      stripe 1           256 -  512                      256-384    384-512    parity
 *      stripe 2           512 -  600                      512-556    556-600    parity  (short: 44 KiB)
 *
 * so bytes at the same place of all rows are one codeword, and any k rows give all. Parity never
 * leaves the node. A chunk that is open for appends is kept as p + 1 whole copies and is coded when it
 * is sealed. A member knows rows as chunks (block, index * 256 + row), copies as rows 128, 129, ...
 *
 * Placement. Which members hold the rows of a chunk follows from its id, by the placements of
 * code/place.h: clustered (sets of k + p members that share everything), declustered (any k + p of
 * all) or single-overlap. When a member of the latter two is given up, its rows move to spare space
 * of others, each to a member without a row of the same chunk. Clustered pools wait for a
 * replacement. What was given up or replaced, in which order, is in a record that every member keeps.
 *
 * What exists. A put is acknowledged when at least k rows are durable (k + 1 where p > 1) and those that
 * are not belong to members that are down; a delete when fewer than k rows can be left. So with
 *
 *      present   rows that their member has
 *      unknown   rows of members that are down or being rebuilt, or that are damaged
 *
 * a chunk is there when present >= k; it is lost, but may come back, when only present + unknown >= k
 * (-ENODATA); otherwise it never was, or is deleted, and what is left of it is rubbish (-ENOENT). A
 * chunk that is there but lacks rows of healthy members was cut short by a crash, and is completed
 * when it is first used.
 *
 * Of open chunks, at least two copies must take a change, and all whose members are up. A member that
 * was down then is behind: that is in the record before the change is acknowledged, and what it has of
 * open chunks is not believed until a rebuild has brought it level and removed what was deleted
 * meanwhile. So a chunk in copies is there when a member that is not behind has it. Where all its members
 * are behind, those that were the last to fall behind are believed: a change must be on one of the members
 * that are believed, and on all of them when these are behind, or it is not acknowledged. A member that
 * lacks rows is not behind: rows prove themselves.
 *
 * Repair. store_pool_rebuild brings back every row that the code can give, chunks with the most losses
 * first. What it cannot, store_pool_losses lists exactly: stripes, rows and bytes of which chunks.
 * Whoever can get these bytes elsewhere (from other racks) hands in just as many rows of each stripe
 * as the local code lacks, or more, and store_pool_patch does the rest. That is what R_HYB and R_MIN need of
 * a pool. R_FCO also wants to know what failed but is not lost (store_pool_failures), and R_ALL and R_FCO
 * that the pool does not rebuild it (store_pool_set_external_repair).
 */
#ifndef STORE_POOL_H
#define STORE_POOL_H

#include "code/place.h"
#include "store/store.h"

#define POOL_ROWS_MAX 128 /* k + p */
#define POOL_PARITY_MAX 15
#define POOL_MEMBERS_MAX 512
#define POOL_INDEX_MAX 0xffffff /* the rest of a member's index is the row */
#define POOL_BLOCK_MAX (UINT64_MAX - 1)
#define POOL_LOSS_WORDS 4 /* words of 32 rows */

struct store_pool_shape {
	uint64_t id; /* of the pool, the same on all members */
	uint32_t k;
	uint32_t p; /* 1 to POOL_PARITY_MAX */
	uint32_t members;
	enum place_kind place;
	uint32_t piece_bytes; /* a multiple of 4 KiB; 0: 128 KiB */
};

/*
 * Makes a pool of members, which hold none yet. All of them must work. -EINVAL with a reason in the log
 * for an impossible shape, -EEXIST when a member belongs to a pool.
 */
int store_pool_format(const struct store_pool_shape *shape, struct store *const *members);

/*
 * Opens a pool; a member may be NULL, then it is down. Takes the members when it returns 0. -EINVAL,
 * -ESTALE when a member belongs to another pool or another place in this one, -ENODATA when too few
 * members have a record of the pool to know that one of them is the last (at most half of those that are
 * not given up may be missing), -EBADMSG when the shape is not that of the record or records contradict
 * each other.
 */
int store_pool_open_take(const struct store_pool_shape *shape, struct store *const *members,
			 struct store **out);

/* Gives up a member for good: its rows move to spare space (declustered, single-overlap) or wait for a
 * replacement (clustered). Closes it. -EINVAL, -EALREADY. */
int store_pool_give_up(struct store *s, uint32_t member);

/* Puts an empty store in the place of a member that is down or was given up. Its rows have to be
 * rebuilt. Takes fresh when it returns 0. -EINVAL, -EBUSY when the member is up and not given up. */
int store_pool_replace_take(struct store *s, uint32_t member, struct store *fresh);

/*
 * Puts a member back with all that it has: one that was down, or was given up and has come back. What it
 * missed meanwhile is rebuilt. Takes back when it returns 0. -EINVAL, -EBUSY when there is a store in its
 * place; -ENOENT and -ESTALE when the store is not this member, or another one has replaced it since;
 * -EAGAIN when it knows more than the pool does: open the pool again. One whose record is damaged is taken at the
 * caller's word when no store has ever taken its place, else -EBADMSG.
 */
int store_pool_return_take(struct store *s, uint32_t member, struct store *back);

/* Looks at the record of the pool that a member has, and writes it anew when it is damaged or not the last. */
int store_pool_record_repair(struct store *s, uint32_t member);

/* Closes a member that has failed; it is down then, and may return. -EINVAL, -EBUSY when it has not. */
int store_pool_close_failed(struct store *s, uint32_t member);

/* The store of a member, the pool's; NULL when it is down or was given up. Who waits in a call to it must
 * have it in use: only then is it not closed meanwhile. */
struct store *store_pool_member(struct store *s, uint32_t member);
/* As store_pool_member; when it is not NULL, store_pool_member_done follows. */
struct store *store_pool_member_use(struct store *s, uint32_t member);
void store_pool_member_done(struct store *s, uint32_t member);
bool store_pool_given_up(struct store *s, uint32_t member);
/* Whether the member was given up, replaced or returned and what that moved is not all rebuilt. */
bool store_pool_unsettled(struct store *s, uint32_t member);

/*
 * What a store that is no pool's yet knows of the pool it was a member of: where in it, and how new that
 * is. -ENOENT when it was of none, -EBADMSG.
 */
struct store_pool_place {
	uint64_t pool;
	uint32_t member;
	uint64_t generation;
};
int store_pool_identify(struct store *member, struct store_pool_place *out);

struct store_pool_progress {
	uint64_t chunks;  /* looked at */
	uint64_t rebuilt; /* rows written */
	uint64_t bytes;   /* of them */
	uint64_t failed;  /* rows that could not be read or written just now */
	uint64_t lost;    /* chunks with more losses than the code bears */
};

/*
 * Rebuilds what members that were given up, replaced or down for a while lack, and removes what they
 * have of chunks that were deleted, `parallel` chunks at a time. Goes on where
 * it can; 0 when every row is there, -ENODATA when chunks are lost, -EIO when rows could not be rebuilt
 * for another reason: call it again. May be called at any time, also when nothing is missing.
 */
int store_pool_rebuild(struct store *s, uint32_t parallel, struct store_pool_progress *out);

/*
 * Whether a pool that has lost more than its code bears leaves also that alone which it could rebuild: then
 * store_pool_rebuild writes nothing, and is -ENODATA, as long as there is a chunk that is lost. For repair
 * methods that bring all that failed from elsewhere. Not kept: set it after each open.
 */
void store_pool_set_external_repair(struct store *s, bool outside);

/* Whether members are behind, or were given up or replaced since the last rebuild that brought back every
 * row. */
bool store_pool_rebuild_due(struct store *s);

/*
 * Rebuilds of this pool do each chunk inside pace(ctx, work, arg): it calls work(arg) when the disks have
 * time for it, and returns 0; or returns an error without calling it, and the chunk counts as failed. It
 * may wait, and runs for up to `parallel` chunks at once. NULL: none.
 */
void store_pool_set_pace(struct store *s,
			 int (*pace)(void *ctx, void (*work)(void *arg), void *arg), void *ctx);

/* How many members are behind: they missed changes while they were down, and a rebuild is due. */
uint32_t store_pool_behind_count(struct store *s);

/* Stripes of a chunk, one after the other, that have lost the same rows, more than p of them. */
struct store_pool_loss {
	struct chunk_id id;
	uint64_t chunk_len;
	uint64_t first_stripe;
	uint64_t stripes;
	uint32_t lost[POOL_LOSS_WORDS]; /* a bit for each row */
	uint32_t lost_rows;
	uint32_t need; /* how many of them, of the data rows, must be brought */
	uint32_t k;
	uint32_t piece_bytes;
	/* It was open, and what is left of its copies is not to be believed: nothing else is set, and
	 * nothing can be patched. It can be deleted and put anew. */
	bool open;
};

/*
 * What is lost, chunk after chunk in the order of list. Reads the rows of chunks that lack some, but not more
 * than the code bears; of others only what tells that they are whole (use scan for rot). Returns the number of losses, 0 at the end. A
 * chunk's losses are not divided over calls: max must hold POOL_CHUNK_LOSSES_MAX.
 */
#define POOL_CHUNK_LOSSES_MAX 16
int64_t store_pool_losses(struct store *s, struct store_cursor *at, struct store_pool_loss *out,
			  size_t max);
/* The same of every stripe with failed rows, whether the pool can repair it (need is 0 then) or not. */
int64_t store_pool_failures(struct store *s, struct store_cursor *at, struct store_pool_loss *out,
			    size_t max);

/* The bytes of the chunk that a data row has of a stripe; len is 0 when the chunk ends before. */
struct store_range store_pool_piece(const struct store_pool_loss *loss, uint64_t stripe,
				    uint32_t row);

/* Bytes of data rows brought from elsewhere: the pieces of one row in stripes of a loss, each as long as
 * store_pool_piece says, one after the other. */
struct store_pool_piece_run {
	uint32_t row;
	uint64_t first_stripe;
	uint64_t stripes;
	struct store_data data;
};

/*
 * Makes a chunk whole from what is left of it and the pieces brought, and writes all lost rows. The
 * result is written only when it has the CRC of the chunk. -ENODATA when it is still too little,
 * -EBADMSG when pieces are not what they claim or do not fit, -EINVAL, -ENOENT.
 */
int store_pool_patch(struct store *s, struct chunk_id id, const struct store_pool_piece_run *runs,
		     size_t n);

/* Which member holds a row of a chunk now; -ENXIO when none does. */
int store_pool_row_member(struct store *s, struct chunk_id id, uint32_t row);

#endif
