// SPDX-License-Identifier: Apache-2.0
/* Which disks are full: collection deletes dead chunks from them first, and does not wait for its next round when one
 * more disk becomes full. It decides the order and the time of rounds only, never what is dead. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "janitor/impl.h"
#include "rt/rt.h"

#define FULL_LOOK_NS (5 * NS_PER_S) /* shortest time between two looks for full disks */

static int by_id(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

bool full_is(const struct janitor *j, uint64_t disk)
{
	assert(j->full_count == 0 || j->full != NULL);
	return j->full_count > 0 &&
	       bsearch(&disk, j->full, j->full_count, sizeof(disk), by_id) != NULL;
}

/* Returns the full disks of the map in ascending order; the caller frees. NULL: no memory. */
static uint64_t *full_list(const struct janitor *j, size_t *n)
{
	size_t all;
	uint64_t *ids = disk_ids(j, &all);
	*n = 0;
	for (size_t i = 0; ids != NULL && i < all; i++) {
		const struct cluster_disk *d = cluster_disk(j->fabric.map, ids[i]);
		if (d != NULL && cluster_disk_state(j->fabric.map, d) == CLUSTER_FULL)
			ids[(*n)++] = ids[i];
	}
	if (ids != NULL)
		qsort(ids, *n, sizeof(*ids), by_id);
	return ids;
}

int full_look(struct janitor *j, bool *more)
{
	*more = false;
	j->full_ns = rt_now_ns();
	int rc = janitor_map(j);
	if (rc < 0)
		return rc;
	size_t n;
	uint64_t *ids = full_list(j, &n);
	if (ids == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n && !*more; i++)
		*more = !full_is(j, ids[i]);
	free(j->full);
	j->full = ids;
	j->full_count = n;
	return 0;
}

bool full_more(struct janitor *j)
{
	bool more;
	if (rt_now_ns() - j->full_ns < FULL_LOOK_NS)
		return false;
	return full_look(j, &more) == 0 && more;
}

int full_wait(struct janitor *j, uint64_t pause_ns)
{
	uint64_t now_ns, end_ns = rt_now_ns() + pause_ns;
	assert(end_ns >= pause_ns);
	while ((now_ns = rt_now_ns()) < end_ns) {
		int rc = rt_sleep_ns(min_u64(end_ns - now_ns, FULL_LOOK_NS));
		if (rc < 0)
			return rc;
		if (rt_now_ns() < end_ns && full_more(j))
			break;
	}
	return 0;
}
