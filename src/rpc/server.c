// SPDX-License-Identifier: Apache-2.0
#include "rpc/server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/crc.h"
#include "base/err.h"
#include "base/log.h"
#include "rpc/rpc.pb-c.h"
#include "rpc/server_conn.h"
#include "rpc/type.h"
#include "rt/net.h"
#include "secure/secure.h"

#define CONNECTIONS_DEFAULT 1024
#define IN_FLIGHT_DEFAULT 256
#define HANDSHAKES_DEFAULT 128
#define HANDSHAKE_DEFAULT_NS (10 * NS_PER_S)
#define STALL_DEFAULT_NS (30 * NS_PER_S)
/*
 * Pause before the next accept after an error that can be temporary, such as too many open files.
 */
#define ACCEPT_PAUSE_NS (100 * NS_PER_MS)
#define REFUSE_TIMEOUT_NS (100 * NS_PER_MS)
/* Time at close for sending the responses of cancelled requests. */
#define CANCEL_GRACE_NS (500 * NS_PER_MS)

/* --- accepting ------------------------------------------------------------------------------- */

/* Sends a goodbye on a new socket and closes it. The socket's buffer has room for it, so this
 * needs no fiber. */
static void refuse_connection(struct rpc_server *s, struct rt_sock *sock)
{
	s->counters.refused_connections++;
	if (s->opts.guard != NULL) {
		/* no frame may come before the handshake */
		struct secure_link link = {.sock = sock};
		secure_refuse_busy(&link);
		return;
	}
	Terrane__Rpc__ErrorBody body;
	terrane__rpc__error_body__init(&body);
	body.message = (char *)"too many connections";
	uint8_t bytes[FRAME_HEADER_BYTES + 64];
	size_t body_len = terrane__rpc__error_body__pack(&body, bytes + FRAME_HEADER_BYTES);
	struct frame_header h = {
		.kind = FRAME_GOODBYE,
		.status = EAGAIN,
		.body_len = (uint32_t)body_len,
		.meta_crc = crc32c(0, bytes + FRAME_HEADER_BYTES, body_len),
	};
	frame_encode(bytes, &h);
	struct iovec iov = {.iov_base = bytes, .iov_len = FRAME_HEADER_BYTES + body_len};
	uint64_t before = rt_deadline_narrow(rt_now_ns() + REFUSE_TIMEOUT_NS);
	(void)rt_sock_sendv(sock, &iov, 1);
	rt_deadline_set(before);
	rt_sock_close(sock);
}

/* --- spreading ------------------------------------------------------------------------------- */

struct handover {
	struct rpc_branch *branch;
	struct rt_sock *sock;
	int rc;
};

static void branch_adopt(void *arg)
{
	struct handover *h = arg;
	struct rpc_server *s = h->branch->server;
	h->rc = s != NULL && !s->stopping ? server_conn_start(s, h->sock) : -ESHUTDOWN;
	if (h->rc == -ESHUTDOWN)
		rt_sock_close(h->sock);
}

static size_t connections_of_all(const struct rpc_server *s)
{
	size_t n = s->conn_count;
	for (size_t i = 0; i < s->branch_count; i++)
		n += atomic_load(&s->branches[i].connections);
	return n;
}

/* Returns the branch with fewer connections than all others; NULL: this server has the fewest. */
static struct rpc_branch *branch_for_next(const struct rpc_server *s)
{
	struct rpc_branch *best = NULL;
	size_t fewest = s->conn_count;
	for (size_t i = 0; i < s->branch_count; i++) {
		size_t n = atomic_load(&s->branches[i].connections);
		if (n < fewest) {
			fewest = n;
			best = &s->branches[i];
		}
	}
	return best;
}

/* Starts serving a connection, here or on another loop. Takes over the socket, also after an error. */
static int accept_one_take(struct rpc_server *s, struct rt_sock *sock)
{
	struct handover h = {.branch = branch_for_next(s), .sock = sock};
	if (h.branch == NULL)
		return server_conn_start(s, sock);
	int rc = rt_call(&h.branch->port, "rpc-adopt", branch_adopt, &h);
	if (rc != 0) {
		rt_sock_close(sock);
		return rc;
	}
	return h.rc;
}

void rpc_server_spread(struct rpc_server *s, struct rpc_branch *branches, size_t count)
{
	assert(s->listener != NULL && s->branch_count == 0);
	s->branches = branches;
	s->branch_count = count;
}

static void accept_main(void *arg)
{
	struct rpc_server *s = arg;
	rt_background();
	for (;;) {
		struct rt_sock *sock = NULL;
		int rc = rt_accept(s->listener, &sock);
		if (rc == -ECANCELED)
			return;
		if (rc == 0 && connections_of_all(s) >= s->opts.connections_max) {
			refuse_connection(s, sock);
			continue;
		}
		if (rc == 0)
			rc = accept_one_take(s, sock);
		if (rc == -ECANCELED)
			return;
		if (rc < 0) {
			log_warn("rpc_accept_failed", "addr=%s err=%s",
				 rt_listener_addr(s->listener), err_name(rc));
			if (rt_sleep_ns(ACCEPT_PAUSE_NS) < 0)
				return;
		}
	}
}

/* --- opening and closing --------------------------------------------------------------------- */

