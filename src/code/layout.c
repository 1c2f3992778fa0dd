// SPDX-License-Identifier: Apache-2.0
#include "code/layout.h"

#include <assert.h>
#include <errno.h>

#include "base/base.h"
#include "base/rng.h"

/* Returns the placement key of a level: number 0 is the network level, n + 1 is pool n. */
static uint64_t level_key(const struct layout *l, uint64_t number)
{
	return mix_u64(mix_u64(l->spec.seed) + number * 0x9e3779b97f4a7c15ULL);
}

uint64_t layout_pool_key(const struct layout *l, uint32_t pool)
{
	assert(pool < l->pools);
	return level_key(l, (uint64_t)pool + 1);
}

static int check_shape(const struct rs_shape *s, const char *level, char *why, size_t why_size)
{
	if (s->k < 1 || s->p < 0 || s->k > ENCODING_STRIPE_MAX - s->p)
		return place_refuse(why, why_size, -EINVAL,
				    "%s code %d+%d: needs at least 1+0 and at most %d chunks",
				    level, s->k, s->p, ENCODING_STRIPE_MAX);
	return 0;
}

/* Computes how enclosures are cut into pools. Returns 0 or -EINVAL, with the reason in `why`. */
static int init_pools(struct layout *l, char *why, size_t why_size)
{
	const struct layout_spec *s = &l->spec;
	bool narrow = s->local_place == PLACE_CLUSTERED;
	l->pool_disks = s->pool_disks != 0 ? s->pool_disks : narrow ? l->rows : s->disks;
	if (narrow && l->pool_disks != l->rows)
		return place_refuse(why, why_size, -EINVAL,
				    "a clustered local pool has as many disks as the stripe, %u, "
				    "not %u",
				    l->rows, l->pool_disks);
	if (l->pool_disks > LAYOUT_POOL_DISKS_MAX)
		return place_refuse(why, why_size, -EINVAL,
				    "local pools of %u disks: a pool may have at most %d",
				    l->pool_disks, LAYOUT_POOL_DISKS_MAX);
	if (s->disks % l->pool_disks != 0)
		return place_refuse(why, why_size, -EINVAL,
				    "%u disks of an enclosure do not divide into local pools of "
				    "%u: change the number of disks or the local code",
				    s->disks, l->pool_disks);
	l->enclosure_pools = s->disks / l->pool_disks;
	return 0;
}

static int check_sizes(const struct layout_spec *s, char *why, size_t why_size)
{
	int rc = check_shape(&s->net, "network", why, why_size);
	if (rc == 0)
		rc = check_shape(&s->local, "local", why, why_size);
	if (rc != 0)
		return rc;
	if (s->racks == 0 || s->enclosures == 0 || s->disks == 0 || s->slots == 0)
		return place_refuse(why, why_size, -EINVAL,
				    "%u racks x %u enclosures x %u disks of %llu chunks: all must "
				    "be at least 1",
				    s->racks, s->enclosures, s->disks,
				    (unsigned long long)s->slots);
	if (s->racks > PLACE_UNITS_MAX || s->enclosures > PLACE_UNITS_MAX / s->racks ||
	    s->disks > PLACE_UNITS_MAX / s->racks / s->enclosures)
		return place_refuse(why, why_size, -EOVERFLOW,
				    "%u racks x %u enclosures x %u disks: at most %u disks",
				    s->racks, s->enclosures, s->disks, PLACE_UNITS_MAX);
	return 0;
}

