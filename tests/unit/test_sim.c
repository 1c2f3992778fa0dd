// SPDX-License-Identifier: Apache-2.0
/* The simulated world: crashes, stops and pauses of processes, clocks, and the trace of a run. */
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
#include "rt/file.h"
#include "rt/rt.h"
#include "rt/sim.h"
#include "rt/sync.h"

/* State of a test that survives crashes of the process. */
struct witness {
	uint64_t starts;
	uint64_t ends;
	uint64_t ticks;
	uint64_t file_bytes;
	uint64_t file_limit;
	uint64_t last_ns;
	int last_rc;
};

static struct sim *quiet_sim(uint64_t seed)
{
	struct sim_config c;
	sim_config_init(&c, seed, 0);
	return sim_open(&c);
}

static void tick(void *arg)
{
	struct witness *w = arg;
	w->starts++;
	while ((w->last_rc = rt_sleep_ns(NS_PER_MS)) == 0) {
		w->ticks++;
		w->last_ns = rt_now_ns();
	}
	w->ends++;
}

static void a_crash_ends_every_fiber_and_restarts_the_process(void **state)
{
	(void)state;
	struct sim *s = quiet_sim(1);
	struct sim_node *n = sim_node_add(s, "n", 0);
	struct witness w = {0};
	sim_node_start(n, tick, &w);
	sim_run(s, 20 * NS_PER_MS);
	assert_int_equal(w.starts, 1);
	assert_in_range(w.ticks, 18, 20);
	sim_node_crash(n, false);
	assert_false(sim_node_running(n));
	sim_run(s, NS_PER_MS);
	assert_int_equal(w.ends, 1);
	assert_int_equal(w.last_rc, -ECANCELED);
	sim_run(s, 6 * NS_PER_S);
	assert_int_equal(w.starts, 2);
	assert_int_equal(sim_node_lives(n), 2);
	assert_true(sim_node_running(n));
	sim_close(s);
	assert_int_equal(w.ends, 2);
}

/* Appends one byte at a time with a sync, and checks at each start that the file has all synced bytes. */
static void append_synced(void *arg)
{
	struct witness *w = arg;
	struct rt_file *f;
	uint64_t size;
	if (rt_file_open(&f, "/d/log", RT_READ | RT_WRITE | RT_CREATE) != 0)
		return;
	if (rt_dir_sync("/d") == 0 && rt_file_size(f, &size) == 0) {
		CHECK(size >= w->file_bytes);
		w->file_bytes = size; /* bytes that survived a power loss are durable */
		while (size < w->file_limit && rt_file_write(f, "x", 1, size) == 0 &&
		       rt_file_sync(f) == 0)
			w->file_bytes = ++size;
	}
	rt_file_close(f);
}

static void a_crashed_process_reopens_its_files_and_finds_what_it_synced(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct sim *s = quiet_sim(seed);
		struct sim_node *n = sim_node_add(s, "n", 0);
		sim_disk_add(n, "d", MIB);
		struct witness w = {.file_limit = UINT64_MAX};
		sim_node_start(n, append_synced, &w);
		for (int i = 0; i < 10; i++) {
			sim_run(s, 20 * NS_PER_MS + seed * NS_PER_US);
			sim_node_crash(n, true);
			sim_run(s, 6 * NS_PER_S);
		}
		assert_int_equal(sim_node_lives(n), 11);
		assert_true(w.file_bytes > 100);
		sim_close(s);
	}
}

static void crash_at_the_nth_wait_reaches_every_wait(void **state)
{
	(void)state;
	uint64_t n_wait = 1;
	for (;; n_wait++) {
		struct sim *s = quiet_sim(9);
		struct sim_node *n = sim_node_add(s, "n", 0);
		sim_disk_add(n, "d", MIB);
		struct witness w = {.file_limit = 8};
		sim_node_start(n, append_synced, &w);
		sim_node_crash_at(n, n_wait, true);
		sim_run(s, 10 * NS_PER_S);
		bool crashed = sim_node_lives(n) == 2;
		assert_int_equal(w.file_bytes, 8);
		sim_close(s);
		if (!crashed)
			break;
	}
	assert_in_range(n_wait, 10, 100);
}

static void stop_waiter(void *arg)
{
	struct witness *w = arg;
	w->starts++;
	w->last_rc = rt_shutdown_wait();
	w->ends++;
}

static void stop_asks_and_does_not_restart(void **state)
{
	(void)state;
	struct sim *s = quiet_sim(1);
	struct sim_node *n = sim_node_add(s, "n", 0);
	struct witness w = {0};
	sim_node_start(n, stop_waiter, &w);
	sim_run(s, NS_PER_S);
	assert_int_equal(w.ends, 0);
	sim_node_stop(n);
	sim_run(s, 100 * NS_PER_S);
	assert_int_equal(w.ends, 1);
	assert_int_equal(w.last_rc, 0);
	assert_int_equal(w.starts, 1);
	assert_false(sim_node_running(n));
	sim_close(s);
}

