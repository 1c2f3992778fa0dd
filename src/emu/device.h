// SPDX-License-Identifier: Apache-2.0
/*
 * An emulated accelerator: streams on which operations cost time. Pure arithmetic on the times that the caller gives;
 * nothing here waits.
 *
 * An operation begins when its stream has ended all earlier ones, when what it depends on has ended, and not before it
 * is submitted; it ends its cost later:
 *
 *     end = max(end of the stream, dependencies, submission) + cost
 *
 * So copies overlap with computing as on a device, and a caller that comes late shortens the next idle time instead of
 * adding to every later step. Only a synchronisation waits, until an absolute time (wait.h).
 *
 * Utilization is the modelled busy time of the compute stream over the elapsed time. It is never the measured length
 * of a sleep: a sleep is longer than asked for, by an amount that says nothing about the device.
 */
#ifndef EMU_DEVICE_H
#define EMU_DEVICE_H

#include <stdint.h>

#include "emu/ledger.h"

enum emu_stream {
	EMU_COMPUTE,
	EMU_TO_DEVICE, /* copies from the host */
	EMU_TO_HOST,
	EMU_DECODE, /* decoding and preprocessing on the device */
	EMU_COMM,   /* all-reduce */
	EMU_STREAMS
};

struct emu_device {
	uint64_t begin_ns; /* time from which utilization counts */
	struct {
		uint64_t end_ns;  /* when the last operation ends */
		uint64_t busy_ns; /* sum of the costs since begin_ns */
	} stream[EMU_STREAMS];
	struct emu_ledger memory;
};

void emu_device_init(struct emu_device *d, uint64_t now_ns, uint64_t memory_bytes);

/* Submits an operation that depends on what ends at after_ns (0: nothing). Returns when it ends. */
uint64_t emu_submit(struct emu_device *d, enum emu_stream s, uint64_t now_ns, uint64_t after_ns,
		    uint64_t cost_ns);

/* Returns when all streams have ended; now_ns if they have. */
uint64_t emu_device_end(const struct emu_device *d, uint64_t now_ns);

/* Returns the busy time of a stream from begin_ns to now_ns: what its last operations take beyond now_ns is not in it. */
uint64_t emu_busy_ns(const struct emu_device *d, enum emu_stream s, uint64_t now_ns);

/* Returns the busy share of the compute stream from begin_ns to now_ns, 0 to 1. */
double emu_utilization(const struct emu_device *d, uint64_t now_ns);

/* Begins to count utilization anew at now_ns; operations that still run count from there on. */
void emu_device_restart(struct emu_device *d, uint64_t now_ns);

#endif
