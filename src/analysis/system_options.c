// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analysis/system.h"
#include "base/base.h"
#include "base/units.h"

#define COUNT_MAX 1000000

const struct system_option system_options[] = {
	{"code", "CODE", "r3, rs:7+3, lrc:14+2+4, mlec:10+2/17+3 (default)"},
	{"scheme", "S", "mlec: c/c c/d c/s d/c d/d d/s; others: c/- d/- s/- -/c -/d -/s"},
	{"racks", "N", "racks (60)"},
	{"enclosures", "N", "enclosures of a rack (8)"},
	{"disks", "N", "disks of an enclosure (120)"},
	{"pool-disks", "N", "disks of a local pool of */d and */s (the enclosure)"},
	{"disk-size", "SIZE", "bytes of a disk, as in 16T (20000000000000)"},
	{"chunk-size", "SIZE", "bytes of a chunk, as in 128K (128000)"},
	{"disk-bandwidth", "MB/S", "bandwidth of a disk (200)"},
	{"rack-bandwidth", "GBIT/S", "bandwidth of a rack to other racks (10)"},
	{"repair-share", "X", "part of the bandwidths that repairs may use (0.2)"},
	{"afr", "X", "failures of a disk in a year (0.01)"},
	{"detect", "TIME", "time from a failure to the start of its repair (30m)"},
	{"method", "M", "repair: R_ALL, R_FCO, R_HYB or R_MIN (default)"},
	{"decode", "WHERE",
	 "where network repairs decode: server (as in the MLEC dissertation) or rack"},
};
const size_t system_options_n = ARRAY_LEN(system_options);

int system_read_count(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out,
		      char *why, size_t why_size)
{
	assert(min <= max);
	int64_t n;
	if (units_parse_int(text, &n) != 0 || n < 0 || (uint64_t)n < min || (uint64_t)n > max)
		return system_refuse(why, why_size, -EINVAL,
				     "--%s %.40s: must be a whole number from %llu to %llu", name,
				     text, (unsigned long long)min, (unsigned long long)max);
	*out = (uint64_t)n;
	return 0;
}

int system_read_number(const char *name, const char *text, struct system_range range, double *out,
		       char *why, size_t why_size)
{
	assert(range.min < range.max);
	char *end;
	double value = strtod(text, &end);
	bool whole = end != text && *end == '\0' && isfinite(value);
	if (!whole || value < range.min || value > range.max ||
	    (!range.closed && value <= range.min))
		return system_refuse(
			why, why_size, -EINVAL, "--%s %.40s: must be a number %s %g and at most %g",
			name, text, range.closed ? "of at least" : "above", range.min, range.max);
	*out = value;
	return 0;
}

int system_read_assume(const char *text, bool *as_paper, char *why, size_t why_size)
{
	*as_paper = strcmp(text, "paper") == 0;
	if (*as_paper || strcmp(text, "own") == 0)
		return 0;
	return system_refuse(why, why_size, -EINVAL, "--assume %.20s: must be own or paper", text);
}

/* Parses the name of a method: "R_MIN", "r_min" or "min", in any case. False for other text. */
static bool system_method_parse(const char *text, enum repair_method *method)
{
	if (strncasecmp(text, "R_", 2) == 0)
		text += 2;
	for (enum repair_method m = REPAIR_ALL; m <= REPAIR_MIN; m++) {
		if (strcasecmp(text, repair_method_name(m) + 2) == 0) {
			*method = m;
			return true;
		}
	}
	return false;
}

static int set_code(struct system_spec *s, const char *text, char *why, size_t why_size)
{
	char reason[ENCODING_WHY_MAX];
	int rc = encoding_parse(text, &s->encoding, reason, sizeof(reason));
	return rc == 0 ? 0 : system_refuse(why, why_size, rc, "--code %.40s: %s", text, reason);
}

static int set_scheme(struct system_spec *s, const char *text, char *why, size_t why_size)
{
	if (strlen(text) != 3 || text[1] != '/' || strchr("cds-", text[0]) == NULL ||
	    strchr("cds-", text[2]) == NULL)
		return system_refuse(why, why_size, -EILSEQ,
				     "--scheme %.10s: must be two of c, d, s and - with a slash "
				     "between, as in c/d, d/- or -/s",
				     text);
	snprintf(s->scheme, sizeof(s->scheme), "%s", text);
	return 0;
}

