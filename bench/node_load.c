// SPDX-License-Identifier: Apache-2.0
#include "node_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/crc.h"
#include "base/rng.h"
#include "node/node_client.h"
#include "rt/pool.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "table.h"

#define POOL_BYTES (1024 * MIB)

struct part_run {
	struct load_run *run;
	struct load_part *part;
	struct rpc_channel *channel;
	const struct context *who;
	struct rng rng;
	uint64_t started; /* requests */
	uint64_t appended_block;
	struct buf *payload;
	uint32_t payload_crc;
	uint64_t begin_ns;
	uint64_t end_ns;
};

struct load_run {
	const char *addr;
	struct part_run *parts;
	int n;
	uint64_t end_ns;
	uint32_t counted; /* running fibers of parts with a count */
	bool any_counted;
	struct rt_pool pool;
	int rc;
};

/* --- one request ------------------------------------------------------------------------------ */

static int do_put(struct part_run *p, struct node_call *c, uint64_t i)
{
	struct node_put put = {
		.data = {.buf = p->payload, .len = p->part->bytes, .crc = p->payload_crc}};
	return node_put(c, p->part->disk, (struct chunk_id){.block = p->part->first_block + i},
			&put);
}

static int do_get(struct part_run *p, struct node_call *c, struct buf *into)
{
	const struct load_part *part = p->part;
	uint64_t places = part->chunk_bytes / part->bytes;
	struct chunk_id id = {.block = part->first_block + rng_below(&p->rng, part->blocks)};
	struct slice got;
	int rc = node_get_one(c, part->disk, id, rng_below(&p->rng, places) * part->bytes,
			      part->bytes, into->data, &got);
	return rc;
}

/* Each fiber appends to its own chunk until that is full, then to a new one. */
struct appender {
	struct chunk_id id;
	uint64_t at;
};

static int do_append(struct part_run *p, struct node_call *c, struct appender *a)
{
	const struct load_part *part = p->part;
	int rc = 0;
	if (a->id.block == 0 || a->at + part->bytes > part->chunk_bytes) {
		struct node_put put = {.open = true, .capacity = part->chunk_bytes};
		*a = (struct appender){.id = {.block = part->first_block + p->appended_block++}};
		rc = node_put(c, part->disk, a->id, &put);
	}
	struct slice data = {.buf = p->payload, .len = part->bytes, .crc = p->payload_crc};
	if (rc == 0)
		rc = node_append(c, part->disk, a->id, 0, a->at, data);
	a->at += part->bytes;
	return rc;
}

/* --- fibers ----------------------------------------------------------------------------------- */

static bool more(struct part_run *p)
{
	const struct load_part *part = p->part;
	if (p->run->rc != 0)
		return false;
	if (part->count > 0)
		return p->started < part->count;
	if (p->run->any_counted && p->run->counted == 0)
		return false;
	return rt_now_ns() < p->run->end_ns;
}

/* Returns the arrival time of the i-th request of an open stream. */
static int await_turn(struct part_run *p, uint64_t i)
{
	if (p->part->per_s <= 0)
		return 0;
	uint64_t at = p->begin_ns + (uint64_t)((double)i / p->part->per_s * 1e9);
	uint64_t now = rt_now_ns();
	return at > now ? rt_sleep_ns(at - now) : 0;
}

