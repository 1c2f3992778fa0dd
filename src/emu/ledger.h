// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of a device, which jobs share. A claim is what one job holds: a persistent part (its context, weights,
 * optimizer state, buffers of the decoder) and a transient part (activations), which it needs during a step only. Jobs
 * that take turns by iteration share the room for the largest transient part; jobs that run at once hold the sum.
 */
#ifndef EMU_LEDGER_H
#define EMU_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"

#define EMU_CLAIMS_MAX 64

struct emu_claim {
	bool used;
	uint64_t persistent_bytes, transient_bytes;
};

struct emu_ledger {
	uint64_t capacity_bytes;
	bool turns; /* jobs take turns: one transient part at a time */
	uint64_t peak_bytes;
	struct emu_claim claims[EMU_CLAIMS_MAX];
};

void emu_ledger_init(struct emu_ledger *l, uint64_t capacity_bytes);
/* Returns the bytes that the claims need together. */
uint64_t emu_ledger_used(const struct emu_ledger *l);
/*
 * Takes memory for a job. Returns the number of the claim; -ENOMEM with a line in *err: the device is out of memory;
 * -EAGAIN: too many jobs on the device. Nothing changes after an error.
 */
int emu_ledger_take(struct emu_ledger *l, uint64_t persistent_bytes, uint64_t transient_bytes,
		    struct strbuf *err);
/* Raises the persistent part of a claim to at least so many bytes; it never shrinks. -ENOMEM with a line in *err. */
int emu_ledger_grow(struct emu_ledger *l, int claim, uint64_t persistent_bytes, struct strbuf *err);
void emu_ledger_give(struct emu_ledger *l, int claim);

#endif
