// SPDX-License-Identifier: Apache-2.0
/*
 * One connection of a server: reads frames, starts a fiber for each request, and refuses invalid
 * ones. After an intact header an error affects only that request: the server skips its bytes,
 * sends an error response and keeps the connection. After a bad header the begin of the next frame
 * is unknown: the server sends a goodbye and closes the connection.
 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/crc.h"
#include "base/err.h"
#include "base/log.h"
#include "rpc/body.h"
#include "rpc/context.h"
#include "rpc/counters.h"
#include "rpc/rpc.pb-c.h"
#include "rpc/server_conn.h"
#include "rpc/type.h"
#include "rt/net.h"

#define FREE_REQUESTS_MAX 1024
#define ERROR_TEXT_MAX 256
/* a context and body beyond this size are charged to the connection's share */
#define SMALL_META_BYTES 4096

/* --- requests -------------------------------------------------------------------------------- */

static struct rpc_request *request_new(struct server_conn *c, const struct rpc_method *m,
				       const struct frame_header *h)
{
	struct rpc_server *s = c->server;
	size_t limit = body_limit((size_t)h->context_len + h->body_len);
	struct list *node = list_pop_front(&s->free_requests);
	struct rpc_request *r = NULL;
	if (node != NULL) {
		r = list_entry(node, struct rpc_request, link);
		s->free_count--;
		arena_reset(&r->arena, limit);
	} else {
		r = malloc(sizeof(*r));
		if (r == NULL)
			return NULL;
		arena_init(&r->arena, limit);
	}
	r->type = m->type;
	r->service = s->opts.service;
	r->payload = (struct slice){0};
	r->pieces = NULL;
	r->body = NULL;
	r->reply = NULL;
	r->reply_payload = (struct slice){0};
	r->error = NULL;
	r->retry_ms = 0;
	r->method = m;
	r->conn = c;
	r->context = NULL;
	r->fiber = NULL;
	r->id = h->id;
	r->deadline_ns = RT_NEVER;
	r->bulk_bytes = 0;
	r->cancelled = false;
	list_push_back(&c->requests, &r->link);
	c->in_flight++;
	s->in_flight++;
	s->stats.in_flight_peak = max_u64(s->stats.in_flight_peak, s->in_flight);
	return r;
}

void server_request_free(struct rpc_server *s, struct rpc_request *r)
{
	if (s->free_count < FREE_REQUESTS_MAX) {
		arena_reset(&r->arena, 0);
		list_push_front(&s->free_requests, &r->link);
		s->free_count++;
		return;
	}
	arena_fini(&r->arena);
	free(r);
}

static void request_end(struct rpc_request *r)
{
	struct server_conn *c = r->conn;
	assert(c->in_flight > 0 && c->server->in_flight >= c->in_flight);
	free(r->pieces);
	buf_unref(r->payload.buf);
	buf_unref(r->reply_payload.buf);
	context_unref(r->context);
	list_remove(&r->link);
	c->in_flight--;
	c->server->in_flight--;
	if (r->bulk_bytes > 0)
		rt_budget_give(&c->share, r->bulk_bytes);
	rt_cond_broadcast(&c->room);
	server_request_free(c->server, r);
}

/* Charges memory to the connection's share until the request ends. Waits for room; a single
 * charge may exceed the share. On the loop of the connection or of the handler. */
static int request_charge(struct rpc_request *r, size_t bytes)
{
	int rc = rt_budget_take(&r->conn->share, bytes, NULL, NULL);
	if (rc == 0)
		r->bulk_bytes += bytes;
	return rc;
}

const struct session *rpc_session(const struct rpc_request *r)
{
	assert(r->conn->open);
	return r->conn->server->opts.guard != NULL ? &r->conn->session : NULL;
}

const char *rpc_peer(const struct rpc_request *r)
{
	return rt_sock_peer(r->conn->wire.sock);
}

