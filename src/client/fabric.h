// SPDX-License-Identifier: Apache-2.0
/*
 * The chunk part of the client: moves blocks between memory and disks and knows nothing of names
 * and files. A fabric has the cluster map, a channel to each node, and statistics of disks. It
 * belongs to one loop. A struct call is one request of a user: its options and its error text.
 * The fiber carries its context.
 *
 * Several loops (parts.c). The home fabric is on the loop that has names and metadata. fabric_spread adds a part: a
 * fabric of its own on each other loop of a team. fabric_run runs work on blocks there:
 *
 *     home                                          part 2
 *     fabric_run(call, bytes, fn, arg)
 *       chooses the loop with the fewest bytes
 *       -> copy of the call, map ------------------> fn(call of the part, arg): fetches, checks and decodes
 *       <------------------------------------------- the result is in arg
 *
 * So code above the fabric runs at home only, and code that moves bytes runs wherever its call's fabric is.
 */
#ifndef CLIENT_FABRIC_H
#define CLIENT_FABRIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <terrane/terrane.h>

#include "base/map.h"
#include "client/budget.h"
#include "client/codecs.h"
#include "client/gate.h"
#include "client/pace.h"
#include "node/node_client.h"
#include "rt/call.h"
#include "rt/pool.h"
#include "rt/rt.h"

struct cluster;
struct cluster_copy;
struct fabric_parts;
struct secure_self;

#define FABRIC_ERROR_MAX 256

/* Points where a test may change a byte: each is a buffer that the user's data passes through. */
enum tamper_at {
	TAMPER_COPIED_IN,  /* the block being filled, after the user's bytes were copied */
	TAMPER_BLOCK,      /* the full block, before it is encoded */
	TAMPER_PARITY,     /* a parity, before its checksum is taken */
	TAMPER_SENDING,    /* a chunk whose checksum is known, before it is sent */
	TAMPER_RECEIVED,   /* a chunk's bytes, after the transport checked them */
	TAMPER_REBUILT,    /* computed bytes, before they are verified */
	TAMPER_HANDED_OUT, /* the user's memory, after the bytes were copied there */
	TAMPER_COUNT,
};

struct fabric_stats {
	_Atomic uint64_t read_bytes, written_bytes;
	/* bytes received at their place in the memory of the reader, and bytes copied there */
	_Atomic uint64_t placed_bytes, copied_bytes;
	_Atomic uint64_t disk_requests; /* requests to disks of any kind */
	_Atomic uint64_t chunk_reads, hedged_reads, rebuilt_reads, refused_rebuilds, bad_chunks;
	_Atomic uint64_t blocks_written, blocks_short;
	/* bytes that cache nodes served, gets that they did not serve, and gets that failed: for each the disks were read */
	_Atomic uint64_t cache_bytes, cache_misses, cache_failures;
};

/* What the fabrics of all loops share: limits that hold for the client as a whole, and counters. Each member can be
 * used on any loop. */
struct fabric_shared {
	struct rt_pool pool;
	struct gate reads, writes, rebuilds;
	struct budget budget;
	struct fabric_stats stats;
};

struct engine;

struct fabric_options {
	/* limit of the memory for blocks: 5/8 for writes, 2/8 for reads, 1/8 for
	 * reconstruction; 0: 640 MiB */
	uint64_t memory_bytes;
	uint64_t connect_timeout_ns; /* timeout of connecting to a node; 0: 5 s */
	/* identity towards the nodes; outlives the fabric; NULL: they authenticate nobody */
	const struct secure_self *self;
	double rebuild_share; /* reconstructed reads per ordinary read (budget.h); 0: 0.1 */
	/* reconstructed reads per second that the budget adds to rebuild_share; 0: 50; < 0: none */
	double rebuild_floor_per_s;
	double rebuild_burst;      /* most reconstructed reads that the budget saves up; 0: 64 */
	uint64_t chunk_timeout_ns; /* timeout of one read of a chunk; 0: 10 s */
	uint64_t log_check_ns;     /* interval in which a log checks its open block; 0: 10 s */
	/* time that an open block may lack a replica before the log ends the block; doubled
	 * after each such end (log.c); 0: 20 s */
	uint64_t log_degraded_ns;
	/* work in bytes that the home loop does itself before other loops get any (parts.c); 0: 256 KiB */
	uint64_t home_bytes;
	uint64_t decoder; /* for tests: fingerprint of this client's decoder; 0: it is computed */
	/* For tests: called with each buffer before it is passed on. */
	void (*tamper)(void *ctx, enum tamper_at at, void *bytes, size_t len);
	void *tamper_ctx;
};

struct fabric {
	struct fabric_options opts; /* zeros are replaced by the defaults */
	struct fabric_shared *shared;
	struct fabric_shared own_shared; /* shared of the home fabric */
	struct fabric *home;             /* part: the home fabric; NULL: this is the home fabric */
	/* tenant number for the labels of written chunks; 0: not known */
	uint32_t tenant;
	bool shares_content; /* the tenant's setting, of the last answer of the metadata */
	/* home: owned by the metadata client; part: of `copy`. NULL: none yet. Any wait may replace it */
	struct cluster *map;
	struct cluster_copy *copy; /* the newest copy of the map that the parts share; NULL: none */
	struct fabric_parts *parts; /* home: NULL: there is one loop */
	struct rt_port port;        /* calls of other loops to this one; used with several loops */
	uint64_t gc_epoch;          /* last known collector epoch; 0: not known */
	uint64_t gc_epoch_ns;       /* monotonic time at which the request for gc_epoch was sent */
	struct map links;           /* node id -> struct link */
	struct map seen;            /* disk id -> struct disk_seen */
	struct codecs codecs;
	struct pace pace;
	struct rt_group background; /* fibers that outlive their call */
	/* struct sealed_writer: files being written, which may hold memory of a block */
	struct list writers;
	struct engine *engine; /* home: the engine open over this fabric; NULL: none */
	bool closing;
};

