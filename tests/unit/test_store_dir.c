// SPDX-License-Identifier: Apache-2.0
/* Tests of the disk itself: identity, recovery, and damaged or foreign files. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/crc.h"
#include "base/log.h"
#include "base/rng.h"
#include "rt/file.h"
#include "rt/rt.h"
#include "store_script.h"

static const struct chunk_id A = {.block = 42, .index = 7};
static const struct chunk_id B = {.block = 43, .index = 0};

static struct store *must_open(const char *path)
{
	struct store_dir_options options = fixture_options();
	struct store *s = NULL;
	CHECK_EQ(store_dir_open(path, &options, &s), 0);
	return s;
}

static void must_format(const char *path)
{
	struct super super = fixture_super();
	CHECK_EQ(store_dir_format(path, &super), 0);
}

static void name_of(char out[256], const char *root, struct chunk_id id)
{
	char name[CHUNK_NAME_BYTES];
	chunk_name_print(id, name);
	snprintf(out, 256, "%s/chunks/%03x/%s", root, chunk_fan(id, 2), name);
}

/* --- identity --------------------------------------------------------------------------------- */

static void identity(const char *path)
{
	struct store_dir_options good = fixture_options();
	struct super super = fixture_super(), is;
	struct store *s, *again;
	CHECK_EQ(store_dir_identify(path, &is), -ENOENT);
	CHECK_EQ(store_dir_open(path, &good, &s), -ENOENT);
	super.created_wall_ns = 12345;
	CHECK_EQ(store_dir_format(path, &super), 0);
	CHECK_EQ(store_dir_format(path, &super), -EEXIST);
	CHECK_EQ(store_dir_identify(path, &is), 0);
	CHECK(is.cluster[0] == 1 && is.cluster[1] == 2 && is.node == 3 && is.disk == 4);
	CHECK(is.fan_bits == 2 && is.created_wall_ns == 12345);

	struct store_dir_options other = good;
	other.cluster[1]++;
	CHECK_EQ(store_dir_open(path, &other, &s), -EPERM);
	other = good;
	other.node++;
	CHECK_EQ(store_dir_open(path, &other, &s), -ESTALE);
	other = good;
	other.disk++;
	CHECK_EQ(store_dir_open(path, &other, &s), -ESTALE);

	CHECK_EQ(store_dir_open(path, &good, &s), 0);
	CHECK_EQ(store_dir_open(path, &good, &again), -EBUSY);
	CHECK_EQ(store_dir_identify(path, &is), 0);
	store_close(s);
	CHECK_EQ(store_dir_open(path, &good, &s), 0);
	store_close(s);
}

static void a_disk_is_opened_only_with_its_identity(void **state)
{
	(void)state;
	fixture_in_real_dir(identity);
	fixture_in_sim_dir(1, identity);
}

static void make_file(const char *path, const char *text)
{
	struct rt_file *f;
	CHECK_EQ(rt_file_open(&f, path, RT_WRITE | RT_CREATE), 0);
	CHECK_EQ(rt_file_write(f, text, strlen(text), 0), 0);
	rt_file_close(f);
}

static void format_refusals(const char *path)
{
	struct super super = fixture_super();
	char name[256];
	super.fan_bits = SUPER_FAN_BITS_MAX + 1;
	CHECK_EQ(store_dir_format(path, &super), -EINVAL);
	super.fan_bits = 2;
	CHECK_EQ(store_dir_format("", &super), -EINVAL);
	snprintf(name, sizeof(name), "%s/holiday.jpg", path);
	make_file(name, "x");
	CHECK_EQ(store_dir_format(path, &super), -ENOTEMPTY);
	CHECK_EQ(rt_unlink(name), 0);
	/* A disk that lost its superblock still has its chunks: it must not be formatted again. */
	must_format(path);
	struct store *s = must_open(path);
	CHECK_EQ(text_put(s, A, 1, 100, false, 0), 0);
	store_close(s);
	snprintf(name, sizeof(name), "%s/superblock", path);
	CHECK_EQ(rt_unlink(name), 0);
	CHECK_EQ(store_dir_format(path, &super), -ENOTEMPTY);
}

static void a_directory_with_files_is_not_formatted(void **state)
{
	(void)state;
	fixture_in_real_dir(format_refusals);
	fixture_in_sim_dir(1, format_refusals);
}

