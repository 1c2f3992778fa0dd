// SPDX-License-Identifier: Apache-2.0
/*
 * The simulated network without its streams: addresses, listeners, connecting, cuts.
 *
 * Each ordered pair of nodes has a path that can be cut. The fault net-partition cuts both directions of a pair,
 * net-one-way a random one; their rates are per pair of nodes.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "rt/sim/conn.h"

#define BACKLOG_MAX 128
#define CUT_MIN_NS (100 * NS_PER_MS)
#define CUT_MAX_NS (10 * NS_PER_S)
#define DIAL_TIMEOUT_NS (3 * NS_PER_S)
#define DIAL_RTO_NS (200 * NS_PER_MS)
#define LOCAL_LATENCY_NS (5 * NS_PER_US)
#define PORT_FIRST 49152 /* first port that a listener of port 0 gets */

struct sim_listener {
	struct rt_listener base;
	/* element of net.listeners; in no list once the process of the listener has crashed */
	struct list link;
	struct sim_node *node;
	struct list backlog; /* struct conn_end: connections that wait for rt_accept */
	size_t backlog_count;
	struct list acceptors; /* struct rt_fiber: fibers in rt_accept */
};

struct cut {
	struct list link; /* element of net.cuts */
	struct timer timer;
	struct sim_net *net;
	const struct sim_node *from;
	const struct sim_node *to;
};

struct pair {
	struct list link; /* element of net.pairs */
	struct sim_node *a;
	struct sim_node *b;
	struct sim_striker partition;
	struct sim_striker one_way;
};

/* --- cuts -------------------------------------------------------------------------------------- */

bool net_is_cut(const struct sim_net *net, const struct sim_node *from, const struct sim_node *to)
{
	const struct cut *c;

	list_for_each_entry(c, &net->cuts, link) {
		if (c->from == from && c->to == to)
			return true;
	}
	return false;
}

bool net_passes(struct sim_net *net, struct sim_node *from, struct sim_node *to)
{
	if (from == to)
		return true;
	return !net_is_cut(net, from, to) && !sim_roll(net->sim, SIM_NET_DROP, from);
}

static void cut_free(struct cut *c)
{
	sim_trace(c->net->sim, c->from, "net-healed", c->from->id, c->to->id, NULL);
	sim_timer_cancel(c->net->sim, &c->timer);
	list_remove(&c->link);
	free(c);
}

static void cut_over(struct timer *t)
{
	cut_free(container_of(t, struct cut, timer));
}

/* Cuts a path for duration_ns; RT_NEVER cuts it until sim_net_heal. */
static void cut_add(struct sim_net *net, struct sim_node *from, struct sim_node *to,
		    uint64_t duration_ns)
{
	struct cut *c = sim_need(calloc(1, sizeof(*c)));

	c->net = net;
	c->from = from;
	c->to = to;
	list_push_back(&net->cuts, &c->link);
	if (duration_ns != RT_NEVER)
		sim_timer(net->sim, &c->timer, duration_ns, cut_over);
	sim_trace(net->sim, from, "net-cut", from->id, to->id, NULL);
}

void sim_net_cut(struct sim *s, struct sim_node *a, struct sim_node *b, bool both)
{
	cut_add(s->net, a, b, RT_NEVER);
	if (both)
		cut_add(s->net, b, a, RT_NEVER);
}

void sim_net_heal(struct sim *s)
{
	struct list *l;

	while ((l = list_first(&s->net->cuts)) != NULL)
		cut_free(list_entry(l, struct cut, link));
}

static void hit_partition(void *ctx)
{
	struct pair *p = ctx;
	struct sim *s = p->a->sim;
	uint64_t duration_ns = sim_between(s, CUT_MIN_NS, CUT_MAX_NS);

	s->fault_counts[SIM_NET_PARTITION]++;
	cut_add(s->net, p->a, p->b, duration_ns);
	cut_add(s->net, p->b, p->a, duration_ns);
}

static void hit_one_way(void *ctx)
{
	struct pair *p = ctx;
	struct sim *s = p->a->sim;
	uint64_t duration_ns = sim_between(s, CUT_MIN_NS, CUT_MAX_NS);
	bool forth = rng_chance(&s->rng, 0.5);

	s->fault_counts[SIM_NET_ONE_WAY]++;
	cut_add(s->net, forth ? p->a : p->b, forth ? p->b : p->a, duration_ns);
}

/* --- machines ---------------------------------------------------------------------------------- */

