// SPDX-License-Identifier: Apache-2.0
/* Encoding a chunk into rows and putting them; deleting chunks. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "rt/rt.h"
#include "store/pool_impl.h"

#define PAGE 4096

static void *pages_alloc(uint64_t bytes)
{
	return aligned_alloc(PAGE, (max_u64(bytes, 1) + PAGE - 1) / PAGE * PAGE);
}

/* --- encoding --------------------------------------------------------------------------------- */

/* State of the encoding of one chunk into rows. */
struct coding {
	const struct codec *codec;
	const uint8_t *bytes; /* contiguous bytes of the chunk */
	const struct store_data *data;
	int rc;
	struct pool_geo geo;
	uint32_t width;
	size_t row_iovs;   /* number of entries of iov per row: pieces, padding, trailer */
	struct iovec *iov; /* buffers of the rows; index row * row_iovs + i */
	int iov_n[POOL_ROWS_MAX];
	uint32_t crc[POOL_ROWS_MAX]; /* CRC of each row */
	uint8_t *parity;             /* bytes of the p parity rows, one after the other */
	size_t row_crcs;
	/* CRCs of the pieces of the parity rows with their trailers; index (row - k) * row_crcs + i */
	uint32_t *parity_crcs;
	uint8_t *zeros;
	uint8_t *trailer; /* a page that starts with the caller's label */
};

static void coding_fini(struct coding *c)
{
	free(c->iov);
	free(c->parity);
	free(c->parity_crcs);
	free(c->zeros);
	free(c->trailer);
}

static int coding_alloc(struct coding *c, const struct pool *p, uint64_t len,
			const uint8_t label[STORE_LABEL_BYTES])
{
	const struct store_pool_shape *s = &p->record.shape;

	*c = (struct coding){.codec = p->codec, .width = s->k + s->p};
	pool_geo_init(&c->geo, s->k, s->p, pool_piece_for(s->piece_bytes, s->k, len), len);
	c->row_iovs = c->geo.stripes + 3;
	c->iov = calloc(c->width * c->row_iovs, sizeof(*c->iov));
	c->parity = pages_alloc(c->geo.row_len * s->p);
	c->row_crcs = crc_pieces(c->geo.row_len + STORE_LABEL_BYTES);
	c->parity_crcs = calloc(s->p * c->row_crcs, sizeof(*c->parity_crcs));
	c->zeros = pages_alloc(c->geo.last_piece);
	c->trailer = pages_alloc(PAGE);
	if (c->iov == NULL || c->parity == NULL || c->parity_crcs == NULL || c->zeros == NULL ||
	    c->trailer == NULL)
		return -ENOMEM;
	memset(c->zeros, 0, c->geo.last_piece);
	memcpy(c->trailer, label, STORE_LABEL_BYTES);
	return 0;
}

static void iov_add(struct coding *c, uint32_t row, const uint8_t *bytes, uint64_t len)
{
	assert(row < c->width && (size_t)c->iov_n[row] < c->row_iovs);
	if (len > 0)
		c->iov[row * c->row_iovs + (size_t)c->iov_n[row]++] = (struct iovec){
			.iov_base = (void *)(uintptr_t)bytes,
			.iov_len = len,
		};
}

static uint32_t *parity_crcs(const struct coding *c, uint32_t row)
{
	assert(row >= c->geo.k && row < c->width);
	return c->parity_crcs + (row - c->geo.k) * c->row_crcs;
}

/* Returns the CRC of a range of the chunk, from the CRCs that came with it if they are those of the range. */
static uint32_t code_range(const struct coding *c, const struct store_range *b)
{
	const uint32_t *known = store_data_crcs(c->data, b->off, b->len);
	return known != NULL ? crc_pieces_sum(known, b->len) : crc32c(0, c->bytes + b->off, b->len);
}

/*
 * Fills in the data rows, which refer to the caller's memory, and checks their CRCs. The CRCs of
 * the pieces, combined in the order of the chunk, must give the CRC that came with the chunk;
 * combined in the order of the rows they give the CRCs of the rows. The members read the data rows
 * once more and compare them with these CRCs: parity of bytes that changed before they were encoded
 * must not be stored.
 */
