// SPDX-License-Identifier: Apache-2.0
/*
 * I10 while faults last: a chunk that a record names is on its disk. A put is durable before a record names it, and
 * what is named is replaced as a whole, so no crash, and no report of damage, excuses that a plain disk which never
 * lied says -ENOENT; nor that it has a part of it only (I2). (A pool deletes what it makes anew; there only chunks
 * that nobody reported count.)
 *
 * Nothing moves unseen between the record and the disk: the record is read before and after the disk is asked, from
 * the store itself, where no cache is, and must have let no chunk go in between (release_count in meta.h).
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
	uint64_t release_count; /* of the record, when it was read */
};

/* The metadata beside the servers. */
int world_store_open(struct world *w, struct kv **kv, struct meta **m);
void world_store_close(struct kv *kv, struct meta *m);

/* Whether the record still names it, and has let nothing go since. */
bool named_still(struct world *w, struct meta *m, const struct named *n);

/* A process that looks at all records again and again until the checker does. */
void watch_main(void *role);

#endif
