// SPDX-License-Identifier: Apache-2.0
#include "client/cache_tier.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/crc.h"
#include "client/engine_impl.h"
#include "cluster/cluster.h"
#include "shift/content.h"
#include "shift/ring.h"
#include "shift/shift_client.h"

#define TIMEOUT_NS (50 * NS_PER_MS)
#define PAUSE_NS (5 * NS_PER_S)
#define MAP_AGE_NS (5 * NS_PER_S)
#define PIECES_AT_ONCE 16
#define CONTENT_BYTES_MIN (128 * KIB) /* half a segment of a cache node as it is by default */
#define IDLE_TIMES 6 /* the map is refreshed so much more rarely while it has no cache nodes */

static_assert(SHIFT_TOKEN_BYTES == META_TOKEN_BYTES, "records have tokens for cache nodes");
static_assert(RING_WEIGHT_MAX == CLUSTER_CACHE_WEIGHT_MAX, "the ring takes all weights of the map");

/* A cache node of the ring. */
struct cacher {
	uint64_t id;
	uint32_t weight;
	uint64_t until_ns; /* end of its pause */
};

struct cache_tier {
	struct block_tier base;
	struct engine *engine;
	struct cache_tier_options o; /* with the defaults */
	uint64_t directories[CACHE_TIER_DIRECTORIES_MAX];
	struct ring ring;
	struct cacher *cachers; /* the nodes of the ring, in its order */
	size_t count;
	uint64_t version; /* of the map that the ring was made of */
	uint64_t map_ns;  /* when the map was refreshed last */
	bool refreshing;
};

/* Bytes of a range that are asked for at once. */
struct piece {
	struct block_range *range;
	uint64_t at, len;      /* offset and length in the range */
	uint64_t node;         /* cache node of the block or of the digest; 0: none is asked */
	const uint8_t *digest; /* it is asked for by content; NULL: by block */
	bool served;
	uint32_t crc;
};

/* --- the ring ------------------------------------------------------------------------------------- */

static struct cacher *cacher_of(const struct cache_tier *t, uint64_t id)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->cachers[i].id == id)
			return &t->cachers[i];
	return NULL;
}

/* Makes the ring of the map's cache nodes, if it has others than before. Without memory for it no cache node is asked. */
static void ring_make(struct cache_tier *t, const struct cluster *map)
{
	AUTO_FREE struct ring_node *nodes = calloc(map->cache_nodes + 1, sizeof(*nodes));
	struct cacher *cachers = calloc(map->cache_nodes + 1, sizeof(*cachers));
	size_t n = 0;
	bool same = true;
	map_for_each(&map->nodes, it) {
		const struct cluster_node *node = it.value;
		if (node->cache_weight == 0 || cluster_node_state(node) != CLUSTER_ONLINE ||
		    nodes == NULL || cachers == NULL || n >= RING_NODES_MAX)
			continue;
		assert(n < map->cache_nodes);
		const struct cacher *known = cacher_of(t, node->id);
		same = same && known != NULL && known->weight == node->cache_weight;
		cachers[n] = (struct cacher){.id = node->id,
					     .weight = node->cache_weight,
					     .until_ns = known != NULL ? known->until_ns : 0};
		nodes[n++] = (struct ring_node){.id = node->id, .weight = node->cache_weight};
	}
	t->version = map->version;
	same = same && n == t->count;
	if (same || (t->count > 0 && bug_planted(BUG_CACHE_RING))) {
		free(cachers);
		return;
	}
	ring_fini(&t->ring);
	free(t->cachers);
	t->cachers = cachers;
	t->count = ring_init(&t->ring, nodes, n) == 0 ? n : 0;
}

static void refresh_fiber(void *arg)
{
	struct cache_tier *t = arg;
	struct call c;
	engine_own_call(t->engine, &c);
	rt_deadline_set(rt_now_ns() + 10 * NS_PER_S);
	(void)engine_map(&c, t->o.map_age_ns);
	(void)engine_tenant_again(&c);
	t->refreshing = false;
}

/* Brings the ring up to date, and the map in the background. */
static void ring_follow(struct cache_tier *t)
{
	struct fabric *f = t->engine->fabric;
	if (f->map != NULL && f->map->version != t->version)
		ring_make(t, f->map);
	uint64_t age_ns = t->count > 0 ? t->o.map_age_ns : t->o.map_age_ns * IDLE_TIMES;
	if (t->refreshing || f->closing || rt_elapsed_ns(t->map_ns) < age_ns)
		return;
	t->map_ns = rt_now_ns();
	t->refreshing = rt_group_spawn(&f->background, "cache-map", refresh_fiber, t) == 0;
}

