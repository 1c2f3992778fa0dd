// SPDX-License-Identifier: Apache-2.0
/*
 * ./dev bench cache [DIRECTORY]: the engine of the flash cache: hits in DRAM beside rpc, hits on flash beside fio, what is
 * written, how fast a restart rebuilds the index, and memory. Needs 8 GiB below DIRECTORY (default build/bench-cache),
 * which is removed afterwards.
 */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/crc.h"
#include "base/log.h"
#include "base/rng.h"
#include "cache/core.h"
#include "cache/engine.h"
#include "fio.h"
#include "rpc_load.h"
#include "rt/file.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "table.h"

#define ROUNDS 5
#define FLOWS 8
#define FLASH_BYTES (2 * GIB)
#define DRAM_BYTES (128 * MIB)
#define SEGMENT (256 * KIB)
#define BLOCK_BYTES (64 * MIB)
#define BLOCKS 24
#define DRAM_CALLS 6000
#define FLASH_CALLS 4000
#define RESTART_REGIONS 15000u
#define RESTART_SEGMENTS 64u /* of a region, as with 16 MiB and segments of 256 KiB */
#define RESTART_SEGMENT_BYTES 4096u
#define TB_REGIONS (1e12 / (16.0 * 1048576))

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "bench_cache: %s failed\n", what);
	exit(1);
}

static double now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- gets ---- */

struct source {
	const uint8_t *bytes; /* of a segment */
	uint32_t crc;
};

static int fetch(void *arg, uint64_t off, uint64_t len, uint8_t *to, uint64_t *got, uint32_t *crcs)
{
	const struct source *s = arg;
	(void)off;
	for (uint64_t at = 0; at < len; at += SEGMENT) {
		memcpy(to + at, s->bytes, SEGMENT);
		crcs[at / SEGMENT] = s->crc;
	}
	*got = len;
	return 0;
}

struct load {
	struct cache_engine *e;
	struct source source;
	uint64_t calls, bytes, blocks;
};

struct flow {
	struct load *load;
	struct rng rng;
	uint8_t *buf;
};

static struct cache_get get_of(uint64_t block, uint64_t off, uint64_t len)
{
	return (struct cache_get){.name = {.block = block},
				  .off = off,
				  .len = len,
				  .bucket = 1,
				  .position = CACHE_NONE,
				  .job = CACHE_NONE};
}

static void flow_run(void *arg)
{
	struct flow *f = arg;
	struct load *l = f->load;
	uint32_t crc;
	while (l->calls > 0) {
		l->calls--;
		uint64_t off = rng_below(&f->rng, BLOCK_BYTES / l->bytes) * l->bytes;
		struct cache_get g = get_of(1 + rng_below(&f->rng, l->blocks), off, l->bytes);
		int rc = cache_engine_get(l->e, &g, fetch, &l->source, f->buf, &crc);
		must(rc == 0, "a get");
	}
}

/* Makes the gets; returns bytes per second. */
static double load_run(struct load *l, uint64_t calls, uint64_t seed)
{
	struct flow flows[FLOWS] = {0};
	struct rt_group g;
	double start = now_s();
	l->calls = calls;
	rt_group_init(&g);
	for (int i = 0; i < FLOWS; i++) {
		flows[i].load = l;
		rng_init(&flows[i].rng, seed * FLOWS + (uint64_t)i);
		flows[i].buf = aligned_alloc(4096, l->bytes);
		must(flows[i].buf != NULL, "memory");
		must(rt_group_spawn(&g, "flow", flow_run, &flows[i]) == 0, "a fiber");
	}
	rt_group_join(&g);
	double rate = (double)(calls * l->bytes) / (now_s() - start);
	for (int i = 0; i < FLOWS; i++)
		free(flows[i].buf);
	return rate;
}

static void fill(struct load *l, uint64_t blocks)
{
	uint32_t crc;
	for (uint64_t b = 1; b <= blocks; b++)
		for (uint64_t off = 0; off < BLOCK_BYTES; off += 4 * MIB) {
			struct cache_get g = get_of(b, off, 4 * MIB);
			must(cache_engine_fill(l->e, &g, fetch, &l->source, NULL, &crc) == 0,
			     "a fill");
		}
	cache_engine_settle(l->e);
}

/* ---- hits ---- */

