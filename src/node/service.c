// SPDX-License-Identifier: Apache-2.0
#include "node/service.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "node/service_impl.h"
#include "rpc/server.h"
#include "rt/pool.h"
#include "rt/rt.h"
#include "secure/audit_log.h"
#include "secure/secure.h"
#include "secure/session.h"

#define POOL_DEFAULT_BYTES (512 * MIB)
#define FAN_FIBERS 8

/* --- a request and its disk ------------------------------------------------------------------- */

int work_begin(struct work *w, struct rpc_request *r, uint64_t disk)
{
	const struct context *c = rt_context();
	*w = (struct work){.r = r, .node = r->service, .class = sched_class_of(c)};
	sched_group_name(w->group, c);
	struct node_disk *d;
	int rc = node_disk_use(&node_part_here(w->node)->disks, disk, &d);
	if (rc == -ENODEV && d == NULL)
		return rpc_fail(r, rc, "this node has no disk %" PRIu64, disk);
	if (rc == -ENODEV)
		return rpc_fail(r, rc, "disk %" PRIu64 " is absent: %s", disk, d->trouble);
	if (rc == 0)
		w->disk = d;
	return rc;
}

/* Returns the text of an error that the handler did not explain. */
static const char *work_error_text(int rc)
{
	switch (rc) {
	case -EROFS:
		return "the disk accepts no new chunks: it is suspect or draining";
	case -EAGAIN:
		return "the disk is too busy: try another disk, or this one later";
	case -ESTALE:
		return "a newer epoch fenced this writer, or the chunk has another label";
	case -EPERM:
		return "the chunk is sealed";
	case -ERANGE:
		return "the range is beyond the end of the chunk, or the append is not at its end";
	case -EEXIST:
		return "the chunk exists already; use stat to compare its length and checksum";
	case -EALREADY:
		return "another put of the chunk is in progress";
	case -EFBIG:
		return "the data exceeds the chunk's capacity";
	case -EOPNOTSUPP:
		return "the disk is not a pool";
	default:
		return err_text(rc);
	}
}

int work_end(struct work *w, int rc)
{
	struct node_disk *d = w->disk;
	if (d == NULL)
		return rc;
	assert(rc <= 0 && d->users > 0);
	assert(d->write_bytes >= w->write_bytes && d->read_bytes >= w->read_bytes);
	d->write_bytes -= w->write_bytes;
	if (w->read_bytes > 0) {
		d->read_bytes -= w->read_bytes;
		rt_cond_broadcast(&d->room);
	}
	if (rc < 0 && w->r->error == NULL)
		rpc_fail(w->r, rc, "%s", work_error_text(rc));
	node_disk_done(d);
	return rc;
}

int work_hold_read(struct work *w, uint64_t bytes)
{
	struct node_disk *d = w->disk;
	assert(d != NULL && w->read_bytes == 0);
	while (d->read_bytes > 0 && d->read_bytes + bytes > w->node->held_max) {
		int rc = rt_cond_wait(&d->room);
		if (rc < 0)
			return rc;
	}
	d->read_bytes += bytes;
	w->read_bytes += bytes;
	return 0;
}

int work_hold_write(struct work *w, uint64_t bytes)
{
	struct node_disk *d = w->disk;
	assert(d != NULL && w->write_bytes == 0);
	if (d->write_bytes > 0 && d->write_bytes + bytes > w->node->held_max)
		return -EAGAIN;
	d->write_bytes += bytes;
	w->write_bytes += bytes;
	return 0;
}

struct sched_request work_request(const struct work *w, enum sched_kind kind, uint64_t bytes)
{
	return (struct sched_request){
		.group = w->group, .class = w->class, .kind = kind, .whole = true, .bytes = bytes};
}

struct fan {
	size_t next;
	size_t n;
	void (*fn)(void *ctx, size_t i);
	void *ctx;
};

static void fan_main(void *arg)
{
	struct fan *f = arg;
	while (f->next < f->n)
		f->fn(f->ctx, f->next++);
}

void work_fan(size_t n, void (*fn)(void *ctx, size_t i), void *ctx)
{
	struct fan f = {.n = n, .fn = fn, .ctx = ctx};
	struct rt_group g;
	rt_group_init(&g);
	for (size_t i = 1; i < n && i < FAN_FIBERS; i++)
		if (rt_group_spawn(&g, "node-fan", fan_main, &f) != 0)
			break;
	fan_main(&f);
	rt_group_join(&g);
	assert(f.next >= n);
}

/* --- serving ---------------------------------------------------------------------------------- */

