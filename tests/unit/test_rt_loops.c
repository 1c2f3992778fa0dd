// SPDX-License-Identifier: Apache-2.0
/* Several loops in one process: calls, budgets, pools and events between them, in both worlds. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/context.h"
#include "check.h"
#include "rt/call.h"
#include "rt/pool.h"
#include "rt/queue.h"
#include "rt/real.h"
#include "rt/real/real.h"
#include "rt/rt.h"
#include "sim_test.h"

#define LOOPS 4

static void in_both_worlds(void (*body)(void *))
{
	CHECK_EQ(rt_real_run(NULL, body, NULL), 0);
	sim_test_run_with(&(struct sim_test){.seeds = 20}, body, NULL);
}

/* --- calls ------------------------------------------------------------------------------------ */

struct look {
	struct rt_port *port;
	bool on_loop;
	uint64_t deadline_ns;
	char tenant[16];
	int rc;
};

static void look_around(void *arg)
{
	struct look *l = arg;
	l->on_loop = rt_on_loop(l->port->loop);
	l->deadline_ns = rt_deadline();
	snprintf(l->tenant, sizeof(l->tenant), "%s", rt_context()->tenant);
	l->rc = rt_sleep_ns(NS_PER_MS);
}

static void use_call(void *arg)
{
	(void)arg;
	struct rt_team t;
	const struct context *c;
	CHECK_EQ(rt_team_open(&t, LOOPS), 0);
	CHECK_EQ(context_new(&c, &(struct context){.tenant = "alice"}), 0);
	rt_context_set(c);
	context_unref(c);
	uint64_t until = rt_now_ns() + 1000 * NS_PER_S;
	rt_deadline_set(until);
	for (unsigned i = 0; i < LOOPS; i++) {
		struct look l = {.port = &t.ports[i], .rc = -1};
		CHECK_EQ(rt_call(l.port, "look", look_around, &l), 0);
		CHECK(l.on_loop && l.deadline_ns == until && l.rc == 0);
		CHECK(strcmp(l.tenant, "alice") == 0);
	}
	rt_deadline_set(RT_NEVER);
	rt_team_close(&t);
}

static void a_call_runs_on_the_loop_of_its_port_with_the_callers_context_and_deadline(void **state)
{
	(void)state;
	in_both_worlds(use_call);
}

static void sleep_long(void *arg)
{
	*(int *)arg = rt_sleep_ns(100000 * NS_PER_S);
}

struct asking {
	struct rt_port *port;
	int rc, slept;
};

static void ask_to_sleep(void *arg)
{
	struct asking *a = arg;
	a->rc = rt_call(a->port, "sleep", sleep_long, &a->slept);
}

static void use_cancel(void *arg)
{
	(void)arg;
	struct rt_team t;
	CHECK_EQ(rt_team_open(&t, 2), 0);
	for (int rounds = 0; rounds < 20; rounds++) {
		struct asking a = {.port = &t.ports[1], .rc = 1, .slept = 1};
		struct rt_fiber *f;
		CHECK_EQ(rt_spawn(&f, "ask", ask_to_sleep, &a), 0);
		for (int i = 0; i < rounds % 5; i++)
			CHECK_EQ(rt_yield(), 0);
		rt_cancel(f);
		rt_cancel(f);
		rt_join(f);
		/* Cancelled before the call began, or while it ran. */
		CHECK(a.rc == -ECANCELED || (a.rc == 0 && a.slept == -ECANCELED));
	}
	rt_deadline_set(rt_now_ns() + 2 * NS_PER_MS);
	struct asking late = {.port = &t.ports[1], .slept = 1};
	ask_to_sleep(&late);
	CHECK(late.rc == -ETIME || (late.rc == 0 && late.slept == -ETIME));
	rt_deadline_set(RT_NEVER);
	rt_team_close(&t);
}

