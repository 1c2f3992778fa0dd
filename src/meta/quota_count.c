// SPDX-License-Identifier: Apache-2.0
/*
 * Counts of directories with quotas; quota.h has the steps. A pass over all tenants has one number: the ledgers that it
 * began have that number, and a count that another pass has begun since is not ended by this one.
 */
#include <assert.h>
#include <errno.h>

#include "base/arena.h"
#include "meta/gc.h"
#include "meta/quota.h"
#include "rt/rt.h"

struct counting {
	uint64_t pass;
	const struct meta_usage *usage;
};

static int to_waiting(rec_dir_quota *q, void *arg)
{
	const struct counting *c = arg;
	q->before_bytes = quota_sum(q->before_bytes, q->since_bytes);
	q->before_files = quota_sum(q->before_files, q->since_files);
	q->since_bytes = q->since_files = 0;
	q->state = QUOTA_WAITING;
	q->pass = c->pass;
	q->turn++;
	return 0;
}

static int to_walking(rec_dir_quota *q, void *arg)
{
	const struct counting *c = arg;
	if (q->pass != c->pass || q->state != QUOTA_WAITING)
		return META_DONE;
	q->state = QUOTA_WALKING;
	q->turn++;
	return 0;
}

static int to_idle(rec_dir_quota *q, void *arg)
{
	const struct counting *c = arg;
	if (q->pass != c->pass || q->state != QUOTA_WALKING)
		return META_DONE;
	q->counted_bytes = min_u64(c->usage->bytes, QUOTA_SUM_MAX);
	q->counted_files = min_u64(c->usage->files + c->usage->dirs, QUOTA_SUM_MAX);
	q->counted_ns = rt_wall_ns();
	q->before_bytes = q->before_files = 0;
	q->state = QUOTA_IDLE;
	q->turn++;
	return 0;
}

/* Deletes the quota of a directory that was removed. */
static int drop_if_gone(struct meta *m, const struct meta_ctx *ctx, uint64_t dir, bool *gone)
{
	struct meta_dir d;
	int rc = meta_dir_get(m, ctx, dir, &d);
	*gone = rc == -ENOENT;
	if (!*gone)
		return rc;
	rc = meta_dir_quota_clear(m, ctx, dir);
	return rc == -ENOENT ? 0 : rc;
}

int64_t meta_dir_quota_begin(struct meta *m, const struct meta_ctx *ctx, uint64_t pass)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct counting c = {.pass = pass};
	uint64_t *dirs;
	size_t n;
	int64_t begun = 0;
	assert(pass != 0);
	quota_dirs_forget(m, ctx->tenant);
	int rc = quota_dirs(m, ctx->tenant, &a, &dirs, &n);
	for (size_t i = 0; i < n && rc == 0; i++) {
		bool gone = false;
		rc = drop_if_gone(m, ctx, dirs[i], &gone);
		if (rc == 0 && !gone)
			rc = quota_change(m, ctx->tenant, dirs[i], to_waiting, &c);
		begun += rc == 0 && !gone;
		rc = rc == -ENOENT ? 0 : rc;
	}
	return rc != 0 ? rc : begun;
}

int quota_counted(struct meta *m, uint32_t tenant, uint64_t dir, uint64_t pass,
		  const struct meta_usage *u)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct counting c = {.pass = pass, .usage = u};
	uint64_t *dirs;
	size_t n;
	bool ours = false;
	int rc = quota_dirs(m, tenant, &a, &dirs, &n);
	for (size_t i = 0; i < n && rc == 0; i++)
		ours = ours || dirs[i] == dir;
	if (rc == 0 && ours)
		rc = quota_change(m, tenant, dir, to_idle, &c);
	return rc == -ENOENT ? 0 : rc;
}

int meta_du_count(struct meta *m, const struct meta_ctx *ctx, uint64_t pass)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct counting c = {.pass = pass};
	uint64_t *dirs;
	size_t n;
	int rc = quota_dirs(m, ctx->tenant, &a, &dirs, &n);
	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = quota_change(m, ctx->tenant, dirs[i], to_walking, &c);
		rc = rc == -ENOENT ? 0 : rc;
	}
	return rc != 0 ? rc : du_walk(m, ctx, META_ROOT, pass);
}

int meta_dir_quota_count(struct meta *m, const struct meta_ctx *ctx, uint64_t dir)
{
	struct counting c = {.pass = rt_random_u64() | 1};
	int rc = quota_change(m, ctx->tenant, dir, to_waiting, &c);
	if (rc == 0)
		rc = quota_change(m, ctx->tenant, dir, to_walking, &c);
	return rc != 0 ? rc : du_walk(m, ctx, dir, c.pass);
}
