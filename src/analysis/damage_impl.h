// SPDX-License-Identifier: Apache-2.0
/* The two ways of keeping the table of damage.h. */
#ifndef ANALYSIS_DAMAGE_IMPL_H
#define ANALYSIS_DAMAGE_IMPL_H

#include "analysis/damage.h"

struct damage_ops {
	size_t (*doubles)(const struct level *level); /* size of the table */
	size_t (*used)(const struct damage *d);       /* of that, from its beginning */
	void (*clear)(struct damage *d);              /* no stripe has a loss */
	double (*hit)(struct damage *d, uint32_t member, double part); /* returns the lost */
	void (*detect)(struct damage *d, uint32_t member);             /* before unknown-- */
	/* The most known losses and how many stripes have them; 0: none has any. */
	uint32_t (*most)(const struct damage *d, double *count);
	double (*rate)(const struct damage *d, uint32_t losses);
	void (*repair)(struct damage *d, uint32_t losses, double part); /* of those stripes */
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