bool net_is_dark(const struct sim_net *net, const struct sim_node *n)
{
	assert(n->id < net->dark_count);
	return n->lost || n->lives == 0 || net->dark_life[n->id] == n->lives;
}

uint64_t net_latency_ns(struct sim_net *net, bool local)
{
	uint64_t latency = local ? LOCAL_LATENCY_NS : net->sim->config.net_latency_ns;
	if (net->sim->config.net_steady)
		return latency;
	return sim_between(net->sim, latency, latency + latency / 2);
}

struct sim_net *sim_net_open(struct sim *s)
{
	struct sim_net *net = sim_need(calloc(1, sizeof(*net)));

	net->sim = s;
	net->next_port = PORT_FIRST;
	list_init(&net->conns);
	list_init(&net->listeners);
	list_init(&net->cuts);
	list_init(&net->pairs);
	list_init(&net->links);
	return net;
}

void sim_net_close(struct sim_net *net)
{
	struct list *l;

	while ((l = list_first(&net->cuts)) != NULL)
		cut_free(list_entry(l, struct cut, link));
	while ((l = list_pop_front(&net->pairs)) != NULL) {
		struct pair *p = list_entry(l, struct pair, link);
		sim_striker_stop(&p->partition);
		sim_striker_stop(&p->one_way);
		free(p);
	}
	while ((l = list_first(&net->conns)) != NULL)
		conn_free(list_entry(l, struct conn, link));
	links_free(net);
	free(net->dark_life);
	free(net);
}

void sim_net_node_added(struct sim_node *n)
{
	struct sim *s = n->sim;
	struct sim_net *net = s->net;
	struct sim_node *other;

	assert(n->id == net->dark_count);
	net->dark_life = sim_need(realloc(net->dark_life, (n->id + 1) * sizeof(*net->dark_life)));
	net->dark_life[n->id] = 0;
	net->dark_count++;
	if (s->config.rate[SIM_NET_PARTITION] <= 0 && s->config.rate[SIM_NET_ONE_WAY] <= 0)
		return;
	list_for_each_entry(other, &s->nodes, link) {
		if (other == n)
			continue;
		struct pair *p = sim_need(calloc(1, sizeof(*p)));
		p->a = other;
		p->b = n;
		list_push_back(&net->pairs, &p->link);
		sim_strike(s, &p->partition, SIM_NET_PARTITION, hit_partition, p);
		sim_strike(s, &p->one_way, SIM_NET_ONE_WAY, hit_one_way, p);
	}
}

void sim_net_crash(struct sim_node *n, bool power)
{
	struct sim_net *net = n->sim->net;
	struct sim_listener *li, *after_li;
	struct conn *c, *after_c;

	if (power)
		net->dark_life[n->id] = n->lives;
	list_for_each_entry_safe(li, after_li, &net->listeners, link) {
		if (li->node != n)
			continue;
		list_remove(&li->link);
		struct list *l;
		while ((l = list_pop_front(&li->backlog)) != NULL)
			list_entry(l, struct conn_end, backlog_link)->held = false;
		li->backlog_count = 0;
	}
	list_for_each_entry_safe(c, after_c, &net->conns, link)
		conn_crash(c, n, power);
}

/* --- addresses --------------------------------------------------------------------------------- */

struct target {
	struct sim_node *node; /* node of the address; NULL: no node has that name */
	bool any;              /* the address is a wildcard, for all addresses of the node */
	bool is_unix;
	uint16_t port;
};

static bool text_is(const char *text, size_t len, const char *what)
{
	return strlen(what) == len && memcmp(text, what, len) == 0;
}

static int port_parse(const char *text, uint16_t *port)
{
	unsigned long value = 0;
	size_t len = strlen(text);

	if (len == 0 || len > 5 || strspn(text, "0123456789") != len)
		return -EINVAL;
	value = strtoul(text, NULL, 10);
	if (value > UINT16_MAX)
		return -EINVAL;
	*port = (uint16_t)value;
	return 0;
}

static void host_find(struct sim_node *self, const char *host, size_t len, struct target *t)
{
	struct sim_node *n;

	t->any = text_is(host, len, "*") || text_is(host, len, "0.0.0.0") ||
		 text_is(host, len, "::");
	if (t->any || text_is(host, len, "localhost") || text_is(host, len, "127.0.0.1") ||
	    text_is(host, len, "::1")) {
		t->node = self;
		return;
	}
	list_for_each_entry(n, &self->sim->nodes, link) {
		if (text_is(host, len, n->name))
			t->node = n;
	}
}

