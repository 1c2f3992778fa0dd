// SPDX-License-Identifier: Apache-2.0
#include "kv/omap_plan.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "kv/omap_codec.h"
#include "kv/rows.h"

struct omap_change {
	struct kv_bytes key;   /* encoded key of the row */
	struct kv_bytes value; /* encoded value; empty: the row is removed */
	bool removed;
};

/* --- memory ----------------------------------------------------------------------------------- */

static void plan_empty(struct omap_plan *p)
{
	free(p->guards);
	free(p->sets);
	free(p->removes);
	free(p->rc);
	free(p->failed);
	free(p->changes);
	free(p->index);
	kv_rows_clear(&p->memory);
	struct kv_rows memory = p->memory;
	*p = (struct omap_plan){.memory = memory};
}

void omap_plan_fini(struct omap_plan *p)
{
	plan_empty(p);
	kv_rows_fini(&p->memory);
}

static int plan_reserve(struct omap_plan *p, size_t n, size_t checks, size_t writes)
{
	size_t slots = 16;
	while (slots < 2 * writes)
		slots *= 2;
	p->index_mask = slots - 1;
	p->change_max = writes;
	p->guards = calloc(checks + OMAP_PLAN_SPARE, sizeof(*p->guards));
	p->sets = calloc(writes + OMAP_PLAN_SPARE, sizeof(*p->sets));
	p->removes = calloc(writes + OMAP_PLAN_SPARE, sizeof(*p->removes));
	p->changes = calloc(writes + 1, sizeof(*p->changes));
	p->index = calloc(slots, sizeof(*p->index));
	p->rc = calloc(n + 1, sizeof(*p->rc));
	p->failed = calloc(n + 1, sizeof(*p->failed));
	bool all = p->guards != NULL && p->sets != NULL && p->removes != NULL &&
		   p->changes != NULL && p->index != NULL && p->rc != NULL && p->failed != NULL;
	return all ? 0 : -ENOMEM;
}

static int encode_key(struct omap_plan *p, struct kv_bytes key, struct kv_bytes *out)
{
	size_t len = omap_key_len(key);
	char *bytes = kv_rows_alloc(&p->memory, len);
	if (bytes == NULL)
		return -ENOMEM;
	omap_key_encode(bytes, key);
	*out = kv_bytes(bytes, len);
	return 0;
}

static int encode_value(struct omap_plan *p, struct kv_bytes value, struct kv_bytes *out)
{
	uint8_t *bytes = kv_rows_alloc(&p->memory, 1 + value.len);
	if (bytes == NULL)
		return -ENOMEM;
	omap_value_encode(bytes, value);
	*out = kv_bytes(bytes, 1 + value.len);
	return 0;
}

/* --- writes of accepted transactions --------------------------------------------------------- */

/* Returns the key's slot in the index, or the free slot where it belongs. */
static uint32_t *change_slot(struct omap_plan *p, struct kv_bytes key)
{
	/* so the index has a free slot */
	assert(p->change_count <= p->index_mask / 2 + 1);
	size_t i = hash64(key.data, key.len, 0) & p->index_mask;
	while (p->index[i] != 0 && !kv_equal(p->changes[p->index[i] - 1].key, key))
		i = (i + 1) & p->index_mask;
	return &p->index[i];
}

static const struct omap_change *change_find(struct omap_plan *p, struct kv_bytes key)
{
	uint32_t place = *change_slot(p, key);
	return place != 0 ? &p->changes[place - 1] : NULL;
}

static int change_add(struct omap_plan *p, const struct kv_write *w)
{
	struct omap_change c = {.removed = w->kind == KV_DELETE};
	int rc = encode_key(p, w->key, &c.key);
	if (rc == 0 && !c.removed)
		rc = encode_value(p, w->value, &c.value);
	if (rc != 0)
		return rc;
	uint32_t *slot = change_slot(p, c.key);
	if (*slot == 0) {
		assert(p->change_count < p->change_max);
		*slot = (uint32_t)++p->change_count;
	}
	p->changes[*slot - 1] = c;
	return 0;
}

/* --- checks ----------------------------------------------------------------------------------- */

