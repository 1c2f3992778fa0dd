// SPDX-License-Identifier: Apache-2.0
/*
 * rpc end to end: each test runs with server and client in one process, over TCP, over a Unix
 * socket and in the simulator without faults. test_rpc_hostile.c tests hostile peers.
 */
#include "rpc_fixture.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/crc.h"
#include "base/rng.h"
#include "rpc/counters.h"
#include "rt/pool.h"
#include "rt/sim.h"
#include "rt/sync.h"

/* --- answers come back ----------------------------------------------------------------------- */

static void body_context_and_payload_arrive(struct fixture *f)
{
	AUTO_BUF struct buf *b = fixture_payload(f, 300000, 1);
	AUTO_CONTEXT const struct context *context = NULL;
	struct context like = {.tenant = "physics", .tags = {.job_id = 9}};
	CHECK_RC(context_new(&context, &like), 0);
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(context);
	Terrane__Rpc__Tags q = tags_of(5, "hello");
	struct rpc_call call = fixture_call(&type_echo, &q);
	call.payload = slice_of(b);
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(rpc_call(f->channel, &call, &reply), 0);
	const Terrane__Rpc__Tags *t = reply.message;
	CHECK(t->job_id == 5 && strcmp(t->path, "hello") == 0);
	CHECK(reply.payload.len == b->len && memcmp(reply.payload.buf->data, b->data, b->len) == 0);
	CHECK(reply.payload.crc == call.payload.crc);
	CHECK(strcmp(f->service.tenant, "physics") == 0 && f->service.job_id == 9);
}

static void a_body_larger_than_any_batch_arrives(struct fixture *f)
{
	enum { LEN = 200000 };
	AUTO_FREE char *text = malloc(LEN + 1);
	CHECK(text != NULL);
	memset(text, 'x', LEN);
	text[LEN] = 0;
	Terrane__Rpc__Tags q = tags_of(1, text);
	struct rpc_call call = fixture_call(&type_echo, &q);
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(rpc_call(f->channel, &call, &reply), 0);
	CHECK(strcmp(((const Terrane__Rpc__Tags *)reply.message)->path, text) == 0);
}

static void an_error_comes_with_its_words(struct fixture *f)
{
	Terrane__Rpc__Tags q = tags_of(EDQUOT, "over the quota of physics");
	q.directory_id = 250;
	struct rpc_call call = fixture_call(&type_fail, &q);
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(rpc_call(f->channel, &call, &reply), -EDQUOT);
	CHECK(strcmp(reply.error, "over the quota of physics") == 0);
	CHECK(reply.message == NULL && reply.maybe_executed);
	CHECK(reply.retry_ms == 250);

	/* A code outside the table of base/err.c becomes EPROTO. */
	q.job_id = 4000;
	AUTO_REPLY struct rpc_reply second;
	CHECK_RC(rpc_call(f->channel, &call, &second), -EPROTO);
}

struct slow_call {
	struct fixture *f;
	uint64_t sleep_ms;
	uint64_t timeout_ns;
	int rc;
	bool maybe_executed;
	unsigned *finished;
	unsigned place;
};

static void slow_call_main(void *arg)
{
	struct slow_call *s = arg;
	Terrane__Rpc__Tags q = tags_of(s->sleep_ms, "");
	struct rpc_call call = fixture_call(&type_sleep, &q);
	if (s->timeout_ns != 0)
		call.timeout_ns = s->timeout_ns;
	AUTO_REPLY struct rpc_reply reply;
	s->rc = rpc_call(s->f->channel, &call, &reply);
	s->maybe_executed = reply.maybe_executed;
	if (s->finished != NULL)
		s->place = (*s->finished)++;
}

