// SPDX-License-Identifier: Apache-2.0
/* A bounded set of different texts, numbered from 0 in the order in which they were added. */
#ifndef ANALYSIS_PLACEMENT_STRINGS_H
#define ANALYSIS_PLACEMENT_STRINGS_H

#include <stddef.h>
#include <stdint.h>

struct strings {
	char **texts;
	uint32_t *slots; /* hash table: number of a text plus 1; 0: free */
	uint32_t n, cap; /* cap is 0 or a power of two; texts has room for cap / 2 */
};

/* Finds or adds the text of len bytes. Returns 0, -ENOMEM, or -E2BIG for more than 2^24 texts. */
int strings_add(struct strings *s, const char *text, size_t len, uint32_t *number);
void strings_fini(struct strings *s);

#endif