/* Returns the cache node to ask for a block, or for a place of content_place; 0: none. */
static uint64_t node_for(const struct cache_tier *t, uint64_t block)
{
	int64_t at = t->count > 0 ? ring_find(&t->ring, block) : -ENOENT;
	if (at < 0)
		return 0;
	assert((size_t)at < t->count);
	return rt_now_ns() < t->cachers[at].until_ns ? 0 : t->cachers[at].id;
}

/* --- which reads ------------------------------------------------------------------------------- */

static bool class_is_eligible(const struct cache_tier *t, enum traffic_class class)
{
	if (class == TRAFFIC_NONE)
		class = TRAFFIC_SILVER;
	return t->o.classes == 0 || (t->o.classes >> class & 1) != 0;
}

static bool directory_is_eligible(const struct cache_tier *t, uint64_t directory)
{
	for (size_t i = 0; i < t->o.directory_count; i++)
		if (t->directories[i] == directory)
			return true;
	return t->o.directory_count == 0;
}

static bool call_is_eligible(const struct cache_tier *t, const struct call *c)
{
	const struct context *is = rt_context();
	return t->count > 0 && call_tenant(c) != 0 && class_is_eligible(t, is->traffic_class) &&
	       directory_is_eligible(t, is->tags.directory_id);
}

static bool range_is_eligible(const struct cache_tier *t, const struct block_range *r)
{
	const struct meta_block *b = r->block;
	return r->rc == 0 && b->state == META_BLOCK_SEALED && b->length >= t->o.block_bytes_min &&
	       r->off < b->length && r->len <= b->length - r->off &&
	       b->open_count == 0 && /* else there is no token for cache nodes */
	       /* an operation is asked for at the storage node */
	       (r->prep == NULL || r->prep->form == TERRANE_PREP_RAW);
}

/* --- pieces ---------------------------------------------------------------------------------------- */

/* Returns the digest by which a range is asked for; NULL: it is asked for by its block. */
static const uint8_t *digest_of(const struct cache_tier *t, const struct block_range *r)
{
	bool fits = r->len >= t->o.content_bytes_min && r->len <= CONTENT_BYTES_MAX;
	return fits && t->engine->fabric->shares_content ? r->sha256 : NULL;
}

/* Cuts a range. list NULL: only counts the pieces. */
static size_t range_cut(struct block_range *r, const uint8_t *digest, uint64_t node,
			struct piece *list)
{
	size_t n = 0;
	for (uint64_t at = 0, len; at < r->len; at += len, n++) {
		len = min_u64(r->len - at, SHIFT_GET_MAX - (r->off + at) % SHIFT_GET_MAX);
		if (digest != NULL)
			len = r->len;
		if (list != NULL)
			list[n] = (struct piece){
				.range = r, .at = at, .len = len, .node = node, .digest = digest};
	}
	return n;
}

/* A get of a piece, on the loop that has the least to do. */
struct piece_get {
	const struct cache_tier *tier;
	struct piece *piece;
	int rc;
};

static int get_into(struct call *c, const struct piece_get *g, const struct rpc_places *into)
{
	const struct piece *p = g->piece;
	const struct meta_block *b = p->range->block;
	struct node_use u;
	int rc = node_begin(c, p->node, &u);
	if (rc < 0)
		return rc;
	rc = shift_get(u.channel,
		       &(struct shift_get){.block = b->id,
					   .off = p->range->off + p->at,
					   .len = p->len,
					   .tenant = call_tenant(c),
					   .token = b->cache_token,
					   .digest = p->digest,
					   .timeout_ns = g->tier->o.timeout_ns},
		       into);
	node_end(&u);
	return rc;
}

static void piece_get(struct call *c, void *arg)
{
	struct piece_get *g = arg;
	struct piece *p = g->piece;
	const struct sink *sink = &p->range->sink;
	size_t n = (size_t)sink_iov(sink, p->at, p->len, NULL);
	AUTO_FREE struct iovec *iov = calloc(n, sizeof(*iov));
	AUTO_FREE struct rpc_place *places = calloc(n, sizeof(*places));
	g->rc = -ENOMEM;
	if (iov == NULL || places == NULL)
		return;
	sink_iov(sink, p->at, p->len, iov);
	for (size_t i = 0; i < n; i++)
		places[i] = (struct rpc_place){.at = iov[i].iov_base, .len = iov[i].iov_len};
	g->rc = get_into(c, g, &(struct rpc_places){.list = places, .count = n});
	p->crc = 0;
	for (size_t i = 0; i < n; i++)
		p->crc = crc32c_combine(p->crc, places[i].crc, places[i].len);
}

