// SPDX-License-Identifier: Apache-2.0
/*
 * A call lives on the stack of the calling fiber. Invariants:
 *
 *  1. The caller's fiber does not continue while a message of the call is under way, or its fiber runs. In a crashed
 *     process messages do not arrive any more, and only the running fiber counts.
 *  2. After the fiber of the call has posted `done`, it does not touch the call.
 *  3. Messages to one loop arrive in the order in which they were sent, so `cancel` arrives after `start`, and the
 *     acknowledgement of `cancel` may arrive before or after `done`.
 *
 * In a crashed process (only simulated ones crash so, and all their loops are in one thread) the fiber of the call
 * wakes the caller directly.
 */
#include "rt/call.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/base.h"
#include "rt/core.h"

struct call {
	struct rt_msg start;
	struct rt_msg done;
	struct rt_msg cancel; /* to the port's loop, and back as acknowledgement */
	struct rt_port *port;
	const char *name;
	void (*fn)(void *);
	void *arg;
	struct rt_fiber *caller;
	const struct context *context; /* borrowed from the caller */
	uint64_t deadline_ns;
	bool shielded;

	/* The port's loop: */
	struct rt_fiber *worker; /* fiber that runs fn; NULL before and after */

	/* The caller's loop: */
	bool ended; /* `done` has arrived */
	bool cancel_sent;
	bool cancel_back;

	int rc; /* error that kept fn from running; set before `done` is posted */
};

void rt_port_init(struct rt_port *p, struct rt_loop *loop)
{
	assert(loop != NULL);
	*p = (struct rt_port){.loop = loop};
	rt_group_init(&p->running);
}

void rt_port_close(struct rt_port *p)
{
	assert(rt_on_loop(p->loop));
	p->closed = true;
	rt_group_join(&p->running);
}

/* --- the caller's loop ------------------------------------------------------------------------ */

/* Wakes the caller once the call has ended and no message of it is under way. */
static void call_settle(struct call *c)
{
	assert(rt_on_loop(c->caller->loop));
	if (c->ended && c->cancel_sent == c->cancel_back)
		fiber_wake(c->caller, 0);
}

static void call_done(struct rt_msg *m)
{
	struct call *c = container_of(m, struct call, done);
	assert(!c->ended);
	c->ended = true;
	call_settle(c);
}

static void call_cancel_back(struct rt_msg *m)
{
	struct call *c = container_of(m, struct call, cancel);
	assert(c->cancel_sent && !c->cancel_back);
	c->cancel_back = true;
	call_settle(c);
}

/* --- the port's loop -------------------------------------------------------------------------- */

static void call_cancel(struct rt_msg *m)
{
	struct call *c = container_of(m, struct call, cancel);
	assert(rt_on_loop(c->port->loop));
	if (c->worker != NULL)
		rt_cancel(c->worker);
	c->cancel.fn = call_cancel_back;
	rt_post(c->caller->loop, &c->cancel);
}

static void call_main(void *arg)
{
	struct call *c = arg;
	assert(rt_on_loop(c->port->loop) && rt_self() == c->worker);
	rt_deadline_set(c->deadline_ns);
	rt_context_set(c->context);
	if (c->shielded)
		rt_shield_enter();
	c->fn(c->arg);
	if (c->shielded)
		rt_shield_leave();
	c->worker = NULL;
	if (c->port->loop->dead) {
		if (c->caller->parked)
			fiber_wake(c->caller, 0);
		return;
	}
	rt_post(c->caller->loop, &c->done);
}

static void call_start(struct rt_msg *m)
{
	struct call *c = container_of(m, struct call, start);
	struct rt_port *p = c->port;
	assert(rt_on_loop(p->loop) && c->worker == NULL);
	c->rc = p->closed ? -ESHUTDOWN : rt_group_spawn(&p->running, c->name, call_main, c);
	if (c->rc == 0)
		c->worker = list_entry(p->running.members.prev, struct rt_fiber, group_link);
	else
		rt_post(c->caller->loop, &c->done);
}

/* --- the call --------------------------------------------------------------------------------- */

static void call_abort(struct rt_fiber *caller)
{
	struct call *c = caller->abort_ctx;
	if (caller->loop->dead) {
		if (c->worker == NULL)
			fiber_wake(caller, -ECANCELED);
		else
			caller->reason = 0; /* call_main wakes the caller */
		return;
	}
	if (!c->cancel_sent) {
		c->cancel_sent = true;
		rt_post(c->port->loop, &c->cancel);
	}
	/* The caller stays parked until the call has ended. */
	caller->reason = 0;
}

int rt_call(struct rt_port *p, const char *name, void (*fn)(void *), void *arg)
{
	struct rt_fiber *self = rt_self();
	int rc = fiber_check();
	if (rc != 0)
		return rc;
	struct call c = {
		.start = {.fn = call_start},
		.done = {.fn = call_done},
		.cancel = {.fn = call_cancel},
		.port = p,
		.name = name,
		.fn = fn,
		.arg = arg,
		.caller = self,
		.context = self->context,
		.deadline_ns = self->deadline_ns,
		.shielded = self->shield > 0,
		/* Stands until the start message ran: a crash may come before. */
		.rc = -ECANCELED,
	};
	if (rt_on_loop(p->loop))
		call_start(&c.start);
	else
		rt_post(p->loop, &c.start);
	/* The fiber of the call has the deadline. */
	(void)fiber_park_until(RT_NEVER, PARK_INTERRUPTIBLE, call_abort, &c);
	assert(c.worker == NULL);
	return c.rc;
}

/* --- a team ----------------------------------------------------------------------------------- */

int rt_team_open(struct rt_team *t, unsigned count)
{
	*t = (struct rt_team){0};
	if (count == 0 || count > RT_TEAM_MAX)
		return -EINVAL;
	t->ports = calloc(count, sizeof(t->ports[0]));
	if (t->ports == NULL)
		return -ENOMEM;
	rt_port_init(&t->ports[0], rt_loop_self());
	for (t->count = 1; t->count < count; t->count++) {
		struct rt_loop *loop = NULL;
		int rc = rt_loop_open(&loop, "loop");
		if (rc != 0) {
			rt_team_close(t);
			return rc;
		}
		rt_port_init(&t->ports[t->count], loop);
	}
	return 0;
}

void rt_team_close(struct rt_team *t)
{
	for (unsigned i = 1; i < t->count; i++)
		rt_loop_close(t->ports[i].loop);
	free(t->ports);
	*t = (struct rt_team){0};
}
