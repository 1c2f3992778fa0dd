// SPDX-License-Identifier: Apache-2.0
/* Tests of the client engine against a simulated cluster: names, sealed files, packed files,
 * reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "client_fixture.h"

/* --- helpers ---------------------------------------------------------------------------------- */

static struct engine *open_engine(struct client_fixture *fx)
{
	struct engine *e;
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){0}, &e), 0);
	return e;
}

static int write_parts(struct engine *e, const char *path, uint64_t text, uint64_t len,
		       uint64_t part, const struct terrane_options *o)
{
	struct call c;
	engine_call(e, &c, o);
	struct efile *f;
	int rc = engine_create(&c, path, TERRANE_REPLACE, o, &f);
	uint8_t *bytes = malloc(part);
	CHECK(bytes != NULL);
	for (uint64_t at = 0; rc == 0 && at < len; at += part) {
		uint64_t n = min_u64(part, len - at);
		fixture_fill(text, at, bytes, n);
		struct iovec iov = {bytes, n};
		rc = engine_append(&c, f, &iov, 1, NULL);
		if (rc < 0)
			engine_file_discard(f);
	}
	free(bytes);
	return rc < 0 ? rc : engine_file_close(&c, f);
}

static int write_file(struct engine *e, const char *path, uint64_t text, uint64_t len,
		      const struct terrane_options *o)
{
	return write_parts(e, path, text, len, len > 0 ? len : 1, o);
}

/* Reads [off, off + ask) and compares the bytes with the text, up to the end of the file. */
static int64_t read_range(struct engine *e, struct efile *f, uint64_t text, uint64_t off,
			  uint64_t ask)
{
	struct call c;
	engine_call(e, &c, NULL);
	uint8_t *bytes = malloc(ask + 1);
	CHECK(bytes != NULL);
	struct iovec iov = {bytes, ask};
	uint32_t crc;
	int64_t got = engine_preadv(&c, f, &iov, 1, off, &crc);
	if (got >= 0) {
		CHECK(fixture_same(text, off, bytes, (size_t)got));
		CHECK_EQ(crc, crc32c(0, bytes, (size_t)got));
	} else {
		fprintf(stderr, "read: %s\n", c.error);
	}
	free(bytes);
	return got;
}

static int64_t read_file(struct engine *e, const char *path, uint64_t text, uint64_t off,
			 uint64_t ask)
{
	struct call c;
	engine_call(e, &c, NULL);
	struct efile *f;
	int rc = engine_file_open(&c, path, &f);
	if (rc < 0)
		return rc;
	int64_t got = read_range(e, f, text, off, ask);
	CHECK_EQ(engine_file_close(&c, f), 0);
	return got;
}

static int stat_file(struct engine *e, const char *path, struct terrane_stat *st)
{
	struct call c;
	engine_call(e, &c, NULL);
	return engine_stat(&c, path, st);
}

static int create_empty(struct call *c, const char *path)
{
	struct efile *f;
	int rc = engine_create(c, path, 0, NULL, &f);
	return rc < 0 ? rc : engine_file_close(c, f);
}

/* --- names ------------------------------------------------------------------------------------ */

