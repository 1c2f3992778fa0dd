// SPDX-License-Identifier: Apache-2.0
/*
 * The metadata service from the other side: a function for each one of meta/meta.h, with the same arguments,
 * results and errors, and the cluster map.
 *
 *     struct meta_call c = {.client = client};
 *     int rc = meta_client_lookup(&c, META_ROOT, meta_name("data"), &entry);
 *     if (rc < 0)
 *             complain("%s: %s", "data", c.error);
 *
 * Each fiber has a meta_call of its own, for one call after the other; any number share the client. A call carries
 * the fiber's context, with the client's tenant when that names none.
 *
 * Servers. A client has the addresses of all metadata servers and talks to one. When that one cannot be
 * reached, loses the connection, does not answer in try_ns or reports a store it cannot use, the same
 * request goes to the next, after a pause that grows once all were asked, until the time is up. Every
 * request may be sent again, because what it makes has an id that the caller drew (meta.h): it is done
 * once. A server that is busy (-EAGAIN) says how long to wait; the client waits that long, with some
 * chance added, and asks the same server again, at most busy_max times.
 *
 * Errors beside those of meta.h, after all that: -ECONNREFUSED, -EHOSTUNREACH, -ECONNRESET, -ETIMEDOUT,
 * -ETIME as in rpc/client.h; -EAGAIN still too busy; -EACCES the tenant is not known; -EPERM not for this
 * tenant; -ECANCELED; -EPROTO an answer that makes no sense. in_doubt tells whether a change may have
 * happened, or may yet.
 *
 * Caches. Sealed files with their extents and sealed blocks are kept, up to cache_bytes and for at most
 * cache_ttl_ns: a file that was removed may be seen so long, after the server has forgotten it. Locations of chunks may be old: when a disk
 * does not have a chunk, meta_client_block_refresh asks again. Calls with a context of another tenant
 * than the client's do not use the cache.
 *
 * A client belongs to the loop it was opened on.
 */
#ifndef META_CLIENT_META_CLIENT_H
#define META_CLIENT_META_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "meta_api/gc.h"
#include "meta_api/types.h"
#include "rpc/client.h"

struct arena;
struct meta_map_node;
struct meta_note;

#define META_CLIENT_SERVERS_MAX 16
#define META_CLIENT_ERROR_MAX 200

struct meta_client;

struct meta_client_options {
	const char *const *addrs; /* of the metadata servers, copied */
	size_t addr_count;        /* 1 to META_CLIENT_SERVERS_MAX */
	const char *tenant;       /* its name, copied; META_SYSTEM for services */
	struct rpc_channel_options channel;
	uint64_t timeout_ns;   /* of each call, with all its tries; 0: 15 s */
	uint64_t try_ns;       /* of one try, when there is another server; 0: 3 s */
	unsigned busy_max;     /* 0: 32 */
	size_t cache_bytes;    /* 0: 16 MiB */
	uint64_t cache_ttl_ns; /* 0: 10 s; at most META_CACHE_TTL_MAX */
	/* Fail at once when no server can be reached, instead of trying for timeout_ns. */
	bool impatient;
};

/* Makes no connection yet. -EINVAL, -ENOMEM, -EAGAIN. */
int meta_client_open(struct meta_client **out, const struct meta_client_options *o);
/* No fiber may be in a call. NULL is fine. */
void meta_client_close(struct meta_client *c);

struct meta_client_stats {
	uint64_t calls;
	uint64_t retries;   /* sent again, to the same server or the next */
	uint64_t failovers; /* of them: to another server */
	uint64_t busy;      /* a server asked to wait */
	uint64_t cache_hits;
	uint64_t cache_misses;
	uint64_t cache_bytes;
	uint64_t refreshes; /* locations that were found to be old */
};
void meta_client_stats(const struct meta_client *c, struct meta_client_stats *out);

struct meta_call {
	struct meta_client *client;
	uint64_t timeout_ns; /* 0: the client's */
	/* After each call: */
	bool in_doubt;                     /* it failed, and may have happened or happen yet */
	char error[META_CLIENT_ERROR_MAX]; /* in words; empty after success */
};

/* --- tenants: with META_SYSTEM, but for get of one's own -------------------------------------------- */

int meta_client_tenant_create(struct meta_call *c, const struct meta_tenant *t);
/* id 0: by name; name NULL too: one's own. */
int meta_client_tenant_get(struct meta_call *c, uint32_t id, const char *name,
			   struct meta_tenant *out);
int meta_client_tenant_set_quota(struct meta_call *c, uint32_t id, uint64_t quota_bytes);
int64_t meta_client_tenant_list(struct meta_call *c, uint32_t after, struct meta_tenant *out,
				size_t max);

/* --- names ------------------------------------------------------------------------------------ */

int meta_client_lookup(struct meta_call *c, uint64_t dir, struct meta_name name,
		       struct meta_entry *out);
