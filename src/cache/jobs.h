// SPDX-License-Identifier: Apache-2.0
/*
 * What a cache node knows about training jobs: what each will read and in which order (the registry), how far it is and
 * how fast (tagged reads), and whether it keeps to that.
 *
 *   need   how many reads of a segment are still to come
 *   next   in how many milliseconds the next of them is expected
 *
 * A job reads its parts (buckets) one after another, each in its order. A read of a known order shows exactly how far
 * the job is: the rank of the unit. Of an unknown order the node keeps one bit for each unit of the current part: the
 * units that it has seen. From the progress over time follows the speed. A segment is expected when the job has read
 * what stands before it; where the order is unknown, when half of what is left is read.
 *
 * A registered job that has read nothing counts from its expected start: the given time, or the expected end of the
 * jobs that it waits for. It is overdue when it has not begun a minute after that, or has been silent for a minute, and
 * then counts only when it reads again. A job that reads what its spec does not contain, or jumps in an order that it
 * claimed to keep, loses trust; without trust its spec is ignored, and its reads are those of a job without spec.
 *
 * Epochs. A job that reads its parts several times needs a segment once more for each epoch that is left. After the last
 * part, or when it begins a part again that it has nearly finished, the next epoch begins.
 *
 * Reports. What a job reports of its progress counts where it is ahead of what the node has seen of its reads.
 *
 * Worked example: job A scans P1, P2 at 1000 units/s, P1 has 5000 units, and A is at unit 2000 of P1. Unit 3000 of P1
 * is expected in 1 s, unit 1000 of P1 never (need 0), unit 500 of P2 in 3.5 s.
 */
#ifndef CACHE_JOBS_H
#define CACHE_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/order.h"
#include "cache/policy.h"

#define CACHE_JOBS_MAX 65536u
#define CACHE_PARTS_MAX 65536u
#define CACHE_NEVER 1e18       /* ms: no job is expected to read it */
#define CACHE_EPOCHS_MAX 1000u /* more count as so many */

struct cache_part {
	uint16_t bucket;
	struct cache_order order; /* its seed differs from part to part */
};

struct cache_job_spec {
	const struct cache_part *parts; /* borrowed until the view is closed */
	uint32_t parts_n;
	const uint32_t *after; /* jobs that must end first, added before; borrowed */
	uint32_t after_n;
	uint64_t start_ms;   /* expected start, if it waits for none */
	double units_per_ms; /* expected speed; 0: as fast as the others */
	/* how often it reads the parts; 0: once, but if it begins again it goes on doing so */
	uint32_t epochs;
	bool side_by_side; /* it reads all parts at the same time: none is finished before it ends */
};

enum cache_job_state { CACHE_JOB_QUEUED, CACHE_JOB_READING, CACHE_JOB_ENDED };

struct cache_job {
	struct cache_job_spec spec;
	enum cache_job_state state;
	bool vacant;          /* it was removed: its number is free */
	uint32_t part;        /* the part that it reads */
	uint32_t epochs_left; /* after this one */
	uint32_t again; /* reads in a row of what it has read, when it has nearly finished a part */
	double done;    /* units of that part that it has read */
	double speed;   /* units per ms; 0: not measured yet */
	uint64_t last_ms;  /* last read */
	uint64_t start_ms; /* of a queued job: expected start */
	bool overdue;      /* silent, or not begun in time */
	uint64_t mark_ms;  /* last measurement of the speed, and the units read until then */
	double mark_units;
	double *before;     /* [part]: units of the parts before it */
	uint8_t *seen;      /* bits of the units of the current part; NULL: its order is known */
	double trust;       /* share of its reads that its spec contains, smoothed */
	double order_trust; /* share of its reads that keep the order of its spec, smoothed */
};

struct cache_jobs {
	struct cache_job *jobs;
	uint32_t jobs_n, jobs_cap, vacant_n;
	struct cache_readers *readers; /* [bucket] */
	uint32_t readers_n;
	uint64_t segment_bytes;
	double share; /* of the ring */
	uint64_t now_ms;
	double speed; /* mean of the reading jobs, units per ms */
};

/* Initializes an empty view. */
void cache_jobs_init(struct cache_jobs *js, uint64_t segment_bytes, double share);
void cache_jobs_fini(struct cache_jobs *js);

/* Adds a job from the registry; *out is its number. -ENOMEM; -E2BIG: too many jobs or parts. */
int cache_jobs_add(struct cache_jobs *js, const struct cache_job_spec *spec, uint32_t *out);

/* The job has ended, or its lease. */
void cache_jobs_end(struct cache_jobs *js, uint32_t job);
/* Forgets a job, which no other job waits for. Its spec is not used any more, and its number may be given out again. */
void cache_jobs_remove(struct cache_jobs *js, uint32_t job);

/* What a job says of itself: it has read `done` (0 to 1) of the part, and then has so many epochs left. */
struct cache_job_report {
	uint32_t part, epochs_left;
	double done;
};
/* Takes a report that arrived at now_ms. A part that the job does not have is ignored. */
void cache_jobs_report(struct cache_jobs *js, uint32_t job, const struct cache_job_report *r,
		       uint64_t now_ms);

/* Takes a request as evidence of its job's progress. Called before the policy sees it. */
void cache_jobs_read(struct cache_jobs *js, const struct cache_request *r);
void cache_jobs_tick(struct cache_jobs *js, uint64_t now_ms);

struct cache_outlook {
	double next_ms; /* time until the next read; CACHE_NEVER: none is expected */
	uint32_t need;  /* reads to come */
};

/* Returns what is to come of the segment at this position of the bucket. */
struct cache_outlook cache_jobs_outlook(const struct cache_jobs *js, uint16_t bucket,
					uint32_t position);

/* Returns how many active jobs have the bucket in their spec and have not finished it: Shift's future priority. */
uint32_t cache_jobs_readers(const struct cache_jobs *js, uint16_t bucket);

/* Reports whether the job's reads follow its spec, so that its needs are complete. */
bool cache_jobs_trusted(const struct cache_jobs *js, uint32_t job);

/* Returns the share of the epoch that the job has read, 0 to 1. */
double cache_jobs_done(const struct cache_jobs *js, uint32_t job);

#endif
