// SPDX-License-Identifier: Apache-2.0
#include "rpc/client.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "rpc/client_conn.h"
#include "rpc/type.h"
#include "rt/rt.h"

#define ERROR_TEXT_MAX 256

static uint64_t or_default(uint64_t value, uint64_t def)
{
	return value != 0 ? value : def;
}

int rpc_channel_open(struct rpc_channel **out, const char *addr,
		     const struct rpc_channel_options *o)
{
	*out = NULL;
	struct rpc_channel *ch = calloc(1, sizeof(*ch));
	if (ch == NULL)
		return -ENOMEM;
	ch->opts = (struct rpc_channel_options){
		.pool = o->pool,
		.self = o->self,
		.server = o->server,
		.connect_timeout_ns = or_default(o->connect_timeout_ns, 5 * NS_PER_S),
		.stall_ns = or_default(o->stall_ns, 30 * NS_PER_S),
		.silence_ns = or_default(o->silence_ns, 2 * NS_PER_S),
		.backoff_min_ns = or_default(o->backoff_min_ns, 20 * NS_PER_MS),
		.backoff_max_ns = or_default(o->backoff_max_ns, 2 * NS_PER_S),
		.calls_max = or_default(o->calls_max, 4096),
	};
	rt_cond_init(&ch->work);
	rt_cond_init(&ch->changed);
	ch->next_id = 1;
	int n = snprintf(ch->addr, sizeof(ch->addr), "%s", addr);
	int rc = n < 0 || (size_t)n >= sizeof(ch->addr) ? -EINVAL : 0;
	if (rc == 0)
		rc = rt_spawn(&ch->fiber, "rpc-channel", client_channel_main, ch);
	if (rc < 0) {
		free(ch);
		return rc;
	}
	*out = ch;
	return 0;
}

void rpc_channel_close(struct rpc_channel *ch)
{
	if (ch == NULL)
		return;
	assert(ch->callers == 0);
	rt_cancel(ch->fiber);
	rt_join(ch->fiber);
	free(ch);
}

const struct rpc_counters *rpc_channel_counters(const struct rpc_channel *ch)
{
	return &ch->counters;
}

size_t rpc_channel_out_peak(const struct rpc_channel *ch)
{
	return max_u64(ch->out_peak, ch->conn != NULL ? ch->conn->out.peak_bytes : 0);
}

/* --- calls ----------------------------------------------------------------------------------- */

/* Reports whether the channel has a usable connection. A connection with a broken stream stays in
 * ch->conn until the channel's fiber removes it. */
static bool channel_up(const struct rpc_channel *ch)
{
	return ch->conn != NULL && ch->conn->out.error == 0;
}

/* Returns the reason why there is no connection. */
static int channel_error(const struct rpc_channel *ch)
{
	return ch->last_error != 0 ? ch->last_error : -ETIMEDOUT;
}

/* Waits for a connection and takes a reference to it. If retry is false, returns the error of the
 * first failed attempt to connect. */
static int channel_await(struct rpc_channel *ch, bool retry, struct client_conn **out)
{
	while (!channel_up(ch)) {
		uint64_t failures = ch->failures_total;
		if (!retry && ch->failures > 0 && rt_now_ns() < ch->not_before_ns)
			return channel_error(ch);
		ch->wanted++;
		rt_cond_signal(&ch->work);
		int rc = rt_cond_wait(&ch->changed);
		ch->wanted--;
		if (rc == -ETIME)
			return channel_error(ch);
		if (rc < 0)
			return rc;
		bool failed = !channel_up(ch) && ch->failures_total != failures;
		if (failed && (!retry || client_refused(ch, ch->last_error)))
			return channel_error(ch);
	}
	*out = ch->conn;
	assert((*out)->refs > 0 && !(*out)->lost);
	(*out)->refs++;
	return 0;
}

