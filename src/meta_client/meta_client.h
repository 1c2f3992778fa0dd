// SPDX-License-Identifier: Apache-2.0
/*
 * The client of the metadata service: a stub for each function of meta/meta.h, with the same arguments, results
 * and errors, and a copy of the cluster map.
 *
 *     struct meta_call c = {.client = client};
 *     int rc = meta_client_lookup(&c, META_ROOT, meta_name("data"), &entry);
 *     if (rc < 0)
 *             complain("%s: %s", "data", c.error);
 *
 * Many fibers can share a client. Each fiber uses its own meta_call, for one call at a time. A request carries the
 * fiber's context; if that names no tenant, it carries the client's tenant.
 *
 * Servers. A client has the addresses of all metadata servers and uses one of them. If this server cannot be
 * reached, loses the connection, does not respond within try_ns or reports that its store failed, the client
 * sends the same request to the next server, until the call's time limit. After each round over all servers it
 * pauses, longer each time. Every request may be sent again: the caller chooses the ids of new objects at random
 * (meta.h), so the service executes a request once. A busy server (-EAGAIN) tells how long to wait; the client
 * waits that long, plus a random time, and sends the request to the same server, at most busy_max times.
 *
 * Errors in addition to those of meta.h, after all tries: -ECONNREFUSED, -EHOSTUNREACH, -ECONNRESET, -ETIMEDOUT,
 * -ETIME as in rpc/client.h; -EAGAIN: the server is still busy; -EACCES: the tenant does not exist; -EPERM: the
 * tenant may not do this; -ECANCELED; -EPROTO: the response is invalid. in_doubt tells whether a failed change may have
 * been executed, or may still be executed.
 *
 * Cache. The client caches sealed files with their extents, and sealed blocks: up to cache_bytes, each for at most
 * cache_ttl_ns. So a removed file can still be read from the cache for this time after the server has dropped it
 * from its own cache. Locations of chunks in the cache can be stale: if a disk does not have a chunk,
 * meta_client_block_refresh reads them again. Calls in the context of another tenant than the client's do not use
 * the cache.
 *
 * A client belongs to the loop on which it was opened.
 */
#ifndef META_CLIENT_META_CLIENT_H
#define META_CLIENT_META_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "meta_api/gc.h"
#include "meta_api/group.h"
#include "meta_api/types.h"
#include "rpc/client.h"

struct arena;
struct meta_map_node;
struct meta_note;

/*
 * Sharing. With the option `shares`, requests wait here until the quota of their traffic group has room, or are refused
 * before anything is sent (meta_api/group.h, limits/limiter.h). Every call passes the limit of queries by itself; reads
 * and writes of disks call meta_client_admit. Until the client has heard of a group, and while its groups have no quota
 * of a resource, there is no limit. Quotas may change at any time.
 */
#define META_CLIENT_SERVERS_MAX 16
#define META_CLIENT_ERROR_MAX 200

struct meta_client;

struct meta_client_options {
	const char *const *addrs; /* addresses of the metadata servers; copied */
	size_t addr_count;        /* number of addresses: 1 to META_CLIENT_SERVERS_MAX */
	const char *tenant;       /* name of the tenant; META_SYSTEM for services; copied */
	struct rpc_channel_options channel;
	uint64_t timeout_ns;   /* time limit of a call with all its tries; 0: 15 s */
	uint64_t try_ns;       /* time limit of one try if there are several servers; 0: 3 s */
	unsigned busy_max;     /* largest number of retries after -EAGAIN; 0: 32 */
	size_t cache_bytes;    /* size of the cache; 0: 16 MiB */
	uint64_t cache_ttl_ns; /* age limit of cache entries; 0: 10 s; at most META_CACHE_TTL_MAX */
	/* Fail after one round over the servers if no server was ever reached, instead of trying for timeout_ns. */
	bool impatient;
	/* Limit the requests of the client by the quotas of their traffic groups (meta_client_admit). Requests of the
	 * system tenant have no limit. */
	bool shares;
};

/* Opens a client; it connects at the first call, or at once if it shares. -EINVAL, -ENOMEM, -EAGAIN. */
int meta_client_open(struct meta_client **out, const struct meta_client_options *o);
/* Closes the client. No fiber may be in a call. Waits if the client shares. c may be NULL. */
void meta_client_close(struct meta_client *c);

