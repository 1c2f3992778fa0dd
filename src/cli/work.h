// SPDX-License-Identifier: Apache-2.0
/* A few threads that work off a bounded queue, for commands that do many things at once. */
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

/* run(ctx, item) is called for every item that is pushed, and frees it. -EAGAIN, -EINVAL. */
int work_start(struct work *w, size_t threads, void (*run)(void *ctx, void *item), void *ctx);
/* Waits while the queue is full. From one thread. */
void work_push(struct work *w, void *item);
/* Returns when all items are done and the threads have ended. */
void work_finish(struct work *w);

#endif
