// SPDX-License-Identifier: Apache-2.0
/*
 * Fault sweep over memory: each operation runs with its first allocation failing, then its second,
 * and so on until a run meets no fault. A run with a fault must return -ENOMEM and leak nothing.
 * Linked with --wrap for the allocating calls.
 */
#include <errno.h>

#include "code/health.h"
#include "code/plan.h"
#include "code_fixture.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);

static int calls;
static int fail_at; /* number of the allocation that fails; 0: none */

static bool fails_now(void)
{
	return ++calls == fail_at;
}

void *__wrap_malloc(size_t size)
{
	return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails_now() ? NULL : __real_realloc(p, size);
}

static const char *const encodings[] = {"r3", "rs:4+2", "lrc:4+2+2", "mlec:2+1/2+1",
					"mlec:2+2/2+2"};

static int operate(const struct encoding *e)
{
	struct codec *c = NULL;
	struct plan *p = NULL;
	struct code_health h;
	uint32_t cost[16];
	int lost[16], n = 0;
	int err = codec_open(e, &c);
	if (err != 0)
		return err;
	for (int i = 0; i < encoding_total_chunks(e); i++) {
		bool gone = i < 2;
		if (encoding_total_chunks(e) == 16) /* a stopping set of a grid of 4 by 4: */
			/* each row and each column keeps one chunk */
			gone = i % 4 != (i / 4 + 1) % 4;
		cost[i] = gone ? CHUNK_LOST : 1;
		if (gone)
			lost[n++] = i;
	}
	err = code_health(c, lost, n, &h);
	if (err == 0)
		err = plan_rebuild(c, 64, cost, lost, n, &p);
	if (err == 0) {
		plan_close(p);
		err = plan_range(c, 64, cost, 0, 1, &p);
	}
	if (err == 0)
		plan_close(p);
	codec_close(c);
	return err;
}

static void every_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
		struct encoding e = fixture_parse(encodings[i]);
		for (int n = 1;; n++) {
			calls = 0;
			fail_at = n;
			int err = operate(&e);
			fail_at = 0;
			if (calls < n) {
				assert_int_equal(err, 0);
				assert_true(n > 8);
				break;
			}
			assert_int_equal(err, -ENOMEM);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_failed_allocation_is_reported_and_leaks_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
