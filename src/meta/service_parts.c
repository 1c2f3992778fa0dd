// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of the service, one on each loop of its team. The first part opened the store and the cluster map, and its
 * server listens and spreads the connections. The others share the store (meta_share); their transactions run on the
 * first loop, in the same commits.
 *
 * The end has three steps, because requests cross the parts: first the servers of all parts stop, with a time of grace;
 * then no call is under way; then each part closes its port and itself. In a crashed or cancelled process the first step
 * is skipped: each part closes its port, which joins the calls that use it, then its server and its share of the store.
 * The port of the store is closed last, when no part is left that uses it.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "kv/kv.h"
#include "meta/service_impl.h"
#include "rt/rt.h"

#define IN_FLIGHT_DEFAULT 1024

static bool is_first(const struct meta_service *s)
{
	return s == s->all->parts;
}

struct meta_service *ms_here(struct service_all *all)
{
	for (unsigned i = 0; i < all->part_count; i++)
		if (rt_on_loop(all->parts[i].loop))
			return &all->parts[i];
	assert(!"a request of a service runs on a loop of another");
	return NULL;
}

struct part_call {
	struct meta_service *part;
	void (*fn)(struct meta_service *part, void *arg);
	void *arg;
};

static void call_there(void *arg)
{
	struct part_call *c = arg;
	c->fn(c->part, c->arg);
}

static int part_call(struct meta_service *s, void (*fn)(struct meta_service *part, void *arg),
		     void *arg)
{
	struct part_call c = {s, fn, arg};
	return rt_call(&s->branch->port, "meta-part", call_there, &c);
}

int ms_each_part(struct service_all *all, void (*fn)(struct meta_service *part, void *arg),
		 void *arg)
{
	int rc = 0;
	for (unsigned i = 0; rc == 0 && i < all->part_count; i++)
		rc = part_call(&all->parts[i], fn, arg);
	return rc;
}

/* --- the life of a part, on its loop ------------------------------------------------------------ */

static int server_open(struct meta_service *s)
{
	const struct meta_serve_options *o = s->all->options;
	struct rpc_server_options so = {
		.methods = ms_methods,
		.method_count = METHOD_COUNT,
		.service = s,
		.home = ms_home,
		.guard = s->root != NULL ? &s->guard : NULL,
		.pool = &s->all->pool,
		.receiving = &s->all->receiving,
		.branch = is_first(s) ? NULL : s->branch,
		.connections_max = o->connections_max,
		.in_flight_max = o->in_flight_max != 0 ? o->in_flight_max : IN_FLIGHT_DEFAULT,
		.stall_ns = o->stall_ns,
	};
	return rpc_server_open(&s->branch->server, is_first(s) ? o->listen : NULL, &so);
}

static void server_close(struct meta_service *s, uint64_t grace_ns)
{
	struct rpc_server *server = s->branch->server;
	s->branch->server = NULL;
	if (server != NULL)
		rpc_server_close(server, grace_ns);
}

static void part_close(struct meta_service *s)
{
	ms_identities_close(s);
	map_for_each(&s->tenants, it)
		free(it.value);
	map_fini(&s->tenants);
	free(s->methods);
	s->methods = NULL;
	if (is_first(s))
		return;
	meta_close(s->meta);
	kv_close(s->kv);
	s->meta = NULL;
	s->kv = NULL;
}

/* Opens all of the part but the server of the first, which opens when all parts serve. */
static int part_open(struct meta_service *s)
{
	const struct meta_service *first = &s->all->parts[0];
	map_init(&s->tenants, SERVICE_TENANTS_MAX);
	s->methods = calloc(METHOD_COUNT, sizeof(*s->methods));
	int rc = s->methods == NULL ? -ENOMEM : 0;
	if (rc == 0 && !is_first(s))
		rc = kv_share(&s->kv, first->kv, &s->all->store);
	if (rc == 0 && !is_first(s))
		rc = meta_share(&s->meta, s->kv, first->meta);
	if (rc == 0)
		rc = ms_identities_open(s, s->all->options->root);
	if (rc == 0 && !is_first(s))
		rc = server_open(s);
	if (rc < 0)
		part_close(s);
	return rc;
}

static void part_opened(struct rt_msg *m)
{
	struct meta_service *s = container_of(m, struct meta_service, opened);
	s->serving = true;
	rt_cond_broadcast(&s->all->changed);
}

