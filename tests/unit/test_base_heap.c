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

#include "base/base.h"
#include "base/heap.h"
#include "base/rng.h"

#define ITEMS 500
#define SEED 11

struct item {
	struct heap_node node;
	int pushed; /* when it was pushed, counted over the whole run */
};

static int by_key_then_push(const void *a, const void *b)
{
	const struct item *x = *(struct item *const *)a;
	const struct item *y = *(struct item *const *)b;
	if (x->node.key != y->node.key)
		return x->node.key < y->node.key ? -1 : 1;
	return x->pushed < y->pushed ? -1 : x->pushed > y->pushed;
}

/* Few distinct keys, so that ties are common. */
static void pops_come_out_sorted_with_ties_in_push_order(void **state)
{
	struct rng rng;
	rng_init(&rng, SEED);
	print_message("seed %d\n", SEED);
	for (int round = 0; round < 50; round++) {
		static struct item items[ITEMS];
		struct item *sorted[ITEMS] = {0};
		struct heap h;
		heap_init(&h);
		memset(items, 0, sizeof(items));
		size_t n = (size_t)rng_below(&rng, ITEMS);
		for (size_t i = 0; i < n; i++) {
			items[i].pushed = (int)i;
			sorted[i] = &items[i];
			assert_int_equal(heap_push(&h, &items[i].node, rng_below(&rng, 40)), 0);
		}
		qsort(sorted, n, sizeof(sorted[0]), by_key_then_push);
		for (size_t i = 0; i < n; i++) {
			assert_ptr_equal(heap_peek(&h), &sorted[i]->node);
			assert_ptr_equal(heap_pop(&h), &sorted[i]->node);
			assert_false(heap_contains(&sorted[i]->node));
		}
		assert_null(heap_peek(&h));
		assert_null(heap_pop(&h));
		heap_fini(&h);
	}
}

/* Parents are not larger than their children, and the index of every node is right. */
static void assert_heap_order(const struct heap *h)
{
	for (size_t i = 1; i <= h->count; i++) {
		const struct heap_node *node = h->slots[i - 1];
		const struct heap_node *parent = h->slots[i / 2 > 0 ? i / 2 - 1 : 0];
		assert_int_equal(node->index, i);
		assert_true(parent->key < node->key ||
			    (parent->key == node->key && parent->seq <= node->seq));
	}
}

/* Compares the heap with an unsorted array. */
static void removal_from_the_middle_keeps_the_order(void **state)
{
	static struct item items[ITEMS];
	struct rng rng;
	struct heap h;
	rng_init(&rng, SEED + 1);
	print_message("seed %d\n", SEED + 1);
	heap_init(&h);
	memset(items, 0, sizeof(items));
	for (int step = 0; step < 5000; step++) {
		struct item *it = &items[rng_below(&rng, ITEMS)];
		if (heap_contains(&it->node)) {
			heap_remove(&h, &it->node);
			assert_false(heap_contains(&it->node));
		} else {
			it->pushed = step;
			assert_int_equal(heap_push(&h, &it->node, rng_below(&rng, 100)), 0);
		}
		struct item *least = NULL;
		size_t count = 0;
		for (size_t i = 0; i < ITEMS; i++) {
			struct item *candidate = &items[i];
			if (!heap_contains(&candidate->node))
				continue;
			count++;
			if (least == NULL || by_key_then_push(&candidate, &least) < 0)
				least = candidate;
		}
		assert_int_equal(h.count, count);
		assert_heap_order(&h);
		assert_ptr_equal(heap_peek(&h), least != NULL ? &least->node : NULL);
	}
	heap_fini(&h);
}

static void reserved_room_is_used_without_another_allocation(void **state)
{
	static struct item items[ITEMS];
	struct heap h;
	heap_init(&h);
	memset(items, 0, sizeof(items));
	assert_int_equal(heap_reserve(&h, ITEMS), 0);
	struct heap_node **slots = h.slots;
	for (size_t i = 0; i < ITEMS; i++)
		assert_int_equal(heap_push(&h, &items[i].node, i), 0);
	assert_ptr_equal(h.slots, slots);
	assert_int_equal(heap_reserve(&h, SIZE_MAX), -ENOMEM);
	assert_int_equal(h.count, ITEMS);
	heap_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pops_come_out_sorted_with_ties_in_push_order),
		cmocka_unit_test(removal_from_the_middle_keeps_the_order),
		cmocka_unit_test(reserved_room_is_used_without_another_allocation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
