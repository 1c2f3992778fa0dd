// SPDX-License-Identifier: Apache-2.0
#include "analysis/system.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int system_refuse(char *why, size_t why_size, int err, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	if (why_size > 0)
		vsnprintf(why, why_size, fmt, args);
	va_end(args);
	return err;
}

void system_spec_default(struct system_spec *spec)
{
	*spec = (struct system_spec){
		.encoding = {.kind = ENCODING_MLEC, .mlec = {{10, 2}, {17, 3}}},
		.racks = 60,
		.enclosures = 8,
		.disks = 120,
		.disk_bytes = 20000000000000,
		.chunk_bytes = 128000,
		.disk_rate = 200e6,
		.rack_rate = 10e9 / 8,
		.repair_share = 0.2,
		.afr = 0.01,
		.detect_s = 1800,
		.method = REPAIR_MIN,
		.site = REPAIR_AT_SERVER,
	};
}

static int check_rate(const char *name, double value, double max, char *why, size_t why_size)
{
	if (isfinite(value) && value > 0 && value <= max)
		return 0;
	return system_refuse(why, why_size, -EINVAL, "--%s %g: must be above 0 and at most %g",
			     name, value, max);
}

static int check_numbers(const struct system_spec *s, char *why, size_t why_size)
{
	if (s->racks == 0 || s->enclosures == 0 || s->disks == 0)
		return system_refuse(
			why, why_size, -EINVAL,
			"--racks %u, --enclosures %u, --disks %u: each must be at least 1",
			s->racks, s->enclosures, s->disks);
	if (s->chunk_bytes == 0 || s->disk_bytes < s->chunk_bytes)
		return system_refuse(why, why_size, -EINVAL,
				     "--disk-size %llu is less than --chunk-size %llu: a disk must "
				     "hold at least 1 chunk",
				     (unsigned long long)s->disk_bytes,
				     (unsigned long long)s->chunk_bytes);
	int rc = check_rate("disk-bandwidth", s->disk_rate / 1e6, 1e9, why, why_size);
	if (rc == 0)
		rc = check_rate("rack-bandwidth", s->rack_rate * 8 / 1e9, 1e9, why, why_size);
	if (rc == 0)
		rc = check_rate("repair-share", s->repair_share, 1, why, why_size);
	if (rc == 0)
		rc = check_rate("afr", s->afr, 1000, why, why_size);
	if (rc == 0 && !(s->detect_s >= 0 && s->detect_s <= SYSTEM_YEAR_S))
		rc = system_refuse(why, why_size, -EINVAL, "--detect %gs: must be from 0 to a year",
				   s->detect_s);
	return rc;
}

/* Checks that the racks fit the network stripe. */
static int check_racks(const struct layout_spec *l, char *why, size_t why_size)
{
	uint32_t columns = (uint32_t)(l->net.k + l->net.p);
	if (l->racks < columns)
		return system_refuse(
			why, why_size, -EINVAL,
			"--racks %u: a network stripe of %d+%d needs at least %u racks", l->racks,
			l->net.k, l->net.p, columns);
	if (columns > 1 && l->net_place == PLACE_CLUSTERED && l->racks % columns != 0)
		return system_refuse(why, why_size, -EINVAL,
				     "--racks %u: a clustered network (c/*) of %d+%d needs a "
				     "multiple of %u racks",
				     l->racks, l->net.k, l->net.p, columns);
	return 0;
}

