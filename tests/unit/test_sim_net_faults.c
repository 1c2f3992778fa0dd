// SPDX-License-Identifier: Apache-2.0
/* Cuts of the simulated network, crashes of its nodes, and all faults together. */
#include "sim_net_fixture.h"

/* --- cuts and crashes -------------------------------------------------------------------------- */

/* Connects, signals the test, waits for its signal, sends, and waits for the end of the server's stream. */
static void use_in_steps(struct fixture *fx)
{
	struct rt_sock *s = must_connect();
	fx->client_rc = send_stream(s, 0, 100);
	fx->step = 1;
	while (fx->step == 1 && rt_sleep_ns(NS_PER_MS) == 0)
		continue;
	uint64_t start = rt_now_ns();
	if (fx->step == 2)
		fx->client_rc = send_stream(s, 100, fx->bytes);
	uint8_t buf[8];
	if (fx->client_rc == 0)
		fx->client_rc = rt_sock_recv(s, buf, sizeof(buf), 1);
	fx->at_ns = rt_now_ns() - start;
	rt_sock_close(s);
}

static void a_stream_across_a_lasting_cut_times_out(void **state)
{
	for (int how = 0; how < 3; how++) {
		struct fixture fx;
		fixture_open(&fx, 15, serve_quiet, use_in_steps);
		fx.bytes = 1000;
		fixture_start(&fx);
		fixture_until(&fx, step_one);
		sim_run(fx.sim, NS_PER_S);
		assert_int_equal(fx.received, 100);
		if (how == 0)
			sim_net_cut(fx.sim, fx.client, fx.server, true);
		else if (how == 1)
			sim_net_cut(fx.sim, fx.client, fx.server, false);
		else
			sim_net_cut(fx.sim, fx.server, fx.client, false);
		fx.step = 2;
		fixture_until(&fx, client_done);
		assert_int_equal(fx.client_rc, -ETIMEDOUT);
		assert_in_range(fx.at_ns, 15 * NS_PER_S, 21 * NS_PER_S);
		/* One way only: the bytes arrive, but their acknowledgement does not. */
		assert_int_equal(fx.received, how == 2 ? 1000 : 100);
		assert_int_equal(fx.wrong_bits, 0);
		fixture_close(&fx);
	}
}

static void a_stream_across_a_short_cut_goes_on(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 16, serve_quiet, use_in_steps);
	fx.bytes = 100000;
	fixture_start(&fx);
	fixture_until(&fx, step_one);
	sim_net_cut(fx.sim, fx.client, fx.server, true);
	fx.step = 2;
	sim_run(fx.sim, 8 * NS_PER_S);
	assert_int_not_equal(fx.received, fx.bytes);
	sim_net_heal(fx.sim);
	sim_run(fx.sim, 8 * NS_PER_S);
	assert_int_equal(fx.received, fx.bytes);
	assert_int_equal(fx.wrong_bits, 0);
	fixture_close(&fx);
}

static void a_killed_process_ends_its_streams_at_once(void **state)
{
	unsigned ended = 0, reset = 0;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct fixture fx;
		fixture_open(&fx, seed, serve_quiet, use_in_steps);
		fixture_start(&fx);
		fixture_until(&fx, step_one);
		sim_run(fx.sim, NS_PER_S);
		fx.step = 3; /* the client does not send, so its receive fails */
		sim_run(fx.sim, NS_PER_S);
		assert_false(fx.used);
		sim_node_crash(fx.server, false);
		sim_run(fx.sim, 10 * NS_PER_MS);
		assert_true(fx.used);
		ended += fx.client_rc == 0;
		reset += fx.client_rc == -ECONNRESET;
		fixture_close(&fx);
	}
	assert_true(ended > 0 && reset > 0 && ended + reset == 20);
}

static void a_dark_node_is_silent_and_resets_when_it_is_back(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 18, serve_quiet, use_in_steps);
	fx.config.restart_min_ns = 5 * NS_PER_S;
	fx.config.restart_max_ns = 5 * NS_PER_S;
	fx.bytes = 1000;
	fixture_start(&fx);
	fixture_until(&fx, step_one);
	sim_run(fx.sim, NS_PER_S);
	sim_node_crash(fx.server, true);
	fx.step = 2;
	sim_run(fx.sim, 4 * NS_PER_S);
	assert_false(fx.used);
	fixture_until(&fx, client_done);
	assert_int_equal(fx.client_rc, -ECONNRESET);
	assert_in_range(fx.at_ns, 5 * NS_PER_S, 12 * NS_PER_S);
	assert_int_equal(fx.received, 100);
	fixture_close(&fx);
}

static void a_waiting_receiver_gets_no_error_when_its_peer_loses_power(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 19, serve_quiet, use_in_steps);
	fixture_start(&fx);
	fixture_until(&fx, step_one);
	sim_run(fx.sim, NS_PER_S);
	sim_node_crash(fx.server, true);
	fx.step = 3;
	sim_run(fx.sim, 10 * MINUTE);
	assert_false(fx.used);
	fixture_close(&fx);
}

