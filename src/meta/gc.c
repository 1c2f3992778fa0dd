// SPDX-License-Identifier: Apache-2.0
/* Parts that all collectors use: the epoch, walks of a partition, leases. The collectors are in gc_name.c, gc_file.c
 * and gc_block.c. */
#include "meta/gc.h"

#include <errno.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "meta/gc_impl.h"
#include "rt/rt.h"

#define PAGE_ROWS 128

/* --- walks ------------------------------------------------------------------------------------ */

uint64_t meta_gc_partitions(const struct meta *m)
{
	return 1ULL << m->options.partition_bits;
}

struct schema_key gc_key(struct kv_bytes key)
{
	assert(key.data != NULL && key.len > 0);
	struct schema_key k = {.len = min_u64(key.len, SCHEMA_KEY_MAX)};
	memcpy(k.bytes, key.data, k.len);
	return k;
}

static int gc_write(struct gc *g, const struct kv_row *row, const ProtobufCMessage *msg)
{
	assert(g->a == &g->scratch && g->now != 0);
	struct txn t;
	txn_init(&t, g->a);
	txn_equals(&t, gc_key(row->key), row->value);
	if (msg != NULL)
		txn_put(&t, gc_key(row->key), msg);
	else
		txn_delete(&t, gc_key(row->key));
	int rc = txn_run(g->m, &t, g->partition, NULL);
	return rc == -ESTALE ? 0 : rc;
}

int gc_mark(struct gc *g, const struct kv_row *row, const ProtobufCMessage *msg)
{
	g->counts->marked++;
	return gc_write(g, row, msg);
}

int gc_delete(struct gc *g, const struct kv_row *row)
{
	g->counts->collected++;
	return gc_write(g, row, NULL);
}

bool gc_in_grace(struct gc *g, const struct kv_row *row, uint64_t *mark,
		 const ProtobufCMessage *msg, int *rc)
{
	*rc = 0;
	if (*mark == 0) {
		*mark = g->now;
		*rc = gc_mark(g, row, msg);
		return true;
	}
	if (gc_grace_over(g, *mark))
		return false;
	g->counts->left++;
	return true;
}

bool gc_unreadable(uint64_t partition, const struct kv_row *row, int rc)
{
	if (rc != -EBADMSG && rc != -EFBIG)
		return false;
	log_error("gc_row_skipped", "partition=%016lx kind=%c err=%s", partition,
		  *(const char *)row->key.data, err_name(rc));
	return true;
}

static int page_row(struct gc *g, const struct kv_row *row, gc_row_fn fn)
{
	arena_init(&g->scratch, META_OP_BYTES);
	g->a = &g->scratch;
	g->counts->seen++;
	int rc = fn(g, row);
	assert(g->a == &g->scratch); /* fn must restore g->a if it has replaced it */
	arena_fini(&g->scratch);
	if (!gc_unreadable(g->partition, row, rc))
		return rc;
	g->counts->damaged++;
	return 0;
}

/* Reads a page of rows. The cursor holds the last key seen, or only the letter of a kind, of which no row was read
 * yet. */
int gc_page(struct gc *g, const char *key_kinds, struct meta_gc_cursor *at, gc_row_fn fn)
{
	uint64_t begun_ns = rt_now_ns();
	if (at->end)
		return 0;
	if (at->len == 0) {
		at->key[0] = (uint8_t)key_kinds[0];
		at->len = 1;
	}
	const char *kind = at->len > sizeof(at->key) ? NULL : strchr(key_kinds, at->key[0]);
	if (kind == NULL || *kind == '\0')
		return -EINVAL;
	struct kv_range range = {.prefix = kv_bytes(kind, 1), .rows_max = PAGE_ROWS};
	if (at->len > 1)
		range.after = kv_bytes(at->key, at->len);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	int rc = kv_scan(g->m->kv, g->partition, &range, &rows);
	/* The epoch is read after the rows: a mark with an older epoch would shorten the grace period. */
	if (rc == 0 && rows.count > 0) {
		struct meta_gc_state state;
		rc = meta_gc_state(g->m, &state);
		g->now = state.epoch;
		g->restored = state.restored;
		g->epoch = min_u64(g->epoch, g->now);
		assert(rc != 0 || g->now != 0);
	}
	for (size_t i = 0; i < rows.count && rc == 0; i++) {
		rc = page_row(g, &rows.row[i], fn);
		if (rc != 0)
			break;
		at->len = (uint16_t)min_u64(rows.row[i].key.len, sizeof(at->key));
		memcpy(at->key, rows.row[i].key.data, at->len);
		/* The step ends before the caller's time is up, so that the caller gets the cursor and need not
		 * repeat the step. */
		if (i + 1 < rows.count && rt_now_ns() - begun_ns >= META_GC_STEP_NS)
			return 0;
	}
	if (rc != 0 || rows.more)
		return rc;
	at->key[0] = (uint8_t)kind[1];
	at->len = 1;
	at->end = kind[1] == '\0';
	return 0;
}

