// SPDX-License-Identifier: Apache-2.0
/*
 * Tenants and their quota.
 *
 * The account of a tenant is one record, and the blocks that it counts are in other partitions, so charging a
 * block has two steps. Each charge and each refund has a random number (charge). The account changes in one transaction
 * with a note (Counted) of that number, so the account has each charge and refund once, however often the request is
 * sent. The note is deleted once the block record has the charge, or the row that caused the refund is deleted.
 *
 *   commit:  account + charge note  ->  block record with the charge's number  ->  charge note deleted
 *   refund:  Refund or DeadChunks row of the block  ->  account + refund note  ->  that row deleted
 *            ->  refund note deleted
 *   release: the collector refunds a block before it is deleted, when all its owners are being removed (gc_leave.c):
 *            account + refund note, with the bytes as waiting  ->  when the chunks are deleted: no longer waiting
 *
 * After a crash between two steps the collector reads the note and the block: a charge that no block record
 * has is taken back (META_GC_ACCOUNTS). A refund note stays for a grace period after its cause was deleted, so
 * that a worker that read the cause before cannot count it again.
 *
 * So used_bytes is never less than the charges of committed blocks, and equal to them when no request is
 * running and the notes are collected.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/bug.h"
#include "meta/quota.h"
#include "rt/queue.h"
#include "rt/rt.h"

static uint64_t part_registry(const struct meta *m)
{
	return part_of(m, META_LAYER_TENANT, 0, 0);
}

/* --- accounts --------------------------------------------------------------------------------- */

#define SETTLED_MAX 32

/* An account, whose changes by this process are serialised: concurrent transactions on the account would refuse each
 * other. */
struct account_turn {
	struct rt_budget turn; /* of 1: its holder may change the account; on any loop */
	/* Keys of charge notes that are no longer needed; the next change of the account deletes them. */
	struct schema_key settled[SETTLED_MAX];
	size_t settled_count;
};

struct accounts {
	pthread_mutex_t lock; /* guards by_tenant and the settled notes; innermost */
	struct map by_tenant; /* tenant -> struct account_turn */
};

int accounts_open(struct accounts **out)
{
	struct accounts *a = calloc(1, sizeof(*a));
	*out = a;
	if (a == NULL)
		return -ENOMEM;
	pthread_mutex_init(&a->lock, NULL);
	map_init(&a->by_tenant, META_ACCOUNTS_MAX);
	return 0;
}

