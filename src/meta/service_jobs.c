// SPDX-License-Identifier: Apache-2.0
/*
 * Handlers for the registry of jobs. A job belongs to the identity that added it. This identity and administrators of the
 * tenant change it; other identities see it if they may read everywhere in the tenant, because its spec has paths.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/arena.h"
#include "jobs/wire.h"
#include "meta/impl.h"
#include "meta/jobs.h"
#include "meta/service_impl.h"
#include "rt/rt.h"

#define LIST_BYTES \
	((size_t)(256 * KIB)) /* no spec is added to a response that has more bytes of them */

/* Returns whether the client may do this everywhere in a tenant; true without identities. */
static bool whole_tenant(struct rpc_request *r, uint32_t tenant, enum auth_op op)
{
	const struct meta_service *s = r->service;
	return s->root == NULL || ms_whole_grant(r, tenant, op);
}

static const char *owner_of(struct rpc_request *r)
{
	const struct session *who = ms_session(r);
	return who != NULL ? who->name : "";
}

static bool is_own(struct rpc_request *r, const struct job_state *st)
{
	return strcmp(st->owner, owner_of(r)) == 0;
}

static bool may_change(struct rpc_request *r, uint32_t tenant, const struct job_state *st)
{
	const struct meta_service *s = r->service;
	return s->root == NULL || is_own(r, st) || ms_any_grant(r, tenant, OP_GRANT);
}

static uint64_t wall_ms(void)
{
	return rt_wall_ns() / NS_PER_MS;
}

/* --- add ---------------------------------------------------------------------------------------- */

/* Looks up what a part names. */
static int look_up(struct rpc_request *r, const struct meta_ctx *ctx, struct job_part *p)
{
	struct meta_entry e = {0};
	int rc = ms_resolve(r, ctx, META_ROOT, meta_name(p->path), &e);
	if (rc == -ENOENT || rc == -ENOTDIR)
		return rpc_fail(r, rc, "the part \"%.100s\" does not exist", p->path);
	if (rc < 0)
		return rc;
	bool file = e.kind == META_FILE;
	if (p->kind != JOB_ANY && file != (p->kind == JOB_FILE))
		return rpc_fail(r, file ? -ENOTDIR : -EISDIR,
				"the part \"%.100s\" is a %s, not a %s", p->path,
				file ? "file" : "directory", job_part_name(p->kind));
	if (p->kind == JOB_ANY)
		p->kind = file ? JOB_FILE : JOB_DIRECTORY;
	p->id = e.id;
	return 0;
}

static int refuse_add(struct rpc_request *r, int rc, uint64_t id)
{
	if (rc == -EEXIST)
		return rpc_fail(r, rc,
				"job %" PRIu64
				" is registered with another spec or by another identity, and "
				"its lease runs; end that job, or choose another id",
				id);
	if (rc == -ENOSPC)
		return rpc_fail(
			r, rc,
			"too many jobs are registered (at most %d of a tenant, %d of all); remove "
			"some",
			META_JOBS_TENANT_MAX, META_JOBS_MAX);
	return ms_end(r, rc);
}

int ms_handle_job_add(struct rpc_request *r)
{
	const Terrane__Meta__JobAddRequest *q = rpc_body(r);
	Terrane__Meta__JobAddResponse *p = rpc_reply_body(r);
	AUTO_ARENA struct arena a; /* the memory of the request is for a small response */
	arena_init(&a, MIB);
	struct meta_ctx ctx = {0};
	struct job_spec spec = {0};
	int rc = ms_enter(r, &ctx);
	if (rc == 0)
		rc = job_spec_read(&a, q->spec, &spec);
	if (rc == -EINVAL && q->spec != NULL) {
		const char *why = job_spec_check(&spec);
		return rpc_fail(r, rc, "%s", why != NULL ? why : "the spec of the job is invalid");
	}
	if (rc != 0)
		return rc;
	struct job_part *parts = arena_alloc(&a, spec.part_count * sizeof(*parts));
	if (parts == NULL)
		return -ENOMEM;
	memcpy(parts, spec.parts, spec.part_count * sizeof(*parts));
	for (size_t i = 0; rc == 0 && i < spec.part_count; i++)
		rc = look_up(r, &ctx, &parts[i]);
	if (rc < 0)
		return rc;
	spec.parts = parts;
	return refuse_add(r, meta_job_add(ms_meta(r), &ctx, &spec, owner_of(r), &p->stamp),
			  spec.id);
}

/* --- changes ------------------------------------------------------------------------------------ */

/* Returns -ENOENT for jobs that do not exist and for those of others, which are not told apart. */
static int find_own(struct rpc_request *r, const struct meta_ctx *ctx, uint64_t id)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, 4 * MIB);
	struct meta_job job;
	int rc = meta_job_get(ms_meta(r), ctx, id, &a, &job);
	if (rc == 0 && !may_change(r, ctx->tenant, &job.state))
		rc = -ENOENT;
	if (rc == -ENOENT)
		return rpc_fail(r, rc, "you have no job %" PRIu64 "; add it first", id);
	/* the owner of a damaged job is not known: an administrator removes it */
	return rc == -EBADMSG && whole_tenant(r, ctx->tenant, OP_GRANT) ? 0 : rc;
}

