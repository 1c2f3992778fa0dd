// SPDX-License-Identifier: Apache-2.0
/* The simulator of caches beside plain references, and what must hold of its sums under every policy. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/cache/cachesim.h"
#include "base/base.h"
#include "base/rng.h"

static void load(struct workload *w, const char *text)
{
	char why[WORKLOAD_WHY_MAX];
	if (workload_parse(w, text, strlen(text), why, sizeof(why)) != 0)
		fail_msg("%s", why);
}

static struct cachesim_result run(const struct workload *w, const char *policy)
{
	struct cachesim_options o = {0};
	struct cachesim_result r;
	assert_int_equal(cachesim_run(w, policy, &o, &r), 0);
	return r;
}

/* 200 segments in each partition; flash for about 70 of them, DRAM for a few */
#define SMALL                                                                                  \
	"\"partition_bytes\":200000,\"segment_bytes\":1000,\"file_bytes\":50000,"              \
	"\"block_bytes\":10000,\"region_bytes\":4000,\"flash_bytes\":%s,\"dram_bytes\":30000," \
	"\"history_bytes\":4096,\"nodes\":%s,"

static void load_jobs(struct workload *w, const char *flash, const char *nodes, const char *jobs)
{
	char text[4096];
	snprintf(text, sizeof(text), "{" SMALL "\"min_threshold\":0,\"jobs\":[%s]}", flash, nodes,
		 jobs);
	load(w, text);
}

/* Three jobs that follow each other closely on two partitions, at 10 segments a second. */
#define THREE                                                                                   \
	"{\"id\":\"a\",\"partitions\":[\"p\",\"q\"],\"reader_bytes_s\":2500,\"request_bytes\":" \
	"2000},"                                                                                \
	"{\"id\":\"b\",\"partitions\":[\"p\",\"q\"],\"reader_bytes_s\":2500,\"request_bytes\":" \
	"2000,"                                                                                 \
	"\"start_s\":3},"                                                                       \
	"{\"id\":\"c\",\"partitions\":[\"q\",\"p\"],\"reader_bytes_s\":2500,\"request_bytes\":" \
	"2000,"                                                                                 \
	"\"start_s\":9}"

#define CONTRACT(order)                                                                  \
	"{\"id\":\"a\",\"partitions\":[\"p\"],\"request_bytes\":1000,\"order\":\"" order \
	"\",\"windows\":10},"                                                            \
	"{\"id\":\"b\",\"partitions\":[\"p\"],\"request_bytes\":1000,\"order\":\"" order \
	"\",\"windows\":10},"                                                            \
	"{\"id\":\"c\",\"partitions\":[\"p\"],\"request_bytes\":1000,\"order\":\"" order \
	"\",\"windows\":10}"

/* Jobs of like pace on a partition that is three times the cache: in windows, and by substitution, nearly everything is
 * read from the disks once; in random orders most is not there any more when the next job wants it. */
static void order_contracts_decide_what_a_small_cache_absorbs(void **state)
{
	static const char *const jobs[] = {CONTRACT("random"), CONTRACT("window"),
					   CONTRACT("free")};
	double hits[3];
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
		AUTO_WORKLOAD struct workload w = {0};
		load_jobs(&w, "80000", "1", jobs[i]);
		struct cachesim_result r = run(&w, "lru");
		assert_true(r.requested_bytes == 600000); /* each job reads each unit once */
		hits[i] = r.hit_bytes / r.requested_bytes;
	}
	assert_true(hits[1] > hits[0] + 0.1 && hits[2] > hits[0] + 0.1);
	AUTO_WORKLOAD struct workload w = {0};
	load_jobs(&w, "80000", "1", jobs[2]);
	assert_true(run(&w, CACHESIM_BOUND).requested_bytes == 600000);
}

