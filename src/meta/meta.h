// SPDX-License-Identifier: Apache-2.0
/*
 * The metadata store: the Name, File and Block layers of the filesystem on a partitioned key-value
 * store. This header is the logic only: it knows no sockets, and any number of processes may each hold
 * a struct meta on the same distributed store.
 *
 * Model. A tenant owns a tree of directories whose root has the id META_ROOT. A directory maps names to
 * entries; an entry is a file or a directory and carries what a listing shows. A file is a list of
 * extents: (block, offset, length) pieces of blocks, laid end to end. A block is a run of bytes kept as
 * chunks on disks, and records its owners, the files that have extents in it. Many files may share a
 * block; a block dies with its last owner.
 *
 * Ids are 64-bit and drawn by the caller at random (meta_id, meta_id_run): so a request that is sent
 * again names the same object, and is recognised. An id that is taken already is refused with -EEXIST.
 * Every key begins with the tenant, so a request cannot name an object of another tenant: what is not
 * there under the tenant that asks is -ENOENT.
 *
 * Promises:
 *
 *  1. Each operation on one directory (lookup, create, mkdir, link, remove, rename) takes effect at one
 *     instant between its start and its return, in a directory spread over several partitions too. A
 *     page of a listing is one instant of one partition; a name that is there from the first page to
 *     the last is returned exactly once.
 *  2. Each operation on one file or one block is one instant; read after write holds everywhere.
 *  3. A move between directories (meta_move, meta_rmdir too) is decided at one instant: a reader who
 *     looks at both places sees the name in one of them. (Two lookups are two instants.)
 *  4. A name never leads nowhere: the object of an entry exists as long as the entry, and for a grace
 *     period longer. What a crash leaves is either completed by whoever meets it next, or is garbage
 *     that the collector finds.
 *  5. What returned 0 is durable. What returned an error other than the unknown ones did not happen.
 *     -ETIMEDOUT and -EIO are unknown (kv_unknown): it happened, or will, or never will. Sending the
 *     same request again, with the same ids, is always safe and never does it twice, until the
 *     collector's grace period is over: whatever others have done to the names since, and also when two
 *     servers carry it out at once.
 *  6. Sealed stays sealed. The contents of sealed files and directories may be served from a cache;
 *     removing a file, by name or with its directory, may take the cache_ttl_ns of server and client to be
 *     seen everywhere.
 *
 * Names are 1 to META_NAME_MAX bytes of UTF-8 without '/' and NUL, and not "." or "..": malformed UTF-8 is
 * refused (-EILSEQ) because listings travel as text; other bad names are -EINVAL, long ones
 * -ENAMETOOLONG. Names that look alike but differ in bytes are different names.
 *
 * Errors any operation may return: -ENOMEM; -EBADMSG, a stored record is damaged; those of kv.h for
 * a store that is late, away or full; -EAGAIN, others kept getting in the way: try again later.
 *
 * Every call waits, and belongs to the loop the store was opened on. Arguments are borrowed.
 */
#ifndef META_META_H
#define META_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "meta_api/types.h"

struct arena;
struct kv;
struct meta;

/* Who asks. */
struct meta_ctx {
	uint32_t tenant; /* not 0 */
};

/* --- the store -------------------------------------------------------------------------------- */

struct meta_options {
	/* Fixed when a store is first used; afterwards what is stored there counts. */
	unsigned
		partition_bits; /* 2^bits partitions for each layer: 0 to 20; META_PARTITION_BITS */
	uint64_t
		spread_entries; /* about how many names one partition holds of one directory; 0: never spread */
	/* Of this process. */
	size_t cache_bytes;    /* of sealed metadata; 0: none */
	uint64_t cache_ttl_ns; /* how long at most something sealed is served after it was removed:
				* up to META_CACHE_TTL_MAX */
	bool only_existing;    /* -ENOENT where there is no store, instead of making one */
};

#define META_PARTITION_BITS 12

/* 2^12 partitions, never spread, no cache. */
void meta_options_init(struct meta_options *o);

/* Reads the format record, or writes it when the store is new. The kv stays the caller's.
 * -ENOENT the store is new, and only_existing is set; -EINVAL bad options; -EOPNOTSUPP the store is of a newer version. */
int meta_open(struct meta **out, struct kv *kv, const struct meta_options *options);
/* No call may be under way. NULL is fine. */
void meta_close(struct meta *m);

struct meta_stats {
	uint64_t cache_hits;
	uint64_t cache_misses;
	uint64_t cache_bytes;
	uint64_t retries;  /* transactions done again because others got in the way */
	uint64_t resolved; /* transfers of others that were completed or undone on the way */
	uint64_t spreads;  /* partitions of directories that were spread */
};

