// SPDX-License-Identifier: Apache-2.0
/* Tests of cache nodes that know the registered jobs: future priorities, need, progress, leases, specs that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cache/control.h"
#include "cachenode/impl.h"
#include "cachenode_fixture.h"

#define LEASE_MS 60000u
#define FILES 4u
#define FILE_BYTES (4 * BLOCK)
#define SEGMENTS ((uint32_t)(FILES * FILE_BYTES / SEGMENT))

/* --- jobs --------------------------------------------------------------------------------------- */

static int add_job(struct engine *e, uint64_t id, const char *path, uint64_t lease_ms,
		   const struct terrane_job *like)
{
	struct terrane_job_part part = {.path = path};
	struct terrane_job job = *like;
	struct call c;
	job.id = id;
	job.parts = &part;
	job.part_count = 1;
	job.lease_ms = lease_ms;
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	return engine_job_add(&c, &job);
}

static const struct terrane_job scan = {
	.epochs = 1, .order = TERRANE_ORDER_STRICT, .shuffle = TERRANE_SHUFFLE_SCAN};

static void end_job(struct engine *e, uint64_t id)
{
	struct call c;
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_job_end(&c, id), 0);
}

static void report(struct engine *e, uint64_t id, uint64_t sequence, uint64_t percent)
{
	struct call c;
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_job_report(&c, id,
				   &(struct terrane_job_progress){.sequence = sequence,
								  .position = percent,
								  .total = 100}),
		 0);
}

static struct node_jobs *jobs_of(unsigned i)
{
	return &cachers[i].serves->jobs;
}

/* Waits until the node counts so many jobs. */
static void wait_jobs(unsigned i, unsigned n)
{
	uint64_t end_ns = rt_now_ns() + 120 * NS_PER_S;
	while (jobs_of(i)->view.jobs_n - jobs_of(i)->view.vacant_n != n) {
		CHECK(rt_now_ns() < end_ns);
		CHECK_EQ(rt_sleep_ns(10 * NS_PER_MS), 0);
	}
}

static void make_dir(struct engine *e, const char *path)
{
	struct call c;
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_mkdir(&c, path, 0), 0);
}

/* Writes FILES files of a directory. */
static void write_files(struct engine *e, const char *dir, uint64_t text)
{
	make_dir(e, dir);
	for (unsigned i = 0; i < FILES; i++) {
		char path[64];
		snprintf(path, sizeof(path), "%s/f%u", dir, i);
		write_file(e, path, text + i, FILE_BYTES, 0);
	}
}

static void read_files(struct engine *e, uint64_t job, const char *dir, uint64_t text)
{
	for (unsigned i = 0; i < FILES; i++) {
		char path[64];
		snprintf(path, sizeof(path), "%s/f%u", dir, i);
		CHECK(read_as(e, job, path, text + i, 0, FILE_BYTES));
	}
}

/* Returns what is expected of the segments of a directory: how often they are read, together. */
static uint64_t need_of(unsigned i, uint16_t bucket)
{
	uint64_t need = 0;
	for (uint32_t at = 0; at < SEGMENTS; at++)
		need += cache_jobs_outlook(&jobs_of(i)->view, bucket, at).need;
	return need;
}

/* Returns the bucket of the first part of a job. The node's own search compares with the node's clock. */
static uint16_t bucket_of(unsigned i, uint64_t job)
{
	map_for_each(&jobs_of(i)->by_key, it) {
		const struct node_job *j = it.value;
		if (j->id == job && j->number != CACHE_NONE && j->parts_n > 0)
			return j->parts[0].bucket;
	}
	CHECK(!"the job counts");
	return 0;
}

/* --- tests -------------------------------------------------------------------------------------- */

