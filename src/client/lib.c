// SPDX-License-Identifier: Apache-2.0
/* Opens and closes the handle and its thread, and claims the handle after fork(). */
#include "client/lib.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/err.h"
#include "rt/real.h"

#define REQUESTS_MAX ((size_t)16384)
#define THREADS_AUTO_MAX 16

/* --- the thread ------------------------------------------------------------------------------- */

static void runtime_stop_msg(struct rt_msg *m)
{
	struct runtime *r = container_of(m, struct runtime, stop_msg);
	r->stopping = true;
	rt_cond_broadcast(&r->stop);
}

void lib_file_abandon(struct runtime *r, struct terrane_file *f)
{
	assert(rt_loop_self() == r->loop);
	f->next_abandoned = r->abandoned;
	r->abandoned = f;
	rt_cond_signal(&r->stop);
}

static void abandoned_discard(struct runtime *r)
{
	assert(rt_loop_self() == r->loop);
	while (r->abandoned != NULL) {
		struct terrane_file *f = r->abandoned;
		r->abandoned = f->next_abandoned;
		if (f->generation == r->generation)
			engine_file_discard(f->e);
		free(f);
	}
}

static void runtime_main(void *arg)
{
	struct runtime *r = arg;
	const struct terrane *t = r->t;
	r->loop = rt_loop_self();
	rt_group_init(&r->requests);
	rt_cond_init(&r->stop);
	map_init(&r->running, REQUESTS_MAX);
	struct engine_options o = {
		.metadata = t->conf.metadata,
		.cluster = t->cluster,
		.tenant = t->tenant != NULL ? t->tenant : t->conf.tenant,
		.traffic_group =
			t->traffic_group != NULL ? t->traffic_group : t->conf.traffic_group,
		.traffic_class = t->traffic_class,
		.connect_timeout_ns = t->connect_timeout_ns,
		.encoding = t->conf.encoding,
		.block_bytes = t->conf.block_bytes,
		.loops = t->threads,
		.cache = t->conf.cache ? &t->cache : NULL,
		.fabric = {.memory_bytes = t->memory_bytes, .self = cluster_file_channel(&t->self)},
	};
	r->open_rc = engine_open(&r->engine, &o, r->why);
	bool opened = r->open_rc == 0;
	sem_post(&r->ready); /* after an error runtime_start owns r */
	if (!opened)
		return;
	while (!r->stopping && rt_cond_wait(&r->stop) == 0)
		abandoned_discard(r);
	rt_group_cancel(&r->requests);
	rt_group_join(&r->requests);
	abandoned_discard(r);
	engine_close(r->engine);
	map_fini(&r->running);
}

static void *runtime_thread(void *arg)
{
	struct runtime *r = arg;
	/* Offload threads encode and decode what would hold up a loop for too long. */
	struct rt_real_options o = {.fiber_max = REQUESTS_MAX * 2,
				    .offload_threads = r->t->threads > 2 ? r->t->threads : 2};
	int rc = rt_real_run(&o, runtime_main, r);
	if (rc < 0 && r->loop == NULL) {
		r->open_rc = rc;
		snprintf(r->why, sizeof(r->why),
			 "io_uring is not available on this machine: enable it, or use a newer "
			 "kernel");
		sem_post(&r->ready);
	}
	return NULL;
}

static int runtime_start(struct terrane *t, struct terrane_error *error)
{
	assert(t->runtime == NULL);
	struct runtime *r = calloc(1, sizeof(*r));
	if (r == NULL)
		return -ENOMEM;
	r->t = t;
	r->stop_msg.fn = runtime_stop_msg;
	sem_init(&r->ready, 0, 0);
	/* The new thread blocks all signals, so that the application's threads handle them. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = -pthread_create(&r->thread, NULL, runtime_thread, r);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0) {
		while (sem_wait(&r->ready) < 0)
			;
		rc = r->open_rc;
		if (rc < 0) {
			lib_error_fill(error, rc, r->why);
			pthread_join(r->thread, NULL);
		}
	}
	if (rc < 0) {
		sem_destroy(&r->ready);
		free(r);
		return rc;
	}
	r->generation = ++t->generation;
	t->runtime = r;
	return 0;
}

/* --- fork ------------------------------------------------------------------------------------- */

static void terrane_claim(struct terrane *t)
{
	/* fork() may have copied locks and runtime in any state: initialize them again. */
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->completed, NULL);
	t->runtime = NULL;
	t->generation++;
}

void terrane_enter(struct terrane *t)
{
	uint64_t mine = (uint64_t)getpid() * 2;
	for (;;) {
		uint64_t owner = atomic_load(&t->owner);
		if (owner == mine)
			return;
		if (owner == mine + 1) {
			sched_yield(); /* another thread of this child is claiming the handle */
			continue;
		}
		if (!atomic_compare_exchange_strong(&t->owner, &owner, mine + 1))
			continue;
		terrane_claim(t);
		atomic_store(&t->owner, mine);
		return;
	}
}

