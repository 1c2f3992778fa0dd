// SPDX-License-Identifier: Apache-2.0
/*
 * ./dev bench store [DIRECTORY [PART]]: compares a disk with fio on the same filesystem, in turns;
 * measures a disk with a million chunks; and how fast pools rebuild, in simulated time. Needs 4
 * GiB below DIRECTORY (default build/bench-store), which is removed afterwards. PART is the
 * measurement to run: reads, puts, appends, million or rebuild.
 */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../tests/unit/rebuild_fixture.h"
#include "base/base.h"
#include "base/crc.h"
#include "base/log.h"
#include "base/rng.h"
#include "fio.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "store/dir.h"
#include "table.h"

#define ROUNDS 5
#define CHUNK_BYTES (8 * MIB)
#define READ_CHUNKS 128
#define APPEND_BYTES (64 * KIB)
#define FLOWS_MAX 8

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "bench_store: %s failed\n", what);
	exit(1);
}

static double now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double cpu_s(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* --- a disk ------------------------------------------------------------------------------------- */

static struct store *disk_open(const char *path, uint32_t fan_bits, bool format)
{
	struct super super = {.cluster = {1, 2}, .node = 3, .disk = 4, .fan_bits = fan_bits};
	struct store_dir_options options = {.cluster = {1, 2}, .node = 3, .disk = 4};
	struct store *s = NULL;

	if (format) {
		must(mkdir(path, 0755) == 0, "making a directory");
		must(store_dir_format(path, &super) == 0, "formatting");
	}
	must(store_dir_open(path, &options, &s) == 0, "opening a disk");
	return s;
}

enum what { READ_CHUNK, READ_RANDOM, PUT, APPEND };

struct load {
	enum what what;
	struct store *s;
	int flows;      /* concurrent callers */
	uint64_t calls; /* calls of all flows */
	uint64_t made;  /* chunks created so far, in all rounds */
	const uint8_t *bytes;
	uint32_t chunk_crc, append_crc;
};

struct flow {
	struct load *load;
	struct rng rng;
	uint8_t *buf;
	struct chunk_id open;
	uint64_t open_len;
};

static void read_one(struct flow *f, uint64_t len)
{
	struct chunk_id id = {.block = rng_below(&f->rng, READ_CHUNKS)};
	uint64_t off = rng_below(&f->rng, CHUNK_BYTES / len) * len;
	uint32_t crc;

	must(store_get(f->load->s, id, off, f->buf, len, &crc) == 0, "a read");
}

static void put_one(struct flow *f, uint64_t len, bool open)
{
	struct load *l = f->load;
	struct iovec piece;
	struct store_put put = {
		.data = store_data_of(&piece, l->bytes, len, len > 0 ? l->chunk_crc : 0),
		.epoch = 1,
		.open = open,
		.capacity = open ? CHUNK_BYTES : 0,
	};

	f->open = (struct chunk_id){.block = 1000 + l->made++, .index = (uint32_t)l->what};
	f->open_len = len;
	must(store_put(l->s, f->open, &put) == 0, "a put");
}

static void append_one(struct flow *f)
{
	struct iovec piece;
	struct store_data data =
		store_data_of(&piece, f->load->bytes, APPEND_BYTES, f->load->append_crc);

	if (f->open_len == 0 || f->open_len == CHUNK_BYTES)
		put_one(f, 0, true);
	must(store_append(f->load->s, f->open, 1, f->open_len, &data) == 0, "an append");
	f->open_len += APPEND_BYTES;
}

static void flow_run(void *arg)
{
	struct flow *f = arg;
	struct load *l = f->load;

	while (l->calls > 0) {
		l->calls--;
		switch (l->what) {
		case READ_CHUNK:
			read_one(f, CHUNK_BYTES);
			break;
		case READ_RANDOM:
			read_one(f, MIB);
			break;
		case PUT:
			put_one(f, CHUNK_BYTES, false);
			break;
		case APPEND:
			append_one(f);
			break;
		}
	}
}

/* Makes the calls; returns bytes per second. */
static double load_run(struct load *l, uint64_t calls, uint64_t call_bytes, uint64_t seed)
{
	struct flow flows[FLOWS_MAX] = {0};
	struct rt_group g;
	double start = now_s();

	l->calls = calls;
	rt_group_init(&g);
	for (int i = 0; i < l->flows; i++) {
		flows[i].load = l;
		rng_init(&flows[i].rng, seed * FLOWS_MAX + (uint64_t)i);
		flows[i].buf = aligned_alloc(4096, CHUNK_BYTES);
		must(flows[i].buf != NULL, "memory");
		must(rt_group_spawn(&g, "flow", flow_run, &flows[i]) == 0, "a fiber");
	}
	rt_group_join(&g);
	double rate = (double)(calls * call_bytes) / (now_s() - start);
	for (int i = 0; i < l->flows; i++)
		free(flows[i].buf);
	return rate;
}

/* Deletes the chunks of puts and appends to make room for the next round. */
static void load_clear(struct load *l)
{
	for (uint64_t i = 0; i < l->made; i++)
		store_delete(l->s,
			     (struct chunk_id){.block = 1000 + i, .index = (uint32_t)l->what});
}

/* --- beside fio --------------------------------------------------------------------------------- */

struct contest {
	const char *name;
	enum what what;
	int flows;
	uint64_t calls;
	uint64_t call_bytes;
	double target;
	const char *fio[12];
};

static void contest_run(struct load *l, const struct contest *c, const char *root)
{
	double ours[ROUNDS], fio[ROUNDS], ratio[ROUNDS], cpu[ROUNDS];
	const char *args[16] = {0};
	char where[160], name[96];
	bool write = c->what == PUT || c->what == APPEND;
	int n = 0;

	snprintf(where, sizeof(where), write ? "--directory=%s/fio" : "--filename=%s/fio/read",
		 root);
	args[n++] = where;
	for (int i = 0; c->fio[i] != NULL; i++)
		args[n++] = c->fio[i];
	l->what = c->what;
	l->flows = c->flows;
	for (int r = 0; r < ROUNDS; r++) {
		fio[r] = fio_bytes_per_s(args, write);
		must(fio[r] > 0, "fio (is it installed?)");
		l->made = 0;
		double cpu_before = cpu_s();
		ours[r] = load_run(l, c->calls, c->call_bytes, (uint64_t)r + 1);
		cpu[r] =
			(cpu_s() - cpu_before) / ((double)(c->calls * c->call_bytes) / (double)GIB);
		ratio[r] = ours[r] / fio[r];
		load_clear(l);
	}
	snprintf(name, sizeof(name), "%s, to fio", c->name);
	table_row(name, median(ratio, ROUNDS), "times", c->target, false,
		  "median of ratios, round by round");
	snprintf(name, sizeof(name), "%s", c->name);
	table_row(name, median(ours, ROUNDS) / (double)MIB, "MiB/s", 0, false, "");
	snprintf(name, sizeof(name), "%s: fio", c->name);
	table_row(name, median(fio, ROUNDS) / (double)MIB, "MiB/s", 0, false, "");
	snprintf(name, sizeof(name), "%s: CPU", c->name);
	table_row(name, median(cpu, ROUNDS), "s/GiB", 0, false, "");
}

/* For writes fio runs a job per flow, because within a job it syncs after every write. */
static const struct contest contests[] = {
	{"8 MiB reads, 4 at a time",
	 READ_CHUNK,
	 4,
	 256,
	 CHUNK_BYTES,
	 0.9,
	 {"--rw=randread", "--bs=8M", "--iodepth=4", "--size=1G", "--io_size=2G", NULL}},
	{"1 MiB random reads, 8 at a time",
	 READ_RANDOM,
	 8,
	 2048,
	 MIB,
	 0.9,
	 {"--rw=randread", "--bs=1M", "--iodepth=8", "--size=1G", "--io_size=2G", NULL}},
	{"8 MiB puts with fdatasync, 4 at a time",
	 PUT,
	 4,
	 64,
	 CHUNK_BYTES,
	 0.85,
	 {"--rw=write", "--bs=8M", "--iodepth=1", "--numjobs=4", "--size=128M", "--nrfiles=16",
	  "--file_service_type=sequential", "--create_on_open=1", "--fallocate=none",
	  "--fdatasync=1", "--unlink=1"}},
	{"64 KiB appends with fdatasync, 4 at a time",
	 APPEND,
	 4,
	 2048,
	 APPEND_BYTES,
	 0.85,
	 {"--rw=write", "--bs=64k", "--iodepth=1", "--numjobs=4", "--size=32M", "--nrfiles=4",
	  "--file_service_type=sequential", "--create_on_open=1", "--fallocate=none",
	  "--fdatasync=1", "--unlink=1"}},
};

static bool is_wanted(const char *part, const char *name)
{
	return part == NULL || strstr(name, part) != NULL;
}

static void beside_fio(const char *root, const char *part)
{
	char path[128], file[160];
	uint8_t *bytes = aligned_alloc(4096, CHUNK_BYTES);
	struct rng rng;
	must(bytes != NULL, "memory");
	rng_init(&rng, 1);
	for (uint64_t i = 0; i < CHUNK_BYTES; i += 8) {
		uint64_t word = rng_u64(&rng);
		memcpy(bytes + i, &word, 8);
	}
	snprintf(path, sizeof(path), "%s/fio", root);
	must(mkdir(path, 0755) == 0, "making a directory");
	snprintf(file, sizeof(file), "--filename=%s/fio/read", root);
	const char *lay[] = {file, "--rw=write", "--bs=8M", "--size=1G", "--end_fsync=1", NULL};
	must(fio_bytes_per_s(lay, true) > 0, "fio (is it installed?)");
	snprintf(path, sizeof(path), "%s/disk", root);
	struct load l = {.s = disk_open(path, 6, true),
			 .bytes = bytes,
			 .chunk_crc = crc32c(0, bytes, CHUNK_BYTES),
			 .append_crc = crc32c(0, bytes, APPEND_BYTES)};
	struct iovec piece;
	struct store_put put = {.data = store_data_of(&piece, bytes, CHUNK_BYTES, l.chunk_crc)};
	for (uint64_t i = 0; i < READ_CHUNKS; i++)
		must(store_put(l.s, (struct chunk_id){.block = i}, &put) == 0, "a put");
	for (size_t i = 0; i < ARRAY_LEN(contests); i++)
		if (is_wanted(part, contests[i].name))
			contest_run(&l, &contests[i], root);
	store_close(l.s);
	free(bytes);
}

/* --- a million chunks --------------------------------------------------------------------------- */

#define MILLION 1000000
#define LINKS_MAX 60000 /* ext4 allows 65000 links to a file */
#define FAN_BITS 12

static double rss_bytes(void)
{
	char line[128] = "";
	FILE *f = fopen("/proc/self/statm", "r");
	must(f != NULL && fgets(line, sizeof(line), f) != NULL, "reading statm");
	fclose(f);
	/* The second number is the resident size, the first the mapped one. */
	char *resident = strchr(line, ' ');
	must(resident != NULL, "reading statm");
	return (double)strtol(resident, NULL, 10) * (double)sysconf(_SC_PAGESIZE);
}

static void path_of(char *out, size_t size, const char *disk, struct chunk_id id)
{
	char name[CHUNK_NAME_BYTES];
	chunk_name_print(id, name);
	snprintf(out, size, "%s/chunks/%03x/%s", disk, chunk_fan(id, FAN_BITS), name);
}

/*
 * Opening and listing only read names, so most names are links to a few chunks: creating a million
 * files would take longer than all measurements.
 */
static void make_million(const char *disk)
{
	char from[256] = "", to[256];
	struct store *s = disk_open(disk, FAN_BITS, true);
	struct store_put put = {.epoch = 1};

	for (uint32_t i = 0; i < MILLION; i++) {
		struct chunk_id id = {.block = i / 16, .index = i % 16};
		if (i % LINKS_MAX == 0) {
			must(store_put(s, id, &put) == 0, "a put");
			path_of(from, sizeof(from), disk, id);
			continue;
		}
		path_of(to, sizeof(to), disk, id);
		must(link(from, to) == 0, "a link");
	}
	store_close(s);
}

static void a_million(const char *root)
{
	char path[128];
	struct chunk_id ids[256];
	struct store_cursor at = {0};
	int64_t n, count = 0;

	snprintf(path, sizeof(path), "%s/million", root);
	make_million(path);
	/* Do not measure the writing of the links. */
	sync();
	double rss = rss_bytes(), start = now_s();
	struct store *s = disk_open(path, FAN_BITS, false);
	table_row("open a disk with 1,000,000 chunks", now_s() - start, "s", 10, true,
		  "names cached");
	table_row("the same, memory for each chunk", (rss_bytes() - rss) / MILLION, "bytes", 0,
		  false, "growth of RSS");
	start = now_s();
	while ((n = store_list(s, &at, ids, ARRAY_LEN(ids))) > 0)
		count += n;
	must(n == 0 && count == MILLION, "listing a million chunks");
	table_row("list them all", now_s() - start, "s", 0, false, "");
	table_row("RSS then", rss_bytes() / (double)MIB, "MiB", 0, false, "the whole process");
	store_close(s);
}

/* --- rebuilds ----------------------------------------------------------------------------------- */

static void rebuilds(void)
{
	struct rebuild_fixture clustered = {.place = PLACE_CLUSTERED,
					    .drive = &drive_hdd,
					    .rows = 1000,
					    .row_bytes = 32768,
					    .scale = 64,
					    .parallel = 24};
	struct rebuild_fixture declustered = {.place = PLACE_DECLUSTERED,
					      .drive = &drive_hdd,
					      .rows = 4000,
					      .row_bytes = 32768,
					      .scale = 64,
					      .parallel = 128};
	struct rebuild_fixture overlap = declustered;
	double predicted =
		(REBUILD_FIXTURE_MEMBERS - 1.0) / (REBUILD_FIXTURE_K + REBUILD_FIXTURE_P);

	overlap.place = PLACE_OVERLAP;
	rebuild_fixture_run(&clustered);
	rebuild_fixture_run(&declustered);
	rebuild_fixture_run(&overlap);
	table_row("rebuild 4+1, 40 disks, clustered", clustered.rows_per_s, "rows/s", 0, false,
		  "rows of 2 MiB, emulated 7,200 rpm drives");
	table_row("rebuild, declustered", declustered.rows_per_s, "rows/s", 0, false, "");
	table_row("rebuild, single-overlap", overlap.rows_per_s, "rows/s", 0, false, "");
	table_row("predicted speed-up of declustered", predicted, "times", 0, false,
		  "(n - 1) / (k + 1)");
	table_row("speed-up of declustered, to predicted",
		  declustered.rows_per_s / clustered.rows_per_s / predicted, "times", 0.85, false,
		  "");
	table_row("speed-up of single-overlap", overlap.rows_per_s / clustered.rows_per_s, "times",
		  0, false, "");
}

/* --- all ---------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

struct wish {
	const char *root, *part;
};

static void on_disk(void *arg)
{
	const struct wish *w = arg;
	if (is_wanted(w->part, "reads puts appends"))
		beside_fio(w->root, w->part);
	if (is_wanted(w->part, "million"))
		a_million(w->root);
}

int main(int argc, char **argv)
{
	const char *root = argc > 1 ? argv[1] : "build/bench-store";
	struct wish wish = {.root = root, .part = argc > 2 ? argv[2] : NULL};

	log_set_level(LOG_ERROR);
	/*
	 * The store and fio get the same priority, so that other work on a shared machine disturbs
	 * both equally.
	 */
	errno = 0;
	if (nice(-20) == -1 && errno != 0)
		fprintf(stderr, "bench_store: cannot raise the priority (nice -20): other load "
				"affects the results\n");
	nftw(root, remove_one, 32, FTW_DEPTH | FTW_PHYS);
	must(mkdir(root, 0755) == 0, "making the directory");
	table_begin("store");
	must(rt_real_run(NULL, on_disk, &wish) == 0, "the runtime");
	nftw(root, remove_one, 32, FTW_DEPTH | FTW_PHYS);
	if (is_wanted(wish.part, "rebuild"))
		rebuilds();
	return table_end();
}
