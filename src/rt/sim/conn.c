// SPDX-License-Identifier: Apache-2.0
/*
 * Streams over packets that are lost, delayed, duplicated, reordered or changed.
 *
 * A stream is split into segments. A segment is sent as a packet, which arrives after the latency unless the path
 * is cut or a fault strikes. The receiver orders segments by sequence number, drops duplicates, and acknowledges
 * all up to the first gap. An acknowledgement arrives at once, but is lost on a cut path. If a
 * segment is not acknowledged when its packet arrives or is lost, the sender sends it again after a
 * back-off that doubles each time; after CONN_TIMEOUT_NS the sender gives up the connection.
 *
 *	seq        0      1..99    100..299   300
 *	segment    OPEN   data     data       FIN      recv_seq = 100: 1..99 can be read,
 *	                           (lost)              FIN is early and waits for 100..299
 *
 * An end is gone once its process was killed, the end was reset, or the end gave up. A machine that
 * is on answers segments for such an end with a reset; a machine without power (dark) does not
 * answer.
 *
 * Invariants:
 * 1. Every unacknowledged segment has a packet under way or its timer armed.
 * 2. An end sends data only while its unacked_bytes plus the ready_bytes of the other end, with that data, is at
 *    most CONN_WINDOW. (After a cut some bytes may be counted in both.)
 * 3. A connection is freed once neither end is held, no segment is unacknowledged and no packet is under way.
 */
#include "rt/sim/conn.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/crc.h"

#define CONN_WINDOW (256 * KIB) /* most bytes of one direction that are unacknowledged or unread */
#define SEGMENT_MAX (16 * KIB)  /* bytes */
#define SPLIT_CHANCE 0.125      /* probability that a segment ends before it is full */
#define RTO_FIRST_NS (200 * NS_PER_MS)
#define RTO_MAX_NS (5 * NS_PER_S)
#define CONN_TIMEOUT_NS (15 * NS_PER_S)
#define DELAY_MAX_NS (1 * NS_PER_S)

static void segment_send(struct segment *g);

static struct sim *sim_of(const struct conn_end *e)
{
	return e->conn->net->sim;
}

/* Returns a number for the trace that identifies the end. */
static uint64_t end_name(const struct conn_end *e)
{
	return e->conn->id << 1 | (uint64_t)(e == &e->conn->ends[1]);
}

/* --- memory ------------------------------------------------------------------------------------ */

static void segment_unref(struct segment *g)
{
	assert(g == NULL || g->refs > 0);
	if (g != NULL && --g->refs == 0)
		free(g);
}

static void packet_free(struct packet *p)
{
	list_remove(&p->link);
	segment_unref(p->segment);
	free(p);
}

static void packets_free(struct sim *s, struct list *head)
{
	struct list *l;

	while ((l = list_first(head)) != NULL) {
		struct packet *p = list_entry(l, struct packet, link);
		sim_timer_cancel(s, &p->timer);
		packet_free(p);
	}
}

/* Removes a segment from its sender, because the segment was acknowledged or the end is gone. */
static void segment_forget(struct conn_end *e, struct segment *g)
{
	sim_timer_cancel(sim_of(e), &g->timer);
	list_remove(&g->link);
	assert(g->from == e && e->unacked_bytes >= g->len);
	e->unacked_bytes -= g->len;
	segment_unref(g);
}

static void unacked_forget(struct conn_end *e)
{
	struct list *l;

	while ((l = list_first(&e->unacked)) != NULL)
		segment_forget(e, list_entry(l, struct segment, link));
}

static void received_forget(struct conn_end *e)
{
	packets_free(sim_of(e), &e->ready);
	packets_free(sim_of(e), &e->early);
	e->ready_bytes = 0;
	e->ready_skip = 0;
}

