// SPDX-License-Identifier: Apache-2.0
/*
 * Calls between the loops of a process, and the team of loops that serves one role.
 *
 * A port is where one part of a role accepts calls: a loop and the fibers that execute calls there. rt_call runs a
 * function in a fiber of the port's loop and waits for its end, like a blocking call:
 *
 *     loop 0                                     loop 2
 *     rt_call(port, "get", fn, arg)
 *       -> message "start" --------------------> spawns a fiber, which runs fn(arg)
 *       (cancelled: message "cancel" ----------> cancels that fiber)
 *       <- message "done" ---------------------- fn has returned
 *     returns 0
 *
 * The function owns arg until it returns: the caller's fiber does not touch arg meanwhile, so that arg may hold
 * anything that one fiber may use, buffers included. Nothing is copied.
 *
 * The life of a part. One fiber on each loop opens the part, serves and closes the part, because only fibers of the
 * loop may free what belongs to the loop, also in a crashed process. rt_call starts that fiber, and its end ends the
 * call; a cancelled caller cancels it. rt_port_close is the step after which no call of another loop uses the part.
 */
#ifndef RT_CALL_H
#define RT_CALL_H

#include <stdbool.h>

#include "rt/rt.h"

struct rt_port {
	struct rt_loop *loop;
	struct rt_group running; /* fibers of the calls that run; only for the loop */
	bool closed;             /* new calls fail; only for the loop */
};

/* Initializes a port of a loop. Its memory must outlive the calls. */
void rt_port_init(struct rt_port *p, struct rt_loop *loop);

/* Refuses further calls, and joins those that run (rt_group_join). On the loop of the port. */
void rt_port_close(struct rt_port *p);

/*
 * Runs fn(arg) in a fiber of the port's loop, and waits until fn has returned. The fiber has the caller's deadline,
 * context and shield. A cancelled caller cancels it, and waits on. The caller may be on the loop of the port.
 *
 * Returns 0 if fn was run. After an error fn was not and will not be run: -ECANCELED, -ETIME: the caller is
 * cancelled or late; -ESHUTDOWN: the port is closed; -EAGAIN: too many fibers; -ENOMEM.
 */
int rt_call(struct rt_port *p, const char *name, void (*fn)(void *), void *arg);

/* --- a team of loops -------------------------------------------------------------------------- */

#define RT_TEAM_MAX 256

/* The loops of a process that its roles share. ports[0] is on the loop that opened the team. */
struct rt_team {
	unsigned count;
	struct rt_port *ports;
};

/* Opens a team of `count` loops: the calling one and count - 1 new ones (rt_loop_open). After an error none of the
 * new loops is left. -EINVAL: count is 0 or above RT_TEAM_MAX. */
int rt_team_open(struct rt_team *t, unsigned count);
/* Closes the loops that rt_team_open opened. No call may run. */
void rt_team_close(struct rt_team *t);

#endif
