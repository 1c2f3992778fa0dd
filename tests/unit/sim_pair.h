// SPDX-License-Identifier: Apache-2.0
/* A simulation of a server node and a client node, for tests of the network. */
#ifndef TESTS_SIM_PAIR_H
#define TESTS_SIM_PAIR_H

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
	/* used by the programs */
	uint64_t bytes;
	uint64_t sent;
	uint64_t received;
	uint64_t wrong_bits;
	int64_t server_rc;
	int64_t client_rc;
	uint64_t at_ns;
	int step;
};

/* Ends the program at a failed check: cmocka's jump back to the test cannot leave a fiber. */
#define CHECK(cond)                                                                   \
	do {                                                                          \
		if (!(cond)) {                                                        \
			fprintf(stderr, "%s:%d: seed %llu: %s\n", __FILE__, __LINE__, \
				(unsigned long long)lab->config.seed, #cond);         \
			sim_trace_print(lab->sim, stderr, 40);                        \
			abort();                                                      \
		}                                                                     \
	} while (0)

static inline void server_main(void *arg)
{
	struct lab *lab = arg;
	if (lab->serve != NULL)
		lab->serve(lab);
	lab->served = true;
	rt_shutdown_wait();
}

static inline void client_main(void *arg)
{
	struct lab *lab = arg;
	lab->use(lab);
	lab->used = true;
	rt_shutdown_wait();
}

static inline void lab_open(struct lab *lab, uint64_t seed, void (*serve)(struct lab *),
			    void (*use)(struct lab *))
{
	*lab = (struct lab){.serve = serve, .use = use};
	sim_config_init(&lab->config, seed, 0);
}

static inline void lab_start(struct lab *lab)
{
	lab->sim = sim_open(&lab->config);
	assert_non_null(lab->sim);
	lab->server = sim_node_add(lab->sim, "server", 0);
	lab->client = sim_node_add(lab->sim, "client", 1);
	sim_node_start(lab->server, server_main, lab);
	sim_node_start(lab->client, client_main, lab);
}

static inline bool both_done(void *arg)
{
	struct lab *lab = arg;
	return lab->served && lab->used;
}

static inline bool client_done(void *arg)
{
	return ((struct lab *)arg)->used;
}

static inline bool step_one(void *arg)
{
	return ((struct lab *)arg)->step >= 1;
}

static inline void lab_until(struct lab *lab, bool (*done)(void *))
{
	if (!sim_run_until(lab->sim, done, lab, 10 * MINUTE)) {
		fprintf(stderr, "seed %llu\n", (unsigned long long)lab->config.seed);
		sim_trace_print(lab->sim, stderr, 40);
		fail_msg("the programs do not end");
	}
}

static inline void lab_run(struct lab *lab)
{
	lab_start(lab);
	lab_until(lab, both_done);
	sim_close(lab->sim);
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
static inline int64_t recv_stream(struct lab *lab, struct rt_sock *s)
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

static inline struct rt_listener *must_listen(struct lab *lab, const char *addr)
{
	struct rt_listener *li;
	int rc = rt_listen(&li, addr);
	CHECK(rc == 0);
	return li;
}

static inline struct rt_sock *must_accept(struct lab *lab, struct rt_listener *li)
{
	struct rt_sock *s;
	CHECK(rt_accept(li, &s) == 0);
	return s;
}

/* Connects; repeats it while the server does not listen yet. */
static inline struct rt_sock *must_connect(struct lab *lab)
{
	struct rt_sock *s;
	int rc;
	while ((rc = rt_connect(&s, ADDR)) == -ECONNREFUSED)
		CHECK(rt_sleep_ns(NS_PER_MS) == 0);
	CHECK(rc == 0);
	return s;
}

/* Accepts and serves one stream after the other, until it is cancelled. */
static inline void serve_quiet(struct lab *lab)
{
	struct rt_listener *li = must_listen(lab, ADDR);
	struct rt_sock *s;
	while (rt_accept(li, &s) == 0) {
		lab->server_rc = recv_stream(lab, s);
		rt_sock_close(s);
	}
	rt_listener_close(li);
}

#endif
