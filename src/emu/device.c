// SPDX-License-Identifier: Apache-2.0
#include "emu/device.h"

#include <assert.h>

#include "base/base.h"

void emu_device_init(struct emu_device *d, uint64_t now_ns, uint64_t memory_bytes)
{
	*d = (struct emu_device){.begin_ns = now_ns};
	emu_ledger_init(&d->memory, memory_bytes);
}

uint64_t emu_submit(struct emu_device *d, enum emu_stream s, uint64_t now_ns, uint64_t after_ns,
		    uint64_t cost_ns)
{
	assert(s < EMU_STREAMS);
	assert(now_ns >= d->begin_ns);
	uint64_t start = max_u64(max_u64(d->stream[s].end_ns, after_ns), now_ns);
	assert(cost_ns < UINT64_MAX - start);
	d->stream[s].end_ns = start + cost_ns;
	d->stream[s].busy_ns += cost_ns;
	return d->stream[s].end_ns;
}

uint64_t emu_device_end(const struct emu_device *d, uint64_t now_ns)
{
	uint64_t end = now_ns;
	for (int s = 0; s < EMU_STREAMS; s++)
		end = max_u64(end, d->stream[s].end_ns);
	return end;
}

uint64_t emu_busy_ns(const struct emu_device *d, enum emu_stream s, uint64_t now_ns)
{
	uint64_t busy = d->stream[s].busy_ns;
	uint64_t left = d->stream[s].end_ns > now_ns ? d->stream[s].end_ns - now_ns : 0;
	/* Gaps before an operation that waits for another one may be in `left`; then this is a little too low. */
	return busy > left ? busy - left : 0;
}

double emu_utilization(const struct emu_device *d, uint64_t now_ns)
{
	assert(now_ns >= d->begin_ns);
	uint64_t elapsed = now_ns - d->begin_ns;
	return elapsed == 0 ? 0 : (double)emu_busy_ns(d, EMU_COMPUTE, now_ns) / (double)elapsed;
}

void emu_device_restart(struct emu_device *d, uint64_t now_ns)
{
	assert(now_ns >= d->begin_ns);
	for (int s = 0; s < EMU_STREAMS; s++)
		d->stream[s].busy_ns =
			d->stream[s].end_ns > now_ns ? d->stream[s].end_ns - now_ns : 0;
	d->begin_ns = now_ns;
}
