// SPDX-License-Identifier: Apache-2.0
/*
 * Fibers and their scheduler. The comment at the top of core.h describes how a wait works.
 * Invariants:
 *
 *  1. A fiber is in exactly one state: ready (in sched.ready or its loop's held list), running,
 *     parked, or finished. Only the thread of its sched touches it.
 *  2. A parked fiber has one waker, and is woken once: fiber_wake asserts it.
 *  3. The abort function of a wait is called at most once, and never inside the fiber that waits.
 *  4. A fiber's stack is reused only after the scheduler has left it.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "rt/core.h"

#if defined(__SANITIZE_ADDRESS__)
#define RT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RT_ASAN 1
#endif
#endif
#ifdef RT_ASAN
#include <sanitizer/common_interface_defs.h>
#define STACK_SIZE_BYTES (256 * KIB) /* sanitizers make stack frames several times larger */
#else
#define STACK_SIZE_BYTES (64 * KIB)
#endif

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#define FREE_FIBERS_MAX 1024 /* most ended fibers that are kept, with their stacks, for reuse */
/* number of ready fibers among which the simulator draws the next one to run */
#define CHOICE_WINDOW 8
/*
 * waits that a fiber of a crashed process may try; a fiber that tries more is taken to loop
 * endlessly
 */
#define DEAD_CHECKS_MAX 100000

static _Thread_local struct rt_fiber *current_fiber;
static _Thread_local struct rt_loop *current_loop;

/* --- switching ------------------------------------------------------------------------------- */

static void enter_fiber(struct sched *s, struct rt_fiber *f)
{
#ifdef RT_ASAN
	__sanitizer_start_switch_fiber(&s->fake_stack, f->stack.base, f->stack.size_bytes);
#endif
#ifdef __SANITIZE_THREAD__
	s->tsan = __tsan_get_current_fiber();
	__tsan_switch_to_fiber(f->tsan, 0);
#endif
	context_switch(&s->sp, f->sp);
#ifdef RT_ASAN
	__sanitizer_finish_switch_fiber(s->fake_stack, NULL, NULL);
#endif
}

static void leave_fiber(struct rt_fiber *f)
{
	struct sched *s = f->loop->sched;
#ifdef RT_ASAN
	__sanitizer_start_switch_fiber(f->finished ? NULL : &f->fake_stack, s->stack_base,
				       s->stack_size);
#endif
#ifdef __SANITIZE_THREAD__
	__tsan_switch_to_fiber(s->tsan, 0);
#endif
	context_switch(&f->sp, s->sp);
#ifdef RT_ASAN
	__sanitizer_finish_switch_fiber(f->fake_stack, &s->stack_base, &s->stack_size);
#endif
}

static void fiber_main(void)
{
	struct rt_fiber *f = current_fiber;
#ifdef RT_ASAN
	struct sched *s = f->loop->sched;
	__sanitizer_finish_switch_fiber(NULL, &s->stack_base, &s->stack_size);
#endif
	f->fn(f->arg);
	f->finished = true;
	leave_fiber(f);
	assert(!"a finished fiber was run again");
	__builtin_unreachable();
}

/* --- allocation -------------------------------------------------------------------- */

static struct rt_fiber *fiber_new(struct sched *s)
{
	struct list *cached = list_pop_front(&s->free_fibers);
	if (cached != NULL) {
		s->free_count--;
		return list_entry(cached, struct rt_fiber, run_link);
	}
	struct rt_fiber *f = calloc(1, sizeof(*f));
	if (f == NULL)
		return NULL;
	if (stack_map(&f->stack, STACK_SIZE_BYTES) != 0) {
		free(f);
		return NULL;
	}
	return f;
}

static void fiber_free(struct rt_fiber *f)
{
	stack_unmap(&f->stack);
	free(f);
}