int layout_init(struct layout *l, const struct layout_spec *spec, char *why, size_t why_size)
{
	int rc = check_sizes(spec, why, why_size);
	if (rc != 0)
		return rc;
	*l = (struct layout){.spec = *spec};
	l->columns = (uint32_t)(spec->net.k + spec->net.p);
	l->rows = (uint32_t)(spec->local.k + spec->local.p);
	rc = init_pools(l, why, why_size);
	if (rc != 0)
		return rc;
	l->rack_pools = l->enclosure_pools * spec->enclosures;
	l->pools = l->rack_pools * spec->racks;
	l->disks = l->pools * l->pool_disks;
	struct place_size size = {l->pool_disks, 1, l->rows, spec->slots, "disks"};
	rc = place_init(&l->local, spec->local_place, &size, why, why_size);
	if (rc != 0)
		return rc;
	if (l->local.stripes == 0)
		return place_refuse(why, why_size, -EINVAL,
				    "a pool of %u disks of %llu chunks has no room for a stripe",
				    l->pool_disks, (unsigned long long)spec->slots);
	size = (struct place_size){spec->racks, l->rack_pools, l->columns, l->local.stripes,
				   "racks"};
	rc = place_init(&l->net, spec->net_place, &size, why, why_size);
	if (rc != 0)
		return rc;
	if (l->net.stripes == 0)
		return place_refuse(why, why_size, -EINVAL,
				    "pools of %llu local stripes have no room for a network stripe",
				    (unsigned long long)l->local.stripes);
	l->stripes = l->net.stripes;
	assert(l->disks <= PLACE_UNITS_MAX);
	return 0;
}

uint32_t layout_disk_pool(const struct layout *l, uint32_t disk)
{
	assert(disk < l->disks);
	return disk / l->pool_disks;
}

uint32_t layout_disk_in_pool(const struct layout *l, uint32_t disk)
{
	assert(disk < l->disks);
	return disk % l->pool_disks;
}

uint32_t layout_pool_disk(const struct layout *l, uint32_t pool, uint32_t in_pool)
{
	assert(pool < l->pools && in_pool < l->pool_disks);
	return pool * l->pool_disks + in_pool;
}

uint32_t layout_disk_rack(const struct layout *l, uint32_t disk)
{
	assert(disk < l->disks);
	return disk / l->pool_disks / l->rack_pools;
}

void layout_column_at(const struct layout *l, uint64_t stripe, uint32_t column,
		      struct layout_column *at)
{
	assert(stripe < l->stripes && column < l->columns);
	struct place_location location;
	l->net.ops->locate(&l->net, level_key(l, 0), stripe, column, &location);
	at->rack = location.domain;
	at->pool = location.domain * l->rack_pools + location.unit;
	at->local_stripe = location.slot;
	assert(at->pool < l->pools && at->local_stripe < l->local.stripes);
}

bool layout_column_find(const struct layout *l, uint32_t pool, uint64_t local_stripe,
			uint64_t *stripe, uint32_t *column)
{
	assert(pool < l->pools && local_stripe < l->local.stripes);
	struct place_location location = {pool / l->rack_pools, pool % l->rack_pools, local_stripe};
	return l->net.ops->find(&l->net, level_key(l, 0), &location, stripe, column);
}

void layout_row_at(const struct layout *l, uint32_t pool, uint64_t local_stripe, uint32_t row,
		   struct layout_location *location)
{
	assert(local_stripe < l->local.stripes && row < l->rows);
	struct place_location at;
	l->local.ops->locate(&l->local, layout_pool_key(l, pool), local_stripe, row, &at);
	location->disk = layout_pool_disk(l, pool, at.domain);
	location->rack = pool / l->rack_pools;
	location->enclosure = pool % l->rack_pools / l->enclosure_pools;
	location->bay = location->disk % l->spec.disks;
	location->slot = at.slot;
}

int layout_row_of(const struct layout *l, uint32_t pool, uint64_t local_stripe, uint32_t in_pool)
{
	assert(local_stripe < l->local.stripes && in_pool < l->pool_disks);
	return l->local.ops->index_of(&l->local, layout_pool_key(l, pool), local_stripe, in_pool,
				      0);
}

int layout_locate(const struct layout *l, uint64_t stripe, uint32_t column, uint32_t row,
		  struct layout_location *location)
{
	if (stripe >= l->stripes || column >= l->columns || row >= l->rows)
		return -ERANGE;
	struct layout_column at;
	layout_column_at(l, stripe, column, &at);
	layout_row_at(l, at.pool, at.local_stripe, row, location);
	return 0;
}

