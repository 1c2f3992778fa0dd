// SPDX-License-Identifier: Apache-2.0
/*
 * Repair of one chunk. Damage is recorded per stripe and row; consecutive stripes with the same
 * damage are rebuilt together. A row with any damage is written again completely, since it is one
 * chunk of its member: its intact stripes are read, the others are decoded.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/hash.h"
#include "rt/rt.h"
#include "store/pool_impl.h"

/* --- damage ----------------------------------------------------------------------------------- */

static int damage_alloc(struct pool_damage *d, const struct pool *p, const struct pool_view *v)
{
	*d = (struct pool_damage){.stripes = v->geo.stripes, .width = pool_width(p)};
	d->bad = calloc(max_u64(d->stripes, 1) * d->width, 1);
	return d->bad != NULL ? 0 : -ENOMEM;
}

void pool_damage_free(struct pool_damage *d)
{
	free(d->bad);
	d->bad = NULL;
}

static void damage_range(struct pool_damage *d, const struct pool_geo *g, uint32_t row,
			 uint64_t from, uint64_t to)
{
	assert(row < d->width && from <= to);
	d->any = true;
	d->end[row] = d->end[row] || to > g->row_len;
	for (uint64_t s = from / g->piece; s < d->stripes && s * g->piece < to; s++)
		d->bad[s * d->width + row] = 1;
}

static uint32_t damage_count(const struct pool_damage *d, uint64_t stripe)
{
	uint32_t n = 0;

	assert(stripe < d->stripes);
	for (uint32_t r = 0; r < d->width; r++)
		n += d->bad[stripe * d->width + r];
	return n;
}

static void damage_sum_up(struct pool_damage *d, uint32_t p)
{
	for (uint64_t s = 0; s < d->stripes; s++)
		d->lost = d->lost || damage_count(d, s) > p;
}

/* Marks the rows of a chunk that are not present as damaged in all stripes. */
static void damage_missing(struct pool_damage *d, const struct pool_view *v)
{
	for (uint32_t r = 0; r < d->width; r++)
		if (v->row_rc[r] != 0)
			damage_range(d, &v->geo, r, 0, max_u64(v->geo.row_len, 1));
}

static uint64_t damaged_key(struct chunk_id id)
{
	return hash64_u64s(id.block, id.index);
}

bool pool_may_be_damaged(const struct pool *p, struct chunk_id id)
{
	return p->all_may_be_damaged || map_get(&p->damaged_chunks, damaged_key(id)) != NULL;
}

void pool_note_damaged(struct pool *p, struct chunk_id id, bool damaged)
{
	if (!damaged)
		(void)map_remove(&p->damaged_chunks, damaged_key(id));
	else if (!pool_may_be_damaged(p, id) &&
		 map_put(&p->damaged_chunks, damaged_key(id), p) != 0)
		p->all_may_be_damaged = true;
}

int pool_damage_from_view(struct pool *p, const struct pool_view *v, struct pool_damage *d)
{
	int rc = damage_alloc(d, p, v);

	if (rc == 0) {
		damage_missing(d, v);
		damage_sum_up(d, p->record.shape.p);
	}
	return rc;
}

