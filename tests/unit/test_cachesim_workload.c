// SPDX-License-Identifier: Apache-2.0
/* Workload files of the cache study: what is taken, what is refused with which words, and the gets that follow. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/cache/reads.h"
#include "base/base.h"

static int parse(struct workload *w, const char *text, char *why)
{
	why[0] = '\0';
	return workload_parse(w, text, strlen(text), why, WORKLOAD_WHY_MAX);
}

static void load(struct workload *w, const char *text)
{
	char why[WORKLOAD_WHY_MAX];
	if (parse(w, text, why) != 0)
		fail_msg("%s", why);
}

static void fields_that_are_left_out_have_the_documented_values(void **state)
{
	AUTO_WORKLOAD struct workload w;
	(void)state;
	load(&w, "{\"jobs\":[{\"id\":\"j\",\"partitions\":[\"P\"]}]}");
	assert_true(w.partition_bytes == 5000000000000 && w.segment_bytes == 262144);
	assert_true(w.flash_bytes == 1280000000000 && w.dram_bytes == 16000000000);
	assert_true(w.nodes == 6 && w.write_limit_bytes_s == 0 && w.file_bytes == GIB);
	const struct workload_job *j = &w.jobs[0];
	assert_true(j->readers == 4 && j->request_bytes == 1000000 && j->order == CACHE_SCAN);
	assert_true(j->registered && j->runs && j->start_s == 0 && j->after_n == 0);
	assert_true(j->bytes_per_s >= 0.95 * 6e9 && j->bytes_per_s <= 1.05 * 6e9);
	assert_true(w.bytes == w.partition_bytes && j->bytes == w.bytes);
}

static void a_job_stands_behind_those_that_it_waits_for(void **state)
{
	AUTO_WORKLOAD struct workload w;
	(void)state;
	load(&w, "{\"jobs\":[{\"id\":\"a\",\"partitions\":[\"P\"],\"after\":[\"c\",\"b\"]},"
		 "{\"id\":\"b\",\"partitions\":[\"P\"],\"after\":\"c\"},"
		 "{\"id\":\"c\",\"partitions\":[\"Q\"]}]}");
	assert_string_equal(w.jobs[0].id, "c");
	assert_string_equal(w.jobs[1].id, "b");
	assert_string_equal(w.jobs[2].id, "a");
	assert_true(w.jobs[1].after_n == 1 && w.jobs[1].after[0] == 0);
	assert_true(w.jobs[2].after_n == 2 && w.jobs[2].after[0] == 0 && w.jobs[2].after[1] == 1);
	assert_int_equal(w.buckets_n, 2);
}

static void partitions_with_one_prefix_are_one_table(void **state)
{
	AUTO_WORKLOAD struct workload w;
	(void)state;
	load(&w,
	     "{\"jobs\":[{\"id\":\"a\",\"partitions\":[\"t/1\",\"u\",\"t/2\",\"u/1\",\"t/1\"]}]}");
	assert_int_equal(w.buckets_n, 4);
	assert_int_equal(w.bucket_table[0], w.bucket_table[2]);
	assert_int_not_equal(w.bucket_table[0], w.bucket_table[1]);
	assert_int_not_equal(w.bucket_table[1], w.bucket_table[3]);
	assert_int_equal(w.jobs[0].reads.n, 5);
}

#define JOB "{\"id\":\"a\",\"partitions\":[\"p\"]}"
#define ONE(fields) "{\"jobs\":[{\"id\":\"a\",\"partitions\":[\"p\"]," fields "}]}"
#define TOP(fields) "{" fields ",\"jobs\":[" JOB "]}"

static void malformed_and_hostile_files_are_refused_with_the_field_and_the_rule(void **state)
{
	static const struct {
		const char *text;
		int err;
		const char *what;
	} bad[] = {
		{"", -EINVAL, "line "},
		{"{", -EINVAL, "line 1"},
		{"[]", -EINVAL, "must hold a JSON object"},
		{"{}", -EINVAL, "jobs: must be an array of 1 to"},
		{"{\"jobs\":[]}", -EINVAL, "jobs: must be an array of 1 to"},
		{"{\"jobs\":{}}", -EINVAL, "jobs: must be an array"},
		{"{\"jobs\":[1]}", -EINVAL, "jobs[0]: must be an object"},
		{"{\"jobs\":[{}]}", -EINVAL, "jobs[0].id: must be a name"},
		{"{\"jobs\":[{\"id\":\"\"}]}", -EINVAL, "jobs[0].id: must be a name"},
		{"{\"jobs\":[{\"id\":\"a\"}]}", -EINVAL, "partitions: must be an array"},
		{"{\"jobs\":[{\"id\":\"a\",\"partitions\":[1]}]}", -EINVAL,
		 "partitions: must be names"},
		{"{\"jobs\":[{\"id\":\"a\",\"partitions\":[]}]}", -EINVAL,
		 "partitions: must be an array"},
		{"{\"jobs\":[" JOB "," JOB "]}", -EINVAL, "jobs[1].id: another job"},
		{"{\"jobs\":[" JOB "],\"jobs\":[" JOB "]}", -EINVAL, "duplicate"},
		{TOP("\"flash\":1"), -EINVAL, "flash: no such field"},
		{TOP("\"nodes\":0"), -EINVAL, "nodes: must be a whole number from 1"},
		{TOP("\"nodes\":1.5"), -EINVAL, "nodes: must be a whole number"},
		{TOP("\"nodes\":\"6\""), -EINVAL, "nodes: must be a number"},
		{TOP("\"flash_bytes\":-1"), -EINVAL, "flash_bytes: must be a number from"},
		{TOP("\"flash_bytes\":null"), -EINVAL, "flash_bytes: must be a number"},
		{TOP("\"flash_bytes\":1e5"), -EINVAL, "flash_bytes: each node needs"},
		{TOP("\"flash_bytes\":9e16"), -E2BIG, "use a larger segment_bytes"},
		{TOP("\"dram_bytes\":9e16"), -E2BIG, "dram_bytes: more than"},
		{TOP("\"dram_bytes\":1000"), -EINVAL, "dram_bytes: must be at least segment_bytes"},
		{TOP("\"segment_bytes\":1"), -EINVAL, "segment_bytes: must be"},
		{TOP("\"block_bytes\":300000"), -EINVAL, "must be a multiple of segment_bytes"},
		{TOP("\"file_bytes\":6e12"), -EINVAL,
		 "file_bytes: must be at most partition_bytes"},
		{TOP("\"partition_bytes\":9e16"), -EINVAL, "more than 2^32 segments"},
		{TOP("\"min_threshold\":-1"), -EINVAL, "min_threshold: must be"},
		{ONE("\"start\":1"), -EINVAL, "job \"a\": start: no such field"},
		{ONE("\"readers\":0"), -EINVAL, "job \"a\": readers: must be"},
		{ONE("\"pace_spread\":1"), -EINVAL, "pace_spread: must be a number from 0 to 0.99"},
		{ONE("\"order\":\"sorted\""), -EINVAL, "order: must be"},
		{ONE("\"order\":null"), -EINVAL, "order: must be"},
		{ONE("\"runs\":1"), -EINVAL, "runs: must be true or false"},
		{ONE("\"reader_bytes_s\":1"), -E2BIG, "use a higher reader_bytes_s"},
		{ONE("\"request_bytes\":1"), -E2BIG, "use larger request_bytes"},
		{ONE("\"byte_ranges\":[]"), -EINVAL, "byte_ranges: must be null or"},
		{ONE("\"byte_ranges\":[[0,2]]"), -EINVAL, "byte_ranges: must be pairs"},
		{ONE("\"byte_ranges\":[[0.5,0.4]]"), -EINVAL, "byte_ranges: must be pairs"},
		{ONE("\"byte_ranges\":[[0,0.5],[0.4,1]]"), -EINVAL, "byte_ranges: must be pairs"},
		{ONE("\"byte_ranges\":[[0,1e-13]]"), -EINVAL, "byte_ranges are empty or overlap"},
		{ONE("\"after\":5"), -EINVAL, "after: must be null or an array"},
		{ONE("\"after\":[\"b\"]"), -EINVAL, "no job has the id \"b\""},
		{ONE("\"after\":[7]"), -EINVAL, "no job has the id"},
		{ONE("\"after\":\"a\""), -EINVAL, "jobs wait for each other"},
		{"{\"jobs\":[{\"id\":\"a\",\"partitions\":[\"p\"],\"after\":\"b\"},"
		 "{\"id\":\"b\",\"partitions\":[\"p\"],\"after\":\"a\"}]}",
		 -EINVAL, "jobs wait for each other"},
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct workload w;
		char why[WORKLOAD_WHY_MAX];
		int rc = parse(&w, bad[i].text, why);
		if (rc != bad[i].err || strstr(why, bad[i].what) == NULL)
			fail_msg("%s: got %d \"%s\", want %d \"%s\"", bad[i].text, rc, why,
				 bad[i].err, bad[i].what);
		assert_null(w.jobs);
	}
}

/* Writes a chain of n jobs, each of which waits for the next one of the file. */
static char *chain_of(uint32_t n)
{
	size_t size = n * 90ULL + 100, at = 0;
	char *text = malloc(size);
	assert_non_null(text);
	at += (size_t)snprintf(text, size, "{\"partition_bytes\":1e9,\"jobs\":[");
	for (uint32_t i = 0; i < n; i++) {
		at += (size_t)snprintf(text + at, size - at,
				       "%s{\"id\":\"%u\",\"partitions\":[\"p\"]", i > 0 ? "," : "",
				       i);
		at += (size_t)(i + 1 < n
				       ? snprintf(text + at, size - at, ",\"after\":\"%u\"}", i + 1)
				       : snprintf(text + at, size - at, "}"));
	}
	snprintf(text + at, size - at, "]}");
	return text;
}

