// SPDX-License-Identifier: Apache-2.0
#include "client/block_write.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/err.h"
#include "cluster/cluster.h"
#include "node/label.h"

#define RESERVE_TIMEOUT_NS (2 * NS_PER_S)
#define PUT_TIMEOUT_NS (30 * NS_PER_S)
#define SETTLE_NS (2 * NS_PER_MS)
#define GRACE_MIN_NS (5 * NS_PER_MS)
/* chunks up to this size are put without a reservation, which saves a round trip */
#define SMALL_BYTES (64 * KIB)

/* How many chunks of a block are in one rack and on one node. */
struct same_domain {
	unsigned rack, node;
};

struct accepted {
	uint64_t disk;
	uint64_t reservation;
	uint64_t eta_ns;
};

/* State of one block write, shared by the caller and the fibers of its chunks. Reference-
 * counted: fibers may outlive the caller. Fibers carry the context of the caller. */
struct writing {
	struct call call; /* copy of the caller's call */
	struct block_write w;
	struct shape shape;
	struct coded chunks;
	uint64_t *candidates;
	uint8_t (*tokens)[NODE_TOKEN_BYTES]; /* of the candidates; NULL: none are needed */
	size_t next_candidate;
	struct accepted
		/* candidate_count entries; [taken, accepted_count) are free to use, ordered by
		 * eta_ns */
		*accepted;
	size_t accepted_count, taken;
	bool settled; /* enough reservations were answered, so chunk fibers may take disks */
	/* number of chunks without a disk; when it reaches 0 the unused reservations are
	 * released */
	int unplaced;
	uint64_t *released; /* disks that accepted and whose reservations were released */
	size_t released_count;
	size_t reserving; /* number of running reservation fibers */
	uint64_t *disks;
	/* disk of each chunk: it stores the chunk, or the chunk is being sent to it; 0: none */
	uint64_t *targets;
	/* the most chunks that the first n candidates put into one rack or node */
	struct same_domain limit;
	/* number of chunks whose put has ended, and number of these that were stored */
	int ended, stored;
	struct rt_cond change;
	bool returned; /* block_write_take has returned */
	bool reserve;  /* reservations are requested before puts */
	int last_rc;
	uint64_t last_disk;
	unsigned refs;
};

static void writing_unref(struct writing *g)
{
	assert(g->refs > 0);
	if (--g->refs > 0)
		return;
	assert(g->reserving == 0); /* each reservation fiber holds a reference */
	coded_free(&g->chunks);
	gate_leave(&g->call.fabric->shared->writes, g->w.gate_bytes);
	free(g->candidates);
	free(g->tokens);
	free(g->accepted);
	free(g->released);
	free(g->disks);
	free(g->targets);
	free(g);
}

static void writing_note_error(struct writing *g, uint64_t disk, int rc)
{
	if (rc != -ECANCELED || g->last_rc == 0) {
		g->last_rc = rc;
		g->last_disk = disk;
	}
}

/* --- fault domains ---------------------------------------------------------------------------- */

/* The first n candidates are spread over racks and nodes as far as the cluster allows; the
 * further candidates share racks with them when there are few racks. A candidate that answers
 * sooner must not put two chunks of a block into one rack if one is possible: the loss of that
 * rack would cost two chunks. */

/* Counts the chunks on `disks` that share the rack or node of `disk`. */
static struct same_domain same_domain_count(const struct writing *g, const uint64_t *disks,
					    size_t n, uint64_t disk)
{
	struct same_domain c = {0};
	const struct cluster *map = g->call.fabric->map;
	const struct cluster_node *here = map != NULL ? cluster_node_of(map, disk) : NULL;
	for (size_t i = 0; here != NULL && i < n; i++) {
		const struct cluster_node *there =
			disks[i] != 0 ? cluster_node_of(map, disks[i]) : NULL;
		c.rack += there != NULL && there->rack == here->rack;
		c.node += there != NULL && there->id == here->id;
	}
	return c;
}

static void same_domain_init(struct writing *g)
{
	size_t n = min_u64((uint64_t)g->shape.n, g->w.candidate_count);
	for (size_t i = 0; i < n; i++) {
		struct same_domain c = same_domain_count(g, g->candidates, n, g->candidates[i]);
		g->limit.rack = c.rack > g->limit.rack ? c.rack : g->limit.rack;
		g->limit.node = c.node > g->limit.node ? c.node : g->limit.node;
	}
}

