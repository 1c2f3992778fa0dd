// SPDX-License-Identifier: Apache-2.0
/*
 * Training jobs in a cluster with faults: nodes, networks and disks fail, cache nodes crash and are cut off, a flash manager
 * changes its mind, and jobs crash and go on with other numbers of ranks. Whatever happens:
 *
 *   - each epoch delivers each sample exactly once to the ranks of a job together
 *   - the order `window` follows from (seed, epoch, first window, position), and all ranks have the same first window
 *   - the order `free` is repeated from its log of decisions
 *   - every byte that is read is right
 *
 * A job is the loop of a loader in C: it asks for windows with terrane_job_enter's request, and keeps between its lives what
 * a state of terrane.Loader has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/bug.h"
#include "base/rng.h"
#include "cachenode_fixture.h"
#include "dataset/free.h"
#include "dataset/windows.h"
#include "jobs/worth.h"
#include "meta_client/jobs.h"

#define SAMPLES ((size_t)6200)
#define SAMPLE ((size_t)256) /* bytes */
#define FILE_TEXT 11
#define SET 77
#define JOBS 4
#define EPOCHS 3u
#define RANKS_MAX 3u
#define BATCH_MAX ((size_t)300)
#define CANDIDATES ((size_t)10)
#define LEASE_MS 60000u
#define NO_WINDOW UINT32_MAX

static uint64_t run_seed;
/* What must never happen, and what did not happen with this bug planted. */
static struct {
	uint64_t repeated; /* samples that an epoch did not deliver exactly once */
	uint64_t
		apart; /* ranks of a job that began an epoch in other windows than the first rank */
	uint64_t disorder; /* samples at another position than the order of the job says */
} wrong;

struct storm {
	struct engine *engine;
	struct windows_shape shape;
	unsigned running;
	char path[32];
};

struct trainer {
	struct storm *storm;
	uint64_t id;
	bool free; /* order */
	struct rng rng;
	uint32_t own; /* window in which the next epoch begins, if the job is alone */
	uint16_t taken[SAMPLES];
};

/* --- requests, which are repeated until they succeed ------------------------------------------------ */

static void pause_ms(struct trainer *t, uint64_t most)
{
	rt_background(); /* the deadline of the last call is not that of the pause */
	CHECK_EQ(rt_sleep_ns((1 + rng_below(&t->rng, most)) * NS_PER_MS), 0);
}

/* Writes the samples. Returns false: faults prevented it. */
static bool write_samples(struct engine *e, const char *path)
{
	struct terrane_options o = {.block_bytes = BLOCK, .encoding = "r2", .timeout_ms = 20000};
	struct call c;
	struct efile *f;
	AUTO_FREE uint8_t *bytes = malloc(SAMPLES * SAMPLE);
	CHECK(bytes != NULL);
	fixture_fill(FILE_TEXT, 0, bytes, SAMPLES * SAMPLE);
	struct iovec iov = {bytes, SAMPLES * SAMPLE};
	rt_background();
	CHECK_EQ(engine_call(e, &c, &o), 0);
	if (engine_create(&c, path, 0, &o, &f) < 0)
		return false;
	int rc = engine_append(&c, f, &iov, 1, NULL);
	int closed = engine_file_close(&c, f);
	rt_background();
	return rc == 0 && closed == 0;
}

static void read_sample(struct trainer *t, uint64_t sample)
{
	struct terrane_options o = {.job_id = t->id};
	uint8_t bytes[SAMPLE];
	struct iovec iov = {bytes, SAMPLE};
	int64_t n = -EIO;
	for (unsigned tries = 0; n < 0 && tries < 200; tries++) {
		struct call c;
		struct efile *f;
		uint32_t crc;
		CHECK_EQ(engine_call(t->storm->engine, &c, &o), 0);
		n = engine_file_open(&c, t->storm->path, &f);
		if (n == 0) {
			n = engine_preadv(&c, f, &iov, 1, sample * SAMPLE, &crc);
			(void)engine_file_close(&c, f);
		}
		if (n < 0)
			pause_ms(t, 2000);
	}
	CHECK_EQ(n, SAMPLE);
	CHECK(fixture_same(FILE_TEXT, sample * SAMPLE, bytes, SAMPLE));
}

