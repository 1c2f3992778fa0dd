// SPDX-License-Identifier: Apache-2.0
/* Client stubs of the requests for tenants, names and usage. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "meta_client/impl.h"

/* --- tenants ------------------------------------------------------------------------------------ */

static int tenant_from_wire(const Terrane__Meta__Tenant *m, struct meta_tenant *out)
{
	if (m == NULL || strlen(m->name) > META_TENANT_NAME_MAX)
		return -EINVAL;
	*out = (struct meta_tenant){.id = m->id,
				    .quota_bytes = m->quota_bytes,
				    .files_max = m->files_max,
				    .used_files = m->used_files,
				    .used_bytes = m->used_bytes,
				    .waiting_bytes = m->waiting_bytes,
				    .removed = m->removed,
				    .shares_content = m->shares_content};
	memcpy(out->name, m->name, strlen(m->name) + 1);
	return 0;
}

int meta_client_tenant_create(struct meta_call *c, const struct meta_tenant *t)
{
	Terrane__Meta__TenantCreateRequest q = TERRANE__META__TENANT_CREATE_REQUEST__INIT;
	Terrane__Meta__Tenant m = TERRANE__META__TENANT__INIT;
	m.id = t->id;
	m.name = (char *)t->name;
	m.quota_bytes = t->quota_bytes;
	m.files_max = t->files_max;
	q.tenant = &m;
	return mc_call_status(c, &meta_type_tenant_create, &q.base);
}

static int tenant_get(struct meta_call *c, const Terrane__Meta__TenantGetRequest *q,
		      struct meta_tenant *out, uint64_t *gc_epoch)
{
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_tenant_get, &q->base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__TenantGetResponse *p = reply.message;
	*gc_epoch = p->gc_epoch;
	return mc_response_error(c, tenant_from_wire(p->tenant, out));
}

int meta_client_tenant_get(struct meta_call *c, uint32_t id, const char *name,
			   struct meta_tenant *out)
{
	Terrane__Meta__TenantGetRequest q = TERRANE__META__TENANT_GET_REQUEST__INIT;
	uint64_t unused;
	q.id = id;
	if (name != NULL)
		q.name = (char *)name;
	return tenant_get(c, &q, out, &unused);
}

int meta_client_tenant_own(struct meta_call *c, struct meta_tenant *out, uint64_t *gc_epoch)
{
	Terrane__Meta__TenantGetRequest q = TERRANE__META__TENANT_GET_REQUEST__INIT;
	return tenant_get(c, &q, out, gc_epoch);
}

int meta_client_tenant_set_quota(struct meta_call *c, uint32_t id, uint64_t quota_bytes)
{
	Terrane__Meta__TenantQuotaRequest q = TERRANE__META__TENANT_QUOTA_REQUEST__INIT;
	q.id = id;
	q.quota_bytes = quota_bytes;
	return mc_call_status(c, &meta_type_tenant_quota, &q.base);
}

int meta_client_tenant_share(struct meta_call *c, bool share)
{
	Terrane__Meta__TenantShareRequest q = TERRANE__META__TENANT_SHARE_REQUEST__INIT;
	q.share = share;
	return mc_call_status(c, &meta_type_tenant_share, &q.base);
}

int meta_client_tenant_shares(struct meta_call *c, bool *share)
{
	Terrane__Meta__TenantSharesRequest q = TERRANE__META__TENANT_SHARES_REQUEST__INIT;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_tenant_shares, &q.base, &reply);
	if (rc == 0)
		*share = ((const Terrane__Meta__TenantSharesResponse *)reply.message)->share;
	return rc;
}

int meta_client_tenant_set_files(struct meta_call *c, uint32_t id, uint64_t files_max)
{
	Terrane__Meta__TenantQuotaRequest q = TERRANE__META__TENANT_QUOTA_REQUEST__INIT;
	q.id = id;
	q.keep_bytes = q.set_files = true;
	q.files_max = files_max;
	return mc_call_status(c, &meta_type_tenant_quota, &q.base);
}

