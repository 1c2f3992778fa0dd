// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs that share a device. Without turns their operations queue on its streams in the order of submission (FIFO).
 * With turns a job has the device to itself for an iteration: in order of arrival, or so that the device times of the
 * jobs are in proportion to their weights.
 */
#ifndef EMU_SHARE_H
#define EMU_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "rt/sync.h"

enum emu_sharing {
	EMU_FIFO,      /* no turns */
	EMU_ITERATION, /* turns in order of arrival */
	EMU_WEIGHTED,  /* turns to the job with the least device time over its weight */
};

struct emu_turns {
	enum emu_sharing sharing;
	struct list jobs; /* struct emu_sharer */
	struct emu_sharer *holder;
	uint64_t arrivals;
};

/* A job on a shared device. */
struct emu_sharer {
	struct list link;
	struct rt_cond turn;
	double weight;
	double served; /* device time over the weight, in ns */
	bool waits;
	uint64_t arrival; /* number of its present request */
};

void emu_turns_init(struct emu_turns *t, enum emu_sharing sharing);
/* Adds a job; it starts level with the job that was served least, so that it does not catch up for its absence. */
void emu_turns_join(struct emu_turns *t, struct emu_sharer *s, double weight);
/* Removes a job that does not hold the device. */
void emu_turns_leave(struct emu_turns *t, struct emu_sharer *s);
/* Waits for the job's turn. */
int emu_turns_take(struct emu_turns *t, struct emu_sharer *s);
/* Ends the turn, during which the device worked for device_ns. */
void emu_turns_give(struct emu_turns *t, struct emu_sharer *s, uint64_t device_ns);

#endif
