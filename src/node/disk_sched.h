// SPDX-License-Identifier: Apache-2.0
/*
 * Fair sharing of one disk (section 4.1 of the Tectonic paper): whose request goes next, and when.
 *
 * Model. Requests come from traffic groups, each with a weight, and are Gold (somebody waits), Silver
 * (ordinary; also who says nothing) or Bronze (background). They wait in a queue for each group and
 * class until they may go to the disk. What a request goes to the disk with is a slice: all of it, or
 * a part of a long read, after which it asks again. What is shared is disk time: the time during which
 * the disk had work.
 *
 * Rules, by number; tests/unit/test_node_sched*.c has a test for each.
 *  1. Quotas. Groups take turns. A round gives each group a quota of disk time by its weight; who has the
 *     largest part of it left goes next. A group that has used it up is skipped, provisionally: when
 *     nobody who waits is within its quota, the next round begins at once. What a group uses too
 *     much, it owes; what it does not use lapses. Inside a group the higher class goes first.
 *  2. Turns. A request that has begun is finished before the turn passes on, also into debt of up to
 *     one quota: a disk with an arm would pay a seek for each change of mind.
 *  3. Ceding. A request whose turn it is lets one of a higher class go first when that one's group is
 *     within its quota and itself still meets its deadline, by estimate, afterwards.
 *  4. Cap. While Gold is about (waiting, at the disk, or seen less than gold_linger_ns ago) at most
 *     other_depth requests that are not Gold are at the disk, with slices of slice_bytes. While it is
 *     not, they may be up to other_ahead_ns of disk time, at least other_depth, in slices of up to
 *     run_bytes.
 *  5. Patience. While a Gold request has waited for more than gold_patience_ns, here or at the disk,
 *     nothing else is sent to the disk, because the disk serves in an order of its own.
 *  6. Gold beyond its quota is not Gold (what a group uses of others' has the lower class of the two):
 *     rules 3 and 5 do not hold for it. So nobody starves: whatever the classes, each group that wants
 *     it gets disk time by its weight.
 *  7. An idle disk never waits: when nothing is at the disk and somebody waits, one goes.
 *
 * Disk time of a request, when several are at the disk. The time during which at least one is there is
 * measured, and all of it is handed out, each nanosecond once. A request that leaves the disk empty
 * takes what has not been handed out yet: so one at a time is charged exactly what it took. One that
 * leaves others behind takes what it should have cost by estimate, at most what there is: on a disk
 * that works on one at a time this is near the truth in whatever order it serves, while to split the
 * time evenly among those present would charge the small one for waiting behind the large one.
 * Estimates are position + bytes * time per byte, with constants for the kind of disk that follow what
 * requests alone at the disk really took, and positions times what the disk has lately gained by
 * having several requests to choose from (disk_sched_time.c).
 *
 * Worked example: sched_hdd over a drive with 12.7 ms to a random place and 200 MB/s. Bronze reads of 8
 * MiB take 12.7 + 42 = 54.6 ms. Were they at the disk whole, Gold would wait for most of that, and
 * much longer were there several. In slices of 1 MiB and one at a time, Gold waits for the rest of a
 * slice, 5.2 ms, or 18 ms when it begins with a seek. Each time Gold comes between, Bronze pays a
 * seek for coming back: with ten Gold reads a second, Gold takes 0.13 s of each second and the ways
 * back as much, and Bronze reads 0.74 * 154 = 114 MB/s. Smaller slices would help Gold
 * little, since most of its wait is the seek; other_depth of 2 would cost it one more seek.
 *
 * A scheduler belongs to one loop. It has no fiber and no timer: whoever comes or leaves decides who
 * goes next, which is enough by rule 7.
 */
#ifndef NODE_DISK_SCHED_H
#define NODE_DISK_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "base/context.h"
#include "base/list.h"
#include "ops/hist.h"
#include "rt/sync.h"

enum sched_class { SCHED_GOLD, SCHED_SILVER, SCHED_BRONZE, SCHED_CLASSES };
/* SCHED_NAMES is stat and list: often answered from memory, so what they cost is learnt apart from reads
 * and writes. */
enum sched_kind { SCHED_READ, SCHED_WRITE, SCHED_NAMES, SCHED_KINDS };

