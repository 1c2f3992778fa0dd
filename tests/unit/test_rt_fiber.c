// SPDX-License-Identifier: Apache-2.0
/* Fibers, groups, mutex, condition, channel, messages, offload; every test runs in both worlds. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "check.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "rt/sync.h"
#include "sim_test.h"

static void in_both_worlds(void (*body)(void *))
{
	CHECK_EQ(rt_real_run(NULL, body, NULL), 0);
	sim_test_run_with(&(struct sim_test){.seeds = 20}, body, NULL);
}

/* --- spawn, join, cancel --------------------------------------------------------------------- */

static void add_one(void *arg)
{
	rt_yield();
	++*(int *)arg;
}

static void spawn_and_join(void *arg)
{
	(void)arg;
	int count = 0;
	struct rt_fiber *f[100];
	for (size_t i = 0; i < ARRAY_LEN(f); i++)
		CHECK_EQ(rt_spawn(&f[i], "add", add_one, &count), 0);
	CHECK_EQ(count, 0);
	for (size_t i = 0; i < ARRAY_LEN(f); i++)
		rt_join(f[i]);
	CHECK_EQ(count, 100);
}

static void joined_fibers_have_ended(void **state)
{
	(void)state;
	in_both_worlds(spawn_and_join);
}

static void sleep_long(void *arg)
{
	*(int *)arg = rt_sleep_ns(3600 * NS_PER_S);
}

static void cancel_sleeper(void *arg)
{
	(void)arg;
	int rc = 1;
	struct rt_fiber *f;
	CHECK_EQ(rt_spawn(&f, "sleep", sleep_long, &rc), 0);
	rt_yield();
	rt_yield();
	rt_cancel(f);
	rt_join(f);
	CHECK_EQ(rc, -ECANCELED);
}

static void cancel_ends_a_wait(void **state)
{
	(void)state;
	in_both_worlds(cancel_sleeper);
}

static void cancelled_before_it_runs(void *arg)
{
	(void)arg;
	int rc = 1;
	struct rt_fiber *f;
	CHECK_EQ(rt_spawn(&f, "sleep", sleep_long, &rc), 0);
	rt_cancel(f);
	rt_join(f);
	CHECK_EQ(rc, -ECANCELED);
}

static void cancel_before_the_first_wait_is_kept(void **state)
{
	(void)state;
	in_both_worlds(cancelled_before_it_runs);
}

static void join_a_sleeper(void *arg)
{
	struct rt_fiber *f;
	CHECK_EQ(rt_spawn(&f, "sleep", sleep_long, arg), 0);
	rt_join(f);
}

