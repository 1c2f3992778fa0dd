// SPDX-License-Identifier: Apache-2.0
/*
 * The metadata store: the Name, File and Block layers of the filesystem on a partitioned key-value
 * store. This header has the operations without the network: service.h serves them. Any number of processes may each
 * have their own struct meta open on the same distributed store.
 *
 * Model. A tenant owns a tree of directories whose root has the id META_ROOT. A directory maps names to
 * entries; an entry leads to a file or a directory and has the fields that a listing shows. A file is a list of
 * extents: (block, offset, length) pieces of blocks, laid end to end. A block is a run of bytes kept as
 * chunks on disks, and records its owners, the files that have extents in it. Many files may share a
 * block; the collector deletes a block that has lost its last owner.
 *
 * Ids are 64-bit and drawn by the caller at random (meta_id, meta_id_run): so a request that is sent again has the id
 * of the same object, and the store recognises the repetition. An id that another object has is refused with -EEXIST.
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
 *  6. Sealed stays sealed: a file for ever, a directory until meta_dir_unseal. The contents of sealed files and
 *     directories may be served from a cache; removing a file, by name or with its directory, may take the
 *     cache_ttl_ns of server and client to be seen everywhere, and so may changes of a directory right after it
 *     was unsealed.
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
	struct meta_over
		*over; /* gets the directory quota that refused an operation; NULL: not wanted */
};

/* --- the store -------------------------------------------------------------------------------- */

struct meta_options {
	/* Fixed at first use; later the stored value takes precedence over the option. */
	unsigned partition_bits; /* 2^bits partitions for each layer: 0 to 20 */
	/* Approximate number of names of a directory in one partition above which the directory is spread; 0: never. */
	uint64_t spread_entries;
	/* May differ between processes. */
	size_t cache_bytes;    /* bytes of memory for sealed metadata; 0: no cache */
	uint64_t cache_ttl_ns; /* longest time that a removed sealed object is still served:
				* up to META_CACHE_TTL_MAX */
	bool only_existing;    /* meta_open fails with -ENOENT instead of formatting a new store */
};

#define META_PARTITION_BITS 12

/* Sets the default options: 2^META_PARTITION_BITS partitions, directories are never spread, no cache. */
void meta_options_init(struct meta_options *o);

/* Opens the store on a kv, which stays the caller's: reads the format record, or writes it when the store is new.
 * -ENOENT the store is new and only_existing is set; -EINVAL bad options; -EOPNOTSUPP a store of another format version. */
int meta_open(struct meta **out, struct kv *kv, const struct meta_options *options);
/*
 * Opens the store of `of` on the calling loop, another loop of the process, with the options of `of`; both loops use one
 * cache. kv: the store of `of` on this loop (kv_share). Close it before `of`. -ENOMEM.
 */
int meta_share(struct meta **out, struct kv *kv, const struct meta *of);
/* Closes the store. No call may be running. m may be NULL. */
void meta_close(struct meta *m);

struct meta_stats {
	uint64_t cache_hits;
	uint64_t cache_misses;
	uint64_t cache_bytes;
	uint64_t retries; /* number of attempts that were repeated because of concurrent changes */
	uint64_t
		resolved; /* number of transfers of other requests that this process completed or aborted */
	uint64_t spreads; /* number of slices of directories that this process spread */
};

void meta_stats(const struct meta *m, struct meta_stats *out);

/*
 * These functions return the kv partition of an object's key, for admission control. For a directory this is the
 * partition of its home slice; a spread directory has names in other partitions, too.
 */
uint64_t meta_partition_of_dir(const struct meta *m, const struct meta_ctx *ctx, uint64_t dir);
uint64_t meta_partition_of_file(const struct meta *m, const struct meta_ctx *ctx, uint64_t file);
uint64_t meta_partition_of_block(const struct meta *m, const struct meta_ctx *ctx, uint64_t block);

/* --- tenants ---------------------------------------------------------------------------------- */

/* Creates a tenant, its account and its root directory. A repeated request with the same id and name returns 0.
 * -EEXIST: another tenant has the id or the name; -EINVAL, -EILSEQ, -ENAMETOOLONG. */