/* Returns whether the error says that the node is dead or slow, and not that it refused or lacks the bytes. */
static bool is_trouble(int rc)
{
	return rc != -ENOENT && rc != -EACCES && rc != -EKEYEXPIRED && rc != -EAGAIN &&
	       rc != -ECANCELED && rc != -ENOMEM && rc != -EINVAL;
}

/* Reads of one call that go to cache nodes. */
struct reading {
	struct cache_tier *tier;
	const struct block_read *read;
	struct piece *pieces;
	size_t count, next;
};

static void piece_read(struct reading *g, struct piece *p)
{
	struct cache_tier *t = g->tier;
	struct fabric_stats *stats = &t->engine->fabric->shared->stats;
	struct call c = *g->read->call;
	struct piece_get get = {.tier = t, .piece = p};
	const struct cacher *at = cacher_of(t, p->node);
	/* Another piece may have found meanwhile that the node is dead. */
	if (p->node == 0 || at == NULL || rt_now_ns() < at->until_ns)
		return;
	int rc = fabric_run(&c, p->len, piece_get, &get);
	rc = rc < 0 ? rc : get.rc;
	p->served = rc == 0 || (is_trouble(rc) && bug_planted(BUG_CACHE_MISS));
	if (rc == 0)
		stats->cache_bytes += p->len;
	else if (rc == -ENOENT)
		stats->cache_misses++;
	else
		stats->cache_failures++;
	bool dead = is_trouble(rc) && rc != 0 && !bug_planted(BUG_CACHE_PAUSE);
	struct cacher *now = dead ? cacher_of(t, p->node) : NULL;
	if (now != NULL)
		now->until_ns = rt_now_ns() + t->o.pause_ns;
}

static void reading_fiber(void *arg)
{
	struct reading *g = arg;
	while (g->next < g->count && !rt_cancelled())
		piece_read(g, &g->pieces[g->next++]);
}

static void pieces_read(struct reading *g)
{
	struct rt_group group;
	rt_group_init(&group);
	for (size_t i = 1; i < g->count && i < PIECES_AT_ONCE; i++)
		if (rt_group_spawn(&group, "cache-read", reading_fiber, g) < 0)
			break;
	reading_fiber(g);
	rt_group_join(&group);
}

/* --- the disks ------------------------------------------------------------------------------------- */

/* The pieces of one range, and whether all, or some, were served. */
struct span {
	const struct piece *first;
	size_t count;
	bool all, some;
};

static struct span span_of(const struct reading *g, size_t at)
{
	struct span s = {.first = &g->pieces[at], .all = true};
	for (; at + s.count < g->count && s.first[s.count].range == s.first->range; s.count++) {
		s.all = s.all && s.first[s.count].served;
		s.some = s.some || s.first[s.count].served;
	}
	assert(s.count > 0);
	return s;
}

static void end_served(const struct block_read *r, const struct span *s)
{
	struct block_range *range = s->first->range;
	range->crc = 0;
	for (size_t i = 0; i < s->count; i++)
		range->crc = crc32c_combine(range->crc, s->first[i].crc, s->first[i].len);
	block_range_end(r, range, 0, "");
}

/* Reads what was not served of independent ranges: the whole range. */
static int below_independent(const struct reading *g, struct block_range **list)
{
	struct block_read below = *g->read;
	const struct block_tier *t = g->tier->base.below;
	below.ranges = list;
	below.count = 0;
	for (size_t at = 0; at < g->count;) {
		struct span s = span_of(g, at);
		if (s.all)
			end_served(g->read, &s);
		else
			list[below.count++] = s.first->range;
		at += s.count;
	}
	return below.count == 0 ? 0 : t->ops->read(g->tier->base.below, &below);
}

/* Ends the ranges of one read with the results of their pieces, which are in parts where they were not served. */
static void end_all(const struct reading *g, const struct block_range *parts, int rc)
{
	const struct block_read *r = g->read;
	for (size_t at = 0; at < g->count;) {
		struct span s = span_of(g, at);
		struct block_range *range = s.first->range;
		int bad = range->rc;
		range->crc = 0;
		for (size_t i = 0; i < s.count; i++) {
			const struct piece *p = &s.first[i];
			uint32_t crc = p->served ? p->crc : parts->crc;
			if (!p->served && bad == 0)
				bad = parts->rc < 0 ? parts->rc : rc;
			parts += !p->served;
			range->crc = crc32c_combine(range->crc, crc, p->len);
		}
		block_range_end(r, range, bad, r->call->error);
		at += s.count;
	}
}

