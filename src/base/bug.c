// SPDX-License-Identifier: Apache-2.0
#include "base/bug.h"

#include <assert.h>
#include <string.h>

#include "base/base.h"

static const char *const bug_names[BUG_COUNT] = {
	[BUG_NONE] = "none",
	[BUG_REPLY_MISMATCH] = "reply-mismatch",
	[BUG_UNSURE_DELETE] = "unsure-delete",
	[BUG_ACK_BELOW_QUORUM] = "ack-below-quorum",
	[BUG_FENCE_FORGOTTEN] = "fence-forgotten",
	[BUG_WRONG_PARITY] = "wrong-parity",
	[BUG_SEAL_IGNORED] = "seal-ignored",
	[BUG_REPLAY_TWICE] = "replay-twice",
	[BUG_COLLECT_SHARED] = "collect-shared",
	[BUG_QUOTA_LEAK] = "quota-leak",
	[BUG_QUOTA_IGNORED] = "quota-ignored",
	[BUG_DIR_QUOTA_IGNORED] = "dir-quota-ignored",
	[BUG_MOVE_UNPAID] = "move-unpaid",
	[BUG_INDEX_FORGOTTEN] = "index-forgotten",
	[BUG_REPORT_LOST] = "report-lost",
	[BUG_SYNC_SKIPPED] = "sync-skipped",
	[BUG_SYNC_ERROR_IGNORED] = "sync-error-ignored",
	[BUG_ROT_BELIEVED] = "rot-believed",
	[BUG_SCRUB_BLIND] = "scrub-blind",
	[BUG_DELETE_IGNORED] = "delete-ignored",
	[BUG_DELETE_FIRST] = "delete-first",
	[BUG_ORPHAN_AT_ONCE] = "orphan-at-once",
	[BUG_GATE_LEAK] = "gate-leak",
	[BUG_RETRY_AT_ONCE] = "retry-at-once",
	[BUG_KEEPER_ASLEEP] = "keeper-asleep",
	[BUG_RACKS_FORGOTTEN] = "racks-forgotten",
	[BUG_MEDIA_FORGOTTEN] = "media-forgotten",
	[BUG_CATEGORY_UNREAD] = "category-unread",
	[BUG_REAL_CLOCK] = "real-clock",
	[BUG_MAC_PREFIX] = "mac-prefix",
	[BUG_EXPIRY_IGNORED] = "expiry-ignored",
	[BUG_TENANT_UNBOUND] = "tenant-unbound",
	[BUG_RANGE_UNBOUND] = "range-unbound",
	[BUG_KEY_SHARED] = "key-shared",
	[BUG_RENEW_WIDER] = "renew-wider",
	[BUG_PREFIX_TEXT] = "prefix-text",
	[BUG_REFLECTION] = "reflection",
	[BUG_DOWNGRADE] = "downgrade",
	[BUG_TOKEN_SKIPPED] = "token-skipped",
	[BUG_BLOCK_UNBOUND] = "block-unbound",
	[BUG_BLOCK_SHARED] = "block-shared",
	[BUG_LABEL_KEPT] = "label-kept",
	[BUG_BORROW_CLASS] = "borrow-class",
	[BUG_CLAIM_BELIEVED] = "claim-believed",
	[BUG_DIGEST_BELIEVED] = "digest-believed",
	[BUG_CACHE_SUM] = "cache-sum",
	[BUG_CACHE_ROTTEN] = "cache-rotten",
	[BUG_CACHE_RANGE] = "cache-range",
	[BUG_CACHE_FETCHES] = "cache-fetches",
	[BUG_CACHE_LEASE] = "cache-lease",
	[BUG_CACHE_MISS] = "cache-miss",
	[BUG_CACHE_PAUSE] = "cache-pause",
	[BUG_CACHE_RING] = "cache-ring",
	[BUG_JOIN_FORGOTTEN] = "join-forgotten",
	[BUG_MERGE_LOST] = "merge-lost",
	[BUG_TURN_FORGOTTEN] = "turn-forgotten",
};

const char *bug_name(enum bug bug)
{
	assert(bug < BUG_COUNT);
	return bug_names[bug];
}

enum bug bug_from_name(const char *name)
{
	for (int i = 0; i < BUG_COUNT; i++)
		if (strcmp(bug_names[i], name) == 0)
			return (enum bug)i;
	return BUG_COUNT;
}

#ifdef TERRANE_PLANTED_BUGS
static enum bug bug_active = BUG_NONE;

void bug_plant(enum bug bug)
{
	assert(bug < BUG_COUNT);
	bug_active = bug;
}

bool bug_planted(enum bug bug)
{
	return bug_active == bug;
}
#endif