static void a_long_chain_of_jobs_is_placed_in_one_walk(void **state)
{
	AUTO_WORKLOAD struct workload w;
	AUTO_FREE char *text = chain_of(WORKLOAD_JOBS_MAX);
	(void)state;
	load(&w, text);
	assert_int_equal(w.jobs_n, WORKLOAD_JOBS_MAX);
	for (uint32_t i = 1; i < w.jobs_n; i++)
		assert_int_equal(w.jobs[i].after[0], i - 1);
}

static void one_job_too_many_is_refused(void **state)
{
	struct workload w;
	AUTO_FREE char *text = chain_of(WORKLOAD_JOBS_MAX + 1);
	char why[WORKLOAD_WHY_MAX];
	(void)state;
	assert_int_equal(parse(&w, text, why), -EINVAL);
	assert_non_null(strstr(why, "jobs: must be an array of 1 to 10000 jobs"));
}

/* ---- the gets ---- */

#define SMALL                                                                       \
	"\"partition_bytes\":1000000,\"segment_bytes\":1000,\"file_bytes\":100000," \
	"\"block_bytes\":30000,\"flash_bytes\":100000,\"dram_bytes\":100000,\"nodes\":3,"

static void every_byte_of_every_job_is_read_once_within_its_block(void **state)
{
	AUTO_WORKLOAD struct workload w;
	struct reads reads;
	struct reads_get g;
	uint64_t bytes[3] = {0}, last_ms = 0;
	uint32_t job, ended = 0;
	(void)state;
	load(&w, "{" SMALL "\"jobs\":[{\"id\":\"a\",\"partitions\":[\"p\",\"q\"],"
		 "\"request_bytes\":2500,\"reader_bytes_s\":10000},"
		 "{\"id\":\"b\",\"partitions\":[\"q\"],\"order\":\"random\",\"start_s\":5,"
		 "\"request_bytes\":7000,\"reader_bytes_s\":10000},"
		 "{\"id\":\"c\",\"partitions\":[\"p\"],\"byte_ranges\":[[0,0.1],[0.5,0.55]],"
		 "\"reader_bytes_s\":10000}]}");
	uint8_t *seen = calloc(6, 1000000);
	assert_non_null(seen);
	assert_int_equal(reads_init(&reads, &w), 0);
	while (reads_next(&reads, &g)) {
		const struct cache_request *q = &g.request;
		uint64_t in_block = q->first * w.segment_bytes + q->skip;
		uint64_t from = q->position * w.segment_bytes + q->skip;
		assert_true(in_block + q->bytes <= g.block_bytes && g.node < 3);
		assert_int_equal(from % w.block_bytes, in_block);
		assert_true(q->now_ms >= last_ms);
		last_ms = q->now_ms;
		for (uint64_t i = from; i < from + q->bytes; i++)
			assert_int_equal(seen[(q->job * 2 + q->bucket) * 1000000ULL + i]++, 0);
		bytes[q->job] += q->bytes;
		while (reads_ended(&reads, &job))
			ended++;
	}
	while (reads_ended(&reads, &job))
		ended++;
	assert_true(bytes[0] == 2000000 && bytes[1] == 1000000 && bytes[2] == 150000);
	assert_int_equal(ended, 3);
	reads_fini(&reads);
	free(seen);
}

