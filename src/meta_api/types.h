// SPDX-License-Identifier: Apache-2.0
/*
 * Limits, and the objects of the filesystem in the form in which calls pass them. The metadata service and its clients
 * use this header. meta/meta.h documents the operations on them, their promises and errors.
 */
#ifndef META_API_TYPES_H
#define META_API_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"
#include "cluster/cluster.h"

/* Name of the tenant that a context needs for administration and background work. */
#define META_SYSTEM "system"

#define META_ROOT 1ULL /* id of the root directory of every tenant */
#define META_NAME_MAX 255
#define META_PATH_MAX 4096
/* largest number of levels of a path; a tree built by id may be deeper */
#define META_DEPTH_MAX 1000
#define META_BATCH_MAX 1000 /* largest number of files of one create */
#define META_OPEN_MAX 256   /* largest number of files of one meta_client_open_many */
#define META_PAGE_MAX 1000  /* largest number of entries, extents or rows in one page */
/* largest number of extents in one meta_file_add; a file may have any number */
#define META_EXTENTS_MAX 256
/* largest number of extents of a file that meta_create creates sealed */
#define META_INLINE_EXTENTS 4
#define META_CHUNKS_MAX 255 /* largest number of disks (or pools) of one block */
/* largest number of owners in one call; a block may have any number */
#define META_OWNERS_MAX 1000
#define META_FILE_MAX (1ULL << 60)  /* largest size of a file in bytes */
#define META_BLOCK_MAX (1ULL << 40) /* largest size of a block in bytes */
#define META_TENANT_NAME_MAX 64
/* largest size of the text of an encoding in bytes, with the terminator */
#define META_ENCODING_MAX 32

/*
 * The longest time for which a server, and then a client, serves sealed metadata from its cache. A removed object
 * may be served for both times, one after the other, and the objects that it leads to must still exist: so the
 * collector's grace period is longer. The service that advances epochs (gc.h) waits at least META_GRACE_MIN
 * between two epochs.
 */
#define META_CACHE_TTL_MAX (60 * NS_PER_S)
#define META_GRACE_MIN (3 * META_CACHE_TTL_MAX)

/* --- tenants ---------------------------------------------------------------------------------- */

struct meta_tenant {
	uint32_t id;                         /* not 0 */
	char name[META_TENANT_NAME_MAX + 1]; /* name of the tenant; the rules of file names hold */
	uint64_t quota_bytes;                /* limit of used_bytes; 0: no limit */
	uint64_t used_bytes; /* bytes of committed blocks, before redundancy; set by the store */
	/* bytes of deleted blocks whose chunks still exist; not in used_bytes; set by the store */
	uint64_t waiting_bytes;
	uint64_t files_max; /* limit of used_files, of meta_tenant_set_files; 0: no limit */
	/* files and directories, as of the last count and with what was added since; set by the store */
	uint64_t used_files;
	bool removed; /* set by the store */
	/* cache nodes may share its entries by content with other such tenants; set by the store */
	bool shares_content;
};

/* --- quotas of directories ---------------------------------------------------------------------- */

#define META_DIR_QUOTAS_MAX 256 /* largest number of directories of one tenant that have a quota */
#define META_DIR_QUOTA_PATH_MAX 2048 /* longest path of a directory that can get one */

/* A directory with a quota, which limits everything below it. 0 is no limit. */
struct meta_dir_quota {
	uint64_t dir;
	const char *path;   /* where the directory was when the quota was set */
	uint64_t bytes_max; /* limit of the sizes of the files */
	uint64_t files_max; /* limit of the number of files and directories */
	/* the limit that operators set for the files and directories of a tenant: META_ROOT only */
	uint64_t tenant_files_max;
	uint64_t used_bytes,
		used_files; /* set by the store: the last count and what was added since */
	uint64_t
		counted_ns; /* wall clock of the last count; 0: not counted, nothing is refused yet */
};

/* The quota that refused an operation. */
struct meta_over {
	uint64_t dir; /* 0: the tenant's quota of bytes, or none */
	uint64_t used, max, wanted;
	bool files;     /* used, max and wanted are files and directories, not bytes */
	bool of_tenant; /* the limit that operators set for the tenant */
	char path[256]; /* path of the quota, cut off if it is longer */
};

/* --- names ------------------------------------------------------------------------------------ */

/* A name in a directory. The text has no terminator. */
struct meta_name {
	const char *text;
	size_t len;
};

static inline struct meta_name meta_name(const char *text)
{
	return (struct meta_name){.text = text, .len = strlen(text)};
}

enum meta_kind { META_FILE = 1, META_DIR = 2 };

/* Limits of the attributes of a file or directory. */
#define META_ATTRS_MAX 64        /* largest number of user attributes */
#define META_ATTR_NAME_MAX 127   /* bytes of the name of a user attribute */
#define META_ATTR_BYTES_MAX 4096 /* bytes of the names and values of all user attributes */
#define META_MODE_MAX 07777u

