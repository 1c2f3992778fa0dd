// SPDX-License-Identifier: Apache-2.0
/*
 * Which chunks are hot: how often each was visited lately, in a fixed amount of memory.
 *
 * A visit is a read that does not go on where the last read of the chunk ended (or a little further): to
 * a disk, a seek. Reading all of a chunk, in whatever pieces, is one visit; a thousand random reads of it
 * are a thousand. So a scan of everything visits everything once, and nothing becomes hot by it.
 *
 * Visits are counted in a count-min sketch: each chunk has four counters, shared with others by chance,
 * and the least of them is at least its number of visits (up to 255). After every `10 * chunks` visits
 * all counters are halved, so that what was hot last week does not stay so.
 */
#ifndef STORE_FLASH_HEAT_H
#define STORE_FLASH_HEAT_H

#include "store/store.h"

#define FLASH_TRAILS 1024
#define FLASH_HEAT_ROWS 4

struct flash_heat {
	uint8_t *counters;
	uint32_t mask; /* their number, a power of two, less one */
	uint64_t visits;
	uint64_t age_after;
	/* Where the last read of a chunk ended; chunks push each other out. */
	struct flash_trail {
		struct chunk_id id;
		uint64_t next;
	} trails[FLASH_TRAILS];
};

/* For a cache of about so many chunks: some 16 bytes each. -ENOMEM. */
int flash_heat_init(struct flash_heat *h, uint32_t chunks);
void flash_heat_fini(struct flash_heat *h);

/* Counts a read, len > 0; returns how hot the chunk is now. */
uint32_t flash_heat_read(struct flash_heat *h, struct chunk_id id, uint64_t off, uint64_t len);
uint32_t flash_heat_of(const struct flash_heat *h, struct chunk_id id);

#endif
