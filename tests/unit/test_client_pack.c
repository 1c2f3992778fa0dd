// SPDX-License-Identifier: Apache-2.0
/*
 * Tests of small files of many directories in shared blocks: directories that are missing or removed during the call, a
 * quota that is exhausted in the middle, writers that crash, metadata that fails, and what is left on disks afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "janitor_fixture.h"
#include "kv/mem.h"

#define DIRS 12
#define FILES ((size_t)2 * DIRS)
#define FILE_BYTES ((uint64_t)3000)
#define IN_BLOCK (64 * KIB / FILE_BYTES) /* files; all of them take two blocks */
#define CHUNKS 3                         /* number of chunks of a block */

static const struct terrane_options options = {.encoding = "rs:2+1", .block_bytes = 64 * KIB};

/* File i is /set/dNN/fM; neighbouring files are in different directories. */
struct set {
	char names[FILES][32];
	uint8_t bytes[FILES][FILE_BYTES];
	struct terrane_small files[FILES];
};
static struct set set;

static void set_fill(void)
{
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(set.names[i], sizeof(set.names[i]), "d%02u/f%u", i % DIRS, i / DIRS);
		fixture_fill(i, 0, set.bytes[i], FILE_BYTES);
		set.files[i] = (struct terrane_small){
			.name = set.names[i], .data = set.bytes[i], .len = FILE_BYTES};
	}
}

static void dir_path(unsigned d, char out[32])
{
	snprintf(out, 32, "/set/d%02u", d);
}

static void dirs_make(struct engine *e)
{
	struct call c;
	char path[32];
	engine_call(e, &c, NULL);
	for (unsigned d = 0; d < DIRS; d++) {
		dir_path(d, path);
		CHECK_EQ(engine_mkdir(&c, path, TERRANE_PARENTS), 0);
	}
	rt_background();
}

static int set_pack(struct engine *e, unsigned flags)
{
	struct call c;
	engine_call(e, &c, &options);
	int rc = engine_pack(&c, "/set", set.files, FILES, flags, &options);
	if (rc < 0 && rc != -ECANCELED)
		CHECK(c.error[0] != '\0');
	rt_background();
	return rc;
}

/* Returns whether file i exists; checks that it is complete. */
static bool is_there(struct janitor_fixture *jf, unsigned i)
{
	char path[64];
	snprintf(path, sizeof(path), "/set/%s", set.names[i]);
	int rc = read_text(jf, path, i, FILE_BYTES);
	CHECK(rc == 0 || rc == -ENOENT);
	return rc == 0;
}

static unsigned count_there(struct janitor_fixture *jf)
{
	unsigned n = 0;
	for (unsigned i = 0; i < FILES; i++)
		n += is_there(jf, i);
	return n;
}

/* Removes and collects the set, and checks that nothing of it is left on disks or in the
 * account. */
static void all_goes(struct janitor_fixture *jf)
{
	struct janitor_options o = quick();
	struct janitor *j = hire(&o);
	for (unsigned i = 0; i < FILES; i++) {
		char path[64];
		snprintf(path, sizeof(path), "/set/%s", set.names[i]);
		int rc = remove_path(jf, path);
		CHECK(rc == 0 || rc == -ENOENT);
	}
	/* A chunk whose block has no record is deleted after two sweeps. */
	for (int i = 0; i < 3; i++) {
		collect_for(j, 5 * GRACE_NS);
		CHECK_EQ(janitor_orphans(j), 0);
	}
	CHECK_EQ(used_bytes(jf), 0);
	CHECK_EQ(chunks_everywhere(jf), 0);
	janitor_close(j);
}

/* --- sharing ---------------------------------------------------------------------------------- */

CLIENT_TEST(files_of_many_directories_share_blocks_that_go_with_the_last_of_them, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	dirs_make(jf.engine);
	set_fill();
	CHECK_EQ(set_pack(jf.engine, 0), 0);
	CHECK_EQ(engine_fabric(jf.engine)->shared->stats.blocks_written, 2);
	CHECK_EQ(check_whole(&jf), 2);
	CHECK_EQ(used_bytes(&jf), FILES * FILE_BYTES);
	CHECK_EQ(count_there(&jf), FILES);
	for (unsigned i = 0; i < FILES; i++)
		CHECK(set.files[i].result == 0 && set.files[i].id != 0);
	/* The same files again: each fails with -EEXIST. A new name among them is created. */
	snprintf(set.names[5], sizeof(set.names[5]), "d05/new");
	CHECK_EQ(set_pack(jf.engine, 0), -EEXIST);
	for (unsigned i = 0; i < FILES; i++)
		CHECK_EQ(set.files[i].result, i == 5 ? 0 : -EEXIST);
	CHECK_EQ(set_pack(jf.engine, TERRANE_REPLACE), 0);
	CHECK_EQ(count_there(&jf), FILES);
	CHECK_EQ(remove_path(&jf, "/set/d05/f0"), 0);
	all_goes(&jf);
	janitor_fixture_close(&jf);
}

