// SPDX-License-Identifier: Apache-2.0
/* Private declarations of the engine, shared by its files. */
#ifndef CLIENT_ENGINE_IMPL_H
#define CLIENT_ENGINE_IMPL_H

#include <assert.h>

#include "base/strbuf.h"
#include "client/block_read.h"
#include "client/block_tier.h"
#include "client/block_write.h"
#include "client/dir_hint.h"
#include "client/engine.h"
#include "meta_api/id.h"
#include "meta_client/meta_client.h"

struct cluster_choice;

#define ENGINE_NAME_MAX 64
#define ENGINE_BLOCK_MIN (64 * KIB)
#define ENGINE_BLOCK_MAX (64 * MIB)
#define ENGINE_MAP_AGE_NS (2 * NS_PER_S) /* age at which the cluster map is fetched again */

struct engine {
	struct fabric *fabric; /* &own_fabric, or the fabric of the caller of engine_open_over */
	struct meta_client *meta;
	bool borrows; /* fabric and meta belong to the caller of engine_open_over */
	struct fabric own_fabric;
	struct rt_team team;       /* the loops of own_fabric */
	const struct context *own; /* context of calls without options and of background fibers */
	struct shape shape;        /* shape of files whose options name no encoding */
	uint64_t block_bytes;
	struct dir_hints hints; /* directories of the engine's own tenant */
	struct list logs;       /* list of struct log: the logs that are open for append */
	struct block_tier disks;
	struct block_tier *tiers; /* the first tier; the disks are the last */
};

static inline struct engine *call_engine(const struct call *c)
{
	assert(c->fabric->engine != NULL);
	return c->fabric->engine;
}

/* --- engine.c --------------------------------------------------------------------------------- */

/* Prepares a request to the metadata service on behalf of the call. */
struct meta_call call_meta(struct call *c);
/* Writes "what: error of the service" to the call's error text if rc < 0; returns rc. */
int call_meta_fail(struct call *c, const struct meta_call *m, int rc, const char *what);
/* Begins a call of the engine itself: the fiber carries the engine's context from now on, and
 * nothing of a user's context. */
void engine_own_call(struct engine *e, struct call *c);
/* Returns in *out a reference to a context: `from`, with the tag of directory dir if `from` has
 * none and dir is not 0. -ENOMEM. */
int context_of_dir(const struct context **out, const struct context *from, uint64_t dir);
/*
 * Waits until the traffic group of the fiber's context may use the disks for `accesses` that move `bytes`, and makes the
 * fiber carry the class of the granted capacity. *before is for rt_context_leave, also after an error. -ETIME, -EAGAIN:
 * nothing was sent; -ECANCELED, -ENOMEM. Called once for what a user's call reads or writes, before it.
 */
int call_share(struct call *c, uint64_t accesses, uint64_t bytes, const struct context **before);
/* Looks up the tenant's number, unless it is known. Every chunk's label needs it: an orphan
 * without it would never be deleted. */
int engine_tenant(struct call *c);
/* Reads the tenant's record again: its setting of sharing may have changed. Errors of the metadata. */
int engine_tenant_again(struct call *c);
/* Gets the cluster map, fetching it if it is older than max_age_ns. */
int engine_map(struct call *c, uint64_t max_age_ns);
/* Returns the shape that the options name, else the engine's. -EINVAL with an error text. */
int engine_shape(struct call *c, const struct terrane_options *o, struct shape *out);
/* Returns the shape of an encoding given as text. -EINVAL with an error text. */
int engine_encoding(struct call *c, const char *text, struct shape *out);
/* Returns the block size that the options name, else the engine's. -EINVAL with an error text. */
int engine_block_bytes(struct call *c, const struct terrane_options *o, uint64_t *out);

/* --- names.c ---------------------------------------------------------------------------------- */

/* Splits a path before its last name, ignoring trailing slashes. name.len is 0 for the root.
 * Both results point into the path. */
void path_split(const char *path, struct meta_name *dir, struct meta_name *name);

