// SPDX-License-Identifier: Apache-2.0
#include "janitor/notes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "code/encoding.h"
#include "meta_api/note.h"

#define HEX_DIGITS "0123456789abcdefABCDEF"

/* Parses the number at the start of *text and moves *text behind it. */
static bool hex_take(const char **text, uint64_t *out)
{
	size_t len = strspn(*text, HEX_DIGITS);
	if (len == 0 || len > 16)
		return false;
	*out = strtoull(*text, NULL, 16);
	*text += len;
	return true;
}

bool hex_read(const char *text, uint64_t *out)
{
	return hex_take(&text, out) && *text == 0;
}

bool note_number(const char *name, const char *family, uint64_t *out)
{
	size_t len = strlen(family);
	return strncmp(name, family, len) == 0 && hex_read(name + len, out);
}

/* Returns a number of the object; 0 if it is missing or negative. */
static uint64_t number(const json_t *o, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(o, key));
	return v < 0 ? 0 : (uint64_t)v;
}

/* --- policies ----------------------------------------------------------------------------------- */

static bool place_read(const char *name, struct policy *out)
{
	static const char family[] = "policy/";
	uint64_t tenant;
	if (strncmp(name, family, strlen(family)) != 0)
		return false;
	name += strlen(family);
	if (!hex_take(&name, &tenant) || tenant > UINT32_MAX)
		return false;
	out->tenant = (uint32_t)tenant;
	return *name == 0 || (*name == '/' && hex_read(name + 1, &out->dir));
}

int policy_read(const struct meta_note *n, struct policy *out)
{
	AUTO_JSON json_t *o = json_loads(n->text, 0, NULL);
	const char *text = json_string_value(json_object_get(o, "encoding"));
	struct encoding enc;
	*out = (struct policy){.dir = META_ROOT, .after_ns = number(o, "after_ns")};
	if (text == NULL || !place_read(n->name, out))
		return -EINVAL;
	if (strcmp(text, "keep") == 0)
		return 0;
	if (encoding_parse(text, &enc, NULL, 0) < 0)
		return -EINVAL;
	static_assert(META_ENCODING_MAX >= ENCODING_TEXT_MAX, "any encoding fits");
	encoding_print(&enc, out->encoding);
	return 0;
}

/* --- passes of scrub ---------------------------------------------------------------------------- */

static uint64_t past(const json_t *o, const char *key, uint64_t now_ns)
{
	uint64_t v = number(o, key);
	return v > now_ns ? 0 : v;
}

/* Parses a position of the walk over a disk, "MAJOR:BLOCK:INDEX:WITHIN". Returns false if the
 * text is malformed. */
static bool cursor_read(const char *text, struct store_cursor *out)
{
	uint64_t v[4];
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		if (text == NULL || !hex_take(&text, &v[i]))
			return false;
		if (*text++ != (i + 1 < ARRAY_LEN(v) ? ':' : 0))
			return false;
	}
	*out = (struct store_cursor){.major = v[0],
				     .last = {.block = v[1], .index = (uint32_t)v[2]},
				     .within = v[3] != 0};
	return v[2] <= UINT32_MAX && v[3] <= 1;
}

void pass_read(struct pass *p, const char *text, uint64_t now_ns)
{
	AUTO_JSON json_t *o = json_loads(text, 0, NULL);
	p->since_ns = past(o, "since_ns", now_ns);
	p->begun_ns = past(o, "begun_ns", now_ns);
	p->done_ns = past(o, "done_ns", now_ns);
	if (!cursor_read(json_string_value(json_object_get(o, "at")), &p->at))
		p->at = (struct store_cursor){0};
	if (p->since_ns == 0)
		p->since_ns = now_ns;
}

void pass_print(const struct pass *p, char text[PASS_TEXT_MAX])
{
	snprintf(text, PASS_TEXT_MAX,
		 "{\"since_ns\": %" PRIu64 ", \"begun_ns\": %" PRIu64 ", \"done_ns\": %" PRIu64
		 ", \"at\": \"%" PRIx64 ":%" PRIx64 ":%" PRIx32 ":%u\"}",
		 p->since_ns, p->begun_ns, p->done_ns, p->at.major, p->at.last.block,
		 p->at.last.index, p->at.within);
}

/* --- reports ------------------------------------------------------------------------------------ */

uint64_t report_at_ns(const char *text)
{
	AUTO_JSON json_t *o = json_loads(text, 0, NULL);
	return number(o, "at_ns");
}

/* --- orders to collect -------------------------------------------------------------------------- */

uint64_t collect_until(const char *text)
{
	AUTO_JSON json_t *o = json_loads(text, 0, NULL);
	return number(o, "until");
}
