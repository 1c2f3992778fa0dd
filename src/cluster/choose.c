// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/bug.h"
#include "base/hash.h"
#include "base/rng.h"
#include "cluster/impl.h"

/* Seeds of the hashes, different for each use. They must never change: every choice depends on them. */
#define HASH_DISK 0x7365617400000000ULL
#define HASH_BLOCK 0x626c6f6300000000ULL
#define HASH_SHUFFLE 0x7368756600000000ULL

/* --- candidates ---------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
	const struct cluster_candidate *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

static uint32_t disk_weight(const struct cluster_disk *d)
{
	uint64_t w = d->capacity_bytes / GIB * d->weight / CLUSTER_WEIGHT_ONE;
	if (w == 0 && d->capacity_bytes > 0 && d->weight > 0)
		w = 1;
	return w > UINT32_MAX ? UINT32_MAX : (uint32_t)w;
}

static struct cluster_candidate candidate_of(const struct cluster *c, const struct cluster_disk *d)
{
	const struct cluster_node *n = cluster_node(c, d->node);
	assert(n != NULL && n->rack != 0); /* cluster_put_* refuses a node without a rack */
	uint64_t h = hash64_u64s(HASH_DISK, d->id);
	return (struct cluster_candidate){
		.id = d->id,
		.hash = h,
		.rack = n->rack - 1,
		.position = d->position,
		.weight = disk_weight(d),
		.local_k = d->pool ? (uint16_t)d->local.k : 0,
		.local_p = d->pool ? (uint16_t)d->local.p : 0,
		.media = (uint8_t)d->media,
		.pool = d->pool,
		.online = cluster_disk_state(c, d) == CLUSTER_ONLINE,
		.step = (uint8_t)(1 + h % (CLUSTER_SHUFFLES - 1)),
		.offset = (uint8_t)((h >> 32) % CLUSTER_SHUFFLES),
	};
}

/*
 * CLUSTER_SHUFFLES is a prime, so s -> step * s + offset (mod CLUSTER_SHUFFLES) is a permutation of the
 * shuffles. The disk takes part in those that it maps below the disk's share. A share that grows by one
 * adds one shuffle and keeps the others.
 */
static bool candidate_takes_part(const struct cluster_candidate *s, uint32_t shuffle)
{
	return (s->step * shuffle + s->offset) % CLUSTER_SHUFFLES < s->share;
}

/* Sets the share of each candidate in proportion to the largest weight of its group. Flash, disks, pools and
 * drives form separate groups. */
static void set_shares(struct cluster_candidate *candidates, size_t n)
{
	uint32_t heaviest[2][CLUSTER_MEDIA_COUNT] = {{0}};
	for (size_t i = 0; i < n; i++) {
		uint32_t *h = &heaviest[candidates[i].pool][candidates[i].media];
		*h = candidates[i].weight > *h ? candidates[i].weight : *h;
	}
	for (size_t i = 0; i < n; i++) {
		uint64_t h = heaviest[candidates[i].pool][candidates[i].media];
		if (candidates[i].weight == 0)
			continue;
		uint64_t share =
			((uint64_t)candidates[i].weight * CLUSTER_SHUFFLES * 2 + h) / (2 * h);
		candidates[i].share = (uint8_t)(share > 0 ? share : 1);
	}
}

static int by_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Sets the node of each candidate to the index of the node in the order of ids. */
static int set_nodes(struct cluster *c, struct cluster_candidate *candidates, size_t n)
{
	size_t count = 0;
	AUTO_FREE uint64_t *ids = malloc((map_count(&c->nodes) + 1) * sizeof(*ids));
	if (ids == NULL)
		return -ENOMEM;
	map_for_each(&c->nodes, it)
		ids[count++] = it.key;
	qsort(ids, count, sizeof(*ids), by_u64);
	for (size_t i = 0; i < n; i++) {
		const uint64_t *at = bsearch(&cluster_disk(c, candidates[i].id)->node, ids, count,
					     sizeof(*ids), by_u64);
		assert(at != NULL); /* cluster_put_disk refuses a disk without its node */
		candidates[i].node = (uint32_t)(at - ids);
	}
	c->node_count = (uint32_t)count;
	return 0;
}