int meta_tenant_create(struct meta *m, const struct meta_tenant *t);
/* Both return a tenant with its quota and its used bytes. -ENOENT. */
int meta_tenant_get(struct meta *m, uint32_t id, struct meta_tenant *out);
int meta_tenant_find(struct meta *m, const char *name, struct meta_tenant *out);
/* Sets the quota of a tenant; 0: no limit. If the quota is below the bytes used, new blocks are refused (-EDQUOT)
 * until the collector has freed enough. -ENOENT. */
int meta_tenant_set_quota(struct meta *m, uint32_t id, uint64_t quota_bytes);
/* Sets shares_content. -ENOENT: there is no such tenant, or it was removed; -EAGAIN: its record changes at the same
 * time. */
int meta_tenant_share(struct meta *m, uint32_t id, bool share);
/*
 * Removes a tenant without files and directories: seals its root and ends its name, which no other tenant gets. Its blocks
 * that still exist are collected. A repeated request returns 0. -ENOENT; -ENOTEMPTY: its root has a name.
 */
int meta_tenant_remove(struct meta *m, uint32_t id);
/* Fills out with at most max tenants whose ids are above `after`, in order of ids, those that were removed, too; their used_bytes are 0. Returns
 * the number of tenants. */
int64_t meta_tenant_list(struct meta *m, uint32_t after, struct meta_tenant *out, size_t max);

/* --- names ------------------------------------------------------------------------------------ */

/* Returns the entry of a name. -ENOENT: the directory has no such name, or dir is not the id of a directory;
 * errors of invalid names: see above. */
int meta_lookup(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
		struct meta_entry *out);

/* Resolves "/a/b/c" from the root, or "b/c" from dir; skips empty steps; -EINVAL for "." and "..". The root itself
 * is a directory with an empty name. Calls enter (unless NULL) before each step with the directory that is read next;
 * an error of enter ends the walk and is returned. -ENOENT, -ENOTDIR in the middle, -ENAMETOOLONG beyond META_PATH_MAX,
 * -ELOOP beyond META_DEPTH_MAX levels. out->name points into path. */
int meta_resolve(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name path,
		 int (*enter)(void *arg, uint64_t dir), void *arg, struct meta_entry *out);

/* Returns the attributes of a directory. -ENOENT. */
int meta_dir_get(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_dir *out);

/* Lists one page of at most max entries (0: META_PAGE_MAX). A page may be short or empty before the end, which is
 * next.end. Entries are sorted by name (bytes) unless the directory is spread. -ENOENT, -EINVAL bad cursor. */
int meta_list(struct meta *m, const struct meta_ctx *ctx, uint64_t dir,
	      const struct meta_cursor *from, size_t max, struct arena *arena,
	      struct meta_page *out);

/* Creates a directory with the id that the caller drew, and with attributes (NULL: none). A repeated request with the same
 * id returns 0. -EEXIST, -ENOENT, -EROFS: dir is sealed; errors of meta_attrs_check. */
int meta_mkdir(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
	       uint64_t id, const struct meta_attrs *attrs);

/* Looks an entry up with the values of its user attributes, which are in the arena. -ENOENT; errors of invalid names. */
int meta_attr_get(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
		  struct arena *arena, struct meta_entry *out);

/*
 * Changes attributes of the object with the name: sets the fields of c->set, sets its user attributes, removes those of
 * c->remove (a missing one is no error), and leaves the others. All or nothing. A repeated request returns 0 and changes
 * nothing. -ENOENT; -ESTALE: the name leads to another object; -EROFS: dir is sealed; -EFBIG: the object would have too
 * many user attributes, or too many bytes in them; -EINVAL and errors of meta_attrs_check.
 */
int meta_attr_set(struct meta *m, const struct meta_ctx *ctx, uint64_t dir,
		  const struct meta_attr_change *c);

/*
 * Creates n files (1 to META_BATCH_MAX) with their names in one directory. Returns 0 if the request was carried out,
 * even if some files were refused: results[i] is 0 for a created file, else -EEXIST (without META_OVERWRITE), -EISDIR
 * (with it), -ENOENT a block of the file was collected, -EOVERFLOW sizes, -EINVAL and errors of names. Errors of the
 * request: -ENOENT, -EROFS dir does not exist or is sealed, no file was created; errors of meta_block_commit, no file
 * was created, but some blocks may have been committed; in doubt (-ETIMEDOUT, -EIO), each file was created or not.
 * If the request is repeated with the same ids, files that exist have result 0, and refused files are refused again.
 */
