// SPDX-License-Identifier: Apache-2.0
/* Charging the quotas of directories; quota.h has the theory. */
#include "meta/quota.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/bug.h"
#include "rt/rt.h"

#define LEVELS_MAX 4096 /* largest number of levels between a directory and the root */

/* --- which directories have quotas -------------------------------------------------------------- */

/* What a process knows of a tenant. */
struct quota_list {
	uint64_t read_ns;
	size_t count;
	uint64_t dirs[];
};

struct quotas {
	pthread_mutex_t lock; /* guards all; innermost, held over no wait */
	struct map by_tenant; /* tenant -> struct quota_list */
};

int quotas_open(struct quotas **out)
{
	struct quotas *q = calloc(1, sizeof(*q));
	*out = q;
	if (q == NULL)
		return -ENOMEM;
	pthread_mutex_init(&q->lock, NULL);
	map_init(&q->by_tenant, META_ACCOUNTS_MAX);
	return 0;
}

void quotas_close(struct quotas *q)
{
	if (q == NULL)
		return;
	map_for_each(&q->by_tenant, it)
		free(it.value);
	map_fini(&q->by_tenant);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

void quota_dirs_forget(struct meta *m, uint32_t tenant)
{
	pthread_mutex_lock(&m->quotas->lock);
	free(map_remove(&m->quotas->by_tenant, tenant));
	pthread_mutex_unlock(&m->quotas->lock);
}

/* Keeps a list, unless there is no memory for it. */
static void list_keep(struct meta *m, uint32_t tenant, uint64_t read_ns, const uint64_t *dirs,
		      size_t n)
{
	struct quota_list *l = malloc(sizeof(*l) + n * sizeof(l->dirs[0]));
	if (l == NULL)
		return;
	assert(n <= META_DIR_QUOTAS_MAX);
	l->read_ns = read_ns;
	l->count = n;
	for (size_t i = 0; i < n; i++)
		l->dirs[i] = dirs[i];
	pthread_mutex_lock(&m->quotas->lock);
	free(map_remove(&m->quotas->by_tenant, tenant));
	if (map_put(&m->quotas->by_tenant, tenant, l) != 0)
		free(l);
	pthread_mutex_unlock(&m->quotas->lock);
}

/* Copies the list if it is fresh. Returns false if it is not, or if there is no memory. */
static bool list_known(struct meta *m, uint32_t tenant, struct arena *a, uint64_t **dirs, size_t *n)
{
	pthread_mutex_lock(&m->quotas->lock);
	const struct quota_list *l = map_get(&m->quotas->by_tenant, tenant);
	bool fresh = l != NULL && rt_now_ns() - l->read_ns < META_DIR_QUOTA_TTL_NS;
	*n = fresh ? l->count : 0;
	*dirs = *n > 0 ? arena_alloc(a, *n * sizeof(**dirs)) : NULL;
	fresh = fresh && (*n == 0 || *dirs != NULL);
	for (size_t i = 0; fresh && i < *n; i++)
		(*dirs)[i] = l->dirs[i];
	pthread_mutex_unlock(&m->quotas->lock);
	return fresh;
}

int quota_dirs(struct meta *m, uint32_t tenant, struct arena *a, uint64_t **dirs, size_t *n)
{
	if (list_known(m, tenant, a, dirs, n))
		return 0;
	uint64_t read_ns = rt_now_ns();
	struct schema_key prefix = key_tenant(KEY_DIR_QUOTA, tenant);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_range range = {.prefix = key_bytes(&prefix), .rows_max = META_DIR_QUOTAS_MAX};
	int rc = kv_scan(m->kv, part_account(m, tenant), &range, &rows);
	if (rc != 0)
		return rc;
	*dirs = arena_alloc(a, (rows.count + 1) * sizeof(**dirs));
	if (*dirs == NULL)
		return -ENOMEM;
	*n = 0;
	for (size_t i = 0; i < rows.count; i++) {
		uint32_t of;
		if (!key_read_id(rows.row[i].key, &of, &(*dirs)[*n]))
			return -EBADMSG;
		*n += 1;
	}
	list_keep(m, tenant, read_ns, *dirs, *n);
	return 0;
}

/* --- sums --------------------------------------------------------------------------------------- */

int64_t quota_sum(int64_t a, int64_t b)
{
	assert(a <= QUOTA_SUM_MAX && a >= -QUOTA_SUM_MAX && b <= QUOTA_SUM_MAX &&
	       b >= -QUOTA_SUM_MAX);
	int64_t sum = a + b;
	return sum > QUOTA_SUM_MAX ? QUOTA_SUM_MAX : sum < -QUOTA_SUM_MAX ? -QUOTA_SUM_MAX : sum;
}

static uint64_t used(uint64_t counted, int64_t before, int64_t since)
{
	int64_t sum = quota_sum(quota_sum((int64_t)counted, before), since);
	return sum > 0 ? (uint64_t)sum : 0;
}

uint64_t quota_used_bytes(const rec_dir_quota *q)
{
	return used(q->counted_bytes, q->before_bytes, q->since_bytes);
}

uint64_t quota_used_files(const rec_dir_quota *q)
{
	return used(q->counted_files, q->before_files, q->since_files);
}

/* --- the directories above an operation ----------------------------------------------------------- */

/* Why an operation concerns a quota. */
enum quota_side {
	QUOTA_INTO,   /* it adds names below the directory */
	QUOTA_INSIDE, /* it moves names below the directory */
	QUOTA_OUT_OF, /* it takes names away */
};

struct quota_place {
	uint64_t dir;
	uint64_t turn; /* of the ledger when the operation looked at it */
	enum quota_side side;
	bool there;   /* the ledger exists */
	bool charged; /* the operation has added to it */
};

static bool has(const uint64_t *dirs, size_t n, uint64_t dir)
{
	for (size_t i = 0; i < n; i++)
		if (dirs[i] == dir)
			return true;
	return false;
}

static void add_place(struct quota_op *op, uint64_t dir, enum quota_side side)
{
	for (size_t i = 0; i < op->count; i++) {
		if (op->places[i].dir != dir)
			continue;
		op->places[i].side = QUOTA_INSIDE;
		return;
	}
	assert(op->count < META_DIR_QUOTAS_MAX);
	op->places[op->count++] = (struct quota_place){.dir = dir, .side = side};
}

/* Adds the quotas at and above a directory. A directory that is being moved is where its record says. */
static int add_places(struct meta *m, uint32_t tenant, struct quota_op *op, uint64_t dir,
		      enum quota_side side, const struct quota_list *all)
{
	bool root = has(all->dirs, all->count, META_ROOT);
	bool only_root = root && all->count == 1;
	for (unsigned level = 0; level < LEVELS_MAX && dir > META_ROOT && !only_root; level++) {
		AUTO_ARENA struct arena a;
		arena_init(&a, MIB);
		struct kv_bytes raw;
		rec_dir *d;
		if (has(all->dirs, all->count, dir))
			add_place(op, dir, side);
		int rc = dir_read(m, tenant, dir, &a, &raw, &d);
		if (rc != 0)
			return rc;
		if (d == NULL)
			return 0; /* the operation will find that, too */
		dir = d->parent;
	}
	if (root)
		add_place(op, META_ROOT, side);
	return 0;
}

static int find_places(struct meta *m, uint32_t tenant, struct quota_op *op, struct arena *a)
{
	uint64_t *dirs;
	size_t n;
	op->count = 0;
	int rc = quota_dirs(m, tenant, a, &dirs, &n);
	if (rc != 0 || n == 0)
		return rc;
	struct quota_list *all = arena_alloc(a, sizeof(*all) + n * sizeof(all->dirs[0]));
	op->places = arena_alloc(a, META_DIR_QUOTAS_MAX * sizeof(op->places[0]));
	if (all == NULL || op->places == NULL)
		return -ENOMEM;
	all->count = n;
	memcpy(all->dirs, dirs, n * sizeof(dirs[0]));
	if (op->to != 0)
		rc = add_places(m, tenant, op, op->to, QUOTA_INTO, all);
	if (rc == 0 && op->from != 0)
		rc = add_places(m, tenant, op, op->from, QUOTA_OUT_OF, all);
	return rc;
}

/* --- charging ------------------------------------------------------------------------------------- */

static void tell_over(const struct meta_ctx *ctx, const struct quota_place *p,
		      const rec_dir_quota *q, const struct meta_over *what)
{
	if (ctx->over == NULL)
		return;
	*ctx->over = *what;
	ctx->over->dir = p->dir;
	snprintf(ctx->over->path, sizeof(ctx->over->path), "%s", q->path);
}

static bool beyond(uint64_t used, uint64_t add, uint64_t max)
{
	return max > 0 && add > 0 && (add > max || used > max - add);
}

/* Checks that a ledger has room for an operation. -EDQUOT. */
static int check_room(const struct meta_ctx *ctx, const struct quota_op *op,
		      const struct quota_place *p, const rec_dir_quota *q)
{
	uint64_t bytes = min_u64(op->bytes, QUOTA_SUM_MAX) + min_u64(op->room_bytes, QUOTA_SUM_MAX);
	const struct meta_over all[] = {
		{.used = quota_used_bytes(q), .max = q->bytes_max, .wanted = bytes},
		{.used = quota_used_files(q),
		 .max = q->files_max,
		 .wanted = op->files,
		 .files = true},
		{.used = quota_used_files(q),
		 .max = q->tenant_files_max,
		 .wanted = op->files,
		 .files = true,
		 .of_tenant = true},
	};
	if (op->anyway || q->counted_ns == 0 || bug_planted(BUG_DIR_QUOTA_IGNORED))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (!beyond(all[i].used, all[i].wanted, all[i].max))
			continue;
		tell_over(ctx, p, q, &all[i]);
		return -EDQUOT;
	}
	return 0;
}

