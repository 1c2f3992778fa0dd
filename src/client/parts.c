// SPDX-License-Identifier: Apache-2.0
/*
 * The fabrics of the loops of a client.
 *
 * A part is opened, used and closed by one fiber on its loop (part_main), which rt_call of a host fiber at home starts.
 * Its end has two steps: the port is closed, which joins the calls that run, then the fibers in the background end. These may
 * call home (fabric_run_home), so the home port closes after all parts.
 *
 * The map. The metadata client changes its map in place, at home. A part works with a copy: home makes one when the
 * version has changed, and each call brings it along. Messages to a loop arrive in order, so the copy that a
 * call brings is never older than that of the part.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "client/fabric.h"
#include "cluster/cluster.h"

/* A copy of the map, which nobody changes. */
struct cluster_copy {
	atomic_uint refs;
	struct cluster map;
};

struct part {
	struct fabric fabric; /* for the loop of the part */
	struct rt_port *team; /* port of the team on that loop */
	struct fabric_parts *parts;
	bool stop;
	struct rt_cond stopping; /* signalled when `stop` was set */

	struct rt_msg opened; /* sent home when the part serves calls */

	/* At home: */
	bool serving, ended;
	int rc; /* error that kept the part from serving */
	uint64_t busy_bytes, given_bytes;
};

struct fabric_parts {
	struct part *list;
	unsigned count;
	struct rt_group hosts;
	struct rt_cond changed; /* signalled when a part serves or has ended */
	bool stopped;
	uint64_t busy_bytes, given_bytes; /* work that runs at home, and that has run there */
};

/* --- the map ------------------------------------------------------------------------------------ */

static void copy_unref(struct cluster_copy *copy)
{
	if (copy == NULL || atomic_fetch_sub(&copy->refs, 1) > 1)
		return;
	cluster_fini(&copy->map);
	free(copy);
}

static struct cluster_copy *copy_ref(struct cluster_copy *copy)
{
	if (copy != NULL)
		atomic_fetch_add(&copy->refs, 1);
	return copy;
}

static bool copy_is_of(const struct cluster_copy *copy, const struct cluster *map)
{
	return copy != NULL && copy->map.version == map->version &&
	       copy->map.id.high == map->id.high && copy->map.id.low == map->id.low;
}

/* Makes the home's copy one of its map. After an error the old copy stays. */
static int copy_renew(struct fabric *home)
{
	if (home->map == NULL || copy_is_of(home->copy, home->map))
		return 0;
	struct cluster_copy *fresh = calloc(1, sizeof(*fresh));
	if (fresh == NULL)
		return -ENOMEM;
	atomic_init(&fresh->refs, 1);
	cluster_init(&fresh->map);
	int rc = cluster_copy(&fresh->map, home->map);
	if (rc < 0) {
		copy_unref(fresh);
		return rc;
	}
	copy_unref(home->copy);
	home->copy = fresh;
	return 0;
}

/* Gives a part the copy of the map that came with a call. On the loop of the part. */
static void copy_arrive(struct fabric *part, struct cluster_copy *copy)
{
	assert(part->home != NULL);
	if (copy == NULL || copy == part->copy)
		return;
	copy_unref(part->copy);
	part->copy = copy_ref(copy);
	part->map = &copy->map;
}

/* --- the life of a part, on its loop -------------------------------------------------------------- */

static void part_opened(struct rt_msg *m)
{
	struct part *p = container_of(m, struct part, opened);
	p->serving = true;
	rt_cond_broadcast(&p->parts->changed);
}

static void part_main(void *arg)
{
	struct part *p = arg;
	rt_background();
	rt_post(p->fabric.home->port.loop, &p->opened);
	while (!p->stop && rt_cond_wait(&p->stopping) == 0)
		;
	rt_port_close(&p->fabric.port);
	fabric_fini_part(&p->fabric);
	copy_unref(p->fabric.copy);
	p->fabric.copy = NULL;
}

static void part_stop(void *arg)
{
	struct part *p = arg;
	p->stop = true;
	rt_cond_signal(&p->stopping);
}

/* Runs part_main and notes its end. At home. */
static void part_host(void *arg)
{
	struct part *p = arg;
	int rc = rt_call(p->team, "client-part", part_main, p);
	p->rc = rc != 0 ? rc : -ECANCELED;
	p->ended = true;
	rt_cond_broadcast(&p->parts->changed);
}

/* --- all parts, at home --------------------------------------------------------------------------- */

static bool parts_settled(const struct fabric_parts *all, int *rc)
{
	bool settled = true;
	for (unsigned i = 0; i < all->count; i++) {
		const struct part *p = &all->list[i];
		if (p->ended && *rc == 0)
			*rc = p->rc;
		settled = settled && p->serving;
	}
	return settled || *rc != 0;
}

