// SPDX-License-Identifier: Apache-2.0
/*
 * Chunks that are open for appends: p + 1 copies on the members of the first p + 1 rows. A change is
 * acknowledged when every copy whose member is up has it, at least two do, and the members of the
 * others are known to be behind (pool.h). A copy that missed some is brought level from the others
 * before the chunk is next read or changed. A seal seals the copies,
 * which is what counts, and then codes the chunk into rows and removes them; when that fails or a
 * crash comes between, the chunk is read from its sealed copies and is coded later.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "rt/rt.h"
#include "store/pool_impl.h"

#define COPY_STEP (1 * MIB)
#define COPIES_LEAST 2

static uint32_t copies(const struct pool *p)
{
	return p->record.shape.p + 1;
}

static bool is_down(int64_t rc)
{
	return rc == -EIO || rc == -ENODEV || rc == -EROFS;
}

static struct pool_job *copy_jobs(struct pool *p, const struct pool_map *map, struct chunk_id id,
				  enum pool_call call)
{
	struct pool_job *jobs = pool_jobs_new(p, copies(p), call);

	for (uint32_t c = 0; jobs != NULL && c < copies(p); c++) {
		jobs[c].member = map->member[c];
		jobs[c].id = pool_row_id(id, POOL_ROWS_MAX + c);
		jobs[c].to_end = true;
	}
	return jobs;
}

/* Has one of those that are believed now the change, and all of them where these are behind? */
static bool is_believed(const struct pool *p, const struct pool_job *jobs,
			const struct pool_map *map)
{
	uint32_t told = 0, untold = 0;
	bool authoritative[POOL_PARITY_MAX + 1], all_behind;

	pool_authoritative(p, map, authoritative, &all_behind);
	for (uint32_t c = 0; c < copies(p); c++) {
		told += authoritative[c] && jobs[c].rc == 0;
		untold += authoritative[c] && jobs[c].rc != 0;
	}
	return told > 0 && (untold == 0 || !all_behind);
}

/*
 * What the answers of the copies come to: the error they agree on, unless it is only that some are down.
 * Those are behind from now on. What a member says that is not authoritative does not matter, but a copy of it
 * that was level and has changed is a copy.
 *
 * One that is authoritative must have the change, and be authoritative afterwards: so whatever happens, a member that
 * was the last to fall behind has missed nothing that was acknowledged before. Where all are behind
 * already, the last of them cannot be told from each other: all must have it.
 */
static int copies_outcome(struct pool *p, const struct pool_job *jobs, const struct pool_view *v)
{
	uint32_t good = 0, n = 0, told = 0, untold = 0;
	uint16_t missed[POOL_PARITY_MAX + 1];
	int worst = 0;

	for (uint32_t c = 0; c < copies(p); c++) {
		if (jobs[c].rc == 0) {
			good += v->form != POOL_COPIES || pool_copy_is_current(v, c);
			told += v->authoritative[c];
			continue;
		}
		if (jobs[c].member != POOL_NOWHERE)
			missed[n++] = jobs[c].member;
		untold += v->authoritative[c];
		if (v->authoritative[c] && (worst == 0 || is_down(worst)))
			worst = (int)jobs[c].rc;
	}
	/* One that could not be made yet, of a chunk that is there. */
	if (worst == -ENOENT && v->form == POOL_COPIES)
		worst = -EIO;
	if (worst != 0 && !is_down(worst))
		return worst;
	if (good < COPIES_LEAST || told == 0 || (v->all_behind && untold > 0))
		return worst != 0 ? worst : -EIO;
	int rc = pool_record_missed(p, POOL_MISSED_COPY, missed, n);
	/* Since the look, those that have it may have fallen behind before these, by other chunks. */
	return rc == 0 && !is_believed(p, jobs, &v->map) ? -EIO : rc;
}

/* --- put -------------------------------------------------------------------------------------- */

