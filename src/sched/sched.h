// SPDX-License-Identifier: Apache-2.0
/*
 * Fair sharing of one disk (section 4.1 of the Tectonic paper): which request is served next, and
 * when. A metadata server shares its store in the same way: what follows calls the store a disk.
 *
 * Model. Each request belongs to a traffic group, which has a weight, and to a class: Gold (a user
 * waits for it), Silver (ordinary, and the default) or Bronze (background). There is a queue for
 * each group and class. The scheduler sends requests from the queues to the disk in slices. A slice
 * is the whole request, or a part of a long read, which then waits in the queue again for its next
 * slice. The scheduler shares out disk time: the time during which at least one slice is at the
 * disk.
 *
 * Rules, by number; tests/unit/test_sched*.c has a test for each.
 *  1. Quotas. A round gives each group a quota of disk time in proportion to its weight. The group
 *     with the largest unused part of its quota is served next. A group that has used up its quota
 *     is skipped; when no waiting group is within its quota, the next round begins at once. Time
 *     used beyond the quota is a debt, which the next quotas repay; an unused quota lapses. Within
 *     a group the higher class is served first.
 *  2. Turns. A request that has sent its first slice is served until it ends before another request
 *     starts, even if its group goes into debt by up to one quota: on a disk with an arm each
 *     switch costs a seek.
 *  3. Ceding. The request that is next lets a request of a higher class go first if the group of
 *     that request is within its quota and the estimate says that the ceding request still meets
 *     its deadline.
 *  4. Cap. Gold is active while a Gold request waits, is at the disk, or was seen less than
 *     gold_linger_ns ago. While Gold is active at most other_depth requests of other classes are at
 *     the disk, in slices of slice_bytes. Otherwise their estimated disk time may be up to
 *     other_ahead_ns (always at least other_depth requests), in slices of up to run_bytes.
 *  5. Patience. While a Gold request has waited longer than gold_patience_ns, in its queue or at
 *     the disk, no request of another class is sent to the disk, because the disk chooses its own
 *     order.
 *  6. Rules 3 and 5 do not apply to a Gold request whose group is beyond its quota. So no group
 *     starves: each group that has requests gets disk time by its weight, whatever the classes.
 *  7. When nothing is at the disk and a request waits, one is sent.
 *
 * Disk time of a slice when several are at the disk. The scheduler measures the time during which
 * the disk is busy and charges each nanosecond to exactly one slice. A slice that leaves the disk
 * empty is charged all time that is not yet charged: slices that are alone are so charged exactly
 * what they took. A slice that leaves others behind is charged its estimated cost, at most the
 * uncharged time. On a disk that serves one request at a time this is close to the real cost in any
 * order of service, while an even split would charge a small slice for waiting behind a large one.
 * The estimate is position + bytes * time per byte. Its constants start from the kind of disk and
 * follow the measured times of slices that were alone at the disk; the position part is scaled by
 * what the disk recently gained from choosing among several requests (time.c).
 *
 * Worked example: sched_hdd over a drive with 12.7 ms to a random place and 200 MB/s. A Bronze read
 * of 8 MiB takes 12.7 + 42 = 54.6 ms. If it were sent as one slice, Gold would wait for most of
 * that, and much longer if several were at the disk. With slices of 1 MiB, one at a time, Gold
 * waits for the rest of a slice: 5.2 ms, or 18 ms if the slice begins with a seek. After each Gold
 * read Bronze pays a seek to return: with ten Gold reads a second, Gold takes 0.13 s of each
 * second, the returns as much, and Bronze reads 0.74 * 154 = 114 MB/s. Smaller slices would help
 * Gold little, since most of its wait is the seek; an other_depth of 2 would cost it one more seek.
 *
 * Requests of any loop of the process may share a scheduler; a lock guards it. It has no fiber and no timer: a request
 * that arrives or leaves chooses the next one, which suffices because of rule 7.
 */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "base/context.h"
#include "base/list.h"
#include "ops/hist.h"
#include "rt/queue.h"

enum sched_class { SCHED_GOLD, SCHED_SILVER, SCHED_BRONZE, SCHED_CLASSES };
/* SCHED_NAMES stands for stat and list requests. The store often answers them from memory, so the
 * scheduler estimates their cost apart from that of reads and writes. */
