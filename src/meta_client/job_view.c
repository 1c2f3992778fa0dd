// SPDX-License-Identifier: Apache-2.0
/* The jobs that count: brief listings, and the specs of jobs that are new. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "meta_client/impl.h"
#include "meta_client/jobs.h"
#include "rt/rt.h"

#define VIEW_JOBS_MAX ((size_t)65536) /* more than a cluster registers */
#define SPEC_BYTES MIB

struct entry {
	struct job_active job;
	struct job_spec spec;
	struct arena arena; /* the lists and texts of the spec */
};

struct job_view {
	struct entry **jobs; /* in the order of (tenant, id) */
	size_t count;
	uint64_t refreshes;
	uint64_t wall_ms, at_ns; /* clock of the metadata server, and when it was read */
};

int job_view_open(struct job_view **out)
{
	*out = calloc(1, sizeof(**out));
	return *out != NULL ? 0 : -ENOMEM;
}

static void entry_free(struct entry *e)
{
	if (e != NULL)
		arena_fini(&e->arena);
	free(e);
}

static void jobs_free(struct entry **jobs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		entry_free(jobs[i]);
	free(jobs);
}

void job_view_close(struct job_view *v)
{
	if (v != NULL)
		jobs_free(v->jobs, v->count);
	free(v);
}

static int compare(uint32_t tenant, uint64_t id, const struct entry *e)
{
	if (tenant != e->job.tenant)
		return tenant < e->job.tenant ? -1 : 1;
	return id < e->job.id ? -1 : id > e->job.id;
}

/* Returns the index of a job; SIZE_MAX: it is not there. */
static size_t find(const struct job_view *v, uint32_t tenant, uint64_t id)
{
	size_t from = 0, to = v->count;
	while (from < to) {
		size_t at = from + (to - from) / 2;
		int order = compare(tenant, id, v->jobs[at]);
		if (order == 0)
			return at;
		if (order < 0)
			to = at;
		else
			from = at + 1;
	}
	return SIZE_MAX;
}

/* --- refresh ------------------------------------------------------------------------------------ */

/* What a refresh gathers: new entries, and the old ones that stay, which it takes when nothing can fail any more. */
struct gathering {
	struct job_view *v;
	struct meta_call *c;
	struct job_seen *page;
	struct entry **fresh; /* NULL at i: the job of the view that old[i] names stays */
	struct job_seen *seen;
	size_t *old;
	uint64_t *listed_ns; /* when the lease of seen[i] was read */
	uint64_t wall_ms, at_ns;
	size_t count, cap;
};

static int room(struct gathering *g, size_t more)
{
	if (g->count + more <= g->cap)
		return 0;
	size_t cap = (g->count + more) * 2;
	if (cap > VIEW_JOBS_MAX * 2)
		return -ENOSPC;
	void *fresh = realloc(g->fresh, cap * sizeof(*g->fresh));
	g->fresh = fresh != NULL ? fresh : g->fresh;
	void *seen = realloc(g->seen, cap * sizeof(*g->seen));
	g->seen = seen != NULL ? seen : g->seen;
	void *old = realloc(g->old, cap * sizeof(*g->old));
	g->old = old != NULL ? old : g->old;
	void *listed = realloc(g->listed_ns, cap * sizeof(*g->listed_ns));
	g->listed_ns = listed != NULL ? listed : g->listed_ns;
	if (fresh == NULL || seen == NULL || old == NULL || listed == NULL)
		return -ENOMEM;
	g->cap = cap;
	return 0;
}

/* Reads the spec of a new job. *out stays NULL if the job is gone again. */
static int read_new(struct gathering *g, const struct job_seen *brief, struct entry **out)
{
	struct job_seen seen;
	struct entry *e = calloc(1, sizeof(*e));
	*out = NULL;
	if (e == NULL)
		return -ENOMEM;
	arena_init(&e->arena, SPEC_BYTES);
	int rc = meta_client_job_get(g->c, brief->tenant, brief->id, &e->arena, &seen);
	if (rc < 0 || seen.state.stamp != brief->state.stamp) {
		entry_free(e);
		return rc == -ENOENT ? 0 : rc; /* replaced since: the next refresh brings it */
	}
	e->spec = seen.spec;
	*out = e;
	return 0;
}

