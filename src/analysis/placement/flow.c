// SPDX-License-Identifier: Apache-2.0
/*
 * The problem
 *
 *   maximize sum gain_j * x_j, 0 <= x_j <= 1, so that at every time the sizes of the jobs alive, times x_j, sum up to
 *   at most M.
 *
 * As a flow
 *
 *   Flash can be full only at the start of a job, so a node stands for each different start, in the order of time, and
 *   one more for the end. M bytes flow from the first node to the last. The arc of a job leads from the node of its
 *   start to that of the first start at or after its end; it carries at most its size, and gains gain / size for each
 *   byte. The arc of the chain leads from a node to the next one; it carries any amount and gains nothing: free flash.
 *   Every cut between two nodes carries M, so jobs alive at one time carry at most M, and each flow is a placement.
 *
 * Example: M = 10; A from 0 to 5 with 8 bytes gains 8; B from 2 to 6 with 6 bytes gains 9. Nodes: 0, 2, end. Arc A: 0 to
 * end, B: 2 to end. B gains 1.5 a byte and A 1: 6 bytes go along B, 4 along A. The gain is 9 + 4 = 13.
 *
 * The network simplex
 *
 *   A spanning tree holds the arcs whose flow is free; the others carry nothing or are full. The first tree is the
 *   chain, which carries M. Potentials make the reduced cost of arcs in the tree 0; an arc outside it enters when its
 *   reduced cost is such that a change of its flow gains. The change goes around the cycle that the arc closes, until an
 *   arc on it blocks; that arc leaves the tree. Among arcs that block, the last one in the direction of the cycle from
 *   its apex leaves (Cunningham's rule): the tree stays strongly feasible, so that steps that change nothing cannot
 *   repeat forever.
 *
 *   The difference of the potentials along the chain is the price of a byte on flash in that interval.
 *
 * Invariants:
 *   1. Flows are integers within 0 and the capacity, and what enters a node leaves it.
 *   2. An arc outside the tree is empty or full.
 *   3. `parent` leads from every node to the root, the first node; `depth` counts the steps.
 */
#include "analysis/placement/flow.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/base.h"

#define NONE UINT32_MAX
#define CHAIN_ROOM INT64_MAX
#define SIZES_MAX (1LL << 62)

enum arc_state { ARC_EMPTY, ARC_TREE, ARC_FULL };

struct arc {
	uint32_t from, to;
	int64_t flow, room;
	double cost; /* minus the gain of a byte */
	enum arc_state state;
};

struct node {
	uint32_t parent, arc;       /* the arc to the parent */
	uint32_t child, next, prev; /* first child; siblings */
	uint32_t depth;
	double potential;
};

struct net {
	struct arc *arcs; /* of the jobs, then of the chain */
	struct node *nodes;
	uint32_t arcs_n, jobs_n, nodes_n;
	uint32_t scan; /* where the search for an arc goes on */
	double tolerance;
	uint32_t *stack;
};

static double reduced(const struct net *net, const struct arc *a)
{
	return a->cost + net->nodes[a->from].potential - net->nodes[a->to].potential;
}

/* Finds an arc whose flow should change: the best one of the first block of arcs that has one. */
static uint32_t find_entering(struct net *net)
{
	uint32_t block = 50 + (uint32_t)sqrt(net->arcs_n), best = NONE, seen = 0;
	double most = net->tolerance;
	for (uint32_t i = 0; i < net->arcs_n; i++) {
		const struct arc *a = &net->arcs[net->scan];
		if (a->state != ARC_TREE) {
			double gain = a->state == ARC_EMPTY ? -reduced(net, a) : reduced(net, a);
			if (gain > most) {
				most = gain;
				best = net->scan;
			}
		}
		net->scan = net->scan + 1 == net->arcs_n ? 0 : net->scan + 1;
		if (++seen >= block && best != NONE)
			return best;
		if (seen >= block)
			seen = 0;
	}
	return best;
}

/* Returns how much the flow along an arc of the tree can grow, from the node to its parent or back. */
static int64_t room_up(const struct net *net, uint32_t node, bool up)
{
	const struct arc *a = &net->arcs[net->nodes[node].arc];
	bool along = (a->from == node) == up;
	return along ? a->room - a->flow : a->flow;
}

static void add_flow(struct net *net, uint32_t node, bool up, int64_t amount)
{
	struct arc *a = &net->arcs[net->nodes[node].arc];
	a->flow += (a->from == node) == up ? amount : -amount;
	assert(a->flow >= 0 && a->flow <= a->room);
}

static uint32_t find_apex(const struct net *net, uint32_t a, uint32_t b)
{
	while (a != b) {
		if (net->nodes[a].depth >= net->nodes[b].depth)
			a = net->nodes[a].parent;
		else
			b = net->nodes[b].parent;
	}
	return a;
}

static void unlink_child(struct net *net, uint32_t v)
{
	struct node *n = &net->nodes[v];
	if (n->prev != NONE)
		net->nodes[n->prev].next = n->next;
	else
		net->nodes[n->parent].child = n->next;
	if (n->next != NONE)
		net->nodes[n->next].prev = n->prev;
}

