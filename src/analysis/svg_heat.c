// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "analysis/svg_draw.h"

#define LEVELS 64
#define SCALE_W 14.0

/*
 * Writes the colour of a level, from good to bad: green, yellow, red, and darker
 * towards the bad end, so that the order is visible in a grey print.
 */
static void level_color(int level, char text[8])
{
	static const double stops[][3] = {
		{232, 245, 233}, {129, 199, 132}, {255, 213, 79}, {244, 81, 30}, {127, 0, 0}};
	const int last = (int)ARRAY_LEN(stops) - 1;
	double at = (double)level / (LEVELS - 1) * last;
	int i = at >= last ? last - 1 : (int)at;
	double part = at - i;
	int rgb[3];
	for (int c = 0; c < 3; c++)
		rgb[c] = (int)lround(stops[i][c] + part * (stops[i + 1][c] - stops[i][c]));
	snprintf(text, 8, "#%02x%02x%02x", rgb[0] & 255, rgb[1] & 255, rgb[2] & 255);
}

static int level_of(const struct svg_heat *h, double value)
{
	double low = h->log ? log(h->min) : h->min, high = h->log ? log(h->max) : h->max;
	double v = !h->log ? value : value > 0 ? log(value) : low;
	double share = (v - low) / (high - low);
	share = share < 0 ? 0 : share > 1 ? 1 : share;
	int level = (int)lround(share * (LEVELS - 1));
	return h->high_is_good ? LEVELS - 1 - level : level;
}

static void draw_cells(struct svg *doc, const struct svg_frame *f, const struct svg_heat *h)
{
	double cell_w = f->w / h->columns, cell_h = f->h / h->rows;
	for (int level = 0; level < LEVELS; level++) {
		char color[8];
		bool open = false;
		level_color(level, color);
		for (int i = 0; i < h->rows * h->columns; i++) {
			double v = h->value[i];
			if (isnan(v) || level_of(h, v) != level)
				continue;
			if (!open)
				svg_put(doc,
					"<path shape-rendering=\"crispEdges\" fill=\"%s\" d=\"",
					color);
			open = true;
			int row = i / h->columns, column = i % h->columns;
			svg_put(doc, "M%.2f %.2fh%.2fv%.2fh-%.2fz", f->x + column * cell_w,
				f->y + f->h - (row + 1) * cell_h, cell_w + 0.05, cell_h + 0.05,
				cell_w + 0.05);
		}
		if (open)
			svg_put(doc, "\"/>\n");
	}
}

/* Hatches the cells without a value. Returns whether there are any. */
static bool draw_none(struct svg *doc, const struct svg_frame *f, const struct svg_heat *h)
{
	static const char *const fills[] = {"#bdbdbd", "url(#hatch)"};
	double cell_w = f->w / h->columns, cell_h = f->h / h->rows;
	bool any = false;
	for (size_t pass = 0; pass < ARRAY_LEN(fills); pass++) {
		svg_put(doc, "<path fill=\"%s\" d=\"M%.1f %.1f", fills[pass], f->x, f->y);
		for (int i = 0; i < h->rows * h->columns; i++) {
			if (!isnan(h->value[i]))
				continue;
			int row = i / h->columns, column = i % h->columns;
			any = true;
			svg_put(doc, "M%.2f %.2fh%.2fv%.2fh-%.2fz", f->x + column * cell_w,
				f->y + f->h - (row + 1) * cell_h, cell_w, cell_h, cell_w);
		}
		svg_put(doc, "\"/>\n");
	}
	return any;
}

/* Writes a number of the colour scale with three digits, or as a power of ten when it is long. */
static const char *scale_number(double value, char text[32])
{
	if (value > 0 && value < 1e-3)
		return svg_number(value, true, text);
	snprintf(text, 32, "%.3g", value);
	return text;
}

static void draw_colors(struct svg *doc, const struct svg_frame *f, const struct svg_heat *h)
{
	double x = f->x + f->w + 14;
	char text[32];
	for (int i = 0; i < LEVELS; i++) {
		char color[8];
		level_color(h->high_is_good ? LEVELS - 1 - i : i, color);
		svg_put(doc,
			"<path shape-rendering=\"crispEdges\" fill=\"%s\" d=\"M%.1f "
			"%.2fh%.1fv%.2fh-%.1fz\"/>\n",
			color, x, f->y + f->h * (1 - (i + 1.0) / LEVELS), SCALE_W,
			f->h / LEVELS + 0.1, SCALE_W);
	}
	for (int i = 0; i <= 4; i++) {
		double part = i / 4.0;
		double v = h->log ? h->min * pow(h->max / h->min, part)
				  : h->min + part * (h->max - h->min);
		svg_label(doc, x + SCALE_W + 4, f->y + f->h * (1 - part) + 4, SVG_START, 10, false,
			  scale_number(v, text));
	}
	if (h->unit != NULL)
		svg_label(doc, x + SCALE_W / 2, f->y - 5, SVG_MIDDLE, 10, false, h->unit);
}

static int tick_step(int n)
{
	return n <= 12 ? 1 : n <= 30 ? 5 : n <= 80 ? 10 : (n / 80 + 1) * 10;
}

void svg_heat(struct svg *doc, int panel, const struct svg_heat *h)
{
	struct svg_frame f = svg_panel(doc, panel, h->title, 64);
	char text[32];
	draw_cells(doc, &f, h);
	if (draw_none(doc, &f, h) && h->none != NULL)
		svg_label(doc, f.x + f.w / 2, f.y + f.h + 47, SVG_MIDDLE, 10, false, h->none);
	svg_put(doc,
		"<path d=\"M%.1f %.1fh%.1fv%.1fh-%.1fz\" fill=\"none\" stroke=\"#222\" "
		"stroke-width=\"0.8\"/>\n",
		f.x, f.y, f.w, f.h, f.w);
	for (int i = 0; i < h->columns; i++) {
		int x = h->x_min + i * (h->x_step > 1 ? h->x_step : 1);
		if (h->x_step > 1 ? i % tick_step(h->columns) != 0
				  : i != 0 && x % tick_step(h->columns) != 0)
			continue;
		svg_label(doc, f.x + (i + 0.5) * f.w / h->columns, f.y + f.h + 15, SVG_MIDDLE, 11,
			  false, svg_number(x, false, text));
	}
	for (int i = 0; i < h->rows; i++) {
		int y = h->y_min + i;
		if (i != 0 && y % tick_step(h->rows) != 0)
			continue;
		svg_label(doc, f.x - 6, f.y + f.h - (i + 0.5) * f.h / h->rows + 4, SVG_END, 11,
			  false, svg_number(y, false, text));
	}
	if (h->x.label != NULL)
		svg_label(doc, f.x + f.w / 2, f.y + f.h + 34, SVG_MIDDLE, 12, false, h->x.label);
	if (h->y.label != NULL)
		svg_label(doc, f.x - 40, f.y + f.h / 2, SVG_MIDDLE, 12, true, h->y.label);
	draw_colors(doc, &f, h);
}
