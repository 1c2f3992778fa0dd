// SPDX-License-Identifier: Apache-2.0
#include "limits/limiter.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WAITING_MAX 65536
/* own quota; borrowed from the tenant, by class; borrowed from others, by class */
#define LANES (1 + 2 * LIMITS_CLASSES)
/* smallest weight of a client with requests, so that its first ones are not stuck */
#define WEIGHT_MIN 0.01
/* A weight falls by at most this factor in a window, to what is used and this headroom. */
#define WEIGHT_FALL 0.8
#define WEIGHT_HEADROOM 1.25
/* windows without counters after which a client borrows nothing */
#define STALE_WINDOWS 10
#define THROTTLED_PART 0.2 /* of the latest window in the smoothed rate */
#define DEMAND_MAX 1e15
#define WEIGHT_SUM_MAX 1e9

struct lane {
	double rate;    /* units per second of this client */
	double used_ns; /* time until which the rate is used up */
};

struct group {
	struct limits_group info;
	struct list queue;
	uint64_t queued_cost;
	struct lane lanes[LANES];
	/* the window that runs now */
	uint64_t arrived_cost;
	uint64_t queued_at_start;
	uint64_t sent_at_start;      /* stats.sent_cost when it began */
	uint64_t throttled_at_start; /* delayed and refused requests when it began */
	double throttled;            /* delayed and refused requests per second, smoothed */
	bool satisfied;              /* the queue was empty at some time of the window */
	double demand;               /* smoothed, as last reported */
	double weight;
	double reported_weight; /* as last reported */
	double total_demand;    /* of all clients, as last told; 0: not known */
	double total_weight;
	double allowed; /* rate of the group in the whole cluster */
	struct limiter_stats stats;
};

struct limiter {
	size_t waiting_max;
	size_t waiting;
	uint64_t window_ns; /* begin of the window */
	unsigned silence;   /* windows that ended since the last counters */
	size_t count;
	struct group groups[LIMITS_GROUPS_MAX];
	struct list homeless; /* waiting requests of groups that are gone */
	/* scratch memory of divide(), which is too large for the stack of a fiber */
	struct limits_group infos[LIMITS_GROUPS_MAX];
	struct limits_share shares[LIMITS_GROUPS_MAX];
	double demand[LIMITS_GROUPS_MAX];
};

int limiter_open(struct limiter **out, const struct limiter_options *o, uint64_t now_ns)
{
	struct limiter *l = calloc(1, sizeof(*l));
	*out = l;
	if (l == NULL)
		return -ENOMEM;
	l->waiting_max = o == NULL || o->waiting_max == 0 ? WAITING_MAX : o->waiting_max;
	l->window_ns = now_ns;
	l->silence = STALE_WINDOWS;
	list_init(&l->homeless);
	return 0;
}

void limiter_close(struct limiter *l)
{
	if (l == NULL)
		return;
	assert(l->waiting == 0);
	free(l);
}

static struct group *find(const struct limiter *l, uint32_t id)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->groups[i].info.id == id)
			return (struct group *)&l->groups[i];
	return NULL;
}

/* --- rates ------------------------------------------------------------------------------------ */

/* The part of a group's rate that this client takes. */
static double part_of(const struct group *g)
{
	/* the sum contains the own weight as it was reported */
	double others = g->total_weight - g->reported_weight;
	return others > 0 ? g->weight / (others + g->weight) : 1;
}

static void lanes_set(struct group *g, const struct limits_share *s)
{
	double part = part_of(g);
	/* the whole quota stays open to its group, also what is lent: who lends gets it back at once */
	g->lanes[0].rate = (double)g->info.quota * part;
	for (size_t c = 0; c < LIMITS_CLASSES; c++) {
		g->lanes[1 + c].rate = s->tenant[c] * part;
		g->lanes[1 + LIMITS_CLASSES + c].rate = s->other[c] * part;
	}
	g->stats.allowed = 0;
	for (size_t i = 0; i < LANES; i++)
		g->stats.allowed += g->lanes[i].rate;
}

