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
#include "base/map.h"
#include "base/rng.h"

#define KEYS 300
#define STEPS 100000
#define SEED 21

/* The model: value[k] is what key_of(k) maps to, NULL when it is absent. */
static char cells[KEYS];

/* Half of the keys are small integers, half spread out; 0 and the largest are among them. */
static uint64_t key_of(uint64_t i)
{
	return i % 2 == 0 ? i / 2 : UINT64_MAX - mix_u64(i - 1);
}

static void assert_same(const struct map *m, void *const model[KEYS], size_t count)
{
	assert_int_equal(map_count(m), count);
	size_t walked = 0;
	map_for_each(m, it) {
		for (size_t i = 0; i < KEYS; i++) {
			if (key_of(i) != it.key)
				continue;
			assert_ptr_equal(it.value, model[i]);
			walked++;
		}
	}
	assert_int_equal(walked, count);
}

static void random_operations_agree_with_a_plain_array(void **state)
{
	void *model[KEYS] = {0};
	size_t count = 0;
	struct rng rng;
	struct map m;
	rng_init(&rng, SEED);
	print_message("seed %d\n", SEED);
	map_init(&m, KEYS * 2 / 3);
	for (int step = 0; step < STEPS; step++) {
		uint64_t i = rng_below(&rng, KEYS);
		uint64_t op = rng_below(&rng, 5);
		assert_ptr_equal(map_get(&m, key_of(i)), model[i]);
		if (op < 3) {
			void *value = &cells[rng_below(&rng, KEYS)];
			int expected = model[i] != NULL        ? -EEXIST
				       : count == KEYS * 2 / 3 ? -ENOSPC
							       : 0;
			assert_int_equal(map_put(&m, key_of(i), value), expected);
			if (expected == 0) {
				model[i] = value;
				count++;
			}
		} else {
			assert_ptr_equal(map_remove(&m, key_of(i)), model[i]);
			count -= model[i] != NULL;
			model[i] = NULL;
		}
		if (step % 1000 == 0)
			assert_same(&m, model, count);
		if (step % 20011 == 20010) {
			map_clear(&m);
			memset(model, 0, sizeof(model));
			count = 0;
		}
	}
	assert_same(&m, model, count);
	map_fini(&m);
}

/* Every entry must be reachable from its home slot after any removal: fill to the brim, where probe
 * sequences run into each other and wrap, then take out in random order. */
static void removal_leaves_every_other_entry_findable(void **state)
{
	struct rng rng;
	rng_init(&rng, SEED + 1);
	print_message("seed %d\n", SEED + 1);
	for (int round = 0; round < 200; round++) {
		uint64_t keys[12];
		struct map m;
		map_init(&m, ARRAY_LEN(keys));
		for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
			keys[i] = rng_u64(&rng);
			assert_int_equal(map_put(&m, keys[i], &cells[i]), 0);
		}
		assert_int_equal(m.cap, 16);
		for (size_t left = ARRAY_LEN(keys); left > 0; left--) {
			size_t gone = (size_t)rng_below(&rng, left);
			assert_non_null(map_remove(&m, keys[gone]));
			keys[gone] = keys[left - 1];
			for (size_t i = 0; i < left - 1; i++)
				assert_non_null(map_get(&m, keys[i]));
		}
		map_fini(&m);
	}
}

static void the_order_of_iteration_repeats(void **state)
{
	uint64_t order[2][100];
	for (int run = 0; run < 2; run++) {
		struct map m;
		/* Other addresses in the second run must make no difference. */
		AUTO_FREE char *values = malloc(100 + 100000 * (size_t)run);
		assert_non_null(values);
		map_init(&m, 100);
		for (uint64_t i = 0; i < 100; i++)
			assert_int_equal(map_put(&m, i * i, &values[i]), 0);
		size_t at = 0;
		map_for_each(&m, it)
			order[run][at++] = it.key;
		assert_int_equal(at, 100);
		map_fini(&m);
	}
	assert_memory_equal(order[0], order[1], sizeof(order[0]));
}

static void an_empty_map_answers_without_a_table(void **state)
{
	struct map m;
	map_init(&m, 0);
	assert_null(map_get(&m, 0));
	assert_null(map_remove(&m, 0));
	map_clear(&m);
	map_for_each(&m, it)
		fail();
	assert_int_equal(map_put(&m, 0, cells), -ENOSPC);
	assert_null(m.slots);
	map_fini(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations_agree_with_a_plain_array),
		cmocka_unit_test(removal_leaves_every_other_entry_findable),
		cmocka_unit_test(the_order_of_iteration_repeats),
		cmocka_unit_test(an_empty_map_answers_without_a_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
