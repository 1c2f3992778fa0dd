// SPDX-License-Identifier: Apache-2.0
/* Handlers for the cluster map. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/record.h"
#include "meta/service_impl.h"
#include "meta_api/node.h"
#include "rt/call.h"
#include "rt/load.h"
#include "secure/session.h"

#define USAGE_DISKS_MAX 10000 /* largest number of disks with their used bytes in one response */
#define USAGE_NODES_MAX 10000 /* and of nodes with their loads */

/* --- changes since a version ------------------------------------------------------------------ */

/*
 * One page of changes. Pages are in the order of versions, and a page has all records of each of its versions, so the
 * client continues from the version of the last page. The record of a disk's node may have a later version than the
 * page: the page has this record too, because the client's map refuses a disk without its node, and the page of the
 * later version has it again.
 */
struct page {
	struct cluster *map;
	uint64_t since, upto; /* range of versions: above since, up to upto */
	bool usage;
	Terrane__Meta__MapGetResponse *out;
	struct rpc_request *r;
	struct map sent; /* ids of the nodes that the page has already */
};

static int by_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Sets p->upto to the last version of the page: the version of its META_MAP_PAGE-th record. */
static int find_end(struct page *p)
{
	const struct cluster *c = p->map;
	size_t n = 0, most = map_count(&c->nodes) + map_count(&c->disks);
	p->upto = c->version;
	if (most <= META_MAP_PAGE)
		return 0;
	AUTO_FREE uint64_t *versions = malloc(most * sizeof(*versions));
	if (versions == NULL)
		return -ENOMEM;
	map_for_each(&c->nodes, it) {
		uint64_t v = ((const struct cluster_node *)it.value)->version;
		if (v > p->since)
			versions[n++] = v;
	}
	map_for_each(&c->disks, it) {
		uint64_t v = ((const struct cluster_disk *)it.value)->version;
		if (v > p->since)
			versions[n++] = v;
	}
	if (n <= META_MAP_PAGE)
		return 0;
	assert(n <= most);
	qsort(versions, n, sizeof(*versions), by_u64);
	p->upto = versions[META_MAP_PAGE - 1];
	assert(p->upto > p->since && p->upto <= c->version);
	p->out->more = p->upto < c->version;
	return 0;
}

