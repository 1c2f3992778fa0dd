// SPDX-License-Identifier: Apache-2.0
/*
 * The fiber of a channel. It connects when a caller needs it, reads responses and completes their
 * calls. When the connection is lost it fails all calls on it.
 */
#include "rpc/client_conn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/bug.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/log.h"
#include "rpc/body.h"
#include "rpc/counters.h"
#include "rpc/rpc.pb-c.h"
#include "rpc/type.h"
#include "rt/net.h"
#include "rt/pool.h"
#include "rt/rt.h"

/* Limits for the parts of any response; the request type of a call can have smaller limits. */
static const struct frame_limits client_limits = {.body_max = RPC_BODY_MAX,
						  .payload_max = RPC_PAYLOAD_MAX};

/* --- responses ------------------------------------------------------------------------------- */

static void call_finish(struct client_conn *c, struct client_call *call, int rc)
{
	assert(!call->done && rc <= 0);
	assert(map_get(&c->calls, call->id) == call);
	map_remove(&c->calls, call->id);
	list_remove(&call->link);
	if (c->receiving == call)
		c->receiving = NULL;
	call->rc = rc;
	call->done = true;
	rt_cond_signal(&call->wake);
	rt_cond_signal(&c->slot);
}

/* Ends a call whose response was damaged or too large. */
static void call_bad_response(struct client_conn *c, struct client_call *call, int rc)
{
	call->lost = rc == -EBADMSG;
	call_finish(c, call, rc);
}

static struct client_call *conn_find_call(struct client_conn *c, const struct frame_header *h)
{
	struct client_call *call = map_get(&c->calls, h->id);
	if (bug_planted(BUG_REPLY_MISMATCH) && call != NULL &&
	    c->channel->counters.connections > 1) {
		/* The planted bug: after a reconnect, gives the response to the oldest call of the
		 * same type. */
		list_for_each_entry(call, &c->pending, link) {
			if (call->args->type->type == h->type)
				return call;
		}
	}
	return call;
}

/* Returns the text of an error response; *retry_ms is the pause that the service advises. */
static const char *error_text(struct arena *a, const uint8_t *body, size_t len, int rc,
			      uint32_t *retry_ms)
{
	ProtobufCMessage *m = NULL;
	if (len > 0 && body_unpack(&terrane__rpc__error_body__descriptor, a, body, len, &m) == 0) {
		const Terrane__Rpc__ErrorBody *e = (const Terrane__Rpc__ErrorBody *)m;
		*retry_ms = e->retry_ms;
		if (e->message[0] != 0)
			return e->message;
	}
	return err_text(rc);
}

/* Returns whether the memory of the call, if it has any, is for a payload of this length. */
static bool payload_fits(const struct rpc_call *args, size_t len)
{
	size_t room = 0;
	if (args->into == NULL || len == 0)
		return true;
	for (size_t i = 0; i < args->into->count; i++)
		room += args->into->list[i].len;
	return len == room;
}

/* Unpacks the body of a response for its call. Ends the call unless a payload follows. */
static void call_take_body(struct client_conn *c, struct client_call *call,
			   const struct frame_header *h, const uint8_t *body)
{
	struct rpc_counters *n = &c->channel->counters;
	const struct rpc_type *t = call->args->type;
	if (crc32c(0, body, h->body_len) != h->meta_crc) {
		n->bad_body_crc++;
		call_bad_response(c, call, -EBADMSG);
		return;
	}
	arena_reset(&call->reply->arena, body_limit(h->body_len));
	int rc = err_from_wire(h->status);
	if (rc < 0) {
		call->executed = (h->flags & FRAME_NOT_EXECUTED) == 0;
		call->lost = !call->executed && rc == -EBADMSG;
		call->reply->error = error_text(&call->reply->arena, body, h->body_len, rc,
						&call->reply->retry_ms);
		call_finish(c, call, rc);
		return;
	}
	if (h->body_len > t->response_max || h->payload_len > t->response_payload_max ||
	    !payload_fits(call->args, h->payload_len)) {
		n->too_large++;
		call_bad_response(c, call, -EMSGSIZE);
		return;
	}
	ProtobufCMessage *m = NULL;
	rc = body_unpack(t->response, &call->reply->arena, body, h->body_len, &m);
	if (rc < 0) {
		n->bad_body++;
		call_finish(c, call, rc);
		return;
	}
	call->reply->message = m;
	if (h->payload_len == 0)
		call_finish(c, call, 0);
}