static void cancel_joiner(void *arg)
{
	(void)arg;
	int rc = 1;
	struct rt_fiber *f;
	CHECK_EQ(rt_spawn(&f, "join", join_a_sleeper, &rc), 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	rt_cancel(f);
	rt_join(f);
	CHECK_EQ(rc, -ECANCELED);
}

static void a_cancelled_joiner_cancels_the_fiber_it_joins(void **state)
{
	(void)state;
	in_both_worlds(cancel_joiner);
}

static void shielded(void *arg)
{
	int *rc = arg;
	rt_shield_enter();
	rc[0] = rt_sleep_ns(5 * NS_PER_MS);
	rt_shield_leave();
	rc[1] = rt_sleep_ns(1);
}

static void cancel_shielded(void *arg)
{
	(void)arg;
	int rc[2] = {1, 1};
	struct rt_fiber *f;
	CHECK_EQ(rt_spawn(&f, "shielded", shielded, rc), 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	rt_cancel(f);
	rt_join(f);
	CHECK_EQ(rc[0], 0);
	CHECK_EQ(rc[1], -ECANCELED);
}

static void shield_defers_cancellation(void **state)
{
	(void)state;
	in_both_worlds(cancel_shielded);
}

static void use_group(void *arg)
{
	(void)arg;
	struct rt_group g;
	rt_group_init(&g);
	int count = 0;
	int rc[3] = {1, 1, 1};
	rt_group_join(&g);
	for (int i = 0; i < 50; i++)
		CHECK_EQ(rt_group_spawn(&g, "add", add_one, &count), 0);
	rt_group_join(&g);
	CHECK_EQ(count, 50);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(rt_group_spawn(&g, "sleep", sleep_long, &rc[i]), 0);
	rt_yield();
	rt_group_cancel(&g);
	rt_group_join(&g);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(rc[i], -ECANCELED);
}

static void join_a_group_of_sleepers(void *arg)
{
	int *rc = arg;
	struct rt_group g;
	rt_group_init(&g);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(rt_group_spawn(&g, "sleep", sleep_long, &rc[i]), 0);
	rt_group_join(&g);
}

static void cancel_joiner_of_a_group(void *arg)
{
	(void)arg;
	for (int before = 0; before < 2; before++) {
		int rc[3] = {1, 1, 1};
		struct rt_fiber *f;
		CHECK_EQ(rt_spawn(&f, "join", join_a_group_of_sleepers, rc), 0);
		/* While it waits, and before it has begun to: then it joins as one that is cancelled already. */
		if (!before)
			CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
		uint64_t from_ns = rt_now_ns();
		rt_cancel(f);
		rt_join(f);
		CHECK(rt_now_ns() - from_ns < 1800 * NS_PER_S);
		for (int i = 0; i < 3; i++)
			CHECK_EQ(rc[i], -ECANCELED);
	}
}

static void group_join_hands_cancellation_on(void **state)
{
	(void)state;
	in_both_worlds(cancel_joiner_of_a_group);
}

static void group_joins_and_cancels_all(void **state)
{
	(void)state;
	in_both_worlds(use_group);
}

static void sleep_a_second(void *arg)
{
	*(int *)arg = rt_sleep_ns(NS_PER_S);
}

static void join_group_cancelled(void *arg)
{
	struct rt_group g;
	rt_group_init(&g);
	CHECK(rt_cancelled());
	CHECK_EQ(rt_group_spawn(&g, "sleep", sleep_a_second, arg), 0);
	rt_group_join(&g);
}

static void cancel_before_group_join(void *arg)
{
	(void)arg;
	int rc = 1;
	struct rt_fiber *f;
	CHECK_EQ(rt_spawn(&f, "join", join_group_cancelled, &rc), 0);
	rt_cancel(f);
	rt_join(f);
	CHECK_EQ(rc, -ECANCELED);
}

static void joining_a_group_in_a_cancelled_fiber_cancels_its_members(void **state)
{
	(void)state;
	in_both_worlds(cancel_before_group_join);
}

/* --- deadlines ------------------------------------------------------------------------------- */

static void inherit_deadline(void *arg)
{
	*(uint64_t *)arg = rt_deadline();
}

static void use_deadline(void *arg)
{
	(void)arg;
	uint64_t start = rt_now_ns();
	uint64_t before = rt_deadline_narrow(start + 2 * NS_PER_MS);
	CHECK(before == RT_NEVER);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), -ETIME);
	CHECK(rt_now_ns() >= start + 2 * NS_PER_MS);
	CHECK_EQ(rt_sleep_ns(1), -ETIME);
	uint64_t seen = 0;
	struct rt_fiber *f;
	CHECK_EQ(rt_spawn(&f, "child", inherit_deadline, &seen), 0);
	rt_join(f);
	CHECK(seen == start + 2 * NS_PER_MS);
	CHECK(rt_deadline_narrow(RT_NEVER) == start + 2 * NS_PER_MS);
	rt_deadline_set(before);
	uint64_t t = rt_now_ns();
	CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	CHECK(rt_now_ns() >= t + NS_PER_MS);
}