void accounts_close(struct accounts *a)
{
	if (a == NULL)
		return;
	map_for_each(&a->by_tenant, it) {
		struct account_turn *t = it.value;
		assert(rt_budget_used(&t->turn) == 0);
		rt_budget_fini(&t->turn);
		free(t);
	}
	map_fini(&a->by_tenant);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

/* Returns the account, under the lock. NULL: errno tells why. */
static struct account_turn *account_at(struct accounts *a, uint32_t tenant)
{
	struct account_turn *t = map_get(&a->by_tenant, tenant);
	if (t != NULL)
		return t;
	t = calloc(1, sizeof(*t));
	int rc = t == NULL ? -ENOMEM : map_put(&a->by_tenant, tenant, t);
	if (rc != 0) {
		free(t);
		errno = -rc;
		return NULL;
	}
	rt_budget_init(&t->turn, 1, false);
	return t;
}

int account_begin(struct meta *m, uint32_t tenant, struct account_turn **out)
{
	struct accounts *a = m->accounts;
	pthread_mutex_lock(&a->lock);
	struct account_turn *t = account_at(a, tenant);
	int rc = t != NULL || errno == ENOSPC ? 0 : -errno;
	pthread_mutex_unlock(&a->lock);
	if (t != NULL)
		rc = rt_budget_take(&t->turn, 1, NULL, NULL);
	*out = rc == 0 ? t : NULL;
	return rc;
}

void account_end(struct account_turn *t)
{
	if (t != NULL)
		rt_budget_give(&t->turn, 1);
}

void account_settled(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge)
{
	struct accounts *a = m->accounts;
	pthread_mutex_lock(&a->lock);
	struct account_turn *t = map_get(&a->by_tenant, tenant);
	/* If the list is full, the key is not added, and the collector deletes the charge note later. */
	if (t != NULL && t->settled_count < SETTLED_MAX)
		t->settled[t->settled_count++] = key_ids(KEY_CHARGED, tenant, block, charge);
	pthread_mutex_unlock(&a->lock);
}

/* Adds to txn the deletion of the settled notes. Returns their number. */
static size_t settled_delete(struct meta *m, const struct account_turn *t, struct txn *txn)
{
	pthread_mutex_lock(&m->accounts->lock);
	size_t n = t->settled_count;
	assert(n <= SETTLED_MAX);
	for (size_t i = 0; i < n; i++)
		txn_delete(txn, t->settled[i]);
	pthread_mutex_unlock(&m->accounts->lock);
	return n;
}

/* Removes the first n settled notes: they were deleted. Others may have been added while that transaction ran. */
static void settled_drop(struct meta *m, struct account_turn *t, size_t n)
{
	pthread_mutex_lock(&m->accounts->lock);
	assert(n <= t->settled_count);
	t->settled_count -= n;
	memmove(t->settled, t->settled + n, t->settled_count * sizeof(t->settled[0]));
	pthread_mutex_unlock(&m->accounts->lock);
}

enum change { CHARGE, CHARGE_ANYWAY, UNCHARGE, RELEASE, REFUND };

/* Changes the account in memory. For UNCHARGE, sets *bytes to the bytes of the note. META_DONE: the note shows that
 * the stored account has the change already. -EDQUOT. */
static int account_apply(enum change what, rec_account *q, const rec_counted *note, uint64_t *bytes)
{
	switch (what) {
	case CHARGE:
	case CHARGE_ANYWAY:
		if (note != NULL)
			return META_DONE;
		if (what == CHARGE && q->quota_bytes > 0 && !bug_planted(BUG_QUOTA_IGNORED) &&
		    (*bytes > q->quota_bytes || q->used_bytes > q->quota_bytes - *bytes))
			return -EDQUOT;
		q->used_bytes += *bytes;
		return 0;
	case UNCHARGE:
		if (note == NULL)
			return META_DONE;
		*bytes = note->bytes;
		break;
	case RELEASE:
		if (note != NULL)
			return META_DONE;
		q->waiting_bytes += *bytes;
		break;
	case REFUND:
		if (note == NULL)
			break;
		if (!note->waiting)
			return META_DONE;
		*bytes = note->bytes;
		q->waiting_bytes -= min_u64(q->waiting_bytes, *bytes);
		return 0;
	}
	if (what == UNCHARGE || !bug_planted(BUG_QUOTA_LEAK))
		q->used_bytes -= min_u64(q->used_bytes, *bytes);
	return 0;
}

/* Makes one attempt to change the account. -ESTALE: the account has changed since it was read. */
static int account_change_once(struct meta *m, uint32_t tenant, enum change what,
			       struct schema_key note_key, uint64_t bytes,
			       struct account_turn *turn)
{
	assert(turn == NULL || rt_budget_used(&turn->turn) == 1);
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct schema_key keys[2] = {key_tenant(KEY_ACCOUNT, tenant), note_key};
	struct reads r;
	rec_account *q;
	rec_counted *note = NULL;
	int rc = meta_read(m, part_account(m, tenant), keys, 2, &a, &r);
	if (rc == 0 && r.value[0].data == NULL)
		rc = -ENOENT;
	if (rc == 0)
		rc = rec_read_account(&a, r.value[0], &q);
	if (rc == 0 && r.value[1].data != NULL)
		rc = rec_read_counted(&a, r.value[1], &note);
	if (rc == 0)
		rc = account_apply(what, q, note, &bytes);
	if (rc != 0)
		return rc == META_DONE ? 0 : rc;
	q->changes++;
	rec_counted fresh = TERRANE__REC__COUNTED__INIT;
	fresh.bytes = bytes;
	fresh.waiting = what == RELEASE;
	struct txn t;
	txn_init(&t, &a);
	txn_equals(&t, keys[0], r.value[0]);
	txn_same(&t, keys[1], r.value[1]);
	/* The commit of the block follows a charge and makes it durable; without a commit the charge is taken back. */
	t.early = what == CHARGE || what == CHARGE_ANYWAY;
	txn_put(&t, keys[0], &q->base);
	if (what == UNCHARGE)
		txn_delete(&t, keys[1]);
	else
		txn_put(&t, keys[1], &fresh.base);
	size_t settled = turn != NULL ? settled_delete(m, turn, &t) : 0;
	rc = txn_run(m, &t, part_account(m, tenant), NULL);
	if (rc == 0 && settled > 0)
		settled_drop(m, turn, settled);
	return rc;
}

static int account_change(struct meta *m, uint32_t tenant, enum change what,
			  struct schema_key note_key, uint64_t bytes)
{
	struct account_turn *turn;
	int rc = account_begin(m, tenant, &turn);
	for (unsigned try = 0; rc == 0; try++) {
		rc = account_change_once(m, tenant, what, note_key, bytes, turn);
		if (rc != -ESTALE)
			break;
		rc = meta_back_off(m, try);
	}
	account_end(turn);
	return rc;
}

static int note_drop(struct meta *m, uint32_t tenant, struct schema_key key)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct txn t;
	txn_init(&t, &a);
	txn_delete(&t, key);
	return txn_run(m, &t, part_account(m, tenant), NULL);
}

