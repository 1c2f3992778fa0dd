// SPDX-License-Identifier: Apache-2.0
/* Requests about disks and pools. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "node/service_impl.h"
#include "sched/usage.h"

/* bytes that the scheduler charges for a page of losses: roughly the rows that it reads */
#define LOSSES_BYTES (1 * MIB)

/* --- descriptions ---------------------------------------------------------------------------- */

/* Returns the reason, as text, why a disk in this state is not online. */
static const char *state_reason(enum store_state state)
{
	switch (state) {
	case STORE_SUSPECT:
		return "an I/O error occurred; the node probes the disk until a probe succeeds";
	case STORE_FULL:
		return "the disk is full";
	case STORE_DRAINING:
		return "an operator ordered it to drain";
	case STORE_FAILED:
		return "the disk failed; order it online to reopen it";
	default:
		return "";
	}
}

/* Describes a member that is not online, from the keeper's last check. *out is NULL for a member
 * that is online. Does not wait, so the member cannot be closed during the call. */
static int member_info(struct rpc_request *r, struct node_disk *d, uint32_t m,
		       Terrane__Node__PoolMember **out)
{
	struct store *s = d->pool != NULL ? store_pool_member(d->pool, m) : NULL;
	enum store_state state = s != NULL ? d->slots[m].state : STORE_FAILED;
	*out = NULL;
	if (state == STORE_ONLINE)
		return 0;
	Terrane__Node__PoolMember *p = rpc_alloc(r, sizeof(*p));
	if (p == NULL)
		return -ENOMEM;
	terrane__node__pool_member__init(p);
	p->member = m;
	p->disk = d->slots[m].folder->disk;
	p->state = (Terrane__Node__DiskState)state;
	const char *why = d->slots[m].trouble;
	if (s != NULL)
		why = state == STORE_FAILED
			      ? "the member failed; order the pool online to reopen it"
			      : state_reason(state);
	else if (d->pool != NULL && store_pool_given_up(d->pool, m))
		why = "the member was given up; its rows are rebuilt on others";
	else if (d->overdrawn)
		why = "the pool waits for this member: more members are out than the code "
		      "tolerates";
	else if (why[0] == 0)
		why = "the disk is not a member of this pool; replace the member";
	p->trouble = (char *)why;
	*out = p;
	return 0;
}

static int pool_info(struct rpc_request *r, struct node_disk *d, Terrane__Node__PoolInfo **out)
{
	const struct node_disk_spec *spec = d->spec;
	const struct node_rebuild *b = &d->rebuild;
	Terrane__Node__PoolInfo *p = rpc_alloc(r, sizeof(*p));
	Terrane__Node__PoolMember **down = rpc_alloc(r, spec->folder_count * sizeof(down[0]));
	if (p == NULL || down == NULL)
		return -ENOMEM;
	terrane__node__pool_info__init(p);
	p->k = spec->shape.k;
	p->p = spec->shape.p;
	p->members = spec->folder_count;
	p->placement = (uint32_t)spec->shape.place;
	p->piece_bytes = spec->shape.piece_bytes;
	p->rebuilding = b->running;
	p->rebuilt_rows = b->rows + (b->running ? b->progress.rebuilt : 0);
	p->rebuilt_bytes = b->bytes + (b->running ? b->progress.bytes : 0);
	p->rebuild_chunks = b->progress.chunks;
	p->lost_chunks = b->progress.lost;
	p->failed_rows = b->progress.failed;
	p->rebuilds = b->ended;
	p->spares = spec->spare_count;
	p->down = down;
	for (uint32_t m = 0; m < spec->folder_count; m++) {
		int rc = member_info(r, d, m, &down[p->n_down]);
		if (rc < 0)
			return rc;
		p->n_down += down[p->n_down] != NULL;
	}
	*out = p;
	return 0;
}

