// SPDX-License-Identifier: Apache-2.0
/*
 * Invariants:
 *  1. busy is set exactly while a request is LEADING or a commit is under way.
 *  2. A request is in the list exactly while it is WAITING or LEADING; waiting_count is the list's length.
 *  3. At most one request is LEADING. It was the first of the list when it got the lead.
 */
#include "kv/queue.h"

#include <assert.h>
#include <errno.h>

#include "rt/rt.h"

void kv_queue_init(struct kv_queue *q, size_t txns_max, kv_commit_fn *commit, void *ctx)
{
	*q = (struct kv_queue){.commit = commit, .ctx = ctx, .txns_max = KV_BATCH_TXNS_MAX};
	if (txns_max != 0)
		q->txns_max = min_u64(txns_max, KV_BATCH_TXNS_MAX);
	list_init(&q->waiting);
}

bool kv_queue_idle(const struct kv_queue *q)
{
	return !q->busy && list_empty(&q->waiting);
}

static void dequeue(struct kv_queue *q, struct kv_pending *p)
{
	assert(p->state == KV_WAITING || p->state == KV_LEADING);
	assert(q->waiting_count > 0);
	list_remove(&p->link);
	q->waiting_count--;
}

static void pass_lead(struct kv_queue *q)
{
	assert(q->busy);
	struct list *first = list_first(&q->waiting);
	q->busy = first != NULL;
	if (first == NULL)
		return;
	struct kv_pending *next = list_entry(first, struct kv_pending, link);
	assert(next->state == KV_WAITING);
	next->state = KV_LEADING;
	rt_cond_signal(&next->changed);
}

static size_t txn_bytes(const struct kv_txn *t)
{
	size_t bytes = 0;
	for (size_t i = 0; i < t->check_count; i++)
		bytes += t->checks[i].key.len + t->checks[i].value.len;
	for (size_t i = 0; i < t->write_count; i++)
		bytes += t->writes[i].key.len + t->writes[i].value.len;
	return bytes;
}

/*
 * Takes the first waiting request and those after it, up to the limits of a commit, out of the
 * queue.
 */
static size_t take_batch(struct kv_queue *q, struct kv_pending **batch)
{
	size_t n = 0;
	size_t bytes = 0;
	size_t items = 0;
	struct kv_pending *p;
	struct kv_pending *after;
	list_for_each_entry_safe(p, after, &q->waiting, link) {
		bytes += txn_bytes(p->txn);
		items += p->txn->check_count + p->txn->write_count;
		bool fits = bytes <= KV_BATCH_BYTES_MAX && items <= KV_BATCH_ITEMS_MAX;
		if (n == q->txns_max || (n > 0 && !fits))
			break;
		dequeue(q, p);
		p->state = KV_TAKEN;
		batch[n++] = p;
	}
	assert(list_empty(&q->waiting) == (q->waiting_count == 0));
	return n;
}

static void lead(struct kv_queue *q)
{
	struct kv_pending *batch[KV_BATCH_TXNS_MAX];
	size_t n = take_batch(q, batch);
	assert(q->busy && n > 0); /* the leader's own request is the first */
	rt_shield_enter();
	q->commit(q->ctx, batch, n);
	rt_shield_leave();
	for (size_t i = 0; i < n; i++) {
		assert(batch[i]->state == KV_TAKEN && batch[i]->rc <= 0);
		batch[i]->state = KV_DONE;
		rt_cond_signal(&batch[i]->changed);
	}
	pass_lead(q);
}

/*
 * Waits until the request is done or is chosen to lead the next commit. After an error the request
 * is not in the queue any more.
 */
static int wait_turn(struct kv_queue *q, struct kv_pending *p)
{
	while (p->state == KV_WAITING) {
		int rc = rt_cond_wait(&p->changed);
		if (rc != 0 && p->state == KV_WAITING) {
			dequeue(q, p);
			return rc;
		}
	}
	/*
	 * The leader uses *p, which lies on this fiber's stack, so this fiber must not return before the
	 * commit has ended. In a crashed simulated process every wait fails at once, those of the leader
	 * too, so the commit ends soon.
	 */
	rt_shield_enter();
	while (p->state == KV_TAKEN)
		if (rt_cond_wait(&p->changed) != 0)
			rt_yield();
	rt_shield_leave();
	return 0;
}

int kv_queue_submit(struct kv_queue *q, uint64_t partition, const struct kv_txn *txn,
		    size_t *failed)
{
	if (q->waiting_count >= KV_QUEUE_MAX)
		return -EAGAIN;
	struct kv_pending p = {.partition = partition, .txn = txn, .state = KV_WAITING};
	rt_cond_init(&p.changed);
	list_push_back(&q->waiting, &p.link);
	q->waiting_count++;
	int rc;
	if (!q->busy) {
		q->busy = true;
		p.state = KV_LEADING;
		/*
		 * Let fibers that are ready add requests to this commit. Returns an error if this
		 * fiber is cancelled or late.
		 */
		rc = rt_sleep_ns(0);
		if (rc != 0) {
			dequeue(q, &p);
			pass_lead(q);
			return rc;
		}
	} else {
		rc = wait_turn(q, &p);
		if (rc != 0)
			return rc;
	}
	if (p.state == KV_LEADING)
		lead(q);
	assert(p.state == KV_DONE);
	*failed = p.failed;
	return p.rc;
}
