// SPDX-License-Identifier: Apache-2.0
/*
 * What earlier jobs did, by key: a key is the hash of a pipeline, of a user, or of a word in a name. Only jobs that
 * ended are added, so what is looked up when a job starts was known at that time.
 *
 * Each key has means of its jobs in which recent ones weigh more: with a memory of m, a new job has the weight 1 / m,
 * or 1 / n while there are fewer than m.
 *
 * The table has a fixed number of slots. A key can be in the PAST_PROBES slots from its hash on; when all of them
 * are taken, it replaces the one that was added to longest ago.
 */
#ifndef PLACEMENT_PAST_H
#define PLACEMENT_PAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAST_SLOTS_MAX (1u << 18)
#define PAST_PROBES 8u

enum past_value {
	PAST_SIZE,    /* binary logarithm of the bytes kept */
	PAST_LIFE,    /* of the seconds */
	PAST_DENSITY, /* of the bytes transferred for each byte kept */
	PAST_LOAD,    /* of the disk seconds for each second */
	PAST_SCORE,   /* score of the savings, see feature.h */
	PAST_VALUES
};

/* What one job did. All values are finite. */
struct past_job {
	float value[PAST_VALUES];
	float worth; /* savings for each byte-second, as a multiple of the cost of flash */
	float held;  /* byte-seconds */
};

struct past_entry {
	uint64_t key; /* never 0 in a used slot */
	double last_s;
	float jobs; /* at most the memory */
	float mean[PAST_VALUES];
	float spread; /* mean square of the deviation of the score */
	float last;   /* score of the last job */
	float gained,
		held; /* mean savings and byte-seconds: their ratio is the worth of all bytes */
};

struct past {
	uint32_t slots; /* 0 or a power of two */
	struct past_entry *list;
};

/* Returns 0, -EINVAL for a number of slots that is not a power of two within the limit, or -ENOMEM. */
int past_init(struct past *h, uint32_t slots);
void past_fini(struct past *h);

/* Copies. Returns 0 or -ENOMEM. */
int past_copy(struct past *to, const struct past *from);

/* Returns what is known of a key, or NULL. */
const struct past_entry *past_find(const struct past *h, uint64_t key);

/* Adds a job that ended at the time. memory >= 1. */
void past_add(struct past *h, uint64_t key, double end_s, const struct past_job *job, float memory);

/* Reports whether an entry read from a file may stand in the slot. */
bool past_valid(const struct past *h, uint32_t slot, const struct past_entry *e);

#endif
