// SPDX-License-Identifier: Apache-2.0
#include "code/failure.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static int compare_disks(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static bool stripe_in_use(const struct layout *l, uint32_t pool, uint64_t local_stripe)
{
	uint64_t stripe;
	uint32_t column;
	return layout_column_find(l, pool, local_stripe, &stripe, &column);
}

/* Finds the first local stripe in use, from `from` on, with at least min_hits failed chunks. */
static bool pool_scan(const struct failure *f, const struct failure_pool *p, uint32_t min_hits,
		      uint64_t from, uint64_t *found)
{
	assert(min_hits >= 1 && p->n >= 1);
	const struct layout *l = f->layout;
	uint64_t key = layout_pool_key(l, p->pool);
	while (place_scan(&l->local, key, p->failed, p->n, min_hits, from, found)) {
		if (stripe_in_use(l, p->pool, *found))
			return true;
		from = *found + 1;
	}
	return false;
}

/* Groups the sorted disk numbers by pool and replaces each by the disk's number inside its pool. */
static void group_by_pool(struct failure *f)
{
	const struct layout *l = f->layout;
	for (uint32_t i = 0; i < f->n; i++) {
		uint32_t pool = layout_disk_pool(l, f->failed[i]);
		struct failure_pool *last = f->pools_n > 0 ? &f->pools[f->pools_n - 1] : NULL;
		assert(last == NULL || last->pool <= pool); /* the caller sorted the disks */
		if (last == NULL || last->pool != pool) {
			last = &f->pools[f->pools_n++];
			*last = (struct failure_pool){.pool = pool, .failed = &f->failed[i]};
		}
		last->n++;
		assert(last->n <= l->pool_disks);
		f->failed[i] = layout_disk_in_pool(l, f->failed[i]);
	}
}

int failure_init(struct failure *f, const struct layout *l, const uint32_t *disks, uint32_t n)
{
	assert(l->pools > 0 && (disks != NULL || n == 0));
	*f = (struct failure){.layout = l, .n = n};
	if (l->spec.lrc)
		return -EOPNOTSUPP;
	f->failed = calloc((size_t)n + 1, sizeof(*f->failed));
	f->pools = calloc((size_t)n + 1, sizeof(*f->pools));
	if (f->failed == NULL || f->pools == NULL) {
		failure_fini(f);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++)
		f->failed[i] = disks[i];
	qsort(f->failed, n, sizeof(*f->failed), compare_disks);
	int rc = n > 0 && f->failed[n - 1] >= l->disks ? -ERANGE : 0;
	for (uint32_t i = 1; i < n; i++)
		if (rc == 0 && f->failed[i] == f->failed[i - 1])
			rc = -EINVAL;
	if (rc != 0) {
		failure_fini(f);
		return rc;
	}
	group_by_pool(f);
	for (uint32_t i = 0; i < f->pools_n; i++) {
		uint64_t first;
		uint32_t too_many = (uint32_t)l->spec.local.p + 1;
		f->pools[i].catastrophic = pool_scan(f, &f->pools[i], too_many, 0, &first);
		f->catastrophic_n += f->pools[i].catastrophic;
	}
	return 0;
}

void failure_fini(struct failure *f)
{
	free(f->failed);
	free(f->pools);
	*f = (struct failure){0};
}

const struct failure_pool *failure_pool_at(const struct failure *f, uint32_t pool)
{
	uint32_t low = 0, high = f->pools_n;
	while (low < high) {
		uint32_t mid = (low + high) / 2;
		if (f->pools[mid].pool < pool)
			low = mid + 1;
		else
			high = mid;
	}
	return low < f->pools_n && f->pools[low].pool == pool ? &f->pools[low] : NULL;
}

bool failure_has_disk(const struct failure *f, uint32_t disk)
{
	assert(disk < f->layout->disks);
	const struct failure_pool *p = failure_pool_at(f, layout_disk_pool(f->layout, disk));
	if (p == NULL)
		return false;
	uint32_t in_pool = layout_disk_in_pool(f->layout, disk);
	return bsearch(&in_pool, p->failed, p->n, sizeof(in_pool), compare_disks) != NULL;
}

