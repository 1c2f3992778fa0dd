// SPDX-License-Identifier: Apache-2.0
/*
 * Invariants of a queue:
 *
 *  1. A waiter is in the list, or was served, or gave up; the lock guards the transition.
 *  2. Exactly one wakes a served waiter: the fiber itself, if it was served before it parked; else who served it, by
 *     a message unless both are on one loop. In a crashed process, in which messages do not arrive, the abort
 *     function wakes it.
 */
#include "rt/queue.h"

#include <assert.h>
#include <errno.h>

#include "base/base.h"
#include "rt/core.h"

void rt_queue_init(struct rt_queue *q, bool (*serve)(struct rt_queue *q, struct rt_waiter *w),
		   bool pass)
{
	*q = (struct rt_queue){.serve = serve, .pass = pass};
	int rc = pthread_mutex_init(&q->lock, NULL);
	assert(rc == 0);
	(void)rc;
	list_init(&q->waiters);
}

void rt_queue_fini(struct rt_queue *q)
{
	assert(list_empty(&q->waiters) && atomic_load(&q->waiting) == 0);
	pthread_mutex_destroy(&q->lock);
}

static void queue_remove(struct rt_queue *q, struct rt_waiter *w)
{
	assert(!w->served && atomic_load(&q->waiting) > 0);
	list_remove(&w->link);
	atomic_fetch_sub(&q->waiting, 1);
}

/* Serves who can be served and collects them in `served`. The caller holds the lock. */
static void queue_collect(struct rt_queue *q, struct list *served)
{
	struct rt_waiter *w, *after;
	list_for_each_entry_safe(w, after, &q->waiters, link) {
		if (q->serve(q, w)) {
			queue_remove(q, w);
			w->served = true;
			list_push_back(served, &w->link);
		} else if (!q->pass) {
			return;
		}
	}
}

static void waiter_wake(struct rt_msg *m)
{
	struct rt_waiter *w = container_of(m, struct rt_waiter, msg);
	assert(rt_on_loop(w->loop) && w->served);
	fiber_wake(w->fiber, 0);
}

static void queue_deliver(struct list *served)
{
	struct list *node;
	while ((node = list_pop_front(served)) != NULL) {
		struct rt_waiter *w = list_entry(node, struct rt_waiter, link);
		w->msg.fn = waiter_wake;
		if (rt_on_loop(w->loop))
			fiber_wake(w->fiber, 0);
		else
			rt_post(w->loop, &w->msg);
	}
}

void rt_queue_serve(struct rt_queue *q)
{
	struct list served;
	list_init(&served);
	pthread_mutex_lock(&q->lock);
	queue_collect(q, &served);
	pthread_mutex_unlock(&q->lock);
	queue_deliver(&served);
}

static void queue_abort(struct rt_fiber *f)
{
	struct rt_waiter *w = f->abort_ctx;
	struct rt_queue *q = w->queue;
	struct list served;
	list_init(&served);
	pthread_mutex_lock(&q->lock);
	bool gave_up = !w->served;
	if (gave_up) {
		queue_remove(q, w);
		/* Those behind it may ask for less. */
		queue_collect(q, &served);
	}
	pthread_mutex_unlock(&q->lock);
	/* Of a served waiter the message is under way. */
	if (gave_up || f->loop->dead)
		fiber_wake(f, -ECANCELED);
	queue_deliver(&served);
}

/* Serves w at once if nothing is in its way. The caller holds the lock. */
static bool queue_at_once(struct rt_queue *q, struct rt_waiter *w)
{
	return (q->pass || list_empty(&q->waiters)) && q->serve(q, w);
}

int rt_queue_wait(struct rt_queue *q, struct rt_waiter *w, void (*began)(void *ctx), void *ctx)
{
	pthread_mutex_lock(&q->lock);
	bool at_once = queue_at_once(q, w);
	pthread_mutex_unlock(&q->lock);
	if (at_once)
		return w->rc;
	int rc = fiber_check();
	if (rc != 0)
		return rc;
	w->queue = q;
	w->fiber = rt_self();
	w->loop = rt_loop_self();
	w->served = false;
	struct list served;
	list_init(&served);
	pthread_mutex_lock(&q->lock);
	list_push_back(&q->waiters, &w->link);
	/* Counted before the attempt: who enlarges the resource afterwards sees a waiter, see rt_pool_get. */
	atomic_fetch_add(&q->waiting, 1);
	queue_collect(q, &served);
	bool mine = w->served;
	if (mine)
		list_remove(&w->link);
	pthread_mutex_unlock(&q->lock);
	queue_deliver(&served);
	if (mine)
		return w->rc;
	if (began != NULL)
		began(ctx);
	rc = (int)fiber_park(PARK_INTERRUPTIBLE, queue_abort, w);
	return w->served ? w->rc : rc;
}