static void sums_agree_under_every_policy(void **state)
{
	AUTO_WORKLOAD struct workload w;
	(void)state;
	load_jobs(&w, "900000", "1", THREE);
	double bound = run(&w, CACHESIM_BOUND).absorbed_bytes;
	for (const struct cache_policy_kind *k = cache_policy_kinds; k->name != NULL; k++) {
		struct cachesim_result r = run(&w, k->name), again = run(&w, k->name);
		double absorbed = 0, written = 0, requested = 0;
		assert_true(r.requested_bytes == (double)w.bytes && r.requested_bytes == 1200000);
		assert_true(r.hit_bytes <= r.served_bytes && r.served_bytes <= r.requested_bytes);
		assert_true(r.absorbed_bytes == r.served_bytes - r.fetched_bytes);
		assert_true(r.disk_read_bytes + r.absorbed_bytes == r.requested_bytes);
		/* whole segments: what is absorbed was there */
		assert_true(r.absorbed_bytes == r.hit_bytes && r.absorbed_bytes <= bound);
		assert_true(r.segment_requests == 1200 && r.requests == 600);
		for (uint32_t i = 0; i < r.steps_n; i++) {
			absorbed += r.steps[i].absorbed;
			written += r.steps[i].written;
			requested += r.steps[i].requested;
		}
		assert_true(absorbed == r.absorbed_bytes && requested == r.requested_bytes);
		assert_true(written == r.flash_written_bytes);
		again.wall_s = r.wall_s;
		assert_memory_equal(&r, &again, sizeof(r));
	}
}

static void all_is_absorbed_but_the_first_read_where_all_fits(void **state)
{
	AUTO_WORKLOAD struct workload w;
	static const char *const policies[] = {"lru", "fifo", "sieve", "terrane", CACHESIM_BOUND};
	(void)state;
	load_jobs(&w, "900000", "1", THREE);
	for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
		struct cachesim_result r = run(&w, policies[i]);
		if (r.absorbed_bytes != 800000 || r.fetched_bytes != 400000)
			fail_msg("%s absorbs %.0f of 800000 bytes", policies[i], r.absorbed_bytes);
	}
}

/* Five jobs at once, of which three read the same partitions: what is cached has a high priority and is written again
 * whenever its region is freed, if nothing stops that. */
static void reinsertion_keeps_the_write_limit(void **state)
{
	static const char *const policies[] = {"historic", "hybrid"};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
		AUTO_WORKLOAD struct workload w;
		load(&w,
		     "{\"partition_bytes\":400000000,\"segment_bytes\":65536,"
		     "\"file_bytes\":13107200,\"block_bytes\":6553600,\"flash_bytes\":100000000,"
		     "\"dram_bytes\":20000000,\"nodes\":1,\"write_limit_bytes_s\":1000000,"
		     "\"reinsert_offset\":1,\"jobs\":["
		     "{\"id\":\"a\",\"partitions\":[\"1\",\"2\",\"3\"],\"reader_bytes_s\":250000,"
		     "\"request_bytes\":65536},"
		     "{\"id\":\"b\",\"partitions\":[\"4\",\"5\"],\"reader_bytes_s\":250000,"
		     "\"request_bytes\":65536},"
		     "{\"id\":\"c\",\"partitions\":[\"1\",\"2\",\"3\"],\"reader_bytes_s\":250000,"
		     "\"request_bytes\":65536},"
		     "{\"id\":\"d\",\"partitions\":[\"6\",\"7\"],\"reader_bytes_s\":250000,"
		     "\"request_bytes\":65536},"
		     "{\"id\":\"e\",\"partitions\":[\"1\",\"2\",\"3\"],\"reader_bytes_s\":250000,"
		     "\"request_bytes\":65536}]}");
		struct cachesim_result r = run(&w, policies[i]);
		double rate = r.flash_written_bytes / r.seconds;
		if (rate > 1.05 * 1000000)
			fail_msg("%s writes %.0f bytes per second", policies[i], rate);
	}
}

/* ---- plain references for a stream of gets ---- */

#define STREAM_GETS 6000u
#define STREAM_SEGMENTS UINT64_C(150)

struct stream {
	struct reads_get gets[STREAM_GETS];
	uint32_t n, at;
};

static bool stream_next(void *arg, struct reads_get *out)
{
	struct stream *s = arg;
	if (s->at == s->n)
		return false;
	*out = s->gets[s->at++];
	return true;
}

/* Draws gets for single segments of one block: some are read often, most seldom. */
static void draw_stream(struct stream *s, uint64_t seed)
{
	struct rng rng;
	rng_init(&rng, seed);
	*s = (struct stream){.n = STREAM_GETS};
	for (uint32_t i = 0; i < s->n; i++) {
		double u = rng_unit(&rng);
		uint32_t segment = (uint32_t)(u * u * (double)STREAM_SEGMENTS);
		s->gets[i] = (struct reads_get){.block_bytes = STREAM_SEGMENTS * 1000,
						.request = {.now_ms = i,
							    .block = 5,
							    .first = segment,
							    .segments = 1,
							    .position = CACHE_NONE,
							    .job = CACHE_NONE,
							    .bytes = 1000}};
	}
}

