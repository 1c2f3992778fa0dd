// SPDX-License-Identifier: Apache-2.0
/*
 * rt: the only module that calls the operating system for time, files, sockets, threads and randomness.
 *
 * All modules above are straight-line code in fibers. A fiber is a thread of control with its own small
 * stack. It gives up the processor only inside a call of this module, and never moves to another thread. A
 * fiber belongs to a loop. The real world has one loop per thread; a simulated process has the same loops, all
 * in one thread. Data belongs to one loop. The fibers of that loop share it without locks, because between two
 * waits of a fiber no other fiber of the loop runs. Other loops and threads send messages.
 *
 * The program chooses the world behind these calls at its start: real (rt/real.h) or simulated (rt/sim.h).
 *
 * Waits. A call that may park the fiber says "waits". Unless it says otherwise, a wait ends early
 *   -ECANCELED  when the fiber was cancelled (rt_cancel) and is not shielded;
 *   -ETIME      when the fiber's deadline passed.
 * Both persist: later waits fail at once with the same error, until the deadline is moved or the fiber is
 * shielded. A wait marked "runs to its end" (files, join, offload) refuses to start in a cancelled or late
 * fiber, but once started it does not end early.
 *
 * When a simulated process crashes, all its waits end with -ECANCELED and without effect, shielded or not, and
 * its fibers continue until they return. Nothing that they do in this time reaches a disk or a peer.
 */
#ifndef RT_RT_H
#define RT_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/context.h"
#include "base/list.h"

struct rt_fiber;
struct rt_loop;

#define RT_NEVER UINT64_MAX

/* --- time, randomness ------------------------------------------------------------------------ */

/*
 * Returns monotonic nanoseconds of this machine, for deadlines and durations. The clock starts at
 * any value above 0 when the machine boots, so a time minus a duration may be below zero: rt_ago_ns
 * and rt_elapsed_ns compute such differences without wrapping. 0 can stand for "never".
 */
uint64_t rt_now_ns(void);

/* Returns the time that was duration_ns ago; 0 when the clock had not started then. */
uint64_t rt_ago_ns(uint64_t duration_ns);

/* Returns how long ago then_ns was, in ns; 0 when then_ns is in the future. */
uint64_t rt_elapsed_ns(uint64_t then_ns);

/*
 * Returns this machine's wall clock in ns since 1970. The clock may be wrong and may jump: never
 * order events by it.
 */
uint64_t rt_wall_ns(void);

uint64_t rt_random_u64(void);

/* Fills out with random bytes that nobody can predict, for keys and nonces. In the simulator they come from the seed. */
void rt_random_secret(void *out, size_t len);

/* --- fibers ---------------------------------------------------------------------------------- */

/*
 * Starts fn(arg) as a fiber of the calling fiber's loop; it first runs after the caller's next wait. If out is
 * not NULL, the caller must join the fiber exactly once; otherwise it is detached. The name is for messages and
 * is not copied. The fiber inherits the caller's deadline and context, not its cancellation. -EAGAIN: too many
 * fibers; -ENOMEM.
 */
int rt_spawn(struct rt_fiber **out, const char *name, void (*fn)(void *), void *arg);

/*
 * Waits until the fiber f has ended, and frees f. The call always joins: neither a deadline nor a
 * cancellation ends the wait. If the caller is cancelled, before or during the wait, rt_join
 * cancels the fiber.
 */
void rt_join(struct rt_fiber *f);

/* Cancels a fiber of this loop: its present or next wait returns -ECANCELED. */
void rt_cancel(struct rt_fiber *f);

struct rt_fiber *rt_self(void);
bool rt_cancelled(void);

/*
 * Shields the fiber until rt_shield_leave: neither cancellation nor deadline ends a wait, so that
 * clean-up can wait. Shields nest.
 */
void rt_shield_enter(void);
void rt_shield_leave(void);

/* Lets other ready fibers run. Returns 0; -ECANCELED in a crashed simulated process. */
int rt_yield(void);

/* Waits for duration_ns. */
int rt_sleep_ns(uint64_t duration_ns);

/*
 * Sets the fiber's deadline to abs_ns if abs_ns is earlier. Returns the previous deadline, for
 * rt_deadline_set.
 */