static void a_cancelled_or_late_caller_ends_the_call_on_the_other_loop(void **state)
{
	(void)state;
	in_both_worlds(use_cancel);
}

struct part {
	struct rt_port *home; /* where the part runs */
	struct rt_port port;
	bool open;
	int rc;
	struct rt_fiber *fiber;
	uint64_t served;
};

/* The life of a part on its loop. */
static void part_main(void *arg)
{
	struct part *p = arg;
	rt_port_init(&p->port, rt_loop_self());
	p->open = true;
	(void)rt_sleep_ns(100000 * NS_PER_S);
	rt_shield_enter();
	rt_port_close(&p->port);
	rt_shield_leave();
}

static void part_host(void *arg)
{
	struct part *p = arg;
	p->rc = rt_call(p->home, "part", part_main, p);
}

static void nothing(void *arg)
{
	*(bool *)arg = true;
}

static void use_port_close(void *arg)
{
	(void)arg;
	struct rt_team t;
	CHECK_EQ(rt_team_open(&t, 2), 0);
	struct rt_port port;
	rt_port_init(&port, rt_loop_self());
	rt_port_close(&port);
	bool ran = false;
	CHECK_EQ(rt_call(&port, "none", nothing, &ran), -ESHUTDOWN);
	CHECK(!ran);
	struct part p = {.home = &t.ports[1]};
	CHECK_EQ(rt_spawn(&p.fiber, "host", part_host, &p), 0);
	/* The start message of the part comes first. */
	CHECK_EQ(rt_yield(), 0);
	CHECK_EQ(rt_call(&t.ports[1], "none", nothing, &ran), 0);
	rt_cancel(p.fiber);
	rt_join(p.fiber);
	CHECK(p.rc == 0 && p.open);
	ran = false;
	CHECK_EQ(rt_call(&p.port, "none", nothing, &ran), -ESHUTDOWN);
	CHECK(!ran);
	rt_team_close(&t);
}

static void a_closed_port_refuses_calls(void **state)
{
	(void)state;
	in_both_worlds(use_port_close);
}

/* --- a process at work: parts on all loops that call each other ----------------------------------- */

#define FIBERS 6
#define ROUNDS 30
#define BUFFER_BYTES (64 * KIB)

struct process {
	struct rt_team team;
	struct part parts[LOOPS];
	struct rt_pool pool;
	struct rt_budget budget;
	atomic_uint held;
	struct rt_event event;
};

struct parcel {
	struct process *process;
	struct part *to;
	struct buf *buf;
	uint8_t want;
};

/* Receives a buffer: checks its bytes and releases it. */
static void take_parcel(void *arg)
{
	struct parcel *p = arg;
	CHECK(rt_on_loop(p->to->port.loop));
	for (size_t i = 0; i < p->buf->len; i += 4096)
		CHECK(p->buf->data[i] == p->want);
	p->to->served++;
	buf_unref(p->buf);
	p->buf = NULL;
}

struct worker {
	struct process *process;
	unsigned self, number;
};

static void use_budget(struct process *p)
{
	if (rt_budget_take(&p->budget, 1, NULL, NULL) != 0)
		return;
	unsigned held = atomic_fetch_add(&p->held, 1) + 1;
	CHECK(held <= 3);
	(void)rt_yield();
	atomic_fetch_sub(&p->held, 1);
	rt_budget_give(&p->budget, 1);
}

static void work(void *arg)
{
	struct worker *w = arg;
	struct process *p = w->process;
	for (unsigned r = 0; r < ROUNDS && !rt_cancelled(); r++) {
		struct parcel c = {.process = p,
				   .to = &p->parts[(w->self + r + w->number) % LOOPS],
				   .want = (uint8_t)(r * 7 + w->number)};
		if (rt_pool_get(&p->pool, BUFFER_BYTES, &c.buf) != 0)
			return;
		memset(c.buf->data, c.want, c.buf->len);
		/* A crashed or ending process may refuse the call: then the buffer is still ours. */
		if (rt_call(&c.to->port, "take", take_parcel, &c) != 0)
			buf_unref(c.buf);
		use_budget(p);
		rt_event_raise(&p->event);
	}
}

