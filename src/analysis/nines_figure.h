// SPDX-License-Identifier: Apache-2.0
/* Durability drawn: each function fills one panel of a page (svg.h). */
#ifndef ANALYSIS_NINES_FIGURE_H
#define ANALYSIS_NINES_FIGURE_H

#include "analysis/nines.h"
#include "analysis/svg.h"

#define NINES_FIGURE_SCHEMES_MAX 16

/*
 * Answers of some schemes by `methods` repair methods each (4, or 1 for one that is not named):
 * answers[scheme * methods + method], at most NINES_FIGURE_SCHEMES_MAX schemes.
 */
struct nines_figure {
	const char *const *schemes;
	size_t schemes_n, methods;
	const struct nines_answer *answers;
};

/* Nines with their intervals: figure 3.10. */
void figure_nines(struct svg *doc, int panel, const struct nines_figure *f);

/* Probability of a catastrophic local pool, which the method does not change: figure 3.7. */
void figure_catastrophic(struct svg *doc, int panel, const struct nines_figure *f);

#endif
