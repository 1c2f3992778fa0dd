// SPDX-License-Identifier: Apache-2.0
/* Simulated disks, through the calls of rt: files, names, and power loss. */
#include "sim_disk_fixture.h"

/* --- behaviour without faults --------------------------------------------------------------------------- */

static void program_read_write(struct fixture *fx, uint64_t life)
{
	struct rt_file *f = must_open("/d0/a", RT_READ | RT_WRITE | RT_CREATE);
	uint64_t size;
	char buf[16];
	struct iovec out[2] = {{.iov_base = (void *)"hello ", .iov_len = 6},
			       {.iov_base = (void *)"world", .iov_len = 5}};

	CHECK(rt_file_writev(f, out, 2, 10000) == 0);
	CHECK(rt_file_size(f, &size) == 0 && size == 10011);
	CHECK(rt_file_read(f, buf, 16, 10000) == 11 && memcmp(buf, "hello world", 11) == 0);
	CHECK(rt_file_read(f, buf, 4, 9998) == 4 && memcmp(buf, "\0\0he", 4) == 0);
	CHECK(rt_file_read(f, buf, 4, 10011) == 0 && rt_file_read(f, buf, 4, 1 << 20) == 0);
	CHECK(rt_file_truncate(f, 10005) == 0 && rt_file_truncate(f, 20000) == 0);
	CHECK(rt_file_read(f, buf, 8, 10000) == 8 && memcmp(buf, "hello\0\0\0", 8) == 0);
	rt_file_close(f);
}

static void files_have_holes_sizes_and_pieces(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 1, program_read_write);
	fixture_run(&fx);
}

static void program_errors(struct fixture *fx, uint64_t life)
{
	struct rt_file *f, *g;
	char name[300];
	char path[5000];

	memset(name, 'x', sizeof(name));
	memcpy(name, "/d0/", 4);
	name[4 + 256] = '\0';
	memset(path, '/', sizeof(path));
	memcpy(path, "/d0", 3);
	path[4999] = '\0';
	CHECK(rt_file_open(&f, "/d0/none", RT_READ) == -ENOENT);
	CHECK(rt_file_open(&f, "/d1/a", RT_WRITE | RT_CREATE) == -ENOENT);
	CHECK(rt_file_open(&f, "d0/a", RT_WRITE | RT_CREATE) == -ENOENT);
	CHECK(rt_file_open(&f, "/", RT_READ) == -ENOENT);
	CHECK(rt_file_open(&f, "/d0", RT_READ) == -EISDIR);
	CHECK(rt_file_open(&f, "/d0/no/a", RT_WRITE | RT_CREATE) == -ENOENT);
	CHECK(rt_file_open(&f, name, RT_WRITE | RT_CREATE) == -ENAMETOOLONG);
	CHECK(rt_file_open(&f, path, RT_READ) == -ENAMETOOLONG);
	name[4 + 255] = '\0';
	f = must_open(name, RT_WRITE | RT_CREATE);
	CHECK(rt_file_read(f, path, 1, 0) == -EBADF);
	CHECK(rt_file_write(f, "x", 1, fx->size_bytes) == -EFBIG);
	CHECK(rt_file_truncate(f, fx->size_bytes + 1) == -EFBIG);
	rt_file_close(f);
	CHECK(rt_file_open(&g, name, RT_WRITE | RT_CREATE | RT_EXCL) == -EEXIST);
	f = must_open(name, RT_READ);
	CHECK(rt_file_write(f, "x", 1, 0) == -EBADF);
	CHECK(rt_file_truncate(f, 0) == -EINVAL);
	rt_file_close(f);
	CHECK(rt_mkdir("/d0/dir") == 0);
	CHECK(rt_mkdir("/d0/dir") == -EEXIST);
	CHECK(rt_mkdir("/d0/dir/sub/") == 0 && rt_mkdir("/d0/none/sub") == -ENOENT);
	CHECK(rt_rmdir("/d0/dir") == -ENOTEMPTY && rt_rmdir(name) == -ENOTDIR);
	CHECK(rt_rmdir("/d0") == -EBUSY && rt_rmdir("/d0/dir/.") == -EINVAL);
	CHECK(rt_unlink("/d0/dir") == -EISDIR && rt_unlink("/d0/none") == -ENOENT);
	put_file("/d0/dir/./../dir//a", "A", false);
	CHECK(file_is("/d0/dir/a", "A"));
	CHECK(rt_mkdir("/d0/dir/a/b") == -ENOTDIR);
	CHECK(rt_file_open(&f, "/d0/dir/a/", RT_READ) == -ENOTDIR);
	CHECK(rt_rename("/d0/dir", "/d0/dir/sub/x") == -EINVAL);
	CHECK(rt_rename("/d0/dir/a", "/d0/dir/sub") == -EISDIR);
	CHECK(rt_rename("/d0/dir/sub", "/d0/dir/a") == -ENOTDIR);
	CHECK(rt_rename("/d0/none", "/d0/x") == -ENOENT);
	CHECK(rt_rename("/d0/dir/a", "/d9/a") == -ENOENT);
	CHECK(rt_rename("/d0/dir/a", "/d0/dir/a") == 0 && file_is("/d0/dir/a", "A"));
	CHECK(rt_rename("/d0/dir/sub", "/d0/sub") == 0);
	CHECK(rt_rename("/d0/sub", "/d0/dir") == -ENOTEMPTY);
	CHECK(rt_rename("/d0/dir", "/d0/sub") == 0 && file_is("/d0/sub/a", "A"));
	CHECK(rt_dir_sync("/d0/sub/a") == -ENOTDIR && rt_dir_sync("/d0/none") == -ENOENT);
	CHECK(rt_unlink("/d0/sub/a") == 0 && rt_rmdir("/d0/sub") == 0);
}

