// SPDX-License-Identifier: Apache-2.0
/*
 * Fault sweep over memory for the durability study: the first allocation fails, then the second,
 * until a run meets no fault. Each faulty run returns -ENOMEM and leaks nothing. Linked with --wrap
 * for the allocating calls.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/fleet.h"
#include "analysis/lrc_odds.h"
#include "analysis/nines.h"
#include "analysis/split.h"
#include "base/rng.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);

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

static struct system sys;

static int run_split(void)
{
	struct level level;
	struct rng rng;
	struct split_result r;
	int rc = level_of_disks(&level, &sys);
	if (rc != 0)
		return rc;
	rng_init(&rng, 1);
	rc = split_run(&(struct split_spec){.level = &level, .states = 3}, &rng, &r);
	split_fini(&r);
	return rc;
}

static int run_fleet(void)
{
	struct fleet *fleet;
	struct fleet_mission m;
	struct rng rng;
	rng_init(&rng, 1);
	int rc = fleet_open(&fleet, &sys, false, NULL, SYSTEM_YEAR_S);
	if (rc != 0)
		return rc;
	rc = fleet_run(fleet, &rng, &m);
	fleet_close(fleet);
	return rc;
}

static int run_nines(void)
{
	struct nines_options o;
	struct nines_answer a;
	nines_options_default(&o);
	o.precision = 1;
	o.missions = 2;
	o.work.threads = 1;
	o.by = NINES_SIMULATE;
	return nines_estimate(&sys, &o, &a, NULL, 0);
}

static int run_lrc(void)
{
	struct lrc_odds odds;
	return lrc_odds_find(&odds, &(struct lrc_shape){4, 2, 1}, false);
}

static int run_parse(void)
{
	static const char text[] = TRACE_HEAD "\n1,2,fail\n2,2,replace\n";
	struct trace t;
	int rc = trace_parse(&t, text, strlen(text), 10, NULL, 0);
	trace_fini(&t);
	return rc;
}

static int run_make(void)
{
	struct trace_burst b = {3, 10, 1e6, 1e-6, 1e-5, 2, 4, 1, 10};
	struct trace t;
	struct rng rng;
	rng_init(&rng, 1);
	int rc = trace_make(&t, &b, &rng);
	trace_fini(&t);
	return rc;
}

static int sweep(int (*run)(void))
{
	int faults = 0;
	for (fail_at = 1;; fail_at++) {
		calls = 0;
		int rc = run();
		if (calls < fail_at) {
			assert_int_equal(rc, 0);
			break;
		}
		assert_int_equal(rc, -ENOMEM);
		faults++;
	}
	fail_at = 0;
	return faults;
}

static void every_failed_allocation_is_reported(void **state)
{
	(void)state;
	struct system_spec spec;
	system_spec_default(&spec);
	spec.racks = 12;
	spec.enclosures = 1;
	spec.disks = 40;
	assert_int_equal(system_init(&sys, &spec, NULL, 0), 0);
	assert_true(sweep(run_split) > 5);
	assert_true(sweep(run_fleet) > 5);
	assert_true(sweep(run_nines) > 5);
	assert_true(sweep(run_lrc) > 2);
	assert_true(sweep(run_parse) >= 2);
	assert_true(sweep(run_make) > 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_failed_allocation_is_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
