// SPDX-License-Identifier: Apache-2.0
/* Blocks in memory and a stop-watch for the benchmark of codes. */
#ifndef BENCH_BENCH_CODE_FIXTURE_H
#define BENCH_BENCH_CODE_FIXTURE_H

#include <stdint.h>

#include "code/codec.h"
#include "code/plan.h"

struct block {
	struct codec *codec;
	int data, total;
	size_t len;
	uint8_t *memory; /* chunk after chunk, each on its own page */
	uint8_t **chunk;
	struct iovec *iov;
	struct sg *sg;
};

/* Fills a block with random bytes. Exits when the encoding is invalid or memory is short. */
void block_init(struct block *b, const char *encoding, size_t len);
void block_fini(struct block *b);

/* A function to time, which does its work once. */
struct work {
	void (*run)(void *arg);
	void *arg;
	double bytes; /* of user data or of rebuilt chunks, for one run */
};

struct speed {
	double gb_s; /* best of all rounds */
};

/*
 * Times a and b in turn, slice by slice, in processor time of this thread. Returns the best speed
 * of a relative to the best of b: other processes can only make a slice slower.
 */
double compare(const struct work *a, const struct work *b, struct speed *speed_a,
	       struct speed *speed_b);

/* Returns the best of a few slices. */
struct speed measure(const struct work *w, double slice_s);

#endif