static int set_size(uint64_t *out, const char *name, const char *text, char *why, size_t why_size)
{
	uint64_t bytes;
	if (units_parse_size(text, &bytes) != 0 || bytes == 0 || bytes > INT64_MAX)
		return system_refuse(why, why_size, -EINVAL,
				     "--%s %.40s: must be a size above 0, such as 128K, 8M or 16T",
				     name, text);
	*out = bytes;
	return 0;
}

static int set_detect(struct system_spec *s, const char *text, char *why, size_t why_size)
{
	uint64_t ns;
	if (units_parse_duration(text, &ns) != 0)
		return system_refuse(why, why_size, -EINVAL,
				     "--detect %.40s: must be a time such as 30m, 90s or 0", text);
	s->detect_s = (double)ns / (double)NS_PER_S;
	return 0;
}

static int set_words(struct system_spec *s, const char *name, const char *text, char *why,
		     size_t why_size)
{
	if (strcmp(name, "method") == 0) {
		if (system_method_parse(text, &s->method))
			return 0;
		return system_refuse(why, why_size, -EINVAL,
				     "--method %.20s: must be R_ALL, R_FCO, R_HYB or R_MIN", text);
	}
	if (strcmp(text, "server") == 0)
		s->site = REPAIR_AT_SERVER;
	else if (strcmp(text, "rack") == 0)
		s->site = REPAIR_AT_RACK;
	else
		return system_refuse(why, why_size, -EINVAL,
				     "--decode %.20s: must be server or rack", text);
	return 0;
}

struct count_option {
	const char *name;
	size_t offset;
};

static const struct count_option count_options[] = {
	{"racks", offsetof(struct system_spec, racks)},
	{"enclosures", offsetof(struct system_spec, enclosures)},
	{"disks", offsetof(struct system_spec, disks)},
	{"pool-disks", offsetof(struct system_spec, pool_disks)},
};

struct number_option {
	const char *name;
	size_t offset;
	double max, unit;
};

static const struct number_option number_options[] = {
	{"disk-bandwidth", offsetof(struct system_spec, disk_rate), 1e9, 1e6},
	{"rack-bandwidth", offsetof(struct system_spec, rack_rate), 1e9, 1e9 / 8},
	{"repair-share", offsetof(struct system_spec, repair_share), 1, 1},
	{"afr", offsetof(struct system_spec, afr), 1000, 1},
};

int system_spec_set(struct system_spec *spec, const char *name, const char *text, char *why,
		    size_t why_size)
{
	for (size_t i = 0; i < ARRAY_LEN(count_options); i++) {
		if (strcmp(name, count_options[i].name) != 0)
			continue;
		uint64_t n = 0;
		int rc = system_read_count(name, text, 1, COUNT_MAX, &n, why, why_size);
		if (rc == 0)
			*(uint32_t *)(void *)((char *)spec + count_options[i].offset) = (uint32_t)n;
		return rc;
	}
	for (size_t i = 0; i < ARRAY_LEN(number_options); i++) {
		const struct number_option *o = &number_options[i];
		double value = 0;
		if (strcmp(name, o->name) != 0)
			continue;
		int rc = system_read_number(name, text,
					    (struct system_range){.min = 0, .max = o->max}, &value,
					    why, why_size);
		if (rc == 0)
			*(double *)(void *)((char *)spec + o->offset) = value * o->unit;
		return rc;
	}
	if (strcmp(name, "code") == 0)
		return set_code(spec, text, why, why_size);
	if (strcmp(name, "scheme") == 0)
		return set_scheme(spec, text, why, why_size);
	if (strcmp(name, "disk-size") == 0)
		return set_size(&spec->disk_bytes, name, text, why, why_size);
	if (strcmp(name, "chunk-size") == 0)
		return set_size(&spec->chunk_bytes, name, text, why, why_size);
	if (strcmp(name, "detect") == 0)
		return set_detect(spec, text, why, why_size);
	if (strcmp(name, "method") == 0 || strcmp(name, "decode") == 0)
		return set_words(spec, name, text, why, why_size);
	return -ENOENT;
}
