// SPDX-License-Identifier: Apache-2.0
/*
 * A local erasure-coded pool: many member stores that act as one store and survive the loss of some
 * of them. It is the lower level of multi-level erasure coding (MLEC).
 *
 * Rows. A sealed chunk is cut into local stripes of k pieces, and p parity pieces are computed for
 * each stripe. Row r consists of piece r of every stripe; a member keeps each row as one chunk:
 *
 *      rs 2+1, pieces of 128 KiB, a chunk of 600 KiB      row 0      row 1      row 2
 *      stripe 0    bytes    0 -  256 KiB                  0-128      128-256    parity
 *      stripe 1           256 -  512                      256-384    384-512    parity
 *      stripe 2           512 -  600                      512-556    556-600    parity  (short: 44 KiB)
 *
 * So the bytes at one offset of all rows are one codeword, and any k rows give all the others. Parity
 * never leaves the node. A chunk that is open for appends is kept as p + 1 complete copies and is
 * encoded into rows after it is sealed. A member stores row r as chunk (block, index * 256 + r) and
 * copy c as chunk (block, index * 256 + 128 + c).
 *
 * Placement. The id of a chunk determines which members hold its rows, by the placements of
 * code/place.h: clustered (sets of k + p members that share everything), declustered (any k + p of
 * all) or single-overlap. When a member of a declustered or single-overlap pool is given up, its rows
 * move to spare space of other members, each to a member without a row of the same chunk. A clustered
 * pool waits for a replacement. The pool record, which every member keeps, lists the members that were
 * given up or replaced, in order (the events).
 *
 * When a coded chunk exists. A put is acknowledged when at least k rows are durable (k + 1 where
 * p > 1) and every row that is not durable belongs to a member that is down. A delete is acknowledged
 * when fewer than k rows can be left. With
 *
 *      present   the number of rows that their members have
 *      unknown   the number of rows that are damaged, or whose members are down or being rebuilt
 *
 *   - the chunk exists if present >= k;
 *   - it is lost, and may become readable again, if only present + unknown >= k (-ENODATA; without any row -EIO,
 *     or -EBADMSG if the heads of so many rows are damaged that no member that returns can change it);
 *   - otherwise it was never put or was deleted, and its remaining rows are garbage (-ENOENT).
 *
 * A crash during a put can leave a chunk that exists but lacks rows on healthy members. The pool writes
 * these rows when the chunk is first used.
 *
 * When an open chunk exists. A change of an open chunk is acknowledged when every copy whose member is
 * up has it, and at least two copies do. A member that was down is then behind, and the pool record
 * says so before the change is acknowledged. Its copies of open chunks are not used until a rebuild has
 * brought them up to date and has removed the copies of chunks that were deleted while it was down. So
 * an open chunk exists if a member that is not behind has a copy. The copies that decide are called
 * authoritative: those on members that are not behind, or, if all members of the chunk are behind,
 * those on the members that fell behind last. A change is acknowledged only if an authoritative copy
 * has it, or, if all members are behind, if every authoritative copy has it. A missing row does not make
 * a member fall behind: the label of a row shows which chunk it belongs to.
 *
 * Repair. store_pool_rebuild writes every missing row that the local code can reconstruct, chunks with
 * the most losses first. store_pool_losses lists exactly what it cannot: stripes, rows and bytes of each
 * chunk. A caller that can get these bytes from other racks passes as many rows of each stripe as the
 * local code lacks, or more, to store_pool_patch, which reconstructs the rest. The repair methods R_HYB
 * and R_MIN need no more than this. R_FCO also needs the failed rows that are not lost
 * (store_pool_failures). R_ALL and R_FCO need the pool to leave all rebuilding to them
 * (store_pool_set_external_repair).
 */
#ifndef STORE_POOL_H
#define STORE_POOL_H

#include "code/place_kind.h"
#include "store/store.h"

#define POOL_ROWS_MAX 128 /* maximum of k + p */
#define POOL_PARITY_MAX 15
#define POOL_MEMBERS_MAX 512
/* highest index of a chunk; a member's own index has the row in its low 8 bits */
#define POOL_INDEX_MAX 0xffffff
#define POOL_BLOCK_MAX (UINT64_MAX - 1)
#define POOL_LOSS_WORDS 4 /* number of 32-bit words in a bit mask of rows */