int pool_damage_scan(struct pool *p, const struct pool_view *v, struct pool_damage *d)
{
	uint32_t width = pool_width(p);
	AUTO_FREE struct pool_job *jobs = pool_jobs_new(p, width, POOL_SCAN);

	assert(v->form == POOL_CODED);
	if (jobs == NULL)
		return -ENOMEM;
	int rc = damage_alloc(d, p, v);
	if (rc != 0)
		return rc;
	damage_missing(d, v);
	for (uint32_t r = 0; r < width; r++) {
		jobs[r].member = v->row_rc[r] == 0 ? v->map.member[r] : POOL_NOWHERE;
		jobs[r].id = pool_row_id(v->id, r);
	}
	pool_jobs_run(jobs, width);
	for (uint32_t r = 0; r < width; r++) {
		if (jobs[r].rc == -ECANCELED || jobs[r].rc == -ETIME)
			return (int)jobs[r].rc;
		if (v->row_rc[r] != 0)
			continue;
		/*
		 * The row has more damaged ranges than can be listed, or its member did not answer:
		 * the row counts as damaged in all stripes.
		 */
		if (jobs[r].rc < 0 || jobs[r].rc == POOL_SCAN_RANGES)
			damage_range(d, &v->geo, r, 0, max_u64(v->geo.row_len, 1));
		for (int64_t i = 0; i < jobs[r].rc; i++)
			damage_range(d, &v->geo, r, jobs[r].bad[i].off,
				     jobs[r].bad[i].off + jobs[r].bad[i].len);
	}
	damage_sum_up(d, p->record.shape.p);
	return 0;
}

/* --- rebuilding rows -------------------------------------------------------------------------- */

/*
 * Pieces that the caller of store_pool_patch supplied, at their place in the rows. given[stripe *
 * width + row] is set for each supplied piece.
 */
struct supplied {
	uint8_t *given;
	uint8_t *rows[POOL_ROWS_MAX];
};

struct row_rebuild {
	struct pool *pool;
	struct pool_view *v;
	const struct pool_damage *d;
	/* pieces from the caller of store_pool_patch; may be NULL */
	const struct supplied *supplied;
	bool all_data; /* fetch all data rows, so that the CRC of the chunk can be checked */
	bool target[POOL_ROWS_MAX]; /* true for the rows to write */
	/*
	 * Buffers of row_len bytes: one for each row to write and, with all_data, for each data
	 * row.
	 */
	uint8_t *row[POOL_ROWS_MAX];
	uint32_t crc[POOL_ROWS_MAX]; /* CRC of the bytes in row[] so far */
	uint8_t label[STORE_LABEL_BYTES];
	bool label_got;
};

static void row_rebuild_fini(struct row_rebuild *m)
{
	for (uint32_t r = 0; r < POOL_ROWS_MAX; r++)
		free(m->row[r]);
}

static int row_rebuild_init(struct row_rebuild *m)
{
	uint64_t len = (m->v->geo.row_len + 4096) / 4096 * 4096;

	for (uint32_t r = 0; r < m->d->width; r++) {
		for (uint64_t s = 0; s < m->d->stripes; s++)
			m->target[r] = m->target[r] || m->d->bad[s * m->d->width + r] != 0;
		/* A chunk of length 0 has rows without stripes, so look at the row itself too. */
		m->target[r] = m->target[r] || m->v->row_rc[r] != 0 || m->d->end[r];
		if (!m->target[r] && !(m->all_data && r < m->v->geo.k))
			continue;
		m->row[r] = aligned_alloc(4096, len);
		if (m->row[r] == NULL)
			return -ENOMEM;
	}
	return 0;
}

static bool same_damage(const struct row_rebuild *m, uint64_t a, uint64_t b)
{
	uint32_t w = m->d->width;
	if (memcmp(m->d->bad + a * w, m->d->bad + b * w, w) != 0)
		return false;
	return m->supplied == NULL ||
	       memcmp(m->supplied->given + a * w, m->supplied->given + b * w, w) == 0;
}

/*
 * Rebuilds stripes [first, end) of a chunk, which have the same damage. With `label` set, also
 * reads the caller's label, which is stored after a row.
 */
