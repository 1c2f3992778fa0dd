// SPDX-License-Identifier: Apache-2.0
/*
 * The engine of a cache on a simulated disk: what it returns must be the bytes that were stored, whatever the device does
 * and wherever the process dies; what it has written must be found again; it must write no more than it says.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc.h"
#include "base/log.h"
#include "base/rng.h"
#include "cache/core.h"
#include "cache/engine.h"
#include "rt/file.h"
#include "rt/sync.h"
#include "sim_disk_fixture.h"
#include "sim_test.h"

#define PATH "/d0/cache"
#define SEGMENT (16 * KIB)
#define BLOCK_BYTES (20 * SEGMENT + 5000)
#define OWNER 4711

static const struct cache_engine_options small = {
	.path = PATH,
	.flash_bytes = 8 * MIB,
	.owner = {OWNER, 1},
	.segment_bytes = SEGMENT,
	.region_bytes = 8 * SEGMENT,
	.dram_bytes = 16 * SEGMENT,
};

/* ---- the bytes ---- */

static void bytes_of(const struct cache_name *name, uint64_t off, uint64_t len, uint8_t *to)
{
	for (uint64_t i = 0; i < len; i++) {
		uint64_t word = mix_u64(name->block * 1000003 + name->part * 7919 + name->version +
					(off + i) / 8);
		to[i] = (uint8_t)(word >> ((off + i) % 8 * 8));
	}
}

struct below {
	struct cache_name name;
	unsigned fetches;
	uint64_t fetched;
	int rc;
	bool slow;
};

static int fetch(void *arg, uint64_t off, uint64_t len, uint8_t *to, uint64_t *got, uint32_t *crcs)
{
	struct below *b = arg;
	b->fetches++;
	if (b->slow && rt_sleep_ns(NS_PER_S) != 0)
		return -ECANCELED;
	if (b->rc != 0)
		return b->rc;
	CHECK(off % SEGMENT == 0 && len % SEGMENT == 0);
	*got = off < BLOCK_BYTES ? min_u64(len, BLOCK_BYTES - off) : 0;
	bytes_of(&b->name, off, *got, to);
	for (uint64_t i = 0; i * SEGMENT < *got; i++)
		crcs[i] = crc32c(0, to + i * SEGMENT, min_u64(SEGMENT, *got - i * SEGMENT));
	b->fetched += *got;
	return 0;
}

static struct cache_get get_of(uint64_t block, uint64_t off, uint64_t len)
{
	return (struct cache_get){.name = {.block = block, .part = block % 3},
				  .off = off,
				  .len = len,
				  .bucket = block % 5,
				  .position = CACHE_NONE,
				  .job = CACHE_NONE};
}

static uint8_t got_bytes[32 * SEGMENT] __attribute__((aligned(4096)));
static uint8_t want_bytes[32 * SEGMENT];

/* Checks bytes and CRC of a get that returned 0. */
static void check_bytes(const struct cache_get *g, const uint8_t *bytes, uint32_t crc)
{
	bytes_of(&g->name, g->off, g->len, want_bytes);
	CHECK(memcmp(bytes, want_bytes, g->len) == 0);
	CHECK_EQ(crc, crc32c(0, want_bytes, g->len));
}

/* Reads through the cache, and checks what it returns. Returns the result. */
static int get(struct cache_engine *e, const struct cache_get *g, struct below *b)
{
	uint8_t *to = got_bytes + (g->off % 2 == 0 ? 0 : 1);
	uint32_t crc;
	b->name = g->name;
	int rc = cache_engine_get(e, g, fetch, b, to, &crc);
	if (rc == 0)
		check_bytes(g, to, crc);
	return rc;
}

/* Reads without a fetch. */
static int peek(struct cache_engine *e, const struct cache_get *g)
{
	uint32_t crc;
	int rc = cache_engine_get(e, g, NULL, NULL, got_bytes, &crc);
	if (rc == 0)
		check_bytes(g, got_bytes, crc);
	return rc;
}

