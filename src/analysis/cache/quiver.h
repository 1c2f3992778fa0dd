// SPDX-License-Identifier: Apache-2.0
/*
 * Training jobs, a store of limited bandwidth and a cache between them, in virtual time: what order contracts and shares of
 * the cache do to the speed of training. The jobs are those of the Quiver paper (FAST '20, section 7).
 *
 * A job computes for compute_s on each mini-batch and reads up to read_ahead mini-batches ahead; each is transformed for
 * transform_s in between, in parallel. Its samples are in the
 * cache, or the store sends them. The store sends one sample after another at store_bytes_s, one for each waiting job in
 * turn; when no job waits it fills windows. Reads from the cache take no time beyond compute_s, which is the paper's time of
 * a mini-batch under hits.
 *
 * What the cache keeps of a data set:
 *
 *   QUIVER_NOTHING  nothing; each job reads from the store alone
 *   QUIVER_LRU      the samples that were used last, among those of all data sets
 *   QUIVER_PINNED   a fixed part
 *   QUIVER_WINDOWS  two windows. When one is whole the next is filled, once the one before it is dropped: when all jobs are
 *                   done with it, or force_s after the first was
 *   QUIVER_ALL      everything that was read
 *
 * Of what it keeps, the cache reads each sample once, whoever asks in whatever order at the same time.
 *
 * Jobs of the orders window and free stay together by the rules of jobs/together.h: an epoch begins at the current window,
 * and a job waits a little before it gets two windows ahead of another one.
 *
 * A cache node fails at fail_s: a share of what the cache holds is gone. The store sends it again when no job waits, except
 * for an LRU cache, which has it again when jobs ask.
 *
 * Order contracts: strict is a permutation of the data set. window reads window after window, each in the job's own order.
 * free looks at `candidates` times a mini-batch of what it has not read of the window (of the data set, where there are no
 * windows), takes what is in the cache, then what is on its way, then the rest. Samples are numbered so that window w of K has
 * the samples from w n / K on.
 */
#ifndef ANALYSIS_CACHE_QUIVER_H
#define ANALYSIS_CACHE_QUIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUIVER_JOBS_MAX 64
#define QUIVER_SETS_MAX 16
#define QUIVER_SAMPLES_MAX (1u << 26)
#define QUIVER_BATCH_MAX 4096u
#define QUIVER_LOADS_MAX 4096u /* of windows, in the result */
#define QUIVER_STEPS 256u      /* of the time line */
#define QUIVER_TRACED 20u      /* mini-batches of the first job whose stages are in the result */
#define QUIVER_AHEAD_MAX 64u

enum quiver_keep { QUIVER_NOTHING, QUIVER_LRU, QUIVER_PINNED, QUIVER_WINDOWS, QUIVER_ALL };
enum quiver_contract { QUIVER_STRICT, QUIVER_WINDOW, QUIVER_FREE };

struct quiver_set {
	uint32_t samples;
	double sample_bytes;
	enum quiver_keep keep;
	double pinned;    /* share, for QUIVER_PINNED */
	uint32_t windows; /* for QUIVER_WINDOWS, and for the orders window and free: at least 1 */
	bool warm;        /* what it keeps is there from the beginning (not windows, not LRU) */
};

struct quiver_job {
	uint32_t set;
	double start_s, compute_s;
	uint32_t batch; /* samples of a mini-batch */
	enum quiver_contract contract;
	uint64_t batches; /* mini-batches to do; 0: no limit */
	/* between reading and computing, for several mini-batches at a time, of those that are read ahead */
	double transform_s;
};

struct quiver_study {
	const struct quiver_set *sets;
	uint32_t sets_n;
	const struct quiver_job *jobs;
	uint32_t jobs_n;
	double store_bytes_s;
	double lru_bytes;
	uint32_t read_ahead;       /* 0: 4 */
	uint32_t candidates;       /* 0: 10 */
	double force_s;            /* 0: never */
	double end_s;              /* 0: when all jobs are done */
	double warm_s;             /* rates are measured from here on */
	double fail_s, fail_share; /* of the cache that is lost then; 0: nothing fails */
	uint64_t seed;
	uint64_t trace_first; /* number of the first mini-batch that is traced */
};

/* The stages of a mini-batch. */
struct quiver_stages {
	double asked_s, read_s, transformed_s, begun_s, done_s; /* done_s 0: it was not done */
};

struct quiver_load {
	uint32_t set, window;
	double from_s, whole_s, to_s; /* to_s 0: resident at the end */
};

struct quiver_job_result {
	uint64_t batches;
	double done_s;  /* when the last mini-batch was done */
	double batch_s; /* mean time of a mini-batch since warm_s, or since the job began */
	double waited_s;
	uint64_t samples, hits; /* hits: in the cache when the job asked */
};

struct quiver_result {
	struct quiver_job_result jobs[QUIVER_JOBS_MAX];
	double store_samples[QUIVER_SETS_MAX]; /* that the store sent */
	double end_s, store_busy_s;
	struct quiver_load loads[QUIVER_LOADS_MAX];
	uint32_t loads_n;
	uint32_t resident_max; /* windows of one data set at a time */
	struct quiver_stages traced[QUIVER_TRACED];
	double step_s;
	uint64_t steps
		[QUIVER_STEPS]; /* mini-batches done in each step of the time line; only with end_s */
};

/* -EINVAL: a number is impossible; -ENOMEM. */
int quiver_run(const struct quiver_study *s, struct quiver_result *out);

#endif
