// SPDX-License-Identifier: Apache-2.0
/* Starting the processes of a box, and waiting until they serve. */
#ifndef BOX_START_H
#define BOX_START_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "box/box.h"

/* What an `up` started and found. */
struct box_started {
	bool together;                 /* all roles are in one process */
	pid_t pid;                     /* of that process, else of the last one started */
	size_t count;                  /* processes started; 0: all were running */
	bool found[BOX_NODES_MAX + 2]; /* role i (together: at 0 the one process) was running */
};

/* Starts the roles that do not run. procs: each as a process, if none runs yet. Errors with words in err. */
int box_start(const struct box *b, bool procs, struct box_started *out, struct strbuf *err);
/* Waits until every node that was not removed is online or draining in the map and answered a request. Starts a process
 * that was found running and ended. Errors with words in err: -ECHILD: a started process ended; -ETIMEDOUT. */
int box_wait(const struct box *b, struct box_started *started, struct strbuf *err);

#endif