enum sched_kind { SCHED_READ, SCHED_WRITE, SCHED_NAMES, SCHED_KINDS };

/* The longest name of a group, in bytes without the NUL. */
#define SCHED_NAME_MAX (CONTEXT_TENANT_MAX + 1 + CONTEXT_GROUP_MAX)
#define SCHED_WEIGHT_DEFAULT 100
#define SCHED_WEIGHT_MAX 10000
#define SCHED_GROUPS_MAX 1024
/* The group of requests without a group, and of those for which there is no free group entry. */
#define SCHED_GROUP_OTHER "other"

struct sched_config {
	uint32_t depth; /* limit for requests at the disk, all classes together */
	/* limit for Silver and Bronze requests at the disk while Gold is active */
	uint32_t other_depth;
	/* limit for the disk time of Silver and Bronze at the disk while Gold is not active; UINT64_MAX: none */
	uint64_t other_ahead_ns;
	/* time after the last Gold request during which Gold is active */
	uint64_t gold_linger_ns;
	/* wait of a Gold request, in ns, after which rule 5 sends no request of another class */
	uint64_t gold_patience_ns;
	/* longest slice of Silver and Bronze while Gold is active; a power of two; slices end at
	 * its multiples */
	uint64_t slice_bytes;
	uint64_t run_bytes; /* the longest slice, of any class */
	/* disk time per round of a group with SCHED_WEIGHT_DEFAULT */
	uint64_t quota_ns;
	uint32_t groups_max; /* largest number of group entries */
	/* limit for the requests in each queue; a queue belongs to one group and class */
	uint32_t queue_max;
	uint32_t reservations_max;
	/* limit for the estimated disk time that is queued, at the disk and reserved */
	uint64_t reserve_ahead_ns;
	uint64_t reserve_ttl_ns; /* life of a reservation */
	/* Initial cost estimates of a request: */
	uint64_t position_ns; /* time to reach a position on the disk */
	uint64_t read_bytes_per_s;
	uint64_t write_bytes_per_s;
	uint32_t lanes; /* positions that the disk serves in parallel */
};

/* Default configurations for a 7,200 rpm drive, a SATA flash device and an NVMe flash device. */
extern const struct sched_config sched_hdd, sched_sata, sched_nvme;

/* The configuration for the store of a metadata server, whose requests are all SCHED_NAMES. `bytes` of a request are
 * SCHED_QUERY_BYTES for each query beyond the first. */
extern const struct sched_config sched_metadata;
#define SCHED_QUERY_BYTES 4096

/* Returns the configuration for the cores of a machine, which serve as many requests at a time, each whole. */
struct sched_config sched_for_cores(unsigned cores);

/* Returns the preset named "hdd", "sata" or "nvme"; NULL for any other name. */
const struct sched_config *sched_preset(const char *name);

/*
 * Returns the configuration for a pool with a code of k + p, whose members are disks with the
 * configuration *disk. The pieces of a request are on k or more members, so it moves k times as
 * fast, and members / (k + p) requests are served in parallel, also while Gold is active. While
 * Gold is not active three requests for each member may be at the pool: with fewer, some members
 * would have several and others none.
 */
struct sched_config sched_for_pool(const struct sched_config *disk, uint32_t members, uint32_t k,
				   uint32_t p);

struct sched;

/* Makes a scheduler with a copy of the configuration. -EINVAL: a value of the configuration is out
 * of range; -ENOMEM. */
int sched_open(const struct sched_config *config, struct sched **out);

/* Frees the scheduler. No request may wait or be at the disk. s may be NULL. */
void sched_close(struct sched *s);

/*
 * Sets the weight of a group, 1 to SCHED_WEIGHT_MAX, and keeps the group's entry for as long as the
 * scheduler exists. Groups without this call have SCHED_WEIGHT_DEFAULT, and their entries are
 * reused when they are idle. -EINVAL: the name or the weight is out of range; -ENOSPC: no free
 * entry.
 */
int sched_weigh(struct sched *s, const char *group, uint32_t weight);

