// SPDX-License-Identifier: Apache-2.0
/*
 * libterrane: the client of a Terrane cluster.
 *
 *     struct terrane *t;
 *     struct terrane_file *f;
 *     int rc = terrane_open(&t, NULL, NULL);          // the cluster of the current folder
 *     rc = terrane_create(t, "/sets/a.bin", 0, &f, NULL);
 *     rc = terrane_append(f, data, len, NULL);
 *     rc = terrane_file_close(f, NULL);               // now the file is visible and durable
 *     terrane_close(t);
 *
 * Model. A cluster keeps a tree of directories and files. A file is a sequence of blocks. This library encodes each
 * block (replicas, Reed-Solomon, two levels) and writes its chunks to disks in different fault domains. struct
 * terrane_options chooses the encoding and more for each call.
 *
 * A file is written in one of two ways:
 *
 *   sealed  terrane_create. Bytes are gathered to full blocks, encoded, and written with several blocks in flight.
 *           Readers do not see the file until terrane_file_close returned 0; then it is sealed and never changes.
 *           If the writer dies or discards the file, nothing becomes visible.
 *   log     terrane_create with TERRANE_LOG, or terrane_append_open on an existing log. When an append returns, it is
 *           stored by a quorum of the replicas and visible to readers. An append of up to 4 MiB, and not longer than a
 *           block, is visible completely or not at all, even if its writer fails; of a longer append that failed the
 *           beginning may be visible. Opening a log for append takes its write token: appends of the earlier
 *           holder fail with -ESTALE.
 *
 * Use terrane_pack to write many small files: it puts them into shared blocks, across directories.
 *
 * Acknowledged means that the call returned 0 or a count: the bytes are on so many disks that the loss of any one of
 * them loses nothing (if the encoding tolerates a loss), and they are read back unchanged. A checksum covers every byte
 * from its entry (or from the application's own checksum, options.crc32c) until it is handed out; encoding and decoding
 * are verified. Wrong bytes are never returned: a read that cannot return the right bytes fails.
 *
 * Errors. Functions return 0, or a count, or a negative errno; terrane_error_text says what it means here.
 * options.error receives a text: what failed, on which object, and what to do. Any call may return:
 *   -ETIME         options.timeout_ms passed; a change may still be executed
 *   -EHOSTUNREACH  no metadata server answers; -ECONNREFUSED, -ETIMEDOUT give the reason
 *   -ENOMEM, -EAGAIN   out of memory, or too many calls at once
 *   -EACCES        the tenant is not allowed to do that
 *   -EINVAL        an argument is invalid
 * Calls that take a path may also return -ENOENT, -ENOTDIR, -ENAMETOOLONG, -EILSEQ (not UTF-8). Further errors are listed
 * with each function.
 *
 * Paths start at the root of the tenant and are separated by '/'; a leading '/' is optional. Names are UTF-8 of 1 to 255
 * bytes without '/' and NUL, except "." and "..".
 *
 * Threads. Every function may be called on any thread, on the same handle at the same time; appends to one file are
 * executed in the order of their calls. One thread of the library, started by terrane_open, does the work. Functions
 * without _start block the calling thread; their variants with _start return at once and complete a struct terrane_op.
 *
 * fork(). A child may use the handles of its parent: its first call starts a new runtime. Files open for reading
 * continue to work. Files open for writing belong to the parent; in the child their calls return -ESTALE, and closing or
 * discarding them there only frees memory. Operations that run during the fork complete in the parent only.
 *
 * The caller zeroes structs before filling them; zero always means the default. reserved fields let them grow.
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
struct terrane_file;  /* an open file of a cluster */
struct terrane_op;    /* an asynchronous call */
struct terrane_queue; /* a queue of completed calls */
struct terrane_model; /* a placement model */
struct terrane_feature;
struct terrane_attributes;

/* --- errors ----------------------------------------------------------------------------------- */

#define TERRANE_ERROR_MAX 256

struct terrane_error {
	int code;                     /* error code as returned by the call: a negative errno */
	char text[TERRANE_ERROR_MAX]; /* one line, without the name of the code */
};

/* Return the name of an error code ("ENOENT"), and a text that says what the code means in
 * this library. Accept codes of either sign. Never NULL. */
const char *terrane_error_name(int code);
const char *terrane_error_text(int code);

/* Returns the version, for example "0.1.0". */
const char *terrane_version(void);

/* --- options of a call ------------------------------------------------------------------------ */

/* Traffic class: its priority at the disks is gold before silver before bronze. */
enum terrane_class {
	TERRANE_CLASS_DEFAULT, /* the class that the cluster file sets, else silver */
	TERRANE_GOLD,
	TERRANE_SILVER,
	TERRANE_BRONZE,
};

/* Where the blocks that a call writes are kept. A block stays there: repair, rebalance, re-
 * encoding and compaction keep it on its media. */
enum terrane_media {
	/* disk, or what the metadata service decides for files with a placement category; for
	 * terrane_seal: the media that the blocks are on */
	TERRANE_MEDIA_DEFAULT,
	TERRANE_MEDIA_DISK,
	TERRANE_MEDIA_FLASH, /* -ENOSPC when too few flash disks have room */
	/* each block that finds no room on flash goes to disk, and stays there */
	TERRANE_MEDIA_FLASH_OR_DISK,
};

