// SPDX-License-Identifier: Apache-2.0
/* The disk scheduler under load, in simulated time on emulated disks: shares and latencies of
 * the groups. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"
#include "sched_fixture.h"

static struct sched_fixture fixture_of(const struct drive_spec *spec,
				       const struct sched_config *config, uint64_t seconds)
{
	return (struct sched_fixture){
		.spec = spec,
		.config = config,
		.seed = 1,
		.warm_ns = 2 * NS_PER_S,
		.span_ns = seconds * NS_PER_S,
	};
}

static struct fixture_client *add(struct sched_fixture *fx, const char *group,
				  enum sched_class class, uint64_t bytes, uint32_t fibers)
{
	struct fixture_client *c = &fx->client[fx->clients++];
	*c = (struct fixture_client){
		.group = group, .class = class, .bytes = bytes, .fibers = fibers};
	return c;
}

static void assert_ratio(const char *what, double got, double want, double within)
{
	print_message("  %-44s %.3f, wanted %.3f\n", what, got, want);
	assert_true(got > want * (1 - within) && got < want * (1 + within));
}

static double ratio(uint64_t a, uint64_t b)
{
	return (double)a / (double)b;
}

/* --- the target ----------------------------------------------------------------------------------- */

static struct sched_fixture gold_under(const struct sched_config *config, double gold_per_s,
				       uint32_t bronze_fibers)
{
	struct sched_fixture fx = fixture_of(&drive_hdd, config, 900);
	add(&fx, "gold", SCHED_GOLD, 64 * KIB, 1000)->per_s = gold_per_s;
	if (bronze_fibers > 0)
		add(&fx, "bronze", SCHED_BRONZE, 8 * MIB, bronze_fibers);
	fixture_run(&fx);
	return fx;
}

static void gold_keeps_its_p99_under_a_flood_of_bronze(void **state)
{
	(void)state;
	static const double rates[] = {1, 5, 8};
	for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
		struct sched_fixture alone = gold_under(&sched_hdd, rates[i], 0);
		struct sched_fixture both = gold_under(&sched_hdd, rates[i], 16);
		double before = fixture_quantile_ms(&alone.client[0], 0.99);
		double after = fixture_quantile_ms(&both.client[0], 0.99);
		double share = fixture_bytes_per_s(&both, &both.client[1]) /
			       (double)drive_hdd.read_bytes_per_s;
		print_message("  %.0f/s: p99 %.1f ms alone, %.1f under load (%.2f times), bronze "
			      "%.0f%% of the bandwidth\n",
			      rates[i], before, after, after / before, 100 * share);
		assert_true(after <= 2 * before);
		assert_true(share >= 0.6);
		assert_int_equal(both.client[0].failed + both.client[1].failed, 0);
		fixture_free(&alone);
		fixture_free(&both);
	}
}

static void without_the_rules_gold_waits_longer(void **state)
{
	(void)state;
	/*
	 * Shows that the test above can fail: with more requests at the disk, without slices, and
	 * without patience for Gold.
	 */
	struct sched_config c = sched_hdd;
	c.other_depth = 4;
	c.slice_bytes = c.run_bytes;
	c.gold_patience_ns = NS_PER_S;
	struct sched_fixture alone = gold_under(&c, 5, 0);
	struct sched_fixture both = gold_under(&c, 5, 16);
	assert_true(fixture_quantile_ms(&both.client[0], 0.99) >
		    5 * fixture_quantile_ms(&alone.client[0], 0.99));
	fixture_free(&alone);
	fixture_free(&both);
}

/* --- fairness ------------------------------------------------------------------------------------- */

static void weigh_three(struct sched_fixture *fx)
{
	CHECK_EQ(sched_weigh(fx->sched, "a", 100), 0);
	CHECK_EQ(sched_weigh(fx->sched, "b", 200), 0);
	CHECK_EQ(sched_weigh(fx->sched, "c", 500), 0);
}

