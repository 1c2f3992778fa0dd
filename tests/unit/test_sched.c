// SPDX-License-Identifier: Apache-2.0
/* The rules of the disk scheduler one by one, on a disk whose requests end when the test ends
 * them. */
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

/* --- rule 1: quotas ----------------------------------------------------------------------------- */

/* Each of n jobs holds the disk for 10 ms. Counts, for each group, its jobs among the first
 * ones. */
static void count_first(struct job *jobs, size_t n, size_t first, uint32_t *a, uint32_t *b)
{
	*a = *b = 0;
	for (size_t done = 0; done < n; done++) {
		size_t i = 0;
		while (i < n && !jobs[i].at_disk)
			i++;
		CHECK(i < n);
		if (done < first)
			*(strcmp(jobs[i].r.group, "a") == 0 ? a : b) += 1;
		job_pass_ms(10);
		job_let_go(&jobs[i]);
	}
	for (size_t i = 0; i < n; i++)
		rt_join(jobs[i].fiber);
}

static void quotas(void *arg)
{
	(void)arg;
	struct sched_config c = job_serial_config();
	struct sched *s = job_sched_open(&c);
	struct job jobs[80] = {0}, hold = {0};
	uint32_t a, b;
	CHECK_EQ(sched_weigh(s, "a", 100), 0);
	CHECK_EQ(sched_weigh(s, "b", 300), 0);
	job_start(s, &hold, "c", SCHED_BRONZE, 4096);
	for (size_t i = 0; i < ARRAY_LEN(jobs); i++)
		job_start(s, &jobs[i], i % 2 == 0 ? "a" : "b", SCHED_BRONZE, 4096);
	job_finish(&hold);
	count_first(jobs, ARRAY_LEN(jobs), 48, &a, &b);
	CHECK_EQ(a, 12);
	CHECK_EQ(b, 36);
	job_check_empty(s);
	sched_close(s);
}

static void groups_get_turns_by_weight(void **state)
{
	(void)state;
	sim_test_run(quotas, NULL);
}

SIM_TEST(a_group_beyond_its_quota_is_skipped_only_while_others_wait)
{
	struct sched_config c = job_serial_config();
	struct sched *s = job_sched_open(&c);
	struct job a = {0};
	/* A group that has no competitor is served at once, whatever it has used. */
	for (int i = 0; i < 20; i++) {
		job_start(s, &a, "a", SCHED_BRONZE, 4096);
		CHECK(a.at_disk);
		job_pass_ms(100);
		job_finish(&a);
	}
	/*
	 * The group is in debt by a little more than two quotas: the other group is served alone in
	 * this round and in two more, and is served first in the next.
	 */
	struct job many[16] = {0}, hold = {0};
	size_t before = 0;
	job_start(s, &hold, "hold", SCHED_BRONZE, 4096);
	job_start(s, &a, "a", SCHED_BRONZE, 4096);
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		job_start(s, &many[i], "b", SCHED_BRONZE, 4096);
	job_finish(&hold);
	for (size_t i = 0; i < ARRAY_LEN(many); i++) {
		if (a.at_disk)
			job_finish(&a);
		before += !a.over;
		job_pass_ms(10);
		job_finish(&many[i]);
	}
	CHECK_EQ(before, 13);
	CHECK(a.over);
	job_check_empty(s);
	sched_close(s);
}

/* --- rule 2: turns -------------------------------------------------------------------------------- */