struct terrane_options {
	/* Options of all calls: */
	uint32_t timeout_ms; /* timeout of the call; 0: 60 s */
	enum terrane_class traffic_class;
	/* traffic group to which the load of the call is charged; NULL: the group in the
	 * cluster file */
	const char *traffic_group;
	uint64_t job_id; /* id of the training job, for the policies of the caches */
	/* id of the data set's directory; 0: the directory of the file */
	uint64_t directory_id;
	uint32_t placement_category; /* of new bytes: 0: not known; c + 1: category c */
	struct terrane_error *error; /* filled in when the call fails; may be NULL */
	/* CRC-32C of the bytes. Appends: the checksum taken by the application; the bytes are
	 * compared with it (-EBADMSG) and it is carried to the disks. Reads: receives the
	 * checksum of the returned bytes, combined from those they were stored with. NULL: the
	 * library computes a checksum itself. */
	uint32_t *crc32c;

	/* Options of calls that create or write. The options of terrane_create apply to the
	 * whole file; an append to a file that is not a log may name another encoding, for the
	 * blocks that begin in it. */
	/* Encoding: "r3", "rs:4+2", "lrc:12+2+2", "mlec:4+2/4+1"; NULL: the encoding in the
	 * cluster file. */
	const char *encoding;
	uint64_t block_bytes; /* block size, 64 KiB to 64 MiB; 0: 64 MiB */
	/* How many chunks of a block must be stored for a write to succeed. 0: all but one
	 * (sealed files), a majority (logs). The library raises the value to one more than the
	 * number of chunks that suffices to decode, if the encoding tolerates a loss. */
	uint16_t quorum;
	/* How many disks get a reservation request beyond the number needed; the first disks
	 * that accept are used. 0: a quarter more; TERRANE_NONE: no reservations, the needed
	 * disks are written to directly. */
	uint16_t extra_disks;
	uint16_t blocks_in_flight; /* blocks of one file that are written at a time; 0: 4 */

	/* Options of calls that read: */
	/* How many hedges (other plans to get the same bytes) may run at once when the first is
	 * slow. 0: 1; TERRANE_NONE: none. */
	uint16_t hedge;
	/* time after which a read of a chunk is slow; 0: estimated from recent reads */
	uint32_t hedge_ms;

	/* Options of calls that create files, beside placement_category: */
	/* model that gives the category of the file, if placement_category is 0 */
	struct terrane_model *placement_model;
	/* What is known of the job that writes the file: what the model needs, and what a later
	 * one is trained with (`terrane placement trace`). -EINVAL: a name or text is invalid. */
	const struct terrane_feature *features;
	uint64_t feature_count;
	/* Attributes of the file or directory that the call makes; NULL: none. Not for terrane_pack,
	 * whose files have their own. */
	const struct terrane_attributes *attributes;

	uint64_t reserved[1];

	/* Media of new blocks, for calls that create, write or seal; applies to the same
	 * blocks as `encoding`. */
	enum terrane_media media;
	uint32_t reserved_32;
};

#define TERRANE_NONE UINT16_MAX

/* --- calls that do not block ------------------------------------------------------------------ */

/*
 * An asynchronous call. The caller owns it, sets done, queue or neither, and does not touch it until it has
 * completed. All arguments of the call, the options included, must live as long. Completion is reported in one of
 * these ways:
 *   done   is called on the library's thread. It must not block and not call a blocking function of this library; it may
 *          start calls and may free the op;
 *   queue  receives the op, see terrane_queue_take;
 *   none   terrane_wait.
 */
struct terrane_op {
	void (*done)(struct terrane_op *op);
	struct terrane_queue *queue;
	void *user;
	int64_t result; /* result of the call: what the blocking function would have returned */
	uint64_t private_[4];
};

/* Blocks until the op has completed and returns op->result. Only for ops without done and queue. */
int64_t terrane_wait(struct terrane *t, struct terrane_op *op);

/* Requests that the call ends early, usually with -ECANCELED; the op still completes. A change
 * that was sent may be executed. Does nothing if the op has completed. */
void terrane_cancel(struct terrane *t, struct terrane_op *op);

/* Opens a queue of completed ops, for event loops: its descriptor is readable while the queue
 * has ops. -ENOMEM, -EMFILE. */
int terrane_queue_open(struct terrane *t, struct terrane_queue **out);
int terrane_queue_fd(const struct terrane_queue *q);
/* Takes up to max ops, oldest first; waits for the first one (timeout_ms < 0: without limit).
 * Returns their number. */
int terrane_queue_take(struct terrane_queue *q, struct terrane_op **ops, int max, int timeout_ms);
/* Closes the queue. No running op may have it as its queue. */
void terrane_queue_close(struct terrane_queue *q);

/* --- the cluster ------------------------------------------------------------------------------ */

struct terrane_open_options {
	const char *tenant; /* name of the tenant; NULL: the tenant in the cluster file */
	/* traffic group of calls whose options name none; NULL: the group in the cluster file */
	const char *traffic_group;
	enum terrane_class traffic_class;
	/* limit of memory for blocks that are read or written; 0: 640 MiB */
	uint64_t memory_bytes;
	/* timeout of the first contact with a metadata server; 0: 3 s */
	uint32_t connect_timeout_ms;
	/* number of threads that move, check and decode data, 1 to 256; 0: `threads` of the cluster
	 * file, or else the number of processors that the process may use, at most 16 */
	uint32_t threads;
	struct terrane_error *error; /* filled in when opening fails; may be NULL */
	uint64_t reserved[6];
};

