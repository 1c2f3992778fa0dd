// SPDX-License-Identifier: Apache-2.0
#include "placement/feature.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "base/hash.h"

#define WORDS_MAX 24u /* of one text */
#define WORD_SEED 1000u
#define PAIR_SEED 2000u
#define DAY_S 86400.0
/* Memories: few jobs of a step tell its present behaviour; a word needs many. */
#define PAIR_MEMORY 12.0F
#define TEXT_MEMORY 64.0F
#define WORD_MEMORY 512.0F
#define VALUE_LIMIT 1e30

uint32_t features_count(const struct features *f)
{
	return f->numbers_n + 2 + FEATURES_HISTORY + 5 * f->texts_n + FEATURES_WORDS;
}

enum feature_group features_group(const struct features *f, uint32_t i)
{
	assert(i < features_count(f));
	if (i < f->numbers_n)
		return FEATURE_RESOURCES;
	if (i < f->numbers_n + 2)
		return FEATURE_TIME;
	return i < f->numbers_n + 2 + FEATURES_HISTORY + 5 * f->texts_n ? FEATURE_HISTORY
									: FEATURE_NAMES;
}

double features_score(double worth)
{
	return copysign(log2(1 + fmin(fabs(worth), VALUE_LIMIT)), worth);
}

static uint64_t nonzero(uint64_t key)
{
	return key != 0 ? key : 1;
}

static uint64_t text_key(const struct features_job *job, uint32_t column)
{
	const char *text = job->texts[column];
	return text == NULL ? 0
			    : nonzero(hash64(text, strnlen(text, FEATURES_TEXT_MAX), column + 1));
}

/* Returns the key of the job's pipeline and step; without such columns, of its first text. */
static uint64_t pair_key(const struct features *f, const struct features_job *job)
{
	uint64_t keys[2] = {0, 0};
	for (uint32_t i = 0; i < f->texts_n; i++) {
		if (strcmp(f->text_names[i], "s_pipeline") == 0)
			keys[0] = text_key(job, i);
		if (strcmp(f->text_names[i], "s_step") == 0)
			keys[1] = text_key(job, i);
	}
	if (keys[0] == 0)
		return f->texts_n > 0 ? text_key(job, 0) : 0;
	return nonzero(hash64(keys, sizeof(keys), PAIR_SEED));
}

/* Hashes the words of a text. Returns their number. */
static uint32_t hash_words(const char *text, uint32_t column, uint64_t *out)
{
	uint32_t n = 0;
	const char *end = text + strnlen(text, FEATURES_TEXT_MAX);
	for (const char *p = text; p < end && n < WORDS_MAX;) {
		const char *begin = p;
		bool digits = isdigit((unsigned char)*p);
		while (p < end && isalnum((unsigned char)*p) &&
		       (isdigit((unsigned char)*p) != 0) == digits)
			p++;
		if (p > begin)
			out[n++] = nonzero(hash64(begin, (size_t)(p - begin), WORD_SEED + column));
		else
			p++;
	}
	return n;
}

static float *fill_pair(const struct past_entry *e, double now_s, float *out)
{
	for (uint32_t i = 0; i < FEATURES_HISTORY; i++)
		out[i] = NAN;
	if (e != NULL) {
		for (uint32_t i = 0; i < PAST_VALUES; i++)
			out[i] = e->mean[i];
		out[PAST_VALUES] = e->jobs;
		out[PAST_VALUES + 1] = (float)log2(1 + fmax(now_s - e->last_s, 0));
		out[PAST_VALUES + 2] = sqrtf(fmaxf(e->spread, 0));
		out[PAST_VALUES + 3] = e->last;
		out[PAST_VALUES + 4] =
			e->held > 0 ? (float)features_score((double)e->gained / e->held) : NAN;
		out[PAST_VALUES + 5] = e->last - e->mean[PAST_SCORE];
	}
	return out + FEATURES_HISTORY;
}

/* Writes what is known of a text and of its words. */
static float *fill_text(const struct past *h, const struct features_job *job, uint32_t column,
			float *out, float *counters)
{
	uint64_t words[WORDS_MAX];
	const char *text = job->texts[column];
	const struct past_entry *e = past_find(h, text_key(job, column));
	out[0] = e != NULL ? e->jobs : 0;
	out[1] = e != NULL ? e->mean[PAST_SCORE] : NAN;
	out[2] = e != NULL ? e->mean[PAST_LIFE] : NAN;
	uint32_t n = text != NULL ? hash_words(text, column, words) : 0;
	float sum = 0, most = -INFINITY;
	uint32_t known = 0;
	for (uint32_t i = 0; i < n; i++) {
		counters[words[i] % FEATURES_WORDS]++;
		const struct past_entry *w = past_find(h, words[i]);
		if (w == NULL)
			continue;
		known++;
		sum += w->mean[PAST_SCORE];
		most = fmaxf(most, w->mean[PAST_SCORE]);
	}
	out[3] = known > 0 ? sum / (float)known : NAN;
	out[4] = known > 0 ? most : NAN;
	return out + 5;
}

void features_fill(const struct features *f, const struct past *h, const struct features_job *job,
		   float *out)
{
	float counters[FEATURES_WORDS] = {0}, *at = out;
	for (uint32_t i = 0; i < f->numbers_n; i++) {
		double v = job->numbers[i];
		*at++ = isfinite(v) ? (float)fmin(fmax(v, -VALUE_LIMIT), VALUE_LIMIT) : NAN;
	}
	double now_s = job->start_s > 0 ? fmin(job->start_s, 1e12) : 0;
	*at++ = (float)fmod(floor(now_s / DAY_S), 7);
	*at++ = (float)(fmod(now_s, DAY_S) / 3600);
	at = fill_pair(past_find(h, pair_key(f, job)), now_s, at);
	for (uint32_t i = 0; i < f->texts_n; i++)
		at = fill_text(h, job, i, at, counters);
	for (uint32_t i = 0; i < FEATURES_WORDS; i++)
		*at++ = counters[i];
	assert(at == out + features_count(f));
}

static float log_of(double v)
{
	return (float)log2(fmin(fmax(v, 1e-9), VALUE_LIMIT));
}

void features_ended(const struct features *f, struct past *h, const struct features_job *job,
		    const struct job_io *io, const struct cost_rates *rates)
{
	struct cost cost = cost_of(rates, io);
	double worth = cost_worth(rates, io, &cost);
	worth = fmin(fmax(worth, -1e12), 1e12);
	struct past_job done = {
		.value = {log_of((double)io->size_bytes), log_of(job_seconds(io)),
			  log_of(cost_density(io)), log_of(cost.disk_s / job_seconds(io)),
			  (float)features_score(worth)},
		.worth = (float)worth,
		.held = (float)fmin(job_byte_seconds(io), 1e24),
	};
	uint64_t words[WORDS_MAX];
	past_add(h, pair_key(f, job), io->end_s, &done, PAIR_MEMORY);
	for (uint32_t i = 0; i < f->texts_n; i++) {
		past_add(h, text_key(job, i), io->end_s, &done, TEXT_MEMORY);
		uint32_t n = job->texts[i] != NULL ? hash_words(job->texts[i], i, words) : 0;
		for (uint32_t k = 0; k < n; k++)
			past_add(h, words[k], io->end_s, &done, WORD_MEMORY);
	}
}