int meta_create(struct meta *m, const struct meta_ctx *ctx, uint64_t dir,
		const struct meta_create *files, size_t n, unsigned flags, int *results);

/*
 * Gives a file of meta_file_new its name, and seals it if asked: so a file becomes visible when it is closed. token
 * must be the writer's. A repeated request returns 0. -ENOENT dir or file; -ESTALE token; -EEXIST, -EISDIR the name;
 * -EROFS dir is sealed; -EPERM the file has a name already; -EINVAL it was created for another directory.
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
 * Renames a file or directory inside one directory, atomically. `request` is a number that the caller drew (meta_id);
 * the same request sent again returns 0. With META_OVERWRITE a file may replace a file. -ENOENT, -EEXIST, -EISDIR,
 * -EROFS sealed. If from and to are equal, returns 0 or -ENOENT.
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
 * Renames like meta_rename, but only if the name leads to move->id (0: to any object): else -ESTALE. to_dir must
 * be from_dir. The service uses this function: a delayed copy of a request, which arrives after another server has
 * answered the request, must not move an object that got the name since.
 */
int meta_rename_id(struct meta *m, const struct meta_ctx *ctx, const struct meta_move *move);

/*
 * Copies a sealed file: the copy is a new file with the id new_id on the same blocks, which it then owns, too. Neither is
 * charged twice. request and id as in meta_move; the same request sent again returns 0. -ENOENT, -EISDIR, -EBUSY the file
 * is not sealed, -ESTALE; -EEXIST, -EROFS and -ENOENT of the new name, after which the copy is garbage.
 */
int meta_copy(struct meta *m, const struct meta_ctx *ctx, const struct meta_move *copy);

/* Removes an empty directory; id as in meta_remove. -ENOENT, -ENOTDIR, -ENOTEMPTY, -EROFS: the parent is sealed,
 * -ESTALE: the name leads to another object, -EBUSY: too many concurrent changes. */
int meta_rmdir(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_name name,
	       uint64_t id);

/* Seals the directory: from now on no name can be added, renamed or removed (except by META_SEALED_TOO). A
 * repeated request returns 0. -ENOENT. */
int meta_dir_seal(struct meta *m, const struct meta_ctx *ctx, uint64_t dir);
/* Takes the seal of a directory back. Other servers may show a removed name for the TTL of their caches. -ENOENT. */
int meta_dir_unseal(struct meta *m, const struct meta_ctx *ctx, uint64_t dir);

/* --- files ------------------------------------------------------------------------------------ */

/* Creates a file without a name, open for writing with the write token. meta_link will give the file a name in
 * dir. The collector deletes a file that is neither written to nor given a name for the grace period. A repeated
 * request returns 0. -EEXIST, -EINVAL. */
int meta_file_new(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, uint64_t id,
		  uint64_t token);

/* Returns a file by id, and in *part (NULL: only the file) at most part->max of its extents, beginning with the
 * extent that holds byte part->offset. File and extents are of one instant. -ENOENT. */
int meta_file_get(struct meta *m, const struct meta_ctx *ctx, uint64_t file, struct meta_part *part,
		  struct arena *arena, struct meta_file *out);

/* Returns a file like meta_file_get, but by its name. If a crash kept the file record from being written, writes
 * the record first. -EISDIR. */
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
 * Adds n extents, all or none, at byte `offset`, which must be the size of the file; token must be the file's. Only the
 * last extent may be open; meta_file_close_extent must close it before the next add. The blocks must record the file as
 * an owner already. A repeated request with the same extents returns 0. -ENOENT the file or a block, -ESTALE token,
 * -EROFS sealed, -ERANGE offset, -EBUSY the file has an open extent, -EOVERFLOW beyond META_FILE_MAX, -EINVAL.
 */
int meta_file_add(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t token,
		  uint64_t offset, const struct meta_extent *extents, size_t n);

/* Closes the open extent at its final length; removes the extent if this length is 0. A repeated request with the
 * same length returns 0. -ENOENT, -ESTALE, -ERANGE: the file has no open extent of this block. */