/* Refuses clients that have none of the operations. */
static int may(struct rpc_request *r, unsigned ops, int (*handle)(struct rpc_request *r))
{
	const struct session *s = rpc_session(r);
	if (s == NULL || (s->cluster_ops & ops) != 0)
		return handle(r);
	const struct node *n = r->service;
	audit_log_add(n->options->guard->audit,
		      &(struct audit_record){.event = AUDIT_PERMISSION_REFUSED,
					     .who = s->name,
					     .from = rpc_peer(r),
					     .what = r->type->name,
					     .outcome = "refused"});
	return rpc_fail(r, -EACCES, "permission denied");
}

#define OP(op) (1u << OP_##op)
#define ONLY(name, ops)                              \
	static int may_##name(struct rpc_request *r) \
	{                                            \
		return may(r, (ops), handle_##name); \
	}
ONLY(delete, OP(CHUNK_WRITE))
ONLY(list, OP(CHUNK_READ) | OP(CLUSTER_WRITE))
ONLY(disks, OP(CLUSTER_READ))
ONLY(control, OP(CLUSTER_WRITE))
ONLY(pool_losses, OP(CLUSTER_READ))
ONLY(pool_patch, OP(CHUNK_WRITE))
ONLY(pool_fail, OP(CLUSTER_WRITE))
ONLY(pool_replace, OP(CLUSTER_WRITE))
ONLY(usage, OP(CLUSTER_READ))
ONLY(pool_rebuild, OP(CLUSTER_WRITE) | OP(CHUNK_WRITE))
#undef ONLY
#undef OP

const struct rpc_method node_methods[] = {
	{.type = &node_type_put, .handle = handle_put},
	{.type = &node_type_append, .handle = handle_append},
	{.type = &node_type_get, .handle = handle_get},
	{.type = &node_type_seal, .handle = handle_seal},
	{.type = &node_type_fence, .handle = handle_fence},
	{.type = &node_type_delete, .handle = may_delete},
	{.type = &node_type_stat, .handle = handle_stat},
	{.type = &node_type_list, .handle = may_list},
	{.type = &node_type_scan, .handle = handle_scan},
	{.type = &node_type_reserve, .handle = handle_reserve},
	{.type = &node_type_release, .handle = handle_release},
	{.type = &node_type_disks, .handle = may_disks},
	{.type = &node_type_control, .handle = may_control},
	{.type = &node_type_pool_losses, .handle = may_pool_losses},
	{.type = &node_type_pool_patch, .handle = may_pool_patch},
	{.type = &node_type_pool_fail, .handle = may_pool_fail},
	{.type = &node_type_pool_replace, .handle = may_pool_replace},
	{.type = &node_type_pool_rebuild, .handle = may_pool_rebuild},
	{.type = &node_type_transform, .handle = handle_transform},
	{.type = &node_type_usage, .handle = may_usage},
};
const size_t node_method_count = ARRAY_LEN(node_methods);

static int serve_parts(const struct node_serve_options *o, struct node *n)
{
	int rc = node_parts_start(n);
	if (rc == 0 && o->guard != NULL)
		rc = rt_group_spawn(&n->watch, "node-keys", node_keys_main, n);
	if (rc < 0)
		return rc;
	rc = o->ready != NULL ? o->ready(o->ctx, n, rpc_server_addr(n->branches[0].server)) : 0;
	if (rc == 0) {
		/* ready() registers the node with the metadata service and starts its
		 * heartbeats. */
		rc = rt_shutdown_wait();
		if (o->ended != NULL)
			o->ended(o->ctx);
	}
	/* Before the parts end, whose loops it calls. */
	rt_group_cancel(&n->watch);
	rt_group_join(&n->watch);
	node_parts_stop(n);
	return rc;
}

int node_serve(const struct node_serve_options *o)
{
	struct node n = {.options = o};
	uint64_t pool_bytes = o->pool_bytes != 0 ? o->pool_bytes : POOL_DEFAULT_BYTES;
	if (pool_bytes < NODE_POOL_MIN)
		return -EINVAL;
	rt_pool_init(&n.pool, pool_bytes);
	rt_budget_init(&n.receiving, rpc_receive_limit(pool_bytes), false);
	assert(o->guard == NULL || o->keys != NULL);
	rt_group_init(&n.hosts);
	rt_group_init(&n.watch);
	rt_cond_init(&n.changed);
	rt_port_init(&n.own, rt_loop_self());
	n.held_max = o->disks.disk_count > 1 ? pool_bytes / 4 : UINT64_MAX;
	int rc = node_prep_open(&n.prep, o);
	if (rc == 0)
		rc = serve_parts(o, &n);
	node_parts_end(&n);
	node_prep_close(&n.prep);
	rt_budget_fini(&n.receiving);
	rt_pool_fini(&n.pool);
	return rc;
}
