// SPDX-License-Identifier: Apache-2.0
/*
 * Tests in a simulated world: a body runs as the main fiber of a process, alone in a simulation without faults.
 * The test fails when the body has not returned in the simulated time allowed for it. A failed check prints the
 * seed and the end of the simulator's trace.
 *
 *     SIM_TEST(what_must_hold)
 *     {
 *             CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
 *     }
 *
 * SIM_TEST(name, .disk_bytes = 64 * MIB, .seeds = 10) sets fields of struct sim_test. Tests that need several
 * processes, or faults at a chosen moment, open their own simulation.
 */
#ifndef TESTS_UNIT_SIM_TEST_H
#define TESTS_UNIT_SIM_TEST_H

#include "base/base.h"
#include "check.h"
#include "rt/rt.h"
#include "rt/sim.h"

struct sim_test {
	uint64_t seed;       /* seed of the first simulation; 0: 1 */
	uint64_t seeds;      /* number of simulations, each with the next seed; 0: 1 */
	uint64_t disk_bytes; /* size of the disk d0, which the process sees as /d0; 0: no disk */
	uint64_t span_ns;    /* simulated time within which the body returns; 0: a day */
	uint64_t crash_at;   /* number of the wait at which the process crashes, once; 0: none */
	double crash_rate;   /* probability of a crash at each wait */
};

/* A simulation whose seed and trace a failed check prints. */
struct sim_shown {
	const struct sim *sim;
	uint64_t seed;
};

static inline void sim_shown_print(void *ctx)
{
	const struct sim_shown *shown = ctx;
	fprintf(stderr, "seed %" PRIu64 "\n", shown->seed);
	sim_trace_print(shown->sim, stderr, 40);
}

/*
 * Runs body(arg) in a simulation of the test's first seed. A process that crashed restarts and runs the body again,
 * until it returns without a crash. Returns how often the process started.
 */
static inline uint64_t sim_test_once(const struct sim_test *t, void (*body)(void *arg), void *arg)
{
	struct sim_config config;
	uint64_t seed = t->seed == 0 ? 1 : t->seed;
	sim_config_init(&config, seed, 0);
	config.rate[SIM_CRASH_AT_WAIT] = t->crash_rate;
	struct sim *sim = sim_open(&config);
	CHECK(sim != NULL);
	struct sim_shown shown = {.sim = sim, .seed = seed};
	check_hook_set(sim_shown_print, &shown);
	struct sim_node *node = sim_node_add(sim, "n1", 0);
	if (t->disk_bytes != 0)
		sim_disk_add(node, "d0", t->disk_bytes);
	sim_node_start(node, body, arg);
	if (t->crash_at != 0)
		sim_node_crash_at(node, t->crash_at, false);
	sim_run(sim, t->span_ns == 0 ? 24ULL * 3600 * NS_PER_S : t->span_ns);
	CHECK(!sim_node_running(node));
	uint64_t lives = sim_node_lives(node);
	check_hook_set(NULL, NULL);
	sim_close(sim);
	return lives;
}

/* Runs body(arg) in the simulations of a test. */
static inline void sim_test_run_with(const struct sim_test *t, void (*body)(void *arg), void *arg)
{
	struct sim_test one = *t;
	one.seed = t->seed == 0 ? 1 : t->seed;
	for (uint64_t i = 0; i < (t->seeds == 0 ? 1 : t->seeds); i++, one.seed++)
		(void)sim_test_once(&one, body, arg);
}

/* Runs body(arg) in one simulation. */
static inline void sim_test_run(void (*body)(void *arg), void *arg)
{
	sim_test_run_with(&(struct sim_test){0}, body, arg);
}

/* Defines a cmocka test that runs in a simulation; its body follows. */
#define SIM_TEST(name, ...)                                                                       \
	static void name##_body(void *arg);                                                       \
	static void name(void **state)                                                            \
	{                                                                                         \
		(void)state;                                                                      \
		sim_test_run_with(&(struct sim_test){.seed = 1, __VA_ARGS__}, name##_body, NULL); \
	}                                                                                         \
	static void name##_body(void *arg)

#endif
