// SPDX-License-Identifier: Apache-2.0
#include "meta/jobs.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/bug.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "jobs/together.h"
#include "jobs/wire.h"
#include "meta/impl.h"

#define REAPED_MAX 64 /* old jobs that an add deletes */

static uint64_t part_jobs(const struct meta *m)
{
	return part_of(m, META_LAYER_SYSTEM, 0, hash64("jobs", 4, KEY_JOB));
}

static uint64_t wall_ms(void)
{
	return rt_wall_ns() / NS_PER_MS;
}

/* --- rows --------------------------------------------------------------------------------------- */

/* A job's rows as they are stored; the pointers are NULL if it has none. */
struct rows {
	struct kv_bytes spec_raw, state_raw;
	rec_job_spec *spec;
	struct job_state state;
};

static int rows_read(struct meta *m, uint32_t tenant, uint64_t id, struct arena *a,
		     struct rows *out)
{
	struct schema_key keys[2] = {key_id(KEY_JOB, tenant, id),
				     key_id(KEY_JOB_STATE, tenant, id)};
	struct reads r;
	rec_job_state *state;
	*out = (struct rows){0};
	int rc = meta_read(m, part_jobs(m), keys, 2, a, &r);
	if (rc != 0)
		return rc;
	out->spec_raw = r.value[0];
	out->state_raw = r.value[1];
	if ((r.value[0].data == NULL) != (r.value[1].data == NULL))
		return -EBADMSG; /* every transaction writes both */
	if (r.value[0].data == NULL)
		return 0;
	rc = rec_read_job_spec(a, r.value[0], &out->spec);
	if (rc == 0)
		rc = rec_read_job_state(a, r.value[1], &state);
	return rc == 0 ? job_state_read(state, &out->state) : rc;
}

static void put_state(struct txn *t, uint32_t tenant, uint64_t id, const struct job_state *st)
{
	Terrane__Job__State *m = job_state_message(t->arena, st);
	if (m == NULL)
		t->rc = -ENOMEM;
	else
		txn_put(t, key_id(KEY_JOB_STATE, tenant, id), &m->base);
}

/* The numbers of jobs of a tenant and of all. */
struct counts {
	struct schema_key keys[2];
	struct kv_bytes raw[2];
	uint64_t jobs[2];
};

static int counts_read(struct meta *m, uint32_t tenant, struct arena *a, struct counts *out)
{
	struct reads r;
	rec_job_count *c;
	assert(tenant != 0);
	*out = (struct counts){
		.keys = {key_tenant(KEY_JOB_COUNT, tenant), key_tenant(KEY_JOB_COUNT, 0)}};
	int rc = meta_read(m, part_jobs(m), out->keys, 2, a, &r);
	for (int i = 0; rc == 0 && i < 2; i++) {
		out->raw[i] = r.value[i];
		if (r.value[i].data == NULL)
			continue;
		rc = rec_read_job_count(a, r.value[i], &c);
		if (rc == 0)
			out->jobs[i] = c->jobs;
	}
	return rc;
}

/* Adds to t the change of both counts by `more` jobs, and the check that they are as they were read. */
static void counts_change(struct txn *t, const struct counts *c, int64_t more)
{
	for (int i = 0; i < 2; i++) {
		rec_job_count now = TERRANE__JOB__COUNT__INIT;
		assert(more >= 0 || c->jobs[i] >= (uint64_t)-more);
		now.jobs = c->jobs[i] + (uint64_t)more;
		now.stamp = rt_random_u64();
		txn_same(t, c->keys[i], c->raw[i]);
		if (now.jobs > 0)
			txn_put(t, c->keys[i], &now.base);
		else
			txn_delete(t, c->keys[i]);
	}
}

static void delete_rows(struct txn *t, uint32_t tenant, uint64_t id)
{
	txn_delete(t, key_id(KEY_JOB, tenant, id));
	txn_delete(t, key_id(KEY_JOB_STATE, tenant, id));
}