CLIENT_TEST(names_are_paths_below_the_directory, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	dirs_make(jf.engine);
	/* Extra slashes are ignored. A file of the directory itself and an empty one are in the
	 * same call. */
	static const char *const names[] = {"/d00/a", "d00//b", "d01/c/",  "here",
					    "/there", "d00/b2", "d01/nil", "d00/a"};
	/* expected results; the last name is given twice and refused */
	static const int results[] = {0, 0, 0, 0, 0, 0, 0, -EINVAL};
	struct terrane_small files[ARRAY_LEN(names)];
	for (unsigned i = 0; i < ARRAY_LEN(names); i++)
		files[i] = (struct terrane_small){
			.name = names[i], .data = "text", .len = i == 6 ? 0 : 4};
	struct call c;
	engine_call(jf.engine, &c, &options);
	CHECK_EQ(engine_pack(&c, "/set/", files, ARRAY_LEN(names), 0, &options), -EINVAL);
	for (unsigned i = 0; i < ARRAY_LEN(names); i++)
		CHECK_EQ(files[i].result, results[i]);
	CHECK_EQ(engine_fabric(jf.engine)->shared->stats.blocks_written, 1);
	static const char *const paths[] = {"/set/d00/a", "/set/d00/b",  "/set/d01/c",  "/set/here",
					    "/set/there", "/set/d00/b2", "/set/d01/nil"};
	for (unsigned i = 0; i < ARRAY_LEN(paths); i++) {
		struct terrane_stat st;
		CHECK_EQ(engine_stat(&c, paths[i], &st), 0);
		CHECK(st.id == files[i].id && st.size == files[i].len && st.sealed);
	}
	/* The names are absolute paths, so the directory of the call is the root. */
	struct terrane_small two[] = {{.name = "/set/d02/x", .data = "x", .len = 1},
				      {.name = "/y", .data = "y", .len = 1}};
	CHECK_EQ(engine_pack(&c, "/", two, 2, 0, &options), 0);
	struct terrane_stat st;
	CHECK_EQ(engine_stat(&c, "/set/d02/x", &st), 0);
	CHECK_EQ(engine_stat(&c, "/y", &st), 0);
	janitor_fixture_close(&jf);
}

/* --- directories that are not there ------------------------------------------------------------ */

CLIENT_TEST(a_directory_that_is_not_there_is_the_trouble_of_its_own_files, 4, 1)
{
	struct janitor_fixture jf;
	struct call c;
	janitor_fixture_open(&jf, fx);
	dirs_make(jf.engine);
	CHECK_EQ(write_text(&jf, "/set/file", 1, 100, "rs:2+1"), 0);
	engine_call(jf.engine, &c, NULL);
	CHECK_EQ(engine_remove(&c, "/set/d00"), 0);
	CHECK_EQ(engine_seal(&c, "/set/d01", NULL), 0);
	CHECK_EQ(engine_mkdir(&c, "/set/d02/f0", 0), 0);
	set_fill();
	snprintf(set.names[3], sizeof(set.names[3]), "file/f0");
	snprintf(set.names[4], sizeof(set.names[4]), "../f0");
	snprintf(set.names[5], sizeof(set.names[5]), "d05/..");
	snprintf(set.names[6], sizeof(set.names[6]), "d06/\xff");
	snprintf(set.names[7], sizeof(set.names[7]), "/");
	static const int results[DIRS] = {-ENOENT, -EROFS,  -EISDIR, -ENOTDIR,
					  -EINVAL, -EINVAL, -EILSEQ, -EINVAL};
	/* Directories are looked up at the same time: the first error is that of the call. */
	int first = set_pack(jf.engine, TERRANE_REPLACE);
	CHECK(first == -ENOENT || first == -EROFS || first == -EISDIR || first == -ENOTDIR ||
	      first == -EINVAL || first == -EILSEQ);
	for (unsigned i = 0; i < FILES; i++) {
		int want = i < DIRS || i % DIRS < 2 ? results[i % DIRS] : 0;
		CHECK_EQ(set.files[i].result, want);
		CHECK_EQ(set.files[i].id != 0, want == 0);
	}
	set_fill();
	/* removes the directory that was made in place of a file */
	CHECK_EQ(remove_path(&jf, "/set/d02/f0"), 0);
	CHECK_EQ(count_there(&jf), FILES - 4 - 6);
	/* Refused files own nothing of a block any more when it is collected. */
	CHECK_EQ(remove_path(&jf, "/set/file"), 0);
	all_goes(&jf);
	janitor_fixture_close(&jf);
}

