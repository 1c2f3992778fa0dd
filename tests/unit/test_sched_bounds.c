// SPDX-License-Identifier: Apache-2.0
/* The disk scheduler: limits, cancellation, groups, statistics, reservations. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"
#include "rt/rt.h"
#include "sched/sched.h"
#include "sched_fixture.h"
#include "sched_job.h"
#include "sim_test.h"

/* --- bounds, giving up -------------------------------------------------------------------------- */

SIM_TEST(a_full_queue_refuses_requests)
{
	struct sched_config c = job_serial_config();
	c.queue_max = 3;
	struct sched *s = job_sched_open(&c);
	struct job jobs[4] = {0}, one_more = {0}, gold = {0}, other = {0};
	for (size_t i = 0; i < ARRAY_LEN(jobs); i++)
		job_start(s, &jobs[i], "a", SCHED_BRONZE, 4096);
	job_start(s, &one_more, "a", SCHED_BRONZE, 4096);
	CHECK(one_more.over);
	CHECK_EQ(one_more.rc, -EAGAIN);
	rt_join(one_more.fiber);
	/* The full queue does not refuse requests of another class or group. */
	job_start(s, &gold, "a", SCHED_GOLD, 4096);
	job_start(s, &other, "b", SCHED_BRONZE, 4096);
	CHECK(!gold.over && !other.over);
	CHECK_EQ(sched_class_stats(s, SCHED_BRONZE)->refused, 1);
	CHECK_EQ(sched_class_stats(s, SCHED_BRONZE)->queued, 4);
	while (!other.over || !gold.over || jobs_at_disk(jobs, ARRAY_LEN(jobs)) > 0) {
		for (size_t i = 0; i < ARRAY_LEN(jobs); i++)
			if (jobs[i].at_disk)
				job_let_go(&jobs[i]);
		if (gold.at_disk)
			job_let_go(&gold);
		if (other.at_disk)
			job_let_go(&other);
	}
	job_drain(jobs, ARRAY_LEN(jobs));
	job_finish(&gold);
	job_finish(&other);
	job_check_empty(s);
	sched_close(s);
}

SIM_TEST(a_request_cancelled_while_it_waits_leaves_nothing_behind)
{
	struct sched_config c = job_serial_config();
	struct sched *s = job_sched_open(&c);
	struct job hold = {0}, late = {.time_ns = 5 * NS_PER_MS}, cancelled = {0}, last = {0};
	job_start(s, &hold, "a", SCHED_BRONZE, 4096);
	job_start(s, &late, "g", SCHED_GOLD, 4096);
	job_start(s, &cancelled, "b", SCHED_SILVER, 4096);
	job_start(s, &last, "b", SCHED_BRONZE, 4096);
	rt_cancel(cancelled.fiber);
	job_pass_ms(6);
	CHECK(late.over && cancelled.over);
	CHECK_EQ(late.rc, -ETIME);
	CHECK_EQ(cancelled.rc, -ECANCELED);
	rt_join(late.fiber);
	rt_join(cancelled.fiber);
	CHECK_EQ(sched_class_stats(s, SCHED_GOLD)->gave_up, 1);
	CHECK_EQ(sched_class_stats(s, SCHED_GOLD)->queued, 0);
	CHECK_EQ(sched_class_stats(s, SCHED_GOLD)->requests, 0);
	job_finish(&hold);
	CHECK(last.at_disk);
	job_finish(&last);
	job_check_empty(s);
	sched_close(s);
}

SIM_TEST(a_request_cancelled_between_slices_leaves_nothing_behind)
{
	struct sched_config c = job_serial_config();
	c.run_bytes = c.slice_bytes;
	struct sched *s = job_sched_open(&c);
	struct job a = {.time_ns = 20 * NS_PER_MS}, gold = {0}, b = {0};
	job_start(s, &a, "a", SCHED_BRONZE, 2 * MIB);
	job_pass_ms(5);
	job_start(s, &gold, "g", SCHED_GOLD, 4096);
	CHECK(a.at_disk);
	job_pass_ms(20);
	job_let_go(&a);
	/* The deadline passed while the slice was at the disk. The slice succeeds; the request
	 * fails when it would wait for the next one. */
	CHECK(a.over && gold.at_disk);
	CHECK_EQ(a.rc, -ETIME);
	rt_join(a.fiber);
	CHECK_EQ(sched_class_stats(s, SCHED_BRONZE)->requests, 1);
	CHECK_EQ(sched_class_stats(s, SCHED_BRONZE)->errors, 1);
	CHECK_EQ(sched_class_stats(s, SCHED_BRONZE)->bytes, MIB);
	job_finish(&gold);
	/* The job is cancelled at the moment at which its turn is granted. */
	job_start(s, &a, "a", SCHED_BRONZE, 4096);
	job_start(s, &b, "b", SCHED_BRONZE, 4096);
	rt_cond_signal(&a.go);
	CHECK_EQ(rt_yield(), 0);
	rt_cancel(b.fiber);
	job_settle();
	if (!b.over)
		job_let_go(&b);
	CHECK(b.over && (b.rc == -ECANCELED || b.rc == 0));
	rt_join(a.fiber);
	rt_join(b.fiber);
	job_check_empty(s);
	sched_close(s);
}

