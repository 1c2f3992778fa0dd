// SPDX-License-Identifier: Apache-2.0
#include "cache/region.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "base/hash.h"
#include "base/le.h"

#define VERSION 1u
#define HEAD_BYTES 64u
#define ENTRY_BYTES 16u
#define SUPER_CRC_AT (CACHE_PAGE_BYTES - 4)
#define HEAD_END 44u /* of its fields */
#define HEAD_CRC_AT 60u

static const char super_magic[8] = "TRNCACHE";
static const char footer_magic[8] = "TRNFOOTR";

uint64_t cache_footer_bytes(uint32_t region_segments)
{
	uint64_t bytes = HEAD_BYTES + (uint64_t)region_segments * ENTRY_BYTES;
	return (bytes + CACHE_PAGE_BYTES - 1) / CACHE_PAGE_BYTES * CACHE_PAGE_BYTES;
}

uint64_t cache_region_bytes(const struct cache_volume *v)
{
	return (uint64_t)v->segment_bytes * v->region_segments +
	       cache_footer_bytes(v->region_segments);
}

uint64_t cache_region_at(const struct cache_volume *v, uint32_t region)
{
	return CACHE_PAGE_BYTES + region * cache_region_bytes(v);
}

uint64_t cache_volume_bytes(const struct cache_volume *v)
{
	return cache_region_at(v, v->regions);
}

uint64_t cache_slot_at(const struct cache_volume *v, uint32_t number)
{
	assert(number / v->region_segments < v->regions);
	return cache_region_at(v, number / v->region_segments) +
	       (uint64_t)(number % v->region_segments) * v->segment_bytes;
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

/* ---- superblock ---- */

void cache_super_encode(const struct cache_volume *v, uint8_t *out)
{
	memset(out, 0, CACHE_PAGE_BYTES);
	memcpy(out, super_magic, sizeof(super_magic));
	put_u32(out + 8, VERSION);
	put_u32(out + 12, v->segment_bytes);
	put_u32(out + 16, v->region_segments);
	put_u32(out + 20, v->regions);
	put_u64(out + 24, v->owner[0]);
	put_u64(out + 32, v->owner[1]);
	put_u64(out + 40, v->volume);
	put_u32(out + SUPER_CRC_AT, crc32c(0, out, SUPER_CRC_AT));
}

static bool volume_is_possible(const struct cache_volume *v)
{
	return v->segment_bytes > 0 && v->segment_bytes % CACHE_PAGE_BYTES == 0 &&
	       v->region_segments > 0 && v->region_segments <= CACHE_REGION_SEGMENTS_MAX &&
	       (uint64_t)v->segment_bytes * v->region_segments <= CACHE_REGION_BYTES_MAX &&
	       v->regions > 0 && (uint64_t)v->regions * v->region_segments < UINT32_MAX / 2;
}

int cache_super_decode(const uint8_t *in, size_t len, struct cache_volume *out)
{
	if (len < CACHE_PAGE_BYTES)
		return -EBADMSG;
	if (is_zero(in, CACHE_PAGE_BYTES))
		return -ENOENT;
	if (memcmp(in, super_magic, sizeof(super_magic)) != 0 ||
	    get_u32(in + SUPER_CRC_AT) != crc32c(0, in, SUPER_CRC_AT))
		return -EBADMSG;
	if (get_u32(in + 8) != VERSION)
		return -EOPNOTSUPP;
	*out = (struct cache_volume){
		.segment_bytes = get_u32(in + 12),
		.region_segments = get_u32(in + 16),
		.regions = get_u32(in + 20),
		.owner = {get_u64(in + 24), get_u64(in + 32)},
		.volume = get_u64(in + 40),
	};
	if (!is_zero(in + 48, SUPER_CRC_AT - 48) || !volume_is_possible(out))
		return -EBADMSG;
	return 0;
}

/* ---- footers ---- */

static uint32_t footer_crc(const uint8_t *in, uint32_t segments)
{
	uint32_t crc = crc32c(0, in, HEAD_CRC_AT);
	return crc32c(crc, in + HEAD_BYTES, (size_t)segments * ENTRY_BYTES);
}

void cache_footer_encode(const struct cache_volume *v, const struct cache_footer *f,
			 const struct cache_entry *entries, uint8_t *out)
{
	assert(f->segments > 0 && f->segments <= v->region_segments && f->region < v->regions);
	memset(out, 0, cache_footer_bytes(v->region_segments));
	memcpy(out, footer_magic, sizeof(footer_magic));
	put_u32(out + 8, VERSION);
	put_u32(out + 12, f->region);
	put_u64(out + 16, v->volume);
	put_u64(out + 24, f->seal);
	put_u64(out + 32, f->bucket_id);
	put_u32(out + 40, f->segments);
	for (uint32_t i = 0; i < f->segments; i++) {
		uint8_t *at = out + HEAD_BYTES + (size_t)i * ENTRY_BYTES;
		if (entries[i].used == 0)
			continue;
		put_u64(at, entries[i].key);
		put_u32(at + 8, entries[i].position);
		put_u32(at + 12, entries[i].sum);
	}
	put_u32(out + HEAD_CRC_AT, footer_crc(out, f->segments));
}

static bool head_is_ours(const struct cache_volume *v, uint32_t region, const uint8_t *in)
{
	uint32_t segments = get_u32(in + 40);
	return memcmp(in, footer_magic, sizeof(footer_magic)) == 0 && get_u32(in + 8) == VERSION &&
	       get_u32(in + 12) == region && get_u64(in + 16) == v->volume && segments > 0 &&
	       segments <= v->region_segments && is_zero(in + HEAD_END, HEAD_CRC_AT - HEAD_END);
}

int cache_footer_decode(const struct cache_volume *v, uint32_t region, const uint8_t *in,
			size_t len, struct cache_footer *out, struct cache_entry *entries)
{
	if (len < cache_footer_bytes(v->region_segments))
		return -EBADMSG;
	if (is_zero(in, HEAD_BYTES))
		return -ENOENT;
	if (!head_is_ours(v, region, in) ||
	    get_u32(in + HEAD_CRC_AT) != footer_crc(in, get_u32(in + 40)))
		return -EBADMSG;
	*out = (struct cache_footer){.region = region,
				     .seal = get_u64(in + 24),
				     .bucket_id = get_u64(in + 32),
				     .segments = get_u32(in + 40)};
	for (uint32_t i = 0; i < out->segments; i++) {
		const uint8_t *at = in + HEAD_BYTES + (size_t)i * ENTRY_BYTES;
		entries[i] = (struct cache_entry){.key = get_u64(at),
						  .position = get_u32(at + 8),
						  .sum = get_u32(at + 12),
						  .used = !is_zero(at, ENTRY_BYTES)};
	}
	return 0;
}

/* ---- names ---- */

uint64_t cache_name_hash(const struct cache_name *name)
{
	return hash64_u64s(hash64_u64s(name->block, name->part), name->version);
}

uint32_t cache_name_crc(const struct cache_name *name, uint32_t segment)
{
	uint8_t bytes[28];
	put_u64(bytes, name->block);
	put_u64(bytes + 8, name->part);
	put_u64(bytes + 16, name->version);
	put_u32(bytes + 24, segment);
	return crc32c(0, bytes, sizeof(bytes));
}
