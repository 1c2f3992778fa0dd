// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/svg_draw.h"

#define LEGEND_CHAR_W 6.2
#define LABEL_SIZE 8.5
#define LABEL_CHAR_W 4.9
#define LABEL_H 9.5
#define LABELS_MAX 256 /* most labels that are placed without overlaps */
#define LABEL_ROWS 12  /* rows above and below the point that are tried for a label */
#define RING_R 6.5

/* The boxes that labels and rings already cover. */
struct taken {
	struct svg_frame in;
	size_t n;
	struct svg_frame at[LABELS_MAX];
};

static bool overlap(const struct svg_frame *a, const struct svg_frame *b)
{
	return a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h && b->y < a->y + a->h;
}

static bool is_free(const struct taken *t, const struct svg_frame *box)
{
	if (box->x < t->in.x || box->x + box->w > t->in.x + t->in.w || box->y < t->in.y ||
	    box->y + box->h > t->in.y + t->in.h)
		return false;
	for (size_t i = 0; i < t->n; i++)
		if (overlap(&t->at[i], box))
			return false;
	return true;
}

static void take(struct taken *t, struct svg_frame box)
{
	if (t->n < LABELS_MAX)
		t->at[t->n++] = box;
}

/*
 * Draws a label in the nearest free box to the right or left of the point; a line connects it
 * when it is not beside the point.
 */
static void place_label(struct svg *doc, struct taken *t, double x, double y, const char *label)
{
	double w = LABEL_CHAR_W * (double)strlen(label);
	for (int i = 0; i < 4 * LABEL_ROWS; i++) {
		int row = (i / 2 + 1) / 2 * (i / 2 % 2 == 0 ? 1 : -1);
		bool left = i % 2 == 1;
		double from = left ? x - 8 - w : x + 8, middle = y - 6 + row * LABEL_H;
		struct svg_frame box = {from, middle - LABEL_H / 2, w, LABEL_H};
		if (!is_free(t, &box))
			continue;
		take(t, box);
		if (row > 2 || row < -1)
			svg_put(doc,
				"<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"#888\" "
				"stroke-width=\"0.5\"/>\n",
				x + (left ? -5 : 5), y, left ? from + w : from, middle);
		svg_label(doc, from, middle + 3, SVG_START, LABEL_SIZE, false, label);
		return;
	}
}

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
			const struct svg_series *s, size_t index, struct taken *taken)
{
	for (size_t i = 0; i < s->n; i++) {
		if (!svg_shown(x, s->x[i]) || !svg_shown(y, s->y[i]))
			continue;
		double at_x = svg_at(x, s->x[i]), at_y = svg_at(y, s->y[i]);
		const char *label = s->labels != NULL ? s->labels[i] : NULL;
		if (s->low != NULL && s->high != NULL && svg_shown(y, s->low[i]) &&
		    svg_shown(y, s->high[i]))
			svg_error_bar(doc, at_x, svg_at(y, s->low[i]), svg_at(y, s->high[i]));
		svg_mark(doc, index, at_x, at_y, 3.6, label);
		if (s->marked == NULL || !s->marked[i])
			continue;
		svg_put(doc,
			"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"none\" "
			"stroke=\"#222\" stroke-width=\"1.1\"/>\n",
			at_x, at_y, RING_R);
		take(taken,
		     (struct svg_frame){at_x - RING_R, at_y - RING_R, 2 * RING_R, 2 * RING_R});
	}
}

static void draw_labels(struct svg *doc, const struct svg_scale *x, const struct svg_scale *y,
			const struct svg_series *s, struct taken *taken)
{
	for (size_t i = 0; s->labels != NULL && s->marked != NULL && i < s->n; i++)
		if (s->marked[i] && s->labels[i] != NULL && svg_shown(x, s->x[i]) &&
		    svg_shown(y, s->y[i]))
			place_label(doc, taken, svg_at(x, s->x[i]), svg_at(y, s->y[i]),
				    s->labels[i]);
}

static double legend_width(const struct svg *doc, const struct svg_lines *l, bool marked)
{
	if (doc->named)
		return 18;
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
	struct svg_frame f = svg_panel(doc, panel, l->title, legend_width(doc, l, marked));
	x.from = f.x;
	x.to = f.x + f.w;
	y.from = f.y + f.h;
	y.to = f.y;
	svg_axes(doc, &f, &x, l->x.label, &y, l->y.label);
	struct taken taken = {.in = f};
	size_t row = 0;
	for (size_t i = 0; i < l->series_n; i++) {
		const struct svg_series *s = &l->series[i];
		if (s->style != SVG_POINTS)
			draw_line(doc, &x, &y, s, i);
		if (s->style != SVG_LINE)
			draw_points(doc, &x, &y, s, i, &taken);
		if (s->name != NULL && !doc->named)
			svg_legend(doc, &f, row++, i, s->name, false);
	}
	for (size_t i = 0; i < l->series_n; i++)
		if (l->series[i].style != SVG_LINE)
			draw_labels(doc, &x, &y, &l->series[i], &taken);
	if (!marked || l->marked_name == NULL || doc->named)
		return;
	double at_x = f.x + f.w + 12, at_y = f.y + 8 + 17 * (double)row;
	svg_ring(doc, at_x, at_y);
	svg_label(doc, at_x + 10, at_y + 4, SVG_START, 11, false, l->marked_name);
}