void conn_free(struct conn *c)
{
	for (int k = 0; k < 2; k++) {
		unacked_forget(&c->ends[k]);
		received_forget(&c->ends[k]);
	}
	packets_free(c->net->sim, &c->packets);
	list_remove(&c->link);
	free(c);
}

/* Frees the connection if no end, segment or packet needs it any more (invariant 3). */
static void conn_settle(struct conn *c)
{
	if (!c->ends[0].held && !c->ends[1].held && list_empty(&c->ends[0].unacked) &&
	    list_empty(&c->ends[1].unacked) && list_empty(&c->packets))
		conn_free(c);
}

static void end_init(struct conn *c, int side, struct sim_node *n)
{
	struct conn_end *e = &c->ends[side];

	e->base.ops = &sim_net_ops;
	e->conn = c;
	e->peer = &c->ends[1 - side];
	e->node = n;
	list_init(&e->unacked);
	list_init(&e->ready);
	list_init(&e->early);
	list_init(&e->backlog_link);
}

/* --- waking ------------------------------------------------------------------------------------ */

static void wake(struct rt_fiber **waiter)
{
	struct rt_fiber *f = *waiter;

	*waiter = NULL;
	if (f != NULL)
		fiber_wake(f, 0);
}

static uint64_t send_space(const struct conn_end *e)
{
	uint64_t used = e->unacked_bytes + e->peer->ready_bytes;
	return used < CONN_WINDOW ? CONN_WINDOW - used : 0;
}

static void sender_nudge(struct conn_end *e)
{
	if (e->sender != NULL && send_space(e) >= SEGMENT_MAX)
		wake(&e->sender);
}

static void receiver_nudge(struct conn_end *e)
{
	if (e->receiver != NULL && (e->ready_bytes >= e->receiver_want || e->fin_seen || e->gone))
		wake(&e->receiver);
}

/*
 * Ends the connection for this end: later calls return `error`. Data that arrived in order before
 * can still be read.
 */
static void end_gone(struct conn_end *e, int error)
{
	if (e->gone)
		return;
	sim_trace(sim_of(e), e->node, "net-gone", end_name(e), (uint64_t)-error, NULL);
	e->gone = true;
	e->error = error;
	unacked_forget(e);
	packets_free(sim_of(e), &e->early);
	assert(e->unacked_bytes == 0);
	wake(&e->sender);
	wake(&e->receiver);
}

/* --- sending ----------------------------------------------------------------------------------- */

static void packet_arrive(struct timer *t);

/* The links come first. Without any, packets keep their order (fifo_ns); behind links, jitter may swap two. */
static void packet_travel(struct timer *t)
{
	struct packet *p = container_of(t, struct packet, timer);
	struct sim *s = p->to->conn->net->sim;
	uint64_t delay_ns;

	if (link_next(p->to->peer->node, p->to->node, &p->passage, &delay_ns))
		sim_timer(s, &p->timer, delay_ns, packet_travel);
	else
		sim_timer(s, &p->timer, p->latency_ns, packet_arrive);
}

static void packet_send(struct conn_end *from, struct segment *g, uint64_t delay_ns)
{
	struct conn *c = from->conn;
	struct packet *p = sim_need(calloc(1, sizeof(*p)));

	p->to = from->peer;
	p->segment = g;
	if (g != NULL)
		g->refs++;
	list_push_back(&c->packets, &p->link);
	if (g != NULL && g->len > 0 && !c->local &&
	    sim_roll(c->net->sim, SIM_NET_CORRUPT, from->node)) {
		p->flip = true;
		p->flip_bit = sim_between(c->net->sim, 0, (uint64_t)g->len * 8 - 1);
	}
	p->latency_ns = delay_ns;
	p->passage.bytes = g != NULL ? g->len : 0;
	packet_travel(&p->timer);
}

