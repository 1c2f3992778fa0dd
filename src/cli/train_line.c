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

/* Copies a job file; lines that --set replaces become empty, so that messages have the right numbers. */
static int copy_lines(const struct train_line *line, const char *text, size_t len,
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
		if (!replaced(line, section, section_len, at, n))
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

int train_line_job(const struct train_line *line, const char *name, struct train_job *out)
{
	AUTO_STRBUF struct strbuf whole, err;
	AUTO_FREE char *text = malloc(CONF_FILE_MAX + 1);
	size_t len = 0;
	strbuf_init(&whole, 2 * CONF_FILE_MAX);
	strbuf_init(&err, 4096);
	int rc = text == NULL ? -ENOMEM : 0;
	if (rc == 0 && name != NULL)
		rc = read_file(name, text, &len);
	if (rc < 0)
		return cli_fail("cannot read the job file %s: %s", name, err_text(rc));
	rc = copy_lines(line, text, len, &whole);
	for (size_t i = 0; rc == 0 && i < line->set_count; i++) {
		struct set s;
		if (!set_parse(line->set[i], &s))
			return cli_usage("train: \"%s\" is not SECTION.KEY=VALUE", line->set[i]);
		rc = strbuf_printf(&whole, "[%.*s]\n%.*s = %s\n", (int)s.section_len, s.section,
				   (int)s.key_len, s.key, s.value);
	}
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
