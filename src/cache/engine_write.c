// SPDX-License-Identifier: Apache-2.0
/*
 * The writer of an engine: one fiber that does what the core decided, in that order.
 *
 * The order is what makes it right. A region that was freed is wiped before anything is written to it, and the wipe waits
 * for reads of what stood there before. A segment that is kept when its region is freed is copied before its place is
 * written again, because a region is filled from its start and the kept segments come first. (If several victims were
 * needed for one insert, the place of a kept segment may be written before it is copied. Its sum does not match then, and
 * the next read drops it.)
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/engine_impl.h"

/* ---- what the core decides ---- */

static struct op *op_add(struct cache_engine *e, enum op_kind kind, uint32_t region)
{
	struct op *op = calloc(1, sizeof(*op));
	if (op == NULL)
		return NULL;
	op->kind = kind;
	op->region = region;
	list_push_back(&e->ops, &op->link);
	e->ops_n++;
	e->pending[region]++;
	rt_cond_signal(&e->work);
	return op;
}

static void on_keep(void *arg, uint32_t number, uint32_t kept)
{
	struct cache_engine *e = arg;
	e->kept_from[kept] = number;
}

/* Without memory for a job the place is never written: its sum does not match, and the first read drops it. */
static void on_append(void *arg, uint32_t number, uint32_t dram, uint32_t kept)
{
	struct cache_engine *e = arg;
	uint32_t region = number / e->volume.region_segments;
	struct op *op = op_add(e, dram != CACHE_NONE ? OP_APPEND : OP_COPY, region);
	if (op == NULL)
		return;
	op->number = number;
	op->sum = e->core.entries[number].sum;
	if (dram == CACHE_NONE) {
		op->from = e->kept_from[kept];
		e->stats.reinserted++;
		return;
	}
	uint32_t place = dram - e->core.flash_n;
	assert(e->spare_n > 0);
	op->buf = e->places[place];
	e->places[place] = e->spares[--e->spare_n];
}

/* Without memory for a footer the region is used, and lost at the next start. */
static void on_seal(void *arg, uint32_t region, uint32_t segments)
{
	struct cache_engine *e = arg;
	const struct cache_entry *entries =
		&e->core.entries[(uint64_t)region * e->volume.region_segments];
	uint8_t *footer =
		aligned_alloc(CACHE_PAGE_BYTES, cache_footer_bytes(e->volume.region_segments));
	struct op *op = footer != NULL ? op_add(e, OP_SEAL, region) : NULL;
	if (op == NULL) {
		free(footer);
		return;
	}
	const struct cache_footer f = {.region = region,
				       .seal = ++e->seal,
				       .bucket_id = e->bucket_ids[entries->bucket],
				       .segments = segments};
	cache_footer_encode(&e->volume, &f, entries, footer);
	op->buf = footer;
}

static void on_free(void *arg, uint32_t region)
{
	(void)op_add(arg, OP_WIPE, region);
}

const struct cache_core_ops engine_core_ops = {
	.keep = on_keep, .append = on_append, .seal = on_seal, .free_region = on_free};

const struct op *engine_pending(const struct cache_engine *e, uint32_t number)
{
	const struct op *op;
	if (e->pending[number / e->volume.region_segments] == 0)
		return NULL;
	/* A place is written once in the life of its region: the last job is the one that counts. */
	const struct op *last = NULL;
	list_for_each_entry(op, &e->ops, link) {
		if ((op->kind == OP_APPEND || op->kind == OP_COPY) && op->number == number)
			last = op;
	}
	return last;
}

/* ---- the writer ---- */

static int device_write(struct cache_engine *e, uint64_t at, const void *buf, uint64_t len)
{
	int rc = engine_suspended(e) ? -EIO : rt_file_write(e->file, buf, len, at);
	if (!engine_suspended(e))
		engine_note(e, rc);
	if (rc == 0)
		e->stats.device_bytes += len;
	return rc;
}

static int write_segment(struct cache_engine *e, const struct op *op)
{
	uint64_t len = e->volume.segment_bytes;
	const uint8_t *bytes = op->buf;
	int rc = 0;
	if (op->kind == OP_COPY) {
		bytes = e->copying;
		rc = engine_read(e, cache_slot_at(&e->volume, op->from), e->copying, len);
	}
	if (rc == 0)
		rc = device_write(e, cache_slot_at(&e->volume, op->number), bytes, len);
	if (rc == 0)
		e->stats.segment_bytes += len;
	return rc;
}

static int wipe(struct cache_engine *e, const struct op *op)
{
	while (e->readers[op->region] > 0) {
		int rc = rt_cond_wait(&e->unread);
		if (rc != 0)
			return rc;
	}
	uint64_t segments = (uint64_t)e->volume.segment_bytes * e->volume.region_segments;
	return device_write(e, cache_region_at(&e->volume, op->region) + segments, e->blank,
			    CACHE_PAGE_BYTES);
}

static int run(struct cache_engine *e, const struct op *op)
{
	uint64_t segments = (uint64_t)e->volume.segment_bytes * e->volume.region_segments;
	if (op->kind == OP_WIPE)
		return wipe(e, op);
	if (op->kind == OP_SEAL)
		return device_write(e, cache_region_at(&e->volume, op->region) + segments, op->buf,
				    cache_footer_bytes(e->volume.region_segments));
	return write_segment(e, op);
}

/* Drops a segment that could not be written, if it is still the one at its place. */
static void drop_unwritten(struct cache_engine *e, const struct op *op)
{
	const struct cache_entry *now = &e->core.entries[op->number];
	if ((op->kind == OP_APPEND || op->kind == OP_COPY) && now->used != 0 &&
	    now->sum == op->sum && engine_pending(e, op->number) == NULL)
		cache_core_drop(&e->core, op->number);
}

static void op_free(struct cache_engine *e, struct op *op)
{
	if (op->kind == OP_APPEND) {
		assert(e->spare_n < CACHE_ENGINE_QUEUE);
		e->spares[e->spare_n++] = op->buf;
	} else {
		free(op->buf);
	}
	free(op);
}

static void op_end(struct cache_engine *e, struct op *op)
{
	assert(e->ops_n > 0 && e->pending[op->region] > 0);
	list_remove(&op->link);
	e->ops_n--;
	e->pending[op->region]--;
}

void engine_writer(void *arg)
{
	struct cache_engine *e = arg;
	rt_background();
	for (;;) {
		struct list *first = list_first(&e->ops);
		if (first == NULL) {
			if (e->closing || rt_cond_wait(&e->work) != 0)
				return;
			continue;
		}
		struct op *op = list_entry(first, struct op, link);
		int rc = run(e, op);
		if (rc == -ECANCELED)
			return;
		op_end(e, op);
		if (rc != 0)
			drop_unwritten(e, op);
		op_free(e, op);
		rt_cond_broadcast(&e->done);
	}
}

void engine_ops_free(struct cache_engine *e)
{
	struct op *op, *after;
	list_for_each_entry_safe(op, after, &e->ops, link) {
		op_end(e, op);
		op_free(e, op);
	}
}

void cache_engine_settle(struct cache_engine *e)
{
	while (e->ops_n > 0 && rt_cond_wait(&e->done) == 0)
		;
}