static uint64_t packet_delay_ns(struct conn_end *from)
{
	struct conn *c = from->conn;
	struct sim *s = c->net->sim;
	uint64_t latency = net_latency_ns(c->net, c->local);
	uint64_t arrive = max_u64(s->now_ns + latency, from->fifo_ns);

	from->fifo_ns = arrive;
	uint64_t delay = arrive - s->now_ns;
	if (!c->local && sim_roll(s, SIM_NET_DELAY, from->node))
		delay += sim_between(s, 0, DELAY_MAX_NS);
	if (!c->local && sim_roll(s, SIM_NET_REORDER, from->node))
		delay += sim_between(s, latency, 10 * latency);
	return delay;
}

static void reset_send(struct conn_end *from)
{
	struct conn *c = from->conn;

	if (net_passes(c->net, from->node, from->peer->node))
		packet_send(from, NULL, packet_delay_ns(from));
}

static void segment_again(struct timer *t)
{
	struct segment *g = container_of(t, struct segment, timer);
	struct conn_end *e = g->from;
	struct sim *s = sim_of(e);

	if (s->now_ns - g->first_sent_ns < CONN_TIMEOUT_NS) {
		segment_send(g);
		return;
	}
	struct conn *c = e->conn;
	reset_send(e);
	end_gone(e, -ETIMEDOUT);
	conn_settle(c);
}

static void segment_send_later(struct segment *g)
{
	if (heap_contains(&g->timer.node))
		return;
	sim_timer(sim_of(g->from), &g->timer, g->rto_ns, segment_again);
	g->rto_ns = min_u64(2 * g->rto_ns, RTO_MAX_NS);
}

static void segment_send(struct segment *g)
{
	struct conn_end *e = g->from;
	struct conn *c = e->conn;
	struct sim *s = sim_of(e);

	if (g->first_sent_ns == RT_NEVER)
		g->first_sent_ns = s->now_ns;
	sim_trace(s, e->node, "net-send", end_name(e),
		  (uint64_t)crc32c(0, g->data, g->len) << 32 | g->len, NULL);
	if (!net_passes(c->net, e->node, e->peer->node)) {
		segment_send_later(g);
		return;
	}
	packet_send(e, g, packet_delay_ns(e));
	if (!c->local && sim_roll(s, SIM_NET_DUPLICATE, e->node))
		packet_send(e, g, packet_delay_ns(e));
}

static struct segment *segment_new(struct conn_end *e, enum seg_kind kind, uint32_t len)
{
	struct segment *g = sim_need(calloc(1, sizeof(*g) + len));

	g->refs = 1;
	g->from = e;
	g->kind = kind;
	g->len = len;
	g->span = kind == SEG_DATA ? len : 1;
	g->seq = e->send_seq;
	g->first_sent_ns = RT_NEVER;
	g->rto_ns = e->conn->local ? NS_PER_MS : RTO_FIRST_NS;
	e->send_seq += g->span;
	e->unacked_bytes += len;
	assert(len == 0 || e->unacked_bytes + e->peer->ready_bytes <= CONN_WINDOW);
	list_push_back(&e->unacked, &g->link);
	return g;
}

static void fin_send(struct conn_end *e)
{
	if (e->fin_sent || e->gone)
		return;
	e->fin_sent = true;
	segment_send(segment_new(e, SEG_FIN, 0));
}

/* --- receiving --------------------------------------------------------------------------------- */

static void end_ack(struct conn_end *sender, uint64_t up_to)
{
	struct list *l;

	while ((l = list_first(&sender->unacked)) != NULL) {
		struct segment *g = list_entry(l, struct segment, link);
		if (g->seq + g->span > up_to)
			break;
		segment_forget(sender, g);
	}
	sender_nudge(sender);
}

