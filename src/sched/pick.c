// SPDX-License-Identifier: Apache-2.0
/* Chooses the next request. The comments refer to the rules of sched.h by number. The
 * functions of this file change only quotas and the length of slices. */
#include <assert.h>

#include "sched/impl.h"

static struct sched_turn *head(const struct sched_group *g, enum sched_class class)
{
	struct list *first = list_first(&g->queue[class]);
	return first != NULL ? list_entry(first, struct sched_turn, link) : NULL;
}

/* Returns the first request of the highest class of a group in sched.waiting. */
static struct sched_turn *head_of_all(const struct sched_group *g)
{
	enum sched_class c = SCHED_GOLD;
	assert(g->queued > 0);
	while (list_empty(&g->queue[c]))
		c++;
	return head(g, c);
}

/* Returns the oldest request that has begun and whose group owes less than a quota (rule 2); NULL:
 * none. */
static struct sched_turn *begun(struct sched *s)
{
	int64_t debt_ns = (int64_t)s->config.quota_ns;
	struct sched_turn *best = NULL;
	struct sched_group *g;

	list_for_each_entry(g, &s->waiting, link) {
		for (enum sched_class c = SCHED_GOLD; c < SCHED_CLASSES; c++) {
			struct sched_turn *t = head(g, c);
			if (t != NULL && t->begun && (best == NULL || t->serial < best->serial) &&
			    sched_balance_ns(s, g) > -debt_ns)
				best = t;
		}
	}
	return best;
}

/*
 * Reports whether group a has a larger unused part of its quota than group b, or an equal part and
 * an earlier last turn. By comparing parts, groups of different weights use up their quotas
 * together, not one after the other.
 */
static bool goes_before(const struct sched *s, struct sched_group *a, struct sched_group *b)
{
	double left_a = (double)sched_balance_ns(s, a) / (double)sched_quota_ns(s, a);
	double left_b = (double)sched_balance_ns(s, b) / (double)sched_quota_ns(s, b);
	return left_a != left_b ? left_a > left_b : a->turn < b->turn;
}

/* Returns the request that rule 1 serves next, among the groups that are within their quota and
 * whose first request has class `lowest` or a higher one; NULL: there is no such group. */
static struct sched_turn *within_quota(struct sched *s, enum sched_class lowest)
{
	struct sched_turn *best = NULL;
	struct sched_group *g;

	list_for_each_entry(g, &s->waiting, link) {
		struct sched_turn *t = head_of_all(g);
		if (t->request.class > lowest || sched_balance_ns(s, g) <= 0)
			continue;
		if (best == NULL || goes_before(s, g, best->group))
			best = t;
	}
	return best;
}

/* Begins as many rounds as are needed until a waiting group is within its quota. */
static void begin_round(struct sched *s)
{
	uint64_t rounds = UINT64_MAX;
	struct sched_group *g;

	list_for_each_entry(g, &s->waiting, link) {
		assert(sched_balance_ns(s, g) <= 0);
		uint64_t owed_ns = (uint64_t)-sched_balance_ns(s, g);
		rounds = min_u64(rounds, owed_ns / (uint64_t)sched_quota_ns(s, g) + 1);
	}
	s->round += rounds;
}

static struct sched_turn *next_turn(struct sched *s)
{
	struct sched_turn *t = begun(s);

	if (t == NULL)
		t = within_quota(s, SCHED_BRONZE);
	if (t == NULL) {
		begin_round(s);
		t = within_quota(s, SCHED_BRONZE);
	}
	return t;
}

/* Reports whether, by estimate, t still meets its deadline if `other` is served first (rule 3). */
static bool has_time_after(const struct sched_turn *t, const struct sched_turn *other,
			   uint64_t now_ns)
{
	return t->deadline_ns > now_ns && t->deadline_ns - now_ns > t->cost_ns + other->cost_ns;
}

