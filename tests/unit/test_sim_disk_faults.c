// SPDX-License-Identifier: Apache-2.0
/* The faults of simulated disks: the effect of each one, and all of them together. */
#include "sim_disk_fixture.h"

/* --- faults of single operations --------------------------------------------------------------- */

static void program_eio(struct fixture *fx, uint64_t life)
{
	struct rt_file *f = NULL;
	uint8_t buf[4096], got[4096];
	while (rt_file_open(&f, "/d0/a", RT_READ | RT_WRITE | RT_CREATE) == -EIO)
		fx->numbers[3]++;
	CHECK(f != NULL);
	for (int i = 0; i < 200; i++) {
		memset(buf, 1 + i % 250, sizeof(buf));
		int rc = rt_file_write(f, buf, sizeof(buf), 0);
		CHECK(rc == 0 || rc == -EIO);
		int64_t n = rt_file_read(f, got, sizeof(got), 0);
		CHECK(n == -EIO || n >= 0);
		fx->numbers[0] += rc != 0;
		fx->numbers[1] += n == -EIO;
		if (n != 4096)
			continue;
		size_t same = 0;
		while (same < 4096 && got[same] == buf[0])
			same++;
		CHECK(rc == 0 ? same == 4096 : same % 512 == 0);
		for (size_t k = same; k < 4096; k++)
			CHECK(got[k] != buf[0]);
		fx->numbers[2] += same > 0 && same < 4096;
	}
	rt_file_close(f);
}

static void reads_and_writes_fail_and_failed_writes_leave_a_prefix(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 11, program_eio);
	fx.config.rate[SIM_DISK_EIO] = 0.2;
	fixture_start(&fx);
	fixture_finish(&fx);
	assert_true(fx.numbers[0] > 0 && fx.numbers[1] > 0 && fx.numbers[2] > 0);
	assert_int_equal(sim_fault_count(fx.sim, SIM_DISK_EIO),
			 fx.numbers[0] + fx.numbers[1] + fx.numbers[3]);
	assert_false(sim_disk_damaged(fx.disk));
	fixture_close(&fx);
}

/* Counts reads that returned wrong bytes in numbers[0], and reads that returned old bytes in numbers[1]. */
static void program_wrong_reads(struct fixture *fx, uint64_t life)
{
	struct rt_file *f = must_open("/d0/a", RT_READ | RT_WRITE | RT_CREATE);
	uint8_t buf[4096], got[4096];
	for (uint64_t round = 0; round < 2; round++)
		for (uint64_t b = 0; b < 8; b++) {
			memset(buf, (int)(round * 100 + b + 1), sizeof(buf));
			CHECK(rt_file_write(f, buf, sizeof(buf), b * 4096) == 0);
		}
	for (unsigned i = 0; i < 400; i++) {
		uint64_t b = i % 8;
		CHECK(rt_file_read(f, got, sizeof(got), b * 4096) == 4096);
		memset(buf, (int)(100 + b + 1), sizeof(buf));
		fx->numbers[0] += memcmp(buf, got, 4096) != 0;
		memset(buf, (int)(b + 1), sizeof(buf));
		fx->numbers[1] += memcmp(buf, got, 4096) == 0;
	}
	rt_file_close(f);
}

static void misdirected_transfers_use_another_offset(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 12, program_wrong_reads);
	fx.config.rate[SIM_DISK_MISDIRECT] = 0.05;
	fixture_start(&fx);
	fixture_finish(&fx);
	assert_true(sim_fault_count(fx.sim, SIM_DISK_MISDIRECT) > 0);
	assert_true(fx.numbers[0] > 0);
	assert_true((sim_disk_damage(fx.disk) & (SIM_DAMAGE_READ | SIM_DAMAGE_WRITE)) != 0);
	fixture_close(&fx);
}