/* The longest name of a group, without the NUL. */
#define SCHED_NAME_MAX (CONTEXT_TENANT_MAX + 1 + CONTEXT_GROUP_MAX)
#define SCHED_WEIGHT_DEFAULT 100
#define SCHED_WEIGHT_MAX 10000
#define SCHED_GROUPS_MAX 1024
/* The group of those that name none, or more than there is room for. */
#define SCHED_GROUP_OTHER "other"

struct sched_config {
	uint32_t depth;            /* requests at the disk, of all classes */
	uint32_t other_depth;      /* of those not Gold, while Gold is about */
	uint64_t other_ahead_ns;   /* disk time of those not Gold, while Gold is not about */
	uint64_t gold_linger_ns;   /* Gold is about for so long after it was seen */
	uint64_t gold_patience_ns; /* rule 5 */
	uint64_t slice_bytes;      /* a power of two; slices end at its multiples */
	uint64_t run_bytes;        /* the longest slice, of any class */
	uint64_t quota_ns;         /* of a group with SCHED_WEIGHT_DEFAULT, in a round */
	uint32_t groups_max;       /* that are remembered at a time */
	uint32_t queue_max;        /* requests that wait to begin, for each group and class */
	uint32_t reservations_max;
	uint64_t reserve_ahead_ns; /* disk time that may be waiting and reserved */
	uint64_t reserve_ttl_ns;   /* a reservation expires after it */
	/* What requests cost, to begin with. */
	uint64_t position_ns; /* to get to a place */
	uint64_t read_bytes_per_s;
	uint64_t write_bytes_per_s;
	uint32_t lanes; /* positions that it works on at once */
};

/* For a 7,200 rpm drive, a SATA and an NVMe flash device. */
extern const struct sched_config sched_hdd, sched_sata, sched_nvme;

/* "hdd", "sata", "nvme"; NULL for any other name. */
const struct sched_config *sched_preset(const char *name);

/*
 * For a pool of such disks with a code of k + p: a request is in pieces on k or more of them, so it moves k
 * times as fast, and members / (k + p) go side by side, beside Gold too. While Gold is not about, three for
 * each member may be on their way: fewer meet at some members and leave others idle.
 */
struct sched_config sched_for_pool(const struct sched_config *disk, uint32_t members, uint32_t k,
				   uint32_t p);

struct sched;

/* -EINVAL for a configuration that cannot be, -ENOMEM. */
int sched_open(const struct sched_config *config, struct sched **out);

/* No request may be under way. NULL is fine. */
void sched_close(struct sched *s);

/*
 * Gives a group its weight, 1 to SCHED_WEIGHT_MAX, and a place of its own for good; other groups have
 * SCHED_WEIGHT_DEFAULT, and their place is reused when they are idle and others come. -EINVAL, -ENOSPC
 * when there is no room.
 */
int sched_weigh(struct sched *s, const char *group, uint32_t weight);

/* --- requests --------------------------------------------------------------------------------- */

struct sched_request {
	const char *group; /* of its tenant: put the tenant into the name; "": SCHED_GROUP_OTHER */
	enum sched_class class;
	enum sched_kind kind;
	bool whole;     /* cannot be done in slices */
	uint64_t off;   /* where in its chunk, so that slices can end at round places */
	uint64_t bytes; /* 0 is fine */
};

/*
 * A request under way, on the caller's stack. A local declared AUTO_SCHED_TURN, all zero at first,
 * gives its turn up when its scope ends, whatever the way out. The loop around it:
 *
 *	AUTO_SCHED_TURN struct sched_turn t = {0};
 *	int rc = sched_begin(s, &request, &t);
 *	while (rc == 0 && t.granted) {
 *		rc = store_get(store, id, t.off, buf + (t.off - request.off), t.len, &crc);
 *		rc = sched_next(&t, rc);
 *	}
 */
struct sched_turn {
	bool granted; /* do [off, off + len) now, then call sched_next */
	uint64_t off;
	uint64_t len;
	/* The scheduler's own. */
	struct sched *sched;
	struct sched_group *group;
	struct sched_request request;
	struct list link; /* in its group's queue, or among those at the disk */
	struct rt_cond may_go;
	uint64_t serial;
	uint64_t deadline_ns;
	uint64_t since_ns; /* of the present wait, or at the disk */
	uint64_t wait_ns;  /* the sum of those before */
	uint64_t service_ns;
	uint64_t cost_ns; /* estimated: of the rest while it waits, of the slice at the disk */
	bool begun;       /* a slice of it has been at the disk */
	bool follows;     /* the slice goes on where the disk was */
};