static int candidates_make(struct cluster *c)
{
	assert(c->candidates == NULL);
	size_t n = 0;
	uint32_t racks = 0;
	struct cluster_candidate *candidates =
		calloc(map_count(&c->disks) + 1, sizeof(*candidates));
	if (candidates == NULL)
		return -ENOMEM;
	map_for_each(&c->disks, it) {
		const struct cluster_disk *d = it.value;
		if (cluster_disk_state(c, d) == CLUSTER_GONE)
			continue;
		candidates[n] = candidate_of(c, d);
		racks = candidates[n].rack >= racks ? candidates[n].rack + 1 : racks;
		n++;
	}
	assert(n <= map_count(&c->disks));
	qsort(candidates, n, sizeof(*candidates), by_id);
	set_shares(candidates, n);
	if (set_nodes(c, candidates, n) < 0) {
		free(candidates);
		return -ENOMEM;
	}
	c->candidates = candidates;
	c->candidate_count = n;
	c->rack_count = racks;
	return 0;
}

/* --- shuffles ---------------------------------------------------------------------------------- */

struct shuffled {
	uint64_t key;
	uint32_t candidate;
};

static int by_key(const void *a, const void *b)
{
	const struct shuffled *x = a, *y = b;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->candidate < y->candidate ? -1 : x->candidate > y->candidate;
}

static int order_make(struct cluster *c, uint32_t shuffle)
{
	assert(shuffle < CLUSTER_SHUFFLES && c->candidates != NULL);
	if (c->orders[shuffle] != NULL)
		return 0;
	AUTO_FREE struct shuffled *all = malloc((c->candidate_count + 1) * sizeof(*all));
	uint32_t *order = malloc((c->candidate_count + 1) * sizeof(*order));
	if (all == NULL || order == NULL) {
		free(order);
		return -ENOMEM;
	}
	for (size_t i = 0; i < c->candidate_count; i++)
		all[i] = (struct shuffled){
			.key = hash64_u64s(HASH_SHUFFLE + shuffle, c->candidates[i].id),
			.candidate = (uint32_t)i};
	qsort(all, c->candidate_count, sizeof(*all), by_key);
	for (size_t i = 0; i < c->candidate_count; i++)
		order[i] = all[i].candidate;
	c->orders[shuffle] = order;
	return 0;
}

/* --- one choice -------------------------------------------------------------------------------- */

uint32_t cluster_width(const struct encoding *e)
{
	if (e->kind == ENCODING_MLEC)
		return (uint32_t)(e->mlec.net.k + e->mlec.net.p);
	return (uint32_t)encoding_total_chunks(e);
}

uint32_t cluster_tolerance(const struct encoding *e)
{
	return (uint32_t)(e->kind == ENCODING_MLEC ? e->mlec.net.p : encoding_tolerance(e));
}

static bool candidate_fits(const struct choosing *ch, const struct cluster_candidate *s)
{
	const struct encoding *e = &ch->want->encoding;
	if (s->pool != ch->pools || s->media != ch->want->media || s->weight == 0)
		return false;
	return e->kind != ENCODING_MLEC ||
	       (s->local_k == e->mlec.local.k && s->local_p == e->mlec.local.p);
}

static int64_t candidate_find(const struct cluster *c, uint64_t id)
{
	const struct cluster_candidate key = {.id = id};
	const struct cluster_candidate *s =
		c->candidate_count == 0
			? NULL
			: bsearch(&key, c->candidates, c->candidate_count, sizeof(key), by_id);
	return s == NULL ? -1 : s - c->candidates;
}

