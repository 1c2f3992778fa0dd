// SPDX-License-Identifier: Apache-2.0
#include "base/conf_value.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

static void *field_of(const struct conf_key *key, const void *target)
{
	return (char *)target + key->offset;
}

const char *conf_type_name(enum conf_type type)
{
	static const char *const names[] = {
		[CONF_TYPE_BOOL] = "bool",     [CONF_TYPE_INT] = "int",
		[CONF_TYPE_SIZE] = "size",     [CONF_TYPE_DURATION] = "duration",
		[CONF_TYPE_STRING] = "string", [CONF_TYPE_CHOICE] = "choice",
		[CONF_TYPE_LIST] = "list",
	};
	assert((size_t)type < ARRAY_LEN(names));
	return names[type];
}

static int set_bool(bool *field, const char *text)
{
	static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(text, words[i]) == 0) {
			*field = i % 2 != 0;
			return 0;
		}
	}
	return -EINVAL;
}

static int set_int(const struct conf_key *key, int64_t *field, const char *text)
{
	int64_t value;
	int rc = units_parse_int(text, &value);
	if (rc == 0 && (value < key->min || value > key->max))
		rc = -ERANGE;
	if (rc == 0)
		*field = value;
	return rc;
}

static int set_quantity(const struct conf_key *key, uint64_t *field, const char *text)
{
	uint64_t value;
	int rc = key->type == CONF_TYPE_SIZE ? units_parse_size(text, &value)
					     : units_parse_duration(text, &value);
	if (rc == 0 && (value < (uint64_t)key->min || value > (uint64_t)key->max))
		rc = -ERANGE;
	if (rc == 0)
		*field = value;
	return rc;
}

/*
 * Reports whether a string value can be written to a file and read back unchanged. Refuses blanks
 * at the ends, which inih drops, and ';' or '#' at the start or after a blank: inih reads ';' as a
 * comment, and people mean '#' as one.
 */
static bool string_ok(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		bool edge = i == 0 || i + 1 == len;
		bool after_blank = i == 0 || text[i - 1] == ' ' || text[i - 1] == '\t';
		if (after_blank && (text[i] == ';' || text[i] == '#'))
			return false;
		if (edge && (text[i] == ' ' || text[i] == '\t'))
			return false;
	}
	return true;
}

static int set_string(const struct conf_key *key, char **field, const char *text)
{
	size_t len = strlen(text);
	if (!string_ok(text, len))
		return -EINVAL;
	if (len < (uint64_t)key->min || len > (uint64_t)key->max)
		return -ERANGE;
	char *copy = strdup(text);
	if (copy == NULL)
		return -ENOMEM;
	free(*field);
	*field = copy;
	return 0;
}

/* Appends a value to the field of a list key. Empty text, such as a default, adds no value. */
static int add_to_list(const struct conf_key *key, char **field, const char *text)
{
	size_t len = strlen(text);
	size_t had = *field != NULL ? strlen(*field) : 0;
	int64_t count = 0;
	for (size_t i = 0; i < had; i++)
		count += (*field)[i] == '\n';
	if (!string_ok(text, len))
		return -EINVAL;
	if (len == 0)
		return 0;
	if (count >= key->max)
		return -ERANGE;
	char *all = realloc(*field, had + len + 2);
	if (all == NULL)
		return -ENOMEM;
	memcpy(all + had, text, len);
	all[had + len] = '\n';
	all[had + len + 1] = '\0';
	*field = all;
	return 0;
}

bool conf_list_next(const char **at, char *out, size_t room)
{
	const char *end = *at != NULL ? strchr(*at, '\n') : NULL;
	if (end == NULL)
		return false;
	size_t len = (size_t)(end - *at);
	assert(len < room);
	memcpy(out, *at, len);
	out[len] = '\0';
	*at = end + 1;
	return true;
}

static int set_choice(const struct conf_key *key, int *field, const char *text)
{
	assert(key->choices != NULL);
	for (int i = 0; key->choices[i] != NULL; i++) {
		if (strcmp(text, key->choices[i]) == 0) {
			*field = i;
			return 0;
		}
	}
	return -EINVAL;
}

