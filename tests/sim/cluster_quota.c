// SPDX-License-Identifier: Apache-2.0
#include "cluster_quota.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/rng.h"
#include "cluster_check.h"
#include "meta/meta.h"
#include "meta/service.h"
#include "meta_client/meta_client.h"
#include "rt/rt.h"

#define FILES_TRIES 300 /* looks at rest, two seconds apart */

void files_draw(struct plan *p, uint64_t seed)
{
	struct rng r;
	rng_init(&r, mix_u64(seed ^ 0x66696c6573ULL));
	p->files_max = rng_chance(&r, 0.25) ? 30 + rng_below(&r, 90) : 0;
}

/* Returns whether the quota of the tenant's root is counted and not exceeded. */
static bool holds(struct meta *m, uint32_t tenant)
{
	AUTO_ARENA struct arena a;
	struct meta_ctx ctx = {.tenant = tenant};
	struct meta_dir_quota *all;
	arena_init(&a, MIB);
	int64_t n = meta_dir_quota_list(m, &ctx, &a, &all);
	for (int64_t i = 0; i < n; i++)
		if (all[i].dir == META_ROOT)
			return all[i].counted_ns != 0 &&
			       all[i].used_files <= all[i].tenant_files_max;
	return false;
}

int files_limit(struct world *w, struct kv *kv, struct meta_serve_options *o)
{
	struct meta_tenant t;
	struct meta *m = NULL;
	o->usage_ns = w->plan.files_max > 0 ? 30 * NS_PER_S : 0;
	int rc = w->plan.files_max > 0 ? meta_open(&m, kv, &o->meta) : 0;
	if (m == NULL)
		return rc;
	rc = meta_tenant_find(m, TENANT, &t);
	if (rc == 0 && t.files_max == 0)
		rc = meta_tenant_set_files(m, t.id, w->plan.files_max);
	if (rc == 0 && !w->files_bounded)
		w->files_bounded = holds(m, t.id);
	meta_close(m);
	return rc;
}

static int count_tree(struct checker *k, uint32_t tenant, struct meta_usage *u)
{
	AUTO_CONTEXT const struct context *system = NULL;
	char name[32];
	snprintf(name, sizeof(name), META_SYSTEM ":%u", tenant);
	int rc = context_new(&system, &(struct context){.tenant = name});
	if (rc < 0)
		return rc;
	AUTO_RT_CONTEXT const struct context *before = rt_context_enter(system);
	return meta_client_du(&k->root, META_ROOT, true, u);
}

/* Counts the names of the clients' tenant, then reads its ledger. Returns whether both are known. */
static bool files_count(struct checker *k, struct meta_tenant *t, uint64_t *there)
{
	struct meta_usage u = {0};
	bool known = meta_client_tenant_get(&k->root, 0, TENANT, t) == 0 &&
		     count_tree(k, t->id, &u) == 0 &&
		     meta_client_tenant_get(&k->root, 0, TENANT, t) == 0;
	*there = u.files + u.dirs;
	return known;
}

void files_look(struct checker *k, bool at_rest)
{
	struct meta_tenant t = {0};
	uint64_t there = 0;
	bool known = false;
	if (k->world->plan.files_max == 0)
		return;
	for (int i = 0; i < FILES_TRIES && !model_violated(&k->world->model); i++) {
		known = files_count(k, &t, &there);
		if (known &&
		    (t.used_files < there || (k->world->files_bounded && there > t.files_max)))
			model_violation(&k->world->model, "I7",
					"%lu files and directories exist, the ledger has %lu of "
					"%lu",
					there, t.used_files, t.files_max);
		if (known && (!at_rest || t.used_files == there))
			return;
		if (rt_sleep_ns(2 * NS_PER_S) < 0)
			return;
	}
	model_violation(&k->world->model, "I7", "%s: %lu files and directories, %lu in the ledger",
			known ? "the ledger is not exact" : "no count", there, t.used_files);
}
