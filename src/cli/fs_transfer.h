// SPDX-License-Identifier: Apache-2.0
/* What put and get share: a job is one large file, or many small ones that go in one call. */
#ifndef CLI_FS_TRANSFER_H
#define CLI_FS_TRANSFER_H

#include <stdatomic.h>

#include "cli/fs.h"
#include "cli/progress.h"
#include "cli/work.h"

#define TRANSFER_SMALL_BYTES (1 * MIB)  /* files up to this long go together, */
#define TRANSFER_BATCH_BYTES (32 * MIB) /* as many as these bytes */
#define TRANSFER_BATCH_FILES 500        /* and so many */
#define TRANSFER_PIECE_BYTES ((size_t)(4 * MIB))
#define TRANSFER_DIRS_AT_ONCE 32
#define TRANSFER_DEPTH 4       /* pieces of one file in flight */
#define TRANSFER_REFUSED_MAX 3 /* files for which there was no room: then it ends */

struct transfer_file {
	struct transfer_file *next;
	char *local, *remote; /* paths */
	uint64_t id;          /* get */
	uint64_t size;
};

struct transfer_job {
	struct transfer_file *files;
	size_t count;
	uint64_t bytes;
	bool large;
};

struct transfer {
	struct fs *fs;
	const char *verb;
	struct work work;
	struct progress progress;
	struct transfer_job *gathering; /* small files until there are enough */
	atomic_ullong done, done_bytes, left_alone, skipped, failed;
	atomic_ullong refused; /* of those that failed: for no room, a quota or too few disks */
};

/* Files up to this long go together: they must fit a block. */
uint64_t transfer_small(const struct transfer *x);

int transfer_start(struct transfer *x, struct fs *fs, const char *verb,
		   void (*run)(void *ctx, void *job));
/* Ends the work and prints what was done; the exit status. */
int transfer_finish(struct transfer *x);

/* Takes copies of the names. Small files go with others, of whatever directories. */
int transfer_add(struct transfer *x, const char *local, const char *remote, uint64_t id,
		 uint64_t size);

/* Makes the first directories of these names, one after the other in len bytes, up to TRANSFER_DIRS_AT_ONCE: all
 * at once, as each waits for a disk. made says of each whether it is there; the others were told. Their number;
 * 0: not even that. */
size_t transfer_mkdirs(struct transfer *x, const struct fs_path *remote, const char *names,
		       size_t len, bool *made);

/* Files go at once and in any order: two that would get one name are refused. CLI_OK, or it was told. */
int transfer_distinct(const char *verb, int n, char *const *sources, const bool *is_file);

/* Nothing more is begun: after Ctrl-C, and when there is no room, which holds for all others too. */
bool transfer_ended(const struct transfer *x);

void transfer_job_free(struct transfer_job *job);
/* A file is there, whole. */
void transfer_done(struct transfer *x, uint64_t bytes);
/* Something could not be transferred: told, counted, and the others go on. */
void transfer_fail(struct transfer *x, const struct terrane_error *error, int64_t rc,
		   const char *what, const char *path);
/* The same of a file: that it exists already is told with what to do. */
void transfer_fail_file(struct transfer *x, const struct terrane_error *error, int64_t rc,
			const char *what, const char *path);
/* The same, with words of its own. */
void transfer_refuse(struct transfer *x, const char *what, const char *path, const char *why);

#endif
