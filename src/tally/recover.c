// SPDX-License-Identifier: Apache-2.0
/* Reading a log: log.h says by which rule. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/log.h"
#include "tally/store.h"

#define WINDOW_BYTES (4 * MIB) /* larger than any record */
#define SCANS_MAX 4

/* A view of the file that moves forward. */
struct window {
	struct rt_file *file;
	uint64_t size;
	uint8_t *bytes;
	uint64_t start;
	size_t len;
};

/* Up to want bytes from offset; fewer only at the end of the file. */
static int window_at(struct window *w, uint64_t offset, size_t want, const uint8_t **at,
		     size_t *len)
{
	want = min_u64(want, offset < w->size ? w->size - offset : 0);
	if (offset < w->start || offset + want > w->start + w->len) {
		size_t n = min_u64(WINDOW_BYTES, w->size - min_u64(offset, w->size));
		int64_t got = rt_file_read(w->file, w->bytes, n, offset);
		if (got < 0)
			return (int)got;
		if ((size_t)got < n)
			return -EIO;
		w->start = offset;
		w->len = n;
	}
	*at = w->bytes + (offset - w->start);
	*len = want;
	return 0;
}

struct recovery {
	struct tally *t;
	struct window w;
	struct log_file_header head;
	bool damaged;
	uint64_t offset;  /* of the next record */
	uint64_t durable; /* the highest number known to be synced */
	/* Where the records after it begin, and the number and chain before them. */
	uint64_t tail_offset;
	uint64_t tail_number;
	uint32_t tail_chain;
};

static bool record_belongs(const struct recovery *v, const struct log_record *r)
{
	if (r->chain != v->t->chain)
		return false;
	if (v->offset < v->head.snapshot_end)
		return !log_kind_is_change(r->kind) && r->number == v->head.base;
	if (r->kind == LOG_MARK)
		return r->number == v->t->number && r->durable == r->number;
	/* A batch says in each of its records that all before the batch is durable. */
	return log_kind_is_change(r->kind) && r->number == v->t->number + 1 &&
	       (r->durable == v->t->number || r->durable == v->durable);
}

/* Reads the record at v->offset. 0: *bytes are all of its bytes, checked, until the next read; NULL
 * when no whole one is there. */
static int read_record(struct recovery *v, struct log_record *r, const uint8_t **bytes)
{
	const uint8_t *at = NULL;
	size_t len = 0;
	*bytes = NULL;
	int rc = window_at(&v->w, v->offset, LOG_RECORD_BYTES + LOG_NAME_MAX, &at, &len);
	if (rc < 0)
		return rc;
	if (log_record_read(r, at, len, v->head.salt) < 0 || !record_belongs(v, r) ||
	    log_record_size(r) > v->w.size - v->offset)
		return 0;
	/* To have it in one piece the window may move, which reads all of it again. */
	rc = window_at(&v->w, v->offset, log_record_size(r), &at, &len);
	if (rc < 0)
		return rc;
	if (log_record_read(r, at, len, v->head.salt) < 0 || !record_belongs(v, r) ||
	    log_record_size(r) > len)
		return 0;
	const uint8_t *data = at + LOG_RECORD_BYTES + r->name_len;
	if (r->kind == LOG_SESSION || crc32c(0, data, log_record_data(r)) == r->data_crc)
		*bytes = at;
	return 0;
}

static int apply_record(struct recovery *v, const struct log_record *r, const char *name)
{
	struct tally *t = v->t;
	struct entry *e = NULL;
	struct session *s = NULL;
	uint64_t data = v->offset + LOG_RECORD_BYTES + r->name_len;
	int rc = 0;
	if (r->kind != LOG_SESSION && r->kind != LOG_END && r->kind != LOG_MARK)
		rc = state_entry_add(t, name, r->name_len, &e);
	if (rc == 0 && (r->kind == LOG_ADD || r->kind == LOG_PUT || r->kind == LOG_SESSION))
		rc = state_session_add(t, r->client_id, &s);
	if (rc < 0)
		return rc;
	switch (r->kind) {
	case LOG_ADD:
		state_apply_add(t, s, r->seq, e, r->value);
		break;
	case LOG_PUT:
		state_apply_put(t, s, r->seq, e, data, r->data_len, r->data_crc);
		break;
	case LOG_END:
		s = state_session(t, r->client_id);
		if (s != NULL)
			state_session_drop(t, s);
		break;
	case LOG_COUNTER:
		state_set_counter(t, e, r->value);
		break;
	case LOG_BLOB:
		state_set_blob(t, e, data, r->data_len, r->data_crc);
		break;
	case LOG_SESSION:
		s->seq = r->seq;
		s->value = r->value;
		s->rc = -(int)(r->data_len & 0xfff);
		break;
	case LOG_MARK:
		break;
	}
	if (e != NULL)
		state_entry_settle(t, e);
	t->unmarked = log_kind_is_change(r->kind) && r->kind != LOG_MARK;
	t->number = r->number;
	t->chain = r->header_crc;
	return 0;
}

static int read_records(struct recovery *v)
{
	for (;;) {
		struct log_record r;
		const uint8_t *bytes = NULL;
		int rc = read_record(v, &r, &bytes);
		if (rc < 0 || bytes == NULL)
			return rc;
		if (v->offset >= v->head.snapshot_end && r.durable > v->durable) {
			v->durable = r.durable;
			v->tail_offset = v->offset;
			v->tail_number = v->t->number;
			v->tail_chain = v->t->chain;
		}
		rc = apply_record(v, &r, (const char *)bytes + LOG_RECORD_BYTES);
		if (rc < 0)
			return rc;
		v->offset += log_record_size(&r);
		if (v->offset == v->head.snapshot_end)
			v->tail_chain = v->t->chain;
	}
}

