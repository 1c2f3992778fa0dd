// SPDX-License-Identifier: Apache-2.0
/* The tally store and the worst: crashes at every wait, damaged logs, a sync that fails. */
#include <errno.h>
#include <string.h>

#include "rt/file.h"
#include "tally/log.h"
#include "tally_box.h"

/* --- crashes --------------------------------------------------------------------------------- */

/* Known outside the simulated memory. */
struct sweep {
	uint64_t added; /* acknowledged: 1, 2, ... in order */
	uint64_t put;   /* the highest version acknowledged */
	uint64_t lives;
	uint64_t completed;
};

enum { SWEEP_CHANGES = 24, SWEEP_BLOB = 3000 };

/* Adds and puts in turn, over a compaction; started again after the crash, it checks what it finds
 * and asks again for what was not acknowledged. */
static void sweep_fn(struct box *b)
{
	struct sweep *w = b->arg;
	int64_t value = 0;
	w->lives++;
	b->options.compact_min_bytes = 16 * KIB;
	int rc = tally_open(&b->store, &b->options);
	if (rc == 0) {
		CHECK_RC(tally_get(b->store, "count", &value), 0);
		CHECK((uint64_t)value == w->added || (uint64_t)value == w->added + 1);
		struct tally_blob blob;
		rc = tally_blob_find(b->store, "blob", &blob);
		CHECK(rc == 0 || w->put == 0);
		if (rc == 0)
			tally_blob_release(&blob);
		rc = 0;
	}
	for (uint64_t i = w->put + 1; i <= SWEEP_CHANGES && rc == 0; i++) {
		rc = add(b, 1, i, "count", 1, &value);
		if (rc == 0) {
			CHECK((uint64_t)value == i);
			w->added = i;
			rc = put(b, 2, i, "blob", SWEEP_BLOB, i);
		}
		if (rc == 0) {
			w->put = i;
			check_value(b, "count", (int64_t)i);
		}
	}
	if (rc == 0)
		rc = read_blob(b, "blob", SWEEP_BLOB, SWEEP_CHANGES);
	CHECK(rc == 0 || rc == -ECANCELED || rc == -EIO);
	if (rc == 0) {
		check_value(b, "count", SWEEP_CHANGES);
		/* The first time the power is cut now, to see that all of it was synced. */
		if (++w->completed == 1)
			CHECK_RC(rt_sleep_ns(1000 * NS_PER_S), -ECANCELED);
	}
	tally_close(b->store);
	b->store = NULL;
}

static bool sweep_completed(void *arg)
{
	return ((struct sweep *)arg)->completed > 0;
}

static bool sweep_ended(void *arg)
{
	struct box *b = arg;
	return ((struct sweep *)b->arg)->completed > 1 && !sim_node_running(b->node);
}

static bool sweep_once(uint64_t nth, bool power)
{
	struct box b;
	struct sweep w = {0};
	box_open(&b, SEED + nth);
	box_build(&b);
	b.arg = &w;
	b.fn = sweep_fn;
	sim_node_start(b.node, box_main, &b);
	sim_node_crash_at(b.node, nth, power);
	CHECK(sim_run_until(b.sim, sweep_completed, &w, 600 * NS_PER_S));
	bool crashed = w.lives > 1;
	sim_node_crash_at(b.node, 0, false);
	sim_node_crash(b.node, true);
	CHECK(sim_run_until(b.sim, sweep_ended, &b, 600 * NS_PER_S));
	CHECK(w.added == SWEEP_CHANGES && w.completed == 2);
	CHECK(w.lives == (crashed ? 3 : 2));
	box_close(&b);
	return crashed;
}

/* Crash at the n-th wait, for every n until a run meets no crash. */
static void a_crash_at_any_wait_loses_nothing(void **state)
{
	for (unsigned power = 0; power < 2; power++) {
		uint64_t nth = 1;
		while (sweep_once(nth, power == 1))
			nth++;
		CHECK(nth > 100);
	}
}

/* --- what a read has shown ------------------------------------------------------------------- */

struct shown {
	uint64_t lives;
	int64_t value; /* that a read has shown */
	bool read;
};

