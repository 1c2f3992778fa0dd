// SPDX-License-Identifier: Apache-2.0
/* The simulated network, through the calls that programs use: a server node and a client node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/rng.h"
#include "rt/net.h"
#include "rt/rt.h"
#include "rt/sim.h"

#define ADDR "server:7000"
#define MINUTE (60 * NS_PER_S)

struct lab {
	struct sim_config config;
	struct sim *sim;
	struct sim_node *server;
	struct sim_node *client;
	void (*serve)(struct lab *lab);
	void (*use)(struct lab *lab);
	bool served;
	bool used;
	/* for the programs' use */
	uint64_t bytes;
	uint64_t sent;
	uint64_t received;
	uint64_t wrong_bits;
	int64_t server_rc;
	int64_t client_rc;
	uint64_t at_ns;
	int step;
};

/* A failed check in a fiber cannot jump back to the test. */
#define CHECK(cond)                                                                   \
	do {                                                                          \
		if (!(cond)) {                                                        \
			fprintf(stderr, "%s:%d: seed %llu: %s\n", __FILE__, __LINE__, \
				(unsigned long long)lab->config.seed, #cond);         \
			sim_trace_print(lab->sim, stderr, 40);                        \
			abort();                                                      \
		}                                                                     \
	} while (0)

static void server_main(void *arg)
{
	struct lab *lab = arg;
	if (lab->serve != NULL)
		lab->serve(lab);
	lab->served = true;
	rt_shutdown_wait();
}

static void client_main(void *arg)
{
	struct lab *lab = arg;
	lab->use(lab);
	lab->used = true;
	rt_shutdown_wait();
}

static void lab_open(struct lab *lab, uint64_t seed, void (*serve)(struct lab *),
		     void (*use)(struct lab *))
{
	*lab = (struct lab){.serve = serve, .use = use};
	sim_config_init(&lab->config, seed, 0);
}

static void lab_start(struct lab *lab)
{
	lab->sim = sim_open(&lab->config);
	assert_non_null(lab->sim);
	lab->server = sim_node_add(lab->sim, "server", 0);
	lab->client = sim_node_add(lab->sim, "client", 1);
	sim_node_start(lab->server, server_main, lab);
	sim_node_start(lab->client, client_main, lab);
}

static bool both_done(void *arg)
{
	struct lab *lab = arg;
	return lab->served && lab->used;
}

static bool client_done(void *arg)
{
	return ((struct lab *)arg)->used;
}

static bool step_one(void *arg)
{
	return ((struct lab *)arg)->step >= 1;
}

static void lab_until(struct lab *lab, bool (*done)(void *))
{
	if (!sim_run_until(lab->sim, done, lab, 10 * MINUTE)) {
		fprintf(stderr, "seed %llu\n", (unsigned long long)lab->config.seed);
		sim_trace_print(lab->sim, stderr, 40);
		fail_msg("the programs do not end");
	}
}

static void lab_run(struct lab *lab)
{
	lab_start(lab);
	lab_until(lab, both_done);
	sim_close(lab->sim);
}

/* The byte of the test's stream at a place. */
static uint8_t stream_byte(uint64_t at)
{
	return (uint8_t)(mix_u64(at / 8) >> (at % 8 * 8));
}

static int send_stream(struct rt_sock *s, uint64_t from, uint64_t to)
{
	uint8_t buf[30000];
	while (from < to) {
		size_t len = (size_t)min_u64(to - from, sizeof(buf));
		for (size_t i = 0; i < len; i++)
			buf[i] = stream_byte(from + i);
		struct iovec iov[3] = {{.iov_base = buf, .iov_len = len / 3},
				       {.iov_base = buf, .iov_len = 0},
				       {.iov_base = buf + len / 3, .iov_len = len - len / 3}};
		int rc = rt_sock_sendv(s, iov, 3);
		if (rc != 0)
			return rc;
		from += len;
	}
	return 0;
}

/* Receives to the end of the stream or an error, counting; returns 0 or the error. */
static int64_t recv_stream(struct lab *lab, struct rt_sock *s)
{
	uint8_t buf[10000];
	for (;;) {
		int64_t n = rt_sock_recv(s, buf, sizeof(buf), 1);
		if (n <= 0)
			return n;
		for (int64_t i = 0; i < n; i++)
			lab->wrong_bits += (uint64_t)__builtin_popcount(
				buf[i] ^ stream_byte(lab->received + (uint64_t)i));
		lab->received += (uint64_t)n;
	}
}

static struct rt_listener *must_listen(struct lab *lab, const char *addr)
{
	struct rt_listener *li;
	int rc = rt_listen(&li, addr);
	CHECK(rc == 0);
	return li;
}

static struct rt_sock *must_accept(struct lab *lab, struct rt_listener *li)
{
	struct rt_sock *s;
	CHECK(rt_accept(li, &s) == 0);
	return s;
}

/* The server may be a little later. */
static struct rt_sock *must_connect(struct lab *lab)
{
	struct rt_sock *s;
	int rc;
	while ((rc = rt_connect(&s, ADDR)) == -ECONNREFUSED)
		CHECK(rt_sleep_ns(NS_PER_MS) == 0);
	CHECK(rc == 0);
	return s;
}

/* --- streams ----------------------------------------------------------------------------------- */

static void serve_stream(struct lab *lab)
{
	struct rt_listener *li = must_listen(lab, "*:7000");
	struct rt_sock *s = must_accept(lab, li);
	lab->server_rc = recv_stream(lab, s);
	rt_sock_close(s);
	rt_listener_close(li);
}

static void use_stream(struct lab *lab)
{
	struct rt_sock *s = must_connect(lab);
	CHECK(strcmp(rt_sock_peer(s), ADDR) == 0);
	lab->client_rc = send_stream(s, 0, lab->bytes);
	rt_sock_close(s);
}

static void a_stream_arrives_whole_and_then_ends(void **state)
{
	struct lab lab;
	lab_open(&lab, 1, serve_stream, use_stream);
	lab.bytes = 3 * MIB + 17;
	lab_run(&lab);
	assert_int_equal(lab.client_rc, 0);
	assert_int_equal(lab.server_rc, 0);
	assert_int_equal(lab.received, lab.bytes);
	assert_int_equal(lab.wrong_bits, 0);
}

static void lost_late_doubled_and_reordered_packets_do_not_show(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct lab lab;
		lab_open(&lab, seed, serve_stream, use_stream);
		lab.config.rate[SIM_NET_DROP] = 0.1;
		lab.config.rate[SIM_NET_DELAY] = 0.1;
		lab.config.rate[SIM_NET_DUPLICATE] = 0.1;
		lab.config.rate[SIM_NET_REORDER] = 0.1;
		lab.bytes = MIB;
		lab_start(&lab);
		lab_until(&lab, both_done);
		assert_true(sim_fault_count(lab.sim, SIM_NET_DROP) > 0);
		assert_true(sim_fault_count(lab.sim, SIM_NET_DELAY) > 0);
		assert_true(sim_fault_count(lab.sim, SIM_NET_DUPLICATE) > 0);
		assert_true(sim_fault_count(lab.sim, SIM_NET_REORDER) > 0);
		sim_close(lab.sim);
		assert_int_equal(lab.client_rc, 0);
		assert_int_equal(lab.server_rc, 0);
		assert_int_equal(lab.received, lab.bytes);
		assert_int_equal(lab.wrong_bits, 0);
	}
}