static void wrong_calls_are_refused_as_linux_does(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 2, program_errors);
	fixture_run(&fx);
}

static bool count_name(void *ctx, const char *name, bool is_dir)
{
	struct fixture *fx = ctx;
	fx->seen++;
	fx->rc += strcmp(name, "sub") == 0 ? is_dir : !is_dir && name[0] == 'f';
	return true;
}

static bool count_one(void *ctx, const char *name, bool is_dir)
{
	((struct fixture *)ctx)->seen++;
	return false;
}

static void program_list(struct fixture *fx, uint64_t life)
{
	char path[32];
	for (int i = 0; i < 200; i++) {
		snprintf(path, sizeof(path), "/d0/f%d", i);
		put_file(path, path, false);
	}
	CHECK(rt_mkdir("/d0/sub") == 0);
	CHECK(rt_dir_list("/d0", count_name, fx) == 0);
	CHECK(fx->seen == 201 && fx->rc == 201);
	fx->seen = 0;
	CHECK(rt_dir_list("/d0", count_one, fx) == 0 && fx->seen == 1);
	CHECK(rt_dir_list("/d0/f1", count_one, fx) == -ENOTDIR);
}

static void a_directory_lists_each_name_once(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 3, program_list);
	fixture_run(&fx);
}

static void program_unlinked(struct fixture *fx, uint64_t life)
{
	struct rt_file *f = must_open("/d0/a", RT_READ | RT_WRITE | RT_CREATE);
	struct rt_space before, while_open, after;
	char buf[4] = "";

	CHECK(rt_space("/d0", &before) == 0);
	CHECK(rt_file_write(f, "data", 4, 0) == 0);
	CHECK(rt_unlink("/d0/a") == 0);
	CHECK(rt_file_read(f, buf, 4, 0) == 4 && memcmp(buf, "data", 4) == 0);
	CHECK(rt_space("/d0", &while_open) == 0);
	rt_file_close(f);
	CHECK(rt_space("/d0", &after) == 0);
	CHECK(before.free_bytes == after.free_bytes);
	CHECK(while_open.free_bytes + 4096 == after.free_bytes);
	CHECK(after.total_bytes == fx->size_bytes);
}

static void an_unlinked_open_file_lives_until_it_is_closed(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 4, program_unlinked);
	fixture_run(&fx);
}

