// SPDX-License-Identifier: Apache-2.0
#include "omap_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "check.h"
#include "kv/omap_plan.h"
#include "kv/rows.h"
#include "rt/rt.h"

/* --- on a kv ---------------------------------------------------------------------------------- */

struct on_kv {
	struct omap base;
	struct kv *kv;
};

static struct kv *kv_below(struct omap *o)
{
	return container_of(o, struct on_kv, base)->kv;
}

static int on_kv_write(struct omap *o, const struct omap_write *w)
{
	size_t checks = w->guard_count + 1;
	size_t writes = w->set_count + w->remove_count;
	AUTO_FREE struct kv_check *check = calloc(checks, sizeof(*check));
	AUTO_FREE struct kv_write *write = calloc(writes + 1, sizeof(*write));
	struct kv_txn t = {.checks = check, .writes = write};
	CHECK(check != NULL && write != NULL);
	if (w->version_guard)
		check[t.check_count++] =
			(struct kv_check){.kind = KV_VERSION, .version = w->version};
	for (size_t i = 0; i < w->guard_count; i++) {
		const struct omap_guard *g = &w->guards[i];
		enum kv_check_kind kind = g->kind == OMAP_ABSENT ? KV_ABSENT : KV_PRESENT;
		check[t.check_count++] =
			(struct kv_check){.kind = g->kind == OMAP_EQUALS ? KV_EQUALS : kind,
					  .key = g->key,
					  .value = g->value};
	}
	for (size_t i = 0; i < w->set_count; i++) {
		CHECK(memchr(w->sets[i].key.data, 0, w->sets[i].key.len) == NULL);
		CHECK(w->sets[i].value.len > 0);
		write[t.write_count++] = (struct kv_write){
			.kind = KV_PUT, .key = w->sets[i].key, .value = w->sets[i].value};
	}
	for (size_t i = 0; i < w->remove_count; i++)
		write[t.write_count++] = (struct kv_write){.kind = KV_DELETE, .key = w->removes[i]};
	size_t failed;
	/* Calls the engine directly: escaped keys exceed the limits of kv.h. */
	struct kv *kv = kv_below(o);
	return kv->ops->txn(kv, w->object, &t, &failed);
}

static int read_keys(struct kv *kv, struct omap_read *r)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	int rc = kv->ops->get(kv, r->object, r->keys, r->key_count, &rows);
	for (size_t i = 0; i < rows.count && rc == 0; i++)
		if (rows.row[i].found)
			rc = kv_rows_add(&r->found, rows.row[i].key, rows.row[i].value);
	r->found.version = rows.version;
	return rc;
}

static int order_keys(const void *a, const void *b)
{
	return kv_compare(((const struct kv_row *)a)->key, ((const struct kv_row *)b)->key);
}

/* Reads keys and page until both have the same version, so that they show one instant. */
static int on_kv_read(struct omap *o, struct omap_read *r)
{
	struct kv *kv = kv_below(o);
	struct kv_range range = {.prefix = r->prefix,
				 .after = r->after,
				 .rows_max = r->rows_max,
				 .bytes_max = SIZE_MAX};
	for (;;) {
		kv_rows_clear(&r->found);
		kv_rows_clear(&r->page);
		int rc = r->key_count > 0 ? read_keys(kv, r) : 0;
		if (rc == 0 && r->prefix.len > 0)
			rc = kv->ops->scan(kv, r->object, &range, &r->page);
		if (rc != 0)
			return rc;
		if (r->key_count == 0)
			r->found.version = r->page.version;
		if (r->prefix.len > 0 && r->found.version != r->page.version)
			continue;
		if (r->found.count > 0)
			qsort(r->found.row, r->found.count, sizeof(*r->found.row), order_keys);
		return 0;
	}
}

static void on_kv_close(struct omap *o)
{
	kv_close(kv_below(o));
	free(o);
}

static const struct omap_ops on_kv_ops = {on_kv_write, on_kv_read, on_kv_close};

struct omap *omap_on_kv_take(struct kv *kv)
{
	struct on_kv *o = calloc(1, sizeof(*o));
	CHECK(o != NULL);
	o->base = (struct omap){&on_kv_ops, "on kv"};
	o->kv = kv;
	return &o->base;
}

/* --- lossy ------------------------------------------------------------------------------------ */

struct lossy {
	struct omap base;
	struct omap *below;
	struct omap_faults *faults;
	struct rng rng;
	struct rt_group late;
};

