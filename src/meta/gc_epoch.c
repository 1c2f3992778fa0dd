// SPDX-License-Identifier: Apache-2.0
/*
 * The epoch of the collection (gc.h): one record, which also says whether collection is held, and since when the store is
 * the copy of an older one.
 *
 * A held epoch does not advance. So nothing is collected, whatever collectors do: each deletion needs a mark that is two
 * epochs old.
 *
 * A store that was restored from a backup continues at an epoch that is META_GC_JUMP higher. Processes that knew the store
 * before have lower epochs, which delay collection and never hasten it. Marks of before the backup count as marks of the
 * restore, so every grace period is waited for again.
 */
#include <errno.h>
#include <string.h>

#include "meta/gc_impl.h"

#define EPOCH_TRIES 16

static int epoch_read(struct meta *m, struct arena *a, struct kv_bytes *raw, rec_gc_epoch **out)
{
	struct schema_key key = key_text(KEY_GC_EPOCH, "");
	struct reads r;
	int rc = meta_read(m, schema_partition_at(META_LAYER_SYSTEM, 0), &key, 1, a, &r);
	*raw = r.value[0];
	if (rc != 0 || raw->data != NULL)
		return rc != 0 ? rc : rec_read_gc_epoch(a, *raw, out);
	*out = arena_alloc(a, sizeof(**out));
	if (*out == NULL)
		return -ENOMEM;
	terrane__rec__gc_epoch__init(*out);
	(*out)->epoch = 1;
	return 0;
}

/* Replaces the record that was read. -ESTALE: it has changed. */
static int epoch_write(struct meta *m, struct arena *a, struct kv_bytes raw, const rec_gc_epoch *e)
{
	struct txn t;
	assert(e->epoch != 0 && e->restored <= e->epoch);
	txn_init(&t, a);
	txn_same(&t, key_text(KEY_GC_EPOCH, ""), raw);
	txn_put(&t, key_text(KEY_GC_EPOCH, ""), &e->base);
	return txn_run(m, &t, schema_partition_at(META_LAYER_SYSTEM, 0), NULL);
}

int meta_gc_state(struct meta *m, struct meta_gc_state *out)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct kv_bytes raw;
	rec_gc_epoch *e;
	*out = (struct meta_gc_state){0};
	int rc = epoch_read(m, &a, &raw, &e);
	if (rc != 0)
		return rc;
	out->epoch = e->epoch;
	out->restored = e->restored;
	out->held = e->held;
	memcpy(out->why, e->why, strlen(e->why) + 1);
	return 0;
}

int meta_gc_epoch(struct meta *m, uint64_t *epoch)
{
	struct meta_gc_state state;
	int rc = meta_gc_state(m, &state);
	*epoch = state.epoch;
	return rc;
}

int meta_gc_advance(struct meta *m, uint64_t epoch)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct kv_bytes raw;
	rec_gc_epoch *e;
	int rc = epoch_read(m, &a, &raw, &e);
	if (rc != 0 || e->held || e->epoch != epoch)
		return rc;
	e->epoch = epoch + 1;
	rc = epoch_write(m, &a, raw, e);
	return rc == -ESTALE ? 0 : rc;
}

int meta_gc_hold(struct meta *m, bool held, const char *why)
{
	if (strlen(why) > META_GC_WHY_MAX)
		return -EINVAL;
	for (int i = 0; i < EPOCH_TRIES; i++) {
		AUTO_ARENA struct arena a;
		arena_init(&a, MIB);
		struct kv_bytes raw;
		rec_gc_epoch *e;
		int rc = epoch_read(m, &a, &raw, &e);
		if (rc != 0)
			return rc;
		e->held = held;
		e->why = (char *)(held ? why : "");
		rc = epoch_write(m, &a, raw, e);
		if (rc != -ESTALE)
			return rc;
	}
	return -EAGAIN;
}

int meta_gc_restored(struct meta *m, const char *why)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct kv_bytes raw;
	rec_gc_epoch *e;
	if (strlen(why) > META_GC_WHY_MAX)
		return -EINVAL;
	int rc = epoch_read(m, &a, &raw, &e);
	if (rc != 0)
		return rc;
	if (e->epoch > UINT64_MAX - META_GC_JUMP)
		return -EOVERFLOW;
	e->epoch += META_GC_JUMP;
	e->restored = e->epoch;
	e->held = true;
	e->why = (char *)why;
	return epoch_write(m, &a, raw, e);
}
