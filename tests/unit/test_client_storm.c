// SPDX-License-Identifier: Apache-2.0
/* Files are written and read while the network drops, cuts and damages packets, disks hang and
 * fail calls, and nodes crash. Afterwards all acknowledged bytes can be read, and no read
 * returned wrong bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "client_fixture.h"

#define BLOCK (64 * KIB)
#define FILES 40
#define SIZE_MAX_BYTES (5 * BLOCK)

static uint64_t seed, first_seed = 1, last_seed = 5;

struct file {
	char path[16];
	uint64_t size;
	bool acked;
};

struct tally {
	int writes, acked, reads, read_well;
};

static void text_fill(struct engine *e, struct file *f, uint64_t text, struct tally *t,
		      unsigned flags)
{
	struct call c;
	struct efile *h;
	struct terrane_options o = {.block_bytes = BLOCK,
				    .encoding = flags != 0 ? NULL : "rs:4+2",
				    .timeout_ms = 20000};
	uint8_t *bytes = malloc(f->size + 1);
	CHECK(bytes != NULL);
	fixture_fill(text, 0, bytes, f->size);
	rt_background();
	engine_call(e, &c, &o);
	t->writes++;
	int rc = engine_create(&c, f->path, flags, &o, &h);
	if (rc == 0) {
		struct iovec iov = {bytes, f->size};
		int appended = engine_append(&c, h, &iov, 1, NULL);
		rt_background();
		engine_call(e, &c, &o);
		rc = engine_file_close(&c, h);
		/* A log's bytes are acknowledged by the append, whatever the close returns. */
		rc = flags != 0 || appended < 0 ? appended : rc;
	}
	f->acked = rc == 0;
	t->acked += f->acked;
	free(bytes);
}

/* Returns 1 if the bytes are right, 0 after an error; fails on wrong bytes. */
static int text_read(struct engine *e, const struct file *f, uint64_t text)
{
	struct call c;
	struct efile *h;
	struct terrane_options o = {.timeout_ms = 20000};
	rt_background();
	engine_call(e, &c, &o);
	if (engine_file_open(&c, f->path, &h) < 0)
		return 0;
	uint8_t *bytes = malloc(f->size + 10);
	CHECK(bytes != NULL);
	struct iovec iov = {bytes, f->size + 10};
	uint32_t crc;
	int64_t got = engine_preadv(&c, h, &iov, 1, 0, &crc);
	if (got >= 0) {
		CHECK(got <= (int64_t)f->size);
		CHECK(fixture_same(text, 0, bytes, (size_t)got));
		if (f->acked)
			CHECK_EQ(got, f->size);
	}
	free(bytes);
	engine_file_discard(h);
	return got >= 0;
}

static void storm_body(struct client_fixture *fx)
{
	struct engine *e;
	struct rng rng;
	struct tally t = {0};
	static struct file files[FILES];
	rng_init(&rng, seed);
	memset(files, 0, sizeof(files));
	struct fabric_options fo = {.chunk_timeout_ns = 2 * NS_PER_S, .rebuild_burst = 1000};
	while (fixture_engine_open(fx, &fo, &e) < 0)
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	for (uint64_t i = 0; i < FILES; i++) {
		snprintf(files[i].path, sizeof(files[i].path), "/f%u", (unsigned)i);
		files[i].size = rng_below(&rng, SIZE_MAX_BYTES);
		text_fill(e, &files[i], i, &t, i % 4 == 3 ? TERRANE_LOG : 0);
		uint64_t other = rng_below(&rng, i + 1);
		if (files[other].acked) {
			t.reads++;
			t.read_well += text_read(e, &files[other], other);
		}
		rt_background();
		CHECK_EQ(rt_sleep_ns(rng_below(&rng, NS_PER_S)), 0);
	}
	fixture_do(fx, fixture_quiet, 0);
	CHECK_EQ(rt_sleep_ns(30 * NS_PER_S), 0);
	int lost = 0;
	for (uint64_t i = 0; i < FILES; i++)
		lost += files[i].acked && text_read(e, &files[i], i) == 0;
	print_message("seed %u: %d of %d writes acknowledged, %d of %d reads served; lost %d\n",
		      (unsigned)seed, t.acked, t.writes, t.read_well, t.reads, lost);
	CHECK_EQ(lost, 0);
	CHECK(t.acked > FILES / 5); /* with fewer acknowledged files the seed tests too little */
	rt_background();
	engine_close(e);
}

static void what_was_acknowledged_in_a_storm_is_there_after_it(void **state)
{
	(void)state;
	for (seed = first_seed; seed <= last_seed; seed++)
		fixture_run_storm(8, seed, storm_body);
}

/* Usage: test_client_storm [FIRST LAST], to run the seeds from FIRST to LAST. */
int main(int argc, char **argv)
{
	if (argc == 3) {
		first_seed = strtoull(argv[1], NULL, 10);
		last_seed = strtoull(argv[2], NULL, 10);
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_acknowledged_in_a_storm_is_there_after_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
