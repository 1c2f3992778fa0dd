// SPDX-License-Identifier: Apache-2.0
/*
 * The checker: a process that no fault strikes. It runs after the faults have stopped, and also acts as the
 * operator who removes lost machines and drives.
 *
 *   1  Reads every file and log, before anything is repaired: acknowledged bytes are readable at once. Then checks
 *      that writers that live end blocks under append that lack a copy, and takes over all logs.
 *   2  Waits until the cluster has converged: no garbage in the metadata, every chunk of every record on its disk and
 *      verified, no orphan, all disks online or gone.
 *   3  Compares parities with a new encoding of the data, and reads everything again.
 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/hash.h"
#include "client/encode.h"
#include "client/engine_impl.h"
#include "client/label.h"
#include "cluster_check.h"
#include "cluster_watch.h"
#include "code/codec.h"
#include "code/sg.h"
#include "meta/gc.h"
#include "rt/rt.h"
#include "store/format.h"

#define LOOK_NS (5 * NS_PER_S)
#define CONVERGE_NS (900 * NS_PER_S)
#define LIST_PAGE 256
#define DEAD_PAGE 16
#define WORSE_LOOKS 3
#define CACHES_NS (2500 * NS_PER_MS)
#define EMPTY_NS (60 * NS_PER_S) /* time to drain a node; then it goes back online */
#define HOPE_NS \
	(60 * NS_PER_S) /* time for a damaged disk to come back online; then it is removed */
#define SHORT_POOL_NS (300 * NS_PER_S) /* a pool without a new drive is removed after this time, */
#define STUCK_NS \
	(60 * NS_PER_S) /* if the same lack has kept the cluster from converging for this time */
#define CHUNKS_MAX 100000
#define RECODE_MOVED 1 /* a chunk was moved since the record was read */

/* The good chunks that the checker has seen of a block. */
struct block_seen {
	uint32_t most;        /* highest number of good chunks of all looks */
	uint32_t worse;       /* number of the last looks in a row that found fewer */
	uint64_t chunk_block; /* of the record, when the chunks were counted */
	uint64_t disk
		[META_CHUNKS_MAX]; /* of each chunk that was good at the last look; 0: it was not */
};

/* --- the operator ------------------------------------------------------------------------------ */

/* Returns whether both copies of the superblock of a member are damaged: no node opens it again. */
static bool member_lost_superblock(struct sim_disk *d, unsigned member)
{
	AUTO_FREE uint8_t *bytes = malloc(SUPER_BYTES);
	struct super is;
	char path[32];
	int good;
	snprintf(path, sizeof(path), "/m%u/s/superblock", member);
	return bytes != NULL && sim_disk_peek(d, path, 0, bytes, SUPER_BYTES) == 0 &&
	       super_decode(bytes, SUPER_BYTES, &is, &good) == -EBADMSG;
}

static unsigned members_lost(const struct node_place *n)
{
	unsigned lost = 0;
	for (unsigned i = 0; i < MEMBERS; i++)
		lost += n->members[i] != NULL &&
			((sim_disk_damage(n->members[i]) & SIM_DAMAGE_LOST) != 0 ||
			 member_lost_superblock(n->members[i], i));
	return lost;
}

static bool disk_is_lost(const struct node_place *n, unsigned d)
{
	if (n->disks[d] != NULL)
		return (sim_disk_damage(n->disks[d]) & SIM_DAMAGE_LOST) != 0;
	return members_lost(n) > 1;
}

static void order_online(struct checker *k, uint64_t disk)
{
	struct call c;
	struct disk_use u;
	call_init(&c, engine_fabric(k->engine));
	if (disk_begin(&c, disk, &u) != 0)
		return;
	u.node.timeout_ns = 10 * NS_PER_S;
	int rc = node_control(&u.node, disk, STORE_ONLINE, NULL);
	disk_end(&c, &u, rc, 0);
}

/*
 * Returns whether a pool that lost a drive keeps the cluster from converging, with the same lack all the time: if
 * that drive alone knew of a late change, the pool cannot delete the affected chunks without it.
 */
static bool pool_is_stuck(struct checker *k, const struct node_place *n)
{
	const struct short_pool *l = &k->short_pools[n->index];
	uint64_t now_ns = rt_now_ns();
	return members_lost(n) > 0 && l->lack[0] != '\0' && now_ns > k->begin_ns + SHORT_POOL_NS &&
	       now_ns - l->since_ns >= STUCK_NS;
}

