// SPDX-License-Identifier: Apache-2.0
/*
 * The client as plain code in fibers: what include/terrane/terrane.h promises, without threads. The
 * whole of it runs on one loop, in the real world and in the simulator; lib.c puts the thread
 * around it.
 *
 * Every function waits, takes the struct call of the request (who asks, options, words of the
 * failure) and returns what its public namesake does. Arguments are borrowed until it returns.
 */
#ifndef CLIENT_ENGINE_H
#define CLIENT_ENGINE_H

#include <terrane/terrane.h>

#include "client/fabric.h"
#include "cluster/cluster.h"
#include "meta_client/meta_client.h"

struct efile; /* an open file */

struct engine_options {
	const char *metadata;      /* addresses with commas between */
	struct cluster_id cluster; /* zeroes: any */
	const char *tenant;
	const char *traffic_group;
	enum traffic_class traffic_class;
	uint64_t connect_timeout_ns; /* of the first contact; 0: 3 s */
	const char *encoding;        /* of files that name none; NULL: rs:4+2 */
	uint64_t block_bytes;        /* of files that name none; 0: 64 MiB */
	struct fabric_options fabric;
};

/* Asks for the cluster map. why, of FABRIC_ERROR_MAX bytes, says what went wrong. */
int engine_open(struct engine **out, const struct engine_options *o, char *why);
/*
 * Opens an engine over a fabric and a metadata client of the caller, which outlive it; contacts no server. The services
 * use it for all tenants: a call of theirs names the tenant in its context and in call.tenant. metadata, cluster and
 * fabric of the options are not used.
 */
int engine_open_over(struct engine **out, const struct engine_options *o, struct fabric *f,
		     struct meta_client *meta, char *why);
/* No call may be under way, no file open; a borrowed fabric must be quiet (fabric_quiet). NULL is fine. */
void engine_close(struct engine *e);
void engine_stats(const struct engine *e, struct terrane_stats *out);
struct fabric *engine_fabric(struct engine *e);

/* Puts a tier in front of those that block reads go through; it belongs to the caller and must live until
 * engine_close has called its close slot. No read may be under way. */
struct block_tier;
void engine_tier_add(struct engine *e, struct block_tier *t);

/*
 * A call with its options (NULL: defaults): narrows the fiber's deadline to its timeout, and makes the fiber carry its
 * context from now on. What options cannot name, authorization and path, comes from the context that the fiber had.
 * -EINVAL, -EMSGSIZE (a traffic group that is too long), -ENOMEM, with words: the fiber carries what it did.
 */
int engine_call(struct engine *e, struct call *c, const struct terrane_options *o);

/* --- names ------------------------------------------------------------------------------------ */

int engine_stat(struct call *c, const char *path, struct terrane_stat *out);
int engine_stat_id(struct call *c, uint64_t id, struct terrane_stat *out);
int engine_mkdir(struct call *c, const char *path, unsigned flags);
int engine_rename(struct call *c, const char *from, const char *to);
int engine_remove(struct call *c, const char *path);
int engine_seal(struct call *c, const char *path, const struct terrane_options *o);
int64_t engine_list(struct call *c, const char *path, struct terrane_cursor *at,
		    struct terrane_entry *out, size_t max);
int64_t engine_list_id(struct call *c, uint64_t dir, struct terrane_cursor *at,
		       struct terrane_entry *out, size_t max);

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

/* crc: the application's own of all bytes, or NULL. */
int engine_append(struct call *c, struct efile *f, const struct iovec *iov, int n,
		  const uint32_t *crc);
int engine_flush(struct call *c, struct efile *f);
/* Frees f, always. */
int engine_file_close(struct call *c, struct efile *f);
/* An append was refused before it was begun, and those behind it must not close the gap: the file can
 * only be discarded. */
void engine_file_poison(struct efile *f, int rc);
/* Waits for what is in flight; frees f. */
void engine_file_discard(struct efile *f);

int64_t engine_preadv(struct call *c, struct efile *f, const struct iovec *iov, int n,
		      uint64_t offset, uint32_t *crc);

/* --- many at once ----------------------------------------------------------------------------- */

struct engine_range {
	struct efile *file; /* else by id, else by path */
	uint64_t id;
	const char *path;
	uint64_t offset;
	size_t len;
	void *buf;
	int64_t result;
	uint32_t crc;
	void *user;
};

/* done is called in a fiber for each range as it comes; may be NULL. 0, or the first error of
 * any. */
int engine_read_batch(struct call *c, struct engine_range *ranges, size_t n,
		      void (*done)(void *ctx, struct engine_range *r), void *ctx);

int engine_pack(struct call *c, const char *dir, struct terrane_small *files, size_t n,
		unsigned flags, const struct terrane_options *o);

/* --- for the background services ---------------------------------------------------------------- */

/* Gives a sealed block another encoding on the same media, unless it has that. b: its record. -ENOENT, -ESTALE: the block was deleted, or
 * its record changed since it was read; -EBUSY: it is not sealed. */
int engine_block_reencode(struct call *c, const struct meta_block *b, const char *encoding);

#define ENGINE_COMPACT_MAX 256
struct engine_compacted {
	uint64_t bytes;     /* of the new block; 0: nothing lived */
	uint64_t extents;   /* that lie there now */
	uint64_t overtaken; /* that were changed or deleted meanwhile */
};
/* Copies what files own of blocks of one tenant, encoding and media to a new block of these; the collector takes the
 * old ones. b: their records. Blocks of another encoding or media than the first, and those not sealed, are left. -EFBIG: the files own more
 * than fits into a block. */
int engine_compact(struct call *c, const struct meta_block *b, size_t n,
		   struct engine_compacted *out);

#endif
