// SPDX-License-Identifier: Apache-2.0
/*
 * The engine of a cache on flash: the bookkeeping of core.h, with the bytes. No sockets. It belongs to the loop that opened
 * it.
 *
 *   cache_engine_get ---> all segments are there: copied from DRAM or read from flash
 *                    \--> segments are missing: the policy admits none of them: -ENOENT, the caller reads the disks
 *                                               it admits them: `fetch` reads them once for all that ask; DRAM; copied
 *
 * DRAM holds segments as they were fetched. A segment that leaves it is dropped or appended to an open region on flash
 * (region.h); one fiber, the writer, does all writes of the device in order. While a segment waits for the writer it is
 * read from memory. At most CACHE_ENGINE_QUEUE segments wait; then fills wait.
 *
 * What a read may return:
 *  1. The CRC of the name and of all bytes of a segment is compared with the index whenever any byte of it is read, from
 *     DRAM too. So neither a rotten, torn or misdirected write nor two names with the same key give wrong bytes: the
 *     segment is dropped and counts as missing.
 *  2. The CRC that a get returns is derived from that comparison, never computed from bytes that were not compared.
 *  3. A name never stands for other bytes: only blocks that never change may be put here (or the version must change).
 *
 * After a restart the index is read from the footers of the regions. Nothing is believed: what a footer lists is compared as
 * in 1 when it is read. A region that was open at a crash is lost; a close writes its footer. Nothing waits for a sync of
 * the device.
 *
 * A device that fails four times in a row is not used for a minute: every get is -ENOENT. What it holds stays in the
 * index.
 *
 * Buckets are known by ids of 64 bits (of a directory, say). The policies know them by numbers, which are given out in
 * order; when all CACHE_BUCKETS_MAX are used the others share number 0, until the next restart.
 */
#ifndef CACHE_ENGINE_H
#define CACHE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/jobs.h"
#include "cache/region.h"

#define CACHE_ENGINE_SEGMENTS_MAX 256u /* segments of a get */
#define CACHE_ENGINE_QUEUE 32u

struct cache_engine;

struct cache_engine_options {
	const char *path; /* a file, which is made and gets flash_bytes, or a block device */
	uint64_t flash_bytes;
	uint64_t owner[2];      /* a device of another owner is refused */
	uint32_t segment_bytes; /* a multiple of 4 KiB, at most 16 MiB; 0: 256 KiB */
	uint32_t region_bytes;  /* 0: 16 MiB, less on small flash so that there are 128 regions */
	uint64_t dram_bytes;    /* for segments, at least 16 of them; 0: 16 segments */
	const char *policy;     /* NULL: lru */
	uint64_t write_limit_bytes_s; /* for policies that know a limit; 0: none */
	double min_threshold;         /* for historic, future, hybrid, as are the next four */
	double reinsert_offset;
	uint64_t refresh_ms;                /* 0: 10 s */
	uint64_t history_ms, history_bytes; /* 0: 6 h, 8 MiB */
	struct cache_jobs
		*jobs; /* the engine tells it of reads and of the time; NULL: none are known */
	double share;  /* of all blocks that come to this engine; 0: 1 */
	bool format;   /* the start of the file may be overwritten though it is no cache */
};

/* Bytes [off, off + len) of a block, len > 0, with at most CACHE_ENGINE_SEGMENTS_MAX segments. */
struct cache_get {
	struct cache_name name;
	uint64_t off, len;
	uint64_t bucket;   /* id of its bucket */
	uint32_t position; /* of the first segment in the bucket; CACHE_NONE: unknown */
	uint32_t job;      /* number in the jobs; CACHE_NONE: unknown */
	bool again; /* the policy was told of this get by an earlier call that returned -EINPROGRESS */
	/* If segments are missing that are admitted or being fetched: return -EINPROGRESS, so that the caller waits where it
	 * likes. It calls cache_engine_fill, with `again`. */
	bool defer;
};