static void link_child(struct net *net, uint32_t v, uint32_t parent, uint32_t arc)
{
	struct node *n = &net->nodes[v], *p = &net->nodes[parent];
	n->parent = parent;
	n->arc = arc;
	n->prev = NONE;
	n->next = p->child;
	if (p->child != NONE)
		net->nodes[p->child].prev = v;
	p->child = v;
}

/* Moves the subtree that hangs on `cut` below `onto`, so that `inner`, a node of it, becomes its root. */
static void hang(struct net *net, uint32_t cut, uint32_t inner, uint32_t onto, uint32_t arc)
{
	uint32_t v = inner, parent = onto, by = arc;
	while (parent != NONE) {
		uint32_t next = v == cut ? NONE : net->nodes[v].parent;
		uint32_t next_by = net->nodes[v].arc;
		unlink_child(net, v);
		link_child(net, v, parent, by);
		parent = next == NONE ? NONE : v;
		by = next_by;
		v = next;
	}
}

/* Sets depth and potential of the subtree by those of the parent of its root. */
static void settle(struct net *net, uint32_t root)
{
	uint32_t n = 0;
	net->stack[n++] = root;
	while (n > 0) {
		uint32_t v = net->stack[--n];
		struct node *node = &net->nodes[v];
		const struct node *parent = &net->nodes[node->parent];
		const struct arc *a = &net->arcs[node->arc];
		node->depth = parent->depth + 1;
		node->potential =
			a->from == v ? parent->potential - a->cost : parent->potential + a->cost;
		for (uint32_t c = node->child; c != NONE; c = net->nodes[c].next) {
			assert(n < net->nodes_n);
			net->stack[n++] = c;
		}
	}
}

/*
 * The cycle runs from its apex down to `tail`, along the entering arc to `head`, and up to the apex. Finds the amount by
 * which the flow around it can change, and the node whose arc to its parent blocks; NONE: the entering arc itself.
 */
struct cycle {
	uint32_t tail, head, apex, leaving;
	bool on_tail_side;
	int64_t amount;
};

static struct cycle find_cycle(const struct net *net, uint32_t entering)
{
	const struct arc *e = &net->arcs[entering];
	bool forward = e->state == ARC_EMPTY;
	struct cycle c = {.tail = forward ? e->from : e->to,
			  .head = forward ? e->to : e->from,
			  .leaving = NONE,
			  .amount = e->room};
	c.apex = find_apex(net, c.tail, c.head);
	/* The last blocking arc from the apex on: on the way down the one closest to the tail, ... */
	for (uint32_t v = c.tail; v != c.apex; v = net->nodes[v].parent) {
		int64_t room = room_up(net, v, false);
		if (room < c.amount) {
			c.amount = room;
			c.leaving = v;
			c.on_tail_side = true;
		}
	}
	/* ... but the entering arc is after those, and on the way up the one closest to the apex is the last. */
	for (uint32_t v = c.head; v != c.apex; v = net->nodes[v].parent) {
		int64_t room = room_up(net, v, true);
		if (room <= c.amount) {
			c.amount = room;
			c.leaving = v;
			c.on_tail_side = false;
		}
	}
	return c;
}

static void pivot(struct net *net, uint32_t entering)
{
	struct arc *e = &net->arcs[entering];
	struct cycle c = find_cycle(net, entering);
	assert(c.amount >= 0 && c.amount <= e->room);
	for (uint32_t v = c.tail; c.amount > 0 && v != c.apex; v = net->nodes[v].parent)
		add_flow(net, v, false, c.amount);
	for (uint32_t v = c.head; c.amount > 0 && v != c.apex; v = net->nodes[v].parent)
		add_flow(net, v, true, c.amount);
	e->flow += e->state == ARC_EMPTY ? c.amount : -c.amount;
	if (c.leaving == NONE) {
		e->state = e->state == ARC_EMPTY ? ARC_FULL : ARC_EMPTY;
		assert(e->flow == (e->state == ARC_FULL ? e->room : 0));
		return;
	}
	struct arc *gone = &net->arcs[net->nodes[c.leaving].arc];
	assert(gone->flow == 0 || gone->flow == gone->room);
	gone->state = gone->flow == 0 ? ARC_EMPTY : ARC_FULL;
	e->state = ARC_TREE;
	uint32_t inner = c.on_tail_side ? c.tail : c.head;
	hang(net, c.leaving, inner, c.on_tail_side ? c.head : c.tail, entering);
	settle(net, inner);
}

static int compare_times(const void *a, const void *b)
{
	const double *x = a, *y = b;
	return *x < *y ? -1 : *x > *y;
}

/* Returns the number of the first of n times that is not before t; n if all are. */
static uint32_t node_at(const double *times, size_t n, double t)
{
	size_t low = 0, high = n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (times[mid] < t)
			low = mid + 1;
		else
			high = mid;
	}
	return (uint32_t)low;
}