static void pool_give_up(struct checker *k, const struct node_place *n)
{
	struct short_pool *l = &k->short_pools[n->index];
	assert(k->world->plan.pools && members_lost(n) > 0);
	if (l->gone)
		return;
	k->world->out->given_up++;
	l->gone = true;
	model_note(&k->world->model, "pool %lu without a drive is given up: %.80s",
		   world_disk_id(n, 0), l->lack);
}

/* Removes nodes and disks that are lost for good; brings failed disks that still exist back online. */
void operate(struct checker *k)
{
	struct world *w = k->world;
	struct cluster *map;
	if (meta_client_map(&k->root, 0, &map) != 0)
		return;
	for (unsigned i = 0; i < w->node_count; i++) {
		const struct node_place *n = &w->nodes[i];
		const struct cluster_node *node = cluster_node(map, n->index + 1);
		if (sim_node_lost(n->node))
			(void)meta_client_want_node(&k->root, n->index + 1, CLUSTER_GONE);
		else if (node != NULL && node->wanted == CLUSTER_DRAINING &&
			 rt_now_ns() > k->begin_ns + EMPTY_NS)
			(void)meta_client_want_node(&k->root, n->index + 1, CLUSTER_ONLINE);
		for (unsigned d = 0; d < w->plan.disks && !sim_node_lost(n->node); d++) {
			uint64_t id = world_disk_id(n, d);
			const struct cluster_disk *disk = cluster_disk(map, id);
			bool failed = disk != NULL && disk->health == CLUSTER_FAILED;
			bool hopeless = failed && world_disk_damaged(n, d) &&
					rt_now_ns() > k->begin_ns + HOPE_NS;
			bool stuck = pool_is_stuck(k, n);
			if (stuck)
				pool_give_up(k, n);
			if (disk_is_lost(n, d) || hopeless || stuck)
				(void)meta_client_want_disk(&k->root, id, CLUSTER_GONE);
			else if (failed)
				order_online(k, id);
		}
	}
}

/* --- convergence ------------------------------------------------------------------------------- */

bool not_converged(struct world *w, uint64_t disk, const char *fmt, ...)
{
	va_list args;
	w->lacking_disk = disk;
	w->lacking_media = false;
	va_start(args, fmt);
	vsnprintf(w->lacking, sizeof(w->lacking), fmt, args);
	va_end(args);
	return false;
}

int world_meta_check(struct world *w, struct meta_check_report *out)
{
	struct kv *kv;
	struct meta *m;
	*out = (struct meta_check_report){0};
	int rc = world_store_open(w, &kv, &m);
	if (rc == 0)
		rc = meta_check(m, NULL, out);
	world_store_close(kv, m);
	return rc;
}

static bool records_agree(struct world *w)
{
	struct meta_check_report report;
	int rc = world_meta_check(w, &report);
	if (rc < 0)
		not_converged(w, 0, "the check of the metadata does not run: %s", err_name(rc));
	else if (report.errors > 0)
		not_converged(w, 0, "the check of the metadata finds: %.180s", report.first);
	else if (report.garbage > 0)
		not_converged(w, 0, "%lu rows of garbage in the metadata", report.garbage);
	return rc == 0 && report.errors == 0 && report.garbage == 0;
}

static bool map_is_well(struct checker *k)
{
	struct cluster *map;
	int rc = meta_client_map(&k->root, 0, &map);
	if (rc < 0)
		return not_converged(k->world, 0, "no map: %s", err_name(rc));
	map_for_each(&map->disks, it) {
		const struct cluster_disk *d = it.value;
		enum cluster_state s = cluster_disk_state(map, d);
		if (s != CLUSTER_ONLINE && s != CLUSTER_GONE)
			return not_converged(k->world, d->id, "disk %lu is %s", d->id,
					     cluster_state_name(s));
	}
	return true;
}

static uint64_t chunk_key(uint64_t disk, struct chunk_id id)
{
	uint64_t parts[3] = {disk, id.block, id.index};
	return hash64(parts, sizeof(parts), 0);
}

int disk_use(struct call *c, uint64_t disk, struct disk_use *u)
{
	int rc = disk_begin(c, disk, u);
	if (rc == -ENODEV && engine_map(c, 0) == 0)
		rc = disk_begin(c, disk, u);
	return rc;
}

