// SPDX-License-Identifier: Apache-2.0
/*
 * Shared by the metadata service and its clients: limits, and the objects of the filesystem as calls pass
 * them. meta/meta.h documents the operations on them, their promises and errors.
 */
#ifndef META_API_TYPES_H
#define META_API_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"
#include "cluster/cluster.h"

/* The tenant of a context that may do administration and background work. */
#define META_SYSTEM "system"

#define META_ROOT 1ULL /* the root directory of every tenant */
#define META_NAME_MAX 255
#define META_PATH_MAX 4096
#define META_DEPTH_MAX 1000         /* levels of a path; a tree built by id may be deeper */
#define META_BATCH_MAX 1000         /* files of one create */
#define META_PAGE_MAX 1000          /* entries, extents or rows of one page */
#define META_EXTENTS_MAX 256        /* of one meta_file_add; a file may have any number */
#define META_INLINE_EXTENTS 4       /* of a file that meta_create creates sealed */
#define META_CHUNKS_MAX 255         /* disks (or pools) of one block */
#define META_OWNERS_MAX 1000        /* of one call; a block may have any number */
#define META_FILE_MAX (1ULL << 60)  /* bytes */
#define META_BLOCK_MAX (1ULL << 40) /* bytes */
#define META_TENANT_NAME_MAX 64
#define META_ENCODING_MAX 32 /* bytes of its text, with the terminator */

/*
 * The longest time that a server, and then a client, serves sealed metadata from its cache. A removed object may be
 * served for both times, one after the other, and what it leads to must still exist: so the collector's grace period is
 * longer. The service that advances epochs (gc.h) waits at least META_GRACE_MIN between two.
 */
#define META_CACHE_TTL_MAX (60 * NS_PER_S) /* of a server; and of a client */
#define META_GRACE_MIN (3 * META_CACHE_TTL_MAX)

/* --- tenants ---------------------------------------------------------------------------------- */

struct meta_tenant {
	uint32_t id;                         /* not 0 */
	char name[META_TENANT_NAME_MAX + 1]; /* rules as for a file's name */
	uint64_t quota_bytes;                /* limit of used_bytes; 0: no limit */
	uint64_t used_bytes; /* bytes of committed blocks, before redundancy; set by the store */
};

/* --- names ------------------------------------------------------------------------------------ */

/* A name; text has no terminator. */
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
 * A name in a directory, with what a listing shows. For a file that is not sealed, size is the size when it was named
 * or last closed; meta_file_get returns the current one.
 */
struct meta_entry {
	struct meta_name name; /* points into the page, or is the caller's */
	enum meta_kind kind;
	uint64_t id;
	uint64_t size;
	uint64_t mtime_ns; /* wall clock of the client that created or closed it */
	bool sealed;       /* files only: its contents cannot change */
};

struct meta_dir {
	uint64_t id;
	uint64_t parent; /* 0: the root */
	uint64_t created_ns;
	bool sealed;
	bool spread; /* its names are in several partitions; listings are not sorted */
};

/* Position of a listing; zeroed at its start. Comes back from clients, so the store checks it. */
struct meta_cursor {
	uint32_t slice;
	uint16_t name_len; /* bytes of name, the last one listed; 0: start of the slice */
	bool end;          /* the listing is complete */
	char name[META_NAME_MAX];
};

struct meta_page {
	struct meta_entry *entries; /* the arena's */
	size_t count;
	struct meta_cursor next;
};

/* --- files ------------------------------------------------------------------------------------ */

/* A piece of a file: a range of a block. */
struct meta_extent {
	uint64_t block;
	uint64_t offset; /* in the block */
	uint64_t length; /* bytes; 0 only when open */
	bool open;       /* last extent of a file under append: the block record has its length */
};

struct meta_file {
	uint64_t id;
	uint64_t dir;  /* directory that it was created for */
	uint64_t size; /* bytes of all extents but an open one */
	uint64_t mtime_ns;
	uint64_t extent_count;
	bool sealed;
	bool linked;  /* has or had a name */
	bool removed; /* its name was removed and collection has begun: reads may soon fail */
};