static void deadline_ends_waits_and_is_inherited(void **state)
{
	(void)state;
	in_both_worlds(use_deadline);
}

static void note_order(void *arg)
{
	uint64_t *slot = arg;
	CHECK_EQ(rt_sleep_ns(*slot * NS_PER_MS), 0);
	*slot = rt_now_ns();
}

/* In simulated time: a machine that stops between two fibers' starts would let the later one sleep longer. */
static void use_timers(void *arg)
{
	(void)arg;
	uint64_t when[20];
	struct rt_group g;
	rt_group_init(&g);
	for (size_t i = 0; i < ARRAY_LEN(when); i++) {
		when[i] = (i * 7) % ARRAY_LEN(when) + 1;
		CHECK_EQ(rt_group_spawn(&g, "timer", note_order, &when[i]), 0);
	}
	rt_group_join(&g);
	for (size_t i = 0; i < ARRAY_LEN(when); i++)
		for (size_t j = 0; j < ARRAY_LEN(when); j++)
			if ((i * 7) % ARRAY_LEN(when) < (j * 7) % ARRAY_LEN(when))
				CHECK(when[i] <= when[j]);
}

static void timers_fire_in_order(void **state)
{
	(void)state;
	sim_test_run_with(&(struct sim_test){.seeds = 20}, use_timers, NULL);
}

/* --- mutex, condition, channel --------------------------------------------------------------- */

struct locked {
	struct rt_mutex mutex;
	int inside;
	int turns;
};

static void take_lock(void *arg)
{
	struct locked *l = arg;
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(rt_mutex_lock(&l->mutex), 0);
		CHECK_EQ(l->inside++, 0);
		CHECK(rt_mutex_held(&l->mutex));
		CHECK_EQ(rt_sleep_ns(NS_PER_US), 0);
		l->inside--;
		l->turns++;
		rt_mutex_unlock(&l->mutex);
	}
}

static void lock_late(void *arg)
{
	struct locked *l = arg;
	rt_deadline_narrow(rt_now_ns() + NS_PER_MS);
	CHECK(!rt_mutex_held(&l->mutex)); /* the parent fiber holds the mutex */
	CHECK_EQ(rt_mutex_lock(&l->mutex), -ETIME);
	CHECK(!rt_mutex_held(&l->mutex));
}

static void use_mutex(void *arg)
{
	(void)arg;
	struct locked l = {0};
	struct rt_group g;
	rt_mutex_init(&l.mutex);
	rt_group_init(&g);
	for (int i = 0; i < 10; i++)
		CHECK_EQ(rt_group_spawn(&g, "lock", take_lock, &l), 0);
	rt_group_join(&g);
	CHECK_EQ(l.turns, 100);
	CHECK_EQ(rt_mutex_lock(&l.mutex), 0);
	CHECK_EQ(rt_group_spawn(&g, "late", lock_late, &l), 0);
	rt_group_join(&g);
	CHECK(rt_mutex_held(&l.mutex));
	rt_mutex_unlock(&l.mutex);
	CHECK(!rt_mutex_held(&l.mutex));
	CHECK(l.mutex.owner == NULL);
}

static void mutex_excludes_and_times_out(void **state)
{
	(void)state;
	in_both_worlds(use_mutex);
}

struct pipe {
	struct rt_chan chan;
	size_t sum;
	size_t got;
};

static void send_numbers(void *arg)
{
	struct pipe *p = arg;
	for (uintptr_t i = 1; i <= 100; i++)
		CHECK_EQ(rt_chan_send(&p->chan, (void *)i), 0);
}

static void receive_numbers(void *arg)
{
	struct pipe *p = arg;
	void *item;
	int rc;
	while ((rc = rt_chan_recv(&p->chan, &item)) == 0) {
		p->sum += (uintptr_t)item;
		p->got++;
		CHECK(p->chan.count <= p->chan.capacity);
	}
	CHECK_EQ(rc, -EPIPE);
}

