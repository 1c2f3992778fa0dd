// SPDX-License-Identifier: Apache-2.0
#include "roles/meta_restore.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/log.h"
#include "meta/meta.h"
#include "rt/file.h"
#include "rt/rt.h"

#define PART ".restoring"
#define KEPT ".before-restore"
#define KEPT_MAX 1000 /* stores that were replaced and are kept */
#define PATH_BYTES 600

static int path_of(char out[PATH_BYTES], const char *dir, const char *end)
{
	int n = snprintf(out, PATH_BYTES, "%s%s", dir, end);
	return n < 0 || n >= PATH_BYTES ? -ENAMETOOLONG : 0;
}

/* --- folders ------------------------------------------------------------------------------------ */

struct first {
	char name[256];
	bool found, is_dir;
};

static bool see_first(void *ctx, const char *name, bool is_dir)
{
	struct first *f = ctx;
	f->found = true;
	f->is_dir = is_dir;
	snprintf(f->name, sizeof(f->name), "%s", name);
	return false;
}

/* Removes a folder of files. 0 also if it does not exist. */
static int folder_remove(const char *dir)
{
	for (;;) {
		struct first f = {.found = false};
		char path[PATH_BYTES + 300];
		int rc = rt_dir_list(dir, see_first, &f);
		if (rc == 0 && !f.found)
			rc = rt_rmdir(dir);
		else if (rc == 0 && f.is_dir)
			rc = -ENOTEMPTY;
		else if (rc == 0) {
			snprintf(path, sizeof(path), "%s/%s", dir, f.name);
			rc = rt_unlink(path);
		}
		if (rc < 0 || !f.found)
			return rc == -ENOENT ? 0 : rc;
	}
}

/* Sets *exists to whether the folder exists. */
static int folder_exists(const char *dir, bool *exists)
{
	struct first f = {.found = false};
	int rc = rt_dir_list(dir, see_first, &f);
	*exists = rc != -ENOENT;
	return rc == -ENOENT ? 0 : rc;
}

static int parent_sync(const char *dir)
{
	char parent[PATH_BYTES];
	const char *end = strrchr(dir, '/');
	if (end == NULL)
		return rt_dir_sync(".");
	size_t len = (size_t)(end - dir);
	memcpy(parent, dir, len);
	parent[len] = 0;
	return rt_dir_sync(len == 0 ? "/" : parent);
}

/* --- steps -------------------------------------------------------------------------------------- */

static int store_open(const struct meta_restore *r, const char *dir, struct kv **kv)
{
	return kv_rocksdb_open(
		kv, &(struct kv_rocksdb_options){.dir = dir,
						 .cache_bytes = r->conf->cache_bytes,
						 .memtable_bytes = r->conf->memtable_bytes,
						 .only_existing = true});
}

/* Finds the backup, so that a wrong number is refused before anything is copied. */
static int find(struct meta_restore *r)
{
	static const size_t max = META_BACKUPS_MAX;
	AUTO_FREE struct kv_backup *all = calloc(max, sizeof(*all));
	char owner[KV_BACKUP_OWNER_MAX + 1];
	if (all == NULL)
		return -ENOMEM;
	int64_t n = kv_rocksdb_backups(r->from, owner, all, max);
	for (int64_t i = 0; i < n; i++)
		if (r->number == 0 ? i == n - 1 : all[i].number == r->number)
			r->backup = all[i];
	return n < 0 ? (int)n : r->backup.number == 0 ? -ENOENT : 0;
}

/* Checks that the folder of the store has no store, or one that may be replaced and that no server uses. */
static int store_free(struct meta_restore *r, bool *exists)
{
	int rc = folder_exists(r->conf->dir, exists);
	if (rc < 0 || !*exists)
		return rc;
	if (!r->replace)
		return -EEXIST;
	struct kv *kv = NULL;
	rc = store_open(r, r->conf->dir, &kv);
	kv_close(kv);
	return rc == -EBUSY ? rc : 0; /* a store that is damaged can be replaced, too */
}

