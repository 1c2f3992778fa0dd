// SPDX-License-Identifier: Apache-2.0
/*
 * Computation over all cores whose answer does not depend on how many there are. The work is cut
 * into numbered tasks; each has a random stream of its own, made from the seed and its number, and
 * writes only to what belongs to its number. Whoever adds up does so afterwards, in the order of the
 * numbers, so that sums of floating point numbers are the same, too.
 */
#ifndef ANALYSIS_WORK_H
#define ANALYSIS_WORK_H

#include <stdint.h>

struct rng;

#define WORK_THREADS_MAX 256

/* How far the work is. Called from the thread that called work_run(), a few times a second. */
struct work_progress {
	/* done and total are tasks; eta_s is a guess of what is left, or negative when there is none. */
	void (*report)(void *arg, uint64_t done, uint64_t total, double eta_s);
	double (*now_s)(void); /* a clock that only goes forward */
	void *arg;
};

struct work {
	uint64_t seed;
	uint32_t threads;                     /* 0: as many as there are cores */
	const struct work_progress *progress; /* or NULL */
};

/* Does one task: 0 or -errno. Called from any thread. */
typedef int work_fn(void *arg, uint64_t task, struct rng *rng);

/*
 * Runs tasks 0 to n - 1 and waits for them. After an error no further task begins; the error of the
 * lowest task that failed is returned, which is the same whatever the number of threads. -ENOMEM and
 * -EAGAIN when threads cannot be had.
 */
int work_run(const struct work *w, uint64_t n, work_fn *fn, void *arg);

/* The stream of a task, as work_run() makes it. */
void work_rng(uint64_t seed, uint64_t task, struct rng *rng);

/* How many threads work_run() uses for so many tasks. */
uint32_t work_threads(const struct work *w, uint64_t n);

#endif