const uint32_t *rpc_payload_pieces(const struct rpc_request *r)
{
	return r->payload.len <= CRC_PIECE_BYTES ? &r->payload.crc : r->pieces;
}

void *rpc_alloc(struct rpc_request *r, size_t len)
{
	return arena_alloc(&r->arena, len);
}

int rpc_reply_buf(struct rpc_request *r, size_t len, struct buf **out)
{
	*out = NULL;
	if (len > r->type->response_payload_max)
		return -EMSGSIZE;
	int rc = request_charge(r, buf_cap_for(len));
	return rc < 0 ? rc : rt_pool_get(r->conn->server->opts.pool, len, out);
}

void rpc_reply_payload_take(struct rpc_request *r, struct slice payload)
{
	assert(payload.offset + payload.len <= payload.buf->cap);
	buf_unref(r->reply_payload.buf);
	r->reply_payload = payload;
}

int rpc_fail(struct rpc_request *r, int err, const char *fmt, ...)
{
	char text[ERROR_TEXT_MAX];
	assert(err < 0);
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	r->error = arena_strdup(&r->arena, text);
	return err;
}

/* --- answers --------------------------------------------------------------------------------- */

static int conn_send_error_body(struct server_conn *c, enum frame_kind kind,
				const struct frame_header *to, int err,
				const Terrane__Rpc__ErrorBody *body, bool not_executed)
{
	struct out_frame f = {
		.head = {.kind = kind, .status = (uint32_t)-err},
		.body = &body->base,
		.no_wait = kind == FRAME_GOODBYE,
	};
	if (to != NULL) {
		f.head.type = to->type;
		f.head.id = to->id;
		f.head.flags = not_executed ? FRAME_NOT_EXECUTED : 0;
	}
	return out_frame(&c->out, &f);
}

static int conn_send_error(struct server_conn *c, enum frame_kind kind,
			   const struct frame_header *to, int err, const char *text,
			   bool not_executed)
{
	Terrane__Rpc__ErrorBody body;
	terrane__rpc__error_body__init(&body);
	body.message = (char *)text;
	return conn_send_error_body(c, kind, to, err, &body, not_executed);
}

static int request_send_reply(struct rpc_request *r)
{
	if (protobuf_c_message_get_packed_size(r->reply) > r->type->response_max ||
	    r->reply_payload.len > r->type->response_payload_max)
		return -EMSGSIZE;
	struct out_frame f = {
		.head = {.kind = FRAME_RESPONSE, .type = r->type->type, .id = r->id},
		.body = r->reply,
		.payload = r->reply_payload,
	};
	return out_frame(&r->conn->out, &f);
}

/* Sends the response, or the error if rc is not 0. A cancelled or late request is answered too,
 * which shows the client that the server is alive. */
static void request_answer(struct rpc_request *r, int rc, bool not_executed)
{
	rt_shield_enter();
	if (rc == 0)
		rc = request_send_reply(r);
	if (rc < 0) {
		struct frame_header to = {.type = r->type->type, .id = r->id};
		Terrane__Rpc__ErrorBody body;
		terrane__rpc__error_body__init(&body);
		body.message = (char *)(r->error != NULL ? r->error : err_text(rc));
		body.retry_ms = r->retry_ms;
		r->conn->server->counters.failures++;
		conn_send_error_body(r->conn, FRAME_RESPONSE, &to, rc, &body, not_executed);
	}
	rt_shield_leave();
}

struct handling {
	struct rpc_request *r;
	int rc;
};

static void handle_there(void *arg)
{
	struct handling *h = arg;
	h->rc = h->r->method->handle(h->r);
}

/* Runs the handler, on the loop that the service names. */
static int request_handle(struct rpc_request *r, bool *not_executed)
{
	const struct rpc_method *m = r->method;
	const struct rpc_server_options *o = &r->conn->server->opts;
	struct rt_port *home = o->home != NULL ? o->home(r) : NULL;
	if (home == NULL || rt_on_loop(home->loop))
		return m->handle(r);
	struct handling h = {.r = r};
	int rc = rt_call(home, m->type->name, handle_there, &h);
	*not_executed = rc != 0;
	return rc != 0 ? rc : h.rc;
}