/* Flips a bit of the packet's data, which the transport's checksum does not detect. */
static void packet_flip(struct packet *p)
{
	struct segment *g = p->segment;
	struct segment *copy = sim_need(calloc(1, sizeof(*copy) + g->len));

	copy->refs = 1;
	copy->kind = g->kind;
	copy->seq = g->seq;
	copy->span = g->span;
	copy->len = g->len;
	memcpy(copy->data, g->data, g->len);
	copy->data[p->flip_bit / 8] ^= (uint8_t)(1U << (p->flip_bit % 8));
	segment_unref(g);
	p->segment = copy;
	p->flip = false;
}

/*
 * Takes the packet of the next segment of the stream. Returns false when the segment is treated as
 * lost; its sender sends it again.
 */
static bool end_take(struct conn_end *e, struct packet *p)
{
	struct segment *g = p->segment;
	assert(g->seq == e->recv_seq && !e->fin_seen);
	int rc;

	switch (g->kind) {
	case SEG_OPEN:
		rc = net_offer(e);
		if (rc == -ECONNREFUSED) {
			reset_send(e);
			end_gone(e, -ECONNRESET);
		}
		if (rc != 0)
			return false;
		break;
	case SEG_FIN:
		e->fin_seen = true;
		break;
	case SEG_DATA:
		break;
	}
	e->recv_seq += g->span;
	if (g->kind == SEG_DATA) {
		if (p->flip)
			packet_flip(p);
		e->ready_bytes += p->segment->len;
		list_remove(&p->link);
		list_push_back(&e->ready, &p->link);
	} else {
		packet_free(p);
	}
	return true;
}

/* Keeps a packet that arrived before an earlier segment. */
static void early_keep(struct conn_end *e, struct packet *p)
{
	struct list *at = e->early.prev;

	while (at != &e->early &&
	       list_entry(at, struct packet, link)->segment->seq > p->segment->seq)
		at = at->prev;
	if (at != &e->early &&
	    list_entry(at, struct packet, link)->segment->seq == p->segment->seq) {
		packet_free(p);
		return;
	}
	list_remove(&p->link);
	list_insert_between(&p->link, at, at->next);
}

static void early_take(struct conn_end *e)
{
	struct list *l;

	while ((l = list_first(&e->early)) != NULL) {
		struct packet *p = list_entry(l, struct packet, link);
		if (p->segment->seq > e->recv_seq || !end_take(e, p))
			break;
	}
}

/* Handles at end e a packet that has reached its machine, which is on. Takes ownership of p. */
static void end_receive_take(struct conn_end *e, struct packet *p)
{
	struct conn *c = e->conn;
	bool deaf = !e->embryo && (e->shut || !e->held);

	if (e->gone || (deaf && p->segment->kind == SEG_DATA && p->segment->seq >= e->recv_seq)) {
		packet_free(p);
		reset_send(e);
		end_gone(e, -ECONNRESET);
		return;
	}
	if (p->segment->seq < e->recv_seq) {
		packet_free(p);
	} else if (p->segment->seq > e->recv_seq) {
		early_keep(e, p);
	} else if (end_take(e, p)) {
		early_take(e);
	} else {
		packet_free(p);
	}
	if (!net_is_cut(c->net, e->node, e->peer->node))
		end_ack(e->peer, e->recv_seq);
	receiver_nudge(e);
}

static void packet_arrive(struct timer *t)
{
	struct packet *p = container_of(t, struct packet, timer);
	struct segment *g = p->segment;
	struct conn_end *e = p->to;
	struct conn *c = e->conn;

	if (net_is_dark(c->net, e->node)) {
		if (g != NULL && !list_empty(&g->link))
			segment_send_later(g);
		packet_free(p);
	} else if (g == NULL) {
		packet_free(p);
		end_gone(e, -ECONNRESET);
	} else {
		sim_trace(c->net->sim, e->node, "net-arrive", end_name(e), g->seq, NULL);
		g->refs++;
		end_receive_take(e, p);
		if (!list_empty(&g->link))
			segment_send_later(g);
		segment_unref(g);
	}
	conn_settle(c);
}

/* --- calls of processes ----------------------------------------------------------------------- */