/* Returns whether the rack or node has as many chunks already as the first n candidates would
 * put there. */
static bool same_domain_full(const struct writing *g, struct same_domain c)
{
	return c.rack >= g->limit.rack || c.node >= g->limit.node;
}

static bool same_domain_fewer(struct same_domain a, struct same_domain b)
{
	return a.rack != b.rack ? a.rack < b.rack : a.node < b.node;
}

static struct same_domain same_domain_of(const struct writing *g, uint64_t disk)
{
	return same_domain_count(g, g->targets, (size_t)g->shape.n, disk);
}

/* Returns the token for new chunks on a candidate; NULL: none is needed. */
static const uint8_t *token_of(const struct writing *g, uint64_t disk)
{
	for (size_t i = 0; g->tokens != NULL && i < g->w.candidate_count; i++)
		if (g->candidates[i] == disk)
			return g->tokens[i];
	return NULL;
}

/* --- reservations ----------------------------------------------------------------------------- */

static int reserve_one(struct writing *g, uint64_t disk, struct accepted *out)
{
	struct disk_use u;
	int rc = disk_begin(&g->call, disk, &u);
	if (rc < 0)
		return rc;
	u.node.timeout_ns = RESERVE_TIMEOUT_NS;
	u.node.token = token_of(g, disk);
	uint64_t bytes = g->w.open ? g->w.capacity : g->chunks.chunk[g->shape.n - 1].len;
	rc = node_reserve(&u.node, disk, bytes == 0 ? 1 : bytes, 0, &out->reservation);
	out->eta_ns = u.node.eta_ns;
	disk_end(&g->call, &u, rc, 0);
	return rc;
}

static void release_one(struct writing *g, uint64_t disk, uint64_t reservation)
{
	struct disk_use u;
	if (reservation == 0 || disk_begin(&g->call, disk, &u) < 0)
		return;
	u.node.timeout_ns = RESERVE_TIMEOUT_NS;
	u.node.token = token_of(g, disk);
	/* after an error the reservation expires */
	int rc = node_release(&u.node, disk, reservation);
	disk_end(&g->call, &u, rc, 0);
}

/* Inserts a disk that accepted, ordered by its expected time. */
static void accepted_add(struct writing *g, const struct accepted *a)
{
	assert(g->accepted_count < g->w.candidate_count);
	size_t i = g->accepted_count++;
	for (; i > g->taken && g->accepted[i - 1].eta_ns > a->eta_ns; i--)
		g->accepted[i] = g->accepted[i - 1];
	g->accepted[i] = *a;
}

static void released_add(struct writing *g, uint64_t disk)
{
	assert(g->released_count < g->w.candidate_count);
	g->released[g->released_count++] = disk;
}

/* Sends a reservation to one candidate after another until a candidate accepts. */
static void reserve_fiber(void *arg)
{
	struct writing *g = arg;
	while (!g->returned && g->next_candidate < g->w.candidate_count) {
		uint64_t disk = g->candidates[g->next_candidate++];
		struct accepted a = {.disk = disk};
		int rc = g->reserve ? reserve_one(g, disk, &a) : 0;
		if (rc == 0 && (g->returned || (g->settled && g->unplaced == 0))) {
			released_add(g, disk);
			release_one(g, disk, a.reservation);
			break;
		}
		if (rc == 0) {
			accepted_add(g, &a);
			break;
		}
		writing_note_error(g, disk, rc);
		if (rc == -ECANCELED || rc == -ETIME)
			break;
	}
	assert(g->reserving > 0);
	g->reserving--;
	rt_cond_broadcast(&g->change);
	writing_unref(g);
}

static int reserve_more(struct writing *g)
{
	g->refs++;
	g->reserving++;
	int rc = rt_group_spawn(&g->call.fabric->background, "reserve", reserve_fiber, g);
	if (rc < 0) {
		g->refs--;
		g->reserving--;
	}
	return rc;
}

/* Releases unused reservations: otherwise idle disks look busy to other writers until the
 * reservations expire. */
static void release_fiber(void *arg)
{
	struct writing *g = arg;
	while (g->taken < g->accepted_count) {
		struct accepted a = g->accepted[g->taken++];
		released_add(g, a.disk);
		release_one(g, a.disk, a.reservation);
	}
	writing_unref(g);
}

