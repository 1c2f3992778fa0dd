// SPDX-License-Identifier: Apache-2.0
/*
 * Fault sweep over memory: each operation runs with its first allocation failing, then its second,
 * and so on until a run meets no fault. A run with a failed allocation must return -ENOMEM, leak
 * nothing and change nothing. Linked with --wrap for the allocating calls that base makes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/conf.h"
#include "base/context.h"
#include "base/heap.h"
#include "base/json.h"
#include "base/map.h"
#include "base/strbuf.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
char *__real_strdup(const char *s);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
char *__wrap_strdup(const char *s);

static int calls;
static int fail_at; /* number of the allocation that fails; 0: none */

static bool fails_now(void)
{
	return ++calls == fail_at;
}

void *__wrap_malloc(size_t size)
{
	return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails_now() ? NULL : __real_realloc(p, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
	return fails_now() ? NULL : __real_aligned_alloc(align, size);
}

char *__wrap_strdup(const char *s)
{
	return fails_now() ? NULL : __real_strdup(s);
}

static void *json_malloc(size_t size)
{
	return __wrap_malloc(size);
}

/* Runs `operation` with each of its allocations failing in turn; expects at least `least` of them.
 */
static void sweep(int (*operation)(void), int least)
{
	for (int n = 1;; n++) {
		calls = 0;
		fail_at = n;
		int rc = operation();
		fail_at = 0;
		if (calls < n) {
			assert_int_equal(rc, 0);
			assert_true(n > least);
			return;
		}
		assert_int_equal(rc, -ENOMEM);
	}
}

static int fill_heap(void)
{
	struct heap h;
	struct heap_node nodes[40] = {0};
	int rc = 0;
	heap_init(&h);
	size_t pushed = 0;
	while (pushed < ARRAY_LEN(nodes) && (rc = heap_push(&h, &nodes[pushed], 100 - pushed)) == 0)
		pushed++;
	assert_int_equal(h.count, pushed);
	if (rc < 0)
		assert_false(heap_contains(&nodes[pushed]));
	while (pushed > 0)
		assert_ptr_equal(heap_pop(&h), &nodes[--pushed]);
	heap_fini(&h);
	return rc;
}

static int fill_map(void)
{
	static char value;
	struct map m;
	int rc = 0;
	map_init(&m, 100);
	uint64_t put = 0;
	while (put < 50 && (rc = map_put(&m, put, &value)) == 0)
		put++;
	assert_int_equal(map_count(&m), put);
	for (uint64_t i = 0; i < 50; i++)
		assert_int_equal(map_get(&m, i) != NULL, i < put);
	map_fini(&m);
	return rc;
}

static int fill_strbuf(void)
{
	AUTO_STRBUF struct strbuf s;
	int rc = 0;
	strbuf_init(&s, 1000);
	size_t added = 0;
	while (added < 1000 && (rc = strbuf_printf(&s, "%s", "0123456789")) == 0)
		added += 10;
	assert_int_equal(strlen(strbuf_text(&s)), added);
	return rc;
}

static int get_buffers(void)
{
	struct buf_pool p;
	struct buf *b[2] = {NULL, NULL};
	buf_pool_init(&p, MIB);
	int rc = buf_get(&p, 100, &b[0]);
	if (rc == 0)
		rc = buf_get(&p, 10000, &b[1]);
	struct buf_stats s;
	buf_pool_stats(&p, &s);
	assert_int_equal(s.in_use_count, (b[0] != NULL) + (b[1] != NULL));
	assert_int_equal(s.fails, rc < 0);
	assert_int_equal(s.gets, s.in_use_count);
	buf_unref(b[0]);
	buf_unref(b[1]);
	buf_pool_fini(&p);
	return rc;
}

static int make_contexts(void)
{
	AUTO_CONTEXT const struct context *c = NULL, *tagged = NULL;
	int rc = context_new(&c, &(struct context){.tenant = "t", .tags = {.path = "/p"}});
	assert_int_equal(c == NULL, rc < 0);
	if (rc == 0)
		rc = context_with_tags(&tagged, c, &(struct context_tags){.job_id = 1});
	return rc;
}

struct target {
	int64_t port;
	char *dir;
	char *name;
};

static const struct conf_key schema[] = {
	CONF_INT("net", "port", struct target, port, "7000", 1, 65535, "TCP port"),
	CONF_STRING("store", "dir", struct target, dir, "/a", 1, 100, "where"),
	CONF_STRING("store", "name", struct target, name, "b", 1, 100, "what"),
};

static int parse_conf(void)
{
	static const char text[] = "[store]\ndir = /x\nname = y\n";
	struct target t;
	AUTO_STRBUF struct strbuf err;
	strbuf_init(&err, 1000);
	int rc = conf_parse(text, strlen(text), "t.ini", schema, ARRAY_LEN(schema), &t, &err);
	if (rc == 0)
		assert_string_equal(t.dir, "/x");
	else
		assert_true(t.dir == NULL && t.name == NULL && t.port == 0);
	conf_free(schema, ARRAY_LEN(schema), &t);
	return rc;
}

static int show_conf(void)
{
	struct target t = {.port = 1, .dir = (char *)"/x", .name = (char *)"y"};
	AUTO_STRBUF struct strbuf out;
	strbuf_init(&out, 1000);
	return conf_show(schema, ARRAY_LEN(schema), &t, &out);
}

static int show_conf_json(void)
{
	struct target t = {.port = 1, .dir = (char *)"/x", .name = (char *)"y"};
	AUTO_JSON json_t *all = conf_show_json(schema, ARRAY_LEN(schema), &t);
	return all != NULL ? 0 : -ENOMEM;
}

static void a_heap_survives_every_failed_allocation(void **state)
{
	sweep(fill_heap, 3);
}

static void a_map_survives_every_failed_allocation(void **state)
{
	sweep(fill_map, 3);
}

static void a_strbuf_survives_every_failed_allocation(void **state)
{
	sweep(fill_strbuf, 4);
}

static void a_buffer_pool_survives_every_failed_allocation(void **state)
{
	sweep(get_buffers, 4);
}

/* The allocations are the buffer, its slab and the memory of the slab. */
static void a_buffer_lies_in_ordinary_memory_if_there_is_none_for_a_slab(void **state)
{
	for (int at = 1; at <= 4; at++) {
		struct buf_pool p;
		struct buf *b = NULL;
		buf_pool_init(&p, 64 * MIB);
		calls = 0;
		fail_at = at;
		int rc = buf_get(&p, 100000, &b);
		fail_at = 0;
		assert_int_equal(rc, at == 1 ? -ENOMEM : 0);
		if (rc == 0)
			assert_int_equal(b->slab == NULL, at < 4);
		buf_unref(b);
		buf_pool_fini(&p);
	}
}

static void a_context_that_cannot_be_allocated_leaves_nothing_behind(void **state)
{
	sweep(make_contexts, 2);
}

static void a_refused_configuration_leaves_nothing_behind(void **state)
{
	sweep(parse_conf, 5);
}

static void showing_configuration_survives_every_failed_allocation(void **state)
{
	sweep(show_conf, 4);
	json_set_alloc_funcs(json_malloc, free);
	sweep(show_conf_json, 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_heap_survives_every_failed_allocation),
		cmocka_unit_test(a_map_survives_every_failed_allocation),
		cmocka_unit_test(a_strbuf_survives_every_failed_allocation),
		cmocka_unit_test(a_buffer_pool_survives_every_failed_allocation),
		cmocka_unit_test(a_buffer_lies_in_ordinary_memory_if_there_is_none_for_a_slab),
		cmocka_unit_test(a_context_that_cannot_be_allocated_leaves_nothing_behind),
		cmocka_unit_test(a_refused_configuration_leaves_nothing_behind),
		cmocka_unit_test(showing_configuration_survives_every_failed_allocation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