static void request_main(void *arg)
{
	struct rpc_request *r = arg;
	r->fiber = rt_self();
	rt_deadline_set(r->deadline_ns);
	rt_context_set(r->context);
	int rc = 0;
	if (r->cancelled)
		rc = -ECANCELED;
	else if (r->deadline_ns != RT_NEVER && rt_now_ns() >= r->deadline_ns)
		rc = -ETIME;
	bool not_executed = rc != 0;
	if (rc == 0)
		rc = request_handle(r, &not_executed);
	assert(rc <= 0 && r->conn->in_flight > 0);
	request_answer(r, rc, not_executed);
	request_end(r);
}

/* --- reading --------------------------------------------------------------------------------- */

/* The reason why a request is refused; err is 0 if the server accepts the request. */
struct refusal {
	int err;
	const char *text;
};

static void refuse(struct refusal *f, uint64_t *counter, int err, const char *text)
{
	assert(err < 0 && text != NULL && f->err == 0);
	(*counter)++;
	*f = (struct refusal){.err = err, .text = text};
}

/*
 * Refuses a body or context that matches its checksum but is invalid. The sender made it invalid,
 * so a retry cannot help, and the client gets -EINVAL instead of -EBADMSG, which would mean damage
 * on the way.
 */
static void refuse_malformed(struct refusal *f, struct rpc_counters *n, int rc, const char *text)
{
	if (rc == -EMSGSIZE)
		refuse(f, &n->too_large, rc, "the body or context is larger than allowed");
	else if (rc == -EBADMSG)
		refuse(f, &n->bad_body, -EINVAL, text);
	else
		refuse(f, &n->overloads, rc, err_text(rc));
}

/*
 * Unpacks the context and the body of a request from meta; sets *f if the server must refuse them.
 */
static void request_parse(struct rpc_request *r, const struct frame_header *h, const uint8_t *meta,
			  struct refusal *f)
{
	struct rpc_counters *n = &r->conn->server->counters;
	int rc = rpc_context_read(&r->context, &r->arena, meta, h->context_len, r->deadline_ns);
	if (rc < 0) {
		refuse_malformed(f, n, rc, "the context is malformed; a retry cannot help");
		return;
	}
	rc = body_unpack(r->type->request, &r->arena, meta + h->context_len, h->body_len, &r->body);
	if (rc == 0) {
		/* Reply memory is bounded by the type's own limit, not by the length of the
		 * request. */
		r->arena.limit_bytes = r->arena.used_bytes + body_limit(r->type->response_max);
		rc = body_new(r->type->response, &r->arena, &r->reply);
	}
	if (rc < 0)
		refuse_malformed(f, n, rc, "the body is malformed; a retry cannot help");
}

static int request_read_meta(struct rpc_request *r, const struct frame_header *h, struct refusal *f)
{
	struct server_conn *c = r->conn;
	assert(f->err == 0 && r->body == NULL);
	size_t len = (size_t)h->context_len + h->body_len;
	const uint8_t *meta = NULL;
	AUTO_BUF struct buf *apart = NULL;
	uint32_t crc = 0;
	int rc = len > SMALL_META_BYTES ? request_charge(r, body_limit(len)) : 0;
	if (rc < 0)
		return rc;
	if (len <= IN_BYTES) {
		rc = in_view(&c->in, len, &meta);
		if (rc == 0)
			crc = crc32c(0, meta, len);
	} else {
		rc = incoming_read(&c->server->incoming, &c->in, len, &apart, NULL, &crc);
		meta = apart != NULL ? apart->data : NULL;
	}
	if (rc < 0)
		return rc;
	if (crc != h->meta_crc)
		refuse(f, &c->server->counters.bad_body_crc, -EBADMSG,
		       "the body does not match its checksum");
	else
		request_parse(r, h, meta, f);
	return 0;
}

