// SPDX-License-Identifier: Apache-2.0
/* All roles of a box in one process: each is a fiber of the first loop, and they share a team of loops. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "box/box.h"
#include "roles/cache_role.h"
#include "roles/janitor_role.h"
#include "roles/meta_role.h"
#include "roles/node_role.h"
#include "rt/call.h"
#include "rt/real.h"
#include "rt/rt.h"
#include "rt/sync.h"

struct all {
	const struct box *box;
	struct meta_role meta;
	struct node_role *nodes;
	size_t node_count;
	struct janitor_role janitor;
	bool has_janitor; /* conf/janitor.ini exists */
	struct cache_role *caches;
	size_t cache_count;
	struct rt_group group;
	size_t clients;       /* roles that use the metadata and have not ended */
	struct rt_cond ended; /* a role has ended */
	struct rt_team team;  /* loops of all roles */
	int rc;               /* error of the first role that could not serve */
	struct strbuf *err;   /* reason why that role could not serve */
};

/* A role that runs in this process. */
struct one {
	struct all *all;
	size_t i; /* number of the role: metadata, nodes, cache nodes, janitor */
};

/* --- serving ------------------------------------------------------------------------------------ */

/* Ends all roles. Keeps the first error and its reason, because the errors of other roles follow from it. */
static void stop_all(struct all *all, int rc, const char *why)
{
	assert(rc < 0);
	if (all->rc < 0)
		return;
	log_error("box_stopping", "why=%s", why);
	all->rc = rc;
	strbuf_puts(all->err, why);
	rt_group_cancel(&all->group);
}

/*
 * Returns when the process was asked to stop and all other roles have ended: a janitor gives its leases back, which
 * takes a metadata server that answers.
 */
static int metadata_stop(void *ctx)
{
	struct all *all = ctx;
	int rc = rt_shutdown_wait();
	while (rc == 0 && all->clients > 0)
		rc = rt_cond_wait(&all->ended);
	return rc;
}

static void role_main(void *arg)
{
	struct one *o = arg;
	struct all *all = o->all;
	size_t servers = all->node_count + all->cache_count;
	assert(o->i <= servers + all->has_janitor);
	AUTO_STRBUF struct strbuf why;
	strbuf_init(&why, 4096);
	if (o->i == 0) {
		meta_role_main(&all->meta);
		if (all->meta.rc < 0)
			meta_role_why(&all->meta, &why);
	} else if (o->i > all->node_count && o->i <= servers) {
		struct cache_role *cache = &all->caches[o->i - all->node_count - 1];
		cache_role_main(cache);
		cache_role_why(cache, &why);
	} else if (o->i > servers) {
		janitor_role_main(&all->janitor);
		janitor_role_why(&all->janitor, &why);
	} else {
		struct node_role *node = &all->nodes[o->i - 1];
		node_role_main(node);
		node_role_why(node, &why);
	}
	if (o->i > 0) {
		assert(all->clients > 0);
		all->clients--;
		rt_cond_broadcast(&all->ended);
	}
	if (why.len > 0)
		stop_all(all, -EIO, strbuf_text(&why));
}

/* Opens the loops of the roles, and spreads disks over them. */
static int open_team(struct all *all)
{
	unsigned threads;
	int rc = rt_real_threads(all->box->shape.threads, &threads);
	if (rc < 0 || threads == 1)
		return rc;
	rc = rt_team_open(&all->team, threads);
	if (rc < 0)
		return rc;
	all->meta.team = &all->team;
	all->janitor.team = &all->team;
	size_t disks = 0;
	for (size_t i = 0; i < all->node_count; i++) {
		all->nodes[i].team = &all->team;
		all->nodes[i].first_loop = (unsigned)(disks % threads);
		disks += all->nodes[i].setup.options.disks.disk_count;
	}
	return 0;
}