/*
 * Opens the cluster that a cluster file describes: cluster_file, else $TERRANE_CLUSTER, else
 * ./cluster.ini. Example:
 *
 *     [cluster]
 *     id = 6c1ab6ee0f5d4f27b1c3a9e874d2503c
 *     metadata = 10.0.3.1:7000, 10.0.3.2:7000
 *     [client]
 *     tenant = vision
 *
 * Gets the cluster map from a metadata server, so that wrong addresses are found within connect_timeout_ms. -ENOENT: the
 * file does not exist; -EINVAL: it is invalid; -ESTALE: the servers belong to another cluster; -ENOSYS: io_uring is not
 * available.
 */
int terrane_open(struct terrane **out, const char *cluster_file,
		 const struct terrane_open_options *o);

/* Cancels running calls (-ECANCELED) and frees the handle. All files must be closed before. t
 * may be NULL. */
void terrane_close(struct terrane *t);

/* Counters since terrane_open. */
struct terrane_stats {
	uint64_t read_bytes, written_bytes; /* bytes that the application has read and written */
	uint64_t chunk_reads;               /* reads of chunks sent to nodes */
	uint64_t hedged_reads;              /* hedges begun because a plan was slow */
	uint64_t rebuilt_reads;             /* reads whose bytes were computed from other chunks */
	/* reconstructions refused because their budget was used up */
	uint64_t refused_rebuilds;
	uint64_t bad_chunks; /* missing or damaged chunks that were reported for repair */
	uint64_t blocks_written,
		blocks_short; /* all; written with a quorum but not all chunks, left to repair */
	/* bytes of reads that cache nodes served; requests that they did not serve, and requests that failed, for which
	 * the disks were read */
	uint64_t cache_bytes, cache_misses, cache_failures;
	uint64_t reserved[5];
};
void terrane_stats(struct terrane *t, struct terrane_stats *out);

/* --- names ------------------------------------------------------------------------------------ */

enum terrane_kind { TERRANE_FILE = 1, TERRANE_DIRECTORY = 2 };

struct terrane_stat {
	uint64_t id; /* identifies the file or directory even if it is renamed */
	enum terrane_kind kind;
	/* the file or directory can never change again; a file that is not sealed is a log */
	bool sealed;
	uint64_t size;     /* length of the file in bytes */
	uint64_t mtime_ns; /* time of the last change, since 1970 */
	/* Only set by terrane_file_stat: */
	uint64_t block_bytes; /* block size of a file that is open for writing */
	/* encoding of the file's first block, or of its next blocks if it is open for writing */
	char encoding[32];
	/* media of the file's first block, or of its next blocks if it is open for writing;
	 * TERRANE_MEDIA_DEFAULT while the file has no block */
	enum terrane_media media;
	/* Set by terrane_stat, not by terrane_stat_id and terrane_file_stat: */
	uint32_t has; /* TERRANE_HAS_: which of the next three fields have a value */
	uint32_t mode, uid, gid;
	uint32_t user_attributes; /* number of user attributes */
	uint64_t reserved[1];
};

int terrane_stat(struct terrane *t, const char *path, struct terrane_stat *out,
		 const struct terrane_options *o);
int terrane_stat_id(struct terrane *t, uint64_t id, struct terrane_stat *out,
		    const struct terrane_options *o);

/* also make missing parent directories; succeed if the directory exists */
enum terrane_mkdir_flags { TERRANE_PARENTS = 1 };

/* Makes a directory. -EEXIST, -EROFS (its parent is sealed). */
int terrane_mkdir(struct terrane *t, const char *path, unsigned flags,
		  const struct terrane_options *o);

/* Renames or moves a file or directory. Atomic within one directory; a file replaces a file of
 * the new name. A file that is moved to another directory must be sealed (-EBUSY) and gets a
 * new id; a directory keeps its id. -EEXIST, -EISDIR: the new name is taken; -EINVAL: a
 * directory would move into itself; -EBUSY: the directory is being moved by another call;
 * -EROFS: a directory is sealed. */
int terrane_rename(struct terrane *t, const char *from, const char *to,
		   const struct terrane_options *o);

/* Copies a sealed file (-EBUSY: it is a log) without moving data: the copy shares the blocks of its source. flags: 0, or
 * TERRANE_REPLACE to replace a file of the new name (else -EEXIST). -EISDIR: from or to is a directory; -EROFS: the new
 * directory is sealed. */
int terrane_copy(struct terrane *t, const char *from, const char *to, unsigned flags,
		 const struct terrane_options *o);

/* Removes a file or an empty directory. Open files can be read until their blocks are collected.
 * -ENOTEMPTY, -EROFS (sealed directory), -ESTALE: the name was given to another file during the
 * call. */
int terrane_remove(struct terrane *t, const char *path, const struct terrane_options *o);

/* Seals a log (no more appends) or a directory (no more changes of its names). Options: encoding
 * re-encodes the blocks, on their media unless media names another; media alone moves the blocks
 * to that media with their encodings. The old chunks are deleted only after the new block is
 * committed. */
int terrane_seal(struct terrane *t, const char *path, const struct terrane_options *o);

/* Takes the seal of a directory back, so that its names can change again. Sealed files stay sealed. Needs the role of an
 * administrator of the path (-EACCES). -ENOTDIR: it is a file. */
int terrane_unseal(struct terrane *t, const char *path, const struct terrane_options *o);

/* --- quotas ------------------------------------------------------------------------------------- */

#define TERRANE_QUOTA_PATH_MAX 2048

