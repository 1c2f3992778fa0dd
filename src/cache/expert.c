// SPDX-License-Identifier: Apache-2.0
/*
 * Expert: admits only the tables with the most I/O (section 6.2 of the Tectonic-Shift paper), on Dynamic, so that the
 * endurance limit holds.
 *
 * The paper's rule was tuned by hand and is not published. Here an expert looks at the bytes that were requested from
 * each table in the last hour (buckets name their tables), and admits the fewest tables that had half of them. That is
 * done anew every ten minutes, and every minute in the first ten. Nothing is admitted before the first look.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/policies.h"

#define EXPERT_SLICE_MS 600000u
#define EXPERT_FIRST_MS 60000u
#define EXPERT_SLICES 6u
#define EXPERT_SHARE 0.5 /* of all bytes, that the admitted tables have */

struct expert_table {
	uint64_t bytes[EXPERT_SLICES];
	uint64_t sum;
	bool admitted;
};

struct expert {
	struct cache_policy base;
	const uint32_t *bucket_table;
	uint32_t bucket_tables;
	struct expert_table
		*tables; /* CACHE_BUCKETS_MAX + 1, of which the system only gives the used ones */
	uint32_t tables_n, slice;
	uint64_t looked_ms, slice_ms;
	uint32_t *order;
};

static uint32_t table_of(const struct expert *x, uint16_t bucket)
{
	uint32_t table = bucket < x->bucket_tables ? x->bucket_table[bucket] : bucket;
	return table <= CACHE_BUCKETS_MAX ? table : CACHE_BUCKETS_MAX;
}

static void expert_request(struct cache_policy *p, const struct cache_request *r)
{
	struct expert *x = container_of(p, struct expert, base);
	uint32_t table = table_of(x, r->bucket);
	x->tables[table].bytes[x->slice] += r->bytes;
	if (table >= x->tables_n)
		x->tables_n = table + 1;
	cache_below_request(p, r);
}

static bool expert_admit(struct cache_policy *p, const struct cache_request *r, uint32_t index)
{
	struct expert *x = container_of(p, struct expert, base);
	return x->tables[table_of(x, r->bucket)].admitted && cache_below_admit(p, r, index);
}

static int by_bytes(const void *a, const void *b, void *arg)
{
	const struct expert *x = arg;
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
	if (x->tables[left].sum != x->tables[right].sum)
		return x->tables[left].sum < x->tables[right].sum ? 1 : -1;
	return left < right ? -1 : left > right;
}

static void expert_look(struct expert *x)
{
	double all = 0, admitted = 0;
	for (uint32_t t = 0; t < x->tables_n; t++) {
		x->order[t] = t;
		x->tables[t].sum = 0;
		for (uint32_t s = 0; s < EXPERT_SLICES; s++)
			x->tables[t].sum += x->tables[t].bytes[s];
		all += (double)x->tables[t].sum;
	}
	if (x->tables_n > 1)
		qsort_r(x->order, x->tables_n, sizeof(*x->order), by_bytes, x);
	for (uint32_t i = 0; i < x->tables_n; i++) {
		struct expert_table *t = &x->tables[x->order[i]];
		t->admitted = t->sum > 0 && admitted < EXPERT_SHARE * all;
		admitted += (double)t->sum;
	}
}

static void expert_tick(struct cache_policy *p, uint64_t now_ms)
{
	struct expert *x = container_of(p, struct expert, base);
	cache_below_tick(p, now_ms);
	uint64_t period = now_ms < EXPERT_SLICE_MS ? EXPERT_FIRST_MS : EXPERT_SLICE_MS;
	if (now_ms >= x->looked_ms + period) {
		expert_look(x);
		x->looked_ms = now_ms;
	}
	if (now_ms < x->slice_ms + EXPERT_SLICE_MS)
		return;
	x->slice = (x->slice + 1) % EXPERT_SLICES;
	x->slice_ms = now_ms;
	for (uint32_t t = 0; t < x->tables_n; t++)
		x->tables[t].bytes[x->slice] = 0;
}

static void expert_close(struct cache_policy *p)
{
	struct expert *x = container_of(p, struct expert, base);
	free(x->tables);
	free(x->order);
	free(x);
}

static const struct cache_policy_ops expert_ops = {
	.request = expert_request,
	.admit = expert_admit,
	.hit = cache_below_hit,
	.place = cache_below_place,
	.sealed = cache_below_sealed,
	.restored = cache_below_restored,
	.victim = cache_below_victim,
	.freed = cache_below_freed,
	.tick = expert_tick,
	.close = expert_close,
};

int cache_expert_open(struct cache_policy **out, const struct cache_params *params)
{
	struct expert *x = calloc(1, sizeof(*x));
	*out = NULL;
	if (x == NULL)
		return -ENOMEM;
	*x = (struct expert){.base.ops = &expert_ops,
			     .bucket_table = params->bucket_table,
			     .bucket_tables = params->bucket_tables};
	x->tables = calloc(CACHE_BUCKETS_MAX + 1, sizeof(*x->tables));
	x->order = calloc(CACHE_BUCKETS_MAX + 1, sizeof(*x->order));
	int rc = x->tables != NULL && x->order != NULL ? cache_dynamic_open(&x->base.below, params)
						       : -ENOMEM;
	if (rc != 0) {
		cache_policy_close(&x->base);
		return rc;
	}
	*out = &x->base;
	return 0;
}