static void load_fiber(void *arg)
{
	struct part_run *p = arg;
	struct load_part *part = p->part;
	struct node_call c = {.channel = p->channel, .timeout_ns = 60 * NS_PER_S};
	rt_context_set(p->who);
	struct appender a = {0};
	struct buf *into = NULL;
	int rc = part->kind == LOAD_GET ? rt_pool_get(&p->run->pool, part->bytes, &into) : 0;
	while (rc == 0 && more(p)) {
		uint64_t i = p->started++;
		rc = await_turn(p, i);
		uint64_t start = rt_now_ns();
		if (rc == 0 && part->kind == LOAD_PUT)
			rc = do_put(p, &c, i);
		else if (rc == 0 && part->kind == LOAD_GET)
			rc = do_get(p, &c, into);
		else if (rc == 0 && part->kind == LOAD_APPEND)
			rc = do_append(p, &c, &a);
		else if (rc == 0)
			rc = node_delete_one(&c, part->disk,
					     (struct chunk_id){.block = part->first_block + i});
		p->end_ns = rt_now_ns();
		if (part->done < LOAD_SAMPLES_MAX)
			part->samples_ms[part->done] = (double)(p->end_ns - start) / 1e6;
		part->done++;
	}
	if (rc != 0 && p->run->rc == 0) {
		fprintf(stderr, "bench: a request failed: %s\n", c.error);
		p->run->rc = rc;
	}
	buf_unref(into);
	if (part->count > 0)
		p->run->counted--;
}

static int part_open(struct load_run *r, struct part_run *p)
{
	struct load_part *part = p->part;
	p->run = r;
	part->done = 0;
	rng_init(&p->rng, 1 + part->first_block + (uint64_t)part->kind);
	int rc = context_new(&p->who, &(struct context){.traffic_group = part->group,
							.traffic_class = part->class});
	if (rc == 0)
		rc = rpc_channel_open(&p->channel, r->addr,
				      &(struct rpc_channel_options){.pool = &r->pool});
	if (rc == 0)
		rc = rt_pool_get(&r->pool, part->bytes, &p->payload);
	if (rc != 0)
		return rc;
	rng_fill(&p->rng, p->payload->data, part->bytes);
	p->payload_crc = crc32c(0, p->payload->data, part->bytes);
	return 0;
}

static void load_main(void *arg)
{
	struct load_run *r = arg;
	struct rt_group g;
	rt_pool_init(&r->pool, POOL_BYTES);
	rt_group_init(&g);
	for (int i = 0; i < r->n && r->rc == 0; i++)
		r->rc = part_open(r, &r->parts[i]);
	for (int i = 0; i < r->n; i++) {
		r->parts[i].begin_ns = rt_now_ns();
		for (uint32_t f = 0; f < r->parts[i].part->fibers && r->rc == 0; f++) {
			r->rc = rt_group_spawn(&g, "load", load_fiber, &r->parts[i]);
			if (r->rc == 0 && r->parts[i].part->count > 0)
				r->counted++;
		}
	}
	r->any_counted = r->counted > 0;
	rt_group_join(&g);
	for (int i = 0; i < r->n; i++) {
		struct part_run *p = &r->parts[i];
		p->part->seconds = (double)(p->end_ns - p->begin_ns) / 1e9;
		if (p->channel != NULL)
			rpc_channel_close(p->channel);
		buf_unref(p->payload);
		context_unref(p->who);
	}
	rt_pool_fini(&r->pool);
}

int load_run(const char *addr, struct load_part *const *parts, int n, double span_s)
{
	struct part_run runs[4] = {0};
	struct load_run r = {.addr = addr, .parts = runs, .n = n};
	if (n > 4)
		return -EINVAL;
	for (int i = 0; i < n; i++)
		runs[i].part = parts[i];
	r.end_ns = 0;
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	r.end_ns = (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec + (uint64_t)(span_s * 1e9);
	int rc = rt_real_run(NULL, load_main, &r);
	return rc != 0 ? rc : r.rc;
}

double load_bytes_per_s(const struct load_part *p)
{
	return p->seconds > 0 ? (double)(p->done * p->bytes) / p->seconds : 0;
}

double load_quantile_ms(struct load_part *p, double q)
{
	uint64_t n = p->done < LOAD_SAMPLES_MAX ? p->done : LOAD_SAMPLES_MAX;
	if (n == 0)
		return 0;
	qsort(p->samples_ms, n, sizeof(double), compare_doubles);
	uint64_t i = (uint64_t)(q * (double)n);
	return p->samples_ms[i < n ? i : n - 1];
}
