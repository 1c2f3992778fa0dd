// SPDX-License-Identifier: Apache-2.0
/* Reading chunks of a pool, and listing them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "rt/rt.h"
#include "store/pool_impl.h"

#define LIST_PAGE 256
#define TRIES 4

/* --- the form of a chunk
 * -------------------------------------------------------------------------- */

/* Completes a chunk for which a crash left rows or copies unwritten, before a caller sees it. */
static int chunk_complete(struct pool *p, struct pool_view *v)
{
	struct pool_chunk_lock hold;
	uint32_t written;
	int rc = pool_lock_chunk(p, &hold, v->id);

	if (rc != 0)
		return rc;
	rt_shield_enter();
	rc = pool_lookup(p, v->id, v);
	if (rc == 0 && v->form == POOL_COPIES && pool_is_incomplete(p, v))
		rc = pool_copies_sync(p, v);
	if (rc == 0 && pool_is_incomplete(p, v)) {
		/* Rows that cannot be written now count as rows of a member that is down. */
		pool_rebuild_missing(p, v, &written);
		rc = pool_lookup(p, v->id, v);
	}
	rt_shield_leave();
	pool_unlock_chunk(p, &hold);
	return rc;
}

/* Looks a chunk up and completes it. Caches the head of a coded chunk, unless a delete ran
 * during the lookup. */
static int look_first(struct pool *p, struct chunk_id id, struct pool_view *v)
{
	uint32_t deletes_before = *pool_delete_count(p, id);
	int rc = pool_check_id(id) != 0 ? -ENOENT : pool_lookup(p, id, v);

	if (rc == 0 && p->admin_state == STORE_ONLINE && pool_is_incomplete(p, v))
		rc = chunk_complete(p, v);
	if (rc == 0 && v->form == POOL_CODED && *pool_delete_count(p, id) == deletes_before)
		pool_head_store(p, v);
	return rc;
}

int pool_upper_label(struct pool *p, const struct pool_view *v, uint8_t out[STORE_LABEL_BYTES])
{
	bool coded = v->form == POOL_CODED;
	uint32_t n = coded ? pool_width(p) : p->record.shape.p + 1;
	int rc = -ENODATA;

	for (uint32_t i = 0; rc != 0 && i < n; i++) {
		if ((coded ? v->row_rc[i] : v->copy_rc[i]) != 0)
			continue;
		struct pool_job j = {
			.pool = p,
			.call = POOL_GET,
			.member = v->map.member[i],
			.id = pool_row_id(v->id, coded ? i : POOL_ROWS_MAX + i),
			.off = coded ? v->geo.row_len : 0,
			.len = STORE_LABEL_BYTES,
			.buf = out,
		};
		pool_jobs_run(&j, 1);
		rc = (int)j.rc;
	}
	return rc;
}

static void coded_stat(const struct pool_label *l, uint64_t epoch, struct chunk_stat *out)
{
	*out = (struct chunk_stat){
		.len = l->len,
		.capacity = l->len,
		.epoch = epoch,
		.crc = l->crc,
		.unit_bytes = (uint32_t)l->piece,
		.sealed = true,
	};
}

static int stat_once(struct pool *p, struct chunk_id id, struct chunk_stat *out)
{
	struct pool_view v;
	int rc = look_first(p, id, &v);

	if (rc != 0)
		return rc;
	if (v.form == POOL_CODED)
		coded_stat(&v.label, v.epoch, out);
	else
		rc = pool_copies_stat(p, &v, out);
	return rc != 0 ? rc : pool_upper_label(p, &v, out->label);
}

int pool_stat(struct store *s, struct chunk_id id, struct chunk_stat *out)
{
	struct pool *p = pool_of(s);
	int rc = p->admin_state == STORE_FAILED ? -EIO : -EAGAIN;

	/* Retry: a seal may turn copies into rows during the call. */
	for (int i = 0; i < TRIES && (rc == -EAGAIN || rc == -ENODATA); i++) {
		uint32_t deletes_before = *pool_delete_count(p, id);
		rc = stat_once(p, id, out);
		/* If the chunk was deleted and put again during the call, the label may be read
		 * at the place where the old chunk had it. */
		if (rc == 0 && *pool_delete_count(p, id) != deletes_before)
			rc = -EAGAIN;
	}
	return rc;
}

/* --- get -------------------------------------------------------------------------------------- */

/* Sets the range of each data row that bytes [off, end) need. */
static void row_ranges(struct pool_rows *r, const struct pool_geo *g, uint64_t off, uint64_t end)
{
	while (off < end) {
		struct pool_position pos = pool_geo_position(g, off);
		struct pool_row *row = &r->row[pos.row];
		uint64_t n = min_u64(pos.run, end - off);
		if (row->from == row->to)
			row->from = pos.row_off;
		row->to = pos.row_off + n;
		off += n;
	}
}

struct getting {
	struct pool *pool;
	struct pool_head head;
	struct pool_geo geo;
};

