// SPDX-License-Identifier: Apache-2.0
#include "cluster/record.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static int read_text(char *out, size_t size, const char *text)
{
	size_t len = strlen(text);
	if (len >= size)
		return -EBADMSG;
	memcpy(out, text, len + 1);
	return 0;
}

int cluster_head_read(struct cluster_head *h, const Terrane__Cluster__ClusterRecord *m)
{
	if (m->version == 0 || m->network_place > PLACE_OVERLAP || m->racks > CLUSTER_RACKS_MAX)
		return -EBADMSG;
	*h = (struct cluster_head){
		.version = m->version,
		.cluster = {.high = m->cluster_high, .low = m->cluster_low},
		.network_place = (enum place_kind)m->network_place,
		.racks = m->racks,
		.edit = m->edit,
	};
	return 0;
}

int cluster_rack_read(struct cluster_rack *r, const Terrane__Cluster__RackRecord *m)
{
	*r = (struct cluster_rack){.id = m->id, .version = m->version};
	if (m->id == 0 || m->id > CLUSTER_RACKS_MAX || m->name[0] == 0)
		return -EBADMSG;
	return read_text(r->name, sizeof(r->name), m->name);
}

int cluster_node_read(struct cluster_node *n, const Terrane__Cluster__NodeRecord *m)
{
	*n = (struct cluster_node){
		.id = m->id,
		.rack = m->rack,
		.incarnation = m->incarnation,
		.health = (enum cluster_state)m->health,
		.wanted = (enum cluster_state)m->wanted,
		.cache_weight = m->cache_weight,
		.version = m->version,
	};
	if (m->id == 0 || m->rack == 0 || m->name[0] == 0 || !cluster_state_valid(m->health) ||
	    !cluster_state_valid(m->wanted) || m->cache_weight > CLUSTER_CACHE_WEIGHT_MAX)
		return -EBADMSG;
	int rc = read_text(n->name, sizeof(n->name), m->name);
	return rc < 0 ? rc : read_text(n->addr, sizeof(n->addr), m->addr);
}

int cluster_disk_read(struct cluster_disk *d, const Terrane__Cluster__DiskRecord *m)
{
	if (m->id == 0 || m->node == 0 || !cluster_media_valid(m->media) ||
	    m->weight > CLUSTER_WEIGHT_MAX || !cluster_state_valid(m->health) ||
	    !cluster_state_valid(m->wanted))
		return -EBADMSG;
	if (m->local_k > ENCODING_STRIPE_MAX || m->local_p > ENCODING_STRIPE_MAX ||
	    m->local_k + m->local_p > ENCODING_STRIPE_MAX || m->pool != (m->local_k > 0))
		return -EBADMSG;
	*d = (struct cluster_disk){
		.id = m->id,
		.node = m->node,
		.media = (enum cluster_media)m->media,
		.pool = m->pool,
		.local = {.k = (int)m->local_k, .p = (int)m->local_p},
		.position = m->position,
		.capacity_bytes = m->capacity_bytes,
		.weight = m->weight,
		.health = (enum cluster_state)m->health,
		.wanted = (enum cluster_state)m->wanted,
		.version = m->version,
		.used_bytes = m->used_bytes,
		.created_ns = m->created_ns,
	};
	return 0;
}

void cluster_head_write(Terrane__Cluster__ClusterRecord *m, const struct cluster_head *h)
{
	assert(h->version != 0 && h->racks <= CLUSTER_RACKS_MAX);
	terrane__cluster__cluster_record__init(m);
	m->version = h->version;
	m->cluster_high = h->cluster.high;
	m->cluster_low = h->cluster.low;
	m->network_place = h->network_place;
	m->racks = h->racks;
	m->edit = h->edit;
}

void cluster_rack_write(Terrane__Cluster__RackRecord *m, const struct cluster_rack *r)
{
	assert(r->id != 0 && r->id <= CLUSTER_RACKS_MAX);
	terrane__cluster__rack_record__init(m);
	m->id = r->id;
	m->name = (char *)r->name;
	m->version = r->version;
}

void cluster_node_write(Terrane__Cluster__NodeRecord *m, const struct cluster_node *n)
{
	assert(n->id != 0 && n->rack != 0);
	terrane__cluster__node_record__init(m);
	m->id = n->id;
	m->name = (char *)n->name;
	m->rack = n->rack;
	m->addr = (char *)n->addr;
	m->incarnation = n->incarnation;
	m->health = n->health;
	m->wanted = n->wanted;
	m->cache_weight = n->cache_weight;
	m->version = n->version;
}

void cluster_disk_write(Terrane__Cluster__DiskRecord *m, const struct cluster_disk *d)
{
	assert(d->id != 0 && d->node != 0);
	terrane__cluster__disk_record__init(m);
	m->id = d->id;
	m->node = d->node;
	m->media = d->media;
	m->pool = d->pool;
	m->local_k = (uint32_t)d->local.k;
	m->local_p = (uint32_t)d->local.p;
	m->position = d->position;
	m->capacity_bytes = d->capacity_bytes;
	m->created_ns = d->created_ns;
	m->weight = d->weight;
	m->health = d->health;
	m->wanted = d->wanted;
	m->version = d->version;
}
