// SPDX-License-Identifier: Apache-2.0
/*
 * Quotas of directories: limits of the bytes and of the files and directories below a directory.
 *
 * The names below a directory are in many partitions, and a transaction changes one. So the quota has a ledger of its own,
 * a row in the partition of the tenant's account:
 *
 *   used = counted + before + since
 *
 * counted is the result of the last walk over the tree, `since` what operations added to the ledger since that walk began.
 * An operation that adds a name charges the ledger of every directory above it that has a quota, in one transaction, before
 * it stores the name, and is refused (-EDQUOT) if one of them has no room. When the operation failed, the charge is taken
 * back. An operation that removed a name gives its size back.
 *
 * The ledger errs on the side of "used": a charge whose operation crashed, is in doubt or was a repetition, a file that was
 * replaced, and names that the walk has seen and the ledger too, count until the next walk ends. It is never too low for
 * longer than that, and within that time by no more than
 *
 *   1. what directories that were moved into the tree hold beyond their last count (a move charges the usage that was counted
 *      last), and what was created in them at the time of the move;
 *   2. what was created while the quota was being set, for META_DIR_QUOTA_TTL_NS;
 *   3. the last extent of each log that is being written: it is charged when it ends, and not refused then.
 *
 * A count has three steps (quota_count.c), and `turn` counts them:
 *
 *   QUOTA_IDLE     ->  QUOTA_WAITING   before += since, since = 0
 *                  ->  QUOTA_WALKING   after META_NAMING_NS: names whose charge is in `before` are stored, or never will be
 *                  ->  QUOTA_IDLE      counted = what the walk found, before = 0
 *
 *   worked example: quota 100 files, counted 80. A creates 5 (since 5). The count begins (before 5, since 0), B creates 3
 *   (since 3), the walk finds 88 and ends: counted 88, before 0, since 3: used is 91 of 88 until the next count ends.
 *
 * Rules, by which the ledger is not too low:
 *   Q1 A charge comes before the name; the store has one log, so no name survives a crash without its charge.
 *   Q2 Something is given back only in the turn in which the operation looked at the ledger, and not while a walk runs: the
 *      walk may have missed the name that was removed. While a count waits, `before` gets it.
 *   Q3 A name that moves within the tree during a count is charged once more: the walk may miss it in both places.
 */
#ifndef META_QUOTA_H
#define META_QUOTA_H

#include "meta/impl.h"

enum quota_state { QUOTA_IDLE = 0, QUOTA_WAITING = 1, QUOTA_WALKING = 2 };

#define QUOTA_SUM_MAX (1LL << 61) /* limit of each sum of a ledger; larger sums stay there */

struct quota_place;

/* An operation on names that changes the usage of directories. */
struct quota_op {
	uint64_t from, to;     /* directories that lose and get names; 0: none */
	uint64_t bytes, files; /* what moves from `from` to `to` */
	uint64_t room_bytes;   /* more bytes for which there must be room, without a charge */
	bool anyway;           /* charge beyond the limits */
	/* set by quota_begin, and the memory of its arena */
	struct quota_place *places;
	size_t count;
};

/* Charges the quotas above `to`, and notes those above `from`. -EDQUOT: nothing was charged, and ctx->over says why. */
int quota_begin(struct meta *m, const struct meta_ctx *ctx, struct quota_op *op, struct arena *a);
/* Like quota_begin, for an operation that moves the object of an entry; sets op->bytes and op->files. A directory has its
 * usage as of the last count; one that was never counted and leaves its parent is counted first. */
int quota_moving(struct meta *m, const struct meta_ctx *ctx, const rec_entry *e,
		 struct quota_op *op, struct arena *a);
/* Ends the operation with its result: 0: op->bytes and op->files are gone from `from`; in doubt: nothing is given back;
 * else, also for META_ results: the charge is taken back. */
void quota_end(struct meta *m, const struct meta_ctx *ctx, struct quota_op *op, int rc);
/* Takes back a part of the charge: some names were not stored. */
void quota_undo(struct meta *m, const struct meta_ctx *ctx, const struct quota_op *op,
		uint64_t bytes, uint64_t files);

/* --- which directories have quotas -------------------------------------------------------------- */

/* Other servers know of a new quota after this time. */
#define META_DIR_QUOTA_TTL_NS (5 * NS_PER_S)

int quotas_open(struct quotas **out);
void quotas_close(struct quotas *q);
/* Sets *dirs to the directories of a tenant that have quotas, as of META_DIR_QUOTA_TTL_NS ago or later. */
int quota_dirs(struct meta *m, uint32_t tenant, struct arena *a, uint64_t **dirs, size_t *n);
/* Makes the next quota_dirs of this process read the store. */
void quota_dirs_forget(struct meta *m, uint32_t tenant);

/* --- rows --------------------------------------------------------------------------------------- */

/* Changes one ledger in a transaction, with fn, which may be called again after a concurrent change. Results of fn other
 * than 0 end the attempt: META_DONE: there is nothing to change, 0 is returned. -ENOENT: there is no such quota. */
typedef int quota_fn(rec_dir_quota *q, void *arg);
int quota_change(struct meta *m, uint32_t tenant, uint64_t dir, quota_fn *fn, void *arg);
uint64_t quota_used_bytes(const rec_dir_quota *q);
uint64_t quota_used_files(const rec_dir_quota *q);
/* Returns a + b within QUOTA_SUM_MAX. */
int64_t quota_sum(int64_t a, int64_t b);

/* Sets files_max and used_files of a tenant: from the ledger of its root, else as of the last count of usage. */
int quota_tenant_files(struct meta *m, uint32_t id, struct arena *a, struct meta_tenant *out);

/* --- counting: quota_count.c -------------------------------------------------------------------- */

/* The usage that a walk of this pass found: ends the count of the directory, if it has a quota that this pass counts. */
int quota_counted(struct meta *m, uint32_t tenant, uint64_t dir, uint64_t pass,
		  const struct meta_usage *u);
/* du.c: counts like meta_du_refresh, and ends the counts of this pass. */
int du_walk(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, uint64_t pass);

#endif
