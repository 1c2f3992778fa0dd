// SPDX-License-Identifier: Apache-2.0
/*
 * Results as rows of named columns, written once and printed three ways: aligned for a person, CSV
 * for a spreadsheet, JSON for a program. The name of a column ends in its unit ("time_h").
 */
#ifndef ANALYSIS_SHEET_H
#define ANALYSIS_SHEET_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#define SHEET_COLUMNS_MAX 32

enum sheet_kind {
	SHEET_TEXT,   /* const char *, copied */
	SHEET_NUMBER, /* double; not finite: empty in CSV, null in JSON, "-" for a person */
	SHEET_COUNT,  /* int64_t */
	SHEET_FLAG,   /* int: true or false in JSON, 1 or 0 in CSV, * or nothing for a person */
};

struct sheet_column {
	const char *name; /* for programs */
	const char *head; /* for a person; NULL: left out there */
	enum sheet_kind kind;
	int digits; /* SHEET_NUMBER for a person: significant digits */
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

/* The columns are borrowed; columns_n <= SHEET_COLUMNS_MAX. */
void sheet_init(struct sheet *s, const struct sheet_column *columns, size_t columns_n);
void sheet_fini(struct sheet *s);

/* One row: an argument for each column, of the type its kind names. -ENOMEM. */
int sheet_add(struct sheet *s, ...);

/* Numbers are written so that they read back as the same ones. Each -EIO when it cannot be written. */
int sheet_print_csv(const struct sheet *s, FILE *out);
int sheet_print_text(const struct sheet *s, FILE *out);
/* An array of objects: a new reference, or NULL when out of memory. */
json_t *sheet_json(const struct sheet *s);

/* JSON has no infinity: null. A new reference. */
json_t *sheet_number(double value);

/* A local declared AUTO_SHEET is emptied when its scope ends. */
#define AUTO_SHEET __attribute__((cleanup(sheet_fini)))

#endif
