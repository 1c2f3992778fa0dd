// SPDX-License-Identifier: Apache-2.0
/*
 * The registry of training jobs (jobs/spec.h) in the store. A job has two rows: its spec, which does not change, and its
 * state, which is small and changes with every report. All rows are in one partition, so that one scan finds the active
 * jobs of all tenants; the number of jobs is limited for that.
 *
 * A job that ended, or whose lease did, stops counting at once. Its rows stay for META_JOB_KEEP_MS, so that people can look
 * at it and a job that was suspended can go on; they are deleted when a job is added after that.
 *
 * Times are the wall clock of the metadata server that writes or reads a row. Clocks of servers that differ make leases
 * longer or shorter by the difference, never longer than the lease from the moment of reading.
 */
#ifndef META_JOBS_H
#define META_JOBS_H

#include "jobs/spec.h"
#include "meta/meta.h"

#define META_JOBS_MAX 16384       /* of all tenants */
#define META_JOBS_TENANT_MAX 2048 /* of one tenant */
#define META_JOB_KEEP_MS (3600ULL * 1000)
#define META_JOBS_PAGE 256

/* A job as it is stored. Everything but numbers is in the arena of the call. */
struct meta_job {
	uint32_t tenant;
	uint64_t id;
	struct job_spec spec; /* id 0: not read */
	struct job_state state;
};

/*
 * Adds a job whose parts have been looked up, with an owner (may be empty), and sets *stamp. The same spec again by the same
 * owner renews its lease. -EEXIST: the tenant has an active job of this id with another spec or owner; -ENOSPC: too many
 * jobs; -EINVAL; errors of the store.
 */
int meta_job_add(struct meta *m, const struct meta_ctx *ctx, const struct job_spec *spec,
		 const char *owner, uint64_t *stamp);
/* Reads a job. -ENOENT. */
int meta_job_get(struct meta *m, const struct meta_ctx *ctx, uint64_t id, struct arena *a,
		 struct meta_job *out);
/* Takes a report (NULL: none) and renews the lease, also one that ran out. An older report than the last one changes nothing
 * but the lease. -ENOENT: no such job; -ESTALE: the job has ended; -EINVAL: no such part or epoch. */
int meta_job_report(struct meta *m, const struct meta_ctx *ctx, uint64_t id,
		    const struct job_progress *p);
/* A job is about to enter a window of a data set. Sets *window to the one that it enters (with `begins` the current window of
 * the other jobs; the same one for every rank that asks for the epoch), and *wait if it should first wait for others.
 * -ENOENT; -ESTALE: the job has ended; -EINVAL: there is no such window. */
int meta_job_enter(struct meta *m, const struct meta_ctx *ctx, uint64_t id,
		   const struct job_enter *e, uint32_t *window, bool *wait);
/* Stores the verdict of the flash manager for this registration of a job. Returns 1; 0 if it is older than the stored one.
 * -ENOENT: there is no such job or registration; -EINVAL. */
int meta_job_judge(struct meta *m, const struct meta_ctx *ctx, uint64_t id, uint64_t stamp,
		   const struct job_verdict *v);
/* Ends a job: it stops counting. Returns 0 also if it ended before. -ENOENT. */
int meta_job_end(struct meta *m, const struct meta_ctx *ctx, uint64_t id);
/* Deletes a job. Returns 0 also if there is none. */
int meta_job_remove(struct meta *m, const struct meta_ctx *ctx, uint64_t id);

/* Where a listing goes on: after this job. */
struct meta_job_place {
	uint32_t tenant;
	uint64_t id;
};

/* Lists at most max jobs (up to META_JOBS_PAGE) after *at, and moves *at; without specs. tenant 0: of all tenants. *end:
 * there are no more. Returns their number. A row that cannot be read is logged and left out. */
int64_t meta_job_list(struct meta *m, uint32_t tenant, struct meta_job_place *at,
		      struct meta_job *out, size_t max, bool *end);

#endif
