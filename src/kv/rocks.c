// SPDX-License-Identifier: Apache-2.0
/* Opens, closes and verifies a database, and translates RocksDB's messages to error codes. */
#include "kv/rocks.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "kv/format.h"
#include "kv/rocksdb.h"
#include "kv/row_cache.h"
#include "rt/file.h"
#include "rt/real.h"
#include "rt/rt.h"

#define FORMAT_KEY "\0"
#define FORMAT_KEY_LEN 1
#define BLOOM_BITS_PER_KEY 10
/* size of the Bloom filter of a memtable, as a share of the memtable's size */
#define MEMTABLE_BLOOM_SHARE 0.05
#define BLOCK_BYTES (8 * KIB)
/*
 * in a RocksDB block, one key in this many is stored in full; the others as the difference from the
 * key before
 */
#define RESTART_KEYS 8
/* keys per slot of the hash table of a RocksDB block; a higher value gives more collisions */
#define BLOCK_HASH_FILL 0.5
#define CACHE_BYTES_MIN (8 * MIB)
#define CACHE_DEFAULT_MIN (256 * MIB)
/* the default size of the cache is the machine's memory divided by this */
#define CACHE_DEFAULT_PART 8
#define LOG_FILE_BYTES (4 * MIB)
#define WAL_TOLERATE_TORN_TAIL 0 /* RocksDB's kTolerateCorruptedTailRecords */
#define WAL_CUT_AT_DAMAGE 2      /* RocksDB's kPointInTimeRecovery */
#define INFO_LOG_WARN 2
#define COMPRESSION_LZ4 4

/* --- keys and errors -------------------------------------------------------------------------- */

void rocks_key(struct rocks_key *out, uint64_t partition, struct kv_bytes key)
{
	for (unsigned i = 0; i < 8; i++)
		out->bytes[i] = (char)(partition >> (56 - 8 * i));
	assert(key.len <= KV_KEY_MAX);
	if (key.len > 0)
		memcpy(out->bytes + 8, key.data, key.len);
	out->len = 8 + key.len;
}

static bool has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/*
 * Returns the error code for an error message of RocksDB. RocksDB's C interface has no codes, only the
 * text of its Status.
 */
static int message_error(const char *m)
{
	if (has_prefix(m, "Corruption"))
		return -EBADMSG;
	if (strstr(m, "/LOCK: ") != NULL || strstr(m, "lock hold by current process") != NULL)
		return -EBUSY;
	if (strstr(m, "No space left") != NULL)
		return -ENOSPC;
	if (strstr(m, "Permission denied") != NULL)
		return -EACCES;
	if (strstr(m, "Not a directory") != NULL)
		return -ENOTDIR;
	if (strstr(m, "No such file") != NULL)
		return -ENOENT;
	if (has_prefix(m, "Invalid argument") || has_prefix(m, "Not implemented"))
		return -EINVAL;
	return -EIO;
}

int rocks_error_in(const char *dir, const char *event, char *message)
{
	assert(message != NULL);
	int rc = message_error(message);
	log_error(event, "dir=%s err=%s rocksdb=%s", LOG_QUOTE(dir), err_name(rc),
		  LOG_QUOTE(message));
	rocksdb_free(message);
	return rc;
}

int rocks_error(const struct rocks *r, const char *event, char *message)
{
	return rocks_error_in(r->dir, event, message);
}

/* --- opening: on an offload thread ------------------------------------------------------------ */

struct open_job {
	struct rocks *rocks;
	const struct kv_rocksdb_options *options;
	int rc;
};