static void stale_reads_return_replaced_bytes(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 13, program_wrong_reads);
	fx.config.rate[SIM_DISK_STALE] = 0.05;
	fixture_start(&fx);
	fixture_finish(&fx);
	assert_true(fx.numbers[1] > 0);
	assert_int_equal(fx.numbers[0], fx.numbers[1]);
	assert_int_equal(fx.numbers[1], sim_fault_count(fx.sim, SIM_DISK_STALE));
	assert_int_equal(sim_disk_damage(fx.disk), SIM_DAMAGE_READ);
	assert_false(sim_disk_damaged(fx.disk));
	fixture_close(&fx);
}

static void without_faults_reads_are_right_and_the_disk_undamaged(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 14, program_wrong_reads);
	fixture_start(&fx);
	fixture_finish(&fx);
	assert_int_equal(fx.numbers[0], 0);
	assert_false(sim_disk_damaged(fx.disk));
	fixture_close(&fx);
}

/* --- faults at random times ---------------------------------------------------------- */

#define PER_SECOND(n) (3600.0 * (n))

/* Writes zeros and syncs, then waits until a bit is set. */
static void program_rot(struct fixture *fx, uint64_t life)
{
	struct rt_file *f = must_open("/d0/a", RT_READ | RT_WRITE | RT_CREATE);
	uint8_t buf[4096] = {0};
	unsigned set = 0;
	if (life == 1) {
		CHECK(rt_file_write(f, buf, sizeof(buf), 0) == 0 && rt_file_sync(f) == 0);
		CHECK(rt_dir_sync("/d0") == 0);
	}
	for (int i = 0; set == 0 && i < 1000; i++) {
		CHECK(rt_sleep_ns(100 * NS_PER_MS) == 0);
		CHECK(rt_file_read(f, buf, sizeof(buf), 0) == 4096);
		for (unsigned k = 0; k < 4096 * 8; k++)
			set += buf[k / 8] >> (k % 8) & 1;
	}
	fx->numbers[life - 1] = set;
	rt_file_close(f);
}

static void rot_flips_stored_bits_for_good(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 15, program_rot);
	fx.config.rate[SIM_DISK_ROT] = PER_SECOND(1);
	fixture_start(&fx);
	fixture_finish(&fx);
	assert_true(fx.numbers[0] > 0 && sim_disk_damaged(fx.disk));
	sim_faults_stop(fx.sim);
	sim_node_crash(fx.node, true);
	fixture_finish(&fx);
	assert_true(fx.numbers[1] >= fx.numbers[0]);
	fixture_close(&fx);
}

static void program_one_file(struct fixture *fx, uint64_t life)
{
	put_file("/d0/a", "x", true);
	CHECK(rt_dir_sync("/d0") == 0);
}

static void a_test_can_see_and_flip_a_stored_bit(void **state)
{
	struct fixture fx;
	char is[2];
	fixture_open(&fx, 16, program_one_file);
	fixture_start(&fx);
	fixture_finish(&fx);
	assert_false(sim_disk_damaged(fx.disk));
	assert_int_equal(sim_disk_flip(fx.disk, "/d0/none", 0, 0), -ENOENT);
	assert_int_equal(sim_disk_flip(fx.disk, "/d0/a", 1, 0), -ERANGE);
	assert_int_equal(sim_disk_flip(fx.disk, "/d0/a", 0, 0), 0);
	assert_true(sim_disk_damaged(fx.disk));
	assert_int_equal(sim_disk_peek(fx.disk, "/d0/none", 0, is, 1), -ENOENT);
	assert_int_equal(sim_disk_peek(fx.disk, "/d0/a", 0, is, 2), -ERANGE);
	assert_int_equal(sim_disk_peek(fx.disk, "/d0/a", 0, is, 1), 0);
	assert_int_equal(is[0], 'x' ^ 1);
	fixture_close(&fx);
}