#define AUTO_SCHED_TURN __attribute__((cleanup(sched_end)))

/*
 * Waits until the request may go to the disk. Only when it returns 0 is the turn held. -EAGAIN: the
 * queue of its group and class is full; -EINVAL: a class, kind, range or name that cannot be; -ETIME
 * and -ECANCELED as every wait, and then it has left nothing behind.
 */
int sched_begin(struct sched *s, const struct sched_request *r, struct sched_turn *t);

/*
 * The slice is done, with this result. When all of the request is, or the result is an error, its
 * turn ends and the result is returned, with granted false. Otherwise waits for the turn of the next
 * slice; -ETIME and -ECANCELED end the turn too.
 */
int sched_next(struct sched_turn *t, int rc);

/* Gives up a turn that is held, as failed with -ECANCELED; nothing when none is. */
void sched_end(struct sched_turn *t);

/* --- reservations ----------------------------------------------------------------------------- */

/*
 * A writer asks before it sends. Yes means that the disk will have time for it soon, by what waits and
 * is promised to others now; it is not a place in the queue. The scheduler counts disk time only:
 * space is set aside by who calls this, and given back when the reservation is released or found
 * expired.
 */
struct sched_reservation {
	uint64_t id; /* never 0, never used again */
	uint64_t bytes;
	uint64_t expires_ns;
	uint64_t eta_ns; /* by when it would be done, from now: after what waits and is promised */
};

/*
 * -EBUSY: no, and *retry_ns is when to ask again: the disk has more than reserve_ahead_ns to do, or
 * the group more than its share of that by weight among the groups that want something. -EINVAL.
 */
int sched_reserve(struct sched *s, const char *group, enum sched_class class, uint64_t bytes,
		  struct sched_reservation *out, uint64_t *retry_ns);

/* It is used now, or not wanted any more. -ENOENT when there is none, or it has expired. */
int sched_release(struct sched *s, uint64_t id, struct sched_reservation *out);

/* Takes out the next one that has expired; false when there is none. Call it now and then: those not
 * taken out keep their place among reservations_max, though they count for nothing else. */
bool sched_expired(struct sched *s, struct sched_reservation *out);

/* All of them are void, as if they had been released: the disk that set the space aside was closed. */
void sched_reservations_drop(struct sched *s);

/* --- what happened ---------------------------------------------------------------------------- */

/* Of a group and class, or of a class on the whole disk. */
struct sched_stats {
	uint64_t requests; /* that were at the disk and ended */
	uint64_t errors;   /* of those */
	uint64_t refused;  /* -EAGAIN */
	uint64_t gave_up;  /* cancelled or too late while they waited */
	uint64_t bytes;    /* of slices that went well */
	uint64_t disk_ns;
	uint32_t queued;
	uint32_t at_disk;
	struct hist wait;    /* of a request: for its turns, in all */
	struct hist service; /* and at the disk */
};

struct sched_disk_stats {
	uint64_t busy_ns;      /* with something at the disk */
	uint64_t unclaimed_ns; /* of that, not handed out yet; the rest is the sum of all disk_ns */
	uint32_t queued;
	uint32_t at_disk;
	uint64_t reserved_bytes;
	uint32_t reservations;
	uint32_t groups;
	uint64_t reservations_refused;
	uint64_t position_ns; /* the estimates as they are now, */
	uint64_t write_position_ns;
	uint64_t names_ns;
	uint64_t read_bytes_per_s;
	uint64_t write_bytes_per_s;
};

void sched_disk_stats(const struct sched *s, struct sched_disk_stats *out);

/* The class on the whole disk, since it was opened. */
const struct sched_stats *sched_class_stats(const struct sched *s, enum sched_class class);

/* Walks the groups: i from 0 until false. Counters of a group start anew when its place was reused.
 * The pointers hold until the next call that is not about statistics. */
struct sched_group_stats {
	const char *name;
	uint32_t weight;
	const struct sched_stats *classes; /* SCHED_CLASSES of them */
};
bool sched_group_stats(const struct sched *s, uint32_t i, struct sched_group_stats *out);

/* "gold", "silver", "bronze". */
const char *sched_class_name(enum sched_class class);

#endif
