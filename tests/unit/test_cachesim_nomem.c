// SPDX-License-Identifier: Apache-2.0
/*
 * Fault sweep over memory for the simulator of caches: the first allocation fails, then the second, until a run meets no
 * fault. A faulty run either returns -ENOMEM, or forgets what a policy wanted to remember; it leaks nothing. Linked with
 * --wrap for the allocating calls.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/cache/cachesim.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);

static int calls;
static int fail_at; /* number of the allocation that fails; 0: none */

void *__wrap_malloc(size_t size)
{
	return ++calls == fail_at ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return ++calls == fail_at ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return ++calls == fail_at ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
	return ++calls == fail_at ? NULL : __real_strdup(s);
}

static const char text[] =
	"{\"partition_bytes\":200000,\"segment_bytes\":1000,\"file_bytes\":50000,\"nodes\":2,"
	"\"block_bytes\":10000,\"region_bytes\":4000,\"flash_bytes\":400000,\"dram_bytes\":30000,"
	"\"history_bytes\":4096,\"min_threshold\":0,\"jobs\":["
	"{\"id\":\"b\",\"partitions\":[\"t/p\",\"t/q\"],\"after\":\"a\",\"reader_bytes_s\":25000,"
	"\"request_bytes\":2000,\"spec_partitions\":[\"t/p\"]},"
	"{\"id\":\"a\",\"partitions\":[\"t/p\",\"t/"
	"q\"],\"order\":\"random\",\"reader_bytes_s\":25000,"
	"\"request_bytes\":2000},"
	"{\"id\":\"c\",\"partitions\":[\"t/q\"],\"reader_bytes_s\":25000,\"request_bytes\":2000}]}";

static void workload_files_survive_a_lack_of_memory(void **state)
{
	(void)state;
	for (fail_at = 1;; fail_at++) {
		struct workload w;
		char why[WORKLOAD_WHY_MAX] = "";
		calls = 0;
		int rc = workload_parse(&w, text, sizeof(text) - 1, why, sizeof(why));
		workload_fini(&w);
		if (calls < fail_at)
			break;
		assert_int_equal(rc, -ENOMEM);
		assert_string_equal(why, "not enough memory for the workload");
	}
	assert_true(fail_at > 20);
	fail_at = 0;
}

static void every_policy_survives_a_lack_of_memory(void **state)
{
	struct workload w;
	struct cachesim_options o = {0};
	char why[WORKLOAD_WHY_MAX] = "";
	(void)state;
	assert_int_equal(workload_parse(&w, text, sizeof(text) - 1, why, sizeof(why)), 0);
	const struct cache_policy_kind *k = cache_policy_kinds;
	for (bool bound = false; !bound; k++) {
		const char *policy = k->name != NULL ? k->name : CACHESIM_BOUND;
		uint32_t refused = 0;
		for (fail_at = 1;; fail_at++) {
			struct cachesim_result r;
			calls = 0;
			int rc = cachesim_run(&w, policy, &o, &r);
			if (calls < fail_at) {
				assert_int_equal(rc, 0);
				break;
			}
			assert_true(rc == 0 || rc == -ENOMEM);
			refused += rc != 0;
		}
		assert_true(refused >= 5);
		bound = k->name == NULL;
	}
	fail_at = 0;
	workload_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(workload_files_survive_a_lack_of_memory),
		cmocka_unit_test(every_policy_survives_a_lack_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