/* The first call's handler sleeps until it is cancelled. */
static void an_answer_overtakes_a_slower_one(struct fixture *f)
{
	struct slow_call call = {.f = f, .sleep_ms = 600000};
	struct rt_fiber *fiber = NULL;
	CHECK_RC(rt_spawn(&fiber, "call", slow_call_main, &call), 0);
	fixture_await(&f->service.sleeping, 1);
	CHECK_RC(fixture_ping(f), 0);
	CHECK(f->service.ended_early == 0);
	rt_cancel(fiber);
	rt_join(fiber);
	CHECK(rpc_channel_counters(f->channel)->connections == 1);
}

static void answers_come_in_the_order_in_which_handlers_end(struct fixture *f)
{
	unsigned finished = 0;
	struct slow_call calls[3] = {{.sleep_ms = 90}, {.sleep_ms = 50}, {.sleep_ms = 10}};
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < 3; i++) {
		calls[i].f = f;
		calls[i].finished = &finished;
		CHECK_RC(rt_group_spawn(&g, "call", slow_call_main, &calls[i]), 0);
	}
	rt_group_join(&g);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_RC(calls[i].rc, 0);
		CHECK(calls[i].place == 2 - i);
	}
	CHECK(rpc_channel_counters(f->channel)->connections == 1);
}

struct crowd {
	struct fixture *f;
	uint64_t next;
	unsigned wrong;
};

static void crowd_main(void *arg)
{
	struct crowd *c = arg;
	for (unsigned i = 0; i < 50; i++) {
		uint64_t n = c->next++;
		Terrane__Rpc__Tags q = tags_of(n, "crowd");
		struct rpc_call call = fixture_call(&type_echo, &q);
		AUTO_REPLY struct rpc_reply reply;
		CHECK_RC(rpc_call(c->f->channel, &call, &reply), 0);
		c->wrong += ((const Terrane__Rpc__Tags *)reply.message)->job_id != n;
	}
}

static void many_calls_at_once_each_get_their_own_answer(struct fixture *f)
{
	struct crowd crowd = {.f = f};
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < 100; i++)
		CHECK_RC(rt_group_spawn(&g, "crowd", crowd_main, &crowd), 0);
	rt_group_join(&g);
	CHECK(crowd.wrong == 0 && crowd.next == 5000);
	CHECK(rpc_server_counters(f->server)->requests == 5000);
	struct rpc_server_stats stats;
	rpc_server_stats(f->server, &stats);
	CHECK(stats.in_flight == 0 && stats.in_flight_peak <= FIXTURE_IN_FLIGHT);
}

/* --- deadlines and cancellation -------------------------------------------------------------- */

static void a_late_call_fails_alone_and_its_handler_is_told(struct fixture *f)
{
	struct slow_call late = {.f = f, .sleep_ms = 600000, .timeout_ns = 50 * NS_PER_MS};
	/* On a busy machine the time of a call may be up before its handler begins. */
	while (f->service.sleeping == 0) {
		CHECK_RC(fixture_ping(f), 0);
		uint64_t start = rt_now_ns();
		slow_call_main(&late);
		CHECK_RC(late.rc, -ETIME);
		CHECK(rt_now_ns() - start < 300 * NS_PER_S);
	}
	CHECK(late.maybe_executed);
	fixture_await(&f->service.ended_early, 1);
	CHECK_RC(fixture_ping(f), 0);
	/* The server answers the cancelled request; the response counts as late. */
	fixture_await(&rpc_channel_counters(f->channel)->late, 1);
	CHECK(rpc_channel_counters(f->channel)->connections == 1);
}

/* Makes a call that ends before silence_ns. */
static void short_call(struct fixture *f)
{
	struct slow_call late = {.f = f, .sleep_ms = 60000, .timeout_ns = 50 * NS_PER_MS};
	slow_call_main(&late);
	CHECK_RC(late.rc, -ETIME);
}

static void idle_time_is_not_silence_after_a_late_answer(struct fixture *f)
{
	short_call(f);
	fixture_await(&rpc_channel_counters(f->channel)->late, 1);
	CHECK_RC(rt_sleep_ns(NS_PER_S), 0);
	short_call(f);
	CHECK(rpc_channel_counters(f->channel)->silent_peers == 0);
	CHECK_RC(fixture_ping(f), 0);
	CHECK(rpc_channel_counters(f->channel)->connections == 1);
}

