// SPDX-License-Identifier: Apache-2.0
/* What jansson leaves to us: text from any bytes, cleanup by scope, and output whose errors count.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* A JSON string from any bytes, for names and contents that come from outside: each byte that is
 * not part of well-formed UTF-8 becomes U+FFFD, so two different names may print alike. A NUL stays
 * in. A new reference, NULL when out of memory. */
json_t *json_text(const char *bytes, size_t len);

/* Prints the value indented, with a newline, and flushes. -EIO or the stream's error; -EINVAL when
 * it holds something that is not JSON (NULL, a loop). */
int json_emit(FILE *out, const json_t *value);

/* A local `AUTO_JSON json_t *x` drops its reference when its scope ends. */
#define AUTO_JSON __attribute__((cleanup(json_auto_decref)))

static inline void json_auto_decref(json_t **slot)
{
	json_decref(*slot);
}

#endif
