// SPDX-License-Identifier: Apache-2.0
#include "emu/pinned.h"

#include <assert.h>
#include <errno.h>

#include "base/err.h"

/* An idle buffer holds this in its first bytes. */
struct emu_pinned_block {
	struct emu_pinned_block *next;
};

void emu_pinned_init(struct emu_pinned *p, uint64_t limit_bytes,
		     int (*lock)(void **out, size_t bytes),
		     void (*unlock)(void *memory, size_t bytes))
{
	assert(lock != NULL && unlock != NULL);
	*p = (struct emu_pinned){.lock = lock, .unlock = unlock, .limit_bytes = limit_bytes};
}

static unsigned class_of(size_t bytes)
{
	unsigned c = 12; /* EMU_PINNED_MIN */
	while (((size_t)1 << c) < bytes)
		c++;
	return c;
}

void emu_pinned_fini(struct emu_pinned *p)
{
	assert(p->taken_bytes == 0);
	for (unsigned c = 0; c < EMU_PINNED_CLASSES; c++) {
		for (struct emu_pinned_block *b = p->idle[c]; b != NULL;) {
			struct emu_pinned_block *next = b->next;
			p->unlock(b, (size_t)1 << c);
			b = next;
		}
	}
	*p = (struct emu_pinned){0};
}

int emu_pinned_take(struct emu_pinned *p, size_t bytes, void **out, struct strbuf *err)
{
	if (bytes > (size_t)1 << (EMU_PINNED_CLASSES - 1)) {
		strbuf_clear(err);
		(void)strbuf_printf(err, "no pinned buffer of %zu bytes: too large", bytes);
		return -ENOMEM;
	}
	unsigned c = class_of(bytes);
	size_t size = (size_t)1 << c;
	struct emu_pinned_block *b = p->idle[c];
	if (b != NULL) {
		p->idle[c] = b->next;
		p->taken_bytes += size;
		*out = b;
		return 0;
	}
	int rc = size > p->limit_bytes - p->held_bytes ? -EDQUOT : p->lock(out, size);
	if (rc == 0) {
		p->held_bytes += size;
		p->taken_bytes += size;
		return 0;
	}
	strbuf_clear(err);
	(void)strbuf_printf(err, "cannot pin %zu KiB of host memory beside %llu KiB: ", size / 1024,
			    (unsigned long long)(p->held_bytes / KIB));
	if (rc == -EDQUOT)
		(void)strbuf_printf(err, "the limit of the job is %llu KiB",
				    (unsigned long long)(p->limit_bytes / KIB));
	else
		(void)strbuf_printf(err,
				    "%s; raise the limit of locked memory (ulimit -l) or set "
				    "device.lock = false",
				    err_text(rc));
	return -ENOMEM;
}

void emu_pinned_give(struct emu_pinned *p, void *memory, size_t bytes)
{
	unsigned c = class_of(bytes);
	size_t size = (size_t)1 << c;
	assert(p->taken_bytes >= size);
	struct emu_pinned_block *b = memory;
	b->next = p->idle[c];
	p->idle[c] = b;
	p->taken_bytes -= size;
}