struct conn_end *conn_open(struct sim_net *net, struct sim_node *from, struct sim_node *to,
			   const char *target)
{
	struct conn *c = sim_need(calloc(1, sizeof(*c)));

	c->net = net;
	c->id = ++net->conn_count;
	c->local = from == to;
	list_init(&c->packets);
	list_push_back(&net->conns, &c->link);
	end_init(c, 0, from);
	end_init(c, 1, to);
	snprintf(c->target, sizeof(c->target), "%s", target);
	snprintf(c->ends[0].base.peer, RT_ADDR_MAX, "%s", target);
	snprintf(c->ends[1].base.peer, RT_ADDR_MAX, "%s:%u", from->name,
		 (unsigned)(32768 + c->id % 16384));
	c->ends[0].held = true;
	c->ends[1].embryo = true;
	segment_send(segment_new(&c->ends[0], SEG_OPEN, 0));
	return &c->ends[0];
}

static struct conn_end *end_of(struct rt_sock *s)
{
	return container_of(s, struct conn_end, base);
}

static void abort_receiver(struct rt_fiber *f)
{
	((struct conn_end *)f->abort_ctx)->receiver = NULL;
	fiber_wake(f, -ECANCELED);
}

static void abort_sender(struct rt_fiber *f)
{
	((struct conn_end *)f->abort_ctx)->sender = NULL;
	fiber_wake(f, -ECANCELED);
}

static size_t ready_read(struct conn_end *e, uint8_t *buf, size_t len)
{
	size_t done = 0;

	while (done < len && e->ready_bytes > 0) {
		struct packet *p = list_entry(list_first(&e->ready), struct packet, link);
		assert(e->ready_skip < p->segment->len);
		size_t part = (size_t)min_u64(len - done, p->segment->len - e->ready_skip);
		memcpy(buf + done, p->segment->data + e->ready_skip, part);
		done += part;
		e->ready_bytes -= part;
		e->ready_skip += (uint32_t)part;
		if (e->ready_skip == p->segment->len) {
			e->ready_skip = 0;
			packet_free(p);
		}
	}
	sender_nudge(e->peer);
	return done;
}

int64_t conn_recv(struct rt_sock *s, void *buf, size_t len, size_t min)
{
	struct conn_end *e = end_of(s);

	if (len == 0)
		return 0;
	assert(e->receiver == NULL);
	for (;;) {
		if (e->shut)
			return 0;
		e->receiver_want = min_u64(max_u64(min, 1), CONN_WINDOW / 2);
		if (e->ready_bytes >= e->receiver_want ||
		    (e->ready_bytes > 0 && (e->fin_seen || e->gone)))
			return (int64_t)ready_read(e, buf, len);
		if (e->fin_seen)
			return 0;
		if (e->gone)
			return e->error;
		int rc = fiber_check();
		if (rc != 0)
			return rc;
		e->receiver = rt_self();
		rc = (int)fiber_park(PARK_INTERRUPTIBLE, abort_receiver, e);
		if (rc != 0)
			return rc;
	}
}

/* Draws the length of the next segment: the full length, or with SPLIT_CHANCE any shorter one. */
static uint32_t segment_len(struct sim *s, uint64_t left)
{
	uint64_t len = min_u64(left, SEGMENT_MAX);

	if (rng_chance(&s->rng, SPLIT_CHANCE))
		len = sim_between(s, 1, len);
	return (uint32_t)len;
}

/* Copies len bytes of an iovec list, from `skip` bytes after its start. */
static void iov_gather(uint8_t *out, size_t len, const struct iovec *iov, uint64_t skip)
{
	while (len > 0) {
		if (skip >= iov->iov_len) {
			skip -= iov->iov_len;
			iov++;
			continue;
		}
		size_t part = (size_t)min_u64(len, iov->iov_len - skip);
		memcpy(out, (const uint8_t *)iov->iov_base + skip, part);
		out += part;
		len -= part;
		skip = 0;
		iov++;
	}
}

