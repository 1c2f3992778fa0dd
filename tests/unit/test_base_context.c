// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/context.h"

static char *text_of(char c, size_t len)
{
	char *s = malloc(len + 1);
	assert_non_null(s);
	memset(s, c, len);
	s[len] = 0;
	return s;
}

static void a_context_owns_a_copy_of_all_its_parts(void **state)
{
	(void)state;
	char tenant[] = "vision", group[] = "training", path[] = "/data/set";
	uint8_t authorization[] = {0, 1, 2, 255};
	struct context from = {
		.tenant = tenant,
		.traffic_group = group,
		.traffic_class = TRAFFIC_GOLD,
		.authorization = authorization,
		.authorization_len = sizeof(authorization),
		.deadline_ns = 77,
		.tags = {.directory_id = 5, .path = path, .job_id = 6, .placement_category = 7}};
	const struct context *c;
	assert_int_equal(context_new(&c, &from), 0);
	memset(tenant, 'x', sizeof(tenant) - 1);
	memset(group, 'x', sizeof(group) - 1);
	memset(path, 'x', sizeof(path) - 1);
	memset(authorization, 9, sizeof(authorization));
	static const uint8_t want[] = {0, 1, 2, 255};
	assert_string_equal(c->tenant, "vision");
	assert_string_equal(c->traffic_group, "training");
	assert_int_equal(c->traffic_class, TRAFFIC_GOLD);
	assert_int_equal(c->authorization_len, sizeof(want));
	assert_memory_equal(c->authorization, want, sizeof(want));
	assert_int_equal(c->deadline_ns, 77);
	assert_int_equal(c->tags.directory_id, 5);
	assert_string_equal(c->tags.path, "/data/set");
	assert_int_equal(c->tags.job_id, 6);
	assert_int_equal(c->tags.placement_category, 7);
	context_unref(c);
}

static void parts_that_a_template_leaves_out_are_empty(void **state)
{
	(void)state;
	const struct context *c;
	assert_int_equal(context_new(&c, &(struct context){0}), 0);
	assert_ptr_not_equal(c, context_empty());
	for (int i = 0; i < 2; i++) {
		const struct context *e = i == 0 ? c : context_empty();
		assert_string_equal(e->tenant, "");
		assert_string_equal(e->traffic_group, "");
		assert_string_equal(e->tags.path, "");
		assert_int_equal(e->traffic_class, TRAFFIC_NONE);
		assert_int_equal(e->authorization_len, 0);
		assert_true(e->deadline_ns == CONTEXT_NO_DEADLINE);
		assert_int_equal(e->tags.directory_id | e->tags.job_id, 0);
	}
	context_unref(c);
}

/* One byte at its limit is kept, one more is refused; the template's other parts do not matter. */
static void each_part_has_a_limit(void **state)
{
	(void)state;
	static const size_t limits[] = {CONTEXT_TENANT_MAX, CONTEXT_GROUP_MAX, CONTEXT_PATH_MAX,
					CONTEXT_AUTHORIZATION_MAX};
	for (int part = 0; part < 4; part++)
		for (size_t over = 0; over < 2; over++) {
			size_t len = limits[part] + over;
			char *text = text_of('t', len);
			struct context from = {0};
			if (part == 0)
				from.tenant = text;
			if (part == 1)
				from.traffic_group = text;
			if (part == 2)
				from.tags.path = text;
			if (part == 3) {
				from.authorization = (const uint8_t *)text;
				from.authorization_len = len;
			}
			const struct context *c;
			assert_int_equal(context_new(&c, &from), over ? -EMSGSIZE : 0);
			if (over) {
				assert_null(c);
			} else {
				const char *kept = part == 0   ? c->tenant
						   : part == 1 ? c->traffic_group
						   : part == 2 ? c->tags.path
							       : (const char *)c->authorization;
				assert_memory_equal(kept, text, len);
			}
			context_unref(c);
			free(text);
		}
}

static void invalid_templates_are_refused(void **state)
{
	(void)state;
	const struct context *c = context_empty();
	struct context from = {.traffic_class = (enum traffic_class)(TRAFFIC_BRONZE + 1)};
	assert_int_equal(context_new(&c, &from), -EINVAL);
	assert_null(c);
	from = (struct context){.authorization_len = 1};
	assert_int_equal(context_new(&c, &from), -EINVAL);
	assert_null(c);
}

/* The address sanitizer sees a use after the last reference, and a reference too many as a leak. */
static void a_context_lives_as_long_as_its_last_reference(void **state)
{
	(void)state;
	const struct context *first;
	assert_int_equal(context_new(&first, &(struct context){.tenant = "a"}), 0);
	const struct context *second = context_ref(first);
	assert_ptr_equal(second, first);
	context_unref(first);
	assert_string_equal(second->tenant, "a");
	{
		AUTO_CONTEXT const struct context *third = context_ref(second);
		context_unref(second);
		assert_string_equal(third->tenant, "a");
	}
	/*
	 * The empty context is shared and has no reference count, so it may be released any number
	 * of times.
	 */
	for (int i = 0; i < 3; i++)
		context_unref(context_empty());
	assert_ptr_equal(context_ref(context_empty()), context_empty());
	context_unref(NULL);
}

static void a_copy_may_have_other_tags(void **state)
{
	(void)state;
	static const uint8_t authorization[] = {1, 2};
	AUTO_CONTEXT const struct context *c = NULL, *tagged = NULL;
	struct context from = {.tenant = "t",
			       .traffic_group = "g",
			       .traffic_class = TRAFFIC_BRONZE,
			       .authorization = authorization,
			       .authorization_len = 2,
			       .deadline_ns = 5,
			       .tags = {.job_id = 3, .path = "/p"}};
	assert_int_equal(context_new(&c, &from), 0);
	struct context_tags tags = c->tags;
	tags.directory_id = 8;
	assert_int_equal(context_with_tags(&tagged, c, &tags), 0);
	assert_int_equal(tagged->tags.directory_id, 8);
	assert_int_equal(tagged->deadline_ns, 5);
	const struct context *all[] = {c, tagged};
	for (int i = 0; i < 2; i++) {
		assert_string_equal(all[i]->tenant, "t");
		assert_string_equal(all[i]->traffic_group, "g");
		assert_int_equal(all[i]->traffic_class, TRAFFIC_BRONZE);
		assert_memory_equal(all[i]->authorization, authorization, 2);
		assert_string_equal(all[i]->tags.path, "/p");
		assert_int_equal(all[i]->tags.job_id, 3);
	}
	assert_int_equal(c->tags.directory_id, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_context_owns_a_copy_of_all_its_parts),
		cmocka_unit_test(parts_that_a_template_leaves_out_are_empty),
		cmocka_unit_test(each_part_has_a_limit),
		cmocka_unit_test(invalid_templates_are_refused),
		cmocka_unit_test(a_context_lives_as_long_as_its_last_reference),
		cmocka_unit_test(a_copy_may_have_other_tags),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