int pool_put_copies(struct pool *p, struct chunk_id id, const struct store_put *put)
{
	struct pool_view v;
	int rc = pool_lookup(p, id, &v);

	/* There are no rows to be in the way, so this has to be known beforehand. */
	if (rc != -ENOENT)
		return rc == 0 || rc == -ENODATA ? -EEXIST : rc;
	if (v.copies_present + v.present > 0) {
		uint32_t left, were;
		rc = pool_remove_copies(p, &v.map, id, &were);
		if (rc == 0)
			rc = pool_remove_rows(p, &v.map, id, &left, &were);
		if (rc != 0)
			return rc;
	}
	if (put->data.n + 1 > STORE_IOV_MAX || put->capacity > STORE_CHUNK_MAX - POOL_COPY_SKIP)
		return -EFBIG;
	AUTO_FREE struct pool_job *jobs = copy_jobs(p, &v.map, id, POOL_PUT);
	AUTO_FREE struct iovec *iov = calloc((size_t)put->data.n + 1, sizeof(*iov));
	AUTO_FREE uint8_t *front = aligned_alloc(4096, POOL_COPY_SKIP);
	if (jobs == NULL || iov == NULL || front == NULL)
		return -ENOMEM;
	memset(front, 0, POOL_COPY_SKIP);
	memcpy(front, put->label, STORE_LABEL_BYTES);
	iov[0] = (struct iovec){.iov_base = front, .iov_len = POOL_COPY_SKIP};
	for (int i = 0; i < put->data.n; i++)
		iov[i + 1] = put->data.iov[i];
	for (uint32_t c = 0; c < copies(p); c++) {
		struct store_put *to = &jobs[c].put;
		struct pool_label l = {.copy = true,
				       .row = c,
				       .k = p->record.shape.k,
				       .p = p->record.shape.p,
				       .pool = p->record.shape.id};
		*to = *put;
		to->capacity = max_u64(put->capacity, put->data.len) + POOL_COPY_SKIP;
		to->data.iov = iov;
		to->data.n = put->data.n + 1;
		to->data.len = put->data.len + POOL_COPY_SKIP;
		to->data.crc = crc32c_combine(crc32c(0, front, POOL_COPY_SKIP), put->data.crc,
					      put->data.len);
		pool_label_encode(&l, to->label);
	}
	pool_jobs_run(jobs, copies(p));
	rc = copies_outcome(p, jobs, &v);
	if (rc != 0) {
		uint32_t were;
		pool_remove_copies(p, &v.map, id, &were);
	}
	return rc;
}

/* --- reading ---------------------------------------------------------------------------------- */

int pool_copies_stat(struct pool *p, const struct pool_view *v, struct chunk_stat *out)
{
	uint8_t front[POOL_COPY_SKIP] = {0};
	const struct chunk_stat *st = &v->copy_st[v->best_copy];
	int rc = pool_upper_label(p, v, front);

	if (rc != 0)
		return rc == -ENOENT ? -EAGAIN : rc;
	*out = *st;
	out->epoch = v->epoch;
	out->len -= POOL_COPY_SKIP;
	out->capacity -= POOL_COPY_SKIP;
	/* What is in front, taken out of the sum of all. */
	out->crc = st->crc ^ crc32c_combine(crc32c(0, front, POOL_COPY_SKIP), 0, out->len);
	return 0;
}

int pool_copies_get(struct pool *p, const struct pool_view *v, uint64_t off, void *buf,
		    uint64_t len, uint32_t *crc)
{
	int rc = -EAGAIN;

	for (uint32_t i = 0; rc != 0 && i < copies(p); i++) {
		uint32_t c = (v->best_copy + i) % copies(p);
		if (v->copy_rc[c] != 0 || v->copy_st[c].len < POOL_COPY_SKIP + off + len)
			continue;
		struct pool_job j = {
			.pool = p,
			.call = POOL_GET,
			.member = v->map.member[c],
			.id = pool_row_id(v->id, POOL_ROWS_MAX + c),
			.off = POOL_COPY_SKIP + off,
			.len = len,
			.buf = buf,
		};
		pool_jobs_run(&j, 1);
		rc = (int)j.rc;
		*crc = j.crc;
		if (rc == -ECANCELED || rc == -ETIME)
			return rc;
	}
	return rc == -ENOENT ? -EAGAIN : rc;
}

/* --- bringing copies level -------------------------------------------------------------------- */

/* Reads of the best copy, for another. That it fails says nothing of that other one. */
static int source_get(struct pool_job *get, bool *source_bad)
{
	pool_jobs_run(get, 1);
	*source_bad = get->rc != 0;
	return (int)get->rc;
}

/* The CRC of the first len bytes of a copy. */
static int front_crc(struct pool *p, const struct pool_view *v, uint32_t c, uint64_t len,
		     uint8_t *buf, uint32_t *crc)
{
	struct pool_job get = {
		.pool = p,
		.call = POOL_GET,
		.member = v->map.member[c],
		.id = pool_row_id(v->id, POOL_ROWS_MAX + c),
		.buf = buf,
	};

	*crc = v->copy_st[c].crc;
	if (len == v->copy_st[c].len)
		return 0;
	*crc = 0;
	for (; get.off < len; get.off += get.len) {
		get.len = min_u64(COPY_STEP, len - get.off);
		pool_jobs_run(&get, 1);
		if (get.rc != 0)
			return (int)get.rc;
		*crc = crc32c_combine(*crc, get.crc, get.len);
	}
	return 0;
}

