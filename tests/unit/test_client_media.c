// SPDX-License-Identifier: Apache-2.0
/* Tests of the media that a client puts blocks on, also when flash has no room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "janitor_fixture.h"
#include "meta/meta.h"

#define FLASH CLUSTER_MEDIA_FLASH
#define DISK CLUSTER_MEDIA_DISK

static enum terrane_media media_named(struct janitor_fixture *jf, const char *path,
				      char encoding[32])
{
	struct call c;
	struct efile *f;
	struct terrane_stat st;
	engine_call(jf->engine, &c, NULL);
	CHECK_EQ(engine_file_open(&c, path, &f), 0);
	CHECK_EQ(engine_file_stat(&c, f, &st), 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	rt_background();
	memcpy(encoding, st.encoding, sizeof(st.encoding));
	return st.media;
}

static int append_log(struct janitor_fixture *jf, const char *path, uint64_t text, uint64_t len,
		      const struct terrane_options *o, char error[FABRIC_ERROR_MAX])
{
	struct call c;
	struct efile *f;
	uint8_t *bytes = malloc(len);
	CHECK(bytes != NULL);
	fixture_fill(text, 0, bytes, len);
	struct iovec iov = {bytes, len};
	engine_call(jf->engine, &c, o);
	int rc = engine_create(&c, path, TERRANE_LOG, o, &f);
	if (rc == 0) {
		rc = engine_append(&c, f, &iov, 1, NULL);
		memcpy(error, c.error, FABRIC_ERROR_MAX);
		int closed = engine_file_close(&c, f);
		rc = rc == 0 ? closed : rc;
	}
	free(bytes);
	rt_background();
	return rc;
}

static int seal(struct janitor_fixture *jf, const char *path, const struct terrane_options *o)
{
	struct call c;
	engine_call(jf->engine, &c, o);
	int rc = engine_seal(&c, path, o);
	rt_background();
	return rc;
}

static int pack(struct janitor_fixture *jf, unsigned n, enum terrane_media media)
{
	struct terrane_options o = {.encoding = "rs:3+2", .media = media};
	struct terrane_small files[8];
	char names[8][8];
	uint8_t bytes[500];
	struct call c;
	CHECK(n <= 8);
	fixture_fill(9, 0, bytes, sizeof(bytes));
	for (unsigned i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "p%u", i);
		files[i] = (struct terrane_small){
			.name = names[i], .data = bytes, .len = sizeof(bytes)};
	}
	engine_call(jf->engine, &c, &o);
	int rc = engine_pack(&c, "/", files, n, 0, &o);
	rt_background();
	return rc;
}

static void asked_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	char encoding[32], error[FABRIC_ERROR_MAX];
	struct terrane_options log = {.encoding = "r3", .media = TERRANE_MEDIA_FLASH};
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text_on(&jf, "/whole", 1, TEXT_BYTES, "rs:3+2", TERRANE_MEDIA_FLASH), 0);
	CHECK_EQ(write_text_on(&jf, "/small", 2, 100, "rs:3+2", TERRANE_MEDIA_FLASH), 0);
	CHECK_EQ(append_log(&jf, "/log", 3, 1000, &log, error), 0);
	CHECK_EQ(pack(&jf, 8, TERRANE_MEDIA_FLASH), 0);
	struct media_count n = count_media(&jf);
	CHECK_EQ(n.chunks[DISK], 0);
	CHECK_EQ(n.chunks[FLASH], 4 * 5 + 5 + 3 + 5);
	CHECK_EQ(n.misplaced, 0);
	CHECK_EQ(media_named(&jf, "/whole", encoding), TERRANE_MEDIA_FLASH);
	/* Without a named media, and with disk named. */
	CHECK_EQ(write_text(&jf, "/plain", 4, 100, "rs:3+2"), 0);
	CHECK_EQ(write_text_on(&jf, "/disk", 5, 100, "rs:3+2", TERRANE_MEDIA_DISK), 0);
	n = count_media(&jf);
	CHECK_EQ(n.chunks[DISK], 10);
	CHECK_EQ(n.misplaced, 0);
	CHECK_EQ(media_named(&jf, "/plain", encoding), TERRANE_MEDIA_DISK);
	CHECK_EQ(write_text_on(&jf, "/none", 6, 10, "r3", (enum terrane_media)17), -EINVAL);
	CHECK_EQ(read_text(&jf, "/whole", 1, TEXT_BYTES), 0);
	janitor_fixture_close(&jf);
}

