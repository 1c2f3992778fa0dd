// SPDX-License-Identifier: Apache-2.0
#include "meta_api/id.h"

#include <assert.h>

#include "meta_api/types.h"
#include "rt/rt.h"

uint64_t meta_id(void)
{
	uint64_t id;
	do {
		id = rt_random_u64();
	} while (id <= META_ROOT);
	return id;
}

uint64_t meta_id_run(size_t n)
{
	assert(n > 0 && n <= META_BATCH_MAX);
	uint64_t room = (1ULL << META_RUN_BITS) - n;
	uint64_t id = meta_id();
	uint64_t low = (id & ((1ULL << META_RUN_BITS) - 1)) % room;
	id = (id >> META_RUN_BITS << META_RUN_BITS) + low;
	id = id > META_ROOT ? id : id + META_ROOT + 1;
	assert(id >> META_RUN_BITS == (id + n - 1) >> META_RUN_BITS);
	return id;
}