/* Limits of a directory, for everything below it, or of the tenant. 0 is no limit. */
struct terrane_quota {
	char path[TERRANE_QUOTA_PATH_MAX +
		  1];       /* where the directory was when the quota was set; tenant: "" */
	uint64_t id;        /* of the directory; tenant: 0 */
	uint64_t bytes_max; /* limit of the sizes of files; tenant: of stored bytes */
	uint64_t files_max; /* limit of the number of files and directories */
	/* used; more for some minutes after files were replaced or calls failed */
	uint64_t used_bytes, used_files;
	uint64_t
		counted_ns; /* time of the last count; 0: not counted yet, nothing is refused; tenant: 0 */
	bool hidden;        /* the caller may not look at the directory: only id is set */
	/* tenant: stored bytes of deleted files, which still take space and do not count; directory: 0 */
	uint64_t waiting_bytes;
	uint64_t reserved[1];
};

/* Sets the quota of a directory; both limits 0: removes it (-ENOENT: it has none). From then on, calls that add files or
 * bytes beyond it fail with -EDQUOT. Needs the role of an administrator of the directory above (-EACCES). Returns 1 if
 * the tree was not counted in time: the quota holds after the servers' next count. -ENOTDIR; -ENAMETOOLONG: the path is
 * longer than TERRANE_QUOTA_PATH_MAX; -ENOSPC: the tenant has too many quotas. */
int terrane_quota_set(struct terrane *t, const char *path, uint64_t bytes_max, uint64_t files_max,
		      const struct terrane_options *o);

#define TERRANE_QUOTA_ALL 1U    /* of all directories of the tenant */
#define TERRANE_QUOTA_TENANT 2U /* the tenant's, also if it has no limits */

/* Returns the quotas that limit a directory: its own and those above, nearest first, then the tenant's, if it has limits;
 * with TERRANE_QUOTA_ALL (path "/") all of the tenant. At most max are stored; returns their number. What the tenant uses is
 * 0 if the caller may not look at the root. */
int64_t terrane_quota_list(struct terrane *t, const char *path, unsigned flags,
			   struct terrane_quota *out, size_t max, const struct terrane_options *o);

#define TERRANE_NAME_MAX 255

struct terrane_entry {
	char name[TERRANE_NAME_MAX + 1];
	uint64_t id;
	enum terrane_kind kind;
	bool sealed;
	uint16_t has;  /* TERRANE_HAS_: which of mode, uid and gid have a value */
	uint64_t size; /* length in bytes; exact for sealed files, may be stale for logs */
	uint64_t mtime_ns;
	uint32_t mode, uid, gid;
	uint32_t user_attributes; /* number of user attributes */
};

/* Position in the listing of a directory. Zeroed: the beginning. */
struct terrane_cursor {
	uint8_t private_[320];
};

/* Lists up to max entries of a directory, sorted by name unless it is very large, and advances
 * the cursor. Returns their number; 0: the end. Entries that exist during the whole listing are
 * listed exactly once. */
int64_t terrane_list(struct terrane *t, const char *path, struct terrane_cursor *at,
		     struct terrane_entry *out, size_t max, const struct terrane_options *o);
int64_t terrane_list_id(struct terrane *t, uint64_t dir_id, struct terrane_cursor *at,
			struct terrane_entry *out, size_t max, const struct terrane_options *o);

/* --- attributes ------------------------------------------------------------------------------- */

/*
 * Files and directories have attributes: permission bits, owner, time of the last change, and user attributes, which are
 * bytes under names of the user. They are kept and shown; access is decided by identities and grants. A rename, a move and
 * a copy keep them, the replacement of a file does not. The root has none.
 */
enum terrane_has {
	TERRANE_HAS_MODE = 1,
	TERRANE_HAS_UID = 2,
	TERRANE_HAS_GID = 4,
	TERRANE_HAS_MTIME = 8,
};

#define TERRANE_ATTRIBUTES_MAX 64 /* user attributes of one object */
#define TERRANE_ATTRIBUTE_NAME_MAX \
	127 /* bytes of a name, which is UTF-8 without control characters */
#define TERRANE_ATTRIBUTE_BYTES_MAX 4096 /* bytes of all names and values of one object */
#define TERRANE_ATTRIBUTES_BYTES 8192 /* a buffer that is large enough for terrane_attributes_get */

struct terrane_attribute {
	const char *name;
	const void *value; /* any bytes; NULL in a change: the attribute is removed */
	size_t len;
};

struct terrane_attributes {
	uint32_t set;  /* TERRANE_HAS_: which of the next fields have a value */
	uint32_t mode; /* 0 to 07777 */
	uint32_t uid, gid;
	uint64_t mtime_ns;
	const struct terrane_attribute *user; /* in any order, each name once */
	uint64_t user_count;
	uint64_t reserved[4];
};

/* Reads all attributes of a path. out->user, its names and its values are in buf. Names are sorted. -EINVAL: the root;
 * -ERANGE: buf is too small. */
int terrane_attributes_get(struct terrane *t, const char *path, struct terrane_attributes *out,
			   void *buf, size_t size, const struct terrane_options *o);

/* Changes what change->set names, sets or removes the user attributes of change->user, and leaves all others: everything
 * or nothing. -EFBIG: too many user attributes, or too many bytes; -ENAMETOOLONG, -EILSEQ, -EINVAL: a name or value is
 * invalid, or the path is the root; -EROFS: its directory is sealed; -ESTALE: another object got the name during the call. */