static void disk_time_follows_weights(void **state)
{
	(void)state;
	const struct drive_spec *specs[] = {&drive_hdd, &drive_sata, &drive_nvme};
	for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
		struct sched_fixture fx =
			fixture_of(specs[i], sched_preset(specs[i]->name), i == 0 ? 300 : 5);
		fx.prepare = weigh_three;
		struct fixture_client *a = add(&fx, "a", SCHED_BRONZE, MIB, 8);
		struct fixture_client *b = add(&fx, "b", SCHED_BRONZE, MIB, 8);
		struct fixture_client *c = add(&fx, "c", SCHED_BRONZE, MIB, 8);
		fixture_run(&fx);
		print_message(" %s\n", specs[i]->name);
		assert_ratio("disk time of weight 200 to 100", ratio(b->disk_ns, a->disk_ns), 2,
			     0.05);
		assert_ratio("of weight 500 to 100", ratio(c->disk_ns, a->disk_ns), 5, 0.05);
		/* All groups send the same requests, so the shares hold for bytes too. */
		assert_ratio("bytes of weight 200 to 100", ratio(b->bytes_done, a->bytes_done), 2,
			     0.08);
		assert_ratio("of weight 500 to 100", ratio(c->bytes_done, a->bytes_done), 5, 0.08);
		fixture_free(&fx);
	}
}

static void disk_time_is_shared_not_bytes(void **state)
{
	(void)state;
	struct sched_config serial = sched_hdd;
	serial.depth = serial.other_depth = 1;
	const struct sched_config *configs[] = {&serial, &sched_hdd};
	for (size_t i = 0; i < ARRAY_LEN(configs); i++) {
		struct sched_fixture fx = fixture_of(&drive_hdd, configs[i], 300);
		struct fixture_client *small = add(&fx, "small", SCHED_BRONZE, 16 * KIB, 8);
		struct fixture_client *large = add(&fx, "large", SCHED_BRONZE, 8 * MIB, 4);
		large->follows = true;
		fixture_run(&fx);
		print_message(" depth %u\n", configs[i]->depth);
		assert_ratio("disk time of small random to large sequential",
			     ratio(small->disk_ns, large->disk_ns), 1, 0.05);
		assert_ratio("the same as the disk saw it", ratio(small->true_ns, large->true_ns),
			     1, 0.05);
		assert_true(large->bytes_done > 50 * small->bytes_done);
		fixture_free(&fx);
	}
}

static void bronze_gets_its_share_under_a_flood_of_gold(void **state)
{
	(void)state;
	struct sched_fixture fx = fixture_of(&drive_hdd, &sched_hdd, 300);
	struct fixture_client *gold = add(&fx, "gold", SCHED_GOLD, 64 * KIB, 64);
	struct fixture_client *silver = add(&fx, "silver", SCHED_SILVER, MIB, 16);
	struct fixture_client *bronze = add(&fx, "bronze", SCHED_BRONZE, 8 * MIB, 16);
	fixture_run(&fx);
	assert_ratio("disk time of bronze to gold", ratio(bronze->disk_ns, gold->disk_ns), 1, 0.05);
	assert_ratio("of silver to gold", ratio(silver->disk_ns, gold->disk_ns), 1, 0.05);
	assert_ratio("of bronze to gold, as the disk saw it", ratio(bronze->true_ns, gold->true_ns),
		     1, 0.05);
	assert_true(bronze->count > 1000 && silver->count > 1000);
	fixture_free(&fx);
}

static void a_disk_with_queued_requests_is_never_idle(void **state)
{
	(void)state;
	struct sched_fixture fx = fixture_of(&drive_hdd, &sched_hdd, 60);
	add(&fx, "gold", SCHED_GOLD, 64 * KIB, 3);
	add(&fx, "bronze", SCHED_BRONZE, 8 * MIB, 3);
	fixture_run(&fx);
	double busy = (double)fx.drive.stats.busy_ns;
	assert_ratio("of the time the drive worked", busy / (double)(fx.measured_ns + fx.warm_ns),
		     1, 0.001);
	fixture_free(&fx);
}