/* The same with the way to the directory, which is *in: 0 with out->id 0 when it has no such name. */
int meta_client_find(struct meta_call *c, uint64_t dir, struct meta_name path,
		     struct meta_name name, uint64_t *in, struct meta_entry *out);
int meta_client_resolve(struct meta_call *c, uint64_t dir, struct meta_name path,
			struct meta_entry *out);
int meta_client_dir_get(struct meta_call *c, uint64_t dir, struct meta_dir *out);
int meta_client_list(struct meta_call *c, uint64_t dir, const struct meta_cursor *from, size_t max,
		     struct arena *arena, struct meta_page *out);
int meta_client_mkdir(struct meta_call *c, uint64_t dir, struct meta_name name, uint64_t id);
int meta_client_create(struct meta_call *c, uint64_t dir, const struct meta_create *files, size_t n,
		       unsigned flags, int *results);
int meta_client_link(struct meta_call *c, uint64_t dir, struct meta_name name,
		     const struct meta_naming *as);
/* id 0: whatever has the name now. That is looked up first, so that the removal can be sent again. */
int meta_client_remove(struct meta_call *c, uint64_t dir, struct meta_name name, uint64_t id,
		       unsigned flags);
/* Both look up what the name leads to first, and rename or move that only. -ESTALE: the name leads
 * elsewhere by now. */
int meta_client_rename(struct meta_call *c, uint64_t dir, struct meta_name from,
		       struct meta_name to, uint64_t request, unsigned flags);
int meta_client_move(struct meta_call *c, const struct meta_move *move);
/* id as in remove. */
int meta_client_rmdir(struct meta_call *c, uint64_t dir, struct meta_name name, uint64_t id);
int meta_client_dir_seal(struct meta_call *c, uint64_t dir);

/* What one needs to read a file, in one request. */
struct meta_opened {
	struct meta_entry entry;     /* its name points into the path */
	struct meta_file file;       /* when the entry is a file */
	struct meta_extent *extents; /* the first ones, of the arena */
	size_t extent_count;
	struct meta_block
		*blocks; /* of those extents, each once, as far as they fitted; of the arena */
	size_t block_count;
};

/* meta_resolve, then meta_file_get and meta_block_get of what it found. max: of the extents, 0: many.
 * Fills the cache. */
int meta_client_open_path(struct meta_call *c, uint64_t dir, struct meta_name path, size_t max,
			  struct arena *arena, struct meta_opened *out);

/* --- files ------------------------------------------------------------------------------------ */

int meta_client_file_new(struct meta_call *c, uint64_t dir, uint64_t id, uint64_t token);
/* Sealed files come from the cache. */
int meta_client_file_get(struct meta_call *c, uint64_t file, struct meta_part *part,
			 struct arena *arena, struct meta_file *out);
/* By name; fills the cache. */
int meta_client_file_open(struct meta_call *c, uint64_t dir, struct meta_name name,
			  struct meta_part *part, struct arena *arena, struct meta_file *out);
int meta_client_file_steal(struct meta_call *c, uint64_t file, uint64_t token,
			   struct meta_file *out, struct meta_extent *open);
int meta_client_file_add(struct meta_call *c, uint64_t file, uint64_t token, uint64_t offset,
			 const struct meta_extent *extents, size_t n);
int meta_client_file_close_extent(struct meta_call *c, uint64_t file, uint64_t token,
				  uint64_t block, uint64_t length);
int meta_client_file_seal(struct meta_call *c, uint64_t file, uint64_t token, struct meta_name name,
			  uint64_t mtime_ns);
int meta_client_file_remap(struct meta_call *c, uint64_t file, uint64_t offset,
			   const struct meta_extent *expect, const struct meta_extent *now);

/* --- blocks ----------------------------------------------------------------------------------- */

/* gc_epoch: the collector's, read when the record was there. */
int meta_client_block_allocate(struct meta_call *c, struct meta_block *b, uint64_t *gc_epoch);
int meta_client_block_commit(struct meta_call *c, const struct meta_block *b,
			     const struct meta_owner *owners, size_t n);
int meta_client_block_own(struct meta_call *c, uint64_t block, const struct meta_owner *owners,
			  size_t n);
int meta_client_block_extend(struct meta_call *c, uint64_t block, uint64_t epoch,
			     uint64_t old_length, uint64_t length, uint32_t crc);
int meta_client_block_fence(struct meta_call *c, uint64_t block, uint64_t epoch,
			    struct arena *arena, struct meta_block *out);
int meta_client_block_seal(struct meta_call *c, uint64_t block, uint64_t epoch, uint64_t length,
			   uint64_t chunk_length, uint32_t crc);
int meta_client_block_replace(struct meta_call *c, uint64_t block, const struct meta_place *p);
int meta_client_block_report(struct meta_call *c, uint64_t block, uint64_t chunk_block,
			     uint32_t index, uint64_t disk);