static struct cache_engine *must_open_engine(const struct cache_engine_options *o)
{
	struct cache_engine *e;
	CHECK_EQ(cache_engine_open(&e, o), 0);
	return e;
}

static struct cache_engine_stats stats_of(const struct cache_engine *e)
{
	struct cache_engine_stats st;
	cache_engine_stats(e, &st);
	return st;
}

/* Reads the first n blocks as a whole. */
static void read_blocks(struct cache_engine *e, struct below *b, uint64_t first, uint64_t n)
{
	for (uint64_t i = first; i < first + n; i++) {
		struct cache_get g = get_of(i, 0, BLOCK_BYTES);
		CHECK_EQ(get(e, &g, b), 0);
	}
}

/* ---- reading and filling ---- */

SIM_TEST(what_was_fetched_once_comes_from_dram_and_flash, .disk_bytes = 64 * MIB)
{
	struct cache_engine *e = must_open_engine(&small);
	struct below b = {0};
	read_blocks(e, &b, 1, 10);
	CHECK_EQ(b.fetched, 10 * BLOCK_BYTES);
	read_blocks(e, &b, 1, 10);
	cache_engine_settle(e);
	read_blocks(e, &b, 1, 10);
	CHECK_EQ(b.fetched, 10 * BLOCK_BYTES);
	struct cache_engine_stats st = stats_of(e);
	CHECK(st.flash_bytes > 0 && st.dram_bytes > 0);
	CHECK_EQ(st.flash_bytes + st.dram_bytes, 20 * BLOCK_BYTES);
	CHECK_EQ(st.hits, 20);
	CHECK_EQ(st.rotten, 0);
	cache_engine_close(e);
}

SIM_TEST(any_range_is_served_with_its_checksum, .disk_bytes = 64 * MIB)
{
	struct cache_engine *e = must_open_engine(&small);
	struct below b = {0};
	struct rng rng;
	rng_init(&rng, 3);
	for (int i = 0; i < 400; i++) {
		uint64_t off = rng_below(&rng, BLOCK_BYTES);
		uint64_t len = 1 + rng_below(&rng, min_u64(BLOCK_BYTES - off, 6 * SEGMENT));
		struct cache_get g = get_of(rng_below(&rng, 12), off, len);
		CHECK_EQ(get(e, &g, &b), 0);
	}
	CHECK_EQ(stats_of(e).rotten, 0);
	cache_engine_close(e);
}

SIM_TEST(a_range_behind_the_end_of_its_block_is_refused, .disk_bytes = 64 * MIB)
{
	struct cache_engine *e = must_open_engine(&small);
	struct below b = {0};
	struct cache_get behind = get_of(1, BLOCK_BYTES - 10, 11), empty = get_of(1, 0, 0),
			 wide = get_of(1, 0, (CACHE_ENGINE_SEGMENTS_MAX + 1) * SEGMENT),
			 wraps = get_of(1, UINT64_MAX - 5, 10);
	CHECK_EQ(get(e, &behind, &b), -EINVAL);
	CHECK_EQ(get(e, &empty, &b), -EINVAL);
	CHECK_EQ(get(e, &wide, &b), -EINVAL);
	CHECK_EQ(get(e, &wraps, &b), -EINVAL);
	cache_engine_close(e);
}

struct asker {
	struct cache_engine *e;
	struct below *below;
	uint8_t *buf;
	int rc;
};

static void ask(void *arg)
{
	struct asker *a = arg;
	struct cache_get g = get_of(1, 100, 5 * SEGMENT);
	uint32_t crc;
	a->rc = cache_engine_get(a->e, &g, fetch, a->below, a->buf, &crc);
	if (a->rc == 0)
		check_bytes(&g, a->buf, crc);
}

