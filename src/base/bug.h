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
	BUG_ACK_BEFORE_SYNC, /* tally acknowledges a write before fdatasync */
	BUG_REPLY_MISMATCH,  /* rpc hands a reply to the wrong waiting call */
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