int fabric_spread(struct fabric *f, struct rt_team *team)
{
	assert(f->parts == NULL && f->home == NULL && rt_on_loop(team->ports[0].loop));
	if (team->count == 1)
		return 0;
	struct fabric_parts *all = calloc(1, sizeof(*all));
	struct part *list = calloc(team->count - 1, sizeof(*list));
	if (all == NULL || list == NULL) {
		free(all);
		free(list);
		return -ENOMEM;
	}
	f->parts = all;
	all->list = list;
	rt_group_init(&all->hosts);
	rt_cond_init(&all->changed);
	rt_port_init(&f->port, rt_loop_self());
	int rc = 0;
	for (unsigned i = 1; i < team->count && rc == 0; i++) {
		struct part *p = &list[i - 1];
		p->parts = all;
		p->team = &team->ports[i];
		p->opened.fn = part_opened;
		rt_cond_init(&p->stopping);
		fabric_init_part(&p->fabric, f);
		rt_port_init(&p->fabric.port, team->ports[i].loop);
		rc = rt_group_spawn(&all->hosts, "client-part", part_host, p);
		all->count += rc == 0;
	}
	while (rc == 0 && !parts_settled(all, &rc))
		rc = rt_cond_wait(&all->changed);
	if (rc == 0)
		return 0;
	rt_shield_enter();
	fabric_parts_stop(f);
	fabric_parts_join(f);
	rt_shield_leave();
	return rc;
}

void fabric_parts_stop(struct fabric *home)
{
	struct fabric_parts *all = home->parts;
	if (all == NULL || all->stopped)
		return;
	all->stopped = true;
	bool told = true;
	for (unsigned i = 0; i < all->count; i++)
		told = rt_call(&all->list[i].fabric.port, "stop", part_stop, &all->list[i]) == 0 &&
		       told;
	if (!told)
		rt_group_cancel(&all->hosts);
}

void fabric_parts_join(struct fabric *home)
{
	struct fabric_parts *all = home->parts;
	if (all == NULL)
		return;
	rt_group_join(&all->hosts);
	rt_port_close(&home->port);
	for (unsigned i = 0; i < all->count; i++)
		assert(all->list[i].ended && all->list[i].busy_bytes == 0);
	copy_unref(home->copy);
	home->copy = NULL;
	home->parts = NULL;
	free(all->list);
	free(all);
}

/* --- work on the loops ---------------------------------------------------------------------------- */

/* Returns the part with the least work, or NULL for home. Home is preferred while it has little to do, because a call
 * to another loop costs two messages and perhaps waking it. */
static struct part *part_pick(const struct fabric *home)
{
	const struct fabric_parts *all = home->parts;
	if (all == NULL || all->stopped)
		return NULL;
	struct part *best = NULL;
	uint64_t least = all->busy_bytes - min_u64(all->busy_bytes, home->opts.home_bytes);
	for (unsigned i = 0; i < all->count && least > 0; i++) {
		if (all->list[i].busy_bytes < least) {
			best = &all->list[i];
			least = best->busy_bytes;
		}
	}
	return best;
}

struct handed {
	struct call call; /* call of the part */
	struct cluster_copy *copy;
	void (*fn)(struct call *c, void *arg);
	void *arg;
};

static void handed_run(void *arg)
{
	struct handed *h = arg;
	copy_arrive(h->call.fabric, h->copy);
	h->fn(&h->call, h->arg);
}

static int part_run(struct part *p, struct call *c, void (*fn)(struct call *, void *), void *arg)
{
	struct handed h = {.call = *c, .copy = copy_ref(c->fabric->copy), .fn = fn, .arg = arg};
	h.call.fabric = &p->fabric;
	h.call.tenant = call_tenant(c);
	int rc = rt_call(&p->fabric.port, "client-work", handed_run, &h);
	copy_unref(h.copy);
	if (rc != 0)
		return call_fail(c, rc, "the request was not started: %s", err_text(rc));
	memcpy(c->error, h.call.error, sizeof(c->error));
	return 0;
}

int fabric_run(struct call *c, uint64_t bytes, void (*fn)(struct call *c, void *arg), void *arg)
{
	struct fabric *home = c->fabric;
	assert(home->home == NULL);
	struct part *p = part_pick(home);
	if (p != NULL && copy_renew(home) < 0)
		p = NULL;
	if (p == NULL) {
		struct fabric_parts *all = home->parts;
		if (all != NULL) {
			all->busy_bytes += bytes;
			all->given_bytes += bytes;
		}
		fn(c, arg);
		if (home->parts != NULL)
			home->parts->busy_bytes -= bytes;
		return 0;
	}
	p->busy_bytes += bytes;
	p->given_bytes += bytes;
	int rc = part_run(p, c, fn, arg);
	assert(p->busy_bytes >= bytes);
	p->busy_bytes -= bytes;
	return rc;
}

int fabric_run_home(struct fabric *f, void (*fn)(void *arg), void *arg)
{
	if (f->home != NULL)
		return rt_call(&f->home->port, "client-home", fn, arg);
	fn(arg);
	return 0;
}

unsigned fabric_loops(const struct fabric *f)
{
	return f->parts != NULL ? f->parts->count + 1 : 1;
}

uint64_t fabric_loop_bytes(const struct fabric *f, unsigned i)
{
	assert(i < fabric_loops(f) && f->parts != NULL);
	return i == 0 ? f->parts->given_bytes : f->parts->list[i - 1].given_bytes;
}