static void damage_superblock(const char *path)
{
	struct store_dir_options options = fixture_options();
	struct super is;
	struct store *s;
	struct rt_file *f;
	uint8_t bytes[SUPER_BYTES];
	char name[256];
	must_format(path);
	snprintf(name, sizeof(name), "%s/superblock", path);
	CHECK_EQ(rt_file_open(&f, name, RT_READ | RT_WRITE), 0);
	CHECK_EQ(rt_file_read(f, bytes, SUPER_BYTES, 0), SUPER_BYTES);
	for (size_t at = 0; at < SUPER_COPY_BYTES; at += 13) {
		uint8_t bad = bytes[at] ^ 0x20;
		CHECK_EQ(rt_file_write(f, &bad, 1, at), 0);
		CHECK_EQ(store_dir_identify(path, &is), 0);
		CHECK_EQ(is.disk, 4);
		CHECK_EQ(rt_file_write(f, &bad, 1, at + SUPER_COPY_BYTES), 0);
		CHECK_EQ(store_dir_identify(path, &is), -EBADMSG);
		CHECK_EQ(store_dir_open(path, &options, &s), -EBADMSG);
		CHECK_EQ(rt_file_write(f, bytes, SUPER_BYTES, 0), 0);
	}
	for (uint64_t size = 0; size < SUPER_COPY_BYTES; size += 511) {
		CHECK_EQ(rt_file_truncate(f, size), 0);
		CHECK_EQ(store_dir_identify(path, &is), -EBADMSG);
	}
	rt_file_close(f);
}

static void flip_superblock(const char *path, uint64_t at)
{
	struct rt_file *f;
	uint8_t byte;
	char name[256];
	snprintf(name, sizeof(name), "%s/superblock", path);
	CHECK_EQ(rt_file_open(&f, name, RT_READ | RT_WRITE), 0);
	CHECK_EQ(rt_file_read(f, &byte, 1, at), 1);
	byte ^= 0x20;
	CHECK_EQ(rt_file_write(f, &byte, 1, at), 0);
	rt_file_close(f);
}

static void rot_in_superblock(const char *path)
{
	struct store_dir_options options = fixture_options();
	struct store_info info;
	struct super is;
	struct store *s;
	must_format(path);
	for (int which = 1; which <= 3; which++) {
		CHECK_EQ(store_dir_open(path, &options, &s), 0);
		store_info(s, &info);
		if (which & 1)
			flip_superblock(path, 17);
		if (which & 2)
			flip_superblock(path, SUPER_COPY_BYTES + 18);
		CHECK_EQ(rt_sleep_ns(6 * NS_PER_S), 0);
		store_info(s, &info);
		CHECK_EQ(info.state, STORE_ONLINE);
		store_close(s);
		/* Now both copies of the superblock are intact again. */
		flip_superblock(path, 19);
		CHECK_EQ(store_dir_identify(path, &is), 0);
		flip_superblock(path, 19);
		flip_superblock(path, SUPER_COPY_BYTES + 19);
		CHECK_EQ(store_dir_identify(path, &is), 0);
		flip_superblock(path, SUPER_COPY_BYTES + 19);
	}
}

static void a_damaged_superblock_is_rewritten_while_the_disk_is_open(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, rot_in_superblock);
}

/* Puts another disk in the place of an open one. */
static void swap_superblock(const char *path)
{
	struct store_dir_options options = fixture_options();
	struct super other;
	struct store_info info;
	struct rt_file *f;
	struct store *s;
	uint8_t bytes[SUPER_BYTES];
	char name[256], fresh[256];
	must_format(path);
	CHECK_EQ(store_dir_identify(path, &other), 0);
	CHECK_EQ(store_dir_open(path, &options, &s), 0);
	other.disk = 5;
	super_encode(&other, bytes);
	bytes[SUPER_COPY_BYTES + 17] ^=
		0x20; /* damaged, so that the store could want to rewrite it */
	snprintf(name, sizeof(name), "%s/superblock", path);
	snprintf(fresh, sizeof(fresh), "%s/superblock.new", path);
	CHECK_EQ(rt_file_open(&f, fresh, RT_WRITE | RT_CREATE), 0);
	CHECK_EQ(rt_file_write(f, bytes, SUPER_BYTES, 0), 0);
	rt_file_close(f);
	CHECK_EQ(rt_rename(fresh, name), 0);
	CHECK_EQ(rt_sleep_ns(6 * NS_PER_S), 0);
	store_info(s, &info);
	store_close(s);
	uint8_t found[SUPER_BYTES];
	CHECK_EQ(rt_file_open(&f, name, RT_READ), 0);
	CHECK_EQ(rt_file_read(f, found, SUPER_BYTES, 0), SUPER_BYTES);
	rt_file_close(f);
	CHECK(memcmp(found, bytes, SUPER_BYTES) == 0);
}