const struct kv_row *omap_find(const struct kv_rows *rows, struct kv_bytes key)
{
	size_t low = 0;
	size_t high = rows->count;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int order = kv_compare(rows->row[mid].key, key);
		if (order == 0)
			return &rows->row[mid];
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

static bool value_fits(const struct omap_guard *g, const struct kv_bytes *value)
{
	switch (g->kind) {
	case OMAP_ABSENT:
		return value == NULL;
	case OMAP_PRESENT:
		return value != NULL;
	case OMAP_EQUALS:
		return value != NULL && kv_equal(*value, g->value);
	}
	return false;
}

static int guard_of(struct omap_plan *p, const struct kv_check *c, struct omap_guard *g)
{
	int rc = encode_key(p, c->key, &g->key);
	g->kind = c->kind == KV_ABSENT ? OMAP_ABSENT : OMAP_PRESENT;
	if (rc == 0 && c->kind == KV_EQUALS) {
		g->kind = OMAP_EQUALS;
		rc = encode_value(p, c->value, &g->value);
	}
	return rc;
}

/*
 * Evaluates a check, and adds a guard to the write where the write must repeat the check. Returns 0 if
 * the check holds or is assumed to hold, -ESTALE if it fails; -EBADMSG: the row is damaged; -ENOMEM.
 */
static int check_one(struct omap_plan *p, const struct kv_check *c, const struct kv_rows *known)
{
	if (c->kind == KV_VERSION) {
		assert(known != NULL);
		p->write.version_guard = true;
		p->write.version = known->version;
		return known->version == c->version && p->change_count == 0 ? 0 : -ESTALE;
	}
	struct omap_guard g = {0};
	int rc = guard_of(p, c, &g);
	if (rc != 0)
		return rc;
	const struct omap_change *change = change_find(p, g.key);
	if (change != NULL)
		return value_fits(&g, change->removed ? NULL : &change->value) ? 0 : -ESTALE;
	if (known != NULL) {
		const struct kv_row *row = omap_find(known, g.key);
		struct kv_bytes value;
		if (row != NULL && omap_value_decode(row->value, &value) != 0)
			return -EBADMSG;
		if (!value_fits(&g, row != NULL ? &row->value : NULL))
			return -ESTALE;
	}
	p->guards[p->write.guard_count++] = g;
	return 0;
}

static int check_all(struct omap_plan *p, size_t i, const struct kv_txn *t,
		     const struct kv_rows *known)
{
	size_t guards = p->write.guard_count;
	bool version_guard = p->write.version_guard;
	for (size_t c = 0; c < t->check_count; c++) {
		int rc = check_one(p, &t->checks[c], known);
		if (rc == -ENOMEM)
			return rc;
		if (rc != 0) {
			p->rc[i] = rc;
			p->failed[i] = c;
			/*
			 * Drop the guards of a refused transaction: they must not make the write of
			 * other transactions fail.
			 */
			assert(p->write.guard_count >= guards);
			p->write.guard_count = guards;
			p->write.version_guard = version_guard;
			return 0;
		}
	}
	return 0;
}

/* --- the plan --------------------------------------------------------------------------------- */

bool omap_plan_needs_read(struct kv_pending **batch, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t c = 0; c < batch[i]->txn->check_count; c++)
			if (batch[i]->txn->checks[c].kind == KV_VERSION)
				return true;
	return false;
}

static int order_keys(const void *a, const void *b)
{
	return kv_compare(*(const struct kv_bytes *)a, *(const struct kv_bytes *)b);
}

int omap_plan_keys(struct omap_plan *p, struct kv_pending **batch, size_t n,
		   const struct kv_bytes **keys, size_t *count)
{
	size_t total = 0;
	plan_empty(p);
	for (size_t i = 0; i < n; i++)
		total += batch[i]->txn->check_count;
	p->removes = calloc(total + OMAP_PLAN_SPARE, sizeof(*p->removes));
	if (p->removes == NULL)
		return -ENOMEM;
	size_t k = 0;
	for (size_t i = 0; i < n; i++) {
		const struct kv_txn *t = batch[i]->txn;
		for (size_t c = 0; c < t->check_count; c++) {
			if (t->checks[c].kind == KV_VERSION)
				continue;
			int rc = encode_key(p, t->checks[c].key, &p->removes[k++]);
			if (rc != 0)
				return rc;
		}
	}
	assert(k <= total);
	qsort(p->removes, k, sizeof(*p->removes), order_keys);
	size_t distinct = 0;
	for (size_t i = 0; i < k; i++)
		if (i == 0 || !kv_equal(p->removes[i], p->removes[distinct - 1]))
			p->removes[distinct++] = p->removes[i];
	*keys = p->removes;
	*count = distinct;
	return 0;
}

static int plan_txn(struct omap_plan *p, size_t i, const struct kv_txn *t,
		    const struct kv_rows *known)
{
	int rc = check_all(p, i, t, known);
	for (size_t w = 0; w < t->write_count && rc == 0 && p->rc[i] == 0; w++)
		rc = change_add(p, &t->writes[w]);
	return rc;
}

int omap_plan_make(struct omap_plan *p, uint64_t object, struct kv_pending **batch, size_t n,
		   const struct kv_rows *known)
{
	size_t checks = 0;
	size_t writes = 0;
	for (size_t i = 0; i < n; i++) {
		checks += batch[i]->txn->check_count;
		writes += batch[i]->txn->write_count;
	}
	plan_empty(p);
	int rc = plan_reserve(p, n, checks, writes);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = plan_txn(p, i, batch[i]->txn, known);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < p->change_count; i++) {
		const struct omap_change *c = &p->changes[i];
		if (c->removed)
			p->removes[p->write.remove_count++] = c->key;
		else
			p->sets[p->write.set_count++] = (struct omap_pair){c->key, c->value};
	}
	assert(p->write.set_count + p->write.remove_count == p->change_count);
	assert(p->write.guard_count <= checks && p->change_count <= writes);
	p->writes = p->change_count;
	p->write.object = object;
	p->write.guards = p->guards;
	p->write.sets = p->sets;
	p->write.removes = p->removes;
	return 0;
}
