// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <stdio.h>
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

/* Returns whether the entry stays the group's when the group is idle. */
static bool group_pinned(const struct sched *s, const struct sched_group *g)
{
	return g->listed || g->own_weight > 0 || g == s->groups[0];
}

static struct sched_group *entry_new(struct sched *s)
{
	assert(s->group_count < s->group_room);
	struct sched_group *g = malloc(sizeof(*g));
	if (g != NULL)
		s->groups[s->group_count++] = g;
	return g;
}

/* Returns an entry for one more group: an unused entry, else the entry of the group that has been
 * idle the longest. NULL: every entry is in use. */
static struct sched_group *group_entry(struct sched *s)
{
	struct sched_group *oldest = NULL;

	if (s->group_count < s->config.groups_max)
		return entry_new(s);
	for (uint32_t i = 0; i < s->group_count; i++) {
		struct sched_group *g = s->groups[i];
		if (!group_pinned(s, g) && group_idle(g) &&
		    (oldest == NULL || g->used < oldest->used))
			oldest = g;
	}
	return oldest;
}

static struct sched_group *find(const struct sched *s, const char *name, uint64_t hash)
{
	for (uint32_t i = 0; i < s->group_count; i++)
		if (s->groups[i]->name_hash == hash && strcmp(s->groups[i]->name, name) == 0)
			return s->groups[i];
	return NULL;
}

/* Returns the entry of the group with this name, after adding it if needed. NULL: no free entry. */
static struct sched_group *find_or_add(struct sched *s, const char *name)
{
	uint64_t hash = hash64(name, strlen(name), 0);
	struct sched_group *g = find(s, name, hash);
	if (g != NULL)
		return g;
	g = group_entry(s);
	if (g != NULL)
		group_init(s, g, name, hash);
	return g;
}

int sched_groups_init(struct sched *s)
{
	s->group_room = s->config.groups_max + SCHED_LISTED_MAX;
	s->groups = calloc(s->group_room, sizeof(struct sched_group *));
	return s->groups == NULL || find_or_add(s, SCHED_GROUP_OTHER) == NULL ? -ENOMEM : 0;
}

static void group_weigh(struct sched *s, struct sched_group *g, uint32_t weight)
{
	if (g->weight == weight)
		return;
	(void)sched_balance_ns(s, g);
	g->weight = weight;
	if (g->balance_ns > sched_quota_ns(s, g))
		g->balance_ns = sched_quota_ns(s, g);
}

/* --- groups of the cluster -------------------------------------------------------------------- */

/* Writes the name of the entry that the unlisted groups of a tenant share. Returns false for a group of the system or
 * of no tenant. */
static bool unlisted_name(char out[SCHED_NAME_MAX + 1], const char *name)
{
	const char *slash = strchr(name, '/');
	if (slash == NULL || slash == name || strncmp(name, "system/", 7) == 0)
		return false;
	size_t tenant = (size_t)(slash - name) + 1;
	if (tenant + strlen(SCHED_GROUP_UNLISTED) > SCHED_NAME_MAX)
		return false;
	memcpy(out, name, tenant);
	memcpy(out + tenant, SCHED_GROUP_UNLISTED, sizeof(SCHED_GROUP_UNLISTED));
	return true;
}

static struct sched_group *entry_of(struct sched *s, const char *name)
{
	char shared[SCHED_NAME_MAX + 1];
	if (s->listed_count == 0)
		return find_or_add(s, name);
	struct sched_group *g = find(s, name, hash64(name, strlen(name), 0));
	bool own = g != NULL && (g->listed || g->own_weight > 0);
	if (own || !unlisted_name(shared, name))
		return g != NULL ? g : find_or_add(s, name);
	g = find_or_add(s, shared);
	if (g != NULL && !g->listed && g->own_weight == 0) {
		group_weigh(s, g, SCHED_WEIGHT_UNLISTED);
		g->best = SCHED_BRONZE;
	}
	return g;
}

struct sched_group *sched_group_get(struct sched *s, const char *name)
{
	struct sched_group *g = entry_of(s, name[0] != '\0' ? name : SCHED_GROUP_OTHER);

	if (g == NULL)
		g = s->groups[0];
	g->used = ++s->uses;
	return g;
}

int sched_weigh(struct sched *s, const char *name, uint32_t weight)
{
	if (sched_name_check(name) != 0 || weight == 0 || weight > SCHED_WEIGHT_MAX)
		return -EINVAL;
	SCHED_LOCKED(s);
	struct sched_group *g = find_or_add(s, name[0] != '\0' ? name : SCHED_GROUP_OTHER);
	if (g == NULL)
		return -ENOSPC;
	g->own_weight = weight;
	if (g->listed)
		return 0;
	g->weight = weight;
	g->round = s->round;
	g->balance_ns = sched_quota_ns(s, g);
	return 0;
}

static int listed_check(const struct sched_listed *groups, size_t n)
{
	if (n > SCHED_LISTED_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (sched_name_check(groups[i].group) != 0 || groups[i].group[0] == '\0' ||
		    groups[i].weight == 0 || groups[i].weight > SCHED_WEIGHT_MAX ||
		    groups[i].best >= SCHED_CLASSES)
			return -EINVAL;
	return 0;
}

static int list_one(struct sched *s, const struct sched_listed *l)
{
	uint64_t hash = hash64(l->group, strlen(l->group), 0);
	struct sched_group *g = find(s, l->group, hash);
	if (g == NULL) {
		g = s->group_count < s->group_room ? entry_new(s) : group_entry(s);
		if (g == NULL)
			return -ENOMEM;
		group_init(s, g, l->group, hash);
	}
	g->listed = true;
	g->best = l->best;
	group_weigh(s, g, l->weight);
	s->listed_count++;
	return 0;
}

int sched_list_groups(struct sched *s, const struct sched_listed *groups, size_t n)
{
	int rc = listed_check(groups, n);
	if (rc != 0)
		return rc;
	SCHED_LOCKED(s);
	for (uint32_t i = 0; i < s->group_count; i++) {
		struct sched_group *g = s->groups[i];
		g->listed = false;
		g->best = SCHED_GOLD;
	}
	s->listed_count = 0;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = list_one(s, &groups[i]);
	for (uint32_t i = 0; i < s->group_count; i++) {
		struct sched_group *g = s->groups[i];
		if (!g->listed)
			group_weigh(s, g, g->own_weight > 0 ? g->own_weight : SCHED_WEIGHT_DEFAULT);
	}
	return rc;
}

void sched_group_name(char out[SCHED_NAME_MAX + 1], const struct context *c)
{
	/* Services act for tenant 7 as "system:7". */
	bool system = strncmp(c->tenant, "system:", 7) == 0;
	const char *tenant = system ? "system" : c->tenant;
	const char *group =
		tenant[0] != '\0' && c->traffic_group[0] == '\0' ? "default" : c->traffic_group;
	snprintf(out, SCHED_NAME_MAX + 1, "%s%s%s", tenant, tenant[0] != '\0' ? "/" : "", group);
}

enum sched_class sched_class_of(const struct context *c)
{
	switch (c->traffic_class) {
	case TRAFFIC_GOLD:
		return SCHED_GOLD;
	case TRAFFIC_BRONZE:
		return SCHED_BRONZE;
	default:
		return SCHED_SILVER;
	}
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

void sched_disk_stats(struct sched *s, struct sched_disk_stats *out)
{
	SCHED_LOCKED(s);
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
