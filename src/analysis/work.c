// SPDX-License-Identifier: Apache-2.0
#include "analysis/work.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "base/base.h"
#include "base/rng.h"

#define REPORT_EVERY_NS (NS_PER_S / 5)

struct thread_pool {
	const struct work *work;
	work_fn *fn;
	void *arg;
	uint64_t n;

	pthread_mutex_t lock; /* guards the fields below */
	pthread_cond_t changed;
	uint64_t next, done;
	uint64_t failed; /* the lowest task that failed */
	int err;         /* the error of that task */
	uint32_t running;
};

/* Sets rng to the random stream that work_run() gives to a task. */
static void work_rng(uint64_t seed, uint64_t task, struct rng *rng)
{
	rng_init(rng, mix_u64(seed) + mix_u64(task + 0x9e3779b97f4a7c15ULL));
}

static uint32_t cores(void)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return 1;
	int n = CPU_COUNT(&set);
	return n < 1 ? 1 : (uint32_t)n;
}

/* Returns how many threads work_run() uses for n tasks. */
static uint32_t work_threads(const struct work *w, uint64_t n)
{
	uint64_t want = w->threads != 0 ? w->threads : cores();
	want = min_u64(min_u64(want, WORK_THREADS_MAX), n);
	return want < 1 ? 1 : (uint32_t)want;
}

/*
 * Runs tasks until none is left or one has failed. Tasks begin in order, so all tasks below a
 * failed one have begun and will end: the lowest failed task is always found.
 */
static void *work_thread(void *arg)
{
	struct thread_pool *c = arg;
	pthread_mutex_lock(&c->lock);
	while (c->err == 0 && c->next < c->n) {
		uint64_t task = c->next++;
		pthread_mutex_unlock(&c->lock);
		struct rng rng;
		work_rng(c->work->seed, task, &rng);
		int err = c->fn(c->arg, task, &rng);
		pthread_mutex_lock(&c->lock);
		c->done++;
		if (err != 0 && (c->err == 0 || task < c->failed)) {
			c->err = err;
			c->failed = task;
		}
	}
	c->running--;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static void report(const struct thread_pool *c, double began_s)
{
	const struct work_progress *p = c->work->progress;
	double took = p->now_s() - began_s;
	double left = c->done > 0 ? took / (double)c->done * (double)(c->n - c->done) : -1;
	p->report(p->arg, c->done, c->n, left);
}

static void pool_wait(struct thread_pool *c)
{
	const struct work_progress *p = c->work->progress;
	double began_s = p != NULL ? p->now_s() : 0;
	pthread_mutex_lock(&c->lock);
	while (c->running > 0) {
		if (p == NULL) {
			pthread_cond_wait(&c->changed, &c->lock);
			continue;
		}
		struct timespec until;
		/* ends the wait regularly, to report progress */
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += (long)REPORT_EVERY_NS;
		if (until.tv_nsec >= (long)NS_PER_S) {
			until.tv_nsec -= (long)NS_PER_S;
			until.tv_sec++;
		}
		pthread_cond_timedwait(&c->changed, &c->lock, &until);
		if (c->running > 0)
			report(c, began_s);
	}
	if (p != NULL)
		report(c, began_s);
	pthread_mutex_unlock(&c->lock);
}

int work_run(const struct work *w, uint64_t n, work_fn *fn, void *arg)
{
	assert(fn != NULL);
	if (n == 0)
		return 0;
	struct thread_pool c = {.work = w, .fn = fn, .arg = arg, .n = n};
	uint32_t want = work_threads(w, n), begun = 0;
	AUTO_FREE pthread_t *thread = calloc(want, sizeof(*thread));
	if (thread == NULL)
		return -ENOMEM;
	pthread_mutex_init(&c.lock, NULL);
	pthread_cond_init(&c.changed, NULL);
	c.running = want;
	int rc = 0;
	while (begun < want && rc == 0) {
		rc = pthread_create(&thread[begun], NULL, work_thread, &c);
		begun += rc == 0;
	}
	if (begun < want) {
		pthread_mutex_lock(&c.lock);
		c.running -= want - begun;
		pthread_mutex_unlock(&c.lock);
	}
	if (begun > 0)
		pool_wait(&c);
	for (uint32_t i = 0; i < begun; i++)
		pthread_join(thread[i], NULL);
	pthread_cond_destroy(&c.changed);
	pthread_mutex_destroy(&c.lock);
	return begun == 0 ? -EAGAIN : c.err;
}