struct share {
	struct process *process;
	unsigned self;
};

static void do_share(void *arg)
{
	struct share *s = arg;
	struct rt_event_sub sub;
	struct worker w[FIBERS];
	struct rt_group g;
	rt_group_init(&g);
	rt_event_subscribe(&s->process->event, &sub);
	for (unsigned i = 0; i < FIBERS; i++) {
		w[i] = (struct worker){.process = s->process, .self = s->self, .number = i};
		if (rt_group_spawn(&g, "work", work, &w[i]) != 0)
			break;
	}
	(void)rt_cond_wait(&sub.raised);
	rt_group_join(&g);
	rt_event_unsubscribe(&sub);
}

static void host_share(void *arg)
{
	struct share *s = arg;
	(void)rt_call(&s->process->team.ports[s->self], "share", do_share, s);
}

static void each(struct process *p, void (*host)(void *))
{
	struct share shares[LOOPS];
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < LOOPS; i++) {
		shares[i] = (struct share){.process = p, .self = i};
		CHECK_EQ(rt_group_spawn(&g, "share", host, &shares[i]), 0);
	}
	rt_group_join(&g);
}

static void process_main(void *arg)
{
	(void)arg;
	struct process p = {0};
	if (rt_team_open(&p.team, LOOPS) != 0)
		return;
	rt_pool_init(&p.pool, 5 * BUFFER_BYTES);
	rt_budget_init(&p.budget, 3, false);
	rt_event_init(&p.event);
	for (unsigned i = 0; i < LOOPS; i++)
		rt_port_init(&p.parts[i].port, p.team.ports[i].loop);
	each(&p, host_share);
	uint64_t served = 0;
	for (unsigned i = 0; i < LOOPS; i++)
		served += p.parts[i].served;
	struct buf_stats st;
	buf_pool_stats(&p.pool.bufs, &st);
	CHECK(st.in_use_count == 0 && st.peak_bytes <= 5 * BUFFER_BYTES);
	/* A process that crashes delivers less. */
	if (rt_yield() == 0)
		CHECK_EQ(served, LOOPS * FIBERS * ROUNDS);
	rt_event_fini(&p.event);
	rt_budget_fini(&p.budget);
	rt_pool_fini(&p.pool);
	rt_team_close(&p.team);
}

static void loops_hand_buffers_over_within_one_pool_and_one_budget(void **state)
{
	(void)state;
	in_both_worlds(process_main);
}

static void a_crash_at_any_wait_leaves_nothing_behind(void **state)
{
	(void)state;
	for (uint64_t n = 1; n < 400; n += n < 60 ? 1 : 7) {
		struct sim_test t = {.seed = n, .crash_at = n};
		CHECK_EQ(sim_test_once(&t, process_main, NULL), 2);
	}
}

/* --- waiting in order ------------------------------------------------------------------------- */

struct taker {
	struct rt_port *port;
	struct rt_budget *budget;
	uint64_t amount;
	int rc;
	unsigned *next;
	unsigned place; /* in which order the takers were served */
};

static void take(void *arg)
{
	struct taker *t = arg;
	t->rc = rt_budget_take(t->budget, t->amount, NULL, NULL);
	t->place = ++*t->next;
	if (t->rc == 0)
		rt_budget_give(t->budget, t->amount);
}

static void host_take(void *arg)
{
	struct taker *t = arg;
	if (rt_call(t->port, "take", take, t) != 0)
		t->rc = -ECANCELED;
}

static void await_waiting(struct rt_budget *b, unsigned n)
{
	while (rt_budget_waiting(b) != n)
		CHECK_EQ(rt_sleep_ns(NS_PER_US), 0);
}