int conf_value_set(const struct conf_key *key, void *target, const char *text)
{
	assert(text != NULL);
	void *field = field_of(key, target);
	switch (key->type) {
	case CONF_TYPE_BOOL:
		return set_bool(field, text);
	case CONF_TYPE_INT:
		return set_int(key, field, text);
	case CONF_TYPE_SIZE:
	case CONF_TYPE_DURATION:
		return set_quantity(key, field, text);
	case CONF_TYPE_STRING:
		return set_string(key, field, text);
	case CONF_TYPE_CHOICE:
		return set_choice(key, field, text);
	case CONF_TYPE_LIST:
		return add_to_list(key, field, text);
	}
	assert(false); /* the switch names every type */
	return -EINVAL;
}

static size_t field_bytes(enum conf_type type)
{
	switch (type) {
	case CONF_TYPE_BOOL:
		return sizeof(bool);
	case CONF_TYPE_STRING:
	case CONF_TYPE_LIST:
		return sizeof(char *);
	case CONF_TYPE_CHOICE:
		return sizeof(int);
	default:
		return sizeof(uint64_t);
	}
}

void conf_value_clear(const struct conf_key *key, void *target)
{
	memset(field_of(key, target), 0, field_bytes(key->type));
}

void conf_value_free(const struct conf_key *key, void *target)
{
	if (key->type == CONF_TYPE_STRING || key->type == CONF_TYPE_LIST)
		free(*(char **)field_of(key, target));
	conf_value_clear(key, target);
}

int conf_value_print(const struct conf_key *key, const void *target, struct strbuf *out)
{
	const void *field = field_of(key, target);
	char text[UNITS_TEXT_MAX];
	switch (key->type) {
	case CONF_TYPE_BOOL:
		return strbuf_puts(out, *(const bool *)field ? "true" : "false");
	case CONF_TYPE_INT:
		return strbuf_printf(out, "%" PRId64, *(const int64_t *)field);
	case CONF_TYPE_SIZE:
		return strbuf_puts(out, units_format_size(text, *(const uint64_t *)field));
	case CONF_TYPE_DURATION:
		return strbuf_puts(out, units_format_duration(text, *(const uint64_t *)field));
	case CONF_TYPE_STRING:
	case CONF_TYPE_LIST:
		return strbuf_puts(out, *(char *const *)field != NULL ? *(char *const *)field : "");
	case CONF_TYPE_CHOICE:
		return strbuf_puts(out, key->choices[*(const int *)field]);
	}
	return -EINVAL;
}

static int allowed_quantity(const struct conf_key *key, struct strbuf *out)
{
	bool size = key->type == CONF_TYPE_SIZE;
	const char *(*format)(char[UNITS_TEXT_MAX], uint64_t) =
		size ? units_format_size : units_format_duration;
	char min[UNITS_TEXT_MAX];
	char max[UNITS_TEXT_MAX];
	int rc = strbuf_printf(out, "a %s of at least %s", size ? "size" : "duration",
			       format(min, (uint64_t)key->min));
	if (rc == 0 && key->max != CONF_MAX)
		rc = strbuf_printf(out, " and at most %s", format(max, (uint64_t)key->max));
	if (rc < 0)
		return rc;
	return strbuf_puts(out, size ? " (4096, 4KiB, 1MiB, ...)" : " (250ms, 30s, 5m, ...)");
}

static int allowed_choices(const struct conf_key *key, struct strbuf *out)
{
	for (int i = 0; key->choices[i] != NULL; i++) {
		int rc = strbuf_printf(out, "%s%s", i > 0 ? ", " : "", key->choices[i]);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int conf_value_allowed(const struct conf_key *key, struct strbuf *out)
{
	switch (key->type) {
	case CONF_TYPE_BOOL:
		return strbuf_puts(out, "true or false");
	case CONF_TYPE_INT:
		if (key->max == CONF_MAX)
			return strbuf_printf(out, "a whole number of at least %" PRId64, key->min);
		return strbuf_printf(out, "a whole number from %" PRId64 " to %" PRId64, key->min,
				     key->max);
	case CONF_TYPE_SIZE:
	case CONF_TYPE_DURATION:
		return allowed_quantity(key, out);
	case CONF_TYPE_STRING:
		return strbuf_printf(
			out, "text of %" PRId64 " to %" PRId64 " bytes, comments on their own line",
			key->min, key->max);
	case CONF_TYPE_CHOICE:
		return allowed_choices(key, out);
	case CONF_TYPE_LIST:
		return strbuf_printf(out, "text, up to %" PRId64 " times", key->max);
	}
	return -EINVAL;
}