static int send_wait(struct conn_end *e)
{
	for (;;) {
		if (e->shut)
			return -EPIPE;
		if (e->gone)
			return e->fin_seen ? -EPIPE : e->error;
		if (send_space(e) > 0)
			return 0;
		int rc = fiber_check();
		if (rc != 0)
			return rc;
		e->sender = rt_self();
		rc = (int)fiber_park(PARK_INTERRUPTIBLE, abort_sender, e);
		if (rc != 0)
			return rc;
	}
}

/*
 * Resets this end at once, and drops unread data. The other end gets a reset or, half of the time,
 * no packet.
 */
static int end_reset(struct conn_end *e)
{
	if (rng_chance(&sim_of(e)->rng, 0.5))
		reset_send(e);
	received_forget(e);
	end_gone(e, -ECONNRESET);
	return -ECONNRESET;
}

int64_t conn_sendv(struct rt_sock *s, const struct iovec *iov, int n)
{
	struct conn_end *e = end_of(s);
	uint64_t total = 0;

	for (int k = 0; k < n; k++)
		total += iov[k].iov_len;
	if (total == 0)
		return 0;
	assert(e->sender == NULL);
	int rc = send_wait(e);
	if (rc != 0)
		return rc;
	total = min_u64(total, send_space(e));
	for (uint64_t done = 0; done < total;) {
		if (!e->conn->local && sim_roll(sim_of(e), SIM_NET_RESET, e->node))
			return end_reset(e);
		struct segment *g = segment_new(e, SEG_DATA, segment_len(sim_of(e), total - done));
		iov_gather(g->data, g->len, iov, done);
		done += g->len;
		segment_send(g);
	}
	return (int64_t)total;
}

void conn_shutdown(struct rt_sock *s)
{
	struct conn_end *e = end_of(s);

	if (e->shut)
		return;
	e->shut = true;
	fin_send(e);
	wake(&e->receiver);
	wake(&e->sender);
}

/*
 * Closes the end as a kernel does: sent data is still delivered, but if received data is unread the
 * connection is reset.
 */
static void end_let_go(struct conn_end *e)
{
	e->held = false;
	e->shut = true;
	if (!e->gone && e->ready_bytes > 0) {
		reset_send(e);
		end_gone(e, -ECONNRESET);
	}
	fin_send(e);
	received_forget(e);
}

void conn_close(struct rt_sock *s)
{
	struct conn_end *e = end_of(s);
	struct conn *c = e->conn;

	assert(e->receiver == NULL && e->sender == NULL);
	assert(e->held && e->node->open_socks > 0);
	e->node->open_socks--;
	end_let_go(e);
	conn_settle(c);
}

void conn_abandon(struct conn_end *e)
{
	struct conn *c = e->conn;

	list_remove(&e->backlog_link);
	if (!e->gone)
		reset_send(e);
	end_gone(e, -ECONNRESET);
	received_forget(e);
	e->held = false;
	conn_settle(c);
}

void conn_crash(struct conn *c, struct sim_node *n, bool power)
{
	for (int k = 0; k < 2; k++) {
		struct conn_end *e = &c->ends[k];
		if (e->node != n || e->gone)
			continue;
		/*
		 * Waiting fibers need no wake-up here: loop_kill wakes all fibers of the process.
		 */
		e->receiver = NULL;
		e->sender = NULL;
		bool held = e->held;
		if (power) {
			end_gone(e, -ECONNRESET);
		} else if (e->embryo || (held && rng_chance(&c->net->sim->rng, 0.5))) {
			reset_send(e);
			end_gone(e, -ECONNRESET);
		} else {
			/* the process died, and the kernel of its machine closes the socket */
			end_let_go(e);
			e->held = held;
		}
		received_forget(e);
	}
	conn_settle(c);
}
