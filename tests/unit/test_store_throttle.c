// SPDX-License-Identifier: Apache-2.0
/* The emulated disk is as fast as its model, in simulated time and in real time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "sim_test.h"
#include "store/mem.h"
#include "store/throttle.h"
#include "store_fixture.h"

/* --- load: fibers that read one after the other ------------------------------------------------ */

struct load {
	const struct drive_spec *spec;
	uint32_t fibers;
	uint64_t requests; /* number of all requests */
	uint64_t bytes;    /* length of each request in bytes */
	bool random;
	bool write;
	/* Measured: */
	double per_s;
	double bytes_per_s;
	struct drive_stats stats;
	/* The emulated device: */
	struct drive drive;
	struct rng rng;
	uint64_t left;
	uint64_t next_at;
};

static void load_fiber(void *arg)
{
	struct load *l = arg;
	while (l->left > 0) {
		l->left--;
		uint64_t at = l->next_at;
		l->next_at += l->bytes;
		if (l->random)
			at = rng_below(&l->rng, l->spec->size_bytes - l->bytes);
		CHECK_EQ(drive_request(&l->drive, rt_now_ns(), at, l->bytes, l->write), 0);
	}
}

static void load_main(void *arg)
{
	struct load *l = arg;
	struct rt_group g;
	CHECK_EQ(drive_init(&l->drive, l->spec), 0);
	rng_init(&l->rng, 99);
	rt_group_init(&g);
	l->left = l->requests;
	uint64_t start = rt_now_ns();
	for (uint32_t i = 0; i < l->fibers; i++)
		CHECK_EQ(rt_group_spawn(&g, "load", load_fiber, l), 0);
	rt_group_join(&g);
	double seconds = (double)(rt_now_ns() - start) / 1e9;
	l->per_s = (double)l->requests / seconds;
	l->bytes_per_s = l->per_s * (double)l->bytes;
	l->stats = l->drive.stats;
}

static struct load measure(struct load l)
{
	sim_test_run(load_main, &l);
	return l;
}

static void assert_near(double got, double want, const char *what)
{
	print_message("  %-28s %12.0f, by the model %12.0f (%+.1f%%)\n", what, got, want,
		      100 * (got / want - 1));
	assert_true(got > 0.95 * want && got < 1.05 * want);
}

/* The mean time of a random request, computed by hand. */
static double random_ns(const struct drive_spec *d, uint64_t bytes)
{
	double seek =
		(double)d->seek_min_ns + (double)(d->seek_max_ns - d->seek_min_ns) * 8.0 / 15.0;
	return seek + (double)d->turn_ns / 2 + (double)d->read_latency_ns +
	       (double)bytes * 1e9 / (double)d->read_bytes_per_s;
}

static void a_drive_with_an_arm_is_as_fast_as_its_model(void **state)
{
	(void)state;
	struct load l = {.spec = &drive_hdd, .fibers = 1, .requests = 3000, .random = true};
	l.bytes = 4096;
	assert_near(measure(l).per_s, 1e9 / random_ns(&drive_hdd, 4096), "hdd random 4 KiB/s");
	l.bytes = MIB;
	assert_near(measure(l).per_s, 1e9 / random_ns(&drive_hdd, MIB), "hdd random 1 MiB/s");
	l.random = false;
	assert_near(measure(l).bytes_per_s, 200e6, "hdd sequential read B/s");
	l.bytes = 65536;
	l.write = true;
	assert_near(measure(l).bytes_per_s, 200e6, "hdd sequential write B/s");
}

static void flash_is_as_fast_as_its_model(void **state)
{
	(void)state;
	static const struct drive_spec *const specs[] = {&drive_sata, &drive_nvme};
	for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
		const struct drive_spec *d = specs[i];
		double rate = (double)d->read_bytes_per_s;
		double transfer_ns = 4096 * 1e9 / rate;
		double one_ns = (double)d->read_latency_ns + transfer_ns;
		struct load l = {
			.spec = d, .fibers = 1, .requests = 5000, .bytes = 4096, .random = true};
		assert_near(measure(l).per_s, 1e9 / one_ns, "random 4 KiB/s, one at a time");
		l.fibers = 4;
		assert_near(measure(l).per_s, 4e9 / one_ns, "four at a time");
		/*
		 * As many fibers as queue_depth: the channels or the bus to the host are the
		 * limit.
		 */
		l.fibers = d->queue_depth;
		l.requests = 50000;
		double most = (double)d->channels * 1e9 / one_ns;
		most = most < 1e9 / transfer_ns ? most : 1e9 / transfer_ns;
		assert_near(measure(l).per_s, most, "as many as fit");
		l.bytes = MIB;
		l.requests = 2000;
		l.fibers = 8;
		assert_near(measure(l).bytes_per_s, rate, "1 MiB B/s");
		l.write = true;
		assert_near(measure(l).bytes_per_s, (double)d->write_bytes_per_s,
			    "1 MiB write B/s");
	}
}

