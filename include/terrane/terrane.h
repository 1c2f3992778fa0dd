// SPDX-License-Identifier: Apache-2.0
/*
 * libterrane: the client of a Terrane cluster.
 *
 *     struct terrane *t;
 *     struct terrane_file *f;
 *     int rc = terrane_open(&t, NULL, NULL);          // the cluster of this folder
 *     rc = terrane_create(t, "/sets/a.bin", 0, &f, NULL);
 *     rc = terrane_append(f, data, len, NULL);
 *     rc = terrane_file_close(f, NULL);               // now it is there, whole and safe
 *     terrane_close(t);
 *
 * Model. A cluster keeps a tree of directories and files. A file is a row of blocks; each block is
 * encoded by this library (copies, Reed-Solomon, two levels) and its chunks go straight to disks in
 * different fault domains. How that is done is chosen for each call: struct terrane_options.
 *
 * A file is written in one of two ways:
 *
 *   whole   terrane_create. Bytes are gathered to full blocks, encoded, and written with several
 *           blocks in flight. Nobody sees the file until terrane_file_close returned 0; then it is
 *           sealed and never changes. A writer that dies or discards leaves nothing visible.
 *   log     terrane_create with TERRANE_LOG, or terrane_append_open later on. Each append is on
 *           most copies and visible to readers when it returns. One of up to 4 MiB, and no more
 *           than a block, is seen as a whole or not at all, whatever happens to its writer; of a
 *           larger one that failed the beginning may be there. Opening a log for append takes
 *           the write token: whoever held it before can add nothing more (-ESTALE).
 *
 * Many small files are best written with terrane_pack, which puts them into shared blocks, those of
 * many directories too.
 *
 * Acknowledged is what returned 0 or a count: it is on so many disks that the loss of any one of
 * them loses nothing, and reads back byte by byte as it was given. Every byte is covered by a
 * checksum from the moment it comes in (or from the application's own, options.crc32c) until it is
 * handed out; encoding and decoding are checked. Wrong bytes are never returned: a read that cannot
 * be made right fails.
 *
 * Errors. Functions return 0, or a count, or a negative errno with the meaning of
 * terrane_error_text. options.error receives what failed, on what, and what to do, in words. Any
 * call may return:
 *   -ETIME         options.timeout_ms passed; a change may yet happen
 *   -EHOSTUNREACH  no metadata server answers; -ECONNREFUSED, -ETIMEDOUT say how
 *   -ENOMEM, -EAGAIN   out of memory, or too many calls at once
 *   -EACCES        the tenant may not do that
 *   -EINVAL        an argument that cannot be
 * and those that name a path: -ENOENT, -ENOTDIR, -ENAMETOOLONG, -EILSEQ (not UTF-8). Further errors
 * are listed with each function.
 *
 * Paths start at the root of the tenant and are separated by '/'; a leading one makes no
 * difference. Names are any UTF-8 of 1 to 255 bytes without '/' and NUL, but "." and "..".
 *
 * Threads. Every function may be called on any thread, on the same handle at the same time; appends
 * to one file happen in the order of their calls. The work is done by one thread of the library,
 * started by terrane_open. Calls without _start block the calling thread; their twins with _start
 * return at once and complete a struct terrane_op.
 *
 * fork(). A child may use the handles of its parent: it gets a runtime of its own with its first
 * call. Files open for reading go on. Files open for writing stay with the parent; in the child
 * they return -ESTALE, and closing or discarding them there only frees memory. Operations under way
 * at the fork complete in the parent alone.
 *
 * Structs given by the caller start zeroed; zero always means the default. They have room to grow.
 */
#ifndef TERRANE_TERRANE_H
#define TERRANE_TERRANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct terrane;       /* a cluster */
struct terrane_file;  /* an open file */
struct terrane_op;    /* a call under way */
struct terrane_queue; /* where calls under way end up */

/* --- errors ----------------------------------------------------------------------------------- */

#define TERRANE_ERROR_MAX 256

struct terrane_error {
	int code;                     /* as returned */
	char text[TERRANE_ERROR_MAX]; /* one line, without the name of the code */
};

