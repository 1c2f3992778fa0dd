// SPDX-License-Identifier: Apache-2.0
/* The power of disks with a flash cache, beside the numbers of table 1 of the Tectonic-Shift paper. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/cache/power.h"
#include "base/base.h"

static bool near(double a, double b)
{
	return fabs(a - b) < 0.005;
}

/* 100 PB and 10 TB/s; servers chosen so that the ratios are the paper's: storage on disks is 1. */
#define PAPER                                                             \
	"{\"storage_bytes\":1e17,\"read_bytes_s\":1e13,"                  \
	"\"hdd\":{\"watts\":1,\"bytes\":1e17,\"bytes_s\":1.00806452e12}," \
	"\"flash\":{\"watts\":1,\"bytes\":1.53139357e16,\"bytes_s\":5.31914894e12}"

static struct power_demand parse(const char *text)
{
	struct power_demand d;
	char why[POWER_WHY_MAX] = "";
	if (power_parse(&d, text, strlen(text), why, sizeof(why)) != 0)
		fail_msg("%s", why);
	return d;
}

static void the_papers_servers_give_the_papers_table(void **state)
{
	(void)state;
	struct power_demand d = parse(PAPER "}");
	struct power p = power_of(&d);
	assert_true(near(p.hdd_storage, 1) && near(p.hdd_reads, 9.92) && near(p.hdd, 9.92));
	assert_true(near(p.flash_storage, 6.53) && near(p.flash_reads, 1.88));
	assert_true(near(p.flash, 6.53) && near(p.composite, 2.69) && near(p.flash_tier, 1.69));
	assert_true(near(p.neutral_share, 1.69 / 9.92));
}

static void neutral_saves_nothing_and_all_that_flash_can_serve_saves_most(void **state)
{
	(void)state;
	struct power_demand d = parse(PAPER "}");
	struct power p = power_of(&d);
	assert_true(fabs(power_saved(&p, p.neutral_share)) < 1e-9);
	assert_true(power_saved(&p, 0) < 0);
	assert_true(near(power_saved(&p, 1 - 1 / 9.92), 1 - 2.69 / 9.92));
	/* beyond that the disks are needed for what they store */
	assert_true(power_saved(&p, 1) == power_saved(&p, 0.95));
	assert_true(near(power_saved(&p, 0.46), 0.29)); /* what the paper saves in production */
}

static void a_tier_that_costs_more_than_it_can_save_is_never_neutral(void **state)
{
	(void)state;
	struct power_demand d = parse(PAPER ",\"flash_watts\":9}");
	struct power p = power_of(&d);
	assert_true(isinf(p.neutral_share) && power_saved(&p, 1) < 0);
	/* disks that store much and are read little */
	d = parse("{\"storage_bytes\":1e18,\"read_bytes_s\":1e9,"
		  "\"hdd\":{\"watts\":1,\"bytes\":1e14,\"bytes_s\":1e9},"
		  "\"flash\":{\"watts\":1,\"bytes\":1e13,\"bytes_s\":1e10}}");
	p = power_of(&d);
	assert_true(p.flash_tier == 0 && power_saved(&p, 0.5) == 0);
}

static void files_that_make_no_sense_are_refused(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"", "line"},
		{"[1]", "must be an object"},
		{"{}", "storage_bytes: must be a number above 0"},
		{PAPER ",\"more\":1}", "more: no such field"},
		{PAPER ",\"flash_watts\":-1}", "flash_watts: must be"},
		{"{\"storage_bytes\":1,\"read_bytes_s\":1,\"hdd\":3}", "hdd: must be an object"},
		{"{\"storage_bytes\":1,\"read_bytes_s\":1,\"hdd\":{\"watts\":0}}", "hdd.watts"},
		{"{\"storage_bytes\":1,\"read_bytes_s\":1,\"hdd\":{\"volts\":0}}",
		 "hdd.volts: no such field"},
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct power_demand d;
		char why[POWER_WHY_MAX] = "";
		assert_int_equal(
			power_parse(&d, cases[i].text, strlen(cases[i].text), why, sizeof(why)),
			-EINVAL);
		if (strstr(why, cases[i].why) == NULL)
			fail_msg("%s: %s", cases[i].text, why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_papers_servers_give_the_papers_table),
		cmocka_unit_test(neutral_saves_nothing_and_all_that_flash_can_serve_saves_most),
		cmocka_unit_test(a_tier_that_costs_more_than_it_can_save_is_never_neutral),
		cmocka_unit_test(files_that_make_no_sense_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
