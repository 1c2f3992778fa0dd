// SPDX-License-Identifier: Apache-2.0
#include "emu/csv.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int csv_refuse(struct csv *c, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	strbuf_clear(c->err);
	(void)strbuf_printf(c->err, "%s:%u: ", c->name, c->line);
	(void)strbuf_vprintf(c->err, fmt, args);
	va_end(args);
	return -EINVAL;
}

/* Copies the next line that has values. Returns 1, 0 at the end, -EINVAL. */
static int next_line(struct csv *c, char line[CSV_LINE_MAX + 1])
{
	while (c->at < c->end) {
		const char *stop = memchr(c->at, '\n', (size_t)(c->end - c->at));
		const char *from = c->at;
		size_t len = (size_t)((stop != NULL ? stop : c->end) - from);
		c->at = stop != NULL ? stop + 1 : c->end;
		c->line++;
		if (len > 0 && from[len - 1] == '\r')
			len--;
		if (len > CSV_LINE_MAX)
			return csv_refuse(c, "the line is longer than %d bytes", CSV_LINE_MAX);
		if (len == 0 || from[0] == '#')
			continue;
		for (size_t i = 0; i < len; i++)
			if ((unsigned char)from[i] < ' ' || (unsigned char)from[i] >= 127 ||
			    from[i] == '"')
				return csv_refuse(
					c, "byte %zu is a quote or no printable ASCII character",
					i + 1);
		memcpy(line, from, len);
		line[len] = 0;
		return 1;
	}
	return 0;
}

/* Splits a line at its commas. Returns the number of fields; CSV_COLUMNS_MAX + 1 if there are more than fit. */
static size_t split(char *line, const char *field[CSV_COLUMNS_MAX])
{
	size_t n = 0;
	char *comma;
	do {
		if (n == CSV_COLUMNS_MAX)
			return CSV_COLUMNS_MAX + 1;
		field[n++] = line;
		comma = strchr(line, ',');
		if (comma != NULL) {
			*comma = 0;
			line = comma + 1;
		}
	} while (comma != NULL);
	return n;
}

int csv_open(struct csv *c, const char *name, const char *text, size_t len, struct strbuf *err)
{
	assert(name != NULL && err != NULL && (text != NULL || len == 0));
	*c = (struct csv){.name = name, .at = text, .end = text + len, .err = err};
	int rc = next_line(c, c->head);
	if (rc < 0)
		return rc;
	if (rc == 0)
		return csv_refuse(c, "the file has no header");
	c->columns = split(c->head, c->title);
	if (c->columns > CSV_COLUMNS_MAX)
		return csv_refuse(c, "more than %d columns", CSV_COLUMNS_MAX);
	for (size_t i = 0; i < c->columns; i++)
		for (size_t j = 0; j < i; j++)
			if (strcmp(c->title[i], c->title[j]) == 0)
				return csv_refuse(c, "two columns are called \"%s\"", c->title[i]);
	return 0;
}

int csv_find(struct csv *c, const char *title, size_t *out)
{
	for (size_t i = 0; i < c->columns; i++) {
		if (strcmp(c->title[i], title) == 0) {
			*out = i;
			return 0;
		}
	}
	return csv_refuse(c, "column \"%s\" is missing", title);
}

int csv_next(struct csv *c)
{
	int rc = next_line(c, c->row);
	if (rc <= 0)
		return rc;
	size_t n = split(c->row, c->field);
	if (n != c->columns)
		return csv_refuse(c, "the row has %zu%s values and the header %zu",
				  n > CSV_COLUMNS_MAX ? (size_t)CSV_COLUMNS_MAX : n,
				  n > CSV_COLUMNS_MAX ? " or more" : "", c->columns);
	return 1;
}

bool csv_blank(const struct csv *c, size_t column)
{
	assert(column < c->columns);
	return c->field[column][0] == 0;
}

int csv_word(struct csv *c, size_t column, char *out, size_t room)
{
	assert(column < c->columns && room > 1);
	size_t len = strlen(c->field[column]);
	if (len == 0 || len >= room)
		return csv_refuse(c, "%s must have 1 to %zu characters", c->title[column],
				  room - 1);
	memcpy(out, c->field[column], len + 1);
	return 0;
}

int csv_number(struct csv *c, size_t column, double min, double max, double *out)
{
	assert(column < c->columns && min <= max);
	const char *text = c->field[column];
	char *end;
	double value = strtod(text, &end);
	bool plain = text[0] != 0 && strspn(text, "0123456789+-.eE") == strlen(text);
	if (!plain || *end != 0 || !isfinite(value))
		return csv_refuse(c, "%s = \"%.40s\" is not a number", c->title[column], text);
	if (value < min || value > max)
		return csv_refuse(c, "%s = %.40s is out of range; allowed: %g to %g",
				  c->title[column], text, min, max);
	*out = value;
	return 0;
}