CLIENT_TEST(names_do_what_the_shell_expects, 6, 1)
{
	struct engine *e = open_engine(fx);
	struct call c;
	struct terrane_stat st;
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_mkdir(&c, "/a/b", 0), -ENOENT);
	CHECK_EQ(engine_mkdir(&c, "/a", 0), 0);
	CHECK_EQ(engine_mkdir(&c, "/a", 0), -EEXIST);
	CHECK_EQ(engine_mkdir(&c, "a/b/c/d", TERRANE_PARENTS), 0);
	CHECK_EQ(engine_mkdir(&c, "/a/b/c/d/", TERRANE_PARENTS), 0);
	CHECK_EQ(engine_mkdir(&c, "/", TERRANE_PARENTS), 0);
	CHECK_EQ(engine_mkdir(&c, "/", 0), -EINVAL);
	CHECK_EQ(engine_stat(&c, "/", &st), 0);
	CHECK_EQ(st.kind, TERRANE_DIRECTORY);
	CHECK_EQ(write_file(e, "/a/b/f", 1, 5000, NULL), 0);
	CHECK_EQ(stat_file(e, "/a/b/f", &st), 0);
	CHECK_EQ(st.size, 5000);
	CHECK_EQ(st.kind, TERRANE_FILE);
	CHECK(st.sealed);
	uint64_t id = st.id;
	CHECK_EQ(engine_stat_id(&c, id, &st), 0);
	CHECK_EQ(st.size, 5000);
	CHECK_EQ(engine_mkdir(&c, "/a/b/f/g", TERRANE_PARENTS), -ENOTDIR);
	CHECK_EQ(engine_remove(&c, "/a/b"), -ENOTEMPTY);
	CHECK_EQ(engine_rename(&c, "/a/b/f", "/a/b/\xf0\x9f\x98\x80 x"), 0);
	CHECK_EQ(engine_stat(&c, "/a/b/f", &st), -ENOENT);
	CHECK_EQ(engine_rename(&c, "/a/b/\xf0\x9f\x98\x80 x", "/top"), 0);
	CHECK_EQ(read_file(e, "/top", 1, 0, 6000), 5000);
	CHECK_EQ(engine_rename(&c, "/a/b", "/b2"), 0);
	CHECK_EQ(engine_stat(&c, "/b2/c/d", &st), 0);
	CHECK_EQ(engine_rename(&c, "/b2", "/b2/c/in"), -EINVAL);
	CHECK_EQ(engine_remove(&c, "/top"), 0);
	CHECK_EQ(engine_remove(&c, "/top"), -ENOENT);
	CHECK_EQ(engine_remove(&c, "/b2/c/d"), 0);
	CHECK_EQ(engine_stat(&c, "/b2/c/d", &st), -ENOENT);
	engine_close(e);
}

CLIENT_TEST(lists_give_every_entry_once_with_its_id, 6, 1)
{
	struct engine *e = open_engine(fx);
	struct call c;
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_mkdir(&c, "/l", 0), 0);
	char path[32];
	for (int i = 0; i < 25; i++) {
		snprintf(path, sizeof(path), "/l/%02d", i);
		CHECK_EQ(write_file(e, path, 1, (uint64_t)i, NULL), 0);
	}
	struct terrane_cursor at = {0};
	struct terrane_entry entries[10];
	int seen = 0;
	int64_t n;
	while ((n = engine_list(&c, "/l", &at, entries, 10)) > 0) {
		for (int64_t i = 0; i < n; i++, seen++) {
			snprintf(path, sizeof(path), "%02d", seen);
			CHECK(strcmp(entries[i].name, path) == 0);
			CHECK_EQ(entries[i].size, seen);
			CHECK_EQ(entries[i].kind, TERRANE_FILE);
			struct efile *f;
			CHECK_EQ(engine_file_open_id(&c, entries[i].id, &f), 0);
			CHECK_EQ(read_range(e, f, 1, 0, 100), seen);
			CHECK_EQ(engine_file_close(&c, f), 0);
		}
	}
	CHECK_EQ(n, 0);
	CHECK_EQ(seen, 25);
	at = (struct terrane_cursor){0};
	CHECK_EQ(engine_list(&c, "/l/00", &at, entries, 10), -ENOTDIR);
	CHECK_EQ(engine_list(&c, "/none", &at, entries, 10), -ENOENT);
	engine_close(e);
}

/* --- sealed files ----------------------------------------------------------------------------- */

#define BLOCK (256 * KIB)

