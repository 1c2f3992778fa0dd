// SPDX-License-Identifier: Apache-2.0
/*
 * Chunks that are open for appends: p + 1 copies on the members of the first p + 1 rows. A change
 * is acknowledged when every copy whose member is up has it, at least two copies do, and the
 * members of the other copies are recorded as behind (pool.h). A copy that missed a change is
 * brought up to date from another copy before the chunk is next read or changed. A seal first seals
 * the copies, which makes it effective, then encodes the chunk into rows and deletes the copies. If
 * the encoding fails or a crash interrupts it, the chunk is read from its sealed copies and encoded
 * later.
 */
#include <assert.h>
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
		jobs[c].no_deadline = true;
	}
	return jobs;
}

/*
 * Returns whether a change is on enough authoritative copies: on one of them, or, if all members
 * are behind, on every one.
 */
static bool authoritative_have_change(const struct pool *p, const struct pool_job *jobs,
				      const struct pool_map *map)
{
	uint32_t have = 0, lack = 0;
	bool authoritative[POOL_PARITY_MAX + 1], all_behind;

	pool_authoritative(p, map, authoritative, &all_behind);
	for (uint32_t c = 0; c < copies(p); c++) {
		have += authoritative[c] && jobs[c].rc == 0;
		lack += authoritative[c] && jobs[c].rc != 0;
	}
	return have > 0 && (lack == 0 || !all_behind);
}

/*
 * Decides whether a change of the copies is acknowledged. Returns the error of an authoritative
 * copy, unless the error means that the member is down; members that failed the change are recorded
 * as behind. Errors of copies that are not authoritative are ignored. Such a copy counts towards
 * the copies with the change only if it was equal to the best copy before and the change succeeded.
 *
 * At least one authoritative copy must have the change and must still be authoritative afterwards:
 * then a member that was the last to fall behind has every acknowledged change. If all members are
 * behind already, the members that fell behind last cannot be told apart, so all of them must have
 * the change.
 */
static int copies_outcome(struct pool *p, const struct pool_job *jobs, const struct pool_view *v)
{
	uint32_t good = 0, n = 0, have = 0, lack = 0;
	uint16_t missed[POOL_PARITY_MAX + 1];
	int worst = 0;

	for (uint32_t c = 0; c < copies(p); c++) {
		if (jobs[c].rc == 0) {
			good += v->form != POOL_COPIES || pool_copy_is_current(v, c);
			have += v->authoritative[c];
			continue;
		}
		if (jobs[c].member != POOL_NOWHERE)
			missed[n++] = jobs[c].member;
		lack += v->authoritative[c];
		if (v->authoritative[c] && (worst == 0 || is_down(worst)))
			worst = (int)jobs[c].rc;
	}
	/*
	 * The chunk exists, so this copy is missing only because copying it before the change
	 * failed.
	 */
	if (worst == -ENOENT && v->form == POOL_COPIES)
		worst = -EIO;
	if (worst != 0 && !is_down(worst))
		return worst;
	assert(good + n <= copies(p) && have + lack <= copies(p));
	if (good < COPIES_LEAST || have == 0 || (v->all_behind && lack > 0))
		return worst != 0 ? worst : -EIO;
	int rc = pool_record_missed(p, POOL_MISSED_COPY, missed, n);
	/* Changes of other chunks may have made members fall behind since the lookup. */
	return rc == 0 && !authoritative_have_change(p, jobs, &v->map) ? -EIO : rc;
}

/* --- put -------------------------------------------------------------------------------------- */

int pool_put_copies(struct pool *p, struct chunk_id id, const struct store_put *put)
{
	struct pool_view v;

	assert(put->open && pool_chunk_is_locked(p, id));
	int rc = pool_lookup(p, id, &v);
	/*
	 * Existing rows make a put of rows fail, but existing copies would not make this put fail,
	 * so look for them first.
	 */
	if (rc != -ENOENT)
		return rc == 0 || rc == -ENODATA ? -EEXIST : rc;
	if (v.copies_present + v.present > 0) {
		uint32_t left, removed;
		rc = pool_remove_copies(p, &v.map, id, &removed);
		if (rc == 0)
			rc = pool_remove_rows(p, &v.map, id, &left, &removed);
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
		to->data.crcs = NULL;
		pool_label_encode(&l, to->label);
	}
	pool_jobs_run(jobs, copies(p));
	rc = copies_outcome(p, jobs, &v);
	if (rc != 0) {
		uint32_t removed;
		pool_remove_copies(p, &v.map, id, &removed);
	}
	return rc;
}

/* --- reading ---------------------------------------------------------------------------------- */

