// SPDX-License-Identifier: Apache-2.0
/*
 * Tables of numbers as CSV: a header, then one row per line. Lines that start with # and blank lines are skipped.
 * Values are plain text without quotes, control characters and commas. Every refusal is one line that names the file,
 * the line and the column.
 */
#ifndef EMU_CSV_H
#define EMU_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

#define CSV_COLUMNS_MAX 96
#define CSV_LINE_MAX 4096

struct csv {
	const char *name; /* of the file, in messages */
	const char *at, *end;
	unsigned line; /* number of the present line */
	size_t columns;
	char head[CSV_LINE_MAX + 1]; /* the header; its commas are replaced by NUL */
	char row[CSV_LINE_MAX + 1];
	const char *title[CSV_COLUMNS_MAX];
	const char *field[CSV_COLUMNS_MAX];
	struct strbuf *err;
};

/* Reads the header of a text. -EINVAL with a line in *err. The text and err are borrowed. */
int csv_open(struct csv *c, const char *name, const char *text, size_t len, struct strbuf *err);
/* Finds a column by its title. -EINVAL with a line in *err when there is none. */
int csv_find(struct csv *c, const char *title, size_t *out);
/* Reads the next row. Returns 1, 0 at the end, or -EINVAL with a line in *err. */
int csv_next(struct csv *c);
/* Returns whether a field of the row is empty. */
bool csv_blank(const struct csv *c, size_t column);
/* Copies a field of the row, which must have 1 to room - 1 bytes. -EINVAL. */
int csv_word(struct csv *c, size_t column, char *out, size_t room);
/* Reads a decimal number from min to max. -EINVAL. */
int csv_number(struct csv *c, size_t column, double min, double max, double *out);
/* Refuses the present row: adds "FILE:LINE: " and the text to *err, and returns -EINVAL. */
int csv_refuse(struct csv *c, const char *fmt, ...) PRINTF(2, 3);

#endif
