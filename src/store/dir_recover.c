// SPDX-License-Identifier: Apache-2.0
/*
 * Loading a chunk. The contents of a settled chunk are used without verification (invariant 3 of
 * format.c). In a chunk that is not settled the last change may be incomplete. It is rolled forward or
 * back now, and the outcome never changes again (invariant 4):
 *
 *   added bytes match        roll forward: write them again and sync, so that they are durable even if
 *                            they were only in the page cache, or an earlier sync had failed
 *   they do not match        roll back to the previous state, which was synced
 *   the other slot is bad    there is no previous state: units that do not match are damaged, and reads
 *                            report that
 *
 * A crash during recovery leaves a chunk for which the next recovery decides the same. Since the decision
 * is written, one faulty read must not cause it: bytes that would cause a change of the medium are read
 * twice.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rt/rt.h"
#include "store/dir_impl.h"

static int file_open(struct dir_store *d, struct dir_chunk *c)
{
	char path[DIR_PATH_MAX];
	unsigned direct = d->direct ? RT_DIRECT : 0;

	dir_chunk_path(d, c->id, path);
	int rc = rt_file_open(&c->file, path, RT_READ | RT_WRITE | direct);
	if (rc == -EROFS || rc == -EACCES) {
		c->read_only = true;
		rc = rt_file_open(&c->file, path, RT_READ | direct);
	}
	return dir_note(d, rc);
}

/*
 * Verifies the bytes that the last change of the chunk added. With `write` set, also writes the
 * pages of these bytes again.
 */
static int last_change_verify(struct dir_store *d, struct dir_chunk *c, const struct chunk_head *h,
			      bool write)
{
	uint64_t added = min_u64(h->prev_len, h->len);
	uint64_t first_page = chunk_paged(added);
	uint64_t window = dir_window(h);
	AUTO_FREE uint8_t *buf = dir_pages_alloc(window);
	int rc = 0;

	if (buf == NULL)
		return -ENOMEM;
	uint64_t at = added & ~(chunk_unit_bytes(h) - 1);
	for (; rc == 0 && at < h->len && added < h->len; at += window) {
		uint64_t to = min_u64(at + window, h->len);
		rc = dir_units_read(d, c->file, h, at, to, buf);
		uint64_t from = max_u64(at, first_page);
		if (rc == 0 && write && from < chunk_paged(to))
			rc = dir_note(d, rt_file_write(c->file, buf + (from - at),
						       chunk_paged(to) - from,
						       CHUNK_SLOTS_BYTES + from));
	}
	return rc;
}

/* Writes the state h to slot `write_slot` of the chunk's file and syncs the file. */
static int slot_write_sync(struct dir_store *d, struct dir_chunk *c, const struct chunk_head *h,
			   unsigned write_slot)
{
	int rc = dir_slot_write(d, c->file, h, write_slot);

	assert(write_slot < 2 && !c->read_only);
	return rc != 0 ? rc : dir_note(d, rt_file_sync(c->file));
}

static int roll_forward(struct dir_store *d, struct dir_chunk *c, const struct chunk_head *h)
{
	int rc = last_change_verify(d, c, h, true);

	if (rc == 0)
		rc = slot_write_sync(d, c, h, chunk_slot_of(h->seq));
	/* The previous state is no longer needed: overwrite its slot with the current state. */
	return rc != 0 ? rc : slot_write_sync(d, c, h, 1 - chunk_slot_of(h->seq));
}

