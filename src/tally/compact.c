// SPDX-License-Identifier: Apache-2.0
/*
 * Compaction: the present state as a new log, which takes the old one's place by rename. Nothing is
 * acknowledged between the two, because the committer itself does it; readers of blobs keep the old
 * file as long as they need it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "tally/store.h"

#define WRITE_BYTES ((size_t)(1 * MIB))

struct snapshot {
	struct tally *t;
	struct rt_file *file;
	uint64_t salt;
	uint32_t chain;
	uint64_t offset; /* of the file, where the buffer begins */
	size_t used;
	uint8_t *bytes; /* room for WRITE_BYTES and the largest record */
};

static int snapshot_flush(struct snapshot *s)
{
	int rc = rt_file_write(s->file, s->bytes, s->used, s->offset);
	s->offset += s->used;
	s->used = 0;
	return rc;
}

/* Puts a record into the buffer, all but its data, which begin at the returned place. */
static uint8_t *snapshot_put(struct snapshot *s, struct log_record *r, const char *name)
{
	uint8_t *at = s->bytes + s->used;
	r->number = s->t->number;
	r->durable = s->t->number;
	r->chain = s->chain;
	memset(at, 0, log_record_size(r));
	size_t head = log_record_write(at, r, name, s->salt);
	s->chain = r->header_crc;
	s->used += log_record_size(r);
	return at + head;
}

/* All of them without a wait, because sessions come and go. */
static int snapshot_sessions(struct snapshot *s)
{
	const struct session *e;
	uint8_t *bytes =
		realloc(s->bytes, WRITE_BYTES + LOG_DATA_MAX +
					  map_count(&s->t->sessions) * 2 * LOG_RECORD_BYTES);
	if (bytes == NULL)
		return -ENOMEM;
	s->bytes = bytes;
	list_for_each_entry(e, &s->t->sessions_lru, link) {
		struct log_record r = {.kind = LOG_SESSION,
				       .client_id = e->client_id,
				       .seq = e->seq,
				       .value = e->value,
				       .data_len = (uint32_t)-e->rc};
		if (e->seq != 0)
			snapshot_put(s, &r, "");
	}
	return snapshot_flush(s);
}

static int snapshot_entry(struct snapshot *s, struct entry *e)
{
	if (e->is_counter) {
		struct log_record r = {
			.kind = LOG_COUNTER, .name_len = e->name_len, .value = e->value};
		snapshot_put(s, &r, e->name);
	}
	if (e->is_blob) {
		struct log_record r = {.kind = LOG_BLOB,
				       .name_len = e->name_len,
				       .data_len = e->blob_len,
				       .data_crc = e->blob_crc};
		uint8_t *data = snapshot_put(s, &r, e->name);
		e->new_offset = s->offset + (uint64_t)(data - s->bytes);
		int rc = tally_read_data(s->t->log->file, e->blob_offset, data, e->blob_len,
					 e->blob_crc);
		if (rc < 0)
			return rc;
	}
	return s->used >= WRITE_BYTES / 2 ? snapshot_flush(s) : 0;
}

static int snapshot_write(struct snapshot *s)
{
	struct entry *e;
	s->offset = LOG_FILE_HEADER_BYTES;
	int rc = snapshot_sessions(s);
	list_for_each_entry(e, &s->t->entries, link) {
		if (rc < 0)
			return rc;
		rc = snapshot_entry(s, e);
	}
	if (rc == 0)
		rc = snapshot_flush(s);
	if (rc < 0)
		return rc;
	struct log_file_header h = {
		.salt = s->salt, .base = s->t->number, .snapshot_end = s->offset};
	uint8_t head[LOG_FILE_HEADER_BYTES];
	log_file_header_write(head, &h);
	rc = rt_file_write(s->file, head, sizeof(head), 0);
	return rc < 0 ? rc : rt_file_sync(s->file);
}

/* The new file is whole and synced: from now on it is the log. */
static int snapshot_adopt(struct snapshot *s, struct tally_file *f)
{
	struct tally *t = s->t;
	char from[TALLY_PATH_MAX];
	char to[TALLY_PATH_MAX];
	int rc = tally_path(t, "tally.tmp", from);
	if (rc == 0)
		rc = tally_path(t, "tally.log", to);
	if (rc < 0)
		return rc;
	rc = rt_rename(from, to);
	if (rc == 0)
		rc = rt_dir_sync(t->dir);
	if (rc < 0) {
		/* Which of the two files has the name, or will have it after a crash, is not known (a
		 * rename may fail and yet have happened): neither may be written. */
		tally_fail(t, rc);
		return rc;
	}
	struct entry *e;
	list_for_each_entry(e, &t->entries, link)
		e->blob_offset = e->is_blob ? e->new_offset : 0;
	if (t->log != NULL)
		tally_file_unref(t->log);
	t->log = f;
	f->refs++;
	t->salt = s->salt;
	t->chain = s->chain;
	t->end = s->offset;
	t->unmarked = false; /* a snapshot is never taken for torn */
	return 0;
}

static int compact_into(struct tally *t, struct tally_file *f)
{
	struct snapshot s = {.t = t, .file = f->file, .salt = rt_random_u64()};
	s.chain = (uint32_t)s.salt;
	s.bytes = malloc(WRITE_BYTES);
	int rc = s.bytes != NULL ? snapshot_write(&s) : -ENOMEM;
	if (rc == 0)
		rc = snapshot_adopt(&s, f);
	free(s.bytes);
	return rc;
}

int tally_create(struct tally *t)
{
	char path[TALLY_PATH_MAX];
	int rc = tally_path(t, "tally.tmp", path);
	if (rc < 0)
		return rc;
	struct tally_file *f = calloc(1, sizeof(*f));
	if (f == NULL)
		return -ENOMEM;
	f->refs = 1;
	rc = rt_file_open(&f->file, path, RT_READ | RT_WRITE | RT_CREATE | RT_TRUNC);
	if (rc == 0)
		rc = compact_into(t, f);
	tally_file_unref(f);
	if (rc < 0)
		(void)rt_unlink(path);
	return rc;
}

int tally_compact(struct tally *t)
{
	int rc = tally_create(t);
	if (rc == 0) {
		t->stat.compactions++;
		t->compact_at = max_u64(t->opts.compact_min_bytes, 2 * t->end);
		return 0;
	}
	if (t->failed == 0)
		log_warn("tally_compaction_failed", "dir=%s err=%s", t->dir, err_name(rc));
	t->compact_at = 2 * t->end;
	return rc;
}