int meta_file_close_extent(struct meta *m, const struct meta_ctx *ctx, uint64_t file,
			   uint64_t token, uint64_t block, uint64_t length);

/* Seals the file. If name is not empty, updates the entry of that name to show size and seal. A repeated request
 * returns 0. -ENOENT, -ESTALE: token; -EBUSY: the file has an open extent. */
int meta_file_seal(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t token,
		   struct meta_name name, uint64_t mtime_ns);

/* Replaces the extent `expect` at `offset` by the extent `now`, which has the same bytes in another block: for
 * compaction. The new block must record the file as an owner already. -ENOENT, -ESTALE: the file has another
 * extent at this offset. */
int meta_file_remap(struct meta *m, const struct meta_ctx *ctx, uint64_t file, uint64_t offset,
		    const struct meta_extent *expect, const struct meta_extent *now);

/* --- blocks ----------------------------------------------------------------------------------- */

/*
 * Records a block as pending, with the disks that are to store its chunks. Reads id, epoch, capacity, media,
 * encoding and chunks of b, and sets b->alloc_id. A repeated request returns 0. -EEXIST, -EINVAL, -EOVERFLOW.
 * Records of blocks of up to 1 MiB are synced only at commit: if the machine fails before the commit, the commit
 * returns -ENOENT.
 */
int meta_block_allocate(struct meta *m, const struct meta_ctx *ctx, struct meta_block *b);

/*
 * Commits a pending block: it becomes OPEN or SEALED (b->state), with the disks that accepted the chunks, its
 * length, CRC and first owners; the tenant is charged its length (its capacity while it is open). More owners than
 * META_OWNERS_MAX are added by meta_block_own. A repeated request returns 0. -ENOENT: the block was never allocated, or
 * the collector deleted it; -ESTALE epoch; -EDQUOT; -EINVAL; -EOVERFLOW.
 */
int meta_block_commit(struct meta *m, const struct meta_ctx *ctx, const struct meta_block *b,
		      const struct meta_owner *owners, size_t n);

/* Adds owners to a committed block, before the records of their files have extents in the block. -ENOENT. */
int meta_block_own(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		   const struct meta_owner *owners, size_t n);

/* Records an append of bytes [old_length, length) to an open block; crc is the CRC of all bytes of the block. A
 * repeated request returns 0. -ENOENT, -ESTALE: epoch; -EROFS: sealed; -ERANGE: the block does not end at
 * old_length; -EFBIG: length is beyond its capacity. */
int meta_block_extend(struct meta *m, const struct meta_ctx *ctx, uint64_t block, uint64_t epoch,
		      uint64_t old_length, uint64_t length, uint32_t crc);

/*
 * Fences an open block: raises its epoch, so that its old writer cannot extend it any more, and returns the present
 * state of the block (its chunks are in the arena). The caller then fences the chunks, agrees on their length and seals
 * the block. A repeated request with the same epoch returns 0. -ESTALE: the block has a higher epoch; -ENOENT; -EROFS:
 * the block is sealed (out is filled in this case, too).
 */
int meta_block_fence(struct meta *m, const struct meta_ctx *ctx, uint64_t block, uint64_t epoch,
		     struct arena *arena, struct meta_block *out);

/* Seals a block at length, which may be above the length of the last extend, but not below (-ERANGE). The tenant
 * is then charged for the length of the block, not for its capacity. A repeated request returns 0. -ENOENT,
 * -ESTALE: epoch; -EFBIG: length is beyond the capacity. */
int meta_block_seal(struct meta *m, const struct meta_ctx *ctx, uint64_t block, uint64_t epoch,
		    uint64_t length, uint64_t chunk_length, uint32_t crc);

/*
 * Records that a chunk moved from disk p->from (0: no disk had it) to disk p->to: for repair and rebalance. The
 * block's release_count grows by one, unless p->from is 0. After 0 the caller, and no other worker, deletes the
 * old chunk by the put number that the chunk on p->from had before. So a repeated request returns 0 only if there
 * is no old chunk (p->from is 0 or p->to), else -ESTALE. -ENOENT, -EINVAL; -ESTALE: the chunk is on another disk,
 * or the block has another layout or release count; -EEXIST: another chunk of the block is on disk p->to.
 */
int meta_block_replace(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		       const struct meta_place *p);

