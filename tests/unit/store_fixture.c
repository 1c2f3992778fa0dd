// SPDX-License-Identifier: Apache-2.0
#include "store_fixture.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/rng.h"
#include "rt/file.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "sim_test.h"
#include "store/fault.h"
#include "store/flash.h"
#include "store/mem.h"
#include "store/pool.h"
#include "store/pool_layout.h"
#include "store/throttle.h"

#define MEM_BYTES (512 * MIB)
#define SIM_DISK_BYTES (512 * MIB)

const char *fixture_name(enum fixture_kind kind)
{
	static const char *const names[FIXTURE_KINDS] = {
		[FIXTURE_MEM] = "mem",           [FIXTURE_FAULT] = "fault",
		[FIXTURE_THROTTLE] = "throttle", [FIXTURE_DIR_SIM] = "dir-sim",
		[FIXTURE_DIR_REAL] = "dir-real", [FIXTURE_DIR_BUFFERED] = "dir-buffered",
		[FIXTURE_POOL_MEM] = "pool-mem", [FIXTURE_POOL_DIR] = "pool-dir",
		[FIXTURE_FLASH] = "flash",
	};
	return names[kind];
}

struct super fixture_super(void)
{
	return (struct super){.cluster = {1, 2}, .node = 3, .disk = 4, .fan_bits = 2};
}

struct store_dir_options fixture_options(void)
{
	return (struct store_dir_options){.cluster = {1, 2}, .node = 3, .disk = 4};
}

/* --- worlds ----------------------------------------------------------------------------------- */

struct in_dir {
	void (*body)(const char *path);
	const char *path;
};

