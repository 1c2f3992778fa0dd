// SPDX-License-Identifier: Apache-2.0
/* The part of every call that all engines share: checks of the limits, and the counters. */
#include "kv/kv.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "kv/rows.h"

int kv_compare(struct kv_bytes a, struct kv_bytes b)
{
	assert((a.len == 0 || a.data != NULL) && (b.len == 0 || b.data != NULL));
	size_t n = min_u64(a.len, b.len);
	int order = n > 0 ? memcmp(a.data, b.data, n) : 0;
	if (order != 0 || a.len == b.len)
		return order;
	return a.len < b.len ? -1 : 1;
}

bool kv_equal(struct kv_bytes a, struct kv_bytes b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

bool kv_has_prefix(struct kv_bytes key, struct kv_bytes prefix)
{
	return key.len >= prefix.len &&
	       (prefix.len == 0 || memcmp(key.data, prefix.data, prefix.len) == 0);
}

static int key_valid(struct kv_bytes key)
{
	assert(key.len == 0 || key.data != NULL);
	if (key.len == 0)
		return -EINVAL;
	return key.len > KV_KEY_MAX ? -EFBIG : 0;
}

static int check_valid(const struct kv_check *c, size_t *bytes)
{
	switch (c->kind) {
	case KV_VERSION:
		return c->key.len == 0 ? 0 : -EINVAL;
	case KV_EQUALS:
		*bytes += c->value.len;
		if (c->value.len > KV_VALUE_MAX)
			return -EFBIG;
		/* fallthrough */
	case KV_ABSENT:
	case KV_PRESENT:
		*bytes += c->key.len;
		return key_valid(c->key);
	}
	return -EINVAL;
}

static int write_valid(const struct kv_write *w, size_t *bytes)
{
	if (w->kind != KV_PUT && w->kind != KV_DELETE)
		return -EINVAL;
	*bytes += w->key.len;
	if (w->kind == KV_PUT) {
		*bytes += w->value.len;
		if (w->value.len > KV_VALUE_MAX)
			return -EFBIG;
	}
	return key_valid(w->key);
}

static int txn_valid(const struct kv_txn *t)
{
	if (t->check_count == 0 && t->write_count == 0)
		return -EINVAL;
	if (t->check_count > KV_TXN_ITEMS_MAX || t->write_count > KV_TXN_ITEMS_MAX - t->check_count)
		return -EFBIG;
	size_t bytes = 0;
	int rc = 0;
	for (size_t i = 0; i < t->check_count && rc == 0; i++)
		rc = check_valid(&t->checks[i], &bytes);
	for (size_t i = 0; i < t->write_count && rc == 0; i++)
		rc = write_valid(&t->writes[i], &bytes);
	if (rc == 0 && bytes > KV_TXN_BYTES_MAX)
		rc = -EFBIG;
	return rc;
}

int kv_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
	   struct kv_rows *rows)
{
	kv_rows_clear(rows);
	if (n == 0)
		return -EINVAL;
	if (n > KV_GET_KEYS_MAX)
		return -EFBIG;
	for (size_t i = 0; i < n; i++) {
		int rc = key_valid(keys[i]);
		if (rc != 0)
			return rc;
	}
	int rc = kv_rows_reserve(rows, n);
	if (rc != 0)
		return rc;
	kv->stats.gets++;
	rows->rows_kept = 0;
	rows->offloaded = 0;
	rc = kv->ops->get(kv, partition, keys, n, rows);
	assert(rc <= 0);
	assert(rc != 0 || rows->count == n);
	kv->stats.rows_kept += rows->rows_kept;
	kv->stats.reads_offloaded += rows->offloaded;
	if (rc != 0)
		kv_rows_clear(rows);
	return rc;
}

int kv_scan(struct kv *kv, uint64_t partition, const struct kv_range *range, struct kv_rows *rows)
{
	kv_rows_clear(rows);
	if (range->prefix.len > KV_KEY_MAX || range->after.len > KV_KEY_MAX ||
	    range->rows_max > KV_SCAN_ROWS_MAX || range->bytes_max > KV_SCAN_BYTES_MAX)
		return -EFBIG;
	struct kv_range r = *range;
	r.rows_max = r.rows_max != 0 ? r.rows_max : KV_SCAN_ROWS_MAX;
	r.bytes_max = r.bytes_max != 0 ? r.bytes_max : KV_SCAN_BYTES_MAX;
	kv->stats.scans++;
	int rc = kv->ops->scan(kv, partition, &r, rows);
	assert(rc <= 0);
	assert(rc != 0 || rows->count <= r.rows_max);
	if (rc != 0)
		kv_rows_clear(rows);
	return rc;
}

int kv_txn(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed)
{
	int rc = txn_valid(txn);
	if (rc != 0)
		return rc;
	size_t which = 0;
	kv->stats.txns++;
	rc = kv->ops->txn(kv, partition, txn, &which);
	assert(rc <= 0);
	assert(rc != -ESTALE || which < txn->check_count);
	if (rc == -ESTALE) {
		kv->stats.refused++;
		if (failed != NULL)
			*failed = which;
	} else if (kv_unknown(rc)) {
		kv->stats.unknown++;
	}
	return rc;
}

bool kv_unknown(int rc)
{
	return rc == -ETIMEDOUT || rc == -EIO || rc == -ENOSPC;
}

int kv_next_partition(struct kv *kv, uint64_t from, uint64_t end, uint64_t *next)
{
	*next = from;
	if (from >= end || kv->ops->next_partition == NULL)
		return 0;
	int rc = kv->ops->next_partition(kv, from, end, next);
	assert(rc != 0 || (*next >= from && *next <= end));
	return rc;
}

int kv_health(const struct kv *kv)
{
	return kv->ops->health != NULL ? kv->ops->health(kv) : 0;
}

int kv_backup(struct kv *kv, const struct kv_backup_request *q, struct kv_backup *out)
{
	if (kv->ops->backup == NULL)
		return -EOPNOTSUPP;
	if (q->dir[0] != '/' || q->owner[0] == 0 || strlen(q->owner) > KV_BACKUP_OWNER_MAX ||
	    strchr(q->owner, '\n') != NULL)
		return -EINVAL;
	int rc = kv->ops->backup(kv, q, out);
	assert(rc <= 0);
	assert(rc != 0 || out->number != 0);
	return rc;
}

void kv_close(struct kv *kv)
{
	if (kv != NULL)
		kv->ops->close(kv);
}
