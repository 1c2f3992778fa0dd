// SPDX-License-Identifier: Apache-2.0
/*
 * Checks I10 while faults last: a chunk that a record names is on its disk. A put is durable before a record names
 * it, and a named chunk is replaced as a whole. So no crash and no report of damage excuses a plain disk that never
 * returned wrong bytes and answers -ENOENT, or has only a part of the chunk (I2). (A pool deletes damaged chunks
 * that it rebuilds; there only chunks without a report of damage are checked.)
 *
 * No chunk can move unnoticed between the record and the disk: the record is read before and after the disk is
 * asked, from the store itself, without a cache, and must not have released a chunk in between (release_count in
 * meta.h).
 */
#ifndef TESTS_SIM_CLUSTER_WATCH_H
#define TESTS_SIM_CLUSTER_WATCH_H

#include "cluster.h"
#include "meta/gc.h"

/* A chunk that a record names. */
struct named {
	uint32_t tenant;
	uint64_t block;
	struct chunk_id id;
	uint64_t disk;
	uint64_t release_count; /* of the record when it was read */
};

/* Opens the metadata store without the servers. */
int world_store_open(struct world *w, struct kv **kv, struct meta **m);
void world_store_close(struct kv *kv, struct meta *m);

/* Returns whether the record still names the chunk and has released none since. */
bool named_still(struct world *w, struct meta *m, const struct named *n);

/* Main function of the process that checks all records again and again while the checker does not run. */
void watch_main(void *role);

#endif
