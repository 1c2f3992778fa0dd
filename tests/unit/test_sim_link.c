// SPDX-License-Identifier: Apache-2.0
/* Links with a cap of bandwidth in the simulated network: each time is computed by hand. */
#include "sim_net_fixture.h"

#define RATE ((uint64_t)MIB) /* bytes a second of a link */
#define STREAMS_MAX 2

/*
 * Senders that each send `bytes` to one receiver. Sender i is behind the link up[i], the receiver behind `down`.
 */
struct lines {
	struct sim_config config;
	struct sim *sim;
	struct sim_link *up[STREAMS_MAX], *down;
	unsigned senders, ended;
	uint64_t bytes, took_ns, hash, carried[STREAMS_MAX];
};

static void sink_fiber(void *arg)
{
	struct rt_sock *s = arg;
	uint8_t buf[10000];
	while (rt_sock_recv(s, buf, sizeof(buf), 1) > 0)
		;
	rt_sock_close(s);
}

static void sink_main(void *arg)
{
	struct lines *l = arg;
	struct rt_listener *li = must_listen("*:7000");
	struct rt_fiber *fibers[STREAMS_MAX];
	uint64_t begin = rt_now_ns();
	for (unsigned i = 0; i < l->senders; i++)
		CHECK_EQ(rt_spawn(&fibers[i], "sink", sink_fiber, must_accept(li)), 0);
	for (unsigned i = 0; i < l->senders; i++) {
		rt_join(fibers[i]);
		l->took_ns = rt_now_ns() - begin;
		l->ended++;
	}
	rt_listener_close(li);
	rt_shutdown_wait();
}

static void source_main(void *arg)
{
	struct lines *l = arg;
	struct rt_sock *s;
	int rc;
	while ((rc = rt_connect(&s, "sink:7000")) == -ECONNREFUSED)
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	CHECK_EQ(rc, 0);
	CHECK_EQ(send_stream(s, 0, l->bytes), 0);
	rt_sock_close(s);
	rt_shutdown_wait();
}

static bool all_ended(void *arg)
{
	const struct lines *l = arg;
	return l->ended == l->senders;
}

static void lines_open(struct lines *l, unsigned senders, uint64_t bytes)
{
	*l = (struct lines){.senders = senders, .bytes = bytes};
	sim_config_init(&l->config, 7, 0);
	l->sim = sim_open(&l->config);
	assert_non_null(l->sim);
}

static void lines_run(struct lines *l)
{
	struct sim_node *sink = sim_node_add(l->sim, "sink", 0);
	if (l->down != NULL)
		sim_node_behind(sink, l->down);
	sim_node_start(sink, sink_main, l);
	for (unsigned i = 0; i < l->senders; i++) {
		char name[32];
		snprintf(name, sizeof(name), "source%u", i);
		struct sim_node *n = sim_node_add(l->sim, name, i + 1);
		if (l->up[i] != NULL)
			sim_node_behind(n, l->up[i]);
		sim_node_start(n, source_main, l);
	}
	assert_true(sim_run_until(l->sim, all_ended, l, 10 * MINUTE));
	for (unsigned i = 0; i < l->senders; i++)
		l->carried[i] = l->up[i] != NULL ? sim_link_bytes(l->up[i], SIM_UP) : 0;
	l->hash = sim_trace_hash(l->sim);
	sim_close(l->sim);
}

/* Packets have at least 1 KiB on average, so that their heads of 64 bytes are less than 7 %. */
static void assert_takes(const struct lines *l, double seconds)
{
	double took = (double)l->took_ns / NS_PER_S;
	if (took < seconds || took > 1.07 * seconds + 0.01)
		fail_msg("%.3f s, expected %.3f s", took, seconds);
}

static void a_stream_takes_its_bytes_over_the_cap(void **state)
{
	(void)state;
	struct lines l;
	lines_open(&l, 1, 3 * RATE);
	l.up[0] = sim_link_add(l.sim, NULL, RATE);
	lines_run(&l);
	assert_takes(&l, 3);
	assert_int_equal(l.carried[0], 3 * RATE);
}

static void a_receiver_has_a_cap_too(void **state)
{
	(void)state;
	struct lines l;
	lines_open(&l, 2, 2 * RATE);
	l.down = sim_link_add(l.sim, NULL, RATE);
	lines_run(&l);
	assert_takes(&l, 4);
}

static void nodes_behind_one_link_share_it(void **state)
{
	(void)state;
	struct lines l;
	lines_open(&l, 2, RATE);
	l.up[0] = l.up[1] = sim_link_add(l.sim, NULL, RATE);
	lines_run(&l);
	assert_takes(&l, 2);
}

static void nodes_behind_two_links_do_not_share(void **state)
{
	(void)state;
	struct lines l;
	lines_open(&l, 2, RATE);
	l.up[0] = sim_link_add(l.sim, NULL, RATE);
	l.up[1] = sim_link_add(l.sim, NULL, RATE);
	lines_run(&l);
	assert_takes(&l, 1);
}

static void the_narrowest_link_on_the_way_decides(void **state)
{
	(void)state;
	struct lines l;
	lines_open(&l, 2, 2 * RATE);
	/* Two racks of RATE each, below a cluster of half of it. */
	struct sim_link *cluster = sim_link_add(l.sim, NULL, RATE / 2);
	l.up[0] = sim_link_add(l.sim, cluster, RATE);
	l.up[1] = sim_link_add(l.sim, cluster, RATE);
	lines_run(&l);
	assert_takes(&l, 8);
}

static void packets_cross_no_link_that_both_ends_are_behind(void **state)
{
	(void)state;
	struct lines l;
	lines_open(&l, 1, 2 * RATE);
	struct sim_link *cluster = sim_link_add(l.sim, NULL, RATE / 100);
	l.up[0] = sim_link_add(l.sim, cluster, RATE);
	l.down = sim_link_add(l.sim, cluster, 2 * RATE);
	lines_run(&l);
	assert_takes(&l, 2);
	lines_open(&l, 1, 100 * RATE);
	l.up[0] = l.down = sim_link_add(l.sim, NULL, RATE);
	lines_run(&l);
	assert_true(l.took_ns < 20 * NS_PER_S);
	assert_int_equal(l.carried[0], 0);
}

static void the_same_seed_gives_the_same_run_behind_links(void **state)
{
	(void)state;
	uint64_t hash[2];
	for (unsigned i = 0; i < 2; i++) {
		struct lines l;
		lines_open(&l, 2, RATE / 2);
		l.up[0] = l.up[1] = sim_link_add(l.sim, NULL, RATE);
		lines_run(&l);
		hash[i] = l.hash;
	}
	assert_int_equal(hash[0], hash[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_takes_its_bytes_over_the_cap),
		cmocka_unit_test(a_receiver_has_a_cap_too),
		cmocka_unit_test(nodes_behind_one_link_share_it),
		cmocka_unit_test(nodes_behind_two_links_do_not_share),
		cmocka_unit_test(the_narrowest_link_on_the_way_decides),
		cmocka_unit_test(packets_cross_no_link_that_both_ends_are_behind),
		cmocka_unit_test(the_same_seed_gives_the_same_run_behind_links),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
