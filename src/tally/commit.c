// SPDX-License-Identifier: Apache-2.0
/*
 * Changes wait in a queue; the committer takes what is there, writes it with one write, syncs once,
 * applies it and wakes those who wait: the next batch gathers meanwhile.
 *
 * A change outlives the fiber that asked for it, which may be cancelled: it is counted.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/err.h"
#include "base/log.h"
#include "tally/store.h"

#define QUEUE_MAX 1024
#define MARK_IDLE_NS NS_PER_S
#define BATCH_MAX 256
#define BATCH_PIECES (RT_IOV_MAX - 3)
#define BATCH_HEADS ((size_t)(64 * KIB)) /* headers, names and padding */

struct batch {
	struct list changes;
	size_t count;
	uint64_t bytes;
	uint64_t number; /* after it */
	uint32_t chain;
	struct iovec pieces[RT_IOV_MAX];
	int piece_count;
	size_t heads_used;
	uint8_t heads[BATCH_HEADS];
};

/* --- asking ---------------------------------------------------------------------------------- */

static void change_unref(struct change *c)
{
	if (--c->refs > 0)
		return;
	buf_unref(c->data);
	free(c);
}

static void change_finish(struct tally *t, struct change *c, int rc)
{
	struct session *s = c->session;
	s->pending--;
	if (c->kind == LOG_END) {
		s->ending = false;
		t->sessions_ending--;
	}
	/* Ended, or nothing of it was ever applied. */
	if ((c->kind == LOG_END && rc == 0) || (s->seq == 0 && s->pending == 0))
		state_session_drop(t, s);
	if (c->entry != NULL) {
		c->entry->pending--;
		state_entry_settle(t, c->entry);
	}
	t->reserved_bytes -= c->data_len;
	c->rc = rc;
	c->done = true;
	rt_cond_broadcast(&c->wake);
	change_unref(c);
}

static struct change *queue_find(struct tally *t, const struct session *s, uint64_t seq)
{
	struct change *c;
	if (s->pending == 0)
		return NULL;
	list_for_each_entry(c, &t->queue, link) {
		if (c->session == s && c->seq == seq)
			return c;
	}
	return NULL;
}

static int change_wait(struct change *c, int64_t *value)
{
	int rc = 0;
	c->refs++;
	while (!c->done && rc == 0)
		rc = rt_cond_wait(&c->wake);
	if (c->done)
		rc = c->rc;
	*value = c->value;
	change_unref(c);
	return rc;
}

static int check_change(const struct tally_change *c, size_t *name_len)
{
	*name_len = strlen(c->name);
	if (c->client_id == 0 || c->seq == 0 || *name_len == 0)
		return -EINVAL;
	return *name_len > TALLY_NAME_MAX ? -ENAMETOOLONG : 0;
}

static int queue_room(struct tally *t)
{
	while (t->failed == 0 && t->queue_count >= QUEUE_MAX) {
		int rc = rt_cond_wait(&t->room);
		if (rc < 0)
			return rc;
	}
	return t->failed != 0 ? -EIO : 0;
}

/* Space for the change, and for a name that is perhaps new, within the store's limits. */
static int check_space(const struct tally *t, size_t name_len, uint64_t data_len)
{
	uint64_t more = LOG_RECORD_BYTES + name_len + data_len;
	if (t->live_bytes + t->reserved_bytes + more > t->opts.size_max_bytes)
		return -ENOSPC;
	/* When compaction cannot help, the log must not grow for ever. */
	return t->end > 4 * max_u64(t->opts.size_max_bytes, t->opts.compact_min_bytes) ? -ENOSPC
										       : 0;
}