/* "ENOENT", and what the code means here, for either sign. Never NULL. */
const char *terrane_error_name(int code);
const char *terrane_error_text(int code);

/* "0.1.0" */
const char *terrane_version(void);

/* --- options of a call ------------------------------------------------------------------------ */

/* How urgent: the disks serve gold before silver before bronze. */
enum terrane_class {
	TERRANE_CLASS_DEFAULT, /* the cluster file's, else silver */
	TERRANE_GOLD,
	TERRANE_SILVER,
	TERRANE_BRONZE,
};

/*
 * Where the blocks that a call writes are kept. A block stays there: repair, rebalance, re-encoding and
 * compaction keep it on its media.
 */
enum terrane_media {
	TERRANE_MEDIA_DEFAULT, /* disk; terrane_seal: where the blocks are */
	TERRANE_MEDIA_DISK,
	TERRANE_MEDIA_FLASH, /* -ENOSPC when too few flash disks have room */
	TERRANE_MEDIA_FLASH_OR_DISK, /* each block that finds no room on flash goes to disk, and stays there */
};

struct terrane_options {
	/* Any call. */
	uint32_t timeout_ms; /* 0: 60 s */
	enum terrane_class traffic_class;
	const char *traffic_group;   /* who shares with whom; NULL: the cluster file's */
	uint64_t job_id;             /* which training job asks, for the policies of the caches */
	uint64_t directory_id;       /* of which data set the bytes are; 0: as the library knows */
	uint32_t placement_category; /* a hint where new bytes should live */
	struct terrane_error *error; /* filled in when the call fails; may be NULL */
	/*
	 * CRC-32C of the bytes. Appends: the application's own, checked against what came in and
	 * carried to the disks (-EBADMSG when the bytes do not have it). Reads: receives the one
	 * that belongs to the bytes handed out, from the checksums they were stored with. NULL: the
	 * library's.
	 */
	uint32_t *crc32c;

	/* Calls that create or write. Those of create hold for the file; an append to a file written
	 * whole may name another encoding, for the blocks that begin in it. */
	/* "r3", "rs:4+2", "lrc:12+2+2", "mlec:4+2/4+1"; NULL: the cluster's. */
	const char *encoding;
	uint64_t block_bytes; /* 64 KiB to 64 MiB; 0: 64 MiB */
	/* Chunks of a block on disk before it counts as written. 0: one fewer than all (whole files),
	 * a majority (logs). At least what decodes, and one. */
	uint16_t quorum;
	/* Disks asked beside those that are needed; the first to accept are taken. 0: a quarter more;
	 * TERRANE_NONE: none, and those that are needed are written to without asking first. */
	uint16_t extra_disks;
	uint16_t blocks_in_flight; /* of one file; 0: 4 */

	/* Calls that read. */
	/* How many further ways to the same bytes may be tried at once when the first is slow. 0: 1;
	 * TERRANE_NONE: none. */
	uint16_t hedge;
	uint32_t hedge_ms; /* when a chunk is slow; 0: by what the disks did lately */

	uint64_t reserved[5];

	/* Calls that create, write or seal; holds for the file as its encoding does. */
	enum terrane_media media;
	uint32_t reserved_32;
};

#define TERRANE_NONE UINT16_MAX

/* --- calls that do not block ------------------------------------------------------------------ */

/*
 * A call under way. The caller owns it, sets done or queue or neither, and leaves it alone until it
 * has completed. Everything the call was given (also the options) must live as long. Exactly one
 * of:
 *   done   is called on the library's thread when the result is there. It must not block, nor call
 *          a function of this library that blocks; it may start others, and may free the op;
 *   queue  the op is put there, see terrane_queue_take;
 *   none   terrane_wait.
 */
struct terrane_op {
	void (*done)(struct terrane_op *op);
	struct terrane_queue *queue;
	void *user;
	int64_t result; /* what the blocking call would have returned */
	uint64_t private_[4];
};

