// SPDX-License-Identifier: Apache-2.0
/*
 * Client stubs of the registry of training jobs (jobs/spec.h), and a view of the jobs that count.
 *
 * A client of a tenant sees and changes jobs of this tenant, as far as its identity may; a client of META_SYSTEM sees
 * the jobs of all tenants and changes none.
 */
#ifndef META_CLIENT_JOBS_H
#define META_CLIENT_JOBS_H

#include "jobs/spec.h"
#include "meta_client/meta_client.h"

#define META_CLIENT_JOBS_MAX 256 /* jobs of one page of a listing */

/* A job as the service sees it. */
struct job_seen {
	uint32_t tenant;
	uint64_t id;
	struct job_spec
		spec; /* id 0: a brief listing; its lists and texts are in the arena of the call */
	struct job_state state;
	uint64_t left_ms; /* rest of the lease; 0: it does not count */
};

/*
 * Adds a job, or renews the lease of the same job. The service looks up its parts. -ENOENT, -ENOTDIR, -EISDIR: a part is
 * not there, or not what the spec says; -EACCES: the identity may not read it; -EEXIST: another active job has the id;
 * -ENOSPC: too many jobs; -EINVAL.
 */
int meta_client_job_add(struct meta_call *c, const struct job_spec *spec, uint64_t *stamp);
/* Reports progress (NULL: none) and renews the lease. -ENOENT: no such job of this identity; -ESTALE: it has ended;
 * -EINVAL: the report is impossible. */
int meta_client_job_report(struct meta_call *c, uint64_t id, const struct job_progress *p);
/* Asks for the window that a job enters (meta_job_enter). -ENOENT, -ESTALE, -EINVAL. */
int meta_client_job_enter(struct meta_call *c, uint64_t id, const struct job_enter *e,
			  uint32_t *window, bool *wait);
/* The verdict of the flash manager for a registration of a job. */
struct job_judged {
	uint32_t tenant;
	uint64_t id, stamp;
	struct job_verdict verdict;
};
/* Stores n verdicts, at most JOB_VERDICTS_MAX. Jobs that are gone are left out. For services: -EACCES. */
int meta_client_job_judge(struct meta_call *c, const struct job_judged *list, size_t n);
/* Ends a job: it stops counting. -ENOENT. */
int meta_client_job_end(struct meta_call *c, uint64_t id);
/* Deletes a job. Returns 0 also if there is none. */
int meta_client_job_remove(struct meta_call *c, uint64_t id);
/* Reads a job; tenant is for META_SYSTEM only. -ENOENT. */
int meta_client_job_get(struct meta_call *c, uint32_t tenant, uint64_t id, struct arena *a,
			struct job_seen *out);

/* A listing: zero it, set the filters, and call until `end`. */
struct job_listing {
	bool active; /* only jobs that count */
	bool brief;  /* without specs */
	bool end;
	uint32_t tenant; /* the place of the next page */
	uint64_t after;
	uint64_t now_ms; /* wall clock of the server, which the times of states are in */
};
/* Lists the next page of at most META_CLIENT_JOBS_MAX jobs. Returns their number, which may be 0 before the end. */
int64_t meta_client_job_list(struct meta_call *c, struct job_listing *at, struct arena *a,
			     struct job_seen out[META_CLIENT_JOBS_MAX]);

/* --- the jobs that count (job_view.c) ------------------------------------------------------------- */

/*
 * A copy of the active jobs of all tenants, for a cache node. job_view_refresh brings it up to date; it asks for specs that
 * it does not have alone, so that calling it every few seconds is cheap. Between two calls a job drops out when its lease
 * ends on the own clock. A failed refresh leaves the view as it was.
 */
struct job_view;

struct job_active {
	uint32_t tenant;
	uint64_t id;
	const struct job_spec
		*spec; /* parts with the ids of their directories and files, order, ... */
	struct job_state state;
	uint64_t until_ns; /* end of the lease on rt_now_ns() */
	uint64_t added;    /* number of the refresh that brought this registration of the job */
};

int job_view_open(struct job_view **out);
void job_view_close(struct job_view *v);
/* -ENOMEM; errors of meta_client_job_list. *changed (may be NULL) says whether a job was added, replaced or removed since
 * the last refresh; new progress alone is no change. */
int job_view_refresh(struct job_view *v, struct meta_call *c, bool *changed);
/* Returns the number of jobs in the view, and a job: NULL if its lease has ended since. Valid until the next refresh. */
/* Returns the wall clock of the metadata server that answered last, which the times of states are in. */
uint64_t job_view_wall_ms(const struct job_view *v);
size_t job_view_count(const struct job_view *v);
const struct job_active *job_view_at(const struct job_view *v, size_t i);
/* Finds a job by its tenant and the job id of its requests. NULL: none counts. */
const struct job_active *job_view_find(const struct job_view *v, uint32_t tenant, uint64_t id);

#endif
