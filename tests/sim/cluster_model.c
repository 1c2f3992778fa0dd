// SPDX-License-Identifier: Apache-2.0
#include "cluster_model.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/le.h"
#include "base/rng.h"

#define RECORD_MAGIC 0x5245434f52443031ULL

void model_violation(struct model *m, const char *invariant, const char *fmt, ...)
{
	va_list args;
	assert(invariant[0] == 'I');
	if (model_violated(m))
		return;
	int n = snprintf(m->violation, VIOLATION_BYTES, "%s: ", invariant);
	va_start(args, fmt);
	vsnprintf(m->violation + n, VIOLATION_BYTES - (size_t)n, fmt, args);
	va_end(args);
}

void model_note(struct model *m, const char *fmt, ...)
{
	char text[128];
	va_list args;
	if (m->note == NULL)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	m->note(m->note_ctx, text);
}

/* --- contents --------------------------------------------------------------------------------- */

static uint64_t text_word(uint64_t text, uint64_t word)
{
	return mix_u64(text * 0x9e3779b97f4a7c15ULL + word);
}

void text_fill(uint64_t text, uint64_t off, void *bytes, size_t len)
{
	uint8_t *to = bytes;
	for (size_t i = 0; i < len;) {
		uint64_t word = text_word(text, (off + i) / 8);
		for (uint64_t b = (off + i) % 8; b < 8 && i < len; b++)
			to[i++] = (uint8_t)(word >> (8 * b));
	}
}

bool text_same(uint64_t text, uint64_t off, const void *bytes, size_t len)
{
	const uint8_t *is = bytes;
	for (size_t i = 0; i < len;) {
		uint64_t word = text_word(text, (off + i) / 8);
		for (uint64_t b = (off + i) % 8; b < 8 && i < len; b++)
			if (is[i++] != (uint8_t)(word >> (8 * b)))
				return false;
	}
	return true;
}

/* --- changes ---------------------------------------------------------------------------------- */

void model_begin(struct model *m, struct model_file *f, const char *what)
{
	assert(!f->in_doubt);
	f->state = MODEL_MAYBE;
	f->changes++;
	f->contents[f->version].text = f->text;
	f->contents[f->version].size = f->size;
	model_note(m, "%s %s (%lu bytes)", what, f->path, f->size);
}

void model_end(struct model *m, struct model_file *f, enum model_state now)
{
	assert(now == MODEL_THERE || now == MODEL_GONE);
	f->state = now;
	f->changes++;
	m->acknowledged++;
	model_note(m, "%s %s", f->path, now == MODEL_THERE ? "exists" : "is removed");
}

void model_set_in_doubt(struct model *m, struct model_file *f, int rc)
{
	f->in_doubt = true;
	f->changes++;
	model_note(m, "%s is in doubt: %s", f->path, err_name(rc));
}

void model_rename_begin(struct model *m, struct model_file *from, struct model_file *to)
{
	assert(from != to && from->twin == NULL && to->twin == NULL);
	to->text = from->text;
	to->size = from->size;
	to->size_max = from->size_max;
	to->log = from->log;
	to->sealed = from->sealed;
	from->twin = to;
	to->twin = from;
	model_begin(m, from, "rename from");
	model_begin(m, to, "rename to");
}

void model_rename_end(struct model *m, struct model_file *from, struct model_file *to, int rc)
{
	if (rc != 0) {
		model_set_in_doubt(m, from, rc);
		model_set_in_doubt(m, to, rc);
		return;
	}
	from->twin = NULL;
	to->twin = NULL;
	model_end(m, from, MODEL_GONE);
	model_end(m, to, MODEL_THERE);
}

void model_replace_begin(struct model *m, struct model_file *f, uint64_t text, uint64_t size)
{
	assert(!f->alt && f->version + 1 < VERSIONS_MAX);
	f->alt = true;
	f->contents[f->version + 1].text = text;
	f->contents[f->version + 1].size = size;
	f->changes++;
	model_note(m, "replace %s (%lu bytes)", f->path, size);
}

