// SPDX-License-Identifier: Apache-2.0
/* Starting the processes of a box, and waiting until they serve. */
#ifndef BOX_START_H
#define BOX_START_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "box/box.h"

/* What an `up` has started. */
struct box_started {
	bool together;                 /* all in one process */
	pid_t pid;                     /* of that one */
	size_t count;                  /* processes; 0: all were running */
	bool found[BOX_NODES_MAX + 2]; /* by role, or at 0 that one process: which were running */
};

/* Starts what does not run. procs: each role by itself, when nothing runs yet. Errors with words in err. */
int box_start(const struct box *b, bool procs, struct box_started *out, struct strbuf *err);
/* Waits until every node that was not removed is online or draining in the map and answers. A process of these that was running, and only about to
 * end, is started as well. Errors with words in err: -ECHILD: a process ended, its log is quoted; -ETIMEDOUT. */
int box_wait(const struct box *b, struct box_started *started, struct strbuf *err);

#endif