struct remover {
	struct engine *engine;
	uint64_t after_ns;
	bool all;
	int rc[DIRS];
	bool begun;
};

static void remover_fiber(void *arg)
{
	struct remover *r = arg;
	struct call c;
	char path[32];
	engine_call(r->engine, &c, NULL);
	CHECK_EQ(rt_sleep_ns(r->after_ns), 0);
	r->begun = true;
	for (unsigned d = 0; d < DIRS; d += r->all ? 1 : 3) {
		dir_path(d, path);
		r->rc[d] = engine_remove(&c, path);
		CHECK(r->rc[d] == 0 || r->rc[d] == -ENOTEMPTY);
	}
}

static unsigned removals, survivals;

/* Directories are removed after this time: each is removed or has its files. */
static void race(struct janitor_fixture *jf, uint64_t after_ns, bool all, bool *late)
{
	struct rt_group g;
	struct remover r = {.engine = jf->engine, .after_ns = after_ns, .all = all};
	rt_group_init(&g);
	dirs_make(jf->engine);
	set_fill();
	CHECK_EQ(rt_group_spawn(&g, "remover", remover_fiber, &r), 0);
	int rc = set_pack(jf->engine, TERRANE_REPLACE);
	*late = !r.begun;
	rt_group_join(&g);
	CHECK(rc == 0 || rc == -ENOENT);
	unsigned gone = 0;
	for (unsigned i = 0; i < FILES; i++) {
		unsigned d = i % DIRS;
		bool removed = (all || d % 3 == 0) && r.rc[d] == 0;
		int result = set.files[i].result;
		CHECK_EQ(result, removed ? -ENOENT : 0);
		CHECK_EQ(is_there(jf, i), result == 0);
		gone += removed;
	}
	CHECK_EQ(rc<0, gone> 0);
	removals += gone > 0;
	survivals += gone == 0;
}

static void race_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	for (int all = 0; all < 2; all++) {
		bool late = false;
		for (uint64_t after = 0; !late; after += 300 * NS_PER_US) {
			race(&jf, after, all, &late);
			for (unsigned i = 0; i < FILES; i++) {
				char path[64];
				snprintf(path, sizeof(path), "/set/%s", set.names[i]);
				(void)remove_path(&jf, path);
			}
		}
	}
	all_goes(&jf);
	janitor_fixture_close(&jf);
}

static void directories_removed_meanwhile_go_or_have_their_files(void **state)
{
	(void)state;
	removals = survivals = 0;
	fixture_run_all(4, 1, race_body);
	print_message("%u packs lost directories, %u did not\n", removals, survivals);
	assert_true(removals > 5 && survivals > 1);
}

/* --- quota -------------------------------------------------------------------------------------- */

CLIENT_TEST(a_quota_met_in_the_middle_refuses_whole_blocks_and_leaves_nothing, 4, 1)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	dirs_make(jf.engine);
	set_fill();
	/* The first block fits, the second does not; they are written together. */
	CHECK_EQ(meta_client_tenant_set_quota(&jf.root, 1, IN_BLOCK * FILE_BYTES), 0);
	CHECK_EQ(set_pack(jf.engine, 0), -EDQUOT);
	for (unsigned i = 0; i < FILES; i++) {
		int result = set.files[i].result;
		CHECK(result == 0 || result == -EDQUOT);
		CHECK_EQ(is_there(&jf, i), result == 0);
		CHECK_EQ(result == 0, set.files[i / IN_BLOCK * IN_BLOCK].result == 0);
	}
	unsigned there = count_there(&jf);
	CHECK(there == IN_BLOCK || there == FILES - IN_BLOCK);
	/* The error that stopped the call is returned, not the earlier error of a file. */
	snprintf(set.names[0], sizeof(set.names[0]), "gone/f0");
	CHECK_EQ(set_pack(jf.engine, 0), -EDQUOT);
	CHECK_EQ(set.files[0].result, -ENOENT);
	set_fill();
	/* With a larger quota the other files are written. */
	CHECK_EQ(meta_client_tenant_set_quota(&jf.root, 1, 0), 0);
	CHECK_EQ(set_pack(jf.engine, 0), -EEXIST);
	CHECK_EQ(count_there(&jf), FILES);
	all_goes(&jf);
	janitor_fixture_close(&jf);
}