static int recover(struct dir_store *d, struct dir_chunk *c, const struct chunk_slots *slots,
		   const struct chunk_head **out)
{
	const struct chunk_head *h = slots->newest;
	int rc = last_change_verify(d, c, h, false);

	if (rc == -EBADMSG)
		rc = last_change_verify(d, c, h, false);

	*out = h;
	if (rc == -EBADMSG && slots->has_older) {
		d->rolled_back++;
		log_warn("append_rolled_back",
			 "disk=%" PRIu64 " block=%" PRIu64 " index=%" PRIu32 " from=%" PRIu64
			 " to=%" PRIu64,
			 d->super.disk, c->id.block, c->id.index, h->len, slots->older->len);
		*out = slots->older;
		return c->read_only ? 0
				    : slot_write_sync(d, c, slots->older, chunk_slot_of(h->seq));
	}
	if (rc == -EBADMSG) {
		dir_note_damage(d, c->id, h->prev_len, "last_append");
		return c->read_only ? 0 : slot_write_sync(d, c, h, 1 - chunk_slot_of(h->seq));
	}
	if (rc != 0 || c->read_only)
		return rc;
	return roll_forward(d, c, h);
}

/* Checks that the chunk's file is not shorter than the length in the head h requires. */
static int size_check(struct dir_store *d, struct dir_chunk *c, const struct chunk_head *h)
{
	uint64_t size;
	int rc = dir_note(d, rt_file_size(c->file, &size));

	if (rc == 0 && size < CHUNK_SLOTS_BYTES + chunk_paged(h->len))
		rc = dir_note_damage(d, c->id, size, "short_file");
	return rc;
}

/* Reads the slots of a chunk a second time and compares them with `bytes`, the first reading. */
static int read_again(struct dir_store *d, struct dir_chunk *c, const uint8_t *bytes)
{
	AUTO_FREE uint8_t *again = dir_pages_alloc(CHUNK_SLOTS_BYTES);

	if (again == NULL)
		return -ENOMEM;
	int64_t n = rt_file_read(c->file, again, CHUNK_SLOTS_BYTES, 0);
	if (n < 0)
		return dir_note(d, n);
	if (n == CHUNK_SLOTS_BYTES && memcmp(again, bytes, CHUNK_SLOTS_BYTES) == 0)
		return 0;
	dir_note_damage(d, c->id, 0, "changing_slots");
	return dir_note(d, -EIO);
}

static int load(struct dir_store *d, struct dir_chunk *c, uint8_t *bytes, struct chunk_head *heads)
{
	struct chunk_slots slots;
	const struct chunk_head *h;
	int64_t n = rt_file_read(c->file, bytes, CHUNK_SLOTS_BYTES, 0);

	if (n < 0)
		return dir_note(d, n);
	int rc = chunk_slots_decode(bytes, (size_t)n, c->id, d->super.disk, heads, &slots);
	if (rc == -EBADMSG)
		return dir_note_damage(d, c->id, 0, "head");
	if (rc != 0)
		return rc;
	h = slots.newest;
	if (!slots.settled)
		rc = read_again(d, c, bytes);
	if (rc == 0 && !slots.settled)
		rc = recover(d, c, &slots, &h);
	if (rc == 0)
		rc = size_check(d, c, h);
	if (rc != 0)
		return rc;
	c->head = dir_head_new(h);
	c->settled = true;
	return c->head != NULL ? 0 : -ENOMEM;
}

int dir_chunk_load(struct dir_store *d, struct dir_chunk *c)
{
	AUTO_FREE uint8_t *bytes = dir_pages_alloc(CHUNK_SLOTS_BYTES);
	AUTO_FREE struct chunk_head *heads = malloc(2 * sizeof(*heads));

	assert(rt_mutex_held(&c->lock) && c->head == NULL && c->file == NULL);
	if (bytes == NULL || heads == NULL)
		return -ENOMEM;
	int rc = file_open(d, c);
	if (rc == -ENOENT) {
		int synced = dir_fan_sync_pending(d, c->id);
		return synced != 0 ? synced : rc;
	}
	if (rc != 0)
		return rc;
	/*
	 * Loading must not end early on a deadline or a cancellation of this caller: other callers
	 * wait for its result.
	 */
	rt_shield_enter();
	rc = load(d, c, bytes, heads);
	rt_shield_leave();
	if (rc != 0) {
		rt_file_close(c->file);
		c->file = NULL;
		c->read_only = false;
	}
	return rc;
}
