// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the scheduler; disk_sched.h has the rules.
 *
 *   disk_sched.c          requests: how they come, go to the disk and leave
 *   disk_sched_pick.c     the rules: who goes next, with how much
 *   disk_sched_time.c     disk time: what is measured, what is estimated, who is charged
 *   disk_sched_group.c    groups by name, their quotas; statistics
 *   disk_sched_reserve.c  reservations
 *   disk_sched_preset.c   defaults for kinds of disks
 */
#ifndef NODE_DISK_SCHED_IMPL_H
#define NODE_DISK_SCHED_IMPL_H

#include "node/disk_sched.h"

struct sched_group {
	char name[SCHED_NAME_MAX + 1];
	uint64_t name_hash;
	uint32_t weight;
	bool pinned;           /* its place is not reused */
	uint64_t used;         /* when it last wanted something, as a number that grows */
	int64_t balance_ns;    /* of its quota; below zero it owes */
	uint64_t round;        /* the last one whose quota is in the balance */
	uint64_t turn;         /* the number of the last turn it had */
	uint64_t ahead_ns;     /* estimates of what it has waiting and at the disk, */
	uint64_t reserved_ns;  /* and of what is reserved for it */
	uint32_t reservations; /* also expired ones that nobody has taken out */
	struct list link;      /* in sched.waiting while somebody of it waits */
	uint32_t queued;
	struct list queue[SCHED_CLASSES];
	struct sched_stats stats[SCHED_CLASSES];
};

struct sched_promise {
	struct sched_reservation r; /* id 0: the place is free */
	struct list link;           /* in sched.promises or expired */
	struct sched_group *group;
	uint64_t cost_ns;
	bool expired;
};

/* Sums in which a request counts the less the longer ago it was. */
struct sched_recent {
	double busy_ns;     /* measured */
	double position_ns; /* estimated for the same, as if one at a time */
	double transfer_ns;
};

struct sched {
	struct sched_config config;
	struct sched_group **groups; /* the first is SCHED_GROUP_OTHER */
	uint32_t group_count;
	struct list waiting; /* groups that have something in a queue */
	struct sched_stats stats[SCHED_CLASSES];
	struct list at_disk; /* sched_turn, in the order in which they went */
	uint32_t at_disk_count;
	uint32_t queued;
	uint64_t serial; /* of requests */
	uint64_t last;   /* the serial of the request that last sent a slice */
	uint64_t round;
	uint64_t turns;
	uint64_t uses;
	bool gold_seen;
	uint64_t gold_seen_ns;

	/* time */
	uint64_t clock_ns; /* up to when busy_ns is right */
	uint64_t busy_ns;
	uint64_t unclaimed_ns;
	uint64_t alone; /* the serial of the request that has had the disk to itself, or 0 */
	double position_ns[SCHED_KINDS];
	double ns_per_byte[SCHED_KINDS];
	struct sched_recent recent;
	uint64_t ahead_ns; /* the sums over all groups */
	uint64_t reserved_ns;

	struct sched_promise *promises;
	struct list promised; /* those that count, the first to expire first */
	struct list expired;
	uint64_t promise_seq;
	uint32_t promise_count;
	uint64_t promised_bytes;
	uint64_t promises_refused;
};

/* --- disk_sched_pick.c ----------------------------------------------------------------------------- */

/* The request that goes to the disk now, with its off and len set; NULL when none may. */
struct sched_turn *sched_pick(struct sched *s, uint64_t now_ns);

/* --- disk_sched_time.c ----------------------------------------------------------------------------- */

void sched_time_init(struct sched *s);

/* What so many bytes cost; follows: where the disk is already. */
uint64_t sched_cost_ns(const struct sched *s, enum sched_kind kind, uint64_t bytes, bool follows);

/* Brings busy_ns up to now: call it before the number of those at the disk changes. */
void sched_time_pass(struct sched *s, uint64_t now_ns);

/* What a slice that leaves the disk is charged; it is still counted as being there. */
uint64_t sched_time_claim(struct sched *s, const struct sched_turn *t, uint64_t now_ns,
			  bool failed);

/* --- disk_sched_group.c ---------------------------------------------------------------------------- */

int sched_groups_init(struct sched *s);

/* Never NULL: SCHED_GROUP_OTHER when there is no room. */
struct sched_group *sched_group_get(struct sched *s, const char *name);

/* -EINVAL: too long. */
int sched_name_check(const char *name);

/* What a round gives. */
int64_t sched_quota_ns(const struct sched *s, const struct sched_group *g);

/* With the quotas of all rounds until now. */
int64_t sched_balance_ns(const struct sched *s, struct sched_group *g);

/* --- disk_sched_reserve.c -------------------------------------------------------------------------- */

int sched_reserve_init(struct sched *s);

#endif