void meta_stats(const struct meta *m, struct meta_stats *out);

/*
 * Where an object's key is, for admission: the partition numbers of kv. Names of a directory that was
 * spread are elsewhere.
 */
uint64_t meta_partition_of_dir(const struct meta *m, const struct meta_ctx *ctx, uint64_t dir);
uint64_t meta_partition_of_file(const struct meta *m, const struct meta_ctx *ctx, uint64_t file);
uint64_t meta_partition_of_block(const struct meta *m, const struct meta_ctx *ctx, uint64_t block);

/* --- tenants ---------------------------------------------------------------------------------- */

/* Makes its root too. Again with the same id and name: 0. -EEXIST the id or name is another's,
 * -EINVAL, -EILSEQ, -ENAMETOOLONG. */
int meta_tenant_create(struct meta *m, const struct meta_tenant *t);
/* -ENOENT. */
int meta_tenant_get(struct meta *m, uint32_t id, struct meta_tenant *out);
int meta_tenant_find(struct meta *m, const char *name, struct meta_tenant *out);
/* A quota below what is used refuses new blocks until enough was collected. -ENOENT. */
int meta_tenant_set_quota(struct meta *m, uint32_t id, uint64_t quota_bytes);
/* Tenants with an id above after, in order; returns how many (used_bytes is 0 here), at most max. */
int64_t meta_tenant_list(struct meta *m, uint32_t after, struct meta_tenant *out, size_t max);

/* --- names ------------------------------------------------------------------------------------ */

/* -ENOENT, -ENOTDIR when dir is not a directory's id is -ENOENT too; bad names as above. */
int meta_lookup(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
		struct meta_entry *out);

/*
 * Walks "/a/b/c" from the root, or "b/c" from dir; empty steps are skipped, "." and ".." are not known.
 * The root itself is a directory with an empty name. -ENOENT, -ENOTDIR in the middle, -ENAMETOOLONG
 * beyond META_PATH_MAX, -ELOOP beyond META_DEPTH_MAX levels. out->name points into path.
 */
int meta_resolve(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name path,
		 struct meta_entry *out);
/* The same; enter is asked before each step with the directory that is to be read, and ends it with an
 * error of its own. NULL: nobody is asked. */
int meta_resolve_asking(struct meta *m, const struct meta_ctx *ctx, uint64_t dir,
			struct meta_name path, int (*enter)(void *arg, uint64_t dir), void *arg,
			struct meta_entry *out);

/* -ENOENT. */
int meta_dir_get(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_dir *out);

/* One page of at most max entries (0: META_PAGE_MAX); a page may be short, or empty, before the end.
 * Sorted by name (bytes) unless the directory is spread. -ENOENT, -EINVAL the cursor. */
int meta_list(struct meta *m, const struct meta_ctx *ctx, uint64_t dir,
	      const struct meta_cursor *from, size_t max, struct arena *arena,
	      struct meta_page *out);

/* The new directory has the id that the caller drew; again with the same id: 0.
 * -EEXIST, -ENOENT, -EROFS dir is sealed. */
int meta_mkdir(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
	       uint64_t id);

/*
 * Makes n files of one directory, 1 to META_BATCH_MAX. results[i] is 0, -EEXIST (exclusive only),
 * -EISDIR (overwriting), -ENOENT a block of it has been collected, or why that file is bad: -EINVAL and
 * the like, -EOVERFLOW sizes. Files that got an error were not made; the others were. Returns 0 when the request was carried out, also when
 * some results are errors. -ENOENT, -EROFS: dir is gone or sealed, nothing was made; errors of meta_block_commit: neither
 * was any file, though some blocks may have been committed. Unknown errors:
 * each file was made or not. Again with the same ids: files that are there already have result 0, and those
 * that were refused are refused again.
 */
int meta_create(struct meta *m, const struct meta_ctx *ctx, uint64_t dir,
		const struct meta_create *files, size_t n, unsigned flags, int *results);

/*
 * Gives a file made by meta_file_new its name, and seals it if asked: how a file becomes visible when
 * it is closed. Only the writer's token may. Again: 0. -ENOENT dir or file; -ESTALE token; -EEXIST,
 * -EISDIR the name; -EROFS dir is sealed; -EPERM the file has a name already; -EINVAL it was made for
 * another directory.
 */
int meta_link(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
	      const struct meta_naming *as);

/*
 * Takes the name away; the file is collected after the grace period, and can be read by id until then.
 * id names the file that is meant, 0 any; with an id a removal sent again returns 0.
 * -ENOENT, -EISDIR, -EROFS dir is sealed, -ESTALE the name is of another file by now.
 */
