// SPDX-License-Identifier: Apache-2.0
/*
 * Cache nodes under faults: they crash with and without loss of power, are cut off, leave and join, and find rotten segments
 * on their flash, while clients read overlapping ranges. For every seed:
 *
 *   S1  a read returns the bytes of the file
 *   S2  a dead cache node is asked once, and then skipped for the pause of the client
 *   S3  when the faults have ended, everything is read from cache nodes again, whichever of them are left
 *   S4  a job does not count after its lease
 *
 * Each planted bug of the cache violates one of these for some seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bug.h"
#include "base/rng.h"
#include "cachenode/impl.h"
#include "cachenode_fixture.h"

#define FILES 6u
#define FILE_BYTES (6 * BLOCK)
#define READERS 4u
#define ROUNDS 6u
#define READS 5u /* of each reader in a round */
#define HUNT_SEEDS 6u

static uint64_t seed, first_seed = 1, last_seed = 3;
static const char *violation; /* the violated invariant; NULL: all hold */

static void violated(const char *what)
{
	if (violation == NULL)
		violation = what;
}

/* Reads bytes of file f. Returns whether they are right. */
static bool read_part(struct engine *e, unsigned f, uint64_t off, uint64_t len)
{
	struct terrane_options o = {.job_id = 1 + f % 2};
	char path[16];
	struct call c;
	struct efile *file;
	uint32_t crc;
	uint8_t *bytes = malloc(len);
	CHECK(bytes != NULL);
	struct iovec iov = {bytes, len};
	snprintf(path, sizeof(path), "/d/f%u", f);
	CHECK_EQ(engine_call(e, &c, &o), 0);
	bool same = engine_file_open(&c, path, &file) == 0;
	if (same) {
		same = engine_preadv(&c, file, &iov, 1, off, &crc) == (int64_t)len &&
		       fixture_same(f, off, bytes, len);
		CHECK_EQ(engine_file_close(&c, file), 0);
	}
	free(bytes);
	rt_background(); /* without the deadline of the call */
	return same;
}

struct reader {
	struct engine *e;
	struct rng rng;
};

static void reader_main(void *arg)
{
	struct reader *r = arg;
	for (unsigned i = 0; i < READS && violation == NULL; i++) {
		/* a few places and one length, so that gets of one fetch differ */
		uint64_t off =
			rng_below(&r->rng, 8) * (SEGMENT / 4) + rng_below(&r->rng, 4) * BLOCK;
		if (!read_part(r->e, (unsigned)rng_below(&r->rng, FILES), off, SEGMENT))
			violated("S1: a read failed, or returned other bytes");
	}
}

static void rot(struct client_fixture *fx, uint64_t i)
{
	(void)fx;
	for (uint64_t at = 4096 + 777; at < FLASH; at += SEGMENT)
		if (sim_disk_flip(cachers[i].disk, "/flash/cache", at, 3) == -ERANGE)
			break; /* behind what was written */
}

static void heal(struct client_fixture *fx, uint64_t i)
{
	(void)i;
	sim_net_heal(fx->sim);
}

static void strike(struct client_fixture *fx, struct rng *rng)
{
	uint64_t i = rng_below(rng, 2);
	switch (rng_below(rng, 4)) {
	case 0:
		fixture_do(fx, crash_cacher, i);
		break;
	case 1:
		fixture_do(fx, cut_cacher, i);
		break;
	case 2:
		fixture_do(fx, rot, i);
		break;
	default:
		break; /* a round without a fault */
	}
}

static void read_side_by_side(struct engine *e, struct rng *rng, struct client_fixture *fx)
{
	struct reader readers[READERS];
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < READERS; i++) {
		readers[i].e = e;
		rng_init(&readers[i].rng, rng_below(rng, 1000000));
		CHECK_EQ(rt_group_spawn(&g, "reader", reader_main, &readers[i]), 0);
	}
	CHECK_EQ(rt_sleep_ns(rng_below(rng, 40) * NS_PER_MS), 0);
	strike(fx, rng);
	rt_group_join(&g);
}

/* Reads everything. Returns the bytes that cache nodes served. */
static uint64_t read_all(struct engine *e)
{
	uint64_t before = client_stats(e).cache_bytes;
	for (unsigned f = 0; f < FILES && violation == NULL; f++)
		if (!read_part(e, f, 0, FILE_BYTES))
			violated("S1: a read failed, or returned other bytes");
	return client_stats(e).cache_bytes - before;
}

/* Reads until all comes from cache nodes. */
static void until_cached(struct engine *e, const char *what)
{
	for (unsigned i = 0; i < 30 && violation == NULL; i++) {
		if (read_all(e) == FILES * FILE_BYTES)
			return;
		CHECK_EQ(rt_sleep_ns(2 * NS_PER_S), 0);
	}
	violated(what);
}