/* Runs the transaction of an attempt. META_RETRY: it met a concurrent change. */
static int run(struct meta *m, struct txn *t)
{
	int rc = txn_run(m, t, part_jobs(m), NULL);
	return rc == -ESTALE ? META_RETRY : rc;
}

#define RETRY(rc, attempt)                  \
	for (unsigned try = 0;; try++) {    \
		rc = attempt;               \
		if (rc != META_RETRY)       \
			break;              \
		rc = meta_back_off(m, try); \
		if (rc != 0)                \
			break;              \
	}

/* --- listing ------------------------------------------------------------------------------------ */

static int listed(const struct kv_row *row, struct meta_job *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	rec_job_state *state;
	*out = (struct meta_job){0};
	if (!key_read_id(row->key, &out->tenant, &out->id))
		return -EBADMSG;
	int rc = rec_read_job_state(&a, row->value, &state);
	return rc == 0 ? job_state_read(state, &out->state) : rc;
}

int64_t meta_job_list(struct meta *m, uint32_t tenant, struct meta_job_place *at,
		      struct meta_job *out, size_t max, bool *end)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct schema_key prefix =
		tenant != 0 ? key_tenant(KEY_JOB_STATE, tenant) : key_text(KEY_JOB_STATE, "");
	struct schema_key after = key_id(KEY_JOB_STATE, at->tenant, at->id);
	struct kv_range range = {.prefix = key_bytes(&prefix),
				 .after = key_bytes(&after),
				 .rows_max = min_u64(max, META_JOBS_PAGE)};
	if (max == 0 || (tenant != 0 && at->tenant != 0 && at->tenant != tenant))
		return -EINVAL;
	int rc = kv_scan(m->kv, part_jobs(m), &range, &rows);
	size_t n = 0;
	for (size_t i = 0; rc == 0 && i < rows.count; i++) {
		rc = listed(&rows.row[i], &out[n]);
		if (out[n].id != 0)
			*at = (struct meta_job_place){out[n].tenant, out[n].id};
		if (rc == -EBADMSG) {
			log_error("job_damaged", "tenant=%u job=%" PRIu64, out[n].tenant,
				  out[n].id);
			rc = 0;
			continue;
		}
		n++;
	}
	*end = !rows.more;
	return rc != 0 ? rc : (int64_t)n;
}

/* --- add ---------------------------------------------------------------------------------------- */

static bool old(const struct job_state *st, uint64_t now_ms)
{
	uint64_t last_ms = st->ended ? max_u64(st->reported_ms, st->added_ms) : st->expires_ms;
	return !job_active(st, now_ms) && now_ms > last_ms && now_ms - last_ms > META_JOB_KEEP_MS;
}

/* Adds to t the deletion of old jobs of the tenant, at most REAPED_MAX. Returns their number. */
static int64_t reap(struct meta *m, struct txn *t, uint32_t tenant, uint64_t keep, uint64_t now_ms)
{
	struct meta_job *page = arena_alloc(t->arena, META_JOBS_PAGE * sizeof(*page));
	struct meta_job_place at = {.tenant = tenant};
	bool end = false;
	int64_t n = 0, reaped = 0;
	while (page != NULL && !end && n >= 0 && reaped < REAPED_MAX) {
		n = meta_job_list(m, tenant, &at, page, META_JOBS_PAGE, &end);
		for (int64_t i = 0; i < n && reaped < REAPED_MAX; i++) {
			struct rows r;
			if (page[i].id == keep || !old(&page[i].state, now_ms))
				continue;
			int rc = rows_read(m, tenant, page[i].id, t->arena, &r);
			if (rc != 0 || r.spec == NULL || !old(&r.state, now_ms))
				continue;
			txn_equals(t, key_id(KEY_JOB_STATE, tenant, page[i].id), r.state_raw);
			delete_rows(t, tenant, page[i].id);
			reaped++;
		}
	}
	return page == NULL ? -ENOMEM : n < 0 ? n : reaped;
}

