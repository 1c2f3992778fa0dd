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
	rt_pool_init(&f->pool, f->opts.memory_bytes);
	/* Blocks are tens of MiB: allocating new memory for each would cost more than encoding
	 * it. */
	f->pool.bufs.cache_limit_bytes = f->opts.memory_bytes / 2;
	uint64_t gated_bytes = FABRIC_GATED(f->opts.memory_bytes);
	assert(gated_bytes <= f->opts.memory_bytes && gated_bytes >= 8);
	gate_init(&f->writes, gated_bytes / 8 * 5);
	gate_init(&f->reads, gated_bytes / 8 * 2);
	gate_init(&f->rebuilds, gated_bytes / 8);
	list_init(&f->writers);
	map_init(&f->links, FABRIC_LINKS_MAX);
	map_init(&f->seen, CLUSTER_DISKS_MAX);
	codecs_init(&f->codecs);
	budget_init(&f->budget, f->opts.rebuild_share, f->opts.rebuild_floor_per_s,
		    f->opts.rebuild_burst);
	rt_group_init(&f->background);
	return 0;
}

/* Waits briefly for the last puts of blocks: chunks that are stored now need no repair. */
static void linger(const struct fabric *f)
{
	uint64_t end_ns = rt_now_ns() + LINGER_NS;
	while (!list_empty(&f->background.members) && rt_now_ns() < end_ns)
		if (rt_sleep_ns(LINGER_STEP_NS) < 0)
			return;
}

void fabric_quiet(struct fabric *f)
{
	rt_shield_enter();
	linger(f);
	f->closing = true;
	rt_group_cancel(&f->background);
	rt_group_join(&f->background);
	rt_shield_leave();
}

void fabric_fini(struct fabric *f)
{
	fabric_quiet(f);
	rt_shield_enter();
	assert(list_empty(&f->background.members)); /* no background fiber may still use a link */
	links_close(f);
	rt_shield_leave();
	codecs_fini(&f->codecs);
	rt_pool_fini(&f->pool);
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