int terrane_attributes_set(struct terrane *t, const char *path,
			   const struct terrane_attributes *change,
			   const struct terrane_options *o);

/* --- writing ---------------------------------------------------------------------------------- */

enum terrane_create_flags {
	TERRANE_REPLACE = 1, /* closing the file replaces an existing file of that name */
	TERRANE_LOG = 2,     /* create a log: appends are stored by a quorum and visible at once */
};

/* Creates a file for writing. encoding, block_bytes, quorum, extra_disks, blocks_in_flight,
 * media, traffic and tags of o apply to the file. -EEXIST, -EISDIR, -EROFS (sealed directory),
 * -EINVAL: the encoding is invalid; -ENOSPC: fewer disks of the media accept new data than the
 * encoding needs, or the cluster has so few racks that one rack would get more chunks of a
 * block than the encoding tolerates to lose. The error text has the numbers. A sealed file gets its
 * name when it is closed: in a directory that this client knows already, terrane_create sends no
 * request, and a taken name (-EEXIST, -EISDIR) or a missing directory (-ENOENT) is an error of
 * terrane_append, once the file has filled a block, or else of terrane_file_close. */
int terrane_create(struct terrane *t, const char *path, unsigned flags, struct terrane_file **out,
		   const struct terrane_options *o);

/* Opens a log for append: takes the write token and ends the open block of the previous
 * writer. -EROFS: the file is sealed; -EISDIR; -ENODATA: no replica of the log's last block is
 * reachable. */
int terrane_append_open(struct terrane *t, const char *path, struct terrane_file **out,
			const struct terrane_options *o);

/* Appends bytes. Files from terrane_create: returns when the bytes are copied; the error of an
 * earlier block is returned here or by the close. Logs: returns when the bytes are durable and
 * readable. -ESTALE: another writer took over the log, or the file belongs to the parent
 * process; -EDQUOT; -ENOSPC: too few disks accept chunks, the error text has the numbers;
 * -EBADMSG: the bytes do not match their checksum; -EBADF: not open for writing. After an error
 * a log must be opened again, and any other file can only be discarded. */
int terrane_append(struct terrane_file *f, const void *data, size_t len,
		   const struct terrane_options *o);
int terrane_appendv(struct terrane_file *f, const struct iovec *iov, int n,
		    const struct terrane_options *o);

/* Waits until all appended bytes are durable. Ends the current block of a file that is not a
 * log, which wastes space when done often. Errors of terrane_append. */
int terrane_flush(struct terrane_file *f, const struct terrane_options *o);

/* Closes a file and frees f, also after an error. A file that is not a log is flushed, sealed
 * and made visible: 0 means that this is durable. After an error it is not visible (-ETIME,
 * -EHOSTUNREACH: it may become visible). Errors of terrane_create and terrane_append;
 * -EEXIST: the name is taken. */
int terrane_file_close(struct terrane_file *f, const struct terrane_options *o);

/* Frees f without making the file visible; bytes that were appended to a log stay. */
void terrane_file_discard(struct terrane_file *f);

struct terrane_small {
	/* name in the directory, or a path below it: "a.jpg", "n01440764/a.jpg" */
	const char *name;
	const void *data;
	size_t len;
	const uint32_t *crc32c; /* CRC-32C taken by the application; NULL: none */
	int result;             /* result of this file: 0 or an error */
	uint64_t id;            /* id of the new file, when result is 0 */
	const struct terrane_attributes *attributes; /* NULL: none */
	uint64_t reserved[1];
};

/* Writes many small files in one call, in dir and in any directories below it, which must exist.
 * The files share blocks in their order, are encoded together, and each becomes visible
 * completely. Files of one directory cost one request per 1000 files; files of several
 * directories cost at least one request per directory, several at once. Returns 0 when all files
 * are durable and visible, else an error; files[i].result is the result of each. A taken name or
 * a missing directory affects only its files. Any other error ends the call and is returned;
 * files that were not tried have -ECANCELED, and files that were created stay. flags:
 * TERRANE_REPLACE. Errors of terrane_create and terrane_append; -EFBIG: a file is larger than a
 * block. */
int terrane_pack(struct terrane *t, const char *dir, struct terrane_small *files, size_t n,
		 unsigned flags, const struct terrane_options *o);

/* --- reading ---------------------------------------------------------------------------------- */

/* Open a file for reading, by path or by id. -EISDIR. Opening by id reads no directory;
 * -ENOENT: the file was removed. */
int terrane_file_open(struct terrane *t, const char *path, struct terrane_file **out,
		      const struct terrane_options *o);
int terrane_file_open_id(struct terrane *t, uint64_t id, struct terrane_file **out,
			 const struct terrane_options *o);

/* Returns the attributes of an open file, like terrane_stat. The size of a file open for
 * writing includes all bytes that were appended. */
int terrane_file_stat(struct terrane_file *f, struct terrane_stat *out,
		      const struct terrane_options *o);

/* Reads bytes. Returns their number; fewer than asked only at the end of the file. -EBADMSG,
 * -EIO: all copies of the bytes are damaged; -ENODATA: too few chunks are left or reachable;
 * -EBUSY: the bytes must be reconstructed and the budget for that is used up: try again later;
 * -EBADF: the file is open for writing. */
int64_t terrane_pread(struct terrane_file *f, void *buf, size_t len, uint64_t offset,
		      const struct terrane_options *o);
