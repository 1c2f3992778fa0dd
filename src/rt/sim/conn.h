// SPDX-License-Identifier: Apache-2.0
/*
 * Private to the simulated network: conn.c has the streams; net.c addresses, listeners, connecting and cuts.
 */
#ifndef RT_SIM_CONN_H
#define RT_SIM_CONN_H

#include "rt/sim/sim.h"

enum seg_kind { SEG_DATA, SEG_OPEN, SEG_FIN };

/*
 * A range of a stream, identified by its sequence number. OPEN and FIN take one number. The sender keeps a segment
 * until the other end has acknowledged it; packets refer to it.
 */
struct segment {
	unsigned refs;
	struct list link;   /* in end.unacked while not acknowledged */
	struct timer timer; /* of the next retransmission */
	struct conn_end *from;
	enum seg_kind kind;
	uint64_t seq;
	uint64_t first_sent_ns; /* RT_NEVER: not sent yet */
	uint64_t rto_ns;        /* time to the next retransmission */
	uint32_t span;          /* sequence numbers */
	uint32_t len;           /* bytes of data */
	uint8_t data[];
};

/* A segment under way; segment NULL: a reset. After its arrival it waits at the receiver until it is read. */
struct packet {
	struct list link; /* in conn.packets; then in end.ready or end.early */
	struct timer timer;
	struct conn_end *to;
	struct segment *segment;
	bool flip; /* the bit flip_bit of the data changes under way */
	uint64_t flip_bit;
};

/* One end of a connection; the socket of a process while held. */
struct conn_end {
	struct rt_sock base;
	struct conn *conn;
	struct conn_end *peer;
	struct sim_node *node;
	bool held;   /* by its process, or in the backlog of a listener */
	bool embryo; /* the server's end, before it enters the backlog */
	bool gone;   /* the connection does not exist any more at this end */
	bool shut;   /* its process has ended both directions */
	bool fin_sent;
	bool fin_seen; /* all data of the peer has arrived, and its FIN */
	int error;     /* result of calls once the end is gone */

	struct list unacked; /* segment, in order */
	uint64_t send_seq;
	uint64_t unacked_bytes;
	uint64_t
		fifo_ns; /* arrival of the last packet; without a fault later ones do not overtake it */
	struct rt_fiber *sender; /* waits for window space */

	struct list ready; /* packet: in order, not read yet */
	struct list early; /* packet: by seq; an earlier segment is missing */
	uint64_t recv_seq; /* next sequence number to receive */
	uint64_t ready_bytes;
	uint32_t ready_skip;       /* bytes of the first ready packet that were read */
	struct rt_fiber *receiver; /* waits for receiver_want bytes */
	uint64_t receiver_want;

	struct list backlog_link;
};

struct conn {
	struct sim_net *net;
	struct list link; /* in net.conns */
	uint64_t id;
	bool local; /* both ends are on one node: no faults */
	char target[RT_ADDR_MAX];
	struct conn_end ends[2]; /* client, server */
	struct list packets;     /* packet: under way */
};

struct sim_net {
	struct sim *sim;
	struct list conns;
	struct list listeners;
	struct list cuts;
	struct list pairs;
	uint64_t conn_count;
	uint64_t *dark_life; /* by node id: the life of its process that a power loss ended */
	size_t dark_count;
	uint16_t next_port;
};

/* --- net.c ------------------------------------------------------------------------------------- */

/* Returns whether a packet sent now arrives: the path is not cut, and no fault drops it. */
bool net_passes(struct sim_net *net, struct sim_node *from, struct sim_node *to);
bool net_is_cut(const struct sim_net *net, const struct sim_node *from, const struct sim_node *to);
/* Returns whether the machine is off: it answers no packet. */
bool net_is_dark(const struct sim_net *net, const struct sim_node *n);
uint64_t net_latency_ns(struct sim_net *net, bool local);
/* Adds a new connection to the backlog of its listener. -ECONNREFUSED: no listener; -EAGAIN: backlog full. */
int net_offer(struct conn_end *e);

/* --- conn.c ------------------------------------------------------------------------------------ */

/* Creates a connection that the server has answered. Returns the client's end, held. */
struct conn_end *conn_open(struct sim_net *net, struct sim_node *from, struct sim_node *to,
			   const char *target);
int64_t conn_recv(struct rt_sock *s, void *buf, size_t len, size_t min);
int64_t conn_sendv(struct rt_sock *s, const struct iovec *iov, int n);
void conn_shutdown(struct rt_sock *s);
void conn_close(struct rt_sock *s);
/* Releases an end in the backlog of a listener that closes. */
void conn_abandon(struct conn_end *e);
/* The process of the node was killed: settles its ends of the connection. */
void conn_crash(struct conn *c, struct sim_node *n, bool power);
/* Frees a connection in any state. */
void conn_free(struct conn *c);

#endif