/* Marks chunk (chunk_block, index) on this disk as damaged. -ENOENT, -EINVAL, -ESTALE: the chunk is on another
 * disk, or the block has another layout. */
int meta_block_report(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
		      uint64_t chunk_block, uint32_t index, uint64_t disk);

/*
 * Gives a sealed block another layout: chunk_block, encoding, media and disks of b. For re-encoding.
 * b->release_count is the count that the caller read before the new chunks were put; the call increments it. The
 * old chunks become garbage. A repeated request returns 0. -ENOENT, -EINVAL, -ESTALE: another release count;
 * -EBUSY: the block is not sealed; -EEXIST: chunks of that chunk_block are still being deleted.
 */
int meta_block_relayout(struct meta *m, const struct meta_ctx *ctx, const struct meta_block *b);

/* Returns n blocks (1 to META_BATCH_MAX) in out; out[i].state is 0 for a block that does not exist. The lists of
 * chunks are in the arena. */
int meta_block_get(struct meta *m, const struct meta_ctx *ctx, const uint64_t *blocks, size_t n,
		   struct arena *arena, struct meta_block *out);

/* Fills out with at most max owners whose file ids are above `after`, in order of ids. Returns the number of owners. */
int64_t meta_block_owners(struct meta *m, const struct meta_ctx *ctx, uint64_t block,
			  uint64_t after, struct meta_owner *out, size_t max);

/* --- usage of directories --------------------------------------------------------------------- */

/* Returns the usage of the directory and of everything below it as of the last count. -ENOENT. */
int meta_du(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, struct meta_usage *out);

/* --- quotas of directories: quota.h has the theory ---------------------------------------------- */

/*
 * Operations that add names or bytes below a directory with a quota fail with -EDQUOT when it has no room; ctx->over then
 * has the quota. These are meta_create, meta_mkdir, meta_link, meta_copy, meta_move and meta_file_add. What a rename,
 * move or removal takes away has room again at once, what was replaced after the next count.
 */

/* Sets the limits of a directory; both 0: removes the quota. Sets *created if the directory had none: until
 * meta_dir_quota_count, or the next count of the servers, nothing is refused. -ENOENT, -EINVAL; -ENOSPC: the tenant has
 * META_DIR_QUOTAS_MAX quotas. */
int meta_dir_quota_set(struct meta *m, const struct meta_ctx *ctx,
		       const struct meta_dir_quota *want, bool *created);
/* Removes the quota of a directory. -ENOENT: it has none. */
int meta_dir_quota_clear(struct meta *m, const struct meta_ctx *ctx, uint64_t dir);
/* Counts a directory for its quota. -ENOENT: it has none; errors of meta_du_refresh. */
int meta_dir_quota_count(struct meta *m, const struct meta_ctx *ctx, uint64_t dir);
/* Sets the limit of a tenant's files and directories; 0: no limit. -ENOENT, -ENOSPC. */
int meta_tenant_set_files(struct meta *m, uint32_t id, uint64_t files_max);
/* Both set *out to quotas of the tenant, in the arena, and return their number: all; those of a directory and the
 * directories above it, nearest first. */
int64_t meta_dir_quota_list(struct meta *m, const struct meta_ctx *ctx, struct arena *a,
			    struct meta_dir_quota **out);
int64_t meta_dir_quota_above(struct meta *m, const struct meta_ctx *ctx, uint64_t dir,
			     struct arena *a, struct meta_dir_quota **out);

/* The count of all directories of a tenant, with the quotas: meta_dir_quota_begin, a pause of META_DIR_QUOTA_PAUSE_NS if
 * it returned a number of quotas above 0, meta_du_count. pass: a random number, not 0, the same for both. */
#define META_DIR_QUOTA_PAUSE_NS META_CACHE_TTL_MAX
int64_t meta_dir_quota_begin(struct meta *m, const struct meta_ctx *ctx, uint64_t pass);
int meta_du_count(struct meta *m, const struct meta_ctx *ctx, uint64_t pass);

/* Counts the usage of the directory and of every directory below it, deepest first, and stores the result of each.
 * -ENOENT, -ELOOP: more than 4 * META_DEPTH_MAX levels. */
int meta_du_refresh(struct meta *m, const struct meta_ctx *ctx, uint64_t dir);

#endif