CLIENT_TEST(future_admits_what_two_registered_jobs_read_from_the_first_read_on, 4, 1)
{
	start_cachers(fx, 1, &(struct cacher){.policy = "future", .min_threshold = 1.1});
	struct engine *e = open_engine(fx, &plain);
	write_files(e, "/a", 1);
	write_files(e, "/b", 50);
	/* Nothing is known of jobs: nothing is admitted, also when it is read again. */
	read_files(e, 1, "/a", 1);
	read_files(e, 2, "/a", 1);
	CHECK_EQ(stats_of(0).fetched_bytes, 0);
	CHECK_EQ(add_job(e, 1, "/a", LEASE_MS, &scan), 0);
	CHECK_EQ(add_job(e, 2, "/a", LEASE_MS, &scan), 0);
	CHECK_EQ(add_job(e, 3, "/b", LEASE_MS, &scan), 0);
	wait_jobs(0, 3);
	/* Both must have begun: jobs that read nothing do not count. */
	CHECK(read_as(e, 1, "/a/f0", 1, 0, 1000));
	CHECK(read_as(e, 2, "/a/f0", 1, 0, 1000));
	CHECK(read_as(e, 3, "/b/f0", 50, 0, 1000));
	CHECK_EQ(rt_sleep_ns(12 * NS_PER_S), 0);
	CHECK_EQ(cache_jobs_readers(&jobs_of(0)->view, bucket_of(0, 1)), 2);
	read_files(e, 1, "/a", 1);
	CHECK_EQ(stats_of(0).fetched_bytes, FILES * FILE_BYTES);
	read_files(e, 2, "/a", 1);
	CHECK_EQ(stats_of(0).fetched_bytes, FILES * FILE_BYTES);
	CHECK(stats_of(0).hits > 0);
	/* One job alone reads /b. */
	read_files(e, 3, "/b", 50);
	CHECK_EQ(stats_of(0).fetched_bytes, FILES * FILE_BYTES);
	engine_close(e);
}

CLIENT_TEST(the_need_of_a_segment_falls_with_each_job_that_has_read_it, 4, 1)
{
	start_cachers(fx, 1, &(struct cacher){.policy = "terrane"});
	struct engine *e = open_engine(fx, &plain);
	write_files(e, "/a", 1);
	struct terrane_job secret = {.epochs = 1, .shuffle = TERRANE_SHUFFLE_SECRET};
	CHECK_EQ(add_job(e, 1, "/a", LEASE_MS, &scan), 0);
	CHECK_EQ(add_job(e, 2, "/a", LEASE_MS, &secret), 0);
	wait_jobs(0, 2);
	uint16_t bucket = bucket_of(0, 1);
	CHECK_EQ(bucket_of(0, 2), bucket);
	CHECK_EQ(need_of(0, bucket), 2 * SEGMENTS);
	CHECK(read_as(e, 1, "/a/f0", 1, 0, FILE_BYTES));
	CHECK_EQ(need_of(0, bucket), 2 * SEGMENTS - SEGMENTS / FILES);
	/* in an order that the node does not know it remembers what was read */
	CHECK(read_as(e, 2, "/a/f3", 4, 0, FILE_BYTES));
	CHECK(read_as(e, 2, "/a/f1", 2, 0, FILE_BYTES));
	CHECK(read_as(e, 2, "/a/f1", 2, 0, FILE_BYTES));
	CHECK_EQ(need_of(0, bucket), 2 * SEGMENTS - 3 * SEGMENTS / FILES);
	CHECK(read_as(e, 2, "/a/f0", 1, 0, FILE_BYTES));
	CHECK(read_as(e, 2, "/a/f2", 3, 0, FILE_BYTES));
	for (unsigned i = 1; i < FILES; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/a/f%u", i);
		CHECK(read_as(e, 1, path, 1 + i, 0, FILE_BYTES));
	}
	CHECK_EQ(need_of(0, bucket), 0);
	engine_close(e);
}

CLIENT_TEST(jobs_count_until_their_lease_ends_also_without_metadata, 4, 1)
{
	start_cachers(fx, 1, &(struct cacher){.policy = "future"});
	struct engine *e = open_engine(fx, &plain);
	write_files(e, "/a", 1);
	CHECK_EQ(add_job(e, 1, "/a", 20000, &scan), 0);
	uint64_t added_ns = rt_now_ns();
	CHECK_EQ(add_job(e, 2, "/a", LEASE_MS, &scan), 0);
	wait_jobs(0, 2);
	CHECK(read_as(e, 1, "/a/f0", 1, 0, 1000));
	CHECK(read_as(e, 2, "/a/f0", 1, 0, 1000));
	uint16_t bucket = bucket_of(0, 1);
	CHECK_EQ(cache_jobs_readers(&jobs_of(0)->view, bucket), 2);
	/* the end of a job arrives with the next refresh */
	end_job(e, 2);
	wait_jobs(0, 1);
	CHECK(rt_elapsed_ns(added_ns) < 10 * NS_PER_S);
	CHECK_EQ(cache_jobs_readers(&jobs_of(0)->view, bucket), 1);
	/* and without metadata the lease ends on the clock of the node */
	sim_net_cut(fx->sim, fx->meta, cachers[0].node, true);
	uint64_t until_ns = added_ns + 20 * NS_PER_S;
	CHECK_EQ(rt_sleep_ns(until_ns - rt_now_ns() - 200 * NS_PER_MS), 0);
	CHECK_EQ(cache_jobs_readers(&jobs_of(0)->view, bucket), 1);
	CHECK_EQ(rt_sleep_ns(300 * NS_PER_MS), 0);
	CHECK_EQ(cache_jobs_readers(&jobs_of(0)->view, bucket), 0);
	wait_jobs(0, 0);
	engine_close(e);
}

