// SPDX-License-Identifier: Apache-2.0
#include "client/fabric.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "cluster/cluster.h"

#define LINGER_NS (2 * NS_PER_S)
#define LINGER_STEP_NS (5 * NS_PER_MS)
#define FABRIC_LINKS_MAX ((size_t)CLUSTER_NODES_MAX)
/* A pool buffer takes up to a quarter more than its requested size. */
#define FABRIC_GATED(bytes) ((bytes) / 5 * 4)

static void shared_init(struct fabric_shared *s, const struct fabric_options *o)
{
	rt_pool_init(&s->pool, o->memory_bytes);
	/* Blocks are tens of MiB: allocating new memory for each would cost more than encoding
	 * it. */
	s->pool.bufs.cache_limit_bytes = o->memory_bytes / 2;
	uint64_t gated_bytes = FABRIC_GATED(o->memory_bytes);
	assert(gated_bytes <= o->memory_bytes && gated_bytes >= 8);
	gate_init(&s->writes, gated_bytes / 8 * 5);
	gate_init(&s->reads, gated_bytes / 8 * 2);
	gate_init(&s->rebuilds, gated_bytes / 8);
	budget_init(&s->budget, o->rebuild_share, o->rebuild_floor_per_s, o->rebuild_burst);
}

static void shared_fini(struct fabric_shared *s)
{
	gate_fini(&s->writes);
	gate_fini(&s->reads);
	gate_fini(&s->rebuilds);
	budget_fini(&s->budget);
	rt_pool_fini(&s->pool);
}

/* Initializes what belongs to the loop of the fabric. */
static void fabric_init_own(struct fabric *f)
{
	list_init(&f->writers);
	map_init(&f->links, FABRIC_LINKS_MAX);
	map_init(&f->seen, CLUSTER_DISKS_MAX);
	codecs_init(&f->codecs);
	rt_group_init(&f->background);
}

int fabric_init(struct fabric *f, const struct fabric_options *o)
{
	memset(f, 0, sizeof(*f));
	f->opts = *o;
	if (f->opts.memory_bytes == 0)
		f->opts.memory_bytes = 640 * MIB;
	if (f->opts.rebuild_share <= 0)
		f->opts.rebuild_share = 0.1;
	if (f->opts.rebuild_floor_per_s == 0)
		f->opts.rebuild_floor_per_s = 50;
	if (f->opts.rebuild_floor_per_s < 0)
		f->opts.rebuild_floor_per_s = 0;
	if (f->opts.rebuild_burst <= 0)
		f->opts.rebuild_burst = 64;
	if (f->opts.chunk_timeout_ns == 0)
		f->opts.chunk_timeout_ns = 10 * NS_PER_S;
	if (f->opts.log_check_ns == 0)
		f->opts.log_check_ns = 10 * NS_PER_S;
	if (f->opts.log_degraded_ns == 0)
		f->opts.log_degraded_ns = 20 * NS_PER_S;
	if (f->opts.home_bytes == 0)
		f->opts.home_bytes = 256 * KIB;
	f->shared = &f->own_shared;
	shared_init(f->shared, &f->opts);
	fabric_init_own(f);
	return 0;
}

void fabric_init_part(struct fabric *part, struct fabric *home)
{
	assert(home->shared == &home->own_shared);
	memset(part, 0, sizeof(*part));
	part->opts = home->opts;
	part->shared = home->shared;
	part->home = home;
	fabric_init_own(part);
}

/* Waits briefly for the last puts of blocks: chunks that are stored now need no repair. */
static void linger(const struct fabric *f)
{
	uint64_t end_ns = rt_now_ns() + LINGER_NS;
	while (!list_empty(&f->background.members) && rt_now_ns() < end_ns)
		if (rt_sleep_ns(LINGER_STEP_NS) < 0)
			return;
}

static void fabric_quiet_own(struct fabric *f)
{
	linger(f);
	f->closing = true;
	rt_group_cancel(&f->background);
	rt_group_join(&f->background);
}

void fabric_quiet(struct fabric *f)
{
	rt_shield_enter();
	fabric_parts_stop(f);
	fabric_quiet_own(f);
	fabric_parts_join(f);
	rt_shield_leave();
}

static void fabric_fini_own(struct fabric *f)
{
	rt_shield_enter();
	assert(list_empty(&f->background.members)); /* no background fiber may still use a link */
	links_close(f);
	rt_shield_leave();
	codecs_fini(&f->codecs);
}

void fabric_fini_part(struct fabric *part)
{
	rt_shield_enter();
	fabric_quiet_own(part);
	rt_shield_leave();
	fabric_fini_own(part);
}

void fabric_fini(struct fabric *f)
{
	fabric_quiet(f);
	fabric_fini_own(f);
	shared_fini(f->shared);
}

void call_init(struct call *c, struct fabric *f)
{
	memset(c, 0, sizeof(*c));
	c->fabric = f;
}

int call_fail(struct call *c, int rc, const char *fmt, ...)
{
	assert(rc < 0);
	va_list args;
	va_start(args, fmt);
	vsnprintf(c->error, sizeof(c->error), fmt, args);
	va_end(args);
	return rc;
}