void fiber_release(struct rt_fiber *f)
{
	struct sched *s = f->loop->sched;
	assert(f->finished && !f->parked && s->fiber_count > 0);
	assert(list_empty(&f->wait_link) && !heap_contains(&f->timer.node));
	s->fiber_count--;
#ifdef __SANITIZE_THREAD__
	__tsan_destroy_fiber(f->tsan);
#endif
	if (s->free_count >= FREE_FIBERS_MAX) {
		fiber_free(f);
		return;
	}
	s->free_count++;
	list_push_front(&s->free_fibers, &f->run_link);
}

static void make_ready(struct rt_fiber *f)
{
	assert(!f->parked && !f->finished);
	if (f->loop->paused) {
		list_push_back(&f->loop->held, &f->run_link);
		return;
	}
	list_push_back(&f->loop->sched->ready, &f->run_link);
	f->loop->sched->ready_count++;
}

int loop_spawn(struct rt_loop *l, struct rt_fiber **out, const char *name, void (*fn)(void *),
	       void *arg)
{
	struct sched *s = l->sched;
	if (s->fiber_count >= s->fiber_max)
		return -EAGAIN;
	/* Reserve room for a timer of every fiber, so that arming a timer cannot fail. */
	size_t timers = s->timers.count + s->fiber_count + 1;
	if (timers > s->timers.cap && heap_reserve(&s->timers, 2 * timers) != 0)
		return -ENOMEM;
	struct rt_fiber *f = fiber_new(s);
	if (f == NULL)
		return -ENOMEM;
	/*
	 * A new fiber inherits the context of the fiber that spawns it, but only within one loop: a
	 * simulated process that is started from a fiber of another loop begins with the empty
	 * context.
	 */
	const struct rt_fiber *self = current_fiber;
	const struct context *context =
		self != NULL && self->loop == l ? self->context : context_empty();
	struct stack stack = f->stack;
	*f = (struct rt_fiber){
		.stack = stack,
		.sp = stack_prepare(&stack, fiber_main),
		.loop = l,
		.name = name,
		.fn = fn,
		.arg = arg,
		.deadline_ns = current_fiber != NULL ? current_fiber->deadline_ns : RT_NEVER,
		.context = context_ref(context),
		.detached = out == NULL,
		.cancelled = l->ending,
	};
	list_init(&f->wait_link);
	list_init(&f->group_link);
	list_push_back(&l->fibers, &f->loop_link);
#ifdef __SANITIZE_THREAD__
	f->tsan = __tsan_create_fiber(0);
#endif
	s->fiber_count++;
	make_ready(f);
	if (out != NULL)
		*out = f;
	return 0;
}

static void group_remove(struct rt_fiber *f)
{
	struct rt_group *g = f->group;
	assert(!list_empty(&f->group_link));
	assert(g->waiter == NULL || g->waiter->loop == f->loop);
	list_remove(&f->group_link);
	f->group = NULL;
	if (g->waiter != NULL && list_empty(&g->members)) {
		struct rt_fiber *waiter = g->waiter;
		g->waiter = NULL;
		fiber_wake(waiter, 0);
	}
}

static void fiber_ended(struct sched *s, struct rt_fiber *f)
{
	struct rt_loop *l = f->loop;
	list_remove(&f->loop_link);
	context_unref(f->context);
	f->context = NULL;
	if (list_empty(&l->fibers) && l->closer != NULL)
		fiber_wake(l->closer, 0);
	if (f->group != NULL)
		group_remove(f);
	if (f->detached)
		fiber_release(f);
	else if (f->joiner != NULL)
		fiber_wake(f->joiner, 0);
}

/* --- the scheduler --------------------------------------------------------------------------- */

int sched_init(struct sched *s, uint64_t (*clock)(struct sched *), size_t fiber_max)
{
	*s = (struct sched){.clock = clock, .fiber_max = fiber_max};
	list_init(&s->ready);
	list_init(&s->free_fibers);
	heap_init(&s->timers);
	return heap_reserve(&s->timers, 64);
}

void sched_fini(struct sched *s)
{
	assert(s->fiber_count == 0 && s->ready_count == 0);
	struct list *node;
	while ((node = list_pop_front(&s->free_fibers)) != NULL)
		fiber_free(list_entry(node, struct rt_fiber, run_link));
	heap_fini(&s->timers);
}

