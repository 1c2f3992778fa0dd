// SPDX-License-Identifier: Apache-2.0
/*
 * Fault sweep over memory for the engine of a cache: the first allocation fails, then the second, until a run meets no
 * fault. A faulty open or get returns -ENOMEM or the right bytes; what could not be remembered is a miss later; nothing
 * leaks. Linked with --wrap for the allocating calls that the engine makes and the simulator does not.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/crc.h"
#include "base/log.h"
#include "base/rng.h"
#include "cache/engine.h"
#include "check.h"
#include "rt/real.h"

#define SEGMENT (16 * KIB)
#define GETS 60

void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);

static int calls;
static int fail_at; /* number of the allocation that fails; 0: none */

void *__wrap_realloc(void *p, size_t size)
{
	return ++calls == fail_at ? NULL : __real_realloc(p, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
	return ++calls == fail_at ? NULL : __real_aligned_alloc(align, size);
}

static int fetch(void *arg, uint64_t off, uint64_t len, uint8_t *to, uint64_t *got, uint32_t *crcs)
{
	uint64_t block = *(uint64_t *)arg;
	for (uint64_t at = 0; at < len; at += SEGMENT) {
		memset(to + at, (int)(block * 31 + (off + at) / SEGMENT), SEGMENT);
		crcs[at / SEGMENT] = crc32c(0, to + at, SEGMENT);
	}
	*got = len;
	return 0;
}

static void read_all(struct cache_engine *e)
{
	static uint8_t buf[2 * SEGMENT];
	for (uint64_t i = 0; i < GETS; i++) {
		uint64_t block = i % 40;
		uint32_t crc;
		struct cache_get g = {.name = {.block = block},
				      .off = i % 3 * SEGMENT,
				      .len = 2 * SEGMENT,
				      .bucket = 100 + block,
				      .position = CACHE_NONE,
				      .job = CACHE_NONE};
		int rc = cache_engine_get(e, &g, fetch, &block, buf, &crc);
		CHECK(rc == 0 || rc == -ENOMEM || rc == -ENOENT);
		for (uint64_t k = 0; rc == 0 && k < 2; k++) {
			CHECK_EQ(buf[k * SEGMENT], (uint8_t)(block * 31 + i % 3 + k));
			CHECK_EQ(buf[(k + 1) * SEGMENT - 1], (uint8_t)(block * 31 + i % 3 + k));
		}
	}
}

struct run {
	const char *policy;
	char path[64];
};

static void live(void *arg)
{
	const struct run *run = arg;
	const struct cache_engine_options o = {.path = run->path,
					       .flash_bytes = 512 * KIB,
					       .segment_bytes = SEGMENT,
					       .region_bytes = 4 * SEGMENT,
					       .policy = run->policy};
	struct cache_engine *e;
	for (int round = 0; round < 2; round++) {
		int rc = cache_engine_open(&e, &o);
		CHECK(rc == 0 || rc == -ENOMEM);
		if (rc != 0)
			continue;
		read_all(e);
		cache_engine_close(e);
	}
}

static void a_lack_of_memory_gives_misses_and_no_wrong_bytes(void **state)
{
	static const char *const policies[] = {"hybrid"}; /* over LRU */
	/* in memory, where there is such a filesystem: the sweep writes thousands of segments */
	char shm[] = "/dev/shm/terrane-test-cache-XXXXXX", tmp[] = "/tmp/terrane-test-cache-XXXXXX";
	(void)state;
	const char *dir = mkdtemp(shm);
	if (dir == NULL)
		dir = mkdtemp(tmp);
	assert_non_null(dir);
	for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
		struct run run = {.policy = policies[i]};
		snprintf(run.path, sizeof(run.path), "%s/cache", dir);
		for (int n = 1;; n++) {
			fail_at = n;
			calls = 0;
			int rc = rt_real_run(NULL, live, &run);
			bool met = calls >= n;
			fail_at = 0;
			assert_true(rc == 0 || rc == -ENOMEM);
			(void)unlink(run.path);
			if (!met && n > 20)
				break;
			assert_true(met);
		}
	}
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lack_of_memory_gives_misses_and_no_wrong_bytes),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