/* Ends the call c->receiving with its payload. The call may have ended while the payload arrived. */
static void call_take_payload(struct client_conn *c, const struct frame_header *h, struct buf *b,
			      uint32_t crc)
{
	struct client_call *call = c->receiving;
	struct rpc_counters *n = &c->channel->counters;
	if (call == NULL) {
		n->late++;
	} else if (crc != h->payload_crc) {
		n->bad_payload_crc++;
		call_bad_response(c, call, -EBADMSG);
	} else {
		call->reply->payload = (struct slice){
			.buf = b != NULL ? buf_ref(b) : NULL, .len = h->payload_len, .crc = crc};
		call_finish(c, call, 0);
	}
}

/* Reads the payload into the memory of the call. If the call ends early the rest of the payload is dropped. */
static int conn_read_places(struct client_conn *c, const struct frame_header *h)
{
	assert(c->receiving != NULL && c->placing == NULL);
	const struct rpc_call *args = c->receiving->args;
	uint32_t crc = 0;
	c->placing = c->receiving;
	int rc = in_places(&c->in, args->into, &crc);
	c->placing = NULL;
	rt_cond_broadcast(&c->placed);
	if (rc == -EINTR) {
		c->channel->counters.late++;
		return in_skip(&c->in, h->payload_len - c->in.read_bytes);
	}
	if (rc == 0) {
		c->channel->counters.placed_bytes += h->payload_len;
		call_take_payload(c, h, NULL, crc);
	}
	return rc;
}

/* Reads the payload for c->receiving. The call may end during each wait of this function, and then
 * c->receiving is NULL. */
static int conn_read_payload(struct client_conn *c, const struct frame_header *h)
{
	if (h->payload_len == 0)
		return 0;
	if (c->receiving == NULL)
		return in_skip(&c->in, h->payload_len);
	if (c->receiving->args->into != NULL)
		return conn_read_places(c, h);
	AUTO_BUF struct buf *b = NULL;
	uint32_t crc = 0;
	int rc = rt_pool_get(c->channel->opts.pool, h->payload_len, &b);
	if (rc == 0)
		rc = in_read(&c->in, b->data, h->payload_len, NULL, &crc);
	if (rc < 0)
		return rc;
	b->len = h->payload_len;
	call_take_payload(c, h, b, crc);
	return 0;
}

/* Reads the body of a response into the read-ahead buffer, or into a new buffer *apart if the body
 * is too large for the read-ahead buffer. */
static int conn_read_body(struct client_conn *c, const struct frame_header *h, struct buf **apart,
			  const uint8_t **body)
{
	if (h->body_len <= IN_BYTES)
		return in_view(&c->in, h->body_len, body);
	uint32_t crc = 0;
	int rc = rt_pool_get(c->channel->opts.pool, h->body_len, apart);
	if (rc == 0)
		rc = in_read(&c->in, (*apart)->data, h->body_len, NULL, &crc);
	*body = rc == 0 ? (*apart)->data : NULL;
	return rc;
}

/* Restarts the measure of silence after a response to any call. */
static void conn_answered(struct client_conn *c)
{
	c->asked_ns = list_empty(&c->pending) ? 0 : c->in.heard_ns | 1;
}

static int conn_response(struct client_conn *c, const struct frame_header *h)
{
	struct rpc_counters *n = &c->channel->counters;
	AUTO_BUF struct buf *apart = NULL;
	const uint8_t *body = NULL;
	int rc = conn_read_body(c, h, &apart, &body);
	if (rc < 0)
		return rc;
	c->heard = true;
	c->channel->failures = 0;
	struct client_call *call = conn_find_call(c, h);
	if (call == NULL) {
		n->late++;
		conn_answered(c);
		return in_skip(&c->in, h->payload_len);
	}
	if (call->args->type->type != h->type) {
		n->unexpected_frame++;
		return -EPROTO;
	}
	c->receiving = call;
	call_take_body(c, call, h, body);
	rc = conn_read_payload(c, h);
	c->receiving = NULL;
	conn_answered(c);
	return rc;
}

