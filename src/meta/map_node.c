// SPDX-License-Identifier: Apache-2.0
/* Handles registrations and heartbeats of nodes, and makes the changes of the map that follow from them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "meta/map_impl.h"
#include "meta_api/node.h"
#include "rt/net.h"

_Static_assert(CLUSTER_ADDR_MAX <= RT_ADDR_MAX, "connections must take any address of the map");

static int check_name(const char *name)
{
	size_t len = strnlen(name, CLUSTER_NAME_MAX + 1);
	return len == 0 ? -EINVAL : len > CLUSTER_NAME_MAX ? -ENAMETOOLONG : 0;
}

static int by_disk_id(const void *a, const void *b)
{
	const struct meta_map_disk *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

static bool shape_valid(struct rs_shape s)
{
	return (s.k == 0 && s.p == 0) ||
	       (s.k > 0 && s.p >= 0 && s.k <= ENCODING_STRIPE_MAX && s.p <= ENCODING_STRIPE_MAX &&
		s.k + s.p <= ENCODING_STRIPE_MAX);
}

/* Checks the disks of a report. They must be sorted by id, so that duplicates are adjacent. */
static int check_disks(const struct meta_map_disk *d, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (d[i].id == 0 || !cluster_media_valid(d[i].media) || !shape_valid(d[i].local) ||
		    !cluster_state_valid(d[i].health) || (i > 0 && d[i].id == d[i - 1].id))
			return -EINVAL;
	return 0;
}

/* Returns the health that the map stores for a disk, from the state that its node reported. */
static enum cluster_state reported(enum cluster_state s)
{
	return s == CLUSTER_ONLINE || s == CLUSTER_FULL || s == CLUSTER_SUSPECT ? s
	       : s == CLUSTER_DRAINING
		       ? CLUSTER_ONLINE /* draining is a wanted state, not a health */
		       : CLUSTER_FAILED;
}

/* Returns the lowest position in the rack that no pool of this media has. Each media has its own positions,
 * because a network pool has one media. */
static uint32_t free_position(const struct map_edit *e, uint32_t rack, enum cluster_media media)
{
	const struct cluster *c = &e->m->cluster;
	for (uint32_t at = 0;; at++) {
		bool taken = false;
		map_for_each(&c->disks, it) {
			const struct cluster_disk *d = it.value;
			const struct cluster_node *n = cluster_node(c, d->node);
			taken = taken ||
				(d->pool && n->rack == rack && d->position == at &&
				 d->media == media && cluster_disk_state(c, d) != CLUSTER_GONE);
		}
		for (size_t i = 0; i < e->disk_count; i++)
			taken = taken || (e->disks[i].pool && e->disks[i].media == media &&
					  e->disks[i].position == at);
		if (!taken)
			return at;
	}
}

/* Returns whether a disk of the map can be assigned to a node, which is not possible while another online node
 * serves the disk. */
static bool may_have(const struct cluster *c, const struct cluster_disk *d, uint64_t node)
{
	const struct cluster_node *owner = cluster_node(c, d->node);
	assert(owner != NULL); /* cluster_put_disk refuses a disk without its node */
	return owner->id == node || cluster_node_state(owner) != CLUSTER_ONLINE ||
	       d->health == CLUSTER_FAILED;
}

/* Returns whether a report has a drive with another creation time. A report without a creation time, because the
 * disk is offline, changes nothing. */
static bool is_new_drive(const struct cluster_disk *now, const struct meta_map_disk *in)
{
	return in->created_ns != 0 && (now == NULL || now->created_ns != in->created_ns);
}

/* Adds a reported disk to the change if the map has other values for it. If another online node serves the disk,
 * leaves the disk out: the node is registered without it. */
static int register_disk(struct map_edit *e, const struct meta_map_node *n,
			 const struct meta_map_disk *in, uint32_t rack)
{
	const struct cluster_disk *now = cluster_disk(&e->m->cluster, in->id);
	struct cluster_disk d = {.id = in->id, .weight = CLUSTER_WEIGHT_ONE};
	if (now != NULL && !may_have(&e->m->cluster, now, n->id)) {
		log_warn("disk_refused", "node=%lu disk=%016lx owner=%lu", n->id, in->id,
			 now->node);
		return 0;
	}
	if (now != NULL)
		d = *now;
	d.node = n->id;
	d.media = in->media;
	d.pool = in->local.k > 0;
	d.local = in->local;
	d.capacity_bytes = in->capacity_bytes;
	d.health = reported(in->health);
	if (is_new_drive(now, in))
		d.created_ns = in->created_ns;
	if (d.pool && (now == NULL || now->node != n->id || now->media != d.media))
		d.position = free_position(e, rack, d.media);
	/* The capacity of a folder on a shared filesystem varies all the time: compare it in GiB, the unit of weights. */
	if (now != NULL && now->node == d.node && now->media == d.media &&
	    now->local.k == d.local.k && now->local.p == d.local.p && now->health == d.health &&
	    now->created_ns == d.created_ns && now->capacity_bytes / GIB == d.capacity_bytes / GIB)
		return 0;
	return map_edit_disk(e, &d);
}

