// SPDX-License-Identifier: Apache-2.0
#include "cli/work.h"

#include <errno.h>

static void *work_main(void *arg)
{
	struct work *w = arg;
	pthread_mutex_lock(&w->lock);
	for (;;) {
		while (w->count == 0 && !w->ended)
			pthread_cond_wait(&w->changed, &w->lock);
		if (w->count == 0)
			break;
		void *item = w->queue[w->head];
		w->head = (w->head + 1) % w->room;
		w->count--;
		pthread_cond_broadcast(&w->changed);
		pthread_mutex_unlock(&w->lock);
		w->run(w->ctx, item);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int work_start(struct work *w, size_t threads, void (*run)(void *ctx, void *item), void *ctx)
{
	if (threads == 0 || threads > WORK_THREADS_MAX)
		return -EINVAL;
	*w = (struct work){.run = run, .ctx = ctx, .room = 2 * threads};
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	while (w->thread_count < threads) {
		int err = pthread_create(&w->threads[w->thread_count], NULL, work_main, w);
		if (err != 0) {
			work_finish(w);
			return -err;
		}
		w->thread_count++;
	}
	return 0;
}

void work_push(struct work *w, void *item)
{
	pthread_mutex_lock(&w->lock);
	while (w->count == w->room)
		pthread_cond_wait(&w->changed, &w->lock);
	w->queue[(w->head + w->count) % w->room] = item;
	w->count++;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

void work_finish(struct work *w)
{
	pthread_mutex_lock(&w->lock);
	w->ended = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	for (size_t i = 0; i < w->thread_count; i++)
		pthread_join(w->threads[i], NULL);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
}
