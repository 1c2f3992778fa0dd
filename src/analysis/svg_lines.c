// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/svg_draw.h"

#define LEGEND_CHAR_W 6.2

static void draw_line(struct svg *doc, const struct svg_scale *x, const struct svg_scale *y,
		      const struct svg_series *s, size_t index)
{
	bool open = false;
	for (size_t i = 0; i < s->n; i++) {
		if (!svg_shown(x, s->x[i]) || !svg_shown(y, s->y[i]))
			continue;
		if (!open)
			svg_put(doc, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" d=\"",
				svg_color(index));
		svg_put(doc, "%c%.1f %.1f", open ? 'L' : 'M', svg_at(x, s->x[i]),
			svg_at(y, s->y[i]));
		open = true;
	}
	if (open)
		svg_put(doc, "\"/>\n");
}

static void draw_points(struct svg *doc, const struct svg_scale *x, const struct svg_scale *y,
			const struct svg_series *s, size_t index)
{
	for (size_t i = 0; i < s->n; i++) {
		if (!svg_shown(x, s->x[i]) || !svg_shown(y, s->y[i]))
			continue;
		double at_x = svg_at(x, s->x[i]), at_y = svg_at(y, s->y[i]);
		const char *label = s->labels != NULL ? s->labels[i] : NULL;
		bool marked = s->marked != NULL && s->marked[i];
		if (s->low != NULL && s->high != NULL && svg_shown(y, s->low[i]) &&
		    svg_shown(y, s->high[i]))
			svg_error_bar(doc, at_x, svg_at(y, s->low[i]), svg_at(y, s->high[i]));
		svg_mark(doc, index, at_x, at_y, 3.6, label);
		if (!marked)
			continue;
		svg_put(doc,
			"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"6.5\" fill=\"none\" "
			"stroke=\"#222\" stroke-width=\"1.1\"/>\n",
			at_x, at_y);
		if (label != NULL)
			svg_label(doc, at_x + 8, at_y - 5, SVG_START, 8.5, false, label);
	}
}

static double legend_width(const struct svg_lines *l, bool marked)
{
	size_t longest = marked && l->marked_name != NULL ? strlen(l->marked_name) : 0;
	for (size_t i = 0; i < l->series_n; i++)
		if (l->series[i].name != NULL && strlen(l->series[i].name) > longest)
			longest = strlen(l->series[i].name);
	return longest == 0 ? 18 : 30 + LEGEND_CHAR_W * (double)longest;
}

void svg_lines(struct svg *doc, int panel, const struct svg_lines *l)
{
	struct svg_scale x = {.log = l->x.log, .min = 1, .max = 0}, y = x;
	bool marked = false;
	y.log = l->y.log;
	for (size_t i = 0; i < l->series_n; i++) {
		const struct svg_series *s = &l->series[i];
		for (size_t j = 0; j < s->n; j++) {
			svg_widen(&x, s->x[j]);
			svg_widen(&y, s->y[j]);
			marked |= s->marked != NULL && s->marked[j];
		}
	}
	svg_round(&x, &l->x);
	svg_round(&y, &l->y);
	struct svg_frame f = svg_panel(doc, panel, l->title, legend_width(l, marked));
	x.from = f.x;
	x.to = f.x + f.w;
	y.from = f.y + f.h;
	y.to = f.y;
	svg_axes(doc, &f, &x, l->x.label, &y, l->y.label);
	size_t row = 0;
	for (size_t i = 0; i < l->series_n; i++) {
		const struct svg_series *s = &l->series[i];
		if (s->style != SVG_POINTS)
			draw_line(doc, &x, &y, s, i);
		if (s->style != SVG_LINE)
			draw_points(doc, &x, &y, s, i);
		if (s->name != NULL)
			svg_legend(doc, &f, row++, i, s->name, false);
	}
	if (!marked || l->marked_name == NULL)
		return;
	double at_x = f.x + f.w + 12, at_y = f.y + 8 + 17 * (double)row;
	svg_put(doc,
		"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"6\" fill=\"none\" stroke=\"#222\" "
		"stroke-width=\"1.1\"/>\n",
		at_x, at_y);
	svg_label(doc, at_x + 10, at_y + 4, SVG_START, 11, false, l->marked_name);
}