SIM_TEST(a_request_that_has_begun_ends_before_another_starts)
{
	struct sched_config c = job_serial_config();
	c.run_bytes = c.slice_bytes;
	struct sched *s = job_sched_open(&c);
	struct job a = {0}, b = {0};
	job_start(s, &a, "a", SCHED_BRONZE, 8 * MIB);
	job_start(s, &b, "b", SCHED_BRONZE, 8 * MIB);
	for (uint32_t i = 0; i < 8; i++) {
		CHECK(a.at_disk && !b.at_disk);
		CHECK_EQ(a.off, i * MIB);
		CHECK_EQ(a.len, MIB);
		/* 72 ms in all: more than its quota of 40 ms, less than twice the quota */
		job_pass_ms(9);
		job_let_go(&a);
	}
	CHECK(a.over && b.at_disk);
	/* A request whose group is more than a quota in debt is interrupted. */
	job_finish(&a);
	job_start(s, &a, "a", SCHED_BRONZE, 8 * MIB);
	uint32_t held = 0;
	while (b.at_disk) {
		job_pass_ms(15);
		job_let_go(&b);
		held++;
	}
	CHECK(held >= 5 && held < 8);
	CHECK(a.at_disk && !b.over);
	job_finish_both(&a, &b);
	CHECK_EQ(b.slices, 8);
	job_check_empty(s);
	sched_close(s);
}

/* --- rule 3: ceding ------------------------------------------------------------------------------- */

/* Returns which request is sent when the disk is free: one of a lower class that is next, or one
 * of a higher class. */
static bool higher_goes_first(enum sched_class lower, enum sched_class higher, uint64_t time_ns)
{
	struct sched_config c = job_serial_config();
	c.gold_patience_ns = NS_PER_S;
	struct sched *s = job_sched_open(&c);
	struct job hold = {0}, low = {.time_ns = time_ns}, high = {0};
	job_start(s, &hold, "hold", SCHED_BRONZE, 4096);
	job_pass_ms(12); /* the time that the scheduler estimated */
	job_start(s, &low, "low", lower, 8 * MIB);
	job_start(s, &high, "high", higher, 4096);
	job_finish(&hold);
	CHECK(low.at_disk != high.at_disk);
	bool first = high.at_disk;
	job_finish_both(&low, &high);
	job_check_empty(s);
	sched_close(s);
	return first;
}

static void ceding(void *arg)
{
	(void)arg;
	CHECK(higher_goes_first(SCHED_BRONZE, SCHED_GOLD, 0));
	CHECK(higher_goes_first(SCHED_BRONZE, SCHED_SILVER, 0));
	CHECK(higher_goes_first(SCHED_SILVER, SCHED_GOLD, 0));
	CHECK(!higher_goes_first(SCHED_BRONZE, SCHED_BRONZE, 0));
	CHECK(!higher_goes_first(SCHED_GOLD, SCHED_BRONZE, 0));
	CHECK(!higher_goes_first(SCHED_SILVER, SCHED_BRONZE, 0));
}

static void a_lower_class_cedes_its_turn_to_a_higher_one(void **state)
{
	(void)state;
	sim_test_run(ceding, NULL);
}

SIM_TEST(a_request_does_not_cede_if_it_would_miss_its_deadline)
{
	/*
	 * The request takes 54 ms, the other one 12 ms. If it lets the other one go first, it is
	 * late with a deadline of 60 ms, but not with 80 ms.
	 */
	CHECK(!higher_goes_first(SCHED_BRONZE, SCHED_GOLD, 60 * NS_PER_MS));
	CHECK(higher_goes_first(SCHED_BRONZE, SCHED_GOLD, 80 * NS_PER_MS));
}

/* --- rule 4: the cap ------------------------------------------------------------------------------ */

