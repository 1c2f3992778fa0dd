// SPDX-License-Identifier: Apache-2.0
/*
 * The outcome of a file: what it did from its creation to its removal, with the features that were known when it was
 * created. Metadata servers keep outcomes as text; `terrane placement trace` makes traces of them.
 *
 * Text of an outcome: a line of numbers, then a line for each feature.
 *
 *   1 7 5511223344550001 42 13 1700000000000 1700000360000 1073741824 16384 1073741824 1000000
 *   n_workers=16
 *   s_pipeline=daily-join
 *
 * The numbers: version, tenant, file (hexadecimal), job (0: none), category + 1 (0: not known), creation and removal
 * in ms since 1970, size, reads, bytes read, and the millionths of its byte-seconds that were on flash. Texts are
 * stored: numbers are only added in another version.
 */
#ifndef PLACEMENT_OUTCOME_H
#define PLACEMENT_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "placement/job_io.h"

#define OUTCOME_FEATURES_BYTES 3000u /* largest text of all features */
#define OUTCOME_TEXT_MAX 3600u       /* largest text of an outcome, with its NUL */
#define OUTCOME_FEATURES_MAX 96u
#define OUTCOME_NAME_MAX 32u /* bytes of a feature's name, with its NUL */

struct outcome {
	uint32_t tenant;
	uint64_t file, job; /* job 0: the file names none */
	uint32_t category;  /* as it travels: 0: not known; c + 1: category c */
	struct job_io io;
	double flash_share; /* of its byte-seconds, 0 to 1 */
	char features[OUTCOME_FEATURES_BYTES + 1];
};

/* Writes the text of an outcome. The outcome must be valid: size above 0, end after start. Returns its length. */
size_t outcome_print(const struct outcome *o, char out[OUTCOME_TEXT_MAX]);

/* Reads a text. Returns 0; -EBADMSG: the text is not one of outcome_print(). */
int outcome_parse(struct outcome *o, const char *text);

/*
 * Reports whether a text is a list of features: lines NAME=VALUE without an end of line after the last, where NAME is
 * n_ or s_ and a-z, 0-9 and _, and VALUE has no comma, quote or control character; those of n_ are decimal numbers.
 */
bool outcome_features_valid(const char *text, size_t len);

/* A feature in a valid text. Begin with at 0; returns false at the end. */
struct outcome_feature {
	const char *name, *value; /* no NUL behind them */
	size_t name_len, value_len;
};
bool outcome_feature_next(const char *text, size_t *at, struct outcome_feature *out);

#endif
