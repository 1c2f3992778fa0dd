// SPDX-License-Identifier: Apache-2.0
/* Properties of the store interface, tested on every kind of store. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc.h"
#include "base/rng.h"
#include "rt/rt.h"
#include "store/units.h"
#include "store_fixture.h"

static const struct chunk_id A = {.block = 42, .index = 7};
static const struct chunk_id B = {.block = 42, .index = 8};

static void on_every_kind(void (*body)(struct store *s))
{
	for (int kind = 0; kind < FIXTURE_KINDS; kind++) {
		print_message("  on %s\n", fixture_name((enum fixture_kind)kind));
		fixture_run((enum fixture_kind)kind, body);
	}
}

#define ON_EVERY_KIND(name, body)      \
	static void name(void **state) \
	{                              \
		(void)state;           \
		on_every_kind(body);   \
	}

static void check_empty(struct store *s)
{
	struct store_cursor at = {0};
	struct chunk_id id;
	CHECK_EQ(store_list(s, &at, &id, 1), 0);
}

/* --- put and get ------------------------------------------------------------------------------ */

static const uint64_t lengths[] = {0,     1,     511,   4095,  4096,        4097,
				   16383, 16384, 16385, 65536, 1048576 + 3, 3145728};

static void put_all_lengths(struct store *s)
{
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		struct chunk_id id = {.block = i, .index = 1};
		struct chunk_stat st;
		struct store_range bad;
		CHECK_EQ(text_put(s, id, i, lengths[i], false, 0), 0);
		CHECK_EQ(store_stat(s, id, &st), 0);
		CHECK_EQ(st.len, lengths[i]);
		CHECK_EQ(st.crc, text_crc(i, 0, lengths[i]));
		CHECK_EQ(st.epoch, 1);
		CHECK(st.sealed);
		CHECK_EQ(text_get(s, id, i, 0, lengths[i], 0), 0);
		CHECK_EQ(text_get(s, id, i, 0, lengths[i], 1), 0);
		CHECK_EQ(store_scan(s, id, &bad, 1), 0);
	}
}
ON_EVERY_KIND(what_was_put_is_read_back, put_all_lengths)

static void read_ranges(struct store *s)
{
	const uint64_t len = 300000;
	struct rng rng;
	rng_init(&rng, 17);
	CHECK_EQ(text_put(s, A, 5, len, false, 0), 0);
	for (int i = 0; i < 300; i++) {
		uint64_t off = rng_below(&rng, len + 1);
		uint64_t n = rng_below(&rng, len - off + 1);
		/* Some offsets on page boundaries, some buffers aligned like the pages. */
		if (i % 3 == 0)
			off = off / 4096 * 4096;
		if (i % 5 == 0)
			n = min_u64(n, 5000);
		unsigned skew =
			i % 2 == 0 ? (unsigned)(off % 4096) : (unsigned)rng_below(&rng, 4096);
		CHECK_EQ(text_get(s, A, 5, off, n, skew), 0);
	}
	CHECK_EQ(text_get(s, A, 5, len, 0, 0), 0);
}
ON_EVERY_KIND(any_range_is_read_with_its_crc, read_ranges)

static void refuse_ranges(struct store *s)
{
	uint8_t buf[64];
	uint32_t crc;
	CHECK_EQ(text_put(s, A, 5, 1000, false, 0), 0);
	CHECK_EQ(store_get(s, A, 1000, buf, 1, &crc), -ERANGE);
	CHECK_EQ(store_get(s, A, 1001, buf, 0, &crc), -ERANGE);
	CHECK_EQ(store_get(s, A, 999, buf, 2, &crc), -ERANGE);
	CHECK_EQ(store_get(s, A, UINT64_MAX, buf, 1, &crc), -EOVERFLOW);
	CHECK_EQ(store_get(s, A, 1, buf, UINT64_MAX, &crc), -EOVERFLOW);
	CHECK_EQ(store_get(s, A, 0, buf, UINT64_MAX, &crc), -ERANGE);
	CHECK_EQ(store_get(s, B, 0, buf, 1, &crc), -ENOENT);
}
ON_EVERY_KIND(ranges_past_the_end_are_refused, refuse_ranges)

