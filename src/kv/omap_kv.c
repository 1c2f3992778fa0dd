// SPDX-License-Identifier: Apache-2.0
/* The engine on an object store: partitions and reads. Transactions are in omap_txn.c. */
#include "kv/omap_kv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "kv/omap_plan.h"
#include "kv/rows.h"
#include "rt/rt.h"

#define SETTLE_NS (30 * NS_PER_S)
#define PARTS_MAX 65536
/*
 * Of this many partitions that enter memory one, chosen at random, is read before its first batch,
 * to find and remove the expired records of other servers.
 */
#define LOOK_ONE_IN 16

void omap_read_fini(struct omap_read *r)
{
	kv_rows_fini(&r->found);
	kv_rows_fini(&r->page);
}

/* --- partitions ------------------------------------------------------------------------------- */

static void part_free(struct omap_kv *o, struct omap_part *p)
{
	assert(p->users == 0 && kv_queue_idle(&p->queue));
	map_remove(&o->parts, p->number);
	list_remove(&p->lru);
	free(p);
}

/*
 * Evicts the least recently used partitions from memory until there is room for one more. Partitions
 * in use stay.
 */
static void parts_trim(struct omap_kv *o)
{
	struct omap_part *p;
	struct omap_part *after;
	list_for_each_entry_safe(p, after, &o->lru, lru) {
		if (map_count(&o->parts) < o->parts_max)
			break;
		if (p->users > 0)
			continue;
		part_free(o, p);
		o->forgot = true;
	}
}

static struct omap_part *part_new(struct omap_kv *o, uint64_t number)
{
	parts_trim(o);
	struct omap_part *p = calloc(1, sizeof(*p));
	if (p == NULL || map_put(&o->parts, number, p) != 0) {
		free(p);
		return NULL;
	}
	p->kv = o;
	p->number = number;
	p->known = !o->forgot; /* this server never wrote to the object: it has no record there */
	p->look_first = rt_random_u64() % LOOK_ONE_IN == 0;
	list_init(&p->lru);
	kv_queue_init(&p->queue, o->batch_txns_max, omap_commit, p);
	return p;
}

static int omap_txn(struct kv *kv, uint64_t partition, const struct kv_txn *txn, size_t *failed)
{
	struct omap_kv *o = omap_kv_of(kv);
	struct omap_part *p = map_get(&o->parts, partition);
	if (p == NULL)
		p = part_new(o, partition);
	if (p == NULL)
		return -ENOMEM;
	list_remove(&p->lru);
	list_push_back(&o->lru, &p->lru);
	p->users++;
	int rc = kv_queue_submit(&p->queue, partition, txn, failed);
	assert(p->users > 0);
	p->users--;
	return rc;
}

/* --- reads ------------------------------------------------------------------------------------ */

/*
 * Reads from the object store. A read without an answer returns -EHOSTUNREACH, because -ETIMEDOUT would
 * mean that a write is in doubt.
 */
static int read_run(struct omap_kv *o, struct omap_read *r)
{
	int rc = o->omap->ops->read(o->omap, r);
	return rc == -ETIMEDOUT ? -EHOSTUNREACH : rc;
}

/* Encodes n keys; memory owns the encoded bytes. */
static int encode_keys(const struct kv_bytes *keys, size_t n, struct kv_bytes *out,
		       struct kv_rows *memory)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = omap_key_len(keys[i]);
		char *bytes = kv_rows_alloc(memory, len);
		if (bytes == NULL)
			return -ENOMEM;
		omap_key_encode(bytes, keys[i]);
		out[i] = kv_bytes(bytes, len);
	}
	return 0;
}

/* Adds to rows a row for each of n keys, with the value that `found` has for the encoded key. */
static int answer(const struct kv_bytes *keys, const struct kv_bytes *encoded, size_t n,
		  const struct kv_rows *found, struct kv_rows *rows)
{
	for (size_t i = 0; i < n; i++) {
		const struct kv_row *row = omap_find(found, encoded[i]);
		struct kv_bytes value;
		int rc = row != NULL ? omap_value_decode(row->value, &value) : 0;
		if (rc == 0)
			rc = kv_rows_answer(rows, keys[i], row != NULL ? &value : NULL);
		if (rc != 0)
			return rc;
	}
	assert(rows->count == n);
	rows->version = found->version;
	return 0;
}

