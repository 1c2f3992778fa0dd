// SPDX-License-Identifier: Apache-2.0
/*
 * A modelled cache of the training host in front of a source: samples that it holds are not read. Their bytes are not
 * kept, because nothing looks at them; the sizes of the cached samples never exceed the cache.
 *
 *   lru     the page cache: the sample that was read least recently goes first. An epoch reads every sample once, so
 *           most samples are gone before their next epoch (thrashing)
 *   minio   CoorDL's: a sample that was cached stays, so that each epoch hits exactly what fits
 *   small   minio for the smallest samples only (small file first): a sample is cached if all that are
 *           smaller fit, as long as there is room
 *
 * A batch is looked up at once: the samples that are missing are read with one call, and enter the cache when they have
 * arrived. Two workers may read the same sample at the same time only in different epochs.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/list.h"
#include "training/job.h"
#include "training/source.h"

struct entry {
	struct list link; /* element of lru while the sample is cached */
	bool cached;
};

struct train_cache {
	const struct train_source_ops *below;
	int policy; /* enum train_cache_policy */
	uint64_t room, used;
	uint64_t limit;        /* larger samples are not cached */
	struct list lru;       /* struct entry, the least recently read first */
	struct entry *entries; /* by sample */
};

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Returns the largest size of which samples fit when all smaller ones are cached. */
static int64_t size_limit(const struct train_source *s, uint64_t room)
{
	AUTO_FREE uint64_t *sizes = calloc(s->samples, sizeof(*sizes));
	if (sizes == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->samples; i++)
		sizes[i] = train_sample_bytes(s, i);
	qsort(sizes, s->samples, sizeof(*sizes), by_size);
	uint64_t sum = 0;
	for (uint32_t i = 0; i < s->samples; i++) {
		sum += sizes[i];
		if (sum > room)
			return (int64_t)sizes[i];
	}
	return INT64_MAX;
}

static void evict(struct train_source *s, struct entry *e)
{
	struct train_cache *c = s->cache;
	list_remove(&e->link);
	e->cached = false;
	c->used -= train_sample_bytes(s, (uint32_t)(e - c->entries));
}

static void admit(struct train_source *s, uint32_t sample)
{
	struct train_cache *c = s->cache;
	struct entry *e = &c->entries[sample];
	uint64_t bytes = train_sample_bytes(s, sample);
	if (e->cached || bytes > c->room || bytes > c->limit)
		return;
	while (c->policy == TRAIN_CACHE_LRU && c->used + bytes > c->room)
		evict(s, list_entry(list_first(&c->lru), struct entry, link));
	if (c->used + bytes > c->room)
		return;
	c->used += bytes;
	e->cached = true;
	list_push_back(&c->lru, &e->link);
	assert(c->used <= c->room);
}

static void hit(struct train_source *s, uint32_t sample)
{
	struct entry *e = &s->cache->entries[sample];
	list_remove(&e->link);
	list_push_back(&s->cache->lru, &e->link);
	s->hit_samples++;
	s->hit_bytes += train_sample_bytes(s, sample);
}

static int cached_read(struct train_source *s, const uint32_t *samples, size_t n, uint8_t *memory,
		       struct strbuf *err)
{
	AUTO_FREE uint32_t *missing = calloc(n, sizeof(*missing));
	size_t count = 0;
	if (missing == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (s->cache->entries[samples[i]].cached)
			hit(s, samples[i]);
		else
			missing[count++] = samples[i];
	}
	int rc = count > 0 ? s->cache->below->read(s, missing, count, memory, err) : 0;
	for (size_t i = 0; rc == 0 && i < count; i++)
		admit(s, missing[i]);
	return rc;
}

static int cached_write(struct train_source *s, const char *path, uint64_t bytes,
			struct strbuf *err)
{
	return s->cache->below->write(s, path, bytes, err);
}

static int cached_read_back(struct train_source *s, const char *path, uint64_t bytes,
			    struct strbuf *err)
{
	return s->cache->below->read_back(s, path, bytes, err);
}

static const struct train_source_ops cached_ops = {
	.read = cached_read, .write = cached_write, .read_back = cached_read_back};

int train_cache_open(struct train_source *s, uint64_t room, int policy)
{
	struct train_cache *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	*c = (struct train_cache){.below = s->ops, .policy = policy, .room = room};
	list_init(&c->lru);
	c->entries = calloc(s->samples, sizeof(*c->entries));
	int64_t limit = policy == TRAIN_CACHE_SMALL ? size_limit(s, room) : INT64_MAX;
	if (c->entries == NULL || limit < 0) {
		free(c->entries);
		free(c);
		return -ENOMEM;
	}
	c->limit = (uint64_t)limit;
	s->cache = c;
	s->ops = &cached_ops;
	return 0;
}

void train_cache_close(struct train_source *s)
{
	if (s->cache == NULL)
		return;
	free(s->cache->entries);
	free(s->cache);
	s->cache = NULL;
}
