// SPDX-License-Identifier: Apache-2.0
/*
 * Reads, on any loop. A get is first tried on the loop itself, from memory only (row cache, memtables, block cache): most
 * lookups of metadata are of hot keys, and a hop to another thread and back costs ten times the read. RocksDB
 * needs less than 20 KiB of the fiber's stack for it.
 */
#include <assert.h>
#include <errno.h>

#include "kv/rocks.h"
#include "kv/row_cache.h"
#include "kv/rows.h"
#include "rt/rt.h"

/*
 * Largest number of keys that a get reads on the loop. A get of more keys runs on an offload
 * thread: it would delay the loop and evict the rows of the row cache.
 */
#define INLINE_KEYS_MAX 16

struct get_job {
	struct rocks *rocks;
	uint64_t partition;
	const struct kv_bytes *keys;
	size_t n;
	struct kv_rows *rows;
	bool cached; /* true: read from memory only, and return -EAGAIN if that is not possible */
	int rc;
};

/* Reads key i, whose row has no value yet. */
static int get_one(struct get_job *j, const rocksdb_readoptions_t *options, size_t i)
{
	struct rocks_key key;
	rocks_key(&key, j->partition, j->keys[i]);
	char *message = NULL;
	rocksdb_pinnableslice_t *found =
		rocksdb_get_pinned(j->rocks->db, options, key.bytes, key.len, &message);
	if (message != NULL && j->cached) {
		/* Drop the message: the read that follows on an offload thread reports damage. */
		rocksdb_free(message);
		return -EAGAIN;
	}
	if (message != NULL)
		return rocks_error(j->rocks, "kv_get", message);
	if (found == NULL)
		return 0;
	struct kv_bytes value;
	value.data = rocksdb_pinnableslice_value(found, &value.len);
	int rc = kv_rows_fill(j->rows, i, value);
	rocksdb_pinnableslice_destroy(found);
	return rc;
}

/*
 * Reads the keys of a get from RocksDB; several keys are read from a snapshot, so that they show
 * one instant.
 */
static void get_run(void *arg)
{
	struct get_job *j = arg;
	struct rocks *r = j->rocks;
	kv_rows_clear(j->rows);
	for (size_t i = 0; i < j->n && j->rc == 0; i++)
		j->rc = kv_rows_answer(j->rows, j->keys[i], NULL);
	if (j->rc != 0)
		return;
	if (j->n == 1) {
		j->rc = get_one(j, j->cached ? r->read_cached : r->read, 0);
		return;
	}
	const rocksdb_snapshot_t *snapshot = rocksdb_create_snapshot(r->db);
	rocksdb_readoptions_t *options = rocksdb_readoptions_create();
	rocksdb_readoptions_set_snapshot(options, snapshot);
	if (j->cached)
		rocksdb_readoptions_set_read_tier(options, ROCKS_TIER_MEMORY);
	for (size_t i = 0; i < j->n && j->rc == 0; i++)
		j->rc = get_one(j, options, i);
	rocksdb_readoptions_destroy(options);
	rocksdb_release_snapshot(r->db, snapshot);
}

/* --- the row cache: its rules are in rocks.h ----------------------------------------------------- */

/* The state of a slot when a read began. */
struct slot_state {
	uint64_t version;
	uint32_t begins;
	bool writing;
};

/*
 * Puts the rows in `asked` (bit i: row i) into the row cache, unless a commit may have changed them since. Returns
 * whether a commit to the slot began since `before`.
 */
static bool rows_keep(struct get_job *j, const struct slot_state *before, uint32_t asked)
{
	struct rocks *r = j->rocks;
	size_t slot = rocks_slot(j->partition);
	struct rocks_shard *s = rocks_shard(r, slot);
	assert(j->rc == 0 && j->rows->count == j->n);
	pthread_mutex_lock(&s->lock);
	bool began = r->begins[slot] != before->begins;
	for (size_t i = 0; i < j->n && !began && !before->writing; i++) {
		const struct kv_row *row = &j->rows->row[i];
		if ((asked >> i & 1) != 0)
			row_cache_put(s->rows, j->partition, row->key,
				      row->found ? &row->value : NULL);
	}
	pthread_mutex_unlock(&s->lock);
	return began;
}