/* Opens the part, waits until it is told to stop or cancelled, and closes it. */
static void part_main(void *arg)
{
	struct meta_service *s = arg;
	struct rt_group watch;
	rt_background();
	rt_group_init(&watch);
	s->part_rc = part_open(s);
	if (s->part_rc < 0)
		return;
	if (s->root != NULL)
		s->part_rc = rt_group_spawn(&watch, "meta-identities", ms_identities_watch, s);
	if (s->part_rc == 0)
		rt_post(s->all->parts[0].loop, &s->opened);
	while (s->part_rc == 0 && !s->stop && rt_cond_wait(&s->stopping) == 0)
		;
	/* Joins part_server_stop, too, so that one of the two closes the server. */
	rt_port_close(&s->branch->port);
	server_close(s, 0);
	rt_group_cancel(&watch);
	rt_group_join(&watch);
	part_close(s);
}

/* Runs part_main and reports its end. On the first loop. */
static void part_host(void *arg)
{
	struct meta_service *s = arg;
	int rc = rt_call(s->team, "meta-part", part_main, s);
	if (rc != 0)
		s->part_rc = rc;
	s->ended = true;
	rt_cond_broadcast(&s->all->changed);
}

static void part_accept_stop(struct meta_service *s, void *arg)
{
	(void)arg;
	if (s->branch->server != NULL)
		rpc_server_stop(s->branch->server);
}

static void part_server_stop(struct meta_service *s, void *arg)
{
	(void)arg;
	server_close(s, s->all->options->grace_ns);
}

static void part_stop(struct meta_service *s, void *arg)
{
	(void)arg;
	s->stop = true;
	rt_cond_broadcast(&s->stopping);
}

/* --- all parts, on the first loop --------------------------------------------------------------- */

/* Initializes all parts before the first runs, because each finds the others. */
static void parts_init(struct service_all *all)
{
	struct rt_team *team = all->options->team;
	rt_group_init(&all->hosts);
	rt_cond_init(&all->changed);
	rt_port_init(&all->own, rt_loop_self());
	rt_port_init(&all->store, rt_loop_self());
	assert(team == NULL || rt_on_loop(team->ports[0].loop));
	for (unsigned i = 0; i < all->part_count; i++) {
		struct meta_service *s = &all->parts[i];
		s->all = all;
		s->team = team != NULL ? &team->ports[i] : &all->own;
		s->loop = s->team->loop;
		s->branch = &all->branches[i];
		s->opened.fn = part_opened;
		rt_cond_init(&s->stopping);
		rt_port_init(&s->branch->port, s->loop);
	}
}

static int part_start(struct meta_service *s)
{
	int rc = rt_group_spawn(&s->all->hosts, "meta-part", part_host, s);
	while (rc == 0 && !s->serving && !s->ended)
		rc = rt_cond_wait(&s->all->changed);
	if (rc == 0 && s->ended)
		rc = s->part_rc != 0 ? s->part_rc : -ECANCELED;
	return rc;
}

/* Starts one part after the other: they use what the first has opened. */
static int parts_start(struct service_all *all)
{
	int rc = 0;
	for (unsigned i = 0; rc == 0 && i < all->part_count; i++)
		rc = part_start(&all->parts[i]);
	if (rc == 0)
		rc = server_open(&all->parts[0]);
	if (rc == 0 && all->part_count > 1)
		rpc_server_spread(all->branches[0].server, all->branches + 1, all->part_count - 1);
	return rc;
}

/* Calls fn for the part on its loop; if that fails, cancels all parts. */
static void part_tell(struct meta_service *s, void (*fn)(struct meta_service *part, void *arg))
{
	if (part_call(s, fn, NULL) != 0)
		rt_group_cancel(&s->all->hosts);
}

static void stop_main(void *arg)
{
	part_tell(arg, part_server_stop);
}

static void parts_stop(struct service_all *all)
{
	struct rt_group g;
	rt_group_init(&g);
	part_tell(&all->parts[0], part_accept_stop);
	for (unsigned i = 1; i < all->part_count; i++)
		if (rt_group_spawn(&g, "meta-stop", stop_main, &all->parts[i]) != 0)
			stop_main(&all->parts[i]);
	stop_main(&all->parts[0]);
	rt_group_join(&g);
	for (unsigned i = 0; i < all->part_count; i++)
		part_tell(&all->parts[i], part_stop);
	all->stopped = true;
}

static int serve(struct service_all *all)
{
	const struct meta_serve_options *o = all->options;
	int rc = parts_start(all);
	if (rc < 0)
		return rc;
	if (o->ready != NULL)
		rc = o->ready(o->ctx, rpc_server_addr(all->branches[0].server), &all->parts[0]);
	if (rc == 0)
		rc = ms_await_end(&all->parts[0]);
	if (o->ended != NULL)
		o->ended(o->ctx);
	parts_stop(all);
	return rc;
}

int ms_parts_serve(struct service_all *all)
{
	parts_init(all);
	int rc = serve(all);
	if (!all->stopped)
		rt_group_cancel(&all->hosts);
	rt_group_join(&all->hosts);
	rt_port_close(&all->store);
	return rc;
}