static int check(const struct flow_job *jobs, size_t n, int64_t capacity)
{
	int64_t sum = 0;
	if (capacity < 0 || capacity > SIZES_MAX || n > UINT32_MAX / 4)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		bool valid = jobs[i].end_s > jobs[i].start_s && jobs[i].size > 0 &&
			     isfinite(jobs[i].gain) &&
			     (i == 0 || jobs[i].start_s >= jobs[i - 1].start_s);
		if (!valid || __builtin_add_overflow(sum, jobs[i].size, &sum) || sum > SIZES_MAX)
			return -EINVAL;
	}
	return 0;
}

/* Numbers the different starts. */
static size_t collect_times(const struct flow_job *jobs, size_t n, double *times)
{
	size_t out = 0;
	for (size_t i = 0; i < n; i++)
		if (out == 0 || compare_times(&times[out - 1], &jobs[i].start_s) != 0)
			times[out++] = jobs[i].start_s;
	return out;
}

static void build(struct net *net, const struct flow_job *jobs, const struct flow_result *r,
		  int64_t capacity)
{
	double largest = 0;
	for (uint32_t i = 0; i < net->jobs_n; i++) {
		const struct flow_job *j = &jobs[i];
		uint32_t from = node_at(r->time_s, r->times_n, j->start_s);
		uint32_t to = node_at(r->time_s, r->times_n, j->end_s);
		assert(from < to && to < net->nodes_n);
		net->arcs[i] =
			(struct arc){from, to, 0, j->size, -j->gain / (double)j->size, ARC_EMPTY};
		largest = fmax(largest, fabs(net->arcs[i].cost));
	}
	net->tolerance = largest * 1e-12;
	net->nodes[0] = (struct node){NONE, NONE, NONE, NONE, NONE, 0, 0};
	for (uint32_t v = 1; v < net->nodes_n; v++) {
		uint32_t arc = net->jobs_n + v - 1;
		net->arcs[arc] = (struct arc){v - 1, v, capacity, CHAIN_ROOM, 0, ARC_TREE};
		net->nodes[v] = (struct node){.child = NONE, .depth = v};
		link_child(net, v, v - 1, arc);
	}
}

/*
 * The root is the node from which M flows, and a tree whose arcs to the root are all able to carry more towards it is
 * strongly feasible. The arcs of the chain point away from the root and carry M > 0, so their flow can shrink.
 */
static int optimize(struct net *net, uint64_t *pivots)
{
	uint64_t limit = 10000 + 2000ULL * net->arcs_n;
	for (*pivots = 0; *pivots < limit; (*pivots)++) {
		uint32_t entering = find_entering(net);
		if (entering == NONE)
			return 0;
		pivot(net, entering);
	}
	return -ETIME;
}

static void report(const struct net *net, const struct flow_job *jobs, struct flow_result *r)
{
	for (uint32_t i = 0; i < net->jobs_n; i++) {
		r->share[i] = (double)net->arcs[i].flow / (double)net->arcs[i].room;
		r->gain += r->share[i] * jobs[i].gain;
	}
	for (uint32_t v = 0; v + 1 < net->nodes_n; v++)
		r->price[v] = fmax(net->nodes[v].potential - net->nodes[v + 1].potential, 0);
}

int flow_solve(const struct flow_job *jobs, size_t n, int64_t capacity, struct flow_result *out)
{
	*out = (struct flow_result){0};
	int rc = check(jobs, n, capacity);
	if (rc != 0)
		return rc;
	out->share = calloc(n + 1, sizeof(*out->share));
	out->time_s = calloc(n + 1, sizeof(*out->time_s));
	out->price = calloc(n + 1, sizeof(*out->price));
	if (out->share == NULL || out->time_s == NULL || out->price == NULL) {
		flow_fini(out);
		return -ENOMEM;
	}
	out->times_n = collect_times(jobs, n, out->time_s);
	if (n == 0 || capacity == 0)
		return 0;
	struct net net = {.jobs_n = (uint32_t)n, .nodes_n = (uint32_t)out->times_n + 1};
	net.arcs_n = net.jobs_n + net.nodes_n - 1;
	AUTO_FREE struct arc *arcs = calloc(net.arcs_n, sizeof(*arcs));
	AUTO_FREE struct node *nodes = calloc(net.nodes_n, sizeof(*nodes));
	AUTO_FREE uint32_t *stack = calloc(net.nodes_n, sizeof(*stack));
	rc = arcs == NULL || nodes == NULL || stack == NULL ? -ENOMEM : 0;
	if (rc == 0) {
		net.arcs = arcs;
		net.nodes = nodes;
		net.stack = stack;
		build(&net, jobs, out, capacity);
		rc = optimize(&net, &out->pivots);
	}
	if (rc == 0)
		report(&net, jobs, out);
	else
		flow_fini(out);
	return rc;
}

void flow_fini(struct flow_result *r)
{
	free(r->share);
	free(r->time_s);
	free(r->price);
	*r = (struct flow_result){0};
}