static void cap(void *arg)
{
	(void)arg;
	struct sched_config c = sched_hdd;
	c.other_depth = 2;
	c.other_ahead_ns = NS_PER_S;
	c.gold_linger_ns = 30 * NS_PER_MS;
	c.gold_patience_ns = NS_PER_S;
	struct sched *s = job_sched_open(&c);
	struct job gold = {0}, jobs[7] = {0};
	job_start(s, &gold, "g", SCHED_GOLD, 4096);
	for (size_t i = 0; i < ARRAY_LEN(jobs); i++)
		job_start(s, &jobs[i], "b", i % 2 == 0 ? SCHED_BRONZE : SCHED_SILVER, 4096);
	CHECK_EQ(jobs_at_disk(jobs, ARRAY_LEN(jobs)), 2);
	/* The result does not depend on the time that the request is at the disk. */
	job_pass_ms(40);
	job_let_go(&jobs[jobs[0].at_disk ? 0 : 2]);
	CHECK_EQ(jobs_at_disk(jobs, ARRAY_LEN(jobs)), 2);
	job_finish(&gold);
	/* Gold stays active for a while after its last request. */
	job_pass_ms(c.gold_linger_ns / NS_PER_MS - 5);
	CHECK_EQ(jobs_at_disk(jobs, ARRAY_LEN(jobs)), 2);
	size_t i = 0;
	while (!jobs[i].at_disk)
		i++;
	job_let_go(&jobs[i]);
	CHECK_EQ(jobs_at_disk(jobs, ARRAY_LEN(jobs)), 2);
	job_pass_ms(6);
	while (!jobs[i].at_disk)
		i++;
	job_let_go(&jobs[i]);
	CHECK_EQ(jobs_at_disk(jobs, ARRAY_LEN(jobs)), 4);
	job_drain(jobs, ARRAY_LEN(jobs));
	job_check_empty(s);
	sched_close(s);
}

static void other_requests_at_the_disk_are_capped_while_gold_is_active(void **state)
{
	(void)state;
	sim_test_run(cap, NULL);
}

SIM_TEST(without_gold_the_disk_time_at_the_disk_is_bounded)
{
	struct sched *s = job_sched_open(&sched_hdd);
	struct job small[12] = {0}, large[4] = {0}, gold = {0};
	/*
	 * Requests of 12 ms each are sent up to the depth of the disk. Of requests of 54 ms each
	 * one fits into 100 ms, two do not.
	 */
	for (size_t i = 0; i < ARRAY_LEN(small); i++)
		job_start(s, &small[i], "b", SCHED_BRONZE, 4096);
	CHECK_EQ(jobs_at_disk(small, ARRAY_LEN(small)), 8);
	job_drain(small, ARRAY_LEN(small));
	job_check_empty(s);
	sched_close(s);
	s = job_sched_open(&sched_hdd);
	for (size_t i = 0; i < ARRAY_LEN(large); i++)
		job_start(s, &large[i], "b", SCHED_BRONZE, 8 * MIB);
	CHECK_EQ(jobs_at_disk(large, ARRAY_LEN(large)), 1);
	/* A request is one slice while Gold is not active, and small slices from then on. */
	CHECK_EQ(large[0].len, 8 * MIB);
	job_start(s, &gold, "g", SCHED_GOLD, 4096);
	CHECK(gold.at_disk);
	job_let_go(&large[0]);
	job_finish(&gold);
	CHECK(large[1].at_disk);
	CHECK_EQ(large[1].len, MIB);
	job_drain(large, ARRAY_LEN(large));
	CHECK_EQ(large[1].slices, 8);
	job_check_empty(s);
	sched_close(s);
}

/* The number of requests allowed while Gold is active is allowed without Gold too, however long
 * each one takes. */
SIM_TEST(without_gold_no_fewer_requests_are_at_the_disk)
{
	struct sched_config c = sched_hdd;
	struct job large[5] = {0};
	c.other_depth = 3;
	c.other_ahead_ns = NS_PER_MS;
	struct sched *s = job_sched_open(&c);
	for (size_t i = 0; i < ARRAY_LEN(large); i++)
		job_start(s, &large[i], "b", SCHED_BRONZE, 8 * MIB);
	CHECK_EQ(jobs_at_disk(large, ARRAY_LEN(large)), 3);
	job_drain(large, ARRAY_LEN(large));
	job_check_empty(s);
	sched_close(s);
}

