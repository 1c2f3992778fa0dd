// SPDX-License-Identifier: Apache-2.0
#include "analysis/svg.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analysis/svg_draw.h"

#define LEFT 66.0
#define BOTTOM 50.0
#define TITLE_H 30.0
#define NAME_GAP 32.0   /* of the page's legend: the square, and the gap to the next name */
#define NAME_CHAR_W 8.0 /* width of a character of a name */
#define NAME_H 24.0     /* height of a row of the page's legend */

/* The colours of Okabe and Ito, "Color Universal Design", without yellow, too light on white. */
static const char *const colors[SVG_COLORS] = {"#0072b2", "#d55e00", "#009e73",
					       "#cc79a7", "#56b4e9", "#e69f00",
					       "#444444", "#8c564b", "#7a7a00"};

void svg_put(struct svg *doc, const char *fmt, ...)
{
	if (doc->err != 0)
		return;
	va_list args;
	va_start(args, fmt);
	doc->err = strbuf_vprintf(&doc->out, fmt, args);
	va_end(args);
}

static void put_escaped(struct svg *doc, const char *text)
{
	for (; *text != '\0'; text++) {
		switch (*text) {
		case '<':
			svg_put(doc, "&lt;");
			break;
		case '>':
			svg_put(doc, "&gt;");
			break;
		case '&':
			svg_put(doc, "&amp;");
			break;
		case '"':
			svg_put(doc, "&quot;");
			break;
		default:
			svg_put(doc, "%c", *text);
		}
	}
}

void svg_label(struct svg *doc, double x, double y, enum svg_anchor anchor, double size,
	       bool turned, const char *text)
{
	static const char *const anchors[] = {"start", "middle", "end"};
	svg_put(doc, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.3g\" text-anchor=\"%s\"", x, y,
		size, anchors[anchor]);
	if (turned)
		svg_put(doc, " transform=\"rotate(-90 %.1f %.1f)\"", x, y);
	svg_put(doc, ">");
	put_escaped(doc, text);
	svg_put(doc, "</text>\n");
}

static size_t names_n(const struct svg_names *names)
{
	return names->n + (names->n > 0 && names->ring != NULL);
}

/* Returns entry i of the legend: a name, or at the end the meaning of the ring. */
static const char *name_at(const struct svg_names *names, size_t i)
{
	assert(i < names_n(names));
	return i < names->n ? names->name[i] : names->ring;
}

static double name_width(const char *name)
{
	return NAME_GAP + NAME_CHAR_W * (double)strlen(name);
}

/* Returns the first entry that has no room in a row that begins with entry `from`. */
static size_t row_end(const struct svg_names *names, size_t from, double w, double *width)
{
	size_t to = from;
	*width = 0;
	while (to < names_n(names) && (to == from || *width + name_width(name_at(names, to)) <= w))
		*width += name_width(name_at(names, to++));
	return to;
}

static size_t count_rows(const struct svg_names *names, double w)
{
	double width;
	size_t rows = 0;
	for (size_t i = 0; i < names_n(names); i = row_end(names, i, w, &width))
		rows++;
	return rows;
}

static void draw_name(struct svg *doc, const struct svg_names *names, size_t i, double x, double y)
{
	if (i == names->n)
		svg_ring(doc, x + 5, y - 4);
	else if (names->marks)
		svg_mark(doc, i, x + 5, y - 4, 4.5, NULL);
	else
		svg_put(doc, "<path d=\"M%.1f %.1fh10v10h-10z\" fill=\"%s\"/>\n", x, y - 9,
			svg_color(i));
	svg_label(doc, x + 15, y, SVG_START, 12, false, name_at(names, i));
}

/* Draws the legend of a page in rows, each centred; the last one ends above doc->top. */
static void draw_names(struct svg *doc, double w, const struct svg_names *names, size_t rows)
{
	double y = doc->top - 14 - NAME_H * ((double)rows - 1), width;
	size_t i = 0;
	while (i < names_n(names)) {
		size_t end = row_end(names, i, w, &width);
		for (double x = (w - width) / 2; i < end; i++) {
			draw_name(doc, names, i, x, y);
			x += name_width(name_at(names, i));
		}
		y += NAME_H;
	}
}

void svg_begin(struct svg *doc, int across, int down, const char *title, const char *note)
{
	svg_begin_named(doc, across, down, title, note, &(struct svg_names){0});
}

