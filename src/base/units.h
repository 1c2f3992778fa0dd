// SPDX-License-Identifier: Apache-2.0
/*
 * Sizes and durations as text, for configuration files and command lines.
 *
 *   size      4096, 4KiB, 64M, 1GiB, 2T, 20TB: a whole number and a unit of 1024 (K M G T P, with or
 * without iB) or of 1000 (kB KB MB GB TB PB), or bytes (B or nothing).
 *   duration  250ms, 30s, 5m: a whole number and one of ns us ms s m h d; only 0 goes without.
 *
 * Formatting uses the largest unit that divides the value, so parsing it gives the value back.
 */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stdint.h>

#define UNITS_TEXT_MAX 32

/* Parse a number, size or duration. -EINVAL: the text is malformed; -ERANGE: the value does not fit
 * into *out. */
int units_parse_int(const char *text, int64_t *out);
int units_parse_size(const char *text, uint64_t *out_bytes);
int units_parse_duration(const char *text, uint64_t *out_ns);

/* Write a size or duration as text to `out` and return `out`. */
const char *units_format_size(char out[UNITS_TEXT_MAX], uint64_t bytes);
const char *units_format_duration(char out[UNITS_TEXT_MAX], uint64_t ns);

#endif