static void register_job(struct trainer *t)
{
	struct terrane_job_part part = {.path = t->storm->path};
	struct terrane_job job = {.id = t->id,
				  .parts = &part,
				  .part_count = 1,
				  .order = t->free ? TERRANE_ORDER_FREE : TERRANE_ORDER_WINDOW,
				  .seed = t->id,
				  .shuffle = TERRANE_SHUFFLE_SEEDED,
				  .accelerators = 8,
				  .lease_ms = LEASE_MS};
	int rc = -EIO;
	for (unsigned tries = 0; rc < 0 && tries < 200; tries++) {
		struct call c;
		CHECK_EQ(engine_call(t->storm->engine, &c, NULL), 0);
		rc = engine_job_add(&c, &job);
		if (rc < 0)
			pause_ms(t, 2000);
	}
	CHECK_EQ(rc, 0);
}

/* Asks for a window until the registry answers. */
static struct terrane_job_window enter(struct trainer *t, struct terrane_job_window ask)
{
	int rc = -EIO;
	struct terrane_job_window w = ask;
	for (unsigned tries = 0; rc < 0 && tries < 200; tries++) {
		struct call c;
		w = ask;
		CHECK_EQ(engine_call(t->storm->engine, &c, NULL), 0);
		rc = engine_job_enter(&c, t->id, &w);
		CHECK(rc != -ENOENT && rc != -ESTALE && rc != -EINVAL);
		if (rc < 0)
			pause_ms(t, 2000);
	}
	CHECK_EQ(rc, 0);
	return w;
}

/* --- the order window ------------------------------------------------------------------------------- */

/* One life of a job: from the state (epoch, first, from) on, with a number of ranks, until it crashes or the epoch ends. */
struct life {
	struct order_reader who; /* of rank 0 */
	uint32_t epoch;
	uint32_t first[RANKS_MAX]; /* of each rank; NO_WINDOW: it has not asked */
	uint64_t from, steps;      /* position of its beginning, and steps until it crashes */
	uint32_t at;               /* window that it is in */
};

/* A rank that begins an epoch asks where; one that goes on has it in its state. */
static uint32_t first_of(struct trainer *t, struct life *l, unsigned rank)
{
	if (l->first[rank] != NO_WINDOW)
		return l->first[rank];
	pause_ms(t, 3000); /* the others of the job, and other jobs, go on meanwhile */
	l->first[rank] =
		enter(t, (struct terrane_job_window){.set = SET,
						     .windows = (uint32_t)t->storm->shape.count,
						     .window = t->own,
						     .epoch = l->epoch,
						     .begins = true})
			.window;
	return l->first[rank];
}

/* The first rank enters the window of a step; it waits for others a little. */
static void go_on(struct trainer *t, struct life *l, uint32_t window)
{
	struct terrane_job_window ask = {.set = SET,
					 .windows = (uint32_t)t->storm->shape.count,
					 .window = window,
					 .epoch = l->epoch};
	if (l->at == window)
		return;
	for (unsigned waits = 0; enter(t, ask).wait; waits++) {
		CHECK(waits <= 3);
		ask.force = waits == 3;
		pause_ms(t, 100);
	}
	l->at = window;
}

static void take_part(struct trainer *t, struct life *l, unsigned rank, struct order_share share)
{
	uint64_t samples[BATCH_MAX], begin, end;
	struct windows w;
	CHECK_EQ(windows_init(&w, &t->storm->shape, first_of(t, l, rank), 0, t->id, l->epoch), 0);
	if (rank == 0)
		go_on(t, l, (uint32_t)windows_at(&w, share.first + share.count - 1, &begin, &end));
	windows_samples(&w, share.first, share.count, samples);
	for (uint64_t i = 0; i < share.count; i++) {
		wrong.disorder += windows_position(&w, samples[i]) != share.first + i;
		t->taken[samples[i]]++;
	}
	read_sample(t, samples[rng_below(&t->rng, share.count)]);
}

