// SPDX-License-Identifier: Apache-2.0
/* The parts of base that several threads may use at once; for the thread sanitizer. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/context.h"
#include "base/log.h"
#include "base/rng.h"

#define THREADS 4
#define ROUNDS 3000
#define SLOTS 8

/* Threads exchange buffers through these slots: each swaps its own buffer for that in the slot. */
struct exchange {
	struct buf_pool pool;
	_Atomic(struct buf *) slots[SLOTS];
	atomic_uint wrong;
	atomic_uint freed;
};

struct worker {
	struct exchange *x;
	uint64_t seed;
	bool large; /* some buffers lie in huge pages */
};

static void count_freed(void *ctx)
{
	atomic_fetch_add((atomic_uint *)ctx, 1);
}

/* cmocka's asserts may be used on the main thread only, so faults are counted. */
static void check_and_drop(struct exchange *x, struct buf *b)
{
	if (b == NULL)
		return;
	for (size_t i = 1; i < b->len; i++)
		if (b->data[i] != b->data[0])
			atomic_fetch_add(&x->wrong, 1);
	buf_unref(b);
}

static void *exchange_buffers(void *arg)
{
	struct worker *w = arg;
	struct rng rng;
	rng_init(&rng, w->seed);
	for (int round = 0; round < ROUNDS; round++) {
		struct buf *b;
		size_t len = 1 + (size_t)rng_below(&rng, 20000);
		if (w->large && rng_below(&rng, 50) == 0)
			len += SLAB_SLOT_MIN;
		if (buf_get(&w->x->pool, len, &b) < 0)
			continue;
		memset(b->data, (int)rng_below(&rng, 256), b->len);
		struct buf *second = buf_ref(b);
		uint64_t slot = rng_below(&rng, SLOTS);
		check_and_drop(w->x, atomic_exchange(&w->x->slots[slot], b));
		check_and_drop(w->x, second);
	}
	return NULL;
}

static void run_threads(void *(*run)(void *), void *const args[THREADS])
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run, args[i]), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void exchange_in_pool(uint64_t limit_bytes, bool large)
{
	static struct exchange x;
	struct worker workers[THREADS];
	void *args[THREADS];
	memset(&x, 0, sizeof(x));
	buf_pool_init(&x.pool, limit_bytes);
	buf_pool_on_free(&x.pool, count_freed, &x.freed);
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.x = &x, .seed = (uint64_t)i, .large = large};
		args[i] = &workers[i];
	}
	run_threads(exchange_buffers, args);
	for (int i = 0; i < SLOTS; i++)
		check_and_drop(&x, x.slots[i]);
	assert_int_equal(x.wrong, 0);
	struct buf_stats s;
	buf_pool_stats(&x.pool, &s);
	assert_int_equal(s.in_use_bytes, 0);
	assert_int_equal(s.in_use_count, 0);
	assert_int_equal(s.gets, x.freed);
	assert_int_equal(s.gets + s.fails, THREADS * ROUNDS);
	assert_true(s.peak_bytes <= s.limit_bytes);
	assert_true(!large || x.pool.slabs.count > 0);
	buf_pool_fini(&x.pool);
}

static void buffers_pass_between_threads_without_loss_or_mix(void **state)
{
	exchange_in_pool(256 * KIB, false);
	exchange_in_pool(256 * MIB, true);
}

/* Each thread takes over a reference, and drops it after the others may have dropped theirs. */
static void *ref_and_unref(void *arg)
{
	const struct context *c = arg;
	for (int i = 0; i < ROUNDS; i++) {
		const struct context *mine = context_ref(c);
		if (mine->tags.job_id != 7 || mine->tenant[0] != 't')
			abort();
		context_unref(mine);
	}
	context_unref(c);
	return NULL;
}

static void the_last_thread_frees_a_context(void **state)
{
	const struct context *c;
	void *args[THREADS];
	struct context from = {.tenant = "t", .tags = {.job_id = 7}};
	assert_int_equal(context_new(&c, &from), 0);
	for (int i = 0; i < THREADS; i++)
		args[i] = (void *)(uintptr_t)context_ref(c);
	context_unref(c);
	run_threads(ref_and_unref, args);
}

struct log_counts {
	atomic_uint lines;
	atomic_uint suppressed;
	_Atomic(uint64_t) now_ns;
};

static void count_line(void *ctx, const char *line, size_t len)
{
	struct log_counts *c = ctx;
	const char *found = memmem(line, len, "suppressed=", 11);
	if (found != NULL) /* the line is complete: the newline ends the number */
		atomic_fetch_add(&c->suppressed, (unsigned int)strtoul(found + 11, NULL, 10));
	else
		atomic_fetch_add(&c->lines, 1);
}

static uint64_t step_clock(void *ctx)
{
	return NS_PER_S + atomic_fetch_add(&((struct log_counts *)ctx)->now_ns, NS_PER_MS);
}

static void *log_a_lot(void *arg)
{
	for (int i = 0; i < ROUNDS; i++)
		log_warn("busy", "i=%d", i);
	return NULL;
}

static void every_line_of_every_thread_is_written_or_counted(void **state)
{
	static struct log_counts counts;
	void *args[THREADS] = {0};
	log_setup(&(struct log_config){
		.level = LOG_INFO, .ctx = &counts, .write = count_line, .wall_ns = step_clock});
	run_threads(log_a_lot, args);
	log_setup(NULL);
	assert_true(counts.suppressed > 0);
	assert_int_equal(counts.lines + counts.suppressed, THREADS * ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buffers_pass_between_threads_without_loss_or_mix),
		cmocka_unit_test(the_last_thread_frees_a_context),
		cmocka_unit_test(every_line_of_every_thread_is_written_or_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