/* Adds to t the rows of a job that the tenant does not have. */
static int add_new(struct meta *m, struct txn *t, uint32_t tenant, uint64_t id, uint64_t now_ms)
{
	struct counts c;
	int rc = counts_read(m, tenant, t->arena, &c);
	if (rc != 0)
		return rc;
	int64_t reaped = reap(m, t, tenant, id, now_ms);
	if (reaped < 0)
		return (int)reaped;
	if (c.jobs[0] - min_u64(c.jobs[0], (uint64_t)reaped) >= META_JOBS_TENANT_MAX ||
	    c.jobs[1] - min_u64(c.jobs[1], (uint64_t)reaped) >= META_JOBS_MAX)
		return -ENOSPC;
	counts_change(t, &c, 1 - reaped);
	return 0;
}

static int add_once(struct meta *m, uint32_t tenant, const struct job_spec *spec, const char *owner,
		    uint64_t *stamp)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct kv_bytes packed;
	struct rows r;
	struct txn t;
	uint64_t now_ms = wall_ms();
	Terrane__Job__Spec *m_spec = job_spec_message(&a, spec);
	int rc = m_spec != NULL ? rec_pack(&a, &m_spec->base, &packed) : -ENOMEM;
	if (rc == 0)
		rc = rows_read(m, tenant, spec->id, &a, &r);
	if (rc != 0)
		return rc;
	bool there = r.spec != NULL;
	bool same = there && kv_equal(r.spec_raw, packed) && strcmp(r.state.owner, owner) == 0;
	if (there && !same && job_active(&r.state, now_ms))
		return -EEXIST;
	struct job_state st = r.state;
	if (!same || st.ended) {
		st = (struct job_state){.stamp = rt_random_u64() | 1, .added_ms = now_ms};
		snprintf(st.owner, sizeof(st.owner), "%s", owner);
	}
	st.expires_ms = now_ms + spec->lease_ms;
	st.progress.sequence = 0; /* a job that began again may count from a clock that is behind */
	txn_init(&t, &a);
	txn_same(&t, key_id(KEY_JOB, tenant, spec->id), r.spec_raw);
	txn_same(&t, key_id(KEY_JOB_STATE, tenant, spec->id), r.state_raw);
	txn_put_bytes(&t, key_id(KEY_JOB, tenant, spec->id), packed);
	put_state(&t, tenant, spec->id, &st);
	if (!there)
		rc = add_new(m, &t, tenant, spec->id, now_ms);
	*stamp = st.stamp;
	return rc == 0 ? run(m, &t) : rc;
}

int meta_job_add(struct meta *m, const struct meta_ctx *ctx, const struct job_spec *spec,
		 const char *owner, uint64_t *stamp)
{
	int rc;
	if (job_spec_check(spec) != NULL || strlen(owner) > JOB_OWNER_MAX)
		return -EINVAL;
	for (size_t i = 0; i < spec->part_count; i++)
		assert(spec->parts[i].id != 0);
	RETRY(rc, add_once(m, ctx->tenant, spec, owner, stamp));
	return rc;
}

/* --- one job ------------------------------------------------------------------------------------ */

int meta_job_get(struct meta *m, const struct meta_ctx *ctx, uint64_t id, struct arena *a,
		 struct meta_job *out)
{
	struct rows r;
	*out = (struct meta_job){.tenant = ctx->tenant, .id = id};
	int rc = rows_read(m, ctx->tenant, id, a, &r);
	if (rc == 0 && r.spec == NULL)
		rc = -ENOENT;
	if (rc != 0)
		return rc;
	out->state = r.state;
	return job_spec_read(a, r.spec, &out->spec);
}

