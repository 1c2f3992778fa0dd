// SPDX-License-Identifier: Apache-2.0
/*
 * Reference-counted, aligned buffers from a bounded pool. All bulk data lives in these: received
 * straight into one, coded in place, written from it with direct I/O, and released by whoever held
 * it last.
 *
 * Model. The pool has a limit in bytes, which counts the capacity of every buffer out and every one
 * kept for reuse. A request is rounded up to a size class (multiples of 4 KiB up to 32 KiB, then
 * four classes for each doubling, so less than a quarter is wasted beyond the first 4 KiB).
 * Returned buffers are kept on the free list of their class, up to half of the limit; beyond
 * that memory goes back to the allocator. A request that does not fit takes from what is kept
 * before it fails.
 *
 * Threads. Any thread may get, ref and unref. Whoever writes to the contents must be the only
 * holder.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define BUF_ALIGN ((size_t)4096)
#define BUF_LEN_MAX ((size_t)(64 * MIB))
#define BUF_CLASSES 52

struct buf_pool;

struct buf {
	uint8_t *data; /* aligned to BUF_ALIGN; contents of a new buffer are undefined */
	size_t len;    /* as asked for; the holder may set it to anything up to cap */
	size_t cap;    /* a multiple of BUF_ALIGN */
	/* The rest is the pool's. */
	atomic_uint refs;
	unsigned int class_index;
	struct buf_pool *pool;
	struct buf *next_free;
};

struct buf_stats {
	uint64_t limit_bytes;
	uint64_t in_use_bytes; /* capacity of the buffers that are out */
	uint64_t peak_bytes;   /* the most in_use_bytes has been */
	uint64_t cached_bytes; /* kept for reuse; in_use + cached <= limit */
	uint64_t in_use_count;
	uint64_t gets;  /* that succeeded */
	uint64_t fails; /* refused at the limit or by the allocator */
};

struct buf_pool {
	/*
	 * Guards everything below. Held for pointer moves only, never over malloc, free or a
	 * callback, so no other lock is ever taken under it. (A buffer on its way to free() is
	 * counted no more: for that moment the process holds more than the limit.)
	 */
	pthread_mutex_t lock;
	struct buf *free[BUF_CLASSES];
	struct buf_stats stats;
	uint64_t cache_limit_bytes;
	/* Fixed between init and the first get: */
	void (*on_free)(void *ctx);
	void *on_free_ctx;
};

/* Allocates nothing. */
void buf_pool_init(struct buf_pool *p, uint64_t limit_bytes);

/* on_free(ctx) is called without locks after memory came back, on the thread that returned it, so
 * that whoever waits for memory can try again. Set before the first get; NULL for none. */
void buf_pool_on_free(struct buf_pool *p, void (*on_free)(void *ctx), void *ctx);

/* Every buffer must have come back. */
void buf_pool_fini(struct buf_pool *p);

/* Gives everything kept for reuse back to the allocator. */
void buf_pool_trim(struct buf_pool *p);

void buf_pool_stats(struct buf_pool *p, struct buf_stats *out);

/* A buffer of len bytes with one reference. len may be 0. -ENOBUFS at the pool's limit, -EMSGSIZE
 * when it could never fit (beyond BUF_LEN_MAX or the whole limit), -ENOMEM. */
int buf_get(struct buf_pool *p, size_t len, struct buf **out);

/* The capacity that a request of len bytes counts for; 0 beyond BUF_LEN_MAX. */
size_t buf_cap_for(size_t len);

/* Takes one more reference and returns b. */
struct buf *buf_ref(struct buf *b);

/* Drops a reference; the last one returns the memory. NULL is fine. */
void buf_unref(struct buf *b);

/* A local declared AUTO_BUF drops its reference when its scope ends. */
#define AUTO_BUF __attribute__((cleanup(buf_auto_unref)))

static inline void buf_auto_unref(struct buf **slot)
{
	buf_unref(*slot);
}

#endif
