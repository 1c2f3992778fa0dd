// SPDX-License-Identifier: Apache-2.0
/*
 * Reading. A read always reads and verifies complete units. If the caller's buffer is aligned like the
 * pages of the chunk, the pages that it wants completely are read straight into it, and only the
 * remaining bytes of the first and the last unit go to a buffer of the store:
 *
 *      chunk      |-----unit-----|-----unit-----|-----unit-----|
 *      wanted            [.......................]
 *      read to    |front| caller's pages      |back            |
 *
 * Otherwise everything is read to a buffer of the store, verified, and copied.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/crc.h"
#include "rt/rt.h"
#include "store/dir_impl.h"

uint64_t dir_window(const struct chunk_head *h)
{
	return max_u64(DIR_WINDOW_BYTES, chunk_unit_bytes(h));
}

/*
 * Reads bytes of a chunk's file and fills the given buffers exactly. -EBADMSG if the file is too
 * short.
 */
static int read_pages(struct dir_store *d, struct rt_file *f, const struct chunk_head *h,
		      const struct iovec *iov, int n, uint64_t bytes, uint64_t off)
{
	if (bytes == 0)
		return 0;
	int64_t got = rt_file_readv(f, iov, n, CHUNK_SLOTS_BYTES + off);
	if (got < 0)
		return dir_note_read(d, got, h->id, off);
	return (uint64_t)got == bytes ? 0 : -EBADMSG;
}

/* Reads bytes [from, to) of a chunk into buf without verifying them; `to` may lie in the tail. */
static int read_window(struct dir_store *d, struct rt_file *f, const struct chunk_head *h,
		       uint64_t from, uint64_t to, uint8_t *buf)
{
	uint64_t pages_end = chunk_paged(to);
	struct iovec iov = {.iov_base = buf, .iov_len = pages_end - from};
	int rc = read_pages(d, f, h, &iov, 1, pages_end - from, from);

	assert(from % CHUNK_PAGE_BYTES == 0 && from <= to && to <= h->len);
	if (rc == 0)
		memcpy(buf + (pages_end - from), h->tail, to - pages_end);
	return rc;
}

int dir_units_read(struct dir_store *d, struct rt_file *f, const struct chunk_head *h,
		   uint64_t from, uint64_t to, uint8_t *buf)
{
	struct unit_piece piece = {.off = from, .len = to - from, .bytes = buf};
	struct units_range range = {.h = h,
				    .shifts = &d->shifts,
				    .pieces = &piece,
				    .piece_count = 1,
				    .off = from,
				    .len = to - from};
	uint32_t crc;
	uint64_t bad;
	int rc = read_window(d, f, h, from, to, buf);

	assert(from % chunk_unit_bytes(h) == 0);
	assert(to == h->len || to % chunk_unit_bytes(h) == 0);
	return rc != 0 ? rc : units_verify(&range, &crc, &bad);
}

/* --- get -------------------------------------------------------------------------------------- */

struct range_read {
	struct dir_store *d;
	struct rt_file *file;
	const struct chunk_head *h;
	uint64_t off, len; /* wanted range of the chunk, in bytes */
	uint8_t *buf;
	/* range of the chunk to read: complete units, the last up to the end of the chunk */
	uint64_t unit_from, unit_to;
	uint32_t crc;
	uint64_t bad_unit;
};

/* Reads the wanted range through a buffer of the store and copies it to the caller's buffer. */
static int range_copied(struct range_read *r)
{
	uint64_t window = min_u64(dir_window(r->h), r->unit_to - r->unit_from);
	AUTO_FREE uint8_t *own = dir_pages_alloc(window);
	uint32_t crc = 0;

	if (own == NULL)
		return -ENOMEM;
	for (uint64_t at = r->unit_from; at < r->unit_to; at += window) {
		uint64_t to = min_u64(at + window, r->unit_to);
		uint64_t from = max_u64(at, r->off);
		uint64_t end = min_u64(to, r->off + r->len);
		struct unit_piece piece = {.off = at, .len = to - at, .bytes = own};
		struct units_range range = {.h = r->h,
					    .shifts = &r->d->shifts,
					    .pieces = &piece,
					    .piece_count = 1,
					    .off = from,
					    .len = end - from};
		int rc = read_window(r->d, r->file, r->h, at, to, own);
		if (rc == 0)
			rc = units_verify(&range, &crc, &r->bad_unit);
		if (rc != 0)
			return rc;
		memcpy(r->buf + (from - r->off), own + (from - at), end - from);
		/* Most reads fit in one window, so there are no CRCs to combine. */
		r->crc = at == r->unit_from ? crc : crc32c_combine(r->crc, crc, end - from);
	}
	return 0;
}