/* Returns the position after the last step in which all ranks took their part. */
static uint64_t live(struct trainer *t, struct life *l)
{
	uint64_t step = 0, done = l->from;
	for (; step < l->steps && done < SAMPLES; step++) {
		for (unsigned rank = 0; rank < l->who.world; rank++) {
			struct order_reader who = l->who;
			who.rank = rank;
			struct order_share share = order_step(SAMPLES, l->from, step, &who);
			if (share.count > 0)
				take_part(t, l, rank, share);
		}
		done = min_u64(done + l->who.world * l->who.batch, SAMPLES);
		pause_ms(t, 50);
	}
	for (unsigned rank = 1; rank < l->who.world; rank++)
		wrong.apart += l->first[rank] != NO_WINDOW && l->first[rank] != l->first[0];
	return done;
}

static struct order_reader draw_world(struct trainer *t)
{
	return (struct order_reader){.world = 1 + rng_below(&t->rng, RANKS_MAX),
				     .batch = 40 + rng_below(&t->rng, BATCH_MAX - 40)};
}

static void window_epoch(struct trainer *t, uint32_t epoch)
{
	uint32_t first = NO_WINDOW;
	for (uint64_t from = 0; from < SAMPLES;) {
		struct life l = {.who = draw_world(t),
				 .epoch = epoch,
				 .from = from,
				 .steps = 1 + rng_below(&t->rng, 20),
				 .at = NO_WINDOW};
		for (unsigned rank = 0; rank < RANKS_MAX; rank++)
			l.first[rank] = from > 0 ? first : NO_WINDOW;
		from = live(t, &l);
		first = l.first[0];
	}
	t->own = first;
}

/* --- the order free --------------------------------------------------------------------------------- */

/* Takes a step of one rank, with whatever a cache has, and the same step again in another run from the log. */
static void free_step(struct trainer *t, struct free_epoch *f, struct free_epoch *again,
		      uint8_t *used)
{
	uint64_t candidates[CANDIDATES * BATCH_MAX], samples[BATCH_MAX];
	uint8_t cached[CANDIDATES * BATCH_MAX];
	uint64_t n = free_candidates(f, candidates, ARRAY_LEN(candidates));
	for (uint64_t i = 0; i < n; i++)
		cached[i] = rng_chance(&t->rng, 0.2);
	uint64_t count = free_take(f, cached, n, samples);
	if (count == 0)
		return;
	for (uint64_t i = 0; i < count; i++) {
		t->taken[samples[i]]++;
		used[samples[i] / 8] |= (uint8_t)(1u << samples[i] % 8);
	}
	CHECK_EQ(free_take_again(again, samples, count), 0);
	read_sample(t, samples[rng_below(&t->rng, count)]);
}

static void free_life(struct trainer *t, uint32_t epoch, uint8_t *used)
{
	struct order_reader who = draw_world(t);
	struct free_epoch *ranks[RANKS_MAX], *again[RANKS_MAX];
	uint8_t own[RANKS_MAX][SAMPLES / 8 + 1];
	uint64_t steps = 1 + rng_below(&t->rng, 20);
	for (who.rank = 0; who.rank < who.world; who.rank++) {
		memcpy(own[who.rank], used, free_bytes(SAMPLES));
		CHECK_EQ(free_open(&ranks[who.rank], SAMPLES, used, t->id, epoch, &who), 0);
		CHECK_EQ(free_open(&again[who.rank], SAMPLES, used, t->id, epoch, &who), 0);
	}
	for (uint64_t step = 0; step < steps; step++) {
		for (uint64_t rank = 0; rank < who.world; rank++)
			free_step(t, ranks[rank], again[rank], own[rank]);
		pause_ms(t, 50);
	}
	for (uint64_t rank = 0; rank < who.world; rank++) {
		free_merge(used, own[rank], SAMPLES);
		free_close(ranks[rank]);
		free_close(again[rank]);
	}
}

static void free_epoch(struct trainer *t, uint32_t epoch)
{
	uint8_t used[SAMPLES / 8 + 1] = {0};
	while (free_count_left(used, SAMPLES) > 0)
		free_life(t, epoch, used);
}

/* --- the storm ---------------------------------------------------------------------------------------- */

