// SPDX-License-Identifier: Apache-2.0
/*
 * Private to the engine: engine.c (open, close, buckets), engine_get.c (reads and fills), engine_write.c (the writer and
 * the slots of the core), engine_restore.c (start).
 */
#ifndef CACHE_ENGINE_IMPL_H
#define CACHE_ENGINE_IMPL_H

#include "base/base.h"
#include "base/list.h"
#include "base/map.h"
#include "cache/core.h"
#include "cache/engine.h"
#include "rt/file.h"
#include "rt/pool.h"
#include "rt/rt.h"
#include "rt/sync.h"

enum op_kind {
	OP_APPEND, /* write buf to place `number` */
	OP_COPY,   /* read place `from`, write to place `number` */
	OP_SEAL,   /* write the footer in buf */
	OP_WIPE    /* the region begins anew: overwrite its footer */
};

/* A job of the writer. The jobs are done one after the other, in the order in which the core made them. */
struct op {
	struct list link;
	enum op_kind kind;
	uint32_t region, number, from;
	uint32_t sum; /* of the segment */
	uint8_t *buf; /* owned; a segment, or a footer */
};

/* Segments of a block that are being fetched. */
struct fill {
	struct list link;
	struct cache_name name;
	uint32_t first, n;
};

struct cache_engine {
	struct rt_loop *loop;
	struct cache_core core;
	struct cache_jobs *jobs; /* of the owner; may be NULL */
	struct cache_volume volume;
	struct rt_file *file;
	uint8_t *memory;  /* all buffers of segments */
	uint8_t **places; /* [place in DRAM]: its buffer */
	uint8_t *spares[CACHE_ENGINE_QUEUE];
	uint32_t spare_n;
	uint8_t *copying;    /* the writer's own buffer */
	uint8_t *blank;      /* a page of zeros */
	uint32_t *kept_from; /* [kept]: place on flash that a kept segment stood at */
	uint32_t *readers;   /* [region]: reads of the device that are in progress */
	uint32_t *pending;   /* [region]: jobs of the writer */
	struct list ops;     /* struct op */
	uint32_t ops_n;
	struct rt_cond work;   /* an op was added, or the engine closes */
	struct rt_cond done;   /* an op has ended */
	struct rt_cond unread; /* the last reader of a region has ended */
	struct rt_fiber *writer, *ticker;
	bool closing;
	struct list fills; /* struct fill */
	struct rt_cond filled;
	struct rt_pool pool; /* of buffers for reads and fetches */
	struct map buckets;  /* id -> number + 1 */
	uint64_t *bucket_ids;
	uint32_t buckets_n, buckets_room;
	uint64_t seal; /* of the last footer */
	uint32_t failures;
	uint64_t suspended_until_ns;
	struct cache_engine_stats stats;
};

extern const struct cache_core_ops engine_core_ops;

/* Returns the number of a bucket. */
uint16_t engine_bucket(struct cache_engine *e, uint64_t id);
/* Counts a call of the device that returned rc. */
void engine_note(struct cache_engine *e, int64_t rc);
bool engine_suspended(const struct cache_engine *e);

/* Reads all bytes; -EIO at the end of the file. */
int engine_read(struct cache_engine *e, uint64_t at, void *buf, uint64_t len);

/* Reads the superblock, or writes one. */
int engine_format(struct cache_engine *e, const struct cache_engine_options *o);
/* Rebuilds the index from the footers. -ENOMEM, -ECANCELED. */
int engine_restore(struct cache_engine *e);

void engine_writer(void *arg);
/* Frees jobs that the writer did not do. */
void engine_ops_free(struct cache_engine *e);
/* Returns the job that has yet to write the place; NULL: none. */
const struct op *engine_pending(const struct cache_engine *e, uint32_t number);

#endif
