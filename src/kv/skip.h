// SPDX-License-Identifier: Apache-2.0
/*
 * An ordered map in memory, from bytes to bytes: a skip list. A node of height h is linked on levels 0 to
 * h-1. Each level holds about a quarter of the nodes of the level below, so a search that starts at the top
 * passes O(log n) nodes. The map draws the heights from its own seeded generator, so that equal runs
 * produce equal maps.
 */
#ifndef KV_SKIP_H
#define KV_SKIP_H

#include "base/rng.h"
#include "kv/kv.h"

#define SKIP_HEIGHT_MAX 16 /* enough for 4^16 nodes */

struct skip_node;

struct skip {
	struct skip_node *head[SKIP_HEIGHT_MAX];
	size_t count;
	struct rng rng;
};

void skip_init(struct skip *s, uint64_t seed);
void skip_fini(struct skip *s);

/* Returns the node with this key, or NULL if there is none. */
const struct skip_node *skip_find(struct skip *s, struct kv_bytes key);
/* Returns the first node whose key is >= key (beyond: > key), or NULL. */
const struct skip_node *skip_seek(struct skip *s, struct kv_bytes key, bool beyond);
/* Returns the node with the next key, or NULL. */
const struct skip_node *skip_next(const struct skip_node *n);

struct kv_bytes skip_key(const struct skip_node *n);
struct kv_bytes skip_value(const struct skip_node *n);

/* Adds the key or replaces its value; copies both. -ENOMEM: the map is unchanged. */
int skip_put(struct skip *s, struct kv_bytes key, struct kv_bytes value);
/* Deletes the key; returns whether it existed. */
bool skip_delete(struct skip *s, struct kv_bytes key);

#endif
