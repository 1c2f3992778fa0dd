// SPDX-License-Identifier: Apache-2.0
/*
 * Durable and pending bytes of a file.
 *
 * A file has two images: cache has the bytes that reads return, stable those that survive a power loss. A change
 * is applied to cache at once and queued in pending; a sync applies pending to stable, in order.
 *
 *	write 0..4K "A", sync, write 0..4K "B", write 4K..8K "C"
 *	cache = B C    stable = A    pending = [B at 0, C at 4K]
 *
 * At a power loss each pending change is lost, torn (some of its sectors survive) or survives, independent of the
 * others: C may survive without B. The result becomes cache and stable.
 *
 * After a failed sync the pages are clean, as on Linux, whether they reached the medium or not.
 * Which pages reached the medium is drawn at the failure and applied to stable; cache keeps all
 * bytes until the next power loss.
 *
 * Invariants:
 * 1. stable with pending applied equals cache, unless a sync failed, a write was misdirected or a bit rotted.
 * 2. Bytes of stable that a successful sync covered change only by a later change of the same bytes.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rt/sim/disk.h"

/*
 * Above these limits the oldest changes become durable without a sync, as a kernel writes pages
 * back.
 */
#define PENDING_MAX 4096
#define PENDING_BYTES_MAX (16 * MIB)
#define PAST_MAX 8
#define PAST_BYTES_MAX (16 * KIB)

static struct sim *sim_of(const struct inode *i)
{
	return i->disk->node->sim;
}

struct inode *inode_new(struct sim_disk *d, bool is_dir)
{
	struct inode *i = sim_need(calloc(1, sizeof(*i)));

	i->disk = d;
	i->id = ++d->next_id;
	i->is_dir = is_dir;
	i->parent = i;
	snprintf(i->label, sizeof(i->label), "%.16s#%llu", d->name, (unsigned long long)i->id);
	list_init(&i->pending);
	list_init(&i->inflight);
	list_init(&i->past);
	list_init(&i->entries);
	list_push_back(&d->inodes, &i->link);
	return i;
}

static void changes_free(struct list *head)
{
	for (struct list *l = list_pop_front(head); l != NULL; l = list_pop_front(head))
		free(list_entry(l, struct change, link));
}

void inode_wipe(struct inode *i)
{
	image_fini(&i->cache);
	image_fini(&i->stable);
	changes_free(&i->pending);
	i->pending_count = 0;
	i->pending_bytes = 0;
	for (struct list *l = list_pop_front(&i->past); l != NULL; l = list_pop_front(&i->past))
		free(list_entry(l, struct past, link));
	i->past_count = 0;
	i->disk->used_blocks -= i->charged_blocks;
	i->charged_blocks = 0;
}

void inode_free(struct inode *i)
{
	assert(i->entry_count == 0 && list_empty(&i->entries));
	inode_wipe(i);
	changes_free(&i->inflight);
	list_remove(&i->link);
	free(i);
}

void inode_settle_refs(struct inode *i)
{
	if (i->names == 0 && i->handles == 0 && i->undo_refs == 0) {
		inode_free(i);
		return;
	}
	/*
	 * An inode without name and open file is kept only for the journal, and is charged no
	 * blocks.
	 */
	size_t blocks = i->names == 0 && i->handles == 0 ? 0 : i->cache.used_blocks;
	assert(i->disk->used_blocks >= i->charged_blocks);
	i->disk->used_blocks += blocks - i->charged_blocks;
	i->charged_blocks = blocks;
}

struct change *change_new(enum change_kind kind, uint64_t offset, uint64_t len)
{
	size_t bytes = kind == CHANGE_WRITE ? (size_t)len : 0;
	struct change *c = sim_need(malloc(sizeof(*c) + bytes));

	*c = (struct change){.kind = kind, .offset = offset, .len = len};
	list_init(&c->link);
	return c;
}

static void change_apply(const struct change *c, struct image *im)
{
	switch (c->kind) {
	case CHANGE_WRITE:
		image_write(im, c->offset, c->data, (size_t)c->len);
		break;
	case CHANGE_RESIZE:
		image_resize(im, c->offset);
		break;
	case CHANGE_RESERVE:
		image_reserve(im, c->offset, c->len);
		break;
	}
}

/*
 * Applies a torn write to an image: some of its sectors, and possibly its growth of the file
 * without the bytes.
 */
static void change_tear(struct sim *s, const struct change *c, struct image *im)
{
	if (c->kind != CHANGE_WRITE) {
		change_apply(c, im);
		return;
	}
	uint64_t end = c->offset + c->len;
	for (uint64_t at = c->offset; at < end;) {
		uint64_t next = min_u64(end, (at / DISK_SECTOR_BYTES + 1) * DISK_SECTOR_BYTES);
		if (rng_chance(&s->rng, 0.5))
			image_write(im, at, c->data + (at - c->offset), (size_t)(next - at));
		at = next;
	}
	if (end > im->size_bytes && rng_chance(&s->rng, 0.5))
		image_resize(im, end);
}

