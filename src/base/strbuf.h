// SPDX-License-Identifier: Apache-2.0
/*
 * Growable text with a hard limit. Every addition happens as a whole or not at all, so the text is
 * never torn: after an error it is what it was before.
 */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stdarg.h>
#include <stddef.h>

#include "base/base.h"

struct strbuf {
	char *text; /* NULL until something was added: read it through strbuf_text */
	size_t len;
	size_t cap;
	size_t limit; /* the most bytes of text, without the final NUL */
};

/* Allocates nothing. */
void strbuf_init(struct strbuf *s, size_t limit);
void strbuf_fini(struct strbuf *s);

/* Each: -EMSGSIZE at the limit, -ENOMEM; printf also -EINVAL when the format cannot be converted.
 */
int strbuf_add(struct strbuf *s, const char *bytes, size_t len);
int strbuf_puts(struct strbuf *s, const char *text);
int strbuf_printf(struct strbuf *s, const char *format, ...) PRINTF(2, 3);
int strbuf_vprintf(struct strbuf *s, const char *format, va_list args) PRINTF(2, 0);

/* Empties it and keeps the memory. */
void strbuf_clear(struct strbuf *s);

/* NUL-terminated, never NULL. */
static inline const char *strbuf_text(const struct strbuf *s)
{
	return s->len > 0 ? s->text : "";
}

/* A local declared AUTO_STRBUF is freed when its scope ends. */
#define AUTO_STRBUF __attribute__((cleanup(strbuf_fini)))

#endif