static const struct {
	enum meta_layer layer;
	const char *key_kinds;
	gc_row_fn fn;
} kinds[META_GC_KINDS] = {
	[META_GC_NAMES] = {META_LAYER_NAME, GC_KINDS(KEY_TOMBSTONE, KEY_REQUEST_DONE),
			   gc_names_row},
	[META_GC_DIRS] = {META_LAYER_NAME,
			  GC_KINDS(KEY_SUSPECT, KEY_DIR, KEY_ENTRY, KEY_SLICE_STATE), gc_dirs_row},
	[META_GC_TRANSFERS] = {META_LAYER_TRANSFER, GC_KINDS(KEY_TRANSFER), gc_transfers_row},
	[META_GC_FILES] = {META_LAYER_FILE, GC_KINDS(KEY_DEAD_FILE), gc_files_row},
	[META_GC_ORPHANS] = {META_LAYER_FILE, GC_KINDS(KEY_SUSPECT, KEY_FILE, KEY_PLACED),
			     gc_orphans_row},
	[META_GC_BLOCKS] = {META_LAYER_BLOCK, GC_KINDS(KEY_PENDING, KEY_REFUND, KEY_SUSPECT),
			    gc_blocks_row},
	[META_GC_OWNERS] = {META_LAYER_BLOCK, GC_KINDS(KEY_OWNER), gc_owners_row},
	[META_GC_ACCOUNTS] = {META_LAYER_TENANT, GC_KINDS(KEY_CHARGED, KEY_REFUNDED),
			      gc_accounts_row},
};

int meta_gc_skip(struct meta *m, enum meta_gc_kind kind, uint64_t *index, uint64_t end)
{
	assert(kind < META_GC_KINDS && *index <= end && end <= meta_gc_partitions(m));
	uint64_t first = schema_partition_at(kinds[kind].layer, 0), next;
	int rc = kv_next_partition(m->kv, first + *index, first + end, &next);
	if (rc == 0) {
		assert(next >= first + *index && next <= first + end);
		*index = next - first;
	}
	return rc;
}

int meta_gc_step(struct meta *m, enum meta_gc_kind kind, uint64_t index, uint64_t epoch,
		 struct meta_gc_cursor *at, struct meta_gc_counts *counts)
{
	if (kind >= META_GC_KINDS || index >= meta_gc_partitions(m) || epoch == 0)
		return -EINVAL;
	struct gc g = {.m = m,
		       .partition = schema_partition_at(kinds[kind].layer, index),
		       .epoch = epoch,
		       .counts = counts};
	int rc = gc_page(&g, kinds[kind].key_kinds, at, kinds[kind].fn);
	return rc == META_STOP ? 0
			       : rc; /* the next step begins with the row that stopped this one */
}

/* --- leases ----------------------------------------------------------------------------------- */

static uint64_t part_lease(const struct meta *m, const char *name)
{
	return part_of(m, META_LAYER_SYSTEM, 0, hash64(name, strlen(name), 0));
}

static int lease_read(struct meta *m, const struct meta_lease *l, struct arena *a,
		      struct kv_bytes *raw, rec_lease **out)
{
	if (memchr(l->name, 0, sizeof(l->name)) == NULL || l->name[0] == '\0' || l->holder == 0)
		return -EINVAL;
	struct schema_key key = key_text(KEY_LEASE, l->name);
	struct reads r;
	*out = NULL;
	int rc = meta_read(m, part_lease(m, l->name), &key, 1, a, &r);
	*raw = r.value[0];
	return rc == 0 && raw->data != NULL ? rec_read_lease(a, *raw, out) : rc;
}

/* Returns whether the holder has not renewed the lease for the lease's duration, measured on this process's clock.
 * If the stored turn is new, stores it in *l with the present time. */
static bool lease_over(struct meta_lease *l, const rec_lease *there)
{
	if (l->seen_turn != there->turn || l->seen_ns == 0) {
		l->seen_turn = there->turn;
		l->seen_ns = rt_now_ns();
		return false;
	}
	return rt_now_ns() - l->seen_ns >= there->duration_ns;
}

int meta_lease_take(struct meta *m, struct meta_lease *l)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct kv_bytes raw;
	rec_lease *there;
	int rc = lease_read(m, l, &a, &raw, &there);
	if (rc != 0)
		return rc;
	if (there != NULL && there->holder != l->holder && !lease_over(l, there))
		return -EBUSY;
	rec_lease now = TERRANE__REC__LEASE__INIT;
	now.holder = l->holder;
	now.turn = there != NULL ? there->turn + 1 : 1;
	now.duration_ns = l->duration_ns;
	struct txn t;
	txn_init(&t, &a);
	txn_same(&t, key_text(KEY_LEASE, l->name), raw);
	txn_put(&t, key_text(KEY_LEASE, l->name), &now.base);
	rc = txn_run(m, &t, part_lease(m, l->name), NULL);
	if (rc == 0)
		l->turn = now.turn;
	return rc == -ESTALE ? -EBUSY : rc;
}

int meta_lease_drop(struct meta *m, const struct meta_lease *l)
{
	AUTO_ARENA struct arena a;
	arena_init(&a, MIB);
	struct kv_bytes raw;
	rec_lease *there;
	int rc = lease_read(m, l, &a, &raw, &there);
	if (rc != 0 || there == NULL || there->holder != l->holder)
		return rc;
	struct txn t;
	txn_init(&t, &a);
	txn_equals(&t, key_text(KEY_LEASE, l->name), raw);
	txn_delete(&t, key_text(KEY_LEASE, l->name));
	rc = txn_run(m, &t, part_lease(m, l->name), NULL);
	return rc == -ESTALE ? 0 : rc;
}
