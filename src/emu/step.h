// SPDX-License-Identifier: Apache-2.0
/*
 * Training steps on emulated devices. A job runs on one or more devices (data parallel): each computes forward and
 * backward of its own batch, gradients are reduced over all of them, and each runs the optimizer.
 *
 * The launch floor. A profile has two times of a step: step_ns on an idle device, which includes what the device waits
 * for the host that launches kernels, and busy_ns alone. A step that is submitted at s and may begin at b >= s (the
 * stream is busy, or its input is being copied) ends at
 *
 *     max(s + step_ns, b + busy_ns)
 *
 * because the host launches from s on, whether or not the device can begin.
 */
#ifndef EMU_STEP_H
#define EMU_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "emu/device.h"
#include "emu/profile.h"
#include "emu/reduce.h"

#define EMU_DEVICES_MAX 64

struct emu_job {
	struct emu_device *devices[EMU_DEVICES_MAX];
	unsigned device_count;
	struct emu_cost cost;
	struct emu_ring ring; /* ring.devices counts the devices of other processes too */
	bool vary;            /* steps vary as the profile's quantiles do */
	struct rng rng;
	double factor; /* of the present step's parts, when they are submitted one by one */
};

/* When the parts of a step end; the latest of all devices. */
struct emu_marks {
	uint64_t begin_ns; /* the first kernel begins */
	uint64_t forward_ns;
	uint64_t backward_ns;
	uint64_t reduced_ns;
	uint64_t end_ns;      /* the optimizer has ended: what a synchronisation waits for */
	uint64_t launched_ns; /* the host has submitted everything */
	uint64_t seen_ns;     /* the host has the loss, if it reads it */
};

/* A part of a step that is submitted by itself. */
enum emu_part { EMU_FORWARD, EMU_BACKWARD, EMU_OPTIMIZER };

struct emu_part_marks {
	uint64_t begin_ns, end_ns;
	uint64_t reduced_ns;  /* of backward: the gradients are reduced; of other parts: end_ns */
	uint64_t launched_ns; /* the host has submitted the part */
};

/* Sets up a job without devices: steps at this cost, varied by the seed. */
void emu_job_init(struct emu_job *j, const struct emu_cost *cost, uint64_t seed);

/* Submits a step whose input on device i is ready at after_ns[i]; NULL: it is there already. */
void emu_job_step(struct emu_job *j, uint64_t now_ns, const uint64_t *after_ns,
		  struct emu_marks *out);

/*
 * Submits one part of a step to a job of one device, for a program that calls forward, backward and the optimizer one by
 * one. Each part has its share of the launch floor. Forward draws the variation of the step.
 */
void emu_job_part(struct emu_job *j, enum emu_part part, uint64_t now_ns, uint64_t after_ns,
		  struct emu_part_marks *out);

/* Draws the factor of a step's time: its quantiles, linear between them. */
double emu_draw(const float spread[EMU_QUANTILES], struct rng *rng);

#endif