enum meta_has {
	META_HAS_MODE = 1 << 0,
	META_HAS_UID = 1 << 1,
	META_HAS_GID = 1 << 2,
	META_HAS_MTIME = 1 << 3, /* in requests only: entries always have a time */
	META_HAS_ALL = META_HAS_MODE | META_HAS_UID | META_HAS_GID | META_HAS_MTIME,
};

/* A user attribute. The name has no terminator. */
struct meta_attr {
	struct meta_name name;
	const uint8_t *value;
	size_t len;
};

struct meta_attrs {
	unsigned set; /* enum meta_has: the fields that have a value */
	uint32_t mode, uid, gid;
	uint64_t mtime_ns;
	/* NULL: the values were not asked for, and only their number is known */
	const struct meta_attr *user;
	size_t user_count;
};

/*
 * A name in a directory, with the fields that a listing shows. For a file that is not sealed, size is the size
 * when the file got its name or was last closed; meta_file_get returns the current size.
 */
struct meta_entry {
	struct meta_name name; /* points into the page of a listing, or to the caller's text */
	enum meta_kind kind;
	uint64_t id;
	uint64_t size;
	uint64_t mtime_ns; /* wall clock of the client that created or closed it */
	bool sealed;       /* files only: its contents cannot change */
	struct meta_attrs
		attrs; /* without the values of user attributes, except of meta_attr_get */
};

struct meta_dir {
	uint64_t id;
	uint64_t parent; /* id of the parent directory; 0: this is the root */
	uint64_t created_ns;
	bool sealed;
	bool spread; /* the names are in several partitions; listings are not sorted */
};

/* Position of a listing; zeroed at the start of the listing. The store checks each cursor, because clients send it
 * back. */
struct meta_cursor {
	uint32_t slice;
	uint16_t name_len; /* length of name, the last listed name; 0: start of the slice */
	bool end;          /* the listing is complete */
	char name[META_NAME_MAX];
};

struct meta_page {
	struct meta_entry *entries; /* in the arena of the caller */
	size_t count;
	struct meta_cursor next;
};

/* --- files ------------------------------------------------------------------------------------ */

/* A piece of a file: a range of a block. */
struct meta_extent {
	uint64_t block;
	uint64_t offset; /* offset in the block */
	uint64_t length; /* bytes; 0 only if the extent is open */
	bool open;       /* last extent of a file under append: the block record has the length */
};

struct meta_file {
	uint64_t id;
	uint64_t dir;  /* directory that the file was created for */
	uint64_t size; /* bytes of all extents except an open one */
	uint64_t mtime_ns;
	uint64_t extent_count;
	bool sealed;
	bool linked;  /* the file has or had a name */
	bool removed; /* the name was removed and collection has begun: reads may soon fail */
};

/* The part of a file's extents that meta_file_get is to read, and the result. */
struct meta_part {
	/* offset in the file: the first returned extent is the one that holds this byte */
	uint64_t offset;
	size_t max; /* largest number of extents; 0: META_PAGE_MAX */
	/* Results: */
	struct meta_extent *extents; /* in the arena of the caller */
	size_t count;
	uint64_t first_offset; /* bytes of the file before extents[0] */
};

/* A file to create together with its name. */
struct meta_create {
	struct meta_name name;
	uint64_t id;    /* random id, drawn by the caller */
	uint64_t token; /* not 0: open for writing with this write token; 0: created sealed */
	/* Contents of a sealed file: 0 to META_INLINE_EXTENTS extents. Their blocks are committed and have the
	 * file as an owner already, except `block`. */
	const struct meta_extent *extents;
	size_t extent_count;
	uint64_t mtime_ns;
	/* NULL, or the one pending block of these extents: the call commits this block first, with this file as
	 * its only owner. */
	const struct meta_block *block;
	const struct meta_attrs *attrs; /* NULL: none. Their mtime_ns is not used */
};

enum meta_flags {
	/* replace a file that has the name; the replaced file becomes garbage */
	META_OVERWRITE = 1 << 0,
	/* meta_remove only: also remove a name from a sealed directory (promise 6 of meta.h) */
	META_SEALED_TOO = 1 << 1,
};

/* The name that meta_link gives to a file without a name. */
struct meta_naming {
	uint64_t file;
	uint64_t token; /* write token of the file's writer */
	uint64_t mtime_ns;
	unsigned flags;
	bool seal;
	const struct meta_attrs *attrs; /* NULL: none. Their mtime_ns is not used */
};

/* A change of the attributes of an object; see meta_attr_set. */
struct meta_attr_change {
	struct meta_name name;
	uint64_t id;                    /* object that must have the name */
	uint64_t request;               /* number of the request, drawn by the caller, not 0 */
	struct meta_attrs set;          /* fields and user attributes that get these values */
	const struct meta_name *remove; /* user attributes to remove, at most META_ATTRS_MAX */
	size_t remove_count;
};

/* A rename or move; see meta_move. */
struct meta_move {
	uint64_t from_dir;
	struct meta_name from;
	uint64_t id; /* id of the object that must have the name; 0: any object */
	uint64_t to_dir;
	struct meta_name to;
	uint64_t new_id;  /* id that a file gets in another directory */
	uint64_t request; /* number of the request, drawn by the caller, not 0 */
	unsigned flags;
};

