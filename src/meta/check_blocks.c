// SPDX-License-Identifier: Apache-2.0
/*
 * The part of meta_check that compares blocks with their owners, their rows in the reverse index, and the accounts of
 * the tenants.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "meta/block.h"
#include "meta/check_impl.h"

/* The account of a tenant, and the account that the tenant's blocks and notes add up to. */
struct account_sum {
	int64_t expected_bytes;
	uint64_t used_bytes; /* of the stored account */
	bool stored;         /* the account record exists */
};

static int account_of(struct check *c, uint32_t tenant, struct account_sum **out)
{
	*out = map_get(&c->accounts, tenant);
	if (*out != NULL)
		return 0;
	*out = calloc(1, sizeof(**out));
	if (*out == NULL)
		return -ENOMEM;
	return map_put(&c->accounts, tenant, *out);
}

static int expect_bytes(struct check *c, uint32_t tenant, int64_t bytes)
{
	struct account_sum *d;
	int rc = account_of(c, tenant, &d);
	if (rc == 0)
		d->expected_bytes += bytes;
	return rc;
}

static int block_itself(struct check *c, uint64_t partition, uint32_t tenant, uint64_t block,
			const rec_block *b, struct arena *a)
{
	struct kv_bytes v;
	int rc = 0;
	c->out->blocks++;
	for (uint32_t i = 0; i < b->n_chunks && rc == 0; i++) {
		if (b->chunks[i]->disk == 0)
			continue;
		rc = check_read(c, partition, key_disk(b->chunks[i]->disk, tenant, block), a, &v);
		rec_on_disk *o = NULL;
		if (rc == 0 && v.data != NULL)
			rc = rec_read_on_disk(a, v, &o);
		if (rc == 0 && (o == NULL || o->index != i))
			check_error(
				c,
				"block %llx: chunk %u has no row in the reverse index of its disk",
				(unsigned long long)block, i);
	}
	struct kv_bytes pending = {0};
	struct kv_bytes alone = {0};
	bool owned = false;
	if (rc == 0)
		rc = check_read(c, partition, key_id(KEY_PENDING, tenant, block), a, &pending);
	if (rc == 0)
		rc = check_read(c, partition, key_id(KEY_SUSPECT, tenant, block), a, &alone);
	if (rc == 0)
		rc = meta_prefix_exists(c->m, partition, key_id(KEY_OWNER, tenant, block), &owned);
	if (rc != 0)
		return rc;
	if ((pending.data != NULL) != (b->state == META_BLOCK_PENDING))
		check_error(c, "block %llx: its state and its row of pending blocks disagree",
			    (unsigned long long)block);
	if (b->state != META_BLOCK_PENDING && !owned && alone.data == NULL)
		check_error(
			c,
			"block %llx has no owner and no mark, so the collector would never find it",
			(unsigned long long)block);
	return expect_bytes(c, tenant, (int64_t)b->charged);
}

static int owner_or_index(struct check *c, uint64_t partition, const struct kv_row *row,
			  struct arena *a)
{
	uint32_t tenant;
	uint64_t block;
	uint64_t other;
	bool index = key_kind(row->key) == KEY_ON_DISK;
	bool ok = index ? key_read_disk(row->key, &other, &tenant, &block)
			: key_read_ids(row->key, &tenant, &block, &other);
	struct kv_bytes v;
	rec_block *b = NULL;
	rec_on_disk *o = NULL;
	if (!ok)
		return -EBADMSG;
	int rc = check_read(c, partition, key_id(KEY_BLOCK, tenant, block), a, &v);
	if (rc == 0 && v.data != NULL)
		rc = rec_read_block(a, v, &b);
	if (rc == 0 && index)
		rc = rec_read_on_disk(a, row->value, &o);
	if (rc != 0)
		return rc;
	if (b == NULL)
		check_error(c, "%s of block %llx, which has no record",
			    index ? "a row of the reverse index" : "an owner row",
			    (unsigned long long)block);
	else if (index && (o->index >= b->n_chunks || b->chunks[o->index]->disk != other))
		check_error(c,
			    "the reverse index of disk %llx has a chunk of block %llx that the "
			    "block's record has elsewhere",
			    (unsigned long long)other, (unsigned long long)block);
	return 0;
}