static int failed_rows(const struct failure *f, const struct failure_pool *p, uint64_t local_stripe,
		       uint64_t *rows)
{
	int n = 0;
	memset(rows, 0, 4 * sizeof(*rows));
	for (uint32_t i = 0; p != NULL && i < p->n; i++) {
		int row = layout_row_of(f->layout, p->pool, local_stripe, p->failed[i]);
		assert(row < (int)f->layout->rows);
		if (row < 0)
			continue;
		rows[row / 64] |= UINT64_C(1) << row % 64;
		n++;
	}
	return n;
}

int failure_local_chunks(const struct failure *f, uint32_t pool, uint64_t local_stripe,
			 uint64_t *rows)
{
	uint64_t unwanted[4];
	if (pool >= f->layout->pools || local_stripe >= f->layout->local.stripes)
		return -ERANGE;
	return failed_rows(f, failure_pool_at(f, pool), local_stripe,
			   rows != NULL ? rows : unwanted);
}

int failure_lost_columns(const struct failure *f, uint64_t stripe)
{
	const struct layout *l = f->layout;
	if (stripe >= l->stripes)
		return -ERANGE;
	int lost = 0;
	for (uint32_t c = 0; c < l->columns; c++) {
		struct layout_column at;
		layout_column_at(l, stripe, c, &at);
		lost += failure_local_class(f, at.pool, at.local_stripe) == FAILURE_LOST;
	}
	return lost;
}

static enum failure_class class_of(int n, int tolerated)
{
	assert(tolerated >= 0);
	if (n <= 0)
		return FAILURE_NONE;
	return n <= tolerated ? FAILURE_RECOVERABLE : FAILURE_LOST;
}

enum failure_class failure_local_class(const struct failure *f, uint32_t pool,
				       uint64_t local_stripe)
{
	return class_of(failure_local_chunks(f, pool, local_stripe, NULL), f->layout->spec.local.p);
}

/* Returns how many local stripes of the pool belong to a network stripe. */
static uint64_t pool_stripes(const struct layout *l, uint32_t pool)
{
	uint64_t n = l->local.stripes;
	while (n > 0 && !stripe_in_use(l, pool, n - 1))
		n--;
	return n;
}

int failure_pool_counts(const struct failure *f, uint32_t pool, uint64_t *count)
{
	const struct layout *l = f->layout;
	if (pool >= l->pools)
		return -ERANGE;
	memset(count, 0, (l->rows + 1) * sizeof(*count));
	count[0] = pool_stripes(l, pool);
	const struct failure_pool *p = failure_pool_at(f, pool);
	if (p == NULL)
		return 0;
	uint64_t rows[4];
	for (uint64_t at = 0; pool_scan(f, p, 1, at, &at); at++) {
		assert(count[0] > 0);
		count[0]--;
		count[failed_rows(f, p, at, rows)]++;
	}
	return 0;
}

/*
 * Counts the network stripe of a lost column, unless a pool of a lower number has another lost
 * column of the same stripe: then the stripe was counted for that pool.
 */
static void count_stripe(const struct failure *f, uint32_t pool, uint64_t local_stripe,
			 struct failure_totals *totals)
{
	const struct layout *l = f->layout;
	uint64_t stripe;
	uint32_t column;
	layout_column_find(l, pool, local_stripe, &stripe, &column);
	int lost = 0;
	for (uint32_t c = 0; c < l->columns; c++) {
		struct layout_column at;
		layout_column_at(l, stripe, c, &at);
		if (failure_local_class(f, at.pool, at.local_stripe) != FAILURE_LOST)
			continue;
		if (at.pool < pool)
			return;
		lost++;
	}
	assert(lost > 0); /* the caller found a lost column, so at least one is lost */
	if (lost <= l->spec.net.p)
		totals->recoverable_net++;
	else
		totals->lost_net++;
}

void failure_count(const struct failure *f, struct failure_totals *totals)
{
	*totals = (struct failure_totals){0};
	uint64_t rows[4];
	for (uint32_t i = 0; i < f->pools_n; i++) {
		const struct failure_pool *p = &f->pools[i];
		totals->recoverable_pools += !p->catastrophic;
		totals->catastrophic_pools += p->catastrophic;
		for (uint64_t at = 0; pool_scan(f, p, 1, at, &at); at++) {
			int n = failed_rows(f, p, at, rows);
			totals->failed_chunks += (uint64_t)n;
			if (n <= f->layout->spec.local.p) {
				totals->recoverable_local++;
			} else {
				totals->lost_local++;
				count_stripe(f, p->pool, at, totals);
			}
		}
	}
}