int fabric_init(struct fabric *f, const struct fabric_options *o);
/* Waits up to 2 s for background fibers, then cancels and joins them. New requests fail with
 * -ECANCELED from now on. */
void fabric_quiet(struct fabric *f);
/* Calls fabric_quiet, then closes the channels and frees the memory. */
void fabric_fini(struct fabric *f);

/* --- several loops ----------------------------------------------------------------------------- */

/* Adds a part of the home fabric on each loop of the team but the first, which is the caller's. The team outlives the
 * fabric. Waits. -ENOMEM, -EAGAIN, -ECANCELED: there are no parts. */
int fabric_spread(struct fabric *f, struct rt_team *team);

struct call;

/*
 * Runs fn on the loop that has the least to do; `bytes` is the size of the work. fn gets a call of that loop's fabric
 * with the options of c, and owns arg until it returns. The error text comes back. Waits. After an error fn was not
 * and will not be run: -ECANCELED, -ETIME, -ENOMEM, -EAGAIN, with an error text.
 */
int fabric_run(struct call *c, uint64_t bytes, void (*fn)(struct call *c, void *arg), void *arg);

/* Runs fn(arg) in a fiber of the home loop; f: the fabric of any loop. Waits. After an error fn was not run. */
int fabric_run_home(struct fabric *f, void (*fn)(void *arg), void *arg);

/* Returns the number of loops that do work of fabric_run. */
unsigned fabric_loops(const struct fabric *f);
/* Returns the bytes of work that fabric_run gave to loop i so far, i < fabric_loops. */
uint64_t fabric_loop_bytes(const struct fabric *f, unsigned i);

/* Between fabric.c and parts.c. */
/* Initializes the fabric of another loop, which shares what the home fabric has. */
void fabric_init_part(struct fabric *part, struct fabric *home);
/* Closes what a part has. On its loop. */
void fabric_fini_part(struct fabric *part);
/* Tells the parts to stop; then waits until they have ended. */
void fabric_parts_stop(struct fabric *home);
void fabric_parts_join(struct fabric *home);

static inline void fabric_tamper(struct fabric *f, enum tamper_at at, void *bytes, size_t len)
{
	if (f->opts.tamper != NULL)
		f->opts.tamper(f->opts.tamper_ctx, at, bytes, len);
}

/* --- one request of a user -------------------------------------------------------------------- */

struct call {
	struct fabric *fabric;
	/* Options with the meaning of struct terrane_options; 0 means the default. */
	const char *encoding;
	uint16_t quorum, extra_disks, hedge;
	uint64_t hedge_ns;
	enum terrane_media media;
	/* of the file or directory that the call makes; NULL: none */
	const struct terrane_attributes *attributes;
	/* META_PLACEMENT_: category of the files that are created; set by call_placement() */
	uint32_t placement;
	/* rewrites of existing blocks: accept more chunks in one rack than the code tolerates */
	bool ignore_spread;
	/* tenant number for the labels of written chunks; 0: the tenant of the fabric */
	uint32_t tenant;
	char error[FABRIC_ERROR_MAX]; /* error text */
};

static inline uint32_t call_tenant(const struct call *c)
{
	return c->tenant != 0 ? c->tenant : c->fabric->tenant;
}

void call_init(struct call *c, struct fabric *f);
/* Sets the error text of the call and returns rc. */
int call_fail(struct call *c, int rc, const char *fmt, ...) PRINTF(3, 4);

/* --- disks ------------------------------------------------------------------------------------ */

struct link;

/* State of one request to a disk, from disk_begin to disk_end. */
struct disk_use {
	struct node_call node;
	struct link *link;
	uint64_t disk;
	uint64_t start_ns;
};

/* Begins a request: finds the channel to the node of the disk. -ENODEV: the disk is not in the
 * map, or gone; -ENOMEM, -ECANCELED. After 0 the caller calls disk_end. */
int disk_begin(struct call *c, uint64_t disk, struct disk_use *u);
/* Ends a request and updates the statistics of the disk. rc: result of the request; len: bytes
 * read, 0 if its duration must not be counted. */
void disk_end(struct call *c, struct disk_use *u, int rc, uint64_t len);

/* A request to a node that is not about a disk, from node_begin to node_end. */
struct node_use {
	struct rpc_channel *channel;
	struct link *link;
};

/* Finds the channel to a node of the map. -ENODEV: the map does not have it; -ENOMEM, -ECANCELED. After 0 the caller calls
 * node_end. */
int node_begin(struct call *c, uint64_t node, struct node_use *u);
void node_end(struct node_use *u);

/* Notes the result of a request to a disk, as disk_end does. For the home fabric, when another loop had the request. */
void disk_note(struct fabric *f, uint64_t disk, int rc);

/* Returns the cost of a read from the disk, for plan_range: 100 for a fast disk, more for slow
 * or unreachable ones, CHUNK_LOST if the disk is gone. */
uint32_t disk_cost(const struct fabric *f, uint64_t disk);

/* Closes all channels. No request may be running. */
void links_close(struct fabric *f);

/* Returns whether an error means that the disk or its node is unreachable now, as opposed to a
 * wrong request. */
bool disk_error_is_unreachable(int rc);

#endif
