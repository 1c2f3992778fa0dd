// SPDX-License-Identifier: Apache-2.0
#include "rpc_fixture.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/rng.h"
#include "rpc/client_conn.h"
#include "rpc/type.h"
#include "rpc_tls.h"
#include "rt/pool.h"
#include "rt/real.h"
#include "secure/session.h"
#include "sim_test.h"

/* --- the service ----------------------------------------------------------------------------- */

#define TAGS_TYPE(number, text, request_payload, response_payload)                        \
	{                                                                                 \
		.type = number, .name = text, .request = &terrane__rpc__tags__descriptor, \
		.response = &terrane__rpc__tags__descriptor, .request_max = 256 * 1024,   \
		.response_max = 256 * 1024, .request_payload_max = request_payload,       \
		.response_payload_max = response_payload,                                 \
	}

const struct rpc_type type_echo = TAGS_TYPE(1, "echo", 1 * MIB, 1 * MIB);
const struct rpc_type type_sleep = TAGS_TYPE(2, "sleep", 1 * MIB, 0);
const struct rpc_type type_fail = TAGS_TYPE(3, "fail", 0, 0);
const struct rpc_type type_blob = TAGS_TYPE(4, "blob", 0, 1 * MIB);

static int handle_echo(struct rpc_request *r)
{
	struct fixture_service *s = r->service;
	const Terrane__Rpc__Tags *q = rpc_body(r);
	Terrane__Rpc__Tags *reply = rpc_reply_body(r);
	snprintf(s->tenant, sizeof(s->tenant), "%s", rt_context()->tenant);
	s->job_id = rt_context()->tags.job_id;
	const struct session *session = rpc_session(r);
	snprintf(s->who, sizeof(s->who), "%s", session != NULL ? session->name : "");
	reply->job_id = q->job_id;
	reply->path = q->path;
	if (r->payload.len > 0) {
		struct slice back = r->payload;
		const uint32_t *pieces = rpc_payload_pieces(r);
		for (size_t at = 0; pieces != NULL && at < back.len; at += CRC_PIECE_BYTES)
			CHECK(*pieces++ == crc32c(0, back.buf->data + back.offset + at,
						  min_u64(back.len - at, CRC_PIECE_BYTES)));
		buf_ref(back.buf);
		rpc_reply_payload_take(r, back);
	}
	return 0;
}

static int handle_sleep(struct rpc_request *r)
{
	struct fixture_service *s = r->service;
	const Terrane__Rpc__Tags *q = rpc_body(r);
	s->sleeping++;
	s->deadline_left_ns = rt_deadline() - rt_now_ns();
	int rc = rt_sleep_ns(q->job_id * NS_PER_MS);
	s->last_rc = rc;
	if (rc < 0)
		s->ended_early++;
	if (rc < 0 && s->deaf) {
		rt_shield_enter();
		(void)rt_sleep_ns(NS_PER_S);
		rt_shield_leave();
	}
	return rc;
}

static int handle_fail(struct rpc_request *r)
{
	const Terrane__Rpc__Tags *q = rpc_body(r);
	r->retry_ms = (uint32_t)q->directory_id;
	return rpc_fail(r, -(int)q->job_id, "%s", q->path);
}

static int handle_blob(struct rpc_request *r)
{
	const Terrane__Rpc__Tags *q = rpc_body(r);
	struct buf *b = NULL;
	int rc = rpc_reply_buf(r, q->job_id, &b);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < b->len; i++)
		b->data[i] = (uint8_t)i;
	rpc_reply_payload_take(r, slice_of(b));
	return 0;
}

static const struct rpc_method methods[] = {
	{.type = &type_echo, .handle = handle_echo},
	{.type = &type_sleep, .handle = handle_sleep},
	{.type = &type_fail, .handle = handle_fail},
	{.type = &type_blob, .handle = handle_blob},
};

/* --- server and channel ---------------------------------------------------------------------- */

void fixture_start_server(struct fixture *f)
{
	struct rpc_server_options o = {
		.methods = methods,
		.method_count = ARRAY_LEN(methods),
		.service = &f->service,
		.guard = f->guard,
		.pool = &f->server_pool,
		.connections_max = f->connections_max,
		.in_flight_max = FIXTURE_IN_FLIGHT,
		.share_bytes = FIXTURE_SHARE_BYTES,
		.stall_ns = f->stall_ns,
	};
	CHECK_RC(rpc_server_open(&f->server, f->addr, &o), 0);
	snprintf(f->addr, sizeof(f->addr), "%s", rpc_server_addr(f->server));
}

void fixture_stop_server(struct fixture *f, uint64_t grace_ns)
{
	rpc_server_close(f->server, grace_ns);
	f->server = NULL;
}

void fixture_open_channel(struct fixture *f)
{
	struct rpc_channel_options o = {
		.pool = &f->pool,
		.self = f->self,
		.server = f->server_id,
		.silence_ns = 200 * NS_PER_MS,
		.backoff_min_ns = 10 * NS_PER_MS,
		.backoff_max_ns = 100 * NS_PER_MS,
	};
	CHECK_RC(rpc_channel_open(&f->channel, f->addr, &o), 0);
}