/* Blocks until it has completed and returns op->result; for ops without done and queue. */
int64_t terrane_wait(struct terrane *t, struct terrane_op *op);

/*
 * Asks the call to end early, most likely with -ECANCELED; it still completes. A change that was
 * sent may happen. An op that has completed is left alone.
 */
void terrane_cancel(struct terrane *t, struct terrane_op *op);

/* Completed ops, for event loops: the descriptor is readable while there are any. -ENOMEM,
 * -EMFILE. */
int terrane_queue_open(struct terrane *t, struct terrane_queue **out);
int terrane_queue_fd(const struct terrane_queue *q);
/* Up to max ops, oldest first; waits for the first one (timeout_ms < 0: for ever). Returns their
 * number. */
int terrane_queue_take(struct terrane_queue *q, struct terrane_op **ops, int max, int timeout_ms);
/* No op may be under way that names it. */
void terrane_queue_close(struct terrane_queue *q);

/* --- the cluster ------------------------------------------------------------------------------ */

struct terrane_open_options {
	const char *tenant;        /* NULL: the cluster file's */
	const char *traffic_group; /* for calls that name none */
	enum terrane_class traffic_class;
	uint64_t memory_bytes;       /* for data on its way; 0: 640 MiB */
	uint32_t connect_timeout_ms; /* 0: 3 s */
	struct terrane_error *error; /* filled in when it fails; may be NULL */
	uint64_t reserved[6];
};

/*
 * Opens the cluster that a cluster file describes: cluster_file, else $TERRANE_CLUSTER, else
 * ./cluster.ini. It looks like this:
 *
 *     [cluster]
 *     id = 6c1ab6ee0f5d4f27b1c3a9e874d2503c
 *     metadata = 10.0.3.1:7000, 10.0.3.2:7000
 *     [client]
 *     tenant = vision
 *
 * Asks a metadata server for the map, so that a file that points nowhere is found out within
 * connect_timeout_ms. -ENOENT: no such file; -EINVAL: it is not one; -ESTALE: the servers belong to
 * another cluster; -ENOSYS: no io_uring here.
 */
int terrane_open(struct terrane **out, const char *cluster_file,
		 const struct terrane_open_options *o);

/* Ends what is under way (-ECANCELED) and frees everything but files still open, which must have
 * been closed before. NULL is fine. */
void terrane_close(struct terrane *t);

/* What the client did so far. */
struct terrane_stats {
	uint64_t read_bytes, written_bytes; /* of users */
	uint64_t chunk_reads;               /* asked of nodes */
	uint64_t hedged_reads;              /* further ways tried because the first was slow */
	uint64_t rebuilt_reads;             /* bytes had to be computed from other chunks */
	uint64_t refused_rebuilds;          /* times the budget for those was used up */
	uint64_t bad_chunks; /* answers with wrong or missing bytes, reported for repair */
	uint64_t blocks_written,
		blocks_short; /* all, and those that miss a chunk: left to repair */
	uint64_t reserved[8];
};
void terrane_stats(struct terrane *t, struct terrane_stats *out);

/* --- names ------------------------------------------------------------------------------------ */

enum terrane_kind { TERRANE_FILE = 1, TERRANE_DIRECTORY = 2 };

struct terrane_stat {
	uint64_t id; /* names the file or directory for ever, whatever it is called */
	enum terrane_kind kind;
	bool sealed;       /* it never changes again; a file that is not is a log */
	uint64_t size;     /* bytes */
	uint64_t mtime_ns; /* since 1970 */
	/* Of terrane_file_stat only: */
	uint64_t block_bytes;     /* of a file being written */
	char encoding[32];        /* of its first block, or of new ones when it is being written */
	enum terrane_media media; /* the same; TERRANE_MEDIA_DEFAULT when there is no block yet */
	uint32_t reserved_32;
	uint64_t reserved[3];
};

int terrane_stat(struct terrane *t, const char *path, struct terrane_stat *out,
		 const struct terrane_options *o);
int terrane_stat_id(struct terrane *t, uint64_t id, struct terrane_stat *out,
		    const struct terrane_options *o);

