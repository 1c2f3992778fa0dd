// SPDX-License-Identifier: Apache-2.0
/* Notes: small texts of services and operators. */
#include "base/arena.h"
#include "meta_fixture.h"

#include "meta/note.h"

static int put(struct meta_fixture *fx, const char *name, uint64_t turn, const char *text,
	       uint64_t *now)
{
	struct meta_note n = {.turn = turn, .text = text};
	snprintf(n.name, sizeof(n.name), "%s", name);
	int rc = meta_note_put(fx->m, &n);
	if (now != NULL)
		*now = n.turn;
	return rc;
}

static int64_t list(struct meta_fixture *fx, const char *prefix, const char *after, struct arena *a,
		    struct meta_note *out, size_t max)
{
	bool end;
	int64_t n = meta_note_list(fx->m, prefix, after, a, out, max, &end);
	CHECK(n < 0 || n == (int64_t)max || end);
	return n;
}

static void turns_body(struct meta_fixture *fx)
{
	uint64_t turn;
	CHECK_EQ(put(fx, "scrub/1", 0, "begun", &turn), 0);
	CHECK_EQ(turn, 1);
	/* A copy of the request changes nothing. */
	CHECK_EQ(put(fx, "scrub/1", 0, "begun", &turn), 0);
	CHECK_EQ(turn, 1);
	CHECK_EQ(put(fx, "scrub/1", 1, "on", &turn), 0);
	CHECK_EQ(turn, 2);
	/* A writer with an old turn is refused, and so is a late copy of the first request. */
	CHECK_EQ(put(fx, "scrub/1", 1, "mine", &turn), -ESTALE);
	CHECK_EQ(turn, 2);
	CHECK_EQ(put(fx, "scrub/1", 0, "begun", &turn), -ESTALE);
	/* A note with an empty text keeps its turn. */
	CHECK_EQ(put(fx, "scrub/1", 2, "", &turn), 0);
	CHECK_EQ(put(fx, "scrub/1", 0, "begun", &turn), -ESTALE);
	CHECK_EQ(turn, 3);
	CHECK_EQ(meta_note_drop(fx->m, "scrub/1"), 0);
	CHECK_EQ(meta_note_drop(fx->m, "scrub/1"), 0);
	CHECK_EQ(put(fx, "scrub/1", 0, "anew", &turn), 0);
}

static void a_note_changes_only_from_the_turn_it_was_read_with(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(turns_body);
	fixture_run(&fx);
}

static void list_body(struct meta_fixture *fx)
{
	struct arena a;
	arena_init(&a, MIB);
	struct meta_note n[8];
	CHECK_EQ(list(fx, "policy/", "", &a, n, 8), 0);
	CHECK_EQ(put(fx, "policy/7/b", 0, "two", NULL), 0);
	CHECK_EQ(put(fx, "policy/7/a", 0, "one", NULL), 0);
	CHECK_EQ(put(fx, "policy/8", 0, "three", NULL), 0);
	CHECK_EQ(put(fx, "policies/8", 0, "another family", NULL), 0);
	CHECK_EQ(list(fx, "policy/", "", &a, n, 8), 3);
	CHECK(strcmp(n[0].name, "policy/7/a") == 0 && strcmp(n[0].text, "one") == 0);
	CHECK(strcmp(n[2].name, "policy/8") == 0 && n[2].turn == 1);
	CHECK_EQ(list(fx, "policy/", "", &a, n, 2), 2);
	CHECK_EQ(list(fx, "policy/", n[1].name, &a, n, 2), 1);
	CHECK(strcmp(n[0].text, "three") == 0);
	CHECK_EQ(list(fx, "policy/7/", "", &a, n, 8), 2);
	arena_fini(&a);
}

static void notes_of_a_family_are_listed_in_order_and_in_pages(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(list_body);
	fixture_run(&fx);
}

static void refused_body(struct meta_fixture *fx)
{
	char big[META_NOTE_TEXT_MAX + 2];
	memset(big, 'x', sizeof(big));
	big[META_NOTE_TEXT_MAX + 1] = 0;
	CHECK_EQ(put(fx, "plain", 0, "x", NULL), -EINVAL);
	CHECK_EQ(put(fx, "/x", 0, "x", NULL), -EINVAL);
	CHECK_EQ(put(fx, "a/\n", 0, "x", NULL), -EINVAL);
	CHECK_EQ(put(fx, "a/b", 0, big, NULL), -EFBIG);
	big[META_NOTE_TEXT_MAX] = 0;
	CHECK_EQ(put(fx, "a/b", 0, big, NULL), 0);
	struct meta_check_report report;
	CHECK_EQ(meta_check(fx->m, NULL, &report), 0);
	CHECK_EQ(report.errors, 0);
}

static void names_without_a_family_and_long_texts_are_refused(void **state)
{
	(void)state;
	struct meta_fixture fx = fixture_of(refused_body);
	fixture_run(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_note_changes_only_from_the_turn_it_was_read_with),
		cmocka_unit_test(notes_of_a_family_are_listed_in_order_and_in_pages),
		cmocka_unit_test(names_without_a_family_and_long_texts_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
