// SPDX-License-Identifier: Apache-2.0
/* Inside the engine: what its files share. */
#ifndef CLIENT_ENGINE_IMPL_H
#define CLIENT_ENGINE_IMPL_H

#include <assert.h>

#include "client/block_read.h"
#include "client/block_tier.h"
#include "client/block_write.h"
#include "client/engine.h"
#include "meta_api/id.h"
#include "meta_client/meta_client.h"

struct cluster_choice;

#define ENGINE_NAME_MAX 64
#define ENGINE_BLOCK_MIN (64 * KIB)
#define ENGINE_BLOCK_MAX (64 * MIB)
#define ENGINE_MAP_AGE_NS (2 * NS_PER_S) /* a map as old as this is asked for again */

struct engine {
	struct fabric *fabric; /* &own_fabric, or the caller's */
	struct meta_client *meta;
	bool borrows; /* fabric and meta are the caller's */
	struct fabric own_fabric;
	const struct context *own; /* of calls that name nothing, and of the background */
	struct shape shape;        /* of files that name none */
	uint64_t block_bytes;
	struct list logs; /* that are open for appends */
	struct block_tier disks;
	struct block_tier *tiers; /* the first; the disks are the last */
};

static inline struct engine *call_engine(const struct call *c)
{
	assert(c->fabric->engine != NULL);
	return c->fabric->engine;
}

/* --- engine.c --------------------------------------------------------------------------------- */

/* A request to the metadata service on behalf of the call. */
struct meta_call call_meta(struct call *c);
/* What the service said about `what`, in the call's words; returns rc. */
int call_meta_fail(struct call *c, const struct meta_call *m, int rc, const char *what);
/* A call of the engine's own: the fiber carries the engine's context from now on, and nothing of a user's. */
void engine_own_call(struct engine *e, struct call *c);
/* A reference to a context: from, with the directory when it names none and there is one. -ENOMEM. */
int context_of_dir(const struct context **out, const struct context *from, uint64_t dir);
/* The tenant's number is known, as every chunk's label needs it: an orphan without one would stay for ever. */
int engine_tenant(struct call *c);
/* Asks for a map that is not older than max_age_ns. */
int engine_map(struct call *c, uint64_t max_age_ns);
/* The shape that options ask for. -EINVAL with words. */
int engine_shape(struct call *c, const struct terrane_options *o, struct shape *out);
/* The same of one encoding by its name. */
int engine_encoding(struct call *c, const char *text, struct shape *out);
int engine_block_bytes(struct call *c, const struct terrane_options *o, uint64_t *out);

/* --- names.c ---------------------------------------------------------------------------------- */

/* Splits at the last name; trailing slashes do not count. name.len is 0 of the root. Both point into the path. */
void path_split(const char *path, struct meta_name *dir, struct meta_name *name);

/* The directory that a path's last name is in. -EINVAL for the root itself. */
struct dir_slot {
	uint64_t dir;
	struct meta_name name; /* points into the path */
};
int dir_slot_find(struct call *c, const char *path, struct dir_slot *out);
/* The same where nothing has the name yet. -EEXIST, -EISDIR. */
int dir_slot_find_free(struct call *c, const char *path, struct dir_slot *out);

/* --- blocks.c --------------------------------------------------------------------------------- */

/* A full block on its way to disks and into the metadata. */
struct block_new {
	const struct shape *shape;
	struct buf *data; /* the first len bytes */
	uint64_t len;
	uint32_t crc;
	uint64_t gate_bytes; /* held at the gate of writes: block_gate_bytes(shape, len) or more */
	const struct meta_owner *owners;
	size_t owner_count;
	uint64_t id; /* set by block_create_take */
	/* Not NULL: the record comes here, to be committed by the caller. Its chunks have room for the shape's n. */
	struct meta_block *uncommitted;
};

/* What a block of len bytes holds in memory with its parities. */
uint64_t block_gate_bytes(const struct shape *s, uint64_t len);
/* Takes over the reference to data and the bytes held at the gate. Encodes, writes, commits. Goes to disk when flash has
 * no room and the call allows it. */
