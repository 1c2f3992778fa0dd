// SPDX-License-Identifier: Apache-2.0
/* The scheduler in front of a store with the speed of a drive, as in a node, with real bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/crc.h"
#include "base/rng.h"
#include "check.h"
#include "rt/rt.h"
#include "sched/sched.h"
#include "sched_fixture.h"
#include "sim_test.h"
#include "store/mem.h"
#include "store/throttle.h"

#define CHUNKS 12
#define CHUNK_BYTES (8 * MIB)
#define GOLD_BYTES (64 * KIB)
#define GOLD_READS 150
#define READERS 6

struct store_fixture {
	struct store *store;
	struct sched *sched;
	uint32_t crc[CHUNKS];
	struct rng rng;
	bool stop;
	uint64_t bronze_bytes;
	uint64_t slowest_ns; /* longest latency of a Gold request */
	uint64_t sum_ns;
};

static void fill(struct store_fixture *fx)
{
	AUTO_FREE uint8_t *bytes = malloc(CHUNK_BYTES);
	CHECK(bytes != NULL);
	for (uint32_t i = 0; i < CHUNKS; i++) {
		struct iovec piece;
		rng_fill(&fx->rng, bytes, CHUNK_BYTES);
		fx->crc[i] = crc32c(0, bytes, CHUNK_BYTES);
		struct store_put p = {
			.data = store_data_of(&piece, bytes, CHUNK_BYTES, fx->crc[i])};
		CHECK_EQ(store_put(fx->store, (struct chunk_id){1, i}, &p), 0);
	}
}

/* The CRC of the range, combined from those of the slices. */
static uint32_t read_slices(struct store_fixture *fx, const struct sched_request *r, uint32_t chunk,
			    uint8_t *buf)
{
	uint32_t whole = 0;
	AUTO_SCHED_TURN struct sched_turn t = {0};
	int rc = sched_begin(fx->sched, r, &t);
	while (rc == 0 && t.granted) {
		uint32_t crc = 0;
		rc = store_get(fx->store, (struct chunk_id){1, chunk}, t.off,
			       buf + (t.off - r->off), t.len, &crc);
		whole = crc32c_combine(whole, crc, t.len);
		rc = sched_next(&t, rc);
	}
	CHECK_EQ(rc, 0);
	return whole;
}

static void bronze(void *arg)
{
	struct store_fixture *fx = arg;
	struct sched_request r = {.group = "b", .class = SCHED_BRONZE, .bytes = CHUNK_BYTES};
	AUTO_FREE uint8_t *buf = malloc(CHUNK_BYTES);
	CHECK(buf != NULL);
	while (!fx->stop) {
		uint32_t chunk = (uint32_t)rng_below(&fx->rng, CHUNKS);
		CHECK_EQ(read_slices(fx, &r, chunk, buf), fx->crc[chunk]);
		fx->bronze_bytes += CHUNK_BYTES;
	}
}

static void gold(struct store_fixture *fx)
{
	static uint8_t buf[GOLD_BYTES];
	struct sched_request r = {.group = "g", .class = SCHED_GOLD, .bytes = GOLD_BYTES};
	r.off = rng_below(&fx->rng, CHUNK_BYTES - GOLD_BYTES);
	uint64_t from_ns = rt_now_ns();
	uint32_t crc = read_slices(fx, &r, (uint32_t)rng_below(&fx->rng, CHUNKS), buf);
	CHECK_EQ(crc, crc32c(0, buf, GOLD_BYTES));
	fx->slowest_ns = max_u64(fx->slowest_ns, rt_now_ns() - from_ns);
	fx->sum_ns += rt_now_ns() - from_ns;
}

static void body(void *arg)
{
	struct store_fixture *fx = arg;
	struct store *below;
	struct rt_group g;
	rng_init(&fx->rng, 11);
	CHECK_EQ(store_mem_open(GIB, &below), 0);
	CHECK_EQ(store_throttle_open_take(below, &drive_hdd, &fx->store), 0);
	CHECK_EQ(sched_open(&sched_hdd, &fx->sched), 0);
	fill(fx);
	rt_group_init(&g);
	gold(fx);
	fx->slowest_ns = fx->sum_ns = 0;
	uint64_t start_ns = rt_now_ns();
	for (int i = 0; i < READERS; i++)
		CHECK_EQ(rt_group_spawn(&g, "bronze", bronze, fx), 0);
	for (int i = 0; i < GOLD_READS; i++) {
		CHECK_EQ(rt_sleep_ns((uint64_t)rng_exponential(&fx->rng, 1e9 / 8)), 0);
		gold(fx);
	}
	uint64_t span_ns = rt_now_ns() - start_ns;
	double share = (double)fx->bronze_bytes * 1e9 / (double)span_ns / 200e6;
	fx->stop = true;
	rt_group_join(&g);
	print_message("  gold: %.1f ms on average, %.1f at most; bronze %.0f%% of the bandwidth\n",
		      (double)fx->sum_ns / GOLD_READS / 1e6, (double)fx->slowest_ns / 1e6,
		      100 * share);
	/* The rest of a slice that begins with a seek, and the longest seek: 28.7 + 23.9 ms. */
	CHECK(fx->slowest_ns < 53 * NS_PER_MS);
	CHECK(share > 0.6);
	sched_close(fx->sched);
	store_close(fx->store);
}

static void gold_waits_for_one_slice_at_most_and_bytes_are_right(void **state)
{
	(void)state;
	struct store_fixture fx = {0};
	sim_test_run(body, &fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gold_waits_for_one_slice_at_most_and_bytes_are_right),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
