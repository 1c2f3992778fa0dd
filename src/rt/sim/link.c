// SPDX-License-Identifier: Apache-2.0
/*
 * Links with a cap of bandwidth, as trees: the uplink of a rack below the link of its cluster.
 *
 *	        cluster A                 cluster B
 *	       /         \                    |
 *	    rack 1      rack 2             trainer
 *	    /    \         |
 *	  n0      n1       n2
 *
 * A packet climbs from its sender to the lowest link that both nodes are behind, and descends from there. It crosses
 * neither that link nor one above it: n0 to n1 crosses no link, n0 to n2 the uplink of rack 1 upwards and that of
 * rack 2 downwards, n0 to the trainer also that of cluster A upwards and the two of the trainer downwards.
 *
 * Each direction of a link carries one packet after the other, in the order in which they reach it: a packet that
 * arrives at t ends at max(t, end of the one before) + bytes / bandwidth. Invariant: so a direction that always
 * has a packet carries exactly its bandwidth. A packet reaches the next link when it has left the one before, and
 * the latency of the network follows after the last. Acknowledgements and the handshakes of connections cost nothing.
 */
#include <assert.h>

#include "base/base.h"
#include "rt/sim/conn.h"

#define LINK_DEPTH_MAX 4
#define PACKET_HEAD 64 /* bytes of a packet beside its data */

struct sim_link {
	struct sim *sim;
	struct list link; /* element of net.links */
	struct sim_link *above;
	uint64_t bytes_per_s;
	uint64_t free_ns
		[2]; /* time at which the last packet of a direction leaves; by enum sim_way */
	uint64_t bytes[2];
};

struct sim_link *sim_link_add(struct sim *s, struct sim_link *above, uint64_t bytes_per_s)
{
	struct sim_link *l = sim_need(calloc(1, sizeof(*l)));
	unsigned depth = 1;

	for (const struct sim_link *a = above; a != NULL; a = a->above)
		depth++;
	assert(bytes_per_s > 0 && depth <= LINK_DEPTH_MAX);
	l->sim = s;
	l->above = above;
	l->bytes_per_s = bytes_per_s;
	list_push_back(&s->net->links, &l->link);
	return l;
}

void sim_link_limit(struct sim_link *l, uint64_t bytes_per_s)
{
	assert(bytes_per_s > 0);
	l->bytes_per_s = bytes_per_s;
}

void sim_node_behind(struct sim_node *n, struct sim_link *l)
{
	assert(l->sim == n->sim && n->lives == 0);
	n->behind = l;
}

uint64_t sim_link_bytes(const struct sim_link *l, enum sim_way way)
{
	return l->bytes[way];
}

void links_free(struct sim_net *net)
{
	struct list *l;

	while ((l = list_pop_front(&net->links)) != NULL)
		free(list_entry(l, struct sim_link, link));
}

static size_t chain(struct sim_link *l, struct sim_link *out[LINK_DEPTH_MAX])
{
	size_t n = 0;

	for (; l != NULL; l = l->above)
		out[n++] = l;
	return n;
}

/* Returns the n-th link on the way of a packet and its direction; NULL: the packet has passed the last one. */
static struct sim_link *link_at(const struct sim_node *from, const struct sim_node *to, unsigned n,
				enum sim_way *way)
{
	struct sim_link *climb[LINK_DEPTH_MAX], *descend[LINK_DEPTH_MAX];
	size_t up = chain(from->behind, climb), down = chain(to->behind, descend);

	while (up > 0 && down > 0 && climb[up - 1] == descend[down - 1]) {
		up--;
		down--;
	}
	*way = n < up ? SIM_UP : SIM_DOWN;
	if (n < up)
		return climb[n];
	return n - up < down ? descend[down - 1 - (n - up)] : NULL;
}

bool link_next(const struct sim_node *from, const struct sim_node *to, struct sim_passage *p,
	       uint64_t *delay_ns)
{
	enum sim_way way;
	struct sim_link *l = link_at(from, to, p->passed, &way);

	if (l == NULL)
		return false;
	uint64_t bytes = p->bytes + PACKET_HEAD, now = l->sim->now_ns;
	uint64_t begin = max_u64(now, l->free_ns[way]);
	p->passed++;
	l->bytes[way] += p->bytes;
	l->free_ns[way] = begin + (bytes * NS_PER_S + l->bytes_per_s - 1) / l->bytes_per_s;
	*delay_ns = l->free_ns[way] - now;
	return true;
}