CLIENT_TEST(reports_tell_the_progress_of_a_job_that_reads_elsewhere, 4, 1)
{
	start_cachers(fx, 1, &(struct cacher){.policy = "terrane"});
	struct engine *e = open_engine(fx, &plain);
	write_files(e, "/a", 1);
	CHECK_EQ(add_job(e, 1, "/a", LEASE_MS, &scan), 0);
	wait_jobs(0, 1);
	uint16_t bucket = bucket_of(0, 1);
	CHECK_EQ(need_of(0, bucket), SEGMENTS);
	report(e, 1, 1, 50);
	uint64_t end_ns = rt_now_ns() + 60 * NS_PER_S;
	while (need_of(0, bucket) != SEGMENTS / 2) {
		CHECK(rt_now_ns() < end_ns);
		CHECK_EQ(rt_sleep_ns(100 * NS_PER_MS), 0);
	}
	CHECK_EQ(cache_jobs_readers(&jobs_of(0)->view, bucket), 1);
	/* a report behind what the reads show changes nothing */
	CHECK(read_as(e, 1, "/a/f2", 3, 0, FILE_BYTES));
	CHECK_EQ(need_of(0, bucket), SEGMENTS / 4);
	report(e, 1, 2, 60);
	CHECK_EQ(rt_sleep_ns(5 * NS_PER_S), 0);
	CHECK_EQ(need_of(0, bucket), SEGMENTS / 4);
	engine_close(e);
}

CLIENT_TEST(epochs_that_are_left_are_needed_again, 4, 1)
{
	struct terrane_job twice = {.epochs = 2, .shuffle = TERRANE_SHUFFLE_SECRET};
	start_cachers(fx, 1, &(struct cacher){.policy = "terrane"});
	struct engine *e = open_engine(fx, &plain);
	write_files(e, "/a", 1);
	CHECK_EQ(add_job(e, 1, "/a", LEASE_MS, &twice), 0);
	wait_jobs(0, 1);
	uint16_t bucket = bucket_of(0, 1);
	CHECK_EQ(need_of(0, bucket), 2 * SEGMENTS);
	read_files(e, 1, "/a", 1);
	CHECK_EQ(need_of(0, bucket), SEGMENTS);
	read_files(e, 1, "/a", 1);
	/* the first reads of an epoch are what shows that it has begun */
	CHECK(need_of(0, bucket) <= 2);
	engine_close(e);
}