static void use_order(void *arg)
{
	(void)arg;
	struct rt_team team;
	struct rt_budget b;
	struct rt_fiber *f[3];
	unsigned next = 0;
	CHECK_EQ(rt_team_open(&team, 2), 0);
	rt_budget_init(&b, 10, false);
	CHECK(rt_budget_try(&b, 8) && !rt_budget_try(&b, 3));
	CHECK_EQ(rt_budget_used(&b), 8);
	struct taker t[3] = {
		{.amount = 10},
		{.amount = 2},
		{.amount = 3},
	};
	for (unsigned i = 0; i < 3; i++) {
		/* All are served on one loop, so `next` belongs to it. */
		t[i].port = &team.ports[1];
		t[i].budget = &b;
		t[i].next = &next;
		CHECK_EQ(rt_spawn(&f[i], "taker", host_take, &t[i]), 0);
		await_waiting(&b, i + 1);
	}
	/* 2 would fit, but others wait. */
	CHECK(!rt_budget_try(&b, 2));
	/* The second gives up: neither it nor the others are stuck. */
	rt_cancel(f[1]);
	rt_join(f[1]);
	CHECK_EQ(t[1].rc, -ECANCELED);
	await_waiting(&b, 2);
	rt_budget_give(&b, 8);
	rt_join(f[0]);
	rt_join(f[2]);
	CHECK(t[0].rc == 0 && t[2].rc == 0 && t[0].place < t[2].place);
	CHECK_EQ(rt_budget_peak(&b), 10);
	rt_budget_fini(&b);
	rt_team_close(&team);
}

static void a_budget_serves_in_order_of_arrival_and_forgets_those_that_gave_up(void **state)
{
	(void)state;
	in_both_worlds(use_order);
}

/* --- how busy a loop is --------------------------------------------------------------------------- */

/* As when a virtual machine is moved, or under a faked clock. */
static void a_meter_bears_a_clock_that_goes_back(void **state)
{
	(void)state;
	struct meter m;
	struct rt_load l;
	struct rt_recent recent;
	uint64_t t0 = 1000 * NS_PER_S;
	meter_init(&m, t0);
	meter_sleeps(&m, t0 - NS_PER_S);
	meter_wakes(&m, t0 - NS_PER_S);
	meter_record(&m, 1, "fiber", t0 - NS_PER_S);
	meter_load(&m, t0 - 2 * NS_PER_S, "now", &l, &recent);
	assert_int_equal(l.up_ns, 0);
	assert_int_equal(l.busy_ns, 0);
	assert_int_equal(l.long_runs, 0);
	meter_sleeps(&m, t0 + NS_PER_S);
	meter_load(&m, t0 + NS_PER_S, "now", &l, &recent);
	assert_int_equal(l.busy_ns, 2 * NS_PER_S);
	meter_fini(&m);
}

static void a_meter_names_the_longest_run_of_the_last_minutes(void **state)
{
	(void)state;
	struct meter m;
	struct rt_load l;
	struct rt_recent recent;
	const uint64_t t0 = 1000 * NS_PER_S;
	meter_init(&m, t0);
	meter_sleeps(&m, t0 + 3 * NS_PER_S);
	meter_wakes(&m, t0 + 5 * NS_PER_S);
	meter_load(&m, t0 + 6 * NS_PER_S, "now", &l, &recent);
	CHECK_EQ(l.up_ns, 6 * NS_PER_S);
	CHECK_EQ(l.busy_ns, 4 * NS_PER_S);
	CHECK(recent.span_ns == l.up_ns && recent.busy_ns == l.busy_ns);
	CHECK(l.long_runs == 0 && l.longest_ns == 0 && l.longest_name[0] == 0);
	/* Half of all ticks so far belong to this run: half of six seconds. */
	uint64_t ticks = (meter_ticks() - m.begin_ticks) / 2 + 1;
	meter_record(&m, ticks, "encode", t0 + 6 * NS_PER_S);
	meter_record(&m, 1, "other", t0 + 6 * NS_PER_S);
	meter_load(&m, t0 + 7 * NS_PER_S, "now", &l, &recent);
	CHECK(l.long_runs == 1 && strcmp(l.longest_name, "encode") == 0);
	CHECK(l.longest_ns > NS_PER_S && l.longest_ns <= 3 * NS_PER_S + NS_PER_MS);
	meter_load(&m, t0 + 61 * NS_PER_S, "now", &l, &recent);
	CHECK(strcmp(l.longest_name, "encode") == 0);
	meter_load(&m, t0 + 122 * NS_PER_S, "now", &l, &recent);
	CHECK(l.longest_ns == 0 && l.long_runs == 1);
	meter_fini(&m);
}

