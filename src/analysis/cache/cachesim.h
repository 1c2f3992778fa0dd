// SPDX-License-Identifier: Apache-2.0
/*
 * Simulates the flash cache of a workload under one policy, in virtual time: the bookkeeping and the policies of
 * src/cache, as cache nodes run them, with counters in place of bytes.
 *
 *   absorbed   bytes served by the cache - bytes that it fetched from the disks (the Tectonic-Shift paper, section 5)
 *   hit        bytes served from segments that were in the cache
 *   disk_read  bytes that the clients read from the disks, + fetched
 *
 * What the engine costs is charged. A node's flash holds whole regions with their footers; a segment that nobody needs
 * takes its place until its region is freed; a region that is sealed early stays partly empty; the index and the
 * request history window take their share of DRAM. A fetch takes no time.
 *
 * The clairvoyant bound has none of these costs: one cache as large as flash and DRAM of a node together (bound.h), which
 * fetches whole segments like all others.
 */
#ifndef ANALYSIS_CACHE_CACHESIM_H
#define ANALYSIS_CACHE_CACHESIM_H

#include "analysis/cache/reads.h"
#include "cache/core.h"

#define CACHESIM_STEPS 256u /* of the time line */
#define CACHESIM_BOUND "clairvoyant"

/* Where gets come from: a workload, or a trace. */
struct cachesim_source {
	bool (*next)(void *arg, struct reads_get *out);
	bool (*ended)(void *arg, uint32_t *job); /* NULL: no jobs */
	void *arg;
	/* Gives the source a way to ask what the cache has (reads.h), valid during the run; may be NULL. */
	void (*watch)(void *arg, bool (*present)(void *cache, const struct reads_get *get),
		      void *cache);
};

struct cachesim_step {
	double requested, absorbed, written; /* bytes */
};

struct cachesim_result {
	const char *policy;
	double requested_bytes, served_bytes, fetched_bytes, hit_bytes, absorbed_bytes;
	double flash_written_bytes, reinserted_bytes, disk_read_bytes;
	double requests, segment_requests, segment_hits;
	double seconds;     /* of virtual time */
	double wall_s;      /* 0: not measured */
	double flash_share; /* of the flash that holds segments, not footers or rests */
	double index_bytes; /* DRAM for the index of all nodes */
	uint32_t nodes;     /* simulated; sums are scaled up to all nodes */
	double step_s;      /* length of a step of the time line */
	uint32_t steps_n;
	struct cachesim_step steps[CACHESIM_STEPS];
};

struct cachesim_options {
	uint32_t nodes; /* simulate this many of the nodes, and scale up; 0: all */
	/* Called now and then with the bytes that were requested since the last call; may be NULL. */
	void (*progress)(void *arg, uint64_t bytes);
	void *arg;
	double (*now_s)(void); /* a clock, or NULL */
};

/* The sizes of one node that follow from the workload's. */
struct cachesim_node {
	struct cache_params params;
	uint32_t dram_segments;
	uint64_t footer_bytes;
};

/* Returns 0, or -EINVAL with `why` if the flash or the DRAM of a node is too small. */
int cachesim_node(const struct workload *w, struct cachesim_node *out, char *why, size_t why_size);

/* Simulates a workload under the policy with that name, which exists, or computes the bound. Returns 0 or -ENOMEM,
 * -E2BIG: too many requests for the bound. */
int cachesim_run(const struct workload *w, const char *policy, const struct cachesim_options *o,
		 struct cachesim_result *out);

/* The same for other gets than those of the workload, which has no jobs. For the bound the source is asked for all gets
 * once. */
int cachesim_run_source(const struct workload *w, const struct cachesim_source *source,
			const char *policy, const struct cachesim_options *o,
			struct cachesim_result *out);

/* Reports whether the name is that of a policy or of the bound. */
bool cachesim_has(const char *policy);

#endif
