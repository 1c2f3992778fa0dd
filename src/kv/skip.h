// SPDX-License-Identifier: Apache-2.0
/*
 * An ordered map in memory, from bytes to bytes: a skip list. A node of height h is linked on levels
 * 0 to h-1; each level holds about a quarter of the nodes of the one below, so that a search that
 * starts on top passes O(log n) nodes. Heights come from the map's own generator, so that a run
 * repeats.
 */
#ifndef KV_SKIP_H
#define KV_SKIP_H

#include "base/rng.h"
#include "kv/kv.h"

#define SKIP_HEIGHT_MAX 16 /* a quarter each: good for 4^16 entries */

struct skip_node;

struct skip {
	struct skip_node *head[SKIP_HEIGHT_MAX];
	size_t count;
	struct rng rng;
};

void skip_init(struct skip *s, uint64_t seed);
void skip_fini(struct skip *s);

/* The node with this key, or NULL. */
const struct skip_node *skip_find(struct skip *s, struct kv_bytes key);
/* The first node whose key is >= key, or > key; NULL when there is none. */
const struct skip_node *skip_seek(struct skip *s, struct kv_bytes key, bool beyond);
const struct skip_node *skip_next(const struct skip_node *n);

struct kv_bytes skip_key(const struct skip_node *n);
struct kv_bytes skip_value(const struct skip_node *n);

/* Adds or replaces; both are copied. -ENOMEM, and then nothing changed. */
int skip_put(struct skip *s, struct kv_bytes key, struct kv_bytes value);
/* Whether it was there. */
bool skip_delete(struct skip *s, struct kv_bytes key);

#endif