static bool names_disk(const struct meta_map_node *n, uint64_t id)
{
	const struct meta_map_disk key = {.id = id};
	return n->disk_count > 0 &&
	       bsearch(&key, n->disks, n->disk_count, sizeof(key), by_disk_id) != NULL;
}

/* Sets those disks of the node to failed that the node does not report any more. */
static int fail_missing(struct map_edit *e, const struct meta_map_node *n)
{
	int rc = 0;
	map_for_each(&e->m->cluster.disks, it) {
		const struct cluster_disk *d = it.value;
		if (rc < 0 || d->node != n->id || d->health == CLUSTER_FAILED ||
		    d->wanted == CLUSTER_GONE || names_disk(n, d->id))
			continue;
		struct cluster_disk lost = *d;
		lost.health = CLUSTER_FAILED;
		rc = map_edit_disk(e, &lost);
	}
	return rc;
}

static int rack_of(struct map_edit *e, const char *name, uint32_t *id)
{
	const struct cluster_rack *r = cluster_rack_named(&e->m->cluster, name);
	if (r != NULL) {
		*id = r->id;
		return 0;
	}
	assert(map_count(&e->m->cluster.racks) >= e->m->head.racks);
	if (e->m->head.racks >= CLUSTER_RACKS_MAX)
		return -ENOSPC;
	*id = e->m->head.racks + 1;
	e->rack = (struct cluster_rack){.id = *id};
	memcpy(e->rack.name, name, strlen(name) + 1);
	e->has_rack = true;
	return 0;
}

static bool same_node(const struct cluster_node *a, const struct cluster_node *b)
{
	return a->rack == b->rack && strcmp(a->name, b->name) == 0 &&
	       strcmp(a->addr, b->addr) == 0 && a->incarnation == b->incarnation &&
	       a->health == b->health && a->cache_weight == b->cache_weight;
}

/*
 * Returns whether another machine seems to run as this node: the node's last process sent a heartbeat within
 * suspect_ns and has a disk that the new process does not report. A machine with a copied configuration would
 * otherwise set all these disks to failed. A restarted node reports all its disks; if it lost a disk in the
 * restart, it has to wait for suspect_ns.
 */
static bool is_other_machine(struct map_edit *e, const struct cluster_node *now,
			     const struct meta_map_node *in)
{
	const struct map_heartbeat *heartbeat = map_heartbeat(e->m, in->id);
	if (now->incarnation == in->incarnation || now->health != CLUSTER_ONLINE ||
	    heartbeat == NULL || rt_elapsed_ns(heartbeat->seen_ns) >= e->m->o.suspect_ns)
		return false;
	map_for_each(&e->m->cluster.disks, it) {
		const struct cluster_disk *d = it.value;
		if (d->node == in->id && d->health != CLUSTER_FAILED && d->wanted != CLUSTER_GONE &&
		    !names_disk(in, d->id))
			return true;
	}
	return false;
}

static int register_node(struct map_edit *e)
{
	const struct meta_map_node *in = e->arg;
	const struct cluster_node *now = cluster_node(&e->m->cluster, in->id);
	if (now != NULL && now->wanted == CLUSTER_GONE)
		return -EPERM;
	if (now != NULL && is_other_machine(e, now, in))
		return -EBUSY;
	struct cluster_node n = now != NULL ? *now : (struct cluster_node){.id = in->id};
	int rc = rack_of(e, in->rack, &n.rack);
	if (rc < 0)
		return rc;
	n.incarnation = in->incarnation;
	n.health = CLUSTER_ONLINE;
	n.cache_weight = in->cache_weight;
	memset(n.name, 0, sizeof(n.name));
	memset(n.addr, 0, sizeof(n.addr));
	memcpy(n.name, in->name, strlen(in->name));
	memcpy(n.addr, in->addr, strlen(in->addr));
	if (now == NULL && map_count(&e->m->cluster.nodes) >= CLUSTER_NODES_MAX)
		return -ENOSPC;
	if (now == NULL || !same_node(now, &n))
		rc = map_edit_node(e, &n);
	for (size_t i = 0; rc == 0 && i < in->disk_count; i++)
		rc = register_disk(e, in, &in->disks[i], n.rack);
	if (rc == 0)
		rc = fail_missing(e, in);
	if (rc == 0 && map_count(&e->m->cluster.disks) + e->disk_count > CLUSTER_DISKS_MAX)
		rc = -ENOSPC;
	return rc;
}

static int check_report(const struct meta_map_node *n)
{
	if (n->id == 0 || n->incarnation == 0)
		return -EINVAL;
	return n->disk_count > META_MAP_NODE_DISKS_MAX ? -ENOSPC : 0;
}