static void corruption_flips_one_bit_each_time(void **state)
{
	struct lab lab;
	lab_open(&lab, 3, serve_stream, use_stream);
	lab.config.rate[SIM_NET_CORRUPT] = 0.1;
	lab.bytes = MIB;
	lab_start(&lab);
	lab_until(&lab, both_done);
	assert_int_equal(lab.received, lab.bytes);
	assert_true(lab.wrong_bits > 0);
	assert_int_equal(lab.wrong_bits, sim_fault_count(lab.sim, SIM_NET_CORRUPT));
	sim_close(lab.sim);
}

/* The server's end may not hear of a reset: then its own send finds out. */
static void serve_reset(struct lab *lab)
{
	struct rt_listener *li = must_listen(lab, ADDR);
	struct rt_sock *s = must_accept(lab, li);
	uint64_t before = rt_deadline_narrow(rt_now_ns() + 20 * NS_PER_S);
	lab->server_rc = recv_stream(lab, s);
	rt_deadline_set(before);
	if (lab->server_rc == -ETIME) {
		lab->step = 1;
		CHECK(send_stream(s, 0, 10) == 0);
		lab->server_rc = recv_stream(lab, s);
	}
	rt_sock_close(s);
	rt_listener_close(li);
}

static void a_reset_leaves_a_prefix(void **state)
{
	unsigned told = 0, not_told = 0;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct lab lab;
		lab_open(&lab, seed, serve_reset, use_stream);
		lab.config.rate[SIM_NET_RESET] = 0.01;
		lab.bytes = 10 * MIB;
		lab_run(&lab);
		assert_int_equal(lab.client_rc, -ECONNRESET);
		assert_int_equal(lab.server_rc, -ECONNRESET);
		assert_true(lab.received < lab.bytes);
		assert_int_equal(lab.wrong_bits, 0);
		told += lab.step == 0;
		not_told += lab.step == 1;
	}
	assert_true(told > 0 && not_told > 0);
}

