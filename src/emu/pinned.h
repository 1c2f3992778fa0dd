// SPDX-License-Identifier: Apache-2.0
/*
 * Pinned host memory: buffers whose pages are locked, so that a device could read them directly. As with the real
 * runtimes, locking is slow, so freed buffers are kept for the next request of about their size and never given back to
 * the system before the end; sizes are rounded up to powers of two.
 */
#ifndef EMU_PINNED_H
#define EMU_PINNED_H

#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define EMU_PINNED_MIN ((size_t)4096)
#define EMU_PINNED_CLASSES 40

struct emu_pinned_block;

struct emu_pinned {
	/* Allocates memory and locks its pages, and frees it; real processes lock (rt/real.h), simulated ones need not. */
	int (*lock)(void **out, size_t bytes);
	void (*unlock)(void *memory, size_t bytes);
	uint64_t limit_bytes, held_bytes, taken_bytes;     /* most; locked; locked and in use */
	struct emu_pinned_block *idle[EMU_PINNED_CLASSES]; /* by the logarithm of their size */
};

void emu_pinned_init(struct emu_pinned *p, uint64_t limit_bytes,
		     int (*lock)(void **out, size_t bytes),
		     void (*unlock)(void *memory, size_t bytes));
/* Frees all buffers; none may be in use. */
void emu_pinned_fini(struct emu_pinned *p);
/* Takes a buffer. -ENOMEM with a line in *err: the limit of the arena or of the system is reached. */
int emu_pinned_take(struct emu_pinned *p, size_t bytes, void **out, struct strbuf *err);
/* Gives a buffer back, with the size that was asked for. */
void emu_pinned_give(struct emu_pinned *p, void *memory, size_t bytes);

#endif
