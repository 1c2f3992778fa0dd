// SPDX-License-Identifier: Apache-2.0
/* Files that `terrane placement study` writes beside its table: a plot, and what was decided for each job. */
#ifndef CLI_PLACEMENT_FIGURES_H
#define CLI_PLACEMENT_FIGURES_H

#include <stdio.h>

#include "analysis/placement/method.h"

/* Savings of a method by quota. */
struct figure_line {
	const char *method;
	size_t n;
	double *quota, *saved_pct; /* borrowed */
};

/* Writes the plot of savings by quota as SVG. Quotas of 0 are left out, because the axis is logarithmic. Returns 0 or an error. */
int figure_plot(FILE *out, const struct figure_line *lines, size_t n);

/* The head of the decisions, and the lines of one method and quota: study->share and ->needed are those of its run. */
int figure_decisions_head(FILE *out);
int figure_decisions(FILE *out, const struct study *s, const struct category_cuts *cuts,
		     const char *method, double quota);

#endif
