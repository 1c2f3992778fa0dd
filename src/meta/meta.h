// SPDX-License-Identifier: Apache-2.0
/*
 * The metadata store: the Name, File and Block layers of the filesystem on a partitioned key-value
 * store. This header has the operations without the network: service.h serves them. Any number of processes may each
 * have a struct meta open on the same distributed store.
 *
 * Model. A tenant owns a tree of directories whose root has the id META_ROOT. A directory maps names to
 * entries; an entry is a file or a directory and carries what a listing shows. A file is a list of
 * extents: (block, offset, length) pieces of blocks, laid end to end. A block is a run of bytes kept as
 * chunks on disks, and records its owners, the files that have extents in it. Many files may share a
 * block; a block dies with its last owner.
 *
 * Ids are 64-bit and drawn by the caller at random (meta_id, meta_id_run): so a request that is sent
 * again names the same object, and is recognised. An id that another object has is refused with -EEXIST.
 * Every key begins with the tenant, so a request cannot name an object of another tenant: an id or name that the
 * requesting tenant does not have is -ENOENT.
 *
 * Promises:
 *
 *  1. Each operation on one directory (lookup, create, mkdir, link, remove, rename) takes effect at one
 *     instant between its start and its return, in a directory spread over several partitions too. A
 *     page of a listing shows one instant of one partition; a name that exists from the first page to
 *     the last is returned exactly once.
 *  2. Each operation on one file or one block takes effect at one instant; every process reads what was written.
 *  3. A move between directories (meta_move, meta_rmdir too) is decided at one instant: at that
 *     instant the name is in exactly one of the two places. (Two lookups are two instants.)
 *  4. A name always leads to an object: the object of an entry exists as long as the entry, and for a grace
 *     period longer. A change that a crash interrupted is either completed by the next operation that reads it, or
 *     leaves garbage that the collector finds.
 *  5. An operation that returned 0 is durable. After -ETIMEDOUT and -EIO it is in doubt (kv_unknown): it was
 *     carried out, or will be, or never will. After any other error it was not carried out. Sending the
 *     same request again, with the same ids, is always safe and never has a second effect until the
 *     collector's grace period is over: whatever other requests did to the names since, and also when two
 *     servers carry it out at once.
 *  6. Sealed stays sealed. The contents of sealed files and directories may be served from a cache;
 *     removing a file, by name or with its directory, may take the cache_ttl_ns of server and client to be
 *     seen everywhere.
 *
 * Names are 1 to META_NAME_MAX bytes of UTF-8 without '/' and NUL, and not "." or "..": malformed UTF-8 is
 * refused (-EILSEQ) because listings travel as text; other bad names are -EINVAL, long ones
 * -ENAMETOOLONG. Names are compared byte by byte.
 *
 * Errors any operation may return: -ENOMEM; -EBADMSG, a stored record is damaged; those of kv.h for
 * a store that is late, unreachable or full; -EAGAIN, too many concurrent changes of the same rows: try again later.
 *
 * Every call may park its fiber, and must come from the loop on which the store was opened. Arguments are borrowed.
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

/* The tenant on whose behalf an operation runs. */
struct meta_ctx {
	uint32_t tenant; /* not 0 */
};

/* --- the store -------------------------------------------------------------------------------- */

struct meta_options {
	/* Fixed at first use; later the stored value takes precedence over the option. */
	unsigned partition_bits; /* 2^bits partitions for each layer: 0 to 20 */
	/* Number of names of a directory in one partition above which it is spread, about; 0: never spread. */
	uint64_t spread_entries;
	/* May differ between processes. */
	size_t cache_bytes;    /* bytes of memory for sealed metadata; 0: no cache */
	uint64_t cache_ttl_ns; /* longest time that a removed sealed object is still served:
				* up to META_CACHE_TTL_MAX */
	bool only_existing;    /* meta_open fails with -ENOENT instead of formatting a new store */
};

#define META_PARTITION_BITS 12

/* Sets the defaults: 2^META_PARTITION_BITS partitions, never spread, no cache. */
void meta_options_init(struct meta_options *o);

/* Opens the store on a kv, which stays the caller's: reads the format record, or writes it when the store is new.
 * -ENOENT the store is new and only_existing is set; -EINVAL bad options; -EOPNOTSUPP a store of another format version. */
int meta_open(struct meta **out, struct kv *kv, const struct meta_options *options);
/* Closes the store, which must have no call under way. NULL: does nothing. */
void meta_close(struct meta *m);

struct meta_stats {
	uint64_t cache_hits;
	uint64_t cache_misses;
	uint64_t cache_bytes;
	uint64_t retries;  /* attempts repeated because of concurrent changes */
	uint64_t resolved; /* transfers of other requests that were completed or aborted */
	uint64_t spreads;  /* slices of directories that were spread */
};

