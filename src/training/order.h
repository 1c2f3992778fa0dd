// SPDX-License-Identifier: Apache-2.0
/* The order in which an epoch visits the samples: a permutation that follows from seed and epoch alone. */
#ifndef TRAINING_ORDER_H
#define TRAINING_ORDER_H

#include <stdint.h>

#include "training/job.h"

/*
 * Fills out[0..n) with a permutation of 0..n-1. TRAIN_STRICT: any; TRAIN_WINDOW: the samples are cut in windows of that
 * size, whose order is drawn, and each is permuted inside; TRAIN_STORED: 0, 1, 2...
 */
void train_order(uint32_t *out, uint32_t n, enum train_order order, uint32_t window, uint64_t seed,
		 uint64_t epoch);

#endif
