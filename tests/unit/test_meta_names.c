// SPDX-License-Identifier: Apache-2.0
/* The Name layer: each operation and its errors, without concurrency, in plain and in spread directories. */
#include "meta_fixture.h"

#include <stdlib.h>

#include "base/arena.h"
#include "meta_api/id.h"

/* --- create and lookup ------------------------------------------------------------------------ */

META_TEST(created_names_are_found)
{
	uint64_t dir = must_mkdir(fx, META_ROOT, "d");
	uint64_t a = must_create(fx, dir, "a");
	CHECK_EQ(id_at(fx, dir, "a"), a);
	CHECK_EQ(id_at(fx, dir, "b"), 0);
	struct meta_entry e;
	CHECK_EQ(meta_resolve(fx->m, &fx->ctx, META_ROOT, meta_name("/d//a"), NULL, NULL, &e), 0);
	CHECK_EQ(e.id, a);
	CHECK(e.sealed && e.kind == META_FILE);
	CHECK_EQ(meta_resolve(fx->m, &fx->ctx, dir, meta_name("a"), NULL, NULL, &e), 0);
	CHECK_EQ(meta_resolve(fx->m, &fx->ctx, META_ROOT, meta_name("/"), NULL, NULL, &e), 0);
	CHECK_EQ(e.id, META_ROOT);
	CHECK_EQ(meta_resolve(fx->m, &fx->ctx, META_ROOT, meta_name("/d/a/x"), NULL, NULL, &e),
		 -ENOTDIR);
	CHECK_EQ(meta_resolve(fx->m, &fx->ctx, META_ROOT, meta_name("/e/a"), NULL, NULL, &e),
		 -ENOENT);
	struct meta_dir d;
	CHECK_EQ(meta_dir_get(fx->m, &fx->ctx, dir, &d), 0);
	CHECK_EQ(d.parent, META_ROOT);
	CHECK(!d.sealed && !d.spread);
}

META_TEST(exclusive_creates_do_not_replace_and_may_be_sent_again)
{
	uint64_t a = must_create(fx, META_ROOT, "a");
	CHECK_EQ(try_create(fx, META_ROOT, "a", meta_id(), 0, 0), -EEXIST);
	CHECK_EQ(id_at(fx, META_ROOT, "a"), a);
	/* The same request again. */
	CHECK_EQ(try_create(fx, META_ROOT, "a", a, 0, 0), 0);
	must_mkdir(fx, META_ROOT, "d");
	CHECK_EQ(try_create(fx, META_ROOT, "d", meta_id(), 0, 0), -EEXIST);
	CHECK_EQ(try_create(fx, META_ROOT, "d", meta_id(), 0, META_OVERWRITE), -EISDIR);
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("a"), meta_id(), NULL), -EEXIST);
	CHECK_EQ(try_create(fx, 12345, "a", meta_id(), 0, 0), -ENOENT);
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, 12345, meta_name("a"), meta_id(), NULL), -ENOENT);
}

META_TEST(overwriting_creates_replace)
{
	uint64_t a = must_create(fx, META_ROOT, "a");
	uint64_t b = meta_id();
	CHECK_EQ(try_create(fx, META_ROOT, "a", b, 9, META_OVERWRITE), 0);
	CHECK_EQ(id_at(fx, META_ROOT, "a"), b);
	/* A replaced file can be read until it is collected. */
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_file f;
	CHECK_EQ(meta_file_get(fx->m, &fx->ctx, a, NULL, &arena, &f), 0);
	/* An id that has a name cannot get a second one. */
	CHECK_EQ(try_create(fx, META_ROOT, "c", b, 0, 0), -EEXIST);
	CHECK_EQ(id_at(fx, META_ROOT, "c"), 0);
	arena_fini(&arena);
}

/* --- batches ---------------------------------------------------------------------------------- */

#define MANY 300U