static void a_deep_queue_helps_an_arm_and_starves_no_request(void **state)
{
	(void)state;
	struct load l = {.spec = &drive_hdd, .fibers = 1, .requests = 2000, .bytes = 4096};
	l.random = true;
	double one = measure(l).per_s;
	l.fibers = 32;
	struct load deep = measure(l);
	print_message("  %.0f/s one at a time, %.0f/s from a queue of 32\n", one, deep.per_s);
	assert_true(deep.per_s > 2 * one && deep.per_s < 6 * one);
	assert_int_equal(deep.stats.queued_max, 32);
	/* The device can only choose among the requests that it knows. */
	l.fibers = 200;
	struct load deeper = measure(l);
	assert_true(deeper.per_s < 1.1 * deep.per_s);
	assert_int_equal(deeper.stats.queued_max, 32);
	assert_int_equal(deeper.stats.requests, 2000);
	assert_int_equal(deeper.stats.bytes, 2000 * 4096);
}

struct waiter {
	struct drive *drive;
	uint64_t at;
	uint64_t waited_ns;
	int rc;
};

static void wait_far_away(void *arg)
{
	struct waiter *w = arg;
	uint64_t start = rt_now_ns();
	w->rc = drive_request(w->drive, start, w->at, 4096, false);
	w->waited_ns = rt_now_ns() - start;
}

static bool stop;

static void keep_near(void *arg)
{
	struct waiter *w = arg;
	struct rng rng;
	rng_init(&rng, w->at);
	while (!stop)
		CHECK_EQ(drive_request(w->drive, rt_now_ns(), rng_below(&rng, GIB), 4096, false),
			 0);
}

SIM_TEST(a_distant_request_is_served_within_the_patience)
{
	struct drive d;
	struct rt_group near, far;
	struct waiter w = {.drive = &d, .at = 19000000000000ULL};
	struct waiter n[16];
	CHECK_EQ(drive_init(&d, &drive_hdd), 0);
	rt_group_init(&near);
	rt_group_init(&far);
	stop = false;
	for (size_t i = 0; i < ARRAY_LEN(n); i++) {
		n[i] = (struct waiter){.drive = &d, .at = i};
		CHECK_EQ(rt_group_spawn(&near, "near", keep_near, &n[i]), 0);
	}
	CHECK_EQ(rt_sleep_ns(100 * NS_PER_MS), 0);
	CHECK_EQ(rt_group_spawn(&far, "far", wait_far_away, &w), 0);
	rt_group_join(&far);
	stop = true;
	rt_group_join(&near);
	CHECK_EQ(w.rc, 0);
	CHECK(w.waited_ns > 100 * NS_PER_MS && w.waited_ns < 800 * NS_PER_MS);
}

SIM_TEST(a_cancelled_request_leaves_the_queue)
{
	struct drive d;
	struct rt_group g;
	struct waiter w[40];
	CHECK_EQ(drive_init(&d, &drive_hdd), 0);
	rt_group_init(&g);
	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		w[i] = (struct waiter){.drive = &d, .at = i * 400000000000ULL};
		/* Half of the requests have a short deadline. */
		uint64_t before = rt_deadline();
		if (i % 2 == 1)
			rt_deadline_narrow(rt_now_ns() + 20 * NS_PER_MS);
		CHECK_EQ(rt_group_spawn(&g, "wait", wait_far_away, &w[i]), 0);
		rt_deadline_set(before);
	}
	rt_group_join(&g);
	int late = 0;
	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		CHECK(w[i].rc == 0 || (i % 2 == 1 && w[i].rc == -ETIME));
		late += w[i].rc != 0;
	}
	CHECK(late > 5);
	CHECK_EQ(d.queued, 0);
	CHECK(list_empty(&d.queue) && list_empty(&d.backlog));
}

/* --- the store -------------------------------------------------------------------------------- */

static struct store *open_over_mem(const struct drive_spec *spec)
{
	struct store *below, *s;
	CHECK_EQ(store_mem_open(512 * MIB, &below), 0);
	CHECK_EQ(store_throttle_open_take(below, spec, &s), 0);
	return s;
}

static uint64_t read_ns(struct store *s, uint32_t index, uint64_t off, uint64_t len)
{
	uint64_t start = rt_now_ns();
	CHECK_EQ(text_get(s, (struct chunk_id){.block = 1, .index = index}, 1, off, len, 0), 0);
	return rt_now_ns() - start;
}

