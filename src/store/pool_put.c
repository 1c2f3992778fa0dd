// SPDX-License-Identifier: Apache-2.0
/* Coding a chunk into rows and putting them; deleting. */
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

/* --- coding ----------------------------------------------------------------------------------- */

/* A chunk on its way into rows. */
struct coding {
	const struct codec *codec;
	const uint8_t *bytes; /* of the chunk */
	uint32_t chunk_crc;
	int rc;
	struct pool_geo geo;
	uint32_t width;
	size_t row_iovs;   /* entries of iov for each row: pieces, what fills up, what follows */
	struct iovec *iov; /* [row * row_iovs + i] */
	int iov_n[POOL_ROWS_MAX];
	uint32_t crc[POOL_ROWS_MAX]; /* of the rows */
	uint8_t *parity;             /* p rows */
	uint8_t *zeros;
	uint8_t *follows; /* a page that starts with the label of the layer above */
};

static void coding_fini(struct coding *c)
{
	free(c->iov);
	free(c->parity);
	free(c->zeros);
	free(c->follows);
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
	c->zeros = pages_alloc(c->geo.last_piece);
	c->follows = pages_alloc(PAGE);
	if (c->iov == NULL || c->parity == NULL || c->zeros == NULL || c->follows == NULL)
		return -ENOMEM;
	memset(c->zeros, 0, c->geo.last_piece);
	memcpy(c->follows, label, STORE_LABEL_BYTES);
	return 0;
}

static void iov_add(struct coding *c, uint32_t row, const uint8_t *bytes, uint64_t len)
{
	if (len > 0)
		c->iov[row * c->row_iovs + (size_t)c->iov_n[row]++] = (struct iovec){
			.iov_base = (void *)(uintptr_t)bytes,
			.iov_len = len,
		};
}

/*
 * Data rows are the bytes where they lie. The sums of their pieces must add up to the CRC that came with
 * the chunk, in its order, and add up to those of the rows in theirs.
 */
static int code_data(struct coding *c)
{
	const struct pool_geo *g = &c->geo;
	const uint8_t *bytes = c->bytes;
	uint32_t sum = 0;

	for (uint64_t s = 0; s < g->stripes; s++) {
		for (uint32_t r = 0; r < g->k; r++) {
			struct store_range b = pool_geo_bytes(g, s, r);
			uint32_t part = b.len > 0 ? crc32c(0, bytes + b.off, b.len) : 0;
			uint64_t fill = pool_geo_piece(g, s) - b.len;
			if (b.len > 0)
				iov_add(c, r, bytes + b.off, b.len);
			sum = crc32c_combine(sum, part, b.len);
			c->crc[r] = crc32c_combine(c->crc[r], part, b.len);
			if (fill > 0)
				c->crc[r] = crc32c(c->crc[r], c->zeros, fill);
		}
	}
	return sum == c->chunk_crc ? 0 : -EBADMSG;
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
	for (uint32_t r = g->k; rc == 0 && r < c->width; r++)
		c->crc[r] = crc32c(0, c->parity + (r - g->k) * g->row_len, g->row_len);
	/* After the sums, so that they are those of the right bytes. */
	return rc != 0 ? rc : codec_verify(c->codec, g->row_len, sg);
}

/* On a thread beside the loop. */
static void code_all(void *arg)
{
	struct coding *c = arg;

	c->rc = code_data(c);
	if (c->rc == 0)
		c->rc = code_parity(c);
}

/* What fills up the last piece, and what follows the row. */
static void code_ends(struct coding *c)
{
	for (uint32_t r = 0; r < c->width; r++) {
		uint64_t have = 0;
		for (int i = 0; i < c->iov_n[r]; i++)
			have += c->iov[r * c->row_iovs + (size_t)i].iov_len;
		iov_add(c, r, c->zeros, c->geo.row_len - have);
		iov_add(c, r, c->follows, STORE_LABEL_BYTES);
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

/* Is this only for now, and the member's own trouble? */
static bool is_down(int64_t rc)
{
	return rc == -EIO || rc == -ENODEV || rc == -EROFS;
}

/*
 * Rows that were there before: with the same label and CRC they are rows of this very chunk, from a put
 * that was cut short or a retry. Others are rubbish, unless they make a chunk together with those that
 * cannot be seen now: of members that are down, and where an event sent them. Returns 0 when the rows in
 * the way were replaced, or count as put; -EEXIST, and then nothing was touched.
 */
static int rows_in_the_way(struct pool *p, const struct pool_map *map, struct pool_job *jobs,
			   uint32_t width, uint32_t *same)
{
	uint32_t foreign = 0, hidden = 0;
	bool in_the_way[POOL_ROWS_MAX] = {false};

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
			in_the_way[r] = true;
			foreign++;
		}
	}
	if (foreign > 0 && foreign + hidden >= p->record.shape.k)
		return -EEXIST;
	for (uint32_t r = 0; r < width; r++) {
		if (!in_the_way[r])
			continue;
		jobs[r].put.replace = true;
		pool_jobs_run(&jobs[r], 1);
	}
	return 0;
}

/* What the answers of the members come to. */
static int put_outcome(struct pool *p, const struct pool_map *map, struct pool_job *jobs,
		       uint32_t width, uint32_t *same)
{
	uint32_t good = 0;
	/* More than just enough, where there is more: what nothing could replace is not safe. */
	uint32_t least = p->record.shape.k + (p->record.shape.p > 1);
	bool in_the_way = false;
	int worst = 0;

	*same = 0;
	for (uint32_t r = 0; r < width; r++)
		in_the_way = in_the_way || jobs[r].rc == -EEXIST;
	int rc = in_the_way ? rows_in_the_way(p, map, jobs, width, same) : 0;
	if (rc != 0)
		return rc;
	for (uint32_t r = 0; r < width; r++) {
		good += jobs[r].rc == 0;
		if (jobs[r].rc != 0 && (worst == 0 || is_down(worst)))
			worst = (int)jobs[r].rc;
	}
	if (*same >= p->record.shape.k)
		return -EEXIST;
	return good >= least && (worst == 0 || is_down(worst)) ? 0 : worst;
}

