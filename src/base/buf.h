// SPDX-License-Identifier: Apache-2.0
/*
 * Reference-counted, aligned buffers from a bounded pool. All bulk data is kept in them: received
 * directly into a buffer, encoded in place and written from it with direct I/O. The last holder's
 * unref returns it.
 *
 * Model. The limit of the pool counts the capacity of all buffers in use and of all that are kept
 * for reuse. A request is rounded up to a size class (multiples of 4 KiB up to 32 KiB, then four
 * classes for each doubling, so less than a quarter is wasted beyond the first 4 KiB). Returned
 * buffers are kept on the free list of their class, up to half of the limit; beyond that the pool
 * frees them. A request that does not fit evicts kept buffers before it fails. Buffers from 64 KiB on lie in huge pages
 * (slab.h), as long as these would not keep more than an eighth of the limit idle besides.
 *
 * Threads. Any thread may get, ref and unref. A thread that writes to the contents must be the only
 * holder.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "base/slab.h"

#define BUF_ALIGN ((size_t)4096)
#define BUF_LEN_MAX ((size_t)(64 * MIB))
#define BUF_CLASSES 52

struct buf_pool;

struct buf {
	uint8_t *data; /* aligned to BUF_ALIGN; contents of a new buffer are undefined */
	size_t len;    /* in bytes, as requested; the holder may set it to any value up to cap */
	size_t cap;    /* a multiple of BUF_ALIGN */
	/* The fields below are private to the pool. */
	atomic_uint refs;
	unsigned int class_index;
	struct buf_pool *pool;
	struct slab *slab; /* slab that the memory is a slot of; NULL: none */
	struct buf *next_free;
};

struct buf_stats {
	uint64_t limit_bytes;
	uint64_t in_use_bytes; /* capacity of the buffers in use */
	uint64_t peak_bytes;   /* largest in_use_bytes so far */
	/* capacity of the buffers kept for reuse; in_use + cached <= limit */
	uint64_t cached_bytes;
	uint64_t in_use_count;
	uint64_t gets;  /* successful calls of buf_get */
	uint64_t fails; /* calls refused at the limit or by the allocator */
};

struct buf_pool {
	/*
	 * Guards all fields below but slabs. Held only while pointers move, never over malloc, free or a
	 * callback, so no other lock is taken under it. A buffer is subtracted from the counts
	 * before free(), so for a moment the process may hold more than the limit.
	 */
	pthread_mutex_t lock;
	struct buf *free[BUF_CLASSES];
	struct buf_stats stats;
	uint64_t cache_limit_bytes;
	struct slabs
		slabs; /* memory of buffers from SLAB_SLOT_MIN to a huge page; has its own lock */
	/* The callback and its argument, set at most once, between buf_pool_init and the first
	 * buf_get. */
	void (*on_free)(void *ctx);
	void *on_free_ctx;
};

/* Initializes a pool with a limit in bytes. Allocates nothing. */
void buf_pool_init(struct buf_pool *p, uint64_t limit_bytes);

/* Sets a callback that runs after a buffer was returned, on the thread that returned it and
 * without locks, so that a waiting caller can retry. Must be called before the first get; NULL
 * for no callback. */
void buf_pool_on_free(struct buf_pool *p, void (*on_free)(void *ctx), void *ctx);

/* Frees the kept buffers and the pool. All buffers must have been returned. */
void buf_pool_fini(struct buf_pool *p);

/* Frees all buffers that are kept for reuse. */
void buf_pool_trim(struct buf_pool *p);

void buf_pool_stats(struct buf_pool *p, struct buf_stats *out);

/* Returns a buffer of len bytes (0 is allowed) with one reference. -ENOBUFS at the pool's limit;
 * -EMSGSIZE if len exceeds BUF_LEN_MAX or the limit itself, so that a retry cannot help;
 * -ENOMEM. */
int buf_get(struct buf_pool *p, size_t len, struct buf **out);

/* Returns the capacity, in bytes, of a buffer for len bytes; 0 if len exceeds BUF_LEN_MAX. */
size_t buf_cap_for(size_t len);

/* Takes one more reference and returns b. */
struct buf *buf_ref(struct buf *b);

/* Drops a reference; the last one returns the memory to the pool. b may be NULL. */
void buf_unref(struct buf *b);

/* A local declared AUTO_BUF drops its reference when its scope ends. */
#define AUTO_BUF __attribute__((cleanup(buf_auto_unref)))

static inline void buf_auto_unref(struct buf **slot)
{
	buf_unref(*slot);
}

#endif
