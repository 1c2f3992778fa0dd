// SPDX-License-Identifier: Apache-2.0
#include "analysis/fleet.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/pool_hit.h"
#include "base/base.h"
#include "base/rng.h"

/*
 * The states of all groups of one level; the changed ones are reset after a mission. Groups in the
 * same racks (`sharing` of them, numbered consecutively) with members that are out are advanced
 * together, because these groups share bandwidth.
 */
struct groups {
	struct level level;
	size_t bytes;
	char *states;
	uint32_t *touched;
	bool *is_touched;
	uint32_t n, touched_n;
	uint32_t sharing;
	/* groups under repair of each set of racks (up to `sharing`), and their number */
	uint32_t *at_work, *at_work_n;
};

struct failure_at {
	double time;
	uint32_t disk;
};

struct fleet {
	const struct system *sys;
	bool as_paper, two_levels;
	double mission_s, shape, scale_s;
	const struct trace *trace;
	struct groups disks, pools;
	/* by pool: the pool failed at the network level and is not yet repaired */
	bool *catastrophic;
	struct failure_at *due;
	size_t due_n, due_cap;
};

static int groups_init(struct groups *g, const struct system *sys, double n)
{
	assert(n >= 1);
	g->n = (uint32_t)n;
	g->sharing = level_sharing(&g->level, sys);
	assert(g->sharing >= 1 && g->n % g->sharing == 0); /* no racks are shared by a part */
	if (g->sharing > 1) {
		g->at_work = calloc(g->n, sizeof(*g->at_work));
		g->at_work_n = calloc(g->n / g->sharing, sizeof(*g->at_work_n));
		if (g->at_work == NULL || g->at_work_n == NULL)
			return -ENOMEM;
	}
	g->bytes = damage_bytes(&g->level);
	g->states = calloc(g->n, g->bytes);
	g->touched = calloc(g->n, sizeof(*g->touched));
	g->is_touched = calloc(g->n, sizeof(*g->is_touched));
	return g->states == NULL || g->touched == NULL || g->is_touched == NULL ? -ENOMEM : 0;
}

static void groups_fini(struct groups *g)
{
	free(g->states);
	free(g->touched);
	free(g->is_touched);
	free(g->at_work);
	free(g->at_work_n);
}

static struct damage *group_at(const struct groups *g, uint32_t i)
{
	assert(i < g->n);
	return (struct damage *)(void *)(g->states + i * g->bytes);
}

/*
 * Shares the bandwidth of these racks among the groups under repair. Returns the time of the
 * next change of any of them.
 */
static double share_racks(const struct groups *g, const uint32_t *work, uint32_t n)
{
	double repairing = 0, next = INFINITY;
	for (uint32_t i = 0; i < n; i++)
		repairing += group_at(g, work[i])->busy > 0;
	double share = 1 / fmax(1, repairing * g->level.load);
	for (uint32_t i = 0; i < n; i++) {
		damage_set_share(group_at(g, work[i]), share);
		next = fmin(next, damage_next(group_at(g, work[i])));
	}
	return next;
}

/* Advances all groups under repair in these racks to `now`, and removes the repaired ones. */
static void racks_now(struct groups *g, uint32_t racks, double now)
{
	assert(g->sharing > 1 && racks < g->n / g->sharing);
	uint32_t *work = g->at_work + (size_t)racks * g->sharing, *n = &g->at_work_n[racks];
	for (double t = 0; *n > 0 && t < now;) {
		t = fmin(share_racks(g, work, *n), now);
		for (uint32_t i = *n; i-- > 0;) {
			damage_advance(group_at(g, work[i]), t);
			if (damage_idle(group_at(g, work[i])))
				work[i] = work[--*n];
		}
	}
}

static void work_add(struct groups *g, uint32_t i)
{
	uint32_t racks = i / g->sharing, *work = g->at_work + (size_t)racks * g->sharing;
	for (uint32_t k = 0; k < g->at_work_n[racks]; k++)
		if (work[k] == i)
			return;
	assert(g->at_work_n[racks] < g->sharing);
	work[g->at_work_n[racks]++] = i;
}

/* Returns the state of a group, advanced to `now`, so that one of its members can fail. */
static struct damage *group_now(struct groups *g, uint32_t i, double now)
{
	struct damage *d = group_at(g, i);
	assert(!g->is_touched[i] || g->touched_n > 0);
	if (!g->is_touched[i]) {
		g->is_touched[i] = true;
		assert(g->touched_n < g->n);
		g->touched[g->touched_n++] = i;
		damage_init(d, &g->level);
	}
	if (g->sharing > 1) {
		racks_now(g, i / g->sharing, now);
		work_add(g, i);
	}
	damage_advance(d, now);
	return d;
}