static int request_read_payload(struct rpc_request *r, const struct frame_header *h,
				struct refusal *f)
{
	struct server_conn *c = r->conn;
	if (h->payload_len == 0)
		return 0;
	if (f->err != 0)
		return in_skip(&c->in, h->payload_len);
	int rc = request_charge(r, buf_cap_for(h->payload_len));
	if (rc < 0)
		return rc;
	r->payload.len = h->payload_len;
	/* Without memory for these CRCs the handler takes its own. */
	if (h->payload_len > CRC_PIECE_BYTES)
		r->pieces = calloc(crc_pieces(h->payload_len), sizeof(*r->pieces));
	rc = incoming_read(&c->server->incoming, &c->in, h->payload_len, &r->payload.buf, r->pieces,
			   &r->payload.crc);
	if (rc == 0 && r->payload.crc != h->payload_crc)
		refuse(f, &c->server->counters.bad_payload_crc, -EBADMSG,
		       "the payload does not match its checksum");
	return rc;
}

static int conn_skip_and_refuse(struct server_conn *c, const struct frame_header *h,
				const struct refusal *f)
{
	int rc = in_skip(&c->in, (size_t)h->context_len + h->body_len + h->payload_len);
	return rc < 0 ? rc : conn_send_error(c, FRAME_RESPONSE, h, f->err, f->text, true);
}

static int conn_start_request(struct server_conn *c, const struct rpc_method *m,
			      const struct frame_header *h)
{
	struct refusal f = {0};
	struct rpc_counters *n = &c->server->counters;
	assert(h->kind == FRAME_REQUEST && c->in_flight < c->server->opts.in_flight_max);
	struct rpc_request *r = request_new(c, m, h);
	if (r == NULL) {
		refuse(&f, &n->overloads, -ENOMEM, err_text(-ENOMEM));
		return conn_skip_and_refuse(c, h, &f);
	}
	if (h->timeout_us != 0 && h->timeout_us < RT_NEVER / NS_PER_US / 2)
		r->deadline_ns = c->in.heard_ns + h->timeout_us * NS_PER_US;
	int rc = request_read_meta(r, h, &f);
	if (rc == 0)
		rc = request_read_payload(r, h, &f);
	if (rc == 0 && f.err == 0) {
		int err = rt_group_spawn(&c->handlers, m->type->name, request_main, r);
		if (err == 0) {
			n->requests++;
			return 0;
		}
		refuse(&f, &n->overloads, err, "too many requests at once");
	}
	request_end(r);
	return rc < 0 ? rc : conn_send_error(c, FRAME_RESPONSE, h, f.err, f.text, true);
}

static int conn_request(struct server_conn *c, const struct frame_header *h)
{
	struct rpc_counters *n = &c->server->counters;
	const struct rpc_method *m = map_get(&c->server->types, h->type);
	struct refusal f = {0};
	char text[64];
	if (m == NULL) {
		snprintf(text, sizeof(text), "this server does not know request type %u", h->type);
		refuse(&f, &n->unknown_type, -ENOSYS, text);
	} else if (h->body_len > m->type->request_max) {
		refuse(&f, &n->too_large, -EMSGSIZE, "the body is larger than its type allows");
	} else if (h->payload_len > m->type->request_payload_max) {
		refuse(&f, &n->too_large, -EMSGSIZE, "the payload is larger than its type allows");
	}
	if (f.err != 0)
		return conn_skip_and_refuse(c, h, &f);
	while (c->in_flight >= c->server->opts.in_flight_max) {
		int rc = rt_cond_wait(&c->room);
		if (rc < 0)
			return rc;
	}
	return conn_start_request(c, m, h);
}

