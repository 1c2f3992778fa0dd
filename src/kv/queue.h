// SPDX-License-Identifier: Apache-2.0
/*
 * Group commit. A commit costs about the same for one transaction as for a hundred (one sync of a log, one
 * replicated operation), so the transactions that wait while a commit is under way form the next one.
 *
 * A queue has at most one commit under way. A request that finds the queue idle leads: its fiber takes the
 * waiting requests, in order and up to the limits, commits them, gives each its result, and passes the lead
 * to the first request that still waits. The queue has no fiber of its own, so closing has nothing to stop.
 *
 *   idle:           A arrives and leads           commit {A}
 *   A's commit:     B, C and D arrive and wait
 *   A done:         B leads                       commit {B, C, D}
 *
 * A waiting request leaves the queue when its fiber is cancelled or late; it is then not applied. A request
 * that was taken into a commit stays until the commit has ended, because its result is not known before.
 */
#ifndef KV_QUEUE_H
#define KV_QUEUE_H

#include "base/list.h"
#include "kv/kv.h"
#include "rt/sync.h"

#define KV_BATCH_TXNS_MAX 512
#define KV_BATCH_BYTES_MAX (4 * MIB)
#define KV_BATCH_ITEMS_MAX 8192 /* largest number of checks and writes of one commit */
#define KV_QUEUE_MAX 16384      /* largest number of waiting requests in a queue */

enum kv_pending_state {
	KV_WAITING, /* in the queue */
	KV_LEADING, /* in the queue; its fiber runs the next commit */
	KV_TAKEN,   /* in the commit under way */
	KV_DONE,
};

struct kv_pending {
	uint64_t partition;
	const struct kv_txn *txn;
	/* Results, set by the commit: */
	int rc;
	size_t failed; /* for -ESTALE: index of the check that failed */
	/* Fields that only queue.c uses: */
	struct list link;
	enum kv_pending_state state;
	struct rt_cond changed;
};

/*
 * Commits n > 0 transactions with the effect of running them one after the other in this order, and sets
 * rc and failed of each transaction. Runs in the leader's fiber, shielded.
 */
typedef void kv_commit_fn(void *ctx, struct kv_pending **batch, size_t n);

struct kv_queue {
	struct list waiting; /* requests in state WAITING or LEADING, oldest first */
	size_t waiting_count;
	bool busy; /* true: a request is LEADING, or a commit is under way */
	size_t txns_max;
	kv_commit_fn *commit;
	void *ctx;
};

/*
 * Initializes an empty queue. txns_max: transactions per commit; 0: KV_BATCH_TXNS_MAX. ctx is
 * passed to commit.
 */
void kv_queue_init(struct kv_queue *q, size_t txns_max, kv_commit_fn *commit, void *ctx);

/* Returns whether no request waits and no commit is under way. */
bool kv_queue_idle(const struct kv_queue *q);

/*
 * Submits a transaction, waits for the commit with it, and returns its result. If the transaction was never
 * part of a commit, returns -EAGAIN (too many requests wait), -ECANCELED or -ETIME.
 */
int kv_queue_submit(struct kv_queue *q, uint64_t partition, const struct kv_txn *txn,
		    size_t *failed);

#endif
