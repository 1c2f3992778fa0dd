// SPDX-License-Identifier: Apache-2.0
#include "meta_client/jobs.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "jobs/wire.h"
#include "meta_client/impl.h"

int meta_client_job_add(struct meta_call *c, const struct job_spec *spec, uint64_t *stamp)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	Terrane__Meta__JobAddRequest q = TERRANE__META__JOB_ADD_REQUEST__INIT;
	/* The service says what is wrong with a spec, but one that is too large never reaches it. */
	if (spec->part_count > JOB_PARTS_MAX || spec->range_count > JOB_RANGES_MAX ||
	    spec->column_count > JOB_COLUMNS_MAX)
		return mc_fail(c, -EINVAL);
	q.spec = job_spec_message(&a, spec);
	if (q.spec == NULL)
		return mc_fail(c, -ENOMEM);
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_job_add, &q.base, &reply);
	if (rc == 0)
		*stamp = ((const Terrane__Meta__JobAddResponse *)reply.message)->stamp;
	return rc;
}

static int change(struct meta_call *c, uint64_t id, Terrane__Meta__JobChange what,
		  Terrane__Job__Progress *p)
{
	Terrane__Meta__JobChangeRequest q = TERRANE__META__JOB_CHANGE_REQUEST__INIT;
	q.id = id;
	q.change = what;
	q.progress = p;
	return mc_call_status(c, &meta_type_job_change, &q.base);
}

int meta_client_job_report(struct meta_call *c, uint64_t id, const struct job_progress *p)
{
	Terrane__Job__Progress m;
	if (p != NULL)
		job_progress_message(&m, p);
	return change(c, id, TERRANE__META__JOB_CHANGE__JOB_REPORT, p != NULL ? &m : NULL);
}

int meta_client_job_enter(struct meta_call *c, uint64_t id, const struct job_enter *e,
			  uint32_t *window, bool *wait)
{
	Terrane__Meta__JobEnterRequest q = TERRANE__META__JOB_ENTER_REQUEST__INIT;
	Terrane__Job__Place place = TERRANE__JOB__PLACE__INIT;
	place.set = e->place.set;
	place.windows = e->place.windows;
	place.window = e->place.window;
	q.id = id;
	q.place = &place;
	q.epoch = e->epoch;
	q.begins = e->begins;
	q.force = e->force;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_job_enter, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__JobEnterResponse *p = reply.message;
	if (p->window >= e->place.windows)
		return mc_response_error(c, -EINVAL);
	*window = p->window;
	*wait = p->wait;
	return 0;
}

int meta_client_job_judge(struct meta_call *c, const struct job_judged *list, size_t n)
{
	Terrane__Meta__JobJudgeRequest q = TERRANE__META__JOB_JUDGE_REQUEST__INIT;
	Terrane__Meta__JobVerdict items[JOB_VERDICTS_MAX], *refs[JOB_VERDICTS_MAX];
	Terrane__Job__Verdict verdicts[JOB_VERDICTS_MAX];
	assert(n <= JOB_VERDICTS_MAX);
	for (size_t i = 0; i < n; i++) {
		terrane__meta__job_verdict__init(&items[i]);
		job_verdict_message(&verdicts[i], &list[i].verdict);
		items[i].tenant = list[i].tenant;
		items[i].id = list[i].id;
		items[i].stamp = list[i].stamp;
		items[i].verdict = &verdicts[i];
		refs[i] = &items[i];
	}
	q.n_verdicts = n;
	q.verdicts = refs;
	return mc_call_status(c, &meta_type_job_judge, &q.base);
}

int meta_client_job_end(struct meta_call *c, uint64_t id)
{
	return change(c, id, TERRANE__META__JOB_CHANGE__JOB_END, NULL);
}

int meta_client_job_remove(struct meta_call *c, uint64_t id)
{
	return change(c, id, TERRANE__META__JOB_CHANGE__JOB_REMOVE, NULL);
}