/* LRU in DRAM in front of FIFO regions of one segment each, as lists. */
static uint32_t plain_fifo(const struct stream *s, uint32_t dram, uint32_t flash)
{
	uint32_t lru[64] = {0}, lru_n = 0, fifo[256] = {0}, fifo_n = 0, hits = 0;
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t want = s->gets[i].request.first, at = 0;
		for (at = 0; at < fifo_n && fifo[at] != want; at++)
			continue;
		if (at < fifo_n) {
			hits++;
			continue;
		}
		for (at = 0; at < lru_n && lru[at] != want; at++)
			continue;
		hits += at < lru_n;
		if (at == lru_n && lru_n == dram) {
			if (fifo_n == flash)
				memmove(fifo, fifo + 1, --fifo_n * sizeof(*fifo));
			fifo[fifo_n++] = lru[0];
			at = 0;
		} else if (at == lru_n) {
			lru_n++;
		}
		memmove(lru + at, lru + at + 1, (lru_n - 1 - at) * sizeof(*lru));
		lru[lru_n - 1] = want;
	}
	return hits;
}

static void fifo_on_regions_of_one_segment_is_plain_fifo(void **state)
{
	AUTO_WORKLOAD struct workload w;
	AUTO_FREE struct stream *s = malloc(sizeof(*s));
	struct cachesim_node size;
	char why[WORKLOAD_WHY_MAX];
	(void)state;
	assert_non_null(s);
	load(&w, "{\"segment_bytes\":1000,\"block_bytes\":150000,\"partition_bytes\":150000,"
		 "\"region_bytes\":1000,\"flash_bytes\":255000,\"dram_bytes\":20000,\"nodes\":1,"
		 "\"history_bytes\":4096,\"jobs\":[{\"id\":\"a\",\"partitions\":[\"p\"]}]}");
	assert_int_equal(cachesim_node(&w, &size, why, sizeof(why)), 0);
	assert_int_equal(size.params.region_segments, 1);
	for (uint64_t seed = 1; seed <= 5; seed++) {
		const struct cachesim_source source = {.next = stream_next, .arg = s};
		struct cachesim_options o = {0};
		struct cachesim_result r;
		draw_stream(s, seed);
		assert_int_equal(cachesim_run_source(&w, &source, "fifo", &o, &r), 0);
		assert_true(r.segment_hits ==
			    plain_fifo(s, size.dram_segments, size.params.regions));
		assert_true(r.segment_hits > 1000 && r.segment_hits < 5000);
		/* a footer of 4 KiB for each region of 1000 bytes */
		assert_true(r.flash_written_bytes > 0 &&
			    fmod(r.flash_written_bytes, 1000 + 4096) == 0);
	}
}

/* Belady's MIN with bypass, by looking through the stream. */
static uint32_t plain_min(const struct stream *s, uint32_t capacity)
{
	uint32_t held[256], held_n = 0, hits = 0;
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t want = s->gets[i].request.first, next = i + 1, at = 0;
		while (next < s->n && s->gets[next].request.first != want)
			next++;
		for (at = 0; at < held_n && held[at] != i; at++)
			continue;
		if (at < held_n) {
			hits++;
			held[at] = held[--held_n];
		}
		if (next == s->n)
			continue;
		held[held_n++] = next;
		uint32_t far = 0;
		for (uint32_t k = 1; k < held_n; k++)
			far = held[k] > held[far] ? k : far;
		if (held_n > capacity)
			held[far] = held[--held_n];
	}
	return hits;
}

