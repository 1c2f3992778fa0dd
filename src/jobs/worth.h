// SPDX-License-Identifier: Apache-2.0
/*
 * What flash is worth for the data set of each job, and which share of it a data set gets: the decision of the flash manager
 * (janitor/flash.c), as a function of the registry alone. All that it must remember is in the verdicts, which are stored with
 * the jobs: so a manager can die at any time, another one goes on, and two of them at once come to the same verdicts.
 *
 * Times of a step. From two reports follow the time in which accelerators compute (t_hit) and the time that a step takes now.
 * Without a cache a step takes t_miss:
 *
 *   the job waits now         t_miss is at least what a step takes now
 *   it reads without a cache  t_miss is what a step takes now (its data set gets nothing, or the job has no gain)
 *   it does not wait, cached  not known. It is probed: caches send it to the disks until WORTH_PROBE_STEPS steps are reported.
 *                             What a probe says counts for WORTH_MISS_AGE_MS
 *
 * Options of a data set with n accelerators of each job, k of whose jobs have the order window or free:
 *
 *   all              t = t_hit
 *   a pinned part p  t = max(t_hit, (1 - p) t_miss)
 *   two windows      t = max(t_hit, t_miss / k) for those k jobs, which read each byte once together; else t_miss
 *
 * saves n (1 - t / t_miss) for each job, and WORTH_DISKS n times the share of its reads that the disks are spared, so that flash
 * is not left empty; benefit_decide chooses. A job that gains less than WORTH_GAIN_LEAST is not cached at all:
 * it reads from the disks what is not in a cache, and nothing is kept for it.
 *
 * Reports may lie. A lie moves flash to the liar's data set, never bytes; accelerators of a job count up to WORTH_CLAIM_MAX.
 */
#ifndef JOBS_WORTH_H
#define JOBS_WORTH_H

#include "jobs/spec.h"

#define WORTH_PROBE_STEPS 100u
#define WORTH_PROBES_MAX 4u    /* jobs that are probed at a time, one of each data set */
#define WORTH_FOLLOW_MS 10000u /* until caches follow a verdict */
#define WORTH_MISS_AGE_MS (30 * 60000ULL)
#define WORTH_SILENT_MS (5 * 60000ULL) /* a job without a report for this time says nothing */
#define WORTH_VERDICT_AGE_MS \
	(10 * 60000ULL) /* an older verdict binds no cache: the manager is gone */
#define WORTH_GAIN_LEAST 0.02
#define WORTH_DISKS \
	0.02 /* accelerators that all reads of a job from the disks are worth, of its accelerators */
#define WORTH_MARGIN 0.05 /* that another choice must save more */
#define WORTH_CLAIM_MAX 4096u

/* A job that counts. */
struct worth_job {
	uint32_t tenant;
	uint64_t set; /* of the tenant: id of the part that the job reads */
	enum job_order order;
	uint32_t accelerators;
	const struct job_state *state;
	struct job_verdict verdict; /* in: state->verdict; out: the new one */
};

/* Computes the verdicts of all jobs that count, with so many bytes of flash in all cache nodes. Jobs beyond BENEFIT_SETS_MAX data
 * sets get none. -ENOMEM. */
int worth_decide(struct worth_job *jobs, size_t n, uint64_t capacity, uint64_t now_ms);

/* Returns whether a verdict differs from the stored one in what caches do, or is so old that it must be written again. */
bool worth_is_new(const struct job_verdict *now, const struct job_verdict *stored);

/* Returns what a verdict means, for people. */
const char *worth_why(const struct job_verdict *v);

/* What a cache node does with a read of the job: serves nothing, or serves what it has but keeps nothing more; else it keeps
 * what `place`, a hash of the bytes' name in [0, 1), says. */
enum worth_rule { WORTH_KEEP, WORTH_SERVE, WORTH_PASS };
enum worth_rule worth_rule_of(const struct job_verdict *v, double place, uint64_t now_ms);

#endif