static int disk_info(struct rpc_request *r, struct node_disk *d, Terrane__Node__DiskInfo **out)
{
	struct store_info info;
	Terrane__Node__DiskInfo *m = rpc_alloc(r, sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	node_disk_info(d, &info);
	terrane__node__disk_info__init(m);
	m->disk = d->spec->disk;
	m->state = (Terrane__Node__DiskState)info.state;
	m->total_bytes = info.total_bytes;
	m->free_bytes = info.free_bytes;
	m->reserved_bytes = info.reserved_bytes;
	m->io_errors = info.io_errors;
	m->checksum_errors = info.checksum_errors;
	m->rolled_back = info.rolled_back;
	m->trouble = d->store == NULL ? d->trouble : (char *)state_reason(info.state);
	m->kind = d->spec->mem ? (char *)"mem" : d->spec->pool ? (char *)"pool" : (char *)"dir";
	m->emulate = d->spec->emulate != NULL ? (char *)d->spec->emulate->name : (char *)"";
	m->is_flash = d->spec->is_flash;
	if (!d->spec->pool && !d->spec->mem)
		m->created_ns = d->slots[0].created_wall_ns;
	*out = m;
	return d->spec->pool ? pool_info(r, d, &m->pool) : 0;
}

struct describing {
	struct rpc_request *r;
	struct node_part *part;
	int rc;
};

/* Adds the disks of a part to the response, on the loop of the part. */
static void describe_part(void *arg)
{
	struct describing *g = arg;
	const Terrane__Node__DisksRequest *q = rpc_body(g->r);
	Terrane__Node__DisksResponse *reply = rpc_reply_body(g->r);
	struct node_disks *set = &g->part->disks;
	for (size_t i = 0; i < set->count && g->rc == 0; i++) {
		struct node_disk *d = &set->disks[i];
		assert(d->spec->disk != 0 && d->owner == set);
		if (q->disk != 0 && d->spec->disk != q->disk)
			continue;
		g->rc = disk_info(g->r, d, &reply->disks[reply->n_disks]);
		reply->n_disks += g->rc == 0;
	}
}

int handle_disks(struct rpc_request *r)
{
	const Terrane__Node__DisksRequest *q = rpc_body(r);
	Terrane__Node__DisksResponse *reply = rpc_reply_body(r);
	struct node *n = r->service;
	const struct node_disks_options *o = &n->options->disks;
	if (q->disk != 0 && node_part_of(n, q->disk) == NULL)
		return rpc_fail(r, -ENODEV, "this node has no disk %llu",
				(unsigned long long)q->disk);
	reply->cluster_high = o->cluster[0];
	reply->cluster_low = o->cluster[1];
	reply->node = o->node;
	reply->disks = rpc_alloc(r, (o->disk_count + 1) * sizeof(reply->disks[0]));
	if (reply->disks == NULL)
		return -ENOMEM;
	int rc = 0;
	for (unsigned i = 0; i < n->part_count && rc == 0; i++) {
		struct describing g = {.r = r, .part = &n->parts[i]};
		if (q->disk != 0 && node_part_of(n, q->disk) != g.part)
			continue;
		rc = node_part_call(g.part, describe_part, &g);
		rc = rc != 0 ? rc : g.rc;
	}
	return rc;
}

/* --- use by traffic group --------------------------------------------------------------------- */

struct adding {
	struct node_part *part;
	struct sched_usages *sum;
};

/* Adds the use of the disks of a part, on the loop of the part. */
static void add_part(void *arg)
{
	struct adding *g = arg;
	for (size_t i = 0; i < g->part->disks.count; i++)
		sched_usage_add(g->part->disks.disks[i].sched, g->sum);
}

static int set_usage(struct rpc_request *r, const struct sched_usages *sum)
{
	Terrane__Node__UsageResponse *p = rpc_reply_body(r);
	p->groups = rpc_alloc(r, (sum->count + 1) * sizeof(p->groups[0]));
	Terrane__Node__GroupUsage *all = rpc_alloc(r, (sum->count + 1) * sizeof(*all));
	if (p->groups == NULL || all == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < sum->count; i++) {
		const struct sched_usage *u = &sum->list[i];
		terrane__node__group_usage__init(&all[i]);
		all[i].group = rpc_alloc(r, strlen(u->group) + 1);
		if (all[i].group == NULL)
			return -ENOMEM;
		memcpy(all[i].group, u->group, strlen(u->group) + 1);
		all[i].requests = u->requests;
		all[i].refused = u->refused;
		all[i].bytes = u->bytes;
		all[i].disk_ns = u->disk_ns;
		all[i].waiting = u->waiting;
		p->groups[p->n_groups++] = &all[i];
	}
	return 0;
}

int handle_usage(struct rpc_request *r)
{
	struct node *n = r->service;
	AUTO_FREE struct sched_usages *sum = calloc(1, sizeof(*sum));
	if (sum == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < n->part_count; i++) {
		struct adding g = {.part = &n->parts[i], .sum = sum};
		int rc = node_part_call(g.part, add_part, &g);
		if (rc < 0)
			return rc;
	}
	return set_usage(r, sum);
}

int handle_control(struct rpc_request *r)
{
	const Terrane__Node__ControlRequest *q = rpc_body(r);
	Terrane__Node__ControlResponse *reply = rpc_reply_body(r);
	struct node *n = r->service;
	struct node_disk *d = node_disk_find(&node_part_here(n)->disks, q->disk);
	enum store_state state;
	struct store_info info;
	if (d == NULL)
		return rpc_fail(r, -ENODEV, "this node has no disk %llu",
				(unsigned long long)q->disk);
	if (node_state_from(&state, q->state) < 0)
		return rpc_fail(r, -EINVAL, "the disk state is unknown");
	int rc = node_disk_control(d, state);
	if (rc == -EINVAL)
		return rpc_fail(r, rc, "the order must be online, draining or failed");
	if (rc == -EBUSY)
		return rpc_fail(r, rc, "a later order replaced this one");
	if (rc < 0)
		return d->trouble[0] != 0 ? rpc_fail(r, rc, "%s", d->trouble) : rc;
	node_disk_info(d, &info);
	reply->state = (Terrane__Node__DiskState)info.state;
	return 0;
}

/* --- pools ------------------------------------------------------------------------------------ */

static int pool_begin(struct work *w, struct rpc_request *r, uint64_t disk)
{
	int rc = work_begin(w, r, disk);
	return rc != 0 ? rc : w->disk->spec->pool ? 0 : -EOPNOTSUPP;
}

static int loss_message(struct rpc_request *r, const struct store_pool_loss *l,
			Terrane__Node__PoolLoss **out)
{
	Terrane__Node__PoolLoss *m = rpc_alloc(r, sizeof(*m));
	Terrane__Node__ChunkName *name = rpc_alloc(r, sizeof(*name));
	uint32_t *rows = rpc_alloc(r, (l->lost_rows + 1) * sizeof(rows[0]));
	if (m == NULL || name == NULL || rows == NULL)
		return -ENOMEM;
	terrane__node__pool_loss__init(m);
	node_chunk_to(name, l->id);
	m->chunk = name;
	m->chunk_len = l->chunk_len;
	m->first_stripe = l->first_stripe;
	m->stripes = l->stripes;
	m->open = l->open;
	m->need = l->need;
	m->k = l->k;
	m->piece_bytes = l->piece_bytes;
	m->lost_rows = rows;
	for (uint32_t row = 0; row < POOL_ROWS_MAX && m->n_lost_rows < l->lost_rows; row++)
		if ((l->lost[row / 32] >> row % 32 & 1) != 0)
			rows[m->n_lost_rows++] = row;
	assert(m->n_lost_rows == l->lost_rows);
	*out = m;
	return 0;
}

static int reply_losses(struct rpc_request *r, const struct store_pool_loss *losses, size_t n,
			const struct store_cursor *at)
{
	Terrane__Node__PoolLossesResponse *reply = rpc_reply_body(r);
	Terrane__Node__Cursor *next = rpc_alloc(r, sizeof(*next));
	Terrane__Node__ChunkName *last = rpc_alloc(r, sizeof(*last));
	reply->losses = rpc_alloc(r, (n + 1) * sizeof(reply->losses[0]));
	if (next == NULL || last == NULL || reply->losses == NULL)
		return -ENOMEM;
	node_cursor_to(next, last, at);
	reply->next = next;
	for (size_t i = 0; i < n; i++) {
		int rc = loss_message(r, &losses[i], &reply->losses[i]);
		if (rc < 0)
			return rc;
		reply->n_losses++;
	}
	return 0;
}

int handle_pool_losses(struct rpc_request *r)
{
	const Terrane__Node__PoolLossesRequest *q = rpc_body(r);
	struct work w;
	struct store_cursor at;
	size_t max = q->max == 0 ? NODE_LOSSES_MAX : (size_t)min_u64(q->max, NODE_LOSSES_MAX);
	struct store_pool_loss *losses = rpc_alloc(r, max * sizeof(losses[0]));
	int64_t n = pool_begin(&w, r, q->disk);
	if (n == 0 && losses == NULL)
		n = -ENOMEM;
	if (n == 0)
		n = node_cursor_from(&at, q->at);
	if (n == 0) {
		struct sched_request want = work_request(&w, SCHED_NAMES, LOSSES_BYTES);
		AUTO_SCHED_TURN struct sched_turn t = {0};
		n = sched_begin(w.disk->sched, &want, &t);
		if (n == 0) {
			n = (q->failures ? store_pool_failures
					 : store_pool_losses)(w.disk->pool, &at, losses, max);
			assert(n <= (int64_t)max);
			(void)sched_next(&t, n < 0 ? (int)n : 0);
		}
	}
	if (n >= 0)
		n = reply_losses(r, losses, (size_t)n, &at);
	return work_end(&w, (int)n);
}

/* Converts the runs of the request. The sum of their lengths must be the length of the payload. */
static int runs_from(struct rpc_request *r, struct store_pool_piece_run **out)
{
	const Terrane__Node__PoolPatchRequest *q = rpc_body(r);
	const struct slice *p = &r->payload;
	/* Rows of a short chunk may have no bytes, so there may be no payload; p->len is 0 then. */
	if (q->n_runs == 0 || q->n_runs > NODE_RUNS_MAX)
		return rpc_fail(r, -EINVAL, "a patch must have 1 to %d runs", NODE_RUNS_MAX);
	uint8_t *bytes = p->buf != NULL ? p->buf->data + p->offset : NULL;
	struct store_pool_piece_run *runs = rpc_alloc(r, q->n_runs * sizeof(runs[0]));
	struct iovec *pieces = rpc_alloc(r, q->n_runs * sizeof(pieces[0]));
	if (runs == NULL || pieces == NULL)
		return -ENOMEM;
	uint64_t at = 0;
	for (size_t i = 0; i < q->n_runs; i++) {
		const Terrane__Node__PieceRun *m = q->runs[i];
		if (m->len > p->len - at)
			return rpc_fail(r, -EINVAL, "the runs are longer than the payload");
		runs[i] = (struct store_pool_piece_run){
			.row = m->row,
			.first_stripe = m->first_stripe,
			.stripes = m->stripes,
			.data = store_data_of(&pieces[i], m->len > 0 ? bytes + at : NULL, m->len,
					      m->crc),
		};
		at += m->len;
	}
	if (at != p->len)
		return rpc_fail(r, -EINVAL, "the runs are shorter than the payload");
	*out = runs;
	return 0;
}

int handle_pool_patch(struct rpc_request *r)
{
	const Terrane__Node__PoolPatchRequest *q = rpc_body(r);
	struct work w;
	struct chunk_id id;
	struct store_pool_piece_run *runs = NULL;
	int rc = pool_begin(&w, r, q->disk);
	if (rc == 0 && node_chunk_from(&id, q->chunk) < 0)
		rc = rpc_fail(r, -EINVAL, "the request names no chunk");
	if (rc == 0)
		rc = runs_from(r, &runs);
	if (rc == 0)
		rc = work_hold_write(&w, r->payload.len);
	if (rc == 0) {
		struct sched_request want = work_request(&w, SCHED_WRITE, r->payload.len);
		AUTO_SCHED_TURN struct sched_turn t = {0};
		rc = sched_begin(w.disk->sched, &want, &t);
		if (rc == 0)
			rc = sched_next(&t, store_pool_patch(w.disk->pool, id, runs, q->n_runs));
	}
	return work_end(&w, rc);
}

int handle_pool_fail(struct rpc_request *r)
{
	const Terrane__Node__PoolFailRequest *q = rpc_body(r);
	struct work w;
	int rc = pool_begin(&w, r, q->disk);
	if (rc == 0)
		rc = node_pool_give_up(w.disk, q->member);
	if (rc == -EALREADY)
		rc = rpc_fail(r, rc, "the member is already given up");
	if (rc == -EINVAL)
		rc = rpc_fail(r, rc, "the pool has no member %u", q->member);
	return work_end(&w, rc);
}

int handle_pool_replace(struct rpc_request *r)
{
	const Terrane__Node__PoolReplaceRequest *q = rpc_body(r);
	struct work w;
	int rc = pool_begin(&w, r, q->disk);
	if (rc == 0)
		rc = node_pool_renew(w.disk, q->member);
	if (rc == -ENOENT)
		rc = rpc_fail(r, rc,
			      "the folder of the member holds no empty disk, and the pool has no "
			      "free spare");
	if (rc == -EBUSY)
		rc = rpc_fail(r, rc, "the member has not failed: give it up first");
	return work_end(&w, rc);
}

int handle_pool_rebuild(struct rpc_request *r)
{
	const Terrane__Node__PoolRebuildRequest *q = rpc_body(r);
	struct work w;
	int rc = pool_begin(&w, r, q->disk);
	if (rc == 0)
		rc = node_pool_start_rebuild(w.disk);
	if (rc == 0 && q->wait)
		rc = node_pool_await_rebuild(w.disk);
	return work_end(&w, rc);
}