static void shown_fn(struct box *b)
{
	struct shown *w = b->arg;
	int64_t value = 0;
	w->lives++;
	int rc = tally_open(&b->store, &b->options);
	for (uint64_t i = 1; rc == 0 && w->lives == 1 && i <= 5; i++)
		rc = add(b, 1, i, "a", 1, &value);
	if (rc == 0) {
		CHECK_RC(tally_get(b->store, "a", &value), 0);
		CHECK(value >= w->value);
		w->value = value;
		w->read = true;
		(void)rt_sleep_ns(1000 * NS_PER_S);
	}
	tally_close(b->store);
}

static bool shown_read(void *arg)
{
	return ((struct shown *)arg)->read;
}

/*
 * A process is killed at its n-th wait, perhaps between a write and its sync: the next one finds the
 * write in the page cache. If it shows it to anyone, a power loss must not take it back.
 */
static void what_a_read_has_shown_survives_a_power_loss(void **state)
{
	struct shown w;
	uint64_t nth = 1;
	do {
		struct box b;
		box_open(&b, SEED + nth);
		b.config.rate[SIM_WRITE_LOST] = 1;
		box_build(&b);
		w = (struct shown){0};
		b.arg = &w;
		b.fn = shown_fn;
		sim_node_start(b.node, box_main, &b);
		sim_node_crash_at(b.node, nth, false);
		CHECK(sim_run_until(b.sim, shown_read, &w, 600 * NS_PER_S));
		sim_node_crash_at(b.node, 0, false);
		uint64_t lives = w.lives;
		w.read = false;
		sim_node_crash(b.node, true);
		CHECK(sim_run_until(b.sim, shown_read, &w, 600 * NS_PER_S));
		CHECK(w.lives == lives + 1);
		nth = lives > 1 ? nth + 1 : 0;
		box_close(&b);
	} while (nth != 0);
	CHECK(w.value == 5);
}

/* --- logs made by hand ----------------------------------------------------------------------- */

enum { FORGED_SALT = 77, FORGED_BYTES = 4096 };

struct forged {
	uint8_t bytes[FORGED_BYTES];
	size_t len;
	uint64_t number;
	uint32_t chain;
	int rc; /* of opening it */
	int64_t value;
};

static void forge_begin(struct forged *f)
{
	struct log_file_header h = {.salt = FORGED_SALT, .base = 0, .snapshot_end = 64};
	*f = (struct forged){.len = LOG_FILE_HEADER_BYTES, .chain = FORGED_SALT};
	log_file_header_write(f->bytes, &h);
}

/* One more add of 1 to "a", which says that all up to durable was synced. */
static void forge_add(struct forged *f, uint64_t durable)
{
	struct log_record r = {
		.kind = LOG_ADD,
		.name_len = 1,
		.number = ++f->number,
		.durable = durable,
		.client_id = 1,
		.seq = f->number,
		.value = 1,
		.chain = f->chain,
	};
	log_record_write(f->bytes + f->len, &r, "a", FORGED_SALT);
	f->chain = r.header_crc;
	f->len += log_record_size(&r);
}

static void forged_fn(struct box *b)
{
	struct forged *f = b->arg;
	struct rt_file *file = NULL;
	CHECK_RC(rt_file_open(&file, "/disk/tally.log", RT_READ | RT_WRITE | RT_CREATE | RT_TRUNC),
		 0);
	CHECK_RC(rt_file_write(file, f->bytes, f->len, 0), 0);
	rt_file_close(file);
	f->rc = tally_open(&b->store, &b->options);
	if (f->rc < 0)
		return;
	CHECK_RC(tally_get(b->store, "a", &f->value), 0);
	int64_t value = 0;
	CHECK_RC(add(b, 2, 1, "a", 100, &value), 0);
	reopen_store(b);
	check_value(b, "a", f->value + 100);
	close_store(b);
}

static void check_forged(struct forged *f, int rc, int64_t value)
{
	struct box b;
	box_open(&b, SEED);
	box_build(&b);
	b.arg = f;
	box_run(&b, forged_fn);
	box_close(&b);
	CHECK_RC(f->rc, rc);
	CHECK(f->value == value);
}