/* --- a budget --------------------------------------------------------------------------------- */

static bool budget_serve(struct rt_queue *q, struct rt_waiter *w)
{
	struct rt_budget *b = container_of(q, struct rt_budget, queue);
	if (b->used > 0 && (w->amount > b->limit || b->used > b->limit - w->amount))
		return false;
	b->used += w->amount;
	b->peak = max_u64(b->peak, b->used);
	w->rc = 0;
	return true;
}

void rt_budget_init(struct rt_budget *b, uint64_t limit, bool pass)
{
	*b = (struct rt_budget){.limit = limit};
	rt_queue_init(&b->queue, budget_serve, pass);
}

void rt_budget_fini(struct rt_budget *b)
{
	assert(b->used == 0);
	rt_queue_fini(&b->queue);
}

int rt_budget_take(struct rt_budget *b, uint64_t amount, void (*began)(void *ctx), void *ctx)
{
	struct rt_waiter w = {.amount = amount};
	return rt_queue_wait(&b->queue, &w, began, ctx);
}

bool rt_budget_try(struct rt_budget *b, uint64_t amount)
{
	struct rt_waiter w = {.amount = amount};
	pthread_mutex_lock(&b->queue.lock);
	bool taken = list_empty(&b->queue.waiters) && budget_serve(&b->queue, &w);
	pthread_mutex_unlock(&b->queue.lock);
	return taken;
}

uint64_t rt_budget_used(struct rt_budget *b)
{
	pthread_mutex_lock(&b->queue.lock);
	uint64_t used = b->used;
	pthread_mutex_unlock(&b->queue.lock);
	return used;
}

void rt_budget_give(struct rt_budget *b, uint64_t amount)
{
	struct list served;
	list_init(&served);
	pthread_mutex_lock(&b->queue.lock);
	assert(b->used >= amount);
	b->used -= amount;
	queue_collect(&b->queue, &served);
	pthread_mutex_unlock(&b->queue.lock);
	queue_deliver(&served);
}

uint64_t rt_budget_peak(struct rt_budget *b)
{
	pthread_mutex_lock(&b->queue.lock);
	uint64_t peak = b->peak;
	pthread_mutex_unlock(&b->queue.lock);
	return peak;
}

unsigned rt_budget_waiting(const struct rt_budget *b)
{
	return atomic_load(&b->queue.waiting);
}

/* --- an event --------------------------------------------------------------------------------- */

void rt_event_init(struct rt_event *e)
{
	*e = (struct rt_event){0};
	int rc = pthread_mutex_init(&e->lock, NULL);
	assert(rc == 0);
	(void)rc;
	list_init(&e->subs);
}

void rt_event_fini(struct rt_event *e)
{
	assert(list_empty(&e->subs));
	pthread_mutex_destroy(&e->lock);
}

static void event_arrived(struct rt_msg *m)
{
	struct rt_event_sub *s = container_of(m, struct rt_event_sub, msg);
	pthread_mutex_lock(&s->event->lock);
	s->posted = false;
	pthread_mutex_unlock(&s->event->lock);
	rt_cond_broadcast(&s->raised);
}

void rt_event_raise(struct rt_event *e)
{
	struct rt_event_sub *s;
	pthread_mutex_lock(&e->lock);
	list_for_each_entry(s, &e->subs, link) {
		if (rt_on_loop(s->loop)) {
			rt_cond_broadcast(&s->raised);
		} else if (!s->posted) {
			s->posted = true;
			rt_post(s->loop, &s->msg);
		}
	}
	pthread_mutex_unlock(&e->lock);
}

void rt_event_subscribe(struct rt_event *e, struct rt_event_sub *s)
{
	*s = (struct rt_event_sub){
		.event = e, .loop = rt_loop_self(), .msg = {.fn = event_arrived}};
	rt_cond_init(&s->raised);
	pthread_mutex_lock(&e->lock);
	list_push_back(&e->subs, &s->link);
	pthread_mutex_unlock(&e->lock);
}

static bool sub_posted(struct rt_event_sub *s)
{
	pthread_mutex_lock(&s->event->lock);
	bool posted = s->posted;
	pthread_mutex_unlock(&s->event->lock);
	return posted;
}

void rt_event_unsubscribe(struct rt_event_sub *s)
{
	assert(rt_on_loop(s->loop));
	pthread_mutex_lock(&s->event->lock);
	list_remove(&s->link);
	pthread_mutex_unlock(&s->event->lock);
	/* A message that points to s is under way: it arrives, or the process has crashed and it never does. */
	while (sub_posted(s) && rt_yield() == 0)
		;
}