/* A write under way, with its own copy of keys and values. */
struct late_write {
	struct lossy *lossy;
	struct omap_write w;
	struct omap_guard *guards;
	struct omap_pair *sets;
	struct kv_bytes *removes;
	struct kv_rows memory;
	uint64_t delay_ns;
};

static struct kv_bytes keep(struct late_write *l, struct kv_bytes from)
{
	void *bytes = kv_rows_alloc(&l->memory, from.len + 1);
	CHECK(bytes != NULL);
	if (from.len > 0)
		memcpy(bytes, from.data, from.len);
	return kv_bytes(bytes, from.len);
}

static void late_free(struct late_write *l)
{
	free(l->guards);
	free(l->sets);
	free(l->removes);
	kv_rows_fini(&l->memory);
	free(l);
}

static struct late_write *late_new(struct lossy *lossy, const struct omap_write *w)
{
	struct late_write *l = calloc(1, sizeof(*l));
	CHECK(l != NULL);
	l->lossy = lossy;
	l->w = *w;
	l->guards = calloc(w->guard_count + 1, sizeof(*l->guards));
	l->sets = calloc(w->set_count + 1, sizeof(*l->sets));
	l->removes = calloc(w->remove_count + 1, sizeof(*l->removes));
	CHECK(l->guards != NULL && l->sets != NULL && l->removes != NULL);
	for (size_t i = 0; i < w->guard_count; i++) {
		l->guards[i] = w->guards[i];
		l->guards[i].key = keep(l, w->guards[i].key);
		l->guards[i].value = keep(l, w->guards[i].value);
	}
	for (size_t i = 0; i < w->set_count; i++)
		l->sets[i] = (struct omap_pair){keep(l, w->sets[i].key), keep(l, w->sets[i].value)};
	for (size_t i = 0; i < w->remove_count; i++)
		l->removes[i] = keep(l, w->removes[i]);
	l->w.guards = l->guards;
	l->w.sets = l->sets;
	l->w.removes = l->removes;
	l->delay_ns = rng_below(&lossy->rng, lossy->faults->late_max_ns + 1);
	return l;
}

static void late_run(void *arg)
{
	struct late_write *l = arg;
	struct omap *below = l->lossy->below;
	if (rt_sleep_ns(l->delay_ns) == 0)
		(void)below->ops->write(below, &l->w);
	late_free(l);
}

static int no_answer(struct lossy *l)
{
	l->faults->struck++;
	int rc = rt_sleep_ns(l->faults->timeout_ns);
	return rc == -ECANCELED ? rc : -ETIMEDOUT;
}

static int lossy_write(struct omap *o, const struct omap_write *w)
{
	struct lossy *l = container_of(o, struct lossy, base);
	struct omap_faults *f = l->faults;
	if (f->down || rng_chance(&l->rng, f->request_lost))
		return no_answer(l);
	if (rng_chance(&l->rng, f->late)) {
		struct late_write *late = late_new(l, w);
		uint64_t deadline = rt_deadline();
		rt_deadline_set(RT_NEVER);
		if (rt_group_spawn(&l->late, "late", late_run, late) != 0)
			late_free(late);
		rt_deadline_set(deadline);
		return no_answer(l);
	}
	int rc = l->below->ops->write(l->below, w);
	if (rc == 0 && rng_chance(&l->rng, f->resent)) {
		f->struck++;
		rc = l->below->ops->write(l->below, w);
	}
	return rng_chance(&l->rng, f->reply_lost) ? no_answer(l) : rc;
}

static int lossy_read(struct omap *o, struct omap_read *r)
{
	struct lossy *l = container_of(o, struct lossy, base);
	if (l->faults->down || rng_chance(&l->rng, l->faults->read_lost))
		return no_answer(l);
	return l->below->ops->read(l->below, r);
}

static void lossy_close(struct omap *o)
{
	struct lossy *l = container_of(o, struct lossy, base);
	rt_group_join(&l->late);
	l->below->ops->close(l->below);
	free(l);
}

static const struct omap_ops lossy_ops = {lossy_write, lossy_read, lossy_close};

struct omap *omap_lossy_take(struct omap *below, struct omap_faults *faults)
{
	struct lossy *l = calloc(1, sizeof(*l));
	CHECK(l != NULL);
	l->base = (struct omap){&lossy_ops, "lossy"};
	l->below = below;
	l->faults = faults;
	rng_init(&l->rng, faults->seed);
	rt_group_init(&l->late);
	return &l->base;
}