static void release_rest(struct writing *g)
{
	if (g->taken == g->accepted_count)
		return;
	g->refs++;
	if (rt_group_spawn(&g->call.fabric->background, "release", release_fiber, g) < 0)
		g->refs--; /* no memory for a fiber: the reservations expire instead */
}

/* Returns the index of the accepted disk whose rack and node have the fewest chunks of the
 * block; of several, the one with the shortest expected time. */
static size_t best_accepted(const struct writing *g, struct same_domain *least)
{
	assert(g->taken < g->accepted_count);
	size_t best = g->taken;
	*least = same_domain_of(g, g->accepted[best].disk);
	for (size_t i = best + 1; i < g->accepted_count; i++) {
		struct same_domain c = same_domain_of(g, g->accepted[i].disk);
		if (same_domain_fewer(c, *least)) {
			*least = c;
			best = i;
		}
	}
	return best;
}

/* Takes the released disk whose rack and node have the fewest chunks of the block. */
static uint64_t released_pick(struct writing *g)
{
	assert(g->released_count > 0);
	size_t best = g->released_count - 1;
	for (size_t i = best; i-- > 0;)
		if (same_domain_fewer(same_domain_of(g, g->released[i]),
				      same_domain_of(g, g->released[best])))
			best = i;
	uint64_t disk = g->released[best];
	g->released[best] = g->released[--g->released_count];
	return disk;
}

static void accepted_pick(struct writing *g, size_t i, struct accepted *out)
{
	assert(i >= g->taken && i < g->accepted_count);
	assert(g->unplaced > 0);
	*out = g->accepted[i];
	memmove(&g->accepted[g->taken + 1], &g->accepted[g->taken],
		(i - g->taken) * sizeof(g->accepted[0]));
	g->taken++;
	if (--g->unplaced == 0)
		release_rest(g);
}

/* Waits until a disk has accepted a reservation and takes that disk for a chunk. */
static int accepted_take(struct writing *g, struct accepted *out)
{
	for (;;) {
		if (g->settled && g->taken < g->accepted_count) {
			struct same_domain least;
			size_t i = best_accepted(g, &least);
			/* A disk that has not answered yet may be in a rack with fewer chunks. */
			if (!same_domain_full(g, least) || g->reserving == 0) {
				accepted_pick(g, i, out);
				return 0;
			}
		}
		if (g->returned)
			return -ECANCELED;
		if (g->settled && g->released_count > 0 && g->taken == g->accepted_count) {
			assert(g->unplaced > 0);
			*out = (struct accepted){.disk = released_pick(g)};
			g->unplaced--;
			return 0;
		}
		if (g->settled && g->reserving == 0 &&
		    (g->next_candidate == g->w.candidate_count || reserve_more(g) < 0))
			return -ENOSPC;
		int rc = rt_cond_wait(&g->change);
		if (rc < 0)
			return rc;
	}
}

/* --- chunks ----------------------------------------------------------------------------------- */

struct chunk_job {
	struct writing *g;
	int chunk;
};

static int put_one(struct writing *g, int chunk, const struct accepted *a)
{
	struct disk_use u;
	int rc = disk_begin(&g->call, a->disk, &u);
	if (rc < 0)
		return rc;
	struct slice *data = &g->chunks.chunk[chunk];
	if (data->buf != NULL)
		fabric_tamper(g->call.fabric, TAMPER_SENDING, data->buf->data + data->offset,
			      data->len);
	struct node_put p = {
		.data = *data,
		.epoch = g->w.epoch,
		.open = g->w.open,
		.capacity = g->w.open ? g->w.capacity : 0,
		.reservation = a->reservation,
	};
	label_make(p.label, call_tenant(&g->call), g->w.owner != 0 ? g->w.owner : g->w.block,
		   rt_random_u64());
	struct chunk_id id = {.block = g->w.block, .index = (uint32_t)chunk};
	u.node.timeout_ns = PUT_TIMEOUT_NS;
	u.node.token = token_of(g, a->disk);
	rc = node_put(&u.node, a->disk, id, &p);
	disk_end(&g->call, &u, rc, 0);
	if (bug_planted(BUG_UNSURE_DELETE) && rc < 0 && u.node.maybe_executed &&
	    disk_begin(&g->call, a->disk, &u) == 0) {
		u.node.timeout_ns = RESERVE_TIMEOUT_NS;
		disk_end(&g->call, &u, node_delete_one(&u.node, a->disk, id), 0);
	}
	/* After an error the chunk may still be on the disk, as an orphan, and a repair may have
	 * found it and rely on it. So it is never deleted here. */
	return rc;
}

