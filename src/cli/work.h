// SPDX-License-Identifier: Apache-2.0
/* Threads that take items from a bounded queue, for commands that transfer many files at once. */
#ifndef CLI_WORK_H
#define CLI_WORK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define WORK_THREADS_MAX 64

struct work {
	void (*run)(void *ctx, void *item);
	void *ctx;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	void *queue[2 * WORK_THREADS_MAX];
	size_t head, count, room;
	bool ended;
	pthread_t threads[WORK_THREADS_MAX];
	size_t thread_count;
};

/* Starts the threads. run(ctx, item) is called for every pushed item, which it frees. -EAGAIN: no thread could be
 * started; -EINVAL: more than WORK_THREADS_MAX. */
int work_start(struct work *w, size_t threads, void (*run)(void *ctx, void *item), void *ctx);
/* Appends an item to the queue; waits while the queue is full. Only one thread may call it. */
void work_push(struct work *w, void *item);
/* Waits until all items are processed and the threads have ended. */
void work_finish(struct work *w);

#endif