/* Returns 0 if the chunk is on its disk, complete, verified and of this block. */
static int chunk_look(struct checker *k, const struct meta_block_at *at, uint32_t i)
{
	const struct meta_block *b = &at->block;
	struct chunk_id id = {b->chunk_block, i};
	struct store_range bad[4];
	struct chunk_stat st;
	struct disk_use u;
	struct call c;
	struct encoding e;
	struct shape s;
	char why[128];
	uint32_t tenant;
	uint64_t block;
	call_init(&c, engine_fabric(k->engine));
	if (encoding_parse(b->encoding, &e, why, sizeof(why)) < 0 || shape_init(&s, &e) < 0)
		return -EINVAL;
	if (b->chunks[i].disk == 0)
		return -ENODATA;
	int64_t rc = disk_use(&c, b->chunks[i].disk, &u);
	if (rc < 0)
		return (int)rc;
	u.node.timeout_ns = 10 * NS_PER_S;
	rc = node_stat_one(&u.node, u.disk, id, &st);
	if (rc == 0 && !b->chunks[i].damaged)
		rc = node_scan(&u.node, u.disk, id, bad, ARRAY_LEN(bad));
	disk_end(&c, &u, (int)rc, 0);
	if (rc != 0)
		return rc > 0 ? -EBADMSG : (int)rc;
	if (b->chunks[i].damaged)
		return -ENODATA;
	if (label_read(st.label, &tenant, &block) < 0 || tenant != at->tenant || block != b->id)
		return -ESTALE;
	uint32_t crc = s.copies ? b->crc : b->chunks[i].crc;
	if (!st.sealed ||
	    (crc != 0 && st.len > 0 && st.crc != crc)) /* complete, but an old state */
		return -ESTALE;
	return st.len == shape_stored_len(&s, (int)i, b->length) ? 0 : -ERANGE;
}

static struct block_seen *block_seen_of(struct checker *k, const struct meta_block *b)
{
	struct block_seen *seen = map_get(&k->blocks_seen, b->id);
	if (seen == NULL) {
		seen = calloc(1, sizeof(*seen));
		if (seen == NULL || map_put(&k->blocks_seen, b->id, seen) < 0)
			abort();
	}
	if (seen->chunk_block != b->chunk_block) /* the block was re-encoded */
		*seen = (struct block_seen){.chunk_block = b->chunk_block};
	return seen;
}

static void blocks_seen_forget(struct checker *k)
{
	map_for_each(&k->blocks_seen, it)
		free(it.value);
	map_fini(&k->blocks_seen);
}

static int block_get(struct checker *k, const struct meta_block_at *at, struct arena *a,
		     struct meta_block *out)
{
	char tenant[32];
	snprintf(tenant, sizeof(tenant), META_SYSTEM ":%u", at->tenant);
	AUTO_CONTEXT const struct context *system = NULL;
	int rc = context_new(&system, &(struct context){.tenant = tenant});
	if (rc < 0)
		return rc;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(system);
	struct meta_call m = {.client = k->meta};
	return meta_client_block_get(&m, &at->block.id, 1, a, out);
}

/* A sound disk does not have a chunk: violates I10 if the record still names it there. */
static void chunk_deleted(struct checker *k, const struct meta_block_at *at, uint32_t i)
{
	const struct meta_block *b = &at->block;
	const struct named n = {.tenant = at->tenant,
				.block = b->id,
				.id = {b->chunk_block, i},
				.disk = b->chunks[i].disk,
				.release_count = b->release_count};
	struct kv *kv;
	struct meta *m;
	if (!world_disk_sound(k->world, n.disk))
		return;
	if (world_store_open(k->world, &kv, &m) == 0 && named_still(k->world, m, &n) &&
	    chunk_look(k, at, i) == -ENOENT && named_still(k->world, m, &n))
		model_violation(&k->world->model, "I10",
				"block %016lx (%s): chunk %u was deleted from disk %lu, where the "
				"record names it",
				b->id, b->encoding, i, n.disk);
	world_store_close(kv, m);
}

/*
 * Checks I10: the number of good chunks of a block may grow while there are no faults, but never shrink. A look
 * misses a chunk that moves during the look, so only several looks in a row with fewer chunks are a violation.
 */
static void block_seen_note(struct checker *k, struct block_seen *seen, const struct meta_block *b,
			    uint32_t good)
{
	assert(good <= b->chunk_count);
	seen->worse = good < seen->most ? seen->worse + 1 : 0;
	seen->most = good > seen->most ? good : seen->most;
	if (seen->worse >= WORSE_LOOKS)
		model_violation(&k->world->model, "I10",
				"block %016lx had %u good chunks and now has %u; %.120s", b->id,
				seen->most, good, k->world->lacking);
}