static void a_meter_counts_the_busy_time_of_the_last_minutes(void **state)
{
	(void)state;
	struct meter m;
	struct rt_load l;
	struct rt_recent recent;
	const uint64_t t0 = 1000 * NS_PER_S;
	meter_init(&m, t0);
	meter_sleeps(&m, t0 + 30 * NS_PER_S); /* busy for 30 s, then idle until 90 s */
	meter_wakes(&m, t0 + 90 * NS_PER_S);
	meter_sleeps(&m, t0 + 100 * NS_PER_S); /* the second minute begins */
	meter_wakes(&m, t0 + 160 * NS_PER_S);
	meter_load(&m, t0 + 165 * NS_PER_S, "now", &l,
		   &recent); /* the third one, with 5 s of work */
	CHECK_EQ(l.busy_ns, 45 * NS_PER_S);
	CHECK_EQ(recent.span_ns, 65 * NS_PER_S);
	CHECK_EQ(recent.busy_ns, 5 * NS_PER_S);
	meter_load(&m, t0 + 170 * NS_PER_S, "now", &l, &recent);
	CHECK_EQ(recent.span_ns, 70 * NS_PER_S);
	CHECK_EQ(recent.busy_ns, 10 * NS_PER_S);
	meter_fini(&m);
}

static void a_meter_names_the_fiber_that_has_not_ended(void **state)
{
	(void)state;
	struct meter m;
	struct rt_load l;
	struct rt_recent recent;
	const uint64_t t0 = 1000 * NS_PER_S;
	meter_init(&m, t0);
	/* It has run since the loop began, a second of ticks or so ago, which the clock shows as 20 ms. */
	m.begin_ticks -= NS_PER_S;
	m.run_ticks = m.begin_ticks;
	meter_load(&m, t0 + 20 * NS_PER_MS, "stuck", &l, &recent);
	CHECK(l.longest_ns > 19 * NS_PER_MS && l.longest_ns <= 20 * NS_PER_MS);
	CHECK(strcmp(l.longest_name, "stuck") == 0 && l.long_runs == 0);
	m.run_ticks = 0;
	meter_load(&m, t0 + 20 * NS_PER_MS, "stuck", &l, &recent);
	CHECK(l.longest_ns == 0 && l.longest_name[0] == 0);
	meter_fini(&m);
}

struct spin {
	struct rt_port *port;
	atomic_bool on, stop;
};

static void spin_until_stopped(void *arg)
{
	struct spin *s = arg;
	s->on = true;
	while (!s->stop)
		;
}

static void call_spin(void *arg)
{
	struct spin *s = arg;
	CHECK_EQ(rt_call(s->port, "spinner", spin_until_stopped, s), 0);
}