static void all_main(void *arg)
{
	struct all *all = arg;
	size_t count = all->node_count + all->cache_count + 1 + all->has_janitor;
	AUTO_FREE struct one *each = calloc(count, sizeof(*each));
	int rc = each == NULL ? -ENOMEM : open_team(all);
	rt_group_init(&all->group);
	rt_cond_init(&all->ended);
	all->meta.stop = metadata_stop;
	all->meta.ctx = all;
	for (size_t i = 0; rc == 0 && i < count; i++) {
		each[i] = (struct one){.all = all, .i = i};
		rc = rt_group_spawn(&all->group, "role", role_main, &each[i]);
		all->clients += rc == 0 && i > 0;
	}
	if (rc < 0) {
		char why[128];
		snprintf(why, sizeof(why), "cannot start all roles: %s", err_text(rc));
		stop_all(all, rc, why);
	}
	rt_group_join(&all->group);
	if (all->team.count > 0)
		rt_team_close(&all->team);
}

/* --- settings ----------------------------------------------------------------------------------- */

static int load_nodes(struct all *all, struct strbuf *err)
{
	all->nodes = calloc((size_t)all->box->shape.nodes, sizeof(*all->nodes));
	if (all->nodes == NULL)
		return -ENOMEM;
	for (int64_t i = 1; i <= all->box->shape.nodes; i++) {
		char path[BOX_PATH_MAX];
		int rc = box_path(all->box, path, "conf/node-%ld.ini", i);
		if (rc == 0)
			rc = node_role_load(&all->nodes[all->node_count], path, err);
		if (rc < 0)
			return rc;
		all->node_count++;
	}
	assert(all->node_count == (size_t)all->box->shape.nodes);
	return 0;
}

static int load_caches(struct all *all, struct strbuf *err)
{
	const struct box_shape *s = &all->box->shape;
	all->caches = calloc((size_t)s->cache_nodes + 1, sizeof(*all->caches));
	if (all->caches == NULL)
		return -ENOMEM;
	for (int64_t i = 1; i <= s->cache_nodes; i++) {
		char path[BOX_PATH_MAX];
		int rc = box_path(all->box, path, "conf/cache-%ld.ini", s->nodes + i);
		if (rc == 0)
			rc = cache_role_load(&all->caches[all->cache_count], path, err);
		if (rc < 0)
			return rc;
		all->cache_count++;
	}
	return 0;
}

static int load_janitor(struct all *all, struct strbuf *err)
{
	char path[BOX_PATH_MAX];
	int rc = box_path(all->box, path, "conf/janitor.ini");
	if (rc < 0 || access(path, F_OK) < 0)
		return rc;
	rc = janitor_role_load(&all->janitor, path, err);
	all->has_janitor = rc == 0;
	return rc;
}

static int serve(struct all *all, struct strbuf *err)
{
	char path[BOX_PATH_MAX];
	int rc = box_path(all->box, path, "conf/meta.ini");
	if (rc == 0)
		rc = meta_role_load(&all->meta, path, err);
	if (rc < 0)
		return rc;
	rc = load_nodes(all, err);
	if (rc == 0)
		rc = load_caches(all, err);
	if (rc == 0)
		rc = load_janitor(all, err);
	if (rc == 0) {
		rt_real_log(LOG_INFO);
		struct rt_real_options o = {.signals = true, .offload_threads = RT_OFFLOAD_THREADS};
		for (size_t i = 0; i < all->node_count; i++)
			o.offload_threads += all->nodes[i].setup.options.prep_cores;
		rc = rt_real_run(&o, all_main, all);
	}
	for (size_t i = 0; i < all->node_count; i++)
		node_role_free(&all->nodes[i]);
	free(all->nodes);
	for (size_t i = 0; i < all->cache_count; i++)
		cache_role_free(&all->caches[i]);
	free(all->caches);
	if (all->has_janitor)
		janitor_role_free(&all->janitor);
	meta_role_free(&all->meta);
	return rc < 0 ? rc : all->rc;
}

int box_serve(const struct box *b, struct strbuf *err)
{
	struct all *all = calloc(1, sizeof(*all));
	if (all == NULL)
		return -ENOMEM;
	all->box = b;
	all->err = err;
	int rc = serve(all, err);
	free(all);
	return rc;
}
