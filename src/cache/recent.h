// SPDX-License-Identifier: Apache-2.0
/*
 * A bounded set of the keys that were added last, for ghost lists and for reject-first.
 *
 * Sets of four slots of 8 bytes; a key belongs to one set, and a full set replaces its oldest key. A key counts as
 * contained while at most `keys` others were added after it. Two keys of one set with the same 32-bit fingerprint are
 * confused: 1 in 10^9 lookups.
 */
#ifndef CACHE_RECENT_H
#define CACHE_RECENT_H

#include <stdbool.h>
#include <stdint.h>

struct recent_slot {
	uint32_t print;
	uint32_t added; /* number of the addition; 0: the slot is empty */
};

struct recent {
	struct recent_slot *slots;
	uint64_t sets_mask;
	uint32_t keys;
	uint32_t additions;
};

/* -ENOMEM; -EINVAL: keys is 0 or above 2^30 */
int recent_init(struct recent *r, uint64_t keys);
void recent_fini(struct recent *r);
void recent_add(struct recent *r, uint64_t key);
bool recent_has(const struct recent *r, uint64_t key);

#endif
