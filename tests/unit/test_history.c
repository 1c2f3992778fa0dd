// SPDX-License-Identifier: Apache-2.0
/* The checker of linearizability must accept correct histories and find the error in others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "history.h"

#define CONFIGS_MAX 100000

static size_t begin_write(struct history *h, unsigned key, uint32_t value)
{
	struct history_op op = {.kind = HISTORY_TXN,
				.write_count = 1,
				.writes = {{.key = key, .value = value}},
				.result = HISTORY_APPLIED};
	return history_begin(h, &op);
}

/* Writes the value if the key has another one. */
static size_t begin_swap(struct history *h, unsigned key, uint32_t from, uint32_t to)
{
	size_t i = begin_write(h, key, to);
	h->ops[i].check_count = 1;
	h->ops[i].checks[0] = (struct history_item){HISTORY_IS, key, from};
	return i;
}

static size_t begin_read(struct history *h, unsigned key, uint32_t seen)
{
	struct history_op op = {.kind = HISTORY_READ, .mask = 1U << key};
	op.seen[key] = seen;
	return history_begin(h, &op);
}

static void end_unknown(struct history *h, size_t i)
{
	h->ops[i].result = HISTORY_UNKNOWN;
}

static void expect(struct history *h, enum history_verdict want)
{
	assert_int_equal(history_check(h, CONFIGS_MAX, NULL), want);
	history_fini(h);
}

static void a_read_sees_the_last_write(void **state)
{
	(void)state;
	struct history h;
	history_init(&h);
	history_end(&h, begin_read(&h, 0, 0));
	history_end(&h, begin_write(&h, 0, 1));
	history_end(&h, begin_write(&h, 0, 2));
	history_end(&h, begin_read(&h, 0, 2));
	expect(&h, HISTORY_LINEARIZABLE);
}

static void a_stale_read_is_found(void **state)
{
	(void)state;
	struct history h;
	history_init(&h);
	history_end(&h, begin_write(&h, 0, 1));
	history_end(&h, begin_write(&h, 0, 2));
	history_end(&h, begin_read(&h, 0, 1));
	expect(&h, HISTORY_VIOLATED);
}

static void overlapping_operations_may_go_either_way(void **state)
{
	(void)state;
	for (uint32_t seen = 1; seen <= 2; seen++) {
		struct history h;
		history_init(&h);
		size_t a = begin_write(&h, 0, 1);
		size_t b = begin_write(&h, 0, 2);
		history_end(&h, a);
		history_end(&h, b);
		history_end(&h, begin_read(&h, 0, seen));
		expect(&h, HISTORY_LINEARIZABLE);
	}
}

static void two_readers_must_agree_on_the_order(void **state)
{
	(void)state;
	struct history h;
	history_init(&h);
	size_t a = begin_write(&h, 0, 1);
	size_t b = begin_write(&h, 0, 2);
	history_end(&h, begin_read(&h, 0, 1));
	history_end(&h, begin_read(&h, 0, 2));
	history_end(&h, begin_read(&h, 0, 1));
	history_end(&h, a);
	history_end(&h, b);
	expect(&h, HISTORY_VIOLATED);
}

static void a_read_across_keys_is_one_instant(void **state)
{
	(void)state;
	struct history h;
	history_init(&h);
	struct history_op both = {.kind = HISTORY_TXN,
				  .write_count = 2,
				  .writes = {{.key = 0, .value = 1}, {.key = 1, .value = 1}},
				  .result = HISTORY_APPLIED};
	size_t w = history_begin(&h, &both);
	struct history_op torn = {.kind = HISTORY_READ, .mask = 3, .seen = {1, 0}};
	history_end(&h, history_begin(&h, &torn));
	history_end(&h, w);
	expect(&h, HISTORY_VIOLATED);
}

static void a_lost_update_is_found(void **state)
{
	(void)state;
	struct history h;
	history_init(&h);
	history_end(&h, begin_write(&h, 0, 1));
	size_t a = begin_swap(&h, 0, 1, 2);
	size_t b = begin_swap(&h, 0, 1, 3);
	history_end(&h, a);
	history_end(&h, b);
	expect(&h, HISTORY_VIOLATED);
}

static void a_refusal_needs_a_reason(void **state)
{
	(void)state;
	for (uint32_t from = 1; from <= 2; from++) {
		struct history h;
		history_init(&h);
		history_end(&h, begin_write(&h, 0, 1));
		size_t a = begin_swap(&h, 0, from, 5);
		h.ops[a].result = HISTORY_REFUSED;
		history_end(&h, a);
		history_end(&h, begin_read(&h, 0, 1));
		expect(&h, from == 1 ? HISTORY_VIOLATED : HISTORY_LINEARIZABLE);
	}
}

static void a_refusal_must_name_a_check_that_fails(void **state)
{
	(void)state;
	for (size_t failed = 0; failed < 4; failed++) {
		struct history h;
		history_init(&h);
		struct history_op op = {
			.kind = HISTORY_TXN,
			.check_count = 3,
			.checks = {{HISTORY_EXISTS, 0, 0}, {HISTORY_IS, 1, 0}, {HISTORY_IS, 1, 7}},
			.result = HISTORY_REFUSED,
			.failed = failed};
		history_end(&h, history_begin(&h, &op));
		expect(&h, failed == 0 || failed == 2 ? HISTORY_LINEARIZABLE : HISTORY_VIOLATED);
	}
}