int meta_client_tenant_remove(struct meta_call *c, uint32_t id)
{
	Terrane__Meta__TenantRemoveRequest q = TERRANE__META__TENANT_REMOVE_REQUEST__INIT;
	q.id = id;
	return mc_call_status(c, &meta_type_tenant_remove, &q.base);
}

int64_t meta_client_tenant_list(struct meta_call *c, uint32_t after, struct meta_tenant *out,
				size_t max)
{
	Terrane__Meta__TenantListRequest q = TERRANE__META__TENANT_LIST_REQUEST__INIT;
	q.after = after;
	q.max = (uint32_t)min_u64(max, META_PAGE_MAX);
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_tenant_list, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__TenantListResponse *p = reply.message;
	if (p->n_tenants > max)
		return mc_response_error(c, -EINVAL);
	for (size_t i = 0; rc == 0 && i < p->n_tenants; i++)
		rc = tenant_from_wire(p->tenants[i], &out[i]);
	return rc < 0 ? mc_response_error(c, rc) : (int64_t)p->n_tenants;
}

/* --- lookup ------------------------------------------------------------------------------------- */

int meta_client_lookup(struct meta_call *c, uint64_t dir, struct meta_name name,
		       struct meta_entry *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_BYTES);
	Terrane__Meta__LookupRequest q = TERRANE__META__LOOKUP_REQUEST__INIT;
	q.dir = dir;
	int rc = mc_name(c, &a, name, META_NAME_MAX, &q.name);
	if (rc < 0)
		return rc;
	AUTO_REPLY struct rpc_reply reply;
	rc = mc_call(c, &meta_type_lookup, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__LookupResponse *p = reply.message;
	rc = meta_wire_entry_get(p->entry, out);
	out->name = name;
	return mc_response_error(c, rc);
}

int meta_client_find(struct meta_call *c, uint64_t dir, struct meta_name path,
		     struct meta_name name, uint64_t *in, struct meta_entry *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_BYTES);
	*out = (struct meta_entry){0};
	Terrane__Meta__LookupRequest q = TERRANE__META__LOOKUP_REQUEST__INIT;
	q.dir = dir;
	q.may_miss = true;
	int rc = mc_name(c, &a, name, META_NAME_MAX, &q.name);
	if (rc == 0)
		rc = mc_name(c, &a, path, META_PATH_MAX, &q.path);
	if (rc < 0)
		return rc;
	AUTO_REPLY struct rpc_reply reply;
	rc = mc_call(c, &meta_type_lookup, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__LookupResponse *p = reply.message;
	*in = p->dir;
	if (p->dir == 0)
		rc = -EINVAL;
	else if (p->entry != NULL)
		rc = meta_wire_entry_get(p->entry, out);
	out->name = name;
	return mc_response_error(c, rc);
}

/* Returns the last component of the path that is not empty. */
static struct meta_name last_step(struct meta_name path)
{
	size_t end = path.len;
	while (end > 0 && path.text[end - 1] == '/')
		end--;
	size_t begin = end;
	while (begin > 0 && path.text[begin - 1] != '/')
		begin--;
	return (struct meta_name){.text = path.text + begin, .len = end - begin};
}

int meta_client_resolve(struct meta_call *c, uint64_t dir, struct meta_name path,
			struct meta_entry *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_BYTES);
	Terrane__Meta__ResolveRequest q = TERRANE__META__RESOLVE_REQUEST__INIT;
	q.dir = dir;
	int rc = mc_name(c, &a, path, META_PATH_MAX, &q.path);
	if (rc < 0)
		return rc;
	AUTO_REPLY struct rpc_reply reply;
	rc = mc_call(c, &meta_type_resolve, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__ResolveResponse *p = reply.message;
	rc = meta_wire_entry_get(p->entry, out);
	out->name = last_step(path);
	return mc_response_error(c, rc);
}

