// SPDX-License-Identifier: Apache-2.0
/* Files with a placement in a simulated cluster with flash: where their blocks go, what is known when they are gone, and
 * what the janitor moves to disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "janitor_fixture.h"
#include "meta_api/note.h"
#include "meta_api/placement.h"
#include "placement/outcome.h"

#define FLASH CLUSTER_MEDIA_FLASH
#define DISK CLUSTER_MEDIA_DISK
#define LIFE_NS (600 * NS_PER_S) /* the least limit of a class */
#define FILLING 150u
#define FILE_BYTES ((uint64_t)3 * 64 * KIB)

static const struct terrane_feature features[] = {
	{.name = "n_workers", .number = 16},
	{.name = "s_pipeline", .text = "daily-join"},
};

static struct terrane_options options(uint32_t category_tag)
{
	return (struct terrane_options){.encoding = "rs:3+2",
					.block_bytes = 64 * KIB,
					.placement_category = category_tag,
					.job_id = 42,
					.features = features,
					.feature_count = ARRAY_LEN(features)};
}

static int write_placed(struct janitor_fixture *jf, const char *path, uint64_t len,
			const struct terrane_options *o, unsigned flags)
{
	struct call c;
	struct efile *f;
	uint8_t *bytes = malloc(len);
	CHECK(bytes != NULL);
	fixture_fill(1, 0, bytes, len);
	struct iovec iov = {bytes, len};
	engine_call(jf->engine, &c, o);
	int rc = engine_create(&c, path, flags, o, &f);
	if (rc == 0) {
		rc = engine_append(&c, f, &iov, 1, NULL);
		rc = rc == 0 ? engine_file_close(&c, f) : (engine_file_discard(f), rc);
	}
	free(bytes);
	rt_background();
	return rc;
}

static struct meta_placement state_of(struct janitor_fixture *jf, struct arena *a)
{
	struct meta_placement p;
	CHECK_EQ(meta_client_placement(&jf->root, a, &p), 0);
	return p;
}

/* Waits until the metadata server has heard of the room on flash. */
static void await_flash(struct janitor_fixture *jf)
{
	for (;;) {
		struct arena a;
		arena_init(&a, MIB);
		double capacity = state_of(jf, &a).capacity;
		arena_fini(&a);
		if (capacity > 0)
			return;
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	}
}

/* Reads the stored outcomes. Returns their number. */
static size_t outcomes(struct janitor_fixture *jf, struct outcome *out, size_t max)
{
	struct meta_note notes[16];
	struct arena a;
	bool end;
	arena_init(&a, MIB);
	int64_t n = meta_client_note_list(&jf->root, "outcomes/", "", &a, notes, 16, &end);
	CHECK(n >= 0 && end && (size_t)n <= max);
	for (int64_t i = 0; i < n; i++)
		CHECK_EQ(outcome_parse(&out[i], strchr(notes[i].text, ' ') + 1), 0);
	arena_fini(&a);
	return (size_t)n;
}

static void media_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	struct terrane_options unknown = options(0), zero = options(1), best = options(15);
	struct terrane_options named = options(15);
	janitor_fixture_open(&jf, fx);
	await_flash(&jf);
	CHECK_EQ(write_placed(&jf, "/unknown", 1000, &unknown, 0), 0);
	CHECK_EQ(write_placed(&jf, "/zero", 1000, &zero, 0), 0);
	CHECK_EQ(count_media(&jf).chunks[FLASH], 0);
	CHECK_EQ(write_placed(&jf, "/best", 100000, &best, 0), 0); /* two blocks */
	CHECK_EQ(count_media(&jf).chunks[FLASH], 10);
	named.media = TERRANE_MEDIA_DISK;
	CHECK_EQ(write_placed(&jf, "/named", 1000, &named, 0), 0);
	best.encoding = "r3";
	CHECK_EQ(write_placed(&jf, "/log", 1000, &best, TERRANE_LOG), 0);
	struct media_count n = count_media(&jf);
	CHECK_EQ(n.chunks[FLASH], 13);
	CHECK_EQ(n.chunks[DISK], 15);
	CHECK_EQ(n.misplaced, 0);
	struct terrane_options bad = options(66);
	CHECK_EQ(write_placed(&jf, "/bad", 1000, &bad, 0), -EINVAL);
	struct terrane_feature comma = {.name = "s_user", .text = "a,b"};
	bad = options(0);
	bad.features = &comma;
	bad.feature_count = 1;
	CHECK_EQ(write_placed(&jf, "/bad", 1000, &bad, 0), -EINVAL);
	janitor_fixture_close(&jf);
}