int check_block_row(struct check *c, uint64_t partition, const struct kv_row *row, struct arena *a)
{
	uint32_t tenant;
	uint64_t block;
	uint64_t other;
	int rc;
	switch (key_kind(row->key)) {
	case KEY_BLOCK: {
		rec_block *b;
		if (!key_read_id(row->key, &tenant, &block))
			return -EBADMSG;
		rc = rec_read_block(a, row->value, &b);
		return rc == 0 ? block_itself(c, partition, tenant, block, b, a) : rc;
	}
	case KEY_OWNER:
	case KEY_ON_DISK:
		return owner_or_index(c, partition, row, a);
	case KEY_DEAD_CHUNKS: {
		rec_dead_chunks *z;
		c->out->garbage++;
		if (!key_read_ids(row->key, &tenant, &block, &other))
			return -EBADMSG;
		rc = rec_read_dead_chunks(a, row->value, &z);
		return rc == 0 ? expect_bytes(c, tenant, (int64_t)z->refund) : rc;
	}
	case KEY_REFUND: {
		rec_refund *v;
		c->out->garbage++;
		if (!key_read_ids(row->key, &tenant, &block, &other))
			return -EBADMSG;
		rc = rec_read_refund(a, row->value, &v);
		return rc == 0 ? expect_bytes(c, tenant, (int64_t)v->bytes) : rc;
	}
	case KEY_LEAVING:
	case KEY_PENDING:
	case KEY_SUSPECT:
		c->out->garbage++;
		return 0;
	default:
		return -EBADMSG;
	}
}

/* Adds the note of a charge or refund to the expected account. The account should have a charge with a note if no
 * record of the block has this charge, and a refund with a note if the row that caused the refund still exists. */
static int note_row(struct check *c, const struct kv_row *row, struct arena *a)
{
	uint32_t tenant;
	uint64_t block;
	uint64_t charge;
	rec_counted *note;
	if (!key_read_ids(row->key, &tenant, &block, &charge))
		return -EBADMSG;
	int rc = rec_read_counted(a, row->value, &note);
	if (rc != 0)
		return rc;
	c->out->garbage++;
	uint64_t partition = part_of(c->m, META_LAYER_BLOCK, tenant, block);
	bool refund = key_kind(row->key) == KEY_REFUNDED;
	struct kv_bytes raw;
	struct kv_bytes cause = {0};
	rec_block *b;
	bool paid = false;
	rc = block_read(c->m, tenant, block, a, &raw, &b);
	if (rc == 0)
		rc = check_read(c, partition, key_ids(KEY_REFUND, tenant, block, charge), a,
				&cause);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct schema_key prefix = key_id(KEY_DEAD_CHUNKS, tenant, block);
	struct kv_range range = {.prefix = key_bytes(&prefix)};
	if (rc == 0)
		rc = kv_scan(c->m->kv, partition, &range, &rows);
	for (size_t i = 0; i < rows.count && rc == 0; i++) {
		rec_dead_chunks *z;
		rc = rec_read_dead_chunks(a, rows.row[i].value, &z);
		paid = paid || (rc == 0 && z->charge == charge && z->refund > 0);
	}
	if (rc != 0)
		return rc;
	if (refund)
		return cause.data != NULL || paid || (b != NULL && b->charge == charge)
			       ? expect_bytes(c, tenant, -(int64_t)note->bytes)
			       : 0;
	return paid || (b != NULL && b->charge == charge)
		       ? 0
		       : expect_bytes(c, tenant, (int64_t)note->bytes);
}

static int quota_row(const struct kv_row *row, struct arena *a)
{
	uint32_t tenant;
	uint64_t dir;
	rec_dir_quota *q;
	return key_read_id(row->key, &tenant, &dir) ? rec_read_dir_quota(a, row->value, &q)
						    : -EBADMSG;
}

int check_tenant_row(struct check *c, uint64_t partition, const struct kv_row *row, struct arena *a)
{
	(void)partition;
	enum key_kind kind = key_kind(row->key);
	if (kind == KEY_CHARGED || kind == KEY_REFUNDED)
		return note_row(c, row, a);
	if (kind != KEY_ACCOUNT)
		return kind == KEY_DIR_QUOTA                           ? quota_row(row, a)
		       : kind == KEY_TENANT || kind == KEY_TENANT_NAME ? 0
								       : -EBADMSG;
	rec_account *q;
	struct account_sum *d;
	if (row->key.len != 5)
		return -EBADMSG;
	const uint8_t *k = (const uint8_t *)row->key.data + 1;
	uint32_t tenant = (uint32_t)k[0] << 24 | (uint32_t)k[1] << 16 | (uint32_t)k[2] << 8 | k[3];
	int rc = rec_read_account(a, row->value, &q);
	if (rc == 0)
		rc = account_of(c, tenant, &d);
	if (rc == 0) {
		d->used_bytes = q->used_bytes;
		d->stored = true;
	}
	return rc;
}

void check_accounts(struct check *c)
{
	map_for_each(&c->accounts, it) {
		const struct account_sum *d = it.value;
		if (d->stored ? (int64_t)d->used_bytes != d->expected_bytes
			      : d->expected_bytes != 0)
			check_error(c,
				    "tenant %llu: the account has %llu bytes used, its blocks "
				    "have %lld",
				    (unsigned long long)it.key, (unsigned long long)d->used_bytes,
				    (long long)d->expected_bytes);
	}
}
