// SPDX-License-Identifier: Apache-2.0
#include "emu/reduce.h"

#include <assert.h>

#include "base/base.h"

#define BUCKET_BYTES (25 * MIB)

uint64_t emu_ring_ns(const struct emu_ring *r, uint64_t bytes)
{
	assert(r->devices > 1 && r->bandwidth_bytes_s > 0);
	double n = r->devices;
	double transfer_s = 2 * (n - 1) / n * (double)bytes / (double)r->bandwidth_bytes_s;
	return (uint64_t)(transfer_s * 1e9 + 0.5) + 2 * ((uint64_t)r->devices - 1) * r->latency_ns;
}

uint64_t emu_ready_ns(const float ready[EMU_READY], uint64_t backward_ns, double share)
{
	assert(share > 0 && share <= 1);
	double before = 0;
	for (int i = 0; i < EMU_READY; i++) {
		if (ready[i] >= share - 1e-6) {
			double step = ready[i] - before;
			double part = step > 0 ? (share - before) / step : 1;
			return (uint64_t)(((double)i + (part < 0 ? 0 : part)) / EMU_READY *
					  (double)backward_ns);
		}
		before = ready[i];
	}
	return backward_ns;
}

uint64_t emu_reduce(struct emu_device *d, const struct emu_ring *r, const struct emu_cost *cost,
		    uint64_t begin_ns, uint64_t end_ns)
{
	assert(begin_ns <= end_ns);
	if (r->devices <= 1 || cost->parameter_bytes == 0)
		return end_ns;
	uint64_t total = cost->parameter_bytes;
	uint64_t bucket = r->bucket_bytes != 0 ? r->bucket_bytes : BUCKET_BYTES;
	bucket = max_u64(bucket, (total + EMU_BUCKETS_MAX - 1) / EMU_BUCKETS_MAX);
	uint64_t end = end_ns;
	for (uint64_t at = 0; at < total; at += bucket) {
		uint64_t bytes = min_u64(bucket, total - at);
		double share = (double)(at + bytes) / (double)total;
		uint64_t ready = begin_ns + emu_ready_ns(cost->ready, end_ns - begin_ns, share);
		end = emu_submit(d, EMU_COMM, begin_ns, ready, emu_ring_ns(r, bytes));
	}
	return max_u64(end, end_ns);
}
