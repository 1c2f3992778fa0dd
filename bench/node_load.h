// SPDX-License-Identifier: Apache-2.0
/* Load on a storage node: several fibers, each with one request at a time. */
#ifndef BENCH_NODE_LOAD_H
#define BENCH_NODE_LOAD_H

#include <stdint.h>

#include "rpc/context.h"

enum load_kind { LOAD_PUT, LOAD_GET, LOAD_APPEND, LOAD_DELETE };

#define LOAD_SAMPLES_MAX 100000

struct load_part {
	enum load_kind kind;
	uint64_t disk;
	const char *group;
	enum traffic_class class;
	uint32_t fibers;
	uint64_t first_block; /* chunks are (first_block + i, 0), i below blocks */
	uint64_t blocks;
	uint64_t chunk_bytes;
	uint64_t bytes; /* of a request */
	uint64_t count; /* number of requests; 0: until the time is over */
	/* requests a second, independent of responses; 0: each fiber sends the next after a
	 * response */
	double per_s;
	/* results */
	uint64_t done;
	double seconds;
	double samples_ms[LOAD_SAMPLES_MAX];
};

/* Runs the parts in parallel, each on its own connection. Parts without a count run for span_s,
 * or until those with one have ended. Returns 0, or the first error of a request. */
int load_run(const char *addr, struct load_part *const *parts, int n, double span_s);

double load_bytes_per_s(const struct load_part *p);
/* Returns the q-quantile of the samples. */
double load_quantile_ms(struct load_part *p, double q);

#endif
