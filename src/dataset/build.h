// SPDX-License-Identifier: Apache-2.0
/*
 * Building a version of a data set from a catalog.
 *
 * Samples are taken in an order that follows from the seed, and packed into shards: a file of samples and its index. A
 * shard ends when its file would be longer than shard_bytes, or when its index is full. The index of a shard is written
 * after its samples, and the manifest after all shards: a build that is interrupted leaves no version.
 *
 * Resuming. The names of shards contain the plan, a hash of everything on which their contents depend: the fingerprint of
 * the catalog, seed, encoding, sizes, options. A build finds the shards of an interrupted one with the same plan by their
 * names and uses them.
 */
#ifndef DATASET_BUILD_H
#define DATASET_BUILD_H

#include <stdbool.h>
#include <stdint.h>

#include <terrane/terrane.h>

#include "dataset/catalog.h"

#define BUILD_SHARD_BYTES_DEFAULT (4 * GIB)
#define BUILD_THREADS_DEFAULT 8

struct build_options {
	const char *path;     /* of the data set in the cluster */
	bool append;          /* add to the latest version, which must exist; else none may exist */
	uint64_t seed;        /* of the order; at most INT64_MAX */
	uint64_t shard_bytes; /* 0: BUILD_SHARD_BYTES_DEFAULT */
	unsigned threads;     /* that read the source; 0: BUILD_THREADS_DEFAULT */
	bool sha256;          /* put the SHA-256 of each sample into the index */
	uint64_t now_ns;      /* time of the version, since 1970 */
	/* encoding, block_bytes, media, traffic; its error receives the reason of a failure */
	struct terrane_options o;
	/* Called after each piece of work with the bytes and samples that are stored; true: stop with -ECANCELED. May be
	 * NULL. */
	bool (*stop)(void *ctx, uint64_t bytes, uint64_t samples);
	void *stop_ctx;
};

struct build_result {
	uint64_t version, samples,
		bytes;           /* of the new samples: number, and bytes without padding */
	uint64_t stored_bytes;   /* bytes of their shards, without redundancy */
	uint64_t total_samples;  /* samples of the version */
	uint32_t shards, reused; /* new shards; those of them that an earlier build had written */
};

/* Builds a version. -EEXIST: the data set exists, or another build made the same version; -ENOENT: append to a data set that
 * does not exist; -ESTALE: the source changed; -ECANCELED; errors of the catalog and of the cluster. */
int dataset_build(struct terrane *t, const struct catalog *c, const struct build_options *b,
		  struct build_result *out);

#endif