int block_create_take(struct call *c, struct block_new *b);
/* Makes the pending record of a new block. */
int block_record_allocate(struct call *c, struct meta_block *record);
/* Disks for a block; `spare` beside the shape's own. -ENOSPC with the numbers: of disks that take data now, or
 * of racks when the cluster has too few of them for the code, all that are not gone counted. */
int block_choose_disks(struct call *c, const struct shape *s, enum cluster_media media,
		       uint64_t block, int spare, struct cluster_choice *out);
/* The media that the call asks for. */
enum cluster_media call_media(const struct call *c);
/* Whether a block that finds no room on the media may go to disk instead: -ENOSPC was met there. */
bool call_may_fall_back(const struct call *c, enum cluster_media media, int rc);
/* Whether a new block of the call would find disks; as block_choose_disks. */
int call_room(struct call *c, const struct shape *s);
/* Writes coded chunks of the record's id, chunk_block, media and epoch; fills its chunks[n] with where they are. release_count: that
 * it has when it names them. As block_write_take. */
int block_place_take(struct call *c, const struct shape *s, const struct meta_block *record,
		     uint64_t release_count, struct coded *coded, uint64_t gate_bytes);

/* --- locate.c --------------------------------------------------------------------------------- */

/* Reads bytes of a block from the disks with refreshed locations, reports and retries. For the disk tier, and
 * for fsck, which asks what the disks have; others use blocks_read(). */
int block_fetch(struct call *c, const struct meta_block *b, uint64_t off, uint64_t len,
		const struct sink *sink, uint32_t *crc);

/* --- files ------------------------------------------------------------------------------------ */

struct efile_ops {
	int (*append)(struct call *c, struct efile *f, const struct iovec *iov, int n,
		      const uint32_t *crc);
	int (*flush)(struct call *c, struct efile *f);
	int (*close)(struct call *c, struct efile *f);
	void (*discard)(struct efile *f);
	/* An append was refused before it got here: nothing more may come of what is written. */
	void (*poison)(struct efile *f, int rc);
	int (*stat)(struct call *c, struct efile *f, struct terrane_stat *out);
};

struct efile {
	const struct efile_ops *ops; /* append NULL: open for reading */
	struct engine *engine;
	uint64_t id;
	uint64_t dir;
};

/* whole.c */
int whole_create(struct call *c, const struct dir_slot *at, unsigned flags,
		 const struct terrane_options *o, struct efile **out);
/* log.c */
int elog_create(struct call *c, const struct dir_slot *at, unsigned flags,
		const struct terrane_options *o, struct efile **out);
int elog_open(struct call *c, const struct meta_entry *entry, const struct terrane_options *o,
	      struct efile **out);
/* log_end.c */
#define LOG_REPLICAS_MAX 16
/* Cuts all copies of a block to len; when some are, the others are reported. Those that are doubtful (NULL: none)
 * are asked for a moment only, as appends wait for it. When none is cut: -ENODATA, or -ESTALE if another writer has raised the epoch. */
int elog_replicas_end(struct call *c, uint64_t block, uint64_t epoch, uint64_t len,
		      const uint64_t *disks, const bool *doubtful, int n);
/* Reports a copy of an open block, in the background: nothing when the block was ended or fenced meanwhile. */
void elog_replica_report(struct engine *e, uint64_t block, uint64_t epoch, int index,
			 uint64_t disk);
/* The engine is closed: logs that were left open do nothing any more. Their handles stay the caller's. */
void elogs_stop(struct engine *e);
/* For tests: the open blocks of logs that are open and well. Says how many, max at most. */
size_t elogs_blocks(const struct engine *e, uint64_t *out, size_t max);
/* Takes the write token of a file and ends the block that its last writer left open. */
int elog_take_over(struct call *c, uint64_t file, uint64_t token, uint64_t *size);
/* The length of the readable part of a file, with its open block; out may be NULL. */
int efile_size(struct call *c, uint64_t file, struct meta_file *out, uint64_t *size);

/* reencode.c */
/* Gives the blocks of a sealed file the encoding, NULL: their own, and the call's media; TERRANE_MEDIA_DEFAULT: their
 * own. */
int efile_reencode(struct call *c, uint64_t file, const struct shape *to);

#endif