static void slices(void *arg)
{
	(void)arg;
	struct sched *s = job_sched_open(&sched_hdd);
	struct job gold = {0}, j = {0};
	job_start(s, &gold, "g", SCHED_GOLD, 20 * MIB);
	CHECK_EQ(gold.len, 8 * MIB); /* the limit of a slice holds for Gold too */
	job_finish(&gold);
	CHECK_EQ(gold.slices, 3);
	/* Slices end at multiples of slice_bytes in the chunk. */
	static const uint64_t ends[] = {1 * MIB, 2 * MIB, 3 * MIB, 3 * MIB + 5000};
	j.r = (struct sched_request){.group = "b", .class = SCHED_BRONZE, .off = 4096};
	j.r.bytes = ends[3] - j.r.off;
	j.sched = s;
	job_start_as(&j);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		CHECK_EQ(j.off, i == 0 ? 4096 : ends[i - 1]);
		CHECK_EQ(j.off + j.len, ends[i]);
		job_let_go(&j);
	}
	job_finish(&j);
	/* A request marked whole is not cut, and a request of 0 bytes is served. */
	j = (struct job){.sched = s};
	j.r = (struct sched_request){"b", SCHED_BRONZE, SCHED_WRITE, true, 0, 8 * MIB};
	job_start_as(&j);
	CHECK_EQ(j.len, 8 * MIB);
	job_finish(&j);
	j = (struct job){0};
	job_start(s, &j, "b", SCHED_BRONZE, 0);
	CHECK(j.at_disk);
	CHECK_EQ(j.len, 0);
	job_finish(&j);
	job_check_empty(s);
	sched_close(s);
}

static void long_requests_are_cut_at_multiples_of_the_slice_size(void **state)
{
	(void)state;
	sim_test_run(slices, NULL);
}

/* --- rule 5: patience ----------------------------------------------------------------------------- */

static void patience(void *arg)
{
	(void)arg;
	struct sched_config c = sched_hdd;
	c.other_depth = 4;
	c.gold_patience_ns = 20 * NS_PER_MS;
	struct sched *s = job_sched_open(&c);
	struct job gold = {0}, a = {0}, b = {0}, second = {0};
	/* This request goes to the disk at once. */
	job_start(s, &gold, "g", SCHED_GOLD, 4096);
	job_pass_ms(10);
	job_start(s, &a, "b", SCHED_BRONZE, 4096);
	CHECK(a.at_disk);
	job_pass_ms(11);
	job_start(s, &b, "b", SCHED_BRONZE, 4096);
	CHECK(!b.at_disk);
	job_finish(&a);
	CHECK(!b.at_disk);
	/* Other Gold requests are sent. */
	job_start(s, &second, "g", SCHED_GOLD, 4096);
	CHECK(second.at_disk);
	job_finish(&gold);
	CHECK(b.at_disk);
	job_finish(&b);
	job_finish(&second);
	job_check_empty(s);
	sched_close(s);
}

static void no_other_class_is_sent_after_gold_is_at_the_disk_too_long(void **state)
{
	(void)state;
	sim_test_run(patience, NULL);
}

/* A Bronze request is next that would be late if it ceded; a Gold request has waited for `ms`. */
static bool gold_goes_after(uint64_t ms)
{
	struct sched_config c = job_serial_config();
	c.gold_patience_ns = 20 * NS_PER_MS;
	struct sched *s = job_sched_open(&c);
	struct job hold = {0}, low = {.time_ns = (60 + ms) * NS_PER_MS}, gold = {0};
	job_start(s, &hold, "hold", SCHED_BRONZE, 4096);
	job_pass_ms(ms < 12 ? 12 - ms : 0);
	job_start(s, &low, "low", SCHED_BRONZE, 8 * MIB);
	job_start(s, &gold, "g", SCHED_GOLD, 4096);
	job_pass_ms(ms);
	job_finish(&hold);
	CHECK(low.at_disk != gold.at_disk);
	bool first = gold.at_disk;
	job_finish_both(&low, &gold);
	job_check_empty(s);
	sched_close(s);
	return first;
}

SIM_TEST(no_other_class_is_sent_after_gold_has_waited_too_long)
{
	CHECK(!gold_goes_after(10));
	CHECK(gold_goes_after(25));
}

/* --- rule 6: Gold beyond its quota ---------------------------------------------------------------- */