CLIENT_TEST(specs_and_tags_that_lie_make_no_read_wrong, 4, 1)
{
	start_cachers(fx, 2, &(struct cacher){.policy = "hybrid", .min_threshold = 1.1});
	struct engine *e = open_engine(fx, &plain);
	write_files(e, "/a", 1);
	write_files(e, "/b", 50);
	make_dir(e, "/empty");
	CHECK_EQ(add_job(e, 1, "/none", LEASE_MS, &scan), -ENOENT);
	CHECK_EQ(add_job(e, 1, "/a", LEASE_MS, &scan), 0);
	CHECK_EQ(add_job(e, 1, "/b", LEASE_MS, &scan), -EEXIST);
	CHECK_EQ(add_job(e, 2, "/empty", LEASE_MS, &scan), 0);
	CHECK_EQ(add_job(e, 3, "/", LEASE_MS, &scan), 0);
	struct terrane_job odd = {.epochs = 1000000,
				  .readers = 1000000,
				  .shuffle = TERRANE_SHUFFLE_SCAN,
				  .ranges = &(struct terrane_job_range){0, 1},
				  .range_count = 1,
				  .bytes_s = 1ULL << 59};
	CHECK_EQ(add_job(e, 4, "/a", LEASE_MS, &odd), 0);
	CHECK_EQ(add_job(e, 5, "/a/f1", LEASE_MS, &scan), 0);
	wait_jobs(0, 5);
	wait_jobs(1, 5);
	/* Each of them reads what it did not register, backwards and twice; 9 is not registered. */
	for (uint64_t job = 1; job <= 9; job++)
		for (unsigned i = 0; i < 2 * FILES; i++) {
			char path[32];
			unsigned f = FILES - 1 - i % FILES;
			snprintf(path, sizeof(path), "/%c/f%u", job % 2 == 0 ? 'a' : 'b', f);
			CHECK(read_as(e, job, path, (job % 2 == 0 ? 1 : 50) + f, job * 1000,
				      FILE_BYTES - job * 1000));
		}
	CHECK(client_stats(e).cache_bytes > 0);
	/* A file of a spec that is gone, and a directory that has others now. */
	struct call c;
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	CHECK_EQ(engine_remove(&c, "/a/f1"), 0);
	write_file(e, "/a/f1", 99, FILE_BYTES, 0);
	CHECK(read_as(e, 1, "/a/f1", 99, 0, FILE_BYTES));
	fixture_do(fx, crash_cacher, 0);
	wait_for(0, true);
	wait_jobs(0, 5);
	read_files(e, 3, "/b", 50);
	engine_close(e);
}

CLIENT_TEST(a_bucket_is_the_directory_of_the_block_whatever_the_tag_says, 4, 1)
{
	start_cachers(fx, 1, &(struct cacher){.policy = "hybrid"});
	struct engine *e = open_engine(fx, &plain);
	write_files(e, "/a", 1);
	CHECK_EQ(add_job(e, 1, "/a", LEASE_MS, &scan), 0);
	wait_jobs(0, 1);
	CHECK(read_as(e, 1, "/a/f0", 1, 0, BLOCK));
	uint64_t buckets = stats_of(0).buckets;
	struct terrane_options o = {.job_id = 1, .directory_id = 4242};
	struct call c;
	struct efile *f;
	uint8_t byte;
	uint32_t crc;
	CHECK_EQ(engine_call(e, &c, &o), 0);
	CHECK_EQ(engine_file_open(&c, "/a/f0", &f), 0);
	struct iovec iov = {&byte, 1};
	CHECK_EQ(engine_preadv(&c, f, &iov, 1, BLOCK, &crc), 1);
	CHECK_EQ(engine_file_close(&c, f), 0);
	CHECK_EQ(byte, fixture_byte(1, BLOCK));
	CHECK_EQ(stats_of(0).buckets, buckets);
	engine_close(e);
}

/* What nothing is known to need is kept while flash is free, for jobs that are registered later. */
CLIENT_TEST(free_flash_keeps_what_no_registered_job_needs, 4, 1)
{
	start_cachers(fx, 1, &(struct cacher){.policy = "terrane"});
	struct engine *e = open_engine(fx, &plain);
	write_files(e, "/a", 1);
	CHECK_EQ(add_job(e, 1, "/a", LEASE_MS, &scan), 0);
	wait_jobs(0, 1);
	read_files(e, 1, "/a", 1);
	CHECK_EQ(need_of(0, bucket_of(0, 1)), 0);
	CHECK_EQ(stats_of(0).fetched_bytes, FILES * FILE_BYTES);
	CHECK_EQ(add_job(e, 2, "/a", LEASE_MS, &scan), 0);
	wait_jobs(0, 2);
	read_files(e, 2, "/a", 1);
	CHECK_EQ(stats_of(0).fetched_bytes, FILES * FILE_BYTES);
	CHECK(stats_of(0).flash_bytes > FILES * FILE_BYTES / 4);
	engine_close(e);
}