int meta_client_dir_get(struct meta_call *c, uint64_t dir, struct meta_dir *out)
{
	Terrane__Meta__DirGetRequest q = TERRANE__META__DIR_GET_REQUEST__INIT;
	q.dir = dir;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_dir_get, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__DirGetResponse *p = reply.message;
	*out = (struct meta_dir){.id = dir,
				 .parent = p->parent,
				 .created_ns = p->created_ns,
				 .sealed = p->sealed,
				 .spread = p->spread};
	return 0;
}

/* Copies entries with their names, because the reply is freed. */
static int page_copy(struct arena *a, const Terrane__Meta__ListResponse *p, struct meta_page *out)
{
	size_t names = 0;
	out->count = p->n_entries;
	out->entries = arena_alloc(a, (out->count + 1) * sizeof(*out->entries));
	for (size_t i = 0; i < p->n_entries; i++)
		names += strlen(p->entries[i]->name);
	char *text = arena_alloc(a, names + 1);
	if (out->entries == NULL || text == NULL)
		return -ENOMEM;
	const char *end = text + names;
	for (size_t i = 0; i < p->n_entries; i++) {
		struct meta_entry *e = &out->entries[i];
		int rc = meta_wire_entry_get(p->entries[i], e);
		if (rc < 0)
			return rc;
		assert(e->name.len <= (size_t)(end - text));
		memcpy(text, e->name.text, e->name.len);
		e->name.text = text;
		text += e->name.len;
	}
	return meta_wire_cursor_get(p->next, &out->next);
}

int meta_client_list(struct meta_call *c, uint64_t dir, const struct meta_cursor *from, size_t max,
		     struct arena *arena, struct meta_page *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_BYTES);
	Terrane__Meta__ListRequest q = TERRANE__META__LIST_REQUEST__INIT;
	meta_msg_cursor at;
	q.dir = dir;
	q.max = (uint32_t)min_u64(max, META_PAGE_MAX);
	q.from = &at;
	int rc = meta_wire_cursor_set(&a, &at, from);
	if (rc < 0)
		return mc_fail(c, rc);
	AUTO_REPLY struct rpc_reply reply;
	rc = mc_call(c, &meta_type_list, &q.base, &reply);
	return rc < 0 ? rc : mc_response_error(c, page_copy(arena, reply.message, out));
}

/* --- creation ----------------------------------------------------------------------------------- */

int meta_client_mkdir(struct meta_call *c, uint64_t dir, struct meta_name name, uint64_t id,
		      const struct meta_attrs *attrs)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_BYTES);
	Terrane__Meta__MkdirRequest q = TERRANE__META__MKDIR_REQUEST__INIT;
	q.dir = dir;
	q.id = id;
	int rc = mc_name(c, &a, name, META_NAME_MAX, &q.name);
	if (rc == 0 && attrs != NULL)
		rc = mc_attrs(c, &a, attrs, &q.attrs);
	return rc < 0 ? rc : mc_call_status(c, &meta_type_mkdir, &q.base);
}

/* Puts a file to be created into the request. If its name or an attribute is invalid, sets *result of this file only: the request
 * then has an empty name, which the service refuses. */
static int new_file_to_wire(struct arena *a, const struct meta_create *f, Terrane__Meta__NewFile *m,
			    int *result)
{
	struct meta_call unused; /* mc_name sets the error of this call, which is not used */
	terrane__meta__new_file__init(m);
	int rc = f->attrs != NULL ? mc_attrs(&unused, a, f->attrs, &m->attrs) : 0;
	if (rc == 0)
		rc = mc_name(&unused, a, f->name, META_NAME_MAX, &m->name);
	if (rc == -ENOMEM)
		return rc;
	*result = rc;
	m->id = f->id;
	m->token = f->token;
	m->mtime_ns = f->mtime_ns;
	m->n_extents = f->extent_count;
	m->extents = meta_wire_extents(a, f->extents, f->extent_count);
	if (m->extents == NULL)
		return -ENOMEM;
	if (f->block == NULL)
		return 0;
	if (f->block->chunk_count > META_CHUNKS_MAX)
		return -EINVAL;
	m->block = arena_alloc(a, sizeof(*m->block));
	return m->block == NULL ? -ENOMEM : meta_wire_block_set(a, m->block, f->block);
}