struct meta_client_stats {
	uint64_t calls;
	uint64_t retries;   /* number of requests sent again */
	uint64_t failovers; /* number of changes to the next server */
	uint64_t busy;      /* number of responses of busy servers */
	uint64_t cache_hits;
	uint64_t cache_misses;
	uint64_t cache_bytes;
	uint64_t refreshes;       /* number of calls of meta_client_block_refresh */
	uint64_t token_requests;  /* number of requests for tokens for new chunks */
	uint64_t tokens_received; /* number of such tokens */
};
void meta_client_stats(const struct meta_client *c, struct meta_client_stats *out);

/*
 * Waits until a request of the fiber's context may use `cost` of a resource (meta_disk_cost, or queries), and sets *as to
 * the class with which it is sent: a request on borrowed capacity may get a worse one than its context has. Returns 0
 * at once if the client does not share or the group has no limit. -ETIME: the request would wait beyond its deadline;
 * -EAGAIN: too many requests wait; -ECANCELED.
 */
int meta_client_admit(struct meta_client *c, enum meta_resource r, uint64_t cost,
		      enum traffic_class *as);
/* Like meta_client_admit, and makes the fiber carry a context with the class. *before is for rt_context_leave, also after
 * an error. -ENOMEM in addition. */
int meta_client_enter(struct meta_client *c, enum meta_resource r, uint64_t cost,
		      const struct context **before);

/*
 * Copies to out the tokens with which new chunks of the client's tenant may be put on n disks, at most
 * META_TOKEN_DISKS_MAX. They are asked for once, and renewed in batches before they expire. *needed false: out has none,
 * because this identity needs none. Errors of a request; -EACCES: the identity may not write.
 */
struct meta_call;
int meta_client_disk_tokens(struct meta_call *c, const uint64_t *disks, size_t n,
			    uint8_t (*out)[META_TOKEN_BYTES], bool *needed);
/* Makes the next call ask for new tokens: those at hand were refused. */
void meta_client_disk_tokens_drop(struct meta_client *c);

/* What the requests of a group used and waited for at this client. */
struct meta_share_stats {
	bool limited;      /* the group has a limit of this resource now */
	uint64_t quota;    /* units per second (meta_quota_units) */
	uint64_t sent;     /* requests */
	uint64_t cost;     /* units */
	uint64_t borrowed; /* part of cost on borrowed capacity */
	uint64_t delayed, refused;
	uint64_t waiting; /* requests that wait now */
};
/* Reads the groups of the cluster; for META_SYSTEM. -EBADMSG: a note is not valid (terrane group set replaces it). */
struct meta_call;
int meta_client_groups(struct meta_call *c, struct meta_groups *out);
/* What a traffic group used of a metadata server since the server began, for operators; a value may become smaller. */
#define META_TRAFFIC_MAX (1024 + META_GROUPS_MAX + 1)
#define META_TRAFFIC_GROUP_MAX 160
struct meta_traffic {
	char group[META_TRAFFIC_GROUP_MAX]; /* TENANT/GROUP */
	uint64_t requests, refused, time_ns;
	uint64_t waiting; /* requests that wait at the server */
	/* what clients report: requests that wait there, requests per second that were delayed or refused */
	double clients_waiting, clients_throttled;
};
/* Asks one server, and returns the number of entries. A group may have two: its use, and what clients report. */
int64_t meta_client_traffic(struct meta_call *c, struct meta_traffic out[META_TRAFFIC_MAX]);
/* -ENOENT: the client does not share, or no such group has a limit. */
int meta_client_share_stats(const struct meta_client *c, enum meta_resource r, uint32_t group,
			    struct meta_share_stats *out);

struct meta_call {
	struct meta_client *client;
	uint64_t timeout_ns; /* time limit of the call; 0: the limit of the client */
	/* Set by each call: */
	/* the call failed, but the change may have been executed, or may still be executed */
	bool in_doubt;
	char error[META_CLIENT_ERROR_MAX]; /* text of the error; empty after success */
};

/* --- tenants: for META_SYSTEM, except a tenant's own record ------------------------------------------ */

int meta_client_tenant_create(struct meta_call *c, const struct meta_tenant *t);
/* Reads the record of the tenant with this id. If id is 0, reads the tenant with this name; if name is NULL, too,
 * the caller's tenant. */
int meta_client_tenant_get(struct meta_call *c, uint32_t id, const char *name,
			   struct meta_tenant *out);
