// SPDX-License-Identifier: Apache-2.0
/*
 * Network pools of clustered MLEC schemes. Racks in the order of their ids form groups of kn+pn;
 * the pools at one position of all racks of a group form a network pool:
 *
 *              rack 1   rack 2   rack 3  |  rack 4   rack 5   rack 6
 *   position 0   A        A        A     |    C        C        C
 *   position 1   B        B        B     |    D        D        D       mlec:2+1/...: four network pools
 *
 * Flash pools and disk pools have separate positions.
 *
 * A block goes to a network pool of the first of these sets that is not empty; inside the set, to the one
 * with the highest hash(block, pool):
 *
 *   1. network pools that take part in the block's shuffle and have all members online. Like a disk, a network pool
 *      takes part in a number of shuffles that its weight determines.
 *   2. network pools with all members online.
 *   3. the network pools with the most members online.
 *
 * The block's id determines the rack of the first column, so that parity columns are spread over all racks.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/rng.h"
#include "cluster/impl.h"

#define HASH_POOL 0x706f6f6c00000000ULL
#define POSITIONS_MAX 65536

struct netpool {
	uint32_t members; /* number of pools that are online, of the right shape and not excluded */
	uint32_t share;   /* smallest share of a member */
};

/* All network pools of the map for stripes of one width. */
struct grouping {
	uint32_t width, groups, positions;
	struct netpool *pools; /* index: group * positions + position */
};

/* Sets the dimensions of the grouping: racks in a group, number of groups, positions of pools in a rack. */
static void measure(const struct choosing *ch, struct grouping *g)
{
	const struct cluster *c = ch->cluster;
	assert(ch->out->width > 0);
	g->width = ch->out->width;
	g->groups = c->rack_count / g->width;
	for (size_t i = 0; i < c->candidate_count; i++)
		if (c->candidates[i].pool && c->candidates[i].position < POSITIONS_MAX &&
		    c->candidates[i].position >= g->positions)
			g->positions = c->candidates[i].position + 1;
}

static struct netpool *netpool_of(const struct choosing *ch, const struct grouping *g,
				  size_t candidate)
{
	const struct cluster_candidate *s = &ch->cluster->candidates[candidate];
	uint32_t group = s->rack / g->width;
	if (ch->unavailable[candidate] || group >= g->groups || s->position >= g->positions)
		return NULL;
	return &g->pools[(size_t)group * g->positions + s->position];
}

static void fill(const struct choosing *ch, struct grouping *g)
{
	for (size_t i = 0; i < ch->cluster->candidate_count; i++) {
		struct netpool *p = netpool_of(ch, g, i);
		if (p == NULL)
			continue;
		uint32_t share = ch->cluster->candidates[i].share;
		p->share = p->members == 0 || share < p->share ? share : p->share;
		p->members++;
	}
}

/* Returns a rank that orders network pools by the rules 1 to 3 above; the highest rank is the best. */
static uint64_t pool_rank(const struct choosing *ch, const struct grouping *g, size_t i)
{
	const struct netpool *p = &g->pools[i];
	uint64_t h = hash64_u64s(HASH_POOL, i);
	uint64_t step = 1 + h % (CLUSTER_SHUFFLES - 1), offset = (h >> 32) % CLUSTER_SHUFFLES;
	bool part = (step * ch->shuffle + offset) % CLUSTER_SHUFFLES < p->share;
	return p->members < g->width ? p->members : (uint64_t)g->width + part;
}

/* Returns the index of the network pool that already holds columns of the block, or `none`. */
static size_t pick_kept(const struct choosing *ch, const struct grouping *g, size_t none)
{
	for (size_t i = 0; i < ch->cluster->candidate_count; i++) {
		const struct cluster_candidate *s = &ch->cluster->candidates[i];
		for (size_t j = 0; j < ch->want->kept_count; j++)
			if (s->id == ch->want->kept[j] && s->rack / g->width < g->groups)
				return (size_t)(s->rack / g->width) * g->positions + s->position;
	}
	return none;
}

static size_t pick(const struct choosing *ch, const struct grouping *g)
{
	size_t best = 0, n = (size_t)g->groups * g->positions;
	uint64_t best_rank = 0, best_score = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t st = pool_rank(ch, g, i);
		uint64_t score = mix_u64(ch->block_hash ^ hash64_u64s(HASH_POOL, i));
		if (st > best_rank || (st == best_rank && score > best_score)) {
			best = i;
			best_rank = st;
			best_score = score;
		}
	}
	return best;
}

bool choose_network_pool(struct choosing *ch, int *rc)
{
	const struct cluster *c = ch->cluster;
	struct grouping g = {0};
	measure(ch, &g);
	if (g.groups == 0 || g.positions == 0)
		return false;
	AUTO_FREE struct netpool *pools = calloc((size_t)g.groups * g.positions, sizeof(*pools));
	if (pools == NULL) {
		*rc = -ENOMEM;
		return true;
	}
	g.pools = pools;
	fill(ch, &g);
	size_t none = (size_t)g.groups * g.positions;
	size_t at = ch->want->kept_count > 0 ? pick_kept(ch, &g, none) : none;
	const struct netpool *chosen = &pools[at < none ? at : pick(ch, &g)];
	uint32_t first = (uint32_t)((ch->block_hash >> 32) % g.width);
	for (uint32_t column = 0; column < g.width && ch->taken < ch->needed; column++)
		for (uint32_t i = 0; i < c->candidate_count; i++)
			if (netpool_of(ch, &g, i) == chosen &&
			    ch->rack_used[c->candidates[i].rack] == 0 &&
			    c->candidates[i].rack % g.width == (first + column) % g.width) {
				choosing_take(ch, i);
				break;
			}
	ch->out->network_pool = true;
	return true;
}
