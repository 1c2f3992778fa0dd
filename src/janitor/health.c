// SPDX-License-Identifier: Apache-2.0
/*
 * Computes the state of a block from its record and the cluster map, as a survey counts it:
 *
 *   degraded     chunks are missing or offline, and the block can be read
 *   unreachable  the block cannot be read now, but could with the chunks that are offline
 *   lost         the block could not be read even with these
 *
 * A chunk is missing if the record has no place for it or says that it is damaged, or if its disk was
 * removed. It is offline if its node is silent or its disk has failed. Of rs:4+2 with two damaged chunks
 * and one on a silent node three chunks are left: unreachable. The block is lost when the node is
 * removed. The open block of a log counts by its acknowledged length: it stays degraded until its
 * writer has ended it.
 *
 * No request is sent to a disk. Damage that no reader and no scrub has met is not counted, and a
 * chunk that is damaged in one place may still help to repair the block; then the next survey shows that.
 */
#include <assert.h>
#include <errno.h>

#include "base/rng.h"
#include "code/health.h"
#include "code/shape.h"
#include "janitor/impl.h"

enum chunk_fate { CHUNK_PRESENT, CHUNK_OFFLINE, CHUNK_MISSING };

static enum chunk_fate fate_of(const struct cluster *c, const struct meta_chunk *chunk)
{
	const struct cluster_disk *d = cluster_disk(c, chunk->disk);
	const struct cluster_node *n = d == NULL ? NULL : cluster_node(c, d->node);
	if (chunk->damaged || n == NULL || d->wanted == CLUSTER_GONE || n->wanted == CLUSTER_GONE)
		return CHUNK_MISSING;
	/* A disk with errors can still serve most reads. */
	bool offline = d->health == CLUSTER_FAILED || n->health == CLUSTER_SUSPECT ||
		       n->health == CLUSTER_FAILED;
	return offline ? CHUNK_OFFLINE : CHUNK_PRESENT;
}

/* Returns whether a block of this shape can be read without the n chunks in `lost`; false also
 * if the codec is not available. */
static bool tolerated(struct janitor *j, const struct shape *s, const int *lost, int n)
{
	const struct codec *codec = NULL;
	struct code_health h = {0};
	if (s->copies)
		return n < s->n;
	return codecs_get(&j->fabric.codecs, s, &codec) == 0 &&
	       code_health(codec, lost, n, &h) == 0 && h.tolerated;
}

uint64_t health_mark(const struct janitor *j)
{
	const struct cluster *c = j->fabric.map;
	uint64_t sum = mix_u64(j->stats.chunks_repaired);
	if (c == NULL) /* the cluster map was not fetched yet */
		return sum;
	map_for_each(&c->disks, it) {
		enum chunk_fate fate = fate_of(c, &(struct meta_chunk){.disk = it.key});
		if (fate != CHUNK_PRESENT)
			sum += mix_u64(it.key ^ (uint64_t)fate << 62);
	}
	return sum;
}

void health_count(struct janitor *j, const struct meta_block *b, struct stats *s)
{
	struct encoding enc;
	struct shape shape;
	int missing[META_CHUNKS_MAX], absent[META_CHUNKS_MAX], missing_count = 0, absent_count = 0;
	if (b->state == META_BLOCK_PENDING || b->length == 0)
		return;
	bool known = encoding_parse(b->encoding, &enc, NULL, 0) == 0 &&
		     shape_init(&shape, &enc) == 0 && b->chunk_count == (size_t)shape.n &&
		     b->chunk_count <= META_CHUNKS_MAX;
	if (!known) {
		s->lost_blocks++;
		return;
	}
	for (int i = 0; i < shape.n; i++) {
		/* Data chunks beyond the end of the block are empty and may have no disk. */
		bool nothing =
			b->chunks[i].disk == 0 && shape_stored_len(&shape, i, b->length) == 0;
		enum chunk_fate fate =
			nothing ? CHUNK_PRESENT : fate_of(j->fabric.map, &b->chunks[i]);
		if (fate != CHUNK_PRESENT)
			absent[absent_count++] = i;
		if (fate == CHUNK_MISSING)
			missing[missing_count++] = i;
	}
	if (absent_count == 0)
		return;
	assert(missing_count <= absent_count);
	if (tolerated(j, &shape, absent, absent_count))
		s->degraded_blocks++;
	else if (tolerated(j, &shape, missing, missing_count))
		s->unreachable_blocks++;
	else
		s->lost_blocks++;
}
