// SPDX-License-Identifier: Apache-2.0
/* Attributes in the metadata store: they are with the name, through every change of it, and within their limits. */
#include "meta/record.h"
#include "meta_api/attr.h"
#include "meta_gate.h"

#define FID 500ULL
#define TOKEN 77

static const struct meta_attr labels[] = {
	{.name = {"a", 1}, .value = (const uint8_t *)"one", .len = 3},
	{.name = {"b", 1}, .value = (const uint8_t *)"", .len = 0},
};

static const struct meta_attrs some = {.set = META_HAS_MODE | META_HAS_UID | META_HAS_GID,
				       .mode = 0750,
				       .uid = 1000,
				       .gid = 100,
				       .user = labels,
				       .user_count = 2};

/* Checks that the name has the attributes `some`, by lookup, listing and request. */
static void must_have_some(struct meta_fixture *fx, uint64_t dir, const char *name)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct meta_entry e = {0};
	struct meta_page page = {0};
	CHECK_EQ(meta_lookup(fx->m, &fx->ctx, dir, meta_name(name), &e), 0);
	CHECK(e.attrs.set == some.set && e.attrs.mode == 0750 && e.attrs.uid == 1000);
	CHECK(e.attrs.gid == 100 && e.attrs.user_count == 2 && e.attrs.user == NULL);
	CHECK_EQ(meta_list(fx->m, &fx->ctx, dir, &(struct meta_cursor){0}, 0, &a, &page), 0);
	bool listed = false;
	for (size_t i = 0; i < page.count; i++)
		listed = listed ||
			 (page.entries[i].id == e.id && page.entries[i].attrs.mode == 0750 &&
			  page.entries[i].attrs.user_count == 2);
	CHECK(listed);
	CHECK_EQ(meta_attr_get(fx->m, &fx->ctx, dir, meta_name(name), &a, &e), 0);
	CHECK(e.attrs.user_count == 2 && e.attrs.user[0].len == 3 && e.attrs.user[1].len == 0);
	CHECK_EQ(memcmp(e.attrs.user[0].value, "one", 3), 0);
	CHECK_EQ(meta_attr_compare(e.attrs.user[1].name, labels[1].name), 0);
}

static void create_with(struct meta_fixture *fx, const char *name, uint64_t id,
			const struct meta_attrs *attrs, int want)
{
	struct meta_create f = {.name = meta_name(name), .id = id, .attrs = attrs};
	int result = 0;
	CHECK_EQ(meta_create(fx->m, &fx->ctx, META_ROOT, &f, 1, 0, &result), 0);
	CHECK_EQ(result, want);
}

META_TEST(attributes_are_stored_with_the_name_and_stay_through_renames_moves_and_copies)
{
	create_with(fx, "f", FID, &some, 0);
	must_have_some(fx, META_ROOT, "f");
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("d"), 600, &some), 0);
	must_have_some(fx, META_ROOT, "d");
	CHECK_EQ(meta_file_new(fx->m, &fx->ctx, META_ROOT, 700, TOKEN), 0);
	CHECK_EQ(meta_link(fx->m, &fx->ctx, META_ROOT, meta_name("linked"),
			   &(struct meta_naming){
				   .file = 700, .token = TOKEN, .seal = true, .attrs = &some}),
		 0);
	must_have_some(fx, META_ROOT, "linked");
	CHECK_EQ(meta_rename(fx->m, &fx->ctx, META_ROOT, meta_name("f"), meta_name("g"), 9, 0), 0);
	must_have_some(fx, META_ROOT, "g");
	CHECK_EQ(meta_move(fx->m, &fx->ctx,
			   &(struct meta_move){.from_dir = META_ROOT,
					       .from = meta_name("g"),
					       .to_dir = 600,
					       .to = meta_name("h"),
					       .new_id = 800,
					       .request = 10}),
		 0);
	must_have_some(fx, 600, "h");
	CHECK_EQ(meta_copy(fx->m, &fx->ctx,
			   &(struct meta_move){.from_dir = 600,
					       .from = meta_name("h"),
					       .to_dir = META_ROOT,
					       .to = meta_name("copy"),
					       .new_id = 801,
					       .request = 11}),
		 0);
	must_have_some(fx, META_ROOT, "copy");
	CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("e"), 601, NULL), 0);
	CHECK_EQ(meta_move(fx->m, &fx->ctx,
			   &(struct meta_move){.from_dir = META_ROOT,
					       .from = meta_name("d"),
					       .to_dir = 601,
					       .to = meta_name("d2"),
					       .request = 12}),
		 0);
	must_have_some(fx, 601, "d2");
	CHECK_EQ(must_be_whole(fx).errors, 0);
}

static struct meta_attr_change change_of(uint64_t request)
{
	return (struct meta_attr_change){.name = meta_name("f"), .id = FID, .request = request};
}

