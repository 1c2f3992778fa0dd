// SPDX-License-Identifier: Apache-2.0
/*
 * Connecting to a machine that does not answer, in simulated time: a machine that is off drops every packet, so only
 * the client's own time-outs end an attempt.
 */
#include <errno.h>
#include <string.h>

#include "client/engine.h"
#include "rpc/counters.h"
#include "rpc/type.h"
#include "rpc_fixture.h"
#include "sim_test.h"

#define OFF "off:7000" /* the machine has no process, and never had one */
#define CONNECT_NS (2 * NS_PER_S)
#define SLACK_NS (50 * NS_PER_MS) /* simulated time that the steps of a call may take */

struct silent {
	void (*body)(void);
	bool done;
};

static void silent_main(void *arg)
{
	struct silent *t = arg;
	t->body();
	t->done = true;
}

static bool silent_done(void *arg)
{
	return ((const struct silent *)arg)->done;
}

/* Runs the body on one machine of a network where the machine "off" does not answer. */
static void silent_run(void (*body)(void))
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct silent t = {.body = body};
		struct sim_config config;
		sim_config_init(&config, seed, 0);
		struct sim *sim = sim_open(&config);
		CHECK(sim != NULL);
		struct sim_shown shown = {.sim = sim, .seed = seed};
		check_hook_set(sim_shown_print, &shown);
		(void)sim_node_add(sim, "off", 0);
		struct sim_node *n = sim_node_add(sim, "client", 1);
		sim_node_start(n, silent_main, &t);
		CHECK(sim_run_until(sim, silent_done, &t, 600 * NS_PER_S));
		check_hook_set(NULL, NULL);
		sim_close(sim);
	}
}

/* Makes one call; sets *took_ns to its duration. */
static int call_timed(struct rpc_channel *ch, uint64_t timeout_ns, bool retry, uint64_t *took_ns)
{
	Terrane__Rpc__Tags q = tags_of(1, "ping");
	struct rpc_call call = {
		.type = &type_echo, .request = &q.base, .timeout_ns = timeout_ns, .retry = retry};
	AUTO_REPLY struct rpc_reply reply;
	uint64_t start_ns = rt_now_ns();
	int rc = rpc_call(ch, &call, &reply);
	*took_ns = rt_elapsed_ns(start_ns);
	CHECK(!reply.maybe_executed);
	return rc;
}

static struct rpc_channel *channel_open(struct rt_pool *pool)
{
	struct rpc_channel *ch = NULL;
	rt_pool_init(pool, 16 * MIB);
	CHECK_RC(rpc_channel_open(&ch, OFF,
				  &(struct rpc_channel_options){.pool = pool,
								.connect_timeout_ns = CONNECT_NS}),
		 0);
	return ch;
}

static void channel_end(struct rpc_channel *ch, struct rt_pool *pool)
{
	rpc_channel_close(ch);
	rt_pool_fini(pool);
}

static void first_attempt_body(void)
{
	struct rt_pool pool;
	struct rpc_channel *ch = channel_open(&pool);
	uint64_t took_ns = 0;
	CHECK_RC(call_timed(ch, 60 * NS_PER_S, false, &took_ns), -ETIMEDOUT);
	CHECK(took_ns >= CONNECT_NS && took_ns <= CONNECT_NS + SLACK_NS);
	/* The next call does not wait for another attempt: the channel is in its back-off. */
	CHECK_RC(call_timed(ch, 60 * NS_PER_S, false, &took_ns), -ETIMEDOUT);
	CHECK(took_ns <= SLACK_NS);
	channel_end(ch, &pool);
}

static void a_call_without_retries_fails_when_the_attempt_to_connect_times_out(void **state)
{
	(void)state;
	silent_run(first_attempt_body);
}

static void deadline_body(void)
{
	struct rt_pool pool;
	struct rpc_channel *ch = channel_open(&pool);
	uint64_t took_ns = 0;
	for (int retry = 0; retry <= 1; retry++) {
		CHECK_RC(call_timed(ch, CONNECT_NS / 4, retry == 1, &took_ns), -ETIMEDOUT);
		CHECK(took_ns >= CONNECT_NS / 4 && took_ns <= CONNECT_NS / 4 + SLACK_NS);
	}
	channel_end(ch, &pool);
}

static void a_call_ends_at_its_deadline_while_the_first_attempt_to_connect_runs(void **state)
{
	(void)state;
	silent_run(deadline_body);
}

static void retries_body(void)
{
	struct rt_pool pool;
	struct rpc_channel *ch = channel_open(&pool);
	uint64_t took_ns = 0;
	CHECK_RC(call_timed(ch, 5 * CONNECT_NS, true, &took_ns), -ETIMEDOUT);
	CHECK(took_ns >= 5 * CONNECT_NS && took_ns <= 5 * CONNECT_NS + SLACK_NS);
	CHECK_EQ(rpc_channel_counters(ch)->connections, 0);
	channel_end(ch, &pool);
}

static void a_call_with_retries_fails_at_its_deadline(void **state)
{
	(void)state;
	silent_run(retries_body);
}

static void engine_body(void)
{
	static const struct {
		uint64_t timeout_ns, within_ns;
	} cases[] = {{0, 3 * NS_PER_S}, {NS_PER_S, NS_PER_S}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct engine_options o = {.metadata = OFF,
					   .tenant = "default",
					   .traffic_group = "",
					   .connect_timeout_ns = cases[i].timeout_ns};
		struct engine *e = NULL;
		char why[FABRIC_ERROR_MAX] = "";
		uint64_t start_ns = rt_now_ns();
		int rc = engine_open(&e, &o, why);
		CHECK(rc == -EHOSTUNREACH || rc == -ETIMEDOUT);
		CHECK(rt_elapsed_ns(start_ns) <= cases[i].within_ns + SLACK_NS);
		CHECK(e == NULL && strstr(why, OFF) != NULL);
	}
}

static void a_client_gives_up_when_no_metadata_server_answers(void **state)
{
	(void)state;
	silent_run(engine_body);
}

int main(void)
{
	log_set_level(LOG_ERROR);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_call_without_retries_fails_when_the_attempt_to_connect_times_out),
		cmocka_unit_test(
			a_call_ends_at_its_deadline_while_the_first_attempt_to_connect_runs),
		cmocka_unit_test(a_call_with_retries_fails_at_its_deadline),
		cmocka_unit_test(a_client_gives_up_when_no_metadata_server_answers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