static void program_direct(struct fixture *fx, uint64_t life)
{
	struct rt_file *f = must_open("/d0/a", RT_READ | RT_WRITE | RT_CREATE | RT_DIRECT);
	AUTO_FREE uint8_t *mem = aligned_alloc(4096, 16384);
	CHECK(mem != NULL);
	memset(mem, 7, 16384);
	CHECK(rt_file_write(f, mem + 512, 4096, 0) == -EINVAL);
	CHECK(rt_file_write(f, mem, 4095, 0) == -EINVAL);
	CHECK(rt_file_write(f, mem, 4096, 512) == -EINVAL);
	CHECK(rt_file_write(f, mem, 8192, 4096) == 0);
	CHECK(rt_file_read(f, mem + 1, 4096, 0) == -EINVAL);
	CHECK(rt_file_read(f, mem, 100, 0) == -EINVAL);
	CHECK(rt_file_truncate(f, 8192 + 10) == 0);
	CHECK(rt_file_read(f, mem, 16384, 0) == 8202);
	CHECK(mem[0] == 0 && mem[4096] == 7 && mem[8201] == 7);
	rt_file_close(f);
}

static void direct_files_refuse_misaligned_transfers(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 5, program_direct);
	fixture_run(&fx);
}

static void program_full(struct fixture *fx, uint64_t life)
{
	static uint8_t block[65536];
	struct rt_file *f = must_open("/d0/a", RT_READ | RT_WRITE | RT_CREATE);
	struct rt_file *g = must_open("/d0/b", RT_READ | RT_WRITE | RT_CREATE);
	struct rt_file *h;
	struct rt_space sp;
	uint64_t size, at = 0;

	CHECK(rt_file_allocate(g, 0, 128 * KIB, true) == 0);
	CHECK(rt_file_size(g, &size) == 0 && size == 0);
	CHECK(rt_file_allocate(g, 0, 2 * MIB, true) == -ENOSPC);
	CHECK(rt_file_allocate(f, 0, MIB, true) == -ENOSPC);
	CHECK(rt_space("/d0", &sp) == 0 && sp.free_bytes == MIB - 128 * KIB);
	while ((fx->rc = rt_file_write(f, block, sizeof(block), at)) == 0)
		at += sizeof(block);
	CHECK(fx->rc == -ENOSPC && at == MIB - 128 * KIB);
	CHECK(rt_space("/d0", &sp) == 0 && sp.free_bytes == 0);
	CHECK(rt_file_open(&h, "/d0/c", RT_WRITE | RT_CREATE) == -ENOSPC);
	CHECK(rt_mkdir("/d0/c") == -ENOSPC);
	CHECK(rt_file_write(f, block, sizeof(block), 0) == 0); /* overwrites a block in place */
	CHECK(rt_file_write(g, block, sizeof(block), 0) == 0); /* fills a reserved block */
	CHECK(rt_file_allocate(g, 0, 128 * KIB, false) == 0);
	CHECK(rt_file_size(g, &size) == 0 && size == 128 * KIB);
	CHECK(rt_file_truncate(f, 4096) == 0);
	CHECK(rt_space("/d0", &sp) == 0 && sp.free_bytes == MIB - 128 * KIB - 4096);
	CHECK(rt_file_write(g, block, sizeof(block), 128 * KIB) == 0);
	rt_file_close(f);
	rt_file_close(g);
	CHECK(rt_unlink("/d0/a") == 0 && rt_unlink("/d0/b") == 0);
	CHECK(rt_space("/d0", &sp) == 0 && sp.free_bytes == MIB);
}

static void space_is_counted_and_runs_out(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 6, program_full);
	fx.size_bytes = MIB;
	fixture_run(&fx);
}