static struct meta_entry entry_of(struct meta_fixture *fx, const char *name, struct arena *a)
{
	struct meta_entry e = {0};
	CHECK_EQ(meta_attr_get(fx->m, &fx->ctx, META_ROOT, meta_name(name), a, &e), 0);
	return e;
}

META_TEST(a_change_sets_what_it_names_and_leaves_the_rest)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	create_with(fx, "f", FID, &some, 0);
	const struct meta_attr more[] = {
		{.name = {"b", 1}, .value = (const uint8_t *)"two", .len = 3},
		{.name = {"c", 1}, .value = (const uint8_t *)"\0\xff", .len = 2}};
	const struct meta_name gone[] = {meta_name("a"), meta_name("never")};
	struct meta_attr_change c = change_of(1);
	c.set = (struct meta_attrs){.set = META_HAS_MODE | META_HAS_MTIME,
				    .mode = 0600,
				    .mtime_ns = 42,
				    .user = more,
				    .user_count = 2};
	c.remove = gone;
	c.remove_count = 2;
	CHECK_EQ(meta_attr_set(fx->m, &fx->ctx, META_ROOT, &c), 0);
	struct meta_entry e = entry_of(fx, "f", &a);
	CHECK(e.attrs.mode == 0600 && e.attrs.uid == 1000 && e.attrs.gid == 100 &&
	      e.mtime_ns == 42);
	CHECK_EQ(e.attrs.set, some.set);
	CHECK_EQ(e.attrs.user_count, 2);
	CHECK_EQ(memcmp(e.attrs.user[0].value, "two", 3), 0);
	CHECK_EQ(e.attrs.user[1].value[1], 0xff);
	/* A delayed copy of a change must not undo a later one. */
	struct meta_attr_change later = change_of(2);
	later.set = (struct meta_attrs){.set = META_HAS_MODE, .mode = 0444};
	CHECK_EQ(meta_attr_set(fx->m, &fx->ctx, META_ROOT, &later), 0);
	CHECK_EQ(meta_attr_set(fx->m, &fx->ctx, META_ROOT, &c), 0);
	CHECK_EQ(entry_of(fx, "f", &a).attrs.mode, 0444);
	later.request = 3;
	later.id = FID + 1;
	CHECK_EQ(meta_attr_set(fx->m, &fx->ctx, META_ROOT, &later), -ESTALE);
	later.name = meta_name("none");
	CHECK_EQ(meta_attr_set(fx->m, &fx->ctx, META_ROOT, &later), -ENOENT);
	CHECK_EQ(meta_dir_seal(fx->m, &fx->ctx, META_ROOT), 0);
	later = change_of(4);
	later.set = (struct meta_attrs){.set = META_HAS_MODE, .mode = 0};
	CHECK_EQ(meta_attr_set(fx->m, &fx->ctx, META_ROOT, &later), -EROFS);
	collect_all(fx);
	CHECK_EQ(entry_of(fx, "f", &a).attrs.mode, 0444);
	must_be_whole(fx);
}

static void set_mode(struct meta_fixture *fx)
{
	struct meta_attr_change c = change_of(20);
	c.set = (struct meta_attrs){.set = META_HAS_MODE, .mode = 0111};
	CHECK_EQ(meta_attr_set(fx->m, &fx->ctx, META_ROOT, &c), 0);
}

static void set_label(struct meta_fixture *fx)
{
	struct meta_attr_change c = change_of(21);
	c.set = (struct meta_attrs){.user = labels, .user_count = 2};
	CHECK_EQ(meta_attr_set(fx->m, &fx->ctx, META_ROOT, &c), 0);
}

META_TEST(two_changes_at_once_both_take_effect)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	create_with(fx, "f", FID, NULL, 0);
	CHECK_EQ(entry_of(fx, "f", &a).attrs.set, 0);
	gate_run(fx, META_LAYER_NAME, 0, set_mode, set_label);
	struct meta_entry e = entry_of(fx, "f", &a);
	CHECK(e.attrs.mode == 0111 && e.attrs.user_count == 2);
}