static void recovery_follows_its_rule(void **state)
{
	struct forged f;
	forge_begin(&f);
	for (uint64_t i = 0; i < 5; i++)
		forge_add(&f, i);
	check_forged(&f, 0, 5);

	/* Two batches: 1 and 2, then 3 to 5. */
	forge_begin(&f);
	for (uint64_t i = 0; i < 5; i++)
		forge_add(&f, i < 2 ? 0 : 2);
	check_forged(&f, 0, 5);
	/* Number 4 is not whole, and nobody says that it was synced: 5 came out of order. */
	f.bytes[64 + 3 * 72 + 40] ^= 1;
	check_forged(&f, 0, 3);
	/* Number 2 is not whole either, but 3 and 5 say that it was synced. */
	f.bytes[64 + 1 * 72 + 40] ^= 1;
	f.value = 0;
	check_forged(&f, -EBADMSG, 0);

	/* What is left of a failed batch behind one that was written over its beginning. */
	forge_begin(&f);
	forge_add(&f, 0);
	f.chain ^= 1;
	forge_add(&f, 0);
	check_forged(&f, 0, 1);

	/* A number is missing. */
	forge_begin(&f);
	forge_add(&f, 0);
	f.number++;
	forge_add(&f, 0);
	check_forged(&f, 0, 1);

	/* Rubbish, and half a record. */
	forge_begin(&f);
	forge_add(&f, 0);
	memset(f.bytes + f.len, 0xa5, 333);
	f.len += 333;
	check_forged(&f, 0, 1);
	forge_begin(&f);
	forge_add(&f, 0);
	forge_add(&f, 1);
	f.len -= 30;
	check_forged(&f, 0, 1);

	/* Not a log at all; one that is shorter than its snapshot. */
	forge_begin(&f);
	f.bytes[0] ^= 1;
	check_forged(&f, -EBADMSG, 0);
	forge_begin(&f);
	f.len = 10;
	check_forged(&f, -EBADMSG, 0);
	forge_begin(&f);
	struct log_file_header h = {.salt = FORGED_SALT, .snapshot_end = 200};
	log_file_header_write(f.bytes, &h);
	check_forged(&f, -EBADMSG, 0);
}

/* --- damage ---------------------------------------------------------------------------------- */

static void damage_prepare_fn(struct box *b)
{
	int64_t value = 0;
	open_store(b);
	CHECK_RC(add(b, 1, 1, "a", 1, &value), 0);
	CHECK_RC(put(b, 1, 2, "blob", 600, 5), 0);
	CHECK_RC(add(b, 1, 3, "a", 2, &value), 0);
	close_store(b);
}

struct damage {
	bool opened; /* or refused */
	int rc;
	int64_t value;
};

static void damage_open_fn(struct box *b)
{
	struct damage *d = b->arg;
	d->rc = tally_open(&b->store, &b->options);
	if (d->rc == 0) {
		CHECK_RC(tally_get(b->store, "a", &d->value), 0);
		check_blob(b, "blob", 600, 5);
		close_store(b);
	}
}

/* The log: 64 bytes of header, the first add (72), the put (672), the last add (72), and the mark (64)
 * of a clean end. Whatever bit flips is noticed, but for padding; the mark may go. */
static void a_damaged_log_is_refused(void **state)
{
	const uint64_t last = 64 + 72 + 672;
	for (uint64_t offset = 0; offset < last + 72 + 64; offset += 5) {
		struct box b;
		struct damage d = {0};
		box_open(&b, SEED);
		box_build(&b);
		b.arg = &d;
		box_run(&b, damage_prepare_fn);
		CHECK_RC(sim_disk_flip(b.disk, "/disk/tally.log", offset, 3), 0);
		box_run(&b, damage_open_fn);
		bool padding = (offset >= 64 + 64 + 1 && offset < 64 + 72) ||
			       (offset >= last - 4 && offset < last) ||
			       (offset >= last + 64 + 1 && offset < last + 72);
		if (offset < last + 72 && !padding) {
			CHECK_RC(d.rc, -EBADMSG);
		} else {
			CHECK_RC(d.rc, 0);
			CHECK(d.value == 3);
		}
		box_close(&b);
	}
}

/* A crash instead of a clean end. */
static void damage_crash_fn(struct box *b)
{
	int64_t value = 0;
	const uint64_t *quiet_ns = b->arg;
	open_store(b);
	CHECK_RC(add(b, 1, 1, "a", 1, &value), 0);
	CHECK_RC(add(b, 1, 2, "a", 2, &value), 0);
	CHECK_RC(rt_sleep_ns(*quiet_ns), 0);
	b->ended = true;
	CHECK_RC(rt_sleep_ns(1000 * NS_PER_S), -ECANCELED);
	close_store(b);
}

static bool damage_ready(void *arg)
{
	return ((struct box *)arg)->ended;
}