static int code_data(struct coding *c)
{
	const struct pool_geo *g = &c->geo;
	uint32_t sum = 0;

	for (uint64_t s = 0; s < g->stripes; s++) {
		for (uint32_t r = 0; r < g->k; r++) {
			struct store_range b = pool_geo_bytes(g, s, r);
			uint32_t part = b.len > 0 ? code_range(c, &b) : 0;
			uint64_t fill = pool_geo_piece(g, s) - b.len;
			if (b.len > 0)
				iov_add(c, r, c->bytes + b.off, b.len);
			sum = crc32c_combine(sum, part, b.len);
			c->crc[r] = crc32c_combine(c->crc[r], part, b.len);
			if (fill > 0)
				c->crc[r] = crc32c(c->crc[r], c->zeros, fill);
		}
	}
	return sum == c->data->crc ? 0 : -EBADMSG;
}

static int code_parity(struct coding *c)
{
	const struct pool_geo *g = &c->geo;
	struct sg sg[POOL_ROWS_MAX];

	if (g->row_len == 0)
		return 0;
	for (uint32_t r = g->k; r < c->width; r++)
		iov_add(c, r, c->parity + (r - g->k) * g->row_len, g->row_len);
	for (uint32_t r = 0; r < c->width; r++)
		sg[r] = (struct sg){.iov = c->iov + r * c->row_iovs, .count = c->iov_n[r]};
	int rc = codec_encode(c->codec, g->row_len, sg);
	for (uint32_t r = g->k; rc == 0 && r < c->width; r++) {
		crc_pieces_add(parity_crcs(c, r), 0, c->parity + (r - g->k) * g->row_len,
			       g->row_len);
		c->crc[r] = crc_pieces_sum(parity_crcs(c, r), g->row_len);
	}
	/*
	 * Verify the parity after the CRCs are computed, so that the CRCs are proved to be those of
	 * correct bytes.
	 */
	return rc != 0 ? rc : codec_verify(c->codec, g->row_len, sg);
}

/* Computes parity and CRCs of all rows. Runs on an offload thread. */
static void code_all(void *arg)
{
	struct coding *c = arg;

	c->rc = code_data(c);
	if (c->rc == 0)
		c->rc = code_parity(c);
}

/* Adds the padding of the last piece and the trailer to each row. */
static void code_trailers(struct coding *c)
{
	for (uint32_t r = 0; r < c->width; r++) {
		uint64_t have = 0;
		for (int i = 0; i < c->iov_n[r]; i++)
			have += c->iov[r * c->row_iovs + (size_t)i].iov_len;
		assert(have <= c->geo.row_len && c->geo.row_len - have <= c->geo.last_piece);
		iov_add(c, r, c->zeros, c->geo.row_len - have);
		iov_add(c, r, c->trailer, STORE_LABEL_BYTES);
		if (r >= c->geo.k)
			crc_pieces_add(parity_crcs(c, r), c->geo.row_len, c->trailer,
				       STORE_LABEL_BYTES);
	}
}

/* --- putting rows ----------------------------------------------------------------------------- */

static void row_label(const struct pool *p, const struct pool_geo *g, uint32_t row, uint32_t crc,
		      bool was_open, uint8_t out[STORE_LABEL_BYTES])
{
	struct pool_label l = {
		.was_open = was_open,
		.row = row,
		.k = g->k,
		.p = g->p,
		.piece = g->piece,
		.crc = crc,
		.len = g->len,
		.pool = p->record.shape.id,
	};
	pool_label_encode(&l, out);
}

/* Returns whether an error means only that the member is down at present. */
static bool is_down(int64_t rc)
{
	return rc == -EIO || rc == -ENODEV || rc == -EROFS;
}

/*
 * Handles rows that a put found on members already. A row with the same label and CRC belongs to
 * this chunk (an unfinished put or a retry wrote it) and counts as put. Other rows are garbage and
 * are replaced, unless they could form a chunk together with rows that cannot be read now: rows on
 * members that are down, and rows that an event moved. In that case returns -EEXIST and changes no
 * row.
 */
