// SPDX-License-Identifier: Apache-2.0
/*
 * An emulated disk: a store with the speed of a device model (drive.h). A call takes as long as
 * the device would take, or as long as the store below takes if that is longer.
 *
 * The position of a chunk on the device follows from its id: chunks are spread evenly and each is
 * contiguous, so that a sequential read of a chunk needs no seek and a read of another chunk needs
 * one. A durable call costs the requests that it writes. A put writes head and data in one request;
 * an append writes the data, then the head at another position; a seal writes the head; a delete
 * writes 4 KiB of filesystem metadata. Names and heads are assumed to be in memory: stat and list
 * cost nothing.
 */
#ifndef STORE_THROTTLE_H
#define STORE_THROTTLE_H

#include "store/drive.h"
#include "store/store.h"

/*
 * Opens a store with the speed of the device over the store below, and owns it when this returns 0.
 * -EINVAL for an impossible device, -ENOMEM.
 */
int store_throttle_open_take(struct store *below, const struct drive_spec *spec,
			     struct store **out);

void store_throttle_stats(const struct store *s, struct drive_stats *out);

#endif
