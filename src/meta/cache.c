// SPDX-License-Identifier: Apache-2.0
/*
 * Cache of sealed metadata: stored values by partition and key; the least recently used are evicted first.
 *
 * Why it is correct: only values of sealed files and of sealed directories are cached, and their contents do
 * not change. A sealed object can be removed; the cache may serve a removed object for ttl_ns more. The collector's
 * grace period is longer than that, so the blocks and files that the object leads to still exist.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/list.h"
#include "meta/impl.h"
#include "rt/rt.h"

#define CACHE_ENTRIES_MAX (1U << 22)

struct cache_entry {
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
	struct list lru; /* most recently used first */
	size_t bytes;
	size_t bytes_max;
	uint64_t ttl_ns;
};

int cache_open(struct cache **out, size_t bytes_max, uint64_t ttl_ns)
{
	assert(bytes_max > 0 && ttl_ns <= META_CACHE_TTL_MAX);
	struct cache *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	map_init(&c->by_hash, CACHE_ENTRIES_MAX);
	list_init(&c->lru);
	c->bytes_max = bytes_max;
	c->ttl_ns = ttl_ns;
	*out = c;
	return 0;
}

static size_t entry_bytes(const struct cache_entry *e)
{
	return sizeof(*e) + e->key_len + e->value_len + sizeof(struct map_slot);
}

static void evict(struct cache *c, struct cache_entry *e)
{
	assert(c->bytes >= entry_bytes(e));
	void *removed = map_remove(&c->by_hash, e->hash);
	assert(removed == e);
	list_remove(&e->link);
	c->bytes -= entry_bytes(e);
	free(e);
}

void cache_close(struct cache *c)
{
	if (c == NULL)
		return;
	struct list *l;
	while ((l = list_first(&c->lru)) != NULL)
		evict(c, list_entry(l, struct cache_entry, link));
	assert(c->bytes == 0);
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

/* Returns the entry of a key, or NULL. The table may have an entry of another key with the same hash. */
static struct cache_entry *find(struct cache *c, uint64_t partition, struct kv_bytes key)
{
	struct cache_entry *e = map_get(&c->by_hash, hash_of(partition, key));
	if (e == NULL || e->partition != partition || e->key_len != key.len ||
	    memcmp(e->bytes, key.data, key.len) != 0)
		return NULL;
	return e;
}

bool cache_get(struct cache *c, uint64_t partition, struct kv_bytes key, struct arena *a,
	       struct kv_bytes *out)
{
	struct cache_entry *e = find(c, partition, key);
	if (e == NULL)
		return false;
	if (rt_now_ns() >= e->until_ns) {
		evict(c, e);
		return false;
	}
	list_remove(&e->link);
	list_push_front(&c->lru, &e->link);
	return arena_copy(a, kv_bytes(e->bytes + e->key_len, e->value_len), out) == 0;
}

void cache_drop(struct cache *c, uint64_t partition, struct kv_bytes key)
{
	struct cache_entry *e = find(c, partition, key);
	if (e != NULL)
		evict(c, e);
}

void cache_put(struct cache *c, uint64_t partition, struct kv_bytes key, struct kv_bytes value)
{
	uint64_t hash = hash_of(partition, key);
	struct cache_entry *old = map_get(&c->by_hash, hash);
	if (old != NULL)
		evict(c, old);
	struct cache_entry *e = malloc(sizeof(*e) + key.len + value.len);
	if (e == NULL)
		return;
	*e = (struct cache_entry){.hash = hash,
				  .partition = partition,
				  .until_ns = rt_now_ns() + c->ttl_ns,
				  .key_len = key.len,
				  .value_len = value.len};
	memcpy(e->bytes, key.data, key.len);
	if (value.len > 0)
		memcpy(e->bytes + key.len, value.data, value.len);
	list_init(&e->link);
	if (entry_bytes(e) > c->bytes_max || map_put(&c->by_hash, hash, e) != 0) {
		free(e);
		return;
	}
	list_push_front(&c->lru, &e->link);
	c->bytes += entry_bytes(e);
	while (c->bytes > c->bytes_max)
		evict(c, list_entry(list_last(&c->lru), struct cache_entry, link));
	/* the entry fits into the cache, so it was not evicted */
	assert(map_get(&c->by_hash, hash) == e);
}