static void divide(struct limiter *l)
{
	struct limits_share *shares = l->shares;
	for (size_t i = 0; i < l->count; i++) {
		const struct group *g = &l->groups[i];
		l->infos[i] = g->info;
		/* the sum may be older than the own demand */
		l->demand[i] = fmax(g->total_demand, g->demand);
	}
	limits_divide(l->infos, l->demand, l->count, shares);
	for (size_t i = 0; i < l->count; i++) {
		struct group *g = &l->groups[i];
		double total = limits_share_total(&shares[i]);
		double quota = (double)g->info.quota;
		g->allowed = total > quota ? total : quota;
		/* without counters, other groups seem to have no demand */
		if (l->silence >= STALE_WINDOWS)
			shares[i] = (struct limits_share){0};
		lanes_set(g, &shares[i]);
	}
}

static void queue_orphan(struct limiter *l, struct group *g)
{
	while (!list_empty(&g->queue)) {
		struct list *first = g->queue.next;
		list_remove(first);
		list_push_back(&l->homeless, first);
	}
}

static int groups_check(const struct limits_group *groups, size_t n)
{
	if (n > LIMITS_GROUPS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (groups[i].id == 0 || groups[i].traffic_class < TRAFFIC_GOLD ||
		    groups[i].traffic_class > TRAFFIC_BRONZE)
			return -EINVAL;
		for (size_t j = 0; j < i; j++)
			if (groups[j].id == groups[i].id)
				return -EINVAL;
	}
	return 0;
}

static void group_add(struct limiter *l, const struct limits_group *info)
{
	struct group *g = &l->groups[l->count++];
	memset(g, 0, sizeof(*g));
	list_init(&g->queue);
	g->info = *info;
	g->allowed = (double)info->quota;
	g->weight = 1;
	g->satisfied = true;
}

/* Moves the last group to the place of group i, with its queue. */
static void group_drop(struct limiter *l, size_t i)
{
	struct group *g = &l->groups[i], *last = &l->groups[--l->count];
	queue_orphan(l, g);
	if (g == last)
		return;
	*g = *last;
	list_init(&g->queue);
	while (!list_empty(&last->queue)) {
		struct list *first = last->queue.next;
		list_remove(first);
		list_push_back(&g->queue, first);
	}
}

static const struct limits_group *info_of(const struct limits_group *groups, size_t n, uint32_t id)
{
	for (size_t i = 0; i < n; i++)
		if (groups[i].id == id)
			return &groups[i];
	return NULL;
}

int limiter_groups(struct limiter *l, const struct limits_group *groups, size_t n)
{
	int rc = groups_check(groups, n);
	if (rc < 0)
		return rc;
	for (size_t i = l->count; i > 0; i--)
		if (info_of(groups, n, l->groups[i - 1].info.id) == NULL)
			group_drop(l, i - 1);
	for (size_t i = 0; i < n; i++) {
		struct group *g = find(l, groups[i].id);
		if (g == NULL)
			group_add(l, &groups[i]);
		else
			g->info = groups[i];
	}
	assert(l->count == n);
	divide(l);
	return 0;
}

/* --- requests --------------------------------------------------------------------------------- */

static enum traffic_class lane_class(const struct group *g, size_t lane)
{
	if (lane == 0)
		return g->info.traffic_class;
	return (enum traffic_class)(TRAFFIC_GOLD + (lane - 1) % LIMITS_CLASSES);
}

/* Returns the time at which the lane has room again, in ns; INFINITY if it has no rate. */
static double lane_ready_ns(const struct lane *lane)
{
	return lane->rate > 0 ? lane->used_ns - (double)LIMITS_BURST_NS : INFINITY;
}

