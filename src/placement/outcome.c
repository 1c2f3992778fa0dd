// SPDX-License-Identifier: Apache-2.0
#include "placement/outcome.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define VERSION 1u
#define COUNT_MAX (1ULL << 60)
#define TIME_MAX_MS 100000000000000ULL
#define MILLION 1000000u
#define GROUP_BYTES MIB

enum number {
	NUMBER_VERSION,
	NUMBER_TENANT,
	NUMBER_FILE,
	NUMBER_JOB,
	NUMBER_CATEGORY,
	NUMBER_START,
	NUMBER_END,
	NUMBER_SIZE,
	NUMBER_READS,
	NUMBER_READ_BYTES,
	NUMBER_FLASH,
	NUMBERS,
};

/* Largest value of each number. */
static const uint64_t number_max[NUMBERS] = {
	[NUMBER_VERSION] = VERSION,      [NUMBER_TENANT] = UINT32_MAX, [NUMBER_FILE] = UINT64_MAX,
	[NUMBER_JOB] = UINT64_MAX,       [NUMBER_CATEGORY] = 64,       [NUMBER_START] = TIME_MAX_MS,
	[NUMBER_END] = TIME_MAX_MS,      [NUMBER_SIZE] = COUNT_MAX,    [NUMBER_READS] = COUNT_MAX,
	[NUMBER_READ_BYTES] = COUNT_MAX, [NUMBER_FLASH] = MILLION,
};

static uint64_t bounded(uint64_t v, enum number i)
{
	return v < number_max[i] ? v : number_max[i];
}

static uint64_t to_ms(double s)
{
	return s > 0 ? (uint64_t)fmin(s * 1000 + 0.5, (double)TIME_MAX_MS) : 0;
}

size_t outcome_print(const struct outcome *o, char out[OUTCOME_TEXT_MAX])
{
	assert(o->io.end_s > o->io.start_s && o->io.size_bytes > 0);
	assert(outcome_features_valid(o->features, strlen(o->features)));
	uint64_t start = to_ms(o->io.start_s), end = to_ms(o->io.end_s);
	double share = o->flash_share > 0 ? fmin(o->flash_share, 1) : 0;
	int n = snprintf(
		out, OUTCOME_TEXT_MAX,
		"%u %u %" PRIx64 " %" PRIu64 " %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
		" %" PRIu64 " %u%s%s",
		VERSION, o->tenant, o->file, o->job,
		(unsigned)bounded(o->category, NUMBER_CATEGORY), start,
		end > start ? end : start + 1, bounded(o->io.size_bytes, NUMBER_SIZE),
		bounded(o->io.reads, NUMBER_READS), bounded(o->io.read_bytes, NUMBER_READ_BYTES),
		(unsigned)(share * MILLION + 0.5), o->features[0] != 0 ? "\n" : "", o->features);
	assert(n > 0 && (size_t)n < OUTCOME_TEXT_MAX);
	return (size_t)n;
}

/* Reads the next number and the blank behind it, or the end of the line. */
static bool read_number(const char **at, enum number i, uint64_t *out)
{
	int base = i == NUMBER_FILE ? 16 : 10;
	const char *digits = i == NUMBER_FILE ? "0123456789abcdef" : "0123456789";
	size_t n = strspn(*at, digits);
	if (n == 0 || n > 20)
		return false;
	char *end;
	errno = 0;
	*out = strtoull(*at, &end, base);
	if (errno != 0 || *out > number_max[i])
		return false;
	bool last = i == NUMBER_FLASH;
	if (last ? *end != '\n' && *end != 0 : *end != ' ')
		return false;
	*at = end + (*end != 0);
	return true;
}

int outcome_parse(struct outcome *o, const char *text)
{
	uint64_t v[NUMBERS];
	const char *at = text;
	for (int i = 0; i < NUMBERS; i++)
		if (!read_number(&at, (enum number)i, &v[i]))
			return -EBADMSG;
	size_t len = strnlen(at, OUTCOME_FEATURES_BYTES + 1);
	if (v[NUMBER_VERSION] != VERSION || v[NUMBER_END] <= v[NUMBER_START] ||
	    v[NUMBER_SIZE] == 0 || !outcome_features_valid(at, len))
		return -EBADMSG;
	/* Disks group writes, so writes are counted as groups of 1 MiB (placement/cost.h). */
	*o = (struct outcome){
		.tenant = (uint32_t)v[NUMBER_TENANT],
		.file = v[NUMBER_FILE],
		.job = v[NUMBER_JOB],
		.category = (uint32_t)v[NUMBER_CATEGORY],
		.io = {.start_s = (double)v[NUMBER_START] / 1000,
		       .end_s = (double)v[NUMBER_END] / 1000,
		       .size_bytes = v[NUMBER_SIZE],
		       .read_bytes = v[NUMBER_READ_BYTES],
		       .reads = v[NUMBER_READS],
		       .written_bytes = v[NUMBER_SIZE],
		       .writes = (v[NUMBER_SIZE] + GROUP_BYTES - 1) / GROUP_BYTES},
		.flash_share = (double)v[NUMBER_FLASH] / MILLION,
	};
	memcpy(o->features, at, len);
	return 0;
}

/* --- features --------------------------------------------------------------------------------- */

static bool name_valid(const char *name, size_t len)
{
	if (len < 3 || len >= OUTCOME_NAME_MAX || (name[0] != 'n' && name[0] != 's') ||
	    name[1] != '_')
		return false;
	for (size_t i = 2; i < len; i++)
		if (!(name[i] >= 'a' && name[i] <= 'z') && !(name[i] >= '0' && name[i] <= '9') &&
		    name[i] != '_')
			return false;
	return true;
}

static bool number_valid(const char *value, size_t len)
{
	char copy[64];
	char *end;
	if (len == 0 || len >= sizeof(copy) || strspn(value, "+-.0123456789eE") < len)
		return false;
	memcpy(copy, value, len);
	copy[len] = 0;
	return isfinite(strtod(copy, &end)) && *end == 0;
}

static bool value_valid(const char *value, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)value[i] < ' ' || value[i] == 0x7f || value[i] == ',' ||
		    value[i] == '"')
			return false;
	return len > 0 && len < 512;
}

bool outcome_feature_next(const char *text, size_t *at, struct outcome_feature *out)
{
	const char *line = text + *at;
	if (*line == 0)
		return false;
	size_t len = strcspn(line, "\n");
	const char *equals = memchr(line, '=', len);
	size_t name = equals != NULL ? (size_t)(equals - line) : len;
	*out = (struct outcome_feature){.name = line,
					.name_len = name,
					.value = line + name + (equals != NULL),
					.value_len = len - name - (equals != NULL)};
	*at += len + (line[len] != 0);
	return true;
}

bool outcome_features_valid(const char *text, size_t len)
{
	struct outcome_feature f;
	size_t at = 0, n = 0;
	if (len > OUTCOME_FEATURES_BYTES || memchr(text, 0, len) != NULL || text[len] != 0 ||
	    (len > 0 && text[len - 1] == '\n'))
		return false;
	while (outcome_feature_next(text, &at, &f)) {
		if (++n > OUTCOME_FEATURES_MAX || !name_valid(f.name, f.name_len) ||
		    !value_valid(f.value, f.value_len) ||
		    (f.name[0] == 'n' && !number_valid(f.value, f.value_len)))
			return false;
	}
	assert(at == len);
	return true;
}