static void idle_time_is_not_silence_after_a_cancelled_call(struct fixture *f)
{
	struct slow_call call = {.f = f, .sleep_ms = 60000};
	struct rt_fiber *fiber = NULL;
	f->service.deaf = true; /* the service sends no response during this time */
	CHECK_RC(rt_spawn(&fiber, "call", slow_call_main, &call), 0);
	fixture_await(&f->service.sleeping, 1);
	rt_cancel(fiber);
	rt_join(fiber);
	CHECK_RC(rt_sleep_ns(500 * NS_PER_MS), 0);
	short_call(f);
	CHECK(rpc_channel_counters(f->channel)->late == 0);
	CHECK(rpc_channel_counters(f->channel)->silent_peers == 0);
	CHECK_RC(fixture_ping(f), 0);
	CHECK(rpc_channel_counters(f->channel)->connections == 1);
}

static void late_calls_add_up_to_a_silent_peer(struct fixture *f)
{
	CHECK_RC(fixture_ping(f), 0);
	f->service.deaf = true;
	for (unsigned i = 0; i < 3; i++)
		short_call(f);
	CHECK(rpc_channel_counters(f->channel)->silent_peers == 0);
	short_call(f);
	CHECK(rpc_channel_counters(f->channel)->silent_peers == 1);
}

static void cancelling_the_caller_cancels_the_handler(struct fixture *f)
{
	struct slow_call call = {.f = f, .sleep_ms = 60000};
	struct rt_fiber *fiber = NULL;
	CHECK_RC(rt_spawn(&fiber, "call", slow_call_main, &call), 0);
	fixture_await(&f->service.sleeping, 1);
	rt_cancel(fiber);
	rt_join(fiber);
	CHECK_RC(call.rc, -ECANCELED);
	fixture_await(&f->service.ended_early, 1);
	CHECK(f->service.last_rc == -ECANCELED);
	CHECK(rpc_server_counters(f->server)->cancels == 1);
}

static void losing_the_client_cancels_the_handler(struct fixture *f)
{
	struct slow_call call = {.f = f, .sleep_ms = 60000};
	struct rt_fiber *fiber = NULL;
	CHECK_RC(rt_spawn(&fiber, "call", slow_call_main, &call), 0);
	fixture_await(&f->service.sleeping, 1);
	rt_cancel(fiber);
	rt_join(fiber);
	fixture_close_channel(f);
	fixture_await(&f->service.ended_early, 1);
	CHECK(f->service.last_rc == -ECANCELED);
}

static void the_deadline_of_the_caller_is_that_of_the_handler(struct fixture *f)
{
	Terrane__Rpc__Tags q = tags_of(0, "");
	struct rpc_call call = fixture_call(&type_sleep, &q);
	call.timeout_ns = 600 * NS_PER_S;
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(rpc_call(f->channel, &call, &reply), 0);
	CHECK(f->service.deadline_left_ns > 300 * NS_PER_S);
	CHECK(f->service.deadline_left_ns <= 600 * NS_PER_S + NS_PER_MS);
	CHECK(rt_deadline() == RT_NEVER);
}

/* --- connections come and go ----------------------------------------------------------------- */

static void a_call_to_nobody_is_refused_and_was_not_sent(struct fixture *f)
{
	fixture_stop_server(f, 0);
	Terrane__Rpc__Tags q = tags_of(1, "");
	struct rpc_call call = fixture_call(&type_echo, &q);
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(rpc_call(f->channel, &call, &reply), -ECONNREFUSED);
	CHECK(!reply.maybe_executed);
	CHECK(strlen(reply.error) > 0);
}