/* Reads repeatedly for half a minute: numbers[0] is the longest duration in ns, numbers[1] the number of reads. */
static void program_time_reads(struct fixture *fx, uint64_t life)
{
	struct rt_file *f;
	uint8_t buf[512] = {0};
	if (rt_file_open(&f, "/d0/a", RT_READ | RT_WRITE | RT_CREATE) != 0)
		return;
	int64_t rc = rt_file_write(f, buf, sizeof(buf), 0);
	uint64_t end = rt_now_ns() + 30 * NS_PER_S;
	while (rc >= 0 && rt_now_ns() < end) {
		uint64_t start = rt_now_ns();
		rc = rt_file_read(f, buf, sizeof(buf), 0);
		CHECK(rc == 512 || rt_cancelled());
		fx->numbers[0] = max_u64(fx->numbers[0], rt_now_ns() - start);
		fx->numbers[1] += rc == 512;
		if (rc > 0)
			rc = rt_sleep_ns(5 * NS_PER_MS);
	}
	rt_file_close(f);
}

static void a_slow_disk_is_ten_to_a_hundred_times_slower(void **state)
{
	for (int slow = 0; slow < 2; slow++) {
		struct fixture fx;
		fixture_open(&fx, 17, program_time_reads);
		fx.config.rate[SIM_DISK_SLOW] = slow != 0 ? PER_SECOND(0.2) : 0;
		fixture_start(&fx);
		fixture_finish(&fx);
		assert_int_equal(sim_fault_count(fx.sim, SIM_DISK_SLOW) > 0, slow != 0);
		assert_int_equal(fx.numbers[0] > 5 * fx.config.disk_latency_ns, slow != 0);
		assert_true(fx.numbers[0] < 200 * fx.config.disk_latency_ns);
		fixture_close(&fx);
	}
}

static void a_hung_disk_completes_nothing_until_it_ends(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 18, program_time_reads);
	fx.config.rate[SIM_DISK_HANG] = PER_SECOND(0.2);
	fixture_start(&fx);
	fixture_finish(&fx);
	assert_true(sim_fault_count(fx.sim, SIM_DISK_HANG) > 0);
	assert_true(fx.numbers[0] > 100 * NS_PER_MS);
	fixture_close(&fx);
}

static void healing_ends_a_hang(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 19, program_time_reads);
	fx.config.rate[SIM_DISK_HANG] = PER_SECOND(1000);
	fixture_start(&fx);
	sim_run(fx.sim, NS_PER_S);
	assert_true(fx.numbers[1] < 2);
	sim_faults_stop(fx.sim);
	sim_run(fx.sim, NS_PER_S);
	assert_true(fx.numbers[1] > 10);
	fixture_close(&fx);
}

static void a_process_can_crash_while_its_disk_hangs(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 20, program_time_reads);
	fx.config.rate[SIM_DISK_HANG] = PER_SECOND(1000);
	fixture_start(&fx);
	sim_run(fx.sim, NS_PER_S);
	sim_node_crash(fx.node, true);
	sim_faults_stop(fx.sim);
	fixture_finish(&fx);
	fixture_close(&fx);
}

static void program_full_spell(struct fixture *fx, uint64_t life)
{
	struct rt_file *f = must_open("/d0/a", RT_READ | RT_WRITE | RT_CREATE);
	uint8_t buf[4096] = {0};
	CHECK(rt_file_write(f, buf, sizeof(buf), 0) == 0);
	for (uint64_t i = 1; i < 1000; i++) {
		int rc = rt_file_write(f, buf, sizeof(buf), i * 4096);
		CHECK(rc == 0 || rc == -ENOSPC);
		fx->seen |= rc == 0 ? 1 : 2;
		CHECK(rt_file_write(f, buf, sizeof(buf), 0) == 0);
		CHECK(rt_sleep_ns(50 * NS_PER_MS) == 0);
	}
	rt_file_close(f);
}

static void a_full_disk_refuses_growth_only(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 21, program_full_spell);
	fx.config.rate[SIM_DISK_FULL] = PER_SECOND(0.1);
	fixture_run(&fx);
	assert_int_equal(fx.seen, 3);
}

