// SPDX-License-Identifier: Apache-2.0
/*
 * The loader of placement models with arbitrary bytes, whose checksum is made right so that the rules behind it are
 * reached. An accepted model must give categories in its range for any job, and be written and read again unchanged.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/le.h"
#include "fuzz.h"
#include "placement/model.h"

#define JOBS 3

static void use(struct model *m)
{
	static const struct job_io io = {.start_s = 10,
					 .end_s = 20,
					 .size_bytes = 1,
					 .read_bytes = UINT64_MAX >> 4,
					 .reads = 1};
	double numbers[FEATURES_COLUMNS_MAX];
	const char *texts[FEATURES_COLUMNS_MAX];
	for (int i = 0; i < JOBS; i++) {
		for (uint32_t k = 0; k < FEATURES_COLUMNS_MAX; k++) {
			numbers[k] = i == 0 ? NAN : i == 1 ? -INFINITY : 1e300;
			texts[k] = i == 0 ? NULL : i == 1 ? "" : "a-b/c7_v3";
		}
		struct features_job job = {i == 0 ? NAN : i * 1e300, numbers, texts};
		assert(model_category(m, &job) < m->cuts.categories);
		model_ended(m, &job, &io);
	}
}

static void write_again(const struct model *m)
{
	uint8_t *bytes, *again;
	size_t len, again_len;
	struct model copy;
	assert(model_write(m, &bytes, &len) == 0);
	assert(model_parse(&copy, bytes, len) == 0);
	assert(model_write(&copy, &again, &again_len) == 0);
	assert(len == again_len && memcmp(bytes, again, len) == 0);
	model_fini(&copy);
	free(bytes);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model m;
	uint8_t *copy = malloc(size + 1);
	assert(copy != NULL);
	memcpy(copy, data, size);
	if (size >= MODEL_HEAD_BYTES)
		put_u32(copy + 12, crc32c(0, copy + MODEL_HEAD_BYTES, size - MODEL_HEAD_BYTES));
	if (model_parse(&m, copy, size) == 0) {
		use(&m);
		write_again(&m);
	} else {
		assert(m.trees.nodes == NULL && m.history.list == NULL);
	}
	model_fini(&m);
	free(copy);
	return 0;
}