void model_replace_end(struct model *m, struct model_file *f, int rc)
{
	if (rc != 0) {
		model_set_in_doubt(m, f, rc);
		return;
	}
	assert(f->alt);
	f->alt = false;
	f->version++;
	f->text = f->contents[f->version].text;
	f->size = f->size_max = f->contents[f->version].size;
	model_end(m, f, MODEL_THERE);
}

void model_rename_onto_begin(struct model *m, struct model_file *from, struct model_file *to)
{
	assert(from != to && from->onto == NULL);
	from->onto = to;
	model_begin(m, from, "rename from");
	model_replace_begin(m, to, from->text, from->size);
}

void model_rename_onto_end(struct model *m, struct model_file *from, struct model_file *to, int rc)
{
	model_replace_end(m, to, rc);
	if (rc != 0) {
		model_set_in_doubt(m, from, rc);
		return;
	}
	from->onto = NULL;
	model_end(m, from, MODEL_GONE);
}

void model_append_begin(struct model *m, struct model_file *f, uint64_t len)
{
	assert(f->log && f->size == f->size_max);
	f->size_max = f->size + len;
	f->changes++;
	model_note(m, "append to %s at %lu: %lu bytes", f->path, f->size, len);
}

void model_append_end(struct model *m, struct model_file *f, int rc)
{
	f->changes++;
	model_note(m, "%s: append: %s", f->path, err_name(rc));
	if (rc != 0)
		return;
	f->size = f->size_max;
	m->acknowledged++;
}

void model_log_found(struct model *m, struct model_file *f, uint64_t size)
{
	if (size < f->size)
		model_violation(m, "I1",
				"%s: a new writer found %lu bytes, but %lu were acknowledged",
				f->path, size, f->size);
	if (size > f->size_max)
		model_violation(m, "I1",
				"%s: a new writer found %lu bytes, but only %lu were written",
				f->path, size, f->size_max);
	f->size = f->size_max = size;
	f->changes++;
	model_note(m, "%s: taken over, %lu bytes", f->path, size);
}

/* --- what clients may see ----------------------------------------------------------------------------- */

void model_check_refusal(struct model *m, const struct model_file *f, const char *what, int rc)
{
	if (rc == -ENOENT && f->state == MODEL_THERE)
		model_violation(m, "I1", "%s of %s, which exists: %s", what, f->path, err_name(rc));
	if (rc == -ENOENT && f->state == MODEL_NEVER)
		model_violation(m, "I6", "%s of %s, whose directory exists: %s", what, f->path,
				err_name(rc));
	if (rc == -EEXIST && (f->state == MODEL_NEVER || f->state == MODEL_GONE))
		model_violation(m, f->state == MODEL_GONE ? "I3" : "I6",
				"%s of %s, which does not exist: %s", what, f->path, err_name(rc));
}

/* Returns which of the contents that the file may have had since `before` these bytes are, or -1. */
static int content_of(const struct model_file *before, const struct model_file *f,
		      const void *bytes, uint64_t len)
{
	for (unsigned v = before->version; v <= f->version + f->alt; v++)
		if (text_same(f->contents[v].text, 0, bytes, len) &&
		    (f->log || len == f->contents[v].size))
			return (int)v;
	return -1;
}

static void check_log_length(struct model *m, const struct model_file *before,
			     const struct model_file *f, uint64_t len)
{
	if (len < before->size)
		model_violation(m, "I1", "%s: a read returned %lu of %lu acknowledged bytes",
				f->path, len, before->size);
	/* A reader with an open handle also reads what is appended after the file was renamed. */
	if (len > f->size_max && f->state == MODEL_THERE)
		model_violation(m, f->sealed ? "I4" : "I1",
				"%s: a read returned %lu bytes, but only %lu were written", f->path,
				len, f->size_max);
}