SIM_TEST(one_fetch_serves_all_that_ask_meanwhile, .disk_bytes = 64 * MIB)
{
	struct below b = {.name = get_of(1, 0, 1).name, .slow = true};
	struct cache_engine *e = must_open_engine(&small);
	struct asker askers[12];
	struct rt_group group;
	rt_group_init(&group);
	for (size_t i = 0; i < ARRAY_LEN(askers); i++) {
		askers[i] = (struct asker){.e = e, .below = &b, .buf = malloc(6 * SEGMENT)};
		CHECK_EQ(rt_group_spawn(&group, "ask", ask, &askers[i]), 0);
	}
	rt_group_join(&group);
	for (size_t i = 0; i < ARRAY_LEN(askers); i++) {
		CHECK_EQ(askers[i].rc, 0);
		free(askers[i].buf);
	}
	CHECK_EQ(b.fetches, 1);
	/* all fetch after a failure, one after the other */
	b.rc = -ENODATA;
	struct cache_get g = get_of(2, 0, 10);
	CHECK_EQ(get(e, &g, &b), -ENODATA);
	b.rc = 0;
	CHECK_EQ(get(e, &g, &b), 0);
	cache_engine_close(e);
}

SIM_TEST(what_the_policy_does_not_admit_is_not_fetched, .disk_bytes = 64 * MIB)
{
	struct cache_engine_options o = small;
	o.policy = "future"; /* no job is registered */
	struct cache_engine *e = must_open_engine(&o);
	struct below b = {0};
	struct cache_get g = get_of(1, 0, 3 * SEGMENT);
	CHECK_EQ(get(e, &g, &b), -ENOENT);
	CHECK_EQ(b.fetches, 0);
	CHECK_EQ(stats_of(e).misses, 1);
	uint32_t crc;
	b.name = g.name;
	CHECK_EQ(cache_engine_fill(e, &g, fetch, &b, got_bytes, &crc), 0);
	check_bytes(&g, got_bytes, crc);
	CHECK_EQ(get(e, &g, &b), 0);
	CHECK_EQ(b.fetches, 1);
	cache_engine_drop(e, &g);
	CHECK_EQ(peek(e, &g), -ENOENT);
	cache_engine_close(e);
}

SIM_TEST(writes_are_the_segments_and_a_twentieth_at_most, .disk_bytes = 64 * MIB)
{
	struct cache_engine_options o = small;
	o.region_bytes = 32 * SEGMENT;
	struct cache_engine *e = must_open_engine(&o);
	struct below b = {0};
	uint64_t before = stats_of(e).device_bytes;
	read_blocks(e, &b, 1, 100); /* four times the flash */
	cache_engine_settle(e);
	struct cache_engine_stats st = stats_of(e);
	CHECK(st.segment_bytes > 3 * small.flash_bytes);
	CHECK((double)(st.device_bytes - before) <= 1.05 * (double)st.segment_bytes);
	CHECK(st.memory_bytes <= 32ULL * st.segments_max + 64ULL * st.regions);
	CHECK_EQ(st.reinserted, 0);
	cache_engine_close(e);
}

SIM_TEST(what_a_policy_keeps_is_still_right, .disk_bytes = 64 * MIB)
{
	struct cache_engine_options o = small;
	o.policy = "s3fifo";
	struct cache_engine *e = must_open_engine(&o);
	struct below b = {0};
	struct rng rng;
	rng_init(&rng, 9);
	for (uint64_t i = 0; i < 2500; i++) {
		uint64_t block =
			rng_below(&rng, 4) > 0 ? rng_below(&rng, 20) : rng_below(&rng, 400);
		struct cache_get g = get_of(block, rng_below(&rng, 19) * SEGMENT, SEGMENT);
		CHECK_EQ(get(e, &g, &b), 0);
	}
	CHECK(stats_of(e).reinserted > 50);
	CHECK_EQ(stats_of(e).rotten, 0);
	cache_engine_close(e);
}

/* ---- restart ---- */

