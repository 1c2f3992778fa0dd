// SPDX-License-Identifier: Apache-2.0
#include "analysis/figures.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/base.h"

#define SCHEMES_MAX 16
#define TB 1e12
#define HOUR 3600.0

const char *const figure_methods[FIGURE_METHODS] = {"R_ALL", "R_FCO", "R_HYB", "R_MIN"};

void figure_burst(struct svg *doc, int panel, const char *title, const struct burst_map *map)
{
	svg_heat(doc, panel,
		 &(struct svg_heat){
			 .title = title,
			 .x = {.label = "affected racks"},
			 .y = {.label = "failed disks"},
			 .x_min = 1,
			 .y_min = 1,
			 .columns = (int)map->racks,
			 .rows = (int)map->failed,
			 .value = map->pdl,
			 .log = true,
			 .min = 1e-20,
			 .max = 1,
			 .unit = "PDL",
			 .none = "hatched: impossible, each affected rack has a failed disk"});
}

void figure_disk_time(struct svg *doc, int panel, const char *const *names,
		      const struct repair_cost *const *m, size_t n)
{
	double hours[SCHEMES_MAX];
	for (size_t i = 0; i < n; i++)
		hours[i] = m[i]->disk.seconds / HOUR;
	svg_bars(doc, panel,
		 &(struct svg_bars){.title = "One failed disk",
				    .y = {.label = "repair time (hours)"},
				    .groups = names,
				    .groups_n = n,
				    .series_n = 1,
				    .color = SVG_NEUTRAL,
				    .value = hours,
				    .values = true});
}

void figure_pool_time_all(struct svg *doc, int panel, const char *const *names,
			  const struct repair_cost *const *m, size_t n)
{
	double hours[SCHEMES_MAX];
	for (size_t i = 0; i < n; i++)
		hours[i] = m[i]->pool[REPAIR_ALL].network_s / HOUR;
	svg_bars(doc, panel,
		 &(struct svg_bars){.title = "Catastrophic pool, R_ALL",
				    .y = {.label = "repair time (hours)"},
				    .groups = names,
				    .groups_n = n,
				    .series_n = 1,
				    .value = hours,
				    .values = true});
}

void figure_pool_traffic(struct svg *doc, int panel, const char *const *names,
			 const struct repair_cost *const *m, size_t n)
{
	double cross[SCHEMES_MAX * 4];
	for (size_t i = 0; i < n * 4; i++)
		cross[i] = m[i / 4]->pool[i % 4].cross_bytes / TB;
	svg_bars(doc, panel,
		 &(struct svg_bars){.title = "Cross-rack traffic, catastrophic pool",
				    .y = {.label = "TB", .log = true},
				    .groups = names,
				    .groups_n = n,
				    .series = figure_methods,
				    .series_n = 4,
				    .value = cross,
				    .values = true});
}

void figure_pool_network(struct svg *doc, int panel, const char *title, const char *const *names,
			 const struct repair_cost *const *m, size_t n)
{
	double hours[SCHEMES_MAX * 4];
	for (size_t i = 0; i < n * 4; i++)
		hours[i] = m[i / 4]->pool[i % 4].network_s / HOUR;
	svg_bars(doc, panel,
		 &(struct svg_bars){.title = title,
				    .y = {.label = "hours", .log = true},
				    .groups = names,
				    .groups_n = n,
				    .series = figure_methods,
				    .series_n = 4,
				    .value = hours,
				    .values = true});
}

void figure_pool_local(struct svg *doc, int panel, const char *const *names,
		       const struct repair_cost *const *m, size_t n)
{
	double hours[SCHEMES_MAX * 2];
	for (size_t i = 0; i < n * 2; i++)
		hours[i] = m[i / 2]->pool[REPAIR_HYB + i % 2].local_s / HOUR;
	svg_bars(doc, panel,
		 &(struct svg_bars){.title = "Then inside the pool",
				    .y = {.label = "hours"},
				    .groups = names,
				    .groups_n = n,
				    .series = figure_methods + REPAIR_HYB,
				    .series_n = 2,
				    .color = REPAIR_HYB,
				    .value = hours,
				    .values = true});
}