/* --- all faults together ------------------------------------------------------------------------ */

static void echo(void *arg)
{
	struct rt_sock *s = arg;
	uint8_t buf[5000];
	int64_t n;
	while ((n = rt_sock_recv(s, buf, sizeof(buf), 1)) > 0) {
		struct iovec iov = {.iov_base = buf, .iov_len = (size_t)n};
		if (rt_sock_sendv(s, &iov, 1) != 0)
			break;
	}
	rt_sock_close(s);
}

static void serve_echo(struct fixture *fx)
{
	struct rt_listener *li;
	struct rt_sock *s;
	if (rt_listen(&li, ADDR) != 0)
		return;
	while (rt_accept(li, &s) == 0)
		if (rt_spawn(NULL, "echo", echo, s) != 0)
			rt_sock_close(s);
	rt_listener_close(li);
}

static void echo_user(void *arg)
{
	struct fixture *fx = arg;
	uint8_t buf[20000] = {0};
	while (!rt_cancelled()) {
		struct rt_sock *s;
		if (rt_connect(&s, ADDR) != 0) {
			rt_sleep_ns(20 * NS_PER_MS);
			continue;
		}
		for (;;) {
			uint64_t len = 1 + rt_random_u64() % sizeof(buf);
			uint64_t before = rt_deadline_narrow(rt_now_ns() + 2 * NS_PER_S);
			int64_t n = send_stream(s, 0, len);
			if (n == 0)
				n = rt_sock_recv(s, buf, len, len);
			rt_deadline_set(before);
			if (n != (int64_t)len)
				break;
			fx->received++;
			for (uint64_t i = 0; i < len; i++)
				fx->wrong_bits +=
					(uint64_t)__builtin_popcount(buf[i] ^ stream_byte(i));
			rt_sleep_ns(20 * NS_PER_MS);
		}
		rt_sock_close(s);
	}
}

static void use_echo(struct fixture *fx)
{
	struct rt_group g;
	rt_group_init(&g);
	for (int i = 0; i < 3; i++)
		if (rt_group_spawn(&g, "user", echo_user, fx) != 0)
			break;
	rt_group_join(&g);
}

static uint64_t echo_hash(struct fixture *fx, uint64_t seed)
{
	fixture_open(fx, seed, serve_echo, use_echo);
	sim_config_init(&fx->config, seed, 10);
	fx->config.rate[SIM_NODE_LOSS] = 0;
	fx->config.rate[SIM_RACK_LOSS] = 0;
	fx->config.rate[SIM_CRASH_AT_WAIT] = 0.0005;
	fixture_start(fx);
	sim_run(fx->sim, 2 * NS_PER_S);
	uint64_t hash = sim_trace_hash(fx->sim);
	if (sim_fault_count(fx->sim, SIM_NET_CORRUPT) == 0)
		assert_int_equal(fx->wrong_bits, 0);
	fixture_close(fx);
	return hash;
}

static void same_seed_same_trace_under_every_fault(void **state)
{
	struct fixture fx;
	uint64_t last = 0, echoes = 0;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		uint64_t hash = echo_hash(&fx, seed);
		echoes += fx.received;
		assert_true(hash == echo_hash(&fx, seed));
		assert_true(hash != last);
		last = hash;
	}
	assert_true(echoes > 1000);
}

static void partitions_start_and_end(void **state)
{
	static const enum sim_fault faults[] = {SIM_NET_PARTITION, SIM_NET_ONE_WAY};
	for (size_t k = 0; k < 2; k++) {
		struct fixture fx;
		fixture_open(&fx, 21, serve_echo, use_echo);
		fx.config.rate[faults[k]] = 600;
		fixture_start(&fx);
		sim_run(fx.sim, MINUTE);
		assert_true(sim_fault_count(fx.sim, faults[k]) > 0);
		uint64_t with = fx.received;
		sim_faults_stop(fx.sim);
		sim_run(fx.sim, 20 * NS_PER_S); /* longer than the timeout of connections */
		fx.received = 0;
		sim_run(fx.sim, MINUTE);
		assert_true(with < fx.received * 3 / 4);
		assert_int_equal(fx.wrong_bits, 0);
		fixture_close(&fx);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_across_a_lasting_cut_times_out),
		cmocka_unit_test(a_stream_across_a_short_cut_goes_on),
		cmocka_unit_test(a_killed_process_ends_its_streams_at_once),
		cmocka_unit_test(a_dark_node_is_silent_and_resets_when_it_is_back),
		cmocka_unit_test(a_waiting_receiver_gets_no_error_when_its_peer_loses_power),
		cmocka_unit_test(same_seed_same_trace_under_every_fault),
		cmocka_unit_test(partitions_start_and_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