static struct rt_fiber *sched_pick(struct sched *s)
{
	struct list *node = s->ready.next;
	if (s->choice != NULL) {
		size_t n = s->ready_count < CHOICE_WINDOW ? s->ready_count : CHOICE_WINDOW;
		for (uint64_t skip = n > 1 ? rng_below(s->choice, n) : 0; skip > 0; skip--)
			node = node->next;
	}
	assert(node != &s->ready && s->ready_count > 0);
	list_remove(node);
	s->ready_count--;
	return list_entry(node, struct rt_fiber, run_link);
}

bool sched_run_one(struct sched *s)
{
	if (list_empty(&s->ready))
		return false;
	struct rt_fiber *f = sched_pick(s);
	assert(f->loop->sched == s && !f->parked && !f->finished);
	s->switches++;
	atomic_store_explicit(&s->ran_name, f->name, memory_order_relaxed);
	current_fiber = f;
	current_loop = f->loop;
	enter_fiber(s, f);
	current_fiber = NULL;
	if (f->finished)
		fiber_ended(s, f);
	return true;
}

void sched_timer_arm(struct sched *s, struct timer *t, uint64_t at_ns, void (*fire)(struct timer *))
{
	t->fire = fire;
	int rc = heap_push(&s->timers, &t->node, at_ns);
	assert(rc == 0 && "heap_reserve makes room before a timer can be armed");
	(void)rc;
}

void sched_timer_disarm(struct sched *s, struct timer *t)
{
	if (heap_contains(&t->node))
		heap_remove(&s->timers, &t->node);
}

uint64_t sched_next_ns(const struct sched *s)
{
	const struct heap_node *n = heap_peek(&s->timers);
	return n != NULL ? n->key : RT_NEVER;
}

void sched_fire_due(struct sched *s)
{
	uint64_t now = s->clock(s);
	struct heap_node *n;
	while ((n = heap_peek(&s->timers)) != NULL && n->key <= now) {
		heap_pop(&s->timers);
		struct timer *t = container_of(n, struct timer, node);
		t->fire(t);
	}
}

/* --- loops ----------------------------------------------------------------------------------- */

void loop_init(struct rt_loop *l, const struct rt_world *w, struct sched *s, uint64_t seed)
{
	*l = (struct rt_loop){.world = w, .sched = s};
	list_init(&l->fibers);
	list_init(&l->held);
	list_init(&l->stop_waiters);
	list_init(&l->hangup_waiters);
	rng_init(&l->rng, seed);
}

void loop_enter(struct rt_loop *l)
{
	current_loop = l;
}

void loop_pause(struct rt_loop *l)
{
	l->paused = true;
	struct list *node = l->sched->ready.next;
	while (node != &l->sched->ready) {
		struct rt_fiber *f = list_entry(node, struct rt_fiber, run_link);
		node = node->next;
		if (f->loop != l)
			continue;
		list_remove(&f->run_link);
		l->sched->ready_count--;
		list_push_back(&l->held, &f->run_link);
	}
}

void loop_resume(struct rt_loop *l)
{
	l->paused = false;
	struct list *node;
	while ((node = list_pop_front(&l->held)) != NULL)
		make_ready(list_entry(node, struct rt_fiber, run_link));
}

void fiber_abort(struct rt_fiber *f, int reason)
{
	if (!f->parked || f->abort == NULL || f->reason != 0)
		return;
	assert(reason == -ECANCELED || reason == -ETIME || reason == -EINTR);
	f->reason = reason;
	f->abort(f);
}

void loop_cancel(struct rt_loop *l)
{
	l->ending = true;
	struct rt_fiber *f;
	list_for_each_entry(f, &l->fibers, loop_link)
		rt_cancel(f);
}

/*
 * An abort function may wake fibers of the loop but ends none, so l->fibers does not change during
 * the walk.
 */
