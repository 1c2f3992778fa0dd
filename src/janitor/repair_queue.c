// SPDX-License-Identifier: Apache-2.0
#include "janitor/repair_queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rt/rt.h"

#define PAGE 64
#define PAGE_ARENA ((size_t)(4 * MIB))

static int disks_to_empty(struct repair_queue *q)
{
	size_t n = 0;
	q->disks = disk_ids(q->j, &n);
	if (q->disks == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		enum disk_fate fate = disk_fate(q->j, q->disks[i]);
		if (fate == DISK_LOST || fate == DISK_DRAINING)
			q->disks[q->disk_count++] = q->disks[i];
	}
	return 0;
}

int repair_queue_init(struct repair_queue *q, struct janitor *j)
{
	*q = (struct repair_queue){.j = j, .begin_ns = rt_now_ns()};
	return disks_to_empty(q);
}

void repair_queue_fini(struct repair_queue *q)
{
	for (size_t i = 0; i < q->count; i++)
		repair_queue_drop_record(q, &q->list[i]);
	assert(q->record_bytes == 0);
	free(q->list);
	free(q->found);
	free(q->disks);
}

/* --- records ----------------------------------------------------------------------------------- */

static size_t record_size(const struct meta_block *b)
{
	return sizeof(*b) + b->chunk_count * sizeof(*b->chunks);
}

/* Returns a copy of the record with its chunks, in one allocation; NULL: no memory, or the
 * queue's limit for records is reached. */
static struct meta_block *record_copy(struct repair_queue *q, const struct meta_block *b)
{
	size_t size = record_size(b);
	if (q->record_bytes + size > RECORDS_BYTES_MAX)
		return NULL;
	struct meta_block *copy = malloc(size);
	if (copy == NULL)
		return NULL;
	*copy = *b;
	copy->chunks = (struct meta_chunk *)(copy + 1);
	if (b->chunk_count > 0)
		memcpy(copy->chunks, b->chunks, b->chunk_count * sizeof(*b->chunks));
	q->record_bytes += size;
	return copy;
}

void repair_queue_drop_record(struct repair_queue *q, struct repair_item *it)
{
	if (it->record == NULL)
		return;
	assert(q->record_bytes >= record_size(it->record));
	q->record_bytes -= record_size(it->record);
	free(it->record);
	it->record = NULL;
}

/* --- order ------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	const struct repair_item *x = a, *y = b;
	if (x->tenant != y->tenant)
		return x->tenant < y->tenant ? -1 : 1;
	return x->block < y->block ? -1 : x->block > y->block;
}

static int by_need(const void *a, const void *b)
{
	const struct repair_item *x = a, *y = b;
	return x->more != y->more ? (x->more < y->more ? -1 : 1) : by_name(a, b);
}

/* Sorts the items by tenant and block and merges items of the same block. Returns the number
 * of items left. */
static size_t merge(struct repair_queue *q, struct repair_item *list, size_t count)
{
	size_t n = 0;
	if (count > 0)
		qsort(list, count, sizeof(*list), by_name);
	for (size_t i = 0; i < count; i++) {
		assert(!list[i].taken);
		if (n > 0 && by_name(&list[n - 1], &list[i]) == 0) {
			list[n - 1].disks |= list[i].disks;
			list[n - 1].was_read = list[n - 1].was_read || list[i].was_read;
			repair_queue_drop_record(q, &list[i]);
		} else {
			list[n++] = list[i];
		}
	}
	return n;
}

void repair_queue_sort(struct repair_queue *q)
{
	q->count = merge(q, q->list, q->count);
	if (q->count > 0)
		qsort(q->list, q->count, sizeof(*q->list), by_need);
}

/* Drops all but the `max` items that come first in the order of repair. Blocks that may be
 * lost are at the front of the list and are found again in every round, so they get only the
 * places that the other blocks leave free: else there would never be a place for a block that
 * can be repaired. */
static void queue_cut(struct repair_queue *q, size_t max)
{
	size_t maybe_lost = 0;
	repair_queue_sort(q);
	while (maybe_lost < q->count && q->list[maybe_lost].more < 0)
		maybe_lost++;
	size_t others = min_u64(q->count - maybe_lost, max);
	size_t stay = min_u64(maybe_lost, max - others);
	for (size_t i = 0; i < q->count; i++)
		if (i >= stay && (i < maybe_lost || i >= maybe_lost + others))
			repair_queue_drop_record(q, &q->list[i]);
	memmove(q->list + stay, q->list + maybe_lost, others * sizeof(*q->list));
	q->count = stay + others;
	assert(q->count <= max);
}

/* --- adding ------------------------------------------------------------------------------------- */

static int list_append(struct repair_item **list, size_t *count, size_t *cap,
		       const struct repair_item *it)
{
	if (*count == *cap) {
		size_t more = *cap == 0 ? 256 : *cap * 2;
		struct repair_item *longer = realloc(*list, more * sizeof(*longer));
		if (longer == NULL)
			return -ENOMEM;
		*list = longer;
		*cap = more;
	}
	(*list)[(*count)++] = *it;
	return 0;
}

/* Adds a block if it is sealed and degraded. */
static int queue_add(struct repair_queue *q, struct repair_item it, const struct meta_block *b)
{
	struct damage d;
	struct janitor *j = q->j;
	assert(it.record == NULL && !it.taken);
	j->stats.open_blocks += b->state == META_BLOCK_OPEN && it.disks != 0;
	if (b->state != META_BLOCK_SEALED || block_damage(j, b, &d) < 0 || d.bad == 0)
		return 0;
	if (q->count >= j->opts.list_max)
		queue_cut(q, j->opts.list_max / 2);
	it.more = d.more;
	it.record = record_copy(q, b);
	int rc = list_append(&q->list, &q->count, &q->cap, &it);
	if (rc < 0)
		repair_queue_drop_record(q, &it);
	return rc;
}