static void batch_body(struct meta_fixture *fx)
{
	uint64_t dir = must_mkdir(fx, META_ROOT, "d");
	struct meta_create files[MANY];
	char names[MANY][16];
	int results[MANY];
	uint64_t first = meta_id_run(MANY);
	uint64_t taken = must_create(fx, dir, "n007");
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "n%03u", i);
		files[i] = (struct meta_create){.name = meta_name(names[i]), .id = first + i};
	}
	files[9].name = meta_name("bad/name");
	files[11].name = files[10].name;
	CHECK_EQ(meta_create(fx->m, &fx->ctx, dir, files, MANY, 0, results), 0);
	for (unsigned i = 0; i < MANY; i++) {
		int want = i == 7 ? -EEXIST : i == 9 || i == 11 ? -EINVAL : 0;
		CHECK_EQ(results[i], want);
		CHECK_EQ(id_at(fx, dir, names[i]), i == 7 ? taken : want != 0 ? 0 : first + i);
	}
	/* The same batch again: files that exist have result 0. */
	CHECK_EQ(meta_create(fx->m, &fx->ctx, dir, files, MANY, 0, results), 0);
	CHECK_EQ(results[0], 0);
	CHECK_EQ(results[7], -EEXIST);
	CHECK_EQ(meta_create(fx->m, &fx->ctx, dir, files, 0, 0, results), -EINVAL);
	CHECK_EQ(meta_create(fx->m, &fx->ctx, dir, files, META_BATCH_MAX + 1, 0, results), -EINVAL);
}

/* Batches that spread the directory, and more after that. */
static void batches_body(struct meta_fixture *fx)
{
	uint64_t dir = must_mkdir(fx, META_ROOT, "d");
	struct meta_create files[50];
	char names[50][16];
	int results[50];
	uint64_t txns = 0;
	for (unsigned b = 0; b < 20; b++) {
		uint64_t first = meta_id_run(50);
		for (unsigned i = 0; i < 50; i++) {
			snprintf(names[i], sizeof(names[i]), "%u-%u", b, i);
			files[i] =
				(struct meta_create){.name = meta_name(names[i]), .id = first + i};
		}
		files[49].name = meta_name("same");
		txns = fx->kv->stats.txns;
		CHECK_EQ(meta_create(fx->m, &fx->ctx, dir, files, 50, 0, results), 0);
		for (unsigned i = 0; i < 49; i++) {
			CHECK_EQ(results[i], 0);
			CHECK_EQ(id_at(fx, dir, names[i]), first + i);
		}
		CHECK_EQ(results[49], b == 0 ? 0 : -EEXIST);
	}
	struct meta_stats stats;
	meta_stats(fx->m, &stats);
	CHECK(stats.spreads > 0);
	/* About one transaction was made for each slice, not for each file. */
	CHECK(fx->kv->stats.txns - txns < 100);
	must_be_whole(fx);
}

static void a_batch_creates_what_it_can_and_reports_the_rest(void **state)
{
	(void)state;
	fixture_simple(batch_body);
	struct meta_fixture fx = fixture_of(batch_body);
	fx.options.spread_entries = 8;
	fixture_run(&fx);
	fx = fixture_of(batches_body);
	fx.options.spread_entries = 100;
	fixture_run(&fx);
}

/* --- list ------------------------------------------------------------------------------------- */

