// SPDX-License-Identifier: Apache-2.0
/*
 * All-reduce of gradients over a ring of devices, in buckets that start when their gradients are ready and run while
 * backward goes on. A bucket of b bytes over n devices takes
 *
 *     2 (n - 1) / n * b / bandwidth  +  2 (n - 1) * latency
 *
 * Buckets run one after the other on the communication stream.
 */
#ifndef EMU_REDUCE_H
#define EMU_REDUCE_H

#include <stdint.h>

#include "emu/device.h"
#include "emu/profile.h"

#define EMU_BUCKETS_MAX 4096

struct emu_ring {
	unsigned devices;           /* 1: there is nothing to reduce */
	uint64_t bandwidth_bytes_s; /* of the slowest link of the ring, in one direction */
	uint64_t latency_ns;        /* of one hop */
	uint64_t bucket_bytes;      /* 0: 25 MiB, as PyTorch has it */
};

/* Returns the time of one bucket of so many bytes. */
uint64_t emu_ring_ns(const struct emu_ring *r, uint64_t bytes);

/* Returns the time after the beginning of backward at which this share of the gradients is ready, 0 < share <= 1. */
uint64_t emu_ready_ns(const float ready[EMU_READY], uint64_t backward_ns, double share);

/* Submits the buckets of a backward that runs from begin_ns to end_ns. Returns when the last of them ends. */
uint64_t emu_reduce(struct emu_device *d, const struct emu_ring *r, const struct emu_cost *cost,
		    uint64_t begin_ns, uint64_t end_ns);

#endif