static void the_category_of_a_file_decides_the_media_of_its_blocks(void **state)
{
	(void)state;
	fixture_run_media(7, 6, 0, media_body);
}

static void outcome_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	struct janitor_options o = quick();
	struct terrane_options best = options(15), unknown = options(0);
	struct outcome *got = calloc(16, sizeof(*got));
	CHECK(got != NULL);
	janitor_fixture_open(&jf, fx);
	struct janitor *j = hire(&o);
	await_flash(&jf);
	CHECK_EQ(write_placed(&jf, "/plain", 1000, &(struct terrane_options){.encoding = "r3"}, 0),
		 0);
	CHECK_EQ(write_placed(&jf, "/a", 100000, &best, 0), 0);
	CHECK_EQ(write_placed(&jf, "/b", 1000, &unknown, 0), 0);
	CHECK_EQ(read_text(&jf, "/a", 1, 100000), 0);
	CHECK_EQ(read_text(&jf, "/a", 1, 100000), 0);
	CHECK_EQ(rt_sleep_ns(100 * NS_PER_S), 0);
	CHECK_EQ(remove_path(&jf, "/a"), 0);
	CHECK_EQ(outcomes(&jf, got, 16), 1);
	CHECK_EQ(remove_path(&jf, "/plain"), 0);
	CHECK_EQ(outcomes(&jf, got, 16), 1);
	/* A file that is replaced has one when it is collected. */
	struct terrane_options o3 = {.encoding = "r3"};
	CHECK_EQ(write_placed(&jf, "/b", 1000, &o3, TERRANE_REPLACE), 0);
	CHECK_EQ(outcomes(&jf, got, 16), 1);
	collect_for(j, 12 * GRACE_NS);
	CHECK_EQ(outcomes(&jf, got, 16), 2);
	const struct outcome *a = got[0].category != 0 ? &got[0] : &got[1];
	const struct outcome *b = got[0].category != 0 ? &got[1] : &got[0];
	CHECK(a->category == 15 && a->job == 42 && a->tenant == 1);
	CHECK(a->io.size_bytes == 100000 && a->io.reads == 2 && a->io.read_bytes == 200000);
	double life_s = a->io.end_s - a->io.start_s;
	CHECK(life_s >= 100 && life_s < 110);
	CHECK(a->flash_share >= 0.999);
	CHECK(strcmp(a->features, "n_workers=16\ns_pipeline=daily-join") == 0);
	CHECK(b->category == 0 && b->io.reads == 0 && b->flash_share <= 0);
	/* The server learns from them. */
	struct arena arena;
	struct meta_placement p = {0};
	while (p.outcomes < 2) {
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
		arena_init(&arena, MIB);
		p = state_of(&jf, &arena);
		arena_fini(&arena);
	}
	CHECK_EQ(p.class_count, 2);
	janitor_close(j);
	janitor_fixture_close(&jf);
	free(got);
}

static void the_outcome_of_a_removed_file_is_stored(void **state)
{
	(void)state;
	fixture_run_media(7, 6, 0, outcome_body);
}