static size_t list_all(struct meta_fixture *fx, uint64_t dir, size_t max, char names[][16],
		       size_t room)
{
	struct meta_cursor at = {0};
	size_t n = 0;
	while (!at.end) {
		struct arena arena;
		arena_init(&arena, 4 * MIB);
		struct meta_page page;
		CHECK_EQ(meta_list(fx->m, &fx->ctx, dir, &at, max, &arena, &page), 0);
		CHECK(page.count <= max);
		for (size_t i = 0; i < page.count; i++) {
			CHECK(n < room && page.entries[i].name.len < 16);
			snprintf(names[n++], 16, "%s", page.entries[i].name.text);
			CHECK_EQ(page.entries[i].id, id_at(fx, dir, names[n - 1]));
		}
		at = page.next;
		arena_fini(&arena);
	}
	return n;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void list_body(struct meta_fixture *fx)
{
	static char names[2 * MANY][16];
	uint64_t dir = must_mkdir(fx, META_ROOT, "d");
	char name[16];
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "n%03u", i);
		must_create(fx, dir, name);
	}
	for (size_t max = 1; max <= 200; max = 3 * max + 1) {
		size_t n = list_all(fx, dir, max, names, ARRAY_LEN(names));
		CHECK_EQ(n, MANY);
		if (fx->options.spread_entries > 0)
			qsort(names, n, sizeof(names[0]), by_text);
		for (unsigned i = 0; i < MANY; i++) {
			snprintf(name, sizeof(name), "n%03u", i);
			CHECK(strcmp(names[i], name) == 0);
		}
	}
	struct meta_dir d;
	CHECK_EQ(meta_dir_get(fx->m, &fx->ctx, dir, &d), 0);
	CHECK_EQ(d.spread, fx->options.spread_entries > 0);
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_page page;
	struct meta_cursor bad = {.slice = 0xff000000};
	CHECK_EQ(meta_list(fx->m, &fx->ctx, dir, &bad, 0, &arena, &page), -EINVAL);
	bad = (struct meta_cursor){.name_len = 3, .name = "a/b"};
	CHECK_EQ(meta_list(fx->m, &fx->ctx, dir, &bad, 0, &arena, &page), -EINVAL);
	bad = (struct meta_cursor){0};
	CHECK_EQ(meta_list(fx->m, &fx->ctx, 999, &bad, 0, &arena, &page), -ENOENT);
	arena_fini(&arena);
}

static void lists_have_every_name_once(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(list_body);
	fixture_run(&fx);
	fx = fixture_of(list_body);
	fx.options.spread_entries = 8;
	fixture_run(&fx);
}

/* --- a spread directory ------------------------------------------------------------------------- */

#define ONE_WAY_NS NS_PER_MS

static void round_trip_body(struct meta_fixture *fx)
{
	char name[16];
	uint64_t dir = must_mkdir(fx, META_ROOT, "d");
	struct meta_stats stats;
	/*
	 * Fills the home slice until it is divided; the slices that it was divided into are far
	 * from full.
	 */
	for (unsigned i = 0; i < 150; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		must_create(fx, dir, name);
	}
	meta_stats(fx->m, &stats);
	CHECK_EQ(stats.spreads, 1);
	uint64_t begin = rt_now_ns();
	CHECK(id_at(fx, dir, "f0") != 0);
	CHECK(rt_now_ns() - begin < 3 * ONE_WAY_NS);
	begin = rt_now_ns();
	CHECK(id_at(fx, dir, "f149") != 0);
	CHECK(rt_now_ns() - begin < 3 * ONE_WAY_NS);
	CHECK_EQ(id_at(fx, dir, "none"), 0);
}

static void a_lookup_in_a_spread_directory_takes_one_round_trip(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(round_trip_body);
	fx.options.spread_entries = 100;
	fx.mem_options.latency_min_ns = ONE_WAY_NS;
	fx.mem_options.latency_max_ns = ONE_WAY_NS;
	fixture_run(&fx);
}

/* --- remove, rename --------------------------------------------------------------------------- */

META_TEST(removed_names_are_not_found)
{
	uint64_t dir = must_mkdir(fx, META_ROOT, "d");
	uint64_t a = must_create(fx, dir, "a");
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, dir, meta_name("a"), a + 1, 0), -ESTALE);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, dir, meta_name("a"), a, 0), 0);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, dir, meta_name("a"), a, 0), 0);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, dir, meta_name("a"), 0, 0), -ENOENT);
	CHECK_EQ(id_at(fx, dir, "a"), 0);
	/* A delayed copy of the create returns 0 and stores no name. */
	CHECK_EQ(try_create(fx, dir, "a", a, 0, 0), 0);
	CHECK_EQ(id_at(fx, dir, "a"), 0);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, META_ROOT, meta_name("d"), 0, 0), -EISDIR);
	must_create(fx, dir, "b");
	CHECK_EQ(meta_rmdir(fx->m, &fx->ctx, META_ROOT, meta_name("d"), 0), -ENOTEMPTY);
	CHECK_EQ(try_create(fx, dir, "c", meta_id(), 0, 0), 0);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, dir, meta_name("b"), 0, 0), 0);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, dir, meta_name("c"), 0, 0), 0);
	CHECK_EQ(meta_rmdir(fx->m, &fx->ctx, META_ROOT, meta_name("d"), dir), 0);
	CHECK_EQ(meta_rmdir(fx->m, &fx->ctx, META_ROOT, meta_name("d"), dir), 0);
	CHECK_EQ(meta_rmdir(fx->m, &fx->ctx, META_ROOT, meta_name("d"), 0), -ENOENT);
	CHECK_EQ(id_at(fx, META_ROOT, "d"), 0);
	CHECK_EQ(try_create(fx, dir, "c", meta_id(), 0, 0), -ENOENT);
	must_create(fx, META_ROOT, "f");
	CHECK_EQ(meta_rmdir(fx->m, &fx->ctx, META_ROOT, meta_name("f"), 0), -ENOTDIR);
}

