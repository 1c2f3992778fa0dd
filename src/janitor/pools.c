// SPDX-License-Identifier: Apache-2.0
/*
 * Pools that lost more than their code tolerates. A pool rebuilds its rows while it can, and lists the
 * local stripes that it cannot rebuild: the chunk, the lost rows, and how many rows must be sent to it.
 * These bytes are computed from the same bytes of other columns, in other racks, and sent to the pool.
 * The pool computes the rest and writes the result only if the chunk then has its checksum.
 *
 *     column 3 of a block, a chunk on this pool, 4+2, piece 128 KiB; stripe 9 lost rows 0, 2 and 5
 *
 *     R_MIN   row 0 of stripe 9: 128 KiB are rebuilt from KN other columns; the pool then lacks two rows,
 *             which its own code rebuilds
 *     R_HYB   rows 0 and 2 (row 5 is a parity, which the pool computes)
 *     R_FCO   the same, and also row 3 of stripe 10 and all other failed rows, though the pool could
 *             rebuild these itself
 *     R_ALL   all columns of the pool, damaged or not: to other pools, or if there is none, sent complete
 *             to this pool, which writes what it lacks
 *
 * With R_FCO and R_ALL a pool must not rebuild anything itself once it lost more than its code tolerates:
 * the configuration of nodes says so (store_pool_set_external_repair). Otherwise it rebuilds the remaining parities.
 *
 * Order: the losses of all such pools are listed first. Blocks that lost columns in more pools come before
 * others, whatever their pool; opts.parallel blocks are repaired at once.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "janitor/impl.h"
#include "rt/rt.h"

#define NODE_TIMEOUT_NS (60 * NS_PER_S)
/* largest number of losses, or of blocks, in memory; the next round finds the rest */
#define LIST_MAX ((size_t)200000)
#define PAGE 256

/* A repair job: a chunk of a pool to patch or, with R_ALL, a block to repair. */
struct item {
	uint64_t block; /* block id in the chunk's name; with R_ALL the id of the block itself */
	uint32_t case_at;
	uint32_t tenant;  /* tenant of the block; only set with R_ALL */
	uint32_t columns; /* columns that the block lost, over all pools */
	/* index of the chunk's first entry in the list of losses, and the number of its
	 * entries */
	uint32_t first, count;
};

struct pool_losses {
	struct janitor *j;
	struct pool_case *cases;
	size_t case_count;
	struct store_pool_loss *losses;
	size_t loss_count, loss_cap;
	struct item *items;
	size_t item_count, item_cap, next;
	struct stuck stuck;
	int rc;
};

/* Returns the list, reallocated if needed, with room for one more entry; NULL: no memory, or
 * the list has LIST_MAX entries already. */
static void *grown(void *list, size_t *cap, size_t count, size_t size)
{
	if (count < *cap)
		return list;
	size_t more = *cap == 0 ? 256 : *cap * 2;
	void *longer = count >= LIST_MAX ? NULL : realloc(list, more * size);
	if (longer != NULL)
		*cap = more;
	return longer;
}

static int item_add(struct pool_losses *p, const struct item *it)
{
	assert(it->case_at <= p->case_count && it->first + it->count <= p->loss_count);
	struct item *items = grown(p->items, &p->item_cap, p->item_count, sizeof(*items));
	if (items == NULL)
		return -ENOBUFS;
	p->items = items;
	p->items[p->item_count++] = *it;
	return 0;
}

static int loss_add(struct pool_losses *p, const struct store_pool_loss *l)
{
	struct store_pool_loss *losses =
		grown(p->losses, &p->loss_cap, p->loss_count, sizeof(*losses));
	if (losses == NULL)
		return -ENOBUFS;
	p->losses = losses;
	p->losses[p->loss_count++] = *l;
	return 0;
}

/* --- losses --------------------------------------------------------------------------------------- */

static int64_t losses_list(struct janitor *j, uint64_t disk, bool failures, struct store_cursor *at,
			   struct store_pool_loss *out)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct disk_use u;
	int64_t n = disk_begin(&e.call, disk, &u);
	if (n < 0)
		return n;
	u.node.timeout_ns = NODE_TIMEOUT_NS;
	n = failures ? node_pool_failures(&u.node, disk, at, out, NODE_LOSSES_MAX)
		     : node_pool_losses(&u.node, disk, at, out, NODE_LOSSES_MAX);
	disk_end(&e.call, &u, n < 0 ? (int)n : 0, 0);
	return n;
}

