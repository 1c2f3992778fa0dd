// SPDX-License-Identifier: Apache-2.0
#include "analysis/pool_hit.h"

#include <assert.h>

/* Returns how many chunks go over the network for each lost local stripe. */
static double chunks_each(const struct system *sys, bool as_paper, const struct split_sample *at)
{
	double rows = sys->layout.rows, failed = sys->layout.spec.local.p + 1.0;
	switch (sys->policy.method) {
	case REPAIR_ALL:
		return sys->policy.parity_inside ? rows + 1 - failed : rows;
	case REPAIR_FCO:
		return failed + (as_paper ? at->missing / at->lost : 0);
	case REPAIR_HYB:
		return failed;
	case REPAIR_MIN:
		break;
	}
	return 1;
}

struct damage_hit pool_hit(const struct system *sys, bool as_paper, const struct split_sample *at,
			   double stripes)
{
	assert(at->lost > 0 && stripes > 0);
	double cost = chunks_each(sys, as_paper, at) * (double)sys->spec.chunk_bytes;
	double part = at->lost < stripes ? at->lost / stripes : 1;
	if (sys->policy.method == REPAIR_ALL)
		return (struct damage_hit){1, cost};
	/* All stripes of the pool count as lost until the bytes of the lost stripes are rebuilt. */
	if (as_paper && sys->layout.spec.net_place == PLACE_CLUSTERED)
		return (struct damage_hit){1, cost * part};
	return (struct damage_hit){part, cost};
}

bool pool_hit_keeps_damage(enum repair_method method)
{
	return method == REPAIR_HYB || method == REPAIR_MIN;
}