static void conn_cancel(struct server_conn *c, uint64_t id)
{
	struct rpc_request *r;
	list_for_each_entry(r, &c->requests, link) {
		if (r->id != id)
			continue;
		c->server->counters.cancels++;
		r->cancelled = true;
		if (r->fiber != NULL)
			rt_cancel(r->fiber);
		return;
	}
}

static int conn_one_frame(struct server_conn *c)
{
	struct rpc_server *s = c->server;
	const uint8_t *at = NULL;
	int rc = in_header(&c->in, s->opts.idle_ns, &at);
	if (rc < 0)
		return rc;
	struct frame_header h;
	enum frame_fault fault = FRAME_OK;
	rc = frame_decode(&h, at, &s->limits, &fault);
	if (rc < 0) {
		rpc_count_fault(&s->counters, fault);
		conn_send_error(c, FRAME_GOODBYE, NULL, rc, frame_fault_text(fault), false);
		return rc;
	}
	switch (h.kind) {
	case FRAME_REQUEST:
		return conn_request(c, &h);
	case FRAME_CANCEL:
		conn_cancel(c, h.id);
		return 0;
	case FRAME_GOODBYE:
		return -EPIPE;
	case FRAME_RESPONSE:
		break;
	}
	s->counters.unexpected_frame++;
	conn_send_error(c, FRAME_GOODBYE, NULL, -EPROTO, "a server accepts no responses", false);
	return -EPROTO;
}

/* --- the connection's life ------------------------------------------------------------------- */

/* Reports whether rc means that the stream is lost, so that queued frames cannot be sent. */
static bool stream_gone(int rc)
{
	return rc != -EPROTO && rc != -EBADMSG && rc != -EMSGSIZE && rc != -ETIME && rc != -EAGAIN;
}

static void conn_count_end(struct server_conn *c, int rc)
{
	struct rpc_counters *n = &c->server->counters;
	if (rc == -ETIMEDOUT)
		n->stalled_frames++;
	else if (rc == -ETIME)
		n->idle_closed++;
	else if (rc == -EAGAIN)
		n->evicted++;
	else if (c->in.cut)
		n->cut_frames++;
	if (c->out.error == -ETIMEDOUT)
		n->stalled_writes++;
	else if (c->out.error == -EAGAIN)
		n->evicted++;
	if (rc != -EPIPE && rc != -ECANCELED)
		log_info("rpc_connection_lost", "peer=%s err=%s", rt_sock_peer(c->wire.sock),
			 err_name(rc));
}

static void handshake_end(struct server_conn *c)
{
	if (!c->handshaking)
		return;
	assert(c->server->handshakes > 0);
	c->handshaking = false;
	c->server->handshakes--;
}

/* Cuts off the oldest handshake when there are too many. So a flood of connections that never authenticate takes only
 * its own places, because a client's handshake takes less time than a flood needs to replace all others. */
static void handshake_begin(struct server_conn *c)
{
	struct rpc_server *s = c->server;
	struct server_conn *old;
	assert(!c->open && !c->handshaking);
	c->handshaking = true;
	s->handshakes++;
	if (s->handshakes <= s->opts.handshakes_max)
		return;
	list_for_each_entry(old, &s->conns, link) {
		if (!old->handshaking || old == c)
			continue;
		handshake_end(old);
		s->counters.evicted_handshakes++;
		rt_sock_shutdown(old->wire.sock);
		return;
	}
}

static void conn_free(struct server_conn *c)
{
	struct rpc_server *s = c->server;
	handshake_end(c);
	assert(c->in_flight == 0 && list_empty(&c->requests));
	assert(s->conn_count > 0);
	s->stats.out_queue_peak = max_u64(s->stats.out_queue_peak, c->out.peak_bytes);
	s->stats.share_peak_bytes = max_u64(s->stats.share_peak_bytes, rt_budget_peak(&c->share));
	rt_budget_fini(&c->share);
	in_fini(&c->in);
	secure_close(&c->wire);
	list_remove(&c->link);
	s->conn_count--;
	if (s->opts.branch != NULL)
		atomic_fetch_sub(&s->opts.branch->connections, 1);
	rt_cond_broadcast(&s->conn_gone);
	free(c);
}