static void serve_stalled(struct lab *lab)
{
	struct rt_listener *li = must_listen(lab, ADDR);
	struct rt_sock *s = must_accept(lab, li);
	CHECK(rt_sleep_ns(10 * NS_PER_S) == 0);
	lab->at_ns = lab->sent; /* what the client could send before anything was read */
	lab->server_rc = recv_stream(lab, s);
	rt_sock_close(s);
	rt_listener_close(li);
}

static void use_counting(struct lab *lab)
{
	struct rt_sock *s = must_connect(lab);
	while (lab->sent < lab->bytes) {
		CHECK(send_stream(s, lab->sent, lab->sent + 1000) == 0);
		lab->sent += 1000;
	}
	rt_sock_close(s);
}

static void a_reader_that_stalls_stops_the_sender(void **state)
{
	struct lab lab;
	lab_open(&lab, 5, serve_stalled, use_counting);
	lab.bytes = 2000000;
	lab_run(&lab);
	assert_in_range(lab.at_ns, 200 * KIB, 256 * KIB);
	assert_int_equal(lab.received, lab.bytes);
	assert_int_equal(lab.wrong_bits, 0);
}

static void serve_echo_min(struct lab *lab)
{
	static uint8_t buf[300000];
	struct rt_listener *li = must_listen(lab, ADDR);
	struct rt_sock *s = must_accept(lab, li);
	CHECK(rt_sock_recv(s, buf, sizeof(buf), sizeof(buf)) == sizeof(buf));
	for (size_t i = 0; i < sizeof(buf); i++)
		CHECK(buf[i] == stream_byte(i));
	CHECK(rt_sock_recv(s, buf, 100, 100) == 50); /* the stream ends before */
	CHECK(rt_sock_recv(s, buf, 100, 1) == 0);
	CHECK(send_stream(s, 0, 1000) == 0);
	rt_sock_close(s);
	rt_listener_close(li);
}

static void use_echo_min(struct lab *lab)
{
	struct rt_sock *s = must_connect(lab);
	CHECK(send_stream(s, 0, 300050) == 0);
	rt_sock_close(s);
}

static void recv_waits_for_its_minimum_or_the_end(void **state)
{
	struct lab lab;
	lab_open(&lab, 6, serve_echo_min, use_echo_min);
	lab_run(&lab);
}

/* --- ending ------------------------------------------------------------------------------------ */

static void shut_later(void *arg)
{
	rt_sleep_ns(NS_PER_S);
	rt_sock_shutdown(arg);
	rt_sock_shutdown(arg);
}

static void use_shutdown(struct lab *lab)
{
	struct rt_sock *s = must_connect(lab);
	struct rt_fiber *f;
	uint8_t buf[8];
	CHECK(rt_spawn(&f, "shut", shut_later, s) == 0);
	lab->client_rc = rt_sock_recv(s, buf, sizeof(buf), 1);
	CHECK(lab->client_rc == 0);
	CHECK(send_stream(s, 0, 10) == -EPIPE);
	rt_join(f);
	CHECK(rt_spawn(&f, "shut", shut_later, s) == 0);
	rt_join(f);
	rt_sock_close(s);
}