static void the_superblock_of_another_disk_is_not_overwritten(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, swap_superblock);
}

static void a_superblock_with_both_copies_damaged_is_refused(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, damage_superblock);
}

/* --- opening anew ----------------------------------------------------------------------------- */

static void reopen(const char *path)
{
	char name[256];
	struct store_cursor at = {0};
	struct chunk_id ids[8];
	struct chunk_stat st;
	must_format(path);
	struct store *s = must_open(path);
	CHECK_EQ(text_put(s, A, 1, 100000, false, 0), 0);
	CHECK_EQ(text_put(s, B, 2, 100, true, 1000000), 0);
	CHECK_EQ(text_append(s, B, 5, 2, 100, 77777), 0);
	store_close(s);
	/* Unfinished puts, and files that do not belong there. */
	snprintf(name, sizeof(name), "%s/tmp/0000000000000005", path);
	make_file(name, "half a put");
	snprintf(name, sizeof(name), "%s/chunks/001/README", path);
	make_file(name, "not a chunk");
	s = must_open(path);
	CHECK_EQ(text_get(s, A, 1, 0, 100000, 0), 0);
	CHECK_EQ(text_get(s, B, 2, 0, 77877, 0), 0);
	CHECK_EQ(store_stat(s, B, &st), 0);
	CHECK_EQ(st.epoch, 5);
	CHECK(!st.sealed);
	CHECK_EQ(text_append(s, B, 4, 2, 77877, 1), -ESTALE);
	CHECK_EQ(text_append(s, B, 5, 2, 77877, 5000), 0);
	CHECK_EQ(store_list(s, &at, ids, 8), 2);
	CHECK_EQ(store_seal(s, B, 5, 82877), 0);
	store_close(s);
	s = must_open(path);
	CHECK_EQ(text_get(s, B, 2, 0, 82877, 0), 0);
	CHECK_EQ(store_stat(s, B, &st), 0);
	CHECK(st.sealed);
	store_close(s);
	struct rt_file *f;
	snprintf(name, sizeof(name), "%s/tmp/0000000000000005", path);
	CHECK_EQ(rt_file_open(&f, name, RT_READ), -ENOENT);
}

static void chunks_are_there_after_opening_again(void **state)
{
	(void)state;
	fixture_in_real_dir(reopen);
	fixture_in_sim_dir(1, reopen);
}

static void few_files(const char *path)
{
	struct store_dir_options options = fixture_options();
	struct store *s;
	uint64_t len[12] = {0};
	struct rng rng;
	rng_init(&rng, 5);
	options.open_chunks_max = 3;
	must_format(path);
	CHECK_EQ(store_dir_open(path, &options, &s), 0);
	for (uint32_t c = 0; c < ARRAY_LEN(len); c++)
		CHECK_EQ(text_put(s, (struct chunk_id){.block = c}, c, 0, true, MIB), 0);
	for (int i = 0; i < 150; i++) {
		uint32_t c = (uint32_t)rng_below(&rng, ARRAY_LEN(len));
		uint64_t n = rng_below(&rng, 6000);
		CHECK_EQ(text_append(s, (struct chunk_id){.block = c}, 1, c, len[c], n), 0);
		len[c] += n;
		c = (uint32_t)rng_below(&rng, ARRAY_LEN(len));
		CHECK_EQ(text_get(s, (struct chunk_id){.block = c}, c, 0, len[c], 0), 0);
	}
	store_close(s);
}

static void more_chunks_can_be_used_than_files_may_be_open(void **state)
{
	(void)state;
	fixture_in_real_dir(few_files);
	fixture_in_sim_dir(1, few_files);
}

