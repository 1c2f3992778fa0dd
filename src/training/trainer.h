// SPDX-License-Identifier: Apache-2.0
/*
 * The training loop of a job on emulated devices. One step:
 *
 *     fetch    waits for a batch of each device                                    (counted as waiting for data)
 *     copy     host to device, on the copy stream; or the device decodes the batch, on the decode stream
 *     step     forward, backward, all-reduce, optimizer on the compute and communication streams
 *     ahead    with job.ahead: once the host has launched the step, fetch and copy the next batches meanwhile
 *     wait     until the host has the loss
 *
 * The times of a step without ahead, a copy of 3 and a step of 10, data at hand:
 *
 *     0    3            13   16            26
 *     copy |-- step 1 --|copy |-- step 2 --|        a step each 13; utilization 10/13
 *
 * and with ahead: a step each 10 after the first, because copy n + 1 lies below step n; utilization 1.
 *
 * A trainer runs in a fiber of the loop of its devices. All times come from the clock of rt and the device model, so
 * the same loop trains in real time and in the simulator.
 */
#ifndef TRAINING_TRAINER_H
#define TRAINING_TRAINER_H

#include "emu/profile.h"
#include "emu/share.h"
#include "emu/step.h"
#include "emu/wait.h"
#include "training/job.h"
#include "training/loader.h"

/* Devices of one job, or of several that share them. */
struct train_devices {
	unsigned count;
	uint64_t lost_ns; /* when they vanish; UINT64_MAX: never */
	struct emu_turns turns;
	struct emu_device device[EMU_DEVICES_MAX];
};

/* What a span of training took. Times in ns; busy, copy, decode and reduce are sums over the devices. */
struct train_span {
	uint64_t steps, samples;
	uint64_t elapsed_ns;
	uint64_t busy_ns, copy_ns, decode_ns, reduce_ns;
	uint64_t wait_ns;       /* the loop waited for data */
	uint64_t checkpoint_ns; /* the loop waited for checkpoints */
	uint64_t checkpoints;
	uint64_t checkpoint_bytes;
	uint64_t restore_ns, restore_bytes; /* after the last epoch */
	uint64_t read_bytes;
	uint64_t prep_ns; /* processor time of preparing, modelled */
	uint64_t read_ns; /* time of all reads of batches, which overlap */
	struct emu_hist step;
};

struct trainer {
	const struct train_job *job;
	const struct emu_profile *profile;
	const char *device; /* of the profile, for copies */
	struct emu_cost cost;
	struct train_devices *devices;
	struct train_loader *loader;
	/* Called now and then by the fiber; may be NULL. */
	void (*watch)(void *ctx, const struct trainer *t);
	void *watch_ctx;

	/* Results: */
	struct train_span all, epoch; /* of all epochs; of the present or last one */
	uint64_t epochs_done, epoch_steps;
	uint64_t trained; /* samples, those of steps that do not count too */
	struct emu_waiter waiter;
	/* Called at the end of each epoch; may be NULL. */
	void (*epoch_ended)(void *ctx, const struct trainer *t);

	/* Its own: */
	struct emu_job step;
	struct emu_sharer sharer;
	int claims[EMU_DEVICES_MAX];
	struct strbuf why; /* of the error that ends the training, if it has more to say */
	uint64_t watched_ns;
};

/*
 * Fills t->cost and t->device from the profile or the job's step. -ENOENT, -EINVAL, -ENOMEM, -ERANGE with a line in
 * *err: no such model, several, the batch does not fit into the device's memory, or was not measured.
 */
int trainer_cost(struct trainer *t, struct strbuf *err);

/*
 * Trains all epochs. job, profile, devices, loader are set and trainer_cost was called. -ENOMEM with a line in *err:
 * the devices have no memory left; -ENODEV with one: they vanished; errors of the loader and of checkpoints with a line in *err; errors of waits.
 */
int trainer_run(struct trainer *t, struct strbuf *err);

/* Returns the share of the elapsed time in which the devices computed, 0 to 1. */
double train_utilization(const struct train_span *s, int64_t devices);

#endif
