// SPDX-License-Identifier: Apache-2.0
/*
 * Checks for code that runs in fibers or other threads, where cmocka's asserts, which jump out of the
 * test, would leave the stack of another context. A failed check says where and ends the program.
 */
#ifndef TESTS_UNIT_CHECK_H
#define TESTS_UNIT_CHECK_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(cond)                                                                       \
	do {                                                                              \
		if (!(cond)) {                                                            \
			fprintf(stderr, "%s:%d: CHECK(%s)\n", __FILE__, __LINE__, #cond); \
			abort();                                                          \
		}                                                                         \
	} while (0)

#define CHECK_EQ(got, want)                                                                 \
	do {                                                                                \
		int64_t got_ = (int64_t)(got);                                              \
		int64_t want_ = (int64_t)(want);                                            \
		if (got_ != want_) {                                                        \
			fprintf(stderr, "%s:%d: %s is %" PRId64 ", not %" PRId64 " (%s)\n", \
				__FILE__, __LINE__, #got, got_, want_, #want);              \
			abort();                                                            \
		}                                                                           \
	} while (0)

#endif