static int report_once(struct meta *m, uint32_t tenant, uint64_t id, const struct job_progress *p)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, 4 * MIB);
	struct rows r;
	struct job_spec spec;
	struct txn t;
	int rc = rows_read(m, tenant, id, &a, &r);
	if (rc == 0 && r.spec == NULL)
		rc = -ENOENT;
	if (rc == 0)
		rc = job_spec_read(&a, r.spec, &spec);
	if (rc == 0 && p != NULL && job_progress_of(p, &spec) != NULL)
		rc = -EINVAL;
	if (rc != 0)
		return rc;
	uint64_t now_ms = wall_ms();
	struct job_state *st = &r.state;
	if (st->ended)
		return -ESTALE; /* a report that was delayed must not make the job count again */
	st->expires_ms = now_ms + spec.lease_ms;
	if (p != NULL && (st->reported_ms == 0 || p->sequence > st->progress.sequence)) {
		st->before = st->progress;
		st->before_ms = st->reported_ms;
		st->progress = *p;
		st->reported_ms = max_u64(now_ms, 1);
	}
	txn_init(&t, &a);
	txn_equals(&t, key_id(KEY_JOB_STATE, tenant, id), r.state_raw);
	put_state(&t, tenant, id, st);
	return run(m, &t);
}

int meta_job_report(struct meta *m, const struct meta_ctx *ctx, uint64_t id,
		    const struct job_progress *p)
{
	int rc;
	if (p != NULL && job_progress_check(p) != NULL)
		return -EINVAL;
	RETRY(rc, report_once(m, ctx->tenant, id, p));
	return rc;
}

/* --- windows that jobs share ---------------------------------------------------------------------- */

static bool same_set(const struct job_place *a, const struct job_place *b)
{
	return a->set == b->set && a->windows == b->windows;
}

/* Lists the windows in which the other active jobs of the data set are. Returns their number. */
static int64_t places_of_others(struct meta *m, uint32_t tenant, uint64_t id,
				const struct job_place *of, struct arena *a, uint32_t **out)
{
	struct meta_job *page = arena_alloc(a, META_JOBS_PAGE * sizeof(*page));
	struct meta_job_place at = {.tenant = tenant};
	uint64_t now_ms = wall_ms();
	int64_t found = 0;
	bool end = false;
	*out = arena_alloc(a, META_JOBS_TENANT_MAX * sizeof(**out));
	if (page == NULL || *out == NULL)
		return -ENOMEM;
	while (!end) {
		int64_t n = meta_job_list(m, tenant, &at, page, META_JOBS_PAGE, &end);
		if (n < 0)
			return n;
		for (int64_t i = 0; i < n && found < META_JOBS_TENANT_MAX; i++)
			if (page[i].id != id && job_active(&page[i].state, now_ms) &&
			    same_set(&page[i].state.place, of))
				(*out)[found++] = page[i].state.place.window;
	}
	return found;
}

/* Returns the window in which the epoch of a job begins: that which was chosen when a rank asked first. */
static uint32_t join(struct job_state *st, const struct job_enter *e, const uint32_t *others,
		     size_t n)
{
	for (uint32_t i = 0; i < st->join_count && !bug_planted(BUG_JOIN_FORGOTTEN); i++)
		if (st->joins[i].epoch == e->epoch && same_set(&st->joins[i].place, &e->place))
			return st->joins[i].place.window;
	if (st->join_count == JOB_JOINS_MAX)
		memmove(&st->joins[0], &st->joins[1], --st->join_count * sizeof(st->joins[0]));
	struct job_join *j = &st->joins[st->join_count++];
	*j = (struct job_join){.place = e->place, .epoch = e->epoch};
	j->place.window = together_join(others, n, e->place.windows, e->place.window);
	return j->place.window;
}

static int enter_once(struct meta *m, uint32_t tenant, uint64_t id, const struct job_enter *e,
		      struct job_place *to, bool *wait)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, 4 * MIB);
	struct rows r;
	struct txn t;
	uint32_t *others;
	int rc = rows_read(m, tenant, id, &a, &r);
	if (rc != 0 || r.spec == NULL || r.state.ended)
		return rc != 0 ? rc : r.spec == NULL ? -ENOENT : -ESTALE;
	int64_t n = places_of_others(m, tenant, id, &e->place, &a, &others);
	if (n < 0)
		return (int)n;
	*to = e->place;
	if (e->begins)
		to->window = join(&r.state, e, others, (size_t)n);
	*wait = !e->force && together_waits(others, (size_t)n, to->windows, to->window);
	if (!*wait)
		r.state.place = *to;
	txn_init(&t, &a);
	txn_equals(&t, key_id(KEY_JOB_STATE, tenant, id), r.state_raw);
	put_state(&t, tenant, id, &r.state);
	return run(m, &t);
}

