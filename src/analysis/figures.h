// SPDX-License-Identifier: Apache-2.0
/* Plots of results. Each function fills one panel of a page (svg.h). */
#ifndef ANALYSIS_FIGURES_H
#define ANALYSIS_FIGURES_H

#include "analysis/burst.h"
#include "analysis/compare.h"
#include "analysis/repair_cost.h"
#include "analysis/svg.h"

#define FIGURE_METHODS 4
/* Names of the repair methods, in the order of enum repair_method: the legend of a page about methods. */
extern const char *const figure_methods[FIGURE_METHODS];

/*
 * Plots PDL over failed disks and affected racks, as figures 3.5, 3.14 and 3.18 of the MLEC
 * dissertation (README.md).
 */
void figure_burst(struct svg *doc, int panel, const char *title, const struct burst_map *map);

/*
 * Plot the repairs of n <= 16 schemes with these names, as figures 3.6, 3.8 and 3.9 of the MLEC
 * dissertation.
 */
void figure_disk_time(struct svg *doc, int panel, const char *const *names,
		      const struct repair_cost *const *m, size_t n);
void figure_pool_time_all(struct svg *doc, int panel, const char *const *names,
			  const struct repair_cost *const *m, size_t n); /* plots R_ALL only */
void figure_pool_traffic(struct svg *doc, int panel, const char *const *names,
			 const struct repair_cost *const *m, size_t n);
/*
 * Plot the time of the network stage for all methods, and for R_HYB and R_MIN also the time
 * of the stage inside the pool.
 */
void figure_pool_network(struct svg *doc, int panel, const char *title, const char *const *names,
			 const struct repair_cost *const *m, size_t n);
void figure_pool_local(struct svg *doc, int panel, const char *const *names,
		       const struct repair_cost *const *m, size_t n);

/*
 * Encoding throughput in GB/s at index (p - p_min) * columns + (k - k_min) / k_step, as figure 3.11
 * of the MLEC dissertation.
 */
struct figure_encode {
	int k_min, k_step, columns;
	int p_min, p_max;
	const double *gb_s;
};

void figure_encode(struct svg *doc, int panel, const struct figure_encode *e);

/* The property that a comparison plots against durability. */
enum figure_against { FIGURE_ENCODE, FIGURE_UPDATE_IO, FIGURE_UPDATE_CROSS, FIGURE_REPAIR };

/*
 * Plots the points of the families in the set of bits `families`. An -ENOMEM is recorded in the
 * document.
 */
void figure_compare(struct svg *doc, int panel, const char *title, const struct compare *c,
		    uint32_t families, enum figure_against against);

#endif