static int gather_one(struct gathering *g, const struct job_seen *seen, uint64_t at_ns)
{
	size_t i = find(g->v, seen->tenant, seen->id);
	bool stays = i != SIZE_MAX && g->v->jobs[i]->job.state.stamp == seen->state.stamp;
	struct entry *e = NULL;
	int rc = stays ? 0 : read_new(g, seen, &e);
	if (rc < 0 || (!stays && e == NULL))
		return rc;
	g->fresh[g->count] = e;
	g->old[g->count] = i;
	g->listed_ns[g->count] = at_ns;
	g->seen[g->count++] = *seen;
	return 0;
}

static int gather(struct gathering *g)
{
	struct job_listing at = {.active = true, .brief = true};
	while (!at.end) {
		AUTO_ARENA struct arena a;
		arena_init(&a, SPEC_BYTES);
		uint64_t at_ns = rt_now_ns();
		int64_t n = meta_client_job_list(g->c, &at, &a, g->page);
		g->wall_ms = at.now_ms;
		g->at_ns = at_ns;
		int rc = n < 0 ? (int)n : room(g, (size_t)n);
		for (int64_t i = 0; rc == 0 && i < n; i++)
			rc = gather_one(g, &g->page[i], at_ns);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Replaces the jobs of the view. Returns whether it has other jobs than before. */
static bool replace(struct gathering *g, struct entry **jobs)
{
	struct job_view *v = g->v;
	bool changed = g->count != v->count;
	for (size_t i = 0; i < g->count; i++) {
		struct entry *e = g->fresh[i];
		if (e == NULL) {
			e = v->jobs[g->old[i]];
			v->jobs[g->old[i]] = NULL;
			assert(e != NULL); /* a listing has each job once */
		} else {
			e->job.added = v->refreshes;
			changed = true;
		}
		const struct job_seen *s = &g->seen[i];
		uint64_t left_ms = min_u64(s->left_ms, e->spec.lease_ms);
		e->job.tenant = s->tenant;
		e->job.id = s->id;
		e->job.spec = &e->spec;
		e->job.state = s->state;
		e->job.until_ns = g->listed_ns[i] + left_ms * NS_PER_MS;
		jobs[i] = e;
		g->fresh[i] = NULL;
	}
	jobs_free(v->jobs, v->count);
	v->jobs = jobs;
	v->count = g->count;
	return changed;
}

int job_view_refresh(struct job_view *v, struct meta_call *c, bool *changed)
{
	struct gathering g = {.v = v, .c = c};
	struct entry **jobs = NULL;
	bool other = false;
	g.page = calloc(META_CLIENT_JOBS_MAX, sizeof(*g.page));
	int rc = g.page != NULL ? gather(&g) : -ENOMEM;
	if (rc == 0)
		jobs = calloc(g.count + 1, sizeof(*jobs));
	if (rc == 0 && jobs == NULL)
		rc = -ENOMEM;
	if (rc == 0) {
		v->refreshes++;
		v->wall_ms = g.wall_ms;
		v->at_ns = g.at_ns;
		other = replace(&g, jobs);
	}
	for (size_t i = 0; i < g.count; i++)
		entry_free(g.fresh[i]);
	free(g.page);
	free(g.fresh);
	free(g.seen);
	free(g.old);
	free(g.listed_ns);
	if (changed != NULL)
		*changed = other;
	return rc;
}

/* --- reads -------------------------------------------------------------------------------------- */

uint64_t job_view_wall_ms(const struct job_view *v)
{
	return v->wall_ms + (v->at_ns != 0 ? (rt_now_ns() - v->at_ns) / NS_PER_MS : 0);
}

size_t job_view_count(const struct job_view *v)
{
	return v->count;
}

const struct job_active *job_view_at(const struct job_view *v, size_t i)
{
	assert(i < v->count);
	const struct job_active *j = &v->jobs[i]->job;
	return rt_now_ns() < j->until_ns ? j : NULL;
}

const struct job_active *job_view_find(const struct job_view *v, uint32_t tenant, uint64_t id)
{
	size_t i = find(v, tenant, id);
	return i != SIZE_MAX ? job_view_at(v, i) : NULL;
}
