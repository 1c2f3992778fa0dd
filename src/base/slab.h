// SPDX-License-Identifier: Apache-2.0
/*
 * Memory for the buffers of a pool that are smaller than a huge page, cut from huge pages: direct I/O pins, and the
 * kernel walks, one page instead of hundreds. A slab is one to three huge pages with slots of one size. Example: slots of
 * 1 MiB are two to a slab of 2 MiB, slots of 1.5 MiB four to a slab of 6 MiB.
 *
 * Memory. Bytes of slots that are not taken, and remainders, are idle. No slab is made that would raise the idle bytes
 * above their limit; then the caller gets ordinary memory instead. A slot that is given back to a slab with other taken
 * slots gives its pages back to the system, so that a few taken slots do not keep the memory of many.
 *
 * Threads. Any thread may take and give. The lock is held only while pointers move.
 */
#ifndef BASE_SLAB_H
#define BASE_SLAB_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "base/list.h"

#define HUGE_PAGE_BYTES ((size_t)(2 * MIB))
/* Slots are at least this large, and smaller than a huge page. */
#define SLAB_SLOT_MIN ((size_t)(64 * KIB))
#define SLAB_KINDS 20

struct slab;

struct slabs {
	pthread_mutex_t lock;
	struct list open[SLAB_KINDS]; /* slabs with free slots, a list for each size of slots */
	uint64_t idle_bytes;
	uint64_t idle_limit_bytes;
	uint64_t count; /* slabs */
};

void slabs_init(struct slabs *s, uint64_t idle_limit_bytes);
/* All slots must have been given back. */
void slabs_fini(struct slabs *s);

/*
 * Takes a slot of `bytes` bytes; `kind` is the same number below SLAB_KINDS for the same size. Returns its memory, which
 * is aligned to pages, and sets *from to its slab. NULL: there is no memory, or too much of it is idle.
 */
void *slab_take(struct slabs *s, unsigned kind, size_t bytes, struct slab **from);
/* Gives a slot back, whose memory is `at`. */
void slab_give(struct slabs *s, struct slab *slab, void *at);

#endif