enum terrane_mkdir_flags { TERRANE_PARENTS = 1 }; /* also those above; it may exist already */

/* -EEXIST, -EROFS (the directory above is sealed). */
int terrane_mkdir(struct terrane *t, const char *path, unsigned flags,
		  const struct terrane_options *o);

/*
 * Within a directory one instant; a file replaces a file of that name. A file that is moved to
 * another directory must be sealed (-EBUSY) and gets a new id; a directory keeps its own. -EEXIST,
 * -EISDIR: something else has the name; -EINVAL: into itself; -EBUSY: another move of that
 * directory is under way; -EROFS: a directory is sealed.
 */
int terrane_rename(struct terrane *t, const char *from, const char *to,
		   const struct terrane_options *o);

/* A file or an empty directory. A file that is open can be read until its blocks are collected.
 * -ENOTEMPTY, -EROFS (sealed directory), -ESTALE: the name changed hands meanwhile. */
int terrane_remove(struct terrane *t, const char *path, const struct terrane_options *o);

/*
 * Nothing more is added to the file, or no name changes in the directory. The blocks of a log are
 * re-encoded to o->encoding when that is given, on the media where they are unless o->media names
 * another: the old chunks are dropped only when the new block is committed. o->media alone moves the
 * blocks to that media, with their encodings.
 */
int terrane_seal(struct terrane *t, const char *path, const struct terrane_options *o);

#define TERRANE_NAME_MAX 255

struct terrane_entry {
	char name[TERRANE_NAME_MAX + 1];
	uint64_t id;
	enum terrane_kind kind;
	bool sealed;
	uint64_t size; /* as of when the entry was last looked at; exact for sealed files */
	uint64_t mtime_ns;
	uint64_t reserved[2];
};

/* Where a list goes on. Zeroed: at the beginning. */
struct terrane_cursor {
	uint8_t private_[320];
};

/*
 * Up to max entries of a directory, by name unless it is very large, and moves the cursor. Returns
 * their number; 0: that was all. What is there all the while is listed exactly once.
 */
int64_t terrane_list(struct terrane *t, const char *path, struct terrane_cursor *at,
		     struct terrane_entry *out, size_t max, const struct terrane_options *o);
int64_t terrane_list_id(struct terrane *t, uint64_t dir_id, struct terrane_cursor *at,
			struct terrane_entry *out, size_t max, const struct terrane_options *o);

/* --- writing ---------------------------------------------------------------------------------- */

enum terrane_create_flags {
	TERRANE_REPLACE = 1, /* a file of that name is replaced when this one is closed */
	TERRANE_LOG = 2,     /* quorum appends instead of whole blocks; visible at once */
};

/*
 * A new file, for writing. o's encoding, block_bytes, quorum, extra_disks, blocks_in_flight,
 * traffic and tags hold for the file. -EEXIST, -EISDIR, -EROFS (sealed directory), -EINVAL: an
 * encoding that cannot be; -ENOSPC: fewer disks of the media take new data than the encoding needs, or the
 * cluster has several racks, but too few: one would get more chunks of a block than the encoding
 * bears the loss of. Told with the numbers.
 */
int terrane_create(struct terrane *t, const char *path, unsigned flags, struct terrane_file **out,
		   const struct terrane_options *o);

/*
 * Opens a log to add to it: takes the write token and ends the block of the writer before. -EROFS:
 * it is sealed, as files written whole are; -EISDIR; -ENODATA: no copy of its last block can be
 * reached.
 */
int terrane_append_open(struct terrane *t, const char *path, struct terrane_file **out,
			const struct terrane_options *o);

/*
 * Adds bytes at the end. Whole files: returns when the bytes are taken over; an earlier block that
 * failed shows here or at close. Logs: returns when they are safe and readable. -ESTALE: another
 * writer took the log, or a child uses its parent's file; -EDQUOT; -ENOSPC: too few disks accept,
 * told with what they said; -EBADMSG: bytes that do not have their checksum; -EBADF: not open for
 * writing. After an error a file written whole can only be discarded, and a log only opened anew.
 */
