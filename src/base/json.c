// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"
#include "base/utf8.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
#define REPLACEMENT_LEN (sizeof(replacement) - 1)

json_t *json_text(const char *bytes, size_t len)
{
	if (len > SIZE_MAX / REPLACEMENT_LEN - 1)
		return NULL;
	AUTO_FREE char *text = malloc(len * REPLACEMENT_LEN + 1);
	if (text == NULL)
		return NULL;
	size_t at = 0;
	for (size_t i = 0; i < len;) {
		size_t n = utf8_char_len(bytes + i, len - i);
		memcpy(text + at, n > 0 ? bytes + i : replacement, n > 0 ? n : REPLACEMENT_LEN);
		at += n > 0 ? n : REPLACEMENT_LEN;
		i += n > 0 ? n : 1;
	}
	return json_stringn_nocheck(text, at);
}

int json_emit(FILE *out, const json_t *value)
{
	errno = 0;
	AUTO_FREE char *text = json_dumps(value, JSON_INDENT(2) | JSON_ENCODE_ANY);
	if (text == NULL)
		return errno == ENOMEM ? -ENOMEM : -EINVAL;
	errno = 0;
	if (fputs(text, out) < 0 || fputc('\n', out) == EOF || fflush(out) != 0)
		return errno != 0 ? -errno : -EIO;
	return 0;
}
