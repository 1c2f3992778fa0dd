// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the simulated network: conn.c has the streams, net.c addresses, listeners, connecting, cuts.
 */
#ifndef RT_SIM_CONN_H
#define RT_SIM_CONN_H

#include "rt/sim/sim.h"

enum seg_kind { SEG_DATA, SEG_OPEN, SEG_FIN };

/*
 * A piece of a stream, in the order of seq. OPEN and FIN take one number of it. The sender holds it
 * until the other end has acknowledged it; packets refer to it.
 */
struct segment {
	unsigned refs;
	struct list link;   /* in end.unacked while not acknowledged */
	struct timer timer; /* sends it again */
	struct conn_end *from;
	enum seg_kind kind;
	uint64_t seq;
	uint64_t first_sent_ns; /* RT_NEVER: not yet */
	uint64_t rto_ns;
	uint32_t span; /* how many numbers of the stream it takes */
	uint32_t len;
	uint8_t data[];
};

/* A segment (or, without one, a reset) on its way; then, at its receiver, waiting to be read. */
struct packet {
	struct list link; /* in conn.packets; then in end.ready or end.early */
	struct timer timer;
	struct conn_end *to;
	struct segment *segment;
	bool flip; /* a bit changes on the way */
	uint64_t flip_bit;
};

/* One end of a connection: the socket of a process while held. */
struct conn_end {
	struct rt_sock base;
	struct conn *conn;
	struct conn_end *peer;
	struct sim_node *node;
	bool held;   /* by the process, or in the backlog of a listener */
	bool embryo; /* of the server, before it was put into the backlog */
	bool gone;   /* this end knows nothing of the connection any more */
	bool shut;   /* by its own process */
	bool fin_sent;
	bool fin_seen; /* all that the peer sent has arrived */
	int error;     /* what calls return once it is gone */

	struct list unacked; /* segment, in order */
	uint64_t send_seq;
	uint64_t unacked_bytes;
	uint64_t
		fifo_ns; /* when the last packet arrives: later ones do not overtake it by themselves */
	struct rt_fiber *sender;

	struct list ready; /* packet: in order, to be read */
	struct list early; /* packet: an earlier one is missing; by seq */
	uint64_t recv_seq;
	uint64_t ready_bytes;
	uint32_t ready_skip; /* of the first packet */
	struct rt_fiber *receiver;
	uint64_t receiver_want;

	struct list backlog_link;
};

struct conn {
	struct sim_net *net;
	struct list link; /* in net.conns */
	uint64_t id;
	bool local; /* within one node: no faults */
	char target[RT_ADDR_MAX];
	struct conn_end ends[2]; /* who connected, who accepts */
	struct list packets;
};

struct sim_net {
	struct sim *sim;
	struct list conns;
	struct list listeners;
	struct list cuts;
	struct list pairs;
	uint64_t conn_count;
	uint64_t *dark_life; /* by node id: the life of its process that ended with the power */
	size_t dark_count;
	uint16_t next_port;
};

/* --- net.c ------------------------------------------------------------------------------------- */

/* Whether a packet that leaves now can arrive; draws for the fault of single packets too. */
bool net_passes(struct sim_net *net, struct sim_node *from, struct sim_node *to);
bool net_is_cut(const struct sim_net *net, const struct sim_node *from, const struct sim_node *to);
/* The machine answers nothing at all. */
bool net_is_dark(const struct sim_net *net, const struct sim_node *n);
uint64_t net_latency_ns(struct sim_net *net, bool local);
/* Offer a new connection to the listener of its target: 0, -ECONNREFUSED, or -EAGAIN: not now. */
int net_offer(struct conn_end *e);

/* --- conn.c ------------------------------------------------------------------------------------ */

/* A connection whose first end has just been answered; e is that end, held. */
struct conn_end *conn_open(struct sim_net *net, struct sim_node *from, struct sim_node *to,
			   const char *target);
int64_t conn_recv(struct rt_sock *s, void *buf, size_t len, size_t min);
int64_t conn_sendv(struct rt_sock *s, const struct iovec *iov, int n);
void conn_shutdown(struct rt_sock *s);
void conn_close(struct rt_sock *s);
/* Let go of an end that no process has: in the backlog of a listener that goes away. */
void conn_abandon(struct conn_end *e);
/* The process of a node died. */
void conn_crash(struct conn *c, struct sim_node *n, bool power);
/* Without any regard, at the end of the simulation. */
void conn_free(struct conn *c);

#endif
