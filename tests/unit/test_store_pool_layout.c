// SPDX-License-Identifier: Apache-2.0
/* The layout of pools: positions of rows, labels and records, and what an event moves. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "code/place.h"
#include "store/pool_layout.h"
#include "store_fixture.h"

#define MEMBERS_MAX 24
#define PIECE UINT64_C(8192)

static void every_byte_has_one_place_in_the_rows(void **state)
{
	(void)state;
	static const uint64_t lengths[] = {1, 4095, 4096, 24576, 24577, 100000, 300001, 1000000};
	for (uint32_t k = 1; k <= 6; k++) {
		for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
			struct pool_geo g;
			uint64_t covered = 0;
			pool_geo_init(&g, k, 2, PIECE, lengths[i]);
			assert_true(g.row_len * k >= g.len);
			assert_true(g.row_len * k < g.len + (uint64_t)k * 4096 + k);
			for (uint64_t off = 0; off < g.len;) {
				struct pool_position spot = pool_geo_position(&g, off);
				struct store_range b =
					pool_geo_bytes(&g, spot.row_off / PIECE, spot.row);
				assert_true(spot.row < k && spot.run > 0);
				assert_true(spot.row_off + spot.run <= g.row_len);
				assert_int_equal(b.off + spot.row_off % PIECE, off);
				off += spot.run;
				covered += spot.run;
			}
			assert_int_equal(covered, g.len);
			/* In the other direction: pieces do not overlap and leave no gap. */
			uint64_t sum = 0;
			for (uint64_t s = 0; s < g.stripes; s++)
				for (uint32_t r = 0; r < k; r++)
					sum += pool_geo_bytes(&g, s, r).len;
			assert_int_equal(sum, g.len);
		}
	}
	assert_true(pool_piece_for(4096, 1, STORE_CHUNK_MAX) * 1000 >= STORE_CHUNK_MAX);
}

static void labels_and_records_decode_and_damage_is_refused(void **state)
{
	(void)state;
	struct pool_label l = {.row = 4, .k = 3, .p = 2, .piece = PIECE, .crc = 99}, l2;
	uint8_t label[STORE_LABEL_BYTES];
	l.len = 123456;
	l.pool = 42;
	pool_label_encode(&l, label);
	assert_int_equal(pool_label_decode(label, &l2), 0);
	assert_true(l2.row == 4 && l2.k == 3 && l2.p == 2 && l2.piece == PIECE && l2.crc == 99 &&
		    l2.len == 123456 && l2.pool == 42 && !l2.copy);
	label[3] = 5; /* row 5 does not exist: there are five rows */
	assert_int_equal(pool_label_decode(label, &l2), -EBADMSG);
	memset(label, 0, sizeof(label));
	assert_int_equal(pool_label_decode(label, &l2), -EBADMSG);

	struct pool_record r = {
		.shape = {.id = 7, .k = 3, .p = 2, .members = 9, .piece_bytes = PIECE},
		.generation = 12,
		.member = 8,
		.event_count = 2,
		.settled = 1,
		.events = {{.member = 3}, {.member = 3, .replaced = true}}};
	struct pool_record r2;
	uint8_t bytes[POOL_RECORD_BYTES];
	pool_record_encode(&r, bytes);
	assert_int_equal(pool_record_decode(bytes, sizeof(bytes), &r2), 0);
	assert_true(pool_shape_equal(&r.shape, &r2.shape) && r2.generation == 12 &&
		    r2.member == 8 && r2.settled == 1 && r2.event_count == 2 &&
		    r2.events[1].member == 3 && r2.events[1].replaced && !r2.events[0].replaced);
	for (size_t at = 0; at < sizeof(bytes); at += 7) {
		bytes[at] ^= 4;
		assert_int_equal(pool_record_decode(bytes, sizeof(bytes), &r2), -EBADMSG);
		bytes[at] ^= 4;
	}
	assert_int_equal(pool_record_decode(bytes, sizeof(bytes) - 1, &r2), -EBADMSG);
}

