// SPDX-License-Identifier: Apache-2.0
/* The simulated network, through the calls of rt: streams, their ends, addresses. */
#include "sim_net_fixture.h"

/* --- streams ----------------------------------------------------------------------------------- */

static void serve_stream(struct fixture *fx)
{
	struct rt_listener *li = must_listen("*:7000");
	struct rt_sock *s = must_accept(li);
	fx->server_rc = recv_stream(fx, s);
	rt_sock_close(s);
	rt_listener_close(li);
}

static void use_stream(struct fixture *fx)
{
	struct rt_sock *s = must_connect();
	CHECK(strcmp(rt_sock_peer(s), ADDR) == 0);
	fx->client_rc = send_stream(s, 0, fx->bytes);
	rt_sock_close(s);
}

static void a_stream_arrives_complete_and_then_ends(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 1, serve_stream, use_stream);
	fx.bytes = 3 * MIB + 17;
	fixture_run(&fx);
	assert_int_equal(fx.client_rc, 0);
	assert_int_equal(fx.server_rc, 0);
	assert_int_equal(fx.received, fx.bytes);
	assert_int_equal(fx.wrong_bits, 0);
}

static void lost_late_duplicate_and_reordered_packets_leave_the_stream_intact(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct fixture fx;
		fixture_open(&fx, seed, serve_stream, use_stream);
		fx.config.rate[SIM_NET_DROP] = 0.1;
		fx.config.rate[SIM_NET_DELAY] = 0.1;
		fx.config.rate[SIM_NET_DUPLICATE] = 0.1;
		fx.config.rate[SIM_NET_REORDER] = 0.1;
		fx.bytes = MIB;
		fixture_start(&fx);
		fixture_until(&fx, both_done);
		assert_true(sim_fault_count(fx.sim, SIM_NET_DROP) > 0);
		assert_true(sim_fault_count(fx.sim, SIM_NET_DELAY) > 0);
		assert_true(sim_fault_count(fx.sim, SIM_NET_DUPLICATE) > 0);
		assert_true(sim_fault_count(fx.sim, SIM_NET_REORDER) > 0);
		fixture_close(&fx);
		assert_int_equal(fx.client_rc, 0);
		assert_int_equal(fx.server_rc, 0);
		assert_int_equal(fx.received, fx.bytes);
		assert_int_equal(fx.wrong_bits, 0);
	}
}

static void corruption_flips_one_bit_each_time(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 3, serve_stream, use_stream);
	fx.config.rate[SIM_NET_CORRUPT] = 0.1;
	fx.bytes = MIB;
	fixture_start(&fx);
	fixture_until(&fx, both_done);
	assert_int_equal(fx.received, fx.bytes);
	assert_true(fx.wrong_bits > 0);
	assert_int_equal(fx.wrong_bits, sim_fault_count(fx.sim, SIM_NET_CORRUPT));
	fixture_close(&fx);
}

/* The server's end may not get the reset; then its next send fails. */
static void serve_reset(struct fixture *fx)
{
	struct rt_listener *li = must_listen(ADDR);
	struct rt_sock *s = must_accept(li);
	uint64_t before = rt_deadline_narrow(rt_now_ns() + 20 * NS_PER_S);
	fx->server_rc = recv_stream(fx, s);
	rt_deadline_set(before);
	if (fx->server_rc == -ETIME) {
		fx->step = 1;
		CHECK(send_stream(s, 0, 10) == 0);
		fx->server_rc = recv_stream(fx, s);
	}
	rt_sock_close(s);
	rt_listener_close(li);
}

/* Half of the clients keep the socket open; the connection is gone all the same. */
static void use_reset(struct fixture *fx)
{
	struct rt_sock *s = must_connect();
	fx->client_rc = send_stream(s, 0, fx->bytes);
	if (fx->config.seed % 2 == 0)
		CHECK(rt_sleep_ns(MINUTE) == 0);
	rt_sock_close(s);
}

static void a_reset_leaves_a_prefix(void **state)
{
	unsigned told = 0, not_told = 0;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct fixture fx;
		fixture_open(&fx, seed, serve_reset, use_reset);
		fx.config.rate[SIM_NET_RESET] = 0.01;
		fx.bytes = 10 * MIB;
		fixture_run(&fx);
		assert_int_equal(fx.client_rc, -ECONNRESET);
		assert_int_equal(fx.server_rc, -ECONNRESET);
		assert_true(fx.received < fx.bytes);
		assert_int_equal(fx.wrong_bits, 0);
		told |= fx.step == 0 ? 1U << seed % 2 : 0;
		not_told |= fx.step == 1 ? 1U << seed % 2 : 0;
	}
	assert_int_equal(told, 3);
	assert_int_equal(not_told, 3);
}

