// SPDX-License-Identifier: Apache-2.0
#include "analysis/placement/strings.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define TEXTS_MAX (1u << 24)

static uint32_t *find(const struct strings *s, const char *text, size_t len)
{
	uint32_t at = (uint32_t)hash64(text, len, 0) & (s->cap - 1);
	for (;; at = (at + 1) & (s->cap - 1)) {
		uint32_t slot = s->slots[at];
		if (slot == 0)
			return &s->slots[at];
		const char *have = s->texts[slot - 1];
		if (strncmp(have, text, len) == 0 && have[len] == '\0')
			return &s->slots[at];
	}
}

static int grow(struct strings *s)
{
	struct strings bigger = {.cap = s->cap == 0 ? 64 : s->cap * 2, .n = s->n};
	bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
	bigger.texts = bigger.slots != NULL
			       ? realloc(s->texts, bigger.cap / 2 * sizeof(*bigger.texts))
			       : NULL;
	if (bigger.texts == NULL) {
		free(bigger.slots);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < s->n; i++)
		*find(&bigger, bigger.texts[i], strlen(bigger.texts[i])) = i + 1;
	free(s->slots);
	*s = bigger;
	return 0;
}

int strings_add(struct strings *s, const char *text, size_t len, uint32_t *number)
{
	if (s->n >= s->cap / 2) {
		int rc = s->n >= TEXTS_MAX ? -E2BIG : grow(s);
		if (rc != 0)
			return rc;
	}
	uint32_t *slot = find(s, text, len);
	if (*slot == 0) {
		char *copy = strndup(text, len);
		if (copy == NULL)
			return -ENOMEM;
		s->texts[s->n++] = copy;
		*slot = s->n;
	}
	assert(*slot <= s->n);
	*number = *slot - 1;
	return 0;
}

void strings_fini(struct strings *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		free(s->texts[i]);
	free(s->texts);
	free(s->slots);
	*s = (struct strings){0};
}