/* On small flash, too, directories that are read side by side fill regions of their own. */
CLIENT_TEST(directories_that_are_read_in_turns_do_not_waste_flash, 4, 1)
{
	static const char *const dirs[] = {"/a", "/b", "/c", "/d"};
	start_cachers(fx, 1, &(struct cacher){.policy = "terrane"});
	struct engine *e = open_engine(fx, &plain);
	char path[16];
	for (unsigned d = 0; d < ARRAY_LEN(dirs); d++) {
		make_dir(e, dirs[d]);
		snprintf(path, sizeof(path), "%s/f", dirs[d]);
		write_file(e, path, d, 8 * BLOCK, 0);
	}
	for (unsigned pass = 0; pass < 2; pass++)
		for (uint64_t at = 0; at < 8 * BLOCK; at += SEGMENT)
			for (unsigned d = 0; d < ARRAY_LEN(dirs); d++) {
				snprintf(path, sizeof(path), "%s/f", dirs[d]);
				CHECK(read_as(e, 0, path, d, at, SEGMENT));
			}
	CHECK_EQ(stats_of(0).fetched_bytes, ARRAY_LEN(dirs) * 8 * BLOCK);
	CHECK_EQ(stats_of(0).freed, 0);
	engine_close(e);
}

/* --- verdicts ------------------------------------------------------------------------------------- */

/* Writes a verdict as a manager does, and waits until the first node has it. */
static void judge(struct engine *e, uint64_t id, struct job_verdict v)
{
	struct call c;
	struct job_seen seen;
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	CHECK_EQ(engine_call(e, &c, NULL), 0);
	struct meta_call m = call_meta(&c);
	CHECK_EQ(meta_client_job_get(&m, 0, id, &a, &seen), 0);
	CHECK_EQ(meta_client_job_judge(&m,
				       &(struct job_judged){.tenant = seen.tenant,
							    .id = id,
							    .stamp = seen.state.stamp,
							    .verdict = v},
				       1),
		 0);
	const struct node_job *j;
	while ((j = node_jobs_find(jobs_of(0), seen.tenant, id)) == NULL ||
	       j->verdict.at_ms != v.at_ms)
		CHECK_EQ(rt_sleep_ns(100 * NS_PER_MS), 0);
}

/* Reads all files of a directory as a job. Returns the bytes that cache nodes served. */
static uint64_t served(struct engine *e, uint64_t job, const char *dir, uint64_t text)
{
	uint64_t before = client_stats(e).cache_bytes;
	for (unsigned i = 0; i < FILES; i++) {
		char path[32];
		snprintf(path, sizeof(path), "%s/f%u", dir, i);
		CHECK(read_as(e, job, path, text + i, 0, FILE_BYTES));
	}
	return client_stats(e).cache_bytes - before;
}

CLIENT_TEST(a_node_keeps_for_a_job_what_the_manager_says, 4, 1)
{
	start_cachers(fx, 1, &(struct cacher){.policy = "lru"});
	struct engine *e = open_engine(fx, &plain);
	const uint64_t all = FILES * FILE_BYTES;
	write_files(e, "/a", 1);
	CHECK_EQ(add_job(e, 1, "/a", LEASE_MS, &scan), 0);
	CHECK_EQ(add_job(e, 2, "/a", LEASE_MS, &scan), 0);
	write_files(e, "/b", 50);
	CHECK_EQ(add_job(e, 3, "/b", LEASE_MS, &scan), 0);
	wait_jobs(0, 3);
	uint64_t now_ms = rt_wall_ns() / NS_PER_MS;
	judge(e, 1, (struct job_verdict){.at_ms = now_ms, .keep = JOB_KEEP_NOTHING});
	judge(e, 2, (struct job_verdict){.at_ms = now_ms, .cache = JOB_CACHE_OFF});
	CHECK_EQ(served(e, 1, "/a", 1), 0);
	CHECK_EQ(served(e, 2, "/a", 1), 0);
	CHECK_EQ(stats_of(0).segments, 0);
	/* a part of it, the same for whoever reads */
	judge(e, 1,
	      (struct job_verdict){.at_ms = now_ms + 1, .keep = JOB_KEEP_PART, .share = 300000});
	uint64_t part = served(e, 1, "/a", 1);
	CHECK(part > all / 8 && part < all - all / 8);
	CHECK_EQ(stats_of(0).segments, part / SEGMENT);
	CHECK_EQ(served(e, 1, "/a", 1), part);
	CHECK_EQ(served(e, 2, "/a", 1),
		 part); /* nothing is kept for it, but what is there is served */
	CHECK_EQ(stats_of(0).segments, part / SEGMENT);
	/* a job that is probed reads from the disks alone */
	judge(e, 2, (struct job_verdict){.at_ms = now_ms + 2, .cache = JOB_CACHE_PROBE});
	CHECK_EQ(served(e, 2, "/a", 1), 0);
	/* the manager is gone for long: the policy decides */
	judge(e, 3, (struct job_verdict){.at_ms = 1, .keep = JOB_KEEP_NOTHING});
	CHECK_EQ(served(e, 3, "/b", 50), all);
	engine_close(e);
}

