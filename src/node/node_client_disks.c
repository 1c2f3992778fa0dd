// SPDX-License-Identifier: Apache-2.0
/* Requests about disks and pools. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node/node_client.h"
#include "node/node_client_impl.h"

int node_disks(struct node_call *c, uint64_t disk, struct rpc_reply *reply)
{
	Terrane__Node__DisksRequest q = TERRANE__NODE__DISKS_REQUEST__INIT;
	q.disk = disk;
	return node_ask(c,
			&(struct node_ask){
				.type = &node_type_disks, .request = &q.base, .repeatable = true},
			reply);
}

int node_control(struct node_call *c, uint64_t disk, enum store_state state,
		 enum store_state *after)
{
	Terrane__Node__ControlRequest q = TERRANE__NODE__CONTROL_REQUEST__INIT;
	q.disk = disk;
	q.state = (Terrane__Node__DiskState)state;
	AUTO_REPLY struct rpc_reply reply;
	int rc = node_ask(c,
			  &(struct node_ask){.type = &node_type_control,
					     .request = &q.base,
					     .repeatable = true},
			  &reply);
	if (rc < 0)
		return rc;
	enum store_state now;
	const Terrane__Node__ControlResponse *m = reply.message;
	if (node_state_from(&now, m->state) < 0)
		return node_bad_response(c);
	if (after != NULL)
		*after = now;
	return 0;
}

int64_t node_usage(struct node_call *c, struct node_usage out[NODE_USAGE_MAX])
{
	Terrane__Node__UsageRequest q = TERRANE__NODE__USAGE_REQUEST__INIT;
	AUTO_REPLY struct rpc_reply reply;
	int rc = node_ask(c,
			  &(struct node_ask){
				  .type = &node_type_usage, .request = &q.base, .repeatable = true},
			  &reply);
	if (rc < 0)
		return rc;
	const Terrane__Node__UsageResponse *p = reply.message;
	if (p->n_groups > NODE_USAGE_MAX)
		return node_bad_response(c);
	for (size_t i = 0; i < p->n_groups; i++) {
		const Terrane__Node__GroupUsage *m = p->groups[i];
		if (strlen(m->group) >= NODE_GROUP_MAX)
			return node_bad_response(c);
		out[i] = (struct node_usage){.requests = m->requests,
					     .refused = m->refused,
					     .bytes = m->bytes,
					     .disk_ns = m->disk_ns,
					     .waiting = m->waiting};
		memcpy(out[i].group, m->group, strlen(m->group) + 1);
	}
	return (int64_t)p->n_groups;
}

/* --- pools ------------------------------------------------------------------------------------ */

static int64_t losses_ask(struct node_call *c, uint64_t disk, bool failures,
			  struct store_cursor *at, struct store_pool_loss *out, size_t max)
{
	Terrane__Node__PoolLossesRequest q = TERRANE__NODE__POOL_LOSSES_REQUEST__INIT;
	Terrane__Node__Cursor cursor;
	Terrane__Node__ChunkName last;
	node_cursor_to(&cursor, &last, at);
	q.disk = disk;
	q.at = &cursor;
	assert(max >= POOL_CHUNK_LOSSES_MAX);
	q.max = (uint32_t)min_u64(max, NODE_LOSSES_MAX);
	q.failures = failures;
	AUTO_REPLY struct rpc_reply reply;
	int rc = node_ask(c,
			  &(struct node_ask){.type = &node_type_pool_losses,
					     .request = &q.base,
					     .repeatable = true},
			  &reply);
	if (rc < 0)
		return rc;
	const Terrane__Node__PoolLossesResponse *m = reply.message;
	if (m->n_losses > max || node_cursor_from(at, m->next) < 0)
		return node_bad_response(c);
	for (size_t i = 0; i < m->n_losses; i++)
		if (node_loss_from(&out[i], m->losses[i]) < 0)
			return node_bad_response(c);
	return (int64_t)m->n_losses;
}

int64_t node_pool_losses(struct node_call *c, uint64_t disk, struct store_cursor *at,
			 struct store_pool_loss *out, size_t max)
{
	return losses_ask(c, disk, false, at, out, max);
}

int64_t node_pool_failures(struct node_call *c, uint64_t disk, struct store_cursor *at,
			   struct store_pool_loss *out, size_t max)
{
	return losses_ask(c, disk, true, at, out, max);
}

struct run_messages {
	Terrane__Node__PieceRun *runs;
	Terrane__Node__PieceRun **list;
};

static void run_messages_fini(struct run_messages *r)
{
	free(r->runs);
	free(r->list);
}

static int run_messages_init(struct run_messages *r, const struct node_piece_run *runs, size_t n)
{
	*r = (struct run_messages){0};
	if (n == 0 || n > NODE_RUNS_MAX)
		return -EINVAL;
	r->runs = calloc(n, sizeof(r->runs[0]));
	r->list = calloc(n, sizeof(r->list[0]));
	if (r->runs == NULL || r->list == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		Terrane__Node__PieceRun *m = &r->runs[i];
		terrane__node__piece_run__init(m);
		m->row = runs[i].row;
		m->first_stripe = runs[i].first_stripe;
		m->stripes = runs[i].stripes;
		m->len = runs[i].len;
		m->crc = runs[i].crc;
		r->list[i] = m;
	}
	return 0;
}

int node_pool_patch(struct node_call *c, uint64_t disk, struct chunk_id id,
		    const struct node_piece_run *runs, size_t n, struct slice data)
{
	__attribute__((cleanup(run_messages_fini))) struct run_messages messages;
	int rc = run_messages_init(&messages, runs, n);
	if (rc < 0)
		return rc;
	Terrane__Node__PoolPatchRequest q = TERRANE__NODE__POOL_PATCH_REQUEST__INIT;
	Terrane__Node__ChunkName name;
	node_chunk_to(&name, id);
	q.disk = disk;
	q.chunk = &name;
	q.runs = messages.list;
	q.n_runs = n;
	AUTO_REPLY struct rpc_reply reply;
	return node_ask(c,
			&(struct node_ask){.type = &node_type_pool_patch,
					   .request = &q.base,
					   .payload = data,
					   .repeatable = true},
			&reply);
}

int node_pool_fail(struct node_call *c, uint64_t disk, uint32_t member)
{
	Terrane__Node__PoolFailRequest q = TERRANE__NODE__POOL_FAIL_REQUEST__INIT;
	q.disk = disk;
	q.member = member;
	AUTO_REPLY struct rpc_reply reply;
	return node_ask(c, &(struct node_ask){.type = &node_type_pool_fail, .request = &q.base},
			&reply);
}

int node_pool_replace(struct node_call *c, uint64_t disk, uint32_t member)
{
	Terrane__Node__PoolReplaceRequest q = TERRANE__NODE__POOL_REPLACE_REQUEST__INIT;
	q.disk = disk;
	q.member = member;
	AUTO_REPLY struct rpc_reply reply;
	return node_ask(c, &(struct node_ask){.type = &node_type_pool_replace, .request = &q.base},
			&reply);
}

int node_pool_rebuild(struct node_call *c, uint64_t disk, bool wait)
{
	Terrane__Node__PoolRebuildRequest q = TERRANE__NODE__POOL_REBUILD_REQUEST__INIT;
	q.disk = disk;
	q.wait = wait;
	AUTO_REPLY struct rpc_reply reply;
	return node_ask(c,
			&(struct node_ask){.type = &node_type_pool_rebuild,
					   .request = &q.base,
					   .repeatable = true},
			&reply);
}
