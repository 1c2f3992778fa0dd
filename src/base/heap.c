// SPDX-License-Identifier: Apache-2.0
/* slots[i - 1] holds the node with index i; the children of i are 2i and 2i + 1. */
#include "base/heap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define HEAP_CAP_MIN 16

void heap_init(struct heap *h)
{
	*h = (struct heap){0};
}

void heap_fini(struct heap *h)
{
	free(h->slots);
	*h = (struct heap){0};
}

int heap_reserve(struct heap *h, size_t count)
{
	if (count <= h->cap)
		return 0;
	if (count > SIZE_MAX / sizeof(*h->slots))
		return -ENOMEM;
	struct heap_node **slots = realloc(h->slots, count * sizeof(*slots));
	if (slots == NULL)
		return -ENOMEM;
	h->slots = slots;
	h->cap = count;
	return 0;
}

static bool heap_before(const struct heap_node *a, const struct heap_node *b)
{
	return a->key != b->key ? a->key < b->key : a->seq < b->seq;
}

static void heap_place(struct heap *h, struct heap_node *node, size_t index)
{
	assert(index >= 1 && index <= h->cap);
	h->slots[index - 1] = node;
	node->index = index;
}

static void heap_sift_up(struct heap *h, struct heap_node *node, size_t index)
{
	while (index > 1 && heap_before(node, h->slots[index / 2 - 1])) {
		heap_place(h, h->slots[index / 2 - 1], index);
		index /= 2;
	}
	heap_place(h, node, index);
}

static void heap_sift_down(struct heap *h, struct heap_node *node, size_t index)
{
	for (;;) {
		size_t child = index * 2;
		if (child > h->count)
			break;
		if (child < h->count && heap_before(h->slots[child], h->slots[child - 1]))
			child++;
		if (!heap_before(h->slots[child - 1], node))
			break;
		heap_place(h, h->slots[child - 1], index);
		index = child;
	}
	heap_place(h, node, index);
}

int heap_push(struct heap *h, struct heap_node *node, uint64_t key)
{
	assert(!heap_contains(node));
	assert(h->count <= h->cap);
	if (h->count == h->cap) {
		int rc = heap_reserve(h, h->cap == 0 ? HEAP_CAP_MIN : h->cap * 2);
		if (rc < 0)
			return rc;
	}
	node->key = key;
	node->seq = h->next_seq++;
	h->count++;
	heap_sift_up(h, node, h->count);
	return 0;
}

struct heap_node *heap_peek(const struct heap *h)
{
	return h->count > 0 ? h->slots[0] : NULL;
}

void heap_remove(struct heap *h, struct heap_node *node)
{
	size_t index = node->index;
	assert(index >= 1 && index <= h->count && h->slots[index - 1] == node);
	struct heap_node *last = h->slots[--h->count];
	node->index = 0;
	if (last == node)
		return;
	if (index > 1 && heap_before(last, h->slots[index / 2 - 1]))
		heap_sift_up(h, last, index);
	else
		heap_sift_down(h, last, index);
}

struct heap_node *heap_pop(struct heap *h)
{
	struct heap_node *node = heap_peek(h);
	if (node != NULL)
		heap_remove(h, node);
	return node;
}
