// SPDX-License-Identifier: Apache-2.0
/* Setting and reading the quotas of directories. */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "meta/quota.h"
#include "rt/rt.h"

static bool no_limits(const rec_dir_quota *q)
{
	return q->bytes_max == 0 && q->files_max == 0 && q->tenant_files_max == 0;
}

/* Refuses one more quota if the tenant has META_DIR_QUOTAS_MAX. Two requests at the same time may exceed that, for what
 * the limit is for: the memory of requests (a scan returns no more). */
static int room_for_one(struct meta *m, uint32_t tenant, struct arena *a)
{
	uint64_t *dirs;
	size_t n;
	quota_dirs_forget(m, tenant);
	int rc = quota_dirs(m, tenant, a, &dirs, &n);
	return rc == 0 && n >= META_DIR_QUOTAS_MAX ? -ENOSPC : rc;
}

/* Sets the limits of one side in a record. */
static void limits_set(rec_dir_quota *q, const struct meta_dir_quota *want, bool of_tenant)
{
	if (of_tenant) {
		q->tenant_files_max = want->tenant_files_max;
		return;
	}
	q->bytes_max = want->bytes_max;
	q->files_max = want->files_max;
	q->path = (char *)want->path;
}

static int set_once(struct meta *m, const struct meta_ctx *ctx, const struct meta_dir_quota *want,
		    bool of_tenant, bool *created)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct schema_key key = key_id(KEY_DIR_QUOTA, ctx->tenant, want->dir);
	struct reads r;
	rec_dir_quota fresh = TERRANE__REC__DIR_QUOTA__INIT, *q = &fresh;
	fresh.path = (char *)"/";
	int rc = meta_read(m, part_account(m, ctx->tenant), &key, 1, &a, &r);
	*created = rc == 0 && r.value[0].data == NULL;
	if (rc == 0 && !*created)
		rc = rec_read_dir_quota(&a, r.value[0], &q);
	if (rc != 0)
		return rc;
	limits_set(q, want, of_tenant);
	if (no_limits(q) && *created)
		return 0;
	if (*created)
		rc = room_for_one(m, ctx->tenant, &a);
	if (rc != 0)
		return rc;
	q->changes++;
	struct txn t;
	txn_init(&t, &a);
	txn_same(&t, key, r.value[0]);
	if (no_limits(q))
		txn_delete(&t, key);
	else
		txn_put(&t, key, &q->base);
	return txn_run(m, &t, part_account(m, ctx->tenant), NULL);
}

static int set_limits(struct meta *m, const struct meta_ctx *ctx, const struct meta_dir_quota *want,
		      bool of_tenant, bool *created)
{
	struct meta_dir d;
	if (want->dir < META_ROOT || want->path == NULL ||
	    strlen(want->path) > META_DIR_QUOTA_PATH_MAX)
		return -EINVAL;
	int rc = meta_dir_get(m, ctx, want->dir, &d);
	for (unsigned try = 0; rc == 0; try++) {
		rc = set_once(m, ctx, want, of_tenant, created);
		if (rc != -ESTALE)
			break;
		rc = meta_back_off(m, try);
	}
	quota_dirs_forget(m, ctx->tenant);
	return rc;
}

int meta_dir_quota_set(struct meta *m, const struct meta_ctx *ctx,
		       const struct meta_dir_quota *want, bool *created)
{
	return set_limits(m, ctx, want, false, created);
}

int meta_dir_quota_clear(struct meta *m, const struct meta_ctx *ctx, uint64_t dir)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct schema_key key = key_id(KEY_DIR_QUOTA, ctx->tenant, dir);
	int rc = 0;
	for (unsigned try = 0; rc == 0; try++) {
		struct reads r;
		rec_dir_quota *q = NULL;
		rc = meta_read(m, part_account(m, ctx->tenant), &key, 1, &a, &r);
		if (rc == 0 && r.value[0].data == NULL)
			rc = -ENOENT;
		if (rc == 0)
			rc = rec_read_dir_quota(&a, r.value[0], &q);
		if (rc != 0)
			break;
		q->bytes_max = q->files_max = 0;
		q->changes++;
		struct meta_dir d;
		bool gone = dir != META_ROOT && meta_dir_get(m, ctx, dir, &d) == -ENOENT;
		struct txn t;
		txn_init(&t, &a);
		txn_equals(&t, key, r.value[0]);
		if (no_limits(q) || gone)
			txn_delete(&t, key);
		else
			txn_put(&t, key, &q->base);
		rc = txn_run(m, &t, part_account(m, ctx->tenant), NULL);
		if (rc != -ESTALE)
			break;
		rc = meta_back_off(m, try);
	}
	quota_dirs_forget(m, ctx->tenant);
	return rc;
}