void fixture_close_channel(struct fixture *f)
{
	rpc_channel_close(f->channel);
	f->channel = NULL;
}

uint64_t fixture_connect_failures(const struct fixture *f)
{
	return f->channel->failures_total;
}

Terrane__Rpc__Tags tags_of(uint64_t job_id, const char *path)
{
	Terrane__Rpc__Tags q = TERRANE__RPC__TAGS__INIT;
	q.job_id = job_id;
	q.path = (char *)path;
	return q;
}

struct rpc_call fixture_call(const struct rpc_type *type, const Terrane__Rpc__Tags *q)
{
	return (struct rpc_call){.type = type, .request = &q->base, .timeout_ns = 20 * NS_PER_S};
}

static int ping(struct rpc_channel *ch)
{
	Terrane__Rpc__Tags q = tags_of(4711, "ping");
	struct rpc_call call = fixture_call(&type_echo, &q);
	AUTO_REPLY struct rpc_reply reply;
	int rc = rpc_call(ch, &call, &reply);
	if (rc == 0)
		CHECK(((const Terrane__Rpc__Tags *)reply.message)->job_id == 4711);
	return rc;
}

int fixture_ping(struct fixture *f)
{
	return ping(f->channel);
}

int fixture_ping_apart(struct fixture *f)
{
	struct rpc_channel *ch = NULL;
	CHECK_RC(rpc_channel_open(&ch, f->addr,
				  &(struct rpc_channel_options){.pool = &f->pool,
								.self = f->self,
								.server = f->server_id}),
		 0);
	int rc = ping(ch);
	rpc_channel_close(ch);
	return rc;
}

struct buf *fixture_payload(struct fixture *f, size_t len, uint64_t seed)
{
	struct buf *b = NULL;
	struct rng rng;
	CHECK_RC(rt_pool_get(&f->pool, len, &b), 0);
	rng_init(&rng, seed);
	rng_fill(&rng, b->data, len);
	return b;
}

void fixture_await(const uint64_t *counter, uint64_t at_least)
{
	uint64_t end_ns = rt_now_ns() + FIXTURE_PATIENCE_NS;
	while (*counter < at_least && rt_now_ns() < end_ns)
		CHECK_RC(rt_sleep_ns(NS_PER_MS), 0);
	CHECK(*counter >= at_least);
}

/* --- worlds ---------------------------------------------------------------------------------- */

bool fixture_is_simulated(const struct fixture *f)
{
	return strncmp(f->world, "sim", 3) == 0;
}

struct fixture_run {
	const struct fixture_test *test;
	const char *addr;
	bool ended;
};

/* Gives server and channels credentials and certificates. */
static struct tls_world *secure_all(struct fixture *f)
{
	struct tls_world *w = calloc(1, sizeof(*w));
	CHECK(w != NULL);
	tls_world_open(w);
	f->guard = &w->guard;
	f->self = &w->self;
	f->server_id = TLS_WORLD_NODE;
	return w;
}

static void fixture_main(void *arg)
{
	struct fixture_run *run = arg;
	struct fixture *f = calloc(1, sizeof(*f));
	CHECK(f != NULL);
	f->world = run->test->world;
	f->connections_max = FIXTURE_CONNECTIONS;
	f->stall_ns = FIXTURE_STALL_NS;
	snprintf(f->addr, sizeof(f->addr), "%s", run->addr);
	rt_pool_init(&f->pool, 64 * MIB);
	rt_pool_init(&f->server_pool, 16 * MIB);
	struct tls_world *tls = strstr(f->world, "tls") != NULL ? secure_all(f) : NULL;
	fixture_start_server(f);
	fixture_open_channel(f);
	run->test->fn(f);
	if (f->channel != NULL)
		fixture_close_channel(f);
	if (f->server != NULL)
		fixture_stop_server(f, 0);
	if (tls != NULL)
		tls_world_close(tls);
	free(tls);
	rt_pool_fini(&f->server_pool);
	rt_pool_fini(&f->pool);
	free(f);
	run->ended = true;
}

void fixture_run(void **state)
{
	struct fixture_run run = {.test = *state};
	char path[64];
	if (strncmp(run.test->world, "sim", 3) == 0) {
		run.addr = "n1:7000";
		sim_test_run(fixture_main, &run);
	} else if (strcmp(run.test->world, "unix") == 0) {
		snprintf(path, sizeof(path), "unix:/tmp/terrane-test-rpc-%d", (int)getpid());
		run.addr = path;
		CHECK_RC(rt_real_run(&(struct rt_real_options){0}, fixture_main, &run), 0);
		(void)unlink(path + strlen("unix:"));
	} else {
		run.addr = "127.0.0.1:0";
		CHECK_RC(rt_real_run(&(struct rt_real_options){0}, fixture_main, &run), 0);
	}
	CHECK(run.ended);
}
