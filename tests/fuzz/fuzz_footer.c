// SPDX-License-Identifier: Apache-2.0
/*
 * The superblock and the region footers of a cache's flash from arbitrary bytes: accepted ones keep the bounds of
 * region.h and print back the same, a refusal is one of the documented errors.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "base/le.h"
#include "cache/region.h"
#include "fuzz.h"

#define SEGMENTS 64u
#define REGION 5u

static const struct cache_volume volume = {
	.segment_bytes = 65536, .region_segments = SEGMENTS, .regions = 9, .volume = 77};

static void check_super(const uint8_t *data, size_t size)
{
	uint8_t bytes[CACHE_PAGE_BYTES];
	struct cache_volume v, again;
	int rc = cache_super_decode(data, size, &v);
	assert(rc == 0 || rc == -ENOENT || rc == -EBADMSG || rc == -EOPNOTSUPP);
	if (rc != 0)
		return;
	assert(v.regions > 0 && v.region_segments > 0 && v.segment_bytes % CACHE_PAGE_BYTES == 0);
	assert(cache_volume_bytes(&v) > cache_slot_at(&v, v.regions * v.region_segments - 1));
	cache_super_encode(&v, bytes);
	assert(memcmp(bytes, data, sizeof(bytes)) == 0);
	assert(cache_super_decode(bytes, sizeof(bytes), &again) == 0);
	assert(again.volume == v.volume);
}

static void check_footer(const uint8_t *data, size_t size)
{
	uint8_t bytes[CACHE_PAGE_BYTES];
	struct cache_entry entries[SEGMENTS];
	struct cache_footer f;
	int rc = cache_footer_decode(&volume, REGION, data, size, &f, entries);
	assert(rc == 0 || rc == -ENOENT || rc == -EBADMSG);
	if (rc != 0)
		return;
	assert(f.region == REGION && f.segments > 0 && f.segments <= SEGMENTS);
	for (uint32_t i = 0; i < f.segments; i++)
		assert(entries[i].used <= 1 && entries[i].bucket == 0 && entries[i].mark == 0);
	cache_footer_encode(&volume, &f, entries, bytes);
	assert(memcmp(bytes, data, 64 + 16 * (size_t)f.segments) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t fixed[CACHE_PAGE_BYTES] = {0};
	check_super(data, size);
	check_footer(data, size);
	/* Set correct checksums, so that the fuzzer reaches the fields. */
	memcpy(fixed, data, size < 2048 ? size : 2048);
	put_u32(fixed + CACHE_PAGE_BYTES - 4, crc32c(0, fixed, CACHE_PAGE_BYTES - 4));
	check_super(fixed, sizeof(fixed));
	put_u32(fixed + CACHE_PAGE_BYTES - 4, 0);
	uint32_t n = get_u32(fixed + 40) <= SEGMENTS ? get_u32(fixed + 40) : 0;
	put_u32(fixed + 60, crc32c(crc32c(0, fixed, 60), fixed + 64, (size_t)n * 16));
	check_footer(fixed, sizeof(fixed));
	return 0;
}