CLIENT_TEST(files_of_every_size_come_back, 8, 1)
{
	static const uint64_t sizes[] = {0,         1,         4095,          4096,
					 BLOCK / 4, BLOCK - 1, BLOCK,         BLOCK + 1,
					 2 * BLOCK, 3 * BLOCK, 5 * BLOCK + 77};
	static const char *const encodings[] = {"rs:4+2", "r3", "lrc:4+2+1"};
	struct engine *e = open_engine(fx);
	for (size_t k = 0; k < ARRAY_LEN(encodings); k++) {
		struct terrane_options o = {.encoding = encodings[k], .block_bytes = BLOCK};
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
			uint64_t size = sizes[i];
			struct terrane_stat st;
			CHECK_EQ(write_parts(e, "/f", size, size, 100001, &o), 0);
			CHECK_EQ(stat_file(e, "/f", &st), 0);
			CHECK_EQ(st.size, size);
			CHECK_EQ(read_file(e, "/f", size, 0, size + 10), size);
			if (size > 10)
				CHECK_EQ(read_file(e, "/f", size, size - 7, 100), 7);
			if (size > BLOCK)
				CHECK_EQ(read_file(e, "/f", size, BLOCK - 5, 10),
					 min_u64(size - BLOCK + 5, 10));
			CHECK_EQ(read_file(e, "/f", size, size, 1), 0);
			CHECK_EQ(read_file(e, "/f", size, size + 1000, 5), 0);
		}
	}
	engine_close(e);
}

CLIENT_TEST(a_file_is_visible_when_it_is_closed, 6, 1)
{
	struct engine *e = open_engine(fx);
	struct terrane_options o = {.block_bytes = BLOCK};
	struct call c;
	struct terrane_stat st;
	struct efile *f;
	uint8_t *bytes = calloc(1, 3 * BLOCK);
	CHECK(bytes != NULL);
	struct iovec iov = {bytes, 3 * BLOCK};
	engine_call(e, &c, &o);
	CHECK_EQ(engine_create(&c, "/f", 0, &o, &f), 0);
	CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
	CHECK_EQ(engine_flush(&c, f), 0);
	CHECK_EQ(engine_file_stat(&c, f, &st), 0);
	CHECK_EQ(st.size, 3 * BLOCK);
	CHECK_EQ(stat_file(e, "/f", &st), -ENOENT);
	engine_file_discard(f);
	CHECK_EQ(stat_file(e, "/f", &st), -ENOENT);
	/* Another client takes the name between create and close. */
	CHECK_EQ(engine_create(&c, "/f", 0, &o, &f), 0);
	CHECK_EQ(write_file(e, "/f", 9, 1000, NULL), 0);
	CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), -EEXIST);
	CHECK_EQ(engine_file_close(&c, f), -EEXIST);
	CHECK_EQ(read_file(e, "/f", 9, 0, 2000), 1000);
	CHECK_EQ(create_empty(&c, "/f"), -EEXIST);
	CHECK(strstr(c.error, "/f: exists already") != NULL);
	CHECK_EQ(engine_create(&c, "/", 0, &o, &f), -EINVAL);
	CHECK_EQ(engine_mkdir(&c, "/d", 0), 0);
	CHECK_EQ(create_empty(&c, "/d"), -EISDIR);
	CHECK_EQ(engine_file_open(&c, "/d", &f), -EISDIR);
	/* The encoding needs more disks than the cluster has. */
	o.encoding = "rs:9+6";
	CHECK_EQ(engine_create(&c, "/g", 0, &o, &f), -ENOSPC);
	CHECK(strstr(c.error, "rs:9+6 needs 15 disks; 6 accept new data") != NULL);
	o.encoding = "rs:4+";
	CHECK_EQ(engine_create(&c, "/g", 0, &o, &f), -EINVAL);
	free(bytes);
	engine_close(e);
}

static bool is_there(struct engine *e, const char *path)
{
	struct terrane_stat st;
	int rc = stat_file(e, path, &st);
	CHECK(rc == 0 || rc == -ENOENT);
	return rc == 0;
}