static void attempts_to_connect_grow_rarer(struct fixture *f)
{
	fixture_stop_server(f, 0);
	Terrane__Rpc__Tags q = tags_of(1, "");
	struct rpc_call call = fixture_call(&type_echo, &q);
	call.retry = true;
	call.timeout_ns = 2 * NS_PER_S;
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(rpc_call(f->channel, &call, &reply), -ECONNREFUSED);
	CHECK(!reply.maybe_executed);
	/* The back-off is 10, 20, 40, 80 and then 100 ms, and each pause at least half of it. */
	uint64_t tries = fixture_connect_failures(f);
	CHECK(tries <= 45);
	CHECK(tries >= 20 || !fixture_is_simulated(f));
}

struct restart {
	struct fixture *f;
	uint64_t after_ms;
};

static void restart_main(void *arg)
{
	struct restart *r = arg;
	CHECK_RC(rt_sleep_ns(r->after_ms * NS_PER_MS), 0);
	fixture_start_server(r->f);
}

static void a_retried_call_waits_for_the_server_to_come_back(struct fixture *f)
{
	CHECK_RC(fixture_ping(f), 0);
	fixture_stop_server(f, 0);
	struct restart restart = {.f = f, .after_ms = 150};
	struct rt_fiber *fiber = NULL;
	CHECK_RC(rt_spawn(&fiber, "restart", restart_main, &restart), 0);
	Terrane__Rpc__Tags q = tags_of(77, "");
	struct rpc_call call = fixture_call(&type_echo, &q);
	call.retry = true;
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(rpc_call(f->channel, &call, &reply), 0);
	CHECK(((const Terrane__Rpc__Tags *)reply.message)->job_id == 77);
	rt_join(fiber);
	CHECK(rpc_channel_counters(f->channel)->connections == 2);
}

static void a_call_that_was_under_way_is_lost_with_its_connection(struct fixture *f)
{
	struct slow_call call = {.f = f, .sleep_ms = 60000};
	struct rt_fiber *fiber = NULL;
	CHECK_RC(rt_spawn(&fiber, "call", slow_call_main, &call), 0);
	fixture_await(&f->service.sleeping, 1);
	f->service.deaf = true; /* the service does not answer when it is cancelled */
	fixture_stop_server(f, 0);
	rt_join(fiber);
	CHECK_RC(call.rc, -ECONNRESET);
	CHECK(call.maybe_executed);
}

static void requests_under_way_may_end_when_a_server_closes(struct fixture *f)
{
	struct slow_call call = {.f = f, .sleep_ms = 100};
	struct rt_fiber *fiber = NULL;
	CHECK_RC(rt_spawn(&fiber, "call", slow_call_main, &call), 0);
	fixture_await(&f->service.sleeping, 1);
	uint64_t start = rt_now_ns();
	fixture_stop_server(f, 600 * NS_PER_S);
	CHECK(rt_now_ns() - start < 300 * NS_PER_S);
	rt_join(fiber);
	CHECK_RC(call.rc, 0);
}

static void requests_that_do_not_end_are_cancelled_after_the_grace(struct fixture *f)
{
	struct slow_call call = {.f = f, .sleep_ms = 60000};
	struct rt_fiber *fiber = NULL;
	CHECK_RC(rt_spawn(&fiber, "call", slow_call_main, &call), 0);
	fixture_await(&f->service.sleeping, 1);
	fixture_stop_server(f, 50 * NS_PER_MS);
	rt_join(fiber);
	CHECK_RC(call.rc, -ESHUTDOWN); /* the caller was not cancelled */
	CHECK(f->service.ended_early == 1);
}

/* --- bounds ---------------------------------------------------------------------------------- */

struct bulk {
	struct fixture *f;
	struct slice payload;
	unsigned done;
};

static void bulk_main(void *arg)
{
	struct bulk *b = arg;
	Terrane__Rpc__Tags q = tags_of(20, "");
	struct rpc_call call = fixture_call(&type_sleep, &q);
	call.payload = b->payload;
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(rpc_call(b->f->channel, &call, &reply), 0);
	b->done++;
}

