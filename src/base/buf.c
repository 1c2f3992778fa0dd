// SPDX-License-Identifier: Apache-2.0
/*
 * Size classes, in pages of 4 KiB: 1 2 3 4 | 5 6 7 8 | 10 12 14 16 | 20 24 28 32 | ... | 16384.
 * Class 0..3 are 1..4 pages; then group g = 0, 1, ... holds 5, 6, 7 and 8 times 2^g pages.
 * Example: 70,000 bytes are 18 pages; group 2 (steps of 4 pages) gives 20 pages, class 12.
 */
#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/poison.h"

#define BUF_CACHE_DIVISOR 2
#define IDLE_DIVISOR 8 /* share of the limit that slabs may keep idle */
#define SLAB_CLASS 11  /* class of the smallest slots of slabs */

static unsigned int buf_class_of(size_t len)
{
	size_t pages = len == 0 ? 1 : (len + BUF_ALIGN - 1) / BUF_ALIGN;
	if (pages <= 4)
		return (unsigned int)pages - 1;
	unsigned int group = 61 - (unsigned int)__builtin_clzll(pages - 1);
	size_t step = (size_t)1 << group;
	size_t units = (pages + step - 1) / step;
	return 4 + group * 4 + (unsigned int)(units - 5);
}

static size_t buf_class_bytes(unsigned int c)
{
	assert(c < BUF_CLASSES);
	size_t pages = c < 4 ? c + 1 : (size_t)(5 + c % 4) << (c / 4 - 1);
	return pages * BUF_ALIGN;
}

size_t buf_cap_for(size_t len)
{
	return len > BUF_LEN_MAX ? 0 : buf_class_bytes(buf_class_of(len));
}

void buf_pool_init(struct buf_pool *p, uint64_t limit_bytes)
{
	*p = (struct buf_pool){.stats.limit_bytes = limit_bytes,
			       .cache_limit_bytes = limit_bytes / BUF_CACHE_DIVISOR};
	int rc = pthread_mutex_init(&p->lock, NULL);
	assert(rc == 0);
	slabs_init(&p->slabs, limit_bytes / IDLE_DIVISOR);
}

void buf_pool_on_free(struct buf_pool *p, void (*on_free)(void *ctx), void *ctx)
{
	assert(p->stats.gets == 0);
	p->on_free = on_free;
	p->on_free_ctx = ctx;
}

static void buf_destroy(struct buf *b)
{
	if (b->slab != NULL) {
		slab_give(&b->pool->slabs, b->slab, b->data);
	} else {
		memory_unpoison(b->data, b->cap);
		free(b->data);
	}
	free(b);
}

static void buf_destroy_chain(struct buf *b)
{
	while (b != NULL) {
		struct buf *next = b->next_free;
		buf_destroy(b);
		b = next;
	}
}

/*
 * Unlinks buffers from the free lists, the largest first so that as few as possible go, until at
 * most keep_bytes are kept there. Returns the unlinked buffers as a chain. The caller holds the
 * lock and frees the chain after unlocking.
 */
static struct buf *buf_pool_evict(struct buf_pool *p, uint64_t keep_bytes)
{
	struct buf *chain = NULL;
	for (unsigned int c = BUF_CLASSES; c-- > 0 && p->stats.cached_bytes > keep_bytes;) {
		while (p->free[c] != NULL && p->stats.cached_bytes > keep_bytes) {
			struct buf *b = p->free[c];
			p->free[c] = b->next_free;
			assert(p->stats.cached_bytes >= b->cap);
			p->stats.cached_bytes -= b->cap;
			b->next_free = chain;
			chain = b;
		}
	}
	return chain;
}

void buf_pool_trim(struct buf_pool *p)
{
	pthread_mutex_lock(&p->lock);
	struct buf *chain = buf_pool_evict(p, 0);
	pthread_mutex_unlock(&p->lock);
	buf_destroy_chain(chain);
}

void buf_pool_fini(struct buf_pool *p)
{
	assert(p->stats.in_use_count == 0);
	buf_pool_trim(p);
	slabs_fini(&p->slabs);
	pthread_mutex_destroy(&p->lock);
}

void buf_pool_stats(struct buf_pool *p, struct buf_stats *out)
{
	pthread_mutex_lock(&p->lock);
	*out = p->stats;
	pthread_mutex_unlock(&p->lock);
}

/* Allocates the memory of a buffer. Huge pages save nearly all of what pinning for direct I/O costs, and some of sending and
 * checksums. */
