// SPDX-License-Identifier: Apache-2.0
/*
 * The operator: removes nodes, disks and pools that are lost for good, and brings failed disks that still exist back
 * online.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/engine_impl.h"
#include "cluster_check.h"
#include "rt/rt.h"
#include "store/format.h"

#define EMPTY_NS (60 * NS_PER_S) /* time to drain a node; then it goes back online */
#define HOPE_NS \
	(60 * NS_PER_S) /* time for a damaged disk to come back online; then it is removed */
#define SHORT_POOL_NS (300 * NS_PER_S) /* a pool without a new drive is removed after this time, */
#define STUCK_NS \
	(60 * NS_PER_S) /* if the same lack has kept the cluster from converging for this time */

/* Returns whether both copies of the superblock of a member are damaged: no node opens it again. */
static bool member_lost_superblock(struct sim_disk *d, unsigned member)
{
	AUTO_FREE uint8_t *bytes = malloc(SUPER_BYTES);
	struct super is;
	char path[32];
	int good;
	snprintf(path, sizeof(path), "/m%u/s/superblock", member);
	return bytes != NULL && sim_disk_peek(d, path, 0, bytes, SUPER_BYTES) == 0 &&
	       super_decode(bytes, SUPER_BYTES, &is, &good) == -EBADMSG;
}

unsigned node_members_lost(const struct node_place *n)
{
	unsigned lost = 0;
	for (unsigned i = 0; i < MEMBERS; i++)
		lost += n->members[i] != NULL &&
			((sim_disk_damage(n->members[i]) & SIM_DAMAGE_LOST) != 0 ||
			 member_lost_superblock(n->members[i], i));
	return lost;
}

bool disk_is_lost(const struct node_place *n, unsigned d)
{
	if (n->disks[d] != NULL)
		return (sim_disk_damage(n->disks[d]) & SIM_DAMAGE_LOST) != 0;
	return node_members_lost(n) > 1;
}

static void order_online(struct checker *k, uint64_t disk)
{
	struct call c;
	struct disk_use u;
	call_init(&c, engine_fabric(k->engine));
	if (disk_begin(&c, disk, &u) != 0)
		return;
	u.node.timeout_ns = 10 * NS_PER_S;
	int rc = node_control(&u.node, disk, STORE_ONLINE, NULL);
	disk_end(&c, &u, rc, 0);
}

/*
 * Returns whether a pool that lost a drive keeps the cluster from converging, with the same lack all the time: if
 * that drive alone knew of a late change, the pool cannot delete the affected chunks without it.
 */
static bool pool_is_stuck(struct checker *k, const struct node_place *n)
{
	const struct short_pool *l = &k->short_pools[n->index];
	uint64_t now_ns = rt_now_ns();
	return node_members_lost(n) > 0 && l->lack[0] != '\0' &&
	       now_ns > k->begin_ns + SHORT_POOL_NS && now_ns - l->since_ns >= STUCK_NS;
}

static void pool_give_up(struct checker *k, const struct node_place *n)
{
	struct short_pool *l = &k->short_pools[n->index];
	assert(k->world->plan.pools && node_members_lost(n) > 0);
	if (l->gone)
		return;
	k->world->out->given_up++;
	l->gone = true;
	model_note(&k->world->model, "pool %lu without a drive is given up: %.80s",
		   world_disk_id(n, 0), l->lack);
}

/* Removes nodes and disks that are lost for good; brings failed disks that still exist back online. */
void operate(struct checker *k)
{
	struct world *w = k->world;
	struct cluster *map;
	if (meta_client_map(&k->root, 0, &map) != 0)
		return;
	for (unsigned i = 0; i < w->node_count; i++) {
		const struct node_place *n = &w->nodes[i];
		const struct cluster_node *node = cluster_node(map, n->index + 1);
		if (sim_node_lost(n->node))
			(void)meta_client_want_node(&k->root, n->index + 1, CLUSTER_GONE);
		else if (node != NULL && node->wanted == CLUSTER_DRAINING &&
			 rt_now_ns() > k->begin_ns + EMPTY_NS)
			(void)meta_client_want_node(&k->root, n->index + 1, CLUSTER_ONLINE);
		for (unsigned d = 0; d < w->plan.disks && !sim_node_lost(n->node); d++) {
			uint64_t id = world_disk_id(n, d);
			const struct cluster_disk *disk = cluster_disk(map, id);
			bool failed = disk != NULL && disk->health == CLUSTER_FAILED;
			bool hopeless = failed && world_disk_damaged(n, d) &&
					rt_now_ns() > k->begin_ns + HOPE_NS;
			bool stuck = pool_is_stuck(k, n);
			if (stuck)
				pool_give_up(k, n);
			if (disk_is_lost(n, d) || hopeless || stuck)
				(void)meta_client_want_disk(&k->root, id, CLUSTER_GONE);
			else if (failed)
				order_online(k, id);
		}
	}
}

bool short_pools_matter(const struct checker *k)
{
	const struct world *w = k->world;
	unsigned lost = 0;
	for (unsigned i = 0; i < w->node_count; i++)
		lost += node_members_lost(&w->nodes[i]);
	return lost > 0 && rt_now_ns() + STUCK_NS > k->begin_ns + SHORT_POOL_NS;
}
