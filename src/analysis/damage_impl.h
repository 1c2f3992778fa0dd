// SPDX-License-Identifier: Apache-2.0
/* The interface of the two kinds of tables of damage.h: by losses, and by stripe sets. */
#ifndef ANALYSIS_DAMAGE_IMPL_H
#define ANALYSIS_DAMAGE_IMPL_H

#include "analysis/damage.h"

struct damage_ops {
	size_t (*doubles)(const struct level *level); /* returns the size of the table in doubles */
	/* returns how many doubles of the table are in use */
	size_t (*used)(const struct damage *d);
	void (*clear)(struct damage *d); /* removes all losses */
	/* applies the failure of a member; returns the expected number of lost stripes */
	double (*hit)(struct damage *d, uint32_t member, double part);
	/* makes the unknown losses of a member known; called before d->unknown is lowered */
	void (*detect)(struct damage *d, uint32_t member);
	/*
	 * Returns the largest number of known losses of a stripe, and in *count the number of
	 * stripes with so many.
	 */
	uint32_t (*most)(const struct damage *d, double *count);
	double (*rate)(const struct damage *d, uint32_t losses);
	/* Repairs `part` of the stripes that have `losses` known losses. */
	void (*repair)(struct damage *d, uint32_t losses, double part);
	uint32_t (*top)(const struct damage *d);
	double (*missing)(const struct damage *d);
	uint32_t (*draw)(const struct damage *d, struct rng *rng);
	double (*draw_both)(const struct damage *d, struct rng *rng, uint32_t *worse,
			    uint32_t *other);
};

extern const struct damage_ops damage_table, damage_sets;

static inline const struct damage_ops *damage_ops_of(const struct level *level)
{
	return level->base != NULL ? &damage_sets : &damage_table;
}

#endif