/* Returns a copy of the node's disks, sorted by id and checked. The caller frees *out, also after an error. */
static int sorted(const struct meta_map_node *n, struct meta_map_disk **out)
{
	*out = malloc((n->disk_count + 1) * sizeof(**out));
	if (*out == NULL)
		return -ENOMEM;
	if (n->disk_count > 0)
		memcpy(*out, n->disks, n->disk_count * sizeof(**out));
	qsort(*out, n->disk_count, sizeof(**out), by_disk_id);
	return check_disks(*out, n->disk_count);
}

int meta_map_register(struct meta_map *m, const struct meta_map_node *n)
{
	AUTO_FREE struct meta_map_disk *disks = NULL;
	int rc = check_report(n);
	if (rc == 0)
		rc = check_name(n->name);
	if (rc == 0)
		rc = check_name(n->rack);
	if (rc == 0 && (n->addr[0] == 0 || n->cache_weight > CLUSTER_CACHE_WEIGHT_MAX))
		rc = -EINVAL;
	if (rc == 0 && strlen(n->addr) >= CLUSTER_ADDR_MAX)
		rc = -ENAMETOOLONG;
	if (rc == 0)
		rc = sorted(n, &disks);
	if (rc < 0)
		return rc;
	struct meta_map_node in = *n;
	in.disks = disks;
	rc = map_change(m, register_node, &in);
	if (rc < 0)
		return rc;
	struct map_heartbeat *heartbeat = map_heartbeat(m, n->id);
	if (heartbeat == NULL)
		return -ENOMEM;
	heartbeat->seen_ns = rt_now_ns();
	log_info("node_registered", "node=%lu name=%s rack=%s disks=%zu version=%lu", n->id,
		 LOG_QUOTE(n->name), LOG_QUOTE(n->rack), n->disk_count, m->head.version);
	return 0;
}

/* --- heartbeats ------------------------------------------------------------------------------- */

/* Returns a hash of the process and of the disks that it reports, never 0. The disks must be sorted. */
static uint64_t names_hash(const struct meta_map_node *n)
{
	uint64_t h = n->incarnation;
	for (size_t i = 0; i < n->disk_count; i++)
		h = hash64_u64s(h, n->disks[i].id);
	return h | 1;
}

/* Returns whether a heartbeat may change the map. Compares the set of disks only with that of the previous
 * heartbeat, because the search for missing disks reads the complete map. */
static bool beat_differs(const struct cluster *c, const struct cluster_node *now,
			 const struct map_heartbeat *heartbeat, const struct meta_map_node *n)
{
	if (now->health != CLUSTER_ONLINE || heartbeat->named_disks != names_hash(n))
		return true;
	for (size_t i = 0; i < n->disk_count; i++) {
		const struct cluster_disk *d = cluster_disk(c, n->disks[i].id);
		if (d == NULL || (d->node != n->id && may_have(c, d, n->id)) ||
		    (d->node == n->id &&
		     (d->health != reported(n->disks[i].health) || is_new_drive(d, &n->disks[i]))))
			return true;
	}
	return false;
}

static int beat_node(struct map_edit *e)
{
	const struct meta_map_node *in = e->arg;
	const struct cluster_node *now = cluster_node(&e->m->cluster, in->id);
	if (now == NULL)
		return -ENOENT;
	if (now->incarnation != in->incarnation)
		return -ESTALE;
	int rc = 0;
	if (now->health != CLUSTER_ONLINE) {
		struct cluster_node n = *now;
		n.health = CLUSTER_ONLINE;
		rc = map_edit_node(e, &n);
	}
	for (size_t i = 0; rc == 0 && i < in->disk_count; i++)
		rc = register_disk(e, in, &in->disks[i], now->rack);
	if (rc == 0)
		rc = fail_missing(e, in);
	if (rc == 0 && map_count(&e->m->cluster.disks) + e->disk_count > CLUSTER_DISKS_MAX)
		rc = -ENOSPC;
	return rc;
}

static int beat(struct meta_map *m, const struct meta_map_node *n)
{
	const struct cluster_node *now = cluster_node(&m->cluster, n->id);
	if (now == NULL || now->incarnation != n->incarnation) {
		/* The node may have registered with another server after this server last read the map. */
		int rc = map_refresh(m, false);
		if (rc < 0)
			return rc;
		now = cluster_node(&m->cluster, n->id);
	}
	if (now == NULL)
		return -ENOENT;
	if (now->incarnation != n->incarnation)
		return -ESTALE;
	struct map_heartbeat *heartbeat = map_heartbeat(m, n->id);
	if (heartbeat == NULL)
		return -ENOMEM;
	map_heartbeat_note(heartbeat, n);
	if (!beat_differs(&m->cluster, now, heartbeat, n))
		return 0;
	int rc = map_change(m, beat_node, (void *)n);
	if (rc == 0)
		heartbeat->named_disks = names_hash(n);
	return rc;
}

int meta_map_beat(struct meta_map *m, const struct meta_map_node *n)
{
	AUTO_FREE struct meta_map_disk *disks = NULL;
	int rc = check_report(n);
	if (rc == 0)
		rc = sorted(n, &disks);
	if (rc < 0)
		return rc;
	struct meta_map_node in = *n;
	in.disks = disks;
	return beat(m, &in);
}