int lib_runtime_get(struct terrane *t, bool block, struct runtime **out,
		    struct terrane_error *error)
{
	terrane_enter(t);
	pthread_mutex_lock(&t->lock);
	int rc = t->runtime == NULL ? runtime_start(t, error) : 0;
	struct runtime *r = t->runtime;
	pthread_mutex_unlock(&t->lock);
	assert(rc < 0 || r != NULL);
	if (rc == 0 && block && pthread_equal(pthread_self(), r->thread))
		rc = -EDEADLK;
	*out = r;
	return rc;
}

/* --- the handle ------------------------------------------------------------------------------- */

static void terrane_free(struct terrane *t)
{
	secure_self_close(&t->self);
	cluster_file_free(&t->conf);
	free(t->tenant);
	free(t->traffic_group);
	free(t);
}

static int threads_fill(struct terrane *t, uint32_t wanted, struct strbuf *why)
{
	bool automatic = wanted == 0 && strcmp(t->conf.threads, "auto") == 0;
	t->threads = wanted;
	int rc = wanted == 0 ? rt_real_threads(t->conf.threads, &t->threads) : 0;
	if (rc < 0 || t->threads > RT_TEAM_MAX) {
		strbuf_printf(why, "threads is invalid: give a number from 1 to %d, or auto",
			      RT_TEAM_MAX);
		return -EINVAL;
	}
	if (automatic && t->threads > THREADS_AUTO_MAX)
		t->threads = THREADS_AUTO_MAX;
	return 0;
}

static int handle_fill(struct terrane *t, const char *cluster_file,
		       const struct terrane_open_options *o, struct strbuf *why)
{
	int rc = cluster_file_load(&t->conf, cluster_file, why);
	if (rc == 0)
		rc = cluster_file_id(&t->conf, &t->cluster.high, &t->cluster.low);
	if (rc == 0)
		rc = cluster_file_self(&t->conf, &t->self, why);
	if (rc == 0)
		rc = cluster_file_cache(&t->conf, t->cache_directories, &t->cache, why);
	if (rc < 0)
		return rc;
	t->traffic_class = (enum traffic_class)(t->conf.traffic_class + 1);
	rc = threads_fill(t, o != NULL ? o->threads : 0, why);
	if (rc < 0)
		return rc;
	if (o == NULL)
		return 0;
	if (o->traffic_class > TERRANE_BRONZE)
		return -EINVAL;
	if (o->traffic_class != TERRANE_CLASS_DEFAULT)
		t->traffic_class = (enum traffic_class)o->traffic_class;
	t->tenant = o->tenant != NULL ? strdup(o->tenant) : NULL;
	t->traffic_group = o->traffic_group != NULL ? strdup(o->traffic_group) : NULL;
	t->memory_bytes = o->memory_bytes;
	t->connect_timeout_ns = o->connect_timeout_ms * NS_PER_MS;
	bool all = (o->tenant == NULL || t->tenant != NULL) &&
		   (o->traffic_group == NULL || t->traffic_group != NULL);
	return all ? 0 : -ENOMEM;
}

int terrane_open(struct terrane **out, const char *cluster_file,
		 const struct terrane_open_options *o)
{
	struct terrane_error *error = o != NULL ? o->error : NULL;
	*out = NULL;
	struct terrane *t = calloc(1, sizeof(*t));
	if (t == NULL)
		return -ENOMEM;
	AUTO_STRBUF struct strbuf why;
	strbuf_init(&why, TERRANE_ERROR_MAX);
	int rc = handle_fill(t, cluster_file, o, &why);
	if (rc < 0)
		lib_error_fill(error, rc, strbuf_text(&why));
	struct runtime *r;
	if (rc == 0)
		rc = lib_runtime_get(t, true, &r, error);
	if (rc < 0) {
		terrane_free(t);
		return rc;
	}
	*out = t;
	return 0;
}

void terrane_close(struct terrane *t)
{
	if (t == NULL)
		return;
	terrane_enter(t);
	struct runtime *r = t->runtime;
	if (r != NULL) {
		rt_post(r->loop, &r->stop_msg);
		pthread_join(r->thread, NULL);
		sem_destroy(&r->ready);
		free(r);
	}
	terrane_free(t);
}

/* --- what needs no cluster -------------------------------------------------------------------- */

const char *terrane_error_name(int code)
{
	return err_name(code);
}

const char *terrane_error_text(int code)
{
	return err_text(code);
}

const char *terrane_version(void)
{
	return TERRANE_VERSION;
}

uint32_t terrane_crc32c(uint32_t crc, const void *data, size_t len)
{
	return crc32c(crc, data, len);
}
