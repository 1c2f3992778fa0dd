// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cachenode/impl.h"

void tallies_init(struct tallies *t)
{
	*t = (struct tallies){0};
	map_init(&t->by_id, CACHENODE_TALLIES_MAX);
}

void tallies_fini(struct tallies *t)
{
	map_for_each(&t->by_id, it)
		free(it.value);
	map_fini(&t->by_id);
}

struct tally *tally_of(struct tallies *t, uint64_t id)
{
	struct tally *known = map_get(&t->by_id, id);
	if (known != NULL || id == 0)
		return known != NULL ? known : &t->rest;
	known = calloc(1, sizeof(*known));
	if (known == NULL || map_put(&t->by_id, id, known) < 0) {
		free(known);
		return &t->rest;
	}
	known->id = id;
	return known;
}

static int by_requested(const void *a, const void *b)
{
	const struct tally *x = a, *y = b;
	if (x->requested != y->requested)
		return x->requested > y->requested ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

size_t tallies_top(const struct tallies *t, struct tally *out, size_t n)
{
	size_t count = 0, all = map_count(&t->by_id) + 1;
	AUTO_FREE struct tally *list = calloc(all, sizeof(*list));
	if (list == NULL)
		return 0;
	map_for_each(&t->by_id, it)
		list[count++] = *(const struct tally *)it.value;
	if (t->rest.requested > 0)
		list[count++] = t->rest;
	assert(count <= all);
	qsort(list, count, sizeof(*list), by_requested);
	count = count < n ? count : n;
	if (count > 0)
		memcpy(out, list, count * sizeof(*list));
	return count;
}
