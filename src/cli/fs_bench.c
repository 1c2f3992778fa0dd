// SPDX-License-Identifier: Apache-2.0
/*
 * bench: measures the throughput of one client through the library. Each kind prints a rate, latencies and the processor
 * time of this process.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/rng.h"
#include "cli/fs_bench.h"

#define WRITE_PIECE ((size_t)(4 * MIB))
#define PACK_FILES 500

int bench_begin(struct bench *b, struct fs *fs, const char *kind, const char *path, size_t ops)
{
	*b = (struct bench){.fs = fs, .kind = kind, .path = path, .ops_room = ops};
	b->took = calloc(ops, sizeof(*b->took));
	b->start = fs_clock();
	b->cpu = fs_cpu();
	return b->took != NULL ? 0 : -ENOMEM;
}

void bench_op(struct bench *b, double since)
{
	if (b->ops < b->ops_room)
		b->took[b->ops++] = fs_clock() - since;
}

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double quantile_ms(const struct bench *b, double q)
{
	if (b->ops == 0)
		return 0;
	size_t i = (size_t)(q * (double)b->ops);
	return 1000 * b->took[i < b->ops ? i : b->ops - 1];
}

unsigned bench_create_flags(const struct fs *fs)
{
	return fs->flags.replace ? TERRANE_REPLACE : 0;
}

static int bench_fail(struct bench *b, int64_t rc)
{
	char shown[FS_PATH_MAX];
	if (rc != -EEXIST)
		return fs_fail(&b->fs->error, rc, "cannot bench", b->kind);
	return cli_fail("cannot bench %s: files of its names exist in %s; choose another path, or "
			"replace them with --replace",
			b->kind, fs_show(shown, b->path));
}

/* Returns the mean number of operations in flight: the sum of their durations over the duration of the bench. */
static double mean_in_flight(const struct bench *b, double seconds)
{
	double sum = 0;
	for (size_t i = 0; i < b->ops; i++)
		sum += b->took[i];
	return sum / seconds;
}

int bench_end(struct bench *b, int64_t rc)
{
	double seconds = fs_clock() - b->start, cpu = fs_cpu() - b->cpu;
	double cpu_us = b->ops > 0 ? 1e6 * cpu / (double)b->ops : 0;
	int status = CLI_OK;
	if (rc < 0) {
		status = bench_fail(b, rc);
	} else {
		qsort(b->took, b->ops, sizeof(*b->took), by_time);
		double per_s = (double)b->ops / seconds, mib_s = (double)b->bytes / seconds / MIB;
		if (b->fs->flags.json) {
			AUTO_JSON json_t *root = json_pack(
				"{s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
				"bench", b->kind, "ops", (json_int_t)b->ops, "bytes",
				(json_int_t)b->bytes, "seconds", seconds, "ops_per_s", per_s,
				"mib_per_s", mib_s, "p50_ms", quantile_ms(b, 0.5), "p99_ms",
				quantile_ms(b, 0.99), "p999_ms", quantile_ms(b, 0.999),
				"client_cpu_s", cpu, "client_cpu_us_per_op", cpu_us, "in_flight",
				mean_in_flight(b, seconds));
			json_emit(stdout, root);
		} else {
			printf("%-14s %8.1f MiB/s  %9.0f ops/s  p50 %.2f ms  p99 %.2f ms  "
			       "in flight %.1f  cpu %.2f s, %.1f us each\n",
			       b->kind, mib_s, per_s, quantile_ms(b, 0.5), quantile_ms(b, 0.99),
			       mean_in_flight(b, seconds), cpu, cpu_us);
		}
	}
	free(b->took);
	return status;
}

void *bench_bytes(size_t len)
{
	struct rng rng;
	uint8_t *bytes = malloc(len);
	rng_init(&rng, 7);
	if (bytes != NULL)
		rng_fill(&rng, bytes, len);
	return bytes;
}

/* --- one large file --------------------------------------------------------------------------- */