/* Returns the CRCs of the pieces of bytes in memory; the caller frees them. */
static uint32_t *crcs_of(const uint8_t *bytes, uint64_t len)
{
	uint32_t *crcs = calloc(crc_pieces(len) + 1, sizeof(*crcs));
	CHECK(crcs != NULL);
	crc_pieces_add(crcs, 0, bytes, len);
	return crcs;
}

/* Puts or appends the bytes of text A with CRCs of their pieces. */
static int put_with_crcs(struct store *s, bool append, uint64_t off, uint64_t len)
{
	uint8_t *bytes = fixture_alloc(len, 0);
	text_fill(1, off, bytes, len);
	AUTO_FREE uint32_t *crcs = crcs_of(bytes, len);
	struct iovec piece;
	struct store_put p = {.epoch = 1, .open = true, .capacity = 4 * MIB};
	p.data = store_data_of(&piece, bytes, len, text_crc(1, off, len));
	p.data.crcs = crcs;
	int rc = append ? store_append(s, A, 1, off, &p.data) : store_put(s, A, &p);
	fixture_free(bytes);
	return rc;
}

static void known_crcs(struct store *s)
{
	struct rng rng;
	rng_init(&rng, 29);
	for (int round = 0; round < 12; round++) {
		uint64_t len = lengths[(size_t)round % ARRAY_LEN(lengths)] % MIB;
		CHECK_EQ(put_with_crcs(s, false, 0, len), 0);
		for (int i = 0; i < 10; i++) {
			/* Some appends begin and end where CRCs do. */
			uint64_t n = rng_below(&rng, 200000);
			if (rng_below(&rng, 2) == 0)
				n += CRC_PIECE_BYTES - (len + n) % CRC_PIECE_BYTES;
			CHECK_EQ(put_with_crcs(s, true, len, n), 0);
			len += n;
		}
		struct chunk_stat st;
		CHECK_EQ(store_stat(s, A, &st), 0);
		CHECK_EQ(st.crc, text_crc(1, 0, len));
		CHECK_EQ(text_get(s, A, 1, 0, len, 0), 0);
		CHECK_EQ(store_seal(s, A, 1, len), 0);
		CHECK_EQ(text_get(s, A, 1, len / 3, len / 2, 0), 0);
		CHECK_EQ(store_delete(s, A), 0);
	}
}
ON_EVERY_KIND(crcs_that_came_with_a_payload_are_those_of_the_chunk, known_crcs)

static void changed_after_crcs(struct store *s)
{
	const uint64_t len = 5 * CRC_PIECE_BYTES + 77;
	uint8_t *bytes = fixture_alloc(len, 0), *back = fixture_alloc(len, 0);
	text_fill(1, 0, bytes, len);
	AUTO_FREE uint32_t *crcs = crcs_of(bytes, len);
	struct iovec piece;
	struct store_put p = {.epoch = 1};
	uint32_t crc;
	p.data = store_data_of(&piece, bytes, len, text_crc(1, 0, len));
	p.data.crcs = crcs;
	/* CRCs that do not add up to that of the payload are refused, or not used. */
	crcs[2] ^= 1;
	int rc = store_put(s, A, &p);
	CHECK(rc == -EBADMSG || (rc == 0 && text_get(s, A, 1, 0, len, 0) == 0));
	if (rc == 0)
		CHECK_EQ(store_delete(s, A), 0);
	crcs[2] ^= 1;
	/* Bytes that changed after the CRCs were taken are refused, or found when they are read. */
	bytes[3 * CRC_PIECE_BYTES] ^= 1;
	rc = store_put(s, A, &p);
	CHECK(rc == -EBADMSG || (rc == 0 && store_get(s, A, 0, back, len, &crc) == -EBADMSG));
	fixture_free(bytes);
	fixture_free(back);
}
ON_EVERY_KIND(bytes_that_change_after_their_crcs_were_taken_are_not_returned, changed_after_crcs)

