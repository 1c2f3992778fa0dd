// SPDX-License-Identifier: Apache-2.0
/*
 * The order contract `free`: a job takes next what a cache has, among what it has not read in this epoch.
 *
 * Nothing but bookkeeping decides that each sample is delivered exactly once: a bitmap of the samples of the epoch that were
 * taken. The samples that are left when an epoch begins, or goes on, are permuted by the seed and divided among the ranks by
 * order_step; a rank takes its share in any order. So ranks need not talk to each other, and all have the same number of
 * steps. Which sample a rank takes when depends on the cache, so a run is repeated only from a log of the decisions: the
 * samples in the order in which they were taken (free_take_again).
 *
 *     world 2, batch 2, 8 samples, permuted 5 2 7 0 1 6 3 4     rank 0 owns 5 2 1 6, rank 1 owns 7 0 3 4
 *     rank 0 looks at 5 2 1 6; the cache has 1 and 6            step 0: 1 6     step 1: 5 2
 *
 * Resuming. Each rank saves its bitmap. The bitmaps of all ranks of a job together (free_merge) are the state of the epoch:
 * any number of ranks goes on with what is left.
 *
 * Memory: 1 bit for each sample of the data set, 8 bytes for each sample of the rank's share.
 */
#ifndef DATASET_FREE_H
#define DATASET_FREE_H

#include <stdbool.h>
#include <stddef.h>

#include "dataset/order.h"

struct free_epoch;

/* Returns the bytes of a bitmap of so many samples. */
static inline uint64_t free_bytes(uint64_t samples)
{
	return (samples + 7) / 8;
}

/* Checks a bitmap from outside: no bit is set behind the last sample. */
bool free_bitmap_ok(const uint8_t *used, uint64_t samples);
/* Adds the bits of another bitmap. */
void free_merge(uint8_t *used, const uint8_t *other, uint64_t samples);
/* Returns the number of samples that are not in a bitmap (NULL: all). */
uint64_t free_count_left(const uint8_t *used, uint64_t samples);

/* Begins what is left of an epoch for one rank; used (NULL: nothing was) is copied. -EINVAL: impossible numbers or bitmap;
 * -ENOMEM. */
int free_open(struct free_epoch **out, uint64_t samples, const uint8_t *used, uint64_t seed,
	      uint64_t epoch, const struct order_reader *who);
void free_close(struct free_epoch *f);

/* Returns how many samples the next step of the rank has; 0: none, or the epoch has ended (free_left tells). */
uint64_t free_step_count(const struct free_epoch *f);
/* Returns how many samples the rank has not taken. */
uint64_t free_left(const struct free_epoch *f);

/* Writes up to max samples to choose from, and returns their number: at least free_step_count, if max is. */
uint64_t free_candidates(const struct free_epoch *f, uint64_t *out, uint64_t max);
/* Takes the step: of the first n candidates those with cached[i], in their order, then the others, until the step is full.
 * Writes the samples to out, which has room for free_step_count. Returns their number. */
uint64_t free_take(struct free_epoch *f, const uint8_t *cached, uint64_t n, uint64_t *out);
/* Takes the samples of a log in place of a decision. -EINVAL: they are not those of a step of this rank. */
int free_take_again(struct free_epoch *f, const uint64_t *samples, uint64_t n);

#endif
