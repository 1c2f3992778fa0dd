// SPDX-License-Identifier: Apache-2.0
/*
 * The loader of a job: workers that read and prepare batches ahead, which are handed out in order.
 *
 *     free buffer -> read (source) -> prep (a processor) -> ready -> in use by a device -> free
 *
 * A worker takes the next batch of the epoch and a free buffer, reads all samples with one call, and holds a modelled
 * processor for the time that preparing takes. So at most `workers` batches are being made, and at most `buffers` exist.
 * Preparing is arithmetic like the device: a processor is free at an absolute time, and the worker sleeps until its
 * batch is done; nothing is burnt.
 *
 * A loader belongs to the loop of its source. loader_next and loader_give may be called on another loop of the process,
 * the one that waits for devices, so that its spinning holds up no read.
 */
#ifndef TRAINING_LOADER_H
#define TRAINING_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "emu/pinned.h"
#include "rt/call.h"
#include "rt/sync.h"
#include "training/job.h"
#include "training/source.h"

struct train_loader;

/* A batch of one device in host memory. */
struct train_batch {
	struct train_loader *loader;
	struct rt_msg given;
	uint8_t *memory; /* NULL when the source reads nothing */
	uint64_t room;
	uint64_t bytes; /* read */
	uint32_t count; /* samples */
	uint64_t index; /* of the epoch */
	bool taken, ready;
};

struct train_loader {
	const struct train_job *job;
	struct train_source *source;
	struct emu_pinned *pinned; /* where buffers come from; NULL: malloc */
	struct rt_port *port;      /* of the loader's loop */
	struct train_batch *buffers;
	unsigned buffer_count;
	uint64_t *core_free_ns;
	unsigned cores;
	/* The epoch: */
	uint32_t *order;
	uint64_t batches, next_made, next_out;
	struct rt_group workers;
	struct rt_cond
		changed; /* a buffer was freed or a batch became ready, or the loader failed */
	bool stopped;
	int rc;
	struct strbuf err;
	/* Sums over all epochs: */
	uint64_t read_bytes, read_samples, prep_ns, read_ns;
};

/* -ENOMEM and -E2BIG with a line in *err. On the loop of the source. */
int train_loader_open(struct train_loader *l, const struct train_job *j, struct train_source *s,
		      struct rt_port *port, struct strbuf *err);
/* Frees the buffers; all must have been given back. On the loop of the source. */
void train_loader_close(struct train_loader *l);

/* Starts the workers of an epoch that has so many batches. On the loop of the source. -ENOMEM, -EAGAIN. */
int train_loader_begin(struct train_loader *l, uint64_t epoch, uint64_t batches);
/* Ends the workers, cancels reads that run. On the loop of the source. */
void train_loader_end(struct train_loader *l);

/* Waits for the next batch of the epoch. Returns the loader's error if it failed. On any loop. */
int train_loader_next(struct train_loader *l, struct train_batch **out);
/* Gives a batch back. On any loop. Does not wait. */
void train_loader_give(struct train_batch *b);

#endif