static int write_file(struct bench *b, const char *path, const uint8_t *bytes, uint64_t size)
{
	struct fs *fs = b->fs;
	struct terrane_file *f = NULL;
	int rc = terrane_create(fs->t, path, bench_create_flags(fs), &f, &fs->o);
	for (uint64_t at = 0; rc == 0 && at < size; at += WRITE_PIECE) {
		double since = fs_clock();
		size_t len = (size_t)(size - at < WRITE_PIECE ? size - at : WRITE_PIECE);
		rc = terrane_append(f, bytes, len, &fs->o);
		bench_op(b, since);
		b->bytes += len;
	}
	if (rc < 0 && f != NULL)
		terrane_file_discard(f);
	return rc < 0 ? rc : terrane_file_close(f, &fs->o);
}

static int bench_write(struct fs *fs, const char *path)
{
	struct bench b;
	uint64_t size = fs->flags.size_bytes != 0 ? fs->flags.size_bytes : 1 * GIB;
	uint8_t *bytes = bench_bytes(WRITE_PIECE);
	int rc = bench_begin(&b, fs, "write", path, size / WRITE_PIECE + 1);
	if (rc == 0)
		rc = bytes != NULL ? write_file(&b, path, bytes, size) : -ENOMEM;
	free(bytes);
	return bench_end(&b, rc);
}

struct slot {
	struct terrane_op op;
	char *buf;
	double since;
	bool under_way;
};

struct reading {
	struct bench *b;
	struct terrane_file *f;
	struct slot slots[DEPTH_MAX];
	size_t depth, block;
	uint64_t blocks, next;
	struct rng rng;
	bool random;
};

static int slot_start(struct reading *r, struct slot *s)
{
	if (r->next == r->blocks)
		return 0;
	uint64_t at = r->random ? rng_below(&r->rng, r->blocks) : r->next;
	r->next++;
	s->op = (struct terrane_op){.user = s};
	s->since = fs_clock();
	int rc = terrane_pread_start(r->f, s->buf, r->block, at * r->block, &r->b->fs->o, &s->op);
	s->under_way = rc == 0;
	return rc;
}

static int slot_end(struct reading *r, struct slot *s)
{
	int64_t n = terrane_wait(r->b->fs->t, &s->op);
	s->under_way = false;
	if (n < 0)
		return (int)n;
	bench_op(r->b, s->since);
	r->b->bytes += (uint64_t)n;
	return 0;
}

/* Reads all blocks with `depth` requests in flight, and waits for the oldest request before it sends another. */
static int read_all(struct reading *r)
{
	int rc = 0;
	for (size_t i = 0; i < r->depth && rc == 0; i++) {
		r->slots[i].buf = malloc(r->block);
		rc = r->slots[i].buf != NULL ? slot_start(r, &r->slots[i]) : -ENOMEM;
	}
	for (size_t i = 0; rc == 0 && r->slots[i].under_way; i = (i + 1) % r->depth) {
		rc = slot_end(r, &r->slots[i]);
		if (rc == 0)
			rc = slot_start(r, &r->slots[i]);
	}
	for (size_t i = 0; i < r->depth; i++) {
		if (r->slots[i].under_way)
			terrane_wait(r->b->fs->t, &r->slots[i].op);
		free(r->slots[i].buf);
	}
	return rc;
}

static int bench_read(struct fs *fs, const char *path)
{
	struct bench b;
	struct terrane_stat st = {0};
	struct reading *r = calloc(1, sizeof(*r));
	int rc = r != NULL ? terrane_file_open(fs->t, path, &r->f, &fs->o) : -ENOMEM;
	if (rc == 0)
		rc = terrane_file_stat(r->f, &st, &fs->o);
	if (rc < 0) {
		free(r);
		return fs_fail(&fs->error, rc, "cannot read", path);
	}
	r->random = fs->flags.pattern != NULL && strcmp(fs->flags.pattern, "random") == 0;
	r->depth = (size_t)(fs->flags.depth > 0 ? fs->flags.depth : 4);
	r->depth = r->depth < DEPTH_MAX ? r->depth : DEPTH_MAX;
	r->block = fs->flags.block_bytes != 0 ? fs->flags.block_bytes : (r->random ? 1 : 4) * MIB;
	r->blocks = (st.size + r->block - 1) / r->block;
	rng_init(&r->rng, 7);
	rc = bench_begin(&b, fs, r->random ? "read random" : "read seq", path, r->blocks);
	r->b = &b;
	if (rc == 0)
		rc = read_all(r);
	terrane_file_close(r->f, NULL);
	free(r);
	return bench_end(&b, rc);
}