static uint8_t *buf_memory(struct buf *b)
{
	if (b->cap >= SLAB_SLOT_MIN && b->cap < HUGE_PAGE_BYTES) {
		uint8_t *at =
			slab_take(&b->pool->slabs, b->class_index - SLAB_CLASS, b->cap, &b->slab);
		if (at != NULL)
			return at;
	}
	size_t huge = b->cap / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
	if (huge == 0)
		return aligned_alloc(BUF_ALIGN, b->cap);
	/* The last, incomplete huge page is addresses only, beyond the capacity. */
	size_t pages = (b->cap + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES;
	uint8_t *at = aligned_alloc(HUGE_PAGE_BYTES, pages * HUGE_PAGE_BYTES);
	if (at != NULL)
		(void)madvise(at, huge, MADV_HUGEPAGE);
	return at;
}

static struct buf *buf_create(struct buf_pool *p, unsigned int class_index)
{
	struct buf *b = malloc(sizeof(*b));
	if (b == NULL)
		return NULL;
	*b = (struct buf){
		.cap = buf_class_bytes(class_index), .class_index = class_index, .pool = p};
	b->data = buf_memory(b);
	if (b->data == NULL) {
		free(b);
		return NULL;
	}
	return b;
}

/* Subtracts a buffer from the counts of the pool. refused: the allocation failed, so the call of
 * buf_get counts as failed. */
static void buf_pool_uncount(struct buf_pool *p, size_t cap, bool refused)
{
	assert(p->stats.in_use_count > 0 && p->stats.in_use_bytes >= cap);
	p->stats.in_use_bytes -= cap;
	p->stats.in_use_count--;
	if (refused) {
		p->stats.gets--;
		p->stats.fails++;
	}
}

/*
 * Counts one buffer of the class as in use. Sets *reuse to a buffer from the free list, or else
 * makes room for a new buffer and sets *victims to the chain of evicted buffers. The caller holds
 * the lock.
 */
static int buf_pool_book(struct buf_pool *p, unsigned int class_index, struct buf **reuse,
			 struct buf **victims)
{
	struct buf_stats *s = &p->stats;
	size_t cap = buf_class_bytes(class_index);
	if (s->in_use_bytes + cap > s->limit_bytes) {
		s->fails++;
		return -ENOBUFS;
	}
	struct buf *b = p->free[class_index];
	if (b != NULL) {
		p->free[class_index] = b->next_free;
		s->cached_bytes -= cap;
		*reuse = b;
	} else {
		*victims = buf_pool_evict(p, s->limit_bytes - s->in_use_bytes - cap);
	}
	s->in_use_bytes += cap;
	s->in_use_count++;
	assert(s->in_use_bytes + s->cached_bytes <= s->limit_bytes);
	s->gets++;
	s->peak_bytes = max_u64(s->peak_bytes, s->in_use_bytes);
	return 0;
}

int buf_get(struct buf_pool *p, size_t len, struct buf **out)
{
	*out = NULL;
	if (len > BUF_LEN_MAX || buf_cap_for(len) > p->stats.limit_bytes)
		return -EMSGSIZE;
	unsigned int class_index = buf_class_of(len);
	struct buf *b = NULL;
	struct buf *victims = NULL;
	pthread_mutex_lock(&p->lock);
	int rc = buf_pool_book(p, class_index, &b, &victims);
	pthread_mutex_unlock(&p->lock);
	if (rc < 0)
		return rc;
	if (b == NULL) {
		buf_destroy_chain(victims);
		b = buf_create(p, class_index);
		if (b == NULL) {
			pthread_mutex_lock(&p->lock);
			buf_pool_uncount(p, buf_class_bytes(class_index), true);
			pthread_mutex_unlock(&p->lock);
			return -ENOMEM;
		}
	}
	memory_unpoison(b->data, b->cap);
	b->len = len;
	b->next_free = NULL;
	atomic_store_explicit(&b->refs, 1, memory_order_relaxed);
	*out = b;
	return 0;
}

struct buf *buf_ref(struct buf *b)
{
	unsigned int before = atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
	assert(before > 0 && before < UINT32_MAX);
	return b;
}

static void buf_return(struct buf *b)
{
	struct buf_pool *p = b->pool;
	void (*on_free)(void *ctx) = p->on_free;
	void *on_free_ctx = p->on_free_ctx;
	memory_poison(b->data, b->cap); /* a use after the last unref is reported */
	pthread_mutex_lock(&p->lock);
	buf_pool_uncount(p, b->cap, false);
	bool keep = p->stats.cached_bytes + b->cap <= p->cache_limit_bytes;
	if (keep) {
		b->next_free = p->free[b->class_index];
		p->free[b->class_index] = b;
		p->stats.cached_bytes += b->cap;
	}
	pthread_mutex_unlock(&p->lock);
	if (!keep)
		buf_destroy(b);
	if (on_free != NULL)
		on_free(on_free_ctx);
}

void buf_unref(struct buf *b)
{
	if (b == NULL)
		return;
	/* Release publishes this holder's writes to the buffer. Acquire lets the last holder see
	 * them before the memory is reused. */
	unsigned int before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
	assert(before > 0);
	if (before == 1)
		buf_return(b);
}
