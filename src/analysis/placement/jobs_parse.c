// SPDX-License-Identifier: Apache-2.0
/* The reader of job traces. It copies one line at a time and cuts it at its commas. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "analysis/placement/jobs.h"
#include "base/base.h"

#define FIXED_COLUMNS 8u
#define COLUMNS_MAX (FIXED_COLUMNS + 2 * JOBS_FEATURES_MAX)
#define LINE_BYTES_MAX 16384u

static const char *const fixed[FIXED_COLUMNS] = {
	"job", "start_s", "end_s", "size_bytes", "bytes_read", "reads", "bytes_written", "writes",
};

struct reader {
	struct jobs *jobs;
	const char *text;
	size_t len, at;
	uint64_t line; /* number of the current line, from 1 */
	char copy[LINE_BYTES_MAX];
	char *cells[COLUMNS_MAX];
	uint32_t columns;
	uint8_t place[COLUMNS_MAX]; /* by feature column: its index among numbers or texts */
	bool number[COLUMNS_MAX];
	char *why;
	size_t why_size;
};

static int refuse(const struct reader *r, int err, const char *fmt, ...) PRINTF(3, 4);

static int refuse(const struct reader *r, int err, const char *fmt, ...)
{
	va_list args;
	if (r->why_size == 0)
		return err;
	int n = snprintf(r->why, r->why_size, "line %llu: ", (unsigned long long)r->line);
	va_start(args, fmt);
	if (n > 0 && (size_t)n < r->why_size)
		vsnprintf(r->why + n, r->why_size - (size_t)n, fmt, args);
	va_end(args);
	return err;
}

/* Cuts the next line into cells. Returns the number of cells, 0 at the end of the text, or -errno. */
static int next_line(struct reader *r)
{
	assert(r->at <= r->len);
	if (r->at == r->len)
		return 0;
	r->line++;
	const char *begin = r->text + r->at;
	const char *end = memchr(begin, '\n', r->len - r->at);
	size_t n = end != NULL ? (size_t)(end - begin) : r->len - r->at;
	r->at += n + (end != NULL);
	if (n > 0 && begin[n - 1] == '\r')
		n--;
	if (n >= LINE_BYTES_MAX)
		return refuse(r, -EILSEQ, "is longer than %u bytes", LINE_BYTES_MAX - 1);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)begin[i] < ' ' || begin[i] == 0x7f || begin[i] == '"')
			return refuse(r, -EILSEQ,
				      "contains a quote or a control character at byte %zu", i + 1);
	memcpy(r->copy, begin, n);
	r->copy[n] = '\0';
	int cells = 0;
	for (char *p = r->copy; p != NULL; cells++) {
		if (cells == COLUMNS_MAX)
			return refuse(r, -EILSEQ, "has more than %u columns", COLUMNS_MAX);
		char *comma = strchr(p, ',');
		if (comma != NULL)
			*comma++ = '\0';
		r->cells[cells] = p;
		p = comma;
	}
	return cells;
}

static int read_header(struct reader *r)
{
	int cells = next_line(r);
	if (cells <= 0)
		r->line = 1;
	if (cells < 0)
		return cells;
	for (uint32_t i = 0; i < FIXED_COLUMNS; i++) {
		const char *cell = i < (uint32_t)cells ? r->cells[i] : "";
		assert(cell != NULL);
		if (strcmp(cell, fixed[i]) != 0)
			return refuse(r, -EILSEQ, "column %u of the header must be %s", i + 1,
				      fixed[i]);
	}
	r->columns = (uint32_t)cells;
	for (uint32_t i = FIXED_COLUMNS; i < r->columns; i++) {
		r->number[i] = r->cells[i][0] == 'n';
		r->place[i] = (uint8_t)(r->number[i] ? r->jobs->numbers_n : r->jobs->texts_n);
		int rc = jobs_column(r->jobs, r->cells[i]);
		if (rc == -EEXIST)
			return refuse(r, -EINVAL, "column %.40s is there twice", r->cells[i]);
		if (rc == -E2BIG)
			return refuse(r, rc, "more than %u columns of one kind", JOBS_FEATURES_MAX);
		if (rc != 0)
			return refuse(r, -EILSEQ,
				      "column \"%.40s\": must be n_NAME or s_NAME, with at most "
				      "%u bytes of a-z, 0-9 and _",
				      r->cells[i], JOBS_NAME_MAX - 1);
	}
	return 0;
}

/* Parses digits with at most one decimal point between them; no sign, no exponent. */
static int read_time(const struct reader *r, uint32_t column, double *out)
{
	const char *text = r->cells[column];
	size_t whole = strspn(text, "0123456789"), part = 0;
	if (text[whole] == '.')
		part = strspn(text + whole + 1, "0123456789") + 1;
	if (whole == 0 || part == 1 || text[whole + part] != '\0' || whole + part > 40)
		return refuse(r, -EILSEQ, "%s \"%.40s\": must be seconds as a plain decimal number",
			      fixed[column], text);
	*out = strtod(text, NULL);
	if (*out > JOBS_TIME_MAX)
		return refuse(r, -EINVAL, "%s %.40s: must be at most %g", fixed[column], text,
			      JOBS_TIME_MAX);
	return 0;
}

