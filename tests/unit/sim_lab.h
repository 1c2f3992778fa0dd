// SPDX-License-Identifier: Apache-2.0
/*
 * A simulation of one node with one disk. A program of the test runs as the process of the node and restarts after a
 * crash; its argument tells how often it was started.
 */
#ifndef TESTS_SIM_LAB_H
#define TESTS_SIM_LAB_H

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
#include "rt/file.h"
#include "rt/rt.h"
#include "rt/sim.h"

#define MINUTE (60 * NS_PER_S)

struct lab {
	struct sim_config config;
	struct sim *sim;
	struct sim_node *node;
	struct sim_disk *disk;
	void (*program)(struct lab *lab, uint64_t life);
	uint64_t done_life; /* the last start whose program returned */
	/* used by the programs */
	uint64_t size_bytes;
	int rc;
	unsigned seen;
	uint64_t numbers[4];
	char text[64];
	uint8_t *bytes;
};

/* Ends the program at a failed check: cmocka's jump back to the test cannot leave a fiber. */
#define CHECK(cond)                                                                   \
	do {                                                                          \
		if (!(cond)) {                                                        \
			fprintf(stderr, "%s:%d: seed %llu: %s\n", __FILE__, __LINE__, \
				(unsigned long long)lab->config.seed, #cond);         \
			sim_trace_print(lab->sim, stderr, 40);                        \
			abort();                                                      \
		}                                                                     \
	} while (0)

static inline void lab_main(void *arg)
{
	struct lab *lab = arg;
	uint64_t life = sim_node_lives(lab->node);
	lab->program(lab, life);
	if (!rt_cancelled())
		lab->done_life = life;
	rt_shutdown_wait();
}

static inline void lab_open(struct lab *lab, uint64_t seed, void (*program)(struct lab *, uint64_t))
{
	*lab = (struct lab){.program = program, .size_bytes = 16 * MIB};
	sim_config_init(&lab->config, seed, 0);
}

static inline void lab_start(struct lab *lab)
{
	lab->sim = sim_open(&lab->config);
	assert_non_null(lab->sim);
	lab->node = sim_node_add(lab->sim, "n1", 0);
	lab->disk = sim_disk_add(lab->node, "d0", lab->size_bytes);
	sim_node_start(lab->node, lab_main, lab);
}

static inline bool lab_idle(void *arg)
{
	struct lab *lab = arg;
	return sim_node_running(lab->node) && lab->done_life == sim_node_lives(lab->node);
}

static inline void lab_finish(struct lab *lab)
{
	if (!sim_run_until(lab->sim, lab_idle, lab, 10 * MINUTE)) {
		fprintf(stderr, "seed %llu\n", (unsigned long long)lab->config.seed);
		fail_msg("the program does not end");
	}
}

static inline void lab_close(struct lab *lab)
{
	sim_close(lab->sim);
}

/* Runs a program once, without a crash. */
static inline void lab_run(struct lab *lab)
{
	lab_start(lab);
	lab_finish(lab);
	lab_close(lab);
}

/* Runs a program, crashes its process (power: with a power loss), and runs it again. */
static inline void lab_run_crash(struct lab *lab, bool power)
{
	lab_start(lab);
	lab_finish(lab);
	sim_node_crash(lab->node, power);
	lab_finish(lab);
	lab_close(lab);
}

static inline struct rt_file *must_open(struct lab *lab, const char *path, unsigned flags)
{
	struct rt_file *f;
	int rc = rt_file_open(&f, path, flags);
	if (rc != 0)
		fprintf(stderr, "%s: %d\n", path, rc);
	CHECK(rc == 0);
	return f;
}

static inline void put_file(struct lab *lab, const char *path, const char *text, bool sync)
{
	struct rt_file *f = must_open(lab, path, RT_WRITE | RT_CREATE | RT_TRUNC);
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
