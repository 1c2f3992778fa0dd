// SPDX-License-Identifier: Apache-2.0
/* The client as straight-line code in fibers: implements include/terrane/terrane.h without
 * threads. An engine runs on one loop, in the real world and in the simulator; lib.c runs it on
 * a thread of its own. Every function waits, takes the struct call of the request (options and
 * error text; the fiber carries the context) and returns what its public namesake returns.
 * Arguments are borrowed until it returns. */
#ifndef CLIENT_ENGINE_H
#define CLIENT_ENGINE_H

#include <terrane/terrane.h>

#include "client/fabric.h"
#include "cluster/cluster.h"
#include "meta_client/meta_client.h"

struct efile; /* an open file */
struct cache_tier_options;

struct engine_options {
	const char *metadata;      /* comma-separated addresses of the metadata servers */
	struct cluster_id cluster; /* id of the expected cluster; zeros: any cluster */
	const char *tenant;
	const char *traffic_group;
	enum traffic_class traffic_class;
	/* timeout of the first contact with a metadata server; 0: 3 s */
	uint64_t connect_timeout_ns;
	const char *encoding; /* encoding of files whose options name none; NULL: rs:4+2 */
	uint64_t block_bytes; /* block size of files whose options name none; 0: 64 MiB */
	unsigned loops;       /* loops that move, check and decode data; 0: only the caller's */
	/* reads of sealed blocks go to the cluster's cache nodes first (cache_tier.h); NULL: to the disks */
	const struct cache_tier_options *cache;
	struct fabric_options fabric;
};

/* Opens an engine and gets the cluster map. why, of FABRIC_ERROR_MAX bytes, receives the error
 * text. */
int engine_open(struct engine **out, const struct engine_options *o, char *why);
/* Opens an engine over a fabric and a metadata client of the caller, which outlive it; contacts
 * no server. The services use one engine for all tenants: their calls name the tenant in the
 * context and in call.tenant. Ignores metadata, cluster and fabric of the options. */
int engine_open_over(struct engine **out, const struct engine_options *o, struct fabric *f,
		     struct meta_client *meta, char *why);
/* Closes the engine. No call may be running and no file open; a borrowed fabric must be quiet
 * (fabric_quiet). e may be NULL. */
void engine_close(struct engine *e);
void engine_stats(const struct engine *e, struct terrane_stats *out);
struct fabric *engine_fabric(struct engine *e);

/* Adds a tier in front of the tiers of block reads. The caller owns it and keeps it until
 * engine_close has called its close slot. No read may be running. */
struct block_tier;
void engine_tier_add(struct engine *e, struct block_tier *t);

/* Begins a call with its options (NULL: defaults): narrows the deadline of the fiber to the
 * timeout and gives the fiber a context made of the options and the engine's own. Authorization
 * and path are taken from the context that the fiber had. -EINVAL, -EMSGSIZE (the traffic group
 * is too long), -ENOMEM, with an error text: the fiber keeps its context. */
int engine_call(struct engine *e, struct call *c, const struct terrane_options *o);

/* --- names ------------------------------------------------------------------------------------ */

int engine_stat(struct call *c, const char *path, struct terrane_stat *out);
int engine_stat_id(struct call *c, uint64_t id, struct terrane_stat *out);
int engine_mkdir(struct call *c, const char *path, unsigned flags);
int engine_rename(struct call *c, const char *from, const char *to);
int engine_copy(struct call *c, const char *from, const char *to, unsigned flags);
int engine_remove(struct call *c, const char *path);
int engine_seal(struct call *c, const char *path, const struct terrane_options *o);
int engine_unseal(struct call *c, const char *path);
int engine_quota_set(struct call *c, const char *path, uint64_t bytes_max, uint64_t files_max);
int64_t engine_quota_list(struct call *c, const char *path, unsigned flags,
			  struct terrane_quota *out, size_t max);
int64_t engine_list(struct call *c, const char *path, struct terrane_cursor *at,
		    struct terrane_entry *out, size_t max);
int64_t engine_list_id(struct call *c, uint64_t dir, struct terrane_cursor *at,
		       struct terrane_entry *out, size_t max);

