// SPDX-License-Identifier: Apache-2.0
/* One scheduler for requests of several loops: depth and shares are those of all loops together. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "rt/call.h"
#include "rt/real.h"
#include "sched_job.h"
#include "sim_test.h"

#define LOOPS 3
#define FIBERS 6
#define ROUNDS 40
#define DEPTH 2

struct stage {
	struct sched *sched;
	struct rt_team team;
	atomic_uint holders;
	atomic_uint served[LOOPS];
	atomic_uint late;
	bool hurry; /* some requests have deadlines that pass while they wait */
};

struct on_loop {
	struct stage *stage;
	unsigned index;
};

static void hold(struct stage *s, struct sched_turn *t)
{
	CHECK(t->granted && atomic_fetch_add(&s->holders, 1) < DEPTH);
	(void)rt_yield();
	atomic_fetch_sub(&s->holders, 1);
}

static void request(struct on_loop *l, unsigned i)
{
	struct stage *s = l->stage;
	char group[16];
	snprintf(group, sizeof(group), "g%u", (l->index + i) % 2);
	AUTO_SCHED_TURN struct sched_turn t = {0};
	/* Every third request has two slices. */
	struct sched_request r = {.group = group,
				  .class = i % SCHED_CLASSES,
				  .kind = SCHED_READ,
				  .bytes = i % 3 == 0 ? 8192 : 4096};
	int rc = sched_begin(s->sched, &r, &t);
	while (rc == 0 && t.granted) {
		hold(s, &t);
		rc = sched_next(&t, 0);
	}
	CHECK(rc == 0 || (s->hurry && rc == -ETIME));
	atomic_fetch_add(rc == 0 ? &s->served[l->index] : &s->late, 1);
}

static void requests(void *arg)
{
	struct on_loop *l = arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		rt_deadline_set(l->stage->hurry && i % 2 == 0 ? rt_now_ns() + 20 * NS_PER_US
							      : RT_NEVER);
		request(l, i);
	}
}

static void loop_main(void *arg)
{
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < FIBERS; i++)
		CHECK_EQ(rt_group_spawn(&g, "requests", requests, arg), 0);
	rt_group_join(&g);
}

static void loop_host(void *arg)
{
	struct on_loop *l = arg;
	CHECK_EQ(rt_call(&l->stage->team.ports[l->index], "loop", loop_main, l), 0);
}

static void stage_main(void *arg)
{
	const bool *hurry = arg;
	struct stage s = {.hurry = *hurry};
	struct on_loop loops[LOOPS];
	struct sched_config config = sched_nvme;
	config.depth = config.other_depth = DEPTH;
	config.slice_bytes = config.run_bytes = 4096;
	CHECK_EQ(sched_open(&config, &s.sched), 0);
	CHECK_EQ(rt_team_open(&s.team, LOOPS), 0);
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < LOOPS; i++) {
		loops[i] = (struct on_loop){.stage = &s, .index = i};
		CHECK_EQ(rt_group_spawn(&g, "host", loop_host, &loops[i]), 0);
	}
	rt_group_join(&g);
	unsigned served = 0;
	for (unsigned i = 0; i < LOOPS; i++) {
		CHECK(s.served[i] > 0);
		served += s.served[i];
	}
	CHECK_EQ(served + s.late, LOOPS * FIBERS * ROUNDS);
	CHECK(*hurry || s.late == 0);
	job_check_empty(s.sched);
	rt_team_close(&s.team);
	sched_close(s.sched);
}

static void in_both_worlds(bool hurry)
{
	assert_int_equal(rt_real_run(NULL, stage_main, &hurry), 0);
	sim_test_run_with(&(struct sim_test){.seeds = 5}, stage_main, &hurry);
}

static void the_depth_is_that_of_all_loops(void **state)
{
	(void)state;
	in_both_worlds(false);
}

static void requests_of_any_loop_may_be_late(void **state)
{
	(void)state;
	in_both_worlds(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_depth_is_that_of_all_loops),
		cmocka_unit_test(requests_of_any_loop_may_be_late),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
