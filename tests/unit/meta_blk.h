// SPDX-License-Identifier: Apache-2.0
/* A sealed block of three replicas, to be committed. */
#ifndef TESTS_META_BLK_H
#define TESTS_META_BLK_H

#include "meta_fixture.h"

#define BLK_EPOCH 77

struct blk {
	struct meta_chunk chunks[3];
	struct meta_block b;
};

static inline void blk_init(struct blk *k, uint64_t id, uint64_t length)
{
	*k = (struct blk){0};
	for (unsigned i = 0; i < 3; i++)
		k->chunks[i].disk = 100 + (id + i) % 7;
	k->b = (struct meta_block){.id = id,
				   .state = META_BLOCK_SEALED,
				   .epoch = BLK_EPOCH,
				   .length = length,
				   .capacity = 1000,
				   .encoding = "r3",
				   .chunk_count = 3,
				   .chunks = k->chunks};
}

#endif