static int rebuild_stripes_try(struct row_rebuild *m, uint64_t first, uint64_t end, bool label)
{
	const struct pool_geo *g = &m->v->geo;
	uint64_t from = first * g->piece;
	uint64_t to = (end - 1) * g->piece + pool_geo_piece(g, end - 1);
	struct pool_rows r = {.pool = m->pool, .id = m->v->id, .map = &m->v->map};
	bool wanted[POOL_ROWS_MAX] = {false};

	assert(first < end && end <= m->d->stripes);
	r.row_len = g->row_len;
	r.label = m->label_got || !label ? NULL : m->label;
	for (uint32_t i = 0; i < m->d->width; i++) {
		size_t at = first * m->d->width + i;
		wanted[i] = m->row[i] != NULL;
		r.bad[i] = m->d->bad[at] != 0;
		r.given[i] = m->supplied != NULL && m->supplied->given[at] != 0;
		if (r.given[i]) {
			r.row[i].bytes = m->supplied->rows[i] + from;
			r.row[i].from = from;
			r.row[i].to = to;
			r.row[i].crc = crc32c(0, r.row[i].bytes, to - from);
		}
	}
	int rc = pool_rows_read(&r, wanted, from, to);
	m->label_got = m->label_got || r.label_got;
	for (uint32_t i = 0; rc == 0 && i < m->d->width; i++) {
		if (!wanted[i])
			continue;
		memcpy(m->row[i] + from, r.row[i].bytes, to - from);
		m->crc[i] = crc32c_combine(m->crc[i], r.row[i].crc, to - from);
	}
	pool_rows_free(&r);
	return rc;
}

static int rebuild_stripes(struct row_rebuild *m, uint64_t first, uint64_t end)
{
	int rc = rebuild_stripes_try(m, first, end, true);

	/*
	 * Perhaps only the caller's label after a row could not be read: try again without the
	 * label.
	 */
	return rc == -ENODATA && !m->label_got ? rebuild_stripes_try(m, first, end, false) : rc;
}

/* Checks that the data rows together have the CRC that the chunk was put with. */
static int check_chunk_crc(const struct row_rebuild *m)
{
	const struct pool_geo *g = &m->v->geo;
	struct pool_rows r = {.pool = m->pool, .id = m->v->id, .map = &m->v->map};
	AUTO_FREE uint8_t *bytes = malloc(max_u64(g->len, 1));
	uint32_t crc = 0;

	assert(m->all_data);
	if (bytes == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->k; i++)
		r.row[i] =
			(struct pool_row){.to = g->row_len, .bytes = m->row[i], .crc = m->crc[i]};
	int rc = g->len > 0 ? pool_rows_gather(&r, g, 0, bytes, g->len, &crc) : 0;
	return rc == 0 && crc != m->v->label.crc ? -EBADMSG : rc;
}

static int rebuild_and_write(struct row_rebuild *m, uint32_t *written)
{
	int rc = row_rebuild_init(m);
	int put_rc = 0;
	uint16_t missed[POOL_ROWS_MAX];
	uint32_t n = 0;

	for (uint64_t s = 0, end; rc == 0 && s < m->d->stripes; s = end) {
		for (end = s + 1; end < m->d->stripes && same_damage(m, s, end); end++)
			;
		rc = rebuild_stripes(m, s, end);
	}
	if (rc == 0 && !m->label_got)
		rc = pool_upper_label(m->pool, m->v, m->label);
	if (rc == 0 && m->all_data)
		rc = check_chunk_crc(m);
	for (uint32_t r = 0; rc == 0 && r < m->d->width; r++) {
		if (!m->target[r])
			continue;
		int one = pool_row_put(m->pool, m->v, r, m->row[r], m->crc[r], m->label);
		*written += one == 0;
		if (one != 0 && put_rc == 0)
			put_rc = one;
		if (one != 0 && m->v->map.member[r] != POOL_NOWHERE)
			missed[n++] = m->v->map.member[r];
	}
	/*
	 * An error here can be ignored: the rows of members that are down are in the pool record
	 * already, and a rebuild finds all other missing rows.
	 */
	pool_record_missed(m->pool, POOL_MISSED_ROW, missed, n);
	return rc != 0 ? rc : put_rc;
}

