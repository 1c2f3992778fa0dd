// SPDX-License-Identifier: Apache-2.0
/* Job files of `terrane train`, with values of the command line in place of their own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/train.h"

/* A value of --set: SECTION.KEY=VALUE. */
struct set {
	const char *section, *key, *value;
	size_t section_len, key_len;
};

static bool set_parse(const char *text, struct set *out)
{
	const char *equal = strchr(text, '=');
	const char *dot = strchr(text, '.');
	if (equal == NULL || dot == NULL || dot > equal || dot == text || equal == dot + 1)
		return false;
	*out = (struct set){.section = text,
			    .section_len = (size_t)(dot - text),
			    .key = dot + 1,
			    .key_len = (size_t)(equal - dot - 1),
			    .value = equal + 1};
	return strchr(text, '\n') == NULL;
}

static bool named(const char *at, size_t len, const char *name, size_t name_len)
{
	while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t'))
		len--;
	return len == name_len && memcmp(at, name, len) == 0;
}

/* Returns whether a value of --set replaces the line of this section. */
static bool replaced(const struct train_line *line, const char *section, size_t section_len,
		     const char *text, size_t len)
{
	const char *equal = memchr(text, '=', len);
	for (size_t i = 0; equal != NULL && i < line->set_count; i++) {
		struct set s;
		if (set_parse(line->set[i], &s) &&
		    named(section, section_len, s.section, s.section_len) &&
		    named(text, (size_t)(equal - text), s.key, s.key_len))
			return true;
	}
	return false;
}

#define VIRTUAL "virtual" /* the section of the simulated cluster */

/* With a virtual clock the section [virtual] is not the job's. */
static bool wanted(const struct train_line *line, const char *section, size_t len, bool simulated)
{
	return !line->virtual_ || named(section, len, VIRTUAL, strlen(VIRTUAL)) == simulated;
}

/*
 * Copies the lines of a job file, or with `simulated` those of its section [virtual]; others, and lines that --set
 * replaces, become empty, so that messages have the right numbers.
 */
static int copy_lines(const struct train_line *line, const char *text, size_t len, bool simulated,
		      struct strbuf *out)
{
	const char *section = "";
	size_t section_len = 0;
	int rc = 0;
	for (const char *at = text, *end = text + len; rc == 0 && at < end;) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t n = (size_t)((stop != NULL ? stop : end) - at);
		const char *close = memchr(at, ']', n);
		if (n > 0 && at[0] == '[' && close != NULL) {
			section = at + 1;
			section_len = (size_t)(close - at - 1);
		}
		if (wanted(line, section, section_len, simulated) &&
		    !replaced(line, section, section_len, at, n))
			rc = strbuf_add(out, at, n);
		if (rc == 0)
			rc = strbuf_puts(out, "\n");
		at = stop != NULL ? stop + 1 : end;
	}
	return rc;
}

static int read_file(const char *path, char *text, size_t *len)
{
	FILE *f = fopen(path, "re");
	if (f == NULL)
		return -errno;
	*len = fread(text, 1, CONF_FILE_MAX + 1, f);
	int rc = ferror(f) ? -EIO : *len > CONF_FILE_MAX ? -EFBIG : 0;
	(void)fclose(f);
	return rc;
}

static int read_job(const char *name, char *text, size_t *len)
{
	int rc = text == NULL ? -ENOMEM : 0;
	*len = 0;
	if (rc == 0 && name != NULL)
		rc = read_file(name, text, len);
	return rc < 0 ? cli_fail("cannot read the job file %s: %s", name, err_text(rc)) : CLI_GO_ON;
}

/* Appends the values of --set. Returns CLI_GO_ON, or the exit status after it printed why. */
static int add_sets(const struct train_line *line, bool simulated, struct strbuf *out)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < line->set_count; i++) {
		struct set s;
		if (!set_parse(line->set[i], &s))
			return cli_usage("train: \"%s\" is not SECTION.KEY=VALUE", line->set[i]);
		if (wanted(line, s.section, s.section_len, simulated))
			rc = strbuf_printf(out, "[%.*s]\n%.*s = %s\n", (int)s.section_len,
					   s.section, (int)s.key_len, s.key, s.value);
	}
	return rc < 0 ? cli_fail("cannot read the values of --set: %s", err_text(rc)) : CLI_GO_ON;
}

int train_line_virtual(const struct train_line *line, struct strbuf *out)
{
	AUTO_FREE char *text = malloc(CONF_FILE_MAX + 1);
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < line->file_count; i++) {
		size_t len;
		int status = read_job(line->files[i], text, &len);
		if (status != CLI_GO_ON)
			return status;
		rc = copy_lines(line, text, len, true, out);
	}
	if (rc < 0)
		return cli_fail("cannot read [virtual]: %s", err_text(rc));
	return add_sets(line, true, out);
}

int train_line_job(const struct train_line *line, const char *name, struct train_job *out)
{
	AUTO_STRBUF struct strbuf whole, err;
	AUTO_FREE char *text = malloc(CONF_FILE_MAX + 1);
	size_t len;
	strbuf_init(&whole, 2 * CONF_FILE_MAX);
	strbuf_init(&err, 4096);
	int status = read_job(name, text, &len);
	if (status != CLI_GO_ON)
		return status;
	int rc = copy_lines(line, text, len, false, &whole);
	status = add_sets(line, false, &whole);
	if (status != CLI_GO_ON)
		return status;
	const char *shown = name != NULL ? name : "--set";
	if (rc == 0)
		rc = conf_parse(strbuf_text(&whole), whole.len, shown, train_job_schema,
				train_job_keys, out, &err);
	if (rc < 0)
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	if (line->mlperf != NULL)
		rc = train_rule_apply(out, train_rule_find(line->mlperf));
	if (rc == 0)
		rc = train_job_check(out, shown, &err);
	if (rc < 0) {
		train_job_free(out);
		return cli_fail("%s", err.len > 0 ? strbuf_text(&err) : err_text(rc));
	}
	return CLI_GO_ON;
}
