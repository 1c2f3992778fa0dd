// SPDX-License-Identifier: Apache-2.0
/*
 * Looks at the chunks of every block: each is on the disk that the record names, complete and verified; chunks are in
 * different racks and on the media of the block; the number of good chunks does not shrink (I10).
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"
#include "client/encode.h"
#include "client/engine_impl.h"
#include "cluster_check.h"
#include "cluster_watch.h"
#include "node/label.h"
#include "rt/rt.h"

#define WORSE_LOOKS 3

/* The good chunks that the checker has seen of a block. */
struct block_seen {
	uint32_t most;        /* highest number of good chunks of all looks */
	uint32_t worse;       /* number of the last looks in a row that found fewer */
	uint64_t chunk_block; /* of the record, when the chunks were counted */
	uint64_t disk
		[META_CHUNKS_MAX]; /* of each chunk that was good at the last look; 0: it was not */
};

uint64_t chunk_key(uint64_t disk, struct chunk_id id)
{
	uint64_t parts[3] = {disk, id.block, id.index};
	return hash64(parts, sizeof(parts), 0);
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

void blocks_seen_forget(struct checker *k)
{
	map_for_each(&k->blocks_seen, it)
		free(it.value);
	map_fini(&k->blocks_seen);
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

bool is_apart(struct checker *k, const struct meta_block *b)
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

bool blocks_are_whole(struct checker *k)
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
