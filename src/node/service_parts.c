// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of a node, one on each loop of its team. Disks are dealt to the parts in turn; the first part's server
 * listens and spreads the connections. A request is handled on the loop of its disk (node_home).
 *
 * The end of a node has three steps, because requests cross the parts: first the servers of all parts stop, with a time
 * of grace; then no call is under way; then each part closes its port, its disks and itself. In a crashed or cancelled
 * process the first step is skipped: each part closes its port, which joins the calls that use its disks, then its
 * server and its disks.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node/service_impl.h"

/* --- where things are --------------------------------------------------------------------------- */

struct node_part *node_part_here(struct node *n)
{
	for (unsigned i = 0; i < n->part_count; i++)
		if (rt_on_loop(n->branches[i].port.loop))
			return &n->parts[i];
	assert(!"a request of a node runs on a loop of another");
	return NULL;
}

static unsigned part_index(const struct node *n, size_t disk_index)
{
	return (unsigned)((n->options->first_loop + disk_index) % n->part_count);
}

struct node_part *node_part_of(struct node *n, uint64_t disk)
{
	const struct node_disks_options *o = &n->options->disks;
	for (size_t i = 0; i < o->disk_count; i++)
		if (o->disks[i].disk == disk)
			return &n->parts[part_index(n, i)];
	return NULL;
}

struct rt_port *node_home(struct rpc_request *r)
{
	struct node *n = r->service;
	const ProtobufCFieldDescriptor *f =
		protobuf_c_message_descriptor_get_field_by_name(r->type->request, "disk");
	if (n->part_count == 1 || f == NULL)
		return NULL;
	assert(f->type == PROTOBUF_C_TYPE_UINT64 || f->type == PROTOBUF_C_TYPE_FIXED64);
	uint64_t disk;
	memcpy(&disk, (const char *)r->body + f->offset, sizeof(disk));
	struct node_part *p = node_part_of(n, disk);
	return p != NULL ? &p->branch->port : NULL;
}

int node_part_call(struct node_part *p, void (*fn)(void *), void *arg)
{
	return rt_call(&p->branch->port, "node-part", fn, arg);
}

/* --- the life of a part, on its loop ------------------------------------------------------------ */

static int part_server_open(struct node_part *p)
{
	const struct node *n = p->node;
	const struct node_serve_options *o = n->options;
	bool first = p->branch == &n->branches[0];
	struct rpc_server_options so = {
		.methods = node_methods,
		.method_count = node_method_count,
		.service = p->node,
		.home = node_home,
		.guard = o->guard,
		.pool = &p->node->pool,
		.receiving = &p->node->receiving,
		.branch = first ? NULL : p->branch,
		.connections_max = o->connections_max,
		.share_bytes = max_u64(n->pool.bufs.stats.limit_bytes / 4, NODE_BYTES_MAX),
		.stall_ns = o->stall_ns,
	};
	return rpc_server_open(&p->branch->server, first ? o->listen : NULL, &so);
}

static void part_opened(struct rt_msg *m)
{
	struct node_part *p = container_of(m, struct node_part, opened);
	p->serving = true;
	rt_cond_broadcast(&p->node->changed);
}

static int part_open(struct node_part *p)
{
	struct node_disks_options o = p->node->options->disks;
	o.disks = p->specs;
	o.disk_count = 0;
	for (size_t i = 0; i < p->node->options->disks.disk_count; i++)
		if (node_part_of(p->node, p->node->options->disks.disks[i].disk) == p)
			p->specs[o.disk_count++] = p->node->options->disks.disks[i];
	int rc = node_disks_open(&p->disks, &o);
	if (rc < 0)
		return rc;
	rc = p->branch == &p->node->branches[0] ? 0 : part_server_open(p);
	if (rc < 0)
		node_disks_close(&p->disks);
	return rc;
}

/* Closes the part's server if it is open. */
static void part_server_close(struct node_part *p, uint64_t grace_ns)
{
	struct rpc_server *s = p->branch->server;
	p->branch->server = NULL;
	if (s != NULL)
		rpc_server_close(s, grace_ns);
}

/* Opens the part, waits until it is told to stop or cancelled, and closes it. */
static void part_main(void *arg)
{
	struct node_part *p = arg;
	rt_background();
	p->rc = part_open(p);
	if (p->rc < 0)
		return;
	rt_post(p->node->branches[0].port.loop, &p->opened);
	while (!p->stop && rt_cond_wait(&p->stopping) == 0)
		;
	/* Joins part_server_stop, too, so that one of the two closes the server, and before the disks. */
	rt_port_close(&p->branch->port);
	part_server_close(p, 0);
	node_disks_close(&p->disks);
}

