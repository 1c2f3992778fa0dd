// SPDX-License-Identifier: Apache-2.0
/*
 * The admission threshold that adapts to the free flash: algorithm 1 of the BYOM paper.
 *
 * Files of category >= threshold are meant for flash. When flash is full, files that are meant for flash go to disk:
 * they spill. The spill is the share that spilled of all disk load (TCIO) that was meant for flash, over the jobs that
 * started in the last window_s seconds. Every interval_s seconds, at the arrival of a job:
 *
 *   spill > high   the threshold rises by one: fewer categories
 *   spill < low    the threshold falls by one: more categories
 *
 * within 1 and categories - 1. Spill is 0 when nothing was meant for flash, so that an empty flash opens up. Category 0
 * (a file that costs more on flash) is never admitted.
 *
 * Example: 15 categories, tolerance 0.01 to 0.15. In the window, jobs with a load of 2 disks were meant for flash; one
 * of 0.5 disks found only half of its space. The spill is 0.25 / 2 = 0.125: the threshold stays.
 *
 * The window is kept as sums in THRESHOLD_SLOTS slots of time, so that memory is bounded whatever the load is, and
 * servers can add up what each of them observed. A job leaves the window up to one slot early.
 *
 * Invariants:
 *   1. 1 <= level <= categories - 1.
 *   2. In every slot 0 <= spilled <= meant.
 *   3. Time does not go back: an earlier time counts as the latest one.
 */
#ifndef PLACEMENT_THRESHOLD_H
#define PLACEMENT_THRESHOLD_H

#include <stdbool.h>
#include <stdint.h>

#define THRESHOLD_SLOTS 64u
#define THRESHOLD_CATEGORIES_MAX 64u
#define THRESHOLD_UNKNOWN (-1) /* category of a file whose client named none */

struct threshold_config {
	uint32_t categories; /* with category 0; 2 to THRESHOLD_CATEGORIES_MAX */
	double window_s;     /* jobs that started in this time count */
	double interval_s;   /* least time between two changes */
	double low, high;    /* tolerance range of the spill, 0 <= low <= high <= 1 */
};

extern const struct threshold_config threshold_default;

struct threshold_slot {
	int64_t number; /* start of the slot, in slots since time 0 */
	double meant;   /* disk load that was meant for flash */
	double spilled; /* the part of it that went to disk */
};

struct threshold {
	struct threshold_config config;
	uint32_t level; /* categories from here up are admitted */
	bool decided;   /* the level was decided at last_s */
	double last_s, now_s;
	struct threshold_slot slots[THRESHOLD_SLOTS];
};

/* Begins with level 1. Returns 0, or -EINVAL for a configuration out of range. */
int threshold_init(struct threshold *t, const struct threshold_config *config);

/* Reports whether a file of this category is meant for flash; first adapts the level when that is due. */
bool threshold_admit(struct threshold *t, double now_s, int category);

/*
 * Adds a job that was meant for flash: its disk load (if it were on disk) and the share of it that spilled, 0 to 1.
 * Loads that are not finite or below 0 count as 0. A start after the latest time counts as that time; a job that
 * started before the window is ignored.
 */
void threshold_add(struct threshold *t, double start_s, double load, double spilled_share);

/* Returns the spill in the window that ends at now_s. */
double threshold_spill(const struct threshold *t, double now_s);

#endif