static void use_channel(void *arg)
{
	(void)arg;
	struct pipe p = {0};
	CHECK_EQ(rt_chan_init(&p.chan, 3), 0);
	struct rt_group senders;
	struct rt_group receivers;
	rt_group_init(&senders);
	rt_group_init(&receivers);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(rt_group_spawn(&senders, "send", send_numbers, &p), 0);
		CHECK_EQ(rt_group_spawn(&receivers, "recv", receive_numbers, &p), 0);
	}
	rt_group_join(&senders);
	rt_chan_close(&p.chan);
	rt_group_join(&receivers);
	CHECK_EQ(p.got, 400);
	CHECK_EQ(p.sum, 4 * 5050);
	CHECK_EQ(rt_chan_send(&p.chan, NULL), -EPIPE);
	rt_chan_fini(&p.chan);
}

static void channel_delivers_each_item_once(void **state)
{
	(void)state;
	in_both_worlds(use_channel);
}

/* --- offload, other loops -------------------------------------------------------------------- */

static void triple(void *arg)
{
	*(int *)arg *= 3;
}

static void use_offload(void *arg)
{
	(void)arg;
	int v = 14;
	CHECK_EQ(rt_offload(triple, &v), 0);
	CHECK_EQ(v, 42);
	rt_deadline_narrow(rt_now_ns());
	CHECK_EQ(rt_offload(triple, &v), -ETIME);
	CHECK_EQ(v, 42);
}

static void offload_runs_once_and_not_late(void **state)
{
	(void)state;
	in_both_worlds(use_offload);
}

struct visit {
	struct rt_msg msg;
	struct rt_loop *home;
	struct rt_cond *back;
	int hops;
	bool done;
};

static void visit_home(struct rt_msg *m)
{
	struct visit *v = container_of(m, struct visit, msg);
	v->done = true;
	rt_cond_signal(v->back);
}

static void visit_there(struct rt_msg *m)
{
	struct visit *v = container_of(m, struct visit, msg);
	v->hops++;
	v->msg.fn = visit_home;
	rt_post(v->home, &v->msg);
}

static void sleep_there(void *arg)
{
	(void)arg;
	CHECK_EQ(rt_sleep_ns(3600 * NS_PER_S), -ECANCELED);
}

static void spawn_there(struct rt_msg *m)
{
	(void)m;
	CHECK_EQ(rt_spawn(NULL, "there", sleep_there, NULL), 0);
}

static void use_loops(void *arg)
{
	(void)arg;
	struct rt_loop *other;
	struct rt_cond back;
	struct visit v[50];
	struct rt_msg spawn = {.fn = spawn_there};
	rt_cond_init(&back);
	CHECK_EQ(rt_loop_open(&other, "other"), 0);
	CHECK(rt_on_loop(rt_loop_self()) && !rt_on_loop(other) && !rt_on_loop(NULL));
	rt_post(other, &spawn);
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		v[i] = (struct visit){
			.msg = {.fn = visit_there}, .home = rt_loop_self(), .back = &back};
		rt_post(other, &v[i].msg);
	}
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		while (!v[i].done)
			CHECK_EQ(rt_cond_wait(&back), 0);
		CHECK_EQ(v[i].hops, 1);
	}
	rt_loop_close(other);
}

static void loops_exchange_messages(void **state)
{
	(void)state;
	in_both_worlds(use_loops);
}

/* --- the context of a request ---------------------------------------------------------------- */

static const struct context *context_of(uint64_t job_id)
{
	const struct context *c;
	CHECK_EQ(context_new(&c, &(struct context){.tags = {.job_id = job_id}}), 0);
	return c;
}

static uint64_t job_now(void)
{
	return rt_context()->tags.job_id;
}

struct seen {
	uint64_t first, after, there;
	struct rt_msg msg;
	struct rt_loop *home;
	struct rt_cond *back;
	const struct context *context;
	bool done;
};

