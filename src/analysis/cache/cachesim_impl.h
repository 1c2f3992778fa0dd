// SPDX-License-Identifier: Apache-2.0
#ifndef ANALYSIS_CACHE_CACHESIM_IMPL_H
#define ANALYSIS_CACHE_CACHESIM_IMPL_H

#include "analysis/cache/cachesim.h"

/* Computes the clairvoyant bound of all gets of the source. -ENOMEM, -E2BIG */
int cachesim_bound(const struct workload *w, const struct cachesim_source *source,
		   const struct cachesim_options *o, struct cachesim_result *out);

#endif
