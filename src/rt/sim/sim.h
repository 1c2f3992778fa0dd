// SPDX-License-Identifier: Apache-2.0
/*
 * Private to the simulator: structures and functions that its files share. sim.c has the clock and the order of
 * events; node.c the processes and their faults; disk.c, file.c, inode.c, image.c and name.c the disks; net.c and conn.c the network; trace.c the
 * trace.
 */
#ifndef RT_SIM_SIM_H
#define RT_SIM_SIM_H

#include "base/list.h"
#include "base/rng.h"
#include "rt/core.h"
#include "rt/sim.h"

struct sim_net;

/* A fault that strikes at random, exponentially distributed times, and then calls hit(ctx). */
struct sim_striker {
	struct timer timer;
	struct sim *sim;
	enum sim_fault fault;
	void (*hit)(void *ctx);
	void *ctx;
	struct list link; /* element of sim.strikers */
};

struct sim_loop {
	struct rt_loop base;
	struct sim_node *node;
	struct list link; /* element of node.loops */
	struct rt_msg *inbox_first;
	struct rt_msg **inbox_last;
	struct timer inbox_timer; /* armed while the inbox holds messages */
};

struct sim_node {
	struct sim *sim;
	struct list link; /* element of sim.nodes */
	unsigned id;
	unsigned rack;
	char name[64];
	struct sim_link *behind; /* NULL: no link */
	void (*main)(void *);
	void *arg;

	/* struct sim_loop: loops of the process; empty while the process is down */
	struct list loops;
	bool up;       /* the node has a process, which may be ending */
	bool stopping; /* sim_node_stop was called: the process does not restart */
	bool lost;     /* the node is lost for good, with its disks */
	/* sim_node_protect was called: the node is exempt from faults of processes */
	bool protected_;
	bool spared;      /* sim_node_spare was called: the node is exempt from loss */
	bool crash_power; /* the crash planned by crash_at_wait is a power loss */
	bool ending;      /* main returned or the process was killed; fibers remain */
	bool crashed;     /* the process was killed */
	/* the last crash was a power loss, after which the machine's clock starts again */
	bool power_lost;
	/* number of waits after which the process is killed; 0: no crash is planned */
	uint64_t crash_at_wait;
	uint64_t waits;
	uint64_t lives;
	struct timer restart_timer;
	struct timer resume_timer; /* ends the pause; armed while the process is paused */
	uint64_t pause_begin_ns;
	uint64_t paused_ns; /* total length of all ended pauses */

	uint64_t boot_ns;        /* simulated time of the machine's last boot */
	uint64_t clock_start_ns; /* reading of the monotonic clock at boot_ns */
	/* number of readings of the clock since boot_ns; each advances the clock by 1 ns */
	uint64_t clock_reads;
	int64_t wall_offset_ns;
	int64_t drift_ppm;

	struct list disks; /* struct sim_disk, linked by node_link */
	/* number of files that the process has open; 0 when the process has ended */
	size_t open_files;
	size_t open_socks;
	struct sim_striker strikers[5];
};

struct sim {
	struct sim_config config;
	struct sched sched;
	struct rng rng; /* the only source of randomness */
	uint64_t now_ns;
	uint64_t steps;
	struct list nodes;
	unsigned node_count;
	unsigned ending_count; /* number of nodes with `ending` set */
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

/* Returns the allocation; ends the program if it failed, because a run cannot continue without memory. */
static inline void *sim_need(void *allocated)
{
	if (allocated == NULL) {
		fputs("sim: out of memory\n", stderr);
		abort();
	}
	return allocated;
}

/* Prints the seed, the message and the last events, and ends the program. */
_Noreturn void sim_panic(const struct sim *s, const char *what, const char *who, uint64_t n);

/* Counts and traces a fault; n may be NULL. */
void sim_fault_note(struct sim *s, enum sim_fault f, const struct sim_node *n);
/* Returns whether the fault strikes now; counts and traces it. Draws no number while faults are stopped. */
bool sim_roll(struct sim *s, enum sim_fault f, struct sim_node *n);
/* Draws a number, uniform in [lo, hi]. */
uint64_t sim_between(struct sim *s, uint64_t lo, uint64_t hi);
/* Arms a timer that calls fire after delay_ns of virtual time. */
void sim_timer(struct sim *s, struct timer *t, uint64_t delay_ns, void (*fire)(struct timer *));
void sim_timer_cancel(struct sim *s, struct timer *t);
/* Starts a striker; sim_faults_stop ends it, or sim_striker_stop, which must come before its object is freed. */
void sim_strike(struct sim *s, struct sim_striker *k, enum sim_fault f, void (*hit)(void *),
		void *ctx);
void sim_striker_stop(struct sim_striker *k);

/* Parks the calling fiber for a span of virtual time. -ECANCELED: its process crashed. */
int sim_delay(struct sim *s, uint64_t delay_ns);

/* --- node.c ---------------------------------------------------------------------------------- */

/* Frees the processes whose fibers have all ended, and restarts those that crashed. */
void sim_nodes_reap(struct sim *s);
/* Ends the pause of a process, if it is paused. */
void sim_node_resume(struct sim_node *n);
/* Callback of a striker: loses all nodes of a rack; ctx is the simulation. */
void sim_rack_hit(void *ctx);

/* --- trace.c --------------------------------------------------------------------------------- */

struct sim_trace *sim_trace_open(FILE *out);
void sim_trace_close(struct sim_trace *t);
/*
 * Adds an event. kind is a static string; a and b identify the event (lengths, offsets, ids, checksums; never
 * addresses); text may be NULL and is hashed too; n may be NULL.
 */
void sim_trace(struct sim *s, const struct sim_node *n, const char *kind, uint64_t a, uint64_t b,
	       const char *text);

/* --- disk.c, file.c -------------------------------------------------------------------------- */

extern const struct rt_fs_ops sim_fs_ops;
/*
 * Decides the outcome of the writes under way of a killed process; after a power loss of all
 * unsynced data.
 */
void sim_disks_crash(struct sim_node *n, bool power);
/* Loses all data of the node's disks; operations fail with -ENODEV from now on. */
void sim_disks_lose(struct sim_node *n);
/* Ends the slow, hung and full states of the node's disks. */
void sim_disks_heal(struct sim_node *n);
void sim_disks_free(struct sim_node *n);

/* --- net.c ----------------------------------------------------------------------------------- */

extern const struct rt_net_ops sim_net_ops;
struct sim_net *sim_net_open(struct sim *s);
void sim_net_close(struct sim_net *net);
/* Starts the strikers of partitions between this node and each other one. */
void sim_net_node_added(struct sim_node *n);
/* Ends the sockets of a killed process. Its peers get a reset, or no answer after a power loss. */
void sim_net_crash(struct sim_node *n, bool power);

#endif
