// SPDX-License-Identifier: Apache-2.0
/*
 * One line that tells how far long work has come, on a terminal; nothing in a pipe.
 *
 *     put  412.0 MiB of 1.2 GiB  34%  210.3 MiB/s  ETA 4 s  1822 files
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *what;
	bool on;
	double start;
	atomic_ullong bytes, files;
	atomic_ullong total_bytes; /* 0: not known */
	atomic_ullong shown_ms;    /* when it was last drawn */
};

void progress_begin(struct progress *p, const char *what, bool quiet);
/* From any thread. */
void progress_add(struct progress *p, uint64_t bytes, uint64_t files);
/* The same, with how much there is by now; from one thread. */
void progress_set(struct progress *p, uint64_t bytes, uint64_t files);
/* Takes the line away until it is drawn again, so that others may print. */
void progress_hide(const struct progress *p);
/* Takes the line away. Returns the seconds it took. */
double progress_end(struct progress *p);

#endif