/* Draws the outcome of a write that a failed sync covered: applied, torn or lost. */
static void change_gamble(struct sim *s, const struct change *c, struct image *im)
{
	uint64_t draw = sim_between(s, 0, 3);

	if (draw == 0)
		change_apply(c, im);
	else if (draw == 1)
		change_tear(s, c, im);
}

static void pending_pop(struct inode *i, struct change *c)
{
	assert(i->pending_count > 0);
	assert(c->kind != CHANGE_WRITE || i->pending_bytes >= c->len);
	list_remove(&c->link);
	i->pending_count--;
	i->pending_bytes -= c->kind == CHANGE_WRITE ? c->len : 0;
	free(c);
}

static struct change *pending_first(const struct inode *i)
{
	struct list *l = list_first(&i->pending);
	return l == NULL ? NULL : list_entry(l, struct change, link);
}

/* Keeps the bytes that a write replaces if the fault that returns stale data is on. */
static void past_keep(struct inode *i, const struct change *c)
{
	if (c->kind != CHANGE_WRITE || sim_of(i)->config.rate[SIM_DISK_STALE] <= 0 ||
	    c->offset >= i->cache.size_bytes)
		return;
	size_t len =
		(size_t)min_u64(min_u64(c->len, PAST_BYTES_MAX), i->cache.size_bytes - c->offset);
	struct past *p = sim_need(malloc(sizeof(*p) + len));
	*p = (struct past){.offset = c->offset, .len = len};
	image_read(&i->cache, p->offset, p->data, len);
	list_push_back(&i->past, &p->link);
	if (++i->past_count > PAST_MAX) {
		free(list_entry(list_pop_front(&i->past), struct past, link));
		i->past_count--;
	}
}

void inode_change_take(struct inode *i, struct change *c)
{
	assert(!i->is_dir && list_empty(&c->link));
	past_keep(i, c);
	change_apply(c, &i->cache);
	c->seq = ++i->change_seq;
	list_push_back(&i->pending, &c->link);
	i->pending_count++;
	i->pending_bytes += c->kind == CHANGE_WRITE ? c->len : 0;
	while (i->pending_count > PENDING_MAX || i->pending_bytes > PENDING_BYTES_MAX) {
		struct change *oldest = pending_first(i);
		change_apply(oldest, &i->stable);
		pending_pop(i, oldest);
	}
	inode_settle_refs(i);
}

void inode_commit(struct inode *i, uint64_t seq)
{
	for (struct change *c = pending_first(i); c != NULL && c->seq <= seq;
	     c = pending_first(i)) {
		change_apply(c, &i->stable);
		pending_pop(i, c);
	}
}

void inode_commit_failed(struct inode *i, uint64_t seq)
{
	i->unlike = true;
	for (struct change *c = pending_first(i); c != NULL && c->seq <= seq;
	     c = pending_first(i)) {
		change_gamble(sim_of(i), c, &i->stable);
		pending_pop(i, c);
	}
}

/* Draws what survives of an unsynced change at a power loss. */
static void change_settle(struct inode *i, const struct change *c)
{
	struct sim *s = sim_of(i);

	if (sim_roll(s, SIM_WRITE_LOST, i->disk->node))
		return;
	if (c->kind == CHANGE_WRITE && sim_roll(s, SIM_WRITE_TORN, i->disk->node))
		change_tear(s, c, &i->stable);
	else
		change_apply(c, &i->stable);
}

void inode_power_loss(struct inode *i)
{
	struct change *c;

	if (list_empty(&i->pending) && list_empty(&i->inflight) && !i->unlike)
		return;
	list_for_each_entry(c, &i->pending, link)
		change_settle(i, c);
	changes_free(&i->pending);
	i->pending_count = 0;
	i->pending_bytes = 0;
	list_for_each_entry(c, &i->inflight, link)
		change_settle(i, c);
	changes_free(&i->inflight);
	image_copy(&i->cache, &i->stable);
	i->unlike = false;
}

void inode_process_death(struct inode *i)
{
	struct sim *s = sim_of(i);
	struct list *l;

	while ((l = list_pop_front(&i->inflight)) != NULL) {
		struct change *c = list_entry(l, struct change, link);
		uint64_t landed = sim_between(s, 0, c->len);
		if (rng_chance(&s->rng, 0.5))
			landed = c->len;
		c->len = inode_fit(i, c->offset, landed);
		if (c->len > 0 && c->kind == CHANGE_WRITE)
			inode_change_take(i, c);
		else
			free(c);
	}
}

uint64_t inode_fit(const struct inode *i, uint64_t offset, uint64_t len)
{
	size_t room = disk_free_blocks(i->disk);

	if (image_holes(&i->cache, offset, len) <= room)
		return len;
	uint64_t fit = 0;
	while (fit < len) {
		uint64_t at = offset + fit;
		uint64_t step = min_u64(len - fit, DISK_BLOCK_BYTES - at % DISK_BLOCK_BYTES);
		size_t holes = image_holes(&i->cache, at, step);
		if (holes > room)
			break;
		room -= holes;
		fit += step;
	}
	return fit;
}