static void shutdown_wakes_its_own_waiter_and_ends_the_peers_stream(void **state)
{
	struct lab lab;
	lab_open(&lab, 7, serve_stream, use_shutdown);
	lab_run(&lab);
	assert_int_equal(lab.server_rc, 0);
}

static void use_shutdown_sender(struct lab *lab)
{
	struct rt_sock *s = must_connect(lab);
	struct rt_fiber *f;
	CHECK(rt_spawn(&f, "shut", shut_later, s) == 0);
	lab->client_rc = send_stream(s, 0, 100 * MIB);
	rt_join(f);
	rt_sock_close(s);
}

static void shutdown_wakes_a_sender_that_waits_for_space(void **state)
{
	struct lab lab;
	lab_open(&lab, 8, serve_stalled, use_shutdown_sender);
	lab_run(&lab);
	assert_int_equal(lab.client_rc, -EPIPE);
	assert_int_equal(lab.server_rc, 0);
	assert_int_equal(lab.wrong_bits, 0);
}

static void serve_close_unread(struct lab *lab)
{
	struct rt_listener *li = must_listen(lab, ADDR);
	struct rt_sock *s = must_accept(lab, li);
	CHECK(rt_sleep_ns(NS_PER_S) == 0);
	rt_sock_close(s);
	rt_listener_close(li);
}

static void use_send_and_wait(struct lab *lab)
{
	struct rt_sock *s = must_connect(lab);
	uint8_t buf[8];
	CHECK(send_stream(s, 0, 100) == 0);
	lab->client_rc = rt_sock_recv(s, buf, sizeof(buf), 1);
	rt_sock_close(s);
}

static void closing_with_bytes_unread_resets_the_peer(void **state)
{
	struct lab lab;
	lab_open(&lab, 9, serve_close_unread, use_send_and_wait);
	lab_run(&lab);
	assert_int_equal(lab.client_rc, -ECONNRESET);
}

static void use_silence(struct lab *lab)
{
	struct rt_sock *s = must_connect(lab);
	struct rt_listener *li = must_listen(lab, "client:1");
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
	struct lab lab;
	lab_open(&lab, 10, serve_stalled, use_silence);
	lab_run(&lab);
	assert_int_equal(lab.wrong_bits, 0);
}

/* --- addresses and connecting ------------------------------------------------------------------ */

static void serve_nothing(struct lab *lab)
{
}

static void use_addresses(struct lab *lab)
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
	li = must_listen(lab, "*:5");
	CHECK(strcmp(rt_listener_addr(li), "client:5") == 0);
	CHECK(rt_listen(&other, "client:5") == -EADDRINUSE);
	CHECK(rt_listen(&other, "0.0.0.0:5") == -EADDRINUSE);
	rt_listener_close(li);
	li = must_listen(lab, "client:0");
	other = must_listen(lab, "client:0");
	CHECK(strcmp(rt_listener_addr(li), rt_listener_addr(other)) != 0);
	rt_listener_close(other);
	CHECK(rt_connect(&s, rt_listener_addr(li)) == 0);
	t = must_accept(lab, li);
	CHECK(send_stream(s, 0, 5000) == 0);
	rt_sock_close(s);
	CHECK(recv_stream(lab, t) == 0 && lab->received == 5000 && lab->wrong_bits == 0);
	rt_sock_close(t);
	rt_listener_close(li);
	li = must_listen(lab, "unix:/run/x");
	CHECK(rt_listen(&other, "unix:/run/x") == -EADDRINUSE);
	CHECK(rt_connect(&s, "unix:/run/x") == 0);
	t = must_accept(lab, li);
	rt_sock_close(s);
	CHECK(recv_stream(lab, t) == 0);
	rt_sock_close(t);
	rt_listener_close(li);
}

static void addresses_are_checked_and_found(void **state)
{
	struct lab lab;
	lab_open(&lab, 11, serve_nothing, use_addresses);
	lab_run(&lab);
}