int terrane_append(struct terrane_file *f, const void *data, size_t len,
		   const struct terrane_options *o);
int terrane_appendv(struct terrane_file *f, const struct iovec *iov, int n,
		    const struct terrane_options *o);

/* Waits until all bytes taken over are safe on disks. Ends the present block of a whole file, which
 * costs space when done often. The errors of append. */
int terrane_flush(struct terrane_file *f, const struct terrane_options *o);

/* Frees f, always. A file being written whole is flushed, sealed and becomes visible first: 0 means
 * that it is there for good. After an error it is not visible (-ETIME, -EHOSTUNREACH: it may become
 * so). The errors of append; -EEXIST: the name was taken meanwhile. */
int terrane_file_close(struct terrane_file *f, const struct terrane_options *o);

/* Frees f; of a file being written whole nothing remains. */
void terrane_file_discard(struct terrane_file *f);

struct terrane_small {
	const char *name; /* in the directory, or a path from there: "a.jpg", "n01440764/a.jpg" */
	const void *data;
	size_t len;
	const uint32_t *crc32c; /* the application's own, or NULL */
	int result;             /* of this file */
	uint64_t id;            /* of this file, when result is 0 */
	uint64_t reserved[2];
};

/*
 * Many small files in one call, of dir and of any directories below it: they share blocks, in their
 * order, are encoded once, and each becomes visible whole. The directories must be there. Files of
 * one directory cost a request for up to 1000 of them; those of many cost one each, several at once.
 *
 * Returns 0 when all files are there for good, else an error; files[i].result tells of each. A name
 * that is taken or a directory that is not there concerns no other file. Any other error ends the
 * call, and is what it returns; files that were not tried have -ECANCELED, and those that have their
 * names keep them. flags: TERRANE_REPLACE. Errors as terrane_create and terrane_append; -EFBIG: a
 * file is larger than a block.
 */
int terrane_pack(struct terrane *t, const char *dir, struct terrane_small *files, size_t n,
		 unsigned flags, const struct terrane_options *o);

/* --- reading ---------------------------------------------------------------------------------- */

/* -EISDIR. By id no directory is looked at: -ENOENT when the file is gone. */
int terrane_file_open(struct terrane *t, const char *path, struct terrane_file **out,
		      const struct terrane_options *o);
int terrane_file_open_id(struct terrane *t, uint64_t id, struct terrane_file **out,
			 const struct terrane_options *o);

/* As terrane_stat; of a file that is being written, how much was taken over. */
int terrane_file_stat(struct terrane_file *f, struct terrane_stat *out,
		      const struct terrane_options *o);

/*
 * Bytes read; fewer than asked only at the end of the file. -EBADMSG, -EIO: the bytes are damaged
 * wherever they are kept, -ENODATA: too few chunks are left or reachable; -EBUSY: they would have
 * to be rebuilt and the budget for that stayed used up: try again later; -EBADF: open for writing.
 */
int64_t terrane_pread(struct terrane_file *f, void *buf, size_t len, uint64_t offset,
		      const struct terrane_options *o);
/* The pieces are filled one after the other from one range of the file. */
int64_t terrane_preadv(struct terrane_file *f, const struct iovec *iov, int n, uint64_t offset,
		       const struct terrane_options *o);

/* One range of a batch: of an open file, else of a file by id, else by path. */
struct terrane_range {
	struct terrane_file *file;
	uint64_t id;
	const char *path;
	uint64_t offset;
	size_t len;
	void *buf;
	int64_t result;  /* bytes read, fewer than len only at the end of the file, or an error */
	uint32_t crc32c; /* of the bytes read */
	void *user;
	uint64_t private_[2];
};

/* All ranges, in any order and many at once. 0, or the first error of any. */
int terrane_read_batch(struct terrane *t, struct terrane_range *ranges, size_t n,
		       const struct terrane_options *o);

/*
 * The same, answered range by range: in their order, or as they come (in_order false). next waits
 * for one: 1, or 0 when all have been given out; each carries its own result. close gives up the
 * rest and returns when no buffer will be written to any more.
 */