static void put_in_pieces(struct store *s)
{
	struct rng rng;
	rng_init(&rng, 23);
	for (uint32_t round = 0; round < 30; round++) {
		struct iovec iov[70];
		struct chunk_id id = {.block = 9, .index = round};
		uint64_t off = 0;
		int n = 1 + (int)rng_below(&rng, ARRAY_LEN(iov));
		bool pages = round % 3 == 0;
		for (int i = 0; i < n; i++) {
			uint64_t len = pages ? 4096 * rng_below(&rng, 4) : rng_below(&rng, 9000);
			uint8_t *piece =
				fixture_alloc(len, pages ? 0 : (unsigned)rng_below(&rng, 4000));
			text_fill(round, off, piece, len);
			iov[i] = (struct iovec){.iov_base = piece, .iov_len = len};
			off += len;
		}
		struct store_put p = {
			.data = {.iov = iov, .n = n, .len = off, .crc = text_crc(round, 0, off)}};
		CHECK_EQ(store_put(s, id, &p), 0);
		for (int i = 0; i < n; i++)
			fixture_free(iov[i].iov_base);
		CHECK_EQ(text_get(s, id, round, 0, off, 0), 0);
	}
}
ON_EVERY_KIND(a_payload_may_come_in_pieces, put_in_pieces)

static void refuse_puts(struct store *s)
{
	uint8_t bytes[100];
	struct iovec piece;
	text_fill(1, 0, bytes, sizeof(bytes));
	struct store_put good = {.data = store_data_of(&piece, bytes, 100, crc32c(0, bytes, 100))};
	struct store_put p = good;
	p.data.crc ^= 1;
	CHECK_EQ(store_put(s, A, &p), -EBADMSG);
	p = good;
	p.data.len = 99;
	CHECK_EQ(store_put(s, A, &p), -EINVAL);
	p.data.len = 101;
	CHECK_EQ(store_put(s, A, &p), -EINVAL);
	p.data.len = STORE_CHUNK_MAX + 1;
	CHECK_EQ(store_put(s, A, &p), -EFBIG);
	p.data.len = UINT64_MAX;
	CHECK_EQ(store_put(s, A, &p), -EFBIG);
	p = good;
	p.data.n = -1;
	CHECK_EQ(store_put(s, A, &p), -EINVAL);
	p = good;
	p.open = true;
	p.capacity = 99;
	CHECK_EQ(store_put(s, A, &p), -EFBIG);
	p.capacity = STORE_CHUNK_MAX + 1;
	CHECK_EQ(store_put(s, A, &p), -EFBIG);
	check_empty(s);
	CHECK_EQ(store_put(s, A, &good), 0);
	CHECK_EQ(text_put(s, A, 2, 50, false, 0), -EEXIST);
	CHECK_EQ(text_put(s, A, 2, 50, true, 100), -EEXIST);
	CHECK_EQ(text_get(s, A, 1, 0, 100, 0), 0);
	/* The same for an open chunk, whether the put is open or not. */
	struct chunk_id other = {.block = 77, .index = 1};
	CHECK_EQ(text_put(s, other, 3, 50, true, 100), 0);
	CHECK_EQ(text_put(s, other, 2, 60, false, 0), -EEXIST);
	CHECK_EQ(text_put(s, other, 2, 60, true, 100), -EEXIST);
	CHECK_EQ(text_append(s, other, 1, 3, 50, 50), 0);
	CHECK_EQ(text_get(s, other, 3, 0, 100, 0), 0);
}
ON_EVERY_KIND(a_put_that_cannot_be_meant_changes_nothing, refuse_puts)

static void keep_label(struct store *s)
{
	struct store_put p = {.open = true, .capacity = 100, .epoch = 9};
	struct chunk_stat st;
	text_fill(77, 0, p.label, sizeof(p.label));
	CHECK_EQ(store_put(s, A, &p), 0);
	CHECK_EQ(text_append(s, A, 10, 3, 0, 60), 0);
	CHECK_EQ(store_stat(s, A, &st), 0);
	CHECK(text_is(77, 0, st.label, sizeof(st.label)));
	CHECK_EQ(st.epoch, 10);
	CHECK_EQ(st.capacity, 100);
	CHECK(!st.sealed);
	CHECK_EQ(store_stat(s, B, &st), -ENOENT);
}
ON_EVERY_KIND(label_epoch_and_capacity_are_kept, keep_label)