static int resolve_existing_rows(struct pool *p, const struct pool_map *map, struct pool_job *jobs,
				 uint32_t width, uint32_t *same)
{
	uint32_t other = 0, hidden = 0;
	bool exists[POOL_ROWS_MAX] = {false};

	for (uint32_t r = 0; r < width; r++) {
		if (jobs[r].rc != -EEXIST) {
			hidden += map->moved[r] ||
				  (jobs[r].rc != 0 && map->member[r] != POOL_NOWHERE);
			continue;
		}
		struct pool_job look = jobs[r];
		look.call = POOL_STAT;
		pool_jobs_run(&look, 1);
		if (look.rc == 0 && look.st.crc == jobs[r].put.data.crc &&
		    look.st.epoch == jobs[r].put.epoch &&
		    memcmp(look.st.label, jobs[r].put.label, STORE_LABEL_BYTES) == 0) {
			jobs[r].rc = 0;
			(*same)++;
		} else {
			exists[r] = true;
			other++;
		}
	}
	if (other > 0 && other + hidden >= p->record.shape.k)
		return -EEXIST;
	for (uint32_t r = 0; r < width; r++) {
		if (!exists[r])
			continue;
		jobs[r].put.replace = true;
		pool_jobs_run(&jobs[r], 1);
	}
	return 0;
}

/*
 * Decides whether a put succeeded. Sets *same to the number of rows of this chunk that were stored
 * already.
 */
static int put_outcome(struct pool *p, const struct pool_map *map, struct pool_job *jobs,
		       uint32_t width, uint32_t *same)
{
	uint32_t good = 0;
	/* Require one row more than k if p > 1, so that the chunk tolerates a loss at once. */
	uint32_t least = p->record.shape.k + (p->record.shape.p > 1);
	bool exists = false;
	int worst = 0;

	*same = 0;
	for (uint32_t r = 0; r < width; r++)
		exists = exists || jobs[r].rc == -EEXIST;
	int rc = exists ? resolve_existing_rows(p, map, jobs, width, same) : 0;
	if (rc != 0)
		return rc;
	for (uint32_t r = 0; r < width; r++) {
		good += jobs[r].rc == 0;
		if (jobs[r].rc != 0 && (worst == 0 || is_down(worst)))
			worst = (int)jobs[r].rc;
	}
	assert(*same <= good && good <= width);
	if (*same >= p->record.shape.k)
		return -EEXIST;
	return good >= least && (worst == 0 || is_down(worst)) ? 0 : worst;
}

/*
 * Stores in the pool record which members lack their row of this chunk. This must succeed before
 * the put is acknowledged.
 */
static int rows_missed(struct pool *p, const struct pool_map *map, const struct pool_job *jobs,
		       uint32_t width)
{
	uint16_t missed[POOL_ROWS_MAX];
	uint32_t n = 0;

	for (uint32_t r = 0; r < width; r++)
		if (jobs[r].rc != 0 && map->member[r] != POOL_NOWHERE)
			missed[n++] = map->member[r];
	return pool_record_missed(p, POOL_MISSED_ROW, missed, n);
}

static int put_coding(struct pool *p, struct chunk_id id, const struct store_put *put,
		      const struct coding *c)
{
	struct pool_map map;
	bool written[POOL_ROWS_MAX];
	uint32_t same;
	AUTO_FREE struct pool_job *jobs = pool_jobs_new(p, c->width, POOL_PUT);

	if (jobs == NULL)
		return -ENOMEM;
	pool_map_chunk(&p->place, &p->record, id, &map);
	uint32_t trailer_crc = crc32c(0, c->trailer, STORE_LABEL_BYTES);
	for (uint32_t r = 0; r < c->width; r++) {
		struct store_put *row = &jobs[r].put;
		jobs[r].member = map.member[r];
		jobs[r].id = pool_row_id(id, r);
		jobs[r].no_deadline = true;
		row->data = (struct store_data){
			.iov = c->iov + r * c->row_iovs,
			.n = c->iov_n[r],
			.len = c->geo.row_len + STORE_LABEL_BYTES,
			.crc = crc32c_combine(c->crc[r], trailer_crc, STORE_LABEL_BYTES),
			.crcs = r >= c->geo.k ? parity_crcs(c, r) : NULL,
		};
		row->epoch = put->epoch;
		row->reserved = put->reserved;
		row_label(p, &c->geo, r, put->data.crc, put->open, row->label);
	}
	pool_jobs_run(jobs, c->width);
	for (uint32_t r = 0; r < c->width; r++)
		written[r] = jobs[r].rc == 0;
	int rc = put_outcome(p, &map, jobs, c->width, &same);
	if (rc == 0)
		rc = rows_missed(p, &map, jobs, c->width);
	/* The chunk existed already and this retry has only added missing rows: keep these rows. */
	if (rc == 0 || same >= p->record.shape.k)
		return rc;
	for (uint32_t r = 0; r < c->width; r++) {
		jobs[r].call = POOL_DELETE;
		if (written[r])
			pool_jobs_run(&jobs[r], 1);
	}
	return rc;
}

