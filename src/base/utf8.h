// SPDX-License-Identifier: Apache-2.0
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* The length (1 to 4) of the well-formed UTF-8 character that starts at s, or 0 if the bytes there
 * are not one: overlong forms, surrogates, values beyond U+10FFFF and cut sequences are refused. */
size_t utf8_char_len(const char *s, size_t len);

#endif
