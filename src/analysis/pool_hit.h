// SPDX-License-Identifier: Apache-2.0
/*
 * What a pool that becomes catastrophic means to the network level, by repair method: the part of
 * its local stripes that counts as lost, and the bytes that must come over the network for each of
 * them before it does not.
 *
 *   R_ALL   all local stripes, all chunks of each
 *   R_FCO   the lost ones; their failed chunks, and as the paper has it those of other stripes in
 *           between
 *   R_HYB   the lost ones; their failed chunks
 *   R_MIN   the lost ones; one chunk each, which makes them the pool's own affair again
 *
 * In the paper, pn + 1 catastrophic pools of a clustered network always lose data; here they do if
 * lost local stripes of them coincide. The difference is large where few of them are lost (c/d).
 */
#ifndef ANALYSIS_POOL_HIT_H
#define ANALYSIS_POOL_HIT_H

#include "analysis/split.h"

/* `stripes` are the local stripes of a pool. */
struct damage_hit pool_hit(const struct system *sys, bool as_paper, const struct split_sample *at,
			   double stripes);

/*
 * Whether the pool's other damage stays where it is. Under R_ALL and R_FCO everything that failed in
 * it is the network's affair, and the pool as good as new.
 */
bool pool_hit_stays(enum repair_method method);

#endif
