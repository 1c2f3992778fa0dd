// SPDX-License-Identifier: Apache-2.0
/*
 * Checks for code that runs in fibers or other threads, where cmocka's asserts, which jump out of the
 * test, would leave the stack of another context. A failed check prints where it failed, calls the hook
 * of the fixture, if it has one, and ends the program.
 */
#ifndef TESTS_UNIT_CHECK_H
#define TESTS_UNIT_CHECK_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

/* Prints what a fixture knows about a failure: its seed, the simulator's trace. */
struct check_hook {
	void (*print)(void *ctx); /* prints what the fixture knows; NULL: nothing is printed */
	void *ctx;
};

/* The program's hook. Weak, because every file that includes this header defines it. */
__attribute__((weak)) struct check_hook check_hook;

static inline void check_hook_set(void (*print)(void *ctx), void *ctx)
{
	check_hook = (struct check_hook){.print = print, .ctx = ctx};
}

_Noreturn static inline void check_failed(void)
{
	struct check_hook hook = check_hook;
	check_hook.print = NULL; /* a check that fails in the hook ends the program at once */
	if (hook.print != NULL)
		hook.print(hook.ctx);
	abort();
}

#define CHECK(cond)                                                                       \
	do {                                                                              \
		if (!(cond)) {                                                            \
			fprintf(stderr, "%s:%d: CHECK(%s)\n", __FILE__, __LINE__, #cond); \
			check_failed();                                                   \
		}                                                                         \
	} while (0)

#define CHECK_EQ(got, want)                                                                 \
	do {                                                                                \
		int64_t got_ = (int64_t)(got);                                              \
		int64_t want_ = (int64_t)(want);                                            \
		if (got_ != want_) {                                                        \
			fprintf(stderr, "%s:%d: %s is %" PRId64 ", not %" PRId64 " (%s)\n", \
				__FILE__, __LINE__, #got, got_, want_, #want);              \
			check_failed();                                                     \
		}                                                                           \
	} while (0)

/* CHECK_EQ of two return codes, printed by name. */
#define CHECK_RC(got, want)                                                                    \
	do {                                                                                   \
		int64_t got_ = (int64_t)(got);                                                 \
		int64_t want_ = (int64_t)(want);                                               \
		if (got_ != want_) {                                                           \
			fprintf(stderr, "%s:%d: %s is %s, not %s\n", __FILE__, __LINE__, #got, \
				err_name((int)got_), err_name((int)want_));                    \
			check_failed();                                                        \
		}                                                                              \
	} while (0)

#endif
