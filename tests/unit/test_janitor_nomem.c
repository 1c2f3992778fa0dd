// SPDX-License-Identifier: Apache-2.0
/*
 * Repair without memory for its lists of a block's chunks. First all such allocations fail, then
 * all but the first, and so on until no allocation fails. Linked with --wrap for calloc.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "janitor_fixture.h"

/* number of chunks of a block; the test recognizes the allocations by this number of elements */
#define CHUNKS 7

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static unsigned calls;
/* number of the first call that fails; all later calls fail too */
static unsigned fail_at = UINT32_MAX;

void *__wrap_calloc(size_t count, size_t size)
{
	if (count == CHUNKS && size == sizeof(int) && ++calls >= fail_at)
		return NULL;
	return __real_calloc(count, size);
}

CLIENT_TEST(a_block_whose_repair_runs_out_of_memory_is_repaired_later, 8, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text(&jf, "/f", 3, 1000, "rs:4+3"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t on = 0;
	uint64_t lost = 1;
	while ((on = blocks_on(&jf, lost, NULL)) == 0)
		lost += 10;
	lose_disk(&jf, lost);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	fail_at = 0;
	do {
		CHECK_EQ(stats_of(j).chunks_repaired, 0);
		calls = 0;
		fail_at++;
		(void)janitor_repair(j, true);
	} while (calls >= fail_at);
	CHECK_EQ(stats_of(j).chunks_repaired, on);
	CHECK_EQ(blocks_on(&jf, lost, NULL), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_block_whose_repair_runs_out_of_memory_is_repaired_later),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
