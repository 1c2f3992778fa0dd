// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* Returns the length (1 to 4) of the well-formed UTF-8 character at s, or 0 if there is none:
 * overlong forms, surrogates, values beyond U+10FFFF and cut sequences are refused. */
size_t utf8_char_len(const char *s, size_t len);

#endif