/* The directory and name that a path leads to; an entry of that name may exist or not. */
struct dir_slot {
	uint64_t dir;
	struct meta_name name; /* points into the path */
	/* The metadata service was not asked: dir may be wrong unless it is the root, and the name may be taken. */
	bool guessed;
};
/* Finds the slot of a path. -EINVAL for the root; errors of resolving the directory. */
int dir_slot_find(struct call *c, const char *path, struct dir_slot *out);
/* Finds the slot of a path whose name must not be taken. -EEXIST, -EISDIR: the name is taken
 * by a file or directory. */
int dir_slot_find_free(struct call *c, const char *path, struct dir_slot *out);
/* Finds the slot of a path for a file that gets its name later: without a request if the directory was looked up
 * before. Errors of dir_slot_find, or of dir_slot_find_free if must_be_free is set. */
int dir_slot_guess(struct call *c, const char *path, bool must_be_free, struct dir_slot *out);

/* --- blocks.c --------------------------------------------------------------------------------- */

/* A full block that is written to disks and committed. */
struct block_new {
	const struct shape *shape;
	struct buf *data; /* memory whose first len bytes are the block */
	uint64_t len;
	uint32_t crc;
	/* bytes entered at the gate of writes: at least block_gate_bytes(shape, len) */
	uint64_t gate_bytes;
	const struct meta_owner *owners;
	size_t owner_count;
	uint64_t id;    /* set by block_create_take */
	bool fell_back; /* set by block_create_take: flash had no room */
	/* Not NULL: receives the record, which the caller commits. Its chunks array has room for
	 * the shape's n. */
	struct meta_block *uncommitted;
};

/* Returns the memory in bytes of a block of len bytes with its parities. */
uint64_t block_gate_bytes(const struct shape *s, uint64_t len);
/* Encodes, writes and commits a block. Takes over the reference to data and the bytes at the
 * gate. Writes to disk if flash has no room and the call allows it. */
int block_create_take(struct call *c, struct block_new *b);
/* Allocates the pending record of a new block and updates the known collector epoch. */
int block_record_allocate(struct call *c, struct meta_block *record);
/* Chooses disks for a block: the shape's n and up to `spare` more. -ENOSPC with numbers in the
 * error text: too few disks accept new data, or the cluster (offline nodes included) has too few
 * racks for the code. */
int block_choose_disks(struct call *c, const struct shape *s, enum cluster_media media,
		       uint64_t block, int spare, struct cluster_choice *out);
/* Returns the media that the call names; disk if it names none. */
enum cluster_media call_media(const struct call *c);
/* Returns whether a block that got rc on the media may go to disk instead: rc is -ENOSPC, the
 * media flash, and the call allows it. */
bool call_may_fall_back(const struct call *c, enum cluster_media media, int rc);
/* Checks that a new block of the call would find disks. Errors of block_choose_disks. */
int call_room(struct call *c, const struct shape *s);
/* Chooses disks and writes the coded chunks of a record (its chunk_block, media and epoch);
 * fills its chunks[n] with their disks. release_count: that of the record that will name the
 * chunks. Takes over and returns like block_write_take. */
int block_place_take(struct call *c, const struct shape *s, const struct meta_block *record,
		     uint64_t release_count, struct coded *coded, uint64_t gate_bytes);

/* --- place.c ---------------------------------------------------------------------------------- */

/* Sets the placement of a call that creates files: the category that the options name, or that of their model; the fiber
 * carries it. -EINVAL, with an error text. */
int call_placement(struct call *c, const struct terrane_options *o);
/* Writes the features of a call with a placement as text. -EINVAL, with an error text; -ENOMEM. */
int call_placement_features(struct call *c, const struct terrane_options *o, struct strbuf *out);
/* Tells the metadata service that a file of the call begins. Does nothing without a placement. */
void call_place_begin(struct call *c, uint64_t file, const struct strbuf *features);
/* Tells the metadata service of reads of a file whose blocks have a placement. */
void call_file_used(struct call *c, uint64_t file, uint64_t reads, uint64_t bytes);
/* Returns the media for a new block of this size on disks: the call's, or the decision of the metadata service. */
enum terrane_media call_place(struct call *c, uint64_t bytes);
/* Tells the metadata service that a block that it admitted to flash found no room there. */
void call_place_refused(struct call *c, uint64_t bytes);

