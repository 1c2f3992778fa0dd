// SPDX-License-Identifier: Apache-2.0
/*
 * Inside disks: what its files know of each other.
 *
 *   disks.c         the set of disks, who uses one, orders
 *   disks_open.c    from folders to stores
 *   disks_keeper.c  what happens by itself: probes, disks that come and go
 *   disks_pool.c    members given up, replaced and taken back
 *   disks_rebuild.c rebuilds
 */
#ifndef NODE_DISKS_IMPL_H
#define NODE_DISKS_IMPL_H

#include "node/disks.h"

/* Opens the store of a folder, with the speed it should have. Sets slot->store and trouble. */
int slot_open(struct node_disk *d, struct node_slot *slot);
/* A slot that nobody but us has: closes its store. */
void slot_close(struct node_slot *slot);
/* Whether a store has no chunk: 1, 0 or an error. */
int store_is_empty(struct store *s);

/* Opens the disk's store; on error the disk is absent and d->trouble says why. */
int disk_open(struct node_disk *d);

/* Closes it, when nobody uses it any more, and opens it again. Waits. */
int disk_reopen(struct node_disk *d);
/* For the end: closes it. Nobody may use it. */
void disk_shut(struct node_disk *d);

/* Is the disk in the folder the one that it must be, and not another than was there before? 1, 0, or an error
 * when it cannot be told now. */
int slot_is_ours(const struct node_slot *slot);

/* The keeper's round for a pool that is in use. Returns whether it must be opened anew. */
bool pool_keep(struct node_disk *d);
/* Puts all members back that are there. The pool is in use. */
int pool_take_back(struct node_disk *d);
/* Starts a rebuild when one is due. */
void rebuild_when_due(struct node_disk *d);
/* Ends the rebuild under way, if any. Waits. */
void rebuild_stop(struct node_disk *d);

void keeper_main(void *disk);

#endif
