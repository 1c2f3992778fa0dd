// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <stdint.h>

#include "base/base.h"

/* For a first byte in [first, last]: the length of the character and the range of its second
 * byte, which excludes overlong forms, surrogates and values that are too large (Unicode, table
 * 3-7). */
static const struct {
	uint8_t first, last;
	uint8_t len;
	uint8_t second_min, second_max;
} utf8_forms[] = {
	{0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf}, {0xe1, 0xec, 3, 0x80, 0xbf},
	{0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf}, {0xf0, 0xf0, 4, 0x90, 0xbf},
	{0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

size_t utf8_char_len(const char *s, size_t len)
{
	const uint8_t *p = (const uint8_t *)s;
	if (len == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	for (size_t i = 0; i < ARRAY_LEN(utf8_forms); i++) {
		if (p[0] < utf8_forms[i].first || p[0] > utf8_forms[i].last)
			continue;
		size_t n = utf8_forms[i].len;
		if (n > len || p[1] < utf8_forms[i].second_min || p[1] > utf8_forms[i].second_max)
			return 0;
		for (size_t k = 2; k < n; k++)
			if ((p[k] & 0xc0) != 0x80)
				return 0;
		return n;
	}
	return 0;
}
