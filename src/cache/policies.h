// SPDX-License-Identifier: Apache-2.0
/*
 * The policies by name, and the constructors that compose them. Each policy is a file that opens with its algorithm.
 *
 * cache_params must be valid (cache_params_check). Constructors return 0 or -ENOMEM, and set *out to NULL on an error.
 */
#ifndef CACHE_POLICIES_H
#define CACHE_POLICIES_H

#include <stddef.h>

#include "base/base.h"
#include "cache/policy.h"

typedef int cache_open_fn(struct cache_policy **out, const struct cache_params *params);

cache_open_fn cache_lru_open, cache_fifo_open, cache_sieve_open, cache_s3fifo_open,
	cache_tinylfu_open;
cache_open_fn cache_reject_first_open, cache_dynamic_open, cache_expert_open;
cache_open_fn cache_historic_open, cache_future_open, cache_hybrid_open;
cache_open_fn cache_terrane_open;

struct cache_policy_kind {
	const char *name;
	cache_open_fn *open;
	bool knows_jobs; /* it uses the registry: params->jobs and the tags of requests */
};

/* All policies; the last one has no name. "admit-all" is "lru" under the name that figure 9 uses. */
extern const struct cache_policy_kind cache_policy_kinds[];

/* Returns the policy with that name, or NULL. */
const struct cache_policy_kind *cache_policy_find(const char *name);

/* Returns NULL, or what is wrong with the parameters: one phrase that names the parameter. */
const char *cache_params_check(const struct cache_params *params);

#endif
