// SPDX-License-Identifier: Apache-2.0
/* Builds and runs transactions and reads, with their bytes in an arena. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "meta/impl.h"
#include "rt/rt.h"

#define BACK_OFF_MIN_NS (50 * NS_PER_US)
#define BACK_OFF_MAX_NS (20 * NS_PER_MS)

static int arena_error(const struct arena *a)
{
	return a->refused ? -EFBIG : -ENOMEM;
}

int arena_copy(struct arena *a, struct kv_bytes from, struct kv_bytes *to)
{
	assert(from.len == 0 || from.data != NULL);
	void *bytes = arena_alloc(a, from.len + 1);
	if (bytes == NULL)
		return arena_error(a);
	if (from.len > 0)
		memcpy(bytes, from.data, from.len);
	*to = kv_bytes(bytes, from.len);
	return 0;
}

/* --- transactions ----------------------------------------------------------------------------- */

void txn_init(struct txn *t, struct arena *a)
{
	*t = (struct txn){.arena = a};
}

/* Returns the list `items` with room for one more item: copies a full list to a list of twice the size. Sets t->rc if
 * there is no memory for the copy. */
static void *grow(struct txn *t, void *items, size_t count, size_t *cap, size_t size)
{
	assert(count <= *cap);
	if (count < *cap)
		return items;
	size_t want = *cap == 0 ? 4 : 2 * *cap;
	void *more = arena_alloc(t->arena, want * size);
	if (more == NULL) {
		t->rc = arena_error(t->arena);
		return items;
	}
	if (count > 0)
		memcpy(more, items, count * size);
	*cap = want;
	return more;
}

static void add_check(struct txn *t, enum kv_check_kind kind, struct schema_key key,
		      struct kv_bytes value)
{
	assert(kind == KV_EQUALS || value.data == NULL);
	assert(value.data != NULL || value.len == 0);
	struct kv_bytes copy = {0};
	if (t->rc == 0)
		t->checks = grow(t, t->checks, t->check_count, &t->check_cap, sizeof(t->checks[0]));
	if (t->rc == 0)
		t->rc = arena_copy(t->arena, key_bytes(&key), &copy);
	if (t->rc == 0)
		t->checks[t->check_count++] =
			(struct kv_check){.kind = kind, .key = copy, .value = value};
}

void txn_absent(struct txn *t, struct schema_key key)
{
	add_check(t, KV_ABSENT, key, (struct kv_bytes){0});
}

void txn_present(struct txn *t, struct schema_key key)
{
	add_check(t, KV_PRESENT, key, (struct kv_bytes){0});
}

void txn_equals(struct txn *t, struct schema_key key, struct kv_bytes value)
{
	add_check(t, KV_EQUALS, key, value);
}

void txn_same(struct txn *t, struct schema_key key, struct kv_bytes value)
{
	if (value.data == NULL)
		txn_absent(t, key);
	else
		txn_equals(t, key, value);
}

static void add_write(struct txn *t, enum kv_write_kind kind, struct schema_key key,
		      struct kv_bytes value)
{
	assert(value.data != NULL || value.len == 0);
	struct kv_bytes copy = {0};
	if (t->rc == 0)
		t->writes = grow(t, t->writes, t->write_count, &t->write_cap, sizeof(t->writes[0]));
	if (t->rc == 0)
		t->rc = arena_copy(t->arena, key_bytes(&key), &copy);
	if (t->rc == 0)
		t->writes[t->write_count++] =
			(struct kv_write){.kind = kind, .key = copy, .value = value};
}

void txn_put(struct txn *t, struct schema_key key, const ProtobufCMessage *msg)
{
	struct kv_bytes value = {0};
	if (t->rc == 0)
		t->rc = rec_pack(t->arena, msg, &value);
	add_write(t, KV_PUT, key, value);
}

void txn_put_bytes(struct txn *t, struct schema_key key, struct kv_bytes value)
{
	add_write(t, KV_PUT, key, value);
}

void txn_delete(struct txn *t, struct schema_key key)
{
	add_write(t, KV_DELETE, key, (struct kv_bytes){0});
}

int txn_run(struct meta *m, struct txn *t, uint64_t partition, size_t *failed)
{
	assert(rt_on_loop(m->loop));
	if (t->rc != 0)
		return t->rc;
	assert(t->write_count > 0);
	struct kv_txn txn = {t->checks, t->check_count, t->writes, t->write_count, t->early};
	int rc = kv_txn(m->kv, partition, &txn, failed);
	/* kv returns -EROFS if the engine was closed after an error. Callers of txn_run use -EROFS for sealed
	 * objects. */
	return rc == -EROFS ? -EIO : rc;
}

/* --- reads ------------------------------------------------------------------------------------ */

int meta_read(struct meta *m, uint64_t partition, const struct schema_key *keys, size_t n,
	      struct arena *a, struct reads *out)
{
	assert(rt_on_loop(m->loop));
	assert(n > 0 && n <= META_READ_MAX);
	struct kv_bytes list[META_READ_MAX] = {{0}};
	for (size_t i = 0; i < n; i++)
		list[i] = key_bytes(&keys[i]);
	AUTO_KV_ROWS struct kv_rows rows = {0};
	*out = (struct reads){0};
	int rc = kv_get(m->kv, partition, list, n, &rows);
	assert(rc != 0 || rows.count == n);
	for (size_t i = 0; i < n && rc == 0; i++)
		if (rows.row[i].found)
			rc = arena_copy(a, rows.row[i].value, &out->value[i]);
	return rc;
}

int meta_prefix_exists(struct meta *m, uint64_t partition, struct schema_key prefix, bool *found)
{
	AUTO_KV_ROWS struct kv_rows rows = {0};
	struct kv_range range = {.prefix = key_bytes(&prefix), .rows_max = 1};
	assert(rt_on_loop(m->loop));
	int rc = kv_scan(m->kv, partition, &range, &rows);
	*found = rc == 0 && rows.count > 0;
	return rc;
}

int meta_back_off(struct meta *m, unsigned try)
{
	assert(try <= META_TRIES);
	m->stats.retries++;
	if (try >= META_TRIES)
		return -EAGAIN;
	if (try < 2)
		return rt_yield();
	uint64_t most = min_u64(BACK_OFF_MAX_NS, BACK_OFF_MIN_NS << (try < 10 ? try : 10));
	return rt_sleep_ns(BACK_OFF_MIN_NS + rt_random_u64() % most);
}