/*
 * Reads the pages [front_end, back_start) straight into the caller's buffer, and the bytes before
 * and after these pages into a buffer of the store.
 */
static int range_straight(struct range_read *r, uint64_t front_end, uint64_t back_start)
{
	uint64_t front_len = front_end - r->unit_from;
	uint64_t back_len = r->unit_to - back_start;
	uint64_t back_pages = chunk_paged(r->unit_to) - back_start;
	uint64_t end = r->off + r->len;

	assert(front_end < back_start && front_end >= r->off && back_start <= end);
	/* Allocate one more page, for the tail. */
	AUTO_FREE uint8_t *own = dir_pages_alloc(front_len + back_pages + CHUNK_PAGE_BYTES);
	if (own == NULL)
		return -ENOMEM;
	uint8_t *back = own + front_len;
	uint8_t *middle = r->buf + (front_end - r->off);
	struct iovec all[3] = {
		{.iov_base = own, .iov_len = front_len},
		{.iov_base = middle, .iov_len = back_start - front_end},
		{.iov_base = back, .iov_len = back_pages},
	};
	struct iovec iov[3];
	int n = 0;
	for (int i = 0; i < 3; i++)
		if (all[i].iov_len > 0)
			iov[n++] = all[i];
	int rc = read_pages(r->d, r->file, r->h, iov, n,
			    front_len + (back_start - front_end) + back_pages, r->unit_from);
	if (rc != 0)
		return rc;
	memcpy(back + back_pages, r->h->tail, back_len - back_pages);
	struct unit_piece pieces[3] = {
		{.off = r->unit_from, .len = front_len, .bytes = own},
		{.off = front_end, .len = back_start - front_end, .bytes = middle},
		{.off = back_start, .len = back_len, .bytes = back},
	};
	struct units_range range = {.h = r->h,
				    .shifts = &r->d->shifts,
				    .pieces = pieces,
				    .piece_count = 3,
				    .off = r->off,
				    .len = r->len};
	rc = units_verify(&range, &r->crc, &r->bad_unit);
	if (rc != 0)
		return rc;
	memcpy(r->buf, own + (r->off - r->unit_from), front_end - r->off);
	memcpy(r->buf + (back_start - r->off), back, end - back_start);
	return 0;
}

static int range_read(struct range_read *r)
{
	uint64_t unit = chunk_unit_bytes(r->h);
	uint64_t end = r->off + r->len;
	uint64_t front_end = chunk_paged(r->off + CHUNK_PAGE_BYTES - 1);
	uint64_t back_start = chunk_paged(end);

	if (r->len == 0)
		return 0;
	r->unit_from = r->off & ~(unit - 1);
	r->unit_to = min_u64((end + unit - 1) & ~(unit - 1), r->h->len);
	if (((uintptr_t)r->buf - r->off) % CHUNK_PAGE_BYTES == 0 && front_end < back_start)
		return range_straight(r, front_end, back_start);
	return range_copied(r);
}

int dir_get(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
	    uint32_t *crc)
{
	struct dir_store *d = dir_of(s);
	struct dir_chunk *c;
	struct chunk_stat st;
	int rc = dir_may_read(d);

	if (rc == 0)
		rc = dir_chunk_open(d, id, &c);
	if (rc != 0)
		return rc;
	/* Concurrent appends write beyond the length of this head and create new heads. */
	struct dir_head *head = dir_head_ref(c->head);
	struct range_read r = {
		.d = d, .file = c->file, .h = &head->h, .off = off, .len = len, .buf = buf};
	chunk_head_stat(&head->h, &st);
	rc = store_get_check(&st, off, len);
	if (rc == 0)
		rc = range_read(&r);
	if (rc == -EBADMSG)
		dir_note_damage(d, id, r.bad_unit << head->h.unit_log2, "unit");
	if (rc == 0)
		*crc = r.crc;
	dir_head_unref(head);
	dir_chunk_unref(d, c);
	return rc;
}

/* --- scan ------------------------------------------------------------------------------------- */

struct scan {
	struct dir_store *d;
	struct dir_chunk *c;
	const struct chunk_head *h;
	struct store_range *bad;
	size_t max;
	size_t count;
};

static void scan_bad(struct scan *sc, uint64_t from, uint64_t to)
{
	if (sc->count > 0 && sc->bad[sc->count - 1].off + sc->bad[sc->count - 1].len == from)
		sc->bad[sc->count - 1].len += to - from;
	else if (sc->count < sc->max)
		sc->bad[sc->count++] = (struct store_range){.off = from, .len = to - from};
}

