// SPDX-License-Identifier: Apache-2.0
/*
 * A store that was restored from a backup: what must change before it is served again.
 *
 * The cluster has lived on after the backup. Nodes hold chunks that the restored metadata does not name, and lack some that
 * it names; nodes, janitors and clients remember numbers of that time. A number that is given a second time, for something
 * else, would let them take one thing for another. Most numbers are drawn at random from 64 bits and are never given
 * twice: ids of files, directories, blocks, writers and requests. The others are counters, and each is raised so far that
 * the time after the backup cannot have reached it:
 *
 *   counter                      raised by          what would happen otherwise
 *   epoch of the collection      2^32, and held     a worker of before takes its own, higher epoch for the present one, and
 *                                                   finds grace periods over that have just begun
 *   marks of garbage             count as of then   grace periods of before the backup would be over at once
 *   epoch of each open block     2^32               two writers get the same epoch, and the nodes do not fence the first
 *   version of the cluster map   2^32               processes that know a later version would keep records of it
 *   generation of token keys     4096               a generation that was retired as leaked would issue again
 *
 * Not raised: the release counts of sealed blocks (meta/README.md). A janitor that read a block before the restore and is
 * still alive may name a chunk that another janitor deletes after it. So janitors are stopped before a restored store is
 * served, and started after.
 *
 * The collection stays held until an operator releases it (terrane gc resume): chunks that no record names are all that
 * is left of what was stored after the backup.
 */
#ifndef META_RESTORED_H
#define META_RESTORED_H

#include "meta/meta.h"

struct kv;

#define META_BLOCK_EPOCH_JUMP ((uint64_t)1 << 32)

struct meta_restored_report {
	uint64_t epoch;       /* of the collection */
	uint64_t map_version; /* of the cluster map */
	uint64_t open_blocks; /* number of blocks whose writers were fenced */
};

/* Prepares a restored store, which nobody serves. why: for operators who ask why collection is held. A store on which it
 * failed in the middle must be restored again. -EBADMSG: an unreadable record; errors of meta_open and kv_txn. */
int meta_restored(struct kv *kv, const struct meta_options *o, const char *why,
		  struct meta_restored_report *out);

#endif