static void program_loss(struct fixture *fx, uint64_t life)
{
	struct rt_file *f;
	struct rt_space sp;
	char buf[8];
	if (life == 2) {
		CHECK(rt_file_open(&f, "/d0/a", RT_READ) == -ENODEV);
		return;
	}
	f = must_open("/d0/a", RT_READ | RT_WRITE | RT_CREATE);
	while ((fx->rc = rt_file_write(f, "data", 4, 0)) == 0)
		continue;
	CHECK(fx->rc == -ENODEV);
	CHECK(rt_file_read(f, buf, 4, 0) == -ENODEV && rt_file_sync(f) == -ENODEV);
	rt_file_close(f);
	CHECK(rt_mkdir("/d0/x") == -ENODEV && rt_space("/d0", &sp) == -ENODEV);
	CHECK(rt_rename("/d0/a", "/d0/b") == -ENODEV && rt_dir_sync("/d0") == -ENODEV);
}

static void operations_on_a_lost_disk_fail_with_enodev(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 22, program_loss);
	fx.config.rate[SIM_DISK_LOSS] = PER_SECOND(1);
	fixture_start(&fx);
	fixture_finish(&fx);
	assert_true(sim_disk_damaged(fx.disk));
	assert_int_equal(sim_fault_count(fx.sim, SIM_DISK_LOSS), 1);
	sim_node_crash(fx.node, true);
	fixture_finish(&fx);
	fixture_close(&fx);
}

/* --- all faults together ------------------------------------------------------------------------ */

static void stress_file(struct fixture *fx, struct rng *r, const char *path)
{
	struct rt_file *f;
	uint8_t buf[10000];
	unsigned flags = RT_READ | RT_WRITE | RT_CREATE | (rng_below(r, 8) == 0 ? RT_TRUNC : 0);
	if (rt_file_open(&f, path, flags) != 0)
		return;
	for (uint64_t k = rng_below(r, 8); k > 0; k--) {
		uint64_t offset = rng_below(r, 100000);
		size_t len = (size_t)rng_below(r, sizeof(buf));
		memset(buf, (int)k, len);
		switch (rng_below(r, 6)) {
		case 0:
		case 1:
			rt_file_write(f, buf, len, offset);
			break;
		case 2:
			rt_file_read(f, buf, len, offset);
			break;
		case 3:
			rt_file_sync(f);
			break;
		case 4:
			rt_file_truncate(f, offset);
			break;
		case 5:
			rt_file_allocate(f, offset, len + 1, k % 2 == 0);
			break;
		}
	}
	rt_file_close(f);
}

static bool stop_at_once(void *ctx, const char *name, bool is_dir)
{
	return false;
}

static void stress_fiber(void *arg)
{
	struct fixture *fx = arg;
	struct rng r;
	rng_init(&r, rt_random_u64());
	for (int i = 0; i < 30 && !rt_cancelled(); i++) {
		char a[32], b[32];
		snprintf(a, sizeof(a), "/d0/d%d/%d", (int)rng_below(&r, 3), (int)rng_below(&r, 4));
		snprintf(b, sizeof(b), "/d0/d%d/%d", (int)rng_below(&r, 3), (int)rng_below(&r, 4));
		switch (rng_below(&r, 8)) {
		case 0:
			rt_rename(a, b);
			break;
		case 1:
			rt_unlink(a);
			break;
		case 2:
			a[6] = '\0';
			b[6] = '\0';
			rt_rename(a, b);
			rt_rmdir(b);
			break;
		case 3:
			a[6] = '\0';
			rt_dir_sync(a);
			rt_dir_list(a, stop_at_once, fx);
			break;
		case 4:
			a[6] = '\0';
			rt_mkdir(a);
			break;
		default:
			stress_file(fx, &r, a);
			break;
		}
	}
}

static void program_stress(struct fixture *fx, uint64_t life)
{
	struct rt_group g;
	rt_group_init(&g);
	for (int i = 0; i < 4; i++)
		if (rt_group_spawn(&g, "stress", stress_fiber, fx) != 0)
			break;
	rt_group_join(&g);
}

