// SPDX-License-Identifier: Apache-2.0
/*
 * The chunk half of the client: everything that moves blocks between memory and disks, and nothing
 * of names and files. It knows the cluster map, has a channel to each node, and remembers how disks
 * fare.
 *
 * All of it belongs to one loop. A struct call is one request of a user on its way through: its
 * options, and the words of its failure. The fiber carries its context.
 */
#ifndef CLIENT_FABRIC_H
#define CLIENT_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include <terrane/terrane.h>

#include "base/map.h"
#include "client/budget.h"
#include "client/codecs.h"
#include "client/gate.h"
#include "client/pace.h"
#include "node/node_client.h"
#include "rt/pool.h"
#include "rt/rt.h"

struct cluster;

#define FABRIC_ERROR_MAX 256

/* Where a test may change a byte: each is a buffer on the way of the user's data. */
enum tamper_at {
	TAMPER_COPIED_IN,  /* the block being filled, after the user's bytes were copied */
	TAMPER_BLOCK,      /* the full block, before it is encoded */
	TAMPER_PARITY,     /* a parity, right after it was computed */
	TAMPER_SENDING,    /* a chunk whose checksum is known, before it is sent */
	TAMPER_RECEIVED,   /* a chunk's bytes, after the transport checked them */
	TAMPER_REBUILT,    /* computed bytes, before they are checked */
	TAMPER_HANDED_OUT, /* the user's memory, after the bytes were copied there */
	TAMPER_COUNT,
};

struct fabric_stats {
	uint64_t read_bytes, written_bytes;
	uint64_t chunk_reads, hedged_reads, rebuilt_reads, refused_rebuilds, bad_chunks;
	uint64_t blocks_written, blocks_short;
};

struct engine;

struct fabric_options {
	uint64_t memory_bytes;       /* 0: 640 MiB; five eighths for writes, two for reads, one
				      * for rebuilding */
	uint64_t connect_timeout_ns; /* 0: 5 s */
	double rebuild_share;        /* 0: 0.1 */
	double rebuild_floor_per_s;  /* 0: 50; < 0: none */
	double rebuild_burst;        /* 0: 64 */
	uint64_t chunk_timeout_ns;   /* of one read of a chunk; 0: 10 s */
	uint64_t log_check_ns;       /* between a log's looks at its open block; 0: 10 s */
	uint64_t log_degraded_ns;    /* of a log with a copy that is lacking, at first; 0: 20 s */
	/* For tests. */
	void (*tamper)(void *ctx, enum tamper_at at, void *bytes, size_t len);
	void *tamper_ctx;
};

struct fabric {
	struct fabric_options opts; /* without zeroes */
	uint32_t tenant;            /* whose chunks it writes, for their labels; 0: not known */
	struct cluster *map; /* not the fabric's; NULL: none yet. It may change with every wait */
	struct rt_pool pool;
	struct gate reads, writes, rebuilds;
	uint64_t gc_epoch;    /* the collector's, as far as it is known; 0: not at all */
	uint64_t gc_epoch_ns; /* when that was asked for */
	struct map links;     /* node id -> struct link */
	struct map seen;      /* disk id -> struct disk_seen */
	struct codecs codecs;
	struct budget budget;
	struct pace pace;
	struct rt_group background; /* what goes on after a call has returned */
	struct list writers;        /* struct whole: files that may hold a block's memory */
	struct engine *engine;      /* of calls on files and blocks; NULL: none is open over it */
	struct fabric_stats stats;
	bool closing;
};

int fabric_init(struct fabric *f, const struct fabric_options *o);
/* Waits: gives what goes on in the background a moment to end, then ends it; nothing new begins. */
void fabric_quiet(struct fabric *f);
/* Waits: the same, and closes the channels. */
void fabric_fini(struct fabric *f);

static inline void fabric_tamper(struct fabric *f, enum tamper_at at, void *bytes, size_t len)
{
	if (f->opts.tamper != NULL)
		f->opts.tamper(f->opts.tamper_ctx, at, bytes, len);
}

/* --- one request of a user -------------------------------------------------------------------- */

struct call {
	struct fabric *fabric;
	/* As in the public options; zero means the default. */
	const char *encoding;
	uint16_t quorum, extra_disks, hedge;
	uint64_t hedge_ns;
	enum terrane_media media;
	bool ignore_spread; /* blocks that are there already go where they can, however few racks there are */
	uint32_t
		tenant; /* the number in the labels of the chunks that it writes; 0: the fabric's */
	char error[FABRIC_ERROR_MAX]; /* what failed, in words */
};

static inline uint32_t call_tenant(const struct call *c)
{
	return c->tenant != 0 ? c->tenant : c->fabric->tenant;
}

void call_init(struct call *c, struct fabric *f);
/* Remembers what to tell and returns rc. */
int call_fail(struct call *c, int rc, const char *fmt, ...) PRINTF(3, 4);

/* --- disks ------------------------------------------------------------------------------------ */

struct link;

/* One request to a disk. */
struct disk_use {
	struct node_call node;
	struct link *link;
	uint64_t disk;
	uint64_t start_ns;
};

/* -ENODEV: no such disk in the map, or it is gone for ever; -ENOMEM. Pair with disk_end. */
int disk_begin(struct call *c, uint64_t disk, struct disk_use *u);
/* rc as the request gave it; len bytes were read, or 0 when it says nothing of the pace. */
void disk_end(struct call *c, struct disk_use *u, int rc, uint64_t len);

/* What a read there costs, for the planner: 100 when all is well, CHUNK_LOST when it is in vain. */
uint32_t disk_cost(const struct fabric *f, uint64_t disk);

/* Closes all channels. No request may be under way. */
void links_close(struct fabric *f);

/* Whether an error says that the disk or its node cannot be had now, and not that the request is
 * wrong. */
bool disk_error_is_unreachable(int rc);

#endif