int account_charge(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge, uint64_t bytes,
		   bool anyway)
{
	assert(tenant != 0 && charge != 0);
	assert(bytes <= META_BLOCK_MAX);
	return account_change(m, tenant, anyway ? CHARGE_ANYWAY : CHARGE,
			      key_ids(KEY_CHARGED, tenant, block, charge), bytes);
}

int account_charged(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge)
{
	return note_drop(m, tenant, key_ids(KEY_CHARGED, tenant, block, charge));
}

int account_uncharge(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge)
{
	return account_change(m, tenant, UNCHARGE, key_ids(KEY_CHARGED, tenant, block, charge), 0);
}

int account_release(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge,
		    uint64_t bytes)
{
	assert(tenant != 0 && charge != 0);
	return account_change(m, tenant, RELEASE, key_ids(KEY_REFUNDED, tenant, block, charge),
			      bytes);
}

int account_refund(struct meta *m, uint32_t tenant, uint64_t block, uint64_t charge, uint64_t bytes)
{
	return account_change(m, tenant, REFUND, key_ids(KEY_REFUNDED, tenant, block, charge),
			      bytes);
}

/* --- tenants ---------------------------------------------------------------------------------- */

static int tenant_check(const struct meta_tenant *t)
{
	if (t->id == 0 || memchr(t->name, 0, sizeof(t->name)) == NULL)
		return t->id == 0 ? -EINVAL : -ENAMETOOLONG;
	return schema_name_check(meta_name(t->name));
}

/* Stores a record unless the key has one already. */
static int put_first(struct meta *m, uint64_t partition, struct schema_key key,
		     const ProtobufCMessage *msg, struct arena *a)
{
	struct txn t;
	txn_init(&t, a);
	txn_absent(&t, key);
	txn_put(&t, key, msg);
	int rc = txn_run(m, &t, partition, NULL);
	return rc == -ESTALE ? 0 : rc;
}

static int registry_put(struct meta *m, const struct meta_tenant *t, struct arena *a)
{
	rec_tenant rec = TERRANE__REC__TENANT__INIT;
	rec.name = (char *)t->name;
	rec_tenant_name back = TERRANE__REC__TENANT_NAME__INIT;
	back.id = t->id;
	struct txn x;
	txn_init(&x, a);
	txn_absent(&x, key_tenant(KEY_TENANT, t->id));
	txn_absent(&x, key_text(KEY_TENANT_NAME, t->name));
	txn_put(&x, key_tenant(KEY_TENANT, t->id), &rec.base);
	txn_put(&x, key_text(KEY_TENANT_NAME, t->name), &back.base);
	return txn_run(m, &x, part_registry(m), NULL);
}