static void watch_a_stuck_loop(void *arg)
{
	(void)arg;
	struct rt_team t;
	struct rt_load l = {0};
	struct rt_load_sum sum;
	struct rt_fiber *caller;
	CHECK_EQ(rt_team_open(&t, 2), 0);
	struct spin s = {.port = &t.ports[1]};
	CHECK_EQ(rt_spawn(&caller, "caller", call_spin, &s), 0);
	while (!s.on)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	/* The other loop is stuck, and this one sees for how long and where. */
	while (l.longest_ns < 15 * NS_PER_MS || strcmp(l.longest_name, "spinner") != 0) {
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
		rt_loop_load(t.ports[1].loop, &l);
	}
	struct rt_loop *loops[] = {t.ports[0].loop, t.ports[1].loop};
	rt_load_sum(loops, 2, &sum);
	CHECK(sum.loops == 2 && sum.longest_ns >= 15 * NS_PER_MS);
	CHECK_EQ(strcmp(sum.longest_name, "spinner"), 0);
	CHECK(sum.busiest_permille > 0 && sum.busiest_permille <= 1000);
	CHECK(sum.busy_permille <= sum.busiest_permille);
	s.stop = true;
	rt_join(caller);
	rt_team_close(&t);
}

static void a_stuck_loop_is_seen_from_another_one(void **state)
{
	(void)state;
	CHECK_EQ(rt_real_run(NULL, watch_a_stuck_loop, NULL), 0);
}

static void compute(void *arg)
{
	(void)arg;
	uint64_t until = rt_now_ns() + 12 * NS_PER_MS;
	while (rt_now_ns() < until)
		;
}

static void use_meter(void *arg)
{
	(void)arg;
	struct rt_team t;
	struct rt_load l;
	CHECK_EQ(rt_team_open(&t, 2), 0);
	CHECK_EQ(rt_call(&t.ports[1], "compute", compute, NULL), 0);
	/* The loop measures a run after it has ended: the next call comes later. */
	bool ran = false;
	CHECK_EQ(rt_call(&t.ports[1], "nothing", nothing, &ran), 0);
	rt_loop_load(t.ports[1].loop, &l);
	CHECK(l.long_runs >= 1 && l.longest_ns >= 11 * NS_PER_MS && l.busy_ns >= 11 * NS_PER_MS);
	CHECK(l.busy_ns <= l.up_ns);
	rt_team_close(&t);
}

static void a_long_computation_is_counted_on_its_loop(void **state)
{
	(void)state;
	CHECK_EQ(rt_real_run(NULL, use_meter, NULL), 0);
}

static void threads_are_a_number_or_auto(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"", "0", "-1", "257", "1x", "all", "99999999999999999999"};
	unsigned n = 0;
	CHECK_EQ(rt_real_threads("1", &n), 0);
	CHECK_EQ(n, 1);
	CHECK_EQ(rt_real_threads("256", &n), 0);
	CHECK_EQ(n, 256);
	CHECK_EQ(rt_real_threads("auto", &n), 0);
	CHECK(n >= 1 && n <= RT_TEAM_MAX);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_EQ(rt_real_threads(bad[i], &n), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_call_runs_on_the_loop_of_its_port_with_the_callers_context_and_deadline),
		cmocka_unit_test(a_cancelled_or_late_caller_ends_the_call_on_the_other_loop),
		cmocka_unit_test(a_closed_port_refuses_calls),
		cmocka_unit_test(loops_hand_buffers_over_within_one_pool_and_one_budget),
		cmocka_unit_test(a_crash_at_any_wait_leaves_nothing_behind),
		cmocka_unit_test(
			a_budget_serves_in_order_of_arrival_and_forgets_those_that_gave_up),
		cmocka_unit_test(a_meter_names_the_longest_run_of_the_last_minutes),
		cmocka_unit_test(a_meter_bears_a_clock_that_goes_back),
		cmocka_unit_test(a_meter_counts_the_busy_time_of_the_last_minutes),
		cmocka_unit_test(a_meter_names_the_fiber_that_has_not_ended),
		cmocka_unit_test(a_stuck_loop_is_seen_from_another_one),
		cmocka_unit_test(a_long_computation_is_counted_on_its_loop),
		cmocka_unit_test(threads_are_a_number_or_auto),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