static void groups_reset(struct groups *g)
{
	for (uint32_t i = 0; i < g->touched_n; i++) {
		g->is_touched[g->touched[i]] = false;
		if (g->sharing > 1)
			g->at_work_n[g->touched[i] / g->sharing] = 0;
	}
	g->touched_n = 0;
}

static int fleet_init(struct fleet *f)
{
	const struct layout *l = &f->sys->layout;
	int rc = level_of_disks(&f->disks.level, f->sys);
	if (rc == 0)
		rc = groups_init(&f->disks, f->sys, level_disk_groups(f->sys));
	f->two_levels = l->columns > 1 && l->spec.local.p > 0;
	if (rc != 0 || !f->two_levels)
		return rc;
	rc = level_of_pools(&f->pools.level, f->sys, f->as_paper, 0);
	if (rc == 0)
		rc = groups_init(&f->pools, f->sys, level_pool_groups(f->sys));
	f->catastrophic = calloc(l->pools, sizeof(*f->catastrophic));
	return rc == 0 && f->catastrophic == NULL ? -ENOMEM : rc;
}

int fleet_open(struct fleet **fleet, const struct system *sys, bool as_paper,
	       const struct fleet_failures *failures, double mission_s)
{
	assert(mission_s > 0);
	struct fleet *f = calloc(1, sizeof(*f));
	if (f == NULL)
		return -ENOMEM;
	f->sys = sys;
	f->as_paper = as_paper;
	f->mission_s = mission_s;
	f->shape = failures != NULL && failures->shape > 0 ? failures->shape : 1;
	f->trace = failures != NULL ? failures->trace : NULL;
	/* The hazard (t / scale)^shape of the first year is the AFR. */
	f->scale_s = SYSTEM_YEAR_S / pow(sys->disk_rate_s * SYSTEM_YEAR_S, 1 / f->shape);
	int rc = fleet_init(f);
	if (rc != 0) {
		fleet_close(f);
		return rc;
	}
	*fleet = f;
	return 0;
}

void fleet_close(struct fleet *f)
{
	groups_fini(&f->disks);
	groups_fini(&f->pools);
	free(f->catastrophic);
	free(f->due);
	free(f);
}

static int due_add(struct fleet *f, double time, uint32_t disk)
{
	if (f->due_n == f->due_cap) {
		size_t cap = f->due_cap == 0 ? 1024 : f->due_cap * 2;
		struct failure_at *due = realloc(f->due, cap * sizeof(*due));
		if (due == NULL)
			return -ENOMEM;
		f->due = due;
		f->due_cap = cap;
	}
	f->due[f->due_n++] = (struct failure_at){time, disk};
	return 0;
}

static double lifetime_s(const struct fleet *f, double hazard)
{
	assert(hazard >= 0);
	return f->scale_s * (f->shape == 1 ? hazard : pow(hazard, 1 / f->shape));
}

/*
 * Records the failures of a disk, the first of which is within the mission, and of its
 * replacements.
 */
static int draw_disk(struct fleet *f, struct rng *rng, uint32_t disk, double first_s)
{
	assert(first_s >= 0);
	int rc = 0;
	for (double t = first_s; rc == 0 && t < f->mission_s;) {
		rc = due_add(f, t, disk);
		t += lifetime_s(f, rng_exponential(rng, 1));
	}
	return rc;
}

/*
 * Draws the failures of a mission. Few disks fail, so disks that do not fail are skipped in one
 * step: their number before the next failing disk is geometrically distributed.
 */
static int draw_failures(struct fleet *f, struct rng *rng)
{
	double hazard = pow(f->mission_s / f->scale_s, f->shape), fails = -expm1(-hazard);
	double disks = f->sys->layout.disks, at = 0;
	int rc = 0;
	f->due_n = 0;
	for (;;) {
		at += floor(rng_exponential(rng, 1) / hazard);
		if (!(at < disks) || rc != 0)
			return rc;
		double first = lifetime_s(f, -log1p(-rng_unit(rng) * fails));
		rc = draw_disk(f, rng, (uint32_t)at, first);
		at++;
	}
}

static int copy_trace(struct fleet *f)
{
	int rc = 0;
	f->due_n = 0;
	for (size_t i = 0; rc == 0 && i < f->trace->n; i++) {
		const struct trace_event *e = &f->trace->events[i];
		if (e->kind == TRACE_FAIL && e->time_s < f->mission_s)
			rc = due_add(f, e->time_s, e->disk);
	}
	return rc;
}