static int conn_add_call(struct client_conn *c, struct client_call *call)
{
	while (!c->lost && map_count(&c->calls) >= c->channel->opts.calls_max) {
		int rc = rt_cond_wait(&c->slot);
		if (rc < 0)
			return rc;
	}
	if (c->lost) {
		call->lost = true;
		return -ECONNRESET;
	}
	assert(!call->done && list_empty(&call->link));
	call->id = c->channel->next_id++;
	int rc = map_put(&c->calls, call->id, call);
	if (rc == 0)
		list_push_back(&c->pending, &call->link);
	return rc;
}

/* Ends the receive into the memory of a call. Waits for the reader, which is interrupted. */
static void conn_leave_places(struct client_conn *c, const struct client_call *call)
{
	in_leave(&c->in, c->channel->fiber);
	rt_shield_enter();
	while (c->placing == call)
		if (rt_cond_wait(&c->placed) < 0)
			break; /* the process has crashed; the reader does not use the memory again */
	rt_shield_leave();
}

/*
 * Removes a call that ends without a response. If the request was sent, sends the server a cancel.
 */
static void conn_forget_call(struct client_conn *c, struct client_call *call, int rc)
{
	assert(!call->done && rc < 0);
	map_remove(&c->calls, call->id);
	list_remove(&call->link);
	if (c->receiving == call)
		c->receiving = NULL;
	if (c->placing == call)
		conn_leave_places(c, call);
	rt_cond_signal(&c->slot);
	if (!call->executed)
		return;
	struct out_frame f = {
		.head = {.kind = FRAME_CANCEL, .type = call->args->type->type, .id = call->id},
		.no_wait = true};
	(void)out_frame(&c->out, &f);
	c->channel->counters.cancels++;
	/*
	 * If no call waits any more, the time until the next call does not count as silence of the
	 * peer. After a call that passed its deadline asked_ns stays, so that the silence during
	 * several such calls adds up.
	 */
	if (rc != -ETIME && list_empty(&c->pending))
		c->asked_ns = 0;
	uint64_t since = max_u64(c->asked_ns, c->in.heard_ns);
	if (rc == -ETIME && c->asked_ns != 0 &&
	    rt_now_ns() >= since + c->channel->opts.silence_ns) {
		c->channel->counters.silent_peers++;
		out_break(&c->out, -ETIMEDOUT);
	}
}

static int call_send(struct client_conn *c, struct client_call *call)
{
	struct out_frame f = {
		.head = {.kind = FRAME_REQUEST, .type = call->args->type->type, .id = call->id},
		.deadline_ns = rt_deadline(),
		.context = rt_context(),
		.body = call->args->request,
		.payload = call->args->payload,
	};
	int rc = out_frame(&c->out, &f);
	if (rc == -ECONNRESET)
		call->lost = true;
	if (rc < 0)
		return rc;
	call->executed = true;
	if (c->asked_ns == 0)
		c->asked_ns = rt_now_ns() | 1;
	return 0;
}

static int call_on(struct client_conn *c, struct client_call *call)
{
	int rc = conn_add_call(c, call);
	if (rc < 0)
		return rc;
	rc = call_send(c, call);
	while (rc == 0 && !call->done)
		rc = rt_cond_wait(&call->wake);
	if (call->done)
		return call->rc;
	conn_forget_call(c, call, rc);
	return rc;
}

static void reply_reset(struct rpc_reply *reply)
{
	buf_unref(reply->payload.buf);
	arena_reset(&reply->arena, 0);
	reply->message = NULL;
	reply->payload = (struct slice){0};
	reply->error = "";
	reply->retry_ms = 0;
}

/* Sends the call once, on one connection, and waits for its response. Sets *again if another try
 * may succeed. */
