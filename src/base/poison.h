// SPDX-License-Identifier: Apache-2.0
/* Memory that no code may touch now, so that the address sanitizer reports each use of it. */
#ifndef BASE_POISON_H
#define BASE_POISON_H

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISON_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define POISON_ASAN 1
#endif

#ifdef POISON_ASAN
#include <sanitizer/asan_interface.h>
#define memory_poison(at, len) ASAN_POISON_MEMORY_REGION(at, len)
#define memory_unpoison(at, len) ASAN_UNPOISON_MEMORY_REGION(at, len)
#define POISON_GAP ((size_t)4096) /* bytes between neighbours, whose use is an overflow */
#else
#define memory_poison(at, len) ((void)(at), (void)(len))
#define memory_unpoison(at, len) ((void)(at), (void)(len))
#define POISON_GAP ((size_t)0)
#endif

#endif
