// SPDX-License-Identifier: Apache-2.0
/* Compaction of packed blocks that are mostly dead, and re-encoding by policy. */
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
#include "meta_api/note.h"

#define FILES 40
#define FILE_BYTES 3000

/* --- packed files ------------------------------------------------------------------------------ */

static void path_of(unsigned i, char out[32])
{
	snprintf(out, 32, "/p/%u", i);
}

static uint64_t text_of(unsigned i)
{
	return 100 + i;
}

static void pack_as(struct janitor_fixture *jf, unsigned first, unsigned n, const char *encoding)
{
	struct terrane_small small[FILES];
	struct terrane_options o = {.encoding = encoding, .block_bytes = 256 * KIB};
	char names[FILES][16];
	uint8_t *bytes = malloc((size_t)n * FILE_BYTES);
	CHECK(bytes != NULL);
	for (unsigned i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "%u", first + i);
		fixture_fill(text_of(first + i), 0, bytes + (size_t)i * FILE_BYTES, FILE_BYTES);
		small[i] = (struct terrane_small){.name = names[i],
						  .data = bytes + (size_t)i * FILE_BYTES,
						  .len = FILE_BYTES};
	}
	struct call c;
	engine_call(jf->engine, &c, NULL);
	CHECK_EQ(engine_pack(&c, "/p", small, n, 0, &o), 0);
	rt_background();
	free(bytes);
}

static void pack(struct janitor_fixture *jf, unsigned first, unsigned n)
{
	pack_as(jf, first, n, "rs:2+1");
}

static void make_dir(struct janitor_fixture *jf, const char *path)
{
	struct call c;
	engine_call(jf->engine, &c, NULL);
	CHECK_EQ(engine_mkdir(&c, path, 0), 0);
	rt_background();
}

static void drop(struct janitor_fixture *jf, unsigned i)
{
	char path[32];
	path_of(i, path);
	CHECK_EQ(remove_path(jf, path), 0);
}

static int read_one(struct janitor_fixture *jf, unsigned i)
{
	char path[32];
	path_of(i, path);
	return read_text(jf, path, text_of(i), FILE_BYTES);
}

CLIENT_TEST(mostly_dead_blocks_are_compacted_and_deleted, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	make_dir(&jf, "/p");
	pack(&jf, 0, FILES);
	CHECK_EQ(used_bytes(&jf), (uint64_t)FILES * FILE_BYTES);
	/* Files own half of the block: it is not compacted. */
	for (unsigned i = 0; i < FILES; i += 2)
		drop(&jf, i);
	collect_for(j, 8 * GRACE_NS);
	o.dead_percent = 60;
	struct janitor *patient = hire(&o);
	CHECK_EQ(janitor_survey(patient), 0);
	CHECK_EQ(stats_of(patient).blocks_compacted, 0);
	/* Compaction also works for a tenant at its quota. */
	CHECK_EQ(meta_client_tenant_set_quota(&jf.root, 1, (uint64_t)FILES * FILE_BYTES), 0);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).blocks_compacted, 1);
	CHECK_EQ(stats_of(j).compacted_bytes, FILES / 2 * FILE_BYTES);
	for (unsigned i = 1; i < FILES; i += 2)
		CHECK_EQ(read_one(&jf, i), 0);
	/* A second survey compacts nothing; the old block is deleted with its chunks and its part
	 * of the quota. */
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).blocks_compacted, 1);
	collect_for(j, 14 * GRACE_NS);
	CHECK_EQ(used_bytes(&jf), FILES / 2 * FILE_BYTES);
	CHECK_EQ(check_whole(&jf), 1);
	CHECK_EQ(chunks_everywhere(&jf), 3);
	for (unsigned i = 1; i < FILES; i += 2)
		CHECK_EQ(read_one(&jf, i), 0);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).blocks_compacted, 1);
	janitor_close(patient);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/*
 * The map says that a silent node is online. A write by a client would leave the chunk on that node
 * missing.
 */
