// SPDX-License-Identifier: Apache-2.0
/*
 * Reads of the disks: fetches, and the comparisons of shadow mode. A fetch runs in a fiber of its own, so that it ends
 * although the client that caused it has gone, and requests wait for it as long as they like.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bug.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/log.h"
#include "cachenode/impl.h"
#include "client/block_tier.h"
#include "meta_client/meta_client.h"
#include "rt/rt.h"

#define MAP_AGE_NS (10 * NS_PER_S)
#define FETCH_NS (30 * NS_PER_S) /* longest fetch */
#define COMPARISONS_MAX 4u

/* --- the disks ------------------------------------------------------------------------------------ */

int cachenode_record(struct cachenode *n, uint64_t block, struct arena *a, struct meta_block *out)
{
	struct meta_call m = {.client = n->meta};
	*out = (struct meta_block){0};
	int rc = meta_client_map(&m, MAP_AGE_NS, &n->fabric.map);
	if (rc == 0)
		rc = meta_client_block_get(&m, &block, 1, a, out);
	if (rc < 0)
		return rc;
	return out->id == block && out->state == META_BLOCK_SEALED ? 0 : -ENOENT;
}

int cachenode_read(struct cachenode *n, uint32_t tenant, const struct meta_block *b, uint64_t off,
		   struct iovec to, uint32_t *crc)
{
	struct call c;
	call_init(&c, &n->fabric);
	c.tenant = tenant;
	struct block_range range = {
		.block = b, .off = off, .len = to.iov_len, .sink = {.iov = &to, .n = 1}};
	struct block_range *list = &range;
	int rc = blocks_read(&(struct block_read){.call = &c, .ranges = &list, .count = 1});
	*crc = range.crc;
	return rc;
}

struct source {
	struct cachenode *node;
	uint32_t tenant;
	const struct meta_block *block;
};

/* Reads full segments for the engine (cache_fetch_fn). */
static int source_fetch(void *arg, uint64_t off, uint64_t len, uint8_t *to, uint64_t *got,
			uint32_t *crcs)
{
	const struct source *s = arg;
	uint64_t size = s->node->o->engine.segment_bytes;
	uint32_t want = 0, have = 0;
	if (off >= s->block->length)
		return -ERANGE;
	*got = min_u64(len, s->block->length - off);
	struct iovec iov = {.iov_base = to, .iov_len = *got};
	int rc = cachenode_read(s->node, s->tenant, s->block, off, iov, &want);
	/* The CRC of all bytes came from the disks; those of the segments are believed when they give it. */
	for (uint64_t at = 0; rc == 0 && at < *got; at += size) {
		uint64_t n = min_u64(size, *got - at);
		crcs[at / size] = crc32c(0, to + at, n);
		have = crc32c_combine(have, crcs[at / size], n);
	}
	return rc == 0 && have != want ? -EBADMSG : rc;
}

/* --- fetches ------------------------------------------------------------------------------------ */

static void fetch_unref(struct fetch *f)
{
	assert(f->users > 0);
	if (--f->users > 0)
		return;
	context_unref(f->context);
	buf_unref(f->data);
	free(f);
}

static int fetch_run(struct fetch *f)
{
	struct cachenode *n = f->node;
	struct meta_block record;
	AUTO_ARENA struct arena a;
	arena_init(&a, CACHENODE_RECORD_BYTES);
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(f->context);
	rt_deadline_set(rt_now_ns() + FETCH_NS);
	int rc = cachenode_record(n, f->get.name.block, &a, &record);
	struct source s = {.node = n, .tenant = f->tenant, .block = &record};
	if (rc == 0 && rt_pool_get(&n->pool, f->get.len, &f->data) < 0)
		f->data = NULL;
	if (rc == 0)
		rc = cache_engine_fill(n->cache, &f->get, source_fetch, &s,
				       f->data != NULL ? f->data->data : NULL, &f->crc);
	return rc;
}

static int fetch_run_claim(struct fetch *f)
{
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(f->context);
	rt_deadline_set(rt_now_ns() + FETCH_NS);
	return content_fetch(f);
}

static void fetch_main(void *arg)
{
	struct fetch *f = arg;
	struct cachenode *n = f->node;
	f->rc = f->claim.len > 0 ? fetch_run_claim(f) : fetch_run(f);
	if (f->rc < 0 && f->rc != -ENOENT && f->rc != -ECANCELED)
		log_debug("fetch_failed", "block=%016lx err=%s", f->get.name.block,
			  err_name(f->rc));
	f->ended = true;
	list_remove(&f->link);
	assert(n->fetches_n > 0);
	n->fetches_n -= !bug_planted(BUG_CACHE_FETCHES);
	rt_cond_broadcast(&f->end);
	fetch_unref(f);
}

struct fetch *fetch_find(struct cachenode *n, const struct cache_get *g)
{
	uint64_t size = n->o->engine.segment_bytes;
	struct fetch *f;
	list_for_each_entry(f, &n->fetches, link) {
		if (f->get.name.block != g->name.block || f->get.name.part != g->name.part)
			continue;
		if (f->get.off / size <= g->off / size &&
		    (f->get.off + f->get.len - 1) / size >= (g->off + g->len - 1) / size)
			return f;
	}
	return NULL;
}