static void blocks_go_to_the_media_that_the_caller_names(void **state)
{
	(void)state;
	fixture_run_media(7, 6, 0, asked_body);
}

static void reencode_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	char encoding[32], error[FABRIC_ERROR_MAX];
	struct terrane_options log = {.encoding = "r3", .media = TERRANE_MEDIA_FLASH};
	struct terrane_options rs = {.encoding = "rs:3+2"};
	struct terrane_options to_disk = {.media = TERRANE_MEDIA_DISK};
	struct terrane_options back = {.encoding = "r3", .media = TERRANE_MEDIA_FLASH_OR_DISK};
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(append_log(&jf, "/log", 3, 100000, &log, error), 0);
	CHECK_EQ(seal(&jf, "/log", &rs), 0);
	CHECK_EQ(media_named(&jf, "/log", encoding), TERRANE_MEDIA_FLASH);
	CHECK(strcmp(encoding, "rs:3+2") == 0);
	CHECK_EQ(count_media(&jf).misplaced, 0);
	/* Another media is named: the encoding stays. */
	CHECK_EQ(seal(&jf, "/log", &to_disk), 0);
	CHECK_EQ(media_named(&jf, "/log", encoding), TERRANE_MEDIA_DISK);
	CHECK(strcmp(encoding, "rs:3+2") == 0);
	CHECK_EQ(count_media(&jf).misplaced, 0);
	CHECK_EQ(count_media(&jf).chunks[FLASH], 0);
	CHECK_EQ(seal(&jf, "/log", &back), 0);
	CHECK_EQ(media_named(&jf, "/log", encoding), TERRANE_MEDIA_FLASH);
	CHECK(strcmp(encoding, "r3") == 0);
	CHECK_EQ(count_media(&jf).misplaced, 0);
	CHECK_EQ(read_text(&jf, "/log", 3, 100000), 0);
	janitor_fixture_close(&jf);
}

static void encoding_anew_keeps_the_media_unless_the_caller_names_another(void **state)
{
	(void)state;
	fixture_run_media(7, 6, 0, reencode_body);
}

/* Lists all blocks, at most max. */
static size_t blocks_list(struct janitor_fixture *jf, struct arena *a, struct meta_block *out,
			  size_t max)
{
	size_t count = 0;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(NULL);
	for (struct meta_walk w = {.end = 1 << META_PARTITION_BITS}; w.index < w.end;) {
		struct meta_block_at at[32];
		int64_t n = meta_client_blocks(&jf->root, &w, a, at, ARRAY_LEN(at));
		CHECK(n >= 0);
		for (int64_t i = 0; i < n; i++) {
			CHECK(count < max);
			out[count++] = at[i].block;
		}
	}
	return count;
}

static void compact_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	struct arena a;
	struct meta_block blocks[8];
	struct engine_compacted done = {0};
	struct call c;
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(write_text_on(&jf, "/f0", 1, 1000, "r3", TERRANE_MEDIA_FLASH), 0);
	CHECK_EQ(write_text_on(&jf, "/f1", 2, 1000, "r3", TERRANE_MEDIA_FLASH), 0);
	CHECK_EQ(write_text(&jf, "/d0", 3, 1000, "r3"), 0);
	arena_init(&a, 8 * MIB);
	size_t n = blocks_list(&jf, &a, blocks, ARRAY_LEN(blocks));
	CHECK_EQ(n, 3);
	/* The first block is on flash: the block on disk is skipped. */
	for (size_t i = 1; i < n && blocks[0].media != FLASH; i++) {
		struct meta_block swap = blocks[0];
		blocks[0] = blocks[i];
		blocks[i] = swap;
	}
	engine_call(jf.engine, &c, NULL);
	CHECK_EQ(engine_compact(&c, blocks, n, &done), 0);
	rt_background();
	CHECK_EQ(done.extents, 2);
	CHECK_EQ(done.bytes, 2000);
	CHECK_EQ(count_media(&jf).chunks[FLASH], 9);
	CHECK_EQ(count_media(&jf).chunks[DISK], 3);
	CHECK_EQ(count_media(&jf).misplaced, 0);
	CHECK_EQ(read_text(&jf, "/f0", 1, 1000), 0);
	CHECK_EQ(read_text(&jf, "/f1", 2, 1000), 0);
	arena_fini(&a);
	janitor_fixture_close(&jf);
}