struct store_pool_shape {
	uint64_t id; /* pool id, equal on all members */
	uint32_t k;  /* number of data rows */
	uint32_t p;  /* number of parity rows, 1 to POOL_PARITY_MAX */
	uint32_t members;
	enum place_kind place;
	uint32_t piece_bytes; /* bytes of a piece, a multiple of 4 KiB; 0: 128 KiB */
};

/*
 * Creates a pool of members that belong to no pool yet. All members must be up. -EINVAL for an
 * impossible shape, with the reason in the log; -EEXIST when a member already belongs to a pool.
 */
int store_pool_format(const struct store_pool_shape *shape, struct store *const *members);

/*
 * Opens a pool. A member that is NULL is down. The pool owns the members when this returns 0.
 * -EINVAL; -ESTALE when a member belongs to another pool or to another position in this one;
 * -ENODATA when too few members have a pool record to be sure that the newest one is among them (at
 * most half of the members that are not given up may lack it); -EBADMSG when the record has another
 * shape or two records contradict each other.
 */
int store_pool_open_take(const struct store_pool_shape *shape, struct store *const *members,
			 struct store **out);

/*
 * Gives up a member for good and closes its store. In a declustered or single-overlap pool its rows
 * move to spare space; in a clustered pool they wait for a replacement. -EINVAL, -EALREADY.
 */
int store_pool_give_up(struct store *s, uint32_t member);

/*
 * Puts an empty store in the place of a member that is down or was given up. A rebuild must then
 * write the rows of this member. The pool owns fresh when this returns 0. -EINVAL, -EBUSY when the
 * member is up and was not given up.
 */
int store_pool_replace_take(struct store *s, uint32_t member, struct store *fresh);

/*
 * Puts a member back with all rows that it has stored: a member that was down, or was given up and
 * works again. A rebuild writes the rows that it missed. The pool owns the store `back` when this
 * returns 0. -EINVAL; -EBUSY when another store is in its place; -ENOENT and -ESTALE when the store
 * is not this member, or a replacement took the place of the member; -EAGAIN when the pool record
 * on the store is newer than the pool's: open the pool again. If the record on the store is
 * damaged, the caller is trusted to name the right member, unless a replacement ever took its
 * place: then -EBADMSG.
 */
int store_pool_return_take(struct store *s, uint32_t member, struct store *back);

/*
 * Compares the pool record on a member with the current one and rewrites the member's record when
 * it is damaged or outdated.
 */
int store_pool_record_repair(struct store *s, uint32_t member);

/*
 * Closes the store of a member in state failed. The member is then down and may return. -EINVAL,
 * -EBUSY when the member is not failed.
 */
int store_pool_close_failed(struct store *s, uint32_t member);

/*
 * Returns the store of a member, which the pool owns; NULL when the member is down or given up. A
 * caller that waits inside a call to this store must use store_pool_member_use, or the store may
 * be closed during the call.
 */
struct store *store_pool_member(struct store *s, uint32_t member);
/*
 * Returns the store of a member as store_pool_member does, and keeps the store open until the
 * caller calls store_pool_member_done, which it must do unless this returned NULL.
 */
struct store *store_pool_member_use(struct store *s, uint32_t member);
void store_pool_member_done(struct store *s, uint32_t member);
bool store_pool_given_up(struct store *s, uint32_t member);
/*
 * Returns whether an event (member given up, replaced or returned) of this member moved rows that
 * are not all rebuilt yet.
 */
bool store_pool_unsettled(struct store *s, uint32_t member);

/*
 * Membership of a store as its pool record describes it, read without opening the pool. -ENOENT
 * when the store has no record, -EBADMSG when the record is damaged.
 */
struct store_pool_place {
	uint64_t pool;
	uint32_t member;
	uint64_t generation;
};
int store_pool_identify(struct store *member, struct store_pool_place *out);

struct store_pool_progress {
	uint64_t chunks;  /* number of chunks examined */
	uint64_t rebuilt; /* number of rows written */
	uint64_t bytes;   /* bytes of the rows written */
	uint64_t failed;  /* number of rows that could not be read or written in this pass */
	uint64_t lost;    /* number of chunks with more losses than the code tolerates */
};