static void program_lock(struct fixture *fx, uint64_t life)
{
	struct rt_file *f = must_open("/d0/lock", RT_WRITE | RT_CREATE | RT_LOCK);
	struct rt_file *g;

	CHECK(rt_file_open(&g, "/d0/lock", RT_WRITE | RT_LOCK) == -EBUSY);
	CHECK(rt_file_open(&g, "/d0/lock", RT_WRITE) == 0);
	rt_file_close(g);
	CHECK(rt_file_open(&g, "/d0/lock", RT_WRITE | RT_LOCK) == -EBUSY);
	rt_file_close(f);
	CHECK(rt_file_open(&g, "/d0/lock", RT_WRITE | RT_LOCK) == 0);
	fx->done_life = life;
	rt_shutdown_wait(); /* the process is killed here, with the lock held */
	rt_file_close(g);
}

static void a_lock_excludes_until_closed_or_its_process_dies(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 7, program_lock);
	fixture_run_crash(&fx, false);
}

/* --- power loss -------------------------------------------------------------------------------- */

#define AREA (64 * KIB)
#define UNSYNCED_MAX 16

/*
 * Writes to random offsets, each with a byte value of its own, and a sync in the middle. numbers[0] counts the writes
 * after the last successful sync; the check draws their offsets again from the same seed.
 */
struct model {
	uint8_t synced[AREA];
	uint64_t synced_size;
	struct {
		uint64_t offset, len;
		uint8_t byte;
	} later[UNSYNCED_MAX];
	unsigned later_count;
};

static void model_verify(struct fixture *fx, const struct model *m, const uint8_t *got,
			 uint64_t size)
{
	CHECK(size >= m->synced_size);
	for (uint64_t at = 0; at < size; at++) {
		uint8_t was = at < m->synced_size ? m->synced[at] : 0;
		bool ok = got[at] == was;
		for (unsigned w = 0; !ok && w < m->later_count; w++)
			ok = at >= m->later[w].offset &&
			     at < m->later[w].offset + m->later[w].len &&
			     got[at] == m->later[w].byte;
		CHECK(ok);
	}
}

static void program_survive(struct fixture *fx, uint64_t life)
{
	struct model *m = (struct model *)fx->bytes;
	struct rt_file *f = must_open("/d0/a", RT_READ | RT_WRITE | RT_CREATE);
	AUTO_FREE uint8_t *buf = malloc(AREA);
	CHECK(buf != NULL);
	if (life == 2) {
		int64_t n = rt_file_read(f, buf, AREA, 0);
		CHECK(n >= 0);
		model_verify(fx, m, buf, (uint64_t)n);
		rt_file_close(f);
		return;
	}
	struct rng r;
	rng_init(&r, fx->config.seed);
	CHECK(rt_dir_sync("/d0") == 0);
	unsigned count = 1 + (unsigned)rng_below(&r, 24);
	for (unsigned w = 0; w < count; w++) {
		uint64_t offset = rng_below(&r, AREA);
		uint64_t len = 1 + rng_below(&r, min_u64(AREA - offset, 9000));
		uint8_t byte = (uint8_t)(w + 1);
		memset(buf, byte, len);
		CHECK(rt_file_write(f, buf, len, offset) == 0);
		m->later[m->later_count].offset = offset;
		m->later[m->later_count].len = len;
		m->later[m->later_count++].byte = byte;
		if (m->later_count < UNSYNCED_MAX && rng_below(&r, 4) != 0)
			continue;
		CHECK(rt_file_sync(f) == 0);
		m->later_count = 0;
		int64_t n = rt_file_read(f, m->synced, AREA, 0);
		CHECK(n >= 0);
		m->synced_size = (uint64_t)n;
	}
	rt_file_close(f);
}

static void synced_bytes_survive_power_loss(void **state)
{
	struct fixture fx;
	for (uint64_t seed = 1; seed <= 500; seed++) {
		AUTO_FREE struct model *m = calloc(1, sizeof(*m));
		fixture_open(&fx, seed, program_survive);
		fx.bytes = (uint8_t *)m;
		fixture_run_crash(&fx, true);
	}
}

enum outcome {
	FIRST_LOST = 1 << 0,
	FIRST_TORN = 1 << 1,
	FIRST_WHOLE = 1 << 2,
	REORDERED = 1 << 3, /* the second write survived, the first did not */
	ZEROED = 1 << 4,    /* the size survived, the bytes did not */
};