/* Forty requests of 1 MiB, each held by its handler for a while, to a server that has memory for
 * a few: the other requests wait in the client. */
static void payloads_beyond_the_pool_wait_in_the_client(struct fixture *f)
{
	AUTO_BUF struct buf *b = fixture_payload(f, 1 * MIB, 3);
	struct bulk bulk = {.f = f, .payload = slice_of(b)};
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < 40; i++)
		CHECK_RC(rt_group_spawn(&g, "bulk", bulk_main, &bulk), 0);
	rt_group_join(&g);
	CHECK(bulk.done == 40);
	struct buf_stats stats;
	buf_pool_stats(&f->server_pool.bufs, &stats);
	CHECK(stats.peak_bytes <= FIXTURE_SHARE_BYTES && stats.in_use_bytes == 0);
	CHECK(rpc_channel_out_peak(f->channel) <= 2 * (OUT_BULK_BYTES + OUT_BATCH_BYTES));
}

static void large_main(void *arg)
{
	struct bulk *b = arg;
	AUTO_FREE char *text = malloc(200 * KIB + 1);
	CHECK(text != NULL);
	memset(text, 'x', 200 * KIB);
	text[200 * KIB] = 0;
	Terrane__Rpc__Tags q = tags_of(5, text);
	struct rpc_call call = fixture_call(&type_sleep, &q);
	AUTO_REPLY struct rpc_reply reply;
	CHECK_RC(rpc_call(b->f->channel, &call, &reply), 0);
	b->done++;
}

/*
 * Unpacking a request may take sixteen times its bytes of memory, so the server unpacks them one
 * after the other.
 */
static void large_bodies_are_bounded_together(struct fixture *f)
{
	struct bulk bulk = {.f = f};
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < 20; i++)
		CHECK_RC(rt_group_spawn(&g, "large", large_main, &bulk), 0);
	rt_group_join(&g);
	CHECK(bulk.done == 20);
	struct rpc_server_stats stats;
	rpc_server_stats(f->server, &stats);
	CHECK(stats.share_peak_bytes > 3 * MIB && stats.share_peak_bytes <= FIXTURE_SHARE_BYTES);
}

static void a_pool_serves_those_who_wait_in_order(struct fixture *f)
{
	struct rt_pool pool;
	rt_pool_init(&pool, 1 * MIB);
	struct buf *all = NULL;
	CHECK_RC(rt_pool_get(&pool, 1 * MIB, &all), 0);
	struct buf *b = NULL;
	uint64_t before = rt_deadline_narrow(rt_now_ns() + 20 * NS_PER_MS);
	CHECK_RC(rt_pool_get(&pool, 4096, &b), -ETIME);
	rt_deadline_set(before);
	CHECK_RC(rt_pool_get(&pool, 2 * MIB, &b), -EMSGSIZE);
	buf_unref(all);
	CHECK_RC(rt_pool_get(&pool, 4096, &b), 0);
	CHECK(pool.waits == 1);
	buf_unref(b);
	rt_pool_fini(&pool);
}

/* --- a pool and another loop ----------------------------------------------------------------- */

struct lender {
	struct rt_msg msg;
	struct buf *b;
};

/* Holds the buffer for a time during which some of the crashes happen. */
static void lender_main(void *arg)
{
	struct lender *l = arg;
	(void)rt_sleep_ns(10 * NS_PER_US);
	buf_unref(l->b);
	l->b = NULL;
	for (unsigned i = 0; i < 10; i++)
		(void)rt_sleep_ns(NS_PER_US);
}

static void lend_there(struct rt_msg *msg)
{
	struct lender *l = container_of(msg, struct lender, msg);
	CHECK_RC(rt_spawn(NULL, "lender", lender_main, l), 0);
}

static void waiter_main(void *arg)
{
	AUTO_BUF struct buf *b = NULL;
	int rc = rt_pool_get(arg, 1 * MIB, &b);
	CHECK(rc == 0 || rc == -ECANCELED);
}

