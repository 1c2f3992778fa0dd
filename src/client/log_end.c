// SPDX-License-Identifier: Apache-2.0
/*
 * Ends the open block of a log, written by this writer or by another one.
 *
 * Taking over. A new writer (1) takes the file's write token, so that the old writer can add no block, (2) raises the
 * epoch of the open block in its record, so that the old writer can commit no append, (3) raises the epoch at the
 * replicas and cuts them to L, the length in the record. Then it starts a block of its own.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/bug.h"
#include "client/engine_impl.h"

#define END_TIMEOUT_NS (3 * NS_PER_S)
#define END_DOUBTFUL_NS (200 * NS_PER_MS)
#define REPORT_NS (10 * NS_PER_S)

/* Argument of the fiber that ends one replica: the fiber cuts the replica to len and seals it. */
struct end_job {
	struct call *call;
	uint64_t block, epoch, len, disk;
	int index;
	bool doubtful;
	const uint8_t *token;
	int rc;
};

static void end_fiber(void *arg)
{
	struct end_job *j = arg;
	struct disk_use u;
	j->rc = disk_begin(j->call, j->disk, &u);
	if (j->rc < 0)
		return;
	struct chunk_id id = {j->block, (uint32_t)j->index};
	u.node.timeout_ns = j->doubtful ? END_DOUBTFUL_NS : END_TIMEOUT_NS;
	u.node.token = j->token;
	j->rc = node_seal(&u.node, j->disk, id, j->epoch, j->len, NULL);
	disk_end(j->call, &u, j->rc, 0);
}

int elog_replicas_end(struct call *c, uint64_t block, uint64_t epoch, uint64_t len,
		      const uint64_t *disks, const bool *doubtful, int n)
{
	assert(n > 0 && n <= LOG_REPLICAS_MAX && len > 0);
	struct end_job jobs[LOG_REPLICAS_MAX];
	uint8_t tokens[LOG_REPLICAS_MAX][META_TOKEN_BYTES];
	int rc = call_replica_tokens(c, block, epoch, (size_t)n, tokens);
	if (rc < 0)
		return rc;
	struct rt_group g;
	rt_group_init(&g);
	for (int i = 0; i < n; i++) {
		jobs[i] = (struct end_job){.call = c,
					   .block = block,
					   .epoch = epoch,
					   .len = len,
					   .disk = disks[i],
					   .index = i,
					   .token = tokens[i],
					   .doubtful = doubtful != NULL && doubtful[i],
					   .rc = -ENODEV};
		if (disks[i] != 0 && rt_group_spawn(&g, "end", end_fiber, &jobs[i]) < 0)
			end_fiber(&jobs[i]);
	}
	rt_group_join(&g);
	int ended = 0;
	bool fenced = false;
	for (int i = 0; i < n; i++) {
		ended += jobs[i].rc == 0;
		fenced = fenced || jobs[i].rc == -ESTALE;
	}
	for (int i = 0; ended > 0 && i < n; i++) {
		/* A refusal because of a newer epoch does not mean that the replica is bad. */
		if (jobs[i].rc == 0 || jobs[i].rc == -ESTALE || disks[i] == 0)
			continue;
		struct meta_call m = call_meta(c);
		(void)meta_client_block_report(&m, block, block, (uint32_t)i, disks[i]);
	}
	if (ended > 0)
		return 0; /* if another writer fenced the block later, sealing the record fails */
	return fenced ? call_fail(c, -ESTALE, "another writer has taken over the log")
		      : call_fail(c, -ENODATA,
				  "no replica of the log's last block is reachable: retry when its "
				  "nodes are online");
}

/* --- reports of replicas -------------------------------------------------------------------------- */

struct replica_report_job {
	struct engine *engine;
	uint64_t block, epoch, disk;
	uint32_t index;
};

static void replica_report_fiber(void *arg)
{
	struct replica_report_job *r = arg;
	struct call c;
	struct meta_block b;
	struct arena a;
	arena_init(&a, 256 * KIB);
	engine_own_call(r->engine, &c);
	rt_deadline_set(rt_now_ns() + REPORT_NS);
	struct meta_call m = call_meta(&c);
	/* If the block was ended since, its replicas were checked and reported then. */
	if (meta_client_block_get(&m, &r->block, 1, &a, &b) == 0 && b.state == META_BLOCK_OPEN &&
	    b.epoch == r->epoch)
		(void)meta_client_block_report(&m, r->block, b.chunk_block, r->index, r->disk);
	arena_fini(&a);
	free(r);
}

void elog_replica_report(struct engine *e, uint64_t block, uint64_t epoch, int index, uint64_t disk)
{
	assert(disk != 0 && index >= 0 && index < LOG_REPLICAS_MAX);
	struct replica_report_job *r = e->fabric->closing ? NULL : malloc(sizeof(*r));
	if (r == NULL)
		return;
	*r = (struct replica_report_job){.engine = e,
					 .block = block,
					 .epoch = epoch,
					 .disk = disk,
					 .index = (uint32_t)index};
	if (rt_group_spawn(&e->fabric->background, "report", replica_report_fiber, r) < 0)
		free(r);
}

/* --- taking over --------------------------------------------------------------------------------- */

/* Ends a block that another writer left open. *len: its committed length. */
static int block_take_over(struct call *c, uint64_t block, uint64_t *len)
{
	struct arena a;
	arena_init(&a, 256 * KIB);
	struct meta_block b;
	struct meta_call m = call_meta(c);
	int rc = meta_client_block_get(&m, &block, 1, &a, &b);
	if (rc == 0 && b.state == 0)
		rc = -ENOENT;
	bool sealed = false;
	if (rc == 0 && !bug_planted(BUG_FENCE_FORGOTTEN)) {
		rc = meta_client_block_fence(&m, block, b.epoch + 1, &a, &b);
		sealed = rc == -EROFS;
		rc = sealed ? 0 : rc;
	}
	call_meta_fail(c, &m, rc, "cannot end the log's last block");
	/* The old writer may have used disks that this map lacks: their replicas would count as
	 * lost. */
	if (rc == 0 && !sealed && b.length > 0)
		rc = engine_map(c, 0);
	if (rc == 0 && !sealed && b.length > 0) {
		uint64_t disks[LOG_REPLICAS_MAX] = {0};
		int n = (int)(b.chunk_count < LOG_REPLICAS_MAX ? b.chunk_count : LOG_REPLICAS_MAX);
		for (int i = 0; i < n; i++)
			disks[i] = b.chunks[i].disk;
		rc = elog_replicas_end(c, b.chunk_block, b.epoch, b.length, disks, NULL, n);
	}
	if (rc == 0 && !sealed && b.length > 0)
		rc = call_meta_fail(
			c, &m,
			meta_client_block_seal(&m, block, b.epoch, b.length, b.length, b.crc),
			"cannot end the log's last block");
	*len = rc == 0 ? b.length : 0;
	arena_fini(&a);
	return rc;
}

int elog_take_over(struct call *c, uint64_t file, uint64_t token, uint64_t *size)
{
	struct meta_file f;
	struct meta_extent open = {0};
	struct meta_call m = call_meta(c);
	int rc = meta_client_file_steal(&m, file, token, &f, &open);
	if (rc < 0)
		return call_meta_fail(c, &m, rc, "cannot take over the log");
	*size = f.size;
	if (open.block == 0)
		return 0;
	uint64_t len = 0;
	rc = block_take_over(c, open.block, &len);
	if (rc < 0)
		return rc;
	rc = meta_client_file_close_extent(&m, file, token, open.block, len);
	*size += len;
	return call_meta_fail(c, &m, rc, "cannot take over the log");
}
