// SPDX-License-Identifier: Apache-2.0
/* Plots of durability. Each function fills one panel of a page (svg.h). */
#ifndef ANALYSIS_NINES_FIGURE_H
#define ANALYSIS_NINES_FIGURE_H

#include "analysis/nines.h"
#include "analysis/svg.h"

#define NINES_FIGURE_SCHEMES_MAX 16

/*
 * Answers of some schemes for `methods` repair methods each (4, or 1 that the plot does not name):
 * answers[scheme * methods + method], at most NINES_FIGURE_SCHEMES_MAX schemes.
 */
struct nines_figure {
	const char *const *schemes;
	size_t schemes_n, methods;
	const struct nines_answer *answers;
};

/* Plots nines with their intervals, as figure 3.10 of the MLEC dissertation (README.md). */
void figure_nines(struct svg *doc, int panel, const struct nines_figure *f);

/*
 * Plots the probability of a catastrophic local pool, which is the same for all methods, as figure
 * 3.7 of the MLEC dissertation.
 */
void figure_catastrophic(struct svg *doc, int panel, const struct nines_figure *f);

#endif
