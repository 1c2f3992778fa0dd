// SPDX-License-Identifier: Apache-2.0
/*
 * Creating and deleting chunks. A put writes a file in tmp/, syncs it, renames it to its final name
 * and syncs that directory: one fdatasync, and one directory sync that is shared with concurrent
 * puts and deletes. No caller can see the chunk before that.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "rt/rt.h"
#include "store/dir_impl.h"

#define TMP_TRIES 64

/*
 * Syncs directory number `fan`, which makes the names in it durable. Callers that wait at the same
 * time share one sync.
 */
static int dir_fan_sync(struct dir_store *d, uint32_t fan)
{
	assert(fan < UINT32_C(1) << d->super.fan_bits);
	struct dir_fan *f = &d->fans[fan];
	char path[DIR_PATH_MAX];
	uint64_t mine = ++f->asked;

	dir_fan_path(d, fan, path);
	while (f->done < mine && f->failed < mine) {
		if (f->syncing) {
			int rc = rt_cond_wait(&f->changed);
			if (rc != 0)
				return rc;
			continue;
		}
		/*
		 * This sync serves the requests that were made before it starts; later callers may
		 * change names while it runs.
		 */
		uint64_t upto = f->asked;
		f->syncing = true;
		/*
		 * Other callers wait for this sync: this caller's deadline or cancellation must
		 * not fail it.
		 */
		rt_shield_enter();
		int rc = dir_note(d, rt_dir_sync(path));
		rt_shield_leave();
		f->syncing = false;
		assert(f->done <= upto && f->failed <= upto);
		if (rc == 0) {
			f->done = upto;
		} else {
			f->failed = upto;
			f->rc = rc;
		}
		rt_cond_broadcast(&f->changed);
	}
	return f->done >= mine ? 0 : f->rc;
}

int dir_fan_sync_pending(struct dir_store *d, struct chunk_id id)
{
	uint32_t fan = chunk_fan(id, d->super.fan_bits);

	return d->fans[fan].done < d->fans[fan].asked ? dir_fan_sync(d, fan) : 0;
}

/* --- put -------------------------------------------------------------------------------------- */

static int head_of_put(struct dir_store *d, struct chunk_id id, const struct store_put *p,
		       struct chunk_head *h)
{
	memset(h, 0, sizeof(*h));
	h->id = id;
	h->disk = d->super.disk;
	h->seq = 1;
	h->epoch = p->epoch;
	h->capacity = p->open ? max_u64(p->capacity, p->data.len) : p->data.len;
	h->unit_log2 = chunk_unit_log2_for(h->capacity);
	h->sealed = !p->open;
	memcpy(h->label, p->label, STORE_LABEL_BYTES);
	return units_append(h, &d->shifts, &p->data);
}

/* Writes the slots and pages of a new chunk to the empty file f and syncs f. */
static int file_fill(struct dir_store *d, struct rt_file *f, const struct chunk_head *h,
		     const struct store_data *data)
{
	AUTO_FREE uint8_t *slots = dir_pages_alloc(CHUNK_SLOTS_BYTES);
	AUTO_FREE struct chunk_head *empty = calloc(1, sizeof(*empty));

	if (slots == NULL || empty == NULL)
		return -ENOMEM;
	chunk_slot_encode(h, slots);
	memcpy(slots + CHUNK_SLOT_BYTES, slots, CHUNK_SLOT_BYTES);
	int rc = dir_pages_write(d, f, empty, data, slots);
	if (rc != 0 || bug_planted(BUG_SYNC_SKIPPED))
		return rc;
	rc = rt_file_sync(f);
	return bug_planted(BUG_SYNC_ERROR_IGNORED) ? 0 : dir_note(d, rc);
}

/*
 * Creates a file in tmp/ and fills it with a chunk; sets path to its name. Skips names that exist
 * already.
 */
static int file_make(struct dir_store *d, char path[DIR_PATH_MAX], const struct chunk_head *h,
		     const struct store_data *data, struct rt_file **out)
{
	unsigned flags = RT_READ | RT_WRITE | RT_CREATE | RT_EXCL;
	struct rt_file *f;
	int rc = -EEXIST;

	for (int i = 0; i < TMP_TRIES && rc == -EEXIST; i++) {
		dir_tmp_path(d, path);
		rc = rt_file_open(&f, path, d->direct ? flags | RT_DIRECT : flags);
	}
	rc = dir_note(d, rc == -EEXIST ? -EIO : rc);

	if (rc != 0)
		return rc;
	rc = file_fill(d, f, h, data);
	if (rc != 0) {
		rt_file_close(f);
		rt_unlink(path);
		return rc;
	}
	*out = f;
	return 0;
}

/* Renames the file tmp to the final name of the chunk, durably. */
static int file_name(struct dir_store *d, const char *tmp, struct chunk_id id)
{
	char path[DIR_PATH_MAX];

	dir_chunk_path(d, id, path);
	int rc = dir_note(d, rt_rename(tmp, path));
	if (rc != 0)
		rt_unlink(tmp);
	else
		rc = dir_fan_sync(d, chunk_fan(id, d->super.fan_bits));
	/*
	 * A name that may not survive a power cut must not stay visible, so remove it even if only
	 * the sync failed.
	 */
	if (rc != 0)
		rt_unlink(path);
	return rc;
}

static int put_file(struct dir_store *d, struct dir_chunk *c, struct dir_head *head,
		    const struct store_put *p)
{
	char tmp[DIR_PATH_MAX];
	struct rt_file *f;

	assert(c->creating && c->head == NULL);
	int rc = file_make(d, tmp, &head->h, &p->data, &f);
	if (rc != 0)
		return rc;
	rc = file_name(d, tmp, c->id);
	if (rc != 0) {
		rt_file_close(f);
		return rc;
	}
	c->file = f;
	c->settled = true;
	dir_head_set_take(c, dir_head_ref(head));
	return 0;
}