SIM_TEST(a_closed_cache_is_found_again, .disk_bytes = 64 * MIB)
{
	struct cache_engine *e = must_open_engine(&small);
	struct below b = {0};
	read_blocks(e, &b, 1, 15);
	cache_engine_settle(e);
	uint64_t on_flash = stats_of(e).segment_bytes / SEGMENT;
	cache_engine_close(e);
	for (int i = 0; i < 3; i++) {
		e = must_open_engine(&small);
		struct cache_engine_stats st = stats_of(e);
		CHECK_EQ(st.restored, on_flash);
		CHECK_EQ(st.bad_footers, 0);
		unsigned found = 0;
		for (uint64_t block = 1; block <= 15; block++)
			for (uint64_t s = 0; s < 21; s++) {
				struct cache_get g =
					get_of(block, s * SEGMENT,
					       min_u64(SEGMENT, BLOCK_BYTES - s * SEGMENT));
				found += peek(e, &g) == 0;
			}
		CHECK_EQ(found, on_flash);
		CHECK_EQ(stats_of(e).rotten, 0);
		cache_engine_close(e);
	}
}

SIM_TEST(another_owner_and_other_files_are_refused, .disk_bytes = 64 * MIB)
{
	struct cache_engine_options o = small;
	struct cache_engine *e = must_open_engine(&o), *other;
	struct below b = {0};
	CHECK_EQ(cache_engine_open(&other, &o), -EBUSY);
	read_blocks(e, &b, 1, 15);
	cache_engine_close(e);
	o.owner[0]++;
	CHECK_EQ(cache_engine_open(&e, &o), -EPERM);
	o.owner[0]--;
	o.flash_bytes /= 2; /* other sizes: what is there is of no use */
	e = must_open_engine(&o);
	CHECK_EQ(stats_of(e).restored, 0);
	cache_engine_close(e);
	e = must_open_engine(&small);
	CHECK_EQ(stats_of(e).restored, 0);
	CHECK_EQ(stats_of(e).bad_footers > 0, true);
	cache_engine_close(e);
	put_file("/d0/letters", "Dear sir or madam, this is no cache.", true);
	o.path = "/d0/letters";
	CHECK_EQ(cache_engine_open(&e, &o), -ENOTEMPTY);
	o.format = true;
	e = must_open_engine(&o);
	cache_engine_close(e);
	o.flash_bytes = 2 * SEGMENT;
	CHECK_EQ(cache_engine_open(&e, &o), -EINVAL);
	o = small;
	o.policy = "best";
	CHECK_EQ(cache_engine_open(&e, &o), -EINVAL);
	o = small;
	o.segment_bytes = 5000;
	CHECK_EQ(cache_engine_open(&e, &o), -EINVAL);
	o.segment_bytes = 32 * MIB;
	CHECK_EQ(cache_engine_open(&e, &o), -EINVAL);
}

/* ---- damage ---- */

/* Overwrites bytes of the device behind the engine's back. */
static void scribble(uint64_t at, const void *bytes, size_t len)
{
	struct rt_file *f = must_open(PATH, RT_WRITE);
	CHECK_EQ(rt_file_write(f, bytes, len, at), 0);
	rt_file_close(f);
}

/* Opens a cache that has the first blocks on flash. */
static struct cache_engine *open_with_blocks(struct below *b, uint64_t blocks)
{
	struct cache_engine *e = must_open_engine(&small);
	read_blocks(e, b, 1, blocks);
	cache_engine_close(e);
	return must_open_engine(&small);
}

