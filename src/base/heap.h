// SPDX-License-Identifier: Apache-2.0
/*
 * Intrusive binary min-heap, for timers and priorities. Nodes are ordered by key, and nodes with
 * the same key by when they were pushed, so that the order is fully determined by the calls. A node
 * stores its index, so heap_remove of any node is O(log n).
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A node of a heap, a field of the struct that is ordered. All bytes must be zero before its first
 * push. */
struct heap_node {
	uint64_t key;
	uint64_t seq; /* set by heap_push: orders nodes with equal keys */
	size_t index; /* place in the heap, from 1; 0: in no heap */
};

struct heap {
	struct heap_node **slots;
	size_t count;
	size_t cap;
	uint64_t next_seq;
};

void heap_init(struct heap *h);

/* Frees the heap's array. The nodes belong to the caller and are not changed. */
void heap_fini(struct heap *h);

/* Makes room for `count` nodes in total, so that pushes up to that number cannot fail. -ENOMEM. */
int heap_reserve(struct heap *h, size_t count);

/* Adds a node, which must be in no heap, with its key. -ENOMEM. */
int heap_push(struct heap *h, struct heap_node *node, uint64_t key);

/* Return the smallest node, NULL if the heap is empty. heap_pop also removes it. */
struct heap_node *heap_peek(const struct heap *h);
struct heap_node *heap_pop(struct heap *h);

/* Removes a node that is in this heap. */
void heap_remove(struct heap *h, struct heap_node *node);

/* Reports whether the node is in a heap. A node can be in one heap only. */
static inline bool heap_contains(const struct heap_node *node)
{
	return node->index != 0;
}

#endif
