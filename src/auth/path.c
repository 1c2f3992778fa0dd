// SPDX-License-Identifier: Apache-2.0
#include "auth/path.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"
#include "base/bug.h"
#include "base/utf8.h"

/* Ranges of code points that prefixes must not have. */
static const struct {
	uint32_t first, last;
} refused[] = {
	{0x00, 0x1f},        /* controls */
	{0x5c, 0x5c},        /* backslash, another system's separator */
	{0x7f, 0xa0},        /* controls, no-break space */
	{0xad, 0xad},        /* soft hyphen */
	{0x300, 0x36f},      /* combining marks: the same letter has a form without them */
	{0x61c, 0x61c},      /* direction marks */
	{0x115f, 0x1160},    /* fillers */
	{0x1680, 0x1680},    /* spaces */
	{0x17b4, 0x17b5},    /* invisible vowels */
	{0x180b, 0x180f},    /* variation selectors, separators */
	{0x1ab0, 0x1aff},    /* combining marks */
	{0x1dc0, 0x1dff},    /* combining marks */
	{0x2000, 0x200f},    /* spaces, zero width, direction marks */
	{0x2024, 0x2026},    /* dot leaders, ellipsis */
	{0x2028, 0x202f},    /* separators, direction overrides, narrow space */
	{0x2044, 0x2044},    /* fraction slash */
	{0x205f, 0x206f},    /* spaces, invisible operators, isolates */
	{0x20d0, 0x20ff},    /* combining marks */
	{0x2215, 0x2216},    /* division slash, set minus */
	{0x2571, 0x2572},    /* diagonal box lines */
	{0x29f5, 0x29f9},    /* big solidus and relatives */
	{0x3000, 0x3000},    /* ideographic space */
	{0x3002, 0x3002},    /* ideographic full stop */
	{0x3164, 0x3164},    /* filler */
	{0xe000, 0xf8ff},    /* private use */
	{0xfe00, 0xfe0f},    /* variation selectors */
	{0xfe20, 0xfe2f},    /* combining half marks */
	{0xfe52, 0xfe52},    /* small full stop */
	{0xfe68, 0xfe68},    /* small reverse solidus */
	{0xfeff, 0xfeff},    /* byte order mark */
	{0xff01, 0xff5e},    /* full-width forms of ASCII */
	{0xff61, 0xff61},    /* half-width full stop */
	{0xffa0, 0xffa0},    /* half-width filler */
	{0xfff0, 0xffff},    /* specials, replacement character, noncharacters */
	{0xe0000, 0x10ffff}, /* tags, variation selectors, private use */
};

static uint32_t code_point(const char *s, size_t len)
{
	const uint8_t *b = (const uint8_t *)s;
	switch (len) {
	case 1:
		return b[0];
	case 2:
		return (uint32_t)((b[0] & 0x1f) << 6 | (b[1] & 0x3f));
	case 3:
		return (uint32_t)((b[0] & 0x0f) << 12 | (b[1] & 0x3f) << 6 | (b[2] & 0x3f));
	default:
		assert(len == 4);
		return (uint32_t)((b[0] & 0x07) << 18 | (b[1] & 0x3f) << 12 | (b[2] & 0x3f) << 6 |
				  (b[3] & 0x3f));
	}
}

static bool is_dots(const char *name, size_t len)
{
	return (len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.');
}

int path_check(const char *path, size_t len)
{
	if (len > AUTH_PATH_MAX)
		return -ENAMETOOLONG;
	if (len == 0 || path[0] != '/' || memchr(path, 0, len) != NULL)
		return -EINVAL;
	if (len == 1)
		return 0;
	unsigned depth = 0;
	for (size_t at = 1; at <= len;) {
		const char *slash = memchr(path + at, '/', len - at);
		size_t end = slash == NULL ? len : (size_t)(slash - path);
		if (end == at || is_dots(path + at, end - at))
			return -EINVAL;
		if (++depth > AUTH_PATH_DEPTH_MAX)
			return -ELOOP;
		at = end + 1;
	}
	/* the loop ends before an empty name at the end */
	return path[len - 1] == '/' ? -EINVAL : 0;
}

int path_prefix_check(const char *prefix, size_t len)
{
	int rc = path_check(prefix, len);
	if (rc < 0)
		return rc;
	for (size_t at = 0; at < len;) {
		size_t n = utf8_char_len(prefix + at, len - at);
		if (n == 0)
			return -EILSEQ;
		uint32_t c = code_point(prefix + at, n);
		for (size_t i = 0; i < ARRAY_LEN(refused); i++)
			if (c >= refused[i].first && c <= refused[i].last)
				return -EILSEQ;
		at += n;
	}
	return 0;
}

bool path_covers(const char *prefix, size_t prefix_len, const char *path, size_t len)
{
	assert(prefix_len > 0 && len > 0 && prefix[0] == '/');
	if (prefix_len == 1)
		return true;
	if (prefix_len > len || memcmp(prefix, path, prefix_len) != 0)
		return false;
	return prefix_len == len || path[prefix_len] == '/' || bug_planted(BUG_PREFIX_TEXT);
}