SIM_TEST(a_turn_ends_when_its_scope_ends)
{
	struct sched_config c = job_serial_config();
	struct sched *s = job_sched_open(&c);
	struct job a = {.drop = true}, b = {0};
	job_start(s, &a, "a", SCHED_BRONZE, 4096);
	job_start(s, &b, "b", SCHED_BRONZE, 4096);
	CHECK(!b.at_disk);
	job_let_go(&a);
	CHECK(a.over && b.at_disk);
	rt_join(a.fiber);
	CHECK_EQ(sched_class_stats(s, SCHED_BRONZE)->errors, 1);
	job_finish(&b);
	job_check_empty(s);
	sched_close(s);
}

struct crash_fixture {
	struct sched *sched;
	struct rt_group group;
};

static void crash_request(void *arg)
{
	struct crash_fixture *fx = arg;
	struct sched_request r = {.group = "a", .class = SCHED_BRONZE, .bytes = 3 * MIB};
	AUTO_SCHED_TURN struct sched_turn t = {0};
	int rc = sched_begin(fx->sched, &r, &t);
	while (rc == 0 && t.granted)
		rc = sched_next(&t, rt_sleep_ns(10 * NS_PER_MS));
}

/* sched_close asserts that nothing waits or is at the disk. */
static void crash_main(void *arg)
{
	struct crash_fixture fx;
	struct sched_config c = job_serial_config();
	(void)arg;
	c.run_bytes = c.slice_bytes;
	fx.sched = job_sched_open(&c);
	rt_group_init(&fx.group);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(rt_group_spawn(&fx.group, "request", crash_request, &fx), 0);
	rt_group_join(&fx.group);
	sched_close(fx.sched);
}

static void a_crash_at_any_wait_leaves_nothing_behind(void **state)
{
	(void)state;
	uint64_t lives = 0, nth = 1;
	do {
		lives = sim_test_once(&(struct sim_test){.seed = nth, .crash_at = nth}, crash_main,
				      NULL);
		nth++;
	} while (lives > 1);
	assert_true(nth > 12);
}

/* --- what cannot be ------------------------------------------------------------------------------- */

SIM_TEST(invalid_requests_are_refused)
{
	struct sched *s = job_sched_open(&sched_hdd);
	struct sched_turn t;
	char name[SCHED_NAME_MAX + 2];
	memset(name, 'x', sizeof(name));
	name[SCHED_NAME_MAX + 1] = '\0';
	struct sched_request long_name = {.group = name};
	struct sched_request class = {.group = "", .class = SCHED_CLASSES};
	struct sched_request kind = {.group = "", .kind = SCHED_KINDS};
	struct sched_request range = {.group = "", .off = UINT64_MAX, .bytes = 2};
	struct sched_request bytes = {.group = "", .off = 1, .bytes = UINT64_MAX};
	CHECK_EQ(sched_begin(s, &long_name, &t), -EINVAL);
	CHECK_EQ(sched_begin(s, &class, &t), -EINVAL);
	CHECK_EQ(sched_begin(s, &kind, &t), -EINVAL);
	CHECK_EQ(sched_begin(s, &range, &t), -EINVAL);
	CHECK_EQ(sched_begin(s, &bytes, &t), -EINVAL);
	CHECK(!t.granted);
	sched_end(&t);
	CHECK_EQ(sched_weigh(s, "a", 0), -EINVAL);
	CHECK_EQ(sched_weigh(s, "a", SCHED_WEIGHT_MAX + 1), -EINVAL);
	CHECK_EQ(sched_weigh(s, name, 1), -EINVAL);
	name[SCHED_NAME_MAX] = '\0';
	CHECK_EQ(sched_weigh(s, name, 1), 0);
	job_check_empty(s);
	sched_close(s);
}