/* --- blocks ----------------------------------------------------------------------------------- */

enum meta_block_state {
	/* allocated, its chunks are being written; no file may have an extent in it */
	META_BLOCK_PENDING = 1,
	META_BLOCK_OPEN = 2,   /* committed, and under append */
	META_BLOCK_SEALED = 3, /* committed; the length is final */
};

#define META_PLACEMENT_NONE 0u
#define META_PLACEMENT_UNKNOWN 1u
#define META_CATEGORIES_MAX 64u /* largest placement category as it travels */
#define META_PLACEMENT_MAX (META_PLACEMENT_UNKNOWN + META_CATEGORIES_MAX)

#define META_TOKEN_BYTES 80 /* bytes of a token (auth/token.h) */

/* One chunk of a block. The index of the chunk is its position in meta_block.chunks. */
struct meta_chunk {
	/* disk or pool of the cluster map; 0: no disk has the chunk, repair must rebuild it */
	uint64_t disk;
	uint32_t crc; /* CRC-32C of the complete chunk; 0: not known */
	bool damaged; /* the chunk was reported as damaged; cleared when the chunk is replaced */
};

struct meta_block {
	uint64_t id;
	enum meta_block_state state;
	/* epoch of the block's writer; nodes refuse operations with an older epoch */
	uint64_t epoch;
	/*
	 * Disks store each chunk under (chunk_block, index). chunk_block is the block's id until the block gets
	 * another layout.
	 */
	uint64_t chunk_block;
	/* number of changes of the chunks; a cached record with an older layout is stale */
	uint64_t layout;
	/*
	 * Counts released chunks: chunks that the record named and no longer names, and chunks that it does not name
	 * and that a janitor is about to delete. A request that adds a chunk to the record brings the count that was
	 * read before the chunk was put, and is refused if the count has grown: the chunk may have been deleted
	 * since, however long ago the put was.
	 */
	uint64_t release_count;
	/* Random number of the allocation that created the pending record; the commit must have the same number. A
	 * delayed copy of the allocation may create a second pending record after the first was collected: the
	 * number of that record differs, and the commit of the first writer is refused. */
	uint64_t alloc_id;
	uint64_t length; /* bytes of user data */
	/* largest length of the block; charged to the tenant until the block is sealed */
	uint64_t capacity;
	uint64_t chunk_length; /* bytes of each chunk of a sealed block */
	uint32_t crc;          /* CRC-32C of the `length` bytes of user data */
	/*
	 * Media of the disks that the chunks belong on: set by the allocation, and changed only by a relayout. If
	 * repair found no room on this media, the chunk is on a disk of the other media (cluster/README.md).
	 */
	enum cluster_media media;
	/* META_PLACEMENT_NONE: the block was written for files without a placement category and features; or
	 * META_PLACEMENT_UNKNOWN plus the category as it travels (0: not known; c + 1: category c). Set by the allocation. */
	uint32_t placement;
	uint32_t
		born_s; /* wall clock of a metadata server at the allocation, of a block with a placement */
	char encoding[META_ENCODING_MAX];
	size_t chunk_count;
	struct meta_chunk *chunks; /* memory of the caller, or the arena */
	/* clients only: for each chunk the token that opens it on its disk, or zeros; in the arena. NULL: there are none */
	uint8_t (*tokens)[META_TOKEN_BYTES];
	/* clients only: the token that opens a sealed block at cache nodes; in the arena. NULL: there is none */
	uint8_t *cache_token;
	/* clients only: the bytes of the block that the tokens open; open_count 0: all, or there are no tokens */
	uint64_t open_first, open_count;
	/* servers only: identity that allocated the block, if its grants cover a part of the tenant; 0: another */
	uint64_t writer;
	/* commit only, for services: charge the tenant even beyond its quota */
	bool over_quota;
	/* commit only: the commit need not be durable before the caller's next change */
	bool early;
};

/* Returns whether the tokens of a record open bytes [off, off + len) of the block. */
static inline bool meta_block_opens(const struct meta_block *b, uint64_t off, uint64_t len)
{
	return b->open_count == 0 || (off >= b->open_first && len <= b->open_count &&
				      off - b->open_first <= b->open_count - len);
}

/* A file that has, or will have, extents with a total of `bytes` bytes in a block. */
struct meta_owner {
	uint64_t file;
	uint64_t bytes;
};

/* A move of a chunk to another disk; if from is equal to `to`, the rebuilding of the chunk on its disk. */
struct meta_place {
	uint64_t chunk_block;
	uint32_t index;
	uint32_t crc;
	uint64_t from; /* disk that had the chunk; 0: none */
	uint64_t to;
	/* release count of the block record, read before the chunk was put on disk `to` */
	uint64_t release_count;
};

/* --- usage of directories --------------------------------------------------------------------- */

struct meta_usage {
	uint64_t files;
	uint64_t dirs;
	uint64_t bytes;    /* total size of the files, by the sizes in their entries */
	uint64_t taken_ns; /* wall-clock time of the count; 0: not counted yet, all fields are 0 */
};

#endif
