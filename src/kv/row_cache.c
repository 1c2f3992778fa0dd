// SPDX-License-Identifier: Apache-2.0
/*
 * Invariants:
 *  1. There are base + split buckets, base a power of two, 0 <= split < base. A row is in the bucket that
 *     place() names, and in no other; a key has one row at most.
 *  2. The row of a place is NULL when the place is empty; tag and mark of an empty place mean nothing.
 *  3. bytes is what rows and segments take; count how many rows there are.
 */
#include "kv/row_cache.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"

#define SEGMENT_BUCKETS 1024 /* buckets come by the segment, 64 KiB */
#define BUCKET_ROWS 2        /* on average, before there are more buckets: few overflow at that */
#define ROW_LEAST 48         /* bytes; bounds how many buckets there can be */
#define MALLOC_HEAD 8        /* of each allocation, and their sizes are multiples of 16 */
#define SWEEP_MAX 64         /* buckets that one put looks at for something without a mark */
#define ABSENT UINT16_MAX

struct row {
	uint32_t hash; /* the low half */
	uint16_t key_len;
	uint16_t value_len; /* or ABSENT */
	uint8_t bytes[];    /* partition, key, value */
};

struct bucket {
	uint16_t tag[ROW_CACHE_WAYS]; /* the high bits of the hash */
	uint8_t marked;               /* a bit for each place */
	uint8_t next;                 /* the place that is looked at first when all are taken */
	uint16_t unused;
	struct row *row[ROW_CACHE_WAYS];
} __attribute__((aligned(64)));

struct row_cache {
	struct bucket **segments;
	size_t segments_max;
	uint32_t base;
	uint32_t split;
	uint32_t hand;
	uint64_t count;
	uint64_t bytes;
	uint64_t bytes_max;
};

static uint64_t hash_of(uint64_t partition, struct kv_bytes key)
{
	return hash64(key.data, key.len, partition);
}

static uint16_t tag_of(uint64_t hash)
{
	return (uint16_t)(hash >> 48);
}

static struct bucket *bucket_at(const struct row_cache *c, uint32_t i)
{
	return &c->segments[i / SEGMENT_BUCKETS][i % SEGMENT_BUCKETS];
}

static uint32_t place(const struct row_cache *c, uint32_t hash)
{
	uint32_t i = hash & (c->base - 1);
	return i < c->split ? hash & (2 * c->base - 1) : i;
}

static size_t value_bytes(const struct row *r)
{
	return r->value_len == ABSENT ? 0 : r->value_len;
}

static uint64_t row_bytes(const struct row *r)
{
	uint64_t n = sizeof(*r) + sizeof(uint64_t) + r->key_len + value_bytes(r) + MALLOC_HEAD;
	return (n + 15) / 16 * 16;
}

static bool row_is(const struct row *r, uint64_t partition, struct kv_bytes key)
{
	return r->key_len == key.len && memcmp(r->bytes, &partition, sizeof(partition)) == 0 &&
	       memcmp(r->bytes + sizeof(partition), key.data, key.len) == 0;
}

/* The place of the key in its bucket; ROW_CACHE_WAYS: it has none. */
static unsigned find(const struct bucket *b, uint64_t hash, uint64_t partition, struct kv_bytes key)
{
	uint16_t tag = tag_of(hash);
	for (unsigned i = 0; i < ROW_CACHE_WAYS; i++)
		if (b->tag[i] == tag && b->row[i] != NULL && row_is(b->row[i], partition, key))
			return i;
	return ROW_CACHE_WAYS;
}

static void mark(struct bucket *b, unsigned i, bool on)
{
	b->marked = (uint8_t)(on ? b->marked | 1U << i : b->marked & ~(1U << i));
}

static bool marked(const struct bucket *b, unsigned i)
{
	return (b->marked >> i & 1) != 0;
}

static void forget(struct row_cache *c, struct bucket *b, unsigned i)
{
	c->bytes -= row_bytes(b->row[i]);
	c->count--;
	free(b->row[i]);
	b->row[i] = NULL;
	mark(b, i, false);
}

/* --- opening ---------------------------------------------------------------------------------- */

static int segment_add(struct row_cache *c, uint32_t first)
{
	size_t bytes = SEGMENT_BUCKETS * sizeof(struct bucket);
	struct bucket *s = first / SEGMENT_BUCKETS < c->segments_max
				   ? aligned_alloc(sizeof(struct bucket), bytes)
				   : NULL;
	if (s == NULL)
		return -ENOMEM;
	memset(s, 0, bytes);
	c->segments[first / SEGMENT_BUCKETS] = s;
	c->bytes += bytes;
	return 0;
}

int row_cache_open(struct row_cache **out, uint64_t bytes_max)
{
	struct row_cache *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	uint64_t rows_max = bytes_max / ROW_LEAST;
	c->segments_max = (size_t)(rows_max / BUCKET_ROWS / SEGMENT_BUCKETS + 1);
	c->segments = calloc(c->segments_max, sizeof(struct bucket *));
	c->bytes_max = bytes_max;
	c->base = SEGMENT_BUCKETS;
	if (c->segments == NULL || segment_add(c, 0) != 0) {
		row_cache_close(c);
		return -ENOMEM;
	}
	*out = c;
	return 0;
}