static void program_unsynced(struct fixture *fx, uint64_t life)
{
	struct rt_file *f = must_open("/d0/a", RT_READ | RT_WRITE | RT_CREATE);
	uint8_t buf[8192];
	if (life == 1) {
		CHECK(rt_dir_sync("/d0") == 0);
		memset(buf, 'A', 4096);
		CHECK(rt_file_write(f, buf, 4096, 0) == 0);
		memset(buf, 'B', 4096);
		CHECK(rt_file_write(f, buf, 4096, 4096) == 0);
	} else {
		int64_t n = rt_file_read(f, buf, sizeof(buf), 0);
		unsigned as = 0, bs = 0, zeros = 0;
		CHECK(n >= 0);
		for (int64_t i = 0; i < n; i++) {
			as += buf[i] == 'A';
			bs += buf[i] == 'B';
			zeros += buf[i] == 0;
		}
		CHECK(as + bs + zeros == n && as % 512 == 0 && bs % 512 == 0);
		fx->seen |= as == 0 ? FIRST_LOST : as < 4096 ? FIRST_TORN : FIRST_WHOLE;
		fx->seen |= as == 0 && bs > 0 ? REORDERED : 0;
		fx->seen |= zeros > 0 ? ZEROED : 0;
	}
	rt_file_close(f);
}

static void unsynced_writes_are_lost_torn_kept_or_reordered(void **state)
{
	unsigned seen = 0;
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct fixture fx;
		fixture_open(&fx, seed, program_unsynced);
		fixture_run_crash(&fx, true);
		seen |= fx.seen;
	}
	assert_int_equal(seen, FIRST_LOST | FIRST_TORN | FIRST_WHOLE | REORDERED | ZEROED);
}

static void a_process_crash_loses_no_write_that_returned(void **state)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct fixture fx;
		fixture_open(&fx, seed, program_unsynced);
		fixture_run_crash(&fx, false);
		assert_int_equal(fx.seen, FIRST_WHOLE);
	}
}

static void without_the_faults_of_a_crash_power_loss_loses_nothing(void **state)
{
	struct fixture fx;
	fixture_open(&fx, 1, program_unsynced);
	fx.config.rate[SIM_WRITE_LOST] = 0;
	fx.config.rate[SIM_WRITE_TORN] = 0;
	fixture_run_crash(&fx, true);
	assert_int_equal(fx.seen, FIRST_WHOLE);
}

static void sync_fiber(void *arg)
{
	struct fixture *fx = arg;
	struct rt_file *f = must_open("/d0/a", RT_WRITE);
	CHECK(rt_file_sync(f) == 0);
	fx->numbers[0] = rt_now_ns();
	rt_file_close(f);
}

static void program_write_in_sync(struct fixture *fx, uint64_t life)
{
	struct rt_file *f = must_open("/d0/a", RT_READ | RT_WRITE | RT_CREATE);
	struct rt_fiber *syncer;
	char buf[8] = "";
	if (life == 1) {
		CHECK(rt_dir_sync("/d0") == 0 && rt_file_write(f, "A", 1, 0) == 0);
		CHECK(rt_spawn(&syncer, "sync", sync_fiber, fx) == 0);
		/* Once the other fiber's open has ended, its sync has begun about half of the time. */
		CHECK(rt_sleep_ns(250 * NS_PER_US) == 0);
		CHECK(rt_file_write(f, "B", 1, 1) == 0);
		fx->numbers[1] = rt_now_ns();
		rt_join(syncer);
	} else {
		int64_t n = rt_file_read(f, buf, 2, 0);
		CHECK(n >= 1 && buf[0] == 'A');
		fx->seen = n == 1 && fx->numbers[1] < fx->numbers[0];
	}
	rt_file_close(f);
}

static void a_sync_does_not_cover_a_write_that_ends_during_it(void **state)
{
	unsigned lost = 0;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct fixture fx;
		fixture_open(&fx, seed, program_write_in_sync);
		fixture_run_crash(&fx, true);
		lost += fx.seen;
	}
	assert_true(lost > 0);
}