/* --- many small files ------------------------------------------------------------------------- */

struct files {
	struct bench b;
	const char *dir;
	uint8_t *bytes;
	size_t count, size;
};

static int files_begin(struct files *f, struct fs *fs, const char *kind, const char *dir)
{
	f->dir = dir;
	f->count = (size_t)(fs->flags.count > 0 ? fs->flags.count : 2000);
	f->size = fs->flags.size_bytes != 0 ? fs->flags.size_bytes : 100 * KIB;
	f->bytes = f->size <= 64 * MIB ? bench_bytes(f->size) : NULL;
	int rc = bench_begin(&f->b, fs, kind, dir, f->count);
	return f->bytes == NULL ? -ENOMEM : rc;
}

static int files_end(struct files *f, int rc)
{
	free(f->bytes);
	return bench_end(&f->b, rc);
}

static int pack_some(struct files *f, size_t first, size_t n)
{
	struct terrane_small small[PACK_FILES] = {0};
	char names[PACK_FILES][24];
	double since = fs_clock();
	for (size_t i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "f%08zu", first + i);
		small[i] =
			(struct terrane_small){.name = names[i], .data = f->bytes, .len = f->size};
	}
	int rc = terrane_pack(f->b.fs->t, f->dir, small, n, bench_create_flags(f->b.fs),
			      &f->b.fs->o);
	for (size_t i = 0; i < n && rc == 0; i++)
		bench_op(&f->b, since);
	f->b.bytes += n * f->size;
	return rc;
}

static int write_one(struct files *f, size_t i)
{
	char path[FS_PATH_MAX], name[24];
	struct terrane_file *file = NULL;
	struct fs *fs = f->b.fs;
	double since = fs_clock();
	snprintf(name, sizeof(name), "f%08zu", i);
	int rc = fs_join(path, f->dir, name) ? 0 : -ENAMETOOLONG;
	if (rc == 0)
		rc = terrane_create(fs->t, path, bench_create_flags(fs), &file, &fs->o);
	if (rc == 0 && (rc = terrane_append(file, f->bytes, f->size, &fs->o)) < 0)
		terrane_file_discard(file);
	else if (rc == 0)
		rc = terrane_file_close(file, &fs->o);
	bench_op(&f->b, since);
	f->b.bytes += f->size;
	return rc;
}

static int bench_files(struct fs *fs, const char *dir)
{
	struct files f;
	int rc = terrane_mkdir(fs->t, dir, TERRANE_PARENTS, &fs->o);
	if (rc < 0)
		return fs_fail(&fs->error, rc, "cannot make", dir);
	rc = files_begin(&f, fs, fs->flags.packed ? "files packed" : "files", dir);
	for (size_t i = 0; rc == 0 && i < f.count;) {
		size_t n = fs->flags.packed ? min_u64(PACK_FILES, f.count - i) : 1;
		rc = fs->flags.packed ? pack_some(&f, i, n) : write_one(&f, i);
		i += n;
	}
	return files_end(&f, rc);
}

/* Reads the files, all in one call (--packed) or one after the other. */
static int read_files(struct files *f, struct terrane_range *ranges, char *buf)
{
	struct fs *fs = f->b.fs;
	int rc = 0;
	double since = fs_clock();
	if (fs->flags.packed)
		rc = terrane_read_batch(fs->t, ranges, f->count, &fs->o);
	for (size_t i = 0; rc == 0 && i < f->count; i++) {
		if (!fs->flags.packed) {
			since = fs_clock();
			struct terrane_file *file = NULL;
			rc = terrane_file_open(fs->t, ranges[i].path, &file, &fs->o);
			if (rc == 0)
				ranges[i].result = terrane_pread(file, buf, f->size, 0, &fs->o);
			if (file != NULL)
				terrane_file_close(file, NULL);
		}
		if (rc == 0 && ranges[i].result != (int64_t)f->size)
			rc = ranges[i].result < 0 ? (int)ranges[i].result : -ENODATA;
		bench_op(&f->b, since);
		f->b.bytes += f->size;
	}
	return rc;
}