void loop_kill(struct rt_loop *l)
{
	l->dead = true;
	l->ending = true;
	loop_resume(l);
	struct rt_fiber *f;
	list_for_each_entry(f, &l->fibers, loop_link) {
		f->cancelled = true;
		fiber_abort(f, -ECANCELED);
	}
}

static void wake_all(struct list *waiters)
{
	struct list *node;
	while ((node = list_pop_front(waiters)) != NULL)
		fiber_wake(list_entry(node, struct rt_fiber, wait_link), 0);
}

void loop_stop(struct rt_loop *l)
{
	l->stop_asked = true;
	wake_all(&l->stop_waiters);
}

void loop_hangup(struct rt_loop *l)
{
	wake_all(&l->hangup_waiters);
}

/* --- waiting --------------------------------------------------------------------------------- */

int fiber_check(void)
{
	struct rt_fiber *f = current_fiber;
	assert(f != NULL); /* code outside a fiber must not wait */
	struct rt_loop *l = f->loop;
	if (l->world->at_wait != NULL)
		l->world->at_wait(l);
	if (l->dead) {
		if (++l->dead_checks > DEAD_CHECKS_MAX) {
			fprintf(stderr, "rt: fiber \"%s\" of a crashed process does not end\n",
				f->name);
			abort();
		}
		return -ECANCELED;
	}
	if (f->shield > 0)
		return 0;
	if (f->cancelled)
		return -ECANCELED;
	if (f->deadline_ns != RT_NEVER && rt_now_ns() >= f->deadline_ns)
		return -ETIME;
	return 0;
}

static void deadline_passed(struct timer *t)
{
	fiber_abort(container_of(t, struct rt_fiber, timer), -ETIME);
}

int64_t fiber_park_until(uint64_t local_ns, enum park_mode mode, void (*abort)(struct rt_fiber *f),
			 void *abort_ctx)
{
	struct rt_fiber *f = current_fiber;
	struct rt_loop *l = f->loop;
	assert(!f->parked && f->loop == current_loop);
	f->abort = abort;
	f->abort_ctx = abort_ctx;
	f->park_mode = mode;
	f->reason = 0;
	f->parked = true;
	if (local_ns != RT_NEVER)
		sched_timer_arm(l->sched, &f->timer, l->world->sched_ns(l, local_ns),
				deadline_passed);
	leave_fiber(f);
	current_fiber = f;
	if (f->result == -ECANCELED && f->reason != 0)
		return f->reason;
	return f->result;
}

int64_t fiber_park(enum park_mode mode, void (*abort)(struct rt_fiber *f), void *abort_ctx)
{
	struct rt_fiber *f = current_fiber;
	bool timed = mode == PARK_INTERRUPTIBLE && f->shield == 0;
	return fiber_park_until(timed ? f->deadline_ns : RT_NEVER, mode, abort, abort_ctx);
}

void fiber_wake(struct rt_fiber *f, int64_t result)
{
	assert(f->parked && list_empty(&f->wait_link));
	f->parked = false;
	f->abort = NULL;
	f->result = result;
	sched_timer_disarm(f->loop->sched, &f->timer);
	make_ready(f);
}

void fiber_abort_unlink(struct rt_fiber *f)
{
	list_remove(&f->wait_link);
	fiber_wake(f, -ECANCELED);
}

/* --- the running fiber ------------------------------------------------------------------------ */

struct rt_fiber *rt_self(void)
{
	return current_fiber;
}

struct rt_loop *rt_loop_self(void)
{
	return current_loop;
}

bool rt_on_loop(const struct rt_loop *loop)
{
	return loop != NULL && loop == current_loop;
}

void rt_cancel(struct rt_fiber *f)
{
	assert(current_loop == NULL || f->loop->sched == current_loop->sched);
	f->cancelled = true;
	if (f->park_mode == PARK_INTERRUPTIBLE && f->shield == 0)
		fiber_abort(f, -ECANCELED);
}

int rt_yield(void)
{
	struct rt_fiber *f = current_fiber;
	make_ready(f);
	leave_fiber(f);
	current_fiber = f;
	return f->loop->dead ? fiber_check() : 0;
}