static int add_node(struct page *p, const struct cluster_node *n)
{
	if (map_get(&p->sent, n->id) != NULL)
		return 0;
	Terrane__Cluster__NodeRecord *m = rpc_alloc(p->r, sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	cluster_node_write(m, n);
	m->name = meta_wire_name(&p->r->arena, meta_name(n->name));
	m->addr = meta_wire_name(&p->r->arena, meta_name(n->addr));
	if (m->name == NULL || m->addr == NULL)
		return -ENOMEM;
	assert(p->out->n_nodes < map_count(&p->map->nodes));
	p->out->nodes[p->out->n_nodes++] = m;
	return map_put(&p->sent, n->id, m);
}

static int add_racks(struct page *p)
{
	p->out->racks = rpc_alloc(p->r, (map_count(&p->map->racks) + 1) *
						sizeof(Terrane__Cluster__RackRecord *));
	if (p->out->racks == NULL)
		return -ENOMEM;
	map_for_each(&p->map->racks, it) {
		const struct cluster_rack *rack = it.value;
		if (rack->version <= p->since)
			continue;
		Terrane__Cluster__RackRecord *m = rpc_alloc(p->r, sizeof(*m));
		if (m == NULL)
			return -ENOMEM;
		cluster_rack_write(m, rack);
		m->name = meta_wire_name(&p->r->arena, meta_name(rack->name));
		if (m->name == NULL)
			return -ENOMEM;
		p->out->racks[p->out->n_racks++] = m;
	}
	return 0;
}

static bool in_page(const struct page *p, uint64_t version)
{
	return version > p->since && version <= p->upto;
}

static int add_disks(struct page *p)
{
	int rc = 0;
	p->out->disks = rpc_alloc(p->r, (map_count(&p->map->disks) + 1) *
						sizeof(Terrane__Cluster__DiskRecord *));
	if (p->out->disks == NULL)
		return -ENOMEM;
	map_for_each(&p->map->disks, it) {
		const struct cluster_disk *d = it.value;
		bool use = p->usage && p->out->n_disks < USAGE_DISKS_MAX && d->version <= p->upto;
		if (rc < 0 || (!in_page(p, d->version) && !use))
			continue;
		const struct cluster_node *n = cluster_node(p->map, d->node);
		assert(n != NULL); /* cluster_put_disk refuses a disk without its node */
		if (n->version > p->since)
			rc = add_node(p, n);
		Terrane__Cluster__DiskRecord *m = rpc_alloc(p->r, sizeof(*m));
		if (m == NULL)
			return -ENOMEM;
		cluster_disk_write(m, d);
		m->used_bytes = p->usage ? d->used_bytes : 0;
		p->out->disks[p->out->n_disks++] = m;
	}
	return rc;
}

static int add_nodes(struct page *p)
{
	int rc = 0;
	p->out->nodes = rpc_alloc(p->r, (map_count(&p->map->nodes) + 1) *
						sizeof(Terrane__Cluster__NodeRecord *));
	if (p->out->nodes == NULL)
		return -ENOMEM;
	map_for_each(&p->map->nodes, it) {
		const struct cluster_node *n = it.value;
		if (rc == 0 && in_page(p, n->version))
			rc = add_node(p, n);
	}
	return rc;
}

/* Adds a load to the response. */
static int add_load(struct page *p, uint64_t node, const struct cluster_load *load)
{
	Terrane__Meta__NodeLoad *m = rpc_alloc(p->r, sizeof(*m));
	Terrane__Cluster__Load *l = rpc_alloc(p->r, sizeof(*l));
	if (m == NULL || l == NULL)
		return -ENOMEM;
	cluster_load_write(l, load);
	/* the heartbeat may change before the response is sent */
	l->longest_fiber = meta_wire_name(&p->r->arena, meta_name(load->longest_fiber));
	if (l->longest_fiber == NULL)
		return -ENOMEM;
	terrane__meta__node_load__init(m);
	m->node = node;
	m->load = l;
	p->out->loads[p->out->n_loads++] = m;
	return 0;
}

static struct cluster_load own_load(const struct service_all *all)
{
	struct rt_loop *loops[RT_TEAM_MAX];
	struct rt_load_sum sum;
	assert(all->part_count <= RT_TEAM_MAX);
	for (unsigned i = 0; i < all->part_count; i++)
		loops[i] = all->parts[i].loop;
	rt_load_sum(loops, all->part_count, &sum);
	struct cluster_load out = {.loops = sum.loops,
				   .busy_permille = sum.busy_permille,
				   .busiest_permille = sum.busiest_permille,
				   .longest_ns = sum.longest_ns};
	snprintf(out.longest_fiber, sizeof(out.longest_fiber), "%s", sum.longest_name);
	return out;
}

/* Adds the loads of this server and of the nodes. */
static int add_loads(struct page *p)
{
	size_t max = min_u64(map_count(&p->map->nodes), USAGE_NODES_MAX) + 1;
	p->out->loads = rpc_alloc(p->r, max * sizeof(Terrane__Meta__NodeLoad *));
	if (p->out->loads == NULL)
		return -ENOMEM;
	const struct cluster_load own = own_load(((struct meta_service *)p->r->service)->all);
	int rc = add_load(p, 0, &own);
	map_for_each(&p->map->nodes, it) {
		const struct cluster_load *load = meta_map_load(ms_map(p->r), it.key);
		if (rc == 0 && load != NULL && load->loops > 0 && p->out->n_loads < max)
			rc = add_load(p, it.key, load);
	}
	return rc;
}

int ms_handle_map_get(struct rpc_request *r)
{
	const Terrane__Meta__MapGetRequest *q = rpc_body(r);
	struct cluster *c = meta_map_cluster(ms_map(r));
	Terrane__Meta__MapGetResponse *out = rpc_reply_body(r);
	bool ours = q->cluster_high == c->id.high && q->cluster_low == c->id.low;
	struct page p = {
		.map = c, .since = ours ? q->since : 0, .usage = q->usage, .out = out, .r = r};
	out->version = c->version;
	out->cluster_high = c->id.high;
	out->cluster_low = c->id.low;
	out->network_place = c->network_place;
	if (p.since >= c->version && !p.usage)
		return 0;
	map_init(&p.sent, CLUSTER_NODES_MAX);
	int rc = find_end(&p);
	if (rc == 0)
		rc = add_racks(&p);
	if (rc == 0)
		rc = add_nodes(&p);
	if (rc == 0)
		rc = add_disks(&p);
	if (rc == 0 && p.usage && !out->more)
		rc = add_loads(&p);
	out->version = p.upto;
	map_fini(&p.sent);
	return rc;
}

/* --- nodes ------------------------------------------------------------------------------------ */

static int node_disks(struct rpc_request *r, Terrane__Meta__NodeDisk *const *m, size_t n,
		      const struct meta_map_disk **out)
{
	if (n > META_MAP_NODE_DISKS_MAX)
		return rpc_fail(r, -ENOSPC, "the node reports %zu disks, at most %d are allowed", n,
				META_MAP_NODE_DISKS_MAX);
	struct meta_map_disk *disks = rpc_alloc(r, (n + 1) * sizeof(*disks));
	if (disks == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (m[i]->local_k > ENCODING_STRIPE_MAX || m[i]->local_p > ENCODING_STRIPE_MAX ||
		    !cluster_media_valid(m[i]->media) || !cluster_state_valid(m[i]->health))
			return rpc_fail(r, -EINVAL,
					"disk %016lx has an invalid shape, media or state",
					m[i]->id);
		disks[i] = (struct meta_map_disk){
			.id = m[i]->id,
			.media = (enum cluster_media)m[i]->media,
			.local = {.k = (int)m[i]->local_k, .p = (int)m[i]->local_p},
			.capacity_bytes = m[i]->capacity_bytes,
			.used_bytes = m[i]->used_bytes,
			.health = (enum cluster_state)m[i]->health,
			.created_ns = m[i]->created_ns,
		};
	}
	*out = disks;
	return 0;
}

static uint32_t beat_ms(const struct rpc_request *r)
{
	return (uint32_t)(meta_map_beat_ns(ms_map(r)) / NS_PER_MS);
}

int ms_handle_node_register(struct rpc_request *r)
{
	const Terrane__Meta__NodeRegisterRequest *q = rpc_body(r);
	Terrane__Meta__NodeRegisterResponse *p = rpc_reply_body(r);
	struct meta_map_node n = {.id = q->id,
				  .incarnation = q->incarnation,
				  .name = q->name,
				  .rack = q->rack,
				  .addr = q->addr,
				  .disk_count = q->n_disks,
				  .cache_weight = q->cache_weight};
	int rc = ms_system(r);
	/* Clients hand tokens to cache nodes, and believe their bytes. */
	if (rc == 0 && q->cache_weight > 0 && !session_may(ms_session(r), OP_CHUNK_READ))
		rc = rpc_fail(r, -EACCES, "only an identity with the role cache is a cache node");
	if (rc == 0)
		rc = node_disks(r, q->disks, q->n_disks, &n.disks);
	if (rc < 0)
		return rc;
	rc = meta_map_register(ms_map(r), &n);
	if (rc == -EPERM)
		return rpc_fail(r, rc, "node %lu was removed by an operator", q->id);
	if (rc == -EBUSY)
		return rpc_fail(
			r, rc,
			"another process runs as node %lu with other disks. Give each "
			"machine its own node id; if this node was restarted and has lost a "
			"disk, it can register once the old process counts as suspect",
			q->id);
	if (rc < 0)
		return ms_end(r, rc);
	ms_caches_follow(r->service);
	const struct cluster *c = meta_map_cluster(ms_map(r));
	p->version = c->version;
	p->beat_ms = beat_ms(r);
	p->cluster_high = c->id.high;
	p->cluster_low = c->id.low;
	return 0;
}

int ms_handle_node_beat(struct rpc_request *r)
{
	const Terrane__Meta__NodeBeatRequest *q = rpc_body(r);
	Terrane__Meta__NodeBeatResponse *p = rpc_reply_body(r);
	struct meta_map_node n = {
		.id = q->id, .incarnation = q->incarnation, .disk_count = q->n_disks};
	int rc = ms_system(r);
	if (rc == 0)
		rc = node_disks(r, q->disks, q->n_disks, &n.disks);
	if (rc == 0 && cluster_load_read(&n.load, q->load) < 0)
		rc = rpc_fail(r, -EINVAL, "node %lu reports an invalid load", q->id);
	if (rc < 0)
		return rc;
	rc = meta_map_beat(ms_map(r), &n);
	if (rc < 0)
		return ms_end(r, rc);
	p->version = meta_map_cluster(ms_map(r))->version;
	p->beat_ms = beat_ms(r);
	return 0;
}

/* --- operators -------------------------------------------------------------------------------- */

int ms_handle_map_want(struct rpc_request *r)
{
	const Terrane__Meta__MapWantRequest *q = rpc_body(r);
	Terrane__Meta__MapWantResponse *p = rpc_reply_body(r);
	struct meta_map *m = ms_map(r);
	int rc = ms_system(r);
	if (rc < 0)
		return rc;
	if (!cluster_state_valid(q->wanted) || (q->node == 0) == (q->disk == 0))
		return -EINVAL;
	if (q->weigh)
		rc = q->disk != 0 ? meta_map_weigh_disk(m, q->disk, q->weight) : -EINVAL;
	else if (q->disk != 0)
		rc = meta_map_want_disk(m, q->disk, (enum cluster_state)q->wanted);
	else
		rc = meta_map_want_node(m, q->node, (enum cluster_state)q->wanted);
	p->version = meta_map_cluster(m)->version;
	return ms_end(r, rc);
}
