// SPDX-License-Identifier: Apache-2.0
/* See cluster_watch.h. */
#include "cluster_watch.h"
#include "cluster_secure.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "meta/meta.h"
#include "node/node_client.h"
#include "rt/pool.h"
#include "rt/rt.h"

#define WATCH_NS (2 * NS_PER_S)
#define ASK_NS NS_PER_S
#define PAGE 32
#define NAMED_MAX 256 /* largest number of chunks of one disk that are compared */

struct watch {
	struct world *world;
	struct kv *kv;
	struct meta *meta;
	struct rt_pool pool;
	struct rpc_channel *to[NODES_MAX];
};

/* The chunks that records name on a disk, and the answers of its node. */
struct disk_watch {
	struct watch *watch;
	const struct node_place *node;
	uint64_t disk;
	size_t count;
	struct named named[NAMED_MAX];
	struct chunk_id ids[NAMED_MAX];
	struct chunk_stat st[NAMED_MAX];
	int rcs[NAMED_MAX];
};

/* --- the store ---------------------------------------------------------------------------------- */

int world_store_open(struct world *w, struct kv **kv, struct meta **m)
{
	struct meta_options o;
	*kv = NULL;
	*m = NULL;
	meta_options_init(&o);
	int rc = kv_mem_open(kv, w->kv);
	return rc == 0 ? meta_open(m, *kv, &o) : rc;
}

void world_store_close(struct kv *kv, struct meta *m)
{
	meta_close(m);
	if (kv != NULL)
		kv_close(kv);
}

bool named_still(struct world *w, struct meta *m, const struct named *n)
{
	const struct meta_ctx ctx = {.tenant = n->tenant};
	struct meta_block b;
	struct arena a;
	arena_init(&a, MIB);
	int rc = meta_block_get(m, &ctx, &n->block, 1, &a, &b);
	bool still = rc == 0 && b.state == META_BLOCK_SEALED && b.chunk_block == n->id.block &&
		     b.release_count == n->release_count && n->id.index < b.chunk_count &&
		     b.chunks[n->id.index].disk == n->disk &&
		     !(w->plan.pools && b.chunks[n->id.index].damaged);
	arena_fini(&a);
	return still;
}

/*
 * --- one check of all disks -------------------------------------------------------------------------------------
 */

static void named_answer(struct watch *h, const struct named *n, int rc)
{
	bool gone = rc == -ENOENT, damaged = rc == -EBADMSG || rc == -ENODATA;
	if ((gone || damaged) && named_still(h->world, h->meta, n) &&
	    world_disk_sound(h->world, n->disk))
		model_violation(&h->world->model, gone ? "I10" : "I2",
				"block %016lx: chunk %u %s disk %lu, where the record names it",
				n->block, n->id.index,
				gone ? "was deleted from" : "is incomplete on", n->disk);
}

static void disk_watch(void *arg)
{
	struct disk_watch *s = arg;
	struct watch *h = s->watch;
	unsigned at = s->node->index;
	char addr[32];
	snprintf(addr, sizeof(addr), "n%u:%u", at, NODE_PORT);
	const struct rpc_channel_options o = {.pool = &h->pool,
					      .connect_timeout_ns = ASK_NS,
					      .self = world_fabric(h->world, CHECKER).self,
					      .server = at + 1};
	if (h->to[at] == NULL && rpc_channel_open(&h->to[at], addr, &o) < 0)
		return;
	for (size_t i = 0; i < s->count; i++)
		s->ids[i] = s->named[i].id;
	struct node_call c = {.channel = h->to[at], .timeout_ns = ASK_NS};
	if (node_stat(&c, s->disk, s->ids, s->count, s->st, s->rcs) < 0)
		return;
	for (size_t i = 0; i < s->count; i++)
		named_answer(h, &s->named[i], s->rcs[i]);
}

static void block_add(struct disk_watch *disks, size_t n, const struct meta_block_at *at)
{
	const struct meta_block *b = &at->block;
	if (b->state != META_BLOCK_SEALED)
		return;
	assert(n <= (size_t)NODES_MAX * DISKS_MAX);
	for (uint32_t i = 0; i < b->chunk_count; i++)
		for (size_t d = 0; d < n; d++)
			if (disks[d].disk == b->chunks[i].disk && disks[d].count < NAMED_MAX)
				disks[d].named[disks[d].count++] =
					(struct named){.tenant = at->tenant,
						       .block = b->id,
						       .id = {b->chunk_block, i},
						       .disk = b->chunks[i].disk,
						       .release_count = b->release_count};
}

static int records_read(struct watch *h, struct disk_watch *disks, size_t n)
{
	int64_t rc = 0;
	for (uint64_t index = 0; rc >= 0 && index < meta_gc_partitions(h->meta); index++)
		for (struct meta_gc_cursor at = {0}; rc >= 0 && !at.end;) {
			struct meta_block_at found[PAGE];
			struct arena a;
			arena_init(&a, 4 * MIB);
			rc = meta_blocks(h->meta, index, &at, &a, found, PAGE);
			for (int64_t i = 0; i < rc; i++)
				block_add(disks, n, &found[i]);
			arena_fini(&a);
		}
	return rc < 0 ? (int)rc : 0;
}

static void look(struct watch *h)
{
	struct world *w = h->world;
	size_t n = 0;
	AUTO_FREE struct disk_watch *disks = calloc((size_t)NODES_MAX * DISKS_MAX, sizeof(*disks));
	if (disks == NULL)
		abort();
	for (unsigned i = 0; i < w->node_count; i++)
		for (unsigned d = 0; d < w->plan.disks; d++) {
			uint64_t disk = world_disk_id(&w->nodes[i], d);
			if (!world_disk_sound(w, disk))
				continue;
			disks[n].watch = h;
			disks[n].node = &w->nodes[i];
			disks[n++].disk = disk;
		}
	if (records_read(h, disks, n) < 0)
		return;
	struct rt_group g;
	rt_group_init(&g);
	for (size_t i = 0; i < n; i++)
		if (disks[i].count > 0)
			(void)rt_group_spawn(&g, "watch", disk_watch, &disks[i]);
	rt_group_join(&g);
}

void watch_main(void *arg)
{
	const struct role *r = arg;
	struct world *w = r->world;
	struct watch h = {.world = w};
	rt_pool_init(&h.pool, 16 * MIB);
	while (rt_sleep_ns(WATCH_NS) == 0) {
		if (sim_node_running(w->checker.node) || model_violated(&w->model))
			continue;
		if (h.meta == NULL && world_store_open(w, &h.kv, &h.meta) < 0) {
			world_store_close(h.kv, h.meta);
			h.meta = NULL;
			h.kv = NULL;
			continue;
		}
		look(&h);
	}
	for (unsigned i = 0; i < NODES_MAX; i++)
		if (h.to[i] != NULL)
			rpc_channel_close(h.to[i]);
	world_store_close(h.kv, h.meta);
	rt_pool_fini(&h.pool);
}
