// SPDX-License-Identifier: Apache-2.0
/* Private to policy.c (changes) and policy_check.c (decisions). */
#ifndef AUTH_POLICY_IMPL_H
#define AUTH_POLICY_IMPL_H

#include <string.h>

#include "auth/policy.h"
#include "base/hash.h"
#include "base/map.h"

/* A slot of an identity's table: the grants with one tenant and prefix form a chain. */
struct grant_slot {
	uint64_t hash;
	struct grant_row *first; /* NULL: the slot is free */
};

struct grant_row {
	struct grant grant;
	struct grant_row *next; /* in its slot */
	char text[];            /* the prefix */
};

struct identity_row {
	struct identity identity;
	struct identity_row *next; /* with the same hash of the name */
	uint64_t name_hash;
	struct grant_row **grants;
	size_t grants_room;
	/* open addressing, a power of two, at most half full; NULL: no grants */
	struct grant_slot *slots;
	size_t slot_count;
	size_t slots_used;
};

struct policy {
	struct policy_limits limits;
	uint64_t seed;
	struct map by_id;   /* id -> struct identity_row */
	struct map by_name; /* hash of the name -> struct identity_row, a chain */
	size_t grants;
};

static inline struct identity_row *row_of(const struct identity *who)
{
	return container_of(who, struct identity_row, identity);
}

static inline uint64_t prefix_hash(uint64_t seed, uint32_t tenant, const char *prefix, size_t len)
{
	return hash64(prefix, len, seed + tenant);
}

/* Returns the chain of the grants with this tenant and prefix; NULL: there is none. */
static inline struct grant_row *grants_at(const struct identity_row *r, uint64_t hash,
					  uint32_t tenant, const char *prefix, size_t len)
{
	if (r->slot_count == 0)
		return NULL;
	for (size_t i = hash & (r->slot_count - 1);; i = (i + 1) & (r->slot_count - 1)) {
		const struct grant_slot *s = &r->slots[i];
		if (s->first == NULL)
			return NULL;
		const struct grant *g = &s->first->grant;
		if (s->hash == hash && g->tenant == tenant && g->prefix_len == len &&
		    memcmp(g->prefix, prefix, len) == 0)
			return s->first;
	}
}

#endif