static int ren(struct meta_fixture *fx, uint64_t dir, const char *from, const char *to,
	       uint64_t request, unsigned flags)
{
	return meta_rename(fx->m, &fx->ctx, dir, meta_name(from), meta_name(to), request, flags);
}

static void rename_body(struct meta_fixture *fx)
{
	uint64_t dir = must_mkdir(fx, META_ROOT, "d");
	/* Enough names to spread the directory, if spread_entries is set. */
	char name[16];
	for (unsigned i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		must_create(fx, dir, name);
	}
	uint64_t a = must_create(fx, dir, "a");
	uint64_t b = must_create(fx, dir, "b");
	uint64_t sub = must_mkdir(fx, dir, "sub");
	CHECK_EQ(ren(fx, dir, "a", "b", meta_id(), 0), -EEXIST);
	CHECK_EQ(ren(fx, dir, "none", "c", meta_id(), 0), -ENOENT);
	CHECK_EQ(ren(fx, dir, "a", "a", meta_id(), 0), 0);
	CHECK_EQ(ren(fx, dir, "none", "none", meta_id(), 0), -ENOENT);
	CHECK_EQ(ren(fx, dir, "a", "sub", meta_id(), META_OVERWRITE), -EISDIR);
	CHECK_EQ(ren(fx, dir, "sub", "b", meta_id(), META_OVERWRITE), -EEXIST);
	for (unsigned i = 0; i < 20; i++) {
		char next[16];
		snprintf(name, sizeof(name), "a%u", i);
		snprintf(next, sizeof(next), "a%u", i + 1);
		uint64_t request = meta_id();
		CHECK_EQ(ren(fx, dir, i == 0 ? "a" : name, next, request, 0), 0);
		CHECK_EQ(ren(fx, dir, i == 0 ? "a" : name, next, request, 0), 0);
		CHECK_EQ(id_at(fx, dir, i == 0 ? "a" : name), 0);
		CHECK_EQ(id_at(fx, dir, next), a);
	}
	CHECK_EQ(ren(fx, dir, "a20", "b", meta_id(), META_OVERWRITE), 0);
	CHECK_EQ(id_at(fx, dir, "b"), a);
	CHECK(b != a);
	CHECK_EQ(ren(fx, dir, "sub", "bus", meta_id(), 0), 0);
	CHECK_EQ(id_at(fx, dir, "bus"), sub);
	/* A delayed create of a renamed file does not bring the old name back. */
	CHECK_EQ(try_create(fx, dir, "a", a, 0, 0), 0);
	CHECK_EQ(id_at(fx, dir, "a"), 0);
}

static void renames_move_the_name_and_may_be_sent_again(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(rename_body);
	fixture_run(&fx);
	fx = fixture_of(rename_body);
	fx.options.spread_entries = 4;
	fixture_run(&fx);
}

/* --- moves ------------------------------------------------------------------------------------ */

static int mv(struct meta_fixture *fx, uint64_t from, const char *name, uint64_t to, const char *as)
{
	return meta_move(fx->m, &fx->ctx,
			 &(struct meta_move){.from_dir = from,
					     .from = meta_name(name),
					     .to_dir = to,
					     .to = meta_name(as),
					     .new_id = meta_id(),
					     .request = meta_id()});
}

