// SPDX-License-Identifier: Apache-2.0
/* The ring of cache nodes: agreement, shares by weight, and what moves when nodes join and leave. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/rng.h"
#include "shift/ring.h"

#define BLOCKS 100000u

static uint64_t owner(const struct ring *r, const struct ring_node *nodes, uint64_t block)
{
	int64_t at = ring_find(r, block);
	assert_true(at >= 0);
	return nodes[at].id;
}

static void places_never_change(void **state)
{
	static const struct ring_node nodes[] = {{11, 1}, {22, 4}, {33, 2}};
	static const uint64_t golden[] = {22, 22, 22, 22, 22, 33, 22, 11, 22, 22, 22, 22,
					  33, 22, 22, 22, 33, 11, 22, 22, 33, 33, 33, 22};
	struct ring r;
	(void)state;
	assert_int_equal(ring_init(&r, nodes, ARRAY_LEN(nodes)), 0);
	for (uint64_t block = 0; block < ARRAY_LEN(golden); block++)
		assert_int_equal(owner(&r, nodes, block), golden[block]);
	ring_fini(&r);
}

static void the_order_of_the_list_does_not_matter(void **state)
{
	struct ring_node a[20], b[20];
	struct ring ra, rb;
	(void)state;
	for (uint32_t i = 0; i < 20; i++)
		b[19 - i] = a[i] = (struct ring_node){.id = 1000 + 7 * i, .weight = 1 + i % 5};
	assert_int_equal(ring_init(&ra, a, 20), 0);
	assert_int_equal(ring_init(&rb, b, 20), 0);
	for (uint64_t block = 0; block < BLOCKS; block++)
		assert_int_equal(owner(&ra, a, block), owner(&rb, b, block));
	ring_fini(&ra);
	ring_fini(&rb);
}

static void shares_follow_weights(void **state)
{
	static const struct ring_node nodes[] = {{1, 4}, {2, 4}, {3, 8}, {4, 16}, {5, 0}, {6, 4}};
	double got[ARRAY_LEN(nodes)] = {0};
	struct ring r;
	(void)state;
	assert_int_equal(ring_init(&r, nodes, ARRAY_LEN(nodes)), 0);
	for (uint64_t block = 0; block < BLOCKS; block++)
		got[ring_find(&r, block)]++;
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
		double want = BLOCKS * nodes[i].weight / 36.0;
		double spread = 1 / sqrt(nodes[i].weight * (double)RING_POINTS + 1e-9);
		assert_true(fabs(got[i] - want) <= 4 * spread * want);
	}
	ring_fini(&r);
}

static void only_blocks_of_the_node_that_joins_or_leaves_move(void **state)
{
	(void)state;
	for (uint32_t n = 1; n < 12; n++) {
		struct ring_node nodes[12];
		struct ring before, after;
		uint32_t moved = 0;
		for (uint32_t i = 0; i <= n; i++)
			nodes[i] = (struct ring_node){.id = mix_u64(i + 1), .weight = 4};
		assert_int_equal(ring_init(&before, nodes, n), 0);
		assert_int_equal(ring_init(&after, nodes, n + 1), 0);
		for (uint64_t block = 0; block < BLOCKS / 10; block++) {
			int64_t was = ring_find(&before, block), is = ring_find(&after, block);
			assert_true(is == was || is == n);
			moved += is != was;
		}
		double share = (double)moved / (BLOCKS / 10.0) * (n + 1);
		assert_true(share > 0.85 && share < 1.15);
		ring_fini(&before);
		ring_fini(&after);
	}
}

static void more_weight_takes_blocks_and_gives_none(void **state)
{
	struct ring_node light[] = {{1, 4}, {2, 4}, {3, 4}}, heavy[] = {{1, 4}, {2, 8}, {3, 4}};
	struct ring before, after;
	(void)state;
	assert_int_equal(ring_init(&before, light, 3), 0);
	assert_int_equal(ring_init(&after, heavy, 3), 0);
	for (uint64_t block = 0; block < BLOCKS; block++) {
		int64_t was = ring_find(&before, block), is = ring_find(&after, block);
		assert_true(is == was || is == 1);
	}
	ring_fini(&before);
	ring_fini(&after);
}

static void impossible_lists_are_refused(void **state)
{
	static struct ring_node many[RING_NODES_MAX + 1];
	struct ring_node twice[] = {{1, 1}, {2, 1}, {1, 3}}, heavy[] = {{1, RING_WEIGHT_MAX + 1}},
			 idle[] = {{1, 0}};
	struct ring r;
	(void)state;
	for (uint32_t i = 0; i <= RING_NODES_MAX; i++)
		many[i] = (struct ring_node){.id = i, .weight = 1};
	assert_int_equal(ring_init(&r, many, RING_NODES_MAX + 1), -EINVAL);
	assert_int_equal(ring_init(&r, many, RING_NODES_MAX), 0);
	ring_fini(&r);
	assert_int_equal(ring_init(&r, twice, 3), -EINVAL);
	assert_int_equal(ring_init(&r, heavy, 1), -EINVAL);
	assert_int_equal(ring_init(&r, idle, 1), 0);
	assert_int_equal(ring_find(&r, 5), -ENOENT);
	assert_int_equal(ring_init(&r, NULL, 0), 0);
	assert_int_equal(ring_find(&r, 5), -ENOENT);
	ring_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_never_change),
		cmocka_unit_test(the_order_of_the_list_does_not_matter),
		cmocka_unit_test(shares_follow_weights),
		cmocka_unit_test(only_blocks_of_the_node_that_joins_or_leaves_move),
		cmocka_unit_test(more_weight_takes_blocks_and_gives_none),
		cmocka_unit_test(impossible_lists_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