int meta_remove(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
		uint64_t id, unsigned flags);

/*
 * Renames a file or directory inside one directory, atomically. request is drawn by the caller
 * (meta_id); the same request sent again returns 0. With META_OVERWRITE a file may replace a file.
 * -ENOENT, -EEXIST, -EISDIR, -EROFS sealed. from and to the same: 0, or -ENOENT.
 */
int meta_rename(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name from,
		struct meta_name to, uint64_t request, unsigned flags);

/*
 * Moves to another directory. A directory keeps its id. A file becomes a new file object, with the id
 * new_id, on the same blocks; it must be sealed (-EBUSY otherwise), and the old one is garbage.
 * request as in meta_rename. -ENOENT, -EEXIST, -EROFS either directory is sealed, -EISDIR (overwriting
 * a directory), -EINVAL a directory would get into itself, -EBUSY another move of it goes on and does
 * not end, -ESTALE another file has taken the name since the move began.
 */
int meta_move(struct meta *m, const struct meta_ctx *ctx, const struct meta_move *move);

/*
 * As meta_rename, of what has move->id only; to_dir is from_dir. Like meta_move with an id it returns -ESTALE
 * when the name leads to another object by now. For requests that travel: a copy of one that was held up on its
 * way, and comes when another server has long answered, leaves alone what has taken the name's place.
 */
int meta_rename_id(struct meta *m, const struct meta_ctx *ctx, const struct meta_move *move);

/* Removes an empty directory; id as in meta_remove. -ENOENT, -ENOTDIR, -ENOTEMPTY, -EROFS the parent is
 * sealed, -ESTALE the name is of another by now, -EBUSY it is being moved. */
int meta_rmdir(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
	       uint64_t id);

/* From now on nothing is added to, renamed in or removed from the directory. Again: 0. -ENOENT. */
int meta_dir_seal(struct meta *m, const struct meta_ctx *ctx, uint64_t dir);

/* --- files ------------------------------------------------------------------------------------ */

/* A file without a name, open for writing with the token, to be named by meta_link in dir. One that is
 * neither written to nor named for the grace period is collected. Again: 0. -EEXIST, -EINVAL. */
int meta_file_new(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, uint64_t id,
		  uint64_t token);

/* Returns the file, and in part its extents from the one that holds byte part->offset on, all of one instant. part
 * NULL: the file alone. Open by id. -ENOENT. */
int meta_file_get(struct meta *m, const struct meta_ctx *ctx, uint64_t file, struct meta_part *part,
		  struct arena *arena, struct meta_file *out);

/* The same by name: also when a crash left the name without its file record, which is made again. */
int meta_file_open(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
		   struct meta_part *part, struct arena *arena, struct meta_file *out);

/*
 * Opens for append: the token becomes the file's only one, and whoever had one before is refused from
 * now on. When an open extent is left it is returned (length 0 otherwise): the new writer must fence
 * its block (meta_block_seal) before it adds to the file. -ENOENT, -EROFS sealed.
 */
int meta_file_steal(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t token,
		    struct meta_file *out, struct meta_extent *open);

/*
 * Adds n extents at byte `offset`, which must be the size of the file, all or none, when the token is
 * the file's. An open one may only come last, and is closed by meta_file_close_extent before the next
 * add. Blocks must record the file as an owner already. Again with the same extents: 0.
 * -ENOENT the file or a block, -ESTALE token, -EROFS sealed, -ERANGE offset, -EBUSY an open extent is there, -EOVERFLOW
 * beyond META_FILE_MAX, -EINVAL.
 */
int meta_file_add(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t token,
		  uint64_t offset, const struct meta_extent *extents, size_t n);

/* The open extent has this length for good, or none when it is 0 (then it is taken away). -ENOENT,
 * -ESTALE, -ERANGE there is no open extent of this block; again with the same length: 0. */
int meta_file_close_extent(struct meta *m, const struct meta_ctx *ctx, uint64_t file,
			   uint64_t token, uint64_t block, uint64_t length);

/* No more writing. Again: 0. -ENOENT, -ESTALE token, -EBUSY an open extent is there. The entry of its
 * name, when it has one, is brought up to date when the name is given (0-length name: not known). */
int meta_file_seal(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t token,
		   struct meta_name name, uint64_t mtime_ns);

/* An extent now lies elsewhere with the same bytes: for compaction. The new block must record the
 * owner already. -ENOENT, -ESTALE the extent is not what was expected. */
int meta_file_remap(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t offset,
		    const struct meta_extent *expect, const struct meta_extent *now);

