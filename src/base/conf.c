// SPDX-License-Identifier: Apache-2.0
/*
 * libinih splits lines into section, key and value. The reader that passes it one line at a time
 * refuses or corrects what libinih would silently accept:
 *
 *   - it truncates a line to its buffer (200 bytes in Debian's build): a longer line is refused;
 *   - it appends an indented line to the value above: the reader drops leading blanks, so that an
 *     indented key is a key;
 *   - it ignores what follows a ']': refused unless it is a comment;
 *   - it stops at a NUL: control characters and bytes that are not UTF-8 are refused;
 *   - it gives its handler no line numbers: the reader counts them.
 */
#include "base/conf.h"

#include <assert.h>
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/conf_value.h"
#include "base/err.h"
#include "base/utf8.h"

struct conf_parser {
	const char *name; /* name of the file, for messages */
	const char *text;
	size_t len;
	size_t at;
	unsigned int line; /* the line that inih read last, from 1 */
	const struct conf_key *schema;
	size_t count;
	void *target;
	unsigned int *seen; /* for each key: the line that set it, 0: none yet */
	int rc;             /* first error, which ends reading; 0: none */
	struct strbuf *err;
};

/* Refuses the file with a message about a line (0: the error belongs to no line). If the message
 * does not fit into p->err, p->rc still reports the error. */
static void refuse(struct conf_parser *p, unsigned int line, const char *format, ...) PRINTF(3, 4);
static void refuse(struct conf_parser *p, unsigned int line, const char *format, ...)
{
	p->rc = -EINVAL;
	strbuf_clear(p->err);
	if (line > 0)
		strbuf_printf(p->err, "%s:%u: ", p->name, line);
	else
		strbuf_printf(p->err, "%s: ", p->name);
	va_list args;
	va_start(args, format);
	strbuf_vprintf(p->err, format, args);
	va_end(args);
}