static int addr_parse(struct sim_node *self, const char *addr, struct target *t)
{
	*t = (struct target){0};
	if (strnlen(addr, RT_ADDR_MAX) >= RT_ADDR_MAX)
		return -EINVAL;
	if (strncmp(addr, "unix:", 5) == 0) {
		t->is_unix = true;
		t->node = self;
		return addr[5] == '\0' ? -EINVAL : 0;
	}
	const char *colon = strrchr(addr, ':');
	if (colon == NULL || colon == addr)
		return -EINVAL;
	const char *host = addr;
	size_t len = (size_t)(colon - addr);
	if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
		host++;
		len -= 2;
	} else if (memchr(host, ':', len) != NULL) {
		return -EINVAL;
	}
	host_find(self, host, len, t);
	return port_parse(colon + 1, &t->port);
}

/* Prints an address in canonical form, so that listeners can be compared as text. */
static void addr_print(char *out, const struct target *t, const char *addr)
{
	if (t->is_unix)
		snprintf(out, RT_ADDR_MAX, "%s", addr);
	else
		snprintf(out, RT_ADDR_MAX, "%s:%u", t->node->name, (unsigned)t->port);
}

static struct sim_listener *listener_find(const struct sim_net *net, const struct sim_node *n,
					  const char *addr)
{
	struct sim_listener *li;

	list_for_each_entry(li, &net->listeners, link) {
		if (li->node == n && strcmp(li->base.addr, addr) == 0)
			return li;
	}
	return NULL;
}

/* --- listening --------------------------------------------------------------------------------- */

static int sim_listen(struct rt_loop *l, struct rt_listener **out, const char *addr)
{
	struct sim_node *n = sim_node_of(l);
	struct sim_net *net = n->sim->net;
	struct target t;
	char text[RT_ADDR_MAX];
	int rc = addr_parse(n, addr, &t);

	if (rc != 0)
		return rc;
	if (t.node != n)
		return -EADDRNOTAVAIL;
	if (!t.is_unix && t.port == 0) {
		do {
			t.port = net->next_port;
			net->next_port = t.port == UINT16_MAX ? PORT_FIRST : (uint16_t)(t.port + 1);
			addr_print(text, &t, addr);
		} while (listener_find(net, n, text) != NULL);
	}
	addr_print(text, &t, addr);
	if (listener_find(net, n, text) != NULL)
		return -EADDRINUSE;
	struct sim_listener *li = sim_need(calloc(1, sizeof(*li)));
	li->base.ops = &sim_net_ops;
	memcpy(li->base.addr, text, sizeof(text));
	li->node = n;
	list_init(&li->backlog);
	list_init(&li->acceptors);
	list_push_back(&net->listeners, &li->link);
	n->open_socks++;
	sim_trace(n->sim, n, "net-listen", t.port, 0, text);
	*out = &li->base;
	return 0;
}

int net_offer(struct conn_end *e)
{
	struct sim_listener *li = listener_find(e->conn->net, e->node, e->conn->target);

	if (li == NULL)
		return -ECONNREFUSED;
	if (li->backlog_count >= BACKLOG_MAX)
		return -EAGAIN;
	assert(e->embryo && !e->held);
	e->embryo = false;
	e->held = true;
	list_push_back(&li->backlog, &e->backlog_link);
	li->backlog_count++;
	struct list *l = list_pop_front(&li->acceptors);
	if (l != NULL)
		fiber_wake(list_entry(l, struct rt_fiber, wait_link), 0);
	return 0;
}

static int sim_accept(struct rt_listener *base, struct rt_sock **out)
{
	struct sim_listener *li = container_of(base, struct sim_listener, base);

	while (list_empty(&li->backlog)) {
		int rc = fiber_check();
		if (rc != 0)
			return rc;
		list_push_back(&li->acceptors, &rt_self()->wait_link);
		rc = (int)fiber_park(PARK_INTERRUPTIBLE, fiber_abort_unlink, NULL);
		if (rc != 0)
			return rc;
	}
	struct conn_end *e =
		list_entry(list_pop_front(&li->backlog), struct conn_end, backlog_link);
	assert(li->backlog_count > 0 && e->held && e->node == li->node);
	li->backlog_count--;
	li->node->open_socks++;
	sim_trace(li->node->sim, li->node, "net-accept", e->conn->id, 0, e->base.peer);
	*out = &e->base;
	return 0;
}