void model_check_read(struct model *m, const struct model_file *before, const struct model_file *f,
		      int64_t rc, const void *bytes, bool quiet)
{
	bool same = before->changes == f->changes;
	m->reads++;
	if (rc < 0) {
		m->reads_failed++;
		bool there = before->state == MODEL_THERE;
		if (!same)
			return;
		if (rc == -ENOENT && there)
			model_violation(m, "I1", "%s exists, but a read did not find it", f->path);
		else if (rc != -ENOENT && quiet && (there || before->state == MODEL_MAYBE))
			model_violation(m, "I1", "%s cannot be read: %s", f->path,
					err_name((int)rc));
		return;
	}
	if (same && (before->state == MODEL_GONE || before->state == MODEL_NEVER))
		model_violation(m, "I3", "%s does not exist, but a read returned bytes", f->path);
	if (content_of(before, f, bytes, (uint64_t)rc) < 0)
		model_violation(m, "I1",
				"%s: a read returned %ld bytes that were never written there",
				f->path, rc);
	else if (f->log)
		check_log_length(m, before, f, (uint64_t)rc);
}

void model_check_twins(struct model *m, const struct model_file *f, bool there, bool twin_there)
{
	if (there == twin_there)
		model_violation(m, "I6", "%s was renamed to %s: %s", f->path, f->twin->path,
				there ? "both exist" : "neither exists");
}

void model_check_onto(struct model *m, const struct model_file *f, bool there, const void *bytes,
		      uint64_t len)
{
	bool old = text_same(f->onto->text, 0, bytes, len) && len == f->onto->size;
	bool new = text_same(f->text, 0, bytes, len) && len == f->size;
	if ((there && !old) || (!there && !new))
		model_violation(m, "I6", "%s was renamed onto %s: %s", f->path, f->onto->path,
				there ? "both exist" : "neither exists");
}

void model_check_dir(struct model *m, const struct model_dir *d, bool found, bool twin_found)
{
	if (d->in_doubt && d->twin != NULL && found == twin_found)
		model_violation(m, "I6", "%s was moved to %s: %s", d->path, d->twin->path,
				found ? "both exist" : "neither exists");
	if (!d->in_doubt && found != d->there)
		model_violation(m, d->there ? "I1" : "I3", "%s %s, but %s found", d->path,
				d->there ? "exists" : "was removed", found ? "was" : "was not");
}

void model_check_stat(struct model *m, const struct model_file *before, const struct model_file *f,
		      uint64_t size, bool sealed)
{
	if (before->changes != f->changes || f->in_doubt || f->alt)
		return;
	if (before->state == MODEL_GONE)
		model_violation(m, "I3", "%s was removed, but a stat finds it", f->path);
	if (f->sealed && !sealed)
		model_violation(m, "I4", "%s was sealed, but a stat says that it is not", f->path);
	if (f->sealed && size != f->size)
		model_violation(m, "I4", "%s: has %lu bytes, but was sealed with %lu", f->path,
				size, f->size);
	if (size < f->size || size > f->size_max)
		model_violation(m, "I1", "%s has %lu bytes, not %lu", f->path, size, f->size);
}

/* --- a log of many writers -------------------------------------------------------------------- */

void shared_open_begin(struct shared_log *l, struct shared_handle *h)
{
	h->begun = ++l->tick;
	h->opened = 0;
}

void shared_open_end(struct model *m, struct shared_log *l, struct shared_handle *h,
		     unsigned writer)
{
	h->opened = ++l->tick;
	l->taken = max_u64(l->taken, h->begun);
	model_note(m, "%s: writer %u has taken over", l->path, writer);
}

