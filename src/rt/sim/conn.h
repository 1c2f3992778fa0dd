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
	struct list link;   /* element of end.unacked while the segment is not acknowledged */
	struct timer timer; /* fires at the next retransmission */
	struct conn_end *from;
	enum seg_kind kind;
	uint64_t seq;
	uint64_t first_sent_ns; /* time of the first transmission; RT_NEVER: not sent yet */
	uint64_t rto_ns;        /* time from one transmission to the next, in ns */
	uint32_t span;          /* number of sequence numbers that the segment takes */
	uint32_t len;           /* bytes of data */
	uint8_t data[];
};

/* How far a packet has come over the links between two nodes. */
struct sim_passage {
	uint64_t bytes;  /* of data */
	unsigned passed; /* links */
};

/*
 * A segment under way, or a reset when `segment` is NULL. After its arrival the packet waits at the
 * receiver until its data is read.
 */
struct packet {
	/* element of conn.packets while under way, then of end.ready or end.early */
	struct list link;
	struct timer timer;
	struct conn_end *to;
	struct segment *segment;
	bool flip; /* the bit flip_bit of the data changes under way */
	uint64_t flip_bit;
	struct sim_passage passage;
	uint64_t latency_ns; /* time from the last link to the receiver */
};

/* One end of a connection; the socket of a process while `held` is set. */
struct conn_end {
	struct rt_sock base;
	struct conn *conn;
	struct conn_end *peer;
	struct sim_node *node;
	bool held;   /* a process holds the end as a socket, or a listener in its backlog */
	bool embryo; /* the end is the server's and is not yet in the backlog of its listener */
	bool gone;   /* the connection has ended for this end: killed, reset or given up */
	bool shut;   /* the process of this end has ended both directions */
	bool fin_sent;
	bool fin_seen; /* all data of the peer has arrived, and its FIN */
	int error;     /* result of calls once the end is gone */

	struct list unacked; /* struct segment: sent and not acknowledged, in order */
	uint64_t send_seq;
	uint64_t unacked_bytes;
	uint64_t
		/*
		 * arrival time of the last packet; later packets do not overtake it unless a fault
		 * reorders them
		 */
		fifo_ns;
	struct rt_fiber *sender; /* fiber that waits for window space */

	struct list ready; /* struct packet: arrived in order, not read yet */
	/* struct packet, by sequence number: arrived, while an earlier segment is missing */
	struct list early;
	uint64_t recv_seq; /* sequence number that the end expects next */
	uint64_t ready_bytes;
	uint32_t ready_skip;       /* number of bytes of the first ready packet that were read */
	struct rt_fiber *receiver; /* fiber that waits for receiver_want bytes */
	uint64_t receiver_want;

	struct list backlog_link;
};

struct conn {
	struct sim_net *net;
	struct list link; /* in net.conns */
	uint64_t id;
	bool local; /* both ends are on one node, so no fault hits the connection */
	char target[RT_ADDR_MAX];
	struct conn_end ends[2]; /* the end of the client, then the end of the server */
	struct list packets;     /* struct packet: under way */
};

struct sim_net {
	struct sim *sim;
	struct list conns;
	struct list listeners;
	struct list cuts;
	struct list pairs;
	struct list links; /* struct sim_link */
	uint64_t conn_count;
	/* by node id: number of the process life that the last power loss ended */
	uint64_t *dark_life;
	size_t dark_count;
	uint16_t next_port;
};

/* --- net.c ------------------------------------------------------------------------------------- */

/* Returns whether a packet sent now arrives: the path is not cut, and no fault drops it. */
bool net_passes(struct sim_net *net, struct sim_node *from, struct sim_node *to);
bool net_is_cut(const struct sim_net *net, const struct sim_node *from, const struct sim_node *to);
/* Returns whether the machine is off, so that it answers no packet. */
bool net_is_dark(const struct sim_net *net, const struct sim_node *n);
uint64_t net_latency_ns(struct sim_net *net, bool local);
/*
 * Adds a new connection to the backlog of its listener. Returns 0, -ECONNREFUSED without a
 * listener, or -EAGAIN when the backlog is full.
 */
int net_offer(struct conn_end *e);

/* --- link.c ------------------------------------------------------------------------------------ */

/*
 * Lets a packet pass its next link: *delay_ns is the time until it has left the link. Returns false, and sets
 * nothing, when there is no further link.
 */
bool link_next(const struct sim_node *from, const struct sim_node *to, struct sim_passage *p,
	       uint64_t *delay_ns);
void links_free(struct sim_net *net);

/* --- conn.c ------------------------------------------------------------------------------------ */

/* Creates a connection that the server has answered. Returns the client's end, with `held` set. */
struct conn_end *conn_open(struct sim_net *net, struct sim_node *from, struct sim_node *to,
			   const char *target);
int64_t conn_recv(struct rt_sock *s, void *buf, size_t len, size_t min);
int64_t conn_sendv(struct rt_sock *s, const struct iovec *iov, int n);
void conn_shutdown(struct rt_sock *s);
void conn_close(struct rt_sock *s);
/* Releases an end in the backlog of a listener that closes. */
void conn_abandon(struct conn_end *e);
/*
 * Ends the connection for the ends of this node, whose process was killed; with `power` the machine
 * is off, too.
 */
void conn_crash(struct conn *c, struct sim_node *n, bool power);
/* Frees a connection, whatever its state. */
void conn_free(struct conn *c);

#endif
