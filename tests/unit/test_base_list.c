// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/list.h"

struct item {
	int value;
	struct list link;
};

static void assert_values(const struct list *head, const char *expected)
{
	char got[64] = "";
	const struct item *it;
	list_for_each_entry(it, head, link) {
		size_t at = strlen(got);
		snprintf(got + at, sizeof(got) - at, "%d ", it->value);
	}
	assert_string_equal(got, expected);
}

static void entries_keep_the_order_they_were_pushed_in(void **state)
{
	struct list head = LIST_INIT(head);
	struct item items[3] = {{.value = 1}, {.value = 2}, {.value = 3}};
	assert_true(list_empty(&head));
	assert_null(list_first(&head));
	assert_null(list_last(&head));
	assert_null(list_pop_front(&head));
	list_push_back(&head, &items[1].link);
	list_push_back(&head, &items[2].link);
	list_push_front(&head, &items[0].link);
	assert_values(&head, "1 2 3 ");
	assert_ptr_equal(list_first(&head), &items[0].link);
	assert_ptr_equal(list_last(&head), &items[2].link);
	for (int i = 0; i < 3; i++)
		assert_ptr_equal(list_pop_front(&head), &items[i].link);
	assert_true(list_empty(&head));
}

static void a_removed_node_is_unlinked_and_may_be_removed_again(void **state)
{
	struct list head = LIST_INIT(head);
	struct item items[3] = {{.value = 1}, {.value = 2}, {.value = 3}};
	for (int i = 0; i < 3; i++)
		list_push_back(&head, &items[i].link);
	list_remove(&items[1].link);
	assert_true(list_empty(&items[1].link));
	list_remove(&items[1].link);
	assert_values(&head, "1 3 ");
}

static void the_safe_walk_may_remove_its_current_entry(void **state)
{
	struct list head = LIST_INIT(head);
	for (int i = 0; i < 10; i++) {
		struct item *it = calloc(1, sizeof(*it));
		assert_non_null(it);
		it->value = i;
		list_push_back(&head, &it->link);
	}
	struct item *it, *after;
	list_for_each_entry_safe(it, after, &head, link) {
		if (it->value % 3 == 0)
			continue;
		list_remove(&it->link);
		free(it);
	}
	assert_values(&head, "0 3 6 9 ");
	list_for_each_entry_safe(it, after, &head, link)
		free(it);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_keep_the_order_they_were_pushed_in),
		cmocka_unit_test(a_removed_node_is_unlinked_and_may_be_removed_again),
		cmocka_unit_test(the_safe_walk_may_remove_its_current_entry),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
