// SPDX-License-Identifier: Apache-2.0
/*
 * The format of chunk files and the reasons for it.
 *
 * Terms. A page is 4 KiB. A unit is the range that one checksum covers: a power of two from 16 KiB up, the
 * smallest for which the checksums of a full chunk fit in one page with the rest of the head (a chunk of 8
 * MiB has units of 16 KiB, one of 64 MiB units of 128 KiB). Smaller units make small reads cheaper. The head
 * stays one page, because every append writes it and a device writes at least a page anyway. A state is the
 * contents of the chunk after a put, an append or a seal; states are numbered from 1 (seq). A slot holds one
 * state: the head, a page with a checksum over itself, and the tail, a page for the last bytes of the chunk
 * that do not fill a page yet.
 *
 *      0        4096      8192     12288     16384
 *      | head 0 | tail 0  | head 1 | tail 1  | page 0 of the data | page 1 | ...
 *
 * Example: a chunk that was put empty (state 1), then three appends of 10,000, 2,000 and 500 bytes.
 *
 *      state 2   len 10000   pages 0-1 written, tail: bytes 8192..9999     head in slot 0
 *      state 3   len 12000   page 2 would end at 12288: only the tail, 8192..11999, in slot 1
 *      state 4   len 12500   page 2 written, tail: bytes 12288..12499      slot 0 again
 *
 * An append writes its full pages, then the slot that the current state does not use, then calls fdatasync
 * once. State n is in slot n % 2.
 *
 * Invariants.
 *  1. Bytes of a durable state are never overwritten: a page is written once, when it is full (until then
 *     its bytes are in the tail), and state n + 1 goes to the other slot. So a torn write cannot harm what
 *     was acknowledged, whatever the sector size of the device.
 *  2. State n + 1 is written only after the fdatasync of state n succeeded.
 *  3. A chunk is settled when both slots hold the same state n. A put writes both slots
 *     equal. Settling copies state n to the other slot, only after the fdatasync of n. So everything in a
 *     settled chunk was durable once, and bytes that do not match their checksum are damage, not a torn
 *     write.
 *  4. In a chunk that is not settled, a crash may have interrupted the change to the newest state. The bytes
 *     that it added, [prev_len, len), are verified before the chunk is used. If they match, the change is
 *     made durable; if not, the chunk returns to the older state. In both cases it ends settled. prev_len
 *     is in the head so that this works with one intact slot, too.
 *  5. A file gets its final name (by rename) after its fdatasync: a chunk with a name is complete.
 *
 * If both slots are intact and differ, the older state is the previous one (invariant 2). If one slot is
 * bad, a crash tore the write of the next state or of the settling, or the medium failed: the intact slot
 * is used. In this way damage can destroy only the newest state of an open chunk that was appended to just
 * before a crash. Sealed chunks are always settled and can lose one slot.
 *
 * These must never change for version 1: the layouts under "On disk" in README.md, the numbering of slots,
 * chunk_fan(), the form of names. A reader refuses versions that it does not know.
 */
#include "store/format.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/crc.h"
#include "base/hash.h"
#include "base/le.h"

/* Pages with a header start with magic and version and end with the CRC of all bytes before it. */
#define PAGE_CRC_AT (CHUNK_PAGE_BYTES - 4)

static void page_seal(uint8_t *page)
{
	put_u32(page + PAGE_CRC_AT, crc32c(0, page, PAGE_CRC_AT));
}

static int page_check(const uint8_t *page, const uint8_t magic[8])
{
	if (memcmp(page, magic, 8) != 0 ||
	    get_u32(page + PAGE_CRC_AT) != crc32c(0, page, PAGE_CRC_AT))
		return -EBADMSG;
	return get_u32(page + 8) == FORMAT_VERSION ? 0 : -EOPNOTSUPP;
}