int meta_tenant_create(struct meta *m, const struct meta_tenant *t)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	int rc = tenant_check(t);
	if (rc != 0)
		return rc;
	struct meta_tenant there;
	rc = meta_tenant_get(m, t->id, &there);
	if (rc != -ENOENT)
		return rc != 0 ? rc : strcmp(there.name, t->name) == 0 ? 0 : -EEXIST;
	rec_account q = TERRANE__REC__ACCOUNT__INIT;
	q.quota_bytes = t->quota_bytes;
	rc = put_first(m, part_account(m, t->id), key_tenant(KEY_ACCOUNT, t->id), &q.base, &a);
	rec_dir d = TERRANE__REC__DIR__INIT;
	d.id = META_ROOT;
	d.created_ns = rt_wall_ns();
	if (rc == 0)
		rc = put_first(m, part_name(m, t->id, META_ROOT, SLICE_HOME),
			       key_slice(KEY_DIR, t->id, META_ROOT, SLICE_HOME), &d.base, &a);
	if (rc == 0)
		rc = registry_put(m, t, &a);
	if (rc != -ESTALE)
		return rc;
	rc = meta_tenant_get(m, t->id, &there);
	return rc == 0 && strcmp(there.name, t->name) == 0 ? 0
	       : rc == 0                                   ? -EEXIST
	       : rc == -ENOENT                             ? -EEXIST
							   : rc;
}

static int account_read(struct meta *m, uint32_t id, struct arena *a, struct kv_bytes *raw,
			rec_account **out)
{
	struct schema_key key = key_tenant(KEY_ACCOUNT, id);
	struct reads r;
	int rc = meta_read(m, part_account(m, id), &key, 1, a, &r);
	*raw = r.value[0];
	if (rc == 0 && raw->data == NULL)
		rc = -ENOENT;
	return rc == 0 ? rec_read_account(a, *raw, out) : rc;
}

int meta_tenant_get(struct meta *m, uint32_t id, struct meta_tenant *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct schema_key key = key_tenant(KEY_TENANT, id);
	struct reads r;
	rec_tenant *t;
	rec_account *q;
	struct kv_bytes raw;
	int rc = meta_read(m, part_registry(m), &key, 1, &a, &r);
	if (rc == 0 && r.value[0].data == NULL)
		rc = -ENOENT;
	if (rc == 0)
		rc = rec_read_tenant(&a, r.value[0], &t);
	if (rc == 0)
		rc = account_read(m, id, &a, &raw, &q);
	if (rc != 0)
		return rc;
	*out = (struct meta_tenant){.id = id,
				    .quota_bytes = q->quota_bytes,
				    .used_bytes = q->used_bytes,
				    .waiting_bytes = q->waiting_bytes};
	out->removed = t->removed;
	out->shares_content = t->shares_content;
	memcpy(out->name, t->name, strlen(t->name) + 1);
	return quota_tenant_files(m, id, &a, out);
}

int meta_tenant_find(struct meta *m, const char *name, struct meta_tenant *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	if (strlen(name) > META_TENANT_NAME_MAX || name[0] == '\0')
		return -ENOENT;
	struct schema_key key = key_text(KEY_TENANT_NAME, name);
	struct reads r;
	rec_tenant_name *back;
	int rc = meta_read(m, part_registry(m), &key, 1, &a, &r);
	if (rc == 0 && r.value[0].data == NULL)
		rc = -ENOENT;
	if (rc == 0)
		rc = rec_read_tenant_name(&a, r.value[0], &back);
	if (rc == 0)
		rc = meta_tenant_get(m, back->id, out);
	return rc == 0 && out->removed ? -ENOENT : rc;
}

int meta_tenant_set_quota(struct meta *m, uint32_t id, uint64_t quota_bytes)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	for (unsigned try = 0;; try++) {
		struct kv_bytes raw;
		rec_account *q;
		int rc = account_read(m, id, &a, &raw, &q);
		if (rc != 0)
			return rc;
		q->quota_bytes = quota_bytes;
		q->changes++;
		struct txn t;
		txn_init(&t, &a);
		txn_equals(&t, key_tenant(KEY_ACCOUNT, id), raw);
		txn_put(&t, key_tenant(KEY_ACCOUNT, id), &q->base);
		rc = txn_run(m, &t, part_account(m, id), NULL);
		if (rc != -ESTALE)
			return rc;
		rc = meta_back_off(m, try);
		if (rc != 0)
			return rc;
	}
}

