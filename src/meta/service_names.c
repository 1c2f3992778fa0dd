// SPDX-License-Identifier: Apache-2.0
/* Handlers for tenants, names and usage. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "meta/gc.h"
#include "meta/service_impl.h"
#include "meta_api/attr.h"
#include "rt/rt.h"

/* --- tenants ---------------------------------------------------------------------------------- */

int ms_tenant_set(struct rpc_request *r, const struct meta_tenant *t, Terrane__Meta__Tenant **out)
{
	Terrane__Meta__Tenant *m = rpc_alloc(r, sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	terrane__meta__tenant__init(m);
	m->id = t->id;
	m->quota_bytes = t->quota_bytes;
	m->used_bytes = t->used_bytes;
	m->waiting_bytes = t->waiting_bytes;
	m->removed = t->removed;
	m->shares_content = t->shares_content;
	m->files_max = t->files_max;
	m->used_files = t->used_files;
	m->name = meta_wire_name(&r->arena, meta_name(t->name));
	*out = m;
	return m->name == NULL ? -ENOMEM : 0;
}

int ms_handle_tenant_create(struct rpc_request *r)
{
	const Terrane__Meta__TenantCreateRequest *q = rpc_body(r);
	int rc = ms_system(r);
	if (rc < 0)
		return rc;
	if (q->tenant == NULL)
		return -EINVAL;
	if (strlen(q->tenant->name) > META_TENANT_NAME_MAX)
		return -ENAMETOOLONG;
	if (strncmp(q->tenant->name, META_SYSTEM, strlen(META_SYSTEM)) == 0)
		return rpc_fail(r, -EINVAL,
				"tenant names that begin with \"" META_SYSTEM "\" are reserved");
	struct meta_tenant t = {.id = q->tenant->id, .quota_bytes = q->tenant->quota_bytes};
	memcpy(t.name, q->tenant->name, strlen(q->tenant->name) + 1);
	int made = meta_tenant_create(ms_meta(r), &t);
	if (made == 0 && q->tenant->files_max > 0)
		made = meta_tenant_set_files(ms_meta(r), t.id, q->tenant->files_max);
	if (made == 0)
		ms_grant_creator(r, t.id);
	return ms_end(r, made);
}

int ms_handle_tenant_get(struct rpc_request *r)
{
	const Terrane__Meta__TenantGetRequest *q = rpc_body(r);
	Terrane__Meta__TenantGetResponse *p = rpc_reply_body(r);
	struct meta_tenant t = {0};
	struct meta_ctx ctx;
	bool own = q->id == 0 && q->name[0] == 0;
	int rc = own ? ms_enter(r, &ctx) : ms_system(r);
	if (rc < 0)
		return rc;
	/* A client that has just started needs the epoch to write chunks beside their allocation. */
	if (own && meta_gc_epoch(ms_meta(r), &p->gc_epoch) < 0)
		p->gc_epoch = 0;
	if (own || q->id != 0)
		rc = meta_tenant_get(ms_meta(r), own ? ctx.tenant : q->id, &t);
	else
		rc = meta_tenant_find(ms_meta(r), q->name, &t);
	return rc < 0 ? ms_end(r, rc) : ms_tenant_set(r, &t, &p->tenant);
}

int ms_handle_tenant_quota(struct rpc_request *r)
{
	const Terrane__Meta__TenantQuotaRequest *q = rpc_body(r);
	int rc = ms_system(r);
	if (rc < 0)
		return rc;
	if (!q->keep_bytes)
		rc = meta_tenant_set_quota(ms_meta(r), q->id, q->quota_bytes);
	if (rc == 0 && q->set_files)
		rc = meta_tenant_set_files(ms_meta(r), q->id, q->files_max);
	return ms_end(r, rc);
}

int ms_handle_tenant_remove(struct rpc_request *r)
{
	const Terrane__Meta__TenantRemoveRequest *q = rpc_body(r);
	int rc = ms_system(r);
	if (rc < 0)
		return rc;
	rc = meta_tenant_remove(ms_meta(r), q->id);
	if (rc == -ENOTEMPTY)
		return rpc_fail(r, rc, "the tenant has files or directories; remove them first");
	return ms_end(r, rc);
}

int ms_handle_tenant_share(struct rpc_request *r)
{
	const Terrane__Meta__TenantShareRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	uint32_t service;
	/* The tenant itself decides who sees that it has some content, and no service for it. */
	if (ms_is_system(rt_context()->tenant, &service))
		return rpc_fail(r, -EPERM, "only a tenant itself switches sharing by content");
	int rc = ms_enter(r, &ctx);
	return rc < 0 ? rc : ms_end(r, meta_tenant_share(ms_meta(r), ctx.tenant, q->share));
}

int ms_handle_tenant_shares(struct rpc_request *r)
{
	Terrane__Meta__TenantSharesResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx;
	struct meta_tenant t = {0};
	int rc = ms_enter(r, &ctx);
	if (rc == 0)
		rc = meta_tenant_get(ms_meta(r), ctx.tenant, &t);
	p->share = rc == 0 && t.shares_content && !t.removed;
	return ms_end(r, rc);
}

int ms_handle_tenant_list(struct rpc_request *r)
{
	const Terrane__Meta__TenantListRequest *q = rpc_body(r);
	Terrane__Meta__TenantListResponse *p = rpc_reply_body(r);
	int rc = ms_system(r);
	if (rc < 0)
		return rc;
	size_t max = q->max == 0 || q->max > META_PAGE_MAX ? META_PAGE_MAX : q->max;
	struct meta_tenant *all = rpc_alloc(r, max * sizeof(*all));
	p->tenants = rpc_alloc(r, max * sizeof(Terrane__Meta__Tenant *));
	if (all == NULL || p->tenants == NULL)
		return -ENOMEM;
	int64_t n = meta_tenant_list(ms_meta(r), q->after, all, max);
	if (n < 0)
		return ms_end(r, (int)n);
	assert((size_t)n <= max);
	for (int64_t i = 0; rc == 0 && i < n; i++)
		rc = ms_tenant_set(r, &all[i], &p->tenants[p->n_tenants++]);
	return rc;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int entry_reply(struct rpc_request *r, const struct meta_entry *e, bool with_name,
		       meta_msg_entry **out)
{
	struct meta_entry copy = *e;
	if (!with_name)
		copy.name = meta_name("");
	*out = rpc_alloc(r, sizeof(**out));
	return *out == NULL ? -ENOMEM : meta_wire_entry_set(&r->arena, *out, &copy);
}

struct walker {
	struct rpc_request *r;
	const struct meta_ctx *ctx;
};

static int admit_step(void *arg, uint64_t dir)
{
	const struct walker *w = arg;
	return ms_admit(w->r, w->ctx, SERVICE_DIR, dir, 1);
}

int ms_resolve(struct rpc_request *r, const struct meta_ctx *ctx, uint64_t dir,
	       struct meta_name path, struct meta_entry *out)
{
	struct walker w = {.r = r, .ctx = ctx};
	return meta_resolve(ms_meta(r), ctx, dir, path, admit_step, &w, out);
}

int ms_handle_lookup(struct rpc_request *r)
{
	const Terrane__Meta__LookupRequest *q = rpc_body(r);
	Terrane__Meta__LookupResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx;
	struct meta_entry e = {.id = q->dir, .kind = META_DIR};
	int rc = ms_enter(r, &ctx);
	if (rc == 0 && q->path[0] != '\0')
		rc = ms_resolve(r, &ctx, q->dir, meta_name(q->path), &e);
	if (rc == 0 && e.kind != META_DIR)
		rc = -ENOTDIR;
	p->dir = e.id;
	if (rc == 0)
		rc = ms_admit(r, &ctx, SERVICE_DIR, e.id, 1);
	if (rc == 0) {
		rc = meta_lookup(ms_meta(r), &ctx, e.id, meta_name(q->name), &e);
		if (rc == -ENOENT && q->may_miss)
			return 0;
	}
	return rc < 0 ? ms_end(r, rc) : entry_reply(r, &e, false, &p->entry);
}

int ms_handle_resolve(struct rpc_request *r)
{
	const Terrane__Meta__ResolveRequest *q = rpc_body(r);
	Terrane__Meta__ResolveResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx;
	struct meta_entry e = {0};
	int rc = ms_enter(r, &ctx);
	if (rc == 0)
		rc = ms_resolve(r, &ctx, q->dir, meta_name(q->path), &e);
	return rc < 0 ? ms_end(r, rc) : entry_reply(r, &e, true, &p->entry);
}

int ms_handle_dir_get(struct rpc_request *r)
{
	const Terrane__Meta__DirGetRequest *q = rpc_body(r);
	Terrane__Meta__DirGetResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx;
	struct meta_dir d = {0};
	int rc = ms_begin(r, &ctx, SERVICE_DIR, q->dir, 1);
	if (rc == 0)
		rc = meta_dir_get(ms_meta(r), &ctx, q->dir, &d);
	if (rc < 0)
		return ms_end(r, rc);
	p->parent = d.parent;
	p->created_ns = d.created_ns;
	p->sealed = d.sealed;
	p->spread = d.spread;
	return 0;
}

static int page_reply(struct rpc_request *r, const struct meta_page *page)
{
	Terrane__Meta__ListResponse *p = rpc_reply_body(r);
	meta_msg_entry *all = rpc_alloc(r, (page->count + 1) * sizeof(*all));
	p->entries = rpc_alloc(r, (page->count + 1) * sizeof(meta_msg_entry *));
	p->next = rpc_alloc(r, sizeof(*p->next));
	if (all == NULL || p->entries == NULL || p->next == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < page->count; i++) {
		int rc = meta_wire_entry_set(&r->arena, &all[i], &page->entries[i]);
		if (rc < 0)
			return rc;
		p->entries[p->n_entries++] = &all[i];
	}
	return meta_wire_cursor_set(&r->arena, p->next, &page->next);
}

int ms_handle_list(struct rpc_request *r)
{
	const Terrane__Meta__ListRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	struct meta_cursor from = {0};
	struct meta_page page = {0};
	int rc = meta_wire_cursor_get(q->from, &from);
	if (rc == 0)
		rc = ms_begin(r, &ctx, SERVICE_DIR, q->dir,
			      1 + (q->max == 0 ? META_PAGE_MAX : q->max) / 64);
	if (rc == 0)
		rc = meta_list(ms_meta(r), &ctx, q->dir, &from, q->max, &r->arena, &page);
	return rc < 0 ? ms_end(r, rc) : page_reply(r, &page);
}

/* --- creating --------------------------------------------------------------------------------- */

int ms_handle_mkdir(struct rpc_request *r)
{
	const Terrane__Meta__MkdirRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	struct meta_attrs attrs;
	struct meta_over over = {0};
	int rc = meta_wire_attrs_get(&r->arena, q->attrs, &attrs);
	if (rc == 0)
		rc = ms_begin(r, &ctx, SERVICE_DIR, q->dir, 1);
	ctx.over = &over;
	if (rc == 0)
		rc = meta_mkdir(ms_meta(r), &ctx, q->dir, meta_name(q->name), q->id, &attrs);
	return ms_end_over(r, &over, rc);
}

static int new_block(struct rpc_request *r, const meta_msg_block *m, struct meta_create *file)
{
	struct meta_block *b = rpc_alloc(r, sizeof(*b));
	int rc = b == NULL ? -ENOMEM : meta_wire_block_get(&r->arena, m, b);
	file->block = b;
	return rc;
}

static int new_attrs(struct rpc_request *r, const meta_msg_attrs *m, struct meta_create *file)
{
	struct meta_attrs *attrs = rpc_alloc(r, sizeof(*attrs));
	file->attrs = attrs;
	return attrs == NULL ? -ENOMEM : meta_wire_attrs_get(&r->arena, m, attrs);
}

static int new_files(struct rpc_request *r, const Terrane__Meta__CreateRequest *q,
		     struct meta_create **out)
{
	struct meta_create *files = rpc_alloc(r, q->n_files * sizeof(*files));
	if (files == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < q->n_files; i++) {
		const Terrane__Meta__NewFile *m = q->files[i];
		struct meta_extent *extents;
		int rc = meta_wire_extents_get(&r->arena, m->extents, m->n_extents, &extents);
		if (rc < 0)
			return rc;
		files[i] = (struct meta_create){
			.name = meta_name(m->name),
			.id = m->id,
			.token = m->token,
			.extents = extents,
			.extent_count = m->n_extents,
			.mtime_ns = m->mtime_ns,
		};
		rc = m->block != NULL ? new_block(r, m->block, &files[i]) : 0;
		if (rc == 0 && m->attrs != NULL)
			rc = new_attrs(r, m->attrs, &files[i]);
		if (rc < 0)
			return rc;
	}
	*out = files;
	return 0;
}

/* Puts the results of the single files into the response if a file failed. A response without results means that
 * all files were created. */
static int create_reply(struct rpc_request *r, const int *results, size_t n)
{
	Terrane__Meta__CreateResponse *p = rpc_reply_body(r);
	size_t failed = 0;
	for (size_t i = 0; i < n; i++) {
		assert(results[i] <= 0);
		failed += results[i] != 0;
	}
	if (failed == 0)
		return 0;
	p->results = rpc_alloc(r, n * sizeof(*p->results));
	if (p->results == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		p->results[i] = (uint32_t)-results[i];
	p->n_results = n;
	return 0;
}

/* Compares the directory of a create with its path. -ESTALE: the path does not lead to the directory now. */
static int create_path_check(struct rpc_request *r, const struct meta_ctx *ctx,
			     const Terrane__Meta__CreateRequest *q)
{
	struct meta_entry e = {0};
	int rc = q->path[0] == '\0' ? 0 : ms_resolve(r, ctx, META_ROOT, meta_name(q->path), &e);
	if (q->path[0] == '\0' || (rc == 0 && e.kind == META_DIR && e.id == q->dir))
		return 0;
	bool elsewhere = rc == 0 || rc == -ENOENT || rc == -ENOTDIR;
	return elsewhere ? rpc_fail(r, -ESTALE, "the path leads to another directory") : rc;
}

int ms_handle_create(struct rpc_request *r)
{
	const Terrane__Meta__CreateRequest *q = rpc_body(r);
	struct meta_create *files = NULL;
	struct meta_ctx ctx;
	struct meta_over over = {0};
	if (q->n_files == 0 || q->n_files > META_BATCH_MAX)
		return rpc_fail(r, -EINVAL, "%zu files in one request, 1 to %d are allowed",
				q->n_files, META_BATCH_MAX);
	int *results = rpc_alloc(r, q->n_files * sizeof(*results));
	if (results == NULL)
		return -ENOMEM;
	int rc = new_files(r, q, &files);
	if (rc == 0)
		rc = ms_begin(r, &ctx, SERVICE_DIR, q->dir, 1 + q->n_files / 16);
	for (size_t i = 0; rc == 0 && i < q->n_files; i++)
		if (files[i].block != NULL)
			rc = ms_admit(r, &ctx, SERVICE_BLOCK, files[i].block->id, 1);
	if (rc == 0)
		rc = create_path_check(r, &ctx, q);
	ctx.over = &over;
	if (rc == 0)
		rc = meta_create(ms_meta(r), &ctx, q->dir, files, q->n_files, q->flags, results);
	return rc < 0 ? ms_end_over(r, &over, rc) : create_reply(r, results, q->n_files);
}

int ms_handle_link(struct rpc_request *r)
{
	const Terrane__Meta__LinkRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	struct meta_attrs attrs;
	struct meta_over over = {0};
	int rc = meta_wire_attrs_get(&r->arena, q->attrs, &attrs);
	if (rc == 0)
		rc = ms_begin(r, &ctx, SERVICE_DIR, q->dir, 1);
	ctx.over = &over;
	if (rc == 0)
		rc = meta_link(ms_meta(r), &ctx, q->dir, meta_name(q->name),
			       &(struct meta_naming){.file = q->file,
						     .token = q->token,
						     .seal = q->seal,
						     .mtime_ns = q->mtime_ns,
						     .flags = q->flags,
						     .attrs = &attrs});
	return ms_end_over(r, &over, rc);
}

/* --- removing, moving ------------------------------------------------------------------------- */

int ms_handle_remove(struct rpc_request *r)
{
	const Terrane__Meta__RemoveRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	int rc = ms_begin(r, &ctx, SERVICE_DIR, q->dir, 1);
	if (rc == 0)
		rc = meta_remove(ms_meta(r), &ctx, q->dir, meta_name(q->name), q->id, q->flags);
	if (rc == 0)
		ms_place_removed(r, &ctx, q->id);
	return ms_end(r, rc);
}

int ms_handle_rename(struct rpc_request *r)
{
	const Terrane__Meta__RenameRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	int rc = ms_begin(r, &ctx, SERVICE_DIR, q->dir, 1);
	if (rc == 0)
		rc = meta_rename_id(ms_meta(r), &ctx,
				    &(struct meta_move){.from_dir = q->dir,
							.from = meta_name(q->from),
							.id = q->id,
							.to_dir = q->dir,
							.to = meta_name(q->to),
							.request = q->request,
							.flags = q->flags});
	return ms_end(r, rc);
}

int ms_handle_move(struct rpc_request *r)
{
	const Terrane__Meta__MoveRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	struct meta_over over = {0};
	int rc = ms_begin(r, &ctx, SERVICE_DIR, q->from_dir, 4);
	if (rc == 0 && q->to_dir != q->from_dir)
		rc = ms_admit(r, &ctx, SERVICE_DIR, q->to_dir, 4);
	ctx.over = &over;
	if (rc == 0)
		rc = meta_move(ms_meta(r), &ctx,
			       &(struct meta_move){.from_dir = q->from_dir,
						   .from = meta_name(q->from),
						   .id = q->id,
						   .to_dir = q->to_dir,
						   .to = meta_name(q->to),
						   .new_id = q->new_id,
						   .request = q->request,
						   .flags = q->flags});
	return ms_end_over(r, &over, rc);
}

int ms_handle_copy(struct rpc_request *r)
{
	const Terrane__Meta__CopyRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	struct meta_over over = {0};
	int rc = ms_begin(r, &ctx, SERVICE_DIR, q->from_dir, 4);
	if (rc == 0 && q->to_dir != q->from_dir)
		rc = ms_admit(r, &ctx, SERVICE_DIR, q->to_dir, 4);
	ctx.over = &over;
	if (rc == 0)
		rc = meta_copy(ms_meta(r), &ctx,
			       &(struct meta_move){.from_dir = q->from_dir,
						   .from = meta_name(q->from),
						   .id = q->id,
						   .to_dir = q->to_dir,
						   .to = meta_name(q->to),
						   .new_id = q->new_id,
						   .request = q->request,
						   .flags = q->flags});
	return ms_end_over(r, &over, rc);
}

int ms_handle_rmdir(struct rpc_request *r)
{
	const Terrane__Meta__RmdirRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	int rc = ms_begin(r, &ctx, SERVICE_DIR, q->dir, 4);
	if (rc == 0)
		rc = meta_rmdir(ms_meta(r), &ctx, q->dir, meta_name(q->name), q->id);
	return ms_end(r, rc);
}

int ms_handle_dir_seal(struct rpc_request *r)
{
	const Terrane__Meta__DirSealRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	int rc = ms_begin(r, &ctx, SERVICE_DIR, q->dir, 1);
	if (rc == 0)
		rc = meta_dir_seal(ms_meta(r), &ctx, q->dir);
	return ms_end(r, rc);
}

int ms_handle_dir_unseal(struct rpc_request *r)
{
	const Terrane__Meta__DirUnsealRequest *q = rpc_body(r);
	struct meta_ctx ctx;
	int rc = ms_begin(r, &ctx, SERVICE_DIR, q->dir, 1);
	if (rc == 0)
		rc = meta_dir_unseal(ms_meta(r), &ctx, q->dir);
	return ms_end(r, rc);
}

int ms_handle_du(struct rpc_request *r)
{
	const Terrane__Meta__DuRequest *q = rpc_body(r);
	Terrane__Meta__DuResponse *p = rpc_reply_body(r);
	struct meta_ctx ctx;
	struct meta_usage u = {0};
	/* A count reads the complete tree, so tenants may not start one: they get the result of the servers'
	 * periodic count. */
	bool own = strncmp(rt_context()->tenant, META_SYSTEM, strlen(META_SYSTEM)) != 0;
	int rc = ms_begin(r, &ctx, SERVICE_DIR, q->dir, 1);
	if (rc == 0 && q->refresh && own)
		rc = rpc_fail(r, -EPERM, "only \"" META_SYSTEM "\" may start a count of usage");
	if (rc == 0 && q->refresh)
		rc = meta_du_refresh(ms_meta(r), &ctx, q->dir);
	if (rc == 0)
		rc = meta_du(ms_meta(r), &ctx, q->dir, &u);
	if (rc < 0)
		return ms_end(r, rc);
	p->files = u.files;
	p->dirs = u.dirs;
	p->bytes = u.bytes;
	p->taken_ns = u.taken_ns;
	return 0;
}
