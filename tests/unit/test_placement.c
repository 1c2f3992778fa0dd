// SPDX-License-Identifier: Apache-2.0
/* The logic of placement: costs against numbers computed by hand. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "placement/cost.h"

static void near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-9 * fabs(want)))
		fail_msg("got %.17g, want %.17g", got, want);
}

/* 1 GiB, written in 64 KiB pieces, read once in 64 KiB requests, one hour. */
static const struct job_io shuffle = {0, 3600, GIB, GIB, 16384, GIB, 16384};

static void a_disk_is_busy_for_the_requests_and_bytes_that_reach_it(void **state)
{
	struct cost_rates r = cost_default;
	r.dram_share = 0;
	near(cost_of(&r, &shuffle).disk_s, (16384 + 1024) * 0.008 + 2.0 * GIB / 200e6);
	/* DRAM serves a share of the reads of young data: here 0.8 * 120 / 3600 of them. */
	double missed = 1 - 0.8 * 120 / 3600;
	near(cost_of(&cost_default, &shuffle).disk_s,
	     (16384 * missed + 1024) * 0.008 + (GIB * missed + GIB) / 200e6);
}

static void writes_larger_than_a_group_are_not_split(void **state)
{
	struct job_io io = {0, 10, GIB, 0, 0, GIB, 256};
	near(cost_of(&cost_default, &io).disk_s, 256 * 0.008 + GIB / 200e6);
}

static void money_is_the_sum_of_the_four_parts(void **state)
{
	struct cost_rates r = {.position_s = 0.01,
			       .disk_bytes_per_s = 1e8,
			       .group_bytes = 1e6,
			       .disk_byte_usd = 2,
			       .flash_byte_usd = 5,
			       .network_byte_usd = 7,
			       .disk_server_usd = 11,
			       .disk_device_usd = 13,
			       .flash_server_usd = 17,
			       .flash_wear_usd = 19};
	struct job_io io = {100, 110, 3, 40, 4, 50, 5};
	struct cost c = cost_of(&r, &io);
	double disk_s = (4 + 1) * 0.01 + 90 / 1e8;
	near(c.disk_s, disk_s);
	near(c.disk_usd, 2 * 3 * 10 + 7 * 90 + (11 + 13) * disk_s);
	near(c.flash_usd, 5 * 3 * 10 + 7 * 90 + 17 * 90 + 19 * 50);
	near(cost_savings(&c), c.disk_usd - c.flash_usd);
	near(cost_worth(&r, &io, &c), (c.disk_usd - c.flash_usd) / 30 / 5);
	near(cost_density(&io), 30);
}

static void random_reads_belong_on_flash_and_archives_do_not(void **state)
{
	struct cost hot = cost_of(&cost_default, &shuffle);
	struct job_io archive = {0, 30 * 86400, 100 * GIB, 0, 0, 100 * GIB, 102400};
	struct cost cold = cost_of(&cost_default, &archive);
	assert_true(cost_savings(&hot) > 0);
	assert_true(cost_savings(&cold) < 0);
}

static void rates_are_set_by_name_within_their_range(void **state)
{
	struct cost_rates r = cost_default;
	double value;
	size_t n = 0;
	assert_int_equal(cost_set(&r, "flash-byte-usd", "*2"), 0);
	near(r.flash_byte_usd, 2 * cost_default.flash_byte_usd);
	assert_int_equal(cost_set(&r, "dram-share", "0.5"), 0);
	near(r.dram_share, 0.5);
	static const char *const bad[][2] = {
		{"dram-share", "1.5"}, {"position-s", "-1"}, {"position-s", "1x"},
		{"position-s", ""},    {"group-bytes", "0"}, {"flash-wear-usd", "nan"},
		{"dram-s", "inf"},     {"dram-s", "*"},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(cost_set(&r, bad[i][0], bad[i][1]), -EINVAL);
	assert_int_equal(cost_set(&r, "position", "1"), -ENOENT);
	while (cost_rate(&r, n, &value) != NULL)
		n++;
	assert_int_equal(n, sizeof(r) / sizeof(double));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_disk_is_busy_for_the_requests_and_bytes_that_reach_it),
		cmocka_unit_test(writes_larger_than_a_group_are_not_split),
		cmocka_unit_test(money_is_the_sum_of_the_four_parts),
		cmocka_unit_test(random_reads_belong_on_flash_and_archives_do_not),
		cmocka_unit_test(rates_are_set_by_name_within_their_range),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
