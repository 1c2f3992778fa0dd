// SPDX-License-Identifier: Apache-2.0
/*
 * rt: the one seam to the world.
 *
 * Everything above is straight-line code in fibers. A fiber is a thread of control with its own small
 * stack that gives up the processor only inside a call of this module; it never moves to another
 * thread. Fibers live on a loop. The real world has one loop per thread; a simulated process has the
 * same loops, all in one thread. Data belongs to one loop: fibers of that loop share it without
 * locks, because nothing else runs between two waits. Other loops and threads send messages.
 *
 * The world behind these calls is chosen when the program starts (rt/real.h or rt/sim.h).
 *
 * Waits. A call that may park the fiber says "waits". Unless it says otherwise, a wait ends early
 *   -ECANCELED  when the fiber was cancelled (rt_cancel) and is not shielded;
 *   -ETIME      when the fiber's deadline passed.
 * Both are sticky: later waits fail the same way at once, until the deadline is moved or the
 * cancellation is shielded. Waits that must not be left half-way (files, join, offload) are marked
 * "runs to its end": they refuse to start when cancelled or late, but are not cut short.
 *
 * When a simulated process crashes, every wait of it ends with -ECANCELED without any effect, shield
 * or not, and its fibers run off their ends; nothing they do then reaches a disk or a peer.
 */
#ifndef RT_RT_H
#define RT_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct rt_fiber;
struct rt_loop;

#define RT_NEVER UINT64_MAX

/* --- time, randomness ------------------------------------------------------------------------ */

/*
 * Monotonic nanoseconds of this machine, for deadlines and durations. The clock starts at any value above 0
 * when the machine boots, so a time minus a duration may be below zero: rt_ago_ns and rt_elapsed_ns
 * compute such differences without wrapping. 0 can stand for "never".
 */
uint64_t rt_now_ns(void);

/* Returns the time that was duration_ns ago; 0 when the clock had not started then. */
uint64_t rt_ago_ns(uint64_t duration_ns);

/* Returns how long ago then_ns was; 0 when it has not come yet. */
uint64_t rt_elapsed_ns(uint64_t then_ns);

/* Nanoseconds since 1970 as this machine believes: may be wrong, may jump, never for ordering. */
uint64_t rt_wall_ns(void);

uint64_t rt_random_u64(void);

/* --- fibers ---------------------------------------------------------------------------------- */

/*
 * Start fn(arg) as a fiber of the calling fiber's loop; it runs after the caller's next wait. With
 * out it must be joined exactly once; with NULL it is detached. The name is for people, not copied.
 * The child has the caller's deadline, but not its cancellation. -EAGAIN: too many fibers; -ENOMEM.
 */
int rt_spawn(struct rt_fiber **out, const char *name, void (*fn)(void *), void *arg);

/*
 * Wait for the fiber to end and release it. Always joins: a deadline does not end it, and when the
 * caller is cancelled meanwhile (or is already), the cancellation is handed on to the fiber.
 */
void rt_join(struct rt_fiber *f);

/* Ask a fiber of this loop to end: its present or next wait returns -ECANCELED. */
void rt_cancel(struct rt_fiber *f);

struct rt_fiber *rt_self(void);
bool rt_cancelled(void);

/* Between enter and leave (they nest) cancellation and deadline do not end waits: for cleaning up. */
void rt_shield_enter(void);
void rt_shield_leave(void);

/* Let other fibers run, always; -ECANCELED afterwards in a crashed simulated process, else 0. */
int rt_yield(void);

/* Waits. 0 when the time came. */
int rt_sleep_ns(uint64_t duration_ns);

/* Narrow the deadline to abs_ns if that is earlier; returns the previous one for rt_deadline_set. */
uint64_t rt_deadline_narrow(uint64_t abs_ns);
void rt_deadline_set(uint64_t abs_ns);
uint64_t rt_deadline(void);

/* --- a group of fibers that end together ----------------------------------------------------- */

struct rt_group {
	struct list members;
	struct rt_fiber *waiter;
};

void rt_group_init(struct rt_group *g);
int rt_group_spawn(struct rt_group *g, const char *name, void (*fn)(void *), void *arg);
void rt_group_cancel(struct rt_group *g);
/* Like rt_join for all members; the group is empty afterwards and may be used again. */
void rt_group_join(struct rt_group *g);

/* --- other loops, other threads -------------------------------------------------------------- */

struct rt_loop *rt_loop_self(void);

/* Returns whether the caller runs on the loop, inside a fiber or not. For assertions of ownership. */
bool rt_on_loop(const struct rt_loop *loop);

/*
 * Start another loop of this process (a thread in the real world), and end it: its fibers are
 * cancelled and awaited. Give it work by rt_post. Both wait and run to their end.
 */
int rt_loop_open(struct rt_loop **out, const char *name);
void rt_loop_close(struct rt_loop *loop);

/* A message to a loop: fn(msg) is called there, outside any fiber; it must not wait (it may spawn). */
struct rt_msg {
	struct rt_msg *next;
	void (*fn)(struct rt_msg *msg);
};

/* From any thread. The sender owns msg's memory, the loop from now until fn is called. */
void rt_post(struct rt_loop *loop, struct rt_msg *msg);

/*
 * Run fn(arg) on a thread of the offload pool and wait: for libraries that block. Runs to its end.
 * fn must not call rt.
 */
int rt_offload(void (*fn)(void *), void *arg);

/* --- the process ----------------------------------------------------------------------------- */

/* Waits, on the process's first loop, until it is asked to stop: SIGTERM, SIGINT, or sim_node_stop. */
int rt_shutdown_wait(void);

/* A line for the simulator's trace of the run; nothing in the real world. */
void rt_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
