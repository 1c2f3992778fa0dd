// SPDX-License-Identifier: Apache-2.0
/*
 * What the metadata service and its clients both know: limits, and the objects of the filesystem as they
 * are passed in calls. The operations on them, what they promise and their errors are in meta/meta.h.
 */
#ifndef META_API_TYPES_H
#define META_API_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"
#include "cluster/cluster.h"

#define META_SYSTEM "system" /* the tenant of the context that may do what is no tenant's */

#define META_ROOT 1ULL /* the root directory of every tenant */
#define META_NAME_MAX 255
#define META_PATH_MAX 4096
#define META_DEPTH_MAX 1000         /* levels of a path; by id a tree may be deeper */
#define META_BATCH_MAX 1000         /* files of one create */
#define META_PAGE_MAX 1000          /* entries, extents or rows of one page */
#define META_EXTENTS_MAX 256        /* of one meta_file_add; files have any number */
#define META_INLINE_EXTENTS 4       /* of a file made whole by meta_create */
#define META_CHUNKS_MAX 255         /* disks (or pools) of one block */
#define META_OWNERS_MAX 1000        /* of one call; blocks have any number */
#define META_FILE_MAX (1ULL << 60)  /* bytes */
#define META_BLOCK_MAX (1ULL << 40) /* bytes */
#define META_TENANT_NAME_MAX 64
#define META_ENCODING_MAX 32 /* bytes of its text, with the terminator */

/*
 * A client may keep what a server answered from its own memory, so that something removed may be seen for
 * both their times. What it leads to is there for the collector's grace, which must be longer: whoever
 * advances epochs (gc.h) waits at least META_GRACE_MIN.
 */
#define META_CACHE_TTL_MAX (60 * NS_PER_S) /* of a server, and of a client */
#define META_GRACE_MIN (3 * META_CACHE_TTL_MAX)

/* --- tenants ---------------------------------------------------------------------------------- */

struct meta_tenant {
	uint32_t id;                         /* not 0 */
	char name[META_TENANT_NAME_MAX + 1]; /* as a name of a file, but shorter */
	uint64_t quota_bytes; /* of committed blocks, before redundancy; 0: no limit */
	uint64_t used_bytes;  /* as of now; of get and list only */
};

/* --- names ------------------------------------------------------------------------------------ */

/* A name, not terminated. */
struct meta_name {
	const char *text;
	size_t len;
};

static inline struct meta_name meta_name(const char *text)
{
	return (struct meta_name){.text = text, .len = strlen(text)};
}

enum meta_kind { META_FILE = 1, META_DIR = 2 };

/*
 * What a directory says of a name. Of a file that is not sealed, size is what it was when it was named
 * or last closed: meta_file_get knows better.
 */
struct meta_entry {
	struct meta_name name; /* points into the page, or to what the caller gave */
	enum meta_kind kind;
	uint64_t id;
	uint64_t size;
	uint64_t mtime_ns; /* wall clock of who made or closed it */
	bool sealed;       /* of a file: it is in the File layer too, and stays so */
};

struct meta_dir {
	uint64_t id;
	uint64_t parent; /* 0 of the root */
	uint64_t created_ns;
	bool sealed;
	bool spread; /* over several partitions; a listing is then not sorted */
};

/* Where a listing goes on; zeroed for its beginning. Not secret, checked when it comes back. */
struct meta_cursor {
	uint32_t slice;
	uint16_t name_len; /* 0: from the first name of the slice */
	bool end;          /* there is no more */
	char name[META_NAME_MAX];
};

struct meta_page {
	struct meta_entry *entries; /* of the arena */
	size_t count;
	struct meta_cursor next;
};

/* --- files ------------------------------------------------------------------------------------ */

/* A piece of a block as a piece of a file. */
struct meta_extent {
	uint64_t block;
	uint64_t offset; /* in the block */
	uint64_t length; /* bytes; 0 only when open */
	bool open; /* the last one of a file under append: it is as long as the block record says */
};

struct meta_file {
	uint64_t id;
	uint64_t dir;  /* that it was made for */
	uint64_t size; /* of all extents but an open one */
	uint64_t mtime_ns;
	uint64_t extent_count;
	bool sealed;
	bool linked;  /* was given a name */
	bool removed; /* the name was taken away and collection has begun: read while you can */
};

/* Which extents of a file are read, and what comes back. */
struct meta_part {
	uint64_t offset; /* from the extent that holds this byte on */
	size_t max;      /* extents; 0: META_PAGE_MAX */
	/* Filled in: */
	struct meta_extent *extents; /* of the arena */
	size_t count;
	uint64_t first_offset; /* bytes of the file before the first of them */
};