/* Returns how many jobs have yet to read the bucket of a segment. */
static uint32_t readers_at(unsigned file, uint64_t off)
{
	const struct node_jobs *js = jobs_of(0);
	map_for_each(&js->places.blocks, it) {
		const struct dirmap_block *b = it.value;
		uint32_t position = b->dir->files[file].first + (uint32_t)(off / SEGMENT);
		if (b->file != file || position < b->first || position >= b->first + b->segments)
			continue;
		uint64_t bucket = node_jobs_bucket(cachers[0].serves, b, position);
		uint32_t number = cache_engine_bucket(cachenode_engine(cachers[0].serves), bucket);
		CHECK(number != CACHE_NONE);
		return cache_jobs_readers(&js->view, (uint16_t)number);
	}
	CHECK(!"the file is mapped");
	return 0;
}

static struct engine *check_buckets(struct client_fixture *fx, enum cachenode_buckets by)
{
	start_cachers(fx, 1, &(struct cacher){.policy = "future", .buckets = by});
	struct engine *e = open_engine(fx, &plain);
	write_files(e, "/a", 1);
	CHECK_EQ(add_job(e, 1, "/a", LEASE_MS, &scan), 0);
	CHECK_EQ(add_job(e, 2, "/a/f1", LEASE_MS, &scan), 0);
	struct terrane_job half = scan;
	half.ranges = &(struct terrane_job_range){0, 500000};
	half.range_count = 1;
	CHECK_EQ(add_job(e, 3, "/a", LEASE_MS, &half), 0);
	wait_jobs(0, 3);
	CHECK(read_as(e, 1, "/a/f0", 1, 0, SEGMENT));
	CHECK(read_as(e, 2, "/a/f1", 2, 0, SEGMENT));
	CHECK(read_as(e, 3, "/a/f0", 1, 0, SEGMENT));
	return e;
}

CLIENT_TEST(buckets_are_files, 4, 1)
{
	struct engine *e = check_buckets(fx, CACHENODE_BY_FILE);
	CHECK_EQ(readers_at(0, 0), 2);
	CHECK_EQ(readers_at(1, 0), 3);
	CHECK_EQ(readers_at(3, FILE_BYTES / 2), 2);
	engine_close(e);
}

CLIENT_TEST(buckets_are_windows, 4, 1)
{
	struct engine *e = check_buckets(fx, CACHENODE_BY_WINDOW);
	CHECK_EQ(readers_at(0, 0), 2);
	CHECK_EQ(readers_at(1, FILE_BYTES / 2), 3);
	CHECK_EQ(readers_at(3, 0), 2);
	engine_close(e);
}

CLIENT_TEST(buckets_are_ranges_of_files, 4, 1)
{
	struct engine *e = check_buckets(fx, CACHENODE_BY_RANGE);
	/* job 2 registered a file, which has all ranges; job 3 reads the first half of each file */
	CHECK_EQ(readers_at(0, 0), 3);
	CHECK_EQ(readers_at(0, FILE_BYTES - SEGMENT), 2);
	CHECK_EQ(readers_at(2, 0), 3);
	engine_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			future_admits_what_two_registered_jobs_read_from_the_first_read_on),
		ON_LOOPS(the_need_of_a_segment_falls_with_each_job_that_has_read_it),
		cmocka_unit_test(jobs_count_until_their_lease_ends_also_without_metadata),
		cmocka_unit_test(reports_tell_the_progress_of_a_job_that_reads_elsewhere),
		cmocka_unit_test(epochs_that_are_left_are_needed_again),
		ON_LOOPS(specs_and_tags_that_lie_make_no_read_wrong),
		cmocka_unit_test(free_flash_keeps_what_no_registered_job_needs),
		cmocka_unit_test(directories_that_are_read_in_turns_do_not_waste_flash),
		cmocka_unit_test(buckets_are_files),
		cmocka_unit_test(buckets_are_windows),
		cmocka_unit_test(buckets_are_ranges_of_files),
		cmocka_unit_test(a_bucket_is_the_directory_of_the_block_whatever_the_tag_says),
		cmocka_unit_test(a_node_keeps_for_a_job_what_the_manager_says),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
