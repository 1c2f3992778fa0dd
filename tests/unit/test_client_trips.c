// SPDX-License-Identifier: Apache-2.0
/*
 * Counts the sequential round trips of the client's operations. Every packet takes the same time, and disks and
 * processors take next to none, so the duration of an operation is a multiple of FIXTURE_TRIP_NS. Requests that are
 * sent at the same time count once. Making a connection takes a round trip, which is not counted: a fresh client
 * connects to the metadata server, then to all nodes at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "client_fixture.h"

#define SMALL_BYTES (20 * KIB)
#define CONNECTS 2 /* round trips that a fresh client takes to make its connections */

/* Returns the round trips since the time start_ns. */
static uint64_t trips_since(uint64_t start_ns)
{
	uint64_t ns = rt_now_ns() - start_ns;
	/* The time of disks and queues must not add up to a round trip. */
	CHECK(ns % FIXTURE_TRIP_NS < FIXTURE_TRIP_NS / 2);
	return ns / FIXTURE_TRIP_NS;
}

static struct engine *open_engine(struct client_fixture *fx)
{
	struct engine *e;
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){0}, &e), 0);
	return e;
}

static int file_write(struct engine *e, const char *path, uint64_t len)
{
	static uint8_t bytes[SMALL_BYTES];
	struct call c;
	struct efile *f;
	CHECK(len <= sizeof(bytes));
	fixture_fill(1, 0, bytes, len);
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	int rc = engine_create(&c, path, 0, NULL, &f);
	struct iovec iov = {bytes, len};
	if (rc == 0 && len > 0)
		rc = engine_append(&c, f, &iov, 1, NULL);
	if (rc == 0)
		rc = engine_file_close(&c, f);
	return rc;
}

static void file_read(struct engine *e, const char *path)
{
	static uint8_t bytes[SMALL_BYTES];
	struct call c;
	struct efile *f;
	uint32_t crc;
	struct iovec iov = {bytes, SMALL_BYTES};
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_file_open(&c, path, &f), 0);
	CHECK_EQ(engine_preadv(&c, f, &iov, 1, 0, &crc), SMALL_BYTES);
	CHECK(fixture_same(1, 0, bytes, SMALL_BYTES));
	CHECK_EQ(engine_file_close(&c, f), 0);
}

/* Opens a client that is connected to all nodes and has written a file to /d. */
static struct engine *open_warm(struct client_fixture *fx)
{
	struct engine *e = open_engine(fx);
	struct call c;
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_mkdir(&c, "/d", 0), 0);
	CHECK_EQ(file_write(e, "/d/first", SMALL_BYTES), 0);
	return e;
}

static void warm_write_body(struct client_fixture *fx)
{
	struct engine *e = open_warm(fx);
	for (int i = 0; i < 3; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/d/f%d", i);
		uint64_t start_ns = rt_now_ns();
		CHECK_EQ(file_write(e, path, SMALL_BYTES), 0);
		CHECK_EQ(trips_since(start_ns), 2);
	}
	engine_close(e);
}

static void a_small_file_takes_a_warm_client_two_trips(void **state)
{
	(void)state;
	fixture_run_steady(6, warm_write_body);
}

static void fresh_write_body(struct client_fixture *fx)
{
	engine_close(open_warm(fx));
	uint64_t start_ns = rt_now_ns();
	struct engine *e = open_engine(fx);
	CHECK_EQ(file_write(e, "/d/file", SMALL_BYTES), 0);
	CHECK_EQ(trips_since(start_ns), 4 + CONNECTS);
	engine_close(e);
}

static void a_small_file_takes_a_fresh_process_four_trips(void **state)
{
	(void)state;
	fixture_run_steady(6, fresh_write_body);
}

static void read_body(struct client_fixture *fx)
{
	engine_close(open_warm(fx));
	struct engine *e = open_engine(fx);
	/* Connects to all nodes. */
	CHECK_EQ(file_write(e, "/d/other", SMALL_BYTES), 0);
	uint64_t start_ns = rt_now_ns();
	file_read(e, "/d/first");
	CHECK_EQ(trips_since(start_ns), 2);
	engine_close(e);
}

static void a_cold_small_file_is_read_in_two_trips(void **state)
{
	(void)state;
	fixture_run_steady(6, read_body);
}

#define BATCH 300 /* files of one batch, more than one request opens */
#define DISKS 12  /* two of each of six nodes */