static uint32_t racks_of(struct checker *k, const struct meta_block *b)
{
	struct cluster *map;
	uint32_t n = 0;
	if (meta_client_map(&k->root, NS_PER_S, &map) < 0)
		return 0;
	for (size_t i = 0; i < b->chunk_count; i++) {
		const struct cluster_node *node = cluster_node_of(map, b->chunks[i].disk);
		bool first = node != NULL;
		for (size_t j = 0; j < i && first; j++) {
			const struct cluster_node *other = cluster_node_of(map, b->chunks[j].disk);
			first = other == NULL || other->rack != node->rack;
		}
		n += first;
	}
	return n;
}

/* Returns the number of racks with an online disk of the media. */
static uint32_t racks_with(const struct cluster *map, enum cluster_media media)
{
	bool has[NODES_MAX + 1] = {0};
	uint32_t n = 0;
	map_for_each(&map->disks, it) {
		const struct cluster_disk *d = it.value;
		const struct cluster_node *node = cluster_node(map, d->node);
		if (d->media != media || cluster_disk_state(map, d) != CLUSTER_ONLINE ||
		    node->rack > NODES_MAX)
			continue;
		n += !has[node->rack];
		has[node->rack] = true;
	}
	return n;
}

/* Returns whether the chunks of a block are in as many racks as its media and its width allow. */
static bool is_apart(struct checker *k, const struct meta_block *b)
{
	struct cluster *map;
	if (meta_client_map(&k->root, NS_PER_S, &map) < 0)
		return false;
	uint32_t racks = racks_with(map, b->media);
	return racks_of(k, b) >= min_u64(racks, b->chunk_count);
}

/* Checks I13. If fewer racks have the media than the block has chunks, some chunks may be on the other media. */
static bool media_is_kept(struct checker *k, const struct meta_block *b)
{
	struct cluster *map;
	int rc = meta_client_map(&k->root, NS_PER_S, &map);
	if (rc < 0)
		return not_converged(k->world, 0, "no map: %s", err_name(rc));
	if (racks_with(map, b->media) < b->chunk_count)
		return true;
	for (size_t i = 0; i < b->chunk_count; i++) {
		const struct cluster_disk *d = cluster_disk(map, b->chunks[i].disk);
		if (d == NULL || d->media == b->media)
			continue;
		not_converged(k->world, 0,
			      "block %016lx (%s) is on media %s, but its chunk %zu is on disk %lu "
			      "of media %s",
			      b->id, b->encoding, cluster_media_name(b->media), i, d->id,
			      cluster_media_name(d->media));
		k->world->lacking_media = true;
		return false;
	}
	return true;
}

static bool block_is_whole(struct checker *k, const struct meta_block_at *at)
{
	const struct meta_block *b = &at->block;
	uint32_t good = 0;
	bool whole = true;
	if (b->state != META_BLOCK_SEALED)
		return not_converged(k->world, 0, "block %016lx of %lu bytes is not sealed", b->id,
				     b->length);
	struct block_seen *seen = block_seen_of(k, b);
	for (uint32_t i = 0; i < b->chunk_count; i++) {
		int rc = chunk_look(k, at, i);
		if (rc == -ENOENT && (!k->world->plan.pools || seen->disk[i] == b->chunks[i].disk))
			chunk_deleted(k, at, i);
		seen->disk[i] = rc == 0 ? b->chunks[i].disk : 0;
		struct chunk_id id = {b->chunk_block, i};
		uint64_t key = chunk_key(b->chunks[i].disk, id);
		good += rc == 0;
		if (rc != 0)
			whole = not_converged(k->world, b->chunks[i].disk,
					      "block %016lx (%s): chunk %u on disk %lu: %s", b->id,
					      b->encoding, i, b->chunks[i].disk, err_name(rc));
		(void)map_put(&k->wanted, key, k);
	}
	block_seen_note(k, seen, b, good);
	/* There are more racks than chunks again. Columns of an mlec lie where its scheme puts them. */
	if (whole && strncmp(b->encoding, "mlec", 4) != 0 && !is_apart(k, b))
		whole = not_converged(k->world, 0, "block %016lx (%s): two chunks in one rack",
				      b->id, b->encoding);
	return whole && media_is_kept(k, b);
}

