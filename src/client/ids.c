// SPDX-License-Identifier: Apache-2.0
/* Ids that a client draws, as meta_id and meta_id_run do, without the metadata store itself. */
#include "client/engine_impl.h"
#include "meta/schema.h"
#include "rt/rt.h"

uint64_t new_id(void)
{
	uint64_t id;
	do {
		id = rt_random_u64();
	} while (id <= META_ROOT);
	return id;
}

uint64_t new_id_run(size_t n)
{
	uint64_t run = 1ULL << SCHEMA_RUN_BITS;
	uint64_t id = new_id();
	uint64_t first = id / run * run + id % (run - n);
	return first > META_ROOT ? first : first + META_ROOT + 1;
}
