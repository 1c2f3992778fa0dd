// SPDX-License-Identifier: Apache-2.0
/*
 * Memory of sealed metadata: stored values by partition and key, the least recently used go first.
 *
 * Why it is never wrong: only what is sealed is put here, and the contents of what is sealed do not
 * change. A sealed thing can be removed; then it may be served for ttl_ns more, and the collector's
 * grace is longer than that, so what it leads to is still there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/list.h"
#include "meta/impl.h"
#include "rt/rt.h"

#define ENTRIES_MAX (1U << 22)

struct cached {
	struct list link;
	uint64_t hash;
	uint64_t partition;
	uint64_t until_ns;
	size_t key_len;
	size_t value_len;
	uint8_t bytes[];
};

struct cache {
	struct map by_hash;
	struct list lru; /* the latest used first */
	size_t bytes;
	size_t bytes_max;
	uint64_t ttl_ns;
};

int cache_open(struct cache **out, size_t bytes_max, uint64_t ttl_ns)
{
	struct cache *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	map_init(&c->by_hash, ENTRIES_MAX);
	list_init(&c->lru);
	c->bytes_max = bytes_max;
	c->ttl_ns = ttl_ns;
	*out = c;
	return 0;
}

static size_t cached_bytes(const struct cached *e)
{
	return sizeof(*e) + e->key_len + e->value_len + sizeof(struct map_slot);
}

static void forget(struct cache *c, struct cached *e)
{
	map_remove(&c->by_hash, e->hash);
	list_remove(&e->link);
	c->bytes -= cached_bytes(e);
	free(e);
}

void cache_close(struct cache *c)
{
	if (c == NULL)
		return;
	struct list *l;
	while ((l = list_first(&c->lru)) != NULL)
		forget(c, list_entry(l, struct cached, link));
	map_fini(&c->by_hash);
	free(c);
}

size_t cache_bytes(const struct cache *c)
{
	return c->bytes;
}

static uint64_t hash_of(uint64_t partition, struct kv_bytes key)
{
	return hash64(key.data, key.len, partition);
}

/* The entry of exactly this key: another may have its hash. */
static struct cached *find(struct cache *c, uint64_t partition, struct kv_bytes key)
{
	struct cached *e = map_get(&c->by_hash, hash_of(partition, key));
	if (e == NULL || e->partition != partition || e->key_len != key.len ||
	    memcmp(e->bytes, key.data, key.len) != 0)
		return NULL;
	return e;
}

bool cache_get(struct cache *c, uint64_t partition, struct kv_bytes key, struct arena *a,
	       struct kv_bytes *out)
{
	struct cached *e = find(c, partition, key);
	if (e == NULL)
		return false;
	if (rt_now_ns() >= e->until_ns) {
		forget(c, e);
		return false;
	}
	list_remove(&e->link);
	list_push_front(&c->lru, &e->link);
	return arena_copy(a, kv_bytes(e->bytes + e->key_len, e->value_len), out) == 0;
}

void cache_drop(struct cache *c, uint64_t partition, struct kv_bytes key)
{
	struct cached *e = find(c, partition, key);
	if (e != NULL)
		forget(c, e);
}

void cache_put(struct cache *c, uint64_t partition, struct kv_bytes key, struct kv_bytes value)
{
	uint64_t hash = hash_of(partition, key);
	struct cached *old = map_get(&c->by_hash, hash);
	if (old != NULL)
		forget(c, old);
	struct cached *e = malloc(sizeof(*e) + key.len + value.len);
	if (e == NULL)
		return;
	*e = (struct cached){.hash = hash,
			     .partition = partition,
			     .until_ns = rt_now_ns() + c->ttl_ns,
			     .key_len = key.len,
			     .value_len = value.len};
	memcpy(e->bytes, key.data, key.len);
	if (value.len > 0)
		memcpy(e->bytes + key.len, value.data, value.len);
	list_init(&e->link);
	if (cached_bytes(e) > c->bytes_max || map_put(&c->by_hash, hash, e) != 0) {
		free(e);
		return;
	}
	list_push_front(&c->lru, &e->link);
	c->bytes += cached_bytes(e);
	while (c->bytes > c->bytes_max)
		forget(c, list_entry(list_last(&c->lru), struct cached, link));
}