static void batch_body(struct client_fixture *fx)
{
	static uint8_t data[100];
	static char names[BATCH][16], paths[BATCH][24];
	static uint8_t got[BATCH][100];
	struct terrane_small files[BATCH] = {0};
	struct engine_range ranges[BATCH];
	struct engine *e = open_warm(fx);
	struct call c;
	fixture_fill(1, 0, data, sizeof(data));
	for (int i = 0; i < BATCH; i++) {
		snprintf(names[i], sizeof(names[i]), "s%d", i);
		snprintf(paths[i], sizeof(paths[i]), "/d/s%d", i);
		files[i] =
			(struct terrane_small){.name = names[i], .data = data, .len = sizeof(data)};
		ranges[i] =
			(struct engine_range){.path = paths[i], .len = sizeof(data), .buf = got[i]};
	}
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_pack(&c, "/d", files, BATCH, 0, NULL), 0);
	struct engine *cold = open_engine(fx);
	CHECK_EQ(file_write(cold, "/d/other", SMALL_BYTES), 0);
	CHECK_EQ(engine_call(cold, &c, NULL), 0);
	struct fabric_stats *st = &engine_fabric(cold)->shared->stats;
	uint64_t requests = st->disk_requests, placed = st->placed_bytes, copied = st->copied_bytes;
	uint64_t start_ns = rt_now_ns();
	CHECK_EQ(engine_read_batch(&c, ranges, BATCH, NULL, NULL), 0);
	CHECK_EQ(trips_since(start_ns), 2);
	/* One request for each disk, and no byte is copied. */
	CHECK(st->disk_requests - requests <= DISKS);
	CHECK_EQ(st->placed_bytes - placed, BATCH * sizeof(data));
	CHECK_EQ(st->copied_bytes, copied);
	for (int i = 0; i < BATCH; i++)
		CHECK(fixture_same(1, 0, got[i], sizeof(data)));
	engine_close(cold);
	engine_close(e);
}

static void a_batch_of_cold_small_files_is_read_in_two_trips(void **state)
{
	(void)state;
	fixture_run_steady(6, batch_body);
}

static void empty_body(struct client_fixture *fx)
{
	struct engine *e = open_warm(fx);
	uint64_t start_ns = rt_now_ns();
	CHECK_EQ(file_write(e, "/d/empty", 0), 0);
	CHECK_EQ(trips_since(start_ns), 1);
	/* The second trip finds out what has the name. */
	start_ns = rt_now_ns();
	CHECK_EQ(file_write(e, "/d/empty", 0), -EEXIST);
	CHECK_EQ(trips_since(start_ns), 2);
	engine_close(e);
}

static void an_empty_file_is_created_in_one_trip(void **state)
{
	(void)state;
	fixture_run_steady(6, empty_body);
}

static void stat_body(struct client_fixture *fx)
{
	struct engine *e = open_warm(fx);
	struct call c;
	struct terrane_stat st;
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	uint64_t start_ns = rt_now_ns();
	CHECK_EQ(engine_stat(&c, "/d/first", &st), 0);
	CHECK_EQ(st.size, SMALL_BYTES);
	CHECK_EQ(trips_since(start_ns), 1);
	engine_close(e);
}

static void a_stat_takes_one_trip(void **state)
{
	(void)state;
	fixture_run_steady(6, stat_body);
}

/* With attributes a small file, a directory and a page of a listing take as many trips as without. */
static void attributes_body(struct client_fixture *fx)
{
	struct engine *e = open_warm(fx);
	struct call c;
	const struct terrane_attribute label = {.name = "label", .value = "cat", .len = 3};
	const struct terrane_attributes all = {.set = TERRANE_HAS_MODE | TERRANE_HAS_UID,
					       .mode = 0640,
					       .uid = 7,
					       .user = &label,
					       .user_count = 1};
	const struct terrane_options o = {.attributes = &all};
	CHECK_EQ(engine_call(e, &c, &o), 0);
	uint64_t start_ns = rt_now_ns();
	struct efile *f;
	uint8_t bytes[100] = {0};
	CHECK_EQ(engine_create(&c, "/d/labelled", 0, &o, &f), 0);
	struct iovec iov = {bytes, sizeof(bytes)};
	CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	CHECK_EQ(trips_since(start_ns), 2);
	start_ns = rt_now_ns();
	CHECK_EQ(engine_mkdir(&c, "/sub", 0), 0);
	CHECK_EQ(trips_since(start_ns), 1);
	struct terrane_stat st;
	start_ns = rt_now_ns();
	CHECK_EQ(engine_stat(&c, "/d/labelled", &st), 0);
	CHECK_EQ(trips_since(start_ns), 1);
	CHECK(st.mode == 0640 && st.uid == 7 && st.user_attributes == 1);
	CHECK_EQ(st.has, TERRANE_HAS_MODE | TERRANE_HAS_UID);
	struct terrane_cursor at = {0};
	struct terrane_entry page[8];
	start_ns = rt_now_ns();
	int64_t n = engine_list(&c, "/", &at, page, 8);
	CHECK_EQ(trips_since(start_ns), 2); /* the path, and the page */
	CHECK_EQ(n, 2);
	CHECK(strcmp(page[1].name, "sub") == 0 && page[1].mode == 0640 && page[1].has == st.has);
	engine_close(e);
}

static void attributes_take_no_trip_of_their_own(void **state)
{
	(void)state;
	fixture_run_steady(6, attributes_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_small_file_takes_a_warm_client_two_trips),
		cmocka_unit_test(a_small_file_takes_a_fresh_process_four_trips),
		cmocka_unit_test(a_cold_small_file_is_read_in_two_trips),
		cmocka_unit_test(a_batch_of_cold_small_files_is_read_in_two_trips),
		cmocka_unit_test(an_empty_file_is_created_in_one_trip),
		cmocka_unit_test(a_stat_takes_one_trip),
		cmocka_unit_test(attributes_take_no_trip_of_their_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