static void invalid_configurations_are_refused(void **state)
{
	(void)state;
	struct sched *s = NULL;
	struct sched_config bad[11];
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = sched_hdd;
	bad[0].depth = 0;
	bad[1].other_depth = 0;
	bad[2].other_depth = bad[2].depth + 1;
	bad[3].slice_bytes = 3 * MIB;
	bad[4].run_bytes = bad[4].slice_bytes - 1;
	bad[5].quota_ns = 0;
	bad[6].groups_max = 0;
	bad[7].queue_max = 0;
	bad[8].reservations_max = 0;
	bad[9].read_bytes_per_s = 0;
	bad[10].lanes = 0;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(sched_open(&bad[i], &s), -EINVAL);
	assert_null(s);
	static const char *const names[] = {"hdd", "sata", "nvme"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		assert_int_equal(sched_open(sched_preset(names[i]), &s), 0);
		sched_close(s);
	}
	assert_null(sched_preset("tape"));
	sched_close(NULL);
}

/* --- groups --------------------------------------------------------------------------------------- */

static bool has_group(const struct sched *s, const char *name)
{
	struct sched_group_stats g;
	for (uint32_t i = 0; sched_group_stats(s, i, &g); i++)
		if (strcmp(g.name, name) == 0)
			return true;
	return false;
}

SIM_TEST(groups_are_bounded_and_entries_of_idle_ones_are_reused)
{
	struct sched_config c = sched_hdd;
	c.groups_max = 4; /* the group "other", a group with a weight, and two more */
	struct sched *s = job_sched_open(&c);
	struct job a = {0}, b = {0}, d = {0}, e = {0};
	CHECK_EQ(sched_weigh(s, "kept", 10), 0);
	job_start(s, &a, "a", SCHED_BRONZE, 4096);
	job_finish(&a);
	job_start(s, &b, "b", SCHED_BRONZE, 4096);
	job_finish(&b);
	CHECK(has_group(s, "a") && has_group(s, "b"));
	/* The entry of the group that was idle the longest is reused, */
	job_start(s, &a, "a", SCHED_BRONZE, 4096);
	job_finish(&a);
	job_start(s, &d, "d", SCHED_BRONZE, 4096);
	job_finish(&d);
	CHECK(has_group(s, "a") && !has_group(s, "b") && has_group(s, "d"));
	/* but not that of a group with requests, reservations or a weight. */
	struct sched_reservation r;
	uint64_t retry_ns;
	CHECK_EQ(sched_reserve(s, "a", SCHED_BRONZE, MIB, &r, &retry_ns), 0);
	job_start(s, &d, "d", SCHED_BRONZE, 4096);
	job_finish(&d);
	job_start(s, &b, "b", SCHED_BRONZE, 4096);
	CHECK(has_group(s, "a") && has_group(s, "b") && !has_group(s, "d"));
	CHECK_EQ(sched_release(s, r.id, &r), 0);
	job_start(s, &d, "d", SCHED_BRONZE, 4096);
	CHECK(!has_group(s, "a") && has_group(s, "b") && has_group(s, "d") && has_group(s, "kept"));
	/* When no group is idle, new groups share the group SCHED_GROUP_OTHER. */
	job_start(s, &e, "e", SCHED_BRONZE, 4096);
	CHECK(!has_group(s, "e") && has_group(s, SCHED_GROUP_OTHER));
	CHECK_EQ(sched_weigh(s, "f", 10), -ENOSPC);
	struct sched_group_stats g;
	CHECK(sched_group_stats(s, 0, &g) && strcmp(g.name, SCHED_GROUP_OTHER) == 0);
	CHECK_EQ(g.classes[SCHED_BRONZE].at_disk + g.classes[SCHED_BRONZE].queued, 1);
	job_finish(&b);
	job_finish(&d);
	job_finish(&e);
	job_start(s, &e, "", SCHED_BRONZE, 4096);
	job_finish(&e);
	CHECK_EQ(g.classes[SCHED_BRONZE].requests, 2);
	CHECK_EQ(sched_weigh(s, "f", 10), 0);
	job_check_empty(s);
	sched_close(s);
}

/* --- statistics --------------------------------------------------------------------------------- */

