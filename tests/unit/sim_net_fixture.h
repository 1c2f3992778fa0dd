// SPDX-License-Identifier: Apache-2.0
/* A simulation of a server node and a client node, for tests of the network. */
#ifndef TESTS_SIM_NET_FIXTURE_H
#define TESTS_SIM_NET_FIXTURE_H

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
#include "check.h"
#include "rt/net.h"
#include "rt/rt.h"
#include "rt/sim.h"

#define ADDR "server:7000"
#define MINUTE (60 * NS_PER_S)

struct fixture {
	struct sim_config config;
	struct sim *sim;
	struct sim_node *server;
	struct sim_node *client;
	void (*serve)(struct fixture *fx);
	void (*use)(struct fixture *fx);
	bool served;
	bool used;
	/* for the test's programs: */
	uint64_t bytes;
	uint64_t sent;
	uint64_t received;
	uint64_t wrong_bits;
	int64_t server_rc;
	int64_t client_rc;
	uint64_t at_ns;
	int step;
};

static inline void fixture_print(void *ctx)
{
	struct fixture *fx = ctx;
	fprintf(stderr, "seed %llu\n", (unsigned long long)fx->config.seed);
	sim_trace_print(fx->sim, stderr, 40);
}

/* Opens the simulation of the fixture; a failed check prints its seed and trace. */
static inline void fixture_sim_open(struct fixture *fx)
{
	fx->sim = sim_open(&fx->config);
	assert_non_null(fx->sim);
	check_hook_set(fixture_print, fx);
}

static inline void fixture_close(struct fixture *fx)
{
	check_hook_set(NULL, NULL);
	sim_close(fx->sim);
}

static inline void server_main(void *arg)
{
	struct fixture *fx = arg;
	if (fx->serve != NULL)
		fx->serve(fx);
	fx->served = true;
	rt_shutdown_wait();
}

static inline void client_main(void *arg)
{
	struct fixture *fx = arg;
	fx->use(fx);
	fx->used = true;
	rt_shutdown_wait();
}

static inline void fixture_open(struct fixture *fx, uint64_t seed, void (*serve)(struct fixture *),
				void (*use)(struct fixture *))
{
	*fx = (struct fixture){.serve = serve, .use = use};
	sim_config_init(&fx->config, seed, 0);
}

static inline void fixture_start(struct fixture *fx)
{
	fixture_sim_open(fx);
	fx->server = sim_node_add(fx->sim, "server", 0);
	fx->client = sim_node_add(fx->sim, "client", 1);
	sim_node_start(fx->server, server_main, fx);
	sim_node_start(fx->client, client_main, fx);
}

static inline bool both_done(void *arg)
{
	struct fixture *fx = arg;
	return fx->served && fx->used;
}

static inline bool client_done(void *arg)
{
	return ((struct fixture *)arg)->used;
}

static inline bool step_one(void *arg)
{
	return ((struct fixture *)arg)->step >= 1;
}

static inline void fixture_until(struct fixture *fx, bool (*done)(void *))
{
	if (!sim_run_until(fx->sim, done, fx, 10 * MINUTE)) {
		fixture_print(fx);
		fail_msg("the programs do not end");
	}
}

static inline void fixture_run(struct fixture *fx)
{
	fixture_start(fx);
	fixture_until(fx, both_done);
	fixture_close(fx);
}

/* Returns the byte of the test's stream at an offset. */
static inline uint8_t stream_byte(uint64_t at)
{
	return (uint8_t)(mix_u64(at / 8) >> (at % 8 * 8));
}

static inline int send_stream(struct rt_sock *s, uint64_t from, uint64_t to)
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

/* Receives until the end of the stream or an error, and counts the bytes; returns 0 or the error. */
static inline int64_t recv_stream(struct fixture *fx, struct rt_sock *s)
{
	uint8_t buf[10000];
	for (;;) {
		int64_t n = rt_sock_recv(s, buf, sizeof(buf), 1);
		if (n <= 0)
			return n;
		for (int64_t i = 0; i < n; i++)
			fx->wrong_bits += (uint64_t)__builtin_popcount(
				buf[i] ^ stream_byte(fx->received + (uint64_t)i));
		fx->received += (uint64_t)n;
	}
}

static inline struct rt_listener *must_listen(const char *addr)
{
	struct rt_listener *li;
	int rc = rt_listen(&li, addr);
	CHECK(rc == 0);
	return li;
}

static inline struct rt_sock *must_accept(struct rt_listener *li)
{
	struct rt_sock *s;
	CHECK(rt_accept(li, &s) == 0);
	return s;
}

/* Connects; repeats it while the server does not listen yet. */
static inline struct rt_sock *must_connect(void)
{
	struct rt_sock *s;
	int rc;
	while ((rc = rt_connect(&s, ADDR)) == -ECONNREFUSED)
		CHECK(rt_sleep_ns(NS_PER_MS) == 0);
	CHECK(rc == 0);
	return s;
}

/* Accepts and serves one stream after the other, until it is cancelled. */
static inline void serve_quiet(struct fixture *fx)
{
	struct rt_listener *li = must_listen(ADDR);
	struct rt_sock *s;
	while (rt_accept(li, &s) == 0) {
		fx->server_rc = recv_stream(fx, s);
		rt_sock_close(s);
	}
	rt_listener_close(li);
}

#endif
