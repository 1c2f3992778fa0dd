// SPDX-License-Identifier: Apache-2.0
#include "cache/history.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY_BYTES_DEFAULT (8u << 20)
#define HISTORY_MS_DEFAULT (6ULL * 3600 * 1000)
#define HISTORY_SAMPLES_MIN 64u
#define HISTORY_STEP_BYTES 4096u
#define HISTORY_HASH_SALT 0x5851f42d4c957f2dULL

int cache_history_init(struct history *h, const struct cache_params *params)
{
	uint64_t bytes = params->history_bytes != 0 ? params->history_bytes : HISTORY_BYTES_DEFAULT;
	uint64_t ms = params->history_ms != 0 ? params->history_ms : HISTORY_MS_DEFAULT;
	uint64_t slots = HISTORY_SAMPLES_MIN;
	*h = (struct history){
		.limit = UINT64_MAX, .slice = 1, .segment_bytes = params->segment_bytes};
	while (slots * 2 * HISTORY_SAMPLE_BYTES <= bytes && slots < 1u << 30)
		slots *= 2;
	h->slice_ms = ms / HISTORY_SLICES != 0 ? ms / HISTORY_SLICES : 1;
	h->step_bytes = HISTORY_STEP_BYTES;
	while (h->segment_bytes / h->step_bytes >= UINT16_MAX)
		h->step_bytes *= 2;
	h->mask = (uint32_t)(slots - 1);
	h->table = calloc(slots, sizeof(*h->table));
	return h->table != NULL ? 0 : -ENOMEM;
}

void cache_history_fini(struct history *h)
{
	for (uint32_t b = 0; b < h->buckets_n; b++)
		free(h->buckets[b]);
	free(h->buckets);
	free(h->table);
	*h = (struct history){0};
}

static struct history_bucket *find_bucket(const struct history *h, uint16_t bucket)
{
	return bucket < h->buckets_n ? h->buckets[bucket] : NULL;
}

static struct history_bucket *need_bucket(struct history *h, uint16_t bucket)
{
	if (bucket >= h->buckets_n) {
		uint32_t n = bucket + 1u + h->buckets_n / 2;
		n = n <= CACHE_BUCKETS_MAX + 1 ? n : CACHE_BUCKETS_MAX + 1;
		struct history_bucket **more =
			realloc(h->buckets, n * sizeof(struct history_bucket *));
		if (more == NULL)
			return NULL;
		for (uint32_t b = h->buckets_n; b < n; b++)
			more[b] = NULL;
		h->buckets = more;
		h->buckets_n = n;
	}
	if (h->buckets[bucket] == NULL)
		h->buckets[bucket] = calloc(1, sizeof(*h->buckets[bucket]));
	return h->buckets[bucket];
}

static uint32_t home_of(const struct history *h, uint64_t key)
{
	return (uint32_t)(key >> 20) & h->mask;
}

/* Returns the slot of the key, or the empty one where it belongs. */
static struct history_sample *find_slot(const struct history *h, uint64_t key)
{
	uint32_t at = home_of(h, key);
	while (h->table[at].key != 0 && h->table[at].key != key)
		at = (at + 1) & h->mask;
	return &h->table[at];
}

static bool in_window(const struct history *h, uint32_t slice)
{
	return slice + HISTORY_SLICES > h->slice;
}

static uint64_t hash_of(uint64_t key)
{
	return mix_u64(key ^ HISTORY_HASH_SALT);
}

static uint64_t sample_bytes(const struct history *h, const struct history_sample *s)
{
	return (uint64_t)(s->to - s->from) * h->step_bytes;
}

/* Keeps the samples that are in the window and below the limit, and shrinks the sums of buckets by what the limit took
 * away. */
static void sweep(struct history *h)
{
	struct history_sample *old = h->table;
	struct history_sample *kept = calloc(h->mask + 1ULL, sizeof(*kept));
	if (kept == NULL)
		return; /* the table stays as it is, and takes no new samples */
	uint64_t *lost = calloc(h->buckets_n + 1ULL, sizeof(*lost));
	uint64_t *had = calloc(h->buckets_n + 1ULL, sizeof(*had));
	if (lost == NULL || had == NULL) {
		free(lost);
		free(had);
		free(kept);
		return;
	}
	h->table = kept;
	h->count = 0;
	for (uint64_t i = 0; i <= h->mask; i++) {
		struct history_bucket *b = find_bucket(h, old[i].bucket);
		if (old[i].key == 0 || b == NULL)
			continue;
		bool inside = in_window(h, old[i].slice);
		if (inside)
			had[old[i].bucket] += sample_bytes(h, &old[i]);
		if (inside && hash_of(old[i].key) <= h->limit) {
			*find_slot(h, old[i].key) = old[i];
			h->count++;
			continue;
		}
		b->samples--;
		if (inside) {
			lost[old[i].bucket] += sample_bytes(h, &old[i]);
			b->unique[old[i].slice % HISTORY_SLICES] -= sample_bytes(h, &old[i]);
		}
	}
	for (uint32_t b = 0; b < h->buckets_n; b++)
		for (uint32_t s = 0; lost[b] > 0 && s < HISTORY_SLICES; s++)
			h->buckets[b]->total[s] =
				(uint64_t)((double)h->buckets[b]->total[s] *
					   (double)(had[b] - lost[b]) / (double)had[b]);
	free(old);
	free(lost);
	free(had);
}