static int create_to_wire(struct arena *a, Terrane__Meta__CreateRequest *q,
			  const struct meta_create *files, size_t n, int *results)
{
	Terrane__Meta__NewFile *all = arena_alloc(a, n * sizeof(*all));
	q->files = arena_alloc(a, n * sizeof(Terrane__Meta__NewFile *));
	if (all == NULL || q->files == NULL)
		return -ENOMEM;
	q->n_files = n;
	for (size_t i = 0; i < n; i++) {
		if (files[i].extent_count > META_INLINE_EXTENTS)
			return -EINVAL;
		int rc = new_file_to_wire(a, &files[i], &all[i], &results[i]);
		if (rc < 0)
			return rc;
		assert(results[i] <= 0);
		q->files[i] = &all[i];
	}
	return 0;
}

static int create_ask(struct meta_call *c, struct arena *a, Terrane__Meta__CreateRequest *q,
		      const struct meta_create *files, size_t n, int *results)
{
	int rc = create_to_wire(a, q, files, n, results);
	if (rc < 0)
		return mc_fail(c, rc);
	AUTO_REPLY struct rpc_reply reply;
	rc = mc_call(c, &meta_type_create, &q->base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__CreateResponse *p = reply.message;
	if (p->n_results != 0 && p->n_results != n)
		return mc_response_error(c, -EINVAL);
	for (size_t i = 0; i < n; i++)
		if (results[i] == 0)
			results[i] = p->n_results == 0 ? 0 : err_from_wire(p->results[i]);
	return 0;
}

int meta_client_create(struct meta_call *c, uint64_t dir, const struct meta_create *files, size_t n,
		       unsigned flags, int *results)
{
	if (n == 0 || n > META_BATCH_MAX)
		return mc_fail(c, -EINVAL);
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_LARGE);
	Terrane__Meta__CreateRequest q = TERRANE__META__CREATE_REQUEST__INIT;
	q.dir = dir;
	q.flags = flags;
	return create_ask(c, &a, &q, files, n, results);
}

int meta_client_create_at(struct meta_call *c, uint64_t dir, struct meta_name path,
			  const struct meta_create *file, unsigned flags, int *result)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_LARGE);
	Terrane__Meta__CreateRequest q = TERRANE__META__CREATE_REQUEST__INIT;
	q.dir = dir;
	q.flags = flags;
	int rc = mc_name(c, &a, path, META_PATH_MAX, &q.path);
	return rc < 0 ? rc : create_ask(c, &a, &q, file, 1, result);
}

int meta_client_link(struct meta_call *c, uint64_t dir, struct meta_name name,
		     const struct meta_naming *as)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_BYTES);
	Terrane__Meta__LinkRequest q = TERRANE__META__LINK_REQUEST__INIT;
	q.dir = dir;
	q.file = as->file;
	q.token = as->token;
	q.seal = as->seal;
	q.mtime_ns = as->mtime_ns;
	q.flags = as->flags;
	int rc = mc_name(c, &a, name, META_NAME_MAX, &q.name);
	if (rc == 0 && as->attrs != NULL)
		rc = mc_attrs(c, &a, as->attrs, &q.attrs);
	return rc < 0 ? rc : mc_call_status(c, &meta_type_link, &q.base);
}

/* --- removal, moves ------------------------------------------------------------------------------ */

#define REMOVE_TRIES 8

/*
 * Sends a request that removes a name. The request must have the id that the name leads to, so that a delayed copy
 * of the request does not remove a later object of that name: *id is this field of the request. If the caller gave
 * no id (0), the function looks the id up first, and looks it up again if the name leads to another object by the
 * time of the request.
 */
