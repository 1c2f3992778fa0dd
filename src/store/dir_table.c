// SPDX-License-Identifier: Apache-2.0
/*
 * The chunks in use. An entry is held by every call that works with the chunk; when the last one drops
 * it, it stays for the next, with its file open, until others need the room. An entry without a
 * head, because it could not be loaded or was deleted, goes with its last holder.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "rt/rt.h"
#include "store/dir_impl.h"

/* --- heads ------------------------------------------------------------------------------------ */

struct dir_head *dir_head_new(const struct chunk_head *h)
{
	struct dir_head *head = malloc(sizeof(*head));

	if (head != NULL) {
		head->refs = 1;
		head->h = *h;
	}
	return head;
}

struct dir_head *dir_head_ref(struct dir_head *head)
{
	head->refs++;
	return head;
}

void dir_head_unref(struct dir_head *head)
{
	if (head != NULL && --head->refs == 0)
		free(head);
}

void dir_head_set_take(struct dir_chunk *c, struct dir_head *head)
{
	dir_head_unref(c->head);
	c->head = head;
}

/* --- the table: keys may collide, so each leads to a chain ------------------------------------- */

static uint64_t table_key(struct chunk_id id)
{
	return hash64_u64s(id.block, id.index);
}

struct dir_chunk *dir_chunk_find(const struct dir_store *d, struct chunk_id id)
{
	struct dir_chunk *c = map_get(&d->table, table_key(id));

	while (c != NULL && !chunk_id_equal(c->id, id))
		c = c->chain;
	return c;
}

static int table_add(struct dir_store *d, struct dir_chunk *c)
{
	uint64_t key = table_key(c->id);
	struct dir_chunk *first = map_get(&d->table, key);

	if (first != NULL) {
		c->chain = first->chain;
		first->chain = c;
	} else {
		int rc = map_put(&d->table, key, c);
		if (rc != 0)
			return rc;
	}
	d->chunk_count++;
	return 0;
}

static void table_remove(struct dir_store *d, struct dir_chunk *c)
{
	uint64_t key = table_key(c->id);
	struct dir_chunk *first = map_get(&d->table, key);

	if (first == c) {
		map_remove(&d->table, key);
		/* The place that was just freed takes it: this cannot fail. */
		if (c->chain != NULL && map_put(&d->table, key, c->chain) != 0)
			assert(!"a map lost its room");
	} else {
		while (first->chain != c)
			first = first->chain;
		first->chain = c->chain;
	}
	c->chain = NULL;
	d->chunk_count--;
	rt_cond_broadcast(&d->room);
}

static void chunk_free(struct dir_chunk *c)
{
	rt_file_close(c->file);
	dir_head_unref(c->head);
	free(c);
}

void dir_chunk_forget(struct dir_store *d, struct dir_chunk *c)
{
	if (c->gone)
		return;
	table_remove(d, c);
	c->gone = true;
	if (c->stuck)
		d->stuck_count--;
}

void dir_chunk_stick(struct dir_store *d, struct dir_chunk *c)
{
	if (c->stuck)
		return;
	c->stuck = true;
	if (!c->gone && ++d->stuck_count > DIR_STUCK_MAX)
		dir_control(&d->base, STORE_FAILED);
}

/* --- holding ---------------------------------------------------------------------------------- */

void dir_chunk_drop(struct dir_store *d, struct dir_chunk *c)
{
	if (--c->refs > 0)
		return;
	if (c->head == NULL)
		dir_chunk_forget(d, c);
	if (c->gone) {
		chunk_free(c);
		return;
	}
	if (c->stuck)
		return;
	list_push_back(&d->idle, &c->lru);
	rt_cond_broadcast(&d->room);
}