static void set_tables(struct rocks *r)
{
	rocksdb_block_based_table_options_t *t = rocksdb_block_based_options_create();
	rocksdb_block_based_options_set_block_cache(t, r->cache);
	rocksdb_block_based_options_set_block_size(t, BLOCK_BYTES);
	rocksdb_block_based_options_set_block_restart_interval(t, RESTART_KEYS);
	rocksdb_block_based_options_set_data_block_index_type(
		t, rocksdb_block_based_table_data_block_index_type_binary_search_and_hash);
	rocksdb_block_based_options_set_data_block_hash_ratio(t, BLOCK_HASH_FILL);
	/* Keep indexes and filters in the block cache, so that its size bounds their memory too. */
	rocksdb_block_based_options_set_cache_index_and_filter_blocks(t, 1);
	rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(t, 1);
	rocksdb_block_based_options_set_filter_policy(
		t, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS_PER_KEY));
	rocksdb_block_based_options_set_format_version(t, 5);
	rocksdb_options_set_block_based_table_factory(r->options, t);
	rocksdb_block_based_options_destroy(t);
}

static uint64_t cache_bytes(const struct kv_rocksdb_options *o)
{
	if (o->cache_bytes != 0)
		return max_u64(CACHE_BYTES_MIN, o->cache_bytes);
	return max_u64(CACHE_DEFAULT_MIN, rt_real_memory_bytes() / CACHE_DEFAULT_PART);
}

static void set_options(struct rocks *r, const struct kv_rocksdb_options *o)
{
	uint64_t cache = cache_bytes(o) / 2; /* the other half is for the row cache */
	uint64_t memtables = o->memtable_bytes != 0 ? o->memtable_bytes : 32 * MIB;
	rocksdb_options_t *opt = rocksdb_options_create();
	r->options = opt;
	r->cache = rocksdb_cache_create_lru(cache);
	rocksdb_options_set_create_if_missing(opt, !o->only_existing);
	rocksdb_options_set_paranoid_checks(opt, 1);
	rocksdb_options_set_wal_recovery_mode(opt, o->salvage ? WAL_CUT_AT_DAMAGE
							      : WAL_TOLERATE_TORN_TAIL);
	rocksdb_options_set_write_buffer_size(opt, memtables / 2);
	rocksdb_options_set_max_write_buffer_number(opt, 3);
	rocksdb_options_set_db_write_buffer_size(opt, memtables);
	rocksdb_options_set_max_total_wal_size(opt, memtables);
	/* Most keys are looked up in vain in the memtables; a Bloom filter makes that cheap. */
	rocksdb_options_set_memtable_prefix_bloom_size_ratio(opt, MEMTABLE_BLOOM_SHARE);
	rocksdb_options_set_memtable_whole_key_filtering(opt, 1);
	rocksdb_options_set_max_background_jobs(opt, 2);
	/* No limit of open files: every table is opened, and its index verified, at open. */
	rocksdb_options_set_max_open_files(opt, -1);
	rocksdb_options_set_level_compaction_dynamic_level_bytes(opt, 1);
	rocksdb_options_set_compression(opt, COMPRESSION_LZ4);
	rocksdb_options_set_bytes_per_sync(opt, MIB);
	rocksdb_options_set_info_log_level(opt, INFO_LOG_WARN);
	rocksdb_options_set_max_log_file_size(opt, LOG_FILE_BYTES);
	rocksdb_options_set_keep_log_file_num(opt, 4);
	set_tables(r);
	r->read = rocksdb_readoptions_create();
	r->read_cached = rocksdb_readoptions_create();
	rocksdb_readoptions_set_read_tier(r->read_cached, ROCKS_TIER_MEMORY);
	r->write_synced = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_sync(r->write_synced, 1);
	r->write_early = rocksdb_writeoptions_create();
	r->write_now = rocksdb_writeoptions_create();
	rocksdb_writeoptions_set_no_slowdown(r->write_now, 1);
}

static bool is_empty(struct rocks *r)
{
	rocksdb_iterator_t *it = rocksdb_create_iterator(r->db, r->read);
	rocksdb_iter_seek_to_first(it);
	bool empty = !rocksdb_iter_valid(it);
	rocksdb_iter_destroy(it);
	return empty;
}