SIM_TEST(requests_are_counted_by_group_and_class)
{
	struct sched_config c = job_serial_config();
	struct sched *s = job_sched_open(&c);
	struct job a = {0}, b = {0};
	job_start(s, &a, "a", SCHED_GOLD, 4096);
	job_start(s, &b, "b", SCHED_SILVER, 8192);
	job_pass_ms(20);
	job_finish(&a);
	job_pass_ms(5);
	job_finish(&b);
	const struct sched_stats *gold = sched_class_stats(s, SCHED_GOLD);
	const struct sched_stats *silver = sched_class_stats(s, SCHED_SILVER);
	struct sched_disk_stats disk;
	sched_disk_stats(s, &disk);
	CHECK_EQ(gold->requests, 1);
	CHECK_EQ(gold->bytes, 4096);
	CHECK_EQ(silver->bytes, 8192);
	CHECK_EQ(gold->errors + silver->errors, 0);
	CHECK(gold->disk_ns >= 20 * NS_PER_MS && gold->disk_ns < 21 * NS_PER_MS);
	CHECK(silver->disk_ns >= 5 * NS_PER_MS && silver->disk_ns < 6 * NS_PER_MS);
	CHECK_EQ(gold->disk_ns + silver->disk_ns, disk.busy_ns);
	CHECK(gold->wait.max_ns < NS_PER_US && silver->wait.max_ns >= 20 * NS_PER_MS);
	CHECK(silver->service.max_ns < 6 * NS_PER_MS);
	struct sched_group_stats g;
	for (uint32_t i = 0; sched_group_stats(s, i, &g); i++) {
		CHECK_EQ(g.weight, SCHED_WEIGHT_DEFAULT);
		CHECK_EQ(g.classes[SCHED_GOLD].requests, strcmp(g.name, "a") == 0);
		CHECK_EQ(g.classes[SCHED_SILVER].requests, strcmp(g.name, "b") == 0);
	}
	sched_close(s);
	CHECK(strcmp(sched_class_name(SCHED_GOLD), "gold") == 0);
	CHECK(strcmp(sched_class_name(SCHED_BRONZE), "bronze") == 0);
}

SIM_TEST(names_answered_from_memory_do_not_change_the_estimates_of_reads)
{
	struct sched *s = job_sched_open(&sched_hdd);
	struct sched_disk_stats st;
	for (int i = 0; i < 500; i++) {
		struct job j = {.sched = s};
		j.r = (struct sched_request){
			.group = "a", .class = SCHED_BRONZE, .kind = SCHED_NAMES};
		job_start_as(&j);
		job_finish(&j);
	}
	sched_disk_stats(s, &st);
	CHECK(st.names_ns < 10 * NS_PER_US);
	CHECK_EQ(st.position_ns, sched_hdd.position_ns);
	CHECK_EQ(st.write_position_ns, sched_hdd.position_ns);
	job_check_empty(s);
	sched_close(s);
}

/* --- reservations --------------------------------------------------------------------------------- */

#define WRITE_BYTES (8 * MIB) /* the scheduler estimates 54 ms for such a write */

SIM_TEST(a_busy_disk_refuses_reservations)
{
	struct sched_config c = sched_hdd;
	c.reserve_ahead_ns = NS_PER_S;
	struct sched *s = job_sched_open(&c);
	struct sched_reservation r[32], more;
	uint64_t retry_ns = 0;
	uint32_t n = 0;
	while (sched_reserve(s, "a", SCHED_GOLD, WRITE_BYTES, &r[n], &retry_ns) == 0)
		CHECK(++n < ARRAY_LEN(r));
	CHECK_EQ(n, 18); /* 18 reservations of 53.9 ms fit into a second, 19 do not */
	CHECK(retry_ns >= NS_PER_MS && retry_ns < 60 * NS_PER_MS);
	struct sched_disk_stats st;
	sched_disk_stats(s, &st);
	CHECK_EQ(st.reservations, n);
	CHECK_EQ(st.reserved_bytes, n * WRITE_BYTES);
	CHECK_EQ(st.reservations_refused, 1);
	/* After one was released there is room for another. */
	CHECK_EQ(sched_release(s, r[3].id, &more), 0);
	CHECK_EQ(more.bytes, WRITE_BYTES);
	CHECK_EQ(sched_release(s, r[3].id, &more), -ENOENT);
	CHECK_EQ(sched_reserve(s, "a", SCHED_GOLD, WRITE_BYTES, &r[3], &retry_ns), 0);
	CHECK_EQ(sched_reserve(s, "a", SCHED_GOLD, WRITE_BYTES, &more, &retry_ns), -EBUSY);
	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(sched_release(s, r[i].id, &more), 0);
	/* A lower class is refused earlier. */
	for (n = 0; sched_reserve(s, "a", SCHED_BRONZE, WRITE_BYTES, &r[n], &retry_ns) == 0; n++)
		CHECK(n < 18);
	CHECK_EQ(n, 9);
	CHECK_EQ(sched_reserve(s, "a", SCHED_SILVER, WRITE_BYTES, &more, &retry_ns), 0);
	sched_close(s);
}

