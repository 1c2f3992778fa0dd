// SPDX-License-Identifier: Apache-2.0
/*
 * Selects the blocks to compact: sealed blocks with dead_percent or more of their bytes owned by no file.
 * client/compact.c copies them.
 *
 * Only the collector removes owners from a block. So a block becomes partly dead when its deleted files
 * are collected, and a block that was compacted keeps its owners for one or two grace periods more: the
 * janitor remembers it that long. Blocks without owners are left to the collector.
 *
 * Several blocks of one tenant, encoding and media are compacted together, as long as their live bytes fit
 * into one block.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "client/engine.h"
#include "janitor/impl.h"
#include "rt/rt.h"

#define TOGETHER_BYTES ((uint64_t)(32 * MIB))
#define REMEMBER_EPOCHS 6

static uint64_t key_of(uint32_t tenant, uint64_t block)
{
	return hash64_u64s(block, tenant);
}

static bool is_remembered(struct janitor *j, uint32_t tenant, uint64_t block)
{
	const struct sighting *s = map_get(&j->compacted, key_of(tenant, block));
	if (s == NULL)
		return false;
	if (j->survey_epoch <= s->epoch + REMEMBER_EPOCHS)
		return true;
	free(map_remove(&j->compacted, key_of(tenant, block)));
	return false;
}

static void remember(struct janitor *j, uint32_t tenant, uint64_t block)
{
	struct sighting *s = malloc(sizeof(*s));
	if (s == NULL)
		return;
	s->epoch = j->survey_epoch;
	free(map_remove(&j->compacted, key_of(tenant, block)));
	if (map_put(&j->compacted, key_of(tenant, block), s) < 0)
		/*
		 * Without memory to remember the block, the next survey compacts the block again,
		 * without effect.
		 */
		free(s);
}

bool compact_wants(struct janitor *j, const struct meta_block_at *b)
{
	uint64_t length = b->block.length;
	return b->block.state == META_BLOCK_SEALED && b->owned_bytes > 0 &&
	       b->owned_bytes <= length / 100 * (100 - j->opts.dead_percent) &&
	       b->owned_bytes < length && !is_remembered(j, b->tenant, b->block.id);
}

static int by_kind(const void *a, const void *b)
{
	const struct job *x = a, *y = b;
	if (x->tenant != y->tenant)
		return x->tenant < y->tenant ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return (x->block > y->block) - (x->block < y->block);
}

static int blocks_rewrite(struct janitor *j, uint32_t tenant, const struct meta_block *b, size_t n,
			  uint64_t live_bytes)
{
	struct engine_compacted done = {0};
	struct tenant_call e;
	int rc = rewrite_wait(j, b, n, live_bytes);
	if (rc < 0)
		return rc;
	AUTO_RT_CONTEXT const struct context *before = tenant_call_init(j, &e, tenant);
	uint64_t before_ns = rewrite_call(&e);
	rc = engine_compact(&e.call, b, n, &done);
	rt_deadline_set(before_ns);
	if (rc < 0 && rc != -ECANCELED)
		log_warn("compact", "tenant=%u rc=%d text=%s", tenant, rc, LOG_QUOTE(e.call.error));
	j->stats.compacted_bytes += done.bytes;
	j->stats.compact_overtaken += done.overtaken;
	return rc;
}

static int blocks_compact(struct janitor *j, uint32_t tenant, const uint64_t *blocks, size_t n,
			  uint64_t live_bytes)
{
	struct arena a;
	arena_init(&a, 8 * MIB);
	assert(n > 0 && n <= ENGINE_COMPACT_MAX);
	struct meta_block *b = arena_alloc(&a, n * sizeof(*b));
	int rc = b == NULL ? -ENOMEM : rewrite_records(j, tenant, blocks, n, &a, b);
	if (rc == 0)
		rc = blocks_rewrite(j, tenant, b, n, live_bytes);
	arena_fini(&a);
	if (rc == -ECANCELED)
		return rc;
	/* Blocks whose compaction failed, for example for lack of space, are retried after the
	 * same time. */
	for (size_t i = 0; i < n; i++)
		remember(j, tenant, blocks[i]);
	j->stats.blocks_compacted += rc == 0 ? n : 0;
	return 0;
}

int compact_run(struct janitor *j, struct jobs *w)
{
	uint64_t blocks[ENGINE_COMPACT_MAX];
	struct job job;
	int rc = 0;
	qsort(w->list, w->count, sizeof(*w->list), by_kind);
	while (rc == 0 && jobs_next(j, w, &job, &rc)) {
		uint64_t live = job.live_bytes;
		size_t n = 0;
		blocks[n++] = job.block;
		for (; w->next < w->count && n < ENGINE_COMPACT_MAX; w->next++) {
			const struct job *next = &w->list[w->next];
			if (next->tenant != job.tenant || next->kind != job.kind ||
			    live + next->live_bytes > TOGETHER_BYTES)
				break;
			live += next->live_bytes;
			blocks[n++] = next->block;
		}
		rc = blocks_compact(j, job.tenant, blocks, n, live);
	}
	return rc;
}