static void an_unknown_write_may_show_late_or_never(void **state)
{
	(void)state;
	struct history h;
	history_init(&h);
	end_unknown(&h, begin_write(&h, 0, 1));
	history_end(&h, begin_read(&h, 0, 0));
	history_end(&h, begin_write(&h, 1, 9));
	history_end(&h, begin_read(&h, 0, 1));
	expect(&h, HISTORY_LINEARIZABLE);
	history_init(&h);
	end_unknown(&h, begin_write(&h, 0, 1));
	history_end(&h, begin_read(&h, 0, 0));
	expect(&h, HISTORY_LINEARIZABLE);
}

static void an_unknown_write_applied_twice_is_found(void **state)
{
	(void)state;
	struct history h;
	history_init(&h);
	end_unknown(&h, begin_write(&h, 0, 1));
	history_end(&h, begin_read(&h, 0, 1));
	history_end(&h, begin_write(&h, 0, 2));
	history_end(&h, begin_read(&h, 0, 1));
	expect(&h, HISTORY_VIOLATED);
}

static void a_write_from_nowhere_is_found(void **state)
{
	(void)state;
	struct history h;
	history_init(&h);
	history_end(&h, begin_read(&h, 2, 4));
	expect(&h, HISTORY_VIOLATED);
}

/* Makes a history of a correct map with overlapping clients, then optionally changes one result. */
static void random_history(struct history *h, uint64_t seed, bool spoil)
{
	struct rng r;
	rng_init(&r, seed);
	history_init(h);
	uint32_t map[HISTORY_KEYS] = {0};
	size_t open[8];
	size_t open_count = 0;
	uint32_t next = 1;
	for (unsigned i = 0; i < 400; i++) {
		if (open_count == 8 || (open_count > 0 && rng_below(&r, 2) == 0)) {
			size_t j = (size_t)rng_below(&r, open_count);
			history_end(h, open[j]);
			open[j] = open[--open_count];
		}
		unsigned key = (unsigned)rng_below(&r, HISTORY_KEYS);
		size_t op;
		if (rng_below(&r, 2) == 0) {
			op = begin_read(h, key, map[key]);
		} else {
			op = begin_swap(h, key, map[key], next);
			map[key] = next++;
		}
		open[open_count++] = op;
	}
	while (open_count > 0)
		history_end(h, open[--open_count]);
	for (size_t i = 200; spoil && i < h->count; i++) {
		if (h->ops[i].kind == HISTORY_READ) {
			h->ops[i].seen[__builtin_ctz(h->ops[i].mask)] += 1000;
			break;
		}
	}
}

/* A transaction that moves the value of the first key to the second. */
static size_t begin_move(struct history *h)
{
	struct history_op op = {
		.kind = HISTORY_TXN,
		.check_count = 2,
		.checks = {{.check = HISTORY_EXISTS, .key = 0}, {.check = HISTORY_IS, .key = 1}},
		.write_count = 2,
		.writes = {{.key = 0}, {.key = 1}},
		.moves = true,
		.from = 0,
		.result = HISTORY_APPLIED};
	return history_begin(h, &op);
}

static void what_is_moved_is_what_was_there(void **state)
{
	(void)state;
	for (uint32_t seen = 0; seen <= 3; seen++) {
		struct history h;
		history_init(&h);
		history_end(&h, begin_write(&h, 0, 1));
		size_t other = begin_swap(&h, 0, 1, 2);
		size_t move = begin_move(&h);
		history_end(&h, other);
		history_end(&h, move);
		history_end(&h, begin_read(&h, 1, seen));
		history_end(&h, begin_read(&h, 0, 0));
		expect(&h, seen == 2 ? HISTORY_LINEARIZABLE : HISTORY_VIOLATED);
	}
}

static void what_is_moved_is_there_once(void **state)
{
	(void)state;
	for (unsigned stays = 0; stays <= 1; stays++) {
		struct history h;
		history_init(&h);
		history_end(&h, begin_write(&h, 0, 1));
		end_unknown(&h, begin_move(&h));
		history_end(&h, begin_read(&h, 1, 1));
		history_end(&h, begin_read(&h, 0, stays));
		expect(&h, stays == 0 ? HISTORY_LINEARIZABLE : HISTORY_VIOLATED);
	}
}

static void long_histories_are_decided(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct history h;
		random_history(&h, seed, false);
		expect(&h, HISTORY_LINEARIZABLE);
		random_history(&h, seed, true);
		expect(&h, HISTORY_VIOLATED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_read_sees_the_last_write),
		cmocka_unit_test(a_stale_read_is_found),
		cmocka_unit_test(overlapping_operations_may_go_either_way),
		cmocka_unit_test(two_readers_must_agree_on_the_order),
		cmocka_unit_test(a_read_across_keys_is_one_instant),
		cmocka_unit_test(a_lost_update_is_found),
		cmocka_unit_test(a_refusal_needs_a_reason),
		cmocka_unit_test(a_refusal_must_name_a_check_that_fails),
		cmocka_unit_test(an_unknown_write_may_show_late_or_never),
		cmocka_unit_test(an_unknown_write_applied_twice_is_found),
		cmocka_unit_test(a_write_from_nowhere_is_found),
		cmocka_unit_test(what_is_moved_is_what_was_there),
		cmocka_unit_test(what_is_moved_is_there_once),
		cmocka_unit_test(long_histories_are_decided),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
