// SPDX-License-Identifier: Apache-2.0
/*
 * Backups of a database, by RocksDB's backup engine, in a folder of ours:
 *
 *   terrane-backup           two lines: "terrane metadata backup 1", then the owner. Written first
 *   lock                     locked by the process that uses the folder: two backup engines in one folder would delete
 *                            each other's files as left-overs
 *   meta/ private/ shared_checksum/    the backup engine's. Tables never change, so backups share them in shared_checksum/
 *
 * A backup has all transactions that were acknowledged when it began: memtables become tables first, then the engine keeps
 * RocksDB from deleting files while it copies them. It records a checksum of each file that it copies, and compares it
 * when a backup is restored.
 *
 * All blocking work runs on an offload thread. A process that ends waits for it.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "kv/rocks.h"
#include "kv/rocksdb.h"
#include "rt/file.h"
#include "rt/rt.h"

#define MARK_FILE "terrane-backup"
#define MARK_NEW MARK_FILE ".new"
#define MARK_HEAD "terrane metadata backup 1\n"
#define LOCK_FILE "lock"
#define MARK_MAX (sizeof(MARK_HEAD) + KV_BACKUP_OWNER_MAX + 1)
#define PATH_MAX_HERE 1100

/* --- the folder -------------------------------------------------------------------------------- */

static int path_in(char out[PATH_MAX_HERE], const char *dir, const char *name)
{
	int n = snprintf(out, PATH_MAX_HERE, "%s/%s", dir, name);
	return n < 0 || n >= PATH_MAX_HERE ? -ENAMETOOLONG : 0;
}

/* Reads the owner. -ENOENT: the folder has no mark; -EBADMSG: a mark of another format. */
static int mark_read(const char *dir, char owner[KV_BACKUP_OWNER_MAX + 1])
{
	char path[PATH_MAX_HERE], text[MARK_MAX + 1];
	struct rt_file *f;
	int rc = path_in(path, dir, MARK_FILE);
	if (rc == 0)
		rc = rt_file_open(&f, path, RT_READ);
	if (rc < 0)
		return rc;
	int64_t n = rt_file_read(f, text, MARK_MAX, 0);
	rt_file_close(f);
	if (n < 0)
		return (int)n;
	text[n] = 0;
	size_t head = strlen(MARK_HEAD), len = strlen(text);
	bool whole = len == (size_t)n && len > head + 1 && text[len - 1] == '\n' &&
		     len - head - 1 <= KV_BACKUP_OWNER_MAX;
	if (!whole || memcmp(text, MARK_HEAD, head) != 0 ||
	    strchr(text + head, '\n') != text + len - 1)
		return -EBADMSG;
	memcpy(owner, text + head, len - head - 1);
	owner[len - head - 1] = 0;
	return 0;
}

static int mark_write(const char *dir, const char *owner)
{
	char path[PATH_MAX_HERE], new[PATH_MAX_HERE], text[MARK_MAX];
	struct rt_file *f;
	int rc = path_in(path, dir, MARK_FILE);
	if (rc == 0)
		rc = path_in(new, dir, MARK_NEW);
	if (rc == 0)
		rc = rt_file_open(&f, new, RT_WRITE | RT_CREATE | RT_TRUNC);
	if (rc < 0)
		return rc;
	int n = snprintf(text, sizeof(text), MARK_HEAD "%s\n", owner);
	assert(n > 0 && (size_t)n < sizeof(text));
	rc = rt_file_write(f, text, (size_t)n, 0);
	if (rc == 0)
		rc = rt_file_sync(f);
	rt_file_close(f);
	if (rc == 0)
		rc = rt_rename(new, path);
	return rc == 0 ? rt_dir_sync(dir) : rc;
}

static bool is_ours(const char *name)
{
	return strcmp(name, MARK_NEW) == 0 || strcmp(name, LOCK_FILE) == 0;
}

static bool see_foreign(void *ctx, const char *name, bool is_dir)
{
	bool *foreign = ctx;
	*foreign = is_dir || !is_ours(name);
	return !*foreign;
}

