// SPDX-License-Identifier: Apache-2.0
/*
 * The simulated world: a cluster in one thread, on a virtual clock, with every choice drawn from one seed. The
 * same seed and configuration give the same run, event by event; sim_trace_hash identifies the run.
 *
 * A simulation has nodes in racks. A node is a machine with a clock, a network address (its name) and disks. It
 * runs one process: its main function is the first fiber, and the process lives until main returns or the node
 * crashes. In a crash the process loses its memory: its fibers continue until they return, while none of their
 * calls has an effect. A fiber, file or socket that then remains is a leak, and ends the program. After a while
 * the simulator calls main again with the same argument, which must hold nothing that the process changes.
 *
 * The rate of a fault is in one of four units: a probability per operation; a rate per hour of simulated time and
 * object (node, disk, pair of nodes); a probability per unsynced write at a power loss; a probability per node
 * when it is added. Each fault has a name and a default rate, and can be switched off. sim_faults_stop ends all
 * of them, and heals partitions, slow, hung and full disks; damaged data stays damaged.
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
	double rate[SIM_FAULT_COUNT]; /* rate of each fault, in its unit; 0: off */
	uint64_t restart_min_ns;      /* range of the time until a crashed process restarts */
	uint64_t restart_max_ns;
	uint64_t clock_jump_ns;   /* largest error of a wall clock that is set wrong */
	uint64_t net_latency_ns;  /* latency of a packet, without jitter */
	bool net_steady;          /* packets have no jitter, so that a test can count round trips */
	uint64_t disk_latency_ns; /* latency of one read, write or sync */
	uint64_t disk_ns_per_mib;
	FILE *trace; /* file to which every event is written as a line; may be NULL */
};

/* Sets default latencies, and the default rates of all faults times scale (0: no faults). */
void sim_config_init(struct sim_config *c, uint64_t seed, double scale);

struct sim *sim_open(const struct sim_config *config);
/*
 * Stops every process and checks that no fiber, file or socket remains. Then the test may free the
 * arguments of the processes.
 */
void sim_end(struct sim *s);
/* Calls sim_end, and frees the simulation. */
void sim_close(struct sim *s);

struct sim_node *sim_node_add(struct sim *s, const char *name, unsigned rack);
/* Adds a disk; the process sees it as the directory /NAME. */
struct sim_disk *sim_disk_add(struct sim_node *n, const char *name, uint64_t size_bytes);

void sim_node_start(struct sim_node *n, void (*main)(void *), void *arg);
/* Asks the process to end (rt_shutdown_wait returns); it does not restart. */
void sim_node_stop(struct sim_node *n);
/* Kills the process; with power, unsynced writes may be lost too. The process restarts after a while. */
void sim_node_crash(struct sim_node *n, bool power);
/* Crashes the process at its n-th wait from now (1: the next); 0 cancels a planned crash. */
void sim_node_crash_at(struct sim_node *n, uint64_t nth_wait, bool power);
/* Exempts the node from faults of processes (crash, pause, clock, loss). */
void sim_node_protect(struct sim_node *n);
bool sim_node_running(const struct sim_node *n);
/* Exempts the node from the loss of nodes and racks, or ends the exemption. */
void sim_node_spare(struct sim_node *n, bool spare);
/* Returns whether the node is lost: its process has ended for good, and its disks have lost their data. */
bool sim_node_lost(const struct sim_node *n);
/* Loses the node now, even if it is exempt. */
void sim_node_lose(struct sim_node *n);
/* Pauses the process for `ns`; does nothing if the process is already paused. */
void sim_node_pause(struct sim_node *n, uint64_t ns);
/* Returns the total time in ns for which the node's processes were paused. */
uint64_t sim_node_paused_ns(const struct sim_node *n);
/* Returns how often the process was started. */
uint64_t sim_node_lives(const struct sim_node *n);
/* Returns the number of waits of the process since it was started. */
uint64_t sim_node_waits(const struct sim_node *n);
const char *sim_node_name(const struct sim_node *n);

/* Resources of the running process, and its number of waits since it was started. */
struct sim_load {
	size_t fibers, socks, files;
	uint64_t waits;
};
void sim_node_load(const struct sim_node *n, struct sim_load *out);

/* Cuts the network from a to b, with `both` also from b to a, until sim_net_heal. */
void sim_net_cut(struct sim *s, struct sim_node *a, struct sim_node *b, bool both);
void sim_net_heal(struct sim *s);

/*
 * A link with a cap of bandwidth between the nodes behind it and all others (theory: sim/link.c). Links form
 * trees of at most four levels; the simulation owns them. A direction carries one packet after the other.
 */
struct sim_link;
enum sim_way { SIM_UP, SIM_DOWN }; /* from the nodes behind the link, and to them */
/* above: the link that this one is behind; NULL: none. */
struct sim_link *sim_link_add(struct sim *s, struct sim_link *above, uint64_t bytes_per_s);
/* Changes the cap for packets that reach the link from now on. */
void sim_link_limit(struct sim_link *l, uint64_t bytes_per_s);
/* Puts the node behind a link, before its first start. */
void sim_node_behind(struct sim_node *n, struct sim_link *l);
/* Returns the bytes of data that the link has carried. */
uint64_t sim_link_bytes(const struct sim_link *l, enum sim_way way);

/* Kinds of damage that the simulator did to a disk, as a set of bits. */
enum sim_damage {
	SIM_DAMAGE_ROT = 1 << 0,
	SIM_DAMAGE_WRITE = 1 << 1, /* a write was misdirected */
	SIM_DAMAGE_READ = 1 << 2,  /* a read returned misdirected or stale bytes, once */
	SIM_DAMAGE_SYNC = 1 << 3,  /* a sync failed and returned -EIO */
	SIM_DAMAGE_LOST = 1 << 4,
};
unsigned sim_disk_damage(const struct sim_disk *d);
/* Returns whether stored bytes may differ from synced ones: rot, misdirected writes or loss. */
bool sim_disk_damaged(const struct sim_disk *d);
/*
 * Exempts the disk from rot, misdirected reads and writes, stale reads and loss, or ends the exemption; other
 * faults go on. A test uses it to keep the damage within what the layers above tolerate.
 */
void sim_disk_spare(struct sim_disk *d, bool spare);
/*
 * For tests: sim_disk_peek reads bytes of a file as reads return them now; sim_disk_flip flips one
 * bit. Both return 0, -ENOENT or -ERANGE.
 */
int sim_disk_peek(struct sim_disk *d, const char *path, uint64_t offset, void *buf, size_t len);
int sim_disk_flip(struct sim_disk *d, const char *path, uint64_t offset, unsigned bit);

/* Runs the simulation for duration_ns of simulated time. */
void sim_run(struct sim *s, uint64_t duration_ns);
/*
 * Runs until done(ctx) returns true or duration_ns of simulated time is over; returns the last
 * result of done.
 */
bool sim_run_until(struct sim *s, bool (*done)(void *ctx), void *ctx, uint64_t duration_ns);
/* Ends all faults for good. */
void sim_faults_stop(struct sim *s);
/* Suspends all faults until sim_faults_resume. */
void sim_faults_pause(struct sim *s);
void sim_faults_resume(struct sim *s);
uint64_t sim_now_ns(const struct sim *s);
uint64_t sim_steps(const struct sim *s);
uint64_t sim_trace_hash(const struct sim *s);
uint64_t sim_fault_count(const struct sim *s, enum sim_fault f);
/* Prints at most max_lines of the last events. */
void sim_trace_print(const struct sim *s, FILE *out, size_t max_lines);

#endif