void row_cache_close(struct row_cache *c)
{
	if (c == NULL)
		return;
	for (size_t s = 0; c->segments != NULL && s < c->segments_max; s++) {
		for (size_t i = 0; c->segments[s] != NULL && i < SEGMENT_BUCKETS; i++)
			for (unsigned j = 0; j < ROW_CACHE_WAYS; j++)
				free(c->segments[s][i].row[j]);
		free(c->segments[s]);
	}
	free(c->segments);
	free(c);
}

/* --- growing and shrinking -------------------------------------------------------------------- */

/* One bucket becomes two. */
static void split_one(struct row_cache *c)
{
	uint32_t from = c->split;
	uint32_t to = c->base + c->split;
	if (to % SEGMENT_BUCKETS == 0 && segment_add(c, to) != 0)
		return; /* fuller buckets, then */
	if (++c->split == c->base) {
		c->base *= 2;
		c->split = 0;
	}
	struct bucket *a = bucket_at(c, from);
	struct bucket *b = bucket_at(c, to);
	for (unsigned i = 0; i < ROW_CACHE_WAYS; i++) {
		if (a->row[i] == NULL || place(c, a->row[i]->hash) == from)
			continue;
		b->row[i] = a->row[i];
		b->tag[i] = a->tag[i];
		mark(b, i, marked(a, i));
		a->row[i] = NULL;
		mark(a, i, false);
	}
}

/* The hand goes on by one bucket: what has no mark goes, what has one loses it; or all goes. */
static void sweep_one(struct row_cache *c, bool all)
{
	struct bucket *b = bucket_at(c, c->hand);
	for (unsigned i = 0; i < ROW_CACHE_WAYS; i++)
		if (b->row[i] != NULL && (all || !marked(b, i)))
			forget(c, b, i);
	b->marked = 0;
	c->hand = c->hand + 1 < c->base + c->split ? c->hand + 1 : 0;
}

/* A place for one more row of the bucket. */
static unsigned make_room(struct row_cache *c, struct bucket *b)
{
	for (unsigned i = 0; i < ROW_CACHE_WAYS; i++)
		if (b->row[i] == NULL)
			return i;
	unsigned i = b->next % ROW_CACHE_WAYS;
	while (marked(b, i)) {
		mark(b, i, false);
		i = (i + 1) % ROW_CACHE_WAYS;
	}
	b->next = (uint8_t)((i + 1) % ROW_CACHE_WAYS);
	forget(c, b, i);
	return i;
}

/* --- the cache -------------------------------------------------------------------------------- */

bool row_cache_get(struct row_cache *c, uint64_t partition, struct kv_bytes key, bool *found,
		   struct kv_bytes *value)
{
	uint64_t hash = hash_of(partition, key);
	struct bucket *b = bucket_at(c, place(c, (uint32_t)hash));
	unsigned i = find(b, hash, partition, key);
	if (i == ROW_CACHE_WAYS)
		return false;
	const struct row *r = b->row[i];
	mark(b, i, true);
	*found = r->value_len != ABSENT;
	*value = kv_bytes(r->bytes + sizeof(partition) + r->key_len, value_bytes(r));
	return true;
}

static struct row *row_make(uint64_t hash, uint64_t partition, struct kv_bytes key,
			    const struct kv_bytes *value)
{
	size_t value_len = value != NULL ? value->len : 0;
	struct row *r = malloc(sizeof(*r) + sizeof(partition) + key.len + value_len);
	if (r == NULL)
		return NULL;
	*r = (struct row){.hash = (uint32_t)hash,
			  .key_len = (uint16_t)key.len,
			  .value_len = value != NULL ? (uint16_t)value_len : ABSENT};
	memcpy(r->bytes, &partition, sizeof(partition));
	memcpy(r->bytes + sizeof(partition), key.data, key.len);
	if (value_len > 0)
		memcpy(r->bytes + sizeof(partition) + key.len, value->data, value_len);
	return r;
}

void row_cache_put(struct row_cache *c, uint64_t partition, struct kv_bytes key,
		   const struct kv_bytes *value)
{
	row_cache_drop(c, partition, key);
	if (key.len > KV_KEY_MAX || (value != NULL && value->len > ROW_CACHE_VALUE_MAX))
		return;
	uint64_t hash = hash_of(partition, key);
	struct row *r = row_make(hash, partition, key, value);
	if (r == NULL)
		return;
	for (unsigned n = 0; c->count > 0 && c->bytes + row_bytes(r) > c->bytes_max; n++)
		sweep_one(c, n >= SWEEP_MAX);
	if (c->count >= (uint64_t)BUCKET_ROWS * (c->base + c->split))
		split_one(c);
	struct bucket *b = bucket_at(c, place(c, (uint32_t)hash));
	unsigned i = make_room(c, b);
	b->row[i] = r;
	b->tag[i] = tag_of(hash);
	mark(b, i, false);
	c->bytes += row_bytes(r);
	c->count++;
}

void row_cache_drop(struct row_cache *c, uint64_t partition, struct kv_bytes key)
{
	uint64_t hash = hash_of(partition, key);
	struct bucket *b = bucket_at(c, place(c, (uint32_t)hash));
	unsigned i = find(b, hash, partition, key);
	if (i < ROW_CACHE_WAYS)
		forget(c, b, i);
}

uint64_t row_cache_bytes(const struct row_cache *c)
{
	return c->bytes;
}

uint64_t row_cache_count(const struct row_cache *c)
{
	return c->count;
}