static struct sim *faulty_sim(uint64_t seed, enum sim_fault f, double rate)
{
	struct sim_config c;
	sim_config_init(&c, seed, 0);
	c.rate[f] = rate;
	return sim_open(&c);
}

static void watch_gap(void *arg)
{
	struct witness *w = arg;
	uint64_t before = rt_now_ns();
	while (rt_sleep_ns(NS_PER_MS) == 0) {
		uint64_t now = rt_now_ns();
		w->last_ns = max_u64(w->last_ns, now - before);
		before = now;
	}
}

static void a_paused_process_does_not_run_until_it_resumes(void **state)
{
	(void)state;
	struct sim *s = faulty_sim(3, SIM_PAUSE, 360);
	struct sim_node *n = sim_node_add(s, "n", 0);
	struct witness w = {0};
	sim_node_start(n, watch_gap, &w);
	sim_run(s, 120 * NS_PER_S);
	assert_true(sim_fault_count(s, SIM_PAUSE) > 3);
	assert_true(w.last_ns > 500 * NS_PER_MS);
	assert_int_equal(sim_node_lives(n), 1);
	sim_faults_stop(s);
	w.last_ns = 0;
	sim_run(s, NS_PER_S);
	w.last_ns = 0;
	sim_run(s, 10 * NS_PER_S);
	assert_in_range(w.last_ns, NS_PER_MS, 2 * NS_PER_MS);
	sim_close(s);
}

static void the_time_of_pauses_is_counted_exactly(void **state)
{
	(void)state;
	struct sim *s = faulty_sim(3, SIM_PAUSE, 0);
	struct sim_node *n = sim_node_add(s, "n", 0);
	struct witness w = {0};
	sim_node_start(n, watch_gap, &w);
	sim_run(s, NS_PER_S);
	assert_int_equal(sim_node_paused_ns(n), 0);
	sim_node_pause(n, 7 * NS_PER_S);
	sim_node_pause(n, 90 * NS_PER_S); /* no effect: the process is paused already */
	sim_run(s, 3 * NS_PER_S);
	/* so much of the pause in progress has passed */
	assert_int_equal(sim_node_paused_ns(n), 3 * NS_PER_S);
	sim_run(s, 10 * NS_PER_S);
	assert_int_equal(sim_node_paused_ns(n), 7 * NS_PER_S);
	sim_node_pause(n, 60 * NS_PER_S);
	sim_run(s, 2 * NS_PER_S);
	sim_node_crash(n, false); /* ends the pause, once all fibers have returned */
	sim_run(s, 30 * NS_PER_S);
	assert_int_equal(sim_node_lives(n), 2);
	uint64_t ns = sim_node_paused_ns(n);
	assert_in_range(ns, 9 * NS_PER_S, 9 * NS_PER_S + NS_PER_MS);
	sim_node_pause(n, 60 * NS_PER_S);
	sim_run(s, NS_PER_S);
	sim_faults_pause(s); /* the end of all faults also ends the pause */
	sim_run(s, 5 * NS_PER_S);
	assert_int_equal(sim_node_paused_ns(n), ns + NS_PER_S);
	sim_close(s);
}

static void compare_clocks(void *arg)
{
	struct witness *w = arg;
	uint64_t mono = rt_now_ns();
	while (rt_sleep_ns(NS_PER_S) == 0) {
		CHECK(rt_now_ns() > mono);
		CHECK(rt_now_ns() - mono < 2 * NS_PER_S);
		mono = rt_now_ns();
		w->last_ns = rt_wall_ns();
	}
}

static void wall_clocks_jump_and_differ_but_monotonic_ones_do_not(void **state)
{
	(void)state;
	struct sim *s = faulty_sim(4, SIM_CLOCK_JUMP, 60);
	struct witness w[2] = {0};
	sim_node_start(sim_node_add(s, "a", 0), compare_clocks, &w[0]);
	sim_node_start(sim_node_add(s, "b", 0), compare_clocks, &w[1]);
	sim_run(s, 600 * NS_PER_S);
	assert_true(sim_fault_count(s, SIM_CLOCK_JUMP) > 3);
	uint64_t gap = w[0].last_ns > w[1].last_ns ? w[0].last_ns - w[1].last_ns
						   : w[1].last_ns - w[0].last_ns;
	assert_true(gap > NS_PER_S);
	sim_close(s);
}

static bool node_is_lost(void *disk)
{
	return (sim_disk_damage(disk) & SIM_DAMAGE_LOST) != 0;
}

