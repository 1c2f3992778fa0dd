// SPDX-License-Identifier: Apache-2.0
/*
 * The effect of a catastrophic pool on the network level, by repair method: the part of its local
 * stripes that counts as lost, and the bytes that must be rebuilt over the network until a stripe
 * is no longer lost.
 *
 *   R_ALL   all local stripes, all chunks of each
 *   R_FCO   the lost stripes; their failed chunks, and under the assumptions of the MLEC
 *           dissertation (README.md) also the failed chunks of other stripes
 *   R_HYB   the lost stripes; their failed chunks
 *   R_MIN   the lost stripes; one chunk each, after which the pool can repair them itself
 *
 * In the MLEC dissertation, pn + 1 catastrophic pools of a clustered network always lose data. Here
 * they lose data only if lost local stripes of these pools belong to one network stripe. The
 * difference is large where few local stripes are lost (c/d).
 */
#ifndef ANALYSIS_POOL_HIT_H
#define ANALYSIS_POOL_HIT_H

#include "analysis/split.h"

/*
 * Returns the hit of a pool with `stripes` local stripes that became catastrophic as in the
 * sample.
 */
struct damage_hit pool_hit(const struct system *sys, bool as_paper, const struct split_sample *at,
			   double stripes);

/*
 * Returns whether the pool keeps the damage that did not lose stripes. Under R_ALL and R_FCO all
 * its failed chunks are rebuilt over the network, so the pool itself has no damage left.
 */
bool pool_hit_keeps_damage(enum repair_method method);

#endif