static void the_bound_is_min_and_no_policy_is_above_it(void **state)
{
	AUTO_WORKLOAD struct workload w;
	AUTO_FREE struct stream *s = malloc(sizeof(*s));
	(void)state;
	assert_non_null(s);
	load(&w, "{\"segment_bytes\":1000,\"block_bytes\":150000,\"partition_bytes\":150000,"
		 "\"region_bytes\":1000,\"flash_bytes\":255000,\"dram_bytes\":20000,\"nodes\":1,"
		 "\"history_bytes\":4096,\"min_threshold\":0,"
		 "\"jobs\":[{\"id\":\"a\",\"partitions\":[\"p\"]}]}");
	for (uint64_t seed = 1; seed <= 3; seed++) {
		const struct cachesim_source source = {.next = stream_next, .arg = s};
		struct cachesim_options o = {0};
		struct cachesim_result bound, r;
		draw_stream(s, seed);
		w.flash_bytes = 30000;
		assert_int_equal(cachesim_run_source(&w, &source, CACHESIM_BOUND, &o, &bound), 0);
		assert_true(bound.segment_hits == plain_min(s, 50));
		assert_true(fabs(bound.absorbed_bytes - bound.segment_hits * 1000) < 1);
		w.flash_bytes = 255000;
		s->at = 0;
		assert_int_equal(cachesim_run_source(&w, &source, CACHESIM_BOUND, &o, &bound), 0);
		for (const struct cache_policy_kind *k = cache_policy_kinds; k->name != NULL; k++) {
			s->at = 0;
			assert_int_equal(cachesim_run_source(&w, &source, k->name, &o, &r), 0);
			assert_true(r.absorbed_bytes <= bound.absorbed_bytes + 1);
		}
	}
}

static void halves_of_a_segment_that_are_read_once_absorb_nothing(void **state)
{
	AUTO_WORKLOAD struct workload w;
	(void)state;
	load_jobs(&w, "900000", "1",
		  "{\"id\":\"a\",\"partitions\":[\"p\"],\"reader_bytes_s\":2500,\"request_bytes\":"
		  "500,"
		  "\"readers\":1}");
	static const char *const policies[] = {"lru", CACHESIM_BOUND};
	for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
		struct cachesim_result r = run(&w, policies[i]);
		assert_true(r.segment_hits == 200 && fabs(r.hit_bytes - 100000) < 500);
		assert_true(fabs(r.absorbed_bytes) < 1000); /* parts are rounded to 1/255 */
	}
}

static void some_nodes_stand_for_all(void **state)
{
	AUTO_WORKLOAD struct workload w;
	struct cachesim_options two = {.nodes = 2};
	struct cachesim_result part;
	(void)state;
	load(&w, "{\"partition_bytes\":2000000,\"segment_bytes\":1000,\"file_bytes\":500000,"
		 "\"block_bytes\":2000,\"region_bytes\":4000,\"flash_bytes\":4000000,"
		 "\"dram_bytes\":30000,\"history_bytes\":4096,\"nodes\":8,\"jobs\":[" THREE "]}");
	struct cachesim_result all = run(&w, "lru");
	assert_int_equal(cachesim_run(&w, "lru", &two, &part), 0);
	assert_int_equal(part.nodes, 2);
	assert_true(part.requested_bytes == all.requested_bytes);
	assert_true(fabs(part.absorbed_bytes / all.absorbed_bytes - 1) < 0.1);
	assert_true(fabs(part.flash_written_bytes / all.flash_written_bytes - 1) < 0.1);
}

static void nodes_that_are_too_small_are_refused_with_the_size_that_is_needed(void **state)
{
	AUTO_WORKLOAD struct workload w;
	struct cachesim_node node;
	char why[WORKLOAD_WHY_MAX];
	(void)state;
	load_jobs(&w, "20000", "1", THREE);
	assert_int_equal(cachesim_node(&w, &node, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "flash_bytes: each node needs at least 4 regions"));
	w.flash_bytes = 900000;
	w.dram_bytes = 8000;
	assert_int_equal(cachesim_node(&w, &node, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "dram_bytes: index and history window"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_contracts_decide_what_a_small_cache_absorbs),
		cmocka_unit_test(sums_agree_under_every_policy),
		cmocka_unit_test(reinsertion_keeps_the_write_limit),
		cmocka_unit_test(all_is_absorbed_but_the_first_read_where_all_fits),
		cmocka_unit_test(fifo_on_regions_of_one_segment_is_plain_fifo),
		cmocka_unit_test(the_bound_is_min_and_no_policy_is_above_it),
		cmocka_unit_test(halves_of_a_segment_that_are_read_once_absorb_nothing),
		cmocka_unit_test(some_nodes_stand_for_all),
		cmocka_unit_test(nodes_that_are_too_small_are_refused_with_the_size_that_is_needed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