static int report(struct rpc_request *r, const struct meta_ctx *ctx,
		  const Terrane__Meta__JobChangeRequest *q)
{
	struct job_progress p;
	if (q->progress != NULL && job_progress_read(q->progress, &p) < 0)
		return rpc_fail(r, -EINVAL, "%s", job_progress_check(&p));
	int rc = meta_job_report(ms_meta(r), ctx, q->id, q->progress != NULL ? &p : NULL);
	if (rc == -EINVAL)
		return rpc_fail(r, rc, "job %" PRIu64 " has no such part or epoch", q->id);
	if (rc == -ESTALE)
		return rpc_fail(r, rc, "job %" PRIu64 " has ended; add it again", q->id);
	return ms_end(r, rc);
}

int ms_handle_job_change(struct rpc_request *r)
{
	const Terrane__Meta__JobChangeRequest *q = rpc_body(r);
	struct meta_ctx ctx = {0};
	int rc = ms_enter(r, &ctx);
	if (rc == 0)
		rc = find_own(r, &ctx, q->id);
	/* A removal that is sent again finds nothing. */
	if (rc == -ENOENT && q->change == TERRANE__META__JOB_CHANGE__JOB_REMOVE)
		return 0;
	if (rc < 0)
		return rc;
	switch (q->change) {
	case TERRANE__META__JOB_CHANGE__JOB_REPORT:
		return report(r, &ctx, q);
	case TERRANE__META__JOB_CHANGE__JOB_END:
		return ms_end(r, meta_job_end(ms_meta(r), &ctx, q->id));
	case TERRANE__META__JOB_CHANGE__JOB_REMOVE:
		return ms_end(r, meta_job_remove(ms_meta(r), &ctx, q->id));
	default:
		return rpc_fail(r, -EINVAL, "unknown change %u of a job", (unsigned)q->change);
	}
}

int ms_handle_job_enter(struct rpc_request *r)
{
	const Terrane__Meta__JobEnterRequest *q = rpc_body(r);
	Terrane__Meta__JobEnterResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx = {0};
	bool wait = false;
	if (q->place == NULL)
		return rpc_fail(r, -EINVAL, "a job enters a window of a data set: none is given");
	struct job_enter e = {.place = {q->place->set, q->place->windows, q->place->window},
			      .epoch = q->epoch,
			      .begins = q->begins,
			      .force = q->force};
	int rc = ms_enter(r, &ctx);
	if (rc == 0)
		rc = find_own(r, &ctx, q->id);
	if (rc == 0)
		rc = meta_job_enter(ms_meta(r), &ctx, q->id, &e, &p->window, &wait);
	p->wait = wait;
	if (rc == -EINVAL)
		return rpc_fail(r, rc, "there is no window %u of %u, or no epoch %u",
				q->place->window, q->place->windows, q->epoch);
	if (rc == -ESTALE)
		return rpc_fail(r, rc, "job %" PRIu64 " has ended; add it again", q->id);
	return ms_end(r, rc);
}

int ms_handle_job_judge(struct rpc_request *r)
{
	const Terrane__Meta__JobJudgeRequest *q = rpc_body(r);
	Terrane__Meta__JobJudgeResponse *p = rpc_reply_body(r);
	int first = 0;
	if (q->n_verdicts > JOB_VERDICTS_MAX)
		return rpc_fail(r, -E2BIG, "%zu verdicts: at most %d at a time", q->n_verdicts,
				JOB_VERDICTS_MAX);
	for (size_t i = 0; i < q->n_verdicts; i++) {
		const Terrane__Meta__JobVerdict *one = q->verdicts[i];
		struct meta_ctx ctx = {.tenant = one->tenant};
		struct job_verdict v;
		int rc = one->verdict != NULL && one->tenant != 0
				 ? job_verdict_read(one->verdict, &v)
				 : -EINVAL;
		if (rc == 0)
			rc = meta_job_judge(ms_meta(r), &ctx, one->id, one->stamp, &v);
		p->taken += rc > 0;
		if (rc < 0 && rc != -ENOENT && first == 0)
			first = rc; /* the verdicts of the other jobs are taken */
	}
	return ms_end(r, first);
}

/* --- reads -------------------------------------------------------------------------------------- */

/* Finds whose jobs the request sees: *tenant 0 is all. */
static int sees(struct rpc_request *r, uint32_t *tenant)
{
	struct meta_ctx ctx = {0};
	if (ms_is_system(rt_context()->tenant, tenant) && *tenant == 0)
		return 0;
	int rc = ms_enter(r, &ctx);
	*tenant = ctx.tenant;
	return rc;
}