/* Whether a record anywhere behind says that the one that is not whole was synced. */
static int find_witness(struct recovery *v, bool *found)
{
	*found = false;
	for (uint64_t at = v->offset; at < v->w.size && !*found; at += 8) {
		struct log_record r;
		const uint8_t *bytes = NULL;
		size_t len = 0;
		int rc = window_at(&v->w, at, LOG_RECORD_BYTES + LOG_NAME_MAX, &bytes, &len);
		if (rc < 0)
			return rc;
		*found = log_record_read(&r, bytes, len, v->head.salt) == 0 &&
			 log_kind_is_change(r.kind) && r.durable > v->t->number;
	}
	return 0;
}

/* --- one reading ------------------------------------------------------------------------------ */

/* Reads all of the file anew. 0: v and the state are what was found, or v->damaged. */
static int scan(struct recovery *v)
{
	struct tally *t = v->t;
	const uint8_t *at = NULL;
	size_t len = 0;
	state_reset(t);
	v->w.start = 0;
	v->w.len = 0;
	v->offset = 0;
	v->head = (struct log_file_header){0};
	v->damaged = true;
	int rc = window_at(&v->w, 0, LOG_FILE_HEADER_BYTES, &at, &len);
	if (rc < 0)
		return rc;
	rc = len < LOG_FILE_HEADER_BYTES ? -EBADMSG : log_file_header_read(&v->head, at);
	if (rc < 0)
		return rc == -EBADMSG ? 0 : rc;
	t->salt = v->head.salt;
	t->chain = (uint32_t)v->head.salt;
	t->number = v->head.base;
	t->unmarked = false;
	v->offset = LOG_FILE_HEADER_BYTES;
	v->durable = v->head.base;
	v->tail_offset = v->head.snapshot_end;
	v->tail_number = v->head.base;
	v->tail_chain = t->chain;
	rc = read_records(v);
	if (rc == 0 && v->offset >= v->head.snapshot_end)
		rc = find_witness(v, &v->damaged);
	return rc;
}

/* Reads until nothing is wrong with the file, or twice the same: a disk that gives wrong bytes once
 * must not cost what is there. */
static int scan_surely(struct recovery *v)
{
	for (unsigned i = 0; i < SCANS_MAX; i++) {
		struct log_file_header head = v->head;
		uint64_t offset = v->offset;
		bool damaged = v->damaged;
		int rc = scan(v);
		if (rc < 0)
			return rc;
		if (!v->damaged && v->offset == v->w.size)
			return 0;
		if (i > 0 && v->damaged == damaged && v->offset == offset &&
		    v->head.salt == head.salt && v->head.snapshot_end == head.snapshot_end)
			return 0;
	}
	log_error("tally_log_unsteady", "dir=%s", v->t->dir);
	return -EIO;
}

/* --- the tail --------------------------------------------------------------------------------- */

/* The tail's bytes, each record checked once more: they will be written. */
static int read_tail(struct recovery *v, uint8_t *out)
{
	struct tally *t = v->t;
	const uint64_t end = v->offset;
	const uint64_t number = t->number;
	t->number = v->tail_number;
	t->chain = v->tail_chain;
	v->offset = v->tail_offset;
	while (v->offset < end) {
		struct log_record r;
		const uint8_t *bytes = NULL;
		int rc = read_record(v, &r, &bytes);
		if (rc < 0)
			return rc;
		if (bytes == NULL || log_record_size(&r) > end - v->offset)
			return -EIO;
		memcpy(out + (v->offset - v->tail_offset), bytes, log_record_size(&r));
		v->offset += log_record_size(&r);
		t->number = r.number;
		t->chain = r.header_crc;
	}
	return t->number == number ? 0 : -EIO;
}

/* Cut off what is torn, and write again what was perhaps never synced. */
static int settle_tail(struct recovery *v)
{
	size_t len = v->offset - v->tail_offset;
	if (len == 0 && v->offset == v->w.size)
		return 0;
	AUTO_FREE uint8_t *bytes = malloc(len + 1);
	if (bytes == NULL)
		return -ENOMEM;
	int rc = read_tail(v, bytes);
	if (rc == 0 && len > 0)
		rc = rt_file_write(v->w.file, bytes, len, v->tail_offset);
	if (rc == 0 && v->offset < v->w.size)
		rc = rt_file_truncate(v->w.file, v->offset);
	return rc < 0 ? rc : rt_file_sync(v->w.file);
}

static int recover_from(struct recovery *v)
{
	struct tally *t = v->t;
	int rc = scan_surely(v);
	if (rc < 0)
		return rc;
	if (v->damaged) {
		log_error("tally_log_damaged", "dir=%s offset=%llu", t->dir,
			  (unsigned long long)v->offset);
		return -EBADMSG;
	}
	if (v->offset < v->w.size)
		log_warn("tally_log_tail_cut", "dir=%s bytes=%llu", t->dir,
			 (unsigned long long)(v->w.size - v->offset));
	t->end = v->offset;
	return settle_tail(v);
}

int tally_recover(struct tally *t)
{
	struct recovery v = {.t = t, .w.file = t->log->file};
	int rc = rt_file_size(v.w.file, &v.w.size);
	if (rc < 0)
		return rc;
	v.w.bytes = malloc(WINDOW_BYTES);
	if (v.w.bytes == NULL)
		return -ENOMEM;
	rc = recover_from(&v);
	free(v.w.bytes);
	return rc;
}