static void jobs_start_in_time_and_keep_their_pace(void **state)
{
	AUTO_WORKLOAD struct workload w;
	struct reads reads;
	struct reads_get g;
	uint64_t first[3] = {UINT64_MAX, UINT64_MAX, UINT64_MAX}, last[3] = {0};
	(void)state;
	load(&w, "{" SMALL "\"jobs\":[{\"id\":\"a\",\"partitions\":[\"p\"],\"start_s\":3,"
		 "\"readers\":2,\"reader_bytes_s\":50000,\"pace_spread\":0,\"request_bytes\":1000},"
		 "{\"id\":\"b\",\"partitions\":[\"q\"],\"after\":\"a\",\"reader_bytes_s\":50000,"
		 "\"request_bytes\":1000},"
		 "{\"id\":\"c\",\"partitions\":[\"q\"],\"after\":\"a\",\"start_s\":60,"
		 "\"reader_bytes_s\":50000,\"request_bytes\":1000}]}");
	assert_int_equal(reads_init(&reads, &w), 0);
	while (reads_next(&reads, &g)) {
		first[g.request.job] = min_u64(first[g.request.job], g.request.now_ms);
		last[g.request.job] = g.request.now_ms;
	}
	reads_fini(&reads);
	/* a: 1 MB at 100 kB/s from second 3; b when a ends; c at second 60 */
	assert_int_equal(first[0], 3000);
	assert_int_equal(last[0], 12990);
	assert_int_equal(first[1], 13000);
	assert_int_equal(first[2], 60000);
}

