// SPDX-License-Identifier: Apache-2.0
/*
 * The real world: one io_uring per loop and thread, the machine's files, clock and network.
 */
#ifndef RT_REAL_H
#define RT_REAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

struct rt_real_options {
	size_t fiber_max;         /* per loop; 0: 16384 */
	unsigned offload_threads; /* 0: 4 */
	bool signals;             /* SIGTERM and SIGINT end rt_shutdown_wait; a second one kills */
};

/*
 * Run main(arg) as the first fiber on this thread and return when it has returned; what is still
 * running then is cancelled and awaited. -ENOSYS with a logged explanation where io_uring is missing.
 */
int rt_real_run(const struct rt_real_options *options, void (*main)(void *), void *arg);

/* What the machine has, whoever uses it; 0: it does not tell. */
uint64_t rt_real_memory_bytes(void);

/*
 * Memory that is zero and takes room as it is touched, in large pages where there are some. NULL: there is no
 * more. Unmap takes NULL.
 */
void *rt_real_map(size_t bytes);
void rt_real_unmap(void *map, size_t bytes);

/* Log from this level on, with the time of this machine's clock. */
void rt_real_log(enum log_level level);

#endif
