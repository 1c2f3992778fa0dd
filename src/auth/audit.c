// SPDX-License-Identifier: Apache-2.0
#include "auth/audit.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "base/utf8.h"

static const char *const event_names[AUDIT_EVENT_COUNT] = {
	[AUDIT_LOGIN_REFUSED] = "login-refused",
	[AUDIT_PERMISSION_REFUSED] = "permission-refused",
	[AUDIT_TOKEN_REFUSED] = "token-refused",
	[AUDIT_IDENTITY_CHANGED] = "identity-changed",
	[AUDIT_GRANT_CHANGED] = "grant-changed",
	[AUDIT_KEY_CHANGED] = "key-changed",
	[AUDIT_OPERATOR_COMMAND] = "operator-command",
	[AUDIT_CERTIFICATE] = "certificate",
	[AUDIT_DROPPED] = "dropped",
};

/* Text of bounded size; every field fits, because fields are cut before they are added. */
struct line {
	char *out;
	size_t len;
};

static void add(struct line *l, const char *bytes, size_t len)
{
	assert(l->len + len < AUDIT_LINE_MAX);
	memcpy(l->out + l->len, bytes, len);
	l->len += len;
}

static void add_text(struct line *l, const char *text)
{
	add(l, text, strlen(text));
}

/* Adds one character, escaped; returns its length in the source. What is not UTF-8 becomes U+FFFD. */
static size_t add_char(struct line *l, const char *s, size_t left)
{
	char escaped[8];
	size_t n = utf8_char_len(s, left);
	if (n == 0) {
		add_text(l, "\xef\xbf\xbd");
		return 1;
	}
	unsigned char c = (unsigned char)s[0];
	/* U+0080 to U+009F control terminals */
	bool c1 = n == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0;
	if (c == '"' || c == '\\') {
		add(l, "\\", 1);
		add(l, s, 1);
	} else if (c < 0x20 || c == 0x7f || c1) {
		snprintf(escaped, sizeof(escaped), "\\u%04x", c1 ? (unsigned char)s[1] : c);
		add_text(l, escaped);
	} else {
		add(l, s, n);
	}
	return n;
}

static void add_field(struct line *l, const char *name, const char *value, size_t limit)
{
	if (value == NULL)
		value = "";
	size_t len = strnlen(value, limit + 1);
	bool cut = len > limit;
	if (cut)
		len = limit;
	add_text(l, ",\"");
	add_text(l, name);
	add_text(l, "\":\"");
	for (size_t at = 0; at < len;)
		at += add_char(l, value + at, len - at);
	add_text(l, cut ? "...\"" : "\"");
}

const char *audit_event_name(enum audit_event e)
{
	assert(e < AUDIT_EVENT_COUNT);
	return event_names[e];
}

size_t audit_format(const struct audit_record *r, char out[AUDIT_LINE_MAX])
{
	/* each byte of a field becomes at most six */
	_Static_assert(AUDIT_LINE_MAX >
			       6 * (AUDIT_WHO_MAX + AUDIT_FROM_MAX + 2 * AUDIT_TEXT_MAX) + 512,
		       "a record fits its line");
	struct line l = {.out = out};
	char time_text[64];
	time_t seconds = (time_t)min_u64(r->time_ms / 1000, 253402300799ULL); /* the year 9999 */
	struct tm tm;
	struct tm *ok = gmtime_r(&seconds, &tm);
	assert(ok != NULL);
	(void)ok;
	size_t n = strftime(time_text, sizeof(time_text), "{\"time\":\"%Y-%m-%dT%H:%M:%S", &tm);
	add(&l, time_text, n);
	snprintf(time_text, sizeof(time_text), ".%03uZ\"", (unsigned)(r->time_ms % 1000));
	add_text(&l, time_text);
	add_field(&l, "event", audit_event_name(r->event), AUDIT_TEXT_MAX);
	add_field(&l, "who", r->who, AUDIT_WHO_MAX);
	add_field(&l, "from", r->from, AUDIT_FROM_MAX);
	add_field(&l, "what", r->what, AUDIT_TEXT_MAX);
	add_field(&l, "outcome", r->outcome, 32);
	add_field(&l, "detail", r->detail, AUDIT_TEXT_MAX);
	add_text(&l, "}\n");
	out[l.len] = 0;
	return l.len;
}