/* The client knows the directories from earlier files, and another client moves and removes them. */
CLIENT_TEST(a_file_goes_where_its_path_leads_when_it_is_closed, 6, 1)
{
	struct engine *e = open_engine(fx), *other = open_engine(fx);
	struct call c, oc;
	struct efile *f;
	uint8_t bytes[1000];
	struct iovec iov = {bytes, sizeof(bytes)};
	fixture_fill(5, 0, bytes, sizeof(bytes));
	engine_call(other, &oc, NULL);
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_mkdir(&oc, "/a", 0), 0);
	CHECK_EQ(write_file(e, "/a/first", 1, 1000, NULL), 0);
	/* Another directory has the path. */
	CHECK_EQ(engine_create(&c, "/a/f", 0, NULL, &f), 0);
	CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
	CHECK_EQ(engine_rename(&oc, "/a", "/b"), 0);
	CHECK_EQ(engine_mkdir(&oc, "/a", 0), 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	CHECK_EQ(read_file(e, "/a/f", 5, 0, 2000), 1000);
	CHECK(!is_there(e, "/b/f") && is_there(e, "/b/first"));
	/* Nothing has the path, or a file. */
	CHECK_EQ(create_empty(&c, "/a/g"), 0);
	CHECK_EQ(engine_rename(&oc, "/a", "/c"), 0);
	CHECK_EQ(create_empty(&c, "/a/h"), -ENOENT);
	CHECK_EQ(write_file(e, "/a/h", 1, 1000, NULL), -ENOENT);
	CHECK_EQ(create_empty(&oc, "/a"), 0);
	CHECK_EQ(create_empty(&c, "/a/h"), -ENOTDIR);
	CHECK(!is_there(e, "/c/h"));
	/* The name is a file in the directory that has the path now. */
	CHECK_EQ(create_empty(&c, "/b/g"), 0);
	CHECK_EQ(engine_rename(&oc, "/b", "/d"), 0);
	CHECK_EQ(engine_rename(&oc, "/c", "/b"), 0);
	CHECK_EQ(create_empty(&c, "/b/f"), -EEXIST);
	CHECK_EQ(write_file(e, "/b/f", 8, 500, NULL), 0);
	CHECK_EQ(read_file(e, "/b/f", 8, 0, 2000), 500);
	engine_close(other);
	engine_close(e);
}

CLIENT_TEST(the_applications_checksum_is_kept_to_the_end, 6, 1)
{
	struct engine *e = open_engine(fx);
	struct call c;
	struct efile *f;
	uint8_t bytes[1000];
	fixture_fill(1, 0, bytes, sizeof(bytes));
	struct iovec iov[2] = {{bytes, 400}, {bytes + 400, 600}};
	uint32_t crc = crc32c(0, bytes, sizeof(bytes));
	uint32_t wrong = crc ^ 1;
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_create(&c, "/f", 0, NULL, &f), 0);
	CHECK_EQ(engine_append(&c, f, iov, 2, &crc), 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	CHECK_EQ(read_file(e, "/f", 1, 0, 1000), 1000);
	CHECK_EQ(engine_create(&c, "/g", 0, NULL, &f), 0);
	CHECK_EQ(engine_append(&c, f, iov, 2, &wrong), -EBADMSG);
	CHECK_EQ(engine_append(&c, f, iov, 2, &crc), -EBADMSG);
	CHECK_EQ(engine_file_close(&c, f), -EBADMSG);
	struct terrane_stat st;
	CHECK_EQ(stat_file(e, "/g", &st), -ENOENT);
	engine_close(e);
}

/* Appends to eight files in turns; the block of each has more than an eighth of the memory. */
CLIENT_TEST(files_do_not_wait_for_each_others_memory, 6, 1)
{
	struct engine *e;
	CHECK_EQ(fixture_engine_open(fx, &(struct fabric_options){.memory_bytes = 32 * MIB}, &e),
		 0);
	struct terrane_options o = {.block_bytes = 8 * MIB, .timeout_ms = 20000};
	struct efile *files[8];
	struct call c;
	uint8_t *bytes = malloc(MIB);
	CHECK(bytes != NULL);
	char path[16];
	for (uint64_t i = 0; i < 8; i++) {
		engine_call(e, &c, &o);
		snprintf(path, sizeof(path), "/m%u", (unsigned)i);
		CHECK_EQ(engine_create(&c, path, 0, &o, &files[i]), 0);
	}
	for (uint64_t at = 0; at < 5 * MIB; at += MIB) {
		for (uint64_t i = 0; i < 8; i++) {
			rt_background();
			engine_call(e, &c, &o);
			fixture_fill(i, at, bytes, MIB);
			struct iovec iov = {bytes, MIB};
			CHECK_EQ(engine_append(&c, files[i], &iov, 1, NULL), 0);
		}
	}
	rt_background();
	for (uint64_t i = 0; i < 8; i++) {
		engine_call(e, &c, &o);
		CHECK_EQ(engine_file_close(&c, files[i]), 0);
		rt_background();
	}
	free(bytes);
	for (uint64_t i = 0; i < 8; i++) {
		snprintf(path, sizeof(path), "/m%u", (unsigned)i);
		CHECK_EQ(read_file(e, path, i, 0, 6 * MIB), 5 * MIB);
	}
	struct fabric *f = engine_fabric(e);
	CHECK(rt_budget_peak(&f->shared->writes.budget) <= gate_limit(&f->shared->writes));
	CHECK_EQ(gate_held(&f->shared->writes), 0);
	engine_close(e);
}