/* Reports whether the bytes are UTF-8 without control characters other than tabs. */
static bool is_text(const char *s, size_t len)
{
	for (size_t i = 0; i < len;) {
		size_t n = utf8_char_len(s + i, len - i);
		unsigned char c = (unsigned char)s[i];
		if (n == 0 || (c < 0x20 && c != '\t') || c == 0x7f)
			return false;
		i += n;
	}
	return true;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool same_section(const struct conf_key *key, const char *section, size_t len)
{
	return strlen(key->section) == len && memcmp(key->section, section, len) == 0;
}

/* Adds the names of the section's keys to the message; section NULL: the names of all sections. */
static void list_names(struct conf_parser *p, const char *section)
{
	const char *separator = "";
	for (size_t i = 0; i < p->count; i++) {
		const struct conf_key *key = &p->schema[i];
		bool wanted = section != NULL ? strcmp(key->section, section) == 0
					      : conf_section_starts(p->schema, i);
		if (!wanted)
			continue;
		strbuf_printf(p->err, section != NULL ? "%s%s" : "%s[%s]", separator,
			      section != NULL ? key->name : key->section);
		separator = ", ";
	}
}

/* Checks a line that starts with '[': it must name a known section, and only a comment may
 * follow. inih calls its handler for keys only, so it would accept an unknown section without
 * keys. */
static void check_heading(struct conf_parser *p, const char *s, size_t len)
{
	const char *close = memchr(s, ']', len);
	const char *rest = close != NULL ? close + 1 : s;
	while (close != NULL && rest < s + len && is_blank(*rest))
		rest++;
	if (close == NULL || (rest < s + len && (*rest != ';' || rest == close + 1))) {
		refuse(p, p->line, "not a section; allowed: [section] on a line of its own");
		return;
	}
	size_t name_len = (size_t)(close - s) - 1;
	for (size_t i = 0; i < p->count; i++)
		if (same_section(&p->schema[i], s + 1, name_len))
			return;
	refuse(p, p->line, "unknown section [%.*s]; allowed: ", (int)name_len, s + 1);
	list_names(p, NULL);
}

/* Checks a line of len bytes before inih gets it; refuses the file if it is too long or a bad
 * section. */
static bool check_line(struct conf_parser *p, const char *s, size_t len, int room)
{
	if (len + 2 > (size_t)room)
		refuse(p, p->line, "line too long; allowed: at most %d bytes", room - 2);
	else if (len > 0 && s[0] == '[')
		check_heading(p, s, len);
	return p->rc == 0;
}

/* Reads for inih: copies the next line to out, as fgets does. Returns NULL at the end or after an
 * error. */
static char *read_line(char *out, int room, void *stream)
{
	struct conf_parser *p = stream;
	if (p->rc < 0 || p->at >= p->len)
		return NULL;
	const char *s = p->text + p->at;
	const char *newline = memchr(s, '\n', p->len - p->at);
	size_t len = newline != NULL ? (size_t)(newline - s) : p->len - p->at;
	p->at += len + (newline != NULL);
	p->line++;
	if (p->line == 1 && len >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0) {
		s += 3;
		len -= 3;
	}
	while (len > 0 && is_blank(s[0])) {
		s++;
		len--;
	}
	if (len > 0 && s[len - 1] == '\r')
		len--;
	if (!is_text(s, len)) {
		refuse(p, p->line, "not text; allowed: UTF-8 without control characters");
		return NULL;
	}
	if (len > 0 && (s[0] == '#' || s[0] == ';'))
		len = 0; /* drop comments, whose length is not limited */
	if (!check_line(p, s, len, room))
		return NULL;
	memcpy(out, s, len);
	out[len] = '\n';
	out[len + 1] = '\0';
	return out;
}

static void refuse_key(struct conf_parser *p, const char *section, const char *name)
{
	if (section[0] == '\0') {
		refuse(p, p->line, "key '%s' precedes the first section; allowed: ", name);
		list_names(p, NULL);
	} else {
		refuse(p, p->line, "unknown key '%s' in [%s]; allowed: ", name, section);
		list_names(p, section);
	}
}

/* Handles one key for inih: sets the key's field. Returns 0 after an error, as inih requires; p->rc
 * holds the error. */
static int take_key(void *user, const char *section, const char *name, const char *value)
{
	struct conf_parser *p = user;
	if (p->rc < 0)
		return 0;
	size_t i = 0;
	while (i < p->count &&
	       (strcmp(p->schema[i].section, section) != 0 || strcmp(p->schema[i].name, name) != 0))
		i++;
	if (i == p->count) {
		refuse_key(p, section, name);
		return 0;
	}
	const struct conf_key *key = &p->schema[i];
	if (p->seen[i] != 0 && key->type != CONF_TYPE_LIST) {
		refuse(p, p->line, "[%s] %s is set twice; allowed: once (line %u sets it already)",
		       section, name, p->seen[i]);
		return 0;
	}
	p->seen[i] = p->line;
	int rc = conf_value_set(key, p->target, value);
	if (rc == -ENOMEM) {
		p->rc = rc;
	} else if (rc < 0) {
		refuse(p, p->line, "[%s] %s = %s: %s; allowed: ", section, name, value,
		       rc == -ERANGE ? "out of range" : "bad value");
		conf_value_allowed(key, p->err);
	}
	return rc == 0;
}

static void check_missing(struct conf_parser *p)
{
	for (size_t i = 0; i < p->count && p->rc == 0; i++) {
		const struct conf_key *key = &p->schema[i];
		if (key->def != NULL || p->seen[i] != 0)
			continue;
		refuse(p, 0, "[%s] %s is missing (%s); allowed: ", key->section, key->name,
		       key->doc);
		conf_value_allowed(key, p->err);
	}
}

/* Asserts the rules of a schema: names, ranges and the order of the keys. */
static void check_schema(const struct conf_key *schema, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct conf_key *key = &schema[i];
		assert(key->section[0] != '\0' && strlen(key->section) <= CONF_NAME_MAX);
		assert(key->name[0] != '\0' && strlen(key->name) <= CONF_NAME_MAX);
		assert(key->min <= key->max && key->doc != NULL);
		assert((key->type == CONF_TYPE_CHOICE) == (key->choices != NULL));
		for (size_t k = 0; k < i; k++) {
			/* The keys of a section are adjacent, and each occurs once. */
			bool same = strcmp(schema[k].section, key->section) == 0;
			assert(!same || strcmp(schema[k].name, key->name) != 0);
			assert(!same || !conf_section_starts(schema, i));
		}
	}
}

