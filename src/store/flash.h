// SPDX-License-Identifier: Apache-2.0
/*
 * A hot-chunk cache: a slow store with a small fast one in front of it. To the layers above it is the slow
 * store; reads of chunks that are visited again and again come from the fast one.
 *
 * What is cached. Whole sealed chunks, which never change while they exist, up to chunk_max bytes, when
 * they have been visited `visits` times lately (flash_heat.h says what a visit is); when there is no room,
 * only in place of chunks that are not as hot. A chunk that is read once is never written to flash.
 *
 * Endurance. Flash wears by writing. A bucket fills at write_bytes_per_s, holds at most burst_bytes and is
 * empty at the start, so that restarts earn nothing; every byte that is written is taken out of it, and
 * what it does not hold is not cached. In any time t at most burst + t * rate is written.
 *
 * No read waits for the cache to be filled: that is done beside it, by one more read of the slow store.
 *
 * What a cached chunk is: a chunk of the fast store with the same name, bytes, epoch and label. Its bytes
 * came with the CRC that the slow store gave them, and leave with the fast store's, which was proved
 * against that.
 *
 * The truth is the slow store's:
 *  1. Changes, stat, list and scan go to it. What it does not have is not there, whatever flash has.
 *  2. A delete takes the chunk out of the index before and after the slow store forgets it, and ends what
 *     would fill it; only then is it acknowledged.
 *  3. After a restart, what flash has is believed only when the slow store has a chunk of the same length,
 *     CRC and epoch: it is asked when the chunk is first read. A delete that was cut short between the
 *     two stores leaves nothing that can be read.
 *  4. What flash gives back damaged, or not at all, is read from the slow store, and is no longer cached.
 *  5. A flash device that fails again and again is left alone for a minute.
 *
 * Memory: about 100 bytes for each of chunks_max, and fills_max * chunk_max while chunks are written.
 */
#ifndef STORE_FLASH_H
#define STORE_FLASH_H

#include "store/store.h"

/* Zeros are the defaults, but for the first two, which have none. */
struct store_flash_options {
	uint64_t capacity_bytes; /* of flash, heads of chunks included */
	uint64_t write_bytes_per_s;
	uint64_t burst_bytes; /* 0: what ten minutes earn, at least chunk_max */
	uint64_t chunk_max;   /* bytes; longer ones are not cached. 0: 16 MiB */
	uint32_t chunks_max;  /* 0: 16384 */
	uint32_t visits;      /* 0: 3 */
	uint32_t fills_max;   /* 0: 2 */
	/*
	 * Each read of the slow store that fills does so inside pace(ctx, bytes, work, arg): it calls work(arg)
	 * when the disk has time for it, and returns 0; or returns an error without calling it, and
	 * nothing is filled. It may wait. NULL: none.
	 */
	int (*pace)(void *ctx, uint64_t bytes, void (*work)(void *arg), void *arg);
	void *pace_ctx;
};

struct store_flash_stats {
	uint64_t hits, hit_bytes;
	uint64_t misses; /* reads from the slow store */
	uint64_t fills, fill_bytes;
	uint64_t evicted;
	uint64_t over_budget; /* hot, but the bucket did not hold enough */
	uint64_t failures;    /* calls that flash failed, or answered with damaged bytes */
	uint64_t used_bytes;
	uint32_t chunks;
	bool resting; /* left alone because it fails */
};

/*
 * Takes both when it returns 0; fast must be used for nothing else. Keeps what fast has of the time before.
 * -EINVAL, -ENOMEM. A fast store that cannot be listed is no error: it is left alone.
 */
int store_flash_open_take(struct store *slow, struct store *fast,
			  const struct store_flash_options *options, struct store **out);

void store_flash_stats(const struct store *s, struct store_flash_stats *out);

/* Waits until nothing is being filled: for tests. */
void store_flash_settle(struct store *s);

#endif
