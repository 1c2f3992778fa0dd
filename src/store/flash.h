// SPDX-License-Identifier: Apache-2.0
/*
 * A hot-chunk cache: flash in front of a slow store. To the layers above it is the slow store; parts of chunks that are
 * visited repeatedly come from flash. The bytes are kept by the engine of cache/engine.h, in a file in a folder of the
 * flash device, in segments of FLASH_SEGMENT_BYTES, with a little DRAM in front.
 *
 * What a read touches of a complete sealed chunk is cached after `visits` recent visits of the chunk (flash_heat.h
 * defines a visit). A segment that leaves DRAM is written to flash only if it was read more often than what would be
 * evicted for it (W-TinyLFU). A chunk that is read once is never written to flash.
 *
 * Endurance. Flash wears out by writes. A token bucket limits them: it fills at write_bytes_per_s, holds at
 * most burst_bytes and is empty after a start, so that restarts do not add tokens. Segments are cached only if the bucket
 * holds their size. In any time t at most burst_bytes + t * write_bytes_per_s, and 1/100 for footers, is written.
 *
 * No read waits for the cache to be filled. A background fiber reads the segments from the slow store again.
 *
 * The slow store is authoritative:
 *  1. Changes, stat, list and scan go to it. A chunk that the slow store does not have cannot be read, even if it is on
 *     flash.
 *  2. The engine knows a chunk by its id, epoch, length and CRC. A read finds it there only with what the slow store said
 *     of the chunk in this run; a delete or a replacement makes the cache forget what it said, before and after the slow
 *     store has done it. So neither a restart, nor a crash between the two, nor a lost delete on flash shows old bytes.
 *  3. The CRC of cached bytes is the one that the slow store returned; it is compared on every read. What does not match,
 *     or cannot be read, is read from the slow store and leaves the cache.
 *  4. A flash device that fails repeatedly is not used for a minute.
 *
 * Memory: about 100 bytes for each of chunks_max, 32 for each segment on flash, dram_bytes, and what the engine needs
 * (cache/README.md).
 */
#ifndef STORE_FLASH_H
#define STORE_FLASH_H

#include "store/store.h"

#define FLASH_SEGMENT_BYTES (64 * KIB)

/*
 * Options of a hot-chunk cache. 0 selects a default, except for capacity_bytes and
 * write_bytes_per_s.
 */
struct store_flash_options {
	const char *path;        /* the file of the cache; it is made if it does not exist */
	uint64_t owner[2];       /* whose chunks they are; a file of another owner is refused */
	uint64_t capacity_bytes; /* size of the file, at least 4 MiB */
	uint64_t write_bytes_per_s;
	/*
	 * largest number of bytes written at once; 0: ten minutes of write_bytes_per_s, at least
	 * chunk_max
	 */
	uint64_t burst_bytes;
	uint64_t dram_bytes; /* 0: 1/64 of the capacity, at least 4 MiB and at most 64 MiB */
	uint64_t chunk_max;  /* bytes; longer chunks are not cached. 0: 64 MiB */
	uint32_t chunks_max; /* largest number of chunks that are known; 0: 16384 */
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
	uint64_t misses;            /* number of reads that went to the slow store */
	uint64_t fills, fill_bytes; /* bytes of segments that were cached */
	uint64_t written_bytes;     /* to the flash device, with footers */
	uint64_t evicted;           /* regions freed to make room */
	uint64_t over_budget; /* number of fills dropped because the token bucket was too empty */
	/* calls on the flash device that failed, and segments whose bytes did not match */
	uint64_t failures;
	uint64_t used_bytes; /* of segments in the cache */
	uint64_t restored;   /* segments that the start found on flash */
	bool suspended;      /* the flash is not used at present, because it failed repeatedly */
};

/*
 * Opens the cache. The cache owns the slow store when this returns 0. What the file has from an earlier run stays
 * cached. -EINVAL, -ENOMEM; errors of cache_engine_open.
 */
int store_flash_open_take(struct store *slow, const struct store_flash_options *options,
			  struct store **out);

void store_flash_stats(const struct store *s, struct store_flash_stats *out);

/* Waits until no chunk is being read for the cache, and nothing waits to be written. For tests. */
void store_flash_settle(struct store *s);

#endif