META_TEST(moves_between_directories)
{
	uint64_t a = must_mkdir(fx, META_ROOT, "a");
	uint64_t b = must_mkdir(fx, META_ROOT, "b");
	uint64_t c = must_mkdir(fx, a, "c");
	CHECK_EQ(mv(fx, META_ROOT, "a", c, "x"), -EINVAL);
	CHECK_EQ(mv(fx, META_ROOT, "a", a, "x"), -EINVAL);
	CHECK_EQ(mv(fx, a, "none", b, "x"), -ENOENT);
	CHECK_EQ(mv(fx, a, "c", 999, "x"), -ENOENT);
	CHECK_EQ(mv(fx, a, "c", META_ROOT, "b"), -EEXIST);
	CHECK_EQ(mv(fx, a, "c", b, "x"), 0);
	CHECK_EQ(id_at(fx, b, "x"), c);
	CHECK_EQ(id_at(fx, a, "c"), 0);
	struct meta_dir d;
	CHECK_EQ(meta_dir_get(fx->m, &fx->ctx, c, &d), 0);
	CHECK_EQ(d.parent, b);
	CHECK_EQ(mv(fx, META_ROOT, "a", c, "a"), 0);
	CHECK_EQ(mv(fx, META_ROOT, "b", a, "b"), -EINVAL);
	struct meta_entry e;
	CHECK_EQ(meta_resolve(fx->m, &fx->ctx, META_ROOT, meta_name("/b/x/a"), NULL, NULL, &e), 0);
	CHECK_EQ(e.id, a);
	/* A moved file becomes a new file object. */
	uint64_t f = must_create(fx, b, "f");
	uint64_t id = meta_id();
	uint64_t request = meta_id();
	for (int i = 0; i < 2; i++)
		CHECK_EQ(meta_move(fx->m, &fx->ctx,
				   &(struct meta_move){.from_dir = b,
						       .from = meta_name("f"),
						       .to_dir = a,
						       .to = meta_name("g"),
						       .new_id = id,
						       .request = request}),
			 0);
	CHECK_EQ(id_at(fx, b, "f"), 0);
	CHECK_EQ(id_at(fx, a, "g"), id);
	CHECK(f != id);
	CHECK_EQ(try_create(fx, a, "open", meta_id(), 5, 0), 0);
	CHECK_EQ(mv(fx, a, "open", b, "open"), -EBUSY);
}

/* --- sealing ---------------------------------------------------------------------------------- */

static void seal_body(struct meta_fixture *fx)
{
	uint64_t dir = must_mkdir(fx, META_ROOT, "d");
	char name[16];
	for (unsigned i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		must_create(fx, dir, name);
	}
	must_mkdir(fx, dir, "sub");
	must_create(fx, META_ROOT, "out");
	CHECK_EQ(meta_dir_seal(fx->m, &fx->ctx, 999), -ENOENT);
	CHECK_EQ(meta_dir_seal(fx->m, &fx->ctx, dir), 0);
	CHECK_EQ(meta_dir_seal(fx->m, &fx->ctx, dir), 0);
	struct meta_dir d;
	CHECK_EQ(meta_dir_get(fx->m, &fx->ctx, dir, &d), 0);
	CHECK(d.sealed);
	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "y%u", i);
		CHECK_EQ(try_create(fx, dir, name, meta_id(), 0, 0), -EROFS);
	}
	CHECK_EQ(try_create(fx, dir, "x1", meta_id(), 0, META_OVERWRITE), -EROFS);
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, dir, meta_name("z"), meta_id(), NULL), -EROFS);
	CHECK_EQ(ren(fx, dir, "x1", "z", meta_id(), 0), -EROFS);
	CHECK_EQ(mv(fx, dir, "x1", META_ROOT, "z"), -EROFS);
	CHECK_EQ(mv(fx, META_ROOT, "out", dir, "z"), -EROFS);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, dir, meta_name("x1"), 0, 0), -EROFS);
	CHECK_EQ(meta_rmdir(fx->m, &fx->ctx, dir, meta_name("sub"), 0), -EROFS);
	for (int i = 0; i < 3; i++)
		CHECK(id_at(fx, dir, "x1") != 0);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, dir, meta_name("x1"), 0, META_SEALED_TOO), 0);
	CHECK_EQ(id_at(fx, dir, "x1"), 0);
	CHECK_EQ(mv(fx, META_ROOT, "d", must_mkdir(fx, META_ROOT, "e"), "d"), 0);
}