SIM_TEST(gold_beyond_its_quota_starves_no_group)
{
	struct sched_config c = job_serial_config();
	struct sched *s = job_sched_open(&c);
	struct job jobs[60] = {0}, hold = {0};
	uint32_t a, b;
	job_start(s, &hold, "c", SCHED_BRONZE, 4096);
	for (size_t i = 0; i < ARRAY_LEN(jobs); i++)
		job_start(s, &jobs[i], i % 2 == 0 ? "a" : "b",
			  i % 2 == 0 ? SCHED_GOLD : SCHED_BRONZE, 4096);
	job_finish(&hold);
	count_first(jobs, ARRAY_LEN(jobs), 4, &a, &b);
	CHECK_EQ(a, 4); /* the group gets its quota before others get their share */
	job_check_empty(s);
	sched_close(s);

	s = job_sched_open(&c);
	job_start(s, &hold, "c", SCHED_BRONZE, 4096);
	for (size_t i = 0; i < ARRAY_LEN(jobs); i++)
		job_start(s, &jobs[i], i % 2 == 0 ? "a" : "b",
			  i % 2 == 0 ? SCHED_GOLD : SCHED_BRONZE, 4096);
	job_finish(&hold);
	count_first(jobs, ARRAY_LEN(jobs), 40, &a, &b);
	CHECK_EQ(a, 20); /* both groups get the same service in the end */
	CHECK_EQ(b, 20);
	job_check_empty(s);
	sched_close(s);
}

/* --- groups of the cluster ------------------------------------------------------------------------ */

static const struct sched_group_stats *stats_of(const struct sched *s, const char *name,
						struct sched_group_stats *out)
{
	for (uint32_t i = 0; sched_group_stats(s, i, out); i++)
		if (strcmp(out->name, name) == 0)
			return out;
	return NULL;
}

SIM_TEST(a_listed_group_has_its_weight_and_at_best_its_class)
{
	struct sched_config c = job_serial_config();
	struct sched *s = job_sched_open(&c);
	const struct sched_listed list[] = {{"t/a", 300, SCHED_SILVER}, {"t/b", 50, SCHED_GOLD}};
	struct sched_group_stats g;
	struct job jobs[3] = {0};
	CHECK_EQ(sched_list_groups(s, list, 2), 0);
	CHECK_EQ(stats_of(s, "t/a", &g)->weight, 300);
	job_start(s, &jobs[0], "t/a", SCHED_GOLD, 4096);
	job_start(s, &jobs[1], "t/b", SCHED_GOLD, 4096);
	job_start(s, &jobs[2], "t/a", SCHED_BRONZE, 4096);
	job_drain(jobs, 3);
	CHECK_EQ(stats_of(s, "t/a", &g)->classes[SCHED_GOLD].requests, 0);
	CHECK_EQ(g.classes[SCHED_SILVER].requests, 1);
	CHECK_EQ(g.classes[SCHED_BRONZE].requests, 1);
	CHECK_EQ(stats_of(s, "t/b", &g)->classes[SCHED_GOLD].requests, 1);
	/* A second list replaces the first. */
	CHECK_EQ(sched_list_groups(s, list + 1, 1), 0);
	CHECK_EQ(stats_of(s, "t/a", &g)->weight, SCHED_WEIGHT_DEFAULT);
	CHECK_EQ(stats_of(s, "t/b", &g)->weight, 50);
	job_check_empty(s);
	sched_close(s);
}