/* Takes a sample out of the sums of its bucket, which need not be that of the next request for it: tags may lie. */
static void forget_sample(struct history *h, const struct history_sample *s)
{
	struct history_bucket *was = find_bucket(h, s->bucket);
	assert(was != NULL && was->samples > 0);
	was->samples--;
	if (in_window(h, s->slice)) {
		uint64_t *unique = &was->unique[s->slice % HISTORY_SLICES];
		assert(*unique >= sample_bytes(h, s));
		*unique -= sample_bytes(h, s);
	}
}

static void add_segment(struct history *h, struct history_bucket *b, uint64_t key, uint16_t bucket,
			const uint64_t part[2])
{
	struct history_sample *s = find_slot(h, key);
	uint16_t from = (uint16_t)(part[0] / h->step_bytes);
	uint16_t to = (uint16_t)((part[1] + h->step_bytes - 1) / h->step_bytes);
	bool wider = s->key != 0 && in_window(h, s->slice) && s->bucket == bucket;
	if (s->key != 0)
		forget_sample(h, s);
	else
		h->count++;
	*s = (struct history_sample){.key = key,
				     .slice = h->slice,
				     .bucket = bucket,
				     .from = wider && s->from < from ? s->from : from,
				     .to = wider && s->to > to ? s->to : to};
	b->samples++;
	b->unique[h->slice % HISTORY_SLICES] += sample_bytes(h, s);
	b->total[h->slice % HISTORY_SLICES] += (uint64_t)(to - from) * h->step_bytes;
}

int cache_history_add(struct history *h, const struct cache_request *r)
{
	cache_history_advance(h, r->now_ms);
	uint64_t end = r->skip + r->bytes;
	for (uint32_t i = 0; i < r->segments; i++) {
		uint64_t key = cache_key(r->block, r->first + i);
		if (hash_of(key) > h->limit || key == 0)
			continue;
		struct history_bucket *b = need_bucket(h, r->bucket);
		if (b == NULL)
			return -ENOMEM;
		uint64_t start = i * h->segment_bytes;
		uint64_t part[2] = {i == 0 ? r->skip : 0, end - start};
		if (part[1] > h->segment_bytes)
			part[1] = h->segment_bytes;
		if (part[1] > part[0])
			add_segment(h, b, key, r->bucket, part);
		if (h->count > h->mask - h->mask / 4) {
			h->limit /= 2;
			sweep(h);
			if (h->count > h->mask - h->mask / 8)
				return -ENOMEM;
		}
	}
	return 0;
}

void cache_history_advance(struct history *h, uint64_t now_ms)
{
	uint64_t slice = 1 + now_ms / h->slice_ms;
	if (slice <= h->slice)
		return;
	uint64_t steps = slice - h->slice;
	steps = steps < HISTORY_SLICES ? steps : HISTORY_SLICES;
	for (uint64_t i = 0; i < steps; i++) {
		uint64_t cleared = (slice - i) % HISTORY_SLICES;
		for (uint32_t b = 0; b < h->buckets_n; b++) {
			if (h->buckets[b] == NULL)
				continue;
			h->buckets[b]->total[cleared] = 0;
			h->buckets[b]->unique[cleared] = 0;
		}
	}
	assert(slice <= UINT32_MAX);
	h->slice = (uint32_t)slice;
	sweep(h);
}

double cache_history_reads(const struct history *h, uint16_t bucket)
{
	const struct history_bucket *b = find_bucket(h, bucket);
	uint64_t total = 0, unique = 0;
	for (uint32_t s = 0; b != NULL && s < HISTORY_SLICES; s++) {
		total += b->total[s];
		unique += b->unique[s];
	}
	return unique > 0 ? (double)total / (double)unique : 0;
}

double cache_history_error(const struct history *h, uint16_t bucket, double reads_max)
{
	const struct history_bucket *b = find_bucket(h, bucket);
	if (h->limit == UINT64_MAX || reads_max <= 1)
		return 0;
	/* Reads between 1 and reads_max have a standard deviation of at most half the difference. */
	return b != NULL && b->samples > 0 ? (reads_max - 1) / 2 / sqrt((double)b->samples)
					   : INFINITY;
}