/* --- training jobs: jobs.c ---------------------------------------------------------------------- */

int engine_job_add(struct call *c, const struct terrane_job *job);
int engine_job_report(struct call *c, uint64_t id, const struct terrane_job_progress *p);
int engine_job_enter(struct call *c, uint64_t id, struct terrane_job_window *w);
int engine_job_end(struct call *c, uint64_t id);
int engine_job_remove(struct call *c, uint64_t id);
int engine_job_get(struct call *c, uint64_t id, struct terrane_job_info **out);
int64_t engine_job_list(struct call *c, uint64_t after, struct terrane_job_info **out, size_t max);

/* --- files ------------------------------------------------------------------------------------ */

int engine_create(struct call *c, const char *path, unsigned flags, const struct terrane_options *o,
		  struct efile **out);
int engine_append_open(struct call *c, const char *path, const struct terrane_options *o,
		       struct efile **out);
int engine_file_open(struct call *c, const char *path, struct efile **out);
int engine_file_open_id(struct call *c, uint64_t id, struct efile **out);
uint64_t engine_file_id(const struct efile *f);
bool engine_file_writes(const struct efile *f);
int engine_file_stat(struct call *c, struct efile *f, struct terrane_stat *out);

/* Appends the n pieces of iov. crc: CRC-32C of all bytes, computed by the application; NULL:
 * none. */
int engine_append(struct call *c, struct efile *f, const struct iovec *iov, int n,
		  const uint32_t *crc);
int engine_flush(struct call *c, struct efile *f);
/* Closes the file and frees f, also after an error. */
int engine_file_close(struct call *c, struct efile *f);
/* Makes all later appends, flushes and the close of the file fail with rc: an append was
 * refused, and later ones must not close the gap. */
void engine_file_poison(struct efile *f, int rc);
/* Frees f without making the file visible, after waiting for its running block writes. What
 * readers see already stays, such as appends to a log. */
void engine_file_discard(struct efile *f);

int64_t engine_preadv(struct call *c, struct efile *f, const struct iovec *iov, int n,
		      uint64_t offset, uint32_t *crc);

/* --- many at once ----------------------------------------------------------------------------- */

struct engine_range {
	struct efile *file; /* an open file; NULL: the file is given by id, or by path if id is 0 */
	uint64_t id;
	const char *path;
	uint64_t offset;
	size_t len;
	void *buf;
	int64_t result;
	uint32_t crc;
	void *user;
	struct terrane_prep *prep; /* as in struct terrane_range */
	const uint8_t *sha256;     /* as in struct terrane_range */
};

/* Reads all ranges. done is called in a fiber for each range when it has ended; may be NULL.
 * Returns 0, or the first error of any range. */
int engine_read_batch(struct call *c, struct engine_range *ranges, size_t n,
		      void (*done)(void *ctx, struct engine_range *r), void *ctx);

int engine_pack(struct call *c, const char *dir, struct terrane_small *files, size_t n,
		unsigned flags, const struct terrane_options *o);

/* --- for the background services ---------------------------------------------------------------- */

/* Gives a sealed block another encoding on the same media, unless it has that encoding. b: the
 * block's record. -ENOENT, -ESTALE: the block was deleted, or its record was changed since it
 * was read; -EBUSY: the block is not sealed. */
int engine_block_reencode(struct call *c, const struct meta_block *b, const char *encoding);

#define ENGINE_COMPACT_MAX 256
struct engine_compacted {
	uint64_t bytes;     /* length of the new block; 0: no file uses the blocks */
	uint64_t extents;   /* extents that were remapped to the new block */
	uint64_t overtaken; /* extents not remapped, because their file was changed or deleted */
};
/* Copies the bytes that files use of n blocks of one tenant to a new block of the same
 * encoding and media; the collector deletes the old blocks. b: their n records, at most
 * ENGINE_COMPACT_MAX. Blocks of another encoding or media than the first, and blocks that are
 * not sealed, are skipped. -EFBIG: the files use more bytes than fit into a block. */
int engine_compact(struct call *c, const struct meta_block *b, size_t n,
		   struct engine_compacted *out);

#endif
