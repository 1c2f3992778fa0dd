// SPDX-License-Identifier: Apache-2.0
/*
 * Combining transactions. Committing costs about the same for one transaction as for a hundred (one
 * sync of a log, one replicated operation), so those that wait while a commit is under way go
 * together into the next one.
 *
 * A queue has one commit under way at a time. Whoever finds it idle leads: it takes what waits, in
 * order and up to the limits, commits that, hands each its own result, and passes the lead to the
 * first that still waits. There is no fiber that only serves others, and nothing to stop at close.
 *
 *   idle:    A arrives, leads                     commit {A}
 *   meanwhile B, C and D arrive and wait
 *   A done:  B leads                              commit {B, C, D}
 *
 * A request that waits may leave (cancelled, late): then it is not applied. Once it is taken into a
 * commit it stays to the end, because its result is being made.
 */
#ifndef KV_QUEUE_H
#define KV_QUEUE_H

#include "base/list.h"
#include "kv/kv.h"
#include "rt/sync.h"

#define KV_BATCH_TXNS_MAX 512
#define KV_BATCH_BYTES_MAX (4 * MIB)
#define KV_BATCH_ITEMS_MAX 8192 /* checks and writes together */
#define KV_QUEUE_MAX 16384      /* requests that may wait */

enum kv_pending_state {
	KV_WAITING, /* in the queue */
	KV_LEADING, /* in the queue, and to lead the next commit */
	KV_TAKEN,   /* in the commit under way */
	KV_DONE,
};

struct kv_pending {
	uint64_t partition;
	const struct kv_txn *txn;
	/* Set by the commit: */
	int rc;
	size_t failed; /* with -ESTALE */
	/* The queue's: */
	struct list link;
	enum kv_pending_state state;
	struct rt_cond changed;
};

/*
 * Commits n transactions, n > 0, as if one after the other in this order, and sets rc (and failed) of
 * each. Runs in the leader's fiber, shielded.
 */
typedef void kv_commit_fn(void *ctx, struct kv_pending **batch, size_t n);

struct kv_queue {
	struct list waiting;
	size_t waiting_count;
	bool busy;
	size_t txns_max;
	kv_commit_fn *commit;
	void *ctx;
};

/* txns_max 0 means KV_BATCH_TXNS_MAX. */
void kv_queue_init(struct kv_queue *q, size_t txns_max, kv_commit_fn *commit, void *ctx);

/* Nothing waits and nothing is under way. */
bool kv_queue_idle(const struct kv_queue *q);

/* Waits. The result of the transaction; or -EAGAIN, -ECANCELED, -ETIME: it was never taken. */
int kv_queue_submit(struct kv_queue *q, uint64_t partition, const struct kv_txn *txn,
		    size_t *failed);

#endif