/* Reads the record of a tenant in the registry. */
static int registry_read(struct meta *m, uint32_t id, struct arena *a, struct kv_bytes *raw,
			 rec_tenant **out)
{
	struct schema_key key = key_tenant(KEY_TENANT, id);
	struct reads r;
	int rc = meta_read(m, part_registry(m), &key, 1, a, &r);
	*raw = r.value[0];
	if (rc == 0 && raw->data == NULL)
		rc = -ENOENT;
	return rc == 0 ? rec_read_tenant(a, *raw, out) : rc;
}

/* Replaces the record that was read as raw. -EAGAIN: it has changed since. */
static int registry_replace(struct meta *m, uint32_t id, struct arena *a, struct kv_bytes raw,
			    const rec_tenant *rec)
{
	struct txn t;
	txn_init(&t, a);
	txn_equals(&t, key_tenant(KEY_TENANT, id), raw);
	txn_put(&t, key_tenant(KEY_TENANT, id), &rec->base);
	int rc = txn_run(m, &t, part_registry(m), NULL);
	return rc == -ESTALE ? -EAGAIN : rc;
}

/* Marks the record of a tenant as removed. */
static int registry_remove(struct meta *m, uint32_t id)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct kv_bytes raw;
	rec_tenant *rec;
	int rc = registry_read(m, id, &a, &raw, &rec);
	if (rc != 0 || rec->removed)
		return rc;
	rec->removed = true;
	return registry_replace(m, id, &a, raw, rec);
}

int meta_tenant_share(struct meta *m, uint32_t id, bool share)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct kv_bytes raw;
	rec_tenant *rec;
	int rc = registry_read(m, id, &a, &raw, &rec);
	if (rc == 0 && rec->removed)
		rc = -ENOENT;
	if (rc != 0 || (rec->shares_content != 0) == share)
		return rc;
	rec->shares_content = share;
	return registry_replace(m, id, &a, raw, rec);
}

/* While the root is sealed, nobody gives it a name, so a root that is empty then stays empty. */
int meta_tenant_remove(struct meta *m, uint32_t id)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	struct meta_ctx ctx = {.tenant = id};
	struct meta_tenant t;
	struct meta_cursor at = {0};
	size_t names = 0;
	int rc = id == 0 ? -ENOENT : meta_tenant_get(m, id, &t);
	if (rc != 0 || t.removed)
		return rc;
	rc = meta_dir_seal(m, &ctx, META_ROOT);
	while (rc == 0 && !at.end && names == 0) {
		struct meta_page page;
		arena_reset(&a, META_OP_BYTES);
		rc = meta_list(m, &ctx, META_ROOT, &at, 1, &a, &page);
		names = rc == 0 ? page.count : 0;
		at = rc == 0 ? page.next : at;
	}
	if (rc == 0 && names == 0)
		return registry_remove(m, id);
	int undone = meta_dir_unseal(m, &ctx, META_ROOT);
	return rc != 0 ? rc : undone != 0 ? undone : -ENOTEMPTY;
}

int64_t meta_tenant_list(struct meta *m, uint32_t after, struct meta_tenant *out, size_t max)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, META_OP_BYTES);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct schema_key prefix = key_text(KEY_TENANT, "");
	struct schema_key from = key_tenant(KEY_TENANT, after);
	struct kv_range range = {.prefix = key_bytes(&prefix),
				 .after = key_bytes(&from),
				 .rows_max = min_u64(max, KV_SCAN_ROWS_MAX)};
	if (max == 0)
		return -EINVAL;
	int rc = kv_scan(m->kv, part_registry(m), &range, &rows);
	for (size_t i = 0; i < rows.count && rc == 0; i++) {
		rec_tenant *t;
		if (rows.row[i].key.len != 5)
			return -EBADMSG;
		rc = rec_read_tenant(&a, rows.row[i].value, &t);
		if (rc != 0)
			break;
		const uint8_t *k = (const uint8_t *)rows.row[i].key.data + 1;
		out[i] = (struct meta_tenant){.id = (uint32_t)k[0] << 24 | (uint32_t)k[1] << 16 |
						    (uint32_t)k[2] << 8 | k[3]};
		out[i].removed = t->removed;
		out[i].shares_content = t->shares_content;
		memcpy(out[i].name, t->name, strlen(t->name) + 1);
	}
	return rc != 0 ? rc : (int64_t)rows.count;
}
