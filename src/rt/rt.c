// SPDX-License-Identifier: Apache-2.0
/* The calls of fibers, on top of the scheduler (sched.c) and the world of the calling loop. */
#include "rt/rt.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "rt/core.h"

int rt_spawn(struct rt_fiber **out, const char *name, void (*fn)(void *), void *arg)
{
	return loop_spawn(rt_loop_self(), out, name, fn, arg);
}

/* --- time ------------------------------------------------------------------------------------ */

uint64_t rt_ago_ns(uint64_t duration_ns)
{
	uint64_t now_ns = rt_now_ns();
	return now_ns - min_u64(duration_ns, now_ns);
}

uint64_t rt_elapsed_ns(uint64_t then_ns)
{
	uint64_t now_ns = rt_now_ns();
	return now_ns - min_u64(then_ns, now_ns);
}

/* --- cancellation, time ---------------------------------------------------------------------- */

bool rt_cancelled(void)
{
	return rt_self()->cancelled;
}

void rt_shield_enter(void)
{
	rt_self()->shield++;
}

void rt_shield_leave(void)
{
	assert(rt_self()->shield > 0);
	rt_self()->shield--;
}

static void fiber_abort_wake(struct rt_fiber *f)
{
	fiber_wake(f, -ECANCELED);
}

int rt_sleep_ns(uint64_t duration_ns)
{
	int rc = fiber_check();
	if (rc != 0)
		return rc;
	struct rt_fiber *f = rt_self();
	uint64_t now = rt_now_ns();
	uint64_t until = duration_ns > RT_NEVER - now ? RT_NEVER : now + duration_ns;
	uint64_t deadline = f->shield == 0 ? f->deadline_ns : RT_NEVER;
	rc = (int)fiber_park_until(min_u64(until, deadline), PARK_INTERRUPTIBLE, fiber_abort_wake,
				   NULL);
	return rc == -ETIME && until <= deadline ? 0 : rc;
}

uint64_t rt_deadline(void)
{
	return rt_self()->deadline_ns;
}

void rt_deadline_set(uint64_t abs_ns)
{
	rt_self()->deadline_ns = abs_ns;
}

uint64_t rt_deadline_narrow(uint64_t abs_ns)
{
	uint64_t before = rt_self()->deadline_ns;
	rt_self()->deadline_ns = min_u64(before, abs_ns);
	return before;
}

/* --- the context ------------------------------------------------------------------------------ */

const struct context *rt_context(void)
{
	const struct rt_fiber *f = rt_self();
	return f != NULL ? f->context : context_empty();
}

const struct context *rt_context_enter(const struct context *c)
{
	struct rt_fiber *f = rt_self();
	const struct context *before = f->context;
	f->context = context_ref(c != NULL ? c : context_empty());
	return before;
}

void rt_context_leave(const struct context *before)
{
	struct rt_fiber *f = rt_self();
	assert(before != NULL);
	context_unref(f->context);
	f->context = before;
}

void rt_context_set(const struct context *c)
{
	context_unref(rt_context_enter(c));
}

void rt_background(void)
{
	rt_context_set(NULL);
	rt_deadline_set(RT_NEVER);
}

/* --- joining: a cancelled waiter cancels the fibers that it joins ---------------------------------------- */

static void join_abort(struct rt_fiber *waiter)
{
	rt_cancel(waiter->abort_ctx);
	/* the waiter stays parked until the cancelled fiber ends and wakes it */
	waiter->reason = 0;
}

void rt_join(struct rt_fiber *f)
{
	struct rt_fiber *self = rt_self();
	assert(!f->detached && f->joiner == NULL && f != self);
	assert(f->loop == self->loop);
	if (!f->finished) {
		if (self->cancelled && self->shield == 0)
			rt_cancel(f);
		f->joiner = self;
		uint64_t deadline = rt_deadline();
		rt_deadline_set(RT_NEVER);
		fiber_park(PARK_INTERRUPTIBLE, join_abort, f);
		rt_deadline_set(deadline);
	}
	fiber_release(f);
}