static struct sched_turn *cede(struct sched *s, struct sched_turn *t, uint64_t now_ns)
{
	for (enum sched_class c = SCHED_GOLD; c < t->request.class; c++) {
		struct sched_turn *higher = within_quota(s, c);
		if (higher != NULL)
			return has_time_after(t, higher, now_ns) ? higher : t;
	}
	return t;
}

static bool gold_active(const struct sched *s, uint64_t now_ns)
{
	const struct sched_stats *gold = &s->stats[SCHED_GOLD];
	return gold->queued > 0 || gold->at_disk > 0 ||
	       (s->gold_seen && now_ns - s->gold_seen_ns < s->config.gold_linger_ns);
}

/* Report whether a Gold request of a group within its quota has waited longer than
 * gold_patience_ns, in its queue (here) or at the disk (rule 5). */
static bool gold_impatient_here(struct sched *s, uint64_t now_ns)
{
	struct sched_group *g;

	if (s->stats[SCHED_GOLD].queued == 0)
		return false;
	list_for_each_entry(g, &s->waiting, link) {
		struct sched_turn *t = head(g, SCHED_GOLD);
		if (t != NULL && now_ns - t->since_ns >= s->config.gold_patience_ns &&
		    sched_balance_ns(s, g) > 0)
			return true;
	}
	return false;
}

static bool gold_impatient_at_disk(const struct sched *s, uint64_t now_ns)
{
	struct sched_turn *t;

	if (s->stats[SCHED_GOLD].at_disk == 0)
		return false;
	list_for_each_entry(t, &s->at_disk, link)
		if (t->request.class == SCHED_GOLD)
			return now_ns - t->since_ns >= s->config.gold_patience_ns;
	return false;
}

/* Reports whether the cap of rule 4 keeps t, which is not Gold, from the disk now. active: Gold is
 * active. */
static bool capped(const struct sched *s, const struct sched_turn *t, bool active)
{
	uint32_t others = s->at_disk_count - s->stats[SCHED_GOLD].at_disk;
	uint64_t ahead_ns = 0;
	struct sched_turn *at_disk;

	if (others < s->config.other_depth)
		return false;
	if (active)
		return true;
	if (s->config.other_ahead_ns == UINT64_MAX)
		return false;
	list_for_each_entry(at_disk, &s->at_disk, link)
		ahead_ns += at_disk->cost_ns;
	return ahead_ns + t->cost_ns > s->config.other_ahead_ns;
}

static bool blocked(struct sched *s, const struct sched_turn *t, uint64_t now_ns, bool active)
{
	if (t->request.class == SCHED_GOLD)
		return false;
	/* Rule 7 holds: when nothing is at the disk, only gold_impatient_here can be true, and
	 * sched_pick then sends a Gold request. */
	return gold_impatient_here(s, now_ns) || gold_impatient_at_disk(s, now_ns) ||
	       capped(s, t, active);
}

static void cut_slice(const struct sched *s, struct sched_turn *t, bool active)
{
	uint64_t end = t->request.off + t->request.bytes;
	uint64_t most = s->config.run_bytes;

	t->len = end - t->off;
	if (t->request.whole)
		return;
	if (active && t->request.class != SCHED_GOLD)
		most = s->config.slice_bytes;
	if (t->len > most)
		t->len = (t->off + most) / s->config.slice_bytes * s->config.slice_bytes - t->off;
}

struct sched_turn *sched_pick(struct sched *s, uint64_t now_ns)
{
	bool active = gold_active(s, now_ns);

	if (s->queued == 0 || s->at_disk_count >= s->config.depth)
		return NULL;
	struct sched_turn *t = cede(s, next_turn(s), now_ns);
	/* A blocked request keeps its place: until it is sent, the scheduler sends only Gold
	 * requests of groups within their quota. */
	if (blocked(s, t, now_ns, active))
		t = within_quota(s, SCHED_GOLD);
	assert(t != NULL || s->at_disk_count > 0);
	if (t != NULL)
		cut_slice(s, t, active);
	return t;
}
