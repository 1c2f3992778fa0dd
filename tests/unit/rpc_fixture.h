// SPDX-License-Identifier: Apache-2.0
/*
 * A small service with its server and one channel, for the tests of rpc, on TCP, on a Unix socket,
 * and in the simulator without faults. A test is a function that runs as a fiber.
 *
 * CHECK aborts instead of jumping out as cmocka's asserts do, because a test runs on a fiber's stack.
 */
#ifndef UNIT_RPC_FIXTURE_H
#define UNIT_RPC_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/log.h"
#include "check.h"
#include "rpc/client.h"
#include "rpc/rpc.pb-c.h"
#include "rpc/server.h"
#include "rpc/stream.h"
#include "rt/net.h"
#include "rt/pool.h"
#include "rt/rt.h"

#define FIXTURE_IN_FLIGHT 64
#define FIXTURE_CONNECTIONS 8
#define FIXTURE_SHARE_BYTES (4 * MIB)
#define FIXTURE_STALL_NS (300 * NS_PER_MS)

extern const struct rpc_type type_echo;  /* answers with the body and the payload of the request */
extern const struct rpc_type type_sleep; /* sleeps for job_id ms before it answers */
/* fails with code job_id, error text `path`, and directory_id as the retry hint */
extern const struct rpc_type type_fail;
/* answers with job_id bytes of payload; byte i is i modulo 256 */
extern const struct rpc_type type_blob;

struct fixture_service {
	char tenant[32]; /* tenant of the last echo */
	uint64_t job_id;
	uint64_t sleeping; /* number of sleeps that have begun */
	uint64_t ended_early;
	int last_rc;
	uint64_t deadline_left_ns;
	char who[80]; /* identity of the client of the last echo; empty: none */
	bool deaf;    /* a cancelled sleep continues for a second */
};

struct fixture {
	const char *world;
	char addr[RT_ADDR_MAX];
	struct rt_pool pool;
	struct rt_pool server_pool;
	struct fixture_service service;
	struct rpc_server *server;
	struct rpc_channel *channel;
	size_t connections_max;           /* option of the next server that is started */
	uint64_t stall_ns;                /* option of the next server that is started */
	const struct secure_guard *guard; /* option of the next server that is started */
	const struct secure_self
		*self; /* option of the next channels that are opened, with this server id: */
	uint64_t server_id;
};

/*
 * Returns whether the test runs in simulated time. In real time a busy machine may stretch every
 * wait.
 */
bool fixture_is_simulated(const struct fixture *f);
void fixture_start_server(struct fixture *f);
void fixture_stop_server(struct fixture *f, uint64_t grace_ns);
void fixture_open_channel(struct fixture *f);
void fixture_close_channel(struct fixture *f);
uint64_t fixture_connect_failures(const struct fixture *f);
/* Makes a small call on the fixture's channel. */
int fixture_ping(struct fixture *f);
/* Makes the call on a new connection. */
int fixture_ping_apart(struct fixture *f);
struct buf *fixture_payload(struct fixture *f, size_t len, uint64_t seed);
/* Waits until the counter has at least this value; fails after FIXTURE_PATIENCE_NS. */
#define FIXTURE_PATIENCE_NS (120 * NS_PER_S)
void fixture_await(const uint64_t *counter, uint64_t at_least);

struct rpc_call fixture_call(const struct rpc_type *type, const Terrane__Rpc__Tags *q);
Terrane__Rpc__Tags tags_of(uint64_t job_id, const char *path);

struct fixture_test {
	void (*fn)(struct fixture *f);
	const char *
		world; /* world in which the test runs: "tcp", "unix" or "sim", with "-tls" at its end for TLS */
};

/* A cmocka test whose initial state is a struct fixture_test. */
void fixture_run(void **state);

#define IN_WORLD(test, where)                                                          \
	{                                                                              \
		.name = #test " (" where ")", .test_func = fixture_run,                \
		.initial_state = &(struct fixture_test){.fn = (test), .world = where}, \
	}
#define IN_EVERY_WORLD(test) IN_WORLD(test, "tcp"), IN_WORLD(test, "unix"), IN_WORLD(test, "sim")
/* The same, and over TLS, where server and channels have credentials. */
#define IN_TLS_TOO(test) IN_EVERY_WORLD(test), IN_WORLD(test, "tcp-tls"), IN_WORLD(test, "sim-tls")

#endif
