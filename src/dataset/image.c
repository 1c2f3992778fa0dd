// SPDX-License-Identifier: Apache-2.0
#include "dataset/image.h"

#include <string.h>

#include "base/le.h"

static uint32_t be16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t be32(const uint8_t *at)
{
	return be16(at) << 16 | be16(at + 2);
}

/* Walks the segments of a JPEG to the start of a frame (SOF0 .. SOF15 without DHT, JPG and DAC). */
static bool jpeg_size(const uint8_t *b, size_t len, uint32_t *width, uint32_t *height)
{
	size_t at = 2;
	while (at + 4 <= len) {
		uint8_t marker = b[at + 1];
		if (b[at] != 0xff)
			return false;
		if (marker == 0xff) {
			at++; /* fill byte */
			continue;
		}
		if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7)) {
			at += 2; /* no length */
			continue;
		}
		size_t segment = be16(b + at + 2);
		bool frame = marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 &&
			     marker != 0xcc;
		if (frame && segment >= 7 && at + 9 <= len) {
			*height = be16(b + at + 5);
			*width = be16(b + at + 7);
			return true;
		}
		if (segment < 2 || marker == 0xda || marker == 0xd9)
			return false;
		at += 2 + segment;
	}
	return false;
}

static bool webp_size(const uint8_t *b, size_t len, uint32_t *width, uint32_t *height)
{
	if (len < 30)
		return false;
	if (memcmp(b + 12, "VP8X", 4) == 0) {
		*width = 1 + (b[24] | (uint32_t)b[25] << 8 | (uint32_t)b[26] << 16);
		*height = 1 + (b[27] | (uint32_t)b[28] << 8 | (uint32_t)b[29] << 16);
		return true;
	}
	if (memcmp(b + 12, "VP8L", 4) == 0 && b[20] == 0x2f) {
		uint32_t bits = get_u32(b + 21);
		*width = 1 + (bits & 0x3fff);
		*height = 1 + (bits >> 14 & 0x3fff);
		return true;
	}
	if (memcmp(b + 12, "VP8 ", 4) == 0 && b[23] == 0x9d && b[24] == 0x01 && b[25] == 0x2a) {
		*width = get_u16(b + 26) & 0x3fff;
		*height = get_u16(b + 28) & 0x3fff;
		return true;
	}
	return false;
}

bool image_size(const uint8_t *b, size_t len, uint32_t *width, uint32_t *height)
{
	static const uint8_t png[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
	if (len >= 4 && b[0] == 0xff && b[1] == 0xd8)
		return jpeg_size(b, len, width, height);
	if (len >= 24 && memcmp(b, png, 8) == 0 && memcmp(b + 12, "IHDR", 4) == 0) {
		*width = be32(b + 16);
		*height = be32(b + 20);
		return true;
	}
	if (len >= 10 && (memcmp(b, "GIF87a", 6) == 0 || memcmp(b, "GIF89a", 6) == 0)) {
		*width = get_u16(b + 6);
		*height = get_u16(b + 8);
		return true;
	}
	if (len >= 26 && b[0] == 'B' && b[1] == 'M' && get_u32(b + 14) >= 40) {
		uint32_t down = get_u32(b + 22); /* negative: rows from the top */
		*width = get_u32(b + 18);
		*height = down >> 31 ? 0 - down : down;
		return true;
	}
	if (len >= 16 && memcmp(b, "RIFF", 4) == 0 && memcmp(b + 8, "WEBP", 4) == 0)
		return webp_size(b, len, width, height);
	return false;
}