static int queue_push(struct tally *t, const struct change *model, struct change **out)
{
	struct change *c = malloc(sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	*c = *model;
	c->refs = 1;
	rt_cond_init(&c->wake);
	if (c->data != NULL)
		buf_ref(c->data);
	c->session->pending++;
	if (c->entry != NULL)
		c->entry->pending++;
	t->reserved_bytes += c->data_len;
	list_push_back(&t->queue, &c->link);
	t->queue_count++;
	rt_cond_signal(&t->work);
	*out = c;
	return 0;
}

static int queue_add(struct tally *t, struct change *model, const char *name, size_t name_len,
		     struct change **out)
{
	int rc = check_space(t, name_len, model->data_len);
	if (rc == 0)
		rc = state_entry_add(t, name, name_len, &model->entry);
	if (rc < 0)
		return rc;
	rc = queue_push(t, model, out);
	if (rc < 0)
		state_entry_settle(t, model->entry);
	return rc;
}

/* --- sessions -------------------------------------------------------------------------------- */

/* The session has nothing in the queue, and from now on takes nothing. */
static int queue_end(struct tally *t, struct session *s, struct change **out)
{
	struct change model = {.kind = LOG_END, .session = s};
	int rc = queue_push(t, &model, out);
	if (rc < 0)
		return rc;
	s->ending = true;
	t->sessions_ending++;
	return 0;
}

/* Room for one more. The end of an idle one is a change like others, in the log before those of the
 * one that takes its place: recovery does not look at clocks or limits. */
static int session_make_room(struct tally *t)
{
	struct session *s;
	struct change *c = NULL;
	if (map_count(&t->sessions) - t->sessions_ending < t->opts.session_max)
		return 0;
	list_for_each_entry(s, &t->sessions_lru, link) {
		if (s->pending > 0)
			continue;
		if (rt_now_ns() - s->used_ns < t->opts.session_idle_ns)
			return -EBUSY;
		return queue_end(t, s, &c);
	}
	return -EBUSY;
}

static int session_get(struct tally *t, uint64_t client_id, struct session **out)
{
	*out = state_session(t, client_id);
	if (*out != NULL)
		return (*out)->ending ? -EBUSY : 0;
	int rc = session_make_room(t);
	return rc < 0 ? rc : state_session_add(t, client_id, out);
}

int tally_end(struct tally *t, uint64_t client_id)
{
	struct change *c = NULL;
	int64_t value = 0;
	int rc = queue_room(t);
	if (rc < 0)
		return rc;
	struct session *s = state_session(t, client_id);
	if (s == NULL)
		return 0;
	if (s->pending > 0)
		return -EBUSY;
	rc = queue_end(t, s, &c);
	return rc < 0 ? rc : change_wait(c, &value);
}

/* --- changes --------------------------------------------------------------------------------- */

static int change_submit(struct tally *t, const struct tally_change *named, struct change *model,
			 int64_t *value)
{
	size_t name_len = 0;
	*value = 0;
	int rc = check_change(named, &name_len);
	if (rc == 0)
		rc = queue_room(t);
	struct session *s = NULL;
	if (rc == 0)
		rc = session_get(t, named->client_id, &s);
	if (rc != 0)
		return rc;
	assert(s != NULL);
	if (named->seq < s->seq)
		return -ESTALE;
	if (named->seq == s->seq) {
		*value = s->value;
		return s->rc;
	}
	struct change *c = queue_find(t, s, named->seq);
	if (c == NULL) {
		model->session = s;
		model->seq = named->seq;
		rc = queue_add(t, model, named->name, name_len, &c);
	}
	if (rc < 0 && s->seq == 0 && s->pending == 0)
		state_session_drop(t, s);
	return rc < 0 ? rc : change_wait(c, value);
}

int tally_add(struct tally *t, const struct tally_change *c, int64_t delta, int64_t *value)
{
	struct change model = {.kind = LOG_ADD, .delta = delta};
	return change_submit(t, c, &model, value);
}

int tally_put(struct tally *t, const struct tally_change *c, struct buf *b, size_t len,
	      uint32_t crc)
{
	if (len > TALLY_BLOB_MAX)
		return -EMSGSIZE;
	struct change model = {
		.kind = LOG_PUT, .data = b, .data_len = (uint32_t)len, .data_crc = crc};
	int64_t value = 0;
	return change_submit(t, c, &model, &value);
}

/* --- committing ------------------------------------------------------------------------------ */

static void batch_piece(struct batch *b, const void *data, size_t len)
{
	struct iovec *last = b->piece_count > 0 ? &b->pieces[b->piece_count - 1] : NULL;
	if (len == 0)
		return;
	if (last != NULL && (const uint8_t *)last->iov_base + last->iov_len == data)
		last->iov_len += len;
	else
		b->pieces[b->piece_count++] =
			(struct iovec){.iov_base = (void *)data, .iov_len = len};
	b->bytes += len;
}

static void batch_write_record(struct tally *t, struct batch *b, struct change *c)
{
	static const uint8_t zeroes[8];
	struct log_record r = {
		.kind = c->kind,
		.name_len = c->entry != NULL ? c->entry->name_len : 0,
		.number = ++b->number,
		.durable = t->number,
		.client_id = c->session->client_id,
		.seq = c->seq,
		.value = c->delta,
		.data_len = c->data_len,
		.data_crc = c->data_crc,
		.chain = b->chain,
	};
	uint8_t *head = b->heads + b->heads_used;
	size_t head_len =
		log_record_write(head, &r, c->entry != NULL ? c->entry->name : "", t->salt);
	b->chain = r.header_crc;
	b->heads_used += head_len;
	batch_piece(b, head, head_len);
	c->data_offset = t->end + b->bytes;
	if (c->data_len > 0)
		batch_piece(b, c->data->data, c->data_len);
	size_t padding = log_record_size(&r) - head_len - c->data_len;
	memcpy(b->heads + b->heads_used, zeroes, padding);
	batch_piece(b, b->heads + b->heads_used, padding);
	b->heads_used += padding;
}

/* As much of the queue as fits. */
static void batch_take(struct tally *t, struct batch *b)
{
	list_init(&b->changes);
	b->count = 0;
	b->bytes = 0;
	b->number = t->number;
	b->chain = t->chain;
	b->piece_count = 0;
	b->heads_used = 0;
	while (!list_empty(&t->queue) && b->count < BATCH_MAX && b->piece_count < BATCH_PIECES &&
	       BATCH_HEADS - b->heads_used > LOG_RECORD_BYTES + LOG_NAME_MAX + 8 &&
	       b->bytes < BATCH_BYTES_MAX) {
		struct change *c = list_entry(list_pop_front(&t->queue), struct change, link);
		t->queue_count--;
		list_push_back(&b->changes, &c->link);
		b->count++;
		batch_write_record(t, b, c);
	}
	rt_cond_broadcast(&t->room);
}

static void change_apply(struct tally *t, struct change *c)
{
	struct session *s = c->session;
	if (c->kind == LOG_END) {
		change_finish(t, c, 0);
		return;
	}
	if (c->kind == LOG_ADD)
		state_apply_add(t, s, c->seq, c->entry, c->delta);
	else
		state_apply_put(t, s, c->seq, c->entry, c->data_offset, c->data_len, c->data_crc);
	if (s->seq == c->seq) {
		c->value = s->value;
		change_finish(t, c, s->rc);
	} else {
		change_finish(t, c, -ESTALE);
	}
}

static void batch_apply(struct tally *t, struct batch *b)
{
	t->end += b->bytes;
	t->number = b->number;
	t->chain = b->chain;
	t->unmarked = true;
	struct list *node;
	while ((node = list_pop_front(&b->changes)) != NULL)
		change_apply(t, list_entry(node, struct change, link));
}

static void batch_fail(struct tally *t, struct batch *b, int rc)
{
	struct list *node;
	while ((node = list_pop_front(&b->changes)) != NULL)
		change_finish(t, list_entry(node, struct change, link), rc);
}

/* A failed write leaves the log's end where it is: the next batch goes over whatever came of it. */
static int batch_commit(struct tally *t, struct batch *b)
{
	int rc = rt_file_writev(t->log->file, b->pieces, b->piece_count, t->end);
	if (rc < 0) {
		batch_fail(t, b, rc);
		return rc == -ECANCELED ? rc : 0;
	}
	if (bug_planted(BUG_ACK_BEFORE_SYNC)) {
		batch_apply(t, b);
		return rt_file_sync(t->log->file);
	}
	rc = rt_file_sync(t->log->file);
	t->stat.commits++;
	if (rc < 0) {
		tally_fail(t, rc);
		batch_fail(t, b, -EIO);
		return rc;
	}
	batch_apply(t, b);
	return 0;
}

void tally_fail(struct tally *t, int rc)
{
	if (t->failed != 0)
		return;
	if (rc != -ECANCELED && rc != -ESHUTDOWN)
		log_error("tally_failed", "dir=%s err=%s", t->dir, err_name(rc));
	t->failed = rc;
	rt_cond_broadcast(&t->room);
	rt_cond_broadcast(&t->failure);
}

/* Writes down that all so far was synced. When it cannot be written nothing is lost by that. */
static int commit_mark(struct tally *t)
{
	uint8_t bytes[LOG_RECORD_BYTES];
	struct log_record r = {
		.kind = LOG_MARK, .number = t->number, .durable = t->number, .chain = t->chain};
	t->unmarked = false;
	log_record_write(bytes, &r, "", t->salt);
	int rc = rt_file_write(t->log->file, bytes, sizeof(bytes), t->end);
	if (rc < 0)
		return rc == -ECANCELED ? rc : 0;
	rc = rt_file_sync(t->log->file);
	if (rc < 0) {
		tally_fail(t, rc);
		return rc;
	}
	t->end += sizeof(bytes);
	t->chain = r.header_crc;
	return 0;
}

/* Nothing is queued. */
static int commit_idle(struct tally *t)
{
	if (!t->unmarked)
		return t->closing ? -ESHUTDOWN : rt_cond_wait(&t->work);
	if (t->closing)
		return commit_mark(t);
	rt_deadline_set(rt_now_ns() + MARK_IDLE_NS);
	int rc = rt_cond_wait(&t->work);
	rt_deadline_set(RT_NEVER);
	return rc == -ETIME ? commit_mark(t) : rc;
}

static int commit_step(struct tally *t, struct batch *b)
{
	if (list_empty(&t->queue))
		return commit_idle(t);
	batch_take(t, b);
	int rc = batch_commit(t, b);
	if (rc == 0 && t->end >= t->compact_at && t->end > 2 * t->live_bytes)
		rc = tally_compact(t);
	return t->failed != 0 ? t->failed : rc == -ECANCELED ? rc : 0;
}

static void commit_main(void *arg)
{
	struct tally *t = arg;
	rt_deadline_set(RT_NEVER);
	struct batch *b = malloc(sizeof(*b));
	int rc = b != NULL ? 0 : -ENOMEM;
	while (rc == 0)
		rc = commit_step(t, b);
	free(b);
	tally_fail(t, rc);
	struct list *node;
	while ((node = list_pop_front(&t->queue)) != NULL)
		change_finish(t, list_entry(node, struct change, link), -EIO);
	t->queue_count = 0;
}

int commit_start(struct tally *t)
{
	return rt_spawn(&t->committer, "tally-commit", commit_main, t);
}

void commit_stop(struct tally *t)
{
	t->closing = true;
	rt_cond_broadcast(&t->work);
	if (t->committer != NULL)
		rt_join(t->committer);
}
