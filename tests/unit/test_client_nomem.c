// SPDX-License-Identifier: Apache-2.0
/* Tests of the client when memory runs out. Linked with --wrap for realloc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client_fixture.h"

#define BLOCK (64 * KIB)
#define FILE_BYTES (3 * BLOCK)
#define RANGES 100 /* their parts do not fit into the first 256 */
#define MINE 0xee

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);

static int fail_in; /* the call that fails, counted down; 0: none */

void *__wrap_realloc(void *p, size_t size)
{
	return fail_in > 0 && --fail_in == 0 ? NULL : __real_realloc(p, size);
}

static void write_file(struct engine *e, const char *path)
{
	struct terrane_options o = {.block_bytes = BLOCK};
	struct call c;
	struct efile *f;
	uint8_t *bytes = malloc(FILE_BYTES);
	CHECK(bytes != NULL);
	fixture_fill(1, 0, bytes, FILE_BYTES);
	struct iovec iov = {bytes, FILE_BYTES};
	engine_call(e, &c, &o);
	CHECK_EQ(engine_create(&c, path, 0, &o, &f), 0);
	CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(bytes);
}

/* Overwrites the memory of an ended range, as a user may. */
static void told(void *ctx, struct engine_range *r)
{
	int *failed = ctx;
	if (r->result >= 0)
		return;
	CHECK_EQ(r->result, -ENOMEM);
	memset(r->buf, MINE, r->len);
	++*failed;
}

CLIENT_TEST(nothing_is_written_to_a_range_that_was_told, 6, 1)
{
	struct engine *e;
	struct call c;
	struct efile *f;
	static struct engine_range ranges[RANGES];
	uint8_t *bytes = calloc(RANGES, FILE_BYTES);
	int failed = 0;
	CHECK(bytes != NULL);
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){0}, &e), 0);
	write_file(e, "/f");
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_file_open(&c, "/f", &f), 0);
	for (size_t i = 0; i < RANGES; i++)
		ranges[i] = (struct engine_range){
			.file = f, .len = FILE_BYTES, .buf = bytes + i * FILE_BYTES};
	/* Fails the array of parts, in the middle of a range. An open file needs no other look-
	 * up. */
	fail_in = 2;
	CHECK_EQ(engine_read_batch(&c, ranges, RANGES, told, &failed), -ENOMEM);
	CHECK_EQ(failed, 1);
	for (size_t i = 0; i < RANGES; i++) {
		const uint8_t *is = ranges[i].buf;
		for (size_t at = 0; ranges[i].result < 0 && at < FILE_BYTES; at++)
			CHECK_EQ(is[at], MINE);
		CHECK(ranges[i].result < 0 || ranges[i].result == FILE_BYTES);
		CHECK(ranges[i].result < 0 || fixture_same(1, 0, is, FILE_BYTES));
	}
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(bytes);
	engine_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_LOOPS(nothing_is_written_to_a_range_that_was_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
