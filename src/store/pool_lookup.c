// SPDX-License-Identifier: Apache-2.0
/*
 * Calls to members, the locks of chunks, cached heads, and how the members' answers decide whether
 * a chunk exists (pool.h has the rules).
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "rt/rt.h"
#include "store/pool_impl.h"

/* --- parallel calls to members ---------------------------------------------------------------- */

static int64_t job_call(struct pool_job *j, struct store *m)
{
	switch (j->call) {
	case POOL_STAT:
		return store_stat(m, j->id, &j->st);
	case POOL_PUT:
		return store_put(m, j->id, &j->put);
	case POOL_GET:
		return store_get(m, j->id, j->off, j->buf, j->len, &j->crc);
	case POOL_DELETE:
		return store_delete(m, j->id);
	case POOL_APPEND:
		return store_append(m, j->id, j->epoch, j->off, &j->data);
	case POOL_SEAL:
		return store_seal(m, j->id, j->epoch, j->len);
	case POOL_SCAN:
		return store_scan(m, j->id, j->bad, POOL_SCAN_RANGES);
	}
	return -EINVAL;
}

static void job_run(void *arg)
{
	struct pool_job *j = arg;
	struct pool *p = j->pool;
	assert(j->member == POOL_NOWHERE || j->member < p->record.shape.members);
	struct store *m = j->member == POOL_NOWHERE ? NULL : p->members[j->member];

	if (m == NULL) {
		j->rc = -ENODEV;
		return;
	}
	if (j->no_deadline)
		rt_deadline_set(RT_NEVER);
	pool_call_begin(p, j->member);
	j->rc = job_call(j, m);
	pool_call_end(p, j->member);
	bool failing = j->rc == -EIO || j->rc == -ENODEV || j->rc == -EROFS;
	p->return_count += p->failing[j->member] && j->rc >= 0;
	p->failing[j->member] = failing || (p->failing[j->member] && j->rc < 0);
	p->io_errors += j->rc == -EIO || j->rc == -ENODEV;
	p->checksum_errors += j->rc == -EBADMSG && j->call == POOL_GET;
}

void pool_jobs_run(struct pool_job *jobs, uint32_t n)
{
	struct rt_group g;
	uint64_t deadline_ns = rt_deadline();

	rt_group_init(&g);
	for (uint32_t i = 1; i < n; i++)
		/*
		 * If no fiber can be started for a call, this fiber runs the call itself before it
		 * starts the next one.
		 */
		if (rt_group_spawn(&g, "pool", job_run, &jobs[i]) != 0)
			job_run(&jobs[i]);
	if (n > 0)
		job_run(&jobs[0]);
	rt_deadline_set(deadline_ns);
	rt_group_join(&g);
}

struct pool_job *pool_jobs_new(struct pool *p, uint32_t n, enum pool_call call)
{
	struct pool_job *jobs = calloc(n, sizeof(*jobs));

	for (uint32_t i = 0; jobs != NULL && i < n; i++) {
		jobs[i].pool = p;
		jobs[i].call = call;
	}
	return jobs;
}

/* --- locks of chunks -------------------------------------------------------------------------- */

bool pool_chunk_is_locked(const struct pool *p, struct chunk_id id)
{
	const struct pool_chunk_lock *h;

	list_for_each_entry(h, &p->locked_chunks, link) {
		if (chunk_id_equal(h->id, id))
			return true;
	}
	return false;
}

int pool_lock_chunk(struct pool *p, struct pool_chunk_lock *h, struct chunk_id id)
{
	while (pool_chunk_is_locked(p, id)) {
		int rc = rt_cond_wait(&p->chunk_unlocked);
		if (rc != 0)
			return rc;
	}
	h->id = id;
	h->number = ++p->locks_taken;
	list_push_back(&p->locked_chunks, &h->link);
	return 0;
}

void pool_unlock_chunk(struct pool *p, struct pool_chunk_lock *h)
{
	assert(!list_empty(&h->link));
	list_remove(&h->link);
	assert(!pool_chunk_is_locked(p, h->id));
	rt_cond_broadcast(&p->chunk_unlocked);
}

int pool_wait_for_locked(struct pool *p)
{
	uint64_t last = p->locks_taken;
	int rc = 0;

	while (rc == 0 && !list_empty(&p->locked_chunks) &&
	       list_entry(list_first(&p->locked_chunks), struct pool_chunk_lock, link)->number <=
		       last)
		rc = rt_cond_wait(&p->chunk_unlocked);
	return rc;
}

/* --- cached heads ----------------------------------------------------------------------------- */

static struct pool_head *head_slot(struct pool *p, struct chunk_id id)
{
	return &p->heads[hash64_u64s(id.block, id.index) % POOL_HEADS];
}