uint64_t rt_deadline_narrow(uint64_t abs_ns);
void rt_deadline_set(uint64_t abs_ns);
uint64_t rt_deadline(void);

/* --- the context of a request --------------------------------------------------------------- */

/*
 * A fiber carries the context of the request that it works for: rpc sends it with every call, and a store sees the
 * one that came with the request. A spawned fiber carries the context of the fiber that spawned it.
 *
 * Returns the fiber's context; the empty context outside fibers; never NULL. It is borrowed, and
 * valid until the fiber carries another context.
 */
const struct context *rt_context(void);

/*
 * Makes the fiber carry the context c (NULL: the empty context) until rt_context_leave, which takes
 * the previous context that this call returned. Calls nest.
 *
 *     AUTO_RT_CONTEXT const struct context *before = rt_context_enter(item->context);
 */
const struct context *rt_context_enter(const struct context *c);
void rt_context_leave(const struct context *before);

/* A local declared AUTO_RT_CONTEXT is given to rt_context_leave when its scope ends. */
#define AUTO_RT_CONTEXT __attribute__((cleanup(rt_context_auto_leave), unused))

static inline void rt_context_auto_leave(const struct context **slot)
{
	rt_context_leave(*slot);
}

/* Makes the fiber carry the context c (NULL: the empty context) from now on. */
void rt_context_set(const struct context *c);

/*
 * Removes the deadline of the fiber and makes it carry the empty context. A fiber that outlives the
 * request in which it was started, or that serves many requests, calls this first.
 */
void rt_background(void);

/* --- a group of fibers that end together ----------------------------------------------------- */

struct rt_group {
	struct list members;
	struct rt_fiber *waiter;
};

void rt_group_init(struct rt_group *g);
int rt_group_spawn(struct rt_group *g, const char *name, void (*fn)(void *), void *arg);
void rt_group_cancel(struct rt_group *g);
/* Joins all members as rt_join does. Afterwards the group is empty and can be used again. */
void rt_group_join(struct rt_group *g);

/* --- other loops, other threads -------------------------------------------------------------- */

struct rt_loop *rt_loop_self(void);

/* Returns whether the caller runs on the loop, inside a fiber or not. For assertions of ownership. */
bool rt_on_loop(const struct rt_loop *loop);

/*
 * Starts another loop of this process (in the real world a thread). rt_post sends messages to the
 * loop. rt_loop_close cancels its fibers and waits until they have ended. Both calls wait and run
 * to their end.
 */
int rt_loop_open(struct rt_loop **out, const char *name);
void rt_loop_close(struct rt_loop *loop);

/* A message to a loop. The loop calls fn(msg) outside any fiber; fn may spawn fibers and must not wait. */
struct rt_msg {
	struct rt_msg *next;
	void (*fn)(struct rt_msg *msg);
};

/*
 * Sends a message to the loop; may be called on any thread. The loop owns msg until it calls
 * msg->fn.
 */
void rt_post(struct rt_loop *loop, struct rt_msg *msg);

/* How busy a loop is. */
struct rt_load {
	uint64_t up_ns;     /* age of the loop */
	uint64_t busy_ns;   /* time for which it was awake */
	uint64_t long_runs; /* how often a fiber ran for more than 10 ms without a wait */
	uint64_t
		longest_ns; /* longest run of a fiber without a wait in the last one to two minutes */
	char longest_name[32]; /* name of that fiber */
};

/* Returns the load of a loop; zeros in the simulator, where computing takes no time. On any loop of the process. */
void rt_loop_load(struct rt_loop *loop, struct rt_load *out);

/*
 * Runs fn(arg) on a thread of the offload pool and waits until fn returns: for libraries that
 * block. The wait runs to its end. fn must not call functions of rt.
 */
int rt_offload(void (*fn)(void *), void *arg);

/* --- the process ----------------------------------------------------------------------------- */

/*
 * Waits until the process is asked to stop (SIGTERM, SIGINT, sim_node_stop). Only fibers of the
 * first loop may call it.
 */
int rt_shutdown_wait(void);

/*
 * Waits until the process gets SIGHUP, which asks it to load its certificates again. In the real world only with
 * rt_real_options.signals; in the simulator it waits until it is ended. Only fibers of the first loop may call it.
 */
int rt_hangup_wait(void);

/* Adds a line to the simulator's trace; does nothing in the real world. */
void rt_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