CLIENT_TEST(a_rewritten_block_lacks_no_chunk, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	make_dir(&jf, "/p");
	pack_as(&jf, 0, FILES, "rs:2+2");
	for (unsigned i = 2; i < FILES; i++)
		drop(&jf, i);
	collect_for(j, 8 * GRACE_NS);
	CHECK_EQ(check_whole(&jf), 1);
	fixture_do(fx, fixture_cut_node, 31);
	(void)janitor_survey(j);
	CHECK_EQ(stats_of(j).blocks_compacted, 0);
	fixture_do(fx, fixture_heal, 0);
	collect_for(j, 14 * GRACE_NS);
	CHECK_EQ(check_whole(&jf), 1);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).blocks_compacted, 1);
	collect_for(j, 14 * GRACE_NS);
	CHECK_EQ(check_whole(&jf), 1);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(read_one(&jf, i), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(blocks_with_moved_files_are_compacted_too, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	make_dir(&jf, "/p");
	for (unsigned i = 0; i < 4; i++)
		pack(&jf, 10 * i, 10);
	CHECK_EQ(check_whole(&jf), 4);
	for (unsigned i = 0; i < FILES; i++)
		if (i % 5 != 0)
			drop(&jf, i);
	/* A moved file shares the block with its source. */
	struct call c;
	make_dir(&jf, "/q");
	engine_call(jf.engine, &c, NULL);
	CHECK_EQ(engine_rename(&c, "/p/5", "/q/5"), 0);
	rt_background();
	collect_for(j, 8 * GRACE_NS);
	/* Blocks of one share are compacted together: a few surveys suffice. */
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).blocks_compacted, 4);
	collect_for(j, 14 * GRACE_NS);
	CHECK_EQ(used_bytes(&jf), 8 * FILE_BYTES);
	for (unsigned i = 0; i < FILES; i += 5)
		CHECK_EQ(i == 5 ? read_text(&jf, "/q/5", text_of(5), FILE_BYTES) : read_one(&jf, i),
			 0);
	(void)check_whole(&jf);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

static void survey_fiber(void *arg)
{
	struct round *r = arg;
	rt_background();
	r->rc = janitor_survey(r->j);
	r->done = true;
}

/* Files are deleted and rewritten, one after the other, at all moments of a compaction. */
CLIENT_TEST(files_deleted_or_rewritten_during_a_compaction_are_right, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *collector = hire(&o);
	make_dir(&jf, "/p");
	pack(&jf, 0, FILES);
	for (unsigned i = 20; i < FILES; i++)
		drop(&jf, i);
	collect_for(collector, 8 * GRACE_NS);
	struct round r[2] = {{.j = hire(&o)}, {.j = hire(&o)}};
	struct rt_fiber *fibers[2];
	for (int i = 0; i < 2; i++)
		CHECK_EQ(rt_spawn(&fibers[i], "janitor", survey_fiber, &r[i]), 0);
	unsigned next = 0;
	while (next < 20 && !(r[0].done && r[1].done)) {
		if (next % 2 == 0)
			drop(&jf, next);
		if (next % 4 == 0) {
			char path[32];
			path_of(next, path);
			CHECK_EQ(write_text(&jf, path, 7, 500, "r2"), 0);
		}
		CHECK_EQ(read_one(&jf, next | 1), 0);
		next += 2;
		CHECK_EQ(rt_sleep_ns(NS_PER_MS), 0);
	}
	for (int i = 0; i < 2; i++) {
		rt_join(fibers[i]);
		CHECK_EQ(r[i].rc, 0);
	}
	CHECK(stats_of(r[0].j).blocks_compacted + stats_of(r[1].j).blocks_compacted > 0);
	CHECK(next > 2); /* some files changed during the compaction */
	CHECK_EQ(janitor_survey(collector), 0);
	for (int i = 0; i < 3; i++) {
		collect_for(collector, 5 * GRACE_NS);
		CHECK_EQ(janitor_orphans(collector), 0);
	}
	uint64_t want_bytes = 0;
	for (unsigned i = 0; i < 20; i++) {
		char path[32];
		path_of(i, path);
		bool gone = i < next && i % 2 == 0, anew = i < next && i % 4 == 0;
		if (anew)
			CHECK_EQ(read_text(&jf, path, 7, 500), 0);
		else if (gone)
			CHECK_EQ(read_one(&jf, i), -ENOENT);
		else
			CHECK_EQ(read_one(&jf, i), 0);
		want_bytes += anew ? 500 : gone ? 0 : FILE_BYTES;
	}
	/* Files that were deleted after they were gathered are dead bytes in the new block. */
	CHECK(used_bytes(&jf) >= want_bytes &&
	      used_bytes(&jf) <= want_bytes + UINT64_C(20) * FILE_BYTES);
	(void)check_whole(&jf);
	for (int i = 0; i < 2; i++)
		janitor_close(r[i].j);
	janitor_close(collector);
	janitor_fixture_close(&jf);
}

