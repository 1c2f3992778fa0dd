// SPDX-License-Identifier: Apache-2.0
/* main() of an engine's test: the suite as cmocka cases, followed by the engine's own cases. */
#ifndef TESTS_KV_SUITE_MAIN_H
#define TESTS_KV_SUITE_MAIN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check.h"
#include "kv_suite.h"

/* Runs all cases; fn runs the case of the suite that its state points to. */
static inline int kv_suite_main(const char *group, void (*fn)(void **),
				const struct CMUnitTest *own, size_t own_count)
{
	struct CMUnitTest tests[64];
	size_t n = 0;
	CHECK(kv_suite_count + own_count <= ARRAY_LEN(tests));
	for (size_t i = 0; i < kv_suite_count; i++)
		tests[n++] = (struct CMUnitTest){.name = kv_suite_cases[i].name,
						 .test_func = fn,
						 .initial_state = (void *)&kv_suite_cases[i]};
	for (size_t i = 0; i < own_count; i++)
		tests[n++] = own[i];
	return _cmocka_run_group_tests(group, tests, n, NULL, NULL);
}

#endif
