// SPDX-License-Identifier: Apache-2.0
/*
 * The index of a shard: what each sample of one file of samples is. A stored format, version 1; all numbers are
 * little-endian.
 *
 *     bytes 0 .. 63          header
 *     64 ..                  page table: for each page its offset (u64), length (u32) and CRC-32C (u32)
 *     ..                     pages of up to INDEX_PAGE samples, one after another
 *
 * Header: magic (8 bytes), version (u32), samples of a page (u32), samples (u64), bytes of the file of samples (u64),
 * plan (u64, see build.h), number of the shard (u32), pages (u32), 12 bytes of zeros, CRC-32C of the 60 bytes before and
 * of the page table (u32).
 *
 * A page: for each sample a record of INDEX_RECORD bytes, then the tails. Record: offset (u64) and size (u64) in the file
 * of samples, CRC-32C of these bytes (u32), label (i32, -1: none), width (u32), height (u32), place of the tail
 * among the tails of the page (u32), bytes of the key (u16), number of parts (u8), flags (u8). Tail: for each part its name's number in the
 * manifest (u8) and its size (u64); then SHA-256 if flag INDEX_SHA256 is set (32 bytes); then the key. The parts follow
 * one another in the file of samples without gaps.
 *
 * Everything that is read is checked: no offset, count or size is used before it is known to lie inside its bounds.
 */
#ifndef DATASET_FORMAT_H
#define DATASET_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define INDEX_PAGE 1024u
#define INDEX_HEADER 64u
#define INDEX_TABLE_ENTRY 16u
#define INDEX_RECORD 40u
#define INDEX_VERSION 1u
#define SHARD_SAMPLES_MAX (1u << 20)
#define PAGES_MAX (SHARD_SAMPLES_MAX / INDEX_PAGE)
#define PARTS_MAX 255u /* of a sample, and names of parts of a data set */
#define KEY_MAX 4096u  /* bytes of a key */
#define PAGE_BYTES_MAX (16u << 20)
#define INDEX_BYTES_MAX (512u << 20)
#define SAMPLE_BYTES_MAX (1ULL << 46)
#define SHARD_BYTES_MAX (1ULL << 50)
#define SHA256_BYTES 32u

enum { INDEX_SHA256 = 1 };

struct index_header {
	uint64_t samples, data_bytes, plan;
	uint32_t shard, pages;
};

struct index_place {
	uint64_t offset;
	uint32_t len, crc;
};

/* What all readers need of a sample. */
struct index_entry {
	uint64_t offset, size;
	uint32_t crc;
	int32_t label;
	uint32_t width, height;
};

struct index_part {
	uint8_t name;
	uint64_t size;
};

/* The rest of a sample; points into its page. */
struct index_tail {
	const char *key;
	uint32_t key_len, parts;
	const uint8_t *sha256; /* NULL: none */
	const uint8_t *part_bytes;
};

/* --- writing ------------------------------------------------------------------------------------ */

/* A sample as it is added to an index. */
struct index_sample {
	struct index_entry entry;
	const char *key;
	uint32_t key_len, parts;
	const struct index_part *part; /* sizes add up to entry.size */
	const uint8_t *sha256;         /* NULL: none */
};

struct index_writer {
	uint32_t samples, in_page, pages;
	uint64_t data_end; /* end of the last sample */
	struct strbuf records, tails, done;
	struct index_place place[PAGES_MAX];
};

void index_writer_init(struct index_writer *w);
void index_writer_fini(struct index_writer *w);
/* Adds a sample behind all others. -ENOMEM, -EMSGSIZE: the page would be too large; -ENOSPC: the shard is full. */
int index_writer_add(struct index_writer *w, const struct index_sample *s);
/* Ends the index and appends it to *out. Errors: those of strbuf. */
int index_writer_end(struct index_writer *w, uint64_t data_bytes, uint64_t plan, uint32_t shard,
		     struct strbuf *out);

/* --- reading ------------------------------------------------------------------------------------ */

/* Parses the header and the page table of an index of index_bytes, of which the first `len` are at raw; writes the
 * table to places, which has room for PAGES_MAX. -EPROTONOSUPPORT: a newer version; -EBADMSG: damaged or no index;
 * -EAGAIN: more than len bytes are needed, index_head_bytes tells how many. */
int index_head_parse(const uint8_t *raw, size_t len, uint64_t index_bytes, struct index_header *out,
		     struct index_place *places);
static inline size_t index_head_bytes(uint64_t samples)
{
	return INDEX_HEADER + INDEX_TABLE_ENTRY * (size_t)((samples + INDEX_PAGE - 1) / INDEX_PAGE);
}

/* Returns the number of samples in a page. */
uint32_t index_page_samples(const struct index_header *h, uint32_t page);
/* Checks a page as it was read: its CRC, and every record and tail. -EBADMSG. */
int index_page_check(const struct index_header *h, uint32_t page, const struct index_place *place,
		     const uint8_t *raw);
/* Return sample i of a page that was checked and has so many samples. */
void index_page_entry(const uint8_t *raw, uint32_t i, struct index_entry *out);
void index_page_tail(const uint8_t *raw, uint32_t samples, uint32_t i, struct index_tail *out);
struct index_part index_tail_part(const struct index_tail *t, uint32_t part);

#endif