int pool_put_rows(struct pool *p, struct chunk_id id, const struct store_put *put,
		  const uint8_t *bytes)
{
	struct coding c;

	assert(pool_chunk_is_locked(p, id) && put->data.len <= STORE_CHUNK_MAX);
	int rc = coding_alloc(&c, p, put->data.len, put->label);

	c.bytes = bytes;
	c.data = &put->data;
	if (rc == 0)
		rc = rt_offload(code_all, &c);
	if (rc == 0)
		rc = c.rc;
	if (rc == 0) {
		code_trailers(&c);
		rc = put_coding(p, id, put, &c);
	}
	coding_fini(&c);
	return rc;
}

int pool_row_put(struct pool *p, const struct pool_view *v, uint32_t row, const uint8_t *bytes,
		 uint32_t crc, const uint8_t label[STORE_LABEL_BYTES])
{
	struct iovec iov[2] = {
		{.iov_base = (void *)(uintptr_t)bytes, .iov_len = v->geo.row_len},
		{.iov_base = (void *)(uintptr_t)label, .iov_len = STORE_LABEL_BYTES},
	};
	struct pool_job j = {
		.pool = p,
		.call = POOL_PUT,
		.member = v->map.member[row],
		.id = pool_row_id(v->id, row),
		/*
		 * Replace a damaged row in one step: its intact stripes are needed until the new
		 * row is stored.
		 */
		.put = {.epoch = v->epoch, .replace = true},
	};
	j.put.data = (struct store_data){
		.iov = iov,
		.n = 2,
		.len = v->geo.row_len + STORE_LABEL_BYTES,
		.crc = crc32c_combine(crc, crc32c(0, label, STORE_LABEL_BYTES), STORE_LABEL_BYTES),
	};
	row_label(p, &v->geo, row, v->label.crc, v->label.was_open, j.put.label);
	pool_jobs_run(&j, 1);
	return (int)j.rc;
}

static int put_chunk(struct pool *p, struct chunk_id id, const struct store_put *put)
{
	if (put->open)
		return pool_put_copies(p, id, put);
	bool has_copies;
	int rc = pool_has_copies(p, id, &has_copies);
	if (rc != 0 || has_copies)
		return rc != 0 ? rc : -EEXIST;
	if (put->data.n == 1)
		return pool_put_rows(p, id, put, put->data.iov[0].iov_base);
	AUTO_FREE uint8_t *flat = pages_alloc(put->data.len);
	if (flat == NULL)
		return -ENOMEM;
	store_data_copy(&put->data, 0, flat, put->data.len);
	return pool_put_rows(p, id, put, flat);
}

/*
 * Drops the cached head of a chunk and counts the delete. Called after the rows are deleted,
 * because a reader that looks the chunk up during the delete still finds rows and caches the head.
 */
static void forget_rows(struct pool *p, struct chunk_id id)
{
	pool_head_forget(p, id);
	++*pool_delete_count(p, id);
}

int pool_put(struct store *s, struct chunk_id id, const struct store_put *put)
{
	struct pool *p = pool_of(s);
	struct pool_chunk_lock hold;
	int rc = pool_check_id(id);

	if (rc == 0)
		rc = put->replace ? -EINVAL : store_put_check(put);
	if (rc == 0 && p->admin_state != STORE_ONLINE)
		rc = p->admin_state == STORE_FAILED ? -EIO : -EROFS;
	if (rc == 0)
		rc = pool_lock_chunk(p, &hold, id);
	if (rc != 0)
		return rc;
	rt_shield_enter();
	rc = put_chunk(p, id, put);
	if (rc != 0 && rc != -EEXIST)
		forget_rows(p, id);
	rt_shield_leave();
	pool_unlock_chunk(p, &hold);
	return rc;
}

