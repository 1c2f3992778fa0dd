// SPDX-License-Identifier: Apache-2.0
/* Additions to jansson: text from any bytes, cleanup by scope, output that reports errors. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/*
 * Returns a JSON string of any bytes, for names and contents from outside. Each byte that is not
 * part of a well-formed UTF-8 character becomes U+FFFD, so two different names may give the same
 * text. A NUL is kept. The caller owns the reference; NULL: out of memory.
 */
json_t *json_text(const char *bytes, size_t len);

/* Prints the value indented, with a newline, and flushes. -EIO or the error of the stream;
 * -EINVAL if the value holds NULL or a loop. */
int json_emit(FILE *out, const json_t *value);

/* A local `AUTO_JSON json_t *x` drops its reference when its scope ends. */
#define AUTO_JSON __attribute__((cleanup(json_auto_decref)))

static inline void json_auto_decref(json_t **slot)
{
	json_decref(*slot);
}

#endif