/* --- damage ----------------------------------------------------------------------------------- */

#define DAMAGED_LEN \
	UINT64_C(40100) /* bytes: three units of 16 KiB, the last one short, and a tail */

static void flip_every_where(struct script *sc, uint64_t life)
{
	char name[256];
	(void)life;
	must_format("/d0");
	struct store *s = must_open("/d0");
	CHECK_EQ(text_put(s, A, 1, DAMAGED_LEN, false, 0), 0);
	store_close(s);
	name_of(name, "/d0", A);
	const uint64_t paged = DAMAGED_LEN / 4096 * 4096;
	for (uint64_t at = 0; at < CHUNK_SLOTS_BYTES + paged; at += 29) {
		unsigned bit = (unsigned)(at % 8);
		struct store_range bad[4];
		CHECK_EQ(sim_disk_flip(sc->disk, name, at, bit), 0);
		s = must_open("/d0");
		if (at < CHUNK_SLOTS_BYTES) {
			/* The other slot is intact, so the chunk is readable. */
			CHECK_EQ(text_get(s, A, 1, 0, DAMAGED_LEN, 0), 0);
			CHECK_EQ(store_scan(s, A, bad, 4), 0);
			store_close(s);
			/* The damaged slot has been rewritten, unless the bit was meaningless. */
			s = must_open("/d0");
			CHECK_EQ(sim_disk_flip(sc->disk, name,
					       (at + CHUNK_SLOT_BYTES) % CHUNK_SLOTS_BYTES, bit),
				 0);
			CHECK_EQ(text_get(s, A, 1, 0, DAMAGED_LEN, 0), 0);
			CHECK_EQ(store_scan(s, A, bad, 4), 0);
		} else {
			uint64_t off = at - CHUNK_SLOTS_BYTES, unit = off / 16384 * 16384;
			CHECK_EQ(text_get(s, A, 1, 0, DAMAGED_LEN, 0), -EBADMSG);
			CHECK_EQ(text_get(s, A, 1, off, 1, 0), -EBADMSG);
			CHECK_EQ(text_get(s, A, 1, unit, 1, 0), -EBADMSG);
			/* A read of other units does not notice. */
			CHECK_EQ(text_get(s, A, 1, 0, unit, 0), 0);
			if (unit + 16384 < DAMAGED_LEN)
				CHECK_EQ(text_get(s, A, 1, unit + 16384, 5, 0), 0);
			CHECK_EQ(store_scan(s, A, bad, 4), 1);
			CHECK_EQ(bad[0].off, unit);
			CHECK_EQ(bad[0].len, min_u64(16384, DAMAGED_LEN - unit));
			CHECK_EQ(sim_disk_flip(sc->disk, name, at, bit), 0);
		}
		store_close(s);
	}
}

/* Runs a body that needs the simulated disk. */
static void with_disk(uint64_t seed, void (*body)(struct script *sc, uint64_t life))
{
	struct script sc = {.seed = seed, .what = "damage", .live = body};
	struct sim_config config;
	sim_config_init(&config, seed, 0);
	script_begin(&sc, &config);
	script_finish(&sc);
	script_end(&sc);
}

static void a_flipped_bit_is_found_in_its_unit(void **state)
{
	(void)state;
	with_disk(1, flip_every_where);
}

static void two_bad_units(struct script *sc, uint64_t life)
{
	char name[256];
	struct store_range bad[4];
	struct store_info info;
	(void)life;
	must_format("/d0");
	struct store *s = must_open("/d0");
	CHECK_EQ(text_put(s, A, 1, 100000, false, 0), 0);
	name_of(name, "/d0", A);
	const unsigned units[] = {0, 2, 3};
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		CHECK_EQ(sim_disk_flip(sc->disk, name, CHUNK_SLOTS_BYTES + units[i] * 16384 + 5, 3),
			 0);
	CHECK_EQ(store_scan(s, A, bad, 4), 2);
	CHECK(bad[0].off == 0 && bad[0].len == 16384);
	CHECK(bad[1].off == 32768 && bad[1].len == 32768);
	CHECK_EQ(store_scan(s, A, bad, 1), 1);
	CHECK_EQ(store_scan(s, A, bad, 0), -EINVAL);
	store_info(s, &info);
	CHECK(info.checksum_errors >= 3);
	CHECK_EQ(info.state, STORE_ONLINE);
	store_close(s);
}