/* Sends the request in the first lane that has room. Returns whether one has. */
static bool try_send(struct group *g, struct limits_request *r, uint64_t now_ns)
{
	for (size_t i = 0; i < LANES; i++) {
		struct lane *lane = &g->lanes[i];
		if (lane_ready_ns(lane) > (double)now_ns)
			continue;
		double from = lane->used_ns > (double)now_ns ? lane->used_ns : (double)now_ns;
		lane->used_ns = from + (double)r->cost / lane->rate * (double)NS_PER_S;
		r->state = LIMITS_SENT;
		r->traffic_class = lane_class(g, i);
		assert(r->traffic_class >= g->info.traffic_class);
		g->stats.sent++;
		g->stats.sent_cost += r->cost;
		g->stats.borrowed_cost += i > 0 ? r->cost : 0;
		return true;
	}
	return false;
}

static double ready_ns(const struct group *g)
{
	double first = INFINITY;
	for (size_t i = 0; i < LANES; i++)
		first = fmin(first, lane_ready_ns(&g->lanes[i]));
	return first;
}

/* Returns how long a request that arrives now would wait for those before it. */
static double wait_ns(const struct group *g, uint64_t now_ns)
{
	double room = ready_ns(g) - (double)now_ns;
	double queue = g->queued_cost == 0
			       ? 0
			       : (double)g->queued_cost / g->stats.allowed * (double)NS_PER_S;
	return (room > 0 ? room : 0) + queue;
}

int limiter_submit(struct limiter *l, struct limits_request *r, uint64_t now_ns)
{
	struct group *g = find(l, r->group);
	assert(r->cost > 0 && r->cost <= LIMITS_COST_MAX);
	r->state = LIMITS_NONE;
	list_init(&r->link);
	if (g == NULL)
		return -ENOENT;
	g->arrived_cost += r->cost;
	if (list_empty(&g->queue) && try_send(g, r, now_ns))
		return 0;
	if (l->waiting >= l->waiting_max) {
		g->stats.refused++;
		return -EAGAIN;
	}
	if (r->deadline_ns != CONTEXT_NO_DEADLINE &&
	    (double)now_ns + wait_ns(g, now_ns) > (double)r->deadline_ns) {
		g->stats.refused++;
		return -ETIME;
	}
	r->state = LIMITS_WAITING;
	list_push_back(&g->queue, &r->link);
	g->queued_cost += r->cost;
	g->stats.delayed++;
	g->stats.waiting++;
	l->waiting++;
	return 0;
}

static void unqueue(struct limiter *l, struct group *g, struct limits_request *r)
{
	assert(r->state == LIMITS_WAITING && l->waiting > 0);
	list_remove(&r->link);
	l->waiting--;
	if (g == NULL) /* the group is gone */
		return;
	assert(g->queued_cost >= r->cost && g->stats.waiting > 0);
	g->queued_cost -= r->cost;
	g->stats.waiting--;
	g->satisfied = g->satisfied || list_empty(&g->queue);
}

static bool in_list(const struct list *head, const struct list *link)
{
	for (const struct list *at = head->next; at != head; at = at->next)
		if (at == link)
			return true;
	return false;
}

void limiter_cancel(struct limiter *l, struct limits_request *r)
{
	/* a group may have gone and come back while the request waited */
	struct group *g = in_list(&l->homeless, &r->link) ? NULL : find(l, r->group);
	unqueue(l, g, r);
	r->state = LIMITS_NONE;
}

static struct limits_request *head_of(const struct list *queue)
{
	return list_empty(queue) ? NULL : container_of(queue->next, struct limits_request, link);
}

static void poll_group(struct limiter *l, struct group *g, uint64_t now_ns, struct list *out)
{
	struct limits_request *r;
	while ((r = head_of(&g->queue)) != NULL) {
		bool late = r->deadline_ns <= now_ns;
		if (!late && ready_ns(g) > (double)now_ns)
			return;
		unqueue(l, g, r);
		if (late) {
			r->state = LIMITS_REFUSED;
			g->stats.refused++;
		} else {
			bool sent = try_send(g, r, now_ns);
			assert(sent);
			(void)sent;
		}
		list_push_back(out, &r->link);
	}
}