void meta_stats(const struct meta *m, struct meta_stats *out);

/*
 * Return the kv partition of an object's key, for admission control. For a directory: its home slice; a spread
 * directory has names in other partitions too.
 */
uint64_t meta_partition_of_dir(const struct meta *m, const struct meta_ctx *ctx, uint64_t dir);
uint64_t meta_partition_of_file(const struct meta *m, const struct meta_ctx *ctx, uint64_t file);
uint64_t meta_partition_of_block(const struct meta *m, const struct meta_ctx *ctx, uint64_t block);

/* --- tenants ---------------------------------------------------------------------------------- */

/* Creates a tenant, its account and its root directory. Again with the same id and name: 0. -EEXIST another tenant has
 * the id or the name, -EINVAL, -EILSEQ, -ENAMETOOLONG. */
int meta_tenant_create(struct meta *m, const struct meta_tenant *t);
/* Return a tenant with its quota and use. -ENOENT. */
int meta_tenant_get(struct meta *m, uint32_t id, struct meta_tenant *out);
int meta_tenant_find(struct meta *m, const char *name, struct meta_tenant *out);
/* Sets the quota; 0: no limit. With a quota below the bytes used, new blocks are refused (-EDQUOT) until enough was
 * collected. -ENOENT. */
int meta_tenant_set_quota(struct meta *m, uint32_t id, uint64_t quota_bytes);
/* Fills out with at most max tenants whose id is above after, in order of ids; their used_bytes are 0. Returns how
 * many. */
int64_t meta_tenant_list(struct meta *m, uint32_t after, struct meta_tenant *out, size_t max);

/* --- names ------------------------------------------------------------------------------------ */

/* Returns the entry of a name. -ENOENT no such name, or dir is not a directory's id; bad names as above. */
int meta_lookup(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
		struct meta_entry *out);

/*
 * Walks "/a/b/c" from the root, or "b/c" from dir; empty steps are skipped, "." and ".." are not known.
 * The root itself is a directory with an empty name. -ENOENT, -ENOTDIR in the middle, -ENAMETOOLONG
 * beyond META_PATH_MAX, -ELOOP beyond META_DEPTH_MAX levels. out->name points into path.
 */
int meta_resolve(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name path,
		 struct meta_entry *out);
/* The same, but calls enter (unless NULL) before each step with the directory that is read next; an error of enter ends
 * the walk and is returned. */
int meta_resolve_asking(struct meta *m, const struct meta_ctx *ctx, uint64_t dir,
			struct meta_name path, int (*enter)(void *arg, uint64_t dir), void *arg,
			struct meta_entry *out);

/* Returns the attributes of a directory. -ENOENT. */
int meta_dir_get(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_dir *out);

/* Lists one page of at most max entries (0: META_PAGE_MAX). A page may be short or empty before the end, which is
 * next.end. Entries are sorted by name (bytes) unless the directory is spread. -ENOENT, -EINVAL bad cursor. */
int meta_list(struct meta *m, const struct meta_ctx *ctx, uint64_t dir,
	      const struct meta_cursor *from, size_t max, struct arena *arena,
	      struct meta_page *out);

/* Creates a directory with the id that the caller drew; again with the same id: 0.
 * -EEXIST, -ENOENT, -EROFS dir is sealed. */
int meta_mkdir(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
	       uint64_t id);

/*
 * Creates n files with their names in one directory, 1 to META_BATCH_MAX. Returns 0 when the request was carried out,
 * also when some files were refused: results[i] is 0 for a created file, else -EEXIST (without META_OVERWRITE),
 * -EISDIR (with it), -ENOENT a block of the file was collected, -EOVERFLOW sizes, -EINVAL and errors of names.
 * Errors of the request: -ENOENT, -EROFS dir does not exist or is sealed, no file was created; errors of
 * meta_block_commit, no file was created, but some blocks may have been committed; in doubt (-ETIMEDOUT, -EIO), each
 * file was created or not. Again with the same ids: files that exist have result 0, refused files are refused again.
 */
int meta_create(struct meta *m, const struct meta_ctx *ctx, uint64_t dir,
		const struct meta_create *files, size_t n, unsigned flags, int *results);

/*
 * Gives a file of meta_file_new its name, and seals it if asked: so a file becomes visible when it is
 * closed. token must be the writer's. Again: 0. -ENOENT dir or file; -ESTALE token; -EEXIST,
 * -EISDIR the name; -EROFS dir is sealed; -EPERM the file has a name already; -EINVAL it was created for
 * another directory.
 */
