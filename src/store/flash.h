// SPDX-License-Identifier: Apache-2.0
/*
 * A hot-chunk cache: a small fast store in front of a slow one. To the layers above it is the slow store;
 * reads of chunks that are visited repeatedly come from the fast one.
 *
 * The cache holds complete sealed chunks, which never change while they exist, of up to chunk_max bytes,
 * after `visits` recent visits (flash_heat.h defines a visit). When the fast store is full, a chunk is
 * cached only in place of chunks that are less hot. A chunk that is read once is never written to flash.
 *
 * Endurance. Flash wears out by writes. A token bucket limits them: it fills at write_bytes_per_s, holds at
 * most burst_bytes and is empty after a start, so that restarts do not add tokens. A chunk is cached only
 * if the bucket holds its size. In any time t at most burst_bytes + t * write_bytes_per_s is written.
 *
 * No read waits for the cache to be filled. A background fiber reads the chunk from the slow store again
 * and writes it to flash.
 *
 * A cached chunk is a chunk of the fast store with the same id, bytes, epoch and label. It was written with
 * the CRC that the slow store returned, and the fast store verifies it on every read.
 *
 * The slow store is authoritative:
 *  1. Changes, stat, list and scan go to it. A chunk that the slow store does not have cannot be read,
 *     even if it is on flash.
 *  2. A delete removes the chunk from the index before and after the slow store deletes it, and cancels
 *     fills of it; only then is it acknowledged.
 *  3. After a restart a chunk on flash is used only if the slow store has a sealed chunk with the same
 *     length, CRC and epoch. This is checked when the chunk is first read. So a delete that a crash
 *     interrupted between the two stores leaves nothing that can be read.
 *  4. A chunk that flash returns damaged, or not at all, is read from the slow store and is removed from
 *     the cache.
 *  5. A flash device that fails repeatedly is not used for a minute.
 *
 * Memory: about 100 bytes for each of chunks_max, and fills_max * chunk_max during fills.
 */
#ifndef STORE_FLASH_H
#define STORE_FLASH_H

#include "store/store.h"

/*
 * Options of a hot-chunk cache. 0 selects a default, except for capacity_bytes and
 * write_bytes_per_s.
 */
struct store_flash_options {
	uint64_t capacity_bytes; /* bytes of the fast store to use, including the heads of chunks */
	uint64_t write_bytes_per_s;
	/*
	 * largest number of bytes written at once; 0: ten minutes of write_bytes_per_s, at least
	 * chunk_max
	 */
	uint64_t burst_bytes;
	uint64_t chunk_max;  /* bytes; longer chunks are not cached. 0: 16 MiB */
	uint32_t chunks_max; /* largest number of cached chunks; 0: 16384 */
	uint32_t visits;     /* recent visits after which a chunk is cached; 0: 3 */
	uint32_t fills_max;  /* largest number of concurrent fills; 0: 2 */
	/*
	 * Runs each read of the slow store for a fill inside pace(ctx, bytes, work, arg), which
	 * calls work(arg) when the disk has time for it and returns 0; or returns an error without
	 * calling work, and the fill is dropped. pace may wait. NULL: fills are not paced.
	 */
	int (*pace)(void *ctx, uint64_t bytes, void (*work)(void *arg), void *arg);
	void *pace_ctx;
};

struct store_flash_stats {
	uint64_t hits, hit_bytes;
	uint64_t misses; /* number of reads that went to the slow store */
	uint64_t fills, fill_bytes;
	uint64_t evicted;
	uint64_t over_budget; /* number of fills dropped because the token bucket was too empty */
	/* number of calls on the fast store that failed or returned damaged bytes */
	uint64_t failures;
	uint64_t used_bytes;
	uint32_t chunks;
	bool suspended; /* the fast store is not used at present, because it failed repeatedly */
};

/*
 * Opens the cache. The cache owns both stores when this returns 0; fast must be used for no other
 * purpose. Chunks that fast still has from an earlier run stay cached. -EINVAL, -ENOMEM. A fast
 * store that cannot be listed is no error: the cache does not use it for a minute, as after
 * repeated failures.
 */
int store_flash_open_take(struct store *slow, struct store *fast,
			  const struct store_flash_options *options, struct store **out);

void store_flash_stats(const struct store *s, struct store_flash_stats *out);

/* Waits until no chunk is being copied to the fast store. For tests. */
void store_flash_settle(struct store *s);

#endif
