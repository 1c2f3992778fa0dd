// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/base.h"

#define LINE_MAX_BYTES 96u

struct reader {
	struct trace *trace;
	const char *text;
	size_t len, at;
	uint64_t line; /* number of the current line, from 1 */
	uint32_t disks;
	uint8_t *down; /* by disk: the disk has failed and is not replaced */
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

static int trace_add(struct trace *t, double time_s, uint32_t disk, enum trace_kind kind)
{
	if (t->n == TRACE_EVENTS_MAX)
		return -E2BIG;
	if (t->n == t->cap) {
		size_t cap = t->cap == 0 ? 256 : t->cap * 2;
		struct trace_event *events = realloc(t->events, cap * sizeof(*events));
		if (events == NULL)
			return -ENOMEM;
		t->events = events;
		t->cap = cap;
	}
	t->events[t->n++] = (struct trace_event){time_s, disk, kind};
	return 0;
}

void trace_fini(struct trace *t)
{
	free(t->events);
	*t = (struct trace){0};
}

/* Copies the next line without its newline. Returns 1, or 0 at the end of the text. */
static int next_line(struct reader *r, char line[LINE_MAX_BYTES])
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
	if (n >= LINE_MAX_BYTES || memchr(begin, '\0', n) != NULL)
		return refuse(r, -EILSEQ, "is not of the form time,disk,event");
	memcpy(line, begin, n);
	line[n] = '\0';
	return 1;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Parses digits with at most one decimal point between them; no sign, no exponent. */
static int read_time(const struct reader *r, const char *text, double *out)
{
	const char *p = text;
	double value = 0, unit = 1;
	while (is_digit(*p))
		value = value * 10 + (*p++ - '0');
	bool any = p > text;
	if (any && *p == '.') {
		const char *point = p++;
		for (; is_digit(*p); p++)
			value += (*p - '0') * (unit /= 10);
		any = p > point + 1;
	}
	if (!any || *p != '\0' || !isfinite(value))
		return refuse(r, -EILSEQ,
			      "time \"%.40s\": must be seconds as a plain decimal number", text);
	*out = value;
	return 0;
}

static int read_disk(const struct reader *r, const char *text, uint32_t *out)
{
	uint64_t value = 0;
	size_t n = 0;
	for (; n < 10 && is_digit(text[n]); n++)
		value = value * 10 + (uint64_t)(text[n] - '0');
	if (n == 0 || text[n] != '\0')
		return refuse(r, -EILSEQ, "disk \"%.40s\": must be a whole number", text);
	if (value >= r->disks)
		return refuse(r, -EINVAL, "disk %llu: the system has disks 0 to %u",
			      (unsigned long long)value, r->disks - 1);
	*out = (uint32_t)value;
	return 0;
}

static int read_event(struct reader *r, char *line)
{
	char *disk = strchr(line, ','), *event = disk != NULL ? strchr(disk + 1, ',') : NULL;
	struct trace_event e = {0};
	if (event == NULL)
		return refuse(r, -EILSEQ, "is not of the form time,disk,event");
	*disk++ = '\0';
	*event++ = '\0';
	int rc = read_time(r, line, &e.time_s);
	if (rc == 0)
		rc = read_disk(r, disk, &e.disk);
	if (rc != 0)
		return rc;
	if (strcmp(event, "fail") != 0 && strcmp(event, "replace") != 0)
		return refuse(r, -EILSEQ, "event \"%.40s\": must be fail or replace", event);
	e.kind = event[0] == 'f' ? TRACE_FAIL : TRACE_REPLACE;
	const struct trace *t = r->trace;
	if (t->n > 0 && e.time_s < t->events[t->n - 1].time_s)
		return refuse(r, -EINVAL, "time %s: is before the time of the previous line, %.10g",
			      line, t->events[t->n - 1].time_s);
	bool down = r->down[e.disk] != 0;
	if (down == (e.kind == TRACE_FAIL))
		return refuse(r, -EINVAL,
			      down ? "disk %u: fails, but it already failed and was not replaced"
				   : "disk %u: is replaced, but it has not failed",
			      e.disk);
	r->down[e.disk] = e.kind == TRACE_FAIL;
	rc = trace_add(r->trace, e.time_s, e.disk, e.kind);
	return rc != 0 ? refuse(r, rc, "too many events: at most %u", TRACE_EVENTS_MAX) : 0;
}

static int read_all(struct reader *r)
{
	char line[LINE_MAX_BYTES];
	int rc = next_line(r, line);
	if (rc < 0)
		return rc;
	if (rc == 0 || strcmp(line, TRACE_HEAD) != 0) {
		r->line = 1;
		return refuse(r, -EILSEQ, "the first line must be %s", TRACE_HEAD);
	}
	while ((rc = next_line(r, line)) > 0) {
		rc = read_event(r, line);
		if (rc != 0)
			return rc;
	}
	return rc;
}

int trace_parse(struct trace *t, const char *text, size_t len, uint32_t disks, char *why,
		size_t why_size)
{
	*t = (struct trace){0};
	AUTO_FREE uint8_t *down = calloc(disks > 0 ? disks : 1, 1);
	if (down == NULL)
		return -ENOMEM;
	struct reader r = {.trace = t,
			   .text = text,
			   .len = len,
			   .disks = disks,
			   .down = down,
			   .why = why,
			   .why_size = why_size};
	int rc = read_all(&r);
	if (rc != 0)
		trace_fini(t);
	return rc;
}

int trace_print(const struct trace *t, FILE *out)
{
	fprintf(out, "%s\n", TRACE_HEAD);
	for (size_t i = 0; i < t->n; i++)
		fprintf(out, "%.3f,%u,%s\n", t->events[i].time_s, t->events[i].disk,
			t->events[i].kind == TRACE_FAIL ? "fail" : "replace");
	return fflush(out) != 0 || ferror(out) ? -EIO : 0;
}