int meta_link(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
	      const struct meta_naming *as);

/*
 * Removes the name; the file is collected after the grace period, and can be read by id until then.
 * id: the file that the name must lead to, 0: any. With an id a removal that is sent again returns 0.
 * -ENOENT, -EISDIR, -EROFS dir is sealed (unless META_SEALED_TOO), -ESTALE the name leads to another file.
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
 * Moves a name to another directory. A directory keeps its id. A file becomes a new file object, with the id
 * new_id, on the same blocks; it must be sealed (-EBUSY otherwise), and the old one is garbage.
 * request as in meta_rename. -ENOENT, -EEXIST, -EROFS either directory is sealed, -EISDIR (overwriting
 * a directory), -EINVAL a directory would become its own descendant, -EBUSY too many concurrent
 * moves of it, -ESTALE another file has taken the name since the move began.
 */
int meta_move(struct meta *m, const struct meta_ctx *ctx, const struct meta_move *move);

/*
 * As meta_rename, but only if the name leads to move->id (0: to any object): else -ESTALE; to_dir is from_dir. The
 * service uses it: a delayed copy of a request, which arrives after another server has answered it, must not move an
 * object that got the name since.
 */
int meta_rename_id(struct meta *m, const struct meta_ctx *ctx, const struct meta_move *move);

/* Removes an empty directory; id as in meta_remove. -ENOENT, -ENOTDIR, -ENOTEMPTY, -EROFS the parent is
 * sealed, -ESTALE the name leads to another object, -EBUSY too many concurrent changes. */
int meta_rmdir(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
	       uint64_t id);

/* Seals the directory: no name can be added, renamed or removed any more (but see META_SEALED_TOO). Again: 0.
 * -ENOENT. */
int meta_dir_seal(struct meta *m, const struct meta_ctx *ctx, uint64_t dir);

/* --- files ------------------------------------------------------------------------------------ */

/* Creates a file without a name, open for writing with the token, which meta_link will name in dir. If it is neither
 * written to nor named for the grace period it is collected. Again: 0. -EEXIST, -EINVAL. */
int meta_file_new(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, uint64_t id,
		  uint64_t token);

/* Returns a file by id and, in *part (NULL: the file alone), at most part->max of its extents, beginning with the extent
 * that holds byte part->offset; all of one instant. -ENOENT. */
int meta_file_get(struct meta *m, const struct meta_ctx *ctx, uint64_t file, struct meta_part *part,
		  struct arena *arena, struct meta_file *out);

/* The same by name. A file record that a crash kept from being written is written first. -EISDIR. */
int meta_file_open(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
		   struct meta_part *part, struct arena *arena, struct meta_file *out);

/*
 * Opens a file for append: the token becomes the file's write token, and the writer with the token before is refused
 * from now on (-ESTALE). An open extent that the old writer left is returned (block 0: none): the new writer must fence
 * and seal its block before it adds to the file. -ENOENT, -EROFS sealed.
 */
int meta_file_steal(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t token,
		    struct meta_file *out, struct meta_extent *open);

/*
 * Adds n extents at byte `offset`, which must be the size of the file, all or none; token must be the file's. Only the
 * last extent may be open; meta_file_close_extent must close it before the next add. Blocks must record the file as an owner already. Again with the same extents: 0.
 * -ENOENT the file or a block, -ESTALE token, -EROFS sealed, -ERANGE offset, -EBUSY the file has an open extent, -EOVERFLOW
 * beyond META_FILE_MAX, -EINVAL.
 */
int meta_file_add(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t token,
		  uint64_t offset, const struct meta_extent *extents, size_t n);

/* Closes the open extent at its final length; at length 0 it is removed. Again with the same length: 0. -ENOENT,
 * -ESTALE, -ERANGE the file has no open extent of this block. */
int meta_file_close_extent(struct meta *m, const struct meta_ctx *ctx, uint64_t file,
			   uint64_t token, uint64_t block, uint64_t length);

/* Seals the file. If name has a length, the entry of that name is updated to show size and seal. Again: 0. -ENOENT,
 * -ESTALE token, -EBUSY the file has an open extent. */
int meta_file_seal(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t token,
		   struct meta_name name, uint64_t mtime_ns);

/* Replaces the extent `expect` at `offset` by `now`, which has the same bytes in another block: for compaction. The new
 * block must record the file as an owner already. -ENOENT, -ESTALE the file has another extent there. */
int meta_file_remap(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t offset,
		    const struct meta_extent *expect, const struct meta_extent *now);

/* --- blocks ----------------------------------------------------------------------------------- */