static bool blocks_are_whole(struct checker *k)
{
	struct arena a;
	bool whole = true;
	arena_init(&a, 64 * MIB);
	for (struct meta_walk w = {.end = 1 << PARTITION_BITS}; w.index < w.end;) {
		struct meta_block_at at[32];
		int64_t n = meta_client_blocks(&k->root, &w, &a, at, ARRAY_LEN(at));
		if (n < 0) {
			whole = not_converged(k->world, 0, "blocks cannot be listed: %s",
					      err_name((int)n));
			break;
		}
		for (int64_t i = 0; i < n; i++)
			whole = block_is_whole(k, &at[i]) && whole;
	}
	arena_fini(&a);
	return whole;
}

static bool disk_has_no_orphan(struct checker *k, uint64_t disk)
{
	struct cluster *map;
	if (meta_client_map(&k->root, NS_PER_S, &map) == 0) {
		const struct cluster_disk *known = cluster_disk(map, disk);
		if (known != NULL && cluster_disk_state(map, known) == CLUSTER_GONE)
			return true;
	}
	struct chunk_id ids[LIST_PAGE];
	struct store_cursor at = {0};
	int64_t n;
	do {
		struct call c;
		struct disk_use u;
		call_init(&c, engine_fabric(k->engine));
		n = disk_use(&c, disk, &u);
		if (n < 0)
			return not_converged(k->world, disk, "disk %lu: %s", disk,
					     err_name((int)n));
		u.node.timeout_ns = 10 * NS_PER_S;
		n = node_list(&u.node, disk, &at, ids, LIST_PAGE);
		disk_end(&c, &u, n < 0 ? (int)n : 0, 0);
		if (n < 0)
			return not_converged(k->world, disk, "disk %lu: %s", disk,
					     err_name((int)n));
		for (int64_t i = 0; i < n; i++)
			if (map_get(&k->wanted, chunk_key(disk, ids[i])) == NULL)
				return not_converged(k->world, disk,
						     "chunk %016lx.%u on disk %lu is an orphan",
						     ids[i].block, ids[i].index, disk);
	} while (n > 0);
	return true;
}

static bool no_orphans(struct checker *k)
{
	struct world *w = k->world;
	for (unsigned i = 0; i < w->node_count; i++)
		for (unsigned d = 0; d < w->plan.disks; d++) {
			const struct node_place *n = &w->nodes[i];
			if (sim_node_lost(n->node) || disk_is_lost(n, d))
				continue;
			if (!disk_has_no_orphan(k, world_disk_id(n, d)))
				return false;
		}
	return true;
}

/* Checks I7 at rest: without writes and garbage, not even compaction may exceed the quota. */
static void quota_at_rest(struct checker *k)
{
	struct meta_tenant t;
	if (meta_client_tenant_get(&k->root, 0, TENANT, &t) == 0 && t.quota_bytes > 0 &&
	    t.used_bytes > t.quota_bytes)
		model_violation(&k->world->model, "I7",
				"at rest %lu bytes are used of a quota of %lu", t.used_bytes,
				t.quota_bytes);
}

/* Returns whether a pool lost a drive, and the time to remove it is near. */
static bool short_pools_matter(const struct checker *k)
{
	const struct world *w = k->world;
	unsigned lost = 0;
	for (unsigned i = 0; i < w->node_count; i++)
		lost += members_lost(&w->nodes[i]);
	return lost > 0 && rt_now_ns() + STUCK_NS > k->begin_ns + SHORT_POOL_NS;
}

/*
 * Returns whether dead chunks of a disk wait for their deletion. A pool may not even list them: the members that
 * have them are lost, and those that have none are behind.
 */
static bool disk_has_dead(struct checker *k, uint64_t disk)
{
	uint64_t epoch;
	struct meta_walk w = {0};
	bool found = false;
	int64_t n = meta_client_gc_epoch(&k->root, &epoch, &w.end);
	while (n >= 0 && !found && w.index < w.end) {
		struct meta_dead_chunks dead[DEAD_PAGE];
		struct arena a;
		arena_init(&a, 4 * MIB);
		n = meta_client_gc_chunks(&k->root, epoch, &w, &a, dead, DEAD_PAGE);
		for (int64_t i = 0; i < n; i++)
			for (size_t c = 0; c < dead[i].chunk_count; c++)
				found = found || dead[i].chunks[c].disk == disk;
		arena_fini(&a);
	}
	return found;
}

/*
 * Records for each pool that lost a drive what it lacks: `lacking` if that names the pool, an orphan on it, or a
 * dead chunk that it does not delete. (Records of chunks that cannot be deleted stay as garbage for as long.)
 */