/* Accepts for ever, one stream after the other. */
static void serve_quiet(struct lab *lab)
{
	struct rt_listener *li = must_listen(lab, ADDR);
	struct rt_sock *s;
	while (rt_accept(li, &s) == 0) {
		lab->server_rc = recv_stream(lab, s);
		rt_sock_close(s);
	}
	rt_listener_close(li);
}

static void use_connect_once(struct lab *lab)
{
	struct rt_sock *s;
	uint64_t start = rt_now_ns();
	lab->client_rc = rt_connect(&s, ADDR);
	lab->at_ns = rt_now_ns() - start;
	if (lab->client_rc == 0)
		rt_sock_close(s);
}

static void connecting_to_a_cut_off_or_dark_node_times_out(void **state)
{
	for (int how = 0; how < 4; how++) {
		struct lab lab;
		lab_open(&lab, 12, serve_quiet, use_connect_once);
		lab.sim = sim_open(&lab.config);
		lab.server = sim_node_add(lab.sim, "server", 0);
		lab.client = sim_node_add(lab.sim, "client", 0);
		if (how != 0)
			sim_node_start(lab.server, server_main, &lab);
		sim_run(lab.sim, NS_PER_S);
		if (how == 1)
			sim_net_cut(lab.sim, lab.client, lab.server, false);
		if (how == 2)
			sim_net_cut(lab.sim, lab.server, lab.client, false);
		if (how == 3) {
			sim_node_stop(lab.server);
			sim_node_crash(lab.server, true);
		}
		sim_node_start(lab.client, client_main, &lab);
		lab_until(&lab, client_done);
		assert_int_equal(lab.client_rc, -ETIMEDOUT);
		assert_in_range(lab.at_ns, 2900 * NS_PER_MS, 3100 * NS_PER_MS);
		sim_close(lab.sim);
	}
}

static void a_machine_without_its_process_refuses(void **state)
{
	struct lab lab;
	lab_open(&lab, 13, serve_quiet, use_connect_once);
	lab.sim = sim_open(&lab.config);
	lab.server = sim_node_add(lab.sim, "server", 0);
	lab.client = sim_node_add(lab.sim, "client", 0);
	sim_node_start(lab.server, server_main, &lab);
	sim_run(lab.sim, NS_PER_S);
	sim_node_stop(lab.server);
	sim_node_crash(lab.server, false);
	sim_node_start(lab.client, client_main, &lab);
	lab_until(&lab, client_done);
	assert_int_equal(lab.client_rc, -ECONNREFUSED);
	sim_close(lab.sim);
}

static void serve_no_accept(struct lab *lab)
{
	struct rt_listener *li = must_listen(lab, ADDR);
	while (lab->step == 0)
		CHECK(rt_sleep_ns(NS_PER_S) == 0);
	for (int i = 0; i < 128; i++)
		rt_sock_close(must_accept(lab, li));
	rt_listener_close(li);
}

static void use_many(struct lab *lab)
{
	struct rt_sock *socks[128], *s;
	CHECK(rt_sleep_ns(NS_PER_S) == 0);
	for (int i = 0; i < 128; i++)
		CHECK(rt_connect(&socks[i], ADDR) == 0);
	CHECK(rt_sleep_ns(NS_PER_S) == 0);
	CHECK(rt_connect(&s, ADDR) == -ETIMEDOUT);
	lab->step = 1;
	for (int i = 0; i < 128; i++) {
		CHECK(recv_stream(lab, socks[i]) == 0);
		rt_sock_close(socks[i]);
	}
}

static void a_full_backlog_takes_no_more(void **state)
{
	struct lab lab;
	lab_open(&lab, 14, serve_no_accept, use_many);
	lab_run(&lab);
}

/* --- cuts and crashes -------------------------------------------------------------------------- */