static int conn_goodbye(struct client_conn *c, const struct frame_header *h)
{
	AUTO_BUF struct buf *apart = NULL;
	const uint8_t *body = NULL;
	int rc = conn_read_body(c, h, &apart, &body);
	if (rc < 0)
		return rc;
	struct arena a;
	arena_init(&a, body_limit(h->body_len));
	int err = err_from_wire(h->status);
	uint32_t retry_ms = 0;
	bool whole = crc32c(0, body, h->body_len) == h->meta_crc;
	log_info("rpc_goodbye", "peer=%s err=%s text=%s", c->channel->addr, err_name(err),
		 LOG_QUOTE(error_text(&a, body, whole ? h->body_len : 0, err, &retry_ms)));
	arena_fini(&a);
	if (err < 0)
		c->channel->last_error = err;
	return -EPIPE;
}

static int conn_one_frame(struct client_conn *c)
{
	const uint8_t *at = NULL;
	int rc = in_header(&c->in, 0, &at);
	if (rc < 0)
		return rc;
	struct rpc_counters *n = &c->channel->counters;
	struct frame_header h;
	enum frame_fault fault = FRAME_OK;
	rc = frame_decode(&h, at, &client_limits, &fault);
	if (rc < 0) {
		rpc_count_fault(n, fault);
		return rc;
	}
	if (h.kind == FRAME_RESPONSE)
		return conn_response(c, &h);
	if (h.kind == FRAME_GOODBYE)
		return conn_goodbye(c, &h);
	n->unexpected_frame++;
	return -EPROTO;
}

/* --- a connection's life --------------------------------------------------------------------- */

void client_conn_unref(struct client_conn *c)
{
	assert(c->refs > 0);
	if (--c->refs > 0)
		return;
	assert(map_count(&c->calls) == 0 && list_empty(&c->pending) && c->receiving == NULL);
	in_fini(&c->in);
	map_fini(&c->calls);
	free(c);
}

static void conn_count_end(struct client_conn *c, int rc)
{
	struct rpc_counters *n = &c->channel->counters;
	if (rc == -ETIMEDOUT)
		n->stalled_frames++;
	else if (c->in.cut)
		n->cut_frames++;
	if (c->out.error == -ETIMEDOUT)
		n->stalled_writes++;
	if (rc == -EPIPE || rc == -ECANCELED)
		return;
	/* Callers that wait for a response get the error, so the loss is logged at level info only
	 * if no caller waits. */
	if (list_empty(&c->pending))
		log_info("rpc_connection_lost", "peer=%s err=%s", c->channel->addr, err_name(rc));
	else
		log_debug("rpc_connection_lost", "peer=%s err=%s calls=%zu", c->channel->addr,
			  err_name(rc), map_count(&c->calls));
}

/* Ends a connection that the channel no longer uses: fails its calls and drops the fiber's
 * reference. */
static void conn_end(struct client_conn *c, int rc)
{
	assert(!c->lost && rc < 0 && c->channel->conn != c);
	conn_count_end(c, rc);
	c->lost = true;
	out_break(&c->out, rc);
	while (!list_empty(&c->pending)) {
		struct client_call *call =
			list_entry(list_first(&c->pending), struct client_call, link);
		call->lost = true;
		call_finish(c, call, -ECONNRESET);
	}
	rt_cond_broadcast(&c->slot);
	rt_shield_enter();
	out_fini(&c->out);
	rt_shield_leave();
	c->channel->out_peak = max_u64(c->channel->out_peak, c->out.peak_bytes);
	secure_close(&c->wire);
	client_conn_unref(c);
}