int meta_client_block_relayout(struct meta_call *c, const struct meta_block *b);
/* Sealed blocks come from the cache, as far as they are there. */
int meta_client_block_get(struct meta_call *c, const uint64_t *blocks, size_t n,
			  struct arena *arena, struct meta_block *out);
/*
 * The locations that a reader had, of the layout it names, did not serve it: asks the service, not the
 * cache. 0: out is newer and worth a try; -ESTALE: it is still the same (out is filled); -ENOENT: the
 * block is gone.
 */
int meta_client_block_refresh(struct meta_call *c, uint64_t block, uint64_t layout,
			      struct arena *arena, struct meta_block *out);
int64_t meta_client_block_owners(struct meta_call *c, uint64_t block, uint64_t after,
				 struct meta_owner *out, size_t max);

/* As it was counted last. refresh: count anew first, which takes as long as the tree is large, and is the
 * system's alone (-EPERM). */
int meta_client_du(struct meta_call *c, uint64_t dir, bool refresh, struct meta_usage *out);

/* --- the background services: with META_SYSTEM ---------------------------------------------------- */

/* A walk over partitions [index, end) of a layer; it is done when index is end. To begin: zeros and end. */
struct meta_walk {
	uint64_t index, end;
	struct meta_gc_cursor at;
};

int meta_client_gc_epoch(struct meta_call *c, uint64_t *epoch, uint64_t *partitions);
int meta_client_gc_advance(struct meta_call *c, uint64_t epoch);
/* As those of gc.h, over as many partitions as one request covers. */
int meta_client_gc_step(struct meta_call *c, enum meta_gc_kind kind, uint64_t epoch,
			struct meta_walk *w, struct meta_gc_counts *counts);
int64_t meta_client_gc_chunks(struct meta_call *c, uint64_t epoch, struct meta_walk *w,
			      struct arena *arena, struct meta_dead_chunks *out, size_t max);
int meta_client_gc_chunks_done(struct meta_call *c, uint32_t tenant, uint64_t block,
			       uint64_t chunk_block);
int64_t meta_client_disk_blocks(struct meta_call *c, uint64_t disk, struct meta_walk *w,
				struct meta_on_disk *out, size_t max);
int64_t meta_client_blocks(struct meta_call *c, struct meta_walk *w, struct arena *arena,
			   struct meta_block_at *out, size_t max);

/* A chunk as its label says. */
struct meta_found_chunk {
	uint32_t tenant;
	uint32_t index;
	uint64_t block;
	uint64_t chunk_block;
};

/* meta_chunk_wanted of up to META_PAGE_MAX chunks of one disk. */
int meta_client_chunks_wanted(struct meta_call *c, uint64_t disk,
			      const struct meta_found_chunk *chunks, size_t n, bool *wanted);
int meta_client_chunk_give_up(struct meta_call *c, uint64_t disk, const struct meta_found_chunk *f,
			      bool *wanted);

/* As in gc.h; times are of this process's clock. */
int meta_client_lease_take(struct meta_call *c, struct meta_lease *l);
int meta_client_lease_drop(struct meta_call *c, const struct meta_lease *l);

/* As in note.h. */
int meta_client_note_put(struct meta_call *c, struct meta_note *note);
int meta_client_note_drop(struct meta_call *c, const char *name);
/* One by its name. -ENOENT: there is none, or it is empty; out->turn is right all the same. */
int meta_client_note_get(struct meta_call *c, const char *name, struct arena *a,
			 struct meta_note *out);
int64_t meta_client_note_list(struct meta_call *c, const char *prefix, const char *after,
			      struct arena *a, struct meta_note *out, size_t max, bool *end);

/* --- the cluster map ---------------------------------------------------------------------------- */

/*
 * The map, not older than max_age_ns when a server can be reached; a map that is there is given even
 * when none can. It changes in place: a pointer into it holds until the next wait. Any tenant may ask.
 */
int meta_client_map(struct meta_call *c, uint64_t max_age_ns, struct cluster **out);
/* The same, now, with used_bytes of all disks. */
int meta_client_map_usage(struct meta_call *c, struct cluster **out);

/* With META_SYSTEM. n as in map.h; beat_ns: how often to report. -ESTALE of beat: another process is the
 * node now. -ENOENT of beat: register again. */
int meta_client_node_register(struct meta_call *c, const struct meta_map_node *n,
			      struct cluster_id *cluster, uint64_t *beat_ns);
int meta_client_node_beat(struct meta_call *c, const struct meta_map_node *n, uint64_t *beat_ns);
int meta_client_want_node(struct meta_call *c, uint64_t node, enum cluster_state wanted);
int meta_client_want_disk(struct meta_call *c, uint64_t disk, enum cluster_state wanted);
int meta_client_weigh_disk(struct meta_call *c, uint64_t disk, uint32_t weight);

#endif