uint64_t limiter_poll(struct limiter *l, uint64_t now_ns, struct list *out)
{
	struct limits_request *r;
	double next = INFINITY;
	while ((r = head_of(&l->homeless)) != NULL) {
		unqueue(l, NULL, r);
		r->state = LIMITS_REFUSED;
		list_push_back(out, &r->link);
	}
	for (size_t i = 0; i < l->count; i++) {
		struct group *g = &l->groups[i];
		poll_group(l, g, now_ns, out);
		r = head_of(&g->queue);
		if (r == NULL)
			continue;
		next = fmin(next, ready_ns(g));
		next = fmin(next, (double)r->deadline_ns);
		/* rates change with the counters */
		next = fmin(next, (double)(now_ns + LIMITS_WINDOW_NS));
	}
	return next == INFINITY ? UINT64_MAX : (uint64_t)next + 1;
}

/* --- counters --------------------------------------------------------------------------------- */

/* Moves the weight of a client to what it needs for the part that it used in the window. */
static void weight_move(struct group *g, double span_s)
{
	double used = (double)(g->stats.sent_cost - g->sent_at_start) / span_s;
	if (g->arrived_cost == 0 && g->queued_cost == 0) {
		/* silent: others get its part at once, and it begins anew with its next request */
		g->weight = 1;
		g->reported_weight = 0;
		return;
	}
	if (!g->satisfied) {
		g->weight = fmin(1, 2 * g->weight);
	} else if (g->stats.allowed > 0) {
		double needed = g->weight * WEIGHT_HEADROOM * used / g->stats.allowed;
		g->weight = fmin(1, fmax(needed, WEIGHT_FALL * g->weight));
	}
	g->weight = fmax(g->weight, WEIGHT_MIN);
	g->reported_weight = g->weight;
}

static void window_end(struct group *g, double span_s)
{
	double demand = (double)(g->arrived_cost + g->queued_at_start) / span_s;
	/* a group without quota may ask for a little, and shows that it wants more */
	double most = g->allowed > 1 ? 2 * g->allowed : 2;
	double sum_of_others = g->total_weight - g->reported_weight;
	weight_move(g, span_s);
	g->total_weight = fmax(sum_of_others, 0) + g->reported_weight;
	g->demand = (g->demand + fmin(demand, most)) / 2;
	if (g->demand < 0.01)
		g->demand = 0;
	g->arrived_cost = 0;
	g->queued_at_start = g->queued_cost;
	uint64_t throttled = g->stats.delayed + g->stats.refused;
	double rate = (double)(throttled - g->throttled_at_start) / span_s;
	g->throttled += (rate - g->throttled) * THROTTLED_PART;
	g->throttled_at_start = throttled;
	g->sent_at_start = g->stats.sent_cost;
	g->satisfied = list_empty(&g->queue);
}

size_t limiter_report(struct limiter *l, uint64_t now_ns, struct limits_counter *out, size_t room)
{
	double span_s = (double)(now_ns - l->window_ns) / (double)NS_PER_S;
	size_t n = 0;
	assert(now_ns >= l->window_ns);
	for (size_t i = 0; i < l->count && span_s > 0; i++) {
		struct group *g = &l->groups[i];
		window_end(g, span_s);
		if (n < room)
			out[n++] = (struct limits_counter){.group = g->info.id,
							   .demand = g->demand,
							   .weight = g->reported_weight,
							   .waiting = (double)g->stats.waiting,
							   .throttled = g->throttled};
	}
	l->window_ns = now_ns;
	l->silence += l->silence < STALE_WINDOWS;
	divide(l);
	return n;
}

void limiter_counters(struct limiter *l, const struct limits_counter *in, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct group *g = find(l, in[i].group);
		if (g == NULL)
			continue;
		/* comparisons with NaN are false */
		if (in[i].demand >= 0 && in[i].demand <= DEMAND_MAX)
			g->total_demand = in[i].demand;
		if (in[i].weight >= 0 && in[i].weight <= WEIGHT_SUM_MAX)
			g->total_weight = in[i].weight;
	}
	l->silence = 0;
	divide(l);
}

int limiter_stats(const struct limiter *l, uint32_t group, struct limiter_stats *out)
{
	const struct group *g = find(l, group);
	if (g == NULL)
		return -ENOENT;
	*out = g->stats;
	return 0;
}