void choosing_take(struct choosing *ch, uint32_t candidate)
{
	assert(candidate < ch->cluster->candidate_count && !ch->unavailable[candidate]);
	assert(ch->taken < ch->needed && ch->out->count < CLUSTER_CHOICE_MAX);
	const struct cluster_candidate *s = &ch->cluster->candidates[candidate];
	ch->out->disk[ch->out->count++] = s->id;
	ch->rack_used[s->rack]++;
	ch->node_used[s->node]++;
	ch->unavailable[candidate] = 1;
	ch->taken++;
}

/* Marks the candidates that may not be chosen. Counts the available candidates, and their racks and nodes. */
static void mark_candidates(struct choosing *ch)
{
	struct cluster *c = ch->cluster;
	struct cluster_choice *out = ch->out;
	for (size_t i = 0; i < ch->want->excluded_count; i++) {
		int64_t candidate = candidate_find(c, ch->want->excluded[i]);
		if (candidate >= 0)
			ch->unavailable[candidate] = 1;
	}
	for (size_t i = 0; i < ch->want->kept_count; i++) {
		int64_t candidate = candidate_find(c, ch->want->kept[i]);
		if (candidate < 0)
			continue;
		ch->unavailable[candidate] = 1;
		ch->rack_used[c->candidates[candidate].rack]++;
		ch->node_used[c->candidates[candidate].node]++;
	}
	ch->taken = (uint32_t)ch->want->kept_count;
	/* The candidates of a node are not adjacent in the list, so this bit in the counters marks the racks and
	 * nodes that were counted already; it is cleared afterwards. */
	const uint16_t mark = 1 << 15;
	assert(ch->want->kept_count < mark);
	for (size_t i = 0; i < c->candidate_count; i++) {
		const struct cluster_candidate *s = &c->candidates[i];
		if (!s->online || !candidate_fits(ch, s))
			ch->unavailable[i] = 1;
		if (ch->unavailable[i])
			continue;
		out->disk_eligible++;
		out->rack_eligible += (ch->rack_used[s->rack] & mark) == 0;
		out->node_eligible += (ch->node_used[s->node] & mark) == 0;
		ch->rack_used[s->rack] |= mark;
		ch->node_used[s->node] |= mark;
	}
	/* A rack without eligible disks counts as full. */
	for (uint32_t i = 0; i < c->rack_count; i++)
		ch->rack_used[i] = ch->rack_used[i] & mark ? ch->rack_used[i] ^ mark : mark;
	for (uint32_t i = 0; i < c->node_count; i++)
		ch->node_used[i] &= (uint16_t)~mark;
}

/* Returns the position in the shuffle at which the block's disks start. The position depends on which disks the map
 * has, not on the states of the disks, so that a disk that is offline for a while moves only its own chunks. */
static size_t find_start(const struct choosing *ch)
{
	const struct cluster *c = ch->cluster;
	size_t start = 0;
	uint64_t best = 0;
	for (size_t i = 0; i < c->candidate_count; i++) {
		const struct cluster_candidate *s = &c->candidates[ch->order[i]];
		if (!candidate_takes_part(s, ch->shuffle) || !candidate_fits(ch, s))
			continue;
		uint64_t score = mix_u64(ch->block_hash ^ s->hash);
		if (score >= best) {
			best = score;
			start = i;
		}
	}
	return start;
}

struct caps {
	/* largest number of chunks of the block in one rack, and on one node */
	uint32_t rack, node;
	bool all; /* also use disks that take no part in this shuffle */
};

