// SPDX-License-Identifier: Apache-2.0
/*
 * A simulation of one node with one disk. A program of the test runs as the process of the node and restarts after a
 * crash; its argument tells how often it was started.
 */
#ifndef TESTS_SIM_DISK_FIXTURE_H
#define TESTS_SIM_DISK_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/rng.h"
#include "check.h"
#include "rt/file.h"
#include "rt/rt.h"
#include "rt/sim.h"

#define MINUTE (60 * NS_PER_S)

struct fixture {
	struct sim_config config;
	struct sim *sim;
	struct sim_node *node;
	struct sim_disk *disk;
	void (*program)(struct fixture *fx, uint64_t life);
	uint64_t done_life; /* number of the last start whose program returned */
	/* for the test's programs: */
	uint64_t size_bytes;
	int rc;
	unsigned seen;
	uint64_t numbers[4];
	char text[64];
	uint8_t *bytes;
};

static inline void fixture_print(void *ctx)
{
	struct fixture *fx = ctx;
	fprintf(stderr, "seed %llu\n", (unsigned long long)fx->config.seed);
	sim_trace_print(fx->sim, stderr, 40);
}

/* Opens the simulation of the fixture; a failed check prints its seed and trace. */
static inline void fixture_sim_open(struct fixture *fx)
{
	fx->sim = sim_open(&fx->config);
	assert_non_null(fx->sim);
	check_hook_set(fixture_print, fx);
}

static inline void fixture_close(struct fixture *fx)
{
	check_hook_set(NULL, NULL);
	sim_close(fx->sim);
}

static inline void fixture_main(void *arg)
{
	struct fixture *fx = arg;
	uint64_t life = sim_node_lives(fx->node);
	fx->program(fx, life);
	if (!rt_cancelled())
		fx->done_life = life;
	rt_shutdown_wait();
}

static inline void fixture_open(struct fixture *fx, uint64_t seed,
				void (*program)(struct fixture *, uint64_t))
{
	*fx = (struct fixture){.program = program, .size_bytes = 16 * MIB};
	sim_config_init(&fx->config, seed, 0);
}

static inline void fixture_start(struct fixture *fx)
{
	fixture_sim_open(fx);
	fx->node = sim_node_add(fx->sim, "n1", 0);
	fx->disk = sim_disk_add(fx->node, "d0", fx->size_bytes);
	sim_node_start(fx->node, fixture_main, fx);
}

static inline bool fixture_idle(void *arg)
{
	struct fixture *fx = arg;
	return sim_node_running(fx->node) && fx->done_life == sim_node_lives(fx->node);
}

static inline void fixture_finish(struct fixture *fx)
{
	if (!sim_run_until(fx->sim, fixture_idle, fx, 10 * MINUTE)) {
		fixture_print(fx);
		fail_msg("the program does not end");
	}
}

/* Runs a program once, without a crash. */
static inline void fixture_run(struct fixture *fx)
{
	fixture_start(fx);
	fixture_finish(fx);
	fixture_close(fx);
}

/* Runs a program, crashes its process (power: with a power loss), and runs it again. */
static inline void fixture_run_crash(struct fixture *fx, bool power)
{
	fixture_start(fx);
	fixture_finish(fx);
	sim_node_crash(fx->node, power);
	fixture_finish(fx);
	fixture_close(fx);
}

static inline struct rt_file *must_open(const char *path, unsigned flags)
{
	struct rt_file *f;
	int rc = rt_file_open(&f, path, flags);
	if (rc != 0)
		fprintf(stderr, "%s: %d\n", path, rc);
	CHECK(rc == 0);
	return f;
}

static inline void put_file(const char *path, const char *text, bool sync)
{
	struct rt_file *f = must_open(path, RT_WRITE | RT_CREATE | RT_TRUNC);
	CHECK(rt_file_write(f, text, strlen(text), 0) == 0);
	CHECK(!sync || rt_file_sync(f) == 0);
	rt_file_close(f);
}

/* Returns the length of the file; -ENOENT. */
static inline int64_t get_file(const char *path, char *out, size_t size)
{
	struct rt_file *f;
	int rc = rt_file_open(&f, path, RT_READ);
	if (rc != 0)
		return rc;
	int64_t n = rt_file_read(f, out, size - 1, 0);
	if (n >= 0)
		out[n] = '\0';
	rt_file_close(f);
	return n;
}

static inline bool file_is(const char *path, const char *text)
{
	char buf[64];
	return get_file(path, buf, sizeof(buf)) == (int64_t)strlen(text) && strcmp(buf, text) == 0;
}

#endif