/* --- tokens.c --------------------------------------------------------------------------------- */

/* Returns whether the call's requests to nodes need tokens. On the home loop. */
bool call_needs_tokens(const struct call *c);
/* Gets a token for new chunks on each of n disks. *out is for free(); NULL: none are needed. Errors of
 * meta_client_disk_tokens. */
int call_disk_tokens(struct call *c, const uint64_t *disks, size_t n,
		     uint8_t (**out)[META_TOKEN_BYTES]);
/* Gets tokens for the n replicas of an open block; zeros if none are needed. -ESTALE: it is not open any more, or of
 * another writer; -EACCES; errors of meta_client_block_get. */
int call_replica_tokens(struct call *c, uint64_t block, uint64_t epoch, size_t n,
			uint8_t out[][META_TOKEN_BYTES]);

/* --- locate.c --------------------------------------------------------------------------------- */

/* Reads bytes of a block from the disks: retries with fresh locations and reports bad chunks.
 * Only for the disk tier and for fsck, which checks the disks; all others use blocks_read(). */
int block_fetch(struct call *c, const struct meta_block *b, uint64_t off, uint64_t len,
		const struct sink *sink, uint32_t *crc);

/* --- files ------------------------------------------------------------------------------------ */

struct efile_ops {
	int (*append)(struct call *c, struct efile *f, const struct iovec *iov, int n,
		      const uint32_t *crc);
	int (*flush)(struct call *c, struct efile *f);
	int (*close)(struct call *c, struct efile *f);
	void (*discard)(struct efile *f);
	/* Makes all later operations fail with rc. NULL: the file cannot be written. */
	void (*poison)(struct efile *f, int rc);
	int (*stat)(struct call *c, struct efile *f, struct terrane_stat *out);
};

struct efile {
	const struct efile_ops *ops; /* append is NULL for a file open for reading */
	struct engine *engine;
	uint64_t id;
	uint64_t dir;
};

/* Creates a sealed file (sealed_writer.c). at: the slot of the path. */
int sealed_writer_create(struct call *c, const char *path, const struct dir_slot *at,
			 unsigned flags, const struct terrane_options *o, struct efile **out);
/* Create a log, and open an existing log for append (log.c). */
int elog_create(struct call *c, const struct dir_slot *at, unsigned flags,
		const struct terrane_options *o, struct efile **out);
int elog_open(struct call *c, const struct meta_entry *entry, const struct terrane_options *o,
	      struct efile **out);
/* Most replicas of a log's block (log_end.c). */
#define LOG_REPLICAS_MAX 16
/* Cuts all replicas of a block to len. When at least one is cut, the failed ones are reported.
 * Replicas marked doubtful (NULL: none) get only a short timeout, because appends wait for this
 * call. When none is cut: -ENODATA, or -ESTALE if another writer has raised the epoch. */
int elog_replicas_end(struct call *c, uint64_t block, uint64_t epoch, uint64_t len,
		      const uint64_t *disks, const bool *doubtful, int n);
/* Reports a failed replica of an open block, in the background. Does nothing if the block was
 * sealed or fenced since. */
void elog_replica_report(struct engine *e, uint64_t block, uint64_t epoch, int index,
			 uint64_t disk);
/* Stops the fibers of all open logs when the engine closes. Their handles still belong to the
 * caller. */
void elogs_stop(struct engine *e);
/* For tests: lists the open blocks of working logs, up to max. Returns their number. */
size_t elogs_blocks(const struct engine *e, uint64_t *out, size_t max);
/* Takes the write token of a file and ends the block that its last writer left open. *size:
 * length of the file. */
int elog_take_over(struct call *c, uint64_t file, uint64_t token, uint64_t *size);
/* Returns the length of the readable part of a file, its open block included. out may be NULL. */
int efile_size(struct call *c, uint64_t file, struct meta_file *out, uint64_t *size);

/* Re-encoding (reencode.c). */
/* Rewrites the blocks of a sealed file with the encoding `to` (NULL: each block keeps its
 * encoding) on the call's media (TERRANE_MEDIA_DEFAULT: each block keeps its media). */
int efile_reencode(struct call *c, uint64_t file, const struct shape *to);

#endif