struct terrane_batch;
int terrane_batch_open(struct terrane *t, struct terrane_range *ranges, size_t n, bool in_order,
		       struct terrane_batch **out, const struct terrane_options *o);
int terrane_batch_next(struct terrane_batch *b, struct terrane_range **out);
void terrane_batch_close(struct terrane_batch *b);

/* CRC-32C (Castagnoli): start with 0, feed the result back to go on. */
uint32_t terrane_crc32c(uint32_t crc, const void *data, size_t len);

/* --- the twins -------------------------------------------------------------------------------- */

/*
 * Each starts what its namesake does and returns 0, or an error when it could not be started (then
 * op does not complete): -EINVAL, -ENOMEM, -ESHUTDOWN. What the namesake returns comes in
 * op->result. op comes last.
 */
int terrane_stat_start(struct terrane *t, const char *path, struct terrane_stat *out,
		       const struct terrane_options *o, struct terrane_op *op);
int terrane_stat_id_start(struct terrane *t, uint64_t id, struct terrane_stat *out,
			  const struct terrane_options *o, struct terrane_op *op);
int terrane_mkdir_start(struct terrane *t, const char *path, unsigned flags,
			const struct terrane_options *o, struct terrane_op *op);
int terrane_rename_start(struct terrane *t, const char *from, const char *to,
			 const struct terrane_options *o, struct terrane_op *op);
int terrane_remove_start(struct terrane *t, const char *path, const struct terrane_options *o,
			 struct terrane_op *op);
int terrane_seal_start(struct terrane *t, const char *path, const struct terrane_options *o,
		       struct terrane_op *op);
int terrane_list_start(struct terrane *t, const char *path, struct terrane_cursor *at,
		       struct terrane_entry *out, size_t max, const struct terrane_options *o,
		       struct terrane_op *op);
int terrane_list_id_start(struct terrane *t, uint64_t dir_id, struct terrane_cursor *at,
			  struct terrane_entry *out, size_t max, const struct terrane_options *o,
			  struct terrane_op *op);
int terrane_create_start(struct terrane *t, const char *path, unsigned flags,
			 struct terrane_file **out, const struct terrane_options *o,
			 struct terrane_op *op);
int terrane_append_open_start(struct terrane *t, const char *path, struct terrane_file **out,
			      const struct terrane_options *o, struct terrane_op *op);
int terrane_append_start(struct terrane_file *f, const void *data, size_t len,
			 const struct terrane_options *o, struct terrane_op *op);
int terrane_appendv_start(struct terrane_file *f, const struct iovec *iov, int n,
			  const struct terrane_options *o, struct terrane_op *op);
int terrane_flush_start(struct terrane_file *f, const struct terrane_options *o,
			struct terrane_op *op);
int terrane_file_close_start(struct terrane_file *f, const struct terrane_options *o,
			     struct terrane_op *op);
int terrane_pack_start(struct terrane *t, const char *dir, struct terrane_small *files, size_t n,
		       unsigned flags, const struct terrane_options *o, struct terrane_op *op);
int terrane_file_open_start(struct terrane *t, const char *path, struct terrane_file **out,
			    const struct terrane_options *o, struct terrane_op *op);
int terrane_file_open_id_start(struct terrane *t, uint64_t id, struct terrane_file **out,
			       const struct terrane_options *o, struct terrane_op *op);
int terrane_file_stat_start(struct terrane_file *f, struct terrane_stat *out,
			    const struct terrane_options *o, struct terrane_op *op);
int terrane_pread_start(struct terrane_file *f, void *buf, size_t len, uint64_t offset,
			const struct terrane_options *o, struct terrane_op *op);
int terrane_preadv_start(struct terrane_file *f, const struct iovec *iov, int n, uint64_t offset,
			 const struct terrane_options *o, struct terrane_op *op);
int terrane_read_batch_start(struct terrane *t, struct terrane_range *ranges, size_t n,
			     const struct terrane_options *o, struct terrane_op *op);

#ifdef __cplusplus
}
#endif

#endif