/* Reads and verifies the units in [from, to) one by one, and lists the damaged ones. */
static int scan_units(struct scan *sc, uint64_t from, uint64_t to, uint8_t *buf)
{
	uint64_t unit = chunk_unit_bytes(sc->h);

	for (uint64_t at = from; at < to; at += unit) {
		uint64_t end = min_u64(at + unit, to);
		int rc = dir_units_read(sc->d, sc->c->file, sc->h, at, end, buf);
		if (rc == -EBADMSG)
			dir_note_damage(sc->d, sc->c->id, at, "unit");
		if (rc == -EBADMSG || rc == -EIO)
			scan_bad(sc, at, end);
		else if (rc != 0)
			return rc;
		if ((rc = dir_may_read(sc->d)) != 0)
			return rc;
	}
	return 0;
}

/* Rewrites a slot whose bytes on the medium differ from the head in memory. */
static int scan_slot(struct scan *sc, unsigned slot, const uint8_t *found, const uint8_t *want)
{
	struct dir_chunk *c = sc->c;
	const struct chunk_head *h = &c->head->h;
	size_t len = CHUNK_PAGE_BYTES + h->len % CHUNK_PAGE_BYTES;

	assert(slot < 2 && rt_mutex_held(&c->lock));
	if (found != NULL && memcmp(found + (size_t)slot * CHUNK_SLOT_BYTES, want, len) == 0)
		return 0;
	dir_note_damage(sc->d, c->id, 0, "slot");
	if (c->read_only || c->frozen)
		return 0;
	int rc = dir_slot_write(sc->d, c->file, h, slot);
	return rc != 0 ? rc : dir_note(sc->d, rt_file_sync(c->file));
}

static int scan_slots(struct scan *sc)
{
	const struct chunk_head *h = &sc->c->head->h;
	AUTO_FREE uint8_t *found = dir_pages_alloc(CHUNK_SLOTS_BYTES);
	AUTO_FREE uint8_t *want = malloc(CHUNK_SLOT_BYTES);

	if (found == NULL || want == NULL)
		return -ENOMEM;
	chunk_slot_encode(h, want);
	int64_t n = rt_file_read(sc->c->file, found, CHUNK_SLOTS_BYTES, 0);
	if (n < 0 && n != -EIO)
		return dir_note(sc->d, n);
	const uint8_t *bytes = n == CHUNK_SLOTS_BYTES ? found : NULL;
	int rc = scan_slot(sc, chunk_slot_of(h->seq), bytes, want);
	if (rc == 0 && sc->c->settled)
		rc = scan_slot(sc, 1 - chunk_slot_of(h->seq), bytes, want);
	return rc;
}

static int scan_chunk(struct scan *sc)
{
	if (bug_planted(BUG_SCRUB_BLIND))
		return 0;
	uint64_t window = dir_window(sc->h);
	AUTO_FREE uint8_t *buf = dir_pages_alloc(window);
	int rc = 0;

	if (buf == NULL)
		return -ENOMEM;
	if (!units_agree(sc->h, &sc->d->shifts))
		return dir_note_damage(sc->d, sc->c->id, 0, "head");
	for (uint64_t at = 0; rc == 0 && at < sc->h->len; at += window) {
		uint64_t to = min_u64(at + window, sc->h->len);
		rc = dir_units_read(sc->d, sc->c->file, sc->h, at, to, buf);
		if (rc == -EBADMSG || rc == -EIO)
			rc = scan_units(sc, at, to, buf);
	}
	if (rc != 0)
		return rc;
	/* The chunk's lock guards the slots in the file. */
	rc = rt_mutex_lock(&sc->c->lock);
	if (rc != 0)
		return rc;
	rt_shield_enter();
	rc = sc->c->removed ? 0 : scan_slots(sc);
	rt_shield_leave();
	rt_mutex_unlock(&sc->c->lock);
	return rc;
}

int64_t dir_scan(struct store *s, struct chunk_id id, struct store_range *bad, size_t max)
{
	struct dir_store *d = dir_of(s);
	struct scan sc = {.d = d, .bad = bad, .max = max};
	int rc = dir_may_read(d);

	if (rc == 0 && max == 0)
		rc = -EINVAL;
	if (rc == 0)
		rc = dir_chunk_open(d, id, &sc.c);
	if (rc != 0)
		return rc;
	struct dir_head *head = dir_head_ref(sc.c->head);
	sc.h = &head->h;
	rc = scan_chunk(&sc);
	dir_head_unref(head);
	dir_chunk_unref(d, sc.c);
	return rc != 0 ? rc : (int64_t)sc.count;
}
