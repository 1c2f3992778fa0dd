// SPDX-License-Identifier: Apache-2.0
/*
 * Planted bugs: known-wrong branches that tests switch on to prove that the simulator finds such
 * bugs. They exist only in builds with -Dplanted_bugs=true; elsewhere bug_planted() is the constant
 * false and the branches vanish. The switch is one of the two mutable globals of the tree (the other is the logger's), because it must
 * reach any module without threading a test parameter through production interfaces.
 */
#ifndef BASE_BUG_H
#define BASE_BUG_H

#include <stdbool.h>

enum bug {
	BUG_NONE,
	BUG_REPLY_MISMATCH,     /* rpc hands a reply to the wrong waiting call */
	BUG_UNSURE_DELETE,      /* a client deletes a chunk whose put was not answered */
	BUG_ACK_BELOW_QUORUM,   /* an append is acknowledged when one copy has it */
	BUG_FENCE_FORGOTTEN,    /* who takes over a log does not fence its writer */
	BUG_WRONG_PARITY,       /* a parity is changed after it was verified */
	BUG_SEAL_IGNORED,       /* a sealed file is opened for append */
	BUG_REPLAY_TWICE,       /* a rename that comes twice is done twice */
	BUG_COLLECT_SHARED,     /* a block is collected that another file still has */
	BUG_QUOTA_LEAK,         /* deleted bytes are not given back */
	BUG_QUOTA_IGNORED,      /* bytes are charged to a tenant that has no room for them */
	BUG_INDEX_FORGOTTEN,    /* a chunk that moves is not in the index of its disk */
	BUG_REPORT_LOST,        /* a report of a damaged chunk is dropped */
	BUG_SYNC_SKIPPED,       /* a store acknowledges before fdatasync */
	BUG_SYNC_ERROR_IGNORED, /* a store acknowledges after a failed fdatasync */
	BUG_ROT_BELIEVED,       /* a store does not compare checksums when it reads */
	BUG_SCRUB_BLIND,        /* a store finds nothing when it verifies */
	BUG_DELETE_IGNORED,     /* a node says that it has deleted, and has not */
	BUG_DELETE_FIRST,    /* a repair deletes the old chunk before the record has the new one */
	BUG_ORPHAN_AT_ONCE,  /* a chunk that no record wants is deleted at first sight */
	BUG_GATE_LEAK,       /* a reconstructed read does not give back its memory */
	BUG_RETRY_AT_ONCE,   /* who cannot connect tries again without a pause */
	BUG_KEEPER_ASLEEP,   /* a log does not end a block that lacks a copy */
	BUG_RACKS_FORGOTTEN, /* chunks of a block go to any disks, whichever rack they are in */
	BUG_MEDIA_FORGOTTEN, /* repair and rebalance take any block for one of disk */
	BUG_REAL_CLOCK,      /* a client of the simulation waits by the real clock */
	BUG_COUNT,
};

/* The name used on command lines ("ack-before-sync"), and back; BUG_COUNT for an unknown name. */
const char *bug_name(enum bug bug);
enum bug bug_from_name(const char *name);

#ifdef TERRANE_PLANTED_BUGS
void bug_plant(enum bug bug); /* BUG_NONE removes it */
bool bug_planted(enum bug bug);
#else
static inline bool bug_planted(enum bug bug)
{
	(void)bug;
	return false;
}
#endif

#endif
