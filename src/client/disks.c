// SPDX-License-Identifier: Apache-2.0
/* Channels to nodes, opened on first use, and statistics of disks. A link belongs to an address:
 * when the map has a new address for the node, running requests end on the old link and the next
 * request opens a new one. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/fabric.h"
#include "cluster/cluster.h"
#include "code/plan.h"
#include "rt/net.h"

#define COST_ONE 100u
/* most cost that slowness adds to a read: less than the cost of a reconstruction */
#define COST_SLOW_MAX 90u
#define COST_SUSPECT 500u
/* cost of a read from a disk that was unreachable less than UNREACHABLE_NS ago */
#define COST_UNREACHABLE 5000u
#define UNREACHABLE_NS (3 * NS_PER_S)

struct link {
	struct rpc_channel *channel;
	char addr[RT_ADDR_MAX];
	unsigned users;
	/* the map has a newer address for the node: the last user of this link closes it */
	bool retired;
};

struct disk_seen {
	uint64_t mean_ns;        /* mean duration of reads */
	uint64_t unreachable_ns; /* time of the last failed request; 0: the last one succeeded */
};

static void link_free(struct link *l)
{
	assert(l->users == 0);
	rpc_channel_close(l->channel);
	free(l);
}

void links_close(struct fabric *f)
{
	map_for_each(&f->links, it)
		link_free(it.value);
	map_fini(&f->links);
	map_for_each(&f->seen, it)
		free(it.value);
	map_fini(&f->seen);
}

static int link_open(struct fabric *f, uint64_t node, const char *addr, struct link **out)
{
	struct link *l = calloc(1, sizeof(*l));
	if (l == NULL)
		return -ENOMEM;
	snprintf(l->addr, sizeof(l->addr), "%s", addr);
	struct rpc_channel_options o = {
		.pool = &f->shared->pool,
		.connect_timeout_ns = f->opts.connect_timeout_ns,
		.self = f->opts.self,
		.server = node,
	};
	int rc = rpc_channel_open(&l->channel, addr, &o);
	if (rc == 0) {
		rc = map_put(&f->links, node, l);
		if (rc < 0)
			rpc_channel_close(l->channel);
	}
	if (rc < 0) {
		free(l);
		return rc;
	}
	*out = l;
	return 0;
}

static int link_of(struct fabric *f, const struct cluster_node *node, struct link **out)
{
	struct link *l = map_get(&f->links, node->id);
	struct link *old = NULL;
	if (l != NULL && strcmp(l->addr, node->addr) != 0) {
		old = map_remove(&f->links, node->id);
		old->retired = true;
		l = NULL;
	}
	int rc = l == NULL ? link_open(f, node->id, node->addr, &l) : 0;
	if (rc == 0)
		l->users++; /* count the user first: closing the old link waits */
	if (old != NULL && old->users == 0)
		link_free(old);
	*out = l;
	return rc;
}

int disk_begin(struct call *c, uint64_t disk, struct disk_use *u)
{
	struct fabric *f = c->fabric;
	if (f->closing)
		return -ECANCELED;
	const struct cluster_disk *d = f->map == NULL ? NULL : cluster_disk(f->map, disk);
	if (d == NULL || cluster_disk_state(f->map, d) == CLUSTER_GONE)
		return -ENODEV;
	const struct cluster_node *node = cluster_node_of(f->map, disk);
	if (node == NULL)
		return -ENODEV;
	memset(u, 0, sizeof(*u));
	int rc = link_of(f, node, &u->link);
	if (rc < 0)
		return rc;
	u->disk = disk;
	u->start_ns = rt_now_ns();
	u->node.channel = u->link->channel;
	f->shared->stats.disk_requests++;
	return 0;
}

static void link_leave(struct link *l)
{
	assert(l->users > 0);
	if (--l->users == 0 && l->retired)
		link_free(l);
}

int node_begin(struct call *c, uint64_t node, struct node_use *u)
{
	struct fabric *f = c->fabric;
	const struct cluster_node *at = f->map != NULL ? cluster_node(f->map, node) : NULL;
	if (f->closing)
		return -ECANCELED;
	if (at == NULL)
		return -ENODEV;
	int rc = link_of(f, at, &u->link);
	if (rc == 0)
		u->channel = u->link->channel;
	return rc;
}

void node_end(struct node_use *u)
{
	link_leave(u->link);
}

static struct disk_seen *disk_seen(struct fabric *f, uint64_t disk)
{
	struct disk_seen *s = map_get(&f->seen, disk);
	if (s != NULL)
		return s;
	s = calloc(1, sizeof(*s));
	if (s != NULL && map_put(&f->seen, disk, s) < 0) {
		free(s);
		s = NULL;
	}
	return s;
}

bool disk_error_is_unreachable(int rc)
{
	switch (rc) {
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -ECONNABORTED:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
	case -ETIMEDOUT:
	case -ENODEV:
	case -EIO:
	case -ESHUTDOWN:
	case -EPIPE:
		return true;
	default:
		return false;
	}
}

void disk_note(struct fabric *f, uint64_t disk, int rc)
{
	bool unreachable = disk_error_is_unreachable(rc);
	struct disk_seen *s = rc == 0 || unreachable ? disk_seen(f, disk) : NULL;
	if (s != NULL)
		s->unreachable_ns = unreachable ? rt_now_ns() : 0;
}

void disk_end(struct call *c, struct disk_use *u, int rc, uint64_t len)
{
	struct fabric *f = c->fabric;
	uint64_t took_ns = rt_now_ns() - u->start_ns;
	disk_note(f, u->disk, rc);
	struct disk_seen *s = rc == 0 && len > 0 ? disk_seen(f, u->disk) : NULL;
	if (s != NULL) {
		pace_add(&f->pace, len, took_ns);
		s->mean_ns = pace_mean(s->mean_ns, took_ns);
	}
	link_leave(u->link);
}

uint32_t disk_cost(const struct fabric *f, uint64_t disk)
{
	const struct cluster_disk *d = f->map == NULL ? NULL : cluster_disk(f->map, disk);
	if (d == NULL || cluster_disk_state(f->map, d) == CLUSTER_GONE)
		return CHUNK_LOST;
	enum cluster_state state = cluster_disk_state(f->map, d);
	const struct disk_seen *s = map_get(&f->seen, disk);
	if (s != NULL && s->unreachable_ns != 0 && rt_now_ns() - s->unreachable_ns < UNREACHABLE_NS)
		return COST_UNREACHABLE;
	if (state == CLUSTER_FAILED)
		return COST_UNREACHABLE;
	uint64_t slow = s == NULL ? 0 : s->mean_ns / NS_PER_MS;
	uint32_t cost = COST_ONE + (uint32_t)min_u64(slow, COST_SLOW_MAX);
	return state == CLUSTER_SUSPECT ? cost + COST_SUSPECT : cost;
}
