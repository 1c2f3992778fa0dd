// SPDX-License-Identifier: Apache-2.0
#include "analysis/sheet.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define CELL_MAX 128

void sheet_init(struct sheet *s, const struct sheet_column *columns, size_t columns_n)
{
	assert(columns_n >= 1 && columns_n <= SHEET_COLUMNS_MAX);
	assert(columns_n <= SHEET_COLUMNS_MAX);
	*s = (struct sheet){.columns = columns, .columns_n = columns_n};
}

static void free_row(const struct sheet *s, union sheet_cell *row)
{
	for (size_t c = 0; c < s->columns_n; c++)
		if (s->columns[c].kind == SHEET_TEXT)
			free(row[c].text);
}

void sheet_fini(struct sheet *s)
{
	for (size_t r = 0; r < s->rows_n; r++)
		free_row(s, &s->cells[r * s->columns_n]);
	free(s->cells);
	s->cells = NULL;
	s->rows_n = s->rows_cap = 0;
}

static int make_room(struct sheet *s)
{
	if (s->rows_n < s->rows_cap)
		return 0;
	size_t cap = s->rows_cap == 0 ? 16 : 2 * s->rows_cap;
	union sheet_cell *cells =
		reallocarray(s->cells, cap * s->columns_n, sizeof(union sheet_cell));
	if (cells == NULL)
		return -ENOMEM;
	s->cells = cells;
	s->rows_cap = cap;
	return 0;
}

int sheet_add(struct sheet *s, ...)
{
	assert(s->columns_n > 0);
	int rc = make_room(s);
	if (rc != 0)
		return rc;
	union sheet_cell *row = &s->cells[s->rows_n * s->columns_n];
	va_list args;
	va_start(args, s);
	for (size_t c = 0; c < s->columns_n; c++) {
		switch (s->columns[c].kind) {
		case SHEET_TEXT:
			row[c].text = strdup(va_arg(args, const char *));
			if (row[c].text == NULL)
				rc = -ENOMEM;
			break;
		case SHEET_NUMBER:
			row[c].number = va_arg(args, double);
			break;
		case SHEET_COUNT:
			row[c].count = va_arg(args, int64_t);
			break;
		case SHEET_FLAG:
			row[c].count = va_arg(args, int) != 0;
			break;
		}
	}
	va_end(args);
	if (rc != 0)
		free_row(s, row);
	else
		s->rows_n++;
	return rc;
}

static int written(FILE *out)
{
	return fflush(out) != 0 || ferror(out) ? -EIO : 0;
}

static void csv_text(const char *text, FILE *out)
{
	if (strpbrk(text, ",\"\r\n") == NULL) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text != '\0'; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

static void csv_cell(const struct sheet_column *c, const union sheet_cell *v, FILE *out)
{
	switch (c->kind) {
	case SHEET_TEXT:
		csv_text(v->text, out);
		break;
	case SHEET_NUMBER:
		if (isfinite(v->number))
			fprintf(out, "%.17g", v->number);
		break;
	case SHEET_COUNT:
	case SHEET_FLAG:
		fprintf(out, "%" PRId64, v->count);
		break;
	}
}

int sheet_print_csv(const struct sheet *s, FILE *out)
{
	for (size_t c = 0; c < s->columns_n; c++) {
		csv_text(s->columns[c].name, out);
		fputc(c + 1 < s->columns_n ? ',' : '\n', out);
	}
	for (size_t r = 0; r < s->rows_n; r++) {
		for (size_t c = 0; c < s->columns_n; c++) {
			csv_cell(&s->columns[c], &s->cells[r * s->columns_n + c], out);
			fputc(c + 1 < s->columns_n ? ',' : '\n', out);
		}
	}
	return written(out);
}

/* Prints numbers below 1e9 or so without an exponent: 26400, not 2.64e+04. */
static void person_number(double value, int digits, char text[CELL_MAX])
{
	double size = fabs(value);
	if (size >= pow(10, digits) && size < 1e9)
		snprintf(text, CELL_MAX, "%.0f", value);
	else
		snprintf(text, CELL_MAX, "%.*g", digits, value);
}

static const char *person_cell(const struct sheet_column *c, const union sheet_cell *v,
			       char text[CELL_MAX])
{
	switch (c->kind) {
	case SHEET_TEXT:
		snprintf(text, CELL_MAX, "%s", v->text);
		break;
	case SHEET_NUMBER:
		if (isfinite(v->number))
			person_number(v->number, c->digits > 0 ? c->digits : 4, text);
		else
			snprintf(text, CELL_MAX, "-");
		break;
	case SHEET_COUNT:
		snprintf(text, CELL_MAX, "%" PRId64, v->count);
		break;
	case SHEET_FLAG:
		snprintf(text, CELL_MAX, "%s", v->count != 0 ? "*" : "");
		break;
	}
	return text;
}

int sheet_print_text(const struct sheet *s, FILE *out)
{
	int width[SHEET_COLUMNS_MAX];
	char text[CELL_MAX];
	for (size_t c = 0; c < s->columns_n; c++) {
		const struct sheet_column *column = &s->columns[c];
		width[c] = column->head == NULL ? 0 : (int)strlen(column->head);
		for (size_t r = 0; r < s->rows_n; r++) {
			const union sheet_cell *v = &s->cells[r * s->columns_n + c];
			int len = (int)strlen(person_cell(column, v, text));
			width[c] = len > width[c] ? len : width[c];
		}
	}
	for (size_t r = 0; r <= s->rows_n; r++) {
		const char *gap = "";
		for (size_t c = 0; c < s->columns_n; c++) {
			const struct sheet_column *column = &s->columns[c];
			if (column->head == NULL)
				continue;
			const char *cell =
				r == 0 ? column->head
				       : person_cell(column, &s->cells[(r - 1) * s->columns_n + c],
						     text);
			bool left = column->kind == SHEET_TEXT;
			fprintf(out, left ? "%s%-*s" : "%s%*s", gap, width[c], cell);
			gap = "  ";
		}
		fputc('\n', out);
	}
	return written(out);
}

json_t *sheet_number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_cell(const struct sheet_column *c, const union sheet_cell *v)
{
	switch (c->kind) {
	case SHEET_TEXT:
		return json_string(v->text);
	case SHEET_NUMBER:
		return sheet_number(v->number);
	case SHEET_COUNT:
		return json_integer(v->count);
	case SHEET_FLAG:
		return json_boolean(v->count != 0);
	}
	return NULL;
}

json_t *sheet_json(const struct sheet *s)
{
	json_t *rows = json_array();
	if (rows == NULL)
		return NULL;
	for (size_t r = 0; r < s->rows_n; r++) {
		json_t *row = json_object();
		int rc = row == NULL ? -1 : json_array_append_new(rows, row);
		for (size_t c = 0; rc == 0 && c < s->columns_n; c++)
			rc = json_object_set_new(
				row, s->columns[c].name,
				json_cell(&s->columns[c], &s->cells[r * s->columns_n + c]));
		if (rc != 0) {
			json_decref(rows);
			return NULL;
		}
	}
	return rows;
}