static void sim_listener_close(struct rt_listener *base)
{
	struct sim_listener *li = container_of(base, struct sim_listener, base);
	struct list *l;

	assert(list_empty(&li->acceptors) && li->node->open_socks > 0);
	while ((l = list_first(&li->backlog)) != NULL)
		conn_abandon(list_entry(l, struct conn_end, backlog_link));
	list_remove(&li->link);
	li->node->open_socks--;
	free(li);
}

/* --- connecting -------------------------------------------------------------------------------- */

/* The state of an rt_connect that waits for its answer; lives on the stack of the calling fiber. */
struct dial {
	struct timer timer;
	struct sim_net *net;
	struct sim_node *from;
	struct sim_node *to;
	struct rt_fiber *fiber;
	char addr[RT_ADDR_MAX];
	uint64_t give_up_ns; /* time at which the call returns -ETIMEDOUT */
	uint64_t rto_ns;     /* back-off before the next attempt */
	int answer;          /* answer of the server: 0 or -ECONNREFUSED */
};

static void dial_try(struct timer *t);

static void dial_again(struct dial *d)
{
	struct sim *s = d->net->sim;
	uint64_t left = d->give_up_ns > s->now_ns ? d->give_up_ns - s->now_ns : 0;

	sim_timer(s, &d->timer, min_u64(d->rto_ns, left), dial_try);
	d->rto_ns *= 2;
}

static void dial_answered(struct timer *t)
{
	struct dial *d = container_of(t, struct dial, timer);
	fiber_wake(d->fiber, d->answer);
}

static void dial_reached(struct timer *t)
{
	struct dial *d = container_of(t, struct dial, timer);
	struct sim_listener *li = listener_find(d->net, d->to, d->addr);

	if (net_is_dark(d->net, d->to) || (li != NULL && li->backlog_count >= BACKLOG_MAX) ||
	    !net_passes(d->net, d->to, d->from)) {
		dial_again(d);
		return;
	}
	d->answer = li == NULL ? -ECONNREFUSED : 0;
	sim_timer(d->net->sim, &d->timer, net_latency_ns(d->net, d->from == d->to), dial_answered);
}

static void dial_try(struct timer *t)
{
	struct dial *d = container_of(t, struct dial, timer);
	struct sim *s = d->net->sim;

	if (s->now_ns >= d->give_up_ns)
		fiber_wake(d->fiber, -ETIMEDOUT);
	else if (net_passes(d->net, d->from, d->to))
		sim_timer(s, &d->timer, net_latency_ns(d->net, d->from == d->to), dial_reached);
	else
		dial_again(d);
}

static void dial_abort(struct rt_fiber *f)
{
	struct dial *d = f->abort_ctx;

	sim_timer_cancel(d->net->sim, &d->timer);
	fiber_wake(f, -ECANCELED);
}

static int sim_connect(struct rt_loop *l, struct rt_sock **out, const char *addr)
{
	struct sim_node *n = sim_node_of(l);
	struct sim *s = n->sim;
	struct dial d = {.net = s->net, .from = n, .fiber = rt_self(), .rto_ns = DIAL_RTO_NS};
	struct target t;
	int rc = addr_parse(n, addr, &t);

	if (rc != 0)
		return rc;
	if (t.any || (!t.is_unix && t.port == 0))
		return -EINVAL;
	if (t.node == NULL)
		return -EHOSTUNREACH;
	addr_print(d.addr, &t, addr);
	d.to = t.node;
	d.give_up_ns = s->now_ns + DIAL_TIMEOUT_NS;
	sim_timer(s, &d.timer, 0, dial_try);
	rc = (int)fiber_park(PARK_INTERRUPTIBLE, dial_abort, &d);
	if (l->dead)
		return -ECANCELED;
	sim_trace(s, n, "net-connect", (uint64_t)-rc, 0, d.addr);
	if (rc != 0)
		return rc;
	n->open_socks++;
	*out = &conn_open(s->net, n, d.to, d.addr)->base;
	return 0;
}

const struct rt_net_ops sim_net_ops = {
	.listen = sim_listen,
	.accept = sim_accept,
	.listener_close = sim_listener_close,
	.connect = sim_connect,
	.recv = conn_recv,
	.sendv = conn_sendv,
	.shutdown = conn_shutdown,
	.sock_close = conn_close,
};
