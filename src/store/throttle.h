// SPDX-License-Identifier: Apache-2.0
/*
 * An emulated disk: the store below with the speed of a device (drive.h). A call takes as long as the
 * device would, or as the store below does when that is longer.
 *
 * Where a chunk lies on the device follows from its id: chunks are spread evenly over it, each in one
 * piece, so that reading on within a chunk needs no seek and going to another chunk does. Durable
 * calls cost what they write: put the data and the head of the file in one piece; append the data,
 * then the head, which is elsewhere; seal the head; delete 4 KiB of the filesystem's own. Names and
 * heads are taken to be in memory: stat and list cost nothing.
 */
#ifndef STORE_THROTTLE_H
#define STORE_THROTTLE_H

#include "store/drive.h"
#include "store/store.h"

/* Takes below. -EINVAL, -ENOMEM, and below is the caller's. */
int store_throttle_open_take(struct store *below, const struct drive_spec *spec,
			     struct store **out);

void store_throttle_stats(const struct store *s, struct drive_stats *out);

/* Where on the device the bytes of a chunk start. */
uint64_t store_throttle_place(const struct store *s, struct chunk_id id);

#endif
