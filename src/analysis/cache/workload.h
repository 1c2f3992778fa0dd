// SPDX-License-Identifier: Apache-2.0
/*
 * Workload files of the cache study: jobs that read partitions, and the cache in front of the disks, as JSON.
 *
 *   {"partition_bytes": 5e12, "flash_bytes": 1.28e12, "nodes": 6,
 *    "jobs": [{"id": "j1", "partitions": ["P1", "P2"], "reader_bytes_s": 1.5e9}]}
 *
 * Every field but "jobs" and a job's "id" and "partitions" may be left out. An unknown field, a value outside its range
 * or a job that waits for itself is refused with a message that names the field.
 *
 * A partition is a bucket. It consists of files of file_bytes, and of blocks of block_bytes that are spread over the
 * nodes. A name "table/partition" puts the partition into a table; else each partition is a table of its own. A job
 * reads its partitions in order, each once, at readers x reader_bytes_s times a factor within pace_spread of 1.
 *
 * "order" is scan, seeded (known to whoever knows the job's seed), random, window ("windows" that all jobs of a partition
 * share) or free (what the cache has); "byte_ranges" are shares [from, to] of each
 * file, for columns; "after" names jobs that must end first.
 *
 * "registered": false keeps a job from the registry, "runs": false registers a job that never reads, and
 * "spec_partitions" registers other partitions than those that it reads.
 */
#ifndef ANALYSIS_CACHE_WORKLOAD_H
#define ANALYSIS_CACHE_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/jobs.h"

#define WORKLOAD_WHY_MAX 300
#define WORKLOAD_NODES_MAX 1024u
#define WORKLOAD_JOBS_MAX 10000u
#define WORKLOAD_PARTS_MAX 1000000u /* of all jobs together */
#define WORKLOAD_AFTER_MAX 100000u  /* the same */
#define WORKLOAD_ID_MAX 128u
#define WORKLOAD_FILE_BYTES_MAX (16u << 20)

struct workload_list {
	uint16_t *of; /* buckets */
	uint32_t n;
};

struct workload_job {
	char *id;
	double start_s, reader_bytes_s, pace_spread;
	uint32_t readers;
	uint32_t windows; /* of a partition, for the order window */
	uint64_t request_bytes;
	bool registered, runs;
	enum cache_order_kind order;
	double shares[CACHE_RANGES_MAX][2]; /* of each file */
	struct cache_range *ranges;         /* the same in bytes */
	uint32_t ranges_n;
	struct workload_list reads, told; /* told: what the registry is told; none: `reads` */
	struct cache_part *parts;         /* of `reads` */
	struct cache_part *told_parts;    /* of `told`, or NULL */
	uint32_t *after;                  /* numbers of jobs, all smaller than its own */
	uint32_t after_n;
	uint64_t bytes;     /* that it reads */
	double bytes_per_s; /* with its pace */
};

struct workload {
	uint64_t partition_bytes, segment_bytes, file_bytes, block_bytes, region_bytes;
	uint64_t flash_bytes;                        /* of all nodes together */
	uint64_t dram_bytes;                         /* of each node */
	uint64_t write_limit_bytes_s, history_bytes; /* of each node; 0: none, default */
	double history_s, refresh_s, min_threshold, reinsert_offset;
	uint32_t nodes;
	uint64_t seed;
	char **buckets; /* names of partitions */
	uint32_t buckets_n;
	uint32_t *bucket_table;    /* [bucket] */
	struct workload_job *jobs; /* a job stands behind those that it waits for */
	uint32_t jobs_n;
	uint64_t bytes; /* that all jobs read */
};

/*
 * Parses a workload. Returns 0, -EINVAL for what is not a valid workload, -E2BIG or -ENOMEM. On an error `why` names the
 * field and the rule, and the workload is empty.
 */
int workload_parse(struct workload *w, const char *text, size_t len, char *why, size_t why_size);
void workload_fini(struct workload *w);

/* Draws the pace of each job, and the seeds of orders, from a seed. */
void workload_draw(struct workload *w, uint64_t seed);

#define AUTO_WORKLOAD __attribute__((cleanup(workload_fini)))

#endif
