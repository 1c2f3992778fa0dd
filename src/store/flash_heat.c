// SPDX-License-Identifier: Apache-2.0
#include "store/flash_heat.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"

#define AHEAD_BYTES (1 * MIB) /* a read that skips up to this many bytes continues the last one */
#define AGE_VISITS 10 /* visits per chunk of the cache after which all counters are halved */
#define COUNTERS 8    /* number of counters per chunk of the cache */

int flash_heat_init(struct flash_heat *h, uint32_t chunks)
{
	uint64_t n = 1024;

	*h = (struct flash_heat){.age_after = (uint64_t)AGE_VISITS * max_u64(chunks, 128)};
	while (n < (uint64_t)COUNTERS * chunks && n < UINT64_C(1) << 28)
		n *= 2;
	h->mask = (uint32_t)(n - 1);
	h->counters = calloc(n, 1);
	return h->counters != NULL ? 0 : -ENOMEM;
}

void flash_heat_fini(struct flash_heat *h)
{
	free(h->counters);
	h->counters = NULL;
}

static uint32_t counter_at(const struct flash_heat *h, uint64_t hash, uint32_t row)
{
	uint32_t step = (uint32_t)(hash >> 32) | 1U;
	return ((uint32_t)hash + row * step) & h->mask;
}

static uint32_t smallest_counter(const struct flash_heat *h, uint64_t hash)
{
	uint32_t n = UINT8_MAX;

	for (uint32_t row = 0; row < FLASH_HEAT_ROWS; row++) {
		uint32_t counter = h->counters[counter_at(h, hash, row)];
		n = counter < n ? counter : n;
	}
	return n;
}

uint32_t flash_heat_of(const struct flash_heat *h, struct chunk_id id)
{
	return smallest_counter(h, hash64_u64s(id.block, id.index));
}

static void age(struct flash_heat *h)
{
	for (uint64_t i = 0; i <= h->mask; i++)
		h->counters[i] /= 2;
	h->visits = 0;
}

uint32_t flash_heat_read(struct flash_heat *h, struct chunk_id id, uint64_t off, uint64_t len)
{
	uint64_t hash = hash64_u64s(id.block, id.index);
	struct flash_trail *t = &h->trails[hash % FLASH_TRAILS];
	bool continues = chunk_id_equal(t->id, id) && t->next > 0 && off >= t->next &&
			 off - t->next <= AHEAD_BYTES;
	uint32_t n = smallest_counter(h, hash);

	assert(len > 0);
	*t = (struct flash_trail){.id = id, .next = off + len};
	if (continues || n == UINT8_MAX)
		return n;
	/*
	 * Raise only the smallest counters of the chunk: its larger counters already overstate its
	 * visits.
	 */
	for (uint32_t row = 0; row < FLASH_HEAT_ROWS; row++) {
		uint8_t *counter = &h->counters[counter_at(h, hash, row)];
		if (*counter == n)
			(*counter)++;
	}
	if (++h->visits >= h->age_after)
		age(h);
	return n + 1;
}
