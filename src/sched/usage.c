// SPDX-License-Identifier: Apache-2.0
#include "sched/usage.h"

#include <assert.h>
#include <string.h>

#include "sched/impl.h"

/* Returns the index of the first group whose name is not before this one. */
static size_t place_of(const struct sched_usages *all, const char *group)
{
	size_t low = 0, high = all->count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (strcmp(all->list[mid].group, group) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Returns the entry of a group. The last free one is kept for SCHED_GROUP_OTHER. */
static struct sched_usage *entry_of(struct sched_usages *all, const char *group)
{
	size_t at = place_of(all, group);
	if (at < all->count && strcmp(all->list[at].group, group) == 0)
		return &all->list[at];
	if (all->count >= SCHED_USAGE_MAX - 1 && strcmp(group, SCHED_GROUP_OTHER) != 0)
		return entry_of(all, SCHED_GROUP_OTHER);
	assert(all->count < SCHED_USAGE_MAX && strlen(group) <= SCHED_NAME_MAX);
	memmove(&all->list[at + 1], &all->list[at], (all->count - at) * sizeof(all->list[0]));
	all->count++;
	all->list[at] = (struct sched_usage){0};
	memcpy(all->list[at].group, group, strlen(group) + 1);
	return &all->list[at];
}

void sched_usage_add(struct sched *s, struct sched_usages *all)
{
	SCHED_LOCKED(s);
	struct sched_group_stats g;
	for (uint32_t i = 0; sched_group_stats(s, i, &g); i++) {
		struct sched_usage *u = entry_of(all, g.name);
		for (int c = 0; c < SCHED_CLASSES; c++) {
			const struct sched_stats *st = &g.classes[c];
			u->requests += st->requests;
			u->refused += st->refused + st->gave_up;
			u->bytes += st->bytes;
			u->disk_ns += st->disk_ns;
			u->waiting += st->queued;
		}
	}
}
