// SPDX-License-Identifier: Apache-2.0
/* Drawing functions that the kinds of plots share. Coordinates are pixels, y grows downwards. */
#ifndef ANALYSIS_SVG_DRAW_H
#define ANALYSIS_SVG_DRAW_H

#include "analysis/svg.h"

#define SVG_PANEL_W 460.0
#define SVG_PANEL_H 360.0
#define SVG_COLORS 9
#define SVG_TICKS_MAX 64

/* The inside of a panel's axes. */
struct svg_frame {
	double x, y, w, h;
};

struct svg_scale {
	bool log;
	double min, max; /* range of the values */
	double from, to; /* pixel positions of min and max */
};

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };

void svg_put(struct svg *doc, const char *fmt, ...) PRINTF(2, 3);
/* Draws text of this size in pixels; turned: rotated by 90 degrees to the left. */
void svg_label(struct svg *doc, double x, double y, enum svg_anchor anchor, double size,
	       bool turned, const char *text);

/*
 * Draws the title and returns the frame of the axes. Leaves `right` pixels free for scale or
 * legend.
 */
struct svg_frame svg_panel(struct svg *doc, int panel, const char *title, double right);

/*
 * Widens min and max of the scale to hold the value; before the first call min must be larger than
 * max.
 */
void svg_widen(struct svg_scale *s, double value);
/* Rounds min and max outwards, and sets default ones when there was no data. */
void svg_round(struct svg_scale *s, const struct svg_axis *axis);
bool svg_shown(const struct svg_scale *s, double value);
double svg_at(const struct svg_scale *s, double value);

/* Draws box, ticks, grid and labels. With x NULL only the y axis is drawn. */
void svg_axes(struct svg *doc, const struct svg_frame *f, const struct svg_scale *x,
	      const char *x_label, const struct svg_scale *y, const char *y_label);

/* Writes a number as a short label: "0.01", "10⁻¹²". */
const char *svg_number(double value, bool log, char text[32]);

const char *svg_color(size_t series);
/* Draws a mark in the shape of the series. */
void svg_mark(struct svg *doc, size_t series, double x, double y, double size, const char *title);
/* Draws the ring of the legend, which marks points. */
void svg_ring(struct svg *doc, double x, double y);
void svg_error_bar(struct svg *doc, double x, double low, double high);
/* Draws an entry of the legend in row `row` to the right of the frame. */
void svg_legend(struct svg *doc, const struct svg_frame *f, size_t row, size_t series,
		const char *name, bool bar);

#endif
