// SPDX-License-Identifier: Apache-2.0
/* Client stubs of the requests for the cluster map. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/record.h"
#include "meta_api/node.h"
#include "meta_client/impl.h"
#include "meta_client/load.h"
#include "rt/rt.h"

#define PAGES_MAX 1000

/* The merge_ functions add a record of a response to the map, unless the map has a newer record: a server with an
 * older map sends older records than the client has. */

static int merge_rack(struct cluster *to, const Terrane__Cluster__RackRecord *m)
{
	struct cluster_rack r;
	int rc = cluster_rack_read(&r, m);
	const struct cluster_rack *have = rc == 0 ? cluster_rack(to, r.id) : NULL;
	return rc < 0 || (have != NULL && have->version > r.version) ? rc
								     : cluster_put_rack(to, &r);
}

static int merge_node(struct cluster *to, const Terrane__Cluster__NodeRecord *m)
{
	struct cluster_node n;
	int rc = cluster_node_read(&n, m);
	const struct cluster_node *have = rc == 0 ? cluster_node(to, n.id) : NULL;
	return rc < 0 || (have != NULL && have->version > n.version) ? rc
								     : cluster_put_node(to, &n);
}

/* Adds a disk of a response to the map, unless the map has a newer record. The used bytes are no part of the
 * versioned record, so they are taken from an older record, too. */
static int merge_disk(struct cluster *to, const Terrane__Cluster__DiskRecord *m, bool usage)
{
	struct cluster_disk d;
	int rc = cluster_disk_read(&d, m);
	if (rc < 0)
		return rc;
	struct cluster_disk *have = cluster_disk(to, d.id);
	if (have != NULL && !usage)
		d.used_bytes = have->used_bytes;
	if (have == NULL || have->version <= d.version)
		return cluster_put_disk(to, &d);
	have->used_bytes = d.used_bytes;
	return 0;
}

static int merge_records(struct cluster *to, const Terrane__Meta__MapGetResponse *p, bool usage)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < p->n_racks; i++)
		rc = merge_rack(to, p->racks[i]);
	for (size_t i = 0; rc == 0 && i < p->n_nodes; i++)
		rc = merge_node(to, p->nodes[i]);
	for (size_t i = 0; rc == 0 && i < p->n_disks; i++)
		rc = merge_disk(to, p->disks[i], usage);
	return rc;
}

/* Keeps the loads of a response in place of those before. */
static int keep_loads(struct meta_client *m, const Terrane__Meta__MapGetResponse *p)
{
	struct mc_load *all = calloc(p->n_loads + 1, sizeof(*all));
	int rc = all == NULL ? -ENOMEM : 0;
	for (size_t i = 0; rc == 0 && i < p->n_loads; i++) {
		all[i].node = p->loads[i]->node;
		rc = cluster_load_read(&all[i].load, p->loads[i]->load);
	}
	if (rc < 0) {
		free(all);
		return rc;
	}
	free(m->loads);
	m->loads = all;
	m->load_count = p->n_loads;
	return 0;
}

void meta_client_load(const struct meta_client *m, uint64_t node, struct cluster_load *out)
{
	*out = (struct cluster_load){0};
	for (size_t i = 0; i < m->load_count; i++)
		if (m->loads[i].node == node)
			*out = m->loads[i].load;
}

static bool same_id(struct cluster_id a, struct cluster_id b)
{
	return a.high == b.high && a.low == b.low;
}

/* Empties the client's map, because the servers that the client reaches belong to another cluster now. */
static void map_reset(struct meta_client *m)
{
	cluster_fini(&m->cluster);
	cluster_init(&m->cluster);
	m->map_ns = 0;
}

static int merge_page(struct meta_call *c, const Terrane__Meta__MapGetResponse *p, bool usage)
{
	struct cluster *to = &c->client->cluster;
	assert(rt_mutex_held(&c->client->map_turn));
	struct cluster_id id = {.high = p->cluster_high, .low = p->cluster_low};
	if (p->network_place > PLACE_OVERLAP)
		return mc_response_error(c, -EINVAL);
	if (to->version != 0 && !same_id(id, to->id))
		map_reset(c->client);
	to->id = id;
	to->network_place = (enum place_kind)p->network_place;
	int rc = merge_records(to, p, usage);
	if (rc == 0 && usage && !p->more)
		rc = keep_loads(c->client, p);
	/* After an error in the middle of a page, the version stays, and the client asks for the same page again. */
	if (rc == 0 && p->version > to->version)
		to->version = p->version;
	return mc_response_error(c, rc == -EBADMSG ? -EINVAL : rc);
}

static int map_fetch(struct meta_call *c, bool usage)
{
	struct cluster *map = &c->client->cluster;
	for (int page = 0; page < PAGES_MAX; page++) {
		Terrane__Meta__MapGetRequest q = TERRANE__META__MAP_GET_REQUEST__INIT;
		q.since = map->version;
		q.cluster_high = map->id.high;
		q.cluster_low = map->id.low;
		q.usage = usage;
		AUTO_REPLY struct rpc_reply reply;
		int rc = mc_call(c, &meta_type_map_get, &q.base, &reply);
		if (rc == 0)
			rc = merge_page(c, reply.message, usage);
		if (rc < 0)
			return rc;
		const Terrane__Meta__MapGetResponse *p = reply.message;
		if (!p->more)
			return 0;
	}
	return mc_response_error(c, -EINVAL);
}

