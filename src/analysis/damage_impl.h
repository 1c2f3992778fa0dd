// SPDX-License-Identifier: Apache-2.0
/* The interface of the two kinds of tables of damage.h: by losses, and by stripe sets. */
#ifndef ANALYSIS_DAMAGE_IMPL_H
#define ANALYSIS_DAMAGE_IMPL_H

#include "analysis/damage.h"

struct damage_ops {
	size_t (*doubles)(const struct level *level); /* returns the size of the table */
	size_t (*used)(const struct damage *d);       /* returns how many of them are in use */
	void (*clear)(struct damage *d);              /* removes all losses */
	double (*hit)(struct damage *d, uint32_t member, double part); /* returns lost stripes */
	void (*detect)(struct damage *d, uint32_t member);             /* called before unknown-- */
	/* Returns the most known losses of a stripe, 0 for none; *count: stripes that have them. */
	uint32_t (*most)(const struct damage *d, double *count);
	double (*rate)(const struct damage *d, uint32_t losses);
	/* Repairs this part of the stripes with so many known losses. */
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