static double rpc_rate(void)
{
	struct rpc_load rpc;
	must(rpc_load_run(&rpc) == 0, "rpc over loopback");
	return rpc.bulk_bytes_per_s;
}

struct bench {
	const char *root;
	double rpc[ROUNDS];
	uint8_t *bytes;
};

static void bench_dram(struct load *l, const double *rpc)
{
	double rate[ROUNDS], ratio[ROUNDS];
	l->blocks = 1;
	l->bytes = MIB;
	fill(l, 1);
	(void)load_run(l, 100, 1);
	struct cache_engine_stats before, after;
	cache_engine_stats(l->e, &before);
	for (int r = 0; r < ROUNDS; r++) {
		rate[r] = load_run(l, DRAM_CALLS, 2 + (uint64_t)r);
		ratio[r] = rate[r] / rpc[r];
	}
	cache_engine_stats(l->e, &after);
	must(after.flash_bytes == before.flash_bytes, "staying in DRAM");
	table_row("hits in DRAM, 1 MiB, to rpc's bulk rate", median(ratio, ROUNDS), "times", 0.8,
		  false, "rpc over loopback: 1 MiB, 8 in flight, of `./dev bench rt`");
	table_row("the same in bytes", median(rate, ROUNDS) / (double)GIB, "GiB/s", 0, false,
		  "one core; checksums compared, bytes copied");
}

static void bench_flash(struct load *l, const char *root)
{
	char file[512];
	const char *const random[] = {"--rw=randread", "--bs=256k",    "--iodepth=8", "--size=1g",
				      "--runtime=2",   "--time_based", file,          NULL};
	double ours[ROUNDS], fio[ROUNDS], ratio[ROUNDS];
	struct cache_engine_stats before, after;
	snprintf(file, sizeof(file), "--filename=%s/fio", root);
	l->blocks = BLOCKS;
	l->bytes = SEGMENT;
	fill(l, BLOCKS); /* what was in DRAM is missing */
	cache_engine_stats(l->e, &before);
	for (int r = 0; r < ROUNDS; r++) {
		fio[r] = fio_bytes_per_s(random, false);
		ours[r] = load_run(l, FLASH_CALLS, 50 + (uint64_t)r);
		ratio[r] = fio[r] > 0 ? ours[r] / fio[r] : 0;
	}
	cache_engine_stats(l->e, &after);
	double all = ROUNDS * (double)FLASH_CALLS * (double)SEGMENT;
	table_row("hits on flash, 256 KiB, to fio", median(ratio, ROUNDS), "times", 0.85, false,
		  "fio randread, O_DIRECT, 8 in flight, rounds in turns");
	table_row("the same in bytes", median(ours, ROUNDS) / (double)MIB, "MiB/s", 0, false, "");
	table_row("fio", median(fio, ROUNDS) / (double)MIB, "MiB/s", 0, false, "");
	table_row("of these gets served by the device",
		  (double)(after.flash_bytes - before.flash_bytes) / all, "", 0, false,
		  "the rest from DRAM");
}

/* ---- restart ---- */

/* Writes a device whose regions all have footers, as full caches have them. */
static void write_footers(const char *path, const struct cache_volume *v)
{
	uint64_t len = cache_footer_bytes(v->region_segments);
	struct cache_entry *entries = calloc(v->region_segments, sizeof(*entries));
	uint8_t *footer = aligned_alloc(4096, len);
	struct rt_file *f;
	must(entries != NULL && footer != NULL, "memory");
	must(rt_file_open(&f, path, RT_WRITE) == 0, "opening the device");
	for (uint32_t r = 0; r < v->regions; r++) {
		struct cache_footer head = {.region = r,
					    .seal = 1 + mix_u64(r) % 1000000007,
					    .bucket_id = r % 50,
					    .segments = v->region_segments};
		for (uint32_t i = 0; i < v->region_segments; i++)
			entries[i] = (struct cache_entry){
				.key = cache_key(mix_u64(r + 1), i), .sum = r + i, .used = 1};
		cache_footer_encode(v, &head, entries, footer);
		uint64_t at =
			cache_region_at(v, r) + (uint64_t)v->segment_bytes * v->region_segments;
		must(rt_file_write(f, footer, len, at) == 0, "writing a footer");
	}
	must(rt_file_sync(f) == 0, "syncing the device");
	rt_file_close(f);
	free(entries);
	free(footer);
}