/* Answers the keys of a get that the row cache has. Returns those that it does not have: bit i for key i. */
static uint32_t get_kept(struct get_job *j, struct slot_state *state)
{
	struct rocks *r = j->rocks;
	size_t slot = rocks_slot(j->partition);
	struct rocks_shard *s = rocks_shard(r, slot);
	uint32_t missing = 0;
	pthread_mutex_lock(&s->lock);
	*state = (struct slot_state){r->versions[slot], r->begins[slot], r->writing[slot] != 0};
	for (size_t i = 0; j->cached && i < j->n && j->rc == 0; i++) {
		bool found = false;
		struct kv_bytes value;
		bool kept = row_cache_get(s->rows, j->partition, j->keys[i], &found, &value);
		missing |= (uint32_t)!kept << i;
		j->rows->rows_kept += kept;
		/* The rows are in the order of the keys: a key that is read later gets its row now. */
		j->rc = kv_rows_answer(j->rows, j->keys[i], kept && found ? &value : NULL);
	}
	pthread_mutex_unlock(&s->lock);
	return missing;
}

/*
 * Reads the keys on the loop, from the row cache or else from RocksDB's memory. Several keys from RocksDB show one
 * instant if RocksDB's sequence number did not change during the reads, and the keys of the cache show it, too, if no
 * commit to the slot began meanwhile; otherwise all keys are read again from a snapshot.
 */
static void get_inline(struct get_job *j, struct slot_state *state)
{
	struct rocks *r = j->rocks;
	assert(j->cached && j->n <= INLINE_KEYS_MAX);
	uint32_t asked = get_kept(j, state);
	uint64_t before = j->n > 1 ? rocksdb_get_latest_sequence_number(r->db) : 0;
	for (size_t i = 0; i < j->n && j->rc == 0; i++)
		if ((asked >> i & 1) != 0)
			j->rc = get_one(j, r->read_cached, i);
	if (j->rc != 0 || asked == 0)
		return;
	bool several = (asked & (asked - 1)) != 0;
	bool changed = several && rocksdb_get_latest_sequence_number(r->db) != before;
	bool began = rows_keep(j, state, changed ? 0 : asked);
	if (changed || (began && j->n > 1))
		get_run(j);
}

int rocks_get(struct kv *kv, uint64_t partition, const struct kv_bytes *keys, size_t n,
	      struct kv_rows *rows)
{
	struct rocks *r = rocks_of(kv);
	struct get_job j = {r, partition, keys, n, rows, n <= INLINE_KEYS_MAX, 0};
	struct slot_state state;
	bool few = j.cached;
	if (few)
		get_inline(&j, &state);
	else
		(void)get_kept(&j, &state);
	if (!few || j.rc == -EAGAIN) {
		j.cached = false;
		j.rc = 0;
		rows->offloaded++;
		int rc = rt_offload(get_run, &j);
		if (rc != 0)
			return rc;
		if (few && j.rc == 0)
			(void)rows_keep(&j, &state, (1U << n) - 1);
	}
	rows->version = state.version;
	return j.rc;
}

/* --- scans ------------------------------------------------------------------------------------ */

struct scan_job {
	struct rocks *rocks;
	uint64_t partition;
	const struct kv_range *range;
	struct kv_rows *rows;
	int rc;
};

/*
 * Changes k to the first key that is greater than all keys with the prefix k. Returns false if there
 * is no such key.
 */
static bool key_after(struct rocks_key *k)
{
	while (k->len > 0) {
		uint8_t last = (uint8_t)k->bytes[k->len - 1];
		if (last < UINT8_MAX) {
			k->bytes[k->len - 1] = (char)(last + 1);
			return true;
		}
		k->len--;
	}
	return false;
}