static int remove_with_id(struct meta_call *c, const struct rpc_type *type,
			  const ProtobufCMessage *q, uint64_t dir, struct meta_name name,
			  uint64_t *id)
{
	if (*id != 0)
		return mc_call_status(c, type, q);
	for (int tries = 0; tries < REMOVE_TRIES; tries++) {
		struct meta_entry now;
		int rc = meta_client_lookup(c, dir, name, &now);
		if (rc < 0)
			return rc;
		*id = now.id;
		rc = mc_call_status(c, type, q);
		if (rc != -ESTALE)
			return rc;
	}
	return mc_fail(c, -EAGAIN);
}

int meta_client_remove(struct meta_call *c, uint64_t dir, struct meta_name name, uint64_t id,
		       unsigned flags)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_BYTES);
	Terrane__Meta__RemoveRequest q = TERRANE__META__REMOVE_REQUEST__INIT;
	q.dir = dir;
	q.id = id;
	q.flags = flags;
	int rc = mc_name(c, &a, name, META_NAME_MAX, &q.name);
	if (rc == 0)
		rc = remove_with_id(c, &meta_type_remove, &q.base, dir, name, &q.id);
	if (rc == 0 && mc_cache(c) != NULL)
		mc_cache_drop_file(mc_cache(c), q.id);
	return rc;
}

/*
 * Looks up the id that a name leads to, so that a late copy of the request does not move another object of that
 * name. Sets *id to 0 if the name does not exist: the service then finds out whether the request was executed
 * before.
 */
static int lookup_id(struct meta_call *c, uint64_t dir, struct meta_name name, uint64_t *id)
{
	struct meta_entry e = {0};
	int rc = meta_client_lookup(c, dir, name, &e);
	*id = rc == 0 ? e.id : 0;
	return rc == -ENOENT ? 0 : rc;
}

int meta_client_rename(struct meta_call *c, uint64_t dir, struct meta_name from,
		       struct meta_name to, uint64_t request, unsigned flags)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_BYTES);
	Terrane__Meta__RenameRequest q = TERRANE__META__RENAME_REQUEST__INIT;
	q.dir = dir;
	q.request = request;
	q.flags = flags;
	int rc = mc_name(c, &a, from, META_NAME_MAX, &q.from);
	if (rc == 0)
		rc = mc_name(c, &a, to, META_NAME_MAX, &q.to);
	if (rc == 0)
		rc = lookup_id(c, dir, from, &q.id);
	return rc < 0 ? rc : mc_call_status(c, &meta_type_rename, &q.base);
}

int meta_client_move(struct meta_call *c, const struct meta_move *move)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_BYTES);
	Terrane__Meta__MoveRequest q = TERRANE__META__MOVE_REQUEST__INIT;
	q.from_dir = move->from_dir;
	q.to_dir = move->to_dir;
	q.new_id = move->new_id;
	q.request = move->request;
	q.flags = move->flags;
	int rc = mc_name(c, &a, move->from, META_NAME_MAX, &q.from);
	if (rc == 0)
		rc = mc_name(c, &a, move->to, META_NAME_MAX, &q.to);
	if (rc == 0)
		rc = lookup_id(c, move->from_dir, move->from, &q.id);
	return rc < 0 ? rc : mc_call_status(c, &meta_type_move, &q.base);
}

int meta_client_copy(struct meta_call *c, const struct meta_move *copy)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_BYTES);
	Terrane__Meta__CopyRequest q = TERRANE__META__COPY_REQUEST__INIT;
	q.from_dir = copy->from_dir;
	q.to_dir = copy->to_dir;
	q.new_id = copy->new_id;
	q.request = copy->request;
	q.flags = copy->flags;
	int rc = mc_name(c, &a, copy->from, META_NAME_MAX, &q.from);
	if (rc == 0)
		rc = mc_name(c, &a, copy->to, META_NAME_MAX, &q.to);
	if (rc == 0)
		rc = lookup_id(c, copy->from_dir, copy->from, &q.id);
	return rc < 0 ? rc : mc_call_status(c, &meta_type_copy, &q.base);
}

