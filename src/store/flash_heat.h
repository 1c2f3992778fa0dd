// SPDX-License-Identifier: Apache-2.0
/*
 * Tells which chunks are hot: counts recent visits of each chunk in a fixed amount of memory.
 *
 * A visit is a read that does not continue where the last read of the chunk ended (or up to 1 MiB
 * further): on a disk, a seek. Reading a chunk sequentially, in pieces of any size, is one visit;
 * a thousand random reads of it are a thousand. So a scan of all chunks visits each once and makes
 * none hot.
 *
 * Visits are counted in a count-min sketch: a chunk has four counters, which it shares with other
 * chunks at random, and the smallest is an upper bound of its visits (up to 255). After every `10
 * * chunks` visits all counters are halved, so that a chunk that is not read any more cools down.
 */
#ifndef STORE_FLASH_HEAT_H
#define STORE_FLASH_HEAT_H

#include "store/store.h"

#define FLASH_TRAILS 1024
#define FLASH_HEAT_ROWS 4

struct flash_heat {
	uint8_t *counters;
	uint32_t mask; /* number of counters, a power of two, minus 1 */
	uint64_t visits;
	uint64_t age_after;
	/*
	 * Where the last read of a chunk ended. Chunks with the same hash share an entry; the last
	 * read overwrites it.
	 */
	struct flash_trail {
		struct chunk_id id;
		uint64_t next;
	} trails[FLASH_TRAILS];
};

/* Initializes h for a cache of `chunks` chunks and allocates 8 to 16 bytes for each. -ENOMEM. */
int flash_heat_init(struct flash_heat *h, uint32_t chunks);
void flash_heat_fini(struct flash_heat *h);

/*
 * Counts a read of len > 0 bytes; returns the chunk's number of recent visits (an upper bound, at
 * most 255).
 */
uint32_t flash_heat_read(struct flash_heat *h, struct chunk_id id, uint64_t off, uint64_t len);
uint32_t flash_heat_of(const struct flash_heat *h, struct chunk_id id);

#endif