static bool damage_seen(void *arg)
{
	return ((struct damage *)arg)->opened;
}

static void damage_reopen_fn(struct box *b)
{
	struct damage *d = b->arg;
	d->rc = tally_open(&b->store, &b->options);
	d->opened = true;
	if (d->rc == 0) {
		CHECK_RC(tally_get(b->store, "a", &d->value), 0);
		close_store(b);
	}
}

static struct damage damage_after_crash(uint64_t quiet_ns)
{
	struct box b;
	struct damage d = {0};
	box_open(&b, SEED);
	box_build(&b);
	b.arg = &quiet_ns;
	b.fn = damage_crash_fn;
	sim_node_start(b.node, box_main, &b);
	CHECK(sim_run_until(b.sim, damage_ready, &b, 600 * NS_PER_S));
	CHECK_RC(sim_disk_flip(b.disk, "/disk/tally.log", 64 + 72 + 30, 3), 0);
	b.arg = &d;
	b.fn = damage_reopen_fn;
	b.ended = false;
	sim_node_crash(b.node, true);
	CHECK(sim_run_until(b.sim, damage_seen, &d, 600 * NS_PER_S));
	box_close(&b);
	return d;
}

static void after_a_quiet_second_damage_to_the_last_batch_is_noticed(void **state)
{
	struct damage d = damage_after_crash(2 * NS_PER_S);
	CHECK_RC(d.rc, -EBADMSG);
	/* Right after it there is nothing that could tell it from a torn write. */
	d = damage_after_crash(0);
	CHECK_RC(d.rc, 0);
	CHECK(d.value == 1);
}

/* A blob that rots while the store is open. */
static void rot_fn(struct box *b)
{
	open_store(b);
	CHECK_RC(put(b, 1, 1, "blob", 600, 5), 0);
	check_blob(b, "blob", 600, 5);
	CHECK_RC(sim_disk_flip(b->disk, "/disk/tally.log", 64 + 68 + 300, 1), 0);
	struct tally_blob blob;
	uint8_t got[600];
	CHECK_RC(tally_blob_find(b->store, "blob", &blob), 0);
	CHECK_RC(tally_blob_read(&blob, got), -EBADMSG);
	tally_blob_release(&blob);
	close_store(b);
}

static void a_rotten_blob_is_not_returned(void **state)
{
	box_run_once(rot_fn);
}

/* --- a failed sync --------------------------------------------------------------------------- */

static void sync_fails_fn(struct box *b)
{
	int64_t value = 0;
	int64_t before = 0;
	uint64_t *failures = b->arg;
	if (tally_open(&b->store, &b->options) < 0)
		return; /* it failed while opening */
	int rc = 0;
	for (uint64_t i = 1; i < 100 && rc == 0; i++) {
		CHECK_RC(tally_get(b->store, "a", &before), 0);
		rc = add(b, 1, i, "a", 1, &value);
	}
	if (rc < 0) {
		++*failures;
		CHECK_RC(rc, -EIO);
		CHECK_RC(tally_wait_failed(b->store), 0);
		CHECK_RC(add(b, 2, 1, "a", 1, &value), -EIO);
		CHECK_RC(add(b, 2, 2, "a", 1, &value), -EIO);
		check_value(b, "a", before);
		struct tally_stat stat;
		tally_stat(b->store, &stat);
		CHECK(stat.failed);
	}
	close_store(b);
}

static void after_a_failed_sync_no_change_is_taken(void **state)
{
	uint64_t failures = 0;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct box b;
		box_open(&b, seed);
		b.config.rate[SIM_DISK_SYNC_FAIL] = 0.05;
		box_build(&b);
		b.arg = &failures;
		box_run(&b, sync_fails_fn);
		box_close(&b);
	}
	CHECK(failures >= 10);
}

/* --- a failed write --------------------------------------------------------------------------- */

struct write_fails {
	uint64_t failures;
};

static void write_fails_fn(struct box *b)
{
	struct write_fails *w = b->arg;
	struct tally_stat stat = {0};
	int64_t value = 0;
	if (tally_open(&b->store, &b->options) < 0)
		return; /* it failed while opening */
	uint64_t live = 0;
	for (uint64_t i = 0; i < 100; i++) {
		char name[8] = {'n', (char)('0' + i / 10), (char)('0' + i % 10)};
		int rc = add(b, 1 + i, 1, name, 1, &value);
		CHECK(rc == 0 || rc == -EIO);
		live += rc == 0 ? LOG_RECORD_BYTES + 3 : 0;
		w->failures += rc < 0;
		tally_stat(b->store, &stat);
		CHECK(stat.live_bytes == live && stat.sessions == stat.counters);
	}
	close_store(b);
}

