// SPDX-License-Identifier: Apache-2.0
/* Starting the processes of a box, and waiting until they serve. */
#ifndef BOX_START_H
#define BOX_START_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "box/box.h"

/* The processes that one `terrane up` started, and those that it found running. */
struct box_started {
	bool together; /* all roles are in one process */
	pid_t pid;     /* pid of the process of all roles, else of the process started last */
	size_t count;  /* processes started; 0: all were running */
	/* role i was running; with `together`, entry 0 is for the process of all roles */
	bool found[BOX_NODES_MAX + BOX_CACHE_NODES_MAX + 2];
};

/* Starts the roles that do not run. procs: each role gets a process of its own, if no process of the box runs yet.
 * After an error err has the reason. */
int box_start(const struct box *b, bool procs, struct box_started *out, struct strbuf *err);
/* Waits until every node that was not removed is online or draining in the map and answered a request. Starts a process
 * that was found running and ended. Errors, with the reason in err: -ECHILD: a started process ended; -ETIMEDOUT. */
int box_wait(const struct box *b, struct box_started *started, struct strbuf *err);

#endif