static void check_pause(struct client_fixture *fx, struct engine *e)
{
	fixture_do(fx, cut_cacher, 0);
	fixture_do(fx, cut_cacher, 1);
	(void)read_all(e); /* finds out */
	uint64_t before = client_stats(e).cache_failures;
	(void)read_all(e);
	if (client_stats(e).cache_failures != before)
		violated("S2: a dead cache node was asked again");
	fixture_do(fx, heal, 0);
}

static void check_lease(struct engine *e)
{
	struct terrane_job_part part = {.path = "/d"};
	struct terrane_job job = {.id = 9, .parts = &part, .part_count = 1, .lease_ms = 5000};
	struct call c;
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_job_add(&c, &job), 0);
	rt_background();
	CHECK_EQ(rt_sleep_ns(4 * NS_PER_S), 0);
	const struct node_jobs *js = &cachers[1].serves->jobs;
	if (js->view.jobs_n - js->view.vacant_n != 1)
		violated("S4: a job does not count within its lease");
	CHECK_EQ(rt_sleep_ns(1500 * NS_PER_MS), 0);
	/* between two refreshes, too: the lease is the node's to end */
	if (violation == NULL && js->view.jobs_n - js->view.vacant_n > 0)
		violated("S4: a job counts after its lease");
}

CLIENT_TEST(storm, 4, 1)
{
	struct cache_tier_options o = {
		.timeout_ns = TIMEOUT_NS, .pause_ns = 3 * NS_PER_S, .map_age_ns = NS_PER_S};
	struct rng rng;
	struct call c;
	char path[16];
	rng_init(&rng, seed);
	start_cachers(fx, 2, &(struct cacher){.policy = seed % 2 == 0 ? "terrane" : "lru"});
	struct engine *e = open_engine(fx, &o);
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_mkdir(&c, "/d", 0), 0);
	for (unsigned f = 0; f < FILES; f++) {
		snprintf(path, sizeof(path), "/d/f%u", f);
		write_file(e, path, f, FILE_BYTES, 0);
	}
	for (unsigned round = 0; round < ROUNDS && violation == NULL; round++) {
		read_side_by_side(e, &rng, fx);
		fixture_do(fx, heal, 0);
		CHECK_EQ(rt_sleep_ns(rng_below(&rng, 4) * NS_PER_S), 0);
	}
	until_cached(e, "S3: not all is read from cache nodes after the faults");
	fixture_do(fx, rot, 0);
	fixture_do(fx, rot, 1);
	until_cached(e, "S3: not all is read from cache nodes after rot");
	if (violation == NULL)
		check_pause(fx, e);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	if (violation == NULL)
		check_lease(e);
	/* One leaves for good. */
	fixture_do(fx, stop_cacher, 0);
	until_cached(e, "S3: not all is read from the cache node that is left");
	engine_close(e);
}

static void reads_are_right_whatever_happens_to_cache_nodes(void **state)
{
	(void)state;
	for (seed = first_seed; seed <= last_seed; seed++) {
		violation = NULL;
		storm(state);
		if (violation != NULL)
			fail_msg("seed %u: %s", (unsigned)seed, violation);
	}
}

static void every_planted_bug_of_the_cache_is_found(void **state)
{
	static const enum bug bugs[] = {BUG_CACHE_SUM,     BUG_CACHE_ROTTEN, BUG_CACHE_RANGE,
					BUG_CACHE_FETCHES, BUG_CACHE_LEASE,  BUG_CACHE_MISS,
					BUG_CACHE_PAUSE,   BUG_CACHE_RING};
	for (size_t i = 0; i < ARRAY_LEN(bugs); i++) {
		bug_plant(bugs[i]);
		violation = NULL;
		for (seed = 1; seed <= HUNT_SEEDS && violation == NULL; seed++)
			storm(state);
		bug_plant(BUG_NONE);
		if (violation == NULL)
			fail_msg("%s was not found in %u seeds", bug_name(bugs[i]), HUNT_SEEDS);
		print_message("%s: seed %u: %s\n", bug_name(bugs[i]), (unsigned)seed - 1,
			      violation);
	}
}

/* Usage: test_cachenode_storm [FIRST LAST], to run the seeds from FIRST to LAST and no bug. */
int main(int argc, char **argv)
{
	if (argc == 3) {
		first_seed = strtoull(argv[1], NULL, 10);
		last_seed = strtoull(argv[2], NULL, 10);
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_are_right_whatever_happens_to_cache_nodes),
		cmocka_unit_test(every_planted_bug_of_the_cache_is_found),
	};
	const struct CMUnitTest seeds[] = {tests[0]};
	return argc == 3 ? cmocka_run_group_tests(seeds, NULL, NULL)
			 : cmocka_run_group_tests(tests, NULL, NULL);
}
