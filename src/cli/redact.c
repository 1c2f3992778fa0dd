// SPDX-License-Identifier: Apache-2.0
#include "cli/redact.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static bool is_key_character(char c)
{
	return isalnum((unsigned char)c) || c == '+' || c == '/' || c == '=' || c == '_' ||
	       c == '-';
}

static bool looks_random(const char *word, size_t len)
{
	size_t digits = 0, letters = 0, slashes = 0;
	for (size_t i = 0; i < len; i++) {
		digits += isdigit((unsigned char)word[i]) != 0;
		letters += isalpha((unsigned char)word[i]) != 0;
		slashes += word[i] == '/';
	}
	/* A path has a slash for each few characters, base64 one for 64. */
	return digits > 0 && letters > 0 && slashes * 12 <= len;
}

void redact_line(char *line, size_t len)
{
	if (len >= 5 && memmem(line, len, "-----", 5) != NULL) {
		memset(line, '*', len);
		return;
	}
	for (size_t i = 0; i < len;) {
		size_t n = 0;
		while (i + n < len && is_key_character(line[i + n]))
			n++;
		if (n >= REDACT_WORD_MIN && looks_random(line + i, n))
			memset(line + i, '*', n);
		i += n > 0 ? n : 1;
	}
}
