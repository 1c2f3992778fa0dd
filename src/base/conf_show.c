// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include "base/conf.h"
#include "base/conf_value.h"

/* Above this length a setting is printed without blanks around '=', so that a setting that
 * fitted into a line of the input fits into a line of the output. */
#define SHOW_WIDTH 100

static int show_value(const struct conf_key *key, const char *value, struct strbuf *out)
{
	bool wide = strlen(key->name) + strlen(value) > SHOW_WIDTH;
	return strbuf_printf(out, "%s%s%s\n", key->name, wide ? "=" : " = ", value);
}

static int show_list(const struct conf_key *key, const char *values, struct strbuf *out)
{
	char value[CONF_LINE_MAX];
	int rc = values[0] == '\0' ? show_value(key, "", out) : 0;
	while (rc == 0 && conf_list_next(&values, value, sizeof(value)))
		rc = show_value(key, value, out);
	return rc;
}

static int show_key(const struct conf_key *key, const void *target, struct strbuf *out)
{
	int rc = strbuf_printf(out, "# %s\n# ", key->doc);
	if (rc == 0)
		rc = conf_value_allowed(key, out);
	if (rc == 0 && key->def != NULL)
		rc = strbuf_printf(out, "; default %s", key->def[0] != '\0' ? key->def : "empty");
	if (rc < 0)
		return rc;
	AUTO_STRBUF struct strbuf value;
	strbuf_init(&value, CONF_FILE_MAX);
	rc = conf_value_print(key, target, &value);
	if (rc < 0)
		return rc;
	rc = strbuf_puts(out, "\n");
	if (rc < 0)
		return rc;
	return key->type == CONF_TYPE_LIST ? show_list(key, strbuf_text(&value), out)
					   : show_value(key, strbuf_text(&value), out);
}

int conf_show(const struct conf_key *schema, size_t count, const void *target, struct strbuf *out)
{
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++) {
		if (conf_section_starts(schema, i))
			rc = strbuf_printf(out, "%s[%s]\n", i > 0 ? "\n" : "", schema[i].section);
		if (rc == 0)
			rc = show_key(&schema[i], target, out);
	}
	return rc;
}

static json_t *list_json(const char *values)
{
	json_t *all = json_array();
	char value[CONF_LINE_MAX];
	while (all != NULL && conf_list_next(&values, value, sizeof(value))) {
		if (json_array_append_new(all, json_text(value, strlen(value))) < 0) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

static json_t *value_json(const struct conf_key *key, const void *target, const char *text)
{
	const void *field = (const char *)target + key->offset;
	switch (key->type) {
	case CONF_TYPE_BOOL:
		return json_boolean(*(const bool *)field);
	case CONF_TYPE_INT:
		return json_integer(*(const int64_t *)field);
	case CONF_TYPE_SIZE:
	case CONF_TYPE_DURATION: /* at most CONF_MAX, so it fits */
		return json_integer((json_int_t) * (const uint64_t *)field);
	case CONF_TYPE_LIST:
		return list_json(text);
	default:
		return json_text(text, strlen(text));
	}
}

static json_t *key_json(const struct conf_key *key, const void *target)
{
	AUTO_STRBUF struct strbuf text;
	strbuf_init(&text, CONF_FILE_MAX);
	if (conf_value_print(key, target, &text) < 0)
		return NULL;
	const char *shown = strbuf_text(&text);
	return json_pack("{s:o, s:o, s:s, s:s?, s:s}", "value", value_json(key, target, shown),
			 "text", json_text(shown, text.len), "type", conf_type_name(key->type),
			 "default", key->def, "doc", key->doc);
}

json_t *conf_show_json(const struct conf_key *schema, size_t count, const void *target)
{
	json_t *all = json_object();
	json_t *section = NULL;
	for (size_t i = 0; i < count; i++) {
		if (conf_section_starts(schema, i)) {
			section = json_object();
			if (json_object_set_new(all, schema[i].section, section) < 0)
				goto fail;
		}
		if (json_object_set_new(section, schema[i].name, key_json(&schema[i], target)) < 0)
			goto fail;
	}
	return all;
fail:
	json_decref(all);
	return NULL;
}
