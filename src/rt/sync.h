// SPDX-License-Identifier: Apache-2.0
/*
 * Waiting for each other, among fibers of one loop. Waiters are served first come, first served.
 * None of these is for use across loops or threads: send a message instead.
 */
#ifndef RT_SYNC_H
#define RT_SYNC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"

struct rt_fiber;

/* A condition is only a queue of waiters: the state it stands for is the caller's to check again. */
struct rt_cond {
	struct list waiters;
};

void rt_cond_init(struct rt_cond *c);
/* Waits. */
int rt_cond_wait(struct rt_cond *c);
void rt_cond_signal(struct rt_cond *c);
void rt_cond_broadcast(struct rt_cond *c);

struct rt_mutex {
	struct rt_fiber *owner;
	struct list waiters;
};

void rt_mutex_init(struct rt_mutex *m);
/* Waits; the lock is held only when it returns 0. */
int rt_mutex_lock(struct rt_mutex *m);
void rt_mutex_unlock(struct rt_mutex *m);
/* Returns whether the calling fiber holds the lock; false outside a fiber. For assertions. */
bool rt_mutex_held(const struct rt_mutex *m);

/* A bounded queue of pointers. */
struct rt_chan {
	void **slots;
	size_t capacity;
	size_t head;
	size_t count;
	bool closed;
	struct rt_cond readable;
	struct rt_cond writable;
};

int rt_chan_init(struct rt_chan *c, size_t capacity);
void rt_chan_fini(struct rt_chan *c);
/* Waits for room. -EPIPE when closed. */
int rt_chan_send(struct rt_chan *c, void *item);
/* Waits for an item. -EPIPE when closed and empty. */
int rt_chan_recv(struct rt_chan *c, void **item);
/* Nobody may send any more; what is queued can still be received. */
void rt_chan_close(struct rt_chan *c);

#endif
