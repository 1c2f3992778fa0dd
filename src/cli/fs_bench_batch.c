// SPDX-License-Identifier: Apache-2.0
/*
 * bench batch: the processor time that a batched read costs for each of its ranges, beside that of the same number of
 * bytes read in sequence. Both read into memory that the process has used before, as a training loop does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cli/fs_bench.h"

#define COUNT_DEFAULT 20000
#define RANGE_DEFAULT ((size_t)(4 * KIB))
#define RANGE_MAX ((size_t)(1 * MIB))
#define CALL_DEFAULT 1000
#define CALL_MAX 8192
#define SEQUENCE_BYTES ((size_t)(4 * MIB)) /* bytes of one read of the comparison */

struct batch {
	struct fs *fs;
	const char *path;
	struct terrane_file *file;
	uint64_t file_bytes;
	size_t count, size, in_call;
	uint8_t *memory; /* in_call ranges, or SEQUENCE_BYTES if that is more */
	struct terrane_range *ranges;
	struct rng rng;
};

static int read_call(struct batch *k, struct bench *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		k->ranges[i] = (struct terrane_range){
			.file = k->file,
			.offset = rng_below(&k->rng, k->file_bytes - k->size + 1),
			.len = k->size,
			.buf = k->memory + i * k->size};
	double since = fs_clock();
	int rc = terrane_read_batch(k->fs->t, k->ranges, n, &k->fs->o);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (k->ranges[i].result != (int64_t)k->size)
			rc = -ENODATA;
		bench_op(b, since);
		b->bytes += k->size;
	}
	return rc;
}

static int read_ranges(struct batch *k)
{
	struct bench b;
	int rc = bench_begin(&b, k->fs, "batch", k->path, k->count);
	for (size_t at = 0; rc == 0 && at < k->count; at += k->in_call)
		rc = read_call(k, &b, min_u64(k->in_call, k->count - at));
	return bench_end(&b, rc);
}

static int read_sequence(struct batch *k)
{
	struct bench b;
	uint64_t bytes = (uint64_t)k->count * k->size, at = 0;
	int64_t n = bench_begin(&b, k->fs, "same bytes", k->path, bytes / SEQUENCE_BYTES + 1);
	for (; n >= 0 && b.bytes < bytes; b.bytes += (uint64_t)n) {
		double since = fs_clock();
		size_t len = min_u64(SEQUENCE_BYTES, bytes - b.bytes);
		at = at + len <= k->file_bytes ? at : 0;
		n = terrane_pread(k->file, k->memory, min_u64(len, k->file_bytes), at, &k->fs->o);
		at += n > 0 ? (uint64_t)n : 0;
		bench_op(&b, since);
	}
	return bench_end(&b, n);
}

static int batch_open(struct batch *k)
{
	const struct fs_flags *f = &k->fs->flags;
	struct terrane_stat st = {0};
	k->count = (size_t)(f->count > 0 ? f->count : COUNT_DEFAULT);
	k->size = f->size_bytes != 0 ? f->size_bytes : RANGE_DEFAULT;
	k->in_call = (size_t)(f->depth > 0 ? f->depth : CALL_DEFAULT);
	k->in_call = min_u64(k->in_call, min_u64(k->count, CALL_MAX));
	if (k->size > RANGE_MAX)
		return -EINVAL;
	size_t bytes = k->in_call * k->size;
	bytes = bytes > SEQUENCE_BYTES ? bytes : SEQUENCE_BYTES;
	k->memory = malloc(bytes);
	k->ranges = calloc(k->in_call, sizeof(*k->ranges));
	if (k->memory == NULL || k->ranges == NULL)
		return -ENOMEM;
	memset(k->memory, 1, bytes);
	rng_init(&k->rng, 7);
	int rc = terrane_file_open(k->fs->t, k->path, &k->file, &k->fs->o);
	if (rc == 0)
		rc = terrane_file_stat(k->file, &st, &k->fs->o);
	k->file_bytes = st.size;
	return rc == 0 && st.size < k->size ? -ENODATA : rc;
}

int bench_batch(struct fs *fs, const char *path)
{
	struct batch k = {.fs = fs, .path = path};
	int rc = batch_open(&k);
	int status;
	if (rc == -EINVAL || rc == -ENODATA)
		status = cli_fail("cannot bench batch: --size must be at most 1MiB and at most the "
				  "size of %s",
				  path);
	else if (rc < 0)
		status = fs_fail(&fs->error, rc, "cannot read", path);
	else
		status = read_ranges(&k);
	if (rc == 0 && status == CLI_OK)
		status = read_sequence(&k);
	if (k.file != NULL)
		terrane_file_close(k.file, NULL);
	free(k.memory);
	free(k.ranges);
	return status;
}