static void serve_stalled(struct fixture *fx)
{
	struct rt_listener *li = must_listen(ADDR);
	struct rt_sock *s = must_accept(li);
	CHECK(rt_sleep_ns(10 * NS_PER_S) == 0);
	fx->at_ns = fx->sent; /* bytes that the client sent before the first read */
	fx->server_rc = recv_stream(fx, s);
	rt_sock_close(s);
	rt_listener_close(li);
}

static void use_counting(struct fixture *fx)
{
	struct rt_sock *s = must_connect();
	while (fx->sent < fx->bytes) {
		CHECK(send_stream(s, fx->sent, fx->sent + 1000) == 0);
		fx->sent += 1000;
	}
	rt_sock_close(s);
}

static void a_reader_that_stalls_stops_the_sender(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 5, serve_stalled, use_counting);
	fx.bytes = 2000000;
	fixture_run(&fx);
	assert_in_range(fx.at_ns, 200 * KIB, 256 * KIB);
	assert_int_equal(fx.received, fx.bytes);
	assert_int_equal(fx.wrong_bits, 0);
}

static void serve_echo_min(struct fixture *fx)
{
	static uint8_t buf[300000];
	struct rt_listener *li = must_listen(ADDR);
	struct rt_sock *s = must_accept(li);
	CHECK(rt_sock_recv(s, buf, sizeof(buf), sizeof(buf)) == sizeof(buf));
	for (size_t i = 0; i < sizeof(buf); i++)
		CHECK(buf[i] == stream_byte(i));
	CHECK(rt_sock_recv(s, buf, 100, 100) == 50); /* the stream ends after 50 bytes */
	CHECK(rt_sock_recv(s, buf, 100, 1) == 0);
	CHECK(send_stream(s, 0, 1000) == 0);
	rt_sock_close(s);
	rt_listener_close(li);
}

static void use_echo_min(struct fixture *fx)
{
	struct rt_sock *s = must_connect();
	CHECK(send_stream(s, 0, 300050) == 0);
	rt_sock_close(s);
}

static void recv_waits_for_its_minimum_or_the_end(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 6, serve_echo_min, use_echo_min);
	fixture_run(&fx);
}

/* --- ending ------------------------------------------------------------------------------------ */

static void shut_later(void *arg)
{
	rt_sleep_ns(NS_PER_S);
	rt_sock_shutdown(arg);
	rt_sock_shutdown(arg);
}

static void use_shutdown(struct fixture *fx)
{
	struct rt_sock *s = must_connect();
	struct rt_fiber *f;
	uint8_t buf[8];
	CHECK(rt_spawn(&f, "shut", shut_later, s) == 0);
	fx->client_rc = rt_sock_recv(s, buf, sizeof(buf), 1);
	CHECK(fx->client_rc == 0);
	CHECK(send_stream(s, 0, 10) == -EPIPE);
	rt_join(f);
	CHECK(rt_spawn(&f, "shut", shut_later, s) == 0);
	rt_join(f);
	rt_sock_close(s);
}

static void shutdown_wakes_its_own_waiter_and_ends_the_peers_stream(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 7, serve_stream, use_shutdown);
	fixture_run(&fx);
	assert_int_equal(fx.server_rc, 0);
}

static void use_shutdown_sender(struct fixture *fx)
{
	struct rt_sock *s = must_connect();
	struct rt_fiber *f;
	CHECK(rt_spawn(&f, "shut", shut_later, s) == 0);
	fx->client_rc = send_stream(s, 0, 100 * MIB);
	rt_join(f);
	rt_sock_close(s);
}

static void shutdown_wakes_a_sender_that_waits_for_space(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 8, serve_stalled, use_shutdown_sender);
	fixture_run(&fx);
	assert_int_equal(fx.client_rc, -EPIPE);
	assert_int_equal(fx.server_rc, 0);
	assert_int_equal(fx.wrong_bits, 0);
}

static void serve_close_unread(struct fixture *fx)
{
	struct rt_listener *li = must_listen(ADDR);
	struct rt_sock *s = must_accept(li);
	CHECK(rt_sleep_ns(NS_PER_S) == 0);
	rt_sock_close(s);
	rt_listener_close(li);
}

