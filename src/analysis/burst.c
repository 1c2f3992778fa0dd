// SPDX-License-Identifier: Apache-2.0
#include "analysis/burst.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/burst_count.h"
#include "analysis/burst_stripes.h"
#include "analysis/lrc_loss.h"
#include "base/base.h"

const char *burst_model_name(enum burst_model model)
{
	static const char *const names[] = {"pools", "stripes", "layout"};
	assert((unsigned)model <= BURST_LAYOUT);
	return names[model];
}

/*
 * Returns whether the code has only a network level: each chunk of a stripe is in another rack, and
 * a column of the layout is one chunk.
 */
static bool flat_network(const struct layout *l)
{
	return l->rows == 1 && l->columns > 1;
}

enum burst_model burst_model_default(const struct system *sys)
{
	const struct layout *l = &sys->layout;
	return flat_network(l) && l->spec.net_place != PLACE_CLUSTERED ? BURST_STRIPES
								       : BURST_POOLS;
}

int burst_check(const struct system *sys, uint64_t failed, uint64_t racks, char *why,
		size_t why_size)
{
	const struct layout *l = &sys->layout;
	uint64_t rack_disks = (uint64_t)l->rack_pools * l->pool_disks;
	uint64_t disks = racks * rack_disks;
	if (racks < 1 || racks > l->spec.racks)
		return system_refuse(why, why_size, -EINVAL,
				     "--affected-racks %llu: must be from 1 to --racks %u",
				     (unsigned long long)racks, l->spec.racks);
	if (failed < racks)
		return system_refuse(
			why, why_size, -EINVAL,
			"--failed %llu: must be at least --affected-racks %llu, because "
			"each affected rack has a failed disk",
			(unsigned long long)failed, (unsigned long long)racks);
	if (failed > disks)
		return system_refuse(
			why, why_size, -EINVAL,
			"--failed %llu: --affected-racks %llu have only %llu disks, %llu "
			"each",
			(unsigned long long)failed, (unsigned long long)racks,
			(unsigned long long)disks, (unsigned long long)rack_disks);
	return 0;
}

static int map_init(struct burst_map *map, uint32_t failed, uint32_t racks)
{
	assert(failed >= 1 && racks >= 1);
	size_t n = (size_t)failed * racks;
	*map = (struct burst_map){.failed = failed, .racks = racks, .exact = true};
	map->pdl = calloc(3 * n, sizeof(double));
	if (map->pdl == NULL)
		return -ENOMEM;
	map->low = map->pdl + n;
	map->high = map->low + n;
	return 0;
}

void burst_map_fini(struct burst_map *map)
{
	free(map->pdl);
	map->pdl = NULL;
}

double burst_map_at(const struct burst_map *map, uint32_t failed, uint32_t racks)
{
	assert(failed >= 1 && failed <= map->failed && racks >= 1 && racks <= map->racks);
	return map->pdl[(size_t)(failed - 1) * map->racks + racks - 1];
}

/* Sets how many failed chunks a column always survives, and how many lost columns a network stripe
 * always survives. */
static void set_tolerances(const struct system *sys, uint32_t *local, uint32_t *net)
{
	const struct layout_spec *s = &sys->layout.spec;
	uint32_t any = (uint32_t)encoding_tolerance(&sys->spec.encoding);
	*local = s->lrc && sys->layout.columns == 1 ? any : (uint32_t)s->local.p;
	*net = s->lrc && sys->layout.columns > 1 ? any : (uint32_t)s->net.p;
}

static int count_pools(const struct system *sys, const struct work *w, struct burst_map *map)
{
	const struct layout *l = &sys->layout;
	struct burst_pool pool;
	uint32_t tolerance, net_tolerance;
	size_t n = (size_t)map->failed * map->racks;
	set_tolerances(sys, &tolerance, &net_tolerance);
	struct burst_shape shape = {l->spec.net_place == PLACE_CLUSTERED, l->spec.racks, l->columns,
				    net_tolerance, l->rack_pools};
	int rc = burst_pool_init(&pool, l, tolerance, map->failed, w);
	if (rc == 0)
		rc = burst_count(&shape, &pool, pool.broken, pool.intact, map->failed, map->racks,
				 map->pdl);
	if (rc == 0 && pool.exact) {
		memcpy(map->low, map->pdl, n * sizeof(double));
		memcpy(map->high, map->pdl, n * sizeof(double));
	} else if (rc == 0) {
		map->exact = false;
		/*
		 * PDL rises with the share of broken pools, so the two ends of the share's interval
		 * give the two ends of the PDL's interval.
		 */
		for (uint32_t f = 0; f <= pool.most; f++)
			pool.intact[f] = 1 - pool.low[f];
		rc = burst_count(&shape, &pool, pool.low, pool.intact, map->failed, map->racks,
				 map->low);
		for (uint32_t f = 0; f <= pool.most; f++)
			pool.intact[f] = 1 - pool.high[f];
		if (rc == 0)
			rc = burst_count(&shape, &pool, pool.high, pool.intact, map->failed,
					 map->racks, map->high);
	}
	burst_pool_fini(&pool);
	return rc;
}