static void program_inflight(struct fixture *fx, uint64_t life)
{
	struct rt_file *f = must_open("/d0/a", RT_READ | RT_WRITE | RT_CREATE);
	static uint8_t buf[65536];
	if (life == 1) {
		CHECK(rt_dir_sync("/d0") == 0);
		memset(buf, 'A', sizeof(buf));
		fx->numbers[0] = 1;
		int rc = rt_file_write(f, buf, sizeof(buf), 0);
		CHECK(rc == -ECANCELED);
	} else {
		int64_t n = rt_file_read(f, buf, sizeof(buf), 0);
		int64_t as = 0;
		CHECK(n >= 0);
		for (int64_t i = 0; i < n; i++) {
			CHECK(buf[i] == 'A' || buf[i] == 0);
			as += buf[i] == 'A';
		}
		fx->seen |= as == 0 ? FIRST_LOST : as < 65536 ? FIRST_TORN : FIRST_WHOLE;
	}
	rt_file_close(f);
}

static bool write_started(void *arg)
{
	return ((struct fixture *)arg)->numbers[0] == 1;
}

static void a_write_under_way_at_a_crash_lands_or_not(void **state)
{
	for (int power = 0; power < 2; power++) {
		unsigned seen = 0;
		for (uint64_t seed = 1; seed <= 60; seed++) {
			struct fixture fx;
			fixture_open(&fx, seed, program_inflight);
			fixture_start(&fx);
			assert_true(sim_run_until(fx.sim, write_started, &fx, MINUTE));
			sim_node_crash(fx.node, power != 0);
			fixture_finish(&fx);
			fixture_close(&fx);
			seen |= fx.seen;
		}
		assert_int_equal(seen & FIRST_TORN, FIRST_TORN);
		assert_int_equal(seen & FIRST_WHOLE, FIRST_WHOLE);
		if (power != 0)
			assert_int_equal(seen & FIRST_LOST, FIRST_LOST);
	}
}

static void program_rename(struct fixture *fx, uint64_t life)
{
	if (life == 1) {
		put_file("/d0/a", "old", true);
		put_file("/d0/tmp", "newer", true);
		CHECK(rt_dir_sync("/d0") == 0);
		CHECK(rt_rename("/d0/tmp", "/d0/a") == 0);
		CHECK(file_is("/d0/a", "newer"));
		return;
	}
	char buf[8];
	if (file_is("/d0/a", "newer")) {
		CHECK(get_file("/d0/tmp", buf, sizeof(buf)) == -ENOENT);
		fx->seen |= 1;
	} else {
		CHECK(file_is("/d0/a", "old") && file_is("/d0/tmp", "newer"));
		fx->seen |= 2;
	}
}

static void rename_is_all_or_nothing(void **state)
{
	unsigned seen = 0;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct fixture fx;
		fixture_open(&fx, seed, program_rename);
		fixture_run_crash(&fx, true);
		seen |= fx.seen;
	}
	assert_int_equal(seen, 3);
}

/* numbers[0]: whether to sync the directory; numbers[1]: number of names that survived. */
static void program_names(struct fixture *fx, uint64_t life)
{
	static const char *const names[] = {"/d0/dir", "/d0/dir/a", "/d0/dir/b", "/d0/dir/c"};
	char buf[8];
	if (life == 1) {
		CHECK(rt_mkdir(names[0]) == 0);
		for (int i = 1; i < 4; i++)
			put_file(names[i], "x", true);
		put_file("/d0/gone", "x", true);
		CHECK(fx->numbers[0] == 0 || rt_dir_sync("/d0") == 0);
		CHECK(fx->numbers[0] == 0 || rt_dir_sync("/d0/dir") == 0);
		CHECK(rt_unlink("/d0/gone") == 0);
		return;
	}
	bool missing = false;
	for (int i = 1; i < 4; i++) {
		bool there = get_file(names[i], buf, sizeof(buf)) == 1;
		/* if an operation is lost, all later operations are lost, too */
		CHECK(!there || !missing);
		missing = missing || !there;
		fx->numbers[1] += there;
	}
	fx->rc = get_file("/d0/gone", buf, sizeof(buf)) == 1;
	CHECK(!(fx->rc && missing));
}