static void lost_nodes_and_racks_do_not_come_back(void **state)
{
	(void)state;
	struct sim *s = faulty_sim(5, SIM_RACK_LOSS, 60);
	struct witness w[3] = {0};
	struct sim_node *n[3];
	for (unsigned i = 0; i < 3; i++) {
		char name[8];
		snprintf(name, sizeof(name), "n%u", i);
		n[i] = sim_node_add(s, name, i / 2);
		sim_node_start(n[i], tick, &w[i]);
	}
	sim_node_protect(n[2]);
	sim_run(s, 3600 * NS_PER_S);
	assert_true(sim_fault_count(s, SIM_RACK_LOSS) > 0);
	assert_false(sim_node_running(n[0]));
	assert_false(sim_node_running(n[1]));
	assert_true(sim_node_running(n[2]));
	assert_int_equal(w[0].starts, 1);
	sim_close(s);
}

static void a_node_that_is_down_can_be_lost(void **state)
{
	(void)state;
	struct sim *s = faulty_sim(8, SIM_NODE_LOSS, 3600);
	struct sim_node *n = sim_node_add(s, "n", 0);
	struct sim_disk *d = sim_disk_add(n, "d", MIB);
	struct witness w = {0};
	sim_node_start(n, stop_waiter, &w);
	sim_node_crash(n, false);
	assert_true(sim_run_until(s, node_is_lost, d, 60 * NS_PER_S));
	sim_run(s, 60 * NS_PER_S);
	assert_false(sim_node_running(n));
	sim_close(s);
}

static void count_message(struct rt_msg *m)
{
	(void)m;
	struct rt_fiber *nobody = rt_self();
	CHECK(nobody == NULL);
}

/* Yields until rt_yield fails, as code that waits for a message of its own loop may do. */
static void yield_for_ever(void *arg)
{
	struct witness *w = arg;
	struct rt_loop *other;
	struct rt_msg m = {.fn = count_message};
	if (rt_loop_open(&other, "other") != 0)
		return;
	rt_post(other, &m);
	while ((w->last_rc = rt_yield()) == 0)
		;
	rt_loop_close(other);
	w->ends++;
}

static void yield_fails_in_a_crashed_process(void **state)
{
	(void)state;
	struct sim *s = quiet_sim(2);
	struct sim_node *n = sim_node_add(s, "n", 0);
	struct witness w = {0};
	sim_node_start(n, yield_for_ever, &w);
	sim_run(s, 10 * NS_PER_MS);
	sim_node_stop(n);
	sim_node_crash(n, false);
	sim_run(s, 10 * NS_PER_MS);
	assert_int_equal(w.ends, 1);
	assert_int_equal(w.last_rc, -ECANCELED);
	sim_close(s);
}

static void crash_and_power_strike_at_their_rate(void **state)
{
	(void)state;
	struct sim *s = faulty_sim(6, SIM_CRASH, 60);
	struct witness w = {0};
	struct sim_node *n = sim_node_add(s, "n", 0);
	sim_node_start(n, stop_waiter, &w);
	sim_run(s, 36000 * NS_PER_S);
	/* The mean is 600 minus the share of the time in which the node is down. */
	assert_in_range(sim_fault_count(s, SIM_CRASH), 450, 700);
	assert_int_equal(w.starts, sim_fault_count(s, SIM_CRASH) + sim_node_running(n));
	sim_close(s);
}

/* --- the trace ------------------------------------------------------------------------------- */

static void chatter(void *arg)
{
	struct rt_mutex *m = arg;
	for (int i = 0; i < 20; i++) {
		if (rt_mutex_lock(m) != 0)
			return;
		rt_note("turn %d", i);
		int rc = rt_sleep_ns(rt_random_u64() % NS_PER_MS);
		rt_mutex_unlock(m);
		if (rc != 0)
			return;
	}
}

static void chatter_main(void *arg)
{
	(void)arg;
	struct rt_mutex m;
	struct rt_group g;
	rt_mutex_init(&m);
	rt_group_init(&g);
	for (int i = 0; i < 5; i++)
		if (rt_group_spawn(&g, "chatter", chatter, &m) != 0)
			break;
	rt_group_join(&g);
}

static uint64_t chatter_hash(uint64_t seed)
{
	struct sim_config c;
	sim_config_init(&c, seed, 10);
	struct sim *s = sim_open(&c);
	for (unsigned i = 0; i < 3; i++) {
		char name[8];
		snprintf(name, sizeof(name), "n%u", i);
		sim_node_start(sim_node_add(s, name, i), chatter_main, NULL);
	}
	sim_run(s, 20 * NS_PER_S);
	uint64_t hash = sim_trace_hash(s);
	sim_close(s);
	return hash;
}

