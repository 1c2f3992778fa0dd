// SPDX-License-Identifier: Apache-2.0
/*
 * The request history window: unique and total bytes that were requested from each bucket over the last hours, in
 * bounded memory.
 *
 * Segments are sampled by a hash of their key: a segment is in the sample if the hash is below a limit, so all reads of
 * a sampled segment are seen and none of the others. The window is cut into slices. For each bucket and slice there is
 * the sum of bytes requested from sampled segments, and the number of unique bytes of the sampled segments that were
 * read last in that slice; a read moves its segment's bytes to the current slice, so a sum over the slices counts each
 * segment once. A segment remembers which part of it was requested (4-KiB steps), so columns of a file count as what
 * they are. When the table of samples is full, the limit is halved, half of the samples go, and the sums of each bucket
 * shrink by the share that its unique bytes lost.
 *
 * Error: total / unique is the mean number of reads of n sampled segments, so its standard error is s / sqrt(n), where s
 * is the standard deviation of the number of reads in the bucket. For a scan s is 0 apart from the part that is being
 * read, and the result is exact; with reads from 1 to 3 times (s = 0.8) and 1000 samples it is 0.025. cache_history_error()
 * returns the bound that follows from the largest possible s. A sampled segment that was first read less than one slice
 * before the window's start may still count.
 */
#ifndef CACHE_HISTORY_H
#define CACHE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/policy.h"

#define HISTORY_SLICES 36u
#define HISTORY_SAMPLE_BYTES \
	32u /* memory for each sample; the table is at most three quarters full */

struct history_sample {
	uint64_t key; /* 0: the slot is empty */
	uint32_t slice;
	uint16_t bucket;
	uint16_t from, to; /* part that was requested, in steps */
};

struct history_bucket {
	uint64_t total[HISTORY_SLICES];
	uint64_t unique[HISTORY_SLICES];
	uint32_t samples;
};

struct history {
	struct history_sample *table;
	uint32_t mask, count;
	uint64_t limit; /* a key is sampled if its hash is at most this */
	uint64_t slice_ms, step_bytes, segment_bytes;
	uint32_t slice; /* number of the current slice, from 1 */
	struct history_bucket **buckets;
	uint32_t buckets_n;
};

/* -ENOMEM */
int cache_history_init(struct history *h, const struct cache_params *params);
void cache_history_fini(struct history *h);

/* Adds a request; -ENOMEM loses only the request. */
int cache_history_add(struct history *h, const struct cache_request *r);

/* Moves the window to the time, which must not go back. */
void cache_history_advance(struct history *h, uint64_t now_ms);

/* Returns total bytes / unique bytes of a bucket in the window; 0 if it has no samples. */
double cache_history_reads(const struct history *h, uint16_t bucket);

/* Returns the largest standard error of cache_history_reads() that the number of samples allows if no segment was read more
 * than `reads_max` times; 0 if everything is sampled. */
double cache_history_error(const struct history *h, uint16_t bucket, double reads_max);

#endif