int meta_client_rmdir(struct meta_call *c, uint64_t dir, struct meta_name name, uint64_t id)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, SCRATCH_BYTES);
	Terrane__Meta__RmdirRequest q = TERRANE__META__RMDIR_REQUEST__INIT;
	q.dir = dir;
	q.id = id;
	int rc = mc_name(c, &a, name, META_NAME_MAX, &q.name);
	return rc < 0 ? rc : remove_with_id(c, &meta_type_rmdir, &q.base, dir, name, &q.id);
}

int meta_client_dir_seal(struct meta_call *c, uint64_t dir)
{
	Terrane__Meta__DirSealRequest q = TERRANE__META__DIR_SEAL_REQUEST__INIT;
	q.dir = dir;
	return mc_call_status(c, &meta_type_dir_seal, &q.base);
}

int meta_client_dir_unseal(struct meta_call *c, uint64_t dir)
{
	Terrane__Meta__DirUnsealRequest q = TERRANE__META__DIR_UNSEAL_REQUEST__INIT;
	q.dir = dir;
	return mc_call_status(c, &meta_type_dir_unseal, &q.base);
}

int meta_client_dir_quota_set(struct meta_call *c, uint64_t parent,
			      const struct meta_dir_quota *want, bool *counted)
{
	Terrane__Meta__DirQuotaSetRequest q = TERRANE__META__DIR_QUOTA_SET_REQUEST__INIT;
	q.parent = parent;
	q.dir = want->dir;
	q.path = (char *)want->path;
	q.bytes_max = want->bytes_max;
	q.files_max = want->files_max;
	q.clear = want->bytes_max == 0 && want->files_max == 0;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_dir_quota_set, &q.base, &reply);
	if (rc == 0)
		*counted = ((const Terrane__Meta__DirQuotaSetResponse *)reply.message)->counted;
	return rc;
}

static void dir_quota_from_wire(const Terrane__Meta__DirQuota *m, struct arena *a,
				struct meta_dir_quota *out)
{
	*out = (struct meta_dir_quota){.dir = m->dir,
				       .path = arena_strdup(a, m->path),
				       .bytes_max = m->bytes_max,
				       .files_max = m->files_max,
				       .tenant_files_max = m->tenant_files_max,
				       .used_bytes = m->used_bytes,
				       .used_files = m->used_files,
				       .counted_ns = m->counted_ns};
}

int64_t meta_client_dir_quota_list(struct meta_call *c, uint64_t dir, bool all, struct arena *a,
				   struct meta_dir_quota **out, struct meta_tenant *tenant)
{
	Terrane__Meta__DirQuotaListRequest q = TERRANE__META__DIR_QUOTA_LIST_REQUEST__INIT;
	q.dir = dir;
	q.all = all;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_dir_quota_list, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__DirQuotaListResponse *p = reply.message;
	rc = tenant_from_wire(p->tenant, tenant);
	if (rc < 0 || p->n_quotas > META_DIR_QUOTAS_MAX)
		return mc_response_error(c, -EINVAL);
	*out = arena_alloc(a, (p->n_quotas + 1) * sizeof(**out));
	for (size_t i = 0; *out != NULL && i < p->n_quotas; i++) {
		dir_quota_from_wire(p->quotas[i], a, &(*out)[i]);
		if ((*out)[i].path == NULL)
			return -ENOMEM;
	}
	return *out == NULL ? -ENOMEM : (int64_t)p->n_quotas;
}

int meta_client_du(struct meta_call *c, uint64_t dir, bool refresh, struct meta_usage *out)
{
	Terrane__Meta__DuRequest q = TERRANE__META__DU_REQUEST__INIT;
	q.dir = dir;
	q.refresh = refresh;
	AUTO_REPLY struct rpc_reply reply;
	int rc = mc_call(c, &meta_type_du, &q.base, &reply);
	if (rc < 0)
		return rc;
	const Terrane__Meta__DuResponse *p = reply.message;
	*out = (struct meta_usage){
		.files = p->files, .dirs = p->dirs, .bytes = p->bytes, .taken_ns = p->taken_ns};
	return 0;
}
