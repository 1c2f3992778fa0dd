// SPDX-License-Identifier: Apache-2.0
/* Texts of outcomes: one that is accepted is printed and read again unchanged, and trust and admission accept it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "placement/admission.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[OUTCOME_TEXT_MAX], again[OUTCOME_TEXT_MAX];
	struct outcome o, copy;
	char *in = malloc(size + 1);
	assert(in != NULL);
	memcpy(in, data, size);
	in[size] = 0;
	if (outcome_parse(&o, in) == 0) {
		struct admission a;
		outcome_print(&o, text);
		assert(outcome_parse(&copy, text) == 0);
		outcome_print(&copy, again);
		assert(strcmp(text, again) == 0);
		assert(admission_init(&a) == 0);
		admission_ended(&a, &o);
		admission_fini(&a);
	}
	free(in);
	return 0;
}