static void add_to(rec_dir_quota *q, const struct quota_op *op)
{
	q->since_bytes = quota_sum(q->since_bytes, (int64_t)min_u64(op->bytes, QUOTA_SUM_MAX));
	q->since_files = quota_sum(q->since_files, (int64_t)min_u64(op->files, QUOTA_SUM_MAX));
	q->changes++;
}

/* Reads the ledgers of an operation; rows[i] is that of place i. */
static int read_ledgers(struct meta *m, uint32_t tenant, const struct quota_op *op, struct arena *a,
			struct kv_bytes *raw, rec_dir_quota **recs)
{
	struct schema_key *keys = arena_alloc(a, op->count * sizeof(*keys));
	struct kv_bytes *list = arena_alloc(a, op->count * sizeof(*list));
	if (keys == NULL || list == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < op->count; i++) {
		keys[i] = key_id(KEY_DIR_QUOTA, tenant, op->places[i].dir);
		list[i] = key_bytes(&keys[i]);
	}
	AUTO_KV_ROWS struct kv_rows rows = {0};
	int rc = kv_get(m->kv, part_account(m, tenant), list, op->count, &rows);
	for (size_t i = 0; i < op->count && rc == 0; i++) {
		recs[i] = NULL;
		raw[i] = (struct kv_bytes){0};
		if (!rows.row[i].found)
			continue;
		rc = arena_copy(a, rows.row[i].value, &raw[i]);
		if (rc == 0)
			rc = rec_read_dir_quota(a, raw[i], &recs[i]);
	}
	return rc;
}