/* --- packed files and batches ----------------------------------------------------------------- */

#define SMALL 40

CLIENT_TEST(packed_files_share_blocks_and_come_back_one_by_one, 6, 1)
{
	struct engine *e = open_engine(fx);
	struct call c;
	struct terrane_small files[SMALL] = {0};
	static char names[SMALL][16];
	uint8_t *bytes[SMALL];
	struct terrane_options o = {.block_bytes = BLOCK};
	engine_call(e, &c, &o);
	CHECK_EQ(engine_mkdir(&c, "/p", 0), 0);
	for (int i = 0; i < SMALL; i++) {
		size_t len = (size_t)i * 1000;
		snprintf(names[i], sizeof(names[i]), "f%02d", i);
		bytes[i] = malloc(len + 1);
		CHECK(bytes[i] != NULL);
		fixture_fill((uint64_t)i, 0, bytes[i], len);
		files[i] = (struct terrane_small){.name = names[i], .data = bytes[i], .len = len};
	}
	CHECK_EQ(engine_pack(&c, "/p", files, SMALL, 0, &o), 0);
	CHECK(engine_fabric(e)->shared->stats.blocks_written <= 5);
	/* The same files again: each fails with -EEXIST and none is changed. */
	CHECK_EQ(engine_pack(&c, "/p", files, 3, 0, &o), -EEXIST);
	CHECK_EQ(files[2].result, -EEXIST);
	CHECK_EQ(engine_pack(&c, "/p", files, 3, TERRANE_REPLACE, &o), 0);
	/* A pack that is refused leaves no file with a result of 0. */
	CHECK_EQ(engine_pack(&c, "/none", files, 3, 0, &o), -ENOENT);
	CHECK_EQ(files[0].result, -ECANCELED);
	files[0].result = 0;
	struct terrane_options wrong = o;
	wrong.encoding = "foo";
	CHECK(engine_pack(&c, "/p", files, 3, TERRANE_REPLACE, &wrong) < 0);
	CHECK_EQ(files[0].result, -ECANCELED);
	CHECK_EQ(files[0].id, 0);
	struct engine_range ranges[SMALL] = {0};
	char path[32];
	for (int i = 0; i < SMALL; i++) {
		snprintf(path, sizeof(path), "/p/f%02d", i);
		CHECK_EQ(read_file(e, path, (uint64_t)i, 0, 50000), i * 1000);
		memset(bytes[i], 0, files[i].len);
		ranges[i] = (struct engine_range){
			.id = files[i].id, .len = files[i].len, .buf = bytes[i]};
	}
	struct terrane_stat st;
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "/p/f%02d", i);
		CHECK_EQ(stat_file(e, path, &st), 0);
		ranges[i].id = st.id;
	}
	ranges[5].id = 0;
	ranges[5].path = "/p/f05";
	ranges[6].offset = 100;
	CHECK_EQ(engine_read_batch(&c, ranges, SMALL, NULL, NULL), 0);
	for (int i = 0; i < SMALL; i++) {
		CHECK_EQ(ranges[i].result, i * 1000 - (i == 6 ? 100 : 0));
		CHECK(fixture_same((uint64_t)i, ranges[i].offset, bytes[i],
				   (size_t)ranges[i].result));
		CHECK_EQ(ranges[i].crc, crc32c(0, bytes[i], (size_t)ranges[i].result));
		free(bytes[i]);
	}
	engine_close(e);
}

