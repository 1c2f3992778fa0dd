// SPDX-License-Identifier: Apache-2.0
#include "emu/ledger.h"

#include <assert.h>
#include <errno.h>

void emu_ledger_init(struct emu_ledger *l, uint64_t capacity_bytes)
{
	assert(capacity_bytes > 0);
	*l = (struct emu_ledger){.capacity_bytes = capacity_bytes};
}

uint64_t emu_ledger_used(const struct emu_ledger *l)
{
	uint64_t persistent = 0, sum = 0, largest = 0;
	for (int i = 0; i < EMU_CLAIMS_MAX; i++) {
		persistent += l->claims[i].persistent_bytes;
		sum += l->claims[i].transient_bytes;
		largest = max_u64(largest, l->claims[i].transient_bytes);
	}
	return persistent + (l->turns ? largest : sum);
}

/* Puts a claim in place of another; undone, with a message, when the device has not the memory. */
static int replace(struct emu_ledger *l, int i, struct emu_claim with, struct strbuf *err)
{
	assert(i >= 0 && i < EMU_CLAIMS_MAX);
	struct emu_claim before = l->claims[i];
	uint64_t held = emu_ledger_used(l);
	/* A claim beyond the device by itself is refused before sums could wrap. */
	bool absurd = with.persistent_bytes > l->capacity_bytes ||
		      with.transient_bytes > l->capacity_bytes;
	if (!absurd) {
		l->claims[i] = with;
		uint64_t used = emu_ledger_used(l);
		if (used <= l->capacity_bytes) {
			l->peak_bytes = max_u64(l->peak_bytes, used);
			return 0;
		}
		l->claims[i] = before;
	}
	strbuf_clear(err);
	(void)strbuf_printf(
		err,
		"out of memory on the device: %llu MiB asked for (%llu of them persistent), %llu "
		"of %llu "
		"MiB in use",
		(unsigned long long)((with.persistent_bytes + with.transient_bytes) / MIB),
		(unsigned long long)(with.persistent_bytes / MIB), (unsigned long long)(held / MIB),
		(unsigned long long)(l->capacity_bytes / MIB));
	return -ENOMEM;
}

int emu_ledger_take(struct emu_ledger *l, uint64_t persistent_bytes, uint64_t transient_bytes,
		    struct strbuf *err)
{
	for (int i = 0; i < EMU_CLAIMS_MAX; i++) {
		if (l->claims[i].used)
			continue;
		int rc = replace(l, i, (struct emu_claim){true, persistent_bytes, transient_bytes},
				 err);
		return rc < 0 ? rc : i;
	}
	strbuf_clear(err);
	(void)strbuf_printf(err, "more than %d jobs on one device", EMU_CLAIMS_MAX);
	return -EAGAIN;
}

int emu_ledger_grow(struct emu_ledger *l, int claim, uint64_t persistent_bytes, struct strbuf *err)
{
	assert(claim >= 0 && claim < EMU_CLAIMS_MAX && l->claims[claim].used);
	struct emu_claim with = l->claims[claim];
	if (persistent_bytes <= with.persistent_bytes)
		return 0;
	with.persistent_bytes = persistent_bytes;
	return replace(l, claim, with, err);
}

void emu_ledger_give(struct emu_ledger *l, int claim)
{
	assert(claim >= 0 && claim < EMU_CLAIMS_MAX && l->claims[claim].used);
	l->claims[claim] = (struct emu_claim){0};
}
