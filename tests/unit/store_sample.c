// SPDX-License-Identifier: Apache-2.0
/*
 * store_sample DIRECTORY: writes a disk (DIRECTORY/disk) and a pool of five members (DIRECTORY/m0
 * to m4) with chunks of every form, and prints one line about each. test_store_format.py reads
 * them with a reader that was written from src/store/README.md alone. Exits without closing, like
 * a process that is killed.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/log.h"
#include "check.h"
#include "rt/file.h"
#include "rt/real.h"
#include "store/pool.h"
#include "store_fixture.h"

static struct store *disk_open(const char *root, const char *name, uint64_t disk)
{
	struct store_dir_options options = fixture_options();
	struct super super = fixture_super();
	struct store *s = NULL;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	options.disk = super.disk = disk;
	super.fan_bits = 3;
	CHECK_EQ(rt_mkdir(path), 0);
	CHECK_EQ(store_dir_format(path, &super), 0);
	CHECK_EQ(store_dir_open(path, &options, &s), 0);
	return s;
}

/* Prints the stat of a chunk and the number of the text it must contain. */
static void say(const char *what, struct store *s, struct chunk_id id, uint64_t text)
{
	struct chunk_stat st;

	CHECK_EQ(store_stat(s, id, &st), 0);
	CHECK_EQ(st.crc, text_crc(text, 0, st.len));
	printf("%s %llx %x %llu %08x %llu %d ", what, (unsigned long long)id.block, id.index,
	       (unsigned long long)st.len, st.crc, (unsigned long long)st.epoch, st.sealed);
	for (int i = 0; i < STORE_LABEL_BYTES; i++)
		printf("%02x", st.label[i]);
	printf("\n");
}

static void put(struct store *s, struct chunk_id id, uint64_t text, uint64_t len, bool open)
{
	uint8_t *buf = fixture_alloc(len, 0);
	struct iovec piece;
	struct store_put p = {
		.data = store_data_of(&piece, buf, len, text_crc(text, 0, len)),
		.epoch = 7,
		.open = open,
		.capacity = open ? 20 * MIB : 0,
	};

	text_fill(text, 0, buf, len);
	text_fill(text + 1000, 0, p.label, sizeof(p.label));
	CHECK_EQ(store_put(s, id, &p), 0);
	fixture_free(buf);
}

static void fill_disk(struct store *s)
{
	static const uint64_t lengths[] = {0, 1, 4095, 4096, 4097, 16384, 70000, 300001};
	for (uint32_t i = 0; i < ARRAY_LEN(lengths); i++) {
		struct chunk_id id = {.block = UINT64_C(0xfedcba9876543210) + i, .index = i * 1000};
		put(s, id, i, lengths[i], false);
		say("disk", s, id, i);
	}
	/*
	 * Open chunks: unsettled with the last state in slot 0 and in slot 1; cut by a seal; with
	 * large units.
	 */
	for (uint32_t i = 0; i < 4; i++) {
		struct chunk_id id = {.block = 50, .index = i};
		put(s, id, 50 + i, 5000, true);
		uint64_t len = 5000;
		for (uint32_t n = 0; n <= i; n++, len += 30000)
			CHECK_EQ(text_append(s, id, 7 + n, 50 + i, len, 30000), 0);
		if (i == 3)
			CHECK_EQ(store_seal(s, id, 99, 40001), 0);
		say("disk", s, id, 50 + i);
	}
}

static void fill_pool(struct store *s)
{
	static const uint64_t lengths[] = {0, 1, 12288, 24576, 50000, 123457};
	for (uint32_t i = 0; i < ARRAY_LEN(lengths); i++) {
		struct chunk_id id = {.block = 1000 + i, .index = i};
		put(s, id, 100 + i, lengths[i], false);
		say("pool", s, id, 100 + i);
	}
	for (uint32_t i = 0; i < 2; i++) {
		struct chunk_id id = {.block = 2000, .index = i};
		put(s, id, 200 + i, 5000, true);
		CHECK_EQ(text_append(s, id, 8, 200 + i, 5000, 30000), 0);
		if (i == 1)
			CHECK_EQ(store_seal(s, id, 9, 33333), 0);
		say("pool", s, id, 200 + i);
	}
}

static void sample(void *arg)
{
	const char *root = arg;
	struct store_pool_shape shape = {.id = 77,
					 .k = 3,
					 .p = 2,
					 .members = 5,
					 .place = PLACE_CLUSTERED,
					 .piece_bytes = 8192};
	struct store *m[5], *pool;
	char name[8];

	fill_disk(disk_open(root, "disk", 4));
	for (uint32_t i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "m%u", i);
		m[i] = disk_open(root, name, 10 + i);
	}
	CHECK_EQ(store_pool_format(&shape, m), 0);
	CHECK_EQ(store_pool_open_take(&shape, m, &pool), 0);
	fill_pool(pool);
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: store_sample DIRECTORY\n");
		return 2;
	}
	log_set_level(LOG_ERROR);
	return rt_real_run(NULL, sample, argv[1]) == 0 ? 0 : 1;
}