/*
 * Rebuilds the rows and copies that members lack after being given up, replaced or down, and
 * deletes the rows and copies of deleted chunks. Works on `parallel` chunks at a time and continues
 * after failures. 0 when every row is present; -ENODATA when chunks are lost; -EIO when rows could
 * not be rebuilt for another reason: call this function again. The call is allowed at any time,
 * even if no row is missing.
 */
int store_pool_rebuild(struct store *s, uint32_t parallel, struct store_pool_progress *out);

/*
 * Selects who rebuilds in a pool that has lost chunks. With external set, repair methods that bring
 * all failed rows from other racks rebuild all chunks, even those that the pool could rebuild:
 * store_pool_rebuild then writes nothing and returns -ENODATA as long as a chunk is lost. The
 * setting is not durable: the caller sets it after each open.
 */
void store_pool_set_external_repair(struct store *s, bool external);

/*
 * Returns whether a rebuild has work: members are behind or lack rows, or an event is newer than
 * the last complete rebuild.
 */
bool store_pool_rebuild_due(struct store *s);

/*
 * Sets the function that paces rebuilds. Each chunk of a later rebuild is rebuilt inside pace(ctx,
 * work, arg), which calls work(arg) when the disks have time for it and returns 0; or returns an
 * error without calling work, and the chunk counts as failed. pace may wait, and runs for up to
 * `parallel` chunks at once. NULL: rebuild without pacing.
 */
void store_pool_set_pace(struct store *s,
			 int (*pace)(void *ctx, void (*work)(void *arg), void *arg), void *ctx);

/*
 * Returns the number of members that are behind: they missed changes while they were down and need
 * a rebuild.
 */
uint32_t store_pool_behind_count(struct store *s);

/* A run of consecutive stripes of a chunk that have lost the same rows, more than p of them. */
struct store_pool_loss {
	struct chunk_id id;
	uint64_t chunk_len;
	uint64_t first_stripe;
	uint64_t stripes;
	uint32_t lost[POOL_LOSS_WORDS]; /* one bit per row */
	uint32_t lost_rows;
	uint32_t need; /* number of lost data rows that the caller must supply */
	uint32_t k;
	uint32_t piece_bytes;
	/*
	 * The chunk was open and none of its remaining copies is authoritative. Only id and open
	 * are set. The chunk cannot be patched, only deleted and put again.
	 */
	bool open;
};

/*
 * Lists lost stripes, chunk after chunk, in the order of list. Scans the rows of a chunk for damage
 * only if it lacks some rows but no more than the code tolerates; the scan call finds damage in
 * chunks that lack no row. Returns the number of losses, 0 at the end. The losses of one chunk are
 * returned by one call: max must be at least POOL_CHUNK_LOSSES_MAX.
 */
#define POOL_CHUNK_LOSSES_MAX 16
int64_t store_pool_losses(struct store *s, struct store_cursor *at, struct store_pool_loss *out,
			  size_t max);
/*
 * Lists, as store_pool_losses does, every stripe with failed rows, including those that the pool
 * can rebuild (their need is 0).
 */
int64_t store_pool_failures(struct store *s, struct store_cursor *at, struct store_pool_loss *out,
			    size_t max);

/*
 * Returns the range of the chunk that a data row keeps in a stripe. Its len is 0 past the end of
 * the chunk.
 */
struct store_range store_pool_piece(const struct store_pool_loss *loss, uint64_t stripe,
				    uint32_t row);

/*
 * Supplied bytes of a data row: the row's pieces in consecutive stripes of a loss, one after the
 * other, each with the length that store_pool_piece returns.
 */
struct store_pool_piece_run {
	uint32_t row;
	uint64_t first_stripe;
	uint64_t stripes;
	struct store_data data;
};

/*
 * Reconstructs a chunk from its remaining rows and the supplied pieces, and writes all lost rows.
 * Writes no row unless the reconstructed bytes have the CRC of the chunk. -ENODATA when the pieces
 * are too few, -EBADMSG when pieces do not match their CRC or the chunk, -EINVAL, -ENOENT.
 */
int store_pool_patch(struct store *s, struct chunk_id id, const struct store_pool_piece_run *runs,
		     size_t n);

/* Returns the member that should hold a row of a chunk now; -ENXIO when no member does. */
int store_pool_row_member(struct store *s, struct chunk_id id, uint32_t row);

#endif