static void a_scan_returns_the_damaged_ranges(void **state)
{
	(void)state;
	with_disk(1, two_bad_units);
}

/* A sealed chunk survives the loss of either slot, however the process ended. */
static void look_at_slots(const char *path)
{
	char name[256];
	struct rt_file *f;
	uint8_t *bytes = malloc(CHUNK_SLOTS_BYTES);
	struct chunk_head *heads = malloc(2 * sizeof(*heads));
	struct chunk_slots slots;
	CHECK(bytes != NULL && heads != NULL);
	must_format(path);
	struct store *s = must_open(path);
	name_of(name, path, A);
	for (unsigned step = 0; step < 3; step++) {
		if (step == 0)
			CHECK_EQ(text_put(s, A, 1, 5000, true, 100000), 0);
		else if (step == 1)
			CHECK_EQ(text_append(s, A, 1, 1, 5000, 9000), 0);
		else
			CHECK_EQ(store_seal(s, A, 1, 13000), 0);
		CHECK_EQ(rt_file_open(&f, name, RT_READ), 0);
		CHECK_EQ(rt_file_read(f, bytes, CHUNK_SLOTS_BYTES, 0), CHUNK_SLOTS_BYTES);
		rt_file_close(f);
		CHECK_EQ(chunk_slots_decode(bytes, CHUNK_SLOTS_BYTES, A, 4, heads, &slots), 0);
		CHECK_EQ(slots.settled, step != 1);
		CHECK_EQ(slots.newest->seq, step + 1);
		CHECK_EQ(slots.newest->sealed, step == 2);
	}
	store_close(s);
	free(heads);
	free(bytes);
}

static void a_sealed_chunk_is_in_both_slots(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, look_at_slots);
}

/* With both slots damaged the chunk cannot be read, but can be deleted and put again. */
static void lose_both_slots(struct script *sc, uint64_t life)
{
	char name[256];
	struct store_range bad;
	struct chunk_stat st;
	(void)life;
	must_format("/d0");
	struct store *s = must_open("/d0");
	CHECK_EQ(text_put(s, A, 1, 5000, true, 10000), 0);
	store_close(s);
	name_of(name, "/d0", A);
	CHECK_EQ(sim_disk_flip(sc->disk, name, 60, 1), 0);
	CHECK_EQ(sim_disk_flip(sc->disk, name, 8192 + 60, 1), 0);
	s = must_open("/d0");
	CHECK_EQ(text_get(s, A, 1, 0, 10, 0), -EBADMSG);
	CHECK_EQ(store_stat(s, A, &st), -EBADMSG);
	CHECK_EQ(store_scan(s, A, &bad, 1), -EBADMSG);
	CHECK_EQ(text_append(s, A, 1, 1, 5000, 10), -EBADMSG);
	CHECK_EQ(store_seal(s, A, 1, 5000), -EBADMSG);
	CHECK_EQ(text_put(s, A, 1, 5000, false, 0), -EEXIST);
	CHECK_EQ(store_delete(s, A), 0);
	CHECK_EQ(text_put(s, A, 1, 5000, false, 0), 0);
	store_close(s);
}

static void a_chunk_without_an_intact_head_is_refused(void **state)
{
	(void)state;
	with_disk(1, lose_both_slots);
}

static void cut_files(const char *path)
{
	char name[256], other[256];
	struct rt_file *f;
	must_format(path);
	struct store *s = must_open(path);
	CHECK_EQ(text_put(s, A, 1, DAMAGED_LEN, false, 0), 0);
	store_close(s);
	name_of(name, path, A);
	const uint64_t paged = DAMAGED_LEN / 4096 * 4096;
	for (uint64_t size = CHUNK_SLOTS_BYTES + paged - 1; size > 3000; size -= 3000) {
		CHECK_EQ(rt_file_open(&f, name, RT_READ | RT_WRITE), 0);
		CHECK_EQ(rt_file_truncate(f, size), 0);
		rt_file_close(f);
		s = must_open(path);
		CHECK_EQ(text_get(s, A, 1, 0, 10, 0), -EBADMSG);
		store_close(s);
	}
	/* A valid chunk file under the wrong name. */
	s = must_open(path);
	CHECK_EQ(store_delete(s, A), 0);
	CHECK_EQ(text_put(s, B, 1, DAMAGED_LEN, false, 0), 0);
	store_close(s);
	name_of(other, path, B);
	CHECK_EQ(rt_rename(other, name), 0);
	s = must_open(path);
	CHECK_EQ(text_get(s, A, 1, 0, 10, 0), -EBADMSG);
	store_close(s);
	/* A file that is no chunk file. */
	make_file(name, "A chunk file made by someone else");
	s = must_open(path);
	CHECK_EQ(text_get(s, A, 1, 0, 10, 0), -EBADMSG);
	CHECK_EQ(store_delete(s, A), 0);
	store_close(s);
}