static int rebuild_rows(struct pool *p, struct pool_view *v, const struct pool_damage *d,
			const struct supplied *supplied, uint32_t *written)
{
	assert(d->width == pool_width(p) && v->form == POOL_CODED);
	struct row_rebuild *m = calloc(1, sizeof(*m));

	*written = 0;
	if (m == NULL)
		return -ENOMEM;
	m->pool = p;
	m->v = v;
	m->d = d;
	m->supplied = supplied;
	m->all_data = supplied != NULL;
	int rc = rebuild_and_write(m, written);
	row_rebuild_fini(m);
	free(m);
	return rc;
}

int pool_rebuild_missing(struct pool *p, struct pool_view *v, uint32_t *written)
{
	struct pool_damage d;

	assert(pool_chunk_is_locked(p, v->id));
	*written = 0;
	if (v->form == POOL_COPIES) {
		int rc = pool_copies_sync(p, v);
		if (rc == 0 && v->form == POOL_COPIES && v->copy_st[v->best_copy].sealed)
			rc = pool_encode_sealed(p, v);
		return rc;
	}
	int rc = damage_alloc(&d, p, v);
	if (rc == 0) {
		damage_missing(&d, v);
		if (d.any)
			rc = rebuild_rows(p, v, &d, NULL, written);
	}
	pool_damage_free(&d);
	return rc;
}

/* --- scan ------------------------------------------------------------------------------------- */

/* Lists the ranges of the chunk that the pool cannot reconstruct. */
static int64_t lost_ranges(const struct pool_view *v, const struct pool_damage *d, uint32_t p,
			   struct store_range *bad, size_t max)
{
	size_t n = 0;

	for (uint64_t s = 0; s < d->stripes; s++) {
		if (damage_count(d, s) <= p)
			continue;
		for (uint32_t r = 0; r < v->geo.k; r++) {
			struct store_range b = pool_geo_bytes(&v->geo, s, r);
			if (d->bad[s * d->width + r] == 0 || b.len == 0)
				continue;
			if (n > 0 && bad[n - 1].off + bad[n - 1].len == b.off)
				bad[n - 1].len += b.len;
			else if (n < max)
				bad[n++] = b;
		}
	}
	return (int64_t)n;
}

/* Scans all copies of an open chunk and replaces damaged ones from an intact one. */
static int64_t scan_copies(struct pool *p, struct pool_view *v, struct store_range *bad)
{
	uint32_t n = p->record.shape.p + 1;
	AUTO_FREE struct pool_job *jobs = pool_jobs_new(p, n, POOL_SCAN);
	struct chunk_stat st;
	bool damaged = false, good = false;
	int rc = pool_copies_stat(p, v, &st);

	if (rc != 0 || jobs == NULL)
		return rc != 0 ? rc : -ENOMEM;
	for (uint32_t c = 0; c < n; c++) {
		/*
		 * Also scan a copy on a member that is behind if the copy itself is up to date: a
		 * rebuild will make it authoritative again.
		 */
		bool there = v->copy_rc[c] == 0 || pool_copy_is_current(v, c);
		jobs[c].member = there ? v->map.member[c] : POOL_NOWHERE;
		jobs[c].id = pool_row_id(v->id, POOL_ROWS_MAX + c);
	}
	pool_jobs_run(jobs, n);
	for (uint32_t c = 0; c < n; c++) {
		if (jobs[c].rc == -ECANCELED || jobs[c].rc == -ETIME)
			return jobs[c].rc;
		damaged = damaged || jobs[c].rc > 0 || jobs[c].rc == -EBADMSG;
		if (good || jobs[c].rc != 0 || v->copy_rc[c] != 0 || !pool_copy_is_current(v, c))
			continue;
		v->best_copy = c;
		good = true;
	}
	if (!damaged)
		return 0;
	for (uint32_t c = 0; c < n; c++)
		if (jobs[c].rc > 0 || jobs[c].rc == -EBADMSG) {
			v->copy_rc[c] = -EBADMSG;
			/*
			 * Make the damaged copy differ from the best copy, so that it is replaced
			 */
			v->copy_st[c].len = 0;
		}
	if (good && p->admin_state == STORE_ONLINE) {
		rt_shield_enter();
		rc = pool_copies_sync(p, v);
		rt_shield_leave();
		return rc;
	}
	bad[0] = (struct store_range){.len = st.len};
	return good ? 0 : 1;
}