static void use_send_and_wait(struct fixture *fx)
{
	struct rt_sock *s = must_connect();
	uint8_t buf[8];
	CHECK(send_stream(s, 0, 100) == 0);
	fx->client_rc = rt_sock_recv(s, buf, sizeof(buf), 1);
	rt_sock_close(s);
}

static void closing_with_bytes_unread_resets_the_peer(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 9, serve_close_unread, use_send_and_wait);
	fixture_run(&fx);
	assert_int_equal(fx.client_rc, -ECONNRESET);
}

static void use_silence(struct fixture *fx)
{
	struct rt_sock *s = must_connect();
	struct rt_listener *li = must_listen("client:1");
	struct rt_sock *t;
	uint8_t buf[8];
	uint64_t start = rt_now_ns();
	uint64_t before = rt_deadline_narrow(start + NS_PER_S);
	CHECK(rt_sock_recv(s, buf, sizeof(buf), 1) == -ETIME);
	CHECK(rt_now_ns() - start < NS_PER_S + 10 * NS_PER_MS);
	CHECK(rt_accept(li, &t) == -ETIME && rt_connect(&t, ADDR) == -ETIME);
	rt_deadline_set(rt_now_ns() + NS_PER_S);
	CHECK(rt_accept(li, &t) == -ETIME);
	rt_deadline_set(rt_now_ns() + NS_PER_S);
	CHECK(send_stream(s, 0, 100 * MIB) == -ETIME);
	rt_deadline_set(before);
	rt_listener_close(li);
	rt_sock_close(s);
}

static void waits_end_with_their_deadline(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 10, serve_stalled, use_silence);
	fixture_run(&fx);
	assert_int_equal(fx.wrong_bits, 0);
}

/* --- addresses and connecting ------------------------------------------------------------------ */

static void serve_nothing(struct fixture *fx)
{
}

static void use_addresses(struct fixture *fx)
{
	static const char *const bad[] = {
		"",          "server", ":7000", "server:",   "server:x",     "server:70000",
		"server:1x", "unix:",  "a:b:1", "server:-1", "server:000001"};
	struct rt_listener *li, *other;
	struct rt_sock *s, *t;
	char long_addr[200];
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		CHECK(rt_connect(&s, bad[i]) == -EINVAL);
		CHECK(rt_listen(&li, bad[i]) == -EINVAL);
	}
	memset(long_addr, 'x', sizeof(long_addr));
	memcpy(long_addr + 190, ":1", 3);
	CHECK(rt_connect(&s, long_addr) == -EINVAL);
	CHECK(rt_connect(&s, "server:0") == -EINVAL && rt_connect(&s, "*:1") == -EINVAL);
	CHECK(rt_connect(&s, "nobody:1") == -EHOSTUNREACH);
	CHECK(rt_connect(&s, "server:1") == -ECONNREFUSED);
	CHECK(rt_connect(&s, "unix:/run/x") == -ECONNREFUSED);
	CHECK(rt_listen(&li, "server:1") == -EADDRNOTAVAIL);
	CHECK(rt_listen(&li, "nobody:1") == -EADDRNOTAVAIL);
	li = must_listen("*:5");
	CHECK(strcmp(rt_listener_addr(li), "client:5") == 0);
	CHECK(rt_listen(&other, "client:5") == -EADDRINUSE);
	CHECK(rt_listen(&other, "0.0.0.0:5") == -EADDRINUSE);
	rt_listener_close(li);
	li = must_listen("client:0");
	other = must_listen("client:0");
	CHECK(strcmp(rt_listener_addr(li), rt_listener_addr(other)) != 0);
	rt_listener_close(other);
	CHECK(rt_connect(&s, rt_listener_addr(li)) == 0);
	t = must_accept(li);
	CHECK(send_stream(s, 0, 5000) == 0);
	rt_sock_close(s);
	CHECK(recv_stream(fx, t) == 0 && fx->received == 5000 && fx->wrong_bits == 0);
	rt_sock_close(t);
	rt_listener_close(li);
	li = must_listen("unix:/run/x");
	CHECK(rt_listen(&other, "unix:/run/x") == -EADDRINUSE);
	CHECK(rt_connect(&s, "unix:/run/x") == 0);
	t = must_accept(li);
	rt_sock_close(s);
	CHECK(recv_stream(fx, t) == 0);
	rt_sock_close(t);
	rt_listener_close(li);
}

