// SPDX-License-Identifier: Apache-2.0
/* Reads, writes and appends of a client keep to the quota of disk time of their traffic group. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "janitor_fixture.h"
#include "meta_api/group.h"

#define REPLICAS 3
#define FILES 60
#define SMALL_BYTES (10 * KIB)
#define BLOCK_BYTES ((uint64_t)2 * MIB)
/* Until clients have changed groups: the server reads them every 500 ms, an idle client asks every second. */
#define CHANGE_NS (2 * NS_PER_S)

static void set_note(struct janitor_fixture *jf, const char *name, const char *text)
{
	struct meta_note note = {.text = text};
	snprintf(note.name, sizeof(note.name), "%s", name);
	int rc = meta_client_note_put(&jf->root, &note);
	if (rc == -ESTALE) /* the note's turn is set now */
		rc = meta_client_note_put(&jf->root, &note);
	CHECK_EQ(rc, 0);
	CHECK_EQ(rt_sleep_ns(CHANGE_NS), 0);
}

/* Sets the quota of the group of the fixture's engine, which names no group. 0 I/Os: removes the group. */
static void set_quota(struct janitor_fixture *jf, uint64_t iops)
{
	struct meta_tenant t;
	char name[META_NOTE_NAME_MAX + 1];
	CHECK_EQ(meta_client_tenant_get(&jf->root, 0, "default", &t), 0);
	struct meta_group g = {.tenant = t.id,
			       .tenant_name = "default",
			       .name = META_GROUP_DEFAULT,
			       .traffic_class = TRAFFIC_SILVER,
			       .quota = {iops, 0}};
	meta_group_note(name, meta_group_id("default", ""));
	char *text = meta_group_text(&g);
	CHECK(text != NULL);
	set_note(jf, name, iops > 0 ? text : "");
	free(text);
}

static uint64_t write_files_ns(struct janitor_fixture *jf, unsigned first)
{
	uint64_t start_ns = rt_now_ns();
	for (unsigned i = 0; i < FILES; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%u", first + i);
		CHECK_EQ(write_text(jf, path, 1, SMALL_BYTES, "r3"), 0);
	}
	return rt_now_ns() - start_ns;
}

static uint64_t read_files_ns(struct janitor_fixture *jf)
{
	uint64_t start_ns = rt_now_ns();
	for (unsigned i = 0; i < FILES; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/f%u", i);
		CHECK_EQ(read_text(jf, path, 1, SMALL_BYTES), 0);
	}
	return rt_now_ns() - start_ns;
}

static int append(struct janitor_fixture *jf, struct efile *f, uint32_t timeout_ms, char *error)
{
	static uint8_t bytes[SMALL_BYTES];
	struct terrane_options o = {.timeout_ms = timeout_ms};
	struct iovec iov = {bytes, sizeof(bytes)};
	struct call c;
	CHECK_EQ(engine_call(jf->engine, &c, &o), 0);
	int rc = engine_append(&c, f, &iov, 1, NULL);
	memcpy(error, c.error, FABRIC_ERROR_MAX);
	rt_background();
	return rc;
}

/* Checks that n I/Os at a rate took the time that they should: the bucket may be behind by LIMITS_BURST_NS. */
static void check_ns(uint64_t got_ns, double ios, double rate)
{
	double want_ns = ios / rate * (double)NS_PER_S;
	if ((double)got_ns < 0.9 * want_ns || (double)got_ns > 1.15 * want_ns)
		fprintf(stderr, "%f I/Os at %f per second took %f s\n", ios, rate,
			(double)got_ns / (double)NS_PER_S);
	CHECK((double)got_ns >= 0.9 * want_ns && (double)got_ns <= 1.15 * want_ns);
}