/*
 * Rebuilds the rows of a chunk that are damaged but not lost. Returns an error if damage remains.
 * Rows on members that are down are no error: a later rebuild writes them.
 */
static int scan_repair(struct pool *p, struct pool_view *v, const struct pool_damage *d)
{
	uint32_t written;
	bool damaged = false;

	for (uint64_t s = 0; s < d->stripes; s++)
		for (uint32_t r = 0; r < d->width; r++)
			damaged = damaged || (v->row_rc[r] == 0 && d->bad[s * d->width + r] != 0);
	rt_shield_enter();
	int rc = rebuild_rows(p, v, d, NULL, &written);
	rt_shield_leave();
	return damaged ? rc : 0;
}

/*
 * Deletes copies that a crash left beside the rows of a chunk: between the last row and the deletes a seal was
 * interrupted. All rows are there and intact, so the copies are of no use.
 */
static int remove_left_copies(struct pool *p, const struct pool_view *v)
{
	bool left = false;
	uint32_t removed;

	assert(v->form == POOL_CODED && v->present == pool_width(p));
	int rc = pool_has_copies(p, v->id, &left);
	if (rc == -EIO) /* a member of the copies is unreachable: a later scan looks again */
		return 0;
	if (rc != 0 || !left)
		return rc;
	rt_shield_enter();
	rc = pool_remove_copies(p, &v->map, v->id, &removed);
	rt_shield_leave();
	return rc;
}

static int64_t scan_locked(struct pool *p, struct chunk_id id, struct store_range *bad, size_t max)
{
	struct pool_view v;
	struct pool_damage d = {0};
	int rc = pool_lookup(p, id, &v);

	if (rc != 0 && (rc != -ENODATA || v.form == POOL_COPIES))
		return rc;
	if (v.form == POOL_COPIES)
		return scan_copies(p, &v, bad);
	rc = pool_damage_scan(p, &v, &d);
	int64_t lost = 0;
	if (rc == 0 && d.lost)
		lost = lost_ranges(&v, &d, p->record.shape.p, bad, max);
	else if (rc == 0 && d.any && p->admin_state == STORE_ONLINE)
		rc = scan_repair(p, &v, &d);
	else if (rc == 0 && v.present == pool_width(p) && p->admin_state == STORE_ONLINE)
		rc = remove_left_copies(p, &v);
	pool_damage_free(&d);
	return rc != 0 ? rc : lost;
}

int64_t pool_scan(struct store *s, struct chunk_id id, struct store_range *bad, size_t max)
{
	struct pool *p = pool_of(s);
	struct pool_chunk_lock hold;
	int rc = p->admin_state == STORE_FAILED ? -EIO : 0;

	if (rc == 0 && max == 0)
		rc = -EINVAL;
	if (rc == 0 && pool_check_id(id) != 0)
		rc = -ENOENT;
	if (rc == 0)
		rc = pool_lock_chunk(p, &hold, id);
	if (rc != 0)
		return rc;
	int64_t n = scan_locked(p, id, bad, max);
	pool_unlock_chunk(p, &hold);
	return n;
}

/* --- patch ------------------------------------------------------------------------------------ */

static void supplied_free(struct supplied *b)
{
	free(b->given);
	for (uint32_t r = 0; r < POOL_ROWS_MAX; r++)
		free(b->rows[r]);
}

