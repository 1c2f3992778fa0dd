// SPDX-License-Identifier: Apache-2.0
#include "analysis/pool_hit.h"

struct damage_hit pool_hit(const struct system *sys, bool fco_any_order,
			   const struct split_sample *at, double stripes)
{
	const struct layout *l = &sys->layout;
	double chunk = (double)sys->spec.chunk_bytes, p = l->spec.local.p;
	double part = at->lost < stripes ? at->lost / stripes : 1;
	double in_between = fco_any_order ? at->missing / at->lost : 0;
	switch (sys->policy.method) {
	case REPAIR_ALL:
		return (struct damage_hit){
			1, chunk * (sys->policy.parity_inside ? l->rows - p : l->rows)};
	case REPAIR_FCO:
		return (struct damage_hit){part, chunk * (p + 1 + in_between)};
	case REPAIR_HYB:
		break;
	case REPAIR_MIN:
		return (struct damage_hit){part, chunk};
	}
	return (struct damage_hit){part, chunk * (p + 1)};
}
