// SPDX-License-Identifier: Apache-2.0
/*
 * How much is left of a block, by its record and the map, for what a survey counts:
 *
 *   degraded     chunks are gone or away, and the others suffice
 *   unreachable  they do not, and would with what is away: on nodes that are silent, and failed disks
 *   lost         they would not
 *
 * Gone is what the record does not have or has as damaged, and what was on disks that were removed. Of rs:4+2 with
 * two chunks damaged and one on a silent node there are three left: out of reach. It is lost when the node is removed.
 * The open block of a log counts by what was acknowledged: what it lacks stays so until its writer has ended it.
 * No disk is asked: what nobody has met yet does not count, and what is damaged in places may still be mended by
 * reading around it. Then the next survey says so.
 */
#include <errno.h>

#include "base/rng.h"
#include "code/health.h"
#include "janitor/impl.h"

enum chunk_fate { CHUNK_THERE, CHUNK_AWAY, CHUNK_GONE };

static enum chunk_fate fate_of(const struct cluster *c, const struct meta_chunk *chunk)
{
	const struct cluster_disk *d = cluster_disk(c, chunk->disk);
	const struct cluster_node *n = d == NULL ? NULL : cluster_node(c, d->node);
	if (chunk->damaged || n == NULL || d->wanted == CLUSTER_GONE || n->wanted == CLUSTER_GONE)
		return CHUNK_GONE;
	/* Of a disk that met an error most can be read. */
	bool away = d->health == CLUSTER_FAILED || n->health == CLUSTER_SUSPECT ||
		    n->health == CLUSTER_FAILED;
	return away ? CHUNK_AWAY : CHUNK_THERE;
}

/* Whether the block can be read without these; what cannot be decided cannot be read either. */
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
	if (c == NULL) /* before the first look at it */
		return sum;
	map_for_each(&c->disks, it) {
		enum chunk_fate fate = fate_of(c, &(struct meta_chunk){.disk = it.key});
		if (fate != CHUNK_THERE)
			sum += mix_u64(it.key ^ (uint64_t)fate << 62);
	}
	return sum;
}

void health_count(struct janitor *j, const struct meta_block *b, struct stats *s)
{
	struct encoding enc;
	struct shape shape;
	int gone[META_CHUNKS_MAX], lacking[META_CHUNKS_MAX], gone_count = 0, lacking_count = 0;
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
		/* Data chunks beyond the end hold nothing, and may be nowhere. */
		bool nothing =
			b->chunks[i].disk == 0 && shape_stored_len(&shape, i, b->length) == 0;
		enum chunk_fate fate =
			nothing ? CHUNK_THERE : fate_of(j->fabric.map, &b->chunks[i]);
		if (fate != CHUNK_THERE)
			lacking[lacking_count++] = i;
		if (fate == CHUNK_GONE)
			gone[gone_count++] = i;
	}
	if (lacking_count == 0)
		return;
	if (tolerated(j, &shape, lacking, lacking_count))
		s->degraded_blocks++;
	else if (tolerated(j, &shape, gone, gone_count))
		s->unreachable_blocks++;
	else
		s->lost_blocks++;
}