int conf_defaults(const struct conf_key *schema, size_t count, void *target)
{
	check_schema(schema, count);
	/* The struct may be uninitialized: clear all fields first, so that conf_free never frees
	 * a stray pointer. */
	for (size_t i = 0; i < count; i++)
		conf_value_clear(&schema[i], target);
	for (size_t i = 0; i < count; i++) {
		if (schema[i].def == NULL)
			continue;
		int rc = conf_value_set(&schema[i], target, schema[i].def);
		assert(rc == 0 || rc == -ENOMEM);
		if (rc < 0) {
			conf_free(schema, count, target);
			return rc;
		}
	}
	return 0;
}

void conf_free(const struct conf_key *schema, size_t count, void *target)
{
	for (size_t i = 0; i < count; i++)
		conf_value_free(&schema[i], target);
}

int conf_parse(const char *text, size_t len, const char *name, const struct conf_key *schema,
	       size_t count, void *target, struct strbuf *err)
{
	int rc = conf_defaults(schema, count, target);
	if (rc < 0)
		return rc;
	AUTO_FREE unsigned int *seen = calloc(count + 1, sizeof(*seen));
	struct conf_parser p = {.name = name,
				.text = text,
				.len = len,
				.schema = schema,
				.count = count,
				.target = target,
				.seen = seen,
				.err = err};
	if (len > CONF_FILE_MAX) {
		refuse(&p, 0, "file too long; allowed: at most %zu bytes", CONF_FILE_MAX);
		p.rc = -EFBIG;
	} else if (seen == NULL) {
		p.rc = -ENOMEM;
	} else {
		int bad_line = ini_parse_stream(read_line, &p, take_key, &p);
		if (bad_line < 0)
			p.rc = -ENOMEM;
		else if (bad_line > 0 && (p.rc == 0 || (unsigned int)bad_line < p.line))
			refuse(&p, (unsigned int)bad_line,
			       "not a setting; allowed: [section], key = value, # comment");
		check_missing(&p);
	}
	if (p.rc < 0)
		conf_free(schema, count, target);
	return p.rc;
}

/* Reads at most CONF_FILE_MAX + 1 bytes, so that the caller detects a file beyond the limit. */
static int64_t read_file(const char *path, char *text)
{
	FILE *f = fopen(path, "re");
	if (f == NULL)
		return -errno;
	errno = 0;
	size_t n = fread(text, 1, CONF_FILE_MAX + 1, f);
	int64_t rc = ferror(f) ? -(errno != 0 ? errno : EIO) : (int64_t)n;
	fclose(f);
	return rc;
}

int conf_load(const char *path, const struct conf_key *schema, size_t count, void *target,
	      struct strbuf *err)
{
	AUTO_FREE char *text = malloc(CONF_FILE_MAX + 1);
	int64_t len = text != NULL ? read_file(path, text) : -ENOMEM;
	if (len >= 0)
		return conf_parse(text, (size_t)len, path, schema, count, target, err);
	for (size_t i = 0; i < count; i++)
		conf_value_clear(&schema[i], target);
	strbuf_clear(err);
	strbuf_printf(err, "%s: %s", path, err_text((int)len));
	return (int)len;
}