static void a_job_that_does_not_run_reads_nothing_and_holds_nobody_up(void **state)
{
	AUTO_WORKLOAD struct workload w;
	struct reads reads;
	struct reads_get g;
	uint64_t bytes[2] = {0};
	(void)state;
	load(&w, "{" SMALL "\"jobs\":[{\"id\":\"a\",\"partitions\":[\"p\"],\"runs\":false},"
		 "{\"id\":\"b\",\"partitions\":[\"p\"],\"after\":\"a\"}]}");
	assert_int_equal(w.bytes, 1000000);
	assert_int_equal(reads_init(&reads, &w), 0);
	while (reads_next(&reads, &g))
		bytes[g.request.job] += g.request.bytes;
	reads_fini(&reads);
	assert_true(bytes[0] == 0 && bytes[1] == 1000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_that_are_left_out_have_the_documented_values),
		cmocka_unit_test(a_job_stands_behind_those_that_it_waits_for),
		cmocka_unit_test(partitions_with_one_prefix_are_one_table),
		cmocka_unit_test(
			malformed_and_hostile_files_are_refused_with_the_field_and_the_rule),
		cmocka_unit_test(a_long_chain_of_jobs_is_placed_in_one_walk),
		cmocka_unit_test(one_job_too_many_is_refused),
		cmocka_unit_test(every_byte_of_every_job_is_read_once_within_its_block),
		cmocka_unit_test(jobs_start_in_time_and_keep_their_pace),
		cmocka_unit_test(a_job_that_does_not_run_reads_nothing_and_holds_nobody_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