static void bench_restart(const char *root)
{
	char path[512];
	double seconds[ROUNDS];
	uint8_t page[CACHE_PAGE_BYTES];
	struct cache_engine *e;
	struct cache_volume v = {.segment_bytes = RESTART_SEGMENT_BYTES,
				 .region_segments = RESTART_SEGMENTS,
				 .regions = RESTART_REGIONS};
	struct rt_file *f;
	snprintf(path, sizeof(path), "%s/restart", root);
	const struct cache_engine_options o = {.path = path,
					       .flash_bytes = cache_volume_bytes(&v),
					       .segment_bytes = RESTART_SEGMENT_BYTES,
					       .region_bytes =
						       RESTART_SEGMENT_BYTES * RESTART_SEGMENTS};
	must(cache_engine_open(&e, &o) == 0, "formatting");
	cache_engine_close(e);
	must(rt_file_open(&f, path, RT_READ) == 0 &&
		     rt_file_read(f, page, sizeof(page), 0) == sizeof(page) &&
		     cache_super_decode(page, sizeof(page), &v) == 0,
	     "reading the superblock");
	rt_file_close(f);
	write_footers(path, &v);
	struct cache_engine_stats st = {0};
	for (int r = 0; r < ROUNDS; r++) {
		must(cache_engine_open(&e, &o) == 0, "opening again");
		cache_engine_stats(e, &st);
		cache_engine_close(e);
		must(st.restored == (uint64_t)RESTART_REGIONS * RESTART_SEGMENTS, "restoring");
		seconds[r] = (double)st.restore_ns / 1e9;
	}
	double rate = RESTART_REGIONS / median(seconds, ROUNDS);
	table_row("restart: regions read and indexed", rate, "/s", 0, false,
		  "64 segments each, direct reads of 4 KiB, 32 in flight");
	table_row("restart of 1 TB with regions of 16 MiB", TB_REGIONS / rate, "s", 10, true,
		  "extrapolated from 15,000 regions");
	table_row("memory of a million segments on flash",
		  (double)st.memory_bytes / (double)st.segments_max * 1e6 / (double)MIB, "MiB",
		  33e6 / (double)MIB, true, "index, entries, regions");
}

/* ---- all ---- */

static void bench_all(void *arg)
{
	struct bench *b = arg;
	char path[512];
	struct load l = {.source = {.bytes = b->bytes, .crc = crc32c(0, b->bytes, SEGMENT)}};
	snprintf(path, sizeof(path), "%s/cache", b->root);
	struct cache_engine_stats st;
	struct cache_engine_options o = {
		.path = path, .flash_bytes = FLASH_BYTES, .dram_bytes = DRAM_BYTES};
	must(cache_engine_open(&l.e, &o) == 0, "opening the cache");
	bench_dram(&l, b->rpc);
	l.blocks = BLOCKS;
	fill(&l, BLOCKS);
	cache_engine_stats(l.e, &st);
	table_row("written to the device, to segments written",
		  (double)st.device_bytes / (double)st.segment_bytes, "times", 1.05, true, "");
	cache_engine_close(l.e);
	/* Again, with so little DRAM that reads come from flash. */
	o.dram_bytes = 0;
	must(cache_engine_open(&l.e, &o) == 0, "opening the cache again");
	bench_flash(&l, b->root);
	cache_engine_close(l.e);
	bench_restart(b->root);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

int main(int argc, char **argv)
{
	struct bench b = {.root = argc > 1 ? argv[1] : "build/bench-cache"};
	must(mkdir(b.root, 0755) == 0 || errno == EEXIST, "making the directory");
	b.bytes = aligned_alloc(4096, SEGMENT);
	must(b.bytes != NULL, "memory");
	for (uint64_t i = 0; i < SEGMENT; i++)
		b.bytes[i] = (uint8_t)mix_u64(i);
	log_set_level(LOG_ERROR);
	for (int r = 0; r < ROUNDS; r++)
		b.rpc[r] = rpc_rate();
	table_begin("the engine of the flash cache");
	must(rt_real_run(NULL, bench_all, &b) == 0, "running");
	free(b.bytes);
	(void)nftw(b.root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return table_end();
}