struct late_call {
	const struct block_write *w;
	struct late_chunk chunk;
};

static void late_run(void *arg)
{
	const struct late_call *l = arg;
	l->w->late(l->w->late_ctx, &l->chunk);
}

/* Reports a chunk that ended after the return. The home loop has what the report needs. If it cannot run, the
 * record names the chunk as missing, and repair rebuilds it. */
static void chunk_report(const struct writing *g, int chunk, uint64_t disk, int rc)
{
	if (!g->returned || g->w.late == NULL || g->call.fabric->closing)
		return;
	struct late_call l = {
		.w = &g->w,
		.chunk = {.block = g->w.owner != 0 ? g->w.owner : g->w.block,
			  .chunk_block = g->w.block,
			  .chunk = chunk,
			  .disk = disk,
			  .crc = g->chunks.chunk[chunk].crc,
			  .release_count = g->w.release_count,
			  .rc = rc},
	};
	(void)fabric_run_home(g->call.fabric, late_run, &l);
}

/* Puts one chunk, on another disk after each failure. Ends when a disk stored it or no disk is
 * left. */
static void chunk_fiber(void *arg)
{
	struct chunk_job *job = arg;
	struct writing *g = job->g;
	int chunk = job->chunk;
	free(job);
	struct accepted a = {0};
	int rc;
	for (;;) {
		rc = accepted_take(g, &a);
		if (rc < 0)
			break;
		assert(g->targets[chunk] == 0); /* a chunk is on its way to one disk at most */
		g->targets[chunk] = a.disk;
		rc = put_one(g, chunk, &a);
		if (rc == 0)
			break;
		writing_note_error(g, a.disk, rc);
		g->targets[chunk] = 0;
		g->unplaced++;
		/* -EBADMSG: the bytes changed in memory; another disk would refuse them, too. */
		if (rc == -ECANCELED || rc == -ETIME || rc == -EBADMSG)
			break;
	}
	assert(g->ended < g->shape.n && g->stored <= g->ended);
	g->ended++;
	if (rc == 0) {
		g->stored++;
		g->disks[chunk] = a.disk;
	}
	chunk_report(g, chunk, a.disk, rc);
	rt_cond_broadcast(&g->change);
	writing_unref(g);
}

static int chunk_start(struct writing *g, int chunk)
{
	assert(chunk >= 0 && chunk < g->shape.n);
	struct chunk_job *job = malloc(sizeof(*job));
	if (job == NULL)
		return -ENOMEM;
	*job = (struct chunk_job){.g = g, .chunk = chunk};
	g->refs++;
	int rc = rt_group_spawn(&g->call.fabric->background, "put", chunk_fiber, job);
	if (rc < 0) {
		g->refs--;
		free(job);
	}
	return rc;
}

/* --- one block write -------------------------------------------------------------------------- */

static struct writing *writing_new(struct call *c, const struct block_write *w,
				   struct coded *chunks)
{
	struct writing *g = calloc(1, sizeof(*g));
	if (g == NULL)
		return NULL;
	g->call = *c;
	/* the text is in the caller's memory, which is invalid after the return */
	g->call.encoding = NULL;
	g->w = *w;
	g->shape = *w->shape;
	g->refs = 1;
	g->chunks = *chunks;
	*chunks = (struct coded){0};
	rt_cond_init(&g->change);
	g->candidates = calloc(w->candidate_count + 1, sizeof(*g->candidates));
	if (w->tokens != NULL)
		g->tokens = calloc(w->candidate_count + 1, sizeof(*g->tokens));
	g->accepted = calloc(w->candidate_count + 1, sizeof(*g->accepted));
	g->released = calloc(w->candidate_count + 1, sizeof(*g->released));
	g->unplaced = g->shape.n;
	g->disks = calloc((size_t)g->shape.n, sizeof(*g->disks));
	g->targets = calloc((size_t)g->shape.n, sizeof(*g->targets));
	if (g->candidates == NULL || (w->tokens != NULL && g->tokens == NULL) ||
	    g->accepted == NULL || g->released == NULL || g->disks == NULL || g->targets == NULL) {
		g->w.gate_bytes = 0; /* the caller leaves the gate */
		writing_unref(g);
		return NULL;
	}
	if (w->candidate_count > 0)
		memcpy(g->candidates, w->candidates, w->candidate_count * sizeof(*w->candidates));
	if (w->tokens != NULL && w->candidate_count > 0)
		memcpy(g->tokens, w->tokens, w->candidate_count * sizeof(*w->tokens));
	same_domain_init(g);
	bool large = g->w.open || g->chunks.chunk[g->shape.n - 1].len > SMALL_BYTES;
	g->reserve = large && !g->w.no_reserve;
	return g;
}