/* --- append and seal -------------------------------------------------------------------------- */

static void append_much(struct store *s)
{
	struct rng rng;
	struct chunk_stat st;
	struct store_range bad;
	uint64_t len = 0;
	rng_init(&rng, 29);
	CHECK_EQ(text_put(s, A, 4, 0, true, 2 * MIB), 0);
	for (int i = 0; i < 120; i++) {
		uint64_t n = i % 4 == 0 ? 4096 * rng_below(&rng, 8) : rng_below(&rng, 20000);
		CHECK_EQ(text_append(s, A, 1, 4, len, n), 0);
		len += n;
		CHECK_EQ(store_stat(s, A, &st), 0);
		CHECK_EQ(st.len, len);
		uint64_t back = min_u64(len, 30000);
		CHECK_EQ(text_get(s, A, 4, len - back, back, 0), 0);
	}
	CHECK_EQ(text_get(s, A, 4, 0, len, 0), 0);
	CHECK_EQ(st.crc, text_crc(4, 0, len));
	CHECK_EQ(store_scan(s, A, &bad, 1), 0);
}
ON_EVERY_KIND(appends_add_up, append_much)

static void refuse_appends(struct store *s)
{
	uint8_t byte = 1;
	struct iovec piece;
	struct chunk_stat st;
	struct store_data wrong = store_data_of(&piece, &byte, 1, 12345);
	CHECK_EQ(text_append(s, A, 1, 0, 0, 10), -ENOENT);
	CHECK_EQ(text_put(s, A, 4, 500, true, 1000), 0);
	CHECK_EQ(text_append(s, A, 1, 4, 499, 10), -ERANGE);
	CHECK_EQ(text_append(s, A, 1, 4, 501, 10), -ERANGE);
	CHECK_EQ(text_append(s, A, 1, 4, 500, 501), -EFBIG);
	CHECK_EQ(text_append(s, A, 0, 4, 500, 10), -ESTALE);
	CHECK_EQ(store_append(s, A, 1, 500, &wrong), -EBADMSG);
	CHECK_EQ(store_append(s, A, 2, 500, &wrong), -EBADMSG);
	CHECK_EQ(store_append(s, A, 1, STORE_AT_END, &wrong), -EINVAL);
	wrong.len = UINT64_MAX;
	CHECK_EQ(store_append(s, A, 1, 500, &wrong), -EFBIG);
	CHECK_EQ(store_stat(s, A, &st), 0);
	CHECK_EQ(st.len, 500);
	CHECK_EQ(st.epoch, 1);
	CHECK_EQ(text_append(s, A, 1, 4, 500, 500), 0);
	CHECK_EQ(text_append(s, A, 1, 4, 1000, 1), -EFBIG);
	CHECK_EQ(text_get(s, A, 4, 0, 1000, 0), 0);
	CHECK_EQ(text_put(s, B, 4, 500, false, 0), 0);
	CHECK_EQ(text_append(s, B, 1, 4, 500, 1), -EPERM);
}
ON_EVERY_KIND(an_append_that_cannot_be_meant_changes_nothing, refuse_appends)

static void fence(struct store *s)
{
	struct chunk_stat st;
	CHECK_EQ(text_put(s, A, 4, 500, true, 10000), 0);
	CHECK_EQ(text_append(s, A, 1, 4, 500, 500), 0);
	CHECK_EQ(store_fence(s, A, 7), 0);
	CHECK_EQ(text_append(s, A, 6, 4, 1000, 10), -ESTALE);
	CHECK_EQ(store_seal(s, A, 6, 1000), -ESTALE);
	CHECK_EQ(store_fence(s, A, 6), -ESTALE);
	CHECK_EQ(store_fence(s, A, 7), 0);
	CHECK_EQ(store_stat(s, A, &st), 0);
	CHECK_EQ(st.epoch, 7);
	CHECK_EQ(st.len, 1000);
	CHECK_EQ(text_append(s, A, 7, 4, 1000, 10), 0);
	CHECK_EQ(text_append(s, A, 9, 4, 1010, 10), 0);
	CHECK_EQ(text_append(s, A, 8, 4, 1020, 10), -ESTALE);
	CHECK_EQ(text_get(s, A, 4, 0, 1020, 0), 0);
	CHECK_EQ(store_fence(s, B, 1), -ENOENT);
}
ON_EVERY_KIND(a_fenced_writer_is_refused, fence)