/* Reads one window: directly from the data rows; if that fails, decodes from the rows that can
 * be read. */
static int get_window(const struct getting *get, uint64_t off, uint8_t *buf, uint64_t len,
		      uint32_t *crc)
{
	struct pool *p = get->pool;
	const struct pool_geo *g = &get->geo;
	struct pool_map map;
	struct pool_rows r = {.pool = p, .id = get->head.id, .map = &map};
	bool wanted[POOL_ROWS_MAX] = {false};
	uint64_t from = UINT64_MAX, to = 0;

	pool_map_chunk(&p->place, &p->record, get->head.id, &map);
	row_ranges(&r, g, off, off + len);
	for (uint32_t i = 0; i < pool_width(p); i++)
		r.bad[i] = (get->head.bad[i / 8] >> (i % 8) & 1) != 0;
	for (uint32_t i = 0; i < g->k; i++) {
		wanted[i] = r.row[i].from < r.row[i].to;
		if (wanted[i]) {
			from = min_u64(from, r.row[i].from);
			to = max_u64(to, r.row[i].to);
		}
	}
	int rc = pool_rows_fetch(&r);
	if (rc == 0)
		rc = pool_rows_gather(&r, g, off, buf, len, crc);
	if (rc != 0 && rc != -ECANCELED && rc != -ETIME && rc != -ENOMEM) {
		pool_rows_free(&r);
		rc = pool_rows_read(&r, wanted, from, to);
		if (rc == 0)
			rc = pool_rows_gather(&r, g, off, buf, len, crc);
	}
	pool_rows_free(&r);
	return rc;
}

/* Reads in windows of `stripes` complete stripes, so that no piece is read twice. */
static int get_windows(const struct getting *get, uint64_t off, uint8_t *buf, uint64_t len,
		       uint64_t stripes, uint32_t *crc)
{
	uint64_t window = stripes * get->geo.piece * get->geo.k;
	int rc = 0;

	*crc = 0;
	for (uint64_t at = off; rc == 0 && at < off + len;) {
		uint64_t end = min_u64((at / window + 1) * window, off + len);
		uint32_t part;
		rc = get_window(get, at, buf + (at - off), end - at, &part);
		/* Different rows may be damaged in different stripes: too many for the window,
		 * but not for each stripe. */
		if (rc == -ENODATA && stripes > 1)
			rc = get_windows(get, at, buf + (at - off), end - at, 1, &part);
		if (rc == 0)
			*crc = crc32c_combine(*crc, part, end - at);
		at = end;
	}
	return rc;
}

static int get_coded(struct pool *p, const struct pool_head *head, uint64_t off, uint8_t *buf,
		     uint64_t len, uint32_t *crc)
{
	const struct pool_label *l = &head->label;
	struct getting get = {.pool = p, .head = *head};

	pool_geo_init(&get.geo, l->k, l->p, l->piece, l->len);
	uint64_t stripes = max_u64(POOL_WINDOW_BYTES / (get.geo.piece * get.geo.k), 1);
	return get_windows(&get, off, buf, len, stripes, crc);
}

static int get_once(struct pool *p, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
		    uint32_t *crc)
{
	const struct pool_head *found = pool_head_find(p, id);
	struct pool_head head;
	struct chunk_stat st;

	if (found == NULL) {
		struct pool_view v;
		int rc = look_first(p, id, &v);
		if (rc != 0)
			return rc;
		if (v.form == POOL_COPIES) {
			rc = pool_copies_stat(p, &v, &st);
			if (rc == 0)
				rc = store_get_check(&st, off, len);
			return rc != 0 ? rc : pool_copies_get(p, &v, off, buf, len, crc);
		}
		pool_head_from_view(p, &v, &head);
	} else {
		head = *found;
	}
	coded_stat(&head.label, 0, &st);
	int rc = store_get_check(&st, off, len);
	return rc != 0 ? rc : get_coded(p, &head, off, buf, len, crc);
}

int pool_get(struct store *s, struct chunk_id id, uint64_t off, void *buf, uint64_t len,
	     uint32_t *crc)
{
	struct pool *p = pool_of(s);
	int rc = p->admin_state == STORE_FAILED ? -EIO : -EAGAIN;

	/* Retry: rows may move, and copies may become rows, during the call. */
	for (int i = 0; i < TRIES && (rc == -EAGAIN || rc == -ENODATA); i++) {
		uint32_t deletes_before = *pool_delete_count(p, id);
		rc = get_once(p, id, off, buf, len, crc);
		/* If the chunk was deleted and put again during the call, some rows may be of
		 * the old chunk. */
		if (rc == 0 && *pool_delete_count(p, id) != deletes_before)
			rc = -EAGAIN;
		if (rc == -ENODATA || rc == -EAGAIN)
			pool_head_forget(p, id);
	}
	return rc;
}

/* --- list ------------------------------------------------------------------------------------- */