static void a_failed_change_leaves_neither_name_nor_session(void **state)
{
	struct write_fails w = {0};
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct box b;
		box_open(&b, seed);
		b.config.rate[SIM_DISK_EIO] = 0.1;
		box_build(&b);
		b.arg = &w;
		box_run(&b, write_fails_fn);
		box_close(&b);
	}
	CHECK(w.failures >= 20);
}

/* --- a failed rename -------------------------------------------------------------------------- */

/* The log loses its name behind the store's back, to a directory that no file can replace. */
static void rename_fails_fn(struct box *b)
{
	int64_t value = 0;
	open_store(b);
	CHECK_RC(add(b, 1, 1, "a", 1, &value), 0);
	CHECK_RC(rt_rename("/disk/tally.log", "/disk/aside"), 0);
	CHECK_RC(rt_mkdir("/disk/tally.log"), 0);
	int rc = 0;
	uint64_t i = 1;
	for (; i <= 100 && rc == 0; i++)
		rc = put(b, 2, i, "blob", 4000, i);
	CHECK_RC(rc, -EIO);
	CHECK(i < 30); /* at the first compaction */
	CHECK_RC(tally_wait_failed(b->store), 0);
	CHECK_RC(add(b, 1, 2, "a", 1, &value), -EIO);
	check_value(b, "a", 1);
	close_store(b);
}

static void after_a_failed_rename_no_change_is_taken(void **state)
{
	box_run_once(rename_fails_fn);
}

/* --- a bad read ------------------------------------------------------------------------------ */

struct bad_reads {
	uint64_t acked;
	uint64_t refused; /* openings */
	bool lost;
};

/* Opens the store again and again while the disk now and then gives other bytes than were asked for.
 * The log is longer than a block of the disk, so that those differ. */
static void bad_reads_fn(struct box *b)
{
	struct bad_reads *w = b->arg;
	int64_t value = 0;
	for (unsigned i = 0; i < 20; i++) {
		int rc = tally_open(&b->store, &b->options);
		CHECK(rc == 0 || rc == -EBADMSG || rc == -EIO);
		if (rc < 0) {
			w->refused++;
			continue;
		}
		CHECK_RC(tally_get(b->store, "a", &value), 0);
		w->lost = w->lost || (uint64_t)value != w->acked;
		if (i == 0)
			CHECK_RC(put(b, 2, 1, "blob", 20000, 1), 0);
		CHECK_RC(add(b, 1, w->acked + 1, "a", 1, &value), 0);
		w->acked++;
		close_store(b);
	}
}

static void a_bad_read_costs_nothing(void **state)
{
	uint64_t tried = 0;
	uint64_t bad = 0;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct box b;
		struct bad_reads w = {0};
		box_open(&b, seed);
		b.config.rate[SIM_DISK_MISDIRECT] = 0.01;
		box_build(&b);
		b.arg = &w;
		box_run(&b, bad_reads_fn);
		unsigned damage = sim_disk_damage(b.disk);
		if ((damage & SIM_DAMAGE_WRITE) == 0) {
			tried++;
			bad += (damage & SIM_DAMAGE_READ) != 0;
			CHECK(!w.lost && w.acked + w.refused == 20);
			CHECK(w.refused <= 2);
		}
		box_close(&b);
	}
	CHECK(tried > 10 && bad > 5);
}

int main(void)
{
	log_set_level(LOG_OFF);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_crash_at_any_wait_loses_nothing),
		cmocka_unit_test(what_a_read_has_shown_survives_a_power_loss),
		cmocka_unit_test(recovery_follows_its_rule),
		cmocka_unit_test(a_damaged_log_is_refused),
		cmocka_unit_test(after_a_quiet_second_damage_to_the_last_batch_is_noticed),
		cmocka_unit_test(a_rotten_blob_is_not_returned),
		cmocka_unit_test(after_a_failed_sync_no_change_is_taken),
		cmocka_unit_test(a_failed_change_leaves_neither_name_nor_session),
		cmocka_unit_test(after_a_failed_rename_no_change_is_taken),
		cmocka_unit_test(a_bad_read_costs_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