static void seal(struct store *s)
{
	struct chunk_stat st;
	CHECK_EQ(text_put(s, A, 4, 500, true, 10000), 0);
	CHECK_EQ(store_seal(s, A, 1, 501), -ERANGE);
	CHECK_EQ(store_seal(s, A, 2, 500), 0);
	CHECK_EQ(store_seal(s, A, 2, 500), 0);
	CHECK_EQ(store_seal(s, A, 3, 500), 0);
	CHECK_EQ(store_seal(s, A, 2, 499), -EPERM);
	CHECK_EQ(store_seal(s, A, 1, 500), -ESTALE);
	CHECK_EQ(text_append(s, A, 2, 4, 500, 1), -EPERM);
	CHECK_EQ(store_fence(s, A, 9), -EPERM);
	CHECK_EQ(store_stat(s, A, &st), 0);
	CHECK(st.sealed);
	CHECK_EQ(st.epoch, 2);
	CHECK_EQ(store_seal(s, B, 1, 0), -ENOENT);
}
ON_EVERY_KIND(sealed_stays_sealed, seal)

static void seal_shorter(struct store *s)
{
	const uint64_t len = 70001;
	const uint64_t cuts[] = {0,     1,     4095,  4096,  4097,  16383, 16384,
				 16385, 20480, 65535, 65536, 69999, 70000};
	for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
		struct chunk_id id = {.block = 5, .index = (uint32_t)i};
		struct chunk_stat st;
		struct store_range bad;
		uint8_t byte;
		uint32_t crc;
		CHECK_EQ(text_put(s, id, i, 100, true, len), 0);
		CHECK_EQ(text_append(s, id, 1, i, 100, len - 100), 0);
		CHECK_EQ(store_seal(s, id, 1, cuts[i]), 0);
		CHECK_EQ(store_stat(s, id, &st), 0);
		CHECK_EQ(st.len, cuts[i]);
		CHECK_EQ(st.crc, text_crc(i, 0, cuts[i]));
		CHECK_EQ(text_get(s, id, i, 0, cuts[i], 0), 0);
		CHECK_EQ(store_get(s, id, cuts[i], &byte, 1, &crc), -ERANGE);
		CHECK_EQ(store_scan(s, id, &bad, 1), 0);
	}
}
ON_EVERY_KIND(a_seal_cuts_what_was_not_agreed_on, seal_shorter)

/* --- delete and list -------------------------------------------------------------------------- */

static void delete_and_put_again(struct store *s)
{
	struct chunk_stat st;
	CHECK_EQ(store_delete(s, A), -ENOENT);
	CHECK_EQ(text_put(s, A, 1, 5000, false, 0), 0);
	CHECK_EQ(store_delete(s, A), 0);
	CHECK_EQ(store_delete(s, A), -ENOENT);
	CHECK_EQ(store_stat(s, A, &st), -ENOENT);
	check_empty(s);
	CHECK_EQ(text_put(s, A, 2, 300, false, 0), 0);
	CHECK_EQ(text_get(s, A, 2, 0, 300, 0), 0);
}
ON_EVERY_KIND(a_deleted_chunk_is_gone, delete_and_put_again)