static int call_once(struct rpc_channel *ch, const struct rpc_call *args, struct rpc_reply *reply,
		     bool *again)
{
	struct client_conn *c = NULL;
	*again = false;
	reply_reset(reply);
	int rc = channel_await(ch, args->retry, &c);
	if (rc != 0) {
		bool in_time = rt_deadline() == RT_NEVER || rt_now_ns() < rt_deadline();
		return reply->maybe_executed && rc != -ECANCELED && !in_time ? -ETIME : rc;
	}
	assert(c != NULL);
	struct client_call call = {.args = args, .reply = reply};
	list_init(&call.link);
	rt_cond_init(&call.wake);
	rc = call_on(c, &call);
	client_conn_unref(c);
	reply->maybe_executed = reply->maybe_executed || call.executed;
	*again = call.lost;
	return rc;
}

/* The last failed try, for the case that the deadline passes before another ends. */
struct failed_try {
	int rc;
	char text[ERROR_TEXT_MAX];
};

static void failed_keep(struct failed_try *f, int rc, const struct rpc_reply *reply)
{
	f->rc = rc;
	snprintf(f->text, sizeof(f->text), "%s",
		 reply->error[0] != 0 ? reply->error : err_text(rc));
}

/* Sets the reply's error to the text of the failed try and the number of tries. */
static void failed_tell(const struct failed_try *f, unsigned tries, struct rpc_reply *reply)
{
	char text[ERROR_TEXT_MAX + 32];
	snprintf(text, sizeof(text), "%s (after %u tries)", f->text, tries);
	reply_reset(reply);
	arena_reset(&reply->arena, sizeof(text));
	const char *told = arena_strdup(&reply->arena, text);
	if (told != NULL)
		reply->error = told;
}

static int call_tries(struct rpc_channel *ch, const struct rpc_call *args, struct rpc_reply *reply)
{
	struct failed_try failed = {0};
	bool again = false;
	unsigned tries = 1;
	int rc = call_once(ch, args, reply, &again);
	while (rc < 0 && again && args->retry) {
		failed_keep(&failed, rc, reply);
		if (tries == RPC_TRIES_MAX)
			break;
		rc = rt_sleep_ns(client_backoff_ns(ch, tries));
		reply_reset(reply);
		if (rc < 0)
			break;
		tries++;
		ch->counters.retries++;
		rc = call_once(ch, args, reply, &again);
	}
	if (failed.rc != 0 && (rc == -ETIME || (again && tries == RPC_TRIES_MAX))) {
		rc = failed.rc;
		failed_tell(&failed, tries, reply);
	}
	return rc;
}

void rpc_reply_init(struct rpc_reply *reply)
{
	arena_init(&reply->arena, 0);
	reply->message = NULL;
	reply->payload = (struct slice){0};
	reply->error = "";
	reply->retry_ms = 0;
	reply->maybe_executed = false;
}

int rpc_call(struct rpc_channel *ch, const struct rpc_call *args, struct rpc_reply *reply)
{
	rpc_reply_init(reply);
	uint64_t before = rt_deadline();
	if (args->timeout_ns != 0)
		rt_deadline_narrow(rt_now_ns() + args->timeout_ns);
	assert(args->type != NULL && args->request->descriptor == args->type->request);
	ch->callers++;
	ch->counters.requests++;
	int rc = call_tries(ch, args, reply);
	assert(ch->callers > 0 && rc <= 0);
	assert(rc < 0 || reply->message != NULL);
	ch->callers--;
	rt_deadline_set(before);
	if (rc < 0) {
		ch->counters.failures++;
		reply->message = NULL;
		if (reply->error[0] == 0)
			reply->error = rc != -EPROTONOSUPPORT && !reply->maybe_executed &&
						       client_refused(ch, rc)
					       ? "the server refuses the credentials, or does not "
						 "prove that it is "
						 "the server of this address"
					       : err_text(rc);
	}
	return rc;
}

void rpc_reply_fini(struct rpc_reply *reply)
{
	buf_unref(reply->payload.buf);
	reply->payload.buf = NULL;
	arena_fini(&reply->arena);
}
