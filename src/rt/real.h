// SPDX-License-Identifier: Apache-2.0
/*
 * The real world: one io_uring for each loop and thread; files, clock and network of the machine.
 */
#ifndef RT_REAL_H
#define RT_REAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

#define RT_OFFLOAD_THREADS 4

struct rt_real_options {
	size_t fiber_max;         /* most fibers of a loop; 0: 16384 */
	unsigned offload_threads; /* number of offload threads; 0: RT_OFFLOAD_THREADS */
	/* SIGTERM and SIGINT end rt_shutdown_wait, and a second one kills the process; SIGHUP reopens the
	 * file of the log and ends rt_hangup_wait */
	bool signals;
};

/*
 * Runs main(arg) as the first fiber on this thread. When main returns, cancels the other fibers, waits until they
 * have ended, and returns 0. Returns -ENOSYS, with a logged explanation, if io_uring is not
 * available.
 */
int rt_real_run(const struct rt_real_options *options, void (*main)(void *), void *arg);

/*
 * Parses the number of loops of a process: a whole number from 1 to RT_TEAM_MAX, or "auto", the number of processors
 * that this process may use. Returns 0 or -EINVAL.
 */
int rt_real_threads(const char *text, unsigned *out);

/* Returns the size of the machine's memory in bytes, used or not; 0 when it is unknown. */
uint64_t rt_real_memory_bytes(void);

/* What this process uses of its machine. A value that the system does not tell is 0. */
struct rt_real_usage {
	double cpu_s;   /* processor time, of user and system */
	double start_s; /* wall clock of the start of the process */
	uint64_t resident_bytes, virtual_bytes;
	uint64_t open_files, files_max, threads;
};
void rt_real_usage(struct rt_real_usage *out);

/*
 * Maps zeroed memory, in large pages where available. Pages take physical memory only once they are touched.
 * Returns NULL when out of memory. rt_real_unmap accepts NULL.
 */
void *rt_real_map(size_t bytes);
void rt_real_unmap(void *map, size_t bytes);

/*
 * Sets up the log: it prints messages of this level and above, with the time of the machine's wall
 * clock.
 */
void rt_real_log(enum log_level level);

#endif
