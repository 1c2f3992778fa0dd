// SPDX-License-Identifier: Apache-2.0
#include "ops/prom.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/strbuf.h"
#include "rt/load.h"
#include "rt/rt.h"

/* --- merging ---------------------------------------------------------------------------------- */

#define HELP "# HELP "

/* A family in a text: its name, its two lines of comments and its series. */
struct family {
	const char *name;
	size_t name_len;
	const char *series; /* behind the lines of comments */
	const char *end;    /* the next family, or the end of the text */
};

static const char *line_after(const char *at)
{
	const char *newline = strchr(at, '\n');
	return newline != NULL ? newline + 1 : at + strlen(at);
}

/* Finds the family that begins at `at`; false at the end of the text. */
static bool family_at(const char *at, struct family *f)
{
	if (strncmp(at, HELP, strlen(HELP)) != 0)
		return false;
	f->name = at + strlen(HELP);
	f->name_len = strcspn(f->name, " \n");
	for (at = line_after(at); at[0] == '#' && strncmp(at, HELP, strlen(HELP)) != 0;)
		at = line_after(at);
	f->series = at;
	while (at[0] != '\0' && strncmp(at, HELP, strlen(HELP)) != 0)
		at = line_after(at);
	f->end = at;
	return true;
}

static bool is_named(const struct family *f, const struct family *want)
{
	return f->name_len == want->name_len && memcmp(f->name, want->name, want->name_len) == 0;
}

/* Finds a family by its name; false if the text has none. The texts of equal parts have the same order: *at is where
 * the search begins, and becomes the place behind the family. */
static bool family_find(const char *text, const char **at, const struct family *want,
			struct family *out)
{
	bool found = family_at(*at, out) && is_named(out, want);
	for (const char *p = text; !found && family_at(p, out); p = out->end)
		found = is_named(out, want);
	if (found)
		*at = out->end;
	return found;
}

int prom_merge(struct strbuf *out, const char *const *texts, size_t count)
{
	AUTO_FREE const char **at = calloc(count + 1, sizeof(*at));
	int rc = at != NULL ? 0 : -ENOMEM;
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct family f, other;
		memcpy(at, texts, count * sizeof(*at));
		for (const char *p = texts[i]; rc == 0 && family_at(p, &f); p = f.end) {
			bool seen = false;
			for (size_t k = 0; k < i && !seen; k++)
				seen = family_find(texts[k], &at[k], &f, &other);
			if (seen)
				continue;
			rc = strbuf_add(out, p, (size_t)(f.end - p));
			for (size_t k = i + 1; k < count && rc == 0; k++)
				if (family_find(texts[k], &at[k], &f, &other))
					rc = strbuf_add(out, other.series,
							(size_t)(other.end - other.series));
		}
	}
	return rc;
}

/* --- loops ------------------------------------------------------------------------------------ */

static int head(struct strbuf *out, const char *name, const char *type, const char *help)
{
	return strbuf_printf(out, HELP "%s %s\n# TYPE %s %s\n", name, help, name, type);
}

static int seconds(struct strbuf *out, struct rt_loop *const *loops, size_t count, const char *name,
		   const char *help, size_t offset)
{
	int rc = head(out, name, "counter", help);
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct rt_load l;
		rt_loop_load(loops[i], &l);
		uint64_t ns = *(const uint64_t *)(const void *)((const char *)&l + offset);
		rc = strbuf_printf(out, "%s{loop=\"%zu\"} %.9f\n", name, i, (double)ns / 1e9);
	}
	return rc;
}

int prom_loops(struct strbuf *out, struct rt_loop *const *loops, size_t count)
{
	assert(count > 0);
	int rc = seconds(out, loops, count, "terrane_loop_seconds_total", "age of the loop",
			 offsetof(struct rt_load, up_ns));
	if (rc == 0)
		rc = seconds(out, loops, count, "terrane_loop_busy_seconds_total",
			     "time for which the loop was awake",
			     offsetof(struct rt_load, busy_ns));
	if (rc == 0)
		rc = head(out, "terrane_loop_busy_ratio", "gauge",
			  "share of the last minutes for which the loop was awake");
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct rt_recent r;
		rt_loop_recent(loops[i], &r);
		rc = strbuf_printf(out, "terrane_loop_busy_ratio{loop=\"%zu\"} %.4f\n", i,
				   (double)r.busy_ns / (double)max_u64(r.span_ns, 1));
	}
	if (rc == 0)
		rc = head(out, "terrane_loop_long_runs_total", "counter",
			  "runs of a fiber of more than 10 ms without a wait");
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct rt_load l;
		rt_loop_load(loops[i], &l);
		rc = strbuf_printf(out, "terrane_loop_long_runs_total{loop=\"%zu\"} %llu\n", i,
				   (unsigned long long)l.long_runs);
	}
	if (rc == 0)
		rc = head(
			out, "terrane_loop_longest_run_seconds", "gauge",
			"longest run of a fiber without a wait in the last minutes, also one that "
			"has not ended, and its fiber");
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct rt_load l;
		rt_loop_load(loops[i], &l);
		rc = strbuf_printf(
			out, "terrane_loop_longest_run_seconds{loop=\"%zu\",fiber=\"%s\"} %.9f\n",
			i, l.longest_name, (double)l.longest_ns / 1e9);
	}
	return rc;
}