/* Reads one range of the file into the pieces, in order. */
int64_t terrane_preadv(struct terrane_file *f, const struct iovec *iov, int n, uint64_t offset,
		       const struct terrane_options *o);

/* --- operations on images, done by the storage node that has them ----------------------------- */

enum {
	TERRANE_PREP_RAW,    /* the file as it is stored */
	TERRANE_PREP_CUT,    /* a JPEG file with what the crop needs of it */
	TERRANE_PREP_PIXELS, /* the resized crop: R, G, B of each pixel */
};

/* An operation on a range that is a whole JPEG file: a crop of the image, resized. The library asks the node that has the
 * bytes for the form; the result may always be TERRANE_PREP_RAW, and terrane_prep_finish makes the same pixels of every
 * form. docs/prep.md says when this pays. */
struct terrane_prep {
	uint32_t form;
	uint32_t x, y, width, height;   /* the crop, in pixels of the image */
	uint32_t out_width, out_height; /* the size after resizing, 1 to 4096 */
	/* Results: */
	uint32_t got;           /* form of the bytes in the buffer */
	uint32_t reason;        /* why they are as stored: see terrane_prep_reason */
	uint32_t source_crc32c; /* CRC-32C of the file, as the node read it */
	uint32_t crc32c;        /* CRC-32C of the bytes in the buffer */
	uint32_t got_x, got_y;  /* the crop in the file of TERRANE_PREP_CUT */
	uint32_t reserved;
	uint64_t bytes;   /* in the buffer */
	uint64_t node;    /* number of the node that has the file; 0: several or not known */
	uint64_t node_ns; /* processor time that the operation took there */
};

/* Makes the resized crop of the bytes of a range that was read with an operation. `pixels` gets out_width * out_height * 3
 * bytes. -EBADMSG: not a JPEG file, or a damaged one; -ENOTSUP: a kind of JPEG file that the library does not take, such
 * as CMYK or one that EXIF rotates; -EFBIG: over a limit of pixels or memory; -EINVAL: the crop is outside the image;
 * -ENOMEM. */
int terrane_prep_finish(const struct terrane_prep *p, const void *bytes, size_t len, void *pixels);
/* Returns the text of a reason, such as "busy". */
const char *terrane_prep_reason(uint32_t reason);

/* --- batches of ranges ------------------------------------------------------------------------ */

/* One range of a batch. The file is `file` if that is not NULL, else the file with the id `id`
 * if that is not 0, else the file at `path`. */
struct terrane_range {
	struct terrane_file *file;
	uint64_t id;
	const char *path;
	uint64_t offset;
	size_t len;
	void *buf;
	int64_t result;  /* bytes read, fewer than len only at the end of the file, or an error */
	uint32_t crc32c; /* CRC-32C of the bytes that were read */
	void *user;
	uint64_t private_[2];
	/* An operation on the range, which is a whole file; NULL: none. `result` are the bytes of its result. */
	struct terrane_prep *prep;
	/* SHA-256 of the bytes of the range, 32 bytes that stay until the range has ended; NULL: not known. A hint with which
	 * cache nodes can keep equal ranges of several files once: a wrong one costs time only. */
	const unsigned char *sha256;
};

/* Reads all ranges, in any order and many at once. Returns 0, or the first error of any range. */
int terrane_read_batch(struct terrane *t, struct terrane_range *ranges, size_t n,
		       const struct terrane_options *o);

/* Reads a batch of ranges and returns the ranges one by one: in their order, or with in_order
 * false in the order in which they end. terrane_batch_next waits for the next range and
 * returns 1, or 0 when all ranges were returned; each range has its own result.
 * terrane_batch_close cancels the ranges that have not ended, and returns when the library
 * does not write to their buffers any more. */
struct terrane_batch;
int terrane_batch_open(struct terrane *t, struct terrane_range *ranges, size_t n, bool in_order,
		       struct terrane_batch **out, const struct terrane_options *o);
int terrane_batch_next(struct terrane_batch *b, struct terrane_range **out);
void terrane_batch_close(struct terrane_batch *b);

/* Returns the CRC-32C (Castagnoli) of data that follows data with checksum crc; start with 0. */
uint32_t terrane_crc32c(uint32_t crc, const void *data, size_t len);

/* --- placement models ------------------------------------------------------------------------- */

/*
 * A model says, before a file is written, how much it would gain from flash: its category. Models are trained with
 * `terrane placement train`; a program may use several. No cluster is needed. All functions may be called by several
 * threads; a category takes microseconds.
 *
 *     struct terrane_feature f[] = {{.name = "n_workers", .number = 16}, {.name = "s_pipeline", .text = "daily-join"}};
 *     int category = terrane_model_category(m, (double)time(NULL), f, 2);
 *     options.placement_category = category < 0 ? 0 : (uint32_t)category + 1;     // 0: not known
 */
struct terrane_model;

#define TERRANE_FEATURES_MAX 96

/* A feature by the name of its column in the training trace. Names that the model does not know are ignored. */
struct terrane_feature {
	const char *name;
	const char *text; /* value of an s_ column; NULL: an n_ column */
	double number;    /* value of an n_ column; NAN: missing */
	uint64_t reserved;
};

/* What a job did to its files. */
struct terrane_outcome {
	double start_s, end_s;                             /* end_s > start_s >= 0 */
	uint64_t size_bytes;                               /* peak of the bytes kept, above 0 */
	uint64_t read_bytes, reads, written_bytes, writes; /* each at most 2^60 */
	uint64_t reserved[2];
};