/*
 * Replaces the file of a chunk. Callers that are reading the old file continue with the old file;
 * later callers see the new file. If only the sync of the directory fails, both versions are
 * complete and either may survive.
 */
static int replace_file(struct dir_store *d, struct dir_chunk *c, struct dir_head *head,
			const struct store_put *p)
{
	char tmp[DIR_PATH_MAX], path[DIR_PATH_MAX];
	struct rt_file *f;

	assert(p->replace && rt_mutex_held(&c->lock));
	int rc = file_make(d, tmp, &head->h, &p->data, &f);
	if (rc != 0)
		return rc;
	rt_file_close(f);
	dir_chunk_path(d, c->id, path);
	rc = dir_note(d, rt_rename(tmp, path));
	if (rc != 0) {
		rt_unlink(tmp);
		return rc;
	}
	dir_chunk_forget(d, c);
	d->space_known = false;
	return dir_fan_sync(d, chunk_fan(c->id, d->super.fan_bits));
}

/* Returns -EEXIST if a file with the chunk's name exists, valid or not. */
static int must_not_exist(struct dir_store *d, struct chunk_id id)
{
	char path[DIR_PATH_MAX];
	struct rt_file *f;

	dir_chunk_path(d, id, path);
	int rc = rt_file_open(&f, path, RT_READ);
	if (rc == 0) {
		rt_file_close(f);
		return -EEXIST;
	}
	return rc == -ENOENT ? 0 : dir_note(d, rc);
}

static int put_locked(struct dir_store *d, struct dir_chunk *c, const struct store_put *p,
		      struct dir_head *head)
{
	assert(rt_mutex_held(&c->lock) && !c->removed && !c->creating);
	int rc = c->head != NULL ? -EEXIST : must_not_exist(d, c->id);

	if (rc == -EEXIST && p->replace) {
		rt_shield_enter();
		rc = replace_file(d, c, head, p);
		rt_shield_leave();
		return rc;
	}
	if (rc != 0)
		return rc;
	c->creating = true;
	rt_shield_enter();
	rc = put_file(d, c, head, p);
	rt_shield_leave();
	c->creating = false;
	if (rc == 0)
		dir_wrote(d, CHUNK_SLOTS_BYTES + p->data.len);
	return rc;
}

static int put_head(struct dir_store *d, const struct store_put *p, struct dir_head *head)
{
	struct dir_chunk *c;
	bool removed;
	int rc;

	do {
		rc = dir_chunk_ref(d, head->h.id, &c);
		if (rc != 0)
			return rc;
		rc = c->creating ? -EALREADY : rt_mutex_lock(&c->lock);
		/*
		 * The chunk may have been deleted during the wait: then this entry is not in the
		 * table any more.
		 */
		removed = c->removed;
		if (rc == 0) {
			if (!removed)
				rc = put_locked(d, c, p, head);
			rt_mutex_unlock(&c->lock);
		}
		dir_chunk_unref(d, c);
	} while (rc == 0 && removed);
	return rc;
}

int dir_put(struct store *s, struct chunk_id id, const struct store_put *p)
{
	struct dir_store *d = dir_of(s);
	int rc = store_put_check(p);

	if (rc == 0)
		rc = dir_may_write(d, CHUNK_SLOTS_BYTES + p->data.len, p->reserved);
	if (rc != 0)
		return rc;
	struct dir_head *head = calloc(1, sizeof(*head));
	if (head == NULL)
		return -ENOMEM;
	head->refs = 1;
	rc = head_of_put(d, id, p, &head->h);
	if (rc == 0)
		rc = put_head(d, p, head);
	dir_head_unref(head);
	return rc;
}

/* --- delete ----------------------------------------------------------------------------------- */

static int delete_locked(struct dir_store *d, struct dir_chunk *c)
{
	char path[DIR_PATH_MAX];

	assert(rt_mutex_held(&c->lock) && !c->removed);
	dir_chunk_path(d, c->id, path);
	int rc = dir_note(d, rt_unlink(path));
	/*
	 * A later put of the same name starts with a new entry; current readers keep the open file.
	 * After an error the name may or may not exist: the next caller looks it up in the
	 * directory.
	 */
	if (rc == 0 || !c->frozen)
		dir_chunk_forget(d, c);
	/* An earlier delete may have removed the name without making the removal durable. */
	if (rc == -ENOENT) {
		int synced = dir_fan_sync_pending(d, c->id);
		return synced != 0 ? synced : rc;
	}
	if (rc != 0)
		return rc;
	d->space_known = false;
	return dir_fan_sync(d, chunk_fan(c->id, d->super.fan_bits));
}

int dir_delete(struct store *s, struct chunk_id id)
{
	struct dir_store *d = dir_of(s);
	struct dir_chunk *c;
	bool removed = false;
	int rc = dir_may_read(d);

	while (rc == 0) {
		rc = dir_chunk_ref(d, id, &c);
		if (rc != 0)
			break;
		/*
		 * Do not use dir_chunk_lock, which loads the chunk: a chunk that cannot be loaded
		 * can still be deleted.
		 */
		rc = c->creating ? -ENOENT : rt_mutex_lock(&c->lock);
		removed = c->removed;
		if (rc == 0) {
			rt_shield_enter();
			if (!removed)
				rc = delete_locked(d, c);
			rt_shield_leave();
			rt_mutex_unlock(&c->lock);
		}
		dir_chunk_unref(d, c);
		if (!removed)
			break;
	}
	return rc;
}
