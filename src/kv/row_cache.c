// SPDX-License-Identifier: Apache-2.0
/*
 * Invariants:
 *  1. There are base + split buckets; base is a power of two, 0 <= split < base. A row has a slot in the
 *     bucket that bucket_of() returns, and in no other. A key has at most one row.
 *  2. An empty slot has at = 0 and no mark.
 *  3. The ring is [0, limit). used counts the bytes from the tail to the head, with gaps and the unused end;
 *     if used is 0, head and tail are 0. No row wraps around the end: an unused end begins with a row of
 *     key_len 0, and then head <= tail.
 *  4. count rows, of live bytes together, have a slot. A row of the ring without a slot is a gap.
 */
#include "kv/row_cache.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "rt/real.h"

#define BUCKETS_MIN 64
/* mean rows per bucket before the table grows: with this mean few buckets overflow */
#define BUCKET_ROWS 3
#define BUCKETS_PART 6         /* one byte in this many of the cache's memory is for buckets */
#define RING_FIRST (256 * KIB) /* bytes of the ring that are used at first */
/* largest size of the ring in bytes: a 32-bit `at` counts units of eight bytes */
#define RING_MAX (16 * GIB)
/* largest number of marked rows that one put moves from the tail to the head of the ring instead of evicting them */
#define RESCUES_MAX 64
#define ABSENT UINT16_MAX

struct row {
	uint32_t hash; /* low half of the hash of the key */
	uint16_t key_len;
	uint16_t value_len; /* bytes of the value, or ABSENT */
	uint8_t bytes[];    /* partition, key, value, padding to a multiple of eight bytes */
};

#define ROW_MAX (sizeof(struct row) + sizeof(uint64_t) + KV_KEY_MAX + ROW_CACHE_VALUE_MAX)

struct bucket {
	uint16_t tag[ROW_CACHE_WAYS]; /* high bits of the hash of each slot's key */
	uint16_t marked;              /* bit i: slot i is marked */
	uint8_t next;                 /* slot at which the search for an unmarked row starts */
	uint8_t unused;
	/* offset of each slot's row in the ring / 8 + 1; 0: empty slot */
	uint32_t at[ROW_CACHE_WAYS];
} __attribute__((aligned(64)));

struct row_cache {
	struct bucket *buckets;
	size_t buckets_max;
	uint32_t base;
	uint32_t split;
	uint64_t count; /* number of rows */
	uint8_t *ring;
	size_t ring_bytes;           /* bytes of the mapped memory of the ring */
	size_t limit;                /* bytes of the ring that are used; grows up to ring_bytes */
	size_t head;                 /* offset in the ring at which the next row is added */
	size_t tail;                 /* offset in the ring of the oldest row */
	size_t used;                 /* bytes from the tail to the head */
	size_t live;                 /* bytes of the rows that have a slot */
	uint8_t moving[ROW_MAX + 8]; /* copy of a row on its way from the tail to the head */
};

/* --- slots ----------------------------------------------------------------------------------- */

static uint64_t hash_of(uint64_t partition, struct kv_bytes key)
{
	return hash64(key.data, key.len, partition);
}

static uint16_t tag_of(uint64_t hash)
{
	return (uint16_t)(hash >> 48);
}

static struct bucket *bucket_of(const struct row_cache *c, uint32_t hash)
{
	uint32_t i = hash & (c->base - 1);
	return &c->buckets[i < c->split ? hash & (2 * c->base - 1) : i];
}

static struct row *row_at(const struct row_cache *c, size_t offset)
{
	return (struct row *)(void *)(c->ring + offset);
}

static struct row *row_in(const struct row_cache *c, const struct bucket *b, unsigned i)
{
	return row_at(c, ((size_t)b->at[i] - 1) * 8);
}

static uint32_t at_of(size_t offset)
{
	return (uint32_t)(offset / 8 + 1);
}

static size_t value_bytes(const struct row *r)
{
	return r->value_len == ABSENT ? 0 : r->value_len;
}

static size_t row_bytes(size_t key_len, size_t value_len)
{
	return (sizeof(struct row) + sizeof(uint64_t) + key_len + value_len + 7) / 8 * 8;
}

static size_t bytes_of(const struct row *r)
{
	return row_bytes(r->key_len, value_bytes(r));
}

static bool row_is(const struct row *r, uint64_t partition, struct kv_bytes key)
{
	return r->key_len == key.len && memcmp(r->bytes, &partition, sizeof(partition)) == 0 &&
	       memcmp(r->bytes + sizeof(partition), key.data, key.len) == 0;
}

/* Returns the slot of a key in its bucket, or ROW_CACHE_WAYS if the key has no slot. */
static unsigned find(const struct row_cache *c, const struct bucket *b, uint64_t hash,
		     uint64_t partition, struct kv_bytes key)
{
	uint16_t tag = tag_of(hash);
	for (unsigned i = 0; i < ROW_CACHE_WAYS; i++)
		if (b->tag[i] == tag && b->at[i] != 0 && row_is(row_in(c, b, i), partition, key))
			return i;
	return ROW_CACHE_WAYS;
}

