// SPDX-License-Identifier: Apache-2.0
/*
 * The rate limiter of a client, for one resource of the cluster (disk time, or metadata queries): a request is sent,
 * waits here, or is refused, before anything goes to a server. Pure logic; the caller passes the time and moves the
 * counters.
 *
 * Clients know nothing of each other but counters: every LIMITS_WINDOW_NS each client reports two numbers for each
 * group (limiter_report), something adds up the reports of all clients, and each client is told the sums
 * (limiter_counters). Counters may be late, lost or wrong by some percent; the result is then wrong by as much, and
 * follows within a few windows.
 *
 * The demand decides how much the group gets (share.h, which every client computes for itself). It is what arrived in the
 * window plus what was waiting when it began, smoothed over two windows, and at most twice what the group may use now: so a
 * client that is held back shows that it wants more, and a queue of any length counts as no more than that.
 *
 * The weight decides which part of it this client takes: its weight divided by the sum. It is 1 for a client that
 * always has requests waiting, 0 for one without requests, and falls in between until the part is a little more than what the
 * client uses. So clients that want more than they get have equal parts, and the others get all that they ask for.
 *
 * The bucket leaks, as in the paper, and is modified in that a request looks for room in several: that of its own
 * group's quota, then those of capacity borrowed from its tenant and from others, best class first. A bucket
 * is the time until which its rate is used up; it may be behind by LIMITS_BURST_NS.
 *
 * Bounds: LIMITS_GROUPS_MAX groups, waiting_max requests. Requests of a group are sent in order of arrival.
 */
#ifndef LIMITS_LIMITER_H
#define LIMITS_LIMITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "base/list.h"
#include "limits/share.h"

#define LIMITS_WINDOW_NS (100 * NS_PER_MS)
#define LIMITS_BURST_NS (50 * NS_PER_MS)
#define LIMITS_COST_MAX ((uint64_t)1 << 40)

struct limiter;

struct limiter_options {
	size_t waiting_max; /* most requests that wait, of all groups; 0: 65536 */
};

enum limits_state {
	LIMITS_NONE,
	LIMITS_WAITING,
	LIMITS_SENT,    /* may be sent now, with the class in traffic_class */
	LIMITS_REFUSED, /* its deadline comes first */
};

/* A request; lives with the caller, who must not move it while it waits. */
struct limits_request {
	uint32_t group;
	uint64_t cost;        /* units; 1 to LIMITS_COST_MAX */
	uint64_t deadline_ns; /* CONTEXT_NO_DEADLINE: none */
	/* set by the limiter */
	enum limits_state state;
	enum traffic_class traffic_class; /* class with which the request is sent */
	struct list link;
};

/* -ENOMEM. */
int limiter_open(struct limiter **out, const struct limiter_options *o, uint64_t now_ns);
/* No request may be waiting. */
void limiter_close(struct limiter *l);

/*
 * Sets the groups and quotas; may be called at any time. Groups that were known keep their state; waiting requests of
 * groups that are gone are refused by the next limiter_poll. -EINVAL: more than LIMITS_GROUPS_MAX groups, an id of 0 or
 * twice, no class.
 */
int limiter_groups(struct limiter *l, const struct limits_group *groups, size_t n);

/*
 * Takes a request. Returns 0: its state is LIMITS_SENT or LIMITS_WAITING; -ETIME: it would wait beyond its deadline;
 * -ENOENT: no such group; -EAGAIN: waiting_max requests wait. An error counts as demand, too.
 */
int limiter_submit(struct limiter *l, struct limits_request *r, uint64_t now_ns);
/* Removes a waiting request. */
void limiter_cancel(struct limiter *l, struct limits_request *r);

/*
 * Decides on waiting requests: moves those that may be sent (LIMITS_SENT) or are too late (LIMITS_REFUSED) to the list
 * `out`. Returns the time at which it should be called again; RT_NEVER's value, UINT64_MAX, when none waits.
 */
uint64_t limiter_poll(struct limiter *l, uint64_t now_ns, struct list *out);

/* The report of one client for one group, or the sum over all clients. */
struct limits_counter {
	uint32_t group;
	double demand; /* units per second */
	double weight; /* 0 to 1; in a sum at most the number of clients */
	/* for operators; the limiter does not use them */
	double waiting;   /* requests that wait now */
	double throttled; /* requests per second that were delayed or refused */
};

/* Ends a window: writes the report for each group, at most `room` of them, and returns their number. Call it every
 * LIMITS_WINDOW_NS. */
size_t limiter_report(struct limiter *l, uint64_t now_ns, struct limits_counter *out, size_t room);
/* Takes the sums over all clients, with this one. Unknown groups and values that are no number are ignored; a group
 * that is missing keeps its sum. Until the first call, and when the last one is ten windows ago, nothing is borrowed. */
void limiter_counters(struct limiter *l, const struct limits_counter *in, size_t n);

/* What a group uses, for statistics. */
struct limiter_stats {
	uint64_t sent, sent_cost;
	uint64_t borrowed_cost; /* of sent_cost */
	uint64_t delayed, refused;
	uint64_t waiting; /* requests that wait now */
	double allowed;   /* units per second that this client may send now */
};

/* -ENOENT: no such group. */
int limiter_stats(const struct limiter *l, uint32_t group, struct limiter_stats *out);

#endif