static int map_not_older(struct meta_call *c, uint64_t max_age_ns, bool usage, struct cluster **out)
{
	struct meta_client *m = c->client;
	assert(rt_on_loop(m->loop));
	*out = &m->cluster;
	c->in_doubt = false;
	c->error[0] = 0;
	uint64_t wanted_ns = rt_ago_ns(max_age_ns);
	if (m->map_ns != 0 && m->map_ns >= wanted_ns && !usage)
		return 0;
	int rc = rt_mutex_lock(&m->map_turn);
	if (rc < 0)
		return mc_fail(c, rc);
	/* Another fiber may have fetched the map while this fiber waited. */
	if (m->map_ns == 0 || m->map_ns < wanted_ns || usage) {
		uint64_t now_ns = rt_now_ns();
		rc = map_fetch(c, usage);
		if (rc == 0)
			m->map_ns = now_ns;
	}
	rt_mutex_unlock(&m->map_turn);
	return rc < 0 && m->map_ns != 0 && rc != -ECANCELED ? 0 : rc;
}

int meta_client_map(struct meta_call *c, uint64_t max_age_ns, struct cluster **out)
{
	return map_not_older(c, max_age_ns, false, out);
}

int meta_client_map_usage(struct meta_call *c, struct cluster **out)
{
	return map_not_older(c, 0, true, out);
}

/* --- nodes and operators ------------------------------------------------------------------------ */

static Terrane__Meta__NodeDisk **node_disks(struct arena *a, const struct meta_map_node *n)
{
	Terrane__Meta__NodeDisk *all = arena_alloc(a, (n->disk_count + 1) * sizeof(*all));
	Terrane__Meta__NodeDisk **list =
		arena_alloc(a, (n->disk_count + 1) * sizeof(Terrane__Meta__NodeDisk *));
	if (all == NULL || list == NULL)
		return NULL;
	for (size_t i = 0; i < n->disk_count; i++) {
		const struct meta_map_disk *d = &n->disks[i];
		terrane__meta__node_disk__init(&all[i]);
		all[i].id = d->id;
		all[i].media = d->media;
		all[i].local_k = (uint32_t)d->local.k;
		all[i].local_p = (uint32_t)d->local.p;
		all[i].capacity_bytes = d->capacity_bytes;
		all[i].used_bytes = d->used_bytes;
		all[i].health = d->health;
		all[i].created_ns = d->created_ns;
		list[i] = &all[i];
	}
	return list;
}

int meta_client_node_register(struct meta_call *c, const struct meta_map_node *n,
			      struct cluster_id *cluster, uint64_t *beat_ns)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_LARGE);
	if (n->disk_count > META_MAP_NODE_DISKS_MAX)
		return mc_fail(c, -ENOSPC);
	Terrane__Meta__NodeRegisterRequest q = TERRANE__META__NODE_REGISTER_REQUEST__INIT;
	q.id = n->id;
	q.incarnation = n->incarnation;
	q.name = (char *)n->name;
	q.rack = (char *)n->rack;
	q.addr = (char *)n->addr;
	q.cache_weight = n->cache_weight;
	q.n_disks = n->disk_count;
	q.disks = node_disks(&a, n);
	if (q.disks == NULL)
		return mc_fail(c, -ENOMEM);
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_node_register, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__NodeRegisterResponse *p = reply.message;
	*cluster = (struct cluster_id){.high = p->cluster_high, .low = p->cluster_low};
	*beat_ns = p->beat_ms * NS_PER_MS;
	return 0;
}

int meta_client_node_beat(struct meta_call *c, const struct meta_map_node *n, uint64_t *beat_ns)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_LARGE);
	if (n->disk_count > META_MAP_NODE_DISKS_MAX)
		return mc_fail(c, -ENOSPC);
	Terrane__Meta__NodeBeatRequest q = TERRANE__META__NODE_BEAT_REQUEST__INIT;
	q.id = n->id;
	q.incarnation = n->incarnation;
	q.n_disks = n->disk_count;
	q.disks = node_disks(&a, n);
	if (q.disks == NULL)
		return mc_fail(c, -ENOMEM);
	Terrane__Cluster__Load load;
	cluster_load_write(&load, &n->load);
	q.load = &load;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_node_beat, &q.base, &reply);
	if (rc < 0)
		return rc;
	*beat_ns = ((const Terrane__Meta__NodeBeatResponse *)reply.message)->beat_ms * NS_PER_MS;
	return 0;
}

int meta_client_want_node(struct meta_call *c, uint64_t node, enum cluster_state wanted)
{
	Terrane__Meta__MapWantRequest q = TERRANE__META__MAP_WANT_REQUEST__INIT;
	q.node = node;
	q.wanted = wanted;
	return mc_call_status(c, &meta_type_map_want, &q.base);
}

int meta_client_want_disk(struct meta_call *c, uint64_t disk, enum cluster_state wanted)
{
	Terrane__Meta__MapWantRequest q = TERRANE__META__MAP_WANT_REQUEST__INIT;
	q.disk = disk;
	q.wanted = wanted;
	return mc_call_status(c, &meta_type_map_want, &q.base);
}

int meta_client_weigh_disk(struct meta_call *c, uint64_t disk, uint32_t weight)
{
	Terrane__Meta__MapWantRequest q = TERRANE__META__MAP_WANT_REQUEST__INIT;
	q.disk = disk;
	q.weigh = true;
	q.weight = weight;
	return mc_call_status(c, &meta_type_map_want, &q.base);
}