#define SCHED_LISTED_MAX 256
#define SCHED_WEIGHT_UNLISTED 10
/* Follows the tenant's name in the name of the entry that its unlisted groups share. */
#define SCHED_GROUP_UNLISTED "*"

/* A traffic group of the cluster. */
struct sched_listed {
	const char *group;     /* the name as in sched_request */
	uint32_t weight;       /* 1 to SCHED_WEIGHT_MAX; takes precedence over sched_weigh */
	enum sched_class best; /* requests of a better class are served in this one */
};

/*
 * Sets the traffic groups of the cluster, and forgets those of earlier calls. While there are any, all other groups of a
 * tenant share one entry with SCHED_WEIGHT_UNLISTED and the class Bronze: a client gains nothing by inventing names.
 * This does not concern groups with a weight of sched_weigh, of no tenant, and of the system. -EINVAL: a name, weight or
 * class is out of range, or n is above SCHED_LISTED_MAX: nothing has changed; -ENOMEM: some groups are not listed.
 */
int sched_list_groups(struct sched *s, const struct sched_listed *groups, size_t n);

/* Writes the name of the group of a request with this context. A request that names no group is of the tenant's group
 * "default"; what a service does for a tenant is of the service's group. */
void sched_group_name(char out[SCHED_NAME_MAX + 1], const struct context *c);
/* Returns the class of a request with this context. */
enum sched_class sched_class_of(const struct context *c);

/* --- requests --------------------------------------------------------------------------------- */

struct sched_request {
	/* group name with the tenant's name in front, so that groups of two tenants differ; "":
	 * SCHED_GROUP_OTHER */
	const char *group;
	enum sched_class class;
	enum sched_kind kind;
	bool whole; /* the request cannot be cut into slices */
	/* offset in the chunk, in bytes; slices end at multiples of slice_bytes */
	uint64_t off;
	uint64_t bytes; /* length of the request; may be 0 */
};

/*
 * A request and its turn at the disk, on the caller's stack. A local declared AUTO_SCHED_TURN and
 * set to zero gives up its turn when its scope ends. The loop around it:
 *
 *	AUTO_SCHED_TURN struct sched_turn t = {0};
 *	int rc = sched_begin(s, &request, &t);
 *	while (rc == 0 && t.granted) {
 *		rc = store_get(store, id, t.off, buf + (t.off - request.off), t.len, &crc);
 *		rc = sched_next(&t, rc);
 *	}
 */
struct sched_turn {
	/* the caller holds the turn: it serves [off, off + len), then calls sched_next */
	bool granted;
	uint64_t off;
	uint64_t len;
	/* Private to the scheduler: */
	struct sched *sched;
	struct sched_group *group;
	struct sched_request request;
	/* link in the queue of the request's group and class, or in sched.at_disk */
	struct list link;
	struct rt_queue may_go; /* the fiber, while it waits */
	atomic_bool go; /* as `granted`; the queue reads it without the lock of the scheduler */
	uint64_t serial;
	uint64_t deadline_ns;
	/* begin of the current wait or of the current slice at the disk */
	uint64_t since_ns;
	uint64_t wait_ns; /* sum of the finished waits for the disk */
	uint64_t service_ns;
	/* estimated disk time: of the rest of the request while it waits, of the slice while that
	 * is at the disk */
	uint64_t cost_ns;
	bool begun; /* the first slice of the request was sent */
	/* no other request sent a slice since the last slice of this request, so its next slice
	 * needs no seek */
	bool follows;
};

#define AUTO_SCHED_TURN __attribute__((cleanup(sched_end)))

/*
 * Waits until the request may use the disk. The caller holds the turn only after 0. -EAGAIN: the
 * queue of its group and class is full; -EINVAL: the class, kind, range or name is invalid; -ETIME
 * and -ECANCELED as every wait, and then the request has left the queue.
 */
int sched_begin(struct sched *s, const struct sched_request *r, struct sched_turn *t);

/*
 * Ends the slice with result rc. If it was the last slice, or rc is an error, ends the turn and
 * returns rc with granted false. Otherwise waits for the turn of the next slice; -ETIME and
 * -ECANCELED end the turn too.
 */
