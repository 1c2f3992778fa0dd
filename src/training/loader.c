// SPDX-License-Identifier: Apache-2.0
#include "training/loader.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/err.h"
#include "rt/rt.h"
#include "training/order.h"

#define ERROR_MAX 1024

int train_loader_open(struct train_loader *l, const struct train_job *j, struct train_source *s,
		      struct rt_port *port, struct strbuf *err)
{
	assert(s->samples > 0 && rt_on_loop(port->loop));
	*l = (struct train_loader){.job = j, .source = s, .port = port};
	l->buffer_count = (unsigned)(j->buffers != 0 ? j->buffers : 2 * j->workers);
	l->buffer_count = (unsigned)max_u64(l->buffer_count, (uint64_t)j->devices * 2);
	l->cores = (unsigned)(j->cores != 0 ? j->cores : j->workers);
	rt_cond_init(&l->changed);
	rt_group_init(&l->workers);
	strbuf_init(&l->err, ERROR_MAX);
	uint64_t most = l->buffer_count * (uint64_t)j->batch * s->largest;
	if (j->from != TRAIN_MEMORY && most > j->host_bytes) {
		(void)strbuf_printf(
			err,
			"%u buffers of %lld samples of up to %llu bytes take %llu MiB; "
			"[loader] memory allows %llu MiB: use fewer workers, buffers or "
			"samples in a batch, or allow more",
			l->buffer_count, (long long)j->batch, (unsigned long long)s->largest,
			(unsigned long long)(most / MIB),
			(unsigned long long)(j->host_bytes / MIB));
		return -E2BIG;
	}
	l->buffers = calloc(l->buffer_count, sizeof(*l->buffers));
	l->core_free_ns = calloc(l->cores, sizeof(*l->core_free_ns));
	l->order = calloc(s->samples, sizeof(*l->order));
	if (l->buffers == NULL || l->core_free_ns == NULL || l->order == NULL) {
		train_loader_close(l);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < l->buffer_count; i++)
		l->buffers[i].loader = l;
	return 0;
}

static void memory_free(struct train_loader *l, struct train_batch *b)
{
	if (l->pinned != NULL && b->memory != NULL)
		emu_pinned_give(l->pinned, b->memory, b->room);
	else
		free(b->memory);
	b->memory = NULL;
	b->room = 0;
}

void train_loader_close(struct train_loader *l)
{
	assert(list_empty(&l->workers.members));
	for (unsigned i = 0; l->buffers != NULL && i < l->buffer_count; i++) {
		assert(!l->buffers[i].taken);
		memory_free(l, &l->buffers[i]);
	}
	free(l->buffers);
	free(l->core_free_ns);
	free(l->order);
	strbuf_fini(&l->err);
	l->buffers = NULL;
}

/* --- workers ------------------------------------------------------------------------------------ */

static void fail(struct train_loader *l, int rc)
{
	assert(rc < 0);
	if (l->rc == 0 && !l->stopped)
		l->rc = rc;
	rt_cond_broadcast(&l->changed);
}

static struct train_batch *buffer_free(struct train_loader *l)
{
	for (unsigned i = 0; i < l->buffer_count; i++)
		if (!l->buffers[i].taken)
			return &l->buffers[i];
	return NULL;
}

/* Makes room for so many bytes in a buffer. */
static int buffer_room(struct train_loader *l, struct train_batch *b, uint64_t bytes)
{
	if (b->room >= bytes)
		return 0;
	memory_free(l, b);
	void *memory = NULL;
	int rc = 0;
	if (l->pinned != NULL)
		rc = emu_pinned_take(l->pinned, bytes, &memory, &l->err);
	else if ((memory = malloc(bytes)) == NULL)
		rc = -ENOMEM;
	if (rc < 0)
		return rc;
	b->memory = memory;
	b->room = bytes;
	return 0;
}

/* Reads the samples of a batch, so many at a time. */
static int samples_read(struct train_loader *l, const uint32_t *samples,
			const struct train_batch *b, struct strbuf *err)
{
	uint32_t most = l->job->at_once != 0 ? (uint32_t)l->job->at_once : b->count;
	uint64_t at = 0;
	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < b->count; i += most) {
		uint32_t n = (uint32_t)min_u64(most, b->count - i);
		rc = l->source->ops->read(l->source, samples + i, n,
					  b->memory != NULL ? b->memory + at : NULL, err);
		for (uint32_t k = 0; k < n; k++)
			at += train_sample_bytes(l->source, samples[i + k]);
	}
	return rc;
}

static int batch_read(struct train_loader *l, struct train_batch *b)
{
	const struct train_job *j = l->job;
	const uint32_t *samples = l->order + b->index * (uint64_t)j->batch;
	b->count = (uint32_t)j->batch;
	b->bytes = 0;
	for (uint32_t i = 0; i < b->count; i++)
		b->bytes += train_sample_bytes(l->source, samples[i]);
	int rc = j->from == TRAIN_MEMORY ? 0 : buffer_room(l, b, b->bytes);
	if (rc < 0)
		return rc;
	struct strbuf err;
	strbuf_init(&err, ERROR_MAX);
	uint64_t from = rt_now_ns();
	rc = samples_read(l, samples, b, &err);
	l->read_ns += rt_elapsed_ns(from);
	if (rc < 0 && l->rc == 0 && !l->stopped && l->err.len == 0)
		(void)strbuf_puts(&l->err, strbuf_text(&err));
	strbuf_fini(&err);
	l->read_bytes += b->bytes;
	l->read_samples += b->count;
	return rc;
}