static int count_stripes(const struct system *sys, const struct work *w, bool one,
			 struct burst_map *map)
{
	const struct layout *l = &sys->layout;
	struct lrc_loss loss;
	bool sets = l->spec.net_place == PLACE_OVERLAP;
	struct burst_stripes s = {
		.racks = l->spec.racks,
		.rack_disks = l->rack_pools * l->pool_disks,
		.width = l->columns,
		.stripes = sets ? (double)l->disks : (double)l->stripes,
		.mean = sets,
		.loss = loss.share,
	};
	int rc = lrc_loss_find(&loss, &sys->spec.encoding);
	if (rc == 0)
		rc = burst_stripes_count(&s, w, map->failed, map->racks, one, map->pdl);
	size_t n = (size_t)map->failed * map->racks;
	map->bound = sets;
	if (rc != 0 || loss.exact) {
		memcpy(map->low, map->pdl, n * sizeof(double));
		memcpy(map->high, map->pdl, n * sizeof(double));
		return rc;
	}
	/*
	 * PDL rises with the share of fatal patterns, so the two ends of the share's interval give
	 * the two ends of the PDL's interval.
	 */
	map->exact = false;
	s.loss = loss.low;
	rc = burst_stripes_count(&s, w, map->failed, map->racks, one, map->low);
	s.loss = loss.high;
	return rc == 0 ? burst_stripes_count(&s, w, map->failed, map->racks, one, map->high) : rc;
}

/* Checks that this burst can be counted under the model. Returns 0, -EOPNOTSUPP or -E2BIG. */
static int check_exact(const struct system *sys, enum burst_model model, uint32_t failed, char *why,
		       size_t why_size)
{
	const struct layout *l = &sys->layout;
	if (model == BURST_LAYOUT)
		return system_refuse(why, why_size, -EOPNOTSUPP,
				     "--model layout: cannot be counted; give --trials");
	if (model == BURST_STRIPES && !(flat_network(l) && l->spec.net_place != PLACE_CLUSTERED))
		return system_refuse(
			why, why_size, -EOPNOTSUPP,
			"--model stripes: can be counted only for d/- and s/-; give --trials");
	if (model == BURST_POOLS && flat_network(l) && l->spec.net_place == PLACE_OVERLAP)
		return system_refuse(
			why, why_size, -EOPNOTSUPP,
			"--model pools: does not apply to s/-, which has no pools; use "
			"--model stripes");
	uint32_t most = model == BURST_STRIPES ? BURST_FAILED_STRIPES_MAX : BURST_FAILED_MAX;
	if (failed > most)
		return system_refuse(
			why, why_size, -E2BIG,
			"--failed %u: counting is limited to %u failed disks with this "
			"model; give --trials",
			failed, most);
	return 0;
}

static int exact(const struct system *sys, const struct burst_ask *ask, const struct work *w,
		 bool one, struct burst_map *map, char *why, size_t why_size)
{
	*map = (struct burst_map){0};
	int rc = check_exact(sys, ask->model, ask->failed, why, why_size);
	if (rc == 0)
		rc = map_init(map, ask->failed, ask->racks);
	if (rc == 0)
		rc = ask->model == BURST_STRIPES ? count_stripes(sys, w, one, map)
						 : count_pools(sys, w, map);
	if (rc == -E2BIG && map->pdl != NULL)
		system_refuse(why, why_size, rc,
			      "--failed %u: counting would take too long; give --trials",
			      ask->failed);
	if (rc != 0)
		burst_map_fini(map);
	return rc;
}

int burst_exact(const struct system *sys, const struct burst_ask *ask, const struct work *w,
		struct burst_map *map, char *why, size_t why_size)
{
	return exact(sys, ask, w, false, map, why, why_size);
}

int burst_exact_one(const struct system *sys, const struct burst_ask *ask, const struct work *w,
		    struct burst_map *map, char *why, size_t why_size)
{
	return exact(sys, ask, w, true, map, why, why_size);
}