static void trainer_main(void *arg)
{
	struct trainer *t = arg;
	for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
		register_job(t); /* renews the lease */
		memset(t->taken, 0, sizeof(t->taken));
		if (t->free)
			free_epoch(t, epoch);
		else
			window_epoch(t, epoch);
		for (uint32_t i = 0; i < SAMPLES; i++)
			wrong.repeated += t->taken[i] != 1;
	}
	t->storm->running--;
}

/* A manager that writes whatever comes to its mind. */
static void manager_main(void *arg)
{
	struct storm *s = arg;
	struct rng rng;
	rng_init(&rng, run_seed);
	while (s->running > 0) {
		for (uint64_t id = 1; id <= JOBS; id++) {
			struct job_seen seen;
			AUTO_ARENA struct arena a;
			struct call c;
			arena_init(&a, MIB);
			CHECK_EQ(engine_call(s->engine, &c, NULL), 0);
			struct meta_call m = call_meta(&c);
			if (meta_client_job_get(&m, 0, id, &a, &seen) < 0)
				continue;
			struct job_judged j = {
				.tenant = seen.tenant,
				.id = id,
				.stamp = seen.state.stamp,
				.verdict = {.at_ms = rt_wall_ns() / NS_PER_MS,
					    .keep = (enum job_keep)rng_below(&rng, 5),
					    .cache = (enum job_cache)rng_below(&rng, 3),
					    .share = (uint32_t)rng_below(&rng, 1000001)}};
			int rc = meta_client_job_judge(&m, &j, 1);
			CHECK(rc != -EINVAL);
		}
		rt_background();
		CHECK_EQ(rt_sleep_ns(3 * NS_PER_S), 0);
	}
}

static void body(struct client_fixture *fx)
{
	struct storm s = {.running = JOBS};
	static struct trainer trainers[JOBS];
	struct rt_group g;
	struct rng rng;
	rng_init(&rng, run_seed);
	start_cachers(fx, 2, &(struct cacher){.policy = "lru"});
	s.engine = open_engine(fx, &plain);
	unsigned tries = 0;
	do {
		CHECK(tries < 50);
		snprintf(s.path, sizeof(s.path), "/data%u", tries++);
	} while (!write_samples(s.engine, s.path));
	CHECK_EQ(windows_shape(&s.shape, SAMPLES, (uint64_t)SAMPLES * SAMPLE, 10000), 0);
	CHECK_EQ(s.shape.count, 7);
	rt_group_init(&g);
	for (unsigned i = 0; i < JOBS; i++) {
		trainers[i] = (struct trainer){.storm = &s, .id = i + 1, .free = i == JOBS - 1};
		rng_init(&trainers[i].rng, run_seed * JOBS + i);
		CHECK_EQ(rt_group_spawn(&g, "trainer", trainer_main, &trainers[i]), 0);
	}
	CHECK_EQ(rt_group_spawn(&g, "manager", manager_main, &s), 0);
	while (s.running > 0) {
		CHECK_EQ(rt_sleep_ns((1 + rng_below(&rng, 10)) * NS_PER_S), 0);
		if (s.running > 0)
			fixture_do(fx, crash_cacher, rng_below(&rng, 2));
	}
	rt_group_join(&g);
	rt_background();
	engine_close(s.engine);
}

static uint64_t wrong_in(uint64_t seeds)
{
	memset(&wrong, 0, sizeof(wrong));
	for (run_seed = 1; run_seed <= seeds && wrong.repeated == 0; run_seed++)
		fixture_run_storm(6, run_seed, body);
	return wrong.repeated + wrong.apart + wrong.disorder;
}

static void epochs_are_complete_and_in_order_whatever_fails(void **state)
{
	assert_int_equal(wrong_in(4), 0);
}

/* Without these the test above could not fail. */
static void planted_bugs_are_found(void **state)
{
	static const enum bug bugs[] = {BUG_JOIN_FORGOTTEN, BUG_MERGE_LOST, BUG_TURN_FORGOTTEN};
	for (size_t i = 0; i < ARRAY_LEN(bugs); i++) {
		bug_plant(bugs[i]);
		print_message("%s: %lu\n", bug_name(bugs[i]), (unsigned long)wrong_in(4));
		bug_plant(BUG_NONE);
		assert_true(wrong.repeated > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(epochs_are_complete_and_in_order_whatever_fails),
		cmocka_unit_test(planted_bugs_are_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