/* Waits for a processor that prepares the batch: the one that is free first. */
static int batch_prepare(struct train_loader *l, const struct train_batch *b)
{
	if (l->job->prep_ns == 0)
		return 0;
	unsigned core = 0;
	for (unsigned i = 1; i < l->cores; i++)
		core = l->core_free_ns[i] < l->core_free_ns[core] ? i : core;
	uint64_t now = rt_now_ns();
	uint64_t cost = l->job->prep_ns * b->count;
	l->core_free_ns[core] = max_u64(l->core_free_ns[core], now) + cost;
	l->prep_ns += cost;
	uint64_t until = l->core_free_ns[core];
	while (now < until) {
		int rc = rt_sleep_ns(until - now);
		if (rc < 0)
			return rc;
		now = rt_now_ns();
	}
	return 0;
}

static int make_one(struct train_loader *l)
{
	struct train_batch *b;
	while ((b = buffer_free(l)) == NULL) {
		int rc = rt_cond_wait(&l->changed);
		if (rc < 0 || l->rc < 0)
			return rc < 0 ? rc : l->rc;
	}
	if (l->next_made == l->batches)
		return 0;
	b->taken = true;
	b->index = l->next_made++;
	assert(!b->ready);
	int rc = batch_read(l, b);
	if (rc == 0)
		rc = batch_prepare(l, b);
	if (rc < 0) {
		b->taken = false;
		return rc;
	}
	b->ready = true;
	rt_cond_broadcast(&l->changed);
	return 0;
}

static void worker_main(void *arg)
{
	struct train_loader *l = arg;
	while (l->rc == 0 && !l->stopped && l->next_made < l->batches) {
		int rc = make_one(l);
		if (rc < 0) {
			fail(l, rc);
			return;
		}
	}
}

/* --- epochs ------------------------------------------------------------------------------------- */

int train_loader_begin(struct train_loader *l, uint64_t epoch, uint64_t batches)
{
	const struct train_job *j = l->job;
	assert(rt_on_loop(l->port->loop) && list_empty(&l->workers.members));
	assert(batches * (uint64_t)j->batch <= l->source->samples);
	train_order(l->order, (uint32_t)l->source->samples, (enum train_order)j->order,
		    (uint32_t)j->window, (uint64_t)j->seed, epoch);
	l->batches = batches;
	l->next_made = l->next_out = 0;
	l->stopped = false;
	for (int64_t i = 0; i < j->workers; i++) {
		int rc = rt_group_spawn(&l->workers, "loader", worker_main, l);
		if (rc < 0 && i == 0)
			return rc;
	}
	return 0;
}

void train_loader_end(struct train_loader *l)
{
	assert(rt_on_loop(l->port->loop));
	l->stopped = true;
	rt_group_cancel(&l->workers);
	rt_group_join(&l->workers);
	for (unsigned i = 0; i < l->buffer_count; i++)
		if (l->buffers[i].ready)
			l->buffers[i].ready = l->buffers[i].taken = false;
}

/* --- handing out -------------------------------------------------------------------------------- */

struct next {
	struct train_loader *loader;
	struct train_batch *batch;
	int rc;
};

static struct train_batch *ready(const struct train_loader *l)
{
	for (unsigned i = 0; i < l->buffer_count; i++)
		if (l->buffers[i].ready && l->buffers[i].index == l->next_out)
			return &l->buffers[i];
	return NULL;
}

static void next_fiber(void *arg)
{
	struct next *n = arg;
	struct train_loader *l = n->loader;
	assert(l->next_out < l->batches);
	while ((n->batch = ready(l)) == NULL && l->rc == 0) {
		n->rc = rt_cond_wait(&l->changed);
		if (n->rc < 0)
			return;
	}
	if (n->batch == NULL) {
		n->rc = l->rc;
		return;
	}
	n->batch->ready = false;
	l->next_out++;
}

int train_loader_next(struct train_loader *l, struct train_batch **out)
{
	struct next n = {.loader = l};
	if (rt_on_loop(l->port->loop)) {
		next_fiber(&n);
	} else {
		int rc = rt_call(l->port, "next batch", next_fiber, &n);
		if (rc < 0)
			return rc;
	}
	*out = n.batch;
	assert(n.rc < 0 || n.batch->taken);
	return n.rc;
}

static void given(struct rt_msg *m)
{
	struct train_batch *b = container_of(m, struct train_batch, given);
	assert(b->taken && !b->ready);
	b->taken = false;
	rt_cond_broadcast(&b->loader->changed);
}

void train_loader_give(struct train_batch *b)
{
	b->given.fn = given;
	if (rt_on_loop(b->loader->port->loop))
		given(&b->given);
	else
		rt_post(b->loader->port->loop, &b->given);
}
