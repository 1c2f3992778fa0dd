// SPDX-License-Identifier: Apache-2.0
/* A metadata store on the engine in memory, in a simulated process. */
#ifndef TESTS_META_RIG_H
#define TESTS_META_RIG_H

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
#include "rt/sim.h"

struct rig {
	uint64_t seed;
	struct meta_options options;
	struct kv_mem_options mem_options;
	void (*body)(struct rig *rig);
	/* made for the body */
	struct kv_mem *mem;
	struct kv *kv;
	struct meta *m;
	struct meta_ctx ctx; /* RIG_TENANT, whose root exists */
	bool done;
};

#define RIG_TENANT 7

static inline void rig_open(struct rig *rig)
{
	CHECK_EQ(kv_mem_open(&rig->kv, rig->mem), 0);
	CHECK_EQ(meta_open(&rig->m, rig->kv, &rig->options), 0);
	rig->ctx.tenant = RIG_TENANT;
}

static inline void rig_close(struct rig *rig)
{
	meta_close(rig->m);
	kv_close(rig->kv);
}

static inline void rig_main(void *arg)
{
	struct rig *rig = arg;
	rig_open(rig);
	CHECK_EQ(meta_tenant_create(rig->m,
				    &(struct meta_tenant){.id = RIG_TENANT, .name = "seven"}),
		 0);
	rig->body(rig);
	rig_close(rig);
	rig->done = true;
}

static inline struct rig rig_of(void (*body)(struct rig *))
{
	struct rig rig = {.seed = 1, .body = body};
	meta_options_init(&rig.options);
	rig.options.partition_bits = 4; /* few, so that objects share partitions */
	return rig;
}

static inline void rig_run(struct rig *rig)
{
	rig->mem_options.seed = rig->seed;
	rig->mem = kv_mem_new(&rig->mem_options);
	struct sim_config c;
	sim_config_init(&c, rig->seed, 0);
	struct sim *s = sim_open(&c);
	sim_node_start(sim_node_add(s, "n", 0), rig_main, rig);
	sim_run(s, 24ULL * 3600 * NS_PER_S);
	sim_close(s);
	if (!rig->done)
		fail_msg("seed %llu does not end", (unsigned long long)rig->seed);
	kv_mem_free(rig->mem);
}

static inline void rig_simple(void (*body)(struct rig *))
{
	struct rig rig = rig_of(body);
	rig_run(&rig);
}

/* --- collection ------------------------------------------------------------------------------- */

/* One round of every collector over every partition, and of the disks, in one epoch. */
static inline void collect_once(struct rig *rig, struct meta_gc_counts *counts)
{
	uint64_t epoch;
	CHECK_EQ(meta_gc_epoch(rig->m, &epoch), 0);
	for (unsigned kind = 0; kind < META_GC_KINDS; kind++) {
		for (uint64_t i = 0; i < meta_gc_partitions(rig->m); i++) {
			struct meta_gc_cursor at = {0};
			while (!at.end)
				CHECK_EQ(meta_gc_step(rig->m, (enum meta_gc_kind)kind, i, epoch,
						      &at, counts),
					 0);
		}
	}
	for (uint64_t i = 0; i < meta_gc_partitions(rig->m); i++) {
		struct meta_gc_cursor at = {0};
		while (!at.end) {
			struct arena arena;
			arena_init(&arena, MIB);
			struct meta_dead_chunks dead[4];
			int64_t n = meta_gc_chunks(rig->m, i, epoch, &at, &arena, dead, 4);
			CHECK(n >= 0);
			for (int64_t k = 0; k < n; k++)
				CHECK_EQ(meta_gc_chunks_done(rig->m, dead[k].tenant, dead[k].block,
							     dead[k].chunk_block),
					 0);
			arena_fini(&arena);
		}
	}
	CHECK_EQ(meta_gc_advance(rig->m, epoch), 0);
}

/* Runs enough rounds to collect everything: names, files, blocks and chunks take three epochs each. */
static inline void collect_all(struct rig *rig)
{
	for (int i = 0; i < 20; i++) {
		struct meta_gc_counts counts = {0};
		collect_once(rig, &counts);
	}
}

/* Checks that all layers agree; returns the report, which counts the garbage. */
static inline struct meta_check_report must_be_whole(struct rig *rig)
{
	struct meta_check_report report;
	CHECK_EQ(meta_check(rig->m, NULL, &report), 0);
	if (report.errors > 0)
		fprintf(stderr, "seed %llu: %s\n", (unsigned long long)rig->seed, report.first);
	CHECK_EQ(report.errors, 0);
	return report;
}

/* --- short forms ------------------------------------------------------------------------------ */

/* A block of ten bytes with one replica; the chunk is the caller's. */
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

static inline uint64_t must_mkdir(struct rig *rig, uint64_t dir, const char *name)
{
	uint64_t id = meta_id();
	CHECK_EQ(meta_mkdir(rig->m, &rig->ctx, dir, meta_name(name), id), 0);
	return id;
}

static inline int try_create(struct rig *rig, uint64_t dir, const char *name, uint64_t id,
			     uint64_t token, unsigned flags)
{
	struct meta_create f = {.name = meta_name(name), .id = id, .token = token};
	int result = 0;
	int rc = meta_create(rig->m, &rig->ctx, dir, &f, 1, flags, &result);
	return rc != 0 ? rc : result;
}

static inline uint64_t must_create(struct rig *rig, uint64_t dir, const char *name)
{
	uint64_t id = meta_id();
	CHECK_EQ(try_create(rig, dir, name, id, 0, 0), 0);
	return id;
}

static inline int look(struct rig *rig, uint64_t dir, const char *name, uint64_t *id)
{
	struct meta_entry e = {0};
	int rc = meta_lookup(rig->m, &rig->ctx, dir, meta_name(name), &e);
	*id = e.id;
	return rc;
}

/* The id a name leads to, 0 for none. */
static inline uint64_t id_at(struct rig *rig, uint64_t dir, const char *name)
{
	uint64_t id;
	int rc = look(rig, dir, name, &id);
	CHECK(rc == 0 || rc == -ENOENT);
	return rc == 0 ? id : 0;
}

#endif