int sched_next(struct sched_turn *t, int rc);

/* Ends a turn that the caller holds; the request counts as failed with -ECANCELED. Does nothing if
 * t->granted is false. */
void sched_end(struct sched_turn *t);

/* --- reservations ----------------------------------------------------------------------------- */

/*
 * A writer reserves before it sends. A reservation means that the disk is expected to have time
 * soon, judged by its current requests and reservations; a reservation is no place in the queue.
 * The scheduler counts disk time only: the caller sets space aside, and returns it when the
 * reservation is released or sched_expired reports it.
 */
struct sched_reservation {
	uint64_t id; /* number of the reservation; never 0 and never reused */
	uint64_t bytes;
	uint64_t expires_ns;
	/* estimated time from now until the write would end, after all that is queued and reserved
	 * */
	uint64_t eta_ns;
};

/*
 * Reserves disk time for a write. -EBUSY: the disk has more than reserve_ahead_ns to do, or the
 * group more than its share of that, by weight among the groups with requests or reservations;
 * *retry_ns is the time after which to ask again. -EINVAL.
 */
int sched_reserve(struct sched *s, const char *group, enum sched_class class, uint64_t bytes,
		  struct sched_reservation *out, uint64_t *retry_ns);

/* Ends a reservation that its owner uses now or no longer needs. -ENOENT: no reservation has this
 * id, or it has expired. */
int sched_release(struct sched *s, uint64_t id, struct sched_reservation *out);

/*
 * Removes the next expired reservation and copies it to *out; false if none has expired. The owner
 * of the scheduler calls this regularly: expired reservations that are not removed reserve no time
 * but count towards reservations_max.
 */
bool sched_expired(struct sched *s, struct sched_reservation *out);

/* Releases all reservations, because the store that set their space aside was closed. */
void sched_reservations_drop(struct sched *s);

/* --- what happened ---------------------------------------------------------------------------- */

/* Counters of a group and class, or of a class on the disk. */
struct sched_stats {
	uint64_t requests; /* ended requests that had a slice at the disk */
	uint64_t errors;   /* requests that ended with an error */
	uint64_t refused;  /* requests refused with -EAGAIN because their queue was full */
	/* requests cancelled or past their deadline before their first slice */
	uint64_t gave_up;
	uint64_t bytes; /* bytes of the slices that ended without error */
	uint64_t disk_ns;
	uint32_t queued;
	uint32_t at_disk;
	struct hist wait;    /* histogram over requests: total wait for the disk */
	struct hist service; /* histogram over requests: total time at the disk */
};

struct sched_disk_stats {
	uint64_t busy_ns; /* time with at least one slice at the disk */
	/* part of busy_ns not yet charged to a slice; busy_ns less this part is the sum of all
	 * disk_ns */
	uint64_t unclaimed_ns;
	uint32_t queued;
	uint32_t at_disk;
	uint64_t reserved_bytes;
	uint32_t reservations;
	uint32_t groups;
	uint64_t reservations_refused;
	/* current estimate of the time in which a read reaches its position */
	uint64_t position_ns;
	uint64_t write_position_ns;
	uint64_t names_ns;
	uint64_t read_bytes_per_s;
	uint64_t write_bytes_per_s;
};

void sched_disk_stats(struct sched *s, struct sched_disk_stats *out);

/* Returns the counters of the class on this disk, since the scheduler was opened. Only while no other loop uses it. */
const struct sched_stats *sched_class_stats(const struct sched *s, enum sched_class class);

/*
 * Statistics of one group. sched_group_stats fills them in for group i and returns false beyond the
 * last group. A group whose entry was reused starts with new counters. The pointers are valid until
 * the next call that changes the scheduler. Only while no other loop uses it.
 */
struct sched_group_stats {
	const char *name;
	uint32_t weight;
	const struct sched_stats *classes; /* array of SCHED_CLASSES counters, by class */
};
bool sched_group_stats(const struct sched *s, uint32_t i, struct sched_group_stats *out);

/* Returns the name of a class: "gold", "silver" or "bronze". */
const char *sched_class_name(enum sched_class class);

#endif