static void addresses_are_checked_and_found(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 11, serve_nothing, use_addresses);
	fixture_run(&fx);
}

static void use_connect_once(struct fixture *fx)
{
	struct rt_sock *s;
	uint64_t start = rt_now_ns();
	fx->client_rc = rt_connect(&s, ADDR);
	fx->at_ns = rt_now_ns() - start;
	if (fx->client_rc == 0)
		rt_sock_close(s);
}

static void connecting_to_a_cut_off_or_dark_node_times_out(void **state)
{
	for (int how = 0; how < 4; how++) {
		struct fixture fx;
		fixture_open(&fx, 12, serve_quiet, use_connect_once);
		fixture_sim_open(&fx);
		fx.server = sim_node_add(fx.sim, "server", 0);
		fx.client = sim_node_add(fx.sim, "client", 0);
		if (how != 0)
			sim_node_start(fx.server, server_main, &fx);
		sim_run(fx.sim, NS_PER_S);
		if (how == 1)
			sim_net_cut(fx.sim, fx.client, fx.server, false);
		if (how == 2)
			sim_net_cut(fx.sim, fx.server, fx.client, false);
		if (how == 3) {
			sim_node_stop(fx.server);
			sim_node_crash(fx.server, true);
		}
		sim_node_start(fx.client, client_main, &fx);
		fixture_until(&fx, client_done);
		assert_int_equal(fx.client_rc, -ETIMEDOUT);
		assert_in_range(fx.at_ns, 2900 * NS_PER_MS, 3100 * NS_PER_MS);
		fixture_close(&fx);
	}
}

static void a_machine_without_its_process_refuses(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 13, serve_quiet, use_connect_once);
	fixture_sim_open(&fx);
	fx.server = sim_node_add(fx.sim, "server", 0);
	fx.client = sim_node_add(fx.sim, "client", 0);
	sim_node_start(fx.server, server_main, &fx);
	sim_run(fx.sim, NS_PER_S);
	sim_node_stop(fx.server);
	sim_node_crash(fx.server, false);
	sim_node_start(fx.client, client_main, &fx);
	fixture_until(&fx, client_done);
	assert_int_equal(fx.client_rc, -ECONNREFUSED);
	fixture_close(&fx);
}

static void serve_no_accept(struct fixture *fx)
{
	struct rt_listener *li = must_listen(ADDR);
	while (fx->step == 0)
		CHECK(rt_sleep_ns(NS_PER_S) == 0);
	for (int i = 0; i < 128; i++)
		rt_sock_close(must_accept(li));
	rt_listener_close(li);
}

static void use_many(struct fixture *fx)
{
	struct rt_sock *socks[128], *s;
	CHECK(rt_sleep_ns(NS_PER_S) == 0);
	for (int i = 0; i < 128; i++)
		CHECK(rt_connect(&socks[i], ADDR) == 0);
	CHECK(rt_sleep_ns(NS_PER_S) == 0);
	CHECK(rt_connect(&s, ADDR) == -ETIMEDOUT);
	fx->step = 1;
	for (int i = 0; i < 128; i++) {
		CHECK(recv_stream(fx, socks[i]) == 0);
		rt_sock_close(socks[i]);
	}
}

static void a_full_backlog_takes_no_more(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 14, serve_no_accept, use_many);
	fixture_run(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_arrives_complete_and_then_ends),
		cmocka_unit_test(lost_late_duplicate_and_reordered_packets_leave_the_stream_intact),
		cmocka_unit_test(corruption_flips_one_bit_each_time),
		cmocka_unit_test(a_reset_leaves_a_prefix),
		cmocka_unit_test(a_reader_that_stalls_stops_the_sender),
		cmocka_unit_test(recv_waits_for_its_minimum_or_the_end),
		cmocka_unit_test(shutdown_wakes_its_own_waiter_and_ends_the_peers_stream),
		cmocka_unit_test(shutdown_wakes_a_sender_that_waits_for_space),
		cmocka_unit_test(closing_with_bytes_unread_resets_the_peer),
		cmocka_unit_test(waits_end_with_their_deadline),
		cmocka_unit_test(addresses_are_checked_and_found),
		cmocka_unit_test(connecting_to_a_cut_off_or_dark_node_times_out),
		cmocka_unit_test(a_machine_without_its_process_refuses),
		cmocka_unit_test(a_full_backlog_takes_no_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
