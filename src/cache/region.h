// SPDX-License-Identifier: Apache-2.0
/*
 * The bytes of a flash device of a cache: pure functions.
 *
 *   0                          superblock, 4096 bytes, written once
 *   4096 + i * (S * n + F)     region i: n slots of S bytes, then a footer of F bytes
 *
 * S is the size of a segment, n the number of segments of a region. Slots are written once, in order, until the region is
 * freed as a whole. The footer is written when the region is full, or sealed before that; it is wiped before the region is
 * written anew. All numbers are little-endian; CRC is CRC-32C.
 *
 * Superblock: TRNCACHE, version u32 = 1, S u32, n u32, regions u32, owner 2 x u64, volume u64, zeros, at 4092 the CRC of
 * the rest. The owner is the cluster; the volume is a random number that makes a footer of an earlier format a stranger.
 *
 * Footer: 64 bytes of head, and 16 for each segment.
 *
 * | at | bytes | |
 * |---|---|---|
 * | 0 | 8 | TRNFOOTR |
 * | 8 | 4 | version, 1 |
 * | 12 | 4 | number of the region |
 * | 16 | 8 | volume |
 * | 24 | 8 | seal: grows with each footer that is written to the device |
 * | 32 | 8 | id of the bucket |
 * | 40 | 4 | number of segments, 1 to n |
 * | 44 | 16 | zero |
 * | 60 | 4 | CRC of the head before and of all segments behind |
 * | 64 | 16 each | key u64, position u32, sum u32; all zero: the slot holds nothing |
 *
 * The sum of a segment is the CRC of its name and of its S bytes (a shorter segment is filled with zeros). It is compared
 * whenever the segment is read, so that the index needs to believe neither that the bytes were written before the footer
 * nor that the bytes are those of the segment that a key stands for. A segment is named by (block, part, version, number);
 * the key is a hash of that (cache_key) and may collide.
 */
#ifndef CACHE_REGION_H
#define CACHE_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "cache/policy.h"

#define CACHE_PAGE_BYTES 4096u
#define CACHE_REGION_SEGMENTS_MAX 4096u
#define CACHE_REGION_BYTES_MAX (64ULL << 20)

/* What a device of a cache looks like. */
struct cache_volume {
	uint32_t segment_bytes; /* a multiple of CACHE_PAGE_BYTES */
	uint32_t region_segments;
	uint32_t regions;
	uint64_t owner[2];
	uint64_t volume;
};

struct cache_footer {
	uint32_t region;
	uint64_t seal;
	uint64_t bucket_id;
	uint32_t segments;
};

/* The name of a segment's block; version: for owners whose blocks are replaced. */
struct cache_name {
	uint64_t block, part, version;
};

/* Returns the bytes of a footer: 16 for each segment and 64, in pages of 4 KiB. */
uint64_t cache_footer_bytes(uint32_t region_segments);
uint64_t cache_region_bytes(const struct cache_volume *v);
uint64_t cache_region_at(const struct cache_volume *v, uint32_t region);
/* Returns the bytes of a device with all regions. */
uint64_t cache_volume_bytes(const struct cache_volume *v);
/* Returns the offset of place `number` of the core on the device. */
uint64_t cache_slot_at(const struct cache_volume *v, uint32_t number);

/* out has CACHE_PAGE_BYTES. */
void cache_super_encode(const struct cache_volume *v, uint8_t *out);
/* -ENOENT: no superblock, all zeros; -EBADMSG: damaged or impossible; -EOPNOTSUPP: another version. */
int cache_super_decode(const uint8_t *in, size_t len, struct cache_volume *out);

/* Writes a footer of f->segments entries. out has cache_footer_bytes. */
void cache_footer_encode(const struct cache_volume *v, const struct cache_footer *f,
			 const struct cache_entry *entries, uint8_t *out);
/* Reads the footer of a region; entries has region_segments. Their bucket and mark are 0. -ENOENT: there is none;
 * -EBADMSG: damaged, or of another region or volume. */
int cache_footer_decode(const struct cache_volume *v, uint32_t region, const uint8_t *in,
			size_t len, struct cache_footer *out, struct cache_entry *entries);

/* Returns struct cache_request.block of a name. */
uint64_t cache_name_hash(const struct cache_name *name);
/* Returns the CRC of the name of a segment, with which the CRC of its bytes continues. */
uint32_t cache_name_crc(const struct cache_name *name, uint32_t segment);

#endif
