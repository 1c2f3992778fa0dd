// SPDX-License-Identifier: Apache-2.0
#include "cachenode/claims.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/le.h"

#define WAYS 4
#define CLAIM_BYTES (28 + CONTENT_DIGEST_BYTES)

struct entry {
	uint64_t half[2]; /* both 0: empty; bit 0 of half[1]: the claim is true */
};

struct claim_set {
	struct entry way[WAYS];
};

static_assert(sizeof(struct claim_set) == 64, "a set is a cache line");

int claims_init(struct claims *c, uint64_t count, const uint8_t key[MAC_KEY_BYTES])
{
	assert(count > 0);
	*c = (struct claims){.sets_n = min_u64(count, CLAIMS_MAX) / WAYS + 1};
	int rc = mac_open(&c->mac, key);
	if (rc == 0)
		c->sets = calloc(c->sets_n, sizeof(*c->sets));
	return rc == 0 && c->sets == NULL ? -ENOMEM : rc;
}

void claims_fini(struct claims *c)
{
	mac_close(c->mac);
	free(c->sets);
	*c = (struct claims){0};
}

/* Finds the set of a claim, and the bits that an entry has of it. */
static struct claim_set *set_of(struct claims *c, const struct content_claim *claim,
				struct entry *out)
{
	uint8_t bytes[CLAIM_BYTES], mac[MAC_BYTES];
	assert(c->sets != NULL);
	put_u32(bytes, claim->tenant);
	put_u64(bytes + 4, claim->block);
	put_u64(bytes + 12, claim->off);
	put_u64(bytes + 20, claim->len);
	memcpy(bytes + 28, claim->digest, CONTENT_DIGEST_BYTES);
	if (mac_compute(c->mac, bytes, sizeof(bytes), mac) < 0)
		return NULL;
	*out = (struct entry){{get_u64(mac), get_u64(mac + 8) & ~1ULL}};
	return &c->sets[get_u64(mac + 16) % c->sets_n];
}

static bool is_same(const struct entry *a, const struct entry *b)
{
	return a->half[0] == b->half[0] && (a->half[1] & ~1ULL) == b->half[1];
}

/* Puts an entry in front of those before way `at`, which it replaces. */
static void put_first(struct claim_set *set, size_t at, struct entry e)
{
	assert(at < WAYS);
	memmove(&set->way[1], &set->way[0], at * sizeof(e));
	set->way[0] = e;
}

enum verdict claims_find(struct claims *c, const struct content_claim *claim)
{
	struct entry e;
	struct claim_set *set = set_of(c, claim, &e);
	for (size_t i = 0; set != NULL && i < WAYS; i++) {
		struct entry found = set->way[i];
		if (!is_same(&found, &e))
			continue;
		put_first(set, i, found);
		return (found.half[1] & 1) != 0 ? CLAIM_TRUE : CLAIM_FALSE;
	}
	return CLAIM_UNKNOWN;
}

void claims_note(struct claims *c, const struct content_claim *claim, bool holds)
{
	struct entry e;
	struct claim_set *set = set_of(c, claim, &e);
	size_t at = 0;
	if (set == NULL)
		return;
	while (at < WAYS - 1 && !is_same(&set->way[at], &e))
		at++;
	const struct entry *old = &set->way[at];
	bool known = is_same(old, &e);
	c->noted += !known;
	c->forgotten += !known && (old->half[0] | old->half[1]) != 0;
	e.half[1] |= holds;
	put_first(set, at, e);
}