/* Reads the record of the caller's tenant, and the epoch of the collector (0: the server could not read it). */
int meta_client_tenant_own(struct meta_call *c, struct meta_tenant *out, uint64_t *gc_epoch);
int meta_client_tenant_remove(struct meta_call *c, uint32_t id);
int meta_client_tenant_set_quota(struct meta_call *c, uint32_t id, uint64_t quota_bytes);
/* Sets shares_content of the tenant of the fiber's context, for those who may give grants in all of it. */
int meta_client_tenant_share(struct meta_call *c, bool share);
/* Reads shares_content of the tenant of the fiber's context, which may be "system:N": for cache nodes. */
int meta_client_tenant_shares(struct meta_call *c, bool *share);
/* Sets the quota of files and directories of a tenant; 0: no limit. */
int meta_client_tenant_set_files(struct meta_call *c, uint32_t id, uint64_t files_max);
int64_t meta_client_tenant_list(struct meta_call *c, uint32_t after, struct meta_tenant *out,
				size_t max);

/* --- names ------------------------------------------------------------------------------------ */

int meta_client_lookup(struct meta_call *c, uint64_t dir, struct meta_name name,
		       struct meta_entry *out);
/* Resolves path from dir to a directory, sets *in to its id, and looks up name in this directory, all in one
 * request. Returns 0 with out->id 0 if the directory does not have the name. */
int meta_client_find(struct meta_call *c, uint64_t dir, struct meta_name path,
		     struct meta_name name, uint64_t *in, struct meta_entry *out);
int meta_client_resolve(struct meta_call *c, uint64_t dir, struct meta_name path,
			struct meta_entry *out);
int meta_client_dir_get(struct meta_call *c, uint64_t dir, struct meta_dir *out);
int meta_client_list(struct meta_call *c, uint64_t dir, const struct meta_cursor *from, size_t max,
		     struct arena *arena, struct meta_page *out);
int meta_client_mkdir(struct meta_call *c, uint64_t dir, struct meta_name name, uint64_t id,
		      const struct meta_attrs *attrs);
/* Looks up the name in the directory at the end of path, with the values of its user attributes, which are in the arena.
 * Sets *in to the id of the directory. */
int meta_client_attr_get(struct meta_call *c, uint64_t dir, struct meta_name path,
			 struct meta_name name, struct arena *arena, uint64_t *in,
			 struct meta_entry *out);
int meta_client_attr_set(struct meta_call *c, uint64_t dir, const struct meta_attr_change *change);
int meta_client_create(struct meta_call *c, uint64_t dir, const struct meta_create *files, size_t n,
		       unsigned flags, int *results);
/* Does meta_create if the path from the root leads to dir. -ESTALE: it leads to another directory or to none, and
 * nothing was created. */
int meta_client_create_at(struct meta_call *c, uint64_t dir, struct meta_name path,
			  const struct meta_create *file, unsigned flags, int *result);
int meta_client_link(struct meta_call *c, uint64_t dir, struct meta_name name,
		     const struct meta_naming *as);
/* Removes the name if it leads to id. If id is 0, looks the id up first, and removes the object that the name
 * leads to. */
int meta_client_remove(struct meta_call *c, uint64_t dir, struct meta_name name, uint64_t id,
		       unsigned flags);
/* Rename and move both look up the id that the name leads to first, and rename or move this object only. -ESTALE:
 * the name leads to another object by now. */
int meta_client_rename(struct meta_call *c, uint64_t dir, struct meta_name from,
		       struct meta_name to, uint64_t request, unsigned flags);
int meta_client_move(struct meta_call *c, const struct meta_move *move);
/* Copies a sealed file; the fields are those of a move. */
int meta_client_copy(struct meta_call *c, const struct meta_move *copy);
/* Removes an empty directory; id as in meta_client_remove. */
int meta_client_rmdir(struct meta_call *c, uint64_t dir, struct meta_name name, uint64_t id);
int meta_client_dir_seal(struct meta_call *c, uint64_t dir);
int meta_client_dir_unseal(struct meta_call *c, uint64_t dir);

/* Everything that a reader needs to know about a file. The arrays are in the arena. */
struct meta_opened {
	struct meta_entry entry;     /* entry of the path; its name points into the caller's path */
	struct meta_file file;       /* set only if the entry is a file */
	struct meta_extent *extents; /* the first extents */
	size_t extent_count;
	struct meta_block
		*blocks; /* blocks of these extents, each once, as many as the response has */
	size_t block_count;
};

/* Does meta_resolve, meta_file_get and meta_block_get in one request, and adds the results to the cache. max: largest
 * number of extents; 0: META_PAGE_MAX. */
