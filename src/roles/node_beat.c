// SPDX-License-Identifier: Apache-2.0
#include "roles/node_beat.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "meta_api/node.h"
#include "meta_client/meta_client.h"
#include "node/node_client.h"
#include "rt/call.h"
#include "rt/load.h"
#include "rt/pool.h"
#include "rt/rt.h"

#define POOL_BYTES (8 * MIB)
#define PAUSE_NS (1 * NS_PER_S)              /* pause before a retry */
#define REFUSED_PAUSE_MAX_NS (60 * NS_PER_S) /* limit of the back-off after refusals */

/* Result of enlist and report in addition to 0 and -errno: no retry can succeed, so the fiber ends. */
enum { BEAT_STOP = 1 };

struct node_beat {
	struct node_beat_options o;
	char *metadata, *name, *rack, *addr;
	/* random number, not 0, that identifies this process in the cluster map */
	uint64_t incarnation;
	struct rt_pool pool;
	struct meta_client *client;
	struct rpc_channel *self; /* channel to the node itself */
	struct rt_loop *loop;     /* loop that runs the fiber */
	struct rt_fiber *fiber;
	struct meta_map_disk disks[META_MAP_NODE_DISKS_MAX];
	size_t disk_count;
};

/* --- the disks of the node ------------------------------------------------------------ */

static enum cluster_state state_of(Terrane__Node__DiskState s)
{
	switch (s) {
	case TERRANE__NODE__DISK_STATE__ONLINE:
	/* an operator ordered it at the node; the cluster map has a drain state of its own */
	case TERRANE__NODE__DISK_STATE__DRAINING:
		return CLUSTER_ONLINE;
	case TERRANE__NODE__DISK_STATE__FULL:
		return CLUSTER_FULL;
	case TERRANE__NODE__DISK_STATE__SUSPECT:
		return CLUSTER_SUSPECT;
	default:
		return CLUSTER_FAILED;
	}
}

/* Returns the capacity of a disk. For a missing disk, which reports no capacity, returns the last known capacity. */
static uint64_t capacity_of(const struct node_beat *b, const Terrane__Node__DiskInfo *d)
{
	assert(b->disk_count <= META_MAP_NODE_DISKS_MAX);
	if (d->total_bytes != 0)
		return d->total_bytes;
	for (size_t i = 0; i < b->disk_count; i++)
		if (b->disks[i].id == d->disk)
			return b->disks[i].capacity_bytes;
	return 0;
}