META_TEST(attributes_beyond_their_limits_are_refused_and_change_nothing)
{
	static uint8_t large[META_ATTR_BYTES_MAX + 1];
	static struct meta_attr many[META_ATTRS_MAX + 1];
	static char names[META_ATTRS_MAX + 1][8];
	char long_name[META_ATTR_NAME_MAX + 2];
	memset(long_name, 'x', sizeof(long_name));
	for (size_t i = 0; i < ARRAY_LEN(many); i++) {
		snprintf(names[i], sizeof(names[i]), "n%02zu", i);
		many[i].name = meta_name(names[i]);
	}
	const struct meta_attr bad[] = {
		{.name = {"", 0}},
		{.name = {"\xff", 1}},
		{.name = {"a\nb", 3}},
		{.name = {long_name, META_ATTR_NAME_MAX + 1}},
		{.name = {"a", 1}, .value = large, .len = META_ATTR_BYTES_MAX},
		{.name = {"a", 1}, .value = NULL, .len = 1},
	};
	const int want[] = {-EINVAL, -EILSEQ, -EINVAL, -ENAMETOOLONG, -EFBIG, -EINVAL};
	const struct meta_attr twice[] = {labels[0], labels[0]};
	const struct {
		struct meta_attrs attrs;
		int want;
	} others[] = {
		{{.set = META_HAS_MODE, .mode = 010000}, -EINVAL},
		{{.set = META_HAS_UID, .uid = UINT32_MAX}, -EINVAL},
		{{.set = 1 << 9}, -EINVAL},
		{{.set = META_HAS_MTIME, .mtime_ns = UINT64_MAX}, -EINVAL},
		{{.user = many, .user_count = META_ATTRS_MAX + 1}, -EFBIG},
		{{.user = twice, .user_count = 2}, -EINVAL},
		{{.user = NULL, .user_count = 1}, -EINVAL},
	};
	create_with(fx, "f", FID, &some, 0);
	struct meta_attr_change c = change_of(1);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const struct meta_attrs one = {.user = &bad[i], .user_count = 1};
		create_with(fx, "g", 900, &one, want[i]);
		CHECK_EQ(meta_mkdir(fx->m, &fx->ctx, META_ROOT, meta_name("g"), 901, &one),
			 want[i]);
		c.set = one;
		CHECK_EQ(meta_attr_set(fx->m, &fx->ctx, META_ROOT, &c), want[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		create_with(fx, "g", 900, &others[i].attrs, others[i].want);
		c.set = others[i].attrs;
		CHECK_EQ(meta_attr_set(fx->m, &fx->ctx, META_ROOT, &c), others[i].want);
	}
	/* Within the limits by itself, but not with what the file has. */
	c.set = (struct meta_attrs){.user = many, .user_count = META_ATTRS_MAX - 1};
	CHECK_EQ(meta_attr_set(fx->m, &fx->ctx, META_ROOT, &c), -EFBIG);
	must_have_some(fx, META_ROOT, "f");
	CHECK_EQ(id_at(fx, META_ROOT, "g"), 0);
	c.set.user_count = META_ATTRS_MAX - 2;
	CHECK_EQ(meta_attr_set(fx->m, &fx->ctx, META_ROOT, &c), 0);
}

static int entry_read(struct arena *a, rec_attrs *attrs)
{
	rec_entry e = TERRANE__REC__ENTRY__INIT, *read;
	struct kv_bytes raw;
	e.kind = META_FILE;
	e.id = 5;
	e.attrs = attrs;
	CHECK_EQ(rec_pack(a, &e.base, &raw), 0);
	return rec_read_entry(a, raw, &read);
}

static void a_stored_entry_with_invalid_attributes_is_damaged(void **state)
{
	(void)state;
	struct arena a;
	arena_init(&a, MIB);
	rec_attrs r = TERRANE__REC__ATTRS__INIT;
	assert_int_equal(entry_read(&a, NULL), 0); /* as entries were before they had attributes */
	assert_int_equal(entry_read(&a, &r), 0);
	r.set = META_HAS_MODE;
	r.mode = META_MODE_MAX + 1;
	assert_int_equal(entry_read(&a, &r), -EBADMSG);
	r.set = META_HAS_MTIME;
	r.mode = 0;
	assert_int_equal(entry_read(&a, &r), -EBADMSG);
	Terrane__Rec__Attr one = TERRANE__REC__ATTR__INIT;
	Terrane__Rec__Attr *list[META_ATTRS_MAX + 1];
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		list[i] = &one;
	r.set = 0;
	r.user = list;
	r.n_user = 1;
	assert_int_equal(entry_read(&a, &r), -EBADMSG); /* no name */
	one.name = (ProtobufCBinaryData){1, (uint8_t *)"a"};
	assert_int_equal(entry_read(&a, &r), 0);
	r.n_user = 2;
	assert_int_equal(entry_read(&a, &r), -EBADMSG); /* the name twice */
	r.n_user = ARRAY_LEN(list);
	assert_int_equal(entry_read(&a, &r), -EBADMSG);
	arena_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			attributes_are_stored_with_the_name_and_stay_through_renames_moves_and_copies),
		cmocka_unit_test(a_change_sets_what_it_names_and_leaves_the_rest),
		cmocka_unit_test(two_changes_at_once_both_take_effect),
		cmocka_unit_test(attributes_beyond_their_limits_are_refused_and_change_nothing),
		cmocka_unit_test(a_stored_entry_with_invalid_attributes_is_damaged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