SIM_TEST(a_client_gains_nothing_by_inventing_groups)
{
	struct sched_config c = job_serial_config();
	struct sched *s = job_sched_open(&c);
	const struct sched_listed list[] = {{"t/a", 100, SCHED_GOLD}};
	struct sched_group_stats g;
	struct job jobs[20] = {0};
	CHECK_EQ(sched_list_groups(s, list, 1), 0);
	for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
		char name[16];
		snprintf(name, sizeof(name), "u/g%zu", i);
		job_start(s, &jobs[i], name, SCHED_GOLD, 4096);
	}
	job_drain(jobs, ARRAY_LEN(jobs));
	CHECK_EQ(stats_of(s, "u/*", &g)->classes[SCHED_BRONZE].requests, 20);
	CHECK_EQ(g.weight, SCHED_WEIGHT_UNLISTED);
	CHECK(stats_of(s, "u/g0", &g) == NULL);
	/* Services keep their groups, and so does everybody when the cluster has no groups. */
	job_start(s, &jobs[0], "system/repair", SCHED_SILVER, 4096);
	job_finish(&jobs[0]);
	CHECK_EQ(stats_of(s, "system/repair", &g)->classes[SCHED_SILVER].requests, 1);
	CHECK_EQ(sched_list_groups(s, NULL, 0), 0);
	job_start(s, &jobs[0], "u/g0", SCHED_GOLD, 4096);
	job_finish(&jobs[0]);
	CHECK_EQ(stats_of(s, "u/g0", &g)->classes[SCHED_GOLD].requests, 1);
	job_check_empty(s);
	sched_close(s);
}

SIM_TEST(a_list_with_an_invalid_group_changes_nothing)
{
	struct sched_config c = job_serial_config();
	struct sched *s = job_sched_open(&c);
	const struct sched_listed good = {"t/a", 100, SCHED_GOLD};
	const struct sched_listed bad[] = {{"", 100, SCHED_GOLD},
					   {"t/a", 0, SCHED_GOLD},
					   {"t/a", SCHED_WEIGHT_MAX + 1, SCHED_GOLD},
					   {"t/a", 100, SCHED_CLASSES}};
	struct sched_group_stats g;
	CHECK_EQ(sched_list_groups(s, &good, 1), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_EQ(sched_list_groups(s, &bad[i], 1), -EINVAL);
	CHECK_EQ(sched_list_groups(s, &good, SCHED_LISTED_MAX + 1), -EINVAL);
	CHECK_EQ(stats_of(s, "t/a", &g)->weight, 100);
	sched_close(s);
}

static void groups_are_named_after_tenant_and_service(void **state)
{
	(void)state;
	char name[SCHED_NAME_MAX + 1];
	sched_group_name(name, &(struct context){.tenant = "t", .traffic_group = "a"});
	CHECK_EQ(strcmp(name, "t/a"), 0);
	sched_group_name(name, &(struct context){.tenant = "t", .traffic_group = ""});
	CHECK_EQ(strcmp(name, "t/default"), 0);
	sched_group_name(name, &(struct context){.tenant = "system:7", .traffic_group = "repair"});
	CHECK_EQ(strcmp(name, "system/repair"), 0);
	sched_group_name(name, &(struct context){.tenant = "", .traffic_group = "a"});
	CHECK_EQ(strcmp(name, "a"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_get_turns_by_weight),
		cmocka_unit_test(a_group_beyond_its_quota_is_skipped_only_while_others_wait),
		cmocka_unit_test(a_request_that_has_begun_ends_before_another_starts),
		cmocka_unit_test(a_lower_class_cedes_its_turn_to_a_higher_one),
		cmocka_unit_test(a_request_does_not_cede_if_it_would_miss_its_deadline),
		cmocka_unit_test(other_requests_at_the_disk_are_capped_while_gold_is_active),
		cmocka_unit_test(without_gold_the_disk_time_at_the_disk_is_bounded),
		cmocka_unit_test(without_gold_no_fewer_requests_are_at_the_disk),
		cmocka_unit_test(long_requests_are_cut_at_multiples_of_the_slice_size),
		cmocka_unit_test(no_other_class_is_sent_after_gold_is_at_the_disk_too_long),
		cmocka_unit_test(no_other_class_is_sent_after_gold_has_waited_too_long),
		cmocka_unit_test(gold_beyond_its_quota_starves_no_group),
		cmocka_unit_test(a_listed_group_has_its_weight_and_at_best_its_class),
		cmocka_unit_test(a_client_gains_nothing_by_inventing_groups),
		cmocka_unit_test(a_list_with_an_invalid_group_changes_nothing),
		cmocka_unit_test(groups_are_named_after_tenant_and_service),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