/* The directory is spread (the second run): every slice gives its seal back, and names can change as before. */
static void unseal_body(struct meta_fixture *fx)
{
	uint64_t dir = must_mkdir(fx, META_ROOT, "d");
	char name[16];
	for (unsigned i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "x%u", i);
		must_create(fx, dir, name);
	}
	CHECK_EQ(meta_dir_unseal(fx->m, &fx->ctx, 999), -ENOENT);
	CHECK_EQ(meta_dir_unseal(fx->m, &fx->ctx, dir), 0); /* it is not sealed */
	CHECK_EQ(meta_dir_seal(fx->m, &fx->ctx, dir), 0);
	struct meta_entry e;
	CHECK_EQ(meta_lookup(fx->m, &fx->ctx, dir, meta_name("x1"), &e), 0);
	CHECK_EQ(meta_dir_unseal(fx->m, &fx->ctx, dir), 0);
	CHECK_EQ(meta_dir_unseal(fx->m, &fx->ctx, dir), 0);
	struct meta_dir d;
	CHECK_EQ(meta_dir_get(fx->m, &fx->ctx, dir, &d), 0);
	CHECK(!d.sealed && d.spread == (fx->options.spread_entries > 0));
	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "y%u", i);
		CHECK_EQ(try_create(fx, dir, name, meta_id(), 0, 0), 0);
		snprintf(name, sizeof(name), "x%u", i);
		CHECK_EQ(meta_remove(fx->m, &fx->ctx, dir, meta_name(name), 0, 0), 0);
		CHECK_EQ(meta_lookup(fx->m, &fx->ctx, dir, meta_name(name), &e), -ENOENT);
	}
	CHECK_EQ(meta_dir_seal(fx->m, &fx->ctx, dir), 0);
	CHECK_EQ(try_create(fx, dir, "z", meta_id(), 0, 0), -EROFS);
}

static void unsealed_directories_change_again(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(unseal_body);
	fx.options.cache_bytes = MIB;
	fixture_run(&fx);
	fx = fixture_of(unseal_body);
	fx.options.spread_entries = 5;
	fixture_run(&fx);
}

static void tenant_body(struct meta_fixture *fx)
{
	struct meta_tenant t = {.id = 9, .name = "nine"}, again = {.id = 10, .name = "nine"}, got;
	struct meta_ctx ctx = {.tenant = 9};
	CHECK_EQ(meta_tenant_remove(fx->m, 9), -ENOENT);
	CHECK_EQ(meta_tenant_create(fx->m, &t), 0);
	CHECK_EQ(meta_mkdir(fx->m, &ctx, META_ROOT, meta_name("d"), 77, NULL), 0);
	CHECK_EQ(meta_tenant_remove(fx->m, 9), -ENOTEMPTY);
	CHECK_EQ(meta_mkdir(fx->m, &ctx, META_ROOT, meta_name("e"), 78, NULL),
		 0); /* nothing was changed */
	CHECK_EQ(meta_rmdir(fx->m, &ctx, META_ROOT, meta_name("d"), 0), 0);
	CHECK_EQ(meta_rmdir(fx->m, &ctx, META_ROOT, meta_name("e"), 0), 0);
	CHECK_EQ(meta_tenant_remove(fx->m, 9), 0);
	CHECK_EQ(meta_tenant_remove(fx->m, 9), 0);
	CHECK_EQ(meta_tenant_find(fx->m, "nine", &got), -ENOENT);
	CHECK_EQ(meta_mkdir(fx->m, &ctx, META_ROOT, meta_name("f"), 79, NULL), -EROFS);
	CHECK_EQ(meta_tenant_create(fx->m, &again), -EEXIST);
	CHECK_EQ(meta_tenant_get(fx->m, 9, &got), 0);
	CHECK(got.removed);
}

static void removed_tenants_end_and_their_names_are_not_given_again(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(tenant_body);
	fixture_run(&fx);
}