int meta_job_enter(struct meta *m, const struct meta_ctx *ctx, uint64_t id,
		   const struct job_enter *e, uint32_t *window, bool *wait)
{
	struct job_place to;
	int rc;
	if (!job_place_ok(&e->place) || e->place.windows == 0 || e->epoch > JOB_EPOCHS_MAX)
		return -EINVAL;
	RETRY(rc, enter_once(m, ctx->tenant, id, e, &to, wait));
	if (rc == 0)
		*window = to.window;
	assert(rc != 0 || to.window < e->place.windows);
	return rc;
}

static int judge_once(struct meta *m, uint32_t tenant, uint64_t id, uint64_t stamp,
		      const struct job_verdict *v)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, 4 * MIB);
	struct rows r;
	struct txn t;
	int rc = rows_read(m, tenant, id, &a, &r);
	if (rc == 0 && (r.spec == NULL || r.state.stamp != stamp))
		rc = -ENOENT;
	if (rc != 0 || v->at_ms <= r.state.verdict.at_ms)
		return rc;
	r.state.verdict = *v;
	txn_init(&t, &a);
	txn_equals(&t, key_id(KEY_JOB_STATE, tenant, id), r.state_raw);
	put_state(&t, tenant, id, &r.state);
	rc = run(m, &t);
	return rc == 0 ? 1 : rc;
}

int meta_job_judge(struct meta *m, const struct meta_ctx *ctx, uint64_t id, uint64_t stamp,
		   const struct job_verdict *v)
{
	int rc;
	if (!job_verdict_ok(v) || v->at_ms == 0)
		return -EINVAL;
	RETRY(rc, judge_once(m, ctx->tenant, id, stamp, v));
	return rc;
}

static int end_once(struct meta *m, uint32_t tenant, uint64_t id)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, 4 * MIB);
	struct rows r;
	struct txn t;
	int rc = rows_read(m, tenant, id, &a, &r);
	if (rc != 0 || r.spec == NULL || r.state.ended)
		return rc != 0 ? rc : r.spec == NULL ? -ENOENT : 0;
	r.state.ended = true;
	txn_init(&t, &a);
	txn_equals(&t, key_id(KEY_JOB_STATE, tenant, id), r.state_raw);
	put_state(&t, tenant, id, &r.state);
	return run(m, &t);
}

int meta_job_end(struct meta *m, const struct meta_ctx *ctx, uint64_t id)
{
	int rc;
	RETRY(rc, end_once(m, ctx->tenant, id));
	return rc;
}

static int remove_once(struct meta *m, uint32_t tenant, uint64_t id)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct schema_key key = key_id(KEY_JOB_STATE, tenant, id);
	struct counts c;
	struct reads r;
	struct txn t;
	/* A damaged job can be removed, too: its rows are not decoded. */
	int rc = meta_read(m, part_jobs(m), &key, 1, &a, &r);
	if (rc == 0 && r.value[0].data == NULL)
		return 0;
	if (rc == 0)
		rc = counts_read(m, tenant, &a, &c);
	if (rc != 0)
		return rc;
	txn_init(&t, &a);
	txn_equals(&t, key, r.value[0]);
	delete_rows(&t, tenant, id);
	counts_change(&t, &c, -1);
	return run(m, &t);
}

int meta_job_remove(struct meta *m, const struct meta_ctx *ctx, uint64_t id)
{
	int rc;
	RETRY(rc, remove_once(m, ctx->tenant, id));
	return rc;
}