SIM_TEST(queued_requests_reduce_the_time_for_reservations)
{
	struct sched_config c = job_serial_config();
	c.reserve_ahead_ns = NS_PER_S;
	struct sched *s = job_sched_open(&c);
	struct job jobs[20] = {0};
	struct sched_reservation r;
	uint64_t retry_ns = 0;
	for (size_t i = 0; i < ARRAY_LEN(jobs); i++)
		job_start(s, &jobs[i], "a", SCHED_BRONZE, WRITE_BYTES);
	CHECK_EQ(sched_reserve(s, "b", SCHED_GOLD, WRITE_BYTES, &r, &retry_ns), -EBUSY);
	CHECK(retry_ns > 50 * NS_PER_MS && retry_ns < 300 * NS_PER_MS);
	job_drain(jobs, ARRAY_LEN(jobs));
	CHECK_EQ(sched_reserve(s, "b", SCHED_GOLD, WRITE_BYTES, &r, &retry_ns), 0);
	job_check_empty(s);
	sched_close(s);
}

SIM_TEST(a_group_beyond_its_share_gets_no_reservation)
{
	struct sched_config c = sched_hdd;
	c.reserve_ahead_ns = NS_PER_S;
	struct sched *s = job_sched_open(&c);
	struct sched_reservation r, b;
	uint64_t retry_ns = 0;
	uint32_t n = 0, m = 0;
	CHECK_EQ(sched_weigh(s, "a", 100), 0);
	CHECK_EQ(sched_weigh(s, "b", 300), 0);
	CHECK_EQ(sched_reserve(s, "b", SCHED_GOLD, WRITE_BYTES, &b, &retry_ns), 0);
	/* One group gets a quarter while the other has requests. */
	while (sched_reserve(s, "a", SCHED_GOLD, WRITE_BYTES, &r, &retry_ns) == 0)
		n++;
	CHECK_EQ(n, 4);
	CHECK(retry_ns >= NS_PER_MS && retry_ns < 250 * NS_PER_MS);
	while (sched_reserve(s, "b", SCHED_GOLD, WRITE_BYTES, &r, &retry_ns) == 0)
		m++;
	CHECK_EQ(m + 1, 13);
	sched_close(s);
}

SIM_TEST(reservations_expire_and_are_bounded)
{
	struct sched_config c = sched_hdd;
	c.reservations_max = 4;
	c.reserve_ttl_ns = NS_PER_S;
	struct sched *s = job_sched_open(&c);
	struct sched_reservation r[4], more;
	struct sched_disk_stats st;
	uint64_t retry_ns = 0;
	for (size_t i = 0; i < ARRAY_LEN(r); i++)
		CHECK_EQ(sched_reserve(s, "a", SCHED_GOLD, MIB, &r[i], &retry_ns), 0);
	CHECK_EQ(sched_reserve(s, "a", SCHED_GOLD, MIB, &more, &retry_ns), -EBUSY);
	CHECK(!sched_expired(s, &more));
	job_pass_ms(1001);
	CHECK_EQ(sched_release(s, r[0].id, &more), -ENOENT);
	/* The number is bounded also if sched_expired is never called. */
	CHECK_EQ(sched_reserve(s, "a", SCHED_GOLD, MIB, &more, &retry_ns), -EBUSY);
	for (size_t i = 0; i < ARRAY_LEN(r); i++) {
		CHECK(sched_expired(s, &more));
		CHECK_EQ(more.id, r[i].id);
		CHECK_EQ(more.bytes, MIB);
	}
	CHECK(!sched_expired(s, &more));
	sched_disk_stats(s, &st);
	CHECK_EQ(st.reservations, 0);
	CHECK_EQ(st.reserved_bytes, 0);
	CHECK_EQ(sched_reserve(s, "a", SCHED_GOLD, MIB, &more, &retry_ns), 0);
	for (size_t i = 0; i < ARRAY_LEN(r); i++)
		CHECK(more.id != r[i].id);
	sched_close(s);
}