/* Rows that were not put are due. To be known before the chunk is acknowledged. */
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
	bool mine[POOL_ROWS_MAX];
	uint32_t same;
	AUTO_FREE struct pool_job *jobs = pool_jobs_new(p, c->width, POOL_PUT);

	if (jobs == NULL)
		return -ENOMEM;
	pool_map_chunk(&p->place, &p->record, id, &map);
	uint32_t follows_crc = crc32c(0, c->follows, STORE_LABEL_BYTES);
	for (uint32_t r = 0; r < c->width; r++) {
		struct store_put *row = &jobs[r].put;
		jobs[r].member = map.member[r];
		jobs[r].id = pool_row_id(id, r);
		jobs[r].to_end = true;
		row->data = (struct store_data){
			.iov = c->iov + r * c->row_iovs,
			.n = c->iov_n[r],
			.len = c->geo.row_len + STORE_LABEL_BYTES,
			.crc = crc32c_combine(c->crc[r], follows_crc, STORE_LABEL_BYTES),
		};
		row->epoch = put->epoch;
		row->reserved = put->reserved;
		row_label(p, &c->geo, r, put->data.crc, put->open, row->label);
	}
	pool_jobs_run(jobs, c->width);
	for (uint32_t r = 0; r < c->width; r++)
		mine[r] = jobs[r].rc == 0;
	int rc = put_outcome(p, &map, jobs, c->width, &same);
	if (rc == 0)
		rc = rows_missed(p, &map, jobs, c->width);
	/* Of a chunk that is there, a retry has only completed the rows. */
	if (rc == 0 || same >= p->record.shape.k)
		return rc;
	for (uint32_t r = 0; r < c->width; r++) {
		jobs[r].call = POOL_DELETE;
		if (mine[r])
			pool_jobs_run(&jobs[r], 1);
	}
	return rc;
}

int pool_put_rows(struct pool *p, struct chunk_id id, const struct store_put *put,
		  const uint8_t *bytes)
{
	struct coding c;
	int rc = coding_alloc(&c, p, put->data.len, put->label);

	c.bytes = bytes;
	c.chunk_crc = put->data.crc;
	if (rc == 0)
		rc = rt_offload(code_all, &c);
	if (rc == 0)
		rc = c.rc;
	if (rc == 0) {
		code_ends(&c);
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
		/* In place of a damaged one, which has good stripes until then. */
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
	int open = pool_has_copies(p, id);
	if (open != 0)
		return open < 0 ? open : -EEXIST;
	if (put->data.n == 1)
		return pool_put_rows(p, id, put, put->data.iov[0].iov_base);
	AUTO_FREE uint8_t *flat = pages_alloc(put->data.len);
	if (flat == NULL)
		return -ENOMEM;
	store_data_copy(&put->data, 0, flat, put->data.len);
	return pool_put_rows(p, id, put, flat);
}

/* After they were removed: who looks meanwhile finds them, and remembers. */
static void rows_went(struct pool *p, struct chunk_id id)
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
		rows_went(p, id);
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
		jobs[i].to_end = true;
	}
	if (jobs != NULL)
		pool_jobs_run(jobs, n);
	return jobs;
}

/* May it still be there? What is nowhere was given up for good. */
static bool may_be_left(const struct pool_job *j)
{
	return j->rc != 0 && j->rc != -ENOENT && j->member != POOL_NOWHERE;
}

int pool_remove_rows(struct pool *p, const struct pool_map *map, struct chunk_id id, uint32_t *left,
		     uint32_t *were)
{
	AUTO_FREE struct pool_job *jobs = remove_jobs(p, map, id, 0, pool_width(p));
	uint16_t missed[POOL_ROWS_MAX];

	*left = 0;
	*were = 0;
	if (jobs == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < pool_width(p); i++) {
		*were += jobs[i].rc == 0;
		if (may_be_left(&jobs[i]))
			missed[(*left)++] = map->member[i];
	}
	return pool_record_missed(p, POOL_MISSED_ROW, missed, *left);
}

int pool_remove_copies(struct pool *p, const struct pool_map *map, struct chunk_id id,
		       uint32_t *were)
{
	uint32_t n = p->record.shape.p + 1, left = 0;
	AUTO_FREE struct pool_job *jobs = remove_jobs(p, map, id, POOL_ROWS_MAX, n);
	uint16_t missed[POOL_PARITY_MAX + 1];
	bool authoritative[POOL_PARITY_MAX + 1], all_behind;

	*were = 0;
	if (jobs == NULL)
		return -ENOMEM;
	for (uint32_t c = 0; c < n; c++) {
		*were += jobs[c].rc == 0;
		if (may_be_left(&jobs[c]))
			missed[left++] = map->member[c];
	}
	int rc = pool_record_missed(p, POOL_MISSED_COPY, missed, left);
	/* Not before: meanwhile members may have fallen behind by changes of other chunks. */
	pool_authoritative(p, map, authoritative, &all_behind);
	for (uint32_t c = 0; rc == 0 && c < n; c++)
		if (authoritative[c] && may_be_left(&jobs[c]))
			rc = -EIO;
	return rc;
}

static int delete_locked(struct pool *p, struct chunk_id id)
{
	struct pool_map map;
	uint32_t rows_left, rows, copies;

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
	rows_went(p, id);
	rt_shield_leave();
	pool_unlock_chunk(p, &hold);
	return rc;
}