/* Charges one ledger in memory. */
static int charge_place(const struct meta_ctx *ctx, const struct quota_op *op,
			struct quota_place *p, rec_dir_quota *q)
{
	int rc = 0;
	p->there = q != NULL;
	p->charged = false;
	if (q == NULL)
		return 0;
	p->turn = q->turn;
	if (p->side == QUOTA_INTO)
		rc = check_room(ctx, op, p, q);
	bool moves = op->from != 0 && op->to != 0;
	if (moves && bug_planted(BUG_MOVE_UNPAID))
		return rc;
	/* Q3 */
	p->charged = (op->bytes > 0 || op->files > 0) &&
		     (p->side == QUOTA_INTO || (p->side == QUOTA_INSIDE && q->state != QUOTA_IDLE));
	if (p->charged)
		add_to(q, op);
	return rc;
}

static int begin_once(struct meta *m, const struct meta_ctx *ctx, struct quota_op *op)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct kv_bytes *raw = arena_alloc(&a, op->count * sizeof(*raw));
	rec_dir_quota **recs = arena_alloc(&a, op->count * sizeof(rec_dir_quota *));
	if (raw == NULL || recs == NULL)
		return -ENOMEM;
	int rc = read_ledgers(m, ctx->tenant, op, &a, raw, recs);
	struct txn t;
	txn_init(&t, &a);
	t.early = true; /* Q1 */
	for (size_t i = 0; i < op->count && rc == 0; i++) {
		struct quota_place *p = &op->places[i];
		struct schema_key key = key_id(KEY_DIR_QUOTA, ctx->tenant, p->dir);
		rc = charge_place(ctx, op, p, recs[i]);
		if (rc == 0 && p->charged) {
			txn_equals(&t, key, raw[i]);
			txn_put(&t, key, &recs[i]->base);
		}
	}
	return rc != 0 || t.write_count == 0 ? rc
					     : txn_run(m, &t, part_account(m, ctx->tenant), NULL);
}

int quota_begin(struct meta *m, const struct meta_ctx *ctx, struct quota_op *op, struct arena *a)
{
	struct account_turn *turn = NULL;
	int rc = find_places(m, ctx->tenant, op, a);
	if (rc != 0 || op->count == 0)
		return rc;
	rc = account_begin(m, ctx->tenant, &turn);
	for (unsigned try = 0; rc == 0; try++) {
		rc = begin_once(m, ctx, op);
		if (rc != -ESTALE)
			break;
		rc = meta_back_off(m, try);
	}
	account_end(turn);
	if (rc != 0)
		op->count = 0; /* if the charge is in doubt, it stays until the next count */
	return rc;
}

