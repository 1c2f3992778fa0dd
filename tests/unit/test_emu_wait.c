// SPDX-License-Identifier: Apache-2.0
/* Waiting for a device and sharing one, in virtual time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emu/device.h"
#include "emu/share.h"
#include "emu/wait.h"
#include "sim_test.h"

SIM_TEST(a_wait_ends_at_its_time_and_one_in_the_past_at_once)
{
	(void)arg;
	struct emu_waiter *w = calloc(1, sizeof(*w));
	CHECK(w != NULL);
	emu_waiter_init(w, false);
	uint64_t begin = rt_now_ns();
	for (uint64_t i = 1; i <= 1000; i++)
		CHECK_EQ(emu_wait_until(w, begin + i * 380 * NS_PER_US), 0);
	uint64_t now = rt_now_ns();
	/* The clock of a simulated machine drifts by nothing here, but rounds, and a look at it takes a nanosecond. */
	CHECK(now >= begin + 380 * NS_PER_MS && now < begin + 380 * NS_PER_MS + NS_PER_US);
	CHECK_EQ(emu_wait_until(w, begin), 0);
	CHECK(rt_now_ns() < now + NS_PER_US);
	CHECK_EQ(w->lateness.count, 1000);
	CHECK(w->lateness.max_ns < NS_PER_US);
	CHECK_EQ(emu_burn(w, 5000), 0);
	CHECK(rt_now_ns() >= now + 5000 && rt_now_ns() < now + 6000);
	free(w);
}

static void wait_for_ever(void *arg)
{
	struct emu_waiter *w = arg;
	CHECK_EQ(emu_wait_until(w, rt_now_ns() + 3600 * NS_PER_S), -ECANCELED);
}