/* Makes room by letting the longest unused go, unless somebody comes for it meanwhile. */
static void evict(struct dir_store *d)
{
	struct dir_chunk *c = list_entry(list_pop_front(&d->idle), struct dir_chunk, lru);

	c->refs = 1;
	if (!c->settled && rt_mutex_lock(&c->lock) == 0) {
		rt_shield_enter();
		dir_settle(d, c);
		rt_shield_leave();
		rt_mutex_unlock(&c->lock);
	}
	if (c->refs > 1 || c->stuck) {
		dir_chunk_drop(d, c);
		return;
	}
	dir_chunk_forget(d, c);
	dir_chunk_drop(d, c);
}

int dir_chunk_hold(struct dir_store *d, struct chunk_id id, struct dir_chunk **out)
{
	struct dir_chunk *c;

	while ((c = dir_chunk_find(d, id)) == NULL &&
	       d->chunk_count >= d->options.open_chunks_max) {
		if (!list_empty(&d->idle)) {
			evict(d);
			continue;
		}
		int rc = rt_cond_wait(&d->room);
		if (rc != 0)
			return rc;
	}
	if (c != NULL) {
		list_remove(&c->lru);
		c->refs++;
		*out = c;
		return 0;
	}
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	c->id = id;
	c->refs = 1;
	list_init(&c->lru);
	rt_mutex_init(&c->lock);
	int rc = table_add(d, c);
	if (rc != 0) {
		free(c);
		return rc;
	}
	*out = c;
	return 0;
}

/* Loads the head unless it is there. -EAGAIN: the entry is no longer that of the name. */
static int chunk_need(struct dir_store *d, struct dir_chunk *c)
{
	if (c->creating)
		return -ENOENT;
	if (c->head != NULL)
		return 0;
	int rc = rt_mutex_lock(&c->lock);
	if (rc != 0)
		return rc;
	if (c->gone)
		rc = -EAGAIN;
	else if (c->head == NULL)
		rc = dir_chunk_load(d, c);
	rt_mutex_unlock(&c->lock);
	return rc;
}

int dir_chunk_open(struct dir_store *d, struct chunk_id id, struct dir_chunk **out)
{
	struct dir_chunk *c;
	int rc;

	do {
		rc = dir_chunk_hold(d, id, &c);
		if (rc != 0)
			return rc;
		rc = chunk_need(d, c);
		if (rc != 0)
			dir_chunk_drop(d, c);
	} while (rc == -EAGAIN);
	if (rc == 0)
		*out = c;
	return rc;
}

int dir_chunk_lock(struct dir_store *d, struct chunk_id id, struct dir_chunk **out)
{
	bool again = false;

	for (;;) {
		struct dir_chunk *c;
		int rc = dir_chunk_open(d, id, &c);
		if (rc != 0)
			return rc;
		rc = rt_mutex_lock(&c->lock);
		/* Opened while the disk was read-only, or a change failed: the disk is well again, so load it anew. */
		if (rc == 0 && (c->read_only || c->stuck) && !again && d->state == STORE_ONLINE) {
			again = true;
			dir_chunk_forget(d, c);
		}
		if (rc == 0 && !c->gone) {
			*out = c;
			return 0;
		}
		if (rc == 0)
			rt_mutex_unlock(&c->lock);
		dir_chunk_drop(d, c);
		if (rc != 0)
			return rc;
	}
}

void dir_chunk_unlock(struct dir_store *d, struct dir_chunk *c)
{
	rt_mutex_unlock(&c->lock);
	dir_chunk_drop(d, c);
}

void dir_table_init(struct dir_store *d)
{
	map_init(&d->table, d->options.open_chunks_max);
	list_init(&d->idle);
	rt_cond_init(&d->room);
}

void dir_table_fini(struct dir_store *d)
{
	while (!list_empty(&d->idle))
		evict(d);
	/* What is left is stuck: nothing is known about it, so nothing is written. */
	map_for_each(&d->table, it) {
		for (struct dir_chunk *c = it.value, *after; c != NULL; c = after) {
			after = c->chain;
			assert(c->refs == 0 && c->stuck);
			chunk_free(c);
		}
	}
	map_fini(&d->table);
}
