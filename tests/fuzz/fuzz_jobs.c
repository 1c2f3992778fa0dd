// SPDX-License-Identifier: Apache-2.0
/*
 * The reader of job traces with arbitrary bytes. An accepted trace must keep the rules of jobs.h; a refusal must
 * leave nothing behind and name the line.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "analysis/placement/jobs.h"
#include "fuzz.h"

static void check_taken(const struct jobs *t)
{
	double last = 0;
	for (size_t i = 0; i < t->n; i++) {
		const struct job_io *io = &t->io[i];
		assert(isfinite(io->end_s) && io->start_s >= last && io->end_s > io->start_s);
		assert(io->size_bytes > 0 && io->size_bytes <= JOBS_COUNT_MAX);
		last = io->start_s;
		for (uint32_t k = 0; k < t->numbers_n; k++)
			assert(!isinf(t->numbers[i * t->numbers_n + k]));
		for (uint32_t k = 0; k < t->texts_n; k++) {
			const char *text = jobs_text(t, i, k);
			assert(text == NULL || (text[0] != '\0' && strlen(text) <= JOBS_TEXT_MAX));
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jobs t;
	char why[JOBS_WHY_MAX] = "";
	if (jobs_parse(&t, (const char *)data, size, why, sizeof(why)) == 0) {
		check_taken(&t);
	} else {
		assert(t.n == 0 && t.io == NULL);
		assert(strncmp(why, "line ", 5) == 0);
	}
	jobs_fini(&t);
	return 0;
}
