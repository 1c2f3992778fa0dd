// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "sched/impl.h"

int sched_name_check(const char *name)
{
	return strnlen(name, SCHED_NAME_MAX + 1) > SCHED_NAME_MAX ? -EINVAL : 0;
}

static bool group_idle(const struct sched_group *g)
{
	for (int c = 0; c < SCHED_CLASSES; c++)
		if (g->stats[c].queued > 0 || g->stats[c].at_disk > 0)
			return false;
	return g->reservations == 0;
}

static void group_init(struct sched *s, struct sched_group *g, const char *name, uint64_t hash)
{
	assert(strlen(name) <= SCHED_NAME_MAX);
	*g = (struct sched_group){.name_hash = hash, .weight = SCHED_WEIGHT_DEFAULT};
	memcpy(g->name, name, strlen(name) + 1);
	g->round = s->round;
	g->balance_ns = sched_quota_ns(s, g);
	g->turn = s->turns;
	list_init(&g->link);
	for (int c = 0; c < SCHED_CLASSES; c++)
		list_init(&g->queue[c]);
}

/* Returns an entry for one more group: an unused entry, else the entry of the group that has been
 * idle the longest. NULL: every entry is in use. */
static struct sched_group *group_entry(struct sched *s)
{
	struct sched_group *oldest = NULL;

	if (s->group_count < s->config.groups_max) {
		struct sched_group *g = malloc(sizeof(*g));
		if (g != NULL)
			s->groups[s->group_count++] = g;
		return g;
	}
	for (uint32_t i = 0; i < s->group_count; i++) {
		struct sched_group *g = s->groups[i];
		if (!g->pinned && group_idle(g) && (oldest == NULL || g->used < oldest->used))
			oldest = g;
	}
	return oldest;
}

/* Returns the entry of the group with this name, after adding it if needed. NULL: no free entry. */
static struct sched_group *find_or_add(struct sched *s, const char *name)
{
	uint64_t hash = hash64(name, strlen(name), 0);

	for (uint32_t i = 0; i < s->group_count; i++)
		if (s->groups[i]->name_hash == hash && strcmp(s->groups[i]->name, name) == 0)
			return s->groups[i];
	struct sched_group *g = group_entry(s);
	if (g != NULL)
		group_init(s, g, name, hash);
	return g;
}

int sched_groups_init(struct sched *s)
{
	s->groups = calloc(s->config.groups_max, sizeof(struct sched_group *));
	if (s->groups == NULL || find_or_add(s, SCHED_GROUP_OTHER) == NULL)
		return -ENOMEM;
	s->groups[0]->pinned = true;
	return 0;
}

struct sched_group *sched_group_get(struct sched *s, const char *name)
{
	struct sched_group *g = find_or_add(s, name[0] != '\0' ? name : SCHED_GROUP_OTHER);

	if (g == NULL)
		g = s->groups[0];
	g->used = ++s->uses;
	return g;
}

int sched_weigh(struct sched *s, const char *name, uint32_t weight)
{
	if (sched_name_check(name) != 0 || weight == 0 || weight > SCHED_WEIGHT_MAX)
		return -EINVAL;
	struct sched_group *g = find_or_add(s, name[0] != '\0' ? name : SCHED_GROUP_OTHER);
	if (g == NULL)
		return -ENOSPC;
	g->weight = weight;
	g->pinned = true;
	g->round = s->round;
	g->balance_ns = sched_quota_ns(s, g);
	return 0;
}

int64_t sched_quota_ns(const struct sched *s, const struct sched_group *g)
{
	uint64_t ns = s->config.quota_ns * g->weight / SCHED_WEIGHT_DEFAULT;
	return ns > 0 ? (int64_t)ns : 1;
}

int64_t sched_balance_ns(const struct sched *s, struct sched_group *g)
{
	int64_t quota_ns = sched_quota_ns(s, g);
	uint64_t rounds = s->round - g->round;

	assert(g->round <= s->round);

	g->round = s->round;
	if (g->balance_ns < quota_ns && rounds > 0) {
		uint64_t missing_ns = (uint64_t)(quota_ns - g->balance_ns);
		if (rounds > missing_ns / (uint64_t)quota_ns)
			g->balance_ns = quota_ns;
		else
			g->balance_ns += (int64_t)rounds * quota_ns;
	}
	return g->balance_ns;
}

/* --- statistics ------------------------------------------------------------------------------- */

void sched_disk_stats(const struct sched *s, struct sched_disk_stats *out)
{
	*out = (struct sched_disk_stats){
		.busy_ns = s->busy_ns,
		.unclaimed_ns = s->unclaimed_ns,
		.queued = s->queued,
		.at_disk = s->at_disk_count,
		.reserved_bytes = s->promised_bytes,
		.reservations = s->promise_count,
		.reservations_refused = s->promises_refused,
		.groups = s->group_count,
		.position_ns = (uint64_t)s->position_ns[SCHED_READ],
		.write_position_ns = (uint64_t)s->position_ns[SCHED_WRITE],
		.names_ns = (uint64_t)s->position_ns[SCHED_NAMES],
		.read_bytes_per_s = (uint64_t)((double)NS_PER_S / s->ns_per_byte[SCHED_READ]),
		.write_bytes_per_s = (uint64_t)((double)NS_PER_S / s->ns_per_byte[SCHED_WRITE]),
	};
}

const struct sched_stats *sched_class_stats(const struct sched *s, enum sched_class class)
{
	assert(class < SCHED_CLASSES);
	return &s->stats[class];
}

bool sched_group_stats(const struct sched *s, uint32_t i, struct sched_group_stats *out)
{
	if (i >= s->group_count)
		return false;
	*out = (struct sched_group_stats){
		.name = s->groups[i]->name,
		.weight = s->groups[i]->weight,
		.classes = s->groups[i]->stats,
	};
	return true;
}

const char *sched_class_name(enum sched_class class)
{
	static const char *const names[] = {"gold", "silver", "bronze"};
	return class < SCHED_CLASSES ? names[class] : "unknown";
}
