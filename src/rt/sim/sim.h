// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the simulator: what its parts know of each other. sim.c has the clock, the processes and
 * their faults; disk.c and file.c the disks; net.c the network; trace.c the trace.
 */
#ifndef RT_SIM_SIM_H
#define RT_SIM_SIM_H

#include "base/list.h"
#include "base/rng.h"
#include "rt/core.h"
#include "rt/sim.h"

struct sim_net;

/* A fault that strikes by itself, exponentially distributed in time: hit(ctx) is called each time. */
struct sim_striker {
	struct timer timer;
	struct sim *sim;
	enum sim_fault fault;
	void (*hit)(void *ctx);
	void *ctx;
	struct list link; /* in sim.strikers */
};

struct sim_loop {
	struct rt_loop base;
	struct sim_node *node;
	struct list link; /* in node.loops */
	struct rt_msg *inbox_first;
	struct rt_msg **inbox_last;
	struct timer inbox_timer; /* armed while the inbox holds something */
};

struct sim_node {
	struct sim *sim;
	struct list link; /* in sim.nodes */
	unsigned id;
	unsigned rack;
	char name[64];
	void (*main)(void *);
	void *arg;

	struct list loops; /* sim_loop; empty while the process is down */
	bool up;
	bool stopping; /* asked to end: do not restart */
	bool lost;     /* never comes back */
	bool protected_;
	bool spared;      /* from loss */
	bool crash_power; /* of crash_at */
	bool ending;      /* main returned, or killed: fibers still to run off */
	bool crashed;     /* killed, not ended by itself */
	bool power_lost;  /* the crash took the machine's power: its clock starts anew */
	uint64_t crash_at_wait;
	uint64_t waits;
	uint64_t lives;
	struct timer restart_timer;
	struct timer resume_timer; /* armed while it is paused */
	uint64_t pause_begin_ns;
	uint64_t paused_ns; /* by all pauses that are over */

	uint64_t boot_ns;        /* simulated time of the machine's last boot */
	uint64_t clock_start_ns; /* reading of its monotonic clock then */
	uint64_t clock_reads;    /* since then; each moves the clock on by 1 ns */
	int64_t wall_offset_ns;
	int64_t drift_ppm;

	struct list disks; /* sim_disk, by its node_link */
	size_t open_files; /* of the running process: must be 0 when it has ended */
	size_t open_socks;
	struct sim_striker strikers[5];
};

struct sim {
	struct sim_config config;
	struct sched sched;
	struct rng rng; /* the one source of choice */
	uint64_t now_ns;
	uint64_t steps;
	struct list nodes;
	unsigned node_count;
	unsigned ending_count; /* nodes with ending set */
	struct sim_striker rack_striker;
	struct list strikers;
	bool faults_stopped;
	uint64_t fault_counts[SIM_FAULT_COUNT];
	struct sim_net *net;
	struct sim_trace *trace;
};

/* --- sim.c ----------------------------------------------------------------------------------- */

static inline struct sim_node *sim_node_of(struct rt_loop *l)
{
	return container_of(l, struct sim_loop, base)->node;
}

/* The run cannot go on without memory, and half a crash is worth nothing: ends the program. */
static inline void *sim_need(void *allocated)
{
	if (allocated == NULL) {
		fputs("sim: out of memory\n", stderr);
		abort();
	}
	return allocated;
}

/* Does this fault strike now? Counts and traces it. Never draws when it is off or faults stopped. */
bool sim_roll(struct sim *s, enum sim_fault f, struct sim_node *n);
/* Uniform in [lo, hi]. */
uint64_t sim_between(struct sim *s, uint64_t lo, uint64_t hi);
void sim_timer(struct sim *s, struct timer *t, uint64_t delay_ns, void (*fire)(struct timer *));
void sim_timer_cancel(struct sim *s, struct timer *t);
/* Start a striker; it stops with the faults. sim_striker_stop when its object goes away. */
void sim_strike(struct sim *s, struct sim_striker *k, enum sim_fault f, void (*hit)(void *),
		void *ctx);
void sim_striker_stop(struct sim_striker *k);

/* Park the calling fiber for a span of virtual time; only death ends it early: 0 or -ECANCELED. */
int sim_delay(struct sim *s, uint64_t delay_ns);

/* --- trace.c --------------------------------------------------------------------------------- */

struct sim_trace *sim_trace_open(FILE *out);
void sim_trace_close(struct sim_trace *t);
/*
 * One event. kind is a static string; a and b are what makes it that event (lengths, offsets, ids,
 * checksums: never addresses), text is optional and is hashed too. n may be NULL.
 */
void sim_trace(struct sim *s, const struct sim_node *n, const char *kind, uint64_t a, uint64_t b,
	       const char *text);

/* --- disk.c, file.c -------------------------------------------------------------------------- */

extern const struct rt_fs_ops sim_fs_ops;
/* The process is gone; with power, decide what of the unsynced data survived. */
void sim_disks_crash(struct sim_node *n, bool power);
/* All data is gone, operations fail with -ENODEV. */
void sim_disks_lose(struct sim_node *n);
/* Faults are over: no longer slow, hung or full. */
void sim_disks_heal(struct sim_node *n);
void sim_disks_free(struct sim_node *n);

/* --- net.c ----------------------------------------------------------------------------------- */

extern const struct rt_net_ops sim_net_ops;
struct sim_net *sim_net_open(struct sim *s);
void sim_net_close(struct sim_net *net);
/* Start the striker of partitions, once nodes exist. */
void sim_net_node_added(struct sim_node *n);
/* The process is gone: its sockets end (peers see a reset, or silence when power was lost). */
void sim_net_crash(struct sim_node *n, bool power);

#endif