/* --- blocks ----------------------------------------------------------------------------------- */

/* Records a block as pending, with the disks its chunks are meant for. Uses id, epoch, capacity, media,
 * encoding and chunks of b, sets alloc_id. Again: 0. -EEXIST, -EINVAL, -EOVERFLOW. What is small is durable with its
 * commit: the loss of the machine before it makes that -ENOENT. */
int meta_block_allocate(struct meta *m, const struct meta_ctx *ctx, struct meta_block *b);

/*
 * A pending block becomes OPEN or SEALED (b->state), with the disks that really took the chunks, its
 * length, CRC and first owners; the tenant is charged its length (capacity while it is open). More
 * owners than META_OWNERS_MAX are added by meta_block_own. Again: 0.
 * -ENOENT it was never allocated, or collected; -ESTALE epoch; -EDQUOT; -EINVAL; -EOVERFLOW.
 */
int meta_block_commit(struct meta *m, const struct meta_ctx *ctx, const struct meta_block *b,
		      const struct meta_owner *owners, size_t n);

/* Adds owners: of a packed block before its files are made. -ENOENT. */
int meta_block_own(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		   const struct meta_owner *owners, size_t n);

/* The append of [old_length, length): acknowledged data of an open block. crc is of all bytes. Again:
 * 0. -ENOENT, -ESTALE epoch, -EROFS sealed, -ERANGE it does not end at old_length, -EFBIG beyond its
 * capacity. */
int meta_block_extend(struct meta *m, const struct meta_ctx *ctx, uint64_t block, uint64_t epoch,
		      uint64_t old_length, uint64_t length, uint32_t crc);

/*
 * Fences: the epoch becomes the block's, and its old writer can extend it no more. The block as it is
 * now is returned: the caller then fences the chunks, agrees on their length and seals. chunks of out
 * are the arena's. Epochs only grow: -ESTALE below the block's own; again with the same: 0. -ENOENT,
 * -EROFS sealed (out is filled all the same).
 */
int meta_block_fence(struct meta *m, const struct meta_ctx *ctx, uint64_t block, uint64_t epoch,
		     struct arena *arena, struct meta_block *out);

/* Ends appends at length, which may be more than was extended to, never less. The quota is charged
 * its length from now on. Again: 0. -ENOENT, -ESTALE epoch, -ERANGE, -EFBIG. */
int meta_block_seal(struct meta *m, const struct meta_ctx *ctx, uint64_t block, uint64_t epoch,
		    uint64_t length, uint64_t chunk_length, uint32_t crc);

/* The chunk is on disk `to` now, if it was on `from`: repair and rebalance. release_count grows by one, unless the
 * chunk was nowhere before. Again: 0 where there is no old chunk (from is 0 or to), else -ESTALE: after 0 the old
 * chunk is the caller's to delete, as the put that was there before this, and nobody else's. -ENOENT, -ESTALE it is
 * elsewhere, the block was laid out anew or has let a chunk go since, -EINVAL, -EEXIST another chunk of the block is
 * on that disk. */
int meta_block_replace(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		       const struct meta_place *p);

/* Notes that chunk (chunk_block, index) is bad, if it is still there. -ENOENT, -ESTALE it is elsewhere or the block
 * was laid out anew. */
int meta_block_report(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		      uint64_t chunk_block, uint32_t index, uint64_t disk);

/* Re-encoding: a sealed block is laid out anew, under another chunk_block, with other encoding, media and
 * disks, if its release_count, read before the new chunks were put, are still b->release_count; they grow by one. The old
 * chunks become garbage. Again: 0. -ENOENT, -ESTALE, -EBUSY not sealed, -EEXIST chunks of that chunk_block are
 * being deleted, -EINVAL. */
int meta_block_relayout(struct meta *m, const struct meta_ctx *ctx, const struct meta_block *b);

/* n blocks at once, 1 to META_BATCH_MAX; out[i].state is 0 where there is none. Chunks are the arena's. */
int meta_block_get(struct meta *m, const struct meta_ctx *ctx, const uint64_t *blocks, size_t n,
		   struct arena *arena, struct meta_block *out);

/* Owners after a file id, at most max; returns how many. */
int64_t meta_block_owners(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
			  uint64_t after, struct meta_owner *out, size_t max);

/* --- usage of directories --------------------------------------------------------------------- */

/* What the last aggregation found for the directory and all below it. -ENOENT. */
int meta_du(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_usage *out);

/* Counts the directory and all below it anew, deepest first, and stores what it found on the way. */
int meta_du_refresh(struct meta *m, const struct meta_ctx *ctx, uint64_t dir);

#endif