static void read_chunks(void *arg)
{
	struct load *l = arg;
	struct store *s = open_over_mem(&drive_hdd);
	struct rng rng;
	uint64_t ns = 0, seq_ns = 0;
	rng_init(&rng, 3);
	for (uint32_t i = 0; i < 60; i++)
		CHECK_EQ(text_put(s, (struct chunk_id){.block = 1, .index = i}, 1, 4 * MIB, false,
				  0),
			 0);
	for (int i = 0; i < 600; i++)
		ns += read_ns(s, (uint32_t)rng_below(&rng, 60), rng_below(&rng, 4000000), 4096);
	l->per_s = 600 * 1e9 / (double)ns;
	read_ns(s, 0, 0, 4096);
	for (uint64_t off = 4096; off + 65536 <= 4 * MIB; off += 65536)
		seq_ns += read_ns(s, 0, off, 65536);
	l->bytes_per_s = 63 * 65536 * 1e9 / (double)seq_ns;
	store_throttle_stats(s, &l->stats);
	store_close(s);
}

static void chunks_of_an_emulated_disk_are_read_at_its_speed(void **state)
{
	(void)state;
	struct load l = {0};
	sim_test_run(read_chunks, &l);
	assert_near(l.per_s, 1e9 / random_ns(&drive_hdd, 4096), "random 4 KiB of chunks/s");
	assert_near(l.bytes_per_s, 200e6, "reading on in a chunk B/s");
	assert_int_equal(l.stats.requests, 60 + 600 + 1 + 63);
}

SIM_TEST(stat_and_list_cost_no_device_time)
{
	struct store *s = open_over_mem(&drive_hdd);
	struct chunk_id id = {.block = 1, .index = 1}, none = {.block = 9, .index = 9};
	struct drive_stats before, after;
	struct chunk_stat st;
	struct store_range bad;
	CHECK_EQ(text_put(s, id, 1, 100, true, 10 * MIB), 0);
	store_throttle_stats(s, &before);
	CHECK_EQ(before.requests, 1);
	CHECK_EQ(text_append(s, id, 1, 1, 100, MIB), 0);
	store_throttle_stats(s, &after);
	CHECK_EQ(after.requests, 3);
	CHECK_EQ(store_stat(s, id, &st), 0);
	CHECK_EQ(store_stat(s, none, &st), -ENOENT);
	CHECK_EQ(text_get(s, none, 1, 0, 1, 0), -ENOENT);
	store_throttle_stats(s, &after);
	CHECK_EQ(after.requests, 3);
	uint64_t start = rt_now_ns();
	CHECK_EQ(store_scan(s, id, &bad, 1), 0);
	CHECK(rt_now_ns() - start >= 5 * NS_PER_MS);
	CHECK_EQ(store_seal(s, id, 1, 100 + MIB), 0);
	CHECK_EQ(store_delete(s, id), 0);
	store_throttle_stats(s, &after);
	CHECK_EQ(after.requests, 6);
	store_close(s);
}

/* In real time a busy machine makes it slower, never faster. */
static void real_time(void *arg)
{
	(void)arg;
	struct load l = {.spec = &drive_hdd, .fibers = 1, .requests = 30, .bytes = 4096};
	l.random = true;
	load_main(&l);
	CHECK((double)l.stats.busy_ns <= 30 * 1e9 / l.per_s);
	CHECK(l.per_s < 110);
}

static void in_real_time_it_is_no_faster_than_the_model(void **state)
{
	(void)state;
	assert_int_equal(rt_real_run(NULL, real_time, NULL), 0);
}

static void impossible_drives_are_refused(void **state)
{
	(void)state;
	struct drive d;
	struct drive_spec bad[6];
	for (int i = 0; i < 6; i++)
		bad[i] = drive_hdd;
	bad[0].size_bytes = 0;
	bad[1].read_bytes_per_s = 0;
	bad[2].write_bytes_per_s = 0;
	bad[3].channels = 0;
	bad[4].channels = 33;
	bad[5].seek_min_ns = bad[5].seek_max_ns + 1;
	for (int i = 0; i < 6; i++)
		assert_int_equal(drive_init(&d, &bad[i]), -EINVAL);
	assert_ptr_equal(drive_preset("hdd"), &drive_hdd);
	assert_ptr_equal(drive_preset("sata"), &drive_sata);
	assert_ptr_equal(drive_preset("nvme"), &drive_nvme);
	assert_null(drive_preset("tape"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_drive_with_an_arm_is_as_fast_as_its_model),
		cmocka_unit_test(flash_is_as_fast_as_its_model),
		cmocka_unit_test(a_deep_queue_helps_an_arm_and_starves_no_request),
		cmocka_unit_test(a_distant_request_is_served_within_the_patience),
		cmocka_unit_test(a_cancelled_request_leaves_the_queue),
		cmocka_unit_test(chunks_of_an_emulated_disk_are_read_at_its_speed),
		cmocka_unit_test(stat_and_list_cost_no_device_time),
		cmocka_unit_test(in_real_time_it_is_no_faster_than_the_model),
		cmocka_unit_test(impossible_drives_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
