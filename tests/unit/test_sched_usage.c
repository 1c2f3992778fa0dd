// SPDX-License-Identifier: Apache-2.0
/* Sums of what traffic groups used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "sched/usage.h"

/* Adds the groups of a scheduler with n listed groups whose names begin with a number. */
static void add_groups(struct sched_usages *all, unsigned number, unsigned n)
{
	static char names[SCHED_LISTED_MAX][SCHED_NAME_MAX + 1];
	static struct sched_listed listed[SCHED_LISTED_MAX];
	struct sched *s;
	assert_true(n <= SCHED_LISTED_MAX);
	assert_int_equal(sched_open(&sched_metadata, &s), 0);
	for (unsigned i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "t%u/g%03u", number, i);
		listed[i] =
			(struct sched_listed){.group = names[i], .weight = 1, .best = SCHED_GOLD};
	}
	assert_int_equal(sched_list_groups(s, listed, n), 0);
	sched_usage_add(s, all);
	sched_close(s);
}

static bool has(const struct sched_usages *all, const char *group)
{
	for (size_t i = 0; i < all->count; i++)
		if (strcmp(all->list[i].group, group) == 0)
			return true;
	return false;
}

static void a_group_of_several_schedulers_has_one_entry(void **state)
{
	struct sched_usages *all = calloc(1, sizeof(*all));
	assert_non_null(all);
	add_groups(all, 1, 20);
	size_t count = all->count;
	add_groups(all, 1, 20);
	assert_int_equal(all->count, count);
	add_groups(all, 0, 3);
	assert_int_equal(all->count, count + 3);
	assert_true(has(all, "t0/g002") && has(all, "t1/g019") && !has(all, "t0/g003"));
	for (size_t i = 1; i < all->count; i++)
		assert_true(strcmp(all->list[i - 1].group, all->list[i].group) < 0);
	free(all);
}

static void groups_beyond_the_limit_share_an_entry(void **state)
{
	struct sched_usages *all = calloc(1, sizeof(*all));
	assert_non_null(all);
	for (unsigned i = 0; i < 6; i++)
		add_groups(all, i, 200);
	assert_in_range(all->count, SCHED_USAGE_MAX - 1, SCHED_USAGE_MAX);
	assert_true(has(all, SCHED_GROUP_OTHER));
	assert_true(has(all, "t0/g000") && !has(all, "t5/g199"));
	free(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_group_of_several_schedulers_has_one_entry),
		cmocka_unit_test(groups_beyond_the_limit_share_an_entry),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
