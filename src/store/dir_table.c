// SPDX-License-Identifier: Apache-2.0
/*
 * The chunks in use. Every call that works with a chunk holds a reference to its entry. After the
 * last reference is dropped the entry stays with its open file until another chunk needs the room.
 * An entry without a head (not loaded, or deleted) is freed with its last reference.
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
	assert(head->refs > 0);
	head->refs++;
	return head;
}

void dir_head_unref(struct dir_head *head)
{
	if (head == NULL)
		return;
	assert(head->refs > 0);
	if (--head->refs == 0)
		free(head);
}

void dir_head_set_take(struct dir_chunk *c, struct dir_head *head)
{
	assert(rt_mutex_held(&c->lock));
	dir_head_unref(c->head);
	c->head = head;
}

/* --- the table: entries whose keys collide form a chain --------------------------------------- */

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

	assert(c->chain == NULL && dir_chunk_find(d, c->id) == NULL);
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

	assert(first != NULL && d->chunk_count > 0);
	if (first == c) {
		map_remove(&d->table, key);
		/* Cannot fail: map_remove has just freed a slot of the map. */
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
	assert(c->refs == 0 && list_empty(&c->lru));
	rt_file_close(c->file);
	dir_head_unref(c->head);
	free(c);
}

void dir_chunk_forget(struct dir_store *d, struct dir_chunk *c)
{
	if (c->removed)
		return;
	table_remove(d, c);
	c->removed = true;
	if (c->frozen) {
		assert(d->frozen_count > 0);
		d->frozen_count--;
	}
}

void dir_chunk_freeze(struct dir_store *d, struct dir_chunk *c)
{
	assert(rt_mutex_held(&c->lock));
	if (c->frozen)
		return;
	c->frozen = true;
	if (!c->removed && ++d->frozen_count > DIR_FROZEN_MAX)
		dir_control(&d->base, STORE_FAILED);
}

/* --- references ------------------------------------------------------------------------------- */

void dir_chunk_unref(struct dir_store *d, struct dir_chunk *c)
{
	assert(c->refs > 0);
	if (--c->refs > 0)
		return;
	if (c->head == NULL)
		dir_chunk_forget(d, c);
	if (c->removed) {
		chunk_free(c);
		return;
	}
	if (c->frozen)
		return;
	list_push_back(&d->idle, &c->lru);
	rt_cond_broadcast(&d->room);
}

/*
 * Closes the least recently used idle chunk, unless a caller takes a reference to the chunk while
 * its state is being copied to the other slot.
 */
static void evict(struct dir_store *d)
{
	struct dir_chunk *c = list_entry(list_pop_front(&d->idle), struct dir_chunk, lru);

	assert(c->refs == 0 && c->head != NULL && !c->removed && !c->frozen);
	c->refs = 1;
	if (!c->settled && rt_mutex_lock(&c->lock) == 0) {
		rt_shield_enter();
		dir_settle(d, c);
		rt_shield_leave();
		rt_mutex_unlock(&c->lock);
	}
	if (c->refs > 1 || c->frozen) {
		dir_chunk_unref(d, c);
		return;
	}
	dir_chunk_forget(d, c);
	dir_chunk_unref(d, c);
}

int dir_chunk_ref(struct dir_store *d, struct chunk_id id, struct dir_chunk **out)
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
		assert(!c->removed && (c->refs == 0 || list_empty(&c->lru)));
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

/*
 * Loads the head of a chunk unless it is loaded already. -EAGAIN when the entry of the chunk is no
 * longer in the table.
 */
static int chunk_ensure_loaded(struct dir_store *d, struct dir_chunk *c)
{
	if (c->creating)
		return -ENOENT;
	if (c->head != NULL)
		return 0;
	int rc = rt_mutex_lock(&c->lock);
	if (rc != 0)
		return rc;
	if (c->removed)
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
		rc = dir_chunk_ref(d, id, &c);
		if (rc != 0)
			return rc;
		rc = chunk_ensure_loaded(d, c);
		if (rc != 0)
			dir_chunk_unref(d, c);
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
		/*
		 * The chunk was opened while the disk was read-only, or a change of the chunk
		 * failed. Now the disk is online: load the chunk again.
		 */
		if (rc == 0 && (c->read_only || c->frozen) && !again && d->state == STORE_ONLINE) {
			again = true;
			dir_chunk_forget(d, c);
		}
		if (rc == 0 && !c->removed) {
			*out = c;
			return 0;
		}
		if (rc == 0)
			rt_mutex_unlock(&c->lock);
		dir_chunk_unref(d, c);
		if (rc != 0)
			return rc;
	}
}

void dir_chunk_unlock(struct dir_store *d, struct dir_chunk *c)
{
	rt_mutex_unlock(&c->lock);
	dir_chunk_unref(d, c);
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
	/*
	 * Only frozen chunks are left in the table. Their state on the medium is unknown, so
	 * nothing is written.
	 */
	map_for_each(&d->table, it) {
		for (struct dir_chunk *c = it.value, *after; c != NULL; c = after) {
			after = c->chain;
			assert(c->refs == 0 && c->frozen);
			chunk_free(c);
		}
	}
	map_fini(&d->table);
}
