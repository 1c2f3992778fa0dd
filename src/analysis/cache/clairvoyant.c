// SPDX-License-Identifier: Apache-2.0
/*
 * The clairvoyant bound of a stream of gets. Segment requests of each node are numbered. A first pass over the stream
 * finds for each request the number of the next one for the same segment; a second one, over these numbers alone, plays
 * Belady's MIN with bypass (cache/bound.h).
 *
 * The last request of each segment stands in an array of its block, which a hash table finds, so that a request of
 * several segments costs one look-up. A hit absorbs the bytes of the request that are in the segment. Their number is
 * kept as a byte: 255 means a whole segment, others are 1/255 of one; nothing else is rounded.
 *
 * A segment is fetched with the request that missed it, if MIN keeps it until its next one. What the request does not
 * read of it is fetched in excess, and is no absorption: a segment that two neighbouring requests read in halves, each
 * once, absorbs nothing. MIN maximizes the number of hits. Where requests consist of whole segments, no policy can
 * absorb more; where they do not, hits differ in worth, and the bound is that of a cache that decides like MIN.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/cache/cachesim_impl.h"
#include "base/base.h"
#include "cache/bound.h"

#define GROUP_SEGMENTS 16u
#define SLOTS_FIRST 1024u

struct group {
	uint64_t key;                  /* of its first segment */
	uint32_t last[GROUP_SEGMENTS]; /* number of the last request + 1; 0: none */
};

struct chain {
	uint32_t *next; /* [request] */
	uint8_t *part;  /* [request]: bytes of the segment that it reads, in 1/255 */
	uint64_t n, cap;
	struct group *groups; /* hash table; a slot is empty if its key is 0 */
	uint64_t slots, groups_n;
};

static int chain_init(struct chain *c)
{
	*c = (struct chain){.slots = SLOTS_FIRST};
	c->groups = calloc(c->slots, sizeof(*c->groups));
	return c->groups != NULL ? 0 : -ENOMEM;
}

static void chain_fini(struct chain *c)
{
	free(c->next);
	free(c->part);
	free(c->groups);
	*c = (struct chain){0};
}

static struct group *find_group(struct group *table, uint64_t slots, uint64_t key)
{
	uint64_t at = (key >> 1) & (slots - 1);
	while (table[at].key != 0 && table[at].key != key)
		at = (at + 1) & (slots - 1);
	return &table[at];
}

static int grow_groups(struct chain *c)
{
	uint64_t slots = c->slots * 2;
	struct group *more = calloc(slots, sizeof(*more));
	if (more == NULL)
		return -ENOMEM;
	for (uint64_t i = 0; i < c->slots; i++)
		if (c->groups[i].key != 0)
			*find_group(more, slots, c->groups[i].key) = c->groups[i];
	free(c->groups);
	c->groups = more;
	c->slots = slots;
	return 0;
}

static int grow_requests(struct chain *c)
{
	uint64_t cap = c->cap * 2 + (1u << 16);
	uint32_t *next = realloc(c->next, cap * sizeof(*next));
	if (next == NULL)
		return -ENOMEM;
	c->next = next;
	uint8_t *part = realloc(c->part, cap);
	if (part == NULL)
		return -ENOMEM;
	c->part = part;
	c->cap = cap;
	return 0;
}

/* Adds a request for a segment: links it to the last one, and notes its part. */
static int chain_add(struct chain *c, uint64_t block, uint64_t segment, uint8_t part)
{
	uint64_t key = mix_u64(block + 0x9e3779b97f4a7c15ULL * (segment / GROUP_SEGMENTS + 1)) |
		       1; /* never 0 */
	if (c->n >= BOUND_NEVER - 1)
		return -E2BIG;
	if (c->n == c->cap && grow_requests(c) != 0)
		return -ENOMEM;
	if (c->groups_n > c->slots / 4 * 3 && grow_groups(c) != 0)
		return -ENOMEM;
	struct group *g = find_group(c->groups, c->slots, key);
	if (g->key == 0) {
		g->key = key;
		c->groups_n++;
	}
	uint32_t *last = &g->last[segment % GROUP_SEGMENTS];
	if (*last != 0)
		c->next[*last - 1] = (uint32_t)c->n;
	c->next[c->n] = BOUND_NEVER;
	c->part[c->n] = part;
	*last = (uint32_t)++c->n;
	return 0;
}