const struct pool_head *pool_head_find(struct pool *p, struct chunk_id id)
{
	const struct pool_head *h = head_slot(p, id);
	bool holds = h->valid && chunk_id_equal(h->id, id) &&
		     (h->complete || h->return_count == p->return_count);
	return holds ? h : NULL;
}

void pool_head_from_view(const struct pool *p, const struct pool_view *v, struct pool_head *out)
{
	assert(v->form == POOL_CODED && v->present >= v->geo.k);
	*out = (struct pool_head){
		.valid = true,
		.complete = v->present == pool_width(p),
		.return_count = p->return_count,
		.id = v->id,
		.epoch = v->epoch,
		.label = v->label,
	};
	for (uint32_t r = 0; r < pool_width(p); r++)
		if (v->row_rc[r] != 0)
			out->bad[r / 8] |= (uint8_t)(1U << (r % 8));
}

void pool_head_store(struct pool *p, const struct pool_view *v)
{
	pool_head_from_view(p, v, head_slot(p, v->id));
}

uint32_t *pool_delete_count(struct pool *p, struct chunk_id id)
{
	return &p->delete_counts[hash64_u64s(id.block, id.index) % POOL_DELETE_COUNTS];
}

void pool_head_forget(struct pool *p, struct chunk_id id)
{
	struct pool_head *h = head_slot(p, id);

	if (chunk_id_equal(h->id, id))
		h->valid = false;
}

int pool_check_id(struct chunk_id id)
{
	return id.block > POOL_BLOCK_MAX || id.index > POOL_INDEX_MAX ? -EINVAL : 0;
}

/* --- lookup ----------------------------------------------------------------------------------- */

static bool is_absent(int rc)
{
	return rc == -ENOENT || rc == -ESTALE;
}

/*
 * Decodes the label of a row that a member returned. -EBADMSG unless the label belongs to this pool
 * and this row.
 */
static int row_label(const struct pool *p, const struct pool_job *j, uint32_t row,
		     struct pool_label *l)
{
	if (pool_label_decode(j->st.label, l) != 0 || l->copy || l->row != row ||
	    l->pool != p->record.shape.id || l->k != p->record.shape.k || l->p != p->record.shape.p)
		return -EBADMSG;
	return 0;
}

static bool same_chunk(const struct pool_job *a, const struct pool_label *la,
		       const struct pool_job *b, const struct pool_label *lb)
{
	return la->len == lb->len && la->crc == lb->crc && la->piece == lb->piece &&
	       a->st.epoch == b->st.epoch;
}

/*
 * Returns the number of a row that belongs to the current chunk, not to an older one. A member that
 * was down while the chunk was deleted and put again still has a row of the old chunk. A delete
 * leaves fewer than k rows, so most of the present rows belong to the current chunk.
 */
static uint32_t majority_row(const struct pool_job *jobs, const struct pool_label *labels,
			     uint32_t width)
{
	uint32_t best = 0, best_count = 0, there = 0;

	for (uint32_t r = 0; r < width; r++)
		there += jobs[r].rc == 0;
	for (uint32_t r = 0; r < width && 2 * best_count < there; r++) {
		uint32_t count = 0;
		for (uint32_t i = 0; jobs[r].rc == 0 && i < width; i++)
			count += jobs[i].rc == 0 &&
				 same_chunk(&jobs[r], &labels[r], &jobs[i], &labels[i]);
		if (count > best_count) {
			best = r;
			best_count = count;
		}
	}
	return best;
}

static int lookup_rows(struct pool *p, struct pool_view *v)
{
	uint32_t width = pool_width(p);
	AUTO_FREE struct pool_job *jobs = pool_jobs_new(p, width, POOL_STAT);
	AUTO_FREE struct pool_label *labels = calloc(width, sizeof(*labels));

	if (jobs == NULL || labels == NULL)
		return -ENOMEM;
	for (uint32_t r = 0; r < width; r++) {
		jobs[r].member = v->map.member[r];
		jobs[r].id = pool_row_id(v->id, r);
	}
	pool_jobs_run(jobs, width);
	for (uint32_t r = 0; r < width; r++) {
		if (jobs[r].rc == -ECANCELED || jobs[r].rc == -ETIME)
			return (int)jobs[r].rc;
		if (jobs[r].rc == 0)
			jobs[r].rc = row_label(p, &jobs[r], r, &labels[r]);
	}
	uint32_t one = majority_row(jobs, labels, width);
	v->present = 0;
	v->unknown = 0;
	for (uint32_t r = 0; r < width; r++) {
		int rc = (int)jobs[r].rc;
		if (rc == 0 && !same_chunk(&jobs[one], &labels[one], &jobs[r], &labels[r]))
			rc = -ESTALE;
		/*
		 * An event assigned the row to this member; a rebuild may not have written the row
		 * yet, so its state is unknown.
		 */
		if (is_absent(rc) && v->map.moved[r])
			rc = -ENODEV;
		v->row_rc[r] = rc;
		v->present += rc == 0;
		v->unknown += rc != 0 && !is_absent(rc);
	}
	assert(v->present + v->unknown <= width);
	if (v->present > 0) {
		const struct pool_label *l = &labels[one];
		v->label = *l;
		v->epoch = jobs[one].st.epoch;
		pool_geo_init(&v->geo, l->k, l->p, l->piece, l->len);
	}
	return 0;
}