/* Opens a model file. -EBADMSG: not a model, or damaged; -EPROTONOSUPPORT: of another version; -EINVAL: breaks a rule of
 * the format, or is no regular file; the errors of open(2). */
int terrane_model_open(struct terrane_model **out, const char *path);
void terrane_model_close(struct terrane_model *m);

/* Reads the file again if it was replaced. Returns 1 if there is a new model, 0 if not, or the errors of
 * terrane_model_open; after an error the old model stays in use. */
int terrane_model_reload(struct terrane_model *m);

/* Returns the category of a job that starts at a time (seconds since 1970), 0 to 63; -EINVAL for more than
 * TERRANE_FEATURES_MAX features or a name that is NULL. */
int terrane_model_category(struct terrane_model *m, double start_s,
			   const struct terrane_feature *features, size_t n);

/* Tells what a job with these features did, when it has ended: the history of its pipeline is a feature of later jobs.
 * -EINVAL as above, or for an outcome out of range. */
int terrane_model_ended(struct terrane_model *m, const struct terrane_feature *features, size_t n,
			const struct terrane_outcome *o);

/* --- training jobs ---------------------------------------------------------------------------- */

/*
 * The registry of training jobs tells the caches what will be read, by whom and in which order. Registering is optional,
 * and nothing that must be right depends on it: a wrong spec makes reads slower, not wrong.
 *
 * A job chooses its id and sets it as options.job_id of its reads. It counts until terrane_job_end, or until its lease ends
 * without a report; a report renews the lease. Ids are those of the tenant: two jobs that run cannot share one.
 */
enum terrane_job_order {
	TERRANE_ORDER_STRICT = 1, /* a function of the seed */
	TERRANE_ORDER_WINDOW = 2, /* windows that jobs share, each permuted by the job's seed */
	TERRANE_ORDER_FREE = 3,   /* whatever is in the cache next */
};

enum terrane_job_shuffle {
	TERRANE_SHUFFLE_SCAN = 1,   /* as stored */
	TERRANE_SHUFFLE_SEEDED = 2, /* follows from the seed */
	TERRANE_SHUFFLE_SECRET = 3, /* not known */
};

enum terrane_job_kind {
	TERRANE_JOB_ANY,
	TERRANE_JOB_DIRECTORY,
	TERRANE_JOB_FILE,
	TERRANE_JOB_DATASET
};

struct terrane_job_part {
	const char *path;
	enum terrane_job_kind kind; /* TERRANE_JOB_ANY: what the path leads to */
	uint32_t reserved_32;
	uint64_t id; /* set by terrane_job_get and _list: id of the directory or file */
};

/* A byte range of each file, in millionths of its length. */
struct terrane_job_range {
	uint32_t from, to;
};

struct terrane_job {
	uint64_t id;                          /* not 0 */
	const char *name;                     /* for people, up to 64 bytes; may be NULL */
	const struct terrane_job_part *parts; /* in the order in which it reads them; 1 to 1024 */
	size_t part_count;
	const struct terrane_job_range *ranges; /* rising, apart; none: whole files */
	size_t range_count;
	const char *const *columns; /* names of parts of samples; none: all */
	size_t column_count;
	uint32_t readers; /* 0: 1 */
	uint32_t epochs;  /* 0: not known */
	uint32_t accelerators;
	enum terrane_job_order order;     /* 0: strict */
	enum terrane_job_shuffle shuffle; /* 0: secret */
	uint32_t reserved_32;
	uint64_t seed;
	uint64_t lease_ms; /* 1 s to 24 h; 0: 60 s */
	uint64_t bytes_s;  /* expected speed; 0: not known */
	uint64_t reserved[4];
};

/* Counters count from the beginning of the job. */
struct terrane_job_progress {
	uint64_t sequence; /* grows with each report: a report that is overtaken changes nothing */
	uint32_t epoch, part;
	uint64_t position,
		total; /* units (samples or bytes) of the part that were read in this epoch, of all */
	uint64_t steps;
	uint64_t compute_us,
		wait_us; /* time of steps, and time in which accelerators waited for data */
	uint64_t bytes, hit_bytes; /* read; of these, served by a cache */
	uint32_t window, windows; /* current window, and number of windows; 0: the order has none */
	uint64_t part_bytes;      /* bytes of the part; 0: not known */
	uint64_t reserved[3];
};

/* How much of a job's data set caches keep. */
enum terrane_job_keep {
	TERRANE_KEEP_ANY, /* as their policy likes */
	TERRANE_KEEP_NOTHING,
	TERRANE_KEEP_WINDOWS, /* two windows */
	TERRANE_KEEP_PART,
	TERRANE_KEEP_ALL
};

/* What the flash manager decided for a job. */
struct terrane_job_flash {
	uint64_t at_ms; /* since 1970 */
	enum terrane_job_keep keep;
	bool off;       /* nothing is kept for the job, because it gains nothing */
	bool probed;    /* it reads from the disks alone for some steps, to see what that costs */
	double share;   /* of the data set; of a part */
	uint64_t bytes; /* of flash, for the data set */
	double hit_s, miss_s; /* time of a step with and without a cache; 0: not known */
	double saved;         /* accelerators that the data set's share of flash frees */
	const char *why;
};