/* Takes available disks in the order of the shuffle, from position `start` on, as far as the caps allow. */
static void take_in_order(struct choosing *ch, size_t start, struct caps caps)
{
	const struct cluster *c = ch->cluster;
	uint32_t full = 0;
	assert(c->candidate_count == 0 || start < c->candidate_count);
	for (uint32_t i = 0; i < c->rack_count; i++)
		full += ch->rack_used[i] >= caps.rack;
	for (size_t i = 0; i < c->candidate_count && ch->taken < ch->needed; i++) {
		if (full == c->rack_count)
			return;
		size_t at =
			start + i < c->candidate_count ? start + i : start + i - c->candidate_count;
		uint32_t candidate = ch->order[at];
		const struct cluster_candidate *s = &c->candidates[candidate];
		if (ch->unavailable[candidate] || ch->rack_used[s->rack] >= caps.rack ||
		    ch->node_used[s->node] >= caps.node ||
		    (!caps.all && !candidate_takes_part(s, ch->shuffle)))
			continue;
		choosing_take(ch, candidate);
		full += ch->rack_used[s->rack] >= caps.rack;
	}
}

/* Raises the caps step by step until the choice is complete: so the racks get chunks as evenly as possible, and
 * the nodes of a rack do, too. */
static void choose_spread(struct choosing *ch)
{
	const struct cluster_choice *out = ch->out;
	size_t start = find_start(ch);
	uint32_t least = bug_planted(BUG_RACKS_FORGOTTEN) ? ch->needed : 1;
	for (uint32_t rack = least; rack <= ch->needed; rack++)
		for (uint32_t node = 1; node <= rack; node++)
			for (int all = 0; all <= 1; all++) {
				if (ch->taken == ch->needed || out->count == out->disk_eligible)
					return;
				take_in_order(
					ch, start,
					(struct caps){.rack = rack, .node = node, .all = all});
			}
}

/* Counts the racks and nodes that hold the block's chunks, without spare disks. */
static void count_domains(struct choosing *ch)
{
	const struct cluster *c = ch->cluster;
	struct cluster_choice *out = ch->out;
	memset(ch->rack_used, 0, c->rack_count * sizeof(*ch->rack_used));
	memset(ch->node_used, 0, c->node_count * sizeof(*ch->node_used));
	uint32_t kept = (uint32_t)ch->want->kept_count;
	for (uint32_t i = 0; i < out->width && i < kept + out->count; i++) {
		int64_t at = candidate_find(c, i < kept ? ch->want->kept[i] : out->disk[i - kept]);
		if (at < 0)
			continue;
		uint32_t in_rack = ++ch->rack_used[c->candidates[at].rack];
		uint32_t on_node = ++ch->node_used[c->candidates[at].node];
		out->racks += in_rack == 1;
		out->nodes += on_node == 1;
		out->rack_most = in_rack > out->rack_most ? in_rack : out->rack_most;
		out->node_most = on_node > out->node_most ? on_node : out->node_most;
	}
	assert(out->racks <= out->nodes && out->rack_most >= out->node_most);
}

/* Returns whether the block goes to pools: always for mlec; for other encodings only if the cluster has no drives
 * of this media. */
static bool wants_pools(const struct cluster *c, const struct cluster_want *want)
{
	if (want->encoding.kind == ENCODING_MLEC)
		return true;
	for (size_t i = 0; i < c->candidate_count; i++)
		if (!c->candidates[i].pool && c->candidates[i].media == want->media)
			return false;
	return true;
}

static int choose_with(struct choosing *ch)
{
	int rc = 0;
	mark_candidates(ch);
	bool grouped = ch->want->encoding.kind == ENCODING_MLEC &&
		       ch->cluster->network_place == PLACE_CLUSTERED;
	if (!grouped || !choose_network_pool(ch, &rc))
		choose_spread(ch);
	if (rc < 0)
		return rc;
	assert(ch->taken == ch->want->kept_count + ch->out->count && ch->taken <= ch->needed);
	count_domains(ch);
	return ch->taken < ch->out->width ? -ENOSPC : 0;
}

static int prepare(struct cluster *c, uint32_t shuffle)
{
	int rc = c->candidates != NULL ? 0 : candidates_make(c);
	return rc < 0 ? rc : order_make(c, shuffle);
}