/* Reports whether a member has this row or copy of the chunk. */
static bool is_stored(struct pool *p, const struct pool_map *map, struct chunk_id id, uint32_t row)
{
	struct pool_job j = {
		.pool = p,
		.call = POOL_STAT,
		.member = map->member[row % POOL_ROWS_MAX],
		.id = pool_row_id(id, row),
	};
	pool_jobs_run(&j, 1);
	return j.rc == 0;
}

/*
 * Reports whether this row or copy, which the member lists, is the one by which the pool lists the
 * chunk, so that each chunk is listed once. It is the one on the first member that has a row or
 * copy of the chunk and can be listed; of a row and a copy on that member it is the row.
 */
static bool lists_chunk(struct pool *p, struct chunk_id id, uint32_t row, uint32_t member)
{
	struct pool_map map;
	uint32_t width = pool_width(p), copies = p->record.shape.p + 1;

	pool_map_chunk(&p->place, &p->record, id, &map);
	if ((row < POOL_ROWS_MAX ? row >= width : row - POOL_ROWS_MAX >= copies) ||
	    map.member[row % POOL_ROWS_MAX] != member)
		return false;
	for (uint32_t r = 0; r < width; r++) {
		uint16_t other = map.member[r];
		if (other > member || (other != member && p->unlisted[other]))
			continue;
		bool row_too = other != member || row >= POOL_ROWS_MAX;
		if (row_too && is_stored(p, &map, id, r))
			return false;
		if (other != member && r < copies && is_stored(p, &map, id, POOL_ROWS_MAX + r))
			return false;
	}
	return true;
}

int64_t pool_member_list(struct pool *p, uint32_t member, struct store_cursor *at,
			 struct chunk_id *out, size_t max)
{
	int64_t n = store_pool_given_up(&p->base, member) ? 0 : -ENODEV;

	if (p->members[member] != NULL) {
		pool_call_begin(p, member);
		n = store_list(p->members[member], at, out, max);
		pool_call_end(p, member);
	}
	p->missed_count[member] += n < 0;
	p->unlisted[member] = n < 0;
	return n;
}

/*
 * The cursor of the pool packs the number of members that were skipped because of errors, the
 * current member, and the cursor of that member. Up to p members may be skipped, because other
 * members list their chunks.
 */
#define PASSED_SHIFT 48
#define MEMBER_SHIFT 32

void pool_page_set_incomplete(const struct pool *p, struct store_cursor *at)
{
	if (at->major >> PASSED_SHIFT <= p->record.shape.p)
		at->major += (uint64_t)(p->record.shape.p + 1) << PASSED_SHIFT;
}

int64_t pool_page(struct pool *p, struct store_cursor *at, struct chunk_id *out, size_t max,
		  uint64_t *failed)
{
	size_t page = max < LIST_PAGE ? max : LIST_PAGE;
	uint64_t passed = at->major >> PASSED_SHIFT;
	size_t count = 0;

	while (count == 0) {
		uint32_t member = (uint32_t)(at->major >> MEMBER_SHIFT & UINT16_MAX);
		struct store_cursor below = *at;
		if (member >= p->record.shape.members)
			return passed > p->record.shape.p ? -EIO : 0;
		below.major = at->major & UINT32_MAX;
		int64_t n = pool_member_list(p, member, &below, out, page);
		if (n == -ECANCELED || n == -ETIME)
			return n;
		if (n > 0 && below.major > UINT32_MAX)
			n = -EIO;
		if (n < 0 && failed != NULL)
			++*failed;
		else if (n < 0)
			passed++;
		if (n <= 0) {
			below = (struct store_cursor){0};
			member++;
		}
		*at = below;
		at->major |= passed << PASSED_SHIFT | (uint64_t)member << MEMBER_SHIFT;
		for (int64_t i = 0; i < n; i++) {
			uint32_t row = out[i].index & 0xff;
			struct chunk_id id = {.block = out[i].block, .index = out[i].index >> 8};
			if (id.block <= POOL_BLOCK_MAX && lists_chunk(p, id, row, member))
				out[count++] = id;
		}
	}
	return (int64_t)count;
}

int64_t pool_list(struct store *s, struct store_cursor *at, struct chunk_id *out, size_t max)
{
	struct pool *p = pool_of(s);
	size_t count = 0;

	if (p->admin_state == STORE_FAILED)
		return -EIO;
	if (max == 0)
		return -EINVAL;
	while (count == 0) {
		int64_t n = pool_page(p, at, out, max, NULL);
		if (n <= 0)
			return n;
		for (int64_t i = 0; i < n; i++) {
			struct pool_view v;
			int rc = pool_lookup(p, out[i], &v);
			if (rc == -ECANCELED || rc == -ETIME)
				return rc;
			/* List lost chunks too, so that they are repaired. */
			if (rc != -ENOENT)
				out[count++] = out[i];
		}
	}
	return (int64_t)count;
}