static void short_pools_look(struct checker *k)
{
	struct world *w = k->world;
	char lacking[VIOLATION_BYTES];
	uint64_t disk = w->lacking_disk;
	memcpy(lacking, w->lacking, sizeof(lacking));
	for (unsigned i = 0; i < w->node_count; i++) {
		const struct node_place *n = &w->nodes[i];
		struct short_pool *l = &k->short_pools[i];
		bool named = members_lost(n) > 0 && disk == world_disk_id(n, 0);
		if (members_lost(n) > 0 && !named)
			named = !disk_has_no_orphan(k, world_disk_id(n, 0)) ||
				disk_has_dead(k, world_disk_id(n, 0));
		if (!named || strcmp(l->lack, w->lacking) != 0) {
			snprintf(l->lack, sizeof(l->lack), "%s", named ? w->lacking : "");
			l->since_ns = rt_now_ns();
		}
		memcpy(w->lacking, lacking, sizeof(lacking));
	}
	w->lacking_disk = disk;
}

static bool is_converged(struct checker *k)
{
	map_fini(&k->wanted);
	map_init(&k->wanted, CHUNKS_MAX);
	/*
	 * While janitors are killed, chunks are counted at every look for I10; else only when the rest has
	 * converged.
	 */
	bool well = records_agree(k->world) && map_is_well(k);
	bool stuck = short_pools_matter(k);
	bool whole = (well || k->world->plan.kills || stuck) && blocks_are_whole(k);
	bool converged = well && whole && no_orphans(k);
	if (stuck && !converged)
		short_pools_look(k);
	return converged;
}

/* Drains a node, so that janitors move chunks while they are killed. */
static void drain_one(struct checker *k)
{
	struct world *w = k->world;
	const struct node_place *n = &w->nodes[rng_below(&w->rng, w->plan.nodes)];
	if (!sim_node_lost(n->node))
		(void)meta_client_want_node(&k->root, n->index + 1, CLUSTER_DRAINING);
}

static void converge(struct checker *k)
{
	struct world *w = k->world;
	uint64_t end_ns = rt_now_ns() + CONVERGE_NS;
	(void)blocks_are_whole(k);
	if (w->plan.kills)
		drain_one(k);
	while (!model_violated(&w->model) && !is_converged(k)) {
		if (rt_now_ns() > end_ns) {
			model_violation(&w->model, w->lacking_media ? "I13" : "I8",
					"not converged after %lu s: %.200s",
					(uint64_t)(CONVERGE_NS / NS_PER_S), w->lacking);
			return;
		}
		operate(k);
		if (rt_sleep_ns(LOOK_NS) < 0)
			return;
	}
}

/* --- parities ---------------------------------------------------------------------------------- */

