// SPDX-License-Identifier: Apache-2.0
#include "code/repair_speed.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/base.h"

/* number of tiles of the measured layout, enough for hashed spares to spread evenly */
#define MEASURE_TILES 400

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static void speed_set(struct repair_speed *s, const struct repair_bandwidth *bw, double disk_load,
		      double rack_load)
{
	assert(disk_load > 0 && rack_load >= 0);
	s->disk_limit = bw->disk / disk_load;
	s->rack_limit = rack_load > 0 ? bw->rack / rack_load : INFINITY;
	s->bytes_per_s = s->disk_limit < s->rack_limit ? s->disk_limit : s->rack_limit;
}

/* The numbers of racks and disks over which a rebuild over the network spreads. */
struct net_loads {
	double source_racks, source_disks; /* racks and disks that are read */
	double target_racks, target_disks; /* racks and disks that are written */
	bool mixed;                        /* the same racks and disks read and write */
};

static void net_speed(const struct layout *l, const struct repair_policy *policy,
		      const struct repair_bandwidth *bw, const struct net_loads *n,
		      struct repair_speed *speed)
{
	assert(n->source_racks > 0 && n->source_disks > 0);
	assert(n->target_racks > 0 && n->target_disks > 0);
	double k = l->spec.net.k;
	double out = k / n->source_racks;
	double in = (policy->site == REPAIR_AT_SERVER ? 1 : k) / n->target_racks;
	double reads = k / n->source_disks;
	double writes = 1 / n->target_disks;
	speed_set(speed, bw, n->mixed ? reads + writes : larger(reads, writes),
		  n->mixed ? out + in : larger(out, in));
}

/*
 * Returns over how many disks the writes spread when chunks are rebuilt in their own pool. A stripe
 * that lost `failed` chunks uses spare space on disks without a chunk of it; the chunks beyond that
 * go to replacements.
 */
static double pool_targets(const struct layout *l, const struct repair_policy *policy,
			   uint32_t failed)
{
	assert(failed >= 1 && failed <= l->pool_disks);
	if (policy->method == REPAIR_ALL)
		return l->pool_disks;
	uint32_t spares = l->pool_disks - l->rows;
	if (l->spec.local_place == PLACE_CLUSTERED || spares == 0)
		return failed;
	double to_spares = spares < failed ? (double)spares / failed : 1;
	return 1 / larger(to_spares / (l->pool_disks - failed), (1 - to_spares) / failed);
}

/*
 * Returns over how many disks the writes spread when columns go to other pools, but every rack
 * has a column of the stripe: then they go to other pools of their own rack.
 */
static double rack_targets(const struct layout *l, const struct repair_policy *policy,
			   uint32_t failed)
{
	if (l->rack_pools == 1)
		return pool_targets(l, policy, failed);
	return (double)(l->rack_pools - 1) * l->pool_disks;
}

static void pool_speed(const struct layout *l, const struct repair_policy *policy,
		       const struct repair_bandwidth *bw, uint32_t failed,
		       struct repair_speed *speed)
{
	bool clustered = l->spec.net_place == PLACE_CLUSTERED;
	bool leaves = !clustered && (policy->method == REPAIR_ALL || l->rows == 1);
	bool elsewhere = leaves && l->spec.racks > l->columns;
	struct net_loads n;
	/* A rack whose only pool has failed neither reads nor writes. */
	double racks = l->spec.racks - (elsewhere && l->rack_pools == 1 ? 1 : 0);
	if (clustered) {
		n.source_racks = l->columns - 1;
		n.source_disks = n.source_racks * l->pool_disks;
	} else {
		n.source_racks = elsewhere ? racks : racks - 1;
		n.source_disks = n.source_racks * l->rack_pools * l->pool_disks;
	}
	n.target_racks = elsewhere ? racks : 1;
	n.target_disks = elsewhere ? racks * l->rack_pools * l->pool_disks
			 : leaves  ? rack_targets(l, policy, failed)
				   : pool_targets(l, policy, failed);
	n.mixed = elsewhere;
	net_speed(l, policy, bw, &n, speed);
}