static int add_get(struct chain *chains, const struct reads_get *g, const struct workload *w)
{
	const struct cache_request *q = &g->request;
	uint64_t segment = w->segment_bytes, end = q->skip + q->bytes;
	for (uint32_t i = 0; i < q->segments; i++) {
		uint64_t from = i == 0 ? q->skip : i * segment;
		uint64_t bytes = min_u64((i + 1) * segment, end) - from;
		uint8_t part = (uint8_t)((bytes * 255 + segment / 2) / segment);
		int rc = chain_add(&chains[g->node], q->block, (uint64_t)q->first + i, part);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int play(const struct chain *c, const struct workload *w, struct cachesim_result *out)
{
	struct bound b;
	uint64_t capacity = (w->flash_bytes / w->nodes + w->dram_bytes) / w->segment_bytes;
	/* [request]: what was fetched in excess, + 1, if the request before it for its segment was a miss; else 0 */
	AUTO_FREE uint16_t *excess = calloc(c->n + 1, sizeof(*excess));
	double parts = 0, fetches = 0, fetched = 0, hits = 0;
	int rc = bound_init(&b, c->n, capacity);
	if (rc == 0 && excess == NULL)
		rc = -ENOMEM;
	for (uint64_t i = 0; rc == 0 && i < c->n; i++) {
		bool hit = bound_request(&b, (uint32_t)i, c->next[i]);
		if (hit) {
			parts += c->part[i];
			hits++;
		} else if (c->next[i] != BOUND_NEVER) {
			excess[c->next[i]] = (uint16_t)(256 - c->part[i]);
		}
		if (hit && excess[i] > 0) {
			fetches++;
			fetched += excess[i] - 1;
		}
	}
	bound_fini(&b);
	double segment = (double)w->segment_bytes;
	out->segment_requests += (double)c->n;
	out->segment_hits += hits;
	out->hit_bytes += parts / 255 * segment;
	out->absorbed_bytes += (parts - fetched) / 255 * segment;
	out->flash_written_bytes += fetches * segment;
	return rc;
}

int cachesim_bound(const struct workload *w, const struct cachesim_source *source,
		   const struct cachesim_options *o, struct cachesim_result *out)
{
	AUTO_FREE struct chain *chains = calloc(out->nodes, sizeof(*chains));
	struct reads_get g;
	uint64_t requested = 0, reported = 0, gets = 0;
	uint32_t job;
	int rc = chains != NULL ? 0 : -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < out->nodes; i++)
		rc = chain_init(&chains[i]);
	while (rc == 0 && source->next(source->arg, &g)) {
		assert(g.node < out->nodes);
		rc = add_get(chains, &g, w);
		while (source->ended != NULL && source->ended(source->arg, &job))
			continue;
		requested += g.request.bytes;
		out->seconds = (double)g.request.now_ms / 1000;
		if (++gets % (1u << 18) == 0 && o->progress != NULL) {
			o->progress(o->arg, requested - reported);
			reported = requested;
		}
	}
	for (uint32_t i = 0; rc == 0 && i < out->nodes; i++)
		rc = play(&chains[i], w, out);
	for (uint32_t i = 0; chains != NULL && i < out->nodes; i++)
		chain_fini(&chains[i]);
	if (rc == 0 && o->progress != NULL)
		o->progress(o->arg, requested - reported);
	out->requests = (double)gets;
	out->requested_bytes = (double)requested;
	out->disk_read_bytes = out->requested_bytes - out->absorbed_bytes;
	/* parts are rounded */
	out->served_bytes =
		fmin(out->absorbed_bytes + out->flash_written_bytes, out->requested_bytes);
	out->fetched_bytes = out->served_bytes - out->absorbed_bytes;
	out->flash_share = 1;
	return rc;
}