static int format_make(struct rocks *r, bool only_existing)
{
	if (!is_empty(r)) {
		log_error(
			"kv_open",
			"dir=%s err=EBADMSG what=\"the folder holds a RocksDB database of another "
			"program: it has keys and no format record\"",
			LOG_QUOTE(r->dir));
		return -EBADMSG;
	}
	uint8_t record[KV_FORMAT_BYTES];
	kv_format_write(record, KV_FORMAT_VERSION);
	if (only_existing)
		return -ENOENT;
	char *message = NULL;
	rocksdb_put(r->db, r->write_synced, FORMAT_KEY, FORMAT_KEY_LEN, (char *)record,
		    sizeof(record), &message);
	return message != NULL ? rocks_error(r, "kv_open", message) : 0;
}

static int format_settle(struct rocks *r, bool only_existing)
{
	char *message = NULL;
	struct kv_bytes record;
	char *found =
		rocksdb_get(r->db, r->read, FORMAT_KEY, FORMAT_KEY_LEN, &record.len, &message);
	if (message != NULL)
		return rocks_error(r, "kv_open", message);
	if (found == NULL)
		return format_make(r, only_existing);
	record.data = found;
	int rc = kv_format_check(record);
	rocksdb_free(found);
	if (rc != 0)
		log_error(
			"kv_open",
			"dir=%s err=%s what=\"the format record is damaged or of a later version\"",
			LOG_QUOTE(r->dir), err_name(rc));
	return rc;
}

static void open_run(void *arg)
{
	struct open_job *j = arg;
	struct rocks *r = j->rocks;
	set_options(r, j->options);
	char *message = NULL;
	r->db = rocksdb_open(r->options, r->dir, &message);
	if (message != NULL) {
		j->rc = rocks_error(r, "kv_open", message);
		if (j->rc == -EBADMSG)
			log_error("kv_open",
				  "dir=%s remedy=\"restore a backup; or start once with salvage, "
				  "which "
				  "loses every transaction after the damage\"",
				  LOG_QUOTE(r->dir));
		return;
	}
	j->rc = format_settle(r, j->options->only_existing);
	uint64_t sequence = rocksdb_get_latest_sequence_number(r->db);
	for (size_t i = 0; i < ROCKS_VERSION_SLOTS; i++)
		r->versions[i] = sequence;
}

static void close_run(void *arg)
{
	struct rocks *r = arg;
	if (r->db != NULL) {
		rocksdb_cancel_all_background_work(r->db, 1);
		rocksdb_close(r->db);
	}
	if (r->options == NULL)
		return;
	rocksdb_readoptions_destroy(r->read);
	rocksdb_readoptions_destroy(r->read_cached);
	rocksdb_writeoptions_destroy(r->write_synced);
	rocksdb_writeoptions_destroy(r->write_early);
	rocksdb_writeoptions_destroy(r->write_now);
	rocksdb_options_destroy(r->options);
	rocksdb_cache_destroy(r->cache);
}

/* --- on the loop ------------------------------------------------------------------------------ */

static void shards_close(struct rocks *r)
{
	for (size_t i = 0; i < r->shard_count; i++) {
		row_cache_close(r->shards[i].rows);
		pthread_mutex_destroy(&r->shards[i].lock);
	}
	r->shard_count = 0;
}

/* Opens as many shards as have a useful row cache; bytes: memory of all row caches. */
static int shards_open(struct rocks *r, uint64_t bytes)
{
	size_t count = 1;
	while (count < ROCKS_SHARDS_MAX && bytes / (2 * count) >= ROCKS_SHARD_ROWS)
		count *= 2;
	int rc = 0;
	while (rc == 0 && r->shard_count < count) {
		struct rocks_shard *s = &r->shards[r->shard_count];
		rc = row_cache_open(&s->rows, bytes / count);
		if (rc != 0)
			break;
		pthread_mutex_init(&s->lock, NULL);
		r->shard_count++;
	}
	assert(rc != 0 || ROCKS_VERSION_SLOTS % r->shard_count == 0);
	return rc;
}

