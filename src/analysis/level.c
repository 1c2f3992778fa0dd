// SPDX-License-Identifier: Apache-2.0
#include "analysis/level.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

#include "analysis/lrc_odds.h"

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

double level_rate(const struct level *level, uint32_t losses, uint32_t known, uint32_t alive)
{
	assert(losses >= 1 && losses <= level->max_losses);
	double rate = level->rate[losses];
	switch (level->pace) {
	case LEVEL_PACE_FIXED:
	case LEVEL_PACE_SETS:
		return rate;
	case LEVEL_PACE_SPREAD:
		return rate * alive / (level->members - 1);
	case LEVEL_PACE_TARGETS:
		return rate * fmax(1, smaller((double)known / losses, level->sources));
	}
	return rate;
}

static bool over_network(const struct layout *l)
{
	return l->spec.local.p == 0 && l->columns > 1;
}

double level_pool_groups(const struct system *sys)
{
	const struct layout *l = &sys->layout;
	if (l->spec.net_place != PLACE_CLUSTERED)
		return 1;
	return (double)l->spec.racks / l->columns * l->rack_pools;
}

double level_disk_groups(const struct system *sys)
{
	return over_network(&sys->layout) ? level_pool_groups(sys) : sys->layout.pools;
}

uint32_t level_sharing(const struct level *level, const struct system *sys)
{
	assert(level->load >= 0);
	return level->load > 0 ? sys->layout.rack_pools : 1;
}

/*
 * Sets the tolerance of an MDS code: the code survives all losses of up to p chunks and no others.
 */
static int set_bearable(struct level *level, int p)
{
	if (p < 1)
		return -EINVAL;
	if (p > LEVEL_LOSSES_MAX)
		return -EOPNOTSUPP;
	level->max_losses = (uint32_t)p;
	level->fatal[p + 1] = 1;
	return 0;
}

/*
 * Sets which losses the code survives, and reads[j], the chunks read to repair a stripe with j
 * losses.
 */
static int set_code(struct level *level, const struct system *sys, double *reads)
{
	const struct layout *l = &sys->layout;
	if (l->spec.lrc) {
		struct lrc_odds odds;
		int rc = lrc_odds_find(&odds, &sys->spec.encoding.lrc, sys->at_best);
		if (rc != 0)
			return rc;
		assert(odds.max_losses <= LEVEL_LOSSES_MAX);
		level->max_losses = odds.max_losses;
		for (uint32_t j = 1; j <= odds.max_losses + 1; j++)
			level->fatal[j] = odds.fatal[j];
		for (uint32_t j = 1; j <= odds.max_losses; j++)
			reads[j] = odds.reads[j];
		return 0;
	}
	const struct rs_shape *s = over_network(l) ? &l->spec.net : &l->spec.local;
	for (uint32_t j = 0; j <= LEVEL_LOSSES_MAX; j++)
		reads[j] = s->k;
	return set_bearable(level, s->p);
}

/* Sets the repair rates of disks inside a pool, in stripes a second. */
static void set_local_pace(struct level *level, const struct system *sys, const double *reads)
{
	double chunks = sys->bandwidth.disk / (double)sys->spec.chunk_bytes;
	double n = level->width, others = level->members - 1.0;
	level->member_rate = chunks;
	for (uint32_t j = 1; j <= level->max_losses; j++)
		level->rate[j] = level->clustered ? chunks * smaller(1, (n - j) / reads[j])
						  : chunks * others / (reads[j] + j);
	level->pace = level->clustered      ? LEVEL_PACE_FIXED
		      : level->base != NULL ? LEVEL_PACE_SETS
					    : LEVEL_PACE_SPREAD;
}

/*
 * Returns how many chunks cross racks to repair a stripe with j losses, of which `reads` chunks are
 * read.
 */
static double crossing(const struct system *sys, double reads, uint32_t j)
{
	assert(j >= 1);
	return sys->policy.site == REPAIR_AT_SERVER ? reads + j : 2 * reads + 2.0 * (j - 1);
}

/*
 * Sets the repair rates of disks over the network, in stripes a second; racks or disks limit the
 * rates.
 */