static size_t list_all(struct store *s, size_t page, unsigned seen[64])
{
	struct store_cursor at = {0};
	struct chunk_id ids[64];
	size_t total = 0;
	int64_t n;
	memset(seen, 0, 64 * sizeof(*seen));
	while ((n = store_list(s, &at, ids, page)) > 0) {
		CHECK((size_t)n <= page);
		for (int64_t i = 0; i < n; i++) {
			CHECK(ids[i].block < 64 && ids[i].index == (uint32_t)ids[i].block * 3);
			seen[ids[i].block]++;
		}
		total += (size_t)n;
	}
	CHECK_EQ(n, 0);
	CHECK_EQ(store_list(s, &at, ids, page), 0);
	return total;
}

static void list_in_pages(struct store *s)
{
	unsigned seen[64];
	struct store_cursor start = {0};
	struct chunk_id id;
	for (uint32_t b = 0; b < 50; b++)
		CHECK_EQ(
			text_put(s, (struct chunk_id){.block = b, .index = 3 * b}, b, 10, false, 0),
			0);
	for (size_t page = 1; page <= 64; page = page * 2 + 1) {
		CHECK_EQ(list_all(s, page, seen), 50);
		for (int b = 0; b < 64; b++)
			CHECK_EQ(seen[b], b < 50 ? 1 : 0);
	}
	CHECK_EQ(store_list(s, &start, &id, 0), -EINVAL);
}
ON_EVERY_KIND(a_list_gives_each_chunk_once, list_in_pages)

static void list_while_changing(struct store *s)
{
	struct store_cursor at = {0};
	struct chunk_id ids[7];
	unsigned seen[64] = {0};
	int64_t n;
	for (uint32_t b = 0; b < 50; b++)
		CHECK_EQ(
			text_put(s, (struct chunk_id){.block = b, .index = 3 * b}, b, 10, false, 0),
			0);
	for (uint32_t round = 0; (n = store_list(s, &at, ids, ARRAY_LEN(ids))) > 0; round++) {
		for (int64_t i = 0; i < n; i++)
			seen[ids[i].block]++;
		/* Delete the last listed chunk and one of an odd block; add a new one. */
		CHECK_EQ(store_delete(s, ids[n - 1]), 0);
		store_delete(s, (struct chunk_id){.block = 2 * round + 1, .index = 6 * round + 3});
		if (round < 10)
			CHECK_EQ(text_put(s, (struct chunk_id){.block = 50, .index = round}, 1, 10,
					  false, 0),
				 0);
	}
	CHECK_EQ(n, 0);
	for (int b = 16; b < 50; b++)
		CHECK(seen[b] == 1 || (b % 2 == 1 && seen[b] == 0));
}
ON_EVERY_KIND(a_list_goes_on_while_chunks_come_and_go, list_while_changing)

/* --- space and states ------------------------------------------------------------------------- */

static void reserve(struct store *s)
{
	struct store_info info, after;
	store_info(s, &info);
	CHECK(info.total_bytes > 0 && info.free_bytes > 0);
	CHECK_EQ(info.state, STORE_ONLINE);
	int64_t most = (int64_t)min_u64(info.free_bytes, INT64_MAX / 4);
	CHECK_EQ(store_reserve(s, most * 2), -ENOSPC);
	CHECK_EQ(store_reserve(s, INT64_MAX), -ENOSPC);
	CHECK_EQ(store_reserve(s, 1000), 0);
	store_info(s, &after);
	CHECK_EQ(after.reserved_bytes, 1000);
	CHECK_EQ(store_reserve(s, -1001), -EINVAL);
	CHECK_EQ(store_reserve(s, INT64_MIN), -EINVAL);
	CHECK_EQ(store_reserve(s, -1000), 0);
	store_info(s, &after);
	CHECK_EQ(after.reserved_bytes, 0);
	CHECK_EQ(after.state, STORE_ONLINE);
}
ON_EVERY_KIND(space_can_be_set_aside, reserve)