/* Makes a connection that owns the socket, also after an error. */
/* Takes over the link, also after an error. */
static int conn_start_take(struct rpc_channel *ch, struct secure_link link,
			   struct client_conn **out)
{
	struct client_conn *c = calloc(1, sizeof(*c));
	if (c == NULL) {
		secure_close(&link);
		return -ENOMEM;
	}
	c->channel = ch;
	c->refs = 1;
	c->wire = link;
	map_init(&c->calls, ch->opts.calls_max);
	list_init(&c->pending);
	rt_cond_init(&c->slot);
	rt_cond_init(&c->placed);
	int rc = in_init(&c->in, &c->wire, ch->opts.stall_ns);
	if (rc == 0)
		rc = out_init(&c->out, &c->wire, ch->opts.pool, ch->opts.stall_ns);
	if (rc < 0) {
		secure_close(&c->wire);
		client_conn_unref(c);
		return rc;
	}
	*out = c;
	return 0;
}

/* --- the channel's fiber --------------------------------------------------------------------- */

static int link_open(struct rpc_channel *ch, struct secure_link *link)
{
	int rc = rt_connect(&link->sock, ch->addr);
	if (rc < 0 || ch->opts.self == NULL)
		return rc;
	rc = secure_connect(link, ch->opts.self, ch->opts.server);
	if (rc < 0)
		secure_close(link);
	ch->counters.refused_handshakes += rc < 0;
	return rc;
}

static int channel_connect(struct rpc_channel *ch, struct client_conn **out)
{
	struct secure_link link = {0};
	rt_deadline_set(rt_now_ns() + ch->opts.connect_timeout_ns);
	int rc = link_open(ch, &link);
	/* A node that knows the key of replaced credentials asks for the new one after the first refusal. */
	if (rc == -EACCES && ch->opts.server != SECURE_METADATA)
		rc = rt_sleep_ns(ch->opts.backoff_min_ns) < 0 ? rc : link_open(ch, &link);
	rt_deadline_set(RT_NEVER);
	if (rc == 0)
		rc = conn_start_take(ch, link, out);
	return rc == -ETIME ? -ETIMEDOUT : rc;
}

uint64_t client_backoff_ns(const struct rpc_channel *ch, unsigned failures)
{
	uint64_t delay = ch->opts.backoff_max_ns;
	assert(ch->opts.backoff_min_ns > 0);
	if (failures == 0 || bug_planted(BUG_RETRY_AT_ONCE))
		delay = 0;
	else if (failures < 32)
		delay = min_u64(delay, ch->opts.backoff_min_ns << (failures - 1));
	if (delay > 1)
		delay = delay / 2 + rt_random_u64() % (delay - delay / 2);
	return delay;
}

static void channel_plan_next(struct rpc_channel *ch)
{
	ch->not_before_ns = rt_now_ns() + client_backoff_ns(ch, ch->failures);
}

static void channel_failed(struct rpc_channel *ch, int rc)
{
	ch->last_error = rc;
	ch->failures++;
	ch->failures_total++;
	channel_plan_next(ch);
	rt_cond_broadcast(&ch->changed);
}

/* Reads from a connection until it is lost. */
static int channel_serve(struct rpc_channel *ch, struct client_conn *c)
{
	assert(ch->conn == NULL && c->refs == 1);
	ch->counters.connections++;
	ch->last_error = 0;
	ch->conn = c;
	rt_cond_broadcast(&ch->changed);
	int rc = 0;
	while (rc == 0)
		rc = conn_one_frame(c);
	ch->conn = NULL;
	bool heard = c->heard;
	conn_end(c, rc);
	if (!heard)
		channel_failed(ch, ch->last_error != 0 ? ch->last_error : -ECONNREFUSED);
	else
		channel_plan_next(ch);
	return rc == -ECANCELED ? rc : 0;
}

static int channel_step(struct rpc_channel *ch)
{
	if (ch->wanted == 0)
		return rt_cond_wait(&ch->work);
	uint64_t now = rt_now_ns();
	if (now < ch->not_before_ns) {
		int rc = rt_sleep_ns(ch->not_before_ns - now);
		if (rc < 0)
			return rc;
	}
	struct client_conn *c = NULL;
	int rc = channel_connect(ch, &c);
	if (rc == 0)
		return channel_serve(ch, c);
	if (rc == -ECANCELED)
		return rc;
	channel_failed(ch, rc);
	return 0;
}

void client_channel_main(void *channel)
{
	rt_background();
	while (channel_step(channel) == 0)
		;
}
