// SPDX-License-Identifier: Apache-2.0
/*
 * The order of an epoch as a function: which sample is read at which position. Nothing is stored and nothing is drawn,
 * so every process computes the same order, on every run, from five numbers.
 *
 *   sequential  position p is sample p
 *   window      units of ORDER_UNIT neighbouring samples are permuted; their concatenation is cut into windows, and each
 *               window is permuted sample by sample. Samples are packed in shuffled order, so neighbours are a fair
 *               sample; a window is read from few blocks and needs few pages of the index
 *   global      one permutation of all samples
 *
 * Ranks. A step is one batch on every rank. Step s, counted from position `from`, has the positions
 * from + s * world * batch ... in rising order, and rank r reads the r-th part of `batch` positions:
 *
 *     world 2, batch 3, from 0     step 0: rank 0 reads 0 1 2, rank 1 reads 3 4 5     step 1: 6 7 8, 9 10 11
 *
 * The last step of an epoch has fewer positions. They are divided evenly: the first ranks read one more.
 *
 * State. All ranks have read the positions below `from`, and no other. So (seed, epoch, from) is the state of a job at the
 * end of a step, and it can go on with any other world size and batch size: no position is read twice or left out.
 *
 * Invariants
 *   O1  for each seed and epoch the map from positions to samples is one to one
 *   O2  the parts of the ranks are disjoint, and together they are all positions
 *   O3  the results never change: states of jobs depend on them (tests/unit/test_dataset_order.c has golden values)
 */
#ifndef DATASET_ORDER_H
#define DATASET_ORDER_H

#include <stdint.h>

enum order_kind { ORDER_SEQUENTIAL, ORDER_WINDOW, ORDER_GLOBAL };

#define ORDER_UNIT 1024ULL
#define ORDER_SAMPLES_MAX (1ULL << 48)
#define ORDER_WORLD_MAX (1ULL << 20)
#define ORDER_BATCH_MAX (1ULL << 32)
#define ORDER_WINDOW_DEFAULT (64 * ORDER_UNIT)

struct order {
	enum order_kind kind;
	uint64_t samples;
	uint64_t window; /* samples of a window */
	uint64_t key;    /* of the seed and the epoch */
};

/* Prepares the order of an epoch. window 0: ORDER_WINDOW_DEFAULT. -EINVAL: no samples, or too many; a kind that does not
 * exist; a window that is no multiple of ORDER_UNIT. */
int order_init(struct order *o, enum order_kind kind, uint64_t samples, uint64_t window,
	       uint64_t seed, uint64_t epoch);

/* Returns the sample at a position < samples, and the position of a sample. */
uint64_t order_sample(const struct order *o, uint64_t position);
uint64_t order_position(const struct order *o, uint64_t sample);

/* Writes the samples of `count` positions; the last one must be below `samples`. */
void order_samples(const struct order *o, uint64_t position, uint64_t count, uint64_t *out);

/* The positions [first, first + count) that a rank reads in a step. */
struct order_share {
	uint64_t first, count;
};

/* A reader: its rank, the number of ranks, and the positions that it reads in a full step. The caller checks the limits. */
struct order_reader {
	uint64_t world, rank, batch;
};

/* Returns what a rank reads in a step, counted from position `from`. count is 0 behind the end. */
struct order_share order_step(uint64_t samples, uint64_t from, uint64_t step,
			      const struct order_reader *reader);

/* Returns the image of x < n under the permutation of this key, and its preimage. n <= ORDER_SAMPLES_MAX. */
uint64_t order_permute(uint64_t n, uint64_t key, uint64_t x);
uint64_t order_unpermute(uint64_t n, uint64_t key, uint64_t x);

#endif