static void rocks_close(struct kv *kv)
{
	struct rocks *r = rocks_of(kv);
	assert(rt_on_loop(r->loop));
	for (size_t i = 0; i < ROCKS_LANES; i++)
		assert(kv_queue_idle(&r->lanes[i].queue));
	if (r->write_error != 0) {
		/*
		 * Closing would write to the log again. RocksDB asserts that no write follows a failed
		 * one, and Debian's build keeps the assertion. So do not close: leave the files as a
		 * crash would leave them.
		 */
		log_error("kv_abandoned", "dir=%s err=%s", LOG_QUOTE(r->dir),
			  err_name(atomic_load(&r->write_error)));
		return;
	}
	rt_shield_enter();
	(void)rt_offload(close_run, r);
	rt_shield_leave();
	shards_close(r);
	free(r->dir);
	free(r);
}

static int rocks_health(const struct kv *kv)
{
	return atomic_load(&container_of(kv, const struct rocks, base)->write_error);
}

static const struct kv_ops rocks_ops = {
	.name = "rocksdb",
	.get = rocks_get,
	.scan = rocks_scan,
	.txn = rocks_txn,
	.next_partition = rocks_next_partition,
	.health = rocks_health,
	.close = rocks_close,
	.backup = rocks_backup,
	.reads_anywhere = true,
};

/*
 * Returns 0 if the folder has a RocksDB database. Checked before RocksDB opens the folder, because RocksDB
 * creates the folder even if it may not create a database.
 */
static int find_database(const char *dir)
{
	AUTO_FREE char *path = NULL;
	struct rt_file *f = NULL;
	if (asprintf(&path, "%s/CURRENT", dir) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	int rc = rt_file_open(&f, path, RT_READ);
	if (rc == 0)
		rt_file_close(f);
	return rc;
}

int kv_rocksdb_open(struct kv **out, const struct kv_rocksdb_options *options)
{
	int rc = options->only_existing ? find_database(options->dir) : 0;
	if (rc != 0)
		return rc;
	struct rocks *r = aligned_alloc(_Alignof(struct rocks), sizeof(*r));
	if (r == NULL)
		return -ENOMEM;
	memset(r, 0, sizeof(*r));
	r->base.ops = &rocks_ops;
	r->loop = rt_loop_self();
	r->dir = strdup(options->dir);
	if (r->dir == NULL || shards_open(r, cache_bytes(options) / 2) != 0) {
		shards_close(r);
		free(r->dir);
		free(r);
		return -ENOMEM;
	}
	rocks_lanes_init(r, options->batch_txns_max);
	struct open_job j = {.rocks = r, .options = options};
	rc = rt_offload(open_run, &j);
	rc = rc != 0 ? rc : j.rc;
	if (rc != 0) {
		rocks_close(&r->base);
		return rc;
	}
	*out = &r->base;
	return 0;
}

/* --- verification ---------------------------------------------------------------------- */

struct verify_job {
	struct rocks *rocks;
	uint64_t keys;
	int rc;
};

/*
 * Reads and verifies all tables. Flushes the memtables first, so that every key is read from a
 * table.
 */
static void verify_run(void *arg)
{
	struct verify_job *j = arg;
	struct rocks *r = j->rocks;
	char *message = NULL;
	rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
	rocksdb_flush(r->db, flush, &message);
	rocksdb_flushoptions_destroy(flush);
	if (message != NULL) {
		j->rc = rocks_error(r, "kv_verify", message);
		return;
	}
	rocksdb_readoptions_t *options = rocksdb_readoptions_create();
	rocksdb_readoptions_set_verify_checksums(options, 1);
	rocksdb_readoptions_set_fill_cache(options, 0);
	rocksdb_iterator_t *it = rocksdb_create_iterator(r->db, options);
	for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
		size_t len;
		(void)rocksdb_iter_key(it, &len);
		j->keys += len > 8;
	}
	rocksdb_iter_get_error(it, &message);
	if (message != NULL)
		j->rc = rocks_error(r, "kv_verify", message);
	rocksdb_iter_destroy(it);
	rocksdb_readoptions_destroy(options);
}

int kv_rocksdb_verify(struct kv *kv, uint64_t *keys)
{
	struct verify_job j = {.rocks = rocks_of(kv)};
	assert(rt_on_loop(j.rocks->loop));
	int rc = rt_offload(verify_run, &j);
	*keys = j.keys;
	return rc != 0 ? rc : j.rc;
}
