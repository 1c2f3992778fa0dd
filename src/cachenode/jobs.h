// SPDX-License-Identifier: Apache-2.0
/*
 * The registered jobs, as the policy of a cache node sees them: joins the registry (meta_client/jobs.h) to the view of the
 * policies (cache/jobs.h).
 *
 *   registry --- every 2 s ---> job_view ---> parts: directories with files, their blocks (dirmap.h) ---> cache_jobs
 *   requests --- job, block ------------------------------> number of the job, bucket, position --------> cache_jobs
 *
 * A part of a spec becomes one part of cache_jobs for each directory with files at and below it, and each such directory is
 * a bucket. A part that is a file is the place of the file in its directory. A job that the node cannot follow (no
 * directory of it can be listed) still counts for the bucket of the part itself.
 *
 * A job counts until it ends or its lease does, on the clock of the node: also when no metadata server answers.
 *
 * What a job really reads is known by position where the order is a scan. Other orders (strict with a seed or a secret,
 * window, free) are orders of samples, which the node does not know: there it remembers what was read (cache/jobs.h).
 */
#ifndef CACHENODE_JOBS_H
#define CACHENODE_JOBS_H

#include "base/map.h"
#include "cache/jobs.h"
#include "cachenode/dirmap.h"
#include "jobs/worth.h"
#include "meta_client/jobs.h"

struct cachenode;

/* A registered job. */
struct node_job {
	uint32_t tenant;
	uint64_t id;
	uint64_t added;       /* number of the refresh of the view that brought this registration */
	uint64_t until_ns;    /* end of its lease */
	uint64_t reported_ms; /* last report that was taken; clock of the metadata */
	uint32_t
		number; /* in cache_jobs; CACHE_NONE: it has no part that can be followed, or its lease has ended */
	struct job_verdict verdict; /* of the flash manager */
	bool current;               /* the last refresh has it */
	bool expired;               /* its lease ended; a report may renew it */
	uint32_t epochs;            /* of its spec */
	struct dirmap_dir **dirs;
	size_t dirs_n;
	struct cache_part *parts; /* with ranges of their own */
	uint32_t *first;          /* [part of the spec]: its first part; one more at the end */
	uint32_t parts_n, spec_parts_n;
};

struct node_jobs {
	struct cache_jobs view; /* for the policy */
	struct job_view *registry;
	struct dirmap places;
	struct map by_key; /* of tenant and id -> struct node_job */
	uint64_t refreshes, failures;
	bool open;
};

/* Opens an empty view, which the engine gets as cache_engine_options.jobs. -ENOMEM. */
int node_jobs_open(struct node_jobs *js, uint64_t segment_bytes);
void node_jobs_close(struct node_jobs *js);

/* The mapping of segments to buckets has changed: jobs are joined anew with the next refresh. */
void node_jobs_rejoin(struct node_jobs *js);

/* Returns the bucket of a segment of a block in a mapped directory. */
uint64_t node_jobs_bucket(const struct cachenode *n, const struct dirmap_block *b,
			  uint32_t position);

/* Fiber that follows the registry; the argument is the node. */
void node_jobs_main(void *node);
/* Fiber that ends jobs whose lease has ended. */
void node_jobs_leases_main(void *node);

/* Returns the number in cache_jobs of the job with this tag; CACHE_NONE: none counts. */
uint32_t node_jobs_number(const struct node_jobs *js, uint32_t tenant, uint64_t id);
/* Finds a job that counts, by the tag of its reads. */
const struct node_job *node_jobs_find(const struct node_jobs *js, uint32_t tenant, uint64_t id);

/*
 * Computes the order in which a job reads a directory, or of it a file (NULL: all). ranges has room for
 * max(range_count, 1) and stays with the order. -EINVAL, -E2BIG: the spec is no order (cache_order_init).
 */
int node_jobs_order(const struct job_spec *s, const struct dirmap_dir *d,
		    const struct dirmap_file *f, uint64_t segment, struct cache_range *ranges,
		    struct cache_order *out);

/* Returns what the flash manager wants for a read of this job: WORTH_KEEP leaves it to the policy. */
enum worth_rule node_jobs_rule(const struct node_jobs *js, uint32_t tenant, uint64_t id,
			       uint64_t block, uint64_t off);

#endif
