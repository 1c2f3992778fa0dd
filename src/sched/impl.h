// SPDX-License-Identifier: Apache-2.0
/*
 * Private to the scheduler; sched.h has the rules.
 *
 *   sched.c    requests: queues, slices to the disk and back
 *   pick.c     the rules: which request is next, and how long its slice is
 *   time.c     disk time: measured, estimated, charged
 *   group.c    groups by name, their quotas; statistics
 *   reserve.c  reservations
 *   preset.c   defaults for kinds of disks
 */
#ifndef SCHED_IMPL_H
#define SCHED_IMPL_H

#include <pthread.h>

#include "sched/sched.h"

struct sched_group {
	char name[SCHED_NAME_MAX + 1];
	uint64_t name_hash;
	uint32_t weight;
	uint32_t own_weight;   /* weight of sched_weigh; 0: none */
	bool listed;           /* the group is one of sched_list_groups */
	enum sched_class best; /* best class of its requests */
	/* value of sched.uses at the group's last request or reservation */
	uint64_t used;
	int64_t balance_ns; /* unused disk time of the group's quota; negative: debt */
	uint64_t round;     /* last round whose quota was added to balance_ns */
	uint64_t turn;      /* number of the last turn that the group had */
	/* estimated disk time of the group's requests, in the queues and at the disk */
	uint64_t ahead_ns;
	/* estimated disk time of the group's unexpired reservations */
	uint64_t reserved_ns;
	/* number of the group's reservations, with the expired ones that sched_expired has not
	 * removed */
	uint32_t reservations;
	struct list link; /* link in sched.waiting while queued > 0 */
	uint32_t queued;
	struct list queue[SCHED_CLASSES];
	struct sched_stats stats[SCHED_CLASSES];
};

struct sched_promise {
	struct sched_reservation r; /* id 0: the entry is free */
	struct list link;           /* link in sched.promised or sched.expired */
	struct sched_group *group;
	uint64_t cost_ns;
	bool expired;
};

/* Sums over the recent requests, in which older requests have less weight. The gain is computed
 * from them. */
struct sched_recent {
	double busy_ns; /* measured time with a request at the disk */
	/*
	 * estimated time to reach the positions of these requests if the disk served one at a time
	 */
	double position_ns;
	double transfer_ns;
};

struct sched {
	struct sched_config config;
	/* Guards all below, with the turns and groups; held for one step of a request, never over a wait. The lock of a
	 * turn's queue is taken inside. */
	pthread_mutex_t lock;
	struct sched_group **groups; /* groups[0] is SCHED_GROUP_OTHER */
	uint32_t group_count;
	uint32_t group_room;   /* entries of the array */
	uint32_t listed_count; /* groups of the cluster */
	struct list waiting;   /* groups with queued requests */
	struct sched_stats stats[SCHED_CLASSES];
	/* slices at the disk (struct sched_turn), in the order of sending */
	struct list at_disk;
	uint32_t at_disk_count;
	uint32_t queued;
	uint64_t serial; /* number of the newest request */
	uint64_t last;   /* serial of the request that sent the last slice */
	uint64_t round;
	uint64_t turns;
	uint64_t uses;
	bool gold_seen;
	uint64_t gold_seen_ns;

	/* time */
	uint64_t clock_ns; /* time up to which busy_ns is counted */
	uint64_t busy_ns;
	uint64_t unclaimed_ns;
	/*
	 * serial of the request whose slice has been alone at the disk since it was sent; 0: none
	 */
	uint64_t alone;
	double position_ns[SCHED_KINDS];
	double ns_per_byte[SCHED_KINDS];
	struct sched_recent recent;
	uint64_t ahead_ns; /* sum of sched_group.ahead_ns over all groups */
	uint64_t reserved_ns;

	struct sched_promise *promises;
	struct list promised; /* unexpired reservations, the first to expire first */
	struct list expired;
	uint64_t promise_seq;
	uint32_t promise_count;
	uint64_t promised_bytes;
	uint64_t promises_refused;
};

static inline void sched_unlock(pthread_mutex_t **lock)
{
	pthread_mutex_unlock(*lock);
}

static inline pthread_mutex_t *sched_lock(struct sched *s)
{
	pthread_mutex_lock(&s->lock);
	return &s->lock;
}

/* Holds the lock until the end of the scope. */
#define SCHED_LOCKED(s) \
	__attribute__((cleanup(sched_unlock), unused)) pthread_mutex_t *sched_locked = sched_lock(s)

/* --- pick.c ----------------------------------------------------------------------------------- */

/* Returns the request that may send a slice to the disk now, with off and len of the slice set;
 * NULL: no request may send. */
struct sched_turn *sched_pick(struct sched *s, uint64_t now_ns);

/* --- time.c ----------------------------------------------------------------------------------- */

void sched_time_init(struct sched *s);

/*
 * Returns the estimated disk time of a slice. follows: the disk is already at the slice's position.
 */
uint64_t sched_cost_ns(const struct sched *s, enum sched_kind kind, uint64_t bytes, bool follows);

/* Adds the time since the last call to busy_ns if a slice is at the disk. Called before
 * at_disk_count changes. */
void sched_time_pass(struct sched *s, uint64_t now_ns);

/* Returns the disk time that a slice is charged when it leaves the disk, and subtracts it from
 * unclaimed_ns. Called while the slice is still counted in at_disk_count. */
uint64_t sched_time_claim(struct sched *s, const struct sched_turn *t, uint64_t now_ns,
			  bool failed);

/* --- group.c ---------------------------------------------------------------------------------- */

int sched_groups_init(struct sched *s);

/* Returns the entry of the group with this name; the entry of SCHED_GROUP_OTHER if no entry is
 * free. Never NULL. */
struct sched_group *sched_group_get(struct sched *s, const char *name);

/* Checks the name of a group. -EINVAL: the name is too long. */
int sched_name_check(const char *name);

/* Returns the group's quota of disk time for one round. */
int64_t sched_quota_ns(const struct sched *s, const struct sched_group *g);

/* Adds the quotas of the rounds since the last call and returns the balance. */
int64_t sched_balance_ns(const struct sched *s, struct sched_group *g);

/* --- reserve.c -------------------------------------------------------------------------------- */

int sched_reserve_init(struct sched *s);

#endif