static int chunk_fetch(struct checker *k, const struct meta_block *b, uint32_t i, uint64_t len,
		       struct slice *out)
{
	struct call c;
	struct disk_use u;
	call_init(&c, engine_fabric(k->engine));
	int rc = disk_use(&c, b->chunks[i].disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = 10 * NS_PER_S;
	rc = node_get_one(&u.node, u.disk, (struct chunk_id){b->chunk_block, i}, 0, len, NULL, out);
	disk_end(&c, &u, rc, 0);
	return rc;
}

/* Computes the parities with the codec alone, because the client's encoder is under test. */
static int parities_compute(const struct shape *s, uint64_t each, const struct slice *got,
			    uint8_t *parities)
{
	AUTO_FREE struct iovec *iov = calloc((size_t)s->n, sizeof(*iov));
	AUTO_FREE struct sg *chunks = calloc((size_t)s->n, sizeof(*chunks));
	struct codec *codec;
	if (iov == NULL || chunks == NULL)
		return -ENOMEM;
	for (int i = 0; i < s->n; i++) {
		if (i >= s->k)
			iov[i] = (struct iovec){parities + (uint64_t)(i - s->k) * each, each};
		else if (got[i].len > 0)
			iov[i] = (struct iovec){got[i].buf->data + got[i].offset, got[i].len};
		chunks[i] = (struct sg){&iov[i], 1};
	}
	int rc = codec_open(&s->net, &codec);
	if (rc < 0)
		return rc;
	rc = codec_encode(codec, each, chunks);
	codec_close(codec);
	return rc;
}

static void compare_chunks(struct checker *k, const struct meta_block *b, const struct shape *s,
			   const struct slice *got)
{
	struct model *m = &k->world->model;
	uint64_t each = shape_chunk_len(s, b->length);
	assert(s->k <= s->n);
	AUTO_FREE uint8_t *parities = calloc((size_t)(s->n - s->k) + 1, each);
	uint32_t crc = 0;
	for (int i = 0; i < s->k; i++)
		if (got[i].len > 0)
			crc = crc32c(crc, got[i].buf->data + got[i].offset, got[i].len);
	if (crc != b->crc) {
		model_violation(m, "I9",
				"block %016lx (%s): checksum of the data differs from the record's",
				b->id, b->encoding);
		return;
	}
	int rc = parities == NULL ? -ENOMEM : parities_compute(s, each, got, parities);
	if (rc < 0)
		model_violation(m, "I9", "block %016lx (%s) cannot be encoded: %s", b->id,
				b->encoding, err_name(rc));
	for (int i = s->k; rc == 0 && i < s->n; i++) {
		uint64_t len = shape_stored_len(s, i, b->length);
		if (got[i].len != len || got[i].buf == NULL ||
		    memcmp(got[i].buf->data + got[i].offset, parities + (uint64_t)(i - s->k) * each,
			   len) != 0)
			model_violation(m, "I9", "block %016lx (%s): parity %d differs", b->id,
					b->encoding, i);
	}
}

/*
 * Compares all chunks of a block with a new encoding. Returns RECODE_MOVED if a chunk is not where the record says.
 */
static int block_recode(struct checker *k, const struct meta_block *b)
{
	struct encoding e;
	struct shape s = {0};
	struct slice got[META_CHUNKS_MAX] = {0};
	char why[128];
	int rc = encoding_parse(b->encoding, &e, why, sizeof(why));
	if (rc == 0)
		rc = shape_init(&s, &e);
	if (rc < 0 || b->length == 0)
		return 0;
	for (int i = 0; rc == 0 && i < s.n; i++) {
		uint64_t len = shape_stored_len(&s, i, b->length);
		if (len > 0)
			rc = chunk_fetch(k, b, (uint32_t)i, len, &got[i]);
	}
	if (rc == 0)
		compare_chunks(k, b, &s, got);
	else if (rc != -ENOENT)
		model_violation(&k->world->model, "I9",
				"block %016lx is complete but cannot be read: %s", b->id,
				err_name(rc));
	for (int i = 0; i < s.n; i++)
		buf_unref(got[i].buf);
	return rc == -ENOENT ? RECODE_MOVED : 0;
}

/* Compares a block; reads its record again if a janitor has moved a chunk. */
static void block_check(struct checker *k, const struct meta_block_at *at)
{
	struct meta_block now = at->block;
	struct arena a;
	int rc = block_recode(k, &now);
	arena_init(&a, MIB);
	for (int i = 0; rc == RECODE_MOVED && i < TRIES && rt_sleep_ns(CACHES_NS) == 0; i++) {
		rc = block_get(k, at, &a, &now);
		if (rc == 0)
			rc = block_recode(k, &now);
		else if (rc == -ENOENT) /* compacted or re-encoded */
			rc = 0;
	}
	if (rc != 0)
		model_violation(&k->world->model, "I9",
				"block %016lx is complete but cannot be read: %s", at->block.id,
				rc < 0 ? err_name(rc) : "a chunk is missing");
	arena_fini(&a);
}

static void block_domains(struct checker *k, const struct meta_block *b)
{
	for (size_t i = 0; i < b->chunk_count; i++)
		for (size_t j = 0; j < i; j++)
			if (b->chunks[i].disk == b->chunks[j].disk)
				model_violation(&k->world->model, "I9",
						"block %016lx: two chunks on disk %lu", b->id,
						b->chunks[i].disk);
}

static void parity_look(struct checker *k, const struct meta_block_at *at)
{
	block_domains(k, &at->block);
	block_check(k, at);
}

static void each_block(struct checker *k,
		       void (*look)(struct checker *, const struct meta_block_at *))
{
	struct arena a;
	int64_t n = 0;
	arena_init(&a, 64 * MIB);
	for (struct meta_walk w = {.end = 1 << PARTITION_BITS}; n >= 0 && w.index < w.end;) {
		struct meta_block_at at[32];
		n = meta_client_blocks(&k->root, &w, &a, at, ARRAY_LEN(at));
		for (int64_t i = 0; i < n; i++)
			look(k, &at[i]);
	}
	if (n < 0)
		model_violation(&k->world->model, "I9", "blocks cannot be listed: %s",
				err_name((int)n));
	arena_fini(&a);
}

/* --- writes after convergence -------------------------------------------------------------- */

static int write_fresh(struct checker *k, unsigned n)
{
	struct world *w = k->world;
	struct call c;
	struct efile *f;
	uint8_t bytes[3000];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct terrane_options o = {.encoding = w->plan.encodings[n], .block_bytes = BLOCK_BYTES};
	char path[32];
	snprintf(path, sizeof(path), "/fresh%u", ++w->fresh);
	text_fill(n, 0, bytes, sizeof(bytes));
	engine_call(k->engine, &c, &o);
	int rc = engine_create(&c, path, 0, &o, &f);
	if (rc == 0)
		rc = engine_append(&c, f, &iov, 1, NULL);
	if (rc == 0)
		rc = engine_file_close(&c, f);
	rt_background();
	return rc;
}

static void racks_look(struct checker *k, const struct meta_block_at *at)
{
	if (map_get(&k->blocks_seen, at->block.id) == NULL && !is_apart(k, &at->block))
		model_violation(&k->world->model, "I9", "block %016lx (%s): two chunks in one rack",
				at->block.id, at->block.encoding);
}

/* Checks I9 for new files: every encoding in use has fewer chunks than there are racks. */
static void check_racks(struct checker *k)
{
	for (unsigned i = 0; i < k->world->plan.encoding_count; i++) {
		int rc = write_fresh(k, i);
		if (rc < 0 && rc != -EDQUOT)
			model_violation(
				&k->world->model, "I8",
				"the cluster has converged, but a file of %s cannot be written: %s",
				k->world->plan.encodings[i], err_name(rc));
	}
	each_block(k, racks_look);
}

/* --- the process ------------------------------------------------------------------------------- */

static int checker_open(struct checker *k, struct world *w)
{
	char text[64], *rest = text, *word, why[FABRIC_ERROR_MAX], all[64];
	const char *addrs[SERVERS_MAX];
	size_t n = 0;
	*k = (struct checker){.world = w, .begin_ns = rt_now_ns()};
	map_init(&k->wanted, CHUNKS_MAX);
	map_init(&k->blocks_seen, CHUNKS_MAX);
	rt_pool_init(&k->pool, 64 * MIB);
	world_addrs(w, text, sizeof(text));
	world_addrs(w, all, sizeof(all));
	while ((word = strsep(&rest, ",")) != NULL)
		addrs[n++] = word;
	int rc = meta_client_open(&k->meta,
				  &(struct meta_client_options){.addrs = addrs,
								.addr_count = n,
								.tenant = META_SYSTEM,
								.channel = {.pool = &k->pool}});
	k->root = (struct meta_call){.client = k->meta};
	struct engine_options o = {.metadata = all,
				   .tenant = TENANT,
				   .traffic_group = "",
				   .traffic_class = TRAFFIC_SILVER,
				   .fabric = *world_fabric()};
	for (int i = 0; rc == 0 && i < TRIES; i++) {
		rc = engine_open(&k->engine, &o, why);
		if (rc == 0)
			return 0;
		rc = rt_sleep_ns(NS_PER_S);
	}
	return rc < 0 ? rc : -EHOSTUNREACH;
}

static void await_converged(struct checker *k)
{
	converge(k);
	if (!model_violated(&k->world->model)) {
		quota_at_rest(k);
		each_block(k, parity_look);
		check_racks(k);
	}
	check_contents(k);
}

void checker_main(void *arg)
{
	const struct role *r = arg;
	struct world *w = r->world;
	struct checker k;
	int rc = checker_open(&k, w);
	if (rc < 0)
		model_violation(&w->model, "I8", "the checker cannot reach the metadata: %s",
				err_name(rc));
	if (rc == 0) {
		check_contents(&k);
		if (!w->over)
			check_kept(&k);
		check_logs_end(&k);
	}
	if (rc == 0 && !w->over) {
		await_converged(&k);
		if (w->plan.rack_lost && w->last && !model_violated(&w->model)) {
			w->rack_loss_requested = true;
			while (w->rack_loss_requested && rt_sleep_ns(NS_PER_MS) == 0)
				;
			blocks_seen_forget(&k);
			map_init(&k.blocks_seen, CHUNKS_MAX);
			check_contents(&k);
			k.begin_ns = rt_now_ns();
			await_converged(&k);
		}
	}
	if (w->last)
		contest_check(w);
	map_fini(&k.wanted);
	blocks_seen_forget(&k);
	meta_client_close(k.meta);
	engine_close(k.engine);
	rt_pool_fini(&k.pool);
	w->checked = true;
}