SIM_TEST(a_rotten_segment_is_fetched_again, .disk_bytes = 64 * MIB)
{
	struct below b = {0};
	struct cache_engine *e = open_with_blocks(&b, 5);
	const struct cache_core *core = cache_engine_core(e);
	struct cache_get g = get_of(1, 3 * SEGMENT, SEGMENT);
	uint32_t number = cache_index_find(&core->index, cache_key(cache_name_hash(&g.name), 3));
	struct cache_volume v = {.segment_bytes = SEGMENT, .region_segments = 8, .regions = 60};
	CHECK(number < core->flash_n);
	scribble(cache_slot_at(&v, number) + SEGMENT - 1, "\x55\xaa", 1);
	b.fetches = 0;
	/* one byte of it is wanted, and it is not the rotten one */
	struct cache_get byte = get_of(1, 3 * SEGMENT + 7, 1);
	CHECK_EQ(peek(e, &byte), -ENOENT);
	CHECK_EQ(stats_of(e).rotten, 1);
	CHECK_EQ(get(e, &g, &b), 0);
	CHECK_EQ(b.fetches, 1);
	cache_engine_close(e);
}

SIM_TEST(bytes_of_another_segment_are_not_believed, .disk_bytes = 64 * MIB)
{
	struct below b = {0};
	struct cache_engine *e = open_with_blocks(&b, 5);
	const struct cache_core *core = cache_engine_core(e);
	struct cache_get g = get_of(1, 3 * SEGMENT, SEGMENT), h = get_of(2, 4 * SEGMENT, SEGMENT);
	uint32_t from = cache_index_find(&core->index, cache_key(cache_name_hash(&g.name), 3));
	uint32_t to = cache_index_find(&core->index, cache_key(cache_name_hash(&h.name), 4));
	CHECK(from < core->flash_n && to < core->flash_n);
	/* The whole entry of the other one: as if two names had one key. */
	struct cache_entry *entry = (struct cache_entry *)&core->entries[to];
	struct cache_volume v = {.segment_bytes = SEGMENT, .region_segments = 8, .regions = 60};
	entry->sum = core->entries[from].sum;
	bytes_of(&g.name, 3 * SEGMENT, SEGMENT, want_bytes);
	scribble(cache_slot_at(&v, to), want_bytes, SEGMENT);
	CHECK_EQ(peek(e, &g), 0);
	CHECK_EQ(peek(e, &h), -ENOENT);
	CHECK_EQ(stats_of(e).rotten, 1);
	cache_engine_close(e);
}

SIM_TEST(damaged_footers_lose_their_regions_alone, .disk_bytes = 64 * MIB)
{
	struct below b = {0};
	struct cache_engine *e = open_with_blocks(&b, 15);
	struct cache_engine_stats all = stats_of(e);
	struct cache_volume v = {.segment_bytes = SEGMENT, .region_segments = 8, .regions = 60};
	cache_engine_close(e);
	uint64_t at = cache_region_at(&v, 3) + 8 * SEGMENT;
	scribble(at + 70, "?", 1);
	/* a footer that stands in another region's place */
	uint8_t page[CACHE_PAGE_BYTES];
	struct rt_file *f = must_open(PATH, RT_READ);
	CHECK_EQ(rt_file_read(f, page, sizeof(page), cache_region_at(&v, 5) + 8 * SEGMENT),
		 sizeof(page));
	rt_file_close(f);
	scribble(cache_region_at(&v, 6) + 8 * SEGMENT, page, sizeof(page));
	e = must_open_engine(&small);
	CHECK_EQ(stats_of(e).bad_footers, 2);
	CHECK_EQ(stats_of(e).restored_regions, all.restored_regions - 2);
	read_blocks(e, &b, 1, 15);
	CHECK_EQ(stats_of(e).rotten, 0);
	cache_engine_close(e);
}

/* ---- faults and crashes by seed ---- */

struct storm {
	double eio, rot, misdirect, torn;
	const char *policy;
	uint64_t gets, hits; /* of all lives */
};