/* --- writers that die ----------------------------------------------------------------------------- */

static uint64_t crash_at;
static bool told, begun;
static unsigned partly; /* runs that created some of the files */

static void writer_main(void *arg)
{
	(void)arg;
	struct engine *e;
	if (!begun && fixture_engine_open(NULL, &(struct fabric_options){0}, &e) == 0) {
		begun = true;
		told = set_pack(e, 0) == 0;
		engine_close(e);
	}
	rt_shutdown_wait();
}

static void start_writer(struct client_fixture *fx, uint64_t unused)
{
	(void)unused;
	fx->other = sim_node_add(fx->sim, "writer", 100);
	sim_node_start(fx->other, writer_main, fx);
	sim_node_crash_at(fx->other, crash_at, false);
}

static void stop_writer(struct client_fixture *fx, uint64_t unused)
{
	(void)unused;
	sim_node_stop(fx->other);
}

static void crash_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	dirs_make(jf.engine);
	set_fill();
	fixture_do(fx, start_writer, 0);
	while (!told && sim_node_lives(fx->other) < 2 && sim_node_running(fx->other))
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	fixture_do(fx, stop_writer, 0);
	CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	unsigned there = count_there(&jf);
	if (told)
		CHECK_EQ(there, FILES);
	partly += there > 0 && there < FILES;
	/* The user repeats the call with the flag to replace files. */
	CHECK_EQ(set_pack(jf.engine, TERRANE_REPLACE), 0);
	CHECK_EQ(count_there(&jf), FILES);
	all_goes(&jf);
	janitor_fixture_close(&jf);
}

static void a_writer_that_dies_at_any_wait_leaves_whole_files_and_no_rest(void **state)
{
	(void)state;
	unsigned runs = 0;
	partly = 0;
	told = false;
	/* In large steps at first; then at each wait, because few of them lie between the first name
	 * and the last. */
	for (crash_at = 1; !told; crash_at += crash_at < 100 ? 7 : 1, runs++) {
		begun = false;
		fixture_run_all(4, 1, crash_body);
	}
	print_message("%u runs, %u with some of the files\n", runs, partly);
	assert_true(runs > 20 && partly > 2);
}

/* --- metadata that fails --------------------------------------------------------------------------- */

static uint64_t fail_at;
static enum kv_mem_fate fate;
static bool struck;

static void faulty_body(struct client_fixture *fx)
{
	struct janitor_fixture jf;
	janitor_fixture_open(&jf, fx);
	dirs_make(jf.engine);
	set_fill();
	kv_mem_fail_at(fx->kv, fail_at, fate);
	told = set_pack(jf.engine, 0) == 0;
	struck = !kv_mem_fail_pending(fx->kv);
	kv_mem_fail_at(fx->kv, 0, fate);
	CHECK_EQ(count_there(&jf), FILES);
	CHECK_EQ(engine_fabric(jf.engine)->shared->stats.blocks_written, 2);
	janitor_fixture_close(&jf);
}

static void metadata_that_fails_once_is_asked_again(void **state)
{
	(void)state;
	static const enum kv_mem_fate fates[] = {KV_MEM_REQUEST_LOST, KV_MEM_REPLY_LOST,
						 KV_MEM_LATE};
	for (size_t f = 0; f < ARRAY_LEN(fates); f++) {
		fate = fates[f];
		struck = true;
		for (fail_at = 1; struck; fail_at += 1 + fail_at / 8) {
			fixture_run_faulty(4, faulty_body);
			assert_true(told); /* a single failure must not reach the user */
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			files_of_many_directories_share_blocks_that_go_with_the_last_of_them),
		cmocka_unit_test(names_are_paths_below_the_directory),
		cmocka_unit_test(a_directory_that_is_not_there_is_the_trouble_of_its_own_files),
		cmocka_unit_test(directories_removed_meanwhile_go_or_have_their_files),
		cmocka_unit_test(a_quota_met_in_the_middle_refuses_whole_blocks_and_leaves_nothing),
		cmocka_unit_test(a_writer_that_dies_at_any_wait_leaves_whole_files_and_no_rest),
		cmocka_unit_test(metadata_that_fails_once_is_asked_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