/* Reads the records of n items of one tenant and adds those that are degraded. -EBADMSG: one of them is unreadable, and
 * none was added. */
static int page_add(struct repair_queue *q, const struct repair_item *items, size_t n)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(q->j, &e, items[0].tenant);
	struct meta_call m = tenant_call_meta(q->j, &e);
	struct meta_block b[PAGE];
	uint64_t ids[PAGE];
	struct arena a;
	assert(n > 0 && n <= PAGE);
	arena_init(&a, PAGE_ARENA);
	for (size_t i = 0; i < n; i++)
		ids[i] = items[i].block;
	int rc = meta_client_block_get(&m, ids, n, &a, b);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = queue_add(q, items[i], &b[i]);
	arena_fini(&a);
	return rc;
}

/* Does the same, and skips and counts unreadable records. */
static int records_add(struct repair_queue *q, const struct repair_item *items, size_t n)
{
	int rc = page_add(q, items, n);
	if (rc != -EBADMSG)
		return rc;
	rc = 0;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = page_add(q, &items[i], 1);
		if (rc != -EBADMSG)
			continue;
		log_error("repair_record_unreadable", "tenant=%u block=%016lx", items[i].tenant,
			  items[i].block);
		q->unreadable++;
		rc = 0;
	}
	return rc;
}

/* Reads the records of the blocks in q->found that were not read yet, each once. */
static int found_add(struct repair_queue *q)
{
	size_t n = 0, all = merge(q, q->found, q->found_count);
	int rc = 0;
	for (size_t i = 0; i < all; i++)
		if (!q->found[i].was_read)
			q->found[n++] = q->found[i];
	for (size_t i = 0, run; rc == 0 && i < n; i += run) {
		for (run = 1;
		     run < PAGE && i + run < n && q->found[i + run].tenant == q->found[i].tenant;)
			run++;
		rc = records_add(q, q->found + i, run);
	}
	q->found_count = 0;
	return rc;
}

static int found_append(struct repair_queue *q, const struct repair_item *it)
{
	int rc = q->found_count >= q->j->opts.list_max ? found_add(q) : 0;
	return rc < 0 ? rc : list_append(&q->found, &q->found_count, &q->found_cap, it);
}

static uint64_t disk_bit(size_t d)
{
	return d < REPAIR_DISKS_MAX ? 1ULL << d : 0;
}

static int disk_walk(struct repair_queue *q, struct meta_call *m, size_t d, unsigned share)
{
	int rc = 0;
	for (struct meta_walk at = share_walk(q->j, share); rc == 0 && at.index < at.end;) {
		struct meta_on_disk on[PAGE];
		int64_t n = meta_client_disk_blocks(m, q->disks[d], &at, on, PAGE);
		rc = n < 0 ? (int)n : 0;
		for (int64_t i = 0; rc == 0 && i < n; i++) {
			struct repair_item it = {.block = on[i].block,
						 .tenant = on[i].tenant,
						 .disks = disk_bit(d),
						 .share = (uint8_t)share};
			rc = found_append(q, &it);
			if (rc == 0 && d < REPAIR_DISKS_MAX)
				q->blocks_on[d]++;
		}
	}
	return rc;
}

static int index_walk(struct repair_queue *q, struct meta_call *m, unsigned share)
{
	int rc = 0;
	for (size_t d = 0; rc == 0 && d < q->disk_count; d++)
		rc = disk_walk(q, m, d, share);
	return rc;
}

/* Returns a bit set: bit d is set if disk d of the queue has a chunk of the block. */
static uint64_t disks_of(const struct repair_queue *q, const struct meta_block *b)
{
	uint64_t bits = 0;
	for (size_t d = 0; d < q->disk_count; d++)
		for (size_t i = 0; i < b->chunk_count; i++)
			if (b->chunks[i].disk == q->disks[d])
				bits |= disk_bit(d);
	return bits;
}

static int records_walk(struct repair_queue *q, struct meta_call *m, unsigned share)
{
	int rc = 0;
	for (struct meta_walk at = share_walk(q->j, share); rc == 0 && at.index < at.end;) {
		struct meta_block_at found[PAGE];
		struct arena a;
		arena_init(&a, PAGE_ARENA);
		int64_t n = meta_client_blocks(m, &at, &a, found, PAGE);
		rc = n < 0 ? (int)n : 0;
		for (int64_t i = 0; rc == 0 && i < n; i++) {
			struct repair_item it = {.block = found[i].block.id,
						 .tenant = found[i].tenant,
						 .disks = disks_of(q, &found[i].block),
						 .share = (uint8_t)share};
			rc = queue_add(q, it, &found[i].block);
			it.was_read = true;
			if (rc == 0 && it.disks != 0)
				rc = found_append(q, &it);
		}
		arena_fini(&a);
	}
	return rc;
}

int repair_queue_walk(struct repair_queue *q, unsigned share, bool look)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(q->j, &e, 0);
	struct meta_call m = tenant_call_meta(q->j, &e);
	assert(share < JANITOR_SHARES && q->found_count == 0);
	int rc = look ? records_walk(q, &m, share) : 0;
	if (rc == 0)
		rc = index_walk(q, &m, share);
	if (rc == 0)
		rc = found_add(q);
	q->found_count = 0;
	return rc;
}

size_t repair_queue_count_share(const struct repair_queue *q, unsigned share)
{
	size_t n = 0;
	for (size_t i = 0; i < q->count; i++)
		n += q->list[i].share == share;
	return n;
}
