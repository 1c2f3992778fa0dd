// SPDX-License-Identifier: Apache-2.0
/*
 * The 64-bit hash that places things: which partition holds a key, which shard a name. Its results
 * are stored in the sense that data lies where they pointed, so they must never change. XXH3
 * through libxxhash: its output is fixed by specification since release 0.8.0, the same on every
 * machine and byte order, and tests/unit/test_base_hash.c pins it with golden values. Not for
 * secrets: an adversary who chooses keys can choose collisions.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash64(const void *data, size_t len, uint64_t seed);

/* The hash of two integers, as hash64 of their 16 bytes in little-endian order: the partition of
 * (layer, id) and the like. */
uint64_t hash64_u64s(uint64_t a, uint64_t b);

#endif
