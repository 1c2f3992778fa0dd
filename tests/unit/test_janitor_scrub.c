// SPDX-License-Identifier: Apache-2.0
/* Scrubbing against a simulated cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "janitor_lab.h"

static void scrub_body(struct client_box *b)
{
	struct lab l;
	lab_open(&l, b);
	write_all(&l);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, 0);
	CHECK_EQ(stats_of(j).scrubbed_chunks, chunks_everywhere(&l));
	struct chunk_id ids[256];
	size_t rotten = 0;
	for (uint64_t disk = 1; disk <= 11; disk += 10) {
		CHECK(chunks_on(&l, disk, ids, ARRAY_LEN(ids)) > 0);
		cbox_flip(b, disk, ids[0], 7);
		rotten++;
	}
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, rotten);
	CHECK_EQ(janitor_repair(j, true), 0);
	CHECK_EQ(stats_of(j).chunks_repaired, rotten);
	(void)check_whole(&l);
	read_all(&l);
	CHECK_EQ(janitor_scrub(j, 0), 0);
	CHECK_EQ(stats_of(j).damage_found, rotten);
	janitor_close(j);
	lab_close(&l);
}

static void scrubbing_finds_what_rotted_and_it_is_repaired(void **state)
{
	(void)state;
	cbox_run_all(8, 1, scrub_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scrubbing_finds_what_rotted_and_it_is_repaired),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
