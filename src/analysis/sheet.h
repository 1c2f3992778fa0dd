// SPDX-License-Identifier: Apache-2.0
/*
 * Results as rows of named columns, printed as an aligned table, as CSV or as JSON. The name of a
 * column ends in its unit ("time_h").
 */
#ifndef ANALYSIS_SHEET_H
#define ANALYSIS_SHEET_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#define SHEET_COLUMNS_MAX 32

enum sheet_kind {
	SHEET_TEXT,   /* const char *, copied */
	SHEET_NUMBER, /* double; not finite: empty in CSV, null in JSON, "-" in the table */
	SHEET_COUNT,  /* int64_t */
	SHEET_FLAG,   /* int: true or false in JSON, 1 or 0 in CSV, * or nothing in the table */
};

struct sheet_column {
	const char *name; /* name of the column in CSV and JSON */
	const char *head; /* heading of the column in the table; NULL: the table omits the column */
	enum sheet_kind kind;
	int digits; /* SHEET_NUMBER in the table: significant digits */
};

struct sheet {
	const struct sheet_column *columns;
	size_t columns_n, rows_n, rows_cap;
	union sheet_cell *cells; /* rows_n times columns_n */
};

union sheet_cell {
	char *text;
	double number;
	int64_t count;
};

/* Sets up an empty sheet. The columns are borrowed; columns_n <= SHEET_COLUMNS_MAX. */
void sheet_init(struct sheet *s, const struct sheet_column *columns, size_t columns_n);
void sheet_fini(struct sheet *s);

/* Adds a row: one argument for each column, of the type of its kind. Returns 0 or -ENOMEM. */
int sheet_add(struct sheet *s, ...);

/* Writes CSV, with enough digits that reading gives the same numbers. Returns 0 or -EIO. */
int sheet_print_csv(const struct sheet *s, FILE *out);
int sheet_print_text(const struct sheet *s, FILE *out);
/* Returns an array of objects as a new reference, or NULL when out of memory. */
json_t *sheet_json(const struct sheet *s);

/* Returns a JSON number as a new reference; null for infinity and NaN, which JSON does not have. */
json_t *sheet_number(double value);

/* A local declared AUTO_SHEET is emptied when its scope ends. */
#define AUTO_SHEET __attribute__((cleanup(sheet_fini)))

#endif