static void sealed_directories_do_not_change(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(seal_body);
	fx.options.cache_bytes = MIB;
	fixture_run(&fx);
	fx = fixture_of(seal_body);
	fx.options.spread_entries = 4;
	fixture_run(&fx);
}

/* --- the cache -------------------------------------------------------------------------------- */

static void cache_body(struct meta_fixture *fx)
{
	uint64_t dir = must_mkdir(fx, META_ROOT, "d");
	uint64_t a = must_create(fx, dir, "a");
	struct meta_stats before;
	struct meta_stats stats;
	/* The entries of an unsealed directory are not cached. */
	for (int i = 0; i < 3; i++)
		CHECK_EQ(id_at(fx, dir, "a"), a);
	meta_stats(fx->m, &stats);
	CHECK_EQ(stats.cache_hits, 0);
	CHECK_EQ(meta_dir_seal(fx->m, &fx->ctx, dir), 0);
	CHECK_EQ(id_at(fx, dir, "a"), a);
	uint64_t gets = fx->kv->stats.gets;
	for (int i = 0; i < 5; i++)
		CHECK_EQ(id_at(fx, dir, "a"), a);
	CHECK_EQ(fx->kv->stats.gets, gets);
	/* Records of sealed files are cached too. */
	struct arena arena;
	arena_init(&arena, MIB);
	struct meta_file f;
	for (int i = 0; i < 3; i++)
		CHECK_EQ(meta_file_get(fx->m, &fx->ctx, a, NULL, &arena, &f), 0);
	CHECK_EQ(fx->kv->stats.gets, gets + 1);
	/*
	 * Another server removes the name: this server's cache still has the name for at most
	 * cache_ttl_ns.
	 */
	struct meta *other;
	CHECK_EQ(meta_open(&other, fx->kv, &fx->options), 0);
	CHECK_EQ(meta_remove(other, &fx->ctx, dir, meta_name("a"), a, META_SEALED_TOO), 0);
	meta_close(other);
	rt_sleep_ns(fx->options.cache_ttl_ns + 1);
	CHECK_EQ(id_at(fx, dir, "a"), 0);
	/* The cache stays within cache_bytes, and keeps the entries that were used last. */
	uint64_t many = must_mkdir(fx, META_ROOT, "many");
	char name[16];
	for (unsigned i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		must_create(fx, many, name);
	}
	CHECK_EQ(meta_dir_seal(fx->m, &fx->ctx, many), 0);
	for (unsigned i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		CHECK(id_at(fx, many, name) != 0);
		CHECK(id_at(fx, many, "n0") != 0);
		meta_stats(fx->m, &stats);
		CHECK(stats.cache_bytes <= fx->options.cache_bytes);
	}
	meta_stats(fx->m, &before);
	CHECK(id_at(fx, many, "n0") != 0 && id_at(fx, many, "n1") != 0);
	meta_stats(fx->m, &stats);
	CHECK_EQ(stats.cache_hits - before.cache_hits, 1);
	arena_fini(&arena);
}

static void only_sealed_metadata_is_cached_and_for_a_limited_time(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(cache_body);
	fx.options.cache_bytes = 8 * KIB;
	fixture_run(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(created_names_are_found),
		cmocka_unit_test(exclusive_creates_do_not_replace_and_may_be_sent_again),
		cmocka_unit_test(overwriting_creates_replace),
		cmocka_unit_test(a_batch_creates_what_it_can_and_reports_the_rest),
		cmocka_unit_test(lists_have_every_name_once),
		cmocka_unit_test(a_lookup_in_a_spread_directory_takes_one_round_trip),
		cmocka_unit_test(removed_names_are_not_found),
		cmocka_unit_test(renames_move_the_name_and_may_be_sent_again),
		cmocka_unit_test(moves_between_directories),
		cmocka_unit_test(sealed_directories_do_not_change),
		cmocka_unit_test(unsealed_directories_change_again),
		cmocka_unit_test(removed_tenants_end_and_their_names_are_not_given_again),
		cmocka_unit_test(only_sealed_metadata_is_cached_and_for_a_limited_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
