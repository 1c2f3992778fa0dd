// SPDX-License-Identifier: Apache-2.0
/*
 * The clairvoyant bound: Belady's MIN with bypass, for requests whose next access is known.
 *
 * Requests for segments are numbered; next[i] is the number of the next request for the same segment, or BOUND_NEVER. A
 * cache of `capacity` segments, which no flash, region or write limits, keeps those that are requested soonest: after
 * each request the segment competes with what is held, and the one whose next request is farthest is given up. A
 * segment that is not kept was not fetched by the cache. So the number of hits is the most that any policy can absorb,
 * prefetching or not: each hit is a request whose bytes stood in the cache since the request before it.
 *
 * Segments that are held are a set of numbers: those of their next requests. It is kept as a bitmap with summaries of
 * 64 bits each, so that a request costs a few operations at any capacity, and needs no index: request i hits if i is in
 * the set.
 */
#ifndef CACHE_BOUND_H
#define CACHE_BOUND_H

#include <stdbool.h>
#include <stdint.h>

#define BOUND_NEVER UINT32_MAX
#define BOUND_LEVELS 6u

struct bound {
	uint64_t *level
		[BOUND_LEVELS]; /* level 0: the set; a bit of level k + 1: a word of level k is not 0 */
	uint32_t levels;
	uint32_t requests; /* in total */
	uint64_t held, capacity;
};

/* -ENOMEM; -E2BIG: more than BOUND_NEVER - 1 requests */
int bound_init(struct bound *b, uint64_t requests, uint64_t capacity);
void bound_fini(struct bound *b);

/* Takes request number i, in rising order. Returns whether its segment is held. */
bool bound_request(struct bound *b, uint32_t i, uint32_t next);

#endif