static int folder_lock(const char *dir, struct rt_file **lock)
{
	char path[PATH_MAX_HERE];
	int rc = path_in(path, dir, LOCK_FILE);
	return rc < 0 ? rc : rt_file_open(lock, path, RT_WRITE | RT_CREATE | RT_LOCK);
}

/* Makes the folder, or checks that it has backups of this owner, and locks it. A folder that has other files is refused
 * before anything is written. */
static int folder_enter(const char *dir, const char *owner, struct rt_file **lock)
{
	char found[KV_BACKUP_OWNER_MAX + 1];
	int rc = rt_mkdir(dir);
	if (rc < 0 && rc != -EEXIST)
		return rc;
	rc = mark_read(dir, found);
	if (rc == 0 && strcmp(found, owner) != 0)
		return -EXDEV;
	bool fresh = rc == -ENOENT, foreign = false;
	if (fresh)
		rc = rt_dir_list(dir, see_foreign, &foreign);
	if (rc < 0 || foreign)
		return rc < 0 && rc != -EBADMSG ? rc : -EEXIST;
	rc = folder_lock(dir, lock);
	if (rc < 0)
		return rc;
	rc = fresh ? mark_write(dir, owner) : 0;
	if (rc < 0)
		rt_file_close(*lock);
	return rc;
}

/* --- the backup engine, on an offload thread ---------------------------------------------------- */

struct backup_job {
	const char *dir, *to;
	rocksdb_t *db;
	uint64_t number; /* of the backup to restore; 0: the last */
	unsigned keep;
	struct kv_backup *out;
	size_t max, count;
	int rc;
};

/* Sets the error of a job from a message of RocksDB, which may be NULL. Returns whether there was none. */
static bool went_well(struct backup_job *j, const char *event, char *message)
{
	assert(j->rc == 0);
	if (message != NULL)
		j->rc = rocks_error_in(j->dir, event, message);
	return message == NULL;
}

static rocksdb_backup_engine_t *engine_open(struct backup_job *j, const char *event)
{
	char *message = NULL;
	rocksdb_options_t *o = rocksdb_options_create();
	rocksdb_backup_engine_t *e = rocksdb_backup_engine_open(o, j->dir, &message);
	rocksdb_options_destroy(o);
	return went_well(j, event, message) ? e : NULL;
}

static void one_of(const rocksdb_backup_engine_info_t *info, int i, struct kv_backup *out)
{
	*out = (struct kv_backup){.number = rocksdb_backup_engine_info_backup_id(info, i),
				  .made_s = (uint64_t)rocksdb_backup_engine_info_timestamp(info, i),
				  .bytes = rocksdb_backup_engine_info_size(info, i),
				  .files = rocksdb_backup_engine_info_number_files(info, i)};
}

/* Lists the last backups, in the order of their numbers. */
static void list_newest(struct backup_job *j, rocksdb_backup_engine_t *e)
{
	const rocksdb_backup_engine_info_t *info = rocksdb_backup_engine_get_backup_info(e);
	size_t n = (size_t)rocksdb_backup_engine_info_count(info);
	for (size_t i = n > j->max ? n - j->max : 0; i < n; i++)
		one_of(info, (int)i, &j->out[j->count++]);
	assert(j->count <= j->max);
	rocksdb_backup_engine_info_destroy(info);
}

static void backup_run(void *arg)
{
	struct backup_job *j = arg;
	char *message = NULL;
	rocksdb_backup_engine_t *e = engine_open(j, "kv_backup");
	if (e == NULL)
		return;
	rocksdb_backup_engine_create_new_backup_flush(e, j->db, 1, &message);
	if (went_well(j, "kv_backup", message)) {
		list_newest(j, e);
		j->rc = j->count == 1 ? 0 : -EBADMSG;
	}
	if (j->rc == 0) {
		rocksdb_backup_engine_verify_backup(e, (uint32_t)j->out->number, &message);
		(void)went_well(j, "kv_backup", message);
	}
	if (j->rc == 0 && j->keep > 0) {
		rocksdb_backup_engine_purge_old_backups(e, j->keep, &message);
		(void)went_well(j, "kv_backup", message);
	}
	rocksdb_backup_engine_close(e);
}