int quota_moving(struct meta *m, const struct meta_ctx *ctx, const rec_entry *e,
		 struct quota_op *op, struct arena *a)
{
	uint64_t *dirs;
	size_t n;
	int rc = quota_dirs(m, ctx->tenant, a, &dirs, &n);
	op->files = 1;
	op->bytes = e->size;
	if (rc != 0 || n == 0)
		return rc;
	if (e->kind == META_DIR) {
		struct meta_usage u;
		rc = meta_du(m, ctx, e->id, &u);
		if (rc == 0 && u.taken_ns == 0 && op->from != op->to)
			rc = meta_du_refresh(m, ctx, e->id);
		if (rc == 0 && u.taken_ns == 0)
			rc = meta_du(m, ctx, e->id, &u);
		if (rc != 0)
			return rc == -ENOENT ? META_RETRY : rc; /* it was removed */
		op->files = 1 + u.files + u.dirs;
		op->bytes = u.bytes;
	}
	return quota_begin(m, ctx, op, a);
}

/* --- giving back ------------------------------------------------------------------------------------ */

/* What one ledger gets back. */
struct giving {
	uint64_t turn;
	int64_t bytes, files;
	bool undo; /* a charge: the names that it was for were never stored, so a walk has not seen them */
};

static int give(rec_dir_quota *q, void *arg)
{
	const struct giving *g = arg;
	if (q->turn != g->turn || (q->state == QUOTA_WALKING && !g->undo))
		return META_DONE; /* Q2 */
	if (q->state == QUOTA_WAITING && !g->undo) {
		q->before_bytes = quota_sum(q->before_bytes, -g->bytes);
		q->before_files = quota_sum(q->before_files, -g->files);
	} else {
		q->since_bytes = quota_sum(q->since_bytes, -g->bytes);
		q->since_files = quota_sum(q->since_files, -g->files);
	}
	return 0;
}

/* Errors are harmless: what is not given back counts until the next walk ends. */
static void give_back(struct meta *m, const struct meta_ctx *ctx, const struct quota_op *op,
		      struct giving *g)
{
	rt_shield_enter(); /* also if the deadline of the request has passed */
	for (size_t i = 0; i < op->count; i++) {
		const struct quota_place *p = &op->places[i];
		bool wanted = g->undo ? p->charged : p->there && p->side == QUOTA_OUT_OF;
		g->turn = p->turn;
		if (wanted && (g->bytes > 0 || g->files > 0))
			(void)quota_change(m, ctx->tenant, p->dir, give, g);
	}
	rt_shield_leave();
}

void quota_undo(struct meta *m, const struct meta_ctx *ctx, const struct quota_op *op,
		uint64_t bytes, uint64_t files)
{
	struct giving g = {.bytes = (int64_t)min_u64(bytes, QUOTA_SUM_MAX),
			   .files = (int64_t)min_u64(files, QUOTA_SUM_MAX),
			   .undo = true};
	give_back(m, ctx, op, &g);
}

void quota_end(struct meta *m, const struct meta_ctx *ctx, struct quota_op *op, int rc)
{
	struct giving g = {.bytes = (int64_t)min_u64(op->bytes, QUOTA_SUM_MAX),
			   .files = (int64_t)min_u64(op->files, QUOTA_SUM_MAX)};
	if (op->count == 0)
		return;
	if (rc == 0)
		give_back(m, ctx, op, &g);
	else if (!kv_unknown(rc))
		quota_undo(m, ctx, op, op->bytes, op->files);
	op->count = 0;
}

/* --- one ledger ------------------------------------------------------------------------------------- */

static int change_once(struct meta *m, uint32_t tenant, uint64_t dir, quota_fn *fn, void *arg)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct schema_key key = key_id(KEY_DIR_QUOTA, tenant, dir);
	struct reads r;
	rec_dir_quota *q;
	int rc = meta_read(m, part_account(m, tenant), &key, 1, &a, &r);
	if (rc == 0 && r.value[0].data == NULL)
		rc = -ENOENT;
	if (rc == 0)
		rc = rec_read_dir_quota(&a, r.value[0], &q);
	if (rc == 0)
		rc = fn(q, arg);
	if (rc != 0)
		return rc;
	q->changes++;
	struct txn t;
	txn_init(&t, &a);
	t.early = true;
	txn_equals(&t, key, r.value[0]);
	txn_put(&t, key, &q->base);
	return txn_run(m, &t, part_account(m, tenant), NULL);
}

int quota_change(struct meta *m, uint32_t tenant, uint64_t dir, quota_fn *fn, void *arg)
{
	struct account_turn *turn = NULL;
	int rc = account_begin(m, tenant, &turn);
	for (unsigned try = 0; rc == 0; try++) {
		rc = change_once(m, tenant, dir, fn, arg);
		if (rc != -ESTALE)
			break;
		rc = meta_back_off(m, try);
	}
	account_end(turn);
	return rc == META_DONE ? 0 : rc;
}
