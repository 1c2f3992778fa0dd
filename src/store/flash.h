// SPDX-License-Identifier: Apache-2.0
/*
 * A hot-chunk cache: a small fast store in front of a slow one. To the layers above it is the slow store;
 * reads of chunks that are visited repeatedly come from the fast one.
 *
 * What is cached: complete sealed chunks, which never change while they exist, of up to chunk_max bytes,
 * after `visits` recent visits (flash_heat.h defines a visit). When the fast store is full, a chunk is
 * cached only in place of chunks that are less hot. A chunk that is read once is never written to flash.
 *
 * Endurance. Flash wears out by writes. A token bucket limits them: it fills at write_bytes_per_s, holds at
 * most burst_bytes and is empty after a start, so that restarts do not add to it. A chunk is cached only if
 * the bucket holds its size. In any time t at most burst_bytes + t * write_bytes_per_s is written.
 *
 * No read waits for the cache to be filled. A background fiber reads the chunk from the slow store again
 * and writes it to flash.
 *
 * A cached chunk is a chunk of the fast store with the same id, bytes, epoch and label. It was written with
 * the CRC that the slow store returned, and the fast store verifies it on every read.
 *
 * The slow store is authoritative:
 *  1. Changes, stat, list and scan go to it. A chunk that it does not have cannot be read, whatever is on
 *     flash.
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

/* 0 selects the default; capacity_bytes and write_bytes_per_s have none. */
struct store_flash_options {
	uint64_t capacity_bytes; /* bytes of flash to use, including the heads of chunks */
	uint64_t write_bytes_per_s;
	uint64_t burst_bytes; /* 0: ten minutes of write_bytes_per_s, at least chunk_max */
	uint64_t chunk_max;   /* bytes; longer chunks are not cached. 0: 16 MiB */
	uint32_t chunks_max;  /* cached chunks; 0: 16384 */
	uint32_t visits;      /* visits before a chunk is cached; 0: 3 */
	uint32_t fills_max;   /* concurrent fills; 0: 2 */
	/*
	 * Runs each read of the slow store for a fill inside pace(ctx, bytes, work, arg), which
	 * calls work(arg) when the disk has time for it and returns 0; or returns an error without
	 * calling it, and the fill is dropped. It may wait. NULL: fills are not paced.
	 */
	int (*pace)(void *ctx, uint64_t bytes, void (*work)(void *arg), void *arg);
	void *pace_ctx;
};

struct store_flash_stats {
	uint64_t hits, hit_bytes;
	uint64_t misses; /* reads from the slow store */
	uint64_t fills, fill_bytes;
	uint64_t evicted;
	uint64_t over_budget; /* fills dropped because the token bucket was too empty */
	uint64_t failures;    /* calls that flash failed, or answered with damaged bytes */
	uint64_t used_bytes;
	uint32_t chunks;
	bool suspended; /* not used at present because it failed repeatedly */
};

/*
 * Opens the cache. Takes both stores when it returns 0; fast must be used for nothing else. Keeps
 * the chunks that fast has from before. -EINVAL, -ENOMEM. A fast store that cannot be listed is no
 * error: it is suspended.
 */
int store_flash_open_take(struct store *slow, struct store *fast,
			  const struct store_flash_options *options, struct store **out);

void store_flash_stats(const struct store *s, struct store_flash_stats *out);

/* Waits until no fill is in progress. For tests. */
void store_flash_settle(struct store *s);

#endif