static void names_vanish_without_a_directory_sync_and_never_with_it(void **state)
{
	unsigned counts = 0;
	unsigned back = 0;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct fixture fx;
		fixture_open(&fx, seed, program_names);
		fx.numbers[0] = seed % 2;
		fixture_run_crash(&fx, true);
		if (fx.numbers[0] == 1) {
			assert_int_equal(fx.numbers[1], 3);
			back |= 1U << fx.rc; /* the unlink was not synced: both outcomes occur */
		} else {
			counts |= 1U << fx.numbers[1];
		}
	}
	assert_int_equal(counts, 0xf);
	assert_int_equal(back, 3);
}

static void program_sync_fails(struct fixture *fx, uint64_t life)
{
	struct rt_file *f = must_open("/d0/a", RT_READ | RT_WRITE | RT_CREATE);
	char buf[8] = "";
	if (life == 1) {
		CHECK(rt_file_write(f, "first", 5, 0) == 0);
		int rc = rt_file_sync(f);
		CHECK(rc == 0 || rc == -EIO);
		fx->rc = rc;
		CHECK(rt_file_read(f, buf, 5, 0) == 5 && memcmp(buf, "first", 5) == 0);
		CHECK(rt_file_sync(f) == 0); /* no page is dirty: success means nothing */
		while (rt_dir_sync("/d0") != 0)
			continue;
	} else {
		fx->seen = rt_file_read(f, buf, 5, 0) == 5 && memcmp(buf, "first", 5) == 0;
		CHECK(fx->rc != 0 || fx->seen == 1);
	}
	rt_file_close(f);
}

static void a_sync_after_a_failed_one_does_not_cover_older_writes(void **state)
{
	unsigned lost = 0, kept = 0, good = 0;
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct fixture fx;
		fixture_open(&fx, seed, program_sync_fails);
		fx.config.rate[SIM_DISK_SYNC_FAIL] = 0.7;
		fixture_start(&fx);
		fixture_finish(&fx);
		assert_int_equal(sim_disk_damage(fx.disk), fx.rc != 0 ? SIM_DAMAGE_SYNC : 0);
		assert_false(sim_disk_damaged(fx.disk));
		sim_node_crash(fx.node, true);
		fixture_finish(&fx);
		fixture_close(&fx);
		lost += fx.rc != 0 && fx.seen == 0;
		kept += fx.rc != 0 && fx.seen == 1;
		good += fx.rc == 0;
	}
	assert_true(lost > 0 && kept > 0 && good > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_have_holes_sizes_and_pieces),
		cmocka_unit_test(wrong_calls_are_refused_as_linux_does),
		cmocka_unit_test(a_directory_lists_each_name_once),
		cmocka_unit_test(an_unlinked_open_file_lives_until_it_is_closed),
		cmocka_unit_test(direct_files_refuse_misaligned_transfers),
		cmocka_unit_test(space_is_counted_and_runs_out),
		cmocka_unit_test(a_lock_excludes_until_closed_or_its_process_dies),
		cmocka_unit_test(synced_bytes_survive_power_loss),
		cmocka_unit_test(unsynced_writes_are_lost_torn_kept_or_reordered),
		cmocka_unit_test(a_process_crash_loses_no_write_that_returned),
		cmocka_unit_test(without_the_faults_of_a_crash_power_loss_loses_nothing),
		cmocka_unit_test(a_sync_does_not_cover_a_write_that_ends_during_it),
		cmocka_unit_test(a_write_under_way_at_a_crash_lands_or_not),
		cmocka_unit_test(rename_is_all_or_nothing),
		cmocka_unit_test(names_vanish_without_a_directory_sync_and_never_with_it),
		cmocka_unit_test(a_sync_after_a_failed_one_does_not_cover_older_writes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