/* Reads bytes [off, off + len) of the block, which are full segments, from below. Sets *got, which is smaller only at
 * the end of the block, and the CRC of the bytes of each segment as it was stored with them. May wait. */
typedef int cache_fetch_fn(void *arg, uint64_t off, uint64_t len, uint8_t *to, uint64_t *got,
			   uint32_t *crcs);

struct cache_engine_stats {
	uint64_t gets, get_bytes;            /* all */
	uint64_t dram_bytes, flash_bytes;    /* bytes of gets that were served from there, or */
	uint64_t fetched_bytes;              /* were read from below: whole segments */
	uint64_t hits, misses;               /* gets that were served without a fetch; not served */
	uint64_t device_bytes, device_reads; /* bytes written to the device, with footers; read */
	uint64_t segment_bytes;              /* of device_bytes: segments */
	uint64_t freed;                      /* regions that were freed to make room */
	uint64_t reinserted;                 /* segments */
	uint64_t rotten;                     /* segments whose bytes did not match */
	uint64_t failures;                   /* calls of the device that failed */
	uint64_t restored;                   /* segments that the last start found */
	uint64_t restored_regions, bad_footers; /* of the last start */
	uint64_t restore_ns;
	uint64_t memory_bytes; /* of the index, with what is needed for each region */
	uint32_t segments;     /* in the index */
	uint32_t segments_max; /* places on flash */
	uint32_t regions, regions_free;
	uint32_t buckets;
	bool suspended;
};

/*
 * Opens the cache and rebuilds its index; waits. -EINVAL: an option is out of its range, or flash_bytes is too small for
 * 4 regions; -EPERM: the device belongs to another owner; -ENOTEMPTY: it holds something else; -EBUSY: in use; -ENOMEM;
 * errors of the device. A device of another shape is formatted anew.
 */
int cache_engine_open(struct cache_engine **out, const struct cache_engine_options *options);
/* Seals what is open, waits for the writer, and closes. No get may be running. */
void cache_engine_close(struct cache_engine *e);

/*
 * Reads into buf; *crc is the CRC of the bytes. If segments are missing and the policy admits them, fetch reads them;
 * fetch NULL: nothing is fetched. -ENOENT: not here; -EINVAL: the range is empty, too long, or behind the end of the
 * block; errors of fetch.
 */
int cache_engine_get(struct cache_engine *e, const struct cache_get *g, cache_fetch_fn *fetch,
		     void *arg, void *buf, uint32_t *crc);
/* As cache_engine_get, but what is missing is fetched whatever the policy says: the caller decides on admission. buf may
 * be NULL: the bytes are not wanted. */
int cache_engine_fill(struct cache_engine *e, const struct cache_get *g, cache_fetch_fn *fetch,
		      void *arg, void *buf, uint32_t *crc);
/* Drops the segments of the range that are there. */
void cache_engine_drop(struct cache_engine *e, const struct cache_get *g);

/* Waits until the writer has nothing to do. */
void cache_engine_settle(struct cache_engine *e);
void cache_engine_stats(const struct cache_engine *e, struct cache_engine_stats *out);
/* Returns the control plane of the policy, to be shown and changed; NULL: it has none. */
struct control *cache_engine_control(struct cache_engine *e);
/* Returns the number of a bucket for the policy; CACHE_NONE: no get has named it. */
uint32_t cache_engine_bucket(const struct cache_engine *e, uint64_t bucket);
/* Returns the number of a bucket for the policy, which it gets if it has none yet; 0: there are no more numbers. */
uint16_t cache_engine_bucket_add(struct cache_engine *e, uint64_t bucket);
/* Jobs were added, or have ended: the priorities of buckets are computed anew. */
void cache_engine_jobs_changed(struct cache_engine *e);
/* For tests and `terrane cache`: the core, to be read only. */
const struct cache_core *cache_engine_core(const struct cache_engine *e);

#endif