static void rows_of_a_chunk_are_on_different_members_after_any_events(void **state)
{
	(void)state;
	static const enum place_kind kinds[] = {PLACE_CLUSTERED, PLACE_DECLUSTERED, PLACE_OVERLAP};
	for (size_t kind = 0; kind < ARRAY_LEN(kinds); kind++) {
		struct pool_record r = {.shape = {.id = 5,
						  .k = 3,
						  .p = 2,
						  .members = 20,
						  .place = kinds[kind],
						  .piece_bytes = PIECE}};
		struct place place;
		struct rng rng;
		char why[128];
		bool out[20] = {false};
		rng_init(&rng, kind);
		assert_int_equal(pool_place_init(&place, &r.shape, why, sizeof(why)), 0);
		for (int step = 0; step < 60; step++) {
			for (uint64_t b = 0; b < 200; b++) {
				struct pool_map map;
				uint64_t used = 0;
				pool_map_chunk(&place, &r, (struct chunk_id){b, 1}, &map);
				for (int row = 0; row < 5; row++) {
					uint16_t m = map.member[row];
					if (m == POOL_NOWHERE) {
						assert_int_equal(kinds[kind], PLACE_CLUSTERED);
						continue;
					}
					assert_true(m < 20 && !out[m]);
					assert_true((used & UINT64_C(1) << m) == 0);
					used |= UINT64_C(1) << m;
				}
			}
			/* Give up one member, or replace a given-up one; never too many at once. */
			uint16_t m = (uint16_t)rng_below(&rng, 20);
			int down = 0;
			for (int i = 0; i < 20; i++)
				down += out[i];
			if (!out[m] && down >= 4)
				continue;
			r.events[r.event_count++] =
				(struct pool_event){.member = m, .replaced = out[m]};
			out[m] = !out[m];
		}
	}
}

static void an_event_moves_only_the_rows_it_must(void **state)
{
	(void)state;
	struct pool_record r = {.shape = {.id = 5,
					  .k = 3,
					  .p = 2,
					  .members = 20,
					  .place = PLACE_DECLUSTERED,
					  .piece_bytes = PIECE}};
	struct place place;
	char why[128];
	unsigned load[20] = {0}, spare[20] = {0}, moved = 0;
	assert_int_equal(pool_place_init(&place, &r.shape, why, sizeof(why)), 0);
	for (uint64_t b = 0; b < 4000; b++) {
		struct pool_map before, after, back;
		struct chunk_id id = {.block = b, .index = 3};
		r.event_count = 0;
		pool_map_chunk(&place, &r, id, &before);
		r.events[0] = (struct pool_event){.member = 6};
		r.events[1] = (struct pool_event){.member = 6, .replaced = true};
		r.event_count = 1;
		pool_map_chunk(&place, &r, id, &after);
		r.event_count = 2;
		pool_map_chunk(&place, &r, id, &back);
		for (int row = 0; row < 5; row++) {
			load[before.member[row]]++;
			assert_int_equal(back.member[row], before.member[row]);
			assert_int_equal(after.moved[row], before.member[row] == 6);
			if (before.member[row] != 6) {
				assert_int_equal(after.member[row], before.member[row]);
			} else {
				spare[after.member[row]]++;
				moved++;
			}
		}
	}
	/*
	 * All members have about the same number of rows, and got about the same number from the
	 * given-up one.
	 */
	for (int m = 0; m < 20; m++) {
		assert_true(load[m] > 800 && load[m] < 1200);
		assert_true(m == 6 ? spare[m] == 0 : spare[m] > moved / 19 / 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_has_one_place_in_the_rows),
		cmocka_unit_test(labels_and_records_decode_and_damage_is_refused),
		cmocka_unit_test(rows_of_a_chunk_are_on_different_members_after_any_events),
		cmocka_unit_test(an_event_moves_only_the_rows_it_must),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
