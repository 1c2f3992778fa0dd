// SPDX-License-Identifier: Apache-2.0
/*
 * Mutex, condition and channel for fibers of one loop. Waiters are served in order of arrival. None
 * of the three works across loops or threads: send a message instead.
 */
#ifndef RT_SYNC_H
#define RT_SYNC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"

struct rt_fiber;

/* A queue of waiters. A waiter must check the state that it waits for again after each wait. */
struct rt_cond {
	struct list waiters;
};

void rt_cond_init(struct rt_cond *c);
/* Waits until rt_cond_signal or rt_cond_broadcast wakes the fiber. */
int rt_cond_wait(struct rt_cond *c);
/* Wakes the first waiter. */
void rt_cond_signal(struct rt_cond *c);
/* Wakes all waiters. */
void rt_cond_broadcast(struct rt_cond *c);

struct rt_mutex {
	struct rt_fiber *owner; /* fiber that holds the lock; NULL: not locked */
	struct list waiters;
};

void rt_mutex_init(struct rt_mutex *m);
/* Waits for the lock. The caller holds it only if the call returns 0. */
int rt_mutex_lock(struct rt_mutex *m);
void rt_mutex_unlock(struct rt_mutex *m);
/* Returns whether the calling fiber holds the lock; false outside a fiber. For assertions. */
bool rt_mutex_held(const struct rt_mutex *m);

/* A bounded queue of pointers. */
struct rt_chan {
	void **slots;
	size_t capacity; /* most items in the queue */
	size_t head;     /* slot of the oldest item */
	size_t count;    /* number of items in the queue */
	bool closed;
	struct rt_cond readable;
	struct rt_cond writable;
};

/* Sets up an empty channel for `capacity` > 0 items. Returns 0 or -ENOMEM. */
int rt_chan_init(struct rt_chan *c, size_t capacity);
void rt_chan_fini(struct rt_chan *c);
/* Waits for room, and adds an item. Returns 0, or -EPIPE when the channel is closed. */
int rt_chan_send(struct rt_chan *c, void *item);
/*
 * Waits for an item, and removes the oldest. Returns 0, or -EPIPE when the channel is closed and
 * empty.
 */
int rt_chan_recv(struct rt_chan *c, void **item);
/* Ends sending: every later send fails. Items in the queue can still be received. */
void rt_chan_close(struct rt_chan *c);

#endif
