// SPDX-License-Identifier: Apache-2.0
/*
 * How jobs that share the windows of a data set (dataset/windows.h) stay together, so that two windows in a cache are enough
 * for all of them and the disks send each byte once in an epoch.
 *
 * Jobs of different pace drift apart: with 2% by one window of fifty in an epoch, and by more in each further one. A job
 * that is two windows ahead of another needs a third window in the cache. Two rules prevent that; both are pure functions of
 * the windows that the other jobs read.
 *
 *   joining  An epoch begins at the current window of the data set: that in which, together with the one before it, most of
 *            the others are. A job that goes round with the others keeps its own next window. The first window of each
 *            epoch is part of the job's state, so the order stays a function of (seed, epoch, first window, position).
 *   waiting  A job does not enter a window while another one reads the window two before it. It waits no longer than
 *            TOGETHER_PATIENCE of the time that it took for its last window, so jobs whose paces differ by less stay
 *            together at the pace of the slowest, and a much slower job delays each other one once in a round.
 *
 *     10 windows, jobs A B C in 4 4 3     D joins at 4     A may enter 5 only when C has left 3
 *
 * With fewer than TOGETHER_WINDOWS_MIN windows "two before" cannot be told from "ahead", and nobody waits.
 */
#ifndef JOBS_TOGETHER_H
#define JOBS_TOGETHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOGETHER_PATIENCE 0.05
#define TOGETHER_WINDOWS_MIN 5u

/* Returns the window in which an epoch begins, for a job that would else begin in `own`. others: the windows that the n other
 * jobs of the data set read now, each below `windows`. */
uint32_t together_join(const uint32_t *others, size_t n, uint32_t windows, uint32_t own);

/* Returns whether a job waits before it enters a window. */
bool together_waits(const uint32_t *others, size_t n, uint32_t windows, uint32_t enters);

/* Returns the longest wait of a job that took so long for its last window; in the same unit. */
double together_patience(double window_time);

#endif
