// SPDX-License-Identifier: Apache-2.0
/*
 * Changing a chunk: a change writes the pages, then the slot that the current state does not use,
 * and then calls fdatasync once. Readers see the new state only after that. If writing pages fails,
 * the chunk is unchanged. If writing the slot or the sync fails, the medium may hold either state,
 * and the chunk is frozen.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "rt/rt.h"
#include "store/dir_impl.h"

/*
 * Writes the state *head to the chunk's file and makes it the current state. Takes ownership of
 * head.
 */
static int state_write_take(struct dir_store *d, struct dir_chunk *c, struct dir_head *head)
{
	assert(rt_mutex_held(&c->lock) && head->h.seq == c->head->h.seq + 1);
	int rc = dir_slot_write(d, c->file, &head->h, chunk_slot_of(head->h.seq));
	bool begun = rc != -ENOMEM;

	if (rc == 0 && !bug_planted(BUG_SYNC_SKIPPED)) {
		rc = rt_file_sync(c->file);
		rc = bug_planted(BUG_SYNC_ERROR_IGNORED) ? 0 : dir_note(d, rc);
	}
	if (rc != 0) {
		if (begun)
			dir_chunk_freeze(d, c);
		dir_head_unref(head);
		return rc;
	}
	dir_head_set_take(c, head);
	c->settled = false;
	return 0;
}

/* Returns a copy of the chunk's current head with the next state number and the given epoch. */
static struct dir_head *next_head(const struct dir_chunk *c, uint64_t epoch)
{
	struct dir_head *head = dir_head_new(&c->head->h);

	if (head != NULL) {
		head->h.seq++;
		head->h.epoch = epoch;
		head->h.prev_len = c->head->h.len;
	}
	return head;
}

/* Returns 0 if the chunk can be changed, else -EIO or -EROFS. */
static int changeable(const struct dir_chunk *c)
{
	if (c->frozen)
		return -EIO;
	return c->read_only ? -EROFS : 0;
}

/* --- append ----------------------------------------------------------------------------------- */

static int append_locked(struct dir_store *d, struct dir_chunk *c, uint64_t epoch, uint64_t off,
			 const struct store_data *data)
{
	struct chunk_stat st;
	int rc = changeable(c);

	assert(rt_mutex_held(&c->lock));
	if (rc != 0)
		return rc;
	chunk_head_stat(&c->head->h, &st);
	rc = store_append_check(&st, epoch, off, data->len);
	if (rc != 0)
		return rc;
	struct dir_head *head = next_head(c, epoch);
	if (head == NULL)
		return -ENOMEM;
	rc = units_append(&head->h, &d->shifts, data);
	if (rc == 0)
		rc = dir_pages_write(d, c->file, &c->head->h, data, NULL);
	if (rc != 0) {
		dir_head_unref(head);
		return rc;
	}
	rc = state_write_take(d, c, head);
	if (rc == 0)
		dir_wrote(d, data->len);
	return rc;
}

int dir_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
	       const struct store_data *data)
{
	struct dir_store *d = dir_of(s);
	struct dir_chunk *c;
	int rc = store_data_check(data);

	if (rc == 0)
		rc = dir_may_read(d);
	if (rc == 0)
		rc = dir_chunk_lock(d, id, &c);
	if (rc != 0)
		return rc;
	/* A fence needs no space, and must also work on a full or draining disk. */
	rc = data->len > 0 ? dir_may_write(d, data->len, false) : dir_may_seal(d);
	if (rc == 0) {
		rt_shield_enter();
		rc = append_locked(d, c, epoch, off, data);
		rt_shield_leave();
	}
	dir_chunk_unlock(d, c);
	return rc;
}

/* --- seal ------------------------------------------------------------------------------------- */

/*
 * Shortens the head h to len. Verifies the last unit completely before computing the CRC of its
 * shortened form.
 */
static int cut_head(struct dir_store *d, struct dir_chunk *c, struct chunk_head *h, uint64_t len)
{
	const struct chunk_head *now = &c->head->h;
	uint64_t unit = chunk_unit_bytes(now);
	uint64_t from = len & ~(unit - 1);
	uint64_t to = min_u64(from + unit, now->len);
	AUTO_FREE uint8_t *buf = dir_pages_alloc(unit);
	struct unit_piece piece = {.off = from, .len = to - from, .bytes = buf};
	struct units_range range = {.h = now,
				    .shifts = &d->shifts,
				    .pieces = &piece,
				    .piece_count = 1,
				    .off = from,
				    .len = len - from};
	uint32_t crc = 0;
	uint64_t bad;
	int rc = 0;

	assert(len < now->len);
	if (buf == NULL)
		return -ENOMEM;
	if (len > from) {
		rc = dir_units_read(d, c->file, now, from, to, buf);
		if (rc == 0)
			rc = units_verify(&range, &crc, &bad);
	}
	if (rc == -EBADMSG)
		return dir_note_damage(d, c->id, from, "unit");
	if (rc == 0)
		units_cut(h, &d->shifts, len, crc, buf + (chunk_paged(len) - from));
	return rc;
}

static int seal_locked(struct dir_store *d, struct dir_chunk *c, uint64_t epoch, uint64_t len)
{
	struct chunk_stat st;

	assert(rt_mutex_held(&c->lock));
	chunk_head_stat(&c->head->h, &st);
	int rc = store_seal_check(&st, epoch, len);
	if (rc == STORE_SEAL_DONE)
		return 0;
	if (rc == 0)
		rc = changeable(c);
	if (rc != 0)
		return rc;
	struct dir_head *head = next_head(c, epoch);
	if (head == NULL)
		return -ENOMEM;
	head->h.sealed = true;
	if (len < head->h.len)
		rc = cut_head(d, c, &head->h, len);
	if (rc != 0) {
		dir_head_unref(head);
		return rc;
	}
	rc = state_write_take(d, c, head);
	/* A seal is the last change of a chunk, so copy its state to the other slot now. */
	if (rc == 0)
		dir_settle(d, c);
	return rc;
}

int dir_seal(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len)
{
	struct dir_store *d = dir_of(s);
	struct dir_chunk *c;
	int rc = dir_may_seal(d);

	if (rc == 0)
		rc = dir_chunk_lock(d, id, &c);
	if (rc != 0)
		return rc;
	rt_shield_enter();
	rc = seal_locked(d, c, epoch, len);
	rt_shield_leave();
	dir_chunk_unlock(d, c);
	return rc;
}