static void set_network_pace(struct level *level, const struct system *sys, const double *reads)
{
	const struct layout *l = &sys->layout;
	double chunk = (double)sys->spec.chunk_bytes;
	double disk = sys->bandwidth.disk / chunk, rack = sys->bandwidth.rack / chunk;
	for (uint32_t j = 1; j <= level->max_losses; j++) {
		if (level->clustered) {
			double in = sys->policy.site == REPAIR_AT_SERVER ? 1 : reads[j];
			double out = reads[j] / (level->width - j);
			level->rate[j] = smaller(disk, rack / fmax(in, out));
			level->load = fmax(level->load, level->rate[j] * fmax(in, out) / rack);
		} else {
			level->rate[j] = smaller(rack * l->spec.racks / crossing(sys, reads[j], j),
						 disk * l->disks / (reads[j] + j));
		}
	}
	level->pace = level->clustered ? LEVEL_PACE_FIXED : LEVEL_PACE_SPREAD;
}

int level_of_disks(struct level *level, const struct system *sys)
{
	const struct layout *l = &sys->layout;
	double reads[LEVEL_LOSSES_MAX + 1];
	*level = (struct level){.fail_rate = sys->disk_rate_s, .detect_s = sys->detect_s};
	int rc = set_code(level, sys, reads);
	if (rc != 0)
		return rc;
	bool net = over_network(l);
	enum place_kind place = net ? l->spec.net_place : l->spec.local_place;
	level->width = net ? l->columns : l->rows;
	level->k = (uint32_t)(net ? l->spec.net.k : l->spec.local.k);
	level->members = !net ? l->pool_disks : place == PLACE_CLUSTERED ? l->columns : l->disks;
	level->stripes =
		net ? (double)l->stripes / level_pool_groups(sys) : (double)l->local.stripes;
	level->clustered = level->members == level->width;
	if (place == PLACE_OVERLAP && !level->clustered)
		level->base = net ? &l->net.base : &l->local.base;
	if (net && !level->clustered)
		level->racks = l->spec.racks;
	if (net)
		set_network_pace(level, sys, reads);
	else
		set_local_pace(level, sys, reads);
	return 0;
}

/*
 * Sets the repair rates of pools over the network. Each failed pool receives its own chunks, until
 * the racks that are read are saturated. R_ALL under a declustered network writes to any rack, so
 * all racks share the load.
 */
static void set_pool_pace(struct level *level, const struct system *sys, bool as_paper)
{
	const struct layout *l = &sys->layout;
	struct repair_speed speed;
	system_pool_speed(sys, sys->policy.method, as_paper, &speed);
	double k = level->k;
	bool anywhere = !level->clustered && (as_paper || sys->policy.method == REPAIR_ALL);
	double in = sys->policy.site == REPAIR_AT_SERVER ? 1 : k;
	double racks = level->clustered ? l->columns : l->spec.racks;
	level->pace = anywhere ? LEVEL_PACE_FIXED : LEVEL_PACE_TARGETS;
	level->sources = fmax(1, (racks - 1) * in / k);
	for (uint32_t j = 1; j <= level->max_losses; j++)
		level->rate[j] =
			anywhere ? speed.bytes_per_s * crossing(sys, k, 1) / crossing(sys, k, j)
				 : speed.bytes_per_s;
	if (level->clustered)
		level->load =
			smaller(1, level->rate[1] * in / sys->bandwidth.rack / level->sources);
}

int level_of_pools(struct level *level, const struct system *sys, bool as_paper, double pool_rate)
{
	const struct layout *l = &sys->layout;
	if (l->spec.lrc || l->columns == 1 || over_network(l))
		return -EINVAL;
	bool clustered = l->spec.net_place == PLACE_CLUSTERED;
	*level = (struct level){
		.members = clustered ? l->columns : l->pools,
		.width = l->columns,
		.k = (uint32_t)l->spec.net.k,
		.stripes = (double)l->stripes / level_pool_groups(sys),
		.clustered = clustered,
		.racks = clustered ? 0 : l->spec.racks,
		.nested = clustered && l->pool_disks == l->rows,
		.fail_rate = pool_rate,
		.detect_s = sys->detect_s,
	};
	int rc = set_bearable(level, l->spec.net.p);
	if (rc == 0)
		set_pool_pace(level, sys, as_paper);
	return rc;
}