static void options_of(const struct meta_restore *r, struct meta_options *o)
{
	meta_options_init(o);
	o->partition_bits = (unsigned)r->conf->partition_bits;
	o->cache_bytes = 0;
	o->only_existing = true;
}

static int check(struct meta_restore *r, struct kv *kv)
{
	struct meta *m = NULL;
	struct meta_options o;
	uint64_t keys = 0;
	options_of(r, &o);
	int rc = kv_rocksdb_verify(kv, &keys);
	if (rc == 0)
		rc = meta_open(&m, kv, &o);
	if (rc == 0)
		rc = meta_check(m, &r->check, &r->report);
	meta_close(m);
	return rc == 0 && r->report.errors > 0 && !r->force ? -EBADMSG : rc;
}

static int prepare(struct meta_restore *r, struct kv *kv)
{
	struct meta_options o;
	struct tm utc;
	char when[40], why[META_GC_WHY_MAX];
	time_t made = (time_t)r->backup.made_s;
	options_of(r, &o);
	if (gmtime_r(&made, &utc) == NULL ||
	    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &utc) == 0)
		return -EOVERFLOW;
	snprintf(why, sizeof(why),
		 "the metadata was restored from backup %" PRIu64
		 " of %s: chunks that were stored later belong to no file",
		 r->backup.number, when);
	return meta_restored(kv, &o, why, &r->restored);
}

/* Gives the restored store its name, and the old one another. A crash in between leaves both beside each other. */
static int swap(struct meta_restore *r, const char *part, bool exists)
{
	const char *dir = r->conf->dir;
	int rc = 0;
	for (unsigned i = 0; rc == 0 && exists && i < KEPT_MAX; i++) {
		char end[40];
		bool taken = false;
		snprintf(end, sizeof(end), KEPT "-%u", i + 1);
		rc = path_of(r->kept, dir, end);
		if (rc == 0)
			rc = folder_exists(r->kept, &taken);
		if (rc == 0 && !taken) {
			rc = rt_rename(dir, r->kept);
			exists = false;
		}
	}
	if (rc == 0 && exists)
		rc = -EEXIST;
	if (rc == 0)
		rc = rt_rename(part, dir);
	return rc == 0 ? parent_sync(dir) : rc;
}

static int check_and_prepare(struct meta_restore *r, const char *part)
{
	struct kv *kv = NULL;
	r->stage = RESTORE_CHECK;
	int rc = store_open(r, part, &kv);
	if (rc == 0)
		rc = check(r, kv);
	if (rc == 0 && !r->verify) {
		r->stage = RESTORE_PREPARE;
		rc = prepare(r, kv);
	}
	kv_close(kv);
	return rc;
}

static int run(struct meta_restore *r)
{
	char part[PATH_BYTES];
	bool exists = false;
	r->stage = RESTORE_FIND;
	int rc = find(r);
	if (rc == 0 && !r->verify) {
		r->stage = RESTORE_STORE;
		rc = store_free(r, &exists);
	}
	if (rc < 0)
		return rc;
	r->stage = RESTORE_COPY;
	rc = r->verify ? path_of(part, r->from, "/verify") : path_of(part, r->conf->dir, PART);
	if (rc == 0)
		rc = folder_remove(part); /* of a restore that was interrupted */
	if (rc < 0)
		return rc;
	rc = kv_rocksdb_restore(r->from, r->backup.number, part);
	if (rc == 0)
		rc = check_and_prepare(r, part);
	if (rc == 0 && !r->verify) {
		r->stage = RESTORE_SWAP;
		rc = swap(r, part, exists);
	}
	if (rc < 0 || r->verify)
		(void)folder_remove(part);
	return rc;
}

void meta_restore_main(void *restore)
{
	struct meta_restore *r = restore;
	assert(r->conf->engine == META_ENGINE_ROCKSDB && r->from[0] == '/');
	rt_background();
	r->rc = run(r);
}

void meta_backups_main(void *backups)
{
	struct meta_backups *b = backups;
	rt_background();
	b->count = kv_rocksdb_backups(b->dir, b->owner, b->list, META_BACKUPS_MAX);
}