/* Connects, tells the test, waits to be told, sends, and waits for the end of the other stream. */
static void use_in_steps(struct lab *lab)
{
	struct rt_sock *s = must_connect(lab);
	lab->client_rc = send_stream(s, 0, 100);
	lab->step = 1;
	while (lab->step == 1 && rt_sleep_ns(NS_PER_MS) == 0)
		continue;
	uint64_t start = rt_now_ns();
	if (lab->step == 2)
		lab->client_rc = send_stream(s, 100, lab->bytes);
	uint8_t buf[8];
	if (lab->client_rc == 0)
		lab->client_rc = rt_sock_recv(s, buf, sizeof(buf), 1);
	lab->at_ns = rt_now_ns() - start;
	rt_sock_close(s);
}

static void a_stream_across_a_lasting_cut_times_out(void **state)
{
	for (int how = 0; how < 3; how++) {
		struct lab lab;
		lab_open(&lab, 15, serve_quiet, use_in_steps);
		lab.bytes = 1000;
		lab_start(&lab);
		lab_until(&lab, step_one);
		sim_run(lab.sim, NS_PER_S);
		assert_int_equal(lab.received, 100);
		if (how == 0)
			sim_net_cut(lab.sim, lab.client, lab.server, true);
		else if (how == 1)
			sim_net_cut(lab.sim, lab.client, lab.server, false);
		else
			sim_net_cut(lab.sim, lab.server, lab.client, false);
		lab.step = 2;
		lab_until(&lab, client_done);
		assert_int_equal(lab.client_rc, -ETIMEDOUT);
		assert_in_range(lab.at_ns, 15 * NS_PER_S, 21 * NS_PER_S);
		/* One way only: the bytes arrive, but the client never learns. */
		assert_int_equal(lab.received, how == 2 ? 1000 : 100);
		assert_int_equal(lab.wrong_bits, 0);
		sim_close(lab.sim);
	}
}

static void a_stream_across_a_short_cut_goes_on(void **state)
{
	struct lab lab;
	lab_open(&lab, 16, serve_quiet, use_in_steps);
	lab.bytes = 100000;
	lab_start(&lab);
	lab_until(&lab, step_one);
	sim_net_cut(lab.sim, lab.client, lab.server, true);
	lab.step = 2;
	sim_run(lab.sim, 8 * NS_PER_S);
	assert_int_not_equal(lab.received, lab.bytes);
	sim_net_heal(lab.sim);
	sim_run(lab.sim, 8 * NS_PER_S);
	assert_int_equal(lab.received, lab.bytes);
	assert_int_equal(lab.wrong_bits, 0);
	sim_close(lab.sim);
}

static void a_killed_process_ends_its_streams_at_once(void **state)
{
	unsigned ended = 0, reset = 0;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct lab lab;
		lab_open(&lab, seed, serve_quiet, use_in_steps);
		lab_start(&lab);
		lab_until(&lab, step_one);
		sim_run(lab.sim, NS_PER_S);
		lab.step = 3; /* does not send: hears of it while it waits */
		sim_run(lab.sim, NS_PER_S);
		assert_false(lab.used);
		sim_node_crash(lab.server, false);
		sim_run(lab.sim, 10 * NS_PER_MS);
		assert_true(lab.used);
		ended += lab.client_rc == 0;
		reset += lab.client_rc == -ECONNRESET;
		sim_close(lab.sim);
	}
	assert_true(ended > 0 && reset > 0 && ended + reset == 20);
}

static void a_dark_node_is_silent_and_resets_when_it_is_back(void **state)
{
	struct lab lab;
	lab_open(&lab, 18, serve_quiet, use_in_steps);
	lab.config.restart_min_ns = 5 * NS_PER_S;
	lab.config.restart_max_ns = 5 * NS_PER_S;
	lab.bytes = 1000;
	lab_start(&lab);
	lab_until(&lab, step_one);
	sim_run(lab.sim, NS_PER_S);
	sim_node_crash(lab.server, true);
	lab.step = 2;
	sim_run(lab.sim, 4 * NS_PER_S);
	assert_false(lab.used);
	lab_until(&lab, client_done);
	assert_int_equal(lab.client_rc, -ECONNRESET);
	assert_in_range(lab.at_ns, 5 * NS_PER_S, 12 * NS_PER_S);
	assert_int_equal(lab.received, 100);
	sim_close(lab.sim);
}