/* A file that is made with its name. */
struct meta_create {
	struct meta_name name;
	uint64_t id;    /* drawn by the caller */
	uint64_t token; /* not 0: open for writing with this token; 0: made whole and sealed */
	/* Of a file made whole: where it is, 0 to META_INLINE_EXTENTS pieces of committed blocks that
	 * record it as an owner already. */
	const struct meta_extent *extents;
	size_t extent_count;
	uint64_t mtime_ns;
	/* Not NULL: one of these blocks is pending, and is committed first, with this file as its only owner. */
	const struct meta_block *block;
};

enum meta_flags {
	META_OVERWRITE = 1 << 0,  /* a file of that name is replaced, and becomes garbage */
	META_SEALED_TOO = 1 << 1, /* of meta_remove: also from a sealed directory, see promise 6 */
};

/* The name that a file without one gets, see meta_link. */
struct meta_naming {
	uint64_t file;
	uint64_t token; /* the writer's */
	uint64_t mtime_ns;
	unsigned flags;
	bool seal;
};

/* A rename or move, see meta_move. */
struct meta_move {
	uint64_t from_dir;
	struct meta_name from;
	uint64_t id; /* what must have the name; 0: anything */
	uint64_t to_dir;
	struct meta_name to;
	uint64_t new_id;  /* of the file in another directory */
	uint64_t request; /* drawn by the caller, not 0 */
	unsigned flags;
};

/* --- blocks ----------------------------------------------------------------------------------- */

enum meta_block_state {
	META_BLOCK_PENDING = 1, /* allocated: chunks are being written; no file may use it */
	META_BLOCK_OPEN = 2,    /* committed, and under append */
	META_BLOCK_SEALED = 3,  /* committed, its length is final */
};

/* Chunk number i is at chunks[i]. */
struct meta_chunk {
	uint64_t disk; /* disk or pool of the cluster map; 0: nowhere, left to repair */
	uint32_t crc;  /* CRC-32C of the whole chunk, when known */
	bool damaged;  /* reported bad; cleared when it is replaced */
};

struct meta_block {
	uint64_t id;
	enum meta_block_state state;
	uint64_t epoch; /* of its writer: what the nodes were given for its chunks */
	/*
	 * Chunks are named (chunk_block, index) on the disks: the block's id, until it is laid out anew.
	 */
	uint64_t chunk_block;
	uint64_t
		layout; /* counts changes of chunks: a cached location with an older one is stale */
	/*
	 * Counts chunks that were let go: ones that it named and does not any more, and ones that it does not name
	 * and that will be deleted. Who names a chunk brings the count that it read before it put the chunk there,
	 * and is refused with an older one: the chunk may have been deleted since, however long ago that was.
	 */
	uint64_t release_count;
	/* Set by the allocation, and of commit: it is of the pending record that this one made, not of another that a
	 * late copy of the request has made since, when the first had been collected. */
	uint64_t alloc_id;
	uint64_t length;   /* bytes of user data */
	uint64_t capacity; /* the most it may grow to; what the quota counts until it is sealed */
	uint64_t chunk_length; /* bytes of each chunk, when sealed */
	uint32_t crc;          /* CRC-32C of the length bytes */
	/*
	 * Where its chunks belong: set by the allocation, changed by a relayout alone. A chunk that repair found no
	 * room for there is on a disk of the other media (cluster/README.md).
	 */
	enum cluster_media media;
	char encoding[META_ENCODING_MAX];
	size_t chunk_count;
	struct meta_chunk *chunks; /* of the caller, or of the arena */
	bool over_quota; /* of commit: for services. It is counted, and the quota refuses nothing */
	bool early; /* of commit: durable only with what the caller does next, which must be a change */
};

/* A file that has, or will have, extents of so many bytes in a block. */
struct meta_owner {
	uint64_t file;
	uint64_t bytes;
};

/* A chunk of a block that is on another disk than before, or was made anew where it was. */
struct meta_place {
	uint64_t chunk_block;
	uint32_t index;
	uint32_t crc;
	uint64_t from; /* 0: nowhere */
	uint64_t to;
	uint64_t release_count; /* of the block, read before the chunk was put there */
};

/* --- usage of directories --------------------------------------------------------------------- */

struct meta_usage {
	uint64_t files;
	uint64_t dirs;
	uint64_t bytes;    /* sizes of files, as their entries say */
	uint64_t taken_ns; /* wall clock when it was counted; 0: never yet, and the rest is 0 */
};

#endif
