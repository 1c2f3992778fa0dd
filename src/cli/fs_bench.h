// SPDX-License-Identifier: Apache-2.0
/* Shared by the kinds of `terrane bench`: the measurement of one kind. */
#ifndef CLI_FS_BENCH_H
#define CLI_FS_BENCH_H

#include "cli/cli.h"
#include "cli/fs.h"

#define DEPTH_MAX 1024 /* most operations in flight */

struct bench {
	struct fs *fs;
	const char *kind, *path;
	double start, cpu;
	double *took; /* duration of each operation in seconds */
	size_t ops, ops_room;
	uint64_t bytes;
};

/* Begins to measure at most `ops` operations. -ENOMEM. */
int bench_begin(struct bench *b, struct fs *fs, const char *kind, const char *path, size_t ops);
/* Counts an operation that began at the time `since`. */
void bench_op(struct bench *b, double since);
/* Prints the result, or the error rc, and frees the bench. Returns the exit status. */
int bench_end(struct bench *b, int64_t rc);

/* Returns the flags for creating a file: bench replaces existing files only with --replace. */
unsigned bench_create_flags(const struct fs *fs);
/* Returns allocated bytes without a pattern; NULL: no memory. */
void *bench_bytes(size_t len);

/* The kinds in files of their own. */
int bench_meta(struct fs *fs, const char *dir);
int bench_batch(struct fs *fs, const char *path);

#endif