/* Copies supplied pieces to their place in the row and pads them with zeros. */
static int supplied_add(struct supplied *b, const struct pool_view *v, uint32_t width,
			const struct store_pool_piece_run *run)
{
	const struct pool_geo *g = &v->geo;
	uint64_t at = 0;
	uint32_t crc = 0;

	if (run->row >= g->k || run->stripes == 0 || run->first_stripe >= g->stripes ||
	    run->stripes > g->stripes - run->first_stripe || store_data_check(&run->data) != 0)
		return -EINVAL;
	uint8_t **row = &b->rows[run->row];
	if (*row == NULL)
		*row = aligned_alloc(4096, (g->row_len + 4096) / 4096 * 4096);
	if (*row == NULL)
		return -ENOMEM;
	for (uint64_t s = run->first_stripe; s < run->first_stripe + run->stripes; s++) {
		struct store_range bytes = pool_geo_bytes(g, s, run->row);
		uint8_t *to = *row + s * g->piece;
		if (bytes.len > run->data.len - at)
			return -EINVAL;
		store_data_copy(&run->data, at, to, bytes.len);
		crc = crc32c(crc, to, bytes.len);
		memset(to + bytes.len, 0, pool_geo_piece(g, s) - bytes.len);
		at += bytes.len;
		b->given[s * width + run->row] = 1;
	}
	if (at != run->data.len)
		return -EINVAL;
	return crc == run->data.crc ? 0 : -EBADMSG;
}

static int patch_damage(struct pool *p, struct pool_view *v, const struct pool_damage *d,
			const struct store_pool_piece_run *runs, size_t n)
{
	struct supplied b = {0};
	uint32_t written;

	b.given = calloc(max_u64(d->stripes, 1) * d->width, 1);
	int rc = b.given != NULL ? 0 : -ENOMEM;
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = supplied_add(&b, v, d->width, &runs[i]);
	if (rc == 0)
		rc = rebuild_rows(p, v, d, &b, &written);
	supplied_free(&b);
	return rc;
}

/*
 * Reconstructs a chunk from supplied pieces and writes its lost rows. Mostly, rows are missing
 * because their members failed, and all other rows are intact. So the chunk is first rebuilt
 * without a scan, and the CRC of the chunk proves the result. Only if that fails are the remaining
 * rows scanned for damage.
 */
static int patch_locked(struct pool *p, struct chunk_id id, const struct store_pool_piece_run *runs,
			size_t n)
{
	struct pool_view v;
	struct pool_damage d = {0};
	int rc = pool_lookup(p, id, &v);

	if (rc != 0 && rc != -ENODATA)
		return rc;
	if (v.form != POOL_CODED)
		return -EINVAL;
	rc = pool_damage_from_view(p, &v, &d);
	bool again = !d.any;
	if (rc == 0 && d.any) {
		rc = patch_damage(p, &v, &d, runs, n);
		again = rc == -EBADMSG || rc == -ENODATA;
	}
	pool_damage_free(&d);
	if (again) {
		rc = pool_damage_scan(p, &v, &d);
		if (rc == 0 && d.any)
			rc = patch_damage(p, &v, &d, runs, n);
		pool_damage_free(&d);
	}
	if (rc == 0)
		pool_note_damaged(p, id, false);
	return rc;
}

int store_pool_patch(struct store *s, struct chunk_id id, const struct store_pool_piece_run *runs,
		     size_t n)
{
	struct pool *p = pool_of(s);
	struct pool_chunk_lock hold;
	int rc = pool_check_id(id);

	if (rc == 0 && p->admin_state != STORE_ONLINE)
		rc = p->admin_state == STORE_FAILED ? -EIO : -EROFS;
	if (rc == 0)
		rc = pool_lock_chunk(p, &hold, id);
	if (rc != 0)
		return rc;
	rt_shield_enter();
	rc = patch_locked(p, id, runs, n);
	rt_shield_leave();
	pool_unlock_chunk(p, &hold);
	return rc;
}
