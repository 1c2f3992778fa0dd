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

#include "base/buf.h"
#include "base/poison.h"
#include "base/rng.h"

#define SEED 61

static void assert_pool(struct buf_pool *p, uint64_t in_use, uint64_t cached)
{
	struct buf_stats s;
	buf_pool_stats(p, &s);
	assert_int_equal(s.in_use_bytes, in_use);
	assert_int_equal(s.cached_bytes, cached);
	assert_true(s.in_use_bytes + s.cached_bytes <= s.limit_bytes);
}

static void every_length_fits_its_class_with_bounded_waste(void **state)
{
	size_t classes = 0;
	size_t last = 0;
	for (size_t len = 0; len <= BUF_LEN_MAX; len += 4096 - 1) {
		size_t cap = buf_cap_for(len);
		assert_true(cap >= len && cap % BUF_ALIGN == 0 && cap <= BUF_LEN_MAX);
		assert_true(cap <= 32 * KIB ? cap - len <= 4096 : cap - len < len / 4 + 4096);
		assert_true(cap >= last);
		assert_int_equal(buf_cap_for(cap), cap);
		classes += cap != last;
		last = cap;
	}
	assert_int_equal(classes, BUF_CLASSES);
	assert_int_equal(buf_cap_for(70000), 80 * KIB);
	assert_int_equal(buf_cap_for(BUF_LEN_MAX), BUF_LEN_MAX);
	assert_int_equal(buf_cap_for(BUF_LEN_MAX + 1), 0);
}

static void a_buffer_is_aligned_and_writable_to_its_capacity(void **state)
{
	struct buf_pool p;
	buf_pool_init(&p, 256 * MIB);
	const size_t lens[] = {0, 1, 4095, 4096, 4097, 100000, 1 << 20, (1 << 20) + 1, BUF_LEN_MAX};
	for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
		AUTO_BUF struct buf *b;
		assert_int_equal(buf_get(&p, lens[i], &b), 0);
		assert_int_equal(b->len, lens[i]);
		assert_int_equal((uintptr_t)b->data % BUF_ALIGN, 0);
		memset(b->data, 0x5a, b->cap);
	}
	struct buf_stats s;
	buf_pool_stats(&p, &s);
	assert_int_equal(s.in_use_count, 0);
	assert_int_equal(s.gets, ARRAY_LEN(lens));
	assert_int_equal(s.peak_bytes, BUF_LEN_MAX);
	buf_pool_fini(&p);
}

static void the_limit_refuses_and_recovers(void **state)
{
	struct buf_pool p;
	struct buf *held[16], *b;
	buf_pool_init(&p, 64 * KIB);
	for (size_t i = 0; i < 16; i++)
		assert_int_equal(buf_get(&p, 4096, &held[i]), 0);
	assert_int_equal(buf_get(&p, 1, &b), -ENOBUFS);
	assert_null(b);
	assert_pool(&p, 64 * KIB, 0);
	buf_unref(held[15]);
	assert_int_equal(buf_get(&p, 4097, &b), -ENOBUFS);
	assert_int_equal(buf_get(&p, 1, &held[15]), 0);
	for (size_t i = 0; i < 16; i++)
		buf_unref(held[i]);
	struct buf_stats s;
	buf_pool_stats(&p, &s);
	assert_int_equal(s.fails, 2);
	assert_int_equal(s.peak_bytes, 64 * KIB);
	buf_pool_fini(&p);
}

static void
a_request_that_can_never_fit_has_another_error_than_one_that_does_not_fit_now(void **state)
{
	struct buf_pool p;
	struct buf *b;
	buf_pool_init(&p, 64 * KIB);
	assert_int_equal(buf_get(&p, 64 * KIB + 1, &b), -EMSGSIZE);
	assert_int_equal(buf_get(&p, BUF_LEN_MAX + 1, &b), -EMSGSIZE);
	assert_int_equal(buf_get(&p, SIZE_MAX, &b), -EMSGSIZE);
	assert_int_equal(buf_get(&p, 64 * KIB, &b), 0);
	buf_unref(b);
	buf_pool_fini(&p);
}