static void a_truncated_or_foreign_file_is_refused(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, cut_files);
}

/* --- a disk that reads and writes the wrong things -------------------------------------------- */

struct wrong {
	bool lossless; /* the medium itself is not damaged: at the end all must be readable */
	uint64_t right, refused;
};

/* Runs operations with few open files, so that heads are read often. */
static void work_on_wrong_disk(struct script *sc, uint64_t life)
{
	struct wrong *w = sc->ctx;
	struct store_dir_options options = fixture_options();
	struct super super = fixture_super();
	struct store *s;
	uint64_t len[6] = {0};
	struct rng rng;
	(void)life;
	rng_init(&rng, sc->seed);
	options.open_chunks_max = 2;
	options.errors_max = 1000000;
	options.probe_after_ns = NS_PER_MS;
	if (store_dir_format("/d0", &super) != 0 || store_dir_open("/d0", &options, &s) != 0)
		return;
	for (int i = 0; i < 300; i++) {
		uint32_t c = (uint32_t)rng_below(&rng, ARRAY_LEN(len));
		struct chunk_id id = {.block = c};
		uint64_t n = rng_below(&rng, 9000);
		if (len[c] == 0)
			text_put(s, id, c, 0, true, 4 * MIB);
		if (text_append(s, id, 1, c, len[c], n) == 0)
			len[c] += n;
		c = (uint32_t)rng_below(&rng, ARRAY_LEN(len));
		id.block = c;
		if (len[c] == 0)
			continue;
		uint64_t off = rng_below(&rng, len[c]);
		/* text_get aborts the test if the bytes are wrong. */
		int rc = text_get(s, id, c, off, rng_below(&rng, len[c] - off + 1), 0);
		w->right += rc == 0;
		w->refused += rc == -EBADMSG || rc == -EIO;
	}
	sim_faults_stop(sc->sim);
	for (uint32_t c = 0; w->lossless && c < ARRAY_LEN(len); c++) {
		struct chunk_id id = {.block = c};
		struct chunk_stat st;
		if (len[c] == 0)
			continue;
		CHECK(store_stat(s, id, &st) == 0 && st.len == len[c]);
		CHECK(text_get(s, id, c, 0, len[c], 0) == 0);
	}
	store_close(s);
}

static void wrong_disk(enum sim_fault fault, double rate, bool lossless)
{
	struct wrong total = {0};
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct wrong w = {.lossless = lossless};
		struct script sc = {
			.seed = seed, .what = "wrong disk", .live = work_on_wrong_disk, .ctx = &w};
		struct sim_config config;
		sim_config_init(&config, seed, 0);
		config.rate[fault] = rate;
		script_begin(&sc, &config);
		script_finish(&sc);
		assert_true(sim_fault_count(sc.sim, fault) > 3);
		script_end(&sc);
		total.right += w.right;
		total.refused += w.refused;
	}
	print_message("  %llu right, %llu refused\n", (unsigned long long)total.right,
		      (unsigned long long)total.refused);
	assert_true(total.right > 100 && total.refused > 10);
}

static void misdirected_sectors_are_found(void **state)
{
	(void)state;
	wrong_disk(SIM_DISK_MISDIRECT, 0.01, false);
}

static void stale_sectors_lose_nothing(void **state)
{
	(void)state;
	/* Data pages are written once, so only slots can be stale, and there are two of them. */
	wrong_disk(SIM_DISK_STALE, 0.2, true);
}

/* --- space ------------------------------------------------------------------------------------ */

