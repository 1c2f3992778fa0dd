// SPDX-License-Identifier: Apache-2.0
#include "analysis/repair_cost.h"

#include <assert.h>
#include <math.h>

#include "base/base.h"
#include "code/repair_count.h"

/* Returns the mean number of chunks read to rebuild a chunk of a stripe; 0 for a code without
 * redundancy. */
static double repair_reads_per_chunk(const struct encoding *e)
{
	assert(encoding_total_chunks(e) >= 1);
	switch (e->kind) {
	case ENCODING_REPLICATED:
		return e->copies > 1;
	case ENCODING_RS:
		return e->rs.p > 0 ? e->rs.k : 0;
	case ENCODING_MLEC:
		return e->mlec.local.p > 0 ? e->mlec.local.k : e->mlec.net.k;
	case ENCODING_LRC:
		break;
	}
	/*
	 * A data chunk or local parity is rebuilt from its group, a global parity from all data
	 * chunks.
	 */
	const struct lrc_shape *c = &e->lrc;
	int group = c->k / c->groups;
	double reads = (double)(c->k + c->groups) * group + (double)c->globals * c->k;
	return reads / encoding_total_chunks(e);
}

/*
 * Returns the repair bandwidth of an LRC that reads `reads` chunks for each rebuilt chunk; loads
 * spread over all racks, or over the pool.
 */
static double lrc_speed(const struct system *sys, double reads)
{
	const struct layout *l = &sys->layout;
	if (l->columns == 1)
		return sys->bandwidth.disk * (l->pool_disks - 1) / (reads + 1);
	double moved = reads + (sys->policy.site == REPAIR_AT_SERVER ? 1 : reads);
	double rack = sys->bandwidth.rack * l->spec.racks / moved;
	double disk = sys->bandwidth.disk * l->disks / (reads + 1);
	return rack < disk ? rack : disk;
}

static int study_disk(const struct system *sys, struct repair_cost_disk *d)
{
	const struct layout *l = &sys->layout;
	d->bytes = (double)l->spec.slots * (double)sys->spec.chunk_bytes;
	d->reads_per_chunk = repair_reads_per_chunk(&sys->spec.encoding);
	d->seconds = INFINITY;
	if (d->reads_per_chunk == 0)
		return 0;
	if (l->spec.lrc) {
		d->bytes_per_s = lrc_speed(sys, d->reads_per_chunk);
	} else {
		struct repair_speed speed;
		int rc = repair_speed_disk(l, &sys->policy, &sys->bandwidth, &speed);
		if (rc != 0)
			return rc;
		d->bytes_per_s = speed.bytes_per_s;
	}
	if (l->rows == 1 || l->spec.local.p == 0) {
		double writes = sys->policy.site == REPAIR_AT_SERVER ? 1 : 0;
		d->cross_bytes = d->bytes * (d->reads_per_chunk + writes);
	}
	d->seconds = d->bytes / d->bytes_per_s;
	d->cross_bytes_per_day = d->cross_bytes * l->disks * sys->disk_rate_s * 86400;
	return 0;
}

/* Returns the seconds that a pool takes to rebuild the local chunks of the estimate. */
static double local_seconds(const struct system *sys, const struct repair_estimate *e,
			    uint32_t failed, double disk_bytes_per_s)
{
	const struct layout *l = &sys->layout;
	double chunk = (double)sys->spec.chunk_bytes, bw = sys->bandwidth.disk;
	if (e->local_writes <= 0)
		return 0;
	if (l->spec.local_place == PLACE_CLUSTERED || l->pool_disks == l->rows) {
		double writes = e->local_writes / failed;
		double reads = e->local_reads / (l->pool_disks - failed);
		return (writes > reads ? writes : reads) * chunk / bw;
	}
	/* Assume a load that is as uneven as in the rebuild of one disk. */
	double even = bw * (l->pool_disks - 1) / (l->spec.local.k + 1);
	double evenness = disk_bytes_per_s / even;
	double moved = (e->local_reads + e->local_writes) * chunk;
	return moved / (bw * (l->pool_disks - failed) * evenness);
}

static void study_pool(const struct system *sys, enum repair_method method, bool as_paper,
		       const double *count, struct repair_cost *m)
{
	const struct layout *l = &sys->layout;
	struct repair_policy policy = sys->policy;
	struct repair_estimate e;
	struct repair_speed speed;
	double chunk = (double)sys->spec.chunk_bytes;
	policy.method = method;
	repair_counts_cost(l, &policy, count, &e);
	system_pool_speed(sys, method, as_paper, &speed);
	struct repair_cost_pool *p = &m->pool[method];
	p->method = method;
	p->network_bytes = e.net_writes * chunk;
	p->network_bytes_per_s = speed.bytes_per_s;
	p->local_bytes = e.local_writes * chunk;
	p->cross_bytes = (e.cross_reads + e.cross_writes) * chunk;
	p->network_s = p->network_bytes / speed.bytes_per_s;
	p->local_s = local_seconds(sys, &e, m->failed, m->disk.bytes_per_s);
}

int repair_cost_find(const struct system *sys, bool as_paper, struct repair_cost *m)
{
	const struct layout *l = &sys->layout;
	double count[ENCODING_STRIPE_MAX + 1];
	*m = (struct repair_cost){.failed = (uint32_t)l->spec.local.p + 1};
	m->pool_bytes = (double)l->pool_disks * (double)sys->spec.disk_bytes;
	int rc = study_disk(sys, &m->disk);
	m->has_pool = sys->spec.encoding.kind == ENCODING_MLEC && l->spec.net.p > 0;
	if (rc != 0 || !m->has_pool)
		return rc;
	rc = repair_counts_catastrophic(l, m->failed, &m->catastrophic, count);
	for (enum repair_method r = REPAIR_ALL; rc == 0 && r <= REPAIR_MIN; r++)
		study_pool(sys, r, as_paper, count, m);
	return rc;
}
