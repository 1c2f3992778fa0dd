// SPDX-License-Identifier: Apache-2.0
/*
 * Fault sweep over memory for layouts, failure sets and plans: the first allocation fails, then the
 * second, until a run meets no fault. Each faulty run returns -ENOMEM and leaks nothing. Linked
 * with --wrap for the allocating calls.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "code/repair_speed.h"
#include "layout_systems.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

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

/*
 * Runs every operation that allocates: a search, two failure sets, a plan with a past, two
 * speeds.
 */
static int operate_plans(const struct layout *l, const struct failure *f,
			 const struct failure *before)
{
	const struct repair_policy policy = {.method = REPAIR_MIN};
	const struct repair_bandwidth bandwidth = {1, 1};
	const struct repair_past past = {.failure = before, .policy = policy};
	struct repair_plan *plan;
	struct repair_speed speed;
	struct repair_totals totals;
	int rc = repair_plan_open(&plan, f, &policy, &past);
	if (rc != 0)
		return rc;
	repair_plan_close(plan);
	rc = repair_measure(f, &policy, &bandwidth, &speed, &totals);
	return rc != 0 ? rc : repair_speed_disk(l, &policy, &bandwidth, &speed);
}

static int operate(const struct system *s)
{
	static struct layout l;
	struct failure f, before;
	uint32_t disks[] = {0, 1, 3};
	char why[LAYOUT_WHY_MAX];
	int rc = system_make(&l, s, 1, why, sizeof(why));
	if (rc == 0)
		rc = failure_init(&f, &l, disks, 3);
	if (rc != 0)
		return rc;
	rc = failure_init(&before, &l, disks, 1);
	if (rc == 0) {
		rc = operate_plans(&l, &f, &before);
		failure_fini(&before);
	}
	failure_fini(&f);
	return rc;
}

static void every_failed_allocation_is_reported(void **state)
{
	(void)state;
	const struct system systems[] = {
		{"mlec:2+1/2+1", "c/s", 3, 1, 7, 0, 6},
		{"rs:4+2", "s/-", 8, 1, 4, 0, 6},
		{"mlec:2+1/2+1", "d/d", 5, 1, 5, 0, 6},
	};
	for (size_t i = 0; i < ARRAY_LEN(systems); i++) {
		for (fail_at = 1;; fail_at++) {
			calls = 0;
			int rc = operate(&systems[i]);
			if (calls < fail_at) {
				assert_int_equal(rc, 0);
				break;
			}
			assert_int_equal(rc, -ENOMEM);
		}
		assert_true(fail_at > 10);
		fail_at = 0;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_failed_allocation_is_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
