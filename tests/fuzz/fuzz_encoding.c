// SPDX-License-Identifier: Apache-2.0
/*
 * The parser of encodings with arbitrary text. An accepted encoding must print to the same text and pass the check;
 * a refused one must come with a reason. The parser must not write beyond the room for the reason, however small.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "code/encoding.h"
#include "fuzz.h"

static void check_taken(const char *text, const struct encoding *e)
{
	char printed[ENCODING_TEXT_MAX];
	struct encoding again;
	encoding_print(e, printed);
	assert(strcmp(printed, text) == 0);
	assert(encoding_check(e, NULL, 0) == 0);
	assert(encoding_parse(printed, &again, NULL, 0) == 0 && encoding_equal(e, &again));
	int data = encoding_data_chunks(e), total = encoding_total_chunks(e);
	assert(data >= 1 && data <= total && total <= ENCODING_CHUNKS_MAX);
	assert(encoding_tolerance(e) >= 0 && encoding_tolerance(e) < total);
	for (int d = 0; d < data; d++)
		assert(encoding_data_index(e, encoding_data_chunk(e, d)) == d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	size_t why_size = data[0];
	AUTO_FREE char *why = malloc(why_size + 1);
	AUTO_FREE char *text = malloc(size);
	if (why == NULL || text == NULL)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	why[0] = '\0';
	struct encoding e;
	int err = encoding_parse(text, &e, why, why_size);
	assert(err == 0 || err == -EILSEQ || err == -EINVAL);
	if (err == 0)
		check_taken(text, &e);
	else if (why_size > 1)
		assert(why[0] != '\0' && strlen(why) < why_size);
	return 0;
}