static void pool_process_main(void *arg)
{
	unsigned *ends = arg;
	struct lender lender = {.msg.fn = lend_there};
	struct rt_pool pool;
	struct rt_loop *other = NULL;
	struct rt_fiber *waiter = NULL;
	rt_pool_init(&pool, 1 * MIB);
	if (rt_loop_open(&other, "other") == 0) {
		CHECK_RC(rt_pool_get(&pool, 1 * MIB, &lender.b), 0);
		CHECK_RC(rt_spawn(&waiter, "waiter", waiter_main, &pool), 0);
		rt_post(other, &lender.msg);
		rt_join(waiter);
		rt_loop_close(other);
		buf_unref(lender.b); /* still here when the crash came before the message */
	}
	rt_pool_fini(&pool);
	++*ends;
}

static bool ended_twice(void *ends)
{
	return *(unsigned *)ends >= 2;
}

/* A buffer released on another loop posts a message, which is lost when the process crashes. */
static void a_pool_is_freed_when_its_process_crashes_at_any_wait(void **state)
{
	(void)state;
	uint64_t waits = 0;
	uint64_t crashes = 0;
	for (uint64_t nth = 1; nth == 1 || nth <= waits; nth++) {
		struct sim_config config;
		sim_config_init(&config, 1, 0);
		struct sim *sim = sim_open(&config);
		CHECK(sim != NULL);
		unsigned ends = 0;
		struct sim_node *node = sim_node_add(sim, "node", 0);
		sim_node_start(node, pool_process_main, &ends);
		sim_node_crash_at(node, nth, false);
		CHECK(sim_run_until(sim, ended_twice, &ends, 600 * NS_PER_S));
		crashes += sim_node_lives(node) == 2;
		waits = max_u64(waits, sim_node_waits(node));
		sim_close(sim);
	}
	CHECK(waits > 10 && crashes == waits);
}

int main(void)
{
	log_set_level(LOG_WARN);
	const struct CMUnitTest tests[] = {
		IN_TLS_TOO(body_context_and_payload_arrive),
		IN_TLS_TOO(a_body_larger_than_any_batch_arrives),
		IN_TLS_TOO(an_error_comes_with_its_words),
		IN_TLS_TOO(an_answer_overtakes_a_slower_one),
		IN_WORLD(answers_come_in_the_order_in_which_handlers_end, "sim"),
		IN_TLS_TOO(many_calls_at_once_each_get_their_own_answer),
		IN_TLS_TOO(a_late_call_fails_alone_and_its_handler_is_told),
		IN_WORLD(idle_time_is_not_silence_after_a_late_answer, "sim"),
		IN_WORLD(idle_time_is_not_silence_after_a_cancelled_call, "sim"),
		IN_WORLD(late_calls_add_up_to_a_silent_peer, "sim"),
		IN_TLS_TOO(cancelling_the_caller_cancels_the_handler),
		IN_TLS_TOO(losing_the_client_cancels_the_handler),
		IN_EVERY_WORLD(the_deadline_of_the_caller_is_that_of_the_handler),
		IN_EVERY_WORLD(a_call_to_nobody_is_refused_and_was_not_sent),
		IN_EVERY_WORLD(attempts_to_connect_grow_rarer),
		IN_TLS_TOO(a_retried_call_waits_for_the_server_to_come_back),
		IN_EVERY_WORLD(a_call_that_was_under_way_is_lost_with_its_connection),
		IN_TLS_TOO(requests_under_way_may_end_when_a_server_closes),
		IN_EVERY_WORLD(requests_that_do_not_end_are_cancelled_after_the_grace),
		IN_TLS_TOO(payloads_beyond_the_pool_wait_in_the_client),
		IN_TLS_TOO(large_bodies_are_bounded_together),
		IN_EVERY_WORLD(a_pool_serves_those_who_wait_in_order),
		cmocka_unit_test(a_pool_is_freed_when_its_process_crashes_at_any_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
