// SPDX-License-Identifier: Apache-2.0
/* A metadata store on the engine in memory, in a simulated process. */
#ifndef TESTS_META_FIXTURE_H
#define TESTS_META_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/base.h"
#include "base/rng.h"
#include "check.h"
#include "kv/mem.h"
#include "meta/gc.h"
#include "meta/meta.h"
#include "meta_api/id.h"
#include "rt/rt.h"
#include "sim_test.h"

struct meta_fixture {
	uint64_t seed;
	struct meta_options options;
	struct kv_mem_options mem_options;
	void (*body)(struct meta_fixture *fx);
	/* the fixture makes these for the body */
	struct kv_mem *mem;
	struct kv *kv;
	struct meta *m;
	struct meta_ctx ctx; /* context of FIXTURE_TENANT, whose root directory exists */
	bool done;
};

#define FIXTURE_TENANT 7

static inline void fixture_open(struct meta_fixture *fx)
{
	CHECK_EQ(kv_mem_open(&fx->kv, fx->mem), 0);
	CHECK_EQ(meta_open(&fx->m, fx->kv, &fx->options), 0);
	fx->ctx.tenant = FIXTURE_TENANT;
}

static inline void fixture_close(struct meta_fixture *fx)
{
	meta_close(fx->m);
	kv_close(fx->kv);
}

static inline void fixture_main(void *arg)
{
	struct meta_fixture *fx = arg;
	fixture_open(fx);
	CHECK_EQ(meta_tenant_create(fx->m,
				    &(struct meta_tenant){.id = FIXTURE_TENANT, .name = "seven"}),
		 0);
	fx->body(fx);
	fixture_close(fx);
	fx->done = true;
}

static inline struct meta_fixture fixture_of(void (*body)(struct meta_fixture *))
{
	struct meta_fixture fx = {.seed = 1, .body = body};
	meta_options_init(&fx.options);
	fx.options.partition_bits = 4; /* few partitions, so that objects share them */
	return fx;
}

static inline void fixture_run(struct meta_fixture *fx)
{
	fx->mem_options.seed = fx->seed;
	fx->mem = kv_mem_new(&fx->mem_options);
	sim_test_once(&(struct sim_test){.seed = fx->seed}, fixture_main, fx);
	assert_true(fx->done);
	kv_mem_free(fx->mem);
}

static inline void fixture_simple(void (*body)(struct meta_fixture *))
{
	struct meta_fixture fx = fixture_of(body);
	fixture_run(&fx);
}

/* Defines a test in this fixture; its body follows. */
#define META_TEST(name)                                   \
	static void name##_body(struct meta_fixture *fx); \
	static void name(void **state)                    \
	{                                                 \
		(void)state;                              \
		fixture_simple(name##_body);              \
	}                                                 \
	static void name##_body(struct meta_fixture *fx)

/* --- collection ------------------------------------------------------------------------------- */

/* Runs every collector over every partition once, and deletes the dead chunks, in one epoch. */
static inline void collect_once(struct meta_fixture *fx, struct meta_gc_counts *counts)
{
	uint64_t epoch;
	CHECK_EQ(meta_gc_epoch(fx->m, &epoch), 0);
	for (unsigned kind = 0; kind < META_GC_KINDS; kind++) {
		for (uint64_t i = 0; i < meta_gc_partitions(fx->m); i++) {
			struct meta_gc_cursor at = {0};
			while (!at.end)
				CHECK_EQ(meta_gc_step(fx->m, (enum meta_gc_kind)kind, i, epoch, &at,
						      counts),
					 0);
		}
	}
	for (uint64_t i = 0; i < meta_gc_partitions(fx->m); i++) {
		struct meta_gc_cursor at = {0};
		while (!at.end) {
			struct arena arena;
			arena_init(&arena, MIB);
			struct meta_dead_chunks dead[4];
			int64_t n = meta_gc_chunks(fx->m, i, epoch, &at, &arena, dead, 4);
			CHECK(n >= 0);
			for (int64_t k = 0; k < n; k++)
				CHECK_EQ(meta_gc_chunks_done(fx->m, dead[k].tenant, dead[k].block,
							     dead[k].chunk_block),
					 0);
			arena_fini(&arena);
		}
	}
	CHECK_EQ(meta_gc_advance(fx->m, epoch), 0);
}

/* Runs enough rounds to collect everything: names, files, blocks and chunks take three epochs each. */
static inline void collect_all(struct meta_fixture *fx)
{
	for (int i = 0; i < 20; i++) {
		struct meta_gc_counts counts = {0};
		collect_once(fx, &counts);
	}
}

/* Checks that all layers agree; returns the report, which counts the garbage. */
static inline struct meta_check_report must_be_whole(struct meta_fixture *fx)
{
	struct meta_check_report report;
	CHECK_EQ(meta_check(fx->m, NULL, &report), 0);
	if (report.errors > 0)
		fprintf(stderr, "seed %llu: %s\n", (unsigned long long)fx->seed, report.first);
	CHECK_EQ(report.errors, 0);
	return report;
}

/* --- short forms ------------------------------------------------------------------------------ */

/* Fills in a block of ten bytes with one replica; the array of chunks belongs to the caller. */
static inline struct meta_block small_block(uint64_t id, struct meta_chunk *chunk)
{
	*chunk = (struct meta_chunk){.disk = 3};
	return (struct meta_block){.id = id,
				   .state = META_BLOCK_SEALED,
				   .epoch = 5,
				   .length = 10,
				   .capacity = 10,
				   .encoding = "r1",
				   .chunk_count = 1,
				   .chunks = chunk};
}

static inline uint64_t must_mkdir(struct meta_fixture *fx, uint64_t dir, const char *name)
{
	uint64_t id = meta_id();
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, dir, meta_name(name), id, NULL), 0);
	return id;
}

static inline int try_create(struct meta_fixture *fx, uint64_t dir, const char *name, uint64_t id,
			     uint64_t token, unsigned flags)
{
	struct meta_create f = {.name = meta_name(name), .id = id, .token = token};
	int result = 0;
	int rc = meta_create(fx->m, &fx->ctx, dir, &f, 1, flags, &result);
	return rc != 0 ? rc : result;
}

static inline uint64_t must_create(struct meta_fixture *fx, uint64_t dir, const char *name)
{
	uint64_t id = meta_id();
	CHECK_EQ(try_create(fx, dir, name, id, 0, 0), 0);
	return id;
}

static inline int look(struct meta_fixture *fx, uint64_t dir, const char *name, uint64_t *id)
{
	struct meta_entry e = {0};
	int rc = meta_lookup(fx->m, &fx->ctx, dir, meta_name(name), &e);
	*id = e.id;
	return rc;
}

/* Returns the id that a name leads to; 0: there is no such name. */
static inline uint64_t id_at(struct meta_fixture *fx, uint64_t dir, const char *name)
{
	uint64_t id;
	int rc = look(fx, dir, name, &id);
	CHECK(rc == 0 || rc == -ENOENT);
	return rc == 0 ? id : 0;
}

#endif