static int omap_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
		    struct kv_rows *rows)
{
	AUTO_KV_ROWS struct kv_rows memory = {0};
	AUTO_FREE struct kv_bytes *encoded = calloc(n, sizeof(*encoded));
	if (encoded == NULL)
		return -ENOMEM;
	int rc = encode_keys(keys, n, encoded, &memory);
	if (rc != 0)
		return rc;
	struct omap_read r = {.object = partition, .keys = encoded, .key_count = n};
	rc = read_run(omap_kv_of(kv), &r);
	if (rc == 0)
		rc = answer(keys, encoded, n, &r.found, rows);
	omap_read_fini(&r);
	return rc;
}

static int decode_page(const struct omap_read *r, const struct kv_range *range,
		       struct kv_rows *rows)
{
	for (size_t i = 0; i < r->page.count; i++) {
		if (kv_rows_full(rows, range)) {
			rows->more = true;
			return 0;
		}
		uint8_t key[KV_KEY_MAX];
		size_t len;
		struct kv_bytes value;
		int rc = omap_key_decode(r->page.row[i].key, key, &len);
		if (rc == 0)
			rc = omap_value_decode(r->page.row[i].value, &value);
		if (rc == 0)
			rc = kv_rows_add(rows, kv_bytes(key, len), value);
		if (rc != 0)
			return rc;
	}
	rows->more = r->page.more;
	return 0;
}

static int omap_scan(struct kv *kv, uint64_t partition, const struct kv_range *range,
		     struct kv_rows *rows)
{
	AUTO_KV_ROWS struct kv_rows memory = {0};
	bool beyond = range->after.len > 0 && kv_compare(range->after, range->prefix) >= 0;
	struct kv_bytes bounds[] = {range->prefix, range->after};
	struct kv_bytes encoded[2];
	int rc = encode_keys(bounds, 2, encoded, &memory);
	if (rc != 0)
		return rc;
	struct omap_read r = {.object = partition,
			      .prefix = encoded[0],
			      .after = beyond ? encoded[1] : kv_text(""),
			      .rows_max = range->rows_max};
	rc = read_run(omap_kv_of(kv), &r);
	if (rc == 0)
		rc = decode_page(&r, range, rows);
	rows->version = r.found.version;
	omap_read_fini(&r);
	return rc;
}

/* --- open, close ------------------------------------------------------------------------------ */

static void omap_close(struct kv *kv)
{
	struct omap_kv *o = omap_kv_of(kv);
	struct omap_part *p;
	struct omap_part *after;
	list_for_each_entry_safe(p, after, &o->lru, lru)
		part_free(o, p);
	assert(map_count(&o->parts) == 0);
	map_fini(&o->parts);
	o->omap->ops->close(o->omap);
	free(o);
}

static const struct kv_ops omap_kv_ops = {
	.name = "omap",
	.get = omap_get,
	.scan = omap_scan,
	.txn = omap_txn,
	.close = omap_close,
};

int kv_omap_open_take(struct kv **out, struct omap *omap, const struct kv_omap_options *options)
{
	struct omap_kv *o = calloc(1, sizeof(*o));
	if (o == NULL) {
		omap->ops->close(omap);
		return -ENOMEM;
	}
	o->base.ops = &omap_kv_ops;
	o->omap = omap;
	o->parts_max = options->parts_max != 0 ? options->parts_max : PARTS_MAX;
	o->batch_txns_max = options->batch_txns_max;
	o->settle_ns = options->settle_ns != 0 ? options->settle_ns : SETTLE_NS;
	map_init(&o->parts, SIZE_MAX / 4);
	list_init(&o->lru);
	uint64_t id[2] = {rt_random_u64(), rt_random_u64()};
	omap_record_key(o->record_key, (const uint8_t *)id);
	*out = &o->base;
	return 0;
}
