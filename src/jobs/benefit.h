// SPDX-License-Identifier: Apache-2.0
/*
 * Which data set gets how much of the cache: all of it, a pinned part, two windows, or nothing.
 *
 * What an option saves is the number of accelerators that it frees: a job with n accelerators whose step takes t_miss
 * without a cache and t_option with it gives n (1 - t_option / t_miss). A job that does not wait for data saves nothing,
 * whatever it reads. The best choice of one option for each data set within the size of the cache is a multiple-choice
 * knapsack, which benefit_exact solves.
 *
 * The Quiver paper (FAST '20, section 5.3) counts n t_miss / t_hit, which is n for a job without gain, gives the same number
 * to all of a data set and to two windows of it, and fills the cache greedily by benefit for each byte. benefit_greedy does
 * that, as a baseline.
 *
 * Worked example, 110 GB: A saves 4.0 with all of its 90 GB and 3.5 with windows of 30 GB, B saves 2.0 with all of its 60 GB
 * and 0.5 with windows of 12 GB. The exact choice is windows of A and all of B: 5.5 in 90 GB. The greedy rule begins with
 * windows of both, then replaces those of A, because all of A has the better ratio, and has no room left for B: 4.5.
 *
 * The solver keeps the states (bytes, saved) of the first i data sets that no other state dominates, sorted by bytes. It is
 * exact while there are at most BENEFIT_STATES_MAX of them for all data sets together; beyond that it rounds sizes up, to
 * a part of the capacity that bounds the states.
 */
#ifndef JOBS_BENEFIT_H
#define JOBS_BENEFIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENEFIT_SETS_MAX 1024
#define BENEFIT_OPTIONS_MAX 16
#define BENEFIT_STATES_MAX (1u << 22)
#define BENEFIT_NOTHING UINT32_MAX /* the choice of no option */

struct benefit_option {
	uint64_t bytes; /* of the cache */
	double saved;   /* accelerators; finite and not negative */
	double claimed; /* what the greedy rule takes for it */
};

struct benefit_set {
	struct benefit_option options[BENEFIT_OPTIONS_MAX];
	uint32_t count;
};

/* Returns the accelerators that an option saves, from the times of a step. Times that make no sense save nothing. */
double benefit_saved(double accelerators, double t_option, double t_miss);
/* Returns what the paper's rule counts for the same. */
double benefit_claimed(double accelerators, double t_option, double t_miss);

/* Chooses the option of each set that together save most within the capacity. choice[i] is the index of an option, or
 * BENEFIT_NOTHING. -EINVAL: too many sets or options, or a number that is no saving; -ENOMEM. */
int benefit_exact(const struct benefit_set *sets, size_t n, uint64_t capacity, uint32_t *choice);
/* The paper's rule: the option with the most benefit for each byte first, as long as it fits; an option of a set takes the
 * place of a smaller one. */
int benefit_greedy(const struct benefit_set *sets, size_t n, uint64_t capacity, uint32_t *choice);

/* Returns what a choice saves, and its bytes (NULL: not wanted). */
double benefit_of(const struct benefit_set *sets, size_t n, const uint32_t *choice,
		  uint64_t *bytes);

/*
 * Decides again: like benefit_exact, but a choice that fits and was made before stays unless a new one saves more by the
 * margin (0.05: 5%), so that measurements that vary do not move data all the time. before[i] that is no option of the set
 * counts as BENEFIT_NOTHING. Sets *changed.
 */
int benefit_decide(const struct benefit_set *sets, size_t n, uint64_t capacity, double margin,
		   const uint32_t *before, uint32_t *choice, bool *changed);

#endif