/* Records a block as pending, with the disks that its chunks are meant for. Reads id, epoch, capacity, media, encoding
 * and chunks of b, sets alloc_id. Again: 0. -EEXIST, -EINVAL, -EOVERFLOW. Records of blocks of up to 1 MiB are synced
 * only at commit: if the machine fails before that, the commit returns -ENOENT. */
int meta_block_allocate(struct meta *m, const struct meta_ctx *ctx, struct meta_block *b);

/*
 * Commits a pending block: it becomes OPEN or SEALED (b->state), with the disks that accepted the chunks, its
 * length, CRC and first owners; the tenant is charged its length (its capacity while it is open). More
 * owners than META_OWNERS_MAX are added by meta_block_own. Again: 0.
 * -ENOENT it was never allocated, or collected; -ESTALE epoch; -EDQUOT; -EINVAL; -EOVERFLOW.
 */
int meta_block_commit(struct meta *m, const struct meta_ctx *ctx, const struct meta_block *b,
		      const struct meta_owner *owners, size_t n);

/* Adds owners to a committed block, before their files name it. -ENOENT. */
int meta_block_own(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		   const struct meta_owner *owners, size_t n);

/* Records an append of bytes [old_length, length) to an open block; crc is of all its bytes. Again: 0. -ENOENT, -ESTALE
 * epoch, -EROFS sealed, -ERANGE the block does not end at old_length, -EFBIG beyond its capacity. */
int meta_block_extend(struct meta *m, const struct meta_ctx *ctx, uint64_t block, uint64_t epoch,
		      uint64_t old_length, uint64_t length, uint32_t crc);

/*
 * Fences an open block: raises its epoch, so that its old writer can extend it no more, and returns the block as it is
 * now (its chunks are the arena's). The caller then fences the chunks, agrees on their length and seals the block.
 * Again with the same epoch: 0. -ESTALE the block has a higher epoch, -ENOENT, -EROFS sealed (out is filled all the
 * same).
 */
int meta_block_fence(struct meta *m, const struct meta_ctx *ctx, uint64_t block, uint64_t epoch,
		     struct arena *arena, struct meta_block *out);

/* Seals a block at length, which may be more than the last extend, never less (-ERANGE). The tenant is charged its
 * length, no longer its capacity. Again: 0. -ENOENT, -ESTALE epoch, -EFBIG beyond its capacity. */
int meta_block_seal(struct meta *m, const struct meta_ctx *ctx, uint64_t block, uint64_t epoch,
		    uint64_t length, uint64_t chunk_length, uint32_t crc);

/* Records that a chunk moved from disk p->from (0: it had no disk) to p->to: for repair and rebalance. release_count
 * grows by one, unless from is 0. After 0 the caller, and only this caller, deletes the old chunk, naming the put that
 * was on `from` before. So the request sent again returns 0 only if there is no old chunk (from is 0 or to), else
 * -ESTALE. -ENOENT, -EINVAL; -ESTALE the chunk is on another disk, the block has another layout or release count;
 * -EEXIST another chunk of the block is on that disk. */
int meta_block_replace(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		       const struct meta_place *p);

/* Marks chunk (chunk_block, index) on this disk as damaged. -ENOENT, -EINVAL, -ESTALE the chunk is on another disk or
 * the block has another layout. */
int meta_block_report(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		      uint64_t chunk_block, uint32_t index, uint64_t disk);

/* Gives a sealed block another layout: chunk_block, encoding, media and disks of b. For re-encoding. b->release_count is
 * the count that was read before the new chunks were put; it grows by one. The old chunks become garbage. Again: 0.
 * -ENOENT, -EINVAL, -ESTALE another release count, -EBUSY not sealed, -EEXIST chunks of that chunk_block are still
 * being deleted. */
int meta_block_relayout(struct meta *m, const struct meta_ctx *ctx, const struct meta_block *b);

/* Returns n blocks, 1 to META_BATCH_MAX; out[i].state is 0 for a block that does not exist. Chunks are the arena's. */
int meta_block_get(struct meta *m, const struct meta_ctx *ctx, const uint64_t *blocks, size_t n,
		   struct arena *arena, struct meta_block *out);

/* Fills out with at most max owners whose file id is above after, in order of ids; returns how many. */
int64_t meta_block_owners(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
			  uint64_t after, struct meta_owner *out, size_t max);

/* --- usage of directories --------------------------------------------------------------------- */

/* Returns the usage of the directory and all below it as it was last counted. -ENOENT. */
int meta_du(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_usage *out);

/* Counts the usage of the directory and of every directory below it, deepest first, and stores each. -ENOENT, -ELOOP
 * more than 4 * META_DEPTH_MAX levels. */
int meta_du_refresh(struct meta *m, const struct meta_ctx *ctx, uint64_t dir);

#endif
