// SPDX-License-Identifier: Apache-2.0
/*
 * Waiting across loops: a queue of fibers of any loop for a limited resource, served in order of arrival; a budget,
 * which is the resource of a number; and an event, which tells the loops that something happened.
 *
 * A lock guards each queue. It is held for the time of a few instructions and of one attempt to serve, never over a
 * wait. A fiber of another loop is woken by a message.
 */
#ifndef RT_QUEUE_H
#define RT_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "rt/rt.h"
#include "rt/sync.h"

struct rt_queue;

/* A fiber that waits; lives on its stack. */
struct rt_waiter {
	struct list link; /* in queue->waiters until the waiter was served or gave up */
	struct rt_queue *queue;
	struct rt_fiber *fiber;
	struct rt_loop *loop;
	struct rt_msg msg; /* wakes the fiber from another loop */
	uint64_t amount;   /* what it asks for */
	void *result;      /* set by serve */
	int rc;            /* set by serve */
	bool served;
};

struct rt_queue {
	pthread_mutex_t lock; /* guards waiters and what serve uses; pool locks are taken inside */
	struct list waiters;
	atomic_uint waiting; /* length of waiters */
	/*
	 * Tries to serve a waiter: returns true and sets rc and result, or returns false. Runs under the lock on any
	 * thread, and must not wait or call the queue.
	 */
	bool (*serve)(struct rt_queue *q, struct rt_waiter *w);
	/* A waiter that can be served passes those before it that cannot; false: strictly in order. */
	bool pass;
};

void rt_queue_init(struct rt_queue *q, bool (*serve)(struct rt_queue *q, struct rt_waiter *w),
		   bool pass);
/* No fiber may wait. */
void rt_queue_fini(struct rt_queue *q);

/*
 * Waits until the queue has served w, of which the caller has set amount. Returns w->rc, or the error of the wait;
 * then w was not served. Calls began(ctx), which may be NULL, before it waits.
 */
int rt_queue_wait(struct rt_queue *q, struct rt_waiter *w, void (*began)(void *ctx), void *ctx);
/* Serves those who wait, after the resource has become larger. On any thread. */
void rt_queue_serve(struct rt_queue *q);

/* --- a budget: a limited number, taken and given back on any loop --------------------------------- */

struct rt_budget {
	struct rt_queue queue;
	uint64_t limit;
	uint64_t used; /* guarded by queue.lock, as is peak */
	uint64_t peak;
};

/* pass: see struct rt_queue. */
void rt_budget_init(struct rt_budget *b, uint64_t limit, bool pass);
/* All must have been given back. */
void rt_budget_fini(struct rt_budget *b);
/*
 * Takes an amount; waits while it does not fit. One amount above the limit fits while nothing else is taken. Calls
 * began(ctx), which may be NULL, before it waits.
 */
int rt_budget_take(struct rt_budget *b, uint64_t amount, void (*began)(void *ctx), void *ctx);
/* Takes an amount if it fits now and no fiber waits. Does not wait. Returns whether it took the amount. */
bool rt_budget_try(struct rt_budget *b, uint64_t amount);
void rt_budget_give(struct rt_budget *b, uint64_t amount);
/* Returns the sum that is taken now. */
uint64_t rt_budget_used(struct rt_budget *b);
/* Returns the largest sum that was taken at a time. */
uint64_t rt_budget_peak(struct rt_budget *b);
/* Returns the number of fibers that wait, on all loops. */
unsigned rt_budget_waiting(const struct rt_budget *b);

/* --- an event ------------------------------------------------------------------------------------- */

struct rt_event {
	pthread_mutex_t lock; /* guards subs and their `posted`; inbox locks are taken inside */
	struct list subs;
};

/* The subscription of a loop. Each time the event is raised, `raised` is broadcast on the loop. */
struct rt_event_sub {
	struct list link;
	struct rt_event *event;
	struct rt_loop *loop;
	struct rt_cond raised;
	struct rt_msg msg;
	bool posted; /* msg is under way; one message reports any number of events */
};

void rt_event_init(struct rt_event *e);
void rt_event_fini(struct rt_event *e);
/* Raises the event, on any loop. */
void rt_event_raise(struct rt_event *e);
/* Subscribes the calling loop, until rt_event_unsubscribe on the same loop, which may wait. */
void rt_event_subscribe(struct rt_event *e, struct rt_event_sub *s);
void rt_event_unsubscribe(struct rt_event_sub *s);

#endif
