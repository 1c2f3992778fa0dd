// SPDX-License-Identifier: Apache-2.0
#include "base/bug.h"

#include <string.h>

#include "base/base.h"

static const char *const bug_names[BUG_COUNT] = {
	[BUG_NONE] = "none",
	[BUG_ACK_BEFORE_SYNC] = "ack-before-sync",
	[BUG_REPLY_MISMATCH] = "reply-mismatch",
};

const char *bug_name(enum bug bug)
{
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
	bug_active = bug;
}

bool bug_planted(enum bug bug)
{
	return bug_active == bug;
}
#endif