SIM_TEST(a_wait_for_a_device_ends_when_its_fiber_is_cancelled)
{
	(void)arg;
	struct emu_waiter *w = calloc(1, sizeof(*w));
	struct rt_fiber *f;
	CHECK(w != NULL);
	emu_waiter_init(w, false);
	CHECK_EQ(rt_spawn(&f, "wait", wait_for_ever, w), 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	rt_cancel(f);
	rt_join(f);
	CHECK_EQ(w->lateness.count, 0);
	free(w);
}

/* --- sharing ---------------------------------------------------------------------------------- */

#define JOBS 3

struct shared {
	struct emu_turns turns;
	struct emu_device device;
	uint64_t until_ns;
	int order[16];
	unsigned turns_taken;
};

struct shared_job {
	struct shared *on;
	int number;
	double weight;
	uint64_t cost_ns;
	unsigned steps;
};

/* Steps on the device until its time is over; each step waits for its turn and for its end. */
static void run_shared_job(void *arg)
{
	struct shared_job *j = arg;
	struct shared *on = j->on;
	struct emu_sharer me;
	emu_turns_join(&on->turns, &me, j->weight);
	while (rt_now_ns() < on->until_ns) {
		CHECK_EQ(emu_turns_take(&on->turns, &me), 0);
		if (on->turns_taken < ARRAY_LEN(on->order))
			on->order[on->turns_taken] = j->number;
		on->turns_taken++;
		uint64_t end = emu_submit(&on->device, EMU_COMPUTE, rt_now_ns(), 0, j->cost_ns);
		CHECK_EQ(rt_sleep_ns(end - rt_now_ns()), 0);
		emu_turns_give(&on->turns, &me, j->cost_ns);
		j->steps++;
	}
	emu_turns_leave(&on->turns, &me);
}

static void share(enum emu_sharing sharing, struct shared *on, struct shared_job jobs[JOBS])
{
	struct rt_group g;
	rt_group_init(&g);
	emu_turns_init(&on->turns, sharing);
	emu_device_init(&on->device, rt_now_ns(), GIB);
	on->until_ns = rt_now_ns() + 60 * NS_PER_S;
	for (int i = 0; i < JOBS; i++) {
		jobs[i].on = on;
		jobs[i].number = i;
		CHECK_EQ(rt_group_spawn(&g, "job", run_shared_job, &jobs[i]), 0);
	}
	rt_group_join(&g);
}

SIM_TEST(turns_by_iteration_go_round)
{
	(void)arg;
	struct shared on = {0};
	struct shared_job jobs[JOBS] = {{.weight = 1, .cost_ns = 10 * NS_PER_MS},
					{.weight = 5, .cost_ns = 20 * NS_PER_MS},
					{.weight = 1, .cost_ns = 30 * NS_PER_MS}};
	share(EMU_ITERATION, &on, jobs);
	/* The simulator chooses who comes first; then it goes on in this order. */
	CHECK(on.order[0] != on.order[1] && on.order[1] != on.order[2] &&
	      on.order[0] != on.order[2]);
	for (int i = JOBS; i < 9; i++)
		CHECK_EQ(on.order[i], on.order[i % JOBS]);
	/* 60 s are 1000 rounds of 60 ms, whatever the weights. */
	for (int i = 0; i < JOBS; i++)
		CHECK(jobs[i].steps >= 1000 && jobs[i].steps <= 1001);
}

SIM_TEST(weighted_turns_give_device_time_in_proportion)
{
	(void)arg;
	struct shared on = {0};
	struct shared_job jobs[JOBS] = {{.weight = 1, .cost_ns = 10 * NS_PER_MS},
					{.weight = 2, .cost_ns = 10 * NS_PER_MS},
					{.weight = 3, .cost_ns = 30 * NS_PER_MS}};
	share(EMU_WEIGHTED, &on, jobs);
	/* of 60 s: 10 s, 20 s and 30 s */
	CHECK(jobs[0].steps >= 997 && jobs[0].steps <= 1003);
	CHECK(jobs[1].steps >= 1997 && jobs[1].steps <= 2003);
	CHECK(jobs[2].steps >= 997 && jobs[2].steps <= 1003);
	CHECK(emu_utilization(&on.device, rt_now_ns()) > 0.999);
}

struct canceller {
	struct emu_turns turns;
	struct emu_sharer holder, waiter, third;
	int rc;
};

static void take_and_fail(void *arg)
{
	struct canceller *c = arg;
	c->rc = emu_turns_take(&c->turns, &c->waiter);
}

SIM_TEST(a_job_that_is_cancelled_while_it_waits_does_not_keep_the_device)
{
	(void)arg;
	struct canceller c = {0};
	struct rt_fiber *f;
	emu_turns_init(&c.turns, EMU_ITERATION);
	emu_turns_join(&c.turns, &c.holder, 1);
	emu_turns_join(&c.turns, &c.waiter, 1);
	emu_turns_join(&c.turns, &c.third, 1);
	CHECK_EQ(emu_turns_take(&c.turns, &c.holder), 0);
	CHECK_EQ(rt_spawn(&f, "waiter", take_and_fail, &c), 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	rt_cancel(f);
	rt_join(f);
	CHECK_EQ(c.rc, -ECANCELED);
	emu_turns_give(&c.turns, &c.holder, 1);
	CHECK_EQ(emu_turns_take(&c.turns, &c.third), 0);
	emu_turns_give(&c.turns, &c.third, 1);
	emu_turns_leave(&c.turns, &c.holder);
	emu_turns_leave(&c.turns, &c.waiter);
	emu_turns_leave(&c.turns, &c.third);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wait_ends_at_its_time_and_one_in_the_past_at_once),
		cmocka_unit_test(a_wait_for_a_device_ends_when_its_fiber_is_cancelled),
		cmocka_unit_test(turns_by_iteration_go_round),
		cmocka_unit_test(weighted_turns_give_device_time_in_proportion),
		cmocka_unit_test(a_job_that_is_cancelled_while_it_waits_does_not_keep_the_device),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
