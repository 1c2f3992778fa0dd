// SPDX-License-Identifier: Apache-2.0
#include "cli/explain.h"

#include <errno.h>

#include "base/base.h"
#include "base/err.h"

static uint32_t round_up(uint32_t n, uint32_t multiple)
{
	return (n + multiple - 1) / multiple * multiple;
}

/* Sets the system to the defaults of the MLEC paper, with more racks or disks where the code needs them. */
static void fit_system(struct layout_spec *spec, const struct explain_system *s)
{
	uint32_t columns = (uint32_t)(spec->net.k + spec->net.p);
	uint32_t rows = (uint32_t)(spec->local.k + spec->local.p);
	bool group_racks = spec->net_place == PLACE_CLUSTERED;
	bool group_disks = spec->local_place == PLACE_CLUSTERED;
	spec->racks = s->racks;
	spec->enclosures = s->enclosures != 0 ? s->enclosures : 8;
	spec->disks = s->disks;
	if (spec->racks == 0)
		spec->racks = (uint32_t)max_u64(round_up(60, group_racks ? columns : 1), columns);
	if (spec->disks == 0)
		spec->disks = (uint32_t)max_u64(round_up(120, group_disks ? rows : 1), rows);
}

/* Returns the mean number of chunks read to rebuild one. An MDS code reads k; an LRC reads the group, or
 * all data for a global parity. */
static double reads_per_chunk(const struct encoding *e)
{
	const struct lrc_shape *c = &e->lrc;
	switch (e->kind) {
	case ENCODING_REPLICATED:
		return e->copies > 1;
	case ENCODING_RS:
		return e->rs.k;
	case ENCODING_MLEC:
		return e->mlec.local.k;
	case ENCODING_LRC:
		break;
	}
	int group = c->k / c->groups;
	double reads = (double)(c->k + c->groups) * group + (double)c->globals * c->k;
	return reads / encoding_total_chunks(e);
}

static int explain_repair(struct explain *x)
{
	const struct layout *l = &x->layout;
	const struct repair_bandwidth bandwidth = {
		.disk = x->system.disk_rate * x->system.share,
		.rack = x->system.rack_rate * x->system.share,
	};
	struct repair_policy policy = {.method = REPAIR_MIN, .site = REPAIR_AT_RACK};
	double count[ENCODING_STRIPE_MAX + 1];
	int rc = repair_speed_disk(l, &policy, &bandwidth, &x->disk);
	if (rc == 0)
		rc = repair_counts_catastrophic(l, x->pool_failures, &x->catastrophic, count);
	for (int m = 0; rc == 0 && m < 4; m++) {
		policy.method = (enum repair_method)m;
		repair_counts_cost(l, &policy, count, &x->methods[m].cost);
		repair_speed_pool(l, &policy, &bandwidth, &x->methods[m].network);
	}
	return rc;
}

int explain_make(struct explain *x, const char *encoding, const char *scheme,
		 const struct explain_system *system, char *why, size_t why_size)
{
	*x = (struct explain){.system = *system};
	int rc = encoding_parse(encoding, &x->encoding, why, why_size);
	if (rc != 0)
		return rc;
	if (scheme == NULL)
		scheme = x->encoding.kind == ENCODING_MLEC ? "c/d" : "d/-";
	if (system->disk_bytes < system->chunk_bytes) {
		snprintf(why, why_size,
			 "--disk-size %llu is less than --chunk-size %llu: a disk must hold at "
			 "least 1 chunk",
			 (unsigned long long)system->disk_bytes,
			 (unsigned long long)system->chunk_bytes);
		return -EINVAL;
	}
	struct layout_spec spec = {.slots = system->disk_bytes / system->chunk_bytes};
	rc = layout_spec_code(&spec, &x->encoding, scheme, why, why_size);
	if (rc != 0)
		return rc;
	fit_system(&spec, system);
	rc = layout_init(&x->layout, &spec, why, why_size);
	if (rc != 0)
		return rc;
	encoding_print(&x->encoding, x->text);
	snprintf(x->scheme, sizeof(x->scheme), "%s", scheme);
	x->reads_per_chunk = reads_per_chunk(&x->encoding);
	x->pool_failures = (uint32_t)spec.local.p + 1;
	if (x->reads_per_chunk == 0)
		x->no_speed = "no other replica exists to read from";
	else if (x->encoding.kind == ENCODING_LRC)
		x->no_speed = "it depends on which chunks of a stripe are lost";
	else
		rc = explain_repair(x);
	if (rc != 0)
		snprintf(why, why_size, "%s", err_text(rc));
	return rc;
}