static void record_fill(const struct shared_log *l, unsigned writer, uint32_t record,
			uint8_t bytes[RECORD_BYTES])
{
	uint64_t id = (l->number << 40) + ((uint64_t)writer << 32) + record;
	put_u64(bytes, RECORD_MAGIC);
	put_u64(bytes + 8, id);
	text_fill(id, 16, bytes + 16, RECORD_BYTES - 16);
}

uint32_t shared_append_begin(struct shared_log *l, const struct shared_handle *h, unsigned writer,
			     uint8_t bytes[RECORD_BYTES])
{
	assert(writer < SHARED_WRITERS && h->opened > 0);
	uint32_t record = l->next[writer];
	if (record == RECORDS_MAX)
		return record;
	l->next[writer]++;
	l->records[writer][record] =
		(struct model_record){.fate = RECORD_DOUBT, .fenced = l->taken > h->opened};
	l->tick++;
	record_fill(l, writer, record, bytes);
	return record;
}

void shared_append_end(struct model *m, struct shared_log *l, unsigned writer, uint32_t record,
		       int rc)
{
	assert(writer < SHARED_WRITERS && record < l->next[writer]);
	struct model_record *r = &l->records[writer][record];
	assert(r->fate == RECORD_DOUBT);
	model_note(m, "%s: record %u of writer %u: %s", l->path, record, writer, err_name(rc));
	if (rc != 0)
		return;
	if (r->fenced)
		model_violation(m, "I5",
				"%s: an append of writer %u was acknowledged after another writer "
				"took over",
				l->path, writer);
	r->fate = RECORD_ACKED;
	m->acknowledged++;
}

static bool record_known(const struct shared_log *l, const uint8_t *bytes, unsigned *writer,
			 uint32_t *record)
{
	uint8_t want[RECORD_BYTES];
	uint64_t id = get_u64(bytes + 8);
	*writer = (unsigned)(id >> 32 & 0xff);
	*record = (uint32_t)id;
	if (*writer >= SHARED_WRITERS || *record >= RECORDS_MAX)
		return false;
	record_fill(l, *writer, *record, want);
	return memcmp(bytes, want, RECORD_BYTES) == 0;
}

void shared_check(struct model *m, const struct shared_log *before, const struct shared_log *l,
		  const uint8_t *bytes, uint64_t len)
{
	bool *seen = calloc(SHARED_WRITERS, RECORDS_MAX);
	uint32_t last[SHARED_WRITERS] = {0};
	if (seen == NULL)
		abort();
	if (len % RECORD_BYTES != 0)
		model_violation(m, "I1", "%s has %lu bytes, which is not a multiple of a record",
				l->path, len);
	for (uint64_t at = 0; at + RECORD_BYTES <= len; at += RECORD_BYTES) {
		unsigned writer;
		uint32_t record;
		if (!record_known(l, bytes + at, &writer, &record) ||
		    l->records[writer][record].fate == RECORD_NONE) {
			model_violation(m, "I1",
					"%s: the bytes at %lu are no record that a client appended",
					l->path, at);
			break;
		}
		if (seen[writer * RECORDS_MAX + record])
			model_violation(m, "I5", "%s: record %u of writer %u is in the log twice",
					l->path, record, writer);
		if (record + 1 <= last[writer])
			model_violation(m, "I5", "%s: record %u of writer %u comes after %u",
					l->path, record, writer, last[writer] - 1);
		if (l->records[writer][record].fenced)
			model_violation(m, "I5", "%s: record %u of writer %u, which was fenced",
					l->path, record, writer);
		seen[writer * RECORDS_MAX + record] = true;
		last[writer] = record + 1;
	}
	for (unsigned w = 0; w < SHARED_WRITERS; w++)
		for (uint32_t r = 0; r < before->next[w]; r++)
			if (before->records[w][r].fate == RECORD_ACKED &&
			    !seen[w * RECORDS_MAX + r])
				model_violation(m, "I1",
						"%s: record %u of writer %u was acknowledged, "
						"but is missing",
						l->path, r, w);
	free(seen);
}