void rt_group_init(struct rt_group *g)
{
	list_init(&g->members);
	g->waiter = NULL;
}

int rt_group_spawn(struct rt_group *g, const char *name, void (*fn)(void *), void *arg)
{
	struct rt_fiber *f;
	int rc = loop_spawn(rt_loop_self(), &f, name, fn, arg);
	if (rc != 0)
		return rc;
	f->detached = true;
	f->group = g;
	list_push_back(&g->members, &f->group_link);
	return 0;
}

void rt_group_cancel(struct rt_group *g)
{
	struct rt_fiber *f;
	list_for_each_entry(f, &g->members, group_link)
		rt_cancel(f);
}

static void group_join_abort(struct rt_fiber *waiter)
{
	rt_group_cancel(waiter->abort_ctx);
	waiter->reason = 0;
}

void rt_group_join(struct rt_group *g)
{
	struct rt_fiber *self = rt_self();
	assert(g->waiter == NULL); /* one fiber joins a group at a time */
	if (list_empty(&g->members))
		return;
	if (self->cancelled && self->shield == 0)
		rt_group_cancel(g);
	g->waiter = self;
	uint64_t deadline = rt_deadline();
	rt_deadline_set(RT_NEVER);
	fiber_park(PARK_INTERRUPTIBLE, group_join_abort, g);
	rt_deadline_set(deadline);
	assert(list_empty(&g->members));
}

/* --- the world ------------------------------------------------------------------------------- */

uint64_t rt_now_ns(void)
{
	return rt_loop_self()->world->now_ns(rt_loop_self());
}

uint64_t rt_wall_ns(void)
{
	return rt_loop_self()->world->wall_ns(rt_loop_self());
}

uint64_t rt_random_u64(void)
{
	return rng_u64(&rt_loop_self()->rng);
}

void rt_random_secret(void *out, size_t len)
{
	struct rt_loop *l = rt_loop_self();
	assert(out != NULL && len > 0);
	if (l->world->random_secret != NULL) {
		l->world->random_secret(out, len);
		return;
	}
	for (size_t at = 0; at < len;) {
		uint64_t word = rng_u64(&l->rng);
		size_t n = min_u64(len - at, sizeof(word));
		memcpy((uint8_t *)out + at, &word, n);
		at += n;
	}
}

int rt_loop_open(struct rt_loop **out, const char *name)
{
	int rc = fiber_check();
	return rc != 0 ? rc : rt_loop_self()->world->loop_open(rt_loop_self(), out, name);
}

void rt_loop_close(struct rt_loop *loop)
{
	assert(rt_self() != NULL && !rt_on_loop(loop)); /* a loop cannot wait for its own end */
	rt_loop_self()->world->loop_close(rt_loop_self(), loop);
}

void rt_post(struct rt_loop *loop, struct rt_msg *msg)
{
	assert(loop != NULL && msg->fn != NULL);
	loop->world->post(loop, msg);
}

int rt_offload(void (*fn)(void *), void *arg)
{
	int rc = fiber_check();
	return rc != 0 ? rc : rt_loop_self()->world->offload(rt_loop_self(), fn, arg);
}

int rt_shutdown_wait(void)
{
	int rc = fiber_check();
	if (rc != 0 || rt_loop_self()->stop_asked)
		return rc;
	list_push_back(&rt_loop_self()->stop_waiters, &rt_self()->wait_link);
	return (int)fiber_park(PARK_INTERRUPTIBLE, fiber_abort_unlink, NULL);
}

int rt_hangup_wait(void)
{
	int rc = fiber_check();
	if (rc != 0)
		return rc;
	list_push_back(&rt_loop_self()->hangup_waiters, &rt_self()->wait_link);
	return (int)fiber_park(PARK_INTERRUPTIBLE, fiber_abort_unlink, NULL);
}

void rt_note(const char *fmt, ...)
{
	if (rt_loop_self()->world->note == NULL)
		return;
	va_list args;
	va_start(args, fmt);
	rt_loop_self()->world->note(rt_loop_self(), fmt, args);
	va_end(args);
}