static int bench_fetch(struct fs *fs, const char *dir)
{
	struct files f;
	struct rng rng;
	rng_init(&rng, 7);
	int rc = files_begin(&f, fs, fs->flags.packed ? "fetch batched" : "fetch", dir);
	struct terrane_range *ranges = calloc(f.count, sizeof(*ranges));
	char(*paths)[FS_PATH_MAX / 16] = calloc(f.count, sizeof(*paths));
	char *buf = malloc(fs->flags.packed ? f.count * f.size : f.size);
	if (ranges == NULL || paths == NULL || buf == NULL)
		rc = -ENOMEM;
	for (size_t i = 0; rc == 0 && i < f.count; i++) {
		snprintf(paths[i], sizeof(paths[i]), "%s/f%08zu", dir, i);
		ranges[i] =
			(struct terrane_range){.path = paths[i],
					       .len = f.size,
					       .buf = buf + (fs->flags.packed ? i * f.size : 0)};
	}
	for (size_t i = f.count; rc == 0 && i > 1; i--) {
		size_t j = rng_below(&rng, i);
		struct terrane_range other = ranges[j];
		ranges[j] = ranges[i - 1];
		ranges[i - 1] = other;
	}
	/* A training loop reads into memory that it has used before: first use would be half of the processor time. */
	if (rc == 0)
		memset(buf, 1, fs->flags.packed ? f.count * f.size : f.size);
	f.b.start = fs_clock();
	f.b.cpu = fs_cpu();
	if (rc == 0)
		rc = read_files(&f, ranges, buf);
	free(ranges);
	free(paths);
	free(buf);
	return files_end(&f, rc);
}

/* --- the command ------------------------------------------------------------------------------- */

static int run_bench(struct fs *fs, int n, char **operands)
{
	static const struct {
		const char *name;
		int (*run)(struct fs *fs, const char *path);
	} kinds[] = {{"write", bench_write}, {"read", bench_read},   {"files", bench_files},
		     {"fetch", bench_fetch}, {"batch", bench_batch}, {"meta", bench_meta}};
	(void)n;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(operands[0], kinds[i].name) == 0)
			return kinds[i].run(fs, operands[1]);
	return cli_usage(
		"bench: unknown kind \"%s\"; it is write, read, files, fetch, batch or meta",
		operands[0]);
}

const struct fs_command fs_bench_commands[] = {
	{"bench", "measure the cluster", "write|read|files|fetch|batch|meta PATH",
	 "write   writes one file PATH of --size (1GiB)\n"
	 "read    reads the file PATH, --pattern seq or random, --block bytes at a time, with\n"
	 "        --depth requests in flight\n"
	 "files   writes --count (2000) files of --size (100KiB) into the directory PATH;\n"
	 "        --packed: many in one call\n"
	 "fetch   reads these files in random order; --packed: in one call\n"
	 "batch   reads --count (20000) ranges of --size (4KiB) at random places of the file\n"
	 "        PATH, --depth (1000) in a call, and then as many bytes in one piece after the\n"
	 "        other: the difference in processor time is what the ranges cost\n"
	 "meta    creates, stats, lists and removes --count empty files in the directory PATH,\n"
	 "        --depth at a time; --pattern: only that step\n"
	 "Written files stay; rm -r removes them. bench ends with an error if a file exists,\n"
	 "unless --replace is given.",
	 "sndPkeMbgFT", 2, 2, run_bench, FS_REMOTE_NONE},
};
const size_t fs_bench_count = ARRAY_LEN(fs_bench_commands);