/* --- deleting --------------------------------------------------------------------------------- */

static struct pool_job *remove_jobs(struct pool *p, const struct pool_map *map, struct chunk_id id,
				    uint32_t first, uint32_t n)
{
	struct pool_job *jobs = pool_jobs_new(p, n, POOL_DELETE);

	for (uint32_t i = 0; jobs != NULL && i < n; i++) {
		jobs[i].member = map->member[i];
		jobs[i].id = pool_row_id(id, first + i);
		jobs[i].no_deadline = true;
	}
	if (jobs != NULL)
		pool_jobs_run(jobs, n);
	return jobs;
}

/*
 * Returns whether a row or copy may remain after the delete. For POOL_NOWHERE no row remains that
 * is used: its member was given up.
 */
static bool may_remain(const struct pool_job *j)
{
	return j->rc != 0 && j->rc != -ENOENT && j->member != POOL_NOWHERE;
}

int pool_remove_rows(struct pool *p, const struct pool_map *map, struct chunk_id id, uint32_t *left,
		     uint32_t *removed)
{
	AUTO_FREE struct pool_job *jobs = remove_jobs(p, map, id, 0, pool_width(p));
	uint16_t missed[POOL_ROWS_MAX];

	*left = 0;
	*removed = 0;
	if (jobs == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < pool_width(p); i++) {
		*removed += jobs[i].rc == 0;
		if (may_remain(&jobs[i]))
			missed[(*left)++] = map->member[i];
	}
	assert(*left + *removed <= pool_width(p));
	return pool_record_missed(p, POOL_MISSED_ROW, missed, *left);
}

int pool_remove_copies(struct pool *p, const struct pool_map *map, struct chunk_id id,
		       uint32_t *removed)
{
	uint32_t n = p->record.shape.p + 1, left = 0;
	AUTO_FREE struct pool_job *jobs = remove_jobs(p, map, id, POOL_ROWS_MAX, n);
	uint16_t missed[POOL_PARITY_MAX + 1];
	bool authoritative[POOL_PARITY_MAX + 1], all_behind;

	*removed = 0;
	if (jobs == NULL)
		return -ENOMEM;
	for (uint32_t c = 0; c < n; c++) {
		*removed += jobs[c].rc == 0;
		if (may_remain(&jobs[c]))
			missed[left++] = map->member[c];
	}
	assert(*removed + left <= n);
	int rc = pool_record_missed(p, POOL_MISSED_COPY, missed, left);
	/*
	 * Determine the authoritative copies only now: changes of other chunks may have made
	 * members fall behind during the deletes.
	 */
	pool_authoritative(p, map, authoritative, &all_behind);
	for (uint32_t c = 0; rc == 0 && c < n; c++)
		if (authoritative[c] && may_remain(&jobs[c]))
			rc = -EIO;
	return rc;
}

static int delete_locked(struct pool *p, struct chunk_id id)
{
	struct pool_map map;
	uint32_t rows_left, rows, copies;

	assert(pool_chunk_is_locked(p, id));
	pool_map_chunk(&p->place, &p->record, id, &map);
	int rc = pool_remove_copies(p, &map, id, &copies);
	if (rc == 0)
		rc = pool_remove_rows(p, &map, id, &rows_left, &rows);
	if (rc != 0)
		return rc;
	if (rows_left >= p->record.shape.k)
		return -EIO;
	return rows + copies > 0 ? 0 : -ENOENT;
}

int pool_delete(struct store *s, struct chunk_id id)
{
	struct pool *p = pool_of(s);
	struct pool_chunk_lock hold;
	int rc = p->admin_state == STORE_FAILED ? -EIO : 0;

	if (rc == 0 && pool_check_id(id) != 0)
		rc = -ENOENT;
	if (rc == 0)
		rc = pool_lock_chunk(p, &hold, id);
	if (rc != 0)
		return rc;
	rt_shield_enter();
	rc = delete_locked(p, id);
	forget_rows(p, id);
	rt_shield_leave();
	pool_unlock_chunk(p, &hold);
	return rc;
}
