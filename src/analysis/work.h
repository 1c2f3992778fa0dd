// SPDX-License-Identifier: Apache-2.0
/*
 * Parallel computation with results that do not depend on the number of threads. The work is cut
 * into numbered tasks. Each task has a random stream of its own, made from the seed and the number
 * of the task, and writes only to the results of its number. The caller adds results afterwards in
 * the order of the tasks, so that sums of floating point numbers are the same, too.
 */
#ifndef ANALYSIS_WORK_H
#define ANALYSIS_WORK_H

#include <stdint.h>

struct rng;

#define WORK_THREADS_MAX 256

/* Reports progress. Called a few times a second in the thread that called work_run(). */
struct work_progress {
	/* done and total are tasks; eta_s is the estimated time left, or negative when unknown. */
	void (*report)(void *arg, uint64_t done, uint64_t total, double eta_s);
	double (*now_s)(void); /* a clock that only goes forward */
	void *arg;
};

struct work {
	uint64_t seed;
	uint32_t threads;                     /* number of threads; 0: one for each core */
	const struct work_progress *progress; /* reports progress; NULL: no reports */
};

/* Runs one task, in any thread. Returns 0 or -errno. */
typedef int work_fn(void *arg, uint64_t task, struct rng *rng);

/*
 * Runs tasks 0 to n - 1 and waits for them. After an error no further task begins. Returns 0, the
 * error of the lowest task that failed, which is the same for any number of threads, or -ENOMEM or
 * -EAGAIN when threads cannot be created.
 */
int work_run(const struct work *w, uint64_t n, work_fn *fn, void *arg);

#endif
