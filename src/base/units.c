// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

struct unit {
	const char *name;
	uint64_t factor;
};

/* Units of sizes, the largest first. If several names have one factor, the first name is used for
 * formatting. */
static const struct unit size_units[] = {
	{"PiB", 1024 * (1024 * GIB)},
	{"P", 1024 * (1024 * GIB)},
	{"TiB", 1024 * GIB},
	{"T", 1024 * GIB},
	{"GiB", GIB},
	{"G", GIB},
	{"MiB", MIB},
	{"M", MIB},
	{"KiB", KIB},
	{"K", KIB},
	{"", 1},
	{"B", 1},
	/* never used for formatting, because each value has a name above */
	{"kB", 1000},
	{"KB", 1000},
	{"MB", 1000000},
	{"GB", 1000000000},
	{"TB", 1000000000000},
	{"PB", 1000000000000000},
};

static const struct unit duration_units[] = {
	{"d", 86400 * NS_PER_S},
	{"h", 3600 * NS_PER_S},
	{"m", 60 * NS_PER_S},
	{"s", NS_PER_S},
	{"ms", NS_PER_MS},
	{"us", NS_PER_US},
	{"ns", 1},
};

/* Parses the decimal digits at *text and advances *text past them. */
static int parse_digits(const char **text, uint64_t *out)
{
	const char *p = *text;
	uint64_t value = 0;
	if (*p < '0' || *p > '9')
		return -EINVAL;
	bool fits = true;
	for (; *p >= '0' && *p <= '9'; p++)
		fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
		       !__builtin_add_overflow(value, (uint64_t)(*p - '0'), &value);
	*text = p;
	*out = value;
	return fits ? 0 : -ERANGE;
}

int units_parse_int(const char *text, int64_t *out)
{
	bool negative = *text == '-';
	uint64_t magnitude;
	text += negative;
	int rc = parse_digits(&text, &magnitude);
	if (rc == -EINVAL || *text != '\0')
		return -EINVAL;
	if (rc < 0 || magnitude > (uint64_t)INT64_MAX + negative)
		return -ERANGE;
	*out = negative ? (int64_t)-magnitude : (int64_t)magnitude;
	return 0;
}

static int parse_with_unit(const char *text, const struct unit *units, size_t count, uint64_t *out)
{
	uint64_t value;
	int rc = parse_digits(&text, &value);
	if (rc == -EINVAL)
		return rc;
	for (size_t i = 0; i < count; i++) {
		if (strcmp(text, units[i].name) != 0)
			continue;
		if (rc < 0 || __builtin_mul_overflow(value, units[i].factor, &value))
			return -ERANGE;
		*out = value;
		return 0;
	}
	return -EINVAL;
}

int units_parse_size(const char *text, uint64_t *out_bytes)
{
	return parse_with_unit(text, size_units, ARRAY_LEN(size_units), out_bytes);
}

int units_parse_duration(const char *text, uint64_t *out_ns)
{
	if (strcmp(text, "0") == 0) {
		*out_ns = 0;
		return 0;
	}
	return parse_with_unit(text, duration_units, ARRAY_LEN(duration_units), out_ns);
}

/* Writes the value with the largest unit that divides it. Every unit divides zero, so zero is
 * written with the unit `zero`. */
static const char *format_with_unit(char out[UNITS_TEXT_MAX], uint64_t value,
				    const struct unit *units, const char *zero)
{
	while (value % units->factor != 0)
		units++;
	snprintf(out, UNITS_TEXT_MAX, "%" PRIu64 "%s", value / units->factor,
		 value == 0 ? zero : units->name);
	return out;
}

const char *units_format_size(char out[UNITS_TEXT_MAX], uint64_t bytes)
{
	return format_with_unit(out, bytes, size_units, "");
}

const char *units_format_duration(char out[UNITS_TEXT_MAX], uint64_t ns)
{
	return format_with_unit(out, ns, duration_units, "s");
}
