// SPDX-License-Identifier: Apache-2.0
/*
 * The offload pool: a few threads for calls that block. A job lives on the stack of the fiber that waits for it, so
 * the number of fibers bounds the queue.
 */
#include <assert.h>
#include <errno.h>

#include "rt/real/real.h"

struct job {
	struct job *next;
	void (*fn)(void *);
	void *arg;
	struct rt_fiber *fiber;
	struct rt_msg done;
};

struct offload {
	pthread_mutex_t lock; /* guards first, last and closing */
	pthread_cond_t more;
	struct job *first;
	struct job **last;
	bool closing;
	unsigned thread_count;
	pthread_t threads[];
};

static void job_done(struct rt_msg *m)
{
	struct job *j = container_of(m, struct job, done);
	assert(rt_on_loop(j->fiber->loop));
	fiber_wake(j->fiber, 0);
}

/* Waits for a job and removes it from the queue; returns NULL when the pool closes. */
static struct job *job_next(struct offload *o)
{
	pthread_mutex_lock(&o->lock);
	while (o->first == NULL && !o->closing)
		pthread_cond_wait(&o->more, &o->lock);
	struct job *j = o->first;
	if (j != NULL) {
		o->first = j->next;
		if (o->first == NULL)
			o->last = &o->first;
	}
	pthread_mutex_unlock(&o->lock);
	return j;
}

static void *offload_thread(void *arg)
{
	struct offload *o = arg;
	pthread_setname_np(pthread_self(), "offload");
	struct job *j;
	while ((j = job_next(o)) != NULL) {
		j->fn(j->arg);
		rt_post(j->fiber->loop, &j->done);
	}
	return NULL;
}

struct offload *offload_open(unsigned threads)
{
	struct offload *o = calloc(1, sizeof(*o) + threads * sizeof(o->threads[0]));
	if (o == NULL)
		return NULL;
	pthread_mutex_init(&o->lock, NULL);
	pthread_cond_init(&o->more, NULL);
	o->last = &o->first;
	for (unsigned i = 0; i < threads; i++) {
		if (pthread_create(&o->threads[i], NULL, offload_thread, o) != 0)
			break;
		o->thread_count++;
	}
	if (o->thread_count == 0) {
		offload_close(o);
		return NULL;
	}
	return o;
}

void offload_close(struct offload *o)
{
	pthread_mutex_lock(&o->lock);
	o->closing = true;
	pthread_cond_broadcast(&o->more);
	pthread_mutex_unlock(&o->lock);
	for (unsigned i = 0; i < o->thread_count; i++)
		pthread_join(o->threads[i], NULL);
	assert(o->first == NULL);
	pthread_cond_destroy(&o->more);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

int offload_run(struct rt_loop *l, void (*fn)(void *), void *arg)
{
	struct offload *o = real_loop(l)->offload;
	assert(rt_on_loop(l) && rt_self() != NULL);
	struct job j = {.fn = fn, .arg = arg, .fiber = rt_self(), .done = {.fn = job_done}};
	pthread_mutex_lock(&o->lock);
	assert(!o->closing);
	*o->last = &j;
	o->last = &j.next;
	pthread_cond_signal(&o->more);
	pthread_mutex_unlock(&o->lock);
	return (int)fiber_park(PARK_TO_END, NULL, NULL);
}