static void same_seed_same_trace_and_another_seed_another(void **state)
{
	(void)state;
	uint64_t before = 0;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		uint64_t hash = chatter_hash(seed);
		assert_int_equal(hash, chatter_hash(seed));
		assert_int_not_equal(hash, before);
		before = hash;
	}
}

/* --- errors that must end the program -------------------------------------------------------------- */

static void leak_a_file(void *arg)
{
	(void)arg;
	struct rt_file *f;
	CHECK_EQ(rt_file_open(&f, "/d/f", RT_WRITE | RT_CREATE), 0);
}

static void never_end(void *arg)
{
	(void)arg;
	for (;;)
		rt_sleep_ns(NS_PER_MS);
}

/* Runs main on a node and crashes it; returns whether the simulator ended the program. */
static bool simulator_objects(void (*main)(void *))
{
	pid_t pid = fork();
	if (pid == 0) {
		if (freopen("/dev/null", "w", stderr) == NULL)
			_exit(0);
		struct sim *s = quiet_sim(1);
		struct sim_node *n = sim_node_add(s, "n", 0);
		sim_disk_add(n, "d", MIB);
		sim_node_start(n, main, NULL);
		sim_run(s, 10 * NS_PER_MS);
		sim_node_crash(n, false);
		sim_run(s, 60 * NS_PER_S);
		_exit(0);
	}
	int status;
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void a_process_that_leaks_or_does_not_end_is_reported(void **state)
{
	(void)state;
	assert_true(simulator_objects(leak_a_file));
	assert_true(simulator_objects(never_end));
	assert_false(simulator_objects(chatter_main));
}

/* --- where the clock starts --------------------------------------------------------------------- */

struct clock_lives {
	struct sim_node *node;
	uint64_t first_ns[3]; /* the first reading of the clock in each life of the process */
};

static void read_clock(void *arg)
{
	struct clock_lives *c = arg;
	uint64_t life = sim_node_lives(c->node);
	c->first_ns[life - 1] = rt_now_ns();
	uint64_t before_ns = rt_now_ns();
	CHECK(rt_now_ns() > before_ns);
	CHECK(rt_ago_ns(RT_NEVER) == 0 && rt_ago_ns(0) > before_ns);
	CHECK(rt_elapsed_ns(before_ns) > 0 && rt_elapsed_ns(RT_NEVER) == 0);
	uint64_t until_ns = rt_now_ns() + NS_PER_S;
	CHECK(rt_sleep_ns(NS_PER_S) == 0);
	CHECK(rt_now_ns() >= until_ns && rt_now_ns() < until_ns + 10 * NS_PER_MS);
	if (life < 3)
		CHECK(rt_sleep_ns(3600 * NS_PER_S) == -ECANCELED);
}

/* A machine's clock may be younger than any duration that the code uses, and goes on when only the process dies. */
static void the_clock_starts_anywhere_when_a_machine_boots(void **state)
{
	(void)state;
	unsigned young = 0, old = 0, anew = 0;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct sim *s = quiet_sim(seed);
		struct clock_lives c = {.node = sim_node_add(s, "a", 0)};
		sim_node_start(c.node, read_clock, &c);
		for (uint64_t life = 1; life < 3; life++) {
			sim_run(s, 10 * NS_PER_S);
			sim_node_crash(c.node, life == 2);
		}
		sim_run(s, 30 * NS_PER_S);
		sim_close(s);
		const uint64_t *first = c.first_ns;
		young += first[0] < 60 * NS_PER_S;
		old += first[0] > 86400 * NS_PER_S;
		assert_true(first[1] > first[0] && first[1] < first[0] + 60 * NS_PER_S);
		anew += first[2] < first[1] || first[2] > first[1] + 60 * NS_PER_S;
	}
	assert_true(young > 3 && old > 3 && anew > 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_clock_starts_anywhere_when_a_machine_boots),
		cmocka_unit_test(a_crash_ends_every_fiber_and_restarts_the_process),
		cmocka_unit_test(a_crashed_process_reopens_its_files_and_finds_what_it_synced),
		cmocka_unit_test(crash_at_the_nth_wait_reaches_every_wait),
		cmocka_unit_test(stop_asks_and_does_not_restart),
		cmocka_unit_test(a_paused_process_does_not_run_until_it_resumes),
		cmocka_unit_test(the_time_of_pauses_is_counted_exactly),
		cmocka_unit_test(wall_clocks_jump_and_differ_but_monotonic_ones_do_not),
		cmocka_unit_test(lost_nodes_and_racks_do_not_come_back),
		cmocka_unit_test(a_node_that_is_down_can_be_lost),
		cmocka_unit_test(yield_fails_in_a_crashed_process),
		cmocka_unit_test(crash_and_power_strike_at_their_rate),
		cmocka_unit_test(same_seed_same_trace_and_another_seed_another),
		cmocka_unit_test(a_process_that_leaks_or_does_not_end_is_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