int meta_client_open_path(struct meta_call *c, uint64_t dir, struct meta_name path, size_t max,
			  struct arena *arena, struct meta_opened *out);

/* A file by its id, or if that is 0 by its path from the root. */
struct meta_file_name {
	uint64_t id;
	struct meta_name path;
};

/* A file that was opened together with others. */
struct meta_opened_file {
	int rc; /* 0, or the error of this file; then the fields below are not set */
	struct meta_file file;
	struct meta_extent *extents; /* the first extents, at most META_INLINE_EXTENTS */
	size_t extent_count;
};

/* Opens n files (1 to META_OPEN_MAX) with one request; sealed files by id may come from the cache. files[i] is the
 * result of names[i]; *blocks has block records of the extents, each once, as many as the response has. All arrays are
 * in the arena. A file that is refused (-EAGAIN) because of too many requests is no error of the call: open it alone. */
int meta_client_open_many(struct meta_call *c, const struct meta_file_name *names, size_t n,
			  struct arena *arena, struct meta_opened_file *files,
			  struct meta_block **blocks, size_t *block_count);

/* --- files ------------------------------------------------------------------------------------ */

int meta_client_file_new(struct meta_call *c, uint64_t dir, uint64_t id, uint64_t token);
/* Returns a file like meta_file_get. Sealed files may come from the cache. */
int meta_client_file_get(struct meta_call *c, uint64_t file, struct meta_part *part,
			 struct arena *arena, struct meta_file *out);
/* Returns a file like meta_client_file_get, but by its name. Always asks the server; adds a sealed file to the
 * cache. */
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

/* Allocates a block like meta_block_allocate. Sets *gc_epoch to the epoch of the collector, read after the record
 * was stored. */
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
/* Returns blocks like meta_block_get. Sealed blocks may come from the cache. */
int meta_client_block_get(struct meta_call *c, const uint64_t *blocks, size_t n,
			  struct arena *arena, struct meta_block *out);
/* Reads a block from the server, with tokens that open the wanted byte if its tokens cannot open all bytes. -ENOENT. */
int meta_client_block_get_for(struct meta_call *c, uint64_t block, uint64_t wanted,
			      struct arena *arena, struct meta_block *out);
/*
 * Reads a block from the server, not from the cache, for a reader that did not find chunks on the disks that this
 * layout of the block names. Returns 0 if out has a newer layout, so that the read is worth a retry; -ESTALE: the
 * layout has not changed (out is filled); -ENOENT: the block was deleted.
 */
int meta_client_block_refresh(struct meta_call *c, uint64_t block, uint64_t layout,
			      struct arena *arena, struct meta_block *out);
int64_t meta_client_block_owners(struct meta_call *c, uint64_t block, uint64_t after,
				 struct meta_owner *out, size_t max);

/* Returns the usage of a directory as of the last count. refresh: starts a count first, which reads the complete
 * tree; only META_SYSTEM may do this (-EPERM). */
int meta_client_du(struct meta_call *c, uint64_t dir, bool refresh, struct meta_usage *out);

/* Sets the quota of a directory, or removes it if no limit is given. parent: the directory that has it. *counted: the quota
 * holds from now on; false: after the next count of the servers. -ENOENT: clearing a quota that is not there. */
int meta_client_dir_quota_set(struct meta_call *c, uint64_t parent,
			      const struct meta_dir_quota *want, bool *counted);
/* Sets *out, in the arena, to the quotas of dir and of the directories above, or to all of the tenant (dir is the root), and
 * *tenant to the tenant's own limits. Returns their number. Those that the caller may not look at have only their id. */
int64_t meta_client_dir_quota_list(struct meta_call *c, uint64_t dir, bool all, struct arena *a,
				   struct meta_dir_quota **out, struct meta_tenant *tenant);

/* --- placement on flash or disk; the category is that of the fiber's context ----------------------- */

/* Tells that a file begins, with its features as text (placement/outcome.h). */
int meta_client_place_begin(struct meta_call *c, uint64_t file, const char *features);
/* Asks whether a block of this size on disks goes to flash. */
int meta_client_place(struct meta_call *c, uint64_t bytes, bool *flash);
/* Tells that a block that was admitted to flash found no room there. */
int meta_client_place_refused(struct meta_call *c, uint64_t bytes);
/* Adds reads to a file that has a placement. */
int meta_client_file_used(struct meta_call *c, uint64_t file, uint64_t reads, uint64_t bytes);
/* Returns the state of admission at the server that answers; for META_SYSTEM. The classes are in the arena. */
struct meta_placement;
int meta_client_placement(struct meta_call *c, struct arena *a, struct meta_placement *out);