static void storm_main(void *arg)
{
	struct storm *s = arg;
	struct cache_engine_options o = small;
	struct cache_engine *e;
	struct below b = {0};
	struct rng rng;
	o.policy = s->policy;
	o.format = true; /* the superblock may rot */
	rng_init(&rng, rt_random_u64());
	int rc = cache_engine_open(&e, &o);
	if (rc != 0)
		return;
	for (int i = 0; i < 300 && !rt_cancelled(); i++) {
		uint64_t off = rng_below(&rng, 20) * SEGMENT + rng_below(&rng, 3) * 100;
		struct cache_get g =
			get_of(rng_below(&rng, 60), off,
			       1 + rng_below(&rng, min_u64(3 * SEGMENT, BLOCK_BYTES - off)));
		rc = get(e, &g, &b);
		CHECK(rc == 0 || rc == -ENOENT || rc == -ECANCELED);
		s->gets++;
		if (i % 16 == 0)
			(void)rt_sleep_ns(NS_PER_S);
	}
	s->hits += stats_of(e).hits;
	cache_engine_close(e);
}

static void storm_run(struct storm *s, uint64_t seeds, uint64_t crash_below, bool power)
{
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct sim_config config;
		sim_config_init(&config, seed, 0);
		config.rate[SIM_DISK_EIO] = s->eio;
		config.rate[SIM_DISK_MISDIRECT] = s->misdirect;
		config.rate[SIM_DISK_ROT] = s->rot;
		config.rate[SIM_WRITE_TORN] = config.rate[SIM_WRITE_LOST] = s->torn;
		struct sim *sim = sim_open(&config);
		struct sim_shown shown = {.sim = sim, .seed = seed};
		check_hook_set(sim_shown_print, &shown);
		struct sim_node *node = sim_node_add(sim, "n1", 0);
		sim_disk_add(node, "d0", 64 * MIB);
		sim_node_start(node, storm_main, s);
		if (crash_below > 0)
			sim_node_crash_at(node, 1 + seed * 7919 % crash_below, power);
		sim_run(sim, 24ULL * 3600 * NS_PER_S);
		CHECK(!sim_node_running(node));
		check_hook_set(NULL, NULL);
		sim_close(sim);
	}
	CHECK(s->gets > 0);
}

static void after_kill_9_bytes_are_right(void **state)
{
	(void)state;
	struct storm s = {.policy = "lru"};
	storm_run(&s, 12, 900, false);
	CHECK(s.hits > 0);
}

static void after_power_loss_with_torn_and_lost_writes_bytes_are_right(void **state)
{
	(void)state;
	struct storm s = {.policy = "s3fifo", .torn = 0.5};
	storm_run(&s, 12, 900, true);
	CHECK(s.hits > 0);
}

/* The superblock is durable before anything else is written: a device with regions alone would be refused. */
static void format_and_fill(struct fixture *fx, uint64_t life)
{
	struct below b = {0};
	struct cache_engine *e = must_open_engine(&small);
	if (life == 1) {
		read_blocks(e, &b, 1, 15);
		fx->done_life = life;
		rt_shutdown_wait(); /* the loss of power */
	}
	cache_engine_close(e);
}

static void a_new_cache_opens_after_a_loss_of_power(void **state)
{
	(void)state;
	struct fixture fx;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		fixture_open(&fx, seed, format_and_fill);
		fixture_run_crash(&fx, true);
	}
}

static void errors_rot_and_misdirected_writes_give_no_wrong_bytes(void **state)
{
	(void)state;
	struct storm s = {.policy = "lru", .eio = 0.01, .misdirect = 0.01, .rot = 2000};
	storm_run(&s, 10, 0, false);
	CHECK(s.hits > 0);
}

/* ---- a lost device ---- */

