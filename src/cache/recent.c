// SPDX-License-Identifier: Apache-2.0
#include "cache/recent.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/rng.h"

#define RECENT_WAYS 4u

int recent_init(struct recent *r, uint64_t keys)
{
	*r = (struct recent){0};
	if (keys == 0 || keys > 1u << 30)
		return -EINVAL;
	uint64_t sets = 1;
	while (sets * RECENT_WAYS < keys + keys / 2)
		sets *= 2;
	r->slots = calloc(sets * RECENT_WAYS, sizeof(*r->slots));
	if (r->slots == NULL)
		return -ENOMEM;
	r->sets_mask = sets - 1;
	r->keys = (uint32_t)keys;
	return 0;
}

void recent_fini(struct recent *r)
{
	free(r->slots);
	*r = (struct recent){0};
}

static struct recent_slot *recent_set(const struct recent *r, uint64_t key)
{
	/* Keys of neighbours have the same high bits, and must not crowd one set. */
	return r->slots + ((mix_u64(key) >> 32) & r->sets_mask) * RECENT_WAYS;
}

void recent_add(struct recent *r, uint64_t key)
{
	struct recent_slot *set = recent_set(r, key), *to = set;
	assert(r->slots != NULL);
	if (++r->additions == 0)
		r->additions = 1;
	for (uint32_t i = 0; i < RECENT_WAYS; i++) {
		if (set[i].print == (uint32_t)key || set[i].added == 0) {
			to = &set[i];
			break;
		}
		if (r->additions - set[i].added > r->additions - to->added)
			to = &set[i];
	}
	*to = (struct recent_slot){.print = (uint32_t)key, .added = r->additions};
}

bool recent_has(const struct recent *r, uint64_t key)
{
	const struct recent_slot *set = recent_set(r, key);
	assert(r->slots != NULL);
	for (uint32_t i = 0; i < RECENT_WAYS; i++)
		if (set[i].print == (uint32_t)key && set[i].added != 0)
			return r->additions - set[i].added <= r->keys;
	return false;
}
