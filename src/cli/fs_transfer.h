// SPDX-License-Identifier: Apache-2.0
/* Transfers of many files, for put and get. A job is one large file, or many small files that are transferred in one
 * call. */
#ifndef CLI_FS_TRANSFER_H
#define CLI_FS_TRANSFER_H

#include <stdatomic.h>

#include "cli/fs.h"
#include "cli/fs_local.h"
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
	struct local_wish wish; /* get only: attributes of the local file */
	bool user;              /* get only: the remote file has user attributes */
	bool compare; /* get only: --resume keeps the local file if it has the same bytes */
};

/* A local directory that get made. Its attributes are set when it is complete. */
struct transfer_dir {
	struct transfer_dir *next;
	char *local, *remote;
	struct local_wish wish;
	bool user;
};

#define TRANSFER_EXISTING 3 /* existing files that are named one by one */

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
	atomic_ullong
		full; /* those of them for which the cluster had no room, and not the local filesystem */
	/* files that were not transferred because the target exists, and the first of them */
	atomic_ullong existing;
	char *existed[TRANSFER_EXISTING];
	atomic_ullong bare;    /* files whose user attributes the local filesystem does not take */
	atomic_ullong removed; /* names that sync removed */
	struct transfer_dir *dirs; /* newest first, so that a directory comes before its parent */
};

/* Starts a transfer: its threads and its progress line. Returns CLI_OK, or an exit status after it printed an error. */
int transfer_start(struct transfer *x, struct fs *fs, const char *verb,
		   void (*run)(void *ctx, void *job));
/* Waits for all jobs and prints a summary. Returns the exit status. */
int transfer_finish(struct transfer *x);
/* Ends a transfer to which nothing was added, and prints nothing. */
int transfer_stop(struct transfer *x);
/* Tells of deleted files that still take space, after the disks had no room. Prints nothing if there are none, or if the
 * metadata does not answer. */
void transfer_tell_waiting(struct fs *fs, const char *verb);

/* The job of get: fetches a large file, or a batch of small ones. ctx is the struct transfer. */
void get_job(void *ctx, void *item);

/* Adds a file to the transfer; file->local and file->remote are copied. Small files of all directories share jobs.
 * -ENOMEM. */
int transfer_add(struct transfer *x, const struct transfer_file *file);

/* Adds a directory that get made; dir->local and dir->remote are copied. -ENOMEM. */
int transfer_add_dir(struct transfer *x, const struct transfer_dir *dir);

/* Gives an open local file the attributes of its remote one, unless --no-attributes is given. */
int transfer_give(struct transfer *x, int fd, const struct local_wish *wish, const char *remote,
		  const struct terrane_options *o);

/* Makes up to TRANSFER_DIRS_AT_ONCE directories, the first of the names in len bytes, each with its NUL, with the attributes of
 * those in the folder local: in parallel, as each waits for a disk. Sets made[i] where directory i exists, and prints an error for each other. Returns how many it
 * tried; 0: out of memory. */
size_t transfer_mkdirs(struct transfer *x, const struct fs_path *local,
		       const struct fs_path *remote, const char *names, size_t len, bool *made);

/* Refuses two sources that would get the same target, as files are transferred in any order. Returns CLI_OK, or
 * CLI_FAILED after it printed them. */
int transfer_distinct(const char *verb, int n, char *const *sources, const bool *is_file);

/* Returns whether no further file may begin: after an interrupt, and after TRANSFER_REFUSED_MAX refusals for lack of
 * room, which would hit the other files too. */
bool transfer_ended(const struct transfer *x);

void transfer_job_free(struct transfer_job *job);
/* Read a local file, or an open file of the cluster, to compute its length and CRC. */
int transfer_local_crc(const char *path, uint64_t *len, uint32_t *crc);
int transfer_remote_crc(struct terrane_file *f, uint64_t *len, uint32_t *crc,
			const struct terrane_options *o);
/* Counts a transferred file and its bytes. */
void transfer_done(struct transfer *x, uint64_t bytes);
/* Prints and counts the failure of one file; the transfer of other files goes on. */
void transfer_fail(struct transfer *x, const struct terrane_error *error, int64_t rc,
		   const char *what, const char *path);
/* Does what transfer_fail does; files with -EEXIST are told of at the end, with the options that help. */
void transfer_fail_file(struct transfer *x, const struct terrane_error *error, int64_t rc,
			const char *what, const char *path);
/* Prints and counts the failure of one file, with `why` as the reason. */
void transfer_refuse(struct transfer *x, const char *what, const char *path, const char *why);

#endif