static void compaction_joins_blocks_of_one_media_on_it(void **state)
{
	(void)state;
	fixture_run_media(5, 5, 0, compact_body);
}

/* --- no room ---------------------------------------------------------------------------------- */

static void expect_fallback(struct janitor_fixture *jf, const char *words)
{
	struct call c;
	struct efile *f;
	char error[FABRIC_ERROR_MAX] = "", encoding[32];
	struct terrane_options strict = {
		.encoding = "r3", .block_bytes = 64 * KIB, .media = TERRANE_MEDIA_FLASH};
	struct terrane_options either = {
		.encoding = "r3", .block_bytes = 64 * KIB, .media = TERRANE_MEDIA_FLASH_OR_DISK};
	size_t before = count_media(jf).chunks[FLASH];
	CHECK_EQ(append_log(jf, "/strict.log", 1, 1000, &strict, error), -ENOSPC);
	CHECK(strstr(error, words) != NULL);
	CHECK_EQ(append_log(jf, "/log", 1, 1000, &either, error), 0);
	CHECK_EQ(media_named(jf, "/log", encoding), TERRANE_MEDIA_DISK);
	CHECK_EQ(write_text_on(jf, "/strict", 2, TEXT_BYTES, "r3", TERRANE_MEDIA_FLASH), -ENOSPC);
	CHECK_EQ(write_text_on(jf, "/f", 2, TEXT_BYTES, "r3", TERRANE_MEDIA_FLASH_OR_DISK), 0);
	CHECK_EQ(media_named(jf, "/f", encoding), TERRANE_MEDIA_DISK);
	CHECK_EQ(pack(jf, 2, TERRANE_MEDIA_FLASH), -ENOSPC);
	CHECK_EQ(pack(jf, 2, TERRANE_MEDIA_FLASH_OR_DISK), 0);
	CHECK_EQ(count_media(jf).chunks[FLASH], before);
	CHECK_EQ(count_media(jf).misplaced, 0);
	CHECK_EQ(read_text(jf, "/f", 2, TEXT_BYTES), 0);
	engine_call(jf->engine, &c, NULL);
	CHECK_EQ(engine_file_open(&c, "/strict", &f), -ENOENT);
	rt_background();
}

static void few_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	expect_fallback(&jf, "flash disks");
	/* The create fails before anything is written. */
	struct call c;
	struct efile *f;
	struct terrane_options o = {.encoding = "r3", .media = TERRANE_MEDIA_FLASH};
	engine_call(jf.engine, &c, &o);
	CHECK_EQ(engine_create(&c, "/again", 0, &o, &f), -ENOSPC);
	CHECK(strstr(c.error, "r3 needs 3 flash disks; 2 accept new data") != NULL);
	rt_background();
	janitor_fixture_close(&jf);
}

static void with_too_few_flash_disks_a_block_goes_to_disk_only_if_it_may(void **state)
{
	(void)state;
	fixture_run_media(6, 2, 0, few_body);
}

/* The map still says that they are online. */
static void full_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	for (uint64_t node = 0; node < 5; node++)
		(void)fill_disk(&jf, 10 * node + 2);
	expect_fallback(&jf, "chunks were stored");
	janitor_fixture_close(&jf);
}

static void when_flash_is_full_a_block_goes_to_disk_only_if_it_may(void **state)
{
	(void)state;
	fixture_run_media(6, 5, 4 * MIB, full_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_go_to_the_media_that_the_caller_names),
		cmocka_unit_test(encoding_anew_keeps_the_media_unless_the_caller_names_another),
		cmocka_unit_test(compaction_joins_blocks_of_one_media_on_it),
		cmocka_unit_test(with_too_few_flash_disks_a_block_goes_to_disk_only_if_it_may),
		cmocka_unit_test(when_flash_is_full_a_block_goes_to_disk_only_if_it_may),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
