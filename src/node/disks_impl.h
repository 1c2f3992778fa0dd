// SPDX-License-Identifier: Apache-2.0
/*
 * Private to disks: shared by its files.
 *
 *   disks.c         the set of disks, use counts, orders
 *   disks_open.c    opens folders as stores
 *   disks_keeper.c  automatic work: probes, disks that appear and vanish
 *   disks_pool.c    members: give up, replace, return
 *   disks_rebuild.c rebuilds
 */
#ifndef NODE_DISKS_IMPL_H
#define NODE_DISKS_IMPL_H

#include "node/disks.h"

/* Opens the store of a folder, with its emulated drive. Sets slot->store, or slot->trouble on
 * error. */
int slot_open(struct node_disk *d, struct node_slot *slot);
/* Closes the store of a slot that no pool has taken. */
void slot_close(struct node_slot *slot);
/* Returns 1 if the store has no chunk, 0 if it has, or an error. */
int store_is_empty(struct store *s);

/* Opens the disk's store. On error the disk stays absent and d->trouble has the reason. */
int disk_open(struct node_disk *d);

/* Waits until the disk has no users, closes it and opens it again. */
int disk_reopen(struct node_disk *d);
/* Closes the disk for good. It may have no users. */
void disk_shut(struct node_disk *d);

/*
 * Compares the superblock in the folder with the configuration and with the disk that was opened
 * there before. Returns 1 for the same disk, 0 for another disk or none, or an error if the
 * superblock cannot be read now.
 */
int slot_is_ours(const struct node_slot *slot);

/* Checks the members of a pool: returns, replaces and gives up members. The keeper calls it between
 * node_disk_use and node_disk_done. Returns true if the disk must be reopened. */
bool pool_keep(struct node_disk *d);
/* Makes each failed member whose folder is present a member of the pool again. The caller holds the
 * disk between node_disk_use and node_disk_done. -EAGAIN: the disk must be reopened. */
int pool_take_back(struct node_disk *d);
/* Starts a rebuild if one is due and none runs. */
void rebuild_when_due(struct node_disk *d);
/* Cancels a running rebuild and waits until it has ended. */
void rebuild_stop(struct node_disk *d);

/* Runs as the keeper's fiber of a disk (struct node_disk) until the disks are closed. */
void keeper_main(void *disk);

#endif