static bool all_zero(const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

/* --- superblock ------------------------------------------------------------------------------- */

static const uint8_t super_magic[8] = {'T', 'R', 'N', 'S', 'U', 'P', 'E', 'R'};

enum super_at {
	SUPER_FAN_BITS = 12,
	SUPER_CLUSTER = 16,
	SUPER_NODE = 32,
	SUPER_DISK = 40,
	SUPER_CREATED = 48,
	SUPER_END = 56,
};

void super_encode(const struct super *sb, uint8_t out[SUPER_BYTES])
{
	assert(sb->fan_bits <= SUPER_FAN_BITS_MAX);
	memset(out, 0, SUPER_BYTES);
	memcpy(out, super_magic, 8);
	put_u32(out + 8, FORMAT_VERSION);
	put_u32(out + SUPER_FAN_BITS, sb->fan_bits);
	put_u64(out + SUPER_CLUSTER, sb->cluster[0]);
	put_u64(out + SUPER_CLUSTER + 8, sb->cluster[1]);
	put_u64(out + SUPER_NODE, sb->node);
	put_u64(out + SUPER_DISK, sb->disk);
	put_u64(out + SUPER_CREATED, sb->created_wall_ns);
	page_seal(out);
	memcpy(out + SUPER_COPY_BYTES, out, SUPER_COPY_BYTES);
}

static int super_copy_decode(const uint8_t *page, struct super *sb)
{
	int rc = page_check(page, super_magic);
	if (rc != 0)
		return rc;
	if (!all_zero(page + SUPER_END, PAGE_CRC_AT - SUPER_END))
		return -EBADMSG;
	*sb = (struct super){
		.fan_bits = get_u32(page + SUPER_FAN_BITS),
		.cluster = {get_u64(page + SUPER_CLUSTER), get_u64(page + SUPER_CLUSTER + 8)},
		.node = get_u64(page + SUPER_NODE),
		.disk = get_u64(page + SUPER_DISK),
		.created_wall_ns = get_u64(page + SUPER_CREATED),
	};
	return sb->fan_bits <= SUPER_FAN_BITS_MAX ? 0 : -EBADMSG;
}

int super_decode(const uint8_t *bytes, size_t len, struct super *sb, int *good)
{
	int result = -EBADMSG;
	struct super copy;

	*good = 0;
	for (size_t at = 0; at + SUPER_COPY_BYTES <= len && at < SUPER_BYTES;
	     at += SUPER_COPY_BYTES) {
		int rc = super_copy_decode(bytes + at, &copy);
		if (rc == 0 && (*good)++ == 0)
			*sb = copy;
		if (rc == -EOPNOTSUPP)
			result = rc;
	}
	return *good > 0 ? 0 : result;
}

/* --- slots of a chunk ------------------------------------------------------------------------- */

static const uint8_t chunk_magic[8] = {'T', 'R', 'N', 'C', 'H', 'U', 'N', 'K'};
#define CHUNK_SEALED 1U

enum head_at {
	HEAD_UNIT_LOG2 = 12,
	HEAD_FLAGS = 16,
	HEAD_INDEX = 20,
	HEAD_BLOCK = 24,
	HEAD_DISK = 32,
	HEAD_SEQ = 40,
	HEAD_EPOCH = 48,
	HEAD_LEN = 56,
	HEAD_PREV_LEN = 64,
	HEAD_CAPACITY = 72,
	HEAD_CRC = 80,
	HEAD_TAIL_CRC = 84,
	HEAD_LABEL = 88,
	HEAD_ZERO = 120,
	HEAD_UNITS = 128, /* CHUNK_UNITS_MAX checksums of units, followed by the CRC of the page */
};

_Static_assert(HEAD_UNITS + 4 * CHUNK_UNITS_MAX == PAGE_CRC_AT, "the checksums fill the head");
_Static_assert(HEAD_LABEL + STORE_LABEL_BYTES == HEAD_ZERO, "the label has its place");
_Static_assert(((uint64_t)CHUNK_UNITS_MAX << CHUNK_UNIT_LOG2_MAX) >= STORE_CHUNK_MAX,
	       "the largest chunk has units for all of its bytes");

uint32_t chunk_unit_log2_for(uint64_t capacity)
{
	uint32_t log2 = CHUNK_UNIT_LOG2_MIN;

	assert(capacity <= STORE_CHUNK_MAX);
	while (capacity > (uint64_t)CHUNK_UNITS_MAX << log2)
		log2++;
	return log2;
}

void chunk_head_stat(const struct chunk_head *h, struct chunk_stat *out)
{
	*out = (struct chunk_stat){
		.len = h->len,
		.capacity = h->capacity,
		.epoch = h->epoch,
		.crc = h->crc,
		.unit_bytes = (uint32_t)chunk_unit_bytes(h),
		.sealed = h->sealed,
	};
	memcpy(out->label, h->label, STORE_LABEL_BYTES);
}

void chunk_slot_encode(const struct chunk_head *h, uint8_t out[CHUNK_SLOT_BYTES])
{
	size_t tail_len = h->len % CHUNK_PAGE_BYTES;
	uint64_t units = chunk_units(h);

	assert(h->seq > 0 && h->len <= h->capacity);
	assert(units <= CHUNK_UNITS_MAX);
	memset(out, 0, CHUNK_SLOT_BYTES);
	memcpy(out + CHUNK_PAGE_BYTES, h->tail, tail_len);
	memcpy(out, chunk_magic, 8);
	put_u32(out + 8, FORMAT_VERSION);
	put_u32(out + HEAD_UNIT_LOG2, h->unit_log2);
	put_u32(out + HEAD_FLAGS, h->sealed ? CHUNK_SEALED : 0);
	put_u32(out + HEAD_INDEX, h->id.index);
	put_u64(out + HEAD_BLOCK, h->id.block);
	put_u64(out + HEAD_DISK, h->disk);
	put_u64(out + HEAD_SEQ, h->seq);
	put_u64(out + HEAD_EPOCH, h->epoch);
	put_u64(out + HEAD_LEN, h->len);
	put_u64(out + HEAD_PREV_LEN, h->prev_len);
	put_u64(out + HEAD_CAPACITY, h->capacity);
	put_u32(out + HEAD_CRC, h->crc);
	put_u32(out + HEAD_TAIL_CRC, crc32c(0, h->tail, tail_len));
	memcpy(out + HEAD_LABEL, h->label, STORE_LABEL_BYTES);
	for (uint64_t u = 0; u < units; u++)
		put_u32(out + HEAD_UNITS + 4 * u, h->unit_crc[u]);
	page_seal(out);
}

static bool head_is_possible(const uint8_t *page, const struct chunk_head *h)
{
	if (h->unit_log2 < CHUNK_UNIT_LOG2_MIN || h->unit_log2 > CHUNK_UNIT_LOG2_MAX ||
	    (get_u32(page + HEAD_FLAGS) & ~CHUNK_SEALED) != 0 || h->seq == 0)
		return false;
	if (h->capacity > (uint64_t)CHUNK_UNITS_MAX << h->unit_log2 || h->len > h->capacity ||
	    h->capacity > STORE_CHUNK_MAX || h->prev_len > h->capacity)
		return false;
	uint64_t units_end = HEAD_UNITS + 4 * chunk_units(h);
	return all_zero(page + HEAD_ZERO, HEAD_UNITS - HEAD_ZERO) &&
	       all_zero(page + units_end, PAGE_CRC_AT - units_end);
}

int chunk_slot_decode(const uint8_t in[CHUNK_SLOT_BYTES], struct chunk_head *h)
{
	int rc = page_check(in, chunk_magic);
	if (rc != 0)
		return rc;
	h->unit_log2 = get_u32(in + HEAD_UNIT_LOG2);
	h->sealed = (get_u32(in + HEAD_FLAGS) & CHUNK_SEALED) != 0;
	h->id.index = get_u32(in + HEAD_INDEX);
	h->id.block = get_u64(in + HEAD_BLOCK);
	h->disk = get_u64(in + HEAD_DISK);
	h->seq = get_u64(in + HEAD_SEQ);
	h->epoch = get_u64(in + HEAD_EPOCH);
	h->len = get_u64(in + HEAD_LEN);
	h->prev_len = get_u64(in + HEAD_PREV_LEN);
	h->capacity = get_u64(in + HEAD_CAPACITY);
	h->crc = get_u32(in + HEAD_CRC);
	if (!head_is_possible(in, h))
		return -EBADMSG;
	memcpy(h->label, in + HEAD_LABEL, STORE_LABEL_BYTES);
	uint64_t units = chunk_units(h);
	for (uint64_t u = 0; u < units; u++)
		h->unit_crc[u] = get_u32(in + HEAD_UNITS + 4 * u);
	size_t tail_len = h->len % CHUNK_PAGE_BYTES;
	memcpy(h->tail, in + CHUNK_PAGE_BYTES, tail_len);
	return crc32c(0, h->tail, tail_len) == get_u32(in + HEAD_TAIL_CRC) ? 0 : -EBADMSG;
}

int chunk_slots_decode(const uint8_t *bytes, size_t len, struct chunk_id id, uint64_t disk,
		       struct chunk_head heads[2], struct chunk_slots *out)
{
	bool good[2] = {false, false};

	*out = (struct chunk_slots){0};
	if (len < CHUNK_SLOTS_BYTES)
		return -EBADMSG;
	for (size_t i = 0; i < 2; i++) {
		int rc = chunk_slot_decode(bytes + i * CHUNK_SLOT_BYTES, &heads[i]);
		if (rc == -EOPNOTSUPP)
			return rc;
		good[i] = rc == 0 && heads[i].disk == disk && chunk_id_equal(heads[i].id, id);
	}
	if (!good[0] && !good[1])
		return -EBADMSG;
	if (!good[0] || !good[1]) {
		out->newest = &heads[good[0] ? 0 : 1];
		return 0;
	}
	if (heads[0].seq == heads[1].seq) {
		out->newest = &heads[0];
		/* Comparing the heads suffices, because a head contains the CRC of its tail. */
		out->settled = memcmp(bytes, bytes + CHUNK_SLOT_BYTES, CHUNK_PAGE_BYTES) == 0;
		return out->settled ? 0 : -EBADMSG;
	}
	int newest = heads[0].seq > heads[1].seq ? 0 : 1;
	out->newest = &heads[newest];
	out->older = &heads[1 - newest];
	out->has_older =
		out->newest->seq == out->older->seq + 1 && out->newest->prev_len == out->older->len;
	return 0;
}

/* --- names ------------------------------------------------------------------------------------ */

void chunk_name_print(struct chunk_id id, char out[CHUNK_NAME_BYTES])
{
	snprintf(out, CHUNK_NAME_BYTES, "%016llx.%08x", (unsigned long long)id.block, id.index);
}

/* Parses lower-case hex digits only, as chunk_name_print writes them. */
static int hex_parse(const char *text, int digits, uint64_t *out)
{
	uint64_t v = 0;
	for (int i = 0; i < digits; i++) {
		char c = text[i];
		if (c >= '0' && c <= '9')
			v = v << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (uint64_t)(c - 'a' + 10);
		else
			return -EINVAL;
	}
	*out = v;
	return 0;
}

int chunk_name_parse(const char *name, struct chunk_id *id)
{
	uint64_t index;

	if (strlen(name) != CHUNK_NAME_BYTES - 1 || name[16] != '.' ||
	    hex_parse(name, 16, &id->block) != 0 || hex_parse(name + 17, 8, &index) != 0)
		return -EINVAL;
	id->index = (uint32_t)index;
	return 0;
}

uint32_t chunk_fan(struct chunk_id id, uint32_t fan_bits)
{
	assert(fan_bits <= SUPER_FAN_BITS_MAX);
	return (uint32_t)(hash64_u64s(id.block, id.index) & ((UINT64_C(1) << fan_bits) - 1));
}
