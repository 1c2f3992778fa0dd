// SPDX-License-Identifier: Apache-2.0
/* meta_link: copies of the request that are delayed between its two steps. */
#include "meta_gate.h"

#define TOKEN 77
#define FID 500ULL
#define OTHER 501ULL

static int link_as(struct meta_fixture *fx, const char *name)
{
	return meta_link(
		fx->m, &fx->ctx, META_ROOT, meta_name(name),
		&(struct meta_naming){.file = FID, .token = TOKEN, .seal = true, .mtime_ns = 1});
}

static void must_new(struct meta_fixture *fx)
{
	CHECK_EQ(meta_file_new(fx->m, &fx->ctx, META_ROOT, FID, TOKEN), 0);
}

/* Another file has the name for a while, so the file is linked under another name. */
static void other_name(struct meta_fixture *fx)
{
	CHECK_EQ(try_create(fx, META_ROOT, "x", OTHER, 0, 0), 0);
	CHECK_EQ(link_as(fx, "x"), -EEXIST);
	CHECK_EQ(link_as(fx, "z"), 0);
	CHECK_EQ(meta_remove(fx->m, &fx->ctx, META_ROOT, meta_name("x"), OTHER, 0), 0);
}

static void held_up(struct meta_fixture *fx)
{
	CHECK_EQ(link_as(fx, "x"), -EEXIST);
}

META_TEST(a_link_held_up_after_its_mark_gives_no_second_name)
{
	must_new(fx);
	gate_run(fx, META_LAYER_NAME, 0, other_name, held_up);
	CHECK_EQ(id_at(fx, META_ROOT, "x"), 0);
	CHECK_EQ(id_at(fx, META_ROOT, "z"), FID);
}

/*
 * The same in a directory that is spread over slices: the fence is in the slice where the name
 * would be.
 */
static void spread_body(struct meta_fixture *fx)
{
	must_new(fx);
	for (int i = 0; i < 40; i++) {
		char name[16];
		snprintf(name, sizeof(name), "n%d", i);
		must_create(fx, META_ROOT, name);
	}
	gate_run(fx, META_LAYER_NAME, 0, other_name, held_up);
	CHECK_EQ(id_at(fx, META_ROOT, "x"), 0);
	CHECK_EQ(id_at(fx, META_ROOT, "z"), FID);
}

static void a_link_held_up_in_a_spread_directory_gives_no_second_name(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(spread_body);
	fx.options.spread_entries = 8;
	fixture_run(&fx);
}

static void link_z(struct meta_fixture *fx)
{
	CHECK_EQ(link_as(fx, "z"), -EPERM);
}

static void link_x(struct meta_fixture *fx)
{
	CHECK_EQ(link_as(fx, "x"), 0);
}

/* A file that has a name can never be given another one by meta_link. */
META_TEST(a_file_that_has_a_name_gets_no_other)
{
	must_new(fx);
	link_x(fx);
	link_z(fx);
	CHECK_EQ(ren(fx, "x", "y"), 0);
	link_z(fx);
	CHECK_EQ(link_as(fx, "x"), 0); /* a copy of the first request */
	CHECK_EQ(id_at(fx, META_ROOT, "x"), 0);
	CHECK_EQ(id_at(fx, META_ROOT, "y"), FID);
	CHECK_EQ(id_at(fx, META_ROOT, "z"), 0);
}

static int link_open(struct meta_fixture *fx, const char *name)
{
	return meta_link(fx->m, &fx->ctx, META_ROOT, meta_name(name),
			 &(struct meta_naming){.file = FID, .token = TOKEN, .mtime_ns = 1});
}

/*
 * The tombstones that stop a copy of a request are collected after the grace period: a request that is delayed for
 * longer must fail. The file is open for writing: the record of a sealed one would show that it was renamed.
 */
static void long_after(struct meta_fixture *fx)
{
	CHECK_EQ(link_open(fx, "x"), 0);
	CHECK_EQ(ren(fx, "x", "y"), 0);
	rt_sleep_ns(META_GRACE_MIN);
	collect_all(fx);
}

static void too_late(struct meta_fixture *fx)
{
	CHECK_EQ(link_open(fx, "x"), -ETIMEDOUT);
}

META_TEST(a_link_held_up_for_longer_than_the_grace_gives_up)
{
	must_new(fx);
	gate_run(fx, META_LAYER_FILE, 0, long_after, too_late);
	CHECK_EQ(id_at(fx, META_ROOT, "x"), 0);
	CHECK_EQ(id_at(fx, META_ROOT, "y"), FID);
}

static void create_renamed(struct meta_fixture *fx)
{
	CHECK_EQ(try_create(fx, META_ROOT, "x", FID, TOKEN, 0), 0);
	CHECK_EQ(ren(fx, "x", "y"), 0);
	rt_sleep_ns(META_GRACE_MIN);
	collect_all(fx);
}

static void create_late(struct meta_fixture *fx)
{
	CHECK_EQ(try_create(fx, META_ROOT, "x", FID, TOKEN, 0), -ETIMEDOUT);
}

META_TEST(a_create_held_up_for_longer_than_the_grace_gives_up)
{
	gate_run(fx, META_LAYER_FILE, 0, create_renamed, create_late);
	CHECK_EQ(id_at(fx, META_ROOT, "x"), 0);
	CHECK_EQ(id_at(fx, META_ROOT, "y"), FID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_link_held_up_after_its_mark_gives_no_second_name),
		cmocka_unit_test(a_link_held_up_in_a_spread_directory_gives_no_second_name),
		cmocka_unit_test(a_file_that_has_a_name_gets_no_other),
		cmocka_unit_test(a_link_held_up_for_longer_than_the_grace_gives_up),
		cmocka_unit_test(a_create_held_up_for_longer_than_the_grace_gives_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
