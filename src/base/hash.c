// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <endian.h>
#include <xxhash.h>

uint64_t hash64(const void *data, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(data, len, seed);
}

uint64_t hash64_u64s(uint64_t a, uint64_t b)
{
	const uint64_t words[2] = {htole64(a), htole64(b)};
	return hash64(words, sizeof(words), 0);
}