int cluster_choose(struct cluster *c, const struct cluster_want *want,
		   struct cluster_choice *choice)
{
	memset(choice, 0, sizeof(*choice));
	if (encoding_check(&want->encoding, NULL, 0) < 0 || !cluster_media_valid(want->media))
		return -EINVAL;
	choice->width = cluster_width(&want->encoding);
	if (want->kept_count > choice->width ||
	    want->extra > CLUSTER_CHOICE_MAX - ENCODING_STRIPE_MAX)
		return -EINVAL;
	choice->wanted = choice->width - (uint32_t)want->kept_count + want->extra;
	uint64_t block_hash = hash64_u64s(HASH_BLOCK, want->block);
	uint32_t shuffle = (uint32_t)(block_hash % CLUSTER_SHUFFLES);
	int rc = prepare(c, shuffle);
	if (rc < 0)
		return rc;
	struct choosing ch = {.cluster = c,
			      .want = want,
			      .out = choice,
			      .block_hash = block_hash,
			      .shuffle = shuffle,
			      .order = c->orders[shuffle],
			      .needed = choice->width + want->extra,
			      .pools = wants_pools(c, want)};
	AUTO_FREE uint16_t *used = calloc(c->rack_count + c->node_count + 1, sizeof(*used));
	AUTO_FREE uint8_t *unavailable = calloc(c->candidate_count + 1, 1);
	if (used == NULL || unavailable == NULL)
		return -ENOMEM;
	ch.rack_used = used;
	ch.node_used = used + c->rack_count;
	ch.unavailable = unavailable;
	return choose_with(&ch);
}

/* --- the spread over racks --------------------------------------------------------------------- */

uint32_t cluster_rack_most(const uint32_t *disks, size_t racks, uint32_t width)
{
	assert(width > 0 && (disks != NULL || racks == 0));
	for (uint32_t most = 1; most <= width; most++) {
		uint64_t room = 0;
		for (size_t i = 0; i < racks; i++)
			room += disks[i] < most ? disks[i] : most;
		if (room >= width)
			return most;
	}
	return 0;
}

bool cluster_spread_accepted(const struct cluster_spread *s)
{
	bool one_rack = s->racks < 2 && s->racks_on_disk < 2;
	return one_rack || s->tolerance == 0 || s->rack_most <= s->tolerance;
}

/* Counts the suitable disks in each rack, and returns the number of racks that have at least one. */
static uint32_t racks_count(const struct cluster *c, const struct cluster_want *want,
			    uint32_t *disks)
{
	const struct choosing ch = {.want = want, .pools = wants_pools(c, want)};
	uint32_t racks = 0;
	for (size_t i = 0; i < c->candidate_count; i++)
		if (candidate_fits(&ch, &c->candidates[i]))
			racks += disks[c->candidates[i].rack]++ == 0;
	return racks;
}

int cluster_spread(struct cluster *c, const struct cluster_want *want, struct cluster_spread *out)
{
	memset(out, 0, sizeof(*out));
	if (encoding_check(&want->encoding, NULL, 0) < 0 || !cluster_media_valid(want->media))
		return -EINVAL;
	int rc = c->candidates != NULL ? 0 : candidates_make(c);
	if (rc < 0)
		return rc;
	AUTO_FREE uint32_t *disks = calloc(c->rack_count + 1, sizeof(*disks));
	if (disks == NULL)
		return -ENOMEM;
	if (want->media != CLUSTER_MEDIA_DISK) {
		struct cluster_want on_disk = *want;
		on_disk.media = CLUSTER_MEDIA_DISK;
		out->racks_on_disk = racks_count(c, &on_disk, disks);
		memset(disks, 0, c->rack_count * sizeof(*disks));
	}
	out->racks = racks_count(c, want, disks);
	out->width = cluster_width(&want->encoding);
	out->tolerance = cluster_tolerance(&want->encoding);
	out->rack_most = cluster_rack_most(disks, c->rack_count, out->width);
	return 0;
}
