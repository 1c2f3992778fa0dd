// SPDX-License-Identifier: Apache-2.0
/*
 * The simulated world: a whole cluster in one thread, on a virtual clock, every choice drawn from one
 * seed. The same seed and configuration give the same run, event by event; sim_trace_hash names it.
 *
 * A simulation has nodes in racks. A node is a machine with a clock, a network address (its name) and
 * disks, and runs one process: its main function is the first fiber, and the process lives until
 * main returns or the node crashes. A crash drops everything the process had in memory: its fibers
 * run off their ends in a world in which nothing has an effect, and what they leave open or running
 * is reported as a leak and ends the program. Then, after a while, main is called again with the
 * same argument, which must hold nothing that the process changes.
 *
 * Faults come in four units: a probability per operation, a rate per hour of simulated time and
 * object (node, disk, pair of nodes), a probability per unsynced write when a power loss is settled,
 * or a probability per node when it is added. Each has a
 * name, a default rate and can be switched off. They all stop with sim_faults_stop, which also heals
 * partitions, slow and hung disks; damage done stays done.
 */
#ifndef RT_SIM_H
#define RT_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct sim;
struct sim_node;
struct sim_disk;

enum sim_fault {
	SIM_NET_DROP,
	SIM_NET_DELAY,
	SIM_NET_DUPLICATE,
	SIM_NET_REORDER,
	SIM_NET_CORRUPT,
	SIM_NET_RESET,
	SIM_NET_PARTITION,
	SIM_NET_ONE_WAY,
	SIM_DISK_EIO,
	SIM_DISK_SYNC_FAIL,
	SIM_DISK_MISDIRECT,
	SIM_DISK_STALE,
	SIM_DISK_ROT,
	SIM_DISK_FULL,
	SIM_DISK_SLOW,
	SIM_DISK_HANG,
	SIM_DISK_LOSS,
	SIM_WRITE_LOST,
	SIM_WRITE_TORN,
	SIM_CRASH,
	SIM_CRASH_AT_WAIT,
	SIM_POWER_LOSS,
	SIM_PAUSE,
	SIM_CLOCK_JUMP,
	SIM_CLOCK_DRIFT,
	SIM_NODE_LOSS,
	SIM_RACK_LOSS,
	SIM_FAULT_COUNT,
};

enum sim_unit { SIM_PER_OPERATION, SIM_PER_HOUR, SIM_PER_CRASH, SIM_PER_NODE };

struct sim_fault_info {
	const char *name;
	enum sim_unit unit;
	double rate;
	const char *doc;
};

extern const struct sim_fault_info sim_fault_table[SIM_FAULT_COUNT];

struct sim_config {
	uint64_t seed;
	double rate[SIM_FAULT_COUNT]; /* 0: off */
	uint64_t restart_min_ns;      /* how long a crashed node stays down */
	uint64_t restart_max_ns;
	uint64_t net_latency_ns;  /* one way, without jitter */
	uint64_t disk_latency_ns; /* of one read, write or sync */
	uint64_t disk_ns_per_mib;
	FILE *trace; /* every event as a line, or NULL */
};

/* The default latencies and all fault rates times scale (0: none). */
void sim_config_init(struct sim_config *c, uint64_t seed, double scale);

struct sim *sim_open(const struct sim_config *config);
/* Stops every process and checks that nothing is left: what they point to may be freed afterwards. */
void sim_end(struct sim *s);
/* The same, and frees all. */
void sim_close(struct sim *s);

struct sim_node *sim_node_add(struct sim *s, const char *name, unsigned rack);
/* The process sees it as the directory /NAME. */
struct sim_disk *sim_disk_add(struct sim_node *n, const char *name, uint64_t size_bytes);

void sim_node_start(struct sim_node *n, void (*main)(void *), void *arg);
/* Ask the process to end by itself (rt_shutdown_wait returns); it is not started again. */
void sim_node_stop(struct sim_node *n);
/* Kill the process; with power also everything unsynced may be lost. Restarts by itself. */
void sim_node_crash(struct sim_node *n, bool power);
/* Crash at the n-th wait from now, counted from 1; 0 switches it off. */
void sim_node_crash_at(struct sim_node *n, uint64_t nth_wait, bool power);
/* Faults of processes (crash, pause, clock, loss) spare this node. */
void sim_node_protect(struct sim_node *n);
bool sim_node_running(const struct sim_node *n);
/* Loss of a node or rack spares this node. */
void sim_node_spare(struct sim_node *n, bool spare);
/* Gone for good, with what its disks hold; the process ends now. */
bool sim_node_lost(const struct sim_node *n);
/* Now, whatever spares it. */
void sim_node_lose(struct sim_node *n);
/* The process stands still for so long; nothing when it does so already. */
void sim_node_pause(struct sim_node *n, uint64_t ns);
/* How long its processes have stood still until now, in all their lives. */
uint64_t sim_node_paused_ns(const struct sim_node *n);
/* How often the process was started. */
uint64_t sim_node_lives(const struct sim_node *n);
uint64_t sim_node_waits(const struct sim_node *n);
const char *sim_node_name(const struct sim_node *n);

/* What the running process has now, and how often it has waited since it was started. */
struct sim_load {
	size_t fibers, socks, files;
	uint64_t waits;
};
void sim_node_load(const struct sim_node *n, struct sim_load *out);

/* Cut the network from a to b (and from b to a when both) until healed. */
void sim_net_cut(struct sim *s, struct sim_node *a, struct sim_node *b, bool both);
void sim_net_heal(struct sim *s);

/* What the simulator has done to a disk so far, as a set. */
enum sim_damage {
	SIM_DAMAGE_ROT = 1 << 0,
	SIM_DAMAGE_WRITE = 1 << 1, /* a write went to another place */
	SIM_DAMAGE_READ = 1 << 2,  /* a read gave other bytes, once */
	SIM_DAMAGE_SYNC = 1 << 3,  /* a sync failed, as it said */
	SIM_DAMAGE_LOST = 1 << 4,
};
unsigned sim_disk_damage(const struct sim_disk *d);
/* Whether what is stored may no longer be what was synced: rot, misdirected writes or loss. */
bool sim_disk_damaged(const struct sim_disk *d);
/*
 * The disk does not lie: rot, misdirected reads and writes, stale reads and loss spare it. All else goes on. So a test keeps the damage within what the layers above bear.
 */
void sim_disk_spare(struct sim_disk *d, bool spare);
/* For tests: what is stored in a file; flip a bit of it. -ENOENT, -ERANGE. */
int sim_disk_peek(struct sim_disk *d, const char *path, uint64_t offset, void *buf, size_t len);
int sim_disk_flip(struct sim_disk *d, const char *path, uint64_t offset, unsigned bit);

/* Run for a span of simulated time. */
void sim_run(struct sim *s, uint64_t duration_ns);
/* Run until done(ctx) or the span is over; returns whether it was done. */
bool sim_run_until(struct sim *s, bool (*done)(void *ctx), void *ctx, uint64_t duration_ns);
void sim_faults_stop(struct sim *s);
/* The same for a while: faults begin again with sim_faults_resume. */
void sim_faults_pause(struct sim *s);
void sim_faults_resume(struct sim *s);
uint64_t sim_now_ns(const struct sim *s);
uint64_t sim_steps(const struct sim *s);
uint64_t sim_trace_hash(const struct sim *s);
uint64_t sim_fault_count(const struct sim *s, enum sim_fault f);
/* The last events, for a person. */
void sim_trace_print(const struct sim *s, FILE *out, size_t max_lines);

#endif