static void list_run(void *arg)
{
	struct backup_job *j = arg;
	rocksdb_backup_engine_t *e = engine_open(j, "kv_backups");
	if (e == NULL)
		return;
	list_newest(j, e);
	rocksdb_backup_engine_close(e);
}

static bool has_number(rocksdb_backup_engine_t *e, uint64_t *number)
{
	const rocksdb_backup_engine_info_t *info = rocksdb_backup_engine_get_backup_info(e);
	int n = rocksdb_backup_engine_info_count(info);
	bool found = false;
	for (int i = 0; i < n && !found; i++) {
		uint64_t one = rocksdb_backup_engine_info_backup_id(info, i);
		found = *number == 0 ? i == n - 1 : *number == one;
		*number = found ? one : *number;
	}
	rocksdb_backup_engine_info_destroy(info);
	return found;
}

static void restore_run(void *arg)
{
	struct backup_job *j = arg;
	char *message = NULL;
	rocksdb_backup_engine_t *e = engine_open(j, "kv_restore");
	if (e == NULL)
		return;
	if (!has_number(e, &j->number)) {
		j->rc = -ENOENT;
	} else {
		rocksdb_restore_options_t *o = rocksdb_restore_options_create();
		rocksdb_backup_engine_restore_db_from_backup(e, j->to, j->to, o,
							     (uint32_t)j->number, &message);
		rocksdb_restore_options_destroy(o);
		(void)went_well(j, "kv_restore", message);
	}
	rocksdb_backup_engine_close(e);
}

/* Runs a job on an offload thread, to its end also when the fiber is cancelled: the job uses the caller's memory. */
static int job_run(void (*fn)(void *), struct backup_job *j)
{
	rt_shield_enter();
	int rc = rt_offload(fn, j);
	rt_shield_leave();
	return rc < 0 ? rc : j->rc;
}

/* --- on the loop -------------------------------------------------------------------------------- */

int rocks_backup(struct kv *kv, const struct kv_backup_request *q, struct kv_backup *out)
{
	struct rocks *r = rocks_of(kv);
	struct rt_file *lock;
	assert(rt_on_loop(r->loop));
	int rc = atomic_load(&r->write_error) != 0 ? -EROFS : folder_enter(q->dir, q->owner, &lock);
	if (rc < 0)
		return rc;
	struct backup_job j = {.dir = q->dir, .db = r->db, .keep = q->keep, .out = out, .max = 1};
	rc = job_run(backup_run, &j);
	rt_file_close(lock);
	return rc;
}

int64_t kv_rocksdb_backups(const char *dir, char *owner, struct kv_backup *out, size_t max)
{
	struct rt_file *lock;
	int rc = mark_read(dir, owner);
	if (rc == 0)
		rc = folder_lock(dir, &lock);
	if (rc < 0)
		return rc;
	struct backup_job j = {.dir = dir, .out = out, .max = max};
	rc = job_run(list_run, &j);
	rt_file_close(lock);
	return rc < 0 ? rc : (int64_t)j.count;
}

int kv_rocksdb_restore(const char *dir, uint64_t number, const char *to)
{
	char owner[KV_BACKUP_OWNER_MAX + 1];
	struct rt_file *lock;
	if (number > UINT32_MAX)
		return -ENOENT;
	int rc = mark_read(dir, owner);
	if (rc == 0)
		rc = rt_mkdir(to); /* fails if it exists */
	if (rc == 0)
		rc = folder_lock(dir, &lock);
	if (rc < 0)
		return rc;
	struct backup_job j = {.dir = dir, .to = to, .number = number};
	rc = job_run(restore_run, &j);
	rt_file_close(lock);
	return rc;
}
