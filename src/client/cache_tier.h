// SPDX-License-Identifier: Apache-2.0
/*
 * The tier of cache nodes in front of the disks (block_tier.h). Sealed blocks are asked for at the cache node that the
 * ring (shift/ring.h) gives them to; what the node does not have, or does not answer in time, is read from the disks.
 *
 *     range     piece 0        piece 1        piece 2       at most 4 MiB each, cut at multiples of it in the block
 *     ring      of the block: node 7
 *     node 7    DATA           NOT_HERE       DATA
 *     disks                    piece 1
 *
 * The ring is computed from the cluster map: its cache nodes that are online. The map is refreshed in the background while
 * there are reads, so nodes join and leave without anybody's decision. A range whose SHA-256 is known, of a tenant that
 * shares content (shift/content.h), is one piece and belongs to the node of its digest. A node that does not answer within the timeout, or
 * cannot be reached, is left alone for a pause: then the disks are read at once.
 */
#ifndef CLIENT_CACHE_TIER_H
#define CLIENT_CACHE_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;

#define CACHE_TIER_DIRECTORIES_MAX 64u

struct cache_tier_options {
	uint64_t timeout_ns; /* 0: 50 ms */
	uint64_t pause_ns;   /* for which a dead or slow node is not asked; 0: 5 s */
	uint64_t map_age_ns; /* age at which the cluster map is refreshed; 0: 5 s */
	/* Which reads may go to cache nodes: */
	uint32_t
		classes; /* set of 1 << enum traffic_class; TRAFFIC_NONE counts as silver; 0: all */
	uint64_t block_bytes_min; /* shorter blocks are read from the disks */
	/* Shorter ranges are asked for by block though their digest is known, because an entry has segments of its own; 0:
	 * 128 KiB. All tenants that share should have the same. */
	uint64_t content_bytes_min;
	/* only data of these directories; copied; count 0: of all */
	const uint64_t *directories;
	size_t directory_count; /* at most CACHE_TIER_DIRECTORIES_MAX */
};

/* Adds the tier to an engine, which closes it. -EINVAL: too many directories; -ENOMEM. */
int cache_tier_open(struct engine *e, const struct cache_tier_options *o);

#endif