void pool_authoritative(const struct pool *p, const struct pool_map *map, bool *authoritative,
			bool *all_behind)
{
	uint32_t n = p->record.shape.p + 1, most = 0;

	for (uint32_t c = 0; c < n; c++) {
		uint32_t trust = pool_member_rank(&p->record, map->member[c]);
		most = trust > most ? trust : most;
	}
	for (uint32_t c = 0; c < n; c++)
		authoritative[c] = most > 0 && pool_member_rank(&p->record, map->member[c]) == most;
	*all_behind = most != POOL_RANK_UP_TO_DATE;
}

static int lookup_copies(struct pool *p, struct pool_view *v)
{
	uint32_t n = p->record.shape.p + 1;
	AUTO_FREE struct pool_job *jobs = pool_jobs_new(p, n, POOL_STAT);

	if (jobs == NULL)
		return -ENOMEM;
	for (uint32_t c = 0; c < n; c++) {
		jobs[c].member = v->map.member[c];
		jobs[c].id = pool_row_id(v->id, POOL_ROWS_MAX + c);
	}
	pool_jobs_run(jobs, n);
	v->copies_present = 0;
	v->copies_unknown = 0;
	v->copies_behind = 0;
	pool_authoritative(p, &v->map, v->authoritative, &v->all_behind);
	for (uint32_t c = 0; c < n; c++) {
		struct pool_label l;
		int rc = (int)jobs[c].rc;
		if (rc == -ECANCELED || rc == -ETIME)
			return rc;
		if (rc == 0 &&
		    (pool_label_decode(jobs[c].st.label, &l) != 0 || !l.copy || l.row != c ||
		     l.pool != p->record.shape.id || jobs[c].st.len < POOL_COPY_SKIP))
			rc = -EBADMSG;
		v->not_rebuilt[c] = rc == -ENOENT && v->map.moved[c];
		if (v->not_rebuilt[c])
			rc = -ENODEV;
		/*
		 * Ignore copies on members that are behind: they may be older than the
		 * authoritative copies. A copy at POOL_NOWHERE is on no member.
		 */
		bool behind = !v->authoritative[c];
		if (rc == 0 && behind)
			rc = -ESTALE;
		v->copy_rc[c] = rc;
		v->copy_st[c] = jobs[c].st;
		v->copies_unknown += rc != 0 && !is_absent(rc) && !behind;
		v->copies_behind += behind;
		assert(v->copies_present + v->copies_unknown + v->copies_behind <= c + 1);
		if (rc != 0)
			continue;
		/*
		 * Take the highest epoch: a fence may have reached only some copies, and a client
		 * that has read the new epoch must not read an older one later.
		 */
		v->epoch = max_u64(v->copies_present > 0 ? v->epoch : 0, jobs[c].st.epoch);
		const struct chunk_stat *best = &v->copy_st[v->best_copy];
		/*
		 * A sealed copy is better than a longer open one: a seal cuts the chunk, and no
		 * append follows it.
		 */
		if (v->copies_present++ == 0 || (jobs[c].st.sealed && !best->sealed) ||
		    (jobs[c].st.sealed == best->sealed && jobs[c].st.len > best->len))
			v->best_copy = c;
	}
	return 0;
}

/*
 * Returns the error for a chunk of which no authoritative copy was found. An acknowledged chunk has
 * at least two copies, so -ENOENT if fewer than two can exist. Else -EIO if an authoritative member
 * is unreachable, or if one authoritative member reports the chunk absent and another has a damaged
 * copy; -ENOENT if an authoritative member reports the chunk absent, or if no copy is left at all;
 * -ENODATA (lost) if only damaged copies and copies on members that are behind remain.
 */
