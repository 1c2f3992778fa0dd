// SPDX-License-Identifier: Apache-2.0
/* The rules of disk_sched.h, by their numbers. Nothing here changes anything but quotas and slices. */
#include "node/disk_sched_impl.h"

static struct sched_turn *head(const struct sched_group *g, enum sched_class class)
{
	struct list *first = list_first(&g->queue[class]);
	return first != NULL ? list_entry(first, struct sched_turn, link) : NULL;
}

/* The first of the highest class, of a group in which somebody waits. */
static struct sched_turn *head_of_all(const struct sched_group *g)
{
	enum sched_class c = SCHED_GOLD;
	while (list_empty(&g->queue[c]))
		c++;
	return head(g, c);
}

/* Rule 2: the request that has begun, the first to have come first; NULL. */
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

/* Whether a has more left of its quota than b, as a part of it; of equals, the one whose last turn is
 * longer ago. So groups of any weights use theirs up side by side, not one after the other. */
static bool goes_before(const struct sched *s, struct sched_group *a, struct sched_group *b)
{
	double left_a = (double)sched_balance_ns(s, a) / (double)sched_quota_ns(s, a);
	double left_b = (double)sched_balance_ns(s, b) / (double)sched_quota_ns(s, b);
	return left_a != left_b ? left_a > left_b : a->turn < b->turn;
}

/* Rule 1: the first of the group whose turn it is among those within their quota. Of one class and
 * those above it only; NULL when there is none. */
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

/* As many rounds as it takes until somebody who waits is within its quota. */
static void begin_round(struct sched *s)
{
	uint64_t rounds = UINT64_MAX;
	struct sched_group *g;

	list_for_each_entry(g, &s->waiting, link) {
		uint64_t owed_ns = (uint64_t)-sched_balance_ns(s, g);
		rounds = min_u64(rounds, owed_ns / (uint64_t)sched_quota_ns(s, g) + 1);
	}
	s->round += rounds;
}

static struct sched_turn *whose_turn(struct sched *s)
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

/* Rule 3: whether t is done in time after another. */
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

static bool gold_about(const struct sched *s, uint64_t now_ns)
{
	const struct sched_stats *gold = &s->stats[SCHED_GOLD];
	return gold->queued > 0 || gold->at_disk > 0 ||
	       (s->gold_seen && now_ns - s->gold_seen_ns < s->config.gold_linger_ns);
}

/* Rule 5: Gold that waits here, within its quota, or at the disk. */
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

/* Rule 4. */
static bool capped(const struct sched *s, const struct sched_turn *t, bool about)
{
	uint32_t others = s->at_disk_count - s->stats[SCHED_GOLD].at_disk;
	uint64_t ahead_ns = 0;
	struct sched_turn *at_disk;

	if (others < s->config.other_depth)
		return false;
	if (about)
		return true;
	list_for_each_entry(at_disk, &s->at_disk, link)
		ahead_ns += at_disk->cost_ns;
	return ahead_ns + t->cost_ns > s->config.other_ahead_ns;
}

static bool blocked(struct sched *s, const struct sched_turn *t, uint64_t now_ns, bool about)
{
	if (t->request.class == SCHED_GOLD)
		return false;
	/* Rule 7: when nothing is at the disk, the first alone can hold, and then Gold goes. */
	return gold_impatient_here(s, now_ns) || gold_impatient_at_disk(s, now_ns) ||
	       capped(s, t, about);
}

static void cut_slice(const struct sched *s, struct sched_turn *t, bool about)
{
	uint64_t end = t->request.off + t->request.bytes;
	uint64_t most = s->config.run_bytes;

	t->len = end - t->off;
	if (t->request.whole)
		return;
	if (about && t->request.class != SCHED_GOLD)
		most = s->config.slice_bytes;
	if (t->len > most)
		t->len = (t->off + most) / s->config.slice_bytes * s->config.slice_bytes - t->off;
}

struct sched_turn *sched_pick(struct sched *s, uint64_t now_ns)
{
	bool about = gold_about(s, now_ns);

	if (s->queued == 0 || s->at_disk_count >= s->config.depth)
		return NULL;
	struct sched_turn *t = cede(s, whose_turn(s), now_ns);
	/* Who is blocked keeps its claim: nobody beyond its quota goes meanwhile, only Gold does. */
	if (blocked(s, t, now_ns, about))
		t = within_quota(s, SCHED_GOLD);
	if (t != NULL)
		cut_slice(s, t, about);
	return t;
}
