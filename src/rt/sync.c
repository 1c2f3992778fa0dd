// SPDX-License-Identifier: Apache-2.0
#include "rt/sync.h"

#include <assert.h>
#include <errno.h>

#include "rt/core.h"

/* --- condition ------------------------------------------------------------------------------- */

void rt_cond_init(struct rt_cond *c)
{
	list_init(&c->waiters);
}

int rt_cond_wait(struct rt_cond *c)
{
	int rc = fiber_check();
	if (rc != 0)
		return rc;
	list_push_back(&c->waiters, &rt_self()->wait_link);
	return (int)fiber_park(PARK_INTERRUPTIBLE, fiber_abort_unlink, NULL);
}

void rt_cond_signal(struct rt_cond *c)
{
	struct list *node = list_pop_front(&c->waiters);
	if (node == NULL)
		return;
	struct rt_fiber *f = list_entry(node, struct rt_fiber, wait_link);
	/* A condition belongs to one loop; timers of the simulator run outside loops. */
	assert(rt_loop_self() == NULL || rt_on_loop(f->loop));
	fiber_wake(f, 0);
}

void rt_cond_broadcast(struct rt_cond *c)
{
	while (!list_empty(&c->waiters))
		rt_cond_signal(c);
}

/* --- mutex: unlock passes the mutex to the first waiter, so that no waiter starves --- */

void rt_mutex_init(struct rt_mutex *m)
{
	m->owner = NULL;
	list_init(&m->waiters);
}

int rt_mutex_lock(struct rt_mutex *m)
{
	int rc = fiber_check();
	if (rc != 0)
		return rc;
	assert(m->owner != rt_self());
	if (m->owner == NULL) {
		m->owner = rt_self();
		return 0;
	}
	list_push_back(&m->waiters, &rt_self()->wait_link);
	return (int)fiber_park(PARK_INTERRUPTIBLE, fiber_abort_unlink, NULL);
}

void rt_mutex_unlock(struct rt_mutex *m)
{
	assert(m->owner == rt_self());
	struct list *node = list_pop_front(&m->waiters);
	if (node == NULL) {
		m->owner = NULL;
		return;
	}
	m->owner = list_entry(node, struct rt_fiber, wait_link);
	assert(m->owner->loop == rt_loop_self());
	fiber_wake(m->owner, 0);
}

bool rt_mutex_held(const struct rt_mutex *m)
{
	return m->owner != NULL && m->owner == rt_self();
}

/* --- channel --------------------------------------------------------------------------------- */

int rt_chan_init(struct rt_chan *c, size_t capacity)
{
	assert(capacity > 0);
	*c = (struct rt_chan){.capacity = capacity};
	rt_cond_init(&c->readable);
	rt_cond_init(&c->writable);
	c->slots = calloc(capacity, sizeof(*c->slots));
	return c->slots != NULL ? 0 : -ENOMEM;
}

void rt_chan_fini(struct rt_chan *c)
{
	assert(list_empty(&c->readable.waiters) && list_empty(&c->writable.waiters));
	free(c->slots);
	c->slots = NULL;
}

int rt_chan_send(struct rt_chan *c, void *item)
{
	while (!c->closed && c->count == c->capacity) {
		int rc = rt_cond_wait(&c->writable);
		if (rc != 0)
			return rc;
	}
	if (c->closed)
		return -EPIPE;
	assert(c->count < c->capacity);
	c->slots[(c->head + c->count) % c->capacity] = item;
	c->count++;
	rt_cond_signal(&c->readable);
	return 0;
}

int rt_chan_recv(struct rt_chan *c, void **item)
{
	while (!c->closed && c->count == 0) {
		int rc = rt_cond_wait(&c->readable);
		if (rc != 0)
			return rc;
	}
	if (c->count == 0)
		return -EPIPE;
	assert(c->count <= c->capacity && c->head < c->capacity);
	*item = c->slots[c->head];
	c->head = (c->head + 1) % c->capacity;
	c->count--;
	rt_cond_signal(&c->writable);
	return 0;
}

void rt_chan_close(struct rt_chan *c)
{
	c->closed = true;
	rt_cond_broadcast(&c->readable);
	rt_cond_broadcast(&c->writable);
}
