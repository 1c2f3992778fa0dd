// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/svg_draw.h"

#define GROUP_GAP 0.25 /* gap between two groups, as a part of a group's width */

static double total_of(const struct svg_bars *b, size_t i)
{
	return b->value[i] + (b->on_top != NULL ? b->on_top[i] : 0);
}

static void draw_rect(struct svg *doc, double x, double w, double from, double to, const char *fill)
{
	if (from - to > 0.05)
		svg_put(doc, "<path d=\"M%.1f %.1fh%.1fV%.1fh-%.1fz\" fill=\"%s\"/>\n", x, from, w,
			to, w, fill);
}

static void draw_bar(struct svg *doc, const struct svg_bars *b, const struct svg_scale *y, size_t i,
		     double x, double w)
{
	double total = total_of(b, i);
	if (!svg_shown(y, total))
		return;
	const char *color = svg_color(b->color + i % b->series_n);
	double solid = svg_shown(y, b->value[i]) ? svg_at(y, b->value[i]) : y->from;
	double top = svg_at(y, total);
	draw_rect(doc, x, w, y->from, solid, color);
	if (b->on_top != NULL) {
		draw_rect(doc, x, w, solid, top, color);
		draw_rect(doc, x, w, solid, top, "url(#hatch)");
	}
	if (b->low != NULL && b->high != NULL && svg_shown(y, b->low[i]) &&
	    svg_shown(y, b->high[i]))
		svg_error_bar(doc, x + w / 2, svg_at(y, b->low[i]), svg_at(y, b->high[i]));
	if (b->values) {
		char text
			[32]; /* as many decimals for all, but for small ones on a logarithmic axis */
		int decimals = total >= 1000 ? 0 : 1;
		bool small = b->y.log && total < 1;
		snprintf(text, sizeof(text), small ? "%.*g" : "%.*f", small ? 2 : decimals, total);
		svg_label(doc, x + w / 2 + 3, top - 4, SVG_START, 8.5, true, text);
	}
}

static void draw_names(struct svg *doc, const struct svg_frame *f, const struct svg_bars *b)
{
	size_t row = 0;
	if (b->series_n > 1 && !doc->named)
		for (; row < b->series_n; row++)
			svg_legend(doc, f, row, b->color + row, b->series[row], true);
	if (b->on_top == NULL)
		return;
	double x = f->x + f->w + 7, y = f->y + 8 + 17 * (double)(row + 1);
	svg_put(doc, "<path d=\"M%.1f %.1fh10v10h-10z\" fill=\"#888\"/>\n", x, y - 5);
	svg_label(doc, x + 15, y + 4, SVG_START, 11, false, b->solid_name);
	y += 17;
	svg_put(doc,
		"<path d=\"M%.1f %.1fh10v10h-10z\" fill=\"#888\"/>"
		"<path d=\"M%.1f %.1fh10v10h-10z\" fill=\"url(#hatch)\"/>\n",
		x, y - 5, x, y - 5);
	svg_label(doc, x + 15, y + 4, SVG_START, 11, false, b->hatched_name);
}

void svg_bars(struct svg *doc, int panel, const struct svg_bars *b)
{
	struct svg_scale y = {.log = b->y.log, .min = 1, .max = 0};
	size_t n = b->groups_n * b->series_n;
	for (size_t i = 0; i < n; i++) {
		/* Leaves room for the values above the bars. */
		svg_widen(&y, total_of(b, i) * (!b->values ? 1 : y.log ? 5 : 1.15));
		svg_widen(&y, total_of(b, i));
		if (b->high != NULL)
			svg_widen(&y, b->high[i]);
	}
	if (!y.log)
		svg_widen(&y, 0);
	else if (y.min <= y.max)
		y.min /= 2; /* lowers the axis so that the smallest bar has a height */
	svg_round(&y, &b->y);
	bool legend = (b->series_n > 1 && !doc->named) || b->on_top != NULL;
	struct svg_frame f = svg_panel(doc, panel, b->title, legend ? 92 : 18);
	y.from = f.y + f.h;
	y.to = f.y;
	svg_axes(doc, &f, NULL, b->x_label, &y, b->y.label);
	double group = f.w / (double)b->groups_n;
	double w = group * (1 - GROUP_GAP) / (double)b->series_n;
	for (size_t g = 0; g < b->groups_n; g++) {
		double x = f.x + group * ((double)g + GROUP_GAP / 2);
		for (size_t s = 0; s < b->series_n; s++)
			draw_bar(doc, b, &y, g * b->series_n + s, x + w * (double)s, w * 0.92);
		svg_label(doc, f.x + group * ((double)g + 0.5), f.y + f.h + 16, SVG_MIDDLE, 11,
			  false, b->groups[g]);
	}
	draw_names(doc, &f, b);
}