/* Waits until the quorum is reached and the grace for the rest is over, or the quorum is out of
 * reach. */
static int writing_wait(struct writing *g)
{
	uint64_t start_ns = rt_now_ns();
	int rc = 0;
	while (rc == 0 && g->stored < g->w.quorum && g->ended < g->shape.n)
		rc = rt_cond_wait(&g->change);
	if (rc < 0 || g->stored < g->w.quorum || g->w.no_grace)
		return rc;
	uint64_t now_ns = rt_now_ns();
	uint64_t before_ns =
		rt_deadline_narrow(now_ns + max_u64(GRACE_MIN_NS, (now_ns - start_ns) / 4));
	while (rc == 0 && g->ended < g->shape.n)
		rc = rt_cond_wait(&g->change);
	rt_deadline_set(before_ns);
	return rc == -ECANCELED ? rc : 0;
}

/* Waits until all reservations are answered, or n disks accepted and SETTLE_NS passed. Then
 * disks may be taken. */
static int writing_settle(struct writing *g)
{
	int rc = 0;
	while (rc == 0 && g->reserving > 0 && g->accepted_count < (size_t)g->shape.n)
		rc = rt_cond_wait(&g->change);
	uint64_t before_ns = rt_deadline_narrow(rt_now_ns() + SETTLE_NS);
	while (rc == 0 && g->reserving > 0)
		rc = rt_cond_wait(&g->change);
	rt_deadline_set(before_ns);
	g->settled = true;
	rt_cond_broadcast(&g->change);
	return rc == -ECANCELED ? rc : 0;
}

static int writing_start(struct writing *g)
{
	int rc = 0;
	size_t ask = (size_t)g->shape.n + (size_t)g->w.extra;
	if (!g->reserve)
		ask = (size_t)g->shape.n;
	for (size_t i = 0; rc == 0 && i < ask && i < g->w.candidate_count; i++)
		rc = reserve_more(g);
	for (int i = 0; rc == 0 && i < g->shape.n; i++)
		rc = chunk_start(g, i);
	return rc;
}

static int writing_result(struct call *c, struct writing *g, int rc)
{
	if (rc < 0)
		return rc;
	if (g->stored >= g->w.quorum) {
		c->fabric->shared->stats.blocks_written++;
		c->fabric->shared->stats.blocks_short += g->stored < g->shape.n;
		return 0;
	}
	rc = g->last_rc == -EBADMSG || g->last_rc == -EDQUOT ? g->last_rc : -ENOSPC;
	if (g->last_rc == 0)
		return call_fail(c, rc, "%d of %d chunks were stored, %d are needed", g->stored,
				 g->shape.n, g->w.quorum);
	return call_fail(c, rc,
			 "%d of %d chunks were stored, %d are needed; last failure: disk %llu: %s",
			 g->stored, g->shape.n, g->w.quorum, (unsigned long long)g->last_disk,
			 err_text(g->last_rc));
}

int block_write_take(struct call *c, const struct block_write *w, struct coded *chunks,
		     uint64_t *disks)
{
	assert(w->quorum > 0 && w->quorum <= w->shape->n);
	assert(chunks->n == w->shape->n);
	struct writing *g = writing_new(c, w, chunks);
	if (g == NULL) {
		coded_free(chunks);
		gate_leave(&c->fabric->shared->writes, w->gate_bytes);
		return -ENOMEM;
	}
	int rc = writing_start(g);
	if (rc == 0)
		rc = writing_settle(g);
	if (rc == 0)
		rc = writing_wait(g);
	rc = writing_result(c, g, rc);
	memcpy(disks, g->disks, (size_t)g->shape.n * sizeof(*disks));
	g->returned = true;
	rt_cond_broadcast(&g->change);
	release_rest(g);
	writing_unref(g);
	return rc;
}
