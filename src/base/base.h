// SPDX-License-Identifier: Apache-2.0
/* The handful of macros every file may use. */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

#define KIB (1024ULL)
#define MIB (1024ULL * KIB)
#define GIB (1024ULL * MIB)

#define NS_PER_US (1000ULL)
#define NS_PER_MS (1000ULL * NS_PER_US)
#define NS_PER_S (1000ULL * NS_PER_MS)

/* A local declared AUTO_FREE is freed when its scope ends, on every way out. */
#define AUTO_FREE __attribute__((cleanup(base_auto_free)))

static inline void base_auto_free(void *slot)
{
	free(*(void **)slot);
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#endif