static void a_peer_that_only_waits_does_not_hear_of_a_power_loss(void **state)
{
	struct lab lab;
	lab_open(&lab, 19, serve_quiet, use_in_steps);
	lab_start(&lab);
	lab_until(&lab, step_one);
	sim_run(lab.sim, NS_PER_S);
	sim_node_crash(lab.server, true);
	lab.step = 3;
	sim_run(lab.sim, 10 * MINUTE);
	assert_false(lab.used);
	sim_close(lab.sim);
}

/* --- everything at once ------------------------------------------------------------------------ */

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

static void serve_echo(struct lab *lab)
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
	struct lab *lab = arg;
	uint8_t buf[20000];
	while (!rt_cancelled()) {
		struct rt_sock *s;
		if (rt_connect(&s, ADDR) != 0) {
			rt_sleep_ns(10 * NS_PER_MS);
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
			lab->received++;
			for (uint64_t i = 0; i < len; i++)
				lab->wrong_bits +=
					(uint64_t)__builtin_popcount(buf[i] ^ stream_byte(i));
			rt_sleep_ns(10 * NS_PER_MS);
		}
		rt_sock_close(s);
	}
}

static void use_echo(struct lab *lab)
{
	struct rt_group g;
	rt_group_init(&g);
	for (int i = 0; i < 3; i++)
		if (rt_group_spawn(&g, "user", echo_user, lab) != 0)
			break;
	rt_group_join(&g);
}

static uint64_t echo_hash(struct lab *lab, uint64_t seed)
{
	lab_open(lab, seed, serve_echo, use_echo);
	sim_config_init(&lab->config, seed, 5);
	lab->config.rate[SIM_NODE_LOSS] = 0;
	lab->config.rate[SIM_RACK_LOSS] = 0;
	lab->config.rate[SIM_CRASH_AT_WAIT] = 0.0005;
	lab_start(lab);
	sim_run(lab->sim, 5 * NS_PER_S);
	uint64_t hash = sim_trace_hash(lab->sim);
	if (sim_fault_count(lab->sim, SIM_NET_CORRUPT) == 0)
		assert_int_equal(lab->wrong_bits, 0);
	sim_close(lab->sim);
	return hash;
}

static void same_seed_same_trace_under_every_fault(void **state)
{
	struct lab lab;
	uint64_t last = 0, echoes = 0;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		uint64_t hash = echo_hash(&lab, seed);
		echoes += lab.received;
		assert_true(hash == echo_hash(&lab, seed));
		assert_true(hash != last);
		last = hash;
	}
	assert_true(echoes > 5000);
}

static void partitions_strike_and_pass(void **state)
{
	static const enum sim_fault faults[] = {SIM_NET_PARTITION, SIM_NET_ONE_WAY};
	for (size_t k = 0; k < 2; k++) {
		struct lab lab;
		lab_open(&lab, 21, serve_echo, use_echo);
		lab.config.rate[faults[k]] = 600;
		lab_start(&lab);
		sim_run(lab.sim, 2 * MINUTE);
		assert_true(sim_fault_count(lab.sim, faults[k]) > 0);
		uint64_t with = lab.received;
		sim_faults_stop(lab.sim);
		sim_run(lab.sim, 20 * NS_PER_S); /* old connections are given up */
		lab.received = 0;
		sim_run(lab.sim, 2 * MINUTE);
		assert_true(with < lab.received * 3 / 4);
		assert_int_equal(lab.wrong_bits, 0);
		sim_close(lab.sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_arrives_whole_and_then_ends),
		cmocka_unit_test(lost_late_doubled_and_reordered_packets_do_not_show),
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
		cmocka_unit_test(a_stream_across_a_lasting_cut_times_out),
		cmocka_unit_test(a_stream_across_a_short_cut_goes_on),
		cmocka_unit_test(a_killed_process_ends_its_streams_at_once),
		cmocka_unit_test(a_dark_node_is_silent_and_resets_when_it_is_back),
		cmocka_unit_test(a_peer_that_only_waits_does_not_hear_of_a_power_loss),
		cmocka_unit_test(same_seed_same_trace_under_every_fault),
		cmocka_unit_test(partitions_strike_and_pass),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
