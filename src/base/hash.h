// SPDX-License-Identifier: Apache-2.0
/*
 * The 64-bit hash that chooses the partition of a key and the shard of a name. Stored data is found
 * by its results, so they must never change. It is XXH3 of libxxhash, whose output is fixed by
 * specification since release 0.8.0 and the same on every machine and byte order;
 * tests/unit/test_base_hash.c pins it with golden values. Not for secrets: an adversary that
 * chooses keys can choose collisions.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash64(const void *data, size_t len, uint64_t seed);

/* Returns hash64 of two integers as 16 bytes in little-endian order, for example the partition
 * of (layer, id). */
uint64_t hash64_u64s(uint64_t a, uint64_t b);

#endif
