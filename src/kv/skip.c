// SPDX-License-Identifier: Apache-2.0
#include "kv/skip.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct skip_node {
	uint8_t *bytes; /* bytes of the key, then of the value */
	size_t key_len;
	size_t value_len;
	unsigned height;
	struct skip_node *next[];
};

void skip_init(struct skip *s, uint64_t seed)
{
	*s = (struct skip){0};
	rng_init(&s->rng, seed);
}

static void node_free(struct skip_node *n)
{
	free(n->bytes);
	free(n);
}

void skip_fini(struct skip *s)
{
	struct skip_node *n = s->head[0];
	while (n != NULL) {
		struct skip_node *next = n->next[0];
		node_free(n);
		n = next;
	}
	*s = (struct skip){0};
}

struct kv_bytes skip_key(const struct skip_node *n)
{
	return kv_bytes(n->bytes, n->key_len);
}

struct kv_bytes skip_value(const struct skip_node *n)
{
	return kv_bytes(n->bytes + n->key_len, n->value_len);
}

const struct skip_node *skip_next(const struct skip_node *n)
{
	return n->next[0];
}

/* Finds on each level the link to the first node whose key is >= key (beyond: > key). */
static void search(struct skip *s, struct kv_bytes key, bool beyond, struct skip_node ***links)
{
	struct skip_node **level = s->head;
	for (int h = SKIP_HEIGHT_MAX - 1; h >= 0; h--) {
		for (;;) {
			struct skip_node *n = level[h];
			if (n == NULL)
				break;
			int order = kv_compare(skip_key(n), key);
			if (order > 0 || (order == 0 && !beyond))
				break;
			level = n->next;
		}
		links[h] = &level[h];
	}
}

const struct skip_node *skip_seek(struct skip *s, struct kv_bytes key, bool beyond)
{
	struct skip_node **links[SKIP_HEIGHT_MAX];
	search(s, key, beyond, links);
	return *links[0];
}

const struct skip_node *skip_find(struct skip *s, struct kv_bytes key)
{
	const struct skip_node *n = skip_seek(s, key, false);
	return n != NULL && kv_equal(skip_key(n), key) ? n : NULL;
}

static int node_fill(struct skip_node *n, struct kv_bytes key, struct kv_bytes value)
{
	uint8_t *bytes = malloc(key.len + value.len + 1);
	if (bytes == NULL)
		return -ENOMEM;
	if (key.len > 0)
		memcpy(bytes, key.data, key.len);
	if (value.len > 0)
		memcpy(bytes + key.len, value.data, value.len);
	free(n->bytes);
	n->bytes = bytes;
	n->key_len = key.len;
	n->value_len = value.len;
	return 0;
}

static unsigned draw_height(struct skip *s)
{
	unsigned height = 1;
	for (uint64_t bits = rng_u64(&s->rng); height < SKIP_HEIGHT_MAX && (bits & 3) == 0;
	     bits >>= 2)
		height++;
	assert(height <= SKIP_HEIGHT_MAX);
	return height;
}

int skip_put(struct skip *s, struct kv_bytes key, struct kv_bytes value)
{
	struct skip_node **links[SKIP_HEIGHT_MAX];
	search(s, key, false, links);
	struct skip_node *n = *links[0];
	if (n != NULL && kv_equal(skip_key(n), key))
		return node_fill(n, key, value);
	unsigned height = draw_height(s);
	n = calloc(1, sizeof(*n) + height * sizeof(n->next[0]));
	if (n == NULL)
		return -ENOMEM;
	n->height = height;
	if (node_fill(n, key, value) != 0) {
		free(n);
		return -ENOMEM;
	}
	for (unsigned h = 0; h < height; h++) {
		n->next[h] = *links[h];
		*links[h] = n;
	}
	s->count++;
	return 0;
}

bool skip_delete(struct skip *s, struct kv_bytes key)
{
	struct skip_node **links[SKIP_HEIGHT_MAX];
	search(s, key, false, links);
	struct skip_node *n = *links[0];
	if (n == NULL || !kv_equal(skip_key(n), key))
		return false;
	assert(s->count > 0);
	for (unsigned h = 0; h < n->height; h++) {
		assert(*links[h] == n); /* a node is linked on every level below its height */
		*links[h] = n->next[h];
	}
	node_free(n);
	s->count--;
	return true;
}
