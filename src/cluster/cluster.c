// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cluster/impl.h"

static_assert(CLUSTER_CHOICE_MAX > ENCODING_STRIPE_MAX, "a choice has room for spare disks");

void cluster_init(struct cluster *c)
{
	memset(c, 0, sizeof(*c));
	c->network_place = PLACE_DECLUSTERED;
	map_init(&c->racks, CLUSTER_RACKS_MAX);
	map_init(&c->nodes, CLUSTER_NODES_MAX);
	map_init(&c->disks, CLUSTER_DISKS_MAX);
}

/* Frees the candidates and orders; the next choice computes them again. */
static void cluster_drop_orders(struct cluster *c)
{
	free(c->candidates);
	c->candidates = NULL;
	c->candidate_count = 0;
	for (size_t i = 0; i < CLUSTER_SHUFFLES; i++) {
		free(c->orders[i]);
		c->orders[i] = NULL;
	}
}

static void free_values(struct map *m)
{
	map_for_each(m, it)
		free(it.value);
	map_fini(m);
}

void cluster_fini(struct cluster *c)
{
	cluster_drop_orders(c);
	free_values(&c->racks);
	free_values(&c->nodes);
	free_values(&c->disks);
}

/* Stores a copy of the record under its id. Overwrites a record with the same id in place, so that pointers to it
 * stay valid. */
static int put(struct cluster *c, struct map *m, uint64_t id, const void *record, size_t size)
{
	assert(id != 0);
	void *slot = map_get(m, id);
	assert(slot != record);
	if (slot == NULL) {
		slot = malloc(size);
		if (slot == NULL)
			return -ENOMEM;
		int rc = map_put(m, id, slot);
		if (rc < 0) {
			free(slot);
			return rc;
		}
	}
	memcpy(slot, record, size);
	cluster_drop_orders(c);
	return 0;
}

int cluster_copy(struct cluster *to, const struct cluster *from)
{
	int rc = 0;
	assert(map_count(&to->racks) + map_count(&to->nodes) + map_count(&to->disks) == 0);
	map_for_each(&from->racks, rack)
		rc = rc != 0 ? rc
			     : put(to, &to->racks, rack.key, rack.value,
				   sizeof(struct cluster_rack));
	map_for_each(&from->nodes, node)
		rc = rc != 0 ? rc
			     : put(to, &to->nodes, node.key, node.value,
				   sizeof(struct cluster_node));
	map_for_each(&from->disks, disk)
		rc = rc != 0 ? rc
			     : put(to, &to->disks, disk.key, disk.value,
				   sizeof(struct cluster_disk));
	to->cache_nodes = from->cache_nodes;
	to->version = from->version;
	to->id = from->id;
	to->network_place = from->network_place;
	return rc;
}

static bool name_valid(const char *name)
{
	size_t len = strnlen(name, CLUSTER_NAME_MAX + 1);
	return len > 0 && len <= CLUSTER_NAME_MAX;
}

int cluster_put_rack(struct cluster *c, const struct cluster_rack *r)
{
	if (r->id == 0 || r->id > CLUSTER_RACKS_MAX || !name_valid(r->name))
		return -EINVAL;
	return put(c, &c->racks, r->id, r, sizeof(*r));
}

int cluster_put_node(struct cluster *c, const struct cluster_node *n)
{
	if (n->id == 0 || !name_valid(n->name) || cluster_rack(c, n->rack) == NULL ||
	    n->cache_weight > CLUSTER_CACHE_WEIGHT_MAX)
		return -EINVAL;
	const struct cluster_node *now = cluster_node(c, n->id);
	bool was_cache = now != NULL && now->cache_weight > 0;
	int rc = put(c, &c->nodes, n->id, n, sizeof(*n));
	if (rc == 0)
		c->cache_nodes = c->cache_nodes - was_cache + (n->cache_weight > 0);
	return rc;
}

int cluster_put_disk(struct cluster *c, const struct cluster_disk *d)
{
	if (d->id == 0 || cluster_node(c, d->node) == NULL || d->weight > CLUSTER_WEIGHT_MAX)
		return -EINVAL;
	if (d->pool &&
	    (d->local.k < 1 || d->local.p < 0 || d->local.k + d->local.p > ENCODING_STRIPE_MAX))
		return -EINVAL;
	return put(c, &c->disks, d->id, d, sizeof(*d));
}

const struct cluster_rack *cluster_rack(const struct cluster *c, uint32_t id)
{
	return map_get(&c->racks, id);
}

const struct cluster_node *cluster_node(const struct cluster *c, uint64_t id)
{
	return map_get(&c->nodes, id);
}

struct cluster_disk *cluster_disk(const struct cluster *c, uint64_t id)
{
	return map_get(&c->disks, id);
}

const struct cluster_rack *cluster_rack_named(const struct cluster *c, const char *name)
{
	map_for_each(&c->racks, it) {
		const struct cluster_rack *r = it.value;
		if (strcmp(r->name, name) == 0)
			return r;
	}
	return NULL;
}

const struct cluster_node *cluster_node_of(const struct cluster *c, uint64_t disk)
{
	const struct cluster_disk *d = cluster_disk(c, disk);
	return d == NULL ? NULL : cluster_node(c, d->node);
}

static enum cluster_state worse(enum cluster_state a, enum cluster_state b)
{
	assert(cluster_state_valid(a) && cluster_state_valid(b));
	return a > b ? a : b;
}

enum cluster_state cluster_node_state(const struct cluster_node *n)
{
	return worse(n->health, n->wanted);
}

enum cluster_state cluster_disk_state(const struct cluster *c, const struct cluster_disk *d)
{
	const struct cluster_node *n = cluster_node(c, d->node);
	assert(n != NULL); /* cluster_put_disk refuses a disk without its node */
	return worse(worse(d->health, d->wanted), cluster_node_state(n));
}

static const char *const state_names[] = {
	[CLUSTER_ONLINE] = "online",     [CLUSTER_FULL] = "full",     [CLUSTER_SUSPECT] = "suspect",
	[CLUSTER_DRAINING] = "draining", [CLUSTER_FAILED] = "failed", [CLUSTER_GONE] = "gone",
};

bool cluster_state_valid(uint32_t s)
{
	return s < ARRAY_LEN(state_names);
}

const char *cluster_media_name(enum cluster_media m)
{
	static const char *const names[CLUSTER_MEDIA_COUNT] = {
		[CLUSTER_MEDIA_DISK] = "disk",
		[CLUSTER_MEDIA_FLASH] = "flash",
	};
	assert(m < CLUSTER_MEDIA_COUNT);
	return names[m];
}

bool cluster_media_valid(uint32_t m)
{
	return m < CLUSTER_MEDIA_COUNT;
}

enum cluster_media cluster_disk_media(const struct cluster *c, uint64_t disk)
{
	const struct cluster_disk *d = cluster_disk(c, disk);
	return d == NULL ? CLUSTER_MEDIA_DISK : d->media;
}

const char *cluster_state_name(enum cluster_state s)
{
	return cluster_state_valid((uint32_t)s) ? state_names[s] : "unknown";
}
