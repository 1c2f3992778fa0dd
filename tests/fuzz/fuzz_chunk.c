// SPDX-License-Identifier: Apache-2.0
/*
 * The slots of a chunk file from arbitrary bytes. An accepted slot must be possible and must encode to bytes that
 * are accepted as the same slot. The first byte of the input decides whether magic, version and checksums are
 * corrected first, so that the fuzzer reaches the fields behind them.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "fuzz.h"
#include "store/format.h"
#include "store/units.h"

static void put_u32(uint8_t *at, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get_u64(const uint8_t *at)
{
	uint64_t v = 0;
	for (int i = 7; i >= 0; i--)
		v = v << 8 | at[i];
	return v;
}

/* Sets the checksums of a slot, whatever its fields are. */
static void mend(uint8_t *slot)
{
	static const uint8_t magic[8] = {'T', 'R', 'N', 'C', 'H', 'U', 'N', 'K'};
	memcpy(slot, magic, sizeof(magic));
	put_u32(slot + 8, FORMAT_VERSION);
	put_u32(slot + 84, crc32c(0, slot + CHUNK_PAGE_BYTES, get_u64(slot + 56) % 4096));
	put_u32(slot + 4092, crc32c(0, slot, 4092));
}

static void check_head(const struct chunk_head *h)
{
	assert(h->seq > 0);
	assert(h->len <= h->capacity && h->capacity <= STORE_CHUNK_MAX);
	assert(h->prev_len <= h->capacity);
	assert(chunk_units(h) <= CHUNK_UNITS_MAX);
	assert(h->unit_log2 >= CHUNK_UNIT_LOG2_MIN && h->unit_log2 <= CHUNK_UNIT_LOG2_MAX);
	uint8_t *bytes = malloc(CHUNK_SLOT_BYTES);
	struct chunk_head *again = malloc(sizeof(*again));
	assert(bytes != NULL && again != NULL);
	chunk_slot_encode(h, bytes);
	assert(chunk_slot_decode(bytes, again) == 0);
	assert(again->seq == h->seq && again->len == h->len && again->crc == h->crc);
	assert(chunk_id_equal(again->id, h->id) && again->sealed == h->sealed);
	assert(memcmp(again->unit_crc, h->unit_crc, chunk_units(h) * 4) == 0);
	assert(memcmp(again->tail, h->tail, h->len % CHUNK_PAGE_BYTES) == 0);
	assert(memcmp(again->label, h->label, STORE_LABEL_BYTES) == 0);
	/* The other readers must not read beyond the sizes in the head either. */
	struct unit_shifts shifts;
	unit_shifts_init(&shifts);
	(void)units_agree(again, &shifts);
	free(again);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	unsigned how = data[0];
	size_t len = size - 1;
	uint8_t *bytes = malloc(len > 0 ? len : 1);
	struct chunk_head *heads = calloc(2, sizeof(*heads));
	struct chunk_slots slots;
	assert(bytes != NULL && heads != NULL);
	memcpy(bytes, data + 1, len);
	struct chunk_id id = {0};
	uint64_t disk = 0;
	if (len >= CHUNK_SLOTS_BYTES) {
		if ((how & 1) != 0)
			mend(bytes);
		if ((how & 2) != 0)
			mend(bytes + CHUNK_SLOT_BYTES);
		if ((how & 4) != 0)
			memcpy(bytes + CHUNK_SLOT_BYTES, bytes, CHUNK_SLOT_BYTES);
		id.index = (uint32_t)get_u64(bytes + 20);
		id.block = get_u64(bytes + 24);
		disk = get_u64(bytes + 32);
	}
	int rc = chunk_slots_decode(bytes, len, id, disk, heads, &slots);
	assert(rc == 0 || rc == -EBADMSG || rc == -EOPNOTSUPP);
	if (rc == 0) {
		check_head(slots.newest);
		assert(chunk_id_equal(slots.newest->id, id) && slots.newest->disk == disk);
		if (slots.has_older) {
			check_head(slots.older);
			assert(!slots.settled && slots.older->seq + 1 == slots.newest->seq);
		}
	}
	free(heads);
	free(bytes);
	return 0;
}
