// SPDX-License-Identifier: Apache-2.0
/* Plots of results. Each function fills one panel of a page (svg.h). */
#ifndef ANALYSIS_FIGURES_H
#define ANALYSIS_FIGURES_H

#include "analysis/burst.h"
#include "analysis/compare.h"
#include "analysis/repair_cost.h"
#include "analysis/svg.h"

/* Plots PDL over failed disks and affected racks: figures 3.5, 3.14 and 3.18. */
void figure_burst(struct svg *doc, int panel, const char *title, const struct burst_map *map);

/* Plot repairs of n <= 16 schemes with these names: figures 3.6, 3.8 and 3.9. */
void figure_disk_time(struct svg *doc, int panel, const char *const *names,
		      const struct repair_cost *const *m, size_t n);
void figure_pool_time_all(struct svg *doc, int panel, const char *const *names,
			  const struct repair_cost *const *m, size_t n); /* R_ALL only */
void figure_pool_traffic(struct svg *doc, int panel, const char *const *names,
			 const struct repair_cost *const *m, size_t n);
/*
 * Plot the time of the network stage for all methods, and of the stage inside the pool for R_HYB
 * and R_MIN.
 */
void figure_pool_network(struct svg *doc, int panel, const char *title, const char *const *names,
			 const struct repair_cost *const *m, size_t n);
void figure_pool_local(struct svg *doc, int panel, const char *const *names,
		       const struct repair_cost *const *m, size_t n);

/* Throughput in GB/s at [(p - p_min) * columns + (k - k_min) / k_step]: figure 3.11. */
struct figure_encode {
	int k_min, k_step, columns;
	int p_min, p_max;
	const double *gb_s;
};

void figure_encode(struct svg *doc, int panel, const struct figure_encode *e);

/* The second axis of comparisons, beside durability. */
enum figure_against { FIGURE_ENCODE, FIGURE_UPDATE_IO, FIGURE_UPDATE_CROSS, FIGURE_REPAIR };

/* Plots the points of some families (bits). An -ENOMEM is recorded in the document. */
void figure_compare(struct svg *doc, int panel, const char *title, const struct compare *c,
		    uint32_t families, enum figure_against against);

#endif