static int scan_rows(struct scan_job *j, rocksdb_iterator_t *it)
{
	for (; rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
		if (kv_rows_full(j->rows, j->range)) {
			j->rows->more = true;
			return 0;
		}
		struct kv_bytes key;
		struct kv_bytes value;
		key.data = rocksdb_iter_key(it, &key.len);
		value.data = rocksdb_iter_value(it, &value.len);
		if (key.len <= 8)
			return -EBADMSG;
		int rc = kv_rows_add(j->rows, kv_bytes((const char *)key.data + 8, key.len - 8),
				     value);
		if (rc != 0)
			return rc;
	}
	char *message = NULL;
	rocksdb_iter_get_error(it, &message);
	return message != NULL ? rocks_error(j->rocks, "kv_scan", message) : 0;
}

static void scan_run(void *arg)
{
	struct scan_job *j = arg;
	const struct kv_range *range = j->range;
	bool beyond = range->after.len > 0 && kv_compare(range->after, range->prefix) >= 0;
	struct rocks_key first;
	struct rocks_key end;
	rocks_key(&first, j->partition, beyond ? range->after : range->prefix);
	rocks_key(&end, j->partition, range->prefix);
	rocksdb_readoptions_t *options = rocksdb_readoptions_create();
	if (key_after(&end))
		rocksdb_readoptions_set_iterate_upper_bound(options, end.bytes, end.len);
	rocksdb_iterator_t *it = rocksdb_create_iterator(j->rocks->db, options);
	rocksdb_iter_seek(it, first.bytes, first.len);
	if (beyond && rocksdb_iter_valid(it)) {
		struct kv_bytes at;
		at.data = rocksdb_iter_key(it, &at.len);
		if (kv_equal(at, kv_bytes(first.bytes, first.len)))
			rocksdb_iter_next(it);
	}
	j->rc = scan_rows(j, it);
	rocksdb_iter_destroy(it);
	rocksdb_readoptions_destroy(options);
}

int rocks_scan(struct kv *kv, uint64_t partition, const struct kv_range *range,
	       struct kv_rows *rows)
{
	struct rocks *r = rocks_of(kv);
	struct scan_job j = {r, partition, range, rows, 0};
	size_t slot = rocks_slot(partition);
	struct rocks_shard *s = rocks_shard(r, slot);
	pthread_mutex_lock(&s->lock);
	uint64_t version = r->versions[slot];
	pthread_mutex_unlock(&s->lock);
	int rc = rt_offload(scan_run, &j);
	rows->version = version;
	return rc != 0 ? rc : j.rc;
}

/* --- the next partition that is not empty ---------------------------------------------------------- */

struct next_job {
	struct rocks *rocks;
	uint64_t from;
	uint64_t end;
	uint64_t next;
	int rc;
};

static uint64_t partition_of(const uint8_t *key)
{
	uint64_t p = 0;
	for (unsigned i = 0; i < 8; i++)
		p = p << 8 | key[i];
	return p;
}

static void next_run(void *arg)
{
	struct next_job *j = arg;
	struct rocks_key first;
	struct rocks_key end;
	rocks_key(&first, j->from, kv_text(""));
	rocks_key(&end, j->end, kv_text(""));
	rocksdb_readoptions_t *options = rocksdb_readoptions_create();
	rocksdb_readoptions_set_iterate_upper_bound(options, end.bytes, end.len);
	rocksdb_iterator_t *it = rocksdb_create_iterator(j->rocks->db, options);
	rocksdb_iter_seek(it, first.bytes, first.len);
	if (rocksdb_iter_valid(it)) {
		struct kv_bytes key;
		key.data = rocksdb_iter_key(it, &key.len);
		if (key.len <= 8)
			j->rc = -EBADMSG;
		else
			j->next = partition_of(key.data);
	}
	char *message = NULL;
	rocksdb_iter_get_error(it, &message);
	if (message != NULL)
		j->rc = rocks_error(j->rocks, "kv_next_partition", message);
	rocksdb_iter_destroy(it);
	rocksdb_readoptions_destroy(options);
}

int rocks_next_partition(struct kv *kv, uint64_t from, uint64_t end, uint64_t *next)
{
	struct next_job j = {.rocks = rocks_of(kv), .from = from, .end = end, .next = end};
	int rc = rt_offload(next_run, &j);
	if (rc == 0 && j.rc == 0)
		*next = j.next;
	return rc != 0 ? rc : j.rc;
}