static int add_losses(struct pool_losses *p, const struct store_pool_loss *l, size_t n)
{
	for (size_t i = 0, run; i < n; i += run) {
		for (run = 1; i + run < n && chunk_id_equal(l[i + run].id, l[i].id);)
			run++;
		if (l[i].open)
			continue; /* the block is open: its writer ends it and repair follows */
		struct item it = {.block = l[i].id.block,
				  .case_at = (uint32_t)p->case_count,
				  .first = (uint32_t)p->loss_count,
				  .count = (uint32_t)run};
		int rc = 0;
		for (size_t k = 0; rc == 0 && k < run; k++)
			rc = loss_add(p, &l[i + k]);
		if (rc == 0)
			rc = item_add(p, &it);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Adds all losses that the pool lists, beginning with the n that are in page; `at` is the position
 * after them. -ENOBUFS: too many for one round. */
static int case_losses(struct pool_losses *p, uint64_t disk, struct store_pool_loss *page,
		       int64_t n, struct store_cursor *at)
{
	bool failures = p->j->opts.method == JANITOR_R_FCO;
	int rc = 0;
	if (failures) {
		*at = (struct store_cursor){0};
		n = losses_list(p->j, disk, true, at, page);
	}
	while (rc == 0 && n > 0) {
		rc = add_losses(p, page, (size_t)n);
		if (rc == 0)
			n = losses_list(p->j, disk, failures, at, page);
	}
	return n < 0 ? (int)n : rc;
}

static int case_blocks(struct pool_losses *p, uint64_t disk)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(p->j, &e, 0);
	struct meta_call m = tenant_call_meta(p->j, &e);
	uint64_t epoch;
	int rc = meta_client_gc_epoch(&m, &epoch, &p->j->partitions);
	for (struct meta_walk at = {.end = p->j->partitions}; rc == 0 && at.index < at.end;) {
		struct meta_on_disk on[PAGE];
		int64_t n = meta_client_disk_blocks(&m, disk, &at, on, PAGE);
		rc = n < 0 ? (int)n : 0;
		for (int64_t i = 0; i < n && rc == 0; i++)
			rc = item_add(p, &(struct item){.block = on[i].block,
							.tenant = on[i].tenant,
							.case_at = (uint32_t)p->case_count});
	}
	return rc;
}

int pool_case_shape(struct janitor *j, struct pool_case *c)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct disk_use u;
	struct rpc_reply reply;
	int rc = disk_begin(&e.call, c->disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = NODE_TIMEOUT_NS;
	rc = node_disks(&u.node, c->disk, &reply);
	disk_end(&e.call, &u, rc, 0);
	if (rc < 0)
		return rc;
	const Terrane__Node__DisksResponse *m = NODE_DISKS(&reply);
	const Terrane__Node__PoolInfo *is = m->n_disks == 1 ? m->disks[0]->pool : NULL;
	if (is != NULL) {
		c->k = is->k;
		c->p = is->p;
		c->members = is->members;
		c->piece_bytes = is->piece_bytes;
		c->clustered = is->placement == PLACE_CLUSTERED;
	}
	rpc_reply_fini(&reply);
	bool sane = c->k > 0 && c->p > 0 && c->k + c->p <= POOL_ROWS_MAX;
	return is != NULL && sane ? 0 : -EPROTO;
}

/* Lists the losses of a pool and starts its repair if there are any. */
static int case_look(struct pool_losses *p, uint64_t disk)
{
	struct pool_case *c = &p->cases[p->case_count];
	AUTO_FREE struct store_pool_loss *page = calloc(NODE_LOSSES_MAX, sizeof(*page));
	struct store_cursor at = {0};
	if (page == NULL)
		return -ENOMEM;
	int64_t n = losses_list(p->j, disk, false, &at, page);
	if (n == 0)
		repair_end(repair_under_way(p->j, disk, true));
	if (n <= 0)
		return (int)n;
	*c = (struct pool_case){.disk = disk};
	snprintf(c->lease, sizeof(c->lease), "pool/%016lx", disk);
	int rc = lease_take(p->j, c->lease);
	if (rc < 0)
		return rc == -EBUSY ? 0 : rc;
	enum janitor_method method = p->j->opts.method;
	size_t before = p->item_count;
	rc = pool_case_shape(p->j, c);
	if (rc == 0)
		rc = method == JANITOR_R_ALL ? case_blocks(p, disk)
					     : case_losses(p, disk, page, n, &at);
	if (rc < 0 && rc != -ENOBUFS) {
		p->item_count = before;
		lease_drop(p->j, c->lease);
		return rc;
	}
	c->taken = true;
	c->repair = repair_begin(p->j, disk, true);
	if (c->repair != NULL)
		c->repair->total = c->repair->done + p->item_count - before;
	p->case_count++;
	return 0;
}

static int by_block(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	return x->case_at < y->case_at ? -1 : x->case_at > y->case_at;
}

static int by_need(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	return x->columns != y->columns ? (x->columns > y->columns ? -1 : 1) : by_block(a, b);
}

static void items_sort(struct pool_losses *p)
{
	if (p->item_count == 0)
		return;
	qsort(p->items, p->item_count, sizeof(*p->items), by_block);
	for (size_t i = 0, n; i < p->item_count; i += n) {
		assert(p->items[i].case_at < p->case_count);
		for (n = 1; i + n < p->item_count && p->items[i + n].block == p->items[i].block;)
			n++;
		for (size_t k = 0; k < n; k++)
			p->items[i + k].columns = (uint32_t)n;
	}
	qsort(p->items, p->item_count, sizeof(*p->items), by_need);
}

/* --- repair ------------------------------------------------------------------------------------- */

static int item_do(struct pool_losses *p, const struct item *it)
{
	assert(it->case_at < p->case_count && it->first + it->count <= p->loss_count);
	struct pool_case *c = &p->cases[it->case_at];
	struct janitor *j = p->j;
	int rc = j->opts.method == JANITOR_R_ALL
			 ? block_repair(j, &(struct repair_work){.tenant = it->tenant,
								 .block = it->block,
								 .pool = c,
								 .repair = c->repair})
			 : pool_chunk_patch(j, c, &p->losses[it->first], it->count);
	if (c->repair != NULL) {
		c->repair->done += rc == 0;
		c->repair->failed += rc < 0 && rc != -ECANCELED;
	}
	if (rc < 0 && rc != -ECANCELED) {
		j->stats.failed += rc != -ENOSPC && rc != -ENODATA && rc != -EAGAIN;
		j->stats.no_room += rc == -ENOSPC;
		j->stats.lost_blocks += rc == -ENODATA;
		p->stuck.no_room += rc == -ENOSPC;
		p->stuck.lost += rc == -ENODATA;
		log_warn("pool_repair", "disk=%016lx block=%016lx rc=%d", c->disk, it->block, rc);
	}
	if (rc == -ECANCELED)
		return rc;
	rc = lease_keep(j, c->lease);
	c->taken = c->taken && rc != -EBUSY;
	return rc == -EBUSY ? 0 : rc;
}

static void pool_worker(void *arg)
{
	struct pool_losses *p = arg;
	while (p->rc == 0 && p->next < p->item_count) {
		const struct item it = p->items[p->next++];
		int rc = p->cases[it.case_at].taken ? item_do(p, &it) : 0;
		if (rc < 0)
			p->rc = rc;
	}
}

static void items_work(struct pool_losses *p)
{
	struct rt_group g;
	rt_group_init(&g);
	for (unsigned i = 0; i < p->j->opts.parallel && i < p->item_count; i++)
		if (rt_group_spawn(&g, "pools", pool_worker, p) < 0)
			break;
	rt_group_join(&g);
}

/* Tells the pool to rebuild the rows that were not sent, such as parities. */
static void case_end(struct janitor *j, const struct pool_case *c)
{
	assert(c->k > 0 && c->disk != 0);
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct disk_use u;
	if (disk_begin(&e.call, c->disk, &u) == 0) {
		u.node.timeout_ns = NODE_TIMEOUT_NS;
		int rc = node_pool_rebuild(&u.node, c->disk, false);
		disk_end(&e.call, &u, rc, 0);
	}
	if (c->taken)
		lease_drop(j, c->lease);
	if (c->repair != NULL && c->repair->failed == 0)
		repair_end(c->repair);
}

int janitor_pools(struct janitor *j)
{
	int rc = janitor_map(j);
	size_t n = 0;
	AUTO_FREE uint64_t *ids = rc < 0 ? NULL : disk_ids(j, &n);
	struct pool_losses p = {.j = j};
	p.cases = calloc(n + 1, sizeof(*p.cases));
	if (ids == NULL || p.cases == NULL)
		rc = rc < 0 ? rc : -ENOMEM;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		const struct cluster_disk *d = cluster_disk(j->fabric.map, ids[i]);
		enum disk_fate fate = disk_fate(j, ids[i]);
		if (d == NULL || !d->pool || fate == DISK_LOST || fate == DISK_SUSPECT)
			continue;
		int looked = case_look(&p, ids[i]);
		if (looked < 0)
			log_warn("pool_losses", "disk=%016lx rc=%d", ids[i], looked);
		rc = looked == -ECANCELED || looked == -ENOMEM ? looked : 0;
	}
	items_sort(&p);
	if (rc == 0) {
		items_work(&p);
		rc = p.rc;
		j->stuck_pools = p.stuck;
	}
	for (size_t i = 0; rc == 0 && i < p.case_count; i++)
		case_end(j, &p.cases[i]);
	free(p.cases);
	free(p.losses);
	free(p.items);
	return rc;
}