static void mark(struct bucket *b, unsigned i, bool on)
{
	b->marked = (uint16_t)(on ? b->marked | 1U << i : b->marked & ~(1U << i));
}

static bool marked(const struct bucket *b, unsigned i)
{
	return (b->marked >> i & 1) != 0;
}

/* Empties slot i of a bucket; its row becomes a gap in the ring. */
static void slot_clear(struct row_cache *c, struct bucket *b, unsigned i)
{
	assert(i < ROW_CACHE_WAYS && b->at[i] != 0);
	assert(c->count > 0 && c->live >= bytes_of(row_in(c, b, i)));
	c->live -= bytes_of(row_in(c, b, i));
	c->count--;
	b->at[i] = 0;
	mark(b, i, false);
}

/* Grows the table by one bucket: splits the next bucket in two. */
static void split_one(struct row_cache *c)
{
	struct bucket *a = &c->buckets[c->split];
	struct bucket *b = &c->buckets[c->base + c->split];
	if (c->base + c->split == c->buckets_max)
		return; /* the table has reached its limit: buckets hold more rows instead */
	assert(c->split < c->base && c->base + c->split < c->buckets_max);
	if (++c->split == c->base) {
		c->base *= 2;
		c->split = 0;
	}
	for (unsigned i = 0; i < ROW_CACHE_WAYS; i++) {
		if (a->at[i] == 0 || bucket_of(c, row_in(c, a, i)->hash) == a)
			continue;
		b->at[i] = a->at[i];
		b->tag[i] = a->tag[i];
		mark(b, i, marked(a, i));
		a->at[i] = 0;
		mark(a, i, false);
	}
}

/* Returns an empty slot of the bucket; evicts an unmarked row if the bucket is full. */
static unsigned slot_make(struct row_cache *c, struct bucket *b)
{
	for (unsigned i = 0; i < ROW_CACHE_WAYS; i++)
		if (b->at[i] == 0)
			return i;
	unsigned i = b->next % ROW_CACHE_WAYS;
	while (marked(b, i)) {
		mark(b, i, false);
		i = (i + 1) % ROW_CACHE_WAYS;
	}
	b->next = (uint8_t)((i + 1) % ROW_CACHE_WAYS);
	slot_clear(c, b, i);
	return i;
}

/* --- the ring --------------------------------------------------------------------------------- */

/* Returns whether a row of n bytes fits at the head of the ring without evicting another row. */
static bool fits(const struct row_cache *c, size_t n)
{
	assert(c->head <= c->limit && c->tail < c->limit && c->used <= c->limit);
	if (c->used == 0 || c->head > c->tail)
		return c->limit - c->head >= n;
	return c->tail - c->head >= n;
}

static size_t take_head(struct row_cache *c, size_t n)
{
	size_t offset = c->head;
	assert(n % 8 == 0 && c->limit - c->head >= n);
	c->head += n;
	c->used += n;
	return offset;
}

static void leave_tail(struct row_cache *c, size_t n)
{
	assert(n > 0 && n <= c->used);
	c->tail += n;
	c->used -= n;
	if (c->used == 0)
		c->head = c->tail = 0;
	else if (c->tail == c->limit)
		c->tail = 0;
}

/*
 * Called when the head is near the end of the ring: makes the ring longer, or moves the head to the
 * start of the ring.
 */
static void head_turn(struct row_cache *c)
{
	if (c->limit < c->ring_bytes && c->live > c->limit / 2) {
		c->limit = min_u64(2 * c->limit, c->ring_bytes);
		return;
	}
	if (c->head < c->limit) {
		*row_at(c, c->head) = (struct row){0};
		c->used += c->limit - c->head;
	}
	c->head = 0;
}

/* Returns the slot of the row at the tail of the ring, or ROW_CACHE_WAYS if this row is a gap. */
static unsigned tail_slot(const struct row_cache *c, const struct bucket *b)
{
	for (unsigned i = 0; i < ROW_CACHE_WAYS; i++)
		if (b->at[i] == at_of(c->tail))
			return i;
	return ROW_CACHE_WAYS;
}

/*
 * Advances the tail of the ring by one row and so evicts that row, unless it is marked and
 * rescue_marked is set. Returns true if the row was marked and was moved to the head.
 */
static bool tail_advance(struct row_cache *c, bool rescue_marked)
{
	struct row *r = row_at(c, c->tail);
	if (r->key_len == 0) {
		leave_tail(c, c->limit - c->tail);
		return false;
	}
	size_t n = bytes_of(r);
	struct bucket *b = bucket_of(c, r->hash);
	unsigned i = tail_slot(c, b);
	bool rescue = i < ROW_CACHE_WAYS && rescue_marked && marked(b, i);
	if (rescue)
		memcpy(c->moving, r, n);
	else if (i < ROW_CACHE_WAYS)
		slot_clear(c, b, i);
	leave_tail(c, n);
	if (!rescue)
		return false;
	assert(fits(c, n)); /* at least the room that the row had before */
	size_t offset = take_head(c, n);
	memcpy(row_at(c, offset), c->moving, n);
	b->at[i] = at_of(offset);
	mark(b, i, false);
	return true;
}

