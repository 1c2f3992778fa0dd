// SPDX-License-Identifier: Apache-2.0
/*
 * Checks blocks under append of writers that live: within a minute each block has all its copies, or its log has
 * ended it.
 *
 * The clients, which are at rest, name the blocks that they write. A block that another client has fenced belongs
 * to its writer no more. The minute runs only while no disk is suspect, because a log waits until a suspect disk
 * comes back or is offline. A damaged copy on an otherwise good disk is not repaired until the block is ended
 * (docs/reliability.md).
 */
#include <errno.h>

#include "base/arena.h"
#include "base/err.h"
#include "client/engine_impl.h"
#include "cluster_check.h"
#include "rt/rt.h"

#define KEPT_NS (60 * NS_PER_S)
/* After this time with a suspect disk the check ends; the wait for convergence covers the disk. */
#define SUSPECT_NS (300 * NS_PER_S)
#define LOOK_NS NS_PER_S
#define HELD_MAX 16
#define FIRST_EPOCH 1 /* epoch of a block that no client has fenced */

static bool disk_rots(const struct world *w, const struct cluster *map, uint64_t disk)
{
	const struct cluster_disk *d = cluster_disk(map, disk);
	if (d == NULL || cluster_disk_state(map, d) != CLUSTER_ONLINE)
		return false;
	for (unsigned i = 0; i < w->node_count; i++)
		for (unsigned n = 0; n < w->plan.disks; n++)
			if (world_disk_id(&w->nodes[i], n) == disk)
				return world_disk_damaged(&w->nodes[i], n);
	return false;
}

/* Returns 0 if the copy has all acknowledged bytes. */
static int copy_look(struct checker *k, const struct meta_block *b, uint32_t i)
{
	struct chunk_stat st;
	struct disk_use u;
	struct call c;
	if (b->chunks[i].disk == 0 || b->chunks[i].damaged)
		return -ENODATA;
	call_init(&c, engine_fabric(k->engine));
	int rc = disk_use(&c, b->chunks[i].disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = 10 * NS_PER_S;
	rc = node_stat_one(&u.node, u.disk, (struct chunk_id){b->chunk_block, i}, &st);
	disk_end(&c, &u, rc, 0);
	return rc < 0 || st.len >= b->length ? rc : -ERANGE;
}

static bool block_is_kept(struct checker *k, const struct cluster *map, uint64_t block)
{
	struct arena a;
	struct call c;
	struct meta_block b;
	bool kept = true;
	arena_init(&a, MIB);
	engine_own_call(k->engine, &c);
	struct meta_call m = call_meta(&c);
	int rc = meta_client_block_get(&m, &block, 1, &a, &b);
	if (rc < 0)
		kept = not_converged(k->world, 0, "block %016lx: %s", block, err_name(rc));
	bool open = rc == 0 && b.state == META_BLOCK_OPEN && b.length > 0 && b.epoch == FIRST_EPOCH;
	for (uint32_t i = 0; open && i < b.chunk_count; i++) {
		rc = copy_look(k, &b, i);
		if (rc < 0 && !disk_rots(k->world, map, b.chunks[i].disk))
			kept = not_converged(k->world, 0,
					     "block %016lx is open, and its copy %u on disk %lu is "
					     "not usable: %s",
					     block, i, b.chunks[i].disk, err_name(rc));
	}
	arena_fini(&a);
	return kept;
}

static bool all_are_kept(struct checker *k, const struct cluster *map)
{
	const struct world *w = k->world;
	bool kept = true;
	for (unsigned c = 0; c < w->plan.clients; c++) {
		uint64_t blocks[HELD_MAX];
		size_t n =
			w->engines[c] == NULL ? 0 : elogs_blocks(w->engines[c], blocks, HELD_MAX);
		for (size_t i = 0; i < n; i++)
			kept = block_is_kept(k, map, blocks[i]) && kept;
	}
	return kept;
}

static bool none_is_suspect(const struct cluster *map)
{
	map_for_each(&map->disks, it)
		if (cluster_disk_state(map, it.value) == CLUSTER_SUSPECT)
			return false;
	return true;
}

void check_kept(struct checker *k)
{
	struct world *w = k->world;
	struct cluster *map;
	uint64_t begin_ns = rt_now_ns(), since_ns = begin_ns;
	while (!model_violated(&w->model) && rt_now_ns() - begin_ns < SUSPECT_NS + KEPT_NS) {
		int rc = meta_client_map(&k->root, 0, &map);
		if (rc == 0 && all_are_kept(k, map))
			return;
		/* The map may have changed during each wait. */
		if (rc < 0 || meta_client_map(&k->root, LOOK_NS, &map) < 0 || !none_is_suspect(map))
			since_ns = rt_now_ns();
		if (rt_now_ns() - since_ns > KEPT_NS)
			model_violation(&w->model, "I8",
					"the writer lives, but after %lu s: %.160s",
					(uint64_t)(KEPT_NS / NS_PER_S), w->lacking);
		operate(k);
		if (rt_sleep_ns(LOOK_NS) < 0)
			return;
	}
}
