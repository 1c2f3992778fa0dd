// SPDX-License-Identifier: Apache-2.0
/*
 * A progress line on a terminal; nothing in a pipe.
 *
 *     put  412.0 MiB of 1.2 GiB  34%  210.3 MiB/s  ETA 4 s  1822 files
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *what; /* name of the work, at the beginning of the line */
	const char *unit; /* of the count at the end of the line; progress_begin sets "files" */
	bool on; /* the line is drawn: standard error is a terminal, and --quiet is not given */
	double start; /* begin of the work, seconds of fs_clock */
	atomic_ullong bytes, files;
	atomic_ullong total_bytes; /* bytes to transfer in all; 0: not known */
	atomic_ullong shown_ms;    /* time of the last drawing, since start */
};

/* Starts the progress line of some work and its clock. */
void progress_begin(struct progress *p, const char *what, bool quiet);
/* Adds to the counts, and draws the line if the last drawing is old enough. Any thread may call it. */
void progress_add(struct progress *p, uint64_t bytes, uint64_t files);
/* Sets the counts, and draws the line if the last drawing is old enough. One thread may call it. */
void progress_set(struct progress *p, uint64_t bytes, uint64_t files);
/* Erases the line until it is drawn again, so that the caller can print. */
void progress_hide(const struct progress *p);
/* Erases the line. Returns the seconds since progress_begin. */
double progress_end(struct progress *p);

#endif
