// SPDX-License-Identifier: Apache-2.0
/* Public calls for batched reads, with results for all ranges together or one by one. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "client/lib.h"

/* Indexes of terrane_range.private_. */
enum range_field { RANGE_DONE, RANGE_NEXT };

struct terrane_batch {
	struct terrane *t;
	/* Guards the fields below that change after terrane_batch_open. No other lock is taken
	 * under it. */
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct terrane_range *ranges;
	size_t count;
	bool in_order;
	size_t returned; /* number of ranges that terrane_batch_next has returned */
	/* list of done ranges that were not returned yet, oldest first */
	struct terrane_range *first, *last;
	bool finished;
	int64_t result;
	struct terrane_op op;
	struct terrane_options o;
};

static void range_deliver(struct terrane_range *to, const struct engine_range *from)
{
	to->result = from->result;
	to->crc32c = from->crc;
}

static void batch_add(struct terrane_batch *b, struct terrane_range *r)
{
	pthread_mutex_lock(&b->lock);
	assert(r->private_[RANGE_DONE] == 0); /* a range ends once */
	r->private_[RANGE_DONE] = 1;
	r->private_[RANGE_NEXT] = 0;
	if (b->first == NULL)
		b->first = r;
	else
		b->last->private_[RANGE_NEXT] = (uintptr_t)r;
	b->last = r;
	pthread_cond_broadcast(&b->change);
	pthread_mutex_unlock(&b->lock);
}

static void range_done(void *ctx, struct engine_range *er)
{
	struct terrane_batch *b = ctx;
	range_deliver(er->user, er);
	if (b != NULL)
		batch_add(b, er->user);
}

/* Fails all ranges with rc. */
static int batch_fail(const struct request *r, int rc)
{
	for (size_t i = 0; i < r->a.count; i++)
		range_done(r->a.batch,
			   &(struct engine_range){.result = rc, .user = &r->a.ranges[i]});
	return rc;
}

static int64_t run_batch(struct call *c, struct request *r)
{
	size_t n = r->a.count;
	AUTO_FREE struct engine_range *list = calloc(n > 0 ? n : 1, sizeof(*list));
	if (list == NULL)
		return batch_fail(r, -ENOMEM);
	size_t count = 0;
	int bad = 0;
	for (size_t i = 0; i < n; i++) {
		struct terrane_range *u = &r->a.ranges[i];
		struct engine_range *e = &list[count++];
		*e = (struct engine_range){.id = u->id,
					   .path = u->path,
					   .offset = u->offset,
					   .len = u->len,
					   .buf = u->buf,
					   .user = u,
					   .prep = u->prep,
					   .sha256 = u->sha256};
		int rc = u->file == NULL ? 0 : lib_file_engine(c, u->file, &e->file);
		if (rc < 0) {
			/* Only this range fails; the other ranges of the batch are read. */
			e->result = rc;
			range_done(r->a.batch, e);
			bad = bad == 0 ? rc : bad;
			count--;
		}
	}
	int rc = engine_read_batch(c, list, count, range_done, r->a.batch);
	return bad < 0 ? bad : rc;
}

static struct request req_batch(struct terrane_range *ranges, size_t n, struct terrane_batch *b)
{
	return (struct request){.run = run_batch, .a = {.ranges = ranges, .count = n, .batch = b}};
}

int terrane_read_batch(struct terrane *t, struct terrane_range *ranges, size_t n,
		       const struct terrane_options *o)
{
	struct request r = req_batch(ranges, n, NULL);
	return (int)lib_request_block(t, &r, o);
}

int terrane_read_batch_start(struct terrane *t, struct terrane_range *ranges, size_t n,
			     const struct terrane_options *o, struct terrane_op *op)
{
	struct request r = req_batch(ranges, n, NULL);
	return lib_request_start(t, &r, o, op);
}

static void batch_finished(struct terrane_op *op)
{
	struct terrane_batch *b = op->user;
	pthread_mutex_lock(&b->lock);
	b->finished = true;
	b->result = op->result;
	pthread_cond_broadcast(&b->change);
	pthread_mutex_unlock(&b->lock);
}

int terrane_batch_open(struct terrane *t, struct terrane_range *ranges, size_t n, bool in_order,
		       struct terrane_batch **out, const struct terrane_options *o)
{
	*out = NULL;
	struct terrane_batch *b = calloc(1, sizeof(*b));
	if (b == NULL)
		return -ENOMEM;
	b->t = t;
	b->ranges = ranges;
	b->count = n;
	b->in_order = in_order;
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->change, NULL);
	if (o != NULL)
		b->o = *o;
	b->op = (struct terrane_op){.done = batch_finished, .user = b};
	for (size_t i = 0; i < n; i++)
		ranges[i].private_[RANGE_DONE] = 0;
	struct request r = req_batch(ranges, n, b);
	int rc = lib_request_start(t, &r, &b->o, &b->op);
	if (rc < 0) {
		pthread_cond_destroy(&b->change);
		pthread_mutex_destroy(&b->lock);
		free(b);
		return rc;
	}
	*out = b;
	return 0;
}

/* Returns the next range to return if it is done, else NULL. The lock is held. */
static struct terrane_range *batch_pick(struct terrane_batch *b)
{
	assert(b->returned < b->count);
	if (b->in_order) {
		struct terrane_range *r = &b->ranges[b->returned];
		return r->private_[RANGE_DONE] != 0 ? r : NULL;
	}
	struct terrane_range *r = b->first;
	if (r != NULL)
		b->first = (struct terrane_range *)(uintptr_t)r->private_[RANGE_NEXT];
	return r;
}

int terrane_batch_next(struct terrane_batch *b, struct terrane_range **out)
{
	int rc = 0;
	pthread_mutex_lock(&b->lock);
	while (b->returned < b->count) {
		*out = batch_pick(b);
		if (*out != NULL) {
			b->returned++;
			rc = 1;
			break;
		}
		if (b->finished) {
			/* The batch failed before it read this range. */
			rc = b->result < 0 ? (int)b->result : -EIO;
			break;
		}
		pthread_cond_wait(&b->change, &b->lock);
	}
	pthread_mutex_unlock(&b->lock);
	return rc;
}

void terrane_batch_close(struct terrane_batch *b)
{
	if (b == NULL)
		return;
	pthread_mutex_lock(&b->lock);
	bool finished = b->finished;
	pthread_mutex_unlock(&b->lock);
	if (!finished)
		terrane_cancel(b->t, &b->op);
	pthread_mutex_lock(&b->lock);
	while (!b->finished)
		pthread_cond_wait(&b->change, &b->lock);
	pthread_mutex_unlock(&b->lock);
	pthread_cond_destroy(&b->change);
	pthread_mutex_destroy(&b->lock);
	free(b);
}