/* Checks that the disks fit the local stripe and the pool. */
static int check_disks(const struct layout_spec *l, char *why, size_t why_size)
{
	uint32_t rows = (uint32_t)(l->local.k + l->local.p);
	bool narrow = l->local_place == PLACE_CLUSTERED;
	if (l->disks < rows)
		return system_refuse(why, why_size, -EINVAL,
				     "--disks %u: a local stripe of %d+%d needs at least %u disks",
				     l->disks, l->local.k, l->local.p, rows);
	if (narrow && l->pool_disks != 0 && l->pool_disks != rows)
		return system_refuse(why, why_size, -EINVAL,
				     "--pool-disks %u: a clustered local pool (*/c) has as many "
				     "disks as its stripe, %u",
				     l->pool_disks, rows);
	if (narrow && l->disks % rows != 0)
		return system_refuse(why, why_size, -EINVAL,
				     "--disks %u: clustered local pools (*/c) of %d+%d need a "
				     "multiple of %u disks in an enclosure",
				     l->disks, l->local.k, l->local.p, rows);
	uint32_t pool = l->pool_disks != 0 ? l->pool_disks : l->disks;
	if (!narrow && pool < rows)
		return system_refuse(why, why_size, -EINVAL,
				     "--pool-disks %u: a local stripe of %d+%d needs at least %u",
				     pool, l->local.k, l->local.p, rows);
	if (!narrow && l->disks % pool != 0)
		return system_refuse(why, why_size, -EINVAL,
				     "--pool-disks %u: must divide the --disks %u of an "
				     "enclosure",
				     pool, l->disks);
	return 0;
}

/*
 * Refuses other placements of an LRC: the studies of repair, nines and bursts do not support
 * them.
 */
static int check_lrc(const struct layout_spec *l, const char *scheme, char *why, size_t why_size)
{
	bool net = l->net.k + l->net.p > 1;
	if (!l->lrc || (net ? l->net_place : l->local_place) == PLACE_DECLUSTERED)
		return 0;
	return system_refuse(why, why_size, -EINVAL,
			     "--scheme %s: the studies support an LRC only declustered, d/- or -/d",
			     scheme);
}

int system_init(struct system *sys, const struct system_spec *spec, char *why, size_t why_size)
{
	*sys = (struct system){.spec = *spec, .afr = spec->afr, .detect_s = spec->detect_s};
	int rc = encoding_check(&spec->encoding, why, why_size);
	if (rc == 0)
		rc = check_numbers(spec, why, why_size);
	if (rc != 0)
		return rc;
	encoding_print(&spec->encoding, sys->code);
	if (spec->scheme[0] == '\0')
		snprintf(sys->spec.scheme, sizeof(sys->spec.scheme), "%s",
			 spec->encoding.kind == ENCODING_MLEC ? "c/d" : "d/-");
	struct layout_spec l = {
		.racks = spec->racks,
		.enclosures = spec->enclosures,
		.disks = spec->disks,
		.pool_disks = spec->pool_disks,
		.slots = spec->disk_bytes / spec->chunk_bytes,
	};
	char reason[SYSTEM_WHY_MAX];
	rc = layout_spec_code(&l, &spec->encoding, sys->spec.scheme, reason, sizeof(reason));
	if (rc != 0)
		system_refuse(why, why_size, rc, "--%s", reason);
	if (rc == 0)
		rc = check_lrc(&l, sys->spec.scheme, why, why_size);
	if (rc == 0)
		rc = check_racks(&l, why, why_size);
	if (rc == 0)
		rc = check_disks(&l, why, why_size);
	if (rc == 0)
		rc = layout_init(&sys->layout, &l, why, why_size);
	sys->policy = (struct repair_policy){.method = spec->method, .site = spec->site};
	sys->bandwidth = (struct repair_bandwidth){
		.disk = spec->disk_rate * spec->repair_share,
		.rack = spec->rack_rate * spec->repair_share,
	};
	sys->disk_rate_s = spec->afr / SYSTEM_YEAR_S;
	return rc;
}

void system_pool_speed(const struct system *sys, enum repair_method method, bool as_paper,
		       struct repair_speed *speed)
{
	assert((unsigned)method <= REPAIR_MIN);
	struct repair_policy policy = sys->policy;
	policy.method = as_paper ? REPAIR_ALL : method;
	repair_speed_pool(&sys->layout, &policy, &sys->bandwidth, speed);
}