static uint64_t stress_hash(uint64_t seed, double scale)
{
	struct fixture fx;
	fixture_open(&fx, seed, program_stress);
	sim_config_init(&fx.config, seed, scale);
	fx.config.rate[SIM_NODE_LOSS] = 0;
	fx.config.rate[SIM_RACK_LOSS] = 0;
	fx.config.rate[SIM_CRASH_AT_WAIT] = 0.002;
	fx.size_bytes = 256 * KIB;
	fixture_start(&fx);
	sim_run(fx.sim, 2 * NS_PER_S);
	sim_node_crash(fx.node, seed % 2 == 0);
	sim_run(fx.sim, 2 * NS_PER_S);
	uint64_t hash = sim_trace_hash(fx.sim);
	fixture_close(&fx);
	return hash;
}

static void same_seed_same_trace_under_every_fault(void **state)
{
	uint64_t last = 0;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		uint64_t hash = stress_hash(seed, 20);
		assert_true(hash == stress_hash(seed, 20));
		assert_true(hash != last);
		last = hash;
	}
}

/* Replaces a file by rename, with a crash at its first wait, its second wait, and so on. */
static void program_replace(struct fixture *fx, uint64_t life)
{
	bool fresh = !file_is("/d0/a", "old") && !file_is("/d0/a", "newer");
	if (life > 1 && !rt_cancelled())
		CHECK(!fresh || fx->numbers[0] == 0);
	if (fresh) {
		struct rt_file *f;
		if (rt_file_open(&f, "/d0/a", RT_WRITE | RT_CREATE) != 0)
			return;
		int rc = rt_file_write(f, "old", 3, 0);
		rc = rc == 0 ? rt_file_sync(f) : rc;
		rt_file_close(f);
		if (rc != 0 || rt_dir_sync("/d0") != 0)
			return;
		fx->numbers[0] =
			1; /* acknowledged: from here on the file has the old or the new bytes */
	}
	struct rt_file *f;
	if (rt_file_open(&f, "/d0/tmp", RT_WRITE | RT_CREATE | RT_TRUNC) != 0)
		return;
	int rc = rt_file_write(f, "newer", 5, 0);
	rc = rc == 0 ? rt_file_sync(f) : rc;
	rt_file_close(f);
	if (rc != 0 || rt_rename("/d0/tmp", "/d0/a") != 0 || rt_dir_sync("/d0") != 0)
		return;
	CHECK(file_is("/d0/a", "newer") || rt_cancelled());
}

static void a_crash_at_any_wait_leaves_the_old_or_the_new_file(void **state)
{
	for (int power = 0; power < 2; power++) {
		uint64_t nth = 1;
		for (; nth < 100; nth++) {
			struct fixture fx;
			fixture_open(&fx, nth, program_replace);
			fixture_start(&fx);
			sim_node_crash_at(fx.node, nth, power != 0);
			fixture_finish(&fx);
			uint64_t lives = sim_node_lives(fx.node);
			fixture_close(&fx);
			if (lives == 1)
				break;
		}
		assert_in_range(nth, 10, 99);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_and_writes_fail_and_failed_writes_leave_a_prefix),
		cmocka_unit_test(misdirected_transfers_use_another_offset),
		cmocka_unit_test(stale_reads_return_replaced_bytes),
		cmocka_unit_test(without_faults_reads_are_right_and_the_disk_undamaged),
		cmocka_unit_test(rot_flips_stored_bits_for_good),
		cmocka_unit_test(a_test_can_see_and_flip_a_stored_bit),
		cmocka_unit_test(a_slow_disk_is_ten_to_a_hundred_times_slower),
		cmocka_unit_test(a_hung_disk_completes_nothing_until_it_ends),
		cmocka_unit_test(healing_ends_a_hang),
		cmocka_unit_test(a_process_can_crash_while_its_disk_hangs),
		cmocka_unit_test(a_full_disk_refuses_growth_only),
		cmocka_unit_test(operations_on_a_lost_disk_fail_with_enodev),
		cmocka_unit_test(same_seed_same_trace_under_every_fault),
		cmocka_unit_test(a_crash_at_any_wait_leaves_the_old_or_the_new_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
