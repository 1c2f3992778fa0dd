// SPDX-License-Identifier: Apache-2.0
/*
 * One directory with very many names, on RocksDB: created in batches, listed, looked up. The
 * environment variable BIGDIR_ENTRIES sets the number of names; the default of 20000 keeps the test
 * short, 1000000 is possible.
 */
#include "rocks_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "meta/meta.h"
#include "rt/rt.h"

#define TENANT 7
#define ENTRIES 20000
#define BATCH 1000
#define LOOKUPS 2000

static uint64_t entries(void)
{
	const char *asked = getenv("BIGDIR_ENTRIES");
	uint64_t n = asked != NULL ? strtoull(asked, NULL, 10) : 0;
	return n != 0 ? n / BATCH * BATCH : ENTRIES;
}

static struct meta_name name_of(uint64_t i, char text[24])
{
	snprintf(text, 24, "%08llu.jpg", (unsigned long long)i);
	return meta_name(text);
}

static void say(const char *what, uint64_t n, uint64_t began_ns)
{
	double s = (double)(rt_now_ns() - began_ns) / 1e9;
	printf("%s: %llu in %.1f s, %.0f a second\n", what, (unsigned long long)n, s,
	       (double)n / s);
}

static void make(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, uint64_t n)
{
	static struct meta_create files[BATCH];
	static char names[BATCH][24];
	static int results[BATCH];
	uint64_t began = rt_now_ns();
	for (uint64_t i = 0; i < n; i += BATCH) {
		for (uint64_t k = 0; k < BATCH; k++)
			files[k] = (struct meta_create){.name = name_of(i + k, names[k]),
							.id = 1000000 + i + k};
		CHECK_EQ(meta_create(m, ctx, dir, files, BATCH, 0, results), 0);
		for (uint64_t k = 0; k < BATCH; k++)
			CHECK_EQ(results[k], 0);
	}
	say("created", n, began);
}

/* The listing must return every name once, in order, with its id. */
static void list(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, uint64_t n)
{
	struct meta_cursor at = {0};
	uint64_t seen = 0, began = rt_now_ns();
	while (!at.end) {
		struct arena arena;
		struct meta_page page;
		char text[24];
		arena_init(&arena, 4 * MIB);
		CHECK_EQ(meta_list(m, ctx, dir, &at, 0, &arena, &page), 0);
		for (size_t k = 0; k < page.count; k++, seen++) {
			struct meta_name want = name_of(seen, text);
			CHECK(page.entries[k].name.len == want.len &&
			      memcmp(page.entries[k].name.text, want.text, want.len) == 0);
			CHECK_EQ(page.entries[k].id, 1000000 + seen);
		}
		at = page.next;
		arena_fini(&arena);
	}
	CHECK_EQ(seen, n);
	say("listed", n, began);
}

static void look_up(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, uint64_t n)
{
	uint64_t began = rt_now_ns();
	for (uint64_t i = 0; i < LOOKUPS; i++) {
		struct meta_entry e;
		char text[24];
		uint64_t which = i * 7919 % n;
		CHECK_EQ(meta_lookup(m, ctx, dir, name_of(which, text), &e), 0);
		CHECK_EQ(e.id, 1000000 + which);
		CHECK_EQ(meta_lookup(m, ctx, dir, name_of(n + i, text), &e), -ENOENT);
	}
	say("looked up", 2ULL * LOOKUPS, began);
}

static void body(void *arg)
{
	struct fixture *p = arg;
	struct kv *kv;
	struct meta *m;
	struct meta_options o;
	struct meta_ctx ctx = {.tenant = TENANT};
	uint64_t dir = 500, n = entries();
	meta_options_init(&o);
	CHECK_EQ(kv_rocksdb_open(&kv, &(struct kv_rocksdb_options){.dir = p->dir}), 0);
	CHECK_EQ(meta_open(&m, kv, &o), 0);
	CHECK_EQ(meta_tenant_create(m, &(struct meta_tenant){.id = TENANT, .name = "seven"}), 0);
	CHECK_EQ(meta_mkdir(m, &ctx, META_ROOT, meta_name("big"), dir, NULL), 0);
	make(m, &ctx, dir, n);
	list(m, &ctx, dir, n);
	look_up(m, &ctx, dir, n);
	CHECK_EQ(meta_rename(m, &ctx, dir, meta_name("00000007.jpg"), meta_name("z"), 77, 0), 0);
	CHECK_EQ(meta_remove(m, &ctx, dir, meta_name("z"), 1000007, 0), 0);
	meta_close(m);
	kv_close(kv);
}

static void a_directory_with_very_many_names_is_made_listed_and_looked_up(void **state)
{
	(void)state;
	struct fixture p;
	fixture_make(&p);
	in_fiber(&p, body);
	fixture_remove(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_directory_with_very_many_names_is_made_listed_and_looked_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