void repair_speed_pool(const struct layout *l, const struct repair_policy *policy,
		       const struct repair_bandwidth *bandwidth, struct repair_speed *speed)
{
	if (l->columns == 1 || l->spec.lrc) { /* these codes have no repair over the network */
		*speed = (struct repair_speed){0};
		return;
	}
	pool_speed(l, policy, bandwidth, (uint32_t)l->spec.local.p + 1, speed);
}

static int measure_overlap(const struct layout *l, const struct repair_policy *policy,
			   const struct repair_bandwidth *bw, struct repair_speed *speed)
{
	struct layout_spec spec = l->spec;
	spec.slots = (uint64_t)l->rows * MEASURE_TILES;
	struct layout pool;
	struct failure f;
	struct repair_totals totals;
	uint32_t disk = 0;
	int rc = layout_init(&pool, &spec, NULL, 0);
	if (rc == 0)
		rc = failure_init(&f, &pool, &disk, 1);
	if (rc != 0)
		return rc;
	rc = repair_measure(&f, policy, bw, speed, &totals);
	failure_fini(&f);
	return rc;
}

int repair_speed_disk(const struct layout *l, const struct repair_policy *policy,
		      const struct repair_bandwidth *bandwidth, struct repair_speed *speed)
{
	*speed = (struct repair_speed){0};
	if (l->spec.lrc)
		return -EOPNOTSUPP;
	if (l->spec.local.p == 0) {
		if (l->columns > 1)
			pool_speed(l, policy, bandwidth, 1, speed);
		return 0;
	}
	if (l->spec.local_place == PLACE_OVERLAP)
		return measure_overlap(l, policy, bandwidth, speed);
	double k = l->spec.local.k;
	bool spread = l->spec.local_place == PLACE_DECLUSTERED && l->pool_disks > l->rows;
	double load = spread ? (k + 1) / (l->pool_disks - 1) : larger(1, k / (l->rows - 1));
	speed_set(speed, bandwidth, load, 0);
	return 0;
}

struct loads {
	const struct layout *l;
	uint64_t *disk, *rack;
};

static void loads_add(struct loads *loads, enum repair_site site, const struct repair_step *step)
{
	const struct layout *l = loads->l;
	assert(step->kind != REPAIR_LOST && step->writes_n > 0);
	uint32_t at = layout_disk_rack(l, step->writes[0].disk);
	for (uint32_t i = 0; i < step->reads_n + step->writes_n; i++) {
		const struct repair_chunk *c =
			i < step->reads_n ? &step->reads[i] : &step->writes[i - step->reads_n];
		loads->disk[c->disk]++;
		if (!c->crosses)
			continue;
		loads->rack[layout_disk_rack(l, c->disk)]++;
		if (site == REPAIR_AT_RACK)
			loads->rack[at]++;
	}
}

static double busiest(const uint64_t *load, uint32_t n)
{
	uint64_t most = 0;
	for (uint32_t i = 0; i < n; i++)
		most = max_u64(most, load[i]);
	return (double)most;
}

int repair_measure(const struct failure *f, const struct repair_policy *policy,
		   const struct repair_bandwidth *bandwidth, struct repair_speed *speed,
		   struct repair_totals *totals)
{
	const struct layout *l = f->layout;
	AUTO_FREE uint64_t *disk = calloc(l->disks, sizeof(*disk));
	AUTO_FREE uint64_t *rack = calloc(l->spec.racks, sizeof(*rack));
	AUTO_FREE struct repair_step *step = calloc(1, sizeof(*step));
	struct loads loads = {l, disk, rack};
	struct repair_plan *plan;
	*speed = (struct repair_speed){0};
	*totals = (struct repair_totals){0};
	if (disk == NULL || rack == NULL || step == NULL)
		return -ENOMEM;
	int rc = repair_plan_open(&plan, f, policy, NULL);
	if (rc != 0)
		return rc;
	while (repair_plan_next(plan, step)) {
		repair_totals_add(totals, step);
		if (step->kind != REPAIR_LOST)
			loads_add(&loads, policy->site, step);
	}
	repair_plan_close(plan);
	double written = (double)(totals->net_writes + totals->local_writes);
	if (written > 0)
		speed_set(speed, bandwidth, busiest(disk, l->disks) / written,
			  busiest(rack, l->spec.racks) / written);
	return 0;
}
