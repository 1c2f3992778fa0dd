// SPDX-License-Identifier: Apache-2.0
/* The cache of sealed files and blocks. Cached objects never change, except that chunks move to other disks, and that
 * files and blocks are removed. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "meta_client/impl.h"
#include "rt/rt.h"

#define ENTRIES_MAX (1 << 20)
#define ENTRY_OVERHEAD 64 /* bytes that the table and the allocator use for one entry */

struct cache_entry {
	struct list link; /* element of meta_cache.order */
	struct map *in;   /* map of the cache that has the entry: files or blocks */
	uint64_t id;
	uint64_t expires_ns;
	size_t bytes;
	union {
		struct meta_file file;
		struct meta_block block;
	};
	size_t count;
	bool has_tokens, has_cache_token;
	/* extents of a file; or chunks of a block, its tokens, and its token for cache nodes */
	_Alignas(8) uint8_t rest[];
};

void mc_cache_init(struct meta_cache *c, size_t bytes_max, uint64_t ttl_ns)
{
	memset(c, 0, sizeof(*c));
	map_init(&c->files, ENTRIES_MAX);
	map_init(&c->blocks, ENTRIES_MAX);
	list_init(&c->order);
	c->bytes_max = bytes_max;
	c->ttl_ns = ttl_ns;
}

static void entry_free(struct meta_cache *c, struct cache_entry *e)
{
	assert(e->in == &c->files || e->in == &c->blocks);
	assert(c->bytes >= e->bytes);
	map_remove(e->in, e->id);
	list_remove(&e->link);
	c->bytes -= e->bytes;
	free(e);
}

void mc_cache_fini(struct meta_cache *c)
{
	while (!list_empty(&c->order))
		entry_free(c, list_entry(c->order.next, struct cache_entry, link));
	assert(c->bytes == 0 && map_count(&c->files) == 0 && map_count(&c->blocks) == 0);
	map_fini(&c->files);
	map_fini(&c->blocks);
}

static void drop_id(struct meta_cache *c, struct map *in, uint64_t id)
{
	struct cache_entry *e = map_get(in, id);
	if (e != NULL)
		entry_free(c, e);
}

void mc_cache_drop_file(struct meta_cache *c, uint64_t id)
{
	drop_id(c, &c->files, id);
}

void mc_cache_drop_block(struct meta_cache *c, uint64_t id)
{
	drop_id(c, &c->blocks, id);
}

/* Returns a new entry with list_bytes of room in rest; replaces an entry of the same id. NULL: the entry is too
 * large, or there is no memory; the object is not cached then. */
static struct cache_entry *entry_new(struct meta_cache *c, struct map *in, uint64_t id,
				     size_t list_bytes)
{
	size_t bytes = sizeof(struct cache_entry) + list_bytes + ENTRY_OVERHEAD;
	drop_id(c, in, id);
	if (bytes > c->bytes_max / 4)
		return NULL;
	while (c->bytes + bytes > c->bytes_max || map_count(in) >= ENTRIES_MAX) {
		assert(!list_empty(&c->order));
		entry_free(c, list_entry(c->order.next, struct cache_entry, link));
	}
	struct cache_entry *e = malloc(sizeof(*e) + list_bytes);
	if (e == NULL || map_put(in, id, e) < 0) {
		free(e);
		return NULL;
	}
	e->in = in;
	e->id = id;
	e->bytes = bytes;
	e->expires_ns = rt_now_ns() + c->ttl_ns;
	c->bytes += bytes;
	list_push_back(&c->order, &e->link);
	return e;
}

static struct cache_entry *entry_find(struct meta_cache *c, const struct map *in, uint64_t id)
{
	struct cache_entry *e = map_get(in, id);
	if (e != NULL && rt_now_ns() >= e->expires_ns) {
		entry_free(c, e);
		e = NULL;
	}
	if (e == NULL) {
		c->misses++;
		return NULL;
	}
	c->hits++;
	list_remove(&e->link);
	list_push_back(&c->order, &e->link);
	return e;
}

void mc_cache_put_file(struct meta_cache *c, const struct meta_file *f,
		       const struct meta_extent *extents, size_t n)
{
	if (!f->sealed || f->removed || n != f->extent_count)
		return;
	struct cache_entry *e = entry_new(c, &c->files, f->id, n * sizeof(*extents));
	if (e == NULL)
		return;
	e->file = *f;
	e->count = n;
	if (n > 0)
		memcpy(e->rest, extents, n * sizeof(*extents));
}

int mc_cache_get_file(struct meta_cache *c, uint64_t id, struct meta_file *out,
		      const struct meta_extent **extents, size_t *n)
{
	const struct cache_entry *e = entry_find(c, &c->files, id);
	if (e == NULL)
		return -ENOENT;
	assert(e->in == &c->files && e->count == e->file.extent_count);
	*out = e->file;
	*extents = (const void *)e->rest;
	*n = e->count;
	return 0;
}

void mc_cache_put_block(struct meta_cache *c, const struct meta_block *b)
{
	if (b->state != META_BLOCK_SEALED)
		return;
	size_t bytes = b->chunk_count * sizeof(*b->chunks);
	size_t tokens = b->tokens != NULL ? b->chunk_count * sizeof(*b->tokens) : 0;
	size_t last = b->cache_token != NULL ? META_TOKEN_BYTES : 0;
	struct cache_entry *e = entry_new(c, &c->blocks, b->id, bytes + tokens + last);
	if (e == NULL)
		return;
	e->block = *b;
	e->count = b->chunk_count;
	e->has_tokens = tokens > 0;
	if (bytes > 0)
		memcpy(e->rest, b->chunks, bytes);
	if (tokens > 0)
		memcpy(e->rest + bytes, b->tokens, tokens);
	e->has_cache_token = last > 0;
	if (last > 0)
		memcpy(e->rest + bytes + tokens, b->cache_token, last);
	e->block.chunks = NULL; /* the chunks and tokens are in rest */
	e->block.tokens = NULL;
	e->block.cache_token = NULL;
}

int mc_cache_get_block(struct meta_cache *c, uint64_t id, struct arena *a, struct meta_block *out)
{
	const struct cache_entry *e = entry_find(c, &c->blocks, id);
	if (e == NULL)
		return -ENOENT;
	assert(e->in == &c->blocks && e->count == e->block.chunk_count);
	*out = e->block;
	if (e->count == 0)
		return 0;
	out->chunks = arena_alloc(a, e->count * sizeof(*out->chunks));
	if (out->chunks == NULL)
		return -ENOMEM;
	size_t bytes = e->count * sizeof(*out->chunks);
	memcpy(out->chunks, e->rest, bytes);
	size_t tokens = e->has_tokens ? e->count * sizeof(*out->tokens) : 0;
	if (tokens > 0) {
		out->tokens = arena_alloc(a, tokens);
		if (out->tokens == NULL)
			return -ENOMEM;
		memcpy(out->tokens, e->rest + bytes, tokens);
	}
	if (!e->has_cache_token)
		return 0;
	out->cache_token = arena_alloc(a, META_TOKEN_BYTES);
	if (out->cache_token == NULL)
		return -ENOMEM;
	memcpy(out->cache_token, e->rest + bytes + tokens, META_TOKEN_BYTES);
	return 0;
}