static void in_dir_main(void *arg)
{
	struct in_dir *in = arg;
	in->body(in->path);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void fixture_in_real_dir(void (*body)(const char *path))
{
	char path[] = "/tmp/terrane-test-store-XXXXXX";
	CHECK(mkdtemp(path) != NULL);
	struct in_dir in = {.body = body, .path = path};
	CHECK_EQ(rt_real_run(NULL, in_dir_main, &in), 0);
	CHECK_EQ(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void fixture_in_sim_dir(uint64_t seed, void (*body)(const char *path))
{
	struct in_dir in = {.body = body, .path = "/d0"};
	sim_test_run_with(&(struct sim_test){.seed = seed, .disk_bytes = SIM_DISK_BYTES},
			  in_dir_main, &in);
}

/* --- stores ----------------------------------------------------------------------------------- */

struct run {
	enum fixture_kind kind;
	void (*body)(struct store *s);
	const char *path;
};

static struct store *open_pool(const struct store_pool_shape *shape, struct store **m)
{
	struct store *s = NULL;
	CHECK_EQ(store_pool_format(shape, m), 0);
	CHECK_EQ(store_pool_open_take(shape, m, &s), 0);
	return s;
}

static struct store *open_pool_mem(void)
{
	struct store *m[9];
	for (size_t i = 0; i < ARRAY_LEN(m); i++)
		CHECK_EQ(store_mem_open(MEM_BYTES, &m[i]), 0);
	/* Small pieces, so that the chunks of tests have several stripes. */
	struct store_pool_shape shape = {.id = 77,
					 .k = 3,
					 .p = 2,
					 .members = ARRAY_LEN(m),
					 .place = PLACE_DECLUSTERED,
					 .piece_bytes = 8192};
	return open_pool(&shape, m);
}

static struct store *open_pool_dir(const char *path)
{
	struct store *m[3];
	for (uint32_t i = 0; i < ARRAY_LEN(m); i++) {
		struct store_dir_options options = fixture_options();
		struct super super = fixture_super();
		char name[256];
		snprintf(name, sizeof(name), "%s/m%u", path, i);
		options.disk = super.disk = 10 + i;
		CHECK_EQ(rt_mkdir(name), 0);
		CHECK_EQ(store_dir_format(name, &super), 0);
		CHECK_EQ(store_dir_open(name, &options, &m[i]), 0);
	}
	/* Pieces for which the CRCs of CRC_PIECE_BYTES can be used. */
	struct store_pool_shape shape = {.id = 77,
					 .k = 2,
					 .p = 1,
					 .members = ARRAY_LEN(m),
					 .place = PLACE_CLUSTERED,
					 .piece_bytes = 2 * CRC_PIECE_BYTES};
	return open_pool(&shape, m);
}

static struct store *open_flash(void)
{
	struct store_flash_options options = {.path = "/d0/cache",
					      .capacity_bytes = 64 * MIB,
					      .write_bytes_per_s = 1000 * MIB,
					      .visits = 1};
	struct store *slow, *s;
	CHECK_EQ(store_mem_open(MEM_BYTES, &slow), 0);
	CHECK_EQ(store_flash_open_take(slow, &options, &s), 0);
	return s;
}

static struct store *open_kind(const struct run *r)
{
	struct store *s = NULL, *below = NULL;
	struct store_dir_options options = fixture_options();
	struct super super = fixture_super();

	switch (r->kind) {
	case FIXTURE_MEM:
		CHECK_EQ(store_mem_open(MEM_BYTES, &s), 0);
		break;
	case FIXTURE_FAULT:
		CHECK_EQ(store_mem_open(MEM_BYTES, &below), 0);
		CHECK_EQ(store_fault_open_take(below, &s), 0);
		break;
	case FIXTURE_THROTTLE:
		CHECK_EQ(store_mem_open(MEM_BYTES, &below), 0);
		CHECK_EQ(store_throttle_open_take(below, &drive_nvme, &s), 0);
		break;
	case FIXTURE_DIR_BUFFERED:
		options.buffered = true;
		/* fall through */
	case FIXTURE_DIR_SIM:
	case FIXTURE_DIR_REAL:
		CHECK_EQ(store_dir_format(r->path, &super), 0);
		CHECK_EQ(store_dir_open(r->path, &options, &s), 0);
		break;
	case FIXTURE_POOL_MEM:
		s = open_pool_mem();
		break;
	case FIXTURE_POOL_DIR:
		s = open_pool_dir(r->path);
		break;
	case FIXTURE_FLASH:
		s = open_flash();
		break;
	case FIXTURE_KINDS:
		break;
	}
	return s;
}

static void run_main(void *arg)
{
	struct run *r = arg;
	struct store *s = open_kind(r);
	r->body(s);
	store_close(s);
}

static void run_real(struct run *r)
{
	char path[] = "/tmp/terrane-test-store-XXXXXX";
	CHECK(mkdtemp(path) != NULL);
	r->path = path;
	CHECK_EQ(rt_real_run(NULL, run_main, r), 0);
	CHECK_EQ(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void fixture_run(enum fixture_kind kind, void (*body)(struct store *s))
{
	struct run r = {.kind = kind, .body = body, .path = "/d0"};

	if (kind == FIXTURE_DIR_REAL || kind == FIXTURE_DIR_BUFFERED)
		run_real(&r);
	else
		sim_test_run_with(&(struct sim_test){.disk_bytes = SIM_DISK_BYTES}, run_main, &r);
}

/* --- texts ------------------------------------------------------------------------------------ */

void text_fill(uint64_t text, uint64_t off, void *buf, uint64_t len)
{
	uint8_t *out = buf;

	while (len > 0) {
		uint64_t word = mix_u64(text * 0x9e3779b97f4a7c15ULL + off / 8 + 1);
		unsigned at = (unsigned)(off % 8);
		uint64_t n = min_u64(len, 8 - at);
		memcpy(out, (uint8_t *)&word + at, n);
		out += n;
		off += n;
		len -= n;
	}
}

bool text_is(uint64_t text, uint64_t off, const void *buf, uint64_t len)
{
	uint8_t want[4096];

	for (uint64_t at = 0; at < len; at += sizeof(want)) {
		uint64_t n = min_u64(sizeof(want), len - at);
		text_fill(text, off + at, want, n);
		if (memcmp(want, (const uint8_t *)buf + at, n) != 0)
			return false;
	}
	return true;
}

uint32_t text_crc(uint64_t text, uint64_t off, uint64_t len)
{
	uint8_t bytes[4096];
	uint32_t crc = 0;

	for (uint64_t at = 0; at < len; at += sizeof(bytes)) {
		uint64_t n = min_u64(sizeof(bytes), len - at);
		text_fill(text, off + at, bytes, n);
		crc = crc32c(crc, bytes, n);
	}
	return crc;
}

uint8_t *fixture_alloc(uint64_t len, unsigned skew)
{
	uint8_t *base = aligned_alloc(4096, (len + skew + 4096 + 4095) / 4096 * 4096);
	CHECK(base != NULL);
	return base + skew;
}

void fixture_free(uint8_t *buf)
{
	free((void *)((uintptr_t)buf & ~(uintptr_t)4095));
}

int text_put(struct store *s, struct chunk_id id, uint64_t text, uint64_t len, bool open,
	     uint64_t capacity)
{
	uint8_t *buf = fixture_alloc(len, 0);
	struct iovec piece;
	text_fill(text, 0, buf, len);
	struct store_put p = {
		.data = store_data_of(&piece, buf, len, crc32c(0, buf, len)),
		.epoch = 1,
		.open = open,
		.capacity = capacity,
	};
	int rc = store_put(s, id, &p);
	fixture_free(buf);
	return rc;
}

void text_over_records(struct store *member)
{
	for (uint32_t slot = 0; slot < 2; slot++) {
		struct chunk_id id = {.block = POOL_RECORD_BLOCK, .index = slot};
		int rc = store_delete(member, id);
		CHECK(rc == 0 || rc == -ENOENT);
		CHECK_EQ(text_put(member, id, slot, POOL_RECORD_BYTES, false, 0), 0);
	}
}

int text_append(struct store *s, struct chunk_id id, uint64_t epoch, uint64_t text, uint64_t off,
		uint64_t len)
{
	uint8_t *buf = fixture_alloc(len, 0);
	struct iovec piece;
	text_fill(text, off, buf, len);
	struct store_data data = store_data_of(&piece, buf, len, crc32c(0, buf, len));
	int rc = store_append(s, id, epoch, off, &data);
	fixture_free(buf);
	return rc;
}

int text_get(struct store *s, struct chunk_id id, uint64_t text, uint64_t off, uint64_t len,
	     unsigned skew)
{
	uint8_t *buf = fixture_alloc(len, skew);
	uint32_t crc = 0;
	int rc = store_get(s, id, off, buf, len, &crc);
	if (rc == 0) {
		CHECK(text_is(text, off, buf, len));
		CHECK_EQ(crc, crc32c(0, buf, len));
	}
	fixture_free(buf);
	return rc;
}
