// SPDX-License-Identifier: Apache-2.0
/*
 * Text that grows up to a hard limit. An addition that fails leaves the text unchanged.
 */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stdarg.h>
#include <stddef.h>

#include "base/base.h"

struct strbuf {
	char *text; /* NULL until the first addition: read it with strbuf_text */
	size_t len;
	size_t cap;
	size_t limit; /* largest len, in bytes without the final NUL */
};

/* Initializes an empty text with a limit in bytes. Allocates nothing. */
void strbuf_init(struct strbuf *s, size_t limit);
void strbuf_fini(struct strbuf *s);

/* Append to the text. -EMSGSIZE: the text would exceed its limit; -ENOMEM; the printf functions
 * also -EINVAL if vsnprintf fails. */
int strbuf_add(struct strbuf *s, const char *bytes, size_t len);
int strbuf_puts(struct strbuf *s, const char *text);
int strbuf_printf(struct strbuf *s, const char *format, ...) PRINTF(2, 3);
int strbuf_vprintf(struct strbuf *s, const char *format, va_list args) PRINTF(2, 0);

/* Sets the text to "" and keeps the memory. */
void strbuf_clear(struct strbuf *s);

/* Returns the text, NUL-terminated; never NULL. */
static inline const char *strbuf_text(const struct strbuf *s)
{
	return s->len > 0 ? s->text : "";
}

/* A local declared AUTO_STRBUF is freed when its scope ends. */
#define AUTO_STRBUF __attribute__((cleanup(strbuf_fini)))

#endif