/* --- reads -------------------------------------------------------------------------------------- */

/* Copies a spec of a response, which is freed with the reply, into the arena. */
static int copy_spec(struct arena *a, const Terrane__Job__Spec *m, struct job_spec *out)
{
	int rc = job_spec_read(a, m, out);
	if (rc < 0)
		return rc;
	const char **columns = arena_alloc(a, (out->column_count + 1) * sizeof(*columns));
	out->name = arena_strdup(a, out->name);
	if (columns == NULL || out->name == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < out->column_count; i++) {
		columns[i] = arena_strdup(a, out->columns[i]);
		if (columns[i] == NULL)
			return -ENOMEM;
	}
	out->columns = columns;
	for (size_t i = 0; i < out->part_count; i++) {
		/* job_spec_read has put the list into the arena */
		struct job_part *p = (struct job_part *)&out->parts[i];
		p->path = arena_strdup(a, p->path);
		if (p->path == NULL)
			return -ENOMEM;
	}
	return 0;
}

static int read_job(struct arena *a, const Terrane__Meta__Job *m, bool brief, struct job_seen *out)
{
	*out = (struct job_seen){0};
	if (m == NULL || m->tenant == 0 || m->id == 0 || m->left_ms > JOB_LEASE_MAX_MS ||
	    (m->spec == NULL) != brief || (m->spec != NULL && m->spec->id != m->id))
		return -EINVAL;
	out->tenant = m->tenant;
	out->id = m->id;
	out->left_ms = m->left_ms;
	int rc = job_state_read(m->state, &out->state);
	return rc == 0 && !brief ? copy_spec(a, m->spec, &out->spec) : rc;
}

int meta_client_job_get(struct meta_call *c, uint32_t tenant, uint64_t id, struct arena *a,
			struct job_seen *out)
{
	Terrane__Meta__JobGetRequest q = TERRANE__META__JOB_GET_REQUEST__INIT;
	q.tenant = tenant;
	q.id = id;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_job_get, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__JobGetResponse *p = reply.message;
	rc = read_job(a, p->job, false, out);
	if (rc == 0 && out->id != id)
		rc = -EINVAL;
	return rc < 0 ? mc_response_error(c, rc) : 0;
}

static bool later(uint32_t tenant, uint64_t id, uint32_t than_tenant, uint64_t than_id)
{
	return tenant > than_tenant || (tenant == than_tenant && id > than_id);
}

int64_t meta_client_job_list(struct meta_call *c, struct job_listing *at, struct arena *a,
			     struct job_seen out[META_CLIENT_JOBS_MAX])
{
	Terrane__Meta__JobListRequest q = TERRANE__META__JOB_LIST_REQUEST__INIT;
	assert(!at->end);
	q.after_tenant = at->tenant;
	q.after = at->after;
	q.max = META_CLIENT_JOBS_MAX;
	q.active = at->active;
	q.brief = at->brief;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_job_list, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__JobListResponse *p = reply.message;
	/* A page without progress would be asked for again and again. */
	if (p->n_jobs > META_CLIENT_JOBS_MAX ||
	    (!p->end && !later(p->tenant, p->after, at->tenant, at->after)))
		return mc_response_error(c, -EINVAL);
	for (size_t i = 0; rc == 0 && i < p->n_jobs; i++) {
		rc = read_job(a, p->jobs[i], at->brief, &out[i]);
		if (rc == 0 &&
		    !later(out[i].tenant, out[i].id, i > 0 ? out[i - 1].tenant : at->tenant,
			   i > 0 ? out[i - 1].id : at->after))
			rc = -EINVAL;
	}
	if (rc < 0)
		return mc_response_error(c, rc);
	at->tenant = p->tenant;
	at->after = p->after;
	at->end = p->end;
	at->now_ms = p->now_ms;
	return (int64_t)p->n_jobs;
}