int pool_copies_stat(struct pool *p, const struct pool_view *v, struct chunk_stat *out)
{
	uint8_t front[POOL_COPY_SKIP] = {0};
	const struct chunk_stat *st = &v->copy_st[v->best_copy];

	assert(v->form == POOL_COPIES && st->len >= POOL_COPY_SKIP);
	int rc = pool_upper_label(p, v, front);
	if (rc != 0)
		return rc == -ENOENT ? -EAGAIN : rc;
	*out = *st;
	out->epoch = v->epoch;
	out->len -= POOL_COPY_SKIP;
	out->capacity -= POOL_COPY_SKIP;
	/*
	 * Remove the CRC of the front (the first POOL_COPY_SKIP bytes) from the CRC of the entire
	 * copy.
	 */
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

/* --- bringing copies up to date --------------------------------------------------------------- */

/*
 * Reads from the best copy of a chunk. Sets *source_bad on an error, so that the caller does not
 * blame the copy that it is updating.
 */
static int source_get(struct pool_job *get, bool *source_bad)
{
	pool_jobs_run(get, 1);
	*source_bad = get->rc != 0;
	return (int)get->rc;
}

/* Sets *crc to the CRC of the first len bytes of copy c. */
static int prefix_crc(struct pool *p, const struct pool_view *v, uint32_t c, uint64_t len,
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
 * Sets *same to whether copy c and the best copy have equal bytes up to the shorter length. They
 * differ if a failed delete or put left a copy of an older chunk.
 */
static int is_same_chunk(struct pool *p, const struct pool_view *v, uint32_t c, uint8_t *buf,
			 bool *source_bad, bool *same)
{
	uint64_t len = min_u64(v->copy_st[c].len, v->copy_st[v->best_copy].len);
	uint32_t crc = 0, best_crc = 0;
	int rc = prefix_crc(p, v, v->best_copy, len, buf, &best_crc);

	*source_bad = rc != 0;
	if (rc == 0)
		rc = prefix_crc(p, v, c, len, buf, &crc);
	/* A copy that cannot be read counts as different. */
	*same = rc == 0 && crc == best_crc;
	return *source_bad ? rc : 0;
}

/*
 * Appends to copy c the bytes that only the best copy has, and gives copy c the same epoch and
 * seal.
 */
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

	assert(c != v->best_copy || at == best->len);
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
 * Replaces a copy that is missing, damaged or not authoritative: puts its first POOL_COPY_SKIP
 * bytes, which hold the label, then copy_catch_up appends the rest.
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

	assert(c != v->best_copy);
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
		bool same;
		rc = is_same_chunk(p, v, c, buf, source_bad, &same);
		if (rc != 0)
			return rc;
		return same ? copy_catch_up(p, v, c, buf, source_bad)
			    : copy_replace(p, v, c, buf, source_bad);
	}
	if (rc == -ESTALE || rc == -EBADMSG || rc == -ENOENT || v->map.moved[c])
		return copy_replace(p, v, c, buf, source_bad);
	return rc;
}

/*
 * Updates copy c from the best copy or, if that cannot be read, from another copy that is equal to
 * the best one.
 */
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
 * Returns whether authoritative copies differ. If they do, a change was not acknowledged, and a
 * copy on an unreachable member may or may not have that change. If they are equal, a copy on an
 * unreachable member is equal to them.
 */
static bool has_unfinished_change(const struct pool *p, const struct pool_view *v)
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

	assert(v->form == POOL_COPIES && pool_chunk_is_locked(p, v->id));
	if (buf == NULL)
		return -ENOMEM;
	bool unfinished = has_unfinished_change(p, v);
	for (uint32_t c = 0; c < copies(p); c++) {
		int was = v->copy_rc[c];
		bool asked = was == 0 || was == -ENOENT || was == -ESTALE || was == -EBADMSG ||
			     v->map.moved[c];
		bool source_bad = false;
		if (copy_sync_from_any(p, v, c, buf, &source_bad) != 0 && !source_bad &&
		    v->map.member[c] != POOL_NOWHERE && (asked || unfinished))
			missed[n++] = v->map.member[c];
	}
	int rc = pool_record_missed(p, POOL_MISSED_COPY, missed, n);
	return rc != 0 ? rc : pool_lookup(p, v->id, v);
}

/* --- append ----------------------------------------------------------------------------------- */

/*
 * Looks up an open chunk for a change and brings its copies up to date. -EPERM if the chunk is
 * coded.
 */
static int lookup_for_change(struct pool *p, struct chunk_id id, uint64_t epoch,
			     struct pool_view *v)
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
	int rc = lookup_for_change(p, id, epoch, &v);

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
	/* Look the chunk up first: in every store -ENOENT takes precedence over -EROFS. */
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
	uint32_t removed;
	struct iovec piece;

	assert(v->copy_st[v->best_copy].sealed && pool_chunk_is_locked(p, v->id));
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
		.open = true, /* the chunk was open until now */
	};
	rc = pool_upper_label(p, v, put.label);
	if (rc == 0)
		rc = pool_put_rows(p, v->id, &put, bytes);
	/*
	 * Existing rows are those of this chunk, if an earlier attempt encoded it, or rows of
	 * another chunk.
	 */
	if (rc == -EEXIST && is_coded(p, v->id, &st))
		rc = 0;
	if (rc != 0)
		return rc == -EEXIST ? -EIO : rc;
	return pool_remove_copies(p, &v->map, v->id, &removed);
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
	int rc = lookup_for_change(p, id, epoch, &v);
	struct chunk_stat st = {.len = v.label.len, .epoch = v.epoch, .sealed = true};

	if (rc != 0 && (v.form != POOL_CODED || rc == -ENODATA))
		return rc;
	if (v.form == POOL_COPIES) {
		st = v.copy_st[v.best_copy];
		st.epoch = v.epoch;
		st.len -= POOL_COPY_SKIP;
	}
	rc = store_seal_check(&st, epoch, len);
	if (rc == STORE_SEAL_DONE)
		return 0;
	if (rc != 0)
		return rc;
	rc = seal_copies(p, &v, epoch, len);
	if (rc != 0)
		return rc;
	/*
	 * The seal is effective now. The chunk can also be encoded later, so an error of encoding
	 * it now is ignored.
	 */
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
