// SPDX-License-Identifier: Apache-2.0
/*
 * Checkpoints of a training, in parts that are written at the same time, as ranks do:
 *
 *     device to host   each device copies its share of the state
 *     write            all parts at once, for real; each is durable when its write ends
 *     restore          all parts at once, every byte compared, then host to device
 *
 * Training stands still meanwhile. Two checkpoints are kept, and replaced in turn.
 */
#ifndef TRAINING_CHECKPOINT_H
#define TRAINING_CHECKPOINT_H

#include "training/trainer.h"

/* Writes the next checkpoint. Errors of the copies; errors of the writes with a line in *err. On the loop of the devices. */
int train_checkpoint_write(struct trainer *t, struct strbuf *err);
/* Reads the last checkpoint back and copies it to the devices. -EBADMSG: bytes differ; others as for write. */
int train_checkpoint_restore(struct trainer *t, struct strbuf *err);

#endif