/* --- background services: for META_SYSTEM ---------------------------------------------------------- */

/* A walk over the partitions [index, end) of a layer. It is complete when index reaches end. A caller starts with all
 * fields zero except end. */
struct meta_walk {
	uint64_t index, end;
	struct meta_gc_cursor at;
};

int meta_client_gc_epoch(struct meta_call *c, uint64_t *epoch, uint64_t *partitions);
int meta_client_gc_state(struct meta_call *c, struct meta_gc_state *out);
/* Holds or releases the epoch of the collection. why: up to META_GC_WHY_MAX bytes. */
int meta_client_gc_hold(struct meta_call *c, bool held, const char *why);

struct meta_backup_request {
	uint64_t id;     /* random, not 0 */
	const char *dir; /* on the machine of the server */
	unsigned keep;   /* backups to keep in the folder; 0: all */
};

struct meta_backup {
	bool running;
	int rc; /* result of a backup that has ended: errors of kv_backup */
	uint64_t number, made_s, bytes, files;
};

/* Starts a backup on the server, or tells the state of the backup of this id. -EBUSY: another backup runs. */
int meta_client_backup(struct meta_call *c, const struct meta_backup_request *want,
		       struct meta_backup *out);
int meta_client_gc_advance(struct meta_call *c, uint64_t epoch);
/* These functions are like those of gc.h, but each call covers as many partitions as the server handles in one
 * request. */
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

/* A chunk that was found on a disk, with the fields of its label. */
struct meta_found_chunk {
	uint32_t tenant;
	uint32_t index;
	uint64_t block;
	uint64_t chunk_block;
};

/* Does meta_chunk_wanted for up to META_PAGE_MAX chunks of one disk. */
int meta_client_chunks_wanted(struct meta_call *c, uint64_t disk,
			      const struct meta_found_chunk *chunks, size_t n, bool *wanted);
int meta_client_chunk_give_up(struct meta_call *c, uint64_t disk, const struct meta_found_chunk *f,
			      bool *wanted);

/* These functions take and release leases, like those of gc.h. Times are of this process's clock. */
int meta_client_lease_take(struct meta_call *c, struct meta_lease *l);
int meta_client_lease_drop(struct meta_call *c, const struct meta_lease *l);

/* These functions write, delete and list notes (meta_api/note.h). */
int meta_client_note_put(struct meta_call *c, struct meta_note *note);
int meta_client_note_drop(struct meta_call *c, const char *name);
/* Reads one note. -ENOENT: the note does not exist, or its text is empty; out->turn is set in this case, too. */
int meta_client_note_get(struct meta_call *c, const char *name, struct arena *a,
			 struct meta_note *out);
int64_t meta_client_note_list(struct meta_call *c, const char *prefix, const char *after,
			      struct arena *a, struct meta_note *out, size_t max, bool *end);

/* --- the cluster map ---------------------------------------------------------------------------- */

/*
 * Returns the client's copy of the map. If it is older than max_age_ns, it is updated first; if no server can be
 * reached, the old copy is returned. The copy changes in place: pointers into it are valid until the next wait. Any
 * tenant may read the map.
 */
int meta_client_map(struct meta_call *c, uint64_t max_age_ns, struct cluster **out);
/* Updates the client's copy of the map and the used_bytes of all disks in it, and returns the copy. */
int meta_client_map_usage(struct meta_call *c, struct cluster **out);

/* Registers a node that has started, like meta_map_register; for META_SYSTEM. n: the node's report of itself. *beat_ns:
 * interval at which the node must send heartbeats. meta_client_node_beat sends a heartbeat; its errors: -ESTALE:
 * another process has registered as this node; -ENOENT: the node must register again. */
int meta_client_node_register(struct meta_call *c, const struct meta_map_node *n,
			      struct cluster_id *cluster, uint64_t *beat_ns);
int meta_client_node_beat(struct meta_call *c, const struct meta_map_node *n, uint64_t *beat_ns);
int meta_client_want_node(struct meta_call *c, uint64_t node, enum cluster_state wanted);
int meta_client_want_disk(struct meta_call *c, uint64_t disk, enum cluster_state wanted);
int meta_client_weigh_disk(struct meta_call *c, uint64_t disk, uint32_t weight);

#endif
