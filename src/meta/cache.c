// SPDX-License-Identifier: Apache-2.0
/*
 * Cache of sealed metadata: stored values by partition and key; the least recently used are evicted first.
 *
 * Why it is correct: only values of sealed files and of sealed directories are cached, and their contents do
 * not change. A sealed object can be removed; the cache may serve a removed object for ttl_ns more. The collector's
 * grace period is longer than that, so the blocks and files that the object leads to still exist.
 *
 * All loops of a server use one cache. Its keys are divided into shards by hash; the lock of a shard is held for one
 * lookup or change.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/list.h"
#include "meta/impl.h"
#include "rt/rt.h"

#define CACHE_ENTRIES_MAX (1U << 22)
#define CACHE_SHARDS_MAX 32
#define CACHE_SHARD_BYTES (2 * MIB) /* least memory of a shard, if there are several */

struct cache_entry {
	struct list link;
	uint64_t hash;
	uint64_t partition;
	uint64_t until_ns;
	size_t key_len;
	size_t value_len;
	uint8_t bytes[];
};

struct shard {
	pthread_mutex_t lock; /* guards the fields below; innermost */
	struct map by_hash;
	struct list lru; /* most recently used first */
	size_t bytes;
} __attribute__((aligned(64)));

struct cache {
	struct shard shards[CACHE_SHARDS_MAX];
	size_t shard_count;
	size_t shard_bytes_max;
	uint64_t ttl_ns;
};

int cache_open(struct cache **out, size_t bytes_max, uint64_t ttl_ns)
{
	assert(bytes_max > 0 && ttl_ns <= META_CACHE_TTL_MAX);
	struct cache *c = aligned_alloc(_Alignof(struct cache), sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	*c = (struct cache){.shard_count = 1, .ttl_ns = ttl_ns};
	while (c->shard_count < CACHE_SHARDS_MAX &&
	       bytes_max / (2 * c->shard_count) >= CACHE_SHARD_BYTES)
		c->shard_count *= 2;
	c->shard_bytes_max = bytes_max / c->shard_count;
	for (size_t i = 0; i < c->shard_count; i++) {
		struct shard *s = &c->shards[i];
		pthread_mutex_init(&s->lock, NULL);
		map_init(&s->by_hash, CACHE_ENTRIES_MAX / c->shard_count);
		list_init(&s->lru);
	}
	*out = c;
	return 0;
}

static size_t entry_bytes(const struct cache_entry *e)
{
	return sizeof(*e) + e->key_len + e->value_len + sizeof(struct map_slot);
}

static void evict(struct shard *s, struct cache_entry *e)
{
	assert(s->bytes >= entry_bytes(e));
	void *removed = map_remove(&s->by_hash, e->hash);
	assert(removed == e);
	list_remove(&e->link);
	s->bytes -= entry_bytes(e);
	free(e);
}

static void shard_fini(struct shard *s)
{
	struct list *l;
	while ((l = list_first(&s->lru)) != NULL)
		evict(s, list_entry(l, struct cache_entry, link));
	assert(s->bytes == 0);
	map_fini(&s->by_hash);
	pthread_mutex_destroy(&s->lock);
}

void cache_close(struct cache *c)
{
	if (c == NULL)
		return;
	for (size_t i = 0; i < c->shard_count; i++)
		shard_fini(&c->shards[i]);
	free(c);
}

size_t cache_bytes(struct cache *c)
{
	size_t bytes = 0;
	for (size_t i = 0; i < c->shard_count; i++) {
		pthread_mutex_lock(&c->shards[i].lock);
		bytes += c->shards[i].bytes;
		pthread_mutex_unlock(&c->shards[i].lock);
	}
	return bytes;
}

static uint64_t hash_of(uint64_t partition, struct kv_bytes key)
{
	return hash64(key.data, key.len, partition);
}

/* The high bits choose the shard, because the table of a shard uses the low ones. */
static struct shard *shard_of(struct cache *c, uint64_t hash)
{
	return &c->shards[(hash >> 48) % c->shard_count];
}

/* Returns the entry of a key, or NULL. The table may have an entry of another key with the same hash. */
static struct cache_entry *find(struct shard *s, uint64_t hash, uint64_t partition,
				struct kv_bytes key)
{
	struct cache_entry *e = map_get(&s->by_hash, hash);
	if (e == NULL || e->partition != partition || e->key_len != key.len ||
	    memcmp(e->bytes, key.data, key.len) != 0)
		return NULL;
	return e;
}

/* Returns the entry of a key as the most recently used one; NULL if there is none, or it is too old. */
static struct cache_entry *touch(struct shard *s, uint64_t hash, uint64_t partition,
				 struct kv_bytes key)
{
	struct cache_entry *e = find(s, hash, partition, key);
	if (e == NULL)
		return NULL;
	if (rt_now_ns() >= e->until_ns) {
		evict(s, e);
		return NULL;
	}
	list_remove(&e->link);
	list_push_front(&s->lru, &e->link);
	return e;
}

bool cache_get(struct cache *c, uint64_t partition, struct kv_bytes key, struct arena *a,
	       struct kv_bytes *out)
{
	uint64_t hash = hash_of(partition, key);
	struct shard *s = shard_of(c, hash);
	pthread_mutex_lock(&s->lock);
	const struct cache_entry *e = touch(s, hash, partition, key);
	bool hit =
		e != NULL && arena_copy(a, kv_bytes(e->bytes + e->key_len, e->value_len), out) == 0;
	pthread_mutex_unlock(&s->lock);
	return hit;
}

void cache_drop(struct cache *c, uint64_t partition, struct kv_bytes key)
{
	uint64_t hash = hash_of(partition, key);
	struct shard *s = shard_of(c, hash);
	pthread_mutex_lock(&s->lock);
	struct cache_entry *e = find(s, hash, partition, key);
	if (e != NULL)
		evict(s, e);
	pthread_mutex_unlock(&s->lock);
}

void cache_clear(struct cache *c)
{
	for (size_t i = 0; i < c->shard_count; i++) {
		struct shard *s = &c->shards[i];
		struct list *l;
		pthread_mutex_lock(&s->lock);
		while ((l = list_first(&s->lru)) != NULL)
			evict(s, list_entry(l, struct cache_entry, link));
		pthread_mutex_unlock(&s->lock);
	}
}

/* Puts an entry into its shard in place of one with the same hash, and evicts what is over the limit. Takes it over. */
static void add(struct cache *c, struct shard *s, struct cache_entry *e)
{
	struct cache_entry *old = map_get(&s->by_hash, e->hash);
	if (old != NULL)
		evict(s, old);
	if (entry_bytes(e) > c->shard_bytes_max || map_put(&s->by_hash, e->hash, e) != 0) {
		free(e);
		return;
	}
	list_push_front(&s->lru, &e->link);
	s->bytes += entry_bytes(e);
	while (s->bytes > c->shard_bytes_max)
		evict(s, list_entry(list_last(&s->lru), struct cache_entry, link));
	assert(list_first(&s->lru) == &e->link); /* it fits, so it was not evicted */
}

void cache_put(struct cache *c, uint64_t partition, struct kv_bytes key, struct kv_bytes value)
{
	uint64_t hash = hash_of(partition, key);
	struct shard *s = shard_of(c, hash);
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
	pthread_mutex_lock(&s->lock);
	add(c, s, e);
	pthread_mutex_unlock(&s->lock);
}