static void drain_and_fail(struct store *s)
{
	struct store_info info;
	struct chunk_stat st;
	CHECK_EQ(text_put(s, A, 1, 5000, false, 0), 0);
	CHECK_EQ(text_put(s, B, 1, 5000, true, 10000), 0);
	CHECK_EQ(store_control(s, STORE_FULL), -EINVAL);
	CHECK_EQ(store_control(s, STORE_SUSPECT), -EINVAL);
	CHECK_EQ(store_control(s, STORE_DRAINING), 0);
	store_info(s, &info);
	CHECK_EQ(info.state, STORE_DRAINING);
	CHECK_EQ(text_put(s, (struct chunk_id){1, 1}, 1, 10, false, 0), -EROFS);
	CHECK_EQ(text_append(s, B, 1, 1, 5000, 10), -EROFS);
	CHECK_EQ(store_reserve(s, 10), -EROFS);
	CHECK_EQ(text_get(s, A, 1, 0, 5000, 0), 0);
	CHECK_EQ(store_fence(s, B, 2), 0);
	CHECK_EQ(store_seal(s, B, 2, 5000), 0);
	CHECK_EQ(store_delete(s, B), 0);
	CHECK_EQ(store_control(s, STORE_ONLINE), 0);
	CHECK_EQ(text_put(s, B, 1, 10, false, 0), 0);
	CHECK_EQ(store_control(s, STORE_FAILED), 0);
	store_info(s, &info);
	CHECK_EQ(info.state, STORE_FAILED);
	CHECK_EQ(text_get(s, A, 1, 0, 5000, 0), -EIO);
	CHECK_EQ(text_put(s, (struct chunk_id){1, 1}, 1, 10, false, 0), -EIO);
	CHECK_EQ(store_delete(s, A), -EIO);
	CHECK_EQ(store_stat(s, A, &st), -EIO);
	CHECK_EQ(store_control(s, STORE_ONLINE), -EIO);
}
ON_EVERY_KIND(states_say_what_may_be_done, drain_and_fail)

/* --- several at once -------------------------------------------------------------------------- */

struct worker {
	struct store *s;
	uint64_t number;
	int rc;
};

static void append_and_read(void *arg)
{
	struct worker *w = arg;
	struct chunk_id id = {.block = w->number, .index = 0};
	struct rng rng;
	uint64_t len = 0;
	rng_init(&rng, w->number);
	w->rc = text_put(w->s, id, w->number, 0, true, MIB);
	for (int i = 0; w->rc == 0 && i < 20; i++) {
		uint64_t n = rng_below(&rng, 9000);
		w->rc = text_append(w->s, id, 1, w->number, len, n);
		len += n;
		if (w->rc == 0)
			w->rc = text_get(w->s, id, w->number, 0, len, 0);
	}
	if (w->rc == 0)
		w->rc = store_seal(w->s, id, 1, len);
	if (w->rc == 0)
		w->rc = store_delete(w->s, id);
}

static void many_at_once(struct store *s)
{
	struct worker w[24];
	struct rt_group g;
	rt_group_init(&g);
	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		w[i] = (struct worker){.s = s, .number = i};
		CHECK_EQ(rt_group_spawn(&g, "worker", append_and_read, &w[i]), 0);
	}
	rt_group_join(&g);
	for (size_t i = 0; i < ARRAY_LEN(w); i++)
		CHECK_EQ(w[i].rc, 0);
	check_empty(s);
}
ON_EVERY_KIND(many_chunks_change_at_once, many_at_once)

static void put_same(void *arg)
{
	struct worker *w = arg;
	w->rc = text_put(w->s, A, w->number, 40000, false, 0);
}

static void one_put_wins(struct store *s)
{
	struct worker w[8];
	struct rt_group g;
	int winner = -1;
	rt_group_init(&g);
	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		w[i] = (struct worker){.s = s, .number = i};
		CHECK_EQ(rt_group_spawn(&g, "put", put_same, &w[i]), 0);
	}
	rt_group_join(&g);
	for (int i = 0; i < (int)ARRAY_LEN(w); i++) {
		CHECK(w[i].rc == 0 || w[i].rc == -EEXIST || w[i].rc == -EALREADY);
		if (w[i].rc == 0) {
			CHECK_EQ(winner, -1);
			winner = i;
		}
	}
	CHECK(winner >= 0);
	CHECK_EQ(text_get(s, A, (uint64_t)winner, 0, 40000, 0), 0);
}
ON_EVERY_KIND(of_many_puts_of_a_chunk_one_wins, one_put_wins)