static void without_gold_bronze_gets_the_full_speed_of_the_disk(void **state)
{
	(void)state;
	/*
	 * A load of long reads, and one of many small reads, is as fast with the scheduler as
	 * without it.
	 */
	static const uint64_t sizes[] = {8 * MIB, 4096};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct sched_fixture ours = fixture_of(&drive_hdd, &sched_hdd, 100), bare = ours;
		struct fixture_client *a = add(&ours, "b", SCHED_BRONZE, sizes[i], 8);
		struct fixture_client *b = add(&bare, "b", SCHED_BRONZE, sizes[i], i == 0 ? 1 : 8);
		bare.unscheduled = true;
		fixture_run(&ours);
		fixture_run(&bare);
		assert_ratio("throughput to that of the bare drive",
			     fixture_bytes_per_s(&ours, a) / fixture_bytes_per_s(&bare, b), 1, 0.1);
		fixture_free(&ours);
		fixture_free(&bare);
	}
}

static struct sched_disk_stats learnt;

static void note_learnt(struct sched_fixture *fx)
{
	sched_disk_stats(fx->sched, &learnt);
}

static void estimates_follow_the_disk(void **state)
{
	(void)state;
	/* A drive that reads slower and seeks faster than the configuration says. */
	struct drive_spec spec = drive_hdd;
	struct sched_config config = sched_hdd;
	spec.read_bytes_per_s = 90000000;
	spec.seek_max_ns = spec.seek_min_ns; /* 0.8 ms, and half a turn: 4.97 ms */
	config.depth = config.other_depth = 1;
	struct sched_fixture fx = fixture_of(&spec, &config, 100);
	add(&fx, "a", SCHED_BRONZE, 4096, 4);
	add(&fx, "b", SCHED_BRONZE, 4 * MIB, 4);
	fx.watch = note_learnt;
	fixture_run(&fx);
	assert_ratio("position in ms", (double)learnt.position_ns / 1e6, 4.97, 0.2);
	assert_ratio("reading in MB/s", (double)learnt.read_bytes_per_s / 1e6, 90, 0.1);
	/* The estimates of kinds without requests are unchanged. */
	assert_int_equal(learnt.write_position_ns, sched_hdd.position_ns);
	assert_int_equal(learnt.names_ns, sched_hdd.position_ns);
	assert_int_equal(learnt.write_bytes_per_s, sched_hdd.write_bytes_per_s);
	fixture_free(&fx);
}

/* --- invariants under random load ------------------------------------------------------------------ */

static void invariants(struct sched_fixture *fx)
{
	struct sched_disk_stats st;
	struct sched_group_stats g;
	uint64_t claimed = 0, queued = 0, at_disk = 0, by_class[SCHED_CLASSES] = {0};
	sched_disk_stats(fx->sched, &st);
	for (uint32_t i = 0; sched_group_stats(fx->sched, i, &g); i++) {
		for (int c = 0; c < SCHED_CLASSES; c++) {
			queued += g.classes[c].queued;
			at_disk += g.classes[c].at_disk;
			by_class[c] += g.classes[c].at_disk;
			/* A request that has begun continues, whatever other requests wait. */
			CHECK(g.classes[c].queued <= fx->config->queue_max + fx->config->depth);
		}
	}
	for (int c = 0; c < SCHED_CLASSES; c++) {
		CHECK_EQ(by_class[c], sched_class_stats(fx->sched, c)->at_disk);
		claimed += sched_class_stats(fx->sched, c)->disk_ns;
	}
	CHECK_EQ(queued, st.queued);
	CHECK_EQ(at_disk, st.at_disk);
	/* Every nanosecond of the disk is charged exactly once. */
	CHECK_EQ(claimed + st.unclaimed_ns, st.busy_ns);
	/* Rule 7 of the scheduler: the disk is never idle while requests are queued. */
	CHECK(st.queued == 0 || st.at_disk > 0);
	/* Rule 4 of the scheduler: in these runs Gold requests come first and Gold stays active. */
	CHECK(st.at_disk <= fx->config->depth);
	CHECK(st.at_disk - by_class[SCHED_GOLD] <= fx->config->other_depth);
	CHECK(st.groups <= fx->config->groups_max);
}