static void returned_memory_is_kept_up_to_half_and_reused(void **state)
{
	struct buf_pool p;
	struct buf *held[16], *b;
	buf_pool_init(&p, 64 * KIB);
	for (size_t i = 0; i < 16; i++)
		assert_int_equal(buf_get(&p, 4096, &held[i]), 0);
	for (size_t i = 0; i < 16; i++)
		buf_unref(held[i]);
	assert_pool(&p, 0, 32 * KIB);
	assert_int_equal(buf_get(&p, 4096, &b), 0);
	assert_ptr_equal(b, held[7]); /* the pool returns the buffer that was released last */
	assert_pool(&p, 4 * KIB, 28 * KIB);
	buf_unref(b);
	/* Kept buffers are evicted when the limit requires it: they never cause a refusal. */
	assert_int_equal(buf_get(&p, 64 * KIB, &b), 0);
	assert_pool(&p, 64 * KIB, 0);
	buf_unref(b);
	assert_int_equal(buf_get(&p, 4096, &b), 0);
	buf_unref(b);
	assert_pool(&p, 0, 4096);
	buf_pool_trim(&p);
	assert_pool(&p, 0, 0);
	buf_pool_fini(&p);
}

static void the_last_reference_returns_the_memory(void **state)
{
	struct buf_pool p;
	struct buf *b;
	buf_pool_init(&p, MIB);
	assert_int_equal(buf_get(&p, 10, &b), 0);
	assert_ptr_equal(buf_ref(b), b);
	buf_ref(b);
	buf_unref(b);
	buf_unref(b);
	assert_pool(&p, 4096, 0);
	buf_unref(b);
	assert_pool(&p, 0, 4096);
	buf_unref(NULL);
	buf_pool_fini(&p);
}

struct waiter {
	struct buf_pool *pool;
	struct buf *got;
	int calls;
};

/* Takes memory in the callback, which works only if the lock is not held there. */
static void waiter_retry(void *ctx)
{
	struct waiter *w = ctx;
	w->calls++;
	if (w->got == NULL)
		assert_int_equal(buf_get(w->pool, 64 * KIB, &w->got), 0);
}

static void the_callback_runs_without_the_lock_after_the_memory_is_returned(void **state)
{
	struct buf_pool p;
	struct buf *b, *c;
	struct waiter w = {.pool = &p};
	buf_pool_init(&p, 64 * KIB);
	buf_pool_on_free(&p, waiter_retry, &w);
	assert_int_equal(buf_get(&p, 64 * KIB, &b), 0);
	assert_int_equal(buf_get(&p, 64 * KIB, &c), -ENOBUFS);
	buf_ref(b);
	buf_unref(b);
	assert_int_equal(w.calls, 0);
	buf_unref(b);
	assert_int_equal(w.calls, 1);
	assert_non_null(w.got);
	buf_unref(w.got);
	assert_int_equal(w.calls, 2);
	buf_pool_fini(&p);
}

static void buffers_lie_in_huge_pages_that_keep_an_eighth_of_the_limit_idle(void **state)
{
	struct buf_pool p;
	struct buf *held[64];
	buf_pool_init(&p, 64 * MIB);
	for (size_t i = 0; i < ARRAY_LEN(held); i++) {
		assert_int_equal(buf_get(&p, 128 * KIB + i, &held[i]), 0);
		memset(held[i]->data, (int)i, held[i]->cap);
		assert_non_null(held[i]->slab);
		assert_true(p.slabs.idle_bytes <= 8 * MIB);
	}
	/* One buffer of 128 KiB, the others of 160 KiB: twelve in a slab. */
	assert_int_equal(p.slabs.count, 7);
	for (size_t i = 0; i < ARRAY_LEN(held); i++) {
		assert_int_equal(held[i]->data[0], i);
		assert_int_equal(held[i]->data[held[i]->cap - 1], i);
		buf_unref(held[i]);
	}
	buf_pool_trim(&p);
	assert_int_equal(p.slabs.count, 0);
	assert_int_equal(p.slabs.idle_bytes, 0);
	buf_pool_fini(&p);

	/* In a small pool a slab would be too large a part of the memory. */
	buf_pool_init(&p, 8 * MIB);
	assert_int_equal(buf_get(&p, 128 * KIB, &held[0]), 0);
	assert_null(held[0]->slab);
	buf_unref(held[0]);
	buf_pool_fini(&p);
}

