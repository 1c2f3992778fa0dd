// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cachenode/impl.h"

void tallies_init(struct tallies *t)
{
	*t = (struct tallies){0};
	map_init(&t->by_key, CACHENODE_TALLIES_MAX);
}

void tallies_fini(struct tallies *t)
{
	map_for_each(&t->by_key, it)
		free(it.value);
	map_fini(&t->by_key);
}

struct tally *tally_of(struct tallies *t, uint32_t tenant, uint64_t id)
{
	uint64_t key = mix_u64(id + 0x9e3779b97f4a7c15ULL * tenant);
	struct tally *known = id != 0 ? map_get(&t->by_key, key) : &t->rest;
	if (known != NULL) {
		assert(id == 0 || known->id != 0);
		return known->id == id && known->tenant == (id != 0 ? tenant : 0) ? known
										  : &t->rest;
	}
	known = calloc(1, sizeof(*known));
	if (known == NULL || map_put(&t->by_key, key, known) < 0) {
		free(known);
		return &t->rest;
	}
	known->id = id;
	known->tenant = tenant;
	return known;
}

static int by_requested(const void *a, const void *b)
{
	const struct tally *x = a, *y = b;
	if (x->requested != y->requested)
		return x->requested > y->requested ? -1 : 1;
	if (x->tenant != y->tenant)
		return x->tenant < y->tenant ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

size_t tallies_top(const struct tallies *t, struct tally *out, size_t n)
{
	size_t count = 0, all = map_count(&t->by_key) + 1;
	AUTO_FREE struct tally *list = calloc(all, sizeof(*list));
	if (list == NULL)
		return 0;
	map_for_each(&t->by_key, it)
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