void svg_begin_named(struct svg *doc, int across, int down, const char *title, const char *note,
		     const struct svg_names *names)
{
	assert(across >= 1 && down >= 1);
	*doc = (struct svg){.across = across, .down = down, .named = names->n > 0};
	strbuf_init(&doc->out, SVG_BYTES_MAX);
	double w = across * SVG_PANEL_W;
	size_t rows = count_rows(names, w);
	doc->top = (title != NULL ? 34 : 0) + (note != NULL ? 18 : 0) + NAME_H * (double)rows;
	double h = doc->top + down * SVG_PANEL_H;
	svg_put(doc,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
		"viewBox=\"0 0 %.0f %.0f\" font-family=\"Helvetica, Arial, sans-serif\" "
		"fill=\"#222\">\n"
		"<defs><pattern id=\"hatch\" width=\"5\" height=\"5\" "
		"patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
		"<rect width=\"2\" height=\"5\" fill=\"#fff\" fill-opacity=\"0.75\"/>"
		"</pattern></defs>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		w, h, w, h);
	if (title != NULL)
		svg_label(doc, w / 2, 24, SVG_MIDDLE, 17, false, title);
	if (note != NULL)
		svg_label(doc, w / 2, 43, SVG_MIDDLE, 12, false, note);
	draw_names(doc, w, names, rows);
}

int svg_end(struct svg *doc)
{
	svg_put(doc, "</svg>\n");
	return doc->err;
}

void svg_fini(struct svg *doc)
{
	strbuf_fini(&doc->out);
}

const char *svg_text(const struct svg *doc)
{
	return strbuf_text(&doc->out);
}

struct svg_frame svg_panel(struct svg *doc, int panel, const char *title, double right)
{
	assert(panel >= 0 && panel < doc->across * doc->down);
	int row = panel / doc->across, column = panel % doc->across;
	double x = column * SVG_PANEL_W;
	double y = doc->top + row * SVG_PANEL_H;
	struct svg_frame f = {x + LEFT, y + TITLE_H, SVG_PANEL_W - LEFT - right,
			      SVG_PANEL_H - TITLE_H - BOTTOM};
	if (title != NULL)
		svg_label(doc, f.x + f.w / 2, y + 20, SVG_MIDDLE, 14, false, title);
	return f;
}

void svg_widen(struct svg_scale *s, double value)
{
	if (!isfinite(value) || (s->log && value <= 0))
		return;
	bool first = s->min > s->max;
	if (first || value < s->min)
		s->min = value;
	if (first || value > s->max)
		s->max = value;
}

/* Returns 1, 2 or 5 times a power of ten, such that the range has about so many steps. */
static double step_of(double range, double steps)
{
	double rough = range / steps;
	double power = pow(10, floor(log10(rough)));
	double times = rough / power;
	return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

void svg_round(struct svg_scale *s, const struct svg_axis *axis)
{
	if (axis->min != axis->max) {
		s->min = axis->min;
		s->max = axis->max;
		return;
	}
	if (s->min > s->max) { /* no data */
		s->min = s->log ? 1 : 0;
		s->max = s->log ? 10 : 1;
		return;
	}
	if (s->log) {
		s->min = pow(10, floor(log10(s->min) + 1e-9));
		s->max = pow(10, ceil(log10(s->max) - 1e-9));
		if (s->max <= s->min)
			s->max = s->min * 10;
		return;
	}
	if (s->min > 0 && s->min < 0.6 * s->max)
		s->min = 0;
	if (s->max <= s->min)
		s->max = s->min + (s->min == 0 ? 1 : fabs(s->min));
	double step = step_of(s->max - s->min, 6);
	s->min = floor(s->min / step + 1e-9) * step;
	s->max = ceil(s->max / step - 1e-9) * step;
}

bool svg_shown(const struct svg_scale *s, double value)
{
	return isfinite(value) && (!s->log || value > 0);
}

double svg_at(const struct svg_scale *s, double value)
{
	double share = s->log ? log(value / s->min) / log(s->max / s->min)
			      : (value - s->min) / (s->max - s->min);
	share = share < 0 ? 0 : share > 1 ? 1 : share;
	return s->from + share * (s->to - s->from);
}

/* Writes 10 to the power `exponent` to text, with superscript digits. Returns text. */
static const char *power_text(int exponent, char text[32])
{
	static const char *const raised[] = {"\u2070", "\u00b9", "\u00b2", "\u00b3", "\u2074",
					     "\u2075", "\u2076", "\u2077", "\u2078", "\u2079"};
	char digits[12];
	snprintf(digits, sizeof(digits), "%d", exponent < 0 ? -exponent : exponent);
	snprintf(text, 32, "10%s", exponent < 0 ? "\u207b" : "");
	for (const char *d = digits; *d != '\0'; d++)
		snprintf(text + strlen(text), 32 - strlen(text), "%s", raised[*d - '0']);
	return text;
}

const char *svg_number(double value, bool log, char text[32])
{
	double power = value > 0 ? log10(value) : 0;
	if (log && (power < -3.5 || power > 4.5))
		return power_text((int)lround(power), text);
	if (fabs(value) >= 1e5 || (value != 0 && fabs(value) < 1e-4))
		snprintf(text, 32, "%.3g", value);
	else
		snprintf(text, 32, "%.6g", fabs(value) < 1e-12 ? 0 : value);
	return text;
}

static size_t ticks_of(const struct svg_scale *s, double *tick)
{
	size_t n = 0;
	if (!s->log) {
		double step = step_of(s->max - s->min, 6);
		long from = lround(ceil(s->min / step - 1e-9));
		long to = lround(floor(s->max / step + 1e-9));
		for (long i = from; i <= to && n < SVG_TICKS_MAX; i++)
			tick[n++] = (double)i * step;
		return n;
	}
	int from = (int)ceil(log10(s->min) - 1e-9), to = (int)floor(log10(s->max) + 1e-9);
	int step = (to - from) / 8 + 1;
	for (int e = from; e <= to && n < SVG_TICKS_MAX; e += step)
		tick[n++] = pow(10, e);
	return n;
}

void svg_axes(struct svg *doc, const struct svg_frame *f, const struct svg_scale *x,
	      const char *x_label, const struct svg_scale *y, const char *y_label)
{
	double tick[SVG_TICKS_MAX];
	char text[32];
	size_t n = ticks_of(y, tick);
	for (size_t i = 0; i < n; i++) {
		double at = svg_at(y, tick[i]);
		svg_put(doc, "<path d=\"M%.1f %.1fh%.1f\" stroke=\"#e4e4e4\"/>\n", f->x, at, f->w);
		svg_label(doc, f->x - 6, at + 4, SVG_END, 11, false,
			  svg_number(tick[i], y->log, text));
	}
	n = x != NULL ? ticks_of(x, tick) : 0;
	for (size_t i = 0; i < n; i++) {
		double at = svg_at(x, tick[i]);
		svg_put(doc, "<path d=\"M%.1f %.1fv4\" stroke=\"#222\"/>\n", at, f->y + f->h);
		svg_label(doc, at, f->y + f->h + 17, SVG_MIDDLE, 11, false,
			  svg_number(tick[i], x->log, text));
	}
	svg_put(doc, "<path d=\"M%.1f %.1fv%.1fh%.1f\" fill=\"none\" stroke=\"#222\"/>\n", f->x,
		f->y, f->h, f->w);
	if (x_label != NULL)
		svg_label(doc, f->x + f->w / 2, f->y + f->h + 37, SVG_MIDDLE, 12, false, x_label);
	if (y_label != NULL)
		svg_label(doc, f->x - 48, f->y + f->h / 2, SVG_MIDDLE, 12, true, y_label);
}

const char *svg_color(size_t series)
{
	return colors[series % SVG_COLORS];
}

void svg_mark(struct svg *doc, size_t series, double x, double y, double size, const char *title)
{
	static const char *const shapes[] = {
		"M-1 0a1 1 0 1 0 2 0a1 1 0 1 0 -2 0z",
		"M-.9-.9h1.8v1.8h-1.8z",
		"M0-1.1L1.1.9H-1.1z",
		"M0-1.2L1.2 0L0 1.2L-1.2 0z",
		"M0 1.1L1.1-.9H-1.1z",
		"M-.3-1h.6v.7h.7v.6h-.7v.7h-.6v-.7h-.7v-.6h.7z",
	};
	svg_put(doc, "<path transform=\"translate(%.1f %.1f) scale(%.2g)\" d=\"%s\" fill=\"%s\"", x,
		y, size, shapes[series % ARRAY_LEN(shapes)], svg_color(series));
	if (title == NULL) {
		svg_put(doc, "/>\n");
		return;
	}
	svg_put(doc, "><title>");
	put_escaped(doc, title);
	svg_put(doc, "</title></path>\n");
}

void svg_ring(struct svg *doc, double x, double y)
{
	svg_put(doc,
		"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"6\" fill=\"none\" stroke=\"#222\" "
		"stroke-width=\"1.1\"/>\n",
		x, y);
}

void svg_error_bar(struct svg *doc, double x, double low, double high)
{
	svg_put(doc,
		"<path d=\"M%.1f %.1fh6m-3 0V%.1fm-3 0h6\" fill=\"none\" stroke=\"#222\" "
		"stroke-width=\"0.9\"/>\n",
		x - 3, low, high);
}

void svg_legend(struct svg *doc, const struct svg_frame *f, size_t row, size_t series,
		const char *name, bool bar)
{
	double x = f->x + f->w + 12, y = f->y + 8 + 17 * (double)row;
	if (bar)
		svg_put(doc, "<path d=\"M%.1f %.1fh10v10h-10z\" fill=\"%s\"/>\n", x - 5, y - 5,
			svg_color(series));
	else
		svg_mark(doc, series, x, y, 4.5, NULL);
	svg_label(doc, x + 10, y + 4, SVG_START, 11, false, name);
}
