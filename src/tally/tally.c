// SPDX-License-Identifier: Apache-2.0
#include "tally/tally.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "tally/store.h"

int tally_path(const struct tally *t, const char *name, char out[TALLY_PATH_MAX])
{
	int n = snprintf(out, TALLY_PATH_MAX, "%s/%s", t->dir, name);
	return n < 0 || n >= TALLY_PATH_MAX ? -ENAMETOOLONG : 0;
}

void tally_file_unref(struct tally_file *f)
{
	if (--f->refs > 0)
		return;
	if (f->file != NULL)
		rt_file_close(f->file);
	free(f);
}

/* --- opening and closing --------------------------------------------------------------------- */

static void tally_set_options(struct tally *t, const struct tally_options *o)
{
	t->opts = *o;
	if (t->opts.size_max_bytes == 0)
		t->opts.size_max_bytes = 64 * MIB;
	if (t->opts.compact_min_bytes == 0)
		t->opts.compact_min_bytes = 4 * MIB;
	if (t->opts.session_max == 0)
		t->opts.session_max = 4096;
	if (t->opts.session_idle_ns == 0)
		t->opts.session_idle_ns = 3600 * NS_PER_S;
	t->compact_at = t->opts.compact_min_bytes;
}

static int tally_lock(struct tally *t)
{
	char path[TALLY_PATH_MAX];
	int rc = tally_path(t, "lock", path);
	return rc < 0 ? rc : rt_file_open(&t->lock, path, RT_READ | RT_WRITE | RT_CREATE | RT_LOCK);
}

static int tally_open_log(struct tally *t)
{
	char path[TALLY_PATH_MAX];
	int rc = tally_path(t, "tally.log", path);
	if (rc < 0)
		return rc;
	t->log = calloc(1, sizeof(*t->log));
	if (t->log == NULL)
		return -ENOMEM;
	t->log->refs = 1;
	rc = rt_file_open(&t->log->file, path, RT_READ | RT_WRITE);
	if (rc == 0) {
		/* A crash may have come between the renaming of a new log and the sync of its name. */
		rc = rt_dir_sync(t->dir);
		return rc < 0 ? rc : tally_recover(t);
	}
	tally_file_unref(t->log);
	t->log = NULL;
	return rc == -ENOENT ? tally_create(t) : rc;
}

static void tally_free(struct tally *t)
{
	if (t->log != NULL)
		tally_file_unref(t->log);
	if (t->lock != NULL)
		rt_file_close(t->lock);
	state_fini(t);
	free(t);
}

int tally_open(struct tally **out, const struct tally_options *o)
{
	*out = NULL;
	struct tally *t = calloc(1, sizeof(*t));
	if (t == NULL)
		return -ENOMEM;
	tally_set_options(t, o);
	list_init(&t->queue);
	rt_cond_init(&t->work);
	rt_cond_init(&t->room);
	rt_cond_init(&t->failure);
	state_init(t);
	int n = snprintf(t->dir, sizeof(t->dir), "%s", o->dir);
	int rc = n < 0 || (size_t)n >= sizeof(t->dir) ? -ENAMETOOLONG : 0;
	if (rc == 0)
		rc = tally_lock(t);
	if (rc == 0)
		rc = tally_open_log(t);
	if (rc == 0)
		rc = commit_start(t);
	if (rc < 0) {
		tally_free(t);
		return rc;
	}
	*out = t;
	return 0;
}

void tally_close(struct tally *t)
{
	if (t == NULL)
		return;
	commit_stop(t);
	tally_free(t);
}

int tally_wait_failed(struct tally *t)
{
	while (t->failed == 0) {
		int rc = rt_cond_wait(&t->failure);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* --- reading --------------------------------------------------------------------------------- */

static int find(struct tally *t, const char *name, struct entry **out)
{
	size_t len = strlen(name);
	if (len == 0)
		return -EINVAL;
	if (len > TALLY_NAME_MAX)
		return -ENAMETOOLONG;
	*out = state_entry(t, name, len);
	return 0;
}

int tally_get(struct tally *t, const char *name, int64_t *value)
{
	struct entry *e = NULL;
	int rc = find(t, name, &e);
	*value = e != NULL ? e->value : 0;
	return rc;
}

int tally_blob_find(struct tally *t, const char *name, struct tally_blob *out)
{
	struct entry *e = NULL;
	int rc = find(t, name, &e);
	if (rc < 0)
		return rc;
	if (e == NULL || !e->is_blob)
		return -ENOENT;
	*out = (struct tally_blob){
		.file = t->log, .offset = e->blob_offset, .len = e->blob_len, .crc = e->blob_crc};
	out->file->refs++;
	return 0;
}

int tally_read_data(struct rt_file *f, uint64_t offset, uint8_t *dst, uint32_t len, uint32_t crc)
{
	int64_t n = rt_file_read(f, dst, len, offset);
	if (n < 0)
		return (int)n;
	return (size_t)n == len && crc32c(0, dst, len) == crc ? 0 : -EBADMSG;
}

int tally_blob_read(const struct tally_blob *b, uint8_t *dst)
{
	return tally_read_data(b->file->file, b->offset, dst, b->len, b->crc);
}

void tally_blob_release(struct tally_blob *b)
{
	tally_file_unref(b->file);
	b->file = NULL;
}

void tally_stat(const struct tally *t, struct tally_stat *out)
{
	*out = t->stat;
	out->live_bytes = t->live_bytes;
	out->log_bytes = t->end;
	out->sessions = map_count(&t->sessions);
	out->changes = t->number;
	out->failed = t->failed != 0;
}
