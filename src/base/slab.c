// SPDX-License-Identifier: Apache-2.0
#include "base/slab.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/base.h"
#include "base/poison.h"

#define HUGE_PAGES_MAX 3
#define SLOTS_MAX (HUGE_PAGE_BYTES / SLAB_SLOT_MIN)

struct slab {
	struct list link; /* in the list of its kind, while it has free slots */
	uint8_t *data;
	size_t bytes;
	size_t slot_bytes;
	size_t stride; /* from one slot to the next */
	unsigned kind;
	unsigned slots, taken;
	uint32_t free; /* a bit for each free slot */
};

void slabs_init(struct slabs *s, uint64_t idle_limit_bytes)
{
	*s = (struct slabs){.idle_limit_bytes = idle_limit_bytes};
	for (size_t i = 0; i < SLAB_KINDS; i++)
		list_init(&s->open[i]);
	int rc = pthread_mutex_init(&s->lock, NULL);
	assert(rc == 0);
}

void slabs_fini(struct slabs *s)
{
	assert(s->count == 0 && s->idle_bytes == 0);
	pthread_mutex_destroy(&s->lock);
}

/* Chooses the number of huge pages: the first that wastes at most a sixteenth, else the one that wastes the least. */
static void slab_shape(struct slab *slab)
{
	size_t best_share = SIZE_MAX;
	slab->stride = slab->slot_bytes + POISON_GAP;
	for (size_t pages = 1; pages <= HUGE_PAGES_MAX && best_share > 1000 / 16; pages++) {
		size_t bytes = pages * HUGE_PAGE_BYTES;
		size_t share = bytes % slab->stride * 1000 / bytes;
		if (bytes < slab->stride || share >= best_share)
			continue;
		slab->bytes = bytes;
		slab->slots = (unsigned)(bytes / slab->stride);
		best_share = share;
	}
	assert(slab->slots > 0 && slab->slots <= SLOTS_MAX);
}

static struct slab *slab_new(unsigned kind, size_t slot_bytes)
{
	struct slab *slab = malloc(sizeof(*slab));
	if (slab == NULL)
		return NULL;
	*slab = (struct slab){.kind = kind, .slot_bytes = slot_bytes};
	slab_shape(slab);
	slab->free = UINT32_MAX >> (SLOTS_MAX - slab->slots);
	slab->data = aligned_alloc(HUGE_PAGE_BYTES, slab->bytes);
	if (slab->data == NULL) {
		free(slab);
		return NULL;
	}
	(void)madvise(slab->data, slab->bytes, MADV_HUGEPAGE);
	memory_poison(slab->data, slab->bytes);
	return slab;
}

static void slab_free(struct slab *slab)
{
	assert(slab->taken == 0);
	memory_unpoison(slab->data, slab->bytes);
	free(slab->data);
	free(slab);
}

/* Takes a slot of a slab with free ones. The caller holds the lock. */
static void *slot_take(struct slabs *s, struct slab *slab)
{
	assert(slab->free != 0 && slab->taken < slab->slots);
	unsigned slot = (unsigned)__builtin_ctz(slab->free);
	slab->free &= slab->free - 1;
	slab->taken++;
	s->idle_bytes -= slab->slot_bytes;
	if (slab->free == 0)
		list_remove(&slab->link);
	return slab->data + slot * slab->stride;
}

/* Adds a new slab if it does not make too much memory idle. The caller holds the lock. */
static bool slab_add(struct slabs *s, struct slab *slab)
{
	if (s->idle_bytes + slab->bytes > s->idle_limit_bytes)
		return false;
	s->idle_bytes += slab->bytes;
	s->count++;
	list_push_front(&s->open[slab->kind], &slab->link);
	return true;
}

static struct slab *slabs_first(struct slabs *s, unsigned kind)
{
	struct list *first = list_first(&s->open[kind]);
	return first != NULL ? list_entry(first, struct slab, link) : NULL;
}

void *slab_take(struct slabs *s, unsigned kind, size_t bytes, struct slab **from)
{
	assert(kind < SLAB_KINDS && bytes >= SLAB_SLOT_MIN && bytes < HUGE_PAGE_BYTES);
	void *at = NULL;
	pthread_mutex_lock(&s->lock);
	struct slab *slab = slabs_first(s, kind);
	bool room = s->idle_bytes + HUGE_PAGE_BYTES <= s->idle_limit_bytes;
	if (slab != NULL)
		at = slot_take(s, slab);
	pthread_mutex_unlock(&s->lock);
	if (at == NULL && room) {
		slab = slab_new(kind, bytes);
		if (slab == NULL)
			return NULL;
		pthread_mutex_lock(&s->lock);
		if (slab_add(s, slab))
			at = slot_take(s, slab);
		pthread_mutex_unlock(&s->lock);
		if (at == NULL)
			slab_free(slab);
	}
	assert(at == NULL || slab->slot_bytes == bytes);
	*from = at != NULL ? slab : NULL;
	return at;
}

void slab_give(struct slabs *s, struct slab *slab, void *at)
{
	size_t slot = (size_t)((uint8_t *)at - slab->data) / slab->stride;
	assert(slot < slab->slots && at == slab->data + slot * slab->stride);
	/* The slot still belongs to the caller, so nobody writes to its pages meanwhile. */
	(void)madvise(at, slab->slot_bytes, MADV_DONTNEED);
	memory_poison(at, slab->slot_bytes);
	pthread_mutex_lock(&s->lock);
	assert((slab->free & UINT32_C(1) << slot) == 0);
	if (slab->free == 0)
		list_push_front(&s->open[slab->kind], &slab->link);
	slab->free |= UINT32_C(1) << slot;
	slab->taken--;
	s->idle_bytes += slab->slot_bytes;
	bool last = slab->taken == 0;
	if (last) {
		list_remove(&slab->link);
		s->idle_bytes -= slab->bytes;
		s->count--;
	}
	pthread_mutex_unlock(&s->lock);
	if (last)
		slab_free(slab);
}