static void append_same(void *arg)
{
	struct worker *w = arg;
	w->rc = text_append(w->s, A, 1, 1, 100, 5000);
}

static void append_at_one_place(struct store *s)
{
	struct worker w[8];
	struct rt_group g;
	int won = 0;
	CHECK_EQ(text_put(s, A, 1, 100, true, MIB), 0);
	rt_group_init(&g);
	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		w[i] = (struct worker){.s = s};
		CHECK_EQ(rt_group_spawn(&g, "append", append_same, &w[i]), 0);
	}
	rt_group_join(&g);
	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		CHECK(w[i].rc == 0 || w[i].rc == -ERANGE);
		won += w[i].rc == 0;
	}
	CHECK_EQ(won, 1);
	CHECK_EQ(text_get(s, A, 1, 0, 5100, 0), 0);
}
ON_EVERY_KIND(of_many_appends_at_one_place_one_wins, append_at_one_place)

static void late(struct store *s)
{
	CHECK_EQ(text_put(s, A, 1, 100, true, MIB), 0);
	uint64_t before = rt_deadline();
	rt_deadline_narrow(rt_now_ns());
	CHECK(text_append(s, A, 1, 1, 100, 5000) <= 0);
	CHECK(text_put(s, B, 1, 100, false, 0) <= 0);
	rt_deadline_set(before);
	/* Whichever call timed out, the chunk stays usable. */
	struct chunk_stat st;
	CHECK_EQ(store_stat(s, A, &st), 0);
	CHECK_EQ(text_append(s, A, 1, 1, st.len, 5000), 0);
	CHECK_EQ(text_get(s, A, 1, 0, st.len + 5000, 0), 0);
}
ON_EVERY_KIND(a_late_call_does_no_harm, late)

static void unit_shifts_combine_like_crc32c_combine(void **state)
{
	(void)state;
	struct unit_shifts s;
	unit_shifts_init(&s);
	for (size_t i = 0; i < ARRAY_LEN(s.of); i++)
		for (uint64_t n = 0; n < 50; n++) {
			uint32_t a = (uint32_t)mix_u64(2 * n), b = (uint32_t)mix_u64(2 * n + 1);
			assert_int_equal(
				crc_shift_combine(&s.of[i], a, b),
				crc32c_combine(a, b, UINT64_C(1) << (CHUNK_UNIT_LOG2_MIN + i)));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unit_shifts_combine_like_crc32c_combine),
		cmocka_unit_test(what_was_put_is_read_back),
		cmocka_unit_test(any_range_is_read_with_its_crc),
		cmocka_unit_test(ranges_past_the_end_are_refused),
		cmocka_unit_test(a_payload_may_come_in_pieces),
		cmocka_unit_test(crcs_that_came_with_a_payload_are_those_of_the_chunk),
		cmocka_unit_test(bytes_that_change_after_their_crcs_were_taken_are_not_returned),
		cmocka_unit_test(a_put_that_cannot_be_meant_changes_nothing),
		cmocka_unit_test(label_epoch_and_capacity_are_kept),
		cmocka_unit_test(appends_add_up),
		cmocka_unit_test(an_append_that_cannot_be_meant_changes_nothing),
		cmocka_unit_test(a_fenced_writer_is_refused),
		cmocka_unit_test(sealed_stays_sealed),
		cmocka_unit_test(a_seal_cuts_what_was_not_agreed_on),
		cmocka_unit_test(a_deleted_chunk_is_gone),
		cmocka_unit_test(a_list_gives_each_chunk_once),
		cmocka_unit_test(a_list_goes_on_while_chunks_come_and_go),
		cmocka_unit_test(space_can_be_set_aside),
		cmocka_unit_test(states_say_what_may_be_done),
		cmocka_unit_test(many_chunks_change_at_once),
		cmocka_unit_test(of_many_puts_of_a_chunk_one_wins),
		cmocka_unit_test(of_many_appends_at_one_place_one_wins),
		cmocka_unit_test(a_late_call_does_no_harm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