static int server_add_method(struct rpc_server *s, const struct rpc_method *m)
{
	const struct rpc_type *t = m->type;
	assert(t != NULL && m->handle != NULL && t->request != NULL && t->response != NULL);
	if (t->request_max > RPC_BODY_MAX || t->response_max > RPC_BODY_MAX ||
	    t->request_payload_max > RPC_PAYLOAD_MAX || t->response_payload_max > RPC_PAYLOAD_MAX ||
	    t->request_payload_max > s->opts.share_bytes)
		return -EINVAL;
	s->limits.body_max = (uint32_t)max_u64(s->limits.body_max, t->request_max);
	s->limits.payload_max = (uint32_t)max_u64(s->limits.payload_max, t->request_payload_max);
	int rc = map_put(&s->types, t->type, (void *)m);
	return rc == -EEXIST ? -EINVAL : rc;
}

static void server_set_options(struct rpc_server *s, const struct rpc_server_options *o)
{
	s->opts = *o;
	if (s->opts.connections_max == 0)
		s->opts.connections_max = CONNECTIONS_DEFAULT;
	if (s->opts.in_flight_max == 0)
		s->opts.in_flight_max = IN_FLIGHT_DEFAULT;
	if (s->opts.share_bytes == 0)
		s->opts.share_bytes = o->pool->bufs.stats.limit_bytes / 4;
	if (s->opts.handshakes_max == 0)
		s->opts.handshakes_max =
			min_u64(HANDSHAKES_DEFAULT, max_u64(1, s->opts.connections_max / 8));
	if (s->opts.handshake_ns == 0)
		s->opts.handshake_ns = HANDSHAKE_DEFAULT_NS;
	if (s->opts.stall_ns == 0)
		s->opts.stall_ns = STALL_DEFAULT_NS;
}

static void server_free(struct rpc_server *s)
{
	assert(list_empty(&s->conns) && s->conn_count == 0 && s->in_flight == 0);
	incoming_fini(&s->incoming);
	if (s->listener != NULL)
		rt_listener_close(s->listener);
	struct list *node;
	while ((node = list_pop_front(&s->free_requests)) != NULL) {
		struct rpc_request *r = list_entry(node, struct rpc_request, link);
		arena_fini(&r->arena);
		free(r);
	}
	map_fini(&s->types);
	free(s);
}

int rpc_server_open(struct rpc_server **out, const char *addr, const struct rpc_server_options *o)
{
	*out = NULL;
	struct rpc_server *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	server_set_options(s, o);
	map_init(&s->types, o->method_count);
	rt_group_init(&s->conn_fibers);
	list_init(&s->conns);
	list_init(&s->free_requests);
	rt_cond_init(&s->conn_gone);
	int rc = incoming_init(&s->incoming, o->pool, o->receiving);
	for (size_t i = 0; i < o->method_count && rc == 0; i++)
		rc = server_add_method(s, &o->methods[i]);
	if (rc == 0 && addr != NULL)
		rc = rt_listen(&s->listener, addr);
	if (rc == 0 && addr != NULL)
		rc = rt_spawn(&s->acceptor, "rpc-accept", accept_main, s);
	if (rc < 0) {
		server_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

/* Waits until the server has no connections, for at most at_most_ns. */
static void server_await_conns(struct rpc_server *s, uint64_t at_most_ns)
{
	uint64_t before = rt_deadline_narrow(rt_now_ns() + at_most_ns);
	while (s->conn_count > 0 && rt_cond_wait(&s->conn_gone) == 0)
		;
	rt_deadline_set(before);
}

void rpc_server_stop(struct rpc_server *s)
{
	if (s->acceptor != NULL) {
		rt_cancel(s->acceptor);
		rt_join(s->acceptor);
		s->acceptor = NULL;
	}
	s->branches = NULL;
	s->branch_count = 0;
}

void rpc_server_close(struct rpc_server *s, uint64_t grace_ns)
{
	struct server_conn *c;
	assert(!s->stopping);
	s->stopping = true;
	rpc_server_stop(s);
	list_for_each_entry(c, &s->conns, link)
		server_conn_stop(c);
	server_await_conns(s, grace_ns);
	list_for_each_entry(c, &s->conns, link)
		rt_group_cancel(&c->handlers);
	server_await_conns(s, CANCEL_GRACE_NS);
	list_for_each_entry(c, &s->conns, link)
		server_conn_abort(c);
	rt_shield_enter();
	rt_group_join(&s->conn_fibers);
	rt_shield_leave();
	server_free(s);
}

const char *rpc_server_addr(const struct rpc_server *s)
{
	return rt_listener_addr(s->listener);
}

const struct rpc_counters *rpc_server_counters(const struct rpc_server *s)
{
	return &s->counters;
}

void rpc_server_stats(struct rpc_server *s, struct rpc_server_stats *out)
{
	*out = s->stats;
	out->connections = s->conn_count;
	out->in_flight = s->in_flight;
	out->incoming_peak_bytes = rt_budget_peak(s->incoming.budget);
	struct server_conn *c;
	list_for_each_entry(c, &s->conns, link) {
		out->out_queue_peak = max_u64(out->out_queue_peak, c->out.peak_bytes);
		out->share_peak_bytes = max_u64(out->share_peak_bytes, rt_budget_peak(&c->share));
	}
}