int meta_tenant_set_files(struct meta *m, uint32_t id, uint64_t files_max)
{
	struct meta_ctx ctx = {.tenant = id};
	bool created = false;
	int rc = set_limits(m, &ctx,
			    &(struct meta_dir_quota){
				    .dir = META_ROOT, .path = "/", .tenant_files_max = files_max},
			    true, &created);
	/* Until the tree was counted, by this or the periodic count, nothing is refused. */
	if (rc == 0 && created && files_max > 0)
		(void)meta_dir_quota_count(m, &ctx, META_ROOT);
	return rc;
}

/* --- reading ---------------------------------------------------------------------------------------- */

static int quota_get(const rec_dir_quota *q, uint64_t dir, struct arena *a,
		     struct meta_dir_quota *out)
{
	*out = (struct meta_dir_quota){.dir = dir,
				       .path = arena_strdup(a, q->path),
				       .bytes_max = q->bytes_max,
				       .files_max = q->files_max,
				       .tenant_files_max = q->tenant_files_max,
				       .used_bytes = quota_used_bytes(q),
				       .used_files = quota_used_files(q),
				       .counted_ns = q->counted_ns};
	return out->path == NULL ? -ENOMEM : 0;
}

int64_t meta_dir_quota_list(struct meta *m, const struct meta_ctx *ctx, struct arena *a,
			    struct meta_dir_quota **out)
{
	AUTO_ARENA struct arena scratch;
	arena_init(&scratch, META_OP_BYTES);
	struct schema_key prefix = key_tenant(KEY_DIR_QUOTA, ctx->tenant);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_range range = {.prefix = key_bytes(&prefix), .rows_max = META_DIR_QUOTAS_MAX};
	int rc = kv_scan(m->kv, part_account(m, ctx->tenant), &range, &rows);
	*out = arena_alloc(a, (rows.count + 1) * sizeof(**out));
	if (rc == 0 && *out == NULL)
		rc = -ENOMEM;
	for (size_t i = 0; i < rows.count && rc == 0; i++) {
		rec_dir_quota *q;
		uint32_t tenant;
		uint64_t dir;
		if (!key_read_id(rows.row[i].key, &tenant, &dir))
			return -EBADMSG;
		rc = rec_read_dir_quota(&scratch, rows.row[i].value, &q);
		if (rc == 0)
			rc = quota_get(q, dir, a, &(*out)[i]);
	}
	return rc != 0 ? rc : (int64_t)rows.count;
}

int64_t meta_dir_quota_above(struct meta *m, const struct meta_ctx *ctx, uint64_t dir,
			     struct arena *a, struct meta_dir_quota **out)
{
	int64_t n = meta_dir_quota_list(m, ctx, a, out), kept = 0;
	struct meta_dir_quota *all = *out;
	for (unsigned level = 0; n > 0 && level < META_DEPTH_MAX && dir != 0; level++) {
		struct meta_dir d;
		for (int64_t i = kept; i < n; i++) {
			if (all[i].dir != dir)
				continue;
			struct meta_dir_quota q = all[i];
			all[i] = all[kept];
			all[kept++] = q;
		}
		int rc = meta_dir_get(m, ctx, dir, &d);
		if (rc != 0)
			return rc;
		dir = d.parent;
	}
	return n < 0 ? n : kept;
}

int quota_tenant_files(struct meta *m, uint32_t id, struct arena *a, struct meta_tenant *out)
{
	struct schema_key key = key_id(KEY_DIR_QUOTA, id, META_ROOT);
	struct meta_usage u;
	struct reads r;
	rec_dir_quota *q;
	int rc = meta_read(m, part_account(m, id), &key, 1, a, &r);
	if (rc == 0 && r.value[0].data != NULL) {
		rc = rec_read_dir_quota(a, r.value[0], &q);
		if (rc == 0) {
			out->files_max = q->tenant_files_max;
			out->used_files = quota_used_files(q);
		}
		return rc;
	}
	if (rc == 0)
		rc = meta_du(m, &(struct meta_ctx){.tenant = id}, META_ROOT, &u);
	out->used_files = rc == 0 ? u.files + u.dirs : 0;
	return rc == -ENOENT ? 0 : rc;
}
