// SPDX-License-Identifier: Apache-2.0
#include "analysis/cache/workload.h"

#include <assert.h>
#include <stdlib.h>

#include "base/rng.h"

void workload_fini(struct workload *w)
{
	for (uint32_t i = 0; i < w->buckets_n; i++)
		free(w->buckets[i]);
	for (uint32_t i = 0; i < w->jobs_n; i++) {
		struct workload_job *j = &w->jobs[i];
		free(j->id);
		free(j->ranges);
		free(j->reads.of);
		free(j->told.of);
		free(j->parts);
		free(j->told_parts);
		free(j->after);
	}
	free(w->buckets);
	free(w->bucket_table);
	free(w->jobs);
	*w = (struct workload){0};
}

void workload_draw(struct workload *w, uint64_t seed)
{
	struct rng rng;
	rng_init(&rng, seed);
	w->seed = seed;
	for (uint32_t i = 0; i < w->jobs_n; i++) {
		struct workload_job *j = &w->jobs[i];
		double factor = 1 + j->pace_spread * (2 * rng_unit(&rng) - 1);
		j->bytes_per_s = (double)j->readers * j->reader_bytes_s * factor;
		assert(j->bytes_per_s > 0);
		uint64_t orders = rng_u64(&rng);
		for (uint32_t k = 0; k < j->reads.n; k++)
			j->parts[k].order.seed = mix_u64(orders + k);
		for (uint32_t k = 0; k < j->told.n; k++)
			j->told_parts[k].order.seed = mix_u64(orders + k);
	}
}