static int read_count(const struct reader *r, uint32_t column, uint64_t *out)
{
	const char *text = r->cells[column];
	size_t n = strspn(text, "0123456789");
	if (n == 0 || text[n] != '\0')
		return refuse(r, -EILSEQ, "%s \"%.40s\": must be a whole number", fixed[column],
			      text);
	if (n <= 19)
		*out = strtoull(text, NULL, 10);
	if (n > 19 || *out > JOBS_COUNT_MAX)
		return refuse(r, -EINVAL, "%s %.40s: must be at most %llu", fixed[column], text,
			      JOBS_COUNT_MAX);
	return 0;
}

static int read_number(const struct reader *r, uint32_t column, double *out)
{
	const char *text = r->cells[column];
	size_t n = strlen(text);
	*out = NAN;
	if (n == 0)
		return 0;
	char *end;
	if (n <= 40 && strspn(text, "+-.0123456789eE") == n) {
		*out = strtod(text, &end);
		/* Within the range of a float, because models compare floats. */
		if (*end == '\0' && fabs(*out) <= 1e30)
			return 0;
	}
	return refuse(r, -EILSEQ,
		      "column %u \"%.40s\": must be a decimal number from -1e30 to 1e30",
		      column + 1, text);
}

static int read_io(const struct reader *r, struct job_io *io)
{
	const struct jobs *t = r->jobs;
	int rc = read_time(r, 1, &io->start_s);
	uint64_t *counts[] = {&io->size_bytes, &io->read_bytes, &io->reads, &io->written_bytes,
			      &io->writes};
	if (rc == 0)
		rc = read_time(r, 2, &io->end_s);
	for (uint32_t i = 0; rc == 0 && i < ARRAY_LEN(counts); i++)
		rc = read_count(r, 3 + i, counts[i]);
	if (rc != 0)
		return rc;
	if (io->end_s <= io->start_s)
		return refuse(r, -EINVAL, "end_s %s: must be after start_s %s", r->cells[2],
			      r->cells[1]);
	if (io->size_bytes == 0)
		return refuse(r, -EINVAL, "size_bytes: must be at least 1");
	if (t->n > 0 && io->start_s < t->io[t->n - 1].start_s)
		return refuse(r, -EINVAL, "start_s %s: is before that of the previous line, %.10g",
			      r->cells[1], t->io[t->n - 1].start_s);
	return 0;
}

static int read_job(struct reader *r)
{
	struct job_io io;
	double numbers[JOBS_FEATURES_MAX];
	const char *texts[JOBS_FEATURES_MAX];
	size_t id = strlen(r->cells[0]);
	if (id == 0 || id >= sizeof(r->jobs->id[0]))
		return refuse(r, -EINVAL, "job \"%.40s\": must have 1 to %zu bytes", r->cells[0],
			      sizeof(r->jobs->id[0]) - 1);
	int rc = read_io(r, &io);
	for (uint32_t i = FIXED_COLUMNS; rc == 0 && i < r->columns; i++) {
		if (r->number[i]) {
			rc = read_number(r, i, &numbers[r->place[i]]);
			continue;
		}
		texts[r->place[i]] = r->cells[i];
		if (strlen(r->cells[i]) > JOBS_TEXT_MAX)
			rc = refuse(r, -EINVAL, "column %u: has more than %u bytes", i + 1,
				    JOBS_TEXT_MAX);
	}
	if (rc != 0)
		return rc;
	rc = jobs_add(r->jobs, r->cells[0], &io, numbers, texts);
	if (rc == -E2BIG)
		return refuse(r, rc, "too many jobs or too many different texts");
	return rc != 0 ? refuse(r, rc, "out of memory") : 0;
}

int jobs_parse(struct jobs *t, const char *text, size_t len, char *why, size_t why_size)
{
	*t = (struct jobs){0};
	AUTO_FREE struct reader *r = calloc(1, sizeof(*r));
	if (r == NULL)
		return -ENOMEM;
	r->jobs = t;
	r->text = text;
	r->len = len;
	r->why = why;
	r->why_size = why_size;
	int rc = read_header(r);
	while (rc == 0) {
		rc = next_line(r);
		if (rc <= 0)
			break;
		rc = (uint32_t)rc == r->columns
			     ? read_job(r)
			     : refuse(r, -EILSEQ, "has %d columns, and the header has %u", rc,
				      r->columns);
	}
	if (rc != 0)
		jobs_fini(t);
	return rc;
}