/*
 * Have copy c and the best one the same bytes as far as both go? Not when an error has left one of a chunk
 * that was to be deleted, or put.
 */
static int is_same_chunk(struct pool *p, const struct pool_view *v, uint32_t c, uint8_t *buf,
			 bool *source_bad)
{
	uint64_t len = min_u64(v->copy_st[c].len, v->copy_st[v->best_copy].len);
	uint32_t crc, best_crc;
	int rc = front_crc(p, v, v->best_copy, len, buf, &best_crc);

	*source_bad = rc != 0;
	if (rc == 0)
		rc = front_crc(p, v, c, len, buf, &crc);
	/* What cannot be read of it is not known to be the same. */
	return *source_bad ? rc : rc == 0 && crc == best_crc;
}

/* Appends to copy c what the best one has beyond it, and makes it as the chunk is in all else. */
static int copy_catch_up(struct pool *p, const struct pool_view *v, uint32_t c, uint8_t *buf,
			 bool *source_bad)
{
	const struct chunk_stat *best = &v->copy_st[v->best_copy];
	uint64_t at = v->copy_st[c].len;
	struct pool_job get = {
		.pool = p,
		.call = POOL_GET,
		.member = v->map.member[v->best_copy],
		.id = pool_row_id(v->id, POOL_ROWS_MAX + v->best_copy),
		.buf = buf,
	};
	struct pool_job add = {
		.pool = p,
		.call = POOL_APPEND,
		.member = v->map.member[c],
		.id = pool_row_id(v->id, POOL_ROWS_MAX + c),
		.epoch = v->epoch,
		.off = STORE_AT_END,
	};
	struct iovec piece;

	if (at == best->len && !best->sealed && v->copy_st[c].epoch < v->epoch) {
		pool_jobs_run(&add, 1);
		return (int)add.rc;
	}
	for (; at < best->len; at += get.len) {
		get.off = at;
		get.len = min_u64(COPY_STEP, best->len - at);
		int rc = source_get(&get, source_bad);
		if (rc != 0)
			return rc;
		add.off = at;
		add.data = store_data_of(&piece, buf, get.len, get.crc);
		pool_jobs_run(&add, 1);
		if (add.rc != 0)
			return (int)add.rc;
	}
	if (!best->sealed || v->copy_st[c].sealed)
		return 0;
	add.call = POOL_SEAL;
	add.len = best->len;
	pool_jobs_run(&add, 1);
	return (int)add.rc;
}

/*
 * A new copy in place of one that is missing, damaged or not believed: its front, then the rest by
 * copy_catch_up.
 */
static int copy_replace(struct pool *p, struct pool_view *v, uint32_t c, uint8_t *buf,
			bool *source_bad)
{
	const struct chunk_stat *best = &v->copy_st[v->best_copy];
	struct pool_job j = {
		.pool = p,
		.call = POOL_GET,
		.member = v->map.member[v->best_copy],
		.id = pool_row_id(v->id, POOL_ROWS_MAX + v->best_copy),
		.len = POOL_COPY_SKIP,
		.buf = buf,
	};
	struct pool_label l = {.copy = true,
			       .row = c,
			       .k = p->record.shape.k,
			       .p = p->record.shape.p,
			       .pool = p->record.shape.id};
	struct iovec piece;

	if (source_get(&j, source_bad) != 0)
		return (int)j.rc;
	j.put = (struct store_put){
		.data = store_data_of(&piece, buf, POOL_COPY_SKIP, j.crc),
		.epoch = v->epoch,
		.capacity = best->capacity,
		.open = true,
		.replace = true,
	};
	pool_label_encode(&l, j.put.label);
	j.call = POOL_PUT;
	j.member = v->map.member[c];
	j.id = pool_row_id(v->id, POOL_ROWS_MAX + c);
	pool_jobs_run(&j, 1);
	if (j.rc != 0)
		return (int)j.rc;
	v->copy_rc[c] = 0;
	v->copy_st[c] = *best;
	v->copy_st[c].epoch = v->epoch;
	v->copy_st[c].len = POOL_COPY_SKIP;
	v->copy_st[c].sealed = false;
	return copy_catch_up(p, v, c, buf, source_bad);
}