/* The extents of a file that meta_file_get reads, and its result. */
struct meta_part {
	uint64_t offset; /* byte of the file: the first extent returned is the one that holds it */
	size_t max;      /* number of extents; 0: META_PAGE_MAX */
	/* Results: */
	struct meta_extent *extents; /* of the arena */
	size_t count;
	uint64_t first_offset; /* bytes of the file before the first of the extents */
};

/* A file to create together with its name. */
struct meta_create {
	struct meta_name name;
	uint64_t id;    /* drawn by the caller */
	uint64_t token; /* not 0: open for writing with this write token; 0: created sealed */
	/* Contents of a sealed file: 0 to META_INLINE_EXTENTS extents. Their blocks are committed and have the file
	 * as an owner already, but for `block`. */
	const struct meta_extent *extents;
	size_t extent_count;
	uint64_t mtime_ns;
	/* NULL, or the pending block among them, which is committed first, with this file as its only owner. */
	const struct meta_block *block;
};

enum meta_flags {
	META_OVERWRITE = 1 << 0,  /* replace a file that has the name; it becomes garbage */
	META_SEALED_TOO = 1 << 1, /* meta_remove only: also from a sealed directory (promise 6) */
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
	META_BLOCK_PENDING = 1, /* allocated, chunks are being written; no file may name it */
	META_BLOCK_OPEN = 2,    /* committed, and under append */
	META_BLOCK_SEALED = 3,  /* committed, its length is final */
};

/* One chunk of a block; its index is its place in meta_block.chunks. */
struct meta_chunk {
	uint64_t disk; /* disk or pool of the cluster map; 0: on no disk, to be repaired */
	uint32_t crc;  /* CRC-32C of the whole chunk; 0: not known */
	bool damaged;  /* reported as damaged; cleared when the chunk is replaced */
};

struct meta_block {
	uint64_t id;
	enum meta_block_state state;
	uint64_t epoch; /* of its writer; nodes refuse operations that bring an older one */
	/*
	 * On disks chunks are named (chunk_block, index). chunk_block is the block's id until the block gets another
	 * layout.
	 */
	uint64_t chunk_block;
	uint64_t layout; /* counts changes of chunks; a cached record with an older one is stale */
	/*
	 * Counts released chunks: chunks that the record named and no longer names, and chunks that it does not name
	 * and that a janitor is about to delete. A request that adds a chunk to the record brings the count that was
	 * read before the chunk was put, and is refused if the count has grown: the chunk may have been deleted
	 * since, however long ago the put was.
	 */
	uint64_t release_count;
	/* Random number of the allocation that created the pending record; the commit brings it. A delayed copy of
	 * the allocation may create a second pending record after the first was collected: its number differs, and
	 * the commit of the first writer is refused. */
	uint64_t alloc_id;
	uint64_t length;   /* bytes of user data */
	uint64_t capacity; /* bytes that it may grow to; charged to the tenant until it is sealed */
	uint64_t chunk_length; /* bytes of each chunk, when sealed */
	uint32_t crc;          /* CRC-32C of the length bytes */
	/*
	 * Where its chunks belong: set by the allocation, changed by a relayout alone. A chunk that repair found no
	 * room for there is on a disk of the other media (cluster/README.md).
	 */
	enum cluster_media media;
	char encoding[META_ENCODING_MAX];
	size_t chunk_count;
	struct meta_chunk *chunks; /* the caller's, or the arena's */
	bool over_quota;           /* commit only, for services: charge it, even beyond the quota */
	bool early; /* commit only: need not be durable before the caller's next change */
};

/* A file that has, or will have, extents of `bytes` bytes in a block. */
struct meta_owner {
	uint64_t file;
	uint64_t bytes;
};

/* A move of a chunk to another disk; or, when from is to, its rebuilding on the same disk. */
struct meta_place {
	uint64_t chunk_block;
	uint32_t index;
	uint32_t crc;
	uint64_t from; /* disk; 0: none */
	uint64_t to;
	uint64_t release_count; /* of the block record, read before the chunk was put on `to` */
};

/* --- usage of directories --------------------------------------------------------------------- */

struct meta_usage {
	uint64_t files;
	uint64_t dirs;
	uint64_t bytes;    /* sizes of files as their entries have them */
	uint64_t taken_ns; /* wall clock of the count; 0: not counted yet, all fields are 0 */
};

#endif