/* Reads the pieces that were not served, of ranges that are parts of one read. */
static int below_parts(const struct reading *g, struct block_range **list)
{
	AUTO_FREE struct block_range *parts = calloc(g->count + 1, sizeof(*parts));
	struct block_tier *t = g->tier->base.below;
	struct block_read below = *g->read;
	int rc = 0;
	if (parts == NULL) /* as if nothing was served */
		return t->ops->read(t, g->read);
	below.ranges = list;
	below.count = 0;
	below.done = NULL;
	for (size_t i = 0; i < g->count; i++) {
		const struct piece *p = &g->pieces[i];
		if (p->served)
			continue;
		struct block_range *part = &parts[below.count];
		*part = (struct block_range){.block = p->range->block,
					     .off = p->range->off + p->at,
					     .len = p->len,
					     .sink = sink_from(&p->range->sink, p->at),
					     .rc = p->range->rc};
		list[below.count++] = part;
	}
	if (below.count > 0)
		rc = t->ops->read(t, &below);
	end_all(g, parts, rc);
	return rc;
}

/* --- the tier ------------------------------------------------------------------------------------- */

/* Cuts all ranges. Returns the number of pieces that cache nodes are asked for; -ENOMEM. */
static int64_t pieces_make(struct reading *g)
{
	const struct block_read *r = g->read;
	int64_t asked = 0;
	for (size_t i = 0; i < r->count; i++)
		g->count += range_cut(r->ranges[i], digest_of(g->tier, r->ranges[i]), 0, NULL);
	g->pieces = calloc(g->count + 1, sizeof(*g->pieces));
	if (g->pieces == NULL)
		return -ENOMEM;
	size_t at = 0;
	for (size_t i = 0; i < r->count; i++) {
		struct block_range *range = r->ranges[i];
		const uint8_t *digest = digest_of(g->tier, range);
		uint64_t place = digest != NULL ? content_place(digest) : range->block->id;
		uint64_t node = range_is_eligible(g->tier, range) ? node_for(g->tier, place) : 0;
		size_t n = range_cut(range, digest, node, g->pieces + at);
		asked += node != 0 ? (int64_t)n : 0;
		at += n;
	}
	assert(at == g->count);
	return asked;
}

static bool any_served(const struct reading *g)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->pieces[i].served)
			return true;
	return false;
}

static int cache_read(struct block_tier *base, const struct block_read *r)
{
	struct cache_tier *t = container_of(base, struct cache_tier, base);
	struct reading g = {.tier = t, .read = r};
	assert(r->count > 0 && base->below != NULL);
	ring_follow(t);
	int64_t asked = call_is_eligible(t, r->call) ? pieces_make(&g) : 0;
	if (asked > 0)
		pieces_read(&g);
	AUTO_FREE struct block_range **list =
		asked > 0 && any_served(&g) ? calloc(g.count, sizeof(struct block_range *)) : NULL;
	int rc;
	if (list == NULL)
		rc = base->below->ops->read(base->below, r);
	else
		rc = r->independent ? below_independent(&g, list) : below_parts(&g, list);
	free(g.pieces);
	return rc;
}

static void cache_close(struct block_tier *base)
{
	struct cache_tier *t = container_of(base, struct cache_tier, base);
	assert(!t->refreshing); /* the fabric is quiet */
	ring_fini(&t->ring);
	free(t->cachers);
	free(t);
}

static const struct block_tier_ops cache_ops = {.read = cache_read, .close = cache_close};

int cache_tier_open(struct engine *e, const struct cache_tier_options *o)
{
	if (o->directory_count > CACHE_TIER_DIRECTORIES_MAX)
		return -EINVAL;
	struct cache_tier *t = calloc(1, sizeof(*t));
	if (t == NULL)
		return -ENOMEM;
	t->base.ops = &cache_ops;
	t->engine = e;
	t->o = *o;
	t->o.timeout_ns = o->timeout_ns != 0 ? o->timeout_ns : TIMEOUT_NS;
	t->o.pause_ns = o->pause_ns != 0 ? o->pause_ns : PAUSE_NS;
	t->o.map_age_ns = o->map_age_ns != 0 ? o->map_age_ns : MAP_AGE_NS;
	t->o.content_bytes_min =
		o->content_bytes_min != 0 ? o->content_bytes_min : CONTENT_BYTES_MIN;
	if (o->directory_count > 0)
		memcpy(t->directories, o->directories, o->directory_count * sizeof(uint64_t));
	t->o.directories = t->directories;
	t->map_ns = rt_now_ns();
	engine_tier_add(e, &t->base);
	return 0;
}