static int copy_sync(struct pool *p, struct pool_view *v, uint32_t c, uint8_t *buf,
		     bool *source_bad)
{
	int rc = v->copy_rc[c];

	if (pool_copy_is_current(v, c))
		return 0;
	if (rc == 0) {
		int same = is_same_chunk(p, v, c, buf, source_bad);
		if (same < 0)
			return same;
		return same ? copy_catch_up(p, v, c, buf, source_bad)
			    : copy_replace(p, v, c, buf, source_bad);
	}
	if (rc == -ESTALE || rc == -EBADMSG || rc == -ENOENT || v->map.moved[c])
		return copy_replace(p, v, c, buf, source_bad);
	return rc;
}

/* From the best one, or another like it when that cannot be read. */
static int copy_sync_from_any(struct pool *p, struct pool_view *v, uint32_t c, uint8_t *buf,
			      bool *source_bad)
{
	uint32_t best = v->best_copy;
	int rc = copy_sync(p, v, c, buf, source_bad);

	for (uint32_t from = 0; *source_bad && from < copies(p); from++) {
		if (from == c || v->copy_rc[from] != 0 || !pool_copy_is_current(v, from))
			continue;
		v->best_copy = from;
		*source_bad = false;
		rc = copy_sync(p, v, c, buf, source_bad);
	}
	v->best_copy = best;
	return rc;
}

/*
 * Do copies that have missed nothing differ? Then a change was not acknowledged, and a copy that cannot be
 * asked may have it or not; otherwise that one is as good as those that can.
 */
static bool was_cut_short(const struct pool *p, const struct pool_view *v)
{
	for (uint32_t c = 0; c < copies(p); c++) {
		bool absent = v->copy_rc[c] == -ENOENT;
		if (v->authoritative[c] &&
		    (absent || (v->copy_rc[c] == 0 && !pool_copy_is_current(v, c))))
			return true;
	}
	return false;
}

int pool_copies_sync(struct pool *p, struct pool_view *v)
{
	AUTO_FREE uint8_t *buf = aligned_alloc(4096, COPY_STEP);
	uint16_t missed[POOL_PARITY_MAX + 1];
	uint32_t n = 0;

	if (buf == NULL)
		return -ENOMEM;
	bool cut_short = was_cut_short(p, v);
	for (uint32_t c = 0; c < copies(p); c++) {
		int was = v->copy_rc[c];
		bool asked = was == 0 || was == -ENOENT || was == -ESTALE || was == -EBADMSG ||
			     v->map.moved[c];
		bool source_bad = false;
		if (copy_sync_from_any(p, v, c, buf, &source_bad) != 0 && !source_bad &&
		    v->map.member[c] != POOL_NOWHERE && (asked || cut_short))
			missed[n++] = v->map.member[c];
	}
	int rc = pool_record_missed(p, POOL_MISSED_COPY, missed, n);
	return rc != 0 ? rc : pool_lookup(p, v->id, v);
}

/* --- append ----------------------------------------------------------------------------------- */

/* The copies of an open chunk, level. -EPERM for a coded one. */
static int look_for_change(struct pool *p, struct chunk_id id, uint64_t epoch, struct pool_view *v)
{
	int rc = pool_lookup(p, id, v);

	if (rc != 0)
		return rc;
	if (v->form == POOL_CODED)
		return epoch < v->epoch ? -ESTALE : -EPERM;
	if (epoch >= v->epoch && pool_is_incomplete(p, v))
		rc = pool_copies_sync(p, v);
	return rc;
}

static int append_locked(struct pool *p, struct chunk_id id, uint64_t epoch, uint64_t off,
			 const struct store_data *data)
{
	struct pool_view v;
	int rc = look_for_change(p, id, epoch, &v);

	if (rc != 0)
		return rc;
	struct chunk_stat st = v.copy_st[v.best_copy];
	st.epoch = v.epoch;
	st.len -= POOL_COPY_SKIP;
	st.capacity -= POOL_COPY_SKIP;
	rc = store_append_check(&st, epoch, off, data->len);
	if (rc != 0)
		return rc;
	AUTO_FREE struct pool_job *jobs = copy_jobs(p, &v.map, id, POOL_APPEND);
	if (jobs == NULL)
		return -ENOMEM;
	for (uint32_t c = 0; c < copies(p); c++) {
		jobs[c].epoch = epoch;
		jobs[c].off = off == STORE_AT_END ? off : off + POOL_COPY_SKIP;
		jobs[c].data = *data;
	}
	pool_jobs_run(jobs, copies(p));
	return copies_outcome(p, jobs, &v);
}