SIM_TEST(dropping_all_reservations_includes_those_that_have_expired)
{
	struct sched_config c = sched_hdd;
	c.reservations_max = 4;
	c.reserve_ttl_ns = NS_PER_S;
	struct sched *s = job_sched_open(&c);
	struct sched_reservation r;
	struct sched_disk_stats st;
	uint64_t retry_ns = 0;
	for (int i = 0; i < 2; i++)
		CHECK_EQ(sched_reserve(s, "a", SCHED_GOLD, MIB, &r, &retry_ns), 0);
	job_pass_ms(1001);
	/* This call finds that the first two have expired. */
	CHECK_EQ(sched_reserve(s, "a", SCHED_GOLD, MIB, &r, &retry_ns), 0);
	sched_reservations_drop(s);
	CHECK(!sched_expired(s, &r));
	sched_disk_stats(s, &st);
	CHECK_EQ(st.reservations, 0);
	CHECK_EQ(st.reserved_bytes, 0);
	for (uint32_t i = 0; i < c.reservations_max; i++)
		CHECK_EQ(sched_reserve(s, "a", SCHED_GOLD, MIB, &r, &retry_ns), 0);
	sched_close(s);
}

SIM_TEST(an_expired_reservation_holds_no_disk_time)
{
	struct sched_config c = sched_hdd;
	c.reserve_ahead_ns = NS_PER_S;
	c.reserve_ttl_ns = NS_PER_S;
	struct sched *s = job_sched_open(&c);
	struct sched_reservation r;
	uint64_t retry_ns = 0;
	for (int i = 0; i < 3; i++) {
		uint32_t n = 0;
		while (sched_reserve(s, "a", SCHED_GOLD, WRITE_BYTES, &r, &retry_ns) == 0)
			n++;
		CHECK_EQ(n, 18);
		job_pass_ms(1001);
	}
	sched_close(s);
}

SIM_TEST(invalid_reservations_are_refused)
{
	struct sched *s = job_sched_open(&sched_hdd);
	struct sched_reservation r;
	uint64_t retry_ns = 0;
	char name[SCHED_NAME_MAX + 2] = {0};
	memset(name, 'x', SCHED_NAME_MAX + 1);
	CHECK_EQ(sched_reserve(s, name, SCHED_GOLD, 1, &r, &retry_ns), -EINVAL);
	CHECK_EQ(sched_reserve(s, "a", SCHED_CLASSES, 1, &r, &retry_ns), -EINVAL);
	CHECK_EQ(sched_reserve(s, "a", SCHED_GOLD, UINT64_MAX, &r, &retry_ns), -EINVAL);
	CHECK_EQ(sched_release(s, 0, &r), -ENOENT);
	CHECK_EQ(sched_release(s, UINT64_MAX, &r), -ENOENT);
	/* A reservation larger than every limit is granted when the disk is idle. */
	CHECK_EQ(sched_reserve(s, "a", SCHED_BRONZE, 100 * GIB, &r, &retry_ns), 0);
	CHECK_EQ(sched_reserve(s, "a", SCHED_GOLD, 1, &r, &retry_ns), -EBUSY);
	CHECK_EQ(retry_ns, sched_hdd.reserve_ttl_ns);
	sched_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_queue_refuses_requests),
		cmocka_unit_test(a_request_cancelled_while_it_waits_leaves_nothing_behind),
		cmocka_unit_test(a_request_cancelled_between_slices_leaves_nothing_behind),
		cmocka_unit_test(a_turn_ends_when_its_scope_ends),
		cmocka_unit_test(a_crash_at_any_wait_leaves_nothing_behind),
		cmocka_unit_test(invalid_requests_are_refused),
		cmocka_unit_test(invalid_configurations_are_refused),
		cmocka_unit_test(groups_are_bounded_and_entries_of_idle_ones_are_reused),
		cmocka_unit_test(requests_are_counted_by_group_and_class),
		cmocka_unit_test(names_answered_from_memory_do_not_change_the_estimates_of_reads),
		cmocka_unit_test(a_busy_disk_refuses_reservations),
		cmocka_unit_test(queued_requests_reduce_the_time_for_reservations),
		cmocka_unit_test(a_group_beyond_its_share_gets_no_reservation),
		cmocka_unit_test(an_expired_reservation_holds_no_disk_time),
		cmocka_unit_test(reservations_expire_and_are_bounded),
		cmocka_unit_test(dropping_all_reservations_includes_those_that_have_expired),
		cmocka_unit_test(invalid_reservations_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