static void see_twice(void *arg)
{
	struct seen *s = arg;
	s->first = job_now();
	CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	s->after = job_now();
}

static void see_as_background(void *arg)
{
	struct seen *s = arg;
	CHECK(rt_deadline() != RT_NEVER);
	rt_background();
	CHECK_EQ(rt_deadline(), RT_NEVER);
	CHECK(rt_context() == context_empty());
	see_twice(s);
}

static void carry(void *arg)
{
	(void)arg;
	struct seen s, behind;
	struct rt_group g;
	struct rt_fiber *f;
	CHECK(rt_context() == context_empty());
	const struct context *one = context_of(1), *two = context_of(2);
	const struct context *before = rt_context_enter(one);
	context_unref(one); /* the reference that the fiber holds keeps the context */
	CHECK_EQ(job_now(), 1);
	(void)rt_deadline_narrow(rt_now_ns() + 60 * NS_PER_S);
	rt_group_init(&g);
	CHECK_EQ(rt_group_spawn(&g, "see", see_twice, &s), 0);
	CHECK_EQ(rt_spawn(&f, "behind", see_as_background, &behind), 0);
	/* A child has the context of when it was spawned. */
	{
		AUTO_RT_CONTEXT const struct context *outer = rt_context_enter(two);
		CHECK_EQ(job_now(), 2);
		CHECK_EQ(rt_sleep_ns(NS_PER_MS / 2), 0);
		CHECK_EQ(job_now(), 2);
		const struct context *inner = rt_context_enter(NULL);
		CHECK(rt_context() == context_empty());
		rt_context_leave(inner);
		CHECK_EQ(job_now(), 2);
	}
	CHECK_EQ(job_now(), 1);
	/* It outlives its spawner's interest in the context. */
	rt_context_leave(before);
	CHECK(rt_context() == context_empty());
	rt_group_join(&g);
	rt_join(f);
	CHECK_EQ(s.first, 1);
	CHECK_EQ(s.after, 1);
	CHECK_EQ(behind.first, 0);
	CHECK_EQ(behind.after, 0);
	rt_context_set(two);
	CHECK_EQ(rt_spawn(&f, "see", see_twice, &s), 0);
	rt_context_set(NULL);
	context_unref(two);
	rt_join(f);
	CHECK_EQ(s.first, 2);
	CHECK_EQ(s.after, 2);
}

static void a_fiber_carries_its_spawners_context(void **state)
{
	(void)state;
	in_both_worlds(carry);
}

static void seen_at_home(struct rt_msg *m)
{
	struct seen *s = container_of(m, struct seen, msg);
	s->done = true;
	rt_cond_signal(s->back);
}

static void see_on_other_loop(void *arg)
{
	struct seen *s = arg;
	s->first = job_now();
	rt_context_set(s->context);
	context_unref(s->context);
	see_twice(&(struct seen){0});
	s->there = job_now();
	s->msg.fn = seen_at_home;
	rt_post(s->home, &s->msg);
}

static void seen_there(struct rt_msg *m)
{
	struct seen *s = container_of(m, struct seen, msg);
	CHECK(rt_context() == context_empty());
	CHECK_EQ(rt_spawn(NULL, "there", see_on_other_loop, s), 0);
}

static void carry_to_another_loop(void *arg)
{
	(void)arg;
	struct rt_loop *other;
	struct rt_cond back;
	rt_cond_init(&back);
	const struct context *c = context_of(5);
	rt_context_set(c);
	CHECK_EQ(rt_loop_open(&other, "other"), 0);
	struct seen s = {.msg = {.fn = seen_there},
			 .home = rt_loop_self(),
			 .back = &back,
			 .context = context_ref(c),
			 .first = 99};
	rt_post(other, &s.msg);
	rt_context_set(NULL);
	context_unref(c);
	while (!s.done)
		CHECK_EQ(rt_cond_wait(&back), 0);
	CHECK_EQ(s.first, 0); /* of nobody's request, until it is told whose */
	CHECK_EQ(s.there, 5);
	rt_loop_close(other);
}

