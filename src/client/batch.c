// SPDX-License-Identifier: Apache-2.0
/* Batched reads: many ranges of many files, as many at once as is good for the disks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/engine_impl.h"

#define RANGES_AT_ONCE 64

struct batch {
	struct call *call;
	struct engine_range *ranges;
	size_t count, next;
	void (*done)(void *ctx, struct engine_range *r);
	void *ctx;
	int rc;
	char why[FABRIC_ERROR_MAX];
};

static int64_t range_read(struct call *c, struct engine_range *r)
{
	struct efile *f = r->file;
	int rc = 0;
	if (f == NULL && r->id != 0)
		rc = engine_file_open_id(c, r->id, &f);
	else if (f == NULL && r->path != NULL)
		rc = engine_file_open(c, r->path, &f);
	else if (f == NULL)
		rc = call_fail(c, -EINVAL, "a range of no file");
	if (rc < 0)
		return rc;
	struct iovec iov = {r->buf, r->len};
	int64_t got = engine_preadv(c, f, &iov, 1, r->offset, &r->crc);
	if (r->file == NULL)
		engine_file_discard(f);
	return got;
}

static void batch_fiber(void *arg)
{
	struct batch *b = arg;
	while (b->next < b->count) {
		struct engine_range *r = &b->ranges[b->next++];
		struct call c = *b->call;
		r->result = rt_cancelled() ? -ECANCELED : range_read(&c, r);
		if (r->result < 0 && b->rc == 0) {
			b->rc = (int)r->result;
			memcpy(b->why, c.error, sizeof(b->why));
		}
		if (b->done != NULL)
			b->done(b->ctx, r);
	}
}

int engine_read_batch(struct call *c, struct engine_range *ranges, size_t n,
		      void (*done)(void *ctx, struct engine_range *r), void *ctx)
{
	struct batch b = {.call = c, .ranges = ranges, .count = n, .done = done, .ctx = ctx};
	struct rt_group g;
	rt_group_init(&g);
	for (size_t i = 1; i < n && i < RANGES_AT_ONCE; i++)
		if (rt_group_spawn(&g, "range", batch_fiber, &b) < 0)
			break;
	batch_fiber(&b);
	rt_group_join(&g);
	return b.rc < 0 ? call_fail(c, b.rc, "%s", b.why) : 0;
}