static void a_slot_that_is_given_back_holds_no_memory(void **state)
{
	struct slabs s;
	struct slab *slab[2];
	const size_t len = 512 * KIB;
	slabs_init(&s, 8 * MIB);
	uint8_t *first = slab_take(&s, 0, len, &slab[0]);
	uint8_t *second = slab_take(&s, 0, len, &slab[1]);
	assert_ptr_equal(slab[0], slab[1]);
	memory_unpoison(first, len);
	memory_unpoison(second, len);
	memset(first, 1, len);
	memset(second, 2, len);
	slab_give(&s, slab[1], second);
	assert_int_equal(s.count, 1);
	/* Pages that the system got back are zeros when they are used again. */
	assert_ptr_equal(slab_take(&s, 0, len, &slab[1]), second);
	memory_unpoison(second, len);
	for (size_t i = 0; i < len; i++)
		assert_true(first[i] == 1 && second[i] == 0);
	slab_give(&s, slab[0], first);
	slab_give(&s, slab[1], second);
	assert_int_equal(s.count, 0);
	slabs_fini(&s);
}

/* Random sizes: buffers never overlap, the counts are right, the limit holds. */
static void random_requests(uint64_t limit_bytes)
{
	struct buf_pool p;
	struct buf *held[64] = {0};
	uint64_t in_use = 0;
	struct rng rng;
	rng_init(&rng, SEED);
	print_message("seed %d\n", SEED);
	buf_pool_init(&p, limit_bytes);
	for (int step = 0; step < 20000; step++) {
		size_t i = (size_t)rng_below(&rng, ARRAY_LEN(held));
		if (held[i] != NULL) {
			assert_int_equal(held[i]->data[0], i);
			assert_int_equal(held[i]->data[held[i]->cap - 1], i);
			in_use -= held[i]->cap;
			buf_unref(held[i]);
			held[i] = NULL;
		} else {
			size_t len =
				(size_t)rng_below(&rng, (uint64_t)1 << (10 + rng_below(&rng, 11)));
			bool fits = in_use + buf_cap_for(len) <= limit_bytes;
			assert_int_equal(buf_get(&p, len, &held[i]), fits ? 0 : -ENOBUFS);
			if (!fits)
				continue;
			in_use += held[i]->cap;
			held[i]->data[0] = (uint8_t)i;
			held[i]->data[held[i]->cap - 1] = (uint8_t)i;
		}
		struct buf_stats s;
		buf_pool_stats(&p, &s);
		assert_int_equal(s.in_use_bytes, in_use);
		assert_true(s.in_use_bytes + s.cached_bytes <= limit_bytes);
		assert_true(s.cached_bytes <= limit_bytes / 2);
	}
	for (size_t i = 0; i < ARRAY_LEN(held); i++)
		buf_unref(held[i]);
	buf_pool_fini(&p);
}

static void counts_stay_right_under_random_requests(void **state)
{
	random_requests(4 * MIB);
	random_requests(40 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length_fits_its_class_with_bounded_waste),
		cmocka_unit_test(a_buffer_is_aligned_and_writable_to_its_capacity),
		cmocka_unit_test(the_limit_refuses_and_recovers),
		cmocka_unit_test(
			a_request_that_can_never_fit_has_another_error_than_one_that_does_not_fit_now),
		cmocka_unit_test(returned_memory_is_kept_up_to_half_and_reused),
		cmocka_unit_test(the_last_reference_returns_the_memory),
		cmocka_unit_test(the_callback_runs_without_the_lock_after_the_memory_is_returned),
		cmocka_unit_test(buffers_lie_in_huge_pages_that_keep_an_eighth_of_the_limit_idle),
		cmocka_unit_test(a_slot_that_is_given_back_holds_no_memory),
		cmocka_unit_test(counts_stay_right_under_random_requests),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
