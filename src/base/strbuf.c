// SPDX-License-Identifier: Apache-2.0
#include "base/strbuf.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRBUF_CAP_MIN 64

void strbuf_init(struct strbuf *s, size_t limit)
{
	/* This bound of the limit prevents overflow of limit + 1 and of the doubled capacity. */
	*s = (struct strbuf){.limit = limit < SIZE_MAX / 4 ? limit : SIZE_MAX / 4};
}

void strbuf_fini(struct strbuf *s)
{
	free(s->text);
	*s = (struct strbuf){.limit = s->limit};
}

void strbuf_clear(struct strbuf *s)
{
	s->len = 0;
}

/* Makes room for `more` bytes and a NUL. -EMSGSIZE, -ENOMEM. */
static int strbuf_reserve(struct strbuf *s, size_t more)
{
	assert(s->len <= s->limit && (s->cap == 0 || s->len < s->cap));
	if (more > s->limit - s->len)
		return -EMSGSIZE;
	size_t need = s->len + more + 1;
	if (need <= s->cap)
		return 0;
	size_t cap = s->cap < STRBUF_CAP_MIN ? STRBUF_CAP_MIN : s->cap;
	while (cap < need)
		cap *= 2;
	if (cap > s->limit + 1)
		cap = s->limit + 1;
	char *text = realloc(s->text, cap);
	if (text == NULL)
		return -ENOMEM;
	s->text = text;
	s->cap = cap;
	return 0;
}

int strbuf_add(struct strbuf *s, const char *bytes, size_t len)
{
	int rc = strbuf_reserve(s, len);
	if (rc < 0 || len == 0)
		return rc;
	memcpy(s->text + s->len, bytes, len);
	s->len += len;
	s->text[s->len] = '\0';
	return 0;
}

int strbuf_puts(struct strbuf *s, const char *text)
{
	return strbuf_add(s, text, strlen(text));
}

int strbuf_vprintf(struct strbuf *s, const char *format, va_list args)
{
	va_list again;
	va_copy(again, args);
	int n = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (n < 0)
		return -EINVAL;
	int rc = strbuf_reserve(s, (size_t)n);
	if (rc < 0)
		return rc;
	vsnprintf(s->text + s->len, (size_t)n + 1, format, args);
	s->len += (size_t)n;
	return 0;
}

int strbuf_printf(struct strbuf *s, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int rc = strbuf_vprintf(s, format, args);
	va_end(args);
	return rc;
}