static int by_time(const void *a, const void *b)
{
	const struct failure_at *x = a, *y = b;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->disk < y->disk ? -1 : x->disk > y->disk;
}

/* Returns the group of a disk; *member is its number in the group. */
static uint32_t group_of_disk(const struct fleet *f, uint32_t disk, uint32_t *member)
{
	const struct layout *l = &f->sys->layout;
	assert(disk < l->disks);
	if (f->disks.n == 1) {
		*member = disk;
		return 0;
	}
	*member = layout_disk_in_pool(l, disk);
	if (f->disks.n == l->pools)
		return layout_disk_pool(l, disk);
	uint32_t rack = layout_disk_rack(l, disk);
	*member = rack % l->columns;
	return rack / l->columns * l->rack_pools + layout_disk_pool(l, disk) % l->rack_pools;
}

static uint32_t group_of_pool(const struct fleet *f, uint32_t pool)
{
	const struct layout *l = &f->sys->layout;
	assert(pool < l->pools);
	if (f->pools.n == 1)
		return 0;
	return pool / l->rack_pools / l->columns * l->rack_pools + pool % l->rack_pools;
}

/* Draws whether a Poisson event with this mean happens at least once. */
static bool happens(struct rng *rng, double mean)
{
	return mean > 0 && rng_chance(rng, -expm1(-mean));
}

/*
 * Fails a pool that has lost local stripes at the network level. Returns true when that loses data.
 */
static bool pool_lost(struct fleet *f, struct rng *rng, uint32_t pool, double lost,
		      struct damage *local)
{
	struct damage *net = group_now(&f->pools, group_of_pool(f, pool), local->now);
	if (damage_idle(net)) { /* all pools of this network group are repaired */
		for (uint32_t p = 0; p < f->sys->layout.pools; p++)
			if (f->pools.n == 1 || group_of_pool(f, p) == group_of_pool(f, pool))
				f->catastrophic[p] = false;
	}
	if (f->catastrophic[pool])
		return false;
	f->catastrophic[pool] = true;
	assert(lost > 0 && f->two_levels);
	struct split_sample at = {lost / -expm1(-lost), damage_missing(local)};
	struct damage_hit hit = pool_hit(f->sys, f->as_paper, &at, f->disks.level.stripes);
	double now = local->now;
	if (!pool_hit_keeps_damage(f->sys->policy.method)) {
		damage_init(local, &f->disks.level);
		local->now = now;
	}
	return happens(rng, damage_fail(net, pool, &hit));
}

/*
 * Returns whether the failing disk is already out: then the failure is ignored. When members have
 * no numbers, it is out with the probability of the share of members that are out. A trace lists
 * only failures of working disks; they are ignored only when a single-overlap level records the
 * disk as out.
 */
static bool is_out(const struct fleet *f, struct rng *rng, const struct damage *d, uint32_t member)
{
	if (damage_idle(d))
		return false;
	if (d->level->base != NULL || (damage_named(d->level) && f->trace == NULL))
		return damage_is_out(d, member);
	return f->trace == NULL && rng_chance(rng, 1 - (double)damage_alive(d) / d->level->members);
}

static bool apply_failure(struct fleet *f, struct rng *rng, const struct failure_at *at,
			  struct fleet_mission *out)
{
	uint32_t member, group = group_of_disk(f, at->disk, &member);
	struct damage *d = group_now(&f->disks, group, at->time);
	if (is_out(f, rng, d, member))
		return false;
	double lost = damage_fail(d, member, &(struct damage_hit){1, 1});
	out->failures++;
	if (!happens(rng, lost))
		return false;
	if (!f->two_levels)
		return true;
	out->catastrophes++;
	return pool_lost(f, rng, group, lost, d);
}

int fleet_run(struct fleet *f, struct rng *rng, struct fleet_mission *out)
{
	*out = (struct fleet_mission){0};
	int rc = f->trace != NULL ? copy_trace(f) : draw_failures(f, rng);
	if (rc != 0)
		return rc;
	if (f->due_n > 0)
		qsort(f->due, f->due_n, sizeof(f->due[0]), by_time);
	for (size_t i = 0; i < f->due_n && !out->lost; i++)
		if (apply_failure(f, rng, &f->due[i], out)) {
			out->lost = true;
			out->lost_at_s = f->due[i].time;
		}
	groups_reset(&f->disks);
	groups_reset(&f->pools);
	if (f->catastrophic != NULL && out->catastrophes > 0)
		memset(f->catastrophic, 0, f->sys->layout.pools * sizeof(*f->catastrophic));
	return 0;
}