static int without_copies(const struct pool *p, struct pool_view *v)
{
	bool reported_absent = false, unreachable = false, remains = false, damaged = false;

	assert(v->copies_present < 2 && v->present < p->record.shape.k);
	for (uint32_t c = 0; c <= p->record.shape.p; c++) {
		int rc = v->copy_rc[c];
		reported_absent = reported_absent || (v->authoritative[c] && rc == -ENOENT);
		damaged = damaged || (v->authoritative[c] && rc == -EBADMSG);
		remains = remains || rc == -ESTALE || rc == -EBADMSG;
		/* Only members with an authoritative copy decide; other members may be down. */
		unreachable = unreachable || (v->authoritative[c] && rc != -ENOENT &&
					      rc != -EBADMSG && !v->not_rebuilt[c]);
	}
	if (v->copies_unknown == 0 || v->copies_unknown + v->copies_behind < 2)
		return -ENOENT;
	if (unreachable || (reported_absent && damaged))
		return -EIO;
	if (reported_absent || !remains)
		return -ENOENT;
	v->form = POOL_COPIES;
	return -ENODATA;
}

/*
 * Returns whether the heads of so many rows are damaged that the chunk stays unreadable even if all unreachable members
 * return.
 */
static bool heads_are_ruined(const struct pool *p, const struct pool_view *v)
{
	uint32_t ruined = 0;

	assert(v->present == 0);
	for (uint32_t r = 0; r < pool_width(p); r++)
		ruined += v->row_rc[r] == -EBADMSG;
	assert(ruined <= v->unknown);
	return v->unknown - ruined < p->record.shape.k;
}

int pool_lookup(struct pool *p, struct chunk_id id, struct pool_view *v)
{
	memset(v, 0, sizeof(*v));
	v->id = id;
	pool_map_chunk(&p->place, &p->record, id, &v->map);
	int rc = lookup_rows(p, v);
	if (rc != 0)
		return rc;
	if (v->present >= p->record.shape.k) {
		v->form = POOL_CODED;
		return 0;
	}
	rc = lookup_copies(p, v);
	if (rc != 0)
		return rc;
	/*
	 * An up-to-date member that still has the chunk proves that it was not deleted. An
	 * acknowledged put left at least two copies: a single copy that all other members report
	 * absent comes from an unfinished put.
	 */
	if (v->copies_present >= 2 ||
	    (v->copies_present == 1 && v->copies_unknown + v->copies_behind > 0)) {
		v->form = POOL_COPIES;
		return 0;
	}
	if (v->present + v->unknown >= p->record.shape.k) {
		v->form = v->present > 0 ? POOL_CODED : POOL_NONE;
		if (v->present > 0)
			return -ENODATA;
		return heads_are_ruined(p, v) ? -EBADMSG : -EIO;
	}
	return without_copies(p, v);
}

int pool_has_copies(struct pool *p, struct chunk_id id, bool *out)
{
	AUTO_FREE struct pool_view *v = calloc(1, sizeof(*v));

	if (v == NULL)
		return -ENOMEM;
	v->id = id;
	pool_map_chunk(&p->place, &p->record, id, &v->map);
	int rc = lookup_copies(p, v);
	if (rc != 0)
		return rc;
	*out = v->copies_present > 0;
	if (*out)
		return 0;
	/*
	 * An acknowledged chunk is on every authoritative member, so an authoritative member that
	 * reports the chunk absent proves that it does not exist.
	 */
	for (uint32_t c = 0; c <= p->record.shape.p; c++)
		if (v->authoritative[c] && v->copy_rc[c] == -ENOENT)
			return 0;
	return v->copies_unknown > 0 && v->copies_unknown + v->copies_behind >= 2 ? -EIO : 0;
}

bool pool_copy_is_current(const struct pool_view *v, uint32_t copy)
{
	const struct chunk_stat *st = &v->copy_st[copy], *best = &v->copy_st[v->best_copy];

	assert(copy <= POOL_PARITY_MAX);
	if (v->copy_rc[copy] != 0 && v->copy_rc[copy] != -ESTALE)
		return false;

	/*
	 * Do not compare the epochs of sealed copies: the epoch of a sealed chunk is meaningless.
	 */
	return st->len == best->len && st->crc == best->crc && st->sealed == best->sealed &&
	       (st->sealed || st->epoch == v->epoch);
}

bool pool_is_incomplete(const struct pool *p, const struct pool_view *v)
{
	uint32_t n = v->form == POOL_CODED ? pool_width(p) : p->record.shape.p + 1;
	const int *rc = v->form == POOL_CODED ? v->row_rc : v->copy_rc;

	assert(v->form != POOL_NONE);

	for (uint32_t i = 0; i < n; i++)
		if (rc[i] == -ENOENT || (rc[i] == -ESTALE && v->form == POOL_CODED))
			return true;
	if (v->form != POOL_COPIES)
		return false;
	/*
	 * The chunk is incomplete if a copy differs from the best one, or if the copies are sealed
	 * and not coded yet.
	 */
	for (uint32_t i = 0; i < n; i++)
		if (rc[i] == -EBADMSG ||
		    ((rc[i] == 0 || rc[i] == -ESTALE) && !pool_copy_is_current(v, i)))
			return true;
	return v->copy_st[v->best_copy].sealed;
}
