// SPDX-License-Identifier: Apache-2.0
/* Transfers of many files, for put and get. A job is one large file, or many small files that are transferred in one
 * call. */
#ifndef CLI_FS_TRANSFER_H
#define CLI_FS_TRANSFER_H

#include <stdatomic.h>

#include "cli/fs.h"
#include "cli/progress.h"
#include "cli/work.h"

#define TRANSFER_SMALL_BYTES (1 * MIB)  /* files up to this size share a job */
#define TRANSFER_BATCH_BYTES (32 * MIB) /* limit for the bytes of the files that share a job */
#define TRANSFER_BATCH_FILES 500        /* limit for the number of files that share a job */
#define TRANSFER_PIECE_BYTES ((size_t)(4 * MIB))
#define TRANSFER_DIRS_AT_ONCE 32
#define TRANSFER_DEPTH 4       /* pieces of one file in flight */
#define TRANSFER_REFUSED_MAX 3 /* files refused for lack of room before the transfer stops */

struct transfer_file {
	struct transfer_file *next;
	char *local, *remote; /* paths */
	uint64_t id;          /* id of the remote file; get only */
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
	struct transfer_job *gathering; /* job that collects small files until it is full */
	atomic_ullong done, done_bytes, left_alone, skipped, failed;
	/* failed files with -ENOSPC or -EDQUOT: no room, too few disks, quota */
	atomic_ullong refused;
};

/* Starts a transfer: its threads and its progress line. Returns CLI_OK, or an exit status after it printed an error. */
int transfer_start(struct transfer *x, struct fs *fs, const char *verb,
		   void (*run)(void *ctx, void *job));
/* Waits for all jobs and prints a summary. Returns the exit status. */
int transfer_finish(struct transfer *x);

/* Adds a file to the transfer. The paths are copied. Small files of all directories share jobs. -ENOMEM. */
int transfer_add(struct transfer *x, const char *local, const char *remote, uint64_t id,
		 uint64_t size);

/* Makes up to TRANSFER_DIRS_AT_ONCE directories, the first of the names in len bytes, each with its NUL: in parallel, as
 * each waits for a disk. Sets made[i] where directory i exists, and prints an error for each other. Returns how many it
 * tried; 0: out of memory. */
size_t transfer_mkdirs(struct transfer *x, const struct fs_path *remote, const char *names,
		       size_t len, bool *made);

/* Refuses two sources that would get the same target, as files are transferred in any order. Returns CLI_OK, or
 * CLI_FAILED after it printed them. */
int transfer_distinct(const char *verb, int n, char *const *sources, const bool *is_file);

/* Returns whether no further file may begin: after an interrupt, and after TRANSFER_REFUSED_MAX refusals for lack of
 * room, which would hit the other files too. */
bool transfer_ended(const struct transfer *x);

void transfer_job_free(struct transfer_job *job);
/* Counts a transferred file and its bytes. */
void transfer_done(struct transfer *x, uint64_t bytes);
/* Prints and counts the failure of one file; the transfer of other files goes on. */
void transfer_fail(struct transfer *x, const struct terrane_error *error, int64_t rc,
		   const char *what, const char *path);
/* Does what transfer_fail does; for -EEXIST the message has the options that help. */
void transfer_fail_file(struct transfer *x, const struct terrane_error *error, int64_t rc,
			const char *what, const char *path);
/* Prints and counts the failure of one file, with `why` as the reason. */
void transfer_refuse(struct transfer *x, const char *what, const char *path, const char *why);

#endif