/* --- policies ---------------------------------------------------------------------------------- */

static void set_policy(struct janitor_fixture *jf, const char *name, const char *text)
{
	struct meta_note n = {.text = text};
	snprintf(n.name, sizeof(n.name), "%s", name);
	int rc = meta_client_note_put(&jf->root, &n);
	if (rc == -ESTALE)
		rc = meta_client_note_put(&jf->root, &n);
	CHECK_EQ(rc, 0);
}

static uint64_t id_of(struct janitor_fixture *jf, const char *path)
{
	struct call c;
	struct terrane_stat st;
	engine_call(jf->engine, &c, NULL);
	CHECK_EQ(engine_stat(&c, path, &st), 0);
	rt_background();
	return st.id;
}

/* Counts the sealed blocks of an encoding. */
static size_t count_of(struct janitor_fixture *jf, const char *encoding)
{
	size_t n = 0;
	for (struct meta_walk w = {.end = 1 << META_PARTITION_BITS}; w.index < w.end;) {
		struct meta_block_at at[32];
		struct arena a;
		arena_init(&a, 4 * MIB);
		int64_t got = meta_client_blocks(&jf->root, &w, &a, at, ARRAY_LEN(at));
		CHECK(got >= 0);
		for (int64_t i = 0; i < got; i++)
			n += strcmp(at[i].block.encoding, encoding) == 0;
		arena_fini(&a);
	}
	return n;
}

CLIENT_TEST(sealed_replicas_get_the_encoding_of_the_nearest_policy, 6, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	make_dir(&jf, "/hot");
	make_dir(&jf, "/cold");
	make_dir(&jf, "/cold/deep");
	CHECK_EQ(write_text(&jf, "/hot/a", 1, TEXT_BYTES, "r3"), 0);
	CHECK_EQ(write_text(&jf, "/cold/b", 2, TEXT_BYTES, "r3"), 0);
	CHECK_EQ(write_text(&jf, "/cold/deep/c", 3, TEXT_BYTES, "r3"), 0);
	CHECK_EQ(write_text(&jf, "/cold/d", 4, TEXT_BYTES, "rs:3+2"), 0);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	size_t each = count_of(&jf, "r3") / 3, before = chunks_everywhere(&jf);
	uint64_t used = used_bytes(&jf);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).blocks_reencoded, 0);
	char name[META_NOTE_NAME_MAX + 1];
	snprintf(name, sizeof(name), "policy/00000001/%016lx", id_of(&jf, "/cold"));
	set_policy(&jf, name, "{\"encoding\": \"rs:2+1\", \"after_ns\": 100000000000}");
	set_policy(&jf, "policy/junk", "not JSON");
	/* The files are younger than after_ns. */
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).blocks_reencoded, 0);
	CHECK_EQ(rt_sleep_ns(100 * NS_PER_S), 0);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).blocks_reencoded, 2 * each);
	CHECK_EQ(count_of(&jf, "rs:2+1"), 2 * each);
	CHECK_EQ(count_of(&jf, "r3"), each);
	/* The old chunks stay for the grace period. */
	CHECK_EQ(chunks_everywhere(&jf), before + 2 * each * 3);
	(void)check_whole(&jf);
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(stats_of(j).blocks_reencoded, 2 * each);
	/* A policy for the tenant, with /hot excluded. */
	set_policy(&jf, "policy/00000001", "{\"encoding\": \"rs:3+1\"}");
	snprintf(name, sizeof(name), "policy/00000001/%016lx", id_of(&jf, "/hot"));
	set_policy(&jf, name, "{\"encoding\": \"keep\"}");
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(count_of(&jf, "r3"), each);
	set_policy(&jf, name, "");
	CHECK_EQ(janitor_survey(j), 0);
	CHECK_EQ(count_of(&jf, "r3"), 0);
	CHECK_EQ(count_of(&jf, "rs:3+1"), each);
	collect_for(j, 6 * GRACE_NS);
	(void)check_whole(&jf);
	CHECK_EQ(used_bytes(&jf), used);
	CHECK_EQ(chunks_everywhere(&jf), 2 * each * 3 + each * 4 + count_of(&jf, "rs:3+2") * 5);
	CHECK_EQ(read_text(&jf, "/hot/a", 1, TEXT_BYTES), 0);
	CHECK_EQ(read_text(&jf, "/cold/b", 2, TEXT_BYTES), 0);
	CHECK_EQ(read_text(&jf, "/cold/deep/c", 3, TEXT_BYTES), 0);
	CHECK_EQ(read_text(&jf, "/cold/d", 4, TEXT_BYTES), 0);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