/*
 * Takes n bytes at the head of the ring, after evicting rows until there is room. Returns the
 * offset of these bytes.
 */
static size_t ring_take(struct row_cache *c, size_t n)
{
	assert(n <= ROW_MAX + 8 && 2 * n <= c->ring_bytes);
	unsigned rescues = RESCUES_MAX;
	while (!fits(c, n)) {
		if (c->head > c->tail || c->used == 0)
			head_turn(c);
		else if (tail_advance(c, rescues > 0))
			rescues--;
	}
	return take_head(c, n);
}

/* --- opening ---------------------------------------------------------------------------------- */

int row_cache_open(struct row_cache **out, uint64_t bytes_max)
{
	struct row_cache *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	c->buckets_max =
		(size_t)max_u64(BUCKETS_MIN, bytes_max / BUCKETS_PART / sizeof(struct bucket));
	uint64_t table = c->buckets_max * sizeof(struct bucket);
	uint64_t ring = bytes_max > table ? bytes_max - table : 0;
	c->ring_bytes = (size_t)(min_u64(max_u64(ring, 2 * ROW_MAX), RING_MAX) / 8 * 8);
	c->limit = min_u64(c->ring_bytes, RING_FIRST);
	c->base = BUCKETS_MIN;
	c->buckets = rt_real_map(table);
	c->ring = rt_real_map(c->ring_bytes);
	if (c->buckets == NULL || c->ring == NULL) {
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
	rt_real_unmap(c->buckets, c->buckets_max * sizeof(struct bucket));
	rt_real_unmap(c->ring, c->ring_bytes);
	free(c);
}

/* --- the cache -------------------------------------------------------------------------------- */

bool row_cache_get(struct row_cache *c, uint64_t partition, struct kv_bytes key, bool *found,
		   struct kv_bytes *value)
{
	uint64_t hash = hash_of(partition, key);
	struct bucket *b = bucket_of(c, (uint32_t)hash);
	unsigned i = find(c, b, hash, partition, key);
	if (i == ROW_CACHE_WAYS)
		return false;
	const struct row *r = row_in(c, b, i);
	mark(b, i, true);
	*found = r->value_len != ABSENT;
	*value = kv_bytes(r->bytes + sizeof(partition) + r->key_len, value_bytes(r));
	return true;
}

static void row_write(struct row *r, uint64_t hash, uint64_t partition, struct kv_bytes key,
		      const struct kv_bytes *value)
{
	*r = (struct row){.hash = (uint32_t)hash,
			  .key_len = (uint16_t)key.len,
			  .value_len = value != NULL ? (uint16_t)value->len : ABSENT};
	memcpy(r->bytes, &partition, sizeof(partition));
	memcpy(r->bytes + sizeof(partition), key.data, key.len);
	if (value != NULL && value->len > 0)
		memcpy(r->bytes + sizeof(partition) + key.len, value->data, value->len);
}

void row_cache_put(struct row_cache *c, uint64_t partition, struct kv_bytes key,
		   const struct kv_bytes *value)
{
	row_cache_drop(c, partition, key);
	size_t value_len = value != NULL ? value->len : 0;
	if (key.len == 0 || key.len > KV_KEY_MAX || value_len > ROW_CACHE_VALUE_MAX)
		return;
	uint64_t hash = hash_of(partition, key);
	size_t n = row_bytes(key.len, value_len);
	size_t offset = ring_take(c, n);
	row_write(row_at(c, offset), hash, partition, key, value);
	if (c->count >= (uint64_t)BUCKET_ROWS * (c->base + c->split))
		split_one(c);
	struct bucket *b = bucket_of(c, (uint32_t)hash);
	unsigned i = slot_make(c, b);
	assert(b->at[i] == 0 && !marked(b, i));
	b->at[i] = at_of(offset);
	b->tag[i] = tag_of(hash);
	c->live += n;
	c->count++;
}

void row_cache_drop(struct row_cache *c, uint64_t partition, struct kv_bytes key)
{
	uint64_t hash = hash_of(partition, key);
	struct bucket *b = bucket_of(c, (uint32_t)hash);
	unsigned i = find(c, b, hash, partition, key);
	if (i < ROW_CACHE_WAYS)
		slot_clear(c, b, i);
}

uint64_t row_cache_bytes(const struct row_cache *c)
{
	return (c->base + c->split) * sizeof(struct bucket) + c->limit;
}

uint64_t row_cache_count(const struct row_cache *c)
{
	return c->count;
}