int layout_locate_all(const struct layout *l, uint64_t stripe, struct layout_location *locations)
{
	if (stripe >= l->stripes)
		return -ERANGE;
	for (uint32_t c = 0; c < l->columns; c++) {
		struct layout_column at;
		layout_column_at(l, stripe, c, &at);
		for (uint32_t r = 0; r < l->rows; r++)
			layout_row_at(l, at.pool, at.local_stripe, r, &locations[c * l->rows + r]);
	}
	return 0;
}

int layout_find(const struct layout *l, uint32_t disk, uint64_t slot, struct layout_ref *ref)
{
	if (disk >= l->disks || slot >= l->spec.slots)
		return -ERANGE;
	ref->pool = layout_disk_pool(l, disk);
	struct place_location location = {layout_disk_in_pool(l, disk), 0, slot};
	if (!l->local.ops->find(&l->local, layout_pool_key(l, ref->pool), &location,
				&ref->local_stripe, &ref->row))
		return -ENOENT;
	if (!layout_column_find(l, ref->pool, ref->local_stripe, &ref->stripe, &ref->column))
		return -ENOENT;
	return 0;
}

static bool place_of_letter(char letter, enum place_kind *kind)
{
	for (enum place_kind k = PLACE_CLUSTERED; k <= PLACE_OVERLAP; k++) {
		if (place_ops_of(k)->letter == letter) {
			*kind = k;
			return true;
		}
	}
	return false;
}

/* Returns the shape of an encoding with one level. */
static struct rs_shape flat_shape(const struct encoding *e)
{
	int data = encoding_data_chunks(e);
	return (struct rs_shape){data, encoding_total_chunks(e) - data};
}

int layout_spec_code(struct layout_spec *spec, const struct encoding *e, const char *scheme,
		     char *why, size_t why_size)
{
	enum place_kind net = PLACE_CLUSTERED;
	enum place_kind local = PLACE_CLUSTERED;
	bool has_net = scheme[0] != '\0' && place_of_letter(scheme[0], &net);
	bool slash = scheme[0] != '\0' && scheme[1] == '/';
	bool has_local = slash && scheme[2] != '\0' && place_of_letter(scheme[2], &local);
	if (!slash || !(has_net || scheme[0] == '-') || !(has_local || scheme[2] == '-') ||
	    scheme[3] != '\0')
		return place_refuse(
			why, why_size, -EILSEQ,
			"'%.10s' is not a scheme: write two of c, d, s and - with a slash "
			"between, as in c/d, d/- (network only) or -/s (local only)",
			scheme);
	bool two = e->kind == ENCODING_MLEC;
	if (two && (!has_net || !has_local || net == PLACE_OVERLAP))
		return place_refuse(
			why, why_size, -EINVAL,
			"scheme %s does not fit mlec: use c/c, c/d, c/s, d/c, d/d or d/s", scheme);
	if (!two && has_net == has_local)
		return place_refuse(
			why, why_size, -EINVAL,
			"scheme %s does not fit a code with one level: use c/-, d/- or s/- "
			"across racks, or -/c, -/d or -/s inside an enclosure",
			scheme);
	const struct rs_shape none = {1, 0};
	spec->net = two ? e->mlec.net : has_net ? flat_shape(e) : none;
	spec->local = two ? e->mlec.local : has_local ? flat_shape(e) : none;
	spec->net_place = net;
	spec->local_place = local;
	spec->lrc = e->kind == ENCODING_LRC;
	return 0;
}

void layout_scheme_print(const struct layout_spec *spec, char text[4])
{
	bool net = spec->net.k + spec->net.p > 1;
	bool local = spec->local.k + spec->local.p > 1;
	text[0] = net ? place_ops_of(spec->net_place)->letter : '-';
	text[1] = '/';
	text[2] = local ? place_ops_of(spec->local_place)->letter : '-';
	text[3] = '\0';
}
