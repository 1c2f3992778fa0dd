// SPDX-License-Identifier: Apache-2.0
/*
 * The order contract `window`: windows of a data set that all its jobs share. While the jobs read one window the cache gets
 * the next one, so that two windows are enough to serve any number of jobs of like pace, each from its own permutation.
 *
 * Stripes. The samples are cut into stripes of neighbours, and window w of K has the stripes w, w + K, w + 2 K, ... So each
 * window is a fair sample of the data set even where its order means something (a version that was appended to, samples
 * sorted by length), and is read in pieces of at least a block where samples are large enough:
 *
 *     stripes        0 1 2 3 4 5 6 7 8 9        K = 3
 *     window 0       0     3     6     9
 *     window 1         1     4     7
 *     window 2           2     5     8
 *
 * An epoch reads the windows first, first + 1, ..., K - 1, 0, ..., first - 1, each completely before the next one, and then
 * the next epoch the same: all jobs go round in the same direction, so that a job that joins others at their window stays
 * with them. Inside, a window is permuted as a data set of its own with the order `window` of order.h, by the seed of the
 * job, the epoch and the window.
 *
 * The shape (stripe, K) is a function of the data set alone, so jobs that never met have the same windows. The order is a
 * function of (shape, first, seed, epoch, position), and order_step divides the positions among ranks; so the state of a job
 * is a few integers, and every invariant of order.h holds here, too:
 *
 *   O1  for each shape, first window, seed and epoch the map from positions to samples is one to one
 *   O3  shapes and orders never change
 */
#ifndef DATASET_WINDOWS_H
#define DATASET_WINDOWS_H

#include <stdbool.h>

#include "dataset/order.h"

#define WINDOWS_SHARE_ALL 1000000u /* shares are in millionths */
#define WINDOWS_SHARE_DEFAULT 100000u
#define WINDOWS_BYTES_MAX 15000000000ULL /* of a window, unless one stripe is larger */
#define WINDOWS_STRIPE_BYTES (64ULL << 20)

struct windows_shape {
	uint64_t samples;
	uint64_t stripe; /* samples of a stripe: a multiple of ORDER_UNIT */
	uint64_t count;  /* windows */
};

/* Computes the shape of a data set of so many samples and bytes. A window has at most this share (1 to WINDOWS_SHARE_ALL)
 * of the stripes, rounded up, and at most WINDOWS_BYTES_MAX. -EINVAL: no samples, too many, or an impossible share. */
int windows_shape(struct windows_shape *out, uint64_t samples, uint64_t bytes, uint32_t share);

/* Returns whether a shape from outside is possible. */
bool windows_shape_ok(const struct windows_shape *s);

struct windows {
	struct windows_shape shape;
	uint64_t first; /* window in which epochs begin */
	uint64_t local; /* samples that are shuffled together: `window` of order_init */
	uint64_t seed, epoch;
};

/* -EINVAL: an impossible shape, no such window, or a local window that order_init refuses. */
int windows_init(struct windows *w, const struct windows_shape *shape, uint64_t first,
		 uint64_t local, uint64_t seed, uint64_t epoch);

/* Write the samples of `count` positions, and return the position of a sample. */
void windows_samples(const struct windows *w, uint64_t position, uint64_t count, uint64_t *out);
uint64_t windows_position(const struct windows *w, uint64_t sample);

/* Return the window that a sample is in, the samples of a window, and one of them (in the stored order). */
uint64_t windows_of(const struct windows_shape *s, uint64_t sample);
uint64_t windows_len(const struct windows_shape *s, uint64_t window);
uint64_t windows_member(const struct windows_shape *s, uint64_t window, uint64_t i);

/* Returns the window that a position < samples reads, and the positions [*begin, *end) that read it. */
uint64_t windows_at(const struct windows *w, uint64_t position, uint64_t *begin, uint64_t *end);

#endif