static void fill(const char *path)
{
	struct store_dir_options options = fixture_options();
	struct store_info info;
	struct store *s;
	uint32_t count = 0;
	int rc;
	must_format(path);
	options.keep_free_bytes = MIB;
	CHECK_EQ(store_dir_open(path, &options, &s), 0);
	CHECK_EQ(text_put(s, B, 2, 100, true, 200 * MIB), 0);
	while ((rc = text_put(s, (struct chunk_id){.block = 1, .index = count}, count, 32 * MIB,
			      false, 0)) == 0)
		count++;
	CHECK_EQ(rc, -ENOSPC);
	CHECK(count >= 10);
	store_info(s, &info);
	CHECK_EQ(info.state, STORE_FULL);
	/* Reading, fencing, sealing and deleting still work. */
	CHECK_EQ(text_get(s, (struct chunk_id){.block = 1, .index = 0}, 0, 0, 32 * MIB, 0), 0);
	CHECK_EQ(text_append(s, B, 1, 2, 100, 33 * MIB), -ENOSPC);
	CHECK_EQ(store_reserve(s, 33 * MIB), -ENOSPC);
	CHECK_EQ(store_fence(s, B, 2), 0);
	store_info(s, &info);
	CHECK_EQ(info.state, STORE_FULL);
	CHECK_EQ(store_delete(s, (struct chunk_id){.block = 1, .index = 0}), 0);
	/* info must detect the free space: callers do not write to a disk that reports full. */
	store_info(s, &info);
	CHECK_EQ(info.state, STORE_ONLINE);
	CHECK_EQ(text_append(s, B, 2, 2, 100, 20 * MIB), 0);
	CHECK_EQ(store_seal(s, B, 2, 100 + 20 * MIB), 0);
	store_close(s);
}

static void a_full_disk_returns_to_online_when_space_is_free(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, fill);
}

static void reserve_space(const char *path)
{
	struct store_info info;
	struct store_put p = {.reserved = true};
	must_format(path);
	struct store *s = must_open(path);
	store_info(s, &info);
	CHECK_EQ(store_reserve(s, (int64_t)info.free_bytes - 100000), 0);
	CHECK_EQ(text_put(s, A, 1, 200000, false, 0), -ENOSPC);
	store_info(s, &info);
	/* All space is reserved, but the disk is not full. */
	CHECK_EQ(info.state, STORE_ONLINE);
	CHECK_EQ(store_put(s, A, &p), 0);
	CHECK_EQ(text_put(s, B, 1, 1000, false, 0), 0);
	store_close(s);
}

static void reserved_space_is_used_only_with_the_reservation(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, reserve_space);
}

static void share_space(const char *path)
{
	struct store_dir_options options = fixture_options();
	struct store_info alone, part;
	struct store *s;
	must_format(path);
	options.keep_free_bytes = MIB;
	CHECK_EQ(store_dir_open(path, &options, &s), 0);
	store_info(s, &alone);
	store_close(s);
	options.sharers = 4;
	CHECK_EQ(store_dir_open(path, &options, &s), 0);
	store_info(s, &part);
	CHECK_EQ(part.total_bytes, alone.total_bytes / 4);
	CHECK_EQ(part.free_bytes, alone.free_bytes / 4);
	/* The share is only reported: any caller may use all free space. */
	CHECK_EQ(store_reserve(s, (int64_t)(alone.free_bytes / 2)), 0);
	store_close(s);
}

static void disks_that_share_a_filesystem_report_their_share(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, share_space);
}

/* A disk that is removed becomes failed; the process continues. */
static void vanish(struct script *sc, uint64_t life)
{
	struct store_info info;
	(void)life;
	struct store *s = script_open(sc, 1);
	if (s == NULL)
		return;
	uint32_t i = 0;
	int rc = 0;
	while (rc == 0)
		rc = text_put(s, (struct chunk_id){.block = 5, .index = i++}, 1, 1000, false, 0);
	CHECK_EQ(rc, -ENODEV);
	store_info(s, &info);
	CHECK_EQ(info.state, STORE_FAILED);
	CHECK_EQ(text_get(s, (struct chunk_id){.block = 5, .index = 0}, 1, 0, 1000, 0), -ENODEV);
	CHECK_EQ(text_put(s, A, 1, 10, false, 0), -ENODEV);
	store_close(s);
}