/* --- disks fail ------------------------------------------------------------------------------- */

CLIENT_TEST(files_outlive_nodes, 8, 1)
{
	struct engine *e = open_engine(fx);
	struct terrane_options o = {.block_bytes = BLOCK};
	CHECK_EQ(write_file(e, "/before", 1, 10 * BLOCK, &o), 0);
	fixture_do(fx, fixture_kill_node, 1);
	CHECK_EQ(read_file(e, "/before", 1, 0, 11 * BLOCK), 10 * BLOCK);
	CHECK_EQ(write_file(e, "/after", 2, 10 * BLOCK, &o), 0);
	fixture_do(fx, fixture_kill_node, 11);
	CHECK_EQ(read_file(e, "/before", 1, 0, 11 * BLOCK), 10 * BLOCK);
	CHECK_EQ(read_file(e, "/after", 2, 0, 11 * BLOCK), 10 * BLOCK);
	/* Also in a batch: ranges on the lost nodes are reconstructed, the others are read. */
	struct engine_range ranges[20] = {0};
	for (size_t i = 0; i < 20; i++)
		ranges[i] = (struct engine_range){.path = i % 2 == 0 ? "/before" : "/after",
						  .offset = i * 111111,
						  .len = 50000,
						  .buf = malloc(50000)};
	struct call c;
	engine_call(e, &c, NULL);
	CHECK_EQ(engine_read_batch(&c, ranges, 20, NULL, NULL), 0);
	for (size_t i = 0; i < 20; i++) {
		CHECK_EQ(ranges[i].result, 50000);
		CHECK(fixture_same(1 + i % 2, i * 111111, ranges[i].buf, 50000));
		free(ranges[i].buf);
	}
	CHECK(engine_fabric(e)->shared->stats.rebuilt_reads > 0);
	engine_close(e);
}

static void mlec_body(struct client_fixture *fx)
{
	struct engine *e = open_engine(fx);
	struct terrane_options o = {.block_bytes = BLOCK, .encoding = "mlec:3+2/2+1"};
	CHECK_EQ(write_file(e, "/f", 1, 3 * BLOCK + 5, &o), 0);
	CHECK_EQ(read_file(e, "/f", 1, 0, 4 * BLOCK), 3 * BLOCK + 5);
	CHECK_EQ(engine_fabric(e)->shared->stats.rebuilt_reads, 0);
	/* Blocks of single-level codes cannot be put on pools. */
	struct call c;
	struct efile *f;
	engine_call(e, &c, &o);
	o.encoding = "mlec:3+2/4+1";
	CHECK_EQ(engine_create(&c, "/g", 0, &o, &f), -ENOSPC);
	o.encoding = "mlec:3+2/2+1";
	/* Two pools are lost completely: the network level reconstructs their chunks. */
	fixture_do(fx, fixture_kill_node, 1);
	fixture_do(fx, fixture_kill_node, 21);
	CHECK_EQ(read_file(e, "/f", 1, 0, 4 * BLOCK), 3 * BLOCK + 5);
	CHECK(engine_fabric(e)->shared->stats.rebuilt_reads > 0);
	engine_close(e);
}

static void mlec_blocks_land_on_pools(void **state)
{
	(void)state;
	fixture_run_pools(6, mlec_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_LOOPS(names_do_what_the_shell_expects),
		ON_LOOPS(lists_give_every_entry_once_with_its_id),
		ON_LOOPS(files_of_every_size_come_back),
		ON_LOOPS(a_file_is_visible_when_it_is_closed),
		ON_LOOPS(a_file_goes_where_its_path_leads_when_it_is_closed),
		ON_LOOPS(files_do_not_wait_for_each_others_memory),
		ON_LOOPS(the_applications_checksum_is_kept_to_the_end),
		ON_LOOPS(packed_files_share_blocks_and_come_back_one_by_one),
		ON_LOOPS(files_outlive_nodes),
		ON_LOOPS(mlec_blocks_land_on_pools),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