static void a_message_brings_no_context_but_what_it_holds(void **state)
{
	(void)state;
	in_both_worlds(carry_to_another_loop);
}

/* --- bounds and the end ---------------------------------------------------------------------- */

static void sleep_until_cancelled(void *arg)
{
	*(int *)arg += rt_sleep_ns(3600 * NS_PER_S) == -ECANCELED;
}

static int ended;

static void leave_fibers_behind(void *arg)
{
	(void)arg;
	ended = 0;
	for (int i = 0; i < 10; i++)
		CHECK_EQ(rt_spawn(NULL, "left", sleep_until_cancelled, &ended), 0);
}

static void fibers_left_behind_are_cancelled_when_main_returns(void **state)
{
	(void)state;
	in_both_worlds(leave_fibers_behind);
	assert_int_equal(ended, 10);
}

static void spawn_too_many(void *arg)
{
	(void)arg;
	struct rt_group g;
	rt_group_init(&g);
	int n = 0;
	for (int i = 0; i < 7; i++)
		CHECK_EQ(rt_group_spawn(&g, "f", sleep_until_cancelled, &n), 0);
	CHECK_EQ(rt_group_spawn(&g, "f", sleep_until_cancelled, &n), -EAGAIN);
	rt_group_cancel(&g);
	rt_group_join(&g);
	CHECK_EQ(n, 7);
	CHECK_EQ(rt_group_spawn(&g, "f", add_one, &n), 0);
	rt_group_join(&g);
}

static void number_of_fibers_is_bounded(void **state)
{
	(void)state;
	struct rt_real_options o = {.fiber_max = 8};
	assert_int_equal(rt_real_run(&o, spawn_too_many, NULL), 0);
}

static int recurse(int depth)
{
	volatile char frame[512];
	frame[0] = (char)depth;
	return depth > 100000 ? depth : recurse(depth + 1) + frame[0];
}

static void overflow(void *arg)
{
	*(int *)arg = recurse(0);
}

static void stack_overflow_hits_the_guard_page(void **state)
{
	(void)state;
	pid_t pid = fork();
	if (pid == 0) {
		int depth = 0;
		if (freopen("/dev/null", "w", stderr) == NULL)
			_exit(0);
		rt_real_run(NULL, overflow, &depth);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* The child ended by a signal, or with the sanitizer's report of it. */
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(joined_fibers_have_ended),
		cmocka_unit_test(cancel_ends_a_wait),
		cmocka_unit_test(cancel_before_the_first_wait_is_kept),
		cmocka_unit_test(a_cancelled_joiner_cancels_the_fiber_it_joins),
		cmocka_unit_test(shield_defers_cancellation),
		cmocka_unit_test(group_join_hands_cancellation_on),
		cmocka_unit_test(group_joins_and_cancels_all),
		cmocka_unit_test(joining_a_group_in_a_cancelled_fiber_cancels_its_members),
		cmocka_unit_test(deadline_ends_waits_and_is_inherited),
		cmocka_unit_test(timers_fire_in_order),
		cmocka_unit_test(mutex_excludes_and_times_out),
		cmocka_unit_test(channel_delivers_each_item_once),
		cmocka_unit_test(offload_runs_once_and_not_late),
		cmocka_unit_test(loops_exchange_messages),
		cmocka_unit_test(a_fiber_carries_its_spawners_context),
		cmocka_unit_test(a_message_brings_no_context_but_what_it_holds),
		cmocka_unit_test(fibers_left_behind_are_cancelled_when_main_returns),
		cmocka_unit_test(number_of_fibers_is_bounded),
		cmocka_unit_test(stack_overflow_hits_the_guard_page),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