static void a_disk_that_is_removed_is_failed(void **state)
{
	(void)state;
	struct script sc = {.seed = 1, .what = "loss", .live = vanish, .may_fail = true};
	struct sim_config config;
	sim_config_init(&config, 1, 0);
	config.rate[SIM_DISK_LOSS] = 3600.0 * 2;
	script_begin(&sc, &config);
	script_finish(&sc);
	assert_true(sim_fault_count(sc.sim, SIM_DISK_LOSS) > 0);
	script_end(&sc);
}

static void unmount(const char *path)
{
	struct store_dir_options good = fixture_options();
	struct store *s;
	struct store_info info;
	struct chunk_stat st;
	char name[256];
	must_format(path);
	CHECK_EQ(store_dir_open(path, &good, &s), 0);
	CHECK_EQ(text_put(s, (struct chunk_id){.block = 1}, 1, 5000, false, 0), 0);
	CHECK_EQ(store_stat(s, (struct chunk_id){.block = 2}, &st), -ENOENT);
	snprintf(name, sizeof(name), "%s/superblock", path);
	CHECK_EQ(rt_unlink(name), 0);
	/* Not -ENOENT: the caller would take the chunk for deleted. */
	CHECK_EQ(store_stat(s, (struct chunk_id){.block = 2}, &st), -ENODEV);
	store_info(s, &info);
	CHECK_EQ(info.state, STORE_FAILED);
	CHECK_EQ(text_put(s, (struct chunk_id){.block = 3}, 1, 5000, false, 0), -ENODEV);
	store_close(s);
}

static void an_unmounted_disk_reports_no_chunk_as_absent(void **state)
{
	(void)state;
	fixture_in_real_dir(unmount);
	fixture_in_sim_dir(1, unmount);
}

/* The deadline passes during the lookup of the chunk. */
static void unmount_late(const char *path)
{
	struct store_dir_options good = fixture_options();
	struct store *s;
	struct chunk_stat st;
	char name[256];
	must_format(path);
	CHECK_EQ(store_dir_open(path, &good, &s), 0);
	snprintf(name, sizeof(name), "%s/superblock", path);
	CHECK_EQ(rt_unlink(name), 0);
	rt_deadline_set(rt_now_ns() + 100);
	CHECK_EQ(store_stat(s, (struct chunk_id){.block = 2}, &st), -ENODEV);
	rt_deadline_set(RT_NEVER);
	store_close(s);
}

static void a_late_reader_of_an_unmounted_disk_reports_no_chunk_as_absent(void **state)
{
	(void)state;
	fixture_in_sim_dir(1, unmount_late);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_disk_is_opened_only_with_its_identity),
		cmocka_unit_test(a_directory_with_files_is_not_formatted),
		cmocka_unit_test(a_superblock_with_both_copies_damaged_is_refused),
		cmocka_unit_test(a_damaged_superblock_is_rewritten_while_the_disk_is_open),
		cmocka_unit_test(the_superblock_of_another_disk_is_not_overwritten),
		cmocka_unit_test(chunks_are_there_after_opening_again),
		cmocka_unit_test(more_chunks_can_be_used_than_files_may_be_open),
		cmocka_unit_test(a_flipped_bit_is_found_in_its_unit),
		cmocka_unit_test(a_scan_returns_the_damaged_ranges),
		cmocka_unit_test(a_sealed_chunk_is_in_both_slots),
		cmocka_unit_test(a_chunk_without_an_intact_head_is_refused),
		cmocka_unit_test(a_truncated_or_foreign_file_is_refused),
		cmocka_unit_test(misdirected_sectors_are_found),
		cmocka_unit_test(stale_sectors_lose_nothing),
		cmocka_unit_test(a_full_disk_returns_to_online_when_space_is_free),
		cmocka_unit_test(reserved_space_is_used_only_with_the_reservation),
		cmocka_unit_test(disks_that_share_a_filesystem_report_their_share),
		cmocka_unit_test(a_disk_that_is_removed_is_failed),
		cmocka_unit_test(an_unmounted_disk_reports_no_chunk_as_absent),
		cmocka_unit_test(a_late_reader_of_an_unmounted_disk_reports_no_chunk_as_absent),
	};
	log_set_level(LOG_OFF);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
