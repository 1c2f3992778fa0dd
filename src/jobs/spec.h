// SPDX-License-Identifier: Apache-2.0
/*
 * A training job as the registry knows it: what it will read, in which order contract, and how far it is.
 *
 * A job is named by its tenant and a number that it chooses, the job id of its requests (terrane_options.job_id). Its spec
 * does not change. Its state does: the lease, which every report renews, and the progress. A job is active until it ends or
 * its lease does; only active jobs count for caches.
 *
 * A spec is a hint. Nothing that must be right depends on it: a cache that believes a wrong spec is slower, not wrong.
 *
 * Order contracts. What a job demands of the order in which it reads; each epoch reads each sample once:
 *
 *   strict  a function of the seed. With the shuffle JOB_SCAN: as stored; JOB_SEEDED: from the seed; JOB_SECRET: not known
 *   window  windows that all jobs of a data set share, permuted inside by the job's own seed
 *   free    whatever is in the cache next
 */
#ifndef JOBS_SPEC_H
#define JOBS_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOB_NAME_MAX 64
#define JOB_OWNER_MAX 64
#define JOB_PATH_MAX 4096
#define JOB_PARTS_MAX 1024
#define JOB_TEXT_MAX 40960 /* bytes of all paths and columns: a spec fits a record */
#define JOB_RANGES_MAX 64
#define JOB_RANGE_WHOLE 1000000u /* a range is in millionths */
#define JOB_COLUMNS_MAX 64
#define JOB_COLUMN_MAX 255
#define JOB_READERS_MAX 1000000u
#define JOB_EPOCHS_MAX 1000000u
#define JOB_ACCELERATORS_MAX 1000000u
#define JOB_LEASE_MIN_MS 1000
#define JOB_LEASE_MAX_MS (24ULL * 3600 * 1000)
#define JOB_LEASE_DEFAULT_MS 60000
#define JOB_COUNTER_MAX (1ULL << 60)
#define JOB_JOINS_MAX 4
#define JOB_VERDICTS_MAX 32 /* of one message */

enum job_order { JOB_STRICT = 1, JOB_WINDOW = 2, JOB_FREE = 3 };
enum job_shuffle { JOB_SCAN = 1, JOB_SEEDED = 2, JOB_SECRET = 3 };
enum job_part_kind { JOB_ANY = 0, JOB_DIRECTORY = 1, JOB_FILE = 2, JOB_DATASET = 3 };

struct job_part {
	enum job_part_kind kind;
	const char *path;
	uint64_t id; /* of the directory or file; 0: not looked up yet */
};

struct job_range {
	uint32_t from, to;
};

struct job_spec {
	uint64_t id; /* not 0 */
	const char *name;
	const struct job_part *parts; /* in the order in which it reads them */
	size_t part_count;
	const struct job_range *ranges; /* rising, apart */
	size_t range_count;
	const char *const *columns;
	size_t column_count;
	uint32_t readers, epochs, accelerators;
	enum job_order order;
	enum job_shuffle shuffle;
	uint64_t seed;
	uint64_t lease_ms;
	uint64_t bytes_s;
};

struct job_progress {
	uint64_t sequence;
	uint32_t epoch, part;
	uint64_t position, total;
	uint64_t steps, compute_us, wait_us, bytes, hit_bytes;
	uint32_t window, windows;
	uint64_t part_bytes; /* of the part; 0: not known */
};

/* The window that a job reads, of those that all jobs of a version of a data set share (together.h). windows 0: none. */
struct job_place {
	uint64_t set; /* fingerprint of the version */
	uint32_t windows, window;
};

/* Where an epoch begins. */
struct job_join {
	struct job_place place;
	uint32_t epoch;
};

/* How much of a data set caches keep for its jobs. JOB_KEEP_ANY: as the policy of the cache likes. */
enum job_keep { JOB_KEEP_ANY, JOB_KEEP_NOTHING, JOB_KEEP_WINDOWS, JOB_KEEP_PART, JOB_KEEP_ALL };
/* Whether caches serve a job. JOB_CACHE_OFF: it gains nothing; nothing more is kept for it. JOB_CACHE_PROBE: it reads from the
 * disks alone, to see what that costs. */
enum job_cache { JOB_CACHE_ON, JOB_CACHE_OFF, JOB_CACHE_PROBE };

/* What the flash manager decided for a job (worth.h). Times in us are of a step. */
struct job_verdict {
	uint64_t at_ms; /* wall clock of the manager; 0: there is no verdict */
	enum job_keep keep;
	enum job_cache cache;
	uint32_t share;    /* JOB_KEEP_PART: millionths of the data set */
	uint64_t bytes;    /* of flash, for the data set */
	uint64_t since_ms; /* since when keep and cache are what they are */
	uint64_t hit_us, miss_us;
	uint64_t miss_at_ms;  /* when miss_us was seen last; 0: never */
	uint64_t saved_milli; /* thousandths of accelerators, by the data set's share */
	uint64_t probe_steps,
		probe_us; /* steps and their time when the probe began to count; 0: not yet */
};

/* A job is about to enter a window. */
struct job_enter {
	struct job_place place; /* window: that which it would enter by itself */
	uint32_t epoch;
	bool begins; /* the first window of the epoch: the job may begin in another one */
	bool force;  /* it has waited long enough */
};

/* Times are the wall clock of the metadata server in ms. */
struct job_state {
	uint64_t stamp, added_ms, expires_ms, reported_ms, before_ms;
	bool ended;
	char owner[JOB_OWNER_MAX + 1];
	struct job_progress progress, before;
	struct job_place place;
	struct job_join joins[JOB_JOINS_MAX]; /* oldest first */
	uint32_t join_count;
	struct job_verdict verdict;
};

/* Returns NULL, or what is wrong with a spec, a report or a report of a job with this spec: for people. */
const char *job_spec_check(const struct job_spec *s);
const char *job_progress_check(const struct job_progress *p);
/* Returns whether a place is one: a window below the number of windows, or none. */
bool job_place_ok(const struct job_place *p);
/* Returns whether a verdict from outside is possible. */
bool job_verdict_ok(const struct job_verdict *v);
const char *job_progress_of(const struct job_progress *p, const struct job_spec *s);

/* Returns whether the job counts at this time: it has not ended, and its lease runs. A lease is never longer than the spec's
 * from now on, whatever clock wrote its end. */
bool job_active(const struct job_state *st, uint64_t now_ms);
/* Returns the rest of the lease in ms; 0: the job does not count. */
uint64_t job_lease_left(const struct job_state *st, uint64_t lease_ms, uint64_t now_ms);

/* What the last two reports say. All are 0 before two reports with time between them. */
struct job_rates {
	double steps_s;
	double wait_share; /* of the time of steps: waited for data */
	double hit_share;  /* of the bytes read: served by a cache */
	double bytes_s;
};
struct job_rates job_rates(const struct job_state *st);
/* Returns the share of the whole job that is done, 0 to 1; epochs 0 counts the current one alone. */
double job_done_share(const struct job_spec *s, const struct job_progress *p);

/* Names for people and command lines; the second of each pair returns 0 or -EINVAL. */
const char *job_order_name(enum job_order o);
int job_order_parse(const char *text, enum job_order *out);
const char *job_shuffle_name(enum job_shuffle s);
int job_shuffle_parse(const char *text, enum job_shuffle *out);
const char *job_keep_name(enum job_keep k);
const char *job_part_name(enum job_part_kind k);

#endif
