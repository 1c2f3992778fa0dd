// SPDX-License-Identifier: Apache-2.0
/*
 * What a cache node has found out about claims (shift/content.h): a table of verdicts in memory of a fixed size. Pure
 * logic.
 *
 * A claim is noted after the node has read the range from the disks, in the name of the tenant, and has computed its
 * SHA-256. Blocks that are sealed never change and their ids are never given again, so a verdict stays right for ever. The
 * table forgets verdicts when it is full, and all of them when the node restarts: then the range is read again, which
 * costs a read and no safety.
 *
 *     4-way sets of 64 bytes, the verdict used last in front. An entry has 127 bits of the HMAC-SHA-256 of all
 *     fields of the claim, under a random key of the process, and one bit: whether the claim is true. The key keeps
 *     others from searching for two claims with the same entry.
 */
#ifndef CACHENODE_CLAIMS_H
#define CACHENODE_CLAIMS_H

#include "auth/mac.h"
#include "shift/content.h"

#define CLAIMS_MAX (1u << 27) /* 2 GiB */

enum verdict { CLAIM_UNKNOWN, CLAIM_TRUE, CLAIM_FALSE };

struct claims {
	struct mac *mac;
	struct claim_set *sets;
	uint64_t sets_n;
	uint64_t noted, forgotten; /* verdicts added, and dropped for others */
};

/* Room for at least `count` verdicts, at most CLAIMS_MAX, in 16 bytes each. -ENOMEM. */
int claims_init(struct claims *c, uint64_t count, const uint8_t key[MAC_KEY_BYTES]);
void claims_fini(struct claims *c);

/* After an error of libcrypto a claim is unknown, and its verdict is not noted. */
enum verdict claims_find(struct claims *c, const struct content_claim *claim);
void claims_note(struct claims *c, const struct content_claim *claim, bool holds);

#endif
