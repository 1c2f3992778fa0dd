// SPDX-License-Identifier: Apache-2.0
#include "shift/ring.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"

#define BLOCK_SALT 0x62b10c0ULL /* blocks and points must not have the same hashes */

struct sorter {
	const struct ring_node *nodes;
};

/* Points at the same place are ordered by id, so that all lists of the same nodes agree. */
static int by_place(const void *a, const void *b, void *arg)
{
	const struct sorter *s = arg;
	const struct ring_point *x = a, *y = b;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	uint64_t p = s->nodes[x->node].id, q = s->nodes[y->node].id;
	return p < q ? -1 : p > q;
}

static int by_id(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static int check(const struct ring_node *nodes, size_t n)
{
	uint64_t ids[RING_NODES_MAX];
	if (n > RING_NODES_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (nodes[i].weight > RING_WEIGHT_MAX)
			return -EINVAL;
		ids[i] = nodes[i].id;
	}
	qsort(ids, n, sizeof(*ids), by_id);
	for (size_t i = 1; i < n; i++)
		if (ids[i] == ids[i - 1])
			return -EINVAL;
	return 0;
}

int ring_init(struct ring *r, const struct ring_node *nodes, size_t n)
{
	struct sorter sorter = {.nodes = nodes};
	size_t points = 0;
	*r = (struct ring){0};
	int rc = check(nodes, n);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < n; i++)
		points += (size_t)nodes[i].weight * RING_POINTS;
	if (points == 0)
		return 0;
	r->points = calloc(points, sizeof(*r->points));
	if (r->points == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		for (uint64_t k = 0; k < (uint64_t)nodes[i].weight * RING_POINTS; k++)
			r->points[r->n++] = (struct ring_point){.at = hash64_u64s(nodes[i].id, k),
								.node = (uint32_t)i};
	assert(r->n == points);
	qsort_r(r->points, r->n, sizeof(*r->points), by_place, &sorter);
	return 0;
}

void ring_fini(struct ring *r)
{
	free(r->points);
	*r = (struct ring){0};
}

int64_t ring_find(const struct ring *r, uint64_t block)
{
	uint64_t at = hash64_u64s(block, BLOCK_SALT);
	uint32_t low = 0, high = r->n;
	if (r->n == 0)
		return -ENOENT;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (r->points[middle].at < at)
			low = middle + 1;
		else
			high = middle;
	}
	return r->points[low < r->n ? low : 0].node;
}
