// SPDX-License-Identifier: Apache-2.0
/*
 * Plots as SVG: heat maps, lines and points, grouped bars, several to a page. Plots are black on
 * white with the colours of Okabe and Ito, which colour-blind readers can tell apart. Each series
 * has a mark or hatching of its own, so that plots can be printed in grey.
 *
 *   AUTO_SVG struct svg doc;
 *   svg_begin(&doc, 2, 1, "Repair time", NULL);     two panels side by side
 *   svg_bars(&doc, 0, &left);
 *   svg_bars(&doc, 1, &right);
 *   rc = svg_end(&doc);                             the first error of any call, or 0
 *   fwrite(svg_text(&doc), ...)
 *
 * Text is escaped. Numbers that are not finite, or not above 0 on a logarithmic axis, are left out.
 */
#ifndef ANALYSIS_SVG_H
#define ANALYSIS_SVG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

#define SVG_NEUTRAL 6 /* number of the colour grey, for bars that belong to none of the names */
#define SVG_BYTES_MAX (32 * MIB)

struct svg {
	struct strbuf out;
	int err;          /* the first error */
	int across, down; /* number of panels side by side, and on top of each other */
	double top;       /* y coordinate of the first panel, below the title, in pixels */
	bool named;       /* the page has a legend, so its panels have none */
};

/* Begins a page of across x down panels. `note` is printed below the title; both may be NULL. */
void svg_begin(struct svg *doc, int across, int down, const char *title, const char *note);
/* The legend of a page: the names of series 0 to n - 1, each in its colour. */
struct svg_names {
	const char *const *name;
	size_t n;         /* 0: the page has no legend */
	bool marks;       /* the series are points: their marks are shown instead of squares */
	const char *ring; /* what a ring around a mark means; NULL: nothing */
};

/* Begins a page with one legend for all its panels, in as many rows as it needs. */
void svg_begin_named(struct svg *doc, int across, int down, const char *title, const char *note,
		     const struct svg_names *names);
/* ends the page; returns the first error of any call: 0, -ENOMEM, -EMSGSIZE */
int svg_end(struct svg *doc);
void svg_fini(struct svg *doc);
const char *svg_text(const struct svg *doc);

#define AUTO_SVG __attribute__((cleanup(svg_fini)))

struct svg_axis {
	const char *label;
	bool log;
	double min, max; /* range of the axis; both 0: the range of the data */
};

/* A cell for each x = x_min .. x_min + columns - 1, y likewise; value[row * columns + column]. */
struct svg_heat {
	const char *title;
	struct svg_axis x, y; /* axes, of which only the labels are used */
	int x_min, y_min, columns, rows;
	int x_step;          /* difference of x between two columns; 0 means 1 */
	const double *value; /* NAN: the cell is hatched */
	const char *none;    /* what a hatched cell means, printed if there is one; NULL: nothing */
	bool log;            /* colours follow the logarithm of the value */
	double min, max;     /* range of the colour scale; smaller values are drawn as min */
	const char *unit;    /* unit that is printed beside the colour scale */
	bool high_is_good;   /* high values are green and low ones red; else the reverse */
};

void svg_heat(struct svg *doc, int panel, const struct svg_heat *h);

enum svg_style { SVG_LINE, SVG_POINTS, SVG_LINE_POINTS };

struct svg_series {
	const char *name;
	enum svg_style style;
	size_t n;
	const double *x, *y;
	const double *low, *high;  /* ends of the error bars in y, or NULL */
	const bool *marked;        /* points that get a ring (the Pareto front), or NULL */
	const char *const *labels; /* texts beside the points, or NULL; single labels may be NULL */
};

struct svg_lines {
	const char *title;
	struct svg_axis x, y;
	const struct svg_series *series;
	size_t series_n;
	const char *marked_name; /* text of the legend for marked points */
};

void svg_lines(struct svg *doc, int panel, const struct svg_lines *l);

/* Groups of bars; each bar may have a hatched part on top of its solid one. */
struct svg_bars {
	const char *title;
	const char *x_label;
	struct svg_axis y;
	const char *const *groups;
	size_t groups_n;
	const char *const *series;
	size_t series_n;
	size_t color; /* number of the first series among the colours and names of the page */
	const double *value; /* value[group * series_n + series] */
	/* heights of the hatched parts, or NULL; not allowed with a logarithmic axis */
	const double *on_top;
	const double *low, *high; /* ends of the error bars, or NULL */
	/* texts of the legend, used when on_top is not NULL */
	const char *solid_name, *hatched_name;
	bool values; /* print values above the bars */
};

void svg_bars(struct svg *doc, int panel, const struct svg_bars *b);

#endif