CLIENT_TEST(reads_and_writes_keep_to_the_quota_of_their_group, 4, 1)
{
	struct janitor_fixture jf;
	const double access = 1 + (double)SMALL_BYTES / META_IO_BYTES;
	janitor_fixture_open(&jf, fx);
	uint64_t free_ns = write_files_ns(&jf, 0);
	CHECK(free_ns < 2 * NS_PER_S);
	set_quota(&jf, 60);
	check_ns(write_files_ns(&jf, 1000), FILES * REPLICAS * access, 60);
	set_quota(&jf, 20);
	check_ns(read_files_ns(&jf), FILES * access, 20);
	set_quota(&jf, 0);
	CHECK(write_files_ns(&jf, 2000) < 2 * free_ns);
	janitor_fixture_close(&jf);
}

/* Writes a file with this number of blocks of 2 MiB. */
static void write_blocks(struct janitor_fixture *jf, const char *path, const char *encoding,
			 unsigned n)
{
	const uint64_t len = n * BLOCK_BYTES;
	struct terrane_options o = {.encoding = encoding, .block_bytes = BLOCK_BYTES};
	struct iovec iov = {calloc(1, len), len};
	struct call c;
	struct efile *f;
	CHECK(iov.iov_base != NULL);
	CHECK_EQ(engine_call(jf->engine, &c, &o), 0);
	CHECK_EQ(engine_create(&c, path, 0, &o, &f), 0);
	CHECK_EQ(engine_append(&c, f, &iov, 1, NULL), 0);
	CHECK_EQ(engine_file_close(&c, f), 0);
	free(iov.iov_base);
	rt_background();
}

CLIENT_TEST(every_chunk_of_a_block_counts_with_its_bytes, 6, 1)
{
	struct janitor_fixture jf;
	const struct {
		const char *encoding;
		double ios; /* accesses, and MiB with redundancy, of a block */
	} cases[] = {{"r3", 3 + 6}, {"rs:4+2", 6 + 3}};
	janitor_fixture_open(&jf, fx);
	set_quota(&jf, 20);
	for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
		uint64_t start_ns = rt_now_ns();
		write_blocks(&jf, k == 0 ? "/r3" : "/rs", cases[k].encoding, 6);
		/* The first block finds room, whatever it costs. */
		check_ns(rt_now_ns() - start_ns, 5 * cases[k].ios, 20);
		CHECK_EQ(rt_sleep_ns(NS_PER_S), 0);
	}
	janitor_fixture_close(&jf);
}

CLIENT_TEST(an_append_beyond_its_time_limit_is_refused_and_writes_nothing, 4, 1)
{
	struct janitor_fixture jf;
	struct call c;
	struct efile *f;
	struct terrane_stat st;
	char error[FABRIC_ERROR_MAX];
	struct terrane_options o = {.encoding = "r3"};
	janitor_fixture_open(&jf, fx);
	CHECK_EQ(engine_call(jf.engine, &c, &o), 0);
	CHECK_EQ(engine_create(&c, "/log", TERRANE_LOG, &o, &f), 0);
	rt_background();
	CHECK_EQ(append(&jf, f, 0, error), 0);
	set_quota(&jf, 1);
	uint64_t start_ns = rt_now_ns();
	CHECK_EQ(append(&jf, f, 30000, error), 0);
	CHECK_EQ(append(&jf, f, 200, error), -ETIME); /* 3 I/Os, of 1 per second */
	CHECK(strstr(error, "quota of disk time") != NULL);
	CHECK(rt_now_ns() - start_ns < 100 * NS_PER_MS); /* at once */
	CHECK_EQ(engine_call(jf.engine, &c, NULL), 0);
	CHECK_EQ(engine_file_stat(&c, f, &st), 0);
	CHECK_EQ(st.size, 2 * SMALL_BYTES);
	(void)engine_file_close(&c, f);
	rt_background();
	janitor_fixture_close(&jf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_and_writes_keep_to_the_quota_of_their_group),
		cmocka_unit_test(every_chunk_of_a_block_counts_with_its_bytes),
		cmocka_unit_test(an_append_beyond_its_time_limit_is_refused_and_writes_nothing),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