static void dead_main(void *arg)
{
	struct cache_engine *e = must_open_engine(&small);
	struct below b = {0};
	bool *dead = arg;
	read_blocks(e, &b, 1, 15);
	*dead = true;
	CHECK_EQ(rt_sleep_ns(10 * NS_PER_S), 0); /* every call of the device fails from now on */
	unsigned failed = 0, refused = 0;
	for (int i = 0; i < 40; i++) {
		struct cache_get g = get_of(100 + i, 0, 4 * SEGMENT);
		int rc = get(e, &g, &b);
		CHECK(rc == 0 || rc == -ENOENT);
		failed += rc == 0;
		refused += rc == -ENOENT;
	}
	CHECK(stats_of(e).suspended && refused > 20);
	uint64_t failures = stats_of(e).failures, fetches = b.fetches;
	struct cache_get g = get_of(1, 0, SEGMENT);
	CHECK_EQ(get(e, &g, &b), -ENOENT);
	CHECK_EQ(stats_of(e).failures, failures);
	CHECK_EQ(b.fetches, fetches);
	*dead = false;
	CHECK_EQ(rt_sleep_ns(100 * NS_PER_S), 0);
	read_blocks(e, &b, 1, 3);
	CHECK(!stats_of(e).suspended);
	cache_engine_close(e);
}

static bool is_dead(void *arg)
{
	return *(bool *)arg;
}

static bool is_alive(void *arg)
{
	return !*(bool *)arg;
}

static void a_device_that_fails_is_left_alone_for_a_minute(void **state)
{
	struct sim_config config;
	bool dead = false;
	(void)state;
	sim_config_init(&config, 1, 0);
	config.rate[SIM_DISK_EIO] = 1;
	struct sim *sim = sim_open(&config);
	struct sim_shown shown = {.sim = sim, .seed = 1};
	check_hook_set(sim_shown_print, &shown);
	sim_faults_pause(sim);
	struct sim_node *node = sim_node_add(sim, "n1", 0);
	sim_disk_add(node, "d0", 64 * MIB);
	sim_node_start(node, dead_main, &dead);
	CHECK(sim_run_until(sim, is_dead, &dead, 3600 * NS_PER_S));
	sim_faults_resume(sim);
	CHECK(sim_run_until(sim, is_alive, &dead, 3600 * NS_PER_S));
	sim_faults_pause(sim);
	sim_run(sim, 24ULL * 3600 * NS_PER_S);
	CHECK(!sim_node_running(node));
	check_hook_set(NULL, NULL);
	sim_close(sim);
}

SIM_TEST(a_cache_whose_file_is_gone_starts_empty, .disk_bytes = 64 * MIB)
{
	struct below b = {0};
	struct cache_engine *e = open_with_blocks(&b, 15);
	CHECK_EQ(rt_unlink(PATH), 0);
	read_blocks(e, &b, 1, 15);
	cache_engine_close(e);
	e = must_open_engine(&small);
	CHECK_EQ(stats_of(e).restored, 0);
	read_blocks(e, &b, 1, 15);
	cache_engine_close(e);
}

int main(void)
{
	log_set_level(LOG_OFF);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_fetched_once_comes_from_dram_and_flash),
		cmocka_unit_test(any_range_is_served_with_its_checksum),
		cmocka_unit_test(a_range_behind_the_end_of_its_block_is_refused),
		cmocka_unit_test(one_fetch_serves_all_that_ask_meanwhile),
		cmocka_unit_test(what_the_policy_does_not_admit_is_not_fetched),
		cmocka_unit_test(writes_are_the_segments_and_a_twentieth_at_most),
		cmocka_unit_test(what_a_policy_keeps_is_still_right),
		cmocka_unit_test(a_closed_cache_is_found_again),
		cmocka_unit_test(another_owner_and_other_files_are_refused),
		cmocka_unit_test(a_rotten_segment_is_fetched_again),
		cmocka_unit_test(bytes_of_another_segment_are_not_believed),
		cmocka_unit_test(damaged_footers_lose_their_regions_alone),
		cmocka_unit_test(after_kill_9_bytes_are_right),
		cmocka_unit_test(after_power_loss_with_torn_and_lost_writes_bytes_are_right),
		cmocka_unit_test(a_new_cache_opens_after_a_loss_of_power),
		cmocka_unit_test(errors_rot_and_misdirected_writes_give_no_wrong_bytes),
		cmocka_unit_test(a_device_that_fails_is_left_alone_for_a_minute),
		cmocka_unit_test(a_cache_whose_file_is_gone_starts_empty),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
