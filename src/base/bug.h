// SPDX-License-Identifier: Apache-2.0
/*
 * Planted bugs: wrong branches that tests switch on to prove that the simulator finds such bugs.
 * They exist only in builds with -Dplanted_bugs=true; in others bug_planted() is the constant false
 * and the compiler drops the branches. The switch is one of the two mutable globals of the tree
 * (the logger has the other), because it must reach every module without a test parameter in
 * production interfaces.
 */
#ifndef BASE_BUG_H
#define BASE_BUG_H

#include <stdbool.h>

enum bug {
	BUG_NONE,
	BUG_REPLY_MISMATCH,   /* rpc delivers a reply to the wrong call */
	BUG_UNSURE_DELETE,    /* a client deletes a chunk whose put is in doubt */
	BUG_ACK_BELOW_QUORUM, /* an append is acknowledged when one replica has it */
	/* a client that becomes the writer of a log does not fence the old writer */
	BUG_FENCE_FORGOTTEN,
	BUG_WRONG_PARITY,      /* a parity chunk is changed after it was verified */
	BUG_SEAL_IGNORED,      /* a sealed file is opened for append */
	BUG_REPLAY_TWICE,      /* a rename that is sent twice is executed twice */
	BUG_COLLECT_SHARED,    /* the collector deletes a block that another file still owns */
	BUG_QUOTA_LEAK,        /* deleting a file does not reduce the tenant's usage */
	BUG_QUOTA_IGNORED,     /* bytes are charged to a tenant beyond its quota */
	BUG_DIR_QUOTA_IGNORED, /* names are stored beyond the quota of a directory */
	BUG_MOVE_UNPAID,       /* a move into a directory with a quota is not charged */
	/* the metadata index of a disk does not get the entry of a chunk that was moved there */
	BUG_INDEX_FORGOTTEN,
	BUG_REPORT_LOST,        /* a report of a damaged chunk is dropped */
	BUG_SYNC_SKIPPED,       /* a store acknowledges before fdatasync */
	BUG_SYNC_ERROR_IGNORED, /* a store acknowledges after a failed fdatasync */
	BUG_ROT_BELIEVED,       /* a store does not compare checksums on reads */
	BUG_SCRUB_BLIND,        /* a scrub of a store reports no damage */
	BUG_DELETE_IGNORED,     /* a node acknowledges a delete without deleting */
	/* a repair deletes the old chunk before the record names the new one */
	BUG_DELETE_FIRST,
	/* the sweep deletes an orphan when it first sees it, without the waiting time */
	BUG_ORPHAN_AT_ONCE,
	BUG_GATE_LEAK,     /* a reconstructed read does not leave the gate */
	BUG_RETRY_AT_ONCE, /* a client reconnects without back-off */
	/* the writer of a log goes on with a block that has lost a replica, and does not seal it */
	BUG_KEEPER_ASLEEP,
	BUG_RACKS_FORGOTTEN, /* the disks of a block are chosen without regard to racks */
	/* repair and rebalance handle every block as if its record named disk media */
	BUG_MEDIA_FORGOTTEN,
	/* metadata servers admit blocks to flash without regard to the category */
	BUG_CATEGORY_UNREAD,
	BUG_REAL_CLOCK,     /* a simulated client waits by the real clock */
	BUG_MAC_PREFIX,     /* only the first bytes of a token's MAC are compared */
	BUG_EXPIRY_IGNORED, /* an expired token is accepted */
	BUG_TENANT_UNBOUND, /* a token opens the objects of every tenant */
	BUG_RANGE_UNBOUND,  /* a token opens more bytes of its object than it names */
	BUG_KEY_SHARED,     /* every node gets the same token key */
	BUG_RENEW_WIDER,    /* a token that is derived may have rights that its parent lacks */
	BUG_PREFIX_TEXT,    /* a grant for /a covers /ab */
	BUG_REFLECTION,     /* both ends of a handshake prove their key with the same bytes */
	BUG_DOWNGRADE,      /* a handshake does not cover the offered versions and mode */
	BUG_TOKEN_SKIPPED,  /* a node serves chunks without looking at the token */
	BUG_BLOCK_UNBOUND,  /* a token opens the chunks of every block of its tenant */
	BUG_BLOCK_SHARED,   /* a grant for one file of a block opens the others */
	BUG_LABEL_KEPT,     /* a node remembers the label of a chunk that was deleted */
	BUG_BORROW_CLASS,   /* traffic on borrowed capacity keeps its class */
	BUG_CLAIM_BELIEVED, /* a cache node serves bytes of a digest to a tenant that only claims it */
	BUG_DIGEST_BELIEVED, /* a cache node files bytes under a claimed digest without computing it */
	BUG_CACHE_SUM,       /* a cache does not compare the bytes that it serves */
	BUG_CACHE_ROTTEN,    /* a cache keeps a rotten segment in its index */
	BUG_CACHE_RANGE, /* a cache node answers with the bytes of another get of the same fetch */
	BUG_CACHE_FETCHES,  /* a cache node does not give back the places of its fetches */
	BUG_CACHE_LEASE,    /* jobs count at a cache node after their lease */
	BUG_CACHE_MISS,     /* a client takes the answer of a dead cache node for bytes */
	BUG_CACHE_PAUSE,    /* a client asks a dead cache node with every read */
	BUG_CACHE_RING,     /* a client keeps its first ring of cache nodes */
	BUG_JOIN_FORGOTTEN, /* the registry does not keep where an epoch of a job begins */
	BUG_MERGE_LOST,     /* of the bitmaps of the ranks of a job only the last one counts */
	BUG_TURN_FORGOTTEN, /* an epoch that does not begin in window 0 goes on behind the last one */
	BUG_COUNT,
};

/* Convert between a bug and its name on command lines ("ack-below-quorum"). bug_from_name
 * returns BUG_COUNT for an unknown name. */
const char *bug_name(enum bug bug);
enum bug bug_from_name(const char *name);

#ifdef TERRANE_PLANTED_BUGS
/* switches the bug on for this process; BUG_NONE switches it off */
void bug_plant(enum bug bug);
bool bug_planted(enum bug bug);
#else
static inline bool bug_planted(enum bug bug)
{
	(void)bug;
	return false;
}
#endif

#endif
