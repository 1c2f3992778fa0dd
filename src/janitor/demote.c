// SPDX-License-Identifier: Apache-2.0
/*
 * Demotion: moves blocks from flash to disk when their files outlive their class.
 *
 * A file gets flash because files of its category are deleted soon or read often. A file that stays much longer than the
 * others of its tenant's category keeps flash from them: its blocks are moved to disk. The age is that of the block, by the
 * clocks of metadata servers alone; the limit of a class follows from the outcomes that these know (placement/trust.h).
 * Only blocks that the metadata service put on flash are moved, not those of callers who named flash.
 *
 * A move is a new layout (client/reencode.c): the chunks on flash are released when the record names the new ones on disk, so
 * that readers find the block at every moment.
 */
#include <assert.h>
#include <errno.h>

#include "base/log.h"
#include "client/engine.h"
#include "janitor/impl.h"
#include "rt/rt.h"

#define CLASSES_BYTES (1 * MIB)

static bool has_flash(const struct cluster *map)
{
	map_for_each(&map->disks, it) {
		const struct cluster_disk *d = it.value;
		if (d->media == CLUSTER_MEDIA_FLASH)
			return true;
	}
	return false;
}

int demote_load(struct janitor *j)
{
	struct tenant_call e;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, 0);
	struct meta_call m = tenant_call_meta(j, &e);
	arena_fini(&j->placement_arena);
	arena_init(&j->placement_arena, CLASSES_BYTES);
	j->placement = (struct meta_placement){0};
	if (!has_flash(j->fabric.map))
		return 0;
	int rc = meta_client_placement(&m, &j->placement_arena, &j->placement);
	if (rc < 0)
		j->placement = (struct meta_placement){0};
	return rc == -ECANCELED ? rc : 0; /* without it this survey moves nothing to disk */
}

bool demote_wants(struct janitor *j, const struct meta_block_at *at)
{
	const struct meta_block *b = &at->block;
	const struct meta_placement *p = &j->placement;
	if (p->now_s == 0 || b->placement <= META_PLACEMENT_UNKNOWN || b->born_s == 0 ||
	    b->media != CLUSTER_MEDIA_FLASH || b->state != META_BLOCK_SEALED || b->length == 0)
		return false;
	uint64_t age_s = p->now_s - min_u64(b->born_s, p->now_s);
	return (double)age_s >
	       meta_placement_life_s(p, at->tenant, b->placement - META_PLACEMENT_UNKNOWN);
}

static int block_demote(struct janitor *j, const struct job *job)
{
	struct tenant_call e;
	struct meta_block b;
	struct arena a;
	arena_init(&a, 256 * KIB);
	int rc = rewrite_records(j, job->tenant, &job->block, 1, &a, &b);
	if (rc == 0 && b.state == META_BLOCK_SEALED && b.media == CLUSTER_MEDIA_FLASH)
		rc = rewrite_wait(j, &b, 1, job->live_bytes);
	if (rc < 0 || b.state != META_BLOCK_SEALED || b.media != CLUSTER_MEDIA_FLASH) {
		arena_fini(&a);
		return rc;
	}
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, job->tenant);
	uint64_t before_ns = rewrite_call(&e);
	assert(b.placement > META_PLACEMENT_UNKNOWN); /* only its allocation sets it */
	e.call.media = TERRANE_MEDIA_DISK;
	rc = engine_block_reencode(&e.call, &b, b.encoding);
	rt_deadline_set(before_ns);
	arena_fini(&a);
	if (rc < 0 && rc != -ECANCELED && rc != -ENOENT && rc != -ESTALE)
		log_warn("demote", "block=%016lx rc=%d text=%s", job->block, rc,
			 LOG_QUOTE(e.call.error));
	j->stats.blocks_demoted += rc == 0;
	j->stats.demoted_bytes += rc == 0 ? job->live_bytes : 0;
	return rc;
}

int demote_run(struct janitor *j, struct jobs *w)
{
	struct job job;
	int rc = 0;
	while (rc == 0 && jobs_next(j, w, &job, &rc)) {
		int done = block_demote(j, &job);
		if (done == -ECANCELED || done == -ENOMEM)
			rc = done;
	}
	return rc;
}