static int set_job(struct rpc_request *r, const struct meta_job *job, uint64_t now_ms,
		   Terrane__Meta__Job **out)
{
	uint64_t lease_ms = job->spec.id != 0 ? job->spec.lease_ms : JOB_LEASE_MAX_MS;
	Terrane__Meta__Job *m = rpc_alloc(r, sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	terrane__meta__job__init(m);
	m->tenant = job->tenant;
	m->id = job->id;
	m->left_ms = job_lease_left(&job->state, lease_ms, now_ms);
	m->state = job_state_message(&r->arena, &job->state);
	if (job->spec.id != 0)
		m->spec = job_spec_message(&r->arena, &job->spec);
	*out = m;
	return m->state == NULL || (job->spec.id != 0 && m->spec == NULL) ? -ENOMEM : 0;
}

static bool visible(struct rpc_request *r, uint32_t tenant, bool whole, const struct meta_job *job)
{
	return tenant == 0 || whole || is_own(r, &job->state);
}

int ms_handle_job_get(struct rpc_request *r)
{
	const Terrane__Meta__JobGetRequest *q = rpc_body(r);
	Terrane__Meta__JobGetResponse *p = rpc_reply_body(r);
	uint32_t tenant;
	struct meta_job *job = rpc_alloc(r, sizeof(*job));
	int rc = job != NULL ? sees(r, &tenant) : -ENOMEM;
	if (rc < 0)
		return rc;
	struct meta_ctx ctx = {.tenant = tenant != 0 ? tenant : q->tenant};
	rc = ctx.tenant != 0 ? meta_job_get(ms_meta(r), &ctx, q->id, &r->arena, job) : -EINVAL;
	if (rc == 0 && !visible(r, tenant, tenant != 0 && whole_tenant(r, tenant, OP_READ), job))
		rc = -ENOENT;
	if (rc == -ENOENT)
		return rpc_fail(r, rc, "there is no job %" PRIu64, q->id);
	p->now_ms = wall_ms();
	return rc < 0 ? ms_end(r, rc) : set_job(r, job, p->now_ms, &p->job);
}

/* Adds one listed job to the response; reads its spec first, unless the listing is brief. */
static int add_listed(struct rpc_request *r, struct meta_job *job, size_t *bytes)
{
	const Terrane__Meta__JobListRequest *q = rpc_body(r);
	Terrane__Meta__JobListResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx = {.tenant = job->tenant};
	int rc = 0;
	if (!q->brief)
		rc = meta_job_get(ms_meta(r), &ctx, job->id, &r->arena, job);
	if (rc == -ENOENT || rc == -EBADMSG)
		return 0; /* removed since, or logged by whoever reads it */
	if (rc == 0)
		rc = set_job(r, job, p->now_ms, &p->jobs[p->n_jobs]);
	if (rc == 0 && p->jobs[p->n_jobs]->spec != NULL)
		*bytes += protobuf_c_message_get_packed_size(&p->jobs[p->n_jobs]->spec->base);
	if (rc == 0 && (!q->active || p->jobs[p->n_jobs]->left_ms > 0))
		p->n_jobs++;
	return rc;
}

int ms_handle_job_list(struct rpc_request *r)
{
	const Terrane__Meta__JobListRequest *q = rpc_body(r);
	Terrane__Meta__JobListResponse *p = rpc_reply_body(r);
	size_t max = q->max == 0 || q->max > META_JOBS_PAGE ? META_JOBS_PAGE : q->max, bytes = 0;
	struct meta_job_place at = {.tenant = q->after_tenant, .id = q->after};
	struct meta_job *jobs = rpc_alloc(r, max * sizeof(*jobs));
	uint32_t tenant;
	p->jobs = rpc_alloc(r, max * sizeof(Terrane__Meta__Job *));
	int rc = jobs != NULL && p->jobs != NULL ? sees(r, &tenant) : -ENOMEM;
	if (rc < 0)
		return rc;
	if (tenant != 0)
		at.tenant = tenant;
	bool whole = tenant == 0 || whole_tenant(r, tenant, OP_READ), end = false;
	int64_t n = meta_job_list(ms_meta(r), tenant, &at, jobs, max, &end);
	if (n < 0)
		return ms_end(r, (int)n);
	p->now_ms = wall_ms();
	p->end = end;
	for (int64_t i = 0; rc == 0 && i < n; i++) {
		if (bytes > LIST_BYTES) {
			p->end = false;
			at = (struct meta_job_place){jobs[i - 1].tenant, jobs[i - 1].id};
			break;
		}
		if (visible(r, tenant, whole, &jobs[i]))
			rc = add_listed(r, &jobs[i], &bytes);
	}
	p->tenant = at.tenant;
	p->after = at.id;
	return rc < 0 ? ms_end(r, rc) : 0;
}
