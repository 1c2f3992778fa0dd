// SPDX-License-Identifier: Apache-2.0
/*
 * Admission by a price that rises with the use of flash: our alternative to the threshold of the BYOM paper
 * (threshold.h).
 *
 * The use of flash, 0 to 1, is known when a block is placed. A file of category c may take flash until the use is
 *
 *   limit(c) = goal + (c - level) / span
 *
 * so the first half of the flash is open to ordinary files, and the last part is kept for the best ones, which may come
 * at any time. The level moves by span * (use - goal) in settle_s seconds: where flash stays fuller than the goal, all
 * categories lose; where it stays emptier, all gain. Categories of geometric depth (category.h) make this an exponential
 * price of flash in its use, as in online knapsack algorithms.
 *
 * The level begins in the middle: with a goal above a half, an empty flash lowers it faster than a full one raises it, so a
 * level that is too high is corrected sooner than one that is too low.
 *
 * The threshold of the paper learns of too much demand when files spill, at the next interval. The price reacts with
 * each block, and one large file cannot take what is left.
 *
 * Example: goal 0.5, span 5, level 8. Category 8 is admitted below a use of 0.5, category 10 below 0.9, category 11
 * always, category 5 never. After an hour at a use of 1 (settle_s 14400) the level is 8.6.
 *
 * Invariants:
 *   1. 1 - span <= level <= categories - 1 + span, so that it turns round within a bounded time.
 *   2. Category 0, and an unknown one, are never admitted.
 *   3. Time does not go back: an earlier time counts as the latest one.
 */
#ifndef PLACEMENT_PRICE_H
#define PLACEMENT_PRICE_H

#include <stdbool.h>
#include <stdint.h>

struct price_config {
	uint32_t categories; /* with category 0; 2 to THRESHOLD_CATEGORIES_MAX */
	double goal;         /* use of flash at which the level stays, 0 to 1 */
	double span; /* categories between the price of empty flash and that of full flash; above 0 */
	double settle_s; /* time in which the level follows a wrong use; at least 1 */
	double begin;    /* level at which it begins, 1 to categories - 1 */
};

extern const struct price_config price_default;

struct price {
	struct price_config config;
	double level;
	double last_s;
	bool begun; /* last_s is set */
};

/* Returns 0 or -EINVAL. */
int price_init(struct price *p, const struct price_config *config);

/* Moves the level to a time; `use` is the share of flash that was used since the last call. */
void price_move(struct price *p, double now_s, double use);

/* Sets the level, within its bounds; ignores one that is not finite. */
void price_set_level(struct price *p, double level);

/* Returns the use up to which files of this category may take flash, 0 to 1. */
double price_limit(const struct price *p, double category);

#endif
