// SPDX-License-Identifier: Apache-2.0
/*
 * The order in which a job reads a bucket, as a function: the order contract of the job.
 *
 * A bucket is `bytes` long and consists of files of file_bytes, of which the job reads the byte ranges (shares of each
 * file: columns). A range is read in requests of unit_bytes, the last one shorter. The requests of all files, numbered
 * in the order of files and offsets, are the units 0 .. units - 1.
 *
 *   scan     `readers` readers take files in order and scan them side by side: with 2 readers and 3 units in a file,
 *            the units are read in the order 0 3 1 4 2 5, 6 9 7 10 ...
 *   seeded   a permutation of all units that follows from the seed: known to whoever knows the seed
 *   random   a permutation that nobody but the job knows
 *   window   windows that all jobs share, one after another, each permuted by the job's seed, which the registry knows
 *   free     whatever the cache has, among what the job has not read: known to nobody
 *
 * The permutation is a Feistel network of four rounds over the next power of four, walked until it hits the range: a
 * position is found without memory, in both directions, in some 20 ns.
 */
#ifndef CACHE_ORDER_H
#define CACHE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

enum cache_order_kind { CACHE_SCAN, CACHE_SEEDED, CACHE_RANDOM, CACHE_WINDOW, CACHE_FREE };

#define CACHE_RANGES_MAX 64u
#define CACHE_UNITS_MAX (1ULL << 32)

struct cache_range {
	uint64_t from, to;   /* bytes of each file; from < to, rising, apart */
	uint64_t first_unit; /* units of the file before this range; set by cache_order_init */
};

struct cache_order {
	enum cache_order_kind kind;
	uint64_t seed;
	uint64_t bytes; /* of the bucket */
	uint64_t file_bytes, unit_bytes;
	uint32_t readers;
	uint32_t windows; /* CACHE_WINDOW: at least 1; more than units: one for each unit */
	uint32_t ranges_n;
	const struct cache_range *ranges; /* borrowed */
	uint64_t file_units, units;       /* set by cache_order_init */
};

/* A part of a bucket that is read with one request. */
struct cache_unit {
	uint64_t from, to; /* bytes of the bucket; equal: behind the end, not read */
};

/* Computes the fields that follow from the others. -EINVAL: a size is 0, there are no windows, ranges overlap or leave the file; -E2BIG: more
 * than CACHE_UNITS_MAX units. */
int cache_order_init(struct cache_order *o, struct cache_range *ranges);

/* Returns the unit that is read as number `rank`; with kind random by the seed, which only the job knows. With kind free
 * this is the order in which the job looks for what the cache has. */
uint64_t cache_order_unit(const struct cache_order *o, uint64_t rank);

/* The inverse: as which number the unit is read. */
uint64_t cache_order_rank(const struct cache_order *o, uint64_t unit);

/* Returns the bytes of a unit. */
struct cache_unit cache_order_bytes(const struct cache_order *o, uint64_t unit);

/* Finds the first unit that reads a byte in [from, to) of the bucket. False: the job does not read it. */
bool cache_order_find(const struct cache_order *o, uint64_t from, uint64_t to, uint64_t *unit);

/* Returns the bytes that the job reads of the bucket. */
uint64_t cache_order_total(const struct cache_order *o);

#endif