/* Runs part_main and reports its end. On the first loop. */
static void part_host(void *arg)
{
	struct node_part *p = arg;
	int rc = rt_call(p->team, "node-part", part_main, p);
	if (rc != 0)
		p->rc = rc;
	p->ended = true;
	rt_cond_broadcast(&p->node->changed);
}

static void part_accept_stop(void *arg)
{
	struct node_part *p = arg;
	if (p->branch->server != NULL)
		rpc_server_stop(p->branch->server);
}

static void part_server_stop(void *arg)
{
	struct node_part *p = arg;
	part_server_close(p, p->node->options->grace_ns);
}

static void part_stop(void *arg)
{
	struct node_part *p = arg;
	p->stop = true;
	rt_cond_broadcast(&p->stopping);
}

/* --- all parts, on the first loop --------------------------------------------------------------- */

static bool parts_settled(const struct node *n, int *rc)
{
	*rc = 0;
	bool all = true;
	for (unsigned i = 0; i < n->part_count; i++) {
		const struct node_part *p = &n->parts[i];
		if (p->ended && *rc == 0)
			*rc = p->rc != 0 ? p->rc : -ECANCELED;
		all = all && p->serving;
	}
	return all || *rc != 0;
}

static int part_init(struct node *n, unsigned i, struct rt_port *team)
{
	struct node_part *p = &n->parts[i];
	*p = (struct node_part){
		.node = n, .branch = &n->branches[i], .team = team, .opened = {.fn = part_opened}};
	rt_cond_init(&p->stopping);
	p->specs = calloc(n->options->disks.disk_count + 1, sizeof(p->specs[0]));
	return p->specs != NULL ? 0 : -ENOMEM;
}

int node_parts_start(struct node *n)
{
	struct rt_team *team = n->options->team;
	unsigned count = team != NULL ? team->count : 1;
	int rc = node_disks_check(&n->options->disks);
	if (rc != 0)
		return rc;
	n->parts = calloc(count, sizeof(n->parts[0]));
	n->branches = calloc(count, sizeof(n->branches[0]));
	if (n->parts == NULL || n->branches == NULL)
		return -ENOMEM;
	/* All are initialized before the first runs, because each finds the others through the node. */
	n->part_count = count;
	for (unsigned i = 0; i < count; i++)
		rt_port_init(&n->branches[i].port,
			     team != NULL ? team->ports[i].loop : rt_loop_self());
	for (unsigned i = 0; i < count && rc == 0; i++)
		rc = part_init(n, i, team != NULL ? &team->ports[i] : &n->own);
	for (unsigned i = 0; i < count && rc == 0; i++)
		rc = rt_group_spawn(&n->hosts, "node-part", part_host, &n->parts[i]);
	int failed = 0;
	while (rc == 0 && !parts_settled(n, &failed))
		rc = rt_cond_wait(&n->changed);
	rc = rc != 0 ? rc : failed;
	if (rc == 0)
		rc = part_server_open(&n->parts[0]);
	if (rc == 0 && count > 1)
		rpc_server_spread(n->branches[0].server, n->branches + 1, count - 1);
	return rc;
}

/* Calls fn for the part on its loop; if that fails, cancels all parts. */
static void part_tell(struct node_part *p, void (*fn)(void *))
{
	if (node_part_call(p, fn, p) != 0)
		rt_group_cancel(&p->node->hosts);
}

static void stop_main(void *arg)
{
	part_tell(arg, part_server_stop);
}

void node_parts_stop(struct node *n)
{
	struct rt_group g;
	rt_group_init(&g);
	part_tell(&n->parts[0], part_accept_stop);
	for (unsigned i = 1; i < n->part_count; i++)
		if (rt_group_spawn(&g, "node-stop", stop_main, &n->parts[i]) != 0)
			stop_main(&n->parts[i]);
	stop_main(&n->parts[0]);
	rt_group_join(&g);
	for (unsigned i = 0; i < n->part_count; i++)
		part_tell(&n->parts[i], part_stop);
	n->stopped = true;
}

void node_parts_end(struct node *n)
{
	if (!n->stopped)
		rt_group_cancel(&n->hosts);
	rt_group_join(&n->hosts);
	for (unsigned i = 0; n->parts != NULL && i < n->part_count; i++)
		free(n->parts[i].specs);
	free(n->parts);
	free(n->branches);
}