static void full_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	struct terrane_options best = options(15);
	char path[16];
	janitor_fixture_open(&jf, fx);
	await_flash(&jf);
	/* Blocks go to flash while there is room, then to disk. */
	for (unsigned i = 0; i < FILLING; i++) {
		snprintf(path, sizeof(path), "/f%u", i);
		CHECK_EQ(write_placed(&jf, path, FILE_BYTES, &best, 0), 0);
	}
	struct media_count n = count_media(&jf);
	CHECK(n.chunks[FLASH] > 0 && n.chunks[DISK] > 0);
	CHECK_EQ(n.chunks[FLASH] + n.chunks[DISK], FILLING * 3 * 5);
	struct arena a;
	arena_init(&a, MIB);
	struct meta_placement p = state_of(&jf, &a);
	CHECK(p.placed == (uint64_t)FILLING * 3 && p.spilled > 0 && p.spill > 0 && p.spill <= 1);
	arena_fini(&a);
	for (unsigned i = 0; i < FILLING; i++) {
		snprintf(path, sizeof(path), "/f%u", i);
		CHECK_EQ(read_text(&jf, path, 1, FILE_BYTES), 0);
	}
	janitor_fixture_close(&jf);
}

static void when_flash_is_full_blocks_spill_to_disk_and_are_counted(void **state)
{
	(void)state;
	fixture_run_media(7, 6, 8 * MIB, full_body);
}

static enum terrane_media media_of_file(struct janitor_fixture *jf, const char *path)
{
	struct call c;
	struct efile *f;
	struct terrane_stat st;
	engine_call(jf->engine, &c, NULL);
	CHECK_EQ(engine_file_open(&c, path, &f), 0);
	CHECK_EQ(engine_file_stat(&c, f, &st), 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	rt_background();
	return st.media;
}

static void demote_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	struct janitor_options o = quick();
	struct terrane_options best = options(15), named = options(15);
	janitor_fixture_open(&jf, fx);
	struct janitor *j = hire(&o);
	await_flash(&jf);
	named.media = TERRANE_MEDIA_FLASH;
	CHECK_EQ(write_placed(&jf, "/old", TEXT_BYTES, &best, 0), 0);
	CHECK_EQ(write_placed(&jf, "/named", 1000, &named, 0), 0);
	size_t old = count_media(&jf).chunks[FLASH] - 5;
	CHECK(old > 0);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).blocks_demoted, 0);
	/* The limit of a class without outcomes is a day. Others of the class live for seconds. */
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(write_placed(&jf, "/short", 1000, &best, 0), 0);
		CHECK_EQ(remove_path(&jf, "/short"), 0);
	}
	CHECK_EQ(rt_sleep_ns(LIFE_NS + 60 * NS_PER_S), 0);
	CHECK_EQ(write_placed(&jf, "/young", 1000, &best, 0), 0);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).blocks_demoted, old / 5 + 10); /* those of removed files, too */
	CHECK_EQ(count_media(&jf).misplaced, 0);
	CHECK_EQ(media_of_file(&jf, "/old"), TERRANE_MEDIA_DISK);
	CHECK_EQ(media_of_file(&jf, "/named"), TERRANE_MEDIA_FLASH);
	CHECK_EQ(media_of_file(&jf, "/young"), TERRANE_MEDIA_FLASH);
	CHECK_EQ(read_text(&jf, "/old", 1, TEXT_BYTES), 0);
	(void)check_whole(&jf);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).blocks_demoted, old / 5 + 10); /* those of removed files, too */
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void blocks_that_outlive_their_class_are_moved_to_disk(void **state)
{
	(void)state;
	fixture_run_media(7, 6, 0, demote_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_category_of_a_file_decides_the_media_of_its_blocks),
		cmocka_unit_test(the_outcome_of_a_removed_file_is_stored),
		cmocka_unit_test(when_flash_is_full_blocks_spill_to_disk_and_are_counted),
		cmocka_unit_test(blocks_that_outlive_their_class_are_moved_to_disk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