struct terrane_job_info {
	struct terrane_job job;
	const char *owner; /* identity that added it; "" without identities */
	bool active, ended;
	uint64_t left_ms;               /* rest of the lease */
	uint64_t added_ms, reported_ms; /* since 1970; 0: never */
	struct terrane_job_progress progress;
	/* From the last two reports; 0 before: */
	double steps_s, bytes_s;
	double wait_share; /* of the time of steps: accelerators waited for data */
	double hit_share;  /* of the bytes: served by a cache */
	double done_share; /* of all epochs; of the current one if their number is not known */
	const struct terrane_job_flash *flash; /* NULL: no manager has decided yet */
	uint64_t reserved[3];
};

/* Adds a job, or renews the lease of the same job. -ENOENT, -ENOTDIR, -EISDIR: a part does not exist, or is something else;
 * -EACCES: the identity may not read it; -EEXIST: another job that counts has this id; -ENOSPC: too many jobs. */
int terrane_job_add(struct terrane *t, const struct terrane_job *job,
		    const struct terrane_options *o);
/* Reports progress (NULL: none) and renews the lease, also one that ran out. -ENOENT: no such job of this identity;
 * -ESTALE: it has ended. */
int terrane_job_report(struct terrane *t, uint64_t id, const struct terrane_job_progress *p,
		       const struct terrane_options *o);

/* A window that a job is about to enter, of those that all jobs of a data set share. */
struct terrane_job_window {
	uint64_t set;     /* names the version of the data set: its fingerprint */
	uint32_t windows; /* of the data set */
	uint32_t
		window; /* in: the one that the job would enter by itself; out: the one that it enters */
	uint32_t epoch;
	bool begins; /* the first one of the epoch: the job joins the others, and may begin in another window */
	bool force; /* the job has waited long enough */
	bool wait;  /* out: other jobs are two windows behind; ask again a little later */
	uint64_t reserved[4];
};
/* Asks in which window a job goes on, so that jobs of like pace stay in the same two windows. The answer for the first window
 * of an epoch is the same whenever it is asked, for all ranks of the job. -ENOENT: no such job of this identity; -ESTALE: it
 * has ended; -EINVAL: there is no such window. */
int terrane_job_enter(struct terrane *t, uint64_t id, struct terrane_job_window *w,
		      const struct terrane_options *o);
/* Ends a job: it stops counting at once. -ENOENT. */
int terrane_job_end(struct terrane *t, uint64_t id, const struct terrane_options *o);
/* Removes a job from the registry. Returns 0 also if there is none. */
int terrane_job_remove(struct terrane *t, uint64_t id, const struct terrane_options *o);
/* Returns a job, which terrane_job_free frees. -ENOENT. */
int terrane_job_get(struct terrane *t, uint64_t id, struct terrane_job_info **out,
		    const struct terrane_options *o);
/* Lists up to max jobs with ids above `after` in the order of ids, also those that no longer count. Returns their number;
 * 0: there are no more. */
int64_t terrane_job_list(struct terrane *t, uint64_t after, struct terrane_job_info **out,
			 size_t max, const struct terrane_options *o);
void terrane_job_free(struct terrane_job_info *info); /* may be NULL */

/* --- asynchronous variants -------------------------------------------------------------------- */

/* Each function starts the call that has its name without _start and returns 0. op->result
 * receives the result of the call. If the call cannot be started the function returns an error
 * and op does not complete: -EINVAL, -ENOMEM, -ESHUTDOWN. */
int terrane_stat_start(struct terrane *t, const char *path, struct terrane_stat *out,
		       const struct terrane_options *o, struct terrane_op *op);
int terrane_stat_id_start(struct terrane *t, uint64_t id, struct terrane_stat *out,
			  const struct terrane_options *o, struct terrane_op *op);
int terrane_attributes_get_start(struct terrane *t, const char *path,
				 struct terrane_attributes *out, void *buf, size_t size,
				 const struct terrane_options *o, struct terrane_op *op);
int terrane_attributes_set_start(struct terrane *t, const char *path,
				 const struct terrane_attributes *change,
				 const struct terrane_options *o, struct terrane_op *op);
int terrane_mkdir_start(struct terrane *t, const char *path, unsigned flags,
			const struct terrane_options *o, struct terrane_op *op);
int terrane_rename_start(struct terrane *t, const char *from, const char *to,
			 const struct terrane_options *o, struct terrane_op *op);
int terrane_copy_start(struct terrane *t, const char *from, const char *to, unsigned flags,
		       const struct terrane_options *o, struct terrane_op *op);
int terrane_remove_start(struct terrane *t, const char *path, const struct terrane_options *o,
			 struct terrane_op *op);
int terrane_seal_start(struct terrane *t, const char *path, const struct terrane_options *o,
		       struct terrane_op *op);
int terrane_unseal_start(struct terrane *t, const char *path, const struct terrane_options *o,
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
int terrane_job_add_start(struct terrane *t, const struct terrane_job *job,
			  const struct terrane_options *o, struct terrane_op *op);
int terrane_job_end_start(struct terrane *t, uint64_t id, const struct terrane_options *o,
			  struct terrane_op *op);
int terrane_job_enter_start(struct terrane *t, uint64_t id, struct terrane_job_window *w,
			    const struct terrane_options *o, struct terrane_op *op);
int terrane_job_report_start(struct terrane *t, uint64_t id, const struct terrane_job_progress *p,
			     const struct terrane_options *o, struct terrane_op *op);
int terrane_read_batch_start(struct terrane *t, struct terrane_range *ranges, size_t n,
			     const struct terrane_options *o, struct terrane_op *op);

#ifdef __cplusplus
}
#endif

#endif
