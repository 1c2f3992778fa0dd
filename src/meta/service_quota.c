// SPDX-License-Identifier: Apache-2.0
/* Handlers for quotas of directories, and the texts of refusals. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "meta/impl.h"
#include "meta/service_impl.h"
#include "rt/rt.h"

/* Returns whether the client may know how much is below a directory. */
static bool may_look(struct rpc_request *r, uint32_t tenant, uint64_t dir)
{
	if (ms_session(r) == NULL || ms_whole_grant(r, tenant, OP_STAT))
		return true;
	return ms_dir_allows(r, tenant, OP_STAT, dir) == 0;
}

int ms_end_over(struct rpc_request *r, const struct meta_over *over, int rc)
{
	uint32_t tenant = 0;
	if (rc != -EDQUOT || over->dir == 0 || r->error != NULL)
		return ms_end(r, rc);
	const char *name = rt_context()->tenant;
	bool known = ms_find_tenant(r->service, name, &tenant) == 0;
	if (!known || !may_look(r, tenant, over->dir))
		return rpc_fail(r, rc,
				"a directory above is over its quota; remove files, or ask who "
				"administers the tenant");
	const char *what = over->files ? "files and directories" : "bytes";
	if (over->of_tenant)
		return rpc_fail(r, rc,
				"tenant \"%.64s\" is over its quota of files: %lu of %lu files and "
				"directories exist, %lu more are wanted; remove files or raise the "
				"quota (terrane tenant quota)",
				name, over->used, over->max, over->wanted);
	return rpc_fail(
		r, rc,
		"directory \"%s\" is over its quota: %lu of %lu %s are used, %lu more are wanted; "
		"remove files or raise the quota (terrane quota set). Replaced files may count for "
		"some minutes",
		over->path, over->used, over->max, what, over->wanted);
}

/* Checks that dir is in parent: the right was decided there. */
static int parent_check(struct rpc_request *r, const struct meta_ctx *ctx, uint64_t parent,
			uint64_t dir)
{
	struct meta_dir d = {0};
	int rc = meta_dir_get(ms_meta(r), ctx, dir, &d);
	if (rc < 0)
		return rc;
	if (dir == META_ROOT ? parent == META_ROOT : d.parent == parent)
		return 0;
	return rpc_fail(r, -ESTALE, "the directory was moved; try again");
}

int ms_handle_dir_quota_set(struct rpc_request *r)
{
	const Terrane__Meta__DirQuotaSetRequest *q = rpc_body(r);
	Terrane__Meta__DirQuotaSetResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx;
	bool created = false;
	const struct meta_dir_quota want = {.dir = q->dir,
					    .path = q->path,
					    .bytes_max = q->bytes_max,
					    .files_max = q->files_max};
	int rc = ms_begin(r, &ctx, SERVICE_DIR, q->dir, 1);
	if (rc == 0 && strlen(q->path) > META_DIR_QUOTA_PATH_MAX)
		rc = -ENAMETOOLONG;
	if (rc == 0)
		rc = parent_check(r, &ctx, q->parent, q->dir);
	if (rc == 0)
		rc = q->clear ? meta_dir_quota_clear(ms_meta(r), &ctx, q->dir)
			      : meta_dir_quota_set(ms_meta(r), &ctx, &want, &created);
	if (rc == -ENOSPC)
		return rpc_fail(r, rc,
				"the tenant has %d directories with quotas, and no more are "
				"possible; clear one first",
				META_DIR_QUOTAS_MAX);
	if (rc < 0)
		return ms_end(r, rc);
	/* A tree that takes longer than the deadline of the request is counted by the periodic count. */
	int counted = created ? meta_dir_quota_count(ms_meta(r), &ctx, q->dir) : 0;
	if (counted == -ECANCELED)
		return counted;
	p->counted = counted == 0;
	return 0;
}

static int quota_reply(struct rpc_request *r, uint32_t tenant, const struct meta_dir_quota *q,
		       Terrane__Meta__DirQuota **out)
{
	Terrane__Meta__DirQuota *m = *out = rpc_alloc(r, sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	terrane__meta__dir_quota__init(m);
	m->dir = q->dir;
	if (!may_look(r, tenant, q->dir))
		return 0;
	m->path = (char *)q->path;
	m->bytes_max = q->bytes_max;
	m->files_max = q->files_max;
	m->tenant_files_max = q->tenant_files_max;
	m->used_bytes = q->used_bytes;
	m->used_files = q->used_files;
	m->counted_ns = q->counted_ns;
	return 0;
}

int ms_handle_dir_quota_list(struct rpc_request *r)
{
	const Terrane__Meta__DirQuotaListRequest *q = rpc_body(r);
	Terrane__Meta__DirQuotaListResponse *p = rpc_reply_body(r);
	struct meta_dir_quota *all = NULL;
	struct meta_tenant t = {0};
	struct meta_ctx ctx;
	int rc = ms_begin(r, &ctx, SERVICE_DIR, q->dir, 1);
	if (rc == 0 && q->all && q->dir != META_ROOT)
		rc = -EINVAL;
	if (rc == 0)
		rc = meta_tenant_get(ms_meta(r), ctx.tenant, &t);
	if (rc < 0)
		return ms_end(r, rc);
	if (!may_look(r, ctx.tenant, META_ROOT))
		t.used_bytes = t.quota_bytes = t.waiting_bytes = t.used_files = t.files_max = 0;
	int64_t n = q->all ? meta_dir_quota_list(ms_meta(r), &ctx, &r->arena, &all)
			   : meta_dir_quota_above(ms_meta(r), &ctx, q->dir, &r->arena, &all);
	if (n < 0)
		return ms_end(r, (int)n);
	assert(n <= META_DIR_QUOTAS_MAX);
	p->quotas = rpc_alloc(r, ((size_t)n + 1) * sizeof(Terrane__Meta__DirQuota *));
	if (p->quotas == NULL)
		return -ENOMEM;
	for (int64_t i = 0; rc == 0 && i < n; i++)
		rc = quota_reply(r, ctx.tenant, &all[i], &p->quotas[p->n_quotas++]);
	return rc < 0 ? rc : ms_tenant_set(r, &t, &p->tenant);
}