/* Each of three disks has a replica of each block. */
CLIENT_TEST(rewriting_keeps_to_the_bandwidth_of_disks_and_janitors, 3, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	struct janitor_options o = quick();
	o.disk_bytes_per_s = 500000; /* repair may use 20%: 100 KB/s */
	struct janitor *j = hire(&o), *k = hire(&o);
	uint64_t spent_ns[2];
	for (int i = 0; i < 2; i++) {
		char dir[16], file[24], name[META_NOTE_NAME_MAX + 1];
		snprintf(dir, sizeof(dir), "/%d", i);
		snprintf(file, sizeof(file), "/%d/f", i);
		make_dir(&jf, dir);
		CHECK_EQ(write_text(&jf, file, 1, 1280 * KIB, "r3"), 0);
		snprintf(name, sizeof(name), "policy/00000001/%016lx", id_of(&jf, dir));
		set_policy(&jf, name, "{\"encoding\": \"rs:2+1\"}");
		/* time until the pacers admit bytes at once again */
		CHECK_EQ(rt_sleep_ns(20 * NS_PER_S), 0);
		CHECK_EQ(janitor_report(j), 0);
		CHECK_EQ(stats_of(j).janitors, i == 0 ? 1 : 2);
		uint64_t begin_ns = rt_now_ns();
		CHECK_EQ(janitor_survey(j), 0);
		spent_ns[i] = rt_now_ns() - begin_ns;
		CHECK_EQ(count_of(&jf, "r3"), 0);
		CHECK_EQ(janitor_report(k), 0);
	}
	/*
	 * For each block each disk is charged the length of a replica. The charge of the last block
	 * delays no other block.
	 */
	CHECK(spent_ns[0] >= 1152 * KIB * NS_PER_S / 100000);
	CHECK(spent_ns[1] > spent_ns[0] * 3 / 2);
	janitor_close(k);
	janitor_close(j);
	janitor_fixture_close(&jf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mostly_dead_blocks_are_compacted_and_deleted),
		cmocka_unit_test(a_rewritten_block_lacks_no_chunk),
		cmocka_unit_test(blocks_with_moved_files_are_compacted_too),
		cmocka_unit_test(files_deleted_or_rewritten_during_a_compaction_are_right),
		cmocka_unit_test(sealed_replicas_get_the_encoding_of_the_nearest_policy),
		cmocka_unit_test(rewriting_keeps_to_the_bandwidth_of_disks_and_janitors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