int cachenode_context(const struct context **out, uint32_t tenant)
{
	const struct context *asks = rt_context();
	char name[sizeof(META_SYSTEM) + 12];
	snprintf(name, sizeof(name), META_SYSTEM ":%u", tenant);
	return context_new(out, &(struct context){.tenant = name,
						  .traffic_group = asks->traffic_group,
						  .traffic_class = asks->traffic_class,
						  .tags = asks->tags});
}

/* Starts a fetch with the get, the tenant and the claim of `like`. */
static int fetch_begin(struct cachenode *n, const struct fetch *like, struct fetch **out)
{
	*out = NULL;
	if (n->fetches_n >= CACHENODE_FETCHES_MAX || n->closing)
		return -EBUSY;
	struct fetch *f = calloc(1, sizeof(*f));
	if (f == NULL)
		return -ENOMEM;
	*f = *like;
	f->node = n;
	f->users = 1;
	f->get.again = true;
	f->get.defer = false;
	rt_cond_init(&f->end);
	int rc = cachenode_context(&f->context, f->tenant);
	if (rc == 0) {
		list_push_back(&n->fetches, &f->link);
		n->fetches_n++;
		rc = rt_group_spawn(&n->fibers, "fetch", fetch_main, f);
		if (rc < 0) {
			list_remove(&f->link);
			n->fetches_n--;
		}
	}
	if (rc < 0) {
		fetch_unref(f);
		return rc;
	}
	*out = f;
	return 0;
}

int fetch_start(struct cachenode *n, const struct cache_get *g, uint32_t tenant, struct fetch **out)
{
	return fetch_begin(n, &(struct fetch){.get = *g, .tenant = tenant}, out);
}

int fetch_start_claim(struct cachenode *n, const struct cache_get *g, const struct content_claim *c,
		      bool judged, struct fetch **out)
{
	assert(c->len > 0);
	return fetch_begin(
		n, &(struct fetch){.get = *g, .tenant = c->tenant, .claim = *c, .judged = judged},
		out);
}

int fetch_wait(struct fetch *f, const struct cache_get *g, struct slice *out)
{
	int rc = 0;
	*out = (struct slice){0};
	f->users++;
	while (!f->ended && rc == 0)
		rc = rt_cond_wait(&f->end);
	if (f->ended)
		rc = f->rc;
	bool same = f->get.off == g->off && f->get.len == g->len;
	if (bug_planted(BUG_CACHE_RANGE))
		same = f->get.len == g->len;
	if (rc == 0 && f->data != NULL && same)
		*out = (struct slice){.buf = buf_ref(f->data), .len = g->len, .crc = f->crc};
	fetch_unref(f);
	return rc;
}

/* --- shadow mode --------------------------------------------------------------------------------- */

struct comparison {
	struct cachenode *node;
	struct cache_get get;
	const struct context *context; /* owned */
	uint32_t tenant, crc;
};

static int compare(struct comparison *c)
{
	struct cachenode *n = c->node;
	struct meta_block record;
	uint32_t crc = 0;
	AUTO_ARENA struct arena a;
	AUTO_BUF struct buf *b = NULL;
	arena_init(&a, CACHENODE_RECORD_BYTES);
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(c->context);
	rt_deadline_set(rt_now_ns() + FETCH_NS);
	int rc = cachenode_record(n, c->get.name.block, &a, &record);
	if (rc == 0)
		rc = rt_pool_get(&n->fabric.shared->pool, c->get.len, &b);
	if (rc == 0)
		rc = cachenode_read(n, c->tenant, &record, c->get.off,
				    (struct iovec){.iov_base = b->data, .iov_len = c->get.len},
				    &crc);
	if (rc < 0)
		return rc;
	n->shadowed++;
	if (crc == c->crc)
		return 0;
	n->shadow_wrong++;
	log_error("cache_differs", "block=%016lx offset=%lu length=%lu text=%s", c->get.name.block,
		  c->get.off, c->get.len,
		  LOG_QUOTE("cached bytes differ from those on the disks; they are dropped"));
	cache_engine_drop(n->cache, &c->get);
	return 0;
}

static void compare_main(void *arg)
{
	struct comparison *c = arg;
	rt_background();
	(void)compare(c);
	assert(c->node->comparing > 0);
	c->node->comparing--;
	context_unref(c->context);
	free(c);
}

void shadow_maybe(struct cachenode *n, const struct cache_get *g, uint32_t tenant, uint32_t crc)
{
	double drawn = (double)(rt_random_u64() >> 11) * 0x1p-53;
	if (drawn >= n->shadow || n->comparing >= COMPARISONS_MAX || n->closing)
		return;
	struct comparison *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return;
	*c = (struct comparison){.node = n, .get = *g, .tenant = tenant, .crc = crc};
	n->comparing++;
	if (cachenode_context(&c->context, tenant) == 0 &&
	    rt_group_spawn(&n->fibers, "shadow", compare_main, c) == 0)
		return;
	n->comparing--;
	context_unref(c->context);
	free(c);
}