int pool_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t off,
		const struct store_data *data)
{
	struct pool *p = pool_of(s);
	struct pool_chunk_lock hold;
	int rc = store_data_check(data);

	if (rc == 0 && p->admin_state == STORE_FAILED)
		rc = -EIO;
	if (rc == 0 && pool_check_id(id) != 0)
		rc = -ENOENT;
	if (rc == 0)
		rc = pool_lock_chunk(p, &hold, id);
	if (rc != 0)
		return rc;
	rt_shield_enter();
	struct pool_view v;
	/* Whether it exists is answered first, as by any store. */
	rc = p->admin_state == STORE_DRAINING && data->len > 0 ? pool_lookup(p, id, &v) : 0;
	if (rc == 0 && p->admin_state == STORE_DRAINING && data->len > 0)
		rc = -EROFS;
	if (rc == 0)
		rc = append_locked(p, id, epoch, off, data);
	rt_shield_leave();
	pool_unlock_chunk(p, &hold);
	return rc;
}

/* --- seal ------------------------------------------------------------------------------------- */

static bool is_coded(struct pool *p, struct chunk_id id, const struct chunk_stat *st)
{
	AUTO_FREE struct pool_view *now = calloc(1, sizeof(*now));

	return now != NULL && pool_lookup(p, id, now) == 0 && now->form == POOL_CODED &&
	       now->label.len == st->len && now->label.crc == st->crc;
}

int pool_encode_sealed(struct pool *p, const struct pool_view *v)
{
	struct chunk_stat st;
	uint32_t were;
	struct iovec piece;
	int rc = pool_copies_stat(p, v, &st);

	if (rc != 0)
		return rc;
	AUTO_FREE uint8_t *bytes = aligned_alloc(4096, (st.len + 4096) / 4096 * 4096);
	if (bytes == NULL)
		return -ENOMEM;
	uint32_t crc;
	rc = pool_copies_get(p, v, 0, bytes, st.len, &crc);
	if (rc == 0 && crc != st.crc)
		rc = -EBADMSG;
	if (rc != 0)
		return rc;
	struct store_put put = {
		.data = store_data_of(&piece, bytes, st.len, st.crc),
		.epoch = st.epoch,
		.open = true, /* was, until now */
	};
	rc = pool_upper_label(p, v, put.label);
	if (rc == 0)
		rc = pool_put_rows(p, v->id, &put, bytes);
	/* Are these its rows, from a time before, or others that are in the way? */
	if (rc == -EEXIST && is_coded(p, v->id, &st))
		rc = 0;
	if (rc != 0)
		return rc == -EEXIST ? -EIO : rc;
	return pool_remove_copies(p, &v->map, v->id, &were);
}

static int seal_copies(struct pool *p, struct pool_view *v, uint64_t epoch, uint64_t len)
{
	AUTO_FREE struct pool_job *jobs = copy_jobs(p, &v->map, v->id, POOL_SEAL);

	if (jobs == NULL)
		return -ENOMEM;
	for (uint32_t c = 0; c < copies(p); c++) {
		jobs[c].epoch = epoch;
		jobs[c].len = len + POOL_COPY_SKIP;
	}
	pool_jobs_run(jobs, copies(p));
	return copies_outcome(p, jobs, v);
}

static int seal_locked(struct pool *p, struct chunk_id id, uint64_t epoch, uint64_t len)
{
	struct pool_view v;
	int rc = look_for_change(p, id, epoch, &v);
	struct chunk_stat st = {.len = v.label.len, .epoch = v.epoch, .sealed = true};

	if (rc != 0 && (v.form != POOL_CODED || rc == -ENODATA))
		return rc;
	if (v.form == POOL_COPIES) {
		st = v.copy_st[v.best_copy];
		st.epoch = v.epoch;
		st.len -= POOL_COPY_SKIP;
	}
	rc = store_seal_check(&st, epoch, len);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	rc = seal_copies(p, &v, epoch, len);
	if (rc != 0)
		return rc;
	/* It is sealed; coding it now is the usual way, later is as good. */
	if (pool_lookup(p, id, &v) == 0 && v.form == POOL_COPIES)
		pool_encode_sealed(p, &v);
	return 0;
}

int pool_seal(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t len)
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
	rc = seal_locked(p, id, epoch, len);
	rt_shield_leave();
	pool_unlock_chunk(p, &hold);
	return rc;
}