static int read_disks(struct node_beat *b)
{
	if (b->o.cache_weight > 0)
		return 0;
	struct node_call call = {.channel = b->self, .timeout_ns = 10 * NS_PER_S, .retry = true};
	AUTO_REPLY struct rpc_reply reply;
	int rc = node_disks(&call, 0, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Node__DisksResponse *p = NODE_DISKS(&reply);
	size_t n = min_u64(p->n_disks, META_MAP_NODE_DISKS_MAX);
	for (size_t i = 0; i < n; i++) {
		const Terrane__Node__DiskInfo *d = p->disks[i];
		b->disks[i] = (struct meta_map_disk){
			.id = d->disk,
			.media = d->is_flash ? CLUSTER_MEDIA_FLASH : CLUSTER_MEDIA_DISK,
			.capacity_bytes = capacity_of(b, d),
			.used_bytes = d->total_bytes - min_u64(d->free_bytes, d->total_bytes),
			.health = state_of(d->state),
			.created_ns = d->created_ns,
		};
		if (d->pool != NULL)
			b->disks[i].local =
				(struct rs_shape){.k = (int)d->pool->k, .p = (int)d->pool->p};
	}
	b->disk_count = n;
	return 0;
}

/* --- the fiber ---------------------------------------------------------------------------------- */

static struct meta_map_node report_of(const struct node_beat *b)
{
	return (struct meta_map_node){
		.id = b->o.node,
		.incarnation = b->incarnation,
		.name = b->name,
		.rack = b->rack,
		.addr = b->addr,
		.disks = b->disks,
		.disk_count = b->disk_count,
		.cache_weight = b->o.cache_weight,
	};
}

/* Returns whether the metadata refused the node for a reason that can go away. -EPERM, -ENOSPC: an operator can lift it.
 * -EBUSY: another live process is registered as this node, or has its disks. -ESTALE: another process registered as this
 * node later. That may be the predecessor of this process, whose message arrived late, so register again: if the other
 * process lives, registration fails with -EBUSY, and two processes cannot have the same disks. */
static bool may_be_lifted(int rc)
{
	return rc == -EPERM || rc == -EBUSY || rc == -ENOSPC || rc == -ESTALE;
}

/* Registers the node with the metadata. Returns 0, -errno if a later retry can succeed, or BEAT_STOP if none can. */
static int enlist(struct node_beat *b, uint64_t *beat_ns)
{
	struct meta_call call = {.client = b->client};
	struct cluster_id id;
	struct meta_map_node n = report_of(b);
	int rc = meta_client_node_register(&call, &n, &id, beat_ns);
	if (may_be_lifted(rc) || rc == -EINVAL || rc == -ENAMETOOLONG) {
		log_error("node_refused", "err=%s text=%s", err_name(rc), LOG_QUOTE(call.error));
		return may_be_lifted(rc) ? rc : BEAT_STOP;
	}
	if (rc < 0) {
		log_warn("node_not_registered", "err=%s text=%s", err_name(rc),
			 LOG_QUOTE(call.error));
		return rc;
	}
	if (id.high != b->o.cluster[0] || id.low != b->o.cluster[1]) {
		log_error("node_refused", "text=%s",
			  LOG_QUOTE("the metadata servers serve another cluster; correct cluster "
				    "or metadata in [node]"));
		return BEAT_STOP;
	}
	log_info("node_registered", "node=%" PRIu64 " disks=%zu", b->o.node, b->disk_count);
	return 0;
}

static void read_load(const struct node_beat *b, struct cluster_load *out)
{
	struct rt_loop *loops[RT_TEAM_MAX] = {b->loop};
	unsigned count = b->o.team != NULL ? b->o.team->count : 1;
	struct rt_load_sum sum;
	assert(count > 0 && count <= RT_TEAM_MAX);
	for (unsigned i = 1; i < count; i++)
		loops[i] = b->o.team->ports[i].loop;
	rt_load_sum(loops, count, &sum);
	*out = (struct cluster_load){.loops = sum.loops,
				     .busy_permille = sum.busy_permille,
				     .busiest_permille = sum.busiest_permille,
				     .longest_ns = sum.longest_ns};
	snprintf(out->longest_fiber, sizeof(out->longest_fiber), "%s", sum.longest_name);
}

/* Sends one heartbeat. -ENOENT, -ESTALE: the node has to register again. */
static int report(struct node_beat *b, uint64_t *beat_ns)
{
	struct meta_call call = {.client = b->client};
	struct meta_map_node n = report_of(b);
	read_load(b, &n.load);
	int rc = meta_client_node_beat(&call, &n, beat_ns);
	if (rc == -ESTALE)
		log_error("node_replaced", "text=%s",
			  LOG_QUOTE("another process has registered as this node"));
	else if (rc < 0 && rc != -ECANCELED)
		log_warn("node_not_heard", "err=%s text=%s", err_name(rc), LOG_QUOTE(call.error));
	return rc;
}

static void beat_main(void *arg)
{
	struct node_beat *b = arg;
	assert(rt_on_loop(b->loop));
	uint64_t beat_ns = PAUSE_NS, pause_ns = PAUSE_NS;
	bool registered = false;
	rt_background();
	for (;;) {
		int rc = read_disks(b);
		if (rc == 0)
			rc = registered ? report(b, &beat_ns) : enlist(b, &beat_ns);
		if (rc == BEAT_STOP)
			return;
		assert(rc <= 0);
		registered = rc == 0 || (registered && rc != -ENOENT && rc != -ESTALE);
		pause_ns =
			may_be_lifted(rc) ? min_u64(2 * pause_ns, REFUSED_PAUSE_MAX_NS) : PAUSE_NS;
		if (rt_sleep_ns(rc == 0 ? beat_ns : pause_ns) < 0)
			return;
	}
}

/* --- open, close --------------------------------------------------------------------------------- */

static int copy_strings(struct node_beat *b)
{
	char name[32];
	snprintf(name, sizeof(name), "node%" PRIu64, b->o.node);
	b->metadata = strdup(b->o.metadata);
	b->name = strdup(b->o.name[0] != 0 ? b->o.name : name);
	b->rack = strdup(b->o.rack);
	b->addr = strdup(b->o.addr);
	return b->metadata != NULL && b->name != NULL && b->rack != NULL && b->addr != NULL
		       ? 0
		       : -ENOMEM;
}

static int connect_all(struct node_beat *b)
{
	const char *addrs[META_CLIENT_SERVERS_MAX];
	size_t n = 0;
	char *save = NULL;
	for (char *word = strtok_r(b->metadata, ", ", &save); word != NULL;
	     word = strtok_r(NULL, ", ", &save)) {
		if (n == META_CLIENT_SERVERS_MAX)
			return -EINVAL;
		addrs[n++] = word;
	}
	struct rpc_channel_options channel = {.pool = &b->pool, .self = b->o.self};
	int rc = meta_client_open(&b->client, &(struct meta_client_options){.addrs = addrs,
									    .addr_count = n,
									    .tenant = META_SYSTEM,
									    .channel = channel});
	channel.server = b->o.node;
	return rc < 0 ? rc : rpc_channel_open(&b->self, b->addr, &channel);
}

int node_beat_open(struct node_beat **out, const struct node_beat_options *o)
{
	assert(o->node != 0 && o->addr[0] != 0 && o->metadata[0] != 0);
	*out = NULL;
	struct node_beat *b = calloc(1, sizeof(*b));
	if (b == NULL)
		return -ENOMEM;
	b->o = *o;
	b->loop = rt_loop_self();
	b->incarnation = rt_random_u64() | 1;
	rt_pool_init(&b->pool, POOL_BYTES);
	int rc = copy_strings(b);
	if (rc == 0)
		rc = connect_all(b);
	if (rc == 0)
		rc = rt_spawn(&b->fiber, "node-beat", beat_main, b);
	if (rc < 0) {
		node_beat_close(b);
		return rc;
	}
	*out = b;
	return 0;
}

void node_beat_close(struct node_beat *b)
{
	if (b == NULL)
		return;
	assert(rt_on_loop(b->loop)); /* it joins the fiber */
	if (b->fiber != NULL) {
		rt_cancel(b->fiber);
		rt_join(b->fiber);
	}
	meta_client_close(b->client);
	if (b->self != NULL)
		rpc_channel_close(b->self);
	rt_pool_fini(&b->pool);
	free(b->metadata);
	free(b->name);
	free(b->rack);
	free(b->addr);
	free(b);
}