static void gold_first(struct sched_fixture *fx)
{
	struct sched_request r = {.group = "first", .class = SCHED_GOLD};
	struct sched_turn t;
	CHECK_EQ(sched_begin(fx->sched, &r, &t), 0);
	CHECK_EQ(sched_next(&t, 0), 0);
}

static void random_config(struct rng *r, struct sched_config *c)
{
	c->depth = 1 + (uint32_t)rng_below(r, 12);
	c->other_depth = 1 + (uint32_t)rng_below(r, c->depth);
	c->gold_linger_ns = RT_NEVER;
	c->gold_patience_ns = rng_below(r, 50 * NS_PER_MS);
	c->slice_bytes = 64 * KIB << rng_below(r, 6);
	c->run_bytes = c->slice_bytes << rng_below(r, 4);
	c->quota_ns = 1 + rng_below(r, 500 * NS_PER_MS);
	c->groups_max = 2 + (uint32_t)rng_below(r, 6);
	c->queue_max = 1 + (uint32_t)rng_below(r, 30);
}

static void random_client(struct rng *r, struct sched_fixture *fx)
{
	static const char *const names[] = {"", "a", "b", "c", "d", "e", "f"};
	struct fixture_client *c =
		add(fx, names[rng_below(r, ARRAY_LEN(names))], (enum sched_class)rng_below(r, 3),
		    rng_below(r, 2 * MIB) << rng_below(r, 3), 1 + (uint32_t)rng_below(r, 20));
	c->kind = rng_chance(r, 0.3) ? SCHED_WRITE : SCHED_READ;
	c->whole = rng_chance(r, 0.2);
	c->follows = rng_chance(r, 0.2);
	c->time_ns = rng_chance(r, 0.5) ? 1 + rng_below(r, 500 * NS_PER_MS) : 0;
	c->per_s = 1 + (double)rng_below(r, 50);
}

static void random_load(uint64_t seed)
{
	static const struct drive_spec *const specs[] = {&drive_hdd, &drive_sata, &drive_nvme};
	struct rng r;
	rng_init(&r, seed);
	const struct drive_spec *spec = specs[rng_below(&r, ARRAY_LEN(specs))];
	struct sched_config c = *sched_preset(spec->name);
	random_config(&r, &c);
	struct sched_fixture fx = fixture_of(spec, &c, 20);
	fx.seed = seed;
	fx.warm_ns = 0;
	fx.prepare = gold_first;
	fx.watch = invariants;
	for (uint64_t n = 1 + rng_below(&r, 8); n > 0; n--)
		random_client(&r, &fx);
	fixture_run(&fx);
	fixture_free(&fx);
}

static void invariants_hold_under_random_load(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		fprintf(stderr, "seed %" PRIu64 "\r", seed);
		random_load(seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gold_keeps_its_p99_under_a_flood_of_bronze),
		cmocka_unit_test(without_the_rules_gold_waits_longer),
		cmocka_unit_test(disk_time_follows_weights),
		cmocka_unit_test(disk_time_is_shared_not_bytes),
		cmocka_unit_test(bronze_gets_its_share_under_a_flood_of_gold),
		cmocka_unit_test(a_disk_with_queued_requests_is_never_idle),
		cmocka_unit_test(without_gold_bronze_gets_the_full_speed_of_the_disk),
		cmocka_unit_test(estimates_follow_the_disk),
		cmocka_unit_test(invariants_hold_under_random_load),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