static int conn_handshake(struct server_conn *c)
{
	struct rpc_server *s = c->server;
	if (c->open)
		return 0;
	rt_deadline_set(rt_now_ns() + s->opts.handshake_ns);
	int rc = secure_accept(&c->wire, s->opts.guard, &c->session);
	rt_deadline_set(RT_NEVER);
	if (rc == 0 && !c->handshaking)
		rc = -ECONNRESET; /* it was cut off */
	handshake_end(c);
	c->open = rc == 0;
	if (rc == 0 || rc == -ECANCELED)
		return rc;
	s->counters.refused_handshakes++;
	log_debug("rpc_handshake_refused", "peer=%s err=%s", rt_sock_peer(c->wire.sock),
		  err_name(rc));
	/* No frame may follow, so the stream is broken also after errors that leave other connections readable. */
	return -ECONNRESET;
}

static void conn_main(void *arg)
{
	struct server_conn *c = arg;
	struct rpc_server *s = c->server;
	c->reader = rt_self();
	rt_background();
	int rc = s->stopping ? -ECANCELED : conn_handshake(c);
	while (rc == 0)
		rc = conn_one_frame(c);
	if (c->open)
		conn_count_end(c, rc);
	rt_shield_enter();
	if (!c->open)
		out_break(&c->out, rc);
	if (!(rc == -ECANCELED && s->stopping)) {
		rt_group_cancel(&c->handlers);
		if (stream_gone(rc))
			out_break(&c->out, rc);
	}
	rt_group_join(&c->handlers);
	if (rc == -ECANCELED && c->open)
		conn_send_error(c, FRAME_GOODBYE, NULL, -ESHUTDOWN, err_text(-ESHUTDOWN), false);
	if (rc == -EAGAIN)
		conn_send_error(c, FRAME_GOODBYE, NULL, -EAGAIN,
				"the client sent too slowly while other requests waited for memory",
				false);
	incoming_unwatch_out(&c->out);
	out_fini(&c->out);
	conn_free(c);
	rt_shield_leave();
}

int server_conn_start(struct rpc_server *s, struct rt_sock *sock)
{
	struct server_conn *c = calloc(1, sizeof(*c));
	if (c == NULL) {
		rt_sock_close(sock);
		return -ENOMEM;
	}
	c->server = s;
	c->wire.sock = sock;
	rt_group_init(&c->handlers);
	list_init(&c->requests);
	rt_cond_init(&c->room);
	rt_budget_init(&c->share, s->opts.share_bytes, true);
	list_push_back(&s->conns, &c->link);
	s->conn_count++;
	if (s->opts.branch != NULL)
		atomic_fetch_add(&s->opts.branch->connections, 1);
	c->open = s->opts.guard == NULL;
	if (!c->open)
		handshake_begin(c);
	int rc = in_init(&c->in, &c->wire, s->opts.stall_ns);
	if (rc == 0)
		rc = out_init(&c->out, &c->wire, s->opts.pool, s->opts.stall_ns);
	if (rc < 0) {
		conn_free(c);
		return rc;
	}
	incoming_watch_out(&s->incoming, &c->out);
	rc = rt_group_spawn(&s->conn_fibers, "rpc-conn", conn_main, c);
	if (rc < 0) {
		incoming_unwatch_out(&c->out);
		out_fini(&c->out);
		conn_free(c);
		return rc;
	}
	s->counters.connections++;
	return 0;
}

void server_conn_stop(struct server_conn *c)
{
	if (c->reader != NULL)
		rt_cancel(c->reader);
}

void server_conn_abort(struct server_conn *c)
{
	rt_group_cancel(&c->handlers);
	out_break(&c->out, -ESHUTDOWN);
}