void figure_encode(struct svg *doc, int panel, const struct figure_encode *e)
{
	int columns = e->columns, rows = e->p_max - e->p_min + 1;
	double max = 0;
	for (int i = 0; i < columns * rows; i++)
		max = e->gb_s[i] > max ? e->gb_s[i] : max;
	svg_heat(doc, panel,
		 &(struct svg_heat){.title = "Encoding throughput, one core",
				    .x = {.label = "data chunks k"},
				    .y = {.label = "parity chunks p"},
				    .x_min = e->k_min,
				    .x_step = e->k_step,
				    .y_min = e->p_min,
				    .columns = columns,
				    .rows = rows,
				    .value = e->gb_s,
				    .log = true,
				    .min = max / 32,
				    .max = max,
				    .unit = "GB/s",
				    .high_is_good = true});
}

/* ---- comparisons ---- */

struct against {
	const char *label;
	bool log;
};

static const struct against against_axes[] = {
	[FIGURE_ENCODE] = {"encoding throughput, one core (GB/s)", false},
	[FIGURE_UPDATE_IO] = {"disk operations to update a chunk", false},
	[FIGURE_UPDATE_CROSS] = {"chunks across racks to update one", false},
	[FIGURE_REPAIR] = {"repair traffic across racks (TB a year)", true},
};

static double against_value(const struct compare_point *p, enum figure_against against)
{
	switch (against) {
	case FIGURE_ENCODE:
		return p->encode.bytes_per_s / 1e9;
	case FIGURE_UPDATE_IO:
		return p->update_io;
	case FIGURE_UPDATE_CROSS:
		return p->update_cross;
	case FIGURE_REPAIR:
		break;
	}
	return p->repair_cross_per_year / TB;
}

/* The points in the order of their families, as the arrays that plots need. */
struct drawn {
	double *x, *y;
	bool *marked;
	const char **labels;
	size_t n;
};

static void add_family(struct drawn *d, const struct compare *c, enum compare_family family,
		       enum figure_against against, struct svg_series *s)
{
	size_t first = d->n;
	for (size_t i = 0; i < c->n; i++) {
		const struct compare_point *p = &c->points[i];
		if (p->family != family)
			continue;
		d->x[d->n] = p->nines.value;
		d->y[d->n] = against_value(p, against);
		d->labels[d->n++] = p->code;
	}
	*s = (struct svg_series){.name = compare_family_name(family),
				 .style = SVG_POINTS,
				 .n = d->n - first,
				 .x = d->x + first,
				 .y = d->y + first,
				 .marked = d->marked + first,
				 .labels = d->labels + first};
}

/*
 * Marks the Pareto front: the points for which no other has more nines and is better on this
 * axis.
 */
static void mark_front(struct drawn *d, enum figure_against against)
{
	/* more throughput is better; for the other axes less is better */
	double sign = against == FIGURE_ENCODE ? 1 : -1;
	for (size_t i = 0; i < d->n; i++) {
		d->marked[i] = true;
		for (size_t j = 0; j < d->n && d->marked[i]; j++) {
			double nines = d->x[j] - d->x[i], gain = sign * (d->y[j] - d->y[i]);
			d->marked[i] = !(nines >= 0 && gain >= 0 && (nines > 0 || gain > 0));
		}
	}
}

void figure_compare(struct svg *doc, int panel, const char *title, const struct compare *c,
		    uint32_t families, enum figure_against against)
{
	AUTO_FREE double *x = calloc(c->n + 1, sizeof(*x));
	AUTO_FREE double *y = calloc(c->n + 1, sizeof(*y));
	AUTO_FREE bool *marked = calloc(c->n + 1, sizeof(*marked));
	AUTO_FREE const char **labels = calloc(c->n + 1, sizeof(*labels));
	struct svg_series series[COMPARE_FAMILIES];
	struct drawn d = {x, y, marked, labels, 0};
	size_t n = 0;
	if (x == NULL || y == NULL || marked == NULL || labels == NULL) {
		doc->err = -ENOMEM;
		return;
	}
	for (enum compare_family f = 0; f < COMPARE_FAMILIES; f++)
		if (families >> f & 1)
			add_family(&d, c, f, against, &series[n++]);
	mark_front(&d, against);
	svg_lines(doc, panel,
		  &(struct svg_lines){.title = title,
				      .x = {.label = "durability (nines a year)"},
				      .y = {.label = against_axes[against].label,
					    .log = against_axes[against].log},
				      .series = series,
				      .series_n = n,
				      .marked_name = "Pareto front"});
}
